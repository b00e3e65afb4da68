//! How a run begins: `shop/orders` runs in east, and shall go to west.

use std::collections::BTreeMap;

use cutover_core::api::{MigrationSpec, MigrationStatus};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, meta};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::flink::Member;
use super::plane::{BINDING_ID, Plane};
use super::{EAST, Intent, Sim, WEST, karmada};

pub const API_VERSION: &str = "flink.apache.org/v1beta1";
pub const KIND: &str = "FlinkDeployment";

/// When every run begins.
pub fn begins() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn template() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {"name": "orders", "namespace": "shop", "uid": "template-1", "generation": 1, "labels": {}, "annotations": {}},
        "spec": {"flinkConfiguration": {}, "job": {"state": "running", "upgradeMode": "savepoint"}},
    })
}

fn cluster(name: &str) -> Option<(ClusterName, Cluster)> {
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")}, "spec": {"id": name, "syncMode": "Push"},
        "status": {
            "apiEnablements": [{"groupVersion": API_VERSION, "resources": [{"name": "flinkdeployments", "kind": KIND}]}],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    Some((ClusterName::new(name), serde_json::from_value(cluster).ok()?))
}

fn binding() -> Value {
    let placement = json!({
        "clusterAffinity": {"clusterNames": [EAST, WEST]},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    });
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": "orders-flinkdeployment", "namespace": "shop", "uid": "binding-1", "generation": 1, "resourceVersion": "1",
            "labels": {BINDING_ID: "id-1", meta::CLAIMED_BY[0]: "policy-1"},
            "annotations": {meta::APPLIED_PLACEMENT: placement.to_string()},
        },
        "spec": {
            "resource": {
                "apiVersion": API_VERSION, "kind": KIND, "namespace": "shop", "name": "orders", "uid": "template-1",
            },
            "placement": placement, "clusters": [{"name": EAST}], "schedulerName": "default-scheduler",
        },
        "status": {"schedulerObservedGeneration": 1},
    })
}

impl Sim {
    /// The job runs in east; what is said of the move, beside where it goes.
    ///
    /// # Errors
    /// When that is no spec of a migration.
    pub fn new(more: &Value) -> Result<Self, serde_json::Error> {
        let mut spec = json!({
            "workload": {"apiVersion": API_VERSION, "kind": KIND, "name": "orders"}, "to": WEST,
            "verify": {"healthyFor": "2s", "timeout": "60s"},
        });
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        let spec: MigrationSpec = serde_json::from_value(spec)?;
        let clusters: BTreeMap<ClusterName, Cluster> = [EAST, WEST].into_iter().filter_map(cluster).collect();
        let members = [EAST, WEST].map(|name| (ClusterName::new(name), Member::new(name)));
        let mut sim = Self {
            now: begins(),
            tick: 0,
            plane: Plane::new(template(), binding(), clusters),
            members: members.into(),
            intent: Intent {
                spec,
                status: MigrationStatus::default(),
                generation: 1,
                deleting: false,
            },
            process: super::Process::default(),
            late: Vec::new(),
            caches: karmada::Caches::default(),
            computed: Vec::new(),
            ledger: super::Ledger::default(),
            lines: 0,
            kill: None,
            story: Vec::new(),
        };
        while sim.world_moves() {}
        sim.ledger.write();
        Ok(sim)
    }
}
