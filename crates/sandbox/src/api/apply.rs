//! Server-side apply and the ownership of fields, as structured-merge-diff and the field managers of a kube-apiserver
//! do it. Decides; stores nothing.
//!
//! Not done: conversion of sets between versions of a kind (the sandbox stores one schema a kind), and the migration of
//! `kubectl.kubernetes.io/last-applied-configuration`.

mod managed;
mod merge;
mod shape;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use managed::{Managed, Owned, take_managed_fields, without_managed_fields};
pub use managed::{Operation, Owner};
use merge::{Comparison, check, merge, remove};
use shape::{fields_of, with_named_parents};

use super::fieldset::{FieldSet, Path, PathElement, display};
use super::schema::Schema;

/// Who writes, through what, when.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    pub manager: &'a str,
    /// The version that the request speaks, such as `apps/v1`.
    pub api_version: &'a str,
    /// `status`, `scale`, or `None` for the object itself.
    pub subresource: Option<&'a str>,
    pub now: Timestamp,
}

/// What a write through an endpoint never owns, because the endpoint resets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resets {
    Nothing,
    /// The object's own endpoint where there is a status subresource.
    Status,
    /// The status endpoint of custom resources: all but the status.
    AllButStatus,
    /// The status endpoint of most built-in kinds.
    Spec,
    /// That of Deployments.
    SpecAndLabels,
}

/// Why an apply was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// 409, with a cause for each field.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// 400.
    #[error("{0}")]
    BadRequest(String),
    /// 500, as a real server answers when the configuration doesn't fit the schema.
    #[error("{0}")]
    Untyped(String),
}

/// A field that somebody else owns with another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other owner as messages name it: `"kubectl" using apps/v1 at 2026-01-02T03:04:05Z`.
    pub owner: String,
    pub path: Path,
}

impl Conflict {
    /// Returns the field as causes name it: `.spec.replicas`.
    pub fn field(&self) -> String {
        display(&self.path)
    }

    /// Returns the message of the cause; its reason is `FieldManagerConflict`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner)
    }
}

/// Applies a configuration to a live object (`None`: it is created) and returns the object with its `managedFields`.
///
/// Fields that the manager applied before, applies no longer and shares with nobody are removed. The result equals
/// `live` when nothing changed. `blank` is what an object with nothing in it still has.
pub fn apply(
    live: Option<&Value>,
    blank: &Value,
    config: &Value,
    schema: &Schema,
    by: Writer<'_>,
    resets: Resets,
    force: bool,
) -> Result<Value, ApplyError> {
    check_config(config, schema)?;
    let ignored = resets.fields();
    let (live, mut managed) = live_and_owners(live, blank, config, schema, by, &ignored)?;
    let me = by.owner(Operation::Apply);
    let merged = merge(&live, config, Some(schema));
    let last = managed.owners.remove(&me);
    let set = fields_of(config, Some(schema)).recursive_difference(&ignored);
    let time = last.as_ref().and_then(|last| last.time);
    let mine = Owned {
        set,
        api_version: by.api_version.to_owned(),
        time,
    };
    managed.owners.insert(me.clone(), mine);
    let mut new = match &last {
        Some(last) => prune(&merged, &managed, &last.set, schema),
        None => merged,
    };
    let changes = Comparison::between(&live, &new, schema).without(&ignored);
    take_over(&mut managed, &me, &changes, force)?;
    if let Some(mine) = managed.owners.get_mut(&me) {
        mine.set = mine.set.difference(never_owned());
        if new != live {
            mine.time = Some(by.now);
        }
    }
    managed.tidy();
    managed.write(&mut new);
    Ok(new)
}

/// Records in the `managedFields` of `new` what a create, an update or a patch changed of `live`.
///
/// As with a real server a client may reset the owners with `managedFields: [{}]`, or set them; what a subresource's
/// request says about them is ignored.
pub fn update(live: Option<&Value>, new: &mut Value, schema: &Schema, by: Writer<'_>, resets: Resets) {
    update_from(live, &json!({}), new, schema, by, resets);
}

/// Does the same for a kind of which an object with nothing in it still has parts: nobody owns those.
pub fn update_from(
    live: Option<&Value>,
    blank: &Value,
    new: &mut Value,
    schema: &Schema,
    by: Writer<'_>,
    resets: Resets,
) {
    let told = take_managed_fields(new);
    let mut errors = Vec::new();
    check(new, Some(schema), "", &mut errors);
    // What is applied may hold nothing twice; what is there may.
    if errors.iter().any(|error| !error.contains("duplicate entries")) {
        // What doesn't fit the schema can't be told apart: a real server forgets all owners.
        Managed::default().write(new);
        return;
    }
    let mut managed = live_or_new_owners(live, told.as_ref(), by);
    let old = live.map_or_else(|| type_of(new, blank.clone()), without_managed_fields);
    if managed.owners.is_empty() && live.is_some() {
        // Nobody tracked this object so far; it stays so until somebody applies.
        managed.write(new);
        return;
    }
    record(&mut managed, &old, new, schema, by, &resets.fields());
    managed.cap();
    managed.write(new);
}

/// Records in the `managedFields` of `new` who set the number at a JSON pointer through the scale subresource.
///
/// As with a real server the time of it is lost, a zero belongs to nobody, and of a number that is `replaced` by itself
/// only appliers stay owners.
pub fn scaled(live: &Value, new: &mut Value, pointer: &str, by: Writer<'_>, replaced: bool) {
    let mut managed = Managed::of(live).unwrap_or_default();
    let path: Path = pointer.split('/').skip(1).map(PathElement::field).collect();
    let number: FieldSet = std::iter::once(path).collect();
    let changed = live.pointer(pointer) != new.pointer(pointer);
    let owned = |owned: &Owned| !owned.set.intersection(&number).is_empty();
    // As long as nobody owns the number, nobody comes to own it.
    let tracked = managed.owners.values().any(owned);
    for (owner, owned) in &mut managed.owners {
        if changed || (replaced && owner.operation == Operation::Update) {
            owned.set = owned.set.difference(&number);
        }
    }
    managed.tidy();
    if tracked && changed && new.pointer(pointer).is_some_and(|number| number != 0) {
        let mine = Owned {
            set: number,
            api_version: by.api_version.to_owned(),
            time: None,
        };
        managed.owners.insert(by.owner(Operation::Update), mine);
    }
    managed.write(new);
}

/// Returns the fields that a configuration speaks of, as an applier would own them.
pub fn applied_fields(config: &Value, schema: &Schema) -> FieldSet {
    fields_of(config, Some(schema)).difference(never_owned())
}

impl Writer<'_> {
    fn owner(self, operation: Operation) -> Owner {
        Owner {
            manager: self.manager.to_owned(),
            operation,
            api_version: if operation == Operation::Apply {
                String::new()
            } else {
                self.api_version.to_owned()
            },
            subresource: self.subresource.unwrap_or_default().to_owned(),
        }
    }
}

impl Resets {
    fn fields(self) -> FieldSet {
        let paths: &[&[&str]] = match self {
            Self::Nothing => &[],
            Self::Status => &[&["status"]],
            Self::AllButStatus => &[&["metadata"], &["spec"]],
            Self::Spec => &[&["spec"]],
            Self::SpecAndLabels => &[&["spec"], &["metadata", "labels"]],
        };
        let path = |path: &&[&str]| path.iter().map(|name| PathElement::field(name)).collect();
        paths.iter().map(path).collect::<FieldSet>()
    }
}

/// Fields of every object that nobody owns.
fn never_owned() -> &'static FieldSet {
    const META: &[&str] = &[
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    static NEVER: LazyLock<FieldSet> = LazyLock::new(|| {
        let field = PathElement::field;
        let top = ["apiVersion", "kind", "metadata"].map(|name| vec![field(name)]);
        let meta = META.iter().map(|name| vec![field("metadata"), field(name)]);
        top.into_iter().chain(meta).collect()
    });
    &NEVER
}

fn check_config(config: &Value, schema: &Schema) -> Result<(), ApplyError> {
    if config
        .pointer("/metadata/managedFields")
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(ApplyError::BadRequest(
            "metadata.managedFields must be nil".to_owned(),
        ));
    }
    let mut errors = Vec::new();
    check(config, Some(schema), "", &mut errors);
    let told = match errors.as_slice() {
        [] => return Ok(()),
        [single] => single.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    };
    let text = |pointer: &str| {
        config
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let api_version = text("/apiVersion");
    // A core version is printed with its empty group.
    let version = if api_version.contains('/') {
        api_version.to_owned()
    } else {
        format!("/{api_version}")
    };
    Err(ApplyError::Untyped(format!(
        "failed to create typed patch object ({}/{}; {version}, Kind={}): {told}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/kind"),
    )))
}

fn live_and_owners(
    live: Option<&Value>,
    blank: &Value,
    config: &Value,
    schema: &Schema,
    by: Writer<'_>,
    ignored: &FieldSet,
) -> Result<(Value, Managed), ApplyError> {
    let Some(live) = live else {
        return Ok((type_of(config, json!({})), Managed::default()));
    };
    let mut managed = Managed::of(live)
        .map_err(|error| ApplyError::Untyped(format!("failed to decode managed fields: {error}")))?;
    let clean = without_managed_fields(live);
    if managed.owners.is_empty() {
        // What was there before anybody applied gets an owner, so that it can conflict.
        let before = Writer {
            manager: "before-first-apply",
            ..by
        };
        let nothing = type_of(live, blank.clone());
        record(&mut managed, &nothing, &clean, schema, before, ignored);
    }
    Ok((clean, managed))
}

/// `told`: what the request says of the owners.
fn live_or_new_owners(live: Option<&Value>, told: Option<&Value>, by: Writer<'_>) -> Managed {
    let of_live = || live.and_then(|live| Managed::of(live).ok()).unwrap_or_default();
    if by.subresource.is_some() {
        return of_live();
    }
    match told.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => return Managed::default(),
        Some([only]) if only.as_object().is_some_and(serde_json::Map::is_empty) => return Managed::default(),
        _ => {}
    }
    Managed::read(told)
        .ok()
        .filter(|managed| !managed.owners.is_empty())
        .unwrap_or_else(of_live)
}

/// An object of the same kind with nothing in it.
fn type_of(object: &Value, mut empty: Value) -> Value {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = object.get(name) {
            empty[name] = value.clone();
        }
    }
    empty
}

/// Gives what changed from `old` to `new` to the writer, and takes it from all others.
fn record(
    managed: &mut Managed,
    old: &Value,
    new: &Value,
    schema: &Schema,
    by: Writer<'_>,
    ignored: &FieldSet,
) {
    let changes = Comparison::between(old, new, schema).without(ignored);
    let changed = changes.modified.union(&changes.added);
    for owned in managed.owners.values_mut() {
        owned.set = owned.set.difference(&changed).difference(&changes.removed);
    }
    managed.tidy();
    let taken = changed.difference(never_owned());
    if taken.is_empty() {
        return;
    }
    let me = by.owner(Operation::Update);
    let mine = managed
        .owners
        .remove(&me)
        .map_or(taken.clone(), |mine| mine.set.union(&taken));
    let mine = Owned {
        set: mine,
        api_version: by.api_version.to_owned(),
        time: Some(by.now),
    };
    managed.owners.insert(me, mine);
}

/// Removes what the manager applied last time, doesn't apply now, and nobody owns.
fn prune(merged: &Value, managed: &Managed, last: &FieldSet, schema: &Schema) -> Value {
    let full = |set: &FieldSet| with_named_parents(set, Some(schema));
    let without = |set: &FieldSet| remove(merged, set, Some(schema));
    let last = full(last);
    let all = full(&fields_of(merged, Some(schema)));
    let kept = full(&fields_of(&without(&last), Some(schema)));
    let owned = managed
        .owners
        .values()
        .fold(FieldSet::new(), |all, owned| all.union(&owned.set));
    // Others' fields stay.
    let orphans = all.difference(&kept.union(&full(&owned)));
    // So do fields that only went because something above them did.
    let kept = full(&fields_of(&without(&orphans), Some(schema)));
    without(&all.difference(&kept).intersection(&last))
}

/// Takes the changed fields from their owners, or tells who they are.
fn take_over(managed: &mut Managed, me: &Owner, changes: &Comparison, force: bool) -> Result<(), ApplyError> {
    let changed = changes.modified.union(&changes.added);
    let mut conflicts = Vec::new();
    for (owner, owned) in managed.owners.iter_mut().filter(|(owner, _)| *owner != me) {
        let contested = owned.set.intersection(&changed);
        conflicts.extend(contested.paths().into_iter().map(|path| Conflict {
            owner: described(owner, owned),
            path,
        }));
        owned.set = owned.set.difference(&contested).difference(&changes.removed);
    }
    if force || conflicts.is_empty() {
        Ok(())
    } else {
        Err(ApplyError::Conflicts(conflicts))
    }
}

fn described(owner: &Owner, owned: &Owned) -> String {
    let mut text = format!("{:?}", owner.manager);
    if !owner.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", owner.subresource));
    }
    if owner.operation == Operation::Update {
        text.push_str(&format!(" using {}", owned.api_version));
    }
    text
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            conflict.owner,
            conflict.field()
        );
    }
    let mut owners: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        owners
            .entry(&conflict.owner)
            .or_default()
            .push(format!("- {}", conflict.field()));
    }
    let lines: Vec<String> = owners
        .into_iter()
        .map(|(owner, fields)| format!("conflicts with {owner}:\n{}", fields.join("\n")))
        .collect();
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests;
