//! One reconciler and everything hostile at once: files that are as expensive as a file may be, pushed again and again; a
//! webhook port full of strangers; a repository for status that drips. Another sync goes on, and the order to stop is heard.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::hooks::{MAIN, SECRET, signature};
use crate::support::fleet::MIGRATIONS;
use crate::support::git::{Http, Origin, Server};
use crate::support::replica::{CONFIG_MAPS, Replica, Stage};

/// Nothing is polled for: the reconciler hears of a push by its webhook port alone.
const CONFIG: &str = "apiVersion: cutover.dev/v1alpha1\nkind: Config\ninterval: 1h\n\
                      syncs: [{name: shop, path: shop}, {name: hostile, path: hostile}]\n";
const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
/// How many seconds an ordinary push and the end may take, for a build and a machine of which that is to be known.
const WITHIN: &str = "CUTOVER_FLOOD_WITHIN";
/// What it takes on a machine with nothing else to do is in docs/explanation/security.md; other tests run beside this one.
const IN_TIME: Duration = Duration::from_mins(1);
/// Far less than the grace period, which is for what can't be broken off.
const ENDS: Duration = Duration::from_secs(15);
const IDLE: usize = 300;
const FORGERS: usize = 2;
const MOVE: &str = "endless";
/// So few descriptors are left to the program: fewer than there are strangers.
const DESCRIPTORS: u32 = 192;

fn within(otherwise: Duration) -> Duration {
    let asked = std::env::var(WITHIN).ok();
    asked.map_or(otherwise, |seconds| Duration::from_secs(seconds.parse().unwrap()))
}

fn map(text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: orders, namespace: shop}}\ndata: {{text: {text}}}\n"
    )
}

/// Files that cost what a file may cost, and give nothing: each is broken in its last line.
fn hostile(round: usize) -> Vec<(String, String)> {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x]\n");
    for level in 1..30 {
        let copies = format!("*a{}, ", level - 1).repeat(8);
        let _ = writeln!(bomb, "a{level}: &a{level} [{copies}]");
    }
    let mut many = format!("round: {round}\n");
    for key in 0..100_000 {
        let _ = writeln!(many, "k{key}: v");
    }
    many.push_str("k0: again\n");
    let mut files = vec![
        ("hostile/bomb.yaml".to_owned(), format!("{bomb}# {round}\n")),
        ("hostile/keys.yaml".to_owned(), keys(round)),
        ("hostile/loops.yaml".to_owned(), loops()),
    ];
    files.extend((0..4).map(|file| (format!("hostile/{file}.yaml"), format!("# {file}\n{many}"))));
    files
}

/// What takes the redaction long: it looks for the end of each key, in the text of an error.
fn keys(round: usize) -> String {
    let begin = "-----BEGIN RSA PRIVATE KEY-----";
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{}\"}}\n# {round}\n",
        begin.repeat(10_000)
    )
}

/// A profile whose expressions take all of their budget, and a move that has them evaluated at every look.
fn loops() -> String {
    let all = format!("[{}]", "1,".repeat(60));
    let open: String = (0..8).map(|level| format!("{all}.all(x{level}, ")).collect();
    let endless = format!("'{open}true{}'", ")".repeat(8));
    format!(
        "apiVersion: cutover.dev/v1alpha1\nkind: WorkloadProfile\nmetadata: {{name: loops}}\nspec:\n  \
         appliesTo: {{group: apps, kinds: [StatefulSet]}}\n  requires: [{{cel: {endless}, message: no}}]\n  stateful: true\n  \
         suspend: []\n  hold: []\n  start: []\n  restart: []\n  observedWhen: {endless}\n  suspendedWhen: {endless}\n  \
         healthyWhen: {endless}\n---\n\
         apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: a, namespace: shop}}\nspec: {{replicas: 1}}\n---\n\
         apiVersion: cutover.dev/v1alpha1\nkind: Migration\nmetadata: {{name: {MOVE}, namespace: shop}}\nspec:\n  \
         workload: {{apiVersion: apps/v1, kind: StatefulSet, name: a}}\n  profile: loops\n  to: west\n"
    )
}

struct Flood<'a> {
    origin: Mutex<&'a Origin>,
    hook: SocketAddr,
    is_over: AtomicBool,
}

impl Flood<'_> {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn push(&self, files: &[(String, String)]) {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        self.origin.lock().unwrap().commit("main", &files);
    }

    /// Sends a message as hosts do, which try again when a connection breaks; not for ever, or a reconciler that has died would
    /// keep the test.
    fn tell(&self) {
        let began = Instant::now();
        let goes_on = || self.goes_on() && began.elapsed() < IN_TIME;
        while goes_on() && !matches!(self.say(&signature(MAIN), MAIN), Ok(202)) {}
    }

    fn say(&self, signature: &str, body: &str) -> std::io::Result<u16> {
        let mut stream = TcpStream::connect(self.hook)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(
            stream,
            "POST /hook HTTP/1.1\r\nhost: it\r\nconnection: close\r\nx-github-event: push\r\n\
             x-hub-signature-256: sha256={signature}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        Ok(code.unwrap_or_default())
    }

    fn bombs(&self) {
        for round in 0.. {
            if !self.goes_on() {
                break;
            }
            self.push(&hostile(round));
            self.tell();
        }
    }

    fn forgeries(&self) {
        let forged = "0".repeat(64);
        while self.goes_on() {
            let _ = self.say(&forged, MAIN);
        }
    }

    fn idle(&self) {
        let mut open = VecDeque::new();
        while self.goes_on() {
            match TcpStream::connect_timeout(&self.hook, Duration::from_secs(1)) {
                Ok(stream) => open.push_back(stream),
                Err(_) => std::thread::yield_now(),
            }
            if open.len() > IDLE {
                open.pop_front();
            }
        }
    }
}

fn heard_at(replica: &Replica) -> Option<SocketAddr> {
    let said = replica.said();
    let (_, rest) = said.split_once("webhooks are heard at http://")?;
    rest.split_once("/hook")?.0.parse().ok()
}

fn start(stage: &Stage, http: &Server, drips: &Server) -> Replica {
    let secret = stage.dir().join("webhook-secret");
    std::fs::write(&secret, SECRET).unwrap();
    let status = drips.status();
    let status = status.address();
    let secret: &Path = &secret;
    let more = [
        "--webhook-listen",
        "127.0.0.1:0",
        "--webhook-secret-file",
        secret.to_str().unwrap(),
        "--status-repo",
        status,
    ];
    stage.start_with("one", &http.http(), &more, DESCRIPTORS)
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stderr)]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn another_sync_goes_on_and_the_order_to_stop_is_heard_beside_bombs_a_flood_and_a_slow_remote() {
    let stage = Stage::with(&[
        ("cutover.yaml", CONFIG),
        ("shop/namespace.yaml", NAMESPACE),
        ("shop/orders.yaml", &map("one")),
        ("hostile/none.yaml", "# nothing yet\n"),
    ])
    .await;
    let (http, drips) = (Http::of(stage.origin.root()).start(), Server::dripping());
    let replica = start(&stage, &http, &drips);
    let has = |text: &'static str| {
        move |stage: &Stage| {
            let maps = stage.objects(&CONFIG_MAPS);
            maps.iter().any(|map| map["data"]["text"] == text)
        }
    };
    stage.until("the first revision is applied", has("one")).await;
    let flood = Flood {
        origin: Mutex::new(&stage.origin),
        hook: heard_at(&replica).unwrap(),
        is_over: AtomicBool::new(false),
    };
    let flood = &flood;
    let (applied, ended) = std::thread::scope(|scope| {
        let _over = Over(flood);
        scope.spawn(|| flood.bombs());
        scope.spawn(|| flood.idle());
        for _ in 0..FORGERS {
            scope.spawn(|| flood.forgeries());
        }
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| {
            runtime.block_on(async {
                stage
                    .until("the bombs arrive", |_| replica.said().contains("bomb.yaml"))
                    .await;
                assert!(drips.connections() > 0, "nothing asks the slow remote");
                stage
                    .until("its expressions are evaluated", |stage| {
                        let moves = stage.objects(&MIGRATIONS);
                        moves
                            .iter()
                            .any(|it| it["metadata"]["name"] == MOVE && !it["status"]["phase"].is_null())
                    })
                    .await;
                let mut applied = Vec::new();
                for text in ["two", "three"] {
                    flood.push(&[("shop/orders.yaml".to_owned(), map(text))]);
                    // From when it is there: to commit it has to wait for the bombs, too.
                    let began = Instant::now();
                    flood.tell();
                    stage.until("the ordinary push is applied", has(text)).await;
                    applied.push(began.elapsed());
                }
                replica.signal("TERM");
                (applied, replica.ended().await)
            })
        })
    });
    eprintln!("applied after {applied:?}, ended after {:?}", ended.1);
    assert!(applied.iter().all(|took| *took < within(IN_TIME)), "{applied:?}");
    assert_eq!(ended.0.code(), Some(0));
    assert!(ended.1 < within(ENDS), "{:?}", ended.1);
}

/// Ends the flood, also when the test fails.
struct Over<'a>(&'a Flood<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}
