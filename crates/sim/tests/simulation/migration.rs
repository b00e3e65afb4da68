//! A migration in the simulated world: plain, killed at every line, with requests that come late, in any order.

use std::sync::Arc;

use cutover_core::api::Phase;
use cutover_karmada::name::ClusterName;
use cutover_sim::kinds::Migration;
use cutover_sim::{EAST, Kill, Side, Sim, WEST};
use serde_json::json;

const ROUNDS: u32 = 400;

fn phase(sim: &Sim) -> Phase {
    sim.intent::<Migration>(0).unwrap().status.phase
}

fn runs_alone(sim: &Sim, cluster: &str) {
    assert_eq!(sim.violations(), Vec::<String>::new(), "{}", sim.account());
    assert_eq!(sim.writers(0), [&ClusterName::new(cluster)], "{}", sim.account());
}

fn nothing_is_left(sim: &Sim) {
    let orders = &sim.plane.workloads[0];
    assert!(
        orders.claim.is_none() && orders.pin.is_none() && sim.plane.canaries.is_empty(),
        "{}",
        sim.account()
    );
}

#[test]
fn it_moves() {
    let mut sim = Sim::new(&json!({})).unwrap();
    runs_alone(&sim, EAST);
    assert!(sim.play(ROUNDS), "{}", sim.account());
    assert_eq!(phase(&sim), Phase::Completed, "{}", sim.account());
    runs_alone(&sim, WEST);
    nothing_is_left(&sim);
}

fn nothing_is_violated(sim: &Sim, seed: u64) {
    assert_eq!(
        sim.violations(),
        Vec::<String>::new(),
        "seed {seed}\n{}",
        sim.account()
    );
}

/// How often each line of a whole run is killed.
const SIDES: [Side; 5] = [
    Side::Before,
    Side::After,
    Side::Late(1),
    Side::Late(6),
    Side::Late(u32::MAX / 2),
];

fn lines(more: &serde_json::Value, strike: impl Fn(&mut Sim)) -> u32 {
    let mut sim = Sim::new(more).unwrap();
    strike(&mut sim);
    assert!(sim.play(ROUNDS), "{}", sim.account());
    sim.lines
}

fn killed_everywhere(more: &serde_json::Value, strike: impl Fn(&mut Sim), ends: Phase, runs: &str) {
    let all = lines(more, &strike);
    for line in 1..=all {
        for side in SIDES {
            let mut sim = Sim::new(more).unwrap();
            sim.kill = Some(Kill { line, side });
            strike(&mut sim);
            assert!(sim.play(ROUNDS), "{line} {side:?}\n{}", sim.account());
            // What comes after the end changes nothing for good.
            for _ in 0..20 {
                sim.round();
            }
            assert_eq!(phase(&sim), ends, "{line} {side:?}\n{}", sim.account());
            runs_alone(&sim, runs);
        }
    }
}

#[test]
fn killed_at_any_line_it_still_moves() {
    killed_everywhere(&json!({}), |_| {}, Phase::Completed, WEST);
}

#[test]
fn called_off_it_still_comes_back_whoever_is_killed() {
    let call_off = |sim: &mut Sim| {
        sim.play_until(ROUNDS, |sim| phase(sim) == Phase::Handoff);
        sim.actors[0].abort();
    };
    killed_everywhere(&json!({}), call_off, Phase::Aborted, EAST);
}

/// Its operator starts it from no other handle than its own: it is created again.
#[test]
fn called_off_a_source_that_takes_no_other_handle_still_comes_back_whoever_is_killed() {
    let call_off = |sim: &mut Sim| {
        let has_journal = |sim: &Sim| {
            let intent = sim.intent::<Migration>(0).unwrap();
            intent.status.journal.is_some()
        };
        assert!(sim.play_until(ROUNDS, has_journal), "{}", sim.account());
        let intent = sim.intent_mut::<Migration>(0).unwrap();
        let journal = intent.status.journal.as_mut().unwrap();
        let profile = Arc::make_mut(&mut journal.profile);
        profile.restart_from.clear();
        profile.recreate_for_handle = true;
        let target = [&ClusterName::new(WEST)];
        let target_runs = |sim: &Sim| sim.writers(0) == target;
        assert!(sim.play_until(ROUNDS, target_runs), "{}", sim.account());
        sim.actors[0].abort();
    };
    killed_everywhere(&json!({}), call_off, Phase::Aborted, EAST);
}

#[test]
fn in_any_order_it_moves_or_waits_and_never_two_write() {
    for seed in 0..300 {
        let mut sim = Sim::new(&json!({})).unwrap();
        sim.play_at_random(seed, 4000);
        nothing_is_violated(&sim, seed);
        // In turn again, it ends.
        assert!(sim.play(ROUNDS), "seed {seed}\n{}", sim.account());
        assert_eq!(phase(&sim), Phase::Completed, "seed {seed}\n{}", sim.account());
        runs_alone(&sim, WEST);
    }
}

#[test]
fn in_any_order_called_off_at_any_moment_it_ends_and_never_two_write() {
    for seed in 0..300 {
        let mut sim = Sim::new(&json!({})).unwrap();
        sim.play_at_random(seed, u32::try_from(seed * 37 % 1500).unwrap());
        sim.actors[0].abort();
        sim.play_at_random(1000 + seed, 4000);
        nothing_is_violated(&sim, seed);
        assert!(sim.play(ROUNDS), "seed {seed}\n{}", sim.account());
        let (ends, runs) = match phase(&sim) {
            Phase::Completed => (Phase::Completed, WEST),
            _ => (Phase::Aborted, EAST),
        };
        assert_eq!(phase(&sim), ends, "seed {seed}\n{}", sim.account());
        runs_alone(&sim, runs);
    }
}
