//! Migrations: a job with its state, a Deployment without a gap, and what people, the scheduler and a crash do to them.

use cutover::api::Phase;
use cutover::sandbox::ledger::Origin;
use serde_json::{Value, json};

use super::{BROKEN, IMAGE};
use crate::e2e::act::Act;
use crate::e2e::place::say;
use crate::e2e::server::{BINDINGS, CLUSTERS, MIGRATIONS};

pub async fn moves_with_its_state(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    migrate(&act, &there, json!({}));
    let status = ends(&act, Phase::Completed).await;
    act.is_settled_in(&there).await;
    let handle = captured(&status, &here);
    assert_eq!(act.running().restored_from, Origin::Handle(handle));
    act.record("move", [&here, &there]);
}

/// Applied at once, the policy would have Karmada move the job by itself, without its state.
pub async fn the_policy_of_the_same_push_names_the_target_alone(act: Act) {
    let [here, there] = act.place().pair();
    act.runs_in(&[here], &act.workload(IMAGE)).await;
    act.commit(&[
        ("policy", &act.policy_of(&[there])),
        ("intent", &act.intent(&moves(&act, there, json!({})))),
    ]);
    let status = ends(&act, Phase::Completed).await;
    act.is_settled_in(there).await;
    assert_eq!(
        act.running().restored_from,
        Origin::Handle(captured(&status, here))
    );
    let placement = act.binding().await["spec"]["placement"].clone();
    assert_eq!(placement["clusterAffinity"]["clusterNames"], json!([there]));
}

/// No file asks for a move: the policy names another cluster, and then the first one again.
pub async fn an_edit_of_the_policy_moves_the_job_and_its_revert_moves_it_back(act: Act) {
    let [here, there] = act.place().pair();
    act.runs_in(&[here], &act.workload(IMAGE)).await;
    for to in [there, here] {
        let mut policy = act.policy_of(&[to]);
        policy["metadata"]["annotations"] = json!({"cutover.dev/migrations": "auto"});
        act.commit(&[("policy", &policy)]);
        a_move_of_its_own_has_brought_it_to(&act, to).await;
        let placement = act.binding().await["spec"]["placement"].clone();
        assert_eq!(placement["clusterAffinity"]["clusterNames"], json!([to]));
    }
}

/// The annotation stands in Git from then on: it is answered once.
pub async fn the_template_in_git_asks_by_an_annotation(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    let asking = asks_for(&act, &there);
    act.commit(&[("workload", &asking)]);
    a_move_of_its_own_has_brought_it_to(&act, &there).await;
    is_answered(&act, &there).await;
    nothing_more_is_set_off(&act, asking).await;
}

/// Git does not have the annotation, and so does not take it away either.
pub async fn the_live_template_asks_by_an_annotation(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    annotate(&act, json!(there)).await;
    a_move_of_its_own_has_brought_it_to(&act, &there).await;
    is_answered(&act, &there).await;
    nothing_more_is_set_off(&act, act.workload(IMAGE)).await;
    let annotations = act.template().await["metadata"]["annotations"].clone();
    assert_eq!(annotations[TARGET], json!(there), "the sync leaves it alone");
    annotate(&act, Value::Null).await;
    act.until("its answer is taken back", async |act| {
        answer(act).await.is_null()
    })
    .await;
    assert_eq!(moves_of(&act).await.len(), 1);
}

pub async fn an_image_that_cannot_start_goes_back(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    let brief = json!({"verify": {"healthyFor": "1s", "timeout": "3s"}});
    act.commit(&[
        ("workload", &act.workload(BROKEN)),
        ("intent", &act.intent(&moves(&act, &there, brief))),
    ]);
    let status = ends(&act, Phase::RolledBack).await;
    // What Git wants is applied by the next commit; this one wants what runs.
    act.commit(&[("workload", &act.workload(IMAGE))]);
    act.is_settled_in(&here).await;
    assert_eq!(act.copy(&here).await.unwrap()["spec"]["image"], IMAGE);
    assert_eq!(
        act.running().restored_from,
        Origin::Handle(captured(&status, &here))
    );
}

pub async fn an_abort_gives_the_source_its_job_back(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    let gate = migrate_up_to(&act, Phase::Handoff, &there).await;
    assert_eq!(act.where_it_runs().await, [""; 0], "the source has stopped");
    change(&act, &gate, json!({"abort": true}));
    let status = ends(&act, Phase::Aborted).await;
    act.is_settled_in(&here).await;
    assert_eq!(
        act.running().restored_from,
        Origin::Handle(captured(&status, &here))
    );
}

pub async fn a_deployment_runs_in_both_before_it_leaves_one(act: Act) {
    let act = act.deployment();
    let [_, there] = act.runs(IMAGE).await;
    migrate(&act, &there, json!({"strategy": "StartFirst"}));
    ends(&act, Phase::Completed).await;
    act.is_settled_in(&there).await;
    assert_eq!(act.verdict().gaps, [], "at every moment one served");
}

pub async fn a_pin_that_somebody_edits_is_put_right(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    let gate = migrate_up_to(&act, Phase::Expand, &there).await;
    let before = act.pin().await.unwrap()["spec"]["overrideRules"].clone();
    let nothing = json!({"spec": {"overrideRules": []}});
    act.patch_pin(nothing).await.unwrap();
    act.until("the pin holds again", async |act| {
        let pin = act.pin().await.unwrap_or_default();
        let rules = pin["spec"]["overrideRules"].as_array().map_or(0, Vec::len);
        rules == before.as_array().unwrap().len()
    })
    .await;
    approve(&act, &gate);
    ends(&act, Phase::Completed).await;
    act.is_settled_in(&there).await;
}

pub async fn a_pin_that_somebody_deletes_is_there_again(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    let gate = migrate_up_to(&act, Phase::Expand, &there).await;
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
    approve(&act, &gate);
    ends(&act, Phase::Completed).await;
    act.is_settled_in(&there).await;
}

/// Many bindings wait for the scheduler at once, as when a cluster gets a label, and this one is among them when it is suspended:
/// its placement has changed, by a push of its own, for in that of the intent the policy would be held back.
pub async fn the_scheduler_overwrites_the_clusters_behind_a_backlog(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    backlog(&act, &here, 200).await;
    let label = async |value: Value| {
        let labels = json!({"metadata": {"labels": {"cutover.dev/e2e": value}}});
        let control = &act.place().control;
        control.patch(CLUSTERS, None, &here, labels).await.unwrap();
    };
    label(json!("yes")).await;
    let mut policy = act.policy();
    let names = &mut policy["spec"]["placement"]["clusterAffinity"]["clusterNames"];
    names.as_array_mut().unwrap().reverse();
    let names = names.clone();
    act.commit(&[("policy", &policy)]);
    act.until("its placement has changed", async |act| {
        act.binding().await["spec"]["placement"]["clusterAffinity"]["clusterNames"] == names
    })
    .await;
    migrate(&act, &there, json!({}));
    let mut before = Value::Null;
    act.until("it is suspended", async |act| {
        let binding = act.binding().await;
        before = binding["status"]["lastScheduledTime"].clone();
        binding["spec"]["suspension"]["scheduling"] == true
    })
    .await;
    // Only a control plane whose scheduler takes its time is late.
    act.comes_past(Phase::Expand).await;
    label(Value::Null).await;
    let late = act.binding().await["status"]["lastScheduledTime"] != before;
    say(format!(
        "{}: the scheduler {} after the suspension",
        act.name,
        if late { "wrote" } else { "wrote nothing" }
    ));
    ends(&act, Phase::Completed).await;
    act.is_settled_in(&there).await;
}

/// Both clusters are listed, so that a scheduler that is let go on chooses one of them.
pub async fn somebody_resumes_scheduling_in_the_middle(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    let gate = migrate_up_to(&act, Phase::Handoff, &there).await;
    act.patch_binding(json!({"spec": {"suspension": null}})).await;
    act.until("it is suspended again, with both", async |act| {
        let binding = act.binding().await;
        let both = binding["spec"]["clusters"].as_array().map(Vec::len) == Some(2);
        binding["spec"]["suspension"]["scheduling"] == true && both
    })
    .await;
    approve(&act, &gate);
    ends(&act, Phase::Completed).await;
    act.is_settled_in(&there).await;
}

pub async fn dispatching_is_suspended_before_and_in_the_middle(act: Act) {
    let [here, there] = act.runs(IMAGE).await;
    act.patch_binding(json!({"spec": {"suspension": {"dispatching": true}}}))
        .await;
    migrate(&act, &there, json!({}));
    let status = ends(&act, Phase::Failed).await;
    assert_eq!(
        status["findings"][0]["code"], "DispatchingSuspended",
        "{status:#}"
    );
    assert_eq!(act.where_it_runs().await, [here]);
    assert_eq!(act.pin().await, None);

    act.patch_binding(json!({"spec": {"suspension": null}})).await;
    // Another spec is another attempt. It stops where the target isn't listed yet.
    let spec = moves(&act, &there, json!({"approval": {"before": [Phase::Expand]}}));
    let gate = stops_before(&act, Phase::Expand, 2, spec).await;
    act.patch_binding(json!({"spec": {"suspension": {"dispatching": true}}}))
        .await;
    approve(&act, &gate);
    act.until("both are listed, and it waits for the target", async |act| {
        let status = act.status().await;
        assert!(!has_ended(&status), "{status:#}");
        let both = act.binding().await["spec"]["clusters"].as_array().map(Vec::len) == Some(2);
        both && status["phase"] == "Expand" && status["waitingFor"]["reason"].is_string()
    })
    .await;
    assert_eq!(act.copy(&there).await, None, "nothing is dispatched");
    act.patch_binding(json!({"spec": {"suspension": {"dispatching": null}}}))
        .await;
    ends(&act, Phase::Completed).await;
    act.is_settled_in(&there).await;
}

pub async fn killed_in_every_phase_it_goes_on(act: Act) {
    let [_, there] = act.runs(IMAGE).await;
    migrate(&act, &there, json!({}));
    let phases = [Phase::Hold, Phase::Capture, Phase::Handoff, Phase::Cleanup];
    for wanted in phases {
        act.comes_past(wanted).await;
        act.stage.kill();
        act.stage.start();
    }
    ends(&act, Phase::Completed).await;
    act.is_settled_in(&there).await;
}

/// What the template asks by, and where cutover says what became of that.
const TARGET: &str = "karmada.io/migration-target";
const ANSWER: &str = "cutover.dev/migration-target-answer";

/// The workload as Git has it, with the annotation.
fn asks_for(act: &Act, to: &str) -> Value {
    let mut workload = act.workload(IMAGE);
    workload["metadata"]["annotations"] = json!({TARGET: to});
    workload
}

/// Annotates the live template as a person would, or takes the annotation off it.
async fn annotate(act: &Act, to: Value) {
    let patch = json!({"metadata": {"annotations": {TARGET: to}}});
    let control = &act.place().control;
    let patched = control.patch(act.kind(), Some(act.namespace()), act.name, patch);
    patched.await.unwrap();
}

async fn answer(act: &Act) -> Value {
    let template = act.template().await;
    let text = template["metadata"]["annotations"][ANSWER].as_str();
    text.map(|text| serde_json::from_str(text).unwrap())
        .unwrap_or_default()
}

/// The template says that the move is under way, or was.
async fn is_answered(act: &Act, to: &str) {
    act.until("the template is marked", async |act| {
        let answer = answer(act).await;
        answer["target"] == to && answer["created"] == true
    })
    .await;
}

/// Every Migration of the workload, whoever asked for it.
async fn moves_of(act: &Act) -> Vec<Value> {
    let mut all = act.place().control.list(MIGRATIONS, Some(act.namespace())).await;
    all.retain(|one| one["spec"]["workload"]["name"] == act.name);
    all
}

/// Waits until a Migration that no file asks for has brought the workload somewhere, with its state.
async fn a_move_of_its_own_has_brought_it_to(act: &Act, to: &str) {
    act.until(&format!("a Migration to {to} has completed"), async |act| {
        let own = format!("{}-to-{to}-", act.name);
        moves_of(act).await.iter().any(|one| {
            let name = one["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with(&own) && one["status"]["phase"] == "Completed"
        })
    })
    .await;
    act.is_settled_in(to).await;
    let from = act.running().restored_from;
    assert!(matches!(from, Origin::Handle(_)), "{from:?}");
}

/// The sync goes through the template twice more, and leaves it where the first Migration has brought it.
async fn nothing_more_is_set_off(act: &Act, mut workload: Value) {
    for pass in ["once", "twice"] {
        workload["metadata"]["labels"] = json!({"e2e.example.org/seen": pass});
        act.commit(&[("workload", &workload)]);
        act.until(&format!("the sync has looked {pass}"), async |act| {
            act.template().await["metadata"]["labels"]["e2e.example.org/seen"] == pass
        })
        .await;
    }
    let all = moves_of(act).await;
    assert_eq!(all.len(), 1, "{all:#?}");
    let verdict = act.verdict();
    assert_eq!(verdict.runs.len(), 2, "{}", act.place().ledger);
    assert!(verdict.is_clean(), "{verdict}\n{}", act.place().ledger);
}

pub(super) fn captured(status: &Value, from: &str) -> String {
    let captured = &status["journal"]["captured"];
    assert_eq!(captured["from"], from, "{status:#}");
    captured["values"]["savepoint"].as_str().unwrap().to_owned()
}

/// Commits so many `ConfigMap`s for a cluster, each of which is a binding, and waits until all of them are placed.
async fn backlog(act: &Act, cluster: &str, count: usize) {
    let namespace = act.namespace();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "backlog", "namespace": namespace},
        "spec": {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "labelSelector": {"matchLabels": {"backlog": "yes"}}}],
            "placement": {"clusterAffinity": {"clusterNames": [cluster]}},
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
    act.until("the backlog is placed", async |act| {
        let bindings = act.place().control.list(BINDINGS, Some(namespace)).await;
        let is_placed = |binding: &&Value| {
            let name = binding["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with("backlog-") && binding["spec"]["clusters"][0]["name"] == cluster
        };
        bindings.iter().filter(is_placed).count() == count
    })
    .await;
}

/// The spec of a Migration of the workload, with more fields.
pub(super) fn moves(act: &Act, to: &str, more: Value) -> Value {
    let spec = json!({
        "workload": act.about(), "to": to, "verify": {"healthyFor": "1s", "timeout": "60s"},
    });
    with(spec, more)
}

fn with(mut spec: Value, more: Value) -> Value {
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    spec
}

fn migrate(act: &Act, to: &str, more: Value) {
    act.ask(&moves(act, to, more));
}

/// Where a Migration waits, and with what spec.
pub(super) struct Gate {
    phase: Phase,
    attempt: u32,
    spec: Value,
}

/// Moves it, and waits until a phase waits for its approval.
pub(super) async fn migrate_up_to(act: &Act, phase: Phase, to: &str) -> Gate {
    let spec = moves(act, to, json!({"approval": {"before": [phase]}}));
    stops_before(act, phase, 1, spec).await
}

async fn stops_before(act: &Act, phase: Phase, attempt: u32, spec: Value) -> Gate {
    act.ask(&spec);
    act.until(&format!("{phase} waits for its approval"), async |act| {
        let status = act.status().await;
        let present = status["attempt"] == attempt;
        assert!(!present || !has_ended(&status), "it ended before: {status:#}");
        present && status["waitingFor"]["approval"] == phase.name()
    })
    .await;
    Gate { phase, attempt, spec }
}

pub(super) fn approve(act: &Act, gate: &Gate) {
    let approval = json!({"phase": gate.phase, "attempt": gate.attempt, "by": "e2e"});
    change(act, gate, json!({"approvals": [approval]}));
}

/// Changes the spec of a Migration that waits.
pub(super) fn change(act: &Act, gate: &Gate, more: Value) {
    act.ask(&with(gate.spec.clone(), more));
}

/// Waits for the end, which has to be this one.
pub(super) async fn ends(act: &Act, phase: Phase) -> Value {
    let others = [Phase::Completed, Phase::RolledBack, Phase::Failed, Phase::Aborted];
    let others: Vec<_> = others
        .into_iter()
        .filter(|other| *other != phase)
        .map(Phase::name)
        .collect();
    act.comes_to(phase.name(), &others).await
}

fn has_ended(status: &Value) -> bool {
    let phase: Option<Phase> = serde_json::from_value(status["phase"].clone()).ok();
    phase.is_some_and(Phase::is_terminal)
}
