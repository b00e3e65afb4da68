//! Deletion: finalizers, owners, namespaces, collections.

use std::time::Duration;

use super::*;
use cutover::sandbox::api::{ListOptions, Resource, WriteOptions, gc};
use futures::{FutureExt, StreamExt};

const MAPS: Resource = Resource::new("", "configmaps");

/// Waits until a condition on the objects of the default namespace holds.
async fn until(server: &ApiServer, namespace: &str, holds: impl Fn(&[String]) -> bool) -> Vec<String> {
    let watch = server.watch(&MAPS, None, None, &ListOptions::default()).unwrap();
    let names = || -> Vec<String> {
        let list = server
            .list(&MAPS, Some(namespace), &ListOptions::default())
            .unwrap();
        list.items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut events = watch.map(|_| ());
    let changed = async {
        while !holds(&names()) {
            events.next().await;
        }
        names()
    };
    tokio::time::timeout(Duration::from_secs(10), changed)
        .await
        .unwrap_or_else(|_| panic!("still {:?}", names()))
}

fn owned(name: &str, owner: &Value, block: bool) -> Value {
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block,
    });
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": [reference]}})
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let server = server();
    let mut body = widget_json("a", json!({"size": 1}));
    body["metadata"]["finalizers"] = json!(["example.dev/x"]);
    create(&server, WIDGETS, body).await;
    let path = format!("{WIDGETS}/a");
    let (code, marked) = send(&server, Method::DELETE, &path, "", &Value::Null).await;
    assert_eq!((code, &marked["kind"]), (200, &json!("Widget")));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    let (_, again) = send(&server, Method::DELETE, &path, "", &Value::Null).await;
    assert_eq!(again, marked, "a second deletion changes nothing");

    let more = json!({"metadata": {"finalizers": ["example.dev/x", "example.dev/y"]}});
    let (code, refused) = send(&server, Method::PATCH, &path, MERGE, &more).await;
    assert_eq!(code, 422);
    assert!(refused["message"].as_str().unwrap().contains(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{\"example.dev/y\"}"
    ));
    let none = json!({"metadata": {"finalizers": null}});
    assert_eq!(send(&server, Method::PATCH, &path, MERGE, &none).await.0, 200);
    assert_eq!(get(&server, &path).await["code"], 404);
}

#[tokio::test]
async fn a_deletion_says_what_it_deleted() {
    let server = server();
    let created = create(&server, CONFIG_MAPS, map("a")).await;
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(
        send(
            &server,
            Method::DELETE,
            &format!("{path}?dryRun=All"),
            "",
            &Value::Null
        )
        .await
        .0,
        200
    );
    let (_, status) = send(&server, Method::DELETE, &path, "", &Value::Null).await;
    let details = json!({"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]});
    assert_eq!(
        (&status["status"], &status["details"]),
        (&json!("Success"), &details)
    );
}

#[tokio::test]
async fn owned_objects_follow_their_owner_as_the_policy_says() {
    for (policy, owner_waits, left) in [
        ("Background", false, vec![]),
        ("Foreground", true, vec![]),
        ("Orphan", true, vec!["blocking", "owned"]),
    ] {
        let server = server();
        let owner = create(&server, CONFIG_MAPS, map("owner")).await;
        create(&server, CONFIG_MAPS, owned("owned", &owner, false)).await;
        create(&server, CONFIG_MAPS, owned("blocking", &owner, true)).await;
        let path = format!("{CONFIG_MAPS}/owner?propagationPolicy={policy}");
        send(&server, Method::DELETE, &path, "", &Value::Null).await;
        let waits = get(&server, &format!("{CONFIG_MAPS}/owner")).await["kind"] == "ConfigMap";
        assert_eq!(waits, owner_waits, "{policy}");
        let collector = gc::spawn(server.clone(), Duration::ZERO);
        let found = until(&server, "default", |names| *names == left).await;
        for name in found {
            let object = get(&server, &format!("{CONFIG_MAPS}/{name}")).await;
            assert_eq!(
                object["metadata"].get("ownerReferences"),
                None,
                "{policy}: {name} is an orphan"
            );
        }
        collector.abort();
    }
}

#[tokio::test]
async fn an_object_lives_as_long_as_one_of_its_owners() {
    let server = server();
    let collector = gc::spawn(server.clone(), Duration::ZERO);
    let one = create(&server, CONFIG_MAPS, map("one")).await;
    let two = create(&server, CONFIG_MAPS, map("two")).await;
    let mut both = owned("both", &one, false);
    let second = owned("x", &two, false)["metadata"]["ownerReferences"][0].clone();
    both["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(second);
    create(&server, CONFIG_MAPS, both).await;
    send(
        &server,
        Method::DELETE,
        &format!("{CONFIG_MAPS}/one"),
        "",
        &Value::Null,
    )
    .await;
    let owners = || {
        let object = server.get(&MAPS, Some("default"), "both").unwrap();
        object["metadata"]["ownerReferences"]
            .as_array()
            .map_or(0, Vec::len)
    };
    let mut watch = server.watch(&MAPS, None, None, &ListOptions::default()).unwrap();
    while owners() == 2 {
        watch.next().await;
    }
    send(
        &server,
        Method::DELETE,
        &format!("{CONFIG_MAPS}/two"),
        "",
        &Value::Null,
    )
    .await;
    until(&server, "default", <[String]>::is_empty).await;
    collector.abort();
}

#[tokio::test]
async fn an_object_whose_owner_never_was_is_collected() {
    let server = server();
    let collector = gc::spawn(server.clone(), Duration::ZERO);
    let ghost = json!({"metadata": {"name": "ghost", "uid": "no-such-uid"}});
    create(&server, CONFIG_MAPS, owned("a", &ghost, false)).await;
    until(&server, "default", <[String]>::is_empty).await;
    collector.abort();
}

#[tokio::test]
async fn a_deleted_namespace_takes_its_content_along_and_waits_for_finalizers() {
    let server = server();
    let collector = gc::spawn(server.clone(), Duration::ZERO);
    let namespace = create(&server, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    assert_eq!(
        namespace["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "n"
    );
    assert_eq!(
        (&namespace["spec"]["finalizers"][0], &namespace["status"]["phase"]),
        (&json!("kubernetes"), &json!("Active"))
    );
    let maps = "/api/v1/namespaces/n/configmaps";
    create(&server, maps, map("a")).await;
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.dev/x"]);
    create(&server, maps, held).await;

    let (_, marked) = send(&server, Method::DELETE, "/api/v1/namespaces/n", "", &Value::Null).await;
    assert_eq!(marked["status"]["phase"], "Terminating");
    until(&server, "n", |names| names == ["held"]).await;
    let (code, refused) = send(&server, Method::POST, maps, JSON, &map("b")).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "configmaps \"b\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
    assert_eq!(
        get(&server, "/api/v1/namespaces/n").await["status"]["phase"],
        "Terminating"
    );

    let namespaces = Resource::new("", "namespaces");
    let mut watch = server
        .watch(
            &namespaces,
            None,
            Some(server.revision()),
            &ListOptions::default(),
        )
        .unwrap();
    let none = json!({"metadata": {"finalizers": null}});
    send(&server, Method::PATCH, &format!("{maps}/held"), MERGE, &none).await;
    tokio::time::timeout(Duration::from_secs(10), watch.next())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(get(&server, "/api/v1/namespaces/n").await["code"], 404);
    collector.abort();
}

#[tokio::test]
async fn a_deleted_crd_takes_its_objects_along() {
    let server = server();
    let collector = gc::spawn(server.clone(), Duration::ZERO);
    create(&server, WIDGETS, widget_json("a", json!({"size": 1}))).await;
    let crds = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
    let mut watch = server
        .watch(&crds, None, Some(server.revision()), &ListOptions::default())
        .unwrap();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.dev";
    send(&server, Method::DELETE, path, "", &Value::Null).await;
    while get(&server, path).await["code"] != 404 {
        tokio::time::timeout(Duration::from_secs(10), watch.next())
            .await
            .unwrap()
            .unwrap();
    }
    assert_eq!(get(&server, WIDGETS).await, json!("404 page not found\n"));
    collector.abort();
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let server = server();
    for (name, color) in [("a", "red"), ("b", "blue")] {
        let body = json!({"metadata": {"name": name, "labels": {"color": color}}});
        server
            .create(&MAPS, Some("default"), body, &WriteOptions::default())
            .unwrap();
    }
    let path = format!("{CONFIG_MAPS}?labelSelector=color%3Dred");
    let (code, list) = send(&server, Method::DELETE, &path, "", &Value::Null).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
    assert_eq!(until(&server, "default", |_| true).now_or_never().unwrap(), ["b"]);
}
