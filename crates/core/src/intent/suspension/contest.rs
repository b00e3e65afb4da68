//! Finds fields that are changed again and again: two looks at an object tell what changed, `managedFields` who did it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::MOST;
use super::held::differences;
use crate::api::Contested;
use crate::intent::owners;
use cutover_karmada::name::ObjectKey;

/// From how many changes on a field counts as contested.
const OFTEN: u32 = 3;

/// What was seen so far. Only in memory: a restart begins to count anew.
#[derive(Debug, Default)]
pub struct Contest {
    last: BTreeMap<ObjectKey, Value>,
    fields: BTreeMap<(ObjectKey, String), Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    times: u32,
    managers: BTreeSet<String>,
}

impl Contest {
    /// Takes note of an object as it is now.
    pub fn look(&mut self, key: &ObjectKey, object: &Value) {
        if let Some(last) = self.last.get(key) {
            // Both ways: what came and what went.
            let changed: BTreeSet<String> = differences(object, last)
                .into_iter()
                .chain(differences(last, object))
                .collect();
            for field in changed {
                let managers = owners::managers(object, &field);
                let seen = self.fields.entry((key.clone(), field)).or_default();
                seen.times += 1;
                // Who wrote last has changed it; the others have set it before.
                seen.managers.extend(managers.into_iter().next());
            }
        }
        self.last.insert(key.clone(), object.clone());
    }

    /// Returns the fields that don't come to rest, those that change most often first.
    pub fn found(&self) -> Vec<Contested> {
        let mut found: Vec<Contested> = self
            .fields
            .iter()
            .filter(|(_, seen)| seen.times >= OFTEN)
            .map(|((object, field), seen)| Contested {
                object: object.to_string(),
                field: field.clone(),
                managers: seen.managers.iter().cloned().collect(),
                times: seen.times,
            })
            .collect();
        found.sort_by(|one, other| other.times.cmp(&one.times).then_with(|| one.cmp(other)));
        found.truncate(MOST);
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_that_two_managers_change_back_and_forth_is_named_with_both() {
        let key = ObjectKey {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
        };
        let mut contest = Contest::default();
        for round in 0..4 {
            let (manager, replicas) = if round % 2 == 0 {
                ("cutover", 2)
            } else {
                ("scaler", 5)
            };
            let object = json!({
                "metadata": {"managedFields": [
                    {"manager": manager, "time": format!("2026-01-01T00:00:0{round}Z"), "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                ]},
                "spec": {"replicas": replicas, "image": "web:1"},
            });
            contest.look(&key, &object);
        }
        let found = contest.found();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].field.as_str(), found[0].times), ("/spec/replicas", 3));
        assert_eq!(found[0].managers, ["cutover", "scaler"]);
    }
}
