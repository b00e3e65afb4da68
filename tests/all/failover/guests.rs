//! What changes what runs, under a guard: a Rollout or a Suspension of a guarded workload says what it says by the guard's pin.
//! Judged by the ledger, and by what each member has had.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::{FailoverPhase, Phase};
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Resource};
use serde_json::{Value, json};

use super::modes::moved_from;
use super::stage::{
    PLAN, PLANS, fleet, guarded_in, known, one_writer, phase_is, plan, savepoint, started_from, status, tidy,
    unled, until, unwell,
};
use crate::rollout::{Oracle, ROLLOUTS, status_of};
use crate::support::fleet::{CLAIMS, Fleet, JOBS, PINS, POLICIES, job, policy};
use crate::support::killed::at_any_line_of;

const SUSPENSIONS: Resource = Resource::new("cutover.dev", "suspensions");
const EVENTS: Resource = Resource::new("", "events");

/// A job that is guarded in east, and a Rollout of it, which rests.
struct Stage {
    fleet: Fleet,
    oracle: Oracle,
}

impl AsRef<Fleet> for Stage {
    fn as_ref(&self) -> &Fleet {
        &self.fleet
    }
}

impl Stage {
    async fn start(spec: Value) -> Self {
        Self::of(fleet().await, spec).await
    }

    async fn of(fleet: Fleet, spec: Value) -> Self {
        plan(&fleet, json!({}));
        guarded_in(&fleet, "east").await;
        let oracle = Oracle::watch(&fleet, &JOBS, "orders");
        let stage = Self { fleet, oracle };
        stage.roll_by(spec);
        stage.rolls("Completed").await;
        stage
    }

    fn roll_by(&self, more: Value) {
        let mut spec = json!({
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
            "progress": {"timeout": "5m", "healthyFor": "2s"},
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let rollout = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Rollout",
            "metadata": {"name": "orders", "namespace": "shop"}, "spec": spec,
        });
        self.fleet.apply(&ROLLOUTS, rollout);
        let template = self
            .fleet
            .world
            .control_plane()
            .get(&JOBS, Some("shop"), "orders");
        self.fleet
            .want(job(template.unwrap()["spec"]["image"].as_str().unwrap()));
    }

    fn push(&self, image: &str) {
        self.fleet.want(job(image));
    }

    fn rollout(&self) -> Value {
        status_of(&self.fleet, "orders")
    }

    fn story(&self) -> String {
        format!("{:#}\n{}", self.rollout(), claim(&self.fleet))
    }

    async fn rolls(&self, phase: &str) {
        until_or(
            &self.fleet,
            phase,
            || self.rollout()["phase"] == phase,
            || self.story(),
        )
        .await;
    }

    /// The rollout has come to rest with this image where the job runs; the guard guards there, and its pin says nothing else.
    async fn rests(&self, phase: &str, image: &str) {
        let rests = || {
            let status = self.rollout();
            let writer = guard(&self.fleet)["writer"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            status["phase"] == phase
                && status["journal"].is_null()
                && phase_is(&self.fleet, FailoverPhase::Guarding)
                && self.fleet.is_settled_in(&writer)
                && self
                    .fleet
                    .copy(&writer)
                    .is_some_and(|copy| copy["spec"]["image"] == image)
        };
        until_or(&self.fleet, &format!("{phase} with {image}"), rests, || {
            self.story()
        })
        .await;
        let claim = claim(&self.fleet);
        assert_eq!(claim["spec"]["owner"]["kind"], "FailoverPlan");
        assert_eq!(
            (&claim["spec"]["differences"], &claim["spec"]["included"]),
            (&Value::Null, &Value::Null)
        );
        assert_eq!((self.fleet.count(&PINS), self.fleet.count(&CLAIMS)), (1, 1));
        self.oracle.assert_tight();
        one_writer(&self.fleet);
    }
}

async fn until_or(fleet: &Fleet, what: &str, holds: impl Fn() -> bool, story: impl Fn() -> String) {
    let story = || format!("{}\n{:#}\n{}", story(), guard(fleet), fleet.world.ledger());
    let wait = crate::support::wait::wait_for(what).within(Duration::from_mins(20));
    wait.every(Duration::from_millis(50)).until_or(holds, story).await;
}

fn guard(fleet: &Fleet) -> Value {
    status(fleet)
}

fn claim(fleet: &Fleet) -> Value {
    let server = fleet.world.control_plane();
    let claims = server.list(&CLAIMS, None, &ListOptions::default()).unwrap();
    claims
        .items
        .first()
        .map(|claim| (**claim).clone())
        .unwrap_or_default()
}

fn delete(fleet: &Fleet, resource: &Resource, name: &str) {
    let server = fleet.world.control_plane();
    server
        .delete(resource, Some("shop"), name, &DeleteOptions::default())
        .unwrap();
}

/// Takes an intent away as nobody should.
fn tear_away(fleet: &Fleet, resource: &Resource, name: &str) {
    fleet.patch(resource, name, json!({"metadata": {"finalizers": null}}));
    delete(fleet, resource, name);
}

fn waits(status: &Value) -> String {
    status["waitingFor"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_guarded_workload_is_rolled_out_and_the_guard_stands_all_the_while() {
    let stage = Stage::start(json!({})).await;
    stage.push("orders:1.1");
    stage.rests("Completed", "orders:1.1").await;
    let images: Vec<String> = stage.oracle.all().into_iter().map(|(_, image)| image).collect();
    assert_eq!(images, ["orders:1.0", "orders:1.1"]);
    // And once more, after which the guard is as good as ever.
    stage.push("orders:1.2");
    stage.rests("Completed", "orders:1.2").await;
    let fleet = &stage.fleet;
    delete(fleet, &ROLLOUTS, "orders");
    let handle = savepoint(fleet, "east").await;
    known(fleet, &handle).await;
    unwell(fleet, "east");
    let to = moved_from(fleet, "east").await;
    assert_eq!(started_from(fleet, &to), handle);
    one_writer(fleet);
    tidy(fleet, &to).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_fails_under_a_guard_is_undone() {
    let spec = json!({"onFailure": "Undo", "progress": {"timeout": "10s", "healthyFor": "2s"}});
    let stage = Stage::start(spec).await;
    stage.push("orders:broken");
    stage.rests("Undone", "orders:1.0").await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_fails_under_a_guard_halts_and_is_called_off_by_a_person() {
    let stage = Stage::start(json!({"progress": {"timeout": "10s", "healthyFor": "2s"}})).await;
    stage.push("orders:broken");
    stage.rolls("Halted").await;
    stage.roll_by(json!({"abort": true}));
    stage.push("orders:broken");
    stage.rests("Undone", "orders:1.0").await;
}

/// Karmada takes the version that fails for a workload that fails. Where it moves it to, the version before runs.
#[tokio::test(start_paused = true)]
async fn a_failover_in_the_middle_of_a_rollout_gets_the_version_from_before_until_its_release() {
    let stage = Stage::start(json!({"progress": {"timeout": "20m", "healthyFor": "4m"}})).await;
    let fleet = &stage.fleet;
    stage.push("orders:1.1");
    until_or(
        fleet,
        "east has it",
        || fleet.copy("east").unwrap()["spec"]["image"] == "orders:1.1",
        || stage.story(),
    )
    .await;
    until(fleet, "it runs there", |fleet| fleet.is_settled_in("east")).await;
    unwell(fleet, "east");
    let to = moved_from(fleet, "east").await;
    one_writer(fleet);
    stage.rests("Completed", "orders:1.1").await;
    let there: Vec<String> = stage
        .oracle
        .all()
        .into_iter()
        .filter(|(cluster, _)| *cluster == to)
        .map(|(_, image)| image)
        .collect();
    assert_eq!(
        there,
        ["orders:1.0", "orders:1.1"],
        "born with the version from before"
    );
}

/// Neither goes on while the other one is in the middle: the rollout waits for the failover, and says so.
#[tokio::test(start_paused = true)]
async fn a_rollout_waits_for_a_failover_that_waits() {
    let stage = Stage::start(json!({"progress": {"timeout": "20m", "healthyFor": "4m"}})).await;
    let fleet = &stage.fleet;
    stage.push("orders:1.1");
    until_or(
        fleet,
        "east has it",
        || fleet.copy("east").unwrap()["spec"]["image"] == "orders:1.1",
        || stage.story(),
    )
    .await;
    until(fleet, "it runs there", |fleet| fleet.is_settled_in("east")).await;
    super::stage::lose(fleet, "east");
    until(fleet, "it is held", |fleet| {
        phase_is(fleet, FailoverPhase::Fencing)
    })
    .await;
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(
        waits(&stage.rollout()).contains("FailoverPlan shop/orders to end its failover"),
        "{}",
        stage.story()
    );
    fleet.world.faults().heal("east");
    let to = moved_from(fleet, "east").await;
    assert_ne!(to, "east");
    stage.rests("Completed", "orders:1.1").await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_is_deleted_in_the_middle_of_a_rollout_guards_until_its_end() {
    let stage = Stage::start(json!({"progress": {"timeout": "5m", "healthyFor": "3m"}})).await;
    let fleet = &stage.fleet;
    stage.push("orders:1.1");
    until_or(
        fleet,
        "east has it",
        || fleet.copy("east").unwrap()["spec"]["image"] == "orders:1.1",
        || stage.story(),
    )
    .await;
    delete(fleet, &PLANS, PLAN);
    until_or(
        fleet,
        "it says for whom it waits",
        || waits(&guard(fleet)).starts_with("Rollout shop/orders to end"),
        || stage.story(),
    )
    .await;
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    stage.rolls("Completed").await;
    until_or(
        fleet,
        "nothing is left",
        || {
            let plan = fleet.world.control_plane().get(&PLANS, Some("shop"), PLAN);
            fleet.count(&PINS) + fleet.count(&CLAIMS) == 0 && plan.is_err()
        },
        || stage.story(),
    )
    .await;
    assert!(fleet.runs_in("east"));
    stage.oracle.assert_tight();
    one_writer(fleet);
    // From now on it has a pin of its own, where it needs one.
    stage.push("orders:1.2");
    until(fleet, "east has the next", |fleet| {
        fleet.copy("east").unwrap()["spec"]["image"] == "orders:1.2"
    })
    .await;
    stage.rolls("Completed").await;
}

/// One order: whoever came first has the workload, and a Migration borrows it when nobody changes it.
#[tokio::test(start_paused = true)]
async fn a_migration_waits_for_a_rollout_under_the_guard_and_says_so() {
    let stage = Stage::start(json!({"progress": {"timeout": "5m", "healthyFor": "3m"}})).await;
    let fleet = &stage.fleet;
    stage.push("orders:1.1");
    until_or(
        fleet,
        "east has it",
        || fleet.copy("east").unwrap()["spec"]["image"] == "orders:1.1",
        || stage.story(),
    )
    .await;
    fleet.migrate("move", "west");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(
        waits(&fleet.status("move")),
        "FailoverPlan shop/orders holds the workload, and Rollout shop/orders changes what runs under its guard"
    );
    assert_eq!(fleet.ended("move").await, Phase::Completed);
    guarded_in(fleet, "west").await;
    stage.rests("Completed", "orders:1.1").await;
}

/// The policy has another object as well, so that a pin carries the suspension.
fn shared(fleet: &Fleet) {
    let mut shared = policy();
    let prices = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "prices", "namespace": "shop"});
    shared["spec"]["resourceSelectors"]
        .as_array_mut()
        .unwrap()
        .push(prices);
    fleet.apply(&POLICIES, shared);
}

fn suspend(fleet: &Fleet) {
    let workload =
        json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"});
    fleet.apply(
        &SUSPENSIONS,
        json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Suspension",
            "metadata": {"name": "freeze", "namespace": "shop"},
            "spec": {"target": {"workload": workload}, "reason": "a freeze"},
        }),
    );
}

fn suspension(fleet: &Fleet) -> Value {
    let object = fleet
        .world
        .control_plane()
        .get(&SUSPENSIONS, Some("shop"), "freeze");
    object.map(|object| object["status"].clone()).unwrap_or_default()
}

async fn is_suspended(fleet: &Fleet) {
    until_or(
        fleet,
        "suspended",
        || suspension(fleet)["phase"] == "Suspended",
        || format!("{:#}", suspension(fleet)),
    )
    .await;
}

async fn frozen(fleet: Fleet) -> Fleet {
    shared(&fleet);
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    // Once it is frozen, no savepoint is asked for by the template.
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    suspend(&fleet);
    is_suspended(&fleet).await;
    fleet
}

async fn thaws(fleet: &Fleet, cluster: &str, image: &str) {
    delete(fleet, &SUSPENSIONS, "freeze");
    let has_it = || {
        let is_gone = fleet
            .world
            .control_plane()
            .get(&SUSPENSIONS, Some("shop"), "freeze")
            .is_err();
        is_gone
            && fleet
                .copy(cluster)
                .is_some_and(|copy| copy["spec"]["image"] == image)
            && fleet.is_settled_in(cluster)
    };
    until_or(fleet, "what was kept back is there", has_it, || {
        format!("{:#}\n{:#}", suspension(fleet), claim(fleet))
    })
    .await;
    assert_eq!(claim(fleet)["spec"]["differences"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_suspension_by_a_pin_keeps_changes_from_a_guarded_workload_wherever_it_goes() {
    let fleet = frozen(fleet().await).await;
    fleet.apply(&JOBS, job("orders:2.0"));
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(fleet.copy("east").unwrap()["spec"]["image"], "orders:1.0");
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (1, 1));
    unwell(&fleet, "east");
    let to = moved_from(&fleet, "east").await;
    assert_eq!(fleet.copy(&to).unwrap()["spec"]["image"], "orders:1.0");
    one_writer(&fleet);
    thaws(&fleet, &to, "orders:2.0").await;
    guarded_in(&fleet, &to).await;
    one_writer(&fleet);
    tidy(&fleet, &to).await;
}

#[tokio::test(start_paused = true)]
async fn two_that_change_what_runs_take_turns_under_a_guard() {
    let fleet = fleet().await;
    shared(&fleet);
    let stage = Stage::of(fleet, json!({})).await;
    let fleet = &stage.fleet;
    suspend(fleet);
    is_suspended(fleet).await;
    stage.push("orders:1.1");
    tokio::time::sleep(Duration::from_mins(5)).await;
    let waits = waits(&stage.rollout());
    assert!(
        waits.contains("Suspension shop/freeze changes what runs"),
        "{waits}"
    );
    assert_eq!(fleet.copy("east").unwrap()["spec"]["image"], "orders:1.0");
    delete(fleet, &SUSPENSIONS, "freeze");
    stage.rests("Completed", "orders:1.1").await;
}

/// What a Rollout left that was torn away stays in the pin where it still matters, and a person is told.
#[tokio::test(start_paused = true)]
async fn what_a_guest_leaves_that_is_torn_away_goes_where_that_changes_nothing() {
    let stage = Stage::start(json!({"progress": {"timeout": "20m", "healthyFor": "10m"}})).await;
    let fleet = &stage.fleet;
    stage.push("orders:1.1");
    until_or(
        fleet,
        "east has it",
        || fleet.copy("east").unwrap()["spec"]["image"] == "orders:1.1",
        || stage.story(),
    )
    .await;
    until(fleet, "it runs there", |fleet| fleet.is_settled_in("east")).await;
    tear_away(fleet, &ROLLOUTS, "orders");
    // East was released: without what was said, it gets the same.
    until_or(
        fleet,
        "it is swept",
        || claim(fleet)["spec"]["differences"].is_null(),
        || stage.story(),
    )
    .await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(claim(fleet)["spec"]["included"], Value::Null);
    assert_eq!(fleet.copy("east").unwrap()["spec"]["image"], "orders:1.1");
    guarded_in(fleet, "east").await;
    tidy(fleet, "east").await;
}

#[tokio::test(start_paused = true)]
async fn what_a_guest_leaves_that_still_keeps_a_version_back_stays_and_is_told() {
    let stage = Stage::start(json!({"approval": {"beforeWaves": [1]}})).await;
    let fleet = &stage.fleet;
    stage.push("orders:1.1");
    until_or(
        fleet,
        "it waits",
        || stage.rollout()["waitingFor"]["code"] == "Approval",
        || stage.story(),
    )
    .await;
    tear_away(fleet, &ROLLOUTS, "orders");
    let told = || {
        let events = fleet
            .world
            .control_plane()
            .list(&EVENTS, None, &ListOptions::default())
            .unwrap();
        let mut left = events
            .items
            .iter()
            .filter(|event| event["reason"] == "LeftBehind");
        left.any(|event| event["message"].as_str().unwrap().contains("Rollout shop/orders"))
    };
    until_or(fleet, "it is told", told, || stage.story()).await;
    assert_eq!(fleet.copy("east").unwrap()["spec"]["image"], "orders:1.0");
    let uid = claim(fleet)["spec"]["differences"]
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let server = fleet.world.control_plane();
    let patch = cutover::sandbox::api::Patch::Merge(json!({"spec": {"differences": {uid: null}}}));
    let name = claim(fleet)["metadata"]["name"].as_str().unwrap().to_owned();
    let person = cutover::sandbox::api::WriteOptions::manager("somebody");
    server.patch(&CLAIMS, None, &name, None, &patch, &person).unwrap();
    until_or(
        fleet,
        "east has it",
        || fleet.copy("east").unwrap()["spec"]["image"] == "orders:1.1",
        || stage.story(),
    )
    .await;
    guarded_in(fleet, "east").await;
    one_writer(fleet);
}

/// The operator in east has nothing left to do, and the job runs with this image.
fn runs_steadily(fleet: &Fleet, image: &str) -> bool {
    let status = fleet.copy("east").unwrap()["status"].clone();
    let reconciled = status["reconciliationStatus"]["lastReconciledSpec"].as_str();
    reconciled.is_some_and(|spec| spec.contains(image))
        && status["lifecycleState"] == "STABLE"
        && status["jobStatus"]["state"] == "RUNNING"
}

/// The guard is gone, and its guest comes to its end all the same.
#[tokio::test(start_paused = true)]
async fn a_guest_of_a_plan_that_is_torn_away_comes_to_its_end() {
    let stage = Stage::start(json!({"progress": {"timeout": "20m", "healthyFor": "2m"}})).await;
    let fleet = &stage.fleet;
    stage.push("orders:1.1");
    // While it starts, the operator could not take a savepoint.
    until_or(
        fleet,
        "east runs it",
        || runs_steadily(fleet, "orders:1.1"),
        || stage.story(),
    )
    .await;
    tear_away(fleet, &PLANS, PLAN);
    stage.roll_by(json!({"abort": true}));
    stage.push("orders:1.1");
    stage.rolls("Undone").await;
    until_or(
        fleet,
        "nothing is left",
        || fleet.count(&PINS) + fleet.count(&CLAIMS) == 0,
        || stage.story(),
    )
    .await;
    assert_eq!(fleet.copy("east").unwrap()["spec"]["image"], "orders:1.0");
    stage.oracle.assert_tight();
    one_writer(fleet);
}

/// A stage whose controller is gone.
async fn left_alone(spec: Value) -> Stage {
    let fleet = unled().await;
    let controller = fleet.controller(Arc::new(NoFailpoints));
    let stage = Stage::of(fleet, spec).await;
    controller.kill().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage
}

#[test]
fn killed_at_any_line_a_rollout_under_a_guard_still_completes() {
    let play = async |stage: &Stage| {
        stage.push("orders:1.1");
        stage.rests("Completed", "orders:1.1").await;
    };
    at_any_line_of("Rollout").more_than(15).without_end().each_time(
        async || left_alone(json!({})).await,
        play,
        |stage| stage.oracle.assert_tight(),
    );
}

#[test]
fn killed_at_any_line_of_the_guard_its_guest_still_completes() {
    let play = async |stage: &Stage| {
        stage.push("orders:1.1");
        stage.rests("Completed", "orders:1.1").await;
    };
    at_any_line_of("FailoverPlan")
        .more_than(8)
        .without_end()
        .each_time(
            async || left_alone(json!({})).await,
            play,
            |stage| stage.oracle.assert_tight(),
        );
}

#[test]
fn killed_at_any_line_a_failover_in_the_middle_of_a_rollout_still_ends_with_one_writer() {
    let begin = async || {
        let spec =
            json!({"approval": {"beforeWaves": [1]}, "progress": {"timeout": "20m", "healthyFor": "2s"}});
        let fleet = unled().await;
        let controller = fleet.controller(Arc::new(NoFailpoints));
        plan(&fleet, json!({}));
        guarded_in(&fleet, "east").await;
        let handle = savepoint(&fleet, "east").await;
        known(&fleet, &handle).await;
        let stage = Stage::of(fleet, spec).await;
        stage.push("orders:1.1");
        until_or(
            &stage.fleet,
            "it waits",
            || stage.rollout()["waitingFor"]["code"] == "Approval",
            || stage.story(),
        )
        .await;
        controller.kill().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        stage
    };
    let play = async |stage: &Stage| {
        unwell(&stage.fleet, "east");
        let to = moved_from(&stage.fleet, "east").await;
        assert_eq!(stage.fleet.copy(&to).unwrap()["spec"]["image"], "orders:1.0");
    };
    at_any_line_of("FailoverPlan")
        .more_than(20)
        .within(Duration::from_mins(30))
        .first_journals(5)
        .without_end()
        .each_time(begin, play, |stage| {
            stage.oracle.assert_tight();
            one_writer(&stage.fleet);
        });
}

#[test]
fn killed_at_any_line_a_suspension_under_a_guard_still_holds_and_ends() {
    let begin = async || {
        let fleet = unled().await;
        shared(&fleet);
        let controller = fleet.controller(Arc::new(NoFailpoints));
        plan(&fleet, json!({}));
        guarded_in(&fleet, "east").await;
        controller.kill().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        fleet
    };
    let play = async |fleet: &Fleet| {
        suspend(fleet);
        is_suspended(fleet).await;
        fleet.apply(&JOBS, job("orders:2.0"));
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(fleet.copy("east").unwrap()["spec"]["image"], "orders:1.0");
        thaws(fleet, "east", "orders:2.0").await;
    };
    at_any_line_of("Suspension")
        .more_than(8)
        .each_time(begin, play, one_writer);
}
