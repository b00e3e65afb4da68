//! The oracle of what has no state: at every change of a pod the ready ones are counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cutover_sandbox::api::{ApiServer, EventKind, ListOptions, Resource};
use futures::StreamExt;
use serde_json::Value;
use tokio::task::JoinSet;

const PODS: Resource = Resource::new("", "pods");

/// What was counted.
#[derive(Default)]
struct Seen {
    ready: BTreeMap<String, u64>,
    lowest: Option<u64>,
    changes: usize,
}

impl Seen {
    fn note(&mut self, server: &str, ready: u64) {
        self.ready.insert(server.to_owned(), ready);
        self.changes += 1;
        let total = self.ready.values().sum();
        self.lowest = Some(self.lowest.map_or(total, |lowest| lowest.min(total)));
    }
}

pub struct Floor {
    least: u64,
    seen: Arc<Mutex<Seen>>,
    _watching: JoinSet<()>,
}

impl Floor {
    /// Counts the ready pods of web from now on, whenever one changes anywhere.
    pub fn watch(servers: Vec<ApiServer>, least: u64) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut watching = JoinSet::new();
        for server in servers {
            let seen = Arc::clone(&seen);
            // What is there counts from the start, before any change of it.
            seen.lock()
                .unwrap()
                .ready
                .insert(server.name().to_owned(), ready_pods(&server));
            watching.spawn(async move {
                let options = ListOptions::default();
                let mut watch = server
                    .watch(&PODS, Some("shop"), Some(server.revision()), &options)
                    .unwrap();
                while let Some(event) = watch.next().await {
                    assert_ne!(event.kind, EventKind::Error, "the history was cut short");
                    seen.lock().unwrap().note(server.name(), ready_pods(&server));
                }
            });
        }
        Self {
            least,
            seen,
            _watching: watching,
        }
    }

    /// The ready pods were never fewer.
    pub fn held(&self) {
        let seen = self.seen.lock().unwrap();
        assert!(seen.changes > 0, "nothing has happened");
        let lowest = seen.lowest.unwrap();
        assert!(
            lowest >= self.least,
            "{lowest} were ready at some moment, of {}",
            self.least
        );
    }
}

/// Pods that are ready and stay, and no more than the Deployment's controller counts: one that is on its way out is shown as
/// running until it is gone.
pub fn ready_pods(server: &ApiServer) -> u64 {
    let pods = server.list(&PODS, Some("shop"), &ListOptions::default());
    let is_ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let ready = conditions
            .iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        ready && pod["metadata"]["labels"]["app"] == "web" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let pods = pods.map(|pods| pods.items.iter().filter(|pod| is_ready(pod)).count());
    pods.unwrap_or_default() as u64
}
