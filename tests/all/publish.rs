//! Commits on the status branch: nobody's commit is lost, nothing is pushed that changes nothing, refusals are clear.

use std::collections::BTreeMap;

use cutover::error::Kind;
use cutover::repo::{
    Branch, Credentials, Draft, Error, Files, Message, Options, Published, RemoteUrl, Retry, SshCredentials,
    Tip, Trailer,
};

use super::support::git::{Http, Mirrored, Origin, Server, Sshd};

const STATUS: &str = "cutover/status";

fn edit(files: &[(&str, &str)]) -> Draft {
    let files = files.iter().map(|(path, content)| {
        let content = (!content.is_empty()).then(|| content.as_bytes().to_vec());
        ((*path).to_owned(), content)
    });
    Draft {
        message: Message::new("status: test").trailer(Trailer::Phase, "Hold"),
        files: Files::Edit(files.collect()),
    }
}

async fn publish(
    repo: &Mirrored,
    files: &'static [(&'static str, &'static str)],
) -> Result<Published, Error> {
    repo.publish(Branch::Status, move |_| Ok(edit(files))).await
}

/// Creates the branch, adds to it, publishes nothing: what every transport has to do.
async fn publishes(origin: &Origin, repo: &Mirrored) {
    let Published::Pushed(first) = publish(repo, &[("intents/a.yaml", "one")]).await.unwrap() else {
        panic!("nothing was pushed");
    };
    assert_eq!(origin.tip(STATUS).as_ref(), Some(&first));
    let Published::Pushed(second) = publish(repo, &[("intents/b.yaml", "two")]).await.unwrap() else {
        panic!("nothing was pushed");
    };
    let bare = origin.repo();
    let commit = bare.find_commit(second.as_str().parse().unwrap()).unwrap();
    assert_eq!(commit.parent_id(0).unwrap().to_string(), first.as_str());
    assert_eq!(commit.message().unwrap(), "status: test\n\nCutover-Phase: Hold\n");
    assert_eq!(origin.read(STATUS, "intents/a.yaml").as_deref(), Some("one"));
    assert_eq!(origin.read(STATUS, "intents/b.yaml").as_deref(), Some("two"));
    assert_eq!(
        publish(repo, &[("intents/b.yaml", "two")]).await.unwrap(),
        Published::Unchanged(Some(second))
    );
}

#[tokio::test]
async fn a_path_is_published_to() {
    let origin = Origin::with(&[("README.md", "hello")]);
    publishes(&origin, &Mirrored::of(origin.url()).await).await;
}

#[tokio::test]
async fn a_git_daemon_is_published_to() {
    let origin = Origin::empty();
    let server = Server::daemon(origin.root());
    let url = format!("git://127.0.0.1:{}/fleet.git", server.port)
        .parse()
        .unwrap();
    publishes(&origin, &Mirrored::of(url).await).await;
}

#[tokio::test]
async fn an_http_server_is_published_to() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let server = Http::of(origin.root()).login("ci:s3cret").start();
    let url = format!("http://ci:s3cret@127.0.0.1:{}/fleet.git", server.port)
        .parse()
        .unwrap();
    publishes(&origin, &Mirrored::of(url).await).await;
}

#[tokio::test]
async fn an_ssh_server_is_published_to() {
    let Some(sshd) = Sshd::start() else { return };
    let origin = Origin::with(&[("README.md", "hello")]);
    let credentials = login(&sshd);
    let mirrored = Mirrored::with(sshd.url(&origin.path()), |options| {
        options.credentials = credentials;
    })
    .await;
    publishes(&origin, &mirrored).await;
}

fn login(sshd: &Sshd) -> Credentials {
    Credentials {
        ssh: SshCredentials::KeyFile {
            path: sshd.key("client"),
            passphrase_file: None,
        },
        known_hosts: Some(sshd.known_hosts("host")),
        ..Credentials::default()
    }
}

/// Else each of our commits would be a new revision to tell of, for ever.
#[tokio::test]
async fn in_the_branch_that_is_synced_our_own_commits_are_no_news_and_those_of_others_are() {
    let origin = Origin::with(&[("a.yaml", "one")]);
    let mirrored = Mirrored::with(origin.url(), |options| {
        options.status_branch.clone_from(&options.branch);
        options.status_directory = Some("told".to_owned());
    })
    .await;
    let of_somebody = origin.tip("main").unwrap();
    assert_eq!(mirrored.fetch().await.unwrap().revision, of_somebody);
    for files in [&[("STATUS.md", "one")], &[("STATUS.md", "two")]] {
        let Published::Pushed(own) = publish(&mirrored, files).await.unwrap() else {
            panic!("nothing was pushed");
        };
        assert_eq!(origin.tip("main").as_ref(), Some(&own));
        let fetched = mirrored.fetch().await.unwrap();
        assert_eq!((fetched.revision, fetched.changed), (of_somebody.clone(), false));
    }
    assert_eq!(origin.read("main", "told/STATUS.md").as_deref(), Some("two"));
    let tip = origin.tip("main").unwrap();
    let next = origin.commit_on("main", Some(&tip), &[("a.yaml", "two")]);
    let fetched = mirrored.fetch().await.unwrap();
    assert_eq!(
        (fetched.revision.as_str(), fetched.changed),
        (next.as_str(), true)
    );
}

/// `status: {branch: production}` is one push away.
#[tokio::test]
async fn status_is_committed_to_no_branch_that_somebody_else_began() {
    let origin = Origin::with(&[("README.md", "hello")]);
    origin.commit("production", &[("release", "1")]);
    origin.commit("production", &[("release", "2")]);
    let before = origin.tip("production");
    let server = Http::of(origin.root()).start();
    for url in [origin.url(), server.http()] {
        let mirrored = Mirrored::with(url, |options| options.status_branch = "production".to_owned()).await;
        let error = publish(&mirrored, &[("STATUS.md", "one")]).await.unwrap_err();
        assert!(matches!(error, Error::NotOurs { .. }), "{error:?}");
        let error = mirrored.squash(jiff::Timestamp::now()).await.unwrap_err();
        assert!(matches!(error, Error::NotOurs { .. }), "{error:?}");
    }
    assert_eq!(origin.tip("production"), before);
}

#[tokio::test]
async fn status_is_committed_to_the_default_branch_only_where_there_is_nothing_but_status() {
    let origin = Origin::with(&[("README.md", "hello")]);
    origin.commit(STATUS, &[("a", "1")]);
    origin.repo().set_head("refs/heads/cutover/status").unwrap();
    let server = Http::of(origin.root()).start();
    for url in [origin.url(), server.http()] {
        let beside = Mirrored::of(url.clone()).await;
        let error = publish(&beside, &[("a", "2")]).await.unwrap_err();
        assert!(error.to_string().contains("default branch"), "{error}");
        let alone = Mirrored::with(url, |options| {
            options.branch.clone_from(&options.status_branch);
            options.status_only = true;
        })
        .await;
        publish(&alone, &[("a", "3")]).await.unwrap();
        publish(&alone, &[("a", "1")]).await.unwrap();
    }
    origin.commit("theirs", &[("a", "1")]);
    let theirs = Mirrored::with(origin.url(), |options| {
        options.branch = "theirs".to_owned();
        options.status_branch = "theirs".to_owned();
        options.status_only = true;
    })
    .await;
    let error = publish(&theirs, &[("a", "2")]).await.unwrap_err();
    assert!(matches!(error, Error::NotOurs { .. }), "{error:?}");
}

#[tokio::test]
async fn a_commit_of_a_status_branch_can_always_be_told_from_other_peoples() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let repo = Mirrored::of(origin.url()).await;
    let draft = |_: &Tip<'_>| {
        Ok(Draft {
            message: Message::new("status: nothing to tell").trailer(Trailer::Intent, "shop/a"),
            files: Files::Edit([("a".to_owned(), Some(b"1".to_vec()))].into()),
        })
    };
    repo.publish(Branch::Status, draft).await.unwrap();
    let tip = origin.tip(STATUS).unwrap();
    let bare = origin.repo();
    let commit = bare.find_commit(tip.as_str().parse().unwrap()).unwrap();
    let message = commit.message().unwrap();
    assert!(
        message.ends_with("Cutover-Intent: shop/a\nCutover-Status: cutover/status\n"),
        "{message}"
    );
    // A mirror that has never seen it takes it for cutover's.
    publish(&Mirrored::of(origin.url()).await, &[("a", "2")])
        .await
        .unwrap();
}

#[tokio::test]
async fn the_status_branch_shares_no_history_with_the_source() {
    let origin = Origin::with(&[("README.md", "hello")]);
    publish(&Mirrored::of(origin.url()).await, &[("a", "1")])
        .await
        .unwrap();
    let tip = origin.tip(STATUS).unwrap();
    let bare = origin.repo();
    let commit = bare.find_commit(tip.as_str().parse().unwrap()).unwrap();
    assert_eq!(commit.parent_count(), 0);
    assert_eq!(origin.read(STATUS, "README.md"), None);
}

#[tokio::test]
async fn files_are_edited_replaced_and_removed_with_their_empty_directories() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let repo = Mirrored::of(origin.url()).await;
    publish(&repo, &[("a/b/c", "1"), ("a/d", "2"), ("e", "3")])
        .await
        .unwrap();
    publish(&repo, &[("a/b/c", ""), ("never/was", "")]).await.unwrap();
    let root = |origin: &Origin| -> Vec<String> {
        let repo = origin.repo();
        let tree = repo
            .find_reference("refs/heads/cutover/status")
            .unwrap()
            .peel_to_tree()
            .unwrap();
        let mut paths = Vec::new();
        tree.walk(git2::TreeWalkMode::PreOrder, |directory, entry| {
            paths.push(format!("{directory}{}", entry.name().unwrap()));
            0
        })
        .unwrap();
        paths
    };
    assert_eq!(root(&origin), ["a", "a/d", "e"]);
    publish(&repo, &[("e/now/deeper", "4"), ("a/d", ""), ("a", "file")])
        .await
        .unwrap_err();
    publish(&repo, &[("e/now/deeper", "4"), ("a", "file")])
        .await
        .unwrap();
    assert_eq!(root(&origin), ["a", "e", "e/now", "e/now/deeper"]);
    let replace = |_: &Tip<'_>| {
        Ok(Draft {
            message: Message::new("all anew"),
            files: Files::Replace(BTreeMap::from([("x/y".to_owned(), b"5".to_vec())])),
        })
    };
    repo.publish(Branch::Status, replace).await.unwrap();
    assert_eq!(root(&origin), ["x", "x/y"]);
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_refused() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let repo = Mirrored::of(origin.url()).await;
    for path in [
        "",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/./b",
        ".git/config",
        "a/.GIT/x",
        "a\nb",
        "a\\b",
    ] {
        let error = repo
            .publish(Branch::Status, move |_| Ok(edit(&[(path, "x")])))
            .await
            .unwrap_err();
        assert!(matches!(error, Error::BadPath(_)), "{path:?}: {error:?}");
    }
    assert_eq!(origin.tip(STATUS), None);
}

#[tokio::test]
async fn the_source_branch_can_be_committed_to_and_the_next_fetch_tells_it() {
    let origin = Origin::with(&[("intents/a.yaml", "paused: false")]);
    let repo = Mirrored::of(origin.url()).await;
    repo.fetch().await.unwrap();
    let published = repo
        .publish(Branch::Source, |_| {
            Ok(edit(&[("intents/a.yaml", "paused: true")]))
        })
        .await
        .unwrap();
    let fetched = repo.fetch().await.unwrap();
    assert!(fetched.changed && !fetched.rewound);
    assert_eq!(published, Published::Pushed(fetched.revision));
}

/// Each of ten writers, with a mirror of its own, adds its lines to one file; none may be lost.
async fn race(origin: &Origin, url: RemoteUrl) {
    race_with(origin, url, |_| {}).await;
}

async fn race_with(origin: &Origin, url: RemoteUrl, opens: impl Fn(&mut Options)) {
    const WRITERS: usize = 10;
    const LINES: usize = 2;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let mirrored = Mirrored::with(url.clone(), |options| {
            options.seed = writer as u64;
            opens(options);
        })
        .await;
        writers.spawn(async move {
            for line in 0..LINES {
                let append = move |tip: &Tip<'_>| {
                    let mut log = tip.read("log")?.unwrap_or_default();
                    log.extend(format!("{writer}.{line}\n").bytes());
                    Ok(Draft {
                        message: Message::new("append"),
                        files: Files::Edit([("log".to_owned(), Some(log))].into()),
                    })
                };
                mirrored.publish(Branch::Status, append).await.unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let log = origin.read(STATUS, "log").unwrap();
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..WRITERS)
        .flat_map(|w| (0..LINES).map(move |l| format!("{w}.{l}")))
        .collect();
    assert_eq!(lines, expected);
    let repo = origin.repo();
    let mut walk = repo.revwalk().unwrap();
    walk.push_ref("refs/heads/cutover/status").unwrap();
    assert_eq!(walk.count(), WRITERS * LINES, "one commit a line");
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_writers_over_http_lose_nothing() {
    let origin = Origin::empty();
    let server = Http::of(origin.root()).start();
    race(&origin, server.http()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_writers_over_ssh_lose_nothing() {
    let Some(sshd) = Sshd::start() else { return };
    let origin = Origin::empty();
    let url = sshd.url(&origin.path());
    let credentials = login(&sshd);
    race_with(&origin, url, |options| {
        options.credentials = credentials.clone();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_writers_on_one_machine_lose_nothing() {
    let origin = Origin::empty();
    race(&origin, origin.url()).await;
}

#[tokio::test]
async fn who_pushes_while_a_commit_is_drafted_is_not_overwritten() {
    for over_http in [true, false] {
        let origin = Origin::with(&[("README.md", "hello")]);
        origin.commit(STATUS, &[("count", "1")]);
        let server = Http::of(origin.root()).start();
        let url = if over_http { server.http() } else { origin.url() };
        let repo = Mirrored::of(url).await;
        let path = origin.path();
        let mut seen = Vec::new();
        let published = repo.publish(Branch::Status, move |tip| {
            seen.push(String::from_utf8(tip.read("count")?.unwrap()).unwrap());
            let first = seen.len() == 1;
            if first {
                push_beside(&path, "other", "x");
            }
            Ok(edit(&[("count", "2")]))
        });
        assert!(matches!(published.await.unwrap(), Published::Pushed(_)));
        assert_eq!(origin.read(STATUS, "count").as_deref(), Some("2"));
        assert_eq!(origin.read(STATUS, "other").as_deref(), Some("x"));
    }
}

/// Fast-forward alone would let this through: the old tip is an ancestor of the new commit.
#[tokio::test]
async fn a_branch_that_was_set_back_meanwhile_is_not_brought_forward_again() {
    for over_http in [true, false] {
        let origin = Origin::with(&[("README.md", "hello")]);
        let back = origin.commit(STATUS, &[("count", "1")]);
        origin.commit(STATUS, &[("secret", "oops")]);
        let server = Http::of(origin.root()).start();
        let url = if over_http { server.http() } else { origin.url() };
        let repo = Mirrored::of(url).await;
        let path = origin.path();
        let published = repo.publish(Branch::Status, move |_| {
            let bare = git2::Repository::open_bare(&path).unwrap();
            bare.reference(
                "refs/heads/cutover/status",
                back.as_str().parse().unwrap(),
                true,
                "",
            )
            .unwrap();
            Ok(edit(&[("count", "2")]))
        });
        // The branch is set back before each push, but only the first push finds it elsewhere than drafted from.
        assert!(matches!(published.await.unwrap(), Published::Pushed(_)));
        assert_eq!(origin.read(STATUS, "count").as_deref(), Some("2"));
        assert_eq!(origin.read(STATUS, "secret"), None);
    }
}

fn push_beside(path: &std::path::Path, file: &str, content: &str) {
    let repo = git2::Repository::open_bare(path).unwrap();
    let parent = repo
        .find_reference("refs/heads/cutover/status")
        .unwrap()
        .peel_to_commit()
        .unwrap();
    let mut tree = repo.treebuilder(Some(&parent.tree().unwrap())).unwrap();
    tree.insert(file, repo.blob(content.as_bytes()).unwrap(), 0o100_644)
        .unwrap();
    let tree = repo.find_tree(tree.write().unwrap()).unwrap();
    let who = git2::Signature::new("b", "b@c", &git2::Time::new(0, 0)).unwrap();
    repo.commit(
        Some("refs/heads/cutover/status"),
        &who,
        &who,
        "beside",
        &tree,
        &[&parent],
    )
    .unwrap();
}

#[tokio::test]
async fn a_branch_that_always_moves_is_a_conflict_after_the_last_attempt() {
    let origin = Origin::with(&[("README.md", "hello")]);
    origin.commit(STATUS, &[("count", "1")]);
    let mirrored = Mirrored::with(origin.url(), |options| {
        options.retry = Retry {
            attempts: 3,
            ..options.retry
        };
    })
    .await;
    let path = origin.path();
    let mut number = 0;
    let published = mirrored.publish(Branch::Status, move |_| {
        number += 1;
        push_beside(&path, "other", &number.to_string());
        Ok(edit(&[("count", "2")]))
    });
    let error = published.await.unwrap_err();
    assert!(matches!(error, Error::Conflict { attempts: 3, .. }), "{error:?}");
    assert_eq!(error.kind(), Kind::Conflict);
    assert_eq!(origin.read(STATUS, "other").as_deref(), Some("3"));
}

#[tokio::test]
async fn a_hook_that_declines_is_a_refusal_in_its_own_words_and_is_not_tried_again() {
    let origin = Origin::with(&[("README.md", "hello")]);
    origin.hook(
        "pre-receive",
        "echo 'You are not allowed to push code to protected branches' >&2; exit 1",
    );
    let server = Http::of(origin.root()).start();
    let url = server.http();
    let repo = Mirrored::of(url).await;
    let (count, calls) = (std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)), 1);
    let counter = std::sync::Arc::clone(&count);
    let published = repo.publish(Branch::Status, move |_| {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(edit(&[("a", "1")]))
    });
    let error = published.await.unwrap_err();
    let Error::Refused { branch, reason, .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(branch, STATUS);
    assert!(reason.contains("pre-receive hook declined"), "{reason}");
    assert!(
        reason.contains("not allowed to push code to protected branches"),
        "{reason}"
    );
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), calls);
    assert!(cutover::error::Error::from(error).hint_text().is_some());
    assert_eq!(origin.tip(STATUS), None);
}

#[tokio::test]
async fn what_hosts_say_of_a_branch_that_is_protected_is_a_refusal_until_it_is_not_any_more() {
    for (hook, words) in [
        (
            "update",
            "GH006: Protected branch update failed for refs/heads/cutover/status.",
        ),
        (
            "pre-receive",
            "GH013: Repository rule violations found for refs/heads/cutover/status.",
        ),
        (
            "pre-receive",
            "GitLab: You are not allowed to push code to protected branches on this project.",
        ),
        (
            "pre-receive",
            "Gitea: Not allowed to push to protected branch cutover/status",
        ),
        ("update", "nobody pushes here"),
    ] {
        let origin = Origin::with(&[("README.md", "hello")]);
        origin.hook(hook, &format!("echo '{words}' >&2; exit 1"));
        let server = Http::of(origin.root()).start();
        let repo = Mirrored::of(server.http()).await;
        let error = publish(&repo, &[("a", "1")]).await.unwrap_err();
        let Error::Refused { reason, .. } = &error else {
            panic!("{words}: {error:?}")
        };
        assert!(reason.contains(words), "{reason}");
        assert_eq!(error.kind(), Kind::Auth);
        origin.hook(hook, "exit 0");
        publish(&repo, &[("a", "1")]).await.unwrap();
        assert_eq!(origin.read(STATUS, "a").as_deref(), Some("1"));
    }
}

#[tokio::test]
async fn commits_that_a_server_cannot_store_are_a_refusal() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let mut config = origin.repo().config().unwrap();
    config.set_i64("receive.maxInputSize", 1).unwrap();
    let server = Http::of(origin.root()).start();
    let repo = Mirrored::of(server.http()).await;
    let error = publish(&repo, &[("a", "1")]).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    config.remove("receive.maxInputSize").unwrap();
    publish(&repo, &[("a", "1")]).await.unwrap();
}

#[tokio::test]
async fn a_key_that_may_only_read_is_an_auth_error_in_the_words_of_the_server() {
    let Some(sshd) = Sshd::start() else { return };
    let origin = Origin::with(&[("README.md", "hello")]);
    let public = std::fs::read_to_string(sshd.key("client.pub")).unwrap();
    let words = "ERROR: The key you are authenticating with has been marked as read only.";
    let command = sshd.key("read-only");
    let script = format!(
        "case $SSH_ORIGINAL_COMMAND in git-upload-pack*) eval \"$SSH_ORIGINAL_COMMAND\";; *) echo '{words}' >&2; exit 1;; esac\n"
    );
    std::fs::write(&command, script).unwrap();
    let limited = format!("command=\"sh {}\" {public}", command.display());
    std::fs::write(sshd.key("client.pub"), limited).unwrap();
    let credentials = login(&sshd);
    let repo = Mirrored::with(sshd.url(&origin.path()), |options| {
        options.credentials = credentials;
    })
    .await;
    repo.fetch().await.unwrap();
    let error = publish(&repo, &[("a", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Auth, "{error:?}");
    assert!(error.to_string().contains("read only"), "{error}");
    std::fs::write(sshd.key("client.pub"), public).unwrap();
    publish(&repo, &[("a", "1")]).await.unwrap();
}

#[tokio::test]
async fn a_server_that_forbids_pushes_is_an_auth_error() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let server = Http::of(origin.root()).forbid_push().start();
    let url = server.http();
    let error = publish(&Mirrored::of(url).await, &[("a", "1")])
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Auth { .. }), "{error:?}");
}

#[tokio::test]
async fn a_branch_that_is_checked_out_on_this_machine_is_not_pushed_to() {
    let directory = tempfile::tempdir().unwrap();
    let work = git2::Repository::init(directory.path()).unwrap();
    work.set_head("refs/heads/main").unwrap();
    let who = git2::Signature::new("b", "b@c", &git2::Time::new(0, 0)).unwrap();
    let tree = work
        .find_tree(work.treebuilder(None).unwrap().write().unwrap())
        .unwrap();
    work.commit(Some("HEAD"), &who, &who, "m", &tree, &[]).unwrap();
    let repo = Mirrored::of(directory.path().to_str().unwrap().parse().unwrap()).await;
    let error = repo
        .publish(Branch::Source, |_| Ok(edit(&[("a", "1")])))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error:?}");
    publish(&repo, &[("a", "1")]).await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_lost_after_the_push_does_not_commit_twice() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let http = Http::of(origin.root());
    let cut = http.cut();
    let server = http.start();
    let url = server.http();
    let repo = Mirrored::of(url).await;
    *cut.lock().unwrap() = Some(30);
    let error = publish(&repo, &[("a", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error:?}");
    *cut.lock().unwrap() = None;
    let tip = origin.tip(STATUS);
    assert!(tip.is_some(), "the server did take the push");
    assert_eq!(
        publish(&repo, &[("a", "1")]).await.unwrap(),
        Published::Unchanged(tip)
    );
}

#[tokio::test]
async fn a_file_that_is_absent_is_told_from_one_that_cannot_be_read() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let repo = Mirrored::of(origin.url()).await;
    assert_eq!(
        repo.read_fresh(Branch::Status, "a").await.unwrap(),
        None,
        "no branch"
    );
    origin.commit(STATUS, &[("a", "1")]);
    assert_eq!(
        repo.read_fresh(Branch::Status, "a").await.unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert_eq!(
        repo.read_fresh(Branch::Status, "b").await.unwrap(),
        None,
        "no file"
    );
    drop(origin);
    assert!(repo.read_fresh(Branch::Status, "a").await.is_err());
}

#[tokio::test]
async fn an_error_of_the_callback_ends_the_publish() {
    let origin = Origin::with(&[("README.md", "hello")]);
    let repo = Mirrored::of(origin.url()).await;
    let published = repo.publish(Branch::Status, |_| Err(cutover::error::Error::user("no")));
    let error = published.await.unwrap_err();
    assert!(matches!(error, Error::Draft(_)));
    assert_eq!(error.kind(), Kind::User);
}
