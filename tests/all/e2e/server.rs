//! An API server as anybody with a kubeconfig sees it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Client, Config, Error, ResourceExt};
use serde_json::Value;

/// A kind of objects, as requests name it.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
}

const fn kind(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
) -> Resource {
    Resource {
        group,
        version,
        kind,
        plural,
    }
}

pub const NAMESPACES: Resource = kind("", "v1", "Namespace", "namespaces");
pub const NODES: Resource = kind("", "v1", "Node", "nodes");
pub const CRDS: Resource = kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
pub const FENCES: Resource = kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
);
pub const FENCE_BINDINGS: Resource = kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
);
pub const DEPLOYMENTS: Resource = kind("apps", "v1", "Deployment", "deployments");
pub const JOBS: Resource = kind(
    "flink.apache.org",
    "v1beta1",
    "FlinkDeployment",
    "flinkdeployments",
);
pub const MIGRATIONS: Resource = kind("cutover.dev", "v1alpha1", "Migration", "migrations");
pub const PLANS: Resource = kind("cutover.dev", "v1alpha1", "FailoverPlan", "failoverplans");
pub const ROLLOUTS: Resource = kind("cutover.dev", "v1alpha1", "Rollout", "rollouts");
pub const ROLLOUT_POLICIES: Resource = kind("cutover.dev", "v1alpha1", "RolloutPolicy", "rolloutpolicies");
pub const SHIFTS: Resource = kind("cutover.dev", "v1alpha1", "ReplicaShift", "replicashifts");
pub const SUSPENSIONS: Resource = kind("cutover.dev", "v1alpha1", "Suspension", "suspensions");
/// Of cluster scope.
pub const EVACUATIONS: Resource = kind("cutover.dev", "v1alpha1", "Evacuation", "evacuations");
/// Every kind that the scenarios ask for something by.
pub const INTENTS: [Resource; 7] = [
    MIGRATIONS,
    PLANS,
    ROLLOUTS,
    ROLLOUT_POLICIES,
    SHIFTS,
    SUSPENSIONS,
    EVACUATIONS,
];
/// Of Argo CD and Flux.
pub const APPLICATIONS: Resource = kind("argoproj.io", "v1alpha1", "Application", "applications");
pub const KUSTOMIZATIONS: Resource = kind(
    "kustomize.toolkit.fluxcd.io",
    "v1",
    "Kustomization",
    "kustomizations",
);
pub const CLAIMS: Resource = kind("cutover.dev", "v1alpha1", "Claim", "claims");
pub const PINS: Resource = kind(
    "policy.karmada.io",
    "v1alpha1",
    "OverridePolicy",
    "overridepolicies",
);
pub const POLICIES: Resource = kind(
    "policy.karmada.io",
    "v1alpha1",
    "PropagationPolicy",
    "propagationpolicies",
);
pub const CLUSTERS: Resource = kind("cluster.karmada.io", "v1alpha1", "Cluster", "clusters");
pub const CONFIG_MAPS: Resource = kind("", "v1", "ConfigMap", "configmaps");
pub const PODS: Resource = kind("", "v1", "Pod", "pods");
pub const BINDINGS: Resource = kind(
    "work.karmada.io",
    "v1alpha2",
    "ResourceBinding",
    "resourcebindings",
);

#[derive(Clone)]
pub struct Server {
    pub client: Client,
    pub kubeconfig: PathBuf,
}

impl Server {
    pub async fn of(kubeconfig: &Path) -> Self {
        let read = Kubeconfig::read_from(kubeconfig)
            .unwrap_or_else(|error| panic!("{}: {error}", kubeconfig.display()));
        let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", kubeconfig.display()));
        Self {
            client: Client::try_from(config).unwrap(),
            kubeconfig: kubeconfig.to_owned(),
        }
    }

    pub async fn get(&self, kind: Resource, namespace: Option<&str>, name: &str) -> Option<Value> {
        let found = self.api(kind, namespace).get_opt(name).await;
        let found = found.unwrap_or_else(|error| panic!("get {} {name}: {error}", kind.plural));
        found.map(|object| serde_json::to_value(object).unwrap())
    }

    /// Lists a namespace, or all of them; nothing where the kind isn't served.
    pub async fn list(&self, kind: Resource, namespace: Option<&str>) -> Vec<Value> {
        match self.api(kind, namespace).list(&ListParams::default()).await {
            Ok(list) => list
                .items
                .into_iter()
                .map(|object| serde_json::to_value(object).unwrap())
                .collect(),
            Err(error) if is_not_found(&error) => Vec::new(),
            Err(error) => panic!("list {}: {error}", kind.plural),
        }
    }

    pub async fn create(&self, kind: Resource, namespace: Option<&str>, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let created = self
            .api(kind, namespace)
            .create(&PostParams::default(), &object)
            .await;
        created.unwrap_or_else(|error| panic!("create {} {}: {error}", kind.plural, object.name_any()));
    }

    /// Applies an object in somebody's name.
    pub async fn apply(&self, kind: Resource, namespace: Option<&str>, manager: &str, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let name = object.name_any();
        let forced = PatchParams::apply(manager).force();
        let applied = self
            .api(kind, namespace)
            .patch(&name, &forced, &Patch::Apply(&object))
            .await;
        applied.unwrap_or_else(|error| panic!("apply {} {name}: {error}", kind.plural));
    }

    pub async fn patch(
        &self,
        kind: Resource,
        namespace: Option<&str>,
        name: &str,
        patch: Value,
    ) -> Result<(), Error> {
        let as_somebody = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(kind, namespace);
        api.patch(name, &as_somebody, &Patch::Merge(patch))
            .await
            .map(drop)
    }

    /// Asks for a deletion; what isn't there is as good.
    pub async fn delete(&self, kind: Resource, namespace: Option<&str>, name: &str) -> Result<(), Error> {
        let deleted = self
            .api(kind, namespace)
            .delete(name, &DeleteParams::default())
            .await;
        match deleted {
            Err(error) if is_not_found(&error) => Ok(()),
            other => other.map(drop),
        }
    }

    pub fn api(&self, kind: Resource, namespace: Option<&str>) -> Api<DynamicObject> {
        let api_version = if kind.group.is_empty() {
            kind.version.to_owned()
        } else {
            format!("{}/{}", kind.group, kind.version)
        };
        let resource = ApiResource {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            api_version,
            kind: kind.kind.to_owned(),
            plural: kind.plural.to_owned(),
        };
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Returns every object whose text holds one of these words: `kind namespace/name`. Events are left out, which nobody
    /// can clear away. Nothing can be told while kinds are being taken away, which discovery stumbles over.
    pub async fn objects_about(&self, words: &[String]) -> Result<BTreeSet<String>, Error> {
        let discovery = Discovery::new(self.client.clone()).run().await?;
        let kinds = discovery
            .groups()
            .flat_map(kube::discovery::ApiGroup::recommended_resources);
        let listed = kinds
            .filter(|(resource, can)| can.supports_operation(verbs::LIST) && resource.kind != "Event")
            .map(|(resource, can)| async move {
                let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
                // A kind that is registered and not served by anybody has no objects.
                let all = api.list(&ListParams::default()).await.map(|list| list.items);
                let about = all.unwrap_or_default().into_iter().filter(|object| {
                    let text = serde_json::to_string(object).unwrap();
                    words.iter().any(|word| text.contains(word.as_str()))
                });
                let named = about.map(|object| match (&can.scope, object.namespace()) {
                    (Scope::Namespaced, Some(namespace)) => {
                        format!("{} {namespace}/{}", resource.kind, object.name_any())
                    }
                    _ => format!("{} {}", resource.kind, object.name_any()),
                });
                named.collect::<Vec<_>>()
            });
        let found: Vec<Vec<String>> = futures::stream::iter(listed).buffer_unordered(8).collect().await;
        Ok(found.into_iter().flatten().collect())
    }
}

fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 404)
}
