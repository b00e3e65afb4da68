//! Workload profiles: several for one kind, and patches that can't be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{GROUP, WorkloadProfileSpec};
use crate::finding::{Code, Finding};
use crate::manifest::{Manifest, Set};
use crate::profile;
use cutover_karmada::name::GroupKind;

type Read = (Arc<Manifest>, WorkloadProfileSpec);

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    let profiles = set.of_kind(GROUP, "WorkloadProfile");
    let mut profiles: Vec<Read> = profiles.filter_map(read).collect();
    // Those of one name are defined twice, which is reported of every kind.
    profiles.dedup_by(|next, one| next.0.key == one.0.key);
    ambiguous(&profiles, findings);
    for (object, spec) in &profiles {
        patches(object, spec, findings);
    }
}

/// What can't be read is the schema's to tell.
fn read(object: &Arc<Manifest>) -> Option<Read> {
    let spec = object.value.get("spec").cloned().unwrap_or_default();
    let spec = serde_json::from_value(spec).ok()?;
    Some((Arc::clone(object), spec))
}

/// `profiles` come in the order of their names.
fn ambiguous(profiles: &[Read], findings: &mut Vec<Finding>) {
    let mut used: BTreeMap<GroupKind, (&Arc<Manifest>, usize)> = BTreeMap::new();
    for (object, spec) in profiles {
        for (index, kind) in spec.applies_to.kinds.iter().enumerate() {
            let kind = GroupKind::new(&spec.applies_to.group, kind);
            if let Some(first) = used.get(&kind) {
                findings.push(shadowed(object, index, &kind, *first));
            } else {
                used.insert(kind, (object, index));
            }
        }
    }
}

fn shadowed(object: &Manifest, index: usize, kind: &GroupKind, first: (&Arc<Manifest>, usize)) -> Finding {
    let place = |index| format!("/spec/appliesTo/kinds/{index}");
    let (used, at) = first;
    let message = format!(
        "{} is for {kind}, and so is {} ({}): an intent that names no profile does not start",
        object.key,
        used.key,
        used.location(&place(at)),
    );
    let finding = Finding::new(Code::AmbiguousProfile, object.location(&place(index)), message);
    finding.hint("take the kind out of one of them, or name a profile in spec.profile of every intent")
}

fn patches(object: &Manifest, spec: &WorkloadProfileSpec, findings: &mut Vec<Finding>) {
    for mistake in profile::patch_mistakes(spec) {
        let field = mistake.pointer.trim_start_matches('/').replace('/', ".");
        let message = format!("{field} of {} cannot be used: {}", object.key, mistake.message);
        let finding = Finding::new(Code::BadPatch, object.location(&mistake.pointer), message);
        findings.push(finding.hint("docs/reference/profiles.md says what a patch may use"));
    }
}
