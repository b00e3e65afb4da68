//! The `CustomResourceDefinition`s of the control plane: what the expressions, paths and patches of profiles are held against.

use serde_json::Value;

use super::intents::ask;
use cutover_cluster::{Cluster, Lookup, Served};
use cutover_core::api::AppliesTo;
use cutover_core::intent::Seen;
use cutover_karmada::name::Gvk;

/// Reads the definition of a kind that is served; `None`: it is no custom resource.
pub(super) async fn of(cluster: &Cluster, served: &Served) -> Seen<Option<Value>> {
    let none = || Seen::known(None, ask::instant(cluster));
    let group = &served.gvk.group;
    if !may_be_defined(group) {
        return none();
    }
    let kind = Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    match cluster.lookup(&kind).await {
        Ok(Lookup::Served(definition)) => {
            let name = format!("{}.{group}", served.plural);
            ask::optional(cluster.reader().get_as(&definition, None, &name).await)
        }
        Ok(Lookup::NotServed) => none(),
        Err(error) => Seen::unknown(error.to_string()),
    }
}

/// Reads the definitions of the kinds that a profile is for, as far as there are any; or why that isn't known.
pub(super) async fn of_kinds(cluster: &Cluster, kinds: &AppliesTo) -> Result<Vec<Value>, String> {
    let mut definitions = Vec::new();
    if !may_be_defined(&kinds.group) {
        return Ok(definitions);
    }
    for kind in &kinds.kinds {
        let found = cluster.discovery().find(cluster, &kinds.group, kind).await;
        match found.map_err(|error| error.to_string())? {
            Lookup::Served(served) => match of(cluster, &served).await {
                Seen::Known { value, .. } => definitions.extend(value),
                Seen::Unknown { why } => return Err(why),
            },
            Lookup::NotServed => {}
        }
    }
    Ok(definitions)
}

/// The group of a definition is a domain.
fn may_be_defined(group: &str) -> bool {
    group.contains('.')
}
