//! Git: a mirror of the remote, what differs between revisions, when to look, and commits on the status branch.
//!
//! [`Repo`] is the asynchronous edge; behind it everything blocks. Nothing here knows what is in the files.
//!
//! - `url`, `credentials`, `known_hosts`, `process`: where the remote is and what opens it
//! - `budget`, `relay`, `stream`: what a conversation may cost, and what ends it then
//! - `remote`, `local`, `reach`, `loose`: one conversation with it; `mirror`, `tidy`: the bare copy and its life
//! - `tree`, `log`: reading revisions; `publish`, `sign`: writing them; `retention`: forgetting them; `ownership`: which branch
//!   either may be done to; `watch`: when to fetch
//! - `checkout`: a person's working copy, without a mirror
//!
//! ```no_run
//! # async fn example() -> Result<(), cutover_git::Error> {
//! use cutover_git::{Options, Repo};
//! use tokio_util::sync::CancellationToken;
//!
//! let url = "https://git.example.com/team/fleet.git".parse()?;
//! let repo = Repo::open(Options::new(url, "main", "/var/lib/cutover"), CancellationToken::new()).await?;
//! let fetched = repo.fetch().await?;
//! let changes = repo.changed(fetched.previous, fetched.revision, &["apps", "intents"]).await?;
//! for change in &changes.files {
//!     println!("{:?} {}", change.kind, change.path);
//! }
//! # Ok(())
//! # }
//! ```

mod blob_id;
mod budget;
mod checkout;
mod clone;
mod credentials;
mod error;
mod known_hosts;
mod local;
mod log;
mod loose;
mod mirror;
mod ownership;
mod process;
mod publish;
mod reach;
#[cfg(unix)]
mod relay;
mod remote;
mod retention;
mod sign;
#[cfg(unix)]
mod stream;
mod tidy;
mod tree;
mod url;
mod watch;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use git2::Repository;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use blob_id::BlobId;
pub use checkout::{Checkout, CheckoutError, submodules};
pub use clone::{branch_tip, is_published, uncommitted};
pub use credentials::{Credentials, HttpsCredentials, SshCredentials, TOKEN_USER};
// Credentials are made of it.
pub use cutover_base::Secret;
pub use error::Error;
pub use local::{blob, discover, file, files, named};
pub use log::CommitInfo;
pub use mirror::Fetched;
pub use publish::{Author, Draft, Files, Message, Published, Tip, Trailer};
pub use retention::Squashed;
pub use sign::SigningKey;

pub use tree::{Change, ChangeKind, Changes, Skipped};
pub use url::RemoteUrl;
pub use watch::{Polling, Tick, Trigger, Watch};

use cutover_base::budget::{Budget, Exceeded, Limit};
use cutover_core::manifest::Obstacle;
use cutover_karmada::name::Revision;
use cutover_leadership::{Leadership, UnderWay};
use mirror::Mirror;
use publish::Attempt;

/// Which repository, how to reach it, and where to keep the mirror.
#[derive(Clone, Debug)]
pub struct Options {
    pub url: RemoteUrl,
    /// The branch with the desired state.
    pub branch: String,
    /// The branch that status is committed to; made when first published to. The same as `branch` only with a directory.
    pub status_branch: String,
    /// The folder of that branch under which everything is put. Of the branch that is synced, commits that change nothing
    /// else are not seen.
    pub status_directory: Option<String>,
    /// The repository is for status alone: `branch` is the status branch, too.
    pub status_only: bool,
    /// A directory for the mirror alone. Losing it costs a clone.
    pub state_dir: PathBuf,
    pub credentials: Credentials,
    pub author: Author,
    /// What commits are signed with, if they are.
    pub signing: Option<SigningKey>,
    pub limits: Limits,
    /// What all that is read of a revision may come to together.
    pub budget: Budget,
    pub retry: Retry,
    /// For one conversation with the remote as a whole; the first clone included.
    pub timeout: Duration,
    /// Where the variation of waits starts.
    pub seed: u64,
    /// Asks every watch of the repository to look now.
    pub trigger: Trigger,
}

impl Options {
    /// Sets what a revision may cost.
    #[must_use]
    pub fn within(self, budget: Budget) -> Self {
        Self {
            limits: self.limits.within(&budget),
            budget,
            ..self
        }
    }

    /// Returns options for a branch of a repository, with defaults for all else.
    pub fn new(url: RemoteUrl, branch: impl Into<String>, state_dir: impl Into<PathBuf>) -> Self {
        Self {
            url,
            branch: branch.into(),
            status_branch: "cutover/status".to_owned(),
            status_directory: None,
            status_only: false,
            state_dir: state_dir.into(),
            credentials: Credentials::default(),
            author: Author::default(),
            signing: None,
            limits: Limits::default(),
            budget: Budget::default(),
            retry: Retry::default(),
            timeout: Duration::from_mins(10),
            seed: 0,
            trigger: Trigger::default(),
        }
    }
}

/// How much of a repository is read. A hostile one costs no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of one file.
    pub file_bytes: usize,
    /// Entries of trees visited in one comparison.
    pub entries: usize,
    /// Directories below each other.
    pub depth: usize,
    pub path_bytes: usize,
    /// Received in one conversation with the remote.
    pub received_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            file_bytes: Budget::default().of(Limit::FileBytes),
            entries: Budget::default().of(Limit::RevisionEntries),
            depth: Budget::default().of(Limit::PathFolders),
            path_bytes: Budget::default().of(Limit::PathBytes),
            received_bytes: 2 << 30,
        }
    }
}

impl Limits {
    /// Returns these limits, with those of files and trees from a budget.
    #[must_use]
    pub const fn within(self, budget: &Budget) -> Self {
        Self {
            file_bytes: budget.of(Limit::FileBytes),
            entries: budget.of(Limit::RevisionEntries),
            depth: budget.of(Limit::PathFolders),
            path_bytes: budget.of(Limit::PathBytes),
            ..self
        }
    }

    /// Returns why an entry isn't read, if for its name or for where it is. `depth` is the number of folders above it.
    pub fn obstacle(&self, name: &[u8], path: &str, depth: usize) -> Option<Obstacle> {
        let Ok(name) = std::str::from_utf8(name) else {
            return Some(Obstacle::NotUtf8);
        };
        let exceeded = |limit, allowed| Exceeded { limit, allowed };
        if matches!(name, "" | "." | "..") || name.contains('/') || name.chars().any(char::is_control) {
            Some(Obstacle::BadName)
        } else if depth >= self.depth {
            Some(Obstacle::TooDeep(exceeded(Limit::PathFolders, self.depth)))
        } else if path.len() > self.path_bytes {
            Some(Obstacle::PathTooLong(exceeded(Limit::PathBytes, self.path_bytes)))
        } else {
            None
        }
    }
}

/// How long to go on when others push to the same branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    pub attempts: u32,
    /// Before the second attempt; each further wait is half as long again, and all are varied by a half.
    pub wait: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 10,
            wait: Duration::from_secs(1),
        }
    }
}

/// One of the two branches that the mirror follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    Source,
    Status,
}

/// A remote repository through its mirror. Clones share it.
#[derive(Clone, Debug)]
pub struct Repo {
    mirror: Arc<Mirror>,
    rng: Arc<Mutex<fastrand::Rng>>,
    leadership: Leadership,
    /// How many may make something of contents at a time, of all that read this repository.
    readers: Arc<Semaphore>,
    /// Whose turn it is to talk to the remote. Who waits for it holds no thread: beside a remote that drips there may be many.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// So many files are in memory at a time, with what is made of them.
const READERS: usize = 2;

impl Repo {
    /// Opens the mirror, without a word to the remote. Once `cancel` is cancelled, conversations end early.
    pub async fn open(options: Options, cancel: CancellationToken) -> Result<Self, Error> {
        let rng = fastrand::Rng::with_seed(options.seed);
        let mirror = blocking(move || Mirror::open(options, cancel)).await?;
        Ok(Self {
            mirror: Arc::new(mirror),
            rng: Arc::new(Mutex::new(rng)),
            leadership: Leadership::unbounded(),
            readers: Arc::new(Semaphore::new(READERS)),
            turn: Arc::default(),
        })
    }

    /// Returns what all that is read of a revision may come to together.
    pub fn budget(&self) -> &Budget {
        &self.mirror.options.budget
    }

    /// Pushes only during a term of leadership from now on.
    #[must_use]
    pub fn within(self, leadership: Leadership) -> Self {
        Self { leadership, ..self }
    }

    /// Begins something that whoever ends the term of leadership waits for.
    pub fn begin(&self) -> UnderWay {
        self.leadership.begin()
    }

    /// Returns the name of what is synced: the place of the repository, and the branch.
    pub fn source(&self) -> String {
        let options = &self.mirror.options;
        format!("{}@{}", options.url.place(), options.branch)
    }

    /// Brings the mirror up to the remote. Costs one round trip if nothing is new.
    pub async fn fetch(&self) -> Result<Fetched, Error> {
        let mirror = Arc::clone(&self.mirror);
        self.converse(move || mirror.fetch()).await
    }

    /// Asks the remote where a branch stands, and fetches nothing; `None`: there is no such branch.
    pub async fn remote_tip(&self, branch: impl Into<String>) -> Result<Option<Revision>, Error> {
        let (mirror, branch) = (Arc::clone(&self.mirror), branch.into());
        self.converse(move || mirror.remote_tip(&branch)).await
    }

    /// Asks the remote whether it lets this identity push, and pushes nothing. What a server decides about a single branch (protected
    /// branches, hooks) shows only when something is pushed there.
    pub async fn try_push(&self) -> Result<(), Error> {
        let mirror = Arc::clone(&self.mirror);
        self.converse(move || mirror.try_push()).await
    }

    /// Sees to it that commits can be read. [`Error::UnknownRevision`]: one is not in the history of the branch, if the
    /// repository is elsewhere, or not there at all, if it is on this machine.
    pub async fn obtain(&self, revisions: Vec<Revision>) -> Result<(), Error> {
        let mirror = Arc::clone(&self.mirror);
        self.converse(move || mirror.obtain(&revisions)).await
    }

    /// Returns the files under `paths` (all if empty) that differ; all files of `to` if `from` is `None`.
    ///
    /// [`Error::UnknownRevision`] for `from` means that a forced push took it away: compare with `None` then.
    pub async fn changed(
        &self,
        from: Option<Revision>,
        to: Revision,
        paths: &[impl AsRef<str>],
    ) -> Result<Changes, Error> {
        let paths: Vec<String> = paths.iter().map(|path| path.as_ref().to_owned()).collect();
        self.read_mirror(move |repo, limits| {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            tree::changed(repo, limits, from.as_ref(), &to, &paths)
        })
        .await
    }

    /// Returns all files of a revision under `paths`, as additions.
    pub async fn files(&self, revision: Revision, paths: &[impl AsRef<str>]) -> Result<Changes, Error> {
        self.changed(None, revision, paths).await
    }

    /// Returns the content of a file of a revision. `None` only if it certainly isn't there: a link or a folder in its place
    /// is an error.
    pub async fn read_at(
        &self,
        revision: Revision,
        path: impl Into<String>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let path = path.into();
        self.read_mirror(move |repo, limits| tree::read_at(repo, limits, &revision, &path))
            .await
    }

    /// Returns whether a revision has something at a path: Git keeps no folder without files.
    pub async fn has(&self, revision: Revision, path: impl Into<String>) -> Result<bool, Error> {
        let path = path.into();
        self.read_mirror(move |repo, _| tree::has(repo, &revision, &path))
            .await
    }

    /// Returns contents in the order of their ids; one that is too large is an error of its own.
    pub async fn read(&self, blobs: Vec<BlobId>) -> Result<Vec<Result<Vec<u8>, Error>>, Error> {
        let mirror = Arc::clone(&self.mirror);
        blocking(move || mirror.contents(&blobs, |bytes| bytes)).await
    }

    /// Returns how many bytes contents have, in the order of their ids, without reading them.
    pub async fn sizes(&self, blobs: Vec<BlobId>) -> Result<Vec<usize>, Error> {
        self.read_mirror(move |repo, _| {
            let odb = repo.odb()?;
            let size = |blob: &BlobId| Ok(odb.read_header(blob.0)?.0);
            blobs.iter().map(size).collect()
        })
        .await
    }

    /// Returns what `make` makes of each content, in the order of their ids: one content at a time is in memory. It is called
    /// where it may block, and by few at a time.
    pub async fn read_each<T: Send + 'static>(
        &self,
        blobs: Vec<BlobId>,
        make: impl FnMut(Result<Vec<u8>, Error>) -> T + Send + 'static,
    ) -> Result<Vec<T>, Error> {
        let mirror = Arc::clone(&self.mirror);
        let reader = Arc::clone(&self.readers).acquire_owned().await;
        let reader = reader.map_err(|_| Error::Interrupted)?;
        blocking(move || {
            let _until_it_is_done = reader;
            mirror.contents(&blobs, make)
        })
        .await
    }

    /// Returns whether a revision has another one in its history, or is that one.
    pub async fn contains(&self, newer: Revision, older: Revision) -> Result<bool, Error> {
        self.walk(move |repo| {
            let id = |revision| Ok::<_, Error>(tree::commit(repo, revision)?.id());
            log::contains(repo, id(&newer)?, id(&older)?)
        })
        .await
    }

    /// Returns who made a revision, when and why.
    pub async fn commit(&self, revision: Revision) -> Result<CommitInfo, Error> {
        self.read_mirror(move |repo, _| log::info(repo, &revision)).await
    }

    /// Returns the commits after `since` up to `until` that changed what is at `path`, newest first; looks at no more than
    /// `limit` commits.
    pub async fn touching(
        &self,
        path: impl Into<String>,
        since: Option<Revision>,
        until: Revision,
        limit: usize,
    ) -> Result<Vec<CommitInfo>, Error> {
        let path = path.into();
        self.walk(move |repo| log::touching(repo, &path, since.as_ref(), &until, limit))
            .await
    }

    /// Reads a file of a branch at the remote's present tip. `None` only if it certainly isn't there: what can't be told is
    /// an error.
    pub async fn read_fresh(
        &self,
        branch: Branch,
        path: impl Into<String>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (mirror, path) = (Arc::clone(&self.mirror), path.into());
        self.converse(move || mirror.read_fresh(branch, &path)).await
    }

    /// Commits and pushes what `drafter` makes of the branch's present files.
    ///
    /// `drafter` is called again, on the new files, each time that somebody else pushed first; so it has to compute its
    /// edits from the [`Tip`] it is given and from nothing older.
    ///
    /// ```no_run
    /// # async fn example(repo: cutover_git::Repo) -> Result<(), cutover_git::Error> {
    /// use cutover_git::{Branch, Draft, Files, Message};
    ///
    /// repo.publish(Branch::Status, |tip| {
    ///     let mut log = tip.read("log.txt")?.unwrap_or_default();
    ///     log.extend(b"another line\n");
    ///     Ok(Draft {
    ///         message: Message::new("log: another line"),
    ///         files: Files::Edit([("log.txt".to_owned(), Some(log))].into()),
    ///     })
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn publish<F>(&self, branch: Branch, mut drafter: F) -> Result<Published, Error>
    where
        F: FnMut(&Tip<'_>) -> Result<Draft, cutover_core::error::Error> + Send + 'static,
    {
        let Retry { attempts, mut wait } = self.mirror.options.retry;
        for attempt in 1..=attempts {
            let (mirror, leadership) = (Arc::clone(&self.mirror), self.leadership.clone());
            let result;
            (result, drafter) = self
                .converse(move || {
                    let result = mirror.publish(branch, &mut drafter, &leadership);
                    Ok((result, drafter))
                })
                .await?;
            if let Attempt::Done(published) = result? {
                return Ok(published);
            }
            tracing::debug!(
                attempt,
                branch = self.mirror.branch(branch),
                "another client pushed first"
            );
            if attempt < attempts {
                tokio::time::sleep(wait.mul_f64(0.5 + self.random())).await;
                wait = wait.mul_f64(1.5);
            }
        }
        Err(Error::Conflict {
            branch: self.mirror.branch(branch).to_owned(),
            attempts,
        })
    }

    /// Makes one commit of what was committed to the status branch before a time, once that is worth it. Its files stay.
    pub async fn squash(&self, before: Timestamp) -> Result<Squashed, Error> {
        let (mirror, leadership) = (Arc::clone(&self.mirror), self.leadership.clone());
        self.converse(move || mirror.squash(before, &leadership)).await
    }

    /// Returns a watch of this repository.
    pub fn watch(&self, polling: Polling) -> Watch {
        let seed = self.rng.lock().unwrap_or_else(PoisonError::into_inner).u64(..);
        let options = &self.mirror.options;
        let rng = fastrand::Rng::with_seed(seed);
        Watch::new(&options.url, polling, rng, options.trigger.clone())
    }

    /// Talks to the remote when it is this one's turn. Whoever no longer waits for the end leaves the turn taken until then.
    async fn converse<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        blocking(move || {
            let _until_the_end = turn;
            work()
        })
        .await
    }

    async fn read_mirror<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Repository, &Limits) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let mirror = Arc::clone(&self.mirror);
        blocking(move || mirror.read(|repo| work(repo, &mirror.options.limits))).await
    }

    /// The same for what reads nothing but commits.
    async fn walk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Repository) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let mirror = Arc::clone(&self.mirror);
        blocking(move || mirror.read(work)).await
    }

    fn random(&self) -> f64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }
}

/// Runs what blocks where it may. A panic in it is one here.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::Interrupted),
    }
}
