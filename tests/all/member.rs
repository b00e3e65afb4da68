//! The member's simulators through an API server, as Karmada and people meet them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::wait::comes_true;
use cutover::name::ClusterName;
use cutover::sandbox::api::{ApiServer, Options, Resource, WriteOptions};
use cutover::sandbox::ledger::{Ledger, Origin};
use cutover::sandbox::member::savepoints::{Savepoint, Savepoints};
use cutover::sandbox::member::{self, Clock, Context, Simulators, Timings};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

const NAMESPACES: Resource = Resource::new("", "namespaces");

/// What the members of one test share.
#[derive(Clone)]
struct World {
    clock: Clock,
    ledger: Ledger,
    savepoints: Savepoints,
}

struct Site {
    client: Client,
    simulators: Simulators,
    /// How far behind the operators are, in milliseconds.
    lag: Arc<AtomicU64>,
}

fn crd() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "flinkdeployments.flink.apache.org"},
        "spec": {
            "group": "flink.apache.org", "scope": "Namespaced",
            "names": {"kind": "FlinkDeployment", "listKind": "FlinkDeploymentList", "plural": "flinkdeployments",
                      "singular": "flinkdeployment"},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": anything, "status": anything},
                }},
            }],
        },
    })
}

impl World {
    fn new() -> Self {
        Self {
            clock: Clock::starting_at(Timestamp::from_second(1_800_000_000).unwrap()),
            ledger: Ledger::new(),
            savepoints: Savepoints::new(),
        }
    }

    fn member(&self, cluster: &str) -> Site {
        let api = ApiServer::new(Options::new(cluster, 1));
        api.install(&crd()).unwrap();
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "streaming"}});
        api.create(&NAMESPACES, None, namespace, &WriteOptions::default())
            .unwrap();
        let lag = Arc::new(AtomicU64::new(0));
        let behind = Arc::clone(&lag);
        let context = Context {
            cluster: cluster.into(),
            scope: cutover::sandbox::member::Scope::default(),
            seed: 1,
            clock: self.clock,
            ledger: self.ledger.clone(),
            savepoints: self.savepoints.clone(),
            timings: Timings::default(),
            lag: Arc::new(move |_: &ClusterName, _: &str| {
                Duration::from_millis(behind.load(Ordering::Relaxed))
            }),
        };
        let client = api.client("system:admin");
        let simulators = member::spawn(client.clone(), context);
        Site {
            client,
            simulators,
            lag,
        }
    }
}

fn orders(state: &str) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "streaming"},
        "spec": {
            "image": "orders:1", "flinkVersion": "v1_20",
            "job": {"jarURI": "local:///orders.jar", "parallelism": 2, "state": state, "upgradeMode": "savepoint"},
        },
    })
}

impl Site {
    fn flink(&self) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "flink.apache.org".into(),
            version: "v1beta1".into(),
            api_version: "flink.apache.org/v1beta1".into(),
            kind: "FlinkDeployment".into(),
            plural: "flinkdeployments".into(),
        };
        Api::namespaced_with(self.client.clone(), "streaming", &resource)
    }

    async fn create(&self, manifest: Value) {
        let object = serde_json::from_value(manifest).unwrap();
        self.flink()
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    async fn get(&self) -> Option<Value> {
        self.flink()
            .get_opt("orders")
            .await
            .unwrap()
            .map(|object| serde_json::to_value(object).unwrap())
    }

    async fn spec(&self, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.flink()
            .patch("orders", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Waits until the object is as wanted, and returns it.
    async fn until(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        let is_there = async || {
            found = self.get().await;
            found.as_ref().is_some_and(&wanted)
        };
        let came = comes_true(Duration::from_secs(30), Duration::from_millis(10), is_there).await;
        let found = found.unwrap_or_default();
        assert!(came, "never reached: {found:#}");
        found
    }

    async fn running(&self) -> Value {
        self.until(|object| object["status"]["jobStatus"]["state"] == "RUNNING")
            .await
    }

    /// Suspends the job and returns its savepoint.
    async fn suspend(&self) -> String {
        self.spec(json!({"job": {"state": "suspended"}})).await;
        let object = self
            .until(|object| object["status"]["lifecycleState"] == "SUSPENDED")
            .await;
        object["status"]["jobStatus"]["upgradeSavepointPath"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    async fn pods(&self) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "streaming");
        pods.list(&ListParams::default().labels("app=orders"))
            .await
            .unwrap()
            .items
    }

    async fn until_no_pods(&self) {
        let is_so = async || self.pods().await.is_empty();
        let went = comes_true(Duration::from_secs(10), Duration::from_millis(10), is_so).await;
        assert!(went, "pods stay: {:#?}", self.pods().await);
    }

    fn can_write(&self) -> bool {
        self.simulators
            .jobs()
            .can_write(&("streaming".into(), "orders".into()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_copy_created_suspended_waits_and_then_starts_from_the_handle_it_is_given() {
    let world = World::new();
    let west = world.member("west");
    world.savepoints.put(
        "s3://savepoints/a",
        Savepoint {
            job_id: "0".repeat(32),
            records: 100_000,
            taken_at: world.clock.now(),
        },
    );
    west.create(orders("suspended")).await;
    let held = west
        .until(|object| object["status"]["lifecycleState"] == "CREATED")
        .await;
    assert_eq!(
        held["metadata"]["finalizers"],
        json!(["flinkdeployments.flink.apache.org/finalizer"])
    );
    tokio::time::sleep(Duration::from_secs(30)).await;
    let held = west.get().await.unwrap();
    assert_eq!(held["status"].get("observedGeneration"), None);
    assert!(west.pods().await.is_empty());
    assert_eq!(world.ledger.verdict().runs, []);

    west.spec(json!({"job": {"state": "running", "initialSavepointPath": "s3://savepoints/a"}}))
        .await;
    let running = west.running().await;
    assert_eq!(
        running["status"]["jobStatus"]["upgradeSavepointPath"],
        "s3://savepoints/a"
    );
    assert_eq!(
        running["status"]["observedGeneration"],
        running["metadata"]["generation"]
    );
    assert_eq!(running["status"]["jobManagerDeploymentStatus"], "READY");
    let run = &world.ledger.verdict().runs[0];
    assert_eq!(run.handle_given.as_deref(), Some("s3://savepoints/a"));
    assert_eq!(run.restored_from, Origin::Handle("s3://savepoints/a".into()));
    let phases: Vec<_> = west
        .pods()
        .await
        .into_iter()
        .filter_map(|pod| pod.status?.phase)
        .collect();
    assert_eq!(phases, ["Running", "Running", "Running"]);
}

#[tokio::test(start_paused = true)]
async fn state_travels_between_members_and_the_ledger_finds_it_clean() {
    let world = World::new();
    let (east, west) = (world.member("east"), world.member("west"));
    east.create(orders("running")).await;
    east.running().await;
    west.create(orders("suspended")).await;
    let path = east.suspend().await;
    east.until_no_pods().await;
    let taken = world.savepoints.get(&path).unwrap().records;
    west.spec(json!({"job": {"state": "running", "initialSavepointPath": path}}))
        .await;
    west.running().await;
    let key = ("streaming".to_owned(), "orders".to_owned());
    assert!(west.simulators.jobs().records(&key).unwrap() >= taken);
    let verdict = world.ledger.verdict();
    assert!(verdict.is_clean(), "{verdict}\n{}", world.ledger);
    assert_eq!((verdict.max_writers_at_once, verdict.runs.len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_copy_restores_its_own_savepoint() {
    let world = World::new();
    let east = world.member("east");
    east.create(orders("running")).await;
    east.running().await;
    let path = east.suspend().await;
    east.spec(json!({"job": {"state": "running", "initialSavepointPath": "s3://ignored"}}))
        .await;
    east.running().await;
    assert_eq!(world.ledger.verdict().runs[1].restored_from, Origin::Handle(path));
}

#[tokio::test(start_paused = true)]
async fn deleted_while_running_it_writes_on_until_the_finalizer_goes() {
    let world = World::new();
    let east = world.member("east");
    east.create(orders("running")).await;
    east.running().await;
    east.simulators.freeze();
    east.flink()
        .delete("orders", &DeleteParams::default())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(east.get().await.unwrap()["metadata"]["deletionTimestamp"].is_string());
    assert!(east.can_write());
    east.simulators.thaw();
    while east.get().await.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!east.can_write());
    east.until_no_pods().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_forced_away_leaves_a_job_that_writes_until_its_pods_are_collected() {
    let world = World::new();
    let east = world.member("east");
    east.create(orders("running")).await;
    east.running().await;
    east.simulators.freeze();
    let nothing = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    east.flink()
        .patch("orders", &PatchParams::default(), &nothing)
        .await
        .unwrap();
    east.flink()
        .delete("orders", &DeleteParams::default())
        .await
        .unwrap();
    assert!(east.get().await.is_none());
    assert!(east.can_write());
    east.until_no_pods().await;
    assert!(!east.can_write());
    assert!(world.ledger.verdict().runs[0].until.is_some());
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_sees_the_past_acts_on_it() {
    let world = World::new();
    let east = world.member("east");
    east.create(orders("suspended")).await;
    east.until(|object| object["status"]["lifecycleState"] == "CREATED")
        .await;
    east.lag.store(5_000, Ordering::Relaxed);
    east.spec(json!({"job": {"state": "running"}})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    east.spec(json!({"job": {"state": "suspended"}})).await;
    tokio::time::sleep(Duration::from_millis(3_900)).await;
    assert!(world.ledger.verdict().runs.is_empty());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let verdict = world.ledger.verdict();
    assert_eq!(
        verdict.runs.len(),
        1,
        "it ran although the API server had long said suspended"
    );
    assert!(verdict.runs[0].until.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_crashed_operator_carries_on_where_it_was() {
    let world = World::new();
    let mut east = world.member("east");
    east.create(orders("running")).await;
    east.running().await;
    east.simulators.crash();
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(east.can_write());
    east.simulators.restart();
    let path = east.suspend().await;
    assert!(world.savepoints.get(&path).is_some());
    assert_eq!(world.ledger.verdict().runs.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_image_shows_in_the_pods_and_never_writes() {
    let world = World::new();
    let east = world.member("east");
    let mut broken = orders("running");
    broken["spec"]["image"] = json!("orders:broken");
    east.create(broken).await;
    east.until(|object| object["status"]["jobManagerDeploymentStatus"] == "ERROR")
        .await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    let pods = east.pods().await;
    let status = pods[0].status.as_ref().unwrap();
    let waiting = status.container_statuses.as_ref().unwrap()[0]
        .state
        .as_ref()
        .unwrap()
        .waiting
        .as_ref()
        .unwrap();
    assert_eq!(
        (status.phase.as_deref(), waiting.reason.as_deref()),
        (Some("Pending"), Some("ImagePullBackOff"))
    );
    assert_eq!(world.ledger.verdict().runs, []);
}

#[tokio::test(start_paused = true)]
async fn two_members_that_run_at_once_are_found_out() {
    let world = World::new();
    let (east, west) = (world.member("east"), world.member("west"));
    east.create(orders("running")).await;
    east.running().await;
    west.create(orders("running")).await;
    west.running().await;
    east.suspend().await;
    let verdict = world.ledger.verdict();
    assert_eq!(verdict.max_writers_at_once, 2);
    assert_eq!((verdict.overlaps.len(), verdict.lost_state.len()), (1, 1));
    let who: Vec<_> = verdict.overlaps[0]
        .who
        .iter()
        .map(|writer| writer.cluster.as_str())
        .collect();
    assert_eq!(who, ["east", "west"]);
    assert!(verdict.overlaps[0].until.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_member_has_a_node_that_is_ready() {
    let east = World::new().member("east");
    let nodes: Api<Node> = Api::all(east.client.clone());
    tokio::time::sleep(Duration::from_millis(10)).await;
    let node = nodes.get("east-node-1").await.unwrap();
    assert_eq!(node.status.unwrap().conditions.unwrap()[0].status, "True");
}

#[tokio::test(start_paused = true)]
async fn a_deployment_becomes_available_rolls_and_ends() {
    use k8s_openapi::api::apps::v1::Deployment;
    let world = World::new();
    let east = world.member("east");
    let api: Api<Deployment> = Api::namespaced(east.client.clone(), "streaming");
    let manifest = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "streaming"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "orders"}}, "template": {
            "metadata": {"labels": {"app": "orders"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        }},
    });
    api.create(&PostParams::default(), &serde_json::from_value(manifest).unwrap())
        .await
        .unwrap();
    let available = async |generation: i64| {
        for _ in 0..1_000 {
            let status = api.get("web").await.unwrap().status.unwrap_or_default();
            let complete = status.updated_replicas == Some(3) && status.replicas == Some(3);
            if status.observed_generation == Some(generation)
                && status.available_replicas == Some(3)
                && complete
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never available: {:#?}", api.get("web").await);
    };
    available(1).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}});
    api.patch("web", &PatchParams::default(), &Patch::Merge(image))
        .await
        .unwrap();
    available(2).await;
    let verdict = world.ledger.verdict();
    assert_eq!(
        (
            verdict.runs.len(),
            verdict.max_stateless_at_once,
            verdict.max_writers_at_once
        ),
        (1, 1, 0)
    );
    api.delete("web", &DeleteParams::background()).await.unwrap();
    east.until_no_pods().await;
    assert!(world.ledger.verdict().runs[0].until.is_some());
}
