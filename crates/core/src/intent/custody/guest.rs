//! Guests of a claim: intents that change what runs of a workload that a `FailoverPlan` guards. Who may run it and what runs are
//! a product, compiled into one pin, and each part has its owner.
//!
//! The plan owns claim, pin and sequence for as long as it stands. A guest writes what it says into an entry of its own in the
//! claim. The plan takes that into its journal, under a new sequence, and the claim says which digest of it the pin of its marker
//! includes. So a marker stands for one wording of every guest, and a Work that carries the marker is made with it.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Custody, Due, act, exactly, held_by, markers};
use crate::api::{Claim, ClaimOwner, ClaimSpec, Differences, PinnedRule};
use crate::intent::effect::Effect;
use crate::intent::pin;
use crate::intent::record::digest;
use crate::intent::seen::NotKnown;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{OverridePolicy, Work};

/// The kind that has guests.
const HOST: &str = "FailoverPlan";

/// An intent that changes what runs, and whose rules the pin of a plan includes.
#[derive(Debug)]
pub struct Guest<'a> {
    own: ClaimOwner,
    claim: &'a Claim,
    pin: Result<Option<&'a OverridePolicy>, NotKnown>,
}

impl<'a> Custody<'a> {
    /// Returns whose guest this intent is, if it is one. `host`: the plan whose pin has included its rules, if one has: such an
    /// intent never claims the workload for itself, for its own pin would hold nobody.
    pub fn guest(&self, host: Option<&ClaimOwner>) -> Result<Option<Guest<'a>>, Due> {
        match (self.claim.clone()?, host) {
            (Some(claim), _) if is_hosts(claim) && claim.spec.owner.uid != self.owner.uid => {
                Ok(Some(Guest {
                    own: self.owner.clone(),
                    claim,
                    pin: self.pin.clone(),
                }))
            }
            (_, None) => Ok(None),
            (Some(claim), Some(_)) => Err(Due::Wait(held(claim))),
            (None, Some(host)) => Err(Due::Wait(format!("the claim of {host} to be there again"))),
        }
    }

    /// Takes down what this intent has put up: its differences, where it is a guest, else its pin and its claim.
    ///
    /// `synced`: the clusters whose Works have to show it; `work_of`: all Works.
    pub fn leave<'w>(
        &self,
        host: Option<&ClaimOwner>,
        synced: &[ClusterName],
        works: impl Iterator<Item = (&'w ClusterName, &'w Work)> + Clone,
    ) -> Result<(), Due> {
        let work_of = |cluster: &ClusterName| works.clone().find(|(name, _)| *name == cluster);
        if let Some(guest) = self.guest(None)? {
            return guest.leave(synced, |cluster| work_of(cluster).map(|(_, work)| work));
        }
        let Some(host) = host else {
            return self.take_down(works);
        };
        // The plan has gone with all that was its own, or somebody took its claim away.
        match self.pin.clone()? {
            Some(_) if self.claim.clone()?.is_none() => {
                Err(Due::Wait(format!("the claim of {host} to be there again")))
            }
            _ => Ok(()),
        }
    }
}

impl Guest<'_> {
    /// Returns whose claim and pin it is.
    pub const fn host(&self) -> &ClaimOwner {
        &self.claim.spec.owner
    }

    /// Returns the marker of the pin in force.
    pub fn marker(&self) -> &str {
        &self.claim.spec.marker
    }

    /// Takes its turn, without saying anything yet: nobody else changes what runs until it leaves, and nobody moves it on
    /// purpose.
    pub fn enter(&self) -> Result<(), Due> {
        if self.claim.spec.differences.contains_key(&self.own.uid) {
            return Ok(());
        }
        self.say(Vec::new())
    }

    /// The pin in force includes exactly these rules; whether every Work is made with it, its marker says.
    pub fn says(&self, rules: &[PinnedRule]) -> Result<(), Due> {
        let (spec, uid) = (&self.claim.spec, &self.own.uid);
        let said = spec.differences.get(uid).map(|said| &said.rules[..]);
        if said != Some(rules) {
            return self.say(rules.to_vec());
        }
        let host = self.host();
        if spec.included.get(uid) != Some(&digest_of(rules)) {
            return Err(Due::Wait(format!("{host} to take the change into its pin")));
        }
        let is_in_force =
            |live: &OverridePolicy| pin::marker_of(live) == Some(self.marker()) && pin::includes(live, rules);
        if !self.pin.clone()?.is_some_and(is_in_force) {
            return Err(Due::Wait(format!("{host} to write its pin")));
        }
        Ok(())
    }

    /// The plan fails nothing over, nor is about to, because Karmada keeps no Work for its writer any more: what is in the middle of
    /// that can't be judged, nor is it changed meanwhile.
    pub fn rests(&self, synced: &[ClusterName]) -> Result<(), Due> {
        let spec = &self.claim.spec;
        let stays = spec.writer.as_ref().is_some_and(|writer| synced.contains(writer));
        if stays && is_at_rest(spec) {
            return Ok(());
        }
        Err(Due::Wait(format!("{} to end its failover", self.host())))
    }

    /// Every Work is made with the pin in force.
    pub fn markers<'w>(
        &self,
        synced: &[ClusterName],
        work_of: impl Fn(&ClusterName) -> Option<&'w Work>,
    ) -> Result<(), Due> {
        markers(synced, work_of, self.marker()).map_err(|missing| Due::Wait(missing.wait()))
    }

    /// Returns the pin as it would be without these rules.
    pub fn pin_without(&self, rules: &[PinnedRule]) -> Result<OverridePolicy, Due> {
        let left = self.pin.clone()?.and_then(|live| pin::without(live, rules));
        left.ok_or_else(|| Due::Wait(format!("{} to write its pin", self.host())))
    }

    /// It says nothing any more, and neither does a pin that a Work is made with.
    fn leave<'w>(
        &self,
        synced: &[ClusterName],
        work_of: impl Fn(&ClusterName) -> Option<&'w Work>,
    ) -> Result<(), Due> {
        let (spec, uid) = (&self.claim.spec, &self.own.uid);
        if spec.differences.contains_key(uid) {
            return Err(act(without_guest(self.claim, uid)));
        }
        if spec.included.contains_key(uid) {
            return Err(Due::Wait(format!(
                "{} to take the change out of its pin",
                self.host()
            )));
        }
        if spec.marker.is_empty() {
            return Ok(());
        }
        self.markers(synced, work_of)
    }

    fn say(&self, rules: Vec<PinnedRule>) -> Result<(), Due> {
        let mut spec = self.claim.spec.clone();
        if !spec.differences.contains_key(&self.own.uid) {
            may_enter(self.claim, &self.own.uid).map_err(Due::Wait)?;
        }
        let said = Differences {
            owner: self.own.clone(),
            rules,
        };
        spec.differences.insert(self.own.uid.clone(), said);
        Err(act(Effect::ReplaceClaim {
            claim: exactly(self.claim),
            spec,
        }))
    }
}

/// Returns whether a workload is a plan's, whose pin includes what guests say.
pub fn is_hosts(claim: &Claim) -> bool {
    claim.spec.owner.kind == HOST
}

/// Returns whether a plan only guards.
fn is_at_rest(spec: &ClaimSpec) -> bool {
    spec.guards && spec.writer.is_some() && !spec.marker.is_empty()
}

/// Returns why an intent can't become a guest of a claim now, if so: a plan is its owner, is in the middle of nothing, and has
/// no other guest.
pub fn may_enter(claim: &Claim, uid: &str) -> Result<(), String> {
    let spec = &claim.spec;
    let mut others = spec.differences.keys().chain(spec.included.keys());
    if is_hosts(claim) && is_at_rest(spec) && others.all(|other| other == uid) {
        return Ok(());
    }
    Err(held(claim))
}

/// Says for whom an intent waits that wants a claimed workload.
pub fn held(claim: &Claim) -> String {
    format!("{}{}", held_by(&claim.spec.owner), guests_of(claim))
}

/// Names the guests of a claim, if it has any.
pub fn guests_of(claim: &Claim) -> String {
    let guests = claim.spec.differences.values();
    let names: Vec<String> = guests.map(|said| said.owner.to_string()).collect();
    if names.is_empty() {
        return String::new();
    }
    format!(", and {} changes what runs under its guard", names.join(" and "))
}

/// Takes what a guest says out of a claim.
pub fn without_guest(claim: &Claim, uid: &str) -> Effect {
    let mut spec = claim.spec.clone();
    spec.differences.remove(uid);
    Effect::ReplaceClaim {
        claim: exactly(claim),
        spec,
    }
}

/// Returns what a claim says of a pin that includes what guests say.
pub fn included(guests: &BTreeMap<String, Differences>) -> BTreeMap<String, String> {
    let digests = guests.iter();
    digests
        .map(|(uid, said)| (uid.clone(), digest_of(&said.rules)))
        .collect()
}

fn digest_of(rules: &[PinnedRule]) -> String {
    digest(&json!(rules))
}
