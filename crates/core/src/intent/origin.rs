//! What asks for an intent that no file asks for: a change of a policy, a template, a member cluster, or another intent.

use std::fmt;

use kube::core::ObjectMeta;

use super::{cluster_driven, driven, requested};
use crate::api::{Evacuation, Intent, Migration, PARENT_LABEL, WAITS_ANNOTATION};

/// What set an intent off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A change of this policy.
    Policy(String),
    /// An annotation of the template.
    Template,
    /// A taint, a cordon or the deletion of a member cluster.
    Cluster,
    /// The intent of this kind and name carries a move out by it.
    Parent { kind: String, name: String },
}

impl Origin {
    /// Returns what set an intent of a kind off; `None`: a file does, or may.
    pub fn of(kind: &str, meta: &ObjectMeta) -> Option<Self> {
        // What is set off is created. This one was applied from a file, whatever annotations that was copied with.
        let mut managers = meta.managed_fields.iter().flatten();
        if managers.any(|entry| entry.operation.as_deref() == Some("Apply")) {
            return None;
        }
        let name = meta.name.as_deref().unwrap_or_default();
        let annotations = meta.annotations.as_ref();
        match kind {
            Evacuation::KIND => annotations
                .is_some_and(|annotations| cluster_driven::is_noted_in(annotations, name))
                .then_some(Self::Cluster),
            Migration::KIND => {
                if let Some(parent) = parent(meta) {
                    return Some(parent);
                }
                driven::policy_in(meta)
                    .map(|policy| Self::Policy(policy.to_string()))
                    .or_else(|| requested::is_noted_in(annotations?).then_some(Self::Template))
            }
            _ => None,
        }
    }
}

fn parent(meta: &ObjectMeta) -> Option<Origin> {
    meta.labels.as_ref()?.get(PARENT_LABEL)?;
    let mut owners = meta.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(Origin::Parent {
        kind: owner.kind.clone(),
        name: owner.name.clone(),
    })
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => write!(f, "a change of {policy}"),
            Self::Template => write!(
                f,
                "the annotation {} of its template",
                requested::TARGET_ANNOTATION
            ),
            Self::Cluster => f.write_str("its cluster"),
            Self::Parent { kind, name } => write!(f, "{kind} {name}"),
        }
    }
}

/// Returns whether an intent does nothing before what has set it off lets it begin.
pub fn waits_for_leave(meta: &ObjectMeta) -> bool {
    let annotations = meta.annotations.as_ref();
    annotations.is_some_and(|annotations| annotations.contains_key(WAITS_ANNOTATION))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(kind: &str, metadata: Value) -> Option<Origin> {
        Origin::of(kind, &serde_json::from_value(metadata).unwrap())
    }

    #[test]
    fn what_sets_an_intent_off_is_told_from_a_file() {
        assert_eq!(of("Migration", json!({"name": "orders-to-west"})), None);
        let by_policy = json!({"cutover.dev/policy": r#"["shop","orders"]"#});
        let of_namespace =
            |namespace: &str| json!({"namespace": namespace, "name": "a", "annotations": by_policy});
        let policy = of("Migration", of_namespace("shop")).unwrap();
        assert_eq!(policy.to_string(), "a change of PropagationPolicy shop/orders");
        assert_eq!(of("Migration", of_namespace("team-a")), None);
        let requested =
            json!({"name": "a", "annotations": {"cutover.dev/requested-by": "karmada.io/migration-target"}});
        assert_eq!(of("Migration", requested), Some(Origin::Template));
        let child = json!({
            "name": "a", "labels": {"cutover.dev/parent": "u1"},
            "ownerReferences": [{
                "apiVersion": "cutover.dev/v1alpha1", "kind": "Evacuation", "name": "east", "uid": "u1", "controller": true,
            }],
        });
        assert_eq!(of("Migration", child).unwrap().to_string(), "Evacuation east");
        let cluster =
            json!({"name": "evacuate-east", "annotations": {"cutover.dev/cluster-uid": "u1 evacuate-east"}});
        assert_eq!(of("Evacuation", cluster), Some(Origin::Cluster));
    }

    #[test]
    fn a_copy_in_a_file_is_the_files() {
        let applied = json!({
            "namespace": "shop", "name": "a", "managedFields": [{"manager": "cutover", "operation": "Apply"}],
            "annotations": {"cutover.dev/policy": r#"["shop","orders"]"#},
        });
        assert_eq!(of("Migration", applied), None);
        let renamed = json!({"name": "mine", "annotations": {"cutover.dev/cluster-uid": "u1 evacuate-east"}});
        assert_eq!(of("Evacuation", renamed), None);
    }
}
