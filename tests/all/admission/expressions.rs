//! What expressions mean: compiled and evaluated on both servers.

use serde_json::{Value, json};

use super::both::{Both, Step};

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// Expressions that are compiled; what they come to is compared as well. `object` is that of [`object`].
const EVALUATED: &[&str] = &[
    "true",
    "object.data.a == '1'",
    "object.data.b == '1'",
    "object.data.missing == '1'",
    "has(object.data.missing) || object.metadata.name == 'x'",
    "has(object.data)",
    "!has(object.spec)",
    "object.spec.replicas > 1",
    "oldObject == null",
    "oldObject.data.a == '1'",
    "has(oldObject.data)",
    "object.metadata.labels['case'].startsWith('case')",
    "object.metadata.labels['no'] == 'x'",
    "object.metadata.labels.exists(k, k == 'case')",
    "object.metadata.labels.all(k, v, k != v)",
    "object.metadata.labels.transformList(k, v, k + v).size() > 0",
    "object.metadata.labels.transformMap(k, v, v + '!').all(k, v, v.endsWith('!'))",
    "object.data.a + 1 == 2",
    "object.data > 1",
    "object.data + 1 == 2",
    "object.data - 1 == 2",
    "object.data.a - 1 == 2",
    "object.data.a * 2 == 2",
    "[object.data] > 1",
    "object.data.a < true",
    "1 in object.data.a",
    "object.data[1] == 'x'",
    "object.data.a[0] == 'x'",
    "-object.data == 1",
    "-object.data.a == 1",
    "size(object.metadata.name + object.data) == 1",
    "object.data.a.startsWith(object.data)",
    "object.data.startsWith('x')",
    "object.data.exists(k, object.data[k] > 1)",
    "object.data.a.all(x, x == 1)",
    "oldObject.data[0] == 1",
    "has(object.data.a.b)",
    "object.data.a.b.c == 1",
    "authorizer == null || true",
    "object.data.a > 1",
    "object.data.a > 'x'",
    "int(object.data.a) > 0",
    "int(object.data.b) > 0",
    "object.data.a in ['1', '2']",
    "'a' in object.data",
    "object.data.?a.orValue('z') == '1'",
    "object.?spec.?replicas.orValue(3) == 3",
    "object.data.?missing.hasValue()",
    "object.data.?missing.value() == 'x'",
    "object.data[?'a'].optMap(v, v + 'x').orValue('') == '1x'",
    "[1, 2, 3].sum() == 6",
    "[1, 2, 3][5] == 1",
    "[3, 1].isSorted()",
    "[1, 2, 2].distinct() == [1, 2]",
    "['a', 'b'].join('-') == 'a-b'",
    "'a-b'.split('-')[1] == 'b'",
    "'abc'.find('[b-z]+') == 'bc'",
    "'abc'.matches('^[a-c]+$')",
    "'%s is %s'.format(['a', 'b']) == 'a is b'",
    "'%d' .format([1]) == '1'",
    "'abc'.substring(1, 2) == 'b' && 'ABC'.lowerAscii() == 'abc' && ' x '.trim() == 'x'",
    "'abc'.substring(5) == ''",
    "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && !sets.equivalent([1], [2])",
    "quantity('1Gi').isGreaterThan(quantity('1G'))",
    "quantity(object.data.a).asInteger() == 1",
    "quantity(object.data.b).asInteger() == 1",
    "isQuantity('1.5M') && !isQuantity('M')",
    "quantity('1500m').add(quantity('0.5')).asInteger() == 2",
    "url('https://a.example/x?y=z').getHost() == 'a.example'",
    "isURL('../x')",
    "ip('10.0.0.1').family() == 4 && isIP('x') == false",
    "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
    "cidr('10.0.0.0/8').containsIP(ip('11.1.1.1'))",
    "1 / 0 == 1",
    "5 % 0 == 1",
    "9223372036854775807 + 1 > 0",
    "1 < 2.5 && 2u > 1",
    "dyn(1) == 1.0",
    "type(object.data.a) == string",
    "type(1) == int",
    "[1, 2].map(x, x * 2) == [2, 4]",
    "[1, 2].filter(x, x > 1).size() == 1",
    "[1, 2].exists_one(x, x > 1)",
    "[{'a': 1}].all(x, x.a == 1)",
    "[{'a': 1}].all(x, x.b == 1)",
    "[{'b': 1}, {'a': 1}].exists(x, x.a == 1)",
    "{'a': 1}.a == 1 && {'a': 1}['a'] == 1",
    "{'a': 1}.b == 1",
    "object.metadata == object.metadata",
    "object.data == {'a': '1', 'b': 'x', 'c': ''}",
    "object.data.size() == 3",
    "size(object.data.a) == 1",
    "object.data.a ? true : false",
    "!object.data.a",
    "object.data.a && true",
    "false && object.data.missing == 'x'",
    "object.data.missing == 'x' && false",
    "object.data.missing == 'x' || true",
    "object.data.missing == 'x' || false",
    "request.operation == 'CREATE'",
    "request.name == object.metadata.name",
    "request.namespace == object.metadata.namespace",
    "request.resource.resource == 'configmaps' && request.resource.group == '' && request.kind.kind == 'ConfigMap'",
    "request.requestResource == request.resource && request.requestKind.version == 'v1'",
    "request.subResource == ''",
    "has(request.subResource)",
    "request.userInfo.username == 'system:admin'",
    "'system:masters' in request.userInfo.groups",
    "request.userInfo.groups == ['system:masters', 'system:authenticated']",
    "has(request.userInfo.extra)",
    "request.dryRun == true",
    "request.options.kind == 'CreateOptions' && request.options.apiVersion == 'meta.k8s.io/v1'",
    "has(request.options.dryRun)",
    "namespaceObject.metadata.name == request.namespace",
    "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == request.namespace",
    "namespaceObject.status.phase == 'Active' && 'kubernetes' in namespaceObject.spec.finalizers",
    "has(namespaceObject.metadata.annotations)",
    "object.metadata.uid != '' && object.metadata.creationTimestamp != ''",
    "has(object.metadata.resourceVersion)",
    "has(object.metadata.managedFields)",
    "has(object.metadata.generation)",
    "object.kind == 'ConfigMap' && object.apiVersion == 'v1'",
    "authorizer.group('').resource('configmaps').namespace(request.namespace).check('create').allowed()",
    "authorizer.requestResource.check('delete').allowed()",
    "authorizer.serviceAccount('x', 'y').path('/healthz').check('get').allowed()",
    "string(1) == '1' && string(true) == 'true' && double('1.5') == 1.5 && bool('true')",
    "bool(object.data.b)",
    "b'abc' == bytes('abc')",
    "object.data.a.size() == 1",
    "object.data.a.foo == 1",
    "object['data']['a'] == '1'",
    "object.data['zz'] == '1'",
    "[1, 2, 3].slice(1, 2) == [2]",
    "[1, 2].first().value() == 1",
    "[[1], [2]].flatten() == [1, 2]",
    "lists.range(3) == [0, 1, 2]",
    "[2, 1].sort() == [1, 2]",
    "['b', 'a'].reverse() == ['a', 'b']",
    "[{'n': 2}, {'n': 1}].sortBy(e, e.n)[0].n == 1",
    "optional.of(1).or(optional.none()).value() == 1",
    "optional.none().hasValue()",
    "[?object.data.?a, ?object.data.?missing] == ['1']",
    "{?'x': object.data.?missing}.size() == 0",
    "object.data.map(k, object.data[k]).exists(v, v == 'x')",
    "-1 < 0 && -(1) == -1",
    "1 == 1 ? true : object.nope",
    "'\\u00e9'.size() == 1",
    "'''multi''' == 'multi'",
    "r'\\d' == '\\\\d'",
    "0x1F == 31 && 1e3 == 1000.0",
    "object.metadata.labels.case == 'x'",
    "null == null && object != null",
    "object.data.a == null",
    "[1, 2] + [3] == [1, 2, 3]",
    "'a' + 'b' == 'ab'",
    "[1, 'a'].size() == 2",
    "[object.data.a, 1].size() == 2",
];

/// Expressions that can't be compiled, and ones of a wrong type.
const REFUSED: &[&str] = &[
    "object.data.a",
    "'text'",
    "1",
    "null",
    "[true]",
    "foo",
    "foo.bar == 1",
    "foo(1)",
    "object.data.foo(1)",
    "1 + 'a' == 2",
    "1 == 'a'",
    "'a' > 1",
    "true && 1",
    "1 || 'a'",
    "!1",
    "size(1) == 1",
    "'a'.size(1) == 1",
    "'a'.contains(1)",
    "request.foo == 1",
    "request.userInfo.name == 'x'",
    "request['name'] == 'x'",
    "namespaceObject.metadata.uid == ''",
    "namespaceObject.spec.foo == ''",
    "request.name.foo == 'x'",
    "params.x == 1",
    "variables.x == 1",
    "math.abs(1) == 1",
    "base64.encode(b'a') == 'x'",
    "cel.bind(x, 1, x == 1)",
    "object.data.all(1, true)",
    "1.all(x, true)",
    "request.name.all(x, true)",
    "has(1)",
    "has(object)",
    "[1].map(x, x + 'a').size() == 1",
    "{'a': 1, 'b': 'c'}.size() == 2",
    "[1, 'a'] == []",
    "true ? 1 : 'a'",
    "1 ? true : false",
    "'abc'.reverse() == 'cba'",
    "quantity(1).isInteger()",
    "quantity('1') > quantity('2')",
    "ip('10.0.0.1').foo()",
    "ip('1.1.1.1').x == 1",
    "authorizer.allowed()",
    "optional.of(1) == 1",
    "object.?data == '1'",
    "Foo{a: 1} == 1",
    "in(1)",
    "object ==",
    "object.data.",
    "(true",
    "true)",
    "'unterminated",
    "1 +",
    "@",
    "a b",
    "object.data.exists(x)",
    "'a'.matches('[')",
    "'%q'.format(['a']) == ''",
    "string(object.data) == ''",
];

/// The object that expressions see.
fn object(case: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": case, "labels": {"case": case}},
        "data": {"a": "1", "b": "x", "c": ""},
    })
}

fn policy(name: &str, namespace: &str, case: &str, expression: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "objectSelector": {"matchLabels": {"case": case}},
                "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                    "resources": ["configmaps"]}],
            },
            "validations": [{"expression": expression}],
        },
    })
}

#[tokio::test]
async fn expressions_come_to_the_same_on_both_servers() {
    let Some(both) = Both::start("expressions of admission policies").await else {
        return;
    };
    let (mut policies, mut bindings, mut different) = (Vec::new(), Vec::new(), Vec::new());
    for (number, expression) in EVALUATED.iter().enumerate() {
        let case = format!("case-{number}");
        let name = format!("{}-{case}", both.namespace);
        let policy = policy(&name, &both.namespace, &case, expression);
        let (sandbox, real) = both
            .ask(&Step::post(format!("{POLICIES}?dryRun=All"), policy.clone()))
            .await;
        if sandbox != real {
            different.push(format!(
                "compiling {expression}\n  sandbox {sandbox:?}\n  real    {real:?}"
            ));
        }
        if sandbox.code == 201 && real.code == 201 {
            bindings.push(json!({
                "metadata": {"name": name},
                "spec": {"policyName": name, "validationActions": ["Deny"]},
            }));
            policies.push(policy);
        }
    }
    both.install(&policies, &bindings).await;
    let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", both.namespace);
    for (number, expression) in EVALUATED.iter().enumerate() {
        let step = Step::post(&path, object(&format!("case-{number}")));
        let (sandbox, real) = both.ask(&step).await;
        if sandbox != real {
            let short = |message: &str| message.split("denied request: ").last().unwrap().to_owned();
            let (sandbox, real) = (short(&sandbox.message), short(&real.message));
            different.push(format!("{expression}\n  sandbox {sandbox}\n  real    {real}"));
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

#[tokio::test]
async fn what_cannot_be_compiled_is_refused_in_the_same_words() {
    let Some(both) = Both::start("what cannot be compiled").await else {
        return;
    };
    let mut different = Vec::new();
    for expression in REFUSED {
        let policy = policy("refused", &both.namespace, "none", expression);
        let step = Step::post(format!("{POLICIES}?dryRun=All"), policy);
        let (sandbox, real) = both.ask(&step).await;
        if sandbox != real {
            let (sandbox, real) = (sandbox.message, real.message);
            different.push(format!("{expression}\n  sandbox {sandbox}\n  real    {real}"));
        }
    }
    assert!(
        different.is_empty(),
        "{} differ:\n{}",
        different.len(),
        different.join("\n")
    );
}
