//! A fleet with several workloads in `east`, and intents that move many of them.

use std::sync::Arc;

use cutover_controller::reconcile::intents::FailpointHook;
use cutover_sandbox::WorldOptions;
use cutover_sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, Subresource, WriteOptions};
use serde_json::{Value, json};

use crate::fleet::{BINDINGS, CLAIMS, Controller, Fleet, JOBS, MIGRATIONS, PINS, POLICIES, job, policy};

pub const EVACUATIONS: Resource = Resource::new("cutover.dev", "evacuations");
pub const REBALANCES: Resource = Resource::new("cutover.dev", "rebalances");
pub const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
pub const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");

/// How one of those intents is asked for.
pub struct Asks {
    pub kind: &'static str,
    pub resource: Resource,
}

pub const EVACUATION: Asks = Asks {
    kind: "Evacuation",
    resource: EVACUATIONS,
};
pub const REBALANCE: Asks = Asks {
    kind: "Rebalance",
    resource: REBALANCES,
};

/// Flink jobs `clicks`, `orders` and `payments`, and a Deployment `web`, all in `east`.
pub struct Stage {
    pub fleet: Fleet,
    pub asks: Asks,
    /// The names of the jobs.
    pub jobs: Vec<String>,
}

impl AsRef<Fleet> for Stage {
    fn as_ref(&self) -> &Fleet {
        &self.fleet
    }
}

impl Stage {
    pub async fn start(asks: Asks, more_jobs: &[&str]) -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        for name in more_jobs {
            fleet.apply(
                &POLICIES,
                named_policy(name, "flink.apache.org/v1beta1", "FlinkDeployment", one_of_all()),
            );
            fleet.apply(&JOBS, named_job(name));
        }
        let mut jobs: Vec<String> = more_jobs.iter().map(|name| (*name).to_owned()).collect();
        jobs.push("orders".to_owned());
        jobs.sort();
        let stage = Self { fleet, asks, jobs };
        stage
            .fleet
            .until("every job runs in east", |_| {
                stage.jobs.iter().all(|name| stage.runs(name, "east"))
            })
            .await;
        stage
    }

    /// Adds a Deployment of two replicas.
    pub async fn with_web(self, placement: Value) -> Self {
        self.fleet
            .apply(&POLICIES, named_policy("web", "apps/v1", "Deployment", placement));
        self.fleet.apply(&DEPLOYMENTS, web("web"));
        self.fleet
            .until("web runs in east", |_| self.available("web", "east") > 0)
            .await;
        self
    }

    pub fn controller(&self, failpoints: Arc<dyn FailpointHook>) -> Controller {
        self.fleet.controller(failpoints)
    }

    pub fn ask(&self, name: &str, spec: &Value) {
        self.fleet.apply(
            &self.asks.resource,
            json!({
                "apiVersion": "cutover.dev/v1alpha1", "kind": self.asks.kind,
                "metadata": {"name": name}, "spec": spec,
            }),
        );
    }

    pub fn status(&self, name: &str) -> Value {
        let server = self.fleet.world.control_plane();
        let object = server.get(&self.asks.resource, None, name);
        object.map(|object| object["status"].clone()).unwrap_or_default()
    }

    pub async fn is(&self, name: &str, phase: &str) -> Value {
        let ended = |phase: &Value| ["Completed", "Failed", "Aborted"].iter().any(|end| phase == end);
        self.fleet
            .until(&format!("{name} is {phase}"), |_| {
                let status = self.status(name);
                let other = ended(&status["phase"]) && status["phase"] != phase;
                assert!(!other, "{status:#}");
                status["phase"] == phase
            })
            .await;
        self.status(name)
    }

    /// The second attempt has begun.
    pub async fn begins_again(&self, name: &str) {
        self.fleet
            .until(&format!("{name} begins again"), |_| {
                self.status(name)["attempt"] == 2
            })
            .await;
    }

    pub async fn waits(&self, name: &str, why: &str) -> Value {
        self.fleet
            .until(&format!("{name} waits: {why}"), |_| {
                let reason = &self.status(name)["waitingFor"]["reason"];
                reason.as_str().is_some_and(|reason| reason.contains(why))
            })
            .await;
        self.status(name)
    }

    pub fn delete(&self, name: &str) {
        let server = self.fleet.world.control_plane();
        server
            .delete(&self.asks.resource, None, name, &DeleteOptions::default())
            .unwrap();
    }

    pub fn is_gone(&self, name: &str) -> bool {
        self.fleet
            .world
            .control_plane()
            .get(&self.asks.resource, None, name)
            .is_err()
    }

    /// The Migrations that there are.
    pub fn migrations(&self) -> Vec<Value> {
        let server = self.fleet.world.control_plane();
        let list = server.list(&MIGRATIONS, None, &ListOptions::default()).unwrap();
        list.items.iter().map(|object| (**object).clone()).collect()
    }

    /// How many Migrations are past their beginning and not at their end.
    pub fn under_way(&self) -> usize {
        let is_under_way = |one: &&Value| {
            let phase = one["status"]["phase"].as_str().unwrap_or("Pending");
            !["Pending", "Completed", "RolledBack", "Failed", "Aborted"].contains(&phase)
        };
        self.migrations().iter().filter(is_under_way).count()
    }

    pub fn runs(&self, name: &str, cluster: &str) -> bool {
        let copy = self
            .fleet
            .world
            .member(cluster)
            .api
            .get(&JOBS, Some("shop"), name);
        copy.is_ok_and(|copy| copy["status"]["jobStatus"]["state"] == "RUNNING")
    }

    pub fn available(&self, name: &str, cluster: &str) -> u64 {
        let copy = self
            .fleet
            .world
            .member(cluster)
            .api
            .get(&DEPLOYMENTS, Some("shop"), name);
        copy.map(|copy| copy["status"]["availableReplicas"].as_u64().unwrap_or_default())
            .unwrap_or_default()
    }

    pub fn clusters_of(&self, name: &str, kind: &str) -> Vec<String> {
        let binding = format!("{name}-{kind}");
        let server = self.fleet.world.control_plane();
        let binding = server.get(&BINDINGS, Some("shop"), &binding);
        let clusters = binding
            .map(|binding| binding["spec"]["clusters"].clone())
            .unwrap_or_default();
        clusters
            .as_array()
            .into_iter()
            .flatten()
            .map(|cluster| cluster["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The keys of the taints of a cluster.
    pub fn taints(&self, cluster: &str) -> Vec<String> {
        let server = self.fleet.world.control_plane();
        let cluster = server.get(&CLUSTERS, None, cluster).unwrap();
        let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints
            .iter()
            .map(|taint| taint["key"].as_str().unwrap().to_owned())
            .collect()
    }

    pub fn set_taints(&self, cluster: &str, taints: Value) {
        self.patch(&CLUSTERS, None, cluster, json!({"spec": {"taints": taints}}));
    }

    /// Sets what Karmada says that a cluster has, and what of it is taken.
    pub fn set_capacity(&self, cluster: &str, summary: Value) {
        let writer = WriteOptions::manager("somebody");
        let patch = Patch::Merge(json!({"status": {"resourceSummary": summary}}));
        let server = self.fleet.world.control_plane();
        server
            .patch(
                &CLUSTERS,
                None,
                cluster,
                Some(Subresource::Status),
                &patch,
                &writer,
            )
            .unwrap();
    }

    pub fn patch(&self, resource: &Resource, namespace: Option<&str>, name: &str, patch: Value) {
        let writer = WriteOptions::manager("somebody");
        let server = self.fleet.world.control_plane();
        server
            .patch(resource, namespace, name, None, &Patch::Merge(patch), &writer)
            .unwrap();
    }

    /// Every job runs in one cluster that isn't `east`, and nothing is left anywhere.
    pub fn assert_all_left(&self) {
        for name in &self.jobs {
            self.assert_left(name);
        }
        self.assert_clean();
    }

    pub fn assert_left(&self, name: &str) {
        let listed = self.clusters_of(name, "flinkdeployment");
        assert!(listed.len() == 1 && listed != ["east"], "{name}: {listed:?}");
        assert!(
            self.runs(name, &listed[0]),
            "{name} does not run in {}",
            listed[0]
        );
    }

    pub fn assert_stayed(&self, name: &str) {
        assert_eq!(self.clusters_of(name, "flinkdeployment"), ["east"], "{name}");
        assert!(self.runs(name, "east"), "{name} does not run in east");
    }

    pub fn assert_clean(&self) {
        assert_eq!(self.fleet.count(&PINS), 0, "a pin is left");
        assert_eq!(self.fleet.count(&CLAIMS), 0, "a claim is left");
        for cluster in ["east", "north", "west"] {
            assert_eq!(self.taints(cluster), [""; 0], "{cluster} is left cordoned");
        }
        self.fleet.assert_one_writer();
    }
}

pub fn one_of_all() -> Value {
    json!({
        "clusterAffinity": {"clusterNames": ["east", "west", "north"]},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    })
}

pub fn named_policy(name: &str, api_version: &str, kind: &str, placement: Value) -> Value {
    let mut policy = policy();
    policy["metadata"]["name"] = name.into();
    policy["spec"]["resourceSelectors"] =
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "namespace": "shop"}]);
    policy["spec"]["placement"] = placement;
    if kind != "FlinkDeployment" {
        policy["spec"].as_object_mut().unwrap().remove("failover");
    }
    policy
}

pub fn named_job(name: &str) -> Value {
    let mut job = job("orders:1.0");
    job["metadata"]["name"] = name.into();
    job
}

pub fn web(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}
