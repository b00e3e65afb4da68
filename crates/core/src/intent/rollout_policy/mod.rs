//! `RolloutPolicy`: gives every workload that it selects a Rollout of its own as soon as a change of the template waits, and
//! keeps that one as the policy says. How a change goes through the clusters is the Rollout's.
//!
//! Sync leaves the templates to it for as long as it is there: see [`super::hold_back`]. What is decided here is only who
//! takes a change along, never whether one may go out: so caches are enough to decide on, and every write names what it was
//! decided on.

mod notes;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use serde_json::json;

use turns::Candidate;

use super::effect::{Effect, Exactly, add};
use super::operation::{self, Kind, Next, Outcome};
use super::seen::NotKnown;
use super::{Step, child};
use crate::api::{
    self, Finding, PARENT_LABEL, Rollout, RolloutPolicy, RolloutPolicyPhase as Phase, RolloutPolicySpec,
    RolloutPolicyStatus, RolloutSpec, RolloutTurn, WorkloadRef,
};
use cutover_karmada::LabelSelector;
use cutover_karmada::name::ObjectKey;

/// How many rollouts are written in one pass.
const AT_ONCE: usize = 20;

/// A policy as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, RolloutPolicySpec, RolloutPolicyStatus, Snapshot>;

/// One pass's view, of caches.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The workloads in Git that it selects.
    pub selected: Result<BTreeMap<ObjectKey, Workload>, NotKnown>,
    /// Workloads of which nobody can tell whether Git has them.
    pub doubtful: BTreeSet<ObjectKey>,
    /// All rollouts of its namespace.
    pub rollouts: Result<Vec<Rollout>, NotKnown>,
}

/// A workload that is selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub named: WorkloadRef,
    /// A change of its template waits for somebody to take it along.
    pub waits: bool,
    /// An older policy that selects it, too.
    pub older: Option<String>,
}

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<RolloutPolicyStatus> {
    operation::step::<RolloutPolicy>(input)
}

/// Returns the Rollout that takes the changes of a workload along. It is always the same one: what is known of the workload,
/// and what can be gone back to, stands in its status.
pub fn rollout(
    (name, namespace, uid): (&str, &str, &str),
    spec: &RolloutPolicySpec,
    workload: &WorkloadRef,
) -> Rollout {
    let mut rollout = Rollout::new(&rollout_name(name, uid, workload), wanted(spec, workload, false));
    rollout.metadata.namespace = Some(namespace.to_owned());
    rollout
}

/// The version of the API is no part of what a workload is.
fn rollout_name(policy: &str, uid: &str, workload: &WorkloadRef) -> String {
    let purpose = json!([uid, workload.gvk().group, workload.kind, workload.name]);
    child::name(policy, &workload.name, &purpose)
}

fn wanted(spec: &RolloutPolicySpec, workload: &WorkloadRef, queued: bool) -> RolloutSpec {
    let mut said = spec.controls.iter();
    let said = said.find(|said| said.kind == workload.kind && said.name == workload.name);
    let mut controls = said.map(|said| said.controls.clone()).unwrap_or_default();
    controls.paused |= spec.paused;
    RolloutSpec {
        workload: workload.clone(),
        strategy: spec.strategy.clone(),
        controls,
        queued,
    }
}

type Operation<'a> = operation::Operation<'a, RolloutPolicy>;
type Interrupt = operation::Interrupt<RolloutPolicy>;

impl Kind for RolloutPolicy {
    type Spec = RolloutPolicySpec;
    type Status = RolloutPolicyStatus;
    type Snapshot = Snapshot;
    type Scratch = ();
    type Own = Infallible;

    fn pass(operation: &mut Operation<'_>) -> Outcome<Self> {
        let now = operation.input.now;
        operation.status.common.started_at.get_or_insert(now);
        operation.status.common.attempt = 1;
        let effects = if operation.input.deleting {
            operation.ending()?
        } else {
            operation.standing()?
        };
        // Watches report whatever it waits for.
        operation.requeue_after.take_if(|soon| *soon == Self::SOON);
        if effects.is_empty() {
            Ok(Next::Rest)
        } else {
            Err(Interrupt::Act(effects))
        }
    }

    fn interrupted(_operation: &mut Operation<'_>, own: Infallible) {
        match own {}
    }

    fn close(operation: &mut Operation<'_>) {
        operation.close();
    }
}

impl<'a> Operation<'a> {
    /// Every selected workload of which a change waits has its rollout, each as the policy says, and no other has one.
    fn standing(&mut self) -> Result<Vec<Effect>, NotKnown> {
        self.come_to(Phase::Standing);
        self.status.common.waiting_for = None;
        self.status.common.findings = bad_selectors(self.input.spec);
        let snapshot = self.input.snapshot;
        let selected = snapshot.selected.as_ref().map_err(NotKnown::clone)?;
        let all = snapshot.rollouts.as_ref().map_err(NotKnown::clone)?;
        let children = self.children(all);
        let named: Vec<_> = selected
            .iter()
            .map(|(key, workload)| {
                let name = rollout_name(self.input.name, self.input.uid, &workload.named);
                let in_charge = workload.older.clone().or_else(|| given_by_hand(all, key));
                (name, workload, in_charge)
            })
            .collect();
        let create = self.hand_out_turns(&named, &children);
        let mut effects = Vec::new();
        let mut rows = Vec::new();
        let mut kept = BTreeSet::new();
        for (name, workload, in_charge) in named {
            let child = children.get(name.as_str()).copied();
            effects.extend(match (&in_charge, child) {
                (None, None) if create.contains(&name) => Some(self.create(workload)),
                (None, Some(child)) => self.as_the_policy_says(child, workload),
                (Some(_), Some(child)) => delete(child),
                (_, None) => None,
            });
            rows.extend(match (&in_charge, child) {
                (None, None) if workload.waits => Some(notes::queued(&workload.named)),
                _ => notes::row(&workload.named, in_charge, child),
            });
            kept.insert(name);
        }
        let ours = |child: &Rollout| child.spec.workload.key(self.input.namespace);
        let strays = children.iter().filter(|(name, child)| {
            let is_kept = kept.contains(**name) || snapshot.doubtful.contains(&ours(child));
            !is_kept
        });
        for (_, child) in strays {
            effects.extend(delete(child));
            rows.extend(notes::row(&child.spec.workload, None, Some(child)));
        }
        self.count(selected.len(), rows);
        Ok(self.keeping_itself_first(effects))
    }

    /// Returns whose Rollouts are to be made.
    fn hand_out_turns(
        &mut self,
        named: &[(String, &Workload, Option<String>)],
        children: &BTreeMap<&str, &Rollout>,
    ) -> BTreeSet<String> {
        let ours = named.iter().filter(|(_, _, in_charge)| in_charge.is_none());
        let candidates: Vec<_> = ours
            .map(|(name, workload, _)| Candidate {
                name: name.clone(),
                child: children.get(name.as_str()).copied(),
                waits: workload.waits,
            })
            .collect();
        let most = self.input.spec.max_parallel;
        let handed_out = turns::hand_out(most, &self.status.turns, &candidates, children);
        self.status.turns = handed_out.turns;
        self.status.queued = u32::try_from(handed_out.queued).unwrap_or(u32::MAX);
        handed_out.create
    }

    fn has_its_turn(&self, name: &str) -> bool {
        self.status.turns.get(name) == Some(&RolloutTurn::Given)
    }

    /// What its rollouts have begun comes to its end first.
    fn ending(&mut self) -> Result<Vec<Effect>, Interrupt> {
        self.come_to(Phase::Ending);
        let all = self.input.snapshot.rollouts.as_ref().map_err(NotKnown::clone)?;
        let children = self.children(all);
        if children.is_empty() {
            self.status.common.waiting_for = None;
            self.status.turns.clear();
            self.status.queued = 0;
            self.count(0, Vec::new());
            let gone = self.input.has_finalizer.then_some(Effect::RemoveFinalizer);
            return Ok(gone.into_iter().collect());
        }
        let rows = children
            .values()
            .filter_map(|child| notes::row(&child.spec.workload, None, Some(child)));
        self.count(0, rows.collect());
        let many = children.len();
        let reason = match many {
            1 => "its rollout to end".to_owned(),
            _ => format!("its {many} rollouts to end"),
        };
        let effects: Vec<_> = children.values().filter_map(|child| delete(child)).collect();
        if effects.is_empty() {
            self.requeue_after = None;
            return Err(Interrupt::Wait(reason));
        }
        Ok(effects.into_iter().take(AT_ONCE).collect())
    }

    fn come_to(&mut self, phase: Phase) {
        if self.status.phase != phase {
            self.enter(phase, Vec::new());
            self.requeue_after = Some(RolloutPolicy::SOON);
        }
    }

    /// Nothing is created that could outlive it.
    fn keeping_itself_first(&mut self, mut effects: Vec<Effect>) -> Vec<Effect> {
        let creates = effects
            .iter()
            .any(|effect| matches!(effect, Effect::CreateIntent { .. }));
        if creates && !self.input.has_finalizer {
            return vec![Effect::AddFinalizer];
        }
        if effects.len() > AT_ONCE {
            effects.truncate(AT_ONCE);
            self.requeue_after = Some(Duration::ZERO);
        }
        effects
    }

    fn children(&self, all: &'a [Rollout]) -> BTreeMap<&'a str, &'a Rollout> {
        let is_ours = |rollout: &&Rollout| parent(rollout) == Some(self.input.uid);
        let named = |rollout: &'a Rollout| Some((rollout.metadata.name.as_deref()?, rollout));
        all.iter().filter(is_ours).filter_map(named).collect()
    }

    fn create(&self, workload: &Workload) -> Effect {
        let (spec, uid) = (wanted(self.input.spec, &workload.named, true), self.input.uid);
        let name = rollout_name(self.input.name, uid, &workload.named);
        let mut metadata = child::metadata(&name, "RolloutPolicy", self.input.name, uid);
        metadata["namespace"] = json!(self.input.namespace);
        // So that the first thing that it does is to wait for its turn, or to begin.
        metadata["finalizers"] = json!([api::INTENT_FINALIZER]);
        let manifest = json!({
            "apiVersion": api::API_VERSION, "kind": "Rollout", "metadata": metadata, "spec": spec,
        });
        Effect::CreateIntent {
            manifest: Box::new(manifest),
        }
    }

    fn as_the_policy_says(&self, child: &Rollout, workload: &Workload) -> Option<Effect> {
        let queued = !self.has_its_turn(child.metadata.name.as_deref()?);
        let spec = wanted(self.input.spec, &workload.named, queued);
        (child.spec != spec && !is_ending(child)).then(|| Effect::PatchIntent {
            why: "as the policy says",
            kind: "Rollout",
            intent: exactly(child, true),
            patch: vec![add("/spec", json!(spec))],
        })
    }
}

/// Returns the Rollout that people have given a workload.
fn given_by_hand(all: &[Rollout], workload: &ObjectKey) -> Option<String> {
    let is_its = |rollout: &&Rollout| {
        let about = rollout.spec.workload.key(workload.namespace.as_deref());
        parent(rollout).is_none() && !is_ending(rollout) && about == *workload
    };
    let given = all.iter().find(is_its)?;
    Some(format!("Rollout {}", given.metadata.name.as_deref()?))
}

fn parent(rollout: &Rollout) -> Option<&str> {
    let labels = rollout.metadata.labels.as_ref()?;
    labels.get(PARENT_LABEL).map(String::as_str)
}

const fn is_ending(rollout: &Rollout) -> bool {
    rollout.metadata.deletion_timestamp.is_some()
}

fn delete(child: &Rollout) -> Option<Effect> {
    (!is_ending(child)).then(|| Effect::DeleteIntent {
        kind: "Rollout",
        intent: exactly(child, false),
    })
}

/// `unchanged`: only if it still is as it was seen.
fn exactly(child: &Rollout, unchanged: bool) -> Exactly {
    let metadata = &child.metadata;
    Exactly {
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().filter(|_| unchanged),
    }
}

fn bad_selectors(spec: &RolloutPolicySpec) -> Vec<Finding> {
    let texts = spec.select.iter().filter_map(|select| {
        let text = select.label_selector.as_ref()?;
        let error = text.parse::<LabelSelector>().err()?;
        Some((&select.kind, error))
    });
    let finding = |(kind, error)| {
        let message = format!("spec.select: {error}: every {kind} counts as selected");
        Finding::new("BadSelector", message, "write it as kubectl -l takes it")
    };
    texts.map(finding).collect()
}

#[cfg(test)]
mod tests;
