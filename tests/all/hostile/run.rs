//! Runs the program on a case, as users do, and looks at what comes of it.

use std::fmt::{self, Write as _};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use cutover::sandbox::api::Snapshot;
use git2::{Oid, Repository};

use super::{Case, Content, Entry, Files};
use crate::support::served::{Served, as_text};

/// How long a command may compute, and how much of memory it may take. It is the time on processors that counts: others use
/// them too. By `PATIENCE` it has to end, whatever it waits for. As it is tested it is not optimised, on whatever machine: the most
/// that a case takes on one of two cores is 7 s.
const TIME: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 10 });
const PATIENCE: Duration = Duration::from_secs(100);
const MEMORY: u64 = 500 << 20;
/// How much a command may say.
const WORDS: u64 = 16 << 20;

/// Every command is run on each case: that takes more than twice as long.
const ALL: &str = "CUTOVER_HOSTILE_ALL";

const PROGRAM: &str = env!("CARGO_BIN_EXE_cutover");
const CANARY: &str = "C4n4ryOfHostileRepositories";
const CONFIG: &str =
    "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n- {name: apps, path: apps, prune: true}\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It ended by a signal, as a bug (4), or by a code that nobody has documented.
    Exit,
    /// It was still running when its time was over.
    Time,
    Memory,
    Panic,
    /// A secret was shown.
    Secret,
    /// Text of others reached the output with control characters, bidi marks or workflow commands.
    Raw,
    /// `validate` found nothing wrong.
    Missed,
    /// It said more than anybody reads.
    Words,
}

type Found = (Violation, String);

/// An API server for commands one after the other: to start one takes longer than most of them. Each finds it as it was.
pub struct Shared {
    served: Served,
    pristine: Snapshot,
}

impl Shared {
    pub fn start() -> Self {
        let served = Served::start("nobody-asks");
        let pristine = served.server.sandbox().save();
        Self { served, pristine }
    }

    fn fresh(&self) -> &Served {
        self.served.server.sandbox().restore(&self.pristine);
        &self.served
    }
}

/// Runs the commands whose turn it is on a case, or all of them; in their turns they see every family.
pub fn tried(case: &Case, number: usize, server: &Shared) -> Vec<Found> {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("clone");
    let repo =
        Repository::init_opts(&place, git2::RepositoryInitOptions::new().initial_head("main")).unwrap();
    let mut found = Vec::new();
    let mut commands: Vec<&[&str]> = Vec::new();
    let tip = match &case.content {
        Content::Files(make) => {
            let files = whole(make());
            write(&place, &files);
            commands.push(&["validate"]);
            committed(&repo, &files)
        }
        Content::Commit(make) => Some(make(&repo)),
    };
    if let Some(tip) = tip {
        // libgit2 refuses a reference to a commit that it can't read.
        let reference = repo.path().join("refs/heads/main");
        fs::write(reference, format!("{tip}\n")).unwrap();
        let is_only_in_git = matches!(case.content, Content::Commit(_));
        let (review, plan, run) = (
            &["review", "--offline"][..],
            &["plan"][..],
            &["run", "--once", "--repo"][..],
        );
        let turn: &[&[&str]] = match number % 4 {
            _ if std::env::var_os(ALL).is_some() => &[review, plan, run],
            0 if is_only_in_git => &[review, plan],
            2 if is_only_in_git => &[run, plan],
            3 if is_only_in_git => &[run],
            0 => &[review],
            1 => &[plan],
            2 => &[run],
            _ => &[],
        };
        commands.extend(turn);
    }
    for arguments in commands {
        look(case, dir.path(), arguments, server, &mut found);
    }
    found
}

/// Adds what every repository has: `cutover.yaml`, if the case has none, and a secret that nobody may show.
fn whole(mut files: Files) -> Files {
    if !files
        .iter()
        .any(|(path, _)| path.split('/').next() == Some("cutover.yaml"))
    {
        files.push(("cutover.yaml".to_owned(), Entry::File(CONFIG.into())));
    }
    let secret = format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: canary, namespace: default}}\nstringData: {{a: {CANARY}}}\n"
    );
    files.push(("apps/zz-secret.yaml".to_owned(), Entry::File(secret.into_bytes())));
    files
}

fn write(root: &Path, files: &Files) {
    for (path, entry) in files {
        let place = root.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        match entry {
            Entry::File(bytes) => fs::write(place, bytes).unwrap(),
            Entry::Link(target) => std::os::unix::fs::symlink(target, place).unwrap(),
            Entry::Hole(bytes) => File::create(place).unwrap().set_len(*bytes).unwrap(),
        }
    }
}

/// Commits files; nothing, if libgit2 refuses their names.
fn committed(repo: &Repository, files: &Files) -> Option<Oid> {
    let mut update = git2::build::TreeUpdateBuilder::new();
    for (path, entry) in files {
        let (bytes, mode) = match entry {
            Entry::File(bytes) => (bytes.as_slice(), git2::FileMode::Blob),
            Entry::Link(target) => (target.as_bytes(), git2::FileMode::Link),
            Entry::Hole(_) => ([].as_slice(), git2::FileMode::Blob),
        };
        update.upsert(path.as_bytes(), repo.blob(bytes).unwrap(), mode);
    }
    let empty = repo.treebuilder(None).unwrap().write().unwrap();
    let tree = update
        .create_updated(repo, &repo.find_tree(empty).unwrap())
        .ok()?;
    Some(super::trees::commit(repo, tree, &[]))
}

#[allow(clippy::print_stderr)]
fn look(case: &Case, dir: &Path, arguments: &[&str], server: &Shared, found: &mut Vec<Found>) {
    let place = dir.join("clone");
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .current_dir(&place)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .env("CUTOVER_STATE_DIR", dir.join("state"))
        .stdin(std::process::Stdio::null())
        .stdout(File::create(dir.join("out")).unwrap())
        .stderr(File::create(dir.join("err")).unwrap());
    if !matches!(arguments[0], "validate" | "review") {
        command.env("KUBECONFIG", server.fresh().kubeconfig());
    }
    if arguments.last() == Some(&"--repo") {
        command.arg(as_text(&place));
    }
    let (status, cost) = waited(command.spawn().unwrap());
    if std::env::var_os("CUTOVER_HOSTILE_TIMES").is_some() {
        eprintln!("{cost} {} {}", arguments[0], case.title());
    }
    let mut tell =
        |violation, what: String| found.push((violation, format!("{}: {what}", arguments.join(" "))));
    match status {
        None => tell(Violation::Time, format!("still runs: {cost}")),
        Some(status) if !matches!(status.code(), Some(0..=3)) => tell(
            Violation::Exit,
            format!("{:?}, signal {:?}", status.code(), status.signal()),
        ),
        Some(status) if case.is_refused && arguments[0] == "validate" && status.code() == Some(0) => {
            tell(Violation::Missed, String::new());
        }
        Some(_) => {}
    }
    if cost.memory > MEMORY {
        tell(Violation::Memory, cost.to_string());
    }
    for output in ["out", "err"] {
        let output = dir.join(output);
        let length = fs::metadata(&output).unwrap().len();
        if length > WORDS {
            tell(Violation::Words, format!("{length} bytes"));
            continue;
        }
        let said = String::from_utf8_lossy(&fs::read(output).unwrap()).into_owned();
        if said.contains(CANARY) {
            tell(Violation::Secret, excerpt(&said, CANARY));
        }
        if said.contains("panicked at") {
            tell(Violation::Panic, excerpt(&said, "panicked at"));
        }
        if let Some(raw) = said.chars().find(|character| is_raw(*character)) {
            tell(Violation::Raw, excerpt(&said, &raw.to_string()));
        } else if said.lines().any(|line| line.trim_start().starts_with("::")) {
            tell(Violation::Raw, excerpt(&said, "\n::"));
        }
    }
}

/// What a command has taken so far.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    pub computed: Duration,
    pub memory: u64,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>6} ms {:>5} MiB",
            self.computed.as_millis(),
            self.memory >> 20
        )
    }
}

/// Waits for a child, and kills it when its time is over; returns how it ended, and what it took.
///
/// The kernel forgets the peak of memory when a process ends, and what `wait4` tells has the parent's own in it: so it is
/// read while the child runs. It only grows.
fn waited(mut child: Child) -> (Option<ExitStatus>, Cost) {
    let began = Instant::now();
    let mut cost = Cost::default();
    loop {
        cost = measured(child.id(), cost);
        let is_seen = cost.memory > 0;
        assert!(
            is_seen || began.elapsed() < TIME,
            "nothing is seen of the program"
        );
        if let Some(status) = child.try_wait().unwrap() {
            return (Some(status), cost);
        }
        if cost.computed > TIME || began.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return (None, cost);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns what the kernel counts of a process, never less than before.
pub fn measured(process: u32, before: Cost) -> Cost {
    let read = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
    // A child that has only just been told to run the program still has this process's memory, and this process goes on
    // before that ends. What the child runs is asked first: once it is the program, its memory is its own.
    let runs = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    if !runs.ends_with(Path::new(PROGRAM).file_name().unwrap()) {
        return before;
    }
    let status = read("status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let computed = computed(Path::new(&format!("/proc/{process}/stat")));
    Cost {
        computed: before.computed.max(computed),
        memory: before.memory.max(peak.unwrap_or_default() << 10),
    }
}

/// Returns for how long a process or a thread has computed, by the file that the kernel has for it.
pub fn computed(stat: &Path) -> Duration {
    let stat = fs::read_to_string(stat).unwrap_or_default();
    // What is after the name, which may have anything in it: the 12th and 13th are the time computed, in hundredths.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|field| field.parse::<u64>().unwrap_or_default());
    Duration::from_millis(10 * ticks.sum::<u64>())
}

fn is_raw(character: char) -> bool {
    let is_bidi = matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_bidi || character.is_control() && !matches!(character, '\n' | '\t')
}

fn excerpt(said: &str, what: &str) -> String {
    let at = said.find(what).unwrap_or_default();
    let mut shown = String::new();
    let before = said[..at].chars().rev().take(60).collect::<Vec<_>>();
    let after = said[at..].chars().take(200);
    for character in before.into_iter().rev().chain(after) {
        let _ = write!(shown, "{}", character.escape_debug());
    }
    shown
}
