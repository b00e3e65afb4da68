//! `cutover check`: whether everything that a reconciler needs is there, and how to mend what isn't.

use std::fmt::Write as _;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::connection::{ClusterArgs, GitArgs, StatusArgs};
use super::output::OUTPUT;
use super::{output, signal};
use cutover_controller::check::{self, CheckOptions, Outcome};
use cutover_core::error::{Error, Kind, Result};
use cutover_git::{Options, RemoteUrl};

#[derive(Args, Debug)]
pub struct Check {
    /// The repository that `cutover run` will read; without it, Git is not checked
    #[arg(long, value_name = "URL", env = "CUTOVER_REPO")]
    repo: Option<RemoteUrl>,
    /// The branch with the desired state
    #[arg(long, value_name = "NAME", default_value = "main")]
    branch: String,
    /// How it is written
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = OUTPUT)]
    output: Format,
    #[command(flatten)]
    status: StatusArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    git: GitArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Serialize)]
struct Document<'a> {
    checks: &'a [check::Check],
    /// How many failed.
    failed: usize,
}

impl Check {
    pub async fn run(self) -> Result<ExitCode> {
        let cancel = signal::cancelled_by_signals();
        let options = CheckOptions {
            cluster: self.cluster.connect().await?,
            repo: self.repo_options()?,
            status_repo: self.status.elsewhere(&self.git)?,
            status_branches: self.status.branches(),
        };
        let checks = tokio::select! {
            checks = check::check(options, cancel.clone()) => checks,
            () = cancel.cancelled() => return Err(Error::user("interrupted")),
        };
        let has_failed = |check: &&check::Check| check.outcome == Outcome::Failed;
        let failed = checks.iter().filter(has_failed).count();
        match self.output {
            Format::Text => output::data(text(&checks, failed))?,
            Format::Json => output::json(document(&checks, failed)?)?,
        }
        // What cannot be reached says more than what is missing: 3, as every command ends then.
        let codes = checks.iter().filter(has_failed);
        let codes = codes.map(|check| check.error.unwrap_or(Kind::User).exit_code());
        Ok(codes.max().map_or(ExitCode::SUCCESS, ExitCode::from))
    }

    fn repo_options(&self) -> Result<Option<Options>> {
        let Some(url) = self.repo.clone() else {
            return Ok(None);
        };
        let options = self.git.options(url, &self.branch)?;
        // A reconciler on this machine has the mirror of the repository for itself.
        Ok(Some(Options {
            state_dir: options.state_dir.join("check"),
            ..options
        }))
    }
}

fn document(checks: &[check::Check], failed: usize) -> Result<String> {
    let document = serde_json::to_string_pretty(&Document { checks, failed });
    let document =
        document.map_err(|error| Error::internal(format!("the checks cannot be written: {error}")))?;
    Ok(document + "\n")
}

const fn style(outcome: Outcome) -> Style {
    match outcome {
        Outcome::Ok => AnsiColor::Green.on_default(),
        Outcome::Warning => AnsiColor::Yellow.on_default().bold(),
        Outcome::Failed => AnsiColor::Red.on_default().bold(),
        Outcome::Skipped => AnsiColor::BrightBlack.on_default(),
    }
}

/// Returns a line for each check, and one below it for what to do.
fn text(checks: &[check::Check], failed: usize) -> String {
    let mut text = String::new();
    for check in checks {
        let style = style(check.outcome);
        let (name, message) = (output::line(&check.name), output::line(&check.message));
        let _ = writeln!(
            text,
            "{style}{:8}{style:#} {name}: {message}",
            check.outcome.name()
        );
        if let Some(fix) = &check.fix {
            let _ = writeln!(text, "         hint: {}", output::line(fix));
        }
    }
    let _ = match failed {
        0 => writeln!(text, "nothing blocks it"),
        1 => writeln!(text, "1 check failed"),
        failed => writeln!(text, "{failed} checks failed"),
    };
    text
}
