//! Patches that Karmada can't apply to a template: a pin with one of them keeps everything from a cluster, and nothing says so but a
//! marker that never comes.

use std::collections::BTreeMap;

use serde_json::Value;

use super::overriders::overriders;
use crate::api::{Finding, PatchOp, WorkloadProfileSpec};
use cutover_karmada::overrides::apply_overriders;

/// Returns the lists of patches that copies get by a profile, each as it is applied to a template.
pub fn lists_of(profile: &WorkloadProfileSpec) -> Vec<Vec<&PatchOp>> {
    let stopped: Vec<&PatchOp> = profile.hold.iter().chain(&profile.suspend).collect();
    let started = [&profile.start, &profile.restart, &profile.restart_from];
    [stopped]
        .into_iter()
        .chain(started.map(|list| list.iter().collect::<Vec<_>>()))
        .collect()
}

/// Returns what in these lists can't be applied to a template, each thing once.
pub fn unfit<'p>(
    template: &Value,
    lists: impl IntoIterator<Item = impl IntoIterator<Item = &'p PatchOp>>,
) -> Vec<Finding> {
    let mut found = BTreeMap::new();
    for list in lists {
        let mut made = template.clone();
        for patch in list {
            let said = overriders(std::slice::from_ref(patch));
            // What fails half-way is thrown away.
            let mut next = made.clone();
            match apply_overriders(&mut next, &said) {
                Ok(()) => made = next,
                Err(cause) => {
                    let (place, finding) = finding(&made, patch, &cause);
                    found.entry(place).or_insert(finding);
                }
            }
        }
    }
    found.into_values().collect()
}

/// Returns what is missing, by where it is.
fn finding(made: &Value, patch: &PatchOp, cause: &dyn std::fmt::Display) -> (String, Finding) {
    let (op, path) = (&patch.op, &patch.path);
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    if made.pointer(parent).is_none() {
        let finding = Finding::new(
            "NoPlaceForPatch",
            format!("the template has no {parent}, below which the profile or the intent patches"),
            "add it to the template, empty if need be",
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

    fn codes(template: &Value, patches: &[PatchOp]) -> Vec<String> {
        let findings = unfit(template, [patches]);
        findings.into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn what_a_template_lacks_is_named_with_what_to_do_once() {
        let template = json!({"metadata": {"name": "vm"}, "spec": {"items": [], "text": "x"}});
        let twice = [
            patch("add", "/spec/lifecycle/phase"),
            patch("add", "/spec/lifecycle/other"),
        ];
        assert_eq!(codes(&template, &twice), ["NoPlaceForPatch"]);
        let message = &unfit(&template, [&twice])[0].message;
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
        let found = unfit(&template, lists_of(&profile));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].message.contains("/spec/flinkConfiguration"), "{found:?}");
        profile
            .hold
            .push(PatchOp::add("/spec/flinkConfiguration", json!({})));
        assert_eq!(unfit(&template, lists_of(&profile)), Vec::new());
    }
}
