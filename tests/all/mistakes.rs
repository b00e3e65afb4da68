//! What people get wrong, what the program prints, and how it ends. The page is made of the lists beside this file and of what the
//! program prints (`CUTOVER_ACCEPT=1` writes it); a new mistake is an entry in a list.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use regex::Regex;
use serde::Deserialize;
use tempfile::TempDir;

use crate::docs::slug;
use crate::support::git::commit_all;
use crate::support::is_fresh;

const PAGE: &str = "docs/reference/mistakes.md";
const HEAD: &str = include_str!("mistakes/page.md");
const LISTS: &[&str] = &[
    include_str!("mistakes/files.yaml"),
    include_str!("mistakes/ask.yaml"),
    include_str!("mistakes/look.yaml"),
    include_str!("mistakes/run.yaml"),
];

/// A link from where the page is.
const MORE: &str = "What the codes of findings mean is in [checks](checks.md).\n\n";

/// The least that the page is to have.
const LEAST: usize = 60;

/// Where a reader would work.
const HOME: &str = "/home/ann";
const REPOSITORY: &str = "fleet";

/// What stands before a command that asks a control plane.
const PLANE: &str = "KUBECONFIG=../sandbox/karmada.kubeconfig ";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    section: String,
    about: String,
    mistakes: Vec<Mistake>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    /// A heading of the page.
    #[serde(rename = "mistake")]
    name: String,
    /// The command, as a person types it in the root of the repository.
    run: String,
    /// What the repository has besides, or instead, by path.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Whether `KUBECONFIG` names a control plane.
    #[serde(default)]
    asks: bool,
    #[serde(default)]
    place: Place,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Place {
    /// A clone of the example repository.
    #[default]
    Clone,
    /// A folder with nothing in it.
    Empty,
}

/// What the program did.
struct Ended {
    code: i32,
    printed: String,
}

#[test]
fn the_page_has_what_the_program_prints() {
    let lists: Vec<List> = LISTS
        .iter()
        .map(|list| serde_yaml::from_str(list).unwrap())
        .collect();
    let fresh = page(&lists, &Stage::open());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let is_fresh = is_fresh(&path, &fresh);
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let first = fresh
        .lines()
        .zip(there.lines())
        .find(|(fresh, there)| fresh != there);
    assert!(
        is_fresh,
        "{PAGE} is not what the program prints; run: CUTOVER_ACCEPT=1 cargo test --test all mistakes::\n{first:?}"
    );
}

fn page(lists: &[List], stage: &Stage) -> String {
    let mut table = String::from("| mistake | command | exit code |\n|---|---|--:|\n");
    let mut sections = String::new();
    let mut names = BTreeSet::new();
    for list in lists {
        sections += &format!("\n## {}\n\n{}\n", list.section, list.about);
        for mistake in &list.mistakes {
            let (name, run) = (&mistake.name, &mistake.run);
            assert!(names.insert(slug(name)), "{name}: twice");
            let ended = stage.run(mistake, names.len());
            check(name, &ended);
            let cell = run.replace('|', "\\|");
            table += &format!("| [{name}](#{}) | `{cell}` | {} |\n", slug(name), ended.code);
            sections += &format!("\n### {name}\n");
            for (path, text) in &mistake.files {
                sections += &format!("\n```yaml\n# {path}\n{text}```\n");
            }
            let plane = if mistake.asks { PLANE } else { "" };
            let Ended { code, printed } = ended;
            sections += &format!("\n```console\n$ {plane}{run}\n? {code}\n{printed}\n```\n");
        }
    }
    assert!(names.len() >= LEAST, "{} mistakes are too few", names.len());
    format!("{HEAD}{MORE}{table}{sections}")
}

/// What holds of every message.
fn check(name: &str, ended: &Ended) {
    let Ended { code, printed } = ended;
    // A bug has 4, changes have 2: neither is a mistake of the user.
    assert!(matches!(*code, 0 | 1 | 3), "{name}: {code}\n{printed}");
    let says = if *code == 0 { "warning" } else { "error" };
    let failed = printed.lines().any(|line| line.starts_with("failed "));
    assert!(
        printed.contains(says) || failed,
        "{name}: nothing says what is wrong\n{printed}"
    );
    for leak in [
        "panicked at",
        "RUST_BACKTRACE",
        "(os error ",
        "Some(",
        "Err(",
        "hunter2",
    ] {
        assert!(!printed.contains(leak), "{name}: {leak}\n{printed}");
    }
}

/// A sandbox that has synced the example repository, and what a clone of that is copied from.
struct Stage {
    dir: TempDir,
    sandbox: Child,
    ports: Regex,
    commits: Regex,
}

impl Stage {
    fn open() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut sandbox = program(dir.path())
            .args(["sandbox", "--dir", "sandbox"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // It prints where the kubeconfig is when it serves.
        let mut lines = BufReader::new(sandbox.stdout.take().unwrap());
        let read = lines.read_line(&mut String::new()).unwrap();
        let stage = Self {
            dir,
            sandbox,
            ports: Regex::new(r"127\.0\.0\.1:[0-9]{4,5}").unwrap(),
            commits: Regex::new(r"committed [0-9a-f]{8} ").unwrap(),
        };
        assert_ne!(read, 0, "the sandbox ended");
        stage.found();
        stage
    }

    /// Makes the example repository a clone and lets a reconciler sync it once.
    fn found(&self) {
        let origin = self.origin();
        let made = program(self.dir.path())
            .args(["init", REPOSITORY])
            .output()
            .unwrap();
        assert!(made.status.success());
        let repo = git2::Repository::init(&origin).unwrap();
        repo.set_head("refs/heads/main").unwrap();
        let mut config = repo.config().unwrap();
        config.set_str("user.name", "ann").unwrap();
        config.set_str("user.email", "ann@example.com").unwrap();
        commit_all(&repo, &repo.signature().unwrap(), "Begin");
        let synced = program(&origin)
            .args(["run", "--once", "--repo", "."])
            .env("KUBECONFIG", self.kubeconfig())
            .env("XDG_STATE_HOME", self.dir.path().join("state"))
            .output()
            .unwrap();
        assert!(
            synced.status.success(),
            "{}",
            String::from_utf8_lossy(&synced.stderr)
        );
    }

    fn origin(&self) -> PathBuf {
        self.dir.path().join(REPOSITORY)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("sandbox/karmada.kubeconfig")
    }

    /// Makes a mistake in a folder of its own.
    fn run(&self, mistake: &Mistake, number: usize) -> Ended {
        let home = self.dir.path().join(number.to_string());
        let place = home.join(REPOSITORY);
        copy(&self.dir.path().join("sandbox"), &home.join("sandbox"));
        match mistake.place {
            Place::Clone => copy(&self.origin(), &place),
            Place::Empty => std::fs::create_dir(&place).unwrap(),
        }
        for (path, text) in &mistake.files {
            let path = place.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let words = shlex::split(&mistake.run).unwrap();
        assert_eq!(words[0], "cutover");
        let mut command = program(&place);
        command.args(&words[1..]);
        command.env("XDG_STATE_HOME", home.join("state"));
        if mistake.asks {
            command.env("KUBECONFIG", self.kubeconfig());
        }
        let output = command.output().unwrap();
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let code = output.status.code();
        Ended {
            code: code.unwrap_or_else(|| panic!("{}: {}", mistake.name, output.status)),
            printed: self.stable(&printed, &home),
        }
    }

    /// Returns what was printed with the folders, ports and commits of a reader. Whether a replica leads is no message about a mistake, and
    /// how far it got depends on when the mistake was noticed.
    fn stable(&self, printed: &str, home: &Path) -> String {
        let mut text = printed.to_owned();
        for folder in [home, self.dir.path()] {
            text = text.replace(folder.to_str().unwrap(), HOME);
        }
        let text = self.ports.replace_all(&text, "127.0.0.1:6443");
        let text = self.commits.replace_all(&text, "committed 1a2b3c4d ");
        let is_message = |line: &&str| !line.starts_with("leading (") && !line.starts_with("not leading (");
        let lines = text.trim_end().lines().filter(is_message);
        lines.map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.sandbox.kill();
        let _ = self.sandbox.wait();
    }
}

/// The program in a folder, with nothing of the environment of who runs the test.
fn program(place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cutover"));
    command
        .current_dir(place)
        .env_clear()
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null());
    command
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
