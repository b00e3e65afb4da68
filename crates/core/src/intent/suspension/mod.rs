//! Suspension: keeps changes at the control plane, on purpose, until its time is over or a person ends it.
//!
//! It is carried by the policy, where Karmada keeps it: on a binding a dispatch suspension is gone at the next change of the
//! template, and that change goes out. Where the policy has other workloads as well, a pin keeps the one as it is. Scheduling
//! is suspended on the bindings, where it lasts.

mod about;
mod barrier;
mod checks;
mod contest;
mod ending;
mod held;
mod hold;
mod keep;
mod notes;
mod pin;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Write;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::Value;

pub use about::about;
pub use contest::Contest;
pub use hold::{binding_without_dead, policy_without_dead};
pub use keep::{is_holdable, without_pin};

use super::Step;
use super::control_plane::ControlPlane;
use super::custody;
use super::effect::Effect;
use super::holders::is_own;
use super::operation::{self, Kind, Next, Outcome};
use super::seen::{NotKnown, Seen};
use crate::api::{
    Claim, Contested, Finding, LeaseSeen, PolicyName, Suspension, SuspensionFence, SuspensionJournal,
    SuspensionPhase as Phase, SuspensionSpec, SuspensionStatus, WorkloadRef, claim_name,
};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{ObjectReference, PropagationPolicy, ResourceBinding, Work, meta};

/// How long a Work may be missing that Karmada is to make.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// How often it is looked whether it can begin.
const NOW_AND_THEN: Duration = Duration::from_secs(2);
/// How often while nothing is.
const LATER: Duration = Duration::from_secs(10);
/// How many of a sort are named in the status.
const MOST: usize = 20;
/// How many bindings are written in one pass.
const AT_ONCE: usize = 20;

/// A suspension as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, SuspensionSpec, SuspensionStatus, Snapshot>;

/// One pass's view: fresh reads. The policy is read before all else, so that whoever holds it is in what is read later.
#[derive(Debug)]
pub struct Snapshot {
    /// Which policy it is about, once that is known.
    pub name: Seen<Option<PolicyName>>,
    pub policy: Seen<Option<PropagationPolicy>>,
    /// Those that it is about: all of the policy, or that of the workload.
    pub bindings: Seen<Vec<ResourceBinding>>,
    /// By id of the binding and cluster.
    pub works: Seen<BTreeMap<(String, ClusterName), Work>>,
    pub claims: Seen<Vec<Claim>>,
    /// Those that are joined; read only before it begins, and for the barrier.
    pub clusters: Seen<BTreeSet<ClusterName>>,
    /// The uids of all suspensions that there are.
    pub suspensions: Seen<BTreeSet<String>>,
    /// What the members have; `None`: not looked at in this pass.
    pub copies: Option<Vec<Copy>>,
    pub contested: Vec<Contested>,
    /// The Works that were there at the last look at the members: their changes call for another one.
    pub watched: Vec<ObjectKey>,
    /// The author of the commit that last changed the intent.
    pub author: Option<String>,
    /// The uid of the intent that asks for this one: its claim on the workload stands in no way.
    pub parent: Option<String>,
    /// The binding of the canary that the journal names.
    pub canary: Seen<Option<ResourceBinding>>,
    /// By name of the controller.
    pub leases: Seen<BTreeMap<String, LeaseSeen>>,
    /// What decides on a pin, and what it has to be seen beside: template, pin, override policies, clusters. `None`: a pin is not
    /// called for.
    pub pin_context: Option<ControlPlane>,
}

/// One workload in one member.
#[derive(Clone, Debug)]
pub struct Copy {
    pub workload: ObjectKey,
    pub cluster: ClusterName,
    /// What its Work has for it.
    pub manifest: Value,
    pub object: Seen<Option<Value>>,
}

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<SuspensionStatus> {
    operation::step::<Suspension>(input)
}

/// Returns the workload of a binding.
pub fn workload(resource: &ObjectReference) -> ObjectKey {
    ObjectKey {
        group: Gvk::new(&resource.api_version, &resource.kind).group,
        kind: resource.kind.clone(),
        namespace: Some(resource.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: resource.name.clone(),
    }
}

/// Returns the id that a binding shares with its Works.
pub fn binding_id(binding: &ResourceBinding) -> Option<&str> {
    let labels = binding.metadata.labels.as_ref()?;
    let label = meta::binding_id_label(binding.metadata.namespace.is_none());
    labels.get(label).map(String::as_str)
}

/// Returns the clusters of a binding that a suspension is about.
pub fn covered(spec: &SuspensionSpec, binding: &ResourceBinding) -> Vec<ClusterName> {
    let synced = binding
        .spec
        .synced_clusters()
        .into_iter()
        .map(|cluster| cluster.name);
    synced
        .filter(|name| spec.clusters.is_empty() || spec.clusters.contains(name))
        .collect()
}

/// Returns whether a policy can carry the suspension of one workload: it can select no other, and what it says arrives.
pub fn carries(policy: &PropagationPolicy, workload: &WorkloadRef) -> bool {
    is_own(policy, workload) && policy.spec.activation_preference.as_deref() != Some("Lazy")
}

type Operation<'a> = operation::Operation<'a, Suspension>;
type Interrupt = operation::Interrupt<Suspension>;

impl Kind for Suspension {
    type Spec = SuspensionSpec;
    type Status = SuspensionStatus;
    type Snapshot = Snapshot;
    type Scratch = ();
    type Own = Infallible;

    fn pass(operation: &mut Operation<'_>) -> Outcome<Self> {
        operation.note_author();
        match operation.status.phase {
            Phase::Pending => operation.pending(),
            Phase::Suspending => operation.suspending(),
            Phase::Suspended => operation.suspended(),
            Phase::Resuming => operation.resuming(),
            Phase::Completed | Phase::Failed | Phase::Aborted => Ok(()),
        }
        .map(|()| Next::Rest)
    }

    fn interrupted(_operation: &mut Operation<'_>, own: Infallible) {
        match own {}
    }

    fn is_paused(operation: &Operation<'_>) -> bool {
        operation.input.spec.paused
    }

    fn fail(operation: &mut Operation<'_>, findings: Vec<Finding>) {
        operation.end_failed(Phase::Failed, findings);
    }

    fn begins_again(operation: &Operation<'_>) -> bool {
        operation.begins_again()
    }

    fn close(operation: &mut Operation<'_>) {
        let phase = operation.status.phase;
        operation.say(&[
            ("Suspended", phase == Phase::Suspended),
            ("Completed", phase == Phase::Completed),
            ("Progressing", !phase.is_terminal()),
        ]);
    }
}

impl Operation<'_> {
    /// Nothing is written until everything that could stand in the way has been looked at.
    fn pending(&mut self) -> Result<(), Interrupt> {
        if self.input.deleting {
            return Err(self.end_untouched(Phase::Aborted));
        }
        if let Some(ending) = self.ending() {
            self.end(
                ending.ends_as,
                vec![format!("{}: nothing was touched", ending.reason)],
            );
            return Err(Interrupt::Requeue);
        }
        // What it waits for wakes it, where that can be told.
        self.requeue_after = Some(NOW_AND_THEN);
        self.not_paused()?;
        let spec = self.input.spec;
        let Some(name) = self.snapshot().name.get()?.clone() else {
            return Err(Interrupt::Wait(
                "no policy has claimed the workload yet".to_owned(),
            ));
        };
        let Some(policy) = self.snapshot().policy.get()? else {
            return Err(Interrupt::Wait(format!("there is no {name} yet")));
        };
        let bindings = self.snapshot().bindings.get()?;
        let by_pin = self.is_by_pin(policy);
        let refused = self.refused(&name, policy, bindings, by_pin)?;
        if !refused.is_empty() {
            return Err(Interrupt::Fail(refused));
        }
        if let Some(claim) = self.claimed(by_pin)? {
            return Err(Interrupt::Wait(claim));
        }
        let pin = by_pin.then(|| pin::begin(bindings)).transpose()?;
        self.status.common.findings = self.remarks(&name, policy, bindings, by_pin);
        self.status.journal = Some(SuspensionJournal {
            spec: Box::new(spec.clone()),
            policy: name,
            pin,
            fence: SuspensionFence::default(),
            ending: None,
            planned: Vec::new(),
        });
        let now = self.input.now;
        let common = &mut self.status.common;
        common.attempt += 1;
        common.started_at.get_or_insert(now);
        common.revision = self.input.revision.map(str::to_owned);
        self.enter(Phase::Suspending, Vec::new());
        Err(Interrupt::Requeue)
    }

    /// The holder stands on the policy and on the bindings, and everything computed since says so.
    fn suspending(&mut self) -> Result<(), Interrupt> {
        self.turns_back()?;
        self.not_paused()?;
        if !self.input.has_finalizer {
            return Err(Interrupt::Act(vec![Effect::AddFinalizer]));
        }
        self.hold()?;
        self.is_in_force()?;
        let bindings = self.snapshot().bindings.get()?;
        let spec = &self.journal()?.spec;
        let mut evidence = if let Some(pin) = self.journal()?.pin.as_ref() {
            format!(
                "every Work of the workload carries sequence {} of the pin",
                pin.state.seq
            )
        } else if spec.scope.dispatching() {
            format!(
                "{} and every Work of its {} bindings carry the suspension, and Karmada has observed it",
                self.journal()?.policy,
                bindings.len()
            )
        } else {
            format!("scheduling is suspended on {} bindings", bindings.len())
        };
        if let Some(barrier) = &self.journal()?.fence.barrier
            && !barrier.canary.is_empty()
        {
            let _ = write!(evidence, ", and the scheduler is past {}", barrier.canary);
        }
        self.status.since = Some(self.input.now);
        self.enter(Phase::Suspended, vec![evidence]);
        Err(Interrupt::Requeue)
    }

    fn suspended(&mut self) -> Result<(), Interrupt> {
        self.turns_back()?;
        self.requeue_after = Some(self.until_next());
        self.note_contest();
        self.hold()?;
        self.note_workloads();
        self.status.common.waiting_for = None;
        Ok(())
    }

    /// What will go out is told before it goes. Then the holder comes off, and what it held back is seen going.
    fn resuming(&mut self) -> Result<(), Interrupt> {
        let now_listed = self
            .journal()?
            .ending
            .as_ref()
            .is_some_and(|ending| ending.listed);
        if self.input.spec.paused && !self.input.deleting && !self.input.spec.abort {
            self.not_paused()?;
        }
        if !now_listed {
            if self.snapshot().copies.is_none() && self.snapshot().policy.get().is_ok_and(Option::is_some) {
                return Err(Interrupt::Wait("what will go out is not known yet".to_owned()));
            }
            self.note_held();
            if let Some(ending) = self.journal_mut()?.ending.as_mut() {
                ending.listed = true;
            }
            return Err(Interrupt::Requeue);
        }
        self.release()?;
        let Some(ending) = self.journal()?.ending.clone() else {
            return Err(Interrupt::Requeue);
        };
        self.status.held.clear();
        self.status.contested.clear();
        self.status.workloads.clear();
        if ending.ends_as == Phase::Pending {
            self.status.journal = None;
            self.status.since = None;
            self.enter(
                Phase::Pending,
                vec![format!("{}: taken off for now", ending.reason)],
            );
        } else {
            self.end(
                ending.ends_as,
                vec![ending.reason, "nothing of it is left".to_owned()],
            );
        }
        Err(Interrupt::Requeue)
    }

    /// Says which intent claims one of the workloads, if any does. Another suspension does no harm, but for its pin.
    fn claimed(&self, by_pin: bool) -> Result<Option<String>, NotKnown> {
        let parent = self.snapshot().parent.as_ref();
        for binding in self.snapshot().bindings.get()? {
            if let Some(claim) = self.claim_of(binding)?
                && Some(&claim.spec.owner.uid) != parent
                && claim.spec.owner.uid != self.input.uid
                && !(by_pin && self.can_be_guest(claim))
                && (by_pin || claim.spec.owner.kind != "Suspension")
            {
                let workload = workload(&binding.spec.resource);
                let (owner, guests) = (&claim.spec.owner, custody::guests_of(claim));
                return Ok(Some(format!("{owner} has claimed {workload}{guests}")));
            }
        }
        Ok(None)
    }

    /// Under a guard a pin can keep changes from clusters. Who suspends scheduling as well would keep the guard's failover from
    /// ending.
    fn can_be_guest(&self, claim: &Claim) -> bool {
        let (spec, uid) = (&claim.spec, self.input.uid);
        let is_guest = spec.differences.contains_key(uid);
        !self.input.spec.scope.scheduling() && (is_guest || custody::may_enter(claim, uid).is_ok())
    }

    fn claim_of(&self, binding: &ResourceBinding) -> Result<Option<&Claim>, NotKnown> {
        let name = claim_name(&workload(&binding.spec.resource));
        let mut claims = self.snapshot().claims.get()?.iter();
        Ok(claims.find(|claim| claim.metadata.name.as_deref() == Some(&name)))
    }

    fn not_paused(&self) -> Result<(), Interrupt> {
        if self.input.spec.paused {
            return Err(Interrupt::Wait("paused by the spec".to_owned()));
        }
        Ok(())
    }

    /// Returns when there is something to look at, whatever is heard.
    fn until_next(&self) -> Duration {
        let now = self.input.now;
        let left = self.input.spec.until.map(|until| until.duration_since(now));
        let left = left.map(|left| Duration::try_from(left).unwrap_or_default());
        left.map_or(LATER, |left| left.clamp(Duration::from_millis(1), LATER))
    }

    fn own_name(&self) -> String {
        format!("{}/{}", self.input.namespace.unwrap_or_default(), self.input.name)
    }
}

fn names(bindings: &[ResourceBinding]) -> Vec<(&ObjectReference, ObjectKey)> {
    let mut all: Vec<_> = bindings
        .iter()
        .map(|binding| (&binding.spec.resource, workload(&binding.spec.resource)))
        .collect();
    all.sort_by(|one, other| one.1.cmp(&other.1));
    all
}

fn listed(names: &[String]) -> String {
    match names.len().checked_sub(MOST + 1) {
        Some(more) => format!("{} and {} more", names[..MOST].join(", "), more + 1),
        None => names.join(", "),
    }
}
