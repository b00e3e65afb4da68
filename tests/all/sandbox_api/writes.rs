//! Create, update, patch, apply, subresources: what is written, and who owns it.

use super::*;
use cutover::sandbox::api::{Admission, Operation, Resource, Review, Status, WriteOptions};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use std::sync::Arc;

const MAPS: Resource = Resource::new("", "configmaps");

#[tokio::test]
async fn objects_are_created_read_changed_and_deleted() {
    let server = server();
    let api = config_maps(&server);
    let created = api
        .create(&PostParams::default(), &config_map("a", json!({"k": "v"})))
        .await
        .unwrap();
    assert!(created.metadata.uid.is_some() && created.metadata.creation_timestamp.is_some());
    assert_eq!(api.get("a").await.unwrap(), created);

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
    assert_eq!(
        refusal(api.replace("a", &PostParams::default(), &created).await).0,
        409,
        "an update from an old read"
    );

    api.delete("a", &DeleteParams::default())
        .await
        .unwrap()
        .unwrap_right();
    assert_eq!(refusal(api.get("a").await).0, 404);
}

#[tokio::test]
async fn the_server_alone_decides_identity() {
    let server = server();
    let mut body = widget_json("a", json!({"size": 1}));
    body["metadata"] = json!({
        "generateName": "w-", "uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7,
        "deletionTimestamp": "2020-01-01T00:00:00Z",
    });
    body["status"] = json!({"ready": true});
    let created = create(&server, WIDGETS, body).await;
    let metadata = &created["metadata"];
    let name = metadata["name"].as_str().unwrap();
    assert!(name.starts_with("w-") && name.len() == 7, "{name}");
    assert_eq!(metadata["generation"], 1);
    assert_ne!(metadata["uid"], "x");
    assert_ne!(metadata["creationTimestamp"], "2020-01-01T00:00:00Z");
    assert_eq!(metadata["deletionTimestamp"], json!(null));
    assert_eq!(created["status"], json!(null), "the status is not for creators");
    assert_eq!(created["spec"]["color"], "red", "defaults are filled in");
}

#[tokio::test]
async fn one_seed_gives_one_history() {
    let uids = |seed| {
        let server = ApiServer::new(Options::new("test", seed));
        let body = json!({"metadata": {"generateName": "a-"}});
        let created = server
            .create(&MAPS, Some("default"), body, &WriteOptions::default())
            .unwrap();
        (
            created["metadata"]["name"].clone(),
            created["metadata"]["uid"].clone(),
        )
    };
    assert_eq!(uids(1), uids(1));
    assert_ne!(uids(1), uids(2));
}

#[tokio::test]
async fn a_write_through_one_endpoint_leaves_the_other_half_alone() {
    let server = server();
    let api = widgets(&server);
    api.create(&PostParams::default(), &widget("a", json!({"size": 1})))
        .await
        .unwrap();
    let change = Patch::Merge(
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"size": 9}, "status": {"ready": true}}),
    );
    let written = api
        .patch_status("a", &PatchParams::default(), &change)
        .await
        .unwrap();
    assert_eq!(
        (&written.data["spec"]["size"], &written.data["status"]["ready"]),
        (&json!(1), &json!(true))
    );
    assert_eq!(
        (written.metadata.generation, &written.metadata.labels),
        (Some(1), &None)
    );

    let change = Patch::Merge(json!({"spec": {"size": 2}, "status": null}));
    let written = api.patch("a", &PatchParams::default(), &change).await.unwrap();
    assert_eq!(
        (&written.data["spec"]["size"], &written.data["status"]["ready"]),
        (&json!(2), &json!(true))
    );
    assert_eq!(written.metadata.generation, Some(2));
}

#[tokio::test]
async fn generations_rise_as_on_a_real_server() {
    let server = server();
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let deployment =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec});
    create(&server, deployments, deployment).await;
    create(&server, WIDGETS, widget_json("a", json!({"size": 1}))).await;
    let deployment = format!("{deployments}/a");
    let status = format!("{deployments}/a/status");
    let widget = format!("{WIDGETS}/a");
    for (path, change, generation) in [
        (&deployment, json!({"metadata": {"labels": {"x": "1"}}}), 1),
        (&deployment, json!({"metadata": {"annotations": {"x": "1"}}}), 2),
        (&deployment, json!({"metadata": {"finalizers": ["a.b/c"]}}), 2),
        (&deployment, json!({"spec": {"replicas": 3}}), 3),
        (
            &status,
            json!({"metadata": {"annotations": {"x": "2"}}, "status": {"replicas": 1}}),
            3,
        ),
        (&widget, json!({"metadata": {"annotations": {"x": "1"}}}), 1),
        (&widget, json!({"spec": {"size": 2}}), 2),
    ] {
        let (_, written) = send(&server, Method::PATCH, path, MERGE, &change).await;
        assert_eq!(written["metadata"]["generation"], generation, "{path} {change}");
    }
    let (_, marked) = send(&server, Method::DELETE, &deployment, "", &Value::Null).await;
    assert_eq!(
        marked["metadata"]["generation"], 4,
        "a deletion that waits is a change, too"
    );
}

#[tokio::test]
async fn a_scale_is_a_view_of_one_number() {
    let server = server();
    create(&server, WIDGETS, widget_json("a", json!({"size": 1}))).await;
    let scale = format!("{WIDGETS}/a/scale");
    assert_eq!(get(&server, &scale).await["spec"]["replicas"], 1);
    let (code, written) = send(
        &server,
        Method::PATCH,
        &scale,
        MERGE,
        &json!({"spec": {"replicas": 3}}),
    )
    .await;
    assert_eq!(
        (code, &written["kind"], &written["spec"]["replicas"]),
        (200, &json!("Scale"), &json!(3))
    );
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await["spec"]["size"], 3);
}

#[tokio::test]
async fn a_json_patch_is_a_compare_and_swap() {
    let server = server();
    create(&server, WIDGETS, widget_json("a", json!({"size": 1}))).await;
    let swap = |from: u8, to: u8| json!([{"op": "test", "path": "/spec/size", "value": from}, {"op": "replace", "path": "/spec/size", "value": to}]);
    let path = format!("{WIDGETS}/a");
    assert_eq!(
        send(&server, Method::PATCH, &path, JSON_PATCH, &swap(1, 2))
            .await
            .0,
        200
    );
    assert_eq!(
        send(&server, Method::PATCH, &path, JSON_PATCH, &swap(1, 3))
            .await
            .0,
        422
    );
    assert_eq!(get(&server, &path).await["spec"]["size"], 2);
}

#[tokio::test]
async fn appliers_own_what_they_apply() {
    let server = server();
    let path = |manager: &str, rest: &str| format!("{WIDGETS}/a?fieldManager={manager}{rest}");
    let apply = async |path: String, spec: Value| {
        send(&server, Method::PATCH, &path, APPLY, &widget_json("a", spec)).await
    };

    let (code, created) = apply(path("one", ""), json!({"size": 1, "tags": ["x"]})).await;
    assert_eq!(code, 201);
    let manager = &created["metadata"]["managedFields"][0];
    assert_eq!(
        (&manager["manager"], &manager["operation"]),
        (&json!("one"), &json!("Apply"))
    );
    assert_eq!(
        manager["fieldsV1"],
        json!({"f:spec": {"f:size": {}, "f:tags": {}}})
    );

    let (_, same) = apply(path("one", ""), json!({"size": 1, "tags": ["x"]})).await;
    assert_eq!(same, created, "applying the same writes nothing");

    let (code, refused) = apply(path("two", ""), json!({"size": 2})).await;
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
    let cause =
        json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".spec.size"});
    assert_eq!(refused["details"]["causes"], json!([cause]));

    let (_, dry) = apply(path("two", "&force=true&dryRun=All"), json!({"size": 2})).await;
    assert_eq!(dry["spec"]["size"], 2);
    assert_eq!(
        get(&server, &format!("{WIDGETS}/a")).await,
        created,
        "a dry run writes nothing"
    );

    let (code, forced) = apply(path("two", "&force=true"), json!({"size": 2})).await;
    assert_eq!((code, &forced["spec"]["size"]), (200, &json!(2)));
    let (_, dropped) = apply(path("one", ""), json!({"size": 2})).await;
    assert_eq!(
        dropped["spec"].get("tags"),
        None,
        "what is applied no longer goes"
    );
}

#[tokio::test]
async fn unknown_fields_go_as_loudly_as_the_client_wishes() {
    let server = server();
    let body = widget_json("a", json!({"size": 1, "sise": 2}));
    for (mode, warning) in [
        ("Ignore", None),
        ("Warn", Some("299 - \"unknown field \\\"spec.sise\\\"\"")),
    ] {
        let uri = format!("{WIDGETS}?dryRun=All&fieldValidation={mode}");
        let request = Request::post(uri)
            .header("content-type", JSON)
            .body(Bytes::from(body.to_string()))
            .unwrap();
        let response = respond(&server, request).await;
        assert_eq!(
            response
                .headers()
                .get("warning")
                .map(|value| value.to_str().unwrap()),
            warning,
            "{mode}"
        );
        let created: Value = serde_json::from_str(&text(response).await).unwrap();
        assert_eq!(created["spec"].get("sise"), None, "{mode}");
    }
}

#[tokio::test]
async fn bodies_may_be_yaml() {
    let server = server();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n".to_owned();
    assert_eq!(
        send_text(
            &server,
            Method::POST,
            CONFIG_MAPS,
            "application/yaml",
            yaml.clone()
        )
        .await
        .0,
        201
    );
    let path = format!("{CONFIG_MAPS}/b?fieldManager=m");
    let yaml = yaml.replace("name: a", "name: b");
    assert_eq!(send_text(&server, Method::PATCH, &path, APPLY, yaml).await.0, 201);
}

/// Refuses red widgets, and labels the others.
struct NoRed;

impl Admission for NoRed {
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        if review.resource.plural != "widgets" || review.operation == Operation::Delete {
            return Ok(None);
        }
        let mut widget = review.new.cloned().unwrap_or_default();
        if widget["spec"]["color"] == "red" {
            return Err(Status::denied("color.example.dev", "no red"));
        }
        widget["metadata"]["labels"]["seen-by"] = review.user.into();
        Ok(Some(widget))
    }
}

#[tokio::test]
async fn admission_hooks_refuse_and_change_writes() {
    let server = server();
    server.admit(Arc::new(NoRed));
    let refused = send(
        &server,
        Method::POST,
        WIDGETS,
        JSON,
        &widget_json("a", json!({"size": 1})),
    )
    .await;
    assert_eq!(refused.0, 403);
    assert_eq!(
        refused.1["message"],
        "admission webhook \"color.example.dev\" denied the request: no red"
    );
    let created = create(
        &server,
        WIDGETS,
        widget_json("a", json!({"size": 1, "color": "blue"})),
    )
    .await;
    assert_eq!(created["metadata"]["labels"]["seen-by"], "tester");
}
