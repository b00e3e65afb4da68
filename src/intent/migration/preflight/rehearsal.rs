//! The copy that the target gets first, as Karmada will write it; and what the target says to it.

use serde_json::{Value, json};

use super::fail;
use crate::api::{Finding, MigrationSpec};
use crate::intent::fight::copy_under;
use crate::intent::migration::fight::pin_of_source;
use crate::intent::migration::{Machine, Stop};
use crate::intent::seen::NotKnown;
use crate::intent::world::{Rehearsal, World};
use crate::karmada::{meta, prune};
use crate::name::ClusterName;
use crate::profile;

/// Returns the copy that the target of a migration gets first: held, under all override policies. None where other checks
/// find that it can't be made.
pub fn first_copy(
    uid: &str,
    attempt: u32,
    spec: &MigrationSpec,
    world: &World,
) -> Result<Option<Value>, NotKnown> {
    let (Some(template), Some(binding)) = (world.template.get()?, world.binding.get()?) else {
        return Ok(None);
    };
    let given = world.profiles.get()?;
    let profile = profile::find(given, spec.profile.as_deref(), &spec.workload.gvk());
    let (Ok(Some(profile)), [source]) = (profile, binding.spec.clusters.as_slice()) else {
        return Ok(None);
    };
    let clusters = world.clusters.get()?;
    let Some(cluster) = clusters.get(&spec.to).filter(|_| source.name != spec.to) else {
        return Ok(None);
    };
    let is_free = matches!(world.member(&spec.to)?.object.get(), Ok(None));
    if !is_free || !cluster.is_ready() || !cluster.serves(&spec.workload.api_version, &spec.workload.kind) {
        return Ok(None);
    }
    let pin = pin_of_source(uid, attempt, &world.workload, spec, &profile.spec, &source.name);
    let Ok(mut copy) = copy_under(&pin, template, cluster, world.overrides.get()?) else {
        return Ok(None);
    };
    prune(&mut copy);
    if let Some(metadata) = copy.get_mut("metadata").and_then(Value::as_object_mut) {
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        labels[meta::MANAGED] = "true".into();
    }
    Ok(Some(copy))
}

impl Machine<'_> {
    /// Fails when the target would refuse the copy; returns what to say of it as evidence.
    pub(super) fn target_would_take_it(&mut self, target: &ClusterName) -> Result<Option<String>, Stop> {
        match self.world().rehearsal.get()? {
            Rehearsal::NotAsked => Ok(None),
            Rehearsal::Accepted => Ok(Some(format!("{target} would take the held copy"))),
            Rehearsal::NotPossible(why) => {
                let note = Finding::new(
                    "NotRehearsed",
                    format!("whether {target} takes the copy could not be tried before: {why}"),
                    "allow it (docs/rbac.md), or go on without: what is refused is seen in Expand, and rolled back",
                );
                self.status.findings.retain(|finding| finding.code != note.code);
                self.status.findings.push(note);
                Ok(None)
            }
            Rehearsal::Refused(why) => Err(fail(
                "TargetRefuses",
                format!("{target} would refuse the held copy: {why}"),
                "mend what the target says: its quota, admission webhooks and policies, or the version of its CRD",
            )),
        }
    }
}
