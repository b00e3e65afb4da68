//! The fast path of a comparison: shows of most objects that are in sync that they are, without unpacking them.
//!
//! It knows the usual ways only. Where it isn't sure, [`owned_matches`](super::owned_matches) decides, and whatever this
//! says to be in sync, that does too.

use super::ownership::{FILLED_IN, PAIRS, same};
use cutover_base::packed::View;

/// What `manager` is to apply: what is written, and a label that everything gets.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub written: View<'a>,
    pub label: Option<(&'a str, &'a str)>,
}

/// Returns whether applying would certainly change nothing.
pub fn is_in_sync(wanted: Wanted<'_>, live: View<'_>, manager: &str) -> bool {
    proved(wanted, live, manager).is_some()
}

/// `Some` of nothing, as far as it can be proved: `?` gives up.
type Proof = Option<()>;

fn proved(wanted: Wanted<'_>, live: View<'_>, manager: &str) -> Proof {
    let desired = wanted.written;
    // A Secret is stored otherwise than it is written.
    sure(desired.get("kind")?.as_str()? != "Secret")?;
    sure(desired.get("metadata")?.is_mapping())?;
    let owned = owned(desired, live, manager)?;
    let fields = desired
        .fields()
        .filter(|(name, _)| !matches!(*name, "apiVersion" | "kind" | "status" | "metadata"));
    let mut ours = mapping(fields, live, owned)?;
    if let Some(owned) = owned.get("f:metadata") {
        // All of the metadata at once is nobody's to own.
        sure(owned.is_mapping() && !is_whole(owned))?;
        metadata(wanted, live.get("metadata")?, owned)?;
        ours += 1;
    } else {
        let mut fields = desired.get("metadata")?.fields();
        sure(wanted.label.is_none() && fields.all(|(name, _)| FILLED_IN.contains(&name)))?;
    }
    no_more_than(ours, owned)
}

fn metadata(wanted: Wanted<'_>, live: View<'_>, owned: View<'_>) -> Proof {
    let desired = wanted.written.get("metadata")?;
    let is_labelled = wanted.label.is_some();
    let fields = desired
        .fields()
        .filter(|(name, _)| !(FILLED_IN.contains(name) || is_labelled && *name == "labels"));
    let mut ours = mapping(fields, live, owned)?;
    if let Some((name, value)) = wanted.label {
        let (live, owned) = (live.get("labels")?, owned.get("f:labels")?);
        let written = desired.get("labels");
        sure(written.is_none_or(View::is_mapping))?;
        let written = written.into_iter().flat_map(View::fields);
        let labels = mapping(written.filter(|(written, _)| *written != name), live, owned)?;
        sure(live.get(name)?.as_str()? == value && is_whole(owned.get(&format!("f:{name}"))?))?;
        no_more_than(labels + 1, owned)?;
        ours += 1;
    }
    no_more_than(ours, owned)
}

/// Returns what `manager` owns by server-side apply, when exactly that is recorded.
fn owned<'a>(desired: View<'_>, live: View<'a>, manager: &str) -> Option<View<'a>> {
    let text = |entry: View<'a>, field: &str| entry.get(field).and_then(View::as_str);
    let entries = live.get("metadata")?.get("managedFields")?.items();
    let mut entries = entries.filter(|entry| {
        text(*entry, "manager") == Some(manager)
            && text(*entry, "operation") == Some("Apply")
            && text(*entry, "subresource").is_none_or(str::is_empty)
    });
    let entry = entries.next()?;
    sure(entries.next().is_none() && text(entry, "apiVersion") == desired.get("apiVersion")?.as_str())?;
    entry.get("fieldsV1").filter(|fields| fields.is_mapping())
}

/// Returns how many fields there are, when all are ours and as they are written.
fn mapping<'a>(
    desired: impl Iterator<Item = (&'a str, View<'a>)>,
    live: View<'_>,
    owned: View<'_>,
) -> Option<usize> {
    let (live, owned) = (live.named(), owned.named());
    let mut step = String::new();
    let mut ours = 0;
    for (name, value) in desired {
        step.clear();
        step.extend(["f:", name]);
        part(value, live.get(name)?, owned.get(&step)?)?;
        ours += 1;
    }
    Some(ours)
}

/// Proves that no more fields are ours than these.
fn no_more_than(fields: usize, owned: View<'_>) -> Proof {
    let ours = owned.fields().filter(|(step, _)| step.starts_with("f:")).count();
    sure(ours == fields)
}

fn part(desired: View<'_>, live: View<'_>, owned: View<'_>) -> Proof {
    sure(owned.is_mapping())?;
    let Some((first, _)) = owned.fields().find(|(step, _)| *step != ".") else {
        return sure(desired.is_same(live));
    };
    if desired.is_mapping() && live.is_mapping() {
        let ours = mapping(desired.fields(), live, owned)?;
        no_more_than(ours, owned)
    } else if desired.is_list() && live.is_list() && first.starts_with("k:") {
        keyed(desired, live, owned)
    } else {
        None
    }
}

/// A list of mappings that are told apart by key fields.
fn keyed(desired: View<'_>, live: View<'_>, owned: View<'_>) -> Proof {
    let mut left = Vec::new();
    for (step, inside) in owned.fields() {
        if let Some(key) = step.strip_prefix("k:") {
            let key: serde_json::Value = serde_json::from_str(key).ok()?;
            left.push((key, inside));
        }
    }
    sure(left.len().saturating_mul(live.items().count()) <= PAIRS)?;
    let mut last = None;
    for item in desired.items() {
        let mut fitting = (0..left.len()).filter(|at| has_key(item, &left[*at].0, true));
        let at = fitting.next()?;
        sure(fitting.next().is_none())?;
        let (key, inside) = left.swap_remove(at);
        let mut there = live.items().enumerate();
        let (place, there) = there.find(|(_, there)| has_key(*there, &key, false))?;
        sure(last.is_none_or(|last| last <= place))?;
        last = Some(place);
        part(item, there, inside)?;
    }
    sure(left.is_empty())
}

fn has_key(item: View<'_>, key: &serde_json::Value, lenient: bool) -> bool {
    key.as_object().is_some_and(|key| {
        key.iter().all(|(field, value)| match item.get(field) {
            Some(found) => same(&found.value(), value),
            None => lenient,
        })
    })
}

fn is_whole(owned: View<'_>) -> bool {
    owned.is_mapping() && owned.fields().all(|(step, _)| step == ".")
}

fn sure(holds: bool) -> Proof {
    holds.then_some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::plan::applyset::set;
    use crate::plan::{Decision, owned_matches};
    use cutover_base::packed::Packed;

    const LABEL: (&str, &str) = ("set", "a");

    fn fast_path(desired: &Value, live: &Value, label: Option<(&str, &str)>) -> bool {
        let written = Packed::of(desired);
        let wanted = Wanted {
            written: written.view(),
            label,
        };
        is_in_sync(wanted, Packed::of(live).view(), "cutover")
    }

    fn thorough(desired: &Value, live: &Value, label: Option<(&str, &str)>) -> Decision {
        let mut desired = desired.clone();
        if let Some((name, value)) = label {
            set(&mut desired["metadata"], "labels", name, value);
        }
        owned_matches(&desired, live, "cutover")
    }

    fn scalars() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(json!(1)),
            Just(json!(1.0)),
            Just(json!("a")),
            Just(json!("")),
            Just(json!(null)),
            Just(json!(true)),
        ]
    }

    fn values() -> impl Strategy<Value = Value> {
        let names = prop::sample::select(vec!["a", "b", "name", "labels", "data"]);
        scalars().prop_recursive(4, 24, 4, move |inside| {
            let item = (prop::sample::select(vec!["x", "y"]), inside.clone())
                .prop_map(|(name, value)| json!({"name": name, "value": value}));
            prop_oneof![
                prop::collection::vec(inside.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(item, 0..3).prop_map(Value::from),
                prop::collection::vec((names.clone(), inside), 0..4).prop_map(|fields| Value::Object(
                    fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
                )),
            ]
        })
    }

    /// What the server would record of a value, more or less: lists with names by their keys.
    fn record(value: &Value) -> Value {
        match value {
            Value::Object(fields) if !fields.is_empty() => Value::Object(
                fields
                    .iter()
                    .map(|(name, value)| (format!("f:{name}"), record(value)))
                    .collect(),
            ),
            Value::Array(items)
                if !items.is_empty() && items.iter().all(|item| item.get("name").is_some()) =>
            {
                let item = |item: &Value| {
                    let mut inside = record(item);
                    inside["."] = json!({});
                    (format!("k:{}", json!({"name": item["name"]})), inside)
                };
                Value::Object(items.iter().map(item).collect::<Map<_, _>>())
            }
            _ => json!({}),
        }
    }

    /// One change somewhere in a value.
    fn nudge(value: &mut Value, path: &[usize], with: Option<&Value>) {
        let Some((step, deeper)) = path.split_first() else {
            if let Some(with) = with {
                *value = with.clone();
            }
            return;
        };
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                let name = fields.keys().nth(step % fields.len()).cloned().unwrap();
                match (deeper.is_empty(), with) {
                    (true, None) => drop(fields.shift_remove(&name)),
                    _ => nudge(&mut fields[&name], deeper, with),
                }
            }
            Value::Array(items) if !items.is_empty() => {
                let at = step % items.len();
                match (deeper.is_empty(), with) {
                    (true, None) => items.swap(at, 0),
                    _ => nudge(&mut items[at], deeper, with),
                }
            }
            _ => {}
        }
    }

    type Nudges = Vec<(usize, Vec<usize>, Option<Value>)>;

    fn nudges() -> impl Strategy<Value = Nudges> {
        let path = prop::collection::vec(0_usize..4, 1..5);
        prop::collection::vec((0_usize..3, path, prop::option::of(scalars())), 0..3)
    }

    fn case(
        kind: &str,
        labels: Value,
        spec: Value,
        label: Option<(&str, &str)>,
        nudges: Nudges,
    ) -> (Value, Value) {
        let mut desired =
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        if !labels.is_null() {
            desired["metadata"]["labels"] = labels;
        }
        let mut applied = desired.clone();
        if let Some((name, value)) = label {
            set(&mut applied["metadata"], "labels", name, value);
        }
        let mut owned = json!({"f:spec": record(&applied["spec"])});
        if let Some(labels) = applied["metadata"].get("labels") {
            owned["f:metadata"] = json!({"f:labels": record(labels)});
        }
        for (which, path, with) in nudges {
            let part = [&mut desired, &mut applied, &mut owned]
                .into_iter()
                .nth(which)
                .unwrap();
            nudge(part, &path, with.as_ref());
        }
        if applied["metadata"].is_object() {
            applied["metadata"]["managedFields"] = json!([
                {"manager": "else", "operation": "Update", "apiVersion": "apps/v1", "fieldsV1": {"f:spec": {}}},
                {"manager": "cutover", "operation": "Apply", "apiVersion": "apps/v1", "fieldsV1": owned},
            ]);
        }
        (desired, applied)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_the_fast_path_says_is_in_sync_is_in_sync(
            kind in prop::sample::select(vec!["Deployment", "Secret"]),
            labels in prop_oneof![Just(json!(null)), Just(json!({})), Just(json!({"x": "y"})), Just(json!({"set": "b"}))],
            spec in values(),
            label in prop::option::of(Just(LABEL)),
            nudges in nudges(),
        ) {
            let (desired, live) = case(kind, labels, spec, label, nudges);
            if fast_path(&desired, &live, label) {
                prop_assert_eq!(thorough(&desired, &live, label), Decision::InSync);
            }
        }
    }

    /// More fields than are looked through one by one, in another order than they are written.
    #[test]
    fn the_fast_path_is_enough_for_many_fields() {
        let many = |names: &mut dyn Iterator<Item = usize>| -> Value {
            names.map(|at| (format!("k{at}"), json!("v"))).collect()
        };
        let spec = many(&mut (0..500));
        let (desired, mut live) = case("ConfigMap", json!(null), spec, None, Vec::new());
        live["spec"] = many(&mut (0..500).rev());
        assert!(fast_path(&desired, &live, None));
        live["spec"]["k250"] = json!("w");
        assert!(!fast_path(&desired, &live, None));
    }

    #[test]
    fn the_fast_path_is_enough_for_what_is_usual() {
        let spec = json!({
            "replicas": 2, "template": {"containers": [{"name": "x", "args": ["a", "b"]}, {"name": "y", "env": []}]},
        });
        for label in [None, Some(LABEL)] {
            let (desired, live) = case("Deployment", json!({"x": "y"}), spec.clone(), label, Vec::new());
            assert!(fast_path(&desired, &live, label), "{label:?}");
            for (pointer, value) in [("/spec/replicas", json!(3)), ("/metadata/labels/x", json!("z"))] {
                let mut other = desired.clone();
                *other.pointer_mut(pointer).unwrap() = value;
                assert!(!fast_path(&other, &live, label), "{pointer}");
                assert_eq!(thorough(&other, &live, label), Decision::Differs);
            }
        }
    }
}
