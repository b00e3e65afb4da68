//! What comes between, in each phase of a migration: it ends, or stands and says why; one copy runs in the end, and at no time two.
#![allow(clippy::unwrap_used, reason = "a test")]

use cutover_core::api::{Assumption, Fact, Offer, Phase};
use cutover_core::intent::control::GATES;
use cutover_sim::ledger::Violation;
use cutover_sim::{EAST, Sim, WEST};
use serde_json::json;

const ROUNDS: u32 = 400;
/// How long what comes between lasts: half a minute.
const LASTS: u32 = 120;

#[derive(Clone, Copy, Debug)]
enum Event {
    CutOff(&'static str),
    BothCutOff,
    OperatorFrozen(&'static str),
    FallsBack(&'static str),
    CalledOff,
    SchedulingResumed,
    ProcessesReplaced,
    /// The scheduler has a turn, and keeps one of the clusters: the source, or the target.
    SchedulerKeeps(&'static str),
}

const EVENTS: [Event; 12] = [
    Event::CutOff(EAST),
    Event::CutOff(WEST),
    Event::BothCutOff,
    Event::OperatorFrozen(EAST),
    Event::OperatorFrozen(WEST),
    Event::FallsBack(EAST),
    Event::FallsBack(WEST),
    Event::CalledOff,
    Event::SchedulingResumed,
    Event::ProcessesReplaced,
    Event::SchedulerKeeps(EAST),
    Event::SchedulerKeeps(WEST),
];

impl Event {
    fn begins(self, sim: &mut Sim) {
        match self {
            Self::CutOff(name) => sim.member(name).unwrap().reachable = false,
            Self::BothCutOff => {
                for name in [EAST, WEST] {
                    sim.member(name).unwrap().reachable = false;
                }
            }
            Self::OperatorFrozen(name) => sim.member(name).unwrap().frozen = true,
            Self::FallsBack(name) => sim.member(name).unwrap().falls_back = true,
            Self::CalledOff => {
                sim.intent.spec.abort = true;
                sim.intent.generation += 1;
            }
            Self::SchedulingResumed => sim.resume_scheduling(),
            Self::ProcessesReplaced => sim.replace_processes(),
            Self::SchedulerKeeps(cluster) => {
                sim.plane.keeps_last = cluster == WEST;
                sim.resume_scheduling();
                sim.schedule();
            }
        }
    }
}

/// What came between is over.
fn set_right(sim: &mut Sim) {
    for name in [EAST, WEST] {
        let member = sim.member(name).unwrap();
        (member.reachable, member.frozen, member.falls_back) = (true, false, false);
    }
}

fn story(sim: &Sim) -> String {
    format!("{}\n{:?}", sim.story.join("\n"), sim.intent.status.waiting_for)
}

/// A person gives each word that the status offers, until it is over or offers no new one; returns what was said.
fn answered(sim: &mut Sim) -> Vec<Offer> {
    let mut said = Vec::new();
    loop {
        let wait = sim.intent.status.waiting_for.as_ref();
        let offer = wait.and_then(|wait| wait.offers.first().cloned());
        let Some(offer) = offer.filter(|offer| !sim.is_over() && !said.contains(offer)) else {
            return said;
        };
        sim.intent.spec.assume.push(Assumption {
            fact: offer.fact,
            cluster: offer.cluster.clone(),
            attempt: sim.intent.status.attempt,
            phase: sim.intent.status.phase,
            by: Some("a person".to_owned()),
        });
        sim.intent.generation += 1;
        sim.tell(|| format!("a person says {}", offer.arguments()));
        said.push(offer);
        sim.play(4 * ROUNDS);
    }
}

/// A migration in a phase, before its first effect.
fn in_phase(phase: Phase) -> Sim {
    let mut sim = Sim::new(&json!({})).unwrap();
    if phase == Phase::RollingBack {
        assert!(sim.play_until(ROUNDS, |sim| sim.intent.status.phase == Phase::Handoff));
        Event::CalledOff.begins(&mut sim);
    }
    while sim.intent.status.phase != phase {
        assert!(!sim.is_over(), "{phase} never comes\n{}", story(&sim));
        if !sim.controller() {
            sim.round();
        }
    }
    sim
}

#[test]
fn whatever_comes_between_ends_with_one_copy_that_runs_and_all_that_was_written() {
    let mut asked = 0;
    for phase in GATES.into_iter().chain([Phase::RollingBack]) {
        for event in EVENTS {
            let mut sim = in_phase(phase);
            event.begins(&mut sim);
            sim.play(LASTS);
            set_right(&mut sim);
            sim.play(4 * ROUNDS);
            let cell = format!("{event:?} in {phase}");
            let before = sim.ledger.violations.clone();
            assert!(before.is_empty(), "{cell}: {before:?}\n{}", story(&sim));
            let lost_before = sim.ledger.violations.len();
            let said = answered(&mut sim);
            asked += u32::from(!said.is_empty());
            assert!(sim.is_over(), "{cell}: stands, after {said:?}\n{}", story(&sim));
            // Whoever gives state up has given it up; nobody has two writers for a word.
            let given_up = said
                .iter()
                .any(|offer| matches!(offer.fact, Fact::NoState | Fact::Newest));
            let is_told = |violation: &Violation| given_up && matches!(violation, Violation::Lost { .. });
            let untold: Vec<_> = sim.ledger.violations[lost_before..]
                .iter()
                .filter(|found| !is_told(found))
                .collect();
            assert!(
                untold.is_empty(),
                "{cell}, after {said:?}: {untold:?}\n{}",
                story(&sim)
            );
            assert_eq!(sim.ledger.writers().len(), 1, "{cell}\n{}", story(&sim));
        }
    }
    assert!(asked > 0, "no cell asks a person, so that no word was tried");
}
