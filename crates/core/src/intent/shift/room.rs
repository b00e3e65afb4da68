//! Where replicas run, and the right to take some away, which only counts of those that are ready give.

use std::collections::BTreeMap;
use std::fmt;

use crate::api::ShiftSource;
use crate::intent::proof::NotProved;
use crate::intent::replicas::Count;
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
    use serde_json::{Value, json};

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
