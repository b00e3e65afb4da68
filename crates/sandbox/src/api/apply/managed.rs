//! The entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::fieldset::FieldSet;
use super::super::owners;
use crate::clock::seconds;

/// Apply or update; ordered as entries are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who owns fields. An applier is the same one whatever version it speaks, an updater isn't.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    pub manager: String,
    pub operation: Operation,
    /// Empty for an applier.
    pub api_version: String,
    pub subresource: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Owned {
    pub set: FieldSet,
    pub api_version: String,
    pub time: Option<Timestamp>,
}

/// Everybody who owns fields of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managed {
    pub owners: BTreeMap<Owner, Owned>,
}

/// More updaters than this are put together into one, the oldest first.
const MOST_UPDATERS: usize = 10;

impl Managed {
    pub(super) fn of(object: &Value) -> Result<Self, String> {
        Self::read(owners::of(object).as_deref())
    }

    /// Reads the owners from a list of them.
    pub(super) fn read(entries: Option<&Value>) -> Result<Self, String> {
        let entries = entries.and_then(Value::as_array);
        let mut managed = Self::default();
        for entry in entries.into_iter().flatten() {
            let text = |name: &str| {
                entry
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let operation = match text("operation").as_str() {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                other => return Err(format!("invalid operation {other:?}")),
            };
            let set = match entry.get("fieldsV1") {
                Some(fields) => FieldSet::from_json(fields).map_err(|error| error.to_string())?,
                None => FieldSet::new(),
            };
            let api_version = text("apiVersion");
            let owner = Owner {
                manager: text("manager"),
                operation,
                api_version: if operation == Operation::Apply {
                    String::new()
                } else {
                    api_version.clone()
                },
                subresource: text("subresource"),
            };
            managed.owners.insert(
                owner,
                Owned {
                    set,
                    api_version,
                    time: text("time").parse().ok(),
                },
            );
        }
        Ok(managed)
    }

    /// Drops who owns nothing.
    pub(super) fn tidy(&mut self) {
        self.owners.retain(|_, owned| !owned.set.is_empty());
    }

    /// Keeps the number of updaters bounded.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<(Option<Timestamp>, Owner)> = self
            .owners
            .iter()
            .filter(|(owner, _)| owner.operation == Operation::Update)
            .map(|(owner, owned)| (owned.time, owner.clone()))
            .collect();
        if updaters.len() <= MOST_UPDATERS {
            return;
        }
        updaters.sort();
        let surplus = updaters.len() - MOST_UPDATERS + 1;
        for (time, owner) in updaters.into_iter().take(surplus) {
            let Some(owned) = self.owners.remove(&owner) else {
                continue;
            };
            let bucket = Owner {
                manager: "ancient-changes".to_owned(),
                operation: Operation::Update,
                api_version: owned.api_version.clone(),
                subresource: String::new(),
            };
            let merged = match self.owners.get(&bucket) {
                Some(old) => old.set.union(&owned.set),
                None => owned.set,
            };
            self.owners.insert(
                bucket,
                Owned {
                    set: merged,
                    api_version: owned.api_version,
                    time,
                },
            );
        }
    }

    pub(super) fn write(&self, object: &mut Value) {
        let mut entries: Vec<(&Owner, &Owned)> = self.owners.iter().collect();
        entries.sort_by_key(|(owner, owned)| {
            let second = owned.time.map_or(0, Timestamp::as_second);
            (
                owner.operation,
                second,
                &owner.manager,
                &owned.api_version,
                &owner.subresource,
            )
        });
        let entries: Vec<Value> = entries
            .into_iter()
            .map(|(owner, owned)| entry(owner, owned))
            .collect();
        if object.is_object() {
            owners::set(object, (!entries.is_empty()).then_some(Value::Array(entries)));
        }
    }
}

fn entry(owner: &Owner, owned: &Owned) -> Value {
    let mut entry = Map::new();
    entry.insert("manager".to_owned(), json!(owner.manager));
    entry.insert("operation".to_owned(), json!(owner.operation.name()));
    entry.insert("apiVersion".to_owned(), json!(owned.api_version));
    if let Some(time) = owned.time {
        entry.insert("time".to_owned(), json!(seconds(time)));
    }
    entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
    entry.insert("fieldsV1".to_owned(), owned.set.to_json());
    if !owner.subresource.is_empty() {
        entry.insert("subresource".to_owned(), json!(owner.subresource));
    }
    Value::Object(entry)
}

/// Returns a copy; what it leaves out is often larger than all else, and is not copied.
pub(super) fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(fields) = object else {
        return object.clone();
    };
    let copied = |field: &str, value: &Value| match value {
        Value::Object(meta) if field == "metadata" => {
            let meta = meta
                .iter()
                .filter(|(field, _)| ![owners::LIST, owners::TEXT].contains(&field.as_str()));
            meta.map(|(field, value)| (field.clone(), value.clone()))
                .collect()
        }
        other => other.clone(),
    };
    let fields = fields.iter();
    fields
        .map(|(field, value)| (field.clone(), copied(field, value)))
        .collect()
}

pub(super) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    let meta = object.get_mut("metadata").and_then(Value::as_object_mut)?;
    meta.shift_remove("managedFields")
}
