//! A small control plane that carries steps out: what comes of a cause, line by line, and of one that goes away in between.

use cutover_karmada::name::Gvk;
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";

fn next(view: &View<'_>) -> Option<Step> {
    steps(view).into_iter().next()
}

fn settings(text: &str) -> Evacuations {
    let config = format!(
        "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{{name: main, gate: {{evacuations: {text}}}}}]\n"
    );
    let config = crate::config::Config::parse(config.as_bytes()).unwrap();
    config.syncs[0].gate.evacuations.clone()
}

fn taint(key: &str, effect: &str) -> Value {
    json!({"key": key, "effect": effect})
}

fn maintenance() -> Value {
    json!({"key": "maintenance", "effect": "NoExecute", "timeAdded": "2026-01-02T03:04:00Z"})
}

fn workload(tolerations: &Value) -> Workload {
    let placement: Placement = serde_json::from_value(json!({"clusterTolerations": tolerations})).unwrap();
    Workload {
        key: ObjectKey {
            group: "flink.apache.org".to_owned(),
            kind: "FlinkDeployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "orders".to_owned(),
        },
        clusters: vec![ClusterName::from("east")],
        leaving: Vec::new(),
        applied: placement.clone(),
        placement,
        is_guarded: false,
        immovable: None,
    }
}

struct Plane {
    clusters: Vec<Value>,
    evacuations: Vec<Value>,
    workloads: Vec<Workload>,
    settings: Evacuations,
    sync: &'static str,
    now: Timestamp,
    writes: usize,
}

impl Plane {
    /// `east`, with a workload that is evicted a while after it is tainted.
    fn new(text: &str) -> Self {
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": NOW,
        });
        let cluster = |name: &str| {
            json!({
                "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
                "metadata": {"name": name, "uid": format!("uid-{name}")},
                "spec": {"syncMode": "Push", "taints": []}, "status": {"conditions": [condition]},
            })
        };
        Self {
            clusters: ["east", "west"].map(cluster).to_vec(),
            evacuations: Vec::new(),
            workloads: vec![workload(
                &json!([{"operator": "Exists", "tolerationSeconds": 3600}]),
            )],
            settings: settings(text),
            sync: "s1",
            now: NOW.parse().unwrap(),
            writes: 0,
        }
    }

    fn tainted(self, taint: Value) -> Self {
        let mut this = self;
        this.taint(taint);
        this
    }

    fn taint(&mut self, taint: Value) {
        let taints = self.clusters[0]["spec"]["taints"].as_array_mut().unwrap();
        taints.push(taint);
    }

    fn untaint(&mut self) {
        self.clusters[0]["spec"]["taints"] = json!([]);
    }

    fn view(&self) -> View<'_> {
        View {
            clusters: &self.clusters,
            evacuations: &self.evacuations,
            workloads: &self.workloads,
            settings: &self.settings,
            sync: self.sync,
            now: self.now,
        }
    }

    fn next(&self) -> Option<Step> {
        next(&self.view())
    }

    /// Takes a step; returns whether there was one.
    fn step(&mut self) -> bool {
        let Some(step) = self.next() else {
            return false;
        };
        self.writes += 1;
        self.take(step);
        true
    }

    fn take(&mut self, step: Step) {
        let patched = |all: &mut Vec<Value>, change: Change| {
            let one = all.iter_mut().find(|one| **one == *change.read).unwrap();
            let patch: json_patch::Patch = serde_json::from_value(json!(change.patch)).unwrap();
            json_patch::patch(one, &patch).unwrap();
        };
        match step {
            Step::Answer(change) => patched(&mut self.clusters, change),
            Step::Change(change) => patched(&mut self.evacuations, change),
            Step::Create(created) => {
                assert!(
                    self.evacuations
                        .iter()
                        .all(|one| name_of(one) != name_of(&created))
                );
                self.evacuations.push(*created);
            }
            Step::Delete(change) => self.evacuations.retain(|one| *one != *change.read),
        }
    }

    fn settle(&mut self) -> &mut Self {
        for _ in 0..16 {
            if !self.step() {
                return self;
            }
        }
        panic!("it goes on and on: {:?}", self.next());
    }

    fn is(&mut self, phase: &str) {
        self.evacuations[0]["status"] = json!({"phase": phase});
    }

    fn told(&self) -> String {
        let told = problems(&self.view());
        told.iter()
            .map(|told| format!("{} ({})\n", told.message, told.hint))
            .collect()
    }

    fn is_open(&self) -> bool {
        let view = self.view();
        is_open(&view, &problems(&view))
    }

    fn answer(&self) -> Option<Answer> {
        let text = annotation(&self.clusters[0], ANSWER_ANNOTATION)?;
        Some(serde_json::from_str(text).unwrap())
    }
}

fn person(spec: &Value, phase: &str) -> Value {
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Evacuation",
        "metadata": {"name": "by-hand", "uid": "u9"}, "spec": spec, "status": {"phase": phase},
    })
}

#[test]
fn a_cause_is_answered_before_it_is_carried_out_and_carried_out_once() {
    let mut plane = Plane::new("{mode: Auto, verify: {healthyFor: 7s}}").tainted(maintenance());
    // Killed after any write, the next process goes on.
    assert!(plane.step() && plane.evacuations.is_empty());
    assert!(plane.step());
    let one = plane.evacuations[0].clone();
    assert!(
        name_of(&one).starts_with("evacuate-east-20260102-030405-"),
        "{one}"
    );
    assert_eq!((&one["spec"]["paused"], is_held(&one)), (&json!(true), true));
    plane.settle();
    let one = &plane.evacuations[0];
    let spec = &one["spec"];
    assert_eq!((spec.get("paused"), is_held(one)), (None, false));
    assert_eq!(
        (&spec["cluster"], &spec["unmovable"]),
        (&json!("east"), &json!("Retry"))
    );
    assert_eq!(
        (&spec["maxParallel"], &spec["keepCordoned"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(
        (spec.get("approval"), &spec["verify"]["healthyFor"]),
        (None, &json!("7s"))
    );
    assert_eq!(plane.writes, 4);
    // Whatever becomes of it, the same cause sets nothing else off.
    for phase in ["Preflight", "Moving", "Completed", "Failed", "Aborted"] {
        plane.is(phase);
        assert_eq!(plane.next(), None, "{phase}");
    }
    plane.evacuations.clear();
    assert_eq!(plane.next(), None, "a person has deleted it");
}

#[test]
fn asked_first_it_plans_and_waits() {
    let mut plane = Plane::new("{mode: Ask}").tainted(maintenance());
    plane.settle();
    let spec = &plane.evacuations[0]["spec"];
    assert_eq!(
        (&spec["approval"], spec.get("paused")),
        (&json!({"before": ["Moving"]}), None)
    );
}

#[test]
fn what_of_a_cluster_is_a_cause() {
    let none = Value::Null;
    let sets_off = |text: &str, taint: &Value, deleted: bool| {
        let mut plane = Plane::new(text);
        if !taint.is_null() {
            plane.taint(taint.clone());
        }
        if deleted {
            plane.clusters[0]["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        plane.settle().evacuations.len() == 1
    };
    let cordon = taint(meta::TAINT_UNSCHEDULABLE, "NoSchedule");
    for (text, taint, deleted, expected) in [
        ("{mode: Auto}", none.clone(), false, false),
        ("{mode: Auto}", maintenance(), false, true),
        ("{mode: Auto}", none.clone(), true, true),
        ("{mode: Auto}", taint("maintenance", "NoSchedule"), false, false),
        (
            "{mode: Auto}",
            taint(meta::TAINT_NOT_READY, "NoExecute"),
            false,
            false,
        ),
        (
            "{mode: Auto}",
            taint(meta::TAINT_UNREACHABLE, "NoExecute"),
            false,
            false,
        ),
        (
            "{mode: Auto}",
            taint(meta::TAINT_TERMINATING, "NoExecute"),
            false,
            false,
        ),
        (
            "{mode: Auto}",
            taint("evacuating.cutover.dev/x", "NoExecute"),
            false,
            false,
        ),
        ("{mode: Auto}", cordon.clone(), false, false),
        ("{mode: Auto, causes: [Cordon]}", cordon, false, true),
        ("{mode: Auto, causes: [Cordon]}", maintenance(), false, false),
        ("{mode: Auto, causes: [NoExecute]}", none, true, false),
    ] {
        assert_eq!(
            sets_off(text, &taint, deleted),
            expected,
            "{text} {taint} {deleted}"
        );
    }
}

#[test]
fn only_where_a_workload_with_state_would_leave() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.workloads[0].clusters = vec![ClusterName::from("west")];
    assert_eq!(plane.next(), None);
    assert!(plane.is_open(), "it may come to that cluster");
    plane.workloads = vec![workload(&json!([{"key": "maintenance", "operator": "Exists"}]))];
    assert_eq!(plane.next(), None, "it is tolerated for ever");
    // Its deletion is not.
    plane.clusters[0]["metadata"]["deletionTimestamp"] = json!(NOW);
    assert_eq!(plane.settle().evacuations.len(), 1);
}

#[test]
fn only_what_is_selected_counts_and_moves() {
    let mut plane = Plane::new("{mode: Auto, select: {namespaces: [other]}}").tainted(maintenance());
    assert_eq!(plane.next(), None);
    assert_eq!(plane.told(), "");
    plane.settings = settings("{mode: Auto, select: {namespaces: [shop], kinds: [FlinkDeployment]}}");
    plane.settle();
    assert_eq!(
        plane.evacuations[0]["spec"]["select"],
        json!({"kinds": ["FlinkDeployment"], "namespaces": ["shop"]})
    );
    plane.is("Moving");
    assert_eq!(plane.told(), "", "it is moved");
}

#[test]
fn a_cluster_that_is_not_ready_is_left_to_failover_plans() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.clusters[0]["status"]["conditions"][0]["status"] = json!("False");
    assert_eq!(plane.next(), None);
    assert!(
        plane.told().contains("cluster east is not evacuated"),
        "{}",
        plane.told()
    );
    assert!(plane.told().contains("not Ready") && plane.told().contains("FailoverPlan"));
    assert!(plane.is_open());
    // Answered, and lost before it was carried out.
    plane.clusters[0]["status"]["conditions"][0]["status"] = json!("True");
    assert!(plane.step());
    plane.clusters[0]["status"]["conditions"][0]["status"] = json!("Unknown");
    assert_eq!(plane.next(), None);
    plane.clusters[0]["status"]["conditions"][0]["status"] = json!("True");
    assert_eq!(plane.settle().evacuations.len(), 1);
    assert_eq!(plane.told(), "");
    assert!(plane.is_open(), "its time runs out");
    plane.workloads[0].is_guarded = true;
    assert!(!plane.is_open());
}

#[test]
fn the_evacuation_of_a_person_is_enough() {
    for (spec, phase, enough) in [
        (json!({"cluster": "east"}), "Preflight", true),
        (json!({"cluster": "east"}), "Moving", true),
        (json!({"cluster": "east"}), "Completed", false),
        (json!({"cluster": "west"}), "Moving", false),
        (json!({"taint": {"key": "maintenance"}}), "Watching", true),
        (json!({"taint": {"key": "other"}}), "Watching", false),
    ] {
        let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
        plane.evacuations.push(person(&spec, phase));
        plane.settle();
        let all = plane.evacuations.len();
        assert_eq!(all, if enough { 1 } else { 2 }, "{spec} {phase}");
        if enough {
            // Answered is answered: nothing begins when that one has ended.
            plane.is("Aborted");
            assert_eq!(plane.next(), None, "{spec}");
            plane.untaint();
            plane.settle();
            assert_eq!((plane.evacuations.len(), plane.answer()), (1, None), "{spec}");
        }
    }
}

#[test]
fn one_that_came_between_the_answer_and_the_creation_is_enough_too() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    assert!(plane.step());
    plane
        .evacuations
        .push(person(&json!({"cluster": "east"}), "Moving"));
    plane.settle();
    assert_eq!(plane.evacuations.len(), 1);
    assert_eq!(plane.answer().unwrap().evacuation, "by-hand");
}

#[test]
fn the_cause_goes_away() {
    let with = |phase: &str| {
        let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
        plane.settle();
        plane.is(phase);
        plane.untaint();
        plane.settle();
        plane
    };
    // What has not begun, or has ended, goes.
    for phase in ["Pending", "Preflight", "Completed", "Failed", "Aborted"] {
        let plane = with(phase);
        assert_eq!((plane.evacuations.len(), plane.answer()), (0, None), "{phase}");
    }
    // What is under way turns back, says why, and goes when it has ended.
    let mut plane = with("Moving");
    let one = &plane.evacuations[0];
    assert_eq!(one["spec"]["abort"], true);
    let why = annotation(one, OVERTAKEN_ANNOTATION).unwrap();
    assert!(
        why.contains("maintenance:NoExecute") && why.contains("of east is gone"),
        "{why}"
    );
    assert_eq!(plane.next(), None);
    plane.is("Ending");
    assert_eq!(plane.next(), None);
    plane.is("Aborted");
    assert!(plane.settle().evacuations.is_empty());
}

#[test]
fn a_cause_that_comes_back_is_another_one() {
    let cordon = || taint(meta::TAINT_UNSCHEDULABLE, "NoSchedule");
    // Before what it set off has gone.
    for phase in ["Moving", "Completed"] {
        let mut plane = Plane::new("{mode: Auto, causes: [Cordon]}").tainted(cordon());
        plane.settle();
        let first = name_of(&plane.evacuations[0]).to_owned();
        plane.is(phase);
        plane.untaint();
        assert!(plane.step(), "the answer goes first");
        if phase == "Moving" {
            assert!(plane.step(), "it turns back");
        }
        plane.now = "2026-01-02T05:00:00Z".parse().unwrap();
        plane.taint(cordon());
        if phase == "Moving" {
            assert_eq!(plane.next(), None, "it has to end first");
            plane.is("Aborted");
        }
        plane.settle();
        assert_eq!(plane.evacuations.len(), 1);
        assert_ne!(name_of(&plane.evacuations[0]), first, "{phase}");
    }
    // One that is being deleted is waited for.
    let mut plane = Plane::new("{mode: Auto, causes: [Cordon]}").tainted(cordon());
    plane.settle();
    plane.untaint();
    assert!(plane.step());
    plane.evacuations[0]["metadata"]["deletionTimestamp"] = json!(NOW);
    plane.taint(cordon());
    assert_eq!(plane.next(), None);
    plane.evacuations.clear();
    assert_eq!(plane.settle().evacuations.len(), 1);
}

#[test]
fn another_cause_is_taken_in_while_it_runs_and_answered_when_it_has_ended() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.settle();
    plane.is("Moving");
    plane.clusters[0]["metadata"]["deletionTimestamp"] = json!(NOW);
    plane.settle();
    assert_eq!(plane.answer().unwrap().causes.len(), 2);
    let first = name_of(&plane.evacuations[0]).to_owned();
    // One of two is gone: nothing is called off.
    plane.untaint();
    plane.settle();
    assert_eq!(plane.answer().unwrap().causes.len(), 1);
    assert_eq!(name_of(&plane.evacuations[0]), first);
    assert_eq!(plane.evacuations[0]["spec"].get("abort"), None);
    // Ended, and another taint comes.
    plane.is("Completed");
    plane.taint(maintenance());
    plane.now = "2026-01-02T05:00:00Z".parse().unwrap();
    plane.settle();
    assert_eq!(plane.evacuations.len(), 1);
    assert_ne!(name_of(&plane.evacuations[0]), first);
}

#[test]
fn what_is_created_late_does_nothing_and_goes() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    assert!(plane.step());
    let late = plane.next().unwrap();
    assert!(matches!(late, Step::Create(_)));
    // It stands still there. Another process goes on, the cause goes, and comes again.
    plane.settle();
    plane.is("Completed");
    plane.untaint();
    plane.settle();
    let alone = plane.clusters.clone();
    plane.take(late.clone());
    assert!(is_held(&plane.evacuations[0]));
    assert!(
        plane.settle().evacuations.is_empty(),
        "there is no cause any more"
    );
    assert_eq!(plane.clusters, alone);
    plane.now = "2026-01-02T05:00:00Z".parse().unwrap();
    plane.taint(maintenance());
    plane.settle();
    let second = plane.evacuations.clone();
    plane.take(late);
    plane.settle();
    assert_eq!(plane.evacuations, second);
}

#[test]
fn what_was_created_late_is_no_answer_to_the_next_cause() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    assert!(plane.step());
    let late = plane.next().unwrap();
    plane.untaint();
    plane.settle();
    plane.now = "2026-01-02T05:00:00Z".parse().unwrap();
    plane.taint(json!({"key": "maintenance", "effect": "NoExecute", "timeAdded": "2026-01-02T04:59:00Z"}));
    assert!(plane.step(), "the cause has come again and is answered");
    plane.take(late);
    plane.settle();
    assert_eq!(plane.evacuations.len(), 1);
    assert_eq!(plane.answer().unwrap().evacuation, name_of(&plane.evacuations[0]));
    assert!(!is_held(&plane.evacuations[0]));
}

#[test]
fn what_somebody_changes_of_a_new_one_has_it_created_once() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    assert!(plane.step() && plane.step());
    plane.evacuations[0]["spec"]["maxParallel"] = json!(1);
    plane.settle();
    assert_eq!(plane.evacuations[0]["spec"]["maxParallel"], 1);
    assert_eq!(plane.writes, 4);
}

#[test]
fn who_has_to_act_hears_of_it_while_there_is_time() {
    let mut plane = Plane::new("{mode: Ask}").tainted(maintenance());
    plane.settle();
    assert_eq!(plane.told(), "", "it is looked at what moves where");
    let workload = json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "namespace": "shop", "name": "orders"});
    let wait = |code: &str| json!({"code": code, "reason": "something", "since": NOW});
    for (status, told) in [
        (
            json!({"phase": "Preflight", "waitingFor": wait("Approval")}),
            "waits: something",
        ),
        (
            json!({"phase": "Moving", "waitingFor": wait("Pause")}),
            "waits: something",
        ),
        (json!({"phase": "Moving", "waitingFor": wait("Evidence")}), ""),
        (
            json!({"phase": "Moving", "stays": [{
                "workload": workload, "cluster": "east", "runs": true,
                "why": {"code": "NoTarget", "severity": "Blocking", "message": "there is no room", "hint": ""},
            }]}),
            "leaves it where it is: there is no room",
        ),
        (
            json!({"phase": "Moving", "moves": [{"workload": workload, "from": "east", "state": "Failed"}]}),
            "has failed",
        ),
        (json!({"phase": "Completed"}), "no Evacuation empties the cluster"),
    ] {
        plane.evacuations[0]["status"] = status;
        let said = plane.told();
        if told.is_empty() {
            assert_eq!(said, "");
        } else {
            assert!(said.contains(told), "{told}: {said}");
            // An hour after the taint, less the two minutes that a move takes.
            assert!(said.contains("takes it out at 2026-01-02T04:04:00Z"), "{said}");
            assert!(
                said.contains("has to begin before 2026-01-02T04:02:00Z"),
                "{said}"
            );
        }
    }
    plane.workloads[0].is_guarded = true;
    assert_eq!(plane.told(), "");
}

#[test]
fn a_second_cause_of_a_cluster_that_is_not_ready_is_told_too() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.settle();
    plane.is("Completed");
    plane.clusters[0]["status"]["conditions"][0]["status"] = json!("False");
    plane.taint(json!({"key": "other", "effect": "NoExecute"}));
    assert!(plane.told().contains("it is not Ready"), "{}", plane.told());
}

#[test]
fn two_processes_that_read_the_same_create_one() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    assert!(plane.step());
    let (one, other) = (plane.next().unwrap(), plane.next().unwrap());
    assert_eq!(one, other);
    let name = |step: &Step| match step {
        Step::Create(created) => name_of(created).to_owned(),
        other => panic!("{other:?}"),
    };
    assert_eq!(name(&one), plane.answer().unwrap().evacuation);
}

#[test]
fn another_sync_leaves_an_answer_alone_until_nothing_evicts_any_more() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.settle();
    plane.sync = "s2";
    plane.settings = settings("{mode: Auto, causes: [Deletion]}");
    assert_eq!(plane.next(), None, "its own causes are not there; others are");
    plane.settings = settings("{mode: Auto}");
    assert_eq!(plane.next(), None);
    plane.untaint();
    assert!(plane.settle().evacuations.is_empty());
    assert_eq!(plane.answer(), None);
}

#[test]
fn a_cluster_that_has_left_takes_what_it_set_off_along_when_that_is_at_rest() {
    let with = |phase: &str, state: &str| {
        let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
        plane.settle();
        plane.evacuations[0]["status"] = json!({"phase": phase, "moves": [{"state": state}]});
        plane.clusters[0]["metadata"]["uid"] = json!("another");
        plane.untaint();
        plane.settle();
        plane.evacuations.len()
    };
    for (phase, state, left) in [
        ("Preflight", "Waiting", 0),
        ("Moving", "Moving", 1),
        ("Moving", "Starting", 1),
        ("Moving", "Moved", 0),
        ("Completed", "Moved", 0),
    ] {
        assert_eq!(with(phase, state), left, "{phase} {state}");
    }
}

#[test]
fn a_cluster_that_joins_under_the_name_of_one_that_has_left_is_another_one() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.settle();
    let first = name_of(&plane.evacuations[0]).to_owned();
    plane.evacuations[0]["status"] = json!({"phase": "Moving", "moves": [{"state": "Moving"}]});
    plane.clusters[0]["metadata"]["uid"] = json!("another");
    plane.clusters[0]["metadata"]["annotations"] = json!({});
    plane.now = "2026-01-02T05:00:00Z".parse().unwrap();
    plane.settle();
    assert_eq!(
        plane.evacuations[0]["spec"]["paused"], true,
        "nothing more begins"
    );
    assert_eq!((plane.evacuations.len(), plane.answer()), (1, None));
    plane.evacuations[0]["status"]["moves"] = json!([{"state": "Moved"}]);
    plane.settle();
    assert_eq!(plane.evacuations.len(), 1);
    assert_ne!(name_of(&plane.evacuations[0]), first);
    assert_eq!(plane.answer().unwrap().evacuation, name_of(&plane.evacuations[0]));
}

#[test]
fn what_was_created_under_other_settings_is_not_let_go() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    assert!(plane.step() && plane.step());
    assert!(is_held(&plane.evacuations[0]));
    plane.settings = settings("{mode: Ask}");
    plane.settle();
    assert_eq!(plane.evacuations.len(), 1);
    let spec = &plane.evacuations[0]["spec"];
    assert_eq!(
        (&spec["approval"], spec.get("paused")),
        (&json!({"before": ["Moving"]}), None)
    );
    // One that another cause has left held is not taken for the answer to this one.
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    assert!(plane.step() && plane.step());
    plane.clusters[0]["metadata"]["annotations"] = json!({});
    plane.settings = settings("{mode: Ask}");
    plane.settle();
    assert_eq!(plane.evacuations.len(), 1);
    assert_eq!(
        plane.evacuations[0]["spec"]["approval"],
        json!({"before": ["Moving"]})
    );
}

#[test]
fn what_comes_to_its_end_first_is_told() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.evacuations = vec![person(&json!({"cluster": "east", "abort": true}), "Ending")];
    assert_eq!(plane.next(), None);
    let told = plane.told();
    assert!(
        told.contains("cluster east is not evacuated yet: the earlier Evacuation by-hand"),
        "{told}"
    );
}

#[test]
fn one_that_turns_back_is_no_answer_to_another_cause() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.settle();
    let first = name_of(&plane.evacuations[0]).to_owned();
    plane.is("Ending");
    plane.evacuations[0]["spec"]["abort"] = json!(true);
    assert_eq!(plane.next(), None);
    plane.taint(json!({"key": "power", "effect": "NoExecute"}));
    assert_eq!(plane.next(), None, "it has to end first");
    plane.is("Aborted");
    plane.now = "2026-01-02T05:00:00Z".parse().unwrap();
    plane.settle();
    assert_eq!(plane.evacuations.len(), 1);
    assert_ne!(name_of(&plane.evacuations[0]), first);
}

#[test]
fn syncs_that_mean_different_causes_do_not_take_turns() {
    let taint_only = settings("{mode: Auto, causes: [NoExecute]}");
    let cordon_only = settings("{mode: Auto, causes: [Cordon]}");
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.taint(taint(meta::TAINT_UNSCHEDULABLE, "NoSchedule"));
    for round in 0..4 {
        (plane.sync, plane.settings) = match round % 2 {
            0 => ("s1", taint_only.clone()),
            _ => ("s2", cordon_only.clone()),
        };
        plane.settle();
        plane.is("Completed");
        plane.now = format!("2026-01-02T0{}:00:00Z", 4 + round).parse().unwrap();
    }
    let writes = plane.writes;
    plane.settle();
    assert_eq!(plane.writes, writes);
    assert_eq!(plane.answer().unwrap().causes.len(), 2);
    assert!(
        name_of(&plane.evacuations[0]).contains("20260102-040000"),
        "the second, and no third"
    );
}

#[test]
fn a_copy_of_what_was_set_off_is_a_persons() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.settle();
    let mut copy = plane.evacuations[0].clone();
    copy["metadata"]["name"] = json!("mine");
    copy["status"] = json!({"phase": "Completed"});
    plane.evacuations.push(copy);
    plane.untaint();
    plane.settle();
    let names: Vec<_> = plane.evacuations.iter().map(name_of).collect();
    assert_eq!(names, ["mine"]);
}

#[test]
fn what_another_sync_has_announced_and_not_created_is_told() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    assert!(plane.step());
    plane.sync = "renamed";
    assert_eq!(plane.next(), None);
    assert!(
        plane.told().contains("another one is to create Evacuation"),
        "{}",
        plane.told()
    );
}

#[test]
fn a_persons_evacuation_of_a_part_is_told() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    let spec = json!({"cluster": "east", "select": {"namespaces": ["other"]}});
    plane.evacuations.push(person(&spec, "Moving"));
    plane.settle();
    assert!(
        plane.told().contains("moves a part of what runs in east"),
        "{}",
        plane.told()
    );
}

#[test]
fn an_answer_that_cannot_be_read_begins_nothing_and_one_of_another_cluster_counts_for_nothing() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    plane.clusters[0]["metadata"]["annotations"] = json!({ANSWER_ANNOTATION: "done"});
    assert_eq!(plane.next(), None);
    assert!(plane.told().contains("cannot be read"), "{}", plane.told());
    let causes = Member::of(&plane.clusters[0]).unwrap().causes(&EVERY_CAUSE);
    let other = json!({
        "cluster": "another", "causes": causes, "sync": "s1", "evacuation": "old", "created": true,
    });
    plane.clusters[0]["metadata"]["annotations"] = json!({ANSWER_ANNOTATION: other.to_string()});
    assert_eq!(plane.settle().evacuations.len(), 1);
}

#[test]
fn clusters_with_one_beginning_have_evacuations_of_their_own() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    let long = "a".repeat(40);
    plane.clusters[1]["spec"]["taints"] = json!([maintenance()]);
    for (index, end) in ["1", "2"].into_iter().enumerate() {
        plane.clusters[index]["metadata"]["name"] = json!(format!("{long}{end}"));
    }
    plane.workloads[0].clusters = ["1", "2"]
        .map(|end| ClusterName::from(format!("{long}{end}").as_str()))
        .to_vec();
    assert_eq!(plane.settle().evacuations.len(), 2);
}

#[test]
fn which_workloads_are_evicted_before_they_can_have_moved() {
    let quick =
        |seconds: i64| json!([{"key": "maintenance", "operator": "Exists", "tolerationSeconds": seconds}]);
    // A minute, and the time for which it has to be healthy.
    let text = "{mode: Auto, maxParallel: 1, verify: {healthyFor: 60s}}";
    for (tolerations, told) in [
        (json!([]), "at once"),
        (json!([{"key": "other", "operator": "Exists"}]), "at once"),
        (quick(0), "at once"),
        (quick(60), "at 2026-01-02T03:05:00Z"),
        (quick(124), "at 2026-01-02T03:06:04Z"),
        (quick(126), ""),
        (quick(i64::MAX), ""),
        (json!([{"operator": "Exists"}]), ""),
    ] {
        let mut plane = Plane::new(text).tainted(maintenance());
        plane.workloads = vec![workload(&tolerations)];
        plane.evacuations = vec![person(&json!({"cluster": "east"}), "Moving")];
        let all = plane.told();
        assert_eq!(
            all.contains("FlinkDeployment shop/orders may lose its state"),
            !told.is_empty()
        );
        assert!(all.contains(told), "{tolerations}: {all}");
        plane.workloads[0].is_guarded = true;
        assert_eq!(plane.told(), "", "{tolerations}");
    }
    // They go one after the other, and the second one has less time than that takes.
    let mut plane = Plane::new(text).tainted(maintenance());
    plane.workloads = vec![workload(&quick(150)), workload(&quick(150))];
    plane.workloads[1].key.name = "payments".to_owned();
    plane.evacuations = vec![person(&json!({"cluster": "east"}), "Moving")];
    let all = plane.told();
    assert!(
        all.contains("shop/payments") && !all.contains("shop/orders"),
        "{all}"
    );
    assert!(all.contains("clusterTolerations"), "{all}");
    // What is evicted first is moved first.
    let both = vec![workload(&quick(3600)), plane.workloads[1].clone()];
    let before = std::mem::replace(&mut plane.workloads, both);
    plane.workloads[1].applied = workload(&quick(126)).placement;
    assert_eq!(plane.told(), "");
    plane.workloads = before;
    // What a Migration has in hand tolerates everything, whatever its policy says.
    plane.workloads[1].applied = workload(&json!([{"operator": "Exists"}])).placement;
    assert_eq!(plane.told(), "");
    // A deletion asks nobody.
    plane.clusters[0]["metadata"]["deletionTimestamp"] = json!(NOW);
    assert!(
        plane.told().contains("at once for its deletion"),
        "{}",
        plane.told()
    );
    // Nothing is reported of what nothing is done about.
    plane.settings = settings("{mode: Auto, causes: [Cordon]}");
    assert_eq!(plane.told(), "");
}

#[test]
fn of_a_kind_that_cannot_be_moved_is_told_what_a_person_can_do() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    let of = Gvk::new("k8s.mariadb.com/v1alpha1", "MariaDB");
    // Evicted at once, and in an hour.
    for tolerations in [
        json!([]),
        json!([{"operator": "Exists", "tolerationSeconds": 3600}]),
    ] {
        plane.workloads = vec![workload(&tolerations)];
        assert!(plane.told().contains("FailoverPlan has to") || plane.told().contains("guard it with"));
        plane.workloads[0].immovable = crate::profile::why_immovable(&of);
        let told = plane.told();
        assert!(told.contains("restore a backup of it there"), "{told}");
        assert!(
            !told.contains("guard it with") && !told.contains("has to guard it"),
            "{told}"
        );
    }
}

#[test]
fn what_decides_changes_the_signature_and_nothing_else_does() {
    let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
    let before = signature(&plane.clusters[0]);
    plane.clusters[0]["status"] = json!({});
    plane.clusters[0]["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(signature(&plane.clusters[0]), before);
    plane.untaint();
    assert_ne!(signature(&plane.clusters[0]), before);
    let mut one = person(&json!({"cluster": "east"}), "Moving");
    let before = signature(&one);
    one["status"]["moves"] = json!([{"state": "Waiting"}]);
    assert_eq!(signature(&one), before);
    one["status"]["moves"] = json!([{"state": "Moving"}]);
    assert_ne!(signature(&one), before);
}

impl Plane {
    /// Protects clusters from deletion, or no longer; returns whether the first one is.
    fn protect(&mut self) -> bool {
        for step in protections(&self.view()) {
            self.take(step);
        }
        assert_eq!(protections(&self.view()), []);
        self.is_protected()
    }

    fn is_protected(&self) -> bool {
        protection::label(&self.clusters[0]) == Some("Always")
    }
}

#[test]
fn a_deletion_is_refused_until_the_cluster_has_been_emptied() {
    let mut plane = Plane::new("{mode: Auto}");
    assert!(plane.protect());
    plane.taint(maintenance());
    plane.settle();
    assert!(plane.protect(), "a workload with state runs there");
    assert!(plane.is_open(), "no change tells that nothing is left");
    plane.workloads[0].clusters = vec![ClusterName::from("west")];
    plane.evacuations[0]["status"] = json!({"phase": "Moving", "moves": [{"state": "Moving"}]});
    assert!(plane.protect(), "its move has not ended");
    plane.evacuations[0]["spec"]["abort"] = json!(true);
    assert!(plane.protect(), "what it rolls back may come again");
    plane.is("Completed");
    plane.workloads[0].leaving = vec![ClusterName::from("east")];
    assert!(plane.protect(), "Karmada evicts it, and its copy is there still");
    plane.workloads[0].leaving.clear();
    assert!(!plane.protect());
    assert!(!plane.is_open());
    plane.untaint();
    plane.settle();
    assert!(plane.protect(), "workloads may come again");
}

#[test]
fn an_evacuation_refuses_the_deletion_of_an_empty_cluster_only_while_it_moves_something() {
    for (phase, moves, is_refused) in [
        ("Pending", json!([]), false),
        ("Preflight", json!([{"state": "Waiting"}]), false),
        ("Moving", json!([{"state": "Moved"}, {"state": "Starting"}]), true),
        ("Moving", json!([{"state": "Moving"}]), true),
        (
            "Moving",
            json!([{"state": "Failed"}, {"state": "Waiting"}]),
            false,
        ),
        ("Ending", json!([{"state": "Moving"}]), true),
        ("Watching", json!([{"state": "Moved"}]), false),
    ] {
        let mut plane = Plane::new("{mode: Auto}").tainted(maintenance());
        let mut stands = person(&json!({"taint": {"key": "maintenance"}, "paused": true}), phase);
        stands["status"]["moves"] = moves;
        plane.evacuations.push(stands);
        assert!(plane.protect(), "{phase}: a workload with state runs there");
        plane.workloads.clear();
        assert_eq!(plane.protect(), is_refused, "{:#}", plane.evacuations[0]);
    }
}

#[test]
fn a_cluster_that_cannot_be_read_is_told_and_left_as_it_is() {
    let mut plane = Plane::new("{mode: Auto}");
    assert!(plane.protect());
    plane.clusters[0]["spec"]["taints"] = json!("maintenance");
    plane.workloads.clear();
    plane.settle();
    assert!(plane.protect(), "what it is emptied for is not known");
    let told = plane.told();
    assert!(told.contains("cluster east is left as it is"), "{told}");
    assert!(plane.is_open());
}

#[test]
fn what_a_person_says_about_the_protection_stands() {
    let mut plane = Plane::new("{mode: Ask}");
    plane.protect();
    plane.clusters[0]["metadata"]["labels"] = json!({});
    assert!(!plane.protect(), "who removes it means to delete the Cluster");
    // And nothing that comes in between makes it another one.
    plane.taint(maintenance());
    plane.workloads.clear();
    assert!(!plane.protect());
    plane.untaint();
    assert!(!plane.protect(), "the Cluster has been emptied, and is to go");
    let mut plane = Plane::new("{mode: Ask}");
    plane.clusters[0]["metadata"]["labels"] =
        json!({"resourcetemplate.karmada.io/deletion-protected": "Always"});
    plane.protect();
    plane.settings = settings("{mode: Ask, causes: [NoExecute]}");
    assert!(plane.protect(), "it is not cutover's label");
    // A Cluster that was restored has the annotations of another one.
    let mut plane = Plane::new("{mode: Ask}");
    plane.clusters[0]["metadata"]["annotations"] = json!({"cutover.dev/deletion-protected": "uid-before s1"});
    assert!(plane.protect());
}

#[test]
fn only_where_a_deletion_is_a_cause_it_is_refused() {
    let mut plane = Plane::new("{mode: Ask}");
    assert!(plane.protect());
    plane.sync = "another";
    plane.settings = settings("{mode: Ask, causes: [NoExecute]}");
    assert!(plane.protect(), "another sync asks for it");
    plane.sync = "s1";
    assert!(!plane.protect());
    assert!(!Plane::new("{}").protect());
    let mut plane = Plane::new("{mode: Ask}");
    plane.clusters[0]["metadata"]["deletionTimestamp"] = json!(NOW);
    assert!(!plane.protect(), "it is too late");
}

#[test]
fn the_protection_of_a_cluster_changes_its_signature() {
    let mut plane = Plane::new("{mode: Ask}");
    let before = signature(&plane.clusters[0]);
    plane.protect();
    let protected = signature(&plane.clusters[0]);
    assert_ne!(protected, before);
    plane.clusters[0]["metadata"]["labels"] = json!({});
    assert_ne!(signature(&plane.clusters[0]), protected);
}
