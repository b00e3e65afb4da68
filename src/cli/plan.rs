//! `cutover plan`: what a push would change in a live control plane. Writes nothing there.

use std::path::PathBuf;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;

use super::connection::{ClusterArgs, GitArgs};
use super::output;
use crate::error::{Error, Kind, Result};
use crate::plan::{Palette, TextOptions};
use crate::reconcile::{self, sync};
use crate::repo::RemoteUrl;

#[derive(Args, Debug)]
pub struct Plan {
    /// A clone on this machine: what is committed on its current branch is planned
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// A repository elsewhere, instead of PATH
    #[arg(long, value_name = "URL", conflicts_with = "path")]
    repo: Option<RemoteUrl>,
    /// The branch to plan [default: PATH's current branch, or main]
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Format,
    /// Exit with 2 when there are changes
    #[arg(long)]
    detailed_exitcode: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    git: GitArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

const CHANGES: u8 = 2;

const PALETTE: Palette = Palette {
    header: Style::new().bold(),
    dim: Style::new().dimmed(),
    added: AnsiColor::Green.on_default(),
    removed: AnsiColor::Red.on_default(),
    added_word: AnsiColor::Green.on_default().bold().underline(),
    removed_word: AnsiColor::Red.on_default().bold().underline(),
    warning: AnsiColor::Yellow.on_default().bold(),
};

impl Plan {
    pub async fn run(self) -> Result<ExitCode> {
        let cluster = self.cluster.connect().await?;
        cluster.require_karmada().await?;
        let (url, branch) = self.source()?;
        let options = self.git.options(url, &branch)?;
        let plan = reconcile::plan(&options, &cluster, &CancellationToken::new()).await?;
        self.tell(&plan)
    }

    /// Returns the repository and the branch that are meant.
    fn source(&self) -> Result<(RemoteUrl, String)> {
        if let Some(url) = &self.repo {
            return Ok((
                url.clone(),
                self.branch.clone().unwrap_or_else(|| "main".to_owned()),
            ));
        }
        let clone = git2::Repository::discover(&self.path).map_err(|_| {
            Error::user(format!("{} is not in a Git repository", self.path.display()))
                .hint("name a clone, or a remote with --repo")
        })?;
        let branch = match &self.branch {
            Some(branch) => branch.clone(),
            None => current_branch(&clone)?,
        };
        let url = clone.path().to_string_lossy().parse()?;
        Ok((url, branch))
    }

    fn tell(&self, plan: &sync::Plan) -> Result<ExitCode> {
        match self.output {
            Format::Text => output::data(plan.changes.text(&TextOptions {
                palette: PALETTE,
                ..TextOptions::default()
            }))?,
            Format::Json => {
                let text = serde_json::to_string_pretty(&plan.changes.document())
                    .map_err(|error| Error::internal(format!("the plan cannot be written: {error}")))?;
                output::data(text + "\n")?;
            }
        }
        for problem in &plan.problems {
            output::problem(&problem.message, problem.at.as_ref(), problem.hint.as_deref());
        }
        Ok(if !plan.problems.is_empty() {
            ExitCode::from(Kind::User.exit_code())
        } else if self.detailed_exitcode && !plan.changes.is_noop() {
            ExitCode::from(CHANGES)
        } else {
            ExitCode::SUCCESS
        })
    }
}

fn current_branch(clone: &git2::Repository) -> Result<String> {
    let head = clone.head().ok();
    let name = head
        .as_ref()
        .filter(|head| head.is_branch())
        .and_then(|head| head.shorthand().ok());
    name.map(str::to_owned).ok_or_else(|| {
        Error::user("the clone is on no branch, or has no commit yet").hint("commit, or pass --branch")
    })
}
