//! Policies and bindings as objects: what a server fills in, and what it refuses.

use http::Method;
use serde_json::{Value, json};

use super::both::{Both, Step};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

fn rules() -> Value {
    json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}])
}

fn policy(spec: &Value) -> Value {
    json!({"metadata": {"name": "a-policy"}, "spec": spec})
}

fn binding(spec: &Value) -> Value {
    json!({"metadata": {"name": "a-binding"}, "spec": spec})
}

/// A valid specification with one field set to something else.
fn with(mut spec: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    spec.pointer_mut(parent).unwrap()[field] = value;
    spec
}

#[allow(clippy::too_many_lines, reason = "a table is as long as it is")]
fn policies() -> Vec<Value> {
    let valid = || {
        json!({
            "matchConstraints": {"resourceRules": rules()},
            "matchConditions": [{"name": "named", "expression": "object != null"}],
            "variables": [{"name": "one", "expression": "1"}],
            "validations": [{"expression": "variables.one == 1"}],
            "auditAnnotations": [{"key": "said", "valueExpression": "'x'"}],
        })
    };
    let rule = "/matchConstraints/resourceRules/0";
    let mut cases = vec![
        valid(),
        json!({}),
        json!({"validations": []}),
        json!({"matchConstraints": {}, "validations": [{"expression": "true"}]}),
    ];
    for (pointer, value) in [
        ("/failurePolicy", json!("Ignore")),
        ("/failurePolicy", json!("Whatever")),
        (
            "/paramKind",
            json!({"apiVersion": "cutover.dev/v1alpha1", "kind": "Claim"}),
        ),
        ("/paramKind", json!({})),
        ("/paramKind", json!({"apiVersion": "a/b/c", "kind": "X"})),
        (
            "/paramKind",
            json!({"apiVersion": "UPPER/v1", "kind": "not valid"}),
        ),
        ("/paramKind", json!({"apiVersion": "group/", "kind": "X"})),
        ("/paramKind", json!({"apiVersion": "1v", "kind": "X"})),
        ("/matchConstraints/matchPolicy", json!("Exact")),
        ("/matchConstraints/matchPolicy", json!("Fuzzy")),
        (
            "/matchConstraints/namespaceSelector",
            json!({"matchLabels": {"a": "b"}}),
        ),
        (
            "/matchConstraints/namespaceSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        ),
        (
            "/matchConstraints/objectSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["x"]}]}),
        ),
        (
            "/matchConstraints/objectSelector",
            json!({"matchExpressions": [{"key": "a b", "operator": "Like", "values": ["x"]}]}),
        ),
        (
            "/matchConstraints/objectSelector",
            json!({"matchLabels": {"a": "not a label!"}}),
        ),
        ("/matchConstraints/excludeResourceRules", rules()),
        (&format!("{rule}/operations"), json!([])),
        (&format!("{rule}/operations"), json!(["*", "CREATE"])),
        (&format!("{rule}/operations"), json!(["CREATE", "PATCH"])),
        (&format!("{rule}/apiGroups"), json!([])),
        (&format!("{rule}/apiGroups"), json!(["*", "apps"])),
        (&format!("{rule}/apiVersions"), json!([""])),
        (&format!("{rule}/apiVersions"), json!(["*", "v1"])),
        (&format!("{rule}/resources"), json!([])),
        (&format!("{rule}/resources"), json!([""])),
        (&format!("{rule}/resources"), json!(["*", "deployments"])),
        (&format!("{rule}/resources"), json!(["*/*", "deployments"])),
        (
            &format!("{rule}/resources"),
            json!(["deployments/*", "deployments/scale"]),
        ),
        (
            &format!("{rule}/resources"),
            json!(["*/scale", "deployments/scale"]),
        ),
        (&format!("{rule}/scope"), json!("Cluster")),
        (&format!("{rule}/scope"), json!("Galaxy")),
        (&format!("{rule}/resourceNames"), json!(["a", "a"])),
        ("/matchConditions/0/name", json!("")),
        ("/matchConditions/0/name", json!("not a name")),
        ("/matchConditions/0/expression", json!("  ")),
        ("/matchConditions/0/expression", json!("object.a")),
        ("/matchConditions/0/expression", json!("variables.one == 1")),
        ("/matchConditions/0/expression", json!("params.x == 1")),
        (
            "/matchConditions",
            json!([{"name": "a", "expression": "true"}, {"name": "a", "expression": "false"}]),
        ),
        ("/variables/0/name", json!("")),
        ("/variables/0/name", json!("not-a-name")),
        ("/variables/0/name", json!("namespace")),
        ("/variables/0/name", json!("other")),
        ("/variables/0/expression", json!("")),
        ("/variables/0/expression", json!("variables.one")),
        ("/variables/0/expression", json!("object.a +")),
        (
            "/variables",
            json!([{"name": "one", "expression": "object.a"}, {"name": "two", "expression": "variables.one + 1"}]),
        ),
        (
            "/variables",
            json!([{"name": "one", "expression": "'text'"}, {"name": "two", "expression": "variables.one + 1"}]),
        ),
        ("/variables", json!([])),
        ("/validations/0/expression", json!("")),
        ("/validations/0/expression", json!("object.a")),
        ("/validations/0/expression", json!("variables.one")),
        ("/validations/0/expression", json!("variables.one == 'x'")),
        ("/validations/0/expression", json!("variables['one'] == 1")),
        ("/validations/0/message", json!("fine")),
        ("/validations/0/message", json!("  ")),
        ("/validations/0/message", json!("two\nlines")),
        (
            "/validations/0/messageExpression",
            json!("'it is ' + string(variables.one)"),
        ),
        ("/validations/0/messageExpression", json!("  ")),
        ("/validations/0/messageExpression", json!("1")),
        ("/validations/0/messageExpression", json!("object.a")),
        (
            "/validations/0/messageExpression",
            json!("string(authorizer.path('/').check('get').allowed())"),
        ),
        ("/validations/0/reason", json!("Forbidden")),
        ("/validations/0/reason", json!("Unauthorized")),
        ("/validations/0/reason", json!("Teapot")),
        ("/auditAnnotations/0/key", json!("")),
        ("/auditAnnotations/0/key", json!("a/b")),
        ("/auditAnnotations/0/valueExpression", json!("")),
        ("/auditAnnotations/0/valueExpression", json!("1")),
        ("/auditAnnotations/0/valueExpression", json!("null")),
        ("/auditAnnotations/0/valueExpression", json!("object.a")),
        (
            "/auditAnnotations",
            json!([{"key": "a", "valueExpression": "'x'"}, {"key": "a", "valueExpression": "'y'"}]),
        ),
    ] {
        cases.push(with(valid(), pointer, value));
    }
    cases.iter().map(policy).collect()
}

fn bindings() -> Vec<Value> {
    let valid = || json!({"policyName": "a-policy", "validationActions": ["Deny"]});
    let mut cases = vec![
        valid(),
        json!({}),
        json!({"policyName": "", "validationActions": []}),
        json!({"policyName": "UPPER", "validationActions": ["Deny"]}),
    ];
    for (pointer, value) in [
        ("/validationActions", json!(["Warn", "Audit"])),
        ("/validationActions", json!(["Deny", "Warn"])),
        ("/validationActions", json!(["Deny", "Deny"])),
        ("/validationActions", json!(["Shout"])),
        (
            "/paramRef",
            json!({"name": "a", "parameterNotFoundAction": "Deny"}),
        ),
        (
            "/paramRef",
            json!({"selector": {}, "parameterNotFoundAction": "Allow"}),
        ),
        ("/paramRef", json!({"name": "a"})),
        ("/paramRef", json!({"parameterNotFoundAction": "Deny"})),
        (
            "/paramRef",
            json!({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}),
        ),
        (
            "/paramRef",
            json!({"name": "a", "parameterNotFoundAction": "Shrug"}),
        ),
        ("/matchResources", json!({})),
        ("/matchResources", json!({"resourceRules": rules()})),
        ("/matchResources", json!({"matchPolicy": "Fuzzy"})),
    ] {
        cases.push(with(valid(), pointer, value));
    }
    cases.iter().map(binding).collect()
}

#[tokio::test]
async fn policies_and_bindings_are_accepted_and_refused_in_the_same_words() {
    let Some(both) = Both::start("policies and bindings as objects").await else {
        return;
    };
    let mut different = Vec::new();
    for (path, objects) in [(POLICIES, policies()), (BINDINGS, bindings())] {
        for object in objects {
            let step = Step::post(format!("{path}?dryRun=All"), object.clone());
            let (sandbox, real) = both.ask(&step).await;
            if sandbox != real {
                let (sandbox, real) = (
                    format!("{} {} {}", sandbox.code, sandbox.message, sandbox.details),
                    format!("{} {} {}", real.code, real.message, real.details),
                );
                different.push(format!(
                    "{}\n  sandbox {sandbox}\n  real    {real}",
                    object["spec"]
                ));
            }
        }
    }
    assert!(
        different.is_empty(),
        "{} differ:\n{}",
        different.len(),
        different.join("\n")
    );
}

#[tokio::test]
async fn a_policy_is_changed_as_an_object_with_a_status_is() {
    let Some(both) = Both::start("changes of a policy").await else {
        return;
    };
    let name = format!("changed-{}", both.namespace);
    let path = format!("{POLICIES}/{name}");
    let mut policy = policy(&json!({
        "matchConstraints": {"resourceRules": rules()},
        "matchConditions": [{"name": "a", "expression": "true"}],
        "validations": [{"expression": "true"}],
    }));
    policy["metadata"]["name"] = json!(name);
    both.write(&Step::post(POLICIES, policy.clone())).await;
    let unversioned = both.same(&Step::put(&path, policy)).await;
    assert_eq!(unversioned.code, 422);
    for step in [
        Step::merge(&path, json!({"spec": {"failurePolicy": "Ignore"}})),
        Step::merge(&path, json!({"metadata": {"labels": {"a": "b"}}})),
        Step::merge(&path, json!({"status": {"observedGeneration": 7}})),
        Step::merge(
            format!("{path}/status"),
            json!({"status": {"observedGeneration": 2}}),
        ),
        Step::merge(
            &path,
            json!({"spec": {"validations": [{"expression": "object.x"}]}}),
        ),
        Step::apply(
            &path,
            json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "spec": {"matchConditions": [{"name": "b", "expression": "1 == 1"}]}}),
        ),
        Step::delete(&path),
        Step::new(Method::DELETE, &path, None),
    ] {
        both.same(&step).await;
    }
}
