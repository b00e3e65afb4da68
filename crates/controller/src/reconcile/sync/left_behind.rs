//! What syncs have left behind: members of sets that no sync of `cutover.yaml` prunes any more. Such an object is told and
//! never touched; a set of which nothing is left goes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::followed::Followed;
use super::{AGAIN, Desired, DesiredFeed, LISTED_WITHIN};
use cutover_cluster::{self as cluster, Cluster, Observer, Parent, Unusable};
use cutover_core::config::Config;
use cutover_core::plan;
use cutover_core::plan::applyset::Record;
use cutover_karmada::name::{GroupKind, Gvk, ObjectKey};

/// How long changes are gathered before they are looked at together.
const GATHER: Duration = Duration::from_millis(300);

/// Objects of one sync that nobody looks after any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    pub sync: String,
    /// For instance `sync apps is not in cutover.yaml any more`.
    pub why: String,
    pub hint: String,
    pub objects: Vec<ObjectKey>,
}

/// The sets of a repository that no sync prunes.
#[derive(Debug)]
pub(in crate::reconcile) struct Abandoned {
    cluster: Cluster,
    observer: Observer,
    /// What Git wants, sync by sync.
    feeds: Vec<DesiredFeed>,
    config: Config,
    sets: Vec<Set>,
    told: watch::Sender<Vec<LeftBehind>>,
}

#[derive(Debug)]
struct Set {
    parent: Parent,
    members: Followed,
}

impl Abandoned {
    pub(in crate::reconcile) fn new(
        cluster: Cluster,
        observer: Observer,
        config: Config,
        feeds: Vec<DesiredFeed>,
    ) -> Self {
        Self {
            cluster,
            observer,
            feeds,
            config,
            sets: Vec::new(),
            told: watch::Sender::new(Vec::new()),
        }
    }

    /// Returns what is left behind, as it changes.
    pub(in crate::reconcile) fn told(&self) -> watch::Receiver<Vec<LeftBehind>> {
        self.told.subscribe()
    }

    /// Follows the sets until it is cancelled. Where there are none, that is one request at the beginning.
    pub(in crate::reconcile) async fn run(mut self, source: String, cancel: CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.follow(&source) => {}
        }
    }

    /// Says once what is left behind, and lets the sets go of which nothing is.
    pub(in crate::reconcile) async fn once(&mut self, source: &str) -> Vec<LeftBehind> {
        if let Err(error) = self.find(|record| record.source == source).await {
            tracing::debug!(%error, "it is not known what has been left behind");
        }
        self.look().await;
        self.told.borrow().clone()
    }

    /// Returns what a plan shows of it. Reads, and writes nothing. A clone has another address than the repository of the
    /// reconciler, so the sets of its syncs say whose it is.
    pub(in crate::reconcile) async fn planned(&mut self, source: &str) -> Vec<plan::Change> {
        let found = async {
            let parents = cluster::read_parents(&self.cluster).await?;
            let ours = |parent: &&Parent| is_pruned(&self.config, &parent.record);
            let sources = parents.iter().filter(ours);
            let sources: BTreeSet<String> = sources.map(|parent| parent.record.source.clone()).collect();
            self.take(parents, |record| {
                record.source == source || sources.contains(&record.source)
            })
            .await;
            Ok::<_, Unusable>(())
        };
        if let Err(error) = found.await {
            tracing::debug!(%error, "it is not known what has been left behind");
        }
        self.observer.heard(LISTED_WITHIN).await;
        let mut changes = Vec::new();
        for left in self.left().unwrap_or_default() {
            for key in left.objects {
                let Some(live) = self.observer.get(&key) else {
                    continue;
                };
                let gvk = Gvk::new(live["apiVersion"].as_str().unwrap_or_default(), &key.kind);
                changes.push(stays(key, gvk, &left.why));
            }
        }
        changes
    }

    async fn follow(&mut self, source: &str) {
        let mut news = self.observer.news();
        let mut delays = AGAIN.delays();
        while let Err(error) = self.find(|record| record.source == source).await {
            tracing::debug!(%error, "it is not known what has been left behind");
            tokio::time::sleep(delays.next_delay()).await;
        }
        let mut feeds: Vec<Feed> = self.feeds.iter().map(DesiredFeed::subscribe).collect();
        while !self.sets.is_empty() {
            feeds.iter_mut().for_each(Feed::mark_unchanged);
            self.look().await;
            let kinds = self.kinds();
            tokio::select! {
                () = news.heard(|change| kinds.contains(&GroupKind::from(&change.key))) => {}
                () = fed(&mut feeds) => {}
            }
            tokio::time::sleep(GATHER).await;
            news.forget();
        }
        std::future::pending::<()>().await;
    }

    async fn find(&mut self, is_ours: impl Fn(&Record) -> bool) -> Result<(), Unusable> {
        let parents = cluster::read_parents(&self.cluster).await?;
        self.take(parents, is_ours).await;
        Ok(())
    }

    async fn take(&mut self, parents: Vec<Parent>, is_ours: impl Fn(&Record) -> bool) {
        for parent in parents {
            if is_ours(&parent.record) && !is_pruned(&self.config, &parent.record) {
                let kinds = parent.record.kinds.clone();
                let members = Followed::watch(&self.cluster, &self.observer, kinds).await;
                self.sets.push(Set { parent, members });
            }
        }
    }

    async fn look(&mut self) {
        self.observer.heard(LISTED_WITHIN).await;
        let Some(left) = self.left() else { return };
        self.told.send_if_modified(|told| {
            let is_news = *told != left;
            *told = left;
            is_news
        });
        let mut kept = Vec::new();
        for set in std::mem::take(&mut self.sets) {
            if !set.is_empty(&self.observer) || !self.let_go(&set.parent).await {
                kept.push(set);
            }
        }
        self.sets = kept;
    }

    /// Returns whether the parent is gone.
    async fn let_go(&self, parent: &Parent) -> bool {
        let gone = cluster::delete_parent(&self.cluster, parent).await;
        match &gone {
            Ok(()) => tracing::info!(sync = parent.record.sync, "nothing is left of its set"),
            Err(error) => tracing::debug!(%error, sync = parent.record.sync, "its set cannot be deleted"),
        }
        gone.is_ok()
    }

    /// Returns what is left behind; `None` while it isn't known what Git wants.
    fn left(&self) -> Option<Vec<LeftBehind>> {
        let desired: Vec<_> = self
            .feeds
            .iter()
            .map(DesiredFeed::latest)
            .collect::<Option<_>>()?;
        let is_wanted = |key: &ObjectKey| desired.iter().any(|desired| desired.may_want(key));
        let left = self.sets.iter().filter_map(|set| {
            let record = &set.parent.record;
            let members = set.members.members(&self.observer, &record.id());
            let objects: Vec<_> = members.into_iter().filter(|key| !is_wanted(key)).collect();
            (!objects.is_empty()).then(|| LeftBehind {
                sync: record.sync.clone(),
                why: why(&self.config, &record.sync),
                hint: hint(record),
                objects,
            })
        });
        Some(left.collect())
    }

    fn kinds(&self) -> BTreeSet<GroupKind> {
        let records = self.sets.iter().map(|set| &set.parent.record);
        records.flat_map(|record| record.kinds.iter().cloned()).collect()
    }
}

impl Set {
    /// Returns whether it certainly has no member any more.
    fn is_empty(&self, observer: &Observer) -> bool {
        let id = self.parent.record.id();
        self.members.unknown(observer).is_none() && self.members.members(observer, &id).is_empty()
    }
}

fn is_pruned(config: &Config, record: &Record) -> bool {
    config
        .syncs
        .iter()
        .any(|sync| sync.prune && sync.name == record.sync)
}

/// Says why nobody looks after what a sync has applied.
pub(in crate::reconcile) fn why(config: &Config, sync: &str) -> String {
    if config.syncs.iter().any(|own| own.name == sync) {
        format!("sync {sync} does not prune")
    } else {
        format!("sync {sync} is not in cutover.yaml any more")
    }
}

/// Returns an object that stays, for a plan.
pub(in crate::reconcile) fn stays(key: ObjectKey, gvk: Gvk, why: &str) -> plan::Change {
    plan::Change::left_behind(key, gvk, format!("{why}, so it stays until it is deleted"))
}

fn hint(record: &Record) -> String {
    let kinds: Vec<String> = record
        .kinds
        .iter()
        .map(|kind| kind.to_string().to_lowercase())
        .collect();
    format!(
        "to keep them in Git, put them into the folder of a sync; to have them deleted, give sync {} back with prune: \
         true, or: kubectl delete {} --all-namespaces --selector {}={}; to keep them as they are, take that label off",
        record.sync,
        kinds.join(","),
        plan::applyset::PART_OF_LABEL,
        record.id()
    )
}

type Feed = watch::Receiver<Option<Arc<Desired>>>;

/// Returns when Git wants something else than was last looked at.
async fn fed(feeds: &mut [Feed]) {
    let changed = feeds.iter_mut().map(|feed| {
        Box::pin(async move {
            if feed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    });
    let changed: Vec<_> = changed.collect();
    if changed.is_empty() {
        std::future::pending::<()>().await;
    }
    let _ = futures::future::select_all(changed).await;
}
