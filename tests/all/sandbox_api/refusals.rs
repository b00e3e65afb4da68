//! What the server refuses, in the words of a kube-apiserver 1.36 to the same requests.

use super::*;

/// Method, path, content type, body; code, reason, message.
type Case = (
    &'static str,
    String,
    &'static str,
    Value,
    u16,
    &'static str,
    &'static str,
);

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
const REJECTED: &str = "the server rejected our request due to an error in our request";
const NO_METHOD: &str = "the server does not allow this method on the requested resource";
const NOTHING_HERE: &str = "the server could not find the requested resource";

#[tokio::test]
async fn bad_requests_are_refused_in_the_words_of_a_real_server() {
    let server = server();
    let data =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    create(&server, CONFIG_MAPS, data).await;
    create(&server, WIDGETS, widget_json("a", json!({"size": 1}))).await;
    for (method, path, content_type, body, code, reason, message) in cases() {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let asked = format!("{method} {path} {body}");
        let (got_code, status) = send(&server, method, &path, content_type, &body).await;
        assert_eq!(
            (got_code, status["reason"].as_str().unwrap_or_default()),
            (code, reason),
            "{asked}: {status}"
        );
        let got = status["message"].as_str().unwrap_or_default();
        assert!(got.contains(message), "{asked}\n  got: {got}\n wants: {message}");
    }
}

fn cases() -> Vec<Case> {
    let mut cases = built_in();
    cases.extend(custom());
    cases.extend(queries());
    cases
}

fn map(metadata: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

fn at(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

#[rustfmt::skip]
fn built_in() -> Vec<Case> {
    let elsewhere = "/api/v1/namespaces/nope/configmaps".to_owned();
    let all = CONFIG_MAPS.to_owned();
    vec![
        ("GET", at("nope"), "", json!(null), 404, "NotFound", "configmaps \"nope\" not found"),
        ("POST", elsewhere, JSON, map(json!({"name": "a"})), 404, "NotFound", "namespaces \"nope\" not found"),
        ("POST", all.clone(), JSON, map(json!({"name": "a"})), 409, "AlreadyExists", "configmaps \"a\" already exists"),
        ("POST", all.clone(), JSON, map(json!({"name": "A_b"})), 422, "Invalid", "ConfigMap \"A_b\" is invalid: metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 subdomain must consist of"),
        ("POST", all.clone(), JSON, map(json!({})), 422, "Invalid", "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"),
        ("POST", all.clone(), JSON, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}), 400, "BadRequest", "Secret in version \"v1\" cannot be handled as a ConfigMap"),
        ("POST", all.clone(), JSON, map(json!({"name": "b", "namespace": "x"})), 400, "BadRequest", "the namespace of the provided object does not match the namespace sent on the request"),
        ("POST", all.clone(), JSON, map(json!({"name": "b", "resourceVersion": "5"})), 500, "", "resourceVersion should not be set on objects to be created"),
        ("POST", all.clone(), "text/plain", json!("x"), 415, "UnsupportedMediaType", "the body of the request was in an unknown format - accepted media types include: application/json"),
        ("POST", all.clone(), JSON, map(json!({"name": "b", "labels": {"a b": "c"}})), 422, "Invalid", "metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters"),
        ("POST", all.clone(), JSON, map(json!({"name": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "x", "name": "x"}]})), 422, "Invalid", "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty"),
        ("POST", format!("{all}?dryRun=Some"), JSON, map(json!({"name": "b"})), 422, "Invalid", "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\""),
        ("POST", format!("{all}?fieldValidation=Some"), JSON, map(json!({"name": "b"})), 422, "Invalid", "fieldValidation: Unsupported value: \"Some\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\""),
        ("PUT", at("a"), JSON, map(json!({"name": "a", "resourceVersion": "1"})), 409, "Conflict", MODIFIED),
        ("PUT", at("a"), JSON, map(json!({"name": "b"})), 400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)"),
        ("PUT", at("a"), JSON, map(json!({"name": "a", "uid": "x"})), 409, "Conflict", "Precondition failed: UID in precondition: x, UID in object meta:"),
        ("PUT", at("b"), JSON, map(json!({"name": "b"})), 404, "NotFound", "configmaps \"b\" not found"),
        ("PATCH", at("b"), MERGE, json!({}), 404, "NotFound", "configmaps \"b\" not found"),
        ("PATCH", at("a"), JSON_PATCH, json!([{"op": "test", "path": "/data/k", "value": "x"}]), 422, "Invalid", REJECTED),
        ("PATCH", at("a"), JSON_PATCH, json!([{"op": "remove", "path": "/data/x"}]), 422, "Invalid", REJECTED),
        ("PATCH", at("a"), JSON_PATCH, json!([{"op": "add", "path": "/x/y", "value": 1}]), 422, "Invalid", REJECTED),
        ("PATCH", at("a"), MERGE, json!([]), 400, "BadRequest", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("PATCH", at("a"), MERGE, json!({"metadata": {"resourceVersion": "1"}}), 409, "Conflict", MODIFIED),
        ("PATCH", at("a"), MERGE, json!({"metadata": {"uid": "1"}}), 422, "Invalid", "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"1\": field is immutable"),
        ("PATCH", at("a"), MERGE, json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}), 422, "Invalid", "metadata.deletionTimestamp: Invalid value: \"2020-01-01T00:00:00Z\": field is immutable"),
        ("PATCH", at("a"), "application/x", json!({}), 415, "UnsupportedMediaType", "415: Unsupported Media Type"),
        ("PATCH", at("a"), APPLY, map(json!({"name": "a"})), 422, "Invalid", "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"),
        ("PATCH", at("a?fieldManager=m"), APPLY, map(json!({"name": "a", "managedFields": []})), 400, "BadRequest", "metadata.managedFields must be nil"),
        ("PATCH", at("b?fieldManager=m"), APPLY, map(json!({"name": "b", "uid": "x"})), 409, "Conflict", "uid mismatch: the provided object specified uid x, and no existing object was found"),
        ("PATCH", at("a?fieldManager=m"), APPLY, json!({"apiVersion": "v1", "kind": "ConfigMap", "datax": {}}), 500, "", "failed to create typed patch object (/; /v1, Kind=ConfigMap): .datax: field not declared in schema"),
        ("DELETE", at("b"), "", json!(null), 404, "NotFound", "configmaps \"b\" not found"),
        ("DELETE", at("a"), JSON, json!({"preconditions": {"uid": "x"}}), 409, "Conflict", "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (x) does not match the UID in record"),
        ("DELETE", at("a"), JSON, json!({"preconditions": {"resourceVersion": "1"}}), 409, "Conflict", "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record"),
        ("DELETE", at("a"), JSON, json!({"propagationPolicy": "x"}), 422, "Invalid", "propagationPolicy: Unsupported value: \"x\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""),
        ("DELETE", "/api/v1/configmaps".to_owned(), "", json!(null), 405, "MethodNotAllowed", NO_METHOD),
        ("DELETE", "/api/v1/namespaces".to_owned(), "", json!(null), 405, "MethodNotAllowed", NO_METHOD),
        ("POST", "/api/v1/configmaps".to_owned(), JSON, map(json!({"name": "b"})), 405, "MethodNotAllowed", NO_METHOD),
        ("PUT", all, JSON, json!({}), 405, "MethodNotAllowed", NO_METHOD),
        ("POST", at("a"), JSON, json!({}), 405, "MethodNotAllowed", NO_METHOD),
        ("GET", "/api/v1/foos".to_owned(), "", json!(null), 404, "NotFound", NOTHING_HERE),
        ("GET", at("a/status"), "", json!(null), 404, "NotFound", NOTHING_HERE),
    ]
}

#[rustfmt::skip]
fn custom() -> Vec<Case> {
    let all = WIDGETS.to_owned();
    let one = format!("{WIDGETS}/a");
    let unversioned = json!({"apiVersion": "example.dev/v2", "kind": "Widget", "metadata": {"name": "b"}});
    vec![
        ("POST", all.clone(), JSON, json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "b"}}), 422, "Invalid", "Widget.example.dev \"b\" is invalid: spec: Required value"),
        ("POST", all.clone(), JSON, widget_json("b", json!({"size": "x"})), 422, "Invalid", "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""),
        ("POST", all.clone(), JSON, widget_json("b", json!({"size": 0})), 422, "Invalid", "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ("POST", all.clone(), JSON, widget_json("b", json!({"size": 1, "color": "x"})), 422, "Invalid", "spec.color: Unsupported value: \"x\": supported values: \"red\", \"blue\""),
        ("POST", format!("{all}?fieldValidation=Strict"), JSON, widget_json("b", json!({"size": 1, "x": 2})), 400, "BadRequest", "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.x\""),
        ("POST", all.clone(), JSON, unversioned, 400, "BadRequest", "the API version in the data (example.dev/v2) does not match the expected API version (example.dev/v1)"),
        ("POST", all, JSON, json!({"apiVersion": "example.dev/v1", "kind": "Gadget", "metadata": {"name": "b"}}), 422, "Invalid", "Gadget.example.dev \"b\" is invalid: kind: Invalid value: \"Gadget\": must be Widget"),
        ("PUT", one.clone(), JSON, widget_json("a", json!({"size": 1})), 422, "Invalid", "metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
        ("PATCH", one.clone(), "application/strategic-merge-patch+json", json!({}), 415, "UnsupportedMediaType", "accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"),
        ("PATCH", one.clone(), JSON_PATCH, json!([{"op": "replace", "path": "/spec/size", "value": "x"}]), 422, "Invalid", "spec.size: Invalid value: \"string\""),
        ("PATCH", format!("{one}?fieldValidation=Strict"), MERGE, json!({"spec": {"x": 1}}), 422, "Invalid", "strict decoding error: unknown field \"spec.x\""),
        ("PATCH", format!("{one}?fieldManager=m"), APPLY, widget_json("a", json!({"size": 2})), 409, "Conflict", "Apply failed with 1 conflict: conflict with \"tester\" using example.dev/v1: .spec.size"),
        ("PATCH", format!("{WIDGETS}/b/status?fieldManager=m"), APPLY, widget_json("b", json!({})), 404, "NotFound", "widgets.example.dev \"b\" not found"),
    ]
}

#[rustfmt::skip]
fn queries() -> Vec<Case> {
    let query = |query: &str| format!("{CONFIG_MAPS}?{query}");
    vec![
        ("GET", query("resourceVersion=999999"), "", json!(null), 504, "Timeout", "Timeout: Too large resource version: 999999, current: "),
        ("GET", query("resourceVersion=x"), "", json!(null), 400, "BadRequest", "invalid resource version: resourceVersion: Invalid value: \"x\""),
        ("GET", query("resourceVersionMatch=Exact"), "", json!(null), 422, "Invalid", "resourceVersionMatch is forbidden unless resourceVersion is provided"),
        ("GET", query("labelSelector=a%20in"), "", json!(null), 400, "BadRequest", "unable to parse requirement: found '' expected: '('"),
        ("GET", query("fieldSelector=data.k%3Dx"), "", json!(null), 400, "BadRequest", "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
        ("GET", query("limit=x"), "", json!(null), 400, "BadRequest", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("GET", query("limit=1&continue=x"), "", json!(null), 400, "BadRequest", "invalid continue token: continue key is not valid"),
        ("GET", query("watch=1&sendInitialEvents=true"), "", json!(null), 422, "Invalid", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"),
    ]
}

#[tokio::test]
async fn what_no_server_knows_is_not_found_in_plain_text() {
    let server = server();
    for path in [
        "/foo",
        "/apis/foo.bar/v1/x",
        "/apis/example.dev/v2/namespaces/default/widgets",
        "/apis/example.dev/v1/x",
    ] {
        let answer = send_text(&server, Method::GET, path, "", String::new()).await;
        assert_eq!(answer, (404, "404 page not found\n".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn an_answer_in_a_form_that_does_not_exist_is_not_acceptable() {
    let server = server();
    let request = Request::get(CONFIG_MAPS)
        .header("accept", "text/html")
        .body(Bytes::new())
        .unwrap();
    assert_eq!(respond(&server, request).await.status(), 406);
}
