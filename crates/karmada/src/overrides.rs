//! What override policies make of a template in one cluster: Karmada's order, matching and errors, without Karmada.
//!
//! The sandbox's binding controller runs this same code. What counts in the end is what a Work and a member object carry.

use std::borrow::Borrow;
use std::cmp::Reverse;

use json_patch::jsonptr::{Pointer, PointerBuf};
use serde_json::{Map, Value, json};

use super::cluster::Cluster;
use super::image::Image;
use super::override_policy::{
    ClusterOverridePolicy, CommandOverrider, FieldOverrider, ImageComponent, ImageOverrider, MapOverrider,
    Operator, OverridePolicy, OverrideSpec, Overriders, PatchOperation,
};
use super::selector::{ResourceSelector, Specificity};

/// Why the manifest of a cluster can't be computed. Karmada then leaves that cluster's Work as it was, template
/// changes included, while the binding's conditions go on saying `FullyApplied=True`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot apply {policy} in cluster {cluster}: {cause}")]
pub struct OverrideError {
    pub policy: PolicyName,
    pub cluster: String,
    /// Boxed, so that a result stays small.
    pub cause: Box<Cause>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    #[error("{operator} {path}: {reason}")]
    Patch {
        operator: &'static str,
        path: String,
        reason: String,
    },
    #[error("no image name at {path}")]
    Image { path: String },
    #[error("no text at {path}")]
    Field { path: String },
    #[error("the text at {path} is not a {format} document: {reason}")]
    Document {
        path: String,
        format: &'static str,
        reason: String,
    },
}

/// Which policy: a `ClusterOverridePolicy` has no namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyName {
    pub namespace: Option<String>,
    pub name: String,
}

impl std::fmt::Display for PolicyName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "OverridePolicy {namespace}/{}", self.name),
            None => write!(f, "ClusterOverridePolicy {}", self.name),
        }
    }
}

/// One rule that applies to a template in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Match<'a> {
    pub policy: PolicyName,
    pub specificity: Specificity,
    /// The index in `overrideRules`.
    pub rule: usize,
    pub overriders: &'a Overriders,
}

/// Returns the rules that apply to a template in a cluster, in the order in which they are applied: the last wins.
///
/// `ClusterOverridePolicy`s come before `OverridePolicy`s; within each, the less specific selector first, then by name.
/// Policies of other namespaces and, for a cluster-scoped template, all `OverridePolicy`s are passed over.
pub fn matching<'a, C, N>(
    template: &Value,
    cluster: &Cluster,
    cluster_wide: &'a [C],
    namespaced: &'a [N],
) -> Vec<Match<'a>>
where
    C: Borrow<ClusterOverridePolicy>,
    N: Borrow<OverridePolicy>,
{
    let namespace = template.pointer("/metadata/namespace").and_then(Value::as_str);
    let wide = cluster_wide.iter().map(Borrow::borrow).map(|policy| {
        let name = policy.metadata.name.clone().unwrap_or_default();
        (
            PolicyName {
                namespace: None,
                name,
            },
            &policy.spec.spec,
        )
    });
    let narrow = namespaced
        .iter()
        .map(Borrow::borrow)
        .filter(|policy| namespace.is_some() && policy.metadata.namespace.as_deref() == namespace)
        .map(|policy| {
            let name = policy.metadata.name.clone().unwrap_or_default();
            (
                PolicyName {
                    namespace: policy.metadata.namespace.clone(),
                    name,
                },
                &policy.spec,
            )
        });
    let mut matches = in_order(template, cluster, wide);
    matches.extend(in_order(template, cluster, narrow));
    matches
}

fn in_order<'a>(
    template: &Value,
    cluster: &Cluster,
    policies: impl Iterator<Item = (PolicyName, &'a OverrideSpec)>,
) -> Vec<Match<'a>> {
    let mut selected: Vec<_> = policies
        .filter_map(|(name, spec)| Some((specificity(spec, template)?, name, spec)))
        .collect();
    selected.sort_by(|(a, a_name, _), (b, b_name, _)| (a, a_name).cmp(&(b, b_name)));
    let mut matches = Vec::new();
    for (specificity, policy, spec) in selected {
        for (rule, overriders) in rules(spec, cluster) {
            matches.push(Match {
                policy: policy.clone(),
                specificity,
                rule,
                overriders,
            });
        }
    }
    matches
}

fn specificity(spec: &OverrideSpec, template: &Value) -> Option<Specificity> {
    if spec.resource_selectors.is_empty() {
        return Some(Specificity::All);
    }
    ResourceSelector::closest(&spec.resource_selectors, template)
}

fn rules<'a>(spec: &'a OverrideSpec, cluster: &Cluster) -> Vec<(usize, &'a Overriders)> {
    let deprecated = spec
        .overriders
        .iter()
        .filter(|_| spec.override_rules.is_empty())
        .map(|overriders| (0, &spec.target_cluster, overriders));
    spec.override_rules
        .iter()
        .enumerate()
        .map(|(index, rule)| (index, &rule.target_cluster, &rule.overriders))
        .chain(deprecated)
        .filter(|(_, target, _)| target.as_ref().is_none_or(|target| target.matches(cluster)))
        .map(|(index, _, overriders)| (index, overriders))
        .collect()
}

/// Applies matched rules to a manifest, one after the other. On an error the manifest is to be thrown away.
pub fn apply(manifest: &mut Value, cluster: &Cluster, matches: &[Match<'_>]) -> Result<(), OverrideError> {
    for rule in matches {
        apply_overriders(manifest, rule.overriders).map_err(|cause| OverrideError {
            policy: rule.policy.clone(),
            cluster: cluster.metadata.name.clone().unwrap_or_default(),
            cause: Box::new(cause),
        })?;
    }
    Ok(())
}

/// Returns what a template becomes in a cluster.
pub fn effective<C, N>(
    template: &Value,
    cluster: &Cluster,
    cluster_wide: &[C],
    namespaced: &[N],
) -> Result<Value, OverrideError>
where
    C: Borrow<ClusterOverridePolicy>,
    N: Borrow<OverridePolicy>,
{
    let mut manifest = template.clone();
    let matches = matching(template, cluster, cluster_wide, namespaced);
    apply(&mut manifest, cluster, &matches)?;
    Ok(manifest)
}

/// Applies the overriders of one rule, in Karmada's order of kinds.
pub fn apply_overriders(manifest: &mut Value, overriders: &Overriders) -> Result<(), Cause> {
    for image in &overriders.image_overrider {
        override_image(manifest, image)?;
    }
    for command in &overriders.command_overrider {
        override_words(manifest, "command", command)?;
    }
    for args in &overriders.args_overrider {
        override_words(manifest, "args", args)?;
    }
    for labels in &overriders.labels_overrider {
        override_map(manifest, "labels", labels);
    }
    for annotations in &overriders.annotations_overrider {
        override_map(manifest, "annotations", annotations);
    }
    for field in &overriders.field_overrider {
        override_field(manifest, field)?;
    }
    for plain in &overriders.plaintext {
        patch(manifest, plain.operator, &plain.path, &plain.value)?;
    }
    Ok(())
}

/// Where a kind keeps its containers; image, command and args overriders know no other kinds.
fn containers(manifest: &Value) -> Option<&'static str> {
    match manifest.get("kind").and_then(Value::as_str)? {
        "Pod" => Some("/spec/containers"),
        "ReplicaSet" | "Deployment" | "DaemonSet" | "StatefulSet" | "Job" => {
            Some("/spec/template/spec/containers")
        }
        _ => None,
    }
}

fn override_image(manifest: &mut Value, overrider: &ImageOverrider) -> Result<(), Cause> {
    let paths: Vec<String> = match &overrider.predicate {
        Some(predicate) => vec![predicate.path.clone()],
        None => match containers(manifest) {
            Some(list) => (0..manifest
                .pointer(list)
                .and_then(Value::as_array)
                .map_or(0, Vec::len))
                .map(|index| format!("{list}/{index}/image"))
                .collect(),
            None => Vec::new(),
        },
    };
    for path in paths {
        let changed = manifest
            .pointer(&path)
            .and_then(Value::as_str)
            .and_then(|name| changed_image(name, overrider))
            .ok_or(Cause::Image { path: path.clone() })?;
        patch(manifest, Operator::Replace, &path, &Value::String(changed))?;
    }
    Ok(())
}

fn changed_image(name: &str, overrider: &ImageOverrider) -> Option<String> {
    let mut image = Image::parse(name)?;
    let value = &overrider.value;
    match (overrider.component, overrider.operator) {
        (ImageComponent::Registry, Operator::Add) => image.registry.push_str(value),
        (ImageComponent::Registry, Operator::Replace) => image.registry.clone_from(value),
        (ImageComponent::Registry, Operator::Remove) => image.registry.clear(),
        (ImageComponent::Repository, Operator::Add) => image.repository.push_str(value),
        (ImageComponent::Repository, Operator::Replace) => image.repository.clone_from(value),
        (ImageComponent::Repository, Operator::Remove) => image.repository.clear(),
        (ImageComponent::Tag, Operator::Add) => image.set_version(&format!("{}{value}", image.version())),
        (ImageComponent::Tag, Operator::Replace) => image.set_version(value),
        (ImageComponent::Tag, Operator::Remove) => image.remove_version(),
    }
    Some(image.to_string())
}

fn override_words(manifest: &mut Value, field: &str, overrider: &CommandOverrider) -> Result<(), Cause> {
    let Some(list) = containers(manifest) else {
        return Ok(());
    };
    let count = manifest
        .pointer(list)
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    for index in 0..count {
        let container = format!("{list}/{index}");
        let name = manifest
            .pointer(&format!("{container}/name"))
            .and_then(Value::as_str);
        if name != Some(overrider.container_name.as_str()) {
            continue;
        }
        let path = format!("{container}/{field}");
        let mut words: Vec<Value> = manifest
            .pointer(&path)
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        match overrider.operator {
            Operator::Add => words.extend(overrider.value.iter().map(|word| json!(word))),
            Operator::Remove => words.retain(|word| !overrider.value.iter().any(|gone| word == gone)),
            Operator::Replace => {}
        }
        patch(manifest, Operator::Add, &path, &Value::Array(words))?;
    }
    Ok(())
}

/// Unlike a patch, replacing or removing a key that isn't there does nothing.
fn override_map(manifest: &mut Value, field: &str, overrider: &MapOverrider) {
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    if overrider.operator == Operator::Add && !metadata.get(field).is_some_and(Value::is_object) {
        metadata.insert(field.to_owned(), Value::Object(Map::new()));
    }
    let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) else {
        return;
    };
    for (key, value) in &overrider.value {
        match overrider.operator {
            Operator::Remove => {
                map.shift_remove(key);
            }
            Operator::Replace if !map.contains_key(key) => {}
            Operator::Replace | Operator::Add => {
                map.insert(key.clone(), json!(value));
            }
        }
    }
}

fn override_field(manifest: &mut Value, overrider: &FieldOverrider) -> Result<(), Cause> {
    let path = &overrider.field_path;
    let missing = || Cause::Field { path: path.clone() };
    let text = manifest
        .pointer(path)
        .and_then(Value::as_str)
        .ok_or_else(missing)?;
    let changed = if !overrider.yaml.is_empty() {
        let mut document: Value = serde_yaml::from_str(text).map_err(|error| not_a("YAML", path, &error))?;
        patch_all(&mut document, &overrider.yaml)?;
        serde_yaml::to_string(&sorted(document)).map_err(|error| not_a("YAML", path, &error))?
    } else if !overrider.json.is_empty() {
        let mut document: Value = serde_json::from_str(text).map_err(|error| not_a("JSON", path, &error))?;
        patch_all(&mut document, &overrider.json)?;
        document.to_string()
    } else {
        String::new()
    };
    *manifest.pointer_mut(path).ok_or_else(missing)? = Value::String(changed);
    Ok(())
}

fn not_a(format: &'static str, path: &str, error: &dyn std::error::Error) -> Cause {
    Cause::Document {
        path: path.to_owned(),
        format,
        reason: error.to_string(),
    }
}

fn patch_all(document: &mut Value, operations: &[PatchOperation]) -> Result<(), Cause> {
    operations.iter().try_for_each(|operation| {
        patch(
            document,
            operation.operator,
            &operation.sub_path,
            &operation.value,
        )
    })
}

/// Karmada's YAML writer sorts keys.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// One operation of a JSON patch: `add` needs an existing parent, `replace` and `remove` an existing value.
fn patch(document: &mut Value, operator: Operator, path: &str, value: &Value) -> Result<(), Cause> {
    let name = match operator {
        Operator::Add => "add",
        Operator::Remove => "remove",
        Operator::Replace => "replace",
    };
    let failed = |reason: String| Cause::Patch {
        operator: name,
        path: path.to_owned(),
        reason,
    };
    let path_buf = PointerBuf::parse(path).map_err(|error| failed(error.to_string()))?;
    let operation = operation(operator, &path_buf, value);
    json_patch::patch(document, &[operation]).map_err(|error| failed(error.kind.to_string()))
}

fn operation(operator: Operator, path: &Pointer, value: &Value) -> json_patch::PatchOperation {
    let path = path.to_owned();
    match operator {
        Operator::Add => json_patch::PatchOperation::Add(json_patch::AddOperation {
            path,
            value: value.clone(),
        }),
        Operator::Remove => json_patch::PatchOperation::Remove(json_patch::RemoveOperation { path }),
        Operator::Replace => json_patch::PatchOperation::Replace(json_patch::ReplaceOperation {
            path,
            value: value.clone(),
        }),
    }
}

/// Returns the policies of a list of matches, the strongest first, each once.
pub fn strongest_first(matches: &[Match<'_>]) -> Vec<PolicyName> {
    let mut ranked: Vec<(Reverse<usize>, &PolicyName)> = Vec::new();
    for (rank, rule) in matches.iter().enumerate() {
        match ranked.iter_mut().find(|(_, policy)| **policy == rule.policy) {
            Some((known, _)) => *known = Reverse(rank),
            None => ranked.push((Reverse(rank), &rule.policy)),
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, policy)| policy.clone()).collect()
}

#[cfg(test)]
mod tests;
