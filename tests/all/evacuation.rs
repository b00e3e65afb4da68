//! Evacuations in the sandbox: everything leaves, so many at a time, with never two writers; and what can't is said beforehand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cutover::reconcile::intents::{FailpointHook, NoFailpoints};
use cutover::sandbox::api::Resource;
use serde_json::{Value, json};

use crate::support::fleet::{JOBS, POLICIES};
use crate::support::killed::at_any_line_of;
use crate::support::many::{EVACUATION, Stage, named_job, named_policy, one_of_all};
use crate::support::trap::Trap;

const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");
const CORDON: &str = "evacuating.cutover.dev/drain";

fn spec(more: &Value) -> Value {
    let mut spec = json!({"cluster": "east", "verify": {"healthyFor": "1s", "timeout": "20s"}});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    spec
}

async fn three() -> Stage {
    Stage::start(EVACUATION, &["clicks", "payments"]).await
}

/// Fails for the job of that name, once it is in the target.
fn failing(name: &str) -> Value {
    json!({
        "healthyFor": "1s", "timeout": "10s",
        "checks": [{"cel": format!("object.metadata.name != '{name}'")}],
    })
}

fn state<'a>(status: &'a Value, name: &str) -> &'a str {
    let moves = status["moves"].as_array().unwrap();
    let one = moves.iter().find(|one| one["workload"]["name"] == name);
    one.map_or("absent", |one| one["state"].as_str().unwrap())
}

#[tokio::test(start_paused = true)]
async fn three_workloads_leave_two_at_a_time_for_the_least_loaded_clusters() {
    let stage = three().await;
    let most = Arc::new(AtomicUsize::new(0));
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"maxParallel": 2})));
    stage
        .fleet
        .until("all have left", |_| {
            most.fetch_max(stage.under_way(), Ordering::Relaxed);
            if stage.under_way() > 0 {
                assert_eq!(
                    stage.taints("east"),
                    [CORDON],
                    "nothing moves before nothing new comes"
                );
            }
            stage.status("drain")["phase"] == "Completed"
        })
        .await;
    assert_eq!(most.load(Ordering::Relaxed), 2);
    stage.assert_all_left();
    let status = stage.status("drain");
    assert_eq!(
        status["progress"],
        json!({"done": 3, "of": 3, "moving": 0, "failed": 0})
    );
    let mut targets: Vec<_> = stage
        .jobs
        .iter()
        .map(|name| stage.clusters_of(name, "flinkdeployment"))
        .collect();
    targets.sort();
    targets.dedup();
    assert_eq!(targets, [["north"], ["west"]], "they are spread");
    let uid = |object: &Value| object["metadata"]["ownerReferences"][0]["kind"].clone();
    assert!(stage.migrations().iter().all(|one| uid(one) == "Evacuation"));
}

#[tokio::test(start_paused = true)]
async fn what_has_no_state_starts_there_before_it_stops_here() {
    let stage = Stage::start(EVACUATION, &[]).await.with_web(one_of_all()).await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"select": {"kinds": ["Deployment.apps"]}})));
    let lowest = AtomicUsize::new(usize::MAX);
    stage
        .fleet
        .until("web has left", |_| {
            let all: u64 = ["east", "north", "west"]
                .iter()
                .map(|cluster| stage.available("web", cluster))
                .sum();
            lowest.fetch_min(usize::try_from(all).unwrap(), Ordering::Relaxed);
            stage.status("drain")["phase"] == "Completed"
        })
        .await;
    assert_eq!(lowest.load(Ordering::Relaxed), 2, "it was never less");
    assert_eq!(stage.available("web", "east"), 0);
    assert_eq!(stage.migrations()[0]["spec"]["strategy"], "StartFirst");
    stage.assert_stayed("orders");
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn the_first_failure_stops_the_whole_drain() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"verify": failing("clicks")})));
    let status = stage.is("drain", "Failed").await;
    assert_eq!(state(&status, "clicks"), "Failed");
    assert_eq!(
        (state(&status, "orders"), state(&status, "payments")),
        ("Waiting", "Waiting")
    );
    assert_eq!(stage.migrations().len(), 1);
    for job in &stage.jobs {
        stage.assert_stayed(job);
    }
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn as_many_may_fail_as_were_allowed_and_the_others_leave() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask(
        "drain",
        &spec(&json!({"verify": failing("clicks"), "maxFailures": 1})),
    );
    let status = stage.is("drain", "Failed").await;
    assert_eq!(
        status["progress"],
        json!({"done": 2, "of": 3, "moving": 0, "failed": 1})
    );
    stage.assert_stayed("clicks");
    stage.assert_left("orders");
    stage.assert_left("payments");
    stage.assert_clean();
    // It is asked for again, with what is wrong mended.
    stage.ask("drain", &spec(&json!({"maxFailures": 0})));
    stage.begins_again("drain").await;
    stage.is("drain", "Completed").await;
    stage.assert_all_left();
}

#[tokio::test(start_paused = true)]
async fn an_abort_rolls_back_what_is_on_its_way_and_lifts_the_cordon() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"verify": {"healthyFor": "10m"}})));
    stage
        .fleet
        .until("the first is there", |_| {
            stage
                .migrations()
                .iter()
                .any(|one| one["status"]["phase"] == "Verify")
        })
        .await;
    stage.ask(
        "drain",
        &spec(&json!({"verify": {"healthyFor": "10m"}, "abort": true})),
    );
    stage.is("drain", "Aborted").await;
    for job in &stage.jobs {
        stage.assert_stayed(job);
    }
    stage.assert_clean();
    assert_eq!(stage.migrations().len(), 1);
    // Taken back, it is another attempt.
    stage.ask("drain", &spec(&json!({})));
    stage.begins_again("drain").await;
    stage.is("drain", "Completed").await;
    stage.assert_all_left();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_goes_when_nothing_of_it_is_left() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"verify": {"healthyFor": "10m"}})));
    stage
        .fleet
        .until("the first is there", |_| {
            stage
                .migrations()
                .iter()
                .any(|one| one["status"]["phase"] == "Verify")
        })
        .await;
    stage.delete("drain");
    stage.fleet.until("it is gone", |_| stage.is_gone("drain")).await;
    for job in &stage.jobs {
        stage.assert_stayed(job);
    }
    stage.assert_clean();
    stage
        .fleet
        .until("its children are gone", |_| stage.migrations().is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_cordon_of_somebody_else_stays_and_that_of_the_intent_can_outlast_it() {
    let stage = three().await;
    let own = json!([{"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}]);
    stage.set_taints("east", own);
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"keepCordoned": true, "maxParallel": 3})));
    stage.is("drain", "Completed").await;
    let both = ["cluster.karmada.io/unschedulable", CORDON];
    assert_eq!(stage.taints("east"), both);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(stage.taints("east"), both);
    stage.delete("drain");
    stage.fleet.until("it is gone", |_| stage.is_gone("drain")).await;
    assert_eq!(stage.taints("east"), ["cluster.karmada.io/unschedulable"]);
}

#[tokio::test(start_paused = true)]
async fn what_can_not_move_is_listed_before_anything_is_touched() {
    let stage = three().await;
    let fleet = &stage.fleet;
    let only_east = json!({"clusterAffinity": {"clusterNames": ["east"]}});
    fleet.apply(
        &POLICIES,
        named_policy("stuck", "flink.apache.org/v1beta1", "FlinkDeployment", only_east),
    );
    fleet.apply(&JOBS, named_job("stuck"));
    let stage = stage
        .with_web(json!({"clusterAffinity": {"clusterNames": ["east", "west"]}}))
        .await;
    let fleet = &stage.fleet;
    fleet.until("the job runs", |_| stage.runs("stuck", "east")).await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    let status = stage.waits("drain", "2 workloads can't be moved").await;
    let stays: BTreeMap<&str, &str> = status["stays"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|stay| stay["runs"] == true)
        .map(|stay| {
            (
                stay["workload"]["name"].as_str().unwrap(),
                stay["why"]["code"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        stays,
        BTreeMap::from([("stuck", "NoTarget"), ("web", "ComesBack")])
    );
    assert_eq!(state(&status, "orders"), "Waiting");
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(stage.migrations().is_empty(), "nothing has begun");
    stage.assert_clean();
    // Those that can't stay, the others go.
    stage.ask("drain", &spec(&json!({"unmovable": "Leave", "maxParallel": 3})));
    stage.is("drain", "Completed").await;
    stage.assert_all_left();
    stage.assert_stayed("stuck");
    assert_eq!(stage.available("web", "east"), 2);
}

#[tokio::test(start_paused = true)]
async fn what_its_migration_would_be_refused_for_is_listed_too() {
    let stage = three().await;
    // A copy of that name that nobody knows: what it is, and whether it writes, is anybody's guess.
    for cluster in ["west", "north"] {
        let member = &stage.fleet.world.member(cluster).api;
        let mut job = named_job("payments");
        job["spec"]["job"]["state"] = "suspended".into();
        let writer = cutover::sandbox::api::WriteOptions::manager("somebody");
        member.create(&JOBS, Some("shop"), job, &writer).unwrap();
    }
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    let status = stage.waits("drain", "1 workload can't be moved").await;
    assert_eq!(status["stays"][0]["why"]["code"], "TargetOccupied", "{status:#}");
    assert!(stage.migrations().is_empty(), "nothing has begun");
}

#[tokio::test(start_paused = true)]
async fn the_order_that_is_asked_for_is_kept_and_then_it_goes_by_name() {
    let stage = three().await;
    stage.patch(
        &JOBS,
        Some("shop"),
        "payments",
        json!({"metadata": {"labels": {"tier": "critical"}}}),
    );
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask(
        "drain",
        &spec(&json!({"order": [{"labelSelector": "tier=critical"}]})),
    );
    stage.is("drain", "Completed").await;
    let mut begun: Vec<(String, String)> = stage.status("drain")["moves"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            (text(&one["startedAt"]), text(&one["workload"]["name"]))
        })
        .collect();
    begun.sort();
    let names: Vec<_> = begun.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["payments", "clicks", "orders"]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_begins_nothing_and_what_has_begun_comes_to_its_end() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    stage
        .fleet
        .until("the first moves", |_| stage.under_way() == 1)
        .await;
    stage.ask("drain", &spec(&json!({"paused": true})));
    stage.waits("drain", "paused by the spec").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    let status = stage.status("drain");
    assert_eq!(status["progress"]["done"], 1, "{status:#}");
    assert_eq!(stage.migrations().len(), 1);
    assert_eq!(stage.taints("east"), [CORDON]);
    stage.ask("drain", &spec(&json!({})));
    stage.is("drain", "Completed").await;
    stage.assert_all_left();
}

#[tokio::test(start_paused = true)]
async fn an_approval_and_a_window_are_waited_for_with_nothing_touched() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    let opens = stage.fleet.world.clock().now() + Duration::from_mins(10);
    let gate = json!({"approval": {"before": ["Moving"]}, "window": {"notBefore": opens.to_string()}});
    stage.ask("drain", &spec(&gate));
    stage.waits("drain", "its time window to open").await;
    assert_eq!(stage.taints("east"), [""; 0]);
    stage
        .waits(
            "drain",
            "approval of Moving for attempt 1: 3 workloads of east to move",
        )
        .await;
    assert!(stage.fleet.world.clock().now() >= opens);
    assert_eq!(stage.taints("east"), [""; 0]);
    let mut approved = gate.clone();
    approved["approvals"] = json!([{"phase": "Moving", "attempt": 1, "by": "ops"}]);
    stage.ask("drain", &spec(&approved));
    stage.is("drain", "Completed").await;
    stage.assert_all_left();
}

#[tokio::test(start_paused = true)]
async fn after_its_deadline_nothing_begins_and_what_is_not_committed_is_rolled_back() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    let deadline = stage.fleet.world.clock().now() + Duration::from_mins(5);
    let late = json!({"verify": {"healthyFor": "1h", "timeout": "2h"}, "deadline": deadline.to_string()});
    stage.ask("drain", &spec(&late));
    let status = stage.is("drain", "Failed").await;
    assert_eq!(status["progress"]["done"], 0);
    for job in &stage.jobs {
        stage.assert_stayed(job);
    }
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_room_is_not_chosen_and_one_that_is_emptied_neither() {
    let stage = Stage::start(EVACUATION, &["clicks"]).await;
    let full = json!({"allocatable": {"cpu": "4", "pods": "10"}, "allocated": {"cpu": "4", "pods": "3"}});
    let free = json!({"allocatable": {"cpu": "4", "pods": "10"}, "allocated": {"cpu": "1", "pods": "1"}});
    for (cluster, summary) in [("north", full), ("west", free)] {
        stage.set_capacity(cluster, summary);
    }
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"maxParallel": 2})));
    stage.is("drain", "Completed").await;
    for job in &stage.jobs {
        assert_eq!(stage.clusters_of(job, "flinkdeployment"), ["west"]);
    }
    stage.set_taints(
        "east",
        json!([{"key": "evacuating.cutover.dev/other", "effect": "NoSchedule"}]),
    );
    stage.ask(
        "second",
        &json!({"cluster": "west", "to": {"clusters": ["east"]}}),
    );
    let status = stage.waits("second", "2 workloads can't be moved").await;
    let why = status["stays"][0]["why"]["message"].as_str().unwrap();
    assert!(why.contains("east: it is being emptied by other"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn what_could_not_move_is_tried_again_where_that_is_asked_for() {
    let stage = three().await;
    for other in ["north", "west"] {
        stage.set_taints(other, json!([{"key": "busy", "effect": "NoSchedule"}]));
    }
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"maxParallel": 3, "unmovable": "Retry"})));
    stage.waits("drain", "to be checked again: ").await;
    assert_eq!(stage.status("drain")["phase"], "Moving");
    assert_eq!(stage.taints("east"), [CORDON]);
    for other in ["north", "west"] {
        stage.set_taints(other, json!([]));
    }
    stage.is("drain", "Completed").await;
    stage.assert_all_left();
}

#[tokio::test(start_paused = true)]
async fn what_has_state_goes_first() {
    let stage = Stage::start(EVACUATION, &[]).await.with_web(one_of_all()).await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    stage.is("drain", "Completed").await;
    let status = stage.status("drain");
    let moves = status["moves"].as_array().unwrap();
    let mut begun: Vec<[&str; 2]> = moves
        .iter()
        .map(|one| [&one["startedAt"], &one["workload"]["kind"]].map(|text| text.as_str().unwrap()))
        .collect();
    begun.sort_unstable();
    let kinds: Vec<&str> = begun.iter().map(|[_, kind]| *kind).collect();
    assert_eq!(kinds, ["FlinkDeployment", "Deployment"]);
}

#[tokio::test(start_paused = true)]
async fn what_would_only_wait_takes_the_place_of_none_that_can_go() {
    let stage = three().await;
    // By name it would be the first.
    let broken = json!({"spec": {"image": "orders:broken"}});
    stage.patch(&JOBS, Some("shop"), "clicks", broken);
    stage
        .fleet
        .until("it is not healthy", |_| !stage.runs("clicks", "east"))
        .await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    stage
        .fleet
        .until("the others have left", |_| {
            let status = stage.status("drain");
            let has_moved = |name| state(&status, name) == "Moved";
            status["moves"].is_array() && has_moved("orders") && has_moved("payments")
        })
        .await;
    assert_ne!(state(&stage.status("drain"), "clicks"), "Moved");
}

#[tokio::test(start_paused = true)]
async fn one_for_a_taint_empties_every_cluster_that_carries_it_for_as_long_as_it_stands() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    let standing = json!({"taint": {"key": "maintenance"}, "maxParallel": 3, "verify": {"healthyFor": "1s"}});
    stage.ask("drain", &standing);
    stage.is("drain", "Watching").await;
    assert!(stage.migrations().is_empty());
    stage.set_taints("east", json!([{"key": "maintenance", "effect": "NoSchedule"}]));
    stage
        .fleet
        .until("all have left", |_| {
            stage.status("drain")["progress"]["done"] == 3
        })
        .await;
    stage.is("drain", "Watching").await;
    assert_eq!(stage.taints("east"), ["maintenance", CORDON]);
    for job in &stage.jobs {
        stage.assert_left(job);
    }
    stage.set_taints("east", json!([{"key": CORDON, "effect": "NoSchedule"}]));
    stage
        .fleet
        .until("the cordon is lifted", |_| stage.taints("east").is_empty())
        .await;
    stage
        .fleet
        .until("it empties no cluster", |_| {
            let clusters = stage.status("drain")["clusters"].clone();
            clusters.as_array().is_none_or(Vec::is_empty)
        })
        .await;
    stage.set_taints("north", json!([{"key": "maintenance", "effect": "NoSchedule"}]));
    stage
        .fleet
        .until("north is empty", |_| {
            stage
                .jobs
                .iter()
                .all(|job| stage.clusters_of(job, "flinkdeployment") != ["north"])
        })
        .await;
    stage.is("drain", "Watching").await;
    stage.fleet.assert_one_writer();
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_was_recorded_as_ended_is_not_done_again() {
    let stage = three().await;
    let ended = json!({"spec": spec(&json!({})), "status": {"phase": "Completed", "attempt": 1}});
    stage.fleet.record("drain", ended);
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    stage.is("drain", "Completed").await;
    assert!(stage.migrations().is_empty());
}

/// Two replicas that both think that they lead: of each journal one write fails, and no workload is moved twice.
#[tokio::test(start_paused = true)]
async fn two_replicas_at_once_move_everything_once() {
    let stage = three().await;
    let _one = stage.controller(Arc::new(NoFailpoints));
    let _other = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"maxParallel": 2})));
    stage.is("drain", "Completed").await;
    stage.assert_all_left();
    assert_eq!(stage.migrations().len(), 3);
}

/// What a controller that stood still creates after all was called off does nothing.
#[tokio::test(start_paused = true)]
async fn a_migration_that_is_created_late_does_nothing() {
    let stage = three().await;
    let trap = Trap::before(EVACUATION.kind, "create Migration");
    let late = stage.controller(Arc::clone(&trap) as Arc<dyn FailpointHook>);
    stage.ask("drain", &spec(&json!({})));
    trap.sprung("a migration is created").await;
    let _next = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"abort": true})));
    stage.is("drain", "Aborted").await;
    trap.go_on();
    stage
        .fleet
        .until("it was created", |_| stage.migrations().len() == 1)
        .await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    let one = &stage.migrations()[0];
    assert!(one["status"]["journal"].is_null(), "{one:#}");
    stage.assert_stayed("clicks");
    stage.assert_clean();
    late.kill().await;
}

#[test]
fn killed_at_any_line_a_drain_still_ends() {
    let begin = async || Stage::start(EVACUATION, &["clicks"]).await;
    let play = async |stage: &Stage| {
        stage.ask("drain", &spec(&json!({})));
        stage.is("drain", "Completed").await;
    };
    let ended = |stage: &Stage| {
        stage.assert_all_left();
        assert_eq!(stage.migrations().len(), 2);
    };
    at_any_line_of("Evacuation")
        .among_them(&[
            "create Migration",
            "let it go",
            "take nothing new",
            "take what comes again",
        ])
        .first_journals(3)
        .each_time(begin, play, ended);
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_and_leaves_something_tries_it_again_in_its_time() {
    let stage = three().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    // Whose autoscaler would be left behind is refused by the Preflight of its Migration.
    let label = |value: Value| {
        let labels = json!({"metadata": {"labels": {"resourcetemplate.karmada.io/retain-replicas": value}}});
        stage.patch(&JOBS, Some("shop"), "payments", labels);
    };
    label(json!("true"));
    let standing = json!({
        "taint": {"key": "maintenance"}, "maxParallel": 3, "unmovable": "Leave", "verify": {"healthyFor": "1s"},
    });
    stage.ask("drain", &standing);
    stage.is("drain", "Watching").await;
    stage.set_taints("east", json!([{"key": "maintenance", "effect": "NoSchedule"}]));
    let done = |count: u64| {
        let stage = &stage;
        move |_: &crate::support::fleet::Fleet| stage.status("drain")["progress"]["done"] == count
    };
    stage.fleet.until("the others have left", done(2)).await;
    let status = stage.is("drain", "Watching").await;
    assert_eq!(status["stays"][0]["why"]["code"], "RetainReplicas", "{status:#}");
    stage.assert_stayed("payments");
    label(Value::Null);
    stage.fleet.until("it leaves as well", done(1)).await;
    let status = stage.is("drain", "Watching").await;
    let because = status["journal"]["because"].as_str().unwrap();
    assert!(
        because.ends_with("payments was left in east, and is tried again"),
        "{because}"
    );
    for job in &stage.jobs {
        stage.assert_left(job);
    }
    stage.fleet.assert_one_writer();
}

#[tokio::test(start_paused = true)]
async fn what_runs_in_several_clusters_with_state_is_told_what_helps_it() {
    let stage = Stage::start(EVACUATION, &[]).await;
    let everywhere = json!({"spec": {"placement": {"spreadConstraints": null}}});
    stage.patch(&POLICIES, Some("shop"), "orders", everywhere);
    stage
        .fleet
        .until("it runs in several", |_| {
            stage.clusters_of("orders", "flinkdeployment").len() > 1
        })
        .await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    let status = stage.waits("drain", "spec.unmovable is Wait").await;
    let why = &status["stays"][0]["why"];
    assert_eq!(why["code"], "SeveralClusters");
    let hint = why["hint"].as_str().unwrap();
    assert!(
        hint.starts_with("each of its copies has a state of its own"),
        "{hint}"
    );
    assert_eq!(stage.migrations().len(), 0);
}

/// By the wrong one it would be stopped and judged by fields of something else.
#[tokio::test(start_paused = true)]
async fn what_several_profiles_are_for_stays() {
    let stage = Stage::start(EVACUATION, &[]).await;
    for name in ["flink-a", "flink-b"] {
        let mut own = cutover::profile::built_in().unwrap()[0].clone();
        own.metadata.name = Some(name.to_owned());
        stage.fleet.apply(&PROFILES, serde_json::to_value(own).unwrap());
    }
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    let status = stage.waits("drain", "spec.unmovable is Wait").await;
    assert_eq!(
        status["stays"][0]["why"]["code"], "AmbiguousProfile",
        "{status:#}"
    );
    assert_eq!(stage.migrations().len(), 0);
}
