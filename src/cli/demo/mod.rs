//! `cutover demo`: the whole story on one machine, with nothing but the binary, in chapters. What it claims it has checked.

mod chapters;
mod git;
mod kinds;
mod stage;
mod tell;

use std::io::BufRead;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{help, output, signal};
use cutover_core::error::{Error, Result};
use cutover_core::units::duration;
use stage::{Ground, STATUS_BRANCH, Stage};
use tell::{GOOD, QUIET, TITLE, apply, check, command, done};

#[derive(Args, Debug)]
pub struct Demo {
    /// What is played, in this order [default: all]
    #[arg(value_name = "CHAPTER")]
    chapters: Vec<Chapter>,
    /// Play in this directory, which has to be new or empty, and leave it there [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Wait for Enter before each chapter
    #[arg(long)]
    interactive: bool,
    /// Leave everything running at the end, to be looked at with git and kubectl, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Chapter {
    /// A stateful job moves with its state
    Move,
    /// Its policy names another cluster, and that is enough
    PolicyEdit,
    /// It takes a new image along that cannot start, and everything goes back
    Upgrade,
    /// The target is lost while the job is on its way to it
    LostTarget,
    /// The scheduler overwrites the binding, late, behind a long queue
    LateScheduler,
    /// Changes are kept from one cluster
    Freeze,
    /// A person has the job fail over, under its guard
    Failover,
    /// A change goes cluster by cluster, and back when the second one fails
    Rollout,
    /// Every change of what a policy selects goes cluster by cluster
    Policy,
    /// Replicas go from one cluster to another
    Shift,
    /// A cluster is emptied
    Evacuation,
    /// A cluster is tainted, and that is enough to empty it
    Taint,
}

impl Chapter {
    const fn title(self) -> &'static str {
        match self {
            Self::Move => "A plain move",
            Self::PolicyEdit => "An edit of a policy that becomes a move",
            Self::Upgrade => "A move with a new image, which cannot start",
            Self::LostTarget => "The target is lost during the move",
            Self::LateScheduler => "The scheduler's late overwrite",
            Self::Freeze => "A freeze of one cluster",
            Self::Failover => "A failover under guard",
            Self::Rollout => "A rollout whose second wave fails",
            Self::Policy => "A policy by which changes roll",
            Self::Shift => "Replicas that move",
            Self::Evacuation => "A cluster is emptied",
            Self::Taint => "A taint that becomes an evacuation",
        }
    }
}

/// How many commits of the status branch are shown.
const TOLD: usize = 10;
/// How long the reconciler may take to end in order after Ctrl-C.
const GRACE: Duration = Duration::from_secs(5);

type Reconciler = JoinHandle<Result<()>>;

impl Demo {
    pub async fn run(self) -> Result<ExitCode> {
        let interrupt = signal::cancelled_by_signals();
        let ground = Ground::make(self.dir.as_deref())?;
        let Some(played) = Box::pin(self.play(&ground, &interrupt)).await.transpose() else {
            output::note(format!("interrupted: the demo has ended, and {}", ground.close()));
            return Ok(ExitCode::from(signal::INTERRUPTED));
        };
        played?;
        if self.keep {
            ground.keep();
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Plays everything from setting up to the end; `None`: a signal came before.
    async fn play(&self, ground: &Ground, interrupt: &CancellationToken) -> Result<Option<()>> {
        let begin = Instant::now();
        let set = async {
            self.open("A Karmada sandbox, a Git repository, a reconciler")
                .await?;
            Stage::set(&ground.dir).await
        };
        let Some(set) = interrupt.run_until_cancelled(set).await else {
            return Ok(None);
        };
        let (stage, mut reconciler) = set?;
        let chapters = async {
            tokio::select! {
                played = self.chapters(&stage, begin) => played,
                ended = &mut reconciler => Err(died(ended)),
            }
        };
        let Some(played) = interrupt.run_until_cancelled(chapters).await else {
            end(&stage, reconciler).await;
            return Ok(None);
        };
        played?;
        if self.keep {
            look_around(&stage)?;
            interrupt.cancelled().await;
        }
        stage.strike();
        match reconciler.await {
            Ok(Ok(())) => Ok(Some(())),
            ended => Err(died(ended)),
        }
    }

    async fn chapters(&self, stage: &Stage, begin: Instant) -> Result<()> {
        setting(stage).await?;
        let all = Chapter::value_variants();
        let chosen = if self.chapters.is_empty() {
            all
        } else {
            &self.chapters
        };
        for chapter in chosen {
            self.open(chapter.title()).await?;
            let before = stage.running().await?;
            chapters::play(*chapter, stage, &before).await?;
            tell::ledger(&stage.verdict(), &before)?;
        }
        self.open("What Git has of it").await?;
        command(&format!("git log -{TOLD} {STATUS_BRANCH}"))?;
        for line in stage.clone.log(STATUS_BRANCH)?.iter().take(TOLD) {
            let (id, subject) = line.split_once(' ').unwrap_or((line, ""));
            apply(format!("  {QUIET}{id}{QUIET:#} {subject}"))?;
        }
        let took = jiff::SignedDuration::try_from(begin.elapsed()).unwrap_or_default();
        apply(format!("\n{GOOD}Done{GOOD:#} in {}.", duration(took)))?;
        if self.keep { Ok(()) } else { next_steps() }
    }

    async fn open(&self, title: &str) -> Result<()> {
        apply(format!("\n{TITLE}{title}{TITLE:#}"))?;
        if self.interactive {
            output::note("  Enter goes on");
            // The end of the input is as good as Enter. On a thread of its own, so that Ctrl-C is heard meanwhile.
            let _ =
                tokio::task::spawn_blocking(|| std::io::stdin().lock().read_line(&mut String::new())).await;
        }
        Ok(())
    }
}

fn died(ended: Result<Result<()>, JoinError>) -> Error {
    match ended {
        Ok(Ok(())) => Error::internal("the reconciler has ended by itself"),
        Ok(Err(error)) => error,
        Err(error) => Error::internal(format!("the reconciler is gone: {error}")),
    }
}

/// Ends the reconciler in order, and at once when that takes too long: nothing writes to the directory afterwards.
async fn end(stage: &Stage, mut reconciler: Reconciler) {
    stage.strike();
    if tokio::time::timeout(GRACE, &mut reconciler).await.is_err() {
        reconciler.abort();
        let _ = reconciler.await;
    }
}

fn next_steps() -> Result<()> {
    let tutorial = help::link("docs/tutorial.md");
    apply(format!(
        "\n{TITLE}Next{TITLE:#}\n  \
         cutover demo move --keep    leaves everything running, to look at it with git and kubectl\n  \
         cutover init fleet          writes a repository to start from\n  \
         {tutorial}\n                              does by hand what you have seen"
    ))
}

/// A control plane, a repository, a reconciler; the job comes up.
async fn setting(stage: &Stage) -> Result<()> {
    let members: Vec<&str> = stage.kubeconfigs.members.keys().map(String::as_str).collect();
    apply(format!(
        "  control plane  {}",
        stage.kubeconfigs.control.display()
    ))?;
    apply(format!("  members        {}", members.join(", ")))?;
    apply(format!("  repository     {}", stage.remote.display()))?;
    apply(format!("  clone          {}", stage.clone.dir.display()))?;
    let run = stage.running().await?;
    done(format!(
        "orders, a stateful Flink job, runs in {}",
        run.writer.cluster
    ))?;
    check(run.writer.cluster.as_str() == "east", "the job begins in east")
}

fn look_around(stage: &Stage) -> Result<()> {
    let (kubeconfig, clone) = (stage.kubeconfigs.control.display(), stage.clone.dir.display());
    apply(format!(
        "\n{TITLE}Everything goes on{TITLE:#} until Ctrl-C. In another terminal:\n\n  \
         export KUBECONFIG={kubeconfig}\n  \
         kubectl get flinkdeployments,resourcebindings,works,migrations -A\n  \
         cutover status\n  \
         git -C {clone} show origin/{STATUS_BRANCH}:STATUS.md\n  \
         cd {clone}    # change something, commit, push"
    ))
}
