//! What would go along with an object that holds others: a namespace with what is in it, a definition with its objects.

use std::collections::BTreeSet;

use serde_json::Value;

use super::decide::HOLDING;
use super::{DEFINITION, Sync};
use cutover_cluster::Watched;
use cutover_core::api::{self, OWN_NAMESPACE};
use cutover_karmada::name::{GroupKind, Gvk, ObjectKey};

impl Sync {
    /// Says what would go along with an object that holds others.
    pub(super) fn occupied(
        &self,
        key: &ObjectKey,
        live: &Value,
        strays: &BTreeSet<&ObjectKey>,
    ) -> Option<String> {
        match (key.group.as_str(), key.kind.as_str()) {
            ("", "Namespace") if key.name == OWN_NAMESPACE => {
                Some("it is where cutover keeps its own".to_owned())
            }
            ("", "Namespace") => self.tenant(&key.name, strays),
            ("apiextensions.k8s.io", DEFINITION) => self.instance(live, strays),
            _ => None,
        }
    }

    /// Returns something in a namespace that doesn't go with it, as far as kinds are watched.
    fn tenant(&self, namespace: &str, strays: &BTreeSet<&ObjectKey>) -> Option<String> {
        let pruner = self.pruner.as_ref()?;
        if let Some(key) = self.placed.first_in(namespace) {
            return Some(format!("Git wants {key} in it"));
        }
        let recorded = pruner
            .record()
            .into_iter()
            .flat_map(|record| record.kinds.iter().cloned());
        let holding = HOLDING.map(|kind| GroupKind::new(api::GROUP, kind));
        let kinds: BTreeSet<GroupKind> = recorded.chain(holding).collect();
        kinds.iter().find_map(|kind| {
            let keys = self.observer.keys(&kind.group, &kind.kind).into_iter();
            let mut inside = keys.filter(|key| key.namespace.as_deref() == Some(namespace));
            let stays = inside.find(|key| !strays.contains(key) && !is_of_every_namespace(key))?;
            Some(format!("{stays} is in it, which is not pruned"))
        })
    }

    /// Returns an object of a defined kind that doesn't go with the definition.
    fn instance(&self, definition: &Value, strays: &BTreeSet<&ObjectKey>) -> Option<String> {
        let text = |pointer| {
            definition
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let kind = GroupKind::new(text("/spec/group"), text("/spec/names/kind"));
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let served = versions
            .into_iter()
            .flatten()
            .find(|version| version["served"] == true);
        let Some(version) = served.and_then(|version| version["name"].as_str()) else {
            return Some("it is not known which objects there are of it: no version is served".to_owned());
        };
        let gvk = Gvk::new(&format!("{}/{version}", kind.group), &kind.kind);
        // All of them: somebody else's are not in our set.
        self.observer.watch(Watched::all(gvk));
        match self.observer.state(&kind.group, &kind.kind) {
            Some(state) if state.is_settled() => {}
            _ => return Some(format!("the list of {kind} has not come yet")),
        }
        let mut keys = self.observer.keys(&kind.group, &kind.kind).into_iter();
        let stays = keys.find(|key| !strays.contains(key))?;
        Some(format!("{stays} is there, which is not pruned"))
    }
}

/// What the API server puts into every namespace.
fn is_of_every_namespace(key: &ObjectKey) -> bool {
    matches!(
        (key.kind.as_str(), key.name.as_str()),
        ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default")
    )
}
