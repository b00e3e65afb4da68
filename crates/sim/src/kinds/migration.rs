use std::time::Duration;

use cutover_core::api::{
    Approval, Assumption, Fact, FailoverGate, Finding, MigrationSpec, MigrationStatus, Offer, Phase, WaitCode,
};
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::failover::Borrower;
use cutover_core::intent::member::SoakSample;
use cutover_core::intent::migration::{self, watch};
use cutover_core::intent::{Snapshot, Step};
use jiff::Timestamp;

use super::snapshot;
use crate::actor::{Input, Intent, Kind, View, Word};

/// How much of a soak counts at most between two looks.
const LONGEST: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Migration;

/// How long a process has watched one run of the target.
#[derive(Clone, Debug, Default)]
pub struct Soak {
    run: Option<String>,
    watched: Duration,
    looked: Option<Timestamp>,
}

impl Kind for Migration {
    type Spec = MigrationSpec;
    type Status = MigrationStatus;
    type Snapshot = Snapshot;
    type Memory = Soak;
    const NAME: &'static str = "Migration";

    fn snapshot(view: &mut View<'_>, intent: &Intent<Self>) -> Box<Snapshot> {
        let status = &intent.status;
        let number = status.journal.as_ref().map(|journal| journal.fence.canary);
        let canary = number.map(|number| canary_name(&intent.uid, status.common.attempt, number));
        let joined = view.then.clusters.keys();
        let asked = joined.filter(|cluster| migration::asks_for_nodes(&intent.spec, status, cluster));
        view.doubted = asked.cloned().collect();
        let record = view.of_git(|git| git.record(&intent.uid));
        let mut snapshot = snapshot(view, canary.as_deref(), record);
        snapshot.plane.keep(migration::needs(status, true));
        snapshot
    }

    fn step(input: &Input<'_, Self>) -> Step<MigrationStatus> {
        migration::step(input)
    }

    fn keep(snapshot: Box<Snapshot>) -> Option<Box<Snapshot>> {
        Some(snapshot)
    }

    /// The time between two good looks of one process at one run.
    fn note(input: &Input<'_, Self>, soak: &mut Soak) {
        if input.status.phase != Phase::Verify {
            *soak = Soak::default();
            return;
        }
        let since = soak.looked.replace(input.now);
        match watch::look(input) {
            SoakSample::Good(run) if soak.run.as_ref() == Some(&run) => {
                let passed = since.map(|since| input.now.duration_since(since).unsigned_abs());
                soak.watched += passed.unwrap_or_default().min(LONGEST);
            }
            SoakSample::Good(run) => {
                soak.run = Some(run);
                soak.watched = Duration::ZERO;
            }
            SoakSample::Bad => {
                soak.run = None;
                soak.watched = Duration::ZERO;
            }
            SoakSample::Unknown => soak.looked = None,
        }
    }

    fn recall(soak: &Soak, snapshot: &mut Snapshot) {
        snapshot.watched = soak.watched;
    }

    fn findings(status: &MigrationStatus) -> &[Finding] {
        &status.common.findings
    }

    fn offers(intent: &Intent<Self>) -> Vec<Word> {
        let Some(wait) = &intent.status.common.waiting_for else {
            return Vec::new();
        };
        let assume = wait
            .offers
            .iter()
            .map(|offer| Word(format!("assume {}", offer.arguments())));
        let approve = wait.approval.map(|phase| Word(format!("approve {phase}")));
        assume.chain(approve).collect()
    }

    fn answer(intent: &mut Intent<Self>, word: &Word) {
        let Some(wait) = intent.status.common.waiting_for.clone() else {
            return;
        };
        let status = &intent.status;
        let is_meant = |offer: &&Offer| word.0 == format!("assume {}", offer.arguments());
        if let Some(offer) = wait.offers.iter().find(is_meant) {
            intent.spec.assume.push(Assumption {
                fact: offer.fact,
                cluster: offer.cluster.clone(),
                attempt: status.common.attempt,
                phase: status.phase,
                by: Some("a person".to_owned()),
            });
        } else if let Some(phase) = wait.approval {
            intent.spec.approvals.push(Approval {
                phase,
                attempt: status.common.attempt,
                by: Some("a person".to_owned()),
            });
        }
    }

    fn abort(spec: &mut MigrationSpec) {
        spec.abort = true;
    }

    fn pause(spec: &mut MigrationSpec, paused: bool) {
        spec.paused = paused;
    }

    fn borrower(intent: &Intent<Self>) -> Option<Borrower> {
        let status = &intent.status;
        let wait = status.common.waiting_for.as_ref();
        let asks = status.phase == Phase::Pending && wait.is_some_and(|wait| wait.code == WaitCode::Claim);
        Some(Borrower {
            owner: intent.owner(),
            workload: intent.spec.workload.clone(),
            waits: asks && !intent.deleting && !intent.spec.paused && !intent.spec.abort,
            ended: status.phase.is_terminal(),
            captured: status
                .journal
                .as_ref()
                .and_then(|journal| journal.captured.clone()),
            secrets: status
                .journal
                .as_ref()
                .map(|journal| journal.secrets.clone())
                .unwrap_or_default(),
        })
    }
}

/// Returns whether a word gives state up.
pub fn gives_up(word: &Word) -> bool {
    let facts = [Fact::FromNothing, Fact::From];
    let of_plan = word
        .0
        .starts_with(&format!("approve {}", FailoverGate::FromNothing));
    of_plan
        || facts
            .iter()
            .any(|fact| word.0.starts_with(&format!("assume {}", fact.argument())))
}
