//! What a sandbox holds in memory: so many Deployments, each with a PropagationPolicy to one of three members.
//!
//! `cargo bench --package cutover-sandbox --bench memory -- [DEPLOYMENTS [ROUNDS]]`: resident memory of the process as it begins,
//! once all of them run, and after each round in which every Deployment gets another image.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a program that measures"
)]

use std::time::{Duration, Instant};

use cutover_sandbox::api::{ListOptions, Resource};
use cutover_sandbox::{World, WorldOptions};
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

/// As the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NAMESPACE: &str = "fleet";
const MEMBERS: [&str; 3] = ["east", "west", "north"];
const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
/// For how long nothing may be written before a stage is over.
const QUIET: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() {
    let args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let mut args = args.map(|arg| arg.parse().expect("a number"));
    let mut next = |usual: usize| args.next().unwrap_or(usual);
    let (count, rounds) = (next(2000), next(3));
    println!("\n| {count} Deployments | writes | resident | at most | took |\n|---|--:|--:|--:|--:|");

    let begun = Instant::now();
    let world = World::start(WorldOptions {
        members: MEMBERS.map(str::to_owned).to_vec(),
        ..WorldOptions::default()
    });
    tell("begun", &world, begun);
    let begun = Instant::now();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(&world, namespace).await;
    for number in 0..count {
        apply(&world, policy(number)).await;
        apply(&world, deployment(number, 0)).await;
    }
    tell("applied", &world, begun);
    running(&world, count, 0).await;
    tell("running", &world, begun);
    for round in 1..=rounds {
        let begun = Instant::now();
        for number in 0..count {
            apply(&world, deployment(number, round)).await;
        }
        running(&world, count, round).await;
        tell(&format!("changed {round} times"), &world, begun);
    }
}

async fn apply(world: &World, object: Value) {
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let types = object.types.as_ref().unwrap();
    let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types).unwrap());
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(world.client(), namespace, &kind),
        None => Api::all_with(world.client(), &kind),
    };
    let name = object.metadata.name.as_deref().unwrap();
    let params = PatchParams::apply("bench");
    api.patch(name, &params, &Patch::Apply(&object)).await.unwrap();
}

/// Waits until the control plane shows that every Deployment runs as it was last applied, and nothing is written any more.
async fn running(world: &World, count: usize, round: usize) {
    let image = image(round);
    let (mut last, mut since) = (0, Instant::now());
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let server = world.control_plane();
        let list = server.list(&DEPLOYMENTS, None, &ListOptions::default()).unwrap();
        let ready = list.items.iter().filter(|object| {
            object["spec"]["template"]["spec"]["containers"][0]["image"] == image.as_str()
                && object["status"]["readyReplicas"] == object["spec"]["replicas"]
                && object["status"]["updatedReplicas"] == object["spec"]["replicas"]
        });
        let written = writes(world);
        if ready.count() < count || written != last {
            (last, since) = (written, Instant::now());
        } else if since.elapsed() >= QUIET {
            return;
        }
    }
}

/// Returns how much was written to all the API servers.
fn writes(world: &World) -> u64 {
    let members = world.members().map(|member| member.api.revision());
    world.control_plane().revision() + members.sum::<u64>()
}

fn tell(stage: &str, world: &World, begun: Instant) {
    let (now, peak) = memory();
    println!(
        "| {stage} | {} | {:.0} MiB | {:.0} MiB | {:.0} s |",
        writes(world),
        now as f64 / 1024.0,
        peak as f64 / 1024.0,
        begun.elapsed().as_secs_f64()
    );
}

/// Returns resident memory now and at its highest, in KiB.
fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    (of("VmRSS:"), of("VmHWM:"))
}

fn image(round: usize) -> String {
    format!("registry.example.com/fleet/web:1.4.{round}")
}

fn policy(number: usize) -> Value {
    let member = MEMBERS[number % MEMBERS.len()];
    let name = format!("app-{number:06}");
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "propagateDeps": true,
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": name}],
            "placement": {"clusterAffinity": {"clusterNames": [member]}},
        },
    })
}

fn deployment(number: usize, round: usize) -> Value {
    let name = format!("app-{number:06}");
    let labels = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "fleet"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "main",
                    "image": image(round),
                    "args": ["--config", "/etc/app/log-level"],
                    "ports": [{"name": "http", "containerPort": 8080}, {"name": "metrics", "containerPort": 9090}],
                    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
                }]},
            },
        },
    })
}
