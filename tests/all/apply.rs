//! How sync applies: waves and health, conflicts, what can't be changed, namespaces, kinds that come late, syncs that
//! depend on each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::api;
use cutover::cluster::{Cluster, Failure, Limits, Observer, Outcome};
use cutover::config::Config;
use cutover::reconcile::sync::{ObjectResult, Selection, Sync, SyncReport, Wait};
use cutover::repo::Polling;
use cutover::sandbox::api::status::Reason;
use cutover::sandbox::api::{Admission, Operation, Patch, Resource, Review, Status, Subresource};
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::git::{Mirrored, Origin};
use crate::support::server::{Chores, On, Server, on_both_servers};

on_both_servers![
    a_wave_waits_for_the_health_of_the_one_before_and_for_nothing_else,
    a_wait_goes_on_in_another_process_and_drift_never_waits,
    a_wait_that_takes_too_long_is_a_problem_and_lets_nothing_through,
    a_wave_waits_for_what_could_not_be_applied_only_where_the_sync_waits,
    a_conflict_is_told_once_and_resolved_by_force_or_by_giving_the_field_up,
    what_cannot_be_changed_is_explained_and_recreated_only_when_asked_for,
    an_object_that_was_deleted_to_be_recreated_is_created_by_whoever_comes_next,
    what_is_protected_is_never_recreated,
    namespaces_are_created_when_asked_for_and_hinted_at_when_not,
    an_object_is_applied_as_soon_as_its_kind_is_served_whoever_installs_it,
    a_kind_of_one_sync_serves_the_objects_of_another,
    a_sync_waits_for_those_that_it_depends_on_at_every_revision,
    one_broken_object_among_two_hundred_stops_none_of_them,
    a_storm_of_refusals_for_load_delays_and_loses_nothing,
];

const SOON: Duration = Duration::from_secs(20);
const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const NAMESPACES: Resource = Resource::new("", "namespaces");
const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const WIDGETS: Resource = Resource::new("example.dev", "widgets");

type Reports = watch::Receiver<Option<Arc<SyncReport>>>;
type Answer = dyn Fn(&Request<Body>) -> Option<http::Response<Body>> + Send + std::marker::Sync;

/// A repository and a control plane with the chores of a real one.
struct Fleet {
    origin: Origin,
    mirror: Mirrored,
    server: Server,
    _chores: Chores,
    config: Config,
    /// Method and path of every request but watches.
    asked: Arc<Mutex<Vec<String>>>,
    /// Answers requests instead of the server.
    instead: Arc<Answer>,
}

/// A sync that runs, and what it reports.
struct Running {
    task: JoinHandle<()>,
    reports: Reports,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    async fn report(&mut self, what: &str, holds: impl Fn(&SyncReport) -> bool) -> Arc<SyncReport> {
        let found = self
            .reports
            .wait_for(|report| report.as_deref().is_some_and(&holds));
        let found = tokio::time::timeout(SOON, found).await;
        let found = found.map(|found| found.unwrap().clone().unwrap());
        found.unwrap_or_else(|_| panic!("{what}: not soon: {:#?}", self.reports.borrow()))
    }
}

impl Fleet {
    /// `syncs` is what `cutover.yaml` says of syncs.
    async fn with(on: On, syncs: &str, files: &[(&str, &str)]) -> Self {
        Self::answering(on, syncs, files, |_| None).await
    }

    async fn answering(
        on: On,
        syncs: &str,
        files: &[(&str, &str)],
        instead: impl Fn(&Request<Body>) -> Option<http::Response<Body>> + Send + std::marker::Sync + 'static,
    ) -> Self {
        let text = format!("apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n{syncs}");
        let config = Config::parse(text.as_bytes()).unwrap();
        let origin = Origin::with(files);
        let mirror = Mirrored::of(origin.url()).await;
        let server = on.server();
        let chores = server.chores();
        Self {
            origin,
            mirror,
            server,
            _chores: chores,
            config,
            asked: Arc::default(),
            instead: Arc::new(instead),
        }
    }

    fn cluster(&self) -> Cluster {
        let (client, log) = (self.server.client(), Arc::clone(&self.asked));
        let instead = Arc::clone(&self.instead);
        let counting = tower::service_fn(move |request: Request<Body>| {
            let query = request.uri().query().unwrap_or_default();
            if !query.contains("watch=true") {
                let asked = format!("{} {}", request.method(), request.uri().path());
                log.lock().unwrap().push(asked);
            }
            let answer = instead(&request);
            let client = client.clone();
            async move {
                match answer {
                    Some(answer) => Ok(answer),
                    None => client.send(request).await,
                }
            }
        });
        let limits = Limits {
            backoff: Duration::from_millis(1),
            ..Limits::default()
        };
        Cluster::from_client(kube::Client::new(counting, "default"), limits)
    }

    /// A new process's sync, of the given name.
    fn sync(&self, name: &str) -> Sync {
        let cluster = self.cluster();
        let own = self.config.syncs.iter().find(|sync| sync.name == name).unwrap();
        let observer = Observer::new(cluster.clone());
        Sync::new(
            self.mirror.clone(),
            cluster,
            observer,
            Selection::of(&self.config, own),
        )
    }

    fn run(&self, name: &str) -> Running {
        start(self.sync(name))
    }

    async fn finish(&self, sync: &mut Sync) -> Arc<SyncReport> {
        let revision = self.mirror.fetch().await.unwrap().revision;
        let cancel = CancellationToken::new();
        let finished = sync.finish(revision, &cancel);
        tokio::time::timeout(SOON, finished).await.unwrap().unwrap()
    }

    fn push(&self, files: &[(&str, &str)]) {
        self.origin.commit("main", files);
    }

    fn live(&self, resource: &Resource, name: &str) -> Option<Value> {
        let namespace = (*resource != NAMESPACES).then_some("shop");
        self.server.get(resource, namespace, name)
    }

    fn patch(&self, resource: &Resource, name: &str, part: Option<Subresource>, patch: Value, by: &str) {
        self.server
            .patch(resource, Some("shop"), name, part, &Patch::Merge(patch), by);
    }

    /// Reports a deployment of one replica as a controller would.
    fn roll_out(&self, name: &str, available: i64) {
        let generation = self.live(&DEPLOYMENTS, name).unwrap()["metadata"]["generation"].clone();
        let status = json!({"status": {
            "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": available, "availableReplicas": available,
        }});
        self.patch(
            &DEPLOYMENTS,
            name,
            Some(Subresource::Status),
            status,
            "controller",
        );
    }

    /// What was asked since the last time, but for reads.
    fn writes(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.retain(|line| !line.starts_with("GET"));
        asked
    }
}

fn start(sync: Sync) -> Running {
    let reports = sync.reports();
    let polling = Polling {
        interval: Duration::from_millis(50),
        ..Polling::default()
    };
    Running {
        task: tokio::spawn(sync.run(polling, CancellationToken::new())),
        reports,
    }
}

fn result<'a>(report: &'a SyncReport, name: &str) -> Option<&'a ObjectResult> {
    let found = report.objects.iter().find(|(key, _)| key.name == name);
    found.map(|(_, object)| &object.result)
}

fn wait_of<'a>(report: &'a SyncReport, name: &str) -> &'a Wait {
    match result(report, name) {
        Some(ObjectResult::Waiting(wait)) => wait,
        other => panic!("{name} does not wait: {other:?}"),
    }
}

fn failure_of<'a>(report: &'a SyncReport, name: &str) -> &'a Failure {
    match result(report, name) {
        Some(ObjectResult::Applied(Outcome::Failed(failure))) => failure,
        other => panic!("{name} has not failed: {other:?}"),
    }
}

const SHOP: (&str, &str) = (
    "shop.yaml",
    "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
);

fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{namespace: shop, name: {name}}}\ndata: {{key: {value}}}\n"
    )
}

/// `more` goes into the annotations.
fn deployment(name: &str, app: &str, more: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{namespace: shop, name: {name}, annotations: {{{more}}}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {app}}}}}
  template:
    metadata: {{labels: {{app: {app}}}}}
    spec: {{containers: [{{name: c, image: 'c:1'}}]}}
"
    )
}

const WAVE_1: &str = "cutover.dev/wave: '1'";
const RECREATE: &str = "cutover.dev/recreate: 'true'";
const WAITING: &str = "- {name: apps, wait: 1h}\n";
const PLAIN: &str = "- {name: apps}\n";

async fn a_wave_waits_for_the_health_of_the_one_before_and_for_nothing_else(on: On) {
    let (db, web) = (deployment("db", "db", ""), deployment("web", "web", WAVE_1));
    let map = config_map("a", "x");
    let fleet = Fleet::with(
        on,
        WAITING,
        &[SHOP, ("db.yaml", &db), ("web.yaml", &web), ("a.yaml", &map)],
    )
    .await;
    let mut running = fleet.run("apps");
    let report = running
        .report("web waits", |report| result(report, "web").is_some())
        .await;
    let wait = wait_of(&report, "web");
    assert_eq!(
        wait.what,
        "Deployment shop/db: its controller has not reported on it yet"
    );
    assert!(!wait.overdue && wait.until.is_some() && !report.is_clean());
    assert!(fleet.live(&DEPLOYMENTS, "web").is_none());

    // Meanwhile drift is put right, and a new revision is heard and applied as far as it doesn't wait.
    fleet.patch(
        &CONFIG_MAPS,
        "a",
        None,
        json!({"data": {"key": "by hand"}}),
        "kubectl-edit",
    );
    fleet.push(&[("b.yaml", &config_map("b", "new"))]);
    running
        .report("b is applied", |_| fleet.live(&CONFIG_MAPS, "b").is_some())
        .await;
    running
        .report("a is put right", |_| {
            fleet.live(&CONFIG_MAPS, "a").unwrap()["data"]["key"] == "x"
        })
        .await;
    fleet.roll_out("db", 0);
    let is_told =
        |report: &SyncReport| wait_of(report, "web").what == "Deployment shop/db: 0 of 1 replicas available";
    running.report("progress is told", is_told).await;
    assert!(fleet.live(&DEPLOYMENTS, "web").is_none());

    fleet.roll_out("db", 1);
    running.report("web is applied", SyncReport::is_clean).await;
    assert!(fleet.live(&DEPLOYMENTS, "web").is_some());
}

async fn a_wait_goes_on_in_another_process_and_drift_never_waits(on: On) {
    let (db, web) = (deployment("db", "db", ""), deployment("web", "web", WAVE_1));
    let fleet = Fleet::with(on, WAITING, &[SHOP, ("db.yaml", &db), ("web.yaml", &web)]).await;
    assert!(!fleet.sync("apps").once().await.unwrap().is_clean());
    let mut sync = fleet.sync("apps");
    let report = sync.once().await.unwrap();
    assert_eq!(
        wait_of(&report, "web").what,
        "Deployment shop/db: its controller has not reported on it yet"
    );
    fleet.roll_out("db", 1);
    let mut running = start(sync);
    running.report("web is applied", SyncReport::is_clean).await;
    // The first wave ails again. That is no reason to leave the second one as somebody has made it.
    fleet.roll_out("db", 0);
    fleet.patch(
        &DEPLOYMENTS,
        "web",
        None,
        json!({"spec": {"replicas": 7}}),
        "kubectl-edit",
    );
    running
        .report("web is put right", |_| {
            fleet.live(&DEPLOYMENTS, "web").unwrap()["spec"]["replicas"] == 1
        })
        .await;
}

async fn a_wait_that_takes_too_long_is_a_problem_and_lets_nothing_through(on: On) {
    let (db, web) = (deployment("db", "db", ""), deployment("web", "web", WAVE_1));
    let fleet = Fleet::with(
        on,
        "- {name: apps, wait: 1s}\n",
        &[SHOP, ("db.yaml", &db), ("web.yaml", &web)],
    )
    .await;
    let mut sync = fleet.sync("apps");
    let report = fleet.finish(&mut sync).await;
    assert!(wait_of(&report, "web").overdue && !report.is_clean());
    assert!(fleet.live(&DEPLOYMENTS, "web").is_none());
    // It is level-triggered: health lets it go on at any time.
    fleet.roll_out("db", 1);
    let mut running = start(sync);
    running.report("web is applied", SyncReport::is_clean).await;
}

async fn a_wave_waits_for_what_could_not_be_applied_only_where_the_sync_waits(on: On) {
    let broken = deployment("db", "db", "").replace("image: 'c:1'", "imag: c");
    let web = deployment("web", "web", WAVE_1);
    let files = [SHOP, ("db.yaml", broken.as_str()), ("web.yaml", web.as_str())];
    let fleet = Fleet::with(on, WAITING, &files).await;
    let report = fleet.sync("apps").once().await.unwrap();
    assert_eq!(
        wait_of(&report, "web").what,
        "Deployment shop/db: it is not applied"
    );
    let fleet = Fleet::with(on, PLAIN, &files).await;
    let report = fleet.sync("apps").once().await.unwrap();
    assert_eq!(
        result(&report, "web"),
        Some(&ObjectResult::Applied(Outcome::Created))
    );
}

async fn a_conflict_is_told_once_and_resolved_by_force_or_by_giving_the_field_up(on: On) {
    let web = deployment("web", "web", "");
    let fleet = Fleet::with(on, PLAIN, &[SHOP, ("web.yaml", &web)]).await;
    let mut sync = fleet.sync("apps");
    assert!(sync.once().await.unwrap().is_clean());
    let theirs = Patch::Apply(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 7},
    }));
    fleet
        .server
        .patch(&DEPLOYMENTS, Some("shop"), "web", None, &theirs, "autoscaler");
    let mut running = start(sync);
    let in_conflict = |report: &SyncReport| {
        matches!(
            result(report, "web"),
            Some(ObjectResult::Applied(Outcome::Conflict(_)))
        )
    };
    let report = running.report("web is in conflict", in_conflict).await;
    let Some(ObjectResult::Applied(outcome)) = result(&report, "web") else {
        unreachable!()
    };
    let (message, hint) = outcome.told("Deployment").unwrap();
    assert!(message.ends_with("autoscaler owns .spec.replicas"), "{message}");
    assert_eq!(
        report.all_problems()[0]
            .at
            .as_ref()
            .map(ToString::to_string)
            .as_deref(),
        Some("web.yaml:5:3"),
        "where the field is written"
    );
    assert!(hint.unwrap().contains("cutover.dev/force"));
    // What its controller reports is no reason to try the same again.
    fleet.writes();
    let before = report.finished_at;
    for _ in 0..5 {
        fleet.roll_out("web", 1);
        fleet.roll_out("web", 0);
    }
    fleet.push(&[("b.yaml", &config_map("b", "x"))]);
    running
        .report("another revision is applied", |report| {
            report.finished_at > before && fleet.live(&CONFIG_MAPS, "b").is_some()
        })
        .await;
    let writes = fleet.writes();
    let tried = writes
        .iter()
        .filter(|line| line.ends_with("deployments/web"))
        .count();
    assert!(tried <= 1, "only the new revision is a reason: {writes:?}");

    fleet.push(&[("web.yaml", &deployment("web", "web", "cutover.dev/force: 'true'"))]);
    running.report("it is taken over", SyncReport::is_clean).await;
    assert_eq!(fleet.live(&DEPLOYMENTS, "web").unwrap()["spec"]["replicas"], 1);
}

async fn what_cannot_be_changed_is_explained_and_recreated_only_when_asked_for(on: On) {
    let fleet = Fleet::with(on, PLAIN, &[SHOP, ("web.yaml", &deployment("web", "web", ""))]).await;
    let mut sync = fleet.sync("apps");
    assert!(fleet.finish(&mut sync).await.is_clean());
    let uid = || fleet.live(&DEPLOYMENTS, "web").unwrap()["metadata"]["uid"].clone();
    let first = uid();
    fleet.push(&[("web.yaml", &deployment("web", "store", ""))]);
    let report = fleet.finish(&mut sync).await;
    let failure = failure_of(&report, "web");
    assert_eq!(
        failure.message,
        "spec.selector cannot be changed once the object is there"
    );
    assert!(
        failure.hint.as_deref().unwrap().contains("cutover.dev/recreate"),
        "{failure:?}"
    );
    assert_eq!(
        (failure.at.line, failure.fixed.as_slice()),
        (6, &["spec.selector".to_owned()][..])
    );
    assert_eq!(uid(), first);

    // A new object that would be refused takes no old one away.
    let refused =
        deployment("web", "store", RECREATE).replace("labels: {app: store}", "labels: {app: other}");
    fleet.push(&[("web.yaml", &refused)]);
    let report = fleet.finish(&mut sync).await;
    assert!(!failure_of(&report, "web").message.is_empty());
    assert_eq!(uid(), first);

    fleet.push(&[("web.yaml", &deployment("web", "store", RECREATE))]);
    let report = fleet.finish(&mut sync).await;
    assert!(report.is_clean(), "{report:?}");
    let live = fleet.live(&DEPLOYMENTS, "web").unwrap();
    assert_ne!(live["metadata"]["uid"], first);
    assert_eq!(live["spec"]["selector"]["matchLabels"]["app"], "store");
    assert!(fleet.live(&DEPLOYMENTS, "web-cutover-rehearsal").is_none());
}

/// A webhook that refuses to let deployments of an app be created.
struct NoNewcomers(&'static str);

impl Admission for NoNewcomers {
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        let app = review
            .new
            .and_then(|new| new.pointer("/spec/selector/matchLabels/app"));
        if review.operation == Operation::Create && app.is_some_and(|app| app == self.0) {
            return Err(Status::new(403, Reason::Forbidden, "no newcomers"));
        }
        Ok(None)
    }
}

#[tokio::test]
async fn an_object_whose_like_would_be_unwelcome_as_a_new_one_is_not_taken_away() {
    let on = On::Sandbox;
    let fleet = Fleet::with(on, PLAIN, &[SHOP, ("web.yaml", &deployment("web", "web", ""))]).await;
    let mut sync = fleet.sync("apps");
    assert!(fleet.finish(&mut sync).await.is_clean());
    let uid = || fleet.live(&DEPLOYMENTS, "web").unwrap()["metadata"]["uid"].clone();
    let first = uid();
    fleet.server.sandbox().admit(Arc::new(NoNewcomers("banned")));
    fleet.push(&[("web.yaml", &deployment("web", "banned", RECREATE))]);
    let report = fleet.finish(&mut sync).await;
    assert!(
        failure_of(&report, "web").message.contains("no newcomers"),
        "{report:?}"
    );
    assert_eq!(uid(), first);
}

async fn an_object_that_was_deleted_to_be_recreated_is_created_by_whoever_comes_next(on: On) {
    let fleet = Fleet::with(
        on,
        "- {name: apps, recreate: true}\n",
        &[SHOP, ("web.yaml", &deployment("web", "web", ""))],
    )
    .await;
    let mut sync = fleet.sync("apps");
    assert!(fleet.finish(&mut sync).await.is_clean());
    let finalizers = |names: Value| {
        let patch = json!({"metadata": {"finalizers": names}});
        fleet.patch(&DEPLOYMENTS, "web", None, patch, "somebody");
    };
    finalizers(json!(["example.dev/slow"]));
    fleet.push(&[("web.yaml", &deployment("web", "store", ""))]);
    let report = sync.once().await.unwrap();
    assert!(
        wait_of(&report, "web").what.starts_with("its own deletion"),
        "{report:?}"
    );
    drop(sync);

    // Another process finds it on its way out, and touches it no more.
    fleet.writes();
    let mut running = fleet.run("apps");
    let waits = |report: &SyncReport| matches!(result(report, "web"), Some(ObjectResult::Waiting(wait)) if wait.what.contains("example.dev/slow"));
    running.report("its deletion is waited for", waits).await;
    assert_eq!(fleet.writes(), [""; 0]);
    finalizers(json!([]));
    running.report("it is recreated", SyncReport::is_clean).await;
    let live = fleet.live(&DEPLOYMENTS, "web").unwrap();
    assert_eq!(live["spec"]["selector"]["matchLabels"]["app"], "store");
}

async fn what_is_protected_is_never_recreated(on: On) {
    let protected = |app: &str| {
        deployment("web", app, "").replace(
            "name: web, ",
            "name: web, labels: {resourcetemplate.karmada.io/deletion-protected: Always}, ",
        )
    };
    let fleet = Fleet::with(
        on,
        "- {name: apps, recreate: true}\n",
        &[SHOP, ("web.yaml", &protected("web"))],
    )
    .await;
    let mut sync = fleet.sync("apps");
    assert!(fleet.finish(&mut sync).await.is_clean());
    fleet.push(&[("web.yaml", &protected("store"))]);
    fleet.writes();
    let report = fleet.finish(&mut sync).await;
    let failure = failure_of(&report, "web");
    assert!(failure.message.contains("deletion-protected"), "{failure:?}");
    assert!(fleet.writes().iter().all(|line| !line.starts_with("DELETE")));
}

async fn namespaces_are_created_when_asked_for_and_hinted_at_when_not(on: On) {
    let map = config_map("a", "x");
    let fleet = Fleet::with(on, PLAIN, &[("a.yaml", &map)]).await;
    let report = fleet.sync("apps").once().await.unwrap();
    let failure = failure_of(&report, "a");
    assert_eq!(
        failure.hint.as_deref().unwrap(),
        "define Namespace shop in Git, or set createNamespaces: true on the sync"
    );
    assert!(failure.passing);

    let fleet = Fleet::with(
        on,
        "- {name: apps, createNamespaces: true}\n",
        &[("a.yaml", &map)],
    )
    .await;
    let mut sync = fleet.sync("apps");
    let report = sync.once().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(
        fleet.writes(),
        [
            "POST /api/v1/namespaces",
            "PATCH /api/v1/namespaces/shop/configmaps/a"
        ]
    );
    fleet.push(&[("b.yaml", &config_map("b", "x"))]);
    assert!(sync.once().await.unwrap().is_clean());
    assert_eq!(fleet.writes(), ["PATCH /api/v1/namespaces/shop/configmaps/b"]);
}

const WIDGET: &str = "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {namespace: shop, name: w}\n";

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.dev"},
        "spec": {
            "group": "example.dev", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

async fn an_object_is_applied_as_soon_as_its_kind_is_served_whoever_installs_it(on: On) {
    let fleet = Fleet::with(on, PLAIN, &[SHOP, ("w.yaml", WIDGET)]).await;
    let mut running = fleet.run("apps");
    let not_served = ObjectResult::Applied(Outcome::NotServed);
    running
        .report("it is not served", |report| {
            result(report, "w") == Some(&not_served)
        })
        .await;
    // It has been looked for so often that the next time is seconds away: what follows is not the luck of a retry.
    tokio::time::timeout(SOON, async {
        let looked = |line: &&String| line.as_str() == "GET /apis/example.dev/v1";
        while fleet.asked.lock().unwrap().iter().filter(looked).count() < 12 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    let installed = tokio::time::Instant::now();
    fleet.server.install(&widgets());
    running.report("it is applied", SyncReport::is_clean).await;
    assert!(
        installed.elapsed() < Duration::from_secs(2),
        "{:?}",
        installed.elapsed()
    );
    assert!(fleet.live(&WIDGETS, "w").is_some());
}

async fn a_kind_of_one_sync_serves_the_objects_of_another(on: On) {
    let syncs =
        "- {name: kinds, path: kinds}\n- {name: apps, path: apps, namespace: shop, dependsOn: [kinds]}\n";
    let crd = widgets().to_string();
    let bare = WIDGET.replace("namespace: shop, ", "");
    let files = [
        ("apps/shop.yaml", SHOP.1),
        ("apps/w.yaml", bare.as_str()),
        ("kinds/crd.json", crd.as_str()),
    ];
    let fleet = Fleet::with(on, syncs, &files).await;
    let (mut kinds, mut apps) = (fleet.sync("kinds"), fleet.sync("apps"));
    apps.depend_on("kinds", kinds.reports());
    let report = fleet.finish(&mut apps).await;
    assert_eq!(wait_of(&report, "w").what, "sync kinds, which has not begun");
    assert_eq!(fleet.writes(), [""; 0]);
    assert!(fleet.finish(&mut kinds).await.is_clean());
    let report = fleet.finish(&mut apps).await;
    assert!(report.is_clean(), "{report:?}");
    assert!(fleet.live(&WIDGETS, "w").is_some());
}

async fn a_sync_waits_for_those_that_it_depends_on_at_every_revision(on: On) {
    let syncs = "- {name: base, path: base, wait: 1h}\n- {name: apps, path: apps, dependsOn: [base]}\n";
    let db = deployment("db", "db", "");
    let files = [
        ("base/shop.yaml", SHOP.1),
        ("base/db.yaml", db.as_str()),
        ("apps/a.yaml", &config_map("a", "one")),
    ];
    let fleet = Fleet::with(on, syncs, &files).await;
    let (base, mut apps) = (fleet.sync("base"), fleet.sync("apps"));
    apps.depend_on("base", base.reports());
    let (mut base, mut apps) = (start(base), start(apps));
    let waits_for = |what: &'static str| move |report: &SyncReport| matches!(result(report, "a"), Some(ObjectResult::Waiting(wait)) if wait.what == what);
    let ails = "sync base, which is not ready: Deployment shop/db: its controller has not reported on it yet";
    apps.report("it waits for health", waits_for(ails)).await;
    assert!(
        base.report("base", |_| true).await.is_clean(),
        "base itself has nothing left to do"
    );
    fleet.roll_out("db", 1);
    apps.report("it is applied", SyncReport::is_clean).await;
    assert_eq!(fleet.live(&CONFIG_MAPS, "a").unwrap()["data"]["key"], "one");

    // A broken base holds what the revision changes; what it doesn't change is put right all the same.
    let broken = db.replace("image: 'c:1'", "imag: c");
    fleet.push(&[
        ("base/db.yaml", &broken),
        ("apps/a.yaml", &config_map("a", "two")),
        ("apps/b.yaml", &config_map("b", "two")),
    ]);
    apps.report(
        "it waits",
        waits_for("sync base, which is not ready: it has a problem"),
    )
    .await;
    fleet.push(&[("base/db.yaml", &db)]);
    apps.report("it is applied", |report| {
        report.is_clean() && fleet.live(&CONFIG_MAPS, "b").is_some()
    })
    .await;
    assert_eq!(fleet.live(&CONFIG_MAPS, "a").unwrap()["data"]["key"], "two");
}

async fn one_broken_object_among_two_hundred_stops_none_of_them(on: On) {
    let mut files: BTreeMap<String, String> = (0..200)
        .map(|index| (format!("{index}.yaml"), config_map(&format!("c{index}"), "x")))
        .collect();
    files.insert(
        "100.yaml".to_owned(),
        config_map("c100", "x").replace("data: {key: x}", "data: [hunter2]"),
    );
    files.insert("shop.yaml".to_owned(), SHOP.1.to_owned());
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let fleet = Fleet::with(on, PLAIN, &files).await;
    let mut sync = fleet.sync("apps");
    let report = sync.once().await.unwrap();
    let undone: BTreeSet<&str> = report
        .objects
        .iter()
        .filter(|(_, object)| object.result != ObjectResult::Applied(Outcome::Created))
        .map(|(key, _)| key.name.as_str())
        .collect();
    assert_eq!(undone, ["c100"].into());
    let failure = failure_of(&report, "c100");
    assert!(!failure.message.contains("hunter2"), "{failure:?}");
    assert_eq!(
        (failure.at.path.as_str(), failure.at.line),
        ("100.yaml", 4),
        "{failure:?}"
    );
}

async fn a_storm_of_refusals_for_load_delays_and_loses_nothing(on: On) {
    let seen: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let throttled = move |request: &Request<Body>| {
        if request.method() != http::Method::PATCH {
            return None;
        }
        let mut seen = seen.lock().unwrap();
        let times = seen.entry(request.uri().path().to_owned()).or_default();
        *times += 1;
        (*times <= 2).then(|| {
            let answer = http::Response::builder().status(429).header("Retry-After", "0");
            answer.body(Body::empty()).unwrap()
        })
    };
    let maps: Vec<(String, String)> = (0..100)
        .map(|index| (format!("{index}.yaml"), config_map(&format!("c{index}"), "x")))
        .collect();
    let mut files: Vec<(&str, &str)> = maps
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    files.push(SHOP);
    let fleet = Fleet::answering(on, PLAIN, &files, throttled).await;
    let report = fleet.sync("apps").once().await.unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(fleet.writes().len(), 303);
}

/// Writes that are sent without a sync, which would know better.
mod writes {
    use std::sync::Arc;

    use cutover::api::claim_name;
    use cutover::cluster::{Exactly, Outcome, TaskProgress, Write, apply};
    use cutover::manifest::{Entry, Limits, Source, parse};
    use cutover::plan::ApplyOptions;
    use cutover::sandbox::api::Resource;
    use serde_json::json;

    use super::*;

    on_both_servers![
        a_workload_that_was_claimed_meanwhile_is_not_recreated,
        the_same_content_is_not_recreated_twice,
        a_write_changes_no_other_version_than_the_one_that_it_was_judged_on,
    ];

    fn write(text: &str, recreated: bool) -> Write {
        let parsed = parse(Source::new("web.yaml"), text.as_bytes(), &Limits::default());
        Write {
            entry: Arc::new(Entry::from(&parsed.objects[0])),
            context: std::sync::Arc::default(),
            live: Some("1".to_owned()),
            options: ApplyOptions {
                force: false,
                recreate: true,
            },
            recreated,
            spared: None,
            judged: None,
        }
    }

    async fn refused(fleet: &Fleet, recreated: bool) -> Failure {
        let write = write(&deployment("web", "store", ""), recreated);
        let answers = apply(&fleet.cluster(), None, vec![write], &TaskProgress::default()).await;
        match answers.outcomes.into_values().next() {
            Some(Outcome::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    }

    async fn a_workload_that_was_claimed_meanwhile_is_not_recreated(on: On) {
        let fleet = Fleet::with(on, PLAIN, &[SHOP, ("web.yaml", &deployment("web", "web", ""))]).await;
        assert!(fleet.sync("apps").once().await.unwrap().is_clean());
        let key = write(&deployment("web", "web", ""), false).entry.key.clone();
        let claim = json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Claim", "metadata": {"name": claim_name(&key)},
            "spec": {
                "workload": "Deployment.apps shop/web", "bindingId": "b", "attempt": 1, "seq": 1, "marker": "m",
                "clusters": [], "owner": {"kind": "Migration", "namespace": "shop", "name": "to-west", "uid": "u"},
            },
        });
        let claims = Resource::new("cutover.dev", "claims");
        fleet.server.create(&claims, None, claim, "cutover-intent");
        let failure = refused(&fleet, false).await;
        assert!(
            failure.message.ends_with("Migration shop/to-west holds it"),
            "{failure:?}"
        );
        assert!(failure.passing);
        assert!(fleet.live(&DEPLOYMENTS, "web").unwrap()["metadata"]["deletionTimestamp"].is_null());
    }

    async fn the_same_content_is_not_recreated_twice(on: On) {
        let fleet = Fleet::with(on, PLAIN, &[SHOP, ("web.yaml", &deployment("web", "web", ""))]).await;
        assert!(fleet.sync("apps").once().await.unwrap().is_clean());
        fleet.writes();
        let failure = refused(&fleet, true).await;
        assert!(failure.message.contains("was recreated already"), "{failure:?}");
        assert_eq!(
            fleet.writes(),
            ["PATCH /apis/apps/v1/namespaces/shop/deployments/web"]
        );
    }

    async fn a_write_changes_no_other_version_than_the_one_that_it_was_judged_on(on: On) {
        let fleet = Fleet::with(on, PLAIN, &[SHOP, ("a.yaml", &config_map("a", "x"))]).await;
        assert!(fleet.sync("apps").once().await.unwrap().is_clean());
        let seen = Exactly::of(&fleet.live(&CONFIG_MAPS, "a").unwrap());
        let earlier = Exactly {
            resource_version: Some("1".to_owned()),
            ..seen.clone()
        };
        let changed = config_map("a", "later");
        let applied = async |judged: Exactly| {
            let mut write = write(&changed, false);
            write.judged = Some(judged);
            let answers = apply(&fleet.cluster(), None, vec![write], &TaskProgress::default()).await;
            let outcome = answers.outcomes.into_values().next().unwrap();
            (
                outcome,
                fleet.live(&CONFIG_MAPS, "a").unwrap()["data"]["key"].clone(),
            )
        };
        let (outcome, value) = applied(earlier).await;
        assert!(
            matches!(&outcome, Outcome::Failed(failure) if failure.passing),
            "{outcome:?}"
        );
        assert_eq!(value, "x");
        assert_eq!(applied(seen).await, (Outcome::Configured, json!("later")));
    }
}

/// With Karmada's controllers and members behind the API server.
mod fleet {
    use cutover::sandbox::{World, WorldOptions};

    use super::*;
    use crate::support::fleet::{job, policy};

    fn policy_over_deployments() -> String {
        json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "deployments", "namespace": "shop"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
                "placement": {"clusterAffinity": {"clusterNames": ["west"]}},
            },
        })
        .to_string()
    }

    #[tokio::test]
    async fn a_wave_waits_for_what_runs_in_the_members_and_a_recreated_workload_is_replaced_there_too() {
        let world = World::start(WorldOptions::fast());
        for crd in api::crds() {
            world
                .control_plane()
                .install(&serde_json::to_value(crd).unwrap())
                .unwrap();
        }
        let (job, jobs) = (job("orders:1.0").to_string(), policy().to_string());
        let (deployments, web) = (policy_over_deployments(), deployment("web", "web", WAVE_1));
        let origin = Origin::with(&[
            SHOP,
            ("job.json", &job),
            ("jobs.json", &jobs),
            ("deployments.json", &deployments),
            ("web.yaml", &web),
        ]);
        let mirror = Mirrored::of(origin.url()).await;
        let text = format!("apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n{WAITING}");
        let config = Config::parse(text.as_bytes()).unwrap();
        let cluster = Cluster::from_client(world.client(), Limits::default());
        let observer = Observer::new(cluster.clone());
        let selection = Selection::of(&config, &config.syncs[0]);
        let mut running = start(Sync::new(mirror.clone(), cluster, observer, selection));

        let report = running
            .report("web waits", |report| result(report, "web").is_some())
            .await;
        assert!(
            wait_of(&report, "web")
                .what
                .starts_with("FlinkDeployment shop/orders: "),
            "{report:?}"
        );
        running
            .report("the job is healthy, and web is applied", |report| {
                report.is_clean() && report.unhealthy.is_empty()
            })
            .await;
        let copy = || world.member("west").api.get(&DEPLOYMENTS, Some("shop"), "web");
        let first = copy().unwrap()["metadata"]["uid"].clone();

        let more = format!("{WAVE_1}, {RECREATE}");
        origin.commit("main", &[("web.yaml", &deployment("web", "store", &more))]);
        running
            .report("it is recreated in the member", |report| {
                report.is_clean()
                    && report.unhealthy.is_empty()
                    && copy().is_ok_and(|copy| copy["spec"]["selector"]["matchLabels"]["app"] == "store")
            })
            .await;
        assert_ne!(copy().unwrap()["metadata"]["uid"], first);
    }
}
