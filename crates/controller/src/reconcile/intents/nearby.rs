//! What watches in the members say of a workload: its copies and their pods. They say when to look, never what is true: a copy that
//! stops or comes up is looked at in that moment, instead of every so often.
//!
//! Who may not watch there, or has lost a watch, is not told, and looks every so often.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join;
use futures::stream::BoxStream;
use serde_json::Value;
use tokio::task::AbortHandle;

use super::members::{Selector, pod};
use super::served;
use super::wake::WatchedKeys;
use cutover_cluster::{Cluster, Followed, Which};
use cutover_core::intent::member::Pod;
use cutover_core::profile::selectors_in;
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// How soon a watch is begun again that has ended.
const AGAIN: Duration = Duration::from_secs(1);
/// How soon one is begun again that was refused, or came to nobody.
const LATER: Duration = Duration::from_secs(10);

/// What is followed in every member, for one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Followee {
    pub gvk: Gvk,
    pub namespace: Option<String>,
    pub name: String,
    pub pods: Selector,
}

/// The members that are followed, for one workload.
#[derive(Debug, Default)]
pub(super) struct Nearby {
    watched_keys: Option<WatchedKeys>,
    of: Option<Followee>,
    members: BTreeMap<ClusterName, Following>,
}

/// What was told of one member.
#[derive(Debug)]
struct Following {
    events: Arc<Mutex<Reported>>,
    task: AbortHandle,
}

impl Drop for Following {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A copy, as it was told last.
#[derive(Clone, Debug, Default)]
pub(super) enum Copy {
    #[default]
    Unreported,
    Gone,
    There(Box<Value>),
}

/// `None`: nothing was told yet, or not any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported {
    pub copy: Copy,
    pub pods: Option<BTreeMap<String, Pod>>,
    follows_copy: bool,
    follows_pods: bool,
}

impl Reported {
    pub(super) const fn is_whole(&self) -> bool {
        self.follows_copy && self.follows_pods
    }
}

impl Nearby {
    /// Wakes this worker from now on.
    pub(super) fn wake(&mut self, watched_keys: &WatchedKeys) {
        self.watched_keys = Some(watched_keys.clone());
    }

    /// Follows a workload in these members, and in no others.
    pub(super) fn follow<'a>(
        &mut self,
        cluster: &Cluster,
        followee: &Followee,
        members: impl IntoIterator<Item = &'a ClusterName>,
    ) {
        let Some(watched_keys) = &self.watched_keys else {
            return;
        };
        if self.of.as_ref() != Some(followee) {
            self.members.clear();
            self.of = Some(followee.clone());
        }
        let mut before = std::mem::take(&mut self.members);
        for name in members {
            let following = before.remove(name).unwrap_or_else(|| {
                let events = Arc::<Mutex<Reported>>::default();
                let watch = Watch {
                    cluster: cluster.clone(),
                    member: name.clone(),
                    followee: followee.clone(),
                    watched_keys: watched_keys.clone(),
                    events: Arc::clone(&events),
                };
                let task = tokio::spawn(watch.run()).abort_handle();
                Following { events, task }
            });
            self.members.insert(name.clone(), following);
        }
    }

    pub(super) fn stop(&mut self) {
        self.members.clear();
    }

    /// Returns what was told of a member.
    pub(super) fn events(&self, member: &ClusterName) -> Option<Reported> {
        self.members
            .get(member)
            .map(|member| lock(&member.events).clone())
    }

    /// Returns whether watches cover the workload and its pods in a member.
    pub(super) fn is_followed(&self, member: &ClusterName) -> bool {
        let following = self.members.get(member);
        following.is_some_and(|member| lock(&member.events).is_whole())
    }
}

/// Returns by what name a worker hears of the copy in a member.
pub(super) fn key(member: &ClusterName) -> ObjectKey {
    ObjectKey {
        group: "members.cutover.dev".to_owned(),
        kind: "Copy".to_owned(),
        namespace: None,
        name: member.to_string(),
    }
}

/// Returns the member that a name of [`key`] is about.
pub(super) fn member_of(key: &ObjectKey) -> Option<ClusterName> {
    (key.group == "members.cutover.dev").then(|| ClusterName::new(key.name.as_str()))
}

struct Watch {
    cluster: Cluster,
    member: ClusterName,
    followee: Followee,
    watched_keys: WatchedKeys,
    events: Arc<Mutex<Reported>>,
}

impl Watch {
    async fn run(self) {
        join(self.copies(), self.pods()).await;
    }

    async fn copies(&self) {
        let which = Which::Named(self.followee.name.clone());
        loop {
            let stream = async {
                let served = served(&self.cluster, &self.followee.gvk).await.ok()?;
                let reader = self.cluster.member(&self.member);
                let namespace = self.followee.namespace.as_deref();
                reader.follow(&served, namespace, &which).await.ok()
            };
            let stream = stream.await;
            self.events(|events| events.follows_copy = stream.is_some());
            let again = self.take_in(stream, |events, event| {
                events.copy = match event {
                    Followed::There(copy) => Copy::There(Box::new(copy)),
                    Followed::Gone(_) => Copy::Gone,
                };
            });
            let again = again.await;
            self.events(|events| (events.copy, events.follows_copy) = (Copy::Unreported, false));
            tokio::time::sleep(again).await;
        }
    }

    async fn pods(&self) {
        let Selector::Of { selector, .. } = &self.followee.pods else {
            return self.events(|events| events.follows_pods = matches!(self.followee.pods, Selector::None));
        };
        let selectors = selectors_in(selector, Some(&self.member));
        // Of a pod that one watch of several takes away another may still know: these are looked at every so often.
        let [selector] = selectors.as_slice() else {
            return;
        };
        loop {
            let reader = self.cluster.member(&self.member);
            let namespace = self.followee.namespace.as_deref();
            let stream = reader.follow_pods(namespace, selector).await.ok();
            self.events(|events| events.follows_pods = stream.is_some());
            let again = self.take_in(stream, |events, event| {
                let pods = events.pods.get_or_insert_default();
                match event {
                    Followed::There(there) => pods.extend(pod(there).map(|pod| (pod.name.clone(), pod))),
                    Followed::Gone(gone) => {
                        let name = gone["metadata"]["name"].as_str();
                        pods.retain(|pod, _| Some(pod.as_str()) != name);
                    }
                }
            });
            let again = again.await;
            self.events(|events| (events.pods, events.follows_pods) = (None, false));
            tokio::time::sleep(again).await;
        }
    }

    /// Takes in what a watch tells until it ends; returns how soon to begin another.
    async fn take_in(
        &self,
        stream: Option<BoxStream<'static, Followed>>,
        mut keep: impl FnMut(&mut Reported, Followed),
    ) -> Duration {
        let Some(mut stream) = stream else { return LATER };
        while let Some(event) = stream.next().await {
            self.events(|events| keep(events, event));
            self.watched_keys.tell(&key(&self.member));
        }
        AGAIN
    }

    fn events(&self, change: impl FnOnce(&mut Reported)) {
        change(&mut lock(&self.events));
    }
}

fn lock(events: &Mutex<Reported>) -> MutexGuard<'_, Reported> {
    events.lock().unwrap_or_else(PoisonError::into_inner)
}
