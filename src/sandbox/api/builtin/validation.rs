//! What a kube-apiserver refuses of built-in kinds, as far as clients of the sandbox meet it.

use serde_json::{Map, Value};

use super::super::admission::validation as admission;
use super::super::schema::{FieldError, Mistake};
use super::super::selector::Selector;
use super::BuiltIn;

/// Validates an object of a built-in kind after defaulting; `old` is what it replaces.
pub fn validate(kind: &BuiltIn, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match kind.plural {
        "validatingadmissionpolicies" => return admission::policy(object, old),
        "validatingadmissionpolicybindings" => return admission::binding(object),
        _ => {}
    }
    let mut errors: Vec<FieldError> = kind
        .schema()
        .validate(object, None)
        .into_iter()
        .filter(|error| matches!(error.mistake, Mistake::Required | Mistake::Duplicate))
        .filter(|error| !error.field.starts_with("status") && !error.field.starts_with("metadata"))
        .collect();
    match kind.plural {
        "deployments" | "statefulsets" | "daemonsets" | "replicasets" => workload(object, old, &mut errors),
        "configmaps" | "secrets" => immutable_data(object, old, &mut errors),
        _ => {}
    }
    if kind.plural == "statefulsets" {
        stateful_set(object, old, &mut errors);
    }
    errors
}

fn workload(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const SELECTOR: &str = "/spec/selector";
    let selector = object.pointer(SELECTOR);
    let labels = object.pointer("/spec/template/metadata/labels");
    if let Some(selector) = selector.filter(|selector| !selector.is_null()) {
        if selector.as_object().is_some_and(Map::is_empty) {
            let detail = "empty selector is invalid for deployment";
            errors.push(FieldError::invalid("spec.selector", selector.clone(), detail));
        }
        let matches = Selector::from_label_selector(selector).is_ok_and(|selector| selector.matches(labels));
        if !matches {
            let labels = labels.cloned().unwrap_or_else(|| Value::Object(Map::new()));
            let detail = "`selector` does not match template `labels`";
            errors.push(FieldError::invalid(
                "spec.template.metadata.labels",
                labels,
                detail,
            ));
        }
    }
    if let Some(replicas) = object
        .pointer("/spec/replicas")
        .filter(|replicas| replicas.as_i64() < Some(0))
    {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.replicas", replicas.clone(), detail));
    }
    if let Some(before) = old.and_then(|old| old.pointer(SELECTOR))
        && let Some(selector) = selector
        && before != selector
    {
        errors.push(FieldError::invalid(
            "spec.selector",
            selector.clone(),
            "field is immutable",
        ));
    }
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

fn immutable_data(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else {
        return;
    };
    let frozen = "field is immutable when `immutable` is set";
    if object.get("immutable") != old.get("immutable") {
        errors.push(FieldError::forbidden("immutable", frozen));
    }
    for field in ["data", "binaryData"] {
        if object.get(field) != old.get(field) {
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
                "spec.selector: Required value"
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
