//! Sync: from a revision in Git to objects in the API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cutover::cluster::{Cluster, Limits, Observer, Outcome, Watched};
use cutover::config::Config;
use cutover::name::{Gvk, ObjectKey};
use cutover::plan::{Action, TextOptions};
use cutover::reconcile::intents::Templates;
use cutover::reconcile::sync::{ObjectResult, Range, Selection, Sync, SyncReport, plan_revision};
use cutover::repo::Polling;
use cutover::sandbox::api::{Patch, Resource};
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::counted::{Asked, counted};
use crate::support::git::{Mirrored, Origin};
use crate::support::server::{On, Server, on_both_servers};

const SOON: Duration = Duration::from_secs(10);
const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");

on_both_servers![
    a_push_is_applied_in_order_and_what_is_in_sync_costs_no_request,
    one_changed_file_costs_one_request,
    only_the_object_that_a_commit_changes_is_sent_whatever_else_moves_in_its_file,
    a_restart_with_everything_in_sync_lists_once_and_writes_nothing,
    a_broken_object_stops_no_other_and_is_found_in_its_file,
    a_file_that_cannot_be_read_leaves_its_objects_alone_and_the_rest_goes_on,
    a_kind_and_an_object_of_it_come_in_one_push,
    a_kind_that_nobody_serves_is_waited_for,
    fields_of_others_are_not_taken_from_them,
    a_template_waits_for_the_migration_of_the_same_push_and_for_nothing_longer,
    what_left_git_is_reported_and_not_deleted,
    drift_is_corrected_as_it_happens,
    history_that_was_rewritten_is_read_anew,
    a_plan_shows_what_a_push_would_do_and_writes_nothing,
    a_control_plane_that_cannot_be_asked_about_intents_gets_no_template,
    a_sync_reads_its_folder_and_places_what_names_no_namespace,
    a_refused_secret_is_not_quoted,
];

/// A repository, a control plane that counts what it is asked, and a sync between them.
struct Fleet {
    origin: Origin,
    mirror: Mirrored,
    server: Server,
    cluster: Cluster,
    sync: Sync,
    asked: Asked,
}

impl Fleet {
    async fn with(on: On, files: &[(&str, &str)]) -> Self {
        let origin = Origin::with(files);
        let mirror = Mirrored::of(origin.url()).await;
        let server = on.server();
        let (cluster, asked) = counted(server.client());
        let observer = Observer::new(cluster.clone());
        let sync = Sync::new(mirror.clone(), cluster.clone(), observer, Selection::default());
        Self {
            origin,
            mirror,
            server,
            cluster,
            sync,
            asked,
        }
    }

    async fn push(&mut self, files: &[(&str, &str)]) -> Arc<SyncReport> {
        self.origin.commit("main", files);
        self.sync.once().await.unwrap()
    }

    fn live(&self, resource: &Resource, name: &str) -> Option<Value> {
        self.server.get(resource, Some("shop"), name)
    }

    /// What was asked since the last time.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn result<'a>(report: &'a SyncReport, kind: &str, name: &str) -> &'a ObjectResult {
    let found = report
        .objects
        .iter()
        .find(|(key, _)| key.kind == kind && key.name == name);
    let (_, object) = found.unwrap_or_else(|| panic!("nothing about {kind} {name} in {report:?}"));
    &object.result
}

const CREATED: ObjectResult = ObjectResult::Applied(Outcome::Created);
const CONFIGURED: ObjectResult = ObjectResult::Applied(Outcome::Configured);

const NAMESPACE: (&str, &str) = (
    "shop.yaml",
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
);

fn config(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: shop, name: {name}}}\ndata: {{key: {value}}}\n"
    )
}

fn deployment(image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{namespace: shop, name: web}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{containers: [{{name: web, image: {image}, resources: {{requests: {{cpu: 1000m}}}}}}]}}
"
    )
}

const MIGRATION: &str = "
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {namespace: shop, name: web-to-west}
spec: {to: west, workload: {apiVersion: apps/v1, kind: Deployment, name: web}}
";

fn end_migration(server: &Server, phase: &str) {
    let patch = Patch::Merge(json!({"status": {"phase": phase}}));
    let sub = cutover::sandbox::api::Subresource::Status;
    server.patch(
        &MIGRATIONS,
        Some("shop"),
        "web-to-west",
        Some(sub),
        &patch,
        "cutover-intent",
    );
}

async fn a_push_is_applied_in_order_and_what_is_in_sync_costs_no_request(on: On) {
    let (config, deployment) = (config("a", "x"), deployment("web:1"));
    let files = [
        ("web.yaml", deployment.as_str()),
        NAMESPACE,
        ("config/a.yaml", config.as_str()),
    ];
    let mut fleet = Fleet::with(on, &files).await;
    let report = fleet.sync.once().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.objects.len(), 3);
    let writes: Vec<_> = fleet
        .asked()
        .into_iter()
        .filter(|line| line.starts_with("PATCH"))
        .collect();
    assert_eq!(
        writes,
        [
            "PATCH /api/v1/namespaces/shop",
            "PATCH /api/v1/namespaces/shop/configmaps/a",
            "PATCH /apis/apps/v1/namespaces/shop/deployments/web"
        ]
    );
    for _ in 0..3 {
        assert!(fleet.sync.once().await.unwrap().is_clean());
    }
    fleet.push(&[("README.md", "nothing for the cluster")]).await;
    assert_eq!(fleet.asked(), [""; 0]);
}

async fn one_changed_file_costs_one_request(on: On) {
    let (a, b) = (config("a", "x"), config("b", "x"));
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("a.yaml", &a), ("b.yaml", &b)]).await;
    fleet.sync.once().await.unwrap();
    fleet.asked();
    let report = fleet.push(&[("a.yaml", &config("a", "new"))]).await;
    assert_eq!(*result(&report, "ConfigMap", "a"), CONFIGURED);
    assert_eq!(fleet.asked(), ["PATCH /api/v1/namespaces/shop/configmaps/a"]);
    assert_eq!(fleet.live(&CONFIG_MAPS, "a").unwrap()["data"]["key"], "new");
}

async fn only_the_object_that_a_commit_changes_is_sent_whatever_else_moves_in_its_file(on: On) {
    let both =
        |comment: &str, value: &str| format!("# {comment}\n{}---\n{}", config("a", "x"), config("b", value));
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("both.yaml", &both("", "x"))]).await;
    fleet.sync.once().await.unwrap();
    fleet.asked();
    fleet.push(&[("both.yaml", &both("moved\n# down", "x"))]).await;
    assert_eq!(fleet.asked(), [""; 0]);
    fleet.push(&[("both.yaml", &both("", "new"))]).await;
    assert_eq!(fleet.asked(), ["PATCH /api/v1/namespaces/shop/configmaps/b"]);
    let broken = both("", "new") + "---\n{";
    let report = fleet.push(&[("both.yaml", &broken)]).await;
    assert!(!report.is_clean());
    let report = fleet.push(&[("both.yaml", &both("", "new"))]).await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(fleet.asked(), [""; 0]);
}

async fn a_restart_with_everything_in_sync_lists_once_and_writes_nothing(on: On) {
    let (config, deployment) = (config("a", "x"), deployment("web:1"));
    let mut fleet = Fleet::with(
        on,
        &[
            NAMESPACE,
            ("a.yaml", &config),
            ("web.yaml", &deployment),
            ("m.yaml", MIGRATION),
        ],
    )
    .await;
    fleet.sync.once().await.unwrap();
    fleet.asked();
    let cluster = Cluster::from_client(fleet.cluster.client(), Limits::default());
    let observer = Observer::new(cluster.clone());
    let mut restarted = Sync::new(fleet.mirror.clone(), cluster, observer, Selection::default());
    let report = restarted.once().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.desired, 4);
    let mut asked = fleet.asked();
    asked.sort();
    asked.retain(|line| {
        line.contains("namespaces") || line.contains("configmaps") || !line.starts_with("GET")
    });
    assert_eq!(asked, ["GET /api/v1/configmaps", "GET /api/v1/namespaces"]);
    for _ in 0..3 {
        restarted.once().await.unwrap();
    }
    assert_eq!(fleet.asked(), [""; 0]);
}

async fn a_broken_object_stops_no_other_and_is_found_in_its_file(on: On) {
    let broken = "apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {namespace: shop, name: web-to-west}
spec:
  too: west
  workload: {apiVersion: apps/v1, kind: Deployment, name: web}
";
    let config = config("a", "x");
    let mut fleet = Fleet::with(
        on,
        &[NAMESPACE, ("a.yaml", &config), ("web-to-west.yaml", broken)],
    )
    .await;
    let report = fleet.sync.once().await.unwrap();
    assert_eq!(*result(&report, "ConfigMap", "a"), CREATED);
    let ObjectResult::Applied(Outcome::Failed(failure)) = result(&report, "Migration", "web-to-west") else {
        panic!("{report:?}");
    };
    assert_eq!(failure.at.path, "web-to-west.yaml");
    assert_eq!(failure.at.line, 5, "{failure:?}");
    assert!(!failure.passing && !report.is_clean());
    fleet.asked();
    fleet.sync.once().await.unwrap();
    assert_eq!(fleet.asked(), [""; 0], "trying the same again is no use");
}

async fn a_file_that_cannot_be_read_leaves_its_objects_alone_and_the_rest_goes_on(on: On) {
    let (a, b) = (config("a", "x"), config("b", "x"));
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("a.yaml", &a), ("b.yaml", &b)]).await;
    fleet.sync.once().await.unwrap();
    let half_broken = format!("{}---\nkind: [\n", config("a", "new"));
    let report = fleet
        .push(&[("a.yaml", &half_broken), ("b.yaml", &config("b", "new"))])
        .await;
    assert_eq!(report.problems.len(), 1);
    let at = report.problems[0].at.as_ref().unwrap();
    assert_eq!((at.path.as_str(), at.line > 4), ("a.yaml", true));
    assert!(report.orphaned.is_empty());
    assert_eq!(fleet.live(&CONFIG_MAPS, "a").unwrap()["data"]["key"], "x");
    assert_eq!(fleet.live(&CONFIG_MAPS, "b").unwrap()["data"]["key"], "new");
    let report = fleet.push(&[("a.yaml", &config("a", "z"))]).await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(fleet.live(&CONFIG_MAPS, "a").unwrap()["data"]["key"], "z");
}

async fn a_kind_and_an_object_of_it_come_in_one_push(on: On) {
    let crd = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.dev}
spec:
  group: example.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";
    let widget =
        "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {namespace: shop, name: w}\nspec: {size: 1}\n";
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("a-widget.yaml", widget), ("crd.yaml", crd)]).await;
    let report = fleet.sync.once().await.unwrap();
    assert_eq!(*result(&report, "Widget", "w"), CREATED, "{report:?}");
    // Once its kind is watched, the object is found to be in sync.
    let report = fleet
        .push(&[("a-widget.yaml", &widget.replace("size: 1", "size: 2"))])
        .await;
    assert_eq!(*result(&report, "Widget", "w"), CONFIGURED);
}

async fn a_kind_that_nobody_serves_is_waited_for(on: On) {
    let widget = "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {namespace: shop, name: w}\n";
    let config = config("a", "x");
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("a.yaml", &config), ("w.yaml", widget)]).await;
    let report = fleet.sync.once().await.unwrap();
    assert_eq!(*result(&report, "ConfigMap", "a"), CREATED);
    assert_eq!(
        *result(&report, "Widget", "w"),
        ObjectResult::Applied(Outcome::NotServed)
    );
}

async fn fields_of_others_are_not_taken_from_them(on: On) {
    let deployment = deployment("web:1");
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("web.yaml", &deployment)]).await;
    fleet.sync.once().await.unwrap();
    let patch = Patch::Apply(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 7}}),
    );
    fleet
        .server
        .patch(&DEPLOYMENTS, Some("shop"), "web", None, &patch, "autoscaler");
    let report = fleet.push(&[("web.yaml", &self::deployment("web:2"))]).await;
    let ObjectResult::Applied(Outcome::Conflict(fields)) = result(&report, "Deployment", "web") else {
        panic!("{report:?}");
    };
    assert_eq!(
        (fields[0].manager.as_str(), fields[0].field.as_str()),
        ("autoscaler", ".spec.replicas")
    );
    assert_eq!(fleet.live(&DEPLOYMENTS, "web").unwrap()["spec"]["replicas"], 7);
}

#[allow(clippy::too_many_lines, reason = "one story, told in order")]
async fn a_template_waits_for_the_migration_of_the_same_push_and_for_nothing_longer(on: On) {
    let deployment = deployment("web:1");
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("web.yaml", &deployment)]).await;
    fleet.sync.once().await.unwrap();
    let changed = self::deployment("web:2");
    let report = fleet
        .push(&[("web.yaml", &changed), ("web-to-west.yaml", MIGRATION)])
        .await;
    assert_eq!(*result(&report, "Migration", "web-to-west"), CREATED);
    let held: Vec<_> = report
        .held_back()
        .map(|(key, by)| format!("{key} by {by}"))
        .collect();
    assert_eq!(held, ["Deployment shop/web by Migration shop/web-to-west"]);
    let image = |fleet: &Fleet| {
        let live = fleet.live(&DEPLOYMENTS, "web").unwrap();
        live.pointer("/spec/template/spec/containers/0/image")
            .unwrap()
            .clone()
    };
    assert_eq!(image(&fleet), "web:1");

    let key = ObjectKey {
        group: "apps".into(),
        kind: "Deployment".into(),
        namespace: Some("shop".into()),
        name: "web".into(),
    };
    let wanted = fleet.sync.desired().template(&key).unwrap().unwrap();
    assert_eq!(
        wanted
            .manifest
            .pointer("/spec/template/spec/containers/0/image")
            .unwrap(),
        "web:2"
    );
    assert_eq!(wanted.revision, Some(report.revision.to_string()));

    let mut reports = fleet.sync.reports();
    let cancel = CancellationToken::new();
    let Fleet {
        sync,
        server,
        origin,
        mirror,
        ..
    } = fleet;
    let running = tokio::spawn(sync.run(Polling::default(), cancel.clone()));
    end_migration(&server, "Completed");
    let applied = reports.wait_for(|report| {
        report
            .as_ref()
            .is_some_and(|report| report.held_back().count() == 0)
    });
    tokio::time::timeout(SOON, applied).await.unwrap().unwrap();
    let live = server.get(&DEPLOYMENTS, Some("shop"), "web").unwrap();
    assert_eq!(
        live.pointer("/spec/template/spec/containers/0/image").unwrap(),
        "web:2"
    );
    cancel.cancel();
    running.await.unwrap();
    drop((origin, mirror));
}

async fn what_left_git_is_reported_and_not_deleted(on: On) {
    let config = config("a", "x");
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("a.yaml", &config)]).await;
    fleet.sync.once().await.unwrap();
    let report = fleet.push(&[("a.yaml", "")]).await;
    assert_eq!(
        report
            .orphaned
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["ConfigMap shop/a"]
    );
    assert!(fleet.live(&CONFIG_MAPS, "a").is_some());
    assert!(fleet.push(&[("b.yaml", &config)]).await.orphaned.is_empty());
}

async fn drift_is_corrected_as_it_happens(on: On) {
    let config = config("a", "x");
    let fleet = Fleet::with(on, &[NAMESPACE, ("a.yaml", &config)]).await;
    let watching = Observer::new(fleet.cluster.clone());
    watching.watch(Watched::all(Gvk::new("v1", "ConfigMap")));
    let text = |object: &Value, field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    let in_sync = |observer: &Observer, than: &dyn Fn(&Value) -> bool| {
        let objects = observer.list("", "ConfigMap");
        objects
            .iter()
            .any(|object| object["metadata"]["name"] == "a" && object["data"]["key"] == "x" && than(object))
    };
    let cancel = CancellationToken::new();
    let running = tokio::spawn(fleet.sync.run(Polling::default(), cancel.clone()));
    assert!(watching.until(SOON, |seen| in_sync(seen, &|_| true)).await);

    let patch = Patch::Merge(json!({"data": {"key": "by hand"}}));
    let edited = fleet
        .server
        .patch(&CONFIG_MAPS, Some("shop"), "a", None, &patch, "kubectl-edit");
    let version = |object: &Value| text(object, "resourceVersion").parse::<u64>().unwrap();
    let later = |object: &Value| version(object) > version(&edited);
    assert!(
        watching.until(SOON, |seen| in_sync(seen, &later)).await,
        "it is corrected"
    );

    fleet.server.delete(&CONFIG_MAPS, Some("shop"), "a");
    let another = |object: &Value| text(object, "uid") != text(&edited, "uid");
    assert!(
        watching.until(SOON, |seen| in_sync(seen, &another)).await,
        "it is brought back"
    );
    cancel.cancel();
    running.await.unwrap();
}

async fn history_that_was_rewritten_is_read_anew(on: On) {
    let (a, b) = (config("a", "x"), config("b", "x"));
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("a.yaml", &a)]).await;
    let first = fleet.origin.tip("main").unwrap();
    fleet.push(&[("b.yaml", &b)]).await;
    fleet
        .origin
        .commit_on("main", Some(&first), &[("a.yaml", &config("a", "rewritten"))]);
    let report = fleet.sync.once().await.unwrap();
    assert_eq!(fleet.live(&CONFIG_MAPS, "a").unwrap()["data"]["key"], "rewritten");
    assert_eq!(
        report
            .orphaned
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["ConfigMap shop/b"]
    );
}

async fn a_plan_shows_what_a_push_would_do_and_writes_nothing(on: On) {
    let deployment = deployment("web:1");
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("web.yaml", &deployment)]).await;
    fleet.sync.once().await.unwrap();
    let revision = fleet.origin.commit(
        "main",
        &[
            ("web.yaml", &self::deployment("web:2")),
            ("a.yaml", &config("a", "x")),
        ],
    );
    fleet.mirror.fetch().await.unwrap();
    let before = fleet.server.contents();
    let range = Range { revision, base: None };
    let plan = plan_revision(&fleet.mirror, &fleet.cluster, &range, Selection::default())
        .await
        .unwrap();
    let actions: Vec<_> = plan
        .changes
        .iter()
        .map(|change| (change.key.name.as_str(), &change.action))
        .collect();
    assert_eq!(
        actions,
        [
            ("shop", &Action::Unchanged),
            ("a", &Action::Create),
            ("web", &Action::Configure)
        ]
    );
    let text = plan.view(None).text(&TextOptions::default());
    assert!(text.contains("image: web:1 → web:2"), "{text}");
    assert_eq!(fleet.server.contents(), before);
}

async fn a_control_plane_that_cannot_be_asked_about_intents_gets_no_template(on: On) {
    let deployment = deployment("web:1");
    let origin = Origin::with(&[NAMESPACE, ("web.yaml", &deployment)]);
    let mirror = Mirrored::of(origin.url()).await;
    let server = on.server();
    let failing = Arc::new(AtomicUsize::new(1));
    let (inner, fail) = (server.client(), Arc::clone(&failing));
    let forbidding = tower::service_fn(move |request: Request<Body>| {
        let refuse = fail.load(Ordering::SeqCst) == 1 && request.uri().path().ends_with("/claims");
        let inner = inner.clone();
        async move {
            if refuse {
                return Ok(http::Response::builder().status(403).body(Body::empty()).unwrap());
            }
            inner.send(request).await
        }
    });
    let cluster = Cluster::from_client(kube::Client::new(forbidding, "default"), Limits::default());
    let repo = mirror.clone();
    let mut sync = Sync::new(
        repo,
        cluster.clone(),
        Observer::new(cluster),
        Selection::default(),
    );
    let report = sync.once().await.unwrap();
    assert_eq!(*result(&report, "Namespace", "shop"), CREATED);
    let ObjectResult::Blocked { reason } = result(&report, "Deployment", "web") else {
        panic!("{report:?}")
    };
    assert!(
        reason.contains("cannot tell whether an intent holds it"),
        "{reason}"
    );
    assert!(server.get(&DEPLOYMENTS, Some("shop"), "web").is_none());
}

async fn a_sync_reads_its_folder_and_places_what_names_no_namespace(on: On) {
    let settings = "apiVersion: cutover.dev/v1alpha1
kind: Config
syncs:
- {name: apps, path: apps, namespace: shop}
- {name: rest, path: rest}
";
    let unplaced = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {key: x}\n";
    let other = config("other", "x");
    let files = [
        ("apps/ns.yaml", NAMESPACE.1),
        ("apps/a.yaml", unplaced),
        ("rest/other.yaml", other.as_str()),
    ];
    let fleet = Fleet::with(on, &files).await;
    let config = Config::parse(settings.as_bytes()).unwrap();
    let mut applied = Vec::new();
    for named in &config.syncs {
        let observer = Observer::new(fleet.cluster.clone());
        let selection = Selection::of(&config, named);
        let mut sync = Sync::new(fleet.mirror.clone(), fleet.cluster.clone(), observer, selection);
        let report = sync.once().await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        applied.extend(report.objects.keys().map(|key| format!("{}: {key}", named.name)));
    }
    assert_eq!(
        applied,
        [
            "apps: ConfigMap shop/a",
            "apps: Namespace shop",
            "rest: ConfigMap shop/other"
        ]
    );
}

async fn a_refused_secret_is_not_quoted(on: On) {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {namespace: shop, name: s}\ndata: {key: 12345678}\n";
    let mut fleet = Fleet::with(on, &[NAMESPACE, ("s.yaml", secret)]).await;
    let report = fleet.sync.once().await.unwrap();
    let ObjectResult::Applied(Outcome::Failed(failure)) = result(&report, "Secret", "s") else {
        panic!("{report:?}");
    };
    assert!(!failure.message.contains("12345678"), "{failure:?}");
}
