//! Workloads of other kinds than Flink's: moved by the profiles that come with the tool.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, Patch, Resource, Subresource, WriteOptions};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, CLAIMS, Controller, Fleet, MIGRATIONS, PINS, POLICIES};

const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");

/// A fleet in which a Deployment of two replicas runs in `east`.
struct Stage {
    fleet: Fleet,
    _controller: Controller,
}

impl Stage {
    async fn start(placement: Value, template: Value) -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        fleet.apply(&POLICIES, policy(placement));
        fleet.apply(&DEPLOYMENTS, template);
        let controller = fleet.controller(Arc::new(NoFailpoints));
        let stage = Self {
            fleet,
            _controller: controller,
        };
        stage
            .fleet
            .until("web runs in east", |_| stage.available_in("east") == 2)
            .await;
        stage
    }

    fn copy(&self, cluster: &str) -> Option<Value> {
        let member = self.fleet.world.member(cluster);
        let copy = member.api.get(&DEPLOYMENTS, Some("shop"), "web").ok()?;
        Some((*copy).clone())
    }

    fn available_in(&self, cluster: &str) -> u64 {
        let copy = self.copy(cluster).unwrap_or_default();
        copy["status"]["availableReplicas"].as_u64().unwrap_or_default()
    }

    fn migrate(&self, more: Value) {
        let mut spec = json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "to": "west", "verify": {"healthyFor": "2s", "timeout": "60s"},
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.fleet.migrate_with("web-to-west", spec);
    }

    async fn ends_as(&self, phase: Phase) -> Value {
        let ended = self.fleet.ended("web-to-west").await;
        let status = self.fleet.status("web-to-west");
        assert_eq!(ended, phase, "{status:#}");
        status
    }

    fn assert_only_in(&self, cluster: &str) {
        assert_eq!(self.available_in(cluster), 2);
        for other in ["east", "west", "north"] {
            assert!(
                other == cluster || self.copy(other).is_none(),
                "a copy is left in {other}"
            );
        }
        assert_eq!(self.fleet.count(&PINS) + self.fleet.count(&CLAIMS), 0);
        let server = self.fleet.world.control_plane();
        let binding = server.get(&BINDINGS, Some("shop"), "web-deployment").unwrap();
        assert_eq!(
            binding["spec"]["clusters"],
            json!([{"name": cluster, "replicas": 2}])
        );
        assert!(binding["spec"]["suspension"]["scheduling"].is_null());
        self.fleet.assert_one_writer();
    }
}

fn policy(placement: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}],
            "placement": placement,
        },
    })
}

fn one_of_all() -> Value {
    json!({
        "clusterAffinity": {"clusterNames": ["east", "west", "north"]},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    })
}

fn web(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    })
}

#[tokio::test(start_paused = true)]
async fn a_deployment_stops_here_before_it_starts_there() {
    let stage = Stage::start(one_of_all(), web("web:1")).await;
    stage.migrate(json!({}));
    let status = stage.ends_as(Phase::Completed).await;
    stage.assert_only_in("west");
    let downtime = status["downtimeMs"].as_u64().unwrap();
    assert!(downtime > 0, "{status:#}");
    assert_eq!(status["downtime"], cutover::units::milliseconds(downtime));
}

#[tokio::test(start_paused = true)]
async fn a_deployment_can_start_there_before_it_stops_here() {
    let stage = Stage::start(one_of_all(), web("web:1")).await;
    stage.migrate(json!({"strategy": "StartFirst"}));
    stage
        .fleet
        .until("it leaves east", |_| {
            let (here, there) = (stage.available_in("east"), stage.available_in("west"));
            assert!(
                here + there >= 2,
                "only {here} and {there} replicas are available"
            );
            stage.copy("east").is_none()
        })
        .await;
    stage.ends_as(Phase::Completed).await;
    stage.assert_only_in("west");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_start_there_leaves_what_runs_here_alone() {
    let stage = Stage::start(one_of_all(), web("web:1")).await;
    let patch =
        json!([{"op": "add", "path": "/spec/template/spec/containers/0/image", "value": "web:broken"}]);
    stage.migrate(json!({"strategy": "StartFirst", "changes": {"patches": patch}}));
    stage
        .fleet
        .until("it is rolled back", |_| {
            assert_eq!(stage.available_in("east"), 2);
            let phase = &stage.fleet.status("web-to-west")["phase"];
            phase == "RolledBack"
        })
        .await;
    stage.assert_only_in("east");
}

#[tokio::test(start_paused = true)]
async fn patches_of_an_intent_go_along_and_into_a_template_that_is_not_in_git() {
    let stage = Stage::start(one_of_all(), web("web:1")).await;
    let patch = json!([{"op": "add", "path": "/spec/template/spec/containers/0/image", "value": "web:2"}]);
    stage.migrate(json!({"changes": {"patches": patch}}));
    stage.ends_as(Phase::Completed).await;
    stage.assert_only_in("west");
    let template = stage
        .fleet
        .world
        .control_plane()
        .get(&DEPLOYMENTS, Some("shop"), "web")
        .unwrap();
    let image = "/spec/template/spec/containers/0/image";
    assert_eq!(template.pointer(image), Some(&json!("web:2")));
    assert_eq!(stage.copy("west").unwrap().pointer(image), Some(&json!("web:2")));
}

#[tokio::test(start_paused = true)]
async fn patches_of_an_intent_are_refused_for_a_template_that_is_in_git() {
    let stage = Stage::start(one_of_all(), web("web:1")).await;
    stage.fleet.want(web("web:1"));
    let patch = json!([{"op": "add", "path": "/spec/replicas", "value": 3}]);
    stage.migrate(json!({"changes": {"patches": patch}}));
    let status = stage.ends_as(Phase::Failed).await;
    assert_eq!(status["findings"][0]["code"], "TemplateInGit");
    stage.assert_only_in("east");
}

#[tokio::test(start_paused = true)]
async fn what_is_on_a_volume_is_not_left_behind_in_silence() {
    let mut template = web("web:1");
    template["spec"]["template"]["spec"]["volumes"] =
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "web"}}]);
    let stage = Stage::start(one_of_all(), template).await;
    stage.migrate(json!({}));
    let status = stage.ends_as(Phase::Failed).await;
    assert_eq!(status["findings"][0]["code"], "NotMovable");
    stage.assert_only_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_workload_with_state_never_starts_there_first() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with("orders-to-west", json!({"to": "west", "strategy": "StartFirst"}));
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Failed);
    let status = fleet.status("orders-to-west");
    assert_eq!(status["findings"][0]["code"], "StatefulNeedsStopFirst");
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn of_several_groups_of_affinities_the_scheduler_stays_with_that_of_the_target() {
    let groups = json!({
        "clusterAffinities": [
            {"affinityName": "here", "clusterNames": ["east"]},
            {"affinityName": "there", "clusterNames": ["west"]},
        ],
    });
    let stage = Stage::start(groups, web("web:1")).await;
    stage.migrate(json!({}));
    stage.ends_as(Phase::Completed).await;
    stage.assert_only_in("west");
    // The scheduler looks at it again, and stays.
    let mut scaled = web("web:1");
    scaled["spec"]["replicas"] = json!(3);
    stage.fleet.apply(&DEPLOYMENTS, scaled);
    stage
        .fleet
        .until("it is scaled in west", |_| stage.available_in("west") == 3)
        .await;
    assert!(stage.copy("east").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_hold_keeps_the_migration_from_its_commit_point() {
    let stage = Stage::start(one_of_all(), web("web:1")).await;
    let checks = json!([{"cel": "object.metadata.labels['checked'] == 'yes'"}]);
    stage.migrate(json!({"verify": {"healthyFor": "2s", "timeout": "20s", "checks": checks}}));
    stage.ends_as(Phase::RolledBack).await;
    stage.assert_only_in("east");
    let status = stage.fleet.status("web-to-west");
    let reason = status["journal"]["rollBack"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("object.metadata.labels['checked'] == 'yes' to hold"),
        "{reason}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_migration_begins_when_its_window_opens() {
    let stage = Stage::start(one_of_all(), web("web:1")).await;
    let opens = stage.fleet.world.clock().now() + Duration::from_mins(10);
    stage.migrate(json!({"window": {"notBefore": opens.to_string()}}));
    stage
        .fleet
        .until("it waits", |fleet| {
            fleet.status("web-to-west")["waitingFor"]["until"] == opens.to_string()
        })
        .await;
    stage.ends_as(Phase::Completed).await;
    let status = stage.fleet.status("web-to-west");
    let preflight: jiff::Timestamp = status["steps"][1]["startedAt"].as_str().unwrap().parse().unwrap();
    assert!(
        preflight >= opens && preflight < opens + Duration::from_secs(1),
        "{preflight}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_would_insert_again_each_time_is_refused() {
    let stage = Stage::start(one_of_all(), web("web:1")).await;
    let sidecar = json!({"name": "sidecar", "image": "sidecar:1"});
    let patch = json!([
        {"op": "add", "path": "/spec/template/spec/containers/-", "value": sidecar},
        {"op": "add", "path": "/spec/template/spec/securityContext/x/y", "value": 1},
    ]);
    stage.migrate(json!({"changes": {"patches": patch}}));
    let status = stage.ends_as(Phase::Failed).await;
    let codes: Vec<_> = status["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes, ["NoPlaceForPatch", "InsertsIntoList"]);
    stage.assert_only_in("east");
}

pub(crate) const SCALED_OBJECTS: Resource = Resource::new("keda.sh", "scaledobjects");

/// What an autoscaler installs, as far as anybody here looks at it.
pub(crate) fn scaler(group: &str, kind: &str) -> Value {
    let singular = kind.to_lowercase();
    let plural = format!("{singular}s");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

fn scaled_object(annotations: Value) -> Value {
    json!({
        "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"scaleTargetRef": {"name": "web"}, "minReplicaCount": 1, "triggers": []},
    })
}

impl Stage {
    async fn with_keda() -> Self {
        let stage = Self::start(one_of_all(), web("web:1")).await;
        let keda = scaler("keda.sh", "ScaledObject");
        stage.fleet.world.control_plane().install(&keda).unwrap();
        for member in stage.fleet.world.members() {
            member.api.install(&keda).unwrap();
        }
        stage
    }

    fn scale_in(&self, cluster: &str, scaler: Value) {
        let writer = WriteOptions::manager("somebody");
        let server = &self.fleet.world.member(cluster).api;
        server
            .create(&SCALED_OBJECTS, Some("shop"), scaler, &writer)
            .unwrap();
    }

    fn do_not_scale_in(&self, cluster: &str) {
        let server = &self.fleet.world.member(cluster).api;
        server
            .delete(&SCALED_OBJECTS, Some("shop"), "web", &DeleteOptions::default())
            .unwrap();
    }

    /// KEDA says that it has heard of the annotation.
    fn say_paused_in(&self, cluster: &str) {
        let paused = json!({"status": {"conditions": [{"type": "Paused", "status": "True"}]}});
        let server = &self.fleet.world.member(cluster).api;
        let writer = WriteOptions::manager("keda");
        let patch = Patch::Merge(paused);
        server
            .patch(
                &SCALED_OBJECTS,
                Some("shop"),
                "web",
                Some(Subresource::Status),
                &patch,
                &writer,
            )
            .unwrap();
    }
}

/// Karmada's own set the replicas of the template, which the pin is above.
#[tokio::test(start_paused = true)]
async fn what_karmada_scales_moves_and_is_held_beside_it() {
    for (kind, plural) in [
        ("FederatedHPA", "federatedhpas"),
        ("CronFederatedHPA", "cronfederatedhpas"),
    ] {
        let stage = Stage::start(one_of_all(), web("web:1")).await;
        let group = "autoscaling.karmada.io";
        let server = stage.fleet.world.control_plane();
        server.install(&scaler(group, kind)).unwrap();
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        let scaler = json!({
            "apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": kind,
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": target, "minReplicas": 0, "maxReplicas": 5},
        });
        stage.fleet.apply(&Resource::new(group, plural), scaler);
        stage.migrate(json!({}));
        stage.ends_as(Phase::Completed).await;
        stage.assert_only_in("west");
    }
}

#[tokio::test(start_paused = true)]
async fn what_keda_scales_from_zero_is_not_held_beside_it() {
    for place in ["west", "east", "here"] {
        let stage = Stage::with_keda().await;
        if place == "here" {
            stage.fleet.apply(&SCALED_OBJECTS, scaled_object(json!({})));
        } else {
            stage.scale_in(place, scaled_object(json!({})));
        }
        stage.migrate(json!({}));
        let status = stage.ends_as(Phase::Failed).await;
        let finding = &status["findings"][0];
        assert_eq!(finding["code"], "ScaledFromZero", "{status:#}");
        let message = finding["message"].as_str().unwrap();
        let named = match place {
            "here" => "ScaledObject web scales".to_owned(),
            cluster => format!("ScaledObject web in {cluster} scales"),
        };
        assert!(message.starts_with(&named), "{message}");
        stage.assert_only_in("east");
    }
}

#[tokio::test(start_paused = true)]
async fn what_keda_scales_moves_when_keda_says_that_it_is_paused() {
    let stage = Stage::with_keda().await;
    stage.scale_in(
        "east",
        scaled_object(json!({"autoscaling.keda.sh/paused": "true"})),
    );
    stage.say_paused_in("east");
    stage.migrate(json!({}));
    stage.ends_as(Phase::Completed).await;
    stage.assert_only_in("west");
}

#[tokio::test(start_paused = true)]
async fn what_is_scaled_from_zero_may_start_there_before_it_stops_here() {
    let stage = Stage::with_keda().await;
    stage.scale_in("west", scaled_object(json!({})));
    stage.migrate(json!({"strategy": "StartFirst"}));
    stage.ends_as(Phase::Completed).await;
    stage.assert_only_in("west");
}

#[tokio::test(start_paused = true)]
async fn the_source_is_not_stopped_beside_a_scaler_that_comes_later() {
    let stage = Stage::with_keda().await;
    let gate = json!({"before": ["Capture"]});
    stage.migrate(json!({"approval": gate}));
    let waits_for = |text: &'static str| {
        let stage = &stage;
        let waits = move |fleet: &Fleet| {
            let status = fleet.status("web-to-west");
            let reason = status["waitingFor"]["reason"].as_str().unwrap_or_default();
            reason.contains(text)
        };
        async move { stage.fleet.until(text, waits).await }
    };
    waits_for("approval of Capture").await;
    stage.scale_in("west", scaled_object(json!({})));
    waits_for("autoscalers to let go of what is held: ScaledObject web in west").await;
    let approvals = json!([{"phase": "Capture", "attempt": 1}]);
    let spec = json!({"spec": {"approvals": approvals}});
    stage.fleet.patch(&MIGRATIONS, "web-to-west", spec);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let status = stage.fleet.status("web-to-west");
    assert_eq!(status["phase"], "Expand", "{status:#}");
    assert_eq!(status["findings"][0]["code"], "ScaledFromZero", "{status:#}");
    assert_eq!(stage.available_in("east"), 2);
    stage.do_not_scale_in("west");
    let status = stage.ends_as(Phase::Completed).await;
    assert!(status["findings"].is_null(), "{status:#}");
    stage.assert_only_in("west");
}

#[tokio::test(start_paused = true)]
async fn one_that_comes_while_it_is_held_is_told_until_it_is_gone() {
    let stage = Stage::with_keda().await;
    stage.migrate(json!({"verify": {"healthyFor": "1m", "timeout": "5m"}}));
    stage.fleet.phase("web-to-west", Phase::Verify).await;
    stage.scale_in("east", scaled_object(json!({})));
    let findings = |fleet: &Fleet| fleet.status("web-to-west")["findings"].clone();
    stage
        .fleet
        .until("it is told", |fleet| {
            findings(fleet)[0]["code"] == "ScaledFromZero"
        })
        .await;
    stage.do_not_scale_in("east");
    stage
        .fleet
        .until("it is told no more", |fleet| findings(fleet).is_null())
        .await;
    assert_eq!(stage.fleet.status("web-to-west")["phase"], "Verify");
    stage.ends_as(Phase::Completed).await;
    stage.assert_only_in("west");
}
