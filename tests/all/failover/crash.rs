//! The controller is killed after every write of a failover, and another one finishes what it began.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::reconcile::intents::{Nobody, Point, Side, Witness};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;

use super::stage::{
    guarded_in, known, one_writer, phase_is, plan, purge_mode, savepoint, status, taint, unled, until,
};
use crate::support::fleet::Fleet;

/// What is written, and the how-manieth time.
type Line = (String, usize);

#[test]
fn killed_after_any_write_a_failover_still_ends_with_one_writer_and_its_state() {
    let all = run(record());
    assert!(all.len() > 25, "a run has more lines than that: {all:#?}");
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(line) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let line = line.clone();
                    if std::panic::catch_unwind(|| run(kill_after(line.clone()))).is_err() {
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
        all.len()
    );
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// A guarded job whose state is known; the controller that did it is gone.
async fn begin() -> Fleet {
    let fleet = unled().await;
    purge_mode(&fleet, "Gracefully");
    let before = fleet.controller(Arc::new(Nobody));
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    before.kill().await;
    fleet
}

async fn ended(fleet: &Fleet) {
    until(fleet, "it has moved", |fleet| {
        let status = status(fleet);
        let writer = status["writer"].as_str().unwrap_or("east");
        phase_is(fleet, cutover::api::FailoverPhase::Guarding) && writer != "east" && fleet.runs_in(writer)
    })
    .await;
}

async fn record() -> Vec<Line> {
    let fleet = begin().await;
    let recorder = Arc::new(Lines::default());
    let _controller = fleet.controller(Arc::clone(&recorder) as Arc<dyn Witness>);
    taint(&fleet, "east");
    ended(&fleet).await;
    one_writer(&fleet);
    recorder.seen.lock().unwrap().0.clone()
}

async fn kill_after(line: Line) {
    let fleet = begin().await;
    let trap = Arc::new(Lines {
        stop_at: Some(line.clone()),
        ..Lines::default()
    });
    let controller = fleet.controller(Arc::clone(&trap) as Arc<dyn Witness>);
    taint(&fleet, "east");
    let sprung = tokio::time::timeout(Duration::from_mins(10), trap.sprung.notified()).await;
    assert!(sprung.is_ok(), "never came to {line:?}");
    controller.kill().await;
    // Long enough that whatever may go wrong does.
    tokio::time::sleep(Duration::from_secs(2)).await;
    one_writer(&fleet);
    let _next = fleet.controller(Arc::new(Nobody));
    ended(&fleet).await;
    one_writer(&fleet);
    assert_eq!(
        status(&fleet)["history"].as_array().unwrap().len(),
        1,
        "after {line:?}"
    );
}

/// Notes the lines after writes, and stops at one of them.
#[derive(Default)]
struct Lines {
    stop_at: Option<Line>,
    seen: Mutex<(Vec<Line>, BTreeMap<String, usize>)>,
    sprung: Notify,
}

impl Witness for Lines {
    fn reached<'a>(&'a self, point: &'a Point) -> BoxFuture<'a, ()> {
        if point.side == Side::Before {
            return Box::pin(std::future::ready(()));
        }
        let mut seen = self.seen.lock().unwrap();
        let count = seen.1.entry(point.what.clone()).or_default();
        *count += 1;
        let line = (point.what.clone(), *count);
        seen.0.push(line.clone());
        if self.stop_at.as_ref() != Some(&line) {
            return Box::pin(std::future::ready(()));
        }
        self.sprung.notify_one();
        Box::pin(std::future::pending())
    }
}
