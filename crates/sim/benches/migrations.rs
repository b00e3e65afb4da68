//! How many whole migrations are simulated in a second, on every core that there is.
//!
//! `cargo bench --package cutover-sim [-- SECONDS]`
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that measures"
)]

use std::thread;
use std::time::{Duration, Instant};

use cutover_core::api::Phase;
use cutover_sim::kinds::Migration;
use cutover_sim::{EAST, Sim, WEST};
use serde_json::json;

/// That of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How many rounds a migration takes at most.
const ROUNDS: u32 = 400;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let seconds = args
        .next()
        .map_or(5_u64, |number| number.parse().expect("a number of seconds"));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let until = Instant::now() + Duration::from_secs(seconds);
    let begun = Instant::now();
    let workers: Vec<_> = (0..cores)
        .map(|_| thread::spawn(move || migrate(until)))
        .collect();
    let counts = workers.into_iter().map(|worker| worker.join().expect("a worker"));
    let (runs, lines) = counts.fold((0_u64, 0_u64), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{:.0} migrations a second on {cores} cores: {runs} in {took:.1} s, {:.0} journals and requests each",
        runs as f64 / took,
        lines as f64 / runs as f64,
    );
}

/// Returns how many have come to their ends, and how many journals and requests that took.
fn migrate(until: Instant) -> (u64, u64) {
    let mut snapshot = Sim::with_orders(&[EAST, WEST]);
    snapshot.migrate(0, WEST, &json!({})).expect("a spec");
    snapshot.is_silent = true;
    let (mut runs, mut lines) = (0_u64, 0_u64);
    while Instant::now() < until {
        let mut sim = snapshot.clone();
        assert!(sim.play(ROUNDS), "{}", sim.account());
        let migration = sim.intent::<Migration>(0).expect("the migration");
        assert_eq!(migration.status.phase, Phase::Completed);
        assert!(sim.violations().is_empty());
        (runs, lines) = (runs + 1, lines + u64::from(sim.lines));
    }
    (runs, lines)
}
