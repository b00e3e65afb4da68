//! What an intent creates to be carried out: objects that are its own, under names that follow from what they are for.

use serde_json::{Value, json};

use super::effect::{remove, segment, test};
use super::record::digest;
use crate::api::{self, PARENT_LABEL, WAITS_ANNOTATION};

/// How much of a name goes into the name of a child.
const PART: usize = 24;

/// Returns the name of a child: always the same for the same purpose, and no other's. `purpose` has the parent's uid in it.
pub(super) fn name(parent: &str, about: &str, purpose: &Value) -> String {
    format!("{}-{}-{}", part(parent, PART), part(about, PART), digest(purpose))
}

/// Returns as much of a name as goes into another one.
pub(super) fn part(name: &str, most: usize) -> String {
    let short: String = name.chars().take(most).collect();
    short.trim_end_matches(['-', '.']).to_owned()
}

/// Returns the metadata of a child: with the parent the API server collects it.
pub(super) fn metadata(name: &str, kind: &str, parent: &str, uid: &str) -> Value {
    json!({
        "name": name,
        "labels": {PARENT_LABEL: uid},
        "ownerReferences": [{
            "apiVersion": api::API_VERSION, "kind": kind, "name": parent, "uid": uid,
            "controller": true, "blockOwnerDeletion": false,
        }],
    })
}

/// Returns the patch that lets an intent begin that was created held: paused, and with an annotation that keeps it so.
pub(super) fn let_go(held: &Value) -> Vec<Value> {
    let waits = format!("/metadata/annotations/{}", segment(WAITS_ANNOTATION));
    let mut patch = vec![test(&waits, json!("true")), remove(&waits)];
    if held.pointer("/spec/paused").is_some() {
        patch.push(remove("/spec/paused"));
    }
    patch
}
