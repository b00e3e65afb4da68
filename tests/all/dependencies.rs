//! What a workload refers to has to be in the target, or to come along, before anything is stopped for a move.

use std::sync::Arc;

use cutover::api::Phase;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{Resource, WriteOptions};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, Controller, Fleet, JOBS, POLICIES, job};

const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const SECRETS: Resource = Resource::new("", "secrets");
const ACCOUNTS: Resource = Resource::new("", "serviceaccounts");

struct Stage {
    fleet: Fleet,
    _controller: Controller,
}

impl Stage {
    /// `web` runs in east, where all is that it needs; `follows`: with `propagateDeps`.
    async fn set(follows: bool) -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        for (resource, kind, name) in [
            (&CONFIG_MAPS, "ConfigMap", "web"),
            (&SECRETS, "Secret", "web-key"),
        ] {
            let object =
                json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}});
            fleet.apply(resource, object.clone());
            if !follows {
                create(&fleet, "east", resource, object);
            }
        }
        let placement = json!({
            "clusterAffinity": {"clusterNames": ["east", "west", "north"]},
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        });
        fleet.apply(
            &POLICIES,
            policy("web", "apps/v1", "Deployment", &placement, follows),
        );
        fleet.apply(&DEPLOYMENTS, web());
        let stage = Self {
            _controller: fleet.controller(Arc::new(NoFailpoints)),
            fleet,
        };
        stage
            .fleet
            .until("web runs in east", |fleet| ready(fleet, "east") == 2)
            .await;
        stage
    }

    async fn moved(&self) -> (Phase, Value) {
        self.fleet.migrate_with(
            "web-to-west",
            json!({
                "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "to": "west", "verify": {"healthyFor": "2s", "timeout": "60s"},
            }),
        );
        (
            self.fleet.ended("web-to-west").await,
            self.fleet.status("web-to-west"),
        )
    }
}

fn create(fleet: &Fleet, cluster: &str, resource: &Resource, object: Value) {
    let member = &fleet.world.member(cluster).api;
    member
        .create(resource, Some("shop"), object, &WriteOptions::manager("kubectl"))
        .unwrap();
}

fn policy(name: &str, api_version: &str, kind: &str, placement: &Value, follows: bool) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "propagateDeps": follows, "placement": placement,
            "resourceSelectors": [{"apiVersion": api_version, "kind": kind, "name": name, "namespace": "shop"}],
        },
    })
}

fn web() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{
                "name": "web", "image": "web:1",
                "envFrom": [{"configMapRef": {"name": "web"}}],
                "env": [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "web-key", "key": "key"}}}],
            }]}},
        },
    })
}

fn ready(fleet: &Fleet, cluster: &str) -> u64 {
    let copy = fleet
        .world
        .member(cluster)
        .api
        .get(&DEPLOYMENTS, Some("shop"), "web");
    copy.map_or(0, |copy| {
        copy["status"]["availableReplicas"].as_u64().unwrap_or_default()
    })
}

fn findings(status: &Value) -> Vec<String> {
    let all = status["findings"].as_array().into_iter().flatten();
    all.map(|finding| {
        format!(
            "{}: {}",
            finding["code"].as_str().unwrap(),
            finding["message"].as_str().unwrap()
        )
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_in_the_target_is_told_before_anything_is_touched() {
    let stage = Stage::set(false).await;
    let (phase, status) = stage.moved().await;
    assert_eq!(phase, Phase::Failed, "{status:#}");
    let found = findings(&status);
    assert_eq!(
        found,
        [
            "MissingDependency: west has no ConfigMap web, which the workload needs, and Karmada does not bring it",
            "MissingDependency: west has no Secret web-key, which the workload needs, and Karmada does not bring it",
        ]
    );
    let server = stage.fleet.world.control_plane();
    let binding = server.get(&BINDINGS, Some("shop"), "web-deployment").unwrap();
    assert!(binding["spec"]["suspension"]["scheduling"].is_null());
    assert_eq!(ready(&stage.fleet, "east"), 2);
}

/// The profile of Flink moves a job with a volume: what is on it is no state of the job.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_missing_in_the_target_is_told_before_anything_is_touched() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let mut template = job("orders:1.0");
    template["spec"]["podTemplate"] = json!({"spec": {
        "containers": [{"name": "flink-main-container"}],
        "volumes": [{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}],
    }});
    fleet.apply(&JOBS, template);
    fleet
        .until("the copy in east has the volume, and runs", |fleet| {
            let copy = fleet.copy("east");
            copy.is_some_and(|copy| !copy["spec"]["podTemplate"].is_null()) && fleet.runs_in("east")
        })
        .await;
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Failed);
    assert_eq!(
        findings(&fleet.status("orders-to-west")),
        [
            "MissingDependency: west has no PersistentVolumeClaim cache, which the workload needs, and Karmada does not bring it, \
             nor what is on its volume"
        ]
    );
    assert!(fleet.runs_in("east"));
}

#[tokio::test(start_paused = true)]
async fn what_follows_the_workload_or_is_there_already_is_not_missing() {
    let follows = Stage::set(true).await;
    let (phase, status) = follows.moved().await;
    assert_eq!(phase, Phase::Completed, "{status:#}");

    let there = Stage::set(false).await;
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop"}});
    create(&there.fleet, "west", &CONFIG_MAPS, config);
    // The other one has a policy of its own.
    let west = json!({"clusterAffinity": {"clusterNames": ["west"]}});
    there
        .fleet
        .apply(&POLICIES, policy("web-key", "v1", "Secret", &west, false));
    there
        .fleet
        .until("the binding of the secret is scheduled", |fleet| {
            let server = fleet.world.control_plane();
            let binding = server.get(&BINDINGS, Some("shop"), "web-key-secret");
            binding.is_ok_and(|binding| binding["spec"]["clusters"][0]["name"] == "west")
        })
        .await;
    let (phase, status) = there.moved().await;
    assert_eq!(phase, Phase::Completed, "{status:#}");
}

#[tokio::test(start_paused = true)]
async fn an_account_that_only_a_field_of_the_operator_names_is_looked_for_too() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let mut template = job("orders:1.0");
    template["spec"]["serviceAccount"] = json!("flink");
    fleet.apply(&JOBS, template);
    fleet
        .until("the copy in east has the account", |fleet| {
            let copy = fleet.copy("east");
            copy.is_some_and(|copy| copy["spec"]["serviceAccount"] == "flink") && fleet.runs_in("east")
        })
        .await;
    fleet.migrate("orders-to-west", "west");
    assert_eq!(fleet.ended("orders-to-west").await, Phase::Failed);
    assert_eq!(
        findings(&fleet.status("orders-to-west")),
        [
            "MissingDependency: west has no ServiceAccount flink, which the workload needs, and Karmada does not bring it"
        ]
    );

    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "flink", "namespace": "shop"},
    });
    create(&fleet, "west", &ACCOUNTS, account);
    fleet.migrate("orders-to-west-again", "west");
    let ended = fleet.ended("orders-to-west-again").await;
    assert_eq!(
        ended,
        Phase::Completed,
        "{:#}",
        fleet.status("orders-to-west-again")
    );
}
