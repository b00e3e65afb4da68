//! Bars of long work: they are for people at a terminal, and for nothing else.

use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cutover::sandbox::api::{Fault, Faults, RequestInfo, Resource, WriteOptions};
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;

use crate::support::git::Origin;
use crate::support::served::{Served, as_text, stderr, stdout};
use crate::support::terminal::Terminal;

/// How many objects there are, and how many of them are not answered at once.
const OBJECTS: usize = 30;
const SLOW: usize = 10;
/// By how much that is longer than what has no bar.
const LONG: Duration = Duration::from_millis(900);

/// What is done with writes of the slow objects.
enum Slow {
    /// They wait until it is true.
    Until(watch::Sender<bool>),
    For(Duration),
}

impl Faults for Slow {
    fn before<'a>(&'a self, request: &'a RequestInfo) -> BoxFuture<'a, Option<Fault>> {
        let is_slow = request.verb == "patch"
            && request
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with("slow"));
        match self {
            _ if !is_slow => async { None::<Fault> }.boxed(),
            Self::For(time) => {
                let delay = Fault::Delay(*time);
                async move { Some(delay) }.boxed()
            }
            Self::Until(open) => {
                let mut open = open.subscribe();
                async move {
                    let _ = open.wait_for(|is_open| *is_open).await;
                    None
                }
                .boxed()
            }
        }
    }

    fn after<'a>(&'a self, _: &'a RequestInfo) -> BoxFuture<'a, Option<Fault>> {
        async { None::<Fault> }.boxed()
    }
}

struct Stage {
    served: Served,
    origin: Origin,
    slow: Arc<Slow>,
}

impl Stage {
    fn new(slow: Slow) -> Self {
        let served = Served::start("nobody-asks");
        let server = served.server.sandbox();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let somebody = WriteOptions::manager("somebody");
        server
            .create(&Resource::new("", "namespaces"), None, namespace, &somebody)
            .unwrap();
        let slow = Arc::new(slow);
        server.disturb(Arc::clone(&slow) as Arc<dyn Faults>);
        let objects = (0..OBJECTS).map(|number| {
            let pace = if number < SLOW { "slow" } else { "quick" };
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: shop, name: {pace}-{number}}}\n"
            )
        });
        let origin = Origin::with(&[("fleet.yaml", &objects.collect::<String>())]);
        Self { served, origin, slow }
    }

    /// Starts a command, with stderr on a terminal.
    fn start(&self, words: &[&str], terminal: &Terminal, environment: &[(&str, &str)]) -> Child {
        let path = self.origin.path();
        let words = [words, &["--repo", as_text(&path)]].concat();
        self.served
            .on_terminal(&words, Stdio::piped(), terminal, environment)
    }

    fn open(&self, is_open: bool) {
        if let Slow::Until(open) = &*self.slow {
            open.send_replace(is_open);
        }
    }
}

fn ended(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn long_work_has_a_bar_on_a_terminal_that_is_gone_when_it_is_done() {
    let stage = Stage::new(Slow::Until(watch::Sender::new(false)));
    for (words, bar) in [
        (&["plan"][..], "of 30 changes by dry-run"),
        (&["run", "--once", "--no-lease", "-v"], "of 30 objects"),
    ] {
        stage.open(false);
        let terminal = Terminal::of(80);
        let child = stage.start(words, &terminal, &[("NO_COLOR", "1")]);
        terminal.until(bar);
        stage.open(true);
        let output = ended(child);
        assert!(!stdout(&output).contains(bar), "{output:?}");
        let (written, screen) = terminal.close();
        assert!(!screen.contains(bar), "{words:?} left it behind:\n{screen}");
        let mut sequences = written.split("\u{1b}[").skip(1);
        let has_style = sequences.any(|rest| {
            let end = rest.find(|c: char| c.is_ascii_alphabetic());
            end.is_some_and(|end| rest[end..].starts_with('m'))
        });
        assert!(!has_style, "{words:?}: {written:?}");
    }
}

#[test]
fn nothing_of_a_bar_is_written_for_programs() {
    let stage = Stage::new(Slow::For(LONG));
    // It is long enough for a bar where people look.
    let terminal = Terminal::of(80);
    ended(stage.start(&["plan"], &terminal, &[]));
    let (written, _) = terminal.close();
    assert!(written.contains(" of 30 "), "{written:?}");
    let is_bar = |text: &str| text.contains(" of 30 ") || text.contains("\u{1b}[");
    let path = stage.origin.path();
    let plan = ["plan", "--repo", as_text(&path)];
    let output = stage.served.cutover(&plan);
    assert!(output.status.success(), "{output:?}");
    assert!(!is_bar(&stderr(&output)), "{output:?}");
    assert!(!is_bar(&stdout(&output)), "{output:?}");
    for (words, environment) in [
        (&["plan"][..], ("CI", "true")),
        (&["plan"], ("TERM", "dumb")),
        (&["plan", "-o", "json"], ("TERM", "xterm")),
        (&["plan", "--log-format", "json"], ("TERM", "xterm")),
    ] {
        let terminal = Terminal::of(80);
        ended(stage.start(words, &terminal, &[environment]));
        let (written, _) = terminal.close();
        assert!(!is_bar(&written), "{words:?} {environment:?}: {written:?}");
    }
}
