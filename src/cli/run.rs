//! `cutover run`: the reconciler.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use super::connection::{ClusterArgs, GitArgs};
use super::{output, signal};
use crate::error::{Kind, Result};
use crate::reconcile::intents::Nobody;
use crate::reconcile::{self, Options, Summary};
use crate::repo::{Polling, RemoteUrl};

#[derive(Args, Debug)]
pub struct Run {
    /// The repository: a path, https://, ssh://, user@host:path, git:// or file://
    #[arg(long, value_name = "URL", env = "CUTOVER_REPO")]
    repo: RemoteUrl,
    /// The branch with the desired state
    #[arg(long, value_name = "NAME", default_value = "main")]
    branch: String,
    /// Sync, carry every intent as far as it goes, publish, and end; 1: something is not as Git wants it
    #[arg(long)]
    once: bool,
    /// How often Git is asked for new commits, instead of what cutover.yaml says; for instance `30s`
    #[arg(long, value_name = "DURATION")]
    interval: Option<SignedDuration>,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    git: GitArgs,
}

impl Run {
    pub async fn run(self) -> Result<ExitCode> {
        let cancel = signal::cancelled_by_signals();
        let cluster = self.cluster.connect().await?;
        cluster.require_karmada().await?;
        let repo = self.git.options(self.repo.clone(), &self.branch)?;
        output::note(format!(
            "reconciling {} ({}) with {}",
            self.repo,
            self.branch,
            cluster.server()
        ));
        let options = Options {
            repo,
            cluster,
            polling: self.interval.map(polling),
            clock: Arc::new(Timestamp::now),
            witness: Arc::new(Nobody),
        };
        if self.once {
            return once(options, cancel).await;
        }
        reconcile::run(options, cancel).await?;
        Ok(ExitCode::SUCCESS)
    }
}

fn polling(interval: SignedDuration) -> Polling {
    let interval = Duration::try_from(interval)
        .unwrap_or_default()
        .max(Duration::from_secs(1));
    Polling {
        interval,
        slowest: Polling::default().slowest.max(interval),
    }
}

async fn once(options: Options, cancel: CancellationToken) -> Result<ExitCode> {
    let summary = reconcile::once(options, cancel).await?;
    tell(&summary)?;
    Ok(if summary.is_clean() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(Kind::User.exit_code())
    })
}

fn tell(summary: &Summary) -> Result<()> {
    for (name, report) in &summary.syncs {
        output::data(format!(
            "sync {name}: {} objects at {}\n",
            report.desired,
            report.revision.short()
        ))?;
        for problem in &report.problems {
            output::problem(&problem.message, problem.at.as_ref(), problem.hint.as_deref());
        }
    }
    for (namespace, name, phase) in &summary.migrations {
        output::data(format!("migration {namespace}/{name}: {phase}\n"))?;
    }
    Ok(())
}
