//! The intents that carry moves out. One is created doing nothing, and begins when it has been seen and the journal says that it
//! may: what a controller that fell behind creates late does nothing.

use serde_json::{Value, json};

use super::{Interrupt, MoveStrategy, Operation};
use crate::api::{
    self, Means, Migration, MigrationStatus, Move, MoveState, Phase as MigrationPhase, RollBackStage,
    Strategy, WAITS_ANNOTATION,
};
use crate::intent::child;
use crate::intent::effect::{Effect, Exactly, add, remove, segment, test};
use crate::intent::placement;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Health, ResourceBinding};

/// What has become of a child.
enum Fate {
    /// It was not created, or is gone.
    Absent,
    /// It is there, and does nothing before it is let go.
    Held(Box<Migration>),
    /// What it waits for, if it does.
    UnderWay(Option<String>),
    Done(Option<String>),
    Failed(String),
}

/// Returns the name of the child of a move: always the same, and no other move's.
pub(super) fn name(parent: &str, uid: &str, attempt: u32, round: u32, one: &Move) -> String {
    let purpose = json!([uid, attempt, round, one.workload, one.from]);
    child::name(parent, &one.workload.name, &purpose)
}

impl<A: MoveStrategy> Operation<'_, A> {
    /// Takes down how far each move is, and has the ones that are to begin created and let go.
    pub(super) fn children(&mut self) -> Result<(), Interrupt<A>> {
        let mut effects = Vec::new();
        let mut changed = false;
        for index in 0..self.status.moves.len() {
            let one = self.status.moves[index].clone();
            if !one.state.is_under_way() {
                continue;
            }
            if one.means == Means::Evict {
                let (now, effect) = self.evict(&one, None);
                changed |= now != one;
                effects.extend(effect);
                self.status.moves[index] = now;
                continue;
            }
            let mut now = one.clone();
            match (one.state, self.fate(&one)?) {
                (MoveState::Starting, Fate::Absent) => effects.push(self.create(&one)),
                (_, Fate::Absent) => self.over(
                    &mut now,
                    MoveState::Failed,
                    Some("what carried it out was deleted".to_owned()),
                ),
                (MoveState::Moving, Fate::Held(child)) => effects.push(let_go(&child)),
                (_, Fate::Held(_)) => now.state = MoveState::Moving,
                (_, Fate::UnderWay(note)) => (now.state, now.note) = (MoveState::Moving, note),
                (_, Fate::Done(note)) => self.over(&mut now, MoveState::Moved, note),
                (_, Fate::Failed(why)) => self.over(&mut now, MoveState::Failed, Some(why)),
            }
            changed |= now != one;
            self.status.moves[index] = now;
        }
        Self::written_first(changed, effects)
    }

    /// Takes down how far each move is; those that haven't been let go never are. `turn_back`: the others are rolled back.
    pub(super) fn end_children(&mut self, turn_back: Option<&str>) -> Result<(), Interrupt<A>> {
        let mut effects = Vec::new();
        let mut changed = false;
        for index in 0..self.status.moves.len() {
            let one = self.status.moves[index].clone();
            if !one.state.is_under_way() {
                continue;
            }
            if one.means == Means::Evict {
                let not_begun = (one.state == MoveState::Starting).then_some("not begun");
                let (now, effect) = self.evict(&one, turn_back.or(not_begun));
                changed |= now != one;
                effects.extend(effect);
                self.status.moves[index] = now;
                continue;
            }
            let mut now = one.clone();
            match self.fate(&one)? {
                Fate::Absent => {
                    self.over(
                        &mut now,
                        MoveState::Failed,
                        Some("what carried it out was deleted".to_owned()),
                    );
                }
                Fate::Held(child) => {
                    let ended = child
                        .status
                        .as_ref()
                        .is_some_and(|status| status.phase.is_terminal());
                    if ended {
                        now.state = MoveState::Waiting;
                        (now.by, now.started_at) = (None, None);
                        now.note = Some("not begun".to_owned());
                    } else if !child.spec.abort {
                        effects.push(abort(&child));
                    }
                }
                Fate::UnderWay(note) => {
                    now.note = note;
                    if turn_back.is_some()
                        && let Some(child) = self.child(&one)?.filter(|child| !child.spec.abort)
                    {
                        effects.push(abort(child));
                    }
                }
                Fate::Done(note) => self.over(&mut now, MoveState::Moved, note),
                Fate::Failed(why) => self.over(&mut now, MoveState::Failed, Some(why)),
            }
            changed |= now != one;
            self.status.moves[index] = now;
        }
        Self::written_first(changed, effects)
    }

    /// What is known of the moves is written before anything is done on it.
    fn written_first(changed: bool, effects: Vec<Effect>) -> Result<(), Interrupt<A>> {
        if changed {
            Err(Interrupt::Requeue)
        } else if effects.is_empty() {
            Ok(())
        } else {
            Err(Interrupt::Act(effects))
        }
    }

    fn over(&self, one: &mut Move, state: MoveState, note: Option<String>) {
        (one.state, one.note, one.finished_at) = (state, note, Some(self.input.now));
    }

    fn child(&self, one: &Move) -> Result<Option<&Migration>, Interrupt<A>> {
        let name = one.by.clone().unwrap_or_default();
        let namespace = one.workload.namespace.clone().unwrap_or_default();
        Ok(self.snapshot().migrations.get()?.get(&(namespace, name)))
    }

    fn fate(&self, one: &Move) -> Result<Fate, Interrupt<A>> {
        if one.means == Means::Reschedule {
            return self.fate_of_rescheduling(one);
        }
        let Some(child) = self.child(one)? else {
            return Ok(Fate::Absent);
        };
        let held = child.metadata.annotations.as_ref();
        if held.is_some_and(|annotations| annotations.contains_key(WAITS_ANNOTATION)) {
            return Ok(Fate::Held(Box::new(child.clone())));
        }
        let Some(status) = &child.status else {
            return Ok(Fate::UnderWay(None));
        };
        Ok(match status.phase {
            MigrationPhase::Completed => Fate::Done(None),
            MigrationPhase::Failed if left_by_itself(status) => {
                Fate::Done(Some("it had left before its turn came".to_owned()))
            }
            phase if phase.is_terminal() => Fate::Failed(format!("{phase}: {}", why(status))),
            phase => {
                let now = match &status.common.waiting_for {
                    Some(wait) => format!("{phase}: {}", wait.phrase()),
                    None => phase.to_string(),
                };
                match back_in(status) {
                    Some(source) => Fate::Failed(format!("{}: it is back in {source} ({now})", why(status))),
                    None => Fate::UnderWay(Some(now)),
                }
            }
        })
    }

    /// Karmada calls it a success when it has asked the scheduler; what counts is that the copies are there and well.
    fn fate_of_rescheduling(&self, one: &Move) -> Result<Fate, Interrupt<A>> {
        let name = one.by.clone().unwrap_or_default();
        let Some(rebalancer) = self.snapshot().rebalancers.get()?.get(&name) else {
            return Ok(Fate::Absent);
        };
        let observed = rebalancer.pointer("/status/observedWorkloads/0");
        let result = observed.and_then(|observed| observed["result"].as_str());
        if result == Some("Failed") {
            let reason = observed
                .and_then(|observed| observed["reason"].as_str())
                .unwrap_or("Failed");
            return Ok(Fate::Failed(reason.to_owned()));
        }
        let why = match result {
            None => "Karmada has not looked at it yet".to_owned(),
            Some(_) => match self.snapshot().rescheduled.get(&one.workload.key()) {
                None => "its binding was not read".to_owned(),
                Some(binding) => match binding.get()? {
                    None => return Ok(Fate::Failed("its binding is gone".to_owned())),
                    Some(binding) => match unsettled(binding) {
                        None => return Ok(Fate::Done(Some(spread(binding)))),
                        Some(why) => why,
                    },
                },
            },
        };
        let limit = self.spec().moves().verify.timeout.length();
        let late = one
            .started_at
            .is_some_and(|since| self.input.now.duration_since(since) > limit);
        Ok(if late {
            Fate::Failed(why)
        } else {
            Fate::UnderWay(Some(why))
        })
    }

    fn create(&self, one: &Move) -> Effect {
        let name = one.by.as_deref().unwrap_or_default();
        let mut metadata = child::metadata(name, A::KIND, self.input.name, self.input.uid);
        let workload = &one.workload;
        let manifest = if one.means == Means::Reschedule {
            json!({
                "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": metadata,
                "spec": {"workloads": [workload]},
            })
        } else {
            metadata["namespace"] = json!(workload.namespace);
            metadata["annotations"] = json!({WAITS_ANNOTATION: "true"});
            json!({
                "apiVersion": api::API_VERSION, "kind": "Migration", "metadata": metadata,
                "spec": self.migration(one),
            })
        };
        Effect::CreateIntent {
            manifest: Box::new(manifest),
        }
    }

    fn migration(&self, one: &Move) -> Value {
        let workload = &one.workload;
        let strategy = if one.means == Means::StartFirst {
            Strategy::StartFirst
        } else {
            Strategy::StopFirst
        };
        let mut spec = json!({
            "workload": {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name},
            "from": one.from, "to": one.to, "strategy": strategy, "verify": self.spec().moves().verify,
            "paused": true,
        });
        if let Some(deadline) = self.input.spec.moves().deadline {
            spec["deadline"] = json!(deadline);
        }
        spec
    }
}

/// Returns the cluster that a Migration has brought its workload back to, if it stays under guard there until a placement keeps it: only a
/// person or the end of a taint brings that, and it keeps no other move.
fn back_in(status: &MigrationStatus) -> Option<&ClusterName> {
    let journal = status.journal.as_ref()?;
    let stage = journal.roll_back.as_ref()?.stage;
    let is_back = status.phase == MigrationPhase::RollingBack && stage == RollBackStage::Returned;
    (is_back && placement::is_awaited(&status.common)).then_some(&journal.source)
}

fn let_go(child: &Migration) -> Effect {
    let waits = format!("/metadata/annotations/{}", segment(WAITS_ANNOTATION));
    let patch = vec![
        test(&waits, json!("true")),
        remove(&waits),
        test("/spec/paused", json!(true)),
        remove("/spec/paused"),
    ];
    patched("let it go", child, patch)
}

fn abort(child: &Migration) -> Effect {
    patched("abort", child, vec![add("/spec/abort", json!(true))])
}

fn patched(why: &'static str, child: &Migration, patch: Vec<Value>) -> Effect {
    let metadata = &child.metadata;
    Effect::PatchIntent {
        why,
        kind: "Migration",
        intent: Exactly {
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            // Somebody may have asked for its end meanwhile.
            resource_version: metadata.resource_version.clone(),
        },
        patch,
    }
}

/// Somebody else has moved it, and nothing was touched.
fn left_by_itself(status: &MigrationStatus) -> bool {
    status
        .common
        .findings
        .iter()
        .any(|finding| finding.code == "NotThere")
}

fn why(status: &MigrationStatus) -> String {
    let journal = status.journal.as_ref();
    let back = journal.and_then(|journal| journal.roll_back.as_ref());
    match back {
        Some(back) => back.reason.clone(),
        None if status.common.findings.is_empty() => status
            .common
            .steps
            .last()
            .map(|step| step.evidence.join("; "))
            .unwrap_or_default(),
        None => {
            let messages: Vec<_> = status
                .common
                .findings
                .iter()
                .map(|finding| finding.message.as_str())
                .collect();
            messages.join("; ")
        }
    }
}

/// Returns why a binding that was rescheduled isn't where it should be yet; `None`: it is.
fn unsettled(binding: &ResourceBinding) -> Option<String> {
    let status = binding.status.as_ref();
    let triggered = binding.spec.reschedule_triggered_at.as_ref();
    let scheduled = status.and_then(|status| status.last_scheduled_time.as_ref());
    if triggered.is_none_or(|triggered| scheduled.is_none_or(|scheduled| scheduled.0 < triggered.0)) {
        return Some("Karmada's scheduler has not looked at it yet".to_owned());
    }
    let is_healthy = |name: &cutover_karmada::name::ClusterName| {
        let mut items = status.into_iter().flat_map(|status| &status.aggregated_status);
        items.any(|item| item.cluster_name == *name && item.applied && item.health == Some(Health::Healthy))
    };
    let mut clusters = binding.spec.clusters.iter();
    let ill = clusters.find(|target| !is_healthy(&target.name));
    ill.map(|target| format!("its copy in {} is not healthy", target.name))
}

fn spread(binding: &ResourceBinding) -> String {
    let clusters = binding.spec.clusters.iter();
    let shares: Vec<String> = clusters
        .map(|target| format!("{} in {}", target.replicas, target.name))
        .collect();
    shares.join(", ")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::api::{Condition, WaitCode};

    const WORDS: &str = "east to be kept once scheduling is resumed (it stays suspended until then): Tainted";

    /// Returns one that has given the token back to its source, and waits. `said`: whether the condition holds, and for which wait.
    fn waits(reason: &str, said: Option<(bool, &str)>) -> MigrationStatus {
        let ended = include_str!("../../api/ended/completed.json");
        let mut status: MigrationStatus = serde_json::from_str(ended).unwrap();
        status.phase = MigrationPhase::RollingBack;
        let back = json!({
            "reason": "abort was asked for", "fromPhase": "Verify", "since": "2026-01-01T00:00:00Z", "endsAs": "Aborted",
            "restart": true, "stage": "Returned",
        });
        status.journal.as_mut().unwrap().roll_back = Some(serde_json::from_value(back).unwrap());
        let now = Timestamp::UNIX_EPOCH;
        status.common.wait(WaitCode::Evidence, reason.to_owned(), now);
        if let Some((holds, message)) = said {
            let conditions = &mut status.common.conditions;
            Condition::put(
                conditions,
                placement::AWAITS_PLACEMENT,
                holds,
                "Tainted",
                message,
                now,
            );
        }
        status
    }

    fn is_back(status: &MigrationStatus) -> bool {
        let east = ClusterName::new("east");
        back_in(status).is_some_and(|source| *source == east)
    }

    #[test]
    fn one_that_is_back_and_only_waits_for_its_placement_is_known_by_its_condition_whatever_the_words() {
        let any = "any words";
        assert!(is_back(&waits(any, Some((true, any)))));
        assert!(!is_back(&waits(any, Some((false, "")))));
        assert!(!is_back(&waits(any, None)));
        let mut taken = waits(any, Some((true, any)));
        let journal = taken.journal.as_mut().unwrap();
        journal.roll_back.as_mut().unwrap().stage = RollBackStage::Taken;
        assert!(!is_back(&taken), "the source has yet to get the token");
        let mut forward = waits(any, Some((true, any)));
        forward.phase = MigrationPhase::Cleanup;
        assert!(!is_back(&forward));
    }

    /// The version before carries it on, and leaves conditions alone that it does not know.
    #[test]
    fn a_condition_about_another_wait_says_nothing_of_the_present_one() {
        assert!(!is_back(&waits("west is not seen", Some((true, WORDS)))));
        let mut acts = waits(WORDS, Some((true, WORDS)));
        acts.common.waiting_for = None;
        assert!(!is_back(&acts));
    }

    #[test]
    fn what_the_version_before_wrote_is_known_by_its_words() {
        assert!(is_back(&waits(WORDS, None)));
    }
}
