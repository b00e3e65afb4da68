//! Workloads without state that run in several clusters leave one of them: what the template wants is ready all the while in
//! the others, and whatever goes wrong before that, everything is as it was.

use std::sync::Arc;
use std::time::Duration;

use cutover::reconcile::intents::{FailpointHook, NoFailpoints};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, Patch, WriteOptions};
use cutover::sandbox::member::Timings;
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, CLAIMS, Fleet, POLICIES};
use crate::support::floor::{Floor, ready_pods};
use crate::support::killed::at_any_line_of;
use crate::support::many::{DEPLOYMENTS, EVACUATION, EVACUATIONS, Stage, named_policy, web};
use crate::support::trap::Trap;

const CORDON: &str = "evacuating.cutover.dev/drain";
const MARK: &str = "cutover.dev/evicting";
/// How long a pod takes to start where that is to take long.
const SLOW: Duration = Duration::from_secs(8);

fn spec(more: &Value) -> Value {
    let mut spec = json!({
        "cluster": "east", "select": {"kinds": ["Deployment.apps"]}, "keepCordoned": true,
        "verify": {"healthyFor": "1s", "timeout": "20s"},
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    spec
}

/// Until it is aborted, it would only look.
fn lasting(more: &Value) -> Value {
    let mut spec = spec(more);
    spec["verify"] = json!({"healthyFor": "10m", "timeout": "20m"});
    spec
}

/// It waits for less time than a pod takes to start ([`SLOW`]).
fn impatient() -> Value {
    let mut spec = spec(&json!({"keepCordoned": false}));
    spec["verify"] = json!({"healthyFor": "1s", "timeout": "2s"});
    spec
}

fn all_three() -> Value {
    json!({"clusterAffinity": {"clusterNames": ["east", "north", "west"]}})
}

fn divided() -> Value {
    let mut placement = all_three();
    placement["replicaScheduling"] = json!({
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": [{"targetCluster": {}, "weight": 1}]},
    });
    placement
}

async fn stage_of(placement: Value, replicas: u64, pod_start: Duration) -> Stage {
    let fleet = Fleet::start(WorldOptions {
        timings: Timings {
            pod_start,
            ..Timings::default()
        },
        ..WorldOptions::default()
    })
    .await;
    let stage = Stage {
        fleet,
        asks: EVACUATION,
        jobs: vec!["orders".to_owned()],
    };
    let fleet = &stage.fleet;
    fleet.apply(&POLICIES, named_policy("web", "apps/v1", "Deployment", placement));
    let mut web = web("web");
    web["spec"]["replicas"] = replicas.into();
    fleet.apply(&DEPLOYMENTS, web);
    fleet.until("web runs", |_| is_at_rest(&stage)).await;
    stage
}

async fn duplicated() -> Stage {
    stage_of(all_three(), 2, Duration::from_millis(100)).await
}

async fn weighed() -> Stage {
    stage_of(divided(), 6, Duration::from_millis(100)).await
}

fn binding(stage: &Stage) -> Value {
    let server = stage.fleet.world.control_plane();
    let binding = server.get(&BINDINGS, Some("shop"), "web-deployment");
    binding.map(|binding| (*binding).clone()).unwrap_or_default()
}

fn replicas(stage: &Stage, cluster: &str) -> i64 {
    let clusters = binding(stage)["spec"]["clusters"].clone();
    let mut clusters = clusters.as_array().cloned().unwrap_or_default().into_iter();
    let target = clusters.find(|target| target["name"] == cluster);
    target.map_or(0, |target| target["replicas"].as_i64().unwrap_or_default())
}

fn listed(stage: &Stage) -> Vec<String> {
    let mut listed = stage.clusters_of("web", "deployment");
    listed.sort();
    listed
}

fn is_at_rest(stage: &Stage) -> bool {
    let listed = listed(stage);
    let full = |name: &String| {
        let wanted = u64::try_from(replicas(stage, name)).unwrap();
        wanted > 0 && stage.available("web", name) == wanted
    };
    !listed.is_empty() && listed.iter().all(full)
}

fn tasks(stage: &Stage) -> Vec<Value> {
    let tasks = binding(stage)["spec"]["gracefulEvictionTasks"].clone();
    tasks.as_array().cloned().unwrap_or_default()
}

fn floor(stage: &Stage, least: u64) -> Floor {
    let members = stage.fleet.world.members();
    Floor::watch(members.map(|member| member.api.clone()).collect(), least)
}

fn has_copy(stage: &Stage, cluster: &str) -> bool {
    let member = &stage.fleet.world.member(cluster).api;
    member.get(&DEPLOYMENTS, Some("shop"), "web").is_ok()
}

fn the_move(stage: &Stage) -> Value {
    stage.status("drain")["moves"][0].clone()
}

async fn comes_to(stage: &Stage, what: &str) {
    stage
        .fleet
        .until(&format!("it is {what}"), |_| {
            the_move(stage)["eviction"]["stage"] == what
        })
        .await;
}

/// Nothing of an eviction is left but what it has brought about.
fn assert_nothing_is_left(stage: &Stage) {
    assert_eq!(tasks(stage).len(), 0);
    assert_eq!(binding(stage)["metadata"]["annotations"][MARK], Value::Null);
    assert_eq!(stage.fleet.count(&CLAIMS), 0, "a claim is left");
}

fn assert_left(stage: &Stage) {
    assert_eq!(listed(stage), ["north", "west"]);
    assert!(!has_copy(stage, "east"));
    assert_eq!(ready_pods(&stage.fleet.world.member("east").api), 0);
    assert_nothing_is_left(stage);
}

fn assert_stayed(stage: &Stage) {
    assert_eq!(listed(stage), ["east", "north", "west"]);
    assert!(stage.available("web", "east") > 0);
    assert_nothing_is_left(stage);
}

fn scale(stage: &Stage, replicas: u64) {
    stage.patch(
        &DEPLOYMENTS,
        Some("shop"),
        "web",
        json!({"spec": {"replicas": replicas}}),
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_duplicated_leaves_and_is_not_given_back_under_the_cordon() {
    let stage = duplicated().await;
    let ready = floor(&stage, 4);
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    let status = stage.is("drain", "Completed").await;
    assert_eq!(status["moves"][0]["means"], "Evict", "{status:#}");
    assert_eq!(status["moves"][0]["state"], "Moved");
    assert_eq!(status["moves"][0]["note"], "2 in north, 2 in west");
    ready.held();
    assert_left(&stage);
    assert_eq!(stage.migrations().len(), 0);
    // Karmada looks at it every time.
    scale(&stage, 3);
    stage
        .fleet
        .until("it is scaled", |_| {
            stage.available("web", "west") == 3 && stage.available("web", "north") == 3
        })
        .await;
    assert_eq!(listed(&stage), ["north", "west"]);
    assert_eq!(stage.taints("east"), [CORDON]);
    // That is why it needs a cordon that lasts.
    stage.delete("drain");
    stage
        .fleet
        .until("it has come back", |_| stage.available("web", "east") == 3)
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_divided_leaves_and_all_that_is_wanted_is_ready_all_the_while() {
    let stage = weighed().await;
    let ready = floor(&stage, 6);
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"keepCordoned": false})));
    stage.is("drain", "Completed").await;
    ready.held();
    assert_left(&stage);
    assert_eq!((replicas(&stage, "north"), replicas(&stage, "west")), (3, 3));
    assert_eq!(stage.taints("east"), [""; 0]);
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(
        listed(&stage),
        ["north", "west"],
        "it doesn't come back by itself"
    );
    ready.held();
}

#[tokio::test(start_paused = true)]
async fn karmada_keeps_the_copy_until_the_others_are_ready() {
    let stage = stage_of(divided(), 6, SLOW).await;
    let ready = floor(&stage, 6);
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask(
        "drain",
        &spec(&json!({"verify": {"healthyFor": "5s", "timeout": "5m"}})),
    );
    comes_to(&stage, "Verifying").await;
    let task = tasks(&stage)[0].clone();
    assert_eq!(
        (&task["fromCluster"], &task["replicas"]),
        (&json!("east"), &json!(2))
    );
    assert_eq!(
        (&task["suppressDeletion"], &task["producer"]),
        (&json!(true), &json!("cutover"))
    );
    tokio::time::sleep(SLOW / 2).await;
    assert_eq!(stage.available("web", "east"), 2, "{:#}", the_move(&stage));
    stage.is("drain", "Completed").await;
    ready.held();
    assert_left(&stage);
}

#[tokio::test(start_paused = true)]
async fn when_the_others_do_not_get_ready_it_is_put_back_as_it_was() {
    let stage = stage_of(divided(), 6, SLOW).await;
    let ready = floor(&stage, 6);
    let before = binding(&stage)["spec"]["clusters"].clone();
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &impatient());
    let status = stage.is("drain", "Failed").await;
    let note = status["moves"][0]["note"].as_str().unwrap();
    assert!(note.starts_with("the others were not ready in 2s"), "{note}");
    assert_eq!(binding(&stage)["spec"]["clusters"], before);
    assert_stayed(&stage);
    tokio::time::sleep(Duration::from_mins(5)).await;
    ready.held();
    assert_eq!(binding(&stage)["spec"]["clusters"], before);
}

#[tokio::test(start_paused = true)]
async fn an_abort_puts_back_what_is_not_confirmed() {
    let stage = weighed().await;
    let ready = floor(&stage, 6);
    let before = binding(&stage)["spec"]["clusters"].clone();
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &lasting(&json!({})));
    comes_to(&stage, "Verifying").await;
    stage
        .fleet
        .until("the others are ready", |_| {
            !the_move(&stage)["eviction"]["healthy"].is_null()
        })
        .await;
    stage.ask("drain", &lasting(&json!({"abort": true})));
    let status = stage.is("drain", "Aborted").await;
    assert_eq!(status["moves"][0]["state"], "Failed");
    assert_eq!(binding(&stage)["spec"]["clusters"], before);
    assert_stayed(&stage);
    assert_eq!(stage.taints("east"), [""; 0]);
    stage.fleet.until("all is at rest", |_| is_at_rest(&stage)).await;
    ready.held();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_deleted_puts_back_and_goes() {
    let stage = duplicated().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &lasting(&json!({})));
    comes_to(&stage, "Verifying").await;
    stage.delete("drain");
    stage.fleet.until("it is gone", |_| stage.is_gone("drain")).await;
    assert_stayed(&stage);
}

/// What stays, with nothing of it touched.
async fn stays(placement: Value, more: &Value) -> String {
    let stage = stage_of(placement, 2, Duration::from_millis(100)).await;
    let before = binding(&stage)["metadata"]["generation"].clone();
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(more));
    let status = stage.waits("drain", "1 workload can't be moved").await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(binding(&stage)["metadata"]["generation"], before);
    assert_stayed(&stage);
    assert_eq!(stage.taints("east"), [""; 0]);
    let why = &status["stays"][0]["why"];
    assert!(why["hint"].is_string());
    why["code"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_could_not_go_on_or_would_come_back_stays_untouched() {
    let mut three = all_three();
    three["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 3}]);
    assert_eq!(stays(three, &json!({})).await, "TooFewClusters");
    assert_eq!(
        stays(all_three(), &json!({"keepCordoned": false})).await,
        "ComesBack"
    );
    assert_eq!(stays(all_three(), &json!({"cordon": false})).await, "NotKeptAway");
    let mut tolerant = all_three();
    tolerant["clusterTolerations"] = json!([{"operator": "Exists"}]);
    assert_eq!(stays(tolerant, &json!({})).await, "NotKeptAway");
}

#[tokio::test(start_paused = true)]
async fn a_taint_of_the_users_own_keeps_it_away_as_well() {
    let stage = duplicated().await;
    stage.set_taints("east", json!([{"key": "maintenance", "effect": "NoSchedule"}]));
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"keepCordoned": false, "cordon": false})));
    stage.is("drain", "Completed").await;
    assert_left(&stage);
}

#[tokio::test(start_paused = true)]
async fn two_clusters_are_left_one_after_the_other() {
    let stage = duplicated().await;
    let ready = floor(&stage, 2);
    for cluster in ["east", "north"] {
        stage.set_taints(cluster, json!([{"key": "maintenance", "effect": "NoSchedule"}]));
    }
    let _controller = stage.controller(Arc::new(NoFailpoints));
    let mut both = spec(&json!({"taint": {"key": "maintenance"}, "keepCordoned": false, "maxParallel": 3}));
    both.as_object_mut().unwrap().remove("cluster");
    stage.ask("drain", &both);
    stage
        .fleet
        .until("both are left", |_| {
            assert!(tasks(&stage).len() < 2);
            stage.status("drain")["phase"] == "Watching" && listed(&stage) == ["west"]
        })
        .await;
    assert_nothing_is_left(&stage);
    ready.held();
}

#[tokio::test(start_paused = true)]
async fn what_another_intent_holds_is_left_alone_until_that_has_ended() {
    let stage = duplicated().await;
    let ready = floor(&stage, 4);
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("first", &lasting(&json!({"cluster": "west"})));
    let server = stage.fleet.world.control_plane();
    let stage_of = |name: &str| {
        let one = server.get(&EVACUATIONS, None, name).unwrap();
        one["status"]["moves"][0]["eviction"]["stage"].clone()
    };
    stage
        .fleet
        .until("the first is at work", |_| stage_of("first") == "Verifying")
        .await;
    stage.ask("drain", &spec(&json!({})));
    let status = stage.waits("drain", "1 workload can't be moved").await;
    let why = &status["stays"][0]["why"];
    assert_eq!(why["code"], "Claimed", "{status:#}");
    assert_eq!(why["message"], "Evacuation first holds the workload");
    stage.ask("first", &lasting(&json!({"cluster": "west", "abort": true})));
    stage.is("drain", "Completed").await;
    assert_left(&stage);
    ready.held();
}

#[tokio::test(start_paused = true)]
async fn what_changes_meanwhile_is_waited_for() {
    let stage = weighed().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    let mut slow = spec(&json!({}));
    slow["verify"] = json!({"healthyFor": "30s", "timeout": "5m"});
    stage.ask("drain", &slow);
    comes_to(&stage, "Verifying").await;
    scale(&stage, 8);
    let ready = floor(&stage, 6);
    stage.is("drain", "Completed").await;
    ready.held();
    assert_left(&stage);
    assert_eq!(replicas(&stage, "north") + replicas(&stage, "west"), 8);
}

fn patch_binding(stage: &Stage, patch: Value) {
    stage.patch(&BINDINGS, Some("shop"), "web-deployment", patch);
}

#[tokio::test(start_paused = true)]
async fn one_that_somebody_puts_back_has_failed() {
    let stage = duplicated().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &lasting(&json!({})));
    comes_to(&stage, "Verifying").await;
    let all = json!([{"name": "east", "replicas": 2}, {"name": "north", "replicas": 2}, {"name": "west", "replicas": 2}]);
    patch_binding(
        &stage,
        json!({"spec": {"clusters": all, "gracefulEvictionTasks": null}}),
    );
    let status = stage.is("drain", "Failed").await;
    assert_eq!(
        status["moves"][0]["note"],
        "another client has put it back into east"
    );
    assert_stayed(&stage);
}

#[tokio::test(start_paused = true)]
async fn one_whose_task_somebody_takes_away_has_left_when_its_copy_has() {
    let stage = duplicated().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &lasting(&json!({})));
    comes_to(&stage, "Verifying").await;
    patch_binding(&stage, json!({"spec": {"gracefulEvictionTasks": null}}));
    stage.is("drain", "Completed").await;
    assert_left(&stage);
}

#[tokio::test(start_paused = true)]
async fn one_whose_binding_is_recreated_has_failed_and_nothing_is_left() {
    let stage = duplicated().await;
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &lasting(&json!({})));
    comes_to(&stage, "Verifying").await;
    let server = stage.fleet.world.control_plane();
    server
        .delete(
            &BINDINGS,
            Some("shop"),
            "web-deployment",
            &DeleteOptions::default(),
        )
        .unwrap();
    let status = stage.is("drain", "Failed").await;
    assert_eq!(
        status["moves"][0]["note"],
        "its binding is gone, or was recreated"
    );
    assert_eq!(stage.fleet.count(&CLAIMS), 0);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_only_being_deleted_is_not_gone() {
    let stage = duplicated().await;
    let east = stage.fleet.world.member("east").api.clone();
    let keep = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/keep"]}}));
    let somebody = WriteOptions::manager("somebody");
    east.patch(&DEPLOYMENTS, Some("shop"), "web", None, &keep, &somebody)
        .unwrap();
    let _controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({})));
    stage
        .fleet
        .until("it is being deleted", |_| {
            let copy = east.get(&DEPLOYMENTS, Some("shop"), "web").unwrap();
            !copy["metadata"]["deletionTimestamp"].is_null()
        })
        .await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let one = the_move(&stage);
    assert_eq!(one["state"], "Moving");
    assert!(one["note"].as_str().unwrap().contains("being deleted"), "{one:#}");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    east.patch(&DEPLOYMENTS, Some("shop"), "web", None, &free, &somebody)
        .unwrap();
    stage.is("drain", "Completed").await;
    assert_left(&stage);
}

#[tokio::test(start_paused = true)]
async fn what_is_written_late_is_refused() {
    let stage = duplicated().await;
    let trap = Trap::before("Evacuation", "take a cluster out");
    let late = stage.controller(Arc::clone(&trap) as Arc<dyn FailpointHook>);
    stage.ask("drain", &spec(&json!({})));
    trap.sprung("a cluster is taken out").await;
    let _next = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &spec(&json!({"abort": true})));
    stage.is("drain", "Aborted").await;
    let before = binding(&stage)["metadata"]["generation"].clone();
    trap.go_on();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(binding(&stage)["metadata"]["generation"], before);
    assert_stayed(&stage);
    drop(late);
}

#[tokio::test(start_paused = true)]
async fn what_an_intent_leaves_that_is_cut_off_is_put_back() {
    let stage = weighed().await;
    let controller = stage.controller(Arc::new(NoFailpoints));
    stage.ask("drain", &lasting(&json!({})));
    comes_to(&stage, "Verifying").await;
    controller.kill().await;
    stage.patch(
        &EVACUATIONS,
        None,
        "drain",
        json!({"metadata": {"finalizers": null}}),
    );
    let server = stage.fleet.world.control_plane();
    let _ = server.delete(&EVACUATIONS, None, "drain", &DeleteOptions::default());
    let _next = stage.controller(Arc::new(NoFailpoints));
    stage
        .fleet
        .until("the claim is gone", |_| stage.fleet.count(&CLAIMS) == 0)
        .await;
    assert_stayed(&stage);
}

#[test]
fn killed_after_each_write_it_still_leaves() {
    let play = async |stage: &Stage| {
        stage.ask("drain", &spec(&json!({"keepCordoned": false})));
        stage.is("drain", "Completed").await;
    };
    let ended = |stage: &Stage| {
        assert_left(stage);
        stage.assert_clean();
        let ready: u64 = ["north", "west"]
            .map(|name| stage.available("web", name))
            .iter()
            .sum();
        assert_eq!(ready, 6);
    };
    let must = [
        "claim Deployment.apps shop/web",
        "mark what is taken out",
        "take a cluster out",
        "let the copy go",
        "take the mark off",
        "give up the claim",
    ];
    let killed = at_any_line_of("Evacuation").among_them(&must).first_journals(3);
    killed.each_time(weighed, play, ended);
}

#[test]
fn killed_after_each_write_it_still_is_put_back() {
    let begin = async || stage_of(divided(), 6, SLOW).await;
    let play = async |stage: &Stage| {
        stage.ask("drain", &impatient());
        stage.is("drain", "Failed").await;
    };
    let ended = |stage: &Stage| {
        assert_stayed(stage);
        stage.assert_clean();
    };
    at_any_line_of("Evacuation")
        .among_them(&["take a cluster out", "put the cluster back"])
        .first_journals(3)
        .each_time(begin, play, ended);
}
