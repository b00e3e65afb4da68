//! One `FlinkDeployment` as a pass of the operator works on it.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::spec::Spec;
use super::status::Status;

/// The operator's finalizer on every `FlinkDeployment` it has seen.
pub const FINALIZER: &str = "flinkdeployments.flink.apache.org/finalizer";

/// The spec and generation of a cached object, which may be old, with the status that the operator wrote last.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Resource {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub generation: i64,
    pub spec: Spec,
    pub status: Status,
}

impl Resource {
    pub fn new(object: &DynamicObject) -> Self {
        let spec = object.data.get("spec").unwrap_or(&Value::Null);
        let status = object
            .data
            .get("status")
            .cloned()
            .and_then(|status| serde_json::from_value(status).ok());
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            spec: Spec::new(spec),
            status: status.unwrap_or_default(),
        }
    }
}
