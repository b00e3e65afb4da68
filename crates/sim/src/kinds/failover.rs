use cutover_core::api::{
    FailoverApproval, FailoverPhase as Phase, FailoverPlanSpec, FailoverPlanStatus, Finding, OpenQuestion,
};
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::failover::{self, Beside, Snapshot};
use cutover_core::intent::{Seen, Step};

use super::snapshot;
use crate::actor::{Input, Intent, Kind, View, Word};

#[derive(Clone, Debug)]
pub struct FailoverPlan;

impl Kind for FailoverPlan {
    type Spec = FailoverPlanSpec;
    type Status = FailoverPlanStatus;
    type Snapshot = Snapshot;
    type Memory = ();
    const NAME: &'static str = "FailoverPlan";

    fn snapshot(view: &mut View<'_>, intent: &Intent<Self>) -> Box<Snapshot> {
        let journal = intent.status.journal.as_ref();
        let canary = journal.map(|journal| canary_name(&intent.uid, journal.round, journal.fence.canary));
        let kept = view.of_git(|git| git.kept(&intent.uid).map(|kept| kept.status.clone()));
        let borrowers = view.others.borrowers.clone();
        let around = *snapshot(view, canary.as_deref(), Seen::unknown("of another kind"));
        let migrations = view.known(borrowers);
        // Here no operator makes objects of what it saves.
        let rules = journal.map(|journal| journal.profile.last_known.as_slice());
        let rules = rules.unwrap_or_default().iter().enumerate();
        let rules = rules.filter(|(_, rule)| rule.from.is_some());
        let none: Beside = rules.map(|(index, _)| (index, view.known(Vec::new()))).collect();
        let beside = failover::wants_beside(&intent.spec, &intent.status);
        Box::new(Snapshot {
            beside: beside
                .map(|cluster| (cluster.clone(), none))
                .into_iter()
                .collect(),
            around,
            migrations,
            kept,
            needed: None,
        })
    }

    fn step(input: &Input<'_, Self>) -> Step<FailoverPlanStatus> {
        failover::step(input)
    }

    fn keep(snapshot: Box<Snapshot>) -> Option<Box<cutover_core::intent::Snapshot>> {
        Some(Box::new(snapshot.around))
    }

    fn is_at_rest(status: &FailoverPlanStatus) -> bool {
        status.phase == Phase::Guarding && status.common.waiting_for.is_none() && status.asks.is_empty()
    }

    fn findings(status: &FailoverPlanStatus) -> &[Finding] {
        &status.common.findings
    }

    fn offers(intent: &Intent<Self>) -> Vec<Word> {
        intent.status.asks.iter().map(word).collect()
    }

    fn answer(intent: &mut Intent<Self>, given: &Word) {
        let question = intent
            .status
            .asks
            .iter()
            .find(|question| word(question) == *given);
        if let Some(question) = question {
            intent.spec.approvals.push(FailoverApproval {
                gate: question.gate,
                cluster: question.cluster.clone(),
                attempt: question.attempt,
                by: Some("a person".to_owned()),
            });
        }
    }

    fn abort(spec: &mut FailoverPlanSpec) {
        spec.abort = true;
    }

    fn pause(spec: &mut FailoverPlanSpec, paused: bool) {
        spec.paused = paused;
    }
}

fn word(question: &OpenQuestion) -> Word {
    Word(format!(
        "approve {} {} of attempt {}",
        question.gate, question.cluster, question.attempt
    ))
}
