//! The controller is killed before and after every write that a migration makes, and another one finishes what it began.
//!
//! The points are those that a whole run reports; a point that a killed run doesn't come to fails the test.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::{Nobody, Point, Side, Witness};
use cutover::sandbox::WorldOptions;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::support::fleet::{Fleet, job};

/// A line between two writes: what is written, which side of it, and the how-manieth time.
pub type Line = (String, Side, usize);

#[derive(Clone, Copy)]
struct Scenario {
    image: &'static str,
    ends: Phase,
    in_cluster: &'static str,
}

const COMPLETES: Scenario = Scenario {
    image: "orders:2.0",
    ends: Phase::Completed,
    in_cluster: "west",
};
const ROLLS_BACK: Scenario = Scenario {
    image: "orders:broken",
    ends: Phase::RolledBack,
    in_cluster: "east",
};

#[test]
fn killed_at_any_line_a_migration_still_completes() {
    kill_everywhere(COMPLETES);
}

#[test]
fn killed_at_any_line_a_migration_still_rolls_back() {
    kill_everywhere(ROLLS_BACK);
}

fn kill_everywhere(scenario: Scenario) {
    let all = run(record(scenario));
    assert!(all.len() > 60, "a run has more lines than that: {all:#?}");
    at_each_line(all, |line| run(kill_at(scenario, line)));
}

/// Does something for every line of a run.
pub fn at_each_line(all: Vec<Line>, kill: impl Fn(Line) + Sync + std::panic::RefUnwindSafe) {
    // One that is refused, because what was read isn't so any more, has no line after it.
    for pair in all.windows(2) {
        if let [(before, _, _), (after, Side::After, _)] = pair {
            assert_eq!(before, after, "writes overlap: {pair:?}");
        }
    }
    let first = all.first().cloned();
    let lines: Vec<Line> = first
        .into_iter()
        .chain(all.into_iter().filter(|line| line.1 == Side::After))
        .collect();
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let line = line.clone();
                    let killed = std::panic::catch_unwind(|| kill(line.clone()));
                    if killed.is_err() {
                        failures.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} lines: {failures:#?}",
        failures.len(),
        lines.len()
    );
}

/// Each world has a thread's runtime and a paused clock of its own.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

async fn begin(scenario: Scenario) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.want(job(scenario.image));
    fleet
}

async fn record(scenario: Scenario) -> Vec<Line> {
    let fleet = begin(scenario).await;
    let recorder = Arc::new(Recorder::default());
    let _controller = fleet.controller(Arc::clone(&recorder) as Arc<dyn Witness>);
    fleet.migrate("move", "west");
    assert_eq!(fleet.ended("move").await, scenario.ends);
    let is_last = |line: &Line| line.0.ends_with("remove the finalizer") && line.1 == Side::After;
    fleet
        .until("the last write is done", |_| {
            recorder.0.lock().unwrap().lines.last().is_some_and(is_last)
        })
        .await;
    fleet.assert_clean_in(scenario.in_cluster);
    recorder.0.lock().unwrap().lines.clone()
}

async fn kill_at(scenario: Scenario, line: Line) {
    let fleet = begin(scenario).await;
    let trap = Arc::new(Trap::at(line.clone()));
    let controller = fleet.controller(Arc::clone(&trap) as Arc<dyn Witness>);
    fleet.migrate("move", "west");
    let sprung = tokio::time::timeout(Duration::from_mins(10), trap.sprung.notified()).await;
    assert!(sprung.is_ok(), "never came to {line:?}");
    controller.kill().await;
    // Long enough that nothing of the dead one is under way, and that whatever may go wrong does.
    tokio::time::sleep(Duration::from_secs(2)).await;
    fleet.assert_one_writer();
    let _next = fleet.controller(Arc::new(Nobody));
    assert_eq!(
        fleet.ended("move").await,
        scenario.ends,
        "after {line:?}: {:#}",
        fleet.status("move")
    );
    fleet.assert_clean_in(scenario.in_cluster);
}

#[derive(Default)]
pub struct Lines {
    pub lines: Vec<Line>,
    counts: BTreeMap<(String, Side), usize>,
}

impl Lines {
    fn add(&mut self, point: &Point) -> Line {
        let count = self.counts.entry((point.what.clone(), point.side)).or_default();
        *count += 1;
        let line = (point.what.clone(), point.side, *count);
        self.lines.push(line.clone());
        line
    }
}

#[derive(Default)]
pub struct Recorder(pub Mutex<Lines>);

impl Witness for Recorder {
    fn reached<'a>(&'a self, point: &'a Point) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().add(point);
        Box::pin(std::future::ready(()))
    }
}

/// Stops at one line and says so; what comes after it is never reached.
pub struct Trap {
    line: Line,
    seen: Mutex<Lines>,
    pub sprung: Notify,
}

impl Trap {
    pub fn at(line: Line) -> Self {
        Self {
            line,
            seen: Mutex::default(),
            sprung: Notify::new(),
        }
    }
}

impl Witness for Trap {
    fn reached<'a>(&'a self, point: &'a Point) -> BoxFuture<'a, ()> {
        let line = self.seen.lock().unwrap().add(point);
        if line != self.line {
            return Box::pin(std::future::ready(()));
        }
        self.sprung.notify_one();
        Box::pin(std::future::pending())
    }
}
