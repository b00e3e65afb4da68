//! The program from outside: what it prints, where, and how it exits. The transcripts in `tests/cli` are documentation too.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::git::commit_all;
use crate::support::served::Served;

pub fn cutover(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cutover"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
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

/// Presses the tab key behind some words in a bash that has read the script, in a directory.
fn offered(dir: &Path, words: &[&str]) -> Vec<String> {
    const PRESS: &str = r#"
        source <(cutover completions bash --dynamic)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_cutover cutover "${!#}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let program = Path::new(env!("CARGO_BIN_EXE_cutover"));
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("bash")
        .args(["--norc", "-c", PRESS, "bash"])
        .args(words)
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .output()
        .unwrap();
    let errors: Vec<String> = text(&output.stderr).lines().map(str::to_owned).collect();
    let is_bash = |line: &String| line.contains("compopt");
    assert!(errors.iter().all(is_bash), "{errors:?}");
    let offered = text(&output.stdout);
    offered
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_tab_key_offers_the_names_of_the_repository_and_nothing_where_there_is_none() {
    let dir = tempfile::tempdir().unwrap();
    assert!(cutover(&["init", dir.path().to_str().unwrap()]).status.success());
    let intents = dir.path().join("intents");
    std::fs::rename(
        intents.join("examples/orders-to-west.yaml"),
        intents.join("orders-to-west.yaml"),
    )
    .unwrap();
    for (words, expected) in [
        (&["cutover", "migrate", "or"][..], &["orders"][..]),
        (&["cutover", "shift", "deployment/"], &["deployment/storefront"]),
        (
            &["cutover", "migrate", "orders", "--to", ""],
            &["east", "north", "west"],
        ),
        (&["cutover", "evacuate", "e"], &["east"]),
        (&["cutover", "pause", "orders-"], &["orders-to-west"]),
        (&["cutover", "wait", "orders"], &["orders-to-west"]),
    ] {
        assert_eq!(offered(dir.path(), words), expected, "{words:?}");
    }
    let namesake = "\
apiVersion: cutover.dev/v1alpha1
kind: Suspension
metadata: {name: orders-to-west, namespace: shop}
";
    std::fs::write(intents.join("namesake.yaml"), namesake).unwrap();
    assert_eq!(
        offered(dir.path(), &["cutover", "pause", "migration/"]),
        ["migration/orders-to-west"]
    );
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("cutover.yaml"), ": not YAML").unwrap();
    assert_eq!(offered(elsewhere.path(), &["cutover", "evacuate", "e"]), [""; 0]);
    assert_eq!(offered(elsewhere.path(), &["cutover", "rebal"]), ["rebalance"]);
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

/// Makes the example repository a bare one and returns its path.
fn repository(dir: &Path) -> String {
    let clone = dir.join("clone");
    assert!(cutover(&["init", clone.to_str().unwrap()]).status.success());
    let repo = git2::Repository::init(&clone).unwrap();
    repo.set_head("refs/heads/main").unwrap();
    let author = git2::Signature::now("somebody", "somebody@localhost").unwrap();
    commit_all(&repo, &author, "Begin");
    let bare = dir.join("shop.git");
    git2::build::RepoBuilder::new()
        .bare(true)
        .clone(clone.to_str().unwrap(), &bare)
        .unwrap();
    bare.to_str().unwrap().to_owned()
}

/// Commits one more file to a bare repository.
fn commit(repo: &str, path: &str, content: &str) {
    let repo = git2::Repository::open_bare(repo).unwrap();
    let parent = repo.head().unwrap().peel_to_commit().unwrap();
    let mut update = git2::build::TreeUpdateBuilder::new();
    let blob = repo.blob(content.as_bytes()).unwrap();
    update.upsert(path, blob, git2::FileMode::Blob);
    let tree = update.create_updated(&repo, &parent.tree().unwrap()).unwrap();
    let tree = repo.find_tree(tree).unwrap();
    let author = git2::Signature::now("somebody", "somebody@localhost").unwrap();
    repo.commit(Some("HEAD"), &author, &author, "Add a file", &tree, &[&parent])
        .unwrap();
}

#[test]
fn a_control_plane_is_prepared_planned_synced_and_looked_at() {
    let served = Served::before_cutover();
    let output = served.cutover(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("hint: install the CRDs: cutover init --cluster"));

    let output = served.cutover(&["init", "--cluster"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("migrations.cutover.dev created\n"));
    assert!(served.cutover(&["init", "--cluster"]).status.success());

    let repo = repository(served.dir.path());
    let plan = ["plan", "--repo", &repo, "--detailed-exitcode"];
    let output = served.cutover(&plan);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("Plan: 5 to create"),
        "{}",
        text(&output.stdout)
    );

    let output = served.cutover(&["run", "--once", "--repo", &repo]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("sync shop: 5 objects at "), "{said}");
    assert!(
        said.contains(": applied 5, changed 0, deleted 0, 0 unchanged\n"),
        "{said}"
    );

    let output = served.cutover(&plan);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    let said = text(&served.cutover(&["status"]).stdout);
    assert!(said.contains("no intents\n"), "{said}");

    let bare = git2::Repository::open_bare(&repo).unwrap();
    let tip = bare
        .find_branch("cutover-status", git2::BranchType::Local)
        .unwrap();
    let commit = tip.get().peel_to_commit().unwrap();
    let message = commit.message().unwrap();
    assert!(
        message.starts_with("sync: 5 objects at ") && message.contains("Cutover-Revision: "),
        "{message}"
    );
}

#[test]
fn what_could_not_be_applied_is_told_with_its_place_and_a_hint() {
    let served = Served::before_cutover();
    assert!(served.cutover(&["init", "--cluster"]).status.success());
    let repo = repository(served.dir.path());
    let lost = "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: nowhere, name: lost}\n";
    commit(&repo, "lost.yaml", lost);
    let output = served.cutover(&["run", "--once", "--no-lease", "--repo", &repo]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(
        told.contains("ConfigMap nowhere/lost: namespaces \"nowhere\" not found"),
        "{told}"
    );
    assert!(told.contains("--> lost.yaml:1:1"), "{told}");
    assert!(
        told.contains(
            "error: not everything is as Git wants it: sync shop: ConfigMap nowhere/lost refused\n"
        ),
        "{told}"
    );
    assert!(told.contains("hint: define Namespace nowhere in Git"), "{told}");
}
