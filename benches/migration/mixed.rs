//! Whether moves of workloads of many kinds wait for each other: one of each kind alone, then many of all kinds at once.
//!
//! Their operators are simulated in the members of a sandbox alone: a real member would need their definitions, and has
//! controllers of its own for some of them.

use std::time::{Duration, Instant};

use cutover::name::Gvk;
use cutover::profile::{self, Profile};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::member::Timings;
use cutover::sandbox::member::batch::{JOB, Kind, OTHERS};
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::controller::Controller;
use super::place::{Place, until};
use super::server::{BINDINGS, CLUSTERS, CRDS, DEPLOYMENTS, JOBS, MIGRATIONS, Resource};
use super::{apply_of, clear, completes, job_spec, migrate, place};

/// A kind of workload, and what tells that one runs.
struct Sort {
    kind: Resource,
    profile: Profile,
}

/// A workload of a sort, and where it is to go.
struct Mover<'a> {
    sort: &'a Sort,
    name: String,
    to: String,
}

#[expect(clippy::too_many_lines, reason = "one story, told in order")]
pub fn row(count: usize, timings: Timings) {
    let elsewhere = std::env::var_os("CUTOVER_E2E_KUBECONFIG").is_some();
    assert!(
        !elsewhere,
        "the operators of most kinds are simulated in a sandbox alone"
    );
    let (world, mut place) = place(WorldOptions {
        timings,
        ..WorldOptions::default()
    });
    let runtime = Runtime::new().unwrap();
    runtime.block_on(define(&place));
    {
        let _entered = world.enter();
        for member in place.members.values_mut() {
            for kind in &OTHERS {
                member.simulators.simulate(kind);
            }
        }
    }
    let sorts = sorts();
    runtime.block_on(async {
        let alone = sorts.iter().enumerate();
        let alone: Vec<_> = alone
            .map(|(index, sort)| (sort, format!("alone-{index}")))
            .collect();
        let mixed = sorts.iter().cycle().take(count).enumerate();
        let mixed: Vec<_> = mixed
            .map(|(index, sort)| (sort, format!("mixed-{index}")))
            .collect();
        for (sort, name) in alone.iter().chain(&mixed) {
            apply_of(&place, sort.kind, name, spec(sort.kind, name)).await;
        }
        let (alone, mixed) = (movers(&place, alone).await, movers(&place, mixed).await);
        let controller = Controller::start(&place.control.kubeconfig).await;
        let mut slowest = (Duration::ZERO, "");
        for mover in &alone {
            let begun = Instant::now();
            begin(&place, mover).await;
            completes(&place, &mover.name).await;
            slowest = slowest.max((begun.elapsed(), mover.sort.kind.kind));
        }
        let begun = Instant::now();
        join_all(mixed.iter().map(async |mover| begin(&place, mover).await)).await;
        // Not all of them in one list: that would cost the machine as much as some of what is measured.
        for mover in &mixed {
            completes(&place, &mover.name).await;
        }
        let all = begun.elapsed();
        drop(controller);
        let (one, kind) = slowest;
        println!(
            "\n| the slowest alone | {count} of {} kinds at once | ratio |\n|---|---|---|",
            sorts.len()
        );
        println!(
            "| {:.2} s ({kind}) | {:.2} s | {:.2} |",
            one.as_secs_f64(),
            all.as_secs_f64(),
            all.as_secs_f64() / one.as_secs_f64()
        );
        let ended = place.control.list(MIGRATIONS, Some(&place.namespace)).await;
        by_kind(&ended, &sorts);
    });
    clear(&world, place);
}

/// Brings the definitions of all kinds that a member has only where they are installed.
async fn define(place: &Place) {
    for kind in &OTHERS {
        for member in place.members.values() {
            member.server.create(CRDS, None, kind.definition()).await;
        }
        place.define(kind.definition()).await;
    }
    // Karmada asks members for their kinds now and then, and places nothing where a kind isn't served.
    for name in place.members.keys() {
        until(&format!("Karmada knows what {name} serves"), async || {
            let cluster = place.control.get(CLUSTERS, None, name).await.unwrap();
            let served = cluster["status"]["apiEnablements"].as_array().cloned();
            let served = served.unwrap_or_default();
            let is_served = |version: String| served.iter().any(|group| group["groupVersion"] == version);
            OTHERS.iter().map(Kind::api_version).all(is_served)
        })
        .await;
    }
}

fn sorts() -> Vec<Sort> {
    let runs = std::iter::once(&JOB).chain(&OTHERS).map(|kind| Resource {
        group: kind.group,
        version: kind.version,
        kind: kind.kind,
        plural: kind.plural,
    });
    let kinds = [JOBS, DEPLOYMENTS].into_iter().chain(runs);
    kinds
        .map(|kind| {
            let gvk = Gvk::new(&format!("{}/{}", kind.group, kind.version), kind.kind);
            let found = profile::find(&[], None, &gvk).unwrap().unwrap();
            let profile = Profile::compile(kind.kind, &found.spec).unwrap();
            Sort { kind, profile }
        })
        .collect()
}

/// The spec of a workload, as its users write it.
fn spec(kind: Resource, name: &str) -> Value {
    let labels = json!({"workload": name});
    let containers = json!([{"name": "main", "image": "bench:1", "resources": {"requests": {"cpu": "10m"}}}]);
    let pod = json!({"containers": containers, "restartPolicy": "Never"});
    match kind.kind {
        "FlinkDeployment" => job_spec(),
        "Deployment" => json!({
            "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        }),
        "Job" => json!({"template": {"spec": pod}}),
        "SparkApplication" => json!({
            "type": "Scala", "mode": "cluster", "sparkVersion": "4.0.0", "image": "bench:1",
            "mainApplicationFile": "local:///app.jar", "driver": {"cores": 1}, "executor": {"instances": 1},
        }),
        "RayJob" => json!({
            "entrypoint": "python train.py", "shutdownAfterJobFinishes": true,
            "rayClusterSpec": {"headGroupSpec": {
                "rayStartParams": {}, "template": {"metadata": {"labels": labels}, "spec": pod},
            }},
        }),
        "PyTorchJob" => json!({
            "runPolicy": {}, "pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": pod}}},
        }),
        "MPIJob" => json!({
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": pod}}, "Worker": {"replicas": 2, "template": {"spec": pod}},
            },
        }),
        "JobSet" => json!({
            "replicatedJobs": [{"name": "workers", "template": {"spec": {"template": {"spec": pod}}}}],
        }),
        "TrainJob" => json!({"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 1}}),
        other => unreachable!("{other} has no spec here"),
    }
}

/// Waits until all run, and sends each to the other one of two members.
async fn movers<'a>(place: &Place, workloads: Vec<(&'a Sort, String)>) -> Vec<Mover<'a>> {
    let [one, other] = place.pair();
    let mut movers = Vec::new();
    for (sort, name) in workloads {
        let here = running(place, sort, &name).await;
        let to = if here == one { other } else { one };
        movers.push(Mover {
            sort,
            name,
            to: to.to_owned(),
        });
    }
    movers
}

/// Waits until a workload runs, and Karmada knows so, and returns where.
async fn running(place: &Place, sort: &Sort, name: &str) -> String {
    let namespace = Some(place.namespace.as_str());
    let binding = format!("{name}-{}", sort.kind.kind.to_lowercase());
    let look = async || {
        let binding = place.control.get(BINDINGS, namespace, &binding).await?;
        let shown = &binding["status"]["aggregatedStatus"][0];
        let cluster = shown["clusterName"].as_str()?.to_owned();
        let member = &place.members[&cluster].server;
        let copy = member.get(sort.kind, namespace, name).await?;
        let runs = shown["applied"] == true && sort.profile.healthy(&copy).unwrap_or_default();
        runs.then_some(cluster)
    };
    until(&format!("{name} runs"), async || look().await.is_some()).await;
    look().await.unwrap()
}

async fn begin(place: &Place, mover: &Mover<'_>) {
    let kind = mover.sort.kind;
    let api_version = format!("{}/{}", kind.group, kind.version);
    let mut more = json!({"workload": {"apiVersion": api_version, "kind": kind.kind, "name": mover.name}});
    if kind.kind == DEPLOYMENTS.kind {
        more["strategy"] = json!("StartFirst");
    }
    migrate(place, &mover.name, &mover.name, &mover.to, &more).await;
}

/// Prints how long the moves of each kind took, by what their statuses say.
fn by_kind(ended: &[Value], sorts: &[Sort]) {
    println!("\n| kind | alone, s | at once: least | p50 | most |\n|---|---|---|---|---|");
    for sort in sorts {
        let kind = sort.kind.kind;
        let of_kind = ended
            .iter()
            .filter(|intent| intent["spec"]["workload"]["kind"] == kind);
        let is_alone = |intent: &&Value| {
            let name = intent["metadata"]["name"].as_str().unwrap();
            name.starts_with("alone-")
        };
        let (alone, at_once): (Vec<&Value>, Vec<&Value>) = of_kind.partition(is_alone);
        let alone = took(alone[0]);
        let mut all: Vec<f64> = at_once.into_iter().map(took).collect();
        all.sort_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (all.first(), all.last()) {
            let middle = all[all.len() / 2];
            println!("| {kind} | {alone:.1} | {least:.1} | {middle:.1} | {most:.1} |");
        }
    }
}

fn took(intent: &Value) -> f64 {
    let at = |field: &str| {
        let text = intent["status"][field].as_str().unwrap();
        text.parse::<Timestamp>().unwrap()
    };
    at("finishedAt").duration_since(at("startedAt")).as_secs_f64()
}
