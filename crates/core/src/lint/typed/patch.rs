//! Patches of profiles: whether they write a field that there is, and what it takes.

use serde_json::Value;

use super::place::{At, Place};
use super::{Fault, Placed, What};
use crate::api::{PatchOp, WorkloadProfileSpec};
use crate::lint::json_type::{Type, listed};
use crate::schema::{quotes, type_of};
use cutover_base::nearest::did_you_mean;

pub(super) fn faults(spec: &WorkloadProfileSpec, root: &At<'_>) -> Vec<Placed> {
    let lists = [
        ("suspend", &spec.suspend),
        ("hold", &spec.hold),
        ("start", &spec.start),
        ("restart", &spec.restart),
        ("restartFrom", &spec.restart_from),
    ];
    let mut faults = Vec::new();
    for (name, patches) in lists {
        for (index, patch) in patches.iter().enumerate() {
            let fault = of_patch(patch, root);
            faults.extend(fault.map(|(field, fault)| (format!("/spec/{name}/{index}/{field}"), fault)));
        }
    }
    for (index, pointer) in spec.ignored_on_removal.iter().enumerate() {
        // A field that isn't there may well vanish.
        let fault = follow(root, pointer).err().map(|fault| fault.needed(false));
        faults.extend(fault.map(|fault| (format!("/spec/ignoredOnRemoval/{index}"), fault)));
    }
    let pods = spec.no_pods.as_ref();
    let selector = pods.and_then(|pods| pods.selector_at.as_deref());
    let fault = selector.and_then(|pointer| follow(root, pointer).err());
    faults.extend(fault.map(|fault| ("/spec/noPods/selectorAt".to_owned(), fault)));
    faults
}

/// Returns what is wrong with a patch, and in which field of it.
fn of_patch(patch: &PatchOp, root: &At<'_>) -> Option<(&'static str, Fault)> {
    let at = match follow(root, &patch.path) {
        Ok(at) => at,
        Err(fault) => return Some(("path", fault)),
    };
    let value = patch.value.as_ref().filter(|_| patch.op != "remove")?;
    wrong(value, &at).map(|fault| ("value", fault))
}

/// Returns where a JSON pointer leads; of what is none, nothing is known.
fn follow<'s>(root: &At<'s>, pointer: &str) -> Result<At<'s>, Fault> {
    if !pointer.starts_with('/') {
        return Ok(At::root(Place::Open));
    }
    let mut tokens = pointer.split('/').skip(1);
    tokens.try_fold(root.clone(), |at: At<'s>, token| {
        let is_item = token == "-" || token.bytes().all(|b| b.is_ascii_digit());
        if is_item && at.is_list() {
            return Ok(at.item());
        }
        at.field(&token.replace("~1", "/").replace("~0", "~"))
    })
}

/// Returns the first thing in a value that doesn't fit where it is written.
fn wrong(value: &Value, at: &At<'_>) -> Option<Fault> {
    let types = at.types();
    if !types.is_empty() && !value.is_null() && !types.iter().any(|one| fits(value, *one)) {
        return Some(mistyped(value, at, &types));
    }
    match value {
        Value::String(text) if !text.contains("${") => not_allowed(text, at),
        Value::Array(items) => items.iter().find_map(|item| wrong(item, &at.item())),
        Value::Object(fields) => fields.iter().find_map(|(name, inner)| match at.field(name) {
            Ok(at) => wrong(inner, &at),
            Err(fault) => Some(fault),
        }),
        _ => None,
    }
}

/// What a profile writes for the number of an attempt is a number if nothing stands beside it.
fn is_number(text: &str) -> bool {
    text == "${attempt}"
}

fn fits(value: &Value, one: Type) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) => one == Type::Boolean,
        Value::Number(number) => {
            let is_whole = number.as_f64().is_none_or(|number| number.fract() == 0.0);
            one == Type::Number || one == Type::Integer && is_whole
        }
        Value::String(text) if is_number(text) => matches!(one, Type::Number | Type::Integer),
        Value::String(_) => one == Type::String,
        Value::Array(_) => one == Type::Array,
        Value::Object(_) => one == Type::Object,
    }
}

fn mistyped(value: &Value, at: &At<'_>, types: &[Type]) -> Fault {
    let found = match value {
        Value::String(text) if is_number(text) => "a number",
        other => type_of(other),
    };
    let expected = listed(types);
    let goes_on = format!("writes {found} to {}, which takes {expected}", at.name());
    Fault::mistyped(at.name().to_owned(), goes_on).hint(quotes(value, &expected))
}

fn not_allowed(text: &str, at: &At<'_>) -> Option<Fault> {
    let allowed = at.place.allowed();
    let may_be_newer = at.place.is_published();
    // Go takes an empty text for what isn't given.
    let is_given = !may_be_newer || !text.is_empty();
    if allowed.is_empty() || !is_given || allowed.contains(&text) {
        return None;
    }
    let near = did_you_mean(text, allowed.iter().copied());
    let goes_on = format!("writes {text:?} to {}, which does not take it", at.name());
    Some(Fault {
        subject: at.name().to_owned(),
        what: What::NotAllowed(goes_on),
        hint: near.or_else(|| Some(format!("one of {}", allowed.join(", ")))),
        may_be_newer,
    })
}
