//! What a server refuses of policies and bindings when they are written.

use serde_json::Value;

use super::super::cel::{Expression, RESERVED, Scope, Type};
use super::super::schema::{FieldError, Mistake};
use super::super::selector::{is_label_value, is_subdomain};
use super::policy::scope;

type Errors = Vec<FieldError>;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
    with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

/// Validates a `ValidatingAdmissionPolicy` after defaulting; conditions that stay as they were in `old` are not
/// compiled again.
pub(in super::super) fn policy(object: &Value, old: Option<&Value>) -> Errors {
    let spec = &object["spec"];
    let mut errors = Errors::new();
    one_of(spec, "spec", "failurePolicy", &["Fail", "Ignore"], &mut errors);
    let params = !spec["paramKind"].is_null();
    if params {
        param_kind(&spec["paramKind"], &mut errors);
    }
    if spec["matchConstraints"].is_null() {
        errors.push(FieldError::required("spec.matchConstraints", ""));
    } else {
        match_resources(&spec["matchConstraints"], "spec.matchConstraints", &mut errors);
        if items(&spec["matchConstraints"]["resourceRules"]).is_empty() {
            errors.push(FieldError::required("spec.matchConstraints.resourceRules", ""));
        }
    }
    let unchanged = old.is_some_and(|old| {
        let old = &old["spec"];
        old["paramKind"] == spec["paramKind"] && old["matchConditions"] == spec["matchConditions"]
    });
    if !unchanged {
        conditions(&spec["matchConditions"], params, &mut errors);
    }
    expressions(object, params, &mut errors);
    errors
}

/// Validates a `ValidatingAdmissionPolicyBinding` after defaulting.
pub(in super::super) fn binding(object: &Value) -> Errors {
    let spec = &object["spec"];
    let mut errors = Errors::new();
    match text(spec, "policyName") {
        "" => errors.push(FieldError::required("spec.policyName", "")),
        name if !is_subdomain(name) => {
            errors.push(FieldError::invalid("spec.policyName", name, SUBDOMAIN));
        }
        _ => {}
    }
    if !spec["paramRef"].is_null() {
        param_ref(&spec["paramRef"], &mut errors);
    }
    if !spec["matchResources"].is_null() {
        match_resources(&spec["matchResources"], "spec.matchResources", &mut errors);
    }
    actions(&spec["validationActions"], &mut errors);
    errors
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Checks a field that must have one of some values, in the order in which a server lists them.
fn one_of(of: &Value, path: &str, field: &str, allowed: &[&str], errors: &mut Errors) {
    let path = format!("{path}.{field}");
    match of[field].as_str() {
        None => errors.push(FieldError::required(path, "")),
        Some(value) if !allowed.contains(&value) => {
            errors.push(FieldError::not_supported(path, value, allowed));
        }
        Some(_) => {}
    }
}

fn param_kind(kind: &Value, errors: &mut Errors) {
    let path = |field: &str| format!("spec.paramKind.{field}");
    let api_version = text(kind, "apiVersion");
    let label = |text: &str| {
        text.len() <= 63
            && text.starts_with(|letter: char| letter.is_ascii_lowercase())
            && text.ends_with(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [""] => errors.push(FieldError::required(path("apiVersion"), "")),
        [group, _] if !group.is_empty() && !is_subdomain(group) => {
            errors.push(FieldError::invalid(path("apiVersion"), *group, SUBDOMAIN));
        }
        [_, ""] => {
            let why = "version must be specified";
            errors.push(FieldError::invalid(path("apiVersion"), api_version, why));
        }
        [version] | [_, version] if !label(version) => {
            errors.push(FieldError::invalid(path("apiVersion"), *version, LABEL_1035));
        }
        [_] | [_, _] => {}
        _ => {
            let why = format!("unexpected GroupVersion string: {api_version}");
            errors.push(FieldError::invalid(path("apiVersion"), api_version, why));
        }
    }
    match text(kind, "kind") {
        "" => errors.push(FieldError::required(path("kind"), "")),
        name if !label(&name.to_lowercase()) => {
            let why = format!("may have mixed case, but should otherwise match: {LABEL_1035}");
            errors.push(FieldError::invalid(path("kind"), name, why));
        }
        _ => {}
    }
}

fn match_resources(resources: &Value, path: &str, errors: &mut Errors) {
    one_of(resources, path, "matchPolicy", &["Equivalent", "Exact"], errors);
    for field in ["namespaceSelector", "objectSelector"] {
        selector(&resources[field], &format!("{path}.{field}"), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in items(&resources[field]).iter().enumerate() {
            named_rule(rule, &format!("{path}.{field}[{index}]"), errors);
        }
    }
}

fn selector(selector: &Value, path: &str, errors: &mut Errors) {
    if selector.is_null() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        qualified(key, &format!("{path}.matchLabels"), errors);
        let value = value.as_str().unwrap_or_default();
        if !is_label_value(value) {
            let why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                       and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                       '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
            errors.push(FieldError::invalid(format!("{path}.matchLabels"), value, why));
        }
    }
    for (index, expression) in items(&selector["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{index}]");
        let values = items(&expression["values"]);
        match text(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{path}.values"), why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{path}.values"), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                let why = "not a valid selector operator";
                errors.push(FieldError::invalid(format!("{path}.operator"), other, why));
            }
        }
        qualified(text(expression, "key"), &format!("{path}.key"), errors);
    }
}

fn named_rule(rule: &Value, path: &str, errors: &mut Errors) {
    let names = items(&rule["resourceNames"]);
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            errors.push(FieldError::duplicate(
                format!("{path}.resourceNames[{index}]"),
                name.clone(),
            ));
        }
    }
    let operations = items(&rule["operations"]);
    let operations_path = format!("{path}.operations");
    if operations.is_empty() {
        errors.push(FieldError::required(operations_path.as_str(), ""));
    }
    if operations.len() > 1 && operations.iter().any(|operation| operation == "*") {
        let why = "if '*' is present, must not specify other operations";
        errors.push(FieldError::invalid(
            operations_path.as_str(),
            operations.to_vec(),
            why,
        ));
    }
    for (index, operation) in operations.iter().enumerate() {
        let known = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
        if !known.iter().any(|known| operation == known) {
            let path = format!("{operations_path}[{index}]");
            errors.push(FieldError::not_supported(path, operation.clone(), &known));
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let path = format!("{path}.{field}");
        let listed = items(&rule[field]);
        if listed.is_empty() {
            errors.push(FieldError::required(path.as_str(), ""));
        }
        if listed.len() > 1 && listed.iter().any(|item| item == "*") {
            let why = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(path.as_str(), listed.to_vec(), why));
        }
        for (index, item) in listed.iter().enumerate() {
            if field == "apiVersions" && item == "" {
                errors.push(FieldError::required(format!("{path}[{index}]"), ""));
            }
        }
    }
    resources(items(&rule["resources"]), &format!("{path}.resources"), errors);
    let scopes = ["*", "Cluster", "Namespaced"];
    if let Some(scope) = rule["scope"].as_str().filter(|scope| !scopes.contains(scope)) {
        errors.push(FieldError::not_supported(format!("{path}.scope"), scope, &scopes));
    }
}

fn resources(listed: &[Value], path: &str, errors: &mut Errors) {
    if listed.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let names: Vec<&str> = listed.iter().filter_map(Value::as_str).collect();
    let has = |name: &str| names.contains(&name);
    for (index, name) in names.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let Some((resource, subresource)) = name.split_once('/') else {
            continue;
        };
        if has(&format!("{resource}/*")) && subresource != "*" {
            let why = format!("if '{resource}/*' is present, must not specify {name}");
            errors.push(FieldError::invalid(path, *name, why));
        } else if has(&format!("*/{subresource}")) && resource != "*" {
            let why = format!("if '*/{subresource}' is present, must not specify {name}");
            errors.push(FieldError::invalid(path, *name, why));
        }
    }
    let joined = || listed.to_vec();
    if names.len() > 1 && has("*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, joined(), why));
    }
    if has("*") && names.iter().any(|name| *name != "*" && !name.contains('/')) {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, joined(), why));
    }
}

fn conditions(listed: &Value, params: bool, errors: &mut Errors) {
    const MOST: usize = 64;
    let path = "spec.matchConditions";
    let listed = items(listed);
    if listed.len() > MOST {
        errors.push(FieldError::too_many(path, listed.len() as u64, MOST as u64));
    }
    let scope = scope(params, true);
    for (index, condition) in listed.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let expression = text(condition, "expression").trim();
        if expression.is_empty() {
            errors.push(FieldError::required(format!("{path}.expression"), ""));
        } else {
            check(
                expression,
                &scope,
                &[Type::Bool],
                &format!("{path}.expression"),
                errors,
            );
        }
        let name = text(condition, "name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else {
            qualified(name, &format!("{path}.name"), errors);
        }
        if !name.is_empty() && listed[..index].iter().any(|other| other["name"] == name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
    }
}

/// Checks variables, validations and audit annotations.
fn expressions(object: &Value, params: bool, errors: &mut Errors) {
    let spec = &object["spec"];
    let (mut with_authorizer, mut without) = (scope(params, true), scope(params, false));
    let variables = items(&spec["variables"]);
    if !variables.is_empty() {
        (with_authorizer, without) = (with_authorizer.composed(), without.composed());
    }
    for (index, variable) in variables.iter().enumerate() {
        let path = format!("spec.variables[{index}]");
        let Some(of) = self::variable(variable, &with_authorizer, &path, errors) else {
            continue;
        };
        with_authorizer.compose(text(variable, "name"), of.clone());
        without.compose(text(variable, "name"), of);
    }
    let validations = items(&spec["validations"]);
    let annotations = items(&spec["auditAnnotations"]);
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        for field in ["spec.validations", "spec.auditAnnotations"] {
            errors.push(FieldError::required(field, why));
        }
    }
    for (index, validation) in validations.iter().enumerate() {
        let path = format!("spec.validations[{index}]");
        self::validation(validation, &with_authorizer, &without, &path, errors);
    }
    let name = text(&object["metadata"], "name");
    for (index, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{index}]");
        let key = text(annotation, "key");
        qualified(&format!("{name}/{key}"), &format!("{path}.key"), errors);
        let expression = text(annotation, "valueExpression").trim();
        let field = format!("{path}.valueExpression");
        if expression.is_empty() {
            errors.push(FieldError::required(field, "valueExpression is not specified"));
        } else {
            check(
                expression,
                &with_authorizer,
                &[Type::String, Type::Null],
                &field,
                errors,
            );
        }
        if annotations[..index].iter().any(|other| other["key"] == key) {
            errors.push(FieldError::duplicate(format!("{path}.key"), key));
        }
    }
}

fn variable(variable: &Value, scope: &Scope, path: &str, errors: &mut Errors) -> Option<Type> {
    let name = text(variable, "name");
    if name.trim().is_empty() {
        errors.push(FieldError::required(
            format!("{path}.name"),
            "name is not specified",
        ));
    } else if !is_identifier(name) {
        let why = "must be a valid CEL identifier";
        errors.push(FieldError::invalid(format!("{path}.name"), name, why));
    }
    let expression = text(variable, "expression");
    let field = format!("{path}.expression");
    if expression.trim().is_empty() {
        errors.push(FieldError::required(field, "expression is not specified"));
        return None;
    }
    Some(check(expression, scope, &[], &field, errors))
}

fn validation(validation: &Value, scope: &Scope, of_message: &Scope, path: &str, errors: &mut Errors) {
    let expression = text(validation, "expression");
    let field = format!("{path}.expression");
    if expression.trim().is_empty() {
        errors.push(FieldError::required(field, "expression is not specified"));
    } else {
        check(expression, scope, &[Type::Bool], &field, errors);
    }
    let message_expression = text(validation, "messageExpression");
    let field = format!("{path}.messageExpression");
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        errors.push(FieldError::invalid(
            field,
            message_expression,
            "must be non-empty if specified",
        ));
    } else if !message_expression.is_empty() {
        check(message_expression, of_message, &[Type::String], &field, errors);
    }
    let message = text(validation, "message");
    let field = format!("{path}.message");
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(
            field,
            message,
            "must be non-empty if specified",
        ));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(FieldError::invalid(
            field,
            message,
            "must not contain line breaks",
        ));
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    if let Some(reason) = validation["reason"].as_str()
        && !reasons.contains(&reason)
    {
        errors.push(FieldError::not_supported(
            format!("{path}.reason"),
            reason,
            &reasons,
        ));
    }
}

/// Compiles an expression that must be of one of some types; of none means any.
fn check(source: &str, scope: &Scope, wanted: &[Type], path: &str, errors: &mut Errors) -> Type {
    let shown = |of: &Type| match of {
        Type::Null => "null_type".to_owned(),
        of => of.to_string(),
    };
    let detail = match Expression::compile(source, scope) {
        Ok(expression) if wanted.is_empty() || wanted.contains(expression.of()) => {
            return expression.of().clone();
        }
        Ok(expression) => match wanted {
            [only] => format!(
                "must evaluate to {} but got {}",
                shown(only),
                shown(expression.of())
            ),
            several => {
                let several: Vec<String> = several.iter().map(shown).collect();
                let several = several.join(" ");
                format!(
                    "must evaluate to one of [{several}] but got {}",
                    shown(expression.of())
                )
            }
        },
        Err(why) => format!("compilation failed: {why}"),
    };
    errors.push(FieldError::new(
        Mistake::Invalid,
        path,
        Some(source.into()),
        detail,
    ));
    Type::Dyn
}

fn param_ref(reference: &Value, errors: &mut Errors) {
    let path = |field: &str| format!("spec.paramRef.{field}");
    let name = text(reference, "name");
    let by_selector = !reference["selector"].is_null();
    if !name.is_empty() && by_selector {
        let why = "name and selector are mutually exclusive";
        errors.push(FieldError::forbidden(path("name"), why));
    }
    if by_selector {
        selector(&reference["selector"], &path("selector"), errors);
        if !name.is_empty() {
            let why = "name and selector are mutually exclusive";
            errors.push(FieldError::forbidden(path("selector"), why));
        }
    }
    if name.is_empty() && !by_selector {
        let why = "one of name or selector must be specified";
        errors.push(FieldError::required("spec.paramRef", why));
    }
    match text(reference, "parameterNotFoundAction") {
        "" => errors.push(FieldError::required(path("parameterNotFoundAction"), "")),
        "Allow" | "Deny" => {}
        other => errors.push(FieldError::not_supported(
            path("parameterNotFoundAction"),
            other,
            &["Deny", "Allow"],
        )),
    }
}

fn actions(listed: &Value, errors: &mut Errors) {
    let path = "spec.validationActions";
    let listed = items(listed);
    let known = ["Audit", "Deny", "Warn"];
    for (index, action) in listed.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if !known.iter().any(|known| action == known) {
            errors.push(FieldError::not_supported(path.as_str(), action.clone(), &known));
        }
        if listed[..index].contains(action) {
            errors.push(FieldError::duplicate(path, action.clone()));
        }
    }
    let has = |wanted: &str| listed.iter().any(|action| action == wanted);
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, listed.to_vec(), why));
    }
    if listed.is_empty() {
        let why = "at least one validation action is required";
        errors.push(FieldError::required(path, why));
    }
}

/// Checks a name that may have a subdomain before a slash.
fn qualified(name: &str, path: &str, errors: &mut Errors) {
    let mut refuse = |why: &str| errors.push(FieldError::invalid(path, name, why));
    let part = match name.split('/').collect::<Vec<_>>().as_slice() {
        [part] => *part,
        [prefix, part] => {
            if prefix.is_empty() {
                refuse("prefix part must be non-empty");
            } else if !is_subdomain(prefix) {
                refuse(&format!("prefix part {SUBDOMAIN}"));
            }
            *part
        }
        _ => {
            let name = QUALIFIED.trim_start_matches("name part");
            let prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            refuse(&format!("a valid label key{name} {prefix}"));
            return;
        }
    };
    if part.is_empty() {
        refuse("name part must be non-empty");
    } else if part.len() > 63 {
        refuse("name part must be no more than 63 bytes");
    }
    if part.is_empty() || (part.len() <= 63 && !is_label_value(part)) {
        refuse(QUALIFIED);
    }
}

fn is_identifier(name: &str) -> bool {
    let letter = |letter: char| letter.is_ascii_alphabetic() || letter == '_';
    name.starts_with(letter)
        && name.chars().all(|other| letter(other) || other.is_ascii_digit())
        && !RESERVED.contains(&name)
}
