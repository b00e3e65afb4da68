//! What is a secret and what is not, case by case, and what a change says of one.

use serde_json::{Value, json};

use super::super::{kept, names, pair, text};

/// Every word that begins with `hide` has to be hidden, and every word that begins with `show` shown.
fn check(object: &Value) {
    let whole = object.to_string();
    let shown = kept(object).to_string();
    for word in whole.split(|c: char| !c.is_ascii_alphanumeric()) {
        if word.starts_with("hide") {
            assert!(!shown.contains(word), "{word} is shown: {shown}");
        }
        if word.starts_with("show") {
            assert!(shown.contains(word), "{word} is hidden: {shown}");
        }
    }
}

#[test]
fn a_secret_is_shown_by_what_is_known_to_be_none() {
    let metadata = json!({"name": "show1", "labels": {"app": "show2"}, "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "{\"hide1\": 1}", "objectset.rio.cattle.io/applied": "hide2",
        "team": "show3",
    }, "stringData": {"a": "hide3"}});
    check(
        &json!({"apiVersion": "v1", "kind": "Secret", "type": "show4", "immutable": true, "metadata": metadata,
        "stringdata": {"a": "hide4", "b": "${hide5}"}, "Data": "hide6", "spec": [{"x": "hide7"}]}),
    );
    check(&json!({"kind": "secret", "type": {"x": "hide1"}, "anything": 1}));
    check(
        &json!({"apiVersion": "v1", "kind": "SecretList", "items": [{"metadata": {"name": "show1"}, "stringdata": {"a": "hide1"}}]}),
    );
    check(
        &json!({"apiVersion": "v1", "kind": "List", "items": [{"kind": "Secret", "metadata": {}, "datas": {"a": "hide1"}}]}),
    );
    // What refers to a Secret, and what is called so in another group.
    check(
        &json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Secret", "name": "show1", "namespace": "show2",
        "labelSelector": {"matchLabels": {"a": "show3"}}}]}),
    );
    check(
        &json!({"valuesFrom": [{"kind": "Secret", "name": "show1", "valuesKey": "show2", "targetPath": "show3"}]}),
    );
    check(
        &json!({"apiVersion": "vault.example.com/v1", "kind": "Secret", "metadata": {"name": "show1"}, "spec": {"path": "show2"}}),
    );
}

#[test]
fn a_name_says_what_is_secret_and_its_surroundings_what_is_not() {
    check(&json!({"data": {
        "cookie": "hide1", "auth": "hide2", "SLACK_WEBHOOK": "hide3", "SLACK_WEBHOOK_URL": "hide4", "LICENSE_KEY": "hide5",
        "license-key": "hide6", "key": "hide7", "DB_PASS": "hide8", "dbPass": "hide9", ".netrc": "hide10", ".pgpass": "hide11",
        ".dockerconfigjson": "hide12", "apiKeys": ["hide13"],
        "AUTH_MODE": "show1", "DB_PASSWORD_FILE": "/run/show2", "KEYBOARD": "show3", "compass": "show4",
    }}));
    check(
        &json!({"keys": [{"name": "show1", "key": "hide1"}, {"name": "password", "value": "hide2"}, {"name": "x", "value": "show2"},
        {"Name": "db-password", "Value": "hide3"}, {"key": "token", "defaultValue": "hide4"}, {"name": "token", "value": ["hide5"]}]}),
    );
    check(
        &json!({"tolerations": [{"key": "show1", "operator": "Exists"}, {"key": "show2"}, {"key": "token", "operator": "Equal", "value": "show3"}],
        "taints": [{"key": "show4", "effect": "NoSchedule"}], "taint": {"key": "show22"},
        "matchExpressions": [{"key": "show5", "operator": "In", "values": ["show6"]}],
        "secretKeyRef": {"key": "show7"}, "configMapKeyRef": {"name": "a", "key": "show8"}, "items": [{"key": "show9", "path": "show10"}],
        "username": {"name": "a", "key": "show11"}, "remoteRef": {"key": "show12"}, "dataFrom": [{"extract": {"key": "show13"}}],
        "tags": [{"key": "show14", "value": "show15"}], "auditAnnotations": [{"key": "show16", "valueExpression": "x"}],
        "matchLabels": {"key": "show17"}, "topologyKey": "show18", "secretName": "show19",
        "data": [{"secretKey": "show20", "remoteRef": {"key": "show21"}}]}),
    );
    check(
        &json!({"imagePullSecrets": [{"name": "show1"}], "serviceAccountToken": {"path": "show2", "audience": "show3"},
        "envFrom": [{"secretRef": {"name": "show4"}}], "webhooks": [{"name": "show5", "clientConfig": {"service": {"name": "show6"}}}],
        "auth": {"mode": "show7", "enabled": true}, "image": "show8.example.com:5000/a/b@sha256:00ff"}),
    );
}

#[test]
fn a_text_in_an_object_has_secrets_in_many_forms() {
    for words in [
        // Of Docker, as JSON, and as part of a YAML file.
        r#"{"auths": {"show1": {"auth": "hide1"}}}"#,
        "config: '{\"auths\": {\"show1\": {\"auth\": \"hide1\"}}}'",
        // A Secret in a file.
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: show1\nstringData:\n  a: hide1\n  b: |\n    hide2\n---\nkind: ConfigMap\ndata:\n  a: show2\n",
        "a: show1\nitems:\n- data:\n    a: hide1\n  kind: Secret\n  metadata: {name: show2}\n- kind: ConfigMap\n  data:\n    a: show3\n",
        "x: |\n  kind: 'Secret' # a comment\n  stringdata:\n    a: hide1\n  type: show1\n",
        "one: {apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {a: hide1}}\ntwo: show1\n",
        "{apiVersion: v1, kind: Secret, stringData: {a: hide1}}",
        "ref: {kind: Secret, name: show1}\n",
        "// a comment\n{\"kind\": \"Secret\", \"data\": {\"a\": \"hide1\"}",
        // Lists of names and values.
        "env:\n- name: password\n  value: hide1\n- value: hide2\n  name: DB_TOKEN\n- name: mode\n  value: show1\n",
        "env: [{name: password, value: hide1}, {name: mode, value: show1}]",
        "tolerations:\n- key: show1\n  operator: Exists\nkeys:\n- name: x\n  key: hide1\nsecretKeyRef:\n  name: a\n  key: show2\n",
        // Values below and behind their names.
        "password:\n  hide1\nuser: show1\n",
        "password: \"hide1\nuser: show1\n",
        "credentials:\n  region: show1\n  token: hide1\n",
        // Configuration files and commands.
        "port 6379\nrequirepass hide1\nmasterauth hide2\nmaxmemory show1\nsentinel auth-pass show2 hide3\n",
        "machine show1 login show2 password hide1\ndefault login show3 password hide2\n",
        "machine show1\nlogin show2\npassword hide1\n",
        "show1.example.com:5432:*:show2:hide1\n*:*:*:*:hide2",
        "curl -u show1:hide1 https://show2/ && curl --user 'show3:hide2' x",
        "docker run -u 1000:1000 show1",
        "exec [\"curl\", \"-u\", \"show1:hide1\"]",
        "https://show1/x?sv=show2&sig=hide1&se=show3",
        "https://show1/x?key=hide1",
        "server show1; proxy_pass http://show2;",
        "--db-password=hide1,hide2",
        "nested \\\"password\\\":\\\"hide1\\nhide2\\\" show1",
    ] {
        check(&json!({"data": {"file": words}}));
    }
    check(
        &json!({"args": ["-u", "show1:hide1", "--user", "1000:1000", "--token", "-hide2", "--requirepass", "hide3", "-v", "show2"]}),
    );
}

#[test]
fn a_password_in_a_url_may_have_a_slash() {
    for (words, clean) in [
        ("https://ci:a/b@host/x", "https://***@host/x"),
        ("https://ci:12/b@host/x", "https://***@host/x"),
        ("https://ci:a@b/c@host/x", "https://***@host/x"),
        ("https://ci:a/b?c@host/x", "https://***@host/x"),
        ("https://host:80/x?mail=a@b", "https://host:80/x?mail=a@b"),
        ("https://host/@scope/x", "https://host/@scope/x"),
        ("https://host:80/@scope/x", "https://host:80/@scope/x"),
        ("https://host/a@v1", "https://host/a@v1"),
        ("oci://host:5000/a@sha256:00", "oci://host:5000/a@sha256:00"),
        ("http://[::1]/a@b", "http://[::1]/a@b"),
        ("ssh://git@host/a@b", "ssh://git@host/a@b"),
        (
            "https://a:b@c/?to=https://d:e/f@g",
            "https://***@c/?to=https://***@g",
        ),
    ] {
        assert_eq!(text(words), clean);
    }
}

#[test]
fn names_of_variables_say_more_than_others() {
    for name in ["SLACK_WEBHOOK_URL", "KEY", "X_PAT", "SESSION_SALT"] {
        assert!(names::is_credential(name), "{name}");
    }
    for name in [
        "AUTH_TYPE",
        "TOKEN_TTL",
        "PASSPORT",
        "slack_webhook_url",
        "proxy_pass",
        "key",
    ] {
        assert!(!names::is_credential(name), "{name}");
    }
}

#[test]
fn a_change_says_of_a_secret_only_whether_it_changes() {
    let secret = |data: Value| json!({"kind": "Secret", "metadata": {"name": "a"}, "data": data});
    let (before, after) = pair(
        &secret(json!({"a": "one", "b": "same", "c": "gone"})),
        &secret(json!({"a": "two", "b": "same", "d": "one"})),
    );
    assert_eq!(
        before["data"],
        json!({"a": "*** (old)", "b": "***", "c": "*** (old)"})
    );
    assert_eq!(
        after["data"],
        json!({"a": "*** (new)", "b": "***", "d": "*** (new)"})
    );
}

/// A pull request that writes many guesses into one object learns of one at most whether it is right.
#[test]
fn guesses_beside_a_secret_are_not_compared_with_it() {
    let guesses: Vec<String> = (0..100).map(|number| format!("guess{number}")).collect();
    let right = "guess42";
    let live = [
        json!({"data": {"password": right}}),
        json!({"env": [{"name": "PASSWORD", "value": right}]}),
        json!({"args": ["--token", right]}),
        json!({"args": [format!("--token={right}")]}),
        json!({"file": format!("password: {right}\n")}),
        json!({"kind": "Secret", "data": {"a": right}}),
    ];
    let all = |one: &dyn Fn(&String) -> Value| guesses.iter().map(one).collect::<Vec<_>>();
    let named: serde_json::Map<String, Value> = guesses
        .iter()
        .map(|guess| (format!("{guess}_password"), json!(guess)))
        .collect();
    let wanted = [
        json!({"data": named}),
        json!({"env": all(&|guess| json!({"name": "PASSWORD", "value": guess}))}),
        json!({"args": guesses.iter().flat_map(|guess| ["--token", guess]).collect::<Vec<_>>()}),
        json!({"args": all(&|guess| json!(format!("--token={guess}")))}),
        json!({"file": guesses.iter().map(|guess| format!("password: {guess}\n")).collect::<String>()}),
        json!({"kind": "Secret", "data": named}),
    ];
    for (live, wanted) in live.iter().zip(&wanted) {
        // The right guess is masked as a wrong one would be in its place.
        let (_, shown) = pair(live, wanted);
        let wrong = serde_json::from_str(&wanted.to_string().replace("guess42", "guess4711")).unwrap();
        let (_, other) = pair(live, &wrong);
        let (shown, other) = (
            shown.to_string(),
            other.to_string().replace("guess4711", "guess42"),
        );
        assert_eq!(shown, other);
    }
}

#[test]
fn an_argument_that_moves_is_the_same() {
    let (before, after) = pair(
        &json!({"args": ["--token", "t", "--db-password=p"]}),
        &json!({"args": ["-v", "--db-password=p", "--token", "t"]}),
    );
    let shown = format!("{before}{after}");
    assert!(!shown.contains("old") && !shown.contains("new"), "{shown}");
}
