//! The controller is killed before and after every write that a shift makes, and another one finishes what it began.

use std::time::Duration;

use serde_json::json;

use super::stage::{Stage, duplicated};
use crate::support::fleet::{Fleet, POLICIES};
use crate::support::floor::Floor;
use crate::support::killed::at_any_line_of;

/// A shift, and who looks at the ready replicas all the time.
struct Watched {
    stage: Stage,
    floor: Floor,
}

impl AsRef<Fleet> for Watched {
    fn as_ref(&self) -> &Fleet {
        &self.stage.fleet
    }
}

#[test]
fn killed_at_any_line_a_shift_still_completes_and_the_floor_holds() {
    // It rests until the policy says the same.
    kill_everywhere("Completed", &[("west", 2)], async |stage| {
        let rests = || stage.status("go")["phase"] == "Shifted" || has_ended(stage, "Completed");
        stage.until("it rests", rests).await;
        stage.fleet.apply(&POLICIES, duplicated(&["west"]));
    });
}

#[test]
fn killed_at_any_line_a_shift_still_goes_back_and_the_floor_holds() {
    kill_everywhere("Aborted", &[("east", 2)], async |stage| {
        let half_way = || {
            let moved = stage.status("go")["moved"].clone();
            moved == "1/2" || moved == "2/2" || has_ended(stage, "Aborted")
        };
        stage.until("half has gone", half_way).await;
        stage.shift("go", json!({"percentages": [50, 100], "abort": true}));
    });
}

fn has_ended(stage: &Stage, phase: &str) -> bool {
    stage.status("go")["phase"] == phase
}

/// `goes_on` waits for what comes, and says what ends it.
fn kill_everywhere(
    ends: &str,
    left: &[(&str, u64)],
    goes_on: impl AsyncFn(&Stage) + Sync + std::panic::RefUnwindSafe,
) {
    let begin = async || {
        let policy = duplicated(&["east"]);
        let stage = Stage::without_controller(&policy, 2, Duration::from_millis(100)).await;
        let floor = stage.watch_floor(2);
        Watched { stage, floor }
    };
    let play = async |Watched { stage, .. }: &Watched| {
        stage.shift("go", json!({"percentages": [50, 100]}));
        goes_on(stage).await;
        stage.until("it ends", || has_ended(stage, ends)).await;
        stage.settled(left).await;
        // It ends when no Work has a marker; from the copies Karmada takes them after.
        let is_unmarked = || left.iter().all(|(cluster, _)| !stage.is_marked(cluster));
        stage.until("no copy has a marker", is_unmarked).await;
    };
    let ended = |watched: &Watched| {
        watched.stage.assert_clean();
        watched.floor.held();
    };
    at_any_line_of("ReplicaShift")
        .more_than(40)
        .within(Duration::from_mins(15))
        .each_time(begin, play, ended);
}
