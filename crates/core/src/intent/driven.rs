//! Migrations that a change of placement in Git sets off: which ones, under what names, and when Git has overtaken one.
//!
//! A policy that would take a live stateful workload out of its cluster is refused by [`super::gate`]. Where its sync sets migrations
//! off by itself, each workload that it would move gets a Migration instead. Until that is committed it holds the policy
//! ([`super::hold_back`]); then the gate lets the policy out, if it costs no other workload its state, and the Migration ends.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::child;
use super::effect::{add, segment};
use super::gate::{Fate, Ground, Loss, Refusal, Tenant};
use super::record::digest;
use crate::api::{self, Intent, MigrationSpec, Phase, PolicyName, WorkloadRef};
use crate::config::{Migrations, MigrationsMode};
use cutover_karmada::PropagationSpec;
use cutover_karmada::name::{ClusterName, GroupKind, ObjectKey};

/// On a policy, or on the template of a workload: whether changes of placement set migrations off, `auto` or `manual`.
pub const MODE_ANNOTATION: &str = "cutover.dev/migrations";

/// On an intent that a change set off: the sync that did, as a digest of its repository and its name.
pub(super) const SYNC_ANNOTATION: &str = "cutover.dev/set-off-by";
/// The policy whose change it is: namespace and name as JSON.
const POLICY_ANNOTATION: &str = "cutover.dev/policy";
/// The digest of the placement that Git asked for.
const PLACEMENT_ANNOTATION: &str = "cutover.dev/placement";

/// On such an intent: it is rolled back because what set it off is so no more.
pub(super) const OVERTAKEN_ANNOTATION: &str = "cutover.dev/overtaken";

/// How much of the name of a workload goes into the name of its Migration.
const PART: usize = 32;

/// A move that a change of placement calls for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub workload: WorkloadRef,
    pub namespace: String,
    /// The uid of the template: when that goes, what was set off for it goes too.
    pub uid: String,
    pub from: ClusterName,
    pub to: ClusterName,
}

/// The change of a policy that sets something off.
#[derive(Clone, Copy, Debug)]
pub struct Cause<'a> {
    /// What [`sync_id`] says of the sync.
    pub sync: &'a str,
    pub policy: &'a PolicyName,
    /// As Git has it.
    pub wanted: &'a Value,
}

/// Returns what tells a sync of one repository from all others.
pub fn sync_id(repository: &str, name: &str) -> String {
    digest(&json!([repository, name]))
}

/// Returns the moves that a refused write of a policy calls for, or why a person has to decide.
pub fn called_for(
    ground: &Ground,
    refusal: &Refusal,
    policy: &PolicyName,
    spec: &PropagationSpec,
) -> Result<Vec<Called>, String> {
    let placement = serde_json::to_value(&spec.placement).map_err(|error| error.to_string())?;
    let each = refusal.losses.iter().map(|loss| {
        let tenant = ground
            .tenants
            .iter()
            .find(|tenant| tenant.workload == loss.workload);
        let tenant = tenant.ok_or("it is not known how it runs now")?;
        // Preflight judges the policy that the workload has.
        if tenant.owner.as_ref() != Some(policy) || loss.placement != placement {
            return Err(format!("{}: another policy would take it over", loss.workload));
        }
        called(loss, tenant).map_err(|why| format!("{}: {why}", loss.workload))
    });
    each.collect()
}

fn called(loss: &Loss, tenant: &Tenant) -> Result<Called, String> {
    let Fate::Moves { stops, starts } = &loss.fate else {
        return Err("a Migration cannot carry that out".to_owned());
    };
    let resource = &tenant.binding.spec.resource;
    match (
        stops.as_slice(),
        starts.as_slice(),
        tenant.binding.spec.clusters.as_slice(),
    ) {
        ([from], [to], [_]) => Ok(Called {
            workload: WorkloadRef {
                api_version: resource.api_version.clone(),
                kind: resource.kind.clone(),
                name: resource.name.clone(),
            },
            namespace: loss
                .workload
                .namespace
                .clone()
                .ok_or("a Migration of a workload without a namespace is not set off by itself")?,
            uid: tenant.template["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            from: from.clone(),
            to: to.clone(),
        }),
        (_, [], _) => Err("no cluster would take it".to_owned()),
        (_, [_, _, ..], _) => {
            let names: Vec<&str> = starts.iter().map(ClusterName::as_str).collect();
            Err(format!(
                "several clusters would take it ({}): let the policy choose one",
                names.join(", ")
            ))
        }
        _ => Err("it runs in several clusters".to_owned()),
    }
}

/// Returns whether a change of a policy sets off the Migration of a workload: the workload's annotation counts before the
/// policy's, and that before what the sync says.
pub fn is_automatic(settings: &Migrations, policy: &Value, template: Option<&Value>) -> bool {
    let said = [template, Some(policy)].into_iter().flatten().find_map(mode_of);
    said.unwrap_or(settings.mode) == MigrationsMode::Auto
}

/// Returns what an object says about migrations; an unknown word counts as manual.
fn mode_of(object: &Value) -> Option<MigrationsMode> {
    Some(match annotation(object, MODE_ANNOTATION)? {
        "auto" => MigrationsMode::Auto,
        _ => MigrationsMode::Manual,
    })
}

/// Returns the Migration that would carry a move out, as a plan shows it: under a name without the time.
pub fn planned(called: &Called, settings: &Migrations) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Migration",
        "metadata": {"namespace": called.namespace, "name": stem(&called.workload.name, called.to.as_str())},
        "spec": spec(called, settings),
    })
}

/// Returns the Migration that carries a move out.
pub fn migration(called: &Called, cause: Cause<'_>, settings: &Migrations, now: Timestamp) -> Value {
    json!({
        "apiVersion": api::API_VERSION,
        "kind": "Migration",
        "metadata": {
            "namespace": called.namespace,
            "name": timed(&stem(&called.workload.name, called.to.as_str()), now),
            "ownerReferences": [{
                "apiVersion": called.workload.api_version, "kind": called.workload.kind,
                "name": called.workload.name, "uid": called.uid, "blockOwnerDeletion": false,
            }],
            "annotations": {
                SYNC_ANNOTATION: cause.sync,
                POLICY_ANNOTATION: key_text(cause.policy),
                PLACEMENT_ANNOTATION: placement_digest(cause.wanted),
            },
        },
        "spec": spec(called, settings),
    })
}

fn spec(called: &Called, settings: &Migrations) -> MigrationSpec {
    MigrationSpec {
        from: Some(called.from.clone()),
        verify: settings.verify.clone().unwrap_or_default(),
        on_failure: settings.on_failure,
        window: settings.window.clone(),
        ..MigrationSpec::of(called.workload.clone(), None, called.to.clone())
    }
}

/// Returns how a Migration that no file asks for is named, but for the time.
pub(super) fn stem(workload: &str, to: &str) -> String {
    let part = |name| child::part(name, PART);
    format!("{}-to-{}", part(workload), part(to))
}

/// A name is not used twice: the record of an earlier one of that name would answer for it.
pub(super) fn timed(stem: &str, now: Timestamp) -> String {
    format!("{stem}-{}", now.strftime("%Y%m%d-%H%M%S"))
}

fn key_text(policy: &PolicyName) -> String {
    json!([policy.namespace, policy.name]).to_string()
}

/// A Migration that a change of a policy set off.
#[derive(Clone, Debug)]
pub struct Driven<'a> {
    migration: &'a Value,
    pub policy: PolicyName,
}

impl<'a> Driven<'a> {
    /// Returns how a Migration was set off; `None`: a file asks for it.
    pub fn of(migration: &'a Value) -> Option<Self> {
        let said = annotation(migration, POLICY_ANNOTATION)?;
        let (namespace, name): (Option<String>, String) = serde_json::from_str(said).ok()?;
        let policy = PolicyName { namespace, name };
        Some(Self { migration, policy })
    }

    /// Returns whether a sync set it off.
    pub fn is_by(&self, sync: &str) -> bool {
        annotation(self.migration, SYNC_ANNOTATION) == Some(sync)
    }

    /// Returns how people name it.
    pub fn name(&self) -> String {
        key_of(self.migration).map_or_else(String::new, |key| key.to_string())
    }

    pub fn phase(&self) -> Phase {
        phase_of(self.migration)
    }

    /// Returns whether it counts against the moves that may be under way at once: one that is committed only waits for the policy.
    pub fn is_under_way(&self) -> bool {
        !self.phase().is_terminal() && self.phase() != Phase::Cleanup
    }

    /// Returns whether it moves a workload as called for, by the same placement.
    pub fn answers(&self, called: &Called, wanted: &Value) -> bool {
        let spec = |pointer| self.migration.pointer(pointer);
        is_about(self.migration, called)
            && spec("/spec/from") == Some(&json!(called.from))
            && spec("/spec/to") == Some(&json!(called.to))
            && !self.is_overtaken(wanted)
    }

    /// Returns whether Git asks for another placement by now. `wanted`: the policy as Git has it.
    pub fn is_overtaken(&self, wanted: &Value) -> bool {
        annotation(self.migration, PLACEMENT_ANNOTATION) != Some(placement_digest(wanted).as_str())
    }

    pub fn asks_to_abort(&self) -> bool {
        self.migration.pointer("/spec/abort") == Some(&Value::Bool(true))
    }

    /// Returns the patch that rolls it back because Git asks for another placement.
    pub fn turn_back(&self) -> [Value; 2] {
        let annotation = format!("/metadata/annotations/{}", segment(OVERTAKEN_ANNOTATION));
        [add("/spec/abort", json!(true)), add(&annotation, json!("true"))]
    }

    /// Returns whether it ended without having moved the workload, by itself or by a person.
    pub fn has_failed(&self) -> bool {
        let phase = self.phase();
        phase.is_terminal() && phase != Phase::Completed && !is_turned_back(self.migration)
    }
}

/// Returns whether a Migration, whoever asked for it, is about the workload that is to move.
pub fn is_about(migration: &Value, called: &Called) -> bool {
    is_of(migration, &called.workload, Some(&called.namespace))
}

/// Returns whether a Migration is about a workload, in whichever version.
pub(super) fn is_of(migration: &Value, of: &WorkloadRef, namespace: Option<&str>) -> bool {
    let workload = migration.pointer("/spec/workload");
    let workload = workload.and_then(|named| WorkloadRef::deserialize(named).ok());
    let named = |workload: &WorkloadRef| (workload.gvk().group, workload.kind.clone(), workload.name.clone());
    migration["metadata"]["namespace"].as_str() == namespace
        && workload.is_some_and(|workload| named(&workload) == named(of))
}

/// Returns whether a Migration has come to its end.
pub fn has_ended(migration: &Value) -> bool {
    phase_of(migration).is_terminal()
}

fn phase_of(migration: &Value) -> Phase {
    let phase = migration.pointer("/status/phase").cloned();
    phase
        .and_then(|phase| serde_json::from_value(phase).ok())
        .unwrap_or_default()
}

/// Returns the key of a Migration.
pub fn key_of(migration: &Value) -> Option<ObjectKey> {
    GroupKind::new(api::GROUP, api::Migration::KIND).key_of(migration)
}

/// Returns whether a Migration is rolled back because Git asked for something else: then it leaves nothing unapplied.
pub fn is_turned_back(migration: &Value) -> bool {
    annotation(migration, OVERTAKEN_ANNOTATION).is_some()
}

/// What of a policy decides where something goes.
fn placement_digest(policy: &Value) -> String {
    let of = |pointer| policy.pointer(pointer).unwrap_or(&Value::Null);
    digest(&json!([of("/spec/placement"), of("/spec/resourceSelectors")]))
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}
