use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::api::{MovesStatus, ReplicaShiftSpec, ReplicaShiftStatus, RolloutSpec, RolloutStatus};
use crate::intent::seen::{Read, Seen};
use crate::plan::{Forecast, Outcome};

fn seen<T>(value: T) -> Seen<T> {
    Seen::known(value, Read { sent: 1, answered: 2 })
}

fn told(forecast: &Forecast) -> String {
    let steps = forecast.steps.iter();
    let steps = steps.map(|step| format!("\n  {}: {}", step.name, step.what));
    let remarks = forecast
        .remarks
        .iter()
        .map(|remark| format!("\n  note: {remark}"));
    std::iter::once(forecast.headline())
        .chain(steps)
        .chain(remarks)
        .collect()
}

fn workload() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"})
}

#[test]
fn many_steps_are_told_by_the_first_ones_and_the_last() {
    let spec: ReplicaShiftSpec = serde_json::from_value(json!({
        "workload": workload(), "from": {"controlPlane": true}, "to": "green", "pause": {"approval": [50, 60]},
    }))
    .unwrap();
    let status: ReplicaShiftStatus = serde_json::from_value(json!({"phase": "Hold", "journal": {
        "spec": spec, "binding": {"name": "b", "uid": "u", "id": "i"}, "templateUid": "t", "seq": 1, "listed": ["green"],
        "placement": "p", "templateReplicas": 40, "templateWanted": 40, "start": {"green": 2}, "wanted": {"green": 2},
        "amount": 40, "goal": 1, "floor": 42, "fence": {"canary": 0},
    }}))
    .unwrap();
    let forecast = shift_forecast(&spec, &status, &DryRunOutcome::Begins);
    assert_eq!(forecast.steps.len(), 21);
    assert_eq!(
        forecast.steps[0].what,
        "1 of 40 have gone: green has 3, the control plane has 39"
    );
    assert_eq!(forecast.steps[19].what, "20 more steps");
    assert_eq!(
        forecast.steps[20].what,
        "40 of 40 have gone: green has 42, the control plane has 0"
    );
    assert_eq!(
        forecast.remarks,
        ["at least 42 replicas are ready at every moment"]
    );
}

#[test]
fn what_is_under_way_waits_or_is_not_known_is_no_beginning() {
    let spec: RolloutSpec =
        serde_json::from_value(json!({"workload": workload(), "order": ["east"]})).unwrap();
    let mut status = RolloutStatus::default();
    let place = Seen::unknown("forbidden");
    let said = |status: &RolloutStatus, came: &DryRunOutcome| {
        rollout_forecast(&spec, status, came, &place).headline()
    };
    let nobody = said(&status, &DryRunOutcome::NotAsked);
    assert_eq!(nobody, "what blocks it is not known: no control plane was asked");
    let later = DryRunOutcome::Later("the workload comes first".to_owned());
    assert_eq!(said(&status, &later), "would wait: the workload comes first");
    let unread = DryRunOutcome::Unread("east does not answer".to_owned());
    assert_eq!(
        said(&status, &unread),
        "what blocks it is not known: east does not answer"
    );
    status.phase = crate::api::RolloutPhase::Rolling;
    status.common.wait(
        crate::api::WaitCode::Evidence,
        "east to be good".to_owned(),
        jiff::Timestamp::UNIX_EPOCH,
    );
    assert_eq!(
        said(&status, &DryRunOutcome::UnderWay),
        "under way: Rolling; waits: east to be good"
    );
    assert_eq!(
        said(&status, &DryRunOutcome::Stands),
        "would wait: east to be good"
    );
    let forecast = rollout_forecast(
        &spec,
        &status,
        &DryRunOutcome::Begins,
        &seen((vec!["west".into()], BTreeMap::new())),
    );
    assert_eq!(forecast.outcome, Outcome::Begins);
    insta::assert_snapshot!(told(&forecast), @"
    nothing is seen now that blocks it
      hold: a pin keeps every cluster at what it has; then the template changes
      wave 1: west (healthy within 10m, for 30s)
      end: every cluster has the change: the pin is taken off
      note: it doesn't run in east, though that is named
      note: if a cluster isn't good in time, no further one gets the change
    ");
}

#[test]
fn a_move_that_nobody_could_look_at_makes_the_whole_unknown() {
    let spec: crate::api::EvacuationSpec = serde_json::from_value(json!({"cluster": "east"})).unwrap();
    let status: MovesStatus<crate::api::EvacuationSpec> = serde_json::from_value(json!({
        "phase": "Preflight", "clusters": ["east"],
        "moves": [{
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
            "from": "east", "to": "west", "means": "StartFirst", "state": "Waiting", "note": "west does not answer",
        }],
        "stays": [
            {"workload": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "a"}, "cluster": "east",
                "why": {"code": "NothingRuns", "message": "nothing runs"}},
            {"workload": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "api"}, "cluster": "east",
                "why": {"code": "NoTarget", "message": "no cluster takes it", "hint": "make room"}, "runs": true},
        ],
    }))
    .unwrap();
    insta::assert_snapshot!(told(&moves_forecast(&spec, &status, &DryRunOutcome::Stands)), @"
    what blocks it is not known: 1 workload of 1: west does not answer
      cordon: east takes nothing new
      Deployment shop/web: east → west, started there before it is taken away here; waits: west does not answer
      note: Deployment shop/api stays in east: NoTarget: no cluster takes it (make room)
      note: 1 object of which nothing runs stay as their policies have them
    ");
}

#[test]
fn each_purge_mode_says_what_becomes_of_the_old_copy() {
    let plan = |more: Value| {
        let mut spec = json!({"workload": workload()});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    };
    let binding = |failover: Value| {
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding", "metadata": {"name": "web"},
            "spec": {"resource": workload(), "failover": failover},
        });
        seen(Some(serde_json::from_value(binding).unwrap()))
    };
    let both = json!({
        "application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly"},
        "cluster": {"purgeMode": "Gracefully"},
    });
    let fenced = plan(json!({"sourceUnreachable": {"proceedAfter": "5m", "fencedBy": "NodeFencing"}}));
    let status = crate::api::FailoverPlanStatus::default();
    insta::assert_snapshot!(told(&failover_forecast(&fenced, &status, &DryRunOutcome::Begins, &binding(both))), @"
    nothing is seen now that blocks it
      guard: a pin lets the cluster in which it runs alone run it: whatever else gets a copy holds it
      eviction: Karmada decides when (after 30 s of being ill, or by a taint) and where to; its failover is taken off the binding until the new copy runs, so that the held copy isn't evicted too
      old copy (application failover, Directly): Karmada deletes it at once; the state is what was preserved, or seen last
      old copy (cluster failover, Gracefully): it is stopped with its state within 60s if it is well, else removed at once
      unreachable: while the old copy is not visible the new one is held; after 5m cutover treats the old one as fenced by the infrastructure
      release: the new copy starts once the old one is proved harmless, from the newest state: captured, else preserved by Karmada, else seen last; a person is asked before it starts from nothing
    ");
    let never = json!({"cluster": {"purgeMode": "Never"}});
    let plain = plan(json!({"capture": {"continuous": false}}));
    insta::assert_snapshot!(told(&failover_forecast(&plain, &status, &DryRunOutcome::Begins, &binding(never))), @"
    nothing is seen now that blocks it
      guard: a pin lets the cluster in which it runs alone run it: whatever else gets a copy holds it
      eviction: Karmada decides when and where to; its failover is taken off the binding until the new copy runs, so that the held copy isn't evicted too
      old copy (cluster failover, Never): it is stopped with its state within 60s and kept, held
      unreachable: while the old copy is not visible, the new one is held
      release: the new copy starts once the old one is proved harmless, from the newest state: captured, else preserved by Karmada; a person is asked before it starts from nothing
      note: its policy asks for no application failover: a workload that is ill stays where it is
    ");
}
