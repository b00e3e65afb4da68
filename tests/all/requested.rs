//! A template that asks by an annotation to be moved: a Migration for each word of it, once, and a reason where there is none.

use std::collections::BTreeSet;

use cutover::plan::Action;
use cutover::sandbox::World;
use cutover::sandbox::api::{Patch, Resource};
use serde_json::{Value, json};

use crate::placement::{job, policy, runs, started};
use crate::support::fleet::opened;
use crate::support::plane::{Plane, settings};
use crate::support::roles;
use crate::support::wait::until;

const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
const JOBS: Resource = Resource::new("flink.apache.org", "flinkdeployments");
const EVACUATIONS: Resource = Resource::new("cutover.dev", "evacuations");
const QUICK: &str = "- {name: main, gate: {migrations: {verify: {healthyFor: 1s}}}}";
/// The target is watched for longer than any test takes.
const PATIENT: &str = "- {name: main, gate: {migrations: {verify: {healthyFor: 2h, timeout: 3h}}}}";
/// The same, and a change of a policy sets a Migration off, too.
const AUTO: &str = "- {name: main, gate: {migrations: {mode: Auto, verify: {healthyFor: 2h, timeout: 3h}}}}";

async fn stage() -> (World, Plane) {
    stage_with(QUICK, "east, west").await
}

/// `orders` runs in one of some clusters.
async fn stage_with(syncs: &str, clusters: &str) -> (World, Plane) {
    let settings = settings(syncs);
    let policy = policy("orders", "orders", clusters) + "  # either\n";
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

/// What the status branch says.
fn page(plane: &Plane) -> String {
    let page = plane.origin.read("cutover-status", "STATUS.md");
    page.unwrap_or_default()
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
    // Where the annotation stands, and not the object.
    assert!(
        told.contains("job.yaml:3:57: ") && told.contains("wset, which is not a cluster"),
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
    let is_told = || page(&plane).contains("which has not ended, moves the workload elsewhere");
    until("the status reports it", is_told).await;
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
    let is_told = || page(&plane).contains("placement does not hold north");
    until("the status reports it", is_told).await;
    // The word stays, and is not tried again.
    drop(running);
    plane.run().await;
    plane.run().await;
    assert_eq!(moves(&plane), refused);
    assert!(runs(&world, at_home, "orders"));
    assert_eq!(world.ledger().verdict().runs.len(), 1, "{}", world.ledger());
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

/// Killed at each write, with and without an answer: the next process goes on with the Migration that is named.
#[tokio::test]
async fn a_process_that_dies_at_any_write_moves_it_once() {
    let mut seen = BTreeSet::new();
    for (write, answered) in (0..4).flat_map(|write| [(write, false), (write, true)]) {
        let (world, plane) = stage().await;
        let first = if runs(&world, "east", "orders") {
            "west"
        } else {
            "east"
        };
        annotate(&plane, Some(first));
        assert!(plane.run_until(write, answered).await, "{write}");
        let there = plane.server.list(&MIGRATIONS, Some("shop"));
        let are_held = there.iter().all(|one| one["spec"]["paused"] == true);
        seen.insert((answer(&plane).is_object(), there.len(), are_held));
        let named = answer(&plane)["migration"].clone();
        let _running = plane.start();
        until("it has moved", || moves(&plane) == has_moved(&[first])).await;
        until("that is said", || answer(&plane)["created"] == true).await;
        let name = plane.server.list(&MIGRATIONS, Some("shop"))[0]["metadata"]["name"].clone();
        assert_eq!(answer(&plane)["migration"], name, "{write} {answered}");
        assert!(named.is_null() || named == name, "{write} {answered}");
        assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
        assert_eq!(world.ledger().verdict().runs.len(), 2, "{}", world.ledger());
    }
    let expected = BTreeSet::from([
        (false, 0, true),
        (true, 0, true),
        (true, 1, true),
        (true, 1, false),
    ]);
    assert_eq!(seen, expected, "it died between all lines");
}

/// What there is beside the templates is read for all of them.
#[tokio::test]
async fn many_words_of_one_push_are_answered_by_a_few_reads() {
    let (world, plane) = stage().await;
    let names: Vec<String> = (0..8).map(|index| format!("job-{index}")).collect();
    let push = |annotations: &str| {
        let text =
            |name: &String| job(name).replace("namespace: shop", &format!("namespace: shop{annotations}"));
        let files: Vec<(String, String)> = names
            .iter()
            .map(|name| (format!("{name}.yaml"), text(name)))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
        plane.push(&files);
    };
    push("");
    plane.run().await;
    push(", annotations: {karmada.io/migration-target: nowhere}");
    let lists = || {
        let is_it = |resource: &str| resource.contains("evacuations");
        world
            .traffic()
            .count(|asked| asked.verb == "list" && is_it(&asked.resource))
    };
    let before = lists();
    plane.run().await;
    for name in &names {
        let live = plane.get(&JOBS, Some("shop"), name).unwrap();
        let answer = live["metadata"]["annotations"]["cutover.dev/migration-target-answer"].as_str();
        assert!(
            answer.is_some_and(|answer| answer.contains("nowhere")),
            "{live:#}"
        );
    }
    let read = lists() - before;
    assert!((1..8).contains(&read), "{read}");
}

/// The request that creates it is sent by a process that stood still: the annotation names another cluster by then.
#[tokio::test]
async fn a_migration_that_is_created_late_is_deleted_and_moves_nothing() {
    let (world, plane) = stage().await;
    world.traffic().record();
    let (at_home, first) = if runs(&world, "east", "orders") {
        ("east", "west")
    } else {
        ("west", "east")
    };
    annotate(&plane, Some(first));
    assert!(plane.run_until(1, true).await);
    let mut late = plane.server.list(&MIGRATIONS, Some("shop")).remove(0);
    let name = late["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(answer(&plane)["migration"], name.as_str());
    plane.server.delete(&MIGRATIONS, Some("shop"), &name);
    for given in [
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "managedFields",
    ] {
        late["metadata"].as_object_mut().unwrap().remove(given);
    }

    annotate(&plane, Some("north"));
    let running = plane.start();
    // The policy does not allow north.
    let refused = [("north".to_owned(), "Failed".to_owned())];
    until("the other one has ended", || moves(&plane) == refused).await;
    until("that is said", || answer(&plane)["created"] == true).await;
    let said = answer(&plane);
    plane
        .server
        .create(&MIGRATIONS, Some("shop"), late.clone(), "cutover");
    until("the late one is gone", || moves(&plane) == refused).await;
    // So is one that comes while no process looks.
    running.stop().await;
    plane.server.create(&MIGRATIONS, Some("shop"), late, "cutover");
    plane.run().await;
    assert_eq!((moves(&plane), answer(&plane)), (refused.to_vec(), said));
    assert!(runs(&world, at_home, "orders"));
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
    assert_eq!(world.ledger().verdict().runs.len(), 1, "{}", world.ledger());
    // What the roles that come along have to allow for this.
    let mut asked = roles::asked(world.traffic());
    asked.retain(|asked| asked.resource == "migrations");
    roles::keep(&asked);
}

#[tokio::test]
async fn a_later_word_waits_for_the_move_of_the_earlier_one_and_is_carried_out_then() {
    let (world, plane) = stage_with(PATIENT, "east, west, north").await;
    let clusters = ["east", "west", "north"];
    let at_home = clusters.iter().find(|cluster| runs(&world, cluster, "orders"));
    let at_home = at_home.copied().unwrap();
    let mut others = clusters.into_iter().filter(|cluster| *cluster != at_home);
    let (first, second) = (others.next().unwrap(), others.next().unwrap());
    let _running = plane.start();
    annotate(&plane, Some(first));
    let is_watched = |to: &str| moves(&plane).contains(&(to.to_owned(), "Verify".to_owned()));
    until("it moves", || is_watched(first)).await;
    annotate(&plane, Some(second));
    let is_told = || page(&plane).contains("which an earlier value of it has set off, has ended");
    until("its status says that it waits", is_told).await;
    assert_eq!(answer(&plane)["target"], first);
    assert_eq!(moves(&plane).len(), 1);
    let name = plane.server.list(&MIGRATIONS, Some("shop"))[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let abort = Patch::Merge(json!({"spec": {"abort": true}}));
    plane
        .server
        .patch(&MIGRATIONS, Some("shop"), &name, None, &abort, "kubectl");
    until("it moves to the other one", || is_watched(second)).await;
    assert!(runs(&world, second, "orders"));
    assert!(answer(&plane)["refused"].is_null(), "{}", answer(&plane));
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

#[tokio::test]
async fn a_word_for_a_cluster_that_an_evacuation_empties_is_refused_and_told() {
    let (world, plane) = stage().await;
    let (at_home, there) = if runs(&world, "east", "orders") {
        ("east", "west")
    } else {
        ("west", "east")
    };
    let evacuation = format!(
        "apiVersion: cutover.dev/v1alpha1\nkind: Evacuation\nmetadata: {{name: maintenance}}\n\
         spec: {{cluster: {there}, paused: true}}\n"
    );
    plane.push(&[("intents/maintenance.yaml", &evacuation)]);
    let _running = plane.start();
    let is_there = || plane.get(&EVACUATIONS, None, "maintenance").is_some();
    until("it is there", is_there).await;
    annotate(&plane, Some(there));
    let is_told =
        || page(&plane).contains("Evacuation maintenance, which has not ended, empties that cluster");
    until("the status reports it", is_told).await;
    assert!(answer(&plane)["refused"].is_string());
    assert!(moves(&plane).is_empty(), "{:?}", moves(&plane));
    assert!(runs(&world, at_home, "orders"));
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

/// A push whose policy and whose annotation want the workload in different clusters.
#[tokio::test]
async fn beside_a_policy_that_moves_it_elsewhere_a_word_is_refused_and_the_plan_says_so() {
    let settings = settings(AUTO);
    let (world, plane) = started(
        &policy("orders", "orders", "east"),
        &[("cutover.yaml", &settings)],
    )
    .await;
    plane.push(&[
        ("policy.yaml", &policy("orders", "orders", "north")),
        ("job.yaml", &asks("west")),
    ]);
    let planned = plane.planned().await.problems;
    let says = |problem: &cutover::plan::Problem| {
        ["in north", "in west", "only one of them can have it"]
            .iter()
            .all(|part| problem.message.contains(part))
    };
    assert!(planned.iter().any(says), "{planned:?}");

    let _running = plane.start();
    let is_told = || page(&plane).contains("which has not ended, moves the workload elsewhere");
    until("the status reports it", is_told).await;
    assert!(answer(&plane)["refused"].is_string());
    until("the policy moves it", || {
        moves(&plane) == [("north".to_owned(), "Verify".to_owned())]
    })
    .await;
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

#[tokio::test]
async fn each_reason_has_its_own_place_and_says_what_can_be_done() {
    let (_world, plane) = stage().await;
    let told = async || {
        let report = plane.sync("main").await;
        let [problem] = report.requests.as_slice() else {
            panic!("{:?}", report.requests)
        };
        (problem.to_string(), problem.hint.clone().unwrap())
    };
    // By hand: Git has the object, and not the word.
    annotate(&plane, Some("wset"));
    let (message, hint) = told().await;
    assert!(message.starts_with("job.yaml:1:1: "), "{message}");
    assert!(hint.contains("let it name another cluster"), "{hint}");
    annotate(&plane, None);
    plane.run().await;

    plane.refuse(&["POST /apis/cutover.dev/v1alpha1/namespaces/shop/migrations"]);
    plane.push(&[("job.yaml", &asks("west"))]);
    let (message, hint) = told().await;
    assert!(message.starts_with("job.yaml:3:57: "), "{message}");
    assert_eq!(hint, "it is tried again until it succeeds");
    plane.push(&[("job.yaml", &job("orders"))]);
    plane.run().await;
    plane.refuse(&[]);

    // As a live object has it that was written to a file.
    let answer = r#"cutover.dev/migration-target-answer: '{"target": "north"}', karmada"#;
    plane.push(&[("job.yaml", &asks("wset").replace("karmada", answer))]);
    let (message, hint) = told().await;
    assert!(message.starts_with("job.yaml:3:57: "), "{message}");
    assert_eq!(hint, "remove cutover.dev/migration-target-answer from the file");
    assert!(moves(&plane).is_empty(), "{:?}", moves(&plane));
}
