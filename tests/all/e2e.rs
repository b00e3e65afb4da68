//! The whole program against a whole Karmada: any control plane with two or more members, which the environment names
//! (docs/reference/sandbox.md#end-to-end-suite); without it, a sandbox behind kubeconfigs. One scenario after the other, and
//! nothing is left behind.

mod account;
mod act;
mod place;
mod scenarios;
mod server;
mod sightings;
mod stage;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use account::Account;
use act::Act;
use cutover::sandbox::WorldOptions;
use futures::FutureExt;
use place::{Place, say};
use scenarios::SCENARIOS;
use stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_ends_as_it_should_and_nothing_is_left() {
    let mut options = WorldOptions::fast();
    // As .github/workflows/e2e.yml starts Karmada.
    options.features.no_execute_eviction = true;
    let place = Place::find(options).await;
    say(format!("control plane  {}", place.control.kubeconfig.display()));
    for (name, member) in &place.members {
        say(format!("member {name:<7} {}", member.server.kubeconfig.display()));
    }
    say(format!("namespace      {}\n", place.namespace));
    let stage = Arc::new(Stage::set(place));
    let mut account = Account::default();
    let only = std::env::var("CUTOVER_E2E_ONLY").unwrap_or_default();
    for scenario in SCENARIOS.iter().filter(|scenario| scenario.name.contains(&only)) {
        let act = Act::new(&stage, scenario.name, scenario.asks);
        let began = Instant::now();
        let played = AssertUnwindSafe((scenario.play)(act.clone()))
            .catch_unwind()
            .await;
        stage.place.reconnect_all().await;
        account.add(&act, began, played).await;
    }
    let Ok(stage) = Arc::try_unwrap(stage) else {
        panic!("a scenario still plays");
    };
    let (left, log) = stage.strike().await;
    account.tell();
    let mut failed = account.failed();
    failed.extend(left.into_iter().map(|object| format!("left behind: {object}")));
    if failed.is_empty() {
        return;
    }
    // What failed stands last: of a long output the end is what people get to see.
    say(format!("\nthe program's log:\n{log}"));
    panic!("{} failed:\n{}", failed.len(), failed.join("\n"));
}
