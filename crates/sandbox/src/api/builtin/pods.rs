//! What a kube-apiserver refuses of the pods in a template: a small part of it.

use serde_json::Value;

use super::super::schema::FieldError;
use super::quantity::billionths;

/// Checks the pods that an object makes.
pub(super) fn template(object: &Value, errors: &mut Vec<FieldError>) {
    let containers = object
        .pointer("/spec/template/spec/containers")
        .and_then(Value::as_array);
    if containers.is_none_or(Vec::is_empty) {
        errors.push(FieldError::required("spec.template.spec.containers", ""));
    }
    for list in ["initContainers", "containers"] {
        let pod = object.pointer("/spec/template/spec");
        let containers = pod.and_then(|pod| pod.get(list)).and_then(Value::as_array);
        for (index, container) in containers.into_iter().flatten().enumerate() {
            let path = format!("spec.template.spec.{list}[{index}]");
            environment(container, &path, errors);
            resources(container, &path, errors);
            if container.get("name").is_some_and(|name| name == "") {
                let path = format!("spec.template.spec.{list}[{index}].name");
                errors.push(FieldError::required(path, ""));
            }
            if container.get("image").is_none_or(|image| image == "") {
                let path = format!("spec.template.spec.{list}[{index}].image");
                errors.push(FieldError::required(path, ""));
            }
        }
    }
}

/// Checks that the variables of a container come from somewhere.
fn environment(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let variables = container.get("env").and_then(Value::as_array);
    for (index, variable) in variables.into_iter().flatten().enumerate() {
        let Some(source) = variable.get("valueFrom").and_then(Value::as_object) else {
            continue;
        };
        let said = variable.get("value").is_some_and(|value| value != "");
        let why = match source.len() {
            0 => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            _ if said => "may not be specified when `value` is not empty",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid(
            format!("{path}.env[{index}].valueFrom"),
            "",
            why,
        ));
    }
}

/// Checks that a container requests no more than its limit.
fn resources(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let requests = container
        .pointer("/resources/requests")
        .and_then(Value::as_object);
    for (name, request) in requests.into_iter().flatten() {
        let limit = container
            .pointer("/resources/limits")
            .and_then(|limits| limits.get(name));
        let (Some(asked), Some(most)) = (request.as_str(), limit.and_then(Value::as_str)) else {
            continue;
        };
        if billionths(asked) > billionths(most) {
            let why = format!("must be less than or equal to {name} limit of {most}");
            errors.push(FieldError::invalid(
                format!("{path}.resources.requests"),
                asked,
                why,
            ));
        }
    }
}
