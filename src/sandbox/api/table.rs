//! Lists as `meta.k8s.io` Tables, which is how kubectl prints them: the columns of a kind, and an object's cells.

mod age;
mod built_in;

use jiff::Timestamp;
use jsonpath_rust::JsonPath;
use serde_json::{Value, json};

pub use age::age;

/// The columns of one version of a kind.
#[derive(Clone, Debug)]
pub struct Columns(Vec<Column>);

#[derive(Clone, Debug)]
struct Column {
    name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    kind: String,
    format: String,
    description: String,
    /// Columns above 0 are shown by `-o wide` only.
    priority: i64,
    cell: Cell,
}

#[derive(Clone, Debug)]
enum Cell {
    Computed(fn(&Value, Timestamp) -> Value),
    /// A path as JSONPath has it, from the object's root.
    Path(String),
}

impl Columns {
    /// Returns the columns of a built-in kind; those that nobody looks at have a name and an age.
    pub fn built_in(group: &str, plural: &str) -> Self {
        let columns = built_in::columns(group, plural)
            .iter()
            .map(|&(name, kind, priority, cell)| Column {
                name: name.to_owned(),
                kind: kind.to_owned(),
                format: if name == "Name" { "name" } else { "" }.to_owned(),
                description: String::new(),
                priority,
                cell: Cell::Computed(cell),
            });
        Self(columns.collect())
    }

    /// Returns the columns that a version of a CRD asks for: its own after the name, or the age.
    pub fn of_crd(version: &Value) -> Self {
        let mut columns = vec![Column {
            name: "Name".to_owned(),
            kind: "string".to_owned(),
            format: "name".to_owned(),
            description: String::new(),
            priority: 0,
            cell: Cell::Computed(built_in::name),
        }];
        let text = |column: &Value, field: &str| column[field].as_str().unwrap_or_default().to_owned();
        match version["additionalPrinterColumns"].as_array() {
            Some(own) => columns.extend(own.iter().map(|column| Column {
                name: text(column, "name"),
                kind: text(column, "type"),
                format: text(column, "format"),
                description: text(column, "description"),
                priority: column["priority"].as_i64().unwrap_or_default(),
                cell: Cell::Path(rooted(column["jsonPath"].as_str().unwrap_or_default())),
            })),
            None => columns.push(Column {
                name: "Age".to_owned(),
                kind: "date".to_owned(),
                format: String::new(),
                description: String::new(),
                priority: 0,
                cell: Cell::Path("$.metadata.creationTimestamp".to_owned()),
            }),
        }
        Self(columns)
    }

    /// Returns the head of a table.
    pub fn definitions(&self) -> Value {
        let definition = |column: &Column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": column.description,
                "priority": column.priority,
            })
        };
        self.0.iter().map(definition).collect()
    }

    /// Returns an object's row, cell by cell.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Value {
        self.0.iter().map(|column| column.cell_of(object, now)).collect()
    }
}

impl Column {
    fn cell_of(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Computed(cell) => cell(object, now),
            Cell::Path(path) => {
                let found = object.query(path).unwrap_or_default();
                found.first().map_or(Value::Null, |value| self.shown(value, now))
            }
        }
    }

    /// Returns a value as its column's type shows it; what isn't of the type isn't shown.
    fn shown(&self, value: &Value, now: Timestamp) -> Value {
        match (self.kind.as_str(), value) {
            ("integer" | "number", Value::Number(_))
            | ("boolean", Value::Bool(_))
            | ("string", Value::String(_)) => value.clone(),
            ("date", Value::String(text)) => text
                .parse()
                .map_or_else(|_| "<invalid>".into(), |then| age(then, now).into()),
            ("string", value) if !value.is_null() => value.to_string().into(),
            _ => Value::Null,
        }
    }
}

/// Returns a path of Kubernetes (`.spec.a\.b`) as JSONPath (`$.spec['a.b']`).
fn rooted(path: &str) -> String {
    if !path.contains("\\.") {
        return format!("${path}");
    }
    let steps = path.replace("\\.", "\u{0}");
    steps
        .split('.')
        .filter(|step| !step.is_empty())
        .fold("$".to_owned(), |mut rooted, step| {
            if step.contains('\u{0}') {
                rooted.push_str(&format!("['{}']", step.replace('\u{0}', ".")));
            } else {
                rooted.push_str(&format!(".{step}"));
            }
            rooted
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_crd_follow_their_paths_and_types() {
        let columns = Columns::of_crd(&json!({"additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Note", "type": "string", "jsonPath": ".metadata.annotations.example\\.dev/note"},
            {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
            {"name": "Wrong", "type": "integer", "jsonPath": ".metadata.name"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]}));
        let object = json!({
            "metadata": {
                "name": "a", "annotations": {"example.dev/note": "n"}, "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"size": 3, "tags": ["x", "y"]},
            "status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            columns.cells(&object, now),
            json!(["a", 3, "True", "n", "[\"x\",\"y\"]", null, "60s"])
        );
        assert_eq!(columns.definitions()[4]["priority"], 1);
    }

    #[test]
    fn a_deployment_reads_as_people_know_it() {
        let columns = Columns::built_in("apps", "deployments");
        let object = json!({
            "metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}},
            },
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        });
        let now = "2026-01-01T03:05:00Z".parse().unwrap();
        assert_eq!(
            columns.cells(&object, now),
            json!(["web", "2/3", 3, 1, "3h5m", "a,b", "i:1,j", "app=web"])
        );
    }

    #[test]
    fn a_kind_without_columns_has_a_name_and_an_age() {
        let names: Vec<Value> = Columns::built_in("storage.k8s.io", "storageclasses")
            .definitions()
            .as_array()
            .unwrap()
            .iter()
            .map(|column| column["name"].clone())
            .collect();
        assert_eq!(names, ["Name", "Age"]);
    }
}
