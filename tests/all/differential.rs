//! The sandbox's API server beside a real one: the same requests to both, and their answers must be equal.
//!
//! A generator makes sequences of requests from a seed ([`generate`]). Each sequence has a namespace of its own on both
//! servers ([`run`]). Answers and watch events are compared once what has to differ (uids, times, revisions) is named
//! alike ([`normal`]), and what may differ is listed with its reason ([`accepted`]). A sequence that is answered
//! differently is made as short as it gets ([`shrink`]) and printed as a case that can be kept ([`cases`]).
//!
//! `CUTOVER_DIFFERENTIAL=COUNT`, `COUNT:SEED` or `COUNT:SEED:PLURAL` says how many sequences, which, and that all are
//! about one kind. Any that is answered differently fails the test.

mod accepted;
mod cases;
mod generate;
mod kinds;
mod normal;
mod run;
mod settle;
mod shrink;
mod step;
mod values;

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::{StreamExt, stream};

use run::{Difference, Pair};
use step::Step;

/// A sequence, its number, and how it is answered differently.
type Found = (usize, Vec<Step>, Difference);

/// Asks for a number of sequences, and for a report of whatever is answered differently.
const WANTED: &str = "CUTOVER_DIFFERENTIAL";

/// Sequences of a plain `cargo test`: less than a minute.
const COUNT: usize = 2000;

/// The seed of a plain `cargo test`, so that nobody's change fails by chance.
const SEED: u64 = 1;

/// Sequences at a time: enough to keep the real server busy.
const AT_A_TIME: usize = 12;

/// How many sorts of differences are shortened and printed.
const SHOWN: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_servers_answer_generated_requests_alike() {
    let Some(pair) = Pair::start("generated requests to both servers").await else {
        return;
    };
    let (count, seed, kind) = wanted();
    let pair = Arc::new(pair);
    let (next, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let found: Arc<Mutex<Vec<Found>>> = Arc::default();
    let workers = (0..AT_A_TIME).map(|_| {
        let kind = kind.clone();
        let (pair, next, requests, found) = (
            Arc::clone(&pair),
            Arc::clone(&next),
            Arc::clone(&requests),
            Arc::clone(&found),
        );
        tokio::spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return;
                }
                let steps = generate::sequence(seed, index, &kind);
                requests.fetch_add(steps.len(), Ordering::Relaxed);
                if let Some(difference) = pair.compare(&steps).await {
                    found.lock().unwrap().push((index, steps, difference));
                }
            }
        })
    });
    futures::future::try_join_all(workers.collect::<Vec<_>>())
        .await
        .unwrap();
    let mut found = std::mem::take(&mut *found.lock().unwrap());
    found.sort_by_key(|(index, ..)| *index);
    assert!(
        found.is_empty(),
        "{} of {count} sequences ({} requests) from seed {seed} are answered differently:\n{}",
        found.len(),
        requests.load(Ordering::Relaxed),
        report(&pair, &found).await,
    );
    let requests = requests.load(Ordering::Relaxed);
    if std::env::var_os(WANTED).is_some() {
        let _ = writeln!(
            std::io::stderr(),
            "{count} sequences ({requests} requests) from seed {seed} are answered alike"
        );
    }
}

/// Returns how many sequences are asked for, the seed, and the plural of a kind, if all are to be about that.
fn wanted() -> (usize, u64, String) {
    let wanted = std::env::var(WANTED).unwrap_or_default();
    let mut parts = wanted.split(':');
    let mut next = || parts.next().unwrap_or_default();
    let (count, seed) = (next().parse().unwrap_or(COUNT), next().parse().unwrap_or(SEED));
    (count, seed, next().to_owned())
}

/// Returns one short sequence for each sort of difference, the most frequent first.
async fn report(pair: &Pair, found: &[Found]) -> String {
    let mut sorts: BTreeMap<String, Vec<&Found>> = BTreeMap::new();
    for one in found {
        sorts.entry(one.2.sort()).or_default().push(one);
    }
    let mut sorts: Vec<_> = sorts.into_iter().collect();
    sorts.sort_by_key(|(_, found)| std::cmp::Reverse(found.len()));
    let reports = sorts.iter().enumerate().map(|(place, (sort, found))| async move {
        let heading = format!("\n== {} × {sort}\n", found.len());
        if place >= SHOWN {
            return heading;
        }
        let (index, steps, difference) = found[0];
        let (steps, difference) = shrink::shrink(pair, steps, difference).await;
        let steps = step::listing(&steps);
        format!("{heading}sequence {index}, shortened:\n{steps}told apart by{difference}\n")
    });
    let reports: Vec<String> = stream::iter(reports).buffered(AT_A_TIME).collect().await;
    reports.concat()
}
