//! Where the values of secret handles are: in the journal, for as long as it speaks of them, and in no text.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::api::{Common, SecretHandles, WorkloadProfileSpec, is_reference};
use crate::profile::Profile;

/// Brings the values up to what a journal knows by the end of a pass, and hides them in what its status tells. `handles`: what a copy
/// may still be given; `copies`: what may show the values of those that are new.
pub(super) fn settle<'o, 'h>(
    known: &mut SecretHandles,
    profile: &WorkloadProfileSpec,
    common: &mut Common,
    handles: impl Iterator<Item = &'h String>,
    copies: impl IntoIterator<Item = &'o Value>,
) {
    if !profile.has_secrets() {
        return;
    }
    let Ok(profile) = Profile::compile("journal", profile) else {
        return;
    };
    // What is forgotten now may stand in what is said now, and what is known from now on as well.
    hide_in(known, common);
    keep(known, handles, &profile, copies);
    hide_in(known, common);
}

/// Keeps the values that handles of a journal stand for, and no others. One that is not known yet is looked for in the copies: it
/// stands in the one in which the handle was seen, in the same pass.
fn keep<'o, 'h>(
    known: &mut SecretHandles,
    handles: impl Iterator<Item = &'h String>,
    profile: &Profile,
    copies: impl IntoIterator<Item = &'o Value>,
) {
    let wanted: BTreeSet<String> = handles.filter(|handle| is_reference(handle)).cloned().collect();
    known.keep(&wanted);
    for copy in copies {
        if known.have(&wanted) {
            return;
        }
        known.take(profile.secrets(copy), &wanted);
    }
}

/// Hides the values in what a status tells people: servers, operators and kubelets quote what they refuse.
fn hide_in(known: &SecretHandles, common: &mut Common) {
    if known.is_empty() {
        return;
    }
    let hide = |text: &mut String| *text = known.hidden(text);
    if let Some(wait) = &mut common.waiting_for {
        hide(&mut wait.reason);
        wait.last_warning.iter_mut().for_each(hide);
    }
    for finding in &mut common.findings {
        hide(&mut finding.message);
        finding.hint.iter_mut().for_each(hide);
    }
    let steps = common.steps.iter_mut();
    steps.flat_map(|step| &mut step.evidence).for_each(hide);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{Finding, WaitCode, reference};
    use crate::profile::built_in;

    #[test]
    fn a_value_is_taken_from_the_copy_that_shows_it_and_forgotten_with_its_handle() {
        let mut spec = built_in().unwrap()[0].spec.clone();
        spec.capture[0].secret = true;
        let profile = Profile::compile("x", &spec).unwrap();
        let copy = json!({"status": {"jobStatus": {"upgradeSavepointPath": "s3://C4n4ry"}}});
        let handle = reference("s3://C4n4ry");
        let mut known = SecretHandles::default();
        keep(&mut known, [handle.clone()].iter(), &profile, [&copy]);
        assert_eq!(known.reveal(&handle), Some("s3://C4n4ry"));
        // The copy is gone, and the value stays.
        keep(&mut known, [handle.clone()].iter(), &profile, []);
        assert_eq!(known.reveal(&handle), Some("s3://C4n4ry"));
        keep(&mut known, [].iter(), &profile, [&copy]);
        assert!(known.is_empty());
    }

    #[test]
    fn no_text_of_a_status_has_a_value_whatever_is_waited_for() {
        let quoted = || "refused: s3://C4n4ry".to_owned();
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut known = SecretHandles::default();
        known.add("s3://C4n4ry");
        for code in [WaitCode::Evidence, WaitCode::Retry, WaitCode::Approval] {
            let mut common = Common::default();
            common.enter("Capture", Vec::new(), now);
            common.enter("Handoff", vec![quoted()], now);
            common.wait(code, quoted(), now);
            common.waiting_for.as_mut().unwrap().last_warning = Some(quoted());
            common.findings = vec![Finding::new("Refused", quoted(), quoted())];
            hide_in(&known, &mut common);
            let said = serde_json::to_string(&common).unwrap();
            assert!(!said.contains("C4n4ry"), "{said}");
            assert_eq!(said.matches(&reference("s3://C4n4ry")).count(), 5, "{said}");
        }
    }
}
