//! Installs what is cutover's own in the Karmada API server.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::object::meta;
use super::{Answer, Applied, Cluster, Lookup, Mode};
use cutover_core::api;
use cutover_core::error::{Error, Kind};
use cutover_karmada::name::Gvk;

/// How long the API server may take to serve a new kind.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// One object of cutover's own, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// For instance `customresourcedefinition/claims.cutover.dev`.
    pub object: String,
    pub change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Created,
    Configured,
    Unchanged,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        })
    }
}

/// Applies an object of cutover's own by server-side apply. Fields that others own are left to them: that is an error.
pub async fn install(cluster: &Cluster, manifest: &Value) -> Result<Installed, Error> {
    let gvk = Gvk::new(
        manifest["apiVersion"].as_str().unwrap_or_default(),
        manifest["kind"].as_str().unwrap_or_default(),
    );
    let Lookup::Served(served) = cluster.lookup(&gvk).await? else {
        return Err(Error::user(format!("{} does not serve {gvk}", cluster.server())));
    };
    let name = meta(manifest, "name").unwrap_or_default();
    let object = format!("{}/{name}", gvk.kind.to_lowercase());
    let before = match cluster.reader().get(&served, None, name).await.answer {
        Answer::Found(before) => Some(before),
        Answer::NotFound => None,
        Answer::Unknown { why } => return Err(Error::new(Kind::Unreachable, why)),
    };
    let writer = cluster.writer(api::SYNC_MANAGER);
    let after = match writer.apply(&served, manifest, Mode::Write).await? {
        Applied::Done(after) => after,
        Applied::Precondition(why) => return Err(Error::new(Kind::Conflict, why)),
        Applied::Conflicts(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|own| format!("{} has {}", own.manager, own.field))
                .collect();
            return Err(Error::new(
                Kind::Conflict,
                format!("{object} is managed by others: {}", fields.join(", ")),
            )
            .hint("install deploy/ with the tool that manages them now"));
        }
    };
    let change = match before {
        None => Change::Created,
        Some(before) if meta(&before, "resourceVersion") == meta(&after, "resourceVersion") => {
            Change::Unchanged
        }
        Some(_) => Change::Configured,
    };
    Ok(Installed { object, change })
}

/// Applies the CRDs and says what became of each, once they are served. Installing them again changes nothing.
pub async fn install_crds(cluster: &Cluster) -> Result<Vec<Installed>, Error> {
    cluster.require_karmada().await?;
    let gvk = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let Lookup::Served(served) = cluster.lookup(&gvk).await? else {
        return Err(Error::user(format!("{} does not serve {gvk}", cluster.server())));
    };
    let (mut installed, mut names) = (Vec::new(), Vec::new());
    for crd in api::crds() {
        let name = crd.metadata.name.clone().unwrap_or_default();
        let manifest = serde_json::to_value(&crd)
            .map_err(|error| Error::internal(format!("the CRD {name} cannot be written: {error}")))?;
        installed.push(install(cluster, &manifest).await?);
        names.push(name);
    }
    for name in &names {
        let served = tokio::time::timeout(SERVED_WITHIN, async {
            loop {
                let read = cluster.reader().get(&served, None, name).await;
                match read.answer {
                    Answer::Found(crd) if is_established(&crd) => return,
                    _ => tokio::time::sleep(LOOK_AGAIN).await,
                }
            }
        });
        if served.await.is_err() {
            let seconds = SERVED_WITHIN.as_secs();
            return Err(Error::new(
                Kind::Unreachable,
                format!("the CRD {name} is not established after {seconds} s"),
            )
            .hint(format!("kubectl describe crd {name}")));
        }
    }
    Ok(installed)
}

fn is_established(crd: &Value) -> bool {
    crd["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    })
}
