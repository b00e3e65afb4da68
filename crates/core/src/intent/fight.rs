//! What a pin and the override policies of others do to each other. Of those that name a workload, the one whose name sorts
//! last wins.

use std::collections::BTreeMap;
use std::fmt;

use kube::core::ObjectMeta;
use serde_json::Value;

use super::control_plane::Overrides;
use super::effect::segment;
use super::pin::{Pin, lacking};
use crate::api::{Finding, MARKER_ANNOTATION, PatchOp, WorkloadProfileSpec};
use cutover_karmada::name::ClusterName;
use cutover_karmada::overrides::{self, Match, OverrideError, PolicyName};
use cutover_karmada::{Cluster, ClusterOverridePolicy, ClusterOverridePolicySpec, OverridePolicy};

/// What to do about a policy that undoes a pin.
pub const HINT: &str =
    "let it sort before zzzz-cutover-, or take its selector's name away, until the intent has ended";

/// One policy that doesn't let a pin have its way in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fight {
    pub policy: PolicyName,
    pub cluster: ClusterName,
    pub how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    /// It changes what the pin has set there.
    Undoes(String),
    /// It can't be applied, so that nothing new reaches the cluster.
    Blocks(String),
}

impl fmt::Display for Fight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, cluster, how } = self;
        match how {
            How::Undoes(path) => write!(
                f,
                "{policy} is applied after the pin and changes {path} in {cluster}"
            ),
            How::Blocks(why) => write!(f, "{policy} keeps everything from {cluster}: {why}"),
        }
    }
}

/// Returns the policies that undo a pin, cluster by cluster; the pin need not have been written. O(policies) for each cluster in
/// which none comes after the pin.
pub fn fights(
    pin: &Pin,
    template: &Value,
    clusters: &BTreeMap<ClusterName, Cluster>,
    all: &Overrides,
) -> Vec<Fight> {
    let (mut cluster_wide, mut namespaced) = others(all, pin.namespace.as_deref(), &pin.name);
    let narrow = pin.policy();
    let wide = as_wide(&narrow);
    if pin.namespace.is_some() {
        namespaced.push(&narrow);
    } else {
        cluster_wide.push(&wide);
    }
    let mut found = Vec::new();
    for (name, cluster) in clusters {
        let matches = overrides::matching(template, cluster, &cluster_wide, &namespaced);
        let is_pin =
            |rule: &Match<'_>| rule.policy.name == pin.name && rule.policy.namespace == pin.namespace;
        if matches.iter().all(is_pin) {
            continue;
        }
        // What comes before is the pin's to overwrite; it says something for every cluster.
        let until = matches.iter().rposition(is_pin).map_or(0, |last| last + 1);
        if let Some((policy, how)) = undone(template, cluster, &matches, until, &pin.says_in(name)) {
            found.push(Fight {
                policy,
                cluster: name.clone(),
                how,
            });
        }
    }
    found
}

/// Applies rule after rule, and returns the first that spoils what the pin has set.
fn undone(
    template: &Value,
    cluster: &Cluster,
    matches: &[Match<'_>],
    until: usize,
    says: &[PatchOp],
) -> Option<(PolicyName, How)> {
    let (up_to_pin, after) = matches.split_at(until);
    let mut manifest = template.clone();
    if let Err(error) = overrides::apply(&mut manifest, cluster, up_to_pin) {
        return Some((error.policy.clone(), How::Blocks(error.cause.to_string())));
    }
    let marker = format!("/metadata/annotations/{}", segment(MARKER_ANNOTATION));
    let paths: Vec<&str> = says
        .iter()
        .map(|patch| patch.path.as_str())
        .chain([marker.as_str()])
        .collect();
    let wanted: Vec<Option<Value>> = paths.iter().map(|path| manifest.pointer(path).cloned()).collect();
    for rule in after {
        if let Err(error) = overrides::apply(&mut manifest, cluster, std::slice::from_ref(rule)) {
            return Some((error.policy.clone(), How::Blocks(error.cause.to_string())));
        }
        let spoilt = paths
            .iter()
            .zip(&wanted)
            .find(|(path, wanted)| manifest.pointer(path) != wanted.as_ref());
        if let Some((path, _)) = spoilt {
            return Some((rule.policy.clone(), How::Undoes((*path).to_owned())));
        }
    }
    None
}

/// The code of what [`overwritten`] finds.
pub const OVERWRITTEN: &str = "ParentOverwritten";

/// Finds an override policy that sets, in some cluster, what a pin creates because the template lacks it: the pin would take that away.
///
/// `pin`: its namespace and name.
pub fn overwritten(
    template: &Value,
    profile: &WorkloadProfileSpec,
    clusters: &BTreeMap<ClusterName, Cluster>,
    all: &Overrides,
    pin: (Option<&str>, &str),
) -> Option<Finding> {
    let mut created = lacking(template, profile);
    created.retain(|path| profile.optional_parents.contains(path));
    if created.is_empty() {
        return None;
    }
    let (cluster_wide, namespaced) = others(all, pin.0, pin.1);
    clusters.iter().find_map(|(name, cluster)| {
        let mut manifest = template.clone();
        for rule in overrides::matching(template, cluster, &cluster_wide, &namespaced) {
            // One that can't be applied keeps everything from the cluster.
            overrides::apply(&mut manifest, cluster, std::slice::from_ref(&rule)).ok()?;
            let set = created.iter().find(|path| manifest.pointer(path).is_some());
            if let Some(path) = set {
                return Some(Finding::new(
                    OVERWRITTEN,
                    format!(
                        "{} sets {path} in {name}: the template lacks it, so a pin creates it, and would overwrite that",
                        rule.policy
                    ),
                    "add it to the template, empty if need be",
                ));
            }
        }
        None
    })
}

fn as_wide(policy: &OverridePolicy) -> ClusterOverridePolicy {
    ClusterOverridePolicy {
        metadata: policy.metadata.clone(),
        spec: ClusterOverridePolicySpec {
            spec: policy.spec.clone(),
        },
    }
}

/// Returns all policies but one.
pub(super) fn others<'a>(
    all: &'a Overrides,
    namespace: Option<&str>,
    name: &str,
) -> (Vec<&'a ClusterOverridePolicy>, Vec<&'a OverridePolicy>) {
    let is_other = |metadata: &ObjectMeta| {
        metadata.namespace.as_deref() != namespace || metadata.name.as_deref() != Some(name)
    };
    let wide = all
        .cluster_wide
        .iter()
        .filter(|policy| is_other(&policy.metadata));
    let narrow = all.namespaced.iter().filter(|policy| is_other(&policy.metadata));
    (wide.collect(), narrow.collect())
}

/// Returns whether a cluster gets something else when a pin goes, but for what may change.
pub fn removal_changes(
    template: &Value,
    cluster: &Cluster,
    all: &Overrides,
    namespace: Option<&str>,
    name: &str,
    ignored: &[String],
) -> Result<bool, OverrideError> {
    let (cluster_wide, namespaced) = others(all, namespace, name);
    let with = overrides::effective(template, cluster, &all.cluster_wide, &all.namespaced)?;
    let without = overrides::effective(template, cluster, &cluster_wide, &namespaced)?;
    Ok(differ(with, without, ignored))
}

/// Returns whether a cluster gets something else when a pin says less, but for what may change. `instead`: the pin as it is to
/// be.
pub fn change_matters(
    template: &Value,
    cluster: &Cluster,
    all: &Overrides,
    instead: &OverridePolicy,
    ignored: &[String],
) -> Result<bool, OverrideError> {
    let now = overrides::effective(template, cluster, &all.cluster_wide, &all.namespaced)?;
    let then = with_pin(template, cluster, all, instead)?;
    Ok(differ(now, then, ignored))
}

/// Returns what a cluster gets with a pin, whatever pin there is.
pub fn with_pin(
    template: &Value,
    cluster: &Cluster,
    all: &Overrides,
    pin: &OverridePolicy,
) -> Result<Value, OverrideError> {
    let namespace = pin.metadata.namespace.as_deref();
    let name = pin.metadata.name.as_deref().unwrap_or_default();
    let (mut cluster_wide, mut namespaced) = others(all, namespace, name);
    let wide = as_wide(pin);
    if namespace.is_some() {
        namespaced.push(pin);
    } else {
        cluster_wide.push(&wide);
    }
    overrides::effective(template, cluster, &cluster_wide, &namespaced)
}

/// Returns whether two manifests differ in anything but what is ignored, and the marker of a pin. Other annotations count: operators
/// go by some. What is empty without the ignored counts as ignored: a pin creates what a template lacks for a patch.
pub(super) fn differ(mut one: Value, mut other: Value, ignored: &[String]) -> bool {
    let marker = format!("/metadata/annotations/{}", segment(MARKER_ANNOTATION));
    for manifest in [&mut one, &mut other] {
        for pointer in ignored {
            remove(manifest, pointer);
            remove_empty_parents(manifest, pointer);
        }
        remove(manifest, &marker);
        // What a pin adds to a template without any leaves none as well.
        for map in ["/metadata/annotations", "/metadata/labels"] {
            let is_empty = |map: &Value| map.as_object().is_some_and(serde_json::Map::is_empty);
            if manifest.pointer(map).is_some_and(is_empty) {
                remove(manifest, map);
            }
        }
    }
    one != other
}

/// Whatever stands at the top of an object, such as `spec`, stays.
fn remove_empty_parents(manifest: &mut Value, pointer: &str) {
    let mut parent = pointer;
    while let Some((above, _)) = parent.rsplit_once('/') {
        parent = above;
        let is_kept = |there: &Value| there.as_object().is_none_or(|fields| !fields.is_empty());
        if parent.matches('/').count() < 2 || manifest.pointer(parent).is_some_and(is_kept) {
            return;
        }
        remove(manifest, parent);
    }
}

fn remove(manifest: &mut Value, pointer: &str) {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return;
    };
    if let Some(fields) = manifest.pointer_mut(parent).and_then(Value::as_object_mut) {
        fields.remove(&name.replace("~1", "/").replace("~0", "~"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::intent::pin::{Says, Token, Writer};
    use cutover_karmada::{ClusterSpec, OverridePolicy};

    fn pin(may_run: Writer) -> Pin {
        Pin {
            namespace: Some("shop".into()),
            name: "zzzz-cutover-orders".into(),
            owner_uid: "uid".into(),
            owner: "Migration shop/move".into(),
            api_version: "flink.apache.org/v1beta1".into(),
            versions: std::sync::Arc::default(),
            kind: "FlinkDeployment".into(),
            workload: "orders".into(),
            marker: "uid.1.1".into(),
            differences: Vec::new(),
            created: Vec::new(),
            says: Says::Token(Token {
                may_run,
                hold: vec![PatchOp::add("/spec/job/state", "suspended")],
                suspended: vec!["east".into()],
                suspend: vec![PatchOp::add("/spec/job/upgradeMode", "savepoint")],
                named: std::collections::BTreeMap::new(),
                carry: vec![PatchOp::add("/spec/job/initialSavepointPath", "s3://a")],
            }),
        }
    }

    fn policy(name: &str, selector: &str, cluster: &str, path: &str, value: &str) -> OverridePolicy {
        let mut selects = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment"});
        if !selector.is_empty() {
            selects["name"] = json!(selector);
        }
        serde_json::from_value(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"resourceSelectors": [selects], "overrideRules": [{
                "targetCluster": {"clusterNames": [cluster]},
                "overriders": {"plaintext": [{"path": path, "operator": "replace", "value": value}]},
            }]},
        }))
        .unwrap()
    }

    fn found(may_run: Writer, policy: OverridePolicy) -> Vec<String> {
        let template = json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"namespace": "shop", "name": "orders"},
            "spec": {"image": "a", "job": {"state": "running", "upgradeMode": "last-state"}},
        });
        let clusters = ["east", "north", "west"].map(|name| {
            (
                ClusterName::from(name),
                Cluster::new(name, ClusterSpec::default()),
            )
        });
        let all = Overrides {
            namespaced: vec![policy].into(),
            ..Overrides::default()
        };
        let fights = fights(&pin(may_run), &template, &BTreeMap::from(clusters), &all);
        fights.iter().map(Fight::to_string).collect()
    }

    const STATE: &str = "/spec/job/state";

    #[test]
    fn an_annotation_that_goes_with_a_pin_matters_and_its_marker_does_not() {
        let annotated = |annotations: Value| json!({"metadata": {"annotations": annotations}, "spec": {}});
        let bare = json!({"metadata": {}, "spec": {}});
        let marked = annotated(json!({MARKER_ANNOTATION: "uid.1.1"}));
        assert!(!differ(marked, bare.clone(), &[]));
        let paused = annotated(json!({MARKER_ANNOTATION: "uid.1.1", "example.org/paused": "true"}));
        assert!(differ(paused.clone(), bare.clone(), &[]));
        let ignored = ["/metadata/annotations/example.org~1paused".to_owned()];
        assert!(!differ(paused, bare, &ignored));
    }

    #[test]
    fn a_parent_that_was_created_for_what_is_ignored_goes_with_it_and_with_more_in_it_matters() {
        let ignored = ["/spec/runPolicy/suspend".to_owned()];
        let with = |run_policy: Value| json!({"spec": {"runPolicy": run_policy}});
        let bare = json!({"spec": {}});
        assert!(!differ(with(json!({"suspend": false})), bare.clone(), &ignored));
        assert!(!differ(
            with(json!({"suspend": false})),
            with(json!({})),
            &ignored
        ));
        let more = with(json!({"suspend": false, "cleanPodPolicy": "All"}));
        assert!(differ(more.clone(), bare.clone(), &ignored));
        assert!(differ(more, with(json!({})), &ignored));
        assert!(differ(with(json!({"suspend": false})), bare.clone(), &[]));
        // What else is empty may mean something.
        let standby = json!({"spec": {"standby": {}}});
        assert!(differ(standby, bare, &ignored));
    }

    #[test]
    fn what_another_policy_sets_where_a_pin_would_create_it_is_found() {
        let profile = WorkloadProfileSpec {
            optional_parents: vec!["/spec/ha".to_owned()],
            hold: vec![PatchOp::add("/spec/ha/held", true)],
            ..crate::profile::built_in().unwrap()[0].spec.clone()
        };
        let template = |spec: Value| {
            json!({
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
                "metadata": {"namespace": "shop", "name": "orders"}, "spec": spec,
            })
        };
        let mut sets = policy("ha", "orders", "west", "/spec/ha", "on");
        let plain = &mut sets.spec.override_rules[0].overriders.plaintext[0];
        plain.operator = cutover_karmada::Operator::Add;
        let all = Overrides {
            namespaced: vec![sets].into(),
            ..Overrides::default()
        };
        let found = |template: Value, clusters: &[&str], pin: &str| {
            let clusters = clusters.iter().map(|name| {
                let cluster = Cluster::new(name, ClusterSpec::default());
                (ClusterName::from(*name), cluster)
            });
            overwritten(
                &template,
                &profile,
                &clusters.collect(),
                &all,
                (Some("shop"), pin),
            )
        };
        let message = found(template(json!({})), &["east", "west"], "zzzz")
            .unwrap()
            .message;
        assert!(
            message.starts_with("OverridePolicy shop/ha sets /spec/ha in west:"),
            "{message}"
        );
        assert_eq!(found(template(json!({})), &["east"], "zzzz"), None);
        assert_eq!(found(template(json!({"ha": {}})), &["west"], "zzzz"), None);
        assert_eq!(
            found(template(json!({})), &["west"], "ha"),
            None,
            "the pin itself"
        );
    }

    #[test]
    fn only_a_policy_that_names_the_workload_and_sorts_after_the_pin_undoes_it() {
        let free = |name, selector| found(Writer::Nobody, policy(name, selector, "west", STATE, "running"));
        assert_eq!(
            free("zzzzz", "orders"),
            ["OverridePolicy shop/zzzzz is applied after the pin and changes /spec/job/state in west"]
        );
        assert!(free("zzzz-a", "orders").is_empty());
        assert!(free("zzzzz", "").is_empty());
        assert!(free("zzzzz", "invoices").is_empty());
    }

    #[test]
    fn the_writer_may_be_set_running_and_must_keep_the_state_that_it_is_given() {
        let west = || Writer::Only("west".into());
        assert!(found(west(), policy("zzzzz", "orders", "west", STATE, "running")).is_empty());
        assert_eq!(
            found(west(), policy("zzzzz", "orders", "east", STATE, "running")).len(),
            1
        );
        let path = "/spec/job/initialSavepointPath";
        assert_eq!(
            found(west(), policy("zzzzz", "orders", "west", path, "s3://b")).len(),
            1
        );
        assert!(found(west(), policy("zzzzz", "orders", "west", "/spec/image", "b")).is_empty());
    }

    #[test]
    fn one_that_says_the_same_or_is_about_something_else_is_no_fight() {
        assert!(
            found(
                Writer::Nobody,
                policy("zzzzz", "orders", "west", STATE, "suspended")
            )
            .is_empty()
        );
        assert!(
            found(
                Writer::Nobody,
                policy("zzzzz", "orders", "west", "/spec/image", "b")
            )
            .is_empty()
        );
    }

    #[test]
    fn one_that_cannot_be_applied_keeps_everything_from_its_cluster() {
        for name in ["aaa", "zzzzz"] {
            let found = found(
                Writer::Nobody,
                policy(name, "orders", "west", "/spec/nothing", "b"),
            );
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].starts_with(&format!("OverridePolicy shop/{name} keeps everything from west")));
        }
    }
}
