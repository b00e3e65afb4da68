//! What a pin says that keeps a workload as it is, whatever becomes of its template: everything that a template has of its own
//! is set whole, so that no change of it can be missed.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::api::{PatchOp, SuspensionPin};
use crate::intent::control_plane::Overrides;
use crate::intent::fight::others;
use crate::intent::pin::{Place, Rule};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, TargetCluster, overrides};

/// Returns whether a pin can hold all that a template may change: a field at the top that comes later can't be foreseen.
pub fn is_holdable(template: &Value) -> bool {
    let mut fields = template.as_object().into_iter().flat_map(Map::keys);
    template.get("spec").is_some()
        && fields.all(|name| {
            matches!(
                name.as_str(),
                "apiVersion" | "kind" | "metadata" | "status" | "spec"
            )
        })
}

/// Returns what of an object comes from its template. What Karmada and cutover note on it is taken from the template itself:
/// they note it anew on each copy.
pub fn kept(object: &Value, template: &Value) -> Value {
    let entries = |field: &str| -> Map<String, Value> {
        let of = |object: &Value, noted: bool| -> Vec<(String, Value)> {
            let entries = object["metadata"].get(field).and_then(Value::as_object);
            entries
                .into_iter()
                .flatten()
                .filter(|(key, _)| is_noted(key) == noted)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        of(object, false).into_iter().chain(of(template, true)).collect()
    };
    json!({"spec": object["spec"], "labels": entries("labels"), "annotations": entries("annotations")})
}

/// What a pin is made of.
#[derive(Debug)]
pub struct Keep<'a> {
    pub pin: &'a SuspensionPin,
    /// What the clusters get that aren't named.
    pub base: &'a Value,
    /// The clusters that changes are kept from; none: all.
    pub clusters: &'a [ClusterName],
    pub template: &'a Value,
    pub joined: &'a BTreeMap<ClusterName, Cluster>,
    pub overrides: &'a Overrides,
    /// Namespace and name of the pin.
    pub name: (Option<&'a str>, &'a str),
}

impl Keep<'_> {
    /// Returns the rules: one for all, also for clusters that are chosen or join later, and one for those that have something
    /// else by override policies of others, or by what the scheduler gave them.
    pub fn rules(&self) -> Vec<Rule> {
        let mut own: BTreeMap<String, (Vec<ClusterName>, Value)> = BTreeMap::new();
        let mut named: Vec<&ClusterName> = self.joined.keys().chain(&self.pin.held).collect();
        named.sort();
        named.dedup();
        let meant = |name: &&ClusterName| self.clusters.is_empty() || self.clusters.contains(name);
        for name in named.into_iter().filter(meant) {
            let there = self.there(name);
            if there != *self.base {
                let same = own.entry(there.to_string());
                same.or_insert_with(|| (Vec::new(), there)).0.push(name.clone());
            }
        }
        let apart: Vec<ClusterName> = own.values().flat_map(|(names, _)| names.clone()).collect();
        let place = if self.clusters.is_empty() {
            let mut apart = apart;
            apart.sort();
            Some(Place::AllBut(apart))
        } else {
            let mut rest = self.clusters.to_vec();
            rest.retain(|name| !apart.contains(name));
            rest.sort();
            rest.dedup();
            Some(Place::Only(rest)).filter(|place| *place != Place::Only(Vec::new()))
        };
        let everywhere = place.map(|place| Rule {
            place,
            patches: patches(self.base),
        });
        let own = own.into_values().map(|(names, there)| Rule {
            place: Place::Only(names),
            patches: patches(&there),
        });
        everywhere.into_iter().chain(own).collect()
    }

    fn there(&self, name: &ClusterName) -> Value {
        if let Some(kept) = self.pin.kept.get(name) {
            return kept.clone();
        }
        let Some(cluster) = self.joined.get(name).filter(|_| !self.pin.held.contains(name)) else {
            return self.base.clone();
        };
        let (wide, narrow) = others(self.overrides, self.name.0, self.name.1);
        let was = as_template(self.template, self.base);
        match overrides::effective(&was, cluster, &wide, &narrow) {
            Ok(made) => kept(&made, &was),
            // What can't be applied there keeps everything from that cluster.
            Err(_) => self.base.clone(),
        }
    }
}

/// Returns what a cluster would get if there were no pin; `None` where an override policy of others can't be applied.
pub fn without_pin(
    template: &Value,
    target: &TargetCluster,
    cluster: &Cluster,
    all: &Overrides,
    name: (Option<&str>, &str),
) -> Option<Value> {
    let mut template = template.clone();
    if let Some(replicas) = template.pointer_mut("/spec/replicas")
        && target.replicas > 0
    {
        *replicas = target.replicas.into();
    }
    let (wide, narrow) = others(all, name.0, name.1);
    overrides::effective(&template, cluster, &wide, &narrow).ok()
}

fn as_template(template: &Value, base: &Value) -> Value {
    let mut made = json!({
        "apiVersion": template["apiVersion"], "kind": template["kind"], "metadata": template["metadata"],
        "spec": base["spec"],
    });
    made["metadata"]["labels"] = base["labels"].clone();
    made["metadata"]["annotations"] = base["annotations"].clone();
    made
}

/// What adds at a place whose parent every object has can't fail.
fn patches(kept: &Value) -> Vec<PatchOp> {
    vec![
        PatchOp::add("/spec", kept["spec"].clone()),
        PatchOp::add("/metadata/labels", kept["labels"].clone()),
        PatchOp::add("/metadata/annotations", kept["annotations"].clone()),
    ]
}

fn is_noted(key: &str) -> bool {
    key.split('/')
        .next()
        .is_some_and(|domain| domain.ends_with("karmada.io") || domain == crate::api::GROUP)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn template(image: &str, label: &str) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "shop", "labels": {"team": label, "x.karmada.io/id": "1"},
                "annotations": {"note": label},
            },
            "spec": {"replicas": 2, "image": image},
        })
    }

    fn cluster(name: &str) -> Cluster {
        serde_json::from_value(json!({
            "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"syncMode": "Push"},
        }))
        .unwrap()
    }

    fn applied(rules: &[Rule], name: &str, template: &Value) -> Value {
        let mut object = template.clone();
        let name = ClusterName::new(name);
        for rule in rules {
            let here = match &rule.place {
                Place::AllBut(others) => !others.contains(&name),
                Place::Only(these) => these.contains(&name),
            };
            if here {
                let patch = serde_json::to_value(&rule.patches).unwrap();
                let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
                json_patch::patch(&mut object, &patch).unwrap();
            }
        }
        object
    }

    #[test]
    fn only_what_is_made_of_a_spec_can_be_held() {
        assert!(is_holdable(&template("web:1", "a")));
        assert!(!is_holdable(
            &json!({"kind": "ConfigMap", "metadata": {}, "data": {}})
        ));
        assert!(!is_holdable(
            &json!({"kind": "Odd", "metadata": {}, "spec": {}, "more": {}})
        ));
    }

    #[test]
    fn a_cluster_that_joins_later_keeps_what_the_others_keep_as_its_override_policies_have_it() {
        let was = template("web:1", "a");
        let base = kept(&was, &was);
        let pin = SuspensionPin {
            held: vec![ClusterName::new("east")],
            ..SuspensionPin::default()
        };
        let joined: BTreeMap<ClusterName, Cluster> = ["east", "new"]
            .into_iter()
            .map(|name| (ClusterName::new(name), cluster(name)))
            .collect();
        let theirs = serde_json::from_value(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": "mirror", "namespace": "shop"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}],
                "overrideRules": [{"overriders": {"plaintext": [
                    {"path": "/spec/image", "operator": "replace", "value": "mirror/web:1"},
                ]}}],
            },
        }))
        .unwrap();
        let overrides = Overrides {
            namespaced: vec![theirs].into(),
            ..Overrides::default()
        };
        let now = template("web:2", "b");
        let keep = Keep {
            pin: &pin,
            base: &base,
            clusters: &[],
            template: &now,
            joined: &joined,
            overrides: &overrides,
            name: (Some("shop"), "zzzz"),
        };
        let rules = keep.rules();
        assert_eq!(applied(&rules, "east", &now)["spec"]["image"], "web:1");
        assert_eq!(applied(&rules, "new", &now)["spec"]["image"], "mirror/web:1");
        assert_eq!(applied(&rules, "unknown", &now)["spec"]["image"], "web:1");
    }

    proptest! {
        /// Whatever becomes of the template, the clusters that are meant get what they had, and no other cluster does.
        #[test]
        fn no_change_of_the_template_gets_past_the_rules(
            image in "[a-c]", label in "[a-c]", replicas in 0..4_i64,
            clusters in prop::collection::btree_set("[x-z]", 0..3),
            apart in prop::collection::btree_set("[x-z]", 0..3),
        ) {
            let was = template("was", "was");
            let base = kept(&was, &was);
            let names = ["x", "y", "z"].map(ClusterName::new);
            let mut pin = SuspensionPin { held: names.to_vec(), ..SuspensionPin::default() };
            let mut own = base.clone();
            own["spec"]["replicas"] = 7.into();
            for name in &apart {
                pin.kept.insert(ClusterName::new(name), own.clone());
            }
            let meant: Vec<ClusterName> = clusters.iter().map(ClusterName::new).collect();
            let mut now = template(&image, &label);
            now["spec"]["replicas"] = replicas.into();
            let joined: BTreeMap<ClusterName, Cluster> = names.iter().map(|name| (name.clone(), cluster(name.as_str()))).collect();
            let keep = Keep {
                pin: &pin, base: &base, clusters: &meant, template: &now, joined: &joined,
                overrides: &Overrides::default(), name: (Some("shop"), "zzzz"),
            };
            let rules = keep.rules();
            for name in ["x", "y", "z"] {
                let got = applied(&rules, name, &now);
                if meant.is_empty() || clusters.contains(name) {
                    let wanted = if apart.contains(name) { &own } else { &base };
                    prop_assert_eq!(&kept(&got, &got), wanted);
                } else {
                    prop_assert_eq!(&got, &now);
                }
            }
        }
    }
}
