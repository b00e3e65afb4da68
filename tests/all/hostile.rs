//! Hostile repositories: whatever somebody pushes, the program ends in time, within its memory, with an answer, and shows
//! no secret. Each family of cases has a file; docs/explanation/security.md says of each what happens.

// A family is a table: names beside functions that make a case, as many as there are.
#![allow(
    clippy::type_complexity,
    clippy::too_many_lines,
    reason = "a family is a table"
)]

mod config;
mod cost;
mod history;
mod intents;
mod names;
mod profiles;
mod run;
mod trees;
mod yaml;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use git2::{Oid, Repository};

use run::{Shared, Violation, tried};

/// Something of a repository, by its path.
enum Entry {
    File(Vec<u8>),
    Link(String),
    /// A file of so many bytes, all of them zero, that takes no place on the disk. Git has it empty.
    Hole(u64),
}

type Files = Vec<(String, Entry)>;
type Make<T> = Box<dyn Fn() -> T + Send + Sync>;
type Committed = Box<dyn Fn(&Repository) -> Oid + Send + Sync>;

enum Content {
    /// Files of a work tree, which are committed too.
    Files(Make<Files>),
    /// What only Git has: makes the newest commit.
    Commit(Committed),
}

struct Case {
    family: &'static str,
    name: String,
    content: Content,
    /// `validate` must find something wrong with it.
    is_refused: bool,
}

impl Case {
    fn files(
        family: &'static str,
        name: impl Into<String>,
        make: impl Fn() -> Files + Send + Sync + 'static,
    ) -> Self {
        Self {
            family,
            name: name.into(),
            content: Content::Files(Box::new(make)),
            is_refused: false,
        }
    }

    /// One file beside an ordinary `cutover.yaml`.
    fn file(
        family: &'static str,
        name: impl Into<String>,
        make: impl Fn() -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::files(family, name, move || {
            vec![("apps/a.yaml".to_owned(), Entry::File(make()))]
        })
    }

    /// Only `cutover.yaml`.
    fn config(
        family: &'static str,
        name: impl Into<String>,
        make: impl Fn() -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::files(family, name, move || {
            vec![("cutover.yaml".to_owned(), Entry::File(make()))]
        })
    }

    fn commit(
        family: &'static str,
        name: impl Into<String>,
        make: impl Fn(&Repository) -> Oid + Send + Sync + 'static,
    ) -> Self {
        Self {
            family,
            name: name.into(),
            content: Content::Commit(Box::new(make)),
            is_refused: false,
        }
    }

    fn refused(mut self) -> Self {
        self.is_refused = true;
        self
    }

    fn title(&self) -> String {
        format!("{}: {}", self.family, self.name)
    }
}

/// What does not hold yet, by the beginning of the cases' titles and what goes wrong; docs/explanation/security.md lists it. One that
/// holds must go from here.
const KNOWN: &[(&str, Violation)] = &[];

fn cases() -> Vec<Case> {
    let families = [
        yaml::cases(),
        names::cases(),
        config::cases(),
        trees::cases(),
        profiles::cases(),
        intents::cases(),
        history::cases(),
    ];
    families.into_iter().flatten().collect()
}

/// Two at a time. `CUTOVER_HOSTILE` tries only cases whose title contains it.
#[test]
fn every_hostile_repository_gets_an_answer_in_time_and_within_its_memory() {
    let only = std::env::var("CUTOVER_HOSTILE").unwrap_or_default();
    let cases = cases();
    assert!(cases.len() >= 300, "{}", cases.len());
    let chosen: Vec<(usize, &Case)> = cases
        .iter()
        .enumerate()
        .filter(|(_, case)| case.title().contains(&only))
        .collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let server = Shared::start();
                while let Some((number, case)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let violations = tried(case, *number, &server);
                    found
                        .lock()
                        .unwrap()
                        .extend(violations.into_iter().map(|found| (case.title(), found)));
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    let is_known = |title: &str, violation: Violation| {
        KNOWN
            .iter()
            .any(|(start, known)| title.starts_with(start) && *known == violation)
    };
    let new: Vec<String> = found
        .iter()
        .filter(|(title, (violation, _))| !is_known(title, *violation))
        .map(|(title, (violation, what))| format!("{violation:?}: {title}: {what}"))
        .collect();
    assert!(
        new.is_empty(),
        "{} of {}:\n{}",
        new.len(),
        chosen.len(),
        new.join("\n")
    );
    let holds: Vec<_> = KNOWN
        .iter()
        .filter(|(start, known)| {
            only.is_empty()
                && !found
                    .iter()
                    .any(|(title, (violation, _))| title.starts_with(start) && violation == known)
        })
        .collect();
    assert!(
        holds.is_empty(),
        "these hold now, take them off the list: {holds:?}"
    );
}

#[test]
fn the_page_on_security_says_what_is_tried() {
    let page = include_str!("../../docs/explanation/security.md");
    let mut counts = BTreeMap::<&str, usize>::new();
    for case in cases() {
        *counts.entry(case.family).or_default() += 1;
    }
    for (family, count) in counts {
        let row = format!("| `{family}` | {count} |");
        assert!(page.contains(&row), "docs/explanation/security.md lacks {row}");
    }
    for (start, _) in KNOWN {
        assert!(
            page.contains(&format!("`{start}`")),
            "docs/explanation/security.md lacks {start}"
        );
    }
}

/// The names of functions and modules of the sources below a folder.
fn named_below(folder: &std::path::Path, names: &mut std::collections::BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            named_below(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let after = |word: &'static str| text.split(word).skip(1);
            let word = |rest: &str| {
                rest.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                    .next()
                    .map(str::to_owned)
            };
            names.extend(after("fn ").chain(after("mod ")).filter_map(word));
        }
    }
}

#[test]
fn every_test_that_the_page_on_security_names_is_there() {
    let page = include_str!("../../docs/explanation/security.md");
    let (_, table) = page.split_once("## Other attacks").unwrap();
    let mut names = std::collections::BTreeSet::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["crates", "tests"] {
        named_below(&root.join(folder), &mut names);
    }
    let rows = table
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| attack"));
    let mut missing = Vec::new();
    for row in rows {
        let tests: Vec<&str> = row
            .rsplit('|')
            .nth(1)
            .unwrap()
            .split('`')
            .skip(1)
            .step_by(2)
            .collect();
        assert!(!tests.is_empty(), "no test is named: {row}");
        let parts = tests
            .iter()
            .flat_map(|test| test.split("::"))
            .filter(|part| !part.is_empty());
        missing.extend(parts.filter(|part| !names.contains(*part)));
    }
    assert!(missing.is_empty(), "{missing:?}");
}
