use jiff::Timestamp;

use super::{Input, step};
use crate::api::{ENDED_FORMAT, MigrationStatus, PLAIN_FORMAT, Phase};
use crate::intent::snapshot::Snapshot;

/// What comes of one that has ended without a journal in its status, when its spec is edited.
fn edited(format: u32) -> MigrationStatus {
    let ended = include_str!("../../api/ended/completed.json");
    let mut status: MigrationStatus = serde_json::from_str(ended).unwrap();
    let spec = (*status.journal.take().unwrap().spec).clone();
    status.common.format = format;
    let snapshot = Snapshot::unread(spec.workload.key(Some("shop")), "the intent has ended");
    let step = step(&Input {
        uid: "uid",
        namespace: Some("shop"),
        name: "orders-to-west",
        generation: status.common.observed_generation + 1,
        revision: None,
        deleting: false,
        overtaken: None,
        has_finalizer: false,
        spec: &spec,
        status: &status,
        trouble: None,
        ahead: None,
        snapshot: &snapshot,
        now: Timestamp::UNIX_EPOCH,
    });
    assert!(step.effects.is_empty(), "{:?}", step.effects);
    step.status
}

#[test]
fn one_that_never_had_a_journal_is_asked_for_once_more_by_an_edit() {
    assert_eq!(edited(PLAIN_FORMAT).phase, Phase::Pending);
}

#[test]
fn one_whose_journal_was_taken_out_after_the_end_moves_nothing_by_an_edit_and_says_so() {
    let status = edited(ENDED_FORMAT);
    assert_eq!(status.phase, Phase::Completed);
    let told = status.common.findings.last().unwrap();
    assert_eq!(told.code, "JournalLost");
}
