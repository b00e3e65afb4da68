//! Who changed what, when and why: single commits and the history of a path, for reports.

use std::collections::{HashSet, VecDeque};

use git2::{ErrorClass, ErrorCode, ObjectType, Oid, Repository, Sort};
use jiff::Timestamp;

use super::loose::Loose;
use super::url::scrub;
use super::{Error, tree};
use cutover_karmada::name::Revision;

/// How many commits are looked at to find one that can't be read.
const MOST_SEARCHED: usize = 100_000;

/// A commit as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitInfo {
    pub revision: Revision,
    pub author: String,
    pub email: String,
    /// When it was committed; as true as the committer's clock.
    pub time: Timestamp,
    pub subject: String,
    pub body: String,
}

pub(super) fn info(repo: &Repository, revision: &Revision) -> Result<CommitInfo, Error> {
    describe(&tree::commit(repo, revision)?)
}

/// Returns the commits up to `until` and not in `since` that changed what is at `path`, newest first.
///
/// A merge counts if it differs from all its parents. Looks at no more than `limit` commits.
pub(super) fn touching(
    repo: &Repository,
    path: &str,
    since: Option<&Revision>,
    until: &Revision,
    limit: usize,
) -> Result<Vec<CommitInfo>, Error> {
    let mut walk = repo.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::TIME)?;
    walk.push(tree::commit(repo, until)?.id())?;
    if let Some(since) = since {
        walk.hide(tree::commit(repo, since)?.id())?;
    }
    let at = |commit: &git2::Commit<'_>| -> Result<Option<Oid>, Error> {
        Ok(tree::entry(repo, &commit.tree()?, path)?.map(|(id, _)| id))
    };
    let mut found = Vec::new();
    for id in walk.take(limit) {
        let commit = repo.find_commit(id?)?;
        let here = at(&commit)?;
        let mut touched = commit.parent_count() > 0 || here.is_some();
        for parent in commit.parents() {
            touched &= at(&parent)? != here;
        }
        if touched {
            found.push(describe(&commit)?);
        }
    }
    Ok(found)
}

/// Returns the newest commit that is there and says what libgit2 can't read, and what that is. libgit2 itself doesn't say
/// which one it stumbled over.
pub(super) fn unreadable(repo: &Repository, tip: Oid) -> Option<(Revision, String)> {
    let (odb, loose) = (repo.odb().ok()?, Loose::of(repo));
    let (mut next, mut seen) = (VecDeque::from([tip]), HashSet::from([tip]));
    while let Some(id) = next.pop_front() {
        // What breaks off is no commit, and has an error of its own.
        loose.check(id).ok()?;
        match readable(repo, id) {
            // A commit may name any number of parents, and one of them any number of times.
            Ok(commit) => {
                next.extend(
                    commit
                        .parent_ids()
                        .filter(|parent| seen.len() < MOST_SEARCHED && seen.insert(*parent)),
                );
            }
            Err(error) => {
                let is_there = odb
                    .read(id)
                    .is_ok_and(|object| object.kind() == ObjectType::Commit);
                if let (true, Ok(revision)) = (is_there, revision(id)) {
                    return Some((revision, scrub(error.message())));
                }
            }
        }
    }
    None
}

/// Returns whether an error comes of a commit, in the history of what a repository has, that libgit2 can't read.
pub(super) fn stumbles(repo: &Repository, error: &git2::Error) -> bool {
    let tips = repo.references().into_iter().flatten();
    tips.filter_map(|tip| tip.ok()?.target())
        .filter_map(|tip| unreadable(repo, tip))
        .any(|(_, why)| error.message().contains(&why))
}

/// Reads a commit; an error if libgit2 reads it, but gives up when it walks there.
pub(super) fn readable(repo: &Repository, id: Oid) -> Result<git2::Commit<'_>, git2::Error> {
    let commit = repo.find_commit(id)?;
    if commit.parent_count() > usize::from(u16::MAX) {
        // As libgit2 says it.
        let why = "commit has more than 2^16 parents";
        return Err(git2::Error::new(ErrorCode::Invalid, ErrorClass::Invalid, why));
    }
    Ok(commit)
}

/// What of a commit walks need, and libgit2 may refuse to read for what stands beside it.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) tree: Oid,
    pub(super) parents: Vec<Oid>,
}

impl Header {
    /// Reads it as libgit2 does; and by itself, where that fails.
    pub(super) fn of(repo: &Repository, id: Oid) -> Result<Self, git2::Error> {
        match repo.find_commit(id) {
            Ok(commit) => Ok(Self {
                tree: commit.tree_id(),
                parents: commit.parent_ids().collect(),
            }),
            Err(error) => Self::raw(repo, id).ok_or(error),
        }
    }

    /// Reads the lines that a commit begins with; `None`: there is no commit.
    pub(super) fn raw(repo: &Repository, id: Oid) -> Option<Self> {
        let odb = repo.odb().ok()?;
        let object = odb.read(id).ok()?;
        let mut lines = object.data().split(|byte| *byte == b'\n');
        let id = |line: &[u8], key: &str| {
            let line = std::str::from_utf8(line).ok()?;
            Oid::from_str(line.strip_prefix(key)?).ok()
        };
        let tree = id(lines.next()?, "tree ").filter(|_| object.kind() == ObjectType::Commit)?;
        let parents = lines.map_while(|line| id(line, "parent ")).collect();
        Some(Self { tree, parents })
    }
}

/// Says whether `old` is `new` or one of its ancestors.
pub(super) fn contains(repo: &Repository, new: Oid, old: Oid) -> Result<bool, Error> {
    Ok(new == old || repo.graph_descendant_of(new, old)?)
}

pub(super) fn revision(id: Oid) -> Result<Revision, Error> {
    id.to_string()
        .parse()
        .map_err(|_| Error::Git(format!("not a commit id: {id}")))
}

fn describe(commit: &git2::Commit<'_>) -> Result<CommitInfo, Error> {
    let author = commit.author();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let message = text(commit.message_bytes());
    let (subject, body) = message.trim().split_once('\n').unwrap_or((message.trim(), ""));
    Ok(CommitInfo {
        revision: revision(commit.id())?,
        author: text(author.name_bytes()),
        email: text(author.email_bytes()),
        time: Timestamp::from_second(commit.time().seconds()).unwrap_or_default(),
        subject: subject.trim().to_owned(),
        body: body.trim().to_owned(),
    })
}
