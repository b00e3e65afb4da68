//! The chapters of migrations: what is pushed, what gets in the way, and what has to have come of it.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::stage::Stage;
use super::tell::{GOOD, QUIET, apply, check, command, done, file, not_seen, trouble};
use super::{Chapter, kinds};
use crate::cli::{example, global};
use cutover_core::api::{Migration, Phase};
use cutover_core::error::{Error, Result};
use cutover_core::report::{finding_lines, step_line};
use cutover_core::units::duration;
use cutover_sandbox::ledger::{Origin, Run};

const IMAGE: &str = "registry.example.com/shop/orders:1.4.0";
/// The sandbox can't pull an image whose tag says that it is broken.
const BROKEN_IMAGE: &str = "registry.example.com/shop/orders:2.0.0-broken";
pub const POLICY: &str = "policies/orders.yaml";
/// Where the policy of the example lets the job run.
pub const ANYWHERE: &str = "clusterNames: [east, west, north]";
const ALL: usize = 3;
/// How long a phase may take that takes a second or two here.
const AMPLE: &str = "15s";

pub async fn play(chapter: Chapter, stage: &Stage, before: &Run) -> Result<()> {
    match chapter {
        Chapter::Move => plain_move(stage, before).await,
        Chapter::PolicyEdit => policy_edit(stage, before).await,
        Chapter::Upgrade => upgrade(stage, before).await,
        Chapter::LostTarget => lost_target(stage, before).await,
        Chapter::LateScheduler => late_scheduler(stage, before).await,
        Chapter::Freeze => kinds::freeze(stage).await,
        Chapter::Failover => kinds::failover(stage, before).await,
        Chapter::Rollout => kinds::rollout(stage, before).await,
        Chapter::Policy => kinds::policy(stage).await,
        Chapter::Shift => kinds::shift(stage).await,
        Chapter::Evacuation => kinds::evacuation(stage, before).await,
        Chapter::Taint => kinds::taint(stage, before).await,
    }
}

/// An intent is pushed; the job moves with its state.
async fn plain_move(stage: &Stage, before: &Run) -> Result<()> {
    let to = one_of(["west", "east"], before);
    let intent = Intent::new(stage, to, AMPLE)?;
    push(stage, &format!("Move orders to {to}"), &[])?;
    let migration = follow(stage, &intent.name).await?;
    moved(stage, &intent, &migration, before).await?;
    if let Some(downtime) = downtime(&migration) {
        apply(format!("    downtime {downtime}"))?;
    }
    Ok(())
}

/// The policy names another cluster: a Migration follows, and then the policy is applied.
async fn policy_edit(stage: &Stage, before: &Run) -> Result<()> {
    let to = one_of(["north", "east"], before);
    let (policy, only) = (stage.clone.dir.join(POLICY), format!("clusterNames: [{to}]"));
    replace(&policy, ANYWHERE, &only)?;
    push(
        stage,
        &format!("Run orders in {to}"),
        &[format!("~ {POLICY}: {only}")],
    )?;
    let name = stage.set_off(to).await?;
    stage.placed_in(ALL).await?;
    done(format!(
        "the policy is held back; cutover creates the Migration {name}"
    ))?;
    let migration = follow(stage, &name).await?;
    let to = to.to_owned();
    moved(stage, &Intent { name, to }, &migration, before).await?;
    stage.placed_in(1).await?;
    done("the policy is applied")?;
    replace(&policy, &only, ANYWHERE)?;
    push(
        stage,
        "Let orders run anywhere",
        &[format!("~ {POLICY}: {ANYWHERE}")],
    )?;
    stage.placed_in(ALL).await
}

/// The move takes a new image along that can't start; everything goes back.
async fn upgrade(stage: &Stage, before: &Run) -> Result<()> {
    let to = one_of(["north", "east"], before);
    let intent = Intent::new(stage, to, "2s")?;
    let workload = stage.clone.dir.join("workloads/orders.yaml");
    replace(&workload, IMAGE, BROKEN_IMAGE)?;
    let changed = format!("~ workloads/orders.yaml: image {BROKEN_IMAGE}");
    push(
        stage,
        &format!("Move orders to {to} with release 2.0.0"),
        &[changed],
    )?;
    let migration = follow(stage, &intent.name).await?;
    back(stage, &intent, &migration, before).await?;
    let home = before.writer.cluster.as_str();
    check(
        stage.image_in(home) == IMAGE,
        "the job has the image it had before",
    )?;
    // Git wants the new image still, and the next commit would bring it.
    replace(&workload, BROKEN_IMAGE, IMAGE)?;
    push(stage, "Go back to release 1.4.0", &[])
}

/// The target can't be reached any more just when it may have been told to run: nobody can know whether it does.
async fn lost_target(stage: &Stage, before: &Run) -> Result<()> {
    let to = one_of(["north", "west"], before);
    let intent = Intent::new(stage, to, "2s")?;
    push(stage, &format!("Move orders to {to} again"), &[])?;
    let meanwhile = async {
        stage.enters(&intent.name, Phase::Handoff).await?;
        stage.world.faults().partition(to);
        trouble(format!("{to} can't be reached any more"))?;
        let why = stage.cannot_go_back(&intent.name, to).await?;
        trouble(format!("nothing is let run meanwhile: {why}"))?;
        let elsewhere = |run: &Run| run.writer.cluster.as_str() != to;
        let runs = stage.open_runs();
        check(
            !runs.iter().any(elsewhere),
            "no copy runs beside one that can't be seen",
        )?;
        stage.world.faults().heal(to);
        trouble(format!("{to} can be reached again"))
    };
    let migration = follow_while(stage, &intent.name, meanwhile).await?;
    back(stage, &intent, &migration, before).await
}

/// A queue of other bindings lies before the scheduler when somebody lets it look at this one again.
async fn late_scheduler(stage: &Stage, before: &Run) -> Result<()> {
    let to = one_of(["east", "west"], before);
    stage.others(120).await?;
    let intent = Intent::new(stage, to, AMPLE)?;
    push(stage, &format!("Move orders back to {to}"), &[])?;
    let meanwhile = async {
        stage.enters(&intent.name, Phase::Handoff).await?;
        command("kubectl label cluster north zone=b    # queues 120 bindings for the scheduler")?;
        command(
            "kubectl patch resourcebinding … '{\"spec\": {\"suspension\": null}}'    # and orders after them",
        )?;
        let begun = Instant::now();
        stage.label_cluster("north")?;
        stage.patch_binding(json!({"spec": {"suspension": null}}))?;
        stage
            .until("scheduling to be suspended again", || {
                stage.scheduling_suspended().then_some(())
            })
            .await?;
        let suspended = Instant::now();
        trouble(format!("suspended again after {}", took(begun)))?;
        let chosen = stage
            .until("the scheduler to overwrite the clusters", || {
                let listed = stage.listed();
                (listed.len() == 1).then_some(listed)
            })
            .await?;
        trouble(format!(
            "{} later the scheduler writes all the same: clusters [{}]",
            took(suspended),
            chosen.join(", ")
        ))
    };
    let migration = follow_while(stage, &intent.name, meanwhile).await?;
    moved(stage, &intent, &migration, before).await
}

/// The first of two clusters in which the job doesn't run.
fn one_of<'a>(clusters: [&'a str; 2], run: &Run) -> &'a str {
    let [first, second] = clusters;
    if run.writer.cluster.as_str() == first {
        second
    } else {
        first
    }
}

/// A file that asks for a move.
struct Intent {
    name: String,
    to: String,
}

impl Intent {
    /// Writes and shows the example's intent for a cluster, with times for a demo: how long it may take there.
    fn new(stage: &Stage, to: &str, timeout: &str) -> Result<Self> {
        let example = example::FILES
            .iter()
            .find_map(|(path, content)| (*path == "intents/examples/orders-to-west.yaml").then_some(*content))
            .unwrap_or_default();
        let (mut name, mut number) = (format!("orders-to-{to}"), 1);
        while stage.clone.dir.join(format!("intents/{name}.yaml")).exists() {
            number += 1;
            name = format!("orders-to-{to}-{number}");
        }
        let text = example
            .replace("orders-to-west", &name)
            .replace("to west", &format!("to {to}"))
            .replace("to: west", &format!("to: {to}"))
            .replace("healthyFor: 60s", "healthyFor: 1s")
            .replace("timeout: 10m", &format!("timeout: {timeout}"));
        let path = format!("intents/{name}.yaml");
        example::write_file(&stage.clone.dir.join(&path), &text)?;
        file(&path, &text)?;
        let to = to.to_owned();
        Ok(Self { name, to })
    }
}

/// It completed, and the job runs in the target from what was captured in the source.
async fn moved(stage: &Stage, intent: &Intent, migration: &Migration, before: &Run) -> Result<()> {
    let (home, to) = (before.writer.cluster.as_str(), intent.to.as_str());
    check(phase(migration) == Phase::Completed, "the migration completes")?;
    let run = stage.running().await?;
    check(
        run.writer.cluster.as_str() == to,
        &format!("the job runs in {to}, and nowhere else"),
    )?;
    let handle = captured(migration, home)?;
    check(
        run.restored_from == Origin::Handle(handle.clone()),
        &format!("the job in {to} started from the savepoint taken in {home}"),
    )?;
    done(format!(
        "orders runs in {to}, from the savepoint that was taken in {home}"
    ))?;
    apply(format!("    {QUIET}{handle}{QUIET:#}"))?;
    stage.recorded(&intent.name, Phase::Completed).await
}

/// It was rolled back, and the job runs in the source again from what was captured there.
async fn back(stage: &Stage, intent: &Intent, migration: &Migration, before: &Run) -> Result<()> {
    let home = before.writer.cluster.as_str();
    check(
        phase(migration) == Phase::RolledBack,
        "the migration is rolled back",
    )?;
    let run = stage.running().await?;
    check(
        run.writer.cluster.as_str() == home,
        &format!("the job runs in {home} again"),
    )?;
    check(run.from > before.from, "the job was restarted")?;
    let handle = captured(migration, home).or_else(|_| captured(migration, &intent.to))?;
    check(
        run.restored_from == Origin::Handle(handle.clone()),
        "the job started from its newest savepoint",
    )?;
    done(format!(
        "rolled back: orders runs in {home} as before, from its last savepoint"
    ))?;
    apply(format!("    {QUIET}{handle}{QUIET:#}"))?;
    stage.recorded(&intent.name, Phase::RolledBack).await
}

pub fn replace(path: &Path, from: &str, to: &str) -> Result<()> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::user(format!("cannot read {}: {error}", path.display())))?;
    example::write_file(path, &text.replace(from, to))
}

pub fn push(stage: &Stage, message: &str, changes: &[String]) -> Result<()> {
    for change in changes {
        apply(format!("  {GOOD}{change}{GOOD:#}"))?;
    }
    command(&format!("git commit -m '{message}' && git push"))?;
    stage.clone.push(message)
}

/// Tells a migration as it goes on, until it has ended.
async fn follow(stage: &Stage, name: &str) -> Result<Migration> {
    let migration = stage
        .ended(name, |step, next| {
            // A reader that has gone away is found at the next line.
            let _ = apply(step_line(step, next, global::is_verbose()));
        })
        .await?;
    for line in finding_lines(&migration) {
        apply(line)?;
    }
    Ok(migration)
}

/// The same, with something happening.
async fn follow_while(
    stage: &Stage,
    name: &str,
    meanwhile: impl Future<Output = Result<()>>,
) -> Result<Migration> {
    let (migration, ()) = tokio::try_join!(follow(stage, name), meanwhile)?;
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
    Some(span(Duration::from_millis(millis)))
}

fn took(since: Instant) -> String {
    span(since.elapsed())
}

fn span(time: Duration) -> String {
    duration(jiff::SignedDuration::try_from(time).unwrap_or_default())
}
