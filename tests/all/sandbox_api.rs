//! The sandbox's API server as clients see it: through kube in this process, and through kubectl over HTTP.

mod disturbed;
mod garbage;
mod kubectl;
mod reads;
mod refusals;
mod writes;

use bytes::Bytes;
use cutover::sandbox::api::{ApiServer, Options};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.dev/v1/namespaces/default/widgets";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn server() -> ApiServer {
    let server = ApiServer::new(Options::new("test", 1));
    server.install(&widget_crd()).unwrap();
    server
}

fn widget_crd() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"]},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "description": "What is wanted of the widget.",
                            "required": ["size"],
                            "properties": {
                                "size": {"type": "integer", "minimum": 1},
                                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                                "tags": {"type": "array", "items": {"type": "string"}},
                            },
                        },
                        "status": {
                            "type": "object",
                            "properties": {"ready": {"type": "boolean"}, "size": {"type": "integer"}},
                        },
                    },
                }},
            }],
        },
    })
}

fn widgets(server: &ApiServer) -> Api<DynamicObject> {
    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("example.dev", "v1", "Widget"), "widgets");
    Api::namespaced_with(server.client("tester"), "default", &kind)
}

fn config_maps(server: &ApiServer) -> Api<ConfigMap> {
    Api::namespaced(server.client("tester"), "default")
}

fn config_map(name: &str, data: Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
}

fn widget(name: &str, spec: Value) -> DynamicObject {
    serde_json::from_value(widget_json(name, spec)).unwrap()
}

fn widget_json(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Sends a request as it is, and returns the answer's code and body.
async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let (code, text) = send_text(server, method, path, content_type, body).await;
    (code, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

async fn send_text(
    server: &ApiServer,
    method: Method,
    path: &str,
    content_type: &str,
    body: String,
) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type);
    let response = respond(server, request.body(Bytes::from(body)).unwrap()).await;
    let code = response.status().as_u16();
    (code, text(response).await)
}

async fn respond(server: &ApiServer, request: Request<Bytes>) -> Response<axum::body::Body> {
    server.handle(request, "tester").await.unwrap()
}

async fn text(response: Response<axum::body::Body>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

async fn create(server: &ApiServer, path: &str, body: Value) -> Value {
    let (code, created) = send(server, Method::POST, path, JSON, &body).await;
    assert_eq!(code, 201, "{created}");
    created
}

async fn get(server: &ApiServer, path: &str) -> Value {
    send(server, Method::GET, path, "", &Value::Null).await.1
}

fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("not a refusal: {other}"),
    }
}
