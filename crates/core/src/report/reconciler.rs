//! What the Lease of the reconcilers says of them.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How long a Lease lasts that doesn't say so.
const SECONDS: i64 = 15;

/// Whether a reconciler is at work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciler {
    /// When one was at work last; `None`: one is.
    pub(super) idle_since: Option<Timestamp>,
}

impl Reconciler {
    /// Reads a Lease as it is now. One that nobody holds, or that was not renewed for as long as it lasts, is of a reconciler that
    /// works no more. The clock of whoever renewed it counts.
    pub fn of(lease: &Value, now: Timestamp) -> Self {
        let spec = &lease["spec"];
        let is_held = spec["holderIdentity"]
            .as_str()
            .is_some_and(|holder| !holder.is_empty());
        let renewed: Option<Timestamp> = spec["renewTime"].as_str().and_then(|text| text.parse().ok());
        let lasts = spec["leaseDurationSeconds"].as_i64().unwrap_or(SECONDS);
        let lasts = SignedDuration::from_secs(lasts);
        let is_over = |renewed: &Timestamp| !is_held || now.duration_since(*renewed) > lasts;
        Self {
            idle_since: renewed.filter(is_over),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reconciler_is_at_work_while_its_lease_is_held_and_renewed() {
        let renewed: Timestamp = "2026-03-01T10:00:00.5Z".parse().unwrap();
        let idle = |holder: Value, seconds: i64| {
            let lease = json!({"spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-03-01T10:00:00.500000Z",
            }});
            Reconciler::of(&lease, renewed + SignedDuration::from_secs(seconds)).idle_since
        };
        assert_eq!(idle(json!("pod_1"), 15), None);
        assert_eq!(idle(json!("pod_1"), 16), Some(renewed));
        assert_eq!(idle(Value::Null, 1), Some(renewed), "it was given back");
        assert_eq!(Reconciler::of(&json!({}), renewed), Reconciler::default());
    }
}
