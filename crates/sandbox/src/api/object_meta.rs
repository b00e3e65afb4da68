//! Validation of `metadata`: names, labels, owners, finalizers, and what can't change.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::metadata;
use super::registry::{Kind, NAMESPACES, SERVICES};
use super::selector::is_label_value;
use super::status::Cause;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
    start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
    '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex \
    used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Returns what is wrong with the metadata of an object; `old` is what it replaces.
pub(super) fn validate(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    match old {
        Some(old) => transition(old, object, &mut causes),
        None => name(kind, object, &mut causes),
    }
    keyed(object, "labels", &mut causes);
    keyed(object, "annotations", &mut causes);
    owners(object, &mut causes);
    finalizers(kind, object, &mut causes);
    causes
}

fn name(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    let name = metadata::name(object);
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
        return;
    }
    let refusal = match () {
        // Their names are those of users and rights: anything that fits into a path.
        () if kind.group() == "rbac.authorization.k8s.io" => {
            (name.contains(['/', '%']) || matches!(name, "." | "..")).then_some("may not contain '/'")
        }
        () if kind.resource == NAMESPACES || kind.resource == SERVICES => label_name_mistake(name),
        () => subdomain_mistake(name),
    };
    if let Some(why) = refusal {
        causes.push(Cause::invalid_value("metadata.name", &name.into(), why));
    }
}

fn transition(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    for field in ["uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new["metadata"][field] != old["metadata"][field] {
            let path = format!("metadata.{field}");
            causes.push(Cause::invalid_value(
                path,
                &new["metadata"][field],
                "field is immutable",
            ));
        }
    }
    if !metadata::is_terminating(old) {
        return;
    }
    let added: BTreeSet<String> = metadata::finalizers(new)
        .filter(|finalizer| !metadata::finalizers(old).any(|present| present == *finalizer))
        .map(|finalizer| format!("\"{finalizer}\""))
        .collect();
    if !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.into_iter().collect::<Vec<_>>().join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", &why));
    }
}

/// Checks the keys of labels and annotations, and the values of labels.
fn keyed(object: &Value, field: &str, causes: &mut Vec<Cause>) {
    let path = format!("metadata.{field}");
    let of = &object["metadata"][field];
    let wrong = if field == "labels" {
        label_mistakes(of)
    } else {
        // The case of annotations does not matter.
        key_mistakes(of, str::to_lowercase)
    };
    for (what, why) in wrong {
        causes.push(Cause::invalid_value(path.as_str(), &what, &why));
    }
}

fn key_mistakes(map: &Value, read: impl Fn(&str) -> String) -> Vec<(Value, String)> {
    let keys = map.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
    keys.flat_map(|key| {
        let wrong = qualified_name(&read(key)).into_iter();
        wrong.map(move |why| (key.into(), why))
    })
    .collect()
}

/// Returns what of labels is wrong, and why.
pub(super) fn label_mistakes(labels: &Value) -> Vec<(Value, String)> {
    let mut wrong = key_mistakes(labels, str::to_owned);
    for value in labels.as_object().into_iter().flatten().map(|(_, value)| value) {
        let text = value.as_str().unwrap_or_default();
        if text.len() > 63 {
            wrong.push((value.clone(), "must be no more than 63 bytes".to_owned()));
        } else if !is_label_value(text) {
            wrong.push((value.clone(), LABEL_VALUE.to_owned()));
        }
    }
    wrong
}

/// Returns what is wrong with a name that is one label of a domain.
pub fn label_name_mistake(name: &str) -> Option<&'static str> {
    match () {
        () if name.len() > 63 => Some("must be no more than 63 bytes"),
        () if is_label(name) => None,
        () if subdomain_mistake(name).is_none() => Some("must not contain dots"),
        () => Some(LABEL),
    }
}

/// Returns what is wrong with the name of a domain.
pub(super) fn subdomain_mistake(name: &str) -> Option<&'static str> {
    (name.len() > 253 || !name.split('.').all(is_label)).then_some(SUBDOMAIN)
}

/// Returns what is wrong with a name that may have a domain before it.
pub(super) fn qualified_name(name: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let part = match name.split('/').collect::<Vec<_>>().as_slice() {
        [part] => *part,
        [prefix, part] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else if prefix.len() > 253 || !prefix.split('.').all(is_label) {
                wrong.push(format!("prefix part {SUBDOMAIN}"));
            }
            *part
        }
        _ => {
            return vec![format!(
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                 with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                 validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and \
                 '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if part.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if part.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if part.is_empty() || !is_label_value(part) {
        wrong.push(LABEL_NAME.to_owned());
    }
    wrong
}

fn owners(object: &Value, causes: &mut Vec<Cause>) {
    const PATH: &str = "metadata.ownerReferences";
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut controller = None;
    for owner in owners.into_iter().flatten() {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        if text("apiVersion").is_empty() || text("apiVersion").matches('/').count() > 1 {
            let path = format!("{PATH}.apiVersion");
            causes.push(Cause::invalid_value(
                path,
                &text("apiVersion").into(),
                "version must not be empty",
            ));
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                let path = format!("{PATH}.{field}");
                causes.push(Cause::invalid_value(path, &"".into(), "must not be empty"));
            }
        }
        if owner["controller"] == true {
            let name = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                         and {name}"
                    );
                    causes.push(Cause::invalid_value(PATH, &shown(object), &why));
                }
            }
        }
    }
}

/// Returns the owners of an object as Go shows them: also what they lack.
fn shown(object: &Value) -> Value {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let whole = |owner: &Value| {
        let mut whole = json!({"apiVersion": "", "kind": "", "name": "", "uid": ""});
        for field in [
            "apiVersion",
            "kind",
            "name",
            "uid",
            "controller",
            "blockOwnerDeletion",
        ] {
            if !owner[field].is_null() {
                whole[field] = owner[field].clone();
            }
        }
        whole
    };
    owners.into_iter().flatten().map(whole).collect()
}

/// The finalizers that need no domain, but for the one of namespaces.
pub(super) const STANDARD: &[&str] = &["orphan", "foregroundDeletion", "kubernetes"];

fn finalizers(kind: &Kind, object: &Value, causes: &mut Vec<Cause>) {
    const PATH: &str = "metadata.finalizers";
    for finalizer in metadata::finalizers(object) {
        for why in qualified_name(finalizer) {
            causes.push(Cause::invalid_value(PATH, &finalizer.into(), &why));
        }
    }
    let has = |wanted: &str| metadata::finalizers(object).any(|finalizer| finalizer == wanted);
    if has("orphan") && has("foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(Cause::invalid_value(PATH, &object["metadata"]["finalizers"], why));
    }
    if kind.custom {
        return;
    }
    for (index, finalizer) in metadata::finalizers(object).enumerate() {
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid_value(
                format!("{PATH}[{index}]"),
                &finalizer.into(),
                why,
            ));
        }
    }
}

/// Returns what a real server warns of in the finalizers that a custom resource gets.
pub(super) fn warnings(kind: &Kind, object: &Value, old: Option<&Value>) -> Vec<String> {
    if !kind.custom {
        let dotted = kind.resource.plural == "deployments" && metadata::name(object).contains('.');
        let warning = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; \
                       a DNS label is recommended: [must not contain dots]";
        return if dotted && old.is_none() {
            vec![warning.to_owned()]
        } else {
            Vec::new()
        };
    }
    let is_new = |finalizer: &&str| {
        !old.is_some_and(|old| metadata::finalizers(old).any(|present| present == *finalizer))
    };
    let added: BTreeSet<&str> = metadata::finalizers(object).filter(is_new).collect();
    let bare = added
        .into_iter()
        .filter(|finalizer| !finalizer.contains('/') && !STANDARD.contains(finalizer));
    bare.map(|finalizer| {
        let path = if finalizer.contains('.') { "including a path (/) " } else { "" };
        format!(
            "metadata.finalizers: \"{finalizer}\": prefer a domain-qualified finalizer name {path}to avoid accidental \
             conflicts with other finalizer writers"
        )
    })
    .collect()
}

/// Returns the maps and lists in the metadata that are there and empty.
pub(super) fn empty_fields(object: &Value) -> BTreeSet<String> {
    let is_empty = |value: &Value| match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    let fields = object["metadata"].as_object().into_iter().flatten();
    fields
        .filter(|(_, value)| is_empty(value))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Leaves out what is empty, as Go does when it writes metadata.
pub(super) fn tidy(object: &mut Value) {
    let Some(Value::Object(fields)) = object.get_mut("metadata") else {
        return;
    };
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-' && inner(*byte));
    text.bytes().all(inner) && edge(text.as_bytes().first()) && edge(text.as_bytes().last())
}
