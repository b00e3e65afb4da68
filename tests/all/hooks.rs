//! Webhooks: a word that somebody has pushed, and how soon it is acted on.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cutover::cluster::{Cluster, Limits};
use cutover::forge::Hook;
use cutover::reconcile::{self, Options};
use cutover::repo::{Polling, Secret, Tick, Trigger};
use cutover::serve::{ConnectionLimits, HookOptions, hooks};
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::git::{Http, Mirrored, Origin, options};
use crate::support::plane::CONFIG_MAPS;
use crate::support::server::On;

pub const SECRET: &str = "0123456789abcdef-swordfish";
pub const MAIN: &str = r#"{"ref": "refs/heads/main"}"#;
/// Nobody waits for that.
const NEVER: Polling = Polling {
    interval: Duration::from_hours(1),
    slowest: Duration::from_hours(1),
};

async fn listen(trigger: Trigger) -> (SocketAddr, DropGuard) {
    limited(trigger, ConnectionLimits::default()).await
}

async fn limited(trigger: Trigger, limits: ConnectionLimits) -> (SocketAddr, DropGuard) {
    let cancel = CancellationToken::new();
    let options = HookOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        hook: Hook::new(Secret::new(SECRET), "main").unwrap(),
        trigger,
        limits,
    };
    let (address, serving) = hooks(options, cancel.clone()).await.unwrap();
    tokio::spawn(serving);
    (address, cancel.drop_guard())
}

pub fn signature(body: &str) -> String {
    let key = PKey::hmac(SECRET.as_bytes()).unwrap();
    let mut signer = Signer::new(MessageDigest::sha256(), &key).unwrap();
    signer.update(body.as_bytes()).unwrap();
    let digest = signer.sign_to_vec().unwrap();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends a request; returns the answer's status.
async fn send(to: SocketAddr, method: &str, path: &str, signature: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: it\r\nconnection: close\r\nx-github-event: push\r\n\
         x-hub-signature-256: sha256={signature}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn map(text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, namespace: shop}}\ndata: {{text: {text}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_is_told_is_applied_without_a_poll() {
    let origin = Origin::with(&[
        (
            "ns.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
        ),
        ("a.yaml", &map("one")),
    ]);
    let http = Http::of(origin.root()).start();
    let server = On::Sandbox.server();
    let state = tempfile::tempdir().unwrap();
    let options = Options {
        polling: Some(NEVER),
        ..Options::new(
            options(http.http(), state.path()),
            Cluster::from_client(server.client(), Limits::default()),
        )
    };
    let (address, _listening) = listen(options.repo.trigger.clone()).await;
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let _running = cancel.drop_guard();
    tokio::spawn(async move { reconcile::run(options, stop).await.unwrap() });
    let has = |text: &str| {
        let map = server.get(&CONFIG_MAPS, Some("shop"), "a");
        map.is_some_and(|map| map["data"]["text"] == text)
    };
    let until = async |text: &str| {
        let began = Instant::now();
        while !has(text) {
            assert!(began.elapsed() < Duration::from_mins(1), "{text} is not applied");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until("one").await;
    origin.commit("main", &[("a.yaml", &map("two"))]);
    assert_eq!(send(address, "POST", "/hook", &signature(MAIN), MAIN).await, 202);
    until("two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_authentic_push_is_a_look_and_strangers_cause_none() {
    let origin = Origin::with(&[("a.yaml", "a: b")]);
    let http = Http::of(origin.root()).start();
    let trigger = Trigger::default();
    let mirrored = Mirrored::with(http.http(), |options| options.trigger = trigger.clone()).await;
    let mut watch = mirrored.watch(NEVER);
    assert_eq!(watch.next().await, Tick::Start);
    let (address, _listening) = listen(trigger).await;

    let topic = r#"{"ref": "refs/heads/topic"}"#;
    assert_eq!(send(address, "POST", "/hook", &"0".repeat(64), MAIN).await, 401);
    assert_eq!(send(address, "POST", "/hook", &signature(topic), MAIN).await, 401);
    assert_eq!(
        send(address, "POST", "/hook", &signature(topic), topic).await,
        204
    );
    assert_eq!(send(address, "GET", "/hook", &signature(""), "").await, 405);
    assert_eq!(send(address, "POST", "/other", &signature(MAIN), MAIN).await, 404);
    let none = tokio::time::timeout(Duration::from_millis(50), watch.next()).await;
    assert!(none.is_err(), "{none:?}");

    for _ in 0..20 {
        let sent = tokio::spawn(async move { send(address, "POST", "/hook", &signature(MAIN), MAIN).await });
        assert_eq!(watch.next().await, Tick::Manual);
        assert_eq!(sent.await.unwrap(), 202);
    }
}

/// A limit that is only there so that a test of a hang ends.
const HANGS: Duration = Duration::from_secs(30);

/// Opens connections that send no whole request; they are kept open.
async fn idle(to: SocketAddr, count: usize, sent: &str) -> Vec<TcpStream> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(to).await.unwrap();
        // One that has to give way at once is as good.
        let _ = stream.write_all(sent.as_bytes()).await;
        all.push(stream);
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn an_honest_host_gets_through_many_connections_that_do_nothing() {
    // Time alone would free no place here.
    let limits = ConnectionLimits {
        connections: 32,
        per_peer: 32,
        head: Duration::from_hours(1),
        lifetime: Duration::from_hours(1),
        ..ConnectionLimits::default()
    };
    let (address, _listening) = limited(Trigger::default(), limits).await;
    let body = format!(
        "POST /hook HTTP/1.1\r\nhost: it\r\ncontent-length: {}\r\n\r\n{{",
        1 << 20
    );
    let mut open = Vec::new();
    for sent in ["", "POST /hook HTTP/1.1\r\nhost:", body.as_str()] {
        open.extend(idle(address, 200, sent).await);
        let signature = signature(MAIN);
        let answer = send(address, "POST", "/hook", &signature, MAIN);
        let answer = tokio::time::timeout(HANGS, answer).await;
        assert_eq!(answer.expect("an answer in time"), 202, "beside {sent:?}");
    }
    // Those that gave way are closed, so that their descriptors are free.
    let closed = async {
        let mut bytes = [0; 64];
        for stream in &mut open[..150] {
            // An end or a reset.
            assert!(!matches!(stream.read(&mut bytes).await, Ok(1..)));
        }
    };
    tokio::time::timeout(HANGS, closed)
        .await
        .expect("closed connections");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_sends_no_request_is_let_go_after_a_while() {
    let limits = ConnectionLimits {
        head: Duration::from_millis(50),
        ..ConnectionLimits::default()
    };
    let (address, _listening) = limited(Trigger::default(), limits).await;
    for sent in ["", "POST /hook HTTP/1.1\r\nhost:"] {
        let mut open = idle(address, 1, sent).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(HANGS, open[0].read_to_end(&mut answer)).await;
        read.expect("the connection is closed").ok();
    }
}
