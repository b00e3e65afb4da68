//! What the demo plays on: a repository with its clone, a sandbox served over HTTP, a reconciler at work on both.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::git::Clone;
use crate::cli::{example, sandbox};
use cutover_cluster::{self as cluster, Cluster, ConnectOptions, Observer, Watched};
use cutover_controller::reconcile::{self, Options};
use cutover_core::api::{self, Migration, Phase, StepRecord};
use cutover_core::error::{Error, Result};
use cutover_core::intent::record::{self, Record};
use cutover_git::{Branch, Repo};
use cutover_karmada::meta;
use cutover_karmada::name::{Gvk, ObjectKey};
use cutover_sandbox::api::{ListOptions, Object, Patch, Resource, WriteOptions};
use cutover_sandbox::karmada::Features;
use cutover_sandbox::ledger::{Run, Verdict};
use cutover_sandbox::world::{Kubeconfigs, World, WorldOptions};

pub const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const PODS: Resource = Resource::new("", "pods");
const JOBS: Resource = Resource::new("flink.apache.org", "flinkdeployments");
const EVACUATIONS: Resource = Resource::new("cutover.dev", "evacuations");
const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");
const BINDINGS: Resource = Resource::new("work.karmada.io", "resourcebindings");
const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const POLICIES: Resource = Resource::new("policy.karmada.io", "propagationpolicies");
const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
const NAMESPACES: Resource = Resource::new("", "namespaces");
const BINDING: &str = "orders-flinkdeployment";
/// Where other people's objects are.
const OTHERS: &str = "backoffice";

/// Nothing in the demo takes longer, so what does has failed.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
pub const STATUS_BRANCH: &str = "cutover-status";
pub const NAMESPACE: &str = "shop";
const WORKLOAD: &str = "orders";

#[derive(Debug)]
pub struct Stage {
    pub clone: Clone,
    pub remote: PathBuf,
    pub kubeconfigs: Kubeconfigs,
    pub world: World,
    repo: Repo,
    observer: Observer,
    cancel: CancellationToken,
}

/// Where the demo puts everything: a temporary directory, or one that the user named.
#[derive(Debug)]
pub struct Ground {
    pub dir: PathBuf,
    /// Removed at the end.
    temporary: Option<TempDir>,
}

impl Ground {
    /// Makes the directory; one that the user named has to be empty.
    pub fn make(named: Option<&Path>) -> Result<Self> {
        let broken =
            |dir: &Path, error: std::io::Error| Error::user(format!("cannot use {}: {error}", dir.display()));
        let Some(dir) = named else {
            let temporary =
                TempDir::with_prefix("cutover-demo-").map_err(|error| sandbox::no_temporary(&error))?;
            return Ok(Self {
                dir: temporary.path().to_owned(),
                temporary: Some(temporary),
            });
        };
        std::fs::create_dir_all(dir).map_err(|error| broken(dir, error))?;
        let mut entries = std::fs::read_dir(dir).map_err(|error| broken(dir, error))?;
        if entries.next().is_some() {
            return Err(Error::user(format!("{} is not empty", dir.display())).hint("name a new directory"));
        }
        let dir = dir.canonicalize().map_err(|error| broken(dir, error))?;
        Ok(Self { dir, temporary: None })
    }

    /// Leaves the directory there, whoever named it.
    pub fn keep(mut self) {
        if let Some(temporary) = self.temporary.take() {
            let _ = temporary.keep();
        }
    }

    /// Removes a temporary directory, and returns what became of the directory, in words.
    pub fn close(self) -> String {
        let dir = self.dir.display();
        match self.temporary.map(TempDir::close) {
            None => format!("{dir} stays"),
            Some(Ok(())) => format!("{dir} was removed"),
            Some(Err(error)) => format!("{dir} could not be removed: {error}"),
        }
    }
}

impl Stage {
    /// Sets everything up. The reconciler goes on until the stage is struck.
    pub async fn set(dir: &Path) -> Result<(Self, JoinHandle<Result<()>>)> {
        let options = WorldOptions {
            members: ["east", "west", "north"].map(str::to_owned).to_vec(),
            features: Features {
                no_execute_eviction: true,
                ..Features::default()
            },
            ..WorldOptions::default()
        };
        let (world, kubeconfigs) = sandbox::start(options, 0, &dir.join("kubeconfigs")).await?;
        let remote = dir.join("shop.git");
        let clone = Clone::make(&remote, &dir.join("shop"))?;
        example::write(&clone.dir)?;
        tell_every_phase(&clone.dir)?;
        clone.push("Begin with the example repository")?;

        let cluster = connect(&kubeconfigs.control).await?;
        let cancel = CancellationToken::new();
        let url = remote.to_string_lossy().parse()?;
        let git = cutover_git::Options {
            status_branch: STATUS_BRANCH.to_owned(),
            ..cutover_git::Options::new(url, "main", dir.join("state/reconciler"))
        };
        let own = cutover_git::Options {
            state_dir: dir.join("state/demo"),
            ..git.clone()
        };
        let repo = Repo::open(own, cancel.clone()).await?;
        let options = Options::new(git, cluster.clone());
        let reconciler = tokio::spawn(reconcile::run(options, cancel.clone()));
        let observer = Observer::new(cluster);
        observer.watch(Watched::all(Gvk::new(api::API_VERSION, "Migration")));
        let stage = Self {
            clone,
            remote,
            kubeconfigs,
            world,
            repo,
            observer,
            cancel,
        };
        Ok((stage, reconciler))
    }

    /// Waits until one copy of the job can write, and returns it.
    pub async fn running(&self) -> Result<Run> {
        self.until("the job to run", || {
            let mut running = self.open_runs();
            (running.len() == 1).then(|| running.pop()).flatten()
        })
        .await
    }

    /// Waits until a migration has ended. `tell` gets each of its steps once it is over, and the name of the next.
    pub async fn ended(
        &self,
        name: &str,
        mut tell: impl FnMut(&StepRecord, Option<&str>),
    ) -> Result<Migration> {
        let key = ObjectKey {
            group: api::GROUP.to_owned(),
            kind: "Migration".to_owned(),
            namespace: Some(NAMESPACE.to_owned()),
            name: name.to_owned(),
        };
        let mut told = 0;
        let mut last: Option<Migration> = None;
        let ended = self
            .observer
            .until(PATIENCE, |observer| {
                let object = observer.get(&key);
                last = object.and_then(|object| serde_json::from_value(object.as_ref().clone()).ok());
                let Some(status) = last.as_ref().and_then(|migration| migration.status.as_ref()) else {
                    return false;
                };
                let over = status
                    .common
                    .steps
                    .iter()
                    .take_while(|step| step.finished_at.is_some());
                let over = over.count();
                for index in told..over {
                    let next = status.common.steps.get(index + 1).map(|next| next.name.as_str());
                    tell(&status.common.steps[index], next);
                }
                told = told.max(over);
                status.phase.is_terminal()
            })
            .await;
        match last {
            Some(migration) if ended => Ok(migration),
            Some(migration) => Err(gave_up(&format!(
                "{name} to end: {}",
                cutover_core::report::migration_lines(&migration, jiff::Timestamp::now()).join("\n")
            ))),
            None => Err(gave_up(&format!("{name} to reach the API server"))),
        }
    }

    /// Waits until the status branch says how a migration ended.
    pub async fn recorded(&self, name: &str, phase: Phase) -> Result<()> {
        let path = record::path("Migration", Some(NAMESPACE), name);
        let read = async {
            loop {
                let bytes = self.repo.read_fresh(Branch::Status, path.clone()).await?;
                let record: Option<Record> = bytes.and_then(|bytes| serde_yaml::from_slice(&bytes).ok());
                if record.is_some_and(|record| record.status.phase == phase) {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        match tokio::time::timeout(PATIENCE, read).await {
            Ok(result) => result,
            Err(_) => Err(gave_up(&format!(
                "the status branch to say that {name} is {phase}"
            ))),
        }
    }

    /// Returns the image of the job's copy in a member, as its object there says.
    pub fn image_in(&self, member: &str) -> String {
        let found = self
            .world
            .member(member)
            .api
            .get(&JOBS, Some(NAMESPACE), WORKLOAD);
        let image = found.as_ref().ok().and_then(|job| job["spec"]["image"].as_str());
        image.unwrap_or_default().to_owned()
    }

    /// Returns an object of the control plane.
    pub fn object(&self, resource: &Resource, namespace: Option<&str>, name: &str) -> Option<Value> {
        let found = self.world.control_plane().get(resource, namespace, name);
        found.ok().map(|object| (*object).clone())
    }

    /// Returns a copy in a member.
    pub fn copy(&self, member: &str, resource: &Resource, name: &str) -> Option<Value> {
        let found = self.world.member(member).api.get(resource, Some(NAMESPACE), name);
        found.ok().map(|object| (*object).clone())
    }

    /// Returns the pods of a workload in a member, by what tells them from any that were there before.
    pub fn pods(&self, member: &str, of: &str) -> BTreeSet<String> {
        let pods = self
            .world
            .member(member)
            .api
            .list(&PODS, Some(NAMESPACE), &ListOptions::default());
        let pods = pods.map(|pods| pods.items).unwrap_or_default();
        let text = |pod: &Object, field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let ours = pods.iter().filter(|pod| text(pod, "name").starts_with(of));
        ours.map(|pod| text(pod, "uid")).collect()
    }

    pub fn verdict(&self) -> Verdict {
        self.world.ledger().verdict()
    }

    /// Returns the runs of the job that are not over.
    pub fn open_runs(&self) -> Vec<Run> {
        let ours = |run: &Run| run.workload.name == WORKLOAD && run.until.is_none();
        self.verdict().runs.into_iter().filter(ours).collect()
    }

    /// Waits until a change of the policy has set off a migration to a cluster that has not ended, and returns its name.
    pub async fn set_off(&self, to: &str) -> Result<String> {
        let server = self.world.control_plane();
        self.until(&format!("a migration to {to} to be set off"), || {
            let all = server.list(&MIGRATIONS, Some(NAMESPACE), &ListOptions::default());
            let all = all.map(|all| all.items).unwrap_or_default();
            let set_off = all
                .iter()
                .filter(|one| one["status"]["finishedAt"].is_null())
                .find(|one| one["metadata"]["ownerReferences"].is_array() && one["spec"]["to"] == to);
            set_off.and_then(|one| one["metadata"]["name"].as_str().map(str::to_owned))
        })
        .await
    }

    /// Waits until the policy of the job lets it run in so many clusters.
    pub async fn placed_in(&self, count: usize) -> Result<()> {
        self.until(&format!("a policy of {count} clusters"), || {
            let policy = self.object(&POLICIES, Some(NAMESPACE), WORKLOAD)?;
            let names = policy["spec"]["placement"]["clusterAffinity"]["clusterNames"].as_array()?;
            (names.len() == count).then_some(())
        })
        .await
    }

    /// Waits until a migration has entered a phase.
    pub async fn enters(&self, name: &str, phase: Phase) -> Result<()> {
        self.until(&format!("{name} to enter {phase}"), || {
            (self.status(name)["phase"] == phase.name()).then_some(())
        })
        .await
    }

    /// Waits until a roll back stands still for a cluster that it can't see, and returns what it says.
    pub async fn cannot_go_back(&self, name: &str, cluster: &str) -> Result<String> {
        self.until(&format!("{name} to say what it waits for"), || {
            let status = self.status(name);
            let reason = status["waitingFor"]["reason"].as_str().unwrap_or_default();
            let stands = status["phase"] == Phase::RollingBack.name() && reason.contains(cluster);
            stands.then(|| reason.to_owned())
        })
        .await
    }

    fn status(&self, name: &str) -> Value {
        let server = self.world.control_plane();
        let found = server.get(&MIGRATIONS, Some(NAMESPACE), name);
        found
            .map(|migration| migration["status"].clone())
            .unwrap_or_default()
    }

    /// Returns the clusters that the job's binding lists.
    pub fn listed(&self) -> Vec<String> {
        let binding = self.binding();
        let listed = binding["spec"]["clusters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let name = |cluster: &Value| cluster["name"].as_str().unwrap_or_default().to_owned();
        listed.iter().map(name).collect()
    }

    pub fn scheduling_suspended(&self) -> bool {
        self.binding()["spec"]["suspension"]["scheduling"] == true
    }

    fn binding(&self) -> Value {
        let server = self.world.control_plane();
        let found = server.get(&BINDINGS, Some(NAMESPACE), BINDING);
        found.map(|binding| (*binding).clone()).unwrap_or_default()
    }

    /// Somebody patches the job's binding.
    pub fn patch_binding(&self, patch: Value) -> Result<()> {
        self.patch(&BINDINGS, Some(NAMESPACE), BINDING, patch)
    }

    /// Waits until the applied placement tolerates a taint for a time.
    pub async fn tolerates_a_taint(&self) -> Result<()> {
        self.until("the policy to be applied", || {
            let applied = self.binding()["metadata"]["annotations"][meta::APPLIED_PLACEMENT].clone();
            applied.as_str()?.contains("tolerationSeconds").then_some(())
        })
        .await
    }

    /// A person gives a cluster these taints, and no other.
    pub fn taint(&self, cluster: &str, taints: Value) -> Result<()> {
        self.patch(&CLUSTERS, None, cluster, json!({"spec": {"taints": taints}}))
    }

    /// Waits until a cluster has an Evacuation, and returns its name.
    pub async fn evacuated(&self, cluster: &str) -> Result<String> {
        let server = self.world.control_plane();
        self.until(&format!("an evacuation of {cluster}"), || {
            let all = server.list(&EVACUATIONS, None, &ListOptions::default());
            let all = all.map(|all| all.items).unwrap_or_default();
            let one = all.iter().find(|one| one["spec"]["cluster"] == cluster)?;
            one["metadata"]["name"].as_str().map(str::to_owned)
        })
        .await
    }

    /// Returns whether Karmada has taken the job out of a cluster, or is about to.
    pub fn is_evicted(&self) -> bool {
        let tasks = &self.binding()["spec"]["gracefulEvictionTasks"];
        tasks.as_array().is_some_and(|tasks| !tasks.is_empty())
    }

    /// Somebody labels a cluster: the scheduler looks at every binding anew that could go there.
    pub fn label_cluster(&self, name: &str) -> Result<()> {
        self.patch(
            &CLUSTERS,
            None,
            name,
            json!({"metadata": {"labels": {"zone": "b"}}}),
        )
    }

    /// Other people have so many objects that are propagated, and the scheduler has seen them all.
    pub async fn others(&self, count: usize) -> Result<()> {
        self.create(
            &NAMESPACES,
            None,
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OTHERS}}),
        )?;
        let policy = json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "all", "namespace": OTHERS},
            "spec": {
                "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}],
                "placement": {"clusterAffinity": {"clusterNames": ["north"]}},
            },
        });
        self.create(&POLICIES, Some(OTHERS), policy)?;
        for number in 0..count {
            let metadata = json!({"name": format!("ledger-{number}"), "namespace": OTHERS});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            self.create(&CONFIG_MAPS, Some(OTHERS), map)?;
        }
        let server = self.world.control_plane();
        let placed = |binding: &&Object| binding["spec"]["clusters"].is_array();
        self.until("other people's bindings to be scheduled", || {
            let all = server.list(&BINDINGS, Some(OTHERS), &ListOptions::default());
            let all = all.map(|all| all.items).unwrap_or_default();
            (all.iter().filter(placed).count() >= count).then_some(())
        })
        .await
    }

    fn create(&self, resource: &Resource, namespace: Option<&str>, object: Value) -> Result<()> {
        let server = self.world.control_plane();
        let created = server.create(resource, namespace, object, &WriteOptions::manager("somebody"));
        created
            .map(drop)
            .map_err(|status| Error::internal(status.to_string()))
    }

    fn patch(&self, resource: &Resource, namespace: Option<&str>, name: &str, patch: Value) -> Result<()> {
        let (server, patch) = (self.world.control_plane(), Patch::Merge(patch));
        let patched = server.patch(
            resource,
            namespace,
            name,
            None,
            &patch,
            &WriteOptions::manager("somebody"),
        );
        patched
            .map(drop)
            .map_err(|status| Error::internal(status.to_string()))
    }

    /// Tells the reconciler to end in order.
    pub fn strike(&self) {
        self.cancel.cancel();
    }

    /// Waits until something is there, looking often.
    pub async fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
        let found = async {
            loop {
                if let Some(found) = look() {
                    return found;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        tokio::time::timeout(PATIENCE, found)
            .await
            .map_err(|_| gave_up(what))
    }
}

async fn connect(kubeconfig: &Path) -> Result<Cluster> {
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        ..ConnectOptions::default()
    };
    Ok(cluster::connect(&options).await?)
}

fn gave_up(what: &str) -> Error {
    Error::internal(format!(
        "waited {} s for {what}, without effect",
        PATIENCE.as_secs()
    ))
}

/// Has each phase committed by itself, however fast they follow each other: it is a story. What a chapter takes out of Git goes, a
/// policy that names another cluster moves its workload, and a cluster that is tainted is evacuated.
fn tell_every_phase(dir: &Path) -> Result<()> {
    let path = dir.join(cutover_core::config::PATH);
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Error::user(format!("cannot read {}: {error}", path.display())))?;
    let branch = format!("  branch: {STATUS_BRANCH}\n");
    let text = text.replace(&branch, &format!("{branch}  every: 1s\n"));
    let own = "  path: .\n  prune: true\n  gate:\n    migrations: {mode: Auto, verify: {healthyFor: 1s}}\n    \
               evacuations: {mode: Auto, verify: {healthyFor: 1s}}\n";
    example::write_file(&path, &text.replace("  path: .\n", own))
}
