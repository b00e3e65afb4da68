//! What happens between Works and members: execution, status, failover, admission, access.

use std::time::Duration;

use cutover::sandbox::api::{
    ApiServer, DeleteOptions, ListOptions, Object, Patch, Resource, Status, Subresource, WriteOptions,
};
use cutover::sandbox::karmada::kinds;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

use crate::support::wait::wait_for;

const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const FLINK: Resource = Resource::new("flink.apache.org", "flinkdeployments");
const SHOP: Option<&str> = Some("shop");

/// A world in which the namespace `shop` is everywhere.
async fn world(options: WorldOptions) -> World {
    let world = World::start(options);
    create(&world, &kinds::NAMESPACES, None, namespace("shop"));
    for member in world.members() {
        until("the namespace is in every member", || {
            member.api.get(&kinds::NAMESPACES, None, "shop").is_ok()
        })
        .await;
    }
    world
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}, "data": {"a": "1"}})
}

/// A job that is held: it never runs, so it is never healthy.
fn held_job() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "metadata": {"name": "orders"},
        "spec": {
            "flinkVersion": "v1_20", "image": "flink", "serviceAccount": "flink",
            "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "1"},
            "jobManager": {"resource": {"memory": "1024m", "cpu": 1}},
            "taskManager": {"resource": {"memory": "1024m", "cpu": 1}},
            "job": {"jarURI": "local:///a.jar", "parallelism": 1, "state": "suspended", "upgradeMode": "savepoint"},
        },
    })
}

fn policy(name: &str, kind: &str, version: &str, spec: Value) -> Value {
    let mut policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"apiVersion": version, "kind": kind}],
            "placement": {"clusterAffinity": {"clusterNames": ["east"]}},
        },
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        policy["spec"][field] = value.clone();
    }
    policy
}

fn failover_policy(failover: Value) -> Value {
    let placement = json!({
        "clusterAffinity": {"clusterNames": ["east", "west"]},
        "spreadConstraints": [{"spreadByField": "cluster", "maxGroups": 1, "minGroups": 1}],
    });
    let spec = json!({"propagateDeps": true, "placement": placement, "failover": {"application": failover}});
    policy("jobs", "FlinkDeployment", "flink.apache.org/v1beta1", spec)
}

fn try_create(
    world: &World,
    resource: &Resource,
    namespace: Option<&str>,
    object: Value,
) -> Result<Object, Status> {
    world
        .control_plane()
        .create(resource, namespace, object, &WriteOptions::manager("test"))
}

fn create(world: &World, resource: &Resource, namespace: Option<&str>, object: Value) -> Object {
    try_create(world, resource, namespace, object).unwrap()
}

fn merge(server: &ApiServer, resource: &Resource, namespace: Option<&str>, name: &str, patch: Value) {
    let patch = Patch::Merge(patch);
    server
        .patch(
            resource,
            namespace,
            name,
            None,
            &patch,
            &WriteOptions::manager("test"),
        )
        .unwrap();
}

/// Propagates the config map to east; returns when it is there.
async fn propagated(world: &World, spec: Value) {
    create(
        world,
        &kinds::POLICIES,
        SHOP,
        policy("maps", "ConfigMap", "v1", spec),
    );
    create(world, &CONFIG_MAPS, SHOP, config_map());
    until("it is in the member", || {
        member_object(world, &CONFIG_MAPS, "prices").is_some()
    })
    .await;
}

fn member_object(world: &World, resource: &Resource, name: &str) -> Option<Object> {
    world.member("east").api.get(resource, SHOP, name).ok()
}

fn work(world: &World, kind: &str) -> Option<Object> {
    let works = world
        .control_plane()
        .list(&kinds::WORKS, Some("karmada-es-east"), &ListOptions::default())
        .unwrap();
    works
        .items
        .into_iter()
        .find(|work| work["spec"]["workload"]["manifests"][0]["kind"] == kind)
}

fn binding(world: &World, name: &str) -> Value {
    world
        .control_plane()
        .get(&kinds::BINDINGS, SHOP, name)
        .map_or(Value::Null, |binding| (*binding).clone())
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind)
        .unwrap_or(&Value::Null)
}

async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

async fn until(what: &str, holds: impl FnMut() -> bool) {
    within(Duration::from_secs(30), what, holds).await;
}

async fn within(limit: Duration, what: &str, holds: impl FnMut() -> bool) {
    let wait = wait_for(what).within(limit);
    wait.every(Duration::from_millis(1)).until(holds).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_applied_in_a_member_shows_in_work_and_binding() {
    let world = world(WorldOptions::fast()).await;
    propagated(&world, json!({})).await;
    let object = member_object(&world, &CONFIG_MAPS, "prices").unwrap();
    assert_eq!(object["metadata"]["labels"]["karmada.io/managed"], "true");
    assert_eq!(
        object["metadata"]["annotations"]["work.karmada.io/namespace"],
        "karmada-es-east"
    );
    until("the Work is applied", || {
        condition(&work(&world, "ConfigMap").unwrap(), "Applied")["status"] == "True"
    })
    .await;
    until("the binding is applied", || {
        condition(&binding(&world, "prices-configmap"), "FullyApplied")["status"] == "True"
    })
    .await;
    until("its health is known", || {
        let binding = binding(&world, "prices-configmap");
        let copy = &binding["status"]["aggregatedStatus"][0];
        copy["clusterName"] == "east" && copy["applied"] == true && copy["health"] == "Healthy"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_work_is_gone_while_its_object_is_still_terminating() {
    let world = world(WorldOptions::fast()).await;
    propagated(&world, json!({})).await;
    let finalizers = json!({"metadata": {"finalizers": ["operator.example/cleanup"]}});
    merge(
        &world.member("east").api,
        &CONFIG_MAPS,
        SHOP,
        "prices",
        finalizers,
    );
    pause(200).await;
    world
        .control_plane()
        .delete(&CONFIG_MAPS, SHOP, "prices", &DeleteOptions::default())
        .unwrap();
    until("the Work is gone", || work(&world, "ConfigMap").is_none()).await;
    let object = member_object(&world, &CONFIG_MAPS, "prices").unwrap();
    assert!(object["metadata"]["deletionTimestamp"].is_string());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_members_cache_does_not_show_counts_as_deleted() {
    let world = world(WorldOptions::fast()).await;
    propagated(&world, json!({})).await;
    world.faults().lag("member-cache/east", Duration::from_mins(1));
    let mut late = config_map();
    late["metadata"]["name"] = json!("late");
    create(&world, &CONFIG_MAPS, SHOP, late);
    until("it is in the member", || {
        member_object(&world, &CONFIG_MAPS, "late").is_some()
    })
    .await;
    world
        .control_plane()
        .delete(&CONFIG_MAPS, SHOP, "late", &DeleteOptions::default())
        .unwrap();
    until("the binding is gone", || {
        binding(&world, "late-configmap").is_null()
    })
    .await;
    pause(2000).await;
    assert!(
        member_object(&world, &CONFIG_MAPS, "late").is_some(),
        "a copy without a Work"
    );
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changes_or_deletes_in_a_member_is_put_right() {
    let world = world(WorldOptions::fast()).await;
    propagated(&world, json!({})).await;
    let member = &world.member("east").api;
    merge(member, &CONFIG_MAPS, SHOP, "prices", json!({"data": {"a": "2"}}));
    until("it is as it was", || {
        member_object(&world, &CONFIG_MAPS, "prices").unwrap()["data"]["a"] == "1"
    })
    .await;
    member
        .delete(&CONFIG_MAPS, SHOP, "prices", &DeleteOptions::default())
        .unwrap();
    until("it is back", || {
        member_object(&world, &CONFIG_MAPS, "prices").is_some()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_object_of_that_name_is_left_alone() {
    let world = world(WorldOptions::fast()).await;
    let mut foreign = config_map();
    foreign["data"]["a"] = json!("theirs");
    world
        .member("east")
        .api
        .create(&CONFIG_MAPS, SHOP, foreign, &WriteOptions::default())
        .unwrap();
    create(
        &world,
        &kinds::POLICIES,
        SHOP,
        policy("maps", "ConfigMap", "v1", json!({})),
    );
    create(&world, &CONFIG_MAPS, SHOP, config_map());
    until("the conflict shows", || {
        work(&world, "ConfigMap").is_some_and(|work| condition(&work, "Applied")["status"] == "False")
    })
    .await;
    assert_eq!(
        member_object(&world, &CONFIG_MAPS, "prices").unwrap()["data"]["a"],
        "theirs"
    );
}

#[tokio::test(start_paused = true)]
async fn a_suspended_work_is_written_and_its_member_is_not() {
    let world = world(WorldOptions::fast()).await;
    propagated(&world, json!({})).await;
    until("the binding is applied", || {
        condition(&binding(&world, "prices-configmap"), "FullyApplied")["status"] == "True"
    })
    .await;
    let control = world.control_plane();
    let suspend = json!({"spec": {"suspension": {"dispatching": true}}});
    merge(control, &kinds::BINDINGS, SHOP, "prices-configmap", suspend);
    until("dispatching is suspended", || {
        condition(&work(&world, "ConfigMap").unwrap(), "Dispatching")["reason"] == "SuspendDispatching"
    })
    .await;
    merge(
        &world.member("east").api,
        &CONFIG_MAPS,
        SHOP,
        "prices",
        json!({"data": {"a": "2"}}),
    );
    pause(2000).await;
    assert_eq!(
        member_object(&world, &CONFIG_MAPS, "prices").unwrap()["data"]["a"],
        "2",
        "nor repaired"
    );
    assert_eq!(
        condition(&binding(&world, "prices-configmap"), "FullyApplied")["status"],
        "True"
    );
    // Any change of the template's metadata wipes it.
    merge(
        control,
        &CONFIG_MAPS,
        SHOP,
        "prices",
        json!({"metadata": {"labels": {"any": "change"}}}),
    );
    until("it is dispatched again", || {
        member_object(&world, &CONFIG_MAPS, "prices").unwrap()["data"]["a"] == "1"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_protected_object_cannot_be_deleted() {
    let world = world(WorldOptions::fast()).await;
    let mut protected = config_map();
    protected["metadata"]["labels"] = json!({"resourcetemplate.karmada.io/deletion-protected": "Always"});
    create(&world, &CONFIG_MAPS, SHOP, protected);
    let refusal = world
        .control_plane()
        .delete(&CONFIG_MAPS, SHOP, "prices", &DeleteOptions::default())
        .unwrap_err();
    assert_eq!(refusal.code, 403);
    assert!(
        refusal.message.contains("This resource is protected"),
        "{refusal}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_webhooks_fill_in_what_karmadas_do() {
    let world = world(WorldOptions::fast()).await;
    let spec = json!({"placement": {"spreadConstraints": [{"maxGroups": 1}],
                                    "replicaScheduling": {"replicaSchedulingType": "Divided"}}});
    let policy = create(
        &world,
        &kinds::POLICIES,
        SHOP,
        policy("maps", "ConfigMap", "v1", spec),
    );
    assert_eq!(policy["spec"]["resourceSelectors"][0]["namespace"], "shop");
    let constraint = &policy["spec"]["placement"]["spreadConstraints"][0];
    assert_eq!(
        *constraint,
        json!({"maxGroups": 1, "spreadByField": "cluster", "minGroups": 1})
    );
    assert_eq!(
        policy["spec"]["placement"]["replicaScheduling"]["replicaDivisionPreference"],
        "Weighted"
    );
    let id = &policy["metadata"]["labels"]["propagationpolicy.karmada.io/permanent-id"];
    assert_eq!(id.as_str().map(str::len), Some(36));
    assert_eq!(
        policy["metadata"]["finalizers"],
        json!(["karmada.io/propagation-policy-controller"])
    );

    let overrides = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": {"name": "pin"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}], "overrideRules": []},
    });
    let overrides = create(&world, &kinds::OVERRIDES, SHOP, overrides);
    assert_eq!(overrides["spec"]["overriders"], json!({}));
    assert_eq!(overrides["spec"]["resourceSelectors"][0]["namespace"], "shop");
}

#[tokio::test(start_paused = true)]
async fn application_failover_needs_propagated_dependencies() {
    let world = world(WorldOptions::fast()).await;
    let mut policy = failover_policy(json!({"decisionConditions": {"tolerationSeconds": 5}}));
    policy["spec"]["propagateDeps"] = json!(false);
    let refusal = try_create(&world, &kinds::POLICIES, SHOP, policy).unwrap_err();
    assert!(
        refusal.message.contains("propagateDeps must be true"),
        "{refusal}"
    );
}

/// Starts a job that is never healthy, with scheduling suspended as soon as it is somewhere; returns where.
async fn unhealthy_job(world: &World, failover: Value) -> String {
    create(world, &kinds::POLICIES, SHOP, failover_policy(failover));
    create(world, &FLINK, SHOP, held_job());
    until("it is scheduled", || {
        binding(world, "orders-flinkdeployment")["spec"]["clusters"][0]["name"].is_string()
    })
    .await;
    let suspend = json!({"spec": {"suspension": {"scheduling": true}}});
    merge(
        world.control_plane(),
        &kinds::BINDINGS,
        SHOP,
        "orders-flinkdeployment",
        suspend,
    );
    pause(100).await;
    let source = binding(world, "orders-flinkdeployment")["spec"]["clusters"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    until("it is unhealthy", || {
        binding(world, "orders-flinkdeployment")["status"]["aggregatedStatus"][0]["health"] == "Unhealthy"
    })
    .await;
    source
}

#[tokio::test(start_paused = true)]
async fn failover_ignores_that_scheduling_is_suspended() {
    let world = world(WorldOptions::fast()).await;
    let failover = json!({"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Directly"});
    let source = unhealthy_job(&world, failover).await;
    pause(3000).await;
    assert_eq!(
        binding(&world, "orders-flinkdeployment")["spec"]["gracefulEvictionTasks"],
        Value::Null,
        "too early"
    );
    until("it is evicted", || {
        let binding = binding(&world, "orders-flinkdeployment");
        let task = &binding["spec"]["gracefulEvictionTasks"][0];
        task["reason"] == "ApplicationFailure" && task["creationTimestamp"].is_string()
    })
    .await;
    let binding = binding(&world, "orders-flinkdeployment");
    let task = &binding["spec"]["gracefulEvictionTasks"][0];
    assert_eq!(
        (&task["fromCluster"], &task["purgeMode"]),
        (&json!(source), &json!("Directly"))
    );
    assert_eq!(
        task["producer"],
        "resource-binding-application-failover-controller"
    );
    assert!(
        binding["spec"]["clusters"].as_array().is_none_or(Vec::is_empty),
        "{binding}"
    );
    let api = &world.member(&source).api;
    until("the copy is deleted", || api.get(&FLINK, SHOP, "orders").is_err()).await;
}

#[tokio::test(start_paused = true)]
async fn a_state_path_that_matches_nothing_switches_failover_off() {
    let world = world(WorldOptions::fast()).await;
    let rules = json!([{"aliasLabelName": "job", "jsonPath": "{.jobStatus.jobID}"}]);
    let failover = json!({"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Directly",
                          "statePreservation": {"rules": rules}});
    unhealthy_job(&world, failover).await;
    pause(60_000).await;
    assert_eq!(
        binding(&world, "orders-flinkdeployment")["spec"]["gracefulEvictionTasks"],
        Value::Null
    );
}

#[tokio::test(start_paused = true)]
async fn removing_failover_from_the_binding_stops_it_and_writing_it_back_starts_anew() {
    let world = world(WorldOptions::fast()).await;
    let failover = json!({"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Directly"});
    unhealthy_job(&world, failover).await;
    pause(4000).await;
    let control = world.control_plane();
    merge(
        control,
        &kinds::BINDINGS,
        SHOP,
        "orders-flinkdeployment",
        json!({"spec": {"failover": null}}),
    );
    pause(22_000).await;
    assert_eq!(
        binding(&world, "orders-flinkdeployment")["spec"]["gracefulEvictionTasks"],
        Value::Null
    );
    merge(
        control,
        &FLINK,
        SHOP,
        "orders",
        json!({"metadata": {"labels": {"any": "change"}}}),
    );
    until("it is written back", || {
        binding(&world, "orders-flinkdeployment")["spec"]["failover"].is_object()
    })
    .await;
    pause(4000).await;
    assert_eq!(
        binding(&world, "orders-flinkdeployment")["spec"]["gracefulEvictionTasks"],
        Value::Null
    );
    until("it is evicted", || {
        binding(&world, "orders-flinkdeployment")["spec"]["gracefulEvictionTasks"].is_array()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_never_purged_goes_when_somebody_confirms() {
    let world = world(WorldOptions::fast()).await;
    let failover = json!({"decisionConditions": {"tolerationSeconds": 1}, "purgeMode": "Never"});
    let source = unhealthy_job(&world, failover).await;
    let task =
        |world: &World| binding(world, "orders-flinkdeployment")["spec"]["gracefulEvictionTasks"][0].clone();
    until("it is evicted", || task(&world)["creationTimestamp"].is_string()).await;
    assert_eq!(task(&world)["suppressDeletion"], true);
    pause(650_000).await;
    assert!(
        world.member(&source).api.get(&FLINK, SHOP, "orders").is_ok(),
        "nobody deletes it"
    );
    let mut confirmed = task(&world);
    confirmed["suppressDeletion"] = json!(false);
    let patch = json!({"spec": {"gracefulEvictionTasks": [confirmed]}});
    merge(
        world.control_plane(),
        &kinds::BINDINGS,
        SHOP,
        "orders-flinkdeployment",
        patch,
    );
    until("it is deleted", || {
        world.member(&source).api.get(&FLINK, SHOP, "orders").is_err()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_is_not_ready_after_a_while() {
    let world = world(WorldOptions::fast()).await;
    let cluster = || world.control_plane().get(&kinds::CLUSTERS, None, "east").unwrap();
    world.faults().partition("east");
    pause(15_000).await;
    assert_eq!(
        condition(&cluster(), "Ready")["status"],
        "True",
        "one bad look is not believed"
    );
    within(Duration::from_mins(1), "it is not ready", || {
        condition(&cluster(), "Ready")["status"] == "False"
    })
    .await;
    until("it is tainted", || {
        cluster()["spec"]["taints"][0]["key"] == "cluster.karmada.io/not-ready"
    })
    .await;
    world.faults().heal("east");
    within(Duration::from_mins(1), "it is ready", || {
        condition(&cluster(), "Ready")["status"] == "True"
    })
    .await;
    until("the taint is gone", || {
        cluster()["spec"]["taints"].as_array().is_none_or(Vec::is_empty)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_go_to_members_by_themselves_unless_they_say_no() {
    let world = world(WorldOptions::fast()).await;
    let mut skipped = namespace("private");
    skipped["metadata"]["labels"] = json!({"namespace.karmada.io/skip-auto-propagation": "true"});
    create(&world, &kinds::NAMESPACES, None, skipped);
    pause(1000).await;
    let found = |name: &str| {
        world
            .member("west")
            .api
            .get(&kinds::NAMESPACES, None, name)
            .is_ok()
    };
    assert!(found("shop") && !found("private") && !found("karmada-system"));
}

#[tokio::test(start_paused = true)]
async fn the_proxy_tells_an_unknown_cluster_from_a_missing_object() {
    let world = world(WorldOptions::fast()).await;
    propagated(&world, json!({})).await;
    let get = async |cluster: &str, name: &str| {
        let uri = format!(
            "/apis/cluster.karmada.io/v1alpha1/clusters/{cluster}/proxy/api/v1/namespaces/shop/configmaps/{name}"
        );
        world
            .client()
            .request::<Value>(http::Request::get(uri).body(Vec::new()).unwrap())
            .await
    };
    assert_eq!(get("east", "prices").await.unwrap()["data"]["a"], "1");
    let refusal = |result: Result<Value, kube::Error>| match result {
        Err(kube::Error::Api(status)) => serde_json::to_value(&*status).unwrap(),
        other => panic!("{other:?}"),
    };
    let missing = refusal(get("east", "none").await);
    assert_eq!(
        (&missing["code"], &missing["details"]["kind"]),
        (&json!(404), &json!("configmaps"))
    );
    let unknown = refusal(get("nowhere", "prices").await);
    assert_eq!(
        (&unknown["code"], &unknown["details"]["kind"]),
        (&json!(404), &json!("clusters"))
    );
    assert_eq!(unknown["details"]["group"], "cluster.karmada.io");
    world.faults().partition("east");
    assert_eq!(refusal(get("east", "prices").await)["code"], 503);
}

#[tokio::test(start_paused = true)]
async fn nothing_can_be_tried_in_a_member_through_the_proxy() {
    let world = world(WorldOptions::fast()).await;
    propagated(&world, json!({})).await;
    let uri =
        "/apis/cluster.karmada.io/v1alpha1/clusters/east/proxy/api/v1/namespaces/shop/configmaps?dryRun=All";
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tried", "namespace": "shop"}});
    let request = http::Request::post(uri).header("content-type", "application/json");
    let tried = world
        .client()
        .request::<Value>(request.body(object.to_string().into_bytes()).unwrap())
        .await;
    let Err(kube::Error::Api(status)) = tried else {
        panic!("{tried:?}")
    };
    assert_eq!(
        (status.code, status.message.as_str()),
        (400, "dryRun is not supported")
    );
    let east = &world.member("east").api;
    assert!(east.get(&CONFIG_MAPS, Some("shop"), "tried").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_rebalancer_calls_it_a_success_on_a_suspended_binding() {
    let world = world(WorldOptions::fast()).await;
    propagated(&world, json!({})).await;
    let control = world.control_plane();
    let suspend = json!({"spec": {"suspension": {"scheduling": true}}});
    merge(control, &kinds::BINDINGS, SHOP, "prices-configmap", suspend);
    let workload =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": name});
    let rebalancer = json!({
        "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": "now"},
        "spec": {"workloads": [workload("prices"), workload("none")]},
    });
    create(&world, &kinds::REBALANCERS, None, rebalancer);
    let observed =
        || control.get(&kinds::REBALANCERS, None, "now").unwrap()["status"]["observedWorkloads"].clone();
    until("it is a success", || observed()[1]["result"] == "Successful").await;
    assert_eq!(observed()[0]["reason"], "ReferencedBindingNotFound");
    assert!(binding(&world, "prices-configmap")["spec"]["rescheduleTriggeredAt"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_no_execute_taint_evicts_only_what_the_annotation_does_not_tolerate() {
    let mut options = WorldOptions::fast();
    options.features.no_execute_eviction = true;
    let world = world(options).await;
    propagated(&world, json!({})).await;
    let mut other = config_map();
    other["metadata"]["name"] = json!("tolerant");
    create(&world, &CONFIG_MAPS, SHOP, other);
    until("both are scheduled", || {
        binding(&world, "tolerant-configmap")["metadata"]["annotations"]["policy.karmada.io/applied-placement"].is_string()
    })
    .await;
    let control = world.control_plane();
    for name in ["tolerant-configmap", "prices-configmap"] {
        let suspend = json!({"spec": {"suspension": {"scheduling": true}}});
        merge(control, &kinds::BINDINGS, SHOP, name, suspend);
    }
    pause(200).await;
    let placement = json!({"clusterTolerations": [{"operator": "Exists"}]}).to_string();
    let tolerate = json!({"metadata": {"annotations": {"policy.karmada.io/applied-placement": placement}}});
    merge(control, &kinds::BINDINGS, SHOP, "tolerant-configmap", tolerate);
    pause(200).await;
    let taint = json!({"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}});
    merge(control, &kinds::CLUSTERS, None, "east", taint);
    until("it is evicted", || {
        binding(&world, "prices-configmap")["spec"]["gracefulEvictionTasks"][0]["reason"]
            == "TaintUntolerated"
    })
    .await;
    let east = control.get(&kinds::CLUSTERS, None, "east").unwrap();
    let since = east["spec"]["taints"][0]["timeAdded"].as_str().unwrap();
    assert!(since.parse::<jiff::Timestamp>().is_ok(), "{since}");
    pause(5000).await;
    assert_eq!(
        binding(&world, "tolerant-configmap")["spec"]["gracefulEvictionTasks"],
        Value::Null
    );
    assert_eq!(
        binding(&world, "tolerant-configmap")["spec"]["clusters"][0]["name"],
        "east"
    );
}

#[tokio::test(start_paused = true)]
async fn the_templates_status_is_the_members_generation_included() {
    let world = world(WorldOptions::fast()).await;
    create(
        &world,
        &kinds::POLICIES,
        SHOP,
        policy("jobs", "FlinkDeployment", "flink.apache.org/v1beta1", json!({})),
    );
    create(&world, &FLINK, SHOP, held_job());
    until("it is in the member", || {
        member_object(&world, &FLINK, "orders").is_some()
    })
    .await;
    let status =
        json!({"status": {"observedGeneration": 41, "jobStatus": {"jobId": "a1", "state": "RUNNING"}}});
    let (patch, part) = (Patch::Merge(status), Some(Subresource::Status));
    let api = &world.member("east").api;
    api.patch(
        &FLINK,
        SHOP,
        "orders",
        part,
        &patch,
        &WriteOptions::manager("test"),
    )
    .unwrap();
    until("the template shows it", || {
        let template = world.control_plane().get(&FLINK, SHOP, "orders").unwrap();
        template["status"]["observedGeneration"] == 41 && template["status"]["jobStatus"]["jobId"] == "a1"
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_failover_takes_the_state_along_until_the_new_copy_runs() {
    let world = world(WorldOptions::fast()).await;
    let rules = json!([{"aliasLabelName": "previous-job", "jsonPath": "{.jobStatus.jobId}"}]);
    let failover = json!({"decisionConditions": {"tolerationSeconds": 5}, "purgeMode": "Directly",
                          "statePreservation": {"rules": rules}});
    let mut job = held_job();
    job["spec"]["job"]["state"] = json!("running");
    create(&world, &kinds::POLICIES, SHOP, failover_policy(failover));
    create(&world, &FLINK, SHOP, job);
    let orders = |world: &World| binding(world, "orders-flinkdeployment");
    let runs = |world: &World| {
        orders(world)["status"]["aggregatedStatus"][0]["status"]["jobStatus"]["state"] == "RUNNING"
    };
    until("the job runs", || runs(&world)).await;
    let source = orders(&world)["spec"]["clusters"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let target = if source == "east" { "west" } else { "east" };
    let copy = |world: &World, cluster: &str| world.member(cluster).api.get(&FLINK, SHOP, "orders").ok();
    let id = copy(&world, &source).unwrap()["status"]["jobStatus"]["jobId"].clone();

    world.member(&source).simulators(|simulators| simulators.freeze());
    let status = Patch::Merge(json!({"status": {"jobStatus": {"state": "RECONCILING"}}}));
    let (api, part) = (&world.member(&source).api, Some(Subresource::Status));
    api.patch(
        &FLINK,
        SHOP,
        "orders",
        part,
        &status,
        &WriteOptions::manager("test"),
    )
    .unwrap();
    // The scheduler may choose the source again only when its copy is gone.
    until("it is evicted", || {
        let task = &orders(&world)["spec"]["gracefulEvictionTasks"][0];
        task["preservedLabelState"]["previous-job"] == id && task["clustersBeforeFailover"] == json!([source])
    })
    .await;
    world.member(&source).simulators(|simulators| simulators.thaw());
    until("the new copy carries the state", || {
        copy(&world, target).is_some_and(|copy| copy["metadata"]["labels"]["previous-job"] == id)
    })
    .await;
    until("the task is over", || {
        orders(&world)["spec"]["gracefulEvictionTasks"].is_null()
    })
    .await;
    assert_eq!(orders(&world)["spec"]["clusters"][0]["name"], target);
    until("the label is gone", || {
        copy(&world, target).unwrap()["metadata"]["labels"]["previous-job"].is_null()
    })
    .await;
    until("the old copy is gone", || copy(&world, &source).is_none()).await;
}
