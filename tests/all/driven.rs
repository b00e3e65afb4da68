//! A push that changes a policy, and nothing else: where the sync says so, each workload that would lose its state gets a Migration,
//! and the policy goes out when all of them are across. Whatever Git says last is where it ends.

use cutover::plan::Action;
use cutover::sandbox::World;
use cutover::sandbox::api::Resource;
use serde_json::{Value, json};

use crate::placement::{job, named, policy, runs, started};
use crate::support::plane::{Plane, settings};
use crate::support::wait::until;

const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
const AUTO: &str =
    "- {name: main, gate: {migrations: {mode: Auto, maxParallel: 1, verify: {healthyFor: 1s}}}}";
/// The target is watched for longer than any test takes.
const PATIENT: &str =
    "- {name: main, gate: {migrations: {mode: Auto, verify: {healthyFor: 2h, timeout: 3h}}}}";

fn migrations(plane: &Plane) -> Vec<Value> {
    plane.server.list(&MIGRATIONS, Some("shop"))
}

fn phases(plane: &Plane) -> Vec<String> {
    let phase = |one: &Value| one["status"]["phase"].as_str().unwrap_or_default().to_owned();
    migrations(plane).iter().map(phase).collect()
}

/// The status branch speaks of the newest commit.
fn is_read(plane: &Plane) -> bool {
    let status = plane
        .origin
        .read("cutover-status", "STATUS.md")
        .unwrap_or_default();
    status.contains(&plane.origin.tip("main").unwrap().to_string()[..7])
}

fn is_clean(world: &World) {
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

async fn problems(plane: &Plane) -> String {
    let report = plane.sync("main").await;
    let all: Vec<String> = report.all_problems().iter().map(ToString::to_string).collect();
    all.join("\n")
}

#[tokio::test]
async fn a_policy_edit_is_a_migration() {
    let settings = settings(AUTO);
    let (world, plane) = started(
        &policy("orders", "orders", "east"),
        &[("cutover.yaml", &settings)],
    )
    .await;
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);

    // The plan says what the push sets off.
    let planned = plane.plan().await;
    let of = |kind: &str| planned.iter().find(|change| change.key.kind == kind).unwrap();
    let held = &of("PropagationPolicy").action;
    assert!(
        matches!(held, Action::HeldBack { by } if by.contains("Migration")),
        "{held:?}"
    );
    let created = of("Migration");
    assert_eq!(created.action, Action::Create);
    assert_eq!(created.after.as_ref().unwrap()["spec"]["to"], "west");
    assert!(migrations(&plane).is_empty(), "a plan has written something");

    let _running = plane.start();
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    until("it has ended", || phases(&plane) == ["Completed"]).await;
    is_clean(&world);
    assert_eq!(world.ledger().verdict().runs.len(), 2, "{}", world.ledger());
    assert!(runs(&world, "west", "orders"));
    let spec = migrations(&plane)[0]["spec"].clone();
    assert_eq!((&spec["from"], &spec["to"]), (&json!("east"), &json!("west")));
}

#[tokio::test]
async fn it_is_asked_for_by_the_sync_the_policy_or_the_workload() {
    let annotated = |text: &str, mode: &str| {
        text.replace(
            "namespace: shop",
            &format!("namespace: shop, annotations: {{cutover.dev/migrations: '{mode}'}}"),
        )
    };
    for (sync, on_policy, on_job, moves) in [
        ("- {name: main}", None, None, false),
        ("- {name: main}", Some("auto"), None, true),
        (AUTO, Some("manual"), None, false),
        (AUTO, None, Some("manual"), false),
        // A word that nobody knows asks for nothing.
        ("- {name: main}", Some("always"), None, false),
    ] {
        let settings = settings(sync);
        let more = [("cutover.yaml", &*settings)];
        let (world, plane) = started(&policy("orders", "orders", "east"), &more).await;
        if let Some(mode) = on_job {
            plane.push(&[("job.yaml", &annotated(&job("orders"), mode))]);
            plane.run().await;
        }
        let mut after = policy("orders", "orders", "west");
        if let Some(mode) = on_policy {
            after = annotated(&after, mode);
        }
        plane.push(&[("policy.yaml", &after)]);
        let problems = problems(&plane).await;
        let context = format!("{sync} {on_policy:?} {on_job:?}: {problems}");
        assert_eq!(migrations(&plane).len(), usize::from(moves), "{context}");
        assert_eq!(problems.contains("from nothing"), !moves, "{context}");
        is_clean(&world);
    }
}

#[tokio::test]
async fn a_revert_in_mid_flight_brings_it_back() {
    let settings = settings(PATIENT);
    let before = policy("orders", "orders", "east");
    let (world, plane) = started(&before, &[("cutover.yaml", &settings)]).await;
    let running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.push(&[("policy.yaml", &before)]);
    until("it is rolled back", || phases(&plane) == ["Aborted"]).await;
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    is_clean(&world);
    // Asked again, it is tried again.
    drop(running);
    plane.push(&[
        ("policy.yaml", &policy("orders", "orders", "west")),
        ("cutover.yaml", &crate::support::plane::settings(AUTO)),
    ]);
    let _running = plane.start();
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    until("it has ended", || {
        phases(&plane).contains(&"Completed".to_owned())
    })
    .await;
    is_clean(&world);
}

#[tokio::test]
async fn two_commits_in_a_row_end_in_what_the_last_one_says() {
    let settings = settings(PATIENT);
    let (world, plane) = started(
        &policy("orders", "orders", "east"),
        &[("cutover.yaml", &settings)],
    )
    .await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("the target is watched", || phases(&plane) == ["Verify"]).await;
    plane.push(&[
        ("policy.yaml", &policy("orders", "orders", "north")),
        ("cutover.yaml", &crate::support::plane::settings(AUTO)),
    ]);
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["north"])
    })
    .await;
    until("it has ended", || phases(&plane) == ["Completed", "Aborted"]).await;
    assert!(runs(&world, "north", "orders"));
    is_clean(&world);
}

/// Committed, the workload is in west; the policy that keeps it there is not applied yet, and Git wants it back.
#[tokio::test]
async fn a_revert_after_the_commit_point_waits_under_guard_for_what_was_agreed() {
    let settings = settings(AUTO);
    let (before, after) = (
        policy("orders", "orders", "east"),
        policy("orders", "orders", "west"),
    );
    let (world, plane) = started(&before, &[("cutover.yaml", &settings)]).await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &after)]);
    until("it has begun", || {
        phases(&plane)
            .iter()
            .any(|phase| phase == "Handoff" || phase == "Verify")
    })
    .await;
    plane.refuse(&["PATCH /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/orders"]);
    until("it is committed", || phases(&plane) == ["Cleanup"]).await;
    plane.push(&[("policy.yaml", &before)]);
    until("the revert is read", || is_read(&plane)).await;
    plane.refuse(&[]);
    until("it says what it waits for", || {
        let status = &migrations(&plane)[0]["status"];
        status["waitingFor"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("west to be kept"))
    })
    .await;
    assert!(runs(&world, "west", "orders"));
    assert_eq!(phases(&plane), ["Cleanup"]);
    // What was agreed, and then the newer one.
    plane.push(&[("policy.yaml", &after)]);
    until("it has ended", || phases(&plane) == ["Completed"]).await;
    plane.push(&[("policy.yaml", &before)]);
    until("it is back", || {
        phases(&plane) == ["Completed"; 2] && migrations(&plane)[0]["spec"]["to"] == "east"
    })
    .await;
    assert!(runs(&world, "east", "orders"));
    assert_eq!(world.ledger().verdict().runs.len(), 3, "{}", world.ledger());
    is_clean(&world);
}

#[tokio::test]
async fn a_policy_of_several_workloads_goes_out_when_all_are_across() {
    let settings = settings(AUTO);
    let jobs: Vec<String> = ["bills", "carts"].iter().map(|name| job(name)).collect();
    let all = |clusters: &str| policy("orders", "", clusters).replace(", name: ''", "");
    let more = [
        ("cutover.yaml", &*settings),
        ("bills.yaml", &*jobs[0]),
        ("carts.yaml", &*jobs[1]),
    ];
    let (world, plane) = started(&all("east"), &more).await;
    for name in ["bills", "carts"] {
        until("it runs", || runs(&world, "east", name)).await;
    }
    let _running = plane.start();
    plane.push(&[("policy.yaml", &all("west"))]);
    let under_way = |plane: &Plane| {
        let phases = phases(plane);
        phases
            .iter()
            .filter(|phase| !["Completed", "Cleanup"].contains(&&***phase))
            .count()
    };
    until("all are across", || {
        // One at a time, and the policy last.
        assert!(under_way(&plane) <= 1, "{:?}", phases(&plane));
        let across = ["orders", "bills", "carts"]
            .iter()
            .filter(|name| runs(&world, "west", name))
            .count();
        assert!(across == 3 || named(&plane, "orders") == json!(["east"]));
        phases(&plane) == ["Completed"; 3]
    })
    .await;
    assert_eq!(named(&plane, "orders"), json!(["west"]));
    is_clean(&world);
}

#[tokio::test]
async fn what_a_person_has_to_decide_sets_nothing_off() {
    let settings = settings(AUTO);
    for (after, says) in [
        (
            policy("orders", "orders", "west, north"),
            "several clusters would take it",
        ),
        (
            policy("orders", "orders", "east, west"),
            "a Migration cannot carry that out",
        ),
    ] {
        let (world, plane) = started(
            &policy("orders", "orders", "east"),
            &[("cutover.yaml", &settings)],
        )
        .await;
        plane.push(&[("policy.yaml", &after)]);
        let problems = problems(&plane).await;
        assert!(problems.contains(says), "{problems}");
        assert!(migrations(&plane).is_empty());
        is_clean(&world);
    }
}

#[tokio::test]
async fn one_that_failed_is_not_tried_again_until_something_changes() {
    let settings = settings(AUTO);
    // In west it never comes up.
    let broken = "apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {name: broken, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment}]
  overrideRules:
  - targetCluster: {clusterNames: [west]}
    overriders: {plaintext: [{path: /spec/image, operator: replace, value: 'orders:broken'}]}
";
    let more = [("cutover.yaml", &*settings), ("broken.yaml", broken)];
    let (world, plane) = started(&policy("orders", "orders", "east"), &more).await;
    let running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("it is rolled back", || phases(&plane) == ["RolledBack"]).await;
    until("it runs where it did", || runs(&world, "east", "orders")).await;
    drop(running);
    for _ in 0..2 {
        plane.run().await;
        assert_eq!(phases(&plane), ["RolledBack"]);
    }
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    is_clean(&world);
    // Git thinks better of it; the target is repaired; and the same is asked for again.
    plane.push(&[("policy.yaml", &policy("orders", "orders", "east"))]);
    plane.run().await;
    let repaired = broken.replace("orders:broken", "orders:1.0");
    plane.push(&[("broken.yaml", &repaired)]);
    plane.run().await;
    let _running = plane.start();
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    until("it is across", || {
        phases(&plane).contains(&"Completed".to_owned())
    })
    .await;
    assert_eq!(migrations(&plane).len(), 2);
    is_clean(&world);
}

#[tokio::test]
async fn another_workload_of_the_policy_turns_no_move_back() {
    let settings = settings(PATIENT);
    let (world, plane) = started(
        &policy("orders", "orders", "east"),
        &[("cutover.yaml", &settings)],
    )
    .await;
    let _running = plane.start();
    let after = policy("orders", "orders", "west");
    plane.push(&[("policy.yaml", &after)]);
    until("it is watched", || phases(&plane) == ["Verify"]).await;
    let more = after.replace(
        "name: 'orders'}]",
        "name: 'orders'}, {apiVersion: v1, kind: ConfigMap, name: more}]",
    );
    assert_ne!(more, after);
    plane.push(&[("policy.yaml", &more)]);
    until("the push is read", || is_read(&plane)).await;
    assert_eq!(migrations(&plane)[0]["spec"]["abort"], Value::Null);
    assert_eq!(phases(&plane), ["Verify"]);
    // And without the workload it is one.
    plane.push(&[("policy.yaml", &after.replace("name: 'orders'", "name: bills"))]);
    until("it is rolled back", || phases(&plane) == ["RolledBack"]).await;
    assert!(runs(&world, "east", "orders"));
    is_clean(&world);
}
