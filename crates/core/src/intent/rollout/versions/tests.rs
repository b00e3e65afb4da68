use serde_json::json;

use super::*;
use cutover_karmada::{ClusterSpec, OverridePolicy};

fn template(spec: Value) -> Value {
    let mut template = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": "web", "labels": {"app": "web"}},
    });
    template["spec"] = spec;
    template
}

fn clusters() -> BTreeMap<ClusterName, Cluster> {
    ["east", "north", "west"]
        .map(|name| {
            (
                ClusterName::from(name),
                Cluster::new(name, ClusterSpec::default()),
            )
        })
        .into()
}

/// What a cluster gets of a template with these rules in force, after the override policies of others.
fn gets(rules: &[PinnedRule], cluster: &str, template: &Value, all: &Overrides) -> Value {
    let cluster_name = ClusterName::from(cluster);
    let known = Cluster::new(cluster, ClusterSpec::default());
    let made = overrides::effective(template, &known, &all.cluster_wide, &all.namespaced).unwrap();
    let mut made = content(&made);
    for rule in rules {
        let here = match (&rule.all_but, &rule.only) {
            (Some(others), _) => !others.contains(&cluster_name),
            (None, Some(these)) => these.contains(&cluster_name),
            (None, None) => false,
        };
        if here {
            let patch: json_patch::Patch =
                serde_json::from_value(serde_json::to_value(&rule.patches).unwrap()).unwrap();
            json_patch::patch(&mut made, &patch).unwrap();
        }
    }
    made
}

fn kept<'a>(
    live: &'a Value,
    possible: Vec<&'a Value>,
    stable: &'a Value,
    synced: &'a [ClusterName],
    clusters: &'a BTreeMap<ClusterName, Cluster>,
    overrides: &'a Overrides,
) -> Keep<'a> {
    Keep {
        template: live,
        possible,
        stable,
        left: BTreeMap::new(),
        released: BTreeSet::new(),
        synced,
        clusters,
        overrides,
        pin: (Some("shop"), "zzzz-cutover-web"),
        divided: false,
    }
}

#[test]
fn a_cluster_keeps_its_own_image_while_it_is_held() {
    let container = |image: &str| json!({"template": {"containers": [{"name": "web", "image": image}]}});
    let (old, new) = (template(container("web:1")), template(container("web:2")));
    let mirror: OverridePolicy = serde_json::from_value(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "mirror", "namespace": "shop"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "overrideRules": [{
            "targetCluster": {"clusterNames": ["west"]},
            "overriders": {"plaintext": [
                {"path": "/spec/template/containers/0/env", "operator": "add", "value": [{"name": "SITE", "value": "west"}]},
            ]},
        }]},
    }))
    .unwrap();
    let all = Overrides {
        namespaced: vec![mirror].into(),
        ..Overrides::default()
    };
    let clusters = clusters();
    let synced = ["east", "west"].map(ClusterName::from);
    let (stable, target) = (content(&old), content(&new));
    let rules = kept(&old, vec![&stable, &target], &stable, &synced, &clusters, &all)
        .rules()
        .unwrap();
    assert_eq!(rules.len(), 2, "{rules:#?}");
    for cluster in ["east", "west"] {
        let before = gets(&[], cluster, &old, &all);
        assert_eq!(gets(&rules, cluster, &old, &all), before, "{cluster}");
        assert_eq!(gets(&rules, cluster, &new, &all), before, "{cluster}");
    }
    // One that joins later isn't known, and is held at what the template was.
    assert_eq!(gets(&rules, "north", &new, &all), stable);
}

#[test]
fn the_scheduler_goes_on_dividing_replicas() {
    let of = |image: &str, replicas: i64| template(json!({"image": image, "replicas": replicas}));
    let (old, new) = (of("web:1", 4), of("web:2", 6));
    let clusters = clusters();
    let synced = [ClusterName::from("east")];
    let (stable, target) = (content(&old), content(&new));
    let all = Overrides::default();
    let keep = Keep {
        divided: true,
        ..kept(&old, vec![&stable, &target], &stable, &synced, &clusters, &all)
    };
    let rules = keep.rules().unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].patches, [PatchOp::add("/spec/image", "web:1")]);
}

#[test]
fn what_one_manager_applied_is_told_from_what_others_set() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "shop", "labels": {"app": "web", "policy": "x"},
            "managedFields": [
                {"manager": "cutover", "operation": "Apply", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:app": {}}},
                    "f:spec": {"f:image": {}, "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}}}},
                }},
                {"manager": "scaler", "operation": "Update", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ],
        },
        "spec": {"image": "web:1", "replicas": 3, "containers": [
            {"name": "a", "image": "a:1", "pullPolicy": "Always"}, {"name": "b", "image": "b:1"},
        ]},
    });
    assert_eq!(
        applied_by(&object, "cutover"),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"image": "web:1", "containers": [{"name": "a", "image": "a:1"}]},
        })
    );
}

mod whatever_the_template_is {
    use proptest::prelude::*;

    use super::*;

    fn spec() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![(0..3i32).prop_map(|n| json!(n)), Just(json!("a"))];
        let any = leaf.prop_recursive(3, 10, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
                prop::collection::btree_map("[ab/~]{1,2}", inner, 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        });
        any.prop_map(|spec| json!({"spec": spec}))
    }

    proptest! {
        #[test]
        fn a_held_cluster_has_what_it_had_and_a_released_one_what_the_template_is(
            contents in prop::collection::vec(spec(), 2..5), stable in 0..2usize, left in 0..2usize, live in 0..2usize,
        ) {
            let clusters = clusters();
            let all = Overrides::default();
            let synced = ["east", "north", "west"].map(ClusterName::from);
            let live = with_content(&template(json!({})), &contents[live]);
            let mut keep = kept(&live, contents.iter().collect(), &contents[stable], &synced, &clusters, &all);
            keep.left.insert(&synced[1], &contents[left]);
            keep.released.insert(&synced[2]);
            let rules = keep.rules().unwrap();
            for possible in &contents {
                let now = with_content(&live, possible);
                prop_assert_eq!(&gets(&rules, "east", &now, &all), &contents[stable]);
                prop_assert_eq!(&gets(&rules, "north", &now, &all), &contents[left]);
                prop_assert_eq!(&gets(&rules, "west", &now, &all), possible);
                prop_assert_eq!(&gets(&rules, "south", &now, &all), &contents[stable]);
            }
        }
    }
}
