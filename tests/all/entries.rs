//! Entries of a repository that can't be read: `validate`, `plan`, `review` and `run` say the same of each, the writing commands
//! name them where they miss something, and nothing that one of them defined before is deleted.

use std::process::{Command, Output};

use cutover::plan::{Action, Stop};
use cutover::reconcile;
use cutover::reconcile::sync::Range;
use git2::{ObjectType, Oid, Repository};
use tokio_util::sync::CancellationToken;

use crate::cli::text;
use crate::support::plane::{NAMESPACE, Plane, config, settings};
use crate::support::served::{Served, as_text};
use crate::support::server::On;
use crate::support::wait::until;

const SYNC: &str = "- {name: apps, path: apps, prune: true, exclude: [charts/]}";
const FILES: [&str; 3] = ["a", "b", "c"];

/// A tree by its entries: mode, name and id.
type Entries = Vec<(&'static str, Vec<u8>, Oid)>;

/// What becomes of the folder that is synced. `folder` has `a.yaml` and a folder `deep` with `b.yaml` and `c.yaml`.
struct Case {
    name: &'static str,
    change: fn(&Repository, &mut Entries),
    /// What the report names, as it is shown.
    path: &'static str,
    why: &'static str,
}

const LINK: &str = "a symbolic link is not followed";
const MODULE: &str = "a submodule is not read";
const CONTROL: &str = "its name has a control character";

const REVIEW: &[&str] = &["review", "--offline", "--revision", "HEAD~1..HEAD"];
const MIGRATE: &[&str] = &[
    "migrate",
    "FlinkDeployment/orders",
    "--api-version",
    "flink.apache.org/v1beta1",
    "--namespace",
    "shop",
    "--to",
    "west",
    "--file",
    "apps/orders-to-west.yaml",
    "--dry-run",
];
const ABORT: &[&str] = &["abort", "orders-to-west", "--dry-run"];

const CASES: &[Case] = &[
    Case {
        name: "a file becomes a link to another",
        change: |repo, entries| set(entries, b"a.yaml", "120000", blob(repo, "deep/b.yaml")),
        path: "apps/a.yaml",
        why: LINK,
    },
    Case {
        name: "a file becomes a link to a device",
        change: |repo, entries| set(entries, b"a.yaml", "120000", blob(repo, "/dev/zero")),
        path: "apps/a.yaml",
        why: LINK,
    },
    Case {
        name: "a name with a tab",
        change: |_, entries| rename(entries, b"a.yaml", b"a\tb.yaml"),
        path: "apps/a",
        why: CONTROL,
    },
    Case {
        name: "a name that is not UTF-8",
        change: |_, entries| rename(entries, b"a.yaml", b"a\xff.yaml"),
        path: "apps/a\u{fffd}.yaml",
        why: "its name is not UTF-8",
    },
    Case {
        name: "a folder with a name that is not UTF-8",
        change: |_, entries| rename(entries, b"deep", b"deep\xff"),
        path: "apps/deep\u{fffd}",
        why: "its name is not UTF-8",
    },
    Case {
        name: "a folder becomes a link to a folder",
        change: |repo, entries| set(entries, b"deep", "120000", blob(repo, "../elsewhere")),
        path: "apps/deep",
        why: LINK,
    },
    Case {
        name: "a folder becomes a link out of the repository",
        change: |repo, entries| set(entries, b"deep", "120000", blob(repo, "/nowhere")),
        path: "apps/deep",
        why: LINK,
    },
    Case {
        name: "a folder becomes a submodule",
        change: |_, entries| {
            set(
                entries,
                b"deep",
                "160000",
                Oid::from_str(&"3".repeat(40)).unwrap(),
            );
        },
        path: "apps/deep",
        why: MODULE,
    },
    Case {
        name: "a folder moves below too many others",
        change: |repo, entries| {
            let at = entries.iter().position(|(_, name, _)| name == b"deep").unwrap();
            let (_, _, mut tree) = entries.remove(at);
            for _ in 0..70 {
                tree = write(repo, vec![("40000", b"d".to_vec(), tree)]);
            }
            entries.push(("40000", b"d".to_vec(), tree));
        },
        path: "apps/d/d/d",
        why: "below more folders than are read: more than 64 folders above a file (limit path-folders)",
    },
    Case {
        name: "a path is too long",
        change: |repo, entries| {
            let at = entries.iter().position(|(_, name, _)| name == b"deep").unwrap();
            let (_, _, mut tree) = entries.remove(at);
            for _ in 0..6 {
                tree = write(repo, vec![("40000", vec![b'l'; 200], tree)]);
            }
            entries.push(("40000", b"l".to_vec(), tree));
        },
        path: "apps/l/lll",
        why: "its path is longer than is read: more than 1024 bytes in a path (limit path-bytes)",
    },
];

fn blob(repo: &Repository, content: &str) -> Oid {
    repo.blob(content.as_bytes()).unwrap()
}

fn set(entries: &mut Entries, name: &[u8], mode: &'static str, id: Oid) {
    entries.retain(|(_, there, _)| there != name);
    entries.push((mode, name.to_vec(), id));
}

fn rename(entries: &mut Entries, from: &[u8], to: &[u8]) {
    let entry = entries.iter_mut().find(|(_, name, _)| name == from).unwrap();
    entry.1 = to.to_vec();
}

/// Writes a tree byte by byte, in Git's order: libgit2 would refuse some of the names.
fn write(repo: &Repository, mut entries: Entries) -> Oid {
    let key = |(mode, name, _): &(&str, Vec<u8>, Oid)| {
        let end: &[u8] = if *mode == "40000" { b"/" } else { b"" };
        [name, end].concat()
    };
    entries.sort_by_key(key);
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend([mode.as_bytes(), b" ", &name, b"\0", id.as_bytes()].concat());
    }
    repo.odb().unwrap().write(ObjectType::Tree, &bytes).unwrap()
}

fn entries(tree: &git2::Tree<'_>) -> Entries {
    let mode = |mode: i32| match mode {
        0o040_000 => "40000",
        0o120_000 => "120000",
        0o160_000 => "160000",
        _ => "100644",
    };
    tree.iter()
        .map(|entry| (mode(entry.filemode()), entry.name_bytes().to_vec(), entry.id()))
        .collect()
}

/// Commits a change of the folder `apps`.
fn commit(plane: &Plane, change: impl Fn(&Repository, &mut Entries)) {
    let repo = plane.origin.repo();
    let parent = repo
        .find_reference("refs/heads/main")
        .unwrap()
        .peel_to_commit()
        .unwrap();
    let root = parent.tree().unwrap();
    let mut apps = entries(&repo.find_tree(root.get_name("apps").unwrap().id()).unwrap());
    change(&repo, &mut apps);
    let mut top = entries(&root);
    set(&mut top, b"apps", "40000", write(&repo, apps));
    commit_root(&repo, &parent, top);
}

fn commit_root(repo: &Repository, parent: &git2::Commit<'_>, top: Entries) {
    let tree = repo.find_tree(write(repo, top)).unwrap();
    let who = git2::Signature::new("Ada", "ada@example.com", &git2::Time::new(1_700_000_100, 0)).unwrap();
    let parents = [parent];
    repo.commit(
        Some("refs/heads/main"),
        &who,
        &who,
        "change entries",
        &tree,
        &parents,
    )
    .unwrap();
}

/// Three config maps, applied by a reconciler that is gone.
async fn applied() -> Plane {
    let plane = Plane::with(
        On::Sandbox,
        &[
            ("cutover.yaml", &settings(SYNC)),
            (NAMESPACE.0, NAMESPACE.1),
            ("apps/a.yaml", &config("a")),
            ("apps/deep/b.yaml", &config("b")),
            ("apps/deep/c.yaml", &config("c")),
            ("elsewhere/readme.md", "nothing"),
        ],
    );
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    plane
}

fn all_there(plane: &Plane) -> bool {
    FILES.iter().all(|name| plane.config(name).is_some())
}

/// Makes a clone with a work tree, as `git clone` does it.
fn cloned(plane: &Plane) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("clone");
    let output = Command::new("git")
        .args(["clone", "--quiet"])
        .arg(plane.origin.path())
        .arg(&path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let config = Repository::open(&path).unwrap().config();
    let mut config = config.unwrap();
    config.set_str("user.name", "Ada").unwrap();
    config.set_str("user.email", "ada@example.com").unwrap();
    dir
}

fn cutover(dir: &tempfile::TempDir, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cutover"))
        .args(arguments)
        .current_dir(dir.path().join("clone"))
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .env("CUTOVER_STATE_DIR", dir.path().join("state"))
        .output()
        .unwrap()
}

#[tokio::test]
async fn nothing_is_deleted_for_an_entry_that_cannot_be_read_and_everybody_says_which() {
    for case in CASES {
        let plane = applied().await;
        commit(&plane, case.change);

        let planned = plane.planned().await;
        let deletions = planned
            .changes
            .iter()
            .filter(|change| change.action == Action::Delete);
        assert_eq!(deletions.count(), 0, "{}", case.name);
        let problems: Vec<String> = planned.problems.iter().map(ToString::to_string).collect();
        let is_said = |text: &str| text.contains(case.path) && text.contains(case.why);
        assert!(
            problems.iter().any(|text| is_said(text)),
            "{}: {problems:?}",
            case.name
        );

        let pruned = plane.pruned("apps").await;
        assert!(
            matches!(&pruned.stop, Some(Stop::Doubt(why)) if is_said(why)),
            "{}: {pruned:?}",
            case.name
        );
        assert!(all_there(&plane), "{}", case.name);

        let range = Range {
            revision: plane.origin.tip("main").unwrap(),
            base: Some(parent(&plane)),
        };
        let cancel = CancellationToken::new();
        let offline = reconcile::plan_offline(&plane.repo(), &range, &cancel).await;
        let offline = offline.unwrap().changes;
        let deletions = offline.iter().filter(|change| change.action == Action::Delete);
        assert_eq!(deletions.count(), 0, "{}", case.name);

        let clone = cloned(&plane);
        for command in [&["validate"][..], REVIEW] {
            let output = cutover(&clone, command);
            let said = text(&output.stdout);
            assert_eq!(
                output.status.code(),
                Some(1),
                "{}: {command:?}: {said}",
                case.name
            );
            assert!(is_said(&said), "{}: {command:?}: {said}", case.name);
        }
        // A file beside it can be written; what can't be found may be in it, and it is named.
        let output = cutover(&clone, MIGRATE);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{}: {said}", case.name);
        let output = cutover(&clone, ABORT);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{}: {said}", case.name);
        assert!(said.contains(case.path), "{}: {said}", case.name);
    }
}

#[tokio::test]
async fn a_reconciler_that_runs_deletes_nothing_for_it_either() {
    for case in CASES {
        let plane = applied().await;
        let _running = plane.start();
        // What comes with the entry, and what comes after it: in between there was time to prune.
        for (after, name) in ["first", "second"].into_iter().enumerate() {
            let path = format!("{name}.yaml").into_bytes();
            commit(&plane, |repo, entries| {
                if after == 0 {
                    (case.change)(repo, entries);
                }
                entries.push(("100644", path.clone(), blob(repo, &config(name))));
            });
            until(case.name, || plane.config(name).is_some()).await;
        }
        assert!(all_there(&plane), "{}", case.name);
    }
}

fn parent(plane: &Plane) -> cutover::name::Revision {
    let repo = plane.origin.repo();
    let tip = repo.find_reference("refs/heads/main").unwrap().peel_to_commit();
    tip.unwrap().parent_id(0).unwrap().to_string().parse().unwrap()
}

#[tokio::test]
async fn a_synced_folder_that_becomes_a_link_keeps_its_objects() {
    let plane = applied().await;
    let repo = plane.origin.repo();
    let tip = repo.find_reference("refs/heads/main").unwrap().peel_to_commit();
    let tip = tip.unwrap();
    let mut top = entries(&tip.tree().unwrap());
    set(&mut top, b"apps", "120000", blob(&repo, "elsewhere"));
    commit_root(&repo, &tip, top);
    let pruned = plane.pruned("apps").await;
    assert!(
        matches!(&pruned.stop, Some(Stop::Doubt(why)) if why.contains(LINK)),
        "{pruned:?}"
    );
    assert!(all_there(&plane));
}

#[tokio::test]
async fn once_the_entry_can_be_read_or_is_gone_what_git_wants_counts_again() {
    let plane = applied().await;
    commit(&plane, |repo, entries| {
        set(entries, b"a.yaml", "120000", blob(repo, "x"));
        entries.push(("100644", b"z.yaml".to_vec(), blob(repo, &config("z"))));
    });
    let _running = plane.start();
    until("the revision has been read", || plane.config("z").is_some()).await;
    commit(&plane, |_, entries| {
        entries.retain(|(_, name, _)| name != b"a.yaml");
    });
    until("the config map is gone", || plane.config("a").is_none()).await;
    assert!(plane.config("b").is_some());
}

#[tokio::test]
async fn what_sync_never_reads_or_leaves_out_may_be_a_link() {
    let plane = applied().await;
    commit(&plane, |repo, entries| {
        entries.push((
            "120000",
            b"README.md".to_vec(),
            blob(repo, "../elsewhere/readme.md"),
        ));
        entries.push(("120000", b".hidden".to_vec(), blob(repo, "deep")));
        entries.push(("120000", b"charts".to_vec(), blob(repo, "deep")));
        entries.retain(|(_, name, _)| name != b"a.yaml");
    });
    let clone = cloned(&plane);
    let output = cutover(&clone, &["validate"]);
    assert!(output.status.success(), "{}", text(&output.stdout));
    let pruned = plane.pruned("apps").await;
    assert!(pruned.stop.is_none(), "{pruned:?}");
    assert!(plane.config("a").is_none());
}

#[tokio::test]
async fn settings_that_are_no_regular_file_are_an_error_and_never_the_default() {
    let served = Served::start("nobody-asks");
    for (mode, target, why) in [
        ("120000", "/dev/zero", LINK),
        ("40000", "", "a folder stands where"),
    ] {
        let plane = applied().await;
        let repo = plane.origin.repo();
        let tip = repo.find_reference("refs/heads/main").unwrap().peel_to_commit();
        let tip = tip.unwrap();
        let mut top = entries(&tip.tree().unwrap());
        let id = match mode {
            "120000" => blob(&repo, target),
            // Its first file would have been read in its stead.
            _ => write(&repo, vec![("100644", b"a".to_vec(), blob(&repo, "syncs: []"))]),
        };
        set(&mut top, b"cutover.yaml", mode, id);
        // The whole repository would be synced by default.
        top.push(("100644", b"stray.yaml".to_vec(), blob(&repo, &config("stray"))));
        commit_root(&repo, &tip, top);
        let error = plane.try_run().await.unwrap_err().to_string();
        assert!(error.contains("cutover.yaml") && error.contains(why), "{error}");
        assert!(plane.config("stray").is_none());
        let clone = cloned(&plane);
        let kubeconfig = served.kubeconfig();
        for command in [
            &["validate"][..],
            REVIEW,
            &["plan", "--kubeconfig", as_text(&kubeconfig)],
            MIGRATE,
            &["status", "--recorded"],
        ] {
            let output = cutover(&clone, command);
            let said = text(&output.stdout) + &text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
            assert!(
                said.contains("cutover.yaml") && said.contains(why),
                "{command:?}: {said}"
            );
        }
    }
}

#[tokio::test]
async fn a_command_writes_nothing_through_a_link() {
    let plane = Plane::with(
        On::Sandbox,
        &[("cutover.yaml", &settings("- {name: apps, path: .}"))],
    );
    let clone = cloned(&plane);
    let (root, outside) = (clone.path().join("clone"), clone.path().join("outside"));
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("intents")).unwrap();
    std::os::unix::fs::symlink(outside.join("x.yaml"), root.join("one.yaml")).unwrap();
    for more in [&[][..], &["--file", "one.yaml"]] {
        let mut arguments = vec![
            "migrate",
            "FlinkDeployment/orders",
            "--api-version",
            "flink.apache.org/v1beta1",
            "--namespace",
            "shop",
            "--to",
            "west",
            "--no-commit",
        ];
        arguments.extend(more);
        let output = cutover(&clone, &arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(LINK) || said.contains("already"), "{said}");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}
