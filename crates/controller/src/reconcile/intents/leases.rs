//! Who holds the Leases of Karmada's controllers: a barrier is good for one process of each.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ask::all;
use super::{Parts, served};
use cutover_core::api::LeaseSeen;
use cutover_core::intent::Seen;
use cutover_karmada::name::Gvk;

/// Where Karmada's controllers keep their leases, and under which names unless they are told otherwise.
const KARMADA_NAMESPACE: &str = "karmada-system";
const CONTROLLERS: [&str; 2] = ["karmada-controller-manager", "karmada-scheduler"];

/// Reads the Leases that may be those of Karmada's controllers, by their names: all of them, for one that an earlier installation
/// has left under the usual name says nothing of the process at work. An installation without leader election has none: that is an
/// answer, too.
pub(super) async fn leases(parts: &Parts) -> Seen<BTreeMap<String, LeaseSeen>> {
    match list(parts).await {
        Seen::Known { mut value, read } => {
            for name in CONTROLLERS {
                value.entry(name.to_owned()).or_default();
            }
            Seen::known(value, read)
        }
        Seen::Unknown { why } => Seen::unknown(format!(
            "the Leases of Karmada's controllers in {KARMADA_NAMESPACE} cannot be seen ({why}): allow it (docs/how-to/operate.md#rbac)"
        )),
    }
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
            // An old one hides none of the others.
            lease("karmada-scheduler", json!({})),
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
        assert_eq!(
            seen.keys().collect::<Vec<_>>(),
            ["karmada-scheduler", "prod-leader", "prod-scheduler"]
        );
        assert_eq!(seen["prod-leader"].transitions, 2);
    }
}
