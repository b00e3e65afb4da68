//! Shifts of replicas: grow before shrink, judged by the pods that are ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{DEAD_ENDS, IMAGE};
use crate::e2e::act::Act;
use crate::e2e::server::{PODS, Server};

const REPLICAS: usize = 4;

pub async fn replicas_go_over_and_never_become_fewer(act: Act) {
    let act = act.deployment();
    let [here, there] = act.place().pair().map(str::to_owned);
    let mut workload = act.workload(IMAGE);
    workload["spec"]["replicas"] = json!(REPLICAS);
    act.runs_in(&[&here], &workload).await;
    let floor = Floor::watch(&act, &here, &there, REPLICAS);
    act.ask(&json!({
        "workload": act.about(), "from": {"cluster": here}, "to": there,
        "percentages": [50, 100], "timeout": "60s",
    }));
    let status = act.comes_to("Shifted", DEAD_ENDS).await;
    assert_eq!(status["moved"], "4/4", "{status:#}");
    assert_eq!(replicas(&act, &here).await, Some(0));
    assert_eq!(replicas(&act, &there).await, Some(REPLICAS));
    // The policy says what the pin says.
    act.commit(&[("policy", &act.policy_of(&[&there]))]);
    let status = act.comes_to("Completed", DEAD_ENDS).await;
    assert_eq!(status["lowest"], REPLICAS, "by its own account");
    act.is_settled_in(&there).await;
    assert_eq!(replicas(&act, &there).await, Some(REPLICAS));
    floor.held();
}

async fn replicas(act: &Act, cluster: &str) -> Option<usize> {
    let copy = act.copy(cluster).await?;
    copy["spec"]["replicas"]
        .as_u64()
        .map(|replicas| usize::try_from(replicas).unwrap())
}

/// Counts the ready pods whenever one of the source's changes: first there, then in the target, where they only become more.
/// So what is counted is never less than what was there at that moment.
pub(super) struct Floor {
    least: usize,
    lowest: Arc<AtomicUsize>,
    counts: Arc<AtomicUsize>,
    watching: JoinSet<()>,
}

impl Floor {
    pub(super) fn watch(act: &Act, here: &str, there: &str, floor: usize) -> Self {
        let servers = [here, there].map(|cluster| act.place().members[cluster].server.clone());
        let lowest = Arc::new(AtomicUsize::new(usize::MAX));
        let counts = Arc::new(AtomicUsize::new(0));
        let (least, counted) = (Arc::clone(&lowest), Arc::clone(&counts));
        let (namespace, name) = (act.namespace().to_owned(), act.name);
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            let labelled = watcher::Config::default().labels(&format!("app={name}"));
            let pods = watcher(servers[0].api(PODS, Some(&namespace)), labelled);
            let mut pods = std::pin::pin!(pods.default_backoff().touched_objects());
            while pods.next().await.is_some() {
                let mut ready = 0;
                for server in &servers {
                    ready += ready_pods(server, &namespace, name).await;
                }
                least.fetch_min(ready, Ordering::Relaxed);
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self {
            least: floor,
            lowest,
            counts,
            watching,
        }
    }

    pub(super) fn held(self) {
        assert!(!self.watching.is_empty(), "somebody looks on");
        assert!(
            self.counts.load(Ordering::Relaxed) >= self.least,
            "every pod that went was seen"
        );
        assert_eq!(
            self.lowest.load(Ordering::Relaxed),
            self.least,
            "never fewer were ready"
        );
    }
}

async fn ready_pods(server: &Server, namespace: &str, name: &str) -> usize {
    let all = server.list(PODS, Some(namespace)).await;
    let is_ready = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
        pod["metadata"]["labels"]["app"] == name
            && pod["metadata"]["deletionTimestamp"].is_null()
            && ready.any(|condition| condition["status"] == "True")
    };
    all.iter().filter(is_ready).count()
}
