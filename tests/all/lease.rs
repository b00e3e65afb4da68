//! Several candidates and one Lease, in a world where requests are lost, late and refused: never two that may write.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::api::{OWN_NAMESPACE, STATUS_FORMAT};
use cutover::cluster::{Cluster, Lookup, Mode};
use cutover::error::{Error, Kind};
use cutover::leadership::Leadership;
use cutover::name::Gvk;
use cutover::reconcile::lease::{self, LeaseOptions, Standing};
use cutover::sandbox::api::{DeleteOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::faults::{Effect, Rule, Span};
use cutover::sandbox::{World, WorldOptions};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const LEASES: Resource = Resource::new("coordination.k8s.io", "leases");
const SECOND: Duration = Duration::from_secs(1);
/// What a lease lasts by default, and what is left of it when its holder writes no more.
const DURATION: Duration = Duration::from_secs(15);
const MARGIN: Duration = Duration::from_secs(5);

/// The terms of leadership that candidates were given, by their names.
#[derive(Clone, Default)]
struct Given(Arc<Mutex<BTreeMap<String, Leadership>>>);

impl Given {
    fn leaders(&self) -> Vec<String> {
        let given = self.0.lock().unwrap();
        let leading = given
            .iter()
            .filter(|(_, leadership)| leadership.may_write().is_ok());
        leading.map(|(name, _)| name.clone()).collect()
    }

    /// Waits until exactly one leads, and checks all the while that it is never more.
    async fn leader(&self, within: Duration) -> String {
        let begun = Instant::now();
        loop {
            let leaders = self.leaders();
            assert!(leaders.len() < 2, "{leaders:?}");
            if let [leader] = leaders.as_slice() {
                return leader.clone();
            }
            assert!(begun.elapsed() <= within, "nobody leads after {within:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// One process that would lead; dropped, it is as dead as after kill -9.
struct Candidate {
    name: String,
    cancel: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Candidate {
    fn start(world: &World, name: &str, given: &Given) -> Self {
        let cancel = CancellationToken::new();
        let cluster = cluster(world, name);
        let (token, given, own) = (cancel.clone(), given.clone(), name.to_owned());
        let task = tokio::spawn(async move {
            let work = |leadership: Leadership, stop: CancellationToken| {
                given.0.lock().unwrap().insert(own.clone(), leadership);
                async move {
                    stop.cancelled().await;
                    Ok(())
                }
            };
            lease::lead(&cluster, LeaseOptions::new(&own), &token, work).await
        });
        Self {
            name: name.to_owned(),
            cancel,
            task,
        }
    }

    fn kill(self, given: &Given) {
        self.task.abort();
        given.0.lock().unwrap().remove(&self.name);
    }

    async fn stop(mut self) {
        self.cancel.cancel();
        (&mut self.task).await.unwrap().unwrap();
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn cluster(world: &World, user: &str) -> Cluster {
    Cluster::from_client(world.client_as(user), cutover::cluster::Limits::default())
}

fn world(seed: u64) -> World {
    World::start(WorldOptions {
        seed,
        members: Vec::new(),
        ..WorldOptions::fast()
    })
}

fn holder(world: &World) -> Option<String> {
    let lease = world
        .control_plane()
        .get(&LEASES, Some(OWN_NAMESPACE), "cutover")
        .ok()?;
    lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
}

/// It may not be able to read what that one has left.
#[tokio::test(start_paused = true)]
async fn an_older_version_does_not_lead_after_a_newer_one() {
    let world = world(7);
    let given = Given::default();
    let first = Candidate::start(&world, "first", &given);
    assert_eq!(given.leader(DURATION).await, "first");
    first.stop().await;
    let writer = WriteOptions::manager("somebody");
    let says = |format: &str| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {"cutover.dev/format": format}}}));
        let server = world.control_plane();
        server
            .patch(&LEASES, Some(OWN_NAMESPACE), "cutover", None, &patch, &writer)
            .unwrap();
    };
    says(&(STATUS_FORMAT + 1).to_string());
    let _older = Candidate::start(&world, "older", &given);
    tokio::time::sleep(DURATION * 4).await;
    assert_eq!(given.leaders(), Vec::<String>::new());
    says("1");
    assert_eq!(given.leader(DURATION).await, "older");
}

#[tokio::test(start_paused = true)]
async fn how_the_syncs_stand_is_noted_with_a_renewal_and_stays_when_the_lease_is_given_back() {
    let world = world(11);
    let (cluster, options) = (cluster(&world, "first"), LeaseOptions::new("first"));
    let (noted, cancel) = (options.syncs.clone(), CancellationToken::new());
    let token = cancel.clone();
    let task = tokio::spawn(async move {
        let work = |_: Leadership, stop: CancellationToken| async move {
            stop.cancelled().await;
            Ok(())
        };
        lease::lead(&cluster, options, &token, work).await
    });
    let annotation = || {
        let server = world.control_plane();
        let lease = server.get(&LEASES, Some(OWN_NAMESPACE), "cutover").ok()?;
        let syncs = lease["metadata"]["annotations"]["cutover.dev/syncs"].as_str();
        syncs.map(str::to_owned)
    };
    tokio::time::sleep(SECOND).await;
    assert_eq!((holder(&world).as_deref(), annotation()), (Some("first"), None));
    noted.send_replace(Some("numbers".to_owned()));
    tokio::time::sleep(DURATION).await;
    assert_eq!(annotation().as_deref(), Some("numbers"));
    cancel.cancel();
    task.await.unwrap().unwrap();
    assert_eq!((holder(&world), annotation().as_deref()), (None, Some("numbers")));
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_next_one_leads_within_the_lease_time() {
    let (world, given) = (world(1), Given::default());
    let first = Candidate::start(&world, "first", &given);
    assert_eq!(given.leader(SECOND).await, "first");
    let _second = Candidate::start(&world, "second", &given);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(given.leaders(), ["first"]);

    let begun = Instant::now();
    first.kill(&given);
    assert_eq!(given.leader(DURATION + 2 * SECOND).await, "second");
    // Not before the first one would have stopped writing, had it only been cut off.
    assert!(begun.elapsed() + MARGIN >= DURATION, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_a_stop_in_order_the_next_one_leads_at_once() {
    let (world, given) = (world(1), Given::default());
    let first = Candidate::start(&world, "first", &given);
    given.leader(SECOND).await;
    let _second = Candidate::start(&world, "second", &given);
    tokio::time::sleep(2 * SECOND).await;
    first.stop().await;
    assert_eq!(holder(&world), None);
    assert_eq!(given.leader(2 * SECOND).await, "second");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_a_margin_before_the_next_one_begins() {
    let (world, given) = (world(1), Given::default());
    let first = Candidate::start(&world, "first", &given);
    given.leader(SECOND).await;
    let _second = Candidate::start(&world, "second", &given);
    tokio::time::sleep(30 * SECOND).await;

    let cut = Rule::new(Effect::Lose).user("first");
    world.faults().requests(cut);
    while given.leaders() == ["first"] {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stopped = Instant::now();
    assert_eq!(given.leader(DURATION).await, "second");
    assert!(stopped.elapsed() >= MARGIN, "{:?}", stopped.elapsed());

    world.faults().end();
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(given.leaders(), ["second"], "the first one waits again");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_leader_outlives_a_short_outage() {
    let (world, given) = (world(1), Given::default());
    let _first = Candidate::start(&world, "first", &given);
    given.leader(SECOND).await;
    for effect in [
        Effect::Refuse(500),
        Effect::Refuse(429),
        Effect::Lose,
        Effect::LoseAnswer,
    ] {
        world.faults().requests(Rule::new(effect.clone()));
        for _ in 0..40 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(given.leaders(), ["first"], "{effect:?}");
        }
        world.faults().end();
        tokio::time::sleep(10 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_deleted_or_taken_by_force_stops() {
    let (world, given) = (world(1), Given::default());
    let _first = Candidate::start(&world, "first", &given);
    given.leader(SECOND).await;
    let before = given.0.lock().unwrap()["first"].clone();
    let server = world.control_plane();
    let gone = DeleteOptions::default();
    server
        .delete(&LEASES, Some(OWN_NAMESPACE), "cutover", &gone)
        .unwrap();
    tokio::time::sleep(6 * SECOND).await;
    assert!(before.may_write().is_err());
    assert_eq!(given.leader(2 * SECOND).await, "first", "it leads anew");
}

/// Partitions, lost answers, delays, crashes and stops, drawn from a seed.
#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_two_never_lead_at_once_and_in_the_end_somebody_does() {
    for seed in 0..6 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (world, given) = (world(seed), Given::default());
        let mut born = 0;
        let mut start = || {
            born += 1;
            Candidate::start(&world, &format!("candidate-{born}"), &given)
        };
        let mut all: Vec<Candidate> = (0..3).map(|_| start()).collect();
        let mut led: Vec<String> = Vec::new();
        for _ in 0..60 {
            let who = random.usize(..all.len());
            let rule = |effect| Rule::new(effect).user(&all[who].name);
            match random.u8(0..8) {
                0 | 1 => drop(world.faults().requests(rule(Effect::Lose))),
                2 => drop(world.faults().requests(rule(Effect::LoseAnswer).probability(0.7))),
                3 => drop(
                    world
                        .faults()
                        .requests(rule(Effect::Delay(Span::millis(0, 20_000)))),
                ),
                4 => {
                    let candidate = std::mem::replace(&mut all[who], start());
                    candidate.kill(&given);
                }
                5 => {
                    let candidate = std::mem::replace(&mut all[who], start());
                    candidate.stop().await;
                }
                _ => drop(world.faults().end()),
            }
            for _ in 0..random.u32(0..400) {
                tokio::time::sleep(Duration::from_millis(25)).await;
                let leaders = given.leaders();
                assert!(leaders.len() < 2, "seed {seed}: {leaders:?}");
                if leaders.last().is_some_and(|leader| led.last() != Some(leader)) {
                    led.extend(leaders);
                }
            }
        }
        world.faults().end();
        given.leader(DURATION + 5 * SECOND).await;
        assert!(led.len() > 2, "seed {seed}: too quiet to show anything: {led:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_after_leadership_ended_is_not_sent() {
    let world = world(1);
    let leadership = Leadership::unbounded();
    let cluster = cluster(&world, "cutover");
    let within = cluster.within(leadership.clone());
    let Lookup::Served(maps) = cluster.lookup(&Gvk::new("v1", "ConfigMap")).await.unwrap() else {
        panic!("no ConfigMaps");
    };
    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}});
    within
        .writer("test")
        .apply(&maps, &map("one"), Mode::Write)
        .await
        .unwrap();
    leadership.end();
    let revision = world.control_plane().revision();
    let writer = within.writer("test");
    assert!(writer.apply(&maps, &map("two"), Mode::Write).await.is_err());
    assert!(writer.create(&maps, &map("three"), Mode::Write).await.is_err());
    assert_eq!(world.control_plane().revision(), revision);
    writer.apply(&maps, &map("two"), Mode::Rehearse).await.unwrap();
    cluster
        .writer("test")
        .apply(&maps, &map("two"), Mode::Write)
        .await
        .unwrap();
}

/// A write that waits for its next attempt is given up when the term of leadership closes.
#[tokio::test(start_paused = true)]
async fn what_waits_to_be_tried_again_is_given_up_at_the_end() {
    let world = world(1);
    let leadership = Leadership::unbounded();
    let cluster = cluster(&world, "cutover").within(leadership.clone());
    let Lookup::Served(maps) = cluster.lookup(&Gvk::new("v1", "ConfigMap")).await.unwrap() else {
        panic!("no ConfigMaps");
    };
    world.faults().requests(Rule::new(Effect::Refuse(429)));
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}});
    let writing = tokio::spawn(async move {
        let begun = Instant::now();
        let written = cluster.writer("test").apply(&maps, &map, Mode::Write).await;
        (written.map(|_| ()), begun.elapsed())
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    leadership.close();
    let (written, took) = writing.await.unwrap();
    assert!(written.is_err() && took < SECOND, "{written:?} after {took:?}");
}

async fn leading_once(world: &World, patience: Duration) -> Result<(), Error> {
    let work = |_, _| std::future::ready(Ok(()));
    let cancel = CancellationToken::new();
    let cluster = cluster(world, "once");
    lease::once(&cluster, LeaseOptions::new("once"), patience, &cancel, work).await
}

#[tokio::test(start_paused = true)]
async fn who_works_once_waits_for_its_turn_and_says_whose_it_is() {
    let (world, given) = (world(1), Given::default());
    leading_once(&world, SECOND).await.unwrap();
    assert_eq!(holder(&world), None);

    let first = Candidate::start(&world, "first", &given);
    given.leader(2 * SECOND).await;
    let refused = leading_once(&world, 30 * SECOND).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Conflict);
    assert!(
        refused.to_string().starts_with("first still has the lease"),
        "{refused}"
    );
    first.kill(&given);
    leading_once(&world, 30 * SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_permits_or_serves_no_leases_is_told_from_one_that_is_away() {
    let world = world(1);
    let forbidden = |verb: &str| Rule::new(Effect::Refuse(403)).resource("leases").verb(verb);
    for verb in ["get", "create"] {
        world.faults().requests(forbidden(verb));
        let error = leading_once(&world, 30 * SECOND).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Auth, "{error}");
        let hint = error.hint_text().unwrap();
        assert!(
            hint.contains("leases.coordination.k8s.io") && hint.contains("--no-lease"),
            "{hint}"
        );
        world.faults().end();
    }
    world
        .faults()
        .requests(Rule::new(Effect::Refuse(404)).verb("raw"));
    let error = leading_once(&world, 30 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), Kind::User, "{error}");
    assert!(error.hint_text().unwrap().contains("--no-lease"), "{error}");
    world.faults().end();

    world.faults().requests(Rule::new(Effect::Refuse(503)));
    let error = leading_once(&world, 30 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_says_for_whom() {
    let (world, given) = (world(1), Given::default());
    let _first = Candidate::start(&world, "first", &given);
    given.leader(SECOND).await;
    let options = LeaseOptions::new("second");
    let mut standing = options.standing.subscribe();
    let (cluster, cancel) = (cluster(&world, "second"), CancellationToken::new());
    let waiting = tokio::spawn(async move {
        lease::lead(&cluster, options, &cancel, |_, _| std::future::ready(Ok(()))).await
    });
    standing.changed().await.unwrap();
    assert_eq!(
        *standing.borrow(),
        Standing::Waiting {
            holder: "first".into()
        }
    );
    waiting.abort();
}
