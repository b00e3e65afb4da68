//! Every kind of intents in the simulated world, alone and together: plain, killed at every line, with requests that come late, in
//! any order.
#![allow(clippy::unwrap_used, reason = "a test")]

use cutover_core::api::{FailoverPhase, Phase, RolloutPhase, ShiftPhase, SuspensionPhase};
use cutover_karmada::PurgeMode;
use cutover_sim::kinds::{FailoverPlan, Migration, ReplicaShift, Rollout, Suspension};
use cutover_sim::{EAST, Event, NORTH, Sim, WEST};
use serde_json::json;

const ROUNDS: u32 = 400;

fn is_clean(sim: &Sim) {
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
}

#[test]
fn a_guard_is_put_up_and_a_failover_takes_the_state_along() {
    let mut sim = Sim::with_orders(&[EAST, WEST]);
    let guard = sim.guard(0, &json!({})).unwrap();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    let phase = |sim: &Sim| sim.intent::<FailoverPlan>(guard).unwrap().status.phase;
    assert_eq!(phase(&sim), FailoverPhase::Guarding, "{}", sim.account());
    Event::Evicted(EAST, PurgeMode::Gracefully).happens(&mut sim);
    sim.round();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    assert_eq!(phase(&sim), FailoverPhase::Guarding, "{}", sim.account());
    is_clean(&sim);
    assert_eq!(sim.writers(0).len(), 1);
    assert_eq!(sim.writers(0)[0].as_str(), WEST, "{}", sim.account());
}

#[test]
fn a_rollout_goes_cluster_by_cluster() {
    let mut sim = Sim::with_web(&[EAST, WEST], &[EAST, WEST], 2);
    let rollout = sim.roll_out(0, &json!({})).unwrap();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    Event::TemplateEdited.happens(&mut sim);
    sim.round();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    let status = &sim.intent::<Rollout>(rollout).unwrap().status;
    assert_eq!(status.phase, RolloutPhase::Completed, "{}", sim.account());
    assert_eq!(status.common.attempt, 1, "{}", sim.account());
    is_clean(&sim);
}

#[test]
fn replicas_go_over_and_the_floor_holds() {
    let mut sim = Sim::with_web(&[EAST, WEST], &[EAST], 3);
    let shift = sim.shift(0, &json!({})).unwrap();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    let phase = |sim: &Sim| sim.intent::<ReplicaShift>(shift).unwrap().status.phase;
    assert_eq!(phase(&sim), ShiftPhase::Shifted, "{}", sim.account());
    is_clean(&sim);
    sim.place_in(0, &[WEST]);
    sim.round();
    assert!(sim.play_until(ROUNDS, |sim| phase(sim) == ShiftPhase::Completed), "{}", sim.account());
    is_clean(&sim);
}

#[test]
fn nothing_goes_out_while_changes_are_kept() {
    let mut sim = Sim::with_web(&[EAST, WEST], &[EAST, WEST], 2);
    let suspension = sim.suspend(0, &json!({})).unwrap();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    let phase = |sim: &Sim| sim.intent::<Suspension>(suspension).unwrap().status.phase;
    assert_eq!(phase(&sim), SuspensionPhase::Suspended, "{}", sim.account());
    Event::TemplateEdited.happens(&mut sim);
    sim.go_on(10);
    is_clean(&sim);
    sim.actors[suspension].abort();
    sim.round();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    assert_eq!(phase(&sim), SuspensionPhase::Aborted, "{}", sim.account());
    is_clean(&sim);
}

#[test]
fn a_migration_borrows_the_claim_of_a_guard() {
    let mut sim = Sim::with_orders(&[EAST, WEST, NORTH]);
    let guard = sim.guard(0, &json!({})).unwrap();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    let migration = sim.migrate(0, NORTH, &json!({})).unwrap();
    sim.round();
    assert!(sim.play(ROUNDS), "{}", sim.account());
    assert_eq!(sim.intent::<Migration>(migration).unwrap().status.phase, Phase::Completed, "{}", sim.account());
    assert_eq!(sim.intent::<FailoverPlan>(guard).unwrap().status.phase, FailoverPhase::Guarding, "{}", sim.account());
    is_clean(&sim);
    assert_eq!(sim.writers(0)[0].as_str(), NORTH, "{}", sim.account());
}
