//! Rollouts, as the loop carries them out.

use std::collections::BTreeSet;

use futures::future::{join, join_all};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::around::Around;
use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::members::Selector;
use super::migration::WARNED_AGAIN;
use super::{Parts, Wanted, metrics, observe, other_managers, others, wake};
use cutover_cluster::Lookup;
use cutover_core::api::{
    Rollout, RolloutPhase as Phase, RolloutSpec, RolloutStatus, SYNC_MANAGER, WorkloadRef,
};
use cutover_core::error::Error;
use cutover_core::intent::control_plane::Named;
use cutover_core::intent::rollout::{self, Goal, Snapshot};
use cutover_core::intent::warnings::Warned;
use cutover_core::intent::{ControlPlane, Effect, Needs, Seen, Step};
use cutover_core::plan::{Decision, owned_matches};
use cutover_core::profile::Profile;
use cutover_core::report::{self, EventRecord};
use cutover_karmada::name::{ClusterName, ObjectKey};

#[derive(Debug, Default)]
pub(super) struct RolloutController {
    /// When the Events of a member were read last for what is waited for.
    warned: Option<Instant>,
}

impl Kind for RolloutController {
    type Intent = Rollout;
    type Spec = RolloutSpec;
    type Status = RolloutStatus;
    type Snapshot = Snapshot;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &Rollout,
        status: &RolloutStatus,
        _sent: bool,
    ) -> Snapshot {
        let gvk = intent.workload_in_force().gvk();
        let workload = match workload(parts, intent, status).await {
            Ok(workload) => workload,
            Err(error) => {
                let namespace = intent.metadata.namespace.as_deref();
                return Snapshot::unread(intent.workload_in_force().key(namespace), &error.to_string());
            }
        };
        let look = Reader {
            intent,
            status,
            around: Around {
                parts,
                workload: &workload,
                gvk: &gvk,
            },
        };
        let mut snapshot = Box::pin(look.snapshot()).await;
        if self.warned.is_none_or(|at| at.elapsed() >= WARNED_AGAIN)
            && let Some(cluster) = rollout::troubled(status, (parts.clock)())
        {
            snapshot.warned = Box::pin(look.warned(cluster, &snapshot)).await;
            self.warned = Some(Instant::now());
        }
        snapshot
    }

    fn watched_keys(intent: &Rollout, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
        let status = intent.status.as_ref();
        let needs = status.map_or(Needs::TEMPLATE, |status| {
            rollout::needs(status, status.phase == Phase::Pending)
        });
        wake::keys(
            needs,
            &snapshot.workload,
            &snapshot.plane,
            Named::default(),
            snapshot.members.keys(),
        )
    }

    /// Within a phase the same is read, but for the copies of clusters that are released meanwhile.
    fn has_seen_enough(before: &RolloutStatus, after: &RolloutStatus) -> bool {
        let scope = |status: &RolloutStatus| {
            let journal = status.journal.as_ref();
            journal.map(|journal| (journal.target.clone(), journal.released.len()))
        };
        before.phase == after.phase && scope(before) == scope(after)
    }

    fn step(input: &Input<'_, Self>) -> Step<RolloutStatus> {
        rollout::step(input)
    }

    async fn send(parts: &Parts, intent: &Rollout, effect: &Effect) -> Result<Sent, Error> {
        match effect {
            Effect::ApplyTemplate { template, manifest } => {
                let gvk = intent.workload_in_force().gvk();
                execute::apply_template(parts, &gvk, template, manifest).await
            }
            other => execute::send_plain(parts, intent, other).await,
        }
    }

    fn events(before: &Rollout, after: &RolloutStatus) -> Vec<EventRecord> {
        report::rollout_events(before, after)
    }
}

/// One that was served when it began keeps its scope.
pub(super) async fn workload(
    parts: &Parts,
    intent: &Rollout,
    status: &RolloutStatus,
) -> Result<ObjectKey, Error> {
    let named = intent.workload_in_force();
    let namespace = intent.metadata.namespace.as_deref();
    let cluster_scoped = match &status.journal {
        Some(journal) => journal.binding.cluster_scoped,
        None => match parts.cluster.lookup(&named.gvk()).await? {
            Lookup::Served(served) => !served.namespaced,
            Lookup::NotServed => false,
        },
    };
    Ok(named.key(namespace.filter(|_| !cluster_scoped)))
}

struct Reader<'a> {
    intent: &'a Rollout,
    status: &'a RolloutStatus,
    around: Around<'a>,
}

impl Reader<'_> {
    /// At rest, and with nothing to do, one read is all.
    async fn snapshot(&self) -> Snapshot {
        let around = self.around;
        let mut snapshot = Snapshot::unread(around.workload.clone(), "nothing is rolled out");
        snapshot.goal = self.goal();
        snapshot.plane = around.plane(Needs::TEMPLATE, Named::default()).await;
        snapshot.rehearsed = self.rehearsed(&snapshot).await;
        let begins = matches!(snapshot.rehearsed.get(), Ok(Some(_)));
        let needs = rollout::needs(self.status, begins);
        if needs == Needs::TEMPLATE {
            return snapshot;
        }
        snapshot.plane = ControlPlane {
            template: snapshot.plane.template,
            ..around.plane(needs - Needs::TEMPLATE, Named::default()).await
        };
        if self.status.journal.is_none() {
            let template = &snapshot.plane.template;
            snapshot.other_managers = other_managers::look(&around.parts.cluster, template).await;
        }
        let copies = rollout::judged(self.status, &snapshot.plane);
        let copies = copies.into_iter().map(async |cluster| {
            let copy = around.copy(&cluster).await;
            (cluster, copy)
        });
        snapshot.members = join_all(copies).await.into_iter().collect();
        if matches!(
            self.status.phase,
            Phase::Rolling | Phase::Halted | Phase::Finishing
        ) {
            let checks = &self.intent.spec.strategy.progress.checks;
            let namespace = around.workload.namespace.as_deref();
            (snapshot.metrics, snapshot.others) = join(
                metrics::ask(&*around.parts.metrics, checks, || around.instant()),
                others::read(&around.parts.cluster, namespace, snapshot.members.keys(), checks),
            )
            .await;
        }
        snapshot
    }

    /// Reads what the Events of a cluster say of a copy that was waited for long. What can't be read isn't told.
    async fn warned(&self, cluster: ClusterName, snapshot: &Snapshot) -> Option<Warned> {
        let journal = self.status.journal.as_ref()?;
        let profile = Profile::compile("in force", &journal.profile).ok();
        let template = snapshot.plane.template.get().ok().and_then(Option::as_ref);
        let selector = Selector::of(None, profile.as_ref(), template);
        let copy = snapshot.members.get(&cluster)?;
        observe::warned_with_pods(self.around, cluster, &copy.object, &selector).await
    }

    /// What the template is to be, as Git and the status say: nothing is sent for that.
    fn goal(&self) -> Seen<Option<Goal>> {
        let asked = |wanted: Wanted| Goal {
            id: wanted.hash,
            git: wanted.revision,
            manifest: wanted.manifest,
            instead: false,
        };
        match self.around.parts.templates.template(self.around.workload) {
            Ok(wanted) => match rollout::goal(&self.intent.spec, self.status, wanted.map(asked)) {
                Ok(goal) => Seen::known(goal, self.around.instant()),
                Err(why) => Seen::unknown(why),
            },
            Err(error) => Seen::unknown(error.to_string()),
        }
    }

    /// Another goal is tried, else the target of what is under way: whether the template still is as it shall be.
    async fn rehearsed(&self, snapshot: &Snapshot) -> Seen<Option<Value>> {
        let Ok(Some(template)) = snapshot.plane.template.get() else {
            return Seen::unknown("the template was not read");
        };
        let goal = snapshot.goal.get().ok().and_then(Option::as_ref);
        let ends = matches!(self.status.phase, Phase::Undoing | Phase::Finishing);
        let manifest = match &self.status.journal {
            Some(journal) => {
                let another = goal.filter(|goal| !ends && goal.id != journal.wanted.hash);
                let target = self.status.revision(&journal.target);
                match (another, target) {
                    (Some(goal), _) => &goal.manifest,
                    (None, Some(target)) => &target.manifest,
                    (None, None) => return Seen::unknown("the target is not in the history"),
                }
            }
            None => match goal {
                Some(goal) => &goal.manifest,
                None => return Seen::unknown("it is not known what the template is to be"),
            },
        };
        if owned_matches(manifest, template, SYNC_MANAGER) == Decision::InSync {
            return Seen::known(None, self.around.instant());
        }
        match self.around.rehearsed(manifest).await {
            Seen::Known { value, read } => Seen::known(Some(value), read),
            Seen::Unknown { why } => Seen::unknown(why),
        }
    }
}

/// Returns the templates that a rollout is about, in either scope of their kind.
pub(in crate::reconcile) fn templates_of(intent: &Value) -> Vec<ObjectKey> {
    let named = ["/status/journal/workload", "/spec/workload"].into_iter();
    let named = named.filter_map(|pointer| WorkloadRef::deserialize(intent.pointer(pointer)?).ok());
    let namespace = intent["metadata"]["namespace"].as_str();
    let keys = named.flat_map(|workload| [workload.key(namespace), workload.key(None)]);
    keys.collect::<BTreeSet<_>>().into_iter().collect()
}
