//! What a template lacks for the patches of a pin, and the pin creates before it patches.
//!
//! An override policy has no condition: what it creates replaces what the template has there. So the journal says what is created, and
//! when the template changes, it says something else under another sequence. Until the pin of that sequence is written, a copy is held or
//! runs as before, and lacks only what the template got below the parent. A pin that doesn't create what the template has lost can't be
//! applied, and changes no Work.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Rule;
use crate::api::{PatchOp, WorkloadProfileSpec};
use crate::profile::{is_item, why_not_created};
use cutover_karmada::{Operator, OverridePolicy};

/// Returns what a template lacks for the patches of a profile, and a pin may create: its optional parents, and fields that are to be
/// removed. What stands in something else that is created comes after it.
pub fn lacking(template: &Value, profile: &WorkloadProfileSpec) -> Vec<String> {
    let parents = profile.optional_parents.iter();
    let parents = parents.filter(|path| why_not_created(profile, path).is_none());
    let patches = profile.patches().filter(|patch| patch.op == "remove");
    let removed = patches.map(|patch| &patch.path).filter(|path| is_field(path));
    let lacks: BTreeSet<&String> = parents
        .chain(removed)
        .filter(|path| template.pointer(path).is_none())
        .collect();
    lacks.into_iter().cloned().collect()
}

/// Labels and annotations are removed tolerantly by their own overriders, and an item that is added to a list moves the others.
fn is_field(path: &str) -> bool {
    let last = path.rsplit('/').next().unwrap_or_default();
    path.starts_with('/') && !path.starts_with("/metadata/") && !is_item(last)
}

/// Returns the rules of a token so that each creates what its patches need: first, and where no rule before it has set something there.
pub(super) fn creating(rules: Vec<Rule>, created: &[String]) -> Vec<Rule> {
    let mut made: Vec<Rule> = Vec::with_capacity(rules.len());
    for rule in rules {
        let is_due = |path: &&String| {
            let gone = rule.patches.iter().any(|patch| removes(patch, path));
            let is_there = made.iter().any(|before| sets(before, &rule, path));
            gone || is_needed_by(&rule.patches, path) && !is_there
        };
        let due = created.iter().filter(is_due);
        let first: Vec<PatchOp> = due.map(|path| PatchOp::add(path, json!({}))).collect();
        made.push(Rule {
            patches: [&first[..], &rule.patches[..]].concat(),
            place: rule.place,
        });
    }
    made
}

/// Returns whether in every cluster of a rule an earlier one has set a path, or something in it.
fn sets(before: &Rule, rule: &Rule, path: &str) -> bool {
    let mut patches = before.patches.iter().filter(|patch| patch.op != "remove");
    before.place.covers(&rule.place) && patches.any(|patch| has(patch, path))
}

/// Returns whether a path is there with what a patch adds.
fn has(patch: &PatchOp, path: &str) -> bool {
    let rest = path.strip_prefix(patch.path.as_str());
    let has_inside = |rest: &str| {
        let value = patch.value.as_ref();
        rest.is_empty() || rest.starts_with('/') && value.is_some_and(|value| value.pointer(rest).is_some())
    };
    rest.is_some_and(has_inside) || is_below(&patch.path, path)
}

fn removes(patch: &PatchOp, path: &str) -> bool {
    patch.op == "remove" && patch.path == path
}

/// Returns whether patches are below a path.
fn is_needed_by(patches: &[PatchOp], path: &str) -> bool {
    patches.iter().any(|patch| is_below(&patch.path, path))
}

fn is_below(path: &str, parent: &str) -> bool {
    let rest = path.strip_prefix(parent);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Returns what a pin in the API server creates for the patches of these rules.
pub(super) fn created_by(live: &OverridePolicy, rules: &[Rule]) -> Vec<String> {
    let patches: Vec<PatchOp> = rules.iter().flat_map(|rule| rule.patches.clone()).collect();
    let empty = json!({});
    let rules = live.spec.override_rules.iter();
    let adds = rules
        .flat_map(|rule| &rule.overriders.plaintext)
        .filter(|patch| patch.operator == Operator::Add && patch.value == empty);
    // What a profile itself adds empty is no parent that was created for it.
    let is_own = |path: &str| {
        let mut adds = patches.iter().filter(|patch| patch.op == "add");
        adds.any(|patch| patch.path == path && patch.value.as_ref() == Some(&empty))
    };
    let is_for_these = |path: &&String| {
        let gone = patches.iter().any(|patch| removes(patch, path));
        !is_own(path) && (gone || is_needed_by(&patches, path))
    };
    let created: BTreeSet<&String> = adds.map(|patch| &patch.path).filter(is_for_these).collect();
    created.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::super::{Authority, Pin, PinWrite, Place, Says, Token, Writer, marker};
    use super::*;
    use crate::profile::built_in;
    use cutover_karmada::name::ClusterName;
    use cutover_karmada::{Cluster, ClusterOverridePolicy, ClusterSpec, overrides};

    const PARENT: &str = "/spec/runPolicy";

    fn training() -> WorkloadProfileSpec {
        let mut all = built_in().unwrap().iter();
        let named = all.find(|profile| profile.metadata.name.as_deref() == Some("kubeflow-training"));
        WorkloadProfileSpec {
            optional_parents: vec![PARENT.to_owned()],
            ..named.unwrap().spec.clone()
        }
    }

    fn template(spec: Value) -> Value {
        json!({
            "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
            "metadata": {"namespace": "shop", "name": "train"}, "spec": spec,
        })
    }

    fn pin(writer: Option<&str>, created: &[&str]) -> Pin {
        let profile = training();
        Pin {
            namespace: Some("shop".into()),
            name: "zzzz-cutover-train".into(),
            owner_uid: "uid".into(),
            owner: "Migration shop/move".into(),
            api_version: "kubeflow.org/v1".into(),
            versions: Arc::default(),
            kind: "PyTorchJob".into(),
            workload: "train".into(),
            marker: marker("uid", 1, 2),
            differences: Vec::new(),
            created: created.iter().map(|path| (*path).to_owned()).collect(),
            says: Says::Token(Token {
                may_run: writer.map_or(Writer::Nobody, |writer| Writer::Only(writer.into())),
                hold: profile.hold,
                suspended: vec!["east".into()],
                suspend: profile.suspend,
                named: BTreeMap::new(),
                carry: profile.start,
            }),
        }
    }

    fn copy(pin: &Pin, cluster: &str, spec: Value) -> Result<Value, String> {
        let none: [ClusterOverridePolicy; 0] = [];
        let cluster = Cluster::new(cluster, ClusterSpec::default());
        let made = overrides::effective(&template(spec), &cluster, &none, &[pin.policy()]);
        made.map(|made| made["spec"].clone())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn only_what_a_template_lacks_is_created() {
        let profile = training();
        assert_eq!(lacking(&template(json!({})), &profile), [PARENT]);
        for there in [json!({}), json!({"cleanPodPolicy": "All"}), json!(null)] {
            assert_eq!(lacking(&template(json!({"runPolicy": there})), &profile), [""; 0]);
        }
        let mut strict = profile;
        strict.optional_parents.clear();
        assert_eq!(lacking(&template(json!({})), &strict), [""; 0]);
    }

    /// In the cluster that stops, the hold has set something in the parent already.
    #[test]
    fn each_copy_gets_the_parent_with_what_is_patched_into_it_and_no_more() {
        let nobody = pin(None, &[PARENT]);
        for cluster in ["east", "west", "north"] {
            let held = json!({"runPolicy": {"suspend": true}});
            assert_eq!(copy(&nobody, cluster, json!({})).unwrap(), held);
        }
        let west = pin(Some("west"), &[PARENT]);
        assert_eq!(
            copy(&west, "west", json!({})).unwrap(),
            json!({"runPolicy": {"suspend": false}})
        );
        assert!(
            copy(&pin(None, &[]), "west", json!({})).is_err(),
            "Karmada refuses it"
        );
        let mut bare = pin(Some("west"), &[PARENT]);
        if let Says::Token(token) = &mut bare.says {
            token.carry.clear();
        }
        assert_eq!(copy(&bare, "west", json!({})).unwrap(), json!({}));
    }

    /// Until the pin says something else, what the template got there later is missing; nobody is let go.
    #[test]
    fn what_a_template_gets_later_reaches_copies_with_a_pin_that_creates_nothing() {
        let later = json!({"runPolicy": {"cleanPodPolicy": "All"}});
        let held = json!({"runPolicy": {"suspend": true}});
        assert_eq!(copy(&pin(None, &[PARENT]), "west", later.clone()).unwrap(), held);
        let whole = json!({"runPolicy": {"cleanPodPolicy": "All", "suspend": true}});
        assert_eq!(copy(&pin(None, &[]), "west", later).unwrap(), whole);
    }

    #[test]
    fn what_a_rule_before_has_set_is_not_created_again() {
        let rule = |place: Place, paths: &[&str]| Rule {
            place,
            patches: paths.iter().map(|path| PatchOp::add(*path, 1)).collect(),
        };
        let only = |name: &str| Place::Only(vec![ClusterName::from(name)]);
        let created = ["/spec/a".to_owned(), "/spec/b".to_owned(), "/spec/b/c".to_owned()];
        let rules = vec![
            rule(Place::AllBut(vec!["west".into()]), &["/spec/a/x"]),
            rule(only("east"), &["/spec/a/y", "/spec/b/c/z"]),
            rule(only("west"), &["/spec/a/x"]),
        ];
        let made = creating(rules, &created);
        let paths: Vec<Vec<&str>> = made
            .iter()
            .map(|rule| rule.patches.iter().map(|patch| patch.path.as_str()).collect())
            .collect();
        assert_eq!(
            paths,
            [
                vec!["/spec/a", "/spec/a/x"],
                vec!["/spec/b", "/spec/b/c", "/spec/a/y", "/spec/b/c/z"],
                vec!["/spec/a", "/spec/a/x"],
            ]
        );
    }

    #[test]
    fn what_a_profile_itself_adds_empty_was_not_created_for_it() {
        let mut own = pin(None, &[]);
        if let Says::Token(token) = &mut own.says {
            token.hold = vec![
                PatchOp::add("/spec/own", json!({})),
                PatchOp::add("/spec/own/held", true),
            ];
        }
        assert_eq!(created_by(&own.policy(), &own.says.rules()), [""; 0]);
    }

    #[test]
    fn a_field_that_is_to_be_removed_may_be_absent() {
        let remove = |path: &str| PatchOp {
            op: "remove".to_owned(),
            path: path.to_owned(),
            value: None,
        };
        let mut profile = training();
        profile.hold = vec![
            remove("/spec/running"),
            PatchOp::add("/spec/runStrategy", "Halted"),
        ];
        profile.suspend = vec![remove("/spec/items/0"), remove("/metadata/labels/a")];
        let created = lacking(&template(json!({"runPolicy": {}})), &profile);
        assert_eq!(created, ["/spec/running"]);
        let mut held = pin(None, &["/spec/running"]);
        if let Says::Token(token) = &mut held.says {
            token.hold = profile.hold;
            token.suspended.clear();
        }
        let halted = json!({"runStrategy": "Halted"});
        assert_eq!(copy(&held, "west", json!({})).unwrap(), halted);
        // One that comes later is removed all the same.
        assert_eq!(copy(&held, "west", json!({"running": true})).unwrap(), halted);
    }

    /// The proofs that let a copy run are about a pin that holds everybody, whatever the template lacked when that was written.
    #[test]
    fn another_wording_of_a_pin_lets_nobody_run_and_another_pin_does() {
        let live = pin(None, &[PARENT]);
        let reworded = pin(None, &[]);
        assert!(!reworded.is_written_as(&live.policy()));
        assert!(reworded.is_written_but_for_what_it_creates(&live.policy()));
        assert!(live.is_written_but_for_what_it_creates(&reworded.policy()));
        for (there, wanted) in [(&live, &reworded), (&reworded, &live)] {
            let there = there.policy();
            assert!(PinWrite::new(wanted, Some(&there), Authority::Nobody).is_ok());
        }
        let west = pin(Some("west"), &[]);
        assert!(!west.is_written_but_for_what_it_creates(&live.policy()));
        assert!(PinWrite::new(&west, Some(&live.policy()), Authority::Nobody).is_err());
        let same = pin(Some("west"), &[PARENT]);
        assert!(PinWrite::new(&west, Some(&same.policy()), Authority::Nobody).is_ok());
    }
}
