//! Combinations from a seed: operations, conditions, parameters, failure policies, actions.

use fastrand::Rng;
use serde_json::{Value, json};

use super::both::{Both, Step};

const SEED: u64 = 36;
const CASES: usize = 100;

fn one<'a, T>(rng: &mut Rng, of: &'a [T]) -> &'a T {
    &of[rng.usize(..of.len())]
}

/// Returns a policy and a binding of a case.
fn case(rng: &mut Rng, name: &str, namespace: &str, case: &str) -> (Value, Value) {
    let operations = [
        json!(["CREATE"]),
        json!(["UPDATE"]),
        json!(["DELETE"]),
        json!(["CREATE", "DELETE"]),
        json!(["*"]),
    ];
    let conditions = [
        json!([]),
        json!([{"name": "a", "expression": "true"}]),
        json!([{"name": "a", "expression": "request.operation != 'UPDATE'"}]),
        json!([{"name": "a", "expression": "object.data.a == '1'"}]),
        json!([{"name": "a", "expression": "oldObject.data.a == '1'"}, {"name": "b", "expression": "has(object.data)"}]),
        json!([{"name": "a", "expression": "params.spec.marker == 'x'"}]),
    ];
    let references = [
        Value::Null,
        json!({"name": format!("{namespace}-x"), "parameterNotFoundAction": "Deny"}),
        json!({"name": format!("{namespace}-none"), "parameterNotFoundAction": "Allow"}),
        json!({"name": format!("{namespace}-none"), "parameterNotFoundAction": "Deny"}),
        json!({"selector": {"matchLabels": {"set": namespace}}, "parameterNotFoundAction": "Deny"}),
        json!({"selector": {"matchLabels": {"set": "none"}}, "parameterNotFoundAction": "Allow"}),
    ];
    let validations = [
        json!({"expression": "false", "message": "never"}),
        json!({"expression": "true"}),
        json!({"expression": "object == null || object.data.a == '1'", "messageExpression": "request.operation"}),
        json!({"expression": "params == null || params.spec.attempt < 5", "message": "too many"}),
        json!({"expression": "variables.changed", "reason": "Forbidden"}),
        json!({"expression": "params.spec.clusters.all(c, c in ['east'])", "message": "not there"}),
        json!({"expression": "oldObject.data.b == '1'"}),
    ];
    let policy = json!({"metadata": {"name": name}, "spec": {
        "failurePolicy": one(rng, &["Fail", "Ignore"]),
        "paramKind": {"apiVersion": "cutover.dev/v1alpha1", "kind": "Claim"},
        "matchConstraints": {
            "objectSelector": {"matchLabels": {"case": case}},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": one(rng, &operations),
                "resources": ["configmaps"]}],
        },
        "matchConditions": one(rng, &conditions),
        "variables": [{"name": "changed", "expression": "object.data != oldObject.data"}],
        "validations": [one(rng, &validations), one(rng, &validations)],
    }});
    let binding = json!({"metadata": {"name": name}, "spec": {
        "policyName": name,
        "paramRef": one(rng, &references),
        "validationActions": one(rng, &[json!(["Deny"]), json!(["Deny"]), json!(["Warn"]), json!(["Audit", "Deny"])]),
    }});
    (policy, binding)
}

#[tokio::test]
async fn combinations_are_judged_alike() {
    let Some(both) = Both::start("combinations of policies").await else {
        return;
    };
    let namespace = both.namespace.clone();
    for (name, attempt, clusters) in [("x", 3, json!(["east"])), ("y", 3, json!(["east", "west"]))] {
        let claim = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Claim",
            "metadata": {"name": format!("{namespace}-{name}"), "labels": {"set": namespace}},
            "spec": {"workload": "x", "bindingId": "b", "attempt": attempt, "seq": 1, "marker": name,
                "clusters": clusters, "owner": {"kind": "Migration", "namespace": "n", "name": "m", "uid": "u"}},
        });
        both.write(&Step::post("/apis/cutover.dev/v1alpha1/claims", claim))
            .await;
    }
    let mut rng = Rng::with_seed(SEED);
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = |case: &str, value: &str| json!({"metadata": {"name": case, "labels": {"case": case}}, "data": {"a": value}});
    let (mut policies, mut bindings) = (Vec::new(), Vec::new());
    for number in 0..CASES {
        let name = format!("case-{number}");
        both.write(&Step::post(&maps, map(&name, "1"))).await;
        let (policy, binding) = case(&mut rng, &format!("{namespace}-{number}"), &namespace, &name);
        policies.push(policy);
        bindings.push(binding);
    }
    both.install(&policies, &bindings).await;
    let mut different = Vec::new();
    for number in 0..CASES {
        let name = format!("case-{number}");
        let mut fresh = map(&name, one::<&str>(&mut rng, &["1", "2"]));
        fresh["metadata"]["name"] = json!(format!("new-{number}"));
        let steps = [
            Step::post(format!("{maps}?dryRun=All"), fresh),
            Step::merge(
                format!("{maps}/{name}?dryRun=All"),
                json!({"data": {"a": one(&mut rng, &["1", "2"])}}),
            ),
            Step::delete(format!("{maps}/{name}?dryRun=All")),
        ];
        for step in steps {
            let (sandbox, real) = both.ask(&step).await;
            if sandbox != real && !same_in_another_order(&sandbox, &real) {
                let spec = (&policies[number]["spec"], &bindings[number]["spec"]);
                different.push(format!(
                    "{step:?}\n  {spec:?}\n  sandbox {sandbox:?}\n  real    {real:?}"
                ));
            }
        }
    }
    both.remove(&policies, &bindings).await;
    assert!(
        different.is_empty(),
        "{} differ:\n{}",
        different.len(),
        different.join("\n")
    );
}

/// A real server takes several parameters in no order, so that either of several refusals may be told.
fn same_in_another_order(sandbox: &super::both::Answer, real: &super::both::Answer) -> bool {
    let told = |message: &str| {
        message
            .split(" denied request: ")
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    sandbox.code >= 400 && real.code >= 400 && told(&sandbox.message) == told(&real.message)
}
