//! What a kube-apiserver refuses of built-in kinds, as far as clients of the sandbox meet it.

use serde_json::{Map, Value};

use super::super::admission::validation as admission;
use super::super::object_meta;
use super::super::schema::{FieldError, Mistake};
use super::super::selector::Selector;
use super::{BuiltIn, pods, services};

/// Validates an object of a built-in kind after defaulting; `old` is what it replaces.
pub fn validate(kind: &BuiltIn, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match kind.plural {
        "validatingadmissionpolicies" => return admission::policy(object, old),
        "validatingadmissionpolicybindings" => return admission::binding(object),
        "services" => return services::validate(object, old),
        _ => {}
    }
    let mut errors: Vec<FieldError> = kind
        .schema()
        .validate(object, None)
        .into_iter()
        .filter(|error| matches!(error.mistake, Mistake::Required | Mistake::Duplicate))
        .filter(|error| !error.field.starts_with("status") && !error.field.starts_with("metadata"))
        .map(by_key)
        .collect();
    match kind.plural {
        "deployments" | "statefulsets" | "daemonsets" | "replicasets" => workload(object, old, &mut errors),
        "namespaces" => {
            phase(object, old, &mut errors);
            held(object, &mut errors);
        }
        "configmaps" | "secrets" => {
            data_keys(object, &mut errors);
            immutable_data(kind, object, old, &mut errors);
        }
        _ => {}
    }
    if kind.plural == "deployments" {
        deployment_status(object, &mut errors);
    }
    if kind.plural == "secrets" {
        secret(object, old, &mut errors);
    }
    if kind.plural == "statefulsets" {
        stateful_set(object, old, &mut errors);
    }
    errors
}

/// Checks that a namespace says what it is about to become.
fn phase(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const DELETED: &str = "/metadata/deletionTimestamp";
    if old.is_none_or(|old| old.pointer(DELETED) != object.pointer(DELETED)) {
        return;
    }
    let phase = object.pointer("/status/phase").cloned().unwrap_or_default();
    let (wanted, is) = match object.pointer(DELETED) {
        None => ("Active", "is"),
        Some(_) => ("Terminating", "is not"),
    };
    if phase != wanted {
        let why = format!("may only be '{wanted}' if `deletionTimestamp` {is} empty");
        errors.push(FieldError::invalid("status.Phase", phase, why));
    }
}

/// Checks the finalizers of a namespace's content.
fn held(object: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = object.pointer("/spec/finalizers").and_then(Value::as_array);
    for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
        for why in object_meta::qualified_name(finalizer) {
            errors.push(FieldError::invalid("spec.finalizers", finalizer, why));
        }
        if !finalizer.contains('/') && !object_meta::STANDARD.contains(&finalizer) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid("spec.finalizers", finalizer, why));
        }
    }
}

/// Tells a mistake as the checks of built-in kinds do: a repeated item by the field that names it, a port that is missing
/// as zero.
fn by_key(error: FieldError) -> FieldError {
    let probes = ["httpGet.port", "tcpSocket.port"];
    if error.mistake == Mistake::Required && probes.iter().any(|probe| error.field.ends_with(probe)) {
        return FieldError::invalid(error.field, 0, "must be between 1 and 65535, inclusive");
    }
    let keys = error.value.as_ref().and_then(Value::as_object);
    let Some(keys) = keys.filter(|_| error.mistake == Mistake::Duplicate) else {
        return error;
    };
    match keys.iter().next() {
        Some((key, value)) => FieldError::duplicate(format!("{}.{key}", error.field), value.clone()),
        None => FieldError::duplicate(format!("{}.name", error.field), ""),
    }
}

fn workload(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const SELECTOR: &str = "/spec/selector";
    let selector = object.pointer(SELECTOR).map(without_empty);
    let selector = selector.as_ref();
    let labels = object.pointer("/spec/template/metadata/labels");
    // What isn't there at all is told by the schema below the lowest that is.
    errors.retain(|error| {
        !matches!(
            error.field.as_str(),
            "spec"
                | "spec.template"
                | "spec.template.spec"
                | "spec.selector"
                | "spec.template.spec.containers"
        )
    });
    if selector.is_none_or(Value::is_null) {
        errors.push(FieldError::required("spec.selector", ""));
        let detail = "`selector` does not match template `labels`";
        let labels = labels.cloned().unwrap_or_default();
        errors.push(FieldError::invalid(
            "spec.template.metadata.labels",
            labels,
            detail,
        ));
    }
    pods::template(object, errors);
    if let Some(selector) = selector.filter(|selector| !selector.is_null()) {
        if selector.as_object().is_some_and(Map::is_empty) {
            let detail = "empty selector is invalid for deployment";
            errors.push(FieldError::invalid("spec.selector", selector.clone(), detail));
        }
        let matches = Selector::from_label_selector(selector).is_ok_and(|selector| selector.matches(labels));
        if !matches {
            let labels = labels.cloned().unwrap_or_default();
            let detail = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid(
                "spec.template.metadata.labels",
                labels,
                detail,
            ));
        }
    }
    let strategy = object.pointer("/spec/strategy").unwrap_or(&Value::Null);
    if strategy["type"] == "Recreate" && !strategy["rollingUpdate"].is_null() {
        let detail = "may not be specified when strategy `type` is 'Recreate'";
        errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
    }
    counts(object, errors);
    if let Some(before) = old.and_then(|old| old.pointer(SELECTOR))
        && selector != Some(before)
    {
        errors.push(FieldError::invalid(
            "spec.selector",
            selector.cloned().unwrap_or_default(),
            "field is immutable",
        ));
    }
}

/// Checks the numbers of a workload.
fn counts(object: &Value, errors: &mut Vec<FieldError>) {
    let count = |field: &str| object.pointer(&format!("/spec/{field}")).and_then(Value::as_i64);
    for field in [
        "replicas",
        "minReadySeconds",
        "revisionHistoryLimit",
        "progressDeadlineSeconds",
    ] {
        if let Some(count) = count(field).filter(|count| *count < 0) {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("spec.{field}"), count, detail));
        }
    }
    let least = count("minReadySeconds").unwrap_or_default();
    if let Some(deadline) = count("progressDeadlineSeconds").filter(|deadline| *deadline <= least) {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(
            "spec.progressDeadlineSeconds",
            deadline,
            detail,
        ));
    }
}

/// Returns a map as Go shows it: without the parts that are empty.
fn without_empty(value: &Value) -> Value {
    let empty = |value: &Value| {
        value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
    };
    let mut value = value.clone();
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !empty(value));
    }
    value
}

/// Counts of replicas that can't be.
fn deployment_status(object: &Value, errors: &mut Vec<FieldError>) {
    let count = |name: &str| {
        let count = object.pointer(&format!("/status/{name}"));
        count.and_then(Value::as_i64).unwrap_or_default()
    };
    let mut limit = |name: &str, most: i64, detail: &str| {
        if count(name) > most {
            errors.push(FieldError::invalid(format!("status.{name}"), count(name), detail));
        }
    };
    for name in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        limit(name, count("replicas"), "cannot be greater than status.replicas");
    }
    limit(
        "availableReplicas",
        count("readyReplicas"),
        "cannot be greater than readyReplicas",
    );
}

fn stateful_set(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const MUTABLE: &[&str] = &[
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "selector",
    ];
    let fixed = |object: &Value| {
        let mut spec = object
            .get("spec")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        spec.retain(|name, _| !MUTABLE.contains(&name.as_str()));
        spec
    };
    if old.is_some_and(|old| fixed(old) != fixed(object)) {
        errors.push(FieldError::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
}

const DATA_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
    'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// Checks that keys can be names of files.
fn data_keys(object: &Value, errors: &mut Vec<FieldError>) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let keys = |field: &str| {
        object
            .get(field)
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(Map::keys)
    };
    for field in ["data", "binaryData"] {
        for key in keys(field) {
            let path = format!("{field}[{key}]");
            if key.is_empty() || !key.bytes().all(plain) {
                errors.push(FieldError::invalid(path.clone(), key.as_str(), DATA_KEY));
            }
            if field == "data" && keys("binaryData").any(|other| other == key) {
                errors.push(FieldError::invalid(
                    path,
                    key.as_str(),
                    "duplicate of key present in binaryData",
                ));
            }
        }
    }
}

/// Checks that a secret has what its type says.
fn secret(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let kind = object.get("type").cloned().unwrap_or_default();
    if old.is_some_and(|old| old.get("type") != object.get("type")) {
        errors.push(FieldError::invalid("type", kind.clone(), "field is immutable"));
    }
    let data = object.get("data");
    let has = |key: &str| data.and_then(|data| data.get(key)).is_some();
    let required: &[&str] = match kind.as_str() {
        Some("kubernetes.io/tls") => &["tls.crt", "tls.key"],
        Some("kubernetes.io/dockerconfigjson") => &[".dockerconfigjson"],
        Some("kubernetes.io/dockercfg") => &[".dockercfg"],
        Some("kubernetes.io/ssh-auth") => &["ssh-privatekey"],
        Some("kubernetes.io/basic-auth") if !has("username") && !has("password") => &["username", "password"],
        _ => &[],
    };
    let missing = required.iter().filter(|key| !has(key));
    errors.extend(missing.map(|key| FieldError::required(format!("data[{key}]"), "")));
}

fn immutable_data(kind: &BuiltIn, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else {
        return;
    };
    let frozen = "field is immutable when `immutable` is set";
    if object.get("immutable") != old.get("immutable") {
        errors.push(FieldError::forbidden("immutable", frozen));
    }
    // A ConfigMap without data gets some, which is empty.
    let nothing = Value::Object(Map::new());
    let filled = kind.plural == "configmaps";
    for field in ["data", "binaryData"] {
        let of = |object: &'_ Value| {
            let data = object.get(field).cloned();
            data.or_else(|| (filled && field == "data").then(|| nothing.clone()))
        };
        if of(object) != of(old) {
            errors.push(FieldError::forbidden(field, frozen));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::by_plural;
    use super::*;

    fn told(plural: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
        let kind = by_plural("apps", plural)
            .or_else(|| by_plural("", plural))
            .unwrap();
        validate(kind, object, old)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn deployment(selector: &Value, labels: &Value) -> Value {
        json!({"spec": {
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "b"}]}},
        }})
    }

    #[test]
    fn a_selector_must_match_its_template_and_stay() {
        let web = deployment(&json!({"app": "web"}), &json!({"app": "web"}));
        assert_eq!(told("deployments", &web, None), [""; 0]);
        assert_eq!(
            told(
                "deployments",
                &deployment(&json!({"app": "web"}), &json!({"app": "x"})),
                None
            ),
            [
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`"
            ]
        );
        assert_eq!(
            told(
                "deployments",
                &deployment(&json!({"app": "x"}), &json!({"app": "x"})),
                Some(&web)
            ),
            ["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\"}}: field is immutable"]
        );
    }

    #[test]
    fn what_a_workload_lacks_is_told() {
        let bare = json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}});
        assert_eq!(
            told("deployments", &bare, None),
            [
                "spec.template.spec.containers[0].name: Required value",
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
            ]
        );
    }

    #[test]
    fn an_immutable_config_map_stays_as_it_is() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        let new = json!({"immutable": true, "data": {"a": "2"}});
        assert_eq!(
            told("configmaps", &new, Some(&old)),
            ["data: Forbidden: field is immutable when `immutable` is set"]
        );
    }
}
