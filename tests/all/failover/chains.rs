//! One failover after the other, each from a state of its own; and those that a person asks for.

use cutover::api::FailoverPhase;
use serde_json::json;

use super::modes::moved_from;
use super::stage::{
    fleet, guarded_in, known, last_move, lose, one_writer, phase_is, plan, power_off, power_on, purge_mode,
    savepoint, started_from, status, tidy, untaint, until, unwell,
};
use crate::support::fleet::Fleet;

#[tokio::test(start_paused = true)]
async fn each_of_three_clusters_goes_on_from_the_state_of_the_one_before() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    let mut at = "east".to_owned();
    let mut handles = Vec::new();
    for _ in 0..3 {
        guarded_in(&fleet, &at).await;
        let handle = savepoint(&fleet, &at).await;
        assert!(!handles.contains(&handle));
        known(&fleet, &handle).await;
        unwell(&fleet, &at);
        let to = moved_from(&fleet, &at).await;
        assert_eq!(started_from(&fleet, &to), handle);
        handles.push(handle);
        at = to;
    }
    let history = status(&fleet)["history"].as_array().cloned().unwrap();
    let states: Vec<_> = history
        .iter()
        .map(|done| done["state"]["values"]["savepoint"].clone())
        .collect();
    assert_eq!(states, handles);
    for pair in history.windows(2) {
        assert_eq!(pair[0]["to"], pair[1]["from"]);
    }
    one_writer(&fleet);
    tidy(&fleet, &at).await;
}

#[tokio::test(start_paused = true)]
async fn a_person_can_decide_that_it_fails_over_now_once() {
    let fleet = fleet().await;
    plan(&fleet, json!({}));
    guarded_in(&fleet, "east").await;
    let request = json!({"attempt": 1, "to": "north", "reason": "the disks are dying", "by": "ann"});
    plan(&fleet, json!({"request": request}));
    assert_eq!(moved_from(&fleet, "east").await, "north");
    let done = last_move(&fleet);
    assert_eq!(
        (&done["by"], &done["reason"]),
        (&json!("ann"), &json!("the disks are dying"))
    );
    assert_eq!(done["state"]["source"], "Captured", "it was well: {done:#}");
    tokio::time::sleep(std::time::Duration::from_mins(5)).await;
    assert_eq!(status(&fleet)["attempt"], 1);
    one_writer(&fleet);
    tidy(&fleet, "north").await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_met_is_refused_and_says_why() {
    let fleet = fleet().await;
    plan(
        &fleet,
        json!({"request": {"attempt": 1, "to": "nowhere", "reason": "a test"}}),
    );
    until(&fleet, "it is refused", |fleet| {
        status(fleet)["findings"]
            .to_string()
            .contains("no cluster nowhere is joined")
    })
    .await;
    assert!(phase_is(&fleet, FailoverPhase::Guarding) && fleet.runs_in("east"));
    one_writer(&fleet);
}

/// A guarded job in east with a known state, whose cluster is lost; returns its state and where it is to go.
async fn on_its_way(spec: serde_json::Value) -> (Fleet, String, String) {
    let fleet = fleet().await;
    purge_mode(&fleet, "Gracefully");
    plan(&fleet, spec);
    guarded_in(&fleet, "east").await;
    let handle = savepoint(&fleet, "east").await;
    known(&fleet, &handle).await;
    lose(&fleet, "east");
    until(&fleet, "another cluster is chosen", |fleet| {
        phase_is(fleet, FailoverPhase::Fencing)
    })
    .await;
    let to = status(&fleet)["journal"]["flight"]["to"]
        .as_str()
        .unwrap()
        .to_owned();
    (fleet, handle, to)
}

fn third(to: &str) -> &'static str {
    if to == "west" { "north" } else { "west" }
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_lost_before_it_has_the_token_never_gets_it_and_another_one_does() {
    let (fleet, handle, to) = on_its_way(json!({})).await;
    fleet.world.faults().partition(&to);
    power_off(&fleet, &to);
    fleet.world.faults().heal("east");
    until(&fleet, "it is told", |fleet| {
        status(fleet)["findings"].to_string().contains("TargetLost")
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_mins(20)).await;
    assert!(phase_is(&fleet, FailoverPhase::Fencing));
    let there = third(&to);
    plan(
        &fleet,
        json!({"request": {"attempt": 2, "to": there, "reason": "it is lost, too", "by": "ann"}}),
    );
    until(&fleet, "it runs there", |fleet| {
        phase_is(fleet, FailoverPhase::Guarding) && status(fleet)["writer"] == there && fleet.runs_in(there)
    })
    .await;
    assert_eq!(started_from(&fleet, there), handle);
    let done = last_move(&fleet);
    assert_eq!(
        (&done["from"], &done["to"], &done["by"]),
        (&json!("east"), &json!(there), &json!("ann"))
    );
    assert!(
        done["reason"]
            .as_str()
            .unwrap()
            .contains(&format!("sent on from {to}")),
        "{done:#}"
    );
    one_writer(&fleet);
    fleet.world.faults().heal(&to);
    power_on(&fleet, &to);
    until(&fleet, "its copy is gone", |fleet| {
        fleet.copy(&to).is_none() && status(fleet)["oldCopies"].is_null()
    })
    .await;
    untaint(&fleet, "east");
    one_writer(&fleet);
    tidy(&fleet, there).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_lost_with_the_token_is_fenced_like_any_other_before_the_next_one_goes_on() {
    let by_approval = json!({"proceedAfter": "5m", "fencedBy": "Approval"});
    let (fleet, handle, to) = on_its_way(json!({"sourceUnreachable": by_approval})).await;
    // It is reachable, and doesn't start.
    fleet
        .world
        .member(&to)
        .simulators(|simulators| simulators.freeze());
    fleet.world.faults().heal("east");
    until(&fleet, "it has the token", |fleet| {
        phase_is(fleet, FailoverPhase::Releasing)
    })
    .await;
    fleet.world.faults().partition(&to);
    power_off(&fleet, &to);
    let there = third(&to);
    let mut spec = json!({
        "sourceUnreachable": by_approval,
        "request": {"attempt": 2, "to": there, "reason": "it is lost, too", "by": "ann"},
    });
    plan(&fleet, spec.clone());
    let question = json!([{"gate": "Fenced", "cluster": to, "attempt": 2}]);
    until(&fleet, "a person is asked", |fleet| {
        status(fleet)["asks"] == question
    })
    .await;
    one_writer(&fleet);
    spec["approvals"] = json!([{"gate": "Fenced", "cluster": to, "attempt": 2, "by": "bob"}]);
    plan(&fleet, spec);
    until(&fleet, "it runs there", |fleet| {
        phase_is(fleet, FailoverPhase::Guarding) && status(fleet)["writer"] == there && fleet.runs_in(there)
    })
    .await;
    assert_eq!(started_from(&fleet, there), handle);
    let history = status(&fleet)["history"].as_array().cloned().unwrap();
    let legs: Vec<_> = history
        .iter()
        .map(|done| (done["from"].clone(), done["to"].clone()))
        .collect();
    assert_eq!(legs, [(json!("east"), json!(to)), (json!(to), json!(there))]);
    one_writer(&fleet);
    fleet.world.faults().heal(&to);
    fleet.world.member(&to).simulators(|simulators| simulators.thaw());
    power_on(&fleet, &to);
    until(&fleet, "the old copies are gone", |fleet| {
        fleet.copy(&to).is_none() && fleet.copy("east").is_none() && status(fleet)["oldCopies"].is_null()
    })
    .await;
    untaint(&fleet, "east");
    one_writer(&fleet);
    tidy(&fleet, there).await;
}
