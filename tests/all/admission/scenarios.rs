//! Policies at work: which requests they are about, with what parameters, and how a refusal reads.

use serde_json::{Value, json};

use super::both::{Both, Step};

const CLAIMS: &str = "/apis/cutover.dev/v1alpha1/claims";

/// Policies, their bindings, and requests of one test.
struct Stage {
    both: Both,
    policies: Vec<Value>,
    bindings: Vec<Value>,
    different: Vec<String>,
}

impl Stage {
    async fn start(test: &str) -> Option<Self> {
        Some(Self {
            both: Both::start(test).await?,
            policies: Vec::new(),
            bindings: Vec::new(),
            different: Vec::new(),
        })
    }

    /// Adds a policy on objects with the label `case: <case>` and a binding of it.
    fn policy(&mut self, case: &str, spec: &Value, binding: &Value) {
        let name = format!("{case}-{}", self.both.namespace);
        let mut policy = json!({"metadata": {"name": name}, "spec": {
            "matchConstraints": {
                "objectSelector": {"matchLabels": {"case": case}},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.both.namespace}},
                "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
            },
            "validations": [{"expression": "false"}],
        }});
        merge(&mut policy["spec"], spec);
        let mut bound =
            json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
        merge(&mut bound["spec"], binding);
        self.policies.push(policy);
        self.bindings.push(bound);
    }

    async fn install(&self) {
        self.both.install(&self.policies, &self.bindings).await;
    }

    async fn ask(&mut self, step: Step) {
        let (sandbox, real) = self.both.ask(&step).await;
        if sandbox != real {
            self.different
                .push(format!("{step:?}\n  sandbox {sandbox:?}\n  real    {real:?}"));
        }
    }

    async fn end(self) {
        self.both.remove(&self.policies, &self.bindings).await;
        let different = self.different;
        assert!(
            different.is_empty(),
            "{} differ:\n{}",
            different.len(),
            different.join("\n")
        );
    }

    fn maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.both.namespace)
    }
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (field, value) in from {
                merge(into.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => into.clone_from(from),
    }
}

fn config_map(name: &str, case: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"case": case}},
        "data": {"a": "1"}})
}

fn claim(name: &str, marker: &str) -> Value {
    json!({
        "apiVersion": "cutover.dev/v1alpha1", "kind": "Claim",
        "metadata": {"name": name, "labels": {"set": name.split('.').next().unwrap()}},
        "spec": {"workload": "x", "bindingId": "b", "attempt": 1, "seq": 1, "marker": marker, "clusters": ["east"],
            "owner": {"kind": "Migration", "namespace": "n", "name": "m", "uid": "u"}},
    })
}

#[allow(clippy::too_many_lines, reason = "a table is as long as it is")]
#[tokio::test]
async fn a_refusal_reads_the_same() {
    let Some(mut stage) = Stage::start("refusals of policies").await else {
        return;
    };
    let one = |validation: Value| json!({"validations": [validation]});
    let nothing = json!({});
    let cases = [
        ("plain", one(json!({"expression": " false "}))),
        (
            "said",
            one(json!({"expression": "false", "message": " no ", "reason": "Forbidden"})),
        ),
        (
            "large",
            one(json!({"expression": "false", "message": "big", "reason": "RequestEntityTooLarge"})),
        ),
        (
            "made",
            one(json!({"expression": "false", "message": "no",
            "messageExpression": "'not ' + object.metadata.name"})),
        ),
        (
            "unmade",
            one(json!({"expression": "false", "message": "no", "messageExpression": "string(object.x.y)"})),
        ),
        (
            "lines",
            one(json!({"expression": "false", "message": "no", "messageExpression": "'a' + '\\n' + 'b'"})),
        ),
        (
            "blank",
            one(json!({"expression": "false", "messageExpression": "'  '"})),
        ),
        (
            "broken",
            one(json!({"expression": "object.x.y == 1", "message": "no", "reason": "Forbidden"})),
        ),
        (
            "ignored",
            json!({"failurePolicy": "Ignore", "validations": [{"expression": "object.x.y == 1"}]}),
        ),
        (
            "second",
            json!({"validations": [{"expression": "true"}, {"expression": "1 == 2", "message": "second"}]}),
        ),
        (
            "first",
            json!({"validations": [{"expression": "1 == 2"}, {"expression": "1 == 3"}]}),
        ),
        (
            "mixed",
            json!({"validations": [{"expression": "object.x == 1"}, {"expression": "1 == 3"}]}),
        ),
        (
            "condition-no",
            json!({"matchConditions": [{"name": "a", "expression": "false"}]}),
        ),
        (
            "condition-yes",
            json!({"matchConditions": [{"name": "a", "expression": "true"}]}),
        ),
        (
            "condition-bad",
            json!({"matchConditions": [{"name": "a", "expression": "object.x == 1"}]}),
        ),
        (
            "condition-worse",
            json!({"matchConditions": [{"name": "a", "expression": "object.x == 1"},
            {"name": "b", "expression": "object.y == 1"}, {"name": "c", "expression": "object.y == 1"}]}),
        ),
        (
            "condition-both",
            json!({"matchConditions": [{"name": "a", "expression": "object.x == 1"},
            {"name": "b", "expression": "1 == 2"}]}),
        ),
        (
            "condition-ignored",
            json!({"failurePolicy": "Ignore",
            "matchConditions": [{"name": "a", "expression": "object.x == 1"}]}),
        ),
        (
            "condition-namespace",
            json!({"matchConditions": [
            {"name": "a", "expression": "namespaceObject.metadata.name == 'x'"}]}),
        ),
        (
            "condition-null",
            json!({"matchConditions": [{"name": "a", "expression": "namespaceObject == null"}]}),
        ),
        (
            "variables",
            json!({"variables": [{"name": "a", "expression": "object.data.a"},
            {"name": "b", "expression": "variables.a + '!'"}], "validations": [{"expression": "variables.b == '2!'",
            "messageExpression": "'it is ' + variables.b"}]}),
        ),
        (
            "variables-bad",
            json!({"variables": [{"name": "a", "expression": "object.x"},
            {"name": "b", "expression": "variables.a"}], "validations": [{"expression": "variables.b == '2'"}]}),
        ),
        (
            "variables-unused",
            json!({"variables": [{"name": "a", "expression": "object.x"}],
            "validations": [{"expression": "true || variables.a == 1"}]}),
        ),
        (
            "audit",
            json!({"validations": [{"expression": "true"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "'x'"}]}),
        ),
        (
            "audit-bad",
            json!({"validations": [{"expression": "true"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "string(object.x)"}]}),
        ),
        (
            "audit-ignored",
            json!({"failurePolicy": "Ignore", "validations": [{"expression": "true"}],
            "auditAnnotations": [{"key": "k", "valueExpression": "string(object.x)"}]}),
        ),
        (
            "has",
            one(json!({"expression": "has(oldObject.data) || has(object.data.a.b)"})),
        ),
    ];
    for (case, spec) in &cases {
        stage.policy(case, spec, &nothing);
    }
    let actions = [
        json!(["Warn"]),
        json!(["Audit"]),
        json!(["Warn", "Audit"]),
        json!(["Deny", "Audit"]),
    ];
    for (number, actions) in actions.iter().enumerate() {
        let spec = one(json!({"expression": "false", "message": "said \"no\""}));
        stage.policy(
            &format!("acts-{number}"),
            &spec,
            &json!({"validationActions": actions}),
        );
    }
    stage.install().await;
    let names = cases.iter().map(|(case, _)| (*case).to_owned());
    let names: Vec<String> = names
        .chain((0..actions.len()).map(|number| format!("acts-{number}")))
        .collect();
    for case in &names {
        let path = stage.maps();
        stage.ask(Step::post(&path, config_map(case, case))).await;
    }
    let mut generated = config_map("", "said");
    generated["metadata"] = json!({"generateName": "gen-", "labels": {"case": "said"}});
    let path = stage.maps();
    stage.ask(Step::post(&path, generated)).await;
    stage.end().await;
}

#[tokio::test]
async fn every_way_to_write_is_reviewed_as_what_it_is() {
    let Some(mut stage) = Stage::start("operations under policies").await else {
        return;
    };
    let told = "request.operation + ' ' + (has(request.name) ? request.name : '-') + ' ' + \
        (has(request.subResource) ? request.subResource : '-') + ' ' + request.kind.kind + ' ' + \
        request.resource.resource + ' ' + string(request.dryRun) + ' ' + request.options.kind + ' ' + \
        string(object == null) + string(oldObject == null) + ' ' + request.userInfo.username + ' ' + \
        request.userInfo.groups.join(',')";
    for operation in ["CREATE", "UPDATE", "DELETE"] {
        let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": [operation], "resources": ["*/*"]}]);
        let spec = json!({"matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": "false", "messageExpression": told}]});
        stage.policy(&operation.to_lowercase(), &spec, &json!({}));
    }
    let scales = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["deployments/scale"]}]);
    let spec = json!({"matchConstraints": {"resourceRules": scales, "objectSelector": {"matchLabels": null}},
        "validations": [{"expression": "object.spec.replicas <= oldObject.spec.replicas",
            "messageExpression": "object.apiVersion + ' ' + object.kind + ' ' + object.metadata.name + ' ' + \
                request.requestKind.group + ' ' + request.resource.group"}]});
    stage.policy("scale", &spec, &json!({}));
    let (maps, namespace) = (stage.maps(), stage.both.namespace.clone());
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    for case in ["update", "delete"] {
        stage.both.write(&Step::post(&maps, config_map(case, case))).await;
        let deployment = json!({"metadata": {"name": case, "labels": {"case": case}}, "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        }});
        stage.both.write(&Step::post(&deployments, deployment)).await;
    }
    stage.install().await;
    let mut replaced = config_map("update", "update");
    replaced["data"]["a"] = json!("2");
    let steps = [
        Step::post(&maps, config_map("create", "create")),
        Step::post(format!("{maps}?dryRun=All"), config_map("create", "create")),
        Step::post(&maps, config_map("create", "create")).by("system:serviceaccount:a:b"),
        Step::post(&maps, config_map("create", "create")).by("somebody"),
        Step::apply(format!("{maps}/create"), config_map("create", "create")),
        Step::put(format!("{maps}/update"), replaced.clone()),
        Step::merge(format!("{maps}/update"), json!({"data": {"a": "3"}})),
        Step::merge(format!("{maps}/update"), json!({"data": {"a": "1"}})),
        Step::merge(
            format!("{maps}/update"),
            json!({"metadata": {"labels": {"case": "free"}}}),
        ),
        Step::apply(format!("{maps}/update"), replaced),
        Step::merge(format!("{maps}/absent"), json!({"data": {"a": "3"}})),
        Step::delete(format!("{maps}/update")),
        Step::delete(format!("{maps}/delete")),
        Step::delete(format!("{maps}/delete?dryRun=All")),
        Step::delete(format!("{maps}?labelSelector=case=delete")),
        Step::merge(
            format!("{deployments}/update/status"),
            json!({"status": {"replicas": 2}}),
        ),
        Step::merge(
            format!("{deployments}/update/scale"),
            json!({"spec": {"replicas": 2}}),
        ),
        Step::merge(format!("{deployments}/update"), json!({"spec": {"replicas": 2}})),
        Step::merge(format!("{deployments}/update"), json!({"spec": {"replicas": -2}})),
        Step::delete(format!("{deployments}/delete")),
        Step::post(&maps, config_map("Not A Name", "create")),
        Step::post(
            "/api/v1/namespaces/absent/configmaps",
            config_map("create", "create"),
        ),
    ];
    for step in steps {
        stage.ask(step).await;
    }
    stage.end().await;
}

#[tokio::test]
async fn rules_and_selectors_say_which_requests_are_meant() {
    let Some(mut stage) = Stage::start("rules of policies").await else {
        return;
    };
    let rule = |fields: &Value| {
        let mut rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["configmaps"]});
        merge(&mut rule, fields);
        json!([rule])
    };
    let rules = [
        json!({}),
        json!({"apiGroups": ["apps"]}),
        json!({"apiVersions": ["v2"]}),
        json!({"operations": ["UPDATE"]}),
        json!({"operations": ["*"]}),
        json!({"operations": ["CONNECT"]}),
        json!({"resources": ["*"]}),
        json!({"resources": ["*/*"]}),
        json!({"resources": ["configmaps/*"]}),
        json!({"resources": ["configmaps/status"]}),
        json!({"resources": ["secrets"]}),
        json!({"scope": "Namespaced"}),
        json!({"scope": "Cluster"}),
        json!({"resourceNames": ["other"]}),
        json!({"resourceNames": ["other", "rule-14"]}),
    ];
    for (number, fields) in rules.iter().enumerate() {
        let spec = json!({"matchConstraints": {"resourceRules": rule(fields)}});
        stage.policy(&format!("rule-{number}"), &spec, &json!({}));
    }
    let everywhere = rule(&json!({}));
    let none = json!({"matchLabels": {"no": "such"}});
    let constraints = [
        json!({"excludeResourceRules": everywhere}),
        json!({"excludeResourceRules": rule(&json!({"operations": ["DELETE"]}))}),
        json!({"namespaceSelector": none}),
        json!({"objectSelector": {"matchExpressions": [{"key": "case", "operator": "Exists"}]}}),
        json!({"objectSelector": none}),
        json!({"matchPolicy": "Exact"}),
    ];
    for (number, constraint) in constraints.iter().enumerate() {
        let spec = json!({"matchConstraints": constraint});
        stage.policy(&format!("constraint-{number}"), &spec, &json!({}));
    }
    let resources = [
        json!({}),
        json!({"resourceRules": everywhere}),
        json!({"resourceRules": rule(&json!({"resources": ["secrets"]}))}),
        json!({"namespaceSelector": none}),
        json!({"objectSelector": none}),
        json!({"excludeResourceRules": everywhere}),
    ];
    for (number, resources) in resources.iter().enumerate() {
        stage.policy(
            &format!("bound-{number}"),
            &json!({}),
            &json!({"matchResources": resources}),
        );
    }
    stage.install().await;
    let groups = [
        ("rule", rules.len()),
        ("constraint", constraints.len()),
        ("bound", resources.len()),
    ];
    for (group, count) in groups {
        for number in 0..count {
            let case = format!("{group}-{number}");
            let path = stage.maps();
            // Without a label, one policy that selects by its presence alone still has no say.
            stage.ask(Step::post(&path, config_map(&case, &case))).await;
        }
    }
    stage.end().await;
}

#[allow(clippy::too_many_lines, reason = "a table is as long as it is")]
#[tokio::test]
async fn parameters_are_found_by_name_and_by_selector() {
    let Some(mut stage) = Stage::start("parameters of policies").await else {
        return;
    };
    let namespace = stage.both.namespace.clone();
    let name = |of: &str| format!("{namespace}-{of}");
    let claims = [
        claim(&name("one"), "1"),
        claim(&format!("{namespace}.two"), "2"),
        claim(&format!("{namespace}.three"), "2"),
    ];
    for claim in &claims {
        stage.both.write(&Step::post(CLAIMS, claim.clone())).await;
    }
    let pins = format!("/apis/policy.karmada.io/v1alpha1/namespaces/{namespace}/overridepolicies");
    let pin = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy",
        "metadata": {"name": "pin", "annotations": {"marker": "3"}}, "spec": {"overrideRules": []}});
    stage.both.write(&Step::post(&pins, pin)).await;

    let cluster = json!({"apiVersion": "cutover.dev/v1alpha1", "kind": "Claim"});
    let namespaced = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy"});
    let of_claim = json!([{"expression": "object.data.a == params.spec.marker",
        "messageExpression": "'needs ' + params.spec.marker + ' of ' + params.kind + ' ' + params.apiVersion"}]);
    let of_pin = json!([{"expression": "object.data.a == params.metadata.annotations.marker"}]);
    let of_none = json!([{"expression": "params != null", "message": "there are none"}]);
    let selector = json!({"matchLabels": {"set": namespace}});
    let cases = [
        (
            "named",
            &cluster,
            &of_claim,
            json!({"name": name("one"), "parameterNotFoundAction": "Deny"}),
        ),
        (
            "selected",
            &cluster,
            &of_claim,
            json!({"selector": selector, "parameterNotFoundAction": "Deny"}),
        ),
        (
            "absent-deny",
            &cluster,
            &of_claim,
            json!({"name": name("zero"), "parameterNotFoundAction": "Deny"}),
        ),
        (
            "absent-allow",
            &cluster,
            &of_claim,
            json!({"name": name("zero"), "parameterNotFoundAction": "Allow"}),
        ),
        (
            "unselected-deny",
            &cluster,
            &of_claim,
            json!({"selector": {"matchLabels": {"set": "none"}}, "parameterNotFoundAction": "Deny"}),
        ),
        (
            "unselected-allow",
            &cluster,
            &of_claim,
            json!({"selector": {"matchLabels": {"set": "none"}}, "parameterNotFoundAction": "Allow"}),
        ),
        (
            "no-namespace",
            &cluster,
            &of_claim,
            json!({"name": name("one"), "namespace": "default", "parameterNotFoundAction": "Allow"}),
        ),
        (
            "own-namespace",
            &namespaced,
            &of_pin,
            json!({"name": "pin", "parameterNotFoundAction": "Deny"}),
        ),
        (
            "own-namespace-all",
            &namespaced,
            &of_pin,
            json!({"selector": {}, "parameterNotFoundAction": "Deny"}),
        ),
        (
            "that-namespace",
            &namespaced,
            &of_pin,
            json!({"name": "pin", "namespace": namespace, "parameterNotFoundAction": "Deny"}),
        ),
        (
            "other-namespace",
            &namespaced,
            &of_pin,
            json!({"name": "pin", "namespace": "default", "parameterNotFoundAction": "Deny"}),
        ),
        ("no-reference", &cluster, &of_none, Value::Null),
    ];
    for (case, kind, validations, reference) in &cases {
        let spec = json!({"paramKind": kind, "validations": validations});
        stage.policy(case, &spec, &json!({"paramRef": reference}));
    }
    let unknown = json!({"apiVersion": "cutover.dev/v1alpha1", "kind": "Nothing"});
    let reference = json!({"paramRef": {"name": "a", "parameterNotFoundAction": "Allow"}});
    stage.policy("unknown", &json!({"paramKind": unknown}), &reference);
    stage.policy(
        "unknown-ignored",
        &json!({"paramKind": unknown, "failurePolicy": "Ignore"}),
        &reference,
    );
    stage.policy(
        "unneeded",
        &json!({"validations": [{"expression": "false"}]}),
        &reference,
    );
    stage.policy("condition", &json!({"paramKind": cluster,
        "matchConditions": [{"name": "a", "expression": "params.spec.marker == '1'"}],
        "validations": [{"expression": "false", "messageExpression": "params.metadata.name.substring(0, 4)"}]}),
        &json!({"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}}));
    // A cluster-scoped object with namespaced parameters.
    stage.policy(
        "clusterwide",
        &json!({"paramKind": namespaced, "validations": of_pin}),
        &json!({"paramRef": {"name": "pin", "parameterNotFoundAction": "Allow"}}),
    );
    stage.install().await;
    let names: Vec<String> = cases.iter().map(|(case, ..)| (*case).to_owned()).collect();
    let others = ["unknown", "unknown-ignored", "unneeded", "condition"].map(str::to_owned);
    for case in names.iter().chain(&others) {
        for value in ["1", "2", "3"] {
            let mut map = config_map(case, case);
            map["data"]["a"] = json!(value);
            let path = format!("{}?dryRun=All", stage.maps());
            stage.ask(Step::post(&path, map)).await;
        }
    }
    let mut role =
        json!({"metadata": {"name": name("role"), "labels": {"case": "clusterwide"}}, "rules": []});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    stage.ask(Step::post(roles, role.clone())).await;
    role["metadata"]["labels"] = json!({"case": "free"});
    stage.ask(Step::post(roles, role)).await;
    // A changed parameter comes into force by itself.
    let maps = stage.maps();
    let named = |value: &str| {
        let mut map = config_map("named", "named");
        map["data"]["a"] = json!(value);
        Step::post(format!("{maps}?dryRun=All"), map)
    };
    let (before, after) = (named("1"), named("9"));
    let path = format!("{CLAIMS}/{}", name("one"));
    stage
        .both
        .write(&Step::merge(&path, json!({"spec": {"marker": "9"}})))
        .await;
    stage.both.until(&before, 422).await;
    stage.ask(after).await;
    stage.both.write(&Step::delete(&path)).await;
    stage.both.until(&named("9"), 422).await;
    stage.ask(named("9")).await;
    for claim in &claims[1..] {
        let path = format!("{CLAIMS}/{}", claim["metadata"]["name"].as_str().unwrap());
        stage.both.write(&Step::delete(path)).await;
    }
    stage.end().await;
}

#[tokio::test]
async fn namespaces_are_reviewed_as_objects_of_their_own() {
    let Some(mut stage) = Stage::start("namespaces under policies").await else {
        return;
    };
    let namespace = stage.both.namespace.clone();
    let told = "request.operation + ' ' + request.namespace + ' ' + request.name + ' ' + string(namespaceObject == null)";
    let spec = json!({
        "matchConstraints": {"namespaceSelector": {"matchLabels": {"case": namespace}}},
        "validations": [{"expression": "false", "messageExpression": told}],
    });
    let mut policy = json!({"metadata": {"name": format!("spaces-{namespace}")}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"],
            "operations": ["*"], "resources": ["namespaces", "configmaps"], "scope": "*"}]},
    }});
    merge(&mut policy["spec"], &spec);
    let name = policy["metadata"]["name"].clone();
    stage.bindings.push(
        json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}),
    );
    stage.policies.push(policy);
    let other = format!("{namespace}-free");
    stage
        .both
        .write(&Step::post(
            "/api/v1/namespaces",
            json!({"metadata": {"name": other}}),
        ))
        .await;
    stage.install().await;
    let fenced = json!({"metadata": {"name": format!("{namespace}-fenced"), "labels": {"case": namespace}}});
    let steps = [
        Step::post("/api/v1/namespaces", fenced),
        Step::merge(
            format!("/api/v1/namespaces/{other}"),
            json!({"metadata": {"labels": {"case": namespace}}}),
        ),
        Step::merge(
            format!("/api/v1/namespaces/{other}"),
            json!({"metadata": {"labels": {"case": "x"}}}),
        ),
    ];
    for step in steps {
        stage.ask(step).await;
    }
    stage.end().await;
}
