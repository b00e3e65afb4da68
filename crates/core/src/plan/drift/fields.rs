//! Which fields another client has changed, and who: names of fields and of managers, never values.

use std::fmt;

use serde_json::Value;

use crate::plan::normalise::normalise;
use crate::plan::overlay::overlay;
use crate::plan::ownership::{managers, text};

/// A field that isn't as Git wants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriftedField {
    /// For instance `.spec.replicas`.
    pub field: String,
    /// Who has it now, if anybody does.
    pub manager: Option<String>,
}

impl fmt::Display for DriftedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.manager {
            Some(manager) => write!(f, "{} ({manager})", self.field),
            None => f.write_str(&self.field),
        }
    }
}

/// How many fields of one object are listed.
const LISTED: usize = 10;

/// Returns the fields that applying `desired` as `manager` would change, and who changed them. Values are left out: they
/// may be a Secret's.
pub fn drifted(desired: &Value, live: &Value, manager: &str) -> Vec<DriftedField> {
    let before = normalise(live);
    let after = normalise(&overlay(desired, live, manager));
    let mut fields = Vec::new();
    let mut entries: Vec<&Value> = managers(live)
        .filter(|entry| text(entry, "manager") != Some(manager) || text(entry, "operation") != Some("Apply"))
        .collect();
    // The one who wrote last is the one who changed it.
    entries.sort_by(|a, b| text(b, "time").cmp(&text(a, "time")));
    let owners: Vec<(&str, &Value)> = entries
        .into_iter()
        .filter_map(|entry| Some((text(entry, "manager")?, entry.get("fieldsV1")?)))
        .collect();
    differences(Some(&before), Some(&after), "", &owners, &mut fields);
    fields.truncate(LISTED);
    fields
}

fn differences(
    before: Option<&Value>,
    after: Option<&Value>,
    at: &str,
    owners: &[(&str, &Value)],
    fields: &mut Vec<DriftedField>,
) {
    match (before, after) {
        (before, after) if before == after => {}
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let added = after.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                let step = format!("f:{name}");
                let under: Vec<(&str, &Value)> = owners
                    .iter()
                    .filter_map(|(manager, fields)| Some((*manager, fields.get(&step)?)))
                    .collect();
                let at = if name.contains('.') {
                    format!("{at}[{name}]")
                } else {
                    format!("{at}.{name}")
                };
                differences(before.get(name), after.get(name), &at, &under, fields);
            }
        }
        _ => fields.push(DriftedField {
            field: at.to_owned(),
            manager: owners.first().map(|(manager, _)| (*manager).to_owned()),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const US: &str = "cutover";

    fn owned(manager: &str, operation: &str, fields: Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields})
    }

    fn live(spec: Value, managers: &[Value]) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "shop", "managedFields": managers}, "spec": spec,
        })
    }

    fn desired(spec: Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop"}, "spec": spec})
    }

    #[test]
    fn drift_names_the_fields_and_who_changed_them() {
        let ours = owned(
            US,
            "Apply",
            json!({"f:spec": {"f:paused": {}, "f:replicas": {}, "f:gone": {}}}),
        );
        let edit = owned("kubectl-edit", "Update", json!({"f:spec": {"f:replicas": {}}}));
        let live = live(json!({"replicas": 9, "paused": false}), &[ours, edit]);
        let git = desired(json!({"replicas": 1, "paused": false, "gone": 1}));
        let field = |field: &str, manager: Option<&str>| DriftedField {
            field: field.into(),
            manager: manager.map(str::to_owned),
        };
        assert_eq!(
            drifted(&git, &live, US),
            [
                field(".spec.replicas", Some("kubectl-edit")),
                field(".spec.gone", None)
            ]
        );
    }
}
