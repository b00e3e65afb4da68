//! The controller is killed before and after every write that a migration makes, and another one finishes what it began.

use cutover::api::Phase;
use cutover::sandbox::WorldOptions;

use crate::support::fleet::{Fleet, job};
use crate::support::killed::at_any_line_of;

#[test]
fn killed_at_any_line_a_migration_still_completes() {
    kill_everywhere("orders:2.0", Phase::Completed, "west");
}

#[test]
fn killed_at_any_line_a_migration_still_rolls_back() {
    kill_everywhere("orders:broken", Phase::RolledBack, "east");
}

fn kill_everywhere(image: &str, ends: Phase, in_cluster: &str) {
    let begin = async || {
        let fleet = Fleet::start(WorldOptions::default()).await;
        fleet.want(job(image));
        fleet
    };
    let play = async |fleet: &Fleet| {
        fleet.migrate("move", "west");
        assert_eq!(fleet.ended("move").await, ends, "{:#}", fleet.status("move"));
    };
    let ended = |fleet: &Fleet| fleet.assert_clean_in(in_cluster);
    at_any_line_of("Migration")
        .more_than(60)
        .each_time(begin, play, ended);
}
