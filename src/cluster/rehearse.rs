//! Has a member try what is to come to it: the one request to a member that isn't a read, and nothing is kept of it.

use http::{Method, Request, header};
use serde_json::Value;

use super::connect::Cluster;
use super::discover::Served;
use super::object::{collection, escape, meta, segment};
use super::{Error, Result};
use crate::name::ClusterName;

impl Cluster {
    /// Asks a member, through the cluster proxy, what it would say to the creation of an object (`dryRun=All`).
    pub async fn try_in(
        &self,
        member: &ClusterName,
        served: &Served,
        object: &Value,
        manager: &str,
    ) -> Result<Value> {
        let path = collection(served, meta(object, "namespace"))?;
        let call = format!("cannot try {path} in cluster {member}");
        let uri = format!(
            "{}?dryRun=All&fieldManager={}",
            in_member(member, &path)?,
            escape(manager)
        );
        let body = serde_json::to_vec(object).map_err(|error| Error::Malformed {
            call: call.clone(),
            why: error.to_string(),
        })?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|_invalid| Error::BadName(path.clone()))?;
        self.send(&call, request).await
    }
}

/// Returns the path of the control plane under which a member's is.
pub(super) fn in_member(member: &ClusterName, path: &str) -> Result<String> {
    Ok(format!(
        "/apis/cluster.karmada.io/v1alpha1/clusters/{}/proxy{path}",
        segment(member.as_str())?
    ))
}
