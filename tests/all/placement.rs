//! One push that moves a workload and has its policy name the new cluster: the policy's change waits until the move is committed,
//! and is not applied at all when that never comes, for Karmada would move the workload by itself then, without its state.

use cutover::cluster::{Cluster, Limits};
use cutover::reconcile;
use cutover::report::review::Verdict;
use cutover::sandbox::api::Resource;
use cutover::sandbox::{World, WorldOptions};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::plane::{NAMESPACE, Plane, settings};
use crate::support::wait::until;

const JOBS: Resource = Resource::new("flink.apache.org", "flinkdeployments");
const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");
const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");
const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");

pub fn policy(name: &str, job: &str, clusters: &str) -> String {
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {{name: {name}, namespace: shop}}
spec:
  resourceSelectors: [{{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: '{job}'}}]
  placement: {{clusterAffinity: {{clusterNames: [{clusters}]}}}}
"
    )
}

pub fn job(name: &str) -> String {
    format!(
        "apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {{name: {name}, namespace: shop}}
spec:
  image: orders:1.0
  flinkVersion: v1_20
  serviceAccount: default
  flinkConfiguration: {{taskmanager.numberOfTaskSlots: '1'}}
  jobManager: {{resource: {{memory: 1024m, cpu: 1}}}}
  taskManager: {{resource: {{memory: 1024m, cpu: 1}}}}
  job: {{jarURI: 'local:///opt/orders.jar', parallelism: 1, upgradeMode: savepoint, state: running}}
"
    )
}

pub fn migration(job: &str, more: &str) -> String {
    format!(
        "apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {{name: {job}-to-west, namespace: shop}}
spec:
  workload: {{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: {job}}}
  to: west
  verify: {{healthyFor: 1s}}
{more}"
    )
}

/// `orders` runs in east, the only cluster that the policy names.
pub async fn started(policy: &str, more: &[(&str, &str)]) -> (World, Plane) {
    started_in(WorldOptions::fast(), policy, more).await
}

/// The same, in a world of some other kind.
pub async fn started_in(options: WorldOptions, policy: &str, more: &[(&str, &str)]) -> (World, Plane) {
    let world = World::start(options);
    let job = job("orders");
    let mut all = vec![NAMESPACE, ("policy.yaml", policy), ("job.yaml", &job)];
    all.extend(more);
    let plane = Plane::on(world.control_plane(), &all);
    plane.run().await;
    until("orders runs in east", || runs(&world, "east", "orders")).await;
    (world, plane)
}

pub fn runs(world: &World, cluster: &str, job: &str) -> bool {
    let copy = world.member(cluster).api.get(&JOBS, Some("shop"), job);
    copy.is_ok_and(|copy| copy.pointer("/status/jobStatus/state") == Some(&Value::from("RUNNING")))
}

fn migration_of(plane: &Plane, job: &str) -> Value {
    let found = plane.get(&MIGRATIONS, Some("shop"), &format!("{job}-to-west"));
    found.map(|found| found["status"].clone()).unwrap_or_default()
}

pub fn phase(plane: &Plane, job: &str) -> String {
    let status = migration_of(plane, job);
    status["phase"].as_str().unwrap_or_default().to_owned()
}

/// The clusters that a policy names.
pub fn named(plane: &Plane, policy: &str) -> Value {
    let policy = plane.get(&POLICIES, Some("shop"), policy).unwrap();
    policy["spec"]["placement"]["clusterAffinity"]["clusterNames"].clone()
}

fn listed(plane: &Plane, job: &str) -> Value {
    let name = format!("{job}-flinkdeployment");
    let binding = plane.get(&BINDINGS, Some("shop"), &name).unwrap();
    let clusters = binding["spec"]["clusters"].as_array().unwrap();
    clusters.iter().map(|cluster| cluster["name"].clone()).collect()
}

/// Its placement would reach the workload only with a change of the template, which waits for the end of the move.
#[tokio::test]
async fn a_lazy_policy_that_is_to_change_is_found_before_anything_is_touched() {
    let lazy = |clusters: &str| {
        policy("orders", "orders", clusters).replace("spec:", "spec:\n  activationPreference: Lazy")
    };
    let (world, plane) = started(&lazy("east"), &[]).await;
    plane.push(&[
        ("policy.yaml", &*lazy("west")),
        ("move.yaml", &*migration("orders", "")),
    ]);
    let _running = plane.start();
    until("it has ended", || phase(&plane, "orders") == "Failed").await;
    let status = migration_of(&plane, "orders");
    assert_eq!(status["findings"][0]["code"], "LazyPolicy", "{status:#}");
    assert!(runs(&world, "east", "orders"));
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

#[tokio::test]
async fn a_policy_that_names_the_target_alone_comes_with_the_migration() {
    let (world, plane) = started(&policy("orders", "orders", "east"), &[]).await;
    let _running = plane.start();
    plane.push(&[
        ("policy.yaml", &policy("orders", "orders", "west")),
        ("move.yaml", &migration("orders", "")),
    ]);
    until("the migration has ended", || {
        ["Completed", "Failed", "RolledBack"].contains(&&*phase(&plane, "orders"))
    })
    .await;
    let status = migration_of(&plane, "orders");
    assert_eq!(status["phase"], "Completed", "{status:#}");
    assert!(status["heldPolicies"].is_null(), "{status:#}");
    assert_eq!(named(&plane, "orders"), Value::from(vec!["west"]));
    assert_eq!(listed(&plane, "orders"), Value::from(vec!["west"]));
    let verdict = world.ledger().verdict();
    assert!(verdict.is_clean(), "{}", world.ledger());
    assert_eq!(verdict.runs.len(), 2, "{}", world.ledger());
}

#[tokio::test]
async fn a_policy_that_would_move_the_workload_stays_unapplied_when_the_migration_comes_to_nothing() {
    // Each ends before anything was touched: in Preflight, before it, and by a person.
    for (more, end) in [
        ("  profile: nobody-knows-it\n", "Failed"),
        ("  window: {notAfter: 2020-01-02T00:00:00Z}\n", "Failed"),
        ("  abort: true\n", "Aborted"),
    ] {
        let (world, plane) = started(&policy("orders", "orders", "east"), &[]).await;
        plane.push(&[
            ("policy.yaml", &policy("orders", "orders", "west")),
            ("move.yaml", &migration("orders", more)),
        ]);
        let summary = plane.run().await;
        assert_eq!(
            phase(&plane, "orders"),
            end,
            "{:#}",
            migration_of(&plane, "orders")
        );
        let (_, report) = &summary.syncs[0];
        let held: Vec<String> = report
            .held_back()
            .map(|(key, by)| format!("{key} by {by}"))
            .collect();
        assert_eq!(
            held,
            [
                "PropagationPolicy shop/orders by Migration shop/orders-to-west, which has not moved the workload that this \
                 policy places"
            ],
            "{more}"
        );
        assert_eq!(named(&plane, "orders"), Value::from(vec!["east"]), "{more}");
        // Another reconciler knows it as well; a commit that changes the policy is what it takes.
        plane.run().await;
        assert_eq!(named(&plane, "orders"), Value::from(vec!["east"]), "{more}");
        assert!(runs(&world, "east", "orders"), "{}", world.ledger());
        // Then the gate still keeps one that would move it.
        let changed = policy("orders", "orders", "west").replace("spec:", "spec:\n  propagateDeps: true");
        plane.push(&[("policy.yaml", &changed)]);
        let summary = plane.run().await;
        let problems: Vec<String> = summary.syncs[0]
            .1
            .all_problems()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(
            problems.iter().any(|it| it.contains("would stop in east")),
            "{problems:?}"
        );
        assert_eq!(named(&plane, "orders"), Value::from(vec!["east"]), "{more}");
        plane.push(&[("policy.yaml", &changed.replace("[west]", "[east]"))]);
        plane.run().await;
        let applied = plane.get(&POLICIES, Some("shop"), "orders").unwrap();
        assert_eq!(applied["spec"]["propagateDeps"], true, "{more}");
    }
}

#[tokio::test]
async fn a_policy_that_would_take_the_workload_up_stays_unapplied_as_well() {
    let settings = settings("- {name: main, prune: true}");
    let own = policy("orders", "orders", "east");
    let taker = policy("orders-west", "orders", "west");
    let preempts = taker.replace("spec:", "spec:\n  preemption: Always");
    // Under a new name, with the old one gone; and beside the old one.
    for (own_file, taken_by) in [("", &taker), (&*own, &preempts)] {
        let (world, plane) = started(&own, &[("cutover.yaml", &settings)]).await;
        plane.push(&[
            ("policy.yaml", own_file),
            ("west.yaml", taken_by),
            ("move.yaml", &migration("orders", "  profile: nobody-knows-it\n")),
        ]);
        for _ in 0..2 {
            plane.run().await;
            let status = migration_of(&plane, "orders");
            assert_eq!(status["phase"], "Failed", "{status:#}");
            let held = &status["heldPolicies"][0]["policy"];
            assert_eq!(
                held,
                &json!({"namespace": "shop", "name": "orders-west"}),
                "{status:#}"
            );
            assert!(plane.get(&POLICIES, Some("shop"), "orders-west").is_none());
        }
        assert!(runs(&world, "east", "orders"), "{}", world.ledger());
        plane.push(&[("west.yaml", &taken_by.replace("[west]", "[east]"))]);
        plane.run().await;
        assert!(plane.get(&POLICIES, Some("shop"), "orders-west").is_some());
    }
    // Beside one that keeps the workload, one that takes nothing from others is nobody's business.
    let (_world, plane) = started(&own, &[("cutover.yaml", &settings)]).await;
    plane.push(&[
        ("west.yaml", &taker),
        ("move.yaml", &migration("orders", "  profile: nobody-knows-it\n")),
    ]);
    plane.run().await;
    assert!(migration_of(&plane, "orders")["heldPolicies"].is_null());
    assert!(plane.get(&POLICIES, Some("shop"), "orders-west").is_some());
}

#[tokio::test]
async fn a_policy_of_two_workloads_waits_for_both_of_their_migrations() {
    let (both, payments) = (policy("orders", "", "east"), job("payments"));
    let both = both.replace(", name: ''", "");
    let (world, plane) = started(&both, &[("payments.yaml", &payments)]).await;
    until("payments runs in east", || runs(&world, "east", "payments")).await;
    let _running = plane.start();
    let gate = "  approval: {before: [Cleanup]}\n";
    plane.push(&[
        ("policy.yaml", &both.replace("[east]", "[west]")),
        ("move.yaml", &migration("orders", "")),
        ("move-payments.yaml", &migration("payments", gate)),
    ]);
    let waits = |job: &str, what: &str| {
        let status = migration_of(&plane, job);
        status["waitingFor"]["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains(what))
    };
    until("orders waits for its policy", || {
        phase(&plane, "orders") == "Cleanup" && waits("orders", "the placement does not hold west")
    })
    .await;
    until("payments waits to be approved", || {
        waits("payments", "approval of Cleanup")
    })
    .await;
    assert_eq!(named(&plane, "orders"), Value::from(vec!["east"]));
    assert_eq!(listed(&plane, "orders"), Value::from(vec!["west"]));
    let approved = format!("{gate}  approvals: [{{phase: Cleanup, attempt: 1}}]\n");
    plane.push(&[("move-payments.yaml", &migration("payments", &approved))]);
    until("both have moved", || {
        ["orders", "payments"].map(|job| phase(&plane, job)) == ["Completed", "Completed"]
    })
    .await;
    assert_eq!(named(&plane, "orders"), Value::from(vec!["west"]));
    assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
}

#[tokio::test]
async fn a_pull_request_is_judged_by_the_policy_that_comes_with_it() {
    let (world, plane) = started(&policy("orders", "orders", "east"), &[]).await;
    let verdict = async || {
        let cluster = Cluster::from_client(world.client(), Limits::default());
        let (repo, stop) = (plane.repo(), CancellationToken::new());
        let plan = reconcile::plan(&repo, &cluster, reconcile::Target::Newest, &stop)
            .await
            .unwrap();
        let told = reconcile::previews(&cluster, &plan, Timestamp::now()).await;
        let [one] = &*told.moves else { panic!("{told:?}") };
        one.preview.verdict.clone()
    };
    plane.push(&[("move.yaml", &migration("orders", ""))]);
    let Verdict::Blocked(findings) = verdict().await else {
        panic!("{:?}", verdict().await);
    };
    let codes: Vec<&str> = findings.iter().map(|finding| finding.code.as_str()).collect();
    assert_eq!(codes, ["PlacementExcludesTarget"]);
    plane.push(&[("policy.yaml", &policy("orders", "orders", "west"))]);
    assert_eq!(verdict().await, Verdict::Clear);
    plane.push(&[("policy.yaml", &policy("orders", "orders", "east, north"))]);
    assert!(matches!(verdict().await, Verdict::Blocked(_)));
}

/// By the wrong one it would be held, stopped and judged by fields of something else: nothing is touched before an intent says which, or
/// one of them is left, as when a profile has got another name.
#[tokio::test]
async fn of_two_profiles_for_its_kind_a_migration_has_to_name_one() {
    let own = |name: &str, kind: &str| {
        let mut own = cutover::profile::built_in().unwrap()[0].clone();
        own.metadata.name = Some(name.to_owned());
        own.spec.applies_to.kinds = vec![kind.to_owned()];
        serde_json::to_string(&own).unwrap()
    };
    let (a, b) = (
        own("flink-a", "FlinkDeployment"),
        own("flink-b", "FlinkDeployment"),
    );
    let more = [("a.yaml", &*a), ("b.yaml", &*b)];
    for named in ["", "  profile: flink-b\n"] {
        let (world, plane) = started(&policy("orders", "orders", "east"), &more).await;
        plane.push(&[
            ("policy.yaml", &policy("orders", "orders", "west")),
            ("move.yaml", &migration("orders", named)),
        ]);
        let _running = plane.start();
        let told = || migration_of(&plane, "orders")["findings"].to_string();
        if named.is_empty() {
            until("it is told", || told().contains("AmbiguousProfile")).await;
            let status = migration_of(&plane, "orders");
            assert_eq!(status["phase"], "Preflight", "{status:#}");
            let reason = status["waitingFor"]["reason"].as_str().unwrap();
            assert!(reason.starts_with("several WorkloadProfiles are for"), "{reason}");
            assert!(runs(&world, "east", "orders"), "{}", world.ledger());
            plane.push(&[("a.yaml", &own("flink-a", "FlinkNothing"))]);
        }
        until("it has ended", || phase(&plane, "orders") == "Completed").await;
        assert!(!told().contains("AmbiguousProfile"), "{}", told());
        assert!(runs(&world, "west", "orders"), "{}", world.ledger());
        assert!(world.ledger().verdict().is_clean(), "{}", world.ledger());
    }
}
