//! Migrations from the first effect to the last, on the sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{Patch, Resource, WriteOptions};
use cutover::sandbox::karmada::kinds::CLUSTERS;
use cutover::sandbox::ledger::Origin;
use serde_json::json;

use crate::support::counted::counted;
use crate::support::fleet::{BINDINGS, CLAIMS, Fleet, JOBS, MIGRATIONS, PINS, job};

#[tokio::test(start_paused = true)]
async fn a_job_moves_with_its_state_and_nothing_is_left_behind() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(
        fleet.ended("orders-to-west").await,
        Phase::Completed,
        "{:#}",
        fleet.status("orders-to-west")
    );
    fleet.assert_clean_in("west");
    let captured = fleet.status("orders-to-west")["journal"]["captured"]["values"]["savepoint"].clone();
    let verdict = fleet.world.ledger().verdict();
    let last = verdict.runs.last().unwrap();
    assert_eq!(last.writer.cluster.as_str(), "west");
    assert_eq!(
        json!(last.restored_from == Origin::Handle(captured.as_str().unwrap().to_owned())),
        json!(true)
    );
    assert_eq!(
        verdict.runs.len(),
        2,
        "the job was restarted: {}",
        fleet.world.ledger()
    );
}

#[tokio::test(start_paused = true)]
async fn a_migration_asks_no_more_than_it_needs() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let (cluster, asked) = counted(fleet.world.client());
    let _controller = fleet.controller_on(cluster, Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let mut by_kind: BTreeMap<String, usize> = BTreeMap::new();
    for line in &asked {
        let kind = line
            .split('/')
            .filter(|part| !part.contains("orders"))
            .collect::<Vec<_>>();
        *by_kind.entry(kind.join("/")).or_default() += 1;
    }
    // What is there now, and a few to spare; nearly forty of them are what a process asks once, in its beginning.
    assert!(asked.len() <= 450, "{}: {by_kind:#?}", asked.len());
    let own = asked
        .iter()
        .filter(|line| line.starts_with("GET") && line.contains("/migrations/"));
    assert!(own.count() <= 25, "{by_kind:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_start_is_rolled_back_and_stays_unapplied() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.want(job("orders:broken"));
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::RolledBack);
    fleet.assert_clean_in("east");
    assert_eq!(fleet.copy("east").unwrap()["spec"]["image"], "orders:1.0");
    assert!(fleet.status("orders-to-west")["heldBack"]["hash"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_template_change_goes_along_and_the_source_never_sees_it() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.want(job("orders:2.0"));
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    fleet.assert_clean_in("west");
    assert_eq!(fleet.copy("west").unwrap()["spec"]["image"], "orders:2.0");
    assert_eq!(
        fleet.world.ledger().verdict().runs.len(),
        2,
        "{}",
        fleet.world.ledger()
    );
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_operator_keeps_finished_job_managers_moves_all_the_same() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let mut template = job("orders:1.0");
    template["spec"]["flinkConfiguration"]["kubernetes.operator.jm-deployment.shutdown-ttl"] = json!("1 d");
    fleet.apply(&JOBS, template);
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_template_without_a_place_for_a_patch_is_found_before_anything_is_touched() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let mut template = job("orders:1.0");
    template["spec"]
        .as_object_mut()
        .unwrap()
        .remove("flinkConfiguration");
    fleet.apply(&JOBS, template);
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Failed);
    assert_eq!(
        fleet.status("orders-to-west")["findings"][0]["code"],
        "NoPlaceForPatch"
    );
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_job_can_move_back_again() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("there", "west");
    assert_eq!(fleet.ended("there").await, Phase::Completed);
    fleet.migrate("back", "east");
    assert_eq!(fleet.ended("back").await, Phase::Completed);
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_second_intent_on_the_same_workload_waits_and_says_for_whom() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("first", "west");
    fleet.phase("first", Phase::Capture).await;
    fleet.migrate("second", "north");
    fleet
        .until("the second waits", |fleet| {
            fleet.status("second")["waitingFor"]["reason"] == "Migration shop/first holds the workload"
        })
        .await;
    assert_eq!(fleet.ended("first").await, Phase::Completed);
    assert_eq!(fleet.ended("second").await, Phase::Completed);
    fleet.assert_clean_in("north");
}

#[tokio::test(start_paused = true)]
async fn abort_before_the_commit_point_brings_the_source_back() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    fleet.phase("orders-to-west", Phase::Verify).await;
    fleet.patch(&MIGRATIONS, "orders-to-west", json!({"spec": {"abort": true}}));
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Aborted);
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn an_intent_that_is_edited_while_it_waits_to_begin_does_what_it_says_then() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let gate = json!({"to": "west", "approval": {"before": ["Hold"]}, "verify": {"healthyFor": "2s", "timeout": "60s"}});
    fleet.migrate_with("orders-away", gate);
    let waits = |fleet: &Fleet| fleet.status("orders-away")["waitingFor"]["approval"] == "Hold";
    fleet.until("it waits for approval", waits).await;
    let approved = json!({"to": "north", "approvals": [{"phase": "Hold", "attempt": 1}]});
    fleet.patch(&MIGRATIONS, "orders-away", json!({"spec": approved}));
    assert_eq!(fleet.ended("orders-away").await, Phase::Completed);
    fleet.assert_clean_in("north");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_running_intent_rolls_back_first() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    fleet.phase("orders-to-west", Phase::Handoff).await;
    let server = fleet.world.control_plane();
    server
        .delete(
            &MIGRATIONS,
            Some("shop"),
            "orders-to-west",
            &cutover::sandbox::api::DeleteOptions::default(),
        )
        .unwrap();
    fleet
        .until("the intent is gone", |fleet| fleet.count(&MIGRATIONS) == 0)
        .await;
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_until_it_is_approved_for_this_attempt() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let gated = json!({"to": "west", "verify": {"healthyFor": "1s"}, "approval": {"before": ["Capture"]}});
    fleet.migrate_with("gated", gated);
    let reason = "approval of Capture for attempt 1";
    fleet
        .until("it waits", |fleet| {
            fleet.status("gated")["waitingFor"]["reason"] == reason
        })
        .await;
    assert!(fleet.runs_in("east"));
    let approval = json!({"spec": {"approvals": [{"phase": "Capture", "attempt": 1, "by": "on call"}]}});
    fleet.patch(&MIGRATIONS, "gated", approval);
    assert_eq!(fleet.ended("gated").await, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn preflight_fails_with_findings_and_touches_nothing() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let before = fleet.binding()["metadata"]["generation"].clone();
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("nowhere", "mars");
    assert_eq!(fleet.ended("nowhere").await, Phase::Failed);
    assert_eq!(fleet.status("nowhere")["findings"][0]["code"], "NoCluster");
    assert_eq!(fleet.binding()["metadata"]["generation"], before);
    assert_eq!(fleet.count(&PINS), 0);
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_applied_again_moves_nothing_and_claims_no_end_that_is_not_to_be_seen() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("there", "west");
    assert_eq!(fleet.ended("there").await, Phase::Completed);
    fleet.migrate("back", "east");
    assert_eq!(fleet.ended("back").await, Phase::Completed);
    let delete = |name: &str| {
        let options = cutover::sandbox::api::DeleteOptions::default();
        let server = fleet.world.control_plane();
        server.delete(&MIGRATIONS, Some("shop"), name, &options).unwrap();
    };
    for name in ["there", "back"] {
        delete(name);
        fleet
            .until("the intent is gone", |fleet| fleet.is_gone(name))
            .await;
    }
    let completed = |name: &str| {
        let status = fleet.status(name);
        let conditions = status["conditions"].as_array().unwrap().clone();
        let mut conditions = conditions.into_iter();
        let completed = conditions
            .find(|condition| condition["type"] == "Completed")
            .unwrap();
        (
            completed["status"].clone(),
            completed["message"].as_str().unwrap().to_owned(),
        )
    };
    fleet.migrate("there", "west");
    assert_eq!(fleet.ended("there").await, Phase::EndedBefore);
    let (status, message) = completed("there");
    assert_eq!(status, "Unknown");
    assert!(message.contains("nothing was moved this time"), "{message}");
    assert!(message.contains("Karmada lists east now"), "{message}");
    let hint = fleet.status("there")["findings"][0]["hint"].clone();
    assert!(hint.as_str().unwrap().contains("rename the file"), "{hint}");
    // Of this one the end is still to be seen.
    fleet.migrate("back", "east");
    assert_eq!(fleet.ended("back").await, Phase::Completed);
    let (status, message) = completed("back");
    assert_eq!(status, "True");
    assert!(message.starts_with("Completed (recorded 20"), "{message}");
    assert!(message.contains("east: uid"), "{message}");
    controller.kill().await;
    assert_eq!(fleet.listed(), ["east"]);
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn failover_that_the_detector_brings_back_is_taken_off_again() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    fleet.phase("orders-to-west", Phase::Verify).await;
    fleet.patch(
        &JOBS,
        "orders",
        json!({"metadata": {"labels": {"touched": "yes"}}}),
    );
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(
        fleet.binding()["spec"]["failover"].is_null(),
        "{:#}",
        fleet.binding()
    );
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    fleet.assert_clean_in("west");
}

/// Somebody pauses it when the source has stopped, and forgets it.
#[tokio::test(start_paused = true)]
async fn a_pause_while_nobody_runs_is_over_with_the_time_of_the_phase_unless_it_is_told_to_hold() {
    for (on_failure, forgotten) in [("RollBack", Phase::RolledBack), ("Hold", Phase::Capture)] {
        let fleet = Fleet::start(WorldOptions::default()).await;
        let _controller = fleet.controller(Arc::new(NoFailpoints));
        let spec = json!({
            "to": "west", "onFailure": on_failure, "approval": {"before": ["Handoff"]},
            "verify": {"healthyFor": "2s", "timeout": "10m"},
        });
        fleet.migrate_with("orders-to-west", spec);
        let waits = |fleet: &Fleet| fleet.status("orders-to-west")["waitingFor"]["approval"] == "Handoff";
        fleet.until("it waits with nobody running", waits).await;
        let paused = json!({"spec": {"paused": true, "approvals": [{"phase": "Handoff", "attempt": 1}]}});
        fleet.patch(&MIGRATIONS, "orders-to-west", paused);
        fleet
            .until("it is paused", |fleet| {
                let reason = &fleet.status("orders-to-west")["waitingFor"]["reason"];
                reason == "paused by the spec, and the workload is not seen running"
            })
            .await;
        assert!(fleet.status("orders-to-west")["waitingFor"]["until"].is_string());
        tokio::time::sleep(Duration::from_hours(1)).await;
        let status = fleet.status("orders-to-west");
        assert_eq!(status["phase"], forgotten.to_string(), "{on_failure}: {status:#}");
        fleet.assert_one_writer();
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_migration_keeps_its_fence_and_goes_on_where_it_was_however_long_it_took() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate("orders-to-west", "west");
    fleet.phase("orders-to-west", Phase::Verify).await;
    fleet.patch(&MIGRATIONS, "orders-to-west", json!({"spec": {"paused": true}}));
    fleet
        .until("it is paused", |fleet| {
            fleet.status("orders-to-west")["waitingFor"]["reason"] == "paused by the spec"
        })
        .await;
    fleet.patch(
        &JOBS,
        "orders",
        json!({"metadata": {"labels": {"touched": "yes"}}}),
    );
    tokio::time::sleep(Duration::from_hours(1)).await;
    let status = fleet.status("orders-to-west");
    assert_eq!(status["phase"], "Verify", "{status:#}");
    assert!(
        fleet.binding()["spec"]["failover"].is_null(),
        "{:#}",
        fleet.binding()
    );
    fleet.patch(&MIGRATIONS, "orders-to-west", json!({"spec": {"paused": false}}));
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_list_that_somebody_edits_is_put_back_under_the_pin() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with(
        "orders-to-west",
        json!({"to": "west", "verify": {"healthyFor": "5s", "timeout": "60s"}}),
    );
    fleet.phase("orders-to-west", Phase::Verify).await;
    let edited = json!({"spec": {"clusters": [{"name": "east"}, {"name": "west"}, {"name": "north"}]}});
    fleet.patch(&BINDINGS, "orders-flinkdeployment", edited);
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    fleet.assert_clean_in("west");
}

/// Karmada would evict the copy as soon as it may; and a cluster that only takes nothing new keeps what is put there.
#[tokio::test(start_paused = true)]
async fn a_target_that_karmada_would_evict_from_is_told_at_once_and_one_that_is_cordoned_takes_it() {
    for (effect, ends) in [("NoExecute", Phase::RolledBack), ("NoSchedule", Phase::Completed)] {
        let fleet = Fleet::start(WorldOptions::default()).await;
        let _controller = fleet.controller(Arc::new(NoFailpoints));
        fleet.migrate("orders-to-west", "west");
        fleet.phase("orders-to-west", Phase::Hold).await;
        let begun = tokio::time::Instant::now();
        let taint = Patch::Merge(json!({"spec": {"taints": [{"key": "maintenance", "effect": effect}]}}));
        let (server, writer) = (fleet.world.control_plane(), WriteOptions::manager("somebody"));
        server
            .patch(&CLUSTERS, None, "west", None, &taint, &writer)
            .unwrap();
        assert_eq!(
            fleet.ended("orders-to-west").await,
            ends,
            "{:#}",
            fleet.status("orders-to-west")
        );
        if ends == Phase::RolledBack {
            let reason = fleet.status("orders-to-west")["journal"]["rollBack"]["reason"].clone();
            let told = "west has the taint maintenance:NoExecute";
            assert!(
                reason.as_str().is_some_and(|reason| reason.starts_with(told)),
                "{reason}"
            );
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
            fleet.assert_clean_in("east");
        } else {
            fleet.assert_clean_in("west");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_the_stopped_source_that_comes_back_is_told_and_the_healthy_target_keeps_the_token() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let spec = json!({"to": "west", "verify": {"healthyFor": "5s", "timeout": "10s"}});
    fleet.migrate_with("orders-to-west", spec);
    fleet.phase("orders-to-west", Phase::Verify).await;
    let pods = Resource::new("", "pods");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "orders-came-back", "namespace": "shop", "labels": {"app": "orders"}},
        "spec": {"containers": [{"name": "main", "image": "flink"}]},
    });
    let east = &fleet.world.member("east").api;
    let manager = WriteOptions::manager("operator");
    east.create(&pods, Some("shop"), pod, &manager).unwrap();
    let lapse = |fleet: &Fleet| {
        let status = fleet.status("orders-to-west");
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let mut conditions = conditions.into_iter();
        let found = conditions.find(|condition| condition["type"] == "SingleWriterLapse");
        found.map(|condition| condition["status"].clone())
    };
    let told = |fleet: &Fleet| lapse(fleet) == Some(json!("True"));
    fleet.until("it is told", told).await;
    // Longer than the phase may take: that isn't the target's fault.
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(fleet.runs_in("west"), "{:#}", fleet.status("orders-to-west"));
    assert!(told(&fleet));
    let options = cutover::sandbox::api::DeleteOptions::default();
    let _ = east.delete(&pods, Some("shop"), "orders-came-back", &options);
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
    assert_eq!(lapse(&fleet), Some(json!("False")));
    let findings = fleet.status("orders-to-west")["findings"].to_string();
    assert!(findings.contains("RunsAgain"), "{findings}");
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_template_that_is_deleted_while_a_cluster_is_out_of_reach_ends_on_a_persons_word() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let spec = json!({"to": "west", "verify": {"healthyFor": "1h", "timeout": "60s"}});
    fleet.migrate_with("orders-to-west", spec);
    fleet.phase("orders-to-west", Phase::Verify).await;
    fleet.world.faults().partition("east");
    let options = cutover::sandbox::api::DeleteOptions::default();
    let server = fleet.world.control_plane();
    server.delete(&JOBS, Some("shop"), "orders", &options).unwrap();
    let reason = |fleet: &Fleet| {
        let status = fleet.status("orders-to-west");
        status["waitingFor"]["reason"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    fleet
        .until("it asks", |fleet| {
            reason(fleet).contains("spec.assume: Stopped in east")
        })
        .await;
    let status = fleet.status("orders-to-west");
    let word = json!([{
        "fact": "Stopped", "cluster": "east", "attempt": status["attempt"], "phase": status["phase"], "by": "ann",
    }]);
    fleet.patch(&MIGRATIONS, "orders-to-west", json!({"spec": {"assume": word}}));
    // Karmada deletes the binding first: what the move keeps runs on, and is a person's to delete.
    fleet
        .until("it asks", |fleet| {
            reason(fleet).contains("a person must delete it in west")
        })
        .await;
    let west = &fleet.world.member("west").api;
    west.delete(&JOBS, Some("shop"), "orders", &options).unwrap();
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Failed);
    let findings = fleet.status("orders-to-west")["findings"].to_string();
    assert!(findings.contains("east was not observed"), "{findings}");
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (0, 0));
}
