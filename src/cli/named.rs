//! How people name an object of the repository: as kubectl takes it, `deploy/web`, `deployments.apps/web` or just `web`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::intent_name::ambiguous;
use super::workspace::Workspace;
use cutover_base::nearest::nearest;
use cutover_core::api::{self, WorkloadProfile};
use cutover_core::error::{Error, Result};
use cutover_core::manifest::{Manifest, Set};
use cutover_core::profile;
use cutover_karmada::name::Gvk;

/// What kubectl calls the kinds that every cluster has, Karmada's, and those with a built-in profile.
const SHORT_NAMES: [(&str, &str); 32] = [
    ("cj", "CronJob"),
    ("cm", "ConfigMap"),
    ("cop", "ClusterOverridePolicy"),
    ("cpp", "ClusterPropagationPolicy"),
    ("crb", "ClusterResourceBinding"),
    ("deploy", "Deployment"),
    ("ds", "DaemonSet"),
    ("ep", "Endpoints"),
    ("flinkdep", "FlinkDeployment"),
    ("hpa", "HorizontalPodAutoscaler"),
    ("ing", "Ingress"),
    ("kc", "KafkaConnect"),
    ("limits", "LimitRange"),
    ("mvtx", "MonoVertex"),
    ("netpol", "NetworkPolicy"),
    ("ns", "Namespace"),
    ("op", "OverridePolicy"),
    ("pdb", "PodDisruptionBudget"),
    ("pl", "Pipeline"),
    ("po", "Pod"),
    ("pp", "PropagationPolicy"),
    ("pv", "PersistentVolume"),
    ("pvc", "PersistentVolumeClaim"),
    ("quota", "ResourceQuota"),
    ("rb", "ResourceBinding"),
    ("ro", "Rollout"),
    ("rs", "ReplicaSet"),
    ("sa", "ServiceAccount"),
    ("sessionjob", "FlinkSessionJob"),
    ("sparkapp", "SparkApplication"),
    ("sts", "StatefulSet"),
    ("svc", "Service"),
];

/// A kind as a person writes it: in any case, in the plural, by a short name, with the group or without.
#[derive(Clone, Debug)]
pub struct KindName<'a> {
    kind: String,
    /// `GROUP`, or `VERSION.GROUP`.
    group: Option<&'a str>,
}

impl<'a> KindName<'a> {
    pub fn new(text: &'a str) -> Self {
        let (kind, group) = match text.split_once('.') {
            Some((kind, group)) => (kind, Some(group)),
            None => (text, None),
        };
        Self {
            kind: kind.to_ascii_lowercase(),
            group,
        }
    }

    /// Returns whether a kind is meant. CRDs of the repository say what else it is called.
    pub fn means(&self, workspace: &Workspace, gvk: &Gvk) -> bool {
        self.means_of(&workspace.set, gvk)
    }

    /// The same with the objects of a repository.
    pub fn means_of(&self, set: &Set, gvk: &Gvk) -> bool {
        let (group, version) = (gvk.group.as_str(), gvk.version.as_str());
        let is_group = |asked: &str| asked == group || asked.split_once('.') == Some((version, group));
        self.group.is_none_or(is_group) && self.is_called(set, group, &gvk.kind)
    }

    fn is_called(&self, set: &Set, group: &str, kind: &str) -> bool {
        let asked = self.kind.as_str();
        let lower = kind.to_ascii_lowercase();
        let is_short = SHORT_NAMES.contains(&(asked, kind));
        if is_short || asked == lower || asked == plural(&lower) {
            return true;
        }
        let definitions = set.of_kind("apiextensions.k8s.io", "CustomResourceDefinition");
        let mut definitions = definitions.map(|definition| &definition.value["spec"]);
        definitions.any(|spec| {
            let names = &spec["names"];
            let is_its = spec["group"] == group && names["kind"] == kind;
            let short = names["shortNames"].as_array().into_iter().flatten();
            let mut all = short.chain([&names["plural"], &names["singular"]]);
            is_its && all.any(|name| name == asked)
        })
    }
}

/// Returns a kind as intents that move many workloads select it, `Kind` or `Kind.group`: one of the repository or of a profile. Other
/// text stays as it is: a check of the file says what is wrong with it.
pub fn selected_kind(workspace: &Workspace, text: &str) -> Result<String> {
    let asked = KindName::new(text);
    let of_profiles = workloads(workspace)?.into_iter().map(|(group, kind)| Gvk {
        group,
        version: String::new(),
        kind,
    });
    let all = of_profiles.chain(workspace.set.kinds().cloned());
    let meant: BTreeSet<(String, String)> = all
        .filter(|gvk| gvk.group != api::GROUP && asked.means(workspace, gvk))
        .map(|gvk| (gvk.kind, gvk.group))
        .collect();
    let kinds: BTreeSet<&String> = meant.iter().map(|(kind, _)| kind).collect();
    let described = || meant.iter().map(|(kind, group)| format!("{kind}.{group}"));
    match (kinds.first(), kinds.len(), asked.group) {
        (None, ..) => Ok(text.to_owned()),
        (Some(kind), 1, None) => Ok((*kind).clone()),
        (Some(_), 1, Some(_)) => Ok(described().next().unwrap_or_default()),
        _ => {
            let all: Vec<String> = described().collect();
            Err(Error::user(format!("{text} could be {}", all.join(" or "))).hint("name it as KIND.GROUP"))
        }
    }
}

/// Returns the kind of an API version that is meant where no template has it.
pub fn kind_of_version(workspace: &Workspace, api_version: &str, text: &str) -> Result<String> {
    let asked = KindName::new(text);
    let group = Gvk::new(api_version, "").group;
    let of_profiles = workloads(workspace)?.into_iter();
    let of_profiles = of_profiles.filter(|(of, _)| *of == group).map(|(_, kind)| kind);
    let there = workspace.set.kinds().filter(|gvk| gvk.group == group);
    let there = there.map(|gvk| gvk.kind.clone());
    let short = SHORT_NAMES.iter().map(|(_, kind)| (*kind).to_owned());
    let mut known = of_profiles.chain(there).chain(short);
    let meant = known.find(|kind| asked.means(workspace, &Gvk::new(api_version, kind)));
    // What is written as a kind is one, known or not.
    let is_kind = text.starts_with(|letter: char| letter.is_ascii_uppercase()) && !text.contains('.');
    meant.or_else(|| is_kind.then(|| text.to_owned())).ok_or_else(|| {
        Error::user(format!("{text} is not known as a kind of {api_version}"))
            .hint("write the kind as its manifest has it, for instance Deployment")
    })
}

/// Makes a plural as Kubernetes guesses it.
fn plural(singular: &str) -> String {
    match singular.strip_suffix('y') {
        _ if singular.ends_with('s') => format!("{singular}es"),
        Some(stem) => format!("{stem}ies"),
        None => format!("{singular}s"),
    }
}

/// Finds the one object of the repository that is meant by `KIND/NAME`, or by the name alone where one workload has it.
pub fn find(workspace: &Workspace, named: &str, namespace: Option<&str>) -> Result<Arc<Manifest>> {
    let (kind, name) = match named.split_once('/') {
        Some((kind, name)) => (Some(KindName::new(kind)), name),
        None => (None, named),
    };
    let workloads = workloads(workspace)?;
    let is_workload =
        |manifest: &Manifest| workloads.contains(&(manifest.key.group.clone(), manifest.key.kind.clone()));
    let is_kind = |manifest: &Manifest| match &kind {
        Some(kind) => kind.means(workspace, &manifest.gvk),
        None => is_workload(manifest),
    };
    let is_there =
        |manifest: &Arc<Manifest>| namespace.is_none_or(|wanted| wanted == workspace.namespace_of(manifest));
    let is_meant =
        |manifest: &&Arc<Manifest>| manifest.key.name == name && is_kind(manifest) && is_there(manifest);
    let found: Vec<_> = workspace.set.definitions().filter(is_meant).collect();
    match found.as_slice() {
        [only] => Ok(Arc::clone(only)),
        [] => {
            let within = namespace.map_or_else(String::new, |namespace| format!(" in {namespace}"));
            let asked = format!("{named}{within}");
            Err(unknown(workspace, &asked, name, [&is_kind, &is_workload]))
        }
        several => {
            let places = several.iter().map(|manifest| workspace.namespace_of(manifest));
            let places: Vec<String> = places.collect();
            let all = several.iter().zip(&places);
            let all = all.map(|(manifest, namespace)| (manifest.key.kind.as_str(), namespace.as_str(), name));
            Err(ambiguous(named, &all.collect::<Vec<_>>()))
        }
    }
}

/// `asked`: what there is not; `among`: what may have been meant, the likeliest first.
fn unknown(workspace: &Workspace, asked: &str, name: &str, among: [&dyn Fn(&Manifest) -> bool; 2]) -> Error {
    let full = |manifest: &Manifest| format!("{}/{}", manifest.key.kind, manifest.key.name);
    let mut same = workspace.set.definitions().filter(|one| one.key.name == name);
    let hint = if let Some(other) = same.next() {
        let namespace = workspace.namespace_of(other);
        format!("there is {} in {namespace}", full(other))
    } else {
        let near = |is_meant: &dyn Fn(&Manifest) -> bool| {
            let all: Vec<_> = workspace.set.definitions().filter(|one| is_meant(one)).collect();
            let nearest = nearest(name, all.iter().map(|one| one.key.name.as_str()))?;
            all.iter().find(|one| one.key.name == nearest).copied()
        };
        let meant = among.into_iter().find_map(near);
        meant.map_or_else(
            || {
                "name it as KIND/NAME, such as deploy/web; cutover validate shows what is in the repository"
                    .to_owned()
            },
            |meant| format!("did you mean {}?", full(meant)),
        )
    };
    Error::user(format!("the repository has no {asked}")).hint(hint)
}

/// Returns the kinds, by group, that a name without a kind can mean: those that a profile is about.
pub fn workloads(workspace: &Workspace) -> Result<BTreeSet<(String, String)>> {
    let built_in = profile::built_in().map_err(|error| Error::internal(error.to_string()))?;
    let own = workspace.set.of_kind(api::GROUP, "WorkloadProfile");
    let read = |manifest: &Arc<Manifest>| serde_json::from_value(Value::clone(&manifest.value)).ok();
    let all: Vec<WorkloadProfile> = built_in.iter().cloned().chain(own.filter_map(read)).collect();
    let kinds = all.into_iter().flat_map(|profile| {
        let api::AppliesTo { group, kinds } = profile.spec.applies_to;
        kinds.into_iter().map(move |kind| (group.clone(), kind))
    });
    Ok(kinds.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plural_is_what_kubernetes_guesses() {
        for (one, many) in [
            ("deployment", "deployments"),
            ("ingress", "ingresses"),
            ("networkpolicy", "networkpolicies"),
        ] {
            assert_eq!(plural(one), many);
        }
    }

    #[test]
    fn short_names_are_in_order_and_none_is_there_twice() {
        assert!(SHORT_NAMES.is_sorted_by(|one, next| one.0 < next.0));
    }
}
