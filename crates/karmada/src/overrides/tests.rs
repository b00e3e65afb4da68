#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!` at the place of use reads best"
)]

use serde_json::{Value, json};

use super::*;

fn cluster(name: &str) -> Cluster {
    from(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {"site": name}},
        "spec": {"syncMode": "Push", "region": "eu", "zones": ["a", "b"]},
    }))
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn flink() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop", "labels": {"app": "orders"}},
        "spec": {"job": {"state": "running", "parallelism": 2}},
    })
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": {"spec": {"containers": [
            {"name": "web", "image": "team/web:1", "args": ["--a", "--b"]},
            {"name": "side", "image": "registry.example/side"},
        ]}}},
    })
}

fn policy(name: &str, selectors: Value, rules: Value) -> OverridePolicy {
    from(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"resourceSelectors": selectors, "overrideRules": rules},
    }))
}

fn wide(name: &str, selectors: Value, rules: Value) -> ClusterOverridePolicy {
    from(json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterOverridePolicy",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors, "overrideRules": rules},
    }))
}

fn by_name() -> Value {
    json!([{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"}])
}

fn by_kind() -> Value {
    json!([{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment"}])
}

fn by_label() -> Value {
    json!([{"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "labelSelector": {"matchLabels": {"app": "orders"}}}])
}

fn set_parallelism(to: i32) -> Value {
    json!([{"overriders": {"plaintext": [{"operator": "add", "path": "/spec/job/parallelism", "value": to}]}}])
}

const NO_WIDE: &[ClusterOverridePolicy] = &[];

fn parallelism(namespaced: &[OverridePolicy], cluster_wide: &[ClusterOverridePolicy]) -> i64 {
    effective(&flink(), &cluster("east"), cluster_wide, namespaced).unwrap()["spec"]["job"]["parallelism"]
        .as_i64()
        .unwrap()
}

#[test]
fn a_selector_by_name_beats_the_others_whatever_the_policies_are_called() {
    let named = policy("aaa", by_name(), set_parallelism(1));
    let all = policy("zzz", by_kind(), set_parallelism(2));
    let labelled = policy("yyy", by_label(), set_parallelism(3));
    let none = policy("xxx", json!([]), set_parallelism(4));
    assert_eq!(
        parallelism(&[named, all.clone(), labelled.clone(), none.clone()], NO_WIDE),
        1
    );
    assert_eq!(parallelism(&[all.clone(), labelled, none.clone()], NO_WIDE), 3);
    assert_eq!(parallelism(&[none, all], NO_WIDE), 2);
}

#[test]
fn among_selectors_by_name_the_later_name_wins() {
    let ours = policy("zz-cutover-orders", by_name(), set_parallelism(1));
    let user = policy("zzz-user", by_name(), set_parallelism(2));
    assert_eq!(parallelism(&[user.clone(), ours.clone()], NO_WIDE), 2);
    let matches = [ours, user];
    let matches = matching(&flink(), &cluster("east"), NO_WIDE, &matches);
    assert_eq!(strongest_first(&matches)[0].name, "zzz-user");
}

#[test]
fn a_cluster_override_policy_by_name_loses_to_any_override_policy() {
    let wide = wide("zzz", by_name(), set_parallelism(1));
    let narrow = policy("aaa", by_kind(), set_parallelism(2));
    assert_eq!(parallelism(&[narrow], &[wide]), 2);
}

#[test]
fn policies_of_other_namespaces_do_not_apply_and_a_cluster_scoped_template_gets_cluster_policies_only() {
    let mut foreign = policy("p", json!([]), set_parallelism(9));
    foreign.metadata.namespace = Some("elsewhere".into());
    assert_eq!(parallelism(&[foreign], NO_WIDE), 2);

    let role = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x"}});
    let label =
        json!([{"overriders": {"labelsOverrider": [{"operator": "add", "value": {"by": "policy"}}]}}]);
    let narrow = [policy("p", json!([]), label.clone())];
    assert_eq!(
        effective(&role, &cluster("east"), NO_WIDE, &narrow).unwrap(),
        role
    );
    let wide = [wide("p", json!([]), label)];
    let got = effective::<_, OverridePolicy>(&role, &cluster("east"), &wide, &[]).unwrap();
    assert_eq!(got["metadata"]["labels"]["by"], "policy");
}

#[test]
fn target_cluster_means_names_without_exclusions_and_nothing_given_means_everywhere() {
    let hits = |target: Value| {
        let rule = json!([{"targetCluster": target, "overriders": {}}]);
        let policies = [policy("p", by_name(), rule)];
        ["east", "west", "north"]
            .into_iter()
            .filter(|name| !matching(&flink(), &cluster(name), NO_WIDE, &policies).is_empty())
            .collect::<Vec<_>>()
    };
    let everywhere = vec!["east", "west", "north"];
    assert_eq!(hits(json!({"exclude": ["east"]})), ["west", "north"]);
    assert_eq!(hits(json!({})), everywhere);
    assert_eq!(hits(json!(null)), everywhere);
    assert_eq!(hits(json!({"exclude": []})), everywhere);
    assert_eq!(hits(json!({"exclude": null})), everywhere);
    assert_eq!(hits(json!({"clusterNames": []})), everywhere);
    assert_eq!(hits(json!({"exclude": ["unknown"]})), everywhere);
    assert_eq!(
        hits(json!({"clusterNames": ["east", "west"], "exclude": ["east"]})),
        ["west"]
    );
    assert_eq!(
        hits(json!({"labelSelector": {"matchLabels": {"site": "north"}}})),
        ["north"]
    );
}

#[test]
fn field_selectors_know_provider_region_and_several_zones() {
    let hits = |key: &str, operator: &str, values: Value| {
        let expression = json!([{"key": key, "operator": operator, "values": values}]);
        let rule =
            json!([{"targetCluster": {"fieldSelector": {"matchExpressions": expression}}, "overriders": {}}]);
        !matching(
            &flink(),
            &cluster("east"),
            NO_WIDE,
            &[policy("p", by_name(), rule)],
        )
        .is_empty()
    };
    assert!(hits("region", "In", json!(["eu"])));
    assert!(!hits("region", "NotIn", json!(["eu"])));
    assert!(hits("zone", "In", json!(["b", "z"])));
    assert!(!hits("zone", "NotIn", json!(["b", "z"])));
    assert!(hits("provider", "DoesNotExist", json!([])));
    assert!(!hits("zone", "Gt", json!(["1"])));
}

#[test]
fn rules_of_one_policy_are_applied_in_order() {
    let rules = json!([
        {"overriders": {"plaintext": [{"operator": "add", "path": "/spec/job/parallelism", "value": 5}]}},
        {"targetCluster": {"clusterNames": ["east"]},
         "overriders": {"plaintext": [{"operator": "replace", "path": "/spec/job/parallelism", "value": 6}]}},
    ]);
    assert_eq!(parallelism(&[policy("p", by_name(), rules)], NO_WIDE), 6);
}

#[test]
fn the_deprecated_single_rule_is_read_only_without_rules() {
    let single = |rules: Value| -> OverridePolicy {
        from(json!({
            "metadata": {"name": "p", "namespace": "shop"},
            "spec": {
                "resourceSelectors": by_name(),
                "overrideRules": rules,
                "targetCluster": {"clusterNames": ["east"]},
                "overriders": {"plaintext": [{"operator": "add", "path": "/spec/job/parallelism", "value": 7}]},
            },
        }))
    };
    assert_eq!(parallelism(&[single(json!([]))], NO_WIDE), 7);
    assert_eq!(parallelism(&[single(set_parallelism(8))], NO_WIDE), 8);
}

#[test]
fn add_overwrites_but_needs_a_parent_and_replace_and_remove_need_the_value() {
    let outcome = |operator: &str, path: &str| {
        let rules =
            json!([{"overriders": {"plaintext": [{"operator": operator, "path": path, "value": "x"}]}}]);
        effective(
            &flink(),
            &cluster("east"),
            NO_WIDE,
            &[policy("p", by_name(), rules)],
        )
        .map_err(|e| *e.cause)
    };
    assert_eq!(
        outcome("add", "/spec/job/state").unwrap()["spec"]["job"]["state"],
        "x"
    );
    assert!(outcome("add", "/spec/job/new").is_ok());
    for (operator, path) in [
        ("add", "/spec/missing/new"),
        ("replace", "/spec/job/new"),
        ("remove", "/spec/job/new"),
    ] {
        assert!(
            matches!(outcome(operator, path), Err(Cause::Patch { .. })),
            "{operator} {path}"
        );
    }
}

#[test]
fn an_error_names_the_policy_and_the_cluster() {
    let rules = json!([{"overriders": {"plaintext": [{"operator": "remove", "path": "/spec/no"}]}}]);
    let error = effective(
        &flink(),
        &cluster("east"),
        NO_WIDE,
        &[policy("p", by_name(), rules)],
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("cannot apply OverridePolicy shop/p in cluster east: remove /spec/no: ")
    );
}

#[test]
fn labels_and_annotations_are_made_when_missing_and_a_missing_key_is_no_error() {
    let rules = json!([{"overriders": {
        "annotationsOverrider": [{"operator": "add", "value": {"cutover.dev/pin": "u.1.7"}},
                                 {"operator": "replace", "value": {"none": "x"}}],
        "labelsOverrider": [{"operator": "remove", "value": {"none": "x", "app": ""}}],
    }}]);
    let got = effective(
        &flink(),
        &cluster("east"),
        NO_WIDE,
        &[policy("p", by_name(), rules)],
    )
    .unwrap();
    assert_eq!(
        got["metadata"]["annotations"],
        json!({"cutover.dev/pin": "u.1.7"})
    );
    assert_eq!(got["metadata"]["labels"], json!({}));
}

#[test]
fn images_are_changed_by_their_parts_in_every_container_or_at_one_path() {
    let images = |overrider: Value| {
        let manifest = {
            let mut manifest = deployment();
            apply_overriders(&mut manifest, &from(json!({"imageOverrider": [overrider]}))).map(|()| manifest)
        };
        manifest.map(|manifest| {
            let containers = manifest["spec"]["template"]["spec"]["containers"].clone();
            format!(
                "{} {}",
                containers[0]["image"].as_str().unwrap(),
                containers[1]["image"].as_str().unwrap()
            )
        })
    };
    let registry = json!({"component": "Registry", "operator": "add", "value": "mirror.example"});
    assert_eq!(
        images(registry).unwrap(),
        "mirror.example/team/web:1 registry.examplemirror.example/side"
    );
    let tag = json!({"component": "Tag", "operator": "replace", "value": "2",
                     "predicate": {"path": "/spec/template/spec/containers/0/image"}});
    assert_eq!(images(tag).unwrap(), "team/web:2 registry.example/side");
    let missing = json!({"component": "Tag", "operator": "remove", "predicate": {"path": "/spec/image"}});
    assert_eq!(
        images(missing),
        Err(Cause::Image {
            path: "/spec/image".into()
        })
    );
    let mut flink = flink();
    let overriders = from(json!({"imageOverrider": [{"component": "Tag", "operator": "remove"}]}));
    assert_eq!(
        apply_overriders(&mut flink, &overriders),
        Ok(()),
        "a kind without known containers is left alone"
    );
}

#[test]
fn command_and_args_are_changed_in_the_named_container() {
    let mut manifest = deployment();
    let overriders = from(json!({
        "commandOverrider": [{"containerName": "web", "operator": "add", "value": ["run"]}],
        "argsOverrider": [{"containerName": "web", "operator": "remove", "value": ["--a"]},
                          {"containerName": "web", "operator": "add", "value": ["--c"]}],
    }));
    apply_overriders(&mut manifest, &overriders).unwrap();
    let containers = &manifest["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["command"], json!(["run"]));
    assert_eq!(containers[0]["args"], json!(["--b", "--c"]));
    assert_eq!(containers[1].get("args"), None);
}

#[test]
fn documents_in_text_fields_are_patched() {
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "shop"},
        "data": {"app.yaml": "b: 1\na: {x: 1}\n", "app.json": "{\"k\":1}", "number": 7},
    });
    let patched = |overrider: Value| {
        let mut manifest = config.clone();
        apply_overriders(&mut manifest, &from(json!({"fieldOverrider": [overrider]}))).map(|()| manifest)
    };
    let operation = json!([{"subPath": "/a/x", "operator": "replace", "value": 2}]);
    let yaml = patched(json!({"fieldPath": "/data/app.yaml", "yaml": operation})).unwrap();
    assert_eq!(yaml["data"]["app.yaml"], "a:\n  x: 2\nb: 1\n");
    let operation = json!([{"subPath": "/l", "operator": "add", "value": true}]);
    let json = patched(json!({"fieldPath": "/data/app.json", "json": operation})).unwrap();
    assert_eq!(json["data"]["app.json"], "{\"k\":1,\"l\":true}");
    assert_eq!(
        patched(json!({"fieldPath": "/data/number", "json": [{"subPath": "/", "operator": "add"}]})),
        Err(Cause::Field {
            path: "/data/number".into()
        })
    );
}

#[test]
fn plaintext_comes_after_the_other_kinds_of_one_rule() {
    let rules = json!([{"overriders": {
        "plaintext": [{"operator": "replace", "path": "/metadata/labels/app", "value": "last"}],
        "labelsOverrider": [{"operator": "replace", "value": {"app": "first"}}],
    }}]);
    let got = effective(
        &flink(),
        &cluster("east"),
        NO_WIDE,
        &[policy("p", by_name(), rules)],
    )
    .unwrap();
    assert_eq!(got["metadata"]["labels"]["app"], "last");
}
