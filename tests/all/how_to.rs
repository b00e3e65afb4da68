//! How-to pages whose files are written and whose commands are run, as a reader would. `CUTOVER_ACCEPT=1` writes what the
//! commands print into the page.

use std::path::Path;
use std::process::Command;

use crate::support::is_fresh;

/// The folder of the page's repository, so that `../` is beside it.
const REPOSITORY: &str = "repository";

#[test]
fn a_profile_is_written_and_tried_as_the_page_says() {
    follow("docs/how-to/teach-your-operator.md");
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
