//! The demo as a process: what it needs, and that it ends in order when it gets a signal in the middle.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
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

/// A container of the image has nothing else: no user with a home, no shell, no git, a root that can't be written.
#[test]
fn the_demo_needs_no_environment_and_no_place_but_one_for_temporary_files() {
    let (temporary, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_cutover"))
        .args(["demo", "move"])
        .current_dir(place.path())
        .env_clear()
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    // Whom permissions don't stop would have left something.
    assert_eq!(entries(place.path()), [""; 0]);
    assert_eq!(entries(temporary.path()), [""; 0]);
}

#[test]
fn without_a_place_for_temporary_files_the_user_is_asked_for_one() {
    for command in ["demo", "sandbox"] {
        let output = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .arg(command)
            .env("TMPDIR", "/nonexistent")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "error: cannot make a temporary directory in /nonexistent: No such file or directory\n\
             hint: name one that can be written: TMPDIR=DIR in the environment, or --dir DIR\n"
        );
    }
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
