//! Reads that are always asked of the server: of the control plane, or of a member through Karmada's cluster proxy.
//!
//! What can't be answered stays unknown. In particular, a 404 counts as "not there" only when it is about the object
//! that was asked for: the proxy answers 404 for a cluster that it doesn't know, too.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::answer::{Answer, Read};
use super::connect::Cluster;
use super::object::{Served, collection, escape, item, segment, with_type};
use super::{Error, Result};
use cutover_karmada::name::{ClusterName, Gvk};

/// How many objects of one kind are read beside a copy; of more than that nothing is known.
const BESIDE: usize = 500;

impl Cluster {
    /// Reads of the control plane that are always asked of the server.
    pub fn reader(&self) -> Reader {
        Reader::of_control_plane(self.clone())
    }

    /// Reads of a member, through Karmada's cluster proxy.
    pub fn member(&self, name: &ClusterName) -> Reader {
        Reader::of_member(self.clone(), name.clone())
    }
}

/// Asks one server, every time.
#[derive(Clone, Debug)]
pub struct Reader {
    pub(super) cluster: Cluster,
    member: Option<ClusterName>,
}

impl Reader {
    pub(super) const fn of_control_plane(cluster: Cluster) -> Self {
        Self {
            cluster,
            member: None,
        }
    }

    pub(super) const fn of_member(cluster: Cluster, member: ClusterName) -> Self {
        Self {
            cluster,
            member: Some(member),
        }
    }

    /// Reads one object.
    pub async fn get(&self, served: &Served, namespace: Option<&str>, name: &str) -> Read<Value> {
        self.get_as(served, namespace, name).await
    }

    /// Reads one object as a type; one that doesn't fit is unknown, not absent.
    pub async fn get_as<T: DeserializeOwned>(
        &self,
        served: &Served,
        namespace: Option<&str>,
        name: &str,
    ) -> Read<T> {
        self.ask(item(served, namespace, name), |answer| match answer {
            Ok(body) => match parsed::<Head>(&body) {
                Ok(head) if head.kind.as_deref() == Some(&served.gvk.kind) => {
                    parsed(&body).map_or_else(Answer::unknown, Answer::Found)
                }
                Ok(head) => Answer::unknown(format!("asked for a {}, got {:?}", served.gvk.kind, head.kind)),
                Err(why) => Answer::unknown(why),
            },
            Err(error)
                if error
                    .status()
                    .is_some_and(|status| is_about(status, served, name)) =>
            {
                Answer::NotFound
            }
            Err(error) => Answer::unknown(error.to_string()),
        })
        .await
    }

    /// Reads all objects of a kind in a namespace, or in all, that a label selector matches. Never `NotFound`.
    pub async fn list(
        &self,
        served: &Served,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Read<Vec<Value>> {
        let read = self.list_as(served, namespace, selector).await;
        read.map(|items: Vec<Value>| {
            let typed = items.into_iter().map(|item| with_type(item, &served.gvk));
            Answer::Found(typed.collect())
        })
    }

    /// Reads all objects as `list` does, each as a type; one that doesn't fit makes all unknown: a shorter list would be a lie.
    pub async fn list_as<T: DeserializeOwned>(
        &self,
        served: &Served,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Read<Vec<T>> {
        let path = collection(served, namespace).map(|path| match selector {
            Some(selector) => format!("{path}?labelSelector={}", escape(selector)),
            None => path,
        });
        self.ask(path, |answer| {
            let body = match answer {
                Ok(body) => body,
                Err(error) => return Answer::unknown(error.to_string()),
            };
            match parsed::<List<T>>(&body) {
                Ok(list) => complete(list, served),
                Err(why) => Answer::unknown(why),
            }
        })
        .await
    }

    /// Reads one object as `get` does, together with whoever asks for the same meanwhile.
    pub async fn get_together(
        &self,
        served: &Served,
        namespace: Option<&str>,
        name: &str,
    ) -> Read<Arc<Value>> {
        let what = format!("{} {namespace:?} {name:?} of {:?}", served.gvk, self.member);
        let asked = self.cluster.tick();
        let single_flight = self.cluster.single_flight();
        single_flight
            .read(&what, asked, self.get(served, namespace, name))
            .await
    }

    /// Reads all objects of a kind as `list` does, together with whoever asks for the same meanwhile. What they are made to is
    /// shared, too: all who ask for one type make the same of it.
    pub async fn list_together<T: DeserializeOwned, U: Send + Sync + 'static>(
        &self,
        served: &Served,
        namespace: Option<&str>,
        make: impl FnOnce(Vec<T>) -> U,
    ) -> Read<Arc<U>> {
        let what = format!("{} {namespace:?} of {:?}", served.gvk, self.member);
        let asked = self.cluster.tick();
        let ask = async {
            let read = self.list_as(served, namespace, None).await;
            read.map(|items| Answer::Found(make(items)))
        };
        self.cluster.single_flight().read(&what, asked, ask).await
    }

    /// Reads the pods that a label selector matches.
    /// Without a namespace, those of all namespaces.
    pub async fn pods<T: DeserializeOwned>(&self, namespace: Option<&str>, selector: &str) -> Read<Vec<T>> {
        self.list_as(&built_in("Pod", "pods", true), namespace, Some(selector))
            .await
    }

    /// Asks whether an object is there; of its content nothing is kept.
    pub async fn exists(&self, served: &Served, namespace: Option<&str>, name: &str) -> Read<()> {
        self.get(served, namespace, name).await.map(|_| Answer::Found(()))
    }

    /// Reads the autoscalers of a namespace.
    pub async fn autoscalers(&self, namespace: Option<&str>) -> Read<Vec<Value>> {
        let mut served = built_in("HorizontalPodAutoscaler", "horizontalpodautoscalers", true);
        served.gvk = Gvk::new("autoscaling/v2", "HorizontalPodAutoscaler");
        self.list(&served, namespace, None).await
    }

    /// Reads the Events of a namespace that warn of something: the first of them, where there are very many.
    pub async fn warnings(&self, namespace: Option<&str>) -> Read<Vec<Value>> {
        let path = collection(&built_in("Event", "events", true), namespace);
        let path = path.map(|path| format!("{path}?fieldSelector=type%3DWarning&limit=500"));
        self.ask(path, |answer| match answer {
            Ok(body) => match parsed::<List<Value>>(&body) {
                Ok(list) if list.kind == "EventList" => Answer::Found(list.items.unwrap_or_default()),
                Ok(list) => Answer::unknown(format!(
                    "a {} was answered instead of a list of events",
                    list.kind
                )),
                Err(why) => Answer::unknown(why),
            },
            Err(error) => Answer::unknown(error.to_string()),
        })
        .await
    }

    /// Reads the objects of a kind that a label selector matches, where that kind may not be served: none where it isn't. More
    /// than 500 are unknown. The kind is in an API group, and has a namespace.
    pub async fn list_where_served(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        selector: &str,
    ) -> Read<Vec<Value>> {
        self.list_found(gvk, namespace, selector, self.look_up(gvk)).await
    }

    /// Reads the same in whatever version the server has the kind: none where it has it in no version.
    pub async fn list_in_any_version(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        selector: &str,
    ) -> Read<Vec<Value>> {
        let found = self.look_up_in_any_version(gvk);
        self.list_found(gvk, namespace, selector, found).await
    }

    async fn list_found(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        selector: &str,
        found: impl Future<Output = Read<Option<Served>>>,
    ) -> Read<Vec<Value>> {
        // Nearly every kind has this plural: what is the rule takes one request.
        let guessed = Served {
            gvk: gvk.clone(),
            plural: format!("{}s", gvk.kind.to_lowercase()),
            namespaced: true,
            watchable: true,
        };
        let read = self.list_some(&guessed, namespace, selector).await;
        if read.answer != Answer::NotFound {
            return read;
        }
        let found = found.await;
        match &found.answer {
            Answer::Found(Some(served)) => {
                let read = self.list_some(served, namespace, selector).await;
                match read.answer {
                    Answer::NotFound => Read {
                        answer: Answer::unknown("a list was answered with 404"),
                        ..read
                    },
                    _ => read,
                }
            }
            _ => found.map(|_| Answer::Found(Vec::new())),
        }
    }

    /// Returns how kinds of one API group are served here, each in the first version of the group that has it: those that any has.
    pub async fn look_up_all(&self, group: &str, kinds: &[&str]) -> Read<Vec<Served>> {
        let groups = self.groups().await;
        let of_group = match &groups.answer {
            Answer::Found(all) => all.iter().find(|known| known.name == group),
            _ => None,
        };
        let versions = of_group.into_iter().flat_map(|group| &group.versions);
        let versions: Vec<String> = versions.map(|version| version.version.clone()).collect();
        let mut served: Vec<Served> = Vec::new();
        for version in versions {
            let mut missing = kinds.to_vec();
            missing.retain(|kind| served.iter().all(|known| known.gvk.kind != *kind));
            if missing.is_empty() {
                break;
            }
            let of_version = self.kinds(group, &version).await;
            let Answer::Found(all) = &of_version.answer else {
                return of_version.map(|_| Answer::Found(Vec::new()));
            };
            let gvk = |kind: &str| Gvk {
                group: group.to_owned(),
                version: version.clone(),
                kind: kind.to_owned(),
            };
            served.extend(missing.into_iter().filter_map(|kind| served_as(all, &gvk(kind))));
        }
        groups.map(|_| Answer::Found(served))
    }

    /// Reads a list of limited length. `NotFound`: the path was answered with a 404, by whomever.
    async fn list_some(&self, served: &Served, namespace: Option<&str>, selector: &str) -> Read<Vec<Value>> {
        let path = collection(served, namespace)
            .map(|path| format!("{path}?labelSelector={}&limit={BESIDE}", escape(selector)));
        self.ask(path, |answer| match answer {
            Ok(body) => match parsed::<List<Value>>(&body) {
                Ok(list) => complete(list, served),
                Err(why) => Answer::unknown(why),
            },
            Err(error) if error.code() == 404 => Answer::NotFound,
            Err(error) => Answer::unknown(error.to_string()),
        })
        .await
    }

    /// Returns how a kind is served here; `None` if the server says that it isn't.
    async fn look_up(&self, gvk: &Gvk) -> Read<Option<Served>> {
        let groups = self.groups().await;
        let is_served = |group: &Group| {
            let mut versions = group.versions.iter();
            group.name == gvk.group && versions.any(|version| version.version == gvk.version)
        };
        match &groups.answer {
            Answer::Found(all) if all.iter().any(is_served) => self.look_up_version(gvk).await,
            _ => groups.map(|_| Answer::Found(None)),
        }
    }

    /// Returns how a kind of an API group is served here, in its version or else in another one; `None` if the server says that it
    /// isn't in any.
    pub async fn look_up_in_any_version(&self, gvk: &Gvk) -> Read<Option<Served>> {
        let groups = self.groups().await;
        let versions = match &groups.answer {
            Answer::Found(all) => all.iter().find(|group| group.name == gvk.group),
            _ => None,
        };
        let versions = versions.into_iter().flat_map(|group| &group.versions);
        let mut versions: Vec<String> = versions.map(|version| version.version.clone()).collect();
        // The sort is stable: the others stay in the server's order.
        versions.sort_by_key(|version| *version != gvk.version);
        for version in versions {
            let of_version = Gvk {
                version,
                ..gvk.clone()
            };
            let found = self.look_up_version(&of_version).await;
            if !matches!(found.answer, Answer::Found(None)) {
                return found;
            }
        }
        groups.map(|_| Answer::Found(None))
    }

    /// Returns the same in a version that is served.
    async fn look_up_version(&self, gvk: &Gvk) -> Read<Option<Served>> {
        let kinds = self.kinds(&gvk.group, &gvk.version).await;
        kinds.map(|all| Answer::Found(served_as(&all, gvk)))
    }

    /// Reads the kinds that a version of a group has.
    async fn kinds(&self, group: &str, version: &str) -> Read<Vec<ServedKind>> {
        let path = format!("/apis/{group}/{version}");
        self.ask(Ok(path), |answer| match answer {
            Ok(body) => match parsed::<Kinds>(&body) {
                Ok(all) if all.kind == "APIResourceList" => Answer::Found(all.resources),
                Ok(other) => Answer::unknown(format!(
                    "a {} was answered instead of a list of kinds",
                    other.kind
                )),
                Err(why) => Answer::unknown(why),
            },
            Err(error) => Answer::unknown(error.to_string()),
        })
        .await
    }

    /// Reads the API groups of the server. That a path is not found may be said by anything on the way: that a group is not among
    /// all groups, by the server alone.
    async fn groups(&self) -> Read<Vec<Group>> {
        self.ask(Ok("/apis".to_owned()), |answer| match answer {
            Ok(body) => match parsed::<Groups>(&body) {
                Ok(all) if all.kind == "APIGroupList" => Answer::Found(all.groups),
                Ok(other) => Answer::unknown(format!(
                    "a {} was answered instead of a list of groups",
                    other.kind
                )),
                Err(why) => Answer::unknown(why),
            },
            Err(error) => Answer::unknown(error.to_string()),
        })
        .await
    }

    /// Reads KEDA's scaled objects of a namespace: none where their group is not served.
    pub async fn scaled_objects(&self, namespace: Option<&str>) -> Read<Vec<Value>> {
        let mut served = built_in("ScaledObject", "scaledobjects", true);
        served.gvk = Gvk::new("keda.sh/v1alpha1", "ScaledObject");
        let groups = self.groups().await;
        match &groups.answer {
            Answer::Found(all) if all.iter().any(|group| group.name == served.gvk.group) => {
                self.list(&served, namespace, None).await
            }
            _ => groups.map(|_| Answer::Found(Vec::new())),
        }
    }

    pub async fn node(&self, name: &str) -> Read<Value> {
        self.get(&built_in("Node", "nodes", false), None, name).await
    }

    async fn ask<T>(&self, path: Result<String>, judge: impl FnOnce(Result<Bytes>) -> Answer<T>) -> Read<T> {
        let sent = self.cluster.tick();
        let answered = self.send(path).await;
        let silent = self.member.is_some() && answered.as_ref().is_err_and(is_silence);
        Read {
            sent,
            answer: judge(answered),
            answered: self.cluster.tick(),
            silent,
        }
    }

    /// Returns where a path of this server's is asked for, and what an error calls that.
    pub(super) fn place(&self, path: &str) -> Result<(String, String)> {
        Ok(match &self.member {
            Some(member) => {
                let name = segment(member.as_str())?;
                let proxy = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{name}/proxy{path}");
                (proxy, format!("cannot read {path} in cluster {member}"))
            }
            None => (path.to_owned(), format!("cannot read {path}")),
        })
    }

    async fn send(&self, path: Result<String>) -> Result<Bytes> {
        let (path, call) = self.place(&path?)?;
        let request = Request::get(&path)
            .body(Vec::new())
            .map_err(|_invalid| Error::BadName(path.clone()))?;
        self.cluster.fetch(&call, request).await
    }
}

/// What is looked at before an answer is taken for an object.
#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
}

/// Go says `null` for a list without items.
#[derive(Deserialize)]
struct List<T> {
    kind: String,
    items: Option<Vec<T>>,
    #[serde(default)]
    metadata: ListMeta,
}

/// The groups that a server has.
#[derive(Deserialize)]
struct Groups {
    kind: String,
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

/// The kinds that a version of a group has.
#[derive(Deserialize)]
struct Kinds {
    kind: String,
    #[serde(default)]
    resources: Vec<ServedKind>,
}

#[derive(Deserialize)]
struct ServedKind {
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}

/// Returns how a kind is served by a version that has these. A subresource may be of the same kind.
fn served_as(kinds: &[ServedKind], gvk: &Gvk) -> Option<Served> {
    let mut kinds = kinds.iter();
    let found = kinds.find(|found| found.kind == gvk.kind && !found.name.contains('/'))?;
    Some(Served {
        gvk: gvk.clone(),
        plural: found.name.clone(),
        namespaced: found.namespaced,
        watchable: true,
    })
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(rename = "continue")]
    rest: Option<String>,
}

/// Returns what a list has, if it is one, and whole: whatever else was answered has no items either. A definition may name its
/// lists otherwise than after its kind.
fn complete<T>(list: List<T>, served: &Served) -> Answer<Vec<T>> {
    if !list.kind.ends_with("List") {
        let (kind, plural) = (list.kind, &served.plural);
        return Answer::unknown(format!("a {kind} was answered instead of a list of {plural}"));
    }
    match list.metadata.rest.as_deref() {
        None | Some("") => Answer::Found(list.items.unwrap_or_default()),
        Some(_) => Answer::unknown(format!("the list of {} is not complete", served.plural)),
    }
}

fn parsed<T: DeserializeOwned>(body: &[u8]) -> std::result::Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("it has another form than expected: {error}"))
}

/// Returns whether a request to a member came to nobody who could have answered it: who is refused, or asked to wait, was
/// heard.
fn is_silence(error: &Error) -> bool {
    match error {
        Error::TimedOut { .. } | Error::Unreachable { .. } => true,
        Error::Refused { status, .. } => matches!(status.code, 500 | 502..=504),
        _ => false,
    }
}

/// Returns whether a refusal says of this very object that it doesn't exist.
fn is_about(status: &Status, served: &Served, name: &str) -> bool {
    status.code == 404
        && status.details.as_ref().is_some_and(|details| {
            details.group == served.gvk.group
                && details.name == name
                && (details.kind == served.plural || details.kind == served.gvk.kind)
        })
}

pub(super) fn built_in(kind: &str, plural: &str, namespaced: bool) -> Served {
    Served {
        gvk: Gvk::new("v1", kind),
        plural: plural.to_owned(),
        namespaced,
        watchable: true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_whole_list_is_one() {
        let pods = built_in("Pod", "pods", true);
        let answered = |body: Value| {
            let list = parsed::<List<Value>>(body.to_string().as_bytes());
            match list.map(|list| complete(list, &pods)) {
                Ok(Answer::Found(items)) => Some(items.len()),
                Ok(Answer::NotFound | Answer::Unknown { .. }) | Err(_) => None,
            }
        };
        assert_eq!(answered(json!({"kind": "PodList", "items": [{}, {}]})), Some(2));
        assert_eq!(
            answered(json!({"kind": "PodList", "metadata": {}, "items": null})),
            Some(0)
        );
        assert_eq!(answered(json!({"kind": "ThingList", "items": []})), Some(0));
        for other in [
            json!({}),
            json!({"items": []}),
            json!({"kind": "Status", "status": "Success"}),
            json!({"kind": "PodList", "metadata": {"continue": "more"}, "items": [{}]}),
        ] {
            assert_eq!(answered(other.clone()), None, "{other}");
        }
    }
}
