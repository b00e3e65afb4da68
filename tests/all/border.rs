//! What reaches the program from outside and is neither a manifest nor a tree: pipes in a clone, a remote that goes away in the
//! middle, objects of Git that break off, URLs with a password, one path that names two repositories.

use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cutover::sandbox::api::Resource;
use git2::{Oid, Repository};

use crate::support::git::{Http, Origin, Server};
use crate::support::served::{Served, as_text, stderr, stdout};

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n";
const HEAD: &str = "apiVersion: cutover.dev/v1alpha1\nkind: Config\n";

fn settings(more: &str) -> String {
    format!("{HEAD}{more}syncs: [{{name: apps, path: apps, prune: true}}]\n")
}

fn origin() -> Origin {
    Origin::with(&[
        ("cutover.yaml", &settings("")),
        ("apps/namespace.yaml", NAMESPACE),
        ("apps/a.yaml", MAP),
    ])
}

/// Runs the program in a directory; it has to end by itself.
fn within(served: &Served, directory: &Path, arguments: &[&str]) -> Output {
    let began = Instant::now();
    let child = Command::new(env!("CARGO_BIN_EXE_cutover"))
        .args(arguments)
        .current_dir(directory)
        .env("KUBECONFIG", served.kubeconfig())
        .env("CUTOVER_STATE_DIR", served.dir.path().join("state"))
        .env("HOME", "/nonexistent")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id().to_string();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if is_done.recv_timeout(Duration::from_mins(1)).is_err() {
            Command::new("kill").args(["-9", &id]).status().unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    let _ = done.send(());
    guard.join().unwrap();
    assert!(
        output.status.code().is_some(),
        "{arguments:?} hangs: {:?}",
        began.elapsed()
    );
    output
}

fn pipe(place: &Path) {
    let _ = std::fs::remove_file(place);
    assert!(Command::new("mkfifo").arg(place).status().unwrap().success());
}

fn clone(served: &Served, origin: &Origin) -> std::path::PathBuf {
    let place = served.dir.path().join("clone");
    Repository::clone(as_text(&origin.path()), &place).unwrap();
    place
}

/// To open a pipe is to wait until somebody writes to it.
#[test]
fn a_pipe_in_a_clone_is_refused_and_never_opened() {
    let served = Served::start("nobody-asks");
    let origin = origin();
    let place = clone(&served, &origin);
    let migrate = [
        "migrate",
        "Deployment/x",
        "--to",
        "west",
        "-n",
        "shop",
        "--no-commit",
    ];
    let mut commands: Vec<&[&str]> = vec![&["validate"][..], &migrate[..], &["review", "--offline"][..]];
    for file in ["cutover.yaml", "apps/a.yaml"] {
        let before = std::fs::read(place.join(file)).unwrap();
        pipe(&place.join(file));
        for command in &commands {
            let output = within(&served, &place, command);
            let said = stdout(&output) + &stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
            if command[0] != "migrate" || file == "cutover.yaml" {
                assert!(
                    said.contains(file) && said.contains("not a regular file"),
                    "{command:?}: {said}"
                );
            }
        }
        std::fs::remove_file(place.join(file)).unwrap();
        std::fs::write(place.join(file), before).unwrap();
    }
    commands.push(&["plan"][..]);
    for file in [".git/HEAD", ".git/packed-refs", ".git/config"] {
        let place = place.join(file);
        let before = std::fs::read(&place).ok();
        pipe(&place);
        for command in &commands[2..] {
            let output = within(&served, place.parent().unwrap().parent().unwrap(), command);
            assert_ne!(output.status.code(), Some(0), "{command:?}: {}", stdout(&output));
        }
        std::fs::remove_file(&place).unwrap();
        if let Some(before) = before {
            std::fs::write(&place, before).unwrap();
        }
    }
}

#[test]
fn a_pipe_where_objects_are_found_is_refused_and_never_opened() {
    let served = Served::start("nobody-asks");
    let origin = origin();
    let repo = origin.path();
    let other = served.dir.path().join("other");
    std::fs::create_dir_all(other.join("info")).unwrap();
    std::fs::create_dir_all(repo.join("objects/info")).unwrap();
    let list = repo.join("objects/info/alternates");
    let store = format!("{}\n", other.display());
    for place in [
        repo.join("objects/pack/pack-0.idx"),
        repo.join("objects/pack/pack-0.pack"),
        list.clone(),
        other.join("info/alternates"),
    ] {
        if place.starts_with(&other) {
            std::fs::write(&list, &store).unwrap();
        }
        pipe(&place);
        for command in [
            &["run", "--once", "--no-lease", "--repo", as_text(&repo)][..],
            &["plan", "--repo", as_text(&repo)],
        ] {
            let output = within(&served, served.dir.path(), command);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
            assert!(said.contains("is not a file"), "{}: {said}", place.display());
        }
        std::fs::remove_file(&place).unwrap();
    }
    let run = ["run", "--once", "--no-lease", "--repo", as_text(&repo)];
    assert_eq!(within(&served, served.dir.path(), &run).status.code(), Some(0));
}

#[test]
fn a_pipe_in_what_a_work_tree_is_of_is_refused_and_never_opened() {
    let served = Served::start("nobody-asks");
    let origin = origin();
    let place = clone(&served, &origin);
    let tree = served.dir.path().join("tree");
    let added = Command::new("git")
        .args(["worktree", "add", "-q", as_text(&tree)])
        .current_dir(&place)
        .status();
    assert!(added.unwrap().success());
    let own = place.join(".git/worktrees/tree");
    for file in [
        own.join("HEAD"),
        own.join("commondir"),
        own.join("index"),
        place.join(".git/config"),
        place.join(".git/packed-refs"),
        place.join(".git/objects/info/alternates"),
    ] {
        let before = std::fs::read(&file).ok();
        pipe(&file);
        for command in [&["review", "--offline"][..], &["plan"]] {
            let output = within(&served, &tree, command);
            assert_ne!(output.status.code(), Some(0), "{}: {command:?}", file.display());
        }
        std::fs::remove_file(&file).unwrap();
        if let Some(before) = before {
            std::fs::write(&file, before).unwrap();
        }
    }
    assert_eq!(within(&served, &tree, &["plan"]).status.code(), Some(0));
}

fn migrate(served: &Served, place: &Path, name: &str) -> Output {
    let file = format!("apps/{name}.yaml");
    let arguments = [
        "migrate",
        "FlinkDeployment/orders",
        "--api-version",
        "flink.apache.org/v1beta1",
        "--namespace",
        "shop",
        "--to",
        "west",
        "--name",
        name,
        "--file",
        &file,
        // No cluster is joined to what is served here.
        "--offline",
    ];
    within(served, place, &arguments)
}

/// Broken objects are what a loss of power leaves; pipes, what somebody else with access to the machine does.
#[test]
fn a_command_that_commits_looks_at_what_it_reads_before() {
    let served = Served::start("nobody-asks");
    let place = clone(&served, &origin());
    let repo = Repository::open(&place).unwrap();
    let mut config = repo.config().unwrap();
    config.set_str("user.name", "Ada").unwrap();
    config.set_str("user.email", "ada@example.com").unwrap();
    let first = migrate(&served, &place, "one");
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));

    let tip = repo.head().unwrap().peel_to_commit().unwrap();
    let apps = tip.tree().unwrap().get_name("apps").unwrap().id();
    let objects = [tip.id(), tip.tree_id(), apps].map(|id| (loose(&repo, id), "breaks off"));
    let pipes = [
        ".git/refs/heads/main",
        ".git/logs/HEAD",
        ".git/logs/refs/heads/main",
        ".git/info/exclude",
        ".gitignore",
        "apps/.gitattributes",
    ];
    let pipes = pipes.map(|file| (place.join(file), "is not a file"));
    for (file, why) in objects.into_iter().chain(pipes) {
        let before = std::fs::read(&file).ok();
        match &before {
            Some(bytes) if why == "breaks off" => {
                std::fs::remove_file(&file).unwrap();
                std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
            }
            _ => pipe(&file),
        }
        let output = migrate(&served, &place, "two");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{}: {said}", file.display());
        assert!(said.contains(why), "{}: {said}", file.display());
        assert!(!place.join("apps/two.yaml").exists(), "{}", file.display());
        std::fs::remove_file(&file).unwrap();
        if let Some(before) = before {
            std::fs::write(&file, before).unwrap();
        }
    }
    let last = migrate(&served, &place, "two");
    assert_eq!(last.status.code(), Some(0), "{}", stderr(&last));
}

/// As a loss of power leaves it: nobody can push one.
#[test]
fn an_object_that_breaks_off_is_named_and_loses_nothing() {
    let served = Served::start("nobody-asks");
    let origin = origin();
    let repo = origin.path();
    let run = ["run", "--once", "--no-lease", "--repo", as_text(&repo)];
    assert_eq!(within(&served, served.dir.path(), &run).status.code(), Some(0));
    let tip = origin.commit("main", &[("apps/b.yaml", &MAP.replace("name: a,", "name: b,"))]);
    let open = origin.repo();
    let commit = open.find_commit(tip.as_str().parse().unwrap()).unwrap();
    let tree = commit.tree().unwrap();
    let apps = tree.get_name("apps").unwrap().id();
    let file = open.find_tree(apps).unwrap().get_name("b.yaml").unwrap().id();
    for broken in [file, apps, tree.id(), commit.id()] {
        let place = loose(&open, broken);
        let bytes = std::fs::read(&place).unwrap();
        std::fs::remove_file(&place).unwrap();
        std::fs::write(&place, &bytes[..bytes.len() / 2]).unwrap();
        for command in [&run[..], &["plan", "--repo", as_text(&repo)]] {
            let output = within(&served, served.dir.path(), command);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(&format!("object {broken} breaks off")), "{said}");
            assert!(said.contains("git fsck"), "{said}");
        }
        std::fs::remove_file(&place).unwrap();
        std::fs::write(&place, bytes).unwrap();
    }
    assert_eq!(within(&served, served.dir.path(), &run).status.code(), Some(0));
    let plan = ["plan", "--detailed-exitcode", "--repo", as_text(&repo)];
    let output = within(&served, served.dir.path(), &plan);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

fn loose(repo: &Repository, id: Oid) -> std::path::PathBuf {
    let id = id.to_string();
    repo.path().join("objects").join(&id[..2]).join(&id[2..])
}

/// Serves so many connections, and hangs up on all that come after.
fn vanishing(port: u16, left: Arc<AtomicUsize>) -> Server {
    Server::start(move |stream| {
        let one_less = |left: usize| left.checked_sub(1);
        if left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
            .is_err()
        {
            return;
        }
        let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let copy = |from: &TcpStream, to: &TcpStream| {
            let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            }
        };
        let back = std::thread::spawn(copy(&server, &stream));
        copy(&stream, &server)();
        back.join().unwrap();
    })
}

/// However far it had come: it ends, says that Git is away, and deletes nothing for it.
#[test]
fn a_single_run_ends_when_git_goes_away_in_the_middle_and_loses_nothing() {
    let origin = origin();
    let http = Http::of(origin.root()).start();
    let mut ends = Vec::new();
    for connections in 0..12 {
        let served = Served::start("nobody-asks");
        let left = Arc::new(AtomicUsize::new(connections));
        let server = vanishing(http.port, Arc::clone(&left));
        let url = format!("http://127.0.0.1:{}/fleet.git", server.port);
        let output = within(&served, served.dir.path(), &["run", "--once", "--repo", &url]);
        let (code, said) = (output.status.code(), stderr(&output));
        ends.push(code);
        match code {
            Some(0) => break,
            Some(3) => {
                assert!(said.contains("cannot reach"), "{connections}: {said}");
                assert!(!stdout(&output).contains("objects at"), "{}", stdout(&output));
            }
            code => panic!("{connections} connections: {code:?}: {said}"),
        }
        // What was done before it is done: with Git again, there is nothing left to delete or to make twice.
        left.store(usize::MAX, Ordering::SeqCst);
        let again = within(&served, served.dir.path(), &["run", "--once", "--repo", &url]);
        assert_eq!(again.status.code(), Some(0), "{connections}: {}", stderr(&again));
        let plan = within(&served, served.dir.path(), &["plan", "--repo", &url]);
        assert!(!stdout(&plan).contains("to delete"), "{}", stdout(&plan));
    }
    assert_eq!(ends.last(), Some(&Some(0)), "{ends:?}");
    assert!(
        ends.len() > 3,
        "no conversation was in the middle of a run: {ends:?}"
    );
}

/// A run refuses the branch: nothing that stands there says how anything is.
#[test]
fn a_status_branch_that_is_not_allowed_is_refused_by_every_command_alike() {
    let served = Served::start("nobody-asks");
    let origin = Origin::with(&[
        ("cutover.yaml", &settings("status: {branch: production}\n")),
        ("apps/namespace.yaml", NAMESPACE),
    ]);
    let repo = origin.path();
    let refusal = "the status branch \"production\" is none of those that `cutover run` allows";
    let place = clone(&served, &origin);
    for command in [
        &["run", "--once", "--no-lease", "--repo", as_text(&repo)][..],
        &["plan", "--repo", as_text(&repo)],
        &["plan"],
        &["status", "--recorded"],
    ] {
        let output = within(&served, &place, command);
        assert_eq!(output.status.code(), Some(1), "{command:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(refusal),
            "{command:?}: {}",
            stderr(&output)
        );
    }
    for command in [
        &["plan", "--repo", as_text(&repo), "--status-branch", "prod*"][..],
        &["plan", "--status-branch", "production"],
        &[
            "run",
            "--once",
            "--no-lease",
            "--repo",
            as_text(&repo),
            "--status-branch",
            "production",
        ],
        &["status", "--recorded", "--status-branch", "production"],
    ] {
        let output = within(&served, &place, command);
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", stderr(&output));
    }
}

#[test]
fn no_command_shows_the_password_of_a_url_whatever_its_form() {
    let served = Served::start("nobody-asks");
    for url in [
        "user:C4n4ry@localhost:fleet",
        "user:C4n/4ry@localhost:fleet",
        "git@localhost:C4n4ry@localhost:fleet",
        "localhost/user:C4n4ry@localhost/fleet",
        "//user:C4n4ry@localhost/fleet",
        "ssh://localhost/:C4n4ry@localhost/",
        "ssh://user:C4n4ry@localhost/fleet",
        "git://localhost/:C4n4ry@localhost/fleet",
        "https://user:C4n/4ry@localhost/fleet",
    ] {
        for command in [
            &["run", "--once", "--no-lease", "--repo", url][..],
            &["plan", "--repo", url],
            &["status", "--recorded", "--repo", url],
            &["run", "--repo", "/x", "--status-repo", url],
        ] {
            let output = within(&served, served.dir.path(), command);
            let said = stdout(&output) + &stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{command:?}: {said}");
            assert!(
                !said.contains("C4n") && !said.contains("4ry"),
                "{command:?}: {said}"
            );
        }
    }
}

/// What a repository has put there is known by where the repository is, and `../fleet.git` is elsewhere in each directory. Of the
/// same name, one sync would have deleted what the other applied; of another, each has its own.
#[test]
fn repositories_that_are_given_by_the_same_relative_path_do_not_own_each_others_objects() {
    let served = Served::start("nobody-asks");
    let root = served.dir.path();
    let teams = [("one", "apps", 0), ("two", "apps", 1), ("three", "other", 0)];
    for (team, sync, _) in teams {
        let settings = settings("").replace("name: apps", &format!("name: {sync}"));
        let (namespace, map) = (NAMESPACE.replace("shop", team), MAP.replace("shop", team));
        let origin = Origin::with(&[
            ("cutover.yaml", &settings),
            ("apps/namespace.yaml", &namespace),
            ("apps/a.yaml", &map),
        ]);
        std::fs::create_dir_all(root.join(team).join("w")).unwrap();
        git2::build::RepoBuilder::new()
            .bare(true)
            .clone(as_text(&origin.path()), &root.join(team).join("fleet.git"))
            .unwrap();
    }
    // Twice: what one run has mistaken for its own, the next one deletes.
    for (team, _, code) in teams.into_iter().chain(teams) {
        let output = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(["run", "--once", "--no-lease", "--repo", "../fleet.git"])
            .current_dir(root.join(team).join("w"))
            .env("KUBECONFIG", served.kubeconfig())
            .env("XDG_STATE_HOME", root.join("states"))
            .env("HOME", "/nonexistent")
            .output()
            .unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{team}: {said}");
        let owner = format!("belongs to {}", root.join("one/fleet.git").display());
        assert_eq!(said.contains(&owner), code == 1, "{team}: {said}");
    }
    let maps = Resource::new("", "configmaps");
    for team in ["one", "three"] {
        let map = served.server.sandbox().get(&maps, Some(team), "a");
        assert!(map.is_ok(), "the object of {team} is gone");
    }
    let states = std::fs::read_dir(root.join("states/cutover")).unwrap();
    assert_eq!(
        states.count(),
        3,
        "each repository has a state directory of its own"
    );
}
