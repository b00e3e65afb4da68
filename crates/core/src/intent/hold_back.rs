//! What sync must leave alone for now: the template of a workload that an intent is moving, and the policies over it.
//!
//! The intent takes the template's change along, or it is applied when the intent has ended. What was never applied
//! isn't held: there is nothing to move yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::driven::{self, Driven};
use super::record;
use super::selected::{Labels, Selected, labels};
use crate::api::{self, MigrationSpec, MigrationStatus, Phase, ShiftPhase, WorkloadRef, claim_name};
use crate::manifest::{Entry, ObjectMap};
use cutover_karmada::ResourceSelector;
use cutover_karmada::name::{Gvk, ObjectKey};

/// What the control plane says, as far as it matters here. A cache is good enough: pins make the rest safe.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    pub migrations: &'a [Arc<Value>],
    pub rollouts: &'a [Arc<Value>],
    pub rollout_policies: &'a [Arc<Value>],
    pub claims: &'a [Arc<Value>],
    /// Returns an object, if there is one.
    pub object: &'a dyn Fn(&ObjectKey) -> Option<Arc<Value>>,
    /// Returns the labels of an object, if there is one: without unpacking it.
    pub labels: &'a dyn Fn(&ObjectKey) -> Option<Labels>,
}

impl fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("migrations", &self.migrations.len())
            .field("rollouts", &self.rollouts.len())
            .field("rollout_policies", &self.rollout_policies.len())
            .field("claims", &self.claims.len())
            .finish_non_exhaustive()
    }
}

/// The intent for whose sake an object is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBy {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has not ended, or is about to begin.
    Moving,
    /// It ended without this change, which stays unapplied until a commit changes it.
    RolledBack,
    /// It ended without having moved anything: applied now, the change could have Karmada move the workload. It stays
    /// unapplied until a commit changes it.
    NotMoved,
    /// It takes every change of the template cluster by cluster; what isn't a change is none of its business.
    Rolling,
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind, self.name)?,
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name)?,
        }
        match self.why {
            Why::Moving | Why::Rolling => Ok(()),
            Why::RolledBack => f.write_str(", which rolled this change back"),
            Why::NotMoved => f.write_str(", which has not moved the workload that this policy places"),
        }
    }
}

/// What sync must not apply.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    /// For whose sake.
    pub objects: BTreeMap<ObjectKey, HeldBy>,
    /// Some intent has not ended, or is about to begin: what is held may depend on any template and policy.
    pub something_moves: bool,
}

/// Returns the objects that sync must not apply, and for whose sake.
///
/// Costs nothing to speak of while nothing moves; else the policies that can be about what moves, for each of that.
pub fn held_back(desired: &ObjectMap<Entry>, live: Live<'_>) -> Holding {
    let intents = Intents::read(desired, live);
    let something_moves = !intents.holds.is_empty();
    let mut held = BTreeMap::new();
    for (workload, hold) in intents.holds {
        if hold.changes_only() {
            let is_there = (live.labels)(&workload).is_some();
            if hold.is_about(&workload, is_there, is_there || desired.contains_key(&workload)) {
                held.insert(workload, hold.by);
            }
            continue;
        }
        let template = (live.object)(&workload);
        let wanted = desired.get(&workload).map(|entry| entry.value());
        let exists = template.is_some() || wanted.is_some();
        if !hold.is_about(&workload, template.is_some(), exists) {
            continue;
        }
        let forms: Vec<&Value> = template.as_deref().into_iter().chain(&wanted).collect();
        let over = policies_over(desired, live, &workload, |policy| match &*forms {
            [] => may_select(policy, &workload),
            forms => forms.iter().any(|template| selects(policy, template)),
        });
        for key in over
            .into_iter()
            .filter(|key| hold.policies == Policies::Held || overrides(&key.kind))
        {
            held.entry(key).or_insert_with(|| hold.by.clone());
        }
        held.insert(workload, hold.by);
    }
    for (policy, by) in intents.policies {
        if desired.contains_key(&policy) {
            held.entry(policy).or_insert(by);
        }
    }
    for left in intents.left {
        if desired
            .get(&left.object)
            .is_some_and(|entry| record::digest(&entry.value()) == left.hash)
        {
            held.entry(left.object).or_insert(left.by);
        }
    }
    Holding {
        objects: held,
        something_moves,
    }
}

struct Hold {
    by: HeldBy,
    /// It has begun: a template that is gone is not to be brought back behind its back.
    engaged: bool,
    policies: Policies,
}

/// What becomes of the policies that place a workload; those that change what runs wait for the end in any case. Where several
/// intents are about a workload, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Policies {
    /// They are applied: the intent changes what runs, not where.
    Applied,
    /// They wait with the template.
    Held,
    /// They are applied although other intents may wait: a Migration has decided where the workload stays, and ends when they keep
    /// it there.
    Awaited,
}

impl Hold {
    /// A rollout changes what runs, not where: policies are none of its business.
    fn changes_only(&self) -> bool {
        matches!(self.by.kind.as_str(), ROLLOUT | ROLLOUT_POLICY)
    }

    /// An intent doesn't say the scope of its workload: without a namespace it is held where there is one. `exists`: live or
    /// in Git.
    const fn is_about(&self, workload: &ObjectKey, is_there: bool, exists: bool) -> bool {
        (is_there || self.engaged) && (workload.namespace.is_some() || exists)
    }
}

/// What an intent left unapplied when it ended.
struct Left {
    object: ObjectKey,
    by: HeldBy,
    hash: String,
}

#[derive(Default)]
struct Intents {
    holds: BTreeMap<ObjectKey, Hold>,
    /// The policies that have set something off which is not committed yet: whatever can be seen of its workload.
    policies: BTreeMap<ObjectKey, HeldBy>,
    left: Vec<Left>,
}

impl Intents {
    #[expect(clippy::too_many_lines, reason = "one kind of intent after the other")]
    fn read(desired: &ObjectMap<Entry>, live: Live<'_>) -> Self {
        let mut intents = Self::default();
        // What only needs a placement ends when its policy is out: nothing that waits for it holds that back.
        let all = || live.migrations.iter().map(|object| Migration::of(object));
        let committed = all().filter(Migration::awaits_placement);
        let committed: BTreeSet<ObjectKey> = committed
            .flat_map(|one| one.workloads().collect::<Vec<_>>())
            .collect();
        let mut last: BTreeMap<ObjectKey, (Option<Timestamp>, Vec<Left>)> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for object in live.migrations {
            let migration = Migration::of(object);
            seen.insert(migration.key());
            let asked = desired.get(&migration.key()).map(|entry| entry.value());
            let asked_anew = asked
                .as_ref()
                .is_some_and(|asked| migration.is_asked_again(asked));
            if !migration.has_ended() || asked_anew {
                let policies = if asked_anew || !migration.awaits_placement() {
                    Policies::Held
                } else {
                    Policies::Awaited
                };
                intents.hold(&migration, policies);
                let waits_for_one = || {
                    let mut workloads = migration.workloads();
                    workloads.any(|workload| committed.contains(&workload))
                };
                if policies == Policies::Held
                    && let Some(driven) = Driven::of(object)
                    && !waits_for_one()
                {
                    let by = migration.holder(Why::Moving);
                    intents.policies.insert(driven.policy.key(), by);
                }
                if let Some(asked) = &asked {
                    intents.hold(&Migration::of(asked), policies);
                }
            } else {
                let finished_at = migration.finished_at();
                for workload in migration.workloads() {
                    let latest = last.entry(workload.clone()).or_default();
                    if latest.0 <= finished_at {
                        *latest = (finished_at, migration.left(&workload));
                    }
                }
            }
        }
        for entry in desired.of_kind(api::GROUP, MIGRATION) {
            if !seen.contains(&entry.key) {
                intents.hold(&Migration::of(&entry.value()), Policies::Held);
            }
        }
        intents.hold_asked(desired, live);
        intents.hold_claimed(desired, live);
        for rollout in live.rollouts {
            intents.hold_changes(rollout);
        }
        for entry in desired.of_kind(api::GROUP, ROLLOUT) {
            intents.hold_changes(&entry.value());
        }
        // One that is being deleted holds nothing but what its rollouts hold.
        let stands = |policy: &&Arc<Value>| policy.pointer("/metadata/deletionTimestamp").is_none();
        for policy in live.rollout_policies.iter().filter(stands) {
            intents.hold_selected(policy, desired, live);
        }
        for entry in desired.of_kind(api::GROUP, ROLLOUT_POLICY) {
            intents.hold_selected(&entry.value(), desired, live);
        }
        intents.left = last.into_values().flat_map(|(_, left)| left).collect();
        intents
    }

    fn hold(&mut self, migration: &Migration<'_>, policies: Policies) {
        let engaged = migration.has_begun();
        for workload in migration.workloads() {
            let by = migration.holder(Why::Moving);
            let hold = self.holds.entry(workload).or_insert(Hold {
                by,
                engaged,
                policies,
            });
            hold.engaged |= engaged;
            hold.policies = hold.policies.max(policies);
        }
    }

    /// A rollout holds changes for as long as it is there, and the template as such only under its claim.
    fn hold_changes(&mut self, rollout: &Value) {
        let Some(named) = rollout
            .pointer("/spec/workload")
            .and_then(|named| serde_json::from_value::<WorkloadRef>(named.clone()).ok())
        else {
            return;
        };
        let namespace = text(rollout, "/metadata/namespace");
        for workload in [named.key(Some(namespace)), named.key(None)] {
            let by = HeldBy {
                kind: ROLLOUT.to_owned(),
                namespace: namespace.to_owned(),
                name: text(rollout, "/metadata/name").to_owned(),
                why: Why::Rolling,
            };
            self.holds.entry(workload).or_insert(Hold {
                by,
                engaged: false,
                policies: Policies::Applied,
            });
        }
    }

    /// The same for every workload in Git that a policy selects.
    fn hold_selected(&mut self, policy: &Value, desired: &ObjectMap<Entry>, live: Live<'_>) {
        let selected = Selected::of(policy);
        let namespace = Some(selected.namespace()).filter(|namespace| !namespace.is_empty());
        for kind in selected.kinds() {
            for entry in desired.of_namespace(&kind.group, &kind.kind, namespace) {
                let there = (live.labels)(&entry.key);
                if !selected.takes(&entry.key, Some(&labels(entry.written())), there.as_ref()) {
                    continue;
                }
                let by = HeldBy {
                    kind: ROLLOUT_POLICY.to_owned(),
                    namespace: selected.namespace().to_owned(),
                    name: text(policy, "/metadata/name").to_owned(),
                    why: Why::Rolling,
                };
                let hold = Hold {
                    by,
                    engaged: false,
                    policies: Policies::Applied,
                };
                self.holds.entry(entry.key.clone()).or_insert(hold);
            }
        }
    }

    /// A shift that Git asks for and that hasn't ended: what comes in the same push must not come before its pin. Once it
    /// rests, its claim says what is held.
    fn hold_asked(&mut self, desired: &ObjectMap<Entry>, live: Live<'_>) {
        for entry in desired.of_kind(api::GROUP, SHIFT) {
            let there = (live.object)(&entry.key);
            let status = there.as_ref().and_then(|there| there.get("status"));
            let phase = status
                .and_then(|status| serde_json::from_value::<ShiftPhase>(status.get("phase")?.clone()).ok());
            if phase.is_some_and(|phase| phase.is_terminal() || phase == ShiftPhase::Shifted) {
                continue;
            }
            let asked = entry.value();
            let Some(workload) = asked.pointer("/spec/workload") else {
                continue;
            };
            let Ok(workload) = serde_json::from_value::<WorkloadRef>(workload.clone()) else {
                continue;
            };
            let namespace = text(&asked, "/metadata/namespace").to_owned();
            let by = HeldBy {
                kind: SHIFT.to_owned(),
                namespace: namespace.clone(),
                name: text(&asked, "/metadata/name").to_owned(),
                why: Why::Moving,
            };
            self.holds.entry(workload.key(Some(&namespace))).or_insert(Hold {
                by,
                engaged: phase >= Some(ShiftPhase::Hold),
                policies: Policies::Held,
            });
        }
    }

    /// A claim holds whatever the intent says that owns it: it is taken first and given up last.
    fn hold_claimed(&mut self, desired: &ObjectMap<Entry>, live: Live<'_>) {
        let mut others: BTreeMap<&str, &Value> = BTreeMap::new();
        // One that stands, or only guards, keeps nothing from the workload.
        let is_true = |claim: &Value, pointer: &str| claim.pointer(pointer) == Some(&Value::Bool(true));
        let holding = live
            .claims
            .iter()
            .filter(|claim| !is_true(claim, "/spec/standing") && !is_true(claim, "/spec/guards"))
            .map(|claim| (claim, &claim["spec"]["owner"]));
        // Whoever guards it, a rollout that is under way takes the template's changes along.
        let rolling = live.claims.iter().filter_map(|claim| {
            let mut guests = claim.pointer("/spec/differences")?.as_object()?.values();
            let rollout = guests.find(|said| said["owner"]["kind"] == ROLLOUT)?;
            Some((claim, &rollout["owner"]))
        });
        for (claim, owner) in holding.chain(rolling) {
            let name = text(claim, "/metadata/name");
            match claimed(text(claim, "/spec/workload")).filter(|workload| claim_name(workload) == name) {
                Some(workload) if desired.contains_key(&workload) => self.hold_for(workload, owner),
                Some(_) => {}
                None => drop(others.entry(name).or_insert(owner)),
            }
        }
        // What such a claim is about, only its name says: as a digest.
        if !others.is_empty() {
            for key in desired.keys() {
                if let Some(owner) = others.get(claim_name(key).as_str()) {
                    self.hold_for(key.clone(), owner);
                }
            }
        }
    }

    fn hold_for(&mut self, workload: ObjectKey, owner: &Value) {
        let of = |field| text(owner, field).to_owned();
        let by = HeldBy {
            kind: of("/kind"),
            namespace: of("/namespace"),
            name: of("/name"),
            why: Why::Moving,
        };
        let hold = self.holds.entry(workload).or_insert(Hold {
            by,
            engaged: true,
            policies: Policies::Held,
        });
        hold.engaged = true;
    }
}

/// Reads the workload of a claim: `<kind>.<group> <namespace>/<name>`, or `<kind>.<group> <name>`.
fn claimed(workload: &str) -> Option<ObjectKey> {
    let (kind, name) = workload.split_once(' ')?;
    let (kind, group) = kind.split_once('.')?;
    let (namespace, name) = match name.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, name),
    };
    Some(ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    })
}

/// A Migration read leniently: one that this version can't read in full still holds its workload.
struct Migration<'a> {
    object: &'a Value,
    status: Option<MigrationStatus>,
}

impl<'a> Migration<'a> {
    fn of(object: &'a Value) -> Self {
        let status = object
            .get("status")
            .and_then(|status| serde_json::from_value(status.clone()).ok());
        Self { object, status }
    }

    fn namespace(&self) -> &'a str {
        text(self.object, "/metadata/namespace")
    }

    fn key(&self) -> ObjectKey {
        ObjectKey {
            group: api::GROUP.to_owned(),
            kind: MIGRATION.to_owned(),
            namespace: Some(self.namespace().to_owned()),
            name: text(self.object, "/metadata/name").to_owned(),
        }
    }

    fn phase(&self) -> Option<Phase> {
        serde_json::from_value(self.object.pointer("/status/phase")?.clone()).ok()
    }

    fn has_ended(&self) -> bool {
        self.phase().is_some_and(Phase::is_terminal)
    }

    fn has_begun(&self) -> bool {
        !self.has_ended()
            && self
                .object
                .pointer("/status/journal")
                .is_some_and(Value::is_object)
    }

    fn finished_at(&self) -> Option<Timestamp> {
        self.status.as_ref()?.common.finished_at
    }

    /// The workload of the attempt, which a change of the spec in mid-flight doesn't change; and that of the spec. The scope
    /// of its kind is not known here: it is held in either, and only one of them exists.
    fn workloads(&self) -> impl Iterator<Item = ObjectKey> + use<'_, 'a> {
        let begun = self.has_begun().then_some("/status/journal/spec/workload");
        let named = begun.into_iter().chain(["/spec/workload"]).filter_map(|pointer| {
            serde_json::from_value::<WorkloadRef>(self.object.pointer(pointer)?.clone()).ok()
        });
        named.flat_map(|workload| [workload.key(Some(self.namespace())), workload.key(None)])
    }

    /// Returns whether Git asks for another attempt than the one that ended.
    fn is_asked_again(&self, asked: &Value) -> bool {
        let spec = |object: &Value| serde_json::from_value::<MigrationSpec>(object.get("spec")?.clone()).ok();
        match (spec(self.object), spec(asked)) {
            (Some(ended), Some(asked)) => !record::asks_the_same(&ended, &asked),
            // One of them can't be read: better to wait for nothing than to move what is in motion.
            _ => self.object.get("spec") != asked.get("spec"),
        }
    }

    /// Returns whether a placement that keeps the workload where it runs is all that it needs: it is committed, or a person gave the
    /// workload back to the source after that, and the source is the writer again. Another placement is held back by the gate.
    fn awaits_placement(&self) -> bool {
        self.phase() == Some(Phase::Cleanup) || driven::returned_to(self.object).is_some()
    }

    /// Returns what it left unapplied when it ended.
    fn left(&self, workload: &ObjectKey) -> Vec<Left> {
        let Some(status) = &self.status else {
            return Vec::new();
        };
        let template = status.held_back.as_ref().map(|template| Left {
            object: workload.clone(),
            by: self.holder(Why::RolledBack),
            hash: template.hash.clone(),
        });
        // What Git asked for instead is judged by the gate.
        let turned_back = driven::is_turned_back(self.object);
        let held_policies = status.held_policies.iter().filter(|_| !turned_back);
        let policies = held_policies.map(|held| Left {
            object: held.policy.key(),
            by: self.holder(Why::NotMoved),
            hash: held.hash.clone(),
        });
        template.into_iter().chain(policies).collect()
    }

    fn holder(&self, why: Why) -> HeldBy {
        HeldBy {
            kind: MIGRATION.to_owned(),
            namespace: self.namespace().to_owned(),
            name: text(self.object, "/metadata/name").to_owned(),
            why,
        }
    }
}

const MIGRATION: &str = "Migration";
const ROLLOUT: &str = "Rollout";
const ROLLOUT_POLICY: &str = "RolloutPolicy";
const SHIFT: &str = "ReplicaShift";
const POLICY_GROUP: &str = "policy.karmada.io";
const POLICIES: [&str; 4] = [
    "ClusterOverridePolicy",
    "ClusterPropagationPolicy",
    "OverridePolicy",
    "PropagationPolicy",
];

/// Returns the policies in Git that select the workload, as Git has them or as they are applied now.
fn policies_over(
    desired: &ObjectMap<Entry>,
    live: Live<'_>,
    workload: &ObjectKey,
    selects: impl Fn(&Value) -> bool,
) -> Vec<ObjectKey> {
    // A policy of another namespace selects nothing in this one.
    let namespaces = BTreeSet::from([None, workload.namespace.as_deref()]);
    let mut over = Vec::new();
    for (kind, namespace) in POLICIES
        .iter()
        .flat_map(|kind| namespaces.iter().map(move |namespace| (kind, *namespace)))
    {
        for entry in desired.of_namespace(POLICY_GROUP, kind, namespace) {
            let (wanted, applied) = (entry.value(), (live.object)(&entry.key));
            let mut versions = [Some(&wanted), applied.as_deref()].into_iter().flatten();
            if versions.any(&selects) {
                over.push(entry.key.clone());
            }
        }
    }
    over
}

/// Returns whether a policy may be about a workload that can't be seen, as where no sync has objects of its kind: labels that it may have,
/// and the version in which it is written, count as those that are selected.
fn may_select(policy: &Value, workload: &ObjectKey) -> bool {
    let of_workload =
        |namespace: &str| namespace.is_empty() || workload.namespace.as_deref() == Some(namespace);
    if !of_workload(text(policy, "/metadata/namespace")) {
        return false;
    }
    let Some(selectors) = policy.pointer("/spec/resourceSelectors") else {
        return overrides(text(policy, "/kind"));
    };
    let takes = |selector: &ResourceSelector| {
        let kind = Gvk::new(&selector.api_version, &selector.kind);
        (&kind.group, &kind.kind) == (&workload.group, &workload.kind)
            && of_workload(&selector.namespace)
            && (selector.name.is_empty() || selector.name == workload.name)
    };
    serde_json::from_value::<Vec<ResourceSelector>>(selectors.clone())
        .is_ok_and(|selectors| selectors.iter().any(takes))
}

fn overrides(kind: &str) -> bool {
    kind.ends_with("OverridePolicy")
}

/// Returns whether a policy is about an object.
pub fn selects(policy: &Value, template: &Value) -> bool {
    let namespace = text(policy, "/metadata/namespace");
    if !namespace.is_empty() && namespace != text(template, "/metadata/namespace") {
        return false;
    }
    let Some(selectors) = policy.pointer("/spec/resourceSelectors") else {
        // An override policy without selectors is about every object; a propagation policy must have some.
        return overrides(text(policy, "/kind"));
    };
    serde_json::from_value::<Vec<ResourceSelector>>(selectors.clone())
        .is_ok_and(|selectors| ResourceSelector::closest(&selectors, template).is_some())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
