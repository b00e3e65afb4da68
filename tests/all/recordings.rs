//! What migrations on the sandbox send, in its order, is what stands in `crates/sim/recordings`: the simulation is held against it
//! there (`crates/sim/tests/simulation/recordings.rs`). `CUTOVER_ACCEPT=1` writes it again.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::{Failpoint, FailpointHook, Side};
use cutover::sandbox::WorldOptions;
use cutover_sim::recording::Recording;
use futures::future::BoxFuture;
use serde_json::json;

use crate::failover::stage::{guarded_in, plan, purge_mode, taint, unled};
use crate::support::fleet::{Fleet, MIGRATIONS, POLICIES};

const MOVE: &str = "orders-to-west";

/// Notes what was sent for intents of a kind.
struct Sent(&'static str, Mutex<Vec<String>>);

impl FailpointHook for Sent {
    fn reached<'a>(&'a self, point: &'a Failpoint) -> BoxFuture<'a, ()> {
        if point.side == Side::After && point.intent.kind == self.0 {
            self.1.lock().unwrap().push(point.what.clone());
        }
        Box::pin(std::future::ready(()))
    }
}

fn is_recorded(of: &str, sent: &Sent) {
    let lines = sent.1.lock().unwrap();
    let seen = Recording::of(lines.iter().map(String::as_str));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("crates/sim/recordings/sandbox_{of}.txt"));
    if std::env::var_os("CUTOVER_ACCEPT").is_some() {
        std::fs::write(&file, seen.text("sandbox, tests/all/recordings.rs")).unwrap();
    }
    let recorded = Recording::parse(&std::fs::read_to_string(&file).unwrap_or_default());
    assert_eq!(recorded.difference(&seen), None, "{}", seen.text("seen"));
}

#[tokio::test(start_paused = true)]
async fn a_move_sends_what_is_recorded() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let sent = Arc::new(Sent("Migration", Mutex::default()));
    fleet.migrate(MOVE, "west");
    let _controller = fleet.controller(Arc::clone(&sent) as Arc<dyn FailpointHook>);
    assert_eq!(fleet.ended(MOVE).await, Phase::Completed);
    fleet.assert_clean_in("west");
    is_recorded("move", &sent);
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_called_off_sends_what_is_recorded() {
    let fleet = Fleet::start(WorldOptions::default()).await;
    let sent = Arc::new(Sent("Migration", Mutex::default()));
    fleet.migrate(MOVE, "west");
    let _controller = fleet.controller(Arc::clone(&sent) as Arc<dyn FailpointHook>);
    fleet.phase(MOVE, Phase::Verify).await;
    fleet.patch(&MIGRATIONS, MOVE, json!({"spec": {"abort": true}}));
    assert_eq!(fleet.ended(MOVE).await, Phase::Aborted);
    fleet.assert_clean_in("east");
    is_recorded("abort-in-verify", &sent);
}

#[tokio::test(start_paused = true)]
async fn a_failover_sends_what_is_recorded() {
    let fleet = unled().await;
    purge_mode(&fleet, "Gracefully");
    let placement = json!({"clusterAffinity": {"clusterNames": ["east", "west"]}});
    fleet.patch(&POLICIES, "orders", json!({"spec": {"placement": placement}}));
    let sent = Arc::new(Sent("FailoverPlan", Mutex::default()));
    let _controller = fleet.controller(Arc::clone(&sent) as Arc<dyn FailpointHook>);
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    taint(&fleet, "east");
    guarded_in(&fleet, "west").await;
    let is_left = |fleet: &Fleet| fleet.copy("east").is_none();
    fleet.until("the old copy has left", is_left).await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    is_recorded("failover", &sent);
}
