//! Drift: what is put back, what is left to others, what is only told, and who doesn't give in.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cutover::cluster::{Cluster, Limits, Observer};
use cutover::name::GroupKind;
use cutover::reconcile::sync::{Selection, Sync};
use cutover::repo::Polling;
use cutover::sandbox::api::Patch;
use cutover::sandbox::{World, WorldOptions};
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::git::{Mirrored, Origin};
use crate::support::plane::{CONFIG_MAPS, NAMESPACE, NAMESPACES, Plane, config, config_with, settings};
use crate::support::server::{On, Server, on_both_servers};
use crate::support::wait::until;

on_both_servers![
    a_field_that_is_ignored_begins_as_git_has_it_and_is_then_left_to_others,
    a_field_that_is_ignored_and_that_nobody_else_owns_is_not_removed,
    what_a_named_manager_owns_is_its_own,
    with_warn_a_change_by_hand_is_told_and_stays_until_git_changes,
    an_object_says_itself_what_is_done_about_it,
    a_change_that_is_seen_before_our_own_write_is_answered_is_corrected,
    what_is_put_right_before_the_refusal_comes_is_not_left_to_rest,
    somebody_who_never_gives_in_is_named_and_answered_ever_more_slowly,
    a_restart_finds_typical_objects_in_sync_without_asking,
];

fn plane(on: On, drift: &str, object: &str) -> Plane {
    let settings = settings(&format!("- {{name: apps, path: apps, drift: {drift}}}"));
    Plane::with(
        on,
        &[("cutover.yaml", &settings), NAMESPACE, ("apps/a.yaml", object)],
    )
}

fn key(plane: &Plane) -> Value {
    plane.config("a").unwrap()["data"]["key"].clone()
}

fn by_hand(value: &str) -> Value {
    json!({"data": {"key": value}})
}

fn with_data(value: &str, more: &str) -> String {
    config("a").replace("{key: x}", &format!("{{key: {value}, more: '{more}'}}"))
}

fn status(plane: &Plane) -> String {
    plane.origin.read("cutover-status", "STATUS.md").unwrap()
}

async fn a_field_that_is_ignored_begins_as_git_has_it_and_is_then_left_to_others(on: On) {
    let plane = plane(
        on,
        "{ignore: [{kind: ConfigMap, pointers: [/data/key]}]}",
        &with_data("x", "1"),
    );
    plane.run().await;
    assert_eq!(key(&plane), "x");
    plane.edit("a", by_hand("theirs"));
    plane.writes();
    plane.run().await;
    plane.run().await;
    assert_eq!((key(&plane), plane.writes().len()), (json!("theirs"), 0));
    // A change of another field takes nothing from them, nor does a change of this one.
    plane.push(&[("apps/a.yaml", &with_data("y", "2"))]);
    assert!(plane.run().await.is_clean());
    assert_eq!(
        plane.config("a").unwrap()["data"],
        json!({"key": "theirs", "more": "2"})
    );
    plane.edit("a", json!({"data": {"more": "by hand"}}));
    plane.run().await;
    assert_eq!(
        plane.config("a").unwrap()["data"],
        json!({"key": "theirs", "more": "2"})
    );
}

async fn a_field_that_is_ignored_and_that_nobody_else_owns_is_not_removed(on: On) {
    let plane = plane(on, "{}", &with_data("x", "1"));
    plane.run().await;
    let ignoring = settings("- {name: apps, path: apps, drift: {ignore: [{pointers: [/data/key]}]}}");
    plane.push(&[("cutover.yaml", &ignoring), ("apps/a.yaml", &with_data("y", "2"))]);
    plane.run().await;
    assert_eq!(
        plane.config("a").unwrap()["data"],
        json!({"key": "x", "more": "2"})
    );
}

async fn what_a_named_manager_owns_is_its_own(on: On) {
    let plane = plane(on, "{ignore: [{managers: [scaler]}]}", &config("a"));
    plane.run().await;
    plane.edit_as("scaler", "a", by_hand("scaled"));
    plane.run().await;
    assert_eq!(key(&plane), "scaled");
    plane.edit("a", by_hand("by hand"));
    plane.run().await;
    assert_eq!(key(&plane), "x", "it is the scaler's no more");
}

async fn with_warn_a_change_by_hand_is_told_and_stays_until_git_changes(on: On) {
    let plane = plane(on, "{mode: Warn}", &config("a"));
    assert!(plane.run().await.is_clean());
    plane.edit("a", by_hand("by hand"));
    plane.writes();
    for _ in 0..2 {
        let report = plane.sync("apps").await;
        assert!(report.is_clean(), "{report:?}");
        assert_eq!((key(&plane), plane.writes().len()), (json!("by hand"), 0));
        let told = status(&plane);
        assert!(
            told.contains("ConfigMap shop/a has drifted, which is not corrected: .data.key (kubectl-edit)"),
            "{told}"
        );
    }
    assert!(
        plane
            .plan()
            .await
            .iter()
            .all(|change| change.action == cutover::plan::Action::Unchanged)
    );
    plane.push(&[("apps/a.yaml", &config("a").replace("key: x", "key: new"))]);
    plane.run().await;
    assert_eq!(key(&plane), "new");
    assert!(!status(&plane).contains("drifted"), "{}", status(&plane));
}

async fn an_object_says_itself_what_is_done_about_it(on: On) {
    let ignored = plane(on, "{}", &config_with("a", "{cutover.dev/drift: ignore}"));
    ignored.run().await;
    ignored.edit("a", by_hand("by hand"));
    ignored.run().await;
    assert_eq!(key(&ignored), "by hand");
    assert!(!status(&ignored).contains("drifted"));
    // Without the annotation by which that is known, Git's state comes back.
    ignored.edit(
        "a",
        json!({"metadata": {"annotations": {"cutover.dev/applied": null}}}),
    );
    ignored.run().await;
    assert_eq!(key(&ignored), "x");

    let corrected = plane(
        on,
        "{mode: Warn}",
        &config_with("a", "{cutover.dev/drift: correct}"),
    );
    corrected.run().await;
    corrected.edit("a", by_hand("by hand"));
    corrected.run().await;
    assert_eq!(key(&corrected), "x");
}

/// Returns a client by which the first write of ConfigMap `a` is answered only once an observer has seen what somebody
/// did to it since; that returns the version of it, if there is one.
fn overtaken(
    server: &Server,
    observer: &Arc<OnceLock<Observer>>,
    interfere: fn(&Server) -> Option<String>,
) -> kube::Client {
    let (client, server, observer) = (server.client(), server.clone(), Arc::clone(observer));
    let interfered = Arc::new(AtomicBool::new(false));
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_ours = request.method() == Method::PATCH && request.uri().path().ends_with("/configmaps/a");
        let interferes = is_ours && !interfered.swap(true, Ordering::SeqCst);
        let (client, server, observer) = (client.clone(), server.clone(), Arc::clone(&observer));
        async move {
            let answer = client.send(request).await?;
            if interferes {
                let version = interfere(&server);
                let key = GroupKind::new("", "ConfigMap").key(Some("shop"), "a");
                let is_seen = |observer: &Observer| observer.version(&key) == version;
                let observer = observer.get().unwrap();
                assert!(observer.until(Duration::from_secs(20), is_seen).await);
            }
            Ok::<_, kube::Error>(answer)
        }
    });
    kube::Client::new(service, "default")
}

async fn a_change_that_is_seen_before_our_own_write_is_answered_is_corrected(on: On) {
    let origin = Origin::with(&[NAMESPACE, ("apps/a.yaml", &config("a"))]);
    let mirror = Mirrored::of(origin.url()).await;
    let server = on.server();
    let observed = Arc::new(OnceLock::new());
    let edit = |server: &Server| {
        let patch = Patch::Merge(by_hand("by hand"));
        let edited = server.patch(&CONFIG_MAPS, Some("shop"), "a", None, &patch, "kubectl-edit");
        Some(edited["metadata"]["resourceVersion"].as_str()?.to_owned())
    };
    let cluster = Cluster::from_client(overtaken(&server, &observed, edit), Limits::default());
    let observer = observed.get_or_init(|| Observer::new(cluster.clone())).clone();
    let mut sync = Sync::new(mirror.clone(), cluster, observer, Selection::default());
    let key = || server.get(&CONFIG_MAPS, Some("shop"), "a").unwrap()["data"]["key"].clone();
    sync.once().await.unwrap();
    assert_eq!(key(), "by hand");
    sync.once().await.unwrap();
    assert_eq!(key(), "x");
}

async fn what_is_put_right_before_the_refusal_comes_is_not_left_to_rest(on: On) {
    let origin = Origin::with(&[NAMESPACE, ("apps/a.yaml", &config("a"))]);
    let mirror = Mirrored::of(origin.url()).await;
    let server = on.server();
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    server.create(&NAMESPACES, None, shop, "kubectl-create");
    let frozen = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "a"},
        "data": {"key": "frozen"}, "immutable": true,
    });
    server.create(&CONFIG_MAPS, Some("shop"), frozen, "kubectl-create");
    let observed = Arc::new(OnceLock::new());
    // Without what is in the way, the object can be had.
    let delete = |server: &Server| {
        server.delete(&CONFIG_MAPS, Some("shop"), "a");
        None
    };
    let cluster = Cluster::from_client(overtaken(&server, &observed, delete), Limits::default());
    let observer = observed.get_or_init(|| Observer::new(cluster.clone())).clone();
    let sync = Sync::new(mirror.clone(), cluster, observer, Selection::default());
    let polling = Polling {
        interval: Duration::from_hours(1),
        ..Polling::default()
    };
    let stop = CancellationToken::new();
    let running = tokio::spawn(sync.run(polling, stop.clone()));
    until("it is as Git has it", || {
        let live = server.get(&CONFIG_MAPS, Some("shop"), "a");
        live.is_some_and(|live| live["data"]["key"] == "x")
    })
    .await;
    stop.cancel();
    running.await.unwrap();
}

async fn somebody_who_never_gives_in_is_named_and_answered_ever_more_slowly(on: On) {
    let plane = plane(on, "{}", &config("a"));
    plane.run().await;
    let running = plane.start();
    let contested = || {
        plane
            .origin
            .read("cutover-status", "STATUS.md")
            .is_some_and(|text| {
                text.contains("changes it back whenever it is corrected: .data.key (kubectl-edit)")
            })
    };
    let begun = std::time::Instant::now();
    let mut edits = 0;
    plane.writes();
    while !contested() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{}", status(&plane));
        if key(&plane) == "x" {
            plane.edit("a", by_hand(&format!("by hand {edits}")));
            edits += 1;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let corrections = plane
        .writes()
        .iter()
        .filter(|line| line.contains("configmaps/a"))
        .count();
    let seconds = begun.elapsed().as_secs();
    assert!(
        corrections >= 5,
        "the first ones are corrected at once: {corrections}"
    );
    assert!(corrections <= 12, "{corrections} corrections in {seconds} s");
    // When they stop, it comes right by itself.
    until("it is as Git has it", || key(&plane) == "x").await;
    drop(running);
}

/// Objects as people write them: with what servers fill in left out, and quantities in their own way.
const TYPICAL: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {}, annotations: {}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: shop, name: web, labels: null}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: shop, name: web, annotations: {}}
data: {cpu: 1000m}
binaryData: {}
---
apiVersion: v1
kind: Secret
metadata: {namespace: shop, name: web}
stringData: {password: hunter2}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, labels: {app: web}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, creationTimestamp: null}
    spec:
      nodeSelector: {}
      tolerations: []
      imagePullSecrets: []
      serviceAccountName: web
      containers:
      - name: web
        image: web:1
        args: []
        ports: [{containerPort: 8080}, {name: metrics, containerPort: 9090}]
        env:
        - {name: A, value: x}
        - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        envFrom: [{configMapRef: {name: web}}]
        resources: {requests: {cpu: 1000m, memory: 1024Mi}, limits: {cpu: 1.5, memory: '1073741824'}}
        readinessProbe: {httpGet: {path: /, port: 8080}}
        volumeMounts: [{name: tmp, mountPath: /tmp}]
      volumes:
      - {name: tmp, emptyDir: {}}
      - {name: cache, emptyDir: {sizeLimit: 1024Mi}}
      - {name: config, configMap: {name: web}}
---
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: metrics, port: 9090}]}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {namespace: shop, name: web}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}, {apiVersion: v1, kind: Service}]
  placement:
    clusterAffinity: {clusterNames: [east, west]}
    spreadConstraints: [{maxGroups: 1}]
    replicaScheduling: {replicaSchedulingType: Divided}
---
apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata: {namespace: shop, name: web}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]
  overrideRules:
  - targetCluster: {clusterNames: [west]}
    overriders: {plaintext: [{path: /spec/replicas, operator: add, value: 2}]}
---
apiVersion: flink.apache.org/v1beta1
kind: FlinkDeployment
metadata: {namespace: shop, name: orders}
spec:
  image: orders:1
  flinkVersion: v1_20
  serviceAccount: flink
  flinkConfiguration: {taskmanager.numberOfTaskSlots: '1'}
  jobManager: {resource: {memory: 1024m, cpu: 1}}
  taskManager: {resource: {memory: 1024m, cpu: 0.5}}
  job: {jarURI: 'local:///opt/orders.jar', parallelism: 1, upgradeMode: savepoint, state: running}
";

async fn a_restart_finds_typical_objects_in_sync_without_asking(on: On) {
    finds_typical_objects_in_sync(|files| Plane::with(on, files)).await;
}

/// Where Karmada's webhooks and controllers have had their say too.
#[tokio::test]
async fn a_restart_finds_typical_objects_in_sync_in_a_control_plane_of_karmada() {
    let world = World::start(WorldOptions::fast());
    finds_typical_objects_in_sync(|files| Plane::on(world.control_plane(), files)).await;
}

async fn finds_typical_objects_in_sync(plane: impl Fn(&[(&str, &str)]) -> Plane) {
    let settings = settings("- {name: apps, path: apps, prune: true}");
    let plane = plane(&[("cutover.yaml", &settings), ("apps/all.yaml", TYPICAL)]);
    let summary = plane.run().await;
    assert!(summary.is_clean(), "{summary:?}");
    plane.writes();
    plane.run().await;
    assert_eq!(plane.writes(), [""; 0], "the cache decides");
}
