//! The belt: what leaves the binding while a workload moves stays where it is, with its state, until it is listed again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::{Failpoint, FailpointHook, NoFailpoints, Side};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, WriteOptions};
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::races::hand::{BINDING, POLICIES, work};
use crate::support::fleet::{BINDINGS, CLAIMS, Fleet, JOBS, MIGRATIONS, PINS, job};

const MOVE: &str = "orders-to-west";

/// Does something at some points, each time once.
struct Then<F> {
    what: &'static [&'static str],
    side: Side,
    strike: F,
    fleet: Arc<Fleet>,
    done: Mutex<Vec<String>>,
}

impl<F: Fn(&Fleet) + Send + Sync> FailpointHook for Then<F> {
    fn reached<'a>(&'a self, point: &'a Failpoint) -> BoxFuture<'a, ()> {
        let mut done = self.done.lock().unwrap();
        if point.side == self.side && self.what.contains(&point.what.as_str()) && !done.contains(&point.what)
        {
            done.push(point.what.clone());
            (self.strike)(&self.fleet);
        }
        Box::pin(std::future::ready(()))
    }
}

async fn fleet() -> Arc<Fleet> {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet
        .until("the job runs as it shall", |fleet| fleet.is_settled_in("east"))
        .await;
    Arc::new(fleet)
}

fn strikes(
    fleet: &Arc<Fleet>,
    what: &'static [&'static str],
    side: Side,
    strike: impl Fn(&Fleet) + Send + Sync + 'static,
) {
    fleet.lead(Arc::new(Then {
        what,
        side,
        strike,
        fleet: Arc::clone(fleet),
        done: Mutex::default(),
    }));
    fleet.migrate(MOVE, "west");
}

fn preserves(object: &Value) -> bool {
    object["spec"]["preserveResourcesOnDeletion"] == true
}

fn told(fleet: &Fleet, code: &str) -> bool {
    fleet.status(MOVE)["findings"].to_string().contains(code)
}

fn reason(fleet: &Fleet) -> String {
    fleet.status(MOVE)["waitingFor"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_works_keep_every_copy_before_the_target_is_listed_and_none_before_it_leaves() {
    let fleet = fleet().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&seen);
    strikes(
        &fleet,
        &[
            "Expand: binding: list the target",
            "Cleanup: binding: take the other cluster out",
        ],
        Side::Before,
        move |fleet| {
            let kept = ["east", "west"].map(|cluster| work(fleet, cluster).map(|work| preserves(&work)));
            note.lock().unwrap().push(kept);
        },
    );
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    assert_eq!(
        *seen.lock().unwrap(),
        [[Some(true), None], [Some(false), Some(false)]]
    );
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_takes_the_belt_off_is_told_and_it_is_put_on_again() {
    let fleet = fleet().await;
    strikes(&fleet, &["Expand: journal"], Side::After, |fleet| {
        let edit =
            json!({"spec": {"failover": {"application": {"decisionConditions": {"tolerationSeconds": 77}}}}});
        fleet.patch(&POLICIES, "orders", edit);
    });
    fleet
        .until("it is told", |fleet| told(fleet, "PreservationTakenOff"))
        .await;
    fleet
        .until("it is on again", |fleet| preserves(&fleet.binding()))
        .await;
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    assert!(!preserves(&fleet.binding()));
    fleet.assert_one_writer();
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_keeps_what_leaves_is_refused_and_stays_as_it_is() {
    let fleet = fleet().await;
    let keep = json!({"spec": {"preserveResourcesOnDeletion": true}});
    fleet.patch(&POLICIES, "orders", keep.clone());
    fleet
        .until("the binding has it", |fleet| preserves(&fleet.binding()))
        .await;
    fleet.lead(Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    assert_eq!(fleet.ended(MOVE).await, Phase::Failed, "{:#}", fleet.status(MOVE));
    assert!(told(&fleet, "PreserveResources"));
    assert!(preserves(&fleet.binding()));
}

/// The policy gets the field between Preflight's look and the fence: it is the policy's, and stays.
#[tokio::test(start_paused = true)]
async fn a_policys_own_field_is_not_taken_for_the_belt() {
    let fleet = fleet().await;
    strikes(&fleet, &["Hold: journal"], Side::After, |fleet| {
        fleet.patch(
            &BINDINGS,
            BINDING,
            json!({"spec": {"preserveResourcesOnDeletion": true}}),
        );
    });
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::RolledBack,
        "{:#}",
        fleet.status(MOVE)
    );
    assert!(preserves(&fleet.binding()));
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (0, 0));
    assert!(fleet.runs_in("east"));
}

/// Somebody made an object of that name in the target since Preflight looked.
#[tokio::test(start_paused = true)]
async fn nothing_of_somebody_elses_is_overwritten_in_the_target() {
    let fleet = fleet().await;
    strikes(&fleet, &["Expand: journal"], Side::After, |fleet| {
        let mut theirs = job("theirs:1");
        theirs["metadata"]["labels"] = json!({"whose": "theirs"});
        let writer = WriteOptions::manager("somebody");
        let west = &fleet.world.member("west").api;
        west.create(&JOBS, Some("shop"), theirs, &writer).unwrap();
    });
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::RolledBack,
        "{:#}",
        fleet.status(MOVE)
    );
    assert_eq!(fleet.copy("west").unwrap()["spec"]["image"], "theirs:1");
    assert_eq!(fleet.listed(), ["east"]);
    assert!(fleet.runs_in("east"));
}

/// Karmada deletes the binding first: the copies stay and run on, and only a person can delete them.
#[tokio::test(start_paused = true)]
async fn a_workload_that_is_deleted_in_mid_move_leaves_copies_that_a_person_is_told_of() {
    let fleet = fleet().await;
    strikes(&fleet, &["Capture: journal"], Side::After, |fleet| {
        let server = fleet.world.control_plane();
        server
            .delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default())
            .unwrap();
    });
    for cluster in ["east", "west"] {
        let asks = format!("a person must delete it in {cluster}");
        fleet
            .until("it says where", |fleet| {
                fleet.copy(cluster).is_none() || reason(fleet).contains(&asks)
            })
            .await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
        let member = &fleet.world.member(cluster).api;
        _ = member.delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default());
    }
    assert_eq!(fleet.ended(MOVE).await, Phase::Failed, "{:#}", fleet.status(MOVE));
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (0, 0));
    fleet.assert_one_writer();
}

/// The dropped copy runs on, unmanaged; the target stays held until it has stopped with its state.
#[tokio::test(start_paused = true)]
async fn a_source_that_the_scheduler_drops_while_both_are_listed_keeps_its_state() {
    let fleet = fleet().await;
    strikes(&fleet, &["Capture: journal"], Side::After, |fleet| {
        let dropped = json!({"suspension": null, "clusters": [{"name": "west", "replicas": 1}]});
        fleet.patch(&BINDINGS, BINDING, json!({"spec": dropped}));
    });
    fleet.phase(MOVE, Phase::Capture).await;
    let uid = fleet.copy("east").unwrap()["metadata"]["uid"].clone();
    fleet.phase(MOVE, Phase::Handoff).await;
    assert_eq!(
        fleet.copy("east").unwrap()["metadata"]["uid"],
        uid,
        "the copy was recreated"
    );
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_called_off_takes_the_belt_off_again() {
    let fleet = fleet().await;
    strikes(&fleet, &["Expand: journal"], Side::After, |fleet| {
        fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
    });
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Aborted,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("east");
}
