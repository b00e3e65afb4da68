//! Places in the schema of a kind: the fields that there are, and their types. What isn't known, or is left open, is any.

use serde_json::Value;

use super::Fault;
use crate::lint::json_type::{Type, listed};
use crate::lint::kubernetes::{self, Form};
use crate::schema::Schemas;

/// Where a path through an object leads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'s> {
    /// Anything may stand here.
    Open,
    /// A text of an object's identity.
    Text,
    /// A whole custom resource, whose schema leaves its identity out.
    Root(&'s Value),
    Custom(&'s Value),
    Kubernetes(Form),
}

/// What in a schema says more of a place than its own fields do.
const COMBINED: [&str; 5] = ["$ref", "allOf", "anyOf", "oneOf", "not"];

/// By what a schema says that other fields are kept.
const KEEPS: [&str; 2] = [
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
];

impl<'s> Place<'s> {
    /// Returns the objects of a kind, in every version that is known. A definition of the repository goes before what
    /// Kubernetes publishes.
    pub(super) fn of_kind(schemas: &'s Schemas, group: &str, kind: &str) -> Vec<Self> {
        let custom: Vec<Self> = schemas.of_kind(group, kind).map(Self::Root).collect();
        if !custom.is_empty() || !schemas.know_kubernetes() {
            return custom;
        }
        let forms = kubernetes::forms_of(group, kind).into_iter();
        forms.map(Self::Kubernetes).collect()
    }

    /// Returns the types that may stand here; none: any.
    pub(super) fn types(self) -> Vec<Type> {
        match self {
            Self::Open => Vec::new(),
            Self::Text => vec![Type::String],
            Self::Root(_) => vec![Type::Object],
            Self::Custom(schema) => types_of(schema),
            Self::Kubernetes(form) => kubernetes::types(form),
        }
    }

    /// Returns where a field leads; an error with the fields that there are, if it is none of them.
    fn field(self, name: &str) -> Result<Self, Vec<&'s str>> {
        match self {
            Self::Open | Self::Text => Ok(Self::Open),
            Self::Root(schema) => match name {
                "apiVersion" | "kind" => Ok(Self::Text),
                "metadata" => Ok(kubernetes::metadata().map_or(Self::Open, Self::Kubernetes)),
                // A definition may leave out what only its operator writes.
                "status" if schema.pointer("/properties/status").is_none() => Ok(Self::Open),
                _ => field_of(schema, name),
            },
            Self::Custom(schema) => field_of(schema, name),
            Self::Kubernetes(form) => {
                let found = kubernetes::field(form, name)?;
                Ok(found.map_or(Self::Open, Self::Kubernetes))
            }
        }
    }

    fn item(self) -> Self {
        match self {
            Self::Custom(schema) => schema.get("items").map_or(Self::Open, Self::Custom),
            Self::Kubernetes(form) => kubernetes::item(form).map_or(Self::Open, Self::Kubernetes),
            Self::Open | Self::Text | Self::Root(_) => Self::Open,
        }
    }

    /// Returns the texts that may stand here; none: any.
    pub(super) fn allowed(self) -> Vec<&'s str> {
        match self {
            Self::Custom(schema) => {
                let all = schema.get("enum").and_then(Value::as_array);
                all.into_iter().flatten().filter_map(Value::as_str).collect()
            }
            Self::Kubernetes(form) => kubernetes::allowed(form).to_vec(),
            Self::Open | Self::Text | Self::Root(_) => Vec::new(),
        }
    }

    pub(super) const fn is_published(self) -> bool {
        matches!(self, Self::Kubernetes(_))
    }
}

fn field_of<'s>(schema: &'s Value, name: &str) -> Result<Place<'s>, Vec<&'s str>> {
    let fields = schema.get("properties").and_then(Value::as_object);
    if let Some(field) = fields.and_then(|fields| fields.get(name)) {
        return Ok(Place::Custom(field));
    }
    match schema.get("additionalProperties") {
        Some(other) if other.is_object() => return Ok(Place::Custom(other)),
        Some(Value::Bool(false)) | None => {}
        Some(_) => return Ok(Place::Open),
    }
    let is_open = COMBINED.iter().any(|name| schema.get(name).is_some())
        || KEEPS.iter().any(|name| is_set(schema, name));
    match fields {
        Some(fields) if !is_open && !fields.is_empty() => Err(fields.keys().map(String::as_str).collect()),
        _ => Ok(Place::Open),
    }
}

fn types_of(schema: &Value) -> Vec<Type> {
    if is_set(schema, "x-kubernetes-int-or-string") {
        return vec![Type::Integer, Type::String];
    }
    let name = schema.get("type").and_then(Value::as_str);
    name.and_then(Type::named).into_iter().collect()
}

fn is_set(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool) == Some(true)
}

/// A place, and the path that leads there, as people write it.
#[derive(Clone, Debug)]
pub(super) struct At<'s> {
    pub(super) place: Place<'s>,
    path: String,
}

impl<'s> At<'s> {
    pub(super) const fn root(place: Place<'s>) -> Self {
        let path = String::new();
        Self { place, path }
    }

    /// Returns the path, or what stands for the whole object.
    pub(super) fn name(&self) -> &str {
        if self.path.is_empty() {
            "object"
        } else {
            &self.path
        }
    }

    /// Returns the path of a field, whether there is one or not.
    pub(super) fn to(&self, name: &str) -> String {
        let is_plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        match (is_plain, self.path.is_empty()) {
            (true, true) => name.to_owned(),
            (true, false) => format!("{}.{name}", self.path),
            (false, _) => format!("{}[{name:?}]", self.path),
        }
    }

    pub(super) fn types(&self) -> Vec<Type> {
        self.place.types()
    }

    pub(super) fn is_list(&self) -> bool {
        self.types() == [Type::Array]
    }

    /// Returns the place of a field; a fault, if the schema has none of that name.
    pub(super) fn field(&self, name: &str) -> Result<Self, Fault> {
        let path = self.to(name);
        let types = self.types();
        if !types.is_empty() && !types.contains(&Type::Object) {
            let goes_on = format!("names {path}, but {} is {}", self.name(), listed(&types));
            return Err(Fault::mistyped(path, goes_on));
        }
        match self.place.field(name) {
            Ok(place) => Ok(Self { place, path }),
            Err(known) => Err(Fault::unknown(path, name, &known, self.place.is_published())),
        }
    }

    /// Returns the place of each item of a list; of anything else, nothing is known.
    pub(super) fn item(&self) -> Self {
        let place = if self.is_list() {
            self.place.item()
        } else {
            Place::Open
        };
        let path = format!("{}[]", self.path);
        Self { place, path }
    }

    /// Returns the path with the types that may stand there.
    pub(super) fn described(&self) -> String {
        format!("{} ({})", self.name(), listed(&self.types()))
    }
}
