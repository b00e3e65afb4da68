//! The program from outside: what it prints, where, and how it exits. The transcripts in `tests/cli` are documentation too.

use std::path::Path;
use std::process::{Command, Output};

fn cutover(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cutover"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn transcripts_are_what_the_program_prints() {
    trycmd::TestCases::new().case("tests/cli/*.trycmd").run();
}

#[test]
fn the_example_repository_is_whole_in_the_binary_and_validates_clean() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples-repo");
    let mut there = Vec::new();
    visit(&root, &root, &mut there);
    there.sort();
    let embedded: Vec<String> = cutover::cli::EXAMPLE_FILES
        .iter()
        .map(|(path, _)| (*path).to_owned())
        .collect();
    assert_eq!(embedded, there);

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    assert!(cutover(&["init", path]).status.success());
    // What is excluded until somebody asks for it has to be right too.
    for entry in std::fs::read_dir(dir.path().join("intents/examples")).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, dir.path().join("intents").join(from.file_name().unwrap())).unwrap();
    }
    let output = cutover(&["validate", path]);
    assert_eq!(text(&output.stdout), "");
    assert!(output.status.success(), "{}", text(&output.stderr));
}

fn visit(root: &Path, dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            visit(root, &path, found);
        } else {
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
    }
}

#[test]
fn init_never_overwrites() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("cutover.yaml"), "mine").unwrap();
    let output = cutover(&["init", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read(dir.path().join("cutover.yaml")).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn data_goes_to_stdout_without_colour_and_the_rest_to_stderr() {
    let output = cutover(&["schema", "migration"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema["title"], "Migration");
    assert_eq!(text(&output.stderr), "");

    let forced = cutover(&["--color", "always", "validate", "tests/cli/broken.in"]);
    assert!(text(&forced.stdout).contains("\u{1b}["));
    let plain = cutover(&["validate", "tests/cli/broken.in"]);
    assert!(!text(&plain.stdout).contains('\u{1b}'));
}

#[test]
fn exit_codes_tell_the_users_mistakes_from_unreachable_servers() {
    for (arguments, code) in [
        (&["--version"][..], 0),
        (&["--help"], 0),
        (&["frobnicate"], 1),
        (&["schema", "nothing"], 1),
        (&["validate", "/nonexistent"], 1),
        (&["init", "--cluster"], 1),
        (
            &["init", "--cluster", "--kubeconfig", "tests/cli/nobody.kubeconfig"],
            3,
        ),
    ] {
        let output = cutover(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
}
