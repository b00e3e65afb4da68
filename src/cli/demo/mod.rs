//! `cutover demo`: the whole story on one machine, with nothing but the binary. What it claims at the end it has checked.

mod git;
mod stage;

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use clap::Args;
use tokio::time::Instant;

use super::{example, output, signal};
use crate::api::{Migration, Phase};
use crate::error::{Error, Result};
use crate::report::{duration, finding_lines, step_line};
use crate::sandbox::ledger::{Origin, Run};
use stage::{STATUS_BRANCH, Stage, open_runs};

#[derive(Args, Debug)]
pub struct Demo {
    /// Play in this directory, which has to be new or empty, and leave it there [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Wait for Enter before each act
    #[arg(long)]
    interactive: bool,
    /// Leave everything running at the end, to be looked at with git and kubectl, until Ctrl-C
    #[arg(long)]
    keep: bool,
}

const TITLE: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const QUIET: Style = Style::new().dimmed();
const COMMAND: Style = AnsiColor::Cyan.on_default();

const IMAGE: &str = "registry.example.com/shop/orders:1.4.0";
/// The sandbox can't pull an image whose tag says that it is broken.
const BROKEN_IMAGE: &str = "registry.example.com/shop/orders:2.0.0-broken";

impl Demo {
    pub async fn run(self) -> Result<ExitCode> {
        self.play().await?;
        Ok(ExitCode::SUCCESS)
    }

    async fn play(&self) -> Result<()> {
        let begin = Instant::now();
        self.act("A Karmada sandbox, a Git repository, a reconciler")?;
        let (mut stage, mut reconciler) = Stage::set(self.dir.as_deref()).await?;
        let died = |ended: Result<Result<()>, _>| match ended {
            Ok(Ok(())) => Error::internal("the reconciler has ended by itself"),
            Ok(Err(error)) => error,
            Err(error) => Error::internal(format!("the reconciler is gone: {error}")),
        };
        tokio::select! {
            acted = self.acts(&mut stage, begin) => acted?,
            ended = &mut reconciler => return Err(died(ended)),
        }
        stage.strike();
        match reconciler.await {
            Ok(Ok(())) => Ok(()),
            ended => Err(died(ended)),
        }
    }

    async fn acts(&self, stage: &mut Stage, begin: Instant) -> Result<()> {
        setting(stage).await?;
        let first = self.migration(stage).await?;
        self.roll_back(stage, &first).await?;
        self.evidence(stage)?;
        let took = jiff::SignedDuration::try_from(begin.elapsed()).unwrap_or_default();
        say(format!("\n{GOOD}Done{GOOD:#} in {}.", duration(took)))?;
        if self.keep {
            stage.keep();
            look_around(stage)?;
            signal::asked_to_end().await;
        }
        Ok(())
    }

    /// Act 2: an intent is pushed; the job moves with its state.
    async fn migration(&self, stage: &Stage) -> Result<Run> {
        self.act("git push: move orders to west")?;
        let name = "orders-to-west";
        write_intent(&stage.clone.dir, name, "west", "10s")?;
        push(stage, "Move orders to west", &[format!("+ intents/{name}.yaml")])?;
        let migration = follow(stage, name).await?;
        check(phase(&migration) == Phase::Completed, "the migration completes")?;
        let run = stage.running().await?;
        check(
            run.writer.cluster.as_str() == "west",
            "the job runs in west, and nowhere else",
        )?;
        let handle = captured(&migration, "east")?;
        check(
            run.restored_from == Origin::Handle(handle.clone()),
            "the job in west started from the savepoint taken in east",
        )?;
        done("orders runs in west, from the savepoint that was taken in east")?;
        say(format!("    {QUIET}{handle}{QUIET:#}"))?;
        if let Some(downtime) = downtime(&migration) {
            say(format!("    nobody wrote for {downtime}"))?;
        }
        stage.recorded(name, Phase::Completed).await?;
        Ok(run)
    }

    /// Act 3: the next move takes a new image along that can't start; everything goes back.
    async fn roll_back(&self, stage: &Stage, before: &Run) -> Result<()> {
        self.act("git push: move orders to north, with an image that cannot start")?;
        let name = "orders-to-north";
        write_intent(&stage.clone.dir, name, "north", "2s")?;
        replace(
            &stage.clone.dir.join("workloads/orders.yaml"),
            IMAGE,
            BROKEN_IMAGE,
        )?;
        let changes = [
            format!("+ intents/{name}.yaml"),
            format!("~ workloads/orders.yaml: image {BROKEN_IMAGE}"),
        ];
        push(stage, "Move orders to north with release 2.0.0", &changes)?;
        let migration = follow(stage, name).await?;
        check(
            phase(&migration) == Phase::RolledBack,
            "the migration is rolled back",
        )?;
        let run = stage.running().await?;
        check(
            run.writer.cluster.as_str() == "west",
            "the job runs in west again",
        )?;
        check(run.from > before.from, "the job was restarted")?;
        check(
            stage.image_in("west") == IMAGE,
            "the job has the image it had before",
        )?;
        let handle = captured(&migration, "west")?;
        check(
            run.restored_from == Origin::Handle(handle.clone()),
            "the job started from the savepoint taken before it was to move",
        )?;
        done("rolled back: orders runs in west as before, with the old image, from its last savepoint")?;
        say(format!("    {QUIET}{handle}{QUIET:#}"))?;
        stage.recorded(name, Phase::RolledBack).await
    }

    /// Act 4: what Git says, and what the ledger says that nobody can talk out of.
    fn evidence(&self, stage: &Stage) -> Result<()> {
        self.act("What is left of it")?;
        command(&format!("git log {STATUS_BRANCH}"))?;
        for line in stage.clone.log(STATUS_BRANCH)? {
            let (id, subject) = line.split_once(' ').unwrap_or((&line, ""));
            say(format!("  {QUIET}{id}{QUIET:#} {subject}"))?;
        }
        let verdict = stage.verdict();
        say(
            "\n  The sandbox keeps a ledger of every copy that could write, whatever anybody's status says:",
        )?;
        for run in verdict.runs.iter().filter(|run| run.workload.name == "orders") {
            let until = match run.until {
                Some(until) => duration(until.duration_since(run.from)),
                None => "until now".to_owned(),
            };
            let origin = match &run.restored_from {
                Origin::Empty => "empty state",
                Origin::Handle(handle) => handle,
            };
            let cluster = run.writer.cluster.as_str();
            say(format!(
                "    {cluster:<6} {until:>9}  {QUIET}from {origin}{QUIET:#}"
            ))?;
        }
        check(open_runs(&verdict).len() == 1, "one copy of the job runs")?;
        check(
            verdict.max_writers_at_once == 1,
            "there was never more than one writer",
        )?;
        check(verdict.is_clean(), "no state was lost")?;
        done("writers at once: never more than 1; state lost: none")
    }

    fn act(&self, title: &str) -> Result<()> {
        say(format!("\n{TITLE}{title}{TITLE:#}"))?;
        if self.interactive {
            output::note("  Enter goes on");
            // Nobody at the keyboard is as good as Enter.
            let _ = std::io::stdin().lock().read_line(&mut String::new());
        }
        Ok(())
    }
}

/// Act 1: a control plane, a repository, a reconciler; the job comes up.
async fn setting(stage: &Stage) -> Result<()> {
    let members: Vec<&str> = stage.kubeconfigs.members.keys().map(String::as_str).collect();
    say(format!(
        "  control plane  {}",
        stage.kubeconfigs.control.display()
    ))?;
    say(format!("  members        {}", members.join(", ")))?;
    say(format!("  repository     {}", stage.remote.display()))?;
    say(format!("  clone          {}", stage.clone.dir.display()))?;
    let run = stage.running().await?;
    done(format!(
        "orders, a stateful Flink job, runs in {}",
        run.writer.cluster
    ))?;
    check(run.writer.cluster.as_str() == "east", "the job begins in east")
}

/// Writes the example's intent for a cluster, with times for a demo: how long it may take there.
fn write_intent(clone: &Path, name: &str, to: &str, timeout: &str) -> Result<()> {
    let example = example::FILES
        .iter()
        .find_map(|(path, content)| (*path == "intents/examples/orders-to-west.yaml").then_some(*content))
        .unwrap_or_default();
    let intent = example
        .replace("orders-to-west", name)
        .replace("to west", &format!("to {to}"))
        .replace("to: west", &format!("to: {to}"))
        .replace("healthyFor: 60s", "healthyFor: 1s")
        .replace("timeout: 10m", &format!("timeout: {timeout}"));
    example::write_file(&clone.join("intents").join(format!("{name}.yaml")), &intent)
}

fn replace(path: &Path, from: &str, to: &str) -> Result<()> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::user(format!("cannot read {}: {error}", path.display())))?;
    example::write_file(path, &text.replace(from, to))
}

fn push(stage: &Stage, message: &str, changes: &[String]) -> Result<()> {
    for change in changes {
        say(format!("  {GOOD}{change}{GOOD:#}"))?;
    }
    command(&format!("git commit -m '{message}' && git push"))?;
    stage.clone.push(message)
}

/// Tells a migration as it goes on, until it has ended.
async fn follow(stage: &Stage, name: &str) -> Result<Migration> {
    let migration = stage
        .ended(name, |step, next| {
            // A reader that has gone away is found at the next line.
            let _ = say(step_line(step, next));
        })
        .await?;
    for line in finding_lines(&migration) {
        say(line)?;
    }
    Ok(migration)
}

fn phase(migration: &Migration) -> Phase {
    migration
        .status
        .as_ref()
        .map_or(Phase::Pending, |status| status.phase)
}

/// Returns the handle that a migration captured, which has to be from a cluster.
fn captured(migration: &Migration, from: &str) -> Result<String> {
    let journal = migration
        .status
        .as_ref()
        .and_then(|status| status.journal.as_ref());
    journal
        .and_then(|journal| journal.captured.as_ref())
        .filter(|captured| captured.from.as_str() == from)
        .and_then(|captured| captured.values.get("savepoint").cloned())
        .ok_or_else(|| not_seen(&format!("a savepoint is taken in {from}")))
}

fn downtime(migration: &Migration) -> Option<String> {
    let millis = migration.status.as_ref()?.downtime_ms?;
    Some(duration(jiff::SignedDuration::from_millis(
        i64::try_from(millis).ok()?,
    )))
}

fn look_around(stage: &Stage) -> Result<()> {
    let (kubeconfig, clone) = (stage.kubeconfigs.control.display(), stage.clone.dir.display());
    say(format!(
        "\n{TITLE}Everything goes on{TITLE:#} until Ctrl-C. In another terminal:\n\n  \
         export KUBECONFIG={kubeconfig}\n  \
         kubectl get flinkdeployments,resourcebindings,works,migrations -A\n  \
         cutover status\n  \
         git -C {clone} show origin/{STATUS_BRANCH}:STATUS.md\n  \
         cd {clone}    # change something, commit, push"
    ))
}

fn say(line: impl AsRef<str>) -> Result<()> {
    output::data(format!("{}\n", line.as_ref()))
}

fn command(line: &str) -> Result<()> {
    say(format!("  {COMMAND}$ {line}{COMMAND:#}"))
}

fn done(what: impl AsRef<str>) -> Result<()> {
    say(format!("  {GOOD}✓ {}{GOOD:#}", what.as_ref()))
}

/// Fails the demo when what it is about to claim was not observed.
fn check(observed: bool, claim: &str) -> Result<()> {
    if observed { Ok(()) } else { Err(not_seen(claim)) }
}

fn not_seen(claim: &str) -> Error {
    Error::internal(format!("the demo expects that {claim}; that was not observed"))
}
