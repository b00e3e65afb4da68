//! A workload on a sandbox, and the few things that a person would do to it by hand.

use std::time::Duration;

use crate::support::wait::wait_for;
use cutover::sandbox::api::{
    ApiServer, DeleteOptions, ListOptions, Object, Patch, Resource, Subresource, WriteOptions,
};
use cutover::sandbox::karmada::kinds;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

pub const FLINK: Resource = Resource::new("flink.apache.org", "flinkdeployments");
pub const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
pub const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
pub const SHOP: Option<&str> = Some("shop");

/// The marker that the pins of these tests carry.
pub const MARKER: &str = "cutover.dev/pin";

/// A world with the namespace `shop` and one workload in it.
pub struct Stage {
    pub world: World,
    pub resource: Resource,
    pub binding: &'static str,
}

impl Stage {
    /// A Flink job.
    pub async fn job(options: WorldOptions, placement: Value) -> Self {
        let template = json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": "orders", "namespace": "shop"},
            "spec": {
                "image": "orders:1", "flinkVersion": "v1_20", "serviceAccount": "flink",
                "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "1"},
                "jobManager": {"resource": {"memory": "1024m", "cpu": 1}},
                "taskManager": {"resource": {"memory": "1024m", "cpu": 1}},
                "job": {"jarURI": "local:///a.jar", "parallelism": 1, "upgradeMode": "savepoint", "state": "running"},
            },
        });
        Self::with(options, &FLINK, "orders-flinkdeployment", template, placement).await
    }

    /// A Deployment of two replicas that refers to the config map `prices`.
    pub async fn deployment(options: WorldOptions, placement: Value) -> Self {
        let template = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "orders", "namespace": "shop"},
            "spec": {
                "replicas": 2, "selector": {"matchLabels": {"app": "orders"}},
                "template": {
                    "metadata": {"labels": {"app": "orders"}},
                    "spec": {"containers": [{
                        "name": "main", "image": "orders:1",
                        "envFrom": [{"configMapRef": {"name": "prices"}}],
                    }]},
                },
            },
        });
        Self::with(options, &DEPLOYMENTS, "orders-deployment", template, placement).await
    }

    async fn with(
        options: WorldOptions,
        resource: &Resource,
        binding: &'static str,
        template: Value,
        placement: Value,
    ) -> Self {
        let world = World::start(options);
        let stage = Self {
            world,
            resource: resource.clone(),
            binding,
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        stage.create(&kinds::NAMESPACES, namespace);
        stage.create(&kinds::POLICIES, policy(&template, placement));
        stage.create(resource, template);
        stage
            .until("it is scheduled and there", || {
                let listed = stage.listed();
                !listed.is_empty() && listed.iter().all(|cluster| stage.copy(cluster).is_some())
            })
            .await;
        stage
    }

    pub fn create(&self, resource: &Resource, object: Value) -> Object {
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let server = self.world.control_plane();
        server
            .create(resource, namespace.as_deref(), object, &writer())
            .unwrap()
    }

    pub fn get(&self, resource: &Resource, name: &str) -> Value {
        let object = self.world.control_plane().get(resource, SHOP, name);
        object.map_or(Value::Null, |object| (*object).clone())
    }

    pub fn get_cluster(&self, name: &str) -> Value {
        let object = self.world.control_plane().get(&kinds::CLUSTERS, None, name);
        object.map_or(Value::Null, |object| (*object).clone())
    }

    pub fn merge(&self, resource: &Resource, name: &str, patch: Value) {
        merge_in(self.world.control_plane(), resource, name, None, patch);
    }

    pub fn merge_status(&self, resource: &Resource, name: &str, patch: Value) {
        let part = Some(Subresource::Status);
        merge_in(self.world.control_plane(), resource, name, part, patch);
    }

    pub fn delete(&self, resource: &Resource, name: &str) {
        self.world
            .control_plane()
            .delete(resource, SHOP, name, &DeleteOptions::default())
            .unwrap();
    }

    pub fn edit_template(&self, patch: Value) {
        self.merge(&self.resource, "orders", patch);
    }

    pub fn edit_policy(&self, patch: Value) {
        self.merge(&kinds::POLICIES, "orders", patch);
    }

    pub fn edit_binding(&self, patch: Value) {
        self.merge(&kinds::BINDINGS, self.binding, patch);
    }

    pub fn bound(&self) -> Value {
        self.get(&kinds::BINDINGS, self.binding)
    }

    /// Lists clusters in the binding, with the template's replicas in each.
    pub fn list(&self, clusters: &[&str]) {
        let replicas = self.bound()["spec"]["replicas"].clone();
        let clusters: Vec<Value> = clusters
            .iter()
            .map(|name| json!({"name": name, "replicas": replicas}))
            .collect();
        self.edit_binding(json!({"spec": {"clusters": clusters}}));
    }

    /// Returns the clusters in the binding, in its order.
    pub fn listed(&self) -> Vec<String> {
        let clusters = &self.bound()["spec"]["clusters"];
        let names = clusters
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|cluster| cluster["name"].as_str());
        names.map(str::to_owned).collect()
    }

    pub fn suspend(&self) {
        self.edit_binding(json!({"spec": {"suspension": {"scheduling": true}}}));
    }

    pub fn resume(&self) {
        self.edit_binding(json!({"spec": {"suspension": {"scheduling": null}}}));
    }

    /// The scheduler barrier: a binding that has never been queued, seen by the one worker of a first-in-first-out queue.
    pub async fn canary(&self, name: &str) {
        self.propagate_config_map(name, "north");
        let binding = format!("{name}-configmap");
        self.until("the canary is observed", || {
            self.get(&kinds::BINDINGS, &binding)["status"]["schedulerObservedGeneration"].is_i64()
        })
        .await;
    }

    /// Fills the scheduler's queue with bindings that have to be looked at.
    pub async fn backlog(&self, count: usize) {
        for index in 0..count {
            self.propagate_config_map(&format!("noise-{index:03}"), "north");
        }
        let last = format!("noise-{:03}-configmap", count - 1);
        self.within(Duration::from_mins(5), "the noise is scheduled", || {
            self.get(&kinds::BINDINGS, &last)["status"]["schedulerObservedGeneration"].is_i64()
        })
        .await;
        // The client's burst is whole again.
        self.pause(5000).await;
        for index in 0..count {
            let touched = json!({"spec": {"rescheduleTriggeredAt": "2030-01-01T00:00:00Z"}});
            self.merge(&kinds::BINDINGS, &format!("noise-{index:03}-configmap"), touched);
        }
    }

    fn propagate_config_map(&self, name: &str, cluster: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": {"a": "1"},
        });
        let placement = json!({"clusterAffinity": {"clusterNames": [cluster]}});
        self.create(&kinds::POLICIES, policy(&map, placement));
        self.create(&CONFIG_MAPS, map);
    }

    /// Returns the workload's Work for a cluster.
    pub fn work(&self, cluster: &str) -> Value {
        const ID: &str = "resourcebinding.karmada.io/permanent-id";
        let namespace = format!("karmada-es-{cluster}");
        let id = self.bound()["metadata"]["labels"][ID].clone();
        let works = self
            .world
            .control_plane()
            .list(&kinds::WORKS, Some(&namespace), &ListOptions::default());
        let works = works.unwrap().items;
        let own = works.iter().find(|work| work["metadata"]["labels"][ID] == id);
        own.map_or(Value::Null, |work| (**work).clone())
    }

    pub fn manifest(&self, cluster: &str) -> Value {
        self.work(cluster)["spec"]["workload"]["manifests"][0].clone()
    }

    /// Returns the marker of the pin with which a cluster's Work was computed.
    pub fn marker(&self, cluster: &str) -> Option<String> {
        self.manifest(cluster)["metadata"]["annotations"][MARKER]
            .as_str()
            .map(str::to_owned)
    }

    pub fn copy(&self, cluster: &str) -> Option<Object> {
        self.world
            .member(cluster)
            .api
            .get(&self.resource, SHOP, "orders")
            .ok()
    }

    /// Writes a pin: everybody but the writers is held, everybody carries the marker.
    pub fn pin(&self, writers: &[&str], marker: &str) {
        let rules = json!([
            {
                "targetCluster": {"exclude": writers},
                "overriders": {"plaintext": [{"operator": "add", "path": "/spec/job/state", "value": "suspended"}]},
            },
            {"overriders": {"annotationsOverrider": [{"operator": "add", "value": {MARKER: marker}}]}},
        ]);
        self.override_with("zzzz-pin", rules);
    }

    pub fn override_with(&self, name: &str, rules: Value) {
        if !self.get(&kinds::OVERRIDES, name).is_null() {
            self.merge(&kinds::OVERRIDES, name, json!({"spec": {"overrideRules": rules}}));
            return;
        }
        let template = self.get(&self.resource, "orders");
        self.create(
            &kinds::OVERRIDES,
            json!({
                "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {
                    "resourceSelectors": [
                        {"apiVersion": template["apiVersion"], "kind": template["kind"], "name": "orders"},
                    ],
                    "overrideRules": rules,
                },
            }),
        );
    }

    pub async fn marked(&self, clusters: &[&str], marker: &str) {
        self.until("the marker is on the Works", || {
            clusters
                .iter()
                .all(|cluster| self.marker(cluster).as_deref() == Some(marker))
        })
        .await;
    }

    /// Returns how many events with a reason there are.
    pub fn events(&self, reason: &str) -> usize {
        let events = self
            .world
            .control_plane()
            .list(&kinds::EVENTS, SHOP, &ListOptions::default())
            .unwrap();
        events
            .items
            .iter()
            .filter(|event| event["reason"] == reason)
            .count()
    }

    pub async fn pause(&self, millis: u64) {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    pub async fn until(&self, what: &str, holds: impl FnMut() -> bool) {
        self.within(Duration::from_mins(1), what, holds).await;
    }

    pub async fn within(&self, limit: Duration, what: &str, holds: impl FnMut() -> bool) {
        let wait = wait_for(what).within(limit);
        wait.every(Duration::from_millis(1)).until(holds).await;
    }
}

pub fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == kind);
    found.cloned().unwrap_or_default()
}

pub const ANY: &[&str] = &["east", "west", "north"];

pub async fn job(seed: u64) -> Stage {
    Stage::job(seeded(seed), one_of(ANY)).await
}

/// A job under a suspension that the scheduler has taken notice of, and every controller idle; with where the job is, and
/// where it is not.
pub async fn suspended(seed: u64) -> (Stage, String, &'static str) {
    let stage = job(seed).await;
    stage.suspend();
    stage.canary("canary").await;
    stage.pause(5000).await;
    let source = stage.listed().remove(0);
    let target = other_than(&source);
    (stage, source, target)
}

pub fn other_than(cluster: &str) -> &'static str {
    if cluster == "west" { "north" } else { "west" }
}

/// A held copy in west beside the writer in east, both marked.
pub async fn held_in_west(seed: u64) -> Stage {
    let (stage, ..) = suspended(seed).await;
    stage.pin(&["east"], "1");
    stage.list(&["east", "west"]);
    stage.marked(&["east", "west"], "1").await;
    stage
}

/// Merges something into an object of `shop`, or into a cluster.
pub fn merge_in(
    server: &ApiServer,
    resource: &Resource,
    name: &str,
    part: Option<Subresource>,
    patch: Value,
) {
    let namespace = SHOP.filter(|_| *resource != kinds::CLUSTERS);
    server
        .patch(resource, namespace, name, part, &Patch::Merge(patch), &writer())
        .unwrap();
}

/// A placement with at most one of these clusters.
pub fn one_of(clusters: &[&str]) -> Value {
    json!({
        "clusterAffinity": {"clusterNames": clusters},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    })
}

pub fn seeded(seed: u64) -> WorldOptions {
    WorldOptions {
        seed,
        ..WorldOptions::default()
    }
}

/// Returns a policy for one template, under its name.
fn policy(template: &Value, placement: Value) -> Value {
    let name = &template["metadata"]["name"];
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": template["apiVersion"], "kind": template["kind"], "name": name},
            ],
            "placement": placement, "propagateDeps": true,
        },
    })
}

fn writer() -> WriteOptions {
    WriteOptions::manager("somebody")
}
