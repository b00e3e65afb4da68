//! Reading a remote repository over every transport, and what happens when it, the network or the mirror is broken.

use std::fs;
use std::time::Duration;

use cutover::error::Kind;
use cutover::repo::{
    ChangeKind, Credentials, Error, HttpsCredentials, Polling, Repo, Secret, SshCredentials, Tick,
};
use tokio_util::sync::CancellationToken;

use super::support::git::{Http, Mirrored, Origin, Server, Sshd, certificate, options};

const FILES: &[(&str, &str)] = &[("apps/orders.yaml", "kind: Deployment"), ("README.md", "hello")];

fn token(token: &str) -> Credentials {
    Credentials {
        https: HttpsCredentials::Token {
            user: Some("ci".to_owned()),
            token: Secret::new(token),
        },
        ..Credentials::default()
    }
}

/// Fetches, reads, fetches nothing, fetches a change: what every transport has to do.
async fn follows(origin: &Origin, mirrored: &Mirrored) {
    let repo = mirrored;
    let first = repo.fetch().await.unwrap();
    assert_eq!(Some(&first.revision), origin.tip("main").as_ref());
    assert!(first.changed && !first.rewound);
    let files = repo.files(first.revision.clone(), &["apps"]).await.unwrap().files;
    assert_eq!(files.len(), 1);
    assert_eq!(files[0].path, "apps/orders.yaml");
    let contents = repo.read(vec![files[0].blob]).await.unwrap();
    assert_eq!(contents[0].as_ref().unwrap(), b"kind: Deployment");

    let same = repo.fetch().await.unwrap();
    assert!(!same.changed);
    assert_eq!(same.previous.as_ref(), Some(&first.revision));

    let second = origin.commit(
        "main",
        &[("apps/orders.yaml", "kind: StatefulSet"), ("README.md", "")],
    );
    let fetched = repo.fetch().await.unwrap();
    assert_eq!(
        (&fetched.revision, fetched.changed, fetched.rewound),
        (&second, true, false)
    );
    let none: &[&str] = &[];
    let changes = repo.changed(Some(first.revision), second, none).await.unwrap();
    let kinds: Vec<_> = changes
        .files
        .iter()
        .map(|change| (change.path.as_str(), change.kind))
        .collect();
    assert_eq!(
        kinds,
        [
            ("README.md", ChangeKind::Deleted),
            ("apps/orders.yaml", ChangeKind::Modified)
        ]
    );
}

#[tokio::test]
async fn a_path_is_followed() {
    let origin = Origin::with(FILES);
    follows(&origin, &Mirrored::of(origin.url()).await).await;
}

#[tokio::test]
async fn a_file_url_is_followed() {
    let origin = Origin::with(FILES);
    let url = format!("file://{}", origin.path().display()).parse().unwrap();
    follows(&origin, &Mirrored::of(url).await).await;
}

#[tokio::test]
async fn a_git_daemon_is_followed() {
    let origin = Origin::with(FILES);
    let server = Server::daemon(origin.root());
    let url = format!("git://127.0.0.1:{}/fleet.git", server.port)
        .parse()
        .unwrap();
    follows(&origin, &Mirrored::of(url).await).await;
}

#[tokio::test]
async fn an_http_server_is_followed_and_an_unchanged_remote_costs_one_connection() {
    let origin = Origin::with(FILES);
    let server = Http::of(origin.root()).start();
    let url = server.http();
    let mirrored = Mirrored::of(url).await;
    follows(&origin, &mirrored).await;
    let before = server.connections();
    assert!(!mirrored.fetch().await.unwrap().changed);
    assert_eq!(server.connections() - before, 1);
}

#[tokio::test]
async fn an_https_server_with_a_private_authority_and_a_password_is_followed() {
    let origin = Origin::with(FILES);
    let (acceptor, ca) = certificate();
    let server = Http::of(origin.root()).login("ci:s3cret").tls(acceptor).start();
    let url = || {
        format!("https://127.0.0.1:{}/fleet.git", server.port)
            .parse()
            .unwrap()
    };

    let stranger = Mirrored::with(url(), |options| options.credentials = token("s3cret")).await;
    let error = stranger.fetch().await.unwrap_err();
    assert!(matches!(error, Error::Certificate { .. }), "{error:?}");

    let ca_file = tempfile::NamedTempFile::new().unwrap();
    fs::write(ca_file.path(), ca).unwrap();
    let mirrored = Mirrored::with(url(), |options| {
        options.credentials = Credentials {
            ca_file: Some(ca_file.path().to_owned()),
            ..token("s3cret")
        };
    })
    .await;
    follows(&origin, &mirrored).await;
}

#[tokio::test]
async fn a_ca_file_without_certificates_is_an_error_and_not_ignored() {
    let origin = Origin::with(FILES);
    let state = tempfile::tempdir().unwrap();
    let mut options = options(origin.url(), state.path());
    options.credentials.ca_file = Some(origin.path().join("HEAD"));
    let error = Repo::open(options, CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, Error::Setting { .. }), "{error:?}");
}

#[tokio::test]
async fn an_ssh_server_is_followed_with_a_key_file_and_a_known_host() {
    let Some(sshd) = Sshd::start() else { return };
    let origin = Origin::with(FILES);
    let mirrored = Mirrored::with(sshd.url(&origin.path()), |options| {
        options.credentials.ssh = SshCredentials::KeyFile {
            path: sshd.key("client"),
            passphrase_file: None,
        };
        options.credentials.known_hosts = Some(sshd.known_hosts("host"));
    })
    .await;
    follows(&origin, &mirrored).await;
}

#[tokio::test]
async fn an_ssh_host_that_is_unknown_or_shows_another_key_is_not_trusted() {
    let Some(sshd) = Sshd::start() else { return };
    let origin = Origin::with(FILES);
    let empty = sshd.key("nobody");
    fs::write(&empty, "").unwrap();
    for known_hosts in [Some(sshd.known_hosts("stranger")), Some(empty), None] {
        let mirrored = Mirrored::with(sshd.url(&origin.path()), |options| {
            options.credentials.ssh = SshCredentials::KeyFile {
                path: sshd.key("client"),
                passphrase_file: None,
            };
            options.credentials.known_hosts = known_hosts;
        })
        .await;
        let error = mirrored.fetch().await.unwrap_err();
        assert!(matches!(error, Error::HostKey { .. }), "{error:?}");
        assert_eq!(cutover::error::Error::from(error).kind(), Kind::Auth);
    }
}

#[tokio::test]
async fn an_ssh_key_that_the_server_does_not_know_is_an_auth_error() {
    let Some(sshd) = Sshd::start() else { return };
    let origin = Origin::with(FILES);
    let mirrored = Mirrored::with(sshd.url(&origin.path()), |options| {
        options.credentials.ssh = SshCredentials::KeyFile {
            path: sshd.key("stranger"),
            passphrase_file: None,
        };
        options.credentials.known_hosts = Some(sshd.known_hosts("host"));
    })
    .await;
    let error = mirrored.fetch().await.unwrap_err();
    assert!(matches!(error, Error::Auth { .. }), "{error:?}");
}

#[tokio::test]
async fn a_wrong_password_is_an_auth_error_and_is_tried_once_and_told_nowhere() {
    let origin = Origin::with(FILES);
    let server = Http::of(origin.root()).login("ci:right").start();
    for (userinfo, credentials) in [
        ("", token("wr0ng")),
        ("ci:wr0ng@", Credentials::default()),
        ("", Credentials::default()),
    ] {
        let url = format!("http://{userinfo}127.0.0.1:{}/fleet.git", server.port)
            .parse()
            .unwrap();
        let mirrored = Mirrored::with(url, |options| options.credentials = credentials).await;
        let before = server.connections();
        let error = mirrored.fetch().await.unwrap_err();
        assert!(matches!(error, Error::Auth { .. }), "{error:?}");
        assert!(server.connections() - before <= 2, "asked again and again");
        let told = format!("{error} {error:?} {mirrored:?}");
        assert!(!told.contains("wr0ng"), "{told}");
        let told = cutover::error::Error::from(error);
        assert!(told.kind() == Kind::Auth && told.hint_text().is_some());
        let config = fs::read_to_string(mirrored.state.path().join("mirror.git/config")).unwrap();
        assert!(!config.contains("wr0ng"), "{config}");
    }
}

#[tokio::test]
async fn credentials_in_the_url_and_a_token_file_that_is_rotated_are_used() {
    let origin = Origin::with(FILES);
    let server = Http::of(origin.root()).login("ci:s3cret").start();
    let url = format!("http://ci:s3cret@127.0.0.1:{}/fleet.git", server.port)
        .parse()
        .unwrap();
    follows(&origin, &Mirrored::of(url).await).await;

    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "old").unwrap();
    let url = server.http();
    let mirrored = Mirrored::with(url, |options| {
        options.credentials.https = HttpsCredentials::TokenFile {
            user: Some("ci".to_owned()),
            path: file.path().to_owned(),
        };
    })
    .await;
    assert!(matches!(mirrored.fetch().await, Err(Error::Auth { .. })));
    fs::write(file.path(), "s3cret\n").unwrap();
    mirrored.fetch().await.unwrap();
}

#[tokio::test]
async fn a_token_does_not_follow_a_redirect_to_another_server() {
    let origin = Origin::with(FILES);
    let thief = Http::of(origin.root()).login("ci:s3cret").start();
    let server = Http::of(origin.root())
        .redirect(format!("http://127.0.0.1:{}", thief.port))
        .start();
    let url = server.http();
    let mirrored = Mirrored::with(url, |options| options.credentials = token("s3cret")).await;
    let error = mirrored.fetch().await.unwrap_err();
    assert!(matches!(error, Error::Auth { .. }), "{error:?}");
    assert!(error.to_string().contains("another server"), "{error}");
}

#[tokio::test]
async fn what_is_not_there_is_told_apart() {
    let origin = Origin::with(FILES);
    let missing = Mirrored::of(origin.root().join("none.git").to_str().unwrap().parse().unwrap()).await;
    let error = missing.fetch().await.unwrap_err();
    assert!(matches!(error, Error::NoRepository { .. }), "{error:?}");

    let server = Http::of(origin.root()).start();
    let missing = Mirrored::of(
        format!("http://127.0.0.1:{}/none.git", server.port)
            .parse()
            .unwrap(),
    )
    .await;
    let error = missing.fetch().await.unwrap_err();
    assert!(matches!(error, Error::NoRepository { .. }), "{error:?}");

    let daemon = Server::daemon(origin.root());
    let missing = Mirrored::of(
        format!("git://127.0.0.1:{}/none.git", daemon.port)
            .parse()
            .unwrap(),
    )
    .await;
    let error = missing.fetch().await.unwrap_err();
    assert!(
        matches!(error, Error::NoRepository { .. } | Error::Unreachable { .. }),
        "{error:?}"
    );

    let no_branch = Mirrored::with(origin.url(), |options| options.branch = "other".to_owned()).await;
    assert!(matches!(no_branch.fetch().await, Err(Error::NoBranch { .. })));

    let empty = Origin::empty();
    assert!(matches!(
        Mirrored::of(empty.url()).await.fetch().await,
        Err(Error::NoBranch { .. })
    ));

    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = Mirrored::of(format!("http://{closed}/fleet.git").parse().unwrap())
        .await
        .fetch()
        .await;
    assert_eq!(error.unwrap_err().kind(), Kind::Unreachable);
}

#[tokio::test]
async fn a_forced_push_is_followed_and_told() {
    let origin = Origin::with(FILES);
    let first = origin.tip("main").unwrap();
    let second = origin.commit("main", &[("apps/orders.yaml", "two")]);
    let mirrored = Mirrored::of(origin.url()).await;
    mirrored.fetch().await.unwrap();

    let forced = origin.commit_on("main", Some(&first), &[("apps/orders.yaml", "three")]);
    let fetched = mirrored.fetch().await.unwrap();
    assert_eq!(
        (&fetched.revision, fetched.previous.as_ref()),
        (&forced, Some(&second))
    );
    assert!(fetched.rewound && fetched.changed);

    let none: &[&str] = &[];
    let changes = mirrored.changed(Some(second), forced, none).await.unwrap();
    assert_eq!(changes.files.len(), 1);
}

#[tokio::test]
async fn a_download_that_breaks_off_leaves_the_mirror_as_it_was() {
    let origin = Origin::with(FILES);
    let http = Http::of(origin.root());
    let cut = http.cut();
    let server = http.start();
    let mirrored = Mirrored::of(server.http()).await;
    let first = mirrored.fetch().await.unwrap();

    let second = origin.commit("main", &[("apps/orders.yaml", &"two ".repeat(5000))]);
    // Into the HTTP header, into git's first answer, into the pack.
    for bytes in [20, 160, 250, 330] {
        *cut.lock().unwrap() = Some(bytes);
        let error = mirrored.fetch().await.unwrap_err();
        assert_eq!(error.kind(), Kind::Unreachable, "{bytes}: {error:?}");
        assert_eq!(
            mirrored.commit(first.revision.clone()).await.unwrap().revision,
            first.revision
        );
    }
    *cut.lock().unwrap() = None;
    let fetched = mirrored.fetch().await.unwrap();
    assert_eq!(
        (fetched.revision, fetched.previous),
        (second, Some(first.revision))
    );
}

#[tokio::test]
async fn cancelling_ends_a_conversation() {
    let origin = Origin::with(FILES);
    let state = tempfile::tempdir().unwrap();
    let cancel = CancellationToken::new();
    let server = Http::of(origin.root()).start();
    let url = server.http();
    let repo = Repo::open(options(url, state.path()), cancel.clone())
        .await
        .unwrap();
    cancel.cancel();
    assert!(matches!(repo.fetch().await, Err(Error::Interrupted)));
}

#[tokio::test]
async fn a_damaged_mirror_is_recreated() {
    let origin = Origin::with(FILES);
    let damages: [fn(&std::path::Path); 4] = [
        |mirror| fs::remove_dir_all(mirror.join("objects")).unwrap(),
        |mirror| fs::write(mirror.join("HEAD"), "").unwrap(),
        |mirror| fs::remove_dir_all(mirror.join("refs")).unwrap(),
        |mirror| {
            let _ = fs::remove_dir_all(mirror.join("objects/pack"));
        },
    ];
    for damage in damages {
        let state = tempfile::tempdir().unwrap();
        let open = || Repo::open(options(origin.url(), state.path()), CancellationToken::new());
        let repo = open().await.unwrap();
        let revision = repo.fetch().await.unwrap().revision;

        damage(&state.path().join("mirror.git"));
        repo.fetch().await.unwrap();
        assert_eq!(
            repo.files(revision.clone(), &["apps"]).await.unwrap().files.len(),
            1,
            "while running"
        );

        damage(&state.path().join("mirror.git"));
        drop(repo);
        let repo = open().await.unwrap();
        repo.fetch().await.unwrap();
        assert_eq!(
            repo.files(revision, &["apps"]).await.unwrap().files.len(),
            1,
            "after a restart"
        );
        let mut left: Vec<_> = fs::read_dir(state.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["lock", "mirror.git"]);
    }
}

#[tokio::test]
async fn a_missing_object_found_while_reading_is_repaired_by_the_next_fetch() {
    let origin = Origin::with(FILES);
    let server = Http::of(origin.root()).start();
    let mirrored = Mirrored::of(server.http()).await;
    let revision = mirrored.fetch().await.unwrap().revision;
    let blob = mirrored
        .files(revision.clone(), &["README.md"])
        .await
        .unwrap()
        .files[0]
        .blob;
    // Put a mirror in place whose roots are there but whose file is not.
    let mirror = mirrored.state.path().join("mirror.git");
    let repo = git2::Repository::open_bare(&mirror).unwrap();
    let odb = repo.odb().unwrap();
    let mut kept = Vec::new();
    odb.foreach(|id| {
        let object = odb.read(*id).unwrap();
        if *id != blob.to_string().parse().unwrap() {
            kept.push((object.kind(), object.data().to_vec()));
        }
        true
    })
    .unwrap();
    fs::remove_dir_all(mirror.join("objects")).unwrap();
    fs::create_dir_all(mirror.join("objects/pack")).unwrap();
    let repo = git2::Repository::open_bare(&mirror).unwrap();
    for (kind, data) in kept {
        repo.odb().unwrap().write(kind, &data).unwrap();
    }

    let error = mirrored.read(vec![blob]).await.unwrap().remove(0).unwrap_err();
    assert!(matches!(error, Error::Damaged(_)), "{error:?}");
    mirrored.fetch().await.unwrap();
    assert_eq!(
        mirrored.read(vec![blob]).await.unwrap().remove(0).unwrap(),
        b"hello"
    );
}

#[tokio::test]
async fn a_state_directory_of_another_repository_is_not_mixed_up() {
    let (one, two) = (Origin::with(FILES), Origin::with(&[("other.yaml", "x")]));
    let state = tempfile::tempdir().unwrap();
    let open = |origin: &Origin| Repo::open(options(origin.url(), state.path()), CancellationToken::new());
    open(&one).await.unwrap().fetch().await.unwrap();
    let repo = open(&two).await.unwrap();
    let fetched = repo.fetch().await.unwrap();
    assert_eq!(Some(fetched.revision.clone()), two.tip("main"));
    let gone = repo.commit(one.tip("main").unwrap()).await;
    assert!(matches!(gone, Err(Error::UnknownRevision(_))));
}

#[tokio::test]
async fn a_second_process_may_not_use_the_same_state_directory() {
    let origin = Origin::with(FILES);
    let state = tempfile::tempdir().unwrap();
    let open = || Repo::open(options(origin.url(), state.path()), CancellationToken::new());
    let first = open().await.unwrap();
    let error = open().await.unwrap_err();
    assert!(matches!(error, Error::InUse(_)));
    drop(first);
    open().await.unwrap();
}

#[tokio::test]
async fn the_log_tells_who_changed_a_path() {
    let origin = Origin::with(FILES);
    let first = origin.tip("main").unwrap();
    let touched = origin.commit("main", &[("apps/orders.yaml", "two")]);
    let last = origin.commit("main", &[("README.md", "two")]);
    let mirrored = Mirrored::of(origin.url()).await;
    mirrored.fetch().await.unwrap();

    let info = mirrored.commit(last.clone()).await.unwrap();
    assert_eq!(
        (info.author.as_str(), info.email.as_str()),
        ("Ada", "ada@example.com")
    );
    assert_eq!(
        (info.subject.as_str(), info.body.as_str()),
        ("change files", "and say why")
    );
    assert_eq!(info.time.as_second(), 1_700_000_000);

    let revisions = |commits: Vec<cutover::repo::CommitInfo>| -> Vec<_> {
        commits.into_iter().map(|commit| commit.revision).collect()
    };
    let since = mirrored
        .touching("apps", Some(first.clone()), last.clone(), 100)
        .await
        .unwrap();
    assert_eq!(revisions(since), std::slice::from_ref(&touched));
    let all = mirrored.touching("apps", None, last, 100).await.unwrap();
    assert_eq!(revisions(all), [touched, first]);
}

#[tokio::test]
async fn a_push_to_a_repository_on_this_machine_is_seen_without_a_poll() {
    let origin = Origin::with(FILES);
    let mirrored = Mirrored::of(origin.url()).await;
    let hour = Duration::from_hours(1);
    let mut watch = mirrored.watch(Polling {
        interval: hour,
        slowest: hour,
    });
    assert_eq!(watch.next().await, Tick::Start);
    origin.commit("main", &[("README.md", "two")]);
    let tick = tokio::time::timeout(Duration::from_secs(10), watch.next())
        .await
        .unwrap();
    assert_eq!(tick, Tick::Local);
    watch.trigger().now();
    let tick = tokio::time::timeout(Duration::from_secs(10), watch.next())
        .await
        .unwrap();
    assert_eq!(tick, Tick::Manual);
}
