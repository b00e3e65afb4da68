//! The core decides without I/O: its modules import nothing that could do any.

use std::path::Path;

const CORE: &[&str] = &[
    "error.rs",
    "escape",
    "name.rs",
    "packed.rs",
    "packed",
    "budget.rs",
    "api",
    "karmada",
    "config.rs",
    "manifest",
    "lint",
    "plan",
    "intent",
    "profile",
    "redact",
    "report",
];

const FORBIDDEN: &[&str] = &[
    "kube::Client",
    "kube::client",
    "kube::runtime",
    "git2::",
    "tokio::",
    "std::fs",
    "std::net",
    "std::process",
    "crate::repo::",
    "crate::cluster",
    "crate::reconcile",
    "crate::cli",
    "crate::sandbox",
    "Timestamp::now",
    "SystemTime::now",
    "Instant::now",
];

#[test]
fn core_modules_import_no_shell() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut offences = Vec::new();
    for room in CORE {
        visit(&src.join(room), &mut |path, text| {
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
        "core modules reach into the shell:\n{}",
        offences.join("\n")
    );
}

#[test]
fn what_talks_to_libgit2_alone_allows_unsafe_code() {
    let mut files = Vec::new();
    visit(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut |path, text| {
            if text.contains("allow(unsafe_code)") {
                files.push(path.to_owned());
            }
        },
    );
    files.sort();
    let is_it = |(file, name): (&std::path::PathBuf, &&str)| file.ends_with(name);
    let expected = ["repo/process.rs", "repo/stream.rs"];
    assert_eq!(files.len(), expected.len(), "{files:?}");
    assert!(files.iter().zip(&expected).all(is_it), "{files:?}");
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
