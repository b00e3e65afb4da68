//! What decisions cost: an expression of a profile on an object, and a push that changes one policy.
//!
//! `cargo bench --bench decision -- ROW`: `profile` (the costliest expression of each built-in profile, on the objects of
//! `tests/all/profiles`, beside reading and copying the object), `push [WORKLOADS…]` (what the gate makes of a changed policy, and
//! the Migrations that it calls for, without I/O, beside a policy that has not changed), `whole [WORKLOADS…]` (from such a push to
//! the request that creates its Migration, with all reads of a control plane in this process).
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

#[path = "decision/profile.rs"]
mod profile;
#[path = "decision/push.rs"]
mod push;
#[path = "decision/whole.rs"]
mod whole;

use std::time::{Duration, Instant};

/// How many workloads there are, where nothing else is asked for.
const SIZES: [usize; 2] = [10, 1_000];
/// How long something is measured at most, if it was measured often enough.
const ENOUGH: Duration = Duration::from_secs(5);
const LEAST: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["profile"] => profile::row(),
        ["push", sizes @ ..] => push::row(&sizes_of(sizes)),
        ["whole", sizes @ ..] => whole::row(&sizes_of(sizes)),
        _ => {
            profile::row();
            push::row(&SIZES);
            whole::row(&SIZES);
        }
    }
}

fn sizes_of(args: &[&str]) -> Vec<usize> {
    if args.is_empty() {
        return SIZES.to_vec();
    }
    args.iter().map(|size| size.parse().unwrap()).collect()
}

/// Does something up to so many times, and returns how long each time took, the shortest first.
fn times<T>(most: usize, mut what: impl FnMut() -> T) -> Vec<Duration> {
    let since = Instant::now();
    let mut times = Vec::new();
    while times.len() < most && (times.len() < LEAST || since.elapsed() < ENOUGH) {
        let begun = Instant::now();
        let made = what();
        times.push(begun.elapsed());
        // Freeing it is not what was asked for.
        drop(std::hint::black_box(made));
    }
    times.sort_unstable();
    times
}

/// Returns the time that so many percent were not above, of sorted ones.
fn at(times: &[Duration], percent: usize) -> Duration {
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

fn micros(time: Duration) -> String {
    format!("{:.2} µs", time.as_secs_f64() * 1e6)
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}
