//! Get, list, watch, discovery, forms of answers.

use std::time::Duration;

use super::*;
use cutover::sandbox::api::{EventKind, ListOptions, Resource, WriteOptions};
use futures::{StreamExt, TryStreamExt};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher;

const MAPS: Resource = Resource::new("", "configmaps");

fn put(server: &ApiServer, name: &str, labels: Value) {
    let body = json!({"metadata": {"name": name, "labels": labels}});
    server
        .create(&MAPS, Some("default"), body, &WriteOptions::default())
        .unwrap();
}

#[tokio::test]
async fn a_watch_sees_every_change_after_the_list() {
    let server = server();
    let api = config_maps(&server);
    api.create(&PostParams::default(), &config_map("a", json!({})))
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
async fn a_watch_with_a_selector_sees_objects_come_and_go() {
    let server = server();
    put(&server, "a", json!({"color": "red"}));
    let options = ListOptions::labels("color=red");
    let mut watch = server
        .watch(&MAPS, Some("default"), Some(server.revision()), &options)
        .unwrap();
    let paint = |color: &str| {
        let patch = cutover::sandbox::api::Patch::Merge(json!({"metadata": {"labels": {"color": color}}}));
        server
            .patch(
                &MAPS,
                Some("default"),
                "a",
                None,
                &patch,
                &WriteOptions::default(),
            )
            .unwrap()
    };
    paint("blue");
    paint("green");
    paint("red");
    for (kind, color) in [(EventKind::Deleted, "red"), (EventKind::Added, "red")] {
        let event = watch.next().await.unwrap();
        assert_eq!(
            (event.kind, &event.object["metadata"]["labels"]["color"]),
            (kind, &json!(color))
        );
    }
}

#[tokio::test]
async fn a_watch_from_forgotten_history_ends_with_gone() {
    let server = server();
    let api = config_maps(&server);
    let start = server.revision().to_string();
    put(&server, "a", json!({}));
    server.compact();
    let mut watch = api.watch(&WatchParams::default(), &start).await.unwrap().boxed();
    let Some(WatchEvent::Error(status)) = watch.try_next().await.unwrap() else {
        panic!("no error")
    };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(watch.try_next().await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_sends_bookmarks_and_ends_in_time() {
    let server = server();
    let options = ListOptions {
        bookmarks: true,
        timeout: Some(Duration::from_secs(150)),
        ..ListOptions::default()
    };
    let watch = server
        .watch(&MAPS, None, Some(server.revision()), &options)
        .unwrap();
    let begun = tokio::time::Instant::now();
    let kinds: Vec<EventKind> = watch.map(|event| event.kind).collect().await;
    assert_eq!(kinds, [EventKind::Bookmark, EventKind::Bookmark]);
    assert_eq!(begun.elapsed().as_secs(), 150);
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let server = server();
    put(&server, "a", json!({}));
    let options = ListOptions {
        send_initial_events: true,
        ..ListOptions::default()
    };
    let watch = server.watch(&MAPS, None, None, &options).unwrap();
    let events: Vec<_> = watch.take(2).collect().await;
    assert_eq!(
        (events[0].kind, events[1].kind),
        (EventKind::Added, EventKind::Bookmark)
    );
    assert_eq!(
        events[1].object["metadata"]["annotations"],
        json!({"k8s.io/initial-events-end": "true"})
    );
}

#[tokio::test]
async fn kube_watchers_of_both_kinds_settle_and_follow() {
    let server = server();
    put(&server, "a", json!({}));
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let mut events = watcher(config_maps(&server), config).boxed();
        loop {
            if let watcher::Event::InitDone = events.try_next().await.unwrap().unwrap() {
                break;
            }
        }
        let touch = Patch::Merge(json!({"data": {"n": server.revision().to_string()}}));
        config_maps(&server)
            .patch("a", &PatchParams::default(), &touch)
            .await
            .unwrap();
        assert!(matches!(
            events.try_next().await.unwrap(),
            Some(watcher::Event::Apply(_))
        ));
    }
}

#[tokio::test]
async fn a_long_list_comes_in_pages_of_one_moment() {
    let server = server();
    for name in ["a", "b", "c"] {
        put(&server, name, json!({}));
    }
    let api = config_maps(&server);
    let first = api.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(
        (first.items.len(), first.metadata.remaining_item_count),
        (2, Some(1))
    );
    put(&server, "aa", json!({}));
    put(&server, "d", json!({}));
    let token = first.metadata.continue_.unwrap();
    let rest = api
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .unwrap();
    let names: Vec<_> = rest
        .items
        .iter()
        .map(|item| item.metadata.name.clone().unwrap())
        .collect();
    assert_eq!(names, ["c"], "later objects are not in it");
    assert_eq!(rest.metadata.resource_version, first.metadata.resource_version);

    let version = first.metadata.resource_version.unwrap();
    let exact = ListParams::default()
        .at(&version)
        .matching(kube::api::VersionMatch::Exact);
    assert_eq!(api.list(&exact).await.unwrap().items.len(), 3);
    server.compact();
    let (code, reason, _) = refusal(
        api.list(&ListParams::default().limit(2).continue_token(&token))
            .await,
    );
    assert_eq!((code, reason.as_str()), (410, "Expired"));
}

#[tokio::test]
async fn lists_are_selected_by_labels_and_fields() {
    let server = server();
    put(&server, "a", json!({"color": "red", "size": "1"}));
    put(&server, "b", json!({"color": "blue"}));
    put(&server, "c", json!({}));
    for (labels, fields, names) in [
        ("color=red", "", "a"),
        ("color!=red", "", "b c"),
        ("color in (red,blue),size", "", "a"),
        ("!color", "", "c"),
        ("", "metadata.name=b", "b"),
        ("color", "metadata.name!=b", "a"),
        ("", "metadata.namespace=other", ""),
    ] {
        let options = ListOptions {
            labels: labels.to_owned(),
            fields: fields.to_owned(),
            ..ListOptions::default()
        };
        let list = server.list(&MAPS, Some("default"), &options).unwrap();
        let found: Vec<&str> = list
            .items
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(found.join(" "), names, "{labels} {fields}");
    }
}

#[tokio::test]
async fn built_in_lists_leave_the_type_out_of_their_items() {
    let server = server();
    put(&server, "a", json!({}));
    create(&server, WIDGETS, widget_json("a", json!({"size": 1}))).await;
    assert_eq!(get(&server, CONFIG_MAPS).await["items"][0].get("kind"), None);
    assert_eq!(get(&server, WIDGETS).await["items"][0]["kind"], "Widget");
}

#[tokio::test]
async fn metadata_can_be_had_alone() {
    let server = server();
    put(&server, "a", json!({"color": "red"}));
    let api = config_maps(&server);
    assert_eq!(
        api.get_metadata("a").await.unwrap().metadata.labels.unwrap()["color"],
        "red"
    );
    assert_eq!(
        api.list_metadata(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let watch = api.watch_metadata(&WatchParams::default(), "0").await.unwrap();
    assert!(matches!(
        watch.boxed().try_next().await.unwrap(),
        Some(WatchEvent::Added(_))
    ));
}

#[tokio::test]
async fn discovery_tells_what_is_served_in_both_forms() {
    let server = server();
    let client = server.client("tester");
    let old = kube::Discovery::new(client.clone()).run().await.unwrap();
    let new = kube::Discovery::new(client).run_aggregated().await.unwrap();
    for discovery in [old, new] {
        let gvk = GroupVersionKind::gvk("example.dev", "v1", "Widget");
        let (resource, capabilities) = discovery.resolve_gvk(&gvk).unwrap();
        assert_eq!(resource.plural, "widgets");
        assert!(capabilities.supports_operation("watch"));
        let parts: Vec<&str> = capabilities
            .subresources
            .iter()
            .map(|(part, _)| part.plural.as_str())
            .collect();
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert!(
            discovery
                .resolve_gvk(&GroupVersionKind::gvk("apps", "v1", "Deployment"))
                .is_some()
        );
    }
}

#[tokio::test]
async fn a_crd_is_served_while_it_is_there() {
    let server = server();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.dev";
    let crd = get(&server, path).await;
    let conditions = crd["status"]["conditions"].as_array().unwrap();
    let of = |kind: &str| {
        conditions
            .iter()
            .find(|condition| condition["type"] == kind)
            .unwrap()["status"]
            .clone()
    };
    assert_eq!(
        (of("Established"), of("NamesAccepted")),
        (json!("True"), json!("True"))
    );
    assert_eq!(crd["status"]["acceptedNames"]["listKind"], "WidgetList");

    let mut changed = widget_crd();
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["shape"] =
        json!({"type": "string"});
    server.install(&changed).unwrap();
    let created = create(
        &server,
        WIDGETS,
        widget_json("a", json!({"size": 1, "shape": "round"})),
    )
    .await;
    assert_eq!(
        created["spec"]["shape"], "round",
        "a changed schema counts at once"
    );
}

#[tokio::test]
async fn health_and_version_answer() {
    let server = server();
    for path in ["/healthz", "/livez", "/readyz", "/readyz?verbose"] {
        assert_eq!(
            send_text(&server, Method::GET, path, "", String::new()).await,
            (200, "ok".to_owned())
        );
    }
    assert_eq!(
        server.client("tester").apiserver_version().await.unwrap().major,
        "1"
    );
}
