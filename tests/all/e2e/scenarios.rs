//! What is played: each scenario is one workload and what happens to it.

use cutover::api::Phase;
use cutover::sandbox::ledger::Origin;
use futures::future::LocalBoxFuture;
use serde_json::{Value, json};

use super::stage::{Act, is_terminal};

/// A name, which the workload has too, and what is played.
pub struct Scenario {
    pub name: &'static str,
    pub play: fn(Act) -> LocalBoxFuture<'static, ()>,
}

macro_rules! scenarios {
    ($($name:literal: $play:ident,)*) => {
        pub const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: $name,
            play: |act| Box::pin($play(act)),
        },)*];
    };
}

scenarios! {
    "plain-move": moves_with_its_state,
    "broken-image": an_image_that_cannot_start_goes_back,
    "abort": an_abort_gives_the_source_its_job_back,
    "start-first": a_deployment_runs_in_both_before_it_leaves_one,
    "pin-edited": a_pin_that_somebody_edits_is_put_right,
    "pin-deleted": a_pin_that_somebody_deletes_is_there_again,
    "late-scheduler": the_scheduler_overwrites_the_clusters_behind_a_backlog,
    "resumed": somebody_resumes_scheduling_in_the_middle,
    "no-dispatch": dispatching_is_suspended_before_and_in_the_middle,
    "killed": killed_in_every_phase_it_goes_on,
}

const IMAGE: &str = "registry.k8s.io/pause:3.9";
/// No registry has it, and the simulators can't pull it.
const BROKEN: &str = "registry.invalid/job:2.0.0-broken";

async fn moves_with_its_state(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    act.migrate(&there, json!({}));
    let status = act.ends(Phase::Completed).await;
    act.is_settled_in(&there).await;
    let handle = captured(&status, &here);
    assert_eq!(act.running().restored_from, Origin::Handle(handle));
}

async fn an_image_that_cannot_start_goes_back(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    let brief = json!({"verify": {"healthyFor": "1s", "timeout": "3s"}});
    act.commit(&[
        ("workload", &act.workload(BROKEN)),
        ("intent", &act.intent(&there, brief)),
    ]);
    let status = act.ends(Phase::RolledBack).await;
    // What Git wants is applied by the next commit; this one wants what runs.
    act.commit(&[("workload", &act.workload(IMAGE))]);
    act.is_settled_in(&here).await;
    assert_eq!(act.copy(&here).await.unwrap()["spec"]["image"], IMAGE);
    assert_eq!(
        act.running().restored_from,
        Origin::Handle(captured(&status, &here))
    );
}

async fn an_abort_gives_the_source_its_job_back(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    let gate = act.migrate_up_to(Phase::Handoff, &there, json!({})).await;
    assert_eq!(act.where_it_runs().await, [""; 0], "the source has stopped");
    act.change(&gate, json!({"abort": true}));
    let status = act.ends(Phase::Aborted).await;
    act.is_settled_in(&here).await;
    assert_eq!(
        act.running().restored_from,
        Origin::Handle(captured(&status, &here))
    );
}

async fn a_deployment_runs_in_both_before_it_leaves_one(act: Act) {
    let act = act.deployment();
    let [_, there] = act.runs(IMAGE).await;
    act.migrate(&there, json!({"strategy": "StartFirst"}));
    act.ends(Phase::Completed).await;
    act.is_settled_in(&there).await;
    assert_eq!(act.verdict().gaps, [], "at every moment one served");
}

async fn a_pin_that_somebody_edits_is_put_right(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    let gate = act.migrate_up_to(Phase::Expand, &there, json!({})).await;
    let before = act.pin().await.unwrap()["spec"]["overrideRules"].clone();
    let nothing = json!({"spec": {"overrideRules": []}});
    act.patch_pin(nothing).await.unwrap();
    act.until("the pin holds again", async |act| {
        let pin = act.pin().await.unwrap_or_default();
        let rules = pin["spec"]["overrideRules"].as_array().map_or(0, Vec::len);
        rules == before.as_array().unwrap().len()
    })
    .await;
    act.approve(&gate);
    act.ends(Phase::Completed).await;
    act.is_settled_in(&there).await;
}

async fn a_pin_that_somebody_deletes_is_there_again(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    let gate = act.migrate_up_to(Phase::Expand, &there, json!({})).await;
    let uid = act.pin().await.unwrap()["metadata"]["uid"].clone();
    let refused = act.delete_pin().await.unwrap_err().to_string();
    assert!(refused.contains("protected"), "{refused}");
    // Somebody who means it.
    let bare = json!({"metadata": {"finalizers": null, "labels": null}});
    act.patch_pin(bare).await.unwrap();
    act.delete_pin().await.unwrap();
    act.until("there is another pin", async |act| {
        let pin = act.pin().await;
        pin.is_some_and(|pin| pin["metadata"]["uid"] != uid)
    })
    .await;
    act.approve(&gate);
    act.ends(Phase::Completed).await;
    act.is_settled_in(&there).await;
}

/// Many bindings are on their way to the scheduler, and this one is among them once more when it is suspended.
async fn the_scheduler_overwrites_the_clusters_behind_a_backlog(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    backlog(&act, 60);
    let mut policy = act.policy();
    policy["spec"]["placement"]["clusterAffinity"]["clusterNames"]
        .as_array_mut()
        .unwrap()
        .reverse();
    act.commit(&[("policy", &policy), ("intent", &act.intent(&there, json!({})))]);
    act.ends(Phase::Completed).await;
    act.is_settled_in(&there).await;
}

/// Both clusters are listed, so that a scheduler that is let go on chooses one of them.
async fn somebody_resumes_scheduling_in_the_middle(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    let gate = act.migrate_up_to(Phase::Handoff, &there, json!({})).await;
    act.patch_binding(json!({"spec": {"suspension": null}})).await;
    act.until("it is suspended again, with both", async |act| {
        let binding = act.binding().await;
        let both = binding["spec"]["clusters"].as_array().map(Vec::len) == Some(2);
        binding["spec"]["suspension"]["scheduling"] == true && both
    })
    .await;
    act.approve(&gate);
    act.ends(Phase::Completed).await;
    act.is_settled_in(&there).await;
}

async fn dispatching_is_suspended_before_and_in_the_middle(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    act.patch_binding(json!({"spec": {"suspension": {"dispatching": true}}}))
        .await;
    act.migrate(&there, json!({}));
    let status = act.ends(Phase::Failed).await;
    assert_eq!(
        status["findings"][0]["code"], "DispatchingSuspended",
        "{status:#}"
    );
    assert_eq!(act.where_it_runs().await, [here]);
    assert_eq!(act.pin().await, None);

    act.patch_binding(json!({"spec": {"suspension": null}})).await;
    // Another spec is another attempt.
    let again = json!({"verify": {"healthyFor": "2s", "timeout": "60s"}});
    act.migrate(&there, again);
    act.until("the second attempt holds", async |act| {
        let status = act.status().await;
        status["attempt"] == 2 && status["phase"] == "Hold"
    })
    .await;
    act.patch_binding(json!({"spec": {"suspension": {"dispatching": true}}}))
        .await;
    act.until("it doesn't go on", async |act| {
        let status = act.status().await;
        assert!(!is_terminal(&status), "{status:#}");
        status["waitingFor"]["reason"].is_string()
    })
    .await;
    act.patch_binding(json!({"spec": {"suspension": {"dispatching": null}}}))
        .await;
    act.ends(Phase::Completed).await;
    act.is_settled_in(&there).await;
}

async fn killed_in_every_phase_it_goes_on(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    act.migrate(&there, json!({}));
    let phases = [Phase::Hold, Phase::Capture, Phase::Handoff, Phase::Cleanup];
    for wanted in phases {
        act.until(&format!("{wanted} or later"), async |act| {
            let phase: Option<Phase> = serde_json::from_value(act.status().await["phase"].clone()).ok();
            phase.is_some_and(|phase| phase >= wanted)
        })
        .await;
        act.stage.kill();
        act.stage.start();
    }
    act.ends(Phase::Completed).await;
    act.is_settled_in(&there).await;
}

fn captured(status: &Value, from: &str) -> String {
    let captured = &status["journal"]["captured"];
    assert_eq!(captured["from"], from, "{status:#}");
    captured["values"]["savepoint"].as_str().unwrap().to_owned()
}

/// Commits so many `ConfigMap`s, each of which is a binding.
fn backlog(act: &Act, count: usize) {
    let namespace = &act.place().namespace;
    let members: Vec<_> = act.place().members.keys().collect();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "backlog", "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"backlog": "yes"}}}],
            "placement": {"clusterAffinity": {"clusterNames": members}},
        },
    });
    let maps: Vec<Value> = (0..count)
        .map(|number| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("backlog-{number}"), "namespace": namespace, "labels": {"backlog": "yes"}},
            })
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": maps});
    act.commit(&[("backlog-policy", &policy), ("backlog", &list)]);
}
