use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::{Input, Interrupt, Operation, Wait, restored, step};
use crate::api::{
    ConditionStatus, ENDED_FORMAT, Finding, MigrationSpec, MigrationStatus, PLAIN_FORMAT, Phase,
};
use crate::intent::placement;
use crate::intent::seen::{Read, Seen};
use crate::intent::snapshot::Snapshot;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, ClusterSpec, ResourceBinding, meta};

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

/// Returns one that takes everything back, and is so far with it.
fn on_its_way_back(stage: &str) -> MigrationStatus {
    let ended = include_str!("../../api/ended/completed.json");
    let mut status: MigrationStatus = serde_json::from_str(ended).unwrap();
    status.phase = Phase::RollingBack;
    let back = json!({
        "reason": "abort was asked for", "fromPhase": "Handoff", "since": "2026-01-01T00:00:00Z", "endsAs": "Aborted",
        "restart": true, "targetCaptured": true, "stage": stage,
    });
    status.journal.as_mut().unwrap().roll_back = Some(serde_json::from_value(back).unwrap());
    status
}

fn spec_of(status: &MigrationStatus) -> MigrationSpec {
    (*status.journal.as_ref().unwrap().spec).clone()
}

fn input<'a>(spec: &'a MigrationSpec, status: &'a MigrationStatus, snapshot: &'a Snapshot) -> Input<'a> {
    Input {
        uid: "uid",
        namespace: Some("shop"),
        name: "orders-to-west",
        generation: 1,
        revision: None,
        deleting: false,
        overtaken: None,
        has_finalizer: true,
        spec,
        status,
        trouble: None,
        ahead: None,
        snapshot,
        now: Timestamp::UNIX_EPOCH,
    }
}

/// The journal as it was restored may be older than what the target did last.
#[test]
fn a_target_whose_journal_went_back_may_have_run_since_it_left_its_handle() {
    let mut status = on_its_way_back("Taken");
    let spec = spec_of(&status);
    let snapshot = Snapshot::unread(spec.workload.key(Some("shop")), "not asked");
    let left_all = |status: &MigrationStatus| Operation::of(&input(&spec, status, &snapshot)).left_all().ok();
    assert_eq!(left_all(&status), Some(true));
    let went_back = Finding::new(restored::CODE, "it was restored", "look");
    status.common.findings.push(went_back);
    assert_eq!(left_all(&status), Some(false));
}

/// Returns what a look finds when scheduling is suspended and the placement holds only `west`.
fn held_by_west(status: &MigrationStatus) -> Snapshot {
    let journal = status.journal.as_ref().unwrap();
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": journal.binding.name, "namespace": "shop", "uid": journal.binding.uid,
            "labels": {(meta::CLAIMED_BY[0]): "policy"},
        },
        "spec": {
            "resource": {
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "namespace": "shop", "name": "orders",
            },
            "placement": {"clusterAffinity": {"clusterNames": ["west"]}},
            "suspension": {"scheduling": true},
        },
    });
    let binding: ResourceBinding = serde_json::from_value(binding).unwrap();
    let clusters: BTreeMap<ClusterName, Cluster> = ["east", "west"]
        .map(|name| (ClusterName::new(name), Cluster::new(name, ClusterSpec::default())))
        .into();
    let read = Read { sent: 1, answered: 2 };
    let mut snapshot = Snapshot::unread(journal.spec.workload.key(Some("shop")), "not asked");
    snapshot.plane.binding = Seen::known(Some(binding), read);
    snapshot.plane.clusters = Seen::known(Arc::new(clusters), read);
    snapshot
}

/// Returns the status of one that has waited for this, as the pass closes it.
fn closed(mut operation: Operation<'_>, reason: &str) -> MigrationStatus {
    operation.wait(Wait::evidence(reason.to_owned()));
    operation.note_conditions();
    operation.status
}

/// Others go by the condition; the version before goes by the words.
#[test]
fn one_that_only_waits_for_its_placement_says_so_in_a_condition_as_long_as_it_does() {
    let mut status = on_its_way_back("Returned");
    status.journal.as_mut().unwrap().fence.lowered = false;
    let (spec, snapshot) = (spec_of(&status), held_by_west(&status));
    let look = input(&spec, &status, &snapshot);
    let mut operation = Operation::of(&look);
    let Err(Interrupt::Wait(reason)) = operation.placement_keeps(&ClusterName::new("east")) else {
        panic!("the placement keeps it");
    };
    let waits = closed(operation, &reason);
    assert!(placement::is_awaited(&waits.common));
    let condition = |status: &MigrationStatus| {
        let mut all = status.common.conditions.iter();
        let found = all.find(|condition| condition.type_ == placement::AWAITS_PLACEMENT);
        found.map(|found| (found.status, found.reason.clone()))
    };
    let excluded = (ConditionStatus::True, "PlacementExcludesTarget".to_owned());
    assert_eq!(condition(&waits), Some(excluded));
    let mut before = waits.clone();
    before.common.conditions.clear();
    assert!(placement::is_awaited(&before.common));

    let look = input(&spec, &waits, &snapshot);
    let later = closed(Operation::of(&look), "east is not seen");
    assert!(!placement::is_awaited(&later.common));
    assert_eq!(
        condition(&later),
        Some((ConditionStatus::False, "RollingBack".to_owned()))
    );

    let mut ended = Operation::of(&look);
    ended.end(Phase::Aborted, Vec::new());
    ended.note_conditions();
    assert_eq!(condition(&ended.status), None);
}
