//! Annotations of cutover: a word that means nothing there counts as if nothing were said, and nobody would notice.

use crate::api::{GROUP, ROLLOUT_WAVE_ANNOTATION};
use crate::finding::{Code, Finding};
use crate::intent::{dependencies, driven, gate};
use crate::manifest::{Manifest, Set};
use crate::plan::{
    FORCE_ANNOTATION, KEEP_ANNOTATION, RECREATE_ANNOTATION, WAIT_ANNOTATION, WAVE_ANNOTATION, drift,
};
use cutover_base::nearest::{did_you_mean, nearest};

const YES_OR_NO: Words = Words::These(&["true", "false"]);

/// What people write as annotations, each with the words that mean something.
const KNOWN: [(&str, Words); 10] = [
    (WAVE_ANNOTATION, Words::Number),
    (ROLLOUT_WAVE_ANNOTATION, Words::Number),
    (WAIT_ANNOTATION, YES_OR_NO),
    (FORCE_ANNOTATION, YES_OR_NO),
    (RECREATE_ANNOTATION, YES_OR_NO),
    (KEEP_ANNOTATION, YES_OR_NO),
    (
        drift::MODE_ANNOTATION,
        Words::These(&["correct", "warn", "ignore"]),
    ),
    (driven::MODE_ANNOTATION, Words::These(&["auto", "manual"])),
    (dependencies::MODE_ANNOTATION, Words::These(&["ignore"])),
    (gate::ACCEPT_ANNOTATION, Words::Any),
];

/// Which values mean something.
#[derive(Clone, Copy)]
enum Words {
    Any,
    Number,
    These(&'static [&'static str]),
}

pub(super) fn check(set: &Set, findings: &mut Vec<Finding>) {
    for object in set.definitions() {
        findings.extend(of_object(object));
    }
}

fn of_object(object: &Manifest) -> Vec<Finding> {
    let annotations = object.value.pointer("/metadata/annotations");
    let all = annotations.and_then(serde_json::Value::as_object);
    all.into_iter()
        .flatten()
        .filter_map(|(name, value)| finding(object, name, value.as_str()?))
        .collect()
}

fn finding(object: &Manifest, name: &str, value: &str) -> Option<Finding> {
    let own = name.strip_prefix(GROUP)?.strip_prefix('/')?;
    let pointer = format!("/metadata/annotations/{}", name.replace('/', "~1"));
    let Some((_, words)) = KNOWN.iter().find(|(known, _)| *known == name) else {
        let known = KNOWN.iter().filter_map(|(known, _)| known.rsplit('/').next());
        let meant = nearest(own, known)?;
        let message = format!("{name} means nothing");
        let finding = Finding::new(Code::UnknownAnnotation, object.key_location(&pointer), message);
        return Some(finding.hint(format!("did you mean {GROUP}/{meant}?")));
    };
    let (expected, hint) = match words {
        Words::Any => return None,
        Words::Number if value.parse::<i64>().is_ok() => return None,
        Words::Number => ("a whole number".to_owned(), None),
        Words::These(words) if words.contains(&value) => return None,
        Words::These(words) => (words.join(" or "), did_you_mean(value, words.iter().copied())),
    };
    let message = format!("{name} is {value:?}, which has no effect: it takes {expected}");
    let finding = Finding::new(Code::UnknownAnnotation, object.location(&pointer), message);
    Some(finding.maybe_hint(hint))
}
