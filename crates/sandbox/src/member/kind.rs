//! The kinds whose operators are simulated, other than Flink's and Deployments.

use std::sync::Arc;

use kube::Client;
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::batch::{Rules, Run};
use super::counter::Counter;
use super::cron_job::CronJob;
use super::kafka_connect::KafkaConnect;
use super::mono_vertex::MonoVertex;
use super::pipeline::Pipeline;
use super::ray_cluster::RayCluster;
use super::ray_service::RayService;
use super::scaled::{Rollout, StatefulSet};
use super::{Context, frame};

/// A kind, and who operates it.
#[derive(Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub(super) operated: Operated,
}

/// Who operates a kind.
#[derive(Debug)]
pub enum Operated {
    /// A run to completion, by rules of its own.
    Run(Rules),
    RayCluster,
    RayService,
    KafkaConnect,
    Pipeline,
    MonoVertex,
    StatefulSet,
    Rollout,
    Counter,
    CronJob,
}

/// Kinds that run until they are stopped; a cluster has their definitions only where they are installed.
pub const SERVICES: [Kind; 5] = [
    Kind {
        group: "ray.io",
        version: "v1",
        kind: "RayCluster",
        plural: "rayclusters",
        operated: Operated::RayCluster,
    },
    Kind {
        group: "ray.io",
        version: "v1",
        kind: "RayService",
        plural: "rayservices",
        operated: Operated::RayService,
    },
    Kind {
        group: "kafka.strimzi.io",
        version: "v1",
        kind: "KafkaConnect",
        plural: "kafkaconnects",
        operated: Operated::KafkaConnect,
    },
    Kind {
        group: "numaflow.numaproj.io",
        version: "v1alpha1",
        kind: "Pipeline",
        plural: "pipelines",
        operated: Operated::Pipeline,
    },
    Kind {
        group: "numaflow.numaproj.io",
        version: "v1alpha1",
        kind: "MonoVertex",
        plural: "monovertices",
        operated: Operated::MonoVertex,
    },
];

/// Kinds that are held by their replicas, besides Deployments. Every cluster has the first of them.
pub const SCALED: [Kind; 2] = [
    Kind {
        group: "apps",
        version: "v1",
        kind: "StatefulSet",
        plural: "statefulsets",
        operated: Operated::StatefulSet,
    },
    Kind {
        group: "argoproj.io",
        version: "v1alpha1",
        kind: "Rollout",
        plural: "rollouts",
        operated: Operated::Rollout,
    },
];

/// Kubernetes' `CronJob`: every cluster has it.
pub const CRON_JOB: Kind = Kind {
    group: "batch",
    version: "v1",
    kind: "CronJob",
    plural: "cronjobs",
    operated: Operated::CronJob,
};

/// The kind of the operator that the page on writing profiles invents.
pub const COUNTER: Kind = Kind {
    group: "tally.example.org",
    version: "v1",
    kind: "Counter",
    plural: "counters",
    operated: Operated::Counter,
};

impl Kind {
    pub(super) fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns a definition that takes whatever its operator's does, and more.
    pub fn definition(&self) -> Value {
        definition(&self.resource())
    }
}

/// Returns a definition of a kind that is in namespaces and leaves its spec and status open.
pub fn definition(resource: &ApiResource) -> Value {
    let ApiResource {
        group,
        version,
        kind,
        plural,
        ..
    } = resource;
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {
                "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
            },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

/// Runs the operator of a kind and its pods, for ever.
pub async fn run(client: Client, context: Arc<Context>, kind: &'static Kind) {
    let resource = kind.resource();
    match &kind.operated {
        Operated::Run(rules) => frame::run::<Run>(client, context, resource, rules).await,
        Operated::RayCluster => frame::run::<RayCluster>(client, context, resource, ()).await,
        Operated::RayService => frame::run::<RayService>(client, context, resource, ()).await,
        Operated::KafkaConnect => frame::run::<KafkaConnect>(client, context, resource, ()).await,
        Operated::Pipeline => frame::run::<Pipeline>(client, context, resource, ()).await,
        Operated::MonoVertex => frame::run::<MonoVertex>(client, context, resource, ()).await,
        Operated::StatefulSet => frame::run::<StatefulSet>(client, context, resource, ()).await,
        Operated::Rollout => frame::run::<Rollout>(client, context, resource, ()).await,
        Operated::CronJob => frame::run::<CronJob>(client, context, resource, ()).await,
        Operated::Counter => frame::run::<Counter>(client, context, resource, ()).await,
    }
}
