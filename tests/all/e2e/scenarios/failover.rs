//! Failover plans: Karmada evicts a job that is unwell, and what runs elsewhere afterwards is one copy with its state.

use cutover::sandbox::ledger::Origin;
use serde_json::{Value, json};

use super::{DEAD_ENDS, IMAGE};
use crate::e2e::act::Act;
use crate::e2e::place::say;

pub async fn karmada_evicts_a_guarded_job_which_goes_on_with_its_state(act: Act) {
    let [here, _] = act.runs(IMAGE).await;
    let handle = guarded_with_a_savepoint(&act, &here).await;
    tolerate_briefly(&act, "Directly");
    answers(&act, &here, false);
    let there = goes_on_elsewhere(&act, &here).await;
    let done = last_of_history(&act.status().await);
    assert_eq!((&done["from"], &done["to"]), (&json!(here), &json!(there)));
    assert_eq!(done["state"]["source"], "LastKnown", "{done:#}");
    assert_eq!(act.running().restored_from, Origin::Handle(handle));
    act.withdraw().await;
    act.is_settled_in(&there).await;
}

/// The cluster that is to take it is cut off before it has been let run; a person names another one.
pub async fn a_failover_whose_target_is_lost_is_sent_on(act: Act) {
    let [here, _] = act.runs(IMAGE).await;
    let others: Vec<_> = act
        .members()
        .into_iter()
        .filter(|name| *name != here)
        .map(str::to_owned)
        .collect();
    let [lost, there] = others.as_slice() else {
        say("       sent-on needs three members: left out");
        act.is_settled_in(&here).await;
        return;
    };
    let handle = guarded_with_a_savepoint(&act, &here).await;
    act.place().cut_off(&here).await;
    fail_over(&act, lost, "its disks are dying");
    act.until("the chosen cluster has its copy, held", async |act| {
        let held = act.copy(lost).await.unwrap_or_default();
        act.status().await["phase"] == "Fencing" && held["spec"]["job"]["state"] == "suspended"
    })
    .await;
    act.place().cut_off(lost).await;
    act.place().reconnect(&here).await;
    act.until("it is told that the target is lost", async |act| {
        act.status().await["findings"].to_string().contains("TargetLost")
    })
    .await;
    assert_eq!(act.where_it_runs().await, [""; 0], "nobody runs it");
    fail_over(&act, there, "that one is lost, too");
    act.until("it goes on there", async |act| {
        let status = act.status().await;
        let guards = status["phase"] == "Guarding" && status["writer"] == **there;
        guards && act.where_it_runs().await == [there.as_str()]
    })
    .await;
    let done = last_of_history(&act.status().await);
    assert_eq!((&done["from"], &done["to"]), (&json!(here), &json!(there)));
    assert!(
        done["reason"]
            .to_string()
            .contains(&format!("sent on from {lost}")),
        "{done:#}"
    );
    assert_eq!(act.running().restored_from, Origin::Handle(handle));

    act.place().reconnect(lost).await;
    act.until("what was held in the lost cluster is gone", async |act| {
        act.copy(lost).await.is_none() && act.status().await["oldCopies"].is_null()
    })
    .await;
    act.withdraw().await;
    act.is_settled_in(there).await;
}

/// A person decides.
fn fail_over(act: &Act, to: &str, reason: &str) {
    let workload = format!("FlinkDeployment/{}", act.name);
    act.stage.cutover(&[
        "failover", &workload, "--to", to, "--reason", reason, "--by", "e2e", "--push",
    ]);
}

pub async fn an_old_copy_that_is_kept_goes_when_a_person_says_so(act: Act) {
    let [here, _] = act.runs(IMAGE).await;
    guard(&act, &json!({"purge": {"confirm": true}}), &here).await;
    tolerate_briefly(&act, "Never");
    answers(&act, &here, false);
    act.comes_to("Evicted", DEAD_ENDS).await;
    answers(&act, &here, true);
    let there = goes_on_elsewhere(&act, &here).await;
    act.until("a person is asked", async |act| {
        act.status().await["asks"] == json!([{"gate": "Purge", "cluster": here, "attempt": 1}])
    })
    .await;
    let kept = act.copy(&here).await.expect("the old copy is kept");
    assert_eq!(kept["spec"]["job"]["state"], "suspended", "it is held");
    assert_eq!(tasks(&act).await[0]["suppressDeletion"], true);
    let state = last_of_history(&act.status().await)["state"].clone();
    assert_eq!(state["source"], "Captured", "it was stopped: {state:#}");
    let handle = state["values"]["savepoint"].as_str().unwrap().to_owned();
    assert_eq!(act.running().restored_from, Origin::Handle(handle));

    act.stage
        .cutover(&["approve", act.name, "--gate", "Purge", "--by", "e2e", "--push"]);
    act.until("the old copy is gone", async |act| {
        let asks_nothing = act.status().await["asks"].is_null();
        asks_nothing && act.copy(&here).await.is_none() && tasks(act).await.is_empty()
    })
    .await;
    act.withdraw().await;
    act.is_settled_in(&there).await;
}

/// Puts the plan up, and returns the savepoint of which the plan knows by then.
async fn guarded_with_a_savepoint(act: &Act, here: &str) -> String {
    guard(act, &json!({}), here).await;
    let handle = take_savepoint(act, here).await;
    act.until("the plan knows the savepoint, and Git has it", async |act| {
        let known = &act.status().await["lastKnown"];
        known["values"]["savepoint"] == *handle && known["recorded"] == true
    })
    .await;
    handle
}

/// Puts the plan up.
async fn guard(act: &Act, more: &Value, here: &str) {
    let mut spec = json!({"workload": act.about()});
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    act.ask(&spec);
    let status = act.comes_to("Guarding", DEAD_ENDS).await;
    assert_eq!(status["writer"], here);
}

/// The job is stopped with a savepoint and started again, by its template; returns the handle.
async fn take_savepoint(act: &Act, here: &str) -> String {
    let mut stopped = act.workload(IMAGE);
    stopped["spec"]["job"]["state"] = json!("suspended");
    act.commit(&[("workload", &stopped)]);
    let mut handle = None;
    act.until("it is stopped with a savepoint", async |act| {
        let copy = act.copy(here).await.unwrap_or_default();
        let last = copy.pointer("/status/jobStatus/savepointInfo/lastSavepoint/location");
        handle = last.and_then(Value::as_str).map(str::to_owned);
        handle.is_some() && act.where_it_runs().await.is_empty()
    })
    .await;
    act.commit(&[("workload", &act.workload(IMAGE))]);
    act.until("it runs again", async |act| act.where_it_runs().await == [here])
        .await;
    handle.unwrap()
}

/// Karmada waits no longer than that before it evicts. Only now: a job that starts is unwell, too.
fn tolerate_briefly(act: &Act, purge_mode: &str) {
    let mut policy = act.policy();
    policy["spec"]["failover"]["application"] = json!({
        "decisionConditions": {"tolerationSeconds": 2}, "purgeMode": purge_mode,
    });
    act.commit(&[("policy", &policy)]);
}

/// A job whose REST API doesn't answer is one that Karmada takes for unhealthy.
fn answers(act: &Act, cluster: &str, reachable: bool) {
    let key = (act.namespace().to_owned(), act.name.to_owned());
    let jobs = act.place().members[cluster].simulators.jobs();
    jobs.set_reachable(&key, reachable);
}

/// Waits until the plan guards it in another cluster, which is returned.
async fn goes_on_elsewhere(act: &Act, here: &str) -> String {
    let mut writer = String::new();
    act.until("it goes on elsewhere", async |act| {
        let status = act.status().await;
        status["writer"].as_str().unwrap_or(here).clone_into(&mut writer);
        status["phase"] == "Guarding" && writer != here && act.where_it_runs().await == [writer.as_str()]
    })
    .await;
    writer
}

fn last_of_history(status: &Value) -> Value {
    let history = status["history"].as_array().cloned().unwrap_or_default();
    history.last().cloned().unwrap_or_default()
}

async fn tasks(act: &Act) -> Vec<Value> {
    let tasks = &act.binding().await["spec"]["gracefulEvictionTasks"];
    tasks.as_array().cloned().unwrap_or_default()
}
