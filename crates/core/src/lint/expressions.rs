//! Expressions and paths of profiles and checks: whether they compile, within their budget; queries, as far as they can be read.

use crate::api::{GROUP, WorkloadProfileSpec};
use crate::finding::{Code, Finding};
use crate::manifest::{Manifest, Set};
use crate::profile::{self, Mistake};

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    for object in set.definitions().filter(|object| object.key.group == GROUP) {
        let mistakes = if object.key.kind == "WorkloadProfile" {
            let spec = object.value.get("spec").cloned().unwrap_or_default();
            // What can't be read is the schema's to tell.
            serde_json::from_value::<WorkloadProfileSpec>(spec)
                .map(|spec| profile::mistakes(&spec))
                .unwrap_or_default()
        } else {
            profile::mistakes_of_checks(&object.value)
        };
        findings.extend(mistakes.into_iter().map(|mistake| finding(object, &mistake)));
    }
}

fn finding(object: &Manifest, mistake: &Mistake) -> Finding {
    let field = mistake.pointer.trim_start_matches('/').replace('/', ".");
    let message = format!("{field} of {} cannot be used: {}", object.key, mistake.message);
    let finding = Finding::new(Code::BadExpression, object.location(&mistake.pointer), message);
    finding.hint(if mistake.pointer.ends_with("/prometheus") {
        "try the query in Prometheus itself"
    } else {
        "docs/reference/profiles.md says what an expression may use, and its limits"
    })
}
