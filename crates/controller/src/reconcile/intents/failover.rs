//! Failover plans, as the loop carries them out. What they see of a workload is what a migration of it would see.

mod needed;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::ask::list;
use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::migration::WARNED_AGAIN;
use super::{Parts, last_known, observe, scalers};
use cutover_core::api::{
    self, ClaimOwner, FailoverPhase, FailoverPlan, FailoverPlanSpec, FailoverPlanStatus, Journal, Migration,
    MigrationSpec, MigrationStatus, Phase, WaitCode,
};
use cutover_core::error::Error;
use cutover_core::intent::failover::{self, Borrower, Snapshot, wants_record};
use cutover_core::intent::{Effect, Seen, Step};
use cutover_core::report::{self, EventRecord};
use cutover_karmada::name::{ClusterName, ObjectKey};

/// Stands for every object of a kind and namespace: what may come can't be named yet.
const ANY: &str = "*";

/// How often the admission fence is tried anew that stands in for a canary.
const TRIED_AGAIN: Duration = Duration::from_mins(1);

/// How often it is looked anew what scales the workload, while nothing fails.
const SCALERS_AGAIN: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct FailoverController {
    /// When the admission fence was tried last.
    tested: Option<Instant>,
    scalers: scalers::Known,
    /// When the Events of a member were read last for what is waited for.
    warned: Option<Instant>,
    last_known: last_known::Known,
    needed: needed::Known,
}

impl Kind for FailoverController {
    type Intent = FailoverPlan;
    type Spec = FailoverPlanSpec;
    type Status = FailoverPlanStatus;
    type Snapshot = Snapshot;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &FailoverPlan,
        status: &FailoverPlanStatus,
        _sent: bool,
    ) -> Snapshot {
        let (as_migration, looks_as) = as_migration(intent, status);
        let known = self.scalers.within(if status.phase.in_flight() {
            scalers::AGAIN
        } else {
            SCALERS_AGAIN
        });
        let also = observe::Also {
            trial: needs_fence(status) && self.tested.is_none_or(|at| at.elapsed() >= TRIED_AGAIN),
            sent: false,
            scalers: known.clone(),
        };
        let around = Box::pin(observe::snapshot(parts, &as_migration, &looks_as, also));
        let last_known = &mut self.last_known;
        let beside = Box::pin(async {
            let journal = status.journal.as_ref();
            let wanted = failover::wants_beside(&intent.spec, status);
            let (journal, cluster) = journal.zip(wanted)?;
            let namespace = intent.metadata.namespace.as_deref();
            let namespace = namespace.filter(|_| !journal.binding.cluster_scoped);
            let workload = journal.spec.workload.key(namespace);
            let seen = last_known.look(parts, &journal.profile, &workload, cluster);
            Some((cluster.clone(), seen.await))
        });
        let (mut around, migrations, kept, beside) = futures::join!(
            around,
            borrowers(parts, intent, status),
            kept(parts, intent, status),
            beside
        );
        if around.admission.is_some() {
            self.tested = Some(Instant::now());
        }
        if known.is_none() {
            self.scalers.keep(&around.scalers);
        }
        if self.warned.is_none_or(|at| at.elapsed() >= WARNED_AGAIN)
            && let Some(cluster) = failover::troubled(status, &around, (parts.clock)())
        {
            around.warned = observe::warned(parts, cluster, &around).await;
            self.warned = Some(Instant::now());
        }
        let needed = Box::pin(self.needed.look(parts, status, &around)).await;
        Snapshot {
            around,
            migrations,
            kept,
            beside: beside.into_iter().collect(),
            needed,
        }
    }

    fn watched_keys(intent: &FailoverPlan, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
        let status = intent.status.clone().unwrap_or_default();
        if status.phase.is_terminal() {
            return BTreeSet::new();
        }
        let (as_migration, _) = as_migration(intent, &status);
        let mut keys = observe::wakes(&as_migration, &snapshot.around);
        let namespace = intent.metadata.namespace.clone();
        keys.insert(ObjectKey {
            group: api::GROUP.to_owned(),
            kind: "Migration".to_owned(),
            namespace,
            name: ANY.to_owned(),
        });
        keys
    }

    fn step(input: &Input<'_, Self>) -> Step<FailoverPlanStatus> {
        failover::step(input)
    }

    async fn send(parts: &Parts, intent: &FailoverPlan, effect: &Effect) -> Result<Sent, Error> {
        match effect {
            Effect::Keep(kept) => {
                parts.records.keep(kept).await?;
                Ok(Sent::Done)
            }
            plain => execute::send_plain(parts, intent, plain).await,
        }
    }

    fn events(before: &FailoverPlan, after: &FailoverPlanStatus) -> Vec<EventRecord> {
        report::failover_events(before, after)
    }
}

/// Without a canary it is the admission fence that keeps the scheduler away, under the claim of a failover.
fn needs_fence(status: &FailoverPlanStatus) -> bool {
    let journal = status.journal.as_ref();
    let barrier = journal.and_then(|journal| journal.fence.barrier.as_ref());
    let holds = matches!(status.phase, FailoverPhase::Fencing | FailoverPhase::Releasing);
    holds && barrier.is_none_or(|barrier| barrier.canary.is_empty())
}

/// Returns what those wait for who wait for any intent of that kind.
pub(super) fn any_like(changed: &ObjectKey) -> Option<ObjectKey> {
    let is_migration = changed.group == api::GROUP && changed.kind == "Migration";
    is_migration.then(|| ObjectKey {
        name: ANY.to_owned(),
        ..changed.clone()
    })
}

/// A plan as a migration would look at its workload: what it is about, and all clusters that have to do with it.
fn as_migration(plan: &FailoverPlan, status: &FailoverPlanStatus) -> (Migration, MigrationStatus) {
    let in_force = status
        .journal
        .as_ref()
        .map_or(&plan.spec, |journal| &journal.spec);
    let mut looks_as = MigrationStatus::default();
    let to = status.writer.clone().unwrap_or_else(|| ClusterName::new(""));
    let spec = MigrationSpec::of(in_force.workload.clone(), in_force.profile.clone(), to);
    if let Some(journal) = &status.journal {
        let flight = journal.flight.as_ref();
        let named = journal.writer.iter().chain(flight.map(|flight| &flight.from));
        let named: Vec<ClusterName> = named
            .chain(flight.and_then(|flight| flight.to.as_ref()))
            .chain(status.old_copies.keys())
            .cloned()
            .collect();
        let first = named.first().cloned().unwrap_or_else(|| ClusterName::new(""));
        let spec = MigrationSpec {
            to: first.clone(),
            ..spec.clone()
        };
        let profile = (*journal.profile).clone();
        let mut as_if = Journal::begin(&spec, profile, first, journal.binding.clone());
        as_if.writer.clone_from(&journal.writer);
        as_if.fence = journal.fence.clone();
        as_if.pods.clone_from(&journal.pods);
        as_if.nodes = journal.nodes.clone();
        as_if.identities = named.into_iter().map(|name| (name, String::new())).collect();
        looks_as.common.attempt = journal.round;
        looks_as.phase = Phase::Hold;
        looks_as.journal = Some(as_if);
    } else if status.phase == FailoverPhase::Pending && status.common.started_at.is_some() {
        looks_as.phase = Phase::Preflight;
    }
    if status.phase.is_terminal() {
        looks_as.phase = Phase::Completed;
    }
    let mut migration = Migration::new(plan.metadata.name.as_deref().unwrap_or_default(), spec);
    migration.metadata = plan.metadata.clone();
    migration.status = Some(looks_as.clone());
    (migration, looks_as)
}

async fn borrowers(parts: &Parts, plan: &FailoverPlan, status: &FailoverPlanStatus) -> Seen<Vec<Borrower>> {
    if !matches!(status.phase, FailoverPhase::Guarding | FailoverPhase::Lent) {
        return Seen::unknown("not read in this phase");
    }
    let namespace = plan.metadata.namespace.as_deref();
    let all: Seen<Vec<Migration>> =
        list(&parts.cluster, api::API_VERSION, "Migration", namespace, None).await;
    super::ask::map(&all, |all| {
        let mut all: Vec<&Migration> = all.iter().collect();
        // It is lent to whoever would be the next without the plan.
        all.sort_by_key(|migration| {
            let metadata = &migration.metadata;
            (metadata.creation_timestamp.clone(), metadata.name.clone())
        });
        all.into_iter().map(borrower).collect()
    })
}

fn borrower(migration: &Migration) -> Borrower {
    let status = migration.status.clone().unwrap_or_default();
    let metadata = &migration.metadata;
    let wait = status.common.waiting_for.as_ref();
    let asks = status.phase == Phase::Pending && wait.is_some_and(|wait| wait.code == WaitCode::Claim);
    let (captured, secrets) = status
        .journal
        .map(|journal| (journal.captured, journal.secrets))
        .unwrap_or_default();
    Borrower {
        owner: ClaimOwner {
            kind: "Migration".to_owned(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        },
        workload: migration.spec.workload.clone(),
        waits: asks
            && metadata.deletion_timestamp.is_none()
            && !migration.spec.paused
            && !migration.spec.abort,
        ended: status.phase.is_terminal(),
        captured,
        secrets,
    }
}

async fn kept(
    parts: &Parts,
    plan: &FailoverPlan,
    status: &FailoverPlanStatus,
) -> Seen<Option<FailoverPlanStatus>> {
    if !wants_record(status) {
        return Seen::unknown("not read in this phase");
    }
    let key = ObjectKey {
        group: api::GROUP.to_owned(),
        kind: "FailoverPlan".to_owned(),
        namespace: plan.metadata.namespace.clone(),
        name: plan.metadata.name.clone().unwrap_or_default(),
    };
    let at = super::ask::instant(&parts.cluster);
    match parts.records.kept(&key).await {
        Ok(kept) => Seen::known(kept, at),
        Err(error) => Seen::unknown(format!("the record in Git cannot be read: {error}")),
    }
}
