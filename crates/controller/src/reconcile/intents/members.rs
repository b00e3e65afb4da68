//! What is read of the workload in one member: its copy, its pods, and their nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{join, join_all};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::ask::{all, map, optional};
use super::reader::MigrationReader;
use super::served;
use cutover_cluster::{Answer, Reader};
use cutover_core::intent::member::{Member, Pod};
use cutover_core::intent::migration;
use cutover_core::intent::{Read, Seen};
use cutover_core::profile::{Profile, selectors_in};
use cutover_karmada::name::ClusterName;

/// How long a member is given to answer. A look is about several: one that hangs, and doesn't refuse, would hide for minutes what is
/// seen of the others, until a phase has taken too long.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn no_answer(cluster: &ClusterName) -> String {
    format!("no answer from {cluster} within {} s", ANSWERS_WITHIN.as_secs())
}

/// Which pods are a workload's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selector {
    Of {
        selector: String,
        /// Pods whose containers have all ended are left out: those of a run to completion stay for their logs.
        only_running: bool,
    },
    /// It has none of its own.
    None,
    /// Neither journal nor profile and template say it.
    Unsaid,
    Unknown(String),
}

impl Selector {
    /// What the journal says comes first: the profile is only known as long as it is there.
    pub(super) fn of(journaled: Option<String>, profile: Option<&Profile>, template: Option<&Value>) -> Self {
        let only_running = profile.is_some_and(|profile| profile.spec().keeps_ended_pods());
        let of = |selector| Self::Of {
            selector,
            only_running,
        };
        let selector = match (journaled, profile, template) {
            (Some(selector), ..) => return of(selector),
            (None, Some(profile), Some(template)) => profile.pod_selector(template),
            (None, Some(profile), None) if profile.spec().no_pods.is_none() => Ok(None),
            (None, ..) => return Self::Unsaid,
        };
        match selector {
            Ok(Some(selector)) => of(selector),
            Ok(None) => Self::None,
            Err(error) => Self::Unknown(error.to_string()),
        }
    }

    /// Reads the pods in a cluster that count; `now`: as of when it is known that there are none.
    pub(super) async fn pods(
        &self,
        cluster: &ClusterName,
        reader: &Reader,
        namespace: Option<&str>,
        now: Read,
    ) -> Seen<Vec<Pod>> {
        that_count(&self.all(cluster, reader, namespace, now).await)
    }

    /// The same with those that have ended, and do not count.
    async fn all(
        &self,
        cluster: &ClusterName,
        reader: &Reader,
        namespace: Option<&str>,
        now: Read,
    ) -> Seen<Vec<Pod>> {
        match self {
            Self::Unsaid => Seen::unknown("nothing says which pods are the workload's"),
            Self::Unknown(why) => Seen::unknown(why.clone()),
            Self::None => Seen::known(Vec::new(), now),
            Self::Of {
                selector,
                only_running,
            } => map(
                &any_of(reader, namespace, &selectors_in(selector, Some(cluster))).await,
                |pods: &Vec<Listed>| {
                    let mut counted = BTreeSet::new();
                    // Several selectors may match the same one.
                    let pods = pods
                        .iter()
                        .filter(|pod| counted.insert((&pod.metadata.uid, &pod.metadata.name)));
                    pods.map(|listed| Pod {
                        has_ended: *only_running && listed.has_ended(),
                        ..listed.pod()
                    })
                    .collect()
                },
            ),
        }
    }
}

/// Returns the pods that count.
fn that_count(pods: &Seen<Vec<Pod>>) -> Seen<Vec<Pod>> {
    map(pods, |pods: &Vec<Pod>| {
        pods.iter().filter(|pod| !pod.has_ended).cloned().collect()
    })
}

/// Reads the pods that any of these selectors matches, one of several of them more than once; all of them, or none are known.
pub(super) async fn any_of<T: DeserializeOwned>(
    reader: &Reader,
    namespace: Option<&str>,
    selectors: &[String],
) -> Seen<Vec<T>> {
    let reads = selectors
        .iter()
        .map(|selector| reader.pods::<T>(namespace, selector));
    Seen::together(join_all(reads).await.into_iter().map(all))
}

impl MigrationReader<'_> {
    /// The object before its pods: once it is seen stopped, no more of them come. Nobody has to prove that of the writer, unless
    /// its template or its binding is gone.
    pub(super) async fn member(
        &self,
        cluster: &ClusterName,
        profile: Option<&Profile>,
        template: Option<&Value>,
        has_binding: bool,
    ) -> Member {
        let reader = self.parts.cluster.member(cluster);
        let selector = self.pod_selector(profile, template);
        let journal = self.status.journal_in_force();
        let writes = journal.is_some_and(|journal| journal.writer.as_ref() == Some(cluster));
        let ((object, silent), pods) = if writes && template.is_some() && has_binding {
            join(
                self.copy(cluster, &reader),
                self.pods(cluster, &reader, &selector),
            )
            .await
        } else {
            let (object, silent) = self.copy(cluster, &reader).await;
            let pods = if silent {
                Seen::unknown(no_answer(cluster))
            } else {
                self.pods(cluster, &reader, &selector).await
            };
            ((object, silent), pods)
        };
        let ended = pods.get().map_or_else(
            |_| BTreeSet::new(),
            |pods| {
                let ended = pods.iter().filter(|pod| pod.has_ended);
                ended.map(|pod| pod.uid.clone()).collect()
            },
        );
        let pods = that_count(&pods);
        // A node that a pod is seen on is asked about when that has gone, as a rule.
        let nodes = match pods.get() {
            Ok(pods) => {
                let on: BTreeSet<&String> = pods.iter().filter_map(|pod| pod.node.as_ref()).collect();
                let seen = journal.and_then(|journal| journal.nodes.get(cluster));
                let mut asked: BTreeSet<&String> = seen.into_iter().flatten().collect();
                if migration::asks_for_nodes(self.spec, self.status, cluster) {
                    asked.extend(on);
                } else {
                    asked.retain(|node| !on.contains(node));
                }
                let read = timeout(ANSWERS_WITHIN, self.nodes(&reader, asked.into_iter()));
                read.await.unwrap_or_else(|_| Seen::unknown(no_answer(cluster)))
            }
            Err(unknown) => Seen::unknown(unknown.to_string()),
        };
        Member {
            object,
            pods,
            nodes,
            ended,
            unchanged: Duration::ZERO,
            silent,
        }
    }

    /// Reads the copy; and whether nothing answered in the name of the member.
    async fn copy(&self, cluster: &ClusterName, reader: &Reader) -> (Seen<Option<Value>>, bool) {
        let workload = &self.spec.workload;
        match served(&self.parts.cluster, &workload.gvk()).await {
            Ok(served) => {
                let namespace = self.workload.namespace.as_deref();
                let read = reader.get(&served, namespace, &workload.name);
                let Ok(read) = timeout(ANSWERS_WITHIN, read).await else {
                    return (Seen::unknown(no_answer(cluster)), true);
                };
                let silent = read.silent;
                (optional(read), silent)
            }
            Err(error) => (Seen::unknown(error.to_string()), false),
        }
    }

    pub(super) fn pod_selector(&self, profile: Option<&Profile>, template: Option<&Value>) -> Selector {
        let journaled = self
            .status
            .journal_in_force()
            .and_then(|journal| journal.pods.clone());
        Selector::of(journaled, profile, template)
    }

    async fn pods(&self, cluster: &ClusterName, reader: &Reader, selector: &Selector) -> Seen<Vec<Pod>> {
        let namespace = self.workload.namespace.as_deref();
        let read = timeout(
            ANSWERS_WITHIN,
            selector.all(cluster, reader, namespace, self.instant()),
        );
        read.await.unwrap_or_else(|_| Seen::unknown(no_answer(cluster)))
    }

    async fn nodes(
        &self,
        reader: &Reader,
        names: impl Iterator<Item = &String>,
    ) -> Seen<BTreeMap<String, bool>> {
        let read = names.map(async |name| (name, reader.node(name).await.answer));
        let mut ready = BTreeMap::new();
        for (name, answer) in join_all(read).await {
            match answer {
                Answer::Found(node) => {
                    ready.insert(name.clone(), is_ready(&node));
                }
                Answer::NotFound => {}
                Answer::Unknown { why } => return Seen::unknown(why),
            }
        }
        Seen::known(ready, self.instant())
    }
}

/// Returns a pod as it is looked at; nothing of one that has another form than expected.
pub(super) fn pod(object: Value) -> Option<Pod> {
    serde_json::from_value::<Listed>(object)
        .ok()
        .map(|listed| listed.pod())
}

/// What is looked at of a pod in a list.
#[derive(Deserialize)]
struct Listed {
    metadata: Named,
    spec: Placed,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Placed {
    node_name: Option<String>,
}

impl Listed {
    fn pod(&self) -> Pod {
        Pod {
            name: self.metadata.name.clone(),
            node: self.spec.node_name.clone(),
            uid: self.metadata.uid.clone(),
            is_ready: self.status["phase"] == "Succeeded" || has_ready(&self.status),
            began: self.began(),
            restarts: self
                .containers()
                .filter_map(|container| container["restartCount"].as_u64())
                .sum(),
            labels: self.metadata.labels.clone(),
            has_ended: false,
            trouble: self.containers().find_map(trouble),
        }
    }

    /// Its kubelet says so of each container. A phase alone is also written for a node that is lost.
    fn has_ended(&self) -> bool {
        let phase = self.status["phase"].as_str().unwrap_or_default();
        let containers = self.status["containerStatuses"].as_array();
        let is_terminated = |container: &Value| container["state"]["terminated"].is_object();
        matches!(phase, "Succeeded" | "Failed")
            && containers.is_some_and(|all| !all.is_empty() && all.iter().all(is_terminated))
    }

    fn began(&self) -> bool {
        let is_there = |value: &Value| value.as_object().is_some_and(|value| !value.is_empty());
        let ran = |container: &Value| {
            let (now, before) = (&container["state"], &container["lastState"]);
            is_there(&now["running"])
                || is_there(&now["terminated"])
                || is_there(before)
                || container["restartCount"].as_u64().unwrap_or_default() > 0
        };
        match self.status["containerStatuses"].as_array() {
            Some(all) => all.iter().any(ran),
            None => self.spec.node_name.is_some(),
        }
    }

    /// The statuses of all its containers; those that come before the others first.
    fn containers(&self) -> impl Iterator<Item = &Value> {
        ["initContainerStatuses", "containerStatuses"]
            .into_iter()
            .filter_map(|field| self.status[field].as_array())
            .flatten()
    }
}

/// Returns why a container doesn't start, or has ended, in the words of its kubelet.
fn trouble(container: &Value) -> Option<String> {
    /// What every container goes through.
    const USUAL: [&str; 3] = ["ContainerCreating", "PodInitializing", "Completed"];
    let state = &container["state"];
    let why = ["waiting", "terminated"]
        .into_iter()
        .map(|name| &state[name])
        .find(|why| why.is_object())?;
    let reason = why["reason"].as_str().filter(|reason| !USUAL.contains(reason))?;
    Some(
        match why["message"].as_str().filter(|message| !message.is_empty()) {
            Some(message) => format!("{reason}: {message}"),
            None => reason.to_owned(),
        },
    )
}

pub(super) fn is_ready(object: &Value) -> bool {
    has_ready(&object["status"])
}

fn has_ready(status: &Value) -> bool {
    let conditions = status["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}
