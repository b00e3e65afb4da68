//! Sequences about an admission policy: it, its binding and its parameters come, change and go while what they
//! are about is written. The expressions are of the sort that the fence of a migration is made of.

use serde_json::{Value, json};

use super::super::step::{MERGE, Step};
use super::super::values::{Dice, once_in, one};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CLAIMS: &str = "/apis/cutover.dev/v1alpha1/claims";
const MAPS: &str = "/api/v1/namespaces/${ns}/configmaps";

pub fn sequence(rng: &Dice) -> Vec<Step> {
    let mut steps = vec![
        Step::post(MAPS, map(rng, "a")),
        Step::post(CLAIMS, claim(rng)),
        Step::post(POLICIES, policy(rng)),
        Step::post(BINDINGS, binding(rng)),
        Step::settle(POLICIES),
    ];
    for _ in 0..rng.usize(2..5) {
        for _ in 0..rng.usize(2..5) {
            steps.push(write(rng));
        }
        steps.push(change(rng));
        steps.push(Step::settle(POLICIES));
    }
    for _ in 0..3 {
        steps.push(write(rng));
    }
    steps.push(Step::get(MAPS));
    steps
}

/// Writes what the policy is about.
fn write(rng: &Dice) -> Step {
    let name = one(rng, &["a", "b"]);
    let path = format!("{MAPS}/{name}");
    let map = map(rng, name);
    let step = match rng.usize(..9) {
        0..=2 => Step::post(MAPS, map),
        3 | 4 => Step::patch(
            path,
            MERGE,
            json!({"data": map["data"], "metadata": {"labels": map["metadata"]["labels"]}}),
        ),
        5 | 6 => Step::apply(path, "one", map).with("force", "true"),
        7 => Step::put_seen(path, format!("configmaps/{name}"), json!({"data": map["data"]})),
        _ => Step::delete(path),
    };
    if once_in(rng, 4) {
        step.with("dryRun", "All")
    } else {
        step
    }
}

fn map(rng: &Dice, name: &str) -> Value {
    let mut map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"clusters": one(rng, &["east", "west", "east,west", ""]), "marker": one(rng, &["m1", "m2"])},
    });
    if !once_in(rng, 3) {
        map["metadata"]["labels"] = json!({"claimed": one(rng, &["b1", "b2"])});
    }
    if once_in(rng, 8) {
        map["data"] = Value::Null;
    }
    map
}

/// Changes the policy, its binding, or its parameters.
fn change(rng: &Dice) -> Step {
    let (policy_path, binding_path) = (format!("{POLICIES}/${{ns}}-a"), format!("{BINDINGS}/${{ns}}-a"));
    let claim_path = format!("{CLAIMS}/${{ns}}-a");
    match rng.usize(..12) {
        0 | 1 => Step::apply(policy_path, "one", policy(rng)).with("force", "true"),
        2 => Step::put_seen(
            policy_path,
            "validatingadmissionpolicies/-a",
            json!({"spec": policy(rng)["spec"]}),
        ),
        3 => Step::patch(
            policy_path,
            MERGE,
            json!({"spec": {"validations": policy(rng)["spec"]["validations"]}}),
        ),
        4 => Step::delete(policy_path),
        5 => Step::post(POLICIES, policy(rng)),
        6 => Step::delete(binding_path),
        7 => Step::apply(binding_path, "one", binding(rng)).with("force", "true"),
        8 => Step::post(BINDINGS, binding(rng)),
        9 => Step::delete(claim_path),
        10 => Step::post(CLAIMS, claim(rng)),
        _ => Step::apply(claim_path, "one", claim(rng)).with("force", "true"),
    }
}

fn claim(rng: &Dice) -> Value {
    let clusters = [json!(["east"]), json!(["east", "west"]), json!([])];
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Claim",
        "metadata": {"name": "${ns}-a", "labels": {"set": one(rng, &["${ns}", "none"])}},
        "spec": {
            "workload": "orders", "bindingId": one(rng, &["b1", "b1", "b2"]), "attempt": one(rng, &[1, 2]), "seq": 1,
            "marker": one(rng, &["m1", "m2"]), "clusters": one(rng, &clusters),
            "owner": {"kind": "Migration", "namespace": "${ns}", "name": "m", "uid": "u"},
        },
    })
}

#[expect(clippy::too_many_lines, reason = "one field after the other")]
fn policy(rng: &Dice) -> Value {
    let conditions = [
        json!([]),
        json!([{"name": "claimed", "expression":
            "params.spec.bindingId in [object.metadata.?labels[?'claimed'].orValue('')]"}]),
        json!([{"name": "by-what-it-was", "expression":
            "oldObject == null || oldObject.metadata.?labels[?'claimed'].orValue('') == params.spec.bindingId"}]),
        json!([
            {"name": "changed", "expression": "request.operation == 'CREATE' || object.data != oldObject.data"},
            {"name": "named", "expression": "(object == null ? oldObject : object).metadata.name.startsWith('a')"},
        ]),
    ];
    let validations = [
        json!({"expression": "variables.after == variables.before || sets.equivalent(variables.after, params.spec.clusters)",
            "reason": "Forbidden",
            "messageExpression": "'claimed by ' + params.spec.owner.kind + ', which lets it run in ' + params.spec.clusters.join(', ')"}),
        json!({"expression": "variables.after.all(cluster, cluster in variables.before)", "message": "nothing is added"}),
        json!({"expression": "object.data.?marker.orValue('') == params.spec.marker",
            "messageExpression": "'does not carry the marker ' + params.spec.marker"}),
        json!({"expression": "params == null || params.spec.attempt < 2", "reason": "RequestEntityTooLarge"}),
        json!({"expression": "request.userInfo.username == 'system:admin'", "message": "by one alone"}),
        json!({"expression": "object == null || object.data.marker == 'm1'"}),
        json!({"expression": "object.data.missing == 'x'"}),
        json!({"expression": "request.?dryRun.orValue(false) || namespaceObject.metadata.name != ''"}),
    ];
    let operations = [
        json!(["CREATE", "UPDATE"]),
        json!(["UPDATE"]),
        json!(["CREATE", "UPDATE", "DELETE"]),
        json!(["*"]),
    ];
    let validations = match rng.usize(..3) {
        0 => json!([one(rng, &validations), one(rng, &validations)]),
        _ => json!([one(rng, &validations)]),
    };
    let mut policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "${ns}-a"},
        "spec": {
            "failurePolicy": one(rng, &["Fail", "Fail", "Ignore"]),
            "paramKind": {"apiVersion": "cutover.dev/v1alpha1", "kind": "Claim"},
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "${ns}"}},
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                    "operations": one(rng, &operations)}],
            },
            "matchConditions": one(rng, &conditions),
            "variables": [
                {"name": "before", "expression": "oldObject == null ? [] : oldObject.?data.clusters.orValue('').split(',')"},
                {"name": "after", "expression": "object == null ? [] : object.?data.clusters.orValue('').split(',')"},
            ],
            "validations": validations,
        },
    });
    if once_in(rng, 6) {
        policy["spec"]["matchConstraints"]["objectSelector"] = json!({"matchLabels": {"claimed": "b1"}});
    }
    if once_in(rng, 8) {
        policy["spec"]["validations"] = one(
            rng,
            &[
                json!([]),
                json!([{"expression": "1 +"}]),
                json!([{"expression": "object.nothing"}]),
            ],
        );
    }
    policy
}

fn binding(rng: &Dice) -> Value {
    let references = [
        // Not an empty one: that would select the parameters of other sequences, too.
        json!({"selector": {"matchLabels": {"set": "${ns}"}}, "parameterNotFoundAction": "Allow"}),
        json!({"selector": {"matchLabels": {"set": "${ns}"}}, "parameterNotFoundAction": "Deny"}),
        json!({"name": "${ns}-a", "parameterNotFoundAction": "Deny"}),
        json!({"name": "${ns}-a", "parameterNotFoundAction": "Allow"}),
    ];
    let actions = [
        json!(["Deny"]),
        json!(["Deny"]),
        json!(["Warn"]),
        json!(["Deny", "Audit"]),
        json!(["Deny", "Warn"]),
    ];
    let mut binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "${ns}-a"},
        "spec": {"policyName": "${ns}-a", "validationActions": one(rng, &actions), "paramRef": one(rng, &references)},
    });
    if once_in(rng, 5) {
        binding["spec"]["matchResources"] = json!({"objectSelector": {"matchLabels": {"claimed": "b1"}}});
    }
    binding
}
