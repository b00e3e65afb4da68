//! Names the addresses and node ports that a server has chosen for Services by their order within each Service.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

/// What was chosen: by the Service's uid and the value, which of the Service's it is.
#[derive(Default)]
pub(super) struct Chosen(BTreeMap<(String, String), usize>);

impl Chosen {
    pub(super) fn learn(&mut self, object: &Value) {
        let uid = uid_of(object);
        for_each(&object["spec"], &mut |value| {
            let of_same = self.0.keys().filter(|(owner, _)| owner == uid).count();
            self.0
                .entry((uid.to_owned(), value.to_string()))
                .or_insert(of_same + 1);
        });
    }

    pub(super) fn rename(&self, object: &mut Value) {
        let uid = uid_of(object).to_owned();
        let name = |value: &Value| {
            let place = self.0.get(&(uid.clone(), value.to_string()))?;
            Some(json!(format!("${{chosen {place}}}")))
        };
        rename_all(&mut object["spec"], &name);
    }
}

fn uid_of(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

/// Takes what was chosen out of a text.
pub(super) fn rename_text(text: &str) -> String {
    static ADDRESS: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b10\.0\.[1-9]\d*\.\d+\b").unwrap());
    static PORT: LazyLock<Regex> = LazyLock::new(|| {
        let chosen = r"(?:3[12]\d{3}|30[1-9]\d{2}|3008[6-9]|3009\d)";
        Regex::new(&format!(r"(^Duplicate value: |:|\{{[A-Za-z]* ){chosen}(/|\}}|$)")).unwrap()
    });
    let text = ADDRESS.replace_all(text, "$${address}");
    PORT.replace_all(&text, "${1}$${port}${2}").into_owned()
}

/// Visits what was chosen, in an order that is the same on both servers.
fn for_each(spec: &Value, visit: &mut impl FnMut(&Value)) {
    let ports = spec["ports"].as_array().into_iter().flatten();
    let ports = ports.map(|port| &port["nodePort"]);
    let others = [&spec["clusterIP"], &spec["healthCheckNodePort"]];
    others
        .into_iter()
        .chain(ports)
        .filter(|value| is_chosen(value))
        .for_each(visit);
}

fn is_chosen(value: &Value) -> bool {
    match value {
        Value::String(address) => address.starts_with("10.0.") && !address.starts_with("10.0.0."),
        Value::Number(port) => port
            .as_u64()
            .is_some_and(|port| (30_086..=32_767).contains(&port)),
        _ => false,
    }
}

fn rename_all(value: &mut Value, name: &impl Fn(&Value) -> Option<Value>) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| rename_all(value, name)),
        Value::Array(items) => items.iter_mut().for_each(|item| rename_all(item, name)),
        Value::String(_) | Value::Number(_) => {
            if let Some(name) = name(value) {
                *value = name;
            }
        }
        _ => {}
    }
}
