//! The demo as a process that gets a signal in the middle.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::support::wait::wait_for;

struct Demo {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Demo {
    /// Starts one whose temporary files go to a directory.
    fn start(temporary: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Reads on to a line that has a text.
    fn reaches(&mut self, text: &str) {
        loop {
            let mut line = String::new();
            assert_ne!(
                self.lines.read_line(&mut line).unwrap(),
                0,
                "{text} is not printed"
            );
            if line.contains(text) {
                return;
            }
        }
    }

    /// Sends a signal, and returns the exit code and what stderr has.
    async fn ends_by(mut self, signal: &str) -> (Option<i32>, String) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().unwrap();
        assert!(sent.success());
        let mut code = None;
        wait_for("the demo ends")
            .within(Duration::from_secs(20))
            .until(|| {
                code = self.child.try_wait().unwrap();
                code.is_some()
            })
            .await;
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (code.and_then(|status| status.code()), said)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn entries(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_in_the_middle_of_a_move_ends_the_demo_and_removes_what_it_made() {
    for signal in ["INT", "TERM"] {
        let dir = tempfile::tempdir().unwrap();
        let mut demo = Demo::start(dir.path(), &["move"]);
        demo.reaches("kind: Migration");
        demo.reaches("✓ Preflight");
        assert_eq!(entries(dir.path()).len(), 1);
        let (code, said) = demo.ends_by(signal).await;
        assert_eq!(code, Some(130), "{said}");
        assert!(
            said.starts_with("interrupted: the demo has ended, and "),
            "{said}"
        );
        assert!(
            said.ends_with(" was removed\n") && said.lines().count() == 1,
            "{said}"
        );
        assert_eq!(entries(dir.path()), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_is_heard_while_the_demo_waits_for_enter() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(dir.path(), &["--interactive"]);
    demo.reaches("A Karmada sandbox");
    // The handler of the signal is there before the demo prints anything.
    let (code, said) = demo.ends_by("INT").await;
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(entries(dir.path()), [""; 0], "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_the_user_named_stays() {
    let dir = tempfile::tempdir().unwrap();
    let named = dir.path().join("named");
    let mut demo = Demo::start(dir.path(), &["move", "--dir", named.to_str().unwrap()]);
    demo.reaches("repository");
    let (code, said) = demo.ends_by("INT").await;
    assert_eq!(code, Some(130), "{said}");
    assert!(said.ends_with("named stays\n"), "{said}");
    assert!(named.is_dir());
}
