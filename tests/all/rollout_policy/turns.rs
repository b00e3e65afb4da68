//! How many workloads roll at once: never more than the policy says, whatever the commit changes and whoever is killed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::reconcile;
use cutover::sandbox::World;
use cutover::sandbox::api::ListOptions;
use futures::StreamExt;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{ALL, ROLLOUTS, Stage, policy, workload};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// Hears of every version of every Rollout, and keeps the largest number that were under way at once.
struct Crowd {
    most: Arc<Mutex<usize>>,
    watching: JoinHandle<()>,
}

impl Crowd {
    fn watch(world: &World) -> Self {
        let most: Arc<Mutex<usize>> = Arc::default();
        let (control, largest) = (world.control_plane().clone(), Arc::clone(&most));
        let watching = tokio::spawn(async move {
            let mut under_way = BTreeSet::new();
            let mut watch = control
                .watch(&ROLLOUTS, Some("shop"), None, &ListOptions::default())
                .unwrap();
            while let Some(event) = watch.next().await {
                let name = event.object["metadata"]["name"].to_string();
                if event.object["status"]["journal"].is_null() {
                    under_way.remove(&name);
                } else {
                    under_way.insert(name);
                }
                let mut largest = largest.lock().unwrap();
                *largest = under_way.len().max(*largest);
            }
        });
        Self { most, watching }
    }

    fn most(&self) -> usize {
        assert!(!self.watching.is_finished(), "somebody looks on");
        *self.most.lock().unwrap()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// Five more workloads, all of them at their first version.
async fn several(more: &str) -> Stage {
    let files = NAMES.map(|name| (format!("{name}.yaml"), workload(name, &format!("{name}:1"))));
    let policy = policy("web", more);
    let mut first: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    first.push(("policy.yaml", &policy));
    let stage = Stage::start_with(&first, &NAMES.map(|name| format!("{name}:1"))).await;
    for name in NAMES {
        stage.everywhere(name, &format!("{name}:1")).await;
    }
    stage
        .until("it selects them", || {
            stage.policy("web")["status"]["selected"] == 7
        })
        .await;
    stage
}

fn changes_all(stage: &Stage, version: usize) {
    let files = NAMES.map(|name| {
        (
            format!("{name}.yaml"),
            workload(name, &format!("{name}:{version}")),
        )
    });
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    stage.push(&files);
}

async fn all_have(stage: &Stage, version: usize) {
    for name in NAMES {
        stage.everywhere(name, &format!("{name}:{version}")).await;
    }
    for name in NAMES {
        stage.rests(name, &format!("{name}:{version}")).await;
        assert_eq!(
            stage.order_of(&format!("{name}:{version}")),
            ["east", "north", "west"]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_changes_many_rolls_as_many_at_once_as_it_may() {
    let stage = several("  maxParallel: 2\n").await;
    let crowd = Crowd::watch(&stage.world);
    changes_all(&stage, 2);
    stage
        .until("others wait for their turn", || {
            let status = &stage.policy("web")["status"];
            let rows = status["workloads"].as_array().cloned().unwrap_or_default();
            let queued = rows.iter().filter(|row| row["note"] == "waits for its turn");
            status["queued"] == 3 && status["rolling"] == 2 && queued.count() == 3
        })
        .await;
    all_have(&stage, 2).await;
    // Those that have rolled before wait like all others.
    changes_all(&stage, 3);
    all_have(&stage, 3).await;
    assert_eq!(crowd.most(), 2);
    stage
        .until("nobody waits", || stage.policy("web")["status"]["queued"] == 0)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_halted_keeps_its_turn_until_somebody_decides() {
    let slow = "  progress: {timeout: 1s, healthyFor: 100ms}\n";
    let one_at_a_time =
        policy("web", "  maxParallel: 1\n").replace("  progress: {timeout: 20s, healthyFor: 200ms}\n", slow);
    let stage = Stage::start(&[("policy.yaml", &one_at_a_time)]).await;
    stage.push(&[("web.yaml", &workload("web", "web:broken"))]);
    stage.phase("web", "Halted").await;
    stage.push(&[("api.yaml", &workload("api", "api:2"))]);
    stage
        .until("the other one waits for its turn", || {
            stage.policy("web")["status"]["queued"] == 1
        })
        .await;
    assert!(ALL.iter().all(|cluster| stage.image(cluster, "api") == "api:1"));
    stage.push(&[("web.yaml", &workload("web", "web:3"))]);
    stage.everywhere("web", "web:3").await;
    stage.everywhere("api", "api:2").await;
    stage.rests("web", "web:3").await;
    stage.rests("api", "api:2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_the_middle_no_more_of_them_roll_at_once() {
    let mut stage = several("  maxParallel: 2\n").await;
    let crowd = Crowd::watch(&stage.world);
    for (version, pause) in (2..).zip([5, 60, 300]) {
        changes_all(&stage, version);
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            stage.kill().await;
            stage.resume();
        }
        all_have(&stage, version).await;
    }
    assert_eq!(crowd.most(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_gives_everybody_a_turn() {
    let mut stage = several("  maxParallel: 1\n").await;
    stage.kill().await;
    changes_all(&stage, 2);
    let once = reconcile::once(stage.options(), CancellationToken::new());
    tokio::time::timeout(Duration::from_mins(2), once)
        .await
        .unwrap()
        .unwrap();
    for name in NAMES {
        let image = format!("{name}:2");
        assert!(
            ALL.iter().all(|cluster| stage.image(cluster, name) == image),
            "{image}"
        );
    }
}
