//! The files of a branch as they were read last: a new revision costs the files that it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use super::desired::Selection;
use super::placed::Written;
use super::report::Problem;
use crate::cluster::Outcome;
use crate::manifest::{self, Entries, Entry, Packer, Set, Shelf};
use crate::name::{Gvk, Location, ObjectKey, Revision};
use crate::repo::{self, BlobId, Change, ChangeKind, Changes, Repo, Skipped};

/// How many files are read with one handle of the mirror, one after the other.
const BATCH: usize = 512;
/// How many batches are read at a time.
const READERS: usize = 2;

#[derive(Debug)]
pub(super) struct Source {
    pub(super) repo: Repo,
    pub(super) selection: Selection,
    pub(super) revision: Option<Revision>,
    pub(super) set: Set<Entry>,
    /// Files that could not be read in full.
    frozen: BTreeMap<String, Frozen>,
}

/// A file that could not be read in full: its objects, as they were before too, are left alone.
#[derive(Debug, Default)]
struct Frozen {
    keys: BTreeSet<ObjectKey>,
    unread: Option<Problem>,
}

/// What a file gave, and why it could not be read at all.
type Content = (String, Entries, Option<Problem>);

impl Source {
    pub(super) fn new(repo: Repo, selection: Selection) -> Self {
        Self {
            repo,
            selection,
            revision: None,
            set: Set::default(),
            frozen: BTreeMap::new(),
        }
    }

    /// Reads what a revision changes; returns every definition that it takes away or adds. Says of every kind that it
    /// comes across, as soon as it does.
    pub(super) async fn advance(
        &mut self,
        to: &Revision,
        met: impl Fn(&Gvk) + Send,
    ) -> Result<Vec<Arc<Entry>>, repo::Error> {
        let paths = &self.selection.paths;
        let changes = match self.repo.changed(self.revision.clone(), to.clone(), paths).await {
            Ok(changes) => changes,
            // A forced push took the old revision away: everything is compared by name.
            Err(repo::Error::UnknownRevision(_)) => self.all(to).await?,
            Err(error) => return Err(error),
        };
        let (gone, new): (Vec<_>, Vec<_>) = changes
            .files
            .into_iter()
            .filter(|change| self.selection.owns(&change.path))
            .partition(|change| change.kind == ChangeKind::Deleted);
        let contents = self.read(new, met).await?;
        let skipped: Vec<Skipped> = changes
            .skipped
            .into_iter()
            .filter(|skipped| self.selection.misses(skipped))
            .collect();
        // Before anything is forgotten: what a folder defined that is a link now counts as wanted.
        let covered: Vec<_> = skipped
            .iter()
            .map(|skipped| self.keys_at(&skipped.path))
            .collect();
        let mut touched = Vec::new();
        let gone = gone.into_iter().map(|change| change.path);
        for path in changes.cleared.into_iter().chain(gone) {
            touched.extend(self.set.remove(&path));
            self.frozen.remove(&path);
        }
        for content in contents {
            touched.extend(self.take_in(content));
        }
        for (Skipped { path, why, .. }, keys) in skipped.into_iter().zip(covered) {
            touched.extend(self.set.take_in(&path, Entries::unreadable(&path, why)));
            self.frozen.insert(path, Frozen { keys, unread: None });
        }
        self.revision = Some(to.clone());
        Ok(touched)
    }

    /// Returns what a path and everything below it defines, or defined when it could be read.
    fn keys_at(&self, path: &str) -> BTreeSet<ObjectKey> {
        let files = std::iter::once(path).chain(self.set.files_in(path));
        let objects = files.flat_map(|file| self.set.file(file));
        let mut keys: BTreeSet<ObjectKey> = objects.map(|entry| entry.key.clone()).collect();
        let below = format!("{path}/");
        let frozen = self
            .frozen
            .range::<str, _>((Bound::Included(below.as_str()), Bound::Unbounded))
            .take_while(|(file, _)| file.starts_with(&below))
            .map(|(_, frozen)| frozen)
            .chain(self.frozen.get(path));
        keys.extend(frozen.flat_map(|frozen| frozen.keys.iter().cloned()));
        keys
    }

    async fn read(&self, files: Vec<Change>, met: impl Fn(&Gvk) + Send) -> Result<Vec<Content>, repo::Error> {
        let limits = self.selection.limits;
        let batches: Vec<Vec<Change>> = files.chunks(BATCH).map(<[Change]>::to_vec).collect();
        let mut batches = futures::stream::iter(batches)
            .map(|files| {
                let mut packer = Packer::default();
                let blobs = files.iter().map(|file| file.blob).collect();
                let mut files = files.into_iter();
                self.repo.read_each(blobs, move |bytes| {
                    files
                        .next()
                        .map(|file| content(&mut packer, &file, bytes, &limits))
                })
            })
            .buffered(READERS);
        let mut all = Vec::with_capacity(files.len());
        while let Some(contents) = batches.try_next().await? {
            let entries = contents
                .iter()
                .flatten()
                .flat_map(|(_, entries, _)| &entries.objects);
            let kinds: BTreeSet<&Gvk> = entries.map(|entry| &*entry.gvk).collect();
            kinds.into_iter().for_each(&met);
            all.extend(contents.into_iter().flatten());
        }
        Ok(all)
    }

    fn take_in(&mut self, (path, entries, unread): Content) -> Vec<Arc<Entry>> {
        let before = self.frozen.remove(&path);
        if unread.is_some() || !entries.errors.is_empty() {
            let mut keys = before.map_or_else(BTreeSet::new, |before| before.keys);
            keys.extend(self.set.file(&path).iter().map(|entry| entry.key.clone()));
            keys.extend(entries.objects.iter().map(|entry| entry.key.clone()));
            self.frozen.insert(path.clone(), Frozen { keys, unread });
        }
        self.set.take_in(&path, entries)
    }

    async fn all(&self, to: &Revision) -> Result<Changes, repo::Error> {
        let mut changes = self.repo.files(to.clone(), &self.selection.paths).await?;
        let there: BTreeSet<&str> = changes.files.iter().map(|change| change.path.as_str()).collect();
        let known = self.set.files().chain(self.frozen.keys().map(String::as_str));
        let gone: BTreeSet<&str> = known.filter(|path| !there.contains(path)).collect();
        changes.cleared = gone.into_iter().map(str::to_owned).collect();
        Ok(changes)
    }

    pub(super) fn written(&self) -> Written<'_> {
        Written {
            set: &self.set,
            namespace: self.selection.namespace.as_deref(),
        }
    }

    /// Returns every kind that Git mentions.
    pub(super) fn kinds(&self) -> BTreeSet<Gvk> {
        self.set.kinds().cloned().collect()
    }

    pub(super) fn mentions(&self, key: &ObjectKey) -> bool {
        self.set.mentions(key)
    }

    /// Returns whether something could not be read: then what is missing here may well be wanted.
    pub(super) fn has_gaps(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Returns the objects of files that could not be read in full, as they are written.
    pub(super) fn frozen(&self) -> impl Iterator<Item = &ObjectKey> {
        self.frozen.values().flat_map(|file| &file.keys)
    }

    /// Returns what is wrong with the files, as it is asked for.
    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        let unread = self.frozen.values().filter_map(|file| file.unread.clone());
        let errors = self.set.errors().map(|error| Problem {
            message: error.to_string(),
            hint: error.hint(),
            at: Some(error.location.clone()),
        });
        let duplicates = self.set.duplicates().map(|duplicate| Problem {
            message: duplicate.to_string(),
            hint: Some("remove one of them; until then neither is applied".to_owned()),
            at: Some(duplicate.again),
        });
        unread.chain(errors).chain(duplicates)
    }

    /// Says of failures where the field stands that the server has named: reads the files of those objects again.
    pub(super) async fn locate(&self, objects: &Shelf<Entry>, outcomes: &mut BTreeMap<ObjectKey, Outcome>) {
        let mut wanted: Vec<(BlobId, Arc<Entry>, String, &mut Location)> = Vec::new();
        for (key, outcome) in outcomes {
            let Some(entry) = objects.get(key) else { continue };
            let Some(blob) = entry.origin().blob.as_deref().and_then(|id| id.parse().ok()) else {
                continue;
            };
            for (field, at) in outcome.fields() {
                wanted.push((blob, Arc::clone(entry), field, at));
            }
        }
        let limits = self.selection.limits;
        for some in wanted.chunks_mut(BATCH) {
            let blobs = some.iter().map(|(blob, ..)| *blob).collect();
            let fields: Vec<_> = some
                .iter()
                .map(|(_, entry, field, _)| (Arc::clone(entry), field.clone()))
                .collect();
            let mut fields = fields.into_iter();
            let read = self.repo.read_each(blobs, move |bytes| {
                let (entry, field) = fields.next()?;
                place_of(&entry, &field, &bytes.ok()?, &limits)
            });
            // Without the file there is still the place where the object begins.
            for ((.., at), found) in some.iter_mut().zip(read.await.unwrap_or_default()) {
                if let Some(found) = found {
                    **at = found;
                }
            }
        }
    }
}

fn place_of(entry: &Entry, field: &str, bytes: &[u8], limits: &manifest::Limits) -> Option<Location> {
    let parsed = manifest::parse(manifest::Source::new(&entry.origin().path), bytes, limits);
    let object = parsed.objects.get(usize::try_from(entry.index()).ok()?)?;
    Some(object.key_location(field))
}

fn content(
    packer: &mut Packer,
    file: &Change,
    bytes: Result<Vec<u8>, repo::Error>,
    limits: &manifest::Limits,
) -> Content {
    let path = file.path.clone();
    match bytes {
        Ok(bytes) => {
            let blob = file.blob.to_string();
            let entries = packer.read(manifest::Source::new(&path).blob(&blob), &bytes, limits);
            (path, entries, None)
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
            (path, Entries::default(), Some(problem))
        }
    }
}
