//! Whether a revision is within the budget, the files of all syncs together. Each sync gets the same answer, before it takes
//! anything in: no revision is in force for one sync and too much for another.
//!
//! The answer follows from the revision, the settings and the limits alone. What a file can come to at most is told from its
//! bytes; files are parsed for it only where that might be too much.

use std::collections::BTreeMap;
use std::time::Instant;

use futures::{StreamExt, TryStreamExt};
use tokio_util::sync::CancellationToken;

use super::Selection;
use super::batches::{READERS, batches, sizes};
use cutover_base::budget::{Budget, Exceeded, Limit, Size};
use cutover_core::manifest::{Source, parse_while};
use cutover_git::{self as repo, BlobId, Change, ChangeKind, Repo};
use cutover_karmada::name::Revision;

/// What is known of the size of everything that the syncs of a repository read.
#[derive(Debug, Default)]
pub struct Whole {
    answer: Option<(Revision, Option<Exceeded>)>,
    /// The revision whose files these are.
    at: Option<Revision>,
    files: BTreeMap<String, File>,
}

#[derive(Clone, Copy, Debug)]
struct File {
    blob: BlobId,
    /// What it is, or what it is at most.
    size: Size,
    is_exact: bool,
}

/// Returns an error if everything that the syncs read of a revision is too much together.
pub(super) async fn check(
    repo: &Repo,
    selection: &Selection,
    to: &Revision,
    stop: &CancellationToken,
) -> Result<(), repo::Error> {
    // One sync counts by itself what it reads.
    if selection.config.syncs.len() < 2 {
        return Ok(());
    }
    let mut kept = selection.whole.lock().await;
    // What took too long may have been slowed down by others.
    let is_late = |it: Option<Exceeded>| it.is_some_and(|it| it.limit == Limit::RevisionSeconds);
    let known = kept.answer.as_ref().filter(|(of, it)| of == to && !is_late(*it));
    let exceeded = match known {
        Some((_, exceeded)) => *exceeded,
        None => {
            // Whoever is interrupted leaves nothing that is half of one revision and half of another.
            let mut whole = std::mem::take(&mut *kept);
            let exceeded = whole.advance(repo, selection, to, stop).await?;
            if is_late(exceeded) {
                whole = Whole::default();
            }
            whole.answer = Some((to.clone(), exceeded));
            *kept = whole;
            exceeded
        }
    };
    drop(kept);
    exceeded.map_or(Ok(()), |exceeded| Err(exceeded.into()))
}

impl Whole {
    /// Goes on to a revision; returns what there is too much of.
    async fn advance(
        &mut self,
        repo: &Repo,
        selection: &Selection,
        to: &Revision,
        stop: &CancellationToken,
    ) -> Result<Option<Exceeded>, repo::Error> {
        const ALL: [&str; 0] = [];
        let changes = match repo.changed(self.at.take(), to.clone(), &ALL).await {
            Err(repo::Error::UnknownRevision(_)) => {
                self.files.clear();
                repo.files(to.clone(), &ALL).await?
            }
            changes => changes?,
        };
        let is_read = |change: &Change| {
            change.kind != ChangeKind::Deleted && selection.config.sync_of(&change.path).is_some()
        };
        let (new, gone): (Vec<_>, Vec<_>) = changes.files.into_iter().partition(is_read);
        for change in gone {
            self.files.remove(&change.path);
        }
        for path in changes.skipped.iter().map(|skipped| &skipped.path) {
            self.files.remove(path);
        }
        let exceeded = self.measure(repo, new, stop).await?;
        self.at = Some(to.clone());
        Ok(exceeded)
    }

    /// Takes new files in; returns what there is too much of.
    async fn measure(
        &mut self,
        repo: &Repo,
        new: Vec<Change>,
        stop: &CancellationToken,
    ) -> Result<Option<Exceeded>, repo::Error> {
        let budget = *repo.budget();
        let bytes = sizes(repo, &new).await?;
        for (change, bytes) in new.iter().zip(&bytes) {
            // Until it is looked at, it may be anything.
            let file = File {
                blob: change.blob,
                size: at_most(FileContent::Unread(*bytes), &budget),
                is_exact: *bytes == 0,
            };
            self.files.insert(change.path.clone(), file);
        }
        // One content may have any number of names: what they come to is known before any of it is read.
        let size = self.size();
        for (limit, amount) in [
            (Limit::RevisionFiles, size.files),
            (Limit::RevisionBytes, size.bytes),
        ] {
            if let Err(exceeded) = budget.check(limit, amount) {
                return Ok(Some(exceeded));
            }
        }
        if budget.check_size(&size).is_ok() {
            return Ok(None);
        }
        let measure = move |_: &Change, bytes: &[u8]| at_most(FileContent::Text(bytes), &budget);
        let late = self.look(repo, new, stop, false, measure).await?;
        if late.is_some() || budget.check_size(&self.size()).is_ok() {
            return Ok(late);
        }
        let unsure = self.files.iter().filter(|(_, file)| !file.is_exact);
        let unsure = unsure.map(|(path, file)| Change {
            path: path.clone(),
            kind: ChangeKind::Added,
            blob: file.blob,
        });
        let unsure: Vec<_> = unsure.collect();
        let goes_on = stop.clone();
        let exactly = move |file: &Change, bytes: &[u8]| {
            let goes_on = || !goes_on.is_cancelled();
            parse_while(Source::new(&file.path), bytes, &budget, &goes_on).size
        };
        let late = self.look(repo, unsure, stop, true, exactly).await?;
        Ok(late.or_else(|| budget.check_size(&self.size()).err()))
    }

    /// Takes in what is made of files that are read for it.
    async fn look(
        &mut self,
        repo: &Repo,
        files: Vec<Change>,
        stop: &CancellationToken,
        is_exact: bool,
        size: impl Fn(&Change, &[u8]) -> Size + Clone + Send + 'static,
    ) -> Result<Option<Exceeded>, repo::Error> {
        let (budget, since) = (*repo.budget(), Instant::now());
        let bytes = sizes(repo, &files).await?;
        let mut batches = futures::stream::iter(batches(files, &bytes))
            .map(|files| {
                let (size, stop) = (size.clone(), stop.clone());
                let blobs = files.iter().map(|file| file.blob).collect();
                let mut files = files.into_iter();
                repo.read_each(blobs, move |bytes| {
                    let Some(file) = files.next().filter(|_| !stop.is_cancelled()) else {
                        return Ok(None);
                    };
                    let size = match bytes {
                        Ok(bytes) => size(&file, &bytes),
                        // What is committed so that nobody reads it has no objects.
                        Err(error) if error.is_of_content() => size(&file, &[]),
                        Err(error) => return Err(error),
                    };
                    Ok(Some((file.path, size)))
                })
            })
            .buffered(READERS);
        while let Some(sizes) = batches.try_next().await? {
            if stop.is_cancelled() {
                return Err(repo::Error::Interrupted);
            }
            for measured in sizes {
                let Some((path, size)) = measured? else { continue };
                if let Some(file) = self.files.get_mut(&path) {
                    let bytes = file.size.bytes;
                    file.size = Size {
                        files: 1,
                        bytes,
                        ..size
                    };
                    file.is_exact = is_exact;
                }
            }
            if since.elapsed() > budget.time() {
                return Ok(Some(budget.exceeded(Limit::RevisionSeconds)));
            }
        }
        Ok(None)
    }

    fn size(&self) -> Size {
        self.files
            .values()
            .fold(Size::default(), |all, file| all + file.size)
    }
}

/// What has been seen of a file.
#[derive(Clone, Copy)]
enum FileContent<'a> {
    /// Only how many bytes it has.
    Unread(usize),
    Text(&'a [u8]),
}

/// Returns what a file comes to at most. It costs a look at each byte, a small part of what it costs to parse them.
fn at_most(content: FileContent<'_>, budget: &Budget) -> Size {
    let (bytes, marks, copies, kinds) = match content {
        FileContent::Unread(bytes) => (bytes, bytes, budget.of(Limit::FileCopies), bytes),
        FileContent::Text(text) => {
            // Before each value, and between a key and its value, is one of these, but for the first.
            let is_mark = |byte: &&u8| matches!(byte, b':' | b',' | b'-' | b'[' | b'{' | b'?' | b'\n');
            let marks = text.iter().filter(is_mark).count();
            let copies = if text.contains(&b'*') {
                budget.of(Limit::FileCopies)
            } else {
                0
            };
            // An object names its kind, unless that is copied, or spelled by escapes.
            let kinds = match (copies, text.contains(&b'\\')) {
                (0, false) => text.windows(4).filter(|word| word == b"kind").count(),
                _ => text.len(),
            };
            (text.len(), marks, copies, kinds)
        }
    };
    // A file that has nothing is one null.
    let values = (2 * (marks + 1) + copies).min(budget.of(Limit::FileValues).saturating_add(1));
    Size {
        files: 1,
        bytes,
        // An object is a mapping with an apiVersion, a kind and a name.
        objects: kinds.min(values / 4),
        values,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use cutover_core::manifest::parse;

    fn is_bounded(text: &str) {
        let budget = Budget::default();
        let exact = parse(Source::new("a.yaml"), text.as_bytes(), &budget).size;
        let most = at_most(FileContent::Text(text.as_bytes()), &budget);
        let blind = at_most(FileContent::Unread(text.len()), &budget);
        for most in [most, blind] {
            assert!(
                exact.values <= most.values,
                "{} > {}: {text:?}",
                exact.values,
                most.values
            );
            assert!(
                exact.objects <= most.objects,
                "{} > {}: {text:?}",
                exact.objects,
                most.objects
            );
        }
    }

    #[test]
    fn no_file_comes_to_more_than_it_looks_like() {
        let object = "apiVersion: v1\nkind: A\nmetadata: {name: a}\n";
        for text in [
            "",
            "a",
            object,
            &[object; 50].join("---\n"),
            "- - - - a\n- - b\n",
            "{a, b, c: {d, e}}",
            "[[[[]]], [a: b, c: d], ,]",
            "? a\n? b\n? {c: d}\n",
            ": a\n",
            "{\"apiVersion\":\"v1\",\"\\u006bind\":\"A\",\"metadata\":{\"name\":\"a\"}}",
            "apiVersion: v1\nkind: List\nitems: [&a {apiVersion: v1, kind: A, metadata: {name: a}}, *a, *a, *a, *a]\n",
            "a: &a {apiVersion: v1, kind: A}\n---\n",
            "x: &x {k: v}\ny: {<<: *x, z: *x}\n",
            "a: |\n  kind: x\n  kind: y\n",
        ] {
            is_bounded(text);
        }
    }

    proptest! {
        #[test]
        fn whatever_it_is(text in "([-:,?*&|>{}\\[\\]\"'# \n]|a|k|kind: |apiVersion: v1\n|name: a|\n- |: |---\n){0,60}") {
            is_bounded(&text);
        }
    }
}
