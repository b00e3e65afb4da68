//! What becomes of a binding: claims, deletions, suspended dispatching, replicas, dependencies.

use std::time::Duration;

use cutover::sandbox::WorldOptions;
use cutover::sandbox::karmada::kinds;
use serde_json::json;

use super::stage::{ANY, CONFIG_MAPS, FLINK, SHOP, Stage, condition, job, one_of, other_than};

#[tokio::test(start_paused = true)]
async fn failover_is_restored_by_a_change_of_the_template_and_by_nothing_of_ours() {
    let stage = job(1).await;
    let failover =
        json!({"application": {"decisionConditions": {"tolerationSeconds": 300}, "purgeMode": "Directly"}});
    stage.edit_policy(json!({"spec": {"failover": failover}}));
    let present = || !stage.bound()["spec"]["failover"].is_null();
    stage.until("it arrives", present).await;
    stage.edit_binding(json!({"spec": {"failover": null}}));
    stage.pin(ANY, "1");
    stage.suspend();
    stage.pause(60_000).await;
    assert!(
        !present(),
        "not after status, override policies or our own patches"
    );

    let restored_by = async |what: &str| {
        let begun = tokio::time::Instant::now();
        stage.within(Duration::from_secs(5), what, present).await;
        let took = begun.elapsed();
        stage.edit_binding(json!({"spec": {"failover": null}}));
        took
    };
    stage.edit_template(json!({"metadata": {"annotations": {"touched": "1"}}}));
    assert!(restored_by("template").await < Duration::from_millis(100));
    stage.edit_policy(json!({"spec": {"conflictResolution": "Overwrite"}}));
    restored_by("policy").await;
    stage.world.faults().restart("karmada-controller-manager");
    restored_by("restart").await;
}

#[tokio::test(start_paused = true)]
async fn a_template_is_claimed_with_one_label_and_two_annotations() {
    let stage = job(1).await;
    let (template, policy) = (stage.get(&FLINK, "orders"), stage.get(&kinds::POLICIES, "orders"));
    let id = "propagationpolicy.karmada.io/permanent-id";
    assert_eq!(
        template["metadata"]["labels"],
        json!({id: policy["metadata"]["labels"][id]})
    );
    assert_eq!(
        template["metadata"]["annotations"],
        json!({"propagationpolicy.karmada.io/name": "orders", "propagationpolicy.karmada.io/namespace": "shop"})
    );
}

#[tokio::test(start_paused = true)]
async fn without_its_policy_everything_stays_until_another_claims_it_with_the_suspension_intact() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.suspend();
    let policy = stage.get(&kinds::POLICIES, "orders");
    stage.delete(&kinds::POLICIES, "orders");
    stage
        .until("the policy is gone", || {
            stage.get(&kinds::POLICIES, "orders").is_null()
        })
        .await;
    stage.edit_template(json!({"spec": {"image": "orders:2"}}));
    stage.pause(10_000).await;
    assert_eq!(stage.listed(), [source.as_str()]);
    assert_eq!(
        stage.copy(&source).unwrap()["spec"]["image"],
        "orders:1",
        "changes stop"
    );
    let another = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "another", "namespace": "shop"}, "spec": policy["spec"],
    });
    stage.create(&kinds::POLICIES, another);
    stage
        .until("changes flow", || {
            stage.copy(&source).unwrap()["spec"]["image"] == "orders:2"
        })
        .await;
    assert_eq!(stage.bound()["spec"]["suspension"]["scheduling"], true);
    assert_eq!(
        stage.bound()["metadata"]["annotations"]["propagationpolicy.karmada.io/name"],
        "another"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_binding_takes_all_with_it_and_is_recreated_at_the_next_change_of_the_template() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.suspend();
    stage.delete(&kinds::BINDINGS, stage.binding);
    stage
        .until("the copy is gone", || stage.copy(&source).is_none())
        .await;
    stage.pause(10_000).await;
    assert!(stage.bound().is_null());
    stage.edit_template(json!({"metadata": {"annotations": {"touched": "1"}}}));
    stage.until("it is back", || !stage.listed().is_empty()).await;
    assert!(stage.bound()["spec"]["suspension"].is_null());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_template_takes_all_with_it() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.delete(&FLINK, "orders");
    stage
        .until("binding and copy are gone", || {
            stage.bound().is_null() && stage.copy(&source).is_none()
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_suspension_on_the_binding_is_wiped_by_the_next_change_of_the_template() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.edit_binding(json!({"spec": {"suspension": {"dispatching": true, "scheduling": true}}}));
    let suspended = || stage.work(&source)["spec"]["suspendDispatching"] == true;
    stage.until("it is on the Work", suspended).await;
    stage
        .until("the Work says so", || {
            let condition = condition(&stage.work(&source), "Dispatching");
            condition["status"] == "False" && condition["reason"] == "SuspendDispatching"
        })
        .await;
    stage.pause(10_000).await;
    assert!(suspended(), "it survives the status");
    stage.edit_template(json!({"metadata": {"annotations": {"touched": "1"}}}));
    stage.until("it is wiped", || !suspended()).await;
    assert_eq!(stage.bound()["spec"]["suspension"], json!({"scheduling": true}));
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_suspension_of_some_clusters_on_the_policy_keeps_changes_from_these_alone() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    let others = json!({"dispatchingOnClusters": {"clusterNames": ["elsewhere"]}});
    stage.edit_policy(json!({"spec": {"suspension": others}}));
    stage.edit_template(json!({"spec": {"image": "orders:2"}}));
    let image = || stage.copy(&source).unwrap()["spec"]["image"].clone();
    stage.until("it goes out", || image() == "orders:2").await;
    let here = json!({"dispatchingOnClusters": {"clusterNames": [source]}});
    stage.edit_policy(json!({"spec": {"suspension": here}}));
    let suspended = || stage.work(&source)["spec"]["suspendDispatching"] == true;
    stage.until("it is on the Work", suspended).await;
    for version in 3..20 {
        stage.edit_template(json!({"spec": {"image": format!("orders:{version}")}}));
        stage.pause(100).await;
        assert!(
            suspended(),
            "a change of the template wipes what only the binding has"
        );
        assert_eq!(image(), "orders:2");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dispatch_suspension_on_the_policy_lasts_and_a_shrink_deletes_nevertheless() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    stage.edit_policy(json!({"spec": {"suspension": {"dispatching": true}}}));
    stage
        .until("it is on the Work", || {
            stage.work(&source)["spec"]["suspendDispatching"] == true
        })
        .await;
    stage.edit_template(json!({"spec": {"image": "orders:2"}}));
    stage
        .until("the Work has the change", || {
            stage.manifest(&source)["spec"]["image"] == "orders:2"
        })
        .await;
    stage.pause(10_000).await;
    assert_eq!(stage.copy(&source).unwrap()["spec"]["image"], "orders:1");
    assert_eq!(condition(&stage.bound(), "FullyApplied")["status"], "True");
    stage.suspend();
    stage.canary("canary").await;
    stage.list(&[other_than(&source)]);
    stage
        .until("the copy is gone", || stage.copy(&source).is_none())
        .await;
}

#[tokio::test(start_paused = true)]
async fn replicas_of_the_template_wait_while_scheduling_is_suspended_and_other_changes_do_not() {
    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    stage.suspend();
    stage.canary("canary").await;
    let image = json!([{"name": "main", "image": "orders:2"}]);
    stage.edit_template(json!({"spec": {"replicas": 7, "template": {"spec": {"containers": image}}}}));
    let copy = || stage.copy("east").unwrap();
    let arrived = || copy()["spec"]["template"]["spec"]["containers"][0]["image"] == "orders:2";
    stage.until("the image arrives", arrived).await;
    stage.pause(10_000).await;
    assert_eq!(copy()["spec"]["replicas"], 2);
    let rule =
        json!([{"overriders": {"plaintext": [{"operator": "add", "path": "/spec/replicas", "value": 5}]}}]);
    stage.override_with("replicas", rule);
    stage
        .until("an override wins over the binding", || {
            copy()["spec"]["replicas"] == 5
        })
        .await;
    stage.delete(&kinds::OVERRIDES, "replicas");
    stage
        .until("and gives them back", || copy()["spec"]["replicas"] == 2)
        .await;
    stage.resume();
    stage
        .until("the scale goes on", || copy()["spec"]["replicas"] == 7)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_listed_without_replicas_gets_none() {
    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    stage.suspend();
    stage.canary("canary").await;
    stage.edit_binding(json!({"spec": {"clusters": [{"name": "east", "replicas": 2}, {"name": "west"}]}}));
    stage
        .until("it is in west", || stage.copy("west").is_some())
        .await;
    assert_eq!(stage.copy("west").unwrap()["spec"]["replicas"], 0);
}

#[tokio::test(start_paused = true)]
async fn dependencies_follow_an_expansion_and_leave_with_a_shrink() {
    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    stage.pause(1000).await;
    let prices = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": "shop"}, "data": {"a": "1"},
    });
    stage.create(&CONFIG_MAPS, prices);
    let there = |cluster: &str| {
        stage
            .world
            .member(cluster)
            .api
            .get(&CONFIG_MAPS, SHOP, "prices")
            .is_ok()
    };
    stage
        .until("it comes even after the workload", || there("east"))
        .await;
    stage.suspend();
    stage.canary("canary").await;
    stage.list(&["east", "west"]);
    stage
        .within(Duration::from_secs(1), "it follows", || there("west"))
        .await;
    stage.list(&["west"]);
    stage.until("it leaves", || !there("east")).await;
    assert!(there("west"));
}

#[tokio::test(start_paused = true)]
async fn clusters_that_are_required_get_works_that_no_shrink_removes() {
    let stage = job(1).await;
    let source = stage.listed().remove(0);
    let other = other_than(&source);
    let required = json!([{"namespace": "shop", "name": "somebody", "clusters": [{"name": other}]}]);
    stage.edit_binding(json!({"spec": {"requiredBy": required}}));
    stage
        .until("it is there too", || stage.copy(other).is_some())
        .await;
    stage.suspend();
    stage.canary("canary").await;
    stage.list(&[&source]);
    stage.pause(5000).await;
    assert!(stage.copy(other).is_some());
}

/// What asks for nothing of its nodes counts no replicas when it has none: nobody writes the binding's into its copies.
#[tokio::test(start_paused = true)]
async fn a_scale_to_none_waits_only_where_pods_ask_for_something() {
    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    stage.suspend();
    stage.canary("canary").await;
    stage.edit_template(json!({"spec": {"replicas": 0}}));
    let replicas = || stage.copy("east").unwrap()["spec"]["replicas"].clone();
    stage.until("it is scaled at once", || replicas() == 0).await;
    stage.resume();
    stage.pause(10_000).await;
    assert_eq!((stage.listed(), replicas()), (vec!["east".to_owned()], json!(0)));

    let stage = Stage::deployment(WorldOptions::default(), one_of(&["east"])).await;
    let requests = json!([{"name": "main", "image": "orders:1", "resources": {"requests": {"cpu": "10m"}}}]);
    stage.edit_template(json!({"spec": {"template": {"spec": {"containers": requests}}}}));
    stage.pause(5000).await;
    stage.suspend();
    stage.canary("canary").await;
    stage.edit_template(json!({"spec": {"replicas": 0}}));
    stage.pause(10_000).await;
    assert_eq!(stage.copy("east").unwrap()["spec"]["replicas"], 2);
    stage.resume();
    stage
        .until("and it leaves every cluster", || {
            stage.listed().is_empty() && stage.copy("east").is_none()
        })
        .await;
    assert_eq!(condition(&stage.bound(), "Scheduled")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn a_binding_stays_until_its_dependencies_are_freed() {
    let stage = Stage::deployment(WorldOptions::fast(), one_of(&["east"])).await;
    stage.pause(1000).await;
    stage.create(&CONFIG_MAPS, json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices", "namespace": "shop"}, "data": {"a": "1"},
    }));
    let attached = || stage.get(&kinds::BINDINGS, "prices-configmap");
    let required = || attached()["spec"]["requiredBy"].clone();
    stage
        .until("it is required", || required()[0]["name"] == stage.binding)
        .await;
    assert_eq!(attached()["spec"]["preserveResourcesOnDeletion"], false);
    let finalizers = stage.bound()["metadata"]["finalizers"].clone();
    assert_eq!(
        finalizers,
        json!([
            "karmada.io/binding-controller",
            "karmada.io/binding-dependencies-distributor"
        ])
    );
    stage.edit_policy(json!({"spec": {"propagateDeps": false}}));
    stage.until("it is free", || required().is_null()).await;
    stage
        .until("the finalizer is gone", || {
            stage.bound()["metadata"]["finalizers"] == json!(["karmada.io/binding-controller"])
        })
        .await;
    let there = || {
        stage
            .world
            .member("east")
            .api
            .get(&CONFIG_MAPS, SHOP, "prices")
            .is_ok()
    };
    stage.until("it has left", || !there()).await;
}
