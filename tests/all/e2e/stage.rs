//! A repository, the program as a process at work on it, and one scenario's workload in it.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use futures::future::join_all;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::place::{Place, say, until_or_not};
use super::server::{BINDINGS, CONFIG_MAPS, DEPLOYMENTS, INTENTS, JOBS, PODS};
use crate::support::git::Origin;

pub struct Stage {
    pub place: Place,
    pub origin: Origin,
    dir: TempDir,
    reconciler: Mutex<Option<Process>>,
}

impl Stage {
    pub fn set(place: Place) -> Self {
        let config = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Config", "interval": "1s",
            "syncs": [{
                "name": place.namespace, "path": "fleet", "prune": true, "pruneLimit": {"objects": 1000},
                "gate": {
                    "migrations": {"verify": {"healthyFor": "2s"}},
                    // Without Deletion: for that, Clusters would stay labelled when all is over.
                    "evacuations": {
                        "mode": "Auto", "causes": ["NoExecute"], "select": {"namespaces": [place.namespace]},
                        "verify": {"healthyFor": "1s", "timeout": "60s"},
                    },
                },
            }],
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
            .arg(if recorded().is_some() { "-vv" } else { "-v" })
            .args(["run", "--lease-duration", "3s", "--repo"])
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

    /// Runs a command in a fresh clone, as a person would.
    pub fn cutover(&self, arguments: &[&str]) {
        let clone = tempfile::tempdir().unwrap();
        let cloned = Command::new("git")
            .args(["clone", "--quiet", "--branch", "main"])
            .arg(self.origin.path())
            .arg(clone.path())
            .output()
            .unwrap();
        assert!(
            cloned.status.success(),
            "{}",
            String::from_utf8_lossy(&cloned.stderr)
        );
        let ran = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(arguments)
            .arg("--kubeconfig")
            .arg(&self.place.control.kubeconfig)
            .current_dir(clone.path())
            .env_remove("KUBECONFIG")
            .env("GIT_AUTHOR_NAME", "e2e")
            .env("GIT_AUTHOR_EMAIL", "e2e@example.org")
            .env("GIT_COMMITTER_NAME", "e2e")
            .env("GIT_COMMITTER_EMAIL", "e2e@example.org")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    /// Git has nothing any more, the program ends in order, the place is cleared. Returns what is left, and the program's log.
    pub async fn strike(self) -> (Vec<String>, String) {
        // A folder that isn't there any more is taken for a mistake.
        let kept = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "kept", "namespace": self.place.namespace},
        });
        self.origin.commit("main", &[("fleet", "")]);
        self.origin
            .commit("main", &[("fleet/kept.yaml", &kept.to_string())]);
        // What is deleted before it has been read that Git has nothing any more is put back.
        let control = &self.place.control;
        let namespace = Some(self.place.namespace.as_str());
        until_or_not(async || control.get(CONFIG_MAPS, namespace, "kept").await.is_some()).await;
        let mut left = until_none_is_left(async || self.not_pruned().await, "is not pruned").await;
        // Karmada deletes the copies after that. Their namespace goes last: its deletion would take the pods, and nobody is there
        // to end them gracefully.
        left.extend(until_none_is_left(async || self.copies().await, "is left in a member").await);
        self.end().await;
        let said = self.said();
        left.extend(self.place.clear().await);
        (left, said)
    }

    /// Returns what is still there of what Git had.
    async fn not_pruned(&self) -> Vec<String> {
        let control = &self.place.control;
        let namespace = Some(self.place.namespace.as_str());
        // What has state a push alone doesn't delete: a person does.
        for job in control.list(JOBS, namespace).await {
            let name = job["metadata"]["name"].as_str().unwrap();
            control.delete(JOBS, namespace, name).await.unwrap();
        }
        let own = [JOBS, PODS, DEPLOYMENTS, BINDINGS].map(|kind| control.list(kind, namespace));
        let intents = INTENTS.map(|kind| control.list(kind, None));
        let (own, intents) = (join_all(own).await, join_all(intents).await);
        own.iter().chain(&intents).flatten().map(named).collect()
    }

    /// Returns the copies in members.
    async fn copies(&self) -> Vec<String> {
        let members = self.place.members.values();
        let copies = members.flat_map(|member| {
            let namespace = Some(self.place.namespace.as_str());
            [JOBS, DEPLOYMENTS, PODS].map(|kind| member.server.list(kind, namespace))
        });
        join_all(copies).await.iter().flatten().map(named).collect()
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

/// Waits until `find` finds nothing. Returns what it found last, and that it `is` still there.
async fn until_none_is_left(mut find: impl AsyncFnMut() -> Vec<String>, is: &str) -> Vec<String> {
    let mut left = Vec::new();
    until_or_not(async || {
        left = find().await;
        left.is_empty()
    })
    .await;
    left.into_iter()
        .map(|object| format!("{object} {is}"))
        .inspect(|line| say(line))
        .collect()
}

fn named(object: &Value) -> String {
    let (kind, metadata) = (&object["kind"], &object["metadata"]);
    let status = serde_json::to_string(&object["status"]).unwrap();
    let status: String = status.chars().take(2000).collect();
    format!(
        "{} {}/{} (deletionTimestamp {}, finalizers {}, status {status})",
        kind.as_str().unwrap_or_default(),
        metadata["namespace"].as_str().unwrap_or_default(),
        metadata["name"].as_str().unwrap_or_default(),
        metadata["deletionTimestamp"],
        metadata["finalizers"],
    )
}

/// Returns where what the program has sent is to be written down, if it is.
pub fn recorded() -> Option<String> {
    std::env::var("CUTOVER_E2E_RECORD").ok()
}

/// Dropped, it is killed.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
