use jiff::Timestamp;
use serde_json::json;

use super::{Input, Operation, restored, step};
use crate::api::{ENDED_FORMAT, Finding, MigrationStatus, PLAIN_FORMAT, Phase};
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

/// The journal as it was restored may be older than what the target did last.
#[test]
fn a_target_whose_journal_went_back_may_have_run_since_it_left_its_handle() {
    let ended = include_str!("../../api/ended/completed.json");
    let mut status: MigrationStatus = serde_json::from_str(ended).unwrap();
    status.phase = Phase::RollingBack;
    let journal = status.journal.as_mut().unwrap();
    let spec = (*journal.spec).clone();
    let back = json!({
        "reason": "abort was asked for", "fromPhase": "Handoff", "since": "2026-01-01T00:00:00Z", "endsAs": "Aborted",
        "restart": true, "targetCaptured": true, "stage": "Taken",
    });
    journal.roll_back = Some(serde_json::from_value(back).unwrap());
    let snapshot = Snapshot::unread(spec.workload.key(Some("shop")), "not asked");
    let left_all = |status: &MigrationStatus| {
        let input = Input {
            uid: "uid",
            namespace: Some("shop"),
            name: "orders-to-west",
            generation: 1,
            revision: None,
            deleting: false,
            overtaken: None,
            has_finalizer: true,
            spec: &spec,
            status,
            trouble: None,
            ahead: None,
            snapshot: &snapshot,
            now: Timestamp::UNIX_EPOCH,
        };
        Operation::of(&input).left_all().ok()
    };
    assert_eq!(left_all(&status), Some(true));
    let went_back = Finding::new(restored::CODE, "it was restored", "look");
    status.common.findings.push(went_back);
    assert_eq!(left_all(&status), Some(false));
}
