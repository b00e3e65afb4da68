//! Commits files to a branch of the remote without a work tree, and never over what somebody else pushed.
//!
//! Each attempt fetches the branch, lets a callback draft files *from what is there*, commits on top and pushes by
//! compare-and-swap (see `remote`). Who loses a race drafts again from the winner's files, so no update is lost.

use std::collections::BTreeMap;

use git2::{Oid, Repository, Signature, Tree};

use super::mirror::Mirror;
use super::remote::{Push, tracking};
use super::{Branch, Error, log, tree};
use cutover_karmada::name::Revision;
use cutover_leadership::Leadership;

const FILE_MODE: i32 = 0o100_644;
const TREE_MODE: i32 = 0o040_000;
/// How a commit begins that stands for others, and what its body says.
pub(super) const SQUASHED: &str = "status: as it stood on ";
pub(super) const SQUASHED_INTO: &str =
    "commits up to then are this one. What they recorded stands in history/ and intents/.";

/// Who the commits are by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub name: String,
    pub email: String,
}

impl Default for Author {
    fn default() -> Self {
        Self {
            name: "cutover".to_owned(),
            email: "cutover@cutover.dev".to_owned(),
        }
    }
}

/// What a branch holds at the moment, for drafting the next commit from it.
pub struct Tip<'a> {
    mirror: &'a Mirror,
    repo: &'a Repository,
    revision: Option<Revision>,
    root: Option<Tree<'a>>,
    /// What is under the folder that is published to, or the root.
    tree: Option<Tree<'a>>,
}

impl Tip<'_> {
    /// Returns the last commit; `None` if the branch doesn't exist yet.
    pub fn revision(&self) -> Option<&Revision> {
        self.revision.as_ref()
    }

    /// Returns the content of a file; `None` only if it certainly isn't there.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        match &self.tree {
            Some(tree) => tree::read_path(self.repo, &self.mirror.options.limits, tree, path),
            None => Ok(None),
        }
    }
}

impl std::fmt::Debug for Tip<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tip").field(&self.revision).finish()
    }
}

/// The commit that a callback wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    pub message: Message,
    pub files: Files,
}

/// What the commit does to the files of the branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Files {
    /// Writes (`Some`) or removes (`None`) single files and leaves all others.
    Edit(BTreeMap<String, Option<Vec<u8>>>),
    /// Makes these all the files there are.
    Replace(BTreeMap<String, Vec<u8>>),
}

/// A commit message whose trailers tools can read.
///
/// ```
/// use cutover_git::{Message, Trailer};
///
/// let message = Message::new("orders: Capture -> Handoff")
///     .trailer(Trailer::Intent, "streaming/orders-to-west")
///     .trailer(Trailer::Phase, "Handoff");
/// assert_eq!(
///     message.to_string(),
///     "orders: Capture -> Handoff\n\nCutover-Intent: streaming/orders-to-west\nCutover-Phase: Handoff\n"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    subject: String,
    body: String,
    trailers: Vec<(Trailer, String)>,
}

/// What a trailer of a commit message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trailer {
    /// The source revision that the status is about.
    Revision,
    Intent,
    Phase,
    /// The branch, in a commit of a status branch that would say neither revision nor phase.
    Status,
}

impl Trailer {
    /// Returns whether only commits of a status branch have it: `cutover migrate` names an intent in commits of others.
    const fn is_of_status(self) -> bool {
        match self {
            Self::Revision | Self::Phase | Self::Status => true,
            Self::Intent => false,
        }
    }

    fn key(self) -> String {
        format!("Cutover-{self:?}")
    }
}

impl Message {
    pub fn new(subject: impl AsRef<str>) -> Self {
        Self {
            subject: one_line(subject.as_ref()),
            body: String::new(),
            trailers: Vec::new(),
        }
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<String>) -> Self {
        self.body = body.into();
        self
    }

    /// Makes sure that it can be told from other people's.
    fn of_status(self, branch: &str) -> Self {
        if self.trailers.iter().any(|(trailer, _)| trailer.is_of_status()) {
            return self;
        }
        self.trailer(Trailer::Status, branch)
    }

    /// Returns whether a message is one of a status branch, by its trailers.
    pub(super) fn is_of_status(message: &str) -> bool {
        let marks = [Trailer::Revision, Trailer::Phase, Trailer::Status].map(Trailer::key);
        let has_mark = git2::message_trailers_strs(message).is_ok_and(|trailers| {
            trailers
                .iter()
                .any(|(key, _)| marks.iter().any(|mark| mark == key))
        });
        // What commits that had grown old became before they had a trailer.
        has_mark || message.starts_with(SQUASHED) && message.contains(SQUASHED_INTO)
    }

    /// Adds a trailer; its value becomes one line, so that it can't forge another.
    #[must_use]
    pub fn trailer(mut self, trailer: Trailer, value: impl AsRef<str>) -> Self {
        self.trailers.push((trailer, one_line(value.as_ref())));
        self
    }
}

impl std::fmt::Display for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.subject)?;
        if !self.body.trim().is_empty() {
            writeln!(f, "\n{}", self.body.trim())?;
        }
        for (number, (trailer, value)) in self.trailers.iter().enumerate() {
            let separator = if number == 0 { "\n" } else { "" };
            writeln!(f, "{separator}{}: {value}", trailer.key())?;
        }
        Ok(())
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What became of a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// The branch already holds these files: nothing was committed. `None`: there is no branch, and nothing to put there.
    Unchanged(Option<Revision>),
    Pushed(Revision),
}

/// What became of one attempt.
pub(super) enum Attempt {
    Done(Published),
    /// Somebody else pushed in between.
    Moved,
}

/// What drafts a commit. It is called again, with a new tip, when somebody else was faster.
pub(super) type Drafter<'a> = dyn FnMut(&Tip<'_>) -> Result<Draft, cutover_core::error::Error> + 'a;

impl Mirror {
    pub(super) fn publish(
        &self,
        branch: Branch,
        drafter: &mut Drafter<'_>,
        leadership: &Leadership,
    ) -> Result<Attempt, Error> {
        let drafter = std::cell::RefCell::new(drafter);
        self.write(|repo| self.attempt(repo, branch, &mut **drafter.borrow_mut(), leadership))
    }

    /// Reads a file of a branch from the remote's present tip.
    pub(super) fn read_fresh(&self, branch: Branch, path: &str) -> Result<Option<Vec<u8>>, Error> {
        self.write(|repo| self.tip(repo, branch, false)?.read(path))
    }

    fn tip<'a>(
        &'a self,
        repo: &'a Repository,
        branch: Branch,
        for_publishing: bool,
    ) -> Result<Tip<'a>, Error> {
        let name = self.branch(branch);
        let tips = self.update(repo, &[name])?;
        if for_publishing && branch == Branch::Status {
            self.check_ownership(repo, &tips)?;
        }
        let commit = tips.get(name).map(|tip| repo.find_commit(tip)).transpose()?;
        let root = commit.as_ref().map(git2::Commit::tree).transpose()?;
        let tree = match (&root, self.directory(branch)) {
            (Some(root), Some(directory)) => match tree::entry(repo, root, directory)? {
                Some((id, tree::EntryKind::Directory)) => Some(repo.find_tree(id)?),
                _ => None,
            },
            (root, _) => root.clone(),
        };
        Ok(Tip {
            mirror: self,
            repo,
            revision: commit
                .as_ref()
                .map(|commit| log::revision(commit.id()))
                .transpose()?,
            root,
            tree,
        })
    }

    /// Writes a commit, signed if that is asked for.
    pub(super) fn commit(
        &self,
        repo: &Repository,
        author: &Signature<'_>,
        committer: &Signature<'_>,
        message: &str,
        tree: &Tree<'_>,
        parent: Option<&git2::Commit<'_>>,
    ) -> Result<Oid, Error> {
        let parents: Vec<_> = parent.into_iter().collect();
        let Some(key) = &self.options.signing else {
            return Ok(repo.commit(None, author, committer, message, tree, &parents)?);
        };
        let content = repo.commit_create_buffer(author, committer, message, tree, &parents)?;
        let content = String::from_utf8_lossy(&content);
        Ok(repo.commit_signed(&content, &key.sign(content.as_bytes())?, None)?)
    }

    fn attempt(
        &self,
        repo: &Repository,
        branch: Branch,
        drafter: &mut Drafter<'_>,
        leadership: &Leadership,
    ) -> Result<Attempt, Error> {
        let tip = self.tip(repo, branch, true)?;
        let folders: Vec<&str> = self
            .directory(branch)
            .map_or_else(Vec::new, |path| path.split('/').collect());
        let is_status = branch == Branch::Status;
        let branch = self.branch(branch);
        let draft = drafter(&tip).map_err(|error| Error::Draft(Box::new(error)))?;
        let tree = write_files(repo, tip.tree.as_ref(), &draft.files)?;
        let root = graft(repo, tip.root.as_ref(), &folders, tree)?;
        let old = tip.root.as_ref().map(Tree::id);
        if root == old || root.is_none() && old.is_none() {
            return Ok(Attempt::Done(Published::Unchanged(tip.revision)));
        }
        let root = match root {
            Some(root) => root,
            None => repo.treebuilder(None)?.write()?,
        };
        let parent = tip
            .revision
            .as_ref()
            .map(|revision| tree::commit(repo, revision))
            .transpose()?;
        let author = &self.options.author;
        let who = Signature::now(&author.name, &author.email)?;
        let message = if is_status {
            draft.message.of_status(branch).to_string()
        } else {
            draft.message.to_string()
        };
        let commit = self.commit(
            repo,
            &who,
            &who,
            &message,
            &repo.find_tree(root)?,
            parent.as_ref(),
        )?;
        leadership.may_publish().map_err(Error::NotPushed)?;
        match self
            .access
            .push(repo, branch, commit, parent.map(|parent| parent.id()))?
        {
            Push::Done => {
                repo.reference(&tracking(branch), commit, true, "publish")?;
                Ok(Attempt::Done(Published::Pushed(log::revision(commit)?)))
            }
            Push::Moved => Ok(Attempt::Moved),
            Push::Refused(reason) => Err(Error::Refused {
                url: self.options.url.clone(),
                branch: branch.to_owned(),
                reason,
            }),
        }
    }
}

/// Writes the trees of a commit and returns the root; `None` if it would be empty.
fn write_files(repo: &Repository, base: Option<&Tree<'_>>, files: &Files) -> Result<Option<Oid>, Error> {
    let mut edits = Edits::default();
    match files {
        Files::Edit(files) => {
            for (path, content) in files {
                edits.add(path, content.as_deref())?;
            }
            edits.write(repo, base)
        }
        Files::Replace(files) => {
            for (path, content) in files {
                edits.add(path, Some(content))?;
            }
            edits.write(repo, None)
        }
    }
}

/// Puts a tree under a folder of another one, and returns the root; `None` if that would be empty.
fn graft(
    repo: &Repository,
    base: Option<&Tree<'_>>,
    folders: &[&str],
    tree: Option<Oid>,
) -> Result<Option<Oid>, Error> {
    let Some((first, rest)) = folders.split_first() else {
        return Ok(tree);
    };
    if is_bad(first) {
        return Err(Error::BadPath(folders.join("/")));
    }
    let below = match base.and_then(|base| base.get_name(first)) {
        Some(entry) if entry.filemode() == TREE_MODE => Some(repo.find_tree(entry.id())?),
        _ => None,
    };
    let inside = graft(repo, below.as_ref(), rest, tree)?;
    let mut builder = repo.treebuilder(base)?;
    match inside {
        Some(id) => drop(builder.insert(first, id, TREE_MODE)?),
        None if builder.get(first)?.is_some() => builder.remove(first)?,
        None => {}
    }
    if builder.is_empty() {
        return Ok(None);
    }
    Ok(Some(builder.write()?))
}

/// The edits of one directory, by name.
#[derive(Default)]
struct Edits<'a>(BTreeMap<&'a str, Edit<'a>>);

enum Edit<'a> {
    Write(&'a [u8]),
    Remove,
    Inside(Edits<'a>),
}

impl<'a> Edits<'a> {
    fn add(&mut self, path: &'a str, content: Option<&'a [u8]>) -> Result<(), Error> {
        let bad = || Error::BadPath(path.to_owned());
        let mut here = &mut self.0;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            if is_bad(name) {
                return Err(bad());
            }
            if names.peek().is_none() {
                let edit = content.map_or(Edit::Remove, Edit::Write);
                return match here.insert(name, edit) {
                    None => Ok(()),
                    Some(_) => Err(bad()),
                };
            }
            match here.entry(name).or_insert_with(|| Edit::Inside(Edits::default())) {
                Edit::Inside(inside) => here = &mut inside.0,
                Edit::Write(_) | Edit::Remove => return Err(bad()),
            }
        }
        Err(bad())
    }

    /// A directory that becomes empty goes; a file in the way of a directory, or the reverse, gives way.
    fn write(&self, repo: &Repository, base: Option<&Tree<'_>>) -> Result<Option<Oid>, Error> {
        let mut builder = repo.treebuilder(base)?;
        for (name, edit) in &self.0 {
            let written = match edit {
                Edit::Write(content) => Some((repo.blob(content)?, FILE_MODE)),
                Edit::Remove => None,
                Edit::Inside(edits) => {
                    let below = match base.and_then(|base| base.get_name(name)) {
                        Some(entry) if entry.filemode() == TREE_MODE => Some(repo.find_tree(entry.id())?),
                        _ => None,
                    };
                    edits.write(repo, below.as_ref())?.map(|tree| (tree, TREE_MODE))
                }
            };
            match written {
                Some((id, mode)) => drop(builder.insert(name, id, mode)?),
                None if builder.get(name)?.is_some() => builder.remove(name)?,
                None => {}
            }
        }
        if builder.is_empty() {
            return Ok(None);
        }
        Ok(Some(builder.write()?))
    }
}

fn is_bad(name: &str) -> bool {
    matches!(name, "" | "." | "..")
        || name.eq_ignore_ascii_case(".git")
        || name.len() > 255
        || name.chars().any(|c| c.is_control() || c == '\\')
}
