//! Beside Kueue in a member, which lets a suspended Job run as soon as it has admitted it, whoever has suspended it
//! (kubernetes-sigs/kueue@v0.19.2, pkg/controller/jobframework: `ApplyDefaultLocalQueue`, step 7 of `ReconcileGenericJob`).

use std::time::Duration;

use cutover::api::Phase;
use cutover::sandbox::api::{ApiServer, DeleteOptions, ListOptions, Patch, Resource, WriteOptions};
use cutover::sandbox::member::batch::JOB;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::batch::{Stage, migration};
use crate::support::wait::until;

const JOBS: Resource = Resource::new("batch", "jobs");
const QUEUES: Resource = Resource::new("kueue.x-k8s.io", "localqueues");
const WORKLOADS: Resource = Resource::new("kueue.x-k8s.io", "workloads");
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

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
    fn install(stage: &Stage, cluster: &str, version: &'static str) -> Self {
        let api = stage.world.member(cluster).api.clone();
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
        let mut kueue = Kueue::install(&stage, cluster, version);
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
    let mut there = Kueue::install(&stage, other(from), "v1beta2");
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
    let there = Kueue::install(&stage, other(from), "v1beta2");
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
