//! `meta.k8s.io/v1` Tables: what `kubectl get` prints. Columns are those of a CRD's version, or of a built-in kind.
//!
//! Says nothing about HTTP; the time, from which ages are told, is an input.

mod age;
mod builtin;
mod cells;
mod path;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{metadata, owners};

pub use age::age;
pub use builtin::columns as built_in_columns;
pub use path::{Path, PathError};

/// One column: its heading, and how an object's cell is found.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: ColumnType,
    pub format: String,
    pub description: String,
    /// 0 is always shown; what is higher, only in wide tables.
    pub priority: i64,
    cell: Cell,
}

/// The types of a CRD's printer columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    String,
    Integer,
    Number,
    Boolean,
    Date,
}

/// Where a cell comes from.
#[derive(Clone, Debug)]
enum Cell {
    Path(Path),
    /// Of a built-in kind: a JSON pointer; what isn't there is shown as the zero of its type.
    Pointer(&'static str),
    /// Of a built-in kind.
    Computed(fn(&Value, Timestamp) -> Value),
}

/// How much of the object a row carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl ColumnType {
    const ALL: [Self; 5] = [
        Self::String,
        Self::Integer,
        Self::Number,
        Self::Boolean,
        Self::Date,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Date => "date",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl Include {
    /// Reads the query parameter `includeObject`.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("Metadata") => Some(Self::Metadata),
            Some("None") => Some(Self::None),
            Some("Object") => Some(Self::Object),
            Some(_) => None,
        }
    }
}

/// Returns the columns of a CRD's version: the name, then its `additionalPrinterColumns`, or the age. An error carries
/// the index of the column and why it is refused.
pub fn crd_columns(version: &Value) -> Result<Vec<Column>, (usize, String)> {
    let mut columns = vec![Column::name()];
    let declared = version["additionalPrinterColumns"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if declared.is_empty() {
        columns.push(Column {
            kind: ColumnType::Date,
            description: CREATED.to_owned(),
            ..Column::age()
        });
    }
    for (index, column) in declared.iter().enumerate() {
        columns.push(Column::declared(column).map_err(|why| (index, why))?);
    }
    Ok(columns)
}

/// Returns the columns of a scale, of a custom resource or of a built-in kind.
pub fn scale_columns(custom: bool) -> Vec<Column> {
    let number = |name: &str, description: &str, cell| Column {
        description: description.to_owned(),
        ..Column::computed(name, ColumnType::Integer, 0, cell)
    };
    let (name, age) = (Column::name(), Column::age());
    vec![
        Column {
            format: if custom { name.format } else { String::new() },
            ..name
        },
        number("Desired", "Number of desired replicas", |scale, _| {
            scale["spec"]["replicas"].as_i64().unwrap_or_default().into()
        }),
        number("Available", "Number of actual replicas", |scale, _| {
            scale["status"]["replicas"].as_i64().unwrap_or_default().into()
        }),
        Column {
            kind: if custom { ColumnType::Date } else { age.kind },
            description: CREATED.to_owned(),
            ..age
        },
    ]
}

/// The words of a custom resource's age.
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
    not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is \
    represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// Returns the table of objects. A watch shows the headings only in its first table.
pub fn table(
    columns: &[Column],
    headings: bool,
    objects: &[&Value],
    meta: Map<String, Value>,
    include: Include,
    now: Timestamp,
) -> Value {
    let definitions: Vec<Value> = columns
        .iter()
        .filter(|_| headings)
        .map(Column::definition)
        .collect();
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| row(columns, object, include, now))
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": headings.then_some(definitions),
        "rows": rows,
    })
}

/// Returns an object without everything but its metadata.
pub fn partial(object: &Value) -> Value {
    let mut partial = json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    });
    owners::unpack(&mut partial);
    partial
}

fn row(columns: &[Column], object: &Value, include: Include, now: Timestamp) -> Value {
    let cells: Vec<Value> = columns.iter().map(|column| column.cell(object, now)).collect();
    let object = match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object),
        Include::Object => {
            let mut object = object.clone();
            owners::unpack(&mut object);
            object
        }
    };
    json!({"cells": cells, "object": object})
}

impl Column {
    fn name() -> Self {
        Self {
            format: "name".to_owned(),
            description: "Name must be unique within a namespace. Is required when creating resources, although some \
                          resources may allow a client to request the generation of an appropriate name automatically. \
                          Name is primarily intended for creation idempotence and configuration definition. Cannot be \
                          updated. More info: \
                          https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
                .to_owned(),
            ..Self::computed("Name", ColumnType::String, 0, |object, _| {
                metadata::name(object).into()
            })
        }
    }

    fn age() -> Self {
        let description = "CreationTimestamp is when the object was created on the server.".to_owned();
        Self {
            description,
            ..Self::computed("Age", ColumnType::String, 0, cells::age)
        }
    }

    fn computed(name: &str, kind: ColumnType, priority: i64, cell: fn(&Value, Timestamp) -> Value) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            format: String::new(),
            description: String::new(),
            priority,
            cell: Cell::Computed(cell),
        }
    }

    fn declared(column: &Value) -> Result<Self, String> {
        let text = |field: &str| column[field].as_str().unwrap_or_default().to_owned();
        let kind = text("type");
        let path = Path::parse(&text("jsonPath")).map_err(|error| error.to_string())?;
        Ok(Self {
            name: text("name"),
            kind: ColumnType::parse(&kind).ok_or_else(|| format!("\"{kind}\" is not a type of columns"))?,
            format: text("format"),
            description: match text("description") {
                none if none.is_empty() => {
                    format!(
                        "Custom resource definition column (in JSONPath format): {}",
                        text("jsonPath")
                    )
                }
                told => told,
            },
            priority: column["priority"].as_i64().unwrap_or_default(),
            cell: Cell::Path(path),
        })
    }

    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind.as_str(),
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Computed(cell) => cell(object, now),
            Cell::Pointer(pointer) => object
                .pointer(pointer)
                .map_or_else(|| zero(self.kind), |value| typed(self.kind, value, now)),
            Cell::Path(path) => path
                .first(object)
                .map_or(Value::Null, |value| typed(self.kind, value, now)),
        }
    }
}

fn zero(kind: ColumnType) -> Value {
    match kind {
        ColumnType::String | ColumnType::Date => "".into(),
        ColumnType::Integer | ColumnType::Number => 0.into(),
        ColumnType::Boolean => false.into(),
    }
}

/// Returns a value as a column of a type shows it; what isn't of the type is not shown.
fn typed(kind: ColumnType, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        (_, Value::Null) => Value::Null,
        (ColumnType::String, Value::String(_))
        | (ColumnType::Boolean, Value::Bool(_))
        | (ColumnType::Number, Value::Number(_)) => value.clone(),
        (ColumnType::String, other) => other.to_string().into(),
        (ColumnType::Integer, Value::Number(number)) if number.is_f64() => {
            // As a real server cuts fractions off.
            #[allow(clippy::cast_possible_truncation)]
            let whole = number.as_f64().unwrap_or_default() as i64;
            whole.into()
        }
        (ColumnType::Integer, Value::Number(_)) => value.clone(),
        (ColumnType::Date, Value::String(text)) => cells::age_of(text, now).into(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn cells(columns: &[Column], object: &Value) -> Value {
        table(columns, true, &[object], Map::new(), Include::None, now())["rows"][0]["cells"].clone()
    }

    #[test]
    fn the_columns_of_a_crd_show_values_of_their_types() {
        let version = json!({"additionalPrinterColumns": [
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Half", "type": "integer", "jsonPath": ".spec.half"},
            {"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused"},
            {"name": "Share", "type": "number", "jsonPath": ".spec.half"},
            {"name": "Parts", "type": "string", "jsonPath": ".spec.parts", "priority": 1},
            {"name": "Wrong", "type": "integer", "jsonPath": ".spec.parts"},
            {"name": "Absent", "type": "string", "jsonPath": ".spec.absent"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            {"name": "Bad", "type": "date", "jsonPath": ".metadata.name"},
        ]});
        let object = json!({
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T11:54:57Z"},
            "spec": {"replicas": 2, "half": 2.5, "paused": true, "parts": ["x", "y"]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let columns = crd_columns(&version).unwrap();
        let shown = json!([
            "a",
            "True",
            2,
            2,
            true,
            2.5,
            "[\"x\",\"y\"]",
            null,
            null,
            "5m3s",
            "<invalid>"
        ]);
        assert_eq!(cells(&columns, &object), shown);
        let table = table(&columns, true, &[], Map::new(), Include::None, now());
        let definitions = table["columnDefinitions"].as_array().unwrap();
        assert_eq!(definitions[0]["format"], "name");
        assert_eq!(definitions[6]["priority"], 1);
    }

    #[test]
    fn a_crd_without_columns_shows_name_and_age() {
        let columns = crd_columns(&json!({})).unwrap();
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["Name", "Age"]);
    }

    #[test]
    fn a_column_with_a_bad_path_is_refused() {
        let version = json!({"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "a"}]});
        assert_eq!(crd_columns(&version).unwrap_err().0, 0);
    }

    #[test]
    fn rows_carry_as_much_of_the_object_as_wanted() {
        let object = json!({"kind": "A", "metadata": {"name": "a"}, "spec": {}});
        let of = |include| {
            table(&[Column::name()], false, &[&object], Map::new(), include, now())["rows"][0]["object"]
                .clone()
        };
        assert_eq!(of(Include::None), Value::Null);
        assert_eq!(of(Include::Metadata), partial(&object));
        assert_eq!(of(Include::Object), object);
    }

    #[test]
    fn later_tables_of_a_watch_have_no_headings() {
        let table = table(&[Column::name()], false, &[], Map::new(), Include::None, now());
        assert_eq!(table["columnDefinitions"], Value::Null);
    }
}
