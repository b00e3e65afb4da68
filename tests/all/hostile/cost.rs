//! What one file costs at its limits: memory, and how soon the order to stop is followed in the middle of it.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cutover::budget::Limit;
use cutover::manifest::{Limits, Source, parse};

use super::run::{Cost, computed, measured};
use crate::support::git::Origin;
use crate::support::served::{Served, as_text};

const CONFIG: &str = "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{name: apps, path: apps}]\n";
const HEAD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\n";
/// How long anything may take before a test gives up, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);
/// How often a child is looked at.
const POLL: Duration = Duration::from_millis(2);
/// From the order to stop to the end. A build without optimisations takes longer to stop, as for everything.
const ENDS: Duration = Duration::from_secs(if cfg!(debug_assertions) { 15 } else { 2 });

fn largest() -> usize {
    Limits::default().of(Limit::FileBytes)
}

/// A file as large as it may be, with one value that repeats a line.
fn one_value(line: &str) -> String {
    let mut text = format!("{HEAD}data:\n  a: |\n");
    while text.len() + line.len() < largest() {
        text.push_str(line);
    }
    text
}

/// A file of as many values as there may be: keys and their texts.
fn many_values() -> String {
    let mut text = format!("{HEAD}data:\n");
    for key in 0..(Limits::default().of(Limit::FileValues) / 2 - 10) {
        let _ = writeln!(text, "  k{key:06}: vvvv");
    }
    assert!(text.len() < largest(), "{}", text.len());
    text
}

/// Returns the peak of memory of `validate` with one file in the repository.
fn peak_with(file: &str) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("apps")).unwrap();
    fs::write(dir.path().join("cutover.yaml"), CONFIG).unwrap();
    fs::write(dir.path().join("apps/a.yaml"), file).unwrap();
    let mut child = validate(dir.path());
    let (mut cost, began) = (Cost::default(), Instant::now());
    loop {
        cost = measured(child.id(), cost);
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return cost.memory;
        }
        assert!(began.elapsed() < PATIENCE, "still runs: {cost}");
        std::thread::sleep(POLL);
    }
}

/// Four times the file, and the object, which is little more than its one value.
#[test]
fn a_file_takes_four_times_its_bytes_of_memory_and_its_object() {
    let tiny = peak_with(&format!("{HEAD}data: {{a: x}}\n"));
    let may_take = 5 * u64::try_from(largest()).unwrap();
    for (what, line) in [
        ("one long value", "    ".to_owned() + &"x".repeat(largest() - 200)),
        ("a block of lines", "    x\n".to_owned()),
        (
            "a block of PEM headers",
            "    -----BEGIN PRIVATE KEY-----\n".to_owned(),
        ),
    ] {
        let file = one_value(&line);
        assert!(file.len() > largest() / 4 * 3, "{what}: {}", file.len());
        let above = peak_with(&file).saturating_sub(tiny);
        assert!(
            above <= may_take,
            "{what}: {} MiB, of {} MiB that it may take",
            above >> 20,
            may_take >> 20
        );
    }
}

fn validate(place: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_cutover"))
        .arg("validate")
        .current_dir(place)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lets a child compute for so long, asks it to end, and returns how it ended, how long that took and what it computed in all.
fn stopped(mut child: Child, after: Duration) -> (std::process::ExitStatus, Duration, Cost) {
    let (mut cost, began) = (Cost::default(), Instant::now());
    while cost.computed < after {
        cost = measured(child.id(), cost);
        assert_eq!(child.try_wait().unwrap(), None, "it ended by itself: {cost}");
        assert!(began.elapsed() < PATIENCE, "nothing is computed: {cost}");
        std::thread::sleep(POLL);
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").arg(id).status().unwrap().success());
    let asked = Instant::now();
    loop {
        cost = measured(child.id(), cost);
        if let Some(status) = child.try_wait().unwrap() {
            return (status, asked.elapsed(), cost);
        }
        assert!(asked.elapsed() < PATIENCE, "it does not end: {cost}");
        std::thread::sleep(POLL);
    }
}

/// The order comes when half of what parsing takes has been computed, and by the end all of the process has computed less than
/// parsing takes: it was in the middle of the file, and the rest of it was not read.
#[test]
fn the_order_to_stop_is_followed_in_the_middle_of_a_file() {
    let file = many_values();
    let of_this_thread = || computed(Path::new("/proc/thread-self/stat"));
    let before = of_this_thread();
    let parsed = parse(Source::new("a.yaml"), file.as_bytes(), &Limits::default());
    let parsing = of_this_thread().saturating_sub(before);
    assert_eq!((parsed.errors.len(), parsed.objects.len()), (0, 1));
    drop(parsed);

    let served = Served::start("nobody-asks");
    let origin = Origin::with(&[("cutover.yaml", CONFIG), ("apps/a.yaml", &file)]);
    let clone = served.dir.path().join("clone");
    git2::Repository::clone(as_text(&origin.path()), &clone).unwrap();
    let log = served.dir.path().join("log");
    let run = Command::new(env!("CARGO_BIN_EXE_cutover"))
        .args(["run", "--once", "--no-lease", "--repo", as_text(&origin.path())])
        .env("KUBECONFIG", served.kubeconfig())
        .env("CUTOVER_STATE_DIR", served.dir.path().join("state"))
        .env("HOME", "/nonexistent")
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    for (command, child) in [("run --once", run), ("validate", validate(&clone))] {
        let (status, took, cost) = stopped(child, parsing / 2);
        let said = fs::read_to_string(&log).unwrap();
        assert!(took < ENDS, "{command}: {took:?}: {said}");
        assert!(
            cost.computed < parsing,
            "{command} has computed {:?}, and parsing takes {parsing:?}: {said}",
            cost.computed
        );
        // `validate` writes nothing: the signal itself ends it.
        let is_ended = match command {
            "validate" => status.signal() == Some(15),
            _ => matches!(status.code(), Some(0..=3 | 130)),
        };
        assert!(is_ended, "{command}: {status:?}: {said}");
    }
}
