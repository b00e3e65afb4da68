//! A whole reconciler: the syncs that `cutover.yaml` names, the intents, the status branch.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::intents::{self, Parts, Witness};
use super::publish::{Publisher, Reports};
use super::sync::{Selection, Sync, SyncReport};
use super::templates::AllTemplates;
use super::{GitRecords, settings};
use crate::api::{self, Phase};
use crate::cluster::{Cluster, Observer};
use crate::config::Config;
use crate::error::Error;
use crate::repo::{self, Polling, Repo};

/// What a reconciler works on.
#[derive(Clone)]
pub struct Options {
    /// The status branch and the author are those of `cutover.yaml`.
    pub repo: repo::Options,
    pub cluster: Cluster,
    /// Instead of what `cutover.yaml` says.
    pub polling: Option<Polling>,
    pub clock: Arc<dyn Fn() -> Timestamp + Send + std::marker::Sync>,
    pub witness: Arc<dyn Witness>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

/// What one run to the end came to.
#[derive(Clone, Debug)]
pub struct Summary {
    pub syncs: Vec<(String, Arc<SyncReport>)>,
    /// Namespace, name and phase of every migration.
    pub migrations: Vec<(String, String, Phase)>,
}

impl Summary {
    /// Returns whether everything is as Git wants it: synced, and no intent that failed.
    pub fn is_clean(&self) -> bool {
        let failed = |phase: &Phase| matches!(phase, Phase::Failed | Phase::RolledBack | Phase::Aborted);
        self.syncs.iter().all(|(_, report)| report.is_clean())
            && !self.migrations.iter().any(|(_, _, phase)| failed(phase))
    }
}

/// Runs until it is cancelled. When `cutover.yaml` changes, everything is laid out anew.
pub async fn run(options: Options, cancel: CancellationToken) -> Result<(), Error> {
    let mut settings = settings::first(&options.repo, &cancel).await?;
    while !cancel.is_cancelled() {
        let repo = settings.open(&options.repo, &cancel).await?;
        let layout = Layout::new(&options, &repo, &settings.config);
        let stop = cancel.child_token();
        let Some(desired) = layout.syncs.first().map(|(_, sync)| sync.desired().subscribe()) else {
            return Err(Error::user("cutover.yaml names no sync"));
        };
        let mut tasks = layout.spawn(&options, &settings.config, &stop);
        let changed = tokio::select! {
            () = cancel.cancelled() => None,
            changed = settings.changed(&repo, desired) => Some(changed),
        };
        stop.cancel();
        while tasks.join_next().await.is_some() {}
        if let Some(changed) = changed {
            tracing::info!("cutover.yaml has changed");
            settings = changed;
        }
    }
    Ok(())
}

/// Brings everything to where it goes no further by itself, publishes, and returns.
pub async fn once(options: Options, cancel: CancellationToken) -> Result<Summary, Error> {
    let settings = settings::first(&options.repo, &cancel).await?;
    let repo = settings.open(&options.repo, &cancel).await?;
    let mut layout = Layout::new(&options, &repo, &settings.config);
    layout.sync().await?;
    let stop = cancel.child_token();
    let running = tokio::spawn(intents::run(layout.parts(&options), stop.clone()));
    tokio::select! {
        () = cancel.cancelled() => {}
        () = settled(&layout.observer) => {}
    }
    stop.cancel();
    let _ = running.await;
    // What intents held back may be free now.
    let syncs = layout.sync().await?;
    let migrations = migrations(&layout.observer);
    Publisher::new(repo, layout.observer.clone(), layout.reports())
        .once()
        .await?;
    Ok(Summary { syncs, migrations })
}

struct Layout {
    repo: Repo,
    observer: Observer,
    syncs: Vec<(String, Sync)>,
}

impl Layout {
    fn new(options: &Options, repo: &Repo, config: &Config) -> Self {
        let observer = Observer::new(options.cluster.clone());
        for kind in intents::watched() {
            observer.watch(kind);
        }
        let syncs = config
            .syncs
            .iter()
            .map(|sync| {
                let selection = Selection::of(config, sync);
                let made = Sync::new(repo.clone(), options.cluster.clone(), observer.clone(), selection);
                (sync.name.clone(), made)
            })
            .collect();
        Self {
            repo: repo.clone(),
            observer,
            syncs,
        }
    }

    async fn sync(&mut self) -> Result<Vec<(String, Arc<SyncReport>)>, Error> {
        let mut reports = Vec::new();
        for (name, sync) in &mut self.syncs {
            reports.push((name.clone(), sync.once().await?));
        }
        Ok(reports)
    }

    fn parts(&self, options: &Options) -> Parts {
        Parts {
            cluster: options.cluster.clone(),
            observer: self.observer.clone(),
            records: Arc::new(GitRecords::new(self.repo.clone())),
            templates: Arc::new(AllTemplates(
                self.syncs.iter().map(|(_, sync)| sync.desired()).collect(),
            )),
            clock: Arc::clone(&options.clock),
            witness: Arc::clone(&options.witness),
        }
    }

    fn reports(&self) -> Vec<Reports> {
        let reports = |(name, sync): &(String, Sync)| Reports {
            name: name.clone(),
            latest: sync.reports(),
        };
        self.syncs.iter().map(reports).collect()
    }

    fn spawn(self, options: &Options, config: &Config, cancel: &CancellationToken) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let polling = options.polling.unwrap_or_else(|| Polling {
            interval: config.interval.duration(),
            ..Polling::default()
        });
        tasks.spawn(intents::run(self.parts(options), cancel.clone()));
        let publisher = Publisher::new(self.repo.clone(), self.observer.clone(), self.reports());
        tasks.spawn(publisher.run(cancel.clone()));
        for (_, sync) in self.syncs {
            tasks.spawn(sync.run(polling, cancel.clone()));
        }
        tasks
    }
}

/// Ends when no intent goes on by itself: ended, paused, or waiting for somebody's approval.
async fn settled(observer: &Observer) {
    let still = |observer: &Observer| {
        observer.list(api::GROUP, "Migration").iter().all(|object| {
            let phase = serde_json::from_value(object["status"]["phase"].clone()).unwrap_or(Phase::Pending);
            let reason = object["status"]["waitingFor"]["reason"]
                .as_str()
                .unwrap_or_default();
            let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
            let waits = reason.starts_with("approval of") || reason.starts_with("paused");
            seen && (phase.is_terminal() || waits)
        })
    };
    while !observer.until(Duration::from_hours(1), still).await {}
}

fn migrations(observer: &Observer) -> Vec<(String, String, Phase)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    observer
        .list(api::GROUP, "Migration")
        .iter()
        .map(|object| {
            let phase = serde_json::from_value(object["status"]["phase"].clone()).unwrap_or(Phase::Pending);
            (
                text(&object["metadata"]["namespace"]),
                text(&object["metadata"]["name"]),
                phase,
            )
        })
        .collect()
}
