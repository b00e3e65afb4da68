//! Migrations with and without the admission fence: what the API server refuses then, and that nothing depends on it.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::{NoFailpoints, install_fence};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, Patch, Resource, Status, WriteOptions};
use cutover::sandbox::faults::{Effect, Rule};
use serde_json::{Value, json};

use crate::cli::{cutover, text};
use crate::support::fleet::{BINDINGS, CLAIMS, Controller, Fleet, MIGRATIONS, PINS, job};
use crate::support::roles;
use crate::support::served::Served;
use crate::support::server::{On, on_both_servers};

const MOVE: &str = "orders-to-west";
const BINDING: &str = "orders-flinkdeployment";
const FENCES: Resource = Resource::new(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
);
const UNDER_WAY: [Phase; 6] = [
    Phase::Hold,
    Phase::Expand,
    Phase::Capture,
    Phase::Handoff,
    Phase::Verify,
    Phase::Cleanup,
];

async fn fenced() -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let cluster = Cluster::from_client(fleet.world.client(), Limits::default());
    let name = cluster.whoami().await.unwrap();
    install_fence(&cluster, &[name]).await.unwrap().unwrap();
    fleet
}

fn moving(fleet: &Fleet, image: &str) -> Controller {
    fleet.want(job(image));
    fleet.migrate(MOVE, "west");
    fleet.controller(Arc::new(NoFailpoints))
}

/// What the status says of the fence while a migration is under way.
fn fence(fleet: &Fleet) -> Value {
    let status = fleet.status(MOVE);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions
        .filter(|condition| condition["type"] == "AdmissionFence")
        .map(|condition| json!([condition["status"], condition["reason"]]))
        .next()
        .unwrap_or_default()
}

async fn says(fleet: &Fleet, expected: [&str; 2]) {
    fleet
        .until(&format!("{expected:?}"), |fleet| fence(fleet) == json!(expected))
        .await;
}

async fn ends(fleet: &Fleet, phase: Phase, cluster: &str) {
    assert_eq!(fleet.ended(MOVE).await, phase, "{:#}", fleet.status(MOVE));
    fleet.assert_clean_in(cluster);
}

#[tokio::test(start_paused = true)]
async fn migrations_end_as_ever_behind_the_fence() {
    for (image, phase, cluster) in [
        ("orders:2.0", Phase::Completed, "west"),
        ("orders:broken", Phase::RolledBack, "east"),
    ] {
        let fleet = fenced().await;
        let _controller = moving(&fleet, image);
        says(&fleet, ["True", "Stands"]).await;
        ends(&fleet, phase, cluster).await;
        assert!(fence(&fleet).is_null(), "it says nothing of what has ended");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_fence_the_status_says_so_and_nothing_else_changes() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = moving(&fleet, "orders:2.0");
    says(&fleet, ["False", "NotInstalled"]).await;
    ends(&fleet, Phase::Completed, "west").await;
}

#[tokio::test(start_paused = true)]
async fn a_part_of_the_fence_that_is_missing_is_told() {
    let fleet = fenced().await;
    remove(&fleet, "cutover-works").await;
    let _controller = moving(&fleet, "orders:2.0");
    says(&fleet, ["False", "Incomplete"]).await;
    let told = fleet.status(MOVE)["conditions"].to_string();
    assert!(told.contains("none guards works"), "{told}");
    ends(&fleet, Phase::Completed, "west").await;
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_is_taken_away_in_mid_flight_is_missed_and_not_needed() {
    let fleet = fenced().await;
    fleet.want(job("orders:2.0"));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "5m", "timeout": "60s"}}),
    );
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.phase(MOVE, Phase::Verify).await;
    assert_eq!(fence(&fleet), json!(["True", "Stands"]));
    for guard in ["bindings", "works", "overrides", "claims"] {
        remove(&fleet, &format!("cutover-{guard}")).await;
    }
    says(&fleet, ["False", "NotInstalled"]).await;
    ends(&fleet, Phase::Completed, "west").await;
}

/// What somebody does with kubectl, and would have let two copies run, or taken the only one away.
#[tokio::test(start_paused = true)]
async fn behind_the_fence_nobody_can_move_free_or_unpin_the_workload() {
    for phase in UNDER_WAY {
        let fleet = fenced().await;
        let _controller = moving(&fleet, "orders:2.0");
        fleet.phase(MOVE, phase).await;
        fleet.until("it is pinned", |fleet| fleet.count(&PINS) == 1).await;
        let pin = one(&fleet, &PINS);
        let claim = one(&fleet, &CLAIMS);
        let elsewhere = json!({"spec": {"clusters": [{"name": "north"}]}});
        let everywhere = json!({"spec": {"overrideRules": []}});
        let bare = json!({"metadata": {"finalizers": null, "labels": null}});
        for (what, refusal) in [
            ("clusters", write(&fleet, &BINDINGS, BINDING, elsewhere.clone())),
            (
                "no clusters",
                write(&fleet, &BINDINGS, BINDING, json!({"spec": {"clusters": null}})),
            ),
            ("rules of the pin", write(&fleet, &PINS, &pin, everywhere)),
            ("protection of the pin", write(&fleet, &PINS, &pin, bare)),
            ("pin", delete(&fleet, &PINS, &pin)),
            (
                "claim's clusters",
                write(&fleet, &CLAIMS, &claim, json!({"spec": {"clusters": ["north"]}})),
            ),
            ("claim", delete(&fleet, &CLAIMS, &claim)),
            ("a later override", override_after(&fleet, "north")),
        ] {
            let status = refusal.expect_err(what);
            assert_eq!(status.code, 403, "{what} in {phase}: {status:?}");
            // Its protection refuses that, too, and may come first.
            assert!(
                status.message.contains("Migration shop/orders-to-west") || what == "pin",
                "{what} in {phase}: {}",
                status.message
            );
        }
        ends(&fleet, Phase::Completed, "west").await;
    }
}

/// Whoever takes over has caches that are older than the pin: the API server refuses what he makes of them.
#[tokio::test(start_paused = true)]
async fn behind_the_fence_karmadas_processes_may_be_replaced_in_any_phase() {
    for phase in UNDER_WAY {
        let fleet = fenced().await;
        let _controller = moving(&fleet, "orders:2.0");
        fleet.phase(MOVE, phase).await;
        fleet
            .world
            .faults()
            .restart("karmada-controller-manager")
            .restart("karmada-scheduler");
        ends(&fleet, Phase::Completed, "west").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_that_the_fence_does_not_know_touches_nothing_and_says_why() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let cluster = Cluster::from_client(fleet.world.client(), Limits::default());
    let another = "system:serviceaccount:cutover-system:cutover".to_owned();
    install_fence(&cluster, &[another]).await.unwrap().unwrap();
    let _controller = moving(&fleet, "orders:2.0");
    fleet
        .until("it says why", |fleet| {
            let why = fleet.status(MOVE)["waitingFor"]["reason"].clone();
            why.as_str().is_some_and(|why| {
                why.contains("is written by system:serviceaccount:cutover-system:cutover alone")
            })
        })
        .await;
    assert_eq!((fleet.count(&CLAIMS), fleet.count(&PINS)), (0, 0));
    assert!(fleet.binding()["spec"]["suspension"].is_null());
    assert!(fleet.runs_in("east"));
}

/// An identity that may not write a canary needs none where the API server refuses what the scheduler has queued.
#[tokio::test(start_paused = true)]
async fn the_fence_stands_in_for_a_canary_that_is_forbidden() {
    for resource in ["propagationpolicies", "configmaps"] {
        let fleet = fenced().await;
        forbid(&fleet, resource);
        let _controller = moving(&fleet, "orders:2.0");
        ends(&fleet, Phase::Completed, "west").await;
        assert!(
            fleet.status(MOVE)["steps"]
                .to_string()
                .contains("what the scheduler has queued is refused")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_canary_and_fence_it_waits_and_says_what_is_needed() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    forbid(&fleet, "propagationpolicies");
    let _controller = moving(&fleet, "orders:2.0");
    fleet
        .until("it says what it needs", |fleet| {
            let why = fleet.status(MOVE)["waitingFor"]["reason"].clone();
            let why = why.as_str().unwrap_or_default();
            why.contains("create canary")
                && why.contains("docs/how-to/operate.md#rbac")
                && why.contains("docs/how-to/operate.md#admission-fence")
        })
        .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        (fleet.status(MOVE)["phase"].as_str(), fleet.count(&PINS)),
        (Some("Hold"), 0)
    );
    fleet.world.faults().end();
    ends(&fleet, Phase::Completed, "west").await;
}

/// A barrier that was passed because of the fence is none any more when the fence is gone.
#[tokio::test(start_paused = true)]
async fn a_fence_that_stood_in_for_a_canary_and_goes_is_replaced_by_one() {
    let fleet = fenced().await;
    forbid(&fleet, "propagationpolicies");
    fleet.want(job("orders:2.0"));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "5m", "timeout": "60s"}}),
    );
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.phase(MOVE, Phase::Verify).await;
    remove(&fleet, "cutover-bindings").await;
    let barrier = |fleet: &Fleet| fleet.status(MOVE)["journal"]["fence"]["barrier"].clone();
    fleet
        .until("the barrier is void", |fleet| barrier(fleet).is_null())
        .await;
    fleet.world.faults().end();
    fleet
        .until("a canary has passed", |fleet| {
            barrier(fleet)["canary"]
                .as_str()
                .is_some_and(|canary| !canary.is_empty())
        })
        .await;
    ends(&fleet, Phase::Completed, "west").await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_for_canaries_that_is_there_need_not_be_created() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cutover-system"}});
    fleet.create(&Resource::new("", "namespaces"), None, namespace);
    forbid(&fleet, "namespaces");
    let _controller = moving(&fleet, "orders:2.0");
    ends(&fleet, Phase::Completed, "west").await;
    let steps = fleet.status(MOVE)["steps"].to_string();
    assert!(steps.contains("scheduler past canary-"), "{steps}");
}

fn forbid(fleet: &Fleet, resource: &str) {
    let rule = Rule::new(Effect::Refuse(403)).verb("create").resource(resource);
    fleet.world.faults().requests(rule);
}

/// Takes away a binding of a policy, which the API server notices within a second.
async fn remove(fleet: &Fleet, name: &str) {
    let server = fleet.world.control_plane();
    server
        .delete(&FENCES, None, name, &DeleteOptions::default())
        .unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn one(fleet: &Fleet, resource: &Resource) -> String {
    let all =
        fleet
            .world
            .control_plane()
            .list(resource, None, &cutover::sandbox::api::ListOptions::default());
    all.unwrap().items[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn namespace_of(resource: &Resource) -> Option<&'static str> {
    (*resource != CLAIMS).then_some("shop")
}

/// Everything is only tried: what isn't refused must not spoil the rest.
fn write(fleet: &Fleet, resource: &Resource, name: &str, patch: Value) -> Result<(), Status> {
    let options = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let server = fleet.world.control_plane();
    let patch = Patch::Merge(patch);
    server
        .patch(resource, namespace_of(resource), name, None, &patch, &options)
        .map(drop)
}

fn delete(fleet: &Fleet, resource: &Resource, name: &str) -> Result<(), Status> {
    let options = DeleteOptions {
        dry_run: true,
        ..DeleteOptions::default()
    };
    let server = fleet.world.control_plane();
    server
        .delete(resource, namespace_of(resource), name, &options)
        .map(drop)
}

fn override_after(fleet: &Fleet, cluster: &str) -> Result<(), Status> {
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "zzzzz-mine", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            ],
            "overrideRules": [{
                "targetCluster": {"clusterNames": [cluster]},
                "overriders": {"plaintext": [{"path": "/spec/job/state", "operator": "replace", "value": "running"}]},
            }],
        },
    });
    let options = WriteOptions {
        dry_run: true,
        ..WriteOptions::default()
    };
    let server = fleet.world.control_plane();
    server.create(&PINS, Some("shop"), policy, &options).map(drop)
}

on_both_servers![
    init_installs_the_fence_once_and_proves_it,
    init_lets_those_write_pins_who_will_reconcile,
];

fn served(on: On) -> Served {
    match on {
        On::Sandbox => Served::before_cutover(),
        On::Kube => Served::on(on),
    }
}

async fn init_installs_the_fence_once_and_proves_it(on: On) {
    let served = served(on);
    let init = |more: &[&str]| {
        let kubeconfig = served.dir.path().join("kubeconfig");
        let mut arguments = vec!["init", "--cluster", "--kubeconfig", kubeconfig.to_str().unwrap()];
        arguments.extend(more);
        let output = cutover(&arguments);
        let (data, notes) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{notes}");
        (data, notes)
    };
    let lines = |data: &str, change: &str| {
        let fence = data
            .lines()
            .filter(|line| line.starts_with("validatingadmissionpolicy"));
        fence.filter(|line| line.ends_with(change)).count()
    };
    let (data, notes) = init(&[]);
    assert_eq!(lines(&data, " created"), 10, "{data}");
    assert!(notes.contains("it refuses"), "{notes}");
    assert!(notes.contains("written by system:admin alone"), "{notes}");
    let (again, notes) = init(&[]);
    assert_eq!(lines(&again, " unchanged"), 10, "{again}");
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    assert!(notes.contains("it refuses"), "{notes}");
    let (other, _) = init(&["--reconciler", "a", "--reconciler", "b"]);
    assert_eq!(lines(&other, " configured"), 2, "{other}");
    let (bare, _) = init(&["--no-fence"]);
    assert_eq!(bare.lines().count(), cutover::api::crds().len(), "{bare}");
}

async fn init_lets_those_write_pins_who_will_reconcile(on: On) {
    let served = served(on);
    let kubeconfig = served.dir.path().join("kubeconfig");
    let output = cutover(&[
        "init",
        "--cluster",
        "--reconciler",
        "reconciler",
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let pins = "/apis/policy.karmada.io/v1alpha1/namespaces/default/overridepolicies?dryRun=All";
    let pin = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "zzzz-cutover-orders"}, "spec": {"overrideRules": []},
    });
    let client = served.server.client();
    for (user, code) in [("reconciler", 201), ("somebody", 403)] {
        let request = http::Request::post(pins)
            .header("content-type", "application/json")
            .header("impersonate-user", user)
            .header("impersonate-group", "system:masters")
            .body(kube::client::Body::from(pin.to_string().into_bytes()))
            .unwrap();
        let answer = client.send(request).await.unwrap();
        assert_eq!(answer.status().as_u16(), code, "{user}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_is_deleted_leaves_nothing_behind_the_fence() {
    let fleet = fenced().await;
    let _controller = moving(&fleet, "orders:2.0");
    fleet.phase(MOVE, Phase::Handoff).await;
    let server = fleet.world.control_plane();
    server
        .delete(&MIGRATIONS, Some("shop"), MOVE, &DeleteOptions::default())
        .unwrap();
    fleet
        .until("it is gone", |fleet| fleet.status(MOVE).is_null())
        .await;
    fleet.assert_clean_in("east");
}

/// Without the kinds of the workloads themselves, which are anybody's.
#[tokio::test(start_paused = true)]
async fn the_roles_that_come_along_allow_what_migrations_ask_for() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = moving(&fleet, "orders:broken");
    assert_eq!(fleet.ended(MOVE).await, Phase::RolledBack);
    let lacking = roles::lacking(fleet.world.traffic());
    assert!(lacking.is_empty(), "deploy/rbac.yaml lacks {lacking:?}");
}
