//! Which crate knows which is the compiler's business; here stands what it can't say.

use std::path::{Path, PathBuf};
use std::process::Command;

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
