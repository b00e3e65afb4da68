//! Troubles drawn from seeds. `CUTOVER_SEEDS` says how many seeds there are, `CUTOVER_FIRST_SEED` which is the first: one
//! seed gives one history, so a failure that names its seed can be run again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cutover::api::Phase;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::faults::{Effect, Plan, Rule, Span};

use super::{MOVE, moving};
use crate::support::fleet::Fleet;

/// Few enough for every run of the tests.
const SEEDS: u64 = 4;

#[test]
fn requests_that_fail_or_lose_their_answers_only_delay_a_migration() {
    from_seeds(|seed| async move { disturbed(seed, "orders:2.0").await });
}

#[test]
fn requests_that_fail_or_lose_their_answers_only_delay_a_way_back() {
    from_seeds(|seed| async move { disturbed(seed, "orders:broken").await });
}

#[test]
fn whatever_goes_wrong_for_a_while_a_migration_ends() {
    from_seeds(|seed| async move { troubled(seed, "orders:2.0").await });
}

#[test]
fn whatever_goes_wrong_for_a_while_a_way_back_ends() {
    from_seeds(|seed| async move { troubled(seed, "orders:broken").await });
}

/// One request in five meets something: refused, lost, carried out without an answer, late.
async fn disturbed(seed: u64, image: &str) {
    let options = WorldOptions {
        seed,
        ..WorldOptions::fast()
    };
    let (fleet, _controller) = moving(image, options).await;
    let effects = [
        Effect::Refuse(500),
        Effect::Refuse(429),
        Effect::Lose,
        Effect::LoseAnswer,
        Effect::Delay(Span::millis(10, 2000)),
    ];
    for effect in effects {
        fleet.world.faults().requests(Rule::new(effect).probability(0.04));
    }
    ends_clean(&fleet, image).await;
}

/// Frozen and replaced controllers, caches that lag, members that are cut off, requests that fail: a dozen, each for a while.
async fn troubled(seed: u64, image: &str) {
    let options = WorldOptions {
        seed,
        ..WorldOptions::default()
    };
    let members = options.members.clone();
    let (fleet, _controller) = moving(image, options).await;
    let plan = Plan::random(seed, 12, Duration::from_secs(40), &members);
    let troubles = tokio::spawn(plan.clone().run(fleet.world.faults().clone()));
    ends_clean(&fleet, image).await;
    troubles.abort();
}

/// Slow enough, it may come to the way back even with a good image.
async fn ends_clean(fleet: &Fleet, image: &str) {
    let cluster = match (fleet.ended(MOVE).await, image) {
        (Phase::Completed, "orders:2.0") => "west",
        (Phase::RolledBack, _) => "east",
        (ended, _) => panic!("ended as {ended}: {:#}", fleet.status(MOVE)),
    };
    fleet.assert_clean_in(cluster);
}

/// Each seed has a world, a clock and a thread's runtime of its own.
fn from_seeds<F: Future<Output = ()>>(test: impl Fn(u64) -> F + Sync) {
    let (count, first) = (setting("CUTOVER_SEEDS", SEEDS), setting("CUTOVER_FIRST_SEED", 1));
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let run = || {
                        let mut builder = tokio::runtime::Builder::new_current_thread();
                        builder
                            .enable_all()
                            .start_paused(true)
                            .build()
                            .unwrap()
                            .block_on(test(seed));
                    };
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
                        failures.lock().unwrap().push(seed);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {count} seeds: {failures:?}",
        failures.len()
    );
}

fn setting(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => otherwise,
    }
}
