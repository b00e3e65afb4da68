//! A member cluster with the operator of a stateful workload: what the profile `flink` speaks of. The operator acts on what it
//! has read, which may be older than what is there; pods end after the operator has said that they shall.

use cutover_core::intent::world::Pod;
use cutover_karmada::name::ClusterName;
use serde_json::{Value, json};

use crate::ledger::{Copy, Ledger, Origin};

/// What the operator leaves where it could make no savepoint.
const LAST_STATE: &str = "KUBERNETES_OPERATOR_LAST_STATE";

/// One member cluster.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: ClusterName,
    pub object: Option<Value>,
    pub pods: Vec<Pod>,
    /// The object as the operator has read it.
    cached: Option<Value>,
    /// Whether anybody reaches it: the proxy, Karmada, the operator that is within it always does.
    pub reachable: bool,
    /// The operator stands still.
    pub frozen: bool,
    /// The operator can make no savepoint.
    pub falls_back: bool,
    made: u32,
}

impl Member {
    pub fn new(name: &str) -> Self {
        Self {
            name: ClusterName::new(name),
            object: None,
            pods: Vec::new(),
            cached: None,
            reachable: true,
            frozen: false,
            falls_back: false,
            made: 0,
        }
    }

    /// Returns which copy it is that is there.
    pub fn copy(&self) -> Option<Copy> {
        let uid = text(self.object.as_ref()?, "/metadata/uid")?;
        Some((self.name.clone(), uid.to_owned()))
    }

    /// Karmada writes the object as a Work has it: spec, labels and annotations are the Work's, everything else stays.
    pub fn apply(&mut self, manifest: &Value) -> bool {
        let Some(object) = &mut self.object else {
            self.made += 1;
            let mut object = manifest.clone();
            object["metadata"]["uid"] = format!("{}-{}", self.name, self.made).into();
            object["metadata"]["generation"] = 1.into();
            self.object = Some(object);
            return true;
        };
        let before = object.clone();
        if object["spec"] != manifest["spec"] {
            object["spec"] = manifest["spec"].clone();
            object["metadata"]["generation"] = (generation(&before) + 1).into();
        }
        for map in ["labels", "annotations"] {
            object["metadata"][map] = manifest["metadata"][map].clone();
        }
        *object != before
    }

    /// The object goes, and what it ran.
    pub fn delete(&mut self, ledger: &mut Ledger) {
        if let Some(copy) = self.copy() {
            ledger.gone(&copy);
        }
        self.object = None;
        self.pods.clear();
    }

    /// The operator reads the object.
    pub fn read(&mut self) -> bool {
        if self.frozen || self.cached == self.object {
            return false;
        }
        self.cached.clone_from(&self.object);
        true
    }

    /// The operator acts on what it has read last.
    pub fn operate(&mut self, ledger: &mut Ledger) -> bool {
        if self.frozen {
            return false;
        }
        let (Some(seen), Some(copy)) = (self.cached.clone(), self.copy()) else {
            return false;
        };
        // Of an object that was made anew it knows nothing yet.
        if text(&seen, "/metadata/uid") != Some(&copy.1) {
            return false;
        }
        let wants = text(&seen, "/spec/job/state").unwrap_or("running").to_owned();
        let runs = ledger.is_running(&self.name);
        let status = self.object.as_ref().map(|object| object["status"].clone());
        let before = status.unwrap_or_default();
        let mut status = before.clone();
        match (wants.as_str(), runs) {
            ("suspended", true) => self.stop(&seen, &copy, &mut status, ledger),
            ("suspended", false) if status.is_null() => {}
            ("running", false) => self.start(&seen, &copy, &mut status, ledger),
            _ => {}
        }
        if !status.is_null() {
            status["observedGeneration"] = generation(&seen).into();
            status["reconciliationStatus"]["lastReconciledSpec"] =
                json!({"spec": seen["spec"]}).to_string().into();
        }
        if let Some(object) = self.object.as_mut().filter(|_| status != before) {
            object["status"] = status;
            return true;
        }
        false
    }

    fn start(&mut self, seen: &Value, copy: &Copy, status: &mut Value, ledger: &mut Ledger) {
        let left = text(status, "/jobStatus/upgradeSavepointPath").map(str::to_owned);
        let nonce = &seen["spec"]["job"]["savepointRedeployNonce"];
        let is_told = !nonce.is_null() && *nonce != status["nonce"];
        let given = text(seen, "/spec/job/initialSavepointPath").map(str::to_owned);
        let origin = match left {
            Some(path) if !is_told && path == LAST_STATE => Origin::Own,
            Some(path) if !is_told => Origin::Handle(path),
            _ => given.clone().map_or(Origin::Nothing, Origin::Handle),
        };
        ledger.start(copy, &origin);
        let started = ledger.runs;
        let path = match &origin {
            Origin::Handle(path) => json!(path),
            Origin::Own => json!(LAST_STATE),
            Origin::Nothing => Value::Null,
        };
        *status = json!({
            "jobStatus": {
                "state": "RUNNING", "startTime": started.to_string(), "jobId": format!("job-{started}"),
                "upgradeSavepointPath": path,
            },
            "jobManagerDeploymentStatus": "READY", "reconciliationStatus": {"state": "DEPLOYED"}, "nonce": nonce,
        });
        self.pods = vec![Pod {
            name: format!("orders-{started}"),
            node: Some(format!("{}-node", self.name)),
            uid: format!("pod-{started}"),
            is_ready: true,
            began: true,
            restarts: 0,
            labels: [("component".to_owned(), "jobmanager".to_owned())].into(),
            trouble: None,
        }];
    }

    fn stop(&mut self, seen: &Value, copy: &Copy, status: &mut Value, ledger: &mut Ledger) {
        let saves = text(seen, "/spec/job/upgradeMode") == Some("savepoint") && !self.falls_back;
        let handle = saves.then(|| format!("s3://savepoints/{}-{}", self.name, ledger.runs));
        ledger.stop(copy, handle.as_deref());
        status["jobStatus"]["state"] = "FINISHED".into();
        status["jobStatus"]["upgradeSavepointPath"] = handle.unwrap_or_else(|| LAST_STATE.to_owned()).into();
        status["jobManagerDeploymentStatus"] = "MISSING".into();
    }

    /// What the operator has stopped ends.
    pub fn kubelet(&mut self, ledger: &Ledger) -> bool {
        let ends = !self.pods.is_empty() && !ledger.is_running(&self.name);
        if ends {
            self.pods.clear();
        }
        ends
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}
