//! What Git wants: read blob by blob as revisions come, and shared with who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::watch;

use super::report::Problem;
use crate::cluster::{Cluster, Lookup, Served};
use crate::config::{self, Config};
use crate::error::{Error, Kind};
use crate::manifest::{self, Manifest, Parsed, Set};
use crate::name::{Gvk, Location, ObjectKey, Revision};
use crate::reconcile::intents::{Templates, Wanted};
use crate::repo::{self, Change, ChangeKind, Repo};

/// Which files of a repository are read, and how.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Directories or files; everything when empty.
    pub paths: Vec<String>,
    /// The settings, and which of their syncs this is: other syncs' files are left to them.
    pub config: Config,
    pub sync: Option<String>,
    /// The namespace of objects that don't say theirs; without it, those are refused.
    pub namespace: Option<String>,
    pub limits: manifest::Limits,
}

impl Selection {
    /// Selects what one sync of `cutover.yaml` owns.
    pub fn of(config: &Config, sync: &config::Sync) -> Self {
        let folder = sync.path.trim_start_matches("./").trim_matches('/');
        let whole = matches!(folder, "" | ".");
        Self {
            paths: if whole {
                Vec::new()
            } else {
                vec![folder.to_owned()]
            },
            config: config.clone(),
            sync: Some(sync.name.clone()),
            namespace: sync.namespace.clone(),
            limits: manifest::Limits::default(),
        }
    }

    /// Returns whether a file is meant for the cluster, and for this sync.
    fn owns(&self, path: &str) -> bool {
        let owner = self.config.sync_of(path);
        owner.is_some_and(|owner| self.sync.as_ref().is_none_or(|sync| *sync == owner.name))
    }
}

/// What one revision wants, each object in the namespace it goes to.
#[derive(Clone, Debug)]
pub struct Desired {
    pub revision: Revision,
    pub objects: BTreeMap<ObjectKey, Arc<Manifest>>,
    /// Objects of files that could not be read in full: what Git wants of them is not known.
    pub frozen: BTreeSet<ObjectKey>,
}

/// Gives the newest [`Desired`] to whoever needs it; `None` while no revision has been read.
#[derive(Clone, Debug)]
pub struct DesiredFeed(pub(super) watch::Receiver<Option<Arc<Desired>>>);

impl DesiredFeed {
    pub fn latest(&self) -> Option<Arc<Desired>> {
        self.0.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Desired>>> {
        self.0.clone()
    }
}

impl Templates for DesiredFeed {
    fn template(&self, key: &ObjectKey) -> Result<Option<Wanted>, Error> {
        let Some(desired) = self.latest() else {
            return Err(Error::new(
                Kind::Unreachable,
                "no revision has been read from Git yet",
            ));
        };
        if desired.frozen.contains(key) {
            return Err(Error::user(format!(
                "what Git wants of {key} is not known: its file has errors"
            )));
        }
        Ok(desired.objects.get(key).map(|manifest| Wanted {
            manifest: manifest.value.clone(),
            revision: Some(desired.revision.to_string()),
        }))
    }

    fn revision(&self) -> Option<String> {
        Some(self.latest()?.revision.to_string())
    }
}

/// The files of a branch as they were read last.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) repo: Repo,
    selection: Selection,
    pub(super) revision: Option<Revision>,
    set: Set,
    files: BTreeMap<String, File>,
}

#[derive(Debug, Default)]
struct File {
    keys: BTreeSet<ObjectKey>,
    /// It could not be read in full: its objects, as they were before too, are left alone.
    frozen: bool,
    unread: Option<Problem>,
}

impl Source {
    pub(super) fn new(repo: Repo, selection: Selection) -> Self {
        Self {
            repo,
            selection,
            revision: None,
            set: Set::new(),
            files: BTreeMap::new(),
        }
    }

    /// Reads what a revision changes; returns the keys that it may concern, as they are written.
    pub(super) async fn advance(&mut self, to: &Revision) -> Result<BTreeSet<ObjectKey>, repo::Error> {
        let paths = &self.selection.paths;
        let changes = match self.repo.changed(self.revision.clone(), to.clone(), paths).await {
            Ok(changes) => changes.files,
            // A forced push took the old revision away: everything is compared by name.
            Err(repo::Error::UnknownRevision(_)) => self.all(to).await?,
            Err(error) => return Err(error),
        };
        let (gone, new): (Vec<_>, Vec<_>) = changes
            .into_iter()
            .filter(|change| self.selection.owns(&change.path))
            .partition(|change| change.kind == ChangeKind::Deleted);
        let contents = self
            .repo
            .read(new.iter().map(|change| change.blob).collect())
            .await?;
        let limits = self.selection.limits;
        let parsed: Vec<_> = new
            .into_iter()
            .zip(contents)
            .map(|(change, bytes)| read(&change, bytes, &limits))
            .collect();
        let mut touched = BTreeSet::new();
        for change in gone {
            touched.extend(self.set.remove(&change.path));
            self.files.remove(&change.path);
        }
        for (path, parsed, unread) in parsed {
            touched.extend(self.take_in(path, parsed, unread));
        }
        self.revision = Some(to.clone());
        Ok(touched)
    }

    fn take_in(&mut self, path: String, parsed: Parsed, unread: Option<Problem>) -> BTreeSet<ObjectKey> {
        let frozen = unread.is_some() || !parsed.errors.is_empty();
        let mut keys: BTreeSet<_> = parsed
            .objects
            .iter()
            .map(|manifest| manifest.key.clone())
            .collect();
        if frozen && let Some(before) = self.files.remove(&path) {
            keys.extend(before.keys);
        }
        let touched = self.set.update(&path, parsed);
        self.files.insert(path, File { keys, frozen, unread });
        touched
    }

    async fn all(&self, to: &Revision) -> Result<Vec<Change>, repo::Error> {
        let mut files = self.repo.files(to.clone(), &self.selection.paths).await?.files;
        let there: BTreeSet<String> = files.iter().map(|change| change.path.clone()).collect();
        let gone = self.files.keys().filter(|path| !there.contains(*path));
        let Some(any) = files.first().map(|change| change.blob) else {
            return Ok(files);
        };
        files.extend(gone.map(|path| Change {
            path: path.clone(),
            kind: ChangeKind::Deleted,
            blob: any,
        }));
        Ok(files)
    }

    /// Returns every kind that Git mentions.
    pub(super) fn kinds(&self) -> BTreeSet<Gvk> {
        self.set
            .definitions()
            .map(|manifest| manifest.gvk.clone())
            .collect()
    }

    pub(super) fn mentions(&self, key: &ObjectKey) -> bool {
        self.set.mentions(key)
    }

    /// Returns whether something could not be read: then what is missing here may well be wanted.
    pub(super) fn has_gaps(&self) -> bool {
        self.files.values().any(|file| file.frozen)
    }

    pub(super) fn problems(&self) -> Vec<Problem> {
        let unread = self.files.values().filter_map(|file| file.unread.clone());
        let errors = self.set.errors().map(|error| Problem {
            message: error.to_string(),
            hint: error.hint(),
            at: Some(error.location.clone()),
        });
        let duplicates = self.set.duplicates().into_iter().map(|duplicate| Problem {
            message: duplicate.to_string(),
            hint: Some("remove one of them; until then neither is applied".to_owned()),
            at: Some(duplicate.again),
        });
        unread.chain(errors).chain(duplicates).collect()
    }

    /// Puts every object into the namespace that it goes to, and says which objects can't be placed.
    pub(super) fn place(&self, kinds: &Kinds) -> Placed {
        let mut placed = Placed::default();
        for manifest in self.set.iter() {
            match self.in_place(manifest, kinds) {
                Ok(manifest) => {
                    if let Some(other) = placed.objects.get(&manifest.key) {
                        let why = format!("it is defined at {} too", other.source);
                        placed.refused.push((manifest, why));
                    } else {
                        placed.objects.insert(manifest.key.clone(), manifest);
                    }
                }
                Err(why) => placed.refused.push((Arc::clone(manifest), why)),
            }
        }
        let frozen = self
            .files
            .values()
            .filter(|file| file.frozen)
            .flat_map(|file| &file.keys);
        placed.frozen = frozen.map(|key| self.placed_key(key, kinds)).collect();
        placed
    }

    fn in_place(&self, manifest: &Arc<Manifest>, kinds: &Kinds) -> Result<Arc<Manifest>, String> {
        let Some(served) = kinds.of(&manifest.gvk) else {
            return Ok(Arc::clone(manifest));
        };
        match (served.namespaced, &manifest.key.namespace) {
            (true, Some(_)) | (false, None) => Ok(Arc::clone(manifest)),
            (false, Some(_)) => Ok(Arc::new(Manifest::clone(manifest).in_namespace(None))),
            (true, None) => match &self.selection.namespace {
                Some(namespace) => Ok(Arc::new(Manifest::clone(manifest).in_namespace(Some(namespace)))),
                None => Err("it has no metadata.namespace".to_owned()),
            },
        }
    }

    /// Returns the key under which a written one is found in the cluster.
    pub(super) fn placed_key(&self, key: &ObjectKey, kinds: &Kinds) -> ObjectKey {
        let namespace = match kinds.of_key(key) {
            Some(served) if !served.namespaced => None,
            Some(_) => key.namespace.clone().or_else(|| self.selection.namespace.clone()),
            None => key.namespace.clone(),
        };
        ObjectKey {
            namespace,
            ..key.clone()
        }
    }
}

fn read(
    change: &Change,
    bytes: Result<Vec<u8>, repo::Error>,
    limits: &manifest::Limits,
) -> (String, Parsed, Option<Problem>) {
    let path = change.path.clone();
    match bytes {
        Ok(bytes) => {
            let blob = change.blob.to_string();
            let parsed = manifest::parse(manifest::Source::new(&path).blob(&blob), &bytes, limits);
            (path, parsed, None)
        }
        Err(error) => {
            let at = Location {
                path: path.clone(),
                line: 1,
                column: 1,
            };
            let problem = Problem {
                message: error.to_string(),
                hint: None,
                at: Some(at),
            };
            (path, Parsed::default(), Some(problem))
        }
    }
}

/// The objects of a revision by where they go.
#[derive(Debug, Default)]
pub(super) struct Placed {
    pub(super) objects: BTreeMap<ObjectKey, Arc<Manifest>>,
    pub(super) refused: Vec<(Arc<Manifest>, String)>,
    pub(super) frozen: BTreeSet<ObjectKey>,
}

impl Placed {
    /// Returns whether Git wants an object, or may want it for all that could be read.
    pub(super) fn may_want(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
            || self.frozen.contains(key)
            || self.refused.iter().any(|(manifest, _)| manifest.key == *key)
    }
}

/// How the kinds in Git are served.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    served: BTreeMap<Gvk, Served>,
    /// Kinds of which that could not be found out.
    pub(super) unknown: BTreeMap<Gvk, String>,
}

impl Kinds {
    /// Finds out; asks only for what isn't known.
    pub(super) async fn find_out(cluster: &Cluster, kinds: BTreeSet<Gvk>) -> Self {
        let mut found = Self::default();
        for gvk in kinds {
            match cluster.lookup(&gvk).await {
                Ok(Lookup::Served(served)) => {
                    found.served.insert(gvk, served);
                }
                Ok(Lookup::NotServed) => {}
                Err(error) => {
                    found.unknown.insert(gvk, error.to_string());
                }
            }
        }
        found
    }

    /// Returns whether each of these kinds is known to be served.
    pub(super) fn are_all_known(&self, kinds: &BTreeSet<Gvk>) -> bool {
        kinds.iter().all(|gvk| self.served.contains_key(gvk))
    }

    fn of(&self, gvk: &Gvk) -> Option<&Served> {
        self.served.get(gvk)
    }

    fn of_key(&self, key: &ObjectKey) -> Option<&Served> {
        self.served
            .values()
            .find(|served| served.gvk.group == key.group && served.gvk.kind == key.kind)
    }
}
