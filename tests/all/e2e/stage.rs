//! A repository, the program as a process at work on it, and one scenario's workload in it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use cutover::api::Phase;
use cutover::sandbox::ledger::{Run, Verdict};
use kube::Error;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::place::{Place, say, until, until_or_not};
use super::server::{BINDINGS, CLAIMS, DEPLOYMENTS, JOBS, MIGRATIONS, PINS, Resource};
use crate::support::git::Origin;

pub struct Stage {
    pub place: Place,
    origin: Origin,
    dir: TempDir,
    reconciler: Mutex<Option<Process>>,
}

impl Stage {
    pub fn set(place: Place) -> Self {
        let config = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Config", "interval": "1s",
            "syncs": [{"name": place.namespace, "path": "fleet", "prune": true, "pruneLimit": {"objects": 1000}}],
        });
        let stage = Self {
            origin: Origin::with(&[("cutover.yaml", &config.to_string())]),
            place,
            dir: tempfile::tempdir().unwrap(),
            reconciler: Mutex::default(),
        };
        stage.start();
        stage
    }

    /// Starts `cutover run`.
    pub fn start(&self) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())
            .unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(["-v", "run", "--lease-duration", "3s", "--repo"])
            .arg(self.origin.path())
            .arg("--kubeconfig")
            .arg(&self.place.control.kubeconfig)
            .arg("--state-dir")
            .arg(self.dir.path().join("state"))
            .env_remove("KUBECONFIG")
            .env("HOSTNAME", "cutover-e2e")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        *self.reconciler() = Some(Process(child));
    }

    /// kill -9.
    pub fn kill(&self) {
        drop(self.reconciler().take());
    }

    /// Git has nothing any more, the program ends in order, the place is cleared. Returns what is left.
    pub async fn strike(self) -> Vec<String> {
        // A folder that isn't there any more is taken for a mistake.
        let kept = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kept", "namespace": self.place.namespace},
        });
        self.origin.commit("main", &[("fleet", "")]);
        self.origin
            .commit("main", &[("fleet/kept.yaml", &kept.to_string())]);
        let deleted = async || {
            let namespace = Some(self.place.namespace.as_str());
            let kinds = [MIGRATIONS, JOBS, DEPLOYMENTS, BINDINGS];
            let all = futures::future::join_all(kinds.map(|kind| self.place.control.list(kind, namespace)));
            all.await.iter().all(Vec::is_empty)
        };
        if !until_or_not(deleted).await {
            say("what Git has no longer is not pruned");
        }
        self.end().await;
        self.place.clear().await
    }

    async fn end(&self) {
        let id = self.reconciler().as_ref().map(|process| process.0.id());
        let Some(id) = id else { return };
        let asked = Command::new("kill").arg(id.to_string()).status().unwrap();
        assert!(asked.success());
        let ended = async || match self.reconciler().as_mut() {
            Some(process) => process.0.try_wait().unwrap().is_some(),
            None => true,
        };
        until_or_not(ended).await;
        self.kill();
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("cutover.log")
    }

    fn reconciler(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.reconciler.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Dropped, it is killed.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One scenario: its workload, and the intent to move it. Both have the scenario's name.
#[derive(Clone)]
pub struct Act {
    pub stage: Arc<Stage>,
    pub name: &'static str,
    kind: Resource,
}

impl Act {
    pub fn new(stage: &Arc<Stage>, name: &'static str) -> Self {
        Self {
            stage: Arc::clone(stage),
            name,
            kind: JOBS,
        }
    }

    /// About a Deployment.
    pub fn deployment(self) -> Self {
        Self {
            kind: DEPLOYMENTS,
            ..self
        }
    }

    pub fn place(&self) -> &Place {
        &self.stage.place
    }

    /// Writes files of this scenario in one commit.
    pub fn commit(&self, files: &[(&str, &Value)]) {
        let files: Vec<_> = files
            .iter()
            .map(|(name, object)| {
                (
                    format!("fleet/{}/{name}.yaml", self.name),
                    format!("{object:#}\n"),
                )
            })
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        self.stage.origin.commit("main", &files);
    }

    /// Commits the workload with its policy, and returns the cluster in which it runs, and another one.
    pub async fn runs(&self, image: &str) -> [String; 2] {
        self.commit(&[("policy", &self.policy()), ("workload", &self.workload(image))]);
        until(&format!("{} runs somewhere", self.name), async || {
            self.where_it_runs().await.len() == 1
        })
        .await;
        let here = self.where_it_runs().await.remove(0);
        let [one, other] = self.place().pair();
        let there = if here == one { other } else { one };
        [here, there.to_owned()]
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
        member
            .get(self.kind, Some(&self.place().namespace), self.name)
            .await
    }

    pub fn policy(&self) -> Value {
        let members: Vec<_> = self.place().members.keys().collect();
        let mut spec = json!({
            "resourceSelectors": [{
                "apiVersion": self.api_version(), "kind": self.kind.kind, "name": self.name,
            }],
            "placement": {
                "clusterAffinity": {"clusterNames": members},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
        });
        if self.kind.kind == JOBS.kind {
            spec["propagateDeps"] = json!(true);
            spec["failover"] = json!({
                "application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly"},
            });
        }
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": self.name, "namespace": self.place().namespace}, "spec": spec,
        })
    }

    pub fn workload(&self, image: &str) -> Value {
        let metadata = json!({"name": self.name, "namespace": self.place().namespace});
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
                "image": image, "flinkVersion": "v1_20", "serviceAccount": "flink",
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

    /// Returns the intent to move the workload, with more fields of its spec.
    pub fn intent(&self, to: &str, more: Value) -> Value {
        let mut spec = json!({
            "workload": {"apiVersion": self.api_version(), "kind": self.kind.kind, "name": self.name},
            "to": to,
            "verify": {"healthyFor": "1s", "timeout": "60s"},
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
            "metadata": {"name": self.name, "namespace": self.place().namespace}, "spec": spec,
        })
    }

    pub fn migrate(&self, to: &str, more: Value) {
        self.commit(&[("intent", &self.intent(to, more))]);
    }

    /// Moves it, and waits until a phase waits for its approval.
    pub async fn migrate_up_to(&self, gate: Phase, to: &str, more: Value) -> Gate {
        let mut with_gate = json!({"approval": {"before": [gate]}});
        let fields = with_gate.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        self.migrate(to, with_gate.clone());
        self.until(&format!("{gate} waits for its approval"), async |act| {
            let status = act.status().await;
            assert!(!is_terminal(&status), "{status:#}");
            status["waitingFor"]["approval"] == gate.name()
        })
        .await;
        Gate {
            phase: gate,
            to: to.to_owned(),
            spec: with_gate,
        }
    }

    pub fn approve(&self, gate: &Gate) {
        self.change(
            gate,
            json!({"approvals": [{"phase": gate.phase, "attempt": 1, "by": "e2e"}]}),
        );
    }

    /// Changes the spec of an intent that waits.
    pub fn change(&self, gate: &Gate, more: Value) {
        let mut spec = gate.spec.clone();
        let fields = spec.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        self.migrate(&gate.to, spec);
    }

    pub async fn status(&self) -> Value {
        let intent = self
            .place()
            .control
            .get(MIGRATIONS, Some(&self.place().namespace), self.name)
            .await;
        intent.map(|intent| intent["status"].clone()).unwrap_or_default()
    }

    /// Waits for the end of the migration, which has to be this one.
    pub async fn ends(&self, phase: Phase) -> Value {
        self.until(&format!("it ends, {phase}"), async |act| {
            is_terminal(&act.status().await)
        })
        .await;
        let status = self.status().await;
        assert_eq!(status["phase"], phase.name(), "{status:#}");
        status
    }

    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut(&Self) -> bool) {
        if !until_or_not(async || holds(self).await).await {
            let (intent, mut binding) = (self.status().await, self.binding().await);
            binding["metadata"]["managedFields"].take();
            panic!(
                "{what}: not in time\n{intent:#}\n{binding:#}\n{}",
                self.stage.said()
            );
        }
    }

    pub async fn binding(&self) -> Value {
        let name = format!("{}-{}", self.name, self.kind.kind.to_lowercase());
        let (control, namespace) = (&self.place().control, &self.place().namespace);
        let binding = control.get(BINDINGS, Some(namespace), &name).await;
        binding.unwrap_or_default()
    }

    /// Somebody patches the binding.
    pub async fn patch_binding(&self, patch: Value) {
        let name = format!("{}-{}", self.name, self.kind.kind.to_lowercase());
        let (control, namespace) = (&self.place().control, &self.place().namespace);
        control
            .patch(BINDINGS, Some(namespace), &name, patch)
            .await
            .unwrap();
    }

    pub async fn pin(&self) -> Option<Value> {
        let all = self
            .place()
            .control
            .list(PINS, Some(&self.place().namespace))
            .await;
        all.into_iter()
            .find(|pin| pin["spec"]["resourceSelectors"][0]["name"] == self.name)
    }

    pub async fn patch_pin(&self, patch: Value) -> Result<(), Error> {
        let pin = self.pin().await.expect("there is a pin");
        let name = pin["metadata"]["name"].as_str().unwrap();
        let namespace = self.place().namespace.as_str();
        self.place()
            .control
            .patch(PINS, Some(namespace), name, patch)
            .await
    }

    pub async fn delete_pin(&self) -> Result<(), Error> {
        let pin = self.pin().await.expect("there is a pin");
        let name = pin["metadata"]["name"].as_str().unwrap();
        let namespace = self.place().namespace.as_str();
        self.place().control.delete(PINS, Some(namespace), name).await
    }

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
        assert!(
            binding["spec"]["suspension"]["scheduling"].is_null(),
            "{binding:#}"
        );
        let failover = &self.policy()["spec"]["failover"]["application"]["purgeMode"];
        assert_eq!(
            binding["spec"]["failover"]["application"]["purgeMode"], *failover,
            "failover is as it was"
        );
        assert_eq!(self.pin().await, None, "a pin is left");
        let claims = self.place().control.list(CLAIMS, None).await;
        let ours = claims
            .iter()
            .find(|claim| claim["spec"]["workload"]["name"] == self.name);
        assert_eq!(ours, None, "a claim is left");
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

    /// What the ledger says of this workload.
    pub fn verdict(&self) -> Verdict {
        let all = self.place().ledger.verdict();
        let ours = |name: &str| name == self.name;
        let overlaps = all.overlaps.into_iter().filter(|it| ours(&it.workload.name));
        let overlaps: Vec<_> = overlaps.collect();
        let runs: Vec<Run> = all
            .runs
            .into_iter()
            .filter(|it| ours(&it.workload.name))
            .collect();
        Verdict {
            max_writers_at_once: overlaps
                .iter()
                .map(|overlap| overlap.who.len())
                .max()
                .unwrap_or_else(|| runs.len().min(1)),
            overlaps,
            runs,
            lost_state: all
                .lost_state
                .into_iter()
                .filter(|it| ours(&it.workload.name))
                .collect(),
            gaps: all
                .gaps
                .into_iter()
                .filter(|it| ours(&it.workload.name))
                .collect(),
            max_stateless_at_once: all.max_stateless_at_once,
        }
    }

    /// The run that goes on.
    pub fn running(&self) -> Run {
        let mut runs = self.verdict().runs;
        runs.retain(|run| run.until.is_none());
        assert_eq!(runs.len(), 1, "{}", self.place().ledger);
        runs.remove(0)
    }

    fn api_version(&self) -> String {
        format!("{}/{}", self.kind.group, self.kind.version)
    }
}

/// Where an intent waits, and with what spec.
pub struct Gate {
    phase: Phase,
    to: String,
    spec: Value,
}

pub fn is_terminal(status: &Value) -> bool {
    let phase: Option<Phase> = serde_json::from_value(status["phase"].clone()).ok();
    phase.is_some_and(Phase::is_terminal)
}
