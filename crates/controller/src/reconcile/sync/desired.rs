//! What Git wants, for whoever asks, and which files it is read from.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};
use tokio::sync::{Mutex, watch};

use super::whole::Whole;
use crate::reconcile::intents::{Templates, Wanted};
use cutover_cluster::Observer;
use cutover_core::api::SYNC_MANAGER;
use cutover_core::config::{self, Config};
use cutover_core::error::{Error, Kind};
use cutover_core::intent::record::digest;
use cutover_core::manifest::{Entry, ObjectMap};
use cutover_core::plan::applyset::set_id;
use cutover_core::plan::drift::ApplyContext;
use cutover_git::Skipped;
use cutover_karmada::name::{GroupKind, ObjectKey, Revision};

/// Which files of a repository are read, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Directories or files; everything when empty.
    pub paths: Vec<String>,
    /// The settings, and which of their syncs this is: other syncs' files are left to them.
    pub config: Arc<Config>,
    pub sync: Option<String>,
    /// The namespace of objects that don't say theirs; without it, those are refused.
    pub namespace: Option<String>,
    /// What is added to every object, and left out.
    pub context: Arc<ApplyContext>,
    /// What is known of the size of everything that is synced.
    pub(super) whole: Arc<Mutex<Whole>>,
}

impl Selection {
    /// Selects what one sync of `cutover.yaml` owns.
    pub fn of(config: &Config, sync: &config::Sync) -> Self {
        Self::common(config).beside(sync)
    }

    /// Returns what the syncs of some settings have in common.
    pub(in crate::reconcile) fn common(config: &Config) -> Self {
        Self {
            config: Arc::new(config.clone()),
            ..Self::default()
        }
    }

    /// Selects what a sync of the same settings owns.
    pub(in crate::reconcile) fn beside(&self, sync: &config::Sync) -> Self {
        let folder = sync.path.trim_start_matches("./").trim_matches('/');
        let whole = matches!(folder, "" | ".");
        Self {
            paths: if whole {
                Vec::new()
            } else {
                vec![folder.to_owned()]
            },
            config: Arc::clone(&self.config),
            whole: Arc::clone(&self.whole),
            sync: Some(sync.name.clone()),
            namespace: sync.namespace.clone(),
            context: Arc::new(ApplyContext {
                part_of: sync.prune.then(|| set_id(&sync.name)),
                drift: sync.drift.clone(),
            }),
        }
    }

    /// Returns the settings of this sync.
    pub(super) fn own(&self) -> Option<&config::Sync> {
        let name = self.sync.as_ref()?;
        self.config.syncs.iter().find(|sync| sync.name == *name)
    }

    /// Returns whether a file is meant for the cluster, and for this sync.
    pub(super) fn owns(&self, path: &str) -> bool {
        let owner = self.config.sync_of(path);
        owner.is_some_and(|owner| self.is_own(owner))
    }

    /// Returns whether an entry that isn't read may hold something that is meant for this sync.
    pub(super) fn misses(&self, skipped: &Skipped) -> bool {
        let affected = self.config.affected_by(&skipped.path, skipped.shape);
        affected.into_iter().any(|sync| self.is_own(sync))
    }

    fn is_own(&self, sync: &config::Sync) -> bool {
        self.sync.as_ref().is_none_or(|name| *name == sync.name)
    }
}

/// What one revision wants, each object in the namespace it goes to. A clone costs next to nothing.
#[derive(Clone, Debug)]
pub struct Desired {
    pub revision: Revision,
    pub objects: ObjectMap<Entry>,
    /// Objects of files that could not be read in full: what Git wants of them is not known.
    pub frozen: Arc<BTreeSet<ObjectKey>>,
    /// Why it may want more than that, if it may.
    pub doubt: Option<String>,
    pub(super) context: Arc<ApplyContext>,
    pub(super) observer: Observer,
}

impl Desired {
    /// Returns whether Git wants an object, or may want it for all that could be read.
    pub(in crate::reconcile) fn may_want(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.frozen.contains(key)
    }
}

/// Gives the newest [`Desired`] to whoever needs it; `None` while no revision has been read.
#[derive(Clone, Debug)]
pub struct DesiredFeed(pub(super) watch::Receiver<Option<Arc<Desired>>>);

impl DesiredFeed {
    pub fn latest(&self) -> Option<Arc<Desired>> {
        self.0.borrow().clone()
    }

    fn read(&self) -> Result<Arc<Desired>, Error> {
        self.latest()
            .ok_or_else(|| Error::new(Kind::Unreachable, "no revision has been read from Git yet"))
    }

    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Desired>>> {
        self.0.clone()
    }
}

impl Templates for DesiredFeed {
    fn template(&self, key: &ObjectKey) -> Result<Option<Wanted>, Error> {
        let desired = self.read()?;
        if desired.frozen.contains(key) {
            return Err(Error::user(format!(
                "what Git wants of {key} is not known: its file has errors"
            )));
        }
        Ok(desired.objects.get(key).map(|entry| {
            let live = desired.observer.get(key);
            let manifest = entry.manifest();
            let dressed = desired.context.on(&manifest, live.as_deref(), SYNC_MANAGER);
            Wanted {
                hash: digest(&manifest.value),
                manifest: dressed.into_owned().value,
                revision: Some(desired.revision.to_string()),
            }
        }))
    }

    fn of_kind(&self, kind: &GroupKind, namespace: &str) -> Result<Vec<Arc<Entry>>, Error> {
        let desired = self.read()?;
        let entries = desired
            .objects
            .of_namespace(&kind.group, &kind.kind, Some(namespace));
        Ok(entries.cloned().collect())
    }

    fn revision(&self) -> Option<String> {
        Some(self.latest()?.revision.to_string())
    }

    fn news(&self) -> BoxStream<'static, ()> {
        let changed = async |mut feed: watch::Receiver<Option<Arc<Desired>>>| {
            feed.changed().await.ok()?;
            Some(((), feed))
        };
        futures::stream::unfold(self.0.clone(), changed).boxed()
    }

    fn file(&self, key: &ObjectKey) -> Option<String> {
        let desired = self.latest()?;
        Some(desired.objects.get(key)?.origin().path.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_syncs_have_in_common_is_there_once_however_many_there_are() {
        let mut text = String::from("apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs:\n");
        for number in 0..500 {
            text.push_str(&format!("- {{name: s{number}, path: p{number}}}\n"));
        }
        let config = Config::parse(text.as_bytes()).unwrap();
        let common = Selection::common(&config);
        let all: Vec<_> = config.syncs.iter().map(|sync| common.beside(sync)).collect();
        assert_eq!(Arc::strong_count(&common.config), 501);
        assert_eq!(Arc::strong_count(&common.whole), 501);
        for (sync, selection) in config.syncs.iter().zip(&all) {
            assert_eq!(selection.own(), Some(sync));
            assert!(selection.owns(&format!("{}/a.yaml", sync.path)));
        }
    }
}
