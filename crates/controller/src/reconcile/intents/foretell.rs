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
use super::failing::Failing;
use super::kind::{self, Input, Kind};
use super::many::{Many, MovingMany};
use super::rolling::{self, Rolling};
use super::shifting::Shifting;
use super::suspending::Suspending;
use cutover_cluster::off_the_runtime;
use cutover_core::api::{
    self, Evacuation, FailoverPlan, MovesPhase, MovesStatus, Progress, Rebalance, ReplicaShift, Rollout,
    RolloutPolicy, Suspension, SuspensionPhase, WorkloadRef,
};
use cutover_core::intent::rollout_policy::{self, Selected, labels};
use cutover_core::intent::{Seen, custody, failover, moves, shift, suspension};
use cutover_core::plan::Forecast;
use cutover_core::report::{
    self, Came, failover_forecast, moves_forecast, rollout_forecast, rollout_policy_forecast, shift_forecast,
    suspension_forecast,
};
use cutover_karmada::meta;
use cutover_karmada::name::{Gvk, ObjectKey};

/// More than it takes any machine to get to its first write, or to look at all that may have to move.
const PASSES: usize = 24;

/// Returns what would come of a new or changed intent; `None`: it is of no kind that is told of here. `later`: what has to be
/// there first.
pub(in crate::reconcile) async fn foretell(
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
            let told = Box::pin(come::<Shifting>(parts, intent, later)).await;
            Some(shift_forecast(&told.intent.spec, &told.status, &told.came))
        }
        "Evacuation" => {
            let told = Box::pin(come::<MovingMany<Evacuation>>(
                parts,
                serde_json::from_value(object).ok()?,
                later,
            ));
            let told = told.await;
            Some(moves_forecast(&told.intent.spec, &told.status, &told.came))
        }
        "Rebalance" => {
            let told = Box::pin(come::<MovingMany<Rebalance>>(
                parts,
                serde_json::from_value(object).ok()?,
                later,
            ));
            let told = told.await;
            Some(moves_forecast(&told.intent.spec, &told.status, &told.came))
        }
        "Suspension" => {
            let intent: Suspension = serde_json::from_value(object).ok()?;
            let told = Box::pin(come::<Suspending>(parts, intent, later)).await;
            let unread = Seen::unknown(told.why_unread());
            let bindings = told.world.as_ref().map_or(&unread, |world| &world.bindings);
            Some(suspension_forecast(
                &told.intent.spec,
                &told.status,
                &told.came,
                bindings,
            ))
        }
        "FailoverPlan" => {
            let intent: FailoverPlan = serde_json::from_value(object).ok()?;
            let told = Box::pin(come::<Failing>(parts, intent, later)).await;
            let unread = Seen::unknown(told.why_unread());
            let binding = told.world.as_ref().map_or(&unread, |world| &world.around.binding);
            Some(failover_forecast(
                &told.intent.spec,
                &told.status,
                &told.came,
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
    let came = Came::NotAsked;
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
    let told = Box::pin(come::<Rolling>(parts, intent, later)).await;
    let place = place(parts, &told.intent, &told.status).await;
    rollout_forecast(&told.intent.spec, &told.status, &told.came, &place)
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
    let workload = match rolling::workload(parts, intent, status).await {
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
        (Ok(None), _) => Seen::unknown("no policy has taken it up yet"),
        (Err(why), _) | (_, Err(why)) => Seen::unknown(why.0),
    }
}

/// A kind whose beginning can be told before it begins.
trait Foretold: Kind {
    /// Returns whether an attempt has begun and not ended.
    fn is_under_way(status: &Self::Status) -> bool;

    /// Returns what could not be read, where the machine would have waited for it.
    fn unread(world: &Self::World) -> Vec<String>;
}

fn why<T>(seen: &Seen<T>) -> Option<String> {
    seen.get().err().map(|unknown| unknown.0)
}

fn whys<const N: usize>(all: [Option<String>; N]) -> Vec<String> {
    all.into_iter().flatten().collect()
}

impl Foretold for Rolling {
    fn is_under_way(status: &Self::Status) -> bool {
        status.journal.is_some()
    }

    fn unread(world: &Self::World) -> Vec<String> {
        whys([
            why(&world.template),
            why(&world.rehearsed),
            why(&world.binding),
            why(&world.works),
            why(&world.claim),
            why(&world.overrides),
            why(&world.clusters),
            why(&world.profiles),
        ])
    }
}

impl Foretold for Shifting {
    fn is_under_way(status: &Self::Status) -> bool {
        status.journal_in_force().is_some()
    }

    fn unread(world: &shift::World) -> Vec<String> {
        let members = world.members.values().filter_map(why);
        let mut all = whys([
            why(&world.template),
            why(&world.binding),
            why(&world.works),
            why(&world.policy),
            why(&world.claim),
            why(&world.overrides),
            why(&world.clusters),
            why(&world.profiles),
            why(&world.autoscalers),
            why(&world.own_pods),
        ]);
        all.extend(members);
        all
    }
}

impl<I: Many> Foretold for MovingMany<I> {
    fn is_under_way(status: &Self::Status) -> bool {
        matches!(status.phase, MovesPhase::Moving | MovesPhase::Ending)
    }

    fn unread(world: &moves::World) -> Vec<String> {
        whys([
            why(&world.clusters),
            why(&world.bindings),
            why(&world.templates),
            why(&world.profiles),
            why(&world.claims),
        ])
    }
}

impl Foretold for Suspending {
    fn is_under_way(status: &Self::Status) -> bool {
        use SuspensionPhase::{Resuming, Suspended, Suspending};
        matches!(status.phase, Suspending | Suspended | Resuming)
    }

    fn unread(world: &suspension::World) -> Vec<String> {
        whys([
            why(&world.name),
            why(&world.policy),
            why(&world.bindings),
            why(&world.claims),
            why(&world.clusters),
            why(&world.suspensions),
        ])
    }
}

impl Foretold for Failing {
    fn is_under_way(status: &Self::Status) -> bool {
        status.journal.is_some() && !status.phase.is_terminal()
    }

    fn unread(world: &failover::World) -> Vec<String> {
        let around = &world.around;
        whys([
            why(&around.template),
            why(&around.binding),
            why(&around.works),
            why(&around.claim),
            why(&around.overrides),
            why(&around.clusters),
            why(&around.profiles),
        ])
    }
}

/// How far an intent comes, and what was seen on the way.
struct Told<K: Kind> {
    intent: K::Intent,
    status: K::Status,
    came: Came,
    /// `None`: nothing was looked at.
    world: Option<K::World>,
}

impl<K: Kind> Told<K> {
    fn why_unread(&self) -> String {
        match &self.came {
            Came::Unread(why) | Came::Later(why) => why.clone(),
            _ => "it was not looked at".to_owned(),
        }
    }
}

/// Lets an intent come as far as it does without doing anything.
async fn come<K: Foretold>(parts: &Parts, mut intent: K::Intent, later: Option<String>) -> Told<K> {
    let meta = intent.meta().clone();
    let gvk = Gvk::new(api::API_VERSION, &kind::name::<K>());
    let name = meta.name.as_deref().unwrap_or_default();
    let live: Seen<Option<K::Intent>> = get(&parts.cluster, gvk, meta.namespace.as_deref(), name).await;
    let came = match live {
        Seen::Unknown { why } => Some(Came::Unread(why)),
        Seen::Known { value, .. } => {
            if let Some(live) = value {
                intent.meta_mut().uid.clone_from(&live.meta().uid);
                *intent.status_mut() = live.status().cloned();
            }
            let status = intent.status();
            let under_way = status.is_some_and(K::is_under_way).then_some(Came::UnderWay);
            under_way.or_else(|| later.map(Came::Later))
        }
    };
    if let Some(came) = came {
        return Told {
            status: intent.status().cloned().unwrap_or_default(),
            intent,
            came,
            world: None,
        };
    }
    let (came, world) = rehearse::<K>(parts, &mut intent).await;
    Told {
        status: intent.status().cloned().unwrap_or_default(),
        intent,
        came,
        world: Some(world),
    }
}

/// Takes what the machine writes into its journal as written, until it would write anything else. Leaves the intent as it
/// comes to be.
async fn rehearse<K: Foretold>(parts: &Parts, intent: &mut K::Intent) -> (Came, K::World) {
    let mut kind = K::default();
    let mut pass = 0;
    loop {
        pass += 1;
        let status = intent.status().cloned().unwrap_or_default();
        let world = Box::pin(kind.observe(parts, intent, &status, false)).await;
        let step = off_the_runtime(|| K::step(&input::<K>(parts, intent, &status, &world)));
        let moved = step.status != status;
        let waits = step.status.waiting_for().map(|wait| wait.reason.clone());
        let over = step.status.has_ended();
        let goes_on = step.requeue_after == Some(Duration::ZERO) || (moved && waits.is_none());
        *intent.status_mut() = Some(step.status);
        if !step.effects.is_empty() && !over {
            return (begins(&K::unread(&world)), world);
        }
        if over || !goes_on || pass >= PASSES {
            return (stands::<K>(&world, waits), world);
        }
    }
}

/// Says that it begins: whether anything stands in its way is known only if all was read that could. What is left out in a
/// phase says so.
fn begins(unread: &[String]) -> Came {
    let mut unread = unread.iter();
    match unread.find(|why| !why.starts_with("not read")) {
        Some(why) => Came::Unread(why.clone()),
        None => Came::Begins,
    }
}

fn stands<K: Foretold>(world: &K::World, waits: Option<String>) -> Came {
    let Some(reason) = waits else {
        return Came::Stands;
    };
    let blind = |why: &String| !why.is_empty() && reason.contains(why.as_str());
    if K::unread(world).iter().any(blind) {
        Came::Unread(reason)
    } else {
        Came::Stands
    }
}

fn input<'a, K: Kind>(
    parts: &Parts,
    intent: &'a K::Intent,
    status: &'a K::Status,
    world: &'a K::World,
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
        has_finalizer: true,
        spec: intent.spec(),
        status,
        trouble: None,
        ahead: None,
        world,
        now: (parts.clock)(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_to_stand_in_the_way_where_something_could_not_be_read() {
        assert_eq!(begins(&[]), Came::Begins);
        assert_eq!(begins(&["not read in this phase".to_owned()]), Came::Begins);
        let why = "cannot read /apis in cluster east: a timeout".to_owned();
        assert_eq!(begins(std::slice::from_ref(&why)), Came::Unread(why));
    }
}
