//! What every kind does alike that claims a workload and pins it: the claim says what the journal says, the pin projects the
//! claim, and the markers on the Works show the pin to be in force. What the pin says, and who may write it, is the kind's.
//!
//! Karmada computes a cluster's Work from caches: only a marker of the current sequence on each of them shows that none is
//! older than the pin. That is the barrier before whatever relies on the pin.

use std::collections::BTreeMap;

use super::effect::{Effect, Exactly};
use super::pin::{self, Pin, PinWrite};
use crate::api::{Claim, ClaimOwner, ClaimSpec, MARKER_ANNOTATION, claim_name};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{OverridePolicy, ResourceBinding, Work};

/// What has to come before a goal is met.
#[derive(Clone, Debug)]
pub enum Due {
    Act(Box<Effect>),
    Wait(String),
}

/// The claim says what the journal says: written by compare-and-swap, before what it allows.
pub fn claim(live: Option<&Claim>, workload: &ObjectKey, wanted: ClaimSpec) -> Result<(), Due> {
    match live {
        None => Err(act(Effect::CreateClaim {
            name: claim_name(workload),
            spec: wanted,
        })),
        Some(claim) if claim.spec.owner.uid != wanted.owner.uid => Err(Due::Wait(held_by(&claim.spec.owner))),
        Some(claim) if claim.spec != wanted => Err(act(Effect::ReplaceClaim {
            claim: exactly(claim),
            spec: wanted,
        })),
        Some(_) => Ok(()),
    }
}

/// Says for whom an intent waits that wants a claimed workload.
pub fn held_by(owner: &ClaimOwner) -> String {
    format!("{owner} holds the workload")
}

/// Returns what a claim says of its workload.
pub fn claimed(workload: &ObjectKey) -> String {
    format!("{}.{} {}", workload.kind, workload.group, workload.place())
}

/// What a journal says of its pin.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub owner_uid: &'a str,
    pub attempt: u32,
    pub seq: u64,
    /// It was seen in force: if it is missing, somebody took it away.
    pub pinned: bool,
    /// A new sequence was begun because somebody had changed it.
    pub repairing: bool,
}

/// How the pin in the API server stands to the one of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It says what it shall.
    InForce,
    /// It is still to be written: there is none, or one that says nothing yet, or that of an earlier sequence, or it is being
    /// repaired.
    Due,
    /// Somebody else changed it or took it away: its markers prove nothing any more, and only a new sequence mends that.
    Tampered,
}

/// Compares the pin that was read with the one that is to be.
pub fn standing(pin: &Pin, live: Option<&OverridePolicy>, known: Known<'_>) -> Standing {
    if let Some(live) = live.filter(|live| pin.is_written_as(live)) {
        // A version of the kind that came since is selected as well: that lets nobody go.
        return if pin.reaches(live) {
            Standing::InForce
        } else {
            Standing::Due
        };
    }
    let changed_by_others = match live {
        // Also one that somebody put up late whose intent has ended.
        Some(live) if pin::is_blank(live) => known.pinned,
        Some(live) => !is_from_before(live, known),
        None => known.pinned,
    };
    if changed_by_others && !known.repairing {
        Standing::Tampered
    } else {
        Standing::Due
    }
}

/// Returns whether a pin is one that this attempt wrote under an earlier sequence, unchanged since as far as its marker says.
pub fn is_from_before(live: &OverridePolicy, known: Known<'_>) -> bool {
    let written = pin::marker_of(live).and_then(|marker| pin::sequence(marker, known.owner_uid));
    written.is_some_and(|(attempt, seq)| attempt == known.attempt && seq < known.seq)
}

/// Why a cluster isn't past the barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmarked<'a> {
    /// Its Work is older than the pin.
    Late(&'a ClusterName),
    /// It has none: it is still to come, or somebody deleted it.
    NoWork(&'a ClusterName),
}

impl Unmarked<'_> {
    /// Says what is waited for.
    pub fn wait(&self) -> String {
        match self {
            Self::Late(cluster) => format!("{cluster}: the Work has not the current marker yet"),
            Self::NoWork(cluster) => format!("{cluster}: no Work yet"),
        }
    }
}

/// Every Work that Karmada keeps for the workload carries the current marker.
pub fn markers<'a>(
    synced: &'a [ClusterName],
    works: &BTreeMap<ClusterName, Work>,
    marker: &str,
) -> Result<(), Unmarked<'a>> {
    for cluster in synced {
        let work = works.get(cluster).ok_or(Unmarked::NoWork(cluster))?;
        if work.manifest_annotation(MARKER_ANNOTATION) != Some(marker) {
            return Err(Unmarked::Late(cluster));
        }
    }
    Ok(())
}

/// Returns the clusters that Karmada keeps Works for.
pub fn synced(binding: &ResourceBinding) -> Vec<ClusterName> {
    let clusters = binding.spec.synced_clusters().into_iter();
    clusters.map(|cluster| cluster.name).collect()
}

/// The pin is gone: its protection first. Where the API server refuses Works without the marker of a claim, the claim has to
/// have given it up before.
pub fn unpin(live: Option<&OverridePolicy>) -> Result<(), Due> {
    let Some(live) = live else {
        return Ok(());
    };
    Err(act(if PinWrite::is_protected(live) {
        Effect::WritePin(Box::new(PinWrite::unprotected(live)))
    } else {
        Effect::DeletePin {
            pin: PinWrite::exactly(live),
        }
    }))
}

/// The claim of an intent is given up.
pub fn give_up(live: Option<&Claim>, owner_uid: &str) -> Result<(), Due> {
    match live {
        Some(claim) if claim.spec.owner.uid == owner_uid => Err(act(Effect::DeleteClaim {
            claim: exactly(claim),
        })),
        _ => Ok(()),
    }
}

fn act(effect: Effect) -> Due {
    Due::Act(Box::new(effect))
}

/// Names a claim as it was read.
pub fn exactly(claim: &Claim) -> Exactly {
    Exactly {
        namespace: None,
        name: claim.metadata.name.clone().unwrap_or_default(),
        uid: claim.metadata.uid.clone().unwrap_or_default(),
        resource_version: claim.metadata.resource_version.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::intent::pin::{Place, Rule, Says};

    const UID: &str = "uid";

    fn pin(seq: u64, patches: Vec<crate::api::PatchOp>) -> Pin {
        Pin {
            namespace: Some("shop".into()),
            name: "zzzz-cutover-web".into(),
            owner_uid: UID.into(),
            owner: "Rollout shop/web".into(),
            api_version: "apps/v1".into(),
            versions: Arc::default(),
            kind: "Deployment".into(),
            workload: "web".into(),
            marker: pin::marker(UID, 1, seq),
            says: Says::Differences(vec![Rule {
                place: Place::AllBut(Vec::new()),
                patches,
            }]),
        }
    }

    fn known(seq: u64, pinned: bool, repairing: bool) -> Known<'static> {
        Known {
            owner_uid: UID,
            attempt: 1,
            seq,
            pinned,
            repairing,
        }
    }

    #[test]
    fn a_pin_that_others_touched_is_told_from_one_that_is_still_to_be_written() {
        let wanted = pin(2, Vec::new());
        let edited = pin(2, vec![crate::api::PatchOp::add("/spec/replicas", 0)]);
        let stands = |live: Option<&Pin>, known| standing(&wanted, live.map(Pin::policy).as_ref(), known);
        assert_eq!(stands(Some(&wanted), known(2, true, false)), Standing::InForce);
        assert_eq!(stands(None, known(2, false, false)), Standing::Due);
        assert_eq!(stands(None, known(2, true, false)), Standing::Tampered);
        assert_eq!(stands(Some(&edited), known(2, true, false)), Standing::Tampered);
        assert_eq!(stands(Some(&edited), known(2, true, true)), Standing::Due);
        assert_eq!(
            stands(Some(&pin(1, Vec::new())), known(2, true, false)),
            Standing::Due
        );
        let blank = PinWrite::new(&wanted, None, pin::Authority::Nobody).unwrap();
        let begun = |known| standing(&wanted, Some(blank.policy()), known);
        assert_eq!(begun(known(2, false, false)), Standing::Due);
        assert_eq!(begun(known(2, true, false)), Standing::Tampered);
        let later = pin(3, Vec::new());
        assert_eq!(stands(Some(&later), known(2, true, false)), Standing::Tampered);
    }
}
