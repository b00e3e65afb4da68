//! The files of a branch as they were read last: a new revision costs the files that it changes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Add, Bound};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures::{StreamExt, TryStreamExt};
use tokio_util::sync::CancellationToken;

use super::batches::{BATCH, READERS, batches, sizes};
use super::desired::Selection;
use super::placed::Written;
use super::report::Problem;
use super::whole;
use cutover_base::budget::{Exceeded, Limit, Size};
use cutover_cluster::Outcome;
use cutover_core::manifest::{self, Entries, Entry, ObjectMap, Packer, Set};
use cutover_git::{self as repo, BlobId, Change, ChangeKind, Changes, Repo, Skipped};
use cutover_karmada::name::{Gvk, Location, ObjectKey, Revision};

#[derive(Debug)]
pub(super) struct Source {
    pub(super) repo: Repo,
    pub(super) selection: Selection,
    pub(super) revision: Option<Revision>,
    pub(super) set: Set<Entry>,
    /// Files that could not be read in full.
    frozen: BTreeMap<String, Frozen>,
    /// How much the files are that define something.
    pub(super) size: Size,
    /// The newest revision, if it is more than the budget allows: the one before stays in force.
    refused: Option<(Revision, Exceeded)>,
    /// Ends reading early.
    pub(super) stop: CancellationToken,
}

/// A file that could not be read in full: its objects, as they were before too, are left alone.
#[derive(Debug, Default)]
struct Frozen {
    keys: BTreeSet<ObjectKey>,
    unread: Option<Problem>,
}

/// What has been read of a revision so far, and how long that took.
#[derive(Debug)]
struct Meter {
    budget: manifest::Limits,
    stop: CancellationToken,
    since: Instant,
    spent: Mutex<(Size, Option<Exceeded>)>,
}

impl Meter {
    fn new(repo: &Repo, stop: &CancellationToken) -> Self {
        Self {
            budget: *repo.budget(),
            stop: stop.clone(),
            since: Instant::now(),
            spent: Mutex::default(),
        }
    }

    /// Returns whether another file may be read.
    fn goes_on(&self) -> bool {
        self.check().is_ok()
    }

    /// Returns why what was read is not all there is to read.
    fn check(&self) -> Result<(), repo::Error> {
        let (_, exceeded) = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stop.is_cancelled() {
            return Err(repo::Error::Interrupted);
        }
        exceeded.map_or(Ok(()), |exceeded| Err(exceeded.into()))
    }

    fn count(&self, size: Size) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.0 = spent.0 + size;
        let late = self.since.elapsed() > self.budget.time();
        let late = late.then(|| self.budget.exceeded(Limit::RevisionSeconds));
        spent.1 = spent
            .1
            .or(late)
            .or_else(|| self.budget.check_size(&spent.0).err());
    }
}

/// What a revision changes.
#[derive(Debug)]
struct Read {
    gone: Vec<String>,
    contents: Vec<Content>,
    skipped: Vec<Skipped>,
}

impl Read {
    /// Returns how much of it is kept: what defines nothing isn't, and so gives nothing back when it goes.
    fn size(&self) -> Size {
        let contents = self.contents.iter();
        let sizes = contents.map(|(_, entries, _)| size_of(entries.objects.first()));
        sizes.fold(Size::default(), Size::add)
    }
}

/// Returns how much a file is, of which this is the first object.
fn size_of(first: Option<&Entry>) -> Size {
    first.map_or_else(Size::default, |entry| entry.origin().size)
}

/// What a file gave, and why it could not be read at all.
type Content = (String, Entries, Option<Problem>);

impl Source {
    pub(super) fn new(repo: Repo, selection: Selection) -> Self {
        Self {
            size: Size::default(),
            set: Set::default().within(repo.budget()),
            repo,
            selection,
            revision: None,
            frozen: BTreeMap::new(),
            refused: None,
            stop: CancellationToken::new(),
        }
    }

    /// Reads what a revision changes; returns every definition that it takes away or adds. Says of every kind that it
    /// comes across, as soon as it does. A revision over the budget is refused as a whole: nothing of it is taken in.
    pub(super) async fn advance(
        &mut self,
        to: &Revision,
        met: impl Fn(&Gvk) + Send,
    ) -> Result<Vec<Arc<Entry>>, repo::Error> {
        // What was too much still is; what took too long may have been slowed down by others.
        let too_much = self.refused.as_ref().filter(|(refused, _)| refused == to);
        let too_much = too_much.filter(|(_, exceeded)| exceeded.limit != Limit::RevisionSeconds);
        if let Some((_, exceeded)) = too_much {
            return Err((*exceeded).into());
        }
        let advanced = self.advance_to(to, met).await;
        self.refused = match &advanced {
            Err(repo::Error::OverBudget(exceeded)) => Some((to.clone(), *exceeded)),
            _ => None,
        };
        advanced
    }

    /// Notes that the branch is back at the revision that stayed in force; says whether it wasn't.
    pub(super) fn is_back(&mut self) -> bool {
        self.refused.take().is_some()
    }

    /// Returns the revision that stays in force because a newer one is over the budget.
    pub(super) fn in_force(&self, instead_of: &Revision) -> Option<Revision> {
        let (refused, _) = self.refused.as_ref()?;
        self.revision.clone().filter(|_| refused == instead_of)
    }

    /// Reads what a revision changes, and keeps nothing of it yet.
    async fn read_changes(&self, to: &Revision, met: impl Fn(&Gvk) + Send) -> Result<Read, repo::Error> {
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
        let sizes = self.check_sizes(&new).await?;
        let skipped = changes.skipped.into_iter();
        Ok(Read {
            gone: gone
                .into_iter()
                .map(|change| change.path)
                .chain(changes.cleared)
                .collect(),
            contents: self.read(batches(new, &sizes), met).await?,
            skipped: skipped.filter(|skipped| self.selection.misses(skipped)).collect(),
        })
    }

    async fn advance_to(
        &mut self,
        to: &Revision,
        met: impl Fn(&Gvk) + Send,
    ) -> Result<Vec<Arc<Entry>>, repo::Error> {
        let reading = async {
            whole::check(&self.repo, &self.selection, to, &self.stop).await?;
            self.read_changes(to, met).await
        };
        let read = tokio::select! {
            read = reading => read?,
            () = self.stop.cancelled() => return Err(repo::Error::Interrupted),
        };
        let size = self.size - self.size_before(&read) + read.size();
        self.repo.budget().check_size(&size)?;
        self.size = size;
        let Read {
            gone,
            contents,
            skipped,
        } = read;
        // Before anything is forgotten: what a folder defined that is a link now counts as wanted.
        let covered: Vec<_> = skipped
            .iter()
            .map(|skipped| self.keys_at(&skipped.path))
            .collect();
        let mut touched = Vec::new();
        for path in gone {
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

    /// Refuses what is too much before any of it is read: one content may have any number of names. Returns how many bytes
    /// of each file are going to be read.
    async fn check_sizes(&self, files: &[Change]) -> Result<Vec<usize>, repo::Error> {
        let budget = self.repo.budget();
        budget.check(Limit::RevisionFiles, files.len())?;
        let sizes = sizes(&self.repo, files).await?;
        let bytes = sizes.iter().copied().fold(0, usize::saturating_add);
        budget.check(Limit::RevisionBytes, bytes)?;
        Ok(sizes)
    }

    /// Returns how much of what is kept a revision takes away or replaces.
    fn size_before(&self, read: &Read) -> Size {
        let contents = read.contents.iter().map(|(path, ..)| path.as_str());
        let skipped = read.skipped.iter().map(|skipped| skipped.path.as_str());
        let gone = read.gone.iter().map(String::as_str);
        let paths: BTreeSet<&str> = contents.chain(skipped).chain(gone).collect();
        let sizes = paths
            .into_iter()
            .map(|path| size_of(self.set.file(path).first().map(|entry| &**entry)));
        sizes.fold(Size::default(), Size::add)
    }

    async fn read(
        &self,
        batches: Vec<Vec<Change>>,
        met: impl Fn(&Gvk) + Send,
    ) -> Result<Vec<Content>, repo::Error> {
        let meter = Arc::new(Meter::new(&self.repo, &self.stop));
        let count = batches.iter().map(Vec::len).sum();
        let mut batches = futures::stream::iter(batches)
            .map(|files| {
                let (mut packer, meter) = (Packer::default(), Arc::clone(&meter));
                let blobs = files.iter().map(|file| file.blob).collect();
                let mut files = files.into_iter();
                self.repo.read_each(blobs, move |bytes| {
                    let Some(file) = files.next().filter(|_| meter.goes_on()) else {
                        return Ok(None);
                    };
                    let content = content(&mut packer, &file, bytes, &meter)?;
                    meter.count(content.1.size);
                    Ok(Some(content))
                })
            })
            .buffered(READERS);
        let mut all = Vec::with_capacity(count);
        while let Some(contents) = batches.try_next().await? {
            let contents: Vec<_> = contents.into_iter().collect::<Result<_, repo::Error>>()?;
            let entries = contents
                .iter()
                .flatten()
                .flat_map(|(_, entries, _)| &entries.objects);
            let kinds: BTreeSet<&Gvk> = entries.map(|entry| &*entry.gvk).collect();
            kinds.into_iter().for_each(&met);
            meter.check()?;
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
        let refused = self.refused.iter().map(|(revision, exceeded)| Problem {
            message: format!(
                "revision {} is not applied, the one before stays in force: {exceeded}",
                revision.short()
            ),
            hint: Some(exceeded.hint()),
            at: None,
        });
        refused.chain(unread).chain(errors).chain(duplicates)
    }

    /// Returns the first problems, and how many more there are.
    pub(super) fn first_problems(&self) -> Vec<Problem> {
        let budget = self.repo.budget();
        let mut all = self.problems();
        let mut first: Vec<_> = all.by_ref().take(budget.of(Limit::RevisionFindings)).collect();
        let more = all.count();
        if more > 0 {
            first.push(Problem {
                message: format!("and {more} more problems"),
                hint: Some(budget.exceeded(Limit::RevisionFindings).hint()),
                at: None,
            });
        }
        first
    }

    /// Says of failures where the field stands that the server has named.
    pub(super) async fn locate(
        &self,
        objects: &ObjectMap<Entry>,
        outcomes: &mut BTreeMap<ObjectKey, Outcome>,
    ) {
        let mut fields = Vec::new();
        for (key, outcome) in outcomes {
            let Some(entry) = objects.get(key) else { continue };
            let named = outcome.fields().into_iter();
            fields.extend(named.map(|(field, at)| (&**entry, field, at)));
        }
        self.find(fields).await;
    }

    /// Says where fields of objects stand, as JSON pointers: reads the files of those objects again, each once.
    pub(super) async fn find(&self, fields: Vec<(&Entry, String, &mut Location)>) {
        let mut wanted: BTreeMap<(BlobId, String), Vec<Wanted<'_>>> = BTreeMap::new();
        for (entry, field, at) in fields {
            let origin = entry.origin();
            let Some(blob) = origin.blob.as_deref().and_then(|id| id.parse().ok()) else {
                continue;
            };
            let file = wanted.entry((blob, origin.path.to_string())).or_default();
            file.push(Wanted {
                index: entry.index(),
                field,
                at,
            });
        }
        let mut wanted = wanted.into_iter().peekable();
        while wanted.peek().is_some() {
            let (files, mut fields): (Vec<_>, Vec<_>) = wanted.by_ref().take(BATCH).unzip();
            let blobs = files.iter().map(|(blob, _)| *blob).collect();
            let asked: Vec<Vec<_>> = fields
                .iter()
                .map(|fields| fields.iter().map(Wanted::asked).collect())
                .collect();
            let mut files = files.into_iter().zip(asked);
            let (limits, stop) = (*self.repo.budget(), self.stop.clone());
            let read = self.repo.read_each(blobs, move |bytes| {
                let ((_, path), asked) = files.next()?;
                let goes_on = || !stop.is_cancelled();
                let parsed =
                    manifest::parse_while(manifest::Source::new(&path), &bytes.ok()?, &limits, &goes_on);
                let place = |(index, field): &(u32, String)| {
                    let object = parsed.objects.get(usize::try_from(*index).ok()?)?;
                    Some(object.key_location(field))
                };
                Some(asked.iter().map(place).collect::<Vec<_>>())
            });
            // Without the file there is still the place where the object begins.
            for (fields, found) in fields.iter_mut().zip(read.await.unwrap_or_default()) {
                for (wanted, found) in fields.iter_mut().zip(found.into_iter().flatten()) {
                    if let Some(found) = found {
                        *wanted.at = found;
                    }
                }
            }
        }
    }
}

/// A field of an object of a file, and where it is to be said where that stands.
struct Wanted<'a> {
    index: u32,
    field: String,
    at: &'a mut Location,
}

impl Wanted<'_> {
    fn asked(&self) -> (u32, String) {
        (self.index, self.field.clone())
    }
}

/// What can't be read this time and may be the next says nothing of the revision: it is an error.
fn content(
    packer: &mut Packer,
    file: &Change,
    bytes: Result<Vec<u8>, repo::Error>,
    meter: &Meter,
) -> Result<Content, repo::Error> {
    let path = file.path.clone();
    Ok(match bytes {
        Ok(bytes) => {
            let blob = file.blob.to_string();
            let source = manifest::Source::new(&path).blob(&blob);
            let entries = packer.read_while(source, &bytes, &meter.budget, &|| meter.goes_on());
            (path, entries, None)
        }
        Err(error) if !error.is_of_content() => return Err(error),
        Err(error) => {
            let at = Location {
                path: path.clone(),
                line: 1,
                column: 1,
            };
            let problem = Problem {
                message: error.to_string(),
                hint: error.hint().map(str::to_owned),
                at: Some(at),
            };
            (path, Entries::default(), Some(problem))
        }
    })
}

#[cfg(test)]
mod tests;
