use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

fn workload(name: &str) -> WorkloadRef {
    WorkloadRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        name: name.to_owned(),
    }
}

fn spec(more: Value) -> RolloutPolicySpec {
    let mut spec = json!({"select": [{"apiVersion": "apps/v1", "kind": "Deployment"}]});
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    serde_json::from_value(spec).unwrap()
}

/// A policy over some workloads, and the rollouts that there are.
struct Scene {
    spec: RolloutPolicySpec,
    snapshot: Snapshot,
    deleting: bool,
}

impl Scene {
    fn of(selected: &[(&str, bool, Option<&str>)], rollouts: Vec<Rollout>) -> Self {
        let selected = selected.iter().map(|(name, waits, older)| {
            let one = Workload {
                named: workload(name),
                waits: *waits,
                older: older.map(str::to_owned),
            };
            (workload(name).key(Some("shop")), one)
        });
        Self {
            spec: spec(json!({})),
            snapshot: Snapshot {
                selected: Ok(selected.collect()),
                doubtful: BTreeSet::new(),
                rollouts: Ok(rollouts),
            },
            deleting: false,
        }
    }

    fn step(&self, has_finalizer: bool) -> Step<RolloutPolicyStatus> {
        step(&Input {
            uid: "u",
            namespace: Some("shop"),
            name: "all",
            generation: 1,
            revision: None,
            deleting: self.deleting,
            overtaken: None,
            has_finalizer,
            spec: &self.spec,
            status: &RolloutPolicyStatus::default(),
            trouble: None,
            ahead: None,
            snapshot: &self.snapshot,
            now: Timestamp::UNIX_EPOCH,
        })
    }

    fn effects(&self) -> Vec<String> {
        let effects = self.step(true).effects;
        effects.iter().map(ToString::to_string).collect()
    }

    fn notes(&self) -> Vec<String> {
        let rows = self.step(true).status.workloads;
        let text =
            |row: &api::SelectedWorkload| format!("{}: {}", row.name, row.note.clone().unwrap_or_default());
        rows.iter().map(text).collect()
    }
}

/// The rollout that the policy has made.
fn child(of: &str, status: Value) -> Rollout {
    let mut child = rollout(("all", "shop", "u"), &spec(json!({})), &workload(of));
    child.metadata.labels = Some(BTreeMap::from([(PARENT_LABEL.to_owned(), "u".to_owned())]));
    child.metadata.uid = Some("c".to_owned());
    // Nobody has a turn yet.
    child.spec.queued = true;
    child.status = serde_json::from_value(status).unwrap();
    child
}

fn by_hand(of: &str) -> Rollout {
    let mut rollout = child(of, json!({}));
    rollout.metadata.labels = None;
    rollout.metadata.name = Some("mine".to_owned());
    rollout
}

fn name(of: &str) -> String {
    rollout_name("all", "u", &workload(of))
}

#[test]
fn a_change_that_waits_gets_a_rollout_and_nothing_else_does() {
    let scene = Scene::of(&[("api", false, None), ("web", true, None)], Vec::new());
    assert_eq!(scene.effects(), [format!("create Rollout {}", name("web"))]);
    // Nothing is made that could outlive the policy.
    let first = scene.step(false).effects;
    assert!(matches!(first.as_slice(), [Effect::AddFinalizer]));
    let status = scene.step(true).status;
    assert_eq!((status.selected, status.rolling, status.left_out), (2, 0, 0));
}

#[test]
fn one_rollout_takes_every_change_of_a_workload_along() {
    let there = child("web", json!({"phase": "Completed"}));
    let scene = Scene::of(&[("web", true, None)], vec![there]);
    assert_eq!(scene.effects(), [""; 0]);
    assert_eq!(scene.notes(), [""; 0]);
}

#[test]
fn a_policy_that_changes_changes_its_rollouts() {
    let mut scene = Scene::of(&[("web", false, None)], vec![child("web", json!({}))]);
    let said = json!({"kind": "Deployment", "name": "web", "retry": 1});
    for more in [
        json!({"paused": true}),
        json!({"order": ["west"]}),
        json!({"controls": [said]}),
    ] {
        scene.spec = spec(more);
        assert_eq!(scene.effects(), [format!("{}: as the policy says", name("web"))]);
    }
    scene.spec = spec(json!({"controls": [{"kind": "Deployment", "name": "api", "retry": 1}]}));
    assert_eq!(scene.effects(), [""; 0]);
}

#[test]
fn whoever_else_is_in_charge_is_named_and_left_alone() {
    let scene = Scene::of(
        &[("web", true, Some("RolloutPolicy old")), ("api", true, None)],
        vec![by_hand("api")],
    );
    assert_eq!(scene.effects(), [""; 0]);
    assert_eq!(
        scene.notes(),
        ["api: left to Rollout mine", "web: left to RolloutPolicy old"]
    );
    assert_eq!(scene.step(true).status.left_out, 2);
    // What it had begun comes to its end.
    let scene = Scene::of(
        &[("api", true, None)],
        vec![by_hand("api"), child("api", json!({"phase": "Rolling"}))],
    );
    assert_eq!(scene.effects(), [format!("delete Rollout {}", name("api"))]);
}

#[test]
fn what_is_selected_no_more_loses_its_rollout_unless_nobody_can_tell() {
    let mut scene = Scene::of(&[], vec![child("web", json!({"phase": "Completed"}))]);
    assert_eq!(scene.effects(), [format!("delete Rollout {}", name("web"))]);
    scene.snapshot.doubtful = BTreeSet::from([workload("web").key(Some("shop"))]);
    assert_eq!(scene.effects(), [""; 0]);
    scene.snapshot.selected = Err(NotKnown("no revision has been read".to_owned()));
    let step = scene.step(true);
    assert!(step.effects.is_empty());
    assert_eq!(
        step.status.common.waiting_for.unwrap().reason,
        "no revision has been read"
    );
}

#[test]
fn it_goes_when_its_rollouts_have() {
    let mut scene = Scene::of(
        &[("web", true, None)],
        vec![child("web", json!({"phase": "Rolling"}))],
    );
    scene.deleting = true;
    assert_eq!(scene.effects(), [format!("delete Rollout {}", name("web"))]);
    scene.snapshot.rollouts = Ok(Vec::new());
    assert!(matches!(
        scene.step(true).effects.as_slice(),
        [Effect::RemoveFinalizer]
    ));
    assert!(scene.step(false).effects.is_empty());
}

#[test]
fn what_halted_is_named_first() {
    let waits = json!({"phase": "Halted", "waitingFor": {"reason": "halted: it is ill", "since": "2026-01-01T00:00:00Z"}});
    let rollouts = vec![child("api", json!({"phase": "Rolling"})), child("web", waits)];
    let scene = Scene::of(&[("api", false, None), ("web", false, None)], rollouts);
    let status = scene.step(true).status;
    assert_eq!((status.rolling, status.halted), (2, 1));
    assert_eq!(scene.notes(), ["web: halted: it is ill", "api: "]);
}
