//! The formats of statuses and claims: by them an earlier version tells what it can't go on from.

use std::collections::BTreeMap;

use super::{Differences, PIN_FORMAT, PLAIN_FORMAT, PROFILE_FORMAT, PatchOp, PinState, WorkloadProfileSpec};

/// The format of an attempt whose source is recreated for a state handle. An earlier version would start it from an older state.
const RECREATE_FORMAT: u32 = 3;

/// Returns the format of an attempt that goes by a profile, and writes these patches besides.
///
/// A version that reads only [`PLAIN_FORMAT`] knows no secret handles: it gives a copy what stands for one, and writes the value of one
/// that it captures to Git. It starts a source without the handle that its `restart` names.
pub(super) fn of_attempt<'p>(
    profile: &'p WorkloadProfileSpec,
    own: impl IntoIterator<Item = &'p PatchOp>,
) -> u32 {
    let by_handle = profile.restart.iter().any(PatchOp::names_a_handle);
    // An earlier version can't read such a profile.
    let is_newer = profile.settle_for.is_some() || profile.pods_come_and_go();
    if is_newer || !profile.optional_parents.is_empty() || profile.selected().next().is_some() {
        return PROFILE_FORMAT;
    }
    if profile.recreate_for_handle {
        return RECREATE_FORMAT;
    }
    if by_handle || profile.has_secrets() {
        return PIN_FORMAT;
    }
    of_patches(profile.patches().chain(own))
}

/// Returns the format of whatever has a pin that is in this state.
pub(super) fn of_pin(pin: &PinState) -> u32 {
    if pin.created_fields.is_empty() {
        PLAIN_FORMAT
    } else {
        PROFILE_FORMAT
    }
}

/// Returns the format of a claim for the sake of its guests.
pub fn format_of_guests(guests: &BTreeMap<String, Differences>) -> u32 {
    of_patches(patches_of_guests(guests))
}

pub(super) fn patches_of_guests(guests: &BTreeMap<String, Differences>) -> impl Iterator<Item = &PatchOp> {
    let rules = guests.values().flat_map(|said| &said.rules);
    rules.flat_map(|rule| &rule.patches)
}

/// Returns the format of whatever stands on a pin with these patches.
///
/// A version that reads only [`PLAIN_FORMAT`] takes a rule with an overrider of annotations for the one that has the marker, and drops
/// it when it writes what guests say: with the hold, or what the writer was started from.
fn of_patches<'p>(patches: impl IntoIterator<Item = &'p PatchOp>) -> u32 {
    let has_own_overrider = |patch: &PatchOp| {
        let maps = ["/metadata/labels/", "/metadata/annotations/"];
        maps.iter().any(|map| patch.path.starts_with(map))
    };
    if patches.into_iter().any(has_own_overrider) {
        PIN_FORMAT
    } else {
        PLAIN_FORMAT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{BindingId, ClaimOwner, Journal, MigrationSpec, PinnedRule, WorkloadRef};
    use crate::profile::built_in;

    fn flink() -> WorkloadProfileSpec {
        built_in().unwrap()[0].spec.clone()
    }

    fn paused() -> PatchOp {
        PatchOp::add("/metadata/annotations/example.org~1paused", "true")
    }

    #[test]
    fn what_every_version_can_go_on_from_is_plain() {
        let all = built_in().unwrap().iter();
        let is_plain = |spec: &WorkloadProfileSpec| {
            !spec.recreate_for_handle && spec.optional_parents.is_empty() && spec.settle_for.is_none()
        };
        for builtin in all.filter(|builtin| is_plain(&builtin.spec)) {
            let image = PatchOp::add("/spec/image", "orders:2.0");
            let kept = builtin.spec.for_journal();
            assert!(kept.needs.is_empty() && kept.repeats.is_empty());
            assert_eq!(of_attempt(&kept, [&image]), PLAIN_FORMAT);
        }
        assert_eq!(format_of_guests(&BTreeMap::new()), PLAIN_FORMAT);
    }

    /// An earlier version refuses a profile with a field that it does not know, and with it the journal.
    #[test]
    fn a_journal_that_says_it_is_plain_has_no_field_that_the_version_before_does_not_know() {
        let workload = WorkloadRef {
            api_version: "example.org/v1".to_owned(),
            kind: "Any".to_owned(),
            name: "any".to_owned(),
        };
        let spec = MigrationSpec::of(workload, None, "west".into());
        let binding = serde_json::json!({"name": "any-any", "uid": "1", "id": "2"});
        let binding: BindingId = serde_json::from_value(binding).unwrap();
        let mut newer = Vec::new();
        for builtin in built_in().unwrap() {
            let profile = builtin.spec.clone();
            let journal = Journal::begin(&spec, profile, "east".into(), binding.clone());
            let kept = serde_json::to_value(&*journal.profile).unwrap();
            assert!(kept.get("repeats").is_none(), "{kept}");
            if journal.format() == PROFILE_FORMAT {
                newer.extend(builtin.metadata.name.as_deref());
            } else {
                let is_read = |field: &&str| kept.get(field).is_none();
                assert!(
                    ["needs", "optionalParents", "settleFor"].iter().all(is_read),
                    "{kept}"
                );
            }
        }
        newer.sort_unstable();
        let expected = [
            "cronjob",
            "kafka-connect",
            "kubeflow-training",
            "mpijob",
            "numaflow-monovertex",
            "numaflow-pipeline",
        ];
        assert_eq!(newer, expected);
    }

    type Change = fn(&mut WorkloadProfileSpec);

    #[test]
    fn what_an_earlier_version_would_get_wrong_is_not() {
        let cases: [(&str, Change); 7] = [
            ("hold", |spec| spec.hold.push(paused())),
            ("suspend", |spec| spec.suspend.push(paused())),
            ("start", |spec| spec.start.push(paused())),
            ("restart", |spec| spec.restart.push(paused())),
            ("a label", |spec| {
                spec.restart_from.push(PatchOp::add("/metadata/labels/a", "b"));
            }),
            ("by its handle", |spec| {
                spec.restart
                    .push(PatchOp::add("/spec/from", "${captured.savepoint}"));
            }),
            ("a secret", |spec| spec.capture[0].secret = true),
        ];
        for (case, change) in cases {
            let mut spec = flink();
            change(&mut spec);
            assert_eq!(of_attempt(&spec, []), PIN_FORMAT, "{case}");
        }
        assert_eq!(of_attempt(&flink(), [&paused()]), PIN_FORMAT);
        let mut recreated = flink();
        recreated.recreate_for_handle = true;
        assert_eq!(of_attempt(&recreated, []), RECREATE_FORMAT);
        recreated.optional_parents = vec!["/spec/flinkConfiguration".to_owned()];
        assert_eq!(of_attempt(&recreated, []), PROFILE_FORMAT);
        let mut pin = PinState::default();
        assert_eq!(of_pin(&pin), PLAIN_FORMAT);
        pin.creates(vec!["/spec/running".to_owned()]);
        assert_eq!(of_pin(&pin), PROFILE_FORMAT);
    }

    #[test]
    fn what_a_guest_says_in_annotations_is_not_plain() {
        let said = Differences {
            owner: ClaimOwner {
                kind: "Rollout".to_owned(),
                namespace: "shop".to_owned(),
                name: "web".to_owned(),
                uid: "guest".to_owned(),
            },
            rules: vec![PinnedRule {
                all_but: None,
                only: None,
                patches: vec![paused()],
            }],
        };
        let guests = BTreeMap::from([("guest".to_owned(), said)]);
        assert_eq!(format_of_guests(&guests), PIN_FORMAT);
    }
}
