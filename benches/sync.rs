//! What sync costs: time, requests and memory, on a real API server and in processes of their own.
//!
//! `just bench` runs all rows; `cargo bench --bench sync -- ROW [SIZE…]` one of them: `changed` (the changed set of one
//! file among many), `scale` (restart, memory and idling at each size), `push` (from a push to its first write), `apply`
//! (first apply, beside a bare loop and kubectl), `plan` (cold, with and without dry-runs), `hook` (from a webhook to the look
//! that it causes).
//! Needs `git`, and the programs of `just kube-tools` for all rows but `changed` and `hook`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that measures"
)]

#[path = "sync/apply.rs"]
mod apply;
#[path = "sync/child.rs"]
mod child;
#[path = "sync/fleet.rs"]
mod fleet;
#[path = "sync/hook.rs"]
mod hook;
#[path = "sync/preview.rs"]
mod preview;

use std::time::{Duration, Instant, SystemTime};

use child::{Child, State};
use cutover::repo::{Options, Repo};
use cutover_testing::real;
use fleet::Fleet;
use tokio_util::sync::CancellationToken;

const SIZES: [usize; 5] = [100, 1_000, 4_000, 10_000, 50_000];
const PUSHES: usize = 60;
/// How often the ways are measured in turn.
const ROUNDS: usize = 3;
/// After how long a reconciler that is ready has begun all its watches.
const STARTED: Duration = Duration::from_secs(2);
/// How long a reconciler is watched while nothing changes; it polls every second.
const IDLE: Duration = Duration::from_secs(30);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    match args.as_slice() {
        ["child", kubeconfig, url, state] => runtime.block_on(child::run(kubeconfig, url, state)),
        ["changed", sizes @ ..] => runtime.block_on(changed(&sizes_of(sizes, &[1_000, 10_000, 100_000]))),
        ["scale", sizes @ ..] => runtime.block_on(scale(&sizes_of(sizes, &SIZES))),
        ["push", sizes @ ..] => runtime.block_on(push(&sizes_of(sizes, &[1_000, 10_000]))),
        ["apply", sizes @ ..] => runtime.block_on(applied(&sizes_of(sizes, &[400, 4_000]))),
        ["plan", sizes @ ..] => runtime.block_on(planned(&sizes_of(sizes, &[1_000, 10_000]))),
        ["hook", counts @ ..] => runtime.block_on(hooked(&sizes_of(counts, &[1_000]))),
        _ => {
            runtime.block_on(hooked(&[1_000]));
            runtime.block_on(changed(&[1_000, 10_000, 100_000]));
            runtime.block_on(scale(&SIZES));
            runtime.block_on(push(&[1_000, 10_000]));
            runtime.block_on(applied(&[400, 4_000]));
            runtime.block_on(planned(&[1_000, 10_000]));
        }
    }
}

fn sizes_of(args: &[&str], usual: &[usize]) -> Vec<usize> {
    if args.is_empty() {
        return usual.to_vec();
    }
    args.iter()
        .map(|size| size.replace('_', "").parse().unwrap())
        .collect()
}

/// A webhook: from the first byte of the request to the look at Git that it causes.
async fn hooked(counts: &[usize]) {
    println!("\n| webhooks | to the look p50 | p99 |\n|---|---|---|");
    for &count in counts {
        let mut delays = hook::delays(count).await;
        delays.sort();
        let at = |part: usize| delays[(delays.len() - 1) * part / 100];
        println!("| {count} | {:.2?} | {:.2?} |", at(50), at(99));
    }
}

/// One file changed among many: from two revisions to the set of files that differ.
async fn changed(sizes: &[usize]) {
    println!("\n| files | fetch p50 | changed set p50 | p99 |\n|---|---|---|---|");
    for &size in sizes {
        let fleet = Fleet::of(size);
        let state = tempfile::tempdir().unwrap();
        let options = Options::new(fleet.url(), "main", state.path());
        let repo = Repo::open(options, CancellationToken::new()).await.unwrap();
        let mut last = repo.fetch().await.unwrap().revision;
        let (mut fetches, mut walks) = (Vec::new(), Vec::new());
        for round in 0..200 {
            fleet.change(round * 37, round);
            let begun = Instant::now();
            let tip = repo.fetch().await.unwrap().revision;
            fetches.push(begun.elapsed());
            let begun = Instant::now();
            let changes = repo
                .changed(Some(last), tip.clone(), &[] as &[&str])
                .await
                .unwrap();
            walks.push(begun.elapsed());
            assert_eq!(changes.files.len(), 1);
            last = tip;
        }
        println!(
            "| {size} | {} | {} | {} |",
            ms(at(&mut fetches, 50)),
            ms(at(&mut walks, 50)),
            ms(at(&mut walks, 99)),
        );
    }
}

/// At each size: a reconciler that applies everything, and then one that finds everything in sync.
async fn scale(sizes: &[usize]) {
    let Some(server) = real::shared("bench").await else {
        return;
    };
    println!(
        "\n| objects | first apply | Git read | lists | decided | ready | writes | memory | peak | idle: requests | CPU a poll |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
    );
    let state = tempfile::tempdir().unwrap();
    let mut fleet = Fleet::of(0);
    for &size in sizes {
        fleet.grow(size);
        let applying = Child::start(&server.kubeconfig(), &fleet.url().to_string(), state.path());
        let applied = applying.synced(size).await;
        drop(applying);
        let begun = Child::start(&server.kubeconfig(), &fleet.url().to_string(), state.path());
        let ready = begun.synced(size).await;
        // The watches begin once the first lists are there.
        tokio::time::sleep(STARTED).await;
        let before = begun.state();
        tokio::time::sleep(IDLE).await;
        let idle = begun.state();
        println!(
            "| {size} | {:.1} s | {} | {} | {} | {} | {} | {} MiB | {} MiB | {} | {:.1} ms |",
            applied.synced_ms / 1e3,
            told(ready.read_ms),
            told(ready.listed_ms),
            told(ready.synced_ms - ready.listed_ms.max(ready.read_ms)),
            told(ready.synced_ms),
            ready.writes,
            idle.resident_kib / 1024,
            idle.peak_kib / 1024,
            idle.requests - before.requests,
            (idle.cpu_ms - before.cpu_ms) / (idle.polls - before.polls).max(1) as f64,
        );
    }
}

/// From the moment that a branch moves to the moment that its change is sent.
async fn push(sizes: &[usize]) {
    let Some(server) = real::shared("bench").await else {
        return;
    };
    println!("\n| files | push to first write p50 | p99 |\n|---|---|---|");
    let state = tempfile::tempdir().unwrap();
    let mut fleet = Fleet::of(0);
    for &size in sizes {
        fleet.grow(size);
        let child = Child::start(&server.kubeconfig(), &fleet.url().to_string(), state.path());
        child.synced(size).await;
        let mut waits = Vec::new();
        for round in 0..PUSHES {
            let before = child.state();
            let pushed = SystemTime::now();
            fleet.change(round * 37, round + size);
            let after = child.until(|state: &State| state.writes > before.writes).await;
            let micros = pushed.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
            let wait = after.last_write_micros - u64::try_from(micros).unwrap();
            waits.push(Duration::from_micros(wait));
        }
        println!(
            "| {size} | {} | {} |",
            ms(at(&mut waits, 50)),
            ms(at(&mut waits, 99))
        );
    }
}

/// The same objects applied for the first time in three ways, in turn.
async fn applied(sizes: &[usize]) {
    let Some(server) = real::shared("bench").await else {
        return;
    };
    println!(
        "\n| objects | bare loop | cutover | of it Git and lists | × bare | kubectl apply --server-side |\n|---|---|---|---|---|---|"
    );
    for &size in sizes {
        for round in 0..ROUNDS {
            let times = apply::first(server, size, round).await;
            let kubectl = times.kubectl.map_or("none here".to_owned(), seconds);
            println!(
                "| {size} | {} | {} | {} | {:.2} | {kubectl} |",
                seconds(times.bare),
                seconds(times.cutover),
                seconds(times.before),
                times.cutover.as_secs_f64() / times.bare.as_secs_f64(),
            );
        }
    }
}

/// Plans of the same objects, new and in sync, beside a loop of dry-runs.
async fn planned(sizes: &[usize]) {
    let Some(server) = real::shared("bench").await else {
        return;
    };
    println!(
        "\n| objects | loop of dry-runs | plan, all new | × raw throughput | plan, in sync | × faster | kubectl diff |\n\
         |---|---|---|---|---|---|---|"
    );
    for &size in sizes {
        for round in 0..ROUNDS {
            let times = preview::cold(server, size, round).await;
            let kubectl = times.kubectl.map_or("none here".to_owned(), |(count, taken)| {
                format!("{} for {count}", seconds(taken))
            });
            println!(
                "| {size} | {} | {} | {:.2} | {} | {:.1} | {kubectl} |",
                seconds(times.raw),
                seconds(times.new),
                times.raw.as_secs_f64() / times.new.as_secs_f64(),
                seconds(times.in_sync),
                times.new.as_secs_f64() / times.in_sync.as_secs_f64(),
            );
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

fn at(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * percent / 100).min(times.len() - 1)]
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

fn told(ms: f64) -> String {
    if ms < 1e3 {
        format!("{ms:.0} ms")
    } else {
        format!("{:.2} s", ms / 1e3)
    }
}
