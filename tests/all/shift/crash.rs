//! The controller is killed before and after every write that a shift makes, and another one finishes what it began.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::reconcile::intents::{Nobody, Side, Witness};
use serde_json::{Value, json};

use super::stage::{Stage, duplicated};
use crate::crash::{Line, Recorder, Trap};
use crate::support::fleet::POLICIES;

#[derive(Clone, Copy)]
struct Scenario {
    aborts: bool,
    ends: &'static str,
    /// How many replicas are left where, in the end.
    left: &'static [(&'static str, u64)],
}

const COMPLETES: Scenario = Scenario {
    aborts: false,
    ends: "Completed",
    left: &[("west", 2)],
};
const GOES_BACK: Scenario = Scenario {
    aborts: true,
    ends: "Aborted",
    left: &[("east", 2)],
};

#[test]
fn killed_at_any_line_a_shift_still_completes_and_the_floor_holds() {
    kill_everywhere(COMPLETES);
}

#[test]
fn killed_at_any_line_a_shift_still_goes_back_and_the_floor_holds() {
    kill_everywhere(GOES_BACK);
}

fn kill_everywhere(scenario: Scenario) {
    let all = run(record(scenario));
    assert!(all.len() > 40, "a run has more lines than that: {all:#?}");
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
                    let killed = std::panic::catch_unwind(|| run(kill_at(scenario, line.clone())));
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

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

fn spec(scenario: Scenario) -> Value {
    let abort = scenario.aborts;
    json!({"percentages": [50, 100], "abort": abort})
}

/// Asks for the shift, and later for what ends it; both stand in Git, whoever reconciles.
async fn play(stage: &Stage, scenario: Scenario) {
    let half_way = |stage: &Stage| {
        let moved = stage.status("go")["moved"].clone();
        moved == "1/2" || moved == "2/2"
    };
    // Killed at one of its last lines, it had come to its end before.
    let has_ended = || stage.status("go")["phase"] == scenario.ends;
    if scenario.aborts {
        stage
            .until("half has gone", || half_way(stage) || has_ended())
            .await;
        stage.shift("go", spec(scenario));
    } else {
        stage
            .until("it rests", || {
                stage.status("go")["phase"] == "Shifted" || has_ended()
            })
            .await;
        stage.fleet.apply(&POLICIES, duplicated(&["west"]));
    }
    stage.until("it ends", has_ended).await;
    stage.settled(scenario.left).await;
    stage.assert_clean();
}

async fn begin() -> Stage {
    Stage::without_controller(&duplicated(&["east"]), 2, Duration::from_millis(100)).await
}

async fn record(scenario: Scenario) -> Vec<Line> {
    let mut stage = begin().await;
    let floor = stage.watch_floor(2);
    let recorder = Arc::new(Recorder::default());
    stage.lead(Arc::clone(&recorder) as Arc<dyn Witness>);
    stage.shift("go", json!({"percentages": [50, 100]}));
    play(&stage, scenario).await;
    let is_last = |line: &Line| line.0.ends_with("remove the finalizer") && line.1 == Side::After;
    stage
        .until("the last write is done", || {
            recorder.0.lock().unwrap().lines.last().is_some_and(is_last)
        })
        .await;
    floor.held();
    recorder.0.lock().unwrap().lines.clone()
}

async fn kill_at(scenario: Scenario, line: Line) {
    let mut stage = begin().await;
    let floor = stage.watch_floor(2);
    let trap = Arc::new(Trap::at(line.clone()));
    stage.lead(Arc::clone(&trap) as Arc<dyn Witness>);
    stage.shift("go", json!({"percentages": [50, 100]}));
    let killed = async {
        let played = play(&stage, scenario);
        tokio::select! {
            () = trap.sprung.notified() => true,
            () = played => false,
        }
    };
    let killed = tokio::time::timeout(Duration::from_mins(15), killed).await;
    // The last write comes after the end.
    let sprung = killed.expect("it comes to an end") || line.0.ends_with("remove the finalizer");
    assert!(sprung, "never came to {line:?}");
    stage.kill_controller().await;
    // Long enough that nothing of the dead one is under way, and that whatever may go wrong does.
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.lead(Arc::new(Nobody));
    play(&stage, scenario).await;
    floor.held();
}
