//! Rollouts in which somebody is replaced, or goes on when all is over: Karmada's processes, and those who reconcile.

use std::sync::Arc;

use cutover::reconcile::intents::NoFailpoints;

use super::{ALL, DEPLOYMENTS, ROLLOUTS, Stage};
use crate::stops::{Led, before_its_pin, goes_on_when_it_is_gone, stand_still};
use crate::support::fleet::Fleet;

const IN_ORDER: [&str; 3] = ["east", "north", "west"];

#[tokio::test(start_paused = true)]
async fn karmadas_processes_may_be_replaced_before_and_after_each_wave() {
    for process in ["karmada-controller-manager", "karmada-scheduler"] {
        let stage = Stage::start(&ALL).await;
        let faults = stage.fleet.world.faults();
        stage.push("web:2");
        for cluster in IN_ORDER {
            faults.restart(process);
            stage.gets(cluster, "web:2").await;
        }
        faults.restart(process);
        stage.rests("Completed", &ALL, "web:2").await;
        assert_eq!(stage.order_of("web:2"), IN_ORDER, "{process}");
        stage.push("web:broken");
        stage.is("Halted").await;
        faults.restart(process);
        stage.push("web:2");
        stage.rests("Completed", &ALL, "web:2").await;
        assert_eq!(stage.order_of("web:broken"), ["east"], "{process}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_who_reconcile_at_once_roll_a_change_once() {
    let stage = Stage::start(&ALL).await;
    let _second = stage.fleet.controller(Arc::new(NoFailpoints));
    stage.push("web:2");
    stage.rests("Completed", &ALL, "web:2").await;
    assert_eq!(stage.order_of("web:2"), IN_ORDER);
}

/// Whoever stood still before a write for longer than it led sends nothing when it goes on.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_by_one_whose_time_is_over_when_it_goes_on() {
    let mut stage = Stage::start(&ALL).await;
    stage.controller.take().unwrap().kill().await;
    stage.push("web:2");
    let is_over = |_: &Fleet| {
        let status = stage.status();
        let all = ALL.iter().all(|cluster| stage.image(cluster) == "web:2");
        all && status["phase"] == "Completed" && status["journal"].is_null()
    };
    let stopped = stand_still(&stage.fleet, Led::UntilItStops, is_over).await;
    assert!(stopped.len() > 15, "only {} writes", stopped.len());
    let status = stage.status();
    for replica in stopped {
        let line = replica.go_on(&stage.fleet).await;
        let writes = replica.sent.lock().unwrap();
        assert!(
            writes.iter().all(|write| !write.meant),
            "after {line}: {writes:?}"
        );
        assert_eq!(stage.status(), status, "after {line}");
    }
    stage.rests("Completed", &ALL, "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_is_put_up_when_its_rollout_is_gone_changes_nothing_in_any_member() {
    let mut stage = Stage::start(&ALL).await;
    stage.controller.take().unwrap().kill().await;
    stage.push("web:2");
    let late = before_its_pin(&stage.fleet).await;
    stage.fleet.lead(Arc::new(NoFailpoints));
    stage.rests("Completed", &ALL, "web:2").await;
    goes_on_when_it_is_gone(&stage.fleet, late, (&ROLLOUTS, "web"), (&DEPLOYMENTS, "web")).await;
}
