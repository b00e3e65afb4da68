//! What comes between while a plan guards, or fails over: whose copy stays, and what people are told.

use cutover_core::api::{Belt, FailoverPhase as Phase, FailoverPlanStatus};
use cutover_karmada::PurgeMode;
use cutover_karmada::name::ClusterName;
use cutover_sim::kinds::FailoverPlan;
use cutover_sim::{EAST, Event, NORTH, Sim, WEST};
use serde_json::json;

const ROUNDS: u32 = 400;
/// Long enough for what is sent to come about.
const A_WHILE: u32 = 20;

fn status(sim: &Sim) -> &FailoverPlanStatus {
    &sim.intent::<FailoverPlan>(0).unwrap().status
}

fn guarding() -> Sim {
    let mut sim = Sim::with_orders(&[EAST, WEST]);
    let unreachable = json!({"proceedAfter": "60s", "fencedBy": "Approval"});
    sim.guard(0, &json!({"sourceUnreachable": unreachable})).unwrap();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    sim
}

/// A failover right after it has entered a phase, before its first effect there.
fn entering(wanted: Phase) -> Sim {
    let mut sim = guarding();
    Event::Evicted(EAST, PurgeMode::Gracefully).happens(&mut sim);
    sim.settle();
    for _ in 0..ROUNDS {
        while sim.turn(0) {
            if status(&sim).phase == wanted {
                return sim;
            }
        }
        sim.round();
    }
    unreachable!("{wanted} never comes\n{}", sim.account());
}

fn guards_in(sim: &mut Sim, cluster: &str) {
    sim.go_on(A_WHILE);
    assert!(sim.play(ROUNDS), "{}", sim.account());
    assert_eq!(status(sim).phase, Phase::Guarding, "{}", sim.account());
    assert_eq!(sim.writers(0), [&ClusterName::new(cluster)], "{}", sim.account());
}

fn finds(sim: &Sim, code: &str) -> bool {
    let findings = &status(sim).common.findings;
    findings.iter().any(|finding| finding.code == code)
}

fn belt(sim: &Sim) -> Option<&Belt> {
    status(sim).journal.as_ref()?.fence.belt.as_ref()
}

fn is_belted(sim: &Sim) -> bool {
    let binding = sim.plane.workloads[0].binding.as_ref().unwrap();
    binding.typed.spec.preserve_resources_on_deletion == Some(true)
}

/// The scheduler drops the new copy, or its Work is deleted, as soon as it is seen well: nothing is deleted, and it is taken up
/// as it is.
#[test]
fn whoever_drops_the_copy_that_was_released_deletes_nothing() {
    for event in [
        Event::SchedulingResumed,
        Event::SchedulerKeeps(EAST),
        Event::SchedulerKeeps(WEST),
        Event::WorkDeleted(WEST),
        Event::WorkDeleted(EAST),
    ] {
        let mut sim = entering(Phase::Settling);
        assert!(belt(&sim).unwrap().shown && is_belted(&sim), "{}", sim.account());
        let before = sim.members[1].copy(0);
        event.happens(&mut sim);
        guards_in(&mut sim, WEST);
        assert_eq!(sim.members[1].copy(0), before, "{event:?}\n{}", sim.account());
        assert_eq!(sim.members[0].copy(0), None, "{event:?}\n{}", sim.account());
        assert_eq!(
            sim.violations(),
            Vec::<String>::new(),
            "{event:?}\n{}",
            sim.account()
        );
        assert!(!is_belted(&sim), "{event:?}\n{}", sim.account());
    }
}

/// Karmada's detector writes the binding anew with every change of the template.
#[test]
fn a_belt_that_is_taken_off_is_set_again_and_told() {
    let mut sim = entering(Phase::Releasing);
    Event::TemplateEdited.happens(&mut sim);
    sim.play_until(ROUNDS, |sim| finds(sim, "PreservationTakenOff"));
    assert!(finds(&sim, "PreservationTakenOff"), "{}", sim.account());
    guards_in(&mut sim, WEST);
}

#[test]
fn a_guarded_copy_that_starts_again_is_told() {
    for (event, code) in [
        (Event::PodsDie(EAST), "StartedOver"),
        (Event::CopyDeleted(EAST), "CopyMadeAnew"),
        (Event::WorkDeleted(EAST), "CopyMadeAnew"),
    ] {
        let mut sim = guarding();
        sim.go_on(2);
        assert!(status(&sim).common.findings.is_empty(), "{}", sim.account());
        event.happens(&mut sim);
        guards_in(&mut sim, EAST);
        assert!(finds(&sim, code), "{event:?}\n{}", sim.account());
    }
}

#[test]
fn what_a_failover_or_a_migration_recreates_is_not_told() {
    let mut sim = Sim::with_orders(&[EAST, WEST, NORTH]);
    sim.guard(0, &json!({})).unwrap();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    sim.migrate(0, NORTH, &json!({})).unwrap();
    guards_in(&mut sim, NORTH);
    assert!(status(&sim).common.findings.is_empty(), "{}", sim.account());
    Event::Evicted(NORTH, PurgeMode::Gracefully).happens(&mut sim);
    sim.go_on(A_WHILE);
    assert!(sim.play(ROUNDS), "{}", sim.account());
    assert!(status(&sim).common.findings.is_empty(), "{}", sim.account());
    assert_eq!(sim.writers(0).len(), 1, "{}", sim.account());
}

/// The pin is taken away while nobody may run: both copies run for a moment, and the new one has a state of its own then.
#[test]
fn a_new_copy_that_ran_before_it_was_released_starts_again_from_the_state_that_it_is_given() {
    for event in [Event::PinDeleted, Event::PinEdited] {
        for phase in [Phase::Fencing, Phase::Releasing] {
            let mut sim = entering(phase);
            event.happens(&mut sim);
            sim.settle();
            guards_in(&mut sim, WEST);
            let state = status(&sim).history.last().unwrap().state.clone().unwrap();
            assert!(!state.values.is_empty(), "{phase} {event:?}\n{}", sim.account());
        }
    }
}

#[test]
fn a_pin_that_holds_nobody_any_more_is_put_back_and_told() {
    let mut sim = entering(Phase::Releasing);
    Event::PinLoosened.happens(&mut sim);
    sim.play_until(ROUNDS, |sim| finds(sim, "SingleWriterLapse"));
    assert!(finds(&sim, "SingleWriterLapse"), "{}", sim.account());
    guards_in(&mut sim, WEST);
}

/// Nobody sees the source any more after it was decided to release: the token stays with nobody, until a person vouches for it.
#[test]
fn a_source_that_is_lost_before_the_pin_is_asked_for() {
    let mut sim = entering(Phase::Releasing);
    Event::Gone(EAST).happens(&mut sim);
    sim.go_on(A_WHILE * 5);
    let asks = status(&sim).asks.clone();
    assert_eq!(asks.len(), 1, "{}", sim.account());
    assert_eq!(asks[0].cluster, ClusterName::new(EAST), "{}", sim.account());
    assert!(sim.writers(0).is_empty(), "{}", sim.account());
    let word = sim.actors[0].offers()[0].clone();
    sim.actors[0].answer(&word);
    guards_in(&mut sim, WEST);
}

/// The new cluster is destroyed: whoever knows that nothing of it writes gives the workload back to the one that it came from.
#[test]
fn a_target_that_is_lost_gives_the_workload_back() {
    for phase in [Phase::Fencing, Phase::Releasing, Phase::Settling] {
        let mut sim = entering(phase);
        Event::Gone(WEST).happens(&mut sim);
        sim.go_on(A_WHILE * 5);
        if phase != Phase::Settling {
            let asks = status(&sim).asks.clone();
            assert_eq!(asks.len(), 1, "{phase}\n{}", sim.account());
            assert_eq!(asks[0].cluster, ClusterName::new(WEST), "{}", sim.account());
        }
        for _ in 0..3 {
            if let Some(word) = sim.actors[0].offers().first().cloned() {
                sim.actors[0].answer(&word);
                sim.go_on(A_WHILE * 2);
            }
        }
        guards_in(&mut sim, EAST);
    }
}
