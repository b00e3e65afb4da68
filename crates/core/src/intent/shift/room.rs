//! How many replicas are ready, counted where they run; and the right to take some away, which only such counts give.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use super::replicas_of;
use crate::api::ShiftSource;
use crate::intent::proof::NotProved;
use crate::intent::seen::NotKnown;
use cutover_karmada::name::ClusterName;

/// Where replicas of a workload run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Member(ClusterName),
    /// The template itself runs, on the cluster that Karmada is installed on.
    ControlPlane,
}

impl Side {
    pub fn of(source: &ShiftSource) -> Self {
        match &source.cluster {
            Some(cluster) => Self::Member(cluster.clone()),
            None => Self::ControlPlane,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Member(cluster) => write!(f, "{cluster}"),
            Self::ControlPlane => f.write_str("the control plane"),
        }
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
    fn after(self, wanted: u32) -> u32 {
        self.ready.saturating_sub(self.wanted.saturating_sub(wanted))
    }
}

/// The right to bring each side to so many replicas: without those that go, the floor still stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityProof {
    wanted: BTreeMap<Side, u32>,
    evidence: String,
}

impl CapacityProof {
    /// `wanted`: what each side is to have; one that isn't named keeps what it has. A side that can't be counted has nothing
    /// ready, so that what becomes of it makes no difference.
    pub fn prove(
        counts: &BTreeMap<Side, Result<Count, NotKnown>>,
        wanted: &BTreeMap<Side, u32>,
        floor: u32,
    ) -> Result<Self, NotProved> {
        let mut left = 0_u32;
        let mut parts = Vec::new();
        for (side, count) in counts {
            let now = match count {
                Ok(now) => *now,
                Err(why) => {
                    parts.push(format!("{side} is not known: {why}"));
                    continue;
                }
            };
            let to = wanted.get(side).copied().unwrap_or(now.wanted);
            // In the middle of a change, which ones go is anybody's guess.
            let ready = if to < now.wanted && !now.settled {
                0
            } else {
                now.after(to)
            };
            left = left.saturating_add(ready);
            parts.push(format!("{ready} in {side}"));
        }
        let evidence = format!("{left} stay ready, of {floor} that must: {}", parts.join(", "));
        if left < floor {
            return Err(NotProved::No(format!("only {evidence}")));
        }
        Ok(Self {
            wanted: wanted.clone(),
            evidence,
        })
    }

    /// Returns whether it allows a side to have so few.
    pub fn allows(&self, side: &Side, replicas: u32) -> bool {
        self.wanted.get(side).is_some_and(|wanted| *wanted <= replicas)
    }

    pub fn evidence(&self) -> &str {
        &self.evidence
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn side(name: &str) -> Side {
        Side::Member(ClusterName::new(name))
    }

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

    #[test]
    fn those_that_go_may_all_be_ready_ones() {
        // Two of four are ready, and two go: nothing says that the unready ones go.
        let counts = BTreeMap::from([
            (side("blue"), Count::of_copy(Some(&copy(4, 2)))),
            (side("green"), Count::of_copy(Some(&copy(2, 2)))),
        ]);
        let wanted = BTreeMap::from([(side("blue"), 2)]);
        assert!(CapacityProof::prove(&counts, &wanted, 2).is_ok());
        assert!(CapacityProof::prove(&counts, &wanted, 3).is_err());
    }

    #[test]
    fn what_is_not_known_is_not_ready() {
        let counts = BTreeMap::from([
            (side("blue"), Count::of_copy(Some(&copy(4, 4)))),
            (side("green"), Err(NotKnown("no route".to_owned()))),
        ]);
        assert!(CapacityProof::prove(&counts, &BTreeMap::from([(side("blue"), 3)]), 4).is_err());
        assert!(CapacityProof::prove(&counts, &BTreeMap::from([(side("blue"), 4)]), 4).is_ok());
    }

    proptest! {
        /// Whatever order replicas go in, the floor holds when a room was proved.
        #[test]
        fn a_room_holds_whichever_replicas_go(
            sides in prop::collection::vec((0..5u32, 0..5u32, 0..5u32), 1..4), floor in 0..12u32, picks in any::<u64>(),
        ) {
            let (mut counts, mut wanted, mut worst) = (BTreeMap::new(), BTreeMap::new(), 0);
            for (index, (asked, available, to)) in sides.iter().enumerate() {
                let available = (*available).min(*asked);
                let key = side(&format!("m{index}"));
                counts.insert(key.clone(), Count::of_copy(Some(&copy(*asked, available))));
                wanted.insert(key, *to);
                // A slow model: each replica is ready or not, and those that go are picked at random.
                let mut replicas: Vec<bool> = (0..*asked).map(|n| n < available).collect();
                let mut state = picks.wrapping_add(index as u64);
                while replicas.len() > *to as usize {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = usize::try_from(state >> 33).unwrap() % replicas.len();
                    replicas.remove(at);
                }
                worst += u32::try_from(replicas.iter().filter(|ready| **ready).count()).unwrap();
            }
            if CapacityProof::prove(&counts, &wanted, floor).is_ok() {
                prop_assert!(worst >= floor);
            }
        }
    }
}
