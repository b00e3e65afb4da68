//! Every kind of intents in the simulated world, alone and together: plain, killed at every line, with requests that come late, in
//! any order.

use cutover_core::api::{FailoverPhase, Phase, RolloutPhase, ShiftPhase, SuspensionPhase};
use cutover_karmada::PurgeMode;
use cutover_sim::kinds::{FailoverPlan, Migration, ReplicaShift, Rollout, Suspension};
use cutover_sim::{EAST, Event, Kill, NORTH, Side, Sim, WEST};
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
    assert!(
        sim.play_until(ROUNDS, |sim| phase(sim) == ShiftPhase::Completed),
        "{}",
        sim.account()
    );
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
    assert_eq!(
        sim.intent::<Migration>(migration).unwrap().status.phase,
        Phase::Completed,
        "{}",
        sim.account()
    );
    assert_eq!(
        sim.intent::<FailoverPlan>(guard).unwrap().status.phase,
        FailoverPhase::Guarding,
        "{}",
        sim.account()
    );
    is_clean(&sim);
    assert_eq!(sim.writers(0)[0].as_str(), NORTH, "{}", sim.account());
}

/// How the controller is killed at each line of a whole run.
const SIDES: [Side; 4] = [Side::Before, Side::After, Side::Late(1), Side::Late(u32::MAX)];

/// Something that is asked of a world, and how it shall be in the end.
struct Script {
    snapshot: Sim,
    play: fn(&mut Sim),
    ends: fn(&Sim) -> bool,
}

impl Script {
    fn holds(&self, sim: &Sim, when: &str) {
        assert_eq!(
            sim.violations(),
            Vec::<String>::new(),
            "{when}\n{}",
            sim.account()
        );
        assert!((self.ends)(sim), "{when}\n{}", sim.account());
    }

    fn killed_everywhere(&self) {
        let mut plain = self.snapshot.clone();
        (self.play)(&mut plain);
        self.holds(&plain, "plain");
        for line in 1..=plain.lines {
            for side in SIDES {
                let mut sim = self.snapshot.clone();
                sim.kill = Some(Kill { line, side });
                (self.play)(&mut sim);
                // What comes after the end changes nothing for good.
                sim.go_on(20);
                self.holds(&sim, &format!("{line} {side:?}"));
            }
        }
    }

    /// In an order that a seed draws, then in turn.
    fn in_any_order(&self, seeds: u64) {
        for seed in 0..seeds {
            let mut sim = self.snapshot.clone();
            sim.play_at_random(seed, u32::try_from(seed * 137 % 3000).unwrap());
            assert_eq!(
                sim.violations(),
                Vec::<String>::new(),
                "seed {seed}\n{}",
                sim.account()
            );
            (self.play)(&mut sim);
            sim.play_at_random(seed + 1000, 500);
            (self.play)(&mut sim);
            self.holds(&sim, &format!("seed {seed}"));
        }
    }
}

fn rest(sim: &mut Sim) {
    sim.round();
    sim.play(ROUNDS);
}

fn failover() -> Script {
    let mut snapshot = Sim::with_orders(&[EAST, WEST]);
    snapshot.guard(0, &json!({})).unwrap();
    Script {
        snapshot,
        play: |sim| {
            rest(sim);
            if sim.plane.workloads[0]
                .listed()
                .iter()
                .any(|name| name.as_str() == EAST)
            {
                Event::Evicted(EAST, PurgeMode::Gracefully).happens(sim);
            }
            rest(sim);
        },
        ends: |sim| {
            let plan = sim.intent::<FailoverPlan>(0).unwrap();
            plan.status.phase == FailoverPhase::Guarding && sim.writers(0)[0].as_str() == WEST
        },
    }
}

fn rollout() -> Script {
    let mut snapshot = Sim::with_web(&[EAST, WEST], &[EAST, WEST], 2);
    snapshot.roll_out(0, &json!({})).unwrap();
    Script {
        snapshot,
        play: |sim| {
            rest(sim);
            if sim.intent::<Rollout>(0).unwrap().status.common.attempt == 0 {
                Event::TemplateEdited.happens(sim);
            }
            rest(sim);
        },
        ends: |sim| {
            let status = &sim.intent::<Rollout>(0).unwrap().status;
            status.phase == RolloutPhase::Completed && status.common.attempt == 1
        },
    }
}

fn shift() -> Script {
    let mut snapshot = Sim::with_web(&[EAST, WEST], &[EAST], 3);
    snapshot.shift(0, &json!({"step": 2})).unwrap();
    Script {
        snapshot,
        play: |sim| {
            rest(sim);
            sim.place_in(0, &[WEST]);
            rest(sim);
            rest(sim);
        },
        ends: |sim| sim.intent::<ReplicaShift>(0).unwrap().status.phase == ShiftPhase::Completed,
    }
}

fn suspension() -> Script {
    let mut snapshot = Sim::with_web(&[EAST, WEST], &[EAST, WEST], 2);
    snapshot.suspend(0, &json!({"scope": "Both"})).unwrap();
    Script {
        snapshot,
        play: |sim| {
            rest(sim);
            Event::TemplateEdited.happens(sim);
            sim.go_on(5);
            sim.actors[0].abort();
            rest(sim);
        },
        ends: |sim| sim.intent::<Suspension>(0).unwrap().status.phase == SuspensionPhase::Aborted,
    }
}

/// A guard, a migration that borrows its claim, and another one that waits for that.
fn together() -> Script {
    let mut snapshot = Sim::with_orders(&[EAST, WEST, NORTH]);
    snapshot.guard(0, &json!({})).unwrap();
    rest(&mut snapshot);
    snapshot.lines = 0;
    snapshot.migrate(0, NORTH, &json!({})).unwrap();
    snapshot.migrate(0, WEST, &json!({})).unwrap();
    Script {
        snapshot,
        play: rest,
        ends: |sim| {
            let ended = |nth| sim.intent::<Migration>(nth).unwrap().status.phase == Phase::Completed;
            ended(1) && ended(2) && sim.writers(0).len() == 1
        },
    }
}

#[test]
fn a_failover_killed_at_any_line_takes_the_state_along() {
    failover().killed_everywhere();
}

#[test]
fn a_failover_in_any_order_takes_the_state_along() {
    failover().in_any_order(100);
}

#[test]
fn a_rollout_killed_at_any_line_goes_cluster_by_cluster() {
    rollout().killed_everywhere();
}

#[test]
fn a_rollout_in_any_order_goes_cluster_by_cluster() {
    rollout().in_any_order(100);
}

#[test]
fn a_shift_killed_at_any_line_keeps_the_floor() {
    shift().killed_everywhere();
}

#[test]
fn a_shift_in_any_order_keeps_the_floor() {
    shift().in_any_order(100);
}

#[test]
fn a_suspension_killed_at_any_line_lets_nothing_out() {
    suspension().killed_everywhere();
}

#[test]
fn a_suspension_in_any_order_lets_nothing_out() {
    suspension().in_any_order(100);
}

#[test]
fn who_borrows_a_claim_and_who_waits_for_it_are_killed_at_any_line() {
    together().killed_everywhere();
}

#[test]
fn who_borrows_a_claim_and_who_waits_for_it_come_in_any_order() {
    together().in_any_order(60);
}
