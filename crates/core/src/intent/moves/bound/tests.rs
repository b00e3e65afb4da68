//! Thousands of workloads through the machine, with a control plane that does at once what is asked of it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{AT_ONCE, LISTED};
use crate::api::{EvacuationSpec, Migration, MoveState, MovesPhase, MovesStatus, WAITS_ANNOTATION};
use crate::intent::effect::Effect;
use crate::intent::moves::{Input, PreflightResult, Snapshot, name_of, step, unchecked};
use crate::intent::{Read, Seen};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::ClusterName;

/// What an API server takes of one object.
const MOST_BYTES: usize = 1_500_000;

fn seen<T>(value: T) -> Seen<T> {
    Seen::known(value, Read { sent: 1, answered: 2 })
}

fn cluster(name: &str) -> cutover_karmada::Cluster {
    serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name, "uid": name},
        "spec": {"syncMode": "Push"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "apiEnablements": [{"groupVersion": "flink.apache.org/v1beta1", "resources": [{"kind": "FlinkDeployment", "name": "f"}]}],
        },
    }))
    .unwrap()
}

fn name(index: usize) -> String {
    format!("a-job-with-a-name-of-some-length-{index:05}")
}

fn binding(index: usize, cluster: &str) -> ResourceBinding {
    serde_json::from_value(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": format!("{}-flinkdeployment", name(index)), "namespace": "shop"},
        "spec": {
            "resource": {
                "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "namespace": "shop", "name": name(index),
            },
            "clusters": [{"name": cluster}],
        },
    }))
    .unwrap()
}

struct Plane {
    snapshot: Snapshot,
    status: MovesStatus<EvacuationSpec>,
    spec: EvacuationSpec,
    /// The largest status that was ever written.
    largest: usize,
    passes: usize,
}

impl Plane {
    fn new(count: usize, spec: Value) -> Self {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let bindings: Vec<ResourceBinding> = (0..count).map(|index| binding(index, "east")).collect();
        let templates = bindings
            .iter()
            .map(|one| (name_of(one).key(), json!({"metadata": {}, "spec": {}})));
        let clusters = ["east", "west"].map(|name| (name.into(), cluster(name)));
        Self {
            snapshot: Snapshot {
                now,
                clusters: seen(BTreeMap::from(clusters)),
                looked: true,
                migrations: seen(BTreeMap::new()),
                rebalancers: seen(BTreeMap::new()),
                templates: seen(templates.collect()),
                bindings: seen(bindings),
                profiles: seen(Vec::new()),
                claims: seen(BTreeMap::new()),
                verdicts: BTreeMap::new(),
                rescheduled: BTreeMap::new(),
                evictions: BTreeMap::new(),
                record: seen(None),
            },
            status: MovesStatus::default(),
            spec: serde_json::from_value(spec).unwrap(),
            largest: 0,
            passes: 0,
        }
    }

    /// One pass; what it asks for is done, and what it wants to know is found clear, but of one in `blocked`.
    fn pass(&mut self, blocked: usize) {
        self.snapshot.now += SignedDuration::from_secs(1);
        self.passes += 1;
        let step = step(&Input {
            uid: "uid",
            namespace: None,
            name: "drain",
            generation: 1,
            revision: None,
            deleting: false,
            overtaken: None,
            has_finalizer: true,
            spec: &self.spec,
            status: &self.status,
            trouble: None,
            ahead: None,
            snapshot: &self.snapshot,
            now: self.snapshot.now,
        });
        self.status = step.status;
        let size = serde_json::to_vec(&self.status).unwrap().len();
        self.largest = self.largest.max(size);
        for effect in &step.effects {
            self.obey(effect);
        }
        self.snapshot.verdicts = unchecked(&self.status, false)
            .into_iter()
            .map(|one| {
                let index: usize = one.workload.name[one.workload.name.len() - 5..].parse().unwrap();
                let finding = crate::api::Finding::new("RetainReplicas", "x".repeat(150), "y".repeat(100));
                let verdict = if blocked > 0 && index.is_multiple_of(blocked) {
                    PreflightResult::Blocked(vec![finding])
                } else {
                    PreflightResult::Clear
                };
                ((one.workload.key(), one.to.clone().unwrap()), verdict)
            })
            .collect();
    }

    fn obey(&mut self, effect: &Effect) {
        let (
            Seen::Known {
                value: migrations, ..
            },
            Seen::Known { value: bindings, .. },
        ) = (&mut self.snapshot.migrations, &mut self.snapshot.bindings)
        else {
            unreachable!()
        };
        match effect {
            Effect::CreateIntent { manifest } => {
                let mut made: Migration = serde_json::from_value((**manifest).clone()).unwrap();
                made.metadata.uid = Some("child".to_owned());
                let of = (
                    made.metadata.namespace.clone().unwrap(),
                    made.metadata.name.clone().unwrap(),
                );
                assert!(migrations.insert(of, made).is_none(), "made twice");
            }
            Effect::PatchIntent { intent, .. } => {
                let of = (intent.namespace.clone().unwrap(), intent.name.clone());
                let child = migrations.get_mut(&of).unwrap();
                child
                    .metadata
                    .annotations
                    .as_mut()
                    .unwrap()
                    .remove(WAITS_ANNOTATION);
                child.status = serde_json::from_value(json!({"phase": "Completed"})).unwrap();
                let workload = child.spec.workload.name.clone();
                let moved = bindings
                    .iter_mut()
                    .find(|one| one.spec.resource.name == workload)
                    .unwrap();
                moved.spec.clusters[0].name = "west".into();
            }
            other => unreachable!("{other}"),
        }
    }

    fn until(&mut self, blocked: usize, phase: MovesPhase) {
        while self.status.phase != phase {
            self.pass(blocked);
            assert!(
                self.passes < 2_000,
                "{:?} {:?}",
                self.status.phase,
                self.status.common.waiting_for
            );
        }
    }
}

#[test]
fn thousands_leave_with_a_status_that_an_api_server_takes() {
    let many = 2_600;
    let spec = json!({"cluster": "east", "cordon": false, "unmovable": "Leave", "maxParallel": 100});
    let mut plane = Plane::new(many, spec);
    plane.until(0, MovesPhase::Moving);
    let tally = plane.status.progress.unwrap();
    assert_eq!((tally.done, tally.of), (0, 2_600));
    assert_eq!(plane.status.moves.len(), LISTED);
    plane.until(0, MovesPhase::Completed);
    let tally = plane.status.progress.unwrap();
    assert_eq!((tally.done, tally.of, tally.failed), (2_600, 2_600, 0));
    assert_eq!(plane.status.later, 0);
    assert!(plane.status.moves.len() <= LISTED + 100);
    assert!(plane.status.moves.iter().all(|one| one.state == MoveState::Moved));
    assert!(plane.largest < MOST_BYTES / 2, "{} bytes", plane.largest);
    // Each was moved once: the plane would have said otherwise.
    assert_eq!(plane.snapshot.migrations.get().unwrap().len(), many);
}

#[test]
fn thousands_that_stay_are_counted_and_the_first_are_named() {
    let spec = json!({"cluster": "east", "cordon": false, "unmovable": "Leave", "maxParallel": 100});
    let mut plane = Plane::new(2_000, spec);
    // No other cluster takes any.
    plane.snapshot.clusters = seen(BTreeMap::from([("east".into(), cluster("east"))]));
    plane.until(0, MovesPhase::Completed);
    assert_eq!(plane.status.stays.len(), LISTED);
    assert_eq!(plane.status.more_stays as usize, 2_000 - LISTED);
    assert!(plane.largest < MOST_BYTES / 2, "{} bytes", plane.largest);
}

#[test]
fn where_all_have_to_be_looked_at_first_too_many_are_not_begun() {
    let spec = json!({"cluster": "east", "cordon": false, "maxParallel": 100});
    let mut plane = Plane::new(AT_ONCE + 1, spec.clone());
    for _ in 0..10 {
        plane.pass(0);
    }
    assert_eq!(plane.status.phase, MovesPhase::Preflight);
    let why = plane.status.common.waiting_for.as_ref().unwrap().reason.clone();
    assert!(
        why.starts_with(&format!("{} workloads are more than the {AT_ONCE}", AT_ONCE + 1)),
        "{why}"
    );
    assert!(plane.snapshot.migrations.get().unwrap().is_empty());
    assert!(plane.largest < MOST_BYTES / 2, "{} bytes", plane.largest);
    let mut plane = Plane::new(LISTED * 2, spec);
    plane.until(0, MovesPhase::Completed);
    assert_eq!(plane.status.progress.unwrap().done as usize, LISTED * 2);
}

#[test]
fn what_is_blocked_takes_no_place_of_those_that_come_later_unless_it_is_too_much() {
    let spec = json!({"cluster": "east", "cordon": false, "unmovable": "Leave", "maxParallel": 100});
    let mut plane = Plane::new(1_500, spec.clone());
    plane.until(10, MovesPhase::Completed);
    let tally = plane.status.progress.unwrap();
    assert_eq!((tally.done, plane.status.later), (1_350, 0), "{tally:?}");
    assert!(plane.largest < MOST_BYTES / 2, "{} bytes", plane.largest);

    let mut plane = Plane::new(1_500, spec);
    plane.until(2, MovesPhase::Completed);
    let blocked = plane
        .status
        .moves
        .iter()
        .filter(|one| one.blocked.is_some())
        .count();
    let (done, later) = (
        plane.status.progress.unwrap().done as usize,
        plane.status.later as usize,
    );
    assert!((LISTED..LISTED * 2).contains(&blocked), "{blocked}");
    assert!(later > 0 && done > 0, "{done} {blocked} {later}");
    assert_eq!(done + blocked + later, 1_500);
    assert!(plane.largest < MOST_BYTES / 2, "{} bytes", plane.largest);
    let said = plane.status.common.steps.last().unwrap().evidence.join("");
    assert!(said.ends_with("more are left for later"), "{said}");
}

#[test]
fn one_for_a_taint_is_about_no_cluster_any_more_when_the_taint_has_gone() {
    let mut plane = Plane::new(1, json!({"taint": {"key": "maintenance"}, "cordon": false}));
    let mut tainted = cluster("east");
    let taints = json!([{"key": "maintenance", "effect": "NoSchedule"}]);
    tainted.spec.taints = serde_json::from_value(taints).unwrap();
    let clusters = |east| {
        let all = [("east", east), ("west", cluster("west"))];
        seen(
            all.map(|(name, cluster)| (ClusterName::from(name), cluster))
                .into(),
        )
    };
    plane.snapshot.clusters = clusters(tainted);
    plane.until(0, MovesPhase::Moving);
    plane.until(0, MovesPhase::Watching);
    plane.pass(0);
    assert_eq!(plane.status.clusters, [ClusterName::from("east")]);
    plane.snapshot.clusters = clusters(cluster("east"));
    plane.pass(0);
    assert_eq!(plane.status.phase, MovesPhase::Watching);
    assert!(plane.status.clusters.is_empty());
}
