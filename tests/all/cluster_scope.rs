//! A workload of cluster scope: its binding is a `ClusterResourceBinding`, its pin a `ClusterOverridePolicy`.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::{NoFailpoints, install_fence};
use cutover::sandbox::api::{DeleteOptions, Resource};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::cluster_kind::{ClusterKind, MEMBERS, PINS, POLICIES, one_of_all};
use crate::support::fleet::{CLAIMS, Controller, Fleet};

const STREAMS: Resource = Resource::new("example.org", "streams");
const BINDINGS: Resource = Resource::new("work.karmada.io", "clusterresourcebindings");
const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");
const SUSPENSIONS: Resource = Resource::new("cutover.dev", "suspensions");

static STREAM: ClusterKind = ClusterKind {
    kind: "Stream",
    resource: STREAMS,
    name: "clicks",
    fields: &[("image", "string"), ("paused", "boolean"), ("from", "string")],
};

/// A fleet in which the stream `clicks` runs in `east`.
struct Stage {
    fleet: Fleet,
    _operators: JoinSet<()>,
    _controller: Controller,
}

impl Stage {
    async fn start() -> Self {
        Self::placed(one_of_all()).await
    }

    async fn placed(placement: Value) -> Self {
        let (fleet, operators) = STREAM.start(looked_at).await;
        fleet.create(&PROFILES, None, profile());
        fleet.create(&POLICIES, None, STREAM.policy(placement));
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
        STREAM.copy(&self.fleet, cluster)
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
        STREAM.migrate(&self.fleet, "clicks-to-west", more);
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

/// Runs a stream from the position that it is given, and says where it stopped.
fn looked_at(spec: &Value, was: &Value) -> Value {
    let number = |text: &Value| text.as_str().and_then(|text| text.parse::<u64>().ok());
    let (from, position) = (number(&spec["from"]), number(&was["position"]));
    let ran = was["phase"] == "Running";
    let (phase, position) = if spec["paused"] == true {
        ("Stopped", position.map(|position| position + u64::from(ran)))
    } else if spec["image"] == "broken" {
        ("Failed", position)
    } else {
        let begun = position.or(from);
        ("Running", begun.map(|position| position + u64::from(!ran)))
    };
    json!({"phase": phase, "position": position.map(|position| position.to_string())})
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
    let steps = status["steps"].to_string();
    let fence = "admission policies refuse what would move the workload";
    assert!(steps.contains(fence), "{steps}");
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
    for (number, target, pins) in [(2, policy, 0), (3, json!({"workload": STREAM.selector()}), 1)] {
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
