use serde_json::json;

use super::*;
use crate::manifest::{Limits, Packer, Source};
use cutover_base::packed::Packed;

const TEMPLATE: &str = "
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {namespace: shop, name: orders, labels: {app: orders}}
spec: {image: new}
";
const POLICIES: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {namespace: shop, name: orders}
spec: {resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: everything}
spec: {overrideRules: []}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {namespace: other, name: elsewhere}
spec: {overrideRules: []}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {namespace: shop, name: payments}
spec: {resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: payments}]}
";
const MIGRATION: &str = "
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {namespace: shop, name: orders-to-west}
spec: {to: west, workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}}
";

fn git(files: &[&str]) -> ObjectMap<Entry> {
    let read = files.iter().flat_map(|text| {
        let read = Packer::default().read(Source::new("a.yaml"), text.as_bytes(), &Limits::default());
        assert_eq!(read.errors, []);
        read.objects
    });
    read.map(Arc::new).collect()
}

fn value(text: &str) -> Value {
    git(&[text]).values().next().unwrap().value()
}

fn with_status(text: &str, status: Value) -> Arc<Value> {
    let mut object = value(text);
    object["status"] = status;
    Arc::new(object)
}

/// The names that are held, with the template live or not.
fn held(
    files: &[&str],
    migrations: &[Arc<Value>],
    claims: &[Arc<Value>],
    template_is_live: bool,
) -> Vec<String> {
    let desired = git(files);
    // Live is what Git has, or had.
    let live = git(files
        .iter()
        .chain([&TEMPLATE])
        .copied()
        .collect::<Vec<_>>()
        .as_slice());
    let object = |key: &ObjectKey| {
        let template = live.get(key).filter(|_| template_is_live)?;
        (key.kind == "FlinkDeployment").then(|| Arc::new(template.value()))
    };
    let held = held_back(
        &desired,
        Live {
            migrations,
            rollouts: &[],
            rollout_policies: &[],
            claims,
            object: &object,
            labels: &|key| Some(labels(Packed::of(&*object(key)?).view())),
        },
    );
    let held = held.objects.iter();
    held.map(|(key, by)| format!("{key} by {by}")).collect()
}

const ROLLOUT: &str = "
apiVersion: cutover.dev/v1alpha1
kind: Rollout
metadata: {namespace: shop, name: orders}
spec: {workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}}
";

#[test]
fn a_rollout_holds_the_changes_of_its_template_and_no_policy() {
    let by_rollout = ["FlinkDeployment shop/orders by Rollout shop/orders".to_owned()];
    assert_eq!(held(&[TEMPLATE, POLICIES, ROLLOUT], &[], &[], true), by_rollout);
    // What was never applied is applied by sync.
    assert_eq!(held(&[TEMPLATE, POLICIES, ROLLOUT], &[], &[], false), [""; 0]);
    let mut claim = json!({
        "metadata": {},
        "spec": {
            "workload": "FlinkDeployment.flink.apache.org shop/orders",
            "owner": {"kind": "Rollout", "namespace": "shop", "name": "orders", "uid": "u"},
        },
    });
    let key = claimed("FlinkDeployment.flink.apache.org shop/orders").unwrap();
    claim["metadata"]["name"] = claim_name(&key).into();
    let claims = [Arc::new(claim)];
    assert_eq!(held(&[TEMPLATE, POLICIES], &[], &claims, true), by_rollout);
    // A migration that has begun holds the policies, too.
    assert_eq!(
        held(&[TEMPLATE, POLICIES, MIGRATION, ROLLOUT], &[], &[], true),
        all()
    );
}

const ROLLOUT_POLICY: &str = "
apiVersion: cutover.dev/v1alpha1
kind: RolloutPolicy
metadata: {namespace: shop, name: all}
spec: {select: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, labelSelector: app=orders}]}
";

#[test]
fn a_rollout_policy_holds_the_changes_of_the_templates_that_it_selects() {
    let by_policy = ["FlinkDeployment shop/orders by RolloutPolicy shop/all".to_owned()];
    assert_eq!(
        held(&[TEMPLATE, POLICIES, ROLLOUT_POLICY], &[], &[], true),
        by_policy
    );
    // What was never applied is applied by sync.
    assert_eq!(held(&[TEMPLATE, ROLLOUT_POLICY], &[], &[], false), [""; 0]);
    let others = ROLLOUT_POLICY.replace("app=orders", "app=payments");
    assert_eq!(held(&[TEMPLATE, &others], &[], &[], true), [""; 0]);
    let rollout = ["FlinkDeployment shop/orders by Rollout shop/orders".to_owned()];
    assert_eq!(
        held(&[TEMPLATE, ROLLOUT_POLICY, ROLLOUT], &[], &[], true),
        rollout
    );
    assert_eq!(
        held(&[TEMPLATE, POLICIES, MIGRATION, ROLLOUT_POLICY], &[], &[], true),
        all()
    );
}

const BY: &str = "Migration shop/orders-to-west";

fn all() -> Vec<String> {
    vec![
        format!("FlinkDeployment shop/orders by {BY}"),
        format!("ClusterOverridePolicy everything by {BY}"),
        format!("PropagationPolicy shop/orders by {BY}"),
    ]
}

#[test]
fn a_template_and_the_policies_over_it_wait_for_a_migration_of_the_same_push() {
    assert_eq!(held(&[TEMPLATE, POLICIES, MIGRATION], &[], &[], true), all());
}

#[test]
fn a_template_of_cluster_scope_is_held_too() {
    let template = TEMPLATE.replace("namespace: shop, ", "");
    let held = held(&[&template, MIGRATION], &[], &[], true);
    assert!(
        held.contains(&format!("FlinkDeployment orders by {BY}")),
        "{held:?}"
    );
}

#[test]
fn what_was_never_applied_is_not_held() {
    assert_eq!(held(&[TEMPLATE, POLICIES, MIGRATION], &[], &[], false), [""; 0]);
}

#[test]
fn a_template_that_vanished_in_mid_flight_is_not_brought_back() {
    let spec = value(MIGRATION)["spec"].clone();
    let running = with_status(MIGRATION, json!({"phase": "Hold", "journal": {"spec": spec}}));
    let held = held(&[TEMPLATE], &[running], &[], false);
    assert_eq!(held, [format!("FlinkDeployment shop/orders by {BY}")]);
}

/// Another tool applies the template, of a kind that no sync has: nothing watches it.
#[test]
fn the_policies_over_a_template_that_cannot_be_seen_wait_for_a_migration_that_has_begun() {
    let spec = value(MIGRATION)["spec"].clone();
    let running = with_status(MIGRATION, json!({"phase": "Handoff", "journal": {"spec": spec}}));
    let migrations = [running];
    assert_eq!(held(&[POLICIES, MIGRATION], &migrations, &[], false), all());
    let named = "kind: FlinkDeployment, name: orders}]";
    for (selector, holds) in [
        ("kind: FlinkDeployment}]", true),
        // What labels it has can't be seen.
        (
            "kind: FlinkDeployment, labelSelector: {matchLabels: {app: another}}}]",
            true,
        ),
        ("kind: FlinkDeployment, namespace: shop, name: orders}]", true),
        ("kind: FlinkDeployment, namespace: other}]", false),
        ("kind: FlinkSessionJob, name: orders}]", false),
    ] {
        let policies = POLICIES.replace(named, selector);
        let held = held(&[&policies, MIGRATION], &migrations, &[], false);
        let is_held = held.contains(&format!("PropagationPolicy shop/orders by {BY}"));
        assert_eq!(is_held, holds, "{selector}: {held:?}");
    }
}

#[test]
fn a_migration_holds_until_it_has_ended() {
    for (phase, holds) in [
        ("Pending", true),
        ("Cleanup", true),
        ("Unheard", true),
        ("Completed", false),
    ] {
        let live = with_status(MIGRATION, json!({"phase": phase}));
        assert_eq!(
            !held(&[TEMPLATE, MIGRATION], &[live], &[], true).is_empty(),
            holds,
            "{phase}"
        );
    }
}

#[test]
fn a_committed_migration_lets_what_places_the_workload_come_unless_another_move_is_asked_for() {
    let what_runs = [
        format!("FlinkDeployment shop/orders by {BY}"),
        format!("ClusterOverridePolicy everything by {BY}"),
    ];
    let spec = value(MIGRATION)["spec"].clone();
    let live = |phase: &str| {
        let status = json!({"phase": phase, "journal": {"spec": spec}});
        with_status(MIGRATION, status)
    };
    let files = [TEMPLATE, POLICIES, MIGRATION];
    assert_eq!(held(&files, &[live("Verify")], &[], true), all());
    assert_eq!(held(&files, &[live("Cleanup")], &[], true), what_runs);
    let back = MIGRATION.replace("to: west", "to: east");
    let files = [TEMPLATE, POLICIES, &back];
    assert_eq!(held(&files, &[live("Cleanup")], &[], true), all());
}

#[test]
fn a_workload_that_was_given_back_after_the_commit_gets_the_policy_that_keeps_it_in_the_source() {
    let spec = value(MIGRATION)["spec"].clone();
    let files = [TEMPLATE, POLICIES, MIGRATION];
    let held = |from_phase: &str, stage: &str, writer: Value| {
        let back = json!({"fromPhase": from_phase, "stage": stage});
        let journal = json!({"spec": spec, "source": "east", "writer": writer, "rollBack": back});
        let mut live = value(MIGRATION);
        live["metadata"]["annotations"] = json!({"cutover.dev/policy": r#"["shop","orders"]"#});
        live["status"] = json!({"phase": "RollingBack", "journal": journal});
        held(&files, &[Arc::new(live)], &[], true)
    };
    assert_eq!(
        held("Cleanup", "Returned", json!("east")),
        [
            format!("FlinkDeployment shop/orders by {BY}"),
            format!("ClusterOverridePolicy everything by {BY}"),
        ]
    );
    for stage in ["Begun", "Taken", "Evicting", "Recreating", "Kept"] {
        assert_eq!(held("Cleanup", stage, json!("east")), all(), "{stage}");
    }
    assert_eq!(held("Cleanup", "Returned", Value::Null), all());
    assert_eq!(held("Cleanup", "Returned", json!("west")), all());
    // The policy in force keeps the source: the one in Git is what was rolled back.
    assert_eq!(held("Verify", "Returned", json!("east")), all());
}

#[test]
fn a_policy_that_a_migration_did_not_bring_about_stays_unapplied_until_a_commit_changes_it() {
    let policy = POLICIES.split("---").next().unwrap();
    let hash = record::digest(&value(policy));
    let held_policies = json!([{"policy": {"namespace": "shop", "name": "orders"}, "hash": hash}]);
    for (phase, stays) in [
        ("Failed", true),
        ("RolledBack", true),
        ("Aborted", true),
        ("Completed", false),
    ] {
        let mut status = json!({"phase": phase});
        if stays {
            status["heldPolicies"] = held_policies.clone();
        }
        let ended = with_status(MIGRATION, status);
        let said = format!(
            "PropagationPolicy shop/orders by {BY}, which has not moved the workload that this policy places"
        );
        let files = [TEMPLATE, policy, MIGRATION];
        let found = held(&files, &[Arc::clone(&ended)], &[], true);
        assert_eq!(found, if stays { vec![said] } else { Vec::new() }, "{phase}");
        let changed = policy.replace("name: orders}]", "name: orders}], priority: 1");
        assert_ne!(changed, policy);
        assert_eq!(
            held(&[TEMPLATE, &changed, MIGRATION], &[ended], &[], true),
            [""; 0]
        );
    }
}

#[test]
fn a_migration_that_left_git_still_holds_while_it_runs() {
    let live = with_status(MIGRATION, json!({"phase": "Verify"}));
    assert_eq!(held(&[TEMPLATE], &[live], &[], true).len(), 1);
}

#[test]
fn asking_for_another_move_holds_again() {
    let live = with_status(MIGRATION, json!({"phase": "Completed"}));
    let back = MIGRATION.replace("to: west", "to: east");
    assert_eq!(held(&[TEMPLATE, &back], &[Arc::clone(&live)], &[], true).len(), 1);
    let paused = MIGRATION.replace("to: west", "paused: true, to: west");
    assert_eq!(held(&[TEMPLATE, &paused], &[live], &[], true), [""; 0]);
}

#[test]
fn a_change_that_was_rolled_back_stays_unapplied_until_a_commit_changes_it() {
    let hash = record::digest(&value(TEMPLATE));
    let ended = |at: &str, held_back: Value| {
        with_status(
            MIGRATION,
            json!({"phase": "RolledBack", "finishedAt": at, "heldBack": held_back}),
        )
    };
    let rolled_back = ended("2026-01-01T00:00:00Z", json!({"hash": hash}));
    let files = [TEMPLATE, MIGRATION];
    assert_eq!(
        held(&files, &[Arc::clone(&rolled_back)], &[], true),
        [format!(
            "FlinkDeployment shop/orders by {BY}, which rolled this change back"
        )]
    );
    let changed = TEMPLATE.replace("new", "newer");
    assert_eq!(
        held(&[&changed, MIGRATION], &[Arc::clone(&rolled_back)], &[], true),
        [""; 0]
    );
    // A later migration of the workload has the last word.
    let mut later = (*ended("2026-01-02T00:00:00Z", Value::Null)).clone();
    later["metadata"]["name"] = "orders-again".into();
    assert_eq!(held(&files, &[Arc::new(later), rolled_back], &[], true), [""; 0]);
}

#[test]
fn a_claim_holds_whoever_owns_it() {
    let key = git(&[TEMPLATE]).keys().next().unwrap().clone();
    let said = "FlinkDeployment.flink.apache.org shop/orders";
    for workload in [said, "", "Deployment.apps shop/orders"] {
        let claim = json!({
            "metadata": {"name": claim_name(&key)},
            "spec": {"workload": workload, "owner": {"kind": "Rollout", "namespace": "shop", "name": "r"}},
        });
        let held = held(&[TEMPLATE], &[], &[Arc::new(claim)], false);
        assert_eq!(
            held,
            ["FlinkDeployment shop/orders by Rollout shop/r"],
            "{workload}"
        );
    }
}

fn named(name: &str, phase: &str) -> Arc<Value> {
    let mut migration = value(MIGRATION);
    migration["metadata"]["name"] = name.into();
    migration["status"] = json!({"phase": phase});
    Arc::new(migration)
}

#[test]
fn what_a_policy_has_set_off_holds_it_until_that_is_committed_whatever_can_be_seen_of_the_workload() {
    let set_off = |phase| {
        let mut migration = (*named("orders-to-west", phase)).clone();
        migration["metadata"]["annotations"] = json!({"cutover.dev/policy": r#"["shop","orders"]"#});
        [Arc::new(migration)]
    };
    // The template is applied by another tool: it is neither in Git nor in the cache.
    let held = |phase| held(&[POLICIES], &set_off(phase), &[], false);
    let policy = ["PropagationPolicy shop/orders by Migration shop/orders-to-west".to_owned()];
    for phase in ["Pending", "Hold", "Verify", "RollingBack"] {
        assert_eq!(held(phase), policy, "{phase}");
    }
    for phase in ["Cleanup", "Completed", "Aborted"] {
        assert_eq!(held(phase), [""; 0], "{phase}");
    }
}

/// Whoever may edit Migrations in one namespace holds no policy of another one.
#[test]
fn a_migration_holds_by_name_a_policy_of_its_own_namespace_or_of_cluster_scope_alone() {
    let wide = POLICIES
        .split("---")
        .next()
        .unwrap()
        .replace("PropagationPolicy", "ClusterPropagationPolicy")
        .replace("namespace: shop, ", "");
    for (namespace, named_policy, is_held) in [
        ("shop", r#"["shop","orders"]"#, true),
        ("team-a", r#"["shop","orders"]"#, false),
        ("team-a", r#"[null,"orders"]"#, true),
    ] {
        let mut migration = (*named("orders-to-west", "Pending")).clone();
        migration["metadata"]["namespace"] = namespace.into();
        migration["metadata"]["annotations"] = json!({"cutover.dev/policy": named_policy});
        let held = held(&[POLICIES, &wide], &[Arc::new(migration)], &[], false);
        assert_eq!(
            held.len(),
            usize::from(is_held),
            "{namespace} {named_policy}: {held:?}"
        );
    }
}

#[test]
fn a_committed_move_gets_the_policy_that_it_waits_for_whoever_waits_behind_it() {
    let both = [
        named("orders-to-west", "Cleanup"),
        named("orders-to-north", "Pending"),
    ];
    let held = |migrations: &[Arc<Value>]| {
        let held = held(&[TEMPLATE, POLICIES], migrations, &[], true);
        held.iter()
            .any(|held| held.starts_with("PropagationPolicy shop/orders "))
    };
    assert!(held(&both[1..]), "it is about to begin");
    assert!(!held(&both));
}

#[test]
fn what_a_policy_set_off_twice_does_not_keep_it_from_the_one_that_is_committed() {
    let set_off = |name: &str, phase| {
        let mut migration = (*named(name, phase)).clone();
        migration["metadata"]["annotations"] = json!({"cutover.dev/policy": r#"["shop","orders"]"#});
        Arc::new(migration)
    };
    let both = [set_off("one", "Cleanup"), set_off("two", "Pending")];
    let held = |migrations: &[Arc<Value>]| held(&[POLICIES], migrations, &[], false);
    assert_eq!(held(&both), [""; 0]);
    assert_eq!(
        held(&both[1..]),
        ["PropagationPolicy shop/orders by Migration shop/two"]
    );
}
