//! The controller is killed at every line between two writes of a failover, and another one finishes what it began: for each
//! purge mode, with the old cluster in reach and without.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::FailoverPhase;
use cutover::reconcile::intents::NoFailpoints;
use serde_json::{Value, json};

use super::stage::{
    guarded_in, known, last_move, lose, one_writer, phase_is, plan, power_off, power_on, purge_mode,
    savepoint, started_from, status, taint, tasks, unled, until, unwell, well,
};
use crate::support::fleet::{CLAIMS, Fleet, PINS};
use crate::support::killed::at_any_line_of;

/// What happens to a job in east that is guarded, and whose state is known.
#[derive(Clone, Copy)]
pub struct Scenario {
    pub mode: &'static str,
    pub source: Source,
    /// Where the state comes from in the end.
    pub state: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Source {
    /// It is seen all the while.
    Reachable,
    /// Nobody sees it any more, its nodes have no power, and it comes back when it has moved.
    Lost,
}

const GRACEFULLY: Scenario = Scenario {
    mode: "Gracefully",
    source: Source::Reachable,
    state: "Captured",
};
pub const DIRECTLY: Scenario = Scenario {
    mode: "Directly",
    source: Source::Reachable,
    state: "LastKnown",
};
const NEVER: Scenario = Scenario {
    mode: "Never",
    source: Source::Reachable,
    state: "Captured",
};
const DIRECTLY_LOST: Scenario = Scenario {
    mode: "Directly",
    source: Source::Lost,
    state: "LastKnown",
};
pub const NEVER_LOST: Scenario = Scenario {
    mode: "Never",
    source: Source::Lost,
    state: "LastKnown",
};

#[test]
fn killed_at_any_line_a_failover_still_ends_with_one_writer_and_its_state() {
    kill_everywhere(GRACEFULLY);
}

#[test]
fn killed_at_any_line_while_the_old_copy_is_deleted_it_still_ends_with_one_writer() {
    kill_everywhere(DIRECTLY);
}

#[test]
fn killed_at_any_line_until_the_copy_that_is_kept_is_purged_it_still_ends_with_one_writer() {
    kill_everywhere(NEVER);
}

#[test]
fn killed_at_any_line_until_the_lost_cluster_is_back_it_still_ends_with_one_writer() {
    kill_everywhere(DIRECTLY_LOST);
}

#[test]
fn killed_at_any_line_until_the_copy_that_is_kept_in_a_lost_cluster_is_held_it_still_ends_with_one_writer() {
    kill_everywhere(NEVER_LOST);
}

fn kill_everywhere(scenario: Scenario) {
    let play = async |fleet: &Fleet| {
        scenario.strike(fleet).await;
        scenario.ended(fleet).await;
    };
    // What comes by itself, at rest, is no line of the failover.
    at_any_line_of("FailoverPlan")
        .more_than(50)
        .within(Duration::from_mins(30))
        .without_end()
        .each_time(
            async || scenario.begin().await,
            play,
            |fleet| scenario.assert_ended(fleet),
        );
}

impl Scenario {
    /// A guarded job whose state is known; the controller that did it is gone.
    pub async fn begin(self) -> Fleet {
        let fleet = unled().await;
        purge_mode(&fleet, self.mode);
        let before = fleet.controller(Arc::new(NoFailpoints));
        plan(&fleet, self.spec());
        guarded_in(&fleet, "east").await;
        let handle = savepoint(&fleet, "east").await;
        known(&fleet, &handle).await;
        before.kill().await;
        fleet
    }

    fn spec(self) -> Value {
        let fenced = json!({"proceedAfter": "1m", "fencedBy": "NodeFencing"});
        let purge = json!({"gate": "Purge", "cluster": "east", "attempt": 1, "by": "ann"});
        match (self.mode, self.source) {
            ("Never", Source::Reachable) => json!({"purge": {"confirm": true}, "approvals": [purge]}),
            (_, Source::Reachable) => json!({}),
            (_, Source::Lost) => json!({"sourceUnreachable": fenced}),
        }
    }

    /// Karmada evicts it, whatever the controller does meanwhile.
    pub async fn strike(self, fleet: &Fleet) {
        match (self.mode, self.source) {
            // Karmada never purges for applications alone.
            ("Never", source) => {
                unwell(fleet, "east");
                until(fleet, "it is evicted", |fleet| !tasks(fleet).is_empty()).await;
                if source == Source::Reachable {
                    well(fleet, "east");
                } else {
                    fleet.world.faults().partition("east");
                    power_off(fleet, "east");
                }
            }
            (_, Source::Reachable) => taint(fleet, "east"),
            (_, Source::Lost) => {
                lose(fleet, "east");
                power_off(fleet, "east");
            }
        }
    }

    /// It runs elsewhere, from the state that is to be expected, and of the old copy there is what is to be there.
    pub async fn ended(self, fleet: &Fleet) {
        until(fleet, "it has moved", has_moved).await;
        one_writer(fleet);
        if self.source == Source::Lost {
            fleet.world.faults().heal("east");
            well(fleet, "east");
        }
        let old_copy: &dyn Fn(&Fleet) -> bool = match (self.mode, self.source) {
            ("Never", Source::Lost) => &|fleet| {
                let copy = fleet.copy("east");
                copy.is_some_and(|copy| copy["spec"]["job"]["state"] == "suspended")
            },
            (_, Source::Lost) => &|fleet| {
                let copy = fleet.copy("east");
                copy.is_none_or(|copy| !copy["metadata"]["deletionTimestamp"].is_null())
            },
            (_, Source::Reachable) => &|fleet| fleet.copy("east").is_none(),
        };
        until(fleet, "the old copy is held or goes", old_copy).await;
        if self.source == Source::Lost {
            power_on(fleet, "east");
        }
        let kept = self.mode == "Never" && self.source == Source::Lost;
        until(
            fleet,
            "it guards, and knows of no old copy but a kept one",
            |fleet| {
                let (status, guards) = (status(fleet), phase_is(fleet, FailoverPhase::Guarding));
                let old = status["oldCopies"].as_object().map_or(0, serde_json::Map::len);
                guards && status["waitingFor"].is_null() && old == usize::from(kept)
            },
        )
        .await;
    }

    pub fn assert_ended(self, fleet: &Fleet) {
        one_writer(fleet);
        let (status, done) = (status(fleet), last_move(fleet));
        let writer = status["writer"].as_str().unwrap();
        assert!(writer != "east" && fleet.runs_in(writer), "{status:#}");
        assert!(!fleet.runs_in("east"));
        assert_eq!(status["history"].as_array().map(Vec::len), Some(1), "{status:#}");
        assert_eq!(done["state"]["source"], self.state, "{done:#}");
        assert_eq!(done["state"]["values"]["savepoint"], started_from(fleet, writer));
        assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    }
}

pub fn has_moved(fleet: &Fleet) -> bool {
    let status = status(fleet);
    let writer = status["writer"].as_str().unwrap_or("east");
    phase_is(fleet, FailoverPhase::Guarding) && writer != "east" && fleet.runs_in(writer)
}
