//! Who holds the Leases of Karmada's controllers: a barrier is good for one process of each.

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::Value;

use super::ask::{all, optional};
use super::{Parts, served};
use cutover_core::api::LeaseSeen;
use cutover_core::intent::{self, Seen};
use cutover_karmada::name::Gvk;

/// Where Karmada's controllers keep their leases, and under which names unless they are told otherwise.
const KARMADA_NAMESPACE: &str = "karmada-system";
const CONTROLLERS: [&str; 2] = ["karmada-controller-manager", "karmada-scheduler"];

/// Reads the Leases of Karmada's controllers, by their names. An installation without leader election has none: that is an
/// answer, too, but only of who may look whether they have other names.
pub(super) async fn leases(parts: &Parts) -> Seen<BTreeMap<String, LeaseSeen>> {
    let known = match by_name(parts).await {
        Ok(known) => known,
        Err(why) => return Seen::unknown(why),
    };
    let missing: Vec<&str> = CONTROLLERS
        .into_iter()
        .filter(|name| !known.contains_key(*name))
        .collect();
    let mut seen = known;
    if !missing.is_empty() {
        let others = match list(parts).await {
            Seen::Known { value, .. } => value,
            Seen::Unknown { why } => {
                return Seen::unknown(format!(
                    "{KARMADA_NAMESPACE} has no Lease {}, and whether Karmada's controllers have one of another name cannot be \
                     seen ({why}): allow it (docs/rbac.md)",
                    missing.join(", ")
                ));
            }
        };
        seen.extend(others);
    }
    for name in CONTROLLERS {
        seen.entry(name.to_owned()).or_default();
    }
    let tick = parts.cluster.tick();
    let read = intent::Read {
        sent: tick,
        answered: tick,
    };
    Seen::known(seen, read)
}

async fn by_name(parts: &Parts) -> Result<BTreeMap<String, LeaseSeen>, String> {
    let read = CONTROLLERS.map(async |name| {
        let lease = match served(&parts.cluster, &lease()).await {
            Ok(served) => {
                let reader = parts.cluster.reader();
                optional(reader.get_together(&served, Some(KARMADA_NAMESPACE), name).await)
            }
            Err(error) => Seen::unknown(error.to_string()),
        };
        (name, lease)
    });
    let mut seen = BTreeMap::new();
    for (name, lease) in join_all(read).await {
        match lease {
            Seen::Known { value, .. } => {
                seen.extend(value.map(|lease| (name.to_owned(), holder(&lease))));
            }
            Seen::Unknown { why } => return Err(why),
        }
    }
    Ok(seen)
}

async fn list(parts: &Parts) -> Seen<BTreeMap<String, LeaseSeen>> {
    let served = match served(&parts.cluster, &lease()).await {
        Ok(served) => served,
        Err(error) => return Seen::unknown(error.to_string()),
    };
    let reader = parts.cluster.reader();
    let read = reader.list_together(&served, Some(KARMADA_NAMESPACE), |all: Vec<Value>| {
        of_karmada(&all)
    });
    match all(read.await) {
        Seen::Known { value, read } => Seen::known((*value).clone(), read),
        Seen::Unknown { why } => Seen::unknown(why),
    }
}

fn lease() -> Gvk {
    Gvk::new("coordination.k8s.io/v1", "Lease")
}

/// Returns whichever may be Karmada's, for their names are whatever their flags say: all but those that API servers have to
/// know each other by, and those by which reconcilers like this one take turns. One too many costs a barrier; one too few
/// hides that a process was replaced.
fn of_karmada(leases: &[Value]) -> BTreeMap<String, LeaseSeen> {
    let named = leases.iter().filter_map(|lease| {
        let name = lease["metadata"]["name"].as_str()?;
        let is_karmadas = !is_of_an_api_server(name, lease) && !is_ours(name, lease);
        is_karmadas.then(|| (name.to_owned(), holder(lease)))
    });
    named.collect()
}

fn is_of_an_api_server(name: &str, lease: &Value) -> bool {
    name.starts_with("apiserver-")
        || !lease["metadata"]["labels"]["apiserver.kubernetes.io/identity"].is_null()
}

fn is_ours(name: &str, lease: &Value) -> bool {
    let labels = &lease["metadata"]["labels"];
    name == "cutover" || labels[crate::reconcile::lease::LABEL] == crate::reconcile::lease::LABEL_VALUE
}

fn holder(lease: &Value) -> LeaseSeen {
    LeaseSeen {
        holder: lease["spec"]["holderIdentity"].as_str().map(str::to_owned),
        transitions: lease["spec"]["leaseTransitions"].as_i64().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_may_be_a_lease_of_karmadas_counts_and_no_other() {
        let lease = |name: &str, labels: Value| json!({"metadata": {"name": name, "labels": labels}, "spec": {"holderIdentity": "a", "leaseTransitions": 2}});
        let all = [
            lease("prod-scheduler", json!({})),
            lease("prod-leader", json!(null)),
            lease("apiserver-4xyz", json!({})),
            lease(
                "identity-of-one",
                json!({"apiserver.kubernetes.io/identity": "karmada-apiserver"}),
            ),
            lease("cutover", json!({})),
            lease(
                "turns",
                json!({crate::reconcile::lease::LABEL: crate::reconcile::lease::LABEL_VALUE}),
            ),
        ];
        let seen = of_karmada(&all);
        assert_eq!(seen.keys().collect::<Vec<_>>(), ["prod-leader", "prod-scheduler"]);
        assert_eq!(seen["prod-leader"].transitions, 2);
    }
}
