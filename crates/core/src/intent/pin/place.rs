//! Patches that Karmada can't apply to a template: a pin with one of them keeps everything from a cluster, and nothing says so but a
//! marker that never comes.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::overriders::{keeps_plain, overriders};
use super::parents::{creating, lacking};
use super::{Place, Rule};
use crate::api::{Finding, PatchOp, WorkloadProfileSpec};
use cutover_karmada::overrides::apply_overriders;

/// The patches that one copy gets, rule by rule: of those of a rule Karmada gets all together.
type Rules<'p> = Vec<Vec<&'p PatchOp>>;

/// Returns the patches that copies get by a profile and with what an intent changes, for each way in which a copy is held, stopped or
/// started.
fn lists_of<'p>(profile: &'p WorkloadProfileSpec, changes: &'p [PatchOp]) -> Vec<Rules<'p>> {
    let all = |list: &'p [PatchOp]| list.iter().collect::<Vec<_>>();
    let again = |list: &'p [PatchOp]| besides(all(&profile.start), all(list));
    vec![
        vec![all(&profile.hold), all(&profile.suspend)],
        vec![changes.iter().chain(&profile.start).collect()],
        vec![all(&profile.restart)],
        vec![again(&profile.restart)],
        vec![all(&profile.restart_from)],
        vec![again(&profile.restart_from)],
    ]
}

/// Returns what a copy is started again with that may be made anew, now or later: without a state of its own it gets what a first one
/// does besides.
pub(in crate::intent) fn besides<P: Borrow<PatchOp>>(mut start: Vec<P>, again: Vec<P>) -> Vec<P> {
    start.retain(|start| {
        let start: &PatchOp = start.borrow();
        again.iter().all(|patch| {
            let patch: &PatchOp = patch.borrow();
            patch.path != start.path
        })
    });
    start.extend(again);
    start
}

/// Returns what by a profile, or in what an intent changes, can't be applied to a template, each thing once.
pub fn unfit(template: &Value, profile: &WorkloadProfileSpec, changes: &[PatchOp]) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    // It is written into the template as well, where nothing is created for it.
    apply_all(template, vec![changes.iter().collect()], &[], &mut found);
    let created = lacking(template, profile);
    for rules in lists_of(profile, changes) {
        apply_all(template, rules, &created, &mut found);
    }
    found.into_values().collect()
}

/// Applies rules that are all about one cluster, after what a pin creates for them, and notes what can't be applied.
fn apply_all(template: &Value, rules: Rules<'_>, created: &[String], found: &mut BTreeMap<String, Finding>) {
    let rule = |patches: Vec<&PatchOp>| Rule {
        place: Place::AllBut(Vec::new()),
        patches: patches.into_iter().cloned().collect(),
    };
    let mut made = template.clone();
    for rule in creating(rules.into_iter().map(rule).collect(), created) {
        made = applied(made, &rule.patches, found);
    }
}

/// Returns what a rule makes of an object, as far as it can be applied, and notes what can't.
fn applied(object: Value, rule: &[PatchOp], found: &mut BTreeMap<String, Finding>) -> Value {
    let mut fits = true;
    let mut made = object.clone();
    for patch in rule {
        let said = overriders(std::slice::from_ref(patch));
        // What fails half-way is thrown away.
        let mut next = made.clone();
        match apply_overriders(&mut next, &said) {
            Ok(()) => made = next,
            Err(cause) => {
                fits = false;
                let (place, finding) = finding(&made, patch, &cause);
                found.entry(place).or_insert(finding);
            }
        }
    }
    // Each may fit by itself, and not beside one that keeps its mapping plain text.
    let mut together = object;
    match apply_overriders(&mut together, &overriders(rule)) {
        Ok(()) => together,
        Err(cause) => {
            let odd = keeps_plain(rule).and_then(|index| rule.get(index));
            if let Some(odd) = odd.filter(|_| fits) {
                let finding = not_together(odd, &cause);
                found.entry(odd.path.clone()).or_insert(finding);
            }
            made
        }
    }
}

/// Returns what is wrong with a patch that keeps others from being overriders of labels or annotations.
fn not_together(odd: &PatchOp, cause: &dyn std::fmt::Display) -> Finding {
    let (op, path) = (&odd.op, &odd.path);
    Finding::new(
        "NoPlaceForPatch",
        format!(
            "the profile or the intent has {op} {path}, which Karmada has no overrider of labels and annotations for: all patches of \
             that mapping are JSON patches then, and the template can't be patched so: {cause}"
        ),
        "add the mapping to the template, empty if need be; or let that patch be an add of a text, or a remove",
    )
}

/// Returns what is missing, by where it is.
fn finding(made: &Value, patch: &PatchOp, cause: &dyn std::fmt::Display) -> (String, Finding) {
    let (op, path) = (&patch.op, &patch.path);
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    if made.pointer(parent).is_none() {
        let finding = Finding::new(
            "NoPlaceForPatch",
            format!("the template has no {parent}, below which the profile or the intent patches"),
            "add it to the template, empty if need be; or name it in optionalParents of the profile, if the operator takes an empty one for \
             none",
        );
        return (parent.to_owned(), finding);
    }
    if made.pointer(path).is_none() && matches!(op.as_str(), "remove" | "replace") {
        let finding = Finding::new(
            "NothingToPatch",
            format!(
                "the template has no {path}, which the profile or the intent is to {op}: Karmada refuses that"
            ),
            "add it to the template, or use a profile that does not patch it",
        );
        return (path.clone(), finding);
    }
    let finding = Finding::new(
        "NoPlaceForPatch",
        format!("the profile or the intent patches {path}, and the template can't be patched there: {cause}"),
        "fix the template, or the patch",
    );
    (path.clone(), finding)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::built_in;

    fn patch(op: &str, path: &str) -> PatchOp {
        PatchOp {
            op: op.to_owned(),
            path: path.to_owned(),
            value: (op != "remove").then(|| json!("x")),
        }
    }

    fn found(template: &Value, patches: &[PatchOp], created: &[String]) -> Vec<Finding> {
        let mut found = BTreeMap::new();
        apply_all(template, vec![patches.iter().collect()], created, &mut found);
        found.into_values().collect()
    }

    fn codes(template: &Value, patches: &[PatchOp]) -> Vec<String> {
        let findings = found(template, patches, &[]).into_iter();
        findings.map(|finding| finding.code).collect()
    }

    #[test]
    fn what_a_template_lacks_is_named_with_what_to_do_once() {
        let template = json!({"metadata": {"name": "vm"}, "spec": {"items": [], "text": "x"}});
        let twice = [
            patch("add", "/spec/lifecycle/phase"),
            patch("add", "/spec/lifecycle/other"),
        ];
        assert_eq!(codes(&template, &twice), ["NoPlaceForPatch"]);
        let message = &found(&template, &twice, &[])[0].message;
        assert!(message.contains("no /spec/lifecycle,"), "{message}");
        for (patch, code) in [
            (patch("remove", "/spec/running"), "NothingToPatch"),
            (patch("replace", "/spec/running"), "NothingToPatch"),
            (patch("add", "/spec/items/4"), "NoPlaceForPatch"),
            (patch("add", "/spec/text/below"), "NoPlaceForPatch"),
        ] {
            assert_eq!(
                codes(&template, std::slice::from_ref(&patch)),
                [code],
                "{patch:?}"
            );
        }
    }

    #[test]
    fn what_can_be_applied_is_no_finding() {
        let template = json!({"metadata": {"name": "vm"}, "spec": {"running": true, "items": []}});
        let patches = [
            patch("remove", "/spec/running"),
            patch("add", "/spec/running"),
            patch("add", "/spec/items/-"),
            patch("add", "/metadata/annotations/paused"),
            patch("remove", "/metadata/labels/held"),
            // What one patch makes is there for the next.
            PatchOp::add("/spec/lifecycle", json!({})),
            patch("add", "/spec/lifecycle/phase"),
        ];
        assert_eq!(codes(&template, &patches), Vec::<String>::new());
    }

    #[test]
    fn each_list_is_applied_to_the_template_and_a_stop_on_top_of_the_hold() {
        let template = json!({"spec": {"job": {}}});
        let mut profile = built_in().unwrap()[0].spec.clone();
        let found = unfit(&template, &profile, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("/spec/flinkConfiguration"), "{found:?}");
        profile
            .hold
            .push(PatchOp::add("/spec/flinkConfiguration", json!({})));
        assert_eq!(unfit(&template, &profile, &[]), Vec::new());
    }

    /// Karmada gets the patches of a rule together, and each of them alone would fit.
    #[test]
    fn one_patch_that_is_no_overrider_keeps_the_others_of_its_mapping_from_being_one() {
        let bare = json!({"metadata": {"name": "vm"}, "spec": {}});
        let flag = PatchOp::add("/metadata/annotations/a", json!(true));
        let paused = patch("add", "/metadata/annotations/paused");
        let removed = patch("remove", "/metadata/labels/absent");
        let whole = PatchOp::add("/metadata/labels", json!({"held": "yes"}));
        for rule in [
            vec![whole.clone(), removed],
            vec![
                PatchOp::add("/metadata/annotations", json!({})),
                patch("remove", "/metadata/annotations/absent"),
            ],
        ] {
            assert_eq!(codes(&bare, &rule), ["NoPlaceForPatch"], "{rule:?}");
        }
        assert_eq!(codes(&bare, &[whole, paused.clone()]), Vec::<String>::new());
        assert_eq!(codes(&bare, &[flag, paused]), ["NoPlaceForPatch"]);
    }

    #[test]
    fn what_a_pin_creates_is_no_finding_and_what_it_may_not_create_is_one() {
        let template = json!({"metadata": {"name": "vm"}, "spec": {"text": "x", "items": []}});
        let mut profile = built_in().unwrap()[0].spec.clone();
        profile.hold = vec![
            patch("add", "/spec/lifecycle/phase"),
            patch("remove", "/spec/running"),
        ];
        profile.suspend = vec![patch("add", "/spec/lifecycle/deep/phase")];
        for list in [
            &mut profile.start,
            &mut profile.restart,
            &mut profile.restart_from,
        ] {
            list.clear();
        }
        let codes = |profile: &WorkloadProfileSpec, changes: &[PatchOp]| -> Vec<String> {
            let findings = unfit(&template, profile, changes).into_iter();
            findings.map(|finding| finding.message).collect()
        };
        let found = codes(&profile, &[]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("no /spec/lifecycle,"), "{found:?}");
        profile.optional_parents = vec!["/spec/lifecycle".to_owned()];
        let found = codes(&profile, &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("no /spec/lifecycle/deep,"), "{found:?}");
        profile.optional_parents.push("/spec/lifecycle/deep".to_owned());
        assert_eq!(codes(&profile, &[]), Vec::<String>::new());
        // What an intent changes is written into the template at the end, too.
        let found = codes(&profile, &[patch("add", "/spec/lifecycle/other")]);
        assert_eq!(found.len(), 1, "{found:?}");
        // Nothing is created in what is no object, and nothing is there to be replaced.
        profile.optional_parents = vec!["/spec/text/in".to_owned(), "/spec/lifecycle".to_owned()];
        profile.suspend = vec![patch("add", "/spec/text/in/it"), patch("replace", "/spec/other")];
        let found = codes(&profile, &[]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn what_goes_along_reaches_the_target_together_with_the_start() {
        let bare = json!({"metadata": {"name": "vm"}, "spec": {"job": {}, "flinkConfiguration": {}}});
        let mut profile = built_in().unwrap()[0].spec.clone();
        profile.start.push(patch("remove", "/metadata/labels/held"));
        let changes = [PatchOp::add("/metadata/labels", json!({"team": "a"}))];
        assert_eq!(unfit(&bare, &profile, &[]), Vec::new());
        let found = unfit(&bare, &profile, &changes);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("add /metadata/labels,"), "{found:?}");
    }
}
