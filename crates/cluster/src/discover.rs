//! Which kinds the API server serves, under which plural and scope. Asked once a group version, and again on a miss.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use serde_json::Value;
use tokio::time::Instant;

use super::connect::Cluster;
use super::object::{Served, segment};
use super::{Error, Result};
use cutover_karmada::name::Gvk;

/// How long it is taken for known under which versions a kind is served.
const VERSIONS_AGAIN: Duration = Duration::from_secs(5);

/// Where a server says whether it has begun to serve all that it will.
const READY: &str = "/readyz";

/// The versions of a kind, and when they were asked for.
type Asked = (Instant, Arc<Vec<String>>);

/// The answer for a kind. One that isn't served is no error: its CRD may be on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    Served(Served),
    NotServed,
}

/// What is known of the kinds that are served.
#[derive(Debug, Default)]
pub struct Discovery {
    /// By `apiVersion`.
    known: RwLock<BTreeMap<String, Arc<Vec<Served>>>>,
    /// By group and kind, and when that was asked.
    versions: RwLock<BTreeMap<(String, String), Asked>>,
    /// One question at a time: a hundred objects of a new kind ask once.
    asking: tokio::sync::Mutex<()>,
}

impl Discovery {
    /// Returns how a kind is served; asks when it isn't known.
    pub async fn lookup(&self, cluster: &Cluster, gvk: &Gvk) -> Result<Lookup> {
        let api_version = gvk.api_version();
        let before = self.kinds(&api_version);
        if let Some(served) = find(before.as_deref(), gvk) {
            return Ok(Lookup::Served(served));
        }
        let _asking = self.asking.lock().await;
        let meanwhile = self.kinds(&api_version);
        let somebody_asked = match (&before, &meanwhile) {
            (Some(before), Some(meanwhile)) => !Arc::ptr_eq(before, meanwhile),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let kinds = match meanwhile {
            Some(kinds) if somebody_asked => kinds,
            _ => self.ask(cluster, &api_version).await?,
        };
        Ok(find(Some(&kinds), gvk).map_or(Lookup::NotServed, Lookup::Served))
    }

    /// Returns how a kind is served of which only the group is known: in the version that the server prefers.
    pub async fn find(&self, cluster: &Cluster, group: &str, kind: &str) -> Result<Lookup> {
        if group.is_empty() {
            return self.lookup(cluster, &Gvk::new("v1", kind)).await;
        }
        let path = format!("/apis/{}", segment(group)?);
        let call = format!("cannot find out which versions {group} has");
        let Some(answer) = of_ready(cluster, &call, &path).await? else {
            return Ok(Lookup::NotServed);
        };
        let preferred = answer["preferredVersion"]["groupVersion"].as_str();
        let others = answer["versions"].as_array().into_iter().flatten();
        let others = others.filter_map(|version| version["groupVersion"].as_str());
        for api_version in preferred.into_iter().chain(others) {
            let found = self.lookup(cluster, &Gvk::new(api_version, kind)).await?;
            if matches!(found, Lookup::Served(_)) {
                return Ok(found);
            }
        }
        Ok(Lookup::NotServed)
    }

    /// Returns every `apiVersion` under which a kind is served; asked again after some seconds, for a CRD may get another one.
    pub async fn versions(&self, cluster: &Cluster, group: &str, kind: &str) -> Result<Arc<Vec<String>>> {
        if group.is_empty() {
            return Ok(Arc::new(vec!["v1".to_owned()]));
        }
        let key = (group.to_owned(), kind.to_owned());
        let known = self
            .versions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&key)
            .cloned();
        if let Some((_, versions)) = known.filter(|(at, _)| at.elapsed() < VERSIONS_AGAIN) {
            return Ok(versions);
        }
        let path = format!("/apis/{}", segment(group)?);
        let call = format!("cannot find out which versions {group} has");
        let answer = of_ready(cluster, &call, &path).await?.unwrap_or_default();
        let all = answer["versions"].as_array().into_iter().flatten();
        let mut versions = Vec::new();
        for api_version in all.filter_map(|version| version["groupVersion"].as_str()) {
            let found = self.lookup(cluster, &Gvk::new(api_version, kind)).await?;
            if matches!(found, Lookup::Served(_)) {
                versions.push(api_version.to_owned());
            }
        }
        // Whatever the order in which the server names them, it is the same list.
        versions.sort();
        let versions = Arc::new(versions);
        let mut all = self.versions.write().unwrap_or_else(PoisonError::into_inner);
        all.insert(key, (Instant::now(), Arc::clone(&versions)));
        Ok(versions)
    }

    /// Asks whether the paths of a resource are served: discovery, and a CRD that says so, can be ahead of them.
    pub async fn answers(&self, cluster: &Cluster, api_version: &str, plural: &str) -> Result<bool> {
        let (group, version) = api_version
            .split_once('/')
            .ok_or_else(|| Error::BadName(api_version.to_owned()))?;
        let (group, version, plural) = (segment(group)?, segment(version)?, segment(plural)?);
        let path = format!("/apis/{group}/{version}/{plural}?limit=1");
        let call = format!("cannot find out whether {plural} of {api_version} are served");
        // Who may not list them is told so once they are served.
        Ok(!matches!(get(cluster, &call, &path).await, Ok(None)))
    }

    /// Returns what is known of a kind, without asking.
    pub fn known(&self, gvk: &Gvk) -> Option<Served> {
        find(self.kinds(&gvk.api_version()).as_deref(), gvk)
    }

    /// Forgets a kind that turned out not to be served any more.
    pub fn forget(&self, gvk: &Gvk) {
        self.known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&gvk.api_version());
    }

    fn kinds(&self, api_version: &str) -> Option<Arc<Vec<Served>>> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(api_version)
            .cloned()
    }

    async fn ask(&self, cluster: &Cluster, api_version: &str) -> Result<Arc<Vec<Served>>> {
        let base = if api_version.contains('/') {
            "/apis"
        } else {
            "/api"
        };
        if api_version.is_empty() || api_version.contains(['%', '?', '#', ' ']) || api_version.contains("..")
        {
            return Err(Error::BadName(api_version.to_owned()));
        }
        let path = format!("{base}/{api_version}");
        let call = format!("cannot find out what {api_version} serves");
        let kinds = match of_ready(cluster, &call, &path).await? {
            Some(answer) => {
                let list: APIResourceList =
                    serde_json::from_value(answer).map_err(|error| Error::Malformed {
                        call,
                        why: error.to_string(),
                    })?;
                Arc::new(read(api_version, list))
            }
            None => Arc::new(Vec::new()),
        };
        self.known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(api_version.to_owned(), Arc::clone(&kinds));
        Ok(kinds)
    }
}

/// Returns the answer for a path of discovery; `None`: nothing is served there. A server that starts doesn't know yet what it will
/// serve: its 404 says nothing, nor does one from before it said that it is ready.
async fn of_ready(cluster: &Cluster, call: &str, path: &str) -> Result<Option<Value>> {
    if let Some(answer) = get(cluster, call, path).await? {
        return Ok(Some(answer));
    }
    is_ready(cluster, call).await?;
    get(cluster, call, path).await
}

/// Fails where a server says that it is not ready, or says nothing. One that has no such path, or doesn't tell everybody, is taken for
/// ready.
async fn is_ready(cluster: &Cluster, call: &str) -> Result<()> {
    let request = Request::get(READY)
        .body(Vec::new())
        .map_err(|_invalid| Error::BadName(READY.to_owned()))?;
    let call = format!("{call}: the API server is not ready");
    match cluster.fetch(&call, request).await {
        Err(error) if !matches!(error.code(), 401 | 403 | 404) => Err(error),
        _ => Ok(()),
    }
}

/// Returns the answer for a path; `None`: nothing is served there.
async fn get(cluster: &Cluster, call: &str, path: &str) -> Result<Option<Value>> {
    let request = Request::get(path)
        .body(Vec::new())
        .map_err(|_invalid| Error::BadName(path.to_owned()))?;
    match cluster.send(call, request).await {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code() == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

fn find(kinds: Option<&Vec<Served>>, gvk: &Gvk) -> Option<Served> {
    kinds?.iter().find(|served| served.gvk.kind == gvk.kind).cloned()
}

fn read(api_version: &str, list: APIResourceList) -> Vec<Served> {
    list.resources
        .into_iter()
        // Subresources are listed too, as `plural/subresource`.
        .filter(|resource| !resource.name.contains('/'))
        .map(|resource| Served {
            gvk: Gvk::new(api_version, &resource.kind),
            plural: resource.name,
            namespaced: resource.namespaced,
            watchable: resource.verbs.iter().any(|verb| verb == "watch"),
        })
        .collect()
}
