//! A migration done by hand, step by step, and what an operator looks at between the steps.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use cutover::sandbox::api::{DeleteOptions, ListOptions, Resource, Status, WriteOptions};
use cutover::sandbox::ledger::Verdict;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, Fleet, PINS};

pub const BINDING: &str = "orders-flinkdeployment";
pub const PIN: &str = "zzzz-orders";
pub const MARKER: &str = "example.org/marker";
pub const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");
pub const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
pub const NAMESPACES: Resource = Resource::new("", "namespaces");
pub const WORKS: Resource = Resource::new("work.karmada.io", "works");

/// The steps of a migration, each done by hand.
pub struct Hand<'a> {
    fleet: &'a Fleet,
    sequence: Cell<u32>,
}

impl<'a> Hand<'a> {
    pub fn on(fleet: &'a Fleet) -> Self {
        Self {
            fleet,
            sequence: Cell::new(0),
        }
    }

    /// Scheduling suspended, the scheduler past it, failover off.
    pub async fn fenced(fleet: &'a Fleet) -> Self {
        let hand = Self::on(fleet);
        hand.suspend_scheduling();
        hand.canary().await;
        hand.failover_off();
        hand
    }

    pub fn suspend_scheduling(&self) {
        self.fleet.patch(
            &BINDINGS,
            BINDING,
            json!({"spec": {"suspension": {"scheduling": true}}}),
        );
    }

    pub fn failover_off(&self) {
        self.fleet
            .patch(&BINDINGS, BINDING, json!({"spec": {"failover": null}}));
    }

    pub fn resume(&self) {
        self.fleet
            .patch(&BINDINGS, BINDING, json!({"spec": {"suspension": null}}));
    }

    pub fn delete_pin(&self) -> Result<Arc<Value>, Status> {
        let server = self.fleet.world.control_plane();
        server.delete(&PINS, Some("shop"), PIN, &DeleteOptions::default())
    }

    /// Waits until the scheduler has seen a binding that is newer than all that was queued.
    pub async fn canary(&self) {
        let server = self.fleet.world.control_plane();
        let writer = WriteOptions::manager("somebody");
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "canaries", "labels": {"namespace.karmada.io/skip-auto-propagation": "true"}},
        });
        server.create(&NAMESPACES, None, namespace, &writer).unwrap();
        let policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "canary", "namespace": "canaries"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "canary"}],
                "placement": {"clusterAffinity": {"clusterNames": ["north"]}},
                "suspension": {"dispatching": true},
            },
        });
        server
            .create(&POLICIES, Some("canaries"), policy, &writer)
            .unwrap();
        server
            .create(
                &CONFIG_MAPS,
                Some("canaries"),
                config_map("canaries", "canary"),
                &writer,
            )
            .unwrap();
        let seen = |fleet: &Fleet| {
            let binding = fleet
                .world
                .control_plane()
                .get(&BINDINGS, Some("canaries"), "canary-configmap");
            binding.is_ok_and(|binding| !binding["status"]["schedulerObservedGeneration"].is_null())
        };
        self.fleet.until("the scheduler has seen the canary", seen).await;
    }

    /// Writes the pin: everybody but the writer is held. Returns its marker.
    pub fn pin(&self, writer: Option<&str>, more: &[Value]) -> String {
        self.sequence.set(self.sequence.get() + 1);
        let marker = format!("by-hand.{}", self.sequence.get());
        let mut held = json!({
            "overriders": {"plaintext": [{"operator": "add", "path": "/spec/job/state", "value": "suspended"}]},
        });
        if let Some(writer) = writer {
            held["targetCluster"] = json!({"exclude": [writer]});
        }
        let mut rules = vec![held];
        rules.extend_from_slice(more);
        rules.push(
            json!({"overriders": {"annotationsOverrider": [{"operator": "add", "value": {MARKER: marker}}]}}),
        );
        self.fleet.apply(&PINS, json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": PIN, "namespace": "shop"},
            "spec": {
                "resourceSelectors": [
                    {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders", "namespace": "shop"},
                ],
                "overrideRules": rules,
            },
        }));
        marker
    }

    /// Waits until the Work of a cluster shows that a version of the pin is in force.
    pub async fn marked(&self, cluster: &str, marker: &str) {
        let what = format!("the Work of {cluster} carries {marker}");
        self.fleet
            .until(&what, |fleet| {
                marker_on_work(fleet, cluster).as_deref() == Some(marker)
            })
            .await;
    }

    /// Waits until the object in a member carries a marker.
    pub async fn arrived(&self, cluster: &str, marker: &str) {
        let on_copy = |fleet: &Fleet| {
            fleet
                .copy(cluster)
                .is_some_and(|copy| copy["metadata"]["annotations"][MARKER] == marker)
        };
        self.fleet
            .until(&format!("{marker} is in {cluster}"), on_copy)
            .await;
    }

    pub fn list(&self, clusters: &[&str]) {
        let replicas = &self.fleet.binding()["spec"]["replicas"];
        let clusters: Vec<Value> = clusters
            .iter()
            .map(|name| json!({"name": name, "replicas": replicas}))
            .collect();
        self.fleet
            .patch(&BINDINGS, BINDING, json!({"spec": {"clusters": clusters}}));
    }

    /// Does what Karmada's failover does to a cluster.
    pub fn evict(&self, cluster: &str, task: &Value) {
        let binding = self.fleet.binding();
        let mut clusters = binding["spec"]["clusters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        clusters.retain(|listed| listed["name"] != cluster);
        let mut task = task.clone();
        task["fromCluster"] = json!(cluster);
        task["reason"] = json!("ApplicationFailure");
        task["producer"] = json!("somebody");
        task["creationTimestamp"] = json!(
            self.fleet
                .world
                .clock()
                .now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string()
        );
        let evicted = json!({"spec": {"clusters": clusters, "gracefulEvictionTasks": [task]}});
        self.fleet.patch(&BINDINGS, BINDING, evicted);
    }

    /// The source keeps the job, and the target is born held.
    pub async fn hold_and_expand(&self, source: &str, target: &str) {
        let pin = self.pin(Some(source), &[]);
        self.marked(source, &pin).await;
        self.list(&[source, target]);
        self.marked(target, &pin).await;
        self.arrived(target, &pin).await;
    }

    /// Source, nobody, target: with a proof at each step.
    pub async fn hand_over(&self, source: &str, target: &str) {
        let nobody = self.pin(None, &[]);
        self.marked(source, &nobody).await;
        self.arrived(source, &nobody).await;
        self.marked(target, &nobody).await;
        self.fleet
            .until("the source has stopped", |fleet| stopped(fleet, source))
            .await;
        let captured = handle(self.fleet, source);
        assert!(captured.is_some());
        self.release(target, captured.as_deref()).await;
    }

    /// The pin names the target, whatever the others do; waits until it runs there.
    pub async fn release(&self, target: &str, handle: Option<&str>) {
        self.release_with(target, handle, Vec::new()).await;
    }

    pub async fn release_with(&self, target: &str, handle: Option<&str>, mut more: Vec<Value>) {
        let mut patches = vec![json!({"operator": "add", "path": "/spec/job/state", "value": "running"})];
        if let Some(handle) = handle {
            patches
                .push(json!({"operator": "add", "path": "/spec/job/initialSavepointPath", "value": handle}));
        }
        more.push(json!({"targetCluster": {"clusterNames": [target]}, "overriders": {"plaintext": patches}}));
        let pin = self.pin(Some(target), &more);
        self.marked(target, &pin).await;
        self.fleet
            .until(&format!("it runs in {target}"), |fleet| fleet.runs_in(target))
            .await;
    }
}

pub fn verdict(fleet: &Fleet) -> Verdict {
    fleet.world.ledger().verdict()
}

pub fn two_writers(fleet: &Fleet) {
    assert!(
        !verdict(fleet).overlaps.is_empty(),
        "nobody wrote beside another:\n{}",
        fleet.world.ledger()
    );
}

pub fn lost_state(fleet: &Fleet) {
    let verdict = verdict(fleet);
    assert!(
        !verdict.lost_state.is_empty(),
        "no state was lost:\n{}",
        fleet.world.ledger()
    );
}

pub fn clean(fleet: &Fleet) {
    fleet.assert_one_writer();
}

/// Long enough for whatever goes wrong by itself.
pub async fn a_while() {
    tokio::time::sleep(Duration::from_secs(20)).await;
}

pub fn work(fleet: &Fleet, cluster: &str) -> Option<Value> {
    let namespace = format!("karmada-es-{cluster}");
    let works = fleet
        .world
        .control_plane()
        .list(&WORKS, Some(&namespace), &ListOptions::default())
        .unwrap();
    let is_ours = |work: &Value| work["spec"]["workload"]["manifests"][0]["kind"] == "FlinkDeployment";
    works.items.iter().map(|work| (**work).clone()).find(is_ours)
}

pub fn marker_on_work(fleet: &Fleet, cluster: &str) -> Option<String> {
    let work = work(fleet, cluster)?;
    let marker = &work["spec"]["workload"]["manifests"][0]["metadata"]["annotations"][MARKER];
    marker.as_str().map(str::to_owned)
}

/// Returns whether the operator of a member has acted on the hold: the job has ended, and its pods are gone.
pub fn stopped(fleet: &Fleet, cluster: &str) -> bool {
    fleet.copy(cluster).is_some_and(|copy| {
        let status = &copy["status"];
        copy["spec"]["job"]["state"] == "suspended"
            && status["observedGeneration"] == copy["metadata"]["generation"]
            && status["reconciliationStatus"]["state"] == "DEPLOYED"
            && status["jobManagerDeploymentStatus"] == "MISSING"
    })
}

pub fn handle(fleet: &Fleet, cluster: &str) -> Option<String> {
    fleet.copy(cluster)?["status"]["jobStatus"]["upgradeSavepointPath"]
        .as_str()
        .map(str::to_owned)
}

pub async fn fleet() -> Fleet {
    Fleet::start(WorldOptions::default()).await
}

/// Has the policy want another placement.
pub fn place(fleet: &Fleet, placement: Value) {
    fleet.patch(&POLICIES, "orders", json!({"spec": {"placement": placement}}));
}

pub async fn runs_in(fleet: &Fleet, cluster: &str) {
    let what = format!("it runs in {cluster}");
    fleet.until(&what, |fleet| fleet.runs_in(cluster)).await;
}

/// Stops the operator of a member.
pub fn freeze(fleet: &Fleet, cluster: &str) {
    let member = fleet.world.member(cluster);
    member.simulators(|simulators| simulators.freeze());
}

pub fn thaw(fleet: &Fleet, cluster: &str) {
    let member = fleet.world.member(cluster);
    member.simulators(|simulators| simulators.thaw());
}

pub fn can_write(fleet: &Fleet, cluster: &str) -> bool {
    let key = ("shop".to_owned(), "orders".to_owned());
    fleet
        .world
        .member(cluster)
        .simulators(|simulators| simulators.jobs().can_write(&key))
}

pub fn reachable(fleet: &Fleet, reachable: bool) {
    let key = ("shop".to_owned(), "orders".to_owned());
    fleet
        .world
        .member("east")
        .simulators(|simulators| simulators.jobs().set_reachable(&key, reachable));
}

pub fn fully_applied(fleet: &Fleet) -> String {
    let binding = fleet.binding();
    let conditions = binding["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let condition = conditions
        .iter()
        .find(|condition| condition["type"] == "FullyApplied");
    condition
        .map(|condition| condition["status"].as_str().unwrap().to_owned())
        .unwrap_or_default()
}

/// Gives the scheduler something to do.
pub fn backlog(world: &World, bindings: usize) {
    let writer = WriteOptions::manager("somebody");
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "backlog", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
            "placement": {"clusterAffinity": {"clusterNames": ["north"]}},
        },
    });
    world
        .control_plane()
        .create(&POLICIES, Some("shop"), policy, &writer)
        .unwrap();
    for number in 0..bindings {
        let config = config_map("shop", &format!("backlog-{number}"));
        world
            .control_plane()
            .create(&CONFIG_MAPS, Some("shop"), config, &writer)
            .unwrap();
    }
}

pub fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}})
}
