//! Installs cutover's own CRDs in the Karmada API server.

use std::time::Duration;

use serde_json::Value;

use super::{Answer, Applied, Cluster, Lookup, Mode};
use crate::api;
use crate::error::{Error, Kind};
use crate::name::Gvk;

/// How long the API server may take to serve a new kind.
const SERVED_WITHIN: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Applies the CRDs and returns their names once they are served. Installing them again changes nothing.
pub async fn install_crds(cluster: &Cluster) -> Result<Vec<String>, Error> {
    cluster.require_karmada().await?;
    let gvk = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let Lookup::Served(served) = cluster.lookup(&gvk).await? else {
        return Err(Error::user(format!("{} does not serve {gvk}", cluster.server())));
    };
    let mut names = Vec::new();
    for crd in api::crds() {
        let name = crd.metadata.name.clone().unwrap_or_default();
        let manifest = serde_json::to_value(&crd)
            .map_err(|error| Error::internal(format!("the CRD {name} cannot be written: {error}")))?;
        let writer = cluster.writer(api::SYNC_MANAGER);
        match writer.apply(&served, &manifest, Mode::Write).await? {
            Applied::Done(_) => {}
            Applied::Precondition(why) => return Err(Error::new(Kind::Conflict, why)),
            Applied::Conflicts(fields) => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|own| format!("{} has {}", own.manager, own.field))
                    .collect();
                return Err(Error::new(
                    Kind::Conflict,
                    format!("the CRD {name} is managed by others: {}", fields.join(", ")),
                )
                .hint("install deploy/crds with the tool that manages them now"));
            }
        }
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
    Ok(names)
}

fn is_established(crd: &Value) -> bool {
    crd["status"]["conditions"].as_array().is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
    })
}
