//! How soon a migration goes on when what it waits for has come, and what wakes it.

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::cluster::Cluster;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, Resource, WriteOptions};
use cutover::sandbox::member::{RateLimit, Timings};
use serde_json::json;

use crate::support::counted::{counted, without_member_watches};
use crate::support::fleet::{Fleet, MIGRATIONS};

/// How long the pods of a stopped job take to go: no multiple of how often somebody looks.
const TEARDOWNS: [u64; 5] = [610, 730, 850, 970, 1090];

/// What a move takes beyond that: the job's operator, which looks every half second, a start, Karmada, and cutover.
const BEYOND: Duration = Duration::from_millis(1110);

/// Moves jobs on such connections, and returns how long nobody wrote beyond the time that the pods took to go.
async fn beyond(connect: impl Fn(&Fleet) -> Cluster) -> Vec<Duration> {
    let mut all = Vec::new();
    for teardown in TEARDOWNS.map(Duration::from_millis) {
        let fleet = Fleet::start(WorldOptions {
            timings: Timings {
                teardown,
                ..Timings::default()
            },
            ..WorldOptions::default()
        })
        .await;
        let _controller = fleet.controller_on(connect(&fleet), Arc::new(NoFailpoints));
        fleet.migrate("orders-to-west", "west");
        assert_eq!(fleet.ended("orders-to-west").await, Phase::Completed);
        fleet.assert_clean_in("west");
        let gaps = fleet.world.ledger().verdict().gaps;
        assert_eq!(gaps.len(), 1, "{}", fleet.world.ledger());
        all.push(gaps[0].duration().unsigned_abs().saturating_sub(teardown));
    }
    all
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_has_stopped_is_seen_in_that_moment() {
    let beyond = beyond(|fleet| counted(fleet.world.client()).0).await;
    assert!(beyond.iter().all(|beyond| *beyond <= BEYOND), "{beyond:?}");
}

#[tokio::test(start_paused = true)]
async fn where_members_may_not_be_watched_it_is_seen_at_the_next_look() {
    let beyond = beyond(|fleet| without_member_watches(fleet.world.client())).await;
    assert!(beyond.iter().any(|beyond| *beyond > BEYOND), "{beyond:?}");
    let within = BEYOND + Duration::from_secs(1);
    assert!(beyond.iter().all(|beyond| *beyond <= within), "{beyond:?}");
}

/// Flink's operator works on an object at most 5 times in 15 s. One that is only late is waited for, and no person is asked to give up what
/// the target wrote.
#[tokio::test(start_paused = true)]
async fn an_operator_at_its_rate_limit_is_waited_for() {
    let fleet = Fleet::start(WorldOptions {
        timings: Timings {
            rate_limit: Some(RateLimit::INSTALLED),
            ..Timings::default()
        },
        ..WorldOptions::default()
    })
    .await;
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let name = "orders-to-west";
    fleet.migrate_with(
        name,
        json!({"to": "west", "verify": {"healthyFor": "60s", "timeout": "10m"}}),
    );
    fleet.phase(name, Phase::Verify).await;
    fleet.patch(&MIGRATIONS, name, json!({"spec": {"abort": true}}));
    fleet
        .until("the job is back", |fleet| {
            let status = fleet.status(name);
            let reason = status["waitingFor"]["reason"].as_str().unwrap_or_default();
            assert!(!reason.contains("manual intervention"), "{status:#}");
            status["phase"] == "Aborted"
        })
        .await;
    fleet.assert_clean_in("east");
}

/// Guards that each selector of `noPods` counts. The pods of several are not watched: that one has gone is seen at the next look, which a wait
/// puts off for 2 s at most.
#[tokio::test(start_paused = true)]
async fn the_pods_of_each_selector_have_to_be_gone_and_are_looked_at_every_so_often() {
    const PODS: Resource = Resource::new("", "pods");
    const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");
    let fleet = Fleet::start(WorldOptions::default()).await;
    let mut profile = cutover::profile::built_in().unwrap()[0].clone();
    profile.spec.no_pods.as_mut().unwrap().label_selectors = vec!["helps=${name}".to_owned()];
    fleet.create(&PROFILES, None, serde_json::to_value(&profile).unwrap());
    let _controller = fleet.controller(Arc::new(NoFailpoints));
    let name = "orders-to-west";
    fleet.migrate(name, "west");
    fleet
        .until("the source is told to stop", |fleet| {
            let copy = fleet.copy("east");
            copy.is_some_and(|copy| copy["spec"]["job"]["state"] == "suspended")
        })
        .await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "helper", "namespace": "shop", "labels": {"helps": "orders"}},
        "spec": {"containers": [{"name": "main", "image": "helper"}]},
    });
    let (east, manager) = (&fleet.world.member("east").api, WriteOptions::manager("operator"));
    east.create(&PODS, Some("shop"), pod, &manager).unwrap();
    fleet
        .until("its pod is waited for", |fleet| {
            let status = fleet.status(name);
            let reason = status["waitingFor"]["reason"].as_str().unwrap_or_default();
            reason.contains("pod helper is still there")
        })
        .await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!fleet.runs_in("west"), "{:#}", fleet.status(name));
    east.delete(&PODS, Some("shop"), "helper", &DeleteOptions::default())
        .unwrap();
    let gone = tokio::time::Instant::now();
    fleet
        .until("it runs in west", |fleet| fleet.runs_in("west"))
        .await;
    let took = gone.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(fleet.ended(name).await, Phase::Completed);
    fleet.assert_clean_in("west");
}
