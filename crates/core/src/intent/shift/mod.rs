//! `ReplicaShift`: replicas go from one cluster to another in steps, more there before fewer here.
//!
//! A pin says for every cluster how many replicas it has, whatever the template and the scheduler say. It takes replicas
//! away only with a [`CapacityProof`]: what was counted afresh, everywhere, shows that enough are ready without them.

mod back;
mod end;
mod fence;
mod moves;
mod notes;
mod predict;
mod preflight;
mod rebind;
mod room;
mod token;
mod validate;
mod warned;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

pub use moves::goals;
pub use room::{CapacityProof, Side};
pub(crate) use validate::two_writers;
pub use validate::validate;
pub use warned::troubled;

use super::Step;
use super::admission;
use super::control_plane::{ControlPlane, Needs};
use super::operation::{self, Kind, Outcome, Wait};
use super::other_managers::OtherManager;
use super::replicas::Count;
use super::scalers::Scaler;
use super::seen::{NotKnown, Seen};
use super::warnings::Warned;
use crate::api::{
    Finding, Guard, OnFailure, ReplicaShift, ReplicaShiftSpec, ReplicaShiftStatus, ShiftBack,
    ShiftPhase as Phase, Suspension, WaitCode,
};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{PropagationPolicy, ResourceBinding};

/// How long a Work may be missing that Karmada is to make.
const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// How soon while nothing but time or a person is waited for.
const LATER: Duration = Duration::from_secs(2);
/// How soon while it rests.
const SELDOM: Duration = Duration::from_secs(30);

/// A shift as it was read, and what one pass saw.
pub type Input<'a> = super::Input<'a, ReplicaShiftSpec, ReplicaShiftStatus, Snapshot>;

/// One pass's view: fresh reads, the control plane before any member.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub workload: ObjectKey,
    pub plane: ControlPlane,
    /// Who applies it beside this tool; read before anything begins, where the template is to be changed.
    pub other_managers: Vec<OtherManager>,
    /// The replicas that Git wants the template to have; none when Git doesn't say.
    pub wanted_in_git: Seen<Option<u32>>,
    /// The policy that has taken the template up.
    pub policy: Seen<Option<PropagationPolicy>>,
    /// What scales the workload by itself, and where.
    pub autoscalers: Seen<Vec<Scaler>>,
    /// The copy in every cluster that is involved.
    pub members: BTreeMap<ClusterName, Seen<Option<Value>>>,
    /// The pods of the template, where it runs itself: whether each is ready; none of those that are being deleted.
    pub own_pods: Seen<Vec<bool>>,
    /// The Suspension that was asked for afterwards.
    pub suspension: Seen<Option<Suspension>>,
    /// What came of trying what the admission fence must refuse, in the passes in which it is tried.
    pub admission: Option<Vec<(Guard, admission::Outcome)>>,
    /// What the Events of the cluster that [`troubled`] names warn of, where they were read.
    pub warned: Option<Warned>,
}

impl Snapshot {
    /// Nothing was read.
    pub fn unread(workload: ObjectKey, why: &str) -> Self {
        Self {
            workload,
            plane: ControlPlane::unread(why),
            other_managers: Vec::new(),
            wanted_in_git: Seen::unread(why),
            policy: Seen::unread(why),
            autoscalers: Seen::unread(why),
            members: BTreeMap::new(),
            own_pods: Seen::unread(why),
            suspension: Seen::unread(why),
            admission: None,
            warned: None,
        }
    }
}

/// Returns what is read in the control plane. `late`: something was sent that may show after the end.
pub fn needs(status: &ReplicaShiftStatus, late: bool) -> Needs {
    match status.phase {
        phase if phase.is_terminal() && !late => Needs::empty(),
        Phase::Pending => Needs::CLAIM,
        _ => Needs::all(),
    }
}

/// Returns the clusters that may have a copy: all of them are looked at.
pub fn involved(
    spec: &ReplicaShiftSpec,
    status: &ReplicaShiftStatus,
    plane: &ControlPlane,
) -> BTreeSet<ClusterName> {
    let mut involved = BTreeSet::from([spec.to.clone()]);
    involved.extend(spec.from.cluster.clone());
    let journal = status.journal_in_force().into_iter();
    involved.extend(journal.flat_map(|journal| journal.wanted.keys().cloned()));
    if let Ok(Some(binding)) = plane.binding.get() {
        let listed = binding.spec.synced_clusters().into_iter();
        involved.extend(listed.map(|cluster| cluster.name));
    }
    involved.extend(plane.works.get().into_iter().flat_map(BTreeMap::keys).cloned());
    involved
}

/// Decides what one pass does.
pub fn step(input: &Input<'_>) -> Step<ReplicaShiftStatus> {
    operation::step::<ReplicaShift>(input)
}

type Operation<'a> = operation::Operation<'a, ReplicaShift>;
type Interrupt = operation::Interrupt<ReplicaShift>;
type Next = operation::Next<Phase>;

impl Kind for ReplicaShift {
    type Spec = ReplicaShiftSpec;
    type Status = ReplicaShiftStatus;
    type Snapshot = Snapshot;
    type Scratch = ();
    type Own = Infallible;

    fn pass(operation: &mut Operation<'_>) -> Outcome<Self> {
        if operation.input.deleting && operation.status.journal.is_none() {
            return Err(operation.end_untouched(Phase::Aborted));
        }
        operation.note_pause();
        operation.note_counts();
        operation.check_abort()?;
        operation.note_admission();
        operation.adopt_recreated_binding()?;
        if operation.is_paused() {
            return Err(operation.pause());
        }
        match operation.status.phase {
            Phase::Pending => operation.pending(),
            Phase::Preflight => operation.preflight(),
            Phase::Hold => operation.hold(),
            Phase::Shifting => operation.shifting(),
            Phase::Suspending => operation.suspending(),
            Phase::Shifted => operation.shifted(),
            Phase::RollingBack => operation.roll_back(),
            Phase::Completed | Phase::RolledBack | Phase::Failed | Phase::Aborted => Ok(Next::Requeue),
        }
    }

    fn interrupted(_operation: &mut Operation<'_>, own: Infallible) {
        match own {}
    }

    fn fail(operation: &mut Operation<'_>, findings: Vec<Finding>) {
        if operation.status.journal.is_none() {
            operation.end_failed(Phase::Failed, findings);
            return;
        }
        operation.wait_for_fix(findings);
    }

    fn is_paused(operation: &Operation<'_>) -> bool {
        operation.is_paused()
    }

    fn limit(operation: &Operation<'_>) -> Option<(Timestamp, &'static str)> {
        let ends = operation.ends_at()?;
        let journal = operation.status.journal.as_ref()?;
        let then = match journal.spec.on_failure {
            OnFailure::RollBack => "go back",
            OnFailure::Hold => "stay as it is, until a person asks for abort",
        };
        Some((ends, then))
    }

    /// The longer something takes, the longer it may go unnoticed.
    fn pace(operation: &Operation<'_>, wait: &Wait) -> Duration {
        if wait.until.is_some() {
            return SELDOM;
        }
        operation.patience(wait, LATER, SELDOM)
    }

    fn last_warning(operation: &Operation<'_>) -> Option<String> {
        let snapshot = operation.snapshot();
        let cluster = troubled(&operation.status, snapshot, operation.input.now)?;
        operation.newest_warning(&cluster, snapshot.warned.as_ref())
    }

    fn sweep(operation: &mut Operation<'_>) -> Result<(), Interrupt> {
        operation.sweep()
    }

    fn begins_again(operation: &Operation<'_>) -> bool {
        match &operation.status.journal {
            Some(journal) => !journal.spec.asks_the_same(operation.input.spec),
            None => operation.is_unseen(),
        }
    }

    fn close(operation: &mut Operation<'_>) {
        operation.close();
    }
}

/// Returns the name of the Suspension that a shift asks for afterwards.
pub fn suspension_name(shift: &str) -> String {
    format!("{shift}-suspends")
}

impl<'a> Operation<'a> {
    /// Goes back on request, at the deadline, or when a step has taken too long.
    fn check_abort(&mut self) -> Result<(), Interrupt> {
        if self.status.phase == Phase::RollingBack {
            return Ok(());
        }
        let now = self.input.now;
        let asked = if self.input.deleting {
            Some("the intent was deleted")
        } else if self.input.spec.abort {
            Some("abort was asked for")
        } else {
            None
        };
        if let Some(reason) = asked {
            return Err(self.begin_back(reason.to_owned(), Phase::Aborted));
        }
        // What has gone has gone in time.
        if matches!(self.status.phase, Phase::Suspending | Phase::Shifted) {
            return Ok(());
        }
        if self.input.spec.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(self.begin_back("the deadline has passed".to_owned(), Phase::RolledBack));
        }
        let late = self.ends_at().is_some_and(|ends| now >= ends);
        let Some(journal) = self.status.journal.as_ref().filter(|_| late) else {
            return Ok(());
        };
        if journal.spec.on_failure == OnFailure::Hold {
            return Ok(());
        }
        let waits = self.status.common.waiting_for.as_ref();
        let why = waits.map_or_else(String::new, |wait| format!(": {}", wait.reason));
        let (goal, amount) = (journal.goal, journal.amount);
        let reason = format!("the step to {goal} of {amount} took too long{why}");
        Err(self.begin_back(reason, Phase::RolledBack))
    }

    /// Returns when the present step has taken too long.
    fn ends_at(&self) -> Option<Timestamp> {
        let journal = self.status.journal.as_ref()?;
        let runs = matches!(self.status.phase, Phase::Hold | Phase::Shifting);
        let runs = runs && journal.rests_since.is_none() && !self.is_paused();
        let since = journal.step_since.filter(|_| runs)?;
        since.checked_add(journal.spec.timeout.length()).ok()
    }

    fn begin_back(&mut self, reason: String, ends_as: Phase) -> Interrupt {
        let now = self.input.now;
        let Some(journal) = self.status.journal.as_mut() else {
            self.end(ends_as, vec![reason]);
            return Interrupt::Requeue;
        };
        journal.back = Some(ShiftBack {
            reason: reason.clone(),
            ends_as,
        });
        journal.rests_since = None;
        journal.step_since = Some(now);
        // What was about to be let go of is held on to until it is as it was.
        journal.fence.lowered = false;
        journal.pin.unpinning = false;
        self.enter(Phase::RollingBack, vec![reason]);
        Interrupt::Requeue
    }

    /// What was sent late, by a replica that stood still while another one brought the intent to its end, goes again.
    fn sweep(&mut self) -> Result<(), Interrupt> {
        if self.has_pin()? {
            self.custody().unpin()?;
        }
        self.custody().give_up()?;
        if self.snapshot().plane.canary.get()?.is_some() {
            let delete = self.scheduler().delete_canary(&self.journal()?.fence);
            return Err(Interrupt::Act(vec![delete]));
        }
        Ok(())
    }

    fn is_paused(&self) -> bool {
        self.input.spec.paused && self.status.phase != Phase::RollingBack
    }

    /// Keeps up what stands, and does nothing else.
    fn pause(&mut self) -> Interrupt {
        let stands = self
            .status
            .journal
            .as_ref()
            .is_some_and(|journal| !journal.fence.lowered && !journal.pin.unpinning);
        let kept = match self.status.phase {
            Phase::Shifting | Phase::Suspending | Phase::Shifted if stands => self.stand(),
            _ => Ok(()),
        };
        match kept {
            Ok(()) | Err(Interrupt::Wait(_)) => Interrupt::wait_for(WaitCode::Pause, "paused by the spec"),
            Err(stop) => stop,
        }
    }

    fn workload(&self) -> &'a ObjectKey {
        &self.snapshot().workload
    }

    /// Returns the binding that the journal names: the same object, still there.
    fn binding(&self) -> Result<&'a ResourceBinding, Interrupt> {
        let journal = self.journal()?;
        match self.snapshot().plane.binding.get()? {
            Some(binding) if binding.metadata.uid.as_deref() == Some(&journal.binding.uid) => Ok(binding),
            Some(_) => Err(Interrupt::Wait(
                "the binding that Karmada has recreated to be taken over".to_owned(),
            )),
            None => Err(Interrupt::Wait(
                "the binding is gone: Karmada recreates it when the template is changed".to_owned(),
            )),
        }
    }

    fn template(&self) -> Result<&'a Value, Interrupt> {
        let template = self.snapshot().plane.template.get()?.as_ref();
        template.ok_or_else(|| {
            Interrupt::Wait("Karmada to delete the copies of the template, which was deleted".to_owned())
        })
    }

    /// Returns the side that replicas are taken from.
    fn from(&self) -> Result<Side, Interrupt> {
        Ok(Side::of(&self.journal()?.spec.from))
    }

    fn to(&self) -> Result<Side, Interrupt> {
        Ok(Side::Member(self.journal()?.spec.to.clone()))
    }

    /// Counts what every side has ready; of a side that can't be counted, why.
    fn counts(&self) -> BTreeMap<Side, Result<Count, NotKnown>> {
        let mut counts = BTreeMap::new();
        for (cluster, object) in &self.snapshot().members {
            let count = object.get().and_then(|object| Count::of_copy(object.as_ref()));
            counts.insert(Side::Member(cluster.clone()), count);
        }
        let runs_here = self
            .status
            .journal
            .as_ref()
            .map_or(self.input.spec.from.control_plane, |journal| {
                journal.template_wanted.is_some()
            });
        if runs_here {
            let template = self.snapshot().plane.template.get();
            let count = template
                .and_then(|template| Count::of_pods(template.as_ref(), self.snapshot().own_pods.get()?));
            counts.insert(Side::ControlPlane, count);
        }
        counts
    }

    /// Returns how many replicas a side is to have.
    fn wanted(&self, side: &Side) -> Result<u32, Interrupt> {
        let journal = self.journal()?;
        Ok(match side {
            Side::Member(cluster) => journal.wanted.get(cluster).copied().unwrap_or_default(),
            Side::ControlPlane => journal.template_wanted.unwrap_or_default(),
        })
    }

    /// Returns how many replicas a side had at the start.
    fn at_start(&self, side: &Side) -> Result<u32, Interrupt> {
        let journal = self.journal()?;
        Ok(match side {
            Side::Member(cluster) => journal.start.get(cluster).copied().unwrap_or_default(),
            Side::ControlPlane => journal.template_replicas,
        })
    }

    /// Plans another number of replicas for a side; the pin gets a new sequence.
    fn want(&mut self, side: &Side, replicas: u32) -> Result<(), Interrupt> {
        let now = self.input.now;
        let journal = self.journal_mut()?;
        match side {
            Side::Member(cluster) => {
                journal.wanted.insert(cluster.clone(), replicas);
                journal.pin.renew();
            }
            Side::ControlPlane => journal.template_wanted = Some(replicas),
        }
        journal.step_since.get_or_insert(now);
        Ok(())
    }
}
