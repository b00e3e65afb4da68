//! What the demo plays on: a repository with its clone, a sandbox served over HTTP, a reconciler at work on both.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::git::Clone;
use crate::api::{self, Migration, Phase, StepRecord};
use crate::cli::{example, sandbox};
use crate::cluster::{self, Cluster, ConnectOptions, Observer, Watched};
use crate::error::{Error, Result};
use crate::intent::record::{self, Record};
use crate::name::{Gvk, ObjectKey};
use crate::reconcile::{self, Options};
use crate::repo::{Branch, Repo};
use crate::sandbox::api::Resource;
use crate::sandbox::ledger::{Run, Verdict};
use crate::sandbox::world::{Kubeconfigs, World};

/// Nothing in the demo takes longer, so what does has failed.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
pub const STATUS_BRANCH: &str = "cutover-status";
pub const NAMESPACE: &str = "shop";
const WORKLOAD: &str = "orders";

#[derive(Debug)]
pub struct Stage {
    pub dir: PathBuf,
    pub clone: Clone,
    pub remote: PathBuf,
    pub kubeconfigs: Kubeconfigs,
    pub world: World,
    repo: Repo,
    observer: Observer,
    cancel: CancellationToken,
    /// Removed at the end, unless the user named the directory.
    temporary: Option<TempDir>,
}

impl Stage {
    /// Sets everything up. The reconciler goes on until the stage is struck.
    pub async fn set(dir: Option<&Path>) -> Result<(Self, JoinHandle<Result<()>>)> {
        let (dir, temporary) = place(dir)?;
        let members = ["east", "west", "north"].map(str::to_owned).to_vec();
        let (world, kubeconfigs) = sandbox::start(members, 0, &dir.join("kubeconfigs")).await?;
        let remote = dir.join("shop.git");
        let clone = Clone::make(&remote, &dir.join("shop"))?;
        example::write(&clone.dir)?;
        clone.push("Begin with the example repository")?;

        let cluster = connect(&kubeconfigs.control).await?;
        let cancel = CancellationToken::new();
        let url = remote.to_string_lossy().parse()?;
        let git = crate::repo::Options {
            status_branch: STATUS_BRANCH.to_owned(),
            ..crate::repo::Options::new(url, "main", dir.join("state/reconciler"))
        };
        let own = crate::repo::Options {
            state_dir: dir.join("state/demo"),
            ..git.clone()
        };
        let repo = Repo::open(own, cancel.clone()).await?;
        let options = Options::new(git, cluster.clone());
        let reconciler = tokio::spawn(reconcile::run(options, cancel.clone()));
        let observer = Observer::new(cluster);
        observer.watch(Watched::all(Gvk::new(api::API_VERSION, "Migration")));
        let stage = Self {
            dir,
            clone,
            remote,
            kubeconfigs,
            world,
            repo,
            observer,
            cancel,
            temporary,
        };
        Ok((stage, reconciler))
    }

    /// Says whether the directory goes away at the end.
    pub fn keep(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            self.dir = temporary.keep();
        }
    }

    /// Waits until one copy of the job can write, and returns it.
    pub async fn running(&self) -> Result<Run> {
        self.until("the job to run", || {
            let mut running = open_runs(&self.verdict());
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
                let over = status.steps.iter().take_while(|step| step.finished_at.is_some());
                let over = over.count();
                for index in told..over {
                    let next = status.steps.get(index + 1).map(|next| next.name.as_str());
                    tell(&status.steps[index], next);
                }
                told = told.max(over);
                status.phase.is_terminal()
            })
            .await;
        match last {
            Some(migration) if ended => Ok(migration),
            Some(migration) => Err(gave_up(&format!(
                "{name} to end: {}",
                crate::report::migration_lines(&migration, jiff::Timestamp::now()).join("\n")
            ))),
            None => Err(gave_up(&format!("{name} to reach the API server"))),
        }
    }

    /// Waits until the status branch says how a migration ended.
    pub async fn recorded(&self, name: &str, phase: Phase) -> Result<()> {
        let path = record::path("Migration", NAMESPACE, name);
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
        const JOBS: Resource = Resource::new("flink.apache.org", "flinkdeployments");
        let found = self
            .world
            .member(member)
            .api
            .get(&JOBS, Some(NAMESPACE), WORKLOAD);
        let image = found.as_ref().ok().and_then(|job| job["spec"]["image"].as_str());
        image.unwrap_or_default().to_owned()
    }

    pub fn verdict(&self) -> Verdict {
        self.world.ledger().verdict()
    }

    /// Tells the reconciler to end in order.
    pub fn strike(&self) {
        self.cancel.cancel();
    }

    async fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
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

/// Returns the runs of the job that are not over.
pub fn open_runs(verdict: &Verdict) -> Vec<Run> {
    let ours = |run: &&Run| run.workload.name == WORKLOAD && run.until.is_none();
    verdict.runs.iter().filter(ours).cloned().collect()
}

async fn connect(kubeconfig: &Path) -> Result<Cluster> {
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        ..ConnectOptions::default()
    };
    Ok(cluster::connect(&options).await?)
}

fn place(dir: Option<&Path>) -> Result<(PathBuf, Option<TempDir>)> {
    let broken =
        |dir: &Path, error: std::io::Error| Error::user(format!("cannot use {}: {error}", dir.display()));
    let Some(dir) = dir else {
        let temporary =
            TempDir::with_prefix("cutover-demo-").map_err(|error| broken(&std::env::temp_dir(), error))?;
        return Ok((temporary.path().to_owned(), Some(temporary)));
    };
    std::fs::create_dir_all(dir).map_err(|error| broken(dir, error))?;
    let mut entries = std::fs::read_dir(dir).map_err(|error| broken(dir, error))?;
    if entries.next().is_some() {
        return Err(Error::user(format!("{} is not empty", dir.display())).hint("name a new directory"));
    }
    let dir = dir.canonicalize().map_err(|error| broken(dir, error))?;
    Ok((dir, None))
}

fn gave_up(what: &str) -> Error {
    Error::internal(format!("waited {} s in vain for {what}", PATIENCE.as_secs()))
}
