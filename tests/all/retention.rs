//! A status branch that has grown old: its commits become one, its files stay.

use cutover::name::Revision;
use cutover::repo::{Branch, Draft, Error, Files, Message, RemoteUrl, Squashed};
use git2::{Oid, Signature, Time};
use jiff::Timestamp;

use crate::support::git::{Http, Mirrored, Origin};

const STATUS: &str = "cutover/status";
const DAY: i64 = 24 * 3600;

fn day(number: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + number * DAY).unwrap()
}

/// Commits a file a day.
fn grow(origin: &Origin, days: i64) {
    let repo = origin.repo();
    let mut parent: Option<Oid> = None;
    let mut tree: Option<Oid> = None;
    for number in 0..days {
        let before = tree.map(|tree| repo.find_tree(tree).unwrap());
        let mut builder = repo.treebuilder(before.as_ref()).unwrap();
        let blob = repo.blob(number.to_string().as_bytes()).unwrap();
        builder.insert(format!("day-{number}"), blob, 0o100_644).unwrap();
        tree = Some(builder.write().unwrap());
        let who = Signature::new("Ada", "ada@example.com", &Time::new(day(number).as_second(), 60)).unwrap();
        let parents: Vec<_> = parent.iter().map(|id| repo.find_commit(*id).unwrap()).collect();
        let now = repo.find_tree(tree.unwrap()).unwrap();
        let message = format!("day {number}\n\nCutover-Phase: Hold\n");
        let parents: Vec<_> = parents.iter().collect();
        parent = Some(repo.commit(None, &who, &who, &message, &now, &parents).unwrap());
    }
    let tip = parent.unwrap();
    repo.reference(&format!("refs/heads/{STATUS}"), tip, true, "grow")
        .unwrap();
}

/// Returns subject, author's time and tree of each commit, the newest first.
fn history(origin: &Origin) -> Vec<(String, i64, Oid)> {
    let repo = origin.repo();
    let mut walk = repo.revwalk().unwrap();
    walk.push_ref(&format!("refs/heads/{STATUS}")).unwrap();
    let commits = walk.map(|id| repo.find_commit(id.unwrap()).unwrap());
    commits
        .map(|commit| {
            let subject = commit.summary().unwrap().unwrap_or_default().to_owned();
            (subject, commit.author().when().seconds(), commit.tree_id())
        })
        .collect()
}

async fn squashes(origin: &Origin, url: RemoteUrl) {
    grow(origin, 160);
    let before = history(origin);
    let repo = Mirrored::of(url).await;
    assert_eq!(
        repo.squash(day(90)).await.unwrap(),
        Squashed::Kept,
        "90 are not worth it"
    );
    assert_eq!(history(origin), before);
    assert_eq!(repo.squash(day(120)).await.unwrap(), Squashed::Done(120));
    let after = history(origin);
    assert_eq!(after.len(), 41);
    assert_eq!(after[..40], before[..40], "what is young says the same as before");
    let (subject, _, tree) = after.last().unwrap();
    assert_eq!(
        *tree, before[40].2,
        "the one commit has the files of the last of them"
    );
    assert!(subject.starts_with("status: as it stood on 20"), "{subject}");
    assert_eq!(origin.read(STATUS, "day-0").as_deref(), Some("0"));
    assert_eq!(repo.squash(day(120)).await.unwrap(), Squashed::Kept);
    // And it is published to as before.
    let draft = |_: &cutover::repo::Tip<'_>| {
        Ok(Draft {
            message: Message::new("status: on"),
            files: Files::Edit([("on".to_owned(), Some(b"1".to_vec()))].into()),
        })
    };
    repo.publish(Branch::Status, draft).await.unwrap();
    assert_eq!(history(origin).len(), 42);
}

#[tokio::test]
async fn old_commits_become_one_on_this_machine() {
    let origin = Origin::with(&[("README.md", "hello")]);
    squashes(&origin, origin.url()).await;
}

#[tokio::test]
async fn old_commits_become_one_over_http() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let server = Http::of(origin.root()).start();
    squashes(&origin, server.http()).await;
}

#[tokio::test]
async fn a_server_that_lets_nobody_rewrite_a_history_keeps_it() {
    let origin = Origin::with(&[("README.md", "hello")]);
    grow(&origin, 160);
    let mut config = origin.repo().config().unwrap();
    config.set_bool("receive.denyNonFastForwards", true).unwrap();
    let server = Http::of(origin.root()).start();
    let repo = Mirrored::of(server.http()).await;
    let error = repo.squash(day(120)).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    assert_eq!(history(&origin).len(), 160);
}

#[tokio::test]
async fn a_history_into_which_somebody_has_merged_is_left_alone() {
    let origin = Origin::with(&[("README.md", "hello")]);
    grow(&origin, 160);
    let repo = origin.repo();
    let tip = |branch: &str| -> Oid {
        let revision: Revision = origin.tip(branch).unwrap();
        revision.as_str().parse().unwrap()
    };
    let (ours, theirs) = (
        repo.find_commit(tip(STATUS)).unwrap(),
        repo.find_commit(tip("main")).unwrap(),
    );
    let who = Signature::new("Ada", "ada@example.com", &Time::new(day(160).as_second(), 0)).unwrap();
    let tree = ours.tree().unwrap();
    let merge = repo
        .commit(None, &who, &who, "merge", &tree, &[&ours, &theirs])
        .unwrap();
    repo.reference(&format!("refs/heads/{STATUS}"), merge, true, "merge")
        .unwrap();
    let mirrored = Mirrored::of(origin.url()).await;
    assert_eq!(mirrored.squash(day(120)).await.unwrap(), Squashed::Kept);
}

#[tokio::test]
async fn no_commit_is_dropped_that_somebody_else_made() {
    let origin = Origin::with(&[("README.md", "hello")]);
    grow(&origin, 60);
    let theirs = origin.commit(STATUS, &[("note", "by hand")]);
    let repo = origin.repo();
    let mut parent = repo.find_commit(theirs.as_str().parse().unwrap()).unwrap();
    for number in 60..160 {
        let who = Signature::new("Ada", "ada@example.com", &Time::new(day(number).as_second(), 0)).unwrap();
        let (message, tree) = ("more\n\nCutover-Phase: Hold\n", parent.tree().unwrap());
        let id = repo.commit(None, &who, &who, message, &tree, &[&parent]).unwrap();
        parent = repo.find_commit(id).unwrap();
    }
    repo.reference(&format!("refs/heads/{STATUS}"), parent.id(), true, "grow")
        .unwrap();
    let mirrored = Mirrored::of(origin.url()).await;
    let squashed = mirrored.squash(day(200)).await.unwrap();
    assert_eq!(squashed, Squashed::Foreign(theirs));
    assert_eq!(history(&origin).len(), 161);
}
