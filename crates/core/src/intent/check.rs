//! What a spec asks of a running copy beside the profile's health: expressions over the copy, over what stands beside it in its
//! cluster, and over numbers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::seen::Seen;
use crate::api::{Check, WorkloadRef};
use crate::profile;
use cutover_karmada::name::{ClusterName, Gvk};

/// Objects that checks are about, in the namespace of the workload: by cluster, kind and name.
pub type Others = BTreeMap<(ClusterName, Gvk, String), Seen<Option<Value>>>;

/// The value of every sample of a query's answer, or why there can't be an answer, however often it is asked.
pub type Sampled = Result<Vec<f64>, String>;

/// Returns under what an object is found among those that were read.
pub fn other(cluster: &ClusterName, of: &WorkloadRef) -> (ClusterName, Gvk, String) {
    (cluster.clone(), of.gvk(), of.name.clone())
}

/// Returns why a check does not hold. What isn't known doesn't hold; a query that can't be answered may be one that soon can.
pub fn holds(
    cluster: &ClusterName,
    check: &Check,
    object: &Value,
    (others, metrics): (&Others, &BTreeMap<String, Seen<Sampled>>),
) -> Result<(), String> {
    let Some(query) = &check.prometheus else {
        return match &check.of {
            Some(of) => holds_beside(cluster, check, of, others),
            None => holds_of(check, object).ok_or_else(|| format!("{cluster}: {} to hold", check.cel)),
        };
    };
    let asked = || format!("{} to hold of {query}", check.cel);
    let values = match metrics.get(query).map(Seen::get) {
        Some(Ok(Ok(values))) => values,
        Some(Ok(Err(why))) => return Err(format!("{}: {why}", asked())),
        Some(Err(why)) => return Err(format!("{}: {why}", asked())),
        None => return Err(format!("{}: not read", asked())),
    };
    let fails = |value: &&f64| !profile::check_sample(check, **value).unwrap_or(false);
    match values.iter().find(fails) {
        Some(value) => Err(format!("{}: it is {value}", asked())),
        None if values.is_empty() => Err(format!("{}: it has no value", asked())),
        None => Ok(()),
    }
}

fn holds_of(check: &Check, object: &Value) -> Option<()> {
    profile::check(check, object).unwrap_or(false).then_some(())
}

fn holds_beside(
    cluster: &ClusterName,
    check: &Check,
    of: &WorkloadRef,
    others: &Others,
) -> Result<(), String> {
    let asked = || format!("{cluster}: {} to hold of {} {}", check.cel, of.kind, of.name);
    let read = others.get(&other(cluster, of));
    let read = read.ok_or_else(|| format!("{}: not read", asked()))?;
    match read.get() {
        Ok(Some(object)) => holds_of(check, object).ok_or_else(asked),
        Ok(None) => Err(format!("{}: it is not there", asked())),
        Err(why) => Err(format!("{}: {why}", asked())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::intent::seen::Read;

    fn canary() -> Check {
        serde_json::from_value(json!({
            "cel": "object.status.phase == 'Succeeded'",
            "of": {"apiVersion": "flagger.app/v1beta1", "kind": "Canary", "name": "web"},
        }))
        .unwrap()
    }

    fn asked(cluster: &str, seen: Seen<Option<Value>>) -> Result<(), String> {
        let check = canary();
        let of = check.of.clone().unwrap();
        let others = Others::from([(other(&"east".into(), &of), seen)]);
        holds(&cluster.into(), &check, &json!({}), (&others, &BTreeMap::new()))
    }

    fn seen(object: Option<Value>) -> Seen<Option<Value>> {
        Seen::known(object, Read { sent: 1, answered: 2 })
    }

    #[test]
    fn a_check_of_another_object_holds_when_that_one_is_as_asked() {
        let phase = |phase: &str| asked("east", seen(Some(json!({"status": {"phase": phase}}))));
        assert_eq!(phase("Succeeded"), Ok(()));
        assert_eq!(
            phase("Progressing").unwrap_err(),
            "east: object.status.phase == 'Succeeded' to hold of Canary web"
        );
    }

    #[test]
    fn one_that_is_not_there_or_was_not_read_does_not_hold() {
        for (cluster, seen, why) in [
            ("east", seen(None), "it is not there"),
            ("east", Seen::unknown("a timeout"), "a timeout"),
            (
                "west",
                seen(Some(json!({"status": {"phase": "Succeeded"}}))),
                "not read",
            ),
        ] {
            let said = asked(cluster, seen).unwrap_err();
            assert!(said.ends_with(why), "{said}");
        }
        // Nor one of which the expression can't be evaluated.
        assert!(asked("east", seen(Some(json!({})))).is_err());
    }
}
