//! What people read when they ask for help: commands by purpose, flags that matter first, examples, and the page that says more.
//!
//! The flags themselves stand beside the commands; here is what clap's derive can't say of all of them alike.

mod guides;

use std::fmt::Write as _;

use anstyle::Style;
use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

use guides::{Example, GROUPS, GUIDES, Guide};

use super::Cli;

/// Flags that most people never need: `-h` leaves them to `--help`.
const LATER: &[&str] = &[
    "Git options",
    "Status options",
    "Global options",
    "Lease options",
    "Prometheus options",
    "Webhook options",
    "Forge options",
];

/// Returns the command line with all of its help.
pub fn command() -> Command {
    let command = Cli::command();
    let template = overview(&command);
    let command = shorter(command.help_template(template));
    GUIDES.iter().fold(command, |command, guide| {
        at(command, guide.command, |command| guided(command, guide))
    })
}

/// Changes a command below another one; one that this build doesn't have stays away.
fn at(command: Command, path: &[&str], change: impl FnOnce(Command) -> Command) -> Command {
    match path {
        [] => change(command),
        [first, ..] if command.find_subcommand(first).is_none() => command,
        [first, rest @ ..] => command.mut_subcommand(first, |below| at(below, rest, change)),
    }
}

/// Leaves to `--help` what most people never need.
fn shorter(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        let is_later = arg
            .get_help_heading()
            .is_some_and(|heading| LATER.contains(&heading));
        if is_later { arg.hide_short_help(true) } else { arg }
    });
    command.mut_subcommands(shorter)
}

/// Returns the template of the program's own help, which lists its commands by purpose.
fn overview(command: &Command) -> StyledStr {
    let (heading, literal) = (
        *command.get_styles().get_header(),
        *command.get_styles().get_literal(),
    );
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        let _ = write!(text, "\n{heading}{title}:{heading:#}\n");
        for command in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let name = command.get_name();
            let _ = writeln!(text, "  {literal}{name:<11}{literal:#}  {about}");
        }
    }
    let _ = write!(text, "\n{heading}Options:{heading:#}\n{{options}}{{after-help}}");
    text.into()
}

/// Adds the page and the examples of a command. `-h` has examples of the program alone: it is where people begin.
fn guided(command: Command, guide: &Guide) -> Command {
    let heading = *command.get_styles().get_header();
    let page = format!("{heading}Documentation:{heading:#} {}", link(guide.page));
    let examples = examples(guide, heading);
    let (short, name) = match guide.command {
        [] => (examples.clone() + "\n", "cutover COMMAND".to_owned()),
        words => (String::new(), format!("cutover {}", words.join(" "))),
    };
    command
        .after_help(format!(
            "{short}{page}\n{name} --help has all options and examples."
        ))
        .after_long_help(format!("{examples}\n{page}"))
}

fn examples(guide: &Guide, heading: Style) -> String {
    let mut text = format!("{heading}Examples:{heading:#}\n");
    for Example { what, line } in guide.examples {
        let _ = writeln!(text, "  # {what}\n  {line}");
    }
    text
}

/// Returns where a page of the repository is read.
pub fn link(page: &str) -> String {
    format!("{}/blob/main/{page}", env!("CARGO_PKG_REPOSITORY"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use clap::error::ErrorKind;

    use super::*;

    /// Returns the words of every command, the program's own included.
    fn commands() -> Vec<Vec<String>> {
        fn below(command: &Command, path: &[String], all: &mut Vec<Vec<String>>) {
            all.push(path.to_vec());
            for sub in command.get_subcommands() {
                let path: Vec<String> = path.iter().cloned().chain([sub.get_name().to_owned()]).collect();
                below(sub, &path, all);
            }
        }
        let mut all = Vec::new();
        below(&Cli::command(), &[], &mut all);
        all
    }

    fn has(command: &[&str]) -> bool {
        commands().iter().any(|words| words == command)
    }

    fn shown(command: &[&str], flag: &str) -> String {
        let words = std::iter::once("cutover")
            .chain(command.iter().copied())
            .chain([flag]);
        let help = super::command().try_get_matches_from(words).unwrap_err();
        assert_eq!(help.kind(), ErrorKind::DisplayHelp);
        help.to_string()
    }

    #[test]
    fn the_command_line_is_sound() {
        super::command().debug_assert();
    }

    #[test]
    fn every_command_has_one_guide_and_every_first_word_one_group() {
        let guides: Vec<Vec<String>> = GUIDES
            .iter()
            .filter(|guide| has(guide.command))
            .map(|guide| guide.command.iter().map(ToString::to_string).collect())
            .collect();
        let unique: BTreeSet<_> = guides.iter().cloned().collect();
        assert_eq!(guides.len(), unique.len());
        assert_eq!(unique, commands().into_iter().collect());

        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.retain(|name| has(&[name]));
        grouped.sort_unstable();
        let command = Cli::command();
        let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn every_example_is_a_command_line_of_its_command() {
        for guide in GUIDES.iter().filter(|guide| has(guide.command)) {
            assert!((2..=4).contains(&guide.examples.len()), "{:?}", guide.command);
            for Example { what, line } in guide.examples {
                let words = shlex::split(line).unwrap();
                let begins: Vec<&str> = words
                    .iter()
                    .skip(1)
                    .map(String::as_str)
                    .take(guide.command.len())
                    .collect();
                assert_eq!(
                    (words[0].as_str(), begins.as_slice()),
                    ("cutover", guide.command),
                    "{line}"
                );
                if let Err(error) = super::command().try_get_matches_from(words) {
                    panic!("{line}: {error}");
                }
                assert!(!what.ends_with('.') && line.len() <= 120, "{line}");
            }
        }
    }

    #[test]
    fn every_help_names_a_page_that_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for guide in GUIDES.iter().filter(|guide| has(guide.command)) {
            let (page, _) = guide.page.split_once('#').unwrap_or((guide.page, ""));
            assert!(root.join(page).is_file(), "{page}");
            let link = format!("https://github.com/cutover-dev/cutover/blob/main/{}", guide.page);
            for flag in ["-h", "--help"] {
                assert!(
                    shown(guide.command, flag).contains(&link),
                    "{:?} {flag}",
                    guide.command
                );
            }
        }
    }

    #[test]
    fn short_help_is_one_screen() {
        for guide in GUIDES.iter().filter(|guide| has(guide.command)) {
            let help = shown(guide.command, "-h");
            let lines = help.lines().count();
            assert!(lines <= 60, "{:?} has {lines} lines:\n{help}", guide.command);
        }
    }

    #[test]
    fn flags_that_several_commands_share_stand_under_one_heading() {
        let shared = [
            ("kubeconfig", "Control plane options"),
            ("offline", "Control plane options"),
            ("git-token-file", "Git options"),
            ("output", "Output options"),
            ("push", "Change options"),
        ];
        let command = super::command();
        for command in command.get_subcommands() {
            for arg in command.get_arguments() {
                let expected = shared.iter().find(|(long, _)| arg.get_long() == Some(long));
                if let Some((long, heading)) = expected {
                    assert_eq!(
                        arg.get_help_heading(),
                        Some(*heading),
                        "{} --{long}",
                        command.get_name()
                    );
                }
            }
        }
    }
}
