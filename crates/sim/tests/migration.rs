//! A migration in the simulated world: plain, killed at every line, with requests that come late, in any order.
#![allow(clippy::unwrap_used, reason = "a test")]

use cutover_core::api::Phase;
use cutover_karmada::name::ClusterName;
use cutover_sim::{EAST, Kill, Side, Sim, WEST};
use serde_json::json;

const ROUNDS: u32 = 400;

fn story(sim: &Sim) -> String {
    let waits = sim
        .intent
        .status
        .waiting_for
        .as_ref()
        .map(|wait| wait.reason.as_str());
    format!(
        "{}\n{}: waits for {waits:?}\nfindings {:?}",
        sim.story.join("\n"),
        sim.intent.status.phase,
        sim.intent.status.findings
    )
}

fn runs_alone(sim: &Sim, cluster: &str) {
    assert!(
        sim.ledger.violations.is_empty(),
        "{:?}\n{}",
        sim.ledger.violations,
        story(sim)
    );
    assert_eq!(
        sim.ledger.writers(),
        [&ClusterName::new(cluster)],
        "{}",
        story(sim)
    );
}

fn nothing_is_left(sim: &Sim) {
    assert!(
        sim.plane.claim.is_none() && sim.plane.pin.is_none(),
        "{}",
        story(sim)
    );
}

#[test]
fn it_moves() {
    let mut sim = Sim::new(&json!({})).unwrap();
    runs_alone(&sim, EAST);
    assert!(sim.play(ROUNDS), "{}", story(&sim));
    assert_eq!(sim.intent.status.phase, Phase::Completed, "{}", story(&sim));
    runs_alone(&sim, WEST);
    nothing_is_left(&sim);
}

fn nothing_is_violated(sim: &Sim, seed: u64) {
    assert!(
        sim.ledger.violations.is_empty(),
        "seed {seed}: {:?}\n{}",
        sim.ledger.violations,
        story(sim)
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
    assert!(sim.play(ROUNDS), "{}", story(&sim));
    sim.lines
}

fn killed_everywhere(more: &serde_json::Value, strike: impl Fn(&mut Sim), ends: Phase, runs: &str) {
    let all = lines(more, &strike);
    for line in 1..=all {
        for side in SIDES {
            let mut sim = Sim::new(more).unwrap();
            sim.kill = Some(Kill { line, side });
            strike(&mut sim);
            assert!(sim.play(ROUNDS), "{line} {side:?}\n{}", story(&sim));
            // What comes after the end changes nothing for good.
            for _ in 0..20 {
                sim.round();
            }
            assert_eq!(sim.intent.status.phase, ends, "{line} {side:?}\n{}", story(&sim));
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
        sim.play_until(ROUNDS, |sim| sim.intent.status.phase == Phase::Handoff);
        sim.intent.spec.abort = true;
        sim.intent.generation += 1;
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
        assert!(sim.play(ROUNDS), "seed {seed}\n{}", story(&sim));
        assert_eq!(
            sim.intent.status.phase,
            Phase::Completed,
            "seed {seed}\n{}",
            story(&sim)
        );
        runs_alone(&sim, WEST);
    }
}

#[test]
fn in_any_order_called_off_at_any_moment_it_ends_and_never_two_write() {
    for seed in 0..300 {
        let mut sim = Sim::new(&json!({})).unwrap();
        sim.play_at_random(seed, u32::try_from(seed * 37 % 1500).unwrap());
        sim.intent.spec.abort = true;
        sim.intent.generation += 1;
        sim.play_at_random(1000 + seed, 4000);
        nothing_is_violated(&sim, seed);
        assert!(sim.play(ROUNDS), "seed {seed}\n{}", story(&sim));
        let (phase, runs) = match sim.intent.status.phase {
            Phase::Completed => (Phase::Completed, WEST),
            _ => (Phase::Aborted, EAST),
        };
        assert_eq!(sim.intent.status.phase, phase, "seed {seed}\n{}", story(&sim));
        runs_alone(&sim, runs);
    }
}
