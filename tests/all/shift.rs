//! Shifts of replicas in the sandbox: the ready ones never become fewer than the floor, whatever goes wrong.

mod crash;
mod fence;
mod rebind;
mod stage;
mod stops;

use std::sync::Arc;
use std::time::Duration;

use cutover::name::Gvk;
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::api::{DeleteOptions, Resource};
use serde_json::{Value, json};

use crate::support::fleet::{BINDINGS, CLAIMS, PINS, POLICIES};
use stage::{DEPLOYMENTS, SHIFTS, Stage, divided, duplicated};

const SUSPENSIONS: Resource = Resource::new("cutover.dev", "suspensions");
const PROFILES: Resource = Resource::new("cutover.dev", "workloadprofiles");
const HPAS: Resource = Resource::new("autoscaling", "horizontalpodautoscalers");

/// Policy [east], shifted to west, which Git's policy names alone in the end.
#[tokio::test(start_paused = true)]
async fn replicas_go_step_by_step_and_the_floor_holds() {
    let stage = Stage::start(&duplicated(&["east"]), 4).await;
    let floor = stage.watch_floor(4);
    stage.shift("go", json!({}));
    stage.is("go", "Shifted").await;
    assert_eq!(stage.replicas(), [("east", 0), ("west", 4)]);
    let status = stage.status("go");
    assert_eq!(status["moved"], "4/4");
    assert_eq!((&status["floor"], &status["lowest"]), (&json!(4), &json!(4)));
    let steps: Vec<&str> = status["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["name"].as_str().unwrap())
        .filter(|name| name.starts_with("Shifting "))
        .collect();
    assert_eq!(
        steps,
        [
            "Shifting 1 of 4",
            "Shifting 2 of 4",
            "Shifting 3 of 4",
            "Shifting 4 of 4"
        ]
    );
    stage
        .until("it says what it waits for", || {
            let status = stage.status("go");
            let reason = status["waitingFor"]["reason"].as_str().unwrap_or_default();
            reason.starts_with("the pin stays")
        })
        .await;

    // Nothing happens by itself; then the policy says what the pin says.
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(stage.status("go")["phase"], "Shifted");
    stage.fleet.apply(&POLICIES, duplicated(&["west"]));
    stage.is("go", "Completed").await;
    stage.settled(&[("west", 4)]).await;
    stage.assert_clean();
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn what_is_divided_goes_over_and_stays_when_the_policy_says_so() {
    let stage = Stage::start(&divided(&["east"]), 5).await;
    let floor = stage.watch_floor(5);
    stage.shift("go", json!({"percentages": [10, 50, 100]}));
    stage.is("go", "Shifted").await;
    assert_eq!(stage.replicas(), [("east", 0), ("west", 5)]);
    stage.fleet.apply(&POLICIES, divided(&["west"]));
    stage.is("go", "Completed").await;
    stage.settled(&[("west", 5)]).await;
    stage.assert_clean();
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn replicas_that_are_divided_by_weights_go_over_too() {
    let weighed = |names: &[&str]| {
        let mut policy = divided(&["east", "west", "north"]);
        let weights: Vec<Value> = names
            .iter()
            .map(|name| json!({"targetCluster": {"clusterNames": [name]}, "weight": 1}))
            .collect();
        policy["spec"]["placement"]["replicaScheduling"] = json!({
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList": weights},
        });
        policy
    };
    let stage = Stage::start(&weighed(&["east", "north"]), 6).await;
    assert_eq!(stage.replicas(), [("east", 3), ("north", 3)]);
    let floor = stage.watch_floor(6);
    stage.shift("go", json!({"step": 2}));
    stage.is("go", "Shifted").await;
    assert_eq!(stage.replicas(), [("east", 0), ("north", 3), ("west", 3)]);
    // Brought back, it is as it was, and the scheduler has nothing to say.
    stage.shift("go", json!({"step": 2, "abort": true}));
    stage.is("go", "Aborted").await;
    stage.settled(&[("east", 3), ("north", 3)]).await;
    stage.assert_clean();
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn replicas_that_are_slow_to_start_are_waited_for() {
    let stage = Stage::start_slowly(&duplicated(&["east"]), 3, Duration::from_secs(6)).await;
    let floor = stage.watch_floor(3);
    stage.shift("go", json!({}));
    stage
        .until("it says what it waits for", || {
            let status = stage.status("go");
            let reason = status["waitingFor"]["reason"].as_str().unwrap_or_default();
            reason == "west: 0 of 1 replicas are ready"
        })
        .await;
    assert_eq!(stage.replicas(), [("east", 3), ("west", 1)]);
    stage.is("go", "Shifted").await;
    assert_eq!(stage.replicas(), [("east", 0), ("west", 3)]);
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn a_target_that_does_not_become_ready_brings_everything_back() {
    let stage = Stage::start(&duplicated(&["east"]), 3).await;
    stage.break_image_in("west");
    let floor = stage.watch_floor(3);
    stage.shift("go", json!({"timeout": "30s"}));
    stage.is("go", "RolledBack").await;
    let reason = stage.status("go")["journal"]["back"]["reason"].clone();
    assert_eq!(
        reason,
        "the step to 1 of 3 took too long: west: 0 of 1 replicas are ready"
    );
    stage.settled(&[("east", 3)]).await;
    stage.assert_clean();
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn a_failure_in_the_middle_is_held_on_request_until_a_person_aborts() {
    let stage = Stage::start(&duplicated(&["east"]), 4).await;
    let floor = stage.watch_floor(4);
    let asked = json!({"timeout": "30s", "onFailure": "Hold", "pause": {"approval": [50]}});
    stage.shift("go", asked.clone());
    stage.waits_for("go", "approval of 50% for attempt 1").await;
    assert_eq!(stage.replicas(), [("east", 2), ("west", 2)]);
    stage.break_image_in("west");
    let mut approved = asked.clone();
    approved["approvals"] = json!([{"percent": 50, "attempt": 1}]);
    stage.shift("go", approved.clone());
    tokio::time::sleep(Duration::from_mins(4)).await;
    let status = stage.status("go");
    assert_eq!(status["phase"], "Shifting");
    let warning = status["waitingFor"]["lastWarning"].as_str().unwrap_or_default();
    assert!(
        warning.starts_with("west: Pod ") && warning.contains("the registry has no such image"),
        "{status:#}"
    );
    approved["abort"] = json!(true);
    stage.shift("go", approved);
    stage.is("go", "Aborted").await;
    stage.settled(&[("east", 4)]).await;
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn abort_in_the_middle_brings_everything_back_without_a_gap() {
    let stage = Stage::start(&duplicated(&["east"]), 4).await;
    let floor = stage.watch_floor(4);
    stage.shift("go", json!({"pause": {"approval": [50]}}));
    stage.waits_for("go", "approval of 50% for attempt 1").await;
    stage.delete(&SHIFTS, "go");
    stage
        .until("the intent is gone", || stage.status("go").is_null())
        .await;
    stage.settled(&[("east", 4)]).await;
    stage.assert_clean();
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn it_pauses_after_every_step_and_on_request() {
    let stage = Stage::start(&duplicated(&["east"]), 3).await;
    stage.shift("go", json!({"pause": {"each": "2m"}}));
    stage.waits_for("go", "pauses after 1 of 3").await;
    let began = stage.fleet.world.clock().now();
    stage
        .until("the next step has been made", || {
            stage.status("go")["moved"] == "2/3"
        })
        .await;
    let pause = stage.fleet.world.clock().now().duration_since(began);
    assert!(pause.as_secs() >= 110, "{pause}");
    stage.shift("go", json!({"pause": {"each": "2m"}, "paused": true}));
    stage.waits_for("go", "paused by the spec").await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(stage.status("go")["moved"], "2/3");
    stage.shift("go", json!({"pause": {"each": "2m"}}));
    stage.is("go", "Shifted").await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_be_reached_takes_nothing_away() {
    for lost in ["east", "west"] {
        let stage = Stage::start(&duplicated(&["east"]), 4).await;
        let floor = stage.watch_floor(4);
        stage.shift("go", json!({"pause": {"approval": [50]}, "timeout": "2m"}));
        stage.waits_for("go", "approval of 50% for attempt 1").await;
        stage.fleet.world.faults().partition(lost);
        let approvals = json!([{"percent": 50, "attempt": 1}]);
        stage.shift(
            "go",
            json!({"pause": {"approval": [50]}, "timeout": "2m", "approvals": approvals}),
        );
        tokio::time::sleep(Duration::from_mins(4)).await;
        let status = stage.status("go");
        assert_eq!(status["phase"], "RollingBack", "{lost}: {status:#}");
        floor.held();
        stage.fleet.world.faults().heal(lost);
        stage.is("go", "RolledBack").await;
        stage.settled(&[("east", 4)]).await;
        stage.assert_clean();
        floor.held();
    }
}

#[tokio::test(start_paused = true)]
async fn fewer_are_ready_than_the_floor_and_nothing_is_taken_away() {
    let stage = Stage::start(&duplicated(&["east", "north"]), 4).await;
    stage.shift("go", json!({"pause": {"approval": [25]}, "timeout": "1h"}));
    stage.waits_for("go", "approval of 25% for attempt 1").await;
    // What is lost in a third cluster counts as well.
    stage.break_image_in("north");
    stage
        .until("north has lost some", || stage.ready_in("north") < 4)
        .await;
    let approvals = json!([{"percent": 25, "attempt": 1}]);
    stage.shift(
        "go",
        json!({"pause": {"approval": [25]}, "timeout": "1h", "approvals": approvals}),
    );
    stage
        .until("it says why it takes nothing away", || {
            let status = stage.status("go");
            let reason = status["waitingFor"]["reason"].as_str().unwrap_or_default();
            reason.starts_with("only ")
        })
        .await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    assert_eq!(stage.replicas(), [("east", 3), ("north", 4), ("west", 2)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_afterwards_is_suspended_and_stays_so() {
    let both = duplicated(&["east", "west"]);
    let stage = Stage::start(&duplicated(&["east"]), 3).await;
    let floor = stage.watch_floor(3);
    stage.shift("go", json!({"then": {"suspend": ["east"]}}));
    stage.is("go", "Shifted").await;
    let suspension = stage.get(&SUSPENSIONS, "go-suspends");
    assert_eq!(suspension["status"]["phase"], "Suspended", "{suspension:#}");
    stage.fleet.apply(&POLICIES, both);
    stage.is("go", "Completed").await;
    stage.settled(&[("east", 0), ("west", 3)]).await;
    assert_eq!((stage.fleet.count(&PINS), stage.fleet.count(&CLAIMS)), (0, 0));
    // What is changed doesn't reach the old side; when it is resumed by a person, it does.
    stage.fleet.apply(&DEPLOYMENTS, stage::web(5));
    stage.settled(&[("east", 0), ("west", 5)]).await;
    stage.delete(&SUSPENSIONS, "go-suspends");
    stage.settled(&[("east", 5), ("west", 5)]).await;
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn a_shift_that_has_gone_is_brought_back_with_its_suspension() {
    let stage = Stage::start(&duplicated(&["east"]), 3).await;
    let floor = stage.watch_floor(3);
    stage.shift("go", json!({"then": {"suspend": ["east"]}}));
    stage.is("go", "Shifted").await;
    stage.shift("go", json!({"then": {"suspend": ["east"]}, "abort": true}));
    stage.is("go", "Aborted").await;
    stage.settled(&[("east", 3)]).await;
    stage.assert_clean();
    assert!(stage.get(&SUSPENSIONS, "go-suspends").is_null());
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn while_it_rests_the_target_follows_the_template() {
    let stage = Stage::start(&duplicated(&["east"]), 3).await;
    stage.shift("go", json!({}));
    stage.is("go", "Shifted").await;
    stage.fleet.apply(&DEPLOYMENTS, stage::web(5));
    stage.settled(&[("east", 0), ("west", 5)]).await;
    stage.fleet.apply(&DEPLOYMENTS, stage::web(2));
    stage.settled(&[("east", 0), ("west", 2)]).await;
    stage.shift("go", json!({"abort": true}));
    stage.is("go", "Aborted").await;
    stage.settled(&[("east", 2)]).await;
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn the_template_itself_gives_its_replicas_away() {
    let stage = Stage::start_on_control_plane(&duplicated(&["west"]), 3).await;
    // West is there already, with none.
    assert_eq!((stage.ready_here(), stage.ready_in("west")), (3, 0));
    let floor = stage.watch_floor(3);
    let from = json!({"from": {"controlPlane": true}});
    stage.shift("go", from.clone());
    stage.is("go", "Shifted").await;
    assert_eq!((stage.ready_here(), stage.ready_in("west")), (0, 3));
    assert_eq!(stage.get(&DEPLOYMENTS, "web")["spec"]["replicas"], 0);
    // Brought back, the template has them again.
    stage.shift("go", json!({"from": {"controlPlane": true}, "abort": true}));
    stage.is("go", "Aborted").await;
    stage
        .until("they are back", || {
            (stage.ready_here(), stage.ready_in("west")) == (3, 0)
        })
        .await;
    stage.assert_clean();
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn a_template_that_gave_its_replicas_away_needs_the_policies_to_say_so() {
    let stage = Stage::start_on_control_plane(&duplicated(&["west"]), 2).await;
    stage.shift("go", json!({"from": {"controlPlane": true}}));
    stage.is("go", "Shifted").await;
    stage.override_replicas("west", 2);
    stage.is("go", "Completed").await;
    stage
        .until("they stay", || {
            (stage.ready_here(), stage.ready_in("west")) == (0, 2)
        })
        .await;
    stage.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_template_that_another_tool_applies_is_not_emptied_before_that_one_is_held() {
    let stage = Stage::start_on_control_plane(&duplicated(&["west"]), 2).await;
    let server = stage.fleet.world.control_plane();
    let patch = |annotation: Value| {
        let labels = json!({
            "kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
        });
        let metadata = json!({"metadata": {"labels": labels, "annotations": annotation}});
        stage.fleet.patch(&DEPLOYMENTS, "web", metadata);
    };
    patch(json!({}));
    stage.shift("go", json!({"from": {"controlPlane": true}}));
    stage
        .until("it waits", || {
            let reason = stage.status("go")["waitingFor"]["reason"].clone();
            let reason = reason.as_str().unwrap_or_default();
            reason.starts_with(
                "the replicas of the template would be put back: Flux (Kustomization flux-system/apps)",
            )
        })
        .await;
    let template = server.get(&DEPLOYMENTS, Some("shop"), "web").unwrap();
    assert_eq!(template["spec"]["replicas"], 2);
    patch(json!({"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}));
    stage.is("go", "Shifted").await;
    assert_eq!((stage.ready_here(), stage.ready_in("west")), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn what_would_undo_the_shift_is_refused_with_the_reason() {
    let stage = Stage::start(&duplicated(&["east"]), 2).await;
    let refused = async |what: Value, code: &str| {
        stage.shift("go", what);
        stage.is("go", "Failed").await;
        let status = stage.status("go");
        assert_eq!(status["findings"][0]["code"], code, "{status:#}");
        stage.assert_clean();
        stage.delete(&SHIFTS, "go");
        stage.until("it is gone", || stage.status("go").is_null()).await;
    };
    refused(json!({"to": "east"}), "SameCluster").await;
    refused(json!({"to": "nowhere"}), "UnknownCluster").await;
    refused(json!({"from": {"cluster": "north"}}), "NotThere").await;
    refused(json!({"floor": "3"}), "FloorTooHigh").await;
    refused(json!({"percentages": [50, 20]}), "PercentagesNotAscending").await;
    refused(json!({"then": {"suspend": ["west"]}}), "SuspendsAnother").await;

    let scaler = hpa();
    stage.fleet.apply(&HPAS, scaler.clone());
    refused(json!({}), "Autoscaled").await;
    stage.delete(&HPAS, "web");
    stage.create_in("east", &HPAS, scaler);
    refused(json!({}), "Autoscaled").await;
    stage.delete_in("east", &HPAS, "web");

    let mut retains = stage::web(2);
    retains["metadata"]["labels"] = json!({"resourcetemplate.karmada.io/retain-replicas": "true"});
    stage.fleet.apply(&DEPLOYMENTS, retains);
    refused(json!({}), "RetainReplicas").await;
    stage.fleet.apply(&DEPLOYMENTS, stage::web(2));

    let mut failover = duplicated(&["east"]);
    failover["spec"]["propagateDeps"] = json!(true);
    failover["spec"]["failover"] =
        json!({"application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly"}});
    stage.fleet.apply(&POLICIES, failover);
    stage
        .until("the binding has it", || {
            !stage.get(&BINDINGS, "web-deployment")["spec"]["failover"].is_null()
        })
        .await;
    refused(json!({}), "FailoverOn").await;
}

/// One of them is there twice, as after a change of its name: it begins when the other one has gone.
#[tokio::test(start_paused = true)]
async fn a_workload_that_several_profiles_are_for_is_left_alone_until_one_is() {
    let stage = Stage::start(&duplicated(&["east"]), 2).await;
    let gvk = Gvk::new("apps/v1", "Deployment");
    let built_in = cutover::profile::find(&[], None, &gvk).unwrap().unwrap();
    for name in ["a", "b"] {
        let mut own = built_in.clone();
        own.metadata.name = Some(name.to_owned());
        stage.fleet.apply(&PROFILES, serde_json::to_value(own).unwrap());
    }
    stage.shift("go", json!({}));
    let reason = format!("several WorkloadProfiles are for {gvk}: a, b");
    stage.waits_for("go", &reason).await;
    assert_eq!(stage.status("go")["phase"], "Preflight");
    let server = stage.fleet.world.control_plane();
    server
        .delete(&PROFILES, None, "a", &DeleteOptions::default())
        .unwrap();
    stage.is("go", "Shifted").await;
    assert_eq!(stage.replicas(), [("east", 0), ("west", 2)]);
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_that_comes_in_the_middle_holds_it_until_it_is_gone() {
    let stage = Stage::start(&duplicated(&["east"]), 4).await;
    let floor = stage.watch_floor(4);
    stage.shift("go", json!({"pause": {"approval": [50]}}));
    stage.waits_for("go", "approval of 50% for attempt 1").await;
    stage.create_in("west", &HPAS, hpa());
    let approvals = json!([{"percent": 50, "attempt": 1}]);
    let approved = json!({"pause": {"approval": [50]}, "approvals": approvals});
    let reason = "HorizontalPodAutoscaler web in west to be removed: it sets the replicas of the workload, and the shift moves none meanwhile";
    stage.waits_for("go", reason).await;
    stage.shift("go", approved);
    tokio::time::sleep(Duration::from_mins(2)).await;
    let status = stage.status("go");
    assert_eq!(status["findings"][0]["code"], "Autoscaled", "{status:#}");
    assert_eq!(stage.replicas(), [("east", 2), ("west", 2)]);
    stage.delete_in("west", &HPAS, "web");
    stage.is("go", "Shifted").await;
    assert_eq!(stage.replicas(), [("east", 0), ("west", 4)]);
    assert!(stage.status("go")["findings"].is_null());
    floor.held();
}

fn hpa() -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"maxReplicas": 9, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    })
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_somebody_removes_comes_back_and_takes_away_only_what_it_may() {
    let stage = Stage::start(&duplicated(&["east"]), 4).await;
    let floor = stage.watch_floor(4);
    stage.shift("go", json!({"pause": {"approval": [50]}}));
    stage.waits_for("go", "approval of 50% for attempt 1").await;
    stage.tear_pin_off();
    stage
        .until("it is there again", || {
            stage.replicas() == [("east", 2), ("west", 2)] && stage.fleet.count(&PINS) == 1
        })
        .await;
    let approvals = json!([{"percent": 50, "attempt": 1}]);
    stage.shift("go", json!({"pause": {"approval": [50]}, "approvals": approvals}));
    stage.is("go", "Shifted").await;
    floor.held();
}

#[tokio::test(start_paused = true)]
async fn of_two_intents_on_one_workload_the_second_waits() {
    let stage = Stage::start(&duplicated(&["east"]), 2).await;
    stage.shift("go", json!({"pause": {"approval": [50]}}));
    stage.waits_for("go", "approval of 50% for attempt 1").await;
    stage.shift("too", json!({"to": "north"}));
    stage
        .waits_for("too", "ReplicaShift shop/go holds the workload")
        .await;
}

#[tokio::test(start_paused = true)]
async fn another_reconciler_goes_on_where_one_was_killed() {
    let mut stage = Stage::start(&duplicated(&["east"]), 3).await;
    let floor = stage.watch_floor(3);
    stage.shift("go", json!({"pause": {"approval": [34]}}));
    stage.waits_for("go", "approval of 34% for attempt 1").await;
    stage.replace_controller(Arc::new(NoFailpoints)).await;
    let approvals = json!([{"percent": 34, "attempt": 1}]);
    stage.shift("go", json!({"pause": {"approval": [34]}, "approvals": approvals}));
    stage.is("go", "Shifted").await;
    assert_eq!(stage.replicas(), [("east", 0), ("west", 3)]);
    floor.held();
}
