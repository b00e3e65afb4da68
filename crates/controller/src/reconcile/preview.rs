//! What could be seen of the control plane before a change is merged: what its migrations would meet, and which workloads its
//! policies place. Only reads.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use serde_json::Value;

use super::plan::Plan;
use super::policy_change::policy_change;
use super::preflight::{Look, maker};
use super::{endings, forecasts};
use cutover_cluster::Cluster;
use cutover_core::api::{self, Migration};
use cutover_core::intent::rivals;
use cutover_core::plan::{Change, ChangeSet, Forecast};
use cutover_core::report::History;
use cutover_core::report::review::{Ending, Move, PolicyChange, Reach};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::ObjectKey;

/// What could be seen, and what couldn't.
#[derive(Debug, Default)]
pub struct Previews {
    pub moves: Vec<Move>,
    /// What would come of each intent, by the change under which that is told.
    pub forecasts: BTreeMap<ObjectKey, Forecast>,
    pub reaches: Vec<Reach>,
    /// What becomes of workloads whose templates leave Git.
    pub endings: Vec<Ending>,
    pub notes: Vec<String>,
}

impl Previews {
    /// Notes in a plan what could be seen.
    pub fn note_in(&self, changes: &mut ChangeSet) {
        let effects = self.endings.iter();
        let effects = effects.map(|ending| (ending.workload.clone(), ending.effect()));
        changes.note_effects(effects.collect());
        changes.dry_run(self.forecasts.clone());
    }

    /// Says of migrations how long earlier ones took.
    pub fn remember(&mut self, history: &History) {
        for one in &mut self.moves {
            one.earlier = history.of(&one.workload);
            let Some(forecast) = self.forecasts.get_mut(&one.intent) else {
                continue;
            };
            // What was remarked beside, such as that it takes turns, stays.
            for remark in one.forecast().remarks {
                if !forecast.remarks.contains(&remark) {
                    forecast.remarks.push(remark);
                }
            }
        }
    }
}

/// Looks at what the changes of a plan would meet.
pub fn previews<'a>(cluster: &'a Cluster, plan: &'a Plan, now: Timestamp) -> BoxFuture<'a, Previews> {
    Box::pin(async move {
        let changes = &plan.changes;
        let migrations = migrations(changes);
        let policies: Vec<PolicyChange> = changes.changes.iter().filter_map(policy_change).collect();
        let mut forecasts = Box::pin(forecasts::forecasts(cluster, plan, now)).await;
        let turns = turns(changes);
        let leaving: Vec<&Change> = changes
            .changes
            .iter()
            .filter(|change| endings::leaves_git(change))
            .collect();
        if migrations.is_empty() && policies.is_empty() && leaving.is_empty() {
            let notes = note_turns(&turns, &mut forecasts);
            return Previews {
                forecasts,
                notes,
                ..Previews::default()
            };
        }
        let look = Look::new(cluster).await;
        let moves = migrations
            .into_iter()
            .map(|(change, migration)| look.at(change, migration, changes, now));
        let moves = join_all(moves).await;
        forecasts.extend(moves.iter().map(|one| (one.intent.clone(), one.forecast())));
        let mut notes = note_turns(&turns, &mut forecasts);
        let endings = match endings::endings(&leaving, &look.profiles, &look.bindings) {
            Ok(endings) => endings,
            Err(why) => {
                notes.push(format!(
                    "Where the workloads run whose templates leave Git could not be read: {why}"
                ));
                Vec::new()
            }
        };
        let reaches = match (look.bindings.get(), look.clusters.get()) {
            (Ok(bindings), Ok(clusters)) => policies
                .iter()
                .map(|change| {
                    // Where what moves will be by then is the migration's to say.
                    let made = bindings.iter().filter(|binding| {
                        is_made_by(binding, &change.policy)
                            && (change.held_back.is_none() || !moves_by(&moves, binding))
                    });
                    Reach::of(change, &made.collect::<Vec<_>>(), clusters, &endings)
                })
                .collect(),
            (Err(why), _) | (_, Err(why)) => {
                if !policies.is_empty() {
                    notes.push(format!(
                        "Which workloads the policies place could not be read: {why}"
                    ));
                }
                Vec::new()
            }
        };
        Previews {
            moves,
            forecasts,
            reaches,
            endings,
            notes,
        }
    })
}

/// Says of intents what they ask for: no control plane is asked.
pub fn outlooks_offline(changes: &ChangeSet) -> Previews {
    let migrations = migrations(changes).into_iter();
    let moves: Vec<Move> = migrations
        .map(|(change, migration)| Move::new(&migration, change.source.clone()))
        .collect();
    let mut forecasts = forecasts::unasked(changes);
    forecasts.extend(moves.iter().map(|one| (one.intent.clone(), one.forecast())));
    let notes = note_turns(&turns(changes), &mut forecasts);
    Previews {
        moves,
        forecasts,
        notes,
        ..Previews::default()
    }
}

/// Returns the intents of a plan that want the same workload one after the other, each with the next.
fn turns(changes: &ChangeSet) -> Vec<(&ObjectKey, &ObjectKey)> {
    let mut by_workload: BTreeMap<[Option<&str>; 4], Vec<(&ObjectKey, &Value)>> = BTreeMap::new();
    let written = changes.changes.iter();
    for change in written.filter(|change| change.is_written() && change.key.group == api::GROUP) {
        let intent = change
            .after
            .as_ref()
            .filter(|intent| rivals::may_claim_ever(intent));
        let Some(intent) = intent else { continue };
        let of = |field: &str| intent["spec"]["workload"][field].as_str();
        let workload = [
            change.key.namespace.as_deref(),
            of("apiVersion"),
            of("kind"),
            of("name"),
        ];
        by_workload
            .entry(workload)
            .or_default()
            .push((&change.key, intent));
    }
    let mut all = Vec::new();
    for rivals in by_workload.values() {
        for pair in rivals.windows(2) {
            if let [(one, intent), (other, rival)] = pair
                && rivals::take_turns(intent, rival)
            {
                all.push((*one, *other));
            }
        }
    }
    all
}

/// Says of each that it may have to wait for the other; returns what is to be said beside, for a review tells of a Migration in
/// its own way.
fn note_turns(
    turns: &[(&ObjectKey, &ObjectKey)],
    forecasts: &mut BTreeMap<ObjectKey, Forecast>,
) -> Vec<String> {
    const ORDER: &str = "the one that is created first goes first, then by name";
    for (one, other) in turns {
        for (own, rival) in [(one, other), (other, one)] {
            if let Some(forecast) = forecasts.get_mut(*own) {
                let remark = format!("takes turns with {rival}, which wants the same workload: {ORDER}");
                forecast.remarks.push(remark);
            }
        }
    }
    let note = |(one, other): &(&ObjectKey, &ObjectKey)| {
        format!("{one} and {other} want the same workload, and take turns: {ORDER}")
    };
    let is_told_beside = |(one, other): &&(&ObjectKey, &ObjectKey)| {
        [one, other].into_iter().any(|key| key.kind == "Migration")
    };
    turns.iter().filter(is_told_beside).map(note).collect()
}

fn migrations(changes: &ChangeSet) -> Vec<(&Change, Migration)> {
    let written = changes.changes.iter();
    written
        .filter(|change| change.is_written() && change.key.group == api::GROUP)
        .filter(|change| change.key.kind == "Migration")
        .filter_map(|change| Some((change, serde_json::from_value(change.after.clone()?).ok()?)))
        .collect()
}

/// Whether a policy placed what a binding is about, as Karmada notes it on the binding.
fn is_made_by(binding: &ResourceBinding, policy: &ObjectKey) -> bool {
    maker(binding).is_some_and(|(namespace, name)| policy.namespace == namespace && policy.name == name)
}

fn moves_by(moves: &[Move], binding: &ResourceBinding) -> bool {
    let resource = &binding.spec.resource;
    moves.iter().any(|one| {
        let workload = &one.workload;
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        (namespace, &workload.kind, &workload.name) == (&resource.namespace, &resource.kind, &resource.name)
    })
}
