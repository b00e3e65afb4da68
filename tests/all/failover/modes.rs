//! Each purge mode, with the old cluster in reach; application failover and cluster failover.

use cutover::api::FailoverPhase;
use cutover::sandbox::api::{ListOptions, Patch, WriteOptions};
use cutover::sandbox::member::Simulators;
use futures::{FutureExt, StreamExt};
use serde_json::json;

use super::stage::{
    PLANS, fleet, guarded_in, known, last_move, one_writer, phase_is, plan, purge_mode, savepoint, snapshot,
    started_from, status, taint, tasks, tidy, untaint, until, unwell, well,
};
use crate::support::fleet::{CLAIMS, Fleet, JOBS, PINS, job};

#[tokio::test(start_paused = true)]
async fn an_application_that_fails_goes_on_elsewhere_from_its_last_known_state() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    unwell(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(started_from(&fleet, &to), handle);
    let done = last_move(&fleet);
    assert_eq!(done["state"]["source"], "LastKnown");
    assert_eq!((&done["from"], &done["to"]), (&json!("east"), &json!(to)));
    assert!(
        done["reason"].as_str().unwrap().contains("ApplicationFailure"),
        "{done:#}"
    );
    assert!(fleet.copy("east").is_none());
    one_writer(&fleet);
    tidy(&fleet, &to).await;
    one_writer(&fleet);
}

#[tokio::test(start_paused = true)]
async fn a_template_that_a_copy_could_not_be_stopped_by_is_refused_before_anything_is_written() {
    let fleet = fleet().await;
    let mut template = job("orders:1.0");
    let spec = template["spec"].as_object_mut().unwrap();
    spec.remove("flinkConfiguration");
    fleet.apply(&JOBS, template);
    plan(&fleet, json!({}));
    until(&fleet, "it is refused", |fleet| {
        phase_is(fleet, FailoverPhase::Failed)
    })
    .await;
    assert_eq!(status(&fleet)["findings"][0]["code"], "NoPlaceForPatch");
    assert_eq!(fleet.count(&PINS), 0);
}

/// Whatever the template becomes, the pin holds every copy but that of whom it names.
#[tokio::test(start_paused = true)]
async fn a_template_that_another_tool_changes_at_any_moment_of_a_failover_leaves_one_writer() {
    use FailoverPhase::{Arming, Guarding};
    for (phase, writes) in [(Some(Arming), 1), (Some(Guarding), 1), (None, 8)] {
        let fleet = fleet().await;
        plan(&fleet, json!({}));
        let change = |image: &str| {
            let writer = WriteOptions {
                force: true,
                ..WriteOptions::manager("kustomize-controller")
            };
            let server = fleet.world.control_plane();
            let template = Patch::Apply(job(image));
            server
                .patch(&JOBS, Some("shop"), "orders", None, &template, &writer)
                .unwrap();
        };
        if let Some(phase) = phase {
            until(&fleet, "it is that far", |fleet| phase_is(fleet, phase)).await;
            change("orders:2.0");
        }
        guarded_in(&fleet, "east").await;
        let handle = savepoint(&fleet, "east").await;
        known(&fleet, &handle).await;
        unwell(&fleet, "east");
        // In the middle of it, each time its phase is another one.
        let mut seen = status(&fleet)["phase"].clone();
        for write in 0..if phase.is_none() { writes } else { 0 } {
            until(&fleet, "it goes on", |fleet| {
                status(fleet)["phase"] != seen || status(fleet)["writer"] != "east"
            })
            .await;
            seen = status(&fleet)["phase"].clone();
            change(&format!("orders:3.{write}"));
            if status(&fleet)["writer"] != "east" && phase_is(&fleet, Guarding) {
                break;
            }
        }
        let to = moved_from(&fleet, "east").await;
        one_writer(&fleet);
        tidy(&fleet, &to).await;
        one_writer(&fleet);
    }
}

#[tokio::test(start_paused = true)]
async fn what_karmada_preserved_is_newer_than_what_was_seen_last() {
    let fleet = fleet().await;
    fleet.patch(
        &crate::support::fleet::POLICIES,
        "orders",
        json!({"spec": {"failover": {"application": {"statePreservation": {"rules": [
            {"aliasLabelName": "example.org/job", "jsonPath": "{.jobStatus.jobId}"},
        ]}}}}}),
    );
    plan(
        &fleet,
        json!({"preserved": [
            {"label": "example.org/job", "handle": "savepoint", "value": "s3://latest/${value}"},
        ]}),
    );
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    // A site that keeps the newest state of each job under a name of its own.
    let id = fleet.copy("east").unwrap()["status"]["jobStatus"]["jobId"]
        .as_str()
        .unwrap()
        .to_owned();
    let latest = format!("s3://latest/{id}");
    let mut saved = fleet.world.savepoints().get(&handle).unwrap();
    let key = ("shop".to_owned(), "orders".to_owned());
    let records = |simulators: &mut Simulators| simulators.jobs().records(&key).unwrap();
    saved.records = fleet.world.member("east").simulators(records);
    note_retained(&fleet, &latest, saved.records);
    fleet.world.savepoints().put(&latest, saved);
    unwell(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(started_from(&fleet, &to), latest);
    assert_eq!(last_move(&fleet)["state"]["source"], "Preserved");
    one_writer(&fleet);
}

fn note_retained(fleet: &Fleet, handle: &str, records: u64) {
    let verdict = fleet.world.ledger().verdict();
    let run = verdict.runs.last().unwrap();
    let now = fleet.world.clock().now();
    fleet
        .world
        .ledger()
        .handle_retained(&run.workload, &run.writer, now, handle, records);
}

#[tokio::test(start_paused = true)]
async fn a_healthy_copy_that_is_evicted_gracefully_stops_with_its_state() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    taint(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    let done = last_move(&fleet);
    assert_eq!(done["state"]["source"], "Captured", "{done:#}");
    assert_eq!(done["state"]["values"]["savepoint"], started_from(&fleet, &to));
    assert!(fleet.copy("east").is_none() && tasks(&fleet).is_empty());
    one_writer(&fleet);
    untaint(&fleet, "east");
    tidy(&fleet, &to).await;
    one_writer(&fleet);
}

#[tokio::test(start_paused = true)]
async fn a_healthy_copy_that_is_purged_directly_goes_on_from_its_last_known_state() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Directly");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    taint(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(last_move(&fleet)["state"]["source"], "LastKnown");
    assert_eq!(started_from(&fleet, &to), handle);
    one_writer(&fleet);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_shall_never_be_purged_stays_held_until_a_person_confirms() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Never");
    plan(&fleet, json!({"purge": {"confirm": true}}));
    guarded_in(&fleet, "east").await;
    unwell(&fleet, "east");
    until(&fleet, "it is evicted", |fleet| {
        phase_is(fleet, FailoverPhase::Evicted)
    })
    .await;
    well(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(last_move(&fleet)["state"]["source"], "Captured");
    until(&fleet, "a person is asked", |fleet| {
        status(fleet)["asks"] == json!([{"gate": "Purge", "cluster": "east", "attempt": 1}])
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_mins(15)).await;
    assert_eq!(fleet.copy("east").unwrap()["spec"]["job"]["state"], "suspended");
    assert_eq!(tasks(&fleet)[0]["suppressDeletion"], true);
    one_writer(&fleet);
    let approval = json!({"gate": "Purge", "cluster": "east", "attempt": 1, "by": "ann"});
    plan(
        &fleet,
        json!({"purge": {"confirm": true}, "approvals": [approval]}),
    );
    until(&fleet, "the old copy is gone", |fleet| {
        fleet.copy("east").is_none() && status(fleet)["oldCopies"].is_null() && tasks(fleet).is_empty()
    })
    .await;
    assert!(
        last_move(&fleet)
            .to_string()
            .contains("ann lets the old copy be deleted")
    );
    tidy(&fleet, &to).await;
    one_writer(&fleet);
}

/// Whoever answers looks at the status at any moment.
#[tokio::test(start_paused = true)]
async fn a_question_stands_in_the_status_until_it_is_answered() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Never");
    plan(&fleet, json!({"purge": {"confirm": true}}));
    guarded_in(&fleet, "east").await;
    let server = fleet.world.control_plane().clone();
    let mut plans = server
        .watch(&PLANS, Some("shop"), None, &ListOptions::default())
        .unwrap();
    unwell(&fleet, "east");
    until(&fleet, "it is evicted", |fleet| {
        phase_is(fleet, FailoverPhase::Evicted)
    })
    .await;
    well(&fleet, "east");
    moved_from(&fleet, "east").await;
    tokio::time::sleep(std::time::Duration::from_mins(15)).await;
    let question = json!([{"gate": "Purge", "cluster": "east", "attempt": 1}]);
    assert_eq!(status(&fleet)["asks"], question);
    let mut asked = 0;
    while let Some(Some(event)) = plans.next().now_or_never() {
        let status = &event.object["status"];
        let asks = status["asks"] == question;
        assert!(
            asks || asked == 0,
            "after {asked} times it isn't asked: {status:#}"
        );
        asked += usize::from(asks);
    }
    assert!(asked > 1, "the status was written again while it was asked");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_shall_stay_and_cannot_be_stopped_is_deleted_only_on_a_persons_word() {
    let fleet = fleet().await;
    purge_mode(&fleet, "Never");
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    unwell(&fleet, "east");
    until(&fleet, "a person is asked", |fleet| {
        status(fleet)["asks"][0]["gate"] == "Purge"
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_mins(15)).await;
    one_writer(&fleet);
    assert!(fleet.copy("east").is_some() && phase_is(&fleet, FailoverPhase::Fencing));
    let approval = json!({"gate": "Purge", "cluster": "east", "attempt": 1, "by": "ann"});
    plan(&fleet, json!({"approvals": [approval]}));
    let to = moved_from(&fleet, "east").await;
    assert_eq!(started_from(&fleet, &to), handle);
    assert!(fleet.copy("east").is_none());
    one_writer(&fleet);
}

#[tokio::test(start_paused = true)]
async fn without_any_known_state_a_person_is_asked_before_it_starts_from_nothing() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    unwell(&fleet, "east");
    until(&fleet, "a person is asked", |fleet| {
        status(fleet)["asks"][0]["gate"] == "FromNothing"
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_mins(15)).await;
    assert!(phase_is(&fleet, FailoverPhase::Fencing));
    let to = status(&fleet)["asks"][0]["cluster"].as_str().unwrap().to_owned();
    assert!(!fleet.runs_in(&to));
    plan(
        &fleet,
        json!({"approvals": [{"gate": "FromNothing", "cluster": to, "attempt": 1, "by": "ann"}]}),
    );
    guarded_in(&fleet, &to).await;
    let verdict = fleet.world.ledger().verdict();
    assert_eq!(verdict.overlaps, [], "{verdict}");
    assert!(last_move(&fleet)["state"].to_string().contains("ann"));
}

#[tokio::test(start_paused = true)]
async fn while_nothing_fails_changes_of_the_template_go_through_and_the_writer_is_not_touched() {
    let fleet = fleet().await;
    let run = |fleet: &Fleet| fleet.copy("east").unwrap()["status"]["jobStatus"]["jobId"].clone();
    let before = run(&fleet);
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    assert_eq!(run(&fleet), before);
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    let failover = fleet.binding()["spec"]["failover"].clone();
    assert!(!failover.is_null(), "Karmada's failover stays on");
    fleet.apply(
        &crate::support::fleet::JOBS,
        crate::support::fleet::job("orders:2.0"),
    );
    until(&fleet, "the change is in", |fleet| {
        fleet.is_settled_in("east") && fleet.copy("east").unwrap()["spec"]["image"] == "orders:2.0"
    })
    .await;
    guarded_in(&fleet, "east").await;
    tidy(&fleet, "east").await;
    one_writer(&fleet);
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_a_policy_moves_unplanned_goes_on_from_its_last_known_state() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    fleet.patch(
        &crate::support::fleet::POLICIES,
        "orders",
        json!({"spec": {"placement": {"clusterAffinity": {"clusterNames": ["west"]}}}}),
    );
    guarded_in(&fleet, "west").await;
    assert_eq!(started_from(&fleet, "west"), handle);
    one_writer(&fleet);
}

/// The operator puts no savepoint of a running job into its status, but into an object of its own.
#[tokio::test(start_paused = true)]
async fn a_savepoint_that_only_its_snapshot_shows_is_what_it_goes_on_from() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let handle = snapshot(&fleet, "east").await;
    assert_ne!(started_from(&fleet, "east"), handle);
    known(&fleet, &handle).await;
    unwell(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(started_from(&fleet, &to), handle);
    assert_eq!(last_move(&fleet)["state"]["source"], "LastKnown");
    one_writer(&fleet);
    // What it left there is of a run that is over, whatever runs there later.
    assert_eq!(status(&fleet)["lastKnown"]["values"]["savepoint"], handle);
}

/// Waits until it runs elsewhere, and returns where.
pub async fn moved_from(fleet: &Fleet, from: &str) -> String {
    until(fleet, "it has moved", |fleet| {
        let status = status(fleet);
        let writer = status["writer"].as_str().unwrap_or(from);
        phase_is(fleet, FailoverPhase::Guarding) && writer != from && fleet.runs_in(writer)
    })
    .await;
    status(fleet)["writer"].as_str().unwrap().to_owned()
}
