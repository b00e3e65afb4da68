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
use super::wake::Interest;
use cutover_cluster::{Cluster, Followed, Which};
use cutover_core::intent::world::Pod;
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
    interest: Option<Interest>,
    of: Option<Followee>,
    members: BTreeMap<ClusterName, Following>,
}

/// What was told of one member.
#[derive(Debug)]
struct Following {
    told: Arc<Mutex<Told>>,
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
    Untold,
    Gone,
    There(Box<Value>),
}

/// `None`: nothing was told yet, or not any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub copy: Copy,
    pub pods: Option<BTreeMap<String, Pod>>,
    follows_copy: bool,
    follows_pods: bool,
}

impl Told {
    pub(super) const fn is_whole(&self) -> bool {
        self.follows_copy && self.follows_pods
    }
}

impl Nearby {
    /// Wakes this worker from now on.
    pub(super) fn wake(&mut self, interest: &Interest) {
        self.interest = Some(interest.clone());
    }

    /// Follows a workload in these members, and in no others.
    pub(super) fn follow<'a>(
        &mut self,
        cluster: &Cluster,
        followee: &Followee,
        members: impl IntoIterator<Item = &'a ClusterName>,
    ) {
        let Some(interest) = &self.interest else { return };
        if self.of.as_ref() != Some(followee) {
            self.members.clear();
            self.of = Some(followee.clone());
        }
        let mut before = std::mem::take(&mut self.members);
        for name in members {
            let following = before.remove(name).unwrap_or_else(|| {
                let told = Arc::<Mutex<Told>>::default();
                let watch = Watch {
                    cluster: cluster.clone(),
                    member: name.clone(),
                    followee: followee.clone(),
                    interest: interest.clone(),
                    told: Arc::clone(&told),
                };
                let task = tokio::spawn(watch.run()).abort_handle();
                Following { told, task }
            });
            self.members.insert(name.clone(), following);
        }
    }

    pub(super) fn stop(&mut self) {
        self.members.clear();
    }

    /// Returns what was told of a member.
    pub(super) fn told(&self, member: &ClusterName) -> Option<Told> {
        self.members.get(member).map(|member| lock(&member.told).clone())
    }

    /// Returns whether watches cover the workload and its pods in a member.
    pub(super) fn is_followed(&self, member: &ClusterName) -> bool {
        let following = self.members.get(member);
        following.is_some_and(|member| lock(&member.told).is_whole())
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
    interest: Interest,
    told: Arc<Mutex<Told>>,
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
            self.told(|told| told.follows_copy = stream.is_some());
            let again = self.take_in(stream, |told, event| {
                told.copy = match event {
                    Followed::There(copy) => Copy::There(Box::new(copy)),
                    Followed::Gone(_) => Copy::Gone,
                };
            });
            let again = again.await;
            self.told(|told| (told.copy, told.follows_copy) = (Copy::Untold, false));
            tokio::time::sleep(again).await;
        }
    }

    async fn pods(&self) {
        let Selector::Of(selector) = &self.followee.pods else {
            return self.told(|told| told.follows_pods = matches!(self.followee.pods, Selector::None));
        };
        loop {
            let reader = self.cluster.member(&self.member);
            let namespace = self.followee.namespace.as_deref();
            let stream = reader.follow_pods(namespace, selector).await.ok();
            self.told(|told| told.follows_pods = stream.is_some());
            let again = self.take_in(stream, |told, event| {
                let pods = told.pods.get_or_insert_default();
                match event {
                    Followed::There(there) => pods.extend(pod(there).map(|pod| (pod.name.clone(), pod))),
                    Followed::Gone(gone) => {
                        let name = gone["metadata"]["name"].as_str();
                        pods.retain(|pod, _| Some(pod.as_str()) != name);
                    }
                }
            });
            let again = again.await;
            self.told(|told| (told.pods, told.follows_pods) = (None, false));
            tokio::time::sleep(again).await;
        }
    }

    /// Takes in what a watch tells until it ends; returns how soon to begin another.
    async fn take_in(
        &self,
        stream: Option<BoxStream<'static, Followed>>,
        mut keep: impl FnMut(&mut Told, Followed),
    ) -> Duration {
        let Some(mut stream) = stream else { return LATER };
        while let Some(event) = stream.next().await {
            self.told(|told| keep(told, event));
            self.interest.tell(&key(&self.member));
        }
        AGAIN
    }

    fn told(&self, change: impl FnOnce(&mut Told)) {
        change(&mut lock(&self.told));
    }
}

fn lock(told: &Mutex<Told>) -> MutexGuard<'_, Told> {
    told.lock().unwrap_or_else(PoisonError::into_inner)
}
