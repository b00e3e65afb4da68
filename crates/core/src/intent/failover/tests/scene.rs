//! A plan of `shop/orders` and a world around it, in which what the plan sends comes about at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::super::{Input, Operation, Snapshot, step};
use crate::api::{Claim, FailoverPhase, FailoverPlanSpec, FailoverPlanStatus, MARKER_ANNOTATION, claim_name};
use crate::intent::control_plane::{ControlPlane, Overrides};
use crate::intent::effect::Effect;
use crate::intent::member::{Member, Pod};
use crate::intent::{Read, Seen, Step, Trouble};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, OverridePolicy, ResourceBinding, Work, meta};

pub const UID: &str = "plan-uid";
pub const EAST: &str = "east";
pub const WEST: &str = "west";

/// Which rule of Flink's `lastKnown` is about its snapshots.
pub const SNAPSHOTS: usize = 2;

/// The control plane is read before any member, and pods after the copy.
pub const EARLY: u64 = 1;
pub const LATE: u64 = 10;

pub struct Scene {
    pub spec: FailoverPlanSpec,
    pub status: FailoverPlanStatus,
    pub snapshot: Snapshot,
    pub now: Timestamp,
    pub trouble: Option<Trouble>,
    pub deleting: bool,
}

pub fn seen<T>(value: T, at: u64) -> Seen<T> {
    let read = Read {
        sent: at,
        answered: at + 1,
    };
    Seen::known(value, read)
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub fn template() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop", "uid": "template-1"},
        "spec": {"flinkConfiguration": {}, "job": {"state": "running", "upgradeMode": "savepoint"}},
    })
}

/// A copy that never ran and may not.
pub fn held(marker: &str) -> Value {
    json!({
        "metadata": {
            "name": "orders", "uid": "copy", "generation": 1, "annotations": {MARKER_ANNOTATION: marker},
            "labels": {meta::MANAGED: "true"},
        },
        "spec": {"job": {"state": "suspended"}},
    })
}

pub fn running(marker: &str, handle: &str) -> Value {
    json!({
        "metadata": {
            "name": "orders", "uid": "copy", "generation": 2, "annotations": {MARKER_ANNOTATION: marker},
            "labels": {meta::MANAGED: "true"},
        },
        "spec": {"job": {"state": "running"}},
        "status": {
            "observedGeneration": 2, "jobManagerDeploymentStatus": "READY",
            "jobStatus": {"state": "RUNNING", "startTime": "1", "upgradeSavepointPath": handle},
            "reconciliationStatus": {"state": "DEPLOYED"},
        },
    })
}

pub fn member(object: Option<Value>) -> Member {
    Member {
        object: seen(object, LATE),
        pods: seen(Vec::<Pod>::new(), LATE + 1),
        nodes: seen(BTreeMap::new(), LATE + 2),
        ended: std::collections::BTreeSet::new(),
        unchanged: std::time::Duration::ZERO,
        silent: false,
    }
}

pub fn lost() -> Member {
    Member {
        silent: true,
        ..unread("i/o timeout")
    }
}

fn unread(why: &str) -> Member {
    Member {
        object: Seen::unknown(why),
        pods: Seen::unknown(why),
        nodes: Seen::unknown(why),
        ended: std::collections::BTreeSet::new(),
        unchanged: std::time::Duration::ZERO,
        silent: false,
    }
}

/// Somebody answered, and refused.
pub fn refused() -> Member {
    unread("403 forbidden")
}

/// Karmada has no answer of that cluster either.
pub fn cut_off(scene: &mut Scene, name: &str) {
    let mut clusters = (**scene.snapshot.around.plane.clusters.get().unwrap()).clone();
    let cluster = clusters.get_mut(&name.into()).unwrap();
    cluster.status.as_mut().unwrap().conditions[0].status = "False".to_owned();
    scene.snapshot.around.plane.clusters = seen(Arc::new(clusters), EARLY);
}

pub fn approve(scene: &mut Scene, gate: &str, cluster: &str, attempt: u32) {
    let approval = json!({"gate": gate, "cluster": cluster, "attempt": attempt, "by": "ann"});
    scene.spec.approvals.push(from(approval));
}

pub fn binding(uid: &str, clusters: &[&str], suspended: bool) -> ResourceBinding {
    let clusters: Vec<Value> = clusters.iter().map(|name| json!({"name": name})).collect();
    from(json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "name": "orders-flinkdeployment", "namespace": "shop", "uid": uid, "generation": 7,
            "labels": {"resourcebinding.karmada.io/permanent-id": format!("id-of-{uid}")},
        },
        "spec": {"clusters": clusters, "suspension": {"scheduling": suspended}, "resource": {
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders", "namespace": "shop",
        }},
    }))
}

pub fn work(marker: &str) -> Work {
    let manifest = json!({"metadata": {"name": "orders", "annotations": {MARKER_ANNOTATION: marker}}});
    from(json!({
        "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work", "metadata": {"name": "orders"},
        "spec": {"workload": {"manifests": [manifest]}},
    }))
}

fn cluster(name: &str) -> (ClusterName, Cluster) {
    let cluster = json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "uid": format!("uid-of-{name}")}, "spec": {"id": name, "syncMode": "Push"},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "ClusterReady", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    });
    (name.into(), from(cluster))
}

impl Scene {
    /// It runs in east, guarded.
    pub fn guarding() -> Self {
        let profile = &crate::profile::built_in().unwrap()[0].spec;
        let spec = json!({"workload": {
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders",
        }});
        let identity = |name: &str| format!("uid-of-{name}/{name}");
        let status = json!({
            "phase": "Guarding", "startedAt": "2026-01-01T00:00:00Z", "rounds": 1, "attempt": 0, "writer": EAST,
            "journal": {
                "spec": spec, "profile": profile, "binding": {"name": "orders-flinkdeployment", "uid": "binding-1", "id": "id-of-binding-1"},
                "templateUid": "template-1", "round": 1, "seq": 3, "pinned": true, "writer": EAST,
                "identities": {EAST: identity(EAST), WEST: identity(WEST)},
            },
        });
        let unread = || "not read in this test";
        let workload = ObjectKey {
            group: "flink.apache.org".to_owned(),
            kind: "FlinkDeployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "orders".to_owned(),
        };
        let snapshot = Snapshot {
            around: crate::intent::Snapshot {
                plane: ControlPlane {
                    template: seen(Some(template()), EARLY),
                    binding: seen(Some(binding("binding-1", &[EAST], false)), EARLY),
                    works: seen(BTreeMap::new(), EARLY),
                    claim: seen(None, EARLY),
                    pin: seen(None, EARLY),
                    overrides: seen(Overrides::default(), EARLY),
                    clusters: seen(Arc::new([cluster(EAST), cluster(WEST)].into()), EARLY),
                    canary: seen(None, EARLY),
                    leases: seen(BTreeMap::new(), EARLY),
                    profiles: Seen::unknown(unread()),
                },
                ..crate::intent::Snapshot::unread(workload, unread())
            },
            migrations: seen(Vec::new(), EARLY),
            kept: Seen::unknown(unread()),
            beside: [EAST, WEST]
                .map(|name| (name.into(), BTreeMap::from([(SNAPSHOTS, seen(Vec::new(), LATE))])))
                .into(),
            needed: None,
        };
        let mut scene = Self {
            spec: from(spec),
            status: from(status),
            snapshot,
            now: "2026-01-01T01:00:00Z".parse().unwrap(),
            trouble: None,
            deleting: false,
        };
        scene.come_about();
        scene.work_in(EAST);
        scene.see(EAST, member(Some(running(&scene.marker(), "s3://seen"))));
        scene.see(WEST, member(None));
        scene
    }

    /// East is left, west is chosen and held; nothing is known to run, and the state is in Git.
    pub fn fencing() -> Self {
        let mut scene = Self::guarding();
        let journal = scene.status.journal.as_mut().unwrap();
        journal.writer = None;
        journal.pin.seq = 5;
        journal.clusters = vec![WEST.into()];
        journal.fence = from(json!({
            "recorded": true, "canary": 1, "suspending": 6, "lowered": false, "resumed": false,
            "barrier": {"canary": "canary-1", "passedAt": "2026-01-01T00:59:00Z", "leases": {}},
        }));
        journal.flight = Some(from(json!({
            "from": EAST, "to": WEST, "reason": "a test", "since": "2026-01-01T00:59:00Z", "withSource": false,
            "state": {
                "source": "LastKnown", "values": {"savepoint": "s3://seen"}, "evidence": "seen", "at": "2026-01-01T00:58:00Z",
            },
        })));
        scene.status.phase = FailoverPhase::Fencing;
        scene.status.common.attempt = 1;
        scene.snapshot.around.plane.binding = seen(Some(binding("binding-1", &[WEST], true)), EARLY);
        scene.snapshot.around.plane.works = seen(BTreeMap::new(), EARLY);
        scene.come_about();
        scene.work_in(WEST);
        scene.see(EAST, member(None));
        scene.see(WEST, member(Some(held(&scene.marker()))));
        scene.snapshot.kept = seen(Some(scene.status.clone()), EARLY);
        scene
    }

    /// The same, when it is decided that west is let go, and nothing of it is sent.
    pub fn releasing() -> Self {
        let mut scene = Self::fencing();
        let pin = scene.snapshot.around.plane.pin.clone();
        while scene.status.phase == FailoverPhase::Fencing {
            assert_eq!(names(&scene.pass()), Vec::<String>::new());
        }
        scene.snapshot.around.plane.pin = pin;
        scene
    }

    pub fn flight(&mut self) -> &mut crate::api::Flight {
        self.status.journal.as_mut().unwrap().flight.as_mut().unwrap()
    }

    pub fn see(&mut self, cluster: &str, member: Member) {
        self.snapshot.around.members.insert(cluster.into(), member);
    }

    pub fn work_in(&mut self, cluster: &str) {
        let marker = self.marker();
        let Seen::Known { value: works, .. } = &mut self.snapshot.around.plane.works else {
            panic!("the Works are unknown");
        };
        works.insert(cluster.into(), work(&marker));
    }

    pub fn marker(&self) -> String {
        self.with(|machine| machine.marker().ok().unwrap())
    }

    pub fn is(&self, phase: FailoverPhase) -> bool {
        self.status.phase == phase
    }

    pub fn waits(&self) -> String {
        let waits = self.status.common.waiting_for.as_ref();
        waits.map(|wait| wait.reason.clone()).unwrap_or_default()
    }

    pub fn told(&self) -> Vec<&str> {
        let findings = self.status.common.findings.iter();
        findings.map(|finding| finding.code.as_str()).collect()
    }

    pub fn later(&mut self, by: SignedDuration) {
        self.now += by;
    }

    /// Passes in good time, as long as that; returns who was let run by what was sent.
    pub fn watch(&mut self, time: SignedDuration) -> Vec<String> {
        let until = self.now + time;
        let mut let_go = self.play();
        while self.now < until {
            self.later(SignedDuration::from_secs(20));
            let_go.extend(self.play());
        }
        let_go
    }

    fn input(&self) -> Input<'_> {
        Input {
            uid: UID,
            namespace: Some("shop"),
            name: "orders",
            generation: 1,
            revision: None,
            deleting: self.deleting,
            overtaken: None,
            has_finalizer: true,
            spec: &self.spec,
            status: &self.status,
            trouble: self.trouble.as_ref(),
            ahead: None,
            snapshot: &self.snapshot,
            now: self.now,
        }
    }

    fn with<T>(&self, look: impl FnOnce(&Operation<'_>) -> T) -> T {
        let input = self.input();
        look(&Operation::of(&input))
    }

    /// One pass, whose status is written and whose effects aren't sent.
    pub fn pass(&mut self) -> Step<FailoverPlanStatus> {
        let step = step(&self.input());
        self.status = step.status.clone();
        step
    }

    /// Passes until something is sent, or nothing changes any more.
    pub fn settle(&mut self) -> Vec<Effect> {
        for _ in 0..50 {
            let before = self.status.clone();
            let step = self.pass();
            if !step.effects.is_empty() || before == self.status {
                let goes_round =
                    step.effects.is_empty() && step.requeue_after == Some(std::time::Duration::ZERO);
                assert!(!goes_round, "it goes round in circles: {:#?}", self.status);
                return step.effects;
            }
        }
        panic!("it doesn't come to rest: {:#?}", self.status);
    }

    /// Goes on as far as it goes, while claims, pins and records that it sends come about; returns who was let run by them.
    pub fn play(&mut self) -> Vec<String> {
        let mut let_go = Vec::new();
        for _ in 0..50 {
            let effects = self.settle();
            // What Karmada and the scheduler make of the rest is for the sandbox.
            let is_ours = |effect: &Effect| {
                matches!(
                    effect,
                    Effect::CreateClaim { .. }
                        | Effect::ReplaceClaim { .. }
                        | Effect::WritePin(_)
                        | Effect::Keep(_)
                )
            };
            if !effects.iter().any(is_ours) {
                return let_go;
            }
            for effect in effects {
                let_go.extend(names_of(&effect));
                self.send(effect);
            }
        }
        panic!("it sends again and again: {:#?}", self.status);
    }

    pub fn send(&mut self, effect: Effect) {
        match effect {
            Effect::CreateClaim { .. } | Effect::ReplaceClaim { .. } => self.claim_comes_about(),
            Effect::WritePin(write) => self.pin_comes_about(write.policy().clone()),
            Effect::Keep(kept) => self.snapshot.kept = seen(Some(kept.status), EARLY),
            _ => {}
        }
    }

    /// Claim and pin are there as the journal has them.
    pub fn come_about(&mut self) {
        self.claim_comes_about();
        let pin = self.with(|machine| machine.compile().ok().unwrap().policy());
        self.pin_comes_about(pin);
    }

    fn claim_comes_about(&mut self) {
        let spec = self.with(|machine| {
            let terms = machine.terms().ok().unwrap();
            let state = &machine.journal().ok().unwrap().pin;
            machine.custody().ok().unwrap().spec(state, terms)
        });
        if self.snapshot.around.plane.claim.get().is_ok() {
            let mut claim = Claim::new(&claim_name(&self.snapshot.around.workload), spec);
            claim.metadata.uid = Some("claim".to_owned());
            self.snapshot.around.plane.claim = seen(Some(claim), EARLY);
        }
    }

    /// Every copy that the binding lists carries its marker.
    fn pin_comes_about(&mut self, pin: OverridePolicy) {
        let marker = crate::intent::pin::marker_of(&pin).map(str::to_owned);
        if self.snapshot.around.plane.pin.get().is_ok() {
            self.snapshot.around.plane.pin = seen(Some(pin.clone()), EARLY);
        }
        let overrides = Overrides {
            cluster_wide: Arc::default(),
            namespaced: Arc::new(vec![pin]),
            ..Overrides::default()
        };
        if self.snapshot.around.plane.overrides.get().is_ok() {
            self.snapshot.around.plane.overrides = seen(overrides, EARLY);
        }
        if let (Some(marker), Seen::Known { value: works, .. }) =
            (marker, &mut self.snapshot.around.plane.works)
        {
            for work_of in works.values_mut() {
                *work_of = work(&marker);
            }
            for (name, member) in &mut self.snapshot.around.members {
                if let Seen::Known {
                    value: Some(copy), ..
                } = &mut member.object
                    && works.contains_key(name)
                {
                    copy["metadata"]["annotations"][MARKER_ANNOTATION] = json!(marker);
                }
            }
        }
    }
}

/// Returns whom the effects of a step let run.
pub fn names(step: &Step<FailoverPlanStatus>) -> Vec<String> {
    step.effects.iter().filter_map(names_of).collect()
}

/// Returns the cluster that a written pin lets run.
pub fn names_of(effect: &Effect) -> Option<String> {
    let Effect::WritePin(write) = effect else {
        return None;
    };
    let rules = &write.policy().spec.override_rules;
    let hold = rules.first()?.target_cluster.as_ref()?;
    Some(hold.exclude.as_ref()?.first()?.to_string())
}
