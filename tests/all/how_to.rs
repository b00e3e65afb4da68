//! How-to pages whose files are written and whose commands are run, as a reader would. `CUTOVER_ACCEPT=1` writes what the
//! commands print into the page.

use std::path::Path;
use std::process::Command;

use cutover::api::Phase;
use cutover::sandbox::api::Resource;
use cutover::sandbox::member::batch::COUNTER;
use cutover::sandbox::{World, WorldOptions};

use crate::batch::operate;
use crate::support::fleet::{MIGRATIONS, opened};
use crate::support::is_fresh;
use crate::support::plane::{NAMESPACE, Plane};
use crate::support::wait::until;

/// The folder of the page's repository, so that `../` is beside it.
const REPOSITORY: &str = "repository";

/// The page on profiles, whose operator is invented.
const PROFILES: &str = "docs/how-to/teach-your-operator.md";
const COUNTERS: Resource = Resource::new("tally.example.org", "counters");

#[test]
fn a_profile_is_written_and_tried_as_the_page_says() {
    follow(PROFILES);
}

/// With the page's files and commands, and an operator that works as the page says.
#[tokio::test]
async fn a_counter_moves_there_and_back_with_its_count_as_the_page_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(PROFILES);
    let page = std::fs::read_to_string(page).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let [profile, visits] = ["profiles/counter.yaml", "shop/visits.yaml"].map(|name| shown(&page, name));
    for file in [&profile, &visits] {
        write(file, dir.path());
    }
    let moves = moves(&page, dir.path());
    assert_eq!(moves.len(), 2);
    let world = World::start(WorldOptions::fast());
    operate(&world, &COUNTER);
    let files = [NAMESPACE, ("profile.yaml", &*profile), ("visits.yaml", &*visits)];
    let plane = Plane::on(world.control_plane(), &files);
    plane.run().await;
    until("it counts", || counts_in(&world, "east")).await;
    let _running = plane.start();
    for (to, migration) in &moves {
        let name = format!("visits-to-{to}");
        plane.push(&[(&format!("intents/{name}.yaml"), migration)]);
        let status = || {
            let found = plane.get(&MIGRATIONS, Some("shop"), &name);
            found.map(|found| opened(&found["status"])).unwrap_or_default()
        };
        let phase = || serde_json::from_value::<Phase>(status()["phase"].clone()).unwrap_or_default();
        until(&name, || phase().is_terminal()).await;
        assert_eq!(phase(), Phase::Completed, "{:#}", status());
        assert!(counts_in(&world, to), "{to}");
    }
    let (ledger, savepoints) = (world.ledger(), world.savepoints());
    let verdict = ledger.verdict();
    assert!(verdict.is_clean(), "{ledger}");
    let origins = verdict.runs.iter().map(|run| run.restored_from.to_string());
    let counts: Vec<u64> = origins
        .filter_map(|handle| Some(savepoints.get(&handle)?.records))
        .collect();
    assert!(
        matches!(counts[..], [there, back] if 0 < there && there < back),
        "{counts:?}\n{ledger}"
    );
}

/// Returns the file that a page shows under its name.
fn shown(page: &str, name: &str) -> String {
    let (_, rest) = page.split_once(&format!("```yaml\n# {name}\n")).unwrap();
    let (content, _) = rest.split_once("```").unwrap();
    format!("# {name}\n{content}")
}

/// Returns the Migrations that a page's commands write, and where each goes. They are not pushed, and verify faster.
fn moves(page: &str, repository: &Path) -> Vec<(String, String)> {
    let commands = page.lines().filter_map(|line| line.strip_prefix("cutover "));
    let moves = commands.filter(|command| command.starts_with("migrate "));
    let written = moves.map(|command| {
        let (_, to) = command.split_once("--to ").unwrap();
        let to = to.split(' ').next().unwrap();
        let told = run(
            &command.replace("--push --wait", "--no-commit --healthy-for 1s"),
            repository,
        );
        let file = repository.join(format!("intents/visits-to-{to}.yaml"));
        let migration = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}: {told}"));
        (to.to_owned(), migration)
    });
    written.collect()
}

fn counts_in(world: &World, cluster: &str) -> bool {
    let copy = world.member(cluster).api.get(&COUNTERS, Some("shop"), "visits");
    copy.is_ok_and(|copy| copy["status"]["phase"] == "Counting")
}

/// Writes the files that a page shows, runs its commands, and compares what they print with what the page says.
fn follow(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join(REPOSITORY);
    std::fs::create_dir(&repository).unwrap();
    let followed = followed(&text, &repository);
    assert!(
        is_fresh(&path, &followed),
        "{page} is not what the program prints; run: CUTOVER_ACCEPT=1 cargo test --test all how_to::\n{followed}"
    );
}

/// Returns a page with what its commands print.
fn followed(page: &str, repository: &Path) -> String {
    let mut followed = String::new();
    let mut block: Option<(&str, String)> = None;
    for line in page.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(language)) => block = Some((language, String::new())),
            (Some((language, content)), Some(_)) => {
                let content = match *language {
                    "console" => run_all(content, repository),
                    "yaml" => write(content, repository),
                    _ => content.clone(),
                };
                followed += &format!("```{language}\n{content}```\n");
                block = None;
            }
            (Some((_, content)), None) => *content += &format!("{line}\n"),
            (None, None) => followed += &format!("{line}\n"),
        }
    }
    followed
}

/// Writes a block whose first line names a file.
fn write(content: &str, repository: &Path) -> String {
    let name = content.lines().next().and_then(|line| line.strip_prefix("# "));
    if let Some(name) = name.filter(|name| Path::new(name).extension().is_some_and(|is| is == "yaml")) {
        let path = repository.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    content.to_owned()
}

/// Runs the commands of a block and returns it with what they print.
fn run_all(content: &str, repository: &Path) -> String {
    let commands = content.lines().filter_map(|line| line.strip_prefix("$ cutover "));
    commands.map(|command| run(command, repository)).collect()
}

fn run(command: &str, repository: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cutover"))
        .args(command.split_whitespace())
        .current_dir(repository)
        .env_remove("KUBECONFIG")
        .env("HOME", "/nonexistent")
        .output()
        .unwrap();
    let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let code = match output.status.code() {
        Some(0) => String::new(),
        code => format!("? {}\n", code.unwrap()),
    };
    format!("$ cutover {command}\n{code}{printed}")
}
