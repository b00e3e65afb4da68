//! The whole program against a whole Karmada: any control plane with two or more members, which the environment names
//! (docs/e2e.md); without it, a sandbox behind kubeconfigs. One scenario after the other, and nothing is left behind.

mod account;
mod place;
mod scenarios;
mod server;
mod stage;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use account::Account;
use cutover::sandbox::WorldOptions;
use futures::FutureExt;
use place::{Place, say};
use scenarios::SCENARIOS;
use stage::{Act, Stage};

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_ends_as_it_should_and_nothing_is_left() {
    let place = Place::find(WorldOptions::fast()).await;
    say(format!("control plane  {}", place.control.kubeconfig.display()));
    for (name, member) in &place.members {
        say(format!("member {name:<7} {}", member.server.kubeconfig.display()));
    }
    say(format!("namespace      {}\n", place.namespace));
    let stage = Arc::new(Stage::set(place));
    let mut account = Account::default();
    let only = std::env::var("CUTOVER_E2E_ONLY").unwrap_or_default();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&only)) {
        let act = Act::new(&stage, scenario.name);
        let played = AssertUnwindSafe((scenario.play)(act.clone()))
            .catch_unwind()
            .await;
        account.add(&act, played).await;
    }
    let Ok(stage) = Arc::try_unwrap(stage) else {
        panic!("a scenario still plays");
    };
    let log = stage.said();
    let left = stage.strike().await;
    account.tell();
    let failed = account.failed();
    assert!(failed.is_empty(), "{failed:#?}\n{log}");
    assert!(left.is_empty(), "left behind: {left:#?}");
}
