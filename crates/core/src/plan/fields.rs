//! What differs between two objects, field by field: items of lists are told apart by their names where they have some.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use serde_json::{Map, Value};
use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A field that one of two objects has in another form, or not at all.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FieldChange {
    pub(super) path: Path,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// Where a field is. Items of lists count as they stand after the change; on the way to what is gone, as they stood before.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Path(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Item { index: usize, name: Option<String> },
}

impl Path {
    /// Returns the path as a JSON pointer (RFC 6901).
    pub(super) fn pointer(&self) -> String {
        self.0
            .iter()
            .map(|step| match step {
                Step::Field(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
                Step::Item { index, .. } => format!("/{index}"),
            })
            .collect()
    }

    fn then(&self, step: Step) -> Self {
        let mut path = self.clone();
        path.0.push(step);
        path
    }
}

impl fmt::Display for Path {
    /// As people write it: `spec.containers[main].image`, `metadata.labels["a.b/c"]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if is_plain(name) && place == 0 => f.write_str(name)?,
                Step::Field(name) if is_plain(name) => write!(f, ".{name}")?,
                Step::Field(name) => write!(f, "[{name:?}]")?,
                Step::Item { name: Some(name), .. } => write!(f, "[{name}]")?,
                Step::Item { index, name: None } => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

/// Where a field was, and where it is.
#[derive(Clone, Default)]
struct Place {
    before: Path,
    after: Path,
}

impl Place {
    fn field(&self, name: &str) -> Self {
        let step = || Step::Field(name.to_owned());
        Self {
            before: self.before.then(step()),
            after: self.after.then(step()),
        }
    }

    fn item(&self, before: usize, after: usize, name: Option<&str>) -> Self {
        let step = |index| Step::Item {
            index,
            name: name.map(str::to_owned),
        };
        Self {
            before: self.before.then(step(before)),
            after: self.after.then(step(after)),
        }
    }
}

/// Returns what differs, in the order of the fields' names. Nothing, if nothing does.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare(&Place::default(), before, after, &mut found);
    found
}

fn compare(place: &Place, before: &Value, after: &Value, found: &mut Vec<FieldChange>) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(before), Value::Object(after)) => mappings(place, before, after, found),
        (Value::Array(before), Value::Array(after)) if !before.is_empty() && !after.is_empty() => {
            match naming_field(before, after) {
                Some(field) => named_items(place, before, after, field, found),
                None => items(place, before, after, found),
            }
        }
        _ => found.push(FieldChange {
            path: place.after.clone(),
            before: Some(before.clone()),
            after: Some(after.clone()),
        }),
    }
}

fn mappings(
    place: &Place,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<FieldChange>,
) {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        either(&place.field(name), before.get(name), after.get(name), found);
    }
}

fn either(place: &Place, before: Option<&Value>, after: Option<&Value>, found: &mut Vec<FieldChange>) {
    match (before, after) {
        (Some(before), Some(after)) => compare(place, before, after, found),
        (before, after) => found.push(FieldChange {
            path: if after.is_some() {
                &place.after
            } else {
                &place.before
            }
            .clone(),
            before: before.cloned(),
            after: after.cloned(),
        }),
    }
}

/// By what Kubernetes tells the items of its lists apart, the likeliest first.
const NAMING: &[&str] = &[
    "name",
    "key",
    "mountPath",
    "containerPort",
    "port",
    "type",
    "clusterName",
];

/// Returns the field that names the items of both lists, which are in the same order.
fn naming_field(before: &[Value], after: &[Value]) -> Option<&'static str> {
    NAMING.iter().copied().find(|field| {
        let (Some(old), Some(new)) = (names(before, field), names(after, field)) else {
            return false;
        };
        let (in_old, in_new): (HashSet<&String>, HashSet<&String>) =
            (old.iter().collect(), new.iter().collect());
        let kept = old.iter().filter(|name| in_new.contains(name));
        kept.eq(new.iter().filter(|name| in_old.contains(name)))
    })
}

/// Returns the names of all items; `None` if one has none, or shares it.
fn names(items: &[Value], field: &str) -> Option<Vec<String>> {
    let names: Vec<String> = items
        .iter()
        .map(|item| name_of(item, field))
        .collect::<Option<_>>()?;
    let different: BTreeSet<&String> = names.iter().collect();
    (different.len() == names.len()).then_some(names)
}

fn name_of(item: &Value, field: &str) -> Option<String> {
    match item.get(field)? {
        Value::String(name) => Some(name.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn named_items(place: &Place, before: &[Value], after: &[Value], field: &str, found: &mut Vec<FieldChange>) {
    let places = |items: &[Value]| -> HashMap<Option<String>, usize> {
        let names = items.iter().map(|item| name_of(item, field));
        names.enumerate().map(|(index, name)| (name, index)).collect()
    };
    let (was, is) = (places(before), places(after));
    for (index, item) in before.iter().enumerate() {
        let name = name_of(item, field);
        let now = is.get(&name).copied();
        let place = place.item(index, now.unwrap_or(index), name.as_deref());
        either(&place, Some(item), now.map(|now| &after[now]), found);
    }
    for (index, item) in after.iter().enumerate() {
        let name = name_of(item, field);
        if !was.contains_key(&name) {
            either(
                &place.item(index, index, name.as_deref()),
                None,
                Some(item),
                found,
            );
        }
    }
}

/// Items without names: what is the same in both lists is found, the rest is compared one by one.
fn items(place: &Place, before: &[Value], after: &[Value], found: &mut Vec<FieldChange>) {
    let texts = |items: &[Value]| items.iter().map(Value::to_string).collect::<Vec<_>>();
    for op in capture_diff_slices(Algorithm::Myers, &texts(before), &texts(after)) {
        if matches!(op, DiffOp::Equal { .. }) {
            continue;
        }
        let (old, new) = (op.old_range(), op.new_range());
        for offset in 0..old.len().max(new.len()) {
            let (gone, come) = (old.start + offset, new.start + offset);
            let one = old.contains(&gone).then(|| &before[gone]);
            let other = new.contains(&come).then(|| &after[come]);
            either(&place.item(gone, come, None), one, other, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn told(before: &Value, after: &Value) -> Vec<String> {
        let text = |value: Option<Value>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
        differences(before, after)
            .into_iter()
            .map(|change| {
                format!(
                    "{} {}: {} > {}",
                    change.path,
                    change.path.pointer(),
                    text(change.before),
                    text(change.after)
                )
            })
            .collect()
    }

    #[test]
    fn items_are_told_apart_by_their_names() {
        let before = json!({"labels": {"a.b/c": "1"}, "spec": {"containers": [
            {"name": "main", "image": "a:1", "args": ["x", "y", "z"]}, {"name": "old"}], "zones": ["a", "b"]}});
        let after = json!({"labels": {"a.b/c": "2"}, "spec": {"containers": [
            {"name": "side", "image": "b"}, {"name": "main", "image": "a:2", "args": ["x", "z", "w"]}], "zones": []}});
        assert_eq!(
            told(&before, &after),
            [
                r#"labels["a.b/c"] /labels/a.b~1c: "1" > "2""#,
                r#"spec.containers[main].args[1] /spec/containers/0/args/1: "y" > -"#,
                r#"spec.containers[main].args[2] /spec/containers/1/args/2: - > "w""#,
                r#"spec.containers[main].image /spec/containers/1/image: "a:1" > "a:2""#,
                r#"spec.containers[old] /spec/containers/1: {"name":"old"} > -"#,
                r#"spec.containers[side] /spec/containers/0: - > {"name":"side","image":"b"}"#,
                r#"spec.zones /spec/zones: ["a","b"] > []"#,
            ]
        );
    }

    #[test]
    fn another_order_is_a_difference() {
        let (one, other) = (
            json!([{"name": "a"}, {"name": "b"}]),
            json!([{"name": "b"}, {"name": "a"}]),
        );
        assert!(!told(&one, &other).is_empty());
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            (0..3).prop_map(Value::from),
            "[ab]".prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::btree_map("[a-c]|name", inner.clone(), 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
                prop::collection::vec(inner, 0..4).prop_map(Value::Array),
            ]
        })
    }

    /// Every scalar and every empty container with its pointer.
    fn leaves(value: &Value, at: &str, all: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                fields
                    .iter()
                    .for_each(|(name, value)| leaves(value, &format!("{at}/{name}"), all));
            }
            Value::Array(items) if !items.is_empty() => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(n, value)| leaves(value, &format!("{at}/{n}"), all));
            }
            other => _ = all.insert(at.to_owned(), other.clone()),
        }
    }

    proptest! {
        #[test]
        fn what_is_said_of_a_field_is_so(before in values(), after in values()) {
            let found = differences(&before, &after);
            prop_assert_eq!(found.is_empty(), before == after);
            for change in &found {
                let pointer = change.path.pointer();
                match (&change.before, &change.after) {
                    (_, Some(new)) => prop_assert_eq!(after.pointer(&pointer), Some(new)),
                    (Some(old), None) => prop_assert_eq!(before.pointer(&pointer), Some(old)),
                    (None, None) => prop_assert!(false, "nothing is no difference"),
                }
                prop_assert_ne!(&change.before, &change.after);
            }
        }

        #[test]
        fn nothing_that_differs_is_left_out(before in values(), after in values()) {
            // What is in both as it is, and named by no change, is all that is left of either side.
            let count = |value: &Value| {
                let mut all = BTreeMap::new();
                leaves(value, "", &mut all);
                all.into_values().fold(BTreeMap::<String, i64>::new(), |mut counts, value| {
                    *counts.entry(value.to_string()).or_default() += 1;
                    counts
                })
            };
            let mut balance = count(&after);
            let mut take = |value: Option<&Value>, sign: i64| {
                for (leaf, times) in value.map(&count).unwrap_or_default() {
                    *balance.entry(leaf).or_default() += sign * times;
                }
            };
            take(Some(&before), -1);
            for change in differences(&before, &after) {
                take(change.before.as_ref(), 1);
                take(change.after.as_ref(), -1);
            }
            balance.retain(|leaf, times| *times != 0 && leaf != "{}" && leaf != "[]");
            prop_assert!(balance.is_empty(), "{:?}", balance);
        }
    }
}
