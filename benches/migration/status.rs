//! How long `cutover status` takes to answer, beside the requests that it needs and beside kubectl.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use cutover::sandbox::WorldOptions;
use futures::StreamExt;
use futures::future::join_all;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::place::{Place, until};
use crate::server::{
    BINDINGS, CLAIMS, CLUSTERS, DEPLOYMENTS, INTENTS, MIGRATIONS, POLICIES, Resource, Server,
};
use crate::{clear, place};

/// How often each is asked.
const TIMES: usize = 15;
/// How many requests are on their way while objects are made.
const TOGETHER: usize = 16;

/// So many intents, a third of which wait, a third is under way, a third has ended; and as many workloads.
pub fn row(count: usize) {
    let (world, place) = place(WorldOptions::fast());
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        workloads(&place, count).await;
        futures::stream::iter(0..count)
            .for_each_concurrent(TOGETHER, |number| intent(&place, number))
            .await;
        println!("\n| {count} intents, {count} workloads | p50, ms | most, ms |\n|---|---|---|");
        let kubeconfig = &place.control.kubeconfig;
        let program = Path::new(env!("CARGO_BIN_EXE_cutover"));
        let status = ["status", "--kubeconfig"];
        print(
            "the requests that status needs, bodies read",
            requests(&place.control).await,
        );
        print("cutover status", times(|| run(program, &status, kubeconfig)));
        print(
            "cutover status -o json",
            times(|| run(program, &["status", "-o", "json", "--kubeconfig"], kubeconfig)),
        );
        print(
            "cutover status --all",
            times(|| run(program, &["status", "--all", "--kubeconfig"], kubeconfig)),
        );
        let get = [
            "get",
            "migrations.cutover.dev",
            "-A",
            "-o",
            "json",
            "--kubeconfig",
        ];
        print(
            "kubectl get migrations -A -o json",
            times(|| run(Path::new("kubectl"), &get, kubeconfig)),
        );
    });
    clear(&world, place);
}

fn print(what: &str, mut all: Vec<f64>) {
    all.sort_by(f64::total_cmp);
    println!(
        "| {what} | {:.0} | {:.0} |",
        all[all.len() / 2],
        all[all.len() - 1]
    );
}

fn times(mut one: impl FnMut()) -> Vec<f64> {
    // The first one warms what is warm for a person, too.
    one();
    let timed = (0..TIMES).map(|_| {
        let begun = Instant::now();
        one();
        begun.elapsed().as_secs_f64() * 1e3
    });
    timed.collect()
}

fn run(program: &Path, args: &[&str], kubeconfig: &Path) {
    let output = Command::new(program)
        .args(args)
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// How long the lists take side by side that a status is made of.
async fn requests(control: &Server) -> Vec<f64> {
    let kinds: Vec<Resource> = INTENTS.into_iter().chain([BINDINGS, CLAIMS, CLUSTERS]).collect();
    let list = async |kind: &Resource| {
        let path = format!("/apis/{}/{}/{}", kind.group, kind.version, kind.plural);
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        control.client.request_text(request).await.unwrap().len()
    };
    let mut all = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        join_all(kinds.iter().map(list)).await;
        all.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    all
}

/// Deployments in every member, and waits until each of them is reported.
async fn workloads(place: &Place, count: usize) {
    let namespace = Some(place.namespace.as_str());
    let metadata = json!({"name": "status", "namespace": place.namespace});
    let members: Vec<_> = place.members.keys().collect();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": metadata,
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "placement": {"clusterAffinity": {"clusterNames": members}},
        },
    });
    place.control.create(POLICIES, namespace, policy).await;
    let create = async |number: usize| {
        let name = format!("web-{number}");
        let labels = json!({"app": name});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": place.namespace},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
            },
        });
        place.control.create(DEPLOYMENTS, namespace, deployment).await;
    };
    futures::stream::iter(0..count)
        .for_each_concurrent(TOGETHER, create)
        .await;
    until("every workload is in every member", async || {
        let all = place.control.list(BINDINGS, namespace).await;
        let reported = all.iter().filter(|binding| {
            let reports = binding["status"]["aggregatedStatus"].as_array();
            reports.is_some_and(|reports| reports.len() == members.len())
        });
        reported.count() == count
    })
    .await;
}

/// A Migration with the status that a reconciler would have written.
async fn intent(place: &Place, number: usize) {
    let (name, namespace) = (format!("web-{number}"), Some(place.namespace.as_str()));
    let [from, to] = place.pair();
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
    let migration = json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
        "metadata": {"name": name, "namespace": place.namespace},
        "spec": {"workload": workload, "from": from, "to": to},
    });
    place.control.create(MIGRATIONS, namespace, migration).await;
    let patch = json!({"status": status(number, from, to, &workload)});
    let api = place.control.api(MIGRATIONS, namespace);
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

fn status(number: usize, from: &str, to: &str, workload: &Value) -> Value {
    let at = |second: usize| format!("2026-03-01T10:00:{second:02}Z");
    let wait = json!({"code": "Turn", "reason": "a turn: 8 of 8 migrations are under way", "since": at(number % 60)});
    if number.is_multiple_of(3) {
        return json!({"phase": "Pending", "attempt": 1, "observedGeneration": 1, "waitingFor": wait});
    }
    let ended = number % 3 == 1;
    let steps = ["Preflight", "Hold", "Expand", "Capture", "Handoff", "Verify"];
    let steps: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(step, name)| {
            json!({
                "name": name, "startedAt": at(step), "finishedAt": (ended || step < 5).then(|| at(step + 1)),
                "evidence": [
                    format!("{from}: Deployment web-{number} generation 3 observed, 1 of 1 replicas ready"),
                    format!("{to}: uid 1a98a82b-8496-4a10-987c-{number:012} holds under 7b1cf2e5-b3e8-4e87-85ea-cf72e5b831d3.1.{step}, never ran"),
                ],
            })
        })
        .collect();
    let common = json!({
        "attempt": 1, "observedGeneration": 1, "source": from, "steps": steps, "startedAt": at(0),
    });
    let more = if ended {
        json!({"phase": "Completed", "finishedAt": at(6), "downtimeMs": 1250})
    } else {
        let reason = format!("{to} to stay healthy for 2 min without a break, as spec.verify says");
        json!({
            "phase": "Verify",
            "waitingFor": {"reason": reason, "since": at(5), "until": "2026-03-01T10:02:05Z", "then": "go on"},
            "journal": {
                "spec": {"workload": workload, "from": from, "to": to},
                "profile": {
                    "appliesTo": {"group": "apps", "kinds": ["Deployment"]}, "stateful": false,
                    "suspend": [], "hold": [], "start": [], "restart": [],
                    "observedWhen": "true", "suspendedWhen": "true", "healthyWhen": "true",
                },
                "source": from, "target": to, "templateUid": "t", "seq": 3, "pinned": true, "clusters": [from, to],
                "binding": {"name": format!("web-{number}-deployment"), "uid": "b", "id": "i"}, "fence": {"recorded": true},
            },
        })
    };
    let fields = [common, more].into_iter();
    fields
        .flat_map(|part| part.as_object().cloned().unwrap_or_default())
        .collect()
}
