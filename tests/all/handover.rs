//! Who runs from the hand-over on: a target that runs keeps the token until its source can have it, what it wrote is not given
//! up without a word, and only what was watched counts as a soak.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::{PLAIN_FORMAT, Phase, STATUS_FORMAT, crds};
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::{FailpointHook, NoFailpoints, Side};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Patch, Resource, Subresource, WriteOptions};
use cutover::sandbox::ledger::Gap;
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::support::counted::counted;
use crate::support::fleet::{CLAIMS, Controller, Fleet, JOBS, MIGRATIONS, PINS, job};
use crate::support::rules::{Action, Between, Rule};
use crate::support::trap::Trap;

pub const MOVE: &str = "orders-to-west";
const PODS: Resource = Resource::new("", "pods");
const KEY: fn() -> (String, String) = || ("shop".to_owned(), "orders".to_owned());

async fn moving() -> (Fleet, Controller) {
    soaking_for("2s").await
}

async fn soaking_for(soak: &str) -> (Fleet, Controller) {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": soak, "timeout": "60s"}}),
    );
    (fleet, controller)
}

/// A move that has come to Verify.
async fn verified_with(verify: Value) -> (Fleet, Controller) {
    verified_with_more(json!({"verify": verify})).await
}

async fn verified_with_more(mut more: Value) -> (Fleet, Controller) {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let controller = fleet.controller(Arc::new(NoFailpoints));
    more["to"] = "west".into();
    fleet.migrate_with(MOVE, more);
    fleet.phase(MOVE, Phase::Verify).await;
    (fleet, controller)
}

fn fail(fleet: &Fleet, cluster: &str, reason: &str) {
    let member = fleet.world.member(cluster);
    member.simulators(|simulators| simulators.jobs().fail(&KEY(), reason));
}

pub fn waits_for(fleet: &Fleet, what: &str) -> bool {
    let reason = fleet.status(MOVE)["waitingFor"]["reason"].clone();
    reason.as_str().is_some_and(|reason| reason.contains(what))
}

pub async fn asks(fleet: &Fleet, what: &str) {
    fleet.until(what, |fleet| waits_for(fleet, what)).await;
}

/// Gives a person's words, each with the phase that it is for.
pub fn assume(fleet: &Fleet, words: &[(&str, &str, &str)]) {
    let words: Vec<Value> = words
        .iter()
        .map(|(fact, cluster, phase)| {
            json!({"fact": fact, "cluster": cluster, "attempt": 1, "phase": phase, "by": "ada"})
        })
        .collect();
    fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"assume": words}}));
}

pub fn abort(fleet: &Fleet) {
    fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
}

pub fn writer(fleet: &Fleet) -> Value {
    fleet.status(MOVE)["journal"]["writer"].clone()
}

fn delete_copy(fleet: &Fleet, cluster: &str) {
    let api = &fleet.world.member(cluster).api;
    api.delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default())
        .unwrap();
}

fn pods(fleet: &Fleet, cluster: &str) -> Vec<Value> {
    let api = &fleet.world.member(cluster).api;
    let pods = api.list(&PODS, Some("shop"), &ListOptions::default()).unwrap();
    pods.items.iter().map(|pod| (**pod).clone()).collect()
}

pub fn delete_pods(fleet: &Fleet, cluster: &str) -> Vec<Value> {
    let gone = pods(fleet, cluster);
    for pod in &gone {
        let name = pod["metadata"]["name"].as_str().unwrap();
        let now = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        let api = &fleet.world.member(cluster).api;
        api.delete(&PODS, Some("shop"), name, &now).unwrap();
    }
    gone
}

/// The pods are there again, as new ones.
fn make_pods(fleet: &Fleet, cluster: &str, pods: Vec<Value>) {
    let api = &fleet.world.member(cluster).api;
    let writer = WriteOptions::manager("kubelet");
    for mut pod in pods {
        let status = pod["status"].clone();
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        pod["metadata"] = json!({"name": name, "namespace": "shop", "labels": pod["metadata"]["labels"]});
        api.create(&PODS, Some("shop"), pod, &writer).unwrap();
        let patch = Patch::Merge(json!({"status": status}));
        api.patch(
            &PODS,
            Some("shop"),
            &name,
            Some(Subresource::Status),
            &patch,
            &writer,
        )
        .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_runs_is_not_stopped_because_its_source_cannot_be_seen() {
    for phase in [Phase::Handoff, Phase::Verify] {
        let (fleet, _controller) = soaking_for("20s").await;
        fleet.phase(MOVE, phase).await;
        fleet
            .until("the target has the token", |fleet| writer(fleet) == "west")
            .await;
        fleet.until("it runs there", |fleet| fleet.runs_in("west")).await;
        fleet.world.faults().partition("east");
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert!(fleet.runs_in("west"), "{phase}: {:#}", fleet.status(MOVE));
        assert!(waits_for(&fleet, "Stopped in east"), "{:#}", fleet.status(MOVE));
        fleet.world.faults().heal("east");
        let ended = fleet.ended(MOVE).await;
        assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(MOVE));
        fleet.assert_clean_in("west");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_is_a_wish_until_the_source_can_have_it_back() {
    let (fleet, _controller) = soaking_for("20s").await;
    fleet.phase(MOVE, Phase::Verify).await;
    fleet.world.faults().partition("east");
    abort(&fleet);
    asks(&fleet, "To in west").await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(fleet.runs_in("west"), "{:#}", fleet.status(MOVE));
    fleet.world.faults().heal("east");
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::Aborted, "{:#}", fleet.status(MOVE));
    fleet.assert_clean_in("east");
}

/// Every word that is asked for is one that ends what it was asked for.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_lost_for_good_is_left_behind_on_a_persons_word() {
    let (fleet, _controller) = soaking_for("20s").await;
    fleet.phase(MOVE, Phase::Verify).await;
    fleet.world.faults().partition("east");
    abort(&fleet);
    asks(&fleet, "To in west").await;
    assume(&fleet, &[("To", "west", "RollingBack")]);
    asks(&fleet, "Stopped in east").await;
    assume(&fleet, &[("Stopped", "east", "Cleanup")]);
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(MOVE));
    assert!(fleet.runs_in("west"));
    fleet.assert_one_writer();
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_lost_before_the_target_runs_leaves_it_to_the_target_on_a_persons_word() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let verify = json!({"healthyFor": "2s", "timeout": "60s"});
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": verify, "approval": {"before": ["Handoff"]}}),
    );
    let is_gated = |fleet: &Fleet| fleet.status(MOVE)["waitingFor"]["approval"] == "Handoff";
    fleet.until("it waits for approval", is_gated).await;
    fleet.world.faults().partition("east");
    let approved = json!([{"phase": "Handoff", "attempt": 1}]);
    fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"approvals": approved}}));
    fleet.phase(MOVE, Phase::RollingBack).await;
    asks(&fleet, "Stopped in east").await;
    assume(&fleet, &[("Stopped", "east", "RollingBack")]);
    asks(&fleet, "To in west").await;
    fleet
        .until("the target runs", |fleet| fleet.runs_in("west"))
        .await;
    assume(&fleet, &[("To", "west", "RollingBack")]);
    // That nothing runs in the source was said, and nothing was seen there since.
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(MOVE));
    fleet.assert_one_writer();
}

/// Its operator has not said anything yet, and is about to start it.
#[tokio::test(start_paused = true)]
async fn a_target_that_was_let_run_is_not_taken_for_one_that_never_ran() {
    for behind in [8, 45] {
        let (fleet, _controller) = moving().await;
        fleet.phase(MOVE, Phase::Handoff).await;
        fleet
            .world
            .faults()
            .lag("operators/west", Duration::from_secs(behind));
        fleet.until("the target is let run", is_told_to_run).await;
        abort(&fleet);
        let ended = fleet.ended(MOVE).await;
        assert_eq!(ended, Phase::Aborted, "{:#}", fleet.status(MOVE));
        fleet.assert_clean_in("east");
    }
}

fn is_told_to_run(fleet: &Fleet) -> bool {
    fleet
        .copy("west")
        .is_some_and(|copy| copy["spec"]["job"]["state"] == "running")
}

/// Its requests hang, and are not refused: what is seen of the target doesn't wait for them.
#[tokio::test(start_paused = true)]
async fn a_source_that_never_answers_does_not_hide_the_target() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let between = Between::new();
    let cluster = Cluster::from_client(between.before(fleet.world.client()), Limits::default());
    let _controller = fleet.controller_on(cluster, Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    fleet.until("the target is let run", is_told_to_run).await;
    between.add(Rule::new(Method::GET, "/clusters/east/proxy", "", Action::Hold));
    tokio::time::sleep(Duration::from_mins(2)).await;
    let status = fleet.status(MOVE);
    let waits = status["waitingFor"]["reason"].as_str().unwrap_or_default();
    assert!(waits.contains("no answer from east within 5 s"), "{waits}");
    between.clear();
    between.release();
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::Completed,
        "{}",
        between.timeline()
    );
    fleet.assert_clean_in("west");
    let gap = fleet.world.ledger().verdict().gaps[0].duration().as_millis();
    let told = fleet.status(MOVE)["downtimeMs"].as_i64().unwrap();
    assert!(
        i128::from(told) - gap < 15_000,
        "{told} ms told, and {gap} ms without a writer"
    );
}

/// Karmada takes a request that timed out for one that was answered: its Work says applied, and the copy has the old marker.
#[tokio::test(start_paused = true)]
async fn what_karmada_takes_for_sent_is_sent_again() {
    for cluster in ["east", "west"] {
        let (fleet, _controller) = soaking_for("20s").await;
        fleet.until("the target is let run", is_told_to_run).await;
        let marker = fleet.copy("west").unwrap()["metadata"]["annotations"]["cutover.dev/pin"].clone();
        let has_it = |fleet: &Fleet| {
            fleet.copy(cluster).unwrap()["metadata"]["annotations"]["cutover.dev/pin"] == marker
        };
        fleet.until("the copy has the marker", has_it).await;
        let (head, number) = marker.as_str().unwrap().rsplit_once('.').unwrap();
        let number: u64 = number.parse().unwrap();
        let old = json!({"metadata": {"annotations": {"cutover.dev/pin": format!("{head}.{}", number - 1)}}});
        let writer = WriteOptions::manager("nobody");
        let member = &fleet.world.member(cluster).api;
        member
            .patch(&JOBS, Some("shop"), "orders", None, &Patch::Merge(old), &writer)
            .unwrap();
        asks(&fleet, &format!("{cluster}: carries")).await;
        let ended = fleet.ended(MOVE).await;
        assert_eq!(ended, Phase::Completed, "{cluster}: {:#}", fleet.status(MOVE));
        fleet.assert_clean_in("west");
    }
}

/// A target that its operator can't stop, of which a person gives up what it wrote: by a word alone, or having removed it.
#[tokio::test(start_paused = true)]
async fn a_target_that_does_not_stop_is_given_up_on_the_word_that_is_offered() {
    for is_removed in [false, true] {
        let (fleet, _controller) = soaking_for("20m").await;
        fleet.phase(MOVE, Phase::Verify).await;
        let west = fleet.world.member("west");
        west.simulators(|simulators| simulators.jobs().set_reachable(&KEY(), false));
        abort(&fleet);
        asks(&fleet, "From in east").await;
        assert!(
            waits_for(&fleet, "has not acknowledged"),
            "{:#}",
            fleet.status(MOVE)
        );
        // What others write into the sentence offers nothing.
        let forged = json!({"status": {"error": "forget it (spec.assume: FromNothing in west)"}});
        let (patch, writer) = (Patch::Merge(forged), WriteOptions::manager("operator"));
        let status = Some(Subresource::Status);
        west.api
            .patch(&JOBS, Some("shop"), "orders", status, &patch, &writer)
            .unwrap();
        asks(&fleet, "forget it (spec assume: FromNothing in west)").await;
        let offers = fleet.status(MOVE)["waitingFor"]["offers"].clone();
        let gives_up = "what west wrote since it took over";
        assert_eq!(
            offers,
            json!([{"fact": "From", "cluster": "east", "givesUp": gives_up}])
        );
        if is_removed {
            delete_copy(&fleet, "west");
            fleet
                .until("that is seen", |fleet| !waits_for(fleet, "forget it"))
                .await;
            asks(&fleet, "From in east").await;
            assume(&fleet, &[("From", "east", "RollingBack")]);
        } else {
            assume(&fleet, &[("From", "east", "RollingBack")]);
        }
        let ended = fleet.ended(MOVE).await;
        assert_eq!(ended, Phase::Aborted, "{:#}", fleet.status(MOVE));
        fleet.assert_clean_in("east");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_nobody_sees_is_not_deleted_with_what_it_wrote() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let between = Between::new();
    let cluster = Cluster::from_client(between.before(fleet.world.client()), Limits::default());
    let _controller = fleet.controller_on(cluster, Arc::new(NoFailpoints));
    fleet.migrate(MOVE, "west");
    fleet
        .until("the target has the token", |fleet| writer(fleet) == "west")
        .await;
    fleet.until("it is let run", is_told_to_run).await;
    between.add(Rule::new(Method::GET, "/clusters/west/proxy/", "", Action::Break));
    fleet.phase(MOVE, Phase::RollingBack).await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(fleet.copy("west").is_some(), "{:#}", fleet.status(MOVE));
    assert!(waits_for(&fleet, "Stopped in west"), "{:#}", fleet.status(MOVE));
    between.clear();
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::RolledBack, "{:#}", fleet.status(MOVE));
    fleet.assert_clean_in("east");
    assert_eq!(fleet.status(MOVE)["journal"]["captured"]["from"], "west");
}

/// What the last checkpoint has can't be handed over: it is newer than the savepoint all the same.
#[tokio::test(start_paused = true)]
async fn a_target_that_falls_back_to_its_last_state_runs_on_from_it() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let mut template = job("orders:1.0");
    let configuration = &mut template["spec"]["flinkConfiguration"];
    configuration["high-availability.type"] = json!("kubernetes");
    configuration["high-availability.storageDir"] = json!("s3://orders/ha");
    configuration["state.checkpoints.dir"] = json!("s3://orders/checkpoints");
    configuration["state.savepoints.dir"] = json!("s3://orders/savepoints");
    fleet.apply(&JOBS, template);
    fleet
        .until("the job runs as it shall", |fleet| fleet.is_settled_in("east"))
        .await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "20m", "timeout": "60s"}}),
    );
    fleet.phase(MOVE, Phase::Verify).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let west = fleet.world.member("west");
    west.simulators(|simulators| simulators.jobs().set_reachable(&KEY(), false));
    abort(&fleet);
    asks(&fleet, "what it wrote is there alone").await;
    fleet.until("it runs again", |fleet| fleet.runs_in("west")).await;
    asks(&fleet, "From in east").await;
    assert!(
        fleet
            .copy("east")
            .is_some_and(|copy| copy["spec"]["job"]["state"] == "suspended")
    );
    assume(&fleet, &[("To", "west", "RollingBack")]);
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(MOVE));
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_target_whose_copy_was_recreated_is_not_complete_without_a_word() {
    let (fleet, _controller) = soaking_for("20s").await;
    fleet.phase(MOVE, Phase::Verify).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    delete_copy(&fleet, "west");
    asks(&fleet, "From in west").await;
    let told = fleet.status(MOVE)["findings"].to_string();
    assert!(told.contains("CopyMadeAnew"), "{told}");
    fleet.until("it runs again", |fleet| fleet.runs_in("west")).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    assume(&fleet, &[("From", "west", "Verify")]);
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(MOVE));
    let told = fleet.status(MOVE)["findings"].to_string();
    assert!(told.contains("CopyMadeAnew"), "{told}");
    // Of two times without a writer, the time until the person came is none.
    let before = fleet.status(MOVE)["journal"]["downBeforeMs"].as_u64();
    let whole = fleet.status(MOVE)["downtimeMs"].as_u64();
    assert!(before > Some(0) && whole > before, "{before:?} of {whole:?}");
    assert!(whole < Some(60_000), "{whole:?}");
    fleet.assert_settled_in("west");
}

#[tokio::test(start_paused = true)]
async fn the_downtime_of_a_recreated_copy_is_told_however_soon_the_word_comes() {
    let (fleet, _controller) = soaking_for("20s").await;
    fleet.phase(MOVE, Phase::Verify).await;
    assume(&fleet, &[("NoState", "west", "Verify")]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    delete_copy(&fleet, "west");
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(MOVE));
    let before = fleet.status(MOVE)["journal"]["downBeforeMs"].as_u64();
    let whole = fleet.status(MOVE)["downtimeMs"].as_u64();
    assert!(before > Some(0) && whole > before, "{before:?} of {whole:?}");
    fleet.assert_settled_in("west");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_watched_is_no_soak() {
    let (fleet, controller) = soaking_for("30s").await;
    fleet.phase(MOVE, Phase::Verify).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    controller.kill().await;
    tokio::time::sleep(Duration::from_secs(45)).await;
    let begun = tokio::time::Instant::now();
    let _next = fleet.controller(Arc::new(NoFailpoints));
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(MOVE));
    assert!(
        begun.elapsed() >= Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
    fleet.assert_clean_in("west");
}

/// The operator still says RUNNING.
#[tokio::test(start_paused = true)]
async fn pods_that_die_as_the_soak_begins_are_no_soak() {
    let (fleet, _controller) = soaking_for("10s").await;
    fleet.phase(MOVE, Phase::Verify).await;
    let gone = delete_pods(&fleet, "west");
    assert!(!gone.is_empty());
    asks(&fleet, "the copy has no pod").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(fleet.status(MOVE)["phase"], "Verify");
    make_pods(&fleet, "west", gone);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let again = delete_pods(&fleet, "west");
    make_pods(&fleet, "west", again);
    let begun = tokio::time::Instant::now();
    let ended = fleet.ended(MOVE).await;
    assert_eq!(ended, Phase::Completed, "{:#}", fleet.status(MOVE));
    assert!(
        begun.elapsed() >= Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_the_target_ran_is_no_downtime() {
    let (fleet, _controller) = soaking_for("20m").await;
    fleet.phase(MOVE, Phase::Verify).await;
    tokio::time::sleep(Duration::from_mins(5)).await;
    abort(&fleet);
    assert_eq!(fleet.ended(MOVE).await, Phase::Aborted);
    let status = fleet.status(MOVE);
    let downtime = status["downtimeMs"].as_u64().unwrap();
    assert!(downtime < 60_000, "{downtime}");
    assert!(
        status["journal"]["downBeforeMs"].as_u64().unwrap() > 0,
        "{status:#}"
    );
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_has_failed_is_given_up_at_once_and_its_reason_is_kept() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.want(job("orders:broken"));
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "2s", "timeout": "10m"}}),
    );
    fleet.phase(MOVE, Phase::Handoff).await;
    let begun = tokio::time::Instant::now();
    fleet.phase(MOVE, Phase::RollingBack).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_mins(3), "{took:?}");
    assert_eq!(fleet.ended(MOVE).await, Phase::RolledBack);
    let reason = fleet.status(MOVE)["journal"]["rollBack"]["reason"].to_string();
    assert!(reason.contains("has failed"), "{reason}");
    assert!(reason.contains("pull") || reason.contains("Pull"), "{reason}");
    // What the Events of its pods warn of goes with them.
    assert!(reason.contains("the registry has no such image"), "{reason}");
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn the_last_warning_of_a_member_stands_beside_what_is_waited_for() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.want(job("orders:broken"));
    let (cluster, asked) = counted(fleet.world.client());
    let _controller = fleet.controller_on(cluster, Arc::new(NoFailpoints));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "onFailure": "Hold", "verify": {"healthyFor": "2s", "timeout": "10m"}}),
    );
    fleet.phase(MOVE, Phase::Handoff).await;
    assert!(fleet.status(MOVE)["waitingFor"]["lastWarning"].is_null());
    tokio::time::sleep(Duration::from_mins(5)).await;
    let status = fleet.status(MOVE);
    assert_eq!(status["phase"], "Handoff");
    let warning = status["waitingFor"]["lastWarning"].as_str().unwrap_or_default();
    assert!(
        warning.starts_with("west: Pod ") && warning.contains("the registry has no such image"),
        "{status:#}"
    );
    let asked = asked.lock().unwrap();
    let events = asked
        .iter()
        .filter(|line| line.starts_with("GET ") && line.ends_with("/events"));
    assert!((1..=10).contains(&events.count()));
}

/// A job that fails in the soak isn't waited for until time is over.
#[tokio::test(start_paused = true)]
async fn a_target_that_fails_in_verify_is_given_up_at_once() {
    let (fleet, _controller) = verified_with(json!({"healthyFor": "10m", "timeout": "30m"})).await;
    let begun = tokio::time::Instant::now();
    fail(&fleet, "west", "checkpoints keep failing");
    fleet.phase(MOVE, Phase::RollingBack).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_mins(3), "{took:?}");
    let reason = fleet.status(MOVE)["journal"]["rollBack"]["reason"].to_string();
    assert!(
        reason.contains("has failed") && reason.contains("checkpoints keep failing"),
        "{reason}"
    );
    give_up_what_west_wrote(&fleet).await;
    assert_eq!(fleet.ended(MOVE).await, Phase::RolledBack);
    fleet.assert_clean_in("east");
}

/// It ran, and a job that has failed takes no savepoint: only a person can give up what it wrote.
async fn give_up_what_west_wrote(fleet: &Fleet) {
    asks(fleet, "From in east").await;
    assume(fleet, &[("From", "east", "RollingBack")]);
}

/// `onFailure: Hold`: nobody is stopped and nobody started until a person says so.
#[tokio::test(start_paused = true)]
async fn a_target_that_fails_is_left_to_a_person_who_wants_that() {
    let verify = json!({"healthyFor": "10m", "timeout": "30m"});
    let (fleet, _controller) = verified_with_more(json!({"verify": verify, "onFailure": "Hold"})).await;
    fail(&fleet, "west", "checkpoints keep failing");
    asks(&fleet, "has failed").await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(fleet.status(MOVE)["phase"], "Verify", "{:#}", fleet.status(MOVE));
    assert!(!fleet.runs_in("east") && fleet.copy("west").is_some());
    assert_eq!(writer(&fleet), "west");
    abort(&fleet);
    give_up_what_west_wrote(&fleet).await;
    assert_eq!(fleet.ended(MOVE).await, Phase::Aborted);
    fleet.assert_clean_in("east");
}

/// What can't be told of the target any more is neither health nor failure.
#[tokio::test(start_paused = true)]
async fn health_that_cannot_be_told_any_more_completes_nothing() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let mut profile = serde_json::to_value(&cutover::profile::built_in().unwrap()[0]).unwrap();
    let healthy = profile["spec"]["healthyWhen"].as_str().unwrap().to_owned();
    let counted = "(!has(object.metadata.labels) || !('tries' in object.metadata.labels) || \
                   int(object.metadata.labels.tries) < 9)";
    profile["spec"]["healthyWhen"] = format!("{healthy} && {counted}").into();
    let profiles = Resource::new("cutover.dev", "workloadprofiles");
    let writer = WriteOptions::manager("somebody");
    let server = fleet.world.control_plane();
    server.create(&profiles, None, profile, &writer).unwrap();
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let verify = json!({"healthyFor": "5m", "timeout": "10m"});
    fleet.migrate_with(MOVE, json!({"to": "west", "verify": verify}));
    fleet.phase(MOVE, Phase::Verify).await;
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"tries": "many"}}}));
    let member = &fleet.world.member("west").api;
    member
        .patch(&JOBS, Some("shop"), "orders", None, &labelled, &writer)
        .unwrap();
    asks(&fleet, "healthyWhen").await;
    assert_eq!(
        fleet.ended(MOVE).await,
        Phase::RolledBack,
        "{:#}",
        fleet.status(MOVE)
    );
    fleet.assert_clean_in("east");
}

/// Nobody knows any more how far it was: what stands is left standing, also when the intent is deleted.
#[tokio::test(start_paused = true)]
async fn a_journal_that_is_taken_out_lets_nobody_go() {
    for phase in [Phase::Capture, Phase::Verify] {
        for wiped in [
            json!({"status": {"journal": null}}),
            json!({"status": {"journal": null, "phase": null, "attempt": null, "steps": null}}),
        ] {
            let (fleet, controller) = soaking_for("20m").await;
            fleet.phase(MOVE, phase).await;
            controller.kill().await;
            let before = fleet.count(&PINS);
            let server = fleet.world.control_plane();
            let writer = WriteOptions::manager("somebody");
            server
                .patch(
                    &MIGRATIONS,
                    Some("shop"),
                    MOVE,
                    Some(Subresource::Status),
                    &Patch::Merge(wiped),
                    &writer,
                )
                .unwrap();
            let _next = fleet.controller(Arc::new(NoFailpoints));
            tokio::time::sleep(Duration::from_secs(20)).await;
            let delete = DeleteOptions::default();
            server.delete(&MIGRATIONS, Some("shop"), MOVE, &delete).unwrap();
            tokio::time::sleep(Duration::from_mins(2)).await;
            // With nothing left of the status, it is one of those that were cut off: see `orphans`.
            let knows_its_phase = fleet.status(MOVE)["phase"] == phase.to_string();
            assert!(
                !knows_its_phase || fleet.count(&PINS) == before,
                "{phase}: the pin is gone"
            );
            fleet.assert_one_writer();
        }
    }
}

/// An older replica that leads after a newer one does nothing on a journal that it would misread.
#[tokio::test(start_paused = true)]
async fn a_status_of_a_newer_format_is_left_alone_and_people_hear_of_it() {
    let (fleet, _controller) = soaking_for("20s").await;
    fleet.phase(MOVE, Phase::Verify).await;
    assert_eq!(fleet.status(MOVE)["format"], PLAIN_FORMAT);
    assert!(edit_status(
        &fleet,
        json!({"status": {"format": STATUS_FORMAT + 1}})
    ));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let left = fleet.status(MOVE);
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(fleet.status(MOVE), left, "nothing is written");
    assert_eq!(fleet.status(MOVE)["phase"], "Verify");
    let events = fleet.world.control_plane().list(
        &Resource::new("", "events"),
        Some("shop"),
        &ListOptions::default(),
    );
    let told = events.unwrap().items;
    assert!(
        told.iter().any(|event| event["reason"] == "StatusTooNew"),
        "{told:#?}"
    );
    assert!(edit_status(&fleet, json!({"status": {"format": STATUS_FORMAT}})));
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_one_writer();
}

/// Returns the CRD of migrations as earlier versions had it.
fn crd_without_the_form_of_what_has_ended() -> Value {
    let mut crds = crds().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
    let mut crd = crds
        .find(|crd| crd["spec"]["names"]["kind"] == "Migration")
        .unwrap();
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let fields = &mut schema["properties"]["status"]["properties"];
    for field in ["timeline", "trimmedJournal"] {
        assert!(fields.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    crd
}

#[tokio::test(start_paused = true)]
async fn where_the_crds_are_older_than_the_program_it_ends_in_the_form_that_they_know() {
    let (fleet, _controller) = moving().await;
    let server = fleet.world.control_plane();
    server.install(&crd_without_the_form_of_what_has_ended()).unwrap();
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    let stored = server.get(&MIGRATIONS, Some("shop"), MOVE).unwrap();
    let status = &stored["status"];
    assert!(
        status["journal"].is_object() && status["steps"].is_array(),
        "{status:#}"
    );
    fleet.assert_clean_in("west");
    // With the CRDs of this version, the next change takes the form of this version.
    for crd in crds() {
        server.install(&serde_json::to_value(crd).unwrap()).unwrap();
    }
    fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"paused": true}}));
    let is_folded = |fleet: &Fleet| {
        let stored = fleet
            .world
            .control_plane()
            .get(&MIGRATIONS, Some("shop"), MOVE)
            .unwrap();
        stored["status"]["trimmedJournal"].is_string() && stored["status"]["journal"].is_null()
    };
    fleet
        .until("the end takes the form of this version", is_folded)
        .await;
    assert_eq!(fleet.status(MOVE)["phase"], "Completed");
}

/// A version that can't read a claim builds nothing on it.
#[tokio::test(start_paused = true)]
async fn a_claim_of_a_newer_format_is_waited_for() {
    let (fleet, _controller) = soaking_for("20s").await;
    fleet.phase(MOVE, Phase::Verify).await;
    let server = fleet.world.control_plane();
    let claims = server.list(&CLAIMS, None, &ListOptions::default()).unwrap().items;
    let name = claims[0]["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(claims[0]["spec"]["format"], PLAIN_FORMAT);
    let says = |format: u32| {
        let patch = Patch::Merge(json!({"spec": {"format": format}}));
        let writer = WriteOptions::manager("somebody");
        server.patch(&CLAIMS, None, &name, None, &patch, &writer).unwrap();
    };
    says(STATUS_FORMAT + 1);
    let waits = |fleet: &Fleet| {
        let why = fleet.status(MOVE)["waitingFor"]["reason"].clone();
        why.as_str()
            .is_some_and(|why| why.contains("reads formats up to"))
    };
    fleet.until("it says that it can't read the claim", waits).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(fleet.status(MOVE)["phase"], "Verify");
    assert!(fleet.runs_in("west"));
    says(STATUS_FORMAT);
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_one_writer();
}

fn edit_status(fleet: &Fleet, patch: Value) -> bool {
    let writer = WriteOptions::manager("somebody");
    let (patch, server) = (Patch::Merge(patch), fleet.world.control_plane());
    let done = server.patch(
        &MIGRATIONS,
        Some("shop"),
        MOVE,
        Some(Subresource::Status),
        &patch,
        &writer,
    );
    done.is_ok()
}

/// It waits before the hand-over, with the state of the source captured; nobody leads.
async fn captured() -> Fleet {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "2s", "timeout": "60s"}, "approval": {"before": ["Handoff"]}}),
    );
    fleet
        .until("it is captured", |fleet| {
            fleet.status(MOVE)["journal"]["captured"]["values"]["savepoint"].is_string()
                && waits_for(fleet, "approv")
        })
        .await;
    controller.kill().await;
    fleet
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_somebody_has_put_into_the_journal_is_started_from_by_nobody() {
    let fleet = captured().await;
    let handle = fleet.status(MOVE)["journal"]["captured"]["values"].clone();
    let edited = json!({"savepoint": "s3://savepoints/of-before"});
    assert!(edit_status(
        &fleet,
        json!({"status": {"phase": "Handoff", "journal": {"captured": {"values": edited}}}}),
    ));
    let _next = fleet.controller(Arc::new(NoFailpoints));
    asks(&fleet, "the journal's handle is not the one that was left").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!fleet.runs_in("west"));
    assert!(edit_status(
        &fleet,
        json!({"status": {"journal": {"captured": {"values": handle}}}}),
    ));
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_is_cut_short_or_edited_makes_no_second_writer() {
    for edit in [
        json!({"source": null}),
        json!({"binding": null}),
        json!({"writer": "west"}),
        json!({"writer": "east"}),
        json!({"committed": true}),
        json!({"seq": 0}),
        json!({"clusters": ["west"]}),
        json!({"suspended": []}),
    ] {
        let fleet = captured().await;
        // What the schema refuses is not there to be read.
        let is_there = edit_status(&fleet, json!({"status": {"journal": edit}}));
        let _next = fleet.controller(Arc::new(NoFailpoints));
        let approval = json!([{"phase": "Handoff", "attempt": 1, "by": "ada"}]);
        fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"approvals": approval}}));
        tokio::time::sleep(Duration::from_mins(3)).await;
        let verdict = fleet.world.ledger().verdict();
        assert!(
            verdict.is_clean(),
            "{edit} (stored: {is_there}): {:#}\n{}",
            fleet.status(MOVE),
            fleet.world.ledger()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_expression_that_fails_lets_nobody_go() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let mut profile = serde_json::to_value(&cutover::profile::built_in().unwrap()[0]).unwrap();
    assert_eq!(profile["metadata"]["name"], "flink");
    profile["spec"]["suspendedWhen"] = "int(object.status.jobStatus.state) > 0".into();
    let profiles = Resource::new("cutover.dev", "workloadprofiles");
    let writer = WriteOptions::manager("somebody");
    let server = fleet.world.control_plane();
    server.create(&profiles, None, profile, &writer).unwrap();
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    fleet.migrate_with(MOVE, json!({"to": "west"}));
    fleet.phase(MOVE, Phase::Capture).await;
    asks(&fleet, "suspendedWhen").await;
    assert!(!fleet.runs_in("west"));
    // It is known by then that it doesn't get any better.
    assert_eq!(fleet.ended(MOVE).await, Phase::RolledBack);
    fleet.assert_clean_in("east");
}

/// A move whose hand-over is about to begin: the source has stopped, and nobody runs.
async fn about_to_hand_over() -> (Fleet, Controller, Arc<Trap>) {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let trap = Trap::when(|point| point.side == Side::After && point.what == "Handoff: journal");
    let controller = fleet.controller(Arc::clone(&trap) as Arc<dyn FailpointHook>);
    fleet.migrate_with(
        MOVE,
        json!({"to": "west", "verify": {"healthyFor": "2s", "timeout": "60s"}}),
    );
    trap.sprung("the hand-over").await;
    (fleet, controller, trap)
}

#[tokio::test(start_paused = true)]
async fn a_git_host_that_is_down_at_the_hand_over_keeps_nobody_from_running() {
    let (fleet, _controller, trap) = about_to_hand_over().await;
    fleet.cut_git_off(true);
    trap.go_on();
    fleet
        .until("the target runs", |fleet| fleet.runs_in("west"))
        .await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert!(fleet.runs_in("west"), "{:#}", fleet.status(MOVE));
    assert_eq!(
        fleet.status(MOVE)["phase"],
        "Handoff",
        "the source keeps what Git doesn't have"
    );
    fleet.cut_git_off(false);
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("west");
    let gap = nobody_wrote(&fleet);
    assert!(gap < SignedDuration::from_secs(10), "{gap:?}");
}

/// For how long nobody wrote, as the records of the job say it.
fn nobody_wrote(fleet: &Fleet) -> SignedDuration {
    fleet.verdict().gaps.iter().map(Gap::duration).sum()
}

#[tokio::test(start_paused = true)]
async fn a_slow_git_host_takes_no_time_from_the_workload() {
    let (fleet, _controller, trap) = about_to_hand_over().await;
    fleet.slow_git(Duration::from_secs(20));
    trap.go_on();
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("west");
    let gap = nobody_wrote(&fleet);
    assert!(gap < SignedDuration::from_secs(10), "{gap:?}");
}

#[tokio::test(start_paused = true)]
async fn nor_does_it_on_the_way_back() {
    let (fleet, _controller) = verified_with(json!({"healthyFor": "1h", "timeout": "60s"})).await;
    let before = nobody_wrote(&fleet);
    fleet.slow_git(Duration::from_secs(20));
    fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
    assert_eq!(fleet.ended(MOVE).await, Phase::Aborted);
    fleet.assert_clean_in("east");
    let gap = nobody_wrote(&fleet) - before;
    assert!(gap < SignedDuration::from_secs(15), "{gap:?}");
}

#[tokio::test(start_paused = true)]
async fn what_another_intent_of_that_name_has_left_in_git_is_not_its_own() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let verify = json!({"healthyFor": "2s", "timeout": "60s"});
    fleet.migrate_with(MOVE, json!({"to": "west", "verify": verify}));
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    let server = fleet.world.control_plane();
    let options = DeleteOptions::default();
    server.delete(&MIGRATIONS, Some("shop"), MOVE, &options).unwrap();
    fleet.until("it is gone", |fleet| fleet.is_gone(MOVE)).await;
    let gated = json!({"to": "east", "verify": verify, "approval": {"before": ["Capture"]}});
    fleet.migrate_with(MOVE, gated);
    let waits = |fleet: &Fleet| fleet.status(MOVE)["waitingFor"]["approval"] == "Capture";
    fleet.until("it is asked", waits).await;
    let recorded = fleet.recorded(MOVE).unwrap();
    assert!(recorded.is_cut_short(), "{:?}", recorded.status.phase);
    assert_eq!(recorded.spec.to.as_str(), "east");
    let approved = json!({"spec": {"approvals": [{"phase": "Capture", "attempt": 1}]}});
    fleet.patch(&MIGRATIONS, MOVE, approved);
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("east");
}

#[tokio::test(start_paused = true)]
async fn what_git_does_not_know_of_is_not_stopped() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let trap = Trap::when(|point| point.side == Side::After && point.what == "Expand: journal");
    let _controller = fleet.controller(Arc::clone(&trap) as Arc<dyn FailpointHook>);
    fleet.migrate_with(MOVE, json!({"to": "west"}));
    trap.sprung("the copy in the target").await;
    fleet.cut_git_off(true);
    trap.go_on();
    asks(&fleet, "the Git server does not answer").await;
    // Longer than the phase may take otherwise.
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(fleet.runs_in("east"), "{:#}", fleet.status(MOVE));
    assert_eq!(fleet.status(MOVE)["phase"], "Expand");
    fleet.cut_git_off(false);
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_only_the_source_keeps_is_not_replaced_by_a_journal() {
    let (fleet, controller, _trap) = about_to_hand_over().await;
    let handle = fleet.status(MOVE)["journal"]["captured"]["values"].clone();
    controller.kill().await;
    let edited = json!({"savepoint": "s3://savepoints/of-before"});
    assert!(edit_status(
        &fleet,
        json!({"status": {"journal": {"captured": {"values": edited}}}})
    ));
    let _next = fleet.controller(Arc::new(NoFailpoints));
    asks(
        &fleet,
        "the journal's handle is not the one that was left (east shows another one)",
    )
    .await;
    assert!(!fleet.runs_in("west"));
    assert!(edit_status(
        &fleet,
        json!({"status": {"journal": {"captured": {"values": handle}}}})
    ));
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("west");
}
