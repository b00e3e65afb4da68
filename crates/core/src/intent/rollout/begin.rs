//! At rest: nothing is claimed and nothing is pinned. A change is taken up when nothing stands in its way.

use serde_json::Value;

use super::goal::Goal;
use super::versions::{applied_by, revision_name, trimmed};
use super::{Interrupt, Operation, Phase};
use crate::api::{
    BindingId, Finding, HeldBack, PinState, RolloutJournal, SYNC_MANAGER, WaitCode, WorkloadProfileSpec,
};
use crate::intent::effect::Effect;
use crate::intent::record::content;
use crate::intent::rivals;
use crate::profile::{self, Profile};
use cutover_karmada::{DispatchSuspension, meta};

impl Operation<'_> {
    pub(super) fn rest(&mut self) -> Result<(), Interrupt> {
        if self.input.deleting {
            self.requeue_after = None;
            self.status.common.waiting_for = None;
            if self.input.has_finalizer {
                return Err(Interrupt::Act(vec![Effect::RemoveFinalizer]));
            }
            return Ok(());
        }
        self.forget_another_workload();
        if let Some(wanted) = self.input.snapshot.goal.get()?.as_ref() {
            self.changes_begin(wanted)
        } else {
            self.nothing_wanted();
            let template = self.snapshot().plane.template.get().ok().and_then(Option::as_ref);
            self.note_who_applies(template);
            Ok(())
        }
    }

    /// Git doesn't have the template, or `abort` stands: nothing begins.
    fn nothing_wanted(&mut self) {
        self.requeue_after = None;
        self.status.common.waiting_for = None;
    }

    /// What is known is about the workload that it was found out of.
    fn forget_another_workload(&mut self) {
        let name = &self.input.spec.workload.name;
        let is_other = |manifest: &Value| manifest["metadata"]["name"] != name.as_str();
        if self
            .status
            .revisions
            .iter()
            .any(|known| is_other(&known.manifest))
        {
            self.status.revisions.clear();
            self.status.stable = None;
            self.status.target = None;
            self.status.held_back = None;
        }
    }

    fn changes_begin(&mut self, goal: &Goal) -> Result<(), Interrupt> {
        let Some(template) = self.snapshot().plane.template.get()? else {
            self.nothing_wanted();
            self.rest_as(Phase::Pending);
            return Ok(());
        };
        let Some(rehearsed) = self.snapshot().rehearsed.get()? else {
            self.settled(goal, template);
            return Ok(());
        };
        let labels = |object: &Value| {
            let of = |field| object["metadata"].get(field).cloned().unwrap_or_default();
            (of("labels"), of("annotations"))
        };
        if content(rehearsed) == content(template) && labels(rehearsed) == labels(template) {
            self.settled(goal, template);
            return Ok(());
        }
        self.may_begin()?;
        self.begin(goal, template, rehearsed)
    }

    /// Every cluster has what it shall have.
    fn settled(&mut self, goal: &Goal, template: &Value) {
        let now = content(template);
        let name = revision_name(&now);
        if self.status.stable.as_ref() != Some(&name) || self.status.revision(&name).is_none() {
            self.remember(now, goal.manifest.clone(), goal.git.clone());
            let known = self.status.revisions.iter_mut().find(|known| known.name == name);
            if let Some(known) = known {
                known.completed_at = Some(self.input.now);
            }
            self.status.stable = Some(name.clone());
            self.status.target = Some(name);
            self.trim();
        }
        if !goal.instead {
            self.status.held_back = None;
        }
        self.rest_as(if goal.instead {
            Phase::Undone
        } else {
            Phase::Completed
        });
        self.status.common.waiting_for = None;
        self.requeue_after = None;
    }

    fn rest_as(&mut self, phase: Phase) {
        if self.status.phase != phase {
            self.status.phase = phase;
            self.status.common.findings.clear();
        }
    }

    /// Begins the account of another attempt, and returns its number.
    fn next_attempt(&mut self) -> u32 {
        let now = self.input.now;
        let common = &mut self.status.common;
        common.attempt += 1;
        common.started_at = Some(now);
        common.finished_at = None;
        common.revision = self.input.revision.map(str::to_owned);
        common.findings.clear();
        common.steps.clear();
        common.attempt
    }

    pub(super) fn trim(&mut self) {
        let most = usize::try_from(self.input.spec.strategy.history).unwrap_or(usize::MAX);
        let journal = self.status.journal.as_ref();
        let mut needed: Vec<String> = self.status.stable.iter().cloned().collect();
        if let Some(journal) = journal {
            needed.extend([journal.stable.clone(), journal.target.clone()]);
            needed.extend(journal.left.values().chain(&journal.possible).cloned());
        }
        let needed: Vec<&str> = needed.iter().map(String::as_str).collect();
        trimmed(&mut self.status.revisions, most, &needed);
    }

    /// Nothing is written until everything that could stand in the way has been looked at.
    fn may_begin(&mut self) -> Result<(), Interrupt> {
        let (spec, now) = (self.input.spec, self.input.now);
        self.rest_as(Phase::Pending);
        if spec.controls.abort {
            return Err(Interrupt::wait_for(
                WaitCode::Pause,
                "spec.abort is set: a change waits until it is removed",
            ));
        }
        if spec.controls.paused {
            return Err(Interrupt::wait_for(
                WaitCode::Pause,
                "paused by the spec: a change waits",
            ));
        }
        if spec.controls.deadline.is_some_and(|deadline| now >= deadline) {
            return Err(Interrupt::wait_for(
                WaitCode::Pause,
                "a change waits, and the deadline has passed: set another one",
            ));
        }
        self.window_is_open()?;
        let claim = self.snapshot().plane.claim.get()?.as_ref();
        rivals::may_differ(claim, self.input.uid, self.input.ahead)
            .map_err(|reason| Interrupt::wait_for(WaitCode::Claim, reason))
    }

    pub(super) fn window_is_open(&self) -> Result<(), Interrupt> {
        self.wait_for_window(self.input.spec.strategy.window.as_ref(), |ended| {
            Interrupt::wait_for(WaitCode::Pause, format!("{ended}: set another one"))
        })
    }

    fn begin(&mut self, goal: &Goal, template: &Value, rehearsed: &Value) -> Result<(), Interrupt> {
        let spec = self.input.spec;
        let profile = self.profile_found()?;
        let binding = self.binding_id()?;
        self.dispatches()?;
        self.others_are_held(template)?;
        if !self.input.has_finalizer {
            return Err(Interrupt::Act(vec![Effect::AddFinalizer]));
        }
        // Last of all: whoever has its turn begins, and shows it in the same breath.
        if spec.queued {
            return Err(Interrupt::wait_for(
                WaitCode::Turn,
                "its turn: the policy already has maxParallel rollouts under way",
            ));
        }
        // What is live may be a revision of which nothing is known but itself.
        let live = content(template);
        let stable = revision_name(&live);
        if self.status.revision(&stable).is_none() {
            self.remember(live, applied_by(template, SYNC_MANAGER), None);
        }
        let target = self.remember(content(rehearsed), goal.manifest.clone(), goal.git.clone());
        let mut revisions = self.status.revisions.iter_mut();
        if let Some(revision) = revisions.find(|known| known.name == target) {
            revision.undone = None;
        }
        let attempt = self.next_attempt();
        self.status.stable = Some(stable.clone());
        self.status.target = Some(target.clone());
        self.status.held_back = None;
        self.status.journal = Some(RolloutJournal {
            workload: spec.workload.clone(),
            profile: Box::new(profile.for_journal()),
            binding,
            template_uid: template["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            pin_attempt: attempt,
            pin: PinState::default(),
            rules: Vec::new(),
            host: None,
            possible: vec![stable.clone(), target.clone()],
            stable,
            target,
            wanted: HeldBack {
                hash: goal.id.clone(),
                revision: goal.git.clone(),
            },
            left: std::collections::BTreeMap::new(),
            released: std::collections::BTreeMap::new(),
            undoing: None,
            halted: None,
            retried: spec.controls.retry,
            phase_since: None,
            planned: Vec::new(),
        });
        self.trim();
        self.enter(Phase::Holding, Vec::new());
        Err(Interrupt::Requeue)
    }

    fn profile_found(&mut self) -> Result<WorkloadProfileSpec, Interrupt> {
        let spec = self.input.spec;
        let given = self.snapshot().plane.profiles.get()?;
        let kind = spec.workload.gvk();
        let named = spec.strategy.profile.as_deref();
        let ambiguous = profile::ambiguous_unnamed(given, named, &kind);
        let found = profile::find(given, named, &kind)?.filter(|_| ambiguous.is_none());
        let Some(found) = found else {
            // A rollout moves nothing: why a kind cannot be moved is not what it waits for.
            let finding = ambiguous.unwrap_or_else(|| {
                Finding::new(
                    "NoProfile",
                    format!("no WorkloadProfile says when a {} is healthy", kind.kind),
                    "write one, or name one in spec.profile",
                )
            });
            let reason = finding.message.clone();
            self.find(finding);
            return Err(Interrupt::Wait(reason));
        };
        Profile::compile("found", &found.spec)?;
        Ok(found.spec)
    }

    /// A change that doesn't arrive can't be judged.
    fn dispatches(&self) -> Result<(), Interrupt> {
        let suspension = self.binding()?.spec.suspension.as_ref();
        if suspension.is_some_and(|suspension| suspension.dispatch != DispatchSuspension::default()) {
            return Err(Interrupt::Wait(
                "dispatching is suspended: no change would arrive".to_owned(),
            ));
        }
        Ok(())
    }

    fn binding_id(&self) -> Result<BindingId, Interrupt> {
        let workload = self.workload();
        let Some(binding) = self.snapshot().plane.binding.get()? else {
            return Err(Interrupt::Wait(
                "no policy has claimed the workload yet: it has no binding".to_owned(),
            ));
        };
        let label = meta::binding_id_label(workload.namespace.is_none());
        let id = binding
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(label));
        let id = id.ok_or_else(|| Interrupt::Wait("Karmada has not marked the binding yet".to_owned()))?;
        Ok(BindingId {
            name: binding.metadata.name.clone().unwrap_or_default(),
            uid: binding.metadata.uid.clone().unwrap_or_default(),
            id: id.clone(),
            cluster_scoped: workload.namespace.is_none(),
            replicas: None,
            target_affinity: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Input, Snapshot, step};
    use super::*;
    use crate::api::{RolloutSpec, RolloutStatus};
    use crate::intent::{Read, Seen};
    use cutover_karmada::name::ObjectKey;

    fn seen<T>(value: T) -> Seen<T> {
        Seen::known(value, Read { sent: 1, answered: 2 })
    }

    fn db(image: &str) -> Value {
        json!({
            "apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "metadata": {"name": "db", "namespace": "shop"},
            "spec": {"image": image},
        })
    }

    /// A change of the image waits, and there is no profile.
    fn change_waits() -> Snapshot {
        let workload = ObjectKey {
            group: "k8s.mariadb.com".to_owned(),
            kind: "MariaDB".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "db".to_owned(),
        };
        let mut snapshot = Snapshot::unread(workload, "not read in this test");
        snapshot.goal = seen(Some(Goal {
            id: "wanted".to_owned(),
            git: None,
            manifest: db("mariadb:12"),
            instead: false,
        }));
        snapshot.rehearsed = seen(Some(db("mariadb:12")));
        snapshot.plane.template = seen(Some(db("mariadb:11")));
        snapshot.plane.claim = seen(None);
        snapshot.plane.profiles = seen(Vec::new());
        snapshot
    }

    #[test]
    fn of_a_kind_that_cannot_be_moved_only_the_profile_is_missing_and_nothing_is_written() {
        let workload = json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": "MariaDB", "name": "db"});
        let spec: RolloutSpec = serde_json::from_value(json!({"workload": workload})).unwrap();
        let (status, snapshot) = (RolloutStatus::default(), change_waits());
        let decided = step(&Input {
            uid: "rollout",
            namespace: Some("shop"),
            name: "db",
            generation: 1,
            revision: None,
            deleting: false,
            overtaken: None,
            has_finalizer: false,
            spec: &spec,
            status: &status,
            trouble: None,
            ahead: None,
            snapshot: &snapshot,
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
        });
        assert!(decided.effects.is_empty(), "{:?}", decided.effects);
        let status = decided.status;
        assert_eq!((status.phase, status.common.attempt), (Phase::Pending, 0));
        assert!(status.journal.is_none() && status.revisions.is_empty());
        let message = "no WorkloadProfile says when a MariaDB is healthy";
        let finding = Finding::new("NoProfile", message, "write one, or name one in spec.profile");
        assert_eq!(status.common.findings, [finding]);
        assert_eq!(status.common.waiting_for.unwrap().reason, message);
    }
}
