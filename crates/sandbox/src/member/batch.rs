//! A simulator of operators of runs to completion, each with one pod: Kubernetes' Jobs, and what is built like them.
//!
//! What they have in common, after their sources: a suspension deletes the pods, and the status says so before they are gone; a
//! run that has ended is not suspended any more, and its pod stays; the state of a run is its own affair, here a store that every cluster reaches.
//! The annotation [`ENDS`] lets a run that is under way come to its end: `well` or `badly`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::cache::{Cache, Key};
use super::pods::{Shown, seconds};
use super::{Context, PodPhase, PodView, later, status};
use crate::ledger::{Group, Origin, Start, Writer};
use cutover_karmada::name::ObjectKey;

/// Lets a run come to its end.
pub const ENDS: &str = "sandbox.cutover.dev/ends";

/// A kind of run, and how its operator tells of it.
#[derive(Debug)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    /// Where its spec says that it is to stop; a JSON pointer.
    suspend: &'static str,
    /// The label that tells its pods, with its name.
    label: &'static str,
    status: fn(&Told) -> Value,
}

/// What an operator tells in a status.
#[derive(Debug)]
struct Told {
    stage: Stage,
    /// The number of the run; 0: it never ran.
    run: u32,
    since: String,
    /// When the run began.
    began: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Suspended,
    Starting,
    Running,
    Ended { well: bool },
}

impl Told {
    fn condition(&self, kind: &str, holds: bool) -> Value {
        let status = if holds { "True" } else { "False" };
        json!({"type": kind, "status": status, "reason": kind, "message": "", "lastTransitionTime": self.since})
    }

    fn ready(&self) -> u32 {
        u32::from(self.stage == Stage::Running)
    }

    fn active(&self) -> u32 {
        u32::from(matches!(self.stage, Stage::Running | Stage::Starting))
    }

    fn one_of<T>(&self, suspended: T, starting: T, running: T, ended: [T; 2]) -> T {
        let [well, badly] = ended;
        match self.stage {
            Stage::Suspended => suspended,
            Stage::Starting => starting,
            Stage::Running => running,
            Stage::Ended { well: true } => well,
            Stage::Ended { well: false } => badly,
        }
    }
}

/// Kubernetes' own controller.
pub const JOB: Kind = Kind {
    group: "batch",
    version: "v1",
    kind: "Job",
    plural: "jobs",
    suspend: "/spec/suspend",
    label: "job-name",
    status: |told| {
        let mut conditions = vec![told.condition("Suspended", told.stage == Stage::Suspended)];
        if let Stage::Ended { well } = told.stage {
            conditions.push(told.condition(if well { "Complete" } else { "Failed" }, true));
        }
        json!({
            "active": told.active(), "ready": told.ready(), "startTime": told.began, "conditions": conditions,
        })
    },
};

/// Kinds whose definitions a cluster has only where somebody installs them.
pub const OTHERS: [Kind; 5] = [
    Kind {
        group: "sparkoperator.k8s.io",
        version: "v1beta2",
        kind: "SparkApplication",
        plural: "sparkapplications",
        suspend: "/spec/suspend",
        label: "sparkoperator.k8s.io/app-name",
        status: |told| {
            let state = told.one_of("SUSPENDED", "SUBMITTED", "RUNNING", ["COMPLETED", "FAILED"]);
            let submission = (told.run > 0).then(|| format!("submission-{}", told.run));
            json!({"applicationState": {"state": state}, "submissionID": submission})
        },
    },
    Kind {
        group: "ray.io",
        version: "v1",
        kind: "RayJob",
        plural: "rayjobs",
        suspend: "/spec/suspend",
        label: "workload",
        status: |told| {
            let deployment = told.one_of("Suspended", "Initializing", "Running", ["Complete", "Failed"]);
            let job = told.one_of("", "PENDING", "RUNNING", ["SUCCEEDED", "FAILED"]);
            let id = (told.active() > 0).then(|| format!("run-{}", told.run));
            json!({"jobDeploymentStatus": deployment, "jobStatus": job, "jobId": id})
        },
    },
    Kind {
        group: "kubeflow.org",
        version: "v1",
        kind: "PyTorchJob",
        plural: "pytorchjobs",
        suspend: "/spec/runPolicy/suspend",
        label: "training.kubeflow.org/job-name",
        status: |told| {
            let conditions = vec![
                told.condition("Created", true),
                told.condition("Running", told.stage == Stage::Running),
                told.condition("Suspended", told.stage == Stage::Suspended),
                told.condition("Succeeded", told.stage == Stage::Ended { well: true }),
                told.condition("Failed", told.stage == Stage::Ended { well: false }),
            ];
            json!({
                "conditions": conditions, "startTime": told.began,
                "replicaStatuses": {"Master": {"active": told.active()}},
            })
        },
    },
    Kind {
        group: "jobset.x-k8s.io",
        version: "v1alpha2",
        kind: "JobSet",
        plural: "jobsets",
        suspend: "/spec/suspend",
        label: "jobset.sigs.k8s.io/jobset-name",
        status: |told| {
            let mut conditions = vec![told.condition("Suspended", told.stage == Stage::Suspended)];
            if let Stage::Ended { well } = told.stage {
                conditions.push(told.condition(if well { "Completed" } else { "Failed" }, true));
            }
            json!({"conditions": conditions, "restarts": 0, "replicatedJobsStatus": [{
                "name": "workers", "ready": told.ready(), "active": told.active(), "failed": 0, "succeeded": 0,
                "suspended": u32::from(told.stage == Stage::Suspended),
            }]})
        },
    },
    Kind {
        group: "trainer.kubeflow.org",
        version: "v1alpha1",
        kind: "TrainJob",
        plural: "trainjobs",
        suspend: "/spec/suspend",
        label: "jobset.sigs.k8s.io/jobset-name",
        status: |told| {
            let mut conditions = vec![told.condition("Suspended", told.stage == Stage::Suspended)];
            if let Stage::Ended { well } = told.stage {
                conditions.push(told.condition(if well { "Complete" } else { "Failed" }, true));
            }
            json!({"conditions": conditions, "jobsStatus": [{
                "name": "node", "ready": told.ready(), "active": told.active(), "failed": 0, "succeeded": 0,
                "suspended": u32::from(told.stage == Stage::Suspended),
            }]})
        },
    },
];

impl Kind {
    fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Returns a definition that takes whatever its operator's does, and more.
    pub fn definition(&self) -> Value {
        let name = format!("{}.{}", self.plural, self.group);
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {
                    "kind": self.kind, "listKind": format!("{}List", self.kind),
                    "plural": self.plural, "singular": self.kind.to_lowercase(),
                },
                "versions": [{
                    "name": self.version, "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
                }],
            },
        })
    }
}

/// Runs the operator of a kind and its pods, for ever.
pub async fn run(client: Client, context: Arc<Context>, kind: &'static Kind) {
    let cache = Cache::new();
    let mut changes = cache.subscribe();
    let own = Arc::clone(&context);
    let behind = || own.lag.behind(&own.cluster, kind.plural);
    let feed = cache
        .clone()
        .feed(client.clone(), kind.resource(), behind, &own, |object| object);
    let work = async {
        let mut operator = Operator {
            client,
            context,
            kind,
            runs: BTreeMap::new(),
            shown: Shown::default(),
        };
        loop {
            changes.mark_unchanged();
            let next = operator.pass(&cache).await;
            tokio::select! {
                () = operator.context.clock.sleep_until(next) => {}
                _ = changes.changed() => {}
            }
        }
    };
    tokio::join!(feed, work);
}

struct Operator {
    client: Client,
    context: Arc<Context>,
    kind: &'static Kind,
    runs: BTreeMap<(Key, String), Run>,
    shown: Shown,
}

impl Operator {
    /// Brings every object a step further; returns when to look again.
    async fn pass(&mut self, cache: &Cache) -> Timestamp {
        let now = self.context.clock.now();
        let mut statuses = Vec::new();
        let mut wanted: BTreeMap<(Key, String), Arc<DynamicObject>> = BTreeMap::new();
        for (key, object) in cache.all() {
            wanted.insert((key, object.uid().unwrap_or_default()), object);
        }
        for id in wanted.keys() {
            self.runs.entry(id.clone()).or_default();
        }
        let mut again = Timestamp::MAX;
        for (id, run) in &mut self.runs {
            let object = wanted.get(id);
            let order = object.map_or(Order::Gone, |object| Order::of(object, self.kind));
            run.advance(order, &self.context, now);
            run.report(&self.context, self.kind, id, now);
            again = again.min(run.next_change(now));
            if let Some(object) = object {
                let told = run.told(now);
                statuses.push((id.0.clone(), Arc::clone(object), (self.kind.status)(&told)));
            }
        }
        self.runs
            .retain(|id, run| wanted.contains_key(id) || run.pod.is_some());
        let pods = self
            .runs
            .iter()
            .filter_map(|((key, uid), run)| run.view(key, uid, self.kind, now));
        let mut complete = self.shown.show(&self.client, &self.context, pods.collect()).await;
        for (key, object, status) in statuses {
            let shown = Some(&object.data["status"]);
            complete &= status::write(&self.client, &self.kind.resource(), &key, shown, &status).await;
        }
        if complete {
            again
        } else {
            later(now, self.context.timings.retry).min(again)
        }
    }
}

/// What an object asks of its operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Run,
    Suspend,
    End { well: bool },
    Gone,
}

impl Order {
    fn of(object: &DynamicObject, kind: &Kind) -> Self {
        let is_suspended = object.data.pointer(kind.suspend) == Some(&Value::Bool(true));
        match object.annotations().get(ENDS).map(String::as_str) {
            _ if is_suspended => Self::Suspend,
            Some("well") => Self::End { well: true },
            Some("badly") => Self::End { well: false },
            _ => Self::Run,
        }
    }
}

/// One object's run as a function of time.
#[derive(Debug)]
struct Run {
    stage: Stage,
    since: Timestamp,
    count: u32,
    began: Option<Timestamp>,
    pod: Option<Pod>,
    writing: bool,
}

#[derive(Clone, Copy, Debug)]
struct Pod {
    ready_at: Timestamp,
    gone_at: Option<Timestamp>,
    /// How its container has ended.
    ended: Option<bool>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            stage: Stage::Suspended,
            since: Timestamp::UNIX_EPOCH,
            count: 0,
            began: None,
            pod: None,
            writing: false,
        }
    }
}

impl Run {
    fn advance(&mut self, order: Order, context: &Context, now: Timestamp) {
        self.pod = self.pod.filter(|pod| pod.gone_at.is_none_or(|gone| gone > now));
        let before = self.stage;
        let is_ready = self
            .pod
            .is_some_and(|pod| pod.gone_at.is_none() && pod.ready_at <= now);
        self.stage = match (order, before) {
            (Order::Gone | Order::Suspend, Stage::Suspended) | (Order::Gone, _) => Stage::Suspended,
            (_, Stage::Ended { well }) | (Order::End { well }, Stage::Running) => Stage::Ended { well },
            (Order::Suspend, _) => Stage::Suspended,
            (Order::Run | Order::End { .. }, _) if is_ready => Stage::Running,
            (Order::Run | Order::End { .. }, _) => Stage::Starting,
        };
        let has_pod = matches!(self.stage, Stage::Starting | Stage::Running);
        match (&mut self.pod, self.stage) {
            (Some(pod), Stage::Ended { well }) => pod.ended = Some(well),
            (Some(pod), _) if !has_pod => {
                pod.gone_at.get_or_insert(later(now, context.timings.teardown));
            }
            (None, _) if has_pod => {
                self.count += 1;
                self.began = Some(now);
                let ready_at = later(now, context.timings.pod_start);
                self.pod = Some(Pod {
                    ready_at,
                    gone_at: None,
                    ended: None,
                });
            }
            // The old pod has to be gone before another one of that name is made.
            (Some(_) | None, _) => {}
        }
        if before != self.stage || self.since == Timestamp::UNIX_EPOCH {
            self.since = now;
        }
    }

    fn next_change(&self, now: Timestamp) -> Timestamp {
        let pod = self.pod.iter().flat_map(|pod| [Some(pod.ready_at), pod.gone_at]);
        pod.flatten()
            .filter(|at| *at > now)
            .min()
            .unwrap_or(Timestamp::MAX)
    }

    /// Tells the ledger when the pod begins to write and when it no longer does.
    fn report(
        &mut self,
        context: &Context,
        kind: &Kind,
        ((namespace, name), uid): &(Key, String),
        now: Timestamp,
    ) {
        let workload = ObjectKey {
            group: kind.group.to_owned(),
            kind: kind.kind.to_owned(),
            namespace: Some(namespace.clone()),
            name: name.clone(),
        };
        let writer = Writer {
            cluster: context.cluster.clone(),
            uid: uid.clone(),
        };
        let writing = self
            .pod
            .is_some_and(|pod| pod.ready_at <= now && pod.ended.is_none());
        match (self.writing, writing) {
            (false, true) => context.ledger.writer_started(Start {
                workload,
                writer,
                group: Group::Stateful,
                at: now,
                handle_given: None,
                restored_from: Origin::Volume(format!("shared/{namespace}/{name}")),
                writes: 0,
                by_itself: false,
            }),
            (true, false) => context.ledger.writer_stopped(&workload, &writer, now),
            _ => {}
        }
        self.writing = writing;
    }

    fn view(&self, (namespace, name): &Key, uid: &str, kind: &Kind, now: Timestamp) -> Option<PodView> {
        let pod = self.pod?;
        Some(PodView {
            restarts: 0,
            namespace: namespace.clone(),
            name: format!("{name}-{}-{}", uid.get(..5).unwrap_or(uid), self.count),
            labels: vec![(kind.label.to_owned(), name.clone())],
            container: "main".to_owned(),
            image: "run".to_owned(),
            phase: match pod.ended {
                Some(well) => PodPhase::Ended { well },
                None if pod.ready_at <= now => PodPhase::Running,
                None => PodPhase::starting(),
            },
        })
    }

    fn told(&self, now: Timestamp) -> Told {
        let since = if self.since == Timestamp::UNIX_EPOCH {
            now
        } else {
            self.since
        };
        Told {
            stage: self.stage,
            run: self.count,
            since: seconds(since),
            began: self.began.map(seconds),
        }
    }
}
