//! The kinds of templates: which resource an `apiVersion` and `kind` mean.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::api::{ApiServer, ListOptions, Object, Resource};

pub const CRDS: Resource = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
pub const NAMESPACES: Resource = Resource::new("", "namespaces");
pub const EVENTS: Resource = Resource::new("", "events");
pub const LEASES: Resource = Resource::new("coordination.k8s.io", "leases");
pub const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");
pub const CLUSTER_BINDINGS: Resource = Resource::new("work.karmada.io", "clusterresourcebindings");
pub const WORKS: Resource = Resource::new("work.karmada.io", "works");
pub const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
pub const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");
pub const CLUSTER_POLICIES: Resource = Resource::new("policy.karmada.io", "clusterpropagationpolicies");
pub const OVERRIDES: Resource = Resource::new("policy.karmada.io", "overridepolicies");
pub const CLUSTER_OVERRIDES: Resource = Resource::new("policy.karmada.io", "clusteroverridepolicies");
pub const REBALANCERS: Resource = Resource::new("apps.karmada.io", "workloadrebalancers");

/// Built-in kinds that are propagated: group, version, kind, plural.
const BUILT_IN: &[(&str, &str, &str, &str)] = &[
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "Service", "services"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "v1", "Pod", "pods"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("apps", "v1", "DaemonSet", "daemonsets"),
    ("batch", "v1", "Job", "jobs"),
    ("batch", "v1", "CronJob", "cronjobs"),
    ("networking.k8s.io", "v1", "Ingress", "ingresses"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    (
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    ),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles"),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
    ),
];

/// One kind that can be a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateKind {
    pub api_version: String,
    pub kind: String,
    pub resource: Resource,
}

/// Returns the kinds that a server serves and that can be propagated.
pub fn served(server: &ApiServer) -> Vec<TemplateKind> {
    let built_in = BUILT_IN
        .iter()
        .map(|(group, version, kind, plural)| TemplateKind {
            api_version: api_version(group, version),
            kind: (*kind).to_owned(),
            resource: Resource::new(group, plural),
        })
        .filter(|kind| server.kind(&kind.resource).is_some());
    let crds = server
        .list(&CRDS, None, &ListOptions::default())
        .unwrap_or_default();
    let custom = crds.items.iter().filter_map(|crd| of_crd(crd));
    built_in.chain(custom).collect()
}

/// Returns the kind that a CRD defines, if it is one that can be propagated.
pub fn of_crd(crd: &Value) -> Option<TemplateKind> {
    let group = crd.pointer("/spec/group")?.as_str()?;
    if group.ends_with(".karmada.io") {
        return None;
    }
    let names = crd.pointer("/spec/names")?;
    let versions = crd.pointer("/spec/versions")?.as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    Some(TemplateKind {
        api_version: api_version(group, stored["name"].as_str()?),
        kind: names["kind"].as_str()?.to_owned(),
        resource: Resource::named(group.to_owned(), names["plural"].as_str()?.to_owned()),
    })
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Finds the resource of a kind on a server.
pub fn resource(server: &ApiServer, api_version: &str, kind: &str) -> Option<Resource> {
    if (api_version, kind) == ("v1", "Namespace") {
        return Some(NAMESPACES);
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    if let Some((group, _, _, plural)) = BUILT_IN.iter().find(|known| known.0 == group && known.2 == kind) {
        return Some(Resource::new(group, plural));
    }
    let crds = server.list(&CRDS, None, &ListOptions::default()).ok()?;
    let defines = |crd: &&Object| crd["spec"]["group"] == group && crd["spec"]["names"]["kind"] == kind;
    Some(of_crd(crds.items.iter().find(defines)?)?.resource)
}

/// Returns the kinds by `apiVersion`, as a Cluster's status lists them.
pub fn enablements(server: &ApiServer) -> BTreeMap<String, Vec<(String, String)>> {
    let mut enabled: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for kind in served(server) {
        enabled
            .entry(kind.api_version)
            .or_default()
            .push((kind.resource.plural.into_owned(), kind.kind));
    }
    enabled
}
