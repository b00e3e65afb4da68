//! What a template was and shall be, and the rules by which a pin keeps clusters at what they have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::api::{PatchOp, PinnedRule, RolloutRevision};
use crate::intent::control_plane::Overrides;
use crate::intent::effect::overlay_from_any;
use crate::intent::fight::others;
use crate::intent::record::{content, digest};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, overrides};

/// Returns the name of a revision: the same content has the same.
pub fn revision_name(content: &Value) -> String {
    digest(content).chars().take(10).collect()
}

/// Returns an object with another content.
fn with_content(object: &Value, content: &Value) -> Value {
    let mut made = Map::new();
    for name in ["apiVersion", "kind", "metadata"] {
        if let Some(value) = object.get(name) {
            made.insert(name.to_owned(), value.clone());
        }
    }
    made.extend(content.as_object().cloned().unwrap_or_default());
    Value::Object(made)
}

/// Returns what one manager has applied of an object, as it would apply it: what others set is theirs, and stays out.
pub fn applied_by(object: &Value, manager: &str) -> Value {
    let entries = object
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array);
    let is_meant = |entry: &&Value| entry["manager"] == manager && entry["operation"] == "Apply";
    let owned = entries
        .into_iter()
        .flatten()
        .filter(|entry| entry.get("subresource").is_none())
        .find(is_meant);
    let mut made = match owned {
        Some(entry) => owned_part(object, &entry["fieldsV1"]),
        None => content(object),
    };
    for name in ["apiVersion", "kind"] {
        made[name] = object[name].clone();
    }
    for name in ["name", "namespace"] {
        if let Some(value) = object["metadata"].get(name) {
            made["metadata"][name] = value.clone();
        }
    }
    made
}

/// Picks what a set of fields names. A list whose items have keys keeps those items; any other is taken as a whole.
fn owned_part(value: &Value, fields: &Value) -> Value {
    let owned: Vec<(&str, &Value)> = fields
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != ".")
        .map(|(name, below)| (name.as_str(), below))
        .collect();
    match value {
        Value::Object(there) if !owned.is_empty() => {
            let picked = owned.iter().filter_map(|(name, below)| {
                let name = name.strip_prefix("f:")?;
                Some((name.to_owned(), owned_part(there.get(name)?, below)))
            });
            Value::Object(picked.collect())
        }
        Value::Array(items) if owned.iter().any(|(name, _)| name.starts_with("k:")) => {
            let picked = items.iter().filter_map(|item| {
                let below = owned.iter().find_map(|(name, below)| {
                    let key: Value = serde_json::from_str(name.strip_prefix("k:")?).ok()?;
                    let is_it = key
                        .as_object()?
                        .iter()
                        .all(|(name, value)| item.get(name) == Some(value));
                    is_it.then_some(*below)
                })?;
                let mut part = owned_part(item, below);
                // What tells an item from the others may be there by default, and is needed to name it.
                for (name, _) in &owned {
                    let key = name
                        .strip_prefix("k:")
                        .and_then(|key| serde_json::from_str::<Value>(key).ok());
                    for name in key.iter().filter_map(Value::as_object).flat_map(Map::keys) {
                        if let Some(value) = item.get(name) {
                            part[name] = value.clone();
                        }
                    }
                }
                Some(part)
            });
            Value::Array(picked.collect())
        }
        whole => whole.clone(),
    }
}

/// No pin can say that an object lacks a whole part, such as its `spec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one version has a top-level field that another one lacks: no pin can hold that back")]
pub struct Unholdable;

/// What a pin is to keep, and from what.
#[derive(Debug)]
pub struct Keep<'a> {
    /// The template as it is live; its metadata decides which override policies are about it.
    pub template: &'a Value,
    /// Every content that the template has or may get while this pin stands.
    pub possible: Vec<&'a Value>,
    /// What clusters have that aren't named.
    pub stable: &'a Value,
    /// What clusters have that are named.
    pub left: BTreeMap<&'a ClusterName, &'a Value>,
    /// Clusters that get the template as it is.
    pub released: BTreeSet<&'a ClusterName>,
    /// The clusters that Karmada keeps Works for.
    pub synced: &'a [ClusterName],
    pub clusters: &'a BTreeMap<ClusterName, Cluster>,
    pub overrides: &'a Overrides,
    /// Namespace and name of the pin.
    pub pin: (Option<&'a str>, &'a str),
    /// The scheduler gives each cluster a number of replicas: that is none of the pin's.
    pub divided: bool,
}

impl Keep<'_> {
    /// Returns the rules: what a cluster has, whatever of the possible templates Karmada makes its Work from.
    ///
    /// A cluster in which override policies of others say something on the same fields has a rule of its own, so that they
    /// still say it. Every operation adds at a place whose parent is in all possible templates: none can fail.
    pub fn rules(&self) -> Result<Vec<PinnedRule>, Unholdable> {
        let possible: Vec<Value> = self
            .possible
            .iter()
            .map(|content| self.neutral(content))
            .collect();
        let stable = self.neutral(self.stable);
        let everywhere = overlay_from_any(&possible.iter().collect::<Vec<_>>(), &stable);
        let mut own: BTreeMap<String, (Vec<ClusterName>, Vec<PatchOp>)> = BTreeMap::new();
        let mut apart: BTreeSet<ClusterName> = self.released.iter().map(|name| (*name).clone()).collect();
        for name in self.synced.iter().filter(|name| !self.released.contains(name)) {
            let kept = match self.left.get(name) {
                Some(left) => &self.neutral(left),
                None => &stable,
            };
            let patches = self.patches(name, &possible, kept);
            if patches != everywhere {
                apart.insert(name.clone());
                let same = own.entry(format!("{patches:?}"));
                same.or_insert_with(|| (Vec::new(), patches)).0.push(name.clone());
            }
        }
        let mut rules = Vec::new();
        if !everywhere.is_empty() {
            rules.push(PinnedRule {
                all_but: Some(apart.into_iter().collect()),
                only: None,
                patches: everywhere,
            });
        }
        let own = own.into_values().filter(|(_, patches)| !patches.is_empty());
        rules.extend(own.map(|(names, patches)| PinnedRule {
            all_but: None,
            only: Some(names),
            patches,
        }));
        let mut patches = rules.iter().flat_map(|rule: &PinnedRule| &rule.patches);
        if patches.any(|patch| patch.path.is_empty()) {
            return Err(Unholdable);
        }
        Ok(rules)
    }

    /// Returns what turns each possible template, as others have overridden it there, into what is kept.
    fn patches(&self, cluster: &ClusterName, possible: &[Value], kept: &Value) -> Vec<PatchOp> {
        let there = |wanted: &Value| -> Option<Value> {
            let (wide, narrow) = others(self.overrides, self.pin.0, self.pin.1);
            let template = with_content(self.template, wanted);
            let made = overrides::effective(&template, self.clusters.get(cluster)?, &wide, &narrow);
            Some(content(&made.ok()?))
        };
        let all: Option<Vec<Value>> = possible.iter().map(there).collect();
        match (all, there(kept)) {
            (Some(all), Some(kept)) => overlay_from_any(&all.iter().collect::<Vec<_>>(), &kept),
            // What can't be applied there keeps everything from that cluster.
            _ => overlay_from_any(&possible.iter().collect::<Vec<_>>(), kept),
        }
    }

    /// Makes the number of replicas the live one, where it is the scheduler's.
    fn neutral(&self, content: &Value) -> Value {
        let mut content = content.clone();
        if !self.divided {
            return content;
        }
        for field in ["replicas", "parallelism"] {
            let live = self.template.get("spec").and_then(|spec| spec.get(field));
            if let Some(spec) = content.get_mut("spec").and_then(Value::as_object_mut) {
                match live {
                    Some(live) => drop(spec.insert(field.to_owned(), live.clone())),
                    None => drop(spec.remove(field)),
                }
            }
        }
        content
    }
}

/// Keeps the newest revisions, and those that are still needed.
pub fn trimmed(revisions: &mut Vec<RolloutRevision>, most: usize, needed: &[&str]) {
    let mut kept = 0;
    revisions.retain(|revision| {
        kept += 1;
        kept <= most || needed.contains(&revision.name.as_str())
    });
}

#[cfg(test)]
mod tests;
