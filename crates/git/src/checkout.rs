//! A person's working copy: commits one file there as `git commit` would, and pushes as `git push` would.
//!
//! It never stages, commits or overwrites anything else: where that could happen, it refuses and says what to do. Blocking.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{ErrorCode, Oid, Repository, RepositoryState, Signature, Status};
use tokio_util::sync::CancellationToken;

use super::remote::{Access, Push};
use super::url::scrub;
use super::{Credentials, Error, Limits, Message, RemoteUrl, local, log, loose};
use cutover_core::error::Kind;
use cutover_karmada::name::Revision;

/// For one conversation with the remote as a whole.
const TIMEOUT: Duration = Duration::from_mins(2);

/// A working copy on this machine.
pub struct Checkout {
    repo: Repository,
    root: PathBuf,
}

impl std::fmt::Debug for Checkout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Checkout").field(&self.root).finish()
    }
}

/// Why nothing was committed or pushed.
#[derive(Debug, thiserror::Error)]
pub enum CheckoutError {
    #[error("{} is not in a working copy of a Git repository", .0.display())]
    NotThere(PathBuf),
    #[error("{0} is under way in the working copy")]
    Busy(&'static str),
    #[error("HEAD is on no branch")]
    Detached,
    #[error("{0} is staged for the next commit already")]
    Staged(String),
    #[error("{0} has changes that are not committed")]
    Dirty(String),
    #[error("{0} is ignored by .gitignore")]
    Ignored(String),
    #[error("Git doesn't know who you are")]
    NoIdentity,
    #[error("commit.gpgSign is set, and cutover can't sign commits")]
    Signs,
    #[error("branch {0} has no upstream to push to")]
    NoUpstream(String),
    #[error("the working copy has no remote")]
    NoRemote,
    #[error("branch {0} has commits at the remote that are not here")]
    Behind(String),
    #[error("the remote refuses pushes to branch {branch}: {reason}")]
    Refused { branch: String, reason: String },
    #[error("Git: {0}")]
    Git(String),
    #[error(transparent)]
    Repo(#[from] Error),
}

impl CheckoutError {
    const fn kind(&self) -> Kind {
        match self {
            Self::Repo(error) => error.kind(),
            Self::Behind(_) => Kind::Conflict,
            Self::Refused { .. } => Kind::Auth,
            _ => Kind::User,
        }
    }

    const fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotThere(_) => {
                "name a clone of the repository with -C, or only write the file with --no-commit"
            }
            Self::Busy(_) => "end it first, or only write the file with --no-commit",
            Self::Detached => "switch to the branch that the reconciler follows: git switch main",
            Self::Staged(_) => {
                "commit it or take it back (git restore --staged .), or only write the file with --no-commit"
            }
            Self::Dirty(_) => "commit or stash your changes of that file first: git stash push",
            Self::Ignored(_) => "name another file with --file",
            Self::NoIdentity => "set git config user.name and git config user.email",
            Self::Signs => "write the file with --no-commit, and commit it with git",
            Self::NoUpstream(_) => "the commit is made; git push -u origin HEAD",
            Self::NoRemote => "name one: git remote add origin URL",
            Self::Behind(_) => "the commit is made; git pull --rebase, then git push",
            Self::Refused { .. } => "the commit is made; push it to another branch and open a pull request",
            Self::Git(_) => return None,
            Self::Repo(error) => return error.hint(),
        })
    }
}

impl From<CheckoutError> for cutover_core::error::Error {
    fn from(error: CheckoutError) -> Self {
        let mapped = Self::new(error.kind(), error.to_string());
        match error.hint() {
            Some(hint) => mapped.hint(hint),
            None => mapped,
        }
    }
}

impl From<git2::Error> for CheckoutError {
    fn from(error: git2::Error) -> Self {
        Self::Git(scrub(error.message()))
    }
}

type Result<T> = std::result::Result<T, CheckoutError>;

/// Where the checked-out branch is pushed to.
struct Upstream {
    remote: String,
    branch: String,
}

/// Returns the paths under a directory where its Git repository has submodules, checked out or not. None where there is no
/// repository.
pub fn submodules(dir: &Path) -> BTreeSet<String> {
    const LINK: u32 = 0o160_000;
    let found = || {
        let repo = local::discover(dir).ok()?;
        let root = repo.workdir()?.canonicalize().ok()?;
        let here = dir.canonicalize().ok()?;
        let prefix = here.strip_prefix(root).ok()?.to_str()?.to_owned();
        let index = repo.index().ok()?;
        let links = index.iter().filter(|entry| entry.mode == LINK);
        let paths = links.filter_map(|entry| String::from_utf8(entry.path).ok());
        Some(
            paths
                .filter_map(|path| {
                    let rest = path.strip_prefix(&prefix)?;
                    Some(rest.strip_prefix('/').unwrap_or(rest).to_owned())
                })
                .collect(),
        )
    };
    found().unwrap_or_default()
}

impl Checkout {
    /// Finds the working copy that a directory is in.
    pub fn find(dir: &Path) -> Result<Self> {
        let not_there = || CheckoutError::NotThere(dir.to_owned());
        let repo = match local::discover(dir) {
            Err(error) if loose::is_about_a_file(&error) => return Err(error.into()),
            found => found.map_err(|_| not_there())?,
        };
        let root = repo.workdir().ok_or_else(not_there)?.to_owned();
        Ok(Self { repo, root })
    }

    /// Returns the directory with all its files.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the branch that is checked out.
    pub fn branch(&self) -> Result<String> {
        let head = self.repo.find_reference("HEAD")?;
        let target = head.symbolic_target().ok().flatten();
        let branch = target.and_then(|name| name.strip_prefix("refs/heads/"));
        branch.map(str::to_owned).ok_or(CheckoutError::Detached)
    }

    /// Returns the name under which commits are made.
    pub fn author(&self) -> Option<String> {
        let signature = self.repo.author_from_env().ok()?;
        signature.name().ok().map(str::to_owned)
    }

    /// Checks that a commit of the file would hold that file's coming change and nothing else.
    pub fn ready(&self, path: &str) -> Result<()> {
        match self.repo.state() {
            RepositoryState::Clean => {}
            RepositoryState::Merge => return Err(CheckoutError::Busy("a merge")),
            RepositoryState::Revert | RepositoryState::RevertSequence => {
                return Err(CheckoutError::Busy("a revert"));
            }
            RepositoryState::CherryPick | RepositoryState::CherryPickSequence => {
                return Err(CheckoutError::Busy("a cherry-pick"));
            }
            RepositoryState::Bisect => return Err(CheckoutError::Busy("a bisect")),
            _ => return Err(CheckoutError::Busy("a rebase")),
        }
        local::check_head(&self.repo, &self.branch()?, Path::new(path))?;
        self.identity()?;
        if self.repo.config()?.get_bool("commit.gpgsign").unwrap_or(false) {
            return Err(CheckoutError::Signs);
        }
        let staged = self
            .repo
            .diff_tree_to_index(self.head()?.as_ref(), None, None)?
            .deltas()
            .next()
            .map(|delta| {
                delta
                    .new_file()
                    .path()
                    .unwrap_or(Path::new("something"))
                    .display()
                    .to_string()
            });
        if let Some(staged) = staged {
            return Err(CheckoutError::Staged(staged));
        }
        match self.repo.status_file(Path::new(path)) {
            Ok(Status::CURRENT) => Ok(()),
            Ok(status) if status.contains(Status::IGNORED) => Err(CheckoutError::Ignored(path.to_owned())),
            Ok(_) => Err(CheckoutError::Dirty(path.to_owned())),
            Err(error) if error.code() == ErrorCode::NotFound => {
                if self.repo.is_path_ignored(path)? {
                    return Err(CheckoutError::Ignored(path.to_owned()));
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the names of hooks that `git commit` would run, and this doesn't.
    pub fn hooks(&self) -> Vec<&'static str> {
        let configured = self
            .repo
            .config()
            .and_then(|config| config.get_path("core.hooksPath"));
        let dir = match configured {
            Ok(path) => self.root.join(path),
            Err(_) => self.repo.commondir().join("hooks"),
        };
        let mut hooks = vec!["pre-commit", "prepare-commit-msg", "commit-msg"];
        hooks.retain(|hook| dir.join(hook).exists());
        hooks
    }

    /// Commits the file as it is in the working copy, and nothing else. Call [`Checkout::ready`] before writing the file.
    pub fn commit(&self, path: &str, message: &Message) -> Result<Revision> {
        let mut index = self.repo.index()?;
        index.read(true)?;
        index.add_path(Path::new(path))?;
        let root = self.repo.find_tree(index.write_tree()?)?;
        let (author, committer) = self.identity()?;
        let parent = match self.repo.head() {
            Ok(head) => Some(head.peel_to_commit()?),
            Err(error) if error.code() == ErrorCode::UnbornBranch => None,
            Err(error) => return Err(error.into()),
        };
        let parents: Vec<_> = parent.iter().collect();
        let commit = self.repo.commit(
            Some("HEAD"),
            &author,
            &committer,
            &message.to_string(),
            &root,
            &parents,
        )?;
        index.write()?;
        Ok(log::revision(commit)?)
    }

    /// Pushes the branch to its upstream, and returns how many commits that were.
    pub fn push(&self, credentials: &Credentials) -> Result<usize> {
        let branch = self.branch()?;
        let Some(upstream) = self.upstream(&branch)? else {
            return Err(CheckoutError::NoUpstream(branch));
        };
        credentials.install()?;
        let access = Access {
            url: self.url(&upstream.remote, true)?,
            credentials: credentials.clone(),
            timeout: TIMEOUT,
            most_bytes: Limits::default().received_bytes,
            cancel: CancellationToken::new(),
        };
        let head = self.repo.head()?.peel_to_commit()?.id();
        let tip = access
            .fetch(&self.repo, &[&upstream.branch])?
            .get(&upstream.branch);
        let pushed = match tip {
            Some(tip) if tip == head => 0,
            Some(tip) if !self.repo.graph_descendant_of(head, tip)? => {
                return Err(CheckoutError::Behind(upstream.branch));
            }
            Some(tip) => self.repo.graph_ahead_behind(head, tip)?.0,
            None => self.count(head)?,
        };
        if pushed > 0 {
            match access.push(&self.repo, &upstream.branch, head, tip)? {
                Push::Done => {}
                Push::Moved => return Err(CheckoutError::Behind(upstream.branch)),
                Push::Refused(reason) => {
                    let branch = upstream.branch;
                    return Err(CheckoutError::Refused { branch, reason });
                }
            }
        }
        let tracking = format!("refs/remotes/{}/{}", upstream.remote, upstream.branch);
        self.repo.reference(&tracking, head, true, "cutover: push")?;
        Ok(pushed)
    }

    /// Returns the URL of the remote that the checked-out branch belongs to; of the only one, or `origin`, if it has none.
    pub fn remote(&self) -> Result<RemoteUrl> {
        let upstream = match self.branch() {
            Ok(branch) => self.upstream(&branch)?,
            Err(_) => None,
        };
        let name = match upstream {
            Some(upstream) => upstream.remote,
            None => {
                let remotes = self.repo.remotes()?;
                let names: Vec<&str> = remotes.iter().filter_map(|name| name.ok().flatten()).collect();
                let chosen = match names.as_slice() {
                    [only] => Some(only),
                    several => several.iter().find(|name| **name == "origin"),
                };
                (*chosen.ok_or(CheckoutError::NoRemote)?).to_owned()
            }
        };
        self.url(&name, false)
    }

    /// Returns author and committer as git finds them out: the environment comes before the configuration.
    fn identity(&self) -> Result<(Signature<'static>, Signature<'static>)> {
        let unknown = |_| CheckoutError::NoIdentity;
        let author = self.repo.author_from_env().map_err(unknown)?;
        let committer = self.repo.committer_from_env().map_err(unknown)?;
        Ok((author, committer))
    }

    fn head(&self) -> Result<Option<git2::Tree<'_>>> {
        match self.repo.head() {
            Ok(head) => Ok(Some(head.peel_to_tree()?)),
            Err(error) if error.code() == ErrorCode::UnbornBranch => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn count(&self, head: Oid) -> Result<usize> {
        let mut walk = self.repo.revwalk()?;
        walk.push(head)?;
        Ok(walk.count())
    }

    fn upstream(&self, branch: &str) -> Result<Option<Upstream>> {
        let config = self.repo.config()?.snapshot()?;
        let get = |name: &str| config.get_string(&format!("branch.{branch}.{name}")).ok();
        let (Some(remote), Some(merge)) = (get("remote"), get("merge")) else {
            return Ok(None);
        };
        let branch = merge.strip_prefix("refs/heads/").unwrap_or(&merge).to_owned();
        Ok(Some(Upstream { remote, branch }))
    }

    fn url(&self, remote: &str, to_push: bool) -> Result<RemoteUrl> {
        let found = self.repo.find_remote(remote)?;
        let text = match found.pushurl() {
            Ok(Some(url)) if to_push => url.to_owned(),
            _ => found.url().map(str::to_owned)?,
        };
        let url: RemoteUrl = text.parse()?;
        // Git takes a path from the root of the working copy.
        match url.local_path().filter(|path| path.is_relative()) {
            Some(path) => Ok(self.root.join(path).display().to_string().parse()?),
            None => Ok(url),
        }
    }
}
