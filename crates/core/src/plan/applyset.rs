//! Which objects belong together: the apply sets of KEP-3659, by which a sync finds again what it has applied.
//!
//! The members carry a label with the id of their set. The set is an object, the parent, that says which kinds and
//! namespaces may hold members. Reading and writing it is left to the shell.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::api::{OWN_NAMESPACE, SOURCE_ANNOTATION};
use crate::redact::base64;
use cutover_karmada::name::GroupKind;

/// On a member: the id of its set.
pub const PART_OF_LABEL: &str = "applyset.kubernetes.io/part-of";
/// On a parent: the id of the set.
pub const ID_LABEL: &str = "applyset.kubernetes.io/id";
const TOOLING_ANNOTATION: &str = "applyset.kubernetes.io/tooling";
const KINDS_ANNOTATION: &str = "applyset.kubernetes.io/contains-group-kinds";
const NAMESPACES_ANNOTATION: &str = "applyset.kubernetes.io/additional-namespaces";
/// On a parent: the name of the sync.
const SYNC_ANNOTATION: &str = "cutover.dev/sync";
/// Other tools keep their hands off sets with another tool's name.
const TOOL: &str = "cutover";

/// Returns the name of the ConfigMap that is the parent of a sync's set.
pub fn parent_name(sync: &str) -> String {
    format!("cutover-{sync}")
}

/// Returns the id of a sync's set.
pub fn set_id(sync: &str) -> String {
    id(&parent_name(sync), OWN_NAMESPACE, "ConfigMap", "")
}

/// Returns the id of the set with this parent, as KEP-3659 wants it made.
fn id(name: &str, namespace: &str, kind: &str, group: &str) -> String {
    let digest = Sha256::digest(format!("{name}.{namespace}.{kind}.{group}"));
    let text = base64(&digest).replace('+', "-").replace('/', "_");
    format!("applyset-{}-v1", text.trim_end_matches('='))
}

/// Returns the set that a live object is a member of.
pub fn part_of(object: &Value) -> Option<&str> {
    object
        .get("metadata")?
        .get("labels")?
        .get(PART_OF_LABEL)?
        .as_str()
}

/// What a parent says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    pub sync: String,
    /// The repository and the branch.
    pub source: String,
    /// Kinds of which there may be members.
    pub kinds: BTreeSet<GroupKind>,
    /// Namespaces in which there may be members.
    pub namespaces: BTreeSet<String>,
    pub approved: Approved,
}

/// A deletion that somebody approved and that may not have come to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approved {
    /// The hash that was approved.
    pub hash: String,
    /// The digest of every object that it covers.
    pub objects: BTreeSet<String>,
}

/// Why an object is no parent of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is managed by {0:?}")]
pub struct OtherTool(String);

impl Record {
    pub fn id(&self) -> String {
        set_id(&self.sync)
    }

    /// Reads a parent; one without a word about its tool is taken for ours.
    pub fn read(parent: &Value) -> Result<Self, OtherTool> {
        let annotation = |name: &str| {
            let annotations = parent.get("metadata").and_then(|meta| meta.get("annotations"));
            annotations
                .and_then(|all| all.get(name)?.as_str())
                .unwrap_or_default()
        };
        let tooling = annotation(TOOLING_ANNOTATION);
        if tooling.split('/').next().is_some_and(|tool| tool != TOOL) && !tooling.is_empty() {
            return Err(OtherTool(tooling.to_owned()));
        }
        let list = |name: &str| {
            let parts = annotation(name).split(',').map(str::trim);
            parts
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let data = |field: &str| {
            parent
                .get("data")
                .and_then(|data| data.get(field)?.as_str())
                .unwrap_or_default()
        };
        Ok(Self {
            sync: annotation(SYNC_ANNOTATION).to_owned(),
            source: annotation(SOURCE_ANNOTATION).to_owned(),
            kinds: list(KINDS_ANNOTATION)
                .iter()
                .filter_map(|kind| kind.parse().ok())
                .collect(),
            namespaces: list(NAMESPACES_ANNOTATION).into_iter().collect(),
            approved: Approved {
                hash: data("approved").to_owned(),
                objects: data("objects").split_whitespace().map(str::to_owned).collect(),
            },
        })
    }

    /// Returns the parent that says this, made of the one that is there: what others put on it stays.
    pub fn write(&self, there: Option<&Value>) -> Value {
        let mut parent = there.cloned().unwrap_or_else(|| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": parent_name(&self.sync), "namespace": OWN_NAMESPACE},
            })
        });
        let kinds: Vec<String> = self.kinds.iter().map(ToString::to_string).collect();
        let namespaces: Vec<&str> = self.namespaces.iter().map(String::as_str).collect();
        let metadata = &mut parent["metadata"];
        set(metadata, "labels", ID_LABEL, &self.id());
        for (name, value) in [
            (
                TOOLING_ANNOTATION,
                format!("{TOOL}/v{}", env!("CARGO_PKG_VERSION")),
            ),
            (KINDS_ANNOTATION, kinds.join(",")),
            (NAMESPACES_ANNOTATION, namespaces.join(",")),
            (SOURCE_ANNOTATION, self.source.clone()),
            (SYNC_ANNOTATION, self.sync.clone()),
        ] {
            set(metadata, "annotations", name, &value);
        }
        if self.approved == Approved::default() {
            if let Some(fields) = parent.as_object_mut() {
                fields.shift_remove("data");
            }
        } else {
            let objects: Vec<&str> = self.approved.objects.iter().map(String::as_str).collect();
            parent["data"] = json!({"approved": self.approved.hash, "objects": objects.join("\n")});
        }
        parent
    }
}

/// Sets a label or an annotation.
pub fn set(metadata: &mut Value, field: &str, name: &str, value: &str) {
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    let entries = metadata.entry(field).or_insert(Value::Null);
    if !entries.is_object() {
        *entries = Value::Object(Map::new());
    }
    entries[name] = value.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_what_kubectl_computes() {
        // printf 'name.namespace.ConfigMap.' | sha256sum, in URL-safe base64 without padding.
        assert_eq!(
            id("name", "namespace", "ConfigMap", ""),
            "applyset-CTBVcF9uyunOaYjGvfFrdxlLhvUV9DhsY2Tp4SVaDUg-v1"
        );
        assert!(set_id("main").len() <= 63, "it is the value of a label");
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_leaves_the_rest_alone() {
        let kinds = ["ConfigMap", "Deployment.apps"].map(|kind| kind.parse().unwrap());
        let record = Record {
            sync: "main".into(),
            source: "git.example.com/acme/fleet@main".into(),
            kinds: kinds.into(),
            namespaces: ["a".into(), "b".into()].into(),
            approved: Approved {
                hash: "abc".into(),
                objects: ["1".into(), "2".into()].into(),
            },
        };
        let there = json!({"metadata": {"labels": {"team": "a"}, "resourceVersion": "7"}, "data": null});
        let parent = record.write(Some(&there));
        assert_eq!(Record::read(&parent), Ok(record.clone()));
        assert_eq!(parent["metadata"]["labels"]["team"], "a");
        assert_eq!(parent["metadata"]["resourceVersion"], "7");
        assert_eq!(
            parent["metadata"]["annotations"][KINDS_ANNOTATION],
            "ConfigMap,Deployment.apps"
        );
        let done = Record {
            approved: Approved::default(),
            ..record
        };
        assert_eq!(Record::read(&done.write(Some(&parent))), Ok(done));
    }

    #[test]
    fn the_set_of_another_tool_is_not_ours() {
        let parent = json!({"metadata": {"annotations": {TOOLING_ANNOTATION: "kubectl/v1.36"}}});
        assert_eq!(
            Record::read(&parent).unwrap_err().to_string(),
            "it is managed by \"kubectl/v1.36\""
        );
    }
}
