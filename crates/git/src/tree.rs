//! What a revision holds and what differs between two: compares trees by object id and descends only into what differs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::iter::{Flatten, Peekable};
use std::option::IntoIter as OptionIter;
use std::str::FromStr;

use git2::{ObjectType, Odb, Oid, Repository, Tree, TreeEntry};

use super::blob_id::BlobId;
use super::{Error, Limits};
use cutover_base::budget::{Exceeded, Limit};
use cutover_core::config::{Shape, link_target};
use cutover_core::manifest::Obstacle;
use cutover_karmada::name::Revision;

/// No link has a longer target than a path may be.
const LINK: Limits = Limits {
    file_bytes: 4096,
    entries: 0,
    depth: 0,
    path_bytes: 0,
    received_bytes: 0,
};

/// How long a path is that counts as another entry.
const PATH_BYTES: usize = 128;

impl FromStr for BlobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let id =
            Oid::from_str(text).map_err(|_| Error::Damaged(format!("{text:?} is not the id of a blob")))?;
        Ok(Self(id))
    }
}

/// What happened to a file between two revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

/// A file that differs between two revisions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Relative to the root of the repository, with `/`.
    pub path: String,
    pub kind: ChangeKind,
    /// The new content; the old one of a deleted file.
    pub blob: BlobId,
}

/// A new entry that is not read: what it defined before, and what was below it, is not known any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub path: String,
    pub why: Obstacle,
    pub shape: Shape,
}

/// What differs between two revisions, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub files: Vec<Change>,
    pub skipped: Vec<Skipped>,
    /// Paths of entries that were skipped and are gone, or can be read now.
    pub cleared: Vec<String>,
}

/// Returns the files under `paths` (all if empty) that differ between two revisions; all of `to` if `from` is `None`.
///
/// Costs what differs times its depth. Only contents count: a changed file mode is no change.
pub(super) fn changed(
    repo: &Repository,
    limits: &Limits,
    from: Option<&Revision>,
    to: &Revision,
    paths: &[&str],
) -> Result<Changes, Error> {
    let old = from.map(|from| root(repo, from)).transpose()?;
    let new = root(repo, to)?;
    let paths: Vec<&str> = paths.iter().map(|path| path.trim_matches('/')).collect();
    let mut walk = Walk {
        repo,
        limits,
        to,
        whole: paths.is_empty() || paths.contains(&""),
        paths,
        visited: 0,
        changes: Changes::default(),
    };
    if old.as_ref().map(Tree::id) != Some(new.id()) {
        walk.directory("", 0, old.as_ref(), Some(&new))?;
    }
    let mut changes = walk.changes;
    changes.files.sort_by(|a, b| a.path.cmp(&b.path));
    changes.skipped.sort_by(|a, b| a.path.cmp(&b.path));
    changes.cleared.sort();
    Ok(changes)
}

/// Returns the content of a blob; asks for its size before reading it.
pub(super) fn read(odb: &Odb<'_>, limits: &Limits, blob: BlobId) -> Result<Vec<u8>, Error> {
    let (size, kind) = odb.read_header(blob.0)?;
    if kind != ObjectType::Blob {
        return Err(Error::NotABlob(blob));
    }
    if size > limits.file_bytes {
        return Err(Error::TooLarge {
            what: format!("blob {blob}"),
            size,
            limit: limits.file_bytes,
        });
    }
    Ok(odb.read(blob.0)?.data().to_vec())
}

/// Returns the content of a file of a tree, `None` if there is certainly no such file: a link or a folder in its place, or
/// a link above it, is an error.
pub(super) fn read_path(
    repo: &Repository,
    limits: &Limits,
    tree: &Tree<'_>,
    path: &str,
) -> Result<Option<Vec<u8>>, Error> {
    let above = path.match_indices('/').map(|(end, _)| &path[..end]);
    for folder in above {
        match entry(repo, tree, folder)? {
            None => return Ok(None),
            Some((_, kind)) => {
                if let Some(why) = kind.obstacle() {
                    return Err(Error::not_a_file(folder, why));
                }
            }
        }
    }
    match entry(repo, tree, path)? {
        None => Ok(None),
        Some((id, EntryKind::File)) => read(&repo.odb()?, limits, BlobId(id)).map(Some),
        Some((_, kind)) => Err(Error::not_a_file(
            path,
            kind.obstacle().unwrap_or(Obstacle::Folder),
        )),
    }
}

/// Returns the content of a file of a revision; see [`read_path`].
pub(super) fn read_at(
    repo: &Repository,
    limits: &Limits,
    revision: &Revision,
    path: &str,
) -> Result<Option<Vec<u8>>, Error> {
    read_path(repo, limits, &root(repo, revision)?, path)
}

/// Returns whether a revision has something at a path.
pub(super) fn has(repo: &Repository, revision: &Revision, path: &str) -> Result<bool, Error> {
    Ok(entry(repo, &root(repo, revision)?, path)?.is_some())
}

pub(super) fn commit<'r>(repo: &'r Repository, revision: &Revision) -> Result<git2::Commit<'r>, Error> {
    let unknown = || Error::UnknownRevision(revision.clone());
    let id = Oid::from_str(revision.as_str()).map_err(|_| unknown())?;
    repo.find_commit(id).map_err(|_| unknown())
}

/// Returns id and kind of what is at a path. Goes step by step: libgit2 tells a missing file from a missing tree object
/// by nothing but words.
pub(super) fn entry(
    repo: &Repository,
    tree: &Tree<'_>,
    path: &str,
) -> Result<Option<(Oid, EntryKind)>, Error> {
    let mut here = (tree.id(), EntryKind::Directory);
    for name in path.split('/').filter(|name| !name.is_empty()) {
        if here.1 != EntryKind::Directory {
            return Ok(None);
        }
        let tree = repo.find_tree(here.0)?;
        match tree.get_name(name) {
            Some(entry) => here = (entry.id(), EntryKind::of(entry.filemode())),
            None => return Ok(None),
        }
    }
    Ok(Some(here))
}

/// Says whether two trees differ in nothing but what is in a folder.
pub(super) fn same_beside(
    repo: &Repository,
    one: &Tree<'_>,
    other: &Tree<'_>,
    folder: &[&str],
) -> Result<bool, Error> {
    let Some((first, rest)) = folder.split_first() else {
        return Ok(true);
    };
    let beside = |tree: &Tree<'_>| -> Vec<(Vec<u8>, Oid, i32)> {
        let entries = tree.iter().filter(|entry| entry.name_bytes() != first.as_bytes());
        entries
            .map(|entry| (entry.name_bytes().to_vec(), entry.id(), entry.filemode()))
            .collect()
    };
    if beside(one) != beside(other) {
        return Ok(false);
    }
    if rest.is_empty() {
        return Ok(true);
    }
    let below = |tree: &Tree<'_>| match entry(repo, tree, first)? {
        Some((id, EntryKind::Directory)) => Ok(Some(repo.find_tree(id)?)),
        Some(_) | None => Ok::<_, Error>(None),
    };
    match (below(one)?, below(other)?) {
        (Some(one), Some(other)) => same_beside(repo, &one, &other, rest),
        // The folder above it comes or goes with it, and has nothing else.
        (Some(tree), None) | (None, Some(tree)) => {
            let there = entry(repo, one, first)?.zip(entry(repo, other, first)?);
            let empty = repo.find_tree(repo.treebuilder(None)?.write()?)?;
            Ok(there.is_none() && same_beside(repo, &tree, &empty, rest)?)
        }
        (None, None) => {
            let id = |tree: &Tree<'_>| tree.get_name(first).map(|entry| entry.id());
            Ok(id(one) == id(other))
        }
    }
}

fn root<'r>(repo: &'r Repository, revision: &Revision) -> Result<Tree<'r>, Error> {
    Ok(commit(repo, revision)?.tree()?)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Directory,
    Symlink,
    Submodule,
}

impl EntryKind {
    fn of(mode: i32) -> Self {
        match mode & 0o170_000 {
            0o040_000 => Self::Directory,
            0o120_000 => Self::Symlink,
            0o160_000 => Self::Submodule,
            _ => Self::File,
        }
    }

    /// Returns why it isn't read, if for what it is.
    const fn obstacle(self) -> Option<Obstacle> {
        match self {
            Self::File | Self::Directory => None,
            Self::Symlink => Some(Obstacle::Symlink),
            Self::Submodule => Some(Obstacle::Submodule),
        }
    }
}

/// How much of a directory is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Whole,
    Partly,
    Not,
}

type Entry = (Oid, EntryKind);

struct Walk<'a> {
    repo: &'a Repository,
    limits: &'a Limits,
    to: &'a Revision,
    paths: Vec<&'a str>,
    whole: bool,
    visited: usize,
    changes: Changes,
}

impl Walk<'_> {
    fn directory(
        &mut self,
        path: &str,
        depth: usize,
        old: Option<&Tree<'_>>,
        new: Option<&Tree<'_>>,
    ) -> Result<(), Error> {
        self.count(old.map_or(0, Tree::len) + new.map_or(0, Tree::len))?;
        for (name, old, new) in differences(old, new) {
            self.entry(path, depth, &name, old, new)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        parent: &str,
        depth: usize,
        name: &[u8],
        old: Option<Entry>,
        new: Option<Entry>,
    ) -> Result<(), Error> {
        let lossy = String::from_utf8_lossy(name);
        let path = if parent.is_empty() {
            lossy.clone().into_owned()
        } else {
            format!("{parent}/{lossy}")
        };
        let wanted = self.wanted(&path);
        if wanted == Wanted::Not {
            return Ok(());
        }
        // Paths are what is kept of a tree: one that is long counts as several.
        self.count(path.len() / PATH_BYTES)?;
        let by_name = self.limits.obstacle(name, &path, depth);
        let obstacle = |entry: Option<Entry>| {
            let (_, kind) = entry?;
            by_name.or_else(|| kind.obstacle())
        };
        if let Some((entry, why)) = new.zip(obstacle(new)) {
            let shape = self.shape(entry, parent)?;
            let path = path.clone();
            self.changes.skipped.push(Skipped { path, why, shape });
        } else if obstacle(old).is_some() {
            self.changes.cleared.push(path.clone());
        }
        if by_name.is_some() {
            return Ok(());
        }
        self.file(&path, wanted, old, new);
        let directory = |entry: Option<Entry>| match entry {
            Some((id, EntryKind::Directory)) => self.repo.find_tree(id).map(Some),
            _ => Ok(None),
        };
        let (old, new) = (directory(old)?, directory(new)?);
        if old.is_some() || new.is_some() {
            self.directory(&path, depth + 1, old.as_ref(), new.as_ref())?;
        }
        Ok(())
    }

    /// Returns what an entry that isn't read could stand for.
    fn shape(&self, (id, kind): Entry, parent: &str) -> Result<Shape, Error> {
        Ok(match kind {
            EntryKind::File => Shape::File,
            EntryKind::Directory | EntryKind::Submodule => Shape::Folder,
            EntryKind::Symlink => match self.target(id, parent)? {
                Some(EntryKind::File) => Shape::File,
                Some(EntryKind::Directory) => Shape::Folder,
                Some(_) | None => Shape::Either,
            },
        })
    }

    /// Returns what a link leads to in the same revision; `None` if that can't be told.
    fn target(&self, link: Oid, parent: &str) -> Result<Option<EntryKind>, Error> {
        let Ok(target) = read(&self.repo.odb()?, &LINK, BlobId(link)) else {
            return Ok(None);
        };
        let target = std::str::from_utf8(&target).ok();
        let Some(path) = target.and_then(|target| link_target(parent, target)) else {
            return Ok(None);
        };
        Ok(entry(self.repo, &root(self.repo, self.to)?, &path)?.map(|(_, kind)| kind))
    }

    fn file(&mut self, path: &str, wanted: Wanted, old: Option<Entry>, new: Option<Entry>) {
        if wanted != Wanted::Whole {
            return;
        }
        let blob = |entry: Option<Entry>| match entry {
            Some((id, EntryKind::File)) => Some(BlobId(id)),
            _ => None,
        };
        let change = match (blob(old), blob(new)) {
            (None, None) => None,
            (None, Some(blob)) => Some((ChangeKind::Added, blob)),
            (Some(blob), None) => Some((ChangeKind::Deleted, blob)),
            (Some(_), Some(blob)) => Some((ChangeKind::Modified, blob)),
        };
        if let Some((kind, blob)) = change {
            self.changes.files.push(Change {
                path: path.to_owned(),
                kind,
                blob,
            });
        }
    }

    fn wanted(&self, path: &str) -> Wanted {
        let inside = |path: &str, directory: &str| {
            path.strip_prefix(directory)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if self.whole || self.paths.iter().any(|wanted| inside(path, wanted)) {
            Wanted::Whole
        } else if self.paths.iter().any(|wanted| inside(wanted, path)) {
            Wanted::Partly
        } else {
            Wanted::Not
        }
    }

    /// Counts what is visited, not what is found: a small repository can hold the same tree a billion times.
    fn count(&mut self, entries: usize) -> Result<(), Error> {
        self.visited += entries;
        if self.visited > self.limits.entries {
            let (limit, allowed) = (Limit::RevisionEntries, self.limits.entries);
            return Err(Exceeded { limit, allowed }.into());
        }
        Ok(())
    }
}

/// What is under a name in one tree and in another. A file and a directory of the same name are two things.
type Difference = (Vec<u8>, Option<Entry>, Option<Entry>);

/// By name, and whether it is a directory.
type ByName = BTreeMap<(Vec<u8>, bool), (Option<Entry>, Option<Entry>)>;

/// Returns in which entries two trees differ: goes through both side by side, as Git keeps them in order.
fn differences(old: Option<&Tree<'_>>, new: Option<&Tree<'_>>) -> Vec<Difference> {
    let mut found = Vec::new();
    let (mut olds, mut news) = (Ordered::of(old), Ordered::of(new));
    loop {
        let order = match (olds.entries.peek(), news.entries.peek()) {
            (None, None) => return found,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => compare(old, new),
        };
        let before = if order.is_le() { olds.next() } else { None };
        let after = if order.is_ge() { news.next() } else { None };
        if !(olds.in_order && news.in_order) {
            return differences_by_name(old, new);
        }
        if before != after {
            let side = if after.is_some() { &news } else { &olds };
            let name = side.last.as_ref().map(|entry| entry.name_bytes().to_vec());
            found.push((name.unwrap_or_default(), before, after));
        }
    }
}

/// The same of trees that somebody wrote by hand, in no order.
fn differences_by_name(old: Option<&Tree<'_>>, new: Option<&Tree<'_>>) -> Vec<Difference> {
    let mut entries = ByName::new();
    for entry in old.into_iter().flatten() {
        let key = (entry.name_bytes().to_vec(), is_directory(&entry));
        entries.entry(key).or_default().0 = Some(what(&entry));
    }
    for entry in new.into_iter().flatten() {
        let key = (entry.name_bytes().to_vec(), is_directory(&entry));
        entries.entry(key).or_default().1 = Some(what(&entry));
    }
    let differing = entries.into_iter().filter(|(_, (old, new))| old != new);
    differing
        .map(|((name, _), (old, new))| (name, old, new))
        .collect()
}

/// The entries of a tree, and whether they came in order so far.
struct Ordered<'t> {
    entries: Peekable<Flatten<OptionIter<&'t Tree<'t>>>>,
    last: Option<TreeEntry<'t>>,
    in_order: bool,
}

impl<'t> Ordered<'t> {
    fn of(tree: Option<&'t Tree<'t>>) -> Self {
        Self {
            entries: tree.into_iter().flatten().peekable(),
            last: None,
            in_order: true,
        }
    }

    fn next(&mut self) -> Option<Entry> {
        let next = self.entries.next()?;
        self.in_order &= self.last.as_ref().is_none_or(|last| compare(last, &next).is_lt());
        Some(what(self.last.insert(next)))
    }
}

/// Compares two entries as Git does: a directory as if its name ended with a `/`.
fn compare(one: &TreeEntry<'_>, other: &TreeEntry<'_>) -> Ordering {
    let (one_name, other_name) = (one.name_bytes(), other.name_bytes());
    let common = one_name.len().min(other_name.len());
    let end = |entry, name: &[u8]| match name.get(common) {
        Some(byte) => Some(*byte),
        None => is_directory(entry).then_some(b'/'),
    };
    one_name[..common]
        .cmp(&other_name[..common])
        .then_with(|| end(one, one_name).cmp(&end(other, other_name)))
        // What is equal so far is only longer.
        .then_with(|| one_name.len().cmp(&other_name.len()))
}

fn is_directory(entry: &TreeEntry<'_>) -> bool {
    EntryKind::of(entry.filemode()) == EntryKind::Directory
}

fn what(entry: &TreeEntry<'_>) -> Entry {
    (entry.id(), EntryKind::of(entry.filemode()))
}

#[cfg(test)]
mod tests;
