//! Which version of a copy stood where, when: the judge of what must not reach a cluster, or only after another one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::{StreamExt, TryStreamExt};
use kube::api::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use tokio::task::JoinSet;

use super::act::Act;

/// One cluster's copy looked like this from then on.
#[derive(Clone, Debug)]
struct Sighting {
    cluster: String,
    version: String,
    at: Instant,
}

/// Watches the copies in all members; dropped, it looks on no more.
pub struct Sightings {
    seen: Arc<Mutex<Vec<Sighting>>>,
    watching: JoinSet<()>,
}

impl Sightings {
    /// Begins to look on. `version` says what of a copy counts.
    pub fn of(act: &Act, version: fn(&Value) -> String) -> Self {
        let seen: Arc<Mutex<Vec<Sighting>>> = Arc::default();
        let mut watching = JoinSet::new();
        for (cluster, member) in &act.place().members {
            let api = member.server.api(act.kind(), Some(act.namespace()));
            let named = watcher::Config::default().fields(&format!("metadata.name={}", act.name));
            let (seen, cluster) = (Arc::clone(&seen), cluster.clone());
            watching.spawn(async move {
                let copies = watcher(api, named).default_backoff().applied_objects();
                let mut copies = std::pin::pin!(copies.into_stream());
                while let Some(copy) = copies.next().await {
                    let Ok(copy) = copy else { continue };
                    note(&seen, &cluster, version, &copy);
                }
            });
        }
        Self { seen, watching }
    }

    /// Which versions a cluster's copy had, in their order.
    pub fn in_cluster(&self, cluster: &str) -> Vec<String> {
        self.all()
            .into_iter()
            .filter(|sighting| sighting.cluster == cluster)
            .map(|sighting| sighting.version)
            .collect()
    }

    /// Which clusters had a version, in the order in which they came to it, with the time of each.
    pub fn of_version(&self, version: &str) -> Vec<(String, Instant)> {
        self.all()
            .into_iter()
            .filter(|sighting| sighting.version == version)
            .map(|sighting| (sighting.cluster, sighting.at))
            .collect()
    }

    fn all(&self) -> Vec<Sighting> {
        assert!(!self.watching.is_empty(), "somebody looks on");
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn note(seen: &Mutex<Vec<Sighting>>, cluster: &str, version: fn(&Value) -> String, copy: &DynamicObject) {
    let sighting = Sighting {
        cluster: cluster.to_owned(),
        version: version(&serde_json::to_value(copy).unwrap()),
        at: Instant::now(),
    };
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let last = seen.iter().rev().find(|last| last.cluster == cluster);
    if last.is_none_or(|last| last.version != sighting.version) {
        seen.push(sighting);
    }
}
