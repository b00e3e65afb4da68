//! Which crate knows which is the compiler's business; here stands what it can't say.

mod imports;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use imports::Imports;

/// What decides: it does no I/O and reads no clock.
const PURE: &[&str] = &["base", "karmada", "core"];

const FORBIDDEN: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "Timestamp::now",
    "SystemTime::now",
    "Instant::now",
];

/// Which crates of cutover's own a crate names. None of them leads back.
const ARROWS: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("http", &["base"]),
    ("leadership", &[]),
    ("karmada", &[]),
    ("core", &["base", "karmada"]),
    ("git", &["base", "leadership", "karmada", "core"]),
    ("cluster", &["base", "http", "leadership", "karmada", "core"]),
    ("forge", &["base", "http", "karmada", "core"]),
    (
        "controller",
        &[
            "base",
            "http",
            "leadership",
            "karmada",
            "core",
            "git",
            "cluster",
            "forge",
        ],
    ),
    ("sandbox", &["karmada"]),
    ("sim", &["karmada", "core"]),
    (
        "testing",
        &["karmada", "core", "git", "cluster", "controller", "sandbox"],
    ),
];

/// The rooms of the core: a file imports from its own room and those before it.
const ROOMS: &[&str] = &[
    "units",
    "api",
    "redact",
    "error",
    "manifest",
    "finding",
    "schema",
    "config",
    "profile",
    "intent",
    "plan",
    "lint",
    "report",
    "generated",
];

/// The circles of more than two files that are left, by crate; `cutover` is the program. No circle is added, and none grows:
/// what the files of one share belongs below them.
const CIRCLES: &[(&str, &[&[&str]])] = &[
    (
        "sandbox",
        &[
            &["karmada/cluster.rs", "karmada/execution.rs", "karmada/status.rs"],
            &[
                "member/flink/job.rs",
                "member/flink/jobs.rs",
                "member/flink/resource.rs",
                "member/flink/status.rs",
            ],
            &[
                "api/admission/attributes.rs",
                "api/admission/matching.rs",
                "api/admission/policy.rs",
                "api/admission/validation.rs",
                "api/builtin/services.rs",
                "api/builtin/validation.rs",
                "api/crd.rs",
                "api/object_meta.rs",
                "api/registry.rs",
                "api/rules.rs",
                "api/scale.rs",
                "api/schema/values.rs",
            ],
        ],
    ),
    ("sim", &[&["deployment.rs", "flink.rs", "member.rs"]]),
];

/// Where a kind is at home, and how many files elsewhere name its type. The numbers only fall: a new place asks the registry.
const KINDS: &[(&str, &[&str], usize)] = &[
    (
        "Migration",
        &[
            "core/src/api/ended.rs",
            "core/src/api/migration",
            "core/src/intent/migration/",
            "core/src/report/account.rs",
            "core/src/report/dashboard/migration.rs",
            "intents/migration.rs",
            "intents/observe.rs",
            "intents/reader.rs",
            "cli/migrate",
        ],
        34,
    ),
    (
        "FailoverPlan",
        &[
            "core/src/api/failover_plan.rs",
            "core/src/intent/failover/",
            "core/src/lint/failover",
            "core/src/report/failover.rs",
            "core/src/report/forecast/failover.rs",
            "intents/failover",
            "cli/failover",
        ],
        6,
    ),
    (
        "Rollout",
        &[
            "core/src/api/rollout.rs",
            "core/src/intent/rollout/",
            "core/src/report/rollout.rs",
            "core/src/report/forecast/rollout.rs",
            "intents/rollout.rs",
            "cli/rollout",
        ],
        14,
    ),
    (
        "RolloutPolicy",
        &[
            "core/src/api/rollout_policy.rs",
            "core/src/intent/rollout_policy/",
            "core/src/lint/rollout_policy.rs",
            "core/src/report/rollout_policy.rs",
            "core/src/report/forecast/rollout.rs",
            "intents/rollout_policy.rs",
            "cli/rollout",
        ],
        5,
    ),
    (
        "ReplicaShift",
        &[
            "core/src/api/replica_shift.rs",
            "core/src/intent/shift/",
            "core/src/report/shift.rs",
            "core/src/report/forecast/shift.rs",
            "intents/replica_shift.rs",
            "cli/shift",
        ],
        6,
    ),
    (
        "Suspension",
        &[
            "core/src/api/suspension.rs",
            "core/src/intent/suspension/",
            "core/src/lint/suspension.rs",
            "core/src/report/suspension.rs",
            "core/src/report/forecast/suspension.rs",
            "intents/suspension",
            "cli/suspend",
        ],
        11,
    ),
    ("Evacuation", MOVES, 7),
    ("Rebalance", MOVES, 2),
];

/// An Evacuation and a Rebalance are one machine.
const MOVES: &[&str] = &[
    "core/src/api/evacuation.rs",
    "core/src/api/moves.rs",
    "core/src/api/rebalance.rs",
    "core/src/intent/evacuation.rs",
    "core/src/intent/moves/",
    "core/src/intent/rebalance.rs",
    "core/src/lint/moves.rs",
    "core/src/report/forecast/moves.rs",
    "core/src/report/many.rs",
    "intents/bulk_moves.rs",
    "cli/evacuate",
    "cli/moves",
    "cli/rebalance",
];

/// Which kinds there are is known here.
const REGISTRY: &[&str] = &[
    "core/src/api/intent.rs",
    "core/src/api/mod.rs",
    "core/src/intent/mod.rs",
    "core/src/report/kinds.rs",
    "core/src/report/mod.rs",
    "controller/src/reconcile/intents/mod.rs",
    "src/cli/mod.rs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources(name: &str) -> PathBuf {
    root().join("crates").join(name).join("src")
}

/// `tools/guards.sh` takes long; a change that leaves a guard behind is noticed here.
#[test]
fn every_safety_rule_can_still_be_switched_off() {
    let guards = root().join("crates/sim/guards");
    let patches: Vec<_> = std::fs::read_dir(guards)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "patch"))
        .collect();
    assert!(patches.len() > 20, "{patches:?}");
    for patch in patches {
        let check = Command::new("git")
            .args(["apply", "--check"])
            .arg(&patch)
            .current_dir(root())
            .output()
            .unwrap();
        let why = String::from_utf8_lossy(&check.stderr);
        assert!(
            check.status.success(),
            "{} does not apply: {why}",
            patch.display()
        );
    }
}

#[test]
fn what_decides_does_no_io_and_reads_no_clock() {
    let mut offences = Vec::new();
    for name in PURE {
        visit(&sources(name), &mut |path, text| {
            // A test may measure whether something hangs.
            let is_test = path.components().any(|part| part.as_os_str() == "tests");
            let is_test = is_test || path.ends_with("tests.rs");
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                let found = FORBIDDEN.iter().filter(|forbidden| code.contains(**forbidden));
                for forbidden in found.filter(|forbidden| !(is_test && **forbidden == "Instant::now")) {
                    offences.push(format!("{}:{}: {forbidden}", path.display(), number + 1));
                }
            }
        });
    }
    assert!(
        offences.is_empty(),
        "what decides reaches out:\n{}",
        offences.join("\n")
    );
}

/// A dependency that brings another one is as good as naming it: cargo is asked for all of them.
#[test]
fn no_client_and_no_runtime_is_under_the_core() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let args = "tree --offline --locked --package cutover-core --edges normal --prefix none --format {p}";
    let output = Command::new(cargo)
        .args(args.split(' '))
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(
        names.contains(&"cutover-karmada") && names.contains(&"kube-core"),
        "{tree}"
    );
    for forbidden in [
        "kube-client",
        "kube-runtime",
        "tokio",
        "git2",
        "hyper",
        "axum",
        "cutover-http",
        "cutover-leadership",
    ] {
        assert!(
            !names.contains(&forbidden),
            "{forbidden} is under the core:\n{tree}"
        );
    }
}

#[test]
fn every_crate_names_those_below_it_alone() {
    let mut folders: Vec<String> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    folders.sort();
    let mut drawn: Vec<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    drawn.sort_unstable();
    assert_eq!(folders, drawn);
    for (at, (name, below)) in ARROWS.iter().enumerate() {
        let above: Vec<&str> = ARROWS[at..].iter().map(|(name, _)| *name).collect();
        assert!(
            !below.iter().any(|other| above.contains(other)),
            "{name} names one that is not below it"
        );
        let manifest = std::fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
        let (code, tests) = manifest
            .split_once("[dev-dependencies]")
            .unwrap_or((&manifest, ""));
        assert_eq!(own(code), *below, "{name}");
        assert!(
            own(tests).iter().all(|other| below.contains(other)),
            "the tests of {name}"
        );
    }
}

/// The crates of cutover's own that a part of a manifest names.
fn own(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().filter_map(|line| line.strip_prefix("cutover-"));
    lines.filter_map(|line| line.split(['.', ' ']).next()).collect()
}

#[test]
fn no_room_of_the_core_imports_one_above_it() {
    let imports = Imports::of(&sources("core"));
    let all = imports.all();
    assert!(all.len() > 1000, "only {} imports were found", all.len());
    let place = |file: &str| {
        let room = file.split(['/', '.']).next();
        ROOMS.iter().position(|one| Some(*one) == room)
    };
    let is_up = |from, to| match (place(from), place(to)) {
        (Some(from), Some(to)) => to > from,
        _ => true,
    };
    let others = all.iter().filter(|import| import.from != "lib.rs");
    let up = others.filter(|import| is_up(import.from, import.to));
    let up: Vec<String> = up
        .map(|import| format!("{} → {}", import.from, import.to))
        .collect();
    assert!(
        up.is_empty(),
        "upwards, or of a room that has no place:\n{}",
        up.join("\n")
    );
}

#[test]
fn no_more_than_two_files_import_each_other_in_a_circle() {
    let crates = ARROWS.iter().map(|(name, _)| (*name, sources(name)));
    for (name, src) in crates.chain([("cutover", root().join("src"))]) {
        let imports = Imports::of(&src);
        let left = CIRCLES.iter().filter(|(of, _)| *of == name);
        let left: BTreeSet<BTreeSet<&str>> = left
            .flat_map(|(_, circles)| *circles)
            .map(|circle| circle.iter().copied().collect())
            .collect();
        assert_eq!(imports.circles(), left, "circles of files in {name}");
    }
}

#[test]
fn few_files_know_a_kind_by_its_name() {
    let mut files: Vec<(String, BTreeSet<String>)> = Vec::new();
    let mut look = |path: &Path, text: &str| {
        let file = path.strip_prefix(root()).unwrap().to_str().unwrap();
        if !file.contains("/tests/") && !file.ends_with("tests.rs") {
            let words = imports::code(text).into_iter().map(str::to_owned);
            files.push((file.to_owned(), words.collect()));
        }
    };
    for name in ["core", "git", "cluster", "forge", "controller"] {
        visit(&sources(name), &mut look);
    }
    visit(&root().join("src"), &mut look);
    let mut wrong = Vec::new();
    for (kind, own, most) in KINDS {
        let names = ["", "Spec", "Status", "Phase", "Journal"].map(|part| format!("{kind}{part}"));
        let is_own = |file: &str| own.iter().chain(REGISTRY).any(|place| file.contains(place));
        let elsewhere: Vec<&str> = files
            .iter()
            .filter(|(file, words)| !is_own(file) && names.iter().any(|name| words.contains(name)))
            .map(|(file, _)| file.as_str())
            .collect();
        if elsewhere.len() != *most {
            wrong.push(format!("{kind}: {}, not {most}: {elsewhere:#?}", elsewhere.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_talks_to_libgit2_alone_allows_unsafe_code() {
    let mut files = Vec::new();
    for folder in ["crates", "src"] {
        visit(&root().join(folder), &mut |path, text| {
            if text.contains("allow(unsafe_code)") {
                files.push(path.to_owned());
            }
        });
    }
    files.sort();
    let expected = ["process.rs", "stream.rs"].map(|file| sources("git").join(file));
    assert_eq!(files, expected);
}

fn visit(path: &Path, look: &mut impl FnMut(&Path, &str)) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            visit(&entry.unwrap().path(), look);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        look(path, &std::fs::read_to_string(path).unwrap());
    }
}
