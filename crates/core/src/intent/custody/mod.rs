//! Custody of a workload, alike for every kind that claims one: the claim says what the journal says, the pin projects the
//! claim, and the markers on the Works show the pin to be in force. What the pin says is the kind's; each rule about claim, pin,
//! markers and the scheduler's barrier stands here, once.
//!
//! Karmada computes a cluster's Work from caches: only a marker of the current sequence on each of them shows that none is
//! older than the pin. That is the barrier before whatever relies on the pin.

mod barrier;
pub mod belt;
mod guest;
mod release;
pub mod starts;

pub use barrier::{Scheduler, canary_name, refuses};
pub use guest::{Guest, guests_of, held, included, is_hosts, may_enter, without_guest};
pub use release::{Gives, Granted, holds_everybody, names, says_the_same};

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::control_plane::Overrides;
use super::effect::{Effect, Exactly};
use super::fight::{self, How};
use super::pin::{self, Authority, Pin, PinWrite, Says};
use super::seen::{NotKnown, Seen};
use crate::api::{
    Claim, ClaimOwner, ClaimSpec, Differences, Finding, MARKER_ANNOTATION, PinState, WaitingFor,
    WorkloadProfileSpec, claim_name, format_of_guests,
};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, OverridePolicy, ResourceBinding, Work};

/// What has to come before a goal is met.
#[derive(Clone, Debug)]
pub enum Due {
    Act(Vec<Effect>),
    Wait(String),
    /// The journal says something else now, and is written first.
    Again,
}

impl From<NotKnown> for Due {
    fn from(unknown: NotKnown) -> Self {
        Self::Wait(unknown.0)
    }
}

/// What an intent has of a workload, as it was read.
#[derive(Debug)]
pub struct Custody<'a> {
    pub owner: ClaimOwner,
    /// Counts the times that the intent put a pin up: with the sequence it makes the marker.
    pub attempt: u32,
    pub workload: Cow<'a, ObjectKey>,
    pub claim: Result<Option<&'a Claim>, NotKnown>,
    pub pin: Result<Option<&'a OverridePolicy>, NotKnown>,
    /// Under which the control plane serves the kind.
    pub versions: Result<Arc<Vec<String>>, NotKnown>,
}

/// What a claim allows, beside whose it is.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Value of the label `resourcebinding.karmada.io/permanent-id` on the binding and its Works.
    pub binding_id: String,
    pub writer: Option<ClusterName>,
    pub shared: bool,
    pub guards: bool,
    pub lender: Option<ClaimOwner>,
    pub clusters: Vec<ClusterName>,
    pub standing: bool,
    /// There is no pin yet, and so no marker to be expected.
    pub unmarked: bool,
    /// What guests say, as the pin includes it.
    pub guests: BTreeMap<String, Differences>,
    /// The format of the owner's journal; that of the guests is added.
    pub format: u32,
}

/// How the pin in the API server stands to the one of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It says what it shall, and the journal knows.
    InForce,
    /// It says what it shall, for the first time since it was written or repaired.
    Confirmed,
    /// It is still to be written: there is none, or one that says nothing yet, or that of an earlier sequence, or it is being
    /// repaired.
    Due,
    /// Somebody else changed it or took it away: its markers prove nothing any more, and only a new sequence repairs that.
    Tampered,
}

/// Begins what is said when two copies may have run: the code of findings, and reasons to roll back.
pub const LAPSE: &str = "SingleWriterLapse";

/// Returns the finding that a pin was changed or deleted by another client, unless it held no copy.
///
/// `involved`: the clusters that have a copy, or may have one.
pub fn let_go(involved: &BTreeSet<ClusterName>, writer: Option<&ClusterName>) -> Option<Finding> {
    let held: Vec<&str> = involved
        .iter()
        .filter(|cluster| Some(*cluster) != writer)
        .map(ClusterName::as_str)
        .collect();
    if held.is_empty() {
        return None;
    }
    let other_managers = writer.map_or_else(String::new, |writer| format!(" beside {writer}"));
    Some(Finding::new(
        LAPSE,
        format!(
            "the pin was changed or deleted by another client while {} had a copy{other_managers}: what the pin held may have run",
            held.join(", ")
        ),
        "check what they wrote meanwhile; protect the pin with the admission fence (docs/how-to/operate.md#admission-fence)",
    ))
}

impl<'a> Custody<'a> {
    /// Takes claim and pin from what a pass has read.
    pub fn of(
        owner: ClaimOwner,
        attempt: u32,
        workload: &'a ObjectKey,
        claim: &'a Seen<Option<Claim>>,
        pin: &'a Seen<Option<OverridePolicy>>,
        overrides: &'a Seen<Overrides>,
    ) -> Self {
        Self {
            owner,
            attempt,
            workload: Cow::Borrowed(workload),
            claim: claim.get().map(Option::as_ref),
            pin: pin.get().map(Option::as_ref),
            versions: overrides.get().map(|all| Arc::clone(&all.versions)),
        }
    }

    pub fn marker(&self, state: &PinState) -> String {
        pin::marker(&self.owner.uid, self.attempt, state.seq)
    }

    /// The claim says what the journal says: written by compare-and-swap, before what it allows.
    pub fn claim(&self, state: &PinState, terms: Terms) -> Result<(), Due> {
        let wanted = self.spec(state, terms);
        match self.claim.clone()? {
            None => Err(act(Effect::CreateClaim {
                name: claim_name(&self.workload),
                spec: wanted,
            })),
            Some(claim) if claim.spec.owner.uid != wanted.owner.uid => Err(Due::Wait(held(claim))),
            Some(claim) if claim.spec != wanted => Err(act(Effect::ReplaceClaim {
                claim: exactly(claim),
                spec: wanted,
            })),
            Some(_) => Ok(()),
        }
    }

    /// Returns what the claim is to say. What guests say in it is theirs to change; one that was lost is made anew with what the
    /// pin includes of it.
    pub fn spec(&self, state: &PinState, terms: Terms) -> ClaimSpec {
        let included = guest::included(&terms.guests);
        let format = terms.format.max(format_of_guests(&terms.guests));
        let differences = match &self.claim {
            Ok(Some(claim)) => claim.spec.differences.clone(),
            _ => terms.guests,
        };
        ClaimSpec {
            format: format.max(format_of_guests(&differences)),
            workload: claimed(&self.workload),
            binding_id: terms.binding_id,
            owner: self.owner.clone(),
            attempt: self.attempt,
            seq: state.seq,
            marker: if state.unpinning || terms.unmarked {
                String::new()
            } else {
                self.marker(state)
            },
            writer: terms.writer,
            shared: terms.shared,
            guards: terms.guards,
            lender: terms.lender,
            clusters: terms.clusters,
            standing: terms.standing,
            included,
            differences,
        }
    }

    /// Returns the claim, if it is this intent's.
    pub fn own_claim(&self) -> Result<Option<&'a Claim>, NotKnown> {
        let claim = self.claim.clone()?;
        Ok(claim.filter(|claim| claim.spec.owner.uid == self.owner.uid))
    }

    /// Returns the pin, if it is this intent's to take off: its label or its marker says so. One that says nothing yet, that has
    /// lost its label, or that whoever lent the claim put up is whose the claim is.
    pub fn own_pin(&self) -> Result<Option<&'a OverridePolicy>, NotKnown> {
        let Some(live) = self.pin.clone()? else {
            return Ok(None);
        };
        let is_labelled = pin::owner_of(live).is_some_and(|uid| *uid == self.owner.uid);
        let marker = pin::marker_of(live).and_then(|marker| pin::sequence(marker, &self.owner.uid));
        if is_labelled || marker.is_some() {
            return Ok(Some(live));
        }
        let goes_with = |claim: &Claim| {
            let lender = claim.spec.lender.as_ref().map(|lender| &lender.uid);
            pin::is_blank(live) || pin::owner_of(live).is_none_or(|uid| Some(uid) == lender)
        };
        Ok(self.own_claim()?.is_some_and(goes_with).then_some(live))
    }

    /// Compiles a pin: pure, so that it can be compared without any right to write it.
    ///
    /// `api_version`: the one that the intent speaks of.
    pub fn compile(&self, state: &PinState, api_version: &str, says: Says) -> Result<Pin, NotKnown> {
        Ok(Pin {
            namespace: self.workload.namespace.clone(),
            name: pin::name(&self.workload),
            owner_uid: self.owner.uid.clone(),
            owner: self.owner.to_string(),
            api_version: api_version.to_owned(),
            versions: self.versions.clone()?,
            kind: self.workload.kind.clone(),
            workload: self.workload.name.clone(),
            marker: self.marker(state),
            differences: Vec::new(),
            created: state.created_fields.clone(),
            says,
        })
    }

    /// The pin creates what the template lacks now: the journal says so first, under another sequence. A template that isn't known, or
    /// isn't there any more, changes nothing. What another client did to the pin is repaired first.
    pub fn fits(
        &self,
        pin: &Pin,
        template: &Seen<Option<Value>>,
        profile: &WorkloadProfileSpec,
        state: &mut PinState,
    ) -> Result<(), Due> {
        let is_ours = self
            .standing(pin, state)
            .is_ok_and(|standing| standing != Standing::Tampered);
        match template.get() {
            Ok(Some(template)) if is_ours && state.creates(pin::lacking(template, profile)) => {
                Err(Due::Again)
            }
            _ => Ok(()),
        }
    }

    /// Compares the pin that was read with the one that is to be.
    pub fn standing(&self, pin: &Pin, state: &PinState) -> Result<Standing, NotKnown> {
        let live = self.pin.clone()?;
        if let Some(live) = live.filter(|live| pin.is_written_as(live)) {
            // A version of the kind that came since is selected as well: that lets nobody go.
            return Ok(match (pin.reaches(live), state.pinned && !state.repairing) {
                (false, _) => Standing::Due,
                (true, true) => Standing::InForce,
                (true, false) => Standing::Confirmed,
            });
        }
        let changed_by_others = match live {
            // Also one that somebody put up late whose intent has ended.
            Some(live) if pin::is_blank(live) => state.pinned,
            Some(live) => !self.is_from_before(live, state),
            None => state.pinned,
        };
        Ok(if changed_by_others && !state.repairing {
            Standing::Tampered
        } else {
            Standing::Due
        })
    }

    /// Returns whether a pin is one that this attempt wrote under an earlier sequence, unchanged since as far as its marker says.
    pub fn is_from_before(&self, live: &OverridePolicy, state: &PinState) -> bool {
        let written = pin::marker_of(live).and_then(|marker| pin::sequence(marker, &self.owner.uid));
        written.is_some_and(|(attempt, seq)| attempt == self.attempt && seq < state.seq)
    }

    /// Returns whether another client took away what holds everybody, and left the marker of an earlier sequence: the token is given
    /// only from nobody.
    ///
    /// `pin`: the one that gives it.
    pub fn was_loosened(&self, pin: &Pin, state: &PinState) -> Result<bool, NotKnown> {
        let live = self.pin.clone()?;
        Ok(live.is_some_and(|live| self.is_from_before(live, state) && !holds_everybody(live, pin)))
    }

    /// Brings up a pin that only says what is different in some clusters: it lets nobody run who is held, so that one that was
    /// lost or edited is written again under another sequence.
    pub fn differ(&self, pin: &Pin, state: &mut PinState) -> Result<(), Due> {
        match self.standing(pin, state)? {
            Standing::InForce => Ok(()),
            Standing::Confirmed => {
                state.confirm();
                Err(Due::Again)
            }
            Standing::Tampered => {
                state.repair();
                Err(Due::Again)
            }
            Standing::Due => Err(self.write(pin, Authority::Nobody)),
        }
    }

    /// Returns the write of a pin, at the resource version that was read.
    pub fn write(&self, pin: &Pin, authority: Authority<'_>) -> Due {
        let write = self.pin.clone().map(|live| PinWrite::new(pin, live, authority));
        match write {
            Ok(Ok(write)) => act(Effect::WritePin(Box::new(write))),
            Ok(Err(error)) => Due::Wait(error.to_string()),
            Err(unknown) => unknown.into(),
        }
    }

    /// Takes pin and claim down, in this order: the claim expects no marker any more, the pin goes, the markers go, the claim is
    /// given up.
    ///
    /// `works`: those that have to be seen without the marker.
    pub fn take_down<'w>(
        &self,
        works: impl IntoIterator<Item = (&'w ClusterName, &'w Work)>,
    ) -> Result<(), Due> {
        self.unpin()?;
        self.are_unmarked(works)?;
        self.give_up()
    }

    /// The claim expects no marker any more, for where the API server refuses Works without the marker of a claim; and the pin is
    /// gone, its protection first.
    pub fn unpin(&self) -> Result<(), Due> {
        let claim = self.own_claim()?;
        if let Some(claim) = claim.filter(|claim| !claim.spec.marker.is_empty()) {
            return Err(act(Effect::ReplaceClaim {
                claim: exactly(claim),
                spec: ClaimSpec {
                    marker: String::new(),
                    ..claim.spec.clone()
                },
            }));
        }
        let Some(live) = self.own_pin()? else {
            return Ok(());
        };
        Err(act(if PinWrite::is_protected(live) {
            Effect::WritePin(Box::new(PinWrite::unprotected(live)))
        } else {
            Effect::DeletePin {
                pin: Exactly::policy(live),
            }
        }))
    }

    /// No Work carries a marker of this intent any more.
    pub fn are_unmarked<'w>(
        &self,
        works: impl IntoIterator<Item = (&'w ClusterName, &'w Work)>,
    ) -> Result<(), Due> {
        let is_own = |marker: &str| pin::sequence(marker, &self.owner.uid).is_some();
        let mut marked = works
            .into_iter()
            .filter(|(_, work)| work.manifest_annotation(MARKER_ANNOTATION).is_some_and(is_own));
        match marked.next() {
            Some((cluster, _)) => Err(Due::Wait(format!("{cluster}: the Work still carries the marker"))),
            None => Ok(()),
        }
    }

    /// The claim is given up.
    pub fn give_up(&self) -> Result<(), Due> {
        match self.own_claim()? {
            Some(claim) => Err(act(Effect::DeleteClaim {
                claim: exactly(claim),
            })),
            None => Ok(()),
        }
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

/// Nothing is built on a pin that somebody's override policy undoes. A cluster that is blocked by one shows it by the marker that
/// doesn't come.
pub fn is_effective(
    pin: &Pin,
    template: &Value,
    clusters: &BTreeMap<ClusterName, Cluster>,
    overrides: &Overrides,
) -> Result<(), Due> {
    let found = fight::fights(pin, template, clusters, overrides);
    match found.iter().find(|fight| matches!(fight.how, How::Undoes(_))) {
        Some(fight) => Err(Due::Wait(format!(
            "conflicting changes to be removed: {fight} ({})",
            fight::HINT
        ))),
        None => Ok(()),
    }
}

/// For what doesn't come by itself there is a new sequence of the pin. Each time it is waited for longer.
///
/// Karmada may take a request to a member that timed out for one that was answered, and sends no other one: `late` says what is
/// waited for, of each copy that is there and doesn't carry the marker which its Work has.
pub fn send_again(
    late: impl IntoIterator<Item = String>,
    state: &mut PinState,
    patience: Patience<'_>,
) -> Result<(), Due> {
    let limit = patience.limit * i32::try_from(state.resent + 1).unwrap_or(i32::MAX);
    let patience = Patience { limit, ..patience };
    if late.into_iter().any(|why| patience.is_over(&why)) {
        *patience.wait = None;
        state.resend();
        return Err(Due::Again);
    }
    Ok(())
}

/// How long a marker may take from a Work to its copy, each time that it is sent.
pub const ARRIVES_WITHIN: SignedDuration = SignedDuration::from_secs(10);

/// For how long an intent waits for the same thing before it does something about it.
#[derive(Debug)]
pub struct Patience<'s> {
    /// What it waits for, as its status says: whoever does something about it waits anew.
    pub wait: &'s mut Option<WaitingFor>,
    pub now: Timestamp,
    pub limit: SignedDuration,
}

impl Patience<'_> {
    /// What is waited for may say more than that.
    fn is_over(&self, reason: &str) -> bool {
        let wait = self.wait.as_ref().filter(|wait| wait.reason.contains(reason));
        wait.is_some_and(|wait| self.now.duration_since(wait.since) >= self.limit)
    }
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
            Self::Late(cluster) => format!("{cluster}: the Work does not carry the current marker yet"),
            Self::NoWork(cluster) => format!("{cluster}: no Work yet"),
        }
    }
}

/// Every Work that Karmada keeps for the workload carries the current marker.
pub fn markers<'a, 'w>(
    synced: &'a [ClusterName],
    work_of: impl Fn(&ClusterName) -> Option<&'w Work>,
    marker: &str,
) -> Result<(), Unmarked<'a>> {
    for cluster in synced {
        let work = work_of(cluster).ok_or(Unmarked::NoWork(cluster))?;
        if work.manifest_annotation(MARKER_ANNOTATION) != Some(marker) {
            return Err(Unmarked::Late(cluster));
        }
    }
    Ok(())
}

/// A Work that somebody deleted Karmada makes again only with the next change: after a while there is one, a new sequence of the
/// pin. For a cluster that isn't joined it never comes.
pub fn markers_or_resend<'w>(
    synced: &[ClusterName],
    joined: &BTreeMap<ClusterName, Cluster>,
    work_of: impl Fn(&ClusterName) -> Option<&'w Work>,
    marker: &str,
    state: &mut PinState,
    patience: Patience<'_>,
) -> Result<(), Due> {
    match markers(synced, work_of, marker) {
        Ok(()) => Ok(()),
        Err(missing) => {
            let why = missing.wait();
            let comes = matches!(missing, Unmarked::NoWork(cluster) if joined.contains_key(cluster));
            send_again(comes.then(|| why.clone()), state, patience)?;
            Err(Due::Wait(why))
        }
    }
}

/// Returns the clusters that Karmada keeps Works for.
pub fn synced(binding: &ResourceBinding) -> Vec<ClusterName> {
    let clusters = binding.spec.synced_clusters().into_iter();
    clusters.map(|cluster| cluster.name).collect()
}

/// Returns the Works that Karmada brings up to date. What it evicts with purge mode Never, or has not evicted yet, it leaves as it
/// is: no marker comes or goes there.
pub fn up_to_date<'w>(
    binding: Option<&ResourceBinding>,
    works: impl IntoIterator<Item = (&'w ClusterName, &'w Work)>,
) -> Vec<(&'w ClusterName, &'w Work)> {
    let tasks = binding.map_or(&[][..], |binding| &binding.spec.graceful_eviction_tasks);
    let listed = binding.map(synced).unwrap_or_default();
    let evicted: BTreeSet<ClusterName> = tasks
        .iter()
        .map(|task| task.from_cluster.clone())
        .filter(|cluster| !listed.contains(cluster))
        .collect();
    let works = works.into_iter();
    works.filter(|(cluster, _)| !evicted.contains(*cluster)).collect()
}

fn act(effect: Effect) -> Due {
    Due::Act(vec![effect])
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
mod tests;
