//! A sandbox with one Flink job in `east`, and the intents' loop on it: what migrations are tested in.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover_cluster::{Cluster, Limits, Observer, Queried};
use cutover_controller::reconcile::intents::{
    self, Canaries, FailpointHook, Fits, Metrics, NoFailpoints, NoMetrics, Parts, Records, Templates, Wanted,
};
use cutover_controller::telemetry::Telemetry;
use cutover_core::api::{self, FailoverPlan, FailoverPlanStatus, Intent, Migration, MigrationStatus, Phase};
use cutover_core::error::{Error, Kind};
use cutover_core::intent::record::{Kept, Record, digest};
use cutover_core::manifest::{self, Entry, Packer, Source};
use cutover_karmada::name::{GroupKind, ObjectKey};
use cutover_sandbox::api::{ApiServer, ListOptions, Patch, Resource, Snapshot, WriteOptions};
use cutover_sandbox::{World, WorldOptions};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::roles;
use crate::wait::wait_for;

/// Returns the status of a Migration as programs work with it, in whatever form it is stored.
pub fn opened(status: &Value) -> Value {
    if status["trimmedJournal"].is_null() && status["timeline"].is_null() {
        return status.clone();
    }
    let status: MigrationStatus = serde_json::from_value(status.clone()).unwrap();
    serde_json::to_value(status).unwrap()
}

pub const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
pub const CLAIMS: Resource = Resource::new("cutover.dev", "claims");
pub const PINS: Resource = Resource::new("policy.karmada.io", "overridepolicies");
pub const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");
pub const JOBS: Resource = Resource::new("flink.apache.org", "flinkdeployments");
pub const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");

/// How long anything may take before a test gives up; in the time of the sandbox.
const PATIENCE: Duration = Duration::from_mins(20);

/// A world with `shop/orders` running in `east`.
pub struct Fleet {
    pub world: World,
    records: Arc<MemoryRecords>,
    templates: Arc<GivenTemplates>,
    numbers: Arc<GivenNumbers>,
    /// The controllers that nobody else holds.
    led_by: Mutex<Vec<Controller>>,
    snapshots: Mutex<BTreeMap<String, Snapshot>>,
    _roles: roles::Suffice,
}

impl Fleet {
    pub async fn start(options: WorldOptions) -> Self {
        let world = World::start(options);
        for crd in api::crds() {
            world
                .control_plane()
                .install(&serde_json::to_value(crd).unwrap())
                .unwrap();
        }
        let fleet = Self {
            _roles: roles::Suffice::of(world.traffic()),
            world,
            records: Arc::default(),
            templates: Arc::default(),
            numbers: Arc::default(),
            led_by: Mutex::default(),
            snapshots: Mutex::default(),
        };
        fleet.save("karmada", "blank");
        fleet.apply_git();
        fleet
            .until("the job runs in east", |fleet| fleet.runs_in("east"))
            .await;
        fleet
    }

    /// Applies what Git has, but for the intents, in a control plane that has nothing of it.
    pub fn apply_git(&self) {
        self.create(
            &Resource::new("", "namespaces"),
            None,
            json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"},
            }),
        );
        self.create(&POLICIES, Some("shop"), policy());
        self.apply(&JOBS, job("orders:1.0"));
    }

    /// Takes a snapshot of the control plane, which is called `karmada`, or of a member.
    pub fn save(&self, server: &str, name: &str) {
        let snapshot = self.server(server).save();
        let key = format!("{server}/{name}");
        self.snapshots.lock().unwrap().insert(key, snapshot);
    }

    pub fn restore(&self, server: &str, name: &str) {
        self.server(server).restore(&self.snapshot(server, name));
    }

    pub fn snapshot(&self, server: &str, name: &str) -> Snapshot {
        self.snapshots.lock().unwrap()[&format!("{server}/{name}")].clone()
    }

    fn server(&self, name: &str) -> &ApiServer {
        match name {
            "karmada" => self.world.control_plane(),
            member => &self.world.member(member).api,
        }
    }

    /// Starts a controller that ends with the fleet, or when another one takes over.
    pub fn lead(&self, failpoints: Arc<dyn FailpointHook>) {
        let controller = self.controller(failpoints);
        self.led_by.lock().unwrap().push(controller);
    }

    /// Kills the controllers wherever they are, and starts another one.
    pub fn replace_leader(&self) {
        self.led_by.lock().unwrap().clear();
        self.lead(Arc::new(NoFailpoints));
    }

    /// What Git wants of the template, and sync holds back.
    pub fn want(&self, template: Value) {
        self.templates.0.send_replace(Some(template));
    }

    /// Cuts the status branch off, or brings it back.
    pub fn cut_git_off(&self, is_down: bool) {
        self.records.is_down.store(is_down, Ordering::SeqCst);
    }

    /// How long the status branch takes for each answer from now on.
    pub fn slow_git(&self, takes: Duration) {
        *self.records.takes.lock().unwrap() = takes;
    }

    /// What the status branch has of a migration.
    pub fn recorded(&self, name: &str) -> Option<Record> {
        let key = (Some("shop".to_owned()), name.to_owned());
        let found = self.records.migrations.lock().unwrap().get(&key).cloned();
        found.map(|(_, record)| record)
    }

    /// What Prometheus answers from now on, to any query; at first, nothing is configured.
    pub fn measure(&self, answer: Queried) {
        *self.numbers.0.lock().unwrap() = Some(answer);
    }

    /// What the status branch has of an intent that is no Migration.
    pub fn record(&self, name: &str, document: Value) {
        self.records
            .others
            .lock()
            .unwrap()
            .insert(name.to_owned(), document);
    }

    pub fn migrate(&self, name: &str, to: &str) {
        self.migrate_with(
            name,
            json!({"to": to, "verify": {"healthyFor": "2s", "timeout": "60s"}}),
        );
    }

    pub fn migrate_with(&self, name: &str, more: Value) {
        let mut spec = json!({
            "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
        });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.apply(
            &MIGRATIONS,
            json!({
                "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
                "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
            }),
        );
    }

    /// Starts a controller; dropped or aborted it is as dead as after kill -9.
    pub fn controller(&self, failpoints: Arc<dyn FailpointHook>) -> Controller {
        let cluster = Cluster::from_client(self.world.client(), Limits::default());
        self.controller_on(cluster, failpoints)
    }

    /// Starts a controller that knows the control plane by a client of its own.
    pub fn controller_on(&self, cluster: Cluster, failpoints: Arc<dyn FailpointHook>) -> Controller {
        let clock = self.world.clock();
        let parts = Parts {
            observer: Observer::new(cluster.clone()),
            cluster,
            records: Arc::clone(&self.records) as Arc<dyn Records>,
            templates: Arc::clone(&self.templates) as Arc<dyn Templates>,
            metrics: Arc::clone(&self.numbers) as Arc<dyn Metrics>,
            notifier: None,
            clock: Arc::new(move || clock.now()),
            failpoints,
            canaries: Canaries::default(),
            fits: Fits::default(),
            telemetry: Telemetry::default(),
        };
        Controller(tokio::spawn(intents::run(parts, CancellationToken::new())))
    }

    pub async fn phase(&self, name: &str, wanted: Phase) {
        self.until(&format!("{name} is {wanted}"), |fleet| {
            fleet.status(name)["phase"] == wanted.to_string()
        })
        .await;
    }

    pub async fn ended(&self, name: &str) -> Phase {
        let phase = |fleet: &Self| -> Option<Phase> {
            let phase: Phase = serde_json::from_value(fleet.status(name)["phase"].clone()).ok()?;
            phase.is_terminal().then_some(phase)
        };
        self.until(&format!("{name} ends"), |fleet| phase(fleet).is_some())
            .await;
        phase(self).unwrap()
    }

    pub fn status(&self, name: &str) -> Value {
        let migration = self.world.control_plane().get(&MIGRATIONS, Some("shop"), name);
        migration
            .map(|migration| opened(&migration["status"]))
            .unwrap_or_default()
    }

    pub fn is_gone(&self, name: &str) -> bool {
        let migration = self.world.control_plane().get(&MIGRATIONS, Some("shop"), name);
        migration.is_err()
    }

    pub fn binding(&self) -> Value {
        let binding = self
            .world
            .control_plane()
            .get(&BINDINGS, Some("shop"), "orders-flinkdeployment");
        binding.map(|binding| (*binding).clone()).unwrap_or_default()
    }

    pub fn listed(&self) -> Vec<String> {
        let binding = self.binding();
        let clusters = binding["spec"]["clusters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        clusters
            .iter()
            .map(|cluster| cluster["name"].as_str().unwrap().to_owned())
            .collect()
    }

    pub fn copy(&self, cluster: &str) -> Option<Value> {
        self.world
            .member(cluster)
            .api
            .get(&JOBS, Some("shop"), "orders")
            .ok()
            .map(|object| (*object).clone())
    }

    pub fn runs_in(&self, cluster: &str) -> bool {
        self.copy(cluster)
            .is_some_and(|copy| copy["status"]["jobStatus"]["state"] == "RUNNING")
    }

    /// Returns whether the job runs there as its spec says.
    pub fn is_settled_in(&self, cluster: &str) -> bool {
        self.runs_in(cluster)
            && self.copy(cluster).is_some_and(|copy| {
                copy["status"]["observedGeneration"] == copy["metadata"]["generation"]
                    && copy["spec"]["flinkConfiguration"] == self.template()["spec"]["flinkConfiguration"]
            })
    }

    fn template(&self) -> Value {
        let template = self.world.control_plane().get(&JOBS, Some("shop"), "orders");
        template.map(|template| (*template).clone()).unwrap_or_default()
    }

    pub fn count(&self, resource: &Resource) -> usize {
        self.world
            .control_plane()
            .list(resource, None, &ListOptions::default())
            .unwrap()
            .items
            .len()
    }

    /// The workload is settled in this cluster, and never had two writers or lost its state.
    pub fn assert_clean_in(&self, cluster: &str) {
        self.assert_settled_in(cluster);
        self.assert_one_writer();
    }

    pub fn assert_nothing_is_left(&self) {
        assert_eq!(self.count(&PINS), 0, "a pin is left");
        assert_eq!(self.count(&CLAIMS), 0, "a claim is left");
        let binding = self.binding();
        assert!(
            binding["spec"]["suspension"]["scheduling"].is_null(),
            "scheduling is left suspended"
        );
        assert_eq!(
            binding["spec"]["failover"],
            policy()["spec"]["failover"],
            "failover is not as it was"
        );
        let kept = &binding["spec"]["preserveResourcesOnDeletion"];
        assert!(kept.is_null(), "preserveResourcesOnDeletion is left on");
        let conflict = &binding["spec"]["conflictResolution"];
        assert_ne!(conflict, "Overwrite", "conflictResolution is left");
    }

    /// Returns whether nothing of the tool's is left on the workload, and it runs in this cluster alone.
    pub fn is_clean_in(&self, cluster: &str) -> bool {
        let others = ["east", "west", "north"]
            .into_iter()
            .filter(|other| *other != cluster);
        let suspended = &self.binding()["spec"]["suspension"]["scheduling"];
        (self.count(&PINS), self.count(&CLAIMS)) == (0, 0)
            && suspended.is_null()
            && self.listed() == [cluster]
            && self.is_settled_in(cluster)
            && others.into_iter().all(|other| self.copy(other).is_none())
    }

    /// Nothing of the tool's is left on the workload, and one copy runs, in this cluster.
    pub fn assert_settled_in(&self, cluster: &str) {
        self.assert_nothing_is_left();
        assert_eq!(self.listed(), [cluster]);
        assert!(self.runs_in(cluster), "the job does not run in {cluster}");
        for other in ["east", "west", "north"]
            .into_iter()
            .filter(|other| *other != cluster)
        {
            assert!(self.copy(other).is_none(), "a copy is left in {other}");
        }
    }

    /// The statuses of plans that Git keeps.
    pub fn kept_plans(&self) -> Vec<Value> {
        let kept = self.records.kept.lock().unwrap();
        kept.values()
            .map(|kept| serde_json::to_value(&kept.status).unwrap())
            .collect()
    }

    pub async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let story = || format!("{:#}", self.state());
        wait_for(what)
            .within(PATIENCE)
            .every(Duration::from_millis(20))
            .until_or(|| holds(self), story)
            .await;
    }

    fn state(&self) -> Value {
        let list = |resource: Resource| {
            let list = self
                .world
                .control_plane()
                .list(&resource, None, &ListOptions::default());
            list.map(|list| {
                list.items
                    .iter()
                    .map(|object| (**object).clone())
                    .collect::<Vec<_>>()
            })
            .unwrap_or_default()
        };
        json!({
            "migrations": list(MIGRATIONS), "binding": self.binding(), "pins": list(PINS),
            "east": self.copy("east"), "west": self.copy("west"),
        })
    }

    pub fn create(&self, resource: &Resource, namespace: Option<&str>, object: Value) {
        let writer = WriteOptions::manager("cutover");
        self.world
            .control_plane()
            .create(resource, namespace, object, &writer)
            .unwrap();
    }

    pub fn apply(&self, resource: &Resource, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let writer = WriteOptions {
            force: true,
            ..WriteOptions::manager("cutover")
        };
        let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
        let patch = Patch::Apply(object);
        self.world
            .control_plane()
            .patch(resource, namespace.as_deref(), &name, None, &patch, &writer)
            .unwrap();
    }

    pub fn patch(&self, resource: &Resource, name: &str, patch: Value) {
        let writer = WriteOptions::manager("somebody");
        let server = self.world.control_plane();
        server
            .patch(resource, Some("shop"), name, None, &Patch::Merge(patch), &writer)
            .unwrap();
    }
}

impl AsRef<Self> for Fleet {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// A running intents' loop.
pub struct Controller(JoinHandle<()>);

impl Controller {
    pub async fn kill(self) {
        self.0.abort();
        let _ = (&mut { self }.0).await;
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub fn policy() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders", "namespace": "shop"},
            ],
            "propagateDeps": true,
            "failover": {
                "application": {"decisionConditions": {"tolerationSeconds": 30}, "purgeMode": "Directly"},
            },
            "placement": {
                "clusterAffinity": {"clusterNames": ["east", "west", "north"]},
                "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
            },
        },
    })
}

pub fn job(image: &str) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {
            "image": image, "flinkVersion": "v1_20", "serviceAccount": "default",
            "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "1"},
            "jobManager": {"resource": {"memory": "1024m", "cpu": 1}},
            "taskManager": {"resource": {"memory": "1024m", "cpu": 1}},
            "job": {"jarURI": "local:///opt/orders.jar", "parallelism": 1, "upgradeMode": "savepoint", "state": "running"},
        },
    })
}

#[derive(Default)]
struct GivenNumbers(Mutex<Option<Queried>>);

impl Metrics for GivenNumbers {
    fn query<'a>(&'a self, query: &'a str) -> BoxFuture<'a, Queried> {
        let given = self.0.lock().unwrap().clone();
        given.map_or_else(
            || NoMetrics.query(query),
            |given| Box::pin(std::future::ready(given)),
        )
    }
}

/// The status branch of tests that are not about Git.
#[derive(Default)]
struct MemoryRecords {
    migrations: Mutex<BTreeMap<(Option<String>, String), Recorded>>,
    others: Mutex<BTreeMap<String, Value>>,
    kept: Mutex<BTreeMap<ObjectKey, Kept>>,
    is_down: AtomicBool,
    /// How long each answer takes.
    takes: Mutex<Duration>,
}

impl MemoryRecords {
    fn in_reach(&self) -> Result<(), Error> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(Error::new(Kind::Unreachable, "the Git server does not answer"));
        }
        Ok(())
    }
}

/// With the uid of the intent.
type Recorded = (Option<String>, Record);

impl Records for MemoryRecords {
    fn read<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Record>, Error>> {
        let key = (intent.namespace.clone(), intent.name.clone());
        Box::pin(async move {
            let takes = *self.takes.lock().unwrap();
            tokio::time::sleep(takes).await;
            let found = self.migrations.lock().unwrap().get(&key).cloned();
            let record = found.map(|(uid, record)| Record { uid, ..record });
            self.in_reach().map(|()| record)
        })
    }

    fn document<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<Value>, Error>> {
        let document = self.others.lock().unwrap().get(&intent.name).cloned();
        Box::pin(std::future::ready(Ok(document)))
    }

    fn push<'a>(&'a self, intent: &'a Migration, record: &'a Record) -> BoxFuture<'a, Result<(), Error>> {
        let key = (
            intent.metadata.namespace.clone(),
            intent.metadata.name.clone().unwrap(),
        );
        Box::pin(async move {
            let takes = *self.takes.lock().unwrap();
            tokio::time::sleep(takes).await;
            let uid = intent.metadata.uid.clone();
            let mut records = self.migrations.lock().unwrap();
            let is_old = records.get(&key).is_some_and(|(uid_there, there)| {
                *uid_there == uid && Migration::rank(&there.status) > Migration::rank(&record.status)
            });
            self.in_reach()?;
            if is_old {
                return Err(Error::new(Kind::Conflict, "what is recorded is newer"));
            }
            records.insert(key, (uid, record.clone()));
            Ok(())
        })
    }

    fn kept<'a>(&'a self, intent: &'a ObjectKey) -> BoxFuture<'a, Result<Option<FailoverPlanStatus>, Error>> {
        let kept = self
            .kept
            .lock()
            .unwrap()
            .get(intent)
            .map(|kept| kept.status.clone());
        Box::pin(std::future::ready(Ok(kept)))
    }

    fn keep<'a>(&'a self, kept: &'a Kept) -> BoxFuture<'a, Result<(), Error>> {
        let mut all = self.kept.lock().unwrap();
        let is_old = all.get(&kept.intent).is_some_and(|there| {
            there.uid == kept.uid && FailoverPlan::rank(&there.status) > FailoverPlan::rank(&kept.status)
        });
        let outcome = if is_old {
            Err(Error::new(Kind::Conflict, "what is kept is newer"))
        } else {
            all.insert(kept.intent.clone(), kept.clone());
            Ok(())
        };
        Box::pin(std::future::ready(outcome))
    }
}

#[derive(Default)]
struct GivenTemplates(watch::Sender<Option<Value>>);

impl Templates for GivenTemplates {
    fn template(&self, key: &ObjectKey) -> Result<Option<Wanted>, Error> {
        let manifest = self.0.borrow().clone();
        let manifest = manifest.filter(|manifest| manifest["kind"] == key.kind.as_str());
        Ok(manifest.map(|manifest| Wanted {
            hash: digest(&manifest),
            manifest,
            revision: None,
        }))
    }

    fn of_kind(&self, kind: &GroupKind, namespace: &str) -> Result<Vec<Arc<Entry>>, Error> {
        let manifest = self.0.borrow().clone();
        let entries = manifest.iter().flat_map(|manifest| {
            let text = serde_json::to_vec(manifest).unwrap();
            let read = Packer::default().read(Source::new("given.yaml"), &text, &manifest::Limits::default());
            assert_eq!(read.errors, []);
            read.objects
        });
        let is_asked_for = |entry: &Entry| {
            GroupKind::from(&*entry.gvk) == *kind && entry.key.namespace.as_deref() == Some(namespace)
        };
        Ok(entries.filter(is_asked_for).map(Arc::new).collect())
    }

    fn revision(&self) -> Option<String> {
        None
    }

    fn news(&self) -> BoxStream<'static, ()> {
        let changed = async |mut wanted: watch::Receiver<Option<Value>>| {
            wanted.changed().await.ok()?;
            Some(((), wanted))
        };
        futures::stream::unfold(self.0.subscribe(), changed).boxed()
    }
}
