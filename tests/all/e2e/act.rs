//! One scenario's part on the stage: its workload, what it asks for about it, and what is seen of both.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cutover::api::Phase;
use cutover::sandbox::ledger::{Run, Verdict};
use cutover_sim::recording::Recording;
use kube::Error;
use serde_json::{Value, json};

use super::place::{Place, say, until, until_or_not};
use super::server::{BINDINGS, CLAIMS, DEPLOYMENTS, EVACUATIONS, JOBS, MIGRATIONS, PINS, POLICIES, Resource};
use super::stage::{Stage, recorded};
use crate::support::fleet::opened;
use crate::support::oracle::is_moved_knowingly;

/// A workload, its policy and an intent, all of the scenario's name.
#[derive(Clone)]
pub struct Act {
    pub stage: Arc<Stage>,
    pub name: &'static str,
    /// The kind of the intent.
    pub asks: Resource,
    /// The kind of the workload.
    kind: Resource,
    /// The status that was seen last, for the account.
    last: Arc<Mutex<Value>>,
}

impl Act {
    pub fn new(stage: &Arc<Stage>, name: &'static str, asks: Resource) -> Self {
        Self {
            stage: Arc::clone(stage),
            name,
            asks,
            kind: JOBS,
            last: Arc::default(),
        }
    }

    /// About a Deployment.
    pub fn deployment(self) -> Self {
        Self {
            kind: DEPLOYMENTS,
            ..self
        }
    }

    /// Another workload of the same scenario, which a Migration is about.
    pub fn beside(&self, name: &'static str) -> Self {
        Self {
            name,
            asks: MIGRATIONS,
            last: Arc::default(),
            ..self.clone()
        }
    }

    pub fn place(&self) -> &Place {
        &self.stage.place
    }

    pub fn namespace(&self) -> &str {
        &self.stage.place.namespace
    }

    /// All members, by name.
    pub fn members(&self) -> Vec<&str> {
        self.place().members.keys().map(String::as_str).collect()
    }

    /// Writes files of this scenario in one commit.
    pub fn commit(&self, files: &[(&str, &Value)]) {
        let text: Vec<_> = files
            .iter()
            .map(|(name, object)| (self.file(name), format!("{object:#}\n")))
            .collect();
        let files: Vec<_> = text
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        self.stage.origin.commit("main", &files);
    }

    /// Where one of this scenario's files stands.
    pub fn file(&self, name: &str) -> String {
        format!("fleet/{}/{name}.yaml", self.name)
    }

    // What Git wants.

    /// A policy that propagates the workload to one of all members.
    pub fn policy(&self) -> Value {
        self.placed(&json!({
            "clusterAffinity": {"clusterNames": self.members()},
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        }))
    }

    /// A policy that propagates the workload to every one of these.
    pub fn policy_of(&self, clusters: &[&str]) -> Value {
        self.placed(&json!({"clusterAffinity": {"clusterNames": clusters}}))
    }

    pub fn placed(&self, placement: &Value) -> Value {
        let mut spec = json!({
            "resourceSelectors": [{
                "apiVersion": self.api_version(), "kind": self.kind.kind, "name": self.name,
            }],
            "placement": placement,
        });
        if self.kind.kind == JOBS.kind {
            spec["propagateDeps"] = json!(true);
            spec["failover"] = json!({
                "application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly"},
            });
        }
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": self.name, "namespace": self.namespace()}, "spec": spec,
        })
    }

    pub fn workload(&self, image: &str) -> Value {
        let metadata = json!({"name": self.name, "namespace": self.namespace()});
        if self.kind.kind == DEPLOYMENTS.kind {
            let labels = json!({"app": self.name});
            return json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
                "spec": {
                    "replicas": 2, "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "main", "image": image}]},
                    },
                },
            });
        }
        let resource = json!({"resource": {"memory": "1024m", "cpu": 1}});
        json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "metadata": metadata,
            "spec": {
                "image": image, "flinkVersion": "v1_20", "serviceAccount": "default",
                "flinkConfiguration": {
                    "taskmanager.numberOfTaskSlots": "1",
                    "state.savepoints.dir": format!("s3://e2e/{}/savepoints", self.name),
                    "state.checkpoints.dir": format!("s3://e2e/{}/checkpoints", self.name),
                },
                "jobManager": resource, "taskManager": resource,
                "job": {
                    "jarURI": "local:///opt/job.jar", "parallelism": 1, "upgradeMode": "savepoint", "state": "running",
                },
            },
        })
    }

    /// How an intent names the workload.
    pub fn about(&self) -> Value {
        json!({"apiVersion": self.api_version(), "kind": self.kind.kind, "name": self.name})
    }

    pub fn intent(&self, spec: &Value) -> Value {
        let mut metadata = json!({"name": self.name});
        if let Some(namespace) = self.intent_namespace() {
            metadata["namespace"] = json!(namespace);
        }
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": self.asks.kind, "metadata": metadata, "spec": spec,
        })
    }

    pub fn ask(&self, spec: &Value) {
        self.commit(&[("intent", &self.intent(spec))]);
    }

    /// Takes the intent out of Git, and waits until it has gone from the control plane.
    pub async fn withdraw(&self) {
        self.stage.origin.commit("main", &[(&self.file("intent"), "")]);
        self.until("the intent is gone", async |act| act.status().await.is_null())
            .await;
    }

    fn intent_namespace(&self) -> Option<&str> {
        (self.asks.kind != EVACUATIONS.kind).then(|| self.namespace())
    }

    fn api_version(&self) -> String {
        format!("{}/{}", self.kind.group, self.kind.version)
    }

    // What is seen.

    /// Commits the workload with its policy, and returns the cluster in which it runs, and another one.
    pub async fn runs(&self, image: &str) -> [String; 2] {
        self.commit(&[("policy", &self.policy()), ("workload", &self.workload(image))]);
        self.runs_somewhere().await
    }

    /// The same for a workload that somebody else applies, who alone has it in Git.
    pub async fn given(&self, workload: Value, manager: &str) -> [String; 2] {
        self.commit(&[("policy", &self.policy())]);
        self.apply_as(manager, workload).await;
        self.runs_somewhere().await
    }

    /// Applies the workload in somebody's name.
    pub async fn apply_as(&self, manager: &str, workload: Value) {
        let control = &self.place().control;
        control
            .apply(self.kind, Some(self.namespace()), manager, workload)
            .await;
    }

    /// Deletes what somebody has applied, as he does when it has gone from his Git.
    /// Writes down what the program has sent for this intent, for the simulation to be held against (`crates/sim/recordings`):
    /// with `CUTOVER_E2E_RECORD`, at the path that it begins.
    pub fn record(&self, of: &str, [here, there]: [&str; 2]) {
        let Some(begins) = recorded() else { return };
        let said = self.stage.said();
        let own = format!("/{} ", self.name);
        let sent = said
            .lines()
            .filter(|line| line.contains(" sent") && line.contains(&own));
        let what = |line: &str| {
            let (_, what) = line.split_once("what=")?;
            let what = what
                .trim_matches('"')
                .replace(&format!("{}/{}", self.namespace(), self.name), "shop/orders");
            let words = what.split(' ').map(|word| match word {
                word if word == here => "east",
                word if word == there => "west",
                word => word,
            });
            Some(words.collect::<Vec<_>>().join(" "))
        };
        let lines: Vec<String> = sent.filter_map(what).collect();
        let recording = Recording::of(lines.iter().map(String::as_str));
        let path = format!("{begins}_{of}.txt");
        std::fs::write(path, recording.text("a whole control plane, tests/all/e2e")).unwrap();
    }

    pub async fn pruned(&self) {
        let control = &self.place().control;
        control
            .delete(self.kind, Some(self.namespace()), self.name)
            .await
            .unwrap();
        self.until("the workload is gone", async |act| {
            act.where_it_runs().await.is_empty()
        })
        .await;
    }

    pub async fn runs_somewhere(&self) -> [String; 2] {
        let mut clusters = Vec::new();
        until(&format!("{} runs somewhere", self.name), async || {
            clusters = self.where_it_runs().await;
            clusters.len() == 1
        })
        .await;
        let here = clusters.remove(0);
        let [one, other] = self.place().pair();
        let there = if here == one { other } else { one };
        [here, there.to_owned()]
    }

    /// Commits this workload, and waits until it runs in exactly these clusters.
    pub async fn runs_in(&self, clusters: &[&str], workload: &Value) {
        self.commit(&[("policy", &self.policy_of(clusters)), ("workload", workload)]);
        self.until(&format!("it runs in {clusters:?}"), async |act| {
            act.where_it_runs().await == clusters
        })
        .await;
    }

    /// Which clusters' copies say that they run.
    pub async fn where_it_runs(&self) -> Vec<String> {
        let mut clusters = Vec::new();
        for cluster in self.place().members.keys() {
            let copy = self.copy(cluster).await.unwrap_or_default();
            let status = &copy["status"];
            let ready = status["availableReplicas"].as_i64() == copy["spec"]["replicas"].as_i64();
            let runs = if self.kind.kind == JOBS.kind {
                status["jobStatus"]["state"] == "RUNNING" && status["jobManagerDeploymentStatus"] == "READY"
            } else {
                ready && copy["spec"]["replicas"].as_i64() > Some(0)
            };
            clusters.extend(runs.then(|| cluster.clone()));
        }
        clusters
    }

    pub async fn copy(&self, cluster: &str) -> Option<Value> {
        let member = &self.place().members[cluster].server;
        member.get(self.kind, Some(self.namespace()), self.name).await
    }

    pub async fn template(&self) -> Value {
        let control = &self.place().control;
        let template = control.get(self.kind, Some(self.namespace()), self.name).await;
        template.unwrap_or_default()
    }

    /// The kind that is watched for versions of the copy.
    pub const fn kind(&self) -> Resource {
        self.kind
    }

    async fn asked(&self) -> Value {
        let control = &self.place().control;
        let intent = control.get(self.asks, self.intent_namespace(), self.name).await;
        intent.unwrap_or_default()
    }

    pub async fn status(&self) -> Value {
        let status = opened(&self.asked().await["status"]);
        if !status.is_null() {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = status.clone();
        }
        status
    }

    /// The status that was seen last, should the intent have gone.
    pub async fn last_status(&self) -> Value {
        let now = self.status().await;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if now.is_null() { last.clone() } else { now }
    }

    /// Waits for a phase, and for none of those from which nothing leads there.
    pub async fn comes_to(&self, phase: &str, dead_ends: &[&str]) -> Value {
        let mut status = Value::Null;
        self.until(&format!("it is {phase}"), async |act| {
            status = act.status().await;
            let now = status["phase"].as_str().unwrap_or_default();
            let dead = dead_ends.contains(&now);
            assert!(!dead, "it is {now}, not {phase}: {}", in_short(&status));
            now == phase
        })
        .await;
        status
    }

    /// Waits until a migration is in a phase, or past it.
    pub async fn comes_past(&self, wanted: Phase) {
        self.until(&format!("{wanted} or later"), async |act| {
            let phase: Option<Phase> = serde_json::from_value(act.status().await["phase"].clone()).ok();
            phase.is_some_and(|phase| phase >= wanted)
        })
        .await;
    }

    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        if until_or_not(async || holds(self).await).await {
            return;
        }
        let status = self.last_status().await;
        let (mut intent, mut binding) = (self.asked().await, self.binding().await);
        for object in [&mut intent, &mut binding] {
            object["metadata"]["managedFields"].take();
        }
        say(format!("{}: {intent:#}\n{binding:#}", self.name));
        let ledger = self.place().ledger.to_string();
        say(ledger);
        panic!("{what}: not in time; {}", in_short(&status));
    }

    pub async fn binding(&self) -> Value {
        let control = &self.place().control;
        let binding = control
            .get(BINDINGS, Some(self.namespace()), &self.binding_name())
            .await;
        binding.unwrap_or_default()
    }

    fn binding_name(&self) -> String {
        format!("{}-{}", self.name, self.kind.kind.to_lowercase())
    }

    /// Somebody patches the binding.
    pub async fn patch_binding(&self, patch: Value) {
        let control = &self.place().control;
        control
            .patch(BINDINGS, Some(self.namespace()), &self.binding_name(), patch)
            .await
            .unwrap();
    }

    pub async fn pin(&self) -> Option<Value> {
        let all = self.place().control.list(PINS, Some(self.namespace())).await;
        all.into_iter()
            .find(|pin| pin["spec"]["resourceSelectors"][0]["name"] == self.name)
    }

    pub async fn patch_pin(&self, patch: Value) -> Result<(), Error> {
        let name = self.pin_name().await;
        let control = &self.place().control;
        control.patch(PINS, Some(self.namespace()), &name, patch).await
    }

    pub async fn delete_pin(&self) -> Result<(), Error> {
        let name = self.pin_name().await;
        let control = &self.place().control;
        control.delete(PINS, Some(self.namespace()), &name).await
    }

    async fn pin_name(&self) -> String {
        let pin = self.pin().await.expect("there is a pin");
        pin["metadata"]["name"].as_str().unwrap().to_owned()
    }

    // What has to hold.

    /// It runs there and nowhere else, nothing of the tool's is left on it, and what the ledger says is in order.
    pub async fn is_settled_in(&self, cluster: &str) {
        self.until(&format!("it runs in {cluster}"), async |act| {
            act.where_it_runs().await == [cluster]
        })
        .await;
        let binding = self.binding().await;
        let listed: Vec<_> = binding["spec"]["clusters"].as_array().unwrap().iter().collect();
        assert_eq!(listed.len(), 1, "{binding:#}");
        assert_eq!(listed[0]["name"], cluster, "{binding:#}");
        self.is_untouched().await;
        for other in self.place().members.keys().filter(|other| *other != cluster) {
            assert_eq!(self.copy(other).await, None, "a copy is left in {other}");
        }
        let verdict = self.verdict();
        assert!(verdict.is_clean(), "{verdict}\n{}", self.place().ledger);
        assert!(
            verdict.max_writers_at_once <= 1,
            "{verdict}\n{}",
            self.place().ledger
        );
    }

    /// Nothing of the tool's is on the workload.
    pub async fn is_untouched(&self) {
        let (binding, control) = (self.binding().await, &self.place().control);
        let scheduling = &binding["spec"]["suspension"]["scheduling"];
        assert!(scheduling.is_null(), "{binding:#}");
        let policy = control.get(POLICIES, Some(self.namespace()), self.name).await;
        let failover = |of: &Value| of["spec"]["failover"]["application"]["purgeMode"].clone();
        assert_eq!(
            failover(&binding),
            failover(&policy.unwrap_or_default()),
            "failover is as the policy says"
        );
        assert_eq!(self.pin().await, None, "a pin is left");
        let claims = control.list(CLAIMS, None).await;
        let ours = claims
            .iter()
            .find(|claim| claim["spec"]["workload"]["name"] == self.name);
        assert_eq!(ours, None, "a claim is left");
    }

    /// What the ledger says of this workload.
    pub fn verdict(&self) -> Verdict {
        let all = self.place().ledger.verdict();
        let mut verdict = all.about(|workload| workload.name == self.name);
        // What a failover can't take along is in order if the plan says so.
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        verdict.lost_state.retain(|lost| !is_moved_knowingly(lost, &last));
        verdict
    }

    /// The run that goes on.
    pub fn running(&self) -> Run {
        let mut runs = self.verdict().runs;
        runs.retain(|run| run.until.is_none());
        assert_eq!(runs.len(), 1, "{}", self.place().ledger);
        runs.remove(0)
    }
}

/// What a line of a report has room for.
fn in_short(status: &Value) -> String {
    let short: BTreeMap<_, _> = ["phase", "attempt", "waitingFor", "findings"]
        .into_iter()
        .filter(|field| !status[*field].is_null())
        .map(|field| (field, &status[field]))
        .collect();
    serde_json::to_string(&short).unwrap()
}
