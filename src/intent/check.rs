//! What a spec asks of a running copy beside the profile's health: expressions over the copy, and over numbers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::seen::Seen;
use super::world::Sampled;
use crate::api::Check;
use crate::name::ClusterName;
use crate::profile;

/// Returns why a check does not hold. What isn't known doesn't hold; a query that can't be answered may be one that soon can.
pub fn holds(
    cluster: &ClusterName,
    check: &Check,
    object: &Value,
    metrics: &BTreeMap<String, Seen<Sampled>>,
) -> Result<(), String> {
    let Some(query) = &check.prometheus else {
        let holds = profile::check(check, object).unwrap_or(false);
        return holds
            .then_some(())
            .ok_or_else(|| format!("{cluster}: {} to hold", check.cel));
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
