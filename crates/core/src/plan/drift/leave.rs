//! Fields that are left to others.
//!
//! Such a field isn't simply taken out of what is applied: server-side apply would remove what nobody else owns. So what
//! only we own stays in it, as it is; what others own, and what isn't there, is taken out.

use std::borrow::Cow;

use serde_json::{Map, Value};
use wildmatch::WildMatchPattern;

use crate::config::Ignore;
use crate::plan::overlay::{Owners, owner_step};
use crate::plan::ownership::{has_key, managers, text};
use cutover_karmada::name::Gvk;

/// The ignore rules that are about one object.
#[derive(Clone, Debug, Default)]
pub struct Rules<'a> {
    pointers: Vec<&'a str>,
    managers: Vec<&'a str>,
}

/// `*` stands for any text, and nothing for one character: no name has a NUL.
type Pattern = WildMatchPattern<'*', '\0'>;

impl<'a> Rules<'a> {
    pub fn of(ignore: &'a [Ignore], gvk: &Gvk, name: &str) -> Self {
        let mut rules = Self::default();
        let fits = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|wanted| wanted == is);
        let about = ignore.iter().filter(|rule| {
            fits(&rule.group, &gvk.group)
                && fits(&rule.kind, &gvk.kind)
                && rule
                    .name
                    .as_ref()
                    .is_none_or(|pattern| Pattern::new(pattern).matches(name))
        });
        for rule in about {
            rules.pointers.extend(rule.pointers.iter().map(String::as_str));
            rules.managers.extend(rule.managers.iter().map(String::as_str));
        }
        rules
    }

    pub const fn is_empty(&self) -> bool {
        self.pointers.is_empty() && self.managers.is_empty()
    }

    /// Returns what is to be applied as `manager` to a live object: `desired` without the fields that are left to others,
    /// but for what would be removed by that.
    pub fn leave<'d>(&self, desired: &'d Value, live: Option<&Value>, manager: &str) -> Cow<'d, Value> {
        let Some(live) = live.filter(|_| !self.is_empty()) else {
            return Cow::Borrowed(desired);
        };
        let owners = Owners::of(live, manager);
        let mut left = desired.clone();
        for pointer in &self.pointers {
            let tokens: Vec<String> = pointer.split('/').skip(1).map(unescaped).collect();
            leave_at(&mut left, Some(live), &tokens, &owners);
        }
        for entry in managers(live) {
            let listed = text(entry, "manager").is_some_and(|name| self.managers.contains(&name));
            if let (true, Some(fields)) = (listed, entry.get("fieldsV1").and_then(Value::as_object)) {
                yield_to(&mut left, fields);
            }
        }
        Cow::Owned(left)
    }
}

fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Leaves what is at a place to others. An object that is empty by it goes too.
fn leave_at(desired: &mut Value, live: Option<&Value>, tokens: &[String], owners: &Owners<'_>) {
    let Some((token, deeper)) = tokens.split_first() else {
        return;
    };
    match desired {
        Value::Object(fields) => {
            let step = format!("f:{token}");
            let (there, owners) = (live.and_then(|live| live.get(token)), owners.under(&step));
            let Some(field) = fields.get_mut(token) else {
                return;
            };
            let gone = if deeper.is_empty() {
                match there.and_then(|there| only_ours(there, &owners)) {
                    Some(kept) => {
                        *field = kept;
                        false
                    }
                    None => true,
                }
            } else {
                let was_empty = is_empty(field);
                leave_at(field, there, deeper, &owners);
                is_empty(field) && !was_empty
            };
            if gone {
                fields.shift_remove(token);
            }
        }
        Value::Array(items) => {
            let Some(index) = token.parse::<usize>().ok().filter(|index| *index < items.len()) else {
                return;
            };
            leave_item(items, index, live.and_then(Value::as_array), deeper, owners);
        }
        _ => {}
    }
}

fn leave_item(
    items: &mut Vec<Value>,
    index: usize,
    live: Option<&Vec<Value>>,
    deeper: &[String],
    owners: &Owners<'_>,
) {
    match owner_step(owners, &items[index]) {
        Some(step) => {
            let key: Value = serde_json::from_str(&step[2..]).unwrap_or_default();
            let there = live.and_then(|live| live.iter().find(|item| has_key(item, &key, false)));
            let owners = owners.under(&step);
            if !deeper.is_empty() {
                leave_at(&mut items[index], there, deeper, &owners);
            } else if let Some(kept) = there.and_then(|there| only_ours(there, &owners)) {
                items[index] = with_key(kept, &key);
            } else {
                items.remove(index);
            }
        }
        // A list that is owned as a whole: it can only be sent as a whole.
        None => match (live.and_then(|live| live.get(index)), deeper.is_empty()) {
            (Some(there), true) => items[index].clone_from(there),
            (None, true) => drop(items.remove(index)),
            (there, false) => leave_at(&mut items[index], there, deeper, &whole()),
        },
    }
}

/// What is below something that is ours as a whole.
fn whole() -> Owners<'static> {
    static LEAF: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::Object(Map::new()));
    Owners {
        ours: vec![&LEAF],
        others: Vec::new(),
    }
}

/// Returns the part of a live value that nobody but us owns: what would be removed if we gave it up.
fn only_ours(live: &Value, owners: &Owners<'_>) -> Option<Value> {
    if owners.ours.is_empty() {
        return None;
    }
    let steps = |prefix: &str| owners.our_steps(prefix);
    let (fields, keys, values) = (steps("f:"), steps("k:"), steps("v:"));
    if fields.is_empty() && keys.is_empty() && values.is_empty() {
        return owners.others.is_empty().then(|| live.clone());
    }
    match live {
        Value::Object(live) => {
            let kept: Map<String, Value> = fields
                .iter()
                .filter_map(|step| {
                    let kept = only_ours(live.get(&step[2..])?, &owners.under(step))?;
                    Some((step[2..].to_owned(), kept))
                })
                .collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(live) => {
            let mut kept = Vec::new();
            for step in keys.iter().chain(&values) {
                let Ok(key) = serde_json::from_str::<Value>(&step[2..]) else {
                    continue;
                };
                let fits = |item: &&Value| {
                    if step.starts_with("k:") {
                        has_key(item, &key, false)
                    } else {
                        **item == key
                    }
                };
                let Some(item) = live.iter().find(fits) else {
                    continue;
                };
                if step.starts_with("v:") {
                    if !owners.shared(step) {
                        kept.push(item.clone());
                    }
                } else if let Some(item) = only_ours(item, &owners.under(step)) {
                    kept.push(with_key(item, &key));
                }
            }
            (!kept.is_empty()).then_some(Value::Array(kept))
        }
        _ => None,
    }
}

/// Returns an item of a list with the fields that say which it is.
fn with_key(mut item: Value, key: &Value) -> Value {
    if let (Some(item), Some(key)) = (item.as_object_mut(), key.as_object()) {
        for (field, value) in key {
            item.entry(field.clone()).or_insert_with(|| value.clone());
        }
    }
    item
}

/// Takes out what a manager owns.
fn yield_to(desired: &mut Value, owned: &Map<String, Value>) {
    for (step, inside) in owned {
        let Some(inside) = inside.as_object() else {
            continue;
        };
        let is_leaf = inside.keys().all(|step| step == ".");
        match desired {
            Value::Object(fields) => {
                let Some(name) = step.strip_prefix("f:") else {
                    continue;
                };
                let Some(field) = fields.get_mut(name) else {
                    continue;
                };
                let was_empty = is_empty(field);
                if !is_leaf {
                    yield_to(field, inside);
                }
                // A container alone isn't what somebody wants to have as it is.
                let gone = if is_leaf {
                    !inside.contains_key(".") || !field.is_object() && !field.is_array()
                } else {
                    is_empty(field) && !was_empty
                };
                if gone {
                    fields.shift_remove(name);
                }
            }
            Value::Array(items) => {
                let Ok(key) = serde_json::from_str::<Value>(step.get(2..).unwrap_or_default()) else {
                    continue;
                };
                if step.starts_with("v:") {
                    items.retain(|item| *item != key);
                } else if let Some(item) = items.iter_mut().find(|item| has_key(item, &key, true)) {
                    yield_to(item, inside);
                    *item = with_key(item.take(), &key);
                }
            }
            _ => {}
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
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

    fn left(pointers: &[&str], managers: &[&str], desired: &Value, live: &Value) -> Value {
        let rules = Rules {
            pointers: pointers.to_vec(),
            managers: managers.to_vec(),
        };
        rules.leave(desired, Some(live), US)["spec"].clone()
    }

    #[test]
    fn a_field_that_only_we_own_stays_as_it_is() {
        let ours = owned(US, "Apply", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}));
        let live = live(json!({"replicas": 3, "paused": true}), &[ours]);
        let git = desired(json!({"replicas": 1, "paused": false}));
        assert_eq!(
            left(&["/spec/replicas"], &[], &git, &live),
            json!({"replicas": 3, "paused": false})
        );
    }

    #[test]
    fn a_field_that_somebody_else_owns_is_given_up() {
        let ours = owned(US, "Apply", json!({"f:spec": {"f:replicas": {}, "f:paused": {}}}));
        let hpa = owned("hpa", "Update", json!({"f:spec": {"f:replicas": {}}}));
        let git = desired(json!({"replicas": 1, "paused": false}));
        let both = live(json!({"replicas": 1, "paused": false}), &[ours, hpa.clone()]);
        assert_eq!(
            left(&["/spec/replicas"], &[], &git, &both),
            json!({"paused": false})
        );
        assert_eq!(left(&[], &["hpa"], &git, &both), json!({"paused": false}));
        assert_eq!(left(&[], &["other"], &git, &both), git["spec"]);
        let theirs = live(json!({"replicas": 9}), &[hpa]);
        assert_eq!(
            left(
                &["/spec/replicas"],
                &[],
                &desired(json!({"replicas": 1})),
                &theirs
            ),
            Value::Null
        );
    }

    #[test]
    fn a_field_that_is_not_there_is_not_brought_back_but_a_new_object_has_gits() {
        let git = desired(json!({"replicas": 1, "paused": false}));
        let live = live(json!({}), &[]);
        assert_eq!(
            left(&["/spec/replicas"], &[], &git, &live),
            json!({"paused": false})
        );
        let rules = Rules {
            pointers: vec!["/spec/replicas"],
            managers: Vec::new(),
        };
        assert_eq!(*rules.leave(&git, None, US), git);
    }

    #[test]
    fn items_of_lists_are_found_by_their_keys() {
        let ours = owned(
            US,
            "Apply",
            json!({"f:spec": {"f:containers": {
                "k:{\"name\":\"app\"}": {".": {}, "f:name": {}, "f:image": {}},
                "k:{\"name\":\"proxy\"}": {".": {}, "f:name": {}, "f:image": {}},
            }}}),
        );
        let mesh = owned(
            "mesh",
            "Update",
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"proxy\"}": {".": {}, "f:name": {}, "f:image": {}}}}}),
        );
        let live = live(
            json!({"containers": [{"name": "proxy", "image": "p:9"}, {"name": "app", "image": "a:9"}]}),
            &[ours, mesh],
        );
        let git = desired(
            json!({"containers": [{"name": "app", "image": "a:1"}, {"name": "proxy", "image": "p:1"}]}),
        );
        assert_eq!(
            left(&["/spec/containers/0/image"], &["mesh"], &git, &live),
            json!({"containers": [{"name": "app", "image": "a:9"}, {"name": "proxy"}]})
        );
    }

    #[test]
    fn lists_that_are_owned_as_a_whole_are_sent_as_a_whole() {
        let ours = owned(US, "Apply", json!({"f:spec": {"f:args": {}}}));
        let live = live(json!({"args": ["a", "theirs"]}), &[ours]);
        let git = desired(json!({"args": ["a", "b", "c"]}));
        assert_eq!(
            left(&["/spec/args/2", "/spec/args/1"], &[], &git, &live),
            json!({"args": ["a", "theirs"]})
        );
    }

    #[test]
    fn a_rule_is_about_the_objects_that_it_names() {
        let rule = |group: Option<&str>, kind: Option<&str>, name: Option<&str>| Ignore {
            group: group.map(str::to_owned),
            kind: kind.map(str::to_owned),
            name: name.map(str::to_owned),
            pointers: vec!["/spec".into()],
            managers: Vec::new(),
        };
        let gvk = Gvk::new("apps/v1", "Deployment");
        for (rule, fits) in [
            (rule(None, None, None), true),
            (rule(Some("apps"), Some("Deployment"), Some("sh*p")), true),
            (rule(Some("apps"), Some("Deployment"), Some("*-web")), false),
            (rule(Some(""), None, None), false),
            (rule(None, Some("Service"), None), false),
        ] {
            let rules = [rule];
            assert_eq!(!Rules::of(&rules, &gvk, "shop").is_empty(), fits, "{rules:?}");
        }
    }

    #[test]
    fn a_name_with_many_stars_costs_little() {
        let rule = Ignore {
            group: None,
            kind: None,
            name: Some("*a".repeat(60) + "b"),
            pointers: vec!["/spec".into()],
            managers: Vec::new(),
        };
        let gvk = Gvk::new("apps/v1", "Deployment");
        // Each star tried at each letter would take longer than there is time.
        assert!(Rules::of(&[rule], &gvk, &"a".repeat(253)).is_empty());
    }
}
