//! Beside Kueue in a member, which lets a suspended Job run as soon as it has admitted it, whoever has suspended it
//! (kubernetes-sigs/kueue@v0.19.2, pkg/controller/jobframework: `ApplyDefaultLocalQueue`, step 7 of `ReconcileGenericJob`).

use std::sync::Arc;
use std::time::Duration;

use cutover::api::Phase;
use cutover::cluster::{Cluster, Limits};
use cutover::reconcile::intents::NoFailpoints;
use cutover::sandbox::api::{ApiServer, DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::member::batch::JOB;
use cutover::sandbox::{World, WorldOptions};
use http::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::batch::{Stage, migration, template};
use crate::support::fleet::{Controller, Fleet, MIGRATIONS, POLICIES};
use crate::support::many::named_policy;
use crate::support::rules::{Action, Between, Rule};
use crate::support::wait::until;

const JOBS: Resource = Resource::new("batch", "jobs");
const QUEUES: Resource = Resource::new("kueue.x-k8s.io", "localqueues");
const WORKLOADS: Resource = Resource::new("kueue.x-k8s.io", "workloads");
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";
const MOVE: &str = "train-moves";

/// What Kueue installs, as far as anybody here looks at it.
fn definition(kind: &str, plural: &str, version: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.kueue.x-k8s.io")},
        "spec": {
            "group": "kueue.x-k8s.io", "scope": "Namespaced",
            "names": {
                "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List"),
            },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Kueue in one member.
struct Kueue {
    api: ApiServer,
    version: &'static str,
    running: JoinSet<()>,
}

impl Kueue {
    fn install(world: &World, cluster: &str, version: &'static str) -> Self {
        let api = world.member(cluster).api.clone();
        for (kind, plural) in [("LocalQueue", "localqueues"), ("Workload", "workloads")] {
            api.install(&definition(kind, plural, version)).unwrap();
        }
        Self {
            api,
            version,
            running: JoinSet::new(),
        }
    }

    fn create(&self, resource: &Resource, kind: &str, metadata: Value) {
        let api_version = format!("kueue.x-k8s.io/{}", self.version);
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {}});
        let writer = WriteOptions::manager("platform-team");
        self.api.create(resource, Some("shop"), object, &writer).unwrap();
    }

    fn make_queue(&self, name: &str) {
        self.create(&QUEUES, "LocalQueue", json!({"name": name, "namespace": "shop"}));
    }

    fn remove_queue(&self, name: &str) {
        let options = DeleteOptions::default();
        self.api.delete(&QUEUES, Some("shop"), name, &options).unwrap();
    }

    /// Keeps an object of its own for the Job, whatever queue that is in.
    fn manage(&self) {
        let job = self.api.get(&JOBS, Some("shop"), "train").unwrap();
        let owner = json!({
            "apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job["metadata"]["uid"], "controller": true,
        });
        let labels = json!({"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]});
        let metadata =
            json!({"name": "job-train-1", "namespace": "shop", "labels": labels, "ownerReferences": [owner]});
        self.create(&WORKLOADS, "Workload", metadata);
    }

    /// Puts the Job into a queue.
    fn queue(&self, name: &str) {
        let labels = json!({"metadata": {"labels": {QUEUE_LABEL: name}}});
        patch(&self.api, "train", labels);
    }

    /// Puts each Job that is created into the queue `default`, where there is one, and lets run what is in a queue.
    fn run(&mut self) {
        let api = self.api.clone();
        self.running.spawn(async move {
            let mut next = tokio::time::interval(Duration::from_millis(10));
            loop {
                next.tick().await;
                pass(&api);
            }
        });
    }
}

fn pass(api: &ApiServer) {
    let has_default = api.get(&QUEUES, Some("shop"), "default").is_ok();
    let jobs = api.list(&JOBS, Some("shop"), &ListOptions::default()).unwrap();
    for job in jobs.items {
        let is_queued = job
            .pointer("/metadata/labels")
            .is_some_and(|labels| !labels[QUEUE_LABEL].is_null());
        if job["spec"]["suspend"] == true && (is_queued || has_default) {
            let name = job["metadata"]["name"].as_str().unwrap();
            let admitted =
                json!({"metadata": {"labels": {QUEUE_LABEL: "default"}}, "spec": {"suspend": false}});
            patch(api, name, admitted);
        }
    }
}

fn patch(api: &ApiServer, name: &str, change: Value) {
    let (change, writer) = (Patch::Merge(change), WriteOptions::manager("kueue"));
    api.patch(&JOBS, Some("shop"), name, None, &change, &writer)
        .unwrap();
}

fn other(cluster: &str) -> &'static str {
    if cluster == "east" { "west" } else { "east" }
}

/// Its template names no queue in any of these.
#[tokio::test]
async fn a_job_that_kueue_would_start_is_not_moved() {
    type Arrange = fn(&Kueue);
    let cases: [(&str, &'static str, Arrange, &str); 5] = [
        (
            "to",
            "v1beta2",
            |kueue| kueue.make_queue("default"),
            "LocalQueue default",
        ),
        (
            "to",
            "v1beta1",
            |kueue| kueue.make_queue("default"),
            "LocalQueue default",
        ),
        (
            "from",
            "v1beta2",
            |kueue| kueue.make_queue("default"),
            "LocalQueue default",
        ),
        (
            "from",
            "v1beta2",
            |kueue| kueue.queue("research"),
            "LocalQueue research",
        ),
        ("from", "v1beta2", Kueue::manage, "Workload job-train-1"),
    ];
    for (place, version, arrange, named) in cases {
        let (stage, from) = Stage::set(&JOB).await;
        let cluster = if place == "from" { from } else { other(from) };
        let mut kueue = Kueue::install(&stage.world, cluster, version);
        arrange(&kueue);
        kueue.run();
        let _running = stage.plane.start();
        stage.plane.push(&[("move.yaml", &migration(&JOB, from, ""))]);
        let end = stage.end_of("move").await;
        let status = stage.status();
        assert_eq!(end, Phase::Failed, "{place} {named}: {status:#}");
        let finding = &status["findings"][0];
        assert_eq!(finding["code"], "StartedByKueue", "{status:#}");
        let message = finding["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("{named} in {cluster} ")),
            "{message}"
        );
        assert_eq!(stage.running(), [from]);
        stage.is_clean();
    }
}

/// A queue that no workload gets by itself, and what Kueue keeps of others, are none of its business.
#[tokio::test]
async fn a_job_that_kueue_leaves_alone_moves() {
    let (stage, from) = Stage::set(&JOB).await;
    let mut there = Kueue::install(&stage.world, other(from), "v1beta2");
    there.make_queue("research");
    there.create(
        &WORKLOADS,
        "Workload",
        json!({"name": "job-load-1", "namespace": "shop"}),
    );
    there.run();
    let _running = stage.plane.start();
    stage.plane.push(&[("move.yaml", &migration(&JOB, from, ""))]);
    let end = stage.end_of("move").await;
    assert_eq!(end, Phase::Completed, "{:#}", stage.status());
    assert_eq!(stage.running(), [other(from)]);
    stage.is_clean();
}

#[tokio::test]
async fn the_source_is_not_stopped_beside_a_queue_that_comes_later() {
    let (stage, from) = Stage::set(&JOB).await;
    let there = Kueue::install(&stage.world, other(from), "v1beta2");
    let _running = stage.plane.start();
    let gated = migration(&JOB, from, "  approval: {before: [Capture]}\n");
    stage.plane.push(&[("move.yaml", &gated)]);
    let waits_for = |text: &str| {
        let reason = stage.status()["waitingFor"]["reason"].clone();
        reason.as_str().is_some_and(|reason| reason.contains(text))
    };
    until("it waits for approval", || waits_for("approval of Capture")).await;
    there.make_queue("default");
    let says = format!(
        "Kueue to let go of what is held: LocalQueue default in {}",
        other(from)
    );
    until("it waits for Kueue", || waits_for(&says)).await;
    let approved = format!("{gated}  approvals: [{{phase: Capture, attempt: 1}}]\n");
    stage.plane.push(&[("move.yaml", &approved)]);
    assert_eq!(stage.running(), [from]);
    assert_eq!(stage.status()["findings"][0]["code"], "StartedByKueue");
    there.remove_queue("default");
    let end = stage.end_of("move").await;
    assert_eq!(end, Phase::Completed, "{:#}", stage.status());
    assert!(stage.status()["findings"].is_null(), "{:#}", stage.status());
    stage.is_clean();
}

/// `train` runs in one of two clusters, which have Kueue. Rules hold back what the controller asks of them.
struct Asked {
    fleet: Fleet,
    between: Between,
    from: &'static str,
    _controller: Controller,
}

/// Requests for what a cluster has of Kueue hang, and no others.
fn hangs(cluster: &str) -> Rule {
    let path = match cluster {
        "east" => "/clusters/east/proxy/apis/kueue.x-k8s.io/",
        _ => "/clusters/west/proxy/apis/kueue.x-k8s.io/",
    };
    Rule::new(Method::GET, path, "", Action::Hold)
}

/// The clusters in which the Job runs.
fn running(fleet: &Fleet) -> Vec<&'static str> {
    let runs = |cluster: &&str| {
        let job = fleet.world.member(cluster).api.get(&JOBS, Some("shop"), "train");
        job.is_ok_and(|job| job["status"]["ready"] == 1)
    };
    ["east", "west"].into_iter().filter(runs).collect()
}

impl Asked {
    async fn set() -> Self {
        let fleet = Fleet::start(WorldOptions::default()).await;
        for cluster in ["east", "west"] {
            Kueue::install(&fleet.world, cluster, "v1beta2");
        }
        let one = json!({
            "clusterAffinity": {"clusterNames": ["east", "west"]},
            "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
        });
        fleet.apply(&POLICIES, named_policy("train", "batch/v1", "Job", one));
        fleet.apply(&JOBS, serde_yaml::from_str(&template(&JOB)).unwrap());
        fleet
            .until("the Job runs", |fleet| !running(fleet).is_empty())
            .await;
        let [from] = running(&fleet)[..] else {
            panic!("{:?}", running(&fleet))
        };
        let between = Between::new();
        let cluster = Cluster::from_client(between.before(fleet.world.client()), Limits::default());
        Self {
            _controller: fleet.controller_on(cluster, Arc::new(NoFailpoints)),
            fleet,
            between,
            from,
        }
    }

    /// The source, and the target.
    fn ends(&self) -> [&'static str; 2] {
        [self.from, other(self.from)]
    }

    fn migrate(&self, more: &Value) {
        let mut spec = json!({
            "workload": {"apiVersion": "batch/v1", "kind": "Job", "name": "train"}, "to": other(self.from),
            "verify": {"healthyFor": "2s", "timeout": "60s"},
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.fleet.migrate_with(MOVE, spec);
    }

    /// It waits for an answer of that cluster, and says so; nothing is stopped meanwhile.
    async fn waits_for(&self, cluster: &str, phase: Phase) {
        let no_answer = format!("no answer from {cluster} within 5 s");
        let says = |fleet: &Fleet| {
            let reason = fleet.status(MOVE)["waitingFor"]["reason"].clone();
            reason.as_str().is_some_and(|reason| reason.contains(&no_answer))
        };
        self.fleet.until(&no_answer, says).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let status = self.fleet.status(MOVE);
        assert!(says(&self.fleet), "{status:#}");
        assert_eq!(status["phase"], phase.to_string(), "{status:#}");
        assert_eq!(running(&self.fleet), [self.from], "{status:#}");
    }

    /// The cluster answers again.
    async fn completes(&self) {
        self.between.clear();
        self.between.release();
        let ended = self.fleet.ended(MOVE).await;
        let status = self.fleet.status(MOVE);
        assert_eq!(ended, Phase::Completed, "{status:#}\n{}", self.between.timeline());
        assert_eq!(running(&self.fleet), [other(self.from)]);
        let ledger = self.fleet.world.ledger();
        assert!(ledger.verdict().is_clean(), "{ledger}");
    }
}

/// No answer is not one that says that there is no Kueue.
#[tokio::test(start_paused = true)]
async fn no_move_begins_while_a_cluster_does_not_say_what_kueue_has_there() {
    for end in [0, 1] {
        let asked = Asked::set().await;
        let cluster = asked.ends()[end];
        asked.between.add(hangs(cluster));
        asked.migrate(&json!({}));
        asked.waits_for(cluster, Phase::Preflight).await;
        asked.completes().await;
    }
}

/// What was seen before says nothing of a queue that has come since.
#[tokio::test(start_paused = true)]
async fn the_source_is_not_stopped_while_a_cluster_does_not_say_what_kueue_has_there() {
    for end in [0, 1] {
        let asked = Asked::set().await;
        let cluster = asked.ends()[end];
        asked.migrate(&json!({"approval": {"before": ["Capture"]}}));
        let is_gated = |fleet: &Fleet| fleet.status(MOVE)["waitingFor"]["approval"] == "Capture";
        asked.fleet.until("it waits for approval", is_gated).await;
        asked.between.add(hangs(cluster));
        asked.waits_for(cluster, Phase::Expand).await;
        let approved = json!({"spec": {"approvals": [{"phase": "Capture", "attempt": 1}]}});
        asked.fleet.patch(&MIGRATIONS, MOVE, approved);
        asked.waits_for(cluster, Phase::Expand).await;
        asked.completes().await;
    }
}
