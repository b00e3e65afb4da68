//! What sync must leave alone for now: the template of a workload that an intent is moving, and the policies over it.
//!
//! The intent takes the template's change along, or it is applied when the intent has ended. What was never applied
//! isn't held: there is nothing to move yet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::record;
use crate::api::{self, MigrationSpec, MigrationStatus, Phase, WorkloadRef, claim_name};
use crate::karmada::ResourceSelector;
use crate::manifest::Manifest;
use crate::name::ObjectKey;

/// What the control plane says, as far as it matters here. A cache is good enough: pins make the rest safe.
#[derive(Clone, Copy)]
pub struct Live<'a> {
    pub migrations: &'a [Arc<Value>],
    pub claims: &'a [Arc<Value>],
    /// Returns an object, if there is one.
    pub object: &'a dyn Fn(&ObjectKey) -> Option<Arc<Value>>,
}

impl fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("migrations", &self.migrations.len())
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
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)?;
        match self.why {
            Why::Moving => Ok(()),
            Why::RolledBack => f.write_str(", which rolled this change back"),
        }
    }
}

/// Returns the objects that sync must not apply, and for whose sake.
///
/// Costs nothing to speak of while nothing moves; else the policies in Git times the workloads that move.
pub fn held_back(
    desired: &BTreeMap<ObjectKey, Arc<Manifest>>,
    live: Live<'_>,
) -> BTreeMap<ObjectKey, HeldBy> {
    let intents = Intents::read(desired, live);
    let mut held = BTreeMap::new();
    for (workload, hold) in intents.holds {
        let template = (live.object)(&workload);
        if template.is_none() && !hold.engaged {
            continue;
        }
        let forms: Vec<&Value> = template
            .as_deref()
            .into_iter()
            .chain(desired.get(&workload).map(|manifest| &manifest.value))
            .collect();
        for key in policies_over(desired, live, &forms) {
            held.entry(key).or_insert_with(|| hold.by.clone());
        }
        held.insert(workload, hold.by);
    }
    for (workload, left) in intents.rolled_back {
        if desired
            .get(&workload)
            .is_some_and(|manifest| record::digest(&manifest.value) == left.hash)
        {
            held.entry(workload).or_insert(left.by);
        }
    }
    held
}

struct Hold {
    by: HeldBy,
    /// It has begun: a template that is gone is not to be brought back behind its back.
    engaged: bool,
}

struct Left {
    by: HeldBy,
    hash: String,
}

#[derive(Default)]
struct Intents {
    holds: BTreeMap<ObjectKey, Hold>,
    rolled_back: BTreeMap<ObjectKey, Left>,
}

impl Intents {
    fn read(desired: &BTreeMap<ObjectKey, Arc<Manifest>>, live: Live<'_>) -> Self {
        let mut intents = Self::default();
        let mut last: BTreeMap<ObjectKey, (Option<Timestamp>, Option<Left>)> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for object in live.migrations {
            let migration = Migration::of(object);
            seen.insert(migration.key());
            let asked = desired.get(&migration.key()).map(|manifest| &manifest.value);
            if !migration.has_ended() || asked.is_some_and(|asked| migration.is_asked_anew(asked)) {
                intents.hold(&migration);
                if let Some(asked) = asked {
                    intents.hold(&Migration::of(asked));
                }
            } else if let Some(workload) = migration.workloads().next() {
                let ended = (migration.finished_at(), migration.left());
                let latest = last.entry(workload).or_default();
                if latest.0 <= ended.0 {
                    *latest = ended;
                }
            }
        }
        for manifest in desired.values().filter(|manifest| is_migration(&manifest.key)) {
            if !seen.contains(&manifest.key) {
                intents.hold(&Migration::of(&manifest.value));
            }
        }
        intents.hold_claimed(desired, live);
        intents.rolled_back = last
            .into_iter()
            .filter_map(|(workload, (_, left))| Some((workload, left?)))
            .collect();
        intents
    }

    fn hold(&mut self, migration: &Migration<'_>) {
        let engaged = migration.has_begun();
        for workload in migration.workloads() {
            let by = migration.holder(Why::Moving);
            let hold = self.holds.entry(workload).or_insert(Hold { by, engaged });
            hold.engaged |= engaged;
        }
    }

    /// A claim holds whatever the intent says that owns it: it is taken first and given up last.
    fn hold_claimed(&mut self, desired: &BTreeMap<ObjectKey, Arc<Manifest>>, live: Live<'_>) {
        let claims: BTreeMap<&str, &Value> = live
            .claims
            .iter()
            .map(|claim| (text(claim, "/metadata/name"), &**claim))
            .collect();
        if claims.is_empty() {
            return;
        }
        for key in desired.keys() {
            if let Some(claim) = claims.get(claim_name(key).as_str()) {
                let owner = |field| text(claim, field).to_owned();
                let by = HeldBy {
                    kind: owner("/spec/owner/kind"),
                    namespace: owner("/spec/owner/namespace"),
                    name: owner("/spec/owner/name"),
                    why: Why::Moving,
                };
                let hold = self
                    .holds
                    .entry(key.clone())
                    .or_insert(Hold { by, engaged: true });
                hold.engaged = true;
            }
        }
    }
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
            kind: "Migration".to_owned(),
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
        self.status.as_ref()?.finished_at
    }

    /// The workload of the attempt, which a change of the spec in mid-flight doesn't change; and that of the spec.
    fn workloads(&self) -> impl Iterator<Item = ObjectKey> + use<'_, 'a> {
        let begun = self.has_begun().then_some("/status/journal/spec/workload");
        begun.into_iter().chain(["/spec/workload"]).filter_map(|pointer| {
            let workload: WorkloadRef = serde_json::from_value(self.object.pointer(pointer)?.clone()).ok()?;
            Some(workload.key(self.namespace()))
        })
    }

    /// Returns whether Git asks for another attempt than the one that ended.
    fn is_asked_anew(&self, asked: &Value) -> bool {
        let spec = |object: &Value| serde_json::from_value::<MigrationSpec>(object.get("spec")?.clone()).ok();
        match (spec(self.object), spec(asked)) {
            (Some(ended), Some(asked)) => !record::asks_the_same(&ended, &asked),
            // One of them can't be read: better to wait for nothing than to move what is in motion.
            _ => self.object.get("spec") != asked.get("spec"),
        }
    }

    fn left(&self) -> Option<Left> {
        let left = self.status.as_ref()?.held_back.as_ref()?;
        Some(Left {
            by: self.holder(Why::RolledBack),
            hash: left.hash.clone(),
        })
    }

    fn holder(&self, why: Why) -> HeldBy {
        HeldBy {
            kind: "Migration".to_owned(),
            namespace: self.namespace().to_owned(),
            name: text(self.object, "/metadata/name").to_owned(),
            why,
        }
    }
}

fn is_migration(key: &ObjectKey) -> bool {
    key.group == api::GROUP && key.kind == "Migration"
}

/// Returns the policies in Git that select the workload, as Git has them or as they are applied now.
fn policies_over(
    desired: &BTreeMap<ObjectKey, Arc<Manifest>>,
    live: Live<'_>,
    forms: &[&Value],
) -> Vec<ObjectKey> {
    desired
        .values()
        .filter(|manifest| manifest.key.group == "policy.karmada.io")
        .filter(|manifest| {
            let applied = (live.object)(&manifest.key);
            let versions = [Some(&manifest.value), applied.as_deref()];
            versions
                .into_iter()
                .flatten()
                .any(|policy| forms.iter().any(|template| selects(policy, template)))
        })
        .map(|manifest| manifest.key.clone())
        .collect()
}

fn selects(policy: &Value, template: &Value) -> bool {
    let namespace = text(policy, "/metadata/namespace");
    if !namespace.is_empty() && namespace != text(template, "/metadata/namespace") {
        return false;
    }
    let Some(selectors) = policy.pointer("/spec/resourceSelectors") else {
        // An override policy without selectors is about every object; a propagation policy must have some.
        return text(policy, "/kind").ends_with("OverridePolicy");
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::{Limits, Source, parse};

    const TEMPLATE: &str = "
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {namespace: shop, name: orders, labels: {app: orders}}
spec: {image: new}
";
    const POLICIES: &str = "
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {namespace: shop, name: orders}
spec: {resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata: {name: everything}
spec: {overrideRules: []}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {namespace: other, name: elsewhere}
spec: {overrideRules: []}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {namespace: shop, name: payments}
spec: {resourceSelectors: [{apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: payments}]}
";
    const MIGRATION: &str = "
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {namespace: shop, name: orders-to-west}
spec: {to: west, workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}}
";

    fn git(files: &[&str]) -> BTreeMap<ObjectKey, Arc<Manifest>> {
        let parsed = files.iter().flat_map(|text| {
            let parsed = parse(Source::new("a.yaml"), text.as_bytes(), &Limits::default());
            assert_eq!(parsed.errors, []);
            parsed.objects
        });
        parsed
            .map(|manifest| (manifest.key.clone(), Arc::new(manifest)))
            .collect()
    }

    fn value(text: &str) -> Value {
        git(&[text]).into_values().next().unwrap().value.clone()
    }

    fn with_status(text: &str, status: Value) -> Arc<Value> {
        let mut object = value(text);
        object["status"] = status;
        Arc::new(object)
    }

    /// The names that are held, with the template live or not.
    fn held(
        files: &[&str],
        migrations: &[Arc<Value>],
        claims: &[Arc<Value>],
        template_is_live: bool,
    ) -> Vec<String> {
        let desired = git(files);
        let template = Arc::new(value(TEMPLATE));
        let object = |key: &ObjectKey| {
            (template_is_live && key.kind == "FlinkDeployment" && key.name == "orders")
                .then(|| Arc::clone(&template))
        };
        let held = held_back(
            &desired,
            Live {
                migrations,
                claims,
                object: &object,
            },
        );
        held.iter().map(|(key, by)| format!("{key} by {by}")).collect()
    }

    const BY: &str = "Migration shop/orders-to-west";

    fn all() -> Vec<String> {
        vec![
            format!("FlinkDeployment shop/orders by {BY}"),
            format!("ClusterOverridePolicy everything by {BY}"),
            format!("PropagationPolicy shop/orders by {BY}"),
        ]
    }

    #[test]
    fn a_template_and_the_policies_over_it_wait_for_a_migration_of_the_same_push() {
        assert_eq!(held(&[TEMPLATE, POLICIES, MIGRATION], &[], &[], true), all());
    }

    #[test]
    fn what_was_never_applied_is_not_held() {
        assert_eq!(held(&[TEMPLATE, POLICIES, MIGRATION], &[], &[], false), [""; 0]);
    }

    #[test]
    fn a_template_that_vanished_in_mid_flight_is_not_brought_back() {
        let spec = value(MIGRATION)["spec"].clone();
        let running = with_status(MIGRATION, json!({"phase": "Hold", "journal": {"spec": spec}}));
        let held = held(&[TEMPLATE], &[running], &[], false);
        assert_eq!(held, [format!("FlinkDeployment shop/orders by {BY}")]);
    }

    #[test]
    fn a_migration_holds_until_it_has_ended() {
        for (phase, holds) in [
            ("Pending", true),
            ("Cleanup", true),
            ("Unheard", true),
            ("Completed", false),
        ] {
            let live = with_status(MIGRATION, json!({"phase": phase}));
            assert_eq!(
                !held(&[TEMPLATE, MIGRATION], &[live], &[], true).is_empty(),
                holds,
                "{phase}"
            );
        }
    }

    #[test]
    fn a_migration_that_left_git_still_holds_while_it_runs() {
        let live = with_status(MIGRATION, json!({"phase": "Verify"}));
        assert_eq!(held(&[TEMPLATE], &[live], &[], true).len(), 1);
    }

    #[test]
    fn asking_for_another_move_holds_again() {
        let live = with_status(MIGRATION, json!({"phase": "Completed"}));
        let back = MIGRATION.replace("to: west", "to: east");
        assert_eq!(held(&[TEMPLATE, &back], &[Arc::clone(&live)], &[], true).len(), 1);
        let paused = MIGRATION.replace("to: west", "paused: true, to: west");
        assert_eq!(held(&[TEMPLATE, &paused], &[live], &[], true), [""; 0]);
    }

    #[test]
    fn a_change_that_was_rolled_back_stays_unapplied_until_a_commit_changes_it() {
        let hash = record::digest(&value(TEMPLATE));
        let ended = |at: &str, held_back: Value| {
            with_status(
                MIGRATION,
                json!({"phase": "RolledBack", "finishedAt": at, "heldBack": held_back}),
            )
        };
        let rolled_back = ended("2026-01-01T00:00:00Z", json!({"hash": hash}));
        let files = [TEMPLATE, MIGRATION];
        assert_eq!(
            held(&files, &[Arc::clone(&rolled_back)], &[], true),
            [format!(
                "FlinkDeployment shop/orders by {BY}, which rolled this change back"
            )]
        );
        let changed = TEMPLATE.replace("new", "newer");
        assert_eq!(
            held(&[&changed, MIGRATION], &[Arc::clone(&rolled_back)], &[], true),
            [""; 0]
        );
        // A later migration of the workload has the last word.
        let mut later = (*ended("2026-01-02T00:00:00Z", Value::Null)).clone();
        later["metadata"]["name"] = "orders-again".into();
        assert_eq!(held(&files, &[Arc::new(later), rolled_back], &[], true), [""; 0]);
    }

    #[test]
    fn a_claim_holds_whoever_owns_it() {
        let key = git(&[TEMPLATE]).into_keys().next().unwrap();
        let claim = json!({
            "metadata": {"name": claim_name(&key)},
            "spec": {"owner": {"kind": "Rollout", "namespace": "shop", "name": "r"}},
        });
        assert_eq!(
            held(&[TEMPLATE], &[], &[Arc::new(claim)], false),
            ["FlinkDeployment shop/orders by Rollout shop/r"]
        );
    }
}
