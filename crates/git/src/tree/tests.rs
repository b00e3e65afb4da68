//! The tree comparison against a slow and obvious one: flatten both trees, compare the maps.

use std::collections::{BTreeMap, BTreeSet};

use git2::{Repository, Signature, Time};
use proptest::prelude::*;

use super::*;

const LIMITS: Limits = Limits {
    file_bytes: 1 << 20,
    entries: 10_000,
    depth: 64,
    path_bytes: 1024,
    received_bytes: 1 << 30,
};

struct Scratch {
    repo: Repository,
    _directory: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            repo: Repository::init_bare(directory.path()).unwrap(),
            _directory: directory,
        }
    }

    fn blob(&self, content: &str) -> Oid {
        self.repo.blob(content.as_bytes()).unwrap()
    }

    /// Writes a tree object byte by byte: `TreeBuilder` would refuse the names that hostile trees have.
    fn tree(&self, entries: &[(&str, &[u8], Oid)]) -> Oid {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend_from_slice(format!("{mode} ").as_bytes());
            bytes.extend_from_slice(name);
            bytes.push(0);
            bytes.extend_from_slice(id.as_bytes());
        }
        self.repo.odb().unwrap().write(ObjectType::Tree, &bytes).unwrap()
    }

    fn commit(&self, tree: Oid) -> Revision {
        let who = Signature::new("a", "a@b", &Time::new(0, 0)).unwrap();
        let tree = self.repo.find_tree(tree).unwrap();
        let id = self.repo.commit(None, &who, &who, "m", &tree, &[]).unwrap();
        id.to_string().parse().unwrap()
    }

    fn files(&self, files: &Flat) -> Revision {
        let tree = self.directory(files, "");
        self.commit(tree)
    }

    fn directory(&self, files: &Flat, prefix: &str) -> Oid {
        let mut builder = self.repo.treebuilder(None).unwrap();
        let mut directories = BTreeSet::new();
        for (path, (kind, content)) in files {
            let Some(rest) = path.strip_prefix(prefix) else {
                continue;
            };
            if let Some((directory, _)) = rest.split_once('/') {
                directories.insert(directory);
                continue;
            }
            let id = match kind {
                EntryKind::Submodule => Oid::from_str(&content.repeat(40)).unwrap(),
                _ => self.blob(content),
            };
            builder.insert(rest, id, mode(*kind)).unwrap();
        }
        for name in directories {
            let tree = self.directory(files, &format!("{prefix}{name}/"));
            builder.insert(name, tree, mode(EntryKind::Directory)).unwrap();
        }
        builder.write().unwrap()
    }

    fn changed(&self, from: Option<&Revision>, to: &Revision, paths: &[&str]) -> Changes {
        changed(&self.repo, &LIMITS, from, to, paths).unwrap()
    }
}

fn mode(kind: EntryKind) -> i32 {
    match kind {
        EntryKind::File => 0o100_644,
        EntryKind::Directory => 0o040_000,
        EntryKind::Symlink => 0o120_000,
        EntryKind::Submodule => 0o160_000,
    }
}

type Flat = BTreeMap<String, (EntryKind, String)>;

/// The obvious comparison: looks at every path of both sides.
fn obvious(scratch: &Scratch, old: &Flat, new: &Flat, paths: &[&str]) -> Changes {
    let under = |path: &str| {
        paths.is_empty()
            || paths
                .iter()
                .any(|dir| path == *dir || path.starts_with(&format!("{dir}/")))
    };
    let above = |path: &str| paths.iter().any(|dir| dir.starts_with(&format!("{path}/")));
    let all: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let all = all.into_iter().filter(|path| under(path) || above(path));
    let mut changes = Changes::default();
    for path in all {
        let (before, after) = (old.get(path), new.get(path));
        let file = |entry: Option<&(EntryKind, String)>| match entry {
            Some((EntryKind::File, content)) => Some(BlobId(scratch.blob(content))),
            _ => None,
        };
        let change = match (file(before), file(after)) {
            (None, Some(blob)) => Some((ChangeKind::Added, blob)),
            (Some(blob), None) => Some((ChangeKind::Deleted, blob)),
            (Some(old), Some(new)) if old != new => Some((ChangeKind::Modified, new)),
            _ => None,
        };
        if let Some((kind, blob)) = change.filter(|_| under(path)) {
            changes.files.push(Change {
                path: path.clone(),
                kind,
                blob,
            });
        }
        let skipped = |entry: Option<&(EntryKind, String)>| match entry?.0 {
            EntryKind::Symlink => Some((Obstacle::Symlink, Shape::Either)),
            EntryKind::Submodule => Some((Obstacle::Submodule, Shape::Folder)),
            _ => None,
        };
        if before == after {
            continue;
        }
        match (skipped(before), skipped(after)) {
            (_, Some((why, shape))) => changes.skipped.push(Skipped {
                path: path.clone(),
                why,
                shape,
            }),
            (Some(_), None) => changes.cleared.push(path.clone()),
            (None, None) => {}
        }
    }
    changes
}

/// Files in few directories with few names, so that both sides share most of them; names that sort around `/`.
fn flat() -> impl Strategy<Value = Flat> {
    let name = prop::sample::select(vec!["a", "a-b", "a.b", "a0", "b"]);
    let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    let kind = prop_oneof![
        6 => Just(EntryKind::File),
        1 => Just(EntryKind::Symlink),
        1 => Just(EntryKind::Submodule),
    ];
    let entry = (kind, prop::sample::select(vec!["1", "2"]).prop_map(str::to_owned));
    prop::collection::btree_map(path, entry, 0..12).prop_map(|files| {
        let names: Vec<String> = files.keys().cloned().collect();
        let in_the_way = |path: &str| names.iter().any(|name| name.starts_with(&format!("{path}/")));
        files.into_iter().filter(|(path, _)| !in_the_way(path)).collect()
    })
}

fn paths() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "a/b", "a/a.b", "nowhere"]),
        0..3,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_walk_finds_what_comparing_every_file_finds(old in flat(), new in flat(), paths in paths()) {
        let scratch = Scratch::new();
        let (from, to) = (scratch.files(&old), scratch.files(&new));
        prop_assert_eq!(
            scratch.changed(Some(&from), &to, &paths),
            obvious(&scratch, &old, &new, &paths)
        );
        prop_assert_eq!(
            scratch.changed(None, &to, &paths),
            obvious(&scratch, &Flat::new(), &new, &paths)
        );
    }
}

#[test]
fn names_that_no_file_has_are_skipped_with_a_note() {
    let scratch = Scratch::new();
    let blob = scratch.blob("x");
    let deep = scratch.tree(&[("100644", b"good", blob)]);
    let root = scratch.tree(&[
        ("40000", b"..", deep),
        ("100644", b"a\nb", blob),
        ("100644", b"fine", blob),
        ("100644", b"\xff", blob),
    ]);
    let changes = scratch.changed(None, &scratch.commit(root), &[]);
    assert_eq!(
        changes
            .files
            .iter()
            .map(|change| change.path.as_str())
            .collect::<Vec<_>>(),
        ["fine"]
    );
    let reasons: Vec<Obstacle> = changes.skipped.iter().map(|skipped| skipped.why).collect();
    assert_eq!(reasons, [Obstacle::BadName, Obstacle::BadName, Obstacle::NotUtf8]);
}

/// Any entries in any order, some of them again: what no Git writes, and a hostile client can.
fn entries() -> impl Strategy<Value = Vec<(bool, &'static str, u8)>> {
    let name = prop::sample::select(vec!["a", "a-b", "a.b", "a0", "b", "b/"]);
    prop::collection::vec((any::<bool>(), name, 0_u8..3), 0..8)
}

proptest! {
    #[test]
    fn trees_in_any_order_differ_in_what_differs_by_name(old in entries(), new in entries(), sorted in any::<bool>()) {
        let scratch = Scratch::new();
        let tree = |entries: &[(bool, &'static str, u8)]| {
            let mut entries: Vec<_> = entries
                .iter()
                .map(|(is_directory, name, content)| {
                    let mode = if *is_directory { "40000" } else { "100644" };
                    (mode, name.as_bytes(), scratch.blob(&content.to_string()))
                })
                .collect();
            if sorted {
                entries.sort_by_key(|(mode, name, _)| [name, &b"/"[..usize::from(*mode == "40000")]].concat());
                entries.dedup_by_key(|(mode, name, _)| (*mode, *name));
            }
            scratch.repo.find_tree(scratch.tree(&entries)).unwrap()
        };
        let (old, new) = (tree(&old), tree(&new));
        let ordered = |mut differences: Vec<Difference>| {
            differences.sort_by_key(|(name, old, new)| {
                let entry = old.or(*new).unwrap();
                (name.clone(), entry.1 == EntryKind::Directory)
            });
            differences
        };
        prop_assert_eq!(
            ordered(differences(Some(&old), Some(&new))),
            ordered(differences_by_name(Some(&old), Some(&new)))
        );
        prop_assert_eq!(ordered(differences(None, Some(&new))), ordered(differences_by_name(None, Some(&new))));
    }
}

#[test]
fn a_tree_that_repeats_itself_a_billion_times_is_given_up_early() {
    let scratch = Scratch::new();
    let mut tree = scratch.tree(&[("100644", b"file", scratch.blob("x"))]);
    for _ in 0..10 {
        let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        let entries: Vec<_> = names
            .iter()
            .map(|name| ("40000", name.as_bytes(), tree))
            .collect();
        tree = scratch.tree(&entries);
    }
    let result = changed(&scratch.repo, &LIMITS, None, &scratch.commit(tree), &[]);
    assert!(
        matches!(result, Err(Error::OverBudget(over)) if over.limit == Limit::RevisionEntries && over.allowed == 10_000),
        "{result:?}"
    );
}

#[test]
fn directories_below_the_limit_of_depth_are_skipped_with_a_note() {
    let scratch = Scratch::new();
    let mut tree = scratch.tree(&[("100644", b"file", scratch.blob("x"))]);
    for _ in 0..100 {
        tree = scratch.tree(&[("40000", b"d", tree)]);
    }
    let changes = scratch.changed(None, &scratch.commit(tree), &[]);
    assert!(changes.files.is_empty());
    assert_eq!(changes.skipped.len(), 1);
    let Obstacle::TooDeep(exceeded) = changes.skipped[0].why else {
        panic!("{}", changes.skipped[0].why);
    };
    assert_eq!(
        (exceeded.limit, exceeded.allowed),
        (Limit::PathFolders, LIMITS.depth)
    );
}

#[test]
fn a_large_file_is_refused_by_its_size() {
    let scratch = Scratch::new();
    let blob = BlobId(scratch.blob(&"x".repeat(101)));
    let limits = Limits {
        file_bytes: 100,
        ..LIMITS
    };
    let odb = scratch.repo.odb().unwrap();
    let result = read(&odb, &limits, blob);
    assert!(matches!(
        result,
        Err(Error::TooLarge {
            size: 101,
            limit: 100,
            ..
        })
    ));
    assert_eq!(read(&odb, &LIMITS, blob).unwrap().len(), 101);
}

#[test]
fn a_link_stands_for_what_it_leads_to_in_the_same_revision() {
    let scratch = Scratch::new();
    let blob = |text: &str| scratch.blob(text);
    let folder = scratch.tree(&[
        ("100644", b"a.yaml", blob("x")),
        ("120000", b"file", blob("../f/a.yaml")),
        ("120000", b"folder", blob("./../f")),
        ("120000", b"nowhere", blob("gone")),
        ("120000", b"outside", blob("../../f")),
        ("120000", b"device", blob("/dev/zero")),
        ("160000", b"module", Oid::from_str(&"2".repeat(40)).unwrap()),
    ]);
    let root = scratch.tree(&[("40000", b"f", folder)]);
    let changes = scratch.changed(None, &scratch.commit(root), &["f"]);
    let shapes: Vec<_> = changes
        .skipped
        .iter()
        .map(|skipped| (skipped.path.as_str(), skipped.shape))
        .collect();
    assert_eq!(
        shapes,
        [
            ("f/device", Shape::Either),
            ("f/file", Shape::File),
            ("f/folder", Shape::Folder),
            ("f/module", Shape::Folder),
            ("f/nowhere", Shape::Either),
            ("f/outside", Shape::Either),
        ]
    );
}

#[test]
fn what_stands_in_the_place_of_a_file_or_above_it_is_no_missing_file() {
    let scratch = Scratch::new();
    let folder = scratch.tree(&[("100644", b"x", scratch.blob("x"))]);
    let root = scratch.tree(&[
        ("120000", b"above", scratch.blob("cutover.d")),
        ("40000", b"cutover.d", folder),
        ("120000", b"cutover.yaml", scratch.blob("/dev/zero")),
    ]);
    let tree = scratch.repo.find_tree(root).unwrap();
    for (path, expected) in [
        ("cutover.yaml", Some(Obstacle::Symlink)),
        ("cutover.d", Some(Obstacle::Folder)),
        ("above/x", Some(Obstacle::Symlink)),
        ("cutover.d/y", None),
    ] {
        match (read_path(&scratch.repo, &LIMITS, &tree, path), expected) {
            (Ok(None), None) => {}
            (Err(Error::NotAFile { why, .. }), Some(expected)) => assert_eq!(why, expected, "{path}"),
            (other, _) => panic!("{path}: {other:?}"),
        }
    }
}

#[test]
fn a_missing_tree_is_damage_and_a_missing_file_is_not() {
    let scratch = Scratch::new();
    let lost = Oid::from_str(&"1".repeat(40)).unwrap();
    let root = scratch.tree(&[("100644", b"file", scratch.blob("x")), ("40000", b"lost", lost)]);
    let tree = scratch.repo.find_tree(root).unwrap();
    assert_eq!(
        read_path(&scratch.repo, &LIMITS, &tree, "absent/file").unwrap(),
        None
    );
    assert_eq!(
        read_path(&scratch.repo, &LIMITS, &tree, "file/below").unwrap(),
        None
    );
    assert!(matches!(
        read_path(&scratch.repo, &LIMITS, &tree, "lost/file"),
        Err(Error::Damaged(_))
    ));
}
