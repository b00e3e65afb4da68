//! `status.yaml`: the overview for machines, and what changed since the last one.

use std::collections::HashMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::copies::{UnhealthyWorkload, WorkloadCopies};
use super::failover::FailoverSnapshot;
use super::many::ManySnapshot;
use super::recorded::{Recorded, change};
use super::rollout_policy::RolloutPolicySnapshot;
use super::{
    Account, LeftOverview, ObjectNote, Overview, Problem, SNAPSHOT_FILE, SyncOverview, WaitOverview, names,
    path, rollout, route, shift, since, status, suspension,
};
use crate::api::{
    FailoverPhase, HeldCopy, Migration, MigrationStatus, MovesPhase, Phase, ReplicaShift, Rollout,
    RolloutCluster, RolloutPhase, RolloutPolicyPhase, ShiftPhase, Suspension, SuspensionPhase, WaitCode,
    WaitingFor, WorkloadRef,
};
use crate::error::Error;
use cutover_base::escape;
use cutover_karmada::name::{Location, Revision};

/// Raised when a field changes its meaning or goes away; new fields don't raise it.
const VERSION: u32 = 1;

/// How everything stands, as `status.yaml` and `cutover status -o json` say it.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "Status")]
pub struct Snapshot {
    version: u32,
    /// The commit of the desired state that was looked at last.
    pub(super) revision: Option<Revision>,
    /// The branch that it is of, if that is one of the same repository.
    pub(super) branch: Option<String>,
    pub(super) syncs: Vec<SyncSnapshot>,
    pub(super) intents: Vec<IntentSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rollouts: Vec<RolloutSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rollout_policies: Vec<RolloutPolicySnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) suspensions: Vec<SuspensionSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) shifts: Vec<ShiftSnapshot>,
    /// Evacuations and rebalances.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) many: Vec<ManySnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) failover_plans: Vec<FailoverSnapshot>,
    /// What syncs applied and no sync looks after any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left_behind: Vec<LeftSnapshot>,
    /// Workloads with a copy that has not been healthy for a while.
    pub(super) unhealthy: Option<UnhealthySnapshot>,
    /// What the control plane had not told yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown: Vec<String>,
    /// What runs where, read from the control plane; not on the status branch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) workloads: Vec<WorkloadCopies>,
    /// Why it isn't known what runs where.
    pub(super) workloads_unknown: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftSnapshot {
    pub(super) why: String,
    /// How many objects; the first of them follow.
    pub(super) count: usize,
    pub(super) objects: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnhealthySnapshot {
    /// How many workloads; the first of them follow.
    pub(super) count: usize,
    pub(super) workloads: Vec<UnhealthyWorkload>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncSnapshot {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<Revision>,
    pub(super) in_sync: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) held_back: Vec<HeldSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) waiting: Vec<WaitSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) drifted: Vec<NoteSnapshot>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) kept: Vec<NoteSnapshot>,
    /// How many objects that are not in Git any more are still to be deleted, or to be gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) pruning: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) problems: Vec<ProblemSnapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoteSnapshot {
    pub(super) object: String,
    pub(super) note: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSnapshot {
    #[serde(rename = "for")]
    pub(super) what: String,
    pub(super) since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) overdue: bool,
    /// How many objects wait; the first of them follow.
    pub(super) count: usize,
    pub(super) objects: Vec<String>,
}

/// How many objects of a sort are named.
pub(super) const NAMED: usize = 20;

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) const fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldSnapshot {
    pub(super) object: String,
    pub(super) by: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemSnapshot {
    pub(super) message: String,
    #[serde(flatten)]
    pub(super) location: Option<Location>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IntentSnapshot {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) workload: WorkloadRef,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) phase: Phase,
    pub(super) attempt: u32,
    pub(super) since: Option<Timestamp>,
    pub(super) waiting_for: Option<WaitingFor>,
    pub(super) downtime_ms: Option<u64>,
    /// Where on the branch the whole record stands.
    pub(super) record: String,
    /// What became of the attempt so far; only on request, since the record has it.
    pub(super) report: Option<Account>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSnapshot {
    pub(super) namespace: String,
    pub(super) name: String,
    /// For instance `Deployment web: 3f2a91bc00 to 77d01e4c5a, 2/5 good`.
    pub(super) what: String,
    pub(super) phase: RolloutPhase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) waiting_for: Option<WaitingFor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) clusters: Vec<RolloutCluster>,
    /// Where on the branch the whole record stands.
    pub(super) record: String,
}

impl RolloutSnapshot {
    fn of(one: &Rollout) -> Self {
        let status = status(one);
        let (namespace, name) = names(one);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            what: rollout::what(one),
            phase: status.phase,
            waiting_for: status.common.waiting_for.clone(),
            clusters: status.clusters.clone(),
            record: path(one),
        }
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspensionSnapshot {
    pub(super) namespace: String,
    pub(super) name: String,
    /// For instance `dispatching of PropagationPolicy web to green`.
    pub(super) what: String,
    pub(super) reason: String,
    pub(super) by: Option<String>,
    pub(super) phase: SuspensionPhase,
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    pub(super) waiting_for: Option<WaitingFor>,
    /// What waits to go out, and what was changed in members meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) held: Vec<HeldCopy>,
    /// Where on the branch the whole record stands.
    pub(super) record: String,
}

impl SuspensionSnapshot {
    fn of(one: &Suspension) -> Self {
        let status = status(one);
        let (namespace, name) = names(one);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            what: suspension::what(one),
            reason: one.spec.reason.clone(),
            by: status.by.clone(),
            phase: status.phase,
            since: status.since,
            until: one.spec.until,
            waiting_for: status.common.waiting_for.clone(),
            held: status.held.clone(),
            record: path(one),
        }
    }
}

#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShiftSnapshot {
    pub(super) namespace: String,
    pub(super) name: String,
    /// For instance `replicas of Deployment web from blue to green`.
    pub(super) what: String,
    pub(super) phase: ShiftPhase,
    /// How many have gone, of how many.
    pub(super) moved: Option<String>,
    pub(super) floor: Option<u32>,
    /// The fewest replicas that were seen ready.
    pub(super) lowest: Option<u32>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) waiting_for: Option<WaitingFor>,
    /// Where on the branch the whole record stands.
    pub(super) record: String,
}

impl ShiftSnapshot {
    fn of(one: &ReplicaShift) -> Self {
        let status = status(one);
        let (namespace, name) = names(one);
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            what: shift::what(one),
            phase: status.phase,
            moved: status.moved.clone(),
            floor: status.floor,
            lowest: status.lowest,
            started_at: status.common.started_at,
            finished_at: status.common.finished_at,
            waiting_for: status.common.waiting_for.clone(),
            record: path(one),
        }
    }
}

/// What [`Recorded`] asks of a snapshot: its place, and which attempt it is of.
macro_rules! recorded {
    ($($snapshot:ty, $phase:ty, $place:expr, $attempt:expr;)*) => {$(
        impl Recorded for $snapshot {
            type Phase = $phase;

            fn record(&self) -> &str {
                &self.record
            }

            fn place(&self) -> String {
                $place(self)
            }

            fn stage(&self) -> ($phase, u32) {
                (self.phase, $attempt(self))
            }
        }
    )*};
}

recorded! {
    IntentSnapshot, Phase, |one: &Self| format!("{}/{}", one.namespace, one.name), |one: &Self| one.attempt;
    RolloutSnapshot, RolloutPhase, |one: &Self| format!("{}/{}", one.namespace, one.name), |_| 0;
    SuspensionSnapshot, SuspensionPhase, |one: &Self| format!("{}/{}", one.namespace, one.name), |_| 0;
    ShiftSnapshot, ShiftPhase, |one: &Self| format!("{}/{}", one.namespace, one.name), |_| 0;
    ManySnapshot, MovesPhase, |one: &Self| one.name.clone(), |one: &Self| one.attempt;
    RolloutPolicySnapshot, RolloutPolicyPhase, |one: &Self| format!("{}/{}", one.namespace, one.name), |_| 0;
    FailoverSnapshot, FailoverPhase, |one: &Self| format!("{}/{}", one.namespace, one.name), |one: &Self| one.attempt;
}

/// Returns the snapshots of all intents of a kind, in the order of their records.
fn sorted<T, R: Recorded>(all: &[T], of: fn(&T) -> R) -> Vec<R> {
    let mut all: Vec<R> = all.iter().map(of).collect();
    all.sort_by(|one, other| one.record().cmp(other.record()));
    all
}

impl Snapshot {
    pub(super) fn of(overview: &Overview) -> Self {
        Self {
            version: VERSION,
            revision: overview.revision.clone(),
            branch: overview.branch.clone(),
            syncs: overview.syncs.iter().map(SyncSnapshot::of).collect(),
            intents: sorted(&overview.migrations, IntentSnapshot::of),
            rollouts: sorted(&overview.rollouts, RolloutSnapshot::of),
            rollout_policies: sorted(&overview.rollout_policies, RolloutPolicySnapshot::of),
            suspensions: sorted(&overview.suspensions, SuspensionSnapshot::of),
            shifts: sorted(&overview.shifts, ShiftSnapshot::of),
            many: sorted(&overview.many, ManySnapshot::of),
            failover_plans: sorted(&overview.failover_plans, FailoverSnapshot::of),
            left_behind: overview.left_behind.iter().map(LeftSnapshot::of).collect(),
            unhealthy: UnhealthySnapshot::of(&overview.unhealthy),
            unknown: overview.unknown(),
            workloads: Vec::new(),
            workloads_unknown: None,
        }
    }

    /// Reads what [`super::SNAPSHOT_FILE`] holds.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let read: Self = serde_yaml::from_slice(bytes).map_err(|error| {
            Error::user(format!(
                "{SNAPSHOT_FILE} on the status branch cannot be read: {error}"
            ))
            .hint("is it of another release, or was it edited?")
        })?;
        if read.version > VERSION {
            return Err(Error::user(format!(
                "{SNAPSHOT_FILE} on the status branch is of a newer release: version {}",
                read.version
            ))
            .hint("use the release that the reconciler is of"));
        }
        Ok(read)
    }

    /// Adds what became of each attempt.
    pub(super) fn with_accounts(mut self, migrations: &[Migration]) -> Self {
        let by_record: HashMap<String, &Migration> = migrations.iter().map(|one| (path(one), one)).collect();
        for intent in &mut self.intents {
            let of = by_record.get(&intent.record);
            intent.report = of.map(|migration| Account::of(migration));
        }
        self
    }
}

impl LeftSnapshot {
    fn of(left: &LeftOverview) -> Self {
        Self {
            why: left.why.clone(),
            count: left.objects.len(),
            objects: left.objects.iter().take(NAMED).map(ToString::to_string).collect(),
        }
    }
}

impl UnhealthySnapshot {
    fn of(all: &[UnhealthyWorkload]) -> Option<Self> {
        (!all.is_empty()).then(|| Self {
            count: all.len(),
            workloads: all.iter().take(NAMED).cloned().collect(),
        })
    }
}

impl SyncSnapshot {
    fn of(sync: &SyncOverview) -> Self {
        Self {
            name: sync.name.clone(),
            revision: sync.revision.clone(),
            in_sync: sync.in_sync,
            held_back: sync
                .held_back
                .iter()
                .map(|held| HeldSnapshot {
                    object: held.object.to_string(),
                    by: held.by.clone(),
                })
                .collect(),
            waiting: sync.waiting.iter().map(WaitSnapshot::of).collect(),
            drifted: sync.drifted.iter().map(NoteSnapshot::of).collect(),
            kept: sync.kept.iter().map(NoteSnapshot::of).collect(),
            pruning: sync.pruning,
            problems: sync.problems.iter().map(ProblemSnapshot::of).collect(),
        }
    }
}

impl WaitSnapshot {
    fn of(wait: &WaitOverview) -> Self {
        Self {
            what: wait.what.clone(),
            since: wait.since,
            until: wait.until,
            overdue: wait.overdue,
            count: wait.objects.len(),
            objects: wait.objects.iter().take(NAMED).map(ToString::to_string).collect(),
        }
    }
}

impl WaitSnapshot {
    /// Returns the wait as a sentence without its end.
    pub(super) fn sentence(&self) -> String {
        super::sentence(self.objects.first(), self.count, self.since, &self.what)
    }
}

impl NoteSnapshot {
    fn of(note: &ObjectNote) -> Self {
        Self {
            object: note.object.to_string(),
            note: note.note.clone(),
        }
    }
}

impl ProblemSnapshot {
    fn of(problem: &Problem) -> Self {
        Self {
            message: problem.message.clone(),
            location: problem.location.clone(),
            hint: problem.hint.clone(),
        }
    }
}

impl IntentSnapshot {
    fn of(migration: &Migration) -> Self {
        let status = status(migration);
        let (namespace, name) = names(migration);
        let (from, to) = route(migration);
        Self {
            kind: "Migration".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            workload: migration.spec.workload.clone(),
            from: from.to_owned(),
            to: to.to_owned(),
            phase: status.phase,
            attempt: status.common.attempt,
            since: since(&status),
            waiting_for: status.common.waiting_for.clone(),
            downtime_ms: status.downtime_ms,
            record: path(migration),
            report: None,
        }
    }
}

/// What a commit on the status branch says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitText {
    pub subject: String,
    pub body: String,
    pub trailers: Vec<(TrailerKey, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailerKey {
    Revision,
    Intent,
    Phase,
}

/// How soon people are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// With what comes next: things move.
    Moves,
    /// At once: something has ended or failed, or somebody is asked for an approval.
    Ended,
}

/// Returns how soon people have to be told of what has happened between two overviews.
pub fn urgency(before: &Overview, after: &Overview) -> Urgency {
    let (was, is) = (Snapshot::of(before), Snapshot::of(after));
    let problems = |snapshot: &Snapshot| -> Vec<_> {
        let of = |sync: &SyncSnapshot| (sync.name.clone(), sync.problems.clone());
        snapshot.syncs.iter().map(of).collect()
    };
    let asks = |intent: &IntentSnapshot| {
        let waiting = intent.waiting_for.as_ref();
        waiting.is_some_and(|waiting| waiting.code == WaitCode::Approval)
    };
    let turned = is.intents.iter().any(|intent| {
        let ended = intent.phase.is_terminal() || intent.phase == Phase::RollingBack;
        let known = was.intents.iter().find(|known| known.record == intent.record);
        ended && change(&was.intents, intent).is_some() || asks(intent) && !known.is_some_and(asks)
    });
    let findings = |overview: &Overview| -> Vec<_> {
        let of = |migration: &Migration| status(migration).common.findings.clone();
        overview.migrations.iter().map(of).collect()
    };
    // What is frozen, and what is about to go out, nobody should learn late.
    let froze = is.suspensions.iter().any(|one| {
        let tells = !matches!(one.phase, SuspensionPhase::Pending | SuspensionPhase::Suspending);
        tells && change(&was.suspensions, one).is_some()
    });
    let stopped = is.rollouts.iter().any(|one| {
        let tells = one.phase.is_at_rest() || one.phase == RolloutPhase::Halted;
        tells && change(&was.rollouts, one).is_some()
    });
    let shifted = is.shifts.iter().any(|one| {
        let tells =
            one.phase.is_terminal() || matches!(one.phase, ShiftPhase::RollingBack | ShiftPhase::Shifted);
        let known = was.shifts.iter().find(|known| known.record == one.record);
        let asks =
            |one: &ShiftSnapshot| one.waiting_for.as_ref().map(|wait| wait.code) == Some(WaitCode::Approval);
        tells && change(&was.shifts, one).is_some() || asks(one) && !known.is_some_and(asks)
    });
    let emptied = is.many.iter().any(|one| one.is_urgent(&was.many));
    let failed_over = is
        .failover_plans
        .iter()
        .any(|plan| plan.is_urgent(&was.failover_plans));
    let told = turned || froze || stopped || shifted || emptied || failed_over;
    if told || problems(&was) != problems(&is) || findings(before) != findings(after) {
        Urgency::Ended
    } else {
        Urgency::Moves
    }
}

/// Returns the message of the commit that takes the status branch from `before`, its [`super::SNAPSHOT_FILE`], to
/// `overview`. A snapshot that can't be read counts as none.
pub fn commit_text(before: Option<&[u8]>, overview: &Overview) -> CommitText {
    let before: Option<Snapshot> = before.and_then(|bytes| serde_yaml::from_slice(bytes).ok());
    let after = Snapshot::of(overview);
    let others = news(before.as_ref(), &after);
    let migrations = after.intents.iter();
    let moved: Vec<String> = migrations
        .filter_map(|intent| change(known(before.as_ref(), |before| &before.intents), intent))
        .chain(others.iter().map(|news| news.line.clone()))
        // A line break would begin a trailer, or what looks like another change.
        .map(|line| escape::prose(&line))
        .collect();
    let subject = match moved.as_slice() {
        [] => sync_subject(before.as_ref(), &after),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
    };
    let body = match moved.as_slice() {
        [] | [_] => String::new(),
        lines => format!("- {}\n", lines.join("\n- ")),
    };
    let mut trailers = Vec::new();
    if let Some(revision) = &after.revision {
        trailers.push((TrailerKey::Revision, revision.to_string()));
    }
    for news in others {
        trailers.push((TrailerKey::Intent, news.intent));
        trailers.push((TrailerKey::Phase, news.phase));
    }
    for migration in &overview.migrations {
        let intent = IntentSnapshot::of(migration);
        if change(known(before.as_ref(), |before| &before.intents), &intent).is_none() {
            continue;
        }
        trailers.push((TrailerKey::Intent, intent.place()));
        // One commit tells of several phases when these are short: each can be found.
        let phases = passed(before.as_ref(), &intent, &status(migration));
        trailers.extend(phases.into_iter().map(|phase| (TrailerKey::Phase, phase)));
    }
    CommitText {
        subject,
        body,
        trailers,
    }
}

/// That an intent is in another phase than before.
struct News {
    line: String,
    intent: String,
    phase: String,
}

/// Returns what is news of intents that are no Migrations.
fn news(before: Option<&Snapshot>, after: &Snapshot) -> Vec<News> {
    let mut all = Vec::new();
    add(
        &mut all,
        known(before, |before| &before.rollouts),
        &after.rollouts,
    );
    add(
        &mut all,
        known(before, |before| &before.suspensions),
        &after.suspensions,
    );
    add(&mut all, known(before, |before| &before.shifts), &after.shifts);
    add(&mut all, known(before, |before| &before.many), &after.many);
    let plans = known(before, |before| &before.failover_plans);
    add(&mut all, plans, &after.failover_plans);
    all
}

fn known<R>(before: Option<&Snapshot>, of: fn(&Snapshot) -> &Vec<R>) -> &[R] {
    before.map_or(&[], |before| of(before))
}

fn add<R: Recorded>(all: &mut Vec<News>, before: &[R], after: &[R]) {
    all.extend(after.iter().filter_map(|one| {
        Some(News {
            line: change(before, one)?,
            intent: one.place(),
            phase: one.stage().0.to_string(),
        })
    }));
}

/// Returns the phases that an intent has been in since a snapshot, in order, the present one last.
fn passed(before: Option<&Snapshot>, now: &IntentSnapshot, status: &MigrationStatus) -> Vec<String> {
    let was = before.and_then(|snapshot| snapshot.intents.iter().find(|was| was.record == now.record));
    let since = was
        .filter(|was| was.attempt == now.attempt)
        .and_then(|was| was.since);
    let steps = status.common.steps.iter();
    let new = steps.filter(|step| since.is_none_or(|since| step.started_at > since));
    let mut phases: Vec<String> = new.map(|step| step.name.clone()).collect();
    let present = now.phase.to_string();
    if phases.last() != Some(&present) {
        phases.push(present);
    }
    phases
}

fn sync_subject(before: Option<&Snapshot>, after: &Snapshot) -> String {
    let problems: usize = after.syncs.iter().map(|sync| sync.problems.len()).sum();
    if problems > 0 {
        return format!("sync: {problems} problem{}", if problems == 1 { "" } else { "s" });
    }
    let objects: usize = after.syncs.iter().map(|sync| sync.in_sync).sum();
    match &after.revision {
        Some(revision) if before.is_none_or(|before| before.revision != after.revision) => {
            format!("sync: {objects} objects at {}", revision.short())
        }
        _ => "status: as observed".to_owned(),
    }
}
