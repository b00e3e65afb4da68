use cutover_core::api::{Finding, RolloutPhase as Phase, RolloutSpec, RolloutStatus, WaitCode, WaveApproval};
use cutover_core::intent::rollout::{self, Goal, Snapshot};
use cutover_core::intent::{ControlPlane, Seen, Step};
use serde_json::Value;

use super::{binding, overrides, pin, template, works};
use crate::actor::{Input, Intent, Kind, View, Word};
use crate::git::Wanted;
use crate::plane::applied;

#[derive(Clone, Debug)]
pub struct Rollout;

impl Kind for Rollout {
    type Spec = RolloutSpec;
    type Status = RolloutStatus;
    type Snapshot = Snapshot;
    type Memory = ();
    const NAME: &'static str = "Rollout";

    fn snapshot(view: &mut View<'_>, intent: &Intent<Self>) -> Box<Snapshot> {
        let wanted = view.then.git.templates.get(&intent.workload);
        let goal = rollout::goal(&intent.spec, &intent.status, wanted.map(goal));
        let goal = match goal {
            Ok(goal) => view.known(goal),
            Err(why) => Seen::unknown(why),
        };
        let live = template(view);
        let rehearsed = match rehearsed(intent, &goal, live.as_ref()) {
            Ok(rehearsed) => view.known(rehearsed),
            Err(why) => Seen::unknown(why),
        };
        let (binding, claim) = (binding(view), view.before().claim.as_deref().cloned());
        let (works, pin) = (works(view), pin(view));
        let begins = matches!(rehearsed.get(), Ok(Some(_)));
        let mut plane = ControlPlane {
            template: view.known(live),
            binding: view.known(binding),
            claim: view.known(claim),
            works: view.known(works),
            pin: view.known(pin),
            overrides: overrides(view),
            clusters: view.clusters(),
            profiles: view.known(Vec::new()),
            ..ControlPlane::unread("in the simulation")
        };
        plane.keep(rollout::needs(&intent.status, begins));
        Box::new(Snapshot {
            plane,
            goal,
            rehearsed,
            members: view
                .each_member(|member, workload, read| member.see(workload, false, read))
                .into_iter()
                .collect(),
            ..Snapshot::unread(view.before().key.clone(), "in the simulation")
        })
    }

    fn step(input: &Input<'_, Self>) -> Step<RolloutStatus> {
        rollout::step(input)
    }

    fn is_at_rest(status: &RolloutStatus) -> bool {
        status.phase.is_at_rest() && status.common.waiting_for.is_none()
    }

    fn findings(status: &RolloutStatus) -> &[Finding] {
        &status.common.findings
    }

    fn offers(intent: &Intent<Self>) -> Vec<Word> {
        let status = &intent.status;
        if status.phase == Phase::Halted {
            return vec![Word("retry".to_owned()), Word("abort".to_owned())];
        }
        let wait = status.common.waiting_for.as_ref();
        let asks = wait.is_some_and(|wait| wait.code == WaitCode::Approval);
        asks.then(|| Word("approve the next wave".to_owned()))
            .into_iter()
            .collect()
    }

    fn answer(intent: &mut Intent<Self>, word: &Word) {
        if word.0 == "retry" {
            intent.spec.controls.retry += 1;
            return;
        }
        if word.0 == "abort" {
            intent.spec.controls.abort = true;
            return;
        }
        let released = intent
            .status
            .clusters
            .iter()
            .filter(|cluster| cluster.state != cutover_core::api::RolloutClusterState::Held);
        let wave = released.map(|cluster| cluster.wave).max().unwrap_or_default() + 1;
        intent.spec.controls.approvals.push(WaveApproval {
            wave,
            attempt: intent.status.common.attempt,
            by: Some("a person".to_owned()),
        });
    }

    fn abort(spec: &mut RolloutSpec) {
        spec.controls.abort = true;
    }

    fn pause(spec: &mut RolloutSpec, paused: bool) {
        spec.controls.paused = paused;
    }
}

fn goal(wanted: &Wanted) -> Goal {
    Goal {
        id: wanted.hash.clone(),
        git: None,
        manifest: (*wanted.manifest).clone(),
        instead: false,
    }
}

/// What the live template would become by another goal, else by the target of what is under way; nothing, where it is so.
fn rehearsed(
    intent: &Intent<Rollout>,
    goal: &Seen<Option<Goal>>,
    live: Option<&Value>,
) -> Result<Option<Value>, &'static str> {
    let live = live.ok_or("the template was not read")?;
    let goal = goal.get().ok().and_then(Option::as_ref);
    let status = &intent.status;
    let ends = matches!(status.phase, Phase::Undoing | Phase::Finishing);
    let manifest = match &status.journal {
        Some(journal) => {
            let another = goal.filter(|goal| !ends && goal.id != journal.wanted.hash);
            let target = status.revision(&journal.target);
            another
                .map(|goal| &goal.manifest)
                .or_else(|| target.map(|target| &target.manifest))
        }
        None => goal.map(|goal| &goal.manifest),
    };
    let manifest = manifest.ok_or("it is not known what the template is to be")?;
    if manifest["spec"] == live["spec"] {
        return Ok(None);
    }
    Ok(Some(applied(live, manifest)))
}
