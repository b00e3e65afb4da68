//! What migrations leave that somebody cuts off: finalizer taken away, intent deleted. It is found and taken down where that
//! is safe, else it is told and nobody is let go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::{FailpointHook, NoFailpoints, Side};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

use crate::races::hand::BINDING;
use crate::support::counted::counted;
use crate::support::fleet::{BINDINGS, CLAIMS, Controller, Fleet, MIGRATIONS, PINS, POLICIES, job};
use crate::support::trap::Trap;

const MOVE: &str = "orders-to-west";
const EVENTS: Resource = Resource::new("", "events");
const NAMESPACES: Resource = Resource::new("", "namespaces");

async fn killed_at(line: &str, side: Side) -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.want(job("orders:2.0"));
    let here = line.to_owned();
    let trap = Trap::when(move |point| point.side == side && point.what.starts_with(&here));
    let controller = fleet.controller(Arc::clone(&trap) as Arc<dyn FailpointHook>);
    fleet.migrate(MOVE, "west");
    trap.sprung(line).await;
    controller.kill().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    fleet
}

/// Takes the intent away as nobody should.
fn cut_off(fleet: &Fleet) {
    fleet.patch(&MIGRATIONS, MOVE, json!({"metadata": {"finalizers": null}}));
    let server = fleet.world.control_plane();
    let _ = server.delete(&MIGRATIONS, Some("shop"), MOVE, &DeleteOptions::default());
}

fn sweeper(fleet: &Fleet) -> Controller {
    fleet.controller(Arc::new(NoFailpoints))
}

fn told(fleet: &Fleet) -> Vec<String> {
    let events = fleet
        .world
        .control_plane()
        .list(&EVENTS, None, &ListOptions::default())
        .unwrap();
    let notes = events
        .items
        .iter()
        .filter(|event| event["reason"] == "LeftBehind");
    notes
        .map(|event| event["message"].as_str().unwrap().to_owned())
        .collect()
}

fn canaries(fleet: &Fleet) -> usize {
    let policies =
        fleet
            .world
            .control_plane()
            .list(&POLICIES, Some("cutover-system"), &ListOptions::default());
    policies.map_or(0, |policies| policies.items.len())
}

/// After every write of the beginning and of the end, where one cluster has the workload and the pin changes nothing for it.
#[tokio::test(start_paused = true)]
async fn what_is_left_where_one_cluster_runs_the_workload_is_taken_down() {
    for (line, cluster) in [
        ("Hold: claim FlinkDeployment.flink.apache.org shop/orders", "east"),
        ("Hold: binding: suspend scheduling", "east"),
        ("Hold: create canary canary-", "east"),
        ("Hold: pin: says nothing yet", "east"),
        ("Hold: pin: sequence 1, writer east", "east"),
        ("Cleanup: binding: resume scheduling", "west"),
        ("Cleanup: pin: take the protection off", "west"),
        ("Cleanup: remove the pin", "west"),
    ] {
        let fleet = killed_at(line, Side::After).await;
        cut_off(&fleet);
        let _sweeper = sweeper(&fleet);
        fleet
            .until(&format!("nothing is left after {line}"), |fleet| {
                fleet.count(&PINS) == 0 && fleet.count(&CLAIMS) == 0 && canaries(fleet) == 0
            })
            .await;
        assert!(
            fleet.binding()["spec"]["suspension"]["scheduling"].is_null(),
            "{line}"
        );
        assert_eq!(fleet.listed(), [cluster], "{line}");
        assert!(fleet.runs_in(cluster), "{line}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(told(&fleet), [""; 0], "{line}");
        fleet.assert_one_writer();
    }
}

/// The journal that knew how the binding was before is gone with the intent: what the policy says counts, as it does for Karmada.
#[tokio::test(start_paused = true)]
async fn what_a_migration_set_on_the_binding_is_again_what_the_policy_says() {
    for says in [None, Some("Abort"), Some("Overwrite")] {
        let fleet = killed_at("Hold: pin: sequence 1, writer east", Side::After).await;
        if let Some(says) = says {
            fleet.patch(&POLICIES, "orders", json!({"spec": {"conflictResolution": says}}));
            fleet
                .until("the binding has it of the policy", |fleet| {
                    fleet.binding()["spec"]["conflictResolution"] == says
                })
                .await;
        }
        let before = fleet.binding()["spec"]["conflictResolution"].clone();
        let set = json!({"preserveResourcesOnDeletion": true, "conflictResolution": "Overwrite"});
        fleet.patch(&BINDINGS, BINDING, json!({"spec": set}));
        cut_off(&fleet);
        let _sweeper = sweeper(&fleet);
        fleet
            .until("nothing is left", |fleet| {
                fleet.count(&PINS) == 0 && fleet.count(&CLAIMS) == 0
            })
            .await;
        let binding = fleet.binding();
        assert_eq!(
            binding["spec"]["preserveResourcesOnDeletion"],
            Value::Null,
            "{says:?}"
        );
        assert_eq!(binding["spec"]["conflictResolution"], before, "{says:?}");
        assert!(fleet.runs_in("east"), "{says:?}");
        fleet.assert_one_writer();
    }
}

/// Where a pin holds a copy, nobody knows who may run it: it stays, and a person is told what to do.
#[tokio::test(start_paused = true)]
async fn a_pin_that_still_holds_a_copy_stays_and_is_told() {
    for phase in [Phase::Expand, Phase::Capture, Phase::Handoff, Phase::Verify] {
        let fleet = Fleet::start(WorldOptions::default()).await;
        fleet.want(job("orders:2.0"));
        let controller = fleet.controller(Arc::new(NoFailpoints));
        fleet.migrate(MOVE, "west");
        fleet.phase(MOVE, phase).await;
        fleet
            .until("both are listed", |fleet| fleet.listed() == ["east", "west"])
            .await;
        controller.kill().await;
        cut_off(&fleet);
        let _sweeper = sweeper(&fleet);
        fleet.until("it is told", |fleet| !told(fleet).is_empty()).await;
        let note = told(&fleet).remove(0);
        assert!(note.contains("Migration shop/orders-to-west"), "{note}");
        assert!(note.contains(r#"its binding lists ["east","west"]"#), "{note}");
        tokio::time::sleep(Duration::from_mins(3)).await;
        assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1), "{phase}");
        fleet.assert_one_writer();
    }
}

/// The only copy is held by the pin that nobody looks after any more.
#[tokio::test(start_paused = true)]
async fn a_pin_that_holds_the_only_copy_stays_and_is_told() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    fleet.phase(MOVE, Phase::Capture).await;
    fleet
        .until("the source has stopped", |fleet| {
            fleet
                .copy("east")
                .is_some_and(|copy| copy["spec"]["job"]["state"] == "suspended")
        })
        .await;
    controller.kill().await;
    cut_off(&fleet);
    let only_east = Patch::Merge(json!({"spec": {"clusters": [{"name": "east"}]}}));
    let server = fleet.world.control_plane();
    let writer = WriteOptions::manager("somebody");
    let bindings = &crate::support::fleet::BINDINGS;
    server
        .patch(
            bindings,
            Some("shop"),
            "orders-flinkdeployment",
            None,
            &only_east,
            &writer,
        )
        .unwrap();
    let _sweeper = sweeper(&fleet);
    fleet.until("it is told", |fleet| !told(fleet).is_empty()).await;
    let note = told(&fleet).remove(0);
    assert!(note.contains("east would change without the pin"), "{note}");
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    fleet.assert_one_writer();
}

/// What isn't known is no yes: as long as Migrations can't be read, nothing is anybody's orphan.
#[tokio::test(start_paused = true)]
async fn nothing_is_swept_while_intents_cannot_be_read() {
    use cutover::sandbox::faults::{Effect, Rule};
    let fleet = killed_at("Hold: pin: sequence 1, writer east", Side::After).await;
    let rule = |verb| Rule::new(Effect::Refuse(500)).verb(verb).resource("migrations");
    fleet
        .world
        .faults()
        .requests(rule("list"))
        .requests(rule("watch"))
        .requests(rule("get"));
    let _sweeper = sweeper(&fleet);
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    fleet.world.faults().end();
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("west");
}

/// An intent at work keeps what is its own, whatever the sweep finds beside it.
#[tokio::test(start_paused = true)]
async fn a_migration_at_work_is_left_alone_and_strange_canaries_go() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "cutover-system"}});
    fleet.create(&NAMESPACES, None, namespace);
    let stray: Value = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "canary-0123456789ab-1-1", "namespace": "cutover-system"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "canary-0123456789ab-1-1"}]},
    });
    fleet.create(&POLICIES, Some("cutover-system"), stray);
    fleet.want(job("orders:2.0"));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "3m", "timeout": "60s"}}),
    );
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("west");
    assert_eq!(canaries(&fleet), 0);
    let seen: BTreeSet<String> = told(&fleet).into_iter().collect();
    assert!(seen.is_empty(), "{seen:?}");
}

/// Returns a client by which a cache never gets to know an intent; who asks afresh is told as ever.
fn blind_to_intents(client: kube::Client) -> kube::Client {
    let blind = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
            if !path.ends_with("/migrations") || query.is_empty() {
                return client.send(request).await;
            }
            if query.contains("watch=true") {
                return std::future::pending().await;
            }
            let empty = json!({
                "apiVersion": "cutover.dev/v1alpha1", "kind": "MigrationList",
                "metadata": {"resourceVersion": "1"}, "items": [],
            });
            let body = Body::from(empty.to_string().into_bytes());
            Ok(http::Response::builder().body(body).unwrap())
        }
    });
    kube::Client::new(blind, "default")
}

#[tokio::test(start_paused = true)]
async fn what_a_cache_knows_no_owner_of_is_left_alone_while_its_owner_is_at_work() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "1s", "timeout": "60s"}, "approval": {"before": ["Capture"]}}),
    );
    fleet
        .until("it waits under its pin", |fleet| {
            fleet.status(MOVE)["waitingFor"]["code"] == "Approval" && fleet.count(&PINS) == 1
        })
        .await;
    let before = fleet
        .world
        .control_plane()
        .get(&MIGRATIONS, Some("shop"), MOVE)
        .unwrap();
    let client = blind_to_intents(fleet.world.client());
    let (cluster, asked) = counted(client);
    let sweeper = fleet.controller_on(cluster, Arc::new(NoFailpoints));
    tokio::time::sleep(Duration::from_mins(3)).await;
    sweeper.kill().await;
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    let owners = asked
        .iter()
        .filter(|line| *line == "GET /apis/cutover.dev/v1alpha1/migrations");
    assert!(owners.count() > 1, "nobody asked who the owner is: {asked:?}");
    let writes: Vec<_> = asked.iter().filter(|line| !line.starts_with("GET")).collect();
    assert_eq!(writes, [""; 0]);
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    let after = fleet
        .world
        .control_plane()
        .get(&MIGRATIONS, Some("shop"), MOVE)
        .unwrap();
    assert_eq!(after["status"]["phase"], before["status"]["phase"]);
    fleet.patch(
        &MIGRATIONS,
        MOVE,
        json!({"spec": {"approvals": [{"phase": "Capture", "attempt": 1, "by": "on call"}]}}),
    );
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
}
