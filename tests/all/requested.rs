//! A template that asks by an annotation to be moved: a Migration for each word of it, once, and a reason where there is none.

use cutover::plan::Action;
use cutover::sandbox::World;
use cutover::sandbox::api::{Patch, Resource};
use serde_json::{Value, json};

use crate::placement::{job, policy, runs, started};
use crate::support::fleet::opened;
use crate::support::plane::{Plane, settings};
use crate::support::wait::until;

const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
const JOBS: Resource = Resource::new("flink.apache.org", "flinkdeployments");
const QUICK: &str = "- {name: main, gate: {migrations: {verify: {healthyFor: 1s}}}}";

async fn stage() -> (World, Plane) {
    let settings = settings(QUICK);
    let policy = policy("orders", "orders", "east, west") + "  # either\n";
    let policy = policy.replace(
        "placement: {",
        "placement: {spreadConstraints: [{spreadByField: cluster, maxGroups: 1, minGroups: 1}], ",
    );
    started(&policy, &[("cutover.yaml", &settings)]).await
}

fn asks(target: &str) -> String {
    job("orders").replace(
        "namespace: shop",
        &format!("namespace: shop, annotations: {{karmada.io/migration-target: {target}}}"),
    )
}

/// Where each Migration goes, and how far it is.
fn moves(plane: &Plane) -> Vec<(String, String)> {
    let text = |one: &Value, pointer: &str| {
        one.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let all = plane.server.list(&MIGRATIONS, Some("shop"));
    all.iter()
        .map(|one| (text(one, "/spec/to"), text(one, "/status/phase")))
        .collect()
}

fn has_moved(to: &[&str]) -> Vec<(String, String)> {
    to.iter()
        .map(|to| ((*to).to_owned(), "Completed".to_owned()))
        .collect()
}

fn annotate(plane: &Plane, target: Option<&str>) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"karmada.io/migration-target": target}}}));
    plane
        .server
        .patch(&JOBS, Some("shop"), "orders", None, &patch, "kubectl");
}

fn answer(plane: &Plane) -> Value {
    let template = plane.get(&JOBS, Some("shop"), "orders").unwrap();
    let text = template["metadata"]["annotations"]["cutover.dev/migration-target-answer"].as_str();
    text.map(|text| serde_json::from_str(text).unwrap())
        .unwrap_or_default()
}

async fn problems(plane: &Plane) -> String {
    let report = plane.sync("main").await;
    let all: Vec<String> = report.all_problems().iter().map(ToString::to_string).collect();
    all.join("\n")
}

#[tokio::test]
async fn a_word_in_git_moves_it_once_and_never_again() {
    let (world, plane) = stage().await;
    let (first, second) = if runs(&world, "east", "orders") {
        ("west", "east")
    } else {
        ("east", "west")
    };
    plane.push(&[("job.yaml", &asks(first))]);

    let planned = plane.plan().await;
    let planned = planned
        .iter()
        .find(|change| change.key.kind == "Migration")
        .unwrap();
    assert_eq!(planned.action, Action::Create);
    assert_eq!(planned.after.as_ref().unwrap()["spec"]["to"], first);
    assert!(moves(&plane).is_empty(), "a plan has written something");

    let running = plane.start();
    until("it has moved", || moves(&plane) == has_moved(&[first])).await;
    until("that is said", || answer(&plane)["created"] == true).await;
    assert!(runs(&world, first, "orders"));
    // The Migration goes, the word stays, and another process looks at it.
    drop(running);
    let name = plane.server.list(&MIGRATIONS, Some("shop"))[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    plane.server.delete(&MIGRATIONS, Some("shop"), &name);
    plane.run().await;
    plane.run().await;
    assert!(moves(&plane).is_empty(), "{:?}", moves(&plane));
    // Another word moves it back.
    let _running = plane.start();
    plane.push(&[("job.yaml", &asks(second))]);
    until("it has moved back", || moves(&plane) == has_moved(&[second])).await;
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
    assert_eq!(world.ledger().verdict().runs.len(), 3, "{}", world.ledger());
}

#[tokio::test]
async fn a_word_by_hand_is_followed_and_taken_back() {
    let (world, plane) = stage().await;
    let (first, second) = if runs(&world, "east", "orders") {
        ("west", "east")
    } else {
        ("east", "west")
    };
    let _running = plane.start();
    annotate(&plane, Some(first));
    until("it has moved", || moves(&plane) == has_moved(&[first])).await;
    until("that is said", || answer(&plane)["created"] == true).await;
    annotate(&plane, None);
    until("that is forgotten", || answer(&plane).is_null()).await;
    annotate(&plane, Some(second));
    until("it has moved back", || {
        moves(&plane).len() == 2 && moves(&plane).iter().all(|(_, phase)| phase == "Completed")
    })
    .await;
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

#[tokio::test]
async fn a_word_that_names_no_cluster_or_contradicts_an_intent_is_refused_and_told() {
    let (world, plane) = stage().await;
    plane.push(&[("job.yaml", &asks("wset"))]);
    let told = problems(&plane).await;
    assert!(
        told.contains("job.yaml") && told.contains("wset, which is not a cluster"),
        "{told}"
    );
    assert!(moves(&plane).is_empty());
    plane.push(&[("job.yaml", &job("orders"))]);
    plane.run().await;
    assert!(answer(&plane).is_null());
    let (there, elsewhere) = if runs(&world, "east", "orders") {
        ("west", "east")
    } else {
        ("east", "west")
    };
    let other = crate::placement::migration("orders", "").replace("to: west", &format!("to: {there}"));
    let other = other.replace("healthyFor: 1s", "healthyFor: 1h, timeout: 2h");
    let _running = plane.start();
    plane.push(&[("move.yaml", &other)]);
    until("it moves", || {
        moves(&plane) == [(there.to_owned(), "Verify".to_owned())]
    })
    .await;
    annotate(&plane, Some(elsewhere));
    let is_told = || {
        let status = plane
            .origin
            .read("cutover-status", "STATUS.md")
            .unwrap_or_default();
        status.contains("which has not ended, moves the workload elsewhere")
    };
    until("that is told", is_told).await;
    assert_eq!(moves(&plane).len(), 1);
    // Refused is refused: nothing begins when the other one ends.
    plane.push(&[("move.yaml", &(other + "  abort: true\n"))]);
    until("it is back", || {
        moves(&plane) == [(there.to_owned(), "Aborted".to_owned())]
    })
    .await;
    assert!(is_told());
    assert!(answer(&plane)["refused"].is_string());
    assert_eq!(moves(&plane).len(), 1);
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

#[tokio::test]
async fn a_word_for_a_cluster_that_the_policy_does_not_allow_moves_nothing_and_is_told() {
    let (world, plane) = stage().await;
    let at_home = if runs(&world, "east", "orders") {
        "east"
    } else {
        "west"
    };
    plane.push(&[("job.yaml", &asks("north"))]);
    let running = plane.start();
    let refused = [("north".to_owned(), "Failed".to_owned())];
    until("it is refused", || moves(&plane) == refused).await;
    let one = plane.server.list(&MIGRATIONS, Some("shop")).remove(0);
    let finding = &one["status"]["findings"][0];
    assert_eq!(finding["code"], "PlacementExcludesTarget", "{one:#}");
    assert!(
        finding["message"]
            .as_str()
            .unwrap()
            .contains("placement does not hold north"),
        "{one:#}"
    );
    let status = opened(&one["status"]);
    let mut steps = status["steps"].as_array().unwrap().iter();
    assert!(steps.all(|step| step["name"] != "Hold"), "{status:#}");
    let is_told = || {
        let status = plane
            .origin
            .read("cutover-status", "STATUS.md")
            .unwrap_or_default();
        status.contains("placement does not hold north")
    };
    until("that is told", is_told).await;
    // The word stays, and is not tried again.
    drop(running);
    plane.run().await;
    plane.run().await;
    assert_eq!(moves(&plane), refused);
    assert!(runs(&world, at_home, "orders"));
    assert_eq!(world.ledger().verdict().runs.len(), 1, "{}", world.ledger());
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}
