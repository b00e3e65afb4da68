//! What intents would do, were they carried out now: their own machines decide on what is really there. Nothing that they decide
//! is sent, and their journals are written nowhere.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join;
use kube::Resource as _;
use kube::core::object::{HasSpec, HasStatus};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Parts;
use super::around::Around;
use super::ask::get;
use super::bulk_moves::{BulkMoves, BulkMovesController};
use super::failover::FailoverController;
use super::kind::{Input, Kind};
use super::replica_shift::ReplicaShiftController;
use super::rollout::{self, RolloutController};
use super::suspension::SuspensionController;
use cutover_cluster::off_the_runtime;
use cutover_core::api::{
    self, Evacuation, FailoverPlan, Intent, MovesPhase, MovesStatus, Progress, Rebalance, ReplicaShift,
    Rollout, RolloutPolicy, Suspension, SuspensionPhase, WorkloadRef,
};
use cutover_core::intent::rollout_policy;
use cutover_core::intent::selected::{Selected, labels};
use cutover_core::intent::{Needs, Seen, custody, failover, moves, shift, suspension};
use cutover_core::plan::Forecast;
use cutover_core::report::{
    self, DryRunOutcome, failover_forecast, moves_forecast, rollout_forecast, rollout_policy_forecast,
    shift_forecast, suspension_forecast,
};
use cutover_karmada::meta;
use cutover_karmada::name::{Gvk, ObjectKey};

/// More than it takes any machine to get to its first write, or to look at all that may have to move.
const PASSES: usize = 24;

/// Returns what would come of a new or changed intent; `None`: it is of no kind that is told of here. `later`: what has to be
/// there first.
#[expect(clippy::too_many_lines, reason = "one arm for each kind of intent")]
pub(in crate::reconcile) async fn dry_run(
    parts: &Parts,
    object: &Value,
    later: Option<String>,
) -> Option<Forecast> {
    let object = object.clone();
    match object["kind"].as_str()? {
        "Rollout" => Some(Box::pin(of_rollout(parts, serde_json::from_value(object).ok()?, later)).await),
        "RolloutPolicy" => {
            let selected = selected(parts, &object);
            let intent: RolloutPolicy = serde_json::from_value(object).ok()?;
            Some(rollout_policy_forecast(&intent.spec, selected.as_deref()))
        }
        "ReplicaShift" => {
            let intent: ReplicaShift = serde_json::from_value(object).ok()?;
            let events = Box::pin(dry_run_of::<ReplicaShiftController>(parts, intent, later)).await;
            Some(shift_forecast(&events.intent.spec, &events.status, &events.came))
        }
        "Evacuation" => {
            let events = Box::pin(dry_run_of::<BulkMovesController<Evacuation>>(
                parts,
                serde_json::from_value(object).ok()?,
                later,
            ));
            let events = events.await;
            Some(moves_forecast(&events.intent.spec, &events.status, &events.came))
        }
        "Rebalance" => {
            let events = Box::pin(dry_run_of::<BulkMovesController<Rebalance>>(
                parts,
                serde_json::from_value(object).ok()?,
                later,
            ));
            let events = events.await;
            Some(moves_forecast(&events.intent.spec, &events.status, &events.came))
        }
        "Suspension" => {
            let intent: Suspension = serde_json::from_value(object).ok()?;
            let events = Box::pin(dry_run_of::<SuspensionController>(parts, intent, later)).await;
            let unread = Seen::unknown(events.why_unread());
            let bindings = events
                .snapshot
                .as_ref()
                .map_or(&unread, |snapshot| &snapshot.bindings);
            Some(suspension_forecast(
                &events.intent.spec,
                &events.status,
                &events.came,
                bindings,
            ))
        }
        "FailoverPlan" => {
            let intent: FailoverPlan = serde_json::from_value(object).ok()?;
            let events = Box::pin(dry_run_of::<FailoverController>(parts, intent, later)).await;
            let unread = Seen::unknown(events.why_unread());
            let binding = events
                .snapshot
                .as_ref()
                .map_or(&unread, |snapshot| &snapshot.around.plane.binding);
            Some(failover_forecast(
                &events.intent.spec,
                &events.status,
                &events.came,
                binding,
            ))
        }
        _ => None,
    }
}

/// Returns what an intent asks for, when no control plane can be asked.
pub(in crate::reconcile) fn unasked(object: &Value) -> Option<Forecast> {
    fn read<I: DeserializeOwned>(object: &Value) -> Option<I> {
        serde_json::from_value(object.clone()).ok()
    }
    fn unread<T>() -> Seen<T> {
        Seen::unknown("no control plane was asked")
    }
    let came = DryRunOutcome::NotAsked;
    match object["kind"].as_str()? {
        "Rollout" => {
            let intent: Rollout = read(object)?;
            Some(rollout_forecast(
                &intent.spec,
                &api::RolloutStatus::default(),
                &came,
                &unread(),
            ))
        }
        "RolloutPolicy" => {
            let intent: RolloutPolicy = read(object)?;
            Some(rollout_policy_forecast(&intent.spec, None))
        }
        "ReplicaShift" => {
            let intent: ReplicaShift = read(object)?;
            Some(shift_forecast(
                &intent.spec,
                &api::ReplicaShiftStatus::default(),
                &came,
            ))
        }
        "Evacuation" => {
            let intent: Evacuation = read(object)?;
            Some(moves_forecast(&intent.spec, &MovesStatus::default(), &came))
        }
        "Rebalance" => {
            let intent: Rebalance = read(object)?;
            Some(moves_forecast(&intent.spec, &MovesStatus::default(), &came))
        }
        "Suspension" => {
            let intent: Suspension = read(object)?;
            let status = api::SuspensionStatus::default();
            Some(suspension_forecast(&intent.spec, &status, &came, &unread()))
        }
        "FailoverPlan" => {
            let intent: FailoverPlan = read(object)?;
            let status = api::FailoverPlanStatus::default();
            Some(failover_forecast(&intent.spec, &status, &came, &unread()))
        }
        _ => None,
    }
}

async fn of_rollout(parts: &Parts, intent: Rollout, later: Option<String>) -> Forecast {
    let events = Box::pin(dry_run_of::<RolloutController>(parts, intent, later)).await;
    let place = place(parts, &events.intent, &events.status).await;
    rollout_forecast(&events.intent.spec, &events.status, &events.came, &place)
}

/// What Git has of what a policy selects; nothing is known while Git has not been read.
fn selected(parts: &Parts, policy: &Value) -> Option<Vec<ObjectKey>> {
    let selected = Selected::of(policy);
    let mut all = Vec::new();
    for kind in selected.kinds() {
        let entries = parts.templates.of_kind(kind, selected.namespace()).ok()?;
        let taken = entries
            .into_iter()
            .filter(|entry| selected.takes(&entry.key, Some(&labels(entry.written())), None));
        all.extend(taken.map(|entry| entry.key.clone()));
    }
    Some(all)
}

/// Returns the Rollout by which a policy would take the change of a template along.
pub(in crate::reconcile) fn rollout_of_policy(policy: &Value, template: &Value) -> Option<Value> {
    let policy: RolloutPolicy = serde_json::from_value(policy.clone()).ok()?;
    let text = |field: &str| template[field].as_str().map(str::to_owned);
    let workload = WorkloadRef {
        api_version: text("apiVersion")?,
        kind: text("kind")?,
        name: template["metadata"]["name"].as_str()?.to_owned(),
    };
    let metadata = &policy.metadata;
    let of = (
        metadata.name.as_deref()?,
        metadata.namespace.as_deref()?,
        metadata.uid.as_deref().unwrap_or("not-there-yet"),
    );
    serde_json::to_value(rollout_policy::rollout(of, &policy.spec, &workload)).ok()
}

/// Where the workload of a rollout runs. At rest its machine doesn't ask.
async fn place(parts: &Parts, intent: &Rollout, status: &api::RolloutStatus) -> Seen<report::Where> {
    let workload = match rollout::workload(parts, intent, status).await {
        Ok(workload) => workload,
        Err(error) => return Seen::unknown(error.to_string()),
    };
    let gvk = intent.workload_in_force().gvk();
    let around = Around {
        parts,
        workload: &workload,
        gvk: &gvk,
    };
    let name = meta::binding_name(&workload.name, &workload.kind);
    let (binding, clusters) = join(around.binding(&name), around.clusters()).await;
    match (binding.get(), clusters.get()) {
        (Ok(Some(binding)), Ok(clusters)) => {
            let listed = custody::synced(binding);
            Seen::known((listed, BTreeMap::clone(clusters)), around.instant())
        }
        (Ok(None), _) => Seen::unknown("no policy has claimed it yet"),
        (Err(why), _) | (_, Err(why)) => Seen::unknown(why.0),
    }
}

/// What a machine waits for before it begins. A canary and the leases are of use only afterwards.
fn before_it_begins() -> Needs {
    Needs::all() - Needs::CANARY - Needs::LEASES
}

/// A kind whose beginning can be told before it begins.
trait Predictable: Kind {
    /// Returns whether an attempt has begun and not ended.
    fn is_under_way(status: &Self::Status) -> bool;

    /// Returns what could not be read, where the machine would have waited for it.
    fn unread(snapshot: &Self::Snapshot) -> Vec<String>;
}

fn why<T>(seen: &Seen<T>) -> Option<String> {
    seen.get().err().map(|unknown| unknown.0)
}

fn whys<const N: usize>(all: [Option<String>; N]) -> Vec<String> {
    all.into_iter().flatten().collect()
}

impl Predictable for RolloutController {
    fn is_under_way(status: &Self::Status) -> bool {
        status.journal.is_some()
    }

    fn unread(snapshot: &Self::Snapshot) -> Vec<String> {
        let gaps = snapshot.plane.gaps(before_it_begins());
        gaps.into_iter().chain(why(&snapshot.rehearsed)).collect()
    }
}

impl Predictable for ReplicaShiftController {
    fn is_under_way(status: &Self::Status) -> bool {
        status.journal_in_force().is_some()
    }

    fn unread(snapshot: &shift::Snapshot) -> Vec<String> {
        let members = snapshot.members.values().filter_map(why);
        let mut gaps = snapshot.plane.gaps(before_it_begins());
        gaps.extend(whys([
            why(&snapshot.policy),
            why(&snapshot.autoscalers),
            why(&snapshot.own_pods),
        ]));
        gaps.extend(members);
        gaps
    }
}

impl<I: BulkMoves> Predictable for BulkMovesController<I> {
    fn is_under_way(status: &Self::Status) -> bool {
        matches!(status.phase, MovesPhase::Moving | MovesPhase::Ending)
    }

    fn unread(snapshot: &moves::Snapshot) -> Vec<String> {
        whys([
            why(&snapshot.clusters),
            why(&snapshot.bindings),
            why(&snapshot.templates),
            why(&snapshot.profiles),
            why(&snapshot.claims),
        ])
    }
}

impl Predictable for SuspensionController {
    fn is_under_way(status: &Self::Status) -> bool {
        use SuspensionPhase::{Resuming, Suspended, Suspending};
        matches!(status.phase, Suspending | Suspended | Resuming)
    }

    fn unread(snapshot: &suspension::Snapshot) -> Vec<String> {
        whys([
            why(&snapshot.name),
            why(&snapshot.policy),
            why(&snapshot.bindings),
            why(&snapshot.claims),
            why(&snapshot.clusters),
            why(&snapshot.suspensions),
        ])
    }
}

impl Predictable for FailoverController {
    fn is_under_way(status: &Self::Status) -> bool {
        status.journal.is_some() && !status.phase.is_terminal()
    }

    fn unread(snapshot: &failover::Snapshot) -> Vec<String> {
        snapshot.around.plane.gaps(before_it_begins())
    }
}

/// How far an intent comes, and what was seen on the way.
struct DryRun<K: Kind> {
    intent: K::Intent,
    status: K::Status,
    came: DryRunOutcome,
    /// `None`: nothing was looked at.
    snapshot: Option<K::Snapshot>,
}

impl<K: Kind> DryRun<K> {
    fn why_unread(&self) -> String {
        match &self.came {
            DryRunOutcome::Unread(why) | DryRunOutcome::Later(why) => why.clone(),
            _ => "it was not looked at".to_owned(),
        }
    }
}

/// Lets an intent come as far as it does without doing anything.
async fn dry_run_of<K: Predictable>(
    parts: &Parts,
    mut intent: K::Intent,
    later: Option<String>,
) -> DryRun<K> {
    let meta = intent.meta().clone();
    let gvk = Gvk::new(api::API_VERSION, K::Intent::KIND);
    let name = meta.name.as_deref().unwrap_or_default();
    let live: Seen<Option<K::Intent>> = get(&parts.cluster, gvk, meta.namespace.as_deref(), name).await;
    let came = match live {
        Seen::Unknown { why } => Some(DryRunOutcome::Unread(why)),
        Seen::Known { value, .. } => {
            if let Some(live) = value {
                intent.meta_mut().uid.clone_from(&live.meta().uid);
                *intent.status_mut() = live.status().cloned();
            }
            let status = intent.status();
            let under_way = status
                .is_some_and(K::is_under_way)
                .then_some(DryRunOutcome::UnderWay);
            under_way.or_else(|| later.map(DryRunOutcome::Later))
        }
    };
    if let Some(came) = came {
        return DryRun {
            status: intent.status().cloned().unwrap_or_default(),
            intent,
            came,
            snapshot: None,
        };
    }
    let (came, snapshot) = dry_run_passes::<K>(parts, &mut intent).await;
    DryRun {
        status: intent.status().cloned().unwrap_or_default(),
        intent,
        came,
        snapshot: Some(snapshot),
    }
}

/// Takes what the machine writes into its journal as written, until it would write anything else. Leaves the intent as it
/// comes to be.
async fn dry_run_passes<K: Predictable>(
    parts: &Parts,
    intent: &mut K::Intent,
) -> (DryRunOutcome, K::Snapshot) {
    let mut kind = K::default();
    let mut pass = 0;
    loop {
        pass += 1;
        let status = intent.status().cloned().unwrap_or_default();
        let snapshot = Box::pin(kind.observe(parts, intent, &status, false)).await;
        let step = off_the_runtime(|| K::step(&input::<K>(parts, intent, &status, &snapshot)));
        let moved = step.status != status;
        let waits = step.status.waiting_for().map(|wait| wait.reason.clone());
        let over = step.status.has_ended();
        let goes_on = step.requeue_after == Some(Duration::ZERO) || (moved && waits.is_none());
        *intent.status_mut() = Some(step.status);
        if !step.effects.is_empty() && !over {
            return (begins(&K::unread(&snapshot)), snapshot);
        }
        if over || !goes_on || pass >= PASSES {
            return (stands::<K>(&snapshot, waits), snapshot);
        }
    }
}

/// Says that it begins: whether anything stands in its way is known only if all was read that could. What is left out in a
/// phase says so.
fn begins(unread: &[String]) -> DryRunOutcome {
    let mut unread = unread.iter();
    match unread.find(|why| !why.starts_with("not read")) {
        Some(why) => DryRunOutcome::Unread(why.clone()),
        None => DryRunOutcome::Begins,
    }
}

fn stands<K: Predictable>(snapshot: &K::Snapshot, waits: Option<String>) -> DryRunOutcome {
    let Some(reason) = waits else {
        return DryRunOutcome::Stands;
    };
    let blind = |why: &String| !why.is_empty() && reason.contains(why.as_str());
    if K::unread(snapshot).iter().any(blind) {
        DryRunOutcome::Unread(reason)
    } else {
        DryRunOutcome::Stands
    }
}

fn input<'a, K: Kind>(
    parts: &Parts,
    intent: &'a K::Intent,
    status: &'a K::Status,
    snapshot: &'a K::Snapshot,
) -> Input<'a, K> {
    let meta = intent.meta();
    Input::<K> {
        uid: meta.uid.as_deref().unwrap_or("not-there-yet"),
        namespace: meta.namespace.as_deref(),
        name: meta.name.as_deref().unwrap_or_default(),
        // No status has been made of this spec.
        generation: i64::MAX,
        revision: None,
        deleting: false,
        overtaken: None,
        has_finalizer: true,
        spec: intent.spec(),
        status,
        trouble: None,
        ahead: None,
        snapshot,
        now: (parts.clock)(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_to_stand_in_the_way_where_something_could_not_be_read() {
        assert_eq!(begins(&[]), DryRunOutcome::Begins);
        assert_eq!(
            begins(&["not read in this phase".to_owned()]),
            DryRunOutcome::Begins
        );
        let why = "cannot read /apis in cluster east: a timeout".to_owned();
        assert_eq!(begins(std::slice::from_ref(&why)), DryRunOutcome::Unread(why));
    }
}
