//! JSONPaths of profiles: whether they lead to a field that there is, and a handle to a text.

use super::place::{At, Place};
use super::{Fault, Placed};
use crate::api::WorkloadProfileSpec;
use crate::lint::json_type::Type;
use crate::profile::{Link, links};

pub(super) fn faults(spec: &WorkloadProfileSpec, root: &At<'_>) -> Vec<Placed> {
    let mut faults = Vec::new();
    for (name, source) in [("inUse", &spec.in_use), ("runId", &spec.run_id)] {
        let fault = source.as_deref().and_then(|source| follow(root, source).err());
        faults.extend(fault.map(|fault| (format!("/spec/{name}"), fault)));
    }
    for (index, rule) in spec.repeats.iter().enumerate() {
        // What can't be counted isn't reported: no move depends on it.
        let fault = follow(root, &rule.json_path)
            .err()
            .map(|fault| fault.needed(false));
        faults.extend(fault.map(|fault| (format!("/spec/repeats/{index}/jsonPath"), fault)));
    }
    for (index, rule) in spec.capture.iter().enumerate() {
        let names = spec.capture.iter().map(|rule| &rule.name);
        let fault = match follow(root, &rule.json_path) {
            Ok(at) => no_text(&at),
            Err(fault) => Some(fault.needed(rule.required || is_alone(&rule.name, names))),
        };
        faults.extend(fault.map(|fault| (format!("/spec/capture/{index}/jsonPath"), fault)));
    }
    for (index, rule) in spec.last_known.iter().enumerate() {
        // Objects of other kinds have schemas of their own.
        if rule.from.is_some() {
            continue;
        }
        let alone = is_alone(&rule.name, spec.last_known.iter().map(|rule| &rule.name));
        let paths = [
            ("jsonPath", Some(&rule.json_path)),
            ("newestBy", rule.newest_by.as_ref()),
        ];
        for (field, path) in paths {
            let fault = path.and_then(|path| follow(root, path).err());
            let fault = fault.map(|fault| fault.needed(alone));
            faults.extend(fault.map(|fault| (format!("/spec/lastKnown/{index}/{field}"), fault)));
        }
    }
    faults
}

/// Returns whether no other rule may find the handle, as one for another version of the operator does.
fn is_alone<'n>(name: &str, names: impl Iterator<Item = &'n String>) -> bool {
    names.filter(|other| *other == name).count() == 1
}

fn follow<'s>(root: &At<'s>, source: &str) -> Result<At<'s>, Fault> {
    let mut at = root.clone();
    for link in links(source) {
        at = match link {
            Link::Field(name) => at.field(&name)?,
            Link::Items => at.item(),
            Link::Anywhere => At::root(Place::Open),
        };
    }
    Ok(at)
}

/// What is captured is handed to another copy as it is, and only a text is.
fn no_text(at: &At<'_>) -> Option<Fault> {
    let types = at.types();
    if types.is_empty() || types.contains(&Type::String) {
        return None;
    }
    let goes_on = format!("captures {}, and a handle is a string", at.described());
    Some(Fault::mistyped(at.name().to_owned(), goes_on))
}
