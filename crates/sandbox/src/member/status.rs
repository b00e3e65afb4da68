//! Writes what an operator reports of an object, and into it.

use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::cache::Key;

/// Writes the status of an object, unless that shows it already; `false`: it has to be tried again.
pub async fn write(
    client: &Client,
    resource: &ApiResource,
    key: &Key,
    shown: Option<&Value>,
    status: &Value,
) -> bool {
    if shown.is_some_and(|shown| matches(shown, status)) {
        return true;
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.0, resource);
    let patch = Patch::Merge(json!({"status": status}));
    let answer = api.patch_status(&key.1, &PatchParams::default(), &patch).await;
    is_done(answer, key)
}

/// Merges into the metadata of an object; `false`: it has to be tried again.
pub async fn merge(client: &Client, resource: &ApiResource, key: &Key, metadata: &Value) -> bool {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &key.0, resource);
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let answer = api.patch(&key.1, &PatchParams::default(), &patch).await;
    is_done(answer, key)
}

/// An object that is gone needs nothing any more.
fn is_done<T>(answer: Result<T, kube::Error>, key: &Key) -> bool {
    match answer {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.is_not_found() => true,
        Err(error) => {
            tracing::debug!(%error, name = key.1, "an object can't be written");
            false
        }
    }
}

/// Returns whether a status shows what is to be written; null stands for absent, and so does a status that isn't there yet.
fn matches(shown: &Value, status: &Value) -> bool {
    let mut fields = status.as_object().into_iter().flatten();
    fields.all(|(field, value)| shown.get(field).unwrap_or(&Value::Null) == value)
}
