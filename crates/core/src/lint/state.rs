//! What can't be asked for a workload with state, as far as its profile is built in or in the repository: two copies of it would
//! write. A reconciler refuses the same before it touches anything. By a built-in profile it is a warning: another repository may have
//! put one in its place, which says that there is no state.

use crate::api::{self, GROUP, MigrationSpec, ReplicaShiftSpec, WorkloadProfile};
use crate::finding::{Code, Finding, Severity};
use crate::intent::{migration, shift};
use crate::manifest::{Manifest, Set};
use crate::profile;
use cutover_karmada::name::Gvk;

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    let given = profiles(set);
    // What can't be read is the schema's to tell.
    let of = |name: Option<&str>, gvk: Gvk| profile::find(&given, name, &gvk).ok().flatten();
    let is_given = |profile: &WorkloadProfile| {
        let mut given = given.iter();
        given.any(|one| one.metadata.name == profile.metadata.name && one.spec == profile.spec)
    };
    for intent in set.of_kind(GROUP, "Migration") {
        let spec = intent.value.get("spec").cloned().unwrap_or_default();
        if let Ok(spec) = serde_json::from_value::<MigrationSpec>(spec)
            && let Some(profile) = of(spec.profile.as_deref(), spec.workload.gvk())
            && let Some(wrong) = migration::two_writers(&spec, &profile.spec)
        {
            findings.push(refused(intent, "/spec/strategy", wrong, is_given(&profile)));
        }
    }
    for intent in set.of_kind(GROUP, "ReplicaShift") {
        let spec = intent.value.get("spec").cloned().unwrap_or_default();
        if let Ok(spec) = serde_json::from_value::<ReplicaShiftSpec>(spec)
            && let Some(profile) = of(None, spec.workload.gvk())
            && let Some(wrong) = shift::two_writers(&spec, &profile.spec)
        {
            findings.push(refused(intent, "/spec/workload/kind", wrong, is_given(&profile)));
        }
    }
}

/// Returns the profiles that the repository defines.
pub(super) fn profiles(set: &Set) -> Vec<WorkloadProfile> {
    let given = set.of_kind(GROUP, "WorkloadProfile");
    given
        .filter_map(|profile| serde_json::from_value(profile.value.clone()).ok())
        .collect()
}

/// `is_given`: by a profile of the repository.
fn refused(intent: &Manifest, place: &str, wrong: api::Finding, is_given: bool) -> Finding {
    let (severity, unless) = if is_given {
        (Severity::Error, "")
    } else {
        (
            Severity::Warning,
            ", unless the control plane has another profile for it",
        )
    };
    let message = format!("{} is refused{unless}: {}", intent.key, wrong.message);
    Finding {
        severity,
        ..Finding::new(Code::TwoWriters, intent.location(place), message).maybe_hint(wrong.hint)
    }
}
