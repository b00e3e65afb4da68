//! What intents that move many workloads have in common: a survey of what can move and what can't, before anything is
//! touched; then so many at a time, each by an intent of its own; then whatever was put up is taken down.
//!
//! What differs is an [`MoveStrategy`]: which clusters it is about, and which workloads are to leave them.

mod bound;
mod children;
mod cordon;
mod ending;
mod evict;
mod notes;
mod run;
mod start;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use bound::{AT_ONCE, LISTED};
pub use cordon::taint_key;
pub use evict::{Evicting, Ground};
pub use survey::{Candidate, Chosen, Judged, Survey, judge, name_of, place};

use super::Step;
use super::operation::{self, Kind, Next, Outcome, Wait};
use super::seen::{NotKnown, Seen};
use crate::api::{
    Claim, Finding, Migration, Move, MoveState, MovesEnding, MovesPhase as Phase, MovesSpec, MovesStatus,
    WorkloadProfile,
};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, ResourceBinding};

/// How often it is looked again while something is expected.
const SOON: Duration = Duration::from_millis(500);
/// How often it is looked whether it can begin, or go on.
const NOW_AND_THEN: Duration = Duration::from_secs(5);
/// How often one that stands is looked after.
const LATER: Duration = Duration::from_secs(10);
/// How many of a sort are named in a sentence.
const MOST: usize = 5;

/// An intent as it was read, and what one pass saw.
pub type Input<'a, A> = super::Input<'a, A, MovesStatus<A>, Snapshot>;

/// What an intent moves workloads for: its spec.
pub trait MoveStrategy: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The kind, as it is written in YAML.
    const KIND: &'static str;

    fn moves(&self) -> &MovesSpec;

    /// Returns the spec without its control fields, which never make a new attempt.
    #[must_use]
    fn bare(&self) -> Self;

    /// Returns what is wrong with the spec by itself.
    fn refused(&self) -> Vec<Finding>;

    /// Returns whether it goes on when there is nothing more to do.
    fn stands(&self) -> bool;

    /// Returns whether it only says what it would do.
    fn is_dry_run(&self) -> bool;

    /// Returns whether its clusters take nothing new meanwhile, and whether that lasts.
    fn cordons(&self) -> (bool, bool);

    /// Returns the clusters that it is about now.
    fn clusters(&self, snapshot: &Snapshot) -> Result<BTreeSet<ClusterName>, NotKnown>;

    /// Returns what is to be done, but for what is on its way or over already.
    fn survey(&self, snapshot: &Snapshot, chosen: &Chosen<'_>, begun: &[Move]) -> Result<Survey, NotKnown>;

    /// Returns whether nothing begins as long as something can't be moved.
    fn needs_all(&self) -> bool;

    /// Returns whether what is planned in Preflight is all that is done in a round.
    fn plans_once(&self) -> bool;

    /// Returns what has brought a new round about, if anything has.
    fn occasion(
        &self,
        snapshot: &Snapshot,
        status: &MovesStatus<Self>,
        now: Timestamp,
    ) -> Result<Option<String>, NotKnown>;
}

/// One pass's view: fresh reads, the children before what they change.
#[derive(Debug)]
pub struct Snapshot {
    pub now: Timestamp,
    pub clusters: Seen<BTreeMap<ClusterName, Cluster>>,
    /// Everything that a survey needs was asked for.
    pub looked: bool,
    /// Migrations of this intent's making, by namespace and name.
    pub migrations: Seen<BTreeMap<(String, String), Migration>>,
    /// `WorkloadRebalancer`s of this intent's making.
    pub rebalancers: Seen<BTreeMap<String, Value>>,
    /// Every binding; read only where it has to be decided what moves.
    pub bindings: Seen<Vec<ResourceBinding>>,
    /// Those of the workloads that may have to move.
    pub templates: Seen<BTreeMap<ObjectKey, Value>>,
    pub profiles: Seen<Vec<WorkloadProfile>>,
    /// By name.
    pub claims: Seen<BTreeMap<String, Claim>>,
    /// What Preflight of a Migration would come to, for those that were looked at.
    pub verdicts: BTreeMap<(ObjectKey, ClusterName), PreflightResult>,
    /// The bindings of what Karmada's scheduler is asked to schedule anew.
    pub rescheduled: BTreeMap<ObjectKey, Seen<Option<ResourceBinding>>>,
    /// What this intent itself takes out of a cluster.
    pub evictions: BTreeMap<ObjectKey, Evicting>,
    /// What the status branch says of this intent.
    pub record: Seen<Option<Value>>,
}

/// What Preflight of a Migration would come to, were it now.
#[derive(Clone, Debug, PartialEq)]
pub enum PreflightResult {
    Clear,
    Blocked(Vec<Finding>),
    /// It would wait, for this.
    Waits(String),
    Unknown(String),
}

/// Returns whether it has to be decided what moves, for which everything has to be read.
pub fn wants_survey<A: MoveStrategy>(spec: &A, status: &MovesStatus<A>) -> bool {
    let asked = spec.moves();
    let obeyed = status
        .journal
        .as_ref()
        .map_or(spec, |journal| &journal.spec)
        .moves();
    match status.phase {
        Phase::Preflight | Phase::Watching => true,
        Phase::Moving => under_way(status) < obeyed.max_parallel as usize && !asked.paused && !asked.abort,
        _ => false,
    }
}

/// Returns the moves of which it has to be known whether anything stands in their way. `again`: also those that were looked
/// at and can't be moved.
pub fn unchecked<A>(status: &MovesStatus<A>, again: bool) -> Vec<&Move> {
    let waits = |one: &&Move| {
        one.state == MoveState::Waiting
            && one.to.is_some()
            && (!one.checked || (again && (one.blocked.is_some() || one.note.is_some())))
    };
    match status.phase {
        Phase::Preflight | Phase::Moving => status.moves.iter().filter(waits).collect(),
        _ => Vec::new(),
    }
}

fn under_way<A>(status: &MovesStatus<A>) -> usize {
    status.moves.iter().filter(|one| one.state.is_under_way()).count()
}

/// Decides what one pass does.
pub fn step<A: MoveStrategy>(input: &Input<'_, A>) -> Step<MovesStatus<A>> {
    operation::step::<Moves<A>>(input)
}

/// An intent that moves many workloads, by what it moves them for.
pub(super) struct Moves<A>(PhantomData<A>);

type Operation<'a, A> = operation::Operation<'a, Moves<A>>;
type Interrupt<A> = operation::Interrupt<Moves<A>>;

impl<A: MoveStrategy> Kind for Moves<A> {
    type Spec = A;
    type Status = MovesStatus<A>;
    type Snapshot = Snapshot;
    type Scratch = ();
    type Own = Infallible;

    fn pass(operation: &mut Operation<'_, A>) -> Outcome<Self> {
        operation.check_abort()?;
        match operation.status.phase {
            Phase::Pending => operation.pending(),
            Phase::Preflight => operation.preflight(),
            Phase::Moving => operation.moving(),
            Phase::Watching => operation.watching(),
            Phase::Ending => operation.ending(),
            Phase::Completed | Phase::Failed | Phase::Aborted => Ok(()),
        }
        .map(|()| Next::Rest)
    }

    fn entered(operation: &mut Operation<'_, A>) {
        // One that stands would grow for ever.
        let steps = &mut operation.status.common.steps;
        let excess = steps.len().saturating_sub(STEPS);
        steps.drain(..excess);
    }

    fn interrupted(_operation: &mut Operation<'_, A>, own: Infallible) {
        match own {}
    }

    fn fail(operation: &mut Operation<'_, A>, findings: Vec<Finding>) {
        operation.end_failed(Phase::Failed, findings);
    }

    fn pace(operation: &Operation<'_, A>, wait: &Wait) -> Duration {
        match wait.until {
            Some(_) => LATER,
            None => operation.requeue_after.unwrap_or(SOON),
        }
    }

    /// A cordon is waited for: it would stay for ever.
    const SWEEPS_WHAT_IT_SEES: bool = false;

    /// What it still keeps off clusters goes with a new attempt, and with the intent.
    fn sweep(operation: &mut Operation<'_, A>) -> Result<(), Interrupt<A>> {
        let is_over = Self::begins_again(operation) || operation.input.deleting;
        if is_over && operation.has_cordons() {
            operation.look_again(SOON);
            operation.lift_cordons(|_| true)?;
        }
        Ok(())
    }

    fn begins_again(operation: &Operation<'_, A>) -> bool {
        let (spec, status) = (operation.input.spec, &operation.status);
        match &status.journal {
            Some(journal) => {
                let is_lifted = !spec.moves().abort && status.phase == Phase::Aborted;
                journal.spec.bare() != spec.bare() || is_lifted
            }
            None => operation.is_unseen(),
        }
    }

    /// The cordon lasts, where that is asked for, until a person takes the intent away.
    fn stays(operation: &Operation<'_, A>) -> bool {
        operation.has_cordons()
    }

    fn close(operation: &mut Operation<'_, A>) {
        operation.close();
    }
}

impl<A: MoveStrategy> Operation<'_, A> {
    /// Begins to end when it is asked for, or its time is over.
    fn check_abort(&mut self) -> Result<(), Interrupt<A>> {
        let spec = self.input.spec.moves();
        let (reason, ends_as) = if self.input.deleting {
            ("the intent was deleted".to_owned(), Phase::Aborted)
        } else if spec.abort {
            (self.input.why_aborted(), Phase::Aborted)
        } else if spec.deadline.is_some_and(|deadline| self.input.now >= deadline) {
            ("the deadline has passed".to_owned(), Phase::Failed)
        } else {
            return Ok(());
        };
        let Some(journal) = &mut self.status.journal else {
            self.end(ends_as, vec![format!("{reason}: nothing was touched")]);
            return Err(Interrupt::Requeue);
        };
        // One that ends by itself already can still be told to roll back what is on its way.
        if journal.ending.as_ref().is_some_and(|ending| ending.turns_back) {
            return Ok(());
        }
        journal.ending = Some(MovesEnding {
            reason: reason.clone(),
            ends_as,
            turns_back: true,
        });
        if self.status.phase != Phase::Ending {
            self.enter(Phase::Ending, vec![reason]);
        }
        Err(Interrupt::Requeue)
    }

    fn has_cordons(&self) -> bool {
        let journal = self.status.journal.as_ref();
        journal.is_some_and(|journal| !journal.cordoned.is_empty())
    }

    /// Ends by itself: what has begun comes to its end.
    fn begin_to_end(&mut self, reason: String, ends_as: Phase) -> Interrupt<A> {
        if let Some(journal) = &mut self.status.journal {
            journal.ending = Some(MovesEnding {
                reason: reason.clone(),
                ends_as,
                turns_back: false,
            });
        }
        self.enter(Phase::Ending, vec![reason]);
        Interrupt::Requeue
    }

    /// The spec of this attempt.
    fn spec(&self) -> &A {
        let journal = self.status.journal.as_ref();
        journal.map_or(self.input.spec, |journal| &journal.spec)
    }
}

/// How many steps are kept.
const STEPS: usize = 50;

/// Names the first of many.
fn listed(names: &[String]) -> String {
    match names.len().checked_sub(MOST + 1) {
        Some(more) => format!("{} and {} more", names[..MOST].join(", "), more + 1),
        None => names.join(", "),
    }
}
