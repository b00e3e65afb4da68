//! Validation of `metadata`: names, labels, owners, finalizers, and what can't change.

use serde_json::Value;

use super::metadata;
use super::registry::{Kind, NAMESPACES};
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
    let label = |part: &str| part.len() <= 63 && is_label(part);
    let refusal = match () {
        // Their names are those of users and rights: anything that fits into a path.
        () if kind.group() == "rbac.authorization.k8s.io" => {
            (name.contains(['/', '%']) || matches!(name, "." | "..")).then_some("may not contain '/'")
        }
        () if kind.resource == NAMESPACES && name.contains('.') => Some("must not contain dots"),
        () if kind.resource == NAMESPACES => (!label(name)).then_some(LABEL),
        () => (name.len() > 253 || !name.split('.').all(is_label)).then_some(SUBDOMAIN),
    };
    if let Some(why) = refusal {
        causes.push(Cause::invalid_value("metadata.name", &name.into(), why));
    }
}

fn transition(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    for field in ["uid", "deletionTimestamp"] {
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
    let added: Vec<String> = metadata::finalizers(new)
        .filter(|finalizer| !metadata::finalizers(old).any(|present| present == *finalizer))
        .map(|finalizer| format!("\"{finalizer}\""))
        .collect();
    if !added.is_empty() {
        let why = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        causes.push(Cause::forbidden("metadata.finalizers", &why));
    }
}

/// Checks the keys of labels and annotations, and the values of labels.
fn keyed(object: &Value, field: &str, causes: &mut Vec<Cause>) {
    let path = format!("metadata.{field}");
    for (key, value) in object["metadata"][field].as_object().into_iter().flatten() {
        let name = key.rsplit_once('/').map_or(key.as_str(), |(_, name)| name);
        if name.is_empty() || !is_label_value(name) {
            causes.push(Cause::invalid_value(
                path.as_str(),
                &key.as_str().into(),
                LABEL_NAME,
            ));
        }
        if field == "labels" && !value.as_str().is_some_and(is_label_value) {
            causes.push(Cause::invalid_value(path.as_str(), value, LABEL_VALUE));
        }
    }
}

fn owners(object: &Value, causes: &mut Vec<Cause>) {
    for owner in object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
    {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences.{field}");
                causes.push(Cause::invalid_value(path, &"".into(), "must not be empty"));
            }
        }
    }
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-' && inner(*byte));
    text.bytes().all(inner) && edge(text.as_bytes().first()) && edge(text.as_bytes().last())
}
