//! A workload of cluster scope: its binding is a `ClusterResourceBinding`, its pin a `ClusterOverridePolicy`.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::{NoFailpoints, install_fence};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{ApiServer, DeleteOptions, ListOptions, Resource, Subresource, WriteOptions};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::fleet::{CLAIMS, Controller, Fleet};

const STREAMS: Resource = Resource::new("example.org", "streams");
const POLICIES: Resource = Resource::new("policy.karmada.io", "clusterpropagationpolicies");
const PINS: Resource = Resource::new("policy.karmada.io", "clusteroverridepolicies");
const BINDINGS: Resource = Resource::new("work.karmada.io", "clusterresourcebindings");
const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");
const SUSPENSIONS: Resource = Resource::new("cutover.dev", "suspensions");
const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const MEMBERS: [&str; 3] = ["east", "west", "north"];

/// A fleet in which the stream `clicks` runs in `east`.
struct Stage {
    fleet: Fleet,
    _operators: JoinSet<()>,
    _controller: Controller,
}

impl Stage {
    async fn start() -> Self {
        let one_of_all = json!({
            "clusterAffinity": {"clusterNames": MEMBERS},
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        });
        Self::placed(one_of_all).await
    }

    async fn placed(placement: Value) -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        fleet.world.control_plane().install(&crd()).unwrap();
        let mut operators = JoinSet::new();
        for name in MEMBERS {
            let api = fleet.world.member(name).api.clone();
            api.install(&crd()).unwrap();
            operators.spawn(operator(api));
        }
        // What doesn't fit when it is first looked at, the scheduler doesn't look at again.
        fleet.until("the members' kinds are known", serve_streams).await;
        fleet.create(&PROFILES, None, profile());
        fleet.create(&POLICIES, None, policy(placement));
        fleet.apply(&STREAMS, stream("clicks:1"));
        let stage = Self {
            _controller: fleet.controller(Arc::new(NoFailpoints)),
            _operators: operators,
            fleet,
        };
        stage
            .until("it runs in east", |stage| stage.runs_in("east"))
            .await;
        stage
    }

    fn copy(&self, cluster: &str) -> Value {
        let member = self.fleet.world.member(cluster);
        let copy = member.api.get(&STREAMS, None, "clicks");
        copy.map(|copy| (*copy).clone()).unwrap_or_default()
    }

    fn runs_in(&self, cluster: &str) -> bool {
        self.copy(cluster)["status"]["phase"] == "Running"
    }

    /// Waits, and looks all the time whether it runs in two clusters.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let looks = |_: &Fleet| {
            let running: Vec<_> = MEMBERS.into_iter().filter(|name| self.runs_in(name)).collect();
            assert!(running.len() <= 1, "it runs in {running:?}");
            holds(self)
        };
        self.fleet.until(what, looks).await;
    }

    async fn migrate(&self, more: Value) -> Phase {
        let mut spec = json!({
            "workload": {"apiVersion": "example.org/v1", "kind": "Stream", "name": "clicks"},
            "to": "west", "verify": {"healthyFor": "2s", "timeout": "60s"},
        });
        let more = more.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(more);
        self.fleet.migrate_with("clicks-to-west", spec);
        let phase = |stage: &Self| -> Option<Phase> {
            let phase = stage.fleet.status("clicks-to-west")["phase"].clone();
            serde_json::from_value(phase)
                .ok()
                .filter(|phase: &Phase| phase.is_terminal())
        };
        self.until("it ends", |stage| phase(stage).is_some()).await;
        phase(self).unwrap()
    }

    async fn moves_to_west(&self) {
        let phase = self.migrate(json!({})).await;
        let status = self.fleet.status("clicks-to-west");
        assert_eq!(phase, Phase::Completed, "{status:#}");
        self.assert_only_in("west");
    }

    /// The status of the suspension, if there is one.
    fn suspended(&self) -> Value {
        let server = self.fleet.world.control_plane();
        let suspension = server.get(&SUSPENSIONS, Some("shop"), "freeze");
        suspension
            .map(|suspension| suspension["status"].clone())
            .unwrap_or_default()
    }

    fn binding(&self) -> Value {
        let server = self.fleet.world.control_plane();
        (*server.get(&BINDINGS, None, "clicks-stream").unwrap()).clone()
    }

    fn assert_only_in(&self, cluster: &str) {
        assert!(self.runs_in(cluster));
        for other in MEMBERS {
            assert!(other == cluster || self.copy(other).is_null(), "{other}");
        }
        let binding = self.binding();
        assert_eq!(binding["spec"]["clusters"], json!([{"name": cluster}]));
        assert!(
            binding["spec"]["suspension"]["scheduling"].is_null(),
            "{binding:#}"
        );
        assert_eq!(self.fleet.count(&PINS) + self.fleet.count(&CLAIMS), 0);
    }
}

fn serve_streams(fleet: &Fleet) -> bool {
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

/// Runs a stream from the position that it is given, and says where it stopped.
async fn operator(api: ApiServer) {
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let Ok(object) = api.get(&STREAMS, None, "clicks") else {
            continue;
        };
        if object["metadata"]["deletionTimestamp"].is_string() {
            continue;
        }
        let mut object = (*object).clone();
        let from: Option<u64> = object["spec"]["from"].as_str().and_then(|from| from.parse().ok());
        let was: Option<u64> = object["status"]["position"]
            .as_str()
            .and_then(|was| was.parse().ok());
        let ran = object["status"]["phase"] == "Running";
        let (phase, position) = if object["spec"]["paused"] == true {
            ("Stopped", was.map(|position| position + u64::from(ran)))
        } else if object["spec"]["image"] == "broken" {
            ("Failed", was)
        } else {
            ("Running", was.or(from).map(|position| position + u64::from(!ran)))
        };
        let generation = object["metadata"]["generation"].clone();
        let position = position.map(|position| position.to_string());
        let status = json!({"phase": phase, "position": position, "observedGeneration": generation});
        if object["status"]["phase"] == status["phase"]
            && object["status"]["observedGeneration"] == status["observedGeneration"]
        {
            continue;
        }
        object["status"] = status;
        // Somebody was faster: looked at again in a moment.
        let options = WriteOptions::manager("operator");
        let _ = api.update(
            &STREAMS,
            None,
            "clicks",
            Some(Subresource::Status),
            object,
            &options,
        );
    }
}

fn crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "streams.example.org"},
        "spec": {
            "group": "example.org", "scope": "Cluster",
            "names": {"kind": "Stream", "plural": "streams", "singular": "stream", "listKind": "StreamList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "image": {"type": "string"}, "paused": {"type": "boolean"}, "from": {"type": "string"},
                    }},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

fn profile() -> Value {
    let seen = "has(object.status) && has(object.status.observedGeneration) && \
                object.status.observedGeneration == object.metadata.generation";
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "WorkloadProfile", "metadata": {"name": "stream"},
        "spec": {
            "appliesTo": {"group": "example.org", "kinds": ["Stream"]},
            "stateful": true, "bornHeld": true,
            "suspend": [{"op": "add", "path": "/spec/paused", "value": true}],
            "hold": [{"op": "add", "path": "/spec/paused", "value": true}],
            "start": [
                {"op": "add", "path": "/spec/paused", "value": false},
                {"op": "add", "path": "/spec/from", "value": "${captured.position}"},
            ],
            "restart": [{"op": "add", "path": "/spec/paused", "value": false}],
            "ignoredOnRemoval": ["/spec/from", "/spec/paused"],
            "observedWhen": seen,
            "suspendedWhen": "has(object.status) && object.status.phase == 'Stopped'",
            "healthyWhen": "has(object.status) && object.status.phase == 'Running'",
            "failedWhen": "has(object.status) && object.status.phase == 'Failed'",
            "ranWhen": "has(object.status) && has(object.status.position) && object.status.position != null",
            "capture": [{"name": "position", "jsonPath": "$.status.position", "required": true}],
        },
    })
}

fn policy(placement: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
        "metadata": {"name": "streams"},
        "spec": {"resourceSelectors": [selector("clicks")], "placement": placement},
    })
}

fn selector(name: &str) -> Value {
    json!({"apiVersion": "example.org/v1", "kind": "Stream", "name": name})
}

fn stream(image: &str) -> Value {
    json!({
        "apiVersion": "example.org/v1", "kind": "Stream", "metadata": {"name": "clicks"},
        "spec": {"image": image, "from": "100"},
    })
}

#[tokio::test(start_paused = true)]
async fn it_moves_with_its_state() {
    let stage = Stage::start().await;
    stage.moves_to_west().await;
    // One in east, one when it stopped there, one in west: from 100 on.
    assert_eq!(stage.copy("west")["status"]["position"], "103");
}

#[tokio::test(start_paused = true)]
async fn it_comes_back_when_it_fails_there() {
    let stage = Stage::start().await;
    let broken = json!([{"op": "add", "path": "/spec/image", "value": "broken"}]);
    let phase = stage.migrate(json!({"changes": {"patches": broken}})).await;
    assert_eq!(phase, Phase::RolledBack);
    stage.assert_only_in("east");
}

#[tokio::test(start_paused = true)]
async fn the_admission_fence_is_tried_and_stands_around_it() {
    let stage = Stage::start().await;
    let cluster = Cluster::from_client(stage.fleet.world.client(), Limits::default());
    let name = cluster.whoami().await.unwrap();
    install_fence(&cluster, &[name]).await.unwrap().unwrap();
    let phase = stage.migrate(json!({})).await;
    let status = stage.fleet.status("clicks-to-west");
    assert_eq!(phase, Phase::Completed, "{status:#}");
    let mut conditions = status["conditions"].as_array().unwrap().iter();
    let fence = conditions
        .find(|condition| condition["type"] == "AdmissionFence")
        .unwrap();
    assert_eq!(
        (&fence["status"], &fence["reason"]),
        (&json!("True"), &json!("Stands")),
        "{fence}"
    );
    stage.assert_only_in("west");
}

#[tokio::test(start_paused = true)]
async fn of_several_groups_of_affinities_the_scheduler_stays_with_that_of_the_target() {
    let group = |name: &str, cluster: &str| json!({"affinityName": name, "clusterNames": [cluster]});
    let groups = json!({"clusterAffinities": [group("here", "east"), group("there", "west")]});
    let stage = Stage::placed(groups).await;
    stage.moves_to_west().await;
    assert_eq!(
        stage.binding()["status"]["schedulerObservingAffinityName"],
        "there"
    );
}

#[tokio::test(start_paused = true)]
async fn it_is_suspended_with_its_policy_and_alone_by_a_pin() {
    let stage = Stage::start().await;
    let image = || stage.copy("east")["spec"]["image"].clone();
    let policy = json!({"policy": {"kind": "ClusterPropagationPolicy", "name": "streams"}});
    for (number, target, pins) in [(2, policy, 0), (3, json!({"workload": selector("clicks")}), 1)] {
        let before = image();
        stage.fleet.apply(&SUSPENSIONS, suspension(target));
        stage
            .until("it is suspended", |stage| {
                stage.suspended()["phase"] == "Suspended"
            })
            .await;
        assert_eq!(stage.fleet.count(&PINS), pins);
        stage.fleet.apply(&STREAMS, stream(&format!("clicks:{number}")));
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(image(), before);
        let server = stage.fleet.world.control_plane();
        server
            .delete(&SUSPENSIONS, Some("shop"), "freeze", &DeleteOptions::default())
            .unwrap();
        stage
            .until("what has waited goes out", |stage| {
                stage.suspended().is_null() && image() == format!("clicks:{number}")
            })
            .await;
        assert_eq!(stage.fleet.count(&PINS) + stage.fleet.count(&CLAIMS), 0);
    }
}

fn suspension(target: Value) -> Value {
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Suspension",
        "metadata": {"name": "freeze", "namespace": "shop"},
        "spec": {"target": target, "reason": "an audit"},
    })
}
