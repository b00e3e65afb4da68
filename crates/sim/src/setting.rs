//! How a run begins: clusters, workloads in them, and what is asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, meta};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::actor::{Intent, Kind, NAMESPACE, Running};
use crate::git::Wanted;
use crate::karmada::Controllers;
use crate::kinds::{FailoverPlan, Migration, ReplicaShift, Rollout, Suspension};
use crate::ledger::{By, Ledger};
use crate::member::{Member, Operator};
use crate::plane::{Answer, BINDING_ID, Plane, Workload};
use crate::scheduler::Scheduler;
use crate::{EAST, Sim, WEST};

const FLINK: (&str, &str) = ("flink.apache.org/v1beta1", "FlinkDeployment");
const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");

/// When every run begins.
pub fn begins() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

fn cluster(name: &str) -> Option<(ClusterName, Cluster)> {
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")}, "spec": {"id": name, "syncMode": "Push"},
        "status": {
            "apiEnablements": [
                {"groupVersion": FLINK.0, "resources": [{"name": "flinkdeployments", "kind": FLINK.1}]},
                {"groupVersion": DEPLOYMENT.0, "resources": [{"name": "deployments", "kind": DEPLOYMENT.1}]},
            ],
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "ClusterReady", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    });
    Some((ClusterName::new(name), serde_json::from_value(cluster).ok()?))
}

/// What is told of a workload that is added.
#[derive(Clone, Debug)]
pub struct Begin<'a> {
    pub name: &'a str,
    /// Of Flink, which has state; else a Deployment.
    pub is_stateful: bool,
    /// The clusters that its policy names.
    pub may: &'a [&'a str],
    /// Those that it begins in.
    pub runs: &'a [&'a str],
    pub replicas: u32,
    /// Its policy keeps it to one cluster.
    pub in_one: bool,
}

impl Begin<'_> {
    const fn gvk(&self) -> (&'static str, &'static str) {
        if self.is_stateful { FLINK } else { DEPLOYMENT }
    }

    fn spec(&self) -> Value {
        if self.is_stateful {
            json!({"image": "orders:1", "flinkConfiguration": {}, "job": {"state": "running", "upgradeMode": "savepoint"}})
        } else {
            json!({
                "replicas": self.replicas, "selector": {"matchLabels": {"app": self.name}},
                "template": {"metadata": {"labels": {"app": self.name}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
            })
        }
    }

    fn template(&self) -> Value {
        let (api_version, kind) = self.gvk();
        json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": {
                "name": self.name, "namespace": NAMESPACE, "uid": format!("template-of-{}", self.name), "generation": 1,
                "labels": {}, "annotations": {
                    meta::POLICY_NAMESPACE: NAMESPACE, meta::POLICY_NAME: self.name,
                },
            },
            "spec": self.spec(),
        })
    }

    fn placement(&self) -> Value {
        let mut placement = json!({"clusterAffinity": {"clusterNames": self.may}});
        if self.in_one {
            placement["spreadConstraints"] =
                json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
        }
        placement
    }

    fn policy(&self) -> Value {
        let (api_version, kind) = self.gvk();
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {
                "name": self.name, "namespace": NAMESPACE, "uid": format!("policy-of-{}", self.name), "generation": 1,
                "labels": {meta::POLICY_ID: format!("policy-{}", self.name)}, "annotations": {},
            },
            "spec": {
                "resourceSelectors": [{"apiVersion": api_version, "kind": kind, "name": self.name, "namespace": NAMESPACE}],
                "placement": self.placement(),
            },
        })
    }

    fn binding(&self) -> Value {
        let (api_version, kind) = self.gvk();
        let target = |name: &&str| {
            if self.is_stateful {
                json!({"name": name})
            } else {
                json!({"name": name, "replicas": self.replicas})
            }
        };
        let targets: Vec<Value> = self.runs.iter().map(target).collect();
        json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {
                "name": meta::binding_name(self.name, kind), "namespace": NAMESPACE, "uid": format!("binding-of-{}", self.name),
                "generation": 1,
                "labels": {BINDING_ID: format!("id-{}", self.name), meta::CLAIMED_BY[0]: format!("policy-{}", self.name)},
                "annotations": {},
            },
            "spec": {
                "resource": {
                    "apiVersion": api_version, "kind": kind, "namespace": NAMESPACE, "name": self.name,
                    "uid": format!("template-of-{}", self.name),
                },
                "clusters": targets, "schedulerName": "default-scheduler",
            },
            "status": {"schedulerObservedGeneration": 1},
        })
    }
}

impl Sim {
    /// Clusters, and nothing in them.
    pub fn empty(clusters: &[&str]) -> Self {
        let joined: BTreeMap<ClusterName, Cluster> =
            clusters.iter().filter_map(|name| cluster(name)).collect();
        let members = joined.keys().map(|name| Member::new(name.as_str())).collect();
        Self {
            now: begins(),
            tick: 0,
            plane: Plane::new(joined),
            members,
            ledgers: Vec::new(),
            actors: Vec::new(),
            late: Vec::new(),
            controllers: Controllers::default(),
            computed: Vec::new(),
            scheduler: Scheduler::default(),
            listed_by: Vec::new(),
            lines: 0,
            kill: None,
            breaches: Vec::new(),
            pods_were_lost: false,
            story: Vec::new(),
            is_silent: false,
            sent: Vec::new(),
            moved: false,
            quiet: 0,
        }
    }

    /// Adds a workload that runs; returns its place.
    pub fn begin(&mut self, begin: &Begin<'_>) -> usize {
        let (api_version, kind) = begin.gvk();
        let key = ObjectKey {
            group: api_version.split('/').next().unwrap_or_default().to_owned(),
            kind: kind.to_owned(),
            namespace: Some(NAMESPACE.to_owned()),
            name: begin.name.to_owned(),
        };
        let workload = self.plane.workloads.len();
        self.plane
            .workloads
            .push(Arc::new(Workload::new(key, api_version)));
        let operator = if begin.is_stateful {
            Operator::Flink
        } else {
            Operator::Deployment
        };
        for member in &mut self.members {
            member.add(operator, begin.name);
        }
        self.ledgers.push(Ledger::new(!begin.is_stateful));
        self.listed_by.push(By::Others);
        self.controllers.add();
        self.scheduler.add();
        self.plane.put_template(workload, begin.template());
        self.plane.put_policy(workload, begin.policy());
        self.plane.put_binding(workload, begin.binding());
        self.settle();
        for ledger in &mut self.ledgers {
            ledger.write();
        }
        workload
    }

    /// The job `orders` runs in east, and may run in any of the clusters, in one at a time.
    pub fn with_orders(clusters: &[&str]) -> Self {
        let mut sim = Self::empty(clusters);
        sim.begin(&Begin {
            name: "orders",
            is_stateful: true,
            may: clusters,
            runs: &[EAST],
            replicas: 1,
            in_one: true,
        });
        sim
    }

    /// The Deployment `web` runs in some clusters.
    pub fn with_web(clusters: &[&str], runs: &[&str], replicas: u32) -> Self {
        let mut sim = Self::empty(clusters);
        sim.begin(&Begin {
            name: "web",
            is_stateful: false,
            may: runs,
            runs,
            replicas,
            in_one: false,
        });
        sim
    }

    /// `orders` in east, and a migration of it to west; `more`: what else its spec says.
    ///
    /// # Errors
    /// When that is no spec of a migration.
    pub fn new(more: &Value) -> Result<Self, serde_json::Error> {
        let mut sim = Self::with_orders(&[EAST, WEST]);
        sim.migrate(0, WEST, more)?;
        Ok(sim)
    }

    /// Asks for a migration; returns its place among the intents.
    ///
    /// # Errors
    /// When that is no spec of a migration.
    pub fn migrate(&mut self, workload: usize, to: &str, more: &Value) -> Result<usize, serde_json::Error> {
        let spec = json!({"to": to, "verify": {"healthyFor": "2s", "timeout": "60s"}});
        self.ask::<Migration>(workload, &format!("to-{to}"), spec, more)
    }

    /// Asks for a standing guard.
    ///
    /// # Errors
    /// When that is no spec of a plan.
    pub fn guard(&mut self, workload: usize, more: &Value) -> Result<usize, serde_json::Error> {
        self.ask::<FailoverPlan>(workload, "guard", json!({}), more)
    }

    /// Lets every change of a template go cluster by cluster.
    ///
    /// # Errors
    /// When that is no spec of a rollout.
    pub fn roll_out(&mut self, workload: usize, more: &Value) -> Result<usize, serde_json::Error> {
        let spec = json!({"progress": {"healthyFor": "2s", "timeout": "60s"}});
        let live = self.plane.workloads[workload].template.as_ref();
        let manifest = live.map(|live| (***live).clone()).unwrap_or_default();
        self.wants(workload, "1", manifest);
        self.ask::<Rollout>(workload, "rollout", spec, more)
    }

    /// Asks for replicas to go from east to west.
    ///
    /// # Errors
    /// When that is no spec of a shift.
    pub fn shift(&mut self, workload: usize, more: &Value) -> Result<usize, serde_json::Error> {
        let spec = json!({"from": {"cluster": EAST}, "to": WEST});
        self.ask::<ReplicaShift>(workload, "shift", spec, more)
    }

    /// Asks for changes to be kept from the members.
    ///
    /// # Errors
    /// When that is no spec of a suspension.
    pub fn suspend(&mut self, workload: usize, more: &Value) -> Result<usize, serde_json::Error> {
        let of = &self.plane.workloads[workload];
        let target = json!({"apiVersion": of.api_version, "kind": of.key.kind, "name": of.key.name});
        let spec = json!({"target": {"workload": target}, "reason": "a test"});
        self.ask_for::<Suspension>(workload, "suspension", spec, more)
    }

    /// Its policy names other clusters.
    pub fn place_in(&mut self, workload: usize, clusters: &[&str]) {
        if let Some(policy) = self.plane.workloads[workload].policy.clone() {
            let mut json = policy.json.clone();
            json["spec"]["placement"]["clusterAffinity"]["clusterNames"] = json!(clusters);
            self.plane.put_policy(workload, json);
        }
    }

    /// Git wants another template.
    pub fn wants(&mut self, workload: usize, hash: &str, mut manifest: Value) {
        if let Some(object) = manifest.as_object_mut() {
            object.remove("status");
        }
        if let Some(metadata) = manifest["metadata"].as_object_mut() {
            metadata.retain(|field, _| ["name", "namespace"].contains(&field.as_str()));
        }
        let wanted = Wanted {
            hash: hash.to_owned(),
            manifest: Arc::new(manifest),
        };
        self.plane.git.templates.insert(workload, wanted);
    }

    fn ask<K: Kind>(
        &mut self,
        workload: usize,
        name: &str,
        mut spec: Value,
        more: &Value,
    ) -> Result<usize, serde_json::Error>
    where
        K::Spec: DeserializeOwned,
    {
        let of = &self.plane.workloads[workload];
        spec["workload"] = json!({"apiVersion": of.api_version, "kind": of.key.kind, "name": of.key.name});
        self.ask_for::<K>(workload, name, spec, more)
    }

    fn ask_for<K: Kind>(
        &mut self,
        workload: usize,
        name: &str,
        mut spec: Value,
        more: &Value,
    ) -> Result<usize, serde_json::Error>
    where
        K::Spec: DeserializeOwned,
    {
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        let nth = self.actors.len();
        let intent = Intent::<K> {
            name: name.to_owned(),
            uid: format!("{}-{nth}", K::NAME.to_lowercase()),
            workload,
            created: self.now,
            labels: Vec::new(),
            spec: serde_json::from_value(spec)?,
            status: K::Status::default(),
            generation: 1,
            deleting: false,
            has_finalizer: false,
        };
        self.actors.push(Box::new(Running::new(intent)));
        Ok(nth)
    }

    /// An intent asks for another one.
    pub(crate) fn create_intent(&mut self, manifest: &Value) -> Answer {
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
        if self
            .actors
            .iter()
            .any(|actor| actor.kind() == manifest["kind"] && actor.name() == name)
        {
            return Answer::Exists;
        }
        let target = manifest
            .pointer("/spec/target/workload/name")
            .cloned()
            .unwrap_or_default();
        let mut workloads = self.plane.workloads.iter();
        let workload = workloads.position(|of| target == of.key.name.as_str());
        let (Some(workload), true) = (workload, manifest["kind"] == "Suspension") else {
            return Answer::Failed("not in the simulation".to_owned());
        };
        let asked = self.ask_for::<Suspension>(workload, name, manifest["spec"].clone(), &Value::Null);
        match asked {
            Ok(nth) => {
                let labels = manifest["metadata"]["labels"].as_object().into_iter().flatten();
                let labels =
                    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
                let labels = labels.collect();
                if let Some(intent) = self.intent_mut::<Suspension>(nth) {
                    intent.labels = labels;
                }
                Answer::Done
            }
            Err(error) => Answer::Failed(error.to_string()),
        }
    }

    pub(crate) fn delete_intent(&mut self, kind: &str, uid: &str) -> Answer {
        let mut actors = self.actors.iter_mut();
        match actors.find(|actor| actor.kind() == kind && actor.uid() == uid) {
            Some(actor) => {
                actor.delete();
                Answer::Done
            }
            None => Answer::Stale,
        }
    }
}
