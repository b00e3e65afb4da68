//! Replicas that stand still between journal and effect, as by SIGSTOP: one before each write of a migration, which the next
//! one then sends, and stands still before the one after it. When it is all over they go on, one after the other, and each
//! sends what it was about to send.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::api::{OWN_NAMESPACE, Phase};
use cutover::cluster::{Cluster, Limits};
use cutover::leadership::Leadership;
use cutover::reconcile::intents::{FailpointHook, NoFailpoints, Side};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::api::{DeleteOptions, ListOptions, Resource};
use http::{Method, Request};
use kube::client::Body;
use serde_json::Value;

use crate::support::fleet::{CLAIMS, Controller, Fleet, JOBS, MIGRATIONS, PINS, POLICIES, job};
use crate::support::trap::Trap;

const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const MOVE: &str = "orders-to-west";
/// More writes than any intent has.
const MOST: usize = 300;

/// What comes too late and is taken nevertheless, because nothing has that name any more: the sweep takes it away.
const CREATED: [&str; 3] = [
    "Hold: claim ",
    "Hold: pin: says nothing yet",
    "Hold: create canary ",
];

#[tokio::test(start_paused = true)]
async fn what_is_sent_late_in_a_migration_that_completed_is_refused_or_taken_away() {
    let (fleet, stopped) = relay("orders:2.0", Phase::Completed, Led::ForEver).await;
    go_on(&fleet, stopped, "west").await;
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_late_in_a_migration_that_rolled_back_is_refused_or_taken_away() {
    let (fleet, stopped) = relay("orders:broken", Phase::RolledBack, Led::ForEver).await;
    go_on(&fleet, stopped, "east").await;
}

/// Whoever stood still for longer than it led, and sees that, sends nothing at all.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_by_one_whose_time_is_over_when_it_goes_on() {
    let (fleet, stopped) = relay("orders:2.0", Phase::Completed, Led::UntilItStops).await;
    for replica in stopped {
        let line = replica.go_on(&fleet).await;
        let writes = replica.sent.lock().unwrap();
        assert!(
            writes.iter().all(|write| !write.meant),
            "after {line}: {writes:?}"
        );
    }
    fleet.assert_clean_in("west");
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_is_put_up_when_its_migration_is_gone_changes_nothing_in_any_member() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.migrate(MOVE, "west");
    let late = before_its_pin(&fleet).await;
    fleet.lead(Arc::new(NoFailpoints));
    fleet.phase(MOVE, Phase::Completed).await;
    goes_on_when_it_is_gone(&fleet, late, (&MIGRATIONS, MOVE), (&JOBS, "orders")).await;
    fleet.assert_clean_in("west");
}

/// Leaves a replica behind before it creates the pin of an intent.
pub async fn before_its_pin(fleet: &Fleet) -> Replica {
    let before_a_pin = Trap::when(|point| point.side == Side::Before && point.what.contains(": pin: "));
    let replica = Replica::start(fleet, before_a_pin, Led::ForEver);
    fleet
        .until("it stands before the pin", |_| replica.stands())
        .await;
    replica
}

/// Deletes an intent that has ended, and lets the one that was left behind go on: in no member anything changes, not even for
/// a moment, and nothing is left.
pub async fn goes_on_when_it_is_gone(
    fleet: &Fleet,
    late: Replica,
    (intents, intent): (&Resource, &str),
    (kind, workload): (&Resource, &str),
) {
    let server = fleet.world.control_plane();
    let gone = DeleteOptions::default();
    server.delete(intents, Some("shop"), intent, &gone).unwrap();
    let swept = |fleet: &Fleet| {
        let is_gone = fleet
            .world
            .control_plane()
            .get(intents, Some("shop"), intent)
            .is_err();
        is_gone && (fleet.count(&CLAIMS), canaries(fleet)) == (0, 0) && pins(fleet) == 0
    };
    fleet.until("the intent is gone, and all of it", swept).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let copies = |fleet: &Fleet| -> Vec<Value> {
        let members = fleet.world.members();
        let copies = members.map(|member| member.api.get(kind, Some("shop"), workload).ok());
        copies
            .map(|copy| copy.map_or(Value::Null, |copy| (*copy).clone()))
            .collect()
    };
    let before = copies(fleet);
    let line = late.go_on(fleet).await;
    let sent = late.sent.lock().unwrap().clone();
    assert!(
        sent[0].taken && sent[0].method == Method::POST,
        "{line}: {sent:?}"
    );
    fleet.until("nothing is left", swept).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert_eq!(copies(fleet), before, "after {line}");
}

/// Lets a migration run to its end, with a replica left behind before every write of it.
async fn relay(image: &str, ends: Phase, led: Led) -> (Fleet, Vec<Replica>) {
    let fleet = Fleet::start(WorldOptions::default()).await;
    fleet.want(job(image));
    fleet.migrate(MOVE, "west");
    let stopped = stand_still(&fleet, led, is_over).await;
    assert_eq!(fleet.status(MOVE)["phase"], ends.to_string());
    assert!(stopped.len() > 60, "only {} writes", stopped.len());
    (fleet, stopped)
}

/// Leaves a replica behind before every write, until it is over.
pub async fn stand_still(fleet: &Fleet, led: Led, is_over: impl Fn(&Fleet) -> bool) -> Vec<Replica> {
    let mut stopped: Vec<Replica> = Vec::new();
    loop {
        let writes = usize::from(!stopped.is_empty());
        let replica = Replica::start(fleet, after(writes), led);
        fleet
            .until("it stands still, or all is done", |fleet| {
                replica.stands() || is_over(fleet)
            })
            .await;
        if !replica.stands() {
            return stopped;
        }
        if let Led::UntilItStops = led {
            replica.leadership.end();
        }
        stopped.push(replica);
        assert!(
            stopped.len() < MOST,
            "one that is replaced after each of its writes never comes to an end: {:?}",
            stopped
                .iter()
                .map(|replica| replica.failpoints.stands_at())
                .rev()
                .take(8)
                .collect::<Vec<_>>()
        );
    }
}

fn is_over(fleet: &Fleet) -> bool {
    let migration = fleet.world.control_plane().get(&MIGRATIONS, Some("shop"), MOVE);
    let migration = migration.unwrap();
    let phase = migration["status"]["phase"].as_str();
    let finalizers = migration["metadata"]["finalizers"].as_array();
    matches!(phase, Some("Completed" | "RolledBack")) && finalizers.is_none_or(Vec::is_empty)
}

async fn go_on(fleet: &Fleet, stopped: Vec<Replica>, cluster: &str) {
    let status = fleet.status(MOVE);
    let mut created = [false; CREATED.len()];
    for replica in stopped {
        let line = replica.go_on(fleet).await;
        let first = replica.sent.lock().unwrap().first().cloned();
        let Some(first) = first else {
            // The other place that is written to.
            assert!(line.contains("push the record"), "after {line} nothing was sent");
            continue;
        };
        if let Some(which) = CREATED.iter().position(|begins| line.starts_with(begins)) {
            created[which] |= first.taken && first.method == Method::POST;
        } else {
            assert!(!first.taken, "after {line}: {first:?} was taken");
        }
        assert_eq!(fleet.status(MOVE), status, "after {line}");
        let settled = |fleet: &Fleet| fleet.is_clean_in(cluster) && canaries(fleet) == 0;
        fleet
            .until(&format!("nothing is left after {line}"), settled)
            .await;
        fleet.assert_clean_in(cluster);
    }
    assert_eq!(created, [true; CREATED.len()]);
}

/// Counts the policies and the templates of canaries: what is left of one half is left, too.
pub fn canaries(fleet: &Fleet) -> usize {
    let server = fleet.world.control_plane();
    let halves = [POLICIES, CONFIG_MAPS].map(|resource| {
        let all = server.list(&resource, Some(OWN_NAMESPACE), &ListOptions::default());
        let all = all.map(|all| all.items).unwrap_or_default();
        let names = all.iter().filter_map(|one| one["metadata"]["name"].as_str());
        names.filter(|name| name.starts_with("canary-")).count()
    });
    halves.iter().sum()
}

fn pins(fleet: &Fleet) -> usize {
    let all = fleet
        .world
        .control_plane()
        .list(&PINS, None, &ListOptions::default());
    let all = all.unwrap().items;
    let names = all.iter().filter_map(|pin| pin["metadata"]["name"].as_str());
    names.filter(|name| name.starts_with("zzzz-cutover-")).count()
}

/// For how long a replica leads.
#[derive(Clone, Copy)]
pub enum Led {
    ForEver,
    UntilItStops,
}

pub struct Replica {
    _controller: Controller,
    leadership: Leadership,
    failpoints: Arc<Trap>,
    /// The writes since it went on.
    pub sent: Arc<Mutex<Vec<Write>>>,
}

#[derive(Clone, Debug)]
pub struct Write {
    pub method: Method,
    #[expect(dead_code, reason = "it is printed")]
    path: String,
    /// Not only tried.
    pub meant: bool,
    pub taken: bool,
}

impl Replica {
    fn start(fleet: &Fleet, failpoints: Arc<Trap>, led: Led) -> Self {
        let sent = Arc::default();
        let leadership = Leadership::unbounded();
        let client = noting(fleet.world.client(), Arc::clone(&sent));
        let mut cluster = Cluster::from_client(client, Limits::default());
        if let Led::UntilItStops = led {
            cluster = cluster.within(leadership.clone());
        }
        Self {
            _controller: fleet.controller_on(cluster, Arc::clone(&failpoints) as Arc<dyn FailpointHook>),
            leadership,
            failpoints,
            sent,
        }
    }

    fn stands(&self) -> bool {
        self.failpoints.stands_at().is_some()
    }

    /// Goes on, and returns before what it had stood still.
    pub async fn go_on(&self, fleet: &Fleet) -> String {
        let line = self.failpoints.stands_at().unwrap();
        // What its sweep did meanwhile isn't meant.
        self.sent.lock().unwrap().clear();
        self.failpoints.go_on();
        fleet
            .until("what was to be sent has been sent", |_| {
                self.failpoints.is_through()
            })
            .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        line
    }
}

/// Returns a client that notes which writes are sent, and whether the server takes them. What is told to people is left out.
fn noting(client: kube::Client, sent: Arc<Mutex<Vec<Write>>>) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, sent) = (client.clone(), Arc::clone(&sent));
        async move {
            let (method, path) = (request.method().clone(), request.uri().path().to_owned());
            let query = request.uri().query().unwrap_or_default().to_owned();
            let answer = client.send(request).await;
            if method != Method::GET && !path.contains("/events") {
                let meant = !query.contains("dryRun");
                let taken = meant && answer.as_ref().is_ok_and(|answer| answer.status().is_success());
                sent.lock().unwrap().push(Write {
                    method,
                    path,
                    meant,
                    taken,
                });
            }
            answer
        }
    });
    kube::Client::new(service, "default")
}

/// Stands still before the write that comes after so many.
fn after(writes: usize) -> Arc<Trap> {
    let seen = AtomicUsize::new(0);
    Trap::when(move |point| point.side == Side::Before && seen.fetch_add(1, Ordering::SeqCst) == writes)
}
