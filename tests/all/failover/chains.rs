//! One failover after the other, each from a state of its own; and those that a person asks for.

use cutover::api::FailoverPhase;
use serde_json::json;

use super::modes::moved_from;
use super::stage::{
    fleet, guarded_in, known, last_move, one_writer, phase_is, plan, savepoint, started_from, status, tidy,
    until, unwell,
};

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
