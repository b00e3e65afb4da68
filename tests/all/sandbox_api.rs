//! The sandbox's API server as clients see it: through kube in this process, and through kubectl over HTTP.

use std::time::Duration;

use cutover::sandbox::api::{ApiServer, Options, gc};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

fn server() -> ApiServer {
    ApiServer::new(Options::new("test", 1))
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
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "required": ["spec"],
                    "properties": {
                        "spec": {
                            "type": "object",
                            "required": ["size"],
                            "properties": {
                                "size": {"type": "integer", "minimum": 1},
                                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                                "tags": {"type": "array", "items": {"type": "string"}},
                            },
                        },
                        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
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

fn config_map(name: &str, data: &Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
}

fn widget(name: &str, spec: &Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "example.dev/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }))
    .unwrap()
}

fn refusal<T: std::fmt::Debug>(result: kube::Result<T>) -> (u16, String, String) {
    match result.unwrap_err() {
        kube::Error::Api(status) => (status.code, status.reason.clone(), status.message.clone()),
        other => panic!("not a refusal: {other}"),
    }
}

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let server = server();
    let api = config_maps(&server);
    let created = api
        .create(&PostParams::default(), &config_map("a", &json!({"k": "v"})))
        .await
        .unwrap();
    assert!(created.metadata.uid.is_some() && created.metadata.creation_timestamp.is_some());
    assert_eq!(api.get("a").await.unwrap(), created);
    assert_eq!(
        refusal(
            api.create(&PostParams::default(), &config_map("a", &json!({})))
                .await
        ),
        (
            409,
            "AlreadyExists".to_owned(),
            "configmaps \"a\" already exists".to_owned()
        )
    );

    let merge = Patch::Merge(json!({"data": {"k": "w"}}));
    let patched = api.patch("a", &PatchParams::default(), &merge).await.unwrap();
    assert_ne!(
        patched.metadata.resource_version,
        created.metadata.resource_version
    );
    let again = api.patch("a", &PatchParams::default(), &merge).await.unwrap();
    assert_eq!(
        again.metadata.resource_version, patched.metadata.resource_version,
        "a no-op writes nothing"
    );

    let (code, reason, _) = refusal(api.replace("a", &PostParams::default(), &created).await);
    assert_eq!(
        (code, reason.as_str()),
        (409, "Conflict"),
        "an update from an old read"
    );
    api.delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .unwrap_right();
    assert_eq!(
        refusal(api.get("a").await),
        (
            404,
            "NotFound".to_owned(),
            "configmaps \"a\" not found".to_owned()
        )
    );
}

#[tokio::test]
async fn a_watch_sees_every_change_after_the_list() {
    let server = server();
    let api = config_maps(&server);
    api.create(&PostParams::default(), &config_map("a", &json!({})))
        .await
        .unwrap();
    let list = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);
    let version = list.metadata.resource_version.unwrap();
    let mut watch = api
        .watch(&WatchParams::default(), &version)
        .await
        .unwrap()
        .boxed();
    let merge = Patch::Merge(json!({"data": {"k": "w"}}));
    api.patch("a", &PatchParams::default(), &merge).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(
        watch.try_next().await.unwrap(),
        Some(WatchEvent::Modified(_))
    ));
    assert!(matches!(
        watch.try_next().await.unwrap(),
        Some(WatchEvent::Deleted(_))
    ));
}

#[tokio::test]
async fn a_crd_is_served_once_it_is_created() {
    let server = server();
    server.install(&widget_crd()).unwrap();
    let api = widgets(&server);
    let created = api
        .create(&PostParams::default(), &widget("a", &json!({"size": 1})))
        .await
        .unwrap();
    assert_eq!(created.metadata.generation, Some(1));
    let status = Patch::Merge(json!({"spec": {"size": 9}, "status": {"ready": true}}));
    let written = api
        .patch_status("a", &PatchParams::default(), &status)
        .await
        .unwrap();
    assert_eq!(
        (&written.data["spec"]["size"], &written.data["status"]["ready"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(written.metadata.generation, Some(1));
    let change = Patch::Merge(json!({"spec": {"size": 2}, "status": null}));
    let written = api.patch("a", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(
        (&written.data["spec"]["size"], &written.data["status"]["ready"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(written.metadata.generation, Some(2));
}

#[tokio::test]
async fn a_deleted_namespace_takes_its_content_along() {
    let server = server();
    let collector = gc::spawn(server.clone(), Duration::ZERO);
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(server.client("tester"));
    let namespace = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
    namespaces
        .create(&PostParams::default(), &namespace)
        .await
        .unwrap();
    let api: Api<ConfigMap> = Api::namespaced(server.client("tester"), "n");
    api.create(&PostParams::default(), &config_map("a", &json!({})))
        .await
        .unwrap();
    let mut watch = namespaces
        .watch(&WatchParams::default(), "0")
        .await
        .unwrap()
        .boxed();
    namespaces.delete("n", &DeleteParams::default()).await.unwrap();
    loop {
        if let Some(WatchEvent::Deleted(_)) = watch.try_next().await.unwrap() {
            break;
        }
    }
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0);
    collector.abort();
}
