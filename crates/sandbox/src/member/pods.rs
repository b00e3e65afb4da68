//! Shows simulated pods, and the node they run on, to an API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Context;
use crate::clock::seconds;
use cutover_karmada::name::ClusterName;

/// How far a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// `Pending`, with what its container waits for.
    Waiting { reason: &'static str, message: String },
    /// `Running` and ready.
    Running,
    /// Its container has ended.
    Ended { well: bool },
}

impl PodPhase {
    pub fn starting() -> Self {
        Self::Waiting {
            reason: "ContainerCreating",
            message: String::new(),
        }
    }
}

/// A pod as it is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    pub namespace: String,
    pub name: String,
    pub labels: Vec<(String, String)>,
    pub container: String,
    pub image: String,
    pub restarts: u32,
    pub phase: PodPhase,
}

/// Keeps the pods of one simulator in an API server like the pods it has.
#[derive(Default)]
pub struct Shown(BTreeMap<(String, String), PodView>);

impl Shown {
    /// Creates, updates and deletes pods until the API server shows these; returns whether it does.
    pub async fn show(&mut self, client: &Client, context: &Context, pods: Vec<PodView>) -> bool {
        let wanted: BTreeMap<_, _> = pods
            .into_iter()
            .map(|pod| ((pod.namespace.clone(), pod.name.clone()), pod))
            .collect();
        let gone: Vec<_> = self
            .0
            .keys()
            .filter(|key| !wanted.contains_key(*key))
            .cloned()
            .collect();
        let mut complete = true;
        for key in gone {
            let api: Api<Pod> = Api::namespaced(client.clone(), &key.0);
            match api.delete(&key.1, &DeleteParams::default().grace_period(0)).await {
                Ok(_) => drop(self.0.remove(&key)),
                Err(Error::Api(status)) if status.is_not_found() => drop(self.0.remove(&key)),
                Err(error) => complete = failed(&error),
            }
        }
        for (key, pod) in wanted {
            if self.0.get(&key) == Some(&pod) {
                continue;
            }
            match write(client, context, &pod, !self.0.contains_key(&key)).await {
                Ok(()) => drop(self.0.insert(key, pod)),
                Err(error) => complete = failed(&error),
            }
        }
        complete
    }
}

fn failed(error: &Error) -> bool {
    tracing::debug!(%error, "pods can't be shown");
    false
}

async fn write(client: &Client, context: &Context, pod: &PodView, is_new: bool) -> Result<(), Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    if is_new {
        create(&api, manifest(context, pod)).await?;
    }
    if let PodPhase::Waiting { reason, message } = &pod.phase
        && !message.is_empty()
    {
        let events = Api::<Event>::namespaced(client.clone(), &pod.namespace);
        create(&events, warning(pod, reason, message, context.clock.now())).await?;
    }
    let status = json!({"status": status(pod, context.clock.now())});
    api.patch_status(&pod.name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .map(drop)
}

/// Creates an object; one that exists already is as good.
async fn create<K>(api: &Api<K>, manifest: Value) -> Result<(), Error>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    let object = serde_json::from_value(manifest).map_err(Error::SerdeError)?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(()),
        Err(Error::Api(status)) if status.is_already_exists() => Ok(()),
        Err(error) => Err(error),
    }
}

/// What a kubelet tells of a pod that doesn't start.
fn warning(pod: &PodView, reason: &str, message: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": pod.namespace, "name": format!("{}.{}", pod.name, reason.to_lowercase())},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name},
        "type": "Warning",
        "reason": "Failed",
        "message": format!("{message}: the registry has no such image"),
        "source": {"component": "kubelet", "host": ""},
        "firstTimestamp": seconds(now),
        "lastTimestamp": seconds(now),
        "count": 1,
    })
}

fn manifest(context: &Context, pod: &PodView) -> Value {
    let labels: BTreeMap<_, _> = pod.labels.iter().cloned().collect();
    let mut spec = json!({"containers": [{"name": pod.container, "image": pod.image}]});
    if context.scope.has_nodes {
        // Nobody's: no scheduler puts it on a node, where a kubelet would run it.
        spec["schedulerName"] = json!("simulated");
    } else {
        spec["nodeName"] = json!(node_name(&context.cluster));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": pod.namespace, "name": pod.name, "labels": labels},
        "spec": spec,
    })
}

fn status(pod: &PodView, now: Timestamp) -> Value {
    let container = |ready: bool, state: Value| {
        json!([{
            "name": pod.container, "image": pod.image, "imageID": "", "restartCount": pod.restarts, "ready": ready, "state": state,
        }])
    };
    let condition = |ready: &str| json!([{"type": "Ready", "status": ready}]);
    match &pod.phase {
        PodPhase::Waiting { reason, message } => json!({
            "phase": "Pending",
            "conditions": condition("False"),
            "containerStatuses": container(false, json!({"waiting": {"reason": reason, "message": message}})),
        }),
        PodPhase::Ended { well } => json!({
            "phase": if *well { "Succeeded" } else { "Failed" },
            "conditions": condition("False"),
            "containerStatuses": container(false, json!({
                "running": null, "waiting": null,
                "terminated": {"exitCode": i32::from(!*well), "reason": if *well { "Completed" } else { "Error" }},
            })),
        }),
        PodPhase::Running => json!({
            "phase": "Running",
            "conditions": condition("True"),
            "containerStatuses": container(true, json!({"running": {"startedAt": seconds(now)}, "waiting": null})),
        }),
    }
}

/// Returns the name of the node that a member without any is given.
pub fn node_name(cluster: &ClusterName) -> String {
    format!("{cluster}-node-1")
}

/// Keeps trying until the member has a node that is ready.
pub async fn announce_node(client: Client, context: Arc<Context>) {
    let api: Api<Node> = Api::all(client);
    let name = node_name(&context.cluster);
    let amounts = json!({"cpu": "64", "memory": "256Gi", "pods": "500"});
    let manifest = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
    });
    let now = seconds(context.clock.now());
    let status = json!({"status": {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
    }});
    loop {
        let announced = async {
            create(&api, manifest.clone()).await?;
            api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
                .await
        };
        match announced.await {
            Ok(_) => return,
            Err(error) => tracing::debug!(%error, "the node can't be announced"),
        }
        tokio::time::sleep(context.timings.retry).await;
    }
}
