//! Commits that are hostile themselves, and what is only in history.

use git2::{ObjectType, Oid, Repository};

use cutover::repo::{Branch, Draft, Files, Message, Tip};

use crate::support::git::{Http, Mirrored, Origin};
use crate::support::plane::{CONFIG_MAPS, NAMESPACE, Plane, config, settings};
use crate::support::server::On;
use crate::support::wait::until;

use super::Case;
use super::trees::{blob, commit, nested, ordinary, with_apps};

const FAMILY: &str = "history";

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (names, depth) in [(10, 40), (1, 12_000), (200_000, 1)] {
        cases.push(Case::commit(
            FAMILY,
            format!("{names} names, {depth} deep, before"),
            move |repo| {
                let before = with_apps(repo, nested(repo, names, depth));
                ordinary(repo, &[before])
            },
        ));
    }
    cases.push(Case::commit(FAMILY, "a file of 64 MiB before", |repo| {
        let file = blob(repo, &vec![0; 64 << 20]);
        let before = with_apps(
            repo,
            super::trees::tree(repo, &[("100644", b"a.yaml".to_vec(), file)]),
        );
        ordinary(repo, &[before])
    }));
    for (name, date) in [
        ("overflows", "99999999999999999999 +0000"),
        ("is the last of 64 bits", "9223372036854775807 +0000"),
        ("is negative", "-1 +0000"),
        ("is before all time", "-9223372036854775808 +0000"),
        ("has an impossible offset", "1700000000 +9999"),
        ("has an overflowing offset", "1700000000 +99999999999"),
        ("is no number", "today"),
        ("is missing", ""),
    ] {
        for is_before in [false, true] {
            let place = if is_before { " before" } else { "" };
            cases.push(Case::commit(FAMILY, format!("a date that {name}{place}"), move |repo| {
                let text = |tree: Oid| {
                    format!("tree {tree}\nauthor A <a@example.com> {date}\ncommitter A <a@example.com> {date}\n\nchange\n")
                };
                let plain = repo.find_commit(ordinary(repo, &[])).unwrap();
                let odd = raw(repo, &text(plain.tree_id()));
                if is_before { ordinary(repo, &[odd]) } else { odd }
            }));
        }
    }
    for parents in [2, 1_000, 20_000] {
        cases.push(Case::commit(FAMILY, format!("{parents} parents"), move |repo| {
            let parent = ordinary(repo, &[]);
            ordinary(repo, &vec![parent; parents])
        }));
    }
    for (name, extra) in [
        ("an encoding that nobody knows", "encoding x-nobody\n".to_owned()),
        (
            "a signature that is none",
            "gpgsig -----BEGIN PGP SIGNATURE-----\n".to_owned(),
        ),
        ("50,000 headers", "x-header a\n".repeat(50_000)),
    ] {
        cases.push(Case::commit(FAMILY, name, move |repo| {
            let plain = repo.find_commit(ordinary(repo, &[])).unwrap();
            let who = "A <a@example.com> 1700000000 +0000";
            raw(
                repo,
                &format!(
                    "tree {}\nauthor {who}\ncommitter {who}\n{extra}\nchange\n",
                    plain.tree_id()
                ),
            )
        }));
    }
    for (name, author, message) in [
        (
            "an author with escapes",
            "\u{1b}[2J\u{202e}".to_owned(),
            "change".to_owned(),
        ),
        ("an author of 1 MB", "A".repeat(1_000_000), "change".to_owned()),
        ("a message of 8 MB", "A".to_owned(), "m".repeat(8_000_000)),
        (
            "a message with commands",
            "A".to_owned(),
            "\n::error::a\n\u{1b}]0;a\u{7}".to_owned(),
        ),
    ] {
        cases.push(Case::commit(FAMILY, name, move |repo| {
            let plain = repo.find_commit(ordinary(repo, &[])).unwrap();
            let who = format!("{author} <a@example.com> 1700000000 +0000");
            raw(
                repo,
                &format!(
                    "tree {}\nauthor {who}\ncommitter {who}\n\n{message}\n",
                    plain.tree_id()
                ),
            )
        }));
    }
    cases.push(Case::commit(FAMILY, "a parent that is missing", |repo| {
        ordinary(repo, &[Oid::from_str(&"4".repeat(40)).unwrap()])
    }));
    cases.push(Case::commit(FAMILY, "a parent that is a file", |repo| {
        ordinary(repo, &[blob(repo, b"text")])
    }));
    cases.push(Case::commit(FAMILY, "1,000 commits", |repo| {
        let tree = repo.find_commit(ordinary(repo, &[])).unwrap().tree_id();
        (0..1_000).fold(ordinary(repo, &[]), |parent, _| commit(repo, tree, &[parent]))
    }));
    cases
}

const SYNC: &str = "- {name: apps, path: apps}";

/// What is in force stays in force, and the next commit that can be read is taken.
#[tokio::test]
async fn a_commit_that_cannot_be_read_is_named_and_stops_only_what_needs_it() {
    let plane = Plane::with(
        On::Sandbox,
        &[
            ("cutover.yaml", &settings(SYNC)),
            (NAMESPACE.0, NAMESPACE.1),
            ("apps/a.yaml", &config("a")),
        ],
    );
    let _running = plane.start();
    until("a is applied", || plane.config("a").is_some()).await;

    let (repo, good) = (plane.origin.repo(), plane.origin.tip("main").unwrap());
    let tree = repo
        .find_commit(good.as_str().parse().unwrap())
        .unwrap()
        .tree_id();
    let date = "99999999999999999999 +0000";
    let odd = raw(
        &repo,
        &format!("tree {tree}\nparent {good}\nauthor A <a@b> {date}\ncommitter A <a@b> {date}\n\nodd\n"),
    );
    let branch = repo.path().join("refs/heads/main");
    std::fs::write(&branch, format!("{odd}\n")).unwrap();
    let mirrored = Mirrored::of(plane.origin.url()).await;
    let error = mirrored.fetch().await.unwrap_err();
    assert!(error.to_string().contains(&odd.to_string()), "{error}");
    assert!(error.hint().unwrap().contains("rewrite the commit"));

    plane.server.delete(&CONFIG_MAPS, Some("shop"), "a");
    until("drift is corrected", || plane.config("a").is_some()).await;

    std::fs::write(&branch, format!("{good}\n")).unwrap();
    plane.push(&[("apps/b.yaml", &config("b"))]);
    until("b is applied", || plane.config("b").is_some()).await;
}

/// What is in the mirror is walked when more is fetched from a server, by a library that gives up at such a commit.
#[tokio::test]
async fn a_commit_that_cannot_be_walked_is_named_and_keeps_nothing_newer_from_being_fetched() {
    let odd: [(&str, fn(Oid, Oid) -> String); 2] = [
        ("a date", |tree, parent| {
            let who = "A <a@b> 99999999999999999999 +0000";
            format!("tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nodd\n")
        }),
        ("parents", |tree, parent| {
            let (who, parents) = (
                "A <a@b> 1700000000 +0000",
                format!("parent {parent}\n").repeat(65_536),
            );
            format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nodd\n")
        }),
    ];
    for (what, text) in odd {
        let origin = Origin::with(&[("a.yaml", "one")]);
        let (repo, good) = (origin.repo(), origin.tip("main").unwrap());
        let first = repo.find_commit(good.as_str().parse().unwrap()).unwrap();
        let odd = raw(&repo, &text(first.tree_id(), first.id()));
        let branch = |commit: &str| {
            std::fs::write(repo.path().join("refs/heads/main"), format!("{commit}\n")).unwrap();
        };
        let server = Http::of(origin.root()).start();
        for url in [origin.url(), server.http()] {
            branch(good.as_str());
            let mirrored = Mirrored::of(url).await;
            mirrored.fetch().await.unwrap();

            branch(&odd.to_string());
            let error = mirrored.fetch().await.unwrap_err();
            assert!(error.to_string().contains(&odd.to_string()), "{what}: {error}");
            assert!(error.hint().unwrap().contains("rewrite the commit"), "{what}");

            // Behind the tip, and later farther behind.
            let mut tip = odd;
            for number in 0..3_u8 {
                tip = commit(&repo, first.tree_id(), &[tip]);
                branch(&tip.to_string());
                let fetched = mirrored.fetch().await;
                let fetched = fetched.unwrap_or_else(|error| panic!("{what}, {number} behind: {error}"));
                assert_eq!(fetched.revision.as_str(), tip.to_string(), "{what}");
                let draft = move |_: &Tip<'_>| {
                    Ok(Draft {
                        message: Message::new("status"),
                        files: Files::Edit([("STATUS.md".to_owned(), Some(vec![b'a' + number]))].into()),
                    })
                };
                let published = mirrored.publish(Branch::Status, draft).await;
                published.unwrap_or_else(|error| panic!("{what}, {number} behind: {error}"));
            }
        }
    }
}

fn raw(repo: &Repository, text: &str) -> Oid {
    repo.odb()
        .unwrap()
        .write(ObjectType::Commit, text.as_bytes())
        .unwrap()
}
