//! What a server-side apply would make of a live object, as far as that can be told without a server.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use super::ownership::{has_key, managers, sent, text};

/// Returns `live` as applying `desired` as `manager` would leave it: what it says is set, what we owned and it no
/// longer says is removed unless somebody else owns it too, and the rest stays.
///
/// Lists whose items somebody owns by key are merged by it, as the schema says they are; other lists are replaced.
/// Conflicts, defaults and pruning are the server's.
pub fn overlay(desired: &Value, live: &Value, manager: &str) -> Value {
    let owners = Owners::of(live, manager);
    let mut result = live.clone();
    if let Some(fields) = result.as_object_mut() {
        merge_fields(fields, &sent(desired), &owners);
    }
    result
}

/// Who owns what at one place of the object.
#[derive(Default)]
pub(super) struct Owners<'a> {
    pub(super) ours: Vec<&'a Value>,
    pub(super) others: Vec<&'a Value>,
}

impl<'a> Owners<'a> {
    /// Returns who owns what of a live object; ours is what `manager` applied.
    pub(super) fn of(live: &'a Value, manager: &str) -> Self {
        let (ours, others): (Vec<&Value>, Vec<&Value>) = managers(live).partition(|entry| {
            text(entry, "manager") == Some(manager) && text(entry, "operation") == Some("Apply")
        });
        let fields = |entries: Vec<&'a Value>| entries.into_iter().filter_map(|entry| entry.get("fieldsV1"));
        Self {
            ours: fields(ours).collect(),
            others: fields(others).collect(),
        }
    }

    pub(super) fn under(&self, step: &str) -> Self {
        let go = |from: &[&'a Value]| from.iter().filter_map(|fields| fields.get(step)).collect();
        Self {
            ours: go(&self.ours),
            others: go(&self.others),
        }
    }

    /// Returns the steps below that begin with a prefix and that we own.
    pub(super) fn our_steps(&self, prefix: &str) -> Vec<String> {
        steps(&self.ours, prefix)
    }

    pub(super) fn shared(&self, step: &str) -> bool {
        self.others.iter().any(|fields| fields.get(step).is_some())
    }

    /// Returns the names of the fields that tell the items of a list apart.
    fn key_fields(&self) -> Option<Vec<String>> {
        let all: Vec<&Value> = self.ours.iter().chain(&self.others).copied().collect();
        let key: Value = serde_json::from_str(steps(&all, "k:").first()?.strip_prefix("k:")?).ok()?;
        Some(key.as_object()?.keys().cloned().collect())
    }

    fn is_set(&self) -> bool {
        !steps(&self.ours, "v:").is_empty() || !steps(&self.others, "v:").is_empty()
    }
}

fn steps(fields: &[&Value], prefix: &str) -> Vec<String> {
    fields
        .iter()
        .filter_map(|fields| fields.as_object())
        .flat_map(Map::keys)
        .filter(|step| step.starts_with(prefix))
        .cloned()
        .collect()
}

fn merge_fields(live: &mut Map<String, Value>, desired: &Map<String, Value>, owners: &Owners<'_>) {
    for step in owners.our_steps("f:") {
        let field = &step[2..];
        if !desired.contains_key(field) {
            remove(live, field, &owners.under(&step), owners.shared(&step));
        }
    }
    for (field, value) in desired {
        match live.get_mut(field) {
            Some(there) => merge(there, value, &owners.under(&format!("f:{field}"))),
            None => drop(live.insert(field.clone(), value.clone())),
        }
    }
}

/// Removes what is ours in a field that is no longer desired; all of it, when nobody else has a part in it.
fn remove(live: &mut Map<String, Value>, field: &str, owners: &Owners<'_>, shared: bool) {
    if !shared {
        live.shift_remove(field);
        return;
    }
    if let Some(Value::Object(fields)) = live.get_mut(field) {
        merge_fields(fields, &Map::new(), owners);
    }
}

fn merge(live: &mut Value, desired: &Value, owners: &Owners<'_>) {
    match (&mut *live, desired) {
        (Value::Object(live), Value::Object(desired)) if !is_atomic(owners) => {
            merge_fields(live, desired, owners);
        }
        (Value::Array(live), Value::Array(desired)) if owners.is_set() => merge_set(live, desired, owners),
        (Value::Array(items), Value::Array(wanted)) => match owners.key_fields() {
            Some(keys) => merge_items(items, wanted, &keys, owners),
            None => live.clone_from(desired),
        },
        _ => live.clone_from(desired),
    }
}

/// A mapping that is owned without a word about its fields is owned as a whole.
fn is_atomic(owners: &Owners<'_>) -> bool {
    let mut all = owners
        .ours
        .iter()
        .chain(&owners.others)
        .filter_map(|fields| fields.as_object())
        .peekable();
    all.peek().is_some() && all.all(Map::is_empty)
}

/// Lists may be long: nothing here goes through one list for each item of another.
fn merge_items(live: &mut Vec<Value>, desired: &[Value], keys: &[String], owners: &Owners<'_>) {
    let parse = |step: &str| serde_json::from_str::<Value>(step.get(2..)?).ok();
    // The server fills in key fields that are left out: items are found by those that they have.
    let forms: BTreeSet<Vec<&str>> = desired.iter().map(|item| form(item, keys)).collect();
    let wanted: HashSet<(Vec<&str>, String)> = (desired.iter())
        .filter_map(|item| {
            let form = form(item, keys);
            let label = label(item, &form)?;
            Some((form, label))
        })
        .collect();
    let all: Vec<&str> = keys.iter().map(String::as_str).collect();
    let is_wanted = |key: &Value| {
        let mut forms = forms.iter();
        forms.any(|form| label(key, form).is_some_and(|label| wanted.contains(&(form.clone(), label))))
    };
    let gone: HashSet<String> = (owners.our_steps("k:").into_iter())
        .filter(|step| !owners.shared(step))
        .filter_map(|step| parse(&step).filter(|key| !is_wanted(key)))
        .filter_map(|key| label(&key, &all))
        .collect();
    live.retain(|item| label(item, &all).is_none_or(|label| !gone.contains(&label)));

    let mut steps_of = HashMap::new();
    for step in steps(&owners.ours, "k:")
        .into_iter()
        .chain(steps(&owners.others, "k:"))
    {
        if let Some(label) = parse(&step).and_then(|key| label(&key, &all)) {
            steps_of.entry(label).or_insert(step);
        }
    }
    let mut places: HashMap<(&[&str], String), usize> = HashMap::new();
    let add = |places: &mut HashMap<_, _>, at: usize, item: &Value| {
        for form in &forms {
            if let Some(label) = label(item, form) {
                places.entry((form.as_slice(), label)).or_insert(at);
            }
        }
    };
    for (at, item) in live.iter().enumerate() {
        add(&mut places, at, item);
    }
    for item in desired {
        let form = forms
            .get(&form(item, keys))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let place = label(item, form).and_then(|label| places.get(&(form, label)));
        match place.and_then(|at| live.get_mut(*at)) {
            Some(there) => {
                let step = label(there, &all).and_then(|label| steps_of.get(&label));
                let owners = step.map_or_else(Owners::default, |step| owners.under(step));
                merge(there, item, &owners);
            }
            None => {
                add(&mut places, live.len(), item);
                live.push(item.clone());
            }
        }
    }
}

/// Returns those of the key fields that an item has.
fn form<'a>(item: &Value, keys: &'a [String]) -> Vec<&'a str> {
    let has = |key: &&'a String| item.get(key.as_str()).is_some();
    keys.iter().filter(has).map(String::as_str).collect()
}

/// Returns what an item says in these fields: the same text for what is the [`same`](super::ownership::same). `None` where it
/// lacks one of them, or has more than a scalar there.
fn label(item: &Value, keys: &[&str]) -> Option<String> {
    let mut label = String::new();
    for key in keys {
        let part = match item.get(key)? {
            Value::Number(number) if number.is_f64() => number.as_f64()?.to_string(),
            Value::Array(_) | Value::Object(_) => return None,
            scalar => scalar.to_string(),
        };
        label.extend([part.as_str(), "\n"]);
    }
    Some(label)
}

/// Returns the step that stands for an item of a list.
pub(super) fn owner_step(owners: &Owners<'_>, item: &Value) -> Option<String> {
    let all: Vec<&Value> = owners.ours.iter().chain(&owners.others).copied().collect();
    steps(&all, "k:")
        .into_iter()
        .find(|step| serde_json::from_str::<Value>(&step[2..]).is_ok_and(|key| has_key(item, &key, false)))
}

fn merge_set(live: &mut Vec<Value>, desired: &[Value], owners: &Owners<'_>) {
    let wanted: HashSet<String> = desired.iter().map(Value::to_string).collect();
    let gone: HashSet<String> = (owners.our_steps("v:").into_iter())
        .filter(|step| !owners.shared(step))
        .filter_map(|step| Some(serde_json::from_str::<Value>(step.get(2..)?).ok()?.to_string()))
        .filter(|value| !wanted.contains(value))
        .collect();
    live.retain(|item| !gone.contains(&item.to_string()));
    let mut there: HashSet<String> = live.iter().map(Value::to_string).collect();
    for item in desired {
        if there.insert(item.to_string()) {
            live.push(item.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ports(ports: &Value) -> Value {
        let named = |port: &Value| {
            let (port, protocol) = (&port["port"], port["protocol"].as_str().unwrap_or("TCP"));
            let key = format!(r#"k:{{"port":{port},"protocol":"{protocol}"}}"#);
            (key, json!({".": {}, "f:port": {}}))
        };
        let owned: Map<String, Value> = ports.as_array().into_iter().flatten().map(named).collect();
        let fields = json!({"f:spec": {"f:ports": owned}});
        json!({
            "metadata": {"managedFields": [{"manager": "cutover", "operation": "Apply", "fieldsV1": fields}]},
            "spec": {"ports": ports},
        })
    }

    fn applied(live: &Value, desired: &Value) -> Value {
        overlay(&json!({"spec": {"ports": desired}}), live, "cutover")["spec"]["ports"].clone()
    }

    #[test]
    fn an_item_that_git_removes_goes_whatever_the_others_leave_out() {
        let (udp, tcp) = (
            json!({"port": 53, "protocol": "UDP"}),
            json!({"port": 53, "protocol": "TCP"}),
        );
        let metrics = json!({"port": 9153, "protocol": "TCP"});
        let live = ports(&json!([udp, tcp, metrics]));
        assert_eq!(
            applied(&live, &json!([udp, {"port": 9153}])),
            json!([udp, metrics])
        );
    }

    #[test]
    fn an_item_is_found_by_what_it_says_of_its_key() {
        let live = ports(&json!([{"port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]));
        let desired = json!([{"port": 443, "name": "https"}, {"port": 8080, "protocol": "TCP"}]);
        let expected = json!([
            {"port": 443, "protocol": "TCP", "name": "https"}, {"port": 8080, "protocol": "TCP"},
        ]);
        assert_eq!(applied(&live, &desired), expected);
    }
}
