//! The gate: no push takes a live stateful workload out of its cluster without a move that carries its state, or a word that
//! accepts the loss.

use cutover::intent::gate::{ACCEPT_ANNOTATION, ACCEPT_DELETION};
use cutover::name::ObjectKey;
use cutover::plan::{Action, Change};
use cutover::sandbox::api::{Patch, Resource};
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};

use crate::placement::{job, migration, named, phase, policy, runs, started};
use crate::support::plane::{NAMESPACE, Plane, settings};
use crate::support::wait::until;

const JOBS: Resource = Resource::new("flink.apache.org", "flinkdeployments");
const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");
const NAMESPACES: Resource = Resource::new("", "namespaces");
const PRUNES: &str = "- {name: main, prune: true, pruneLimit: {objects: 100, percent: 100}}";

/// A policy that lets the scheduler choose one of some clusters.
fn one_of(clusters: &str) -> String {
    let text = policy("orders", "orders", clusters);
    text.replace(
        "placement: {",
        "placement: {spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}], ",
    )
}

async fn problems(plane: &Plane) -> Vec<String> {
    let report = plane.sync("main").await;
    report.all_problems().iter().map(ToString::to_string).collect()
}

fn one_run(world: &World) {
    let verdict = world.ledger().verdict();
    assert!(verdict.is_clean(), "{}", world.ledger());
    assert_eq!(verdict.runs.len(), 1, "{}", world.ledger());
    assert!(runs(world, "east", "orders"), "{}", world.ledger());
}

/// Why the object `orders` of a kind is blocked.
fn blocked(changes: &[Change], kind: &str) -> String {
    let found = changes
        .iter()
        .find(|change| change.key.name == "orders" && change.key.kind == kind);
    match found.map(|change| &change.action) {
        Some(Action::Blocked { reason }) => reason.clone(),
        other => panic!("{kind}: {other:?}"),
    }
}

#[tokio::test]
async fn one_edited_line_of_a_policy_moves_no_job_without_its_state() {
    for (before, after, says) in [
        (
            one_of("east"),
            one_of("west"),
            "would stop in east and start in west from nothing",
        ),
        (
            one_of("east"),
            one_of("west, north"),
            "would stop in east and start in north or west from nothing",
        ),
        (
            policy("orders", "orders", "east"),
            policy("orders", "orders", "east, west"),
            "would start in west from nothing, beside east where it runs",
        ),
    ] {
        let (world, plane) = started(&before, &[]).await;
        let live = named(&plane, "orders");
        plane.push(&[("policy.yaml", &after)]);
        let planned = blocked(&plane.plan().await, "PropagationPolicy");
        assert!(planned.contains(says), "{planned}");
        for _ in 0..2 {
            let problems = problems(&plane).await;
            let said = problems
                .iter()
                .any(|problem| problem.contains(says) && problem.contains("policy.yaml"));
            assert!(said, "{problems:?}");
            let status = plane.origin.read("cutover-status", "STATUS.md").unwrap();
            assert!(
                status.contains(says) && !status.contains("All is well"),
                "{status}"
            );
        }
        assert_eq!(named(&plane, "orders"), live);
        one_run(&world);
        // Taken back, there is nothing to say any more.
        plane.push(&[("policy.yaml", &before)]);
        assert!(plane.run().await.is_clean());
    }
}

#[tokio::test]
async fn what_keeps_the_job_where_it_is_goes_out() {
    let (world, plane) = started(&one_of("east"), &[]).await;
    for after in [
        one_of("east, west, north"),
        one_of("east").replace("spec:", "spec:\n  propagateDeps: true"),
        one_of("west, east"),
    ] {
        plane.push(&[("policy.yaml", &after)]);
        let summary = plane.run().await;
        assert!(summary.is_clean(), "{summary:?}");
    }
    one_run(&world);
}

#[tokio::test]
async fn a_migration_takes_the_policy_along_that_was_held_back() {
    let (world, plane) = started(&one_of("east"), &[]).await;
    let _running = plane.start();
    // The policy first, as somebody does who has read the hint.
    plane.push(&[("policy.yaml", &one_of("west"))]);
    plane.push(&[("move.yaml", &migration("orders", ""))]);
    until("it has moved", || phase(&plane, "orders") == "Completed").await;
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    let verdict = world.ledger().verdict();
    assert!(verdict.is_clean(), "{}", world.ledger());
    assert!(runs(&world, "west", "orders"));
}

#[tokio::test]
async fn a_policy_held_back_goes_out_when_the_job_has_come_to_where_it_names() {
    let (_world, plane) = started(&one_of("east, west"), &[]).await;
    plane.push(&[("policy.yaml", &one_of("west"))]);
    assert!(!problems(&plane).await.is_empty());
    // The old policy stays in force while it moves; what was held back goes out after.
    plane.push(&[("move.yaml", &migration("orders", ""))]);
    let _running = plane.start();
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    until("it has moved", || phase(&plane, "orders") == "Completed").await;
}

#[tokio::test]
async fn a_plan_says_of_two_intents_that_only_one_can_have_what_both_want() {
    let (_world, plane) = started(&one_of("east, west, north"), &[]).await;
    let to_west = migration("orders", "  paused: true\n");
    let to_north = to_west
        .replace("to-west", "to-north")
        .replace("to: west", "to: north");
    plane.push(&[("west.yaml", &to_west), ("north.yaml", &to_north)]);
    let says = "only one of them can have it, and neither has ended";
    let told = |problems: &[cutover::plan::Problem]| -> Vec<String> {
        problems.iter().map(|problem| problem.message.clone()).collect()
    };
    let planned = told(&plane.planned().await.problems);
    assert!(planned.len() == 1 && planned[0].contains(says), "{planned:?}");
    // The one that is there already has not begun, let alone ended.
    plane.push(&[("north.yaml", "")]);
    assert!(plane.run().await.is_clean());
    assert_eq!(told(&plane.planned().await.problems), [""; 0]);
    plane.push(&[("north.yaml", &to_north)]);
    let planned = told(&plane.planned().await.problems);
    assert!(planned.len() == 1 && planned[0].contains(says), "{planned:?}");
    plane.push(&[(
        "north.yaml",
        &to_north.replace("to: north", "to: north\n  from: west"),
    )]);
    assert_eq!(told(&plane.planned().await.problems), [""; 0]);
}

#[tokio::test]
async fn the_loss_is_accepted_for_one_change() {
    let (world, plane) = started(&one_of("east"), &[]).await;
    plane.push(&[("policy.yaml", &one_of("west"))]);
    let reason = blocked(&plane.plan().await, "PropagationPolicy");
    let setting = "a push asks for it by itself with gate: {migrations: {mode: Auto}} in cutover.yaml";
    assert!(reason.contains(setting), "{reason}");
    let (_, digest) = reason.rsplit_once(&format!("{ACCEPT_ANNOTATION}: ")).unwrap();
    let annotated = |clusters: &str| {
        let metadata = format!("annotations: {{{ACCEPT_ANNOTATION}: '{digest}'}}, namespace");
        one_of(clusters).replace("namespace", &metadata)
    };
    plane.push(&[("policy.yaml", &annotated("north"))]);
    assert!(!problems(&plane).await.is_empty());
    one_run(&world);
    plane.push(&[("policy.yaml", &annotated("west"))]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    until("it runs in west", || runs(&world, "west", "orders")).await;
}

#[tokio::test]
async fn a_renamed_policy_moves_no_job_either() {
    let settings = settings(PRUNES);
    let (world, plane) = started(&one_of("east"), &[("cutover.yaml", &settings)]).await;
    let renamed = one_of("west").replace("name: orders,", "name: other,");
    plane.push(&[("policy.yaml", ""), ("other.yaml", &renamed)]);
    let says = "would stop in east and start in west from nothing";
    let planned = blocked(&plane.plan().await, "PropagationPolicy");
    assert!(planned.contains(says), "{planned}");
    for _ in 0..2 {
        let problems = problems(&plane).await;
        assert!(
            problems.iter().any(|problem| problem.contains(says)),
            "{problems:?}"
        );
    }
    assert!(plane.get(&POLICIES, Some("shop"), "orders").is_some());
    one_run(&world);
    // With the same placement it is only a name.
    plane.push(&[("other.yaml", &renamed.replace("[west]", "[east]"))]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    // Karmada has a finalizer on it.
    let is_gone = || plane.get(&POLICIES, Some("shop"), "orders").is_none();
    until("the old policy is gone", is_gone).await;
    one_run(&world);
}

/// A policy that selects every job.
fn of_every_job(name: &str, cluster: &str) -> String {
    policy(name, "", cluster).replace(", name: ''", "")
}

/// The same for all namespaces.
fn of_all_namespaces(name: &str, cluster: &str) -> String {
    let text = of_every_job(name, cluster).replace("PropagationPolicy", "ClusterPropagationPolicy");
    text.replace(", namespace: shop", "")
}

/// The job has this policy: `propagationpolicy` or `clusterpropagationpolicy`, and its name.
async fn is_claimed_by(plane: &Plane, kind: &str, name: &str) {
    until("it has its policy", || {
        let job = plane.get(&JOBS, Some("shop"), "orders").unwrap();
        job["metadata"]["annotations"][format!("{kind}.karmada.io/name")] == name
    })
    .await;
}

/// It would go to the policy of all, and so to north. The one that is to take it up is judged first, and accepted in a dry run.
#[tokio::test]
async fn a_policy_lets_no_job_go_when_the_write_of_the_one_that_takes_it_up_fails() {
    let all = of_all_namespaces("all", "north");
    let (world, plane) = started(&policy("own", "orders", "east"), &[("all.yaml", &all)]).await;
    plane
        .refuse_writes(&["PATCH /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/first"]);
    plane.push(&[
        ("first.yaml", &policy("first", "orders", "east")),
        ("policy.yaml", &policy("own", "another", "east")),
    ]);
    let selected = || {
        let own = plane.get(&POLICIES, Some("shop"), "own").unwrap();
        own["spec"]["resourceSelectors"][0]["name"].clone()
    };
    for _ in 0..2 {
        let report = plane.sync("main").await;
        let is_held =
            |(key, by): (&ObjectKey, &str)| key.name == "own" && by == "PropagationPolicy shop/first";
        assert!(report.held_back().any(is_held), "{:?}", report.undone());
        assert_eq!(selected(), "orders");
        one_run(&world);
    }
    // One run applies both, one after the other.
    plane.refuse_writes(&[]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    assert_eq!(selected(), "another");
    is_claimed_by(&plane, "propagationpolicy", "first").await;
    one_run(&world);
}

/// Without both of them the job stays in east; without its own one alone it would go to north.
#[tokio::test]
async fn a_policy_is_not_deleted_when_the_deletion_of_one_that_would_move_its_job_fails() {
    let settings = settings(PRUNES);
    let (all, other) = (
        of_all_namespaces("all", "east"),
        of_every_job("shop-default", "north"),
    );
    let more = [
        ("cutover.yaml", &*settings),
        ("all.yaml", &*all),
        ("other.yaml", &*other),
    ];
    let (world, plane) = started(&policy("orders", "orders", "east"), &more).await;
    is_claimed_by(&plane, "propagationpolicy", "orders").await;
    plane.refuse(&[
        "DELETE /apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies/shop-default",
    ]);
    plane.push(&[("policy.yaml", ""), ("other.yaml", "")]);
    for _ in 0..2 {
        let problems = problems(&plane).await;
        let is_told = |problem: &String| problem.contains("shop-default") && problem.contains("forbidden");
        assert!(problems.iter().any(is_told), "{problems:?}");
        let own = plane.get(&POLICIES, Some("shop"), "orders").unwrap();
        assert_eq!(own["metadata"]["deletionTimestamp"], Value::Null);
        one_run(&world);
    }
    // One run deletes both, one after the other.
    plane.refuse(&[]);
    plane.run().await;
    until("both are gone", || {
        let is_there = |name| plane.get(&POLICIES, Some("shop"), name).is_some();
        !is_there("orders") && !is_there("shop-default")
    })
    .await;
    is_claimed_by(&plane, "clusterpropagationpolicy", "all").await;
    one_run(&world);
}

#[tokio::test]
async fn a_policy_that_preempts_is_held_back() {
    let (world, plane) = started(&one_of("east"), &[]).await;
    let other = one_of("west")
        .replace("name: orders,", "name: other,")
        .replace("spec:", "spec:\n  preemption: Always\n  priority: 10");
    plane.push(&[("other.yaml", &other)]);
    let problems = problems(&plane).await;
    assert!(
        problems
            .iter()
            .any(|problem| problem.contains("would stop in east")),
        "{problems:?}"
    );
    assert!(plane.get(&POLICIES, Some("shop"), "other").is_none());
    one_run(&world);
}

#[tokio::test]
async fn a_job_and_its_namespace_are_pruned_only_when_somebody_has_said_so() {
    let settings = settings(PRUNES);
    // Git keeps something: else all of it would have to be approved.
    let other = NAMESPACE.1.replace("shop", "other");
    let more = [("cutover.yaml", &*settings), ("other.yaml", &*other)];
    let (world, plane) = started(&one_of("east"), &more).await;
    plane.push(&[("job.yaml", ""), ("policy.yaml", ""), (NAMESPACE.0, "")]);
    let says = "FlinkDeployment shop/orders would end in east, with its state";
    assert!(blocked(&plane.plan().await, "FlinkDeployment").contains(says));
    for _ in 0..2 {
        let problems = problems(&plane).await;
        assert!(
            problems.iter().any(|problem| problem.contains(says)),
            "{problems:?}"
        );
    }
    assert!(plane.get(&NAMESPACES, None, "shop").is_some());
    one_run(&world);
    let accept = Patch::Merge(json!({"metadata": {"annotations": {ACCEPT_ANNOTATION: ACCEPT_DELETION}}}));
    plane
        .server
        .patch(&JOBS, Some("shop"), "orders", None, &accept, "kubectl-annotate");
    plane.run().await;
    until("the job is gone", || {
        plane.get(&JOBS, Some("shop"), "orders").is_none()
    })
    .await;
}

#[tokio::test]
async fn what_has_no_state_or_is_new_costs_no_word() {
    let web = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: 'web:1'}]}}
";
    let place = |clusters: &str| {
        one_of(clusters)
            .replace("name: orders,", "name: web,")
            .replace("flink.apache.org/v1beta1", "apps/v1")
            .replace(
                "kind: FlinkDeployment, name: 'orders'",
                "kind: Deployment, name: web",
            )
    };
    let more = [("web.yaml", web), ("web-policy.yaml", &*place("east"))];
    let (world, plane) = started(&one_of("east"), &more).await;
    let fresh = job("fresh");
    let fresh_policy = one_of("north").replace("orders", "fresh");
    plane.push(&[
        ("web-policy.yaml", &place("west")),
        ("fresh.yaml", &fresh),
        ("fresh-policy.yaml", &fresh_policy),
    ]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    until("a new job begins", || runs(&world, "north", "fresh")).await;
    assert_eq!(named(&plane, "web"), Value::from(vec!["west"]));
}

#[tokio::test]
async fn while_it_cannot_be_told_what_runs_where_a_policy_waits() {
    let (world, plane) = started(&one_of("east"), &[]).await;
    plane.push(&[("policy.yaml", &one_of("west"))]);
    plane.refuse(&["/resourcebindings"]);
    let said = problems(&plane).await;
    assert!(
        said.iter().any(|problem| problem.contains("it is not known")),
        "{said:?}"
    );
    plane.refuse(&["/clusters"]);
    let said = problems(&plane).await;
    assert!(
        said.iter().any(|problem| problem.contains("it is not known")),
        "{said:?}"
    );
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    one_run(&world);
}

const WEB: &str = "apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop, annotations: {cutover.dev/recreate: 'true'}}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: 'db:1'}]}}
";

#[tokio::test]
async fn what_has_state_is_created_anew_only_when_somebody_has_said_that_it_may_go() {
    const SETS: Resource = Resource::new("apps", "statefulsets");
    let place = policy("db", "db", "east").replace("flink.apache.org/v1beta1", "apps/v1");
    let place = place.replace("FlinkDeployment", "StatefulSet");
    let (_world, plane) = started(&one_of("east"), &[("db.yaml", WEB), ("db-policy.yaml", &place)]).await;
    let uid = || {
        plane
            .get(&SETS, Some("shop"), "db")
            .map(|set| set["metadata"]["uid"].clone())
    };
    let before = uid();
    let bindings = Resource::new("work.karmada.io", "resourcebindings");
    until("it is placed", || {
        let binding = plane.get(&bindings, Some("shop"), "db-statefulset");
        binding.is_some_and(|binding| binding["spec"]["clusters"][0]["name"] == "east")
    })
    .await;
    plane.push(&[("db.yaml", &WEB.replace("serviceName: db", "serviceName: other"))]);
    let says = "StatefulSet shop/db would end in east, with its state";
    let planned = plane.plan().await;
    let found = planned
        .iter()
        .find(|change| change.key.kind == "StatefulSet")
        .unwrap();
    assert!(
        matches!(&found.action, Action::Blocked { reason } if reason.contains(says)),
        "{:?}",
        found.action
    );
    for _ in 0..2 {
        let problems = problems(&plane).await;
        let said = problems
            .iter()
            .any(|problem| problem.contains("not recreated") && problem.contains(says));
        assert!(said, "{problems:?}");
        assert_eq!(uid(), before);
    }
    let accept = Patch::Merge(json!({"metadata": {"annotations": {ACCEPT_ANNOTATION: ACCEPT_DELETION}}}));
    plane
        .server
        .patch(&SETS, Some("shop"), "db", None, &accept, "kubectl-annotate");
    let _running = plane.start();
    until("it is another one", || {
        uid().is_some_and(|uid| Some(uid) != before)
    })
    .await;
}

const DATABASE: &str = "apiVersion: example.org/v1
kind: Database
metadata: {name: db, namespace: shop}
spec: {size: 1}
";

/// A kind of which only a profile in Git says that it has state.
const OWN_PROFILE: &str = "apiVersion: cutover.dev/v1alpha1
kind: WorkloadProfile
metadata: {name: database}
spec:
  appliesTo: {group: example.org, kinds: [Database]}
  stateful: true
  suspend: [{op: add, path: /spec/paused, value: true}]
  hold: [{op: add, path: /spec/paused, value: true}]
  start: [{op: add, path: /spec/paused, value: false}]
  restart: [{op: add, path: /spec/paused, value: false}]
  observedWhen: has(object.status)
  suspendedWhen: has(object.status)
  healthyWhen: has(object.status)
";
const DB_MOVES: &str = "Database shop/db would stop in east and start in west from nothing";

fn db_policy(clusters: &str) -> String {
    policy("db", "db", clusters)
        .replace("flink.apache.org/v1beta1", "example.org/v1")
        .replace("FlinkDeployment", "Database")
}

/// A Database runs in east, of which no profile speaks.
async fn with_database(settings: &str) -> (World, Plane) {
    let definition = database();
    let (world, plane) = started(&one_of("east"), &[("cutover.yaml", settings)]).await;
    world.control_plane().install(&definition).unwrap();
    for member in world.members() {
        member.api.install(&definition).unwrap();
    }
    // What doesn't fit when it is first looked at, the scheduler doesn't look at again.
    let clusters = Resource::new("cluster.karmada.io", "clusters");
    until("the members' kinds are known", || {
        let cluster = plane.get(&clusters, None, "east").unwrap_or_default();
        cluster["status"]["apiEnablements"]
            .to_string()
            .contains("example.org/v1")
    })
    .await;
    plane.push(&[("db.yaml", DATABASE), ("db-policy.yaml", &db_policy("east"))]);
    plane.run().await;
    let bindings = Resource::new("work.karmada.io", "resourcebindings");
    until("it is placed", || {
        let binding = plane.get(&bindings, Some("shop"), "db-database");
        binding.is_some_and(|binding| binding["spec"]["clusters"][0]["name"] == "east")
    })
    .await;
    (world, plane)
}

#[tokio::test]
async fn a_profile_that_comes_with_a_policy_is_about_that_policy_already() {
    let (_world, plane) = with_database(&settings("- {name: main}")).await;
    plane.push(&[
        ("profile.yaml", OWN_PROFILE),
        ("db-policy.yaml", &db_policy("west")),
    ]);
    let planned = plane.plan().await;
    let change = planned
        .iter()
        .find(|change| change.key.kind == "PropagationPolicy" && change.key.name == "db");
    match change.map(|change| &change.action) {
        Some(Action::Blocked { reason }) => assert!(reason.contains(DB_MOVES), "{reason}"),
        other => panic!("{other:?}"),
    }
    let said = problems(&plane).await.join("\n");
    assert!(said.contains(DB_MOVES), "{said}");
    assert_eq!(named(&plane, "db"), json!(["east"]));
}

#[tokio::test]
async fn a_profile_stays_while_it_is_all_that_says_of_state() {
    let (_world, plane) = with_database(&settings(PRUNES)).await;
    plane.push(&[("profile.yaml", OWN_PROFILE)]);
    plane.run().await;
    plane.push(&[
        ("db-policy.yaml", &*db_policy("west")),
        ("profile.yaml", "# nothing\n"),
    ]);
    for _ in 0..2 {
        let said = problems(&plane).await.join("\n");
        assert!(said.contains(DB_MOVES), "{said}");
        assert!(
            said.contains("no profile would say any more that it has state"),
            "{said}"
        );
        assert_eq!(named(&plane, "db"), json!(["east"]));
    }
    let weaker = OWN_PROFILE.replace("stateful: true", "stateful: false");
    plane.push(&[("profile.yaml", &*weaker)]);
    for _ in 0..2 {
        let said = problems(&plane).await.join("\n");
        assert!(said.contains(DB_MOVES), "{said}");
        assert_eq!(named(&plane, "db"), json!(["east"]));
    }
}

fn database() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "databases.example.org"},
        "spec": {
            "group": "example.org", "scope": "Namespaced",
            "names": {"plural": "databases", "singular": "database", "kind": "Database", "listKind": "DatabaseList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

#[tokio::test]
async fn what_no_profile_speaks_of_is_told_and_held_back_only_on_demand() {
    for (gate, is_held) in [("{}", false), ("{unknownKinds: Block}", true)] {
        let settings = settings(&format!("- {{name: main, gate: {gate}}}"));
        let (_world, plane) = with_database(&settings).await;
        plane.push(&[("db-policy.yaml", &db_policy("west"))]);
        let planned = plane.plan().await;
        let change = planned
            .iter()
            .find(|change| change.key.kind == "PropagationPolicy" && change.key.name == "db")
            .unwrap();
        match &change.action {
            Action::Blocked { reason } => assert!(is_held && reason.contains(DB_MOVES), "{reason}"),
            Action::Configure => {
                let told = change.warning.clone().unwrap_or_default();
                assert!(!is_held && told.starts_with(DB_MOVES), "{told}");
            }
            other => panic!("{other:?}"),
        }
        plane.sync("main").await;
        let at = if is_held { "east" } else { "west" };
        assert_eq!(named(&plane, "db"), json!([at]));
    }
}

#[tokio::test]
async fn neither_another_sync_nor_a_file_that_cannot_be_read_opens_the_gate() {
    let settings = settings("- {name: policies, path: policies}\n- {name: apps, path: apps}");
    let world = World::start(WorldOptions::fast());
    let files = [
        ("cutover.yaml", &*settings),
        ("apps/namespace.yaml", NAMESPACE.1),
        ("apps/job.yaml", &*job("orders")),
        ("policies/orders.yaml", &*one_of("east")),
    ];
    let plane = Plane::on(world.control_plane(), &files);
    // A policy may come before its namespace.
    plane.run().await;
    plane.run().await;
    until("orders runs in east", || runs(&world, "east", "orders")).await;
    // The policy comes with a migration that can't be read.
    let broken = format!("{}  to: [", migration("orders", ""));
    plane.push(&[
        ("policies/orders.yaml", &one_of("west")),
        ("apps/move.yaml", &broken),
    ]);
    for _ in 0..2 {
        let report = plane.sync("policies").await;
        let problems: Vec<String> = report.all_problems().iter().map(ToString::to_string).collect();
        let says = "would stop in east and start in west from nothing";
        assert!(
            problems.iter().any(|problem| problem.contains(says)),
            "{problems:?}"
        );
    }
    assert_eq!(named(&plane, "orders"), json!(["east"]));
    one_run(&world);
    // It is mended, and carries the job; what was held back goes out.
    plane.push(&[("apps/move.yaml", &migration("orders", ""))]);
    let _running = plane.start();
    until("it has moved", || phase(&plane, "orders") == "Completed").await;
    until("the policy is in force", || {
        named(&plane, "orders") == json!(["west"])
    })
    .await;
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

#[tokio::test]
async fn of_many_workloads_of_a_policy_each_is_judged() {
    let all = |clusters: &str| policy("orders", "", clusters).replace(", name: ''", "");
    let jobs: Vec<(String, String)> = (0..5)
        .map(|count| (format!("job-{count}.yaml"), job(&format!("job-{count}"))))
        .collect();
    let files: Vec<(&str, &str)> = jobs.iter().map(|(path, job)| (&**path, &**job)).collect();
    let (world, plane) = started(&all("east"), &files).await;
    for count in 0..5 {
        until("it runs", || runs(&world, "east", &format!("job-{count}"))).await;
    }
    plane.push(&[("policy.yaml", &all("west"))]);
    let said = problems(&plane).await.join("\n");
    assert!(
        said.contains("FlinkDeployment shop/job-0 would stop in east"),
        "{said}"
    );
    assert!(said.contains("and 3 more"), "{said}");
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}
