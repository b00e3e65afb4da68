//! What `tests/all/profiles/kinds.yaml` says of the operators' kinds is published, as far as the folder has their definitions: each field,
//! its type, and each text that it may have.

use serde_json::{Value, json};

use super::{published, version};
use crate::profiles::kinds;

#[test]
fn the_kinds_that_profiles_are_tried_on_are_as_published() {
    let Some(published) = published("comparing the kinds of profiles") else {
        return;
    };
    let (mut differences, mut seen) = (Vec::new(), Vec::new());
    for kind in kinds::all() {
        let gvk = kind.gvk();
        // An older definition of a version that is in the list already.
        if seen.contains(&gvk) {
            continue;
        }
        let is_meant = |definition: &&Value| {
            let spec = &definition["spec"];
            spec["group"] == gvk.group && spec["names"]["kind"] == gvk.kind
        };
        let theirs = published.values().find(is_meant);
        if let Some(theirs) = theirs.and_then(|theirs| version(theirs, Some(&gvk.version))) {
            let theirs = &theirs["schema"]["openAPIV3Schema"];
            compare(&kind.schema(), theirs, &gvk.kind, &mut differences);
        }
        seen.push(gvk);
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
fn a_difference_of_a_kind_is_found_wherever_it_is() {
    let theirs = json!({"type": "object", "properties": {
        "phase": {"type": "string", "enum": ["Up", "Down"]},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    }});
    let differences = |ours: Value| {
        let mut found = Vec::new();
        compare(&ours, &theirs, "", &mut found);
        found.len()
    };
    let of = |fields: Value| json!({"type": "object", "properties": fields});
    let parts = |fields: Value| of(json!({"parts": {"type": "array", "items": of(fields)}}));
    assert_eq!(
        differences(of(json!({"phase": {"type": "string", "enum": ["Up"]}}))),
        0
    );
    assert_eq!(differences(parts(json!({"size": {"type": "integer"}}))), 0);
    assert_eq!(
        differences(of(json!({"phase": {"type": "string", "enum": ["Off"]}}))),
        1
    );
    assert_eq!(differences(parts(json!({"size": {"type": "string"}}))), 1);
    assert_eq!(differences(parts(json!({"width": {"type": "integer"}}))), 1);
}

/// Compares what is said of a field, and of those below it. What is left open here says nothing.
fn compare(ours: &Value, theirs: &Value, at: &str, found: &mut Vec<String>) {
    const MARKS: [&str; 3] = ["type", "format", "x-kubernetes-int-or-string"];
    for mark in MARKS {
        if !ours[mark].is_null() && ours[mark] != theirs[mark] {
            found.push(format!(
                "{at}: {mark} is {}, published {}",
                ours[mark], theirs[mark]
            ));
        }
    }
    let allowed = theirs["enum"].as_array();
    for text in ours["enum"].as_array().into_iter().flatten() {
        if !allowed.is_some_and(|allowed| allowed.contains(text)) {
            found.push(format!("{at}: may not be {text}"));
        }
    }
    for (name, field) in ours["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match theirs["properties"].get(name) {
            Some(theirs) => compare(field, theirs, &at, found),
            None => found.push(format!("{at}: not published")),
        }
    }
    for part in ["items", "additionalProperties"] {
        if !ours[part].is_null() {
            compare(&ours[part], &theirs[part], &format!("{at}.{part}"), found);
        }
    }
}
