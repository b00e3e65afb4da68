//! What cutover itself adds to a migration: from the news that an effect needed to the effect, and requests and CPU.
//!
//! `cargo bench --bench migration -- ROW`: `delay [MIGRATIONS]` (one after the other), `downtime [MOVES]` (how long nobody writes,
//! beside a person's script; `downtime MOVES quick` with jobs that take next to no time), `many [MIGRATIONS]` (at once, in members
//! as slow as a plain installation; `many MIGRATIONS quick` in quick ones), `mixed [MIGRATIONS]` (the same of workloads of many
//! kinds, in a sandbox alone), `waiting [INTENTS]` (the program as a process, with intents that wait), `status [INTENTS]` (how long
//! `cutover status` takes to answer). On a sandbox behind a kubeconfig, or on the control plane that the environment names as for
//! the end-to-end suite (docs/reference/sandbox.md#end-to-end-suite).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program that measures"
)]

#[path = "migration/by_hand.rs"]
mod by_hand;
#[path = "migration/chain.rs"]
mod chain;
#[path = "migration/controller.rs"]
mod controller;
#[path = "migration/downtime.rs"]
mod downtime;
#[path = "migration/mixed.rs"]
mod mixed;
#[path = "../tests/all/e2e/place.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod place;
#[path = "../tests/all/e2e/server.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod server;
#[path = "migration/status.rs"]
mod status;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use chain::Cost;
use controller::{Controller, Entry, What};
use cutover::sandbox::WorldOptions;
use cutover::sandbox::member::Timings;
use cutover_testing::fleet::opened;
use futures::future::join_all;
use jiff::Timestamp;
use place::{Place, until};
use serde_json::{Value, json};
use server::{BINDINGS, JOBS, MIGRATIONS, POLICIES, Resource};
use tokio::runtime::Runtime;

/// How long the CPU of a process that waits is watched: with what it does once a minute.
const WATCHED: Duration = Duration::from_secs(130);
/// A process is quiet that took less than a thousandth of a core for so long.
const QUIET: Duration = Duration::from_secs(8);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let number = |usual: usize| args.get(1).map_or(usual, |number| number.parse().unwrap());
    match args.first().map(String::as_str) {
        Some("delay") => delay(number(30)),
        Some("downtime") if args.get(2).is_some_and(|word| word == "quick") => {
            downtime::row(number(5), quick());
        }
        Some("downtime") => downtime::row(number(5), Timings::default()),
        Some("many") if args.get(2).is_some_and(|word| word == "quick") => many(number(100), quick()),
        Some("many") => many(number(100), Timings::installed()),
        Some("mixed") if args.get(2).is_some_and(|word| word == "quick") => mixed::row(number(100), quick()),
        Some("mixed") => mixed::row(number(100), Timings::installed()),
        Some("waiting") => waiting(number(1000)),
        Some("status") => status::row(number(1000)),
        _ => {
            delay(30);
            downtime::row(10, Timings::default());
            many(100, Timings::installed());
            mixed::row(100, Timings::installed());
            waiting(1000);
            status::row(1000);
        }
    }
}

/// A place on a runtime of its own, so that it and the controller wait for each other only as two programs would.
fn place(options: WorldOptions) -> (Runtime, Place) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.thread_name("place").enable_all().build().unwrap();
    let place = runtime.block_on(Place::find(options));
    (runtime, place)
}

/// What runs in the members is quick: nobody waits for it here.
fn quick() -> Timings {
    let brief = Duration::from_millis(20);
    Timings {
        pod_start: brief,
        job_start: brief,
        savepoint: brief,
        cancel: brief,
        teardown: brief,
        task_manager_idle: brief,
        reconcile_interval: Duration::from_millis(100),
        ..Timings::default()
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "the table of what was measured, line by line"
)]
fn delay(count: usize) {
    let (world, place) = place(WorldOptions {
        timings: quick(),
        ..WorldOptions::default()
    });
    let runtime = Runtime::new().unwrap();
    let costs = runtime.block_on(async {
        let mut here = runs(&place, "delay").await;
        let controller = Controller::start(&place.control.kubeconfig).await;
        let mut costs = Vec::new();
        for number in 0..count {
            let [one, other] = place.pair();
            let to = if here == one { other } else { one };
            let name = format!("delay-{number}");
            let begun = Instant::now();
            migrate(&place, &name, "delay", to, &json!({})).await;
            completes(&place, &name).await;
            here = to.to_owned();
            costs.push(Cost::of(&controller.trace(), &name, begun, begun.elapsed()));
        }
        costs
    });
    let (path, mut file) = stamps("migration-delay.jsonl");
    for cost in &costs {
        writeln!(file, "{}", serde_json::to_string(cost).unwrap()).unwrap();
    }
    let last = costs.last().unwrap();
    println!("\n| requests of the last one | |\n|---|---|");
    for (what, count) in last.by_path() {
        println!("| {what} | {count} |");
    }
    let of = |what: fn(&Cost) -> f64| {
        let mut all: Vec<f64> = costs.iter().map(what).collect();
        all.sort_by(f64::total_cmp);
        let at = |part: f64| all[((all.len() - 1) as f64 * part).round() as usize];
        format!("{:.1} | {:.1}", at(0.5), at(0.99))
    };
    println!("\n| {count} migrations, one after the other | p50 | p99 |\n|---|---|---|");
    println!("| whole, ms | {} |", of(|cost| cost.whole_ms));
    println!("| from news to effect, ms | {} |", of(|cost| cost.delay_ms));
    println!("| of which the API server's, ms | {} |", of(|cost| cost.api_ms));
    println!(
        "| of which cutover's own, ms | {} |",
        of(|cost| cost.delay_ms - cost.api_ms)
    );
    println!(
        "| from the last read to the effect, ms | {} |",
        of(|cost| cost.decision_ms)
    );
    println!(
        "| of which the journal's way to the API server, ms | {} |",
        of(|cost| cost.journal_ms)
    );
    println!(
        "| of which cutover's own, ms | {} |",
        of(|cost| cost.decision_ms - cost.journal_ms)
    );
    println!("| effects | {} |", of(|cost| cost.effects.len() as f64));
    println!(
        "| effects that no news came before | {} |",
        of(|cost| cost.unannounced as f64)
    );
    println!("| requests | {} |", of(|cost| cost.requests as f64));
    println!("| of which writes | {} |", of(|cost| cost.writes as f64));
    println!("\nstamps: {}", path.display());
    clear(&world, place);
}

/// Whether migrations wait for each other, where what runs in the members takes so long.
fn many(count: usize, timings: Timings) {
    let (world, place) = place(WorldOptions {
        timings,
        ..WorldOptions::default()
    });
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let names: Vec<String> = (0..=count).map(|number| format!("many-{number}")).collect();
        for name in &names {
            apply(&place, name).await;
        }
        let mut targets = Vec::new();
        for name in &names {
            let here = running(&place, name).await;
            let [one, other] = place.pair();
            targets.push(if here == one { other } else { one });
        }
        let controller = Controller::start(&place.control.kubeconfig).await;
        let begun = Instant::now();
        migrate(&place, &names[0], &names[0], targets[0], &json!({})).await;
        completes(&place, &names[0]).await;
        let one = begun.elapsed();
        let alone = controller.trace().len();
        let begun = Instant::now();
        let together = names.iter().zip(&targets).skip(1);
        join_all(together.map(async |(name, target)| migrate(&place, name, name, target, &json!({})).await))
            .await;
        // Not all of them in one list: that would cost the machine as much as some of what is measured.
        for name in &names[1..] {
            completes(&place, name).await;
        }
        let all = begun.elapsed();
        let ended = place.control.list(MIGRATIONS, Some(&place.namespace)).await;
        println!("\n| one migration | {count} at once | ratio |\n|---|---|---|");
        println!(
            "| {:.2} s | {:.2} s | {:.2} |",
            one.as_secs_f64(),
            all.as_secs_f64(),
            all.as_secs_f64() / one.as_secs_f64()
        );
        phases(&ended, &names[0]);
        let trace = controller.trace();
        write_effects(&trace);
        let (alone, together) = trace.split_at(alone);
        println!(
            "\nrequests a migration: {} alone, {} at once",
            requests(alone),
            requests(together) / count
        );
    });
    clear(&world, place);
}

/// Begins a file for what was measured.
fn stamps(name: &str) -> (PathBuf, File) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let file = File::create(&path).unwrap();
    (path, file)
}

/// Writes down when which effect of which migration was sent and answered, for whoever wants to know what they wait for.
fn write_effects(trace: &[Entry]) {
    let (path, mut file) = stamps("migration-many.jsonl");
    let begun = trace[0].at;
    for entry in trace {
        if let What::Wrote { intent, side, what } = &entry.what {
            let at = entry.at.duration_since(begun).as_secs_f64() * 1e3;
            let side = format!("{side:?}");
            let line = json!({"intent": intent.name, "what": what, "side": side, "at_ms": at});
            writeln!(file, "{line}").unwrap();
        }
    }
    println!("\nstamps: {}", path.display());
}

/// Counts the requests other than watches.
fn requests(trace: &[Entry]) -> usize {
    let asked = trace
        .iter()
        .filter(|entry| matches!(entry.what, What::Asked { .. }));
    asked.count()
}

/// Prints how long each phase took: of the one, and of those at once.
fn phases(ended: &[Value], one: &str) {
    let mut phases: Vec<(String, f64, Vec<f64>)> = Vec::new();
    for intent in ended {
        let alone = intent["metadata"]["name"] == one;
        let status = opened(&intent["status"]);
        for step in status["steps"].as_array().unwrap() {
            let at = |field: &str| step[field].as_str().unwrap().parse::<Timestamp>().unwrap();
            let took = at("finishedAt").duration_since(at("startedAt")).as_secs_f64();
            let name = step["name"].as_str().unwrap();
            let at = phases
                .iter()
                .position(|(phase, ..)| phase == name)
                .unwrap_or_else(|| {
                    phases.push((name.to_owned(), 0.0, Vec::new()));
                    phases.len() - 1
                });
            if alone {
                phases[at].1 = took;
            } else {
                phases[at].2.push(took);
            }
        }
    }
    println!("\n| phase | one, s | at once: least | p50 | most |\n|---|---|---|---|---|");
    for (phase, one, mut all) in phases {
        all.sort_by(f64::total_cmp);
        let [least, middle, most] = [0, all.len() / 2, all.len() - 1].map(|at| all[at]);
        println!("| {phase} | {one:.1} | {least:.1} | {middle:.1} | {most:.1} |");
    }
}

fn waiting(count: usize) {
    let (world, place) = place(WorldOptions::fast());
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        for number in 0..count {
            let closed = json!({"window": {"notBefore": "2099-01-01T00:00:00Z"}});
            let name = format!("waiting-{number}");
            migrate(&place, &name, &name, place.pair()[1], &closed).await;
        }
        let dir = tempfile::tempdir().unwrap();
        let fleet = dir.path().join("fleet.git");
        let repository = git2::Repository::init_bare(&fleet).unwrap();
        let tree = repository.treebuilder(None).unwrap().write().unwrap();
        let who = git2::Signature::now("bench", "bench@localhost").unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let first = repository.commit(Some("refs/heads/main"), &who, &who, "nothing", &tree, &[]);
        first.unwrap();
        let mut program = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(["run", "--interval", "1h", "--repo"])
            .arg(&fleet)
            .arg("--kubeconfig")
            .arg(&place.control.kubeconfig)
            .arg("--state-dir")
            .arg(dir.path().join("state"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("all wait", async || {
            let all = place.control.list(MIGRATIONS, Some(&place.namespace)).await;
            all.iter()
                .all(|intent| intent["status"]["waitingFor"].is_object())
        })
        .await;
        // Taking them up and the first reports are over once it is quiet.
        let mut before = cpu_ms(program.id());
        loop {
            tokio::time::sleep(QUIET).await;
            let now = cpu_ms(program.id());
            if now - before < QUIET.as_secs_f64() {
                break;
            }
            before = now;
        }
        let begun = cpu_ms(program.id());
        tokio::time::sleep(WATCHED).await;
        let used = cpu_ms(program.id()) - begun;
        let share = used / WATCHED.as_secs_f64() / 10.0;
        println!(
            "\n| intents that wait | CPU until all are taken up and published | CPU in {} s after that | of one core |\n\
             |---|---|---|---|",
            WATCHED.as_secs()
        );
        println!("| {count} | {begun:.0} ms | {used:.0} ms | {share:.2}% |");
        program.kill().unwrap();
        program.wait().unwrap();
    });
    clear(&world, place);
}

/// Applies a job with its policy.
async fn apply(place: &Place, name: &str) {
    apply_of(place, JOBS, name, job_spec()).await;
}

/// Applies a workload of a kind, with a policy that lets it run in one of the members.
async fn apply_of(place: &Place, kind: Resource, name: &str, spec: Value) {
    let metadata = json!({"name": name, "namespace": place.namespace});
    let api_version = format!("{}/{}", kind.group, kind.version);
    let members: Vec<_> = place.members.keys().collect();
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": metadata,
        "spec": {
            "resourceSelectors": [{"apiVersion": api_version, "kind": kind.kind, "name": name}],
            "placement": {
                "clusterAffinity": {"clusterNames": members},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
        },
    });
    let workload = json!({"apiVersion": api_version, "kind": kind.kind, "metadata": metadata, "spec": spec});
    let namespace = Some(place.namespace.as_str());
    place.control.create(POLICIES, namespace, policy).await;
    place.control.create(kind, namespace, workload).await;
}

fn job_spec() -> Value {
    let resource = json!({"resource": {"memory": "1024m", "cpu": 1}});
    json!({
        "image": "bench:1", "flinkVersion": "v1_20", "serviceAccount": "default",
        "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "1"},
        "jobManager": resource, "taskManager": resource,
        "job": {"jarURI": "local:///job.jar", "parallelism": 1, "upgradeMode": "savepoint", "state": "running"},
    })
}

async fn runs(place: &Place, name: &str) -> String {
    apply(place, name).await;
    running(place, name).await
}

/// Waits until a job is aggregated as running, and returns where.
async fn running(place: &Place, name: &str) -> String {
    let binding = format!("{name}-flinkdeployment");
    let look = async || {
        let found = place
            .control
            .get(BINDINGS, Some(&place.namespace), &binding)
            .await
            .unwrap_or_default();
        let status = &found["status"]["aggregatedStatus"][0];
        let runs = status["status"]["jobStatus"]["state"] == "RUNNING"
            && status["status"]["jobManagerDeploymentStatus"] == "READY";
        runs.then(|| status["clusterName"].as_str().unwrap().to_owned())
    };
    until("the job runs", async || look().await.is_some()).await;
    look().await.unwrap()
}

async fn migrate(place: &Place, intent: &str, job: &str, to: &str, more: &Value) {
    let mut spec = json!({
        "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": job},
        "to": to,
        "verify": {"healthyFor": "10ms", "timeout": "60s"},
    });
    spec.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let intent = json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
        "metadata": {"name": intent, "namespace": place.namespace}, "spec": spec,
    });
    place
        .control
        .create(MIGRATIONS, Some(&place.namespace), intent)
        .await;
}

async fn completes(place: &Place, name: &str) {
    let (control, namespace) = (&place.control, Some(place.namespace.as_str()));
    until("it completes", async || {
        let intent = control.get(MIGRATIONS, namespace, name).await.unwrap();
        let phase = &intent["status"]["phase"];
        assert!(phase != "RolledBack" && phase != "Failed", "{intent:#}");
        phase == "Completed"
    })
    .await;
}

/// Takes away what the bench brought; what a sandbox had goes with it.
fn clear(world: &Runtime, place: Place) {
    let left = world.block_on(place.clear());
    assert!(left.is_empty(), "left behind: {left:#?}");
}

/// Returns the processor time of a process so far; it counts in hundredths of a second.
fn cpu_ms(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().unwrap() * 10.0).sum()
}
