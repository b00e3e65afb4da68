//! The shell around kube: limits, reads that tell absent from unknown, writes with preconditions.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::USER_AGENT;
use cutover::cluster::{
    Answer, Applied, Cluster, Exactly, FieldConflict, Limits, Lookup, Mode, Served, Written,
};
use cutover::error::Kind;
use cutover::name::{ClusterName, Gvk};
use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

/// A server that answers as it is told, and remembers what it was asked.
#[derive(Clone, Default)]
struct Script {
    asked: Arc<Mutex<Vec<(String, String)>>>,
    count: Arc<AtomicU32>,
}

impl Script {
    /// `None` is a server that hangs.
    fn cluster<R: Into<Option<Response<Body>>>>(
        &self,
        answer: impl Fn(u32, &Request<Body>) -> R + Send + Sync + 'static,
    ) -> Cluster {
        let script = self.clone();
        let answer = Arc::new(answer);
        let service = tower::service_fn(move |request: Request<Body>| {
            let number = script.count.fetch_add(1, Ordering::SeqCst) + 1;
            let line = (request.method().to_string(), request.uri().to_string());
            script.asked.lock().unwrap().push(line);
            let answer = answer(number, &request).into();
            async move {
                match answer {
                    Some(response) => Ok::<_, std::convert::Infallible>(response),
                    None => std::future::pending().await,
                }
            }
        });
        Cluster::from_client(kube::Client::new(service, "default"), Limits::default())
    }

    fn asked(&self) -> Vec<(String, String)> {
        self.asked.lock().unwrap().clone()
    }
}

fn says(code: u16, body: &Value) -> Response<Body> {
    Response::builder()
        .status(code)
        .body(Body::from(serde_json::to_vec(body).unwrap()))
        .unwrap()
}

fn refusal(code: u16, reason: &str, details: Value) -> Value {
    json!({"kind": "Status", "status": "Failure", "message": reason, "reason": reason, "code": code, "details": details})
}

fn flink() -> Served {
    Served {
        gvk: Gvk::new("flink.apache.org/v1beta1", "FlinkDeployment"),
        plural: "flinkdeployments".into(),
        namespaced: true,
        watchable: true,
    }
}

fn orders() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"namespace": "shop", "name": "orders", "uid": "u1", "resourceVersion": "7"},
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_is_unreachable_after_the_limit_and_not_later() {
    let script = Script::default();
    let cluster = script.cluster(|_, _| None::<Response<Body>>);
    let began = tokio::time::Instant::now();
    let error = cluster.lookup(&flink().gvk).await.unwrap_err();
    let took = began.elapsed();
    assert_eq!(error.kind(), Kind::Unreachable);
    assert!(error.to_string().contains("no answer within 15 s"), "{error}");
    let limits = Limits::default();
    assert!(
        took >= limits.request && took <= limits.total + limits.request,
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_may_have_been_done_is_not_sent_twice() {
    let script = Script::default();
    let cluster = script.cluster(|_, _| says(503, &refusal(503, "ServiceUnavailable", json!({}))));
    cluster
        .writer("cutover")
        .create(&flink(), &orders(), Mode::Write)
        .await
        .unwrap_err();
    assert_eq!(script.asked().len(), 1);
    cluster
        .writer("cutover")
        .apply(&flink(), &orders(), Mode::Write)
        .await
        .unwrap_err();
    assert_eq!(script.asked().len(), 1 + Limits::default().attempts as usize);
}

#[tokio::test(start_paused = true)]
async fn an_overloaded_server_says_when_to_come_back() {
    let script = Script::default();
    let cluster = script.cluster(|number, _| {
        if number == 1 {
            let response = Response::builder().status(429).header("Retry-After", "7");
            response.body(Body::empty()).unwrap()
        } else {
            says(201, &orders())
        }
    });
    let began = tokio::time::Instant::now();
    let written = cluster
        .writer("cutover")
        .create(&flink(), &orders(), Mode::Write)
        .await
        .unwrap();
    assert_eq!(written, Written::Done(orders()));
    assert!(began.elapsed() >= Duration::from_secs(7));
}

#[tokio::test]
async fn every_request_says_who_asks() {
    let script = Script::default();
    let cluster = script.cluster(|_, request| {
        assert_eq!(request.headers()["user-agent"], USER_AGENT);
        says(200, &orders())
    });
    let read = cluster.reader().get(&flink(), Some("shop"), "orders").await;
    assert_eq!(read.answer, Answer::Found(orders()));
    assert!(read.sent < read.answered);
}

#[tokio::test]
async fn a_member_object_that_is_absent_is_told_from_a_cluster_that_is_unknown() {
    let about_object = json!({"group": "flink.apache.org", "kind": "flinkdeployments", "name": "orders"});
    let about_cluster = json!({"group": "cluster.karmada.io", "kind": "clusters", "name": "east"});
    let about_same_kind = json!({"group": "other.dev", "kind": "flinkdeployments", "name": "orders"});
    let about_same_name = json!({"group": "cluster.karmada.io", "kind": "clusters", "name": "orders"});
    for (details, absent) in [
        (about_object, true),
        (about_cluster, false),
        (about_same_name, false),
        (about_same_kind, false),
        (json!({}), false),
        (Value::Null, false),
    ] {
        let script = Script::default();
        let body = refusal(404, "NotFound", details.clone());
        let cluster = script.cluster(move |_, _| says(404, &body));
        let read = cluster
            .member(&ClusterName::new("east"))
            .get(&flink(), Some("shop"), "orders")
            .await;
        match read.answer {
            Answer::NotFound => assert!(absent, "{details}"),
            Answer::Unknown { why } => assert!(!absent && why.contains("cluster east"), "{details}: {why}"),
            Answer::Found(_) => panic!("found"),
        }
        let proxied = "/apis/cluster.karmada.io/v1alpha1/clusters/east/proxy\
                       /apis/flink.apache.org/v1beta1/namespaces/shop/flinkdeployments/orders";
        assert_eq!(script.asked(), [("GET".to_owned(), proxied.to_owned())]);
    }
}

/// A CRD that a member doesn't have is told from a member that can't be asked, and an unusual plural is looked up.
#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
async fn objects_of_a_kind_that_is_not_served_are_none_only_if_the_server_says_so() {
    let snapshot = Gvk::new("flink.apache.org/v1beta1", "FlinkStateSnapshot");
    let not_found = || refusal(404, "NotFound", json!({}));
    let groups = |version: &str| {
        let versions = json!([{"groupVersion": format!("flink.apache.org/{version}"), "version": version}]);
        json!({"kind": "APIGroupList", "groups": [{"name": "flink.apache.org", "versions": versions}]})
    };
    let kinds = |plural: &str, kind: &str| {
        let status = json!({"name": format!("{plural}/status"), "kind": kind, "namespaced": true});
        let resource = json!({"name": plural, "kind": kind, "namespaced": true});
        json!({"kind": "APIResourceList", "resources": [status, resource]})
    };
    let none = json!({"kind": "FlinkStateSnapshotList", "items": []});
    let more = json!({"kind": "FlinkStateSnapshotList", "metadata": {"continue": "more"}, "items": [{}]});
    let other = kinds("flinkdeployments", "FlinkDeployment");
    let unusual = kinds("statesnapshots", "FlinkStateSnapshot");
    let forbidden = refusal(403, "Forbidden", json!({}));
    // What is answered, one after the other; whether it is known that there are none.
    let cases: [(Vec<(u16, Value)>, bool); 8] = [
        (vec![(200, none.clone())], true),
        (vec![(404, not_found()), (200, groups("v1alpha1"))], true),
        (
            vec![(404, not_found()), (200, groups("v1beta1")), (200, other)],
            true,
        ),
        (
            vec![
                (404, not_found()),
                (200, groups("v1beta1")),
                (200, unusual.clone()),
                (200, none),
            ],
            true,
        ),
        (
            vec![
                (404, not_found()),
                (200, groups("v1beta1")),
                (200, unusual),
                (404, not_found()),
            ],
            false,
        ),
        (vec![(404, not_found()), (404, not_found())], false),
        (vec![(403, forbidden)], false),
        (vec![(200, more)], false),
    ];
    for (answers, is_none) in cases {
        let (script, count) = (Script::default(), answers.len());
        let shown = format!("{answers:?}");
        let cluster = script.cluster(move |number, _| {
            let (code, body) = &answers[number as usize - 1];
            says(*code, body)
        });
        let east = cluster.member(&ClusterName::new("east"));
        let read = east
            .list_where_served(&snapshot, Some("shop"), "job=orders")
            .await;
        match read.answer {
            Answer::Found(found) => assert!(is_none && found.is_empty(), "{shown}"),
            Answer::Unknown { .. } => assert!(!is_none, "{shown}"),
            Answer::NotFound => panic!("{shown}"),
        }
        let asked = script.asked();
        assert_eq!(asked.len(), count, "{asked:?}");
        let first = "/apis/cluster.karmada.io/v1alpha1/clusters/east/proxy/apis/flink.apache.org/v1beta1/namespaces/shop/\
                     flinkstatesnapshots?labelSelector=job%3Dorders&limit=500";
        assert_eq!(asked[0].1, first);
    }
}

/// Each with its code, one after the other.
type Answers = Vec<(u16, Value)>;

/// What is installed in a member decides about the version; a member that can't be asked isn't one that has nothing.
#[tokio::test]
async fn kinds_are_looked_up_in_the_first_version_of_their_group_that_has_them() {
    let groups = json!({"kind": "APIGroupList", "groups": [
        {"name": "batch", "versions": [{"groupVersion": "batch/v1", "version": "v1"}]},
        {"name": "kueue.x-k8s.io", "versions": [
            {"groupVersion": "kueue.x-k8s.io/v1beta2", "version": "v1beta2"},
            {"groupVersion": "kueue.x-k8s.io/v1beta1", "version": "v1beta1"},
        ]},
    ]});
    let without = json!({"kind": "APIGroupList", "groups": [{"name": "batch", "versions": []}]});
    let kinds = |kind: &str, plural: &str| {
        let resource = json!({"name": plural, "kind": kind, "namespaced": true});
        json!({"kind": "APIResourceList", "resources": [resource]})
    };
    let (queues, workloads) = (kinds("LocalQueue", "localqueues"), kinds("Workload", "workloads"));
    let other = kinds("Topology", "topologies");
    let mut both = queues.clone();
    let more = workloads["resources"][0].clone();
    both["resources"].as_array_mut().unwrap().push(more);
    let forbidden = || refusal(403, "Forbidden", json!({}));
    // What is answered, one after the other; how many kinds are found, where that is known.
    let cases: [(Answers, Option<usize>); 8] = [
        (vec![(200, without)], Some(0)),
        (vec![(200, groups.clone()), (200, both)], Some(2)),
        (
            vec![(200, groups.clone()), (200, queues.clone()), (200, workloads)],
            Some(2),
        ),
        (
            vec![(200, groups.clone()), (200, other.clone()), (200, queues.clone())],
            Some(1),
        ),
        (
            vec![(200, groups.clone()), (200, other.clone()), (200, other)],
            Some(0),
        ),
        (vec![(403, forbidden())], None),
        (vec![(200, groups.clone()), (403, forbidden())], None),
        (vec![(200, groups), (200, queues), (403, forbidden())], None),
    ];
    for (answers, expected) in cases {
        let (script, count) = (Script::default(), answers.len());
        let shown = format!("{answers:?}");
        let cluster = script.cluster(move |number, _| {
            let (code, body) = &answers[number as usize - 1];
            says(*code, body)
        });
        let east = cluster.member(&ClusterName::new("east"));
        let read = east
            .look_up_all("kueue.x-k8s.io", &["LocalQueue", "Workload"])
            .await;
        let found = match read.answer {
            Answer::Found(found) => Some(found.len()),
            Answer::Unknown { .. } => None,
            Answer::NotFound => panic!("{shown}"),
        };
        assert_eq!(found, expected, "{shown}");
        assert_eq!(script.asked().len(), count, "{shown}");
    }
}

#[tokio::test]
async fn a_path_that_nobody_serves_says_nothing_about_an_object() {
    let script = Script::default();
    let cluster = script.cluster(|_, _| {
        Some(
            Response::builder()
                .status(404)
                .body(Body::from(b"404 page not found\n".to_vec()))
                .unwrap(),
        )
    });
    let east = cluster.member(&ClusterName::new("east"));
    assert!(matches!(
        east.get(&flink(), Some("shop"), "orders").await.answer,
        Answer::Unknown { .. }
    ));
    assert!(matches!(
        east.pods::<Value>(Some("shop"), "app=orders").await.answer,
        Answer::Unknown { .. }
    ));
    let exactly = Exactly::of(&orders());
    cluster
        .writer("cutover")
        .delete(&flink(), &exactly, Mode::Write)
        .await
        .unwrap_err();
}

#[tokio::test]
async fn half_a_list_is_no_list() {
    let script = Script::default();
    let cluster = script.cluster(|_, request| {
        assert!(
            request
                .uri()
                .query()
                .unwrap()
                .contains("labelSelector=app%3Dorders")
        );
        says(
            200,
            &json!({"kind": "PodList", "metadata": {"continue": "more"}, "items": []}),
        )
    });
    let read = cluster
        .member(&ClusterName::new("east"))
        .pods::<Value>(Some("shop"), "app=orders")
        .await;
    assert!(matches!(read.answer, Answer::Unknown { .. }));
}

#[tokio::test]
async fn a_failed_test_of_a_patch_is_told_from_an_object_that_is_not_valid() {
    let test = [json!({"op": "test", "path": "/spec/suspend", "value": true})];
    let failed = refusal(422, "Invalid", json!({}));
    let cause =
        json!({"kind": "FlinkDeployment", "causes": [{"field": "spec.x", "message": "Required value"}]});
    let invalid = refusal(422, "Invalid", cause);
    for (body, is_precondition) in [(failed, true), (invalid, false)] {
        let cluster = Script::default().cluster(move |_, _| says(422, &body));
        let writer = cluster.writer("cutover-intent");
        let written = writer
            .patch(&flink(), &Exactly::of(&orders()), &test, Mode::Write)
            .await;
        match written {
            Ok(Written::Precondition(_)) => assert!(is_precondition),
            Err(error) => assert!(
                !is_precondition && error.to_string().contains("spec.x: Required value"),
                "{error}"
            ),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn somebody_elses_fields_are_reported_by_manager_and_field() {
    let causes = json!({"causes": [
        {"reason": "FieldManagerConflict", "message": "conflict with \"kubectl-edit\" using apps/v1", "field": ".spec.b"},
        {"reason": "FieldManagerConflict", "message": "conflict with \"hpa\" using apps/v1", "field": ".spec.replicas"},
    ]});
    let body = refusal(409, "Conflict", causes);
    let cluster = Script::default().cluster(move |_, _| says(409, &body));
    let applied = cluster
        .writer("cutover")
        .apply(&flink(), &orders(), Mode::Write)
        .await
        .unwrap();
    let conflict = |manager: &str, field: &str| FieldConflict {
        manager: manager.into(),
        field: field.into(),
    };
    assert_eq!(
        applied,
        Applied::Conflicts(vec![
            conflict("hpa", ".spec.replicas"),
            conflict("kubectl-edit", ".spec.b")
        ])
    );
}

#[tokio::test]
async fn a_name_that_is_taken_gives_the_object_that_has_it() {
    let cluster = Script::default().cluster(|_, request| match request.method().as_str() {
        "POST" => says(409, &refusal(409, "AlreadyExists", json!({"name": "orders"}))),
        _ => says(200, &orders()),
    });
    let written = cluster
        .writer("cutover")
        .create(&flink(), &orders(), Mode::Write)
        .await
        .unwrap();
    assert_eq!(written, Written::Exists(orders()));
}

#[tokio::test]
async fn a_write_without_the_version_that_was_read_is_not_sent() {
    let script = Script::default();
    let cluster = script.cluster(|_, _| says(200, &orders()));
    let mut unread = orders();
    unread["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    cluster
        .writer("cutover")
        .replace(&flink(), &unread, Mode::Write)
        .await
        .unwrap_err();
    cluster
        .writer("cutover")
        .merge_status(&flink(), &Exactly::of(&unread), &json!({}))
        .await
        .unwrap_err();
    assert_eq!(script.asked(), []);
}

#[tokio::test]
async fn a_kind_is_asked_for_once_and_again_only_when_it_is_missing() {
    let script = Script::default();
    let cluster = script.cluster(|number, _| {
        let kinds = json!([{"name": "flinkdeployments", "singularName": "", "namespaced": true, "kind": "FlinkDeployment", "verbs": ["watch"]}]);
        let resources = if number == 1 { json!([]) } else { kinds };
        says(200, &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "flink.apache.org/v1beta1", "resources": resources}))
    });
    assert_eq!(cluster.lookup(&flink().gvk).await.unwrap(), Lookup::NotServed);
    for _ in 0..3 {
        assert_eq!(
            cluster.lookup(&flink().gvk).await.unwrap(),
            Lookup::Served(flink())
        );
    }
    assert_eq!(script.asked().len(), 2);
}

#[tokio::test]
async fn what_a_server_that_starts_does_not_serve_is_not_known() {
    for (ready, expected) in [
        (500, None),
        (404, Some(Lookup::NotServed)),
        (200, Some(Lookup::NotServed)),
    ] {
        let script = Script::default();
        let cluster = script.cluster(move |_, request| {
            let code = if request.uri().path() == "/readyz" {
                ready
            } else {
                404
            };
            says(code, &json!("[-]poststarthook/crd-informer-synced failed"))
        });
        let gvk = &flink().gvk;
        let looked = cluster.lookup(gvk).await;
        if let Err(error) = &looked {
            assert!(error.to_string().contains("is not ready"), "{error}");
        }
        assert_eq!(looked.ok(), expected, "{ready}");
        let found = cluster.discovery().find(&cluster, &gvk.group, &gvk.kind).await;
        assert_eq!(found.ok(), expected, "{ready}");
    }
}

#[tokio::test]
async fn a_404_from_before_a_server_was_ready_is_not_believed() {
    let script = Script::default();
    // It gets ready between the first request and the second.
    let cluster = script.cluster(|number, request| {
        let kinds = json!([{"name": "flinkdeployments", "singularName": "", "namespaced": true, "kind": "FlinkDeployment", "verbs": ["watch"]}]);
        match request.uri().path() {
            "/readyz" => says(200, &json!("ok")),
            _ if number == 1 => says(404, &refusal(404, "NotFound", json!({}))),
            _ => says(200, &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "flink.apache.org/v1beta1", "resources": kinds})),
        }
    });
    assert_eq!(
        cluster.lookup(&flink().gvk).await.unwrap(),
        Lookup::Served(flink())
    );
    assert_eq!(script.asked().len(), 3);
}

/// Watches against an API server, with a connection that can be disturbed.
mod watching {
    use super::*;
    use cutover::cluster::{Change, Keep, KeepManagedFields, KindState, Observer, Watched};
    use cutover::sandbox::api::{ApiServer, Options, Resource};

    use crate::support::server::{On, Server, on_both_servers};

    on_both_servers![
        a_watch_survives_what_breaks_it,
        a_quiet_kind_is_known_again_when_its_watch_is_open_again,
        a_cache_follows_what_comes_changes_and_goes,
        only_what_is_asked_for_is_kept_and_more_when_more_is_asked_for,
    ];

    const SOON: Duration = Duration::from_secs(10);
    const CONFIG_MAPS: Resource = Resource::new("", "configmaps");

    fn config_maps() -> Watched {
        Watched::all(Gvk::new("v1", "ConfigMap"))
    }

    fn write(server: &Server, name: &str) {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
        server.create(&CONFIG_MAPS, Some("default"), object, "test");
    }

    fn names(observer: &Observer) -> Vec<String> {
        let objects = observer.list("", "ConfigMap");
        let in_default = objects
            .iter()
            .filter(|object| object["metadata"]["namespace"] == "default");
        in_default
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// A cluster of which the first watches are answered by `disturb`.
    fn disturbed(
        server: &Server,
        times: u32,
        disturb: impl Fn() -> Response<Body> + Send + Sync + 'static,
    ) -> Cluster {
        let inner = server.client();
        let (left, disturb) = (Arc::new(AtomicU32::new(times)), Arc::new(disturb));
        let flaky = tower::service_fn(move |request: Request<Body>| {
            let watches = request
                .uri()
                .query()
                .is_some_and(|query| query.contains("watch=true"));
            let hit = watches
                && left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok();
            let (inner, disturb) = (inner.clone(), Arc::clone(&disturb));
            async move {
                if hit {
                    Ok(disturb())
                } else {
                    inner.send(request).await
                }
            }
        });
        Cluster::from_client(kube::Client::new(flaky, "default"), Limits::default())
    }

    async fn a_watch_survives_what_breaks_it(on: On) {
        let expired = json!({"type": "ERROR", "object": refusal(410, "Expired", json!({}))});
        for (code, body) in [
            (200, Value::Null),
            (200, expired),
            (500, refusal(500, "InternalError", json!({}))),
        ] {
            let server = on.server();
            let body = if body.is_null() {
                Vec::new()
            } else {
                format!("{body}\n").into_bytes()
            };
            let cluster = disturbed(&server, 3, move || {
                Response::builder()
                    .status(code)
                    .body(Body::from(body.clone()))
                    .unwrap()
            });
            let observer = Observer::new(cluster);
            observer.watch(config_maps());
            observer.settled(SOON).await;
            write(&server, "a");
            assert!(
                observer.until(SOON, |observer| names(observer) == ["a"]).await,
                "HTTP {code}"
            );
            assert_eq!(observer.settled(SOON).await, []);
        }
    }

    async fn a_quiet_kind_is_known_again_when_its_watch_is_open_again(on: On) {
        let server = on.server();
        let refused = || {
            let body = refusal(503, "ServiceUnavailable", json!({})).to_string();
            Response::builder()
                .status(503)
                .body(Body::from(body.into_bytes()))
                .unwrap()
        };
        let observer = Observer::new(disturbed(&server, 2, refused));
        observer.watch(config_maps());
        let failing = |observer: &Observer| {
            matches!(
                observer.state("", "ConfigMap"),
                Some(KindState::Failing {
                    synced_at: Some(_),
                    ..
                })
            )
        };
        assert!(observer.until(SOON, failing).await);
        assert_eq!(observer.settled(SOON).await, []);
    }

    async fn a_cache_follows_what_comes_changes_and_goes(on: On) {
        let server = on.server();
        write(&server, "a");
        let observer = Observer::new(Cluster::from_client(server.client(), Limits::default()));
        observer.watch(config_maps());
        assert_eq!(observer.settled(SOON).await, []);
        assert_eq!(names(&observer), ["a"]);
        let mut changes = observer.changes();
        write(&server, "b");
        server.delete(&CONFIG_MAPS, Some("default"), "a");
        assert!(observer.until(SOON, |observer| names(observer) == ["b"]).await);
        let mut heard = [changes.recv().await.unwrap(), changes.recv().await.unwrap()];
        heard.sort_by(|one, other| one.key.cmp(&other.key));
        let said: Vec<_> = heard
            .iter()
            .map(|Change { key, gone }| (key.name.as_str(), *gone))
            .collect();
        assert_eq!(said, [("a", true), ("b", false)]);
    }

    async fn only_what_is_asked_for_is_kept_and_more_when_more_is_asked_for(on: On) {
        let server = on.server();
        write(&server, "a");
        let observer = Observer::new(Cluster::from_client(server.client(), Limits::default()));
        let lean = Keep {
            managed_fields: KeepManagedFields::None,
            status: false,
        };
        observer.watch(Watched {
            keep: lean,
            ..config_maps()
        });
        observer.settled(SOON).await;
        let owned =
            |observer: &Observer| !observer.list("", "ConfigMap")[0]["metadata"]["managedFields"].is_null();
        assert!(!owned(&observer));
        observer.watch(config_maps());
        assert_eq!(observer.settled(SOON).await, []);
        assert!(owned(&observer));
    }

    #[tokio::test]
    async fn a_kind_that_is_installed_later_is_found() {
        let server = ApiServer::new(Options::new("karmada", 1));
        let observer = Observer::new(Cluster::from_client(server.client("cutover"), Limits::default()));
        observer.watch(Watched::all(Gvk::new("cutover.dev/v1alpha1", "Claim")));
        assert_eq!(observer.settled(SOON).await, []);
        assert_eq!(observer.state("cutover.dev", "Claim"), Some(KindState::NotServed));
        for crd in cutover::api::crds() {
            server.install(&serde_json::to_value(crd).unwrap()).unwrap();
        }
        observer.look_again();
        let synced = |observer: &Observer| {
            matches!(
                observer.state("cutover.dev", "Claim"),
                Some(KindState::Synced { .. })
            )
        };
        assert!(observer.until(SOON, synced).await);
    }
}
