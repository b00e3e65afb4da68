//! A kind of cluster scope that one object has: in every member an operator of the test's own works on it.

use std::time::Duration;

use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{ApiServer, ListOptions, Resource, Subresource, WriteOptions};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use crate::support::fleet::Fleet;

pub const POLICIES: Resource = Resource::new("policy.karmada.io", "clusterpropagationpolicies");
pub const PINS: Resource = Resource::new("policy.karmada.io", "clusteroverridepolicies");
pub const MEMBERS: [&str; 3] = ["east", "west", "north"];
const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");

/// How often an operator looks.
const LOOK: Duration = Duration::from_millis(50);

pub struct ClusterKind {
    pub kind: &'static str,
    /// Its group is `example.org`.
    pub resource: Resource,
    /// The name of the object.
    pub name: &'static str,
    /// The fields of a spec, each with its type.
    pub fields: &'static [(&'static str, &'static str)],
}

impl ClusterKind {
    /// Starts a fleet that serves the kind, and the operators: each writes the status that follows from a spec and the status before.
    pub async fn start(&'static self, looked_at: fn(&Value, &Value) -> Value) -> (Fleet, JoinSet<()>) {
        let fleet = Fleet::start(WorldOptions::default()).await;
        let crd = self.crd();
        fleet.world.control_plane().install(&crd).unwrap();
        let mut operators = JoinSet::new();
        for name in MEMBERS {
            let api = fleet.world.member(name).api.clone();
            api.install(&crd).unwrap();
            operators.spawn(self.operate(api, looked_at));
        }
        // What doesn't fit when it is first looked at, the scheduler doesn't look at again.
        fleet.until("the members' kinds are known", is_served).await;
        (fleet, operators)
    }

    async fn operate(&self, api: ApiServer, looked_at: fn(&Value, &Value) -> Value) {
        loop {
            tokio::time::sleep(LOOK).await;
            let Ok(object) = api.get(&self.resource, None, self.name) else {
                continue;
            };
            if object["metadata"]["deletionTimestamp"].is_string() {
                continue;
            }
            let mut object = (*object).clone();
            let mut status = looked_at(&object["spec"], &object["status"]);
            status["observedGeneration"] = object["metadata"]["generation"].clone();
            let mut fields = status.as_object().unwrap().iter();
            if fields.all(|(field, value)| object["status"][field] == *value) {
                continue;
            }
            object["status"] = status;
            // Somebody was faster: looked at again in a moment.
            let options = WriteOptions::manager("operator");
            let part = Some(Subresource::Status);
            let _ = api.update(&self.resource, None, self.name, part, object, &options);
        }
    }

    fn crd(&self) -> Value {
        let (kind, plural) = (self.kind, &*self.resource.plural);
        let fields: Map<String, Value> = self
            .fields
            .iter()
            .map(|(field, of)| ((*field).to_owned(), json!({"type": of})))
            .collect();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.org")},
            "spec": {
                "group": "example.org", "scope": "Cluster",
                "names": {
                    "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List"),
                },
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": fields},
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    }}},
                }],
            },
        })
    }

    pub fn selector(&self) -> Value {
        json!({"apiVersion": "example.org/v1", "kind": self.kind, "name": self.name})
    }

    pub fn policy(&self, placement: Value) -> Value {
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
            "metadata": {"name": self.resource.plural},
            "spec": {"resourceSelectors": [self.selector()], "placement": placement},
        })
    }

    /// Returns the object as a member has it.
    pub fn copy(&self, fleet: &Fleet, cluster: &str) -> Value {
        let copy = fleet
            .world
            .member(cluster)
            .api
            .get(&self.resource, None, self.name);
        copy.map(|copy| (*copy).clone()).unwrap_or_default()
    }

    /// Asks for a move to west.
    pub fn migrate(&self, fleet: &Fleet, name: &str, more: Value) {
        let mut spec = json!({
            "workload": self.selector(), "to": "west", "verify": {"healthyFor": "2s", "timeout": "60s"},
        });
        let more = more.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(more);
        fleet.migrate_with(name, spec);
    }
}

pub fn one_of_all() -> Value {
    json!({
        "clusterAffinity": {"clusterNames": MEMBERS},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    })
}

fn is_served(fleet: &Fleet) -> bool {
    let server = fleet.world.control_plane();
    let clusters = server
        .list(&CLUSTERS, None, &ListOptions::default())
        .unwrap()
        .items;
    clusters.iter().all(|cluster| {
        let groups = cluster["status"]["apiEnablements"].as_array();
        groups
            .into_iter()
            .flatten()
            .any(|group| group["groupVersion"] == "example.org/v1")
    })
}
