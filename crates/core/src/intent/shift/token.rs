//! The claim, the pin that says how many replicas each cluster has, and the markers that show the pin to be in force.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{CapacityProof, Interrupt, Operation, PATIENCE, Side};
use crate::api::{MARKER_ANNOTATION, PatchOp};
use crate::intent::custody::{self, Custody, Patience, Standing, Terms};
use crate::intent::effect::{Effect, Exactly};
use crate::intent::pin::{self, Pin, Place, Rule, Says};
use crate::intent::replicas::replicas_of;
use crate::intent::seen::NotKnown;
use crate::profile::{self, Profile};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{ClusterAffinity, OverridePolicy, overrides};

const REPLICAS: &str = "/spec/replicas";

impl<'a> Operation<'a> {
    pub(super) fn custody(&self) -> Custody<'a> {
        let snapshot = self.snapshot();
        Custody::of(
            self.input.owner("ReplicaShift"),
            self.status.common.attempt,
            &snapshot.workload,
            &snapshot.plane.claim,
            &snapshot.plane.pin,
            &snapshot.plane.overrides,
        )
    }

    pub(super) fn claim(&self) -> Result<(), Interrupt> {
        let standing = self.is_standing()?;
        let terms = Terms {
            binding_id: self.journal()?.binding.id.clone(),
            shared: true,
            // While it rests, Karmada goes by the policy again.
            clusters: if standing { Vec::new() } else { self.clusters()? },
            standing,
            ..Terms::default()
        };
        Ok(self.custody().claim(&self.journal()?.pin, terms)?)
    }

    /// Returns the clusters that the binding is to list.
    pub(super) fn clusters(&self) -> Result<Vec<ClusterName>, Interrupt> {
        let journal = self.journal()?;
        let mut clusters = journal.listed.clone();
        if journal.expands && !clusters.contains(&journal.spec.to) {
            clusters.push(journal.spec.to.clone());
        }
        Ok(clusters)
    }

    pub(super) fn marker(&self) -> Result<String, Interrupt> {
        Ok(self.custody().marker(&self.journal()?.pin))
    }

    /// The pin says what the journal says. It is written only where it has its way, and with a room for what it takes away.
    pub(super) fn pin(&mut self) -> Result<(), Interrupt> {
        let (pin, custody) = (self.compile()?, self.custody());
        if custody.standing(&pin, &self.journal()?.pin)? == Standing::Due {
            self.check_effective(&pin)?;
            self.has_room()?;
        }
        Ok(custody.differ(&pin, &mut self.journal_mut()?.pin)?)
    }

    /// Nothing is taken away by the pin without a room for it.
    fn has_room(&self) -> Result<(), Interrupt> {
        let live = self.snapshot().plane.pin.get()?.as_ref();
        let wanted = &self.journal()?.wanted;
        let lowered: Vec<(Side, u32)> = wanted
            .iter()
            .map(|(cluster, replicas)| (Side::Member(cluster.clone()), *replicas))
            .filter(|(side, replicas)| self.may_lower(side, *replicas, live))
            .collect();
        if lowered.is_empty() {
            return Ok(());
        }
        let room = self.room_for(None)?;
        match lowered
            .iter()
            .find(|(side, replicas)| !room.allows(side, *replicas))
        {
            Some((side, _)) => Err(Interrupt::Wait(format!(
                "no room is proved to take replicas from {side}"
            ))),
            None => Ok(()),
        }
    }

    /// Returns whether a cluster may have fewer by this pin than it has: by the pin in force, or by its copy.
    fn may_lower(&self, side: &Side, replicas: u32, live: Option<&OverridePolicy>) -> bool {
        let Side::Member(cluster) = side else {
            return false;
        };
        let by_pin = pin::not_blank(live).map(|live| pinned(live, cluster));
        let copy = self.snapshot().members.get(cluster);
        let by_copy = copy
            .and_then(|copy| copy.get().ok())
            .map(|copy| copy.as_ref().map_or(Some(0), replicas_of));
        match (by_pin, by_copy.flatten()) {
            (Some(pinned), Some(has)) => pinned.is_none_or(|pinned| replicas < pinned) || replicas < has,
            (Some(pinned), None) => pinned.is_none_or(|pinned| replicas < pinned),
            (None, Some(has)) => replicas < has,
            // What isn't known may be more.
            (None, None) => true,
        }
    }

    /// Proves that what the journal wants, with this change, leaves enough.
    pub(super) fn room_for(&self, change: Option<(&Side, u32)>) -> Result<CapacityProof, Interrupt> {
        let journal = self.journal()?;
        let mut wanted: BTreeMap<Side, u32> = journal
            .wanted
            .iter()
            .map(|(cluster, replicas)| (Side::Member(cluster.clone()), *replicas))
            .collect();
        wanted.extend(
            journal
                .template_wanted
                .map(|replicas| (Side::ControlPlane, replicas)),
        );
        wanted.extend(change.map(|(side, replicas)| (side.clone(), replicas)));
        Ok(CapacityProof::prove(&self.counts(), &wanted, journal.floor)?)
    }

    /// Every Work that Karmada keeps for the workload carries the current marker.
    pub(super) fn markers(&mut self) -> Result<(), Interrupt> {
        let marker = self.marker()?;
        let works = self.snapshot().plane.works.get()?;
        let synced = custody::synced(self.binding()?);
        let joined = self.snapshot().plane.clusters.get()?;
        let status = &mut self.status;
        let journal = status.journal.as_mut().ok_or(Interrupt::Requeue)?;
        let patience = Patience {
            wait: &mut status.common.waiting_for,
            now: self.input.now,
            limit: PATIENCE,
        };
        custody::markers_or_resend(
            &synced,
            joined,
            |cluster| works.get(cluster),
            &marker,
            &mut journal.pin,
            patience,
        )?;
        self.send_again(&synced, &marker)
    }

    fn send_again(&mut self, synced: &[ClusterName], marker: &str) -> Result<(), Interrupt> {
        let members = &self.snapshot().members;
        let is_late = |cluster: &&ClusterName| {
            let copy = members.get(*cluster).and_then(|copy| copy.get().ok()?.as_ref());
            copy.is_some_and(|copy| marker_of(copy) != Some(marker))
        };
        let late = synced.iter().filter(is_late).map(not_current);
        let status = &mut self.status;
        let journal = status.journal.as_mut().ok_or(Interrupt::Requeue)?;
        let patience = Patience {
            wait: &mut status.common.waiting_for,
            now: self.input.now,
            limit: custody::ARRIVES_WITHIN,
        };
        Ok(custody::send_again(late, &mut journal.pin, patience)?)
    }

    /// A side has what it was asked for: its copy carries what the pin says, and all of it is ready and at rest.
    pub(super) fn arrived(&self, side: &Side) -> Result<String, Interrupt> {
        let wanted = self.wanted(side)?;
        if let Side::Member(cluster) = side {
            self.carries_marker(cluster, wanted)?;
        }
        let counts = self.counts();
        let count = match counts.get(side) {
            Some(Ok(count)) => *count,
            Some(Err(why)) => return Err(Interrupt::Wait(format!("{side}: {why}"))),
            None => return Err(Interrupt::Wait(format!("{side} was not looked at"))),
        };
        if count.wanted != wanted {
            let copy = match side {
                Side::Member(cluster) => self.snapshot().members.get(cluster),
                Side::ControlPlane => None,
            };
            let copy = copy.and_then(|copy| copy.get().ok()?.as_ref());
            let who = copy.and_then(sets_replicas);
            let who = who.map(|who| format!(" ({who} sets them)")).unwrap_or_default();
            return Err(Interrupt::Wait(format!(
                "{side} to be asked for {wanted} replicas, not {}{who}",
                count.wanted
            )));
        }
        if !count.is_full() {
            return Err(Interrupt::Wait(format!(
                "{side}: {} of {wanted} replicas are ready",
                count.ready
            )));
        }
        Ok(format!("{side}: {wanted} of {wanted} ready"))
    }

    /// A cluster that is to have none may have no copy: then there is nothing to carry a marker.
    fn carries_marker(&self, cluster: &ClusterName, wanted: u32) -> Result<(), Interrupt> {
        let Some(copy) = self.snapshot().members.get(cluster) else {
            return Err(Interrupt::Wait(format!("{cluster} was not looked at")));
        };
        let copy = copy.get().map_err(|why| NotKnown(format!("{cluster}: {why}")))?;
        let Some(copy) = copy else {
            if wanted == 0 && !self.clusters()?.contains(cluster) {
                return Ok(());
            }
            return Err(Interrupt::Wait(format!("{cluster} has no copy yet")));
        };
        if marker_of(copy) != Some(self.marker()?.as_str()) {
            return Err(Interrupt::Wait(not_current(cluster)));
        }
        Ok(())
    }

    /// The template has the replicas that it is to have, where it runs itself.
    pub(super) fn template_replicas(&self) -> Result<(), Interrupt> {
        let Some(wanted) = self.journal()?.template_wanted else {
            return Ok(());
        };
        let template = self.template()?;
        let has = replicas_of(template);
        if has == Some(wanted) {
            return Ok(());
        }
        if has.is_none_or(|has| wanted < has) && !self.room_for(None)?.allows(&Side::ControlPlane, wanted) {
            return Err(Interrupt::Wait(
                "no room is proved to take replicas from the template".to_owned(),
            ));
        }
        let text = |pointer: &str| {
            let text = template.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let template = Exactly {
            namespace: self.workload().namespace.clone(),
            name: self.workload().name.clone(),
            uid: self.journal()?.template_uid.clone(),
            resource_version: Some(text("/metadata/resourceVersion")),
        };
        let patch = vec![json!({"op": "add", "path": REPLICAS, "value": wanted})];
        Err(Interrupt::Act(vec![Effect::PatchTemplate { template, patch }]))
    }

    /// Compiles the pin of the journal: a number for each cluster that has one, and none for whichever comes later.
    pub(super) fn compile(&self) -> Result<Pin, Interrupt> {
        let journal = self.journal()?;
        let says = |replicas: u32| vec![PatchOp::add(REPLICAS, replicas)];
        let named = journal.wanted.iter().map(|(cluster, replicas)| Rule {
            place: Place::Only(vec![cluster.clone()]),
            patches: says(*replicas),
        });
        let others = Rule {
            place: Place::AllBut(journal.wanted.keys().cloned().collect()),
            patches: says(0),
        };
        let version = &journal.spec.workload.api_version;
        let says = Says::Differences(named.chain([others]).collect());
        Ok(self.custody().compile(&journal.pin, version, says)?)
    }

    pub(super) fn profile(&self) -> Result<Profile, Interrupt> {
        let given = self.snapshot().plane.profiles.get()?;
        let gvk = self.input.status.spec_in_force(self.input.spec).workload.gvk();
        let found = profile::find(given, None, &gvk).ok().flatten();
        let found = found.ok_or_else(|| Interrupt::Wait(format!("no WorkloadProfile is about {gvk}")))?;
        let name = found.metadata.name.clone().unwrap_or_default();
        Profile::compile(&name, &found.spec).map_err(|error| Interrupt::Wait(error.to_string()))
    }

    /// No other override policy has the last word: with the pin, every cluster gets the number that the pin says.
    pub(super) fn check_effective(&self, pin: &Pin) -> Result<(), Interrupt> {
        let mut all = self.other_overrides()?;
        all.1.push(pin.policy());
        let (template, clusters) = (self.template()?, self.snapshot().plane.clusters.get()?);
        for (name, replicas) in &self.journal()?.wanted {
            let Some(cluster) = clusters.get(name) else {
                continue;
            };
            let becomes = overrides::effective(template, cluster, &all.0, &all.1);
            let becomes = becomes.map_err(|error| Interrupt::Wait(error.to_string()))?;
            if replicas_of(&becomes) != Some(*replicas) {
                return Err(Interrupt::Wait(format!(
                    "{name} to get the replicas that the pin says: another override policy, applied later, says something else"
                )));
            }
        }
        Ok(())
    }

    /// Returns whether a pin is this intent's, and says something.
    pub(super) fn has_pin(&self) -> Result<bool, Interrupt> {
        Ok(pin::not_blank(self.custody().own_pin()?).is_some())
    }
}

fn not_current(cluster: &ClusterName) -> String {
    format!("{cluster}: the copy does not carry the current marker yet")
}

fn marker_of(copy: &Value) -> Option<&str> {
    copy.pointer("/metadata/annotations")?
        .get(MARKER_ANNOTATION)?
        .as_str()
}

/// Returns how many replicas a pin gives to a cluster that it names.
fn pinned(live: &OverridePolicy, cluster: &ClusterName) -> Option<u32> {
    let of = |affinity: &ClusterAffinity| {
        let names = affinity.cluster_names.as_ref();
        names.is_some_and(|names| names.contains(cluster))
    };
    let mut rules = live.spec.override_rules.iter();
    let rule = rules.find(|rule| rule.target_cluster.as_ref().is_some_and(of))?;
    let mut patches = rule.overriders.plaintext.iter();
    let patch = patches.find(|patch| patch.path == REPLICAS)?;
    u32::try_from(patch.value.as_u64()?).ok()
}

/// Returns who has set the replicas of a copy, if that isn't Karmada.
fn sets_replicas(copy: &Value) -> Option<&str> {
    let managers = copy.pointer("/metadata/managedFields")?.as_array()?;
    let sets = |entry: &&Value| entry.pointer("/fieldsV1/f:spec/f:replicas").is_some();
    let mut names = managers
        .iter()
        .filter(sets)
        .filter_map(|entry| entry["manager"].as_str());
    names.find(|name| !name.contains("karmada"))
}
