//! How many replicas an object asks for, and how many are ready, counted where they run.

use serde_json::Value;

use super::seen::NotKnown;

/// Returns how many replicas an object asks for; Kubernetes takes one where none is said.
pub fn replicas_of(object: &Value) -> Option<u32> {
    match object.pointer("/spec/replicas") {
        None | Some(Value::Null) => Some(1),
        Some(replicas) => replicas
            .as_u64()
            .and_then(|replicas| u32::try_from(replicas).ok()),
    }
}

/// What one side has, as its own API server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// What its spec asks for.
    pub wanted: u32,
    /// Those that are available, and no more than it asks for: what a rolling update has beyond that goes again.
    pub ready: u32,
    /// Its controller has seen the spec, and has neither a replica too many nor one too few of them, nor an old one.
    pub settled: bool,
}

impl Count {
    /// Counts one copy in a member: `observedGeneration` says whether its status is about its spec.
    pub fn of_copy(object: Option<&Value>) -> Result<Self, NotKnown> {
        let Some(object) = object else {
            return Ok(Self {
                wanted: 0,
                ready: 0,
                settled: true,
            });
        };
        let unknown = |why: &str| NotKnown(why.to_owned());
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(unknown("the copy is being deleted"));
        }
        let wanted = replicas_of(object).ok_or_else(|| unknown("its replicas are no number"))?;
        let observed = object
            .pointer("/status/observedGeneration")
            .and_then(Value::as_i64);
        if observed.is_none() || observed != object.pointer("/metadata/generation").and_then(Value::as_i64) {
            return Err(unknown("its controller has not seen its spec yet"));
        }
        let number = |name: &str| -> Result<Option<u32>, NotKnown> {
            match object.pointer("/status").and_then(|status| status.get(name)) {
                None | Some(Value::Null) => Ok(None),
                Some(value) => value
                    .as_u64()
                    .and_then(|value| u32::try_from(value).ok())
                    .map(Some)
                    .ok_or_else(|| NotKnown(format!("its status.{name} is no number"))),
            }
        };
        // Zero is not written.
        let there = number("replicas")?.unwrap_or_default();
        let updated = number("updatedReplicas")?.unwrap_or_default();
        let available = number("availableReplicas")?.unwrap_or_default();
        Ok(Self {
            wanted,
            ready: available.min(wanted),
            settled: there == wanted && updated == wanted,
        })
    }

    /// Counts the pods of a template: its status is written by Karmada as well, and says nothing for certain.
    pub fn of_pods(template: Option<&Value>, pods: &[bool]) -> Result<Self, NotKnown> {
        let template = template.ok_or_else(|| NotKnown("the template is gone".to_owned()))?;
        let wanted =
            replicas_of(template).ok_or_else(|| NotKnown("its replicas are no number".to_owned()))?;
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let ready = number(pods.iter().filter(|ready| **ready).count());
        Ok(Self {
            wanted,
            ready: ready.min(wanted),
            settled: number(pods.len()) == wanted,
        })
    }

    /// Returns whether a side has all that it was asked for, ready.
    pub fn is_full(self) -> bool {
        self.settled && self.ready == self.wanted
    }

    /// Returns how many are ready for certain when its spec asks for so many: those that go may all be ready ones.
    pub(super) fn after(self, wanted: u32) -> u32 {
        self.ready.saturating_sub(self.wanted.saturating_sub(wanted))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn copy(wanted: u32, available: u32) -> Value {
        json!({
            "metadata": {"generation": 3}, "spec": {"replicas": wanted},
            "status": {
                "observedGeneration": 3, "replicas": wanted, "updatedReplicas": wanted, "availableReplicas": available,
            },
        })
    }

    #[test]
    fn a_status_of_an_older_spec_counts_for_nothing() {
        let mut stale = copy(3, 3);
        stale["metadata"]["generation"] = json!(4);
        assert!(Count::of_copy(Some(&stale)).is_err());
        stale["status"] = json!({});
        assert!(Count::of_copy(Some(&stale)).is_err());
    }

    #[test]
    fn replicas_beyond_what_is_asked_for_do_not_count() {
        let mut surging = copy(3, 4);
        surging["status"]["replicas"] = json!(4);
        let count = Count::of_copy(Some(&surging)).unwrap();
        assert_eq!((count.ready, count.settled), (3, false));
    }
}
