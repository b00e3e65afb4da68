//! A fleet with a Deployment, and the oracle: at every change of a pod the ready ones are counted.

use std::sync::Arc;
use std::time::Duration;

use cutover::name::ClusterName;
use cutover::reconcile::intents::{FailpointHook, NoFailpoints};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{ApiServer, DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::ledger::Ledger;
use cutover::sandbox::member::{self, Clock, Context, Scope, Simulators, Timings};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, CLAIMS, Controller, Fleet, PINS, POLICIES};
use crate::support::floor::{Floor, ready_pods};
use crate::support::wait::wait_for;

pub const SHIFTS: Resource = Resource::new("cutover.dev", "replicashifts");
pub const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
/// How long anything may take before a test gives up; in the time of the sandbox.
const PATIENCE: Duration = Duration::from_mins(5);
const CLUSTERS: [&str; 3] = ["east", "north", "west"];

/// A fleet in which `shop/web` runs by a policy of its own.
pub struct Stage {
    pub fleet: Fleet,
    controller: Option<Controller>,
    /// What lets the template run on the control plane.
    own: Option<Simulators>,
}

impl Stage {
    pub async fn start(policy: &Value, replicas: u32) -> Self {
        Self::start_slowly(policy, replicas, Duration::from_millis(100)).await
    }

    pub async fn start_slowly(policy: &Value, replicas: u32, pod_start: Duration) -> Self {
        let mut stage = Self::without_controller(policy, replicas, pod_start).await;
        stage.lead(Arc::new(NoFailpoints));
        stage
    }

    pub async fn without_controller(policy: &Value, replicas: u32, pod_start: Duration) -> Self {
        let stage = Self {
            fleet: Fleet::start(options(pod_start)).await,
            controller: None,
            own: None,
        };
        stage.fleet.apply(&POLICIES, policy.clone());
        stage.fleet.apply(&DEPLOYMENTS, web(replicas));
        stage.runs(u64::from(replicas)).await;
        stage
    }

    /// Karmada is installed on a cluster where the template itself runs; the members have none at first.
    pub async fn start_on_control_plane(policy: &Value, replicas: u32) -> Self {
        let fleet = Fleet::start(options(Duration::from_millis(100))).await;
        let server = fleet.world.control_plane();
        let context = Context {
            cluster: ClusterName::new("karmada"),
            scope: Scope::default(),
            seed: 7,
            clock: Clock::starting_at(fleet.world.clock().now()),
            ledger: Ledger::new(),
            savepoints: fleet.world.savepoints().clone(),
            timings: Timings::default(),
            lag: Arc::new(|_: &ClusterName, _: &str| Duration::ZERO),
        };
        let own = member::spawn(server.client("system:admin"), context);
        let mut stage = Self {
            fleet,
            controller: None,
            own: Some(own),
        };
        stage.override_replicas("west", 0);
        stage.fleet.apply(&POLICIES, policy.clone());
        stage.fleet.apply(&DEPLOYMENTS, web(replicas));
        stage
            .until("it runs here", || stage.ready_here() == u64::from(replicas))
            .await;
        stage
            .until("west has none", || {
                let copy = stage.copy("west");
                copy["spec"]["replicas"] == 0
                    && copy["status"]["observedGeneration"] == copy["metadata"]["generation"]
            })
            .await;
        stage.lead(Arc::new(NoFailpoints));
        stage
    }

    async fn runs(&self, at_least: u64) {
        self.until("web runs", || {
            let listed = self.get(&BINDINGS, "web-deployment")["spec"]["clusters"].clone();
            let listed = listed.as_array().cloned().unwrap_or_default();
            let all_ready = listed.iter().all(|cluster| {
                let name = cluster["name"].as_str().unwrap();
                let copy = self.copy(name);
                !copy.is_null() && copy["spec"]["replicas"] == copy["status"]["availableReplicas"]
            });
            let ready: u64 = CLUSTERS.iter().map(|cluster| self.ready_in(cluster)).sum();
            !listed.is_empty() && all_ready && ready >= at_least
        })
        .await;
    }

    /// Waits for something, and says how the shifts stand when it doesn't come.
    pub async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let story = || {
            let server = self.fleet.world.control_plane();
            let all = server
                .list(&SHIFTS, Some("shop"), &ListOptions::default())
                .unwrap();
            let statuses: Vec<&Value> = all.items.iter().map(|shift| &shift["status"]).collect();
            let (binding, replicas) = (self.get(&BINDINGS, "web-deployment"), self.replicas());
            format!("{replicas:?}\n{statuses:#?}\n{:#}", binding["spec"])
        };
        let wait = wait_for(what).within(PATIENCE).every(Duration::from_millis(20));
        wait.until_or(holds, story).await;
    }

    pub fn lead(&mut self, failpoints: Arc<dyn FailpointHook>) {
        self.controller = Some(self.fleet.controller(failpoints));
    }

    pub async fn kill_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.kill().await;
        }
    }

    pub async fn replace_controller(&mut self, failpoints: Arc<dyn FailpointHook>) {
        self.kill_controller().await;
        self.lead(failpoints);
    }

    pub fn shift(&self, name: &str, more: Value) {
        let mut spec = json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "from": {"cluster": "east"}, "to": "west",
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.fleet.apply(
            &SHIFTS,
            json!({
                "apiVersion": "cutover.dev/v1alpha1", "kind": "ReplicaShift",
                "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
            }),
        );
    }

    pub fn get(&self, resource: &Resource, name: &str) -> Value {
        let object = self.fleet.world.control_plane().get(resource, Some("shop"), name);
        object.map(|object| (*object).clone()).unwrap_or_default()
    }

    pub fn status(&self, name: &str) -> Value {
        self.get(&SHIFTS, name)["status"].clone()
    }

    pub fn copy(&self, cluster: &str) -> Value {
        let copy = self
            .fleet
            .world
            .member(cluster)
            .api
            .get(&DEPLOYMENTS, Some("shop"), "web");
        copy.map(|copy| (*copy).clone()).unwrap_or_default()
    }

    pub fn ready_in(&self, cluster: &str) -> u64 {
        ready(&self.fleet.world.member(cluster).api)
    }

    pub fn ready_here(&self) -> u64 {
        ready(self.fleet.world.control_plane())
    }

    /// What each copy asks for, where there is one.
    pub fn replicas(&self) -> Vec<(&'static str, u64)> {
        CLUSTERS
            .into_iter()
            .filter_map(|cluster| Some((cluster, self.copy(cluster)["spec"]["replicas"].as_u64()?)))
            .collect()
    }

    pub async fn settled(&self, wanted: &[(&str, u64)]) {
        self.until(&format!("it is {wanted:?}, not {:?}", self.replicas()), || {
            self.replicas() == wanted
                && wanted
                    .iter()
                    .all(|(cluster, replicas)| self.ready_in(cluster) == *replicas)
        })
        .await;
    }

    pub async fn is(&self, name: &str, phase: &str) {
        let expects_end = ["Failed", "RolledBack", "Aborted"].contains(&phase);
        self.until(&format!("{name} is {phase}"), || {
            let status = self.status(name);
            assert!(
                expects_end
                    || !["Failed", "RolledBack"].contains(&status["phase"].as_str().unwrap_or_default()),
                "{status:#}"
            );
            status["phase"] == phase
        })
        .await;
    }

    pub async fn waits_for(&self, name: &str, reason: &str) {
        self.until(&format!("{name} waits for: {reason}"), || {
            let status = self.status(name);
            assert_ne!(status["phase"], "Failed", "{status:#}");
            status["waitingFor"]["reason"] == reason
        })
        .await;
    }

    pub fn delete(&self, resource: &Resource, name: &str) {
        let server = self.fleet.world.control_plane();
        server
            .delete(resource, Some("shop"), name, &DeleteOptions::default())
            .unwrap();
    }

    pub fn create_in(&self, cluster: &str, resource: &Resource, object: Value) {
        let server = &self.fleet.world.member(cluster).api;
        let writer = WriteOptions::manager("somebody");
        server.create(resource, Some("shop"), object, &writer).unwrap();
    }

    pub fn delete_in(&self, cluster: &str, resource: &Resource, name: &str) {
        let server = &self.fleet.world.member(cluster).api;
        server
            .delete(resource, Some("shop"), name, &DeleteOptions::default())
            .unwrap();
    }

    /// Every new pod there can't pull its image.
    pub fn break_image_in(&self, cluster: &str) {
        let image = json!({"component": "Tag", "operator": "replace", "value": "broken"});
        self.override_in("broken", cluster, json!({"imageOverrider": [image]}));
    }

    pub fn override_replicas(&self, cluster: &str, replicas: u32) {
        let replicas = json!({"operator": "add", "path": "/spec/replicas", "value": replicas});
        self.override_in("replicas", cluster, json!({"plaintext": [replicas]}));
    }

    fn override_in(&self, name: &str, cluster: &str, overriders: Value) {
        self.fleet.apply(
            &PINS,
            json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {
                    "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
                    "overrideRules": [{"targetCluster": {"clusterNames": [cluster]}, "overriders": overriders}],
                },
            }),
        );
    }

    /// Takes the pin off by hand, protection first.
    pub fn tear_pin_off(&self) {
        let pins = self.pins();
        let name = pins[0]["metadata"]["name"].as_str().unwrap();
        let bare = json!({"metadata": {
            "finalizers": null, "labels": {"resourcetemplate.karmada.io/deletion-protected": null},
        }});
        let server = self.fleet.world.control_plane();
        let person = WriteOptions::manager("somebody");
        server
            .patch(&PINS, Some("shop"), name, None, &Patch::Merge(bare), &person)
            .unwrap();
        self.delete(&PINS, name);
    }

    fn pins(&self) -> Vec<Value> {
        let server = self.fleet.world.control_plane();
        let all = server.list(&PINS, Some("shop"), &ListOptions::default()).unwrap();
        let is_pin = |object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with("zzzz-cutover-")
        };
        all.items
            .iter()
            .map(|object| (**object).clone())
            .filter(is_pin)
            .collect()
    }

    pub fn is_marked(&self, cluster: &str) -> bool {
        !self.copy(cluster)["metadata"]["annotations"]["cutover.dev/pin"].is_null()
    }

    /// Nothing of the tool's is left.
    pub fn assert_clean(&self) {
        assert_eq!(self.pins(), Vec::<Value>::new());
        assert_eq!(self.fleet.count(&CLAIMS), 0, "a claim is left");
        let binding = self.get(&BINDINGS, "web-deployment");
        assert!(
            binding["spec"]["suspension"]["scheduling"].is_null(),
            "{binding:#}"
        );
        for cluster in CLUSTERS {
            assert!(!self.is_marked(cluster), "{cluster} carries a marker");
        }
        let server = self.fleet.world.control_plane();
        let left = server.list(&POLICIES, Some("cutover-system"), &ListOptions::default());
        assert!(left.is_ok_and(|left| left.items.is_empty()), "a canary is left");
    }

    /// Counts the ready pods of web from now on, whenever one changes anywhere.
    pub fn watch_floor(&self, floor: u64) -> Floor {
        let world = &self.fleet.world;
        let mut servers: Vec<ApiServer> = world.members().map(|member| member.api.clone()).collect();
        if self.own.is_some() {
            servers.push(world.control_plane().clone());
        }
        Floor::watch(servers, floor)
    }
}

fn options(pod_start: Duration) -> WorldOptions {
    WorldOptions {
        timings: Timings {
            pod_start,
            ..Timings::default()
        },
        ..WorldOptions::default()
    }
}

fn ready(server: &ApiServer) -> u64 {
    ready_pods(server)
}

pub fn duplicated(clusters: &[&str]) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
            "placement": {"clusterAffinity": {"clusterNames": clusters}},
        },
    })
}

pub fn divided(clusters: &[&str]) -> Value {
    let mut policy = duplicated(clusters);
    policy["spec"]["placement"]["replicaScheduling"] =
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    policy
}

pub fn web(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}
