//! The bare copy of the remote repository in the state directory: opened, fetched, repaired. Blocking.
//!
//! The mirror holds nothing that the remote doesn't: when in doubt about it, it is made anew beside and swapped.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use git2::{Oid, Repository, RepositoryInitOptions};
use tokio_util::sync::CancellationToken;

use super::error::is_shortage;
use super::remote::{Access, Tips, tracking};
use super::url::scrub;
use super::{BlobId, Branch, Error, Options, local, log, loose, tidy, tree};
use cutover_karmada::name::Revision;

/// Where the configuration of a mirror says which remote it is of.
const REMOTE_KEY: &str = "cutover.remote";
/// How many descriptors reading takes at most, by far: with so many to spare, files could be opened just before, too.
const SPARE: usize = 32;
/// How many handles are kept open.
const HANDLES: usize = 2;

/// What a fetch found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The tip of the source branch; where status is committed to it, the newest commit that says something else.
    pub revision: Revision,
    /// What the fetch before found, since the repository was opened.
    pub previous: Option<Revision>,
    /// `revision` is not `previous`.
    pub changed: bool,
    /// The branch was moved by force: `previous` is no ancestor of `revision`.
    pub rewound: bool,
    /// The tip of the status branch, if there is one.
    pub status: Option<Revision>,
}

#[derive(Debug)]
pub(super) struct Mirror {
    pub(super) options: Options,
    pub(super) access: Access,
    directory: PathBuf,
    /// Held as long as the mirror is open: two processes would delete each other's files.
    _lock: Lock,
    /// Serialises what changes references or files of the mirror. Reads need no lock: objects don't change.
    writing: Mutex<()>,
    damaged: AtomicBool,
    handles: Handles,
    /// What the last fetch found. Not what the mirror has: a rebuild or a publish moves that too.
    fetched: Mutex<Option<Revision>>,
    /// The tip of the source branch as it was fetched last, and the newest commit up to it that says more than how things
    /// stand.
    walked: Mutex<Option<(Oid, Oid)>>,
    /// A commit of the status branch whose history is known to begin with one of cutover's.
    owned: Mutex<Option<Oid>>,
}

impl Mirror {
    pub(super) fn open(options: Options, cancel: CancellationToken) -> Result<Self, Error> {
        let url = options.url.absolute().map_err(at(Path::new(".")))?;
        let options = Options { url, ..options };
        for name in [&options.branch, &options.status_branch] {
            if !git2::Branch::name_is_valid(name).unwrap_or(false) || name.starts_with('-') {
                return Err(Error::BranchName(name.clone()));
            }
        }
        options.credentials.install()?;
        let state = &options.state_dir;
        fs::create_dir_all(state).map_err(at(state))?;
        let lock = Lock::take(state)?;
        for leftover in [beside(state), aside(state)] {
            remove(&leftover)?;
        }
        let directory = state.join("mirror.git");
        if !directory.exists() {
            init(&directory, &options)?;
        }
        let mirror = Self {
            access: Access {
                url: options.url.clone(),
                credentials: options.credentials.clone(),
                timeout: options.timeout,
                most_bytes: options.limits.received_bytes,
                cancel,
            },
            directory,
            options,
            _lock: lock,
            writing: Mutex::new(()),
            damaged: AtomicBool::new(false),
            handles: Handles::default(),
            fetched: Mutex::new(None),
            walked: Mutex::new(None),
            owned: Mutex::new(None),
        };
        match mirror.repository() {
            Ok(repo) => {
                tidy::remove_stale_locks(&repo);
                tidy::remove_partial_packs(&repo);
                if loose::remove_broken(&repo) {
                    mirror.damaged.store(true, Ordering::Relaxed);
                }
            }
            Err(error) => mirror.note(&mirror.proven(error)),
        }
        Ok(mirror)
    }

    /// Runs something that reads revisions and trees. What is found damaged is repaired by the next fetch.
    pub(super) fn read<T>(&self, work: impl FnOnce(&Repository) -> Result<T, Error>) -> Result<T, Error> {
        let (generation, kept) = self.handles.take();
        let repo = match kept {
            Some(repo) => Ok(repo),
            None => self.repository(),
        };
        let result = repo.and_then(|repo| {
            let result = work(&repo);
            if result.is_ok() {
                self.handles.give(generation, repo);
            }
            result
        });
        result
            .map_err(|error| self.proven(error))
            .inspect_err(|error| self.note(error))
    }

    /// Runs something on the mirror as it is on disk now, with a handle that nobody keeps: one that has read contents has
    /// the packs that they are in in memory until it is closed.
    fn read_once<T>(&self, work: impl FnOnce(&Repository) -> Result<T, Error>) -> Result<T, Error> {
        let result = self.repository().and_then(|repo| work(&repo));
        result
            .map_err(|error| self.proven(error))
            .inspect_err(|error| self.note(error))
    }

    /// Reads contents; one that can't be read says nothing of the others.
    pub(super) fn contents<T>(
        &self,
        blobs: &[BlobId],
        mut make: impl FnMut(Result<Vec<u8>, Error>) -> T,
    ) -> Result<Vec<T>, Error> {
        self.read_once(|repo| {
            let odb = repo.odb()?;
            let content = |blob: &BlobId| {
                let content = tree::read(&odb, &self.options.limits, *blob);
                let content = content.map_err(|error| self.proven(error));
                make(content.inspect_err(|error| self.note(error)))
            };
            Ok(blobs.iter().map(content).collect())
        })
    }

    /// Returns the error, unless this process is short of descriptors or space. libgit2 skips packs that it can't open, and
    /// says then that an object is missing: only where files can be opened does that prove anything.
    fn proven(&self, error: Error) -> Error {
        if !matches!(error, Error::Damaged(_) | Error::UnknownRevision(_)) {
            return error;
        }
        match shortage(&self.options.state_dir, SPARE) {
            Some(source) => at(&self.options.state_dir)(source),
            None => error,
        }
    }

    fn note(&self, error: &Error) {
        if error.is_damage() {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// Runs something that writes to the mirror, one at a time, on a mirror that is not known to be damaged.
    pub(super) fn write<T>(&self, work: impl Fn(&Repository) -> Result<T, Error>) -> Result<T, Error> {
        let _writing: MutexGuard<'_, ()> = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        match self.read_once(|repo| self.check(repo)) {
            Err(error) if !error.is_damage() => return Err(error),
            Ok(()) if !self.damaged.load(Ordering::Relaxed) => {}
            _ => self.rebuild()?,
        }
        let result = match self.read_once(&work) {
            Err(error) if error.is_damage() => {
                self.rebuild()?;
                self.read_once(&work)
            }
            result => result,
        };
        if result.is_ok() {
            self.read_once(|repo| {
                if tidy::tidy(repo) {
                    self.handles.forget();
                }
                Ok(())
            })?;
        }
        result
    }

    /// Brings both branches up to the remote.
    pub(super) fn fetch(&self) -> Result<Fetched, Error> {
        let error = match self.fetch_both() {
            Err(error) if !matches!(error, Error::BadCommit { .. }) => self.name_commit(error),
            fetched => return fetched,
        };
        // libgit2 walks what a mirror has before it asks a server for more, and gives up at a commit that it can't read. One that
        // has nothing yet walks nowhere.
        if matches!(error, Error::BadCommit { .. }) && self.options.url.local_path().is_none() {
            self.damaged.store(true, Ordering::Relaxed);
            return self.fetch_both();
        }
        Err(error)
    }

    /// Asks the remote where a branch stands.
    pub(super) fn remote_tip(&self, branch: &str) -> Result<Option<Revision>, Error> {
        let tip = self.access.tip(&self.repository()?, branch)?;
        tip.map(log::revision).transpose()
    }

    /// Asks the remote whether it lets a push in.
    pub(super) fn try_push(&self) -> Result<(), Error> {
        self.access.try_push(&self.repository()?)
    }

    /// Names the commit that can't be read, if that is what went wrong.
    fn name_commit(&self, error: Error) -> Error {
        if !matches!(error, Error::Corrupt { .. } | Error::Damaged(_) | Error::Git(_)) {
            return error;
        }
        let (url, branch) = (&self.options.url, &self.options.branch);
        let found = match url.local_path() {
            Some(path) => local::open(path)
                .and_then(|repo| local::tip(&repo, branch).map(|tip| (repo, tip)))
                .ok(),
            None => self.repository().ok().map(|repo| {
                let tip = repo.refname_to_id(&tracking(branch)).ok();
                (repo, tip)
            }),
        };
        let found = found.and_then(|(repo, tip)| log::unreadable(&repo, tip?));
        match found {
            Some((revision, why)) if error.to_string().contains(&why) => Error::BadCommit {
                url: url.clone(),
                revision,
                why,
            },
            _ => error,
        }
    }

    fn fetch_both(&self) -> Result<Fetched, Error> {
        self.write(|repo| {
            let tips = self.update(repo, &[&self.options.branch, &self.options.status_branch])?;
            let Some(tip) = tips.get(&self.options.branch) else {
                return Err(Error::NoBranch {
                    url: self.options.url.clone(),
                    branch: self.options.branch.clone(),
                });
            };
            let tip = &self.wanted(repo, tip)?;
            let revision = log::revision(*tip)?;
            let status = tips.get(&self.options.status_branch);
            let status = status.map(log::revision).transpose()?;
            let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
            let previous = fetched.clone();
            let kept = match previous.as_ref().map(|previous| tree::commit(repo, previous)) {
                // A commit in between that libgit2 can't read stops its walk, and nothing else.
                Some(Ok(previous)) => log::contains(repo, *tip, previous.id()).unwrap_or(false),
                Some(Err(error)) => match self.proven(error) {
                    Error::UnknownRevision(_) => false,
                    error => return Err(error),
                },
                None => true,
            };
            // Not before: what failed until here is told as a change the next time.
            *fetched = Some(revision.clone());
            Ok(Fetched {
                changed: previous.as_ref() != Some(&revision),
                revision,
                previous,
                rewound: !kept,
                status,
            })
        })
    }

    /// Returns the newest commit up to `tip` that changes more than the status directory: our own commits are no news.
    fn wanted(&self, repo: &Repository, tip: Oid) -> Result<Oid, Error> {
        let options = &self.options;
        let directory = options.status_directory.as_ref();
        let Some(directory) = directory.filter(|_| options.branch == options.status_branch) else {
            return Ok(tip);
        };
        let folders: Vec<&str> = directory.split('/').collect();
        let mut walked = self.walked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut commit = repo.find_commit(tip)?;
        let wanted = loop {
            if let Some((_, wanted)) = walked.filter(|(known, _)| *known == commit.id()) {
                break wanted;
            }
            // A merge is somebody's.
            if commit.parent_count() != 1 {
                break commit.id();
            }
            let parent = commit.parent(0)?;
            if !tree::same_beside(repo, &parent.tree()?, &commit.tree()?, &folders)? {
                break commit.id();
            }
            commit = parent;
        };
        *walked = Some((tip, wanted));
        Ok(wanted)
    }

    /// Returns the folder under which the files of a branch are, if it is not its root.
    pub(super) fn directory(&self, branch: Branch) -> Option<&str> {
        match branch {
            Branch::Source => None,
            Branch::Status => self.options.status_directory.as_deref(),
        }
    }

    /// Brings commits into the mirror that may be on no branch it follows. Of a repository elsewhere, those that are on
    /// one are there after a fetch.
    pub(super) fn obtain(&self, revisions: &[Revision]) -> Result<(), Error> {
        if self.options.url.local_path().is_none() {
            self.fetch()?;
        }
        let commits: Vec<Oid> = revisions
            .iter()
            .map(|revision| Ok(Oid::from_str(revision.as_str())?))
            .collect::<Result<_, Error>>()?;
        self.write(|repo| {
            self.access.obtain(repo, &commits)?;
            revisions
                .iter()
                .try_for_each(|revision| tree::commit(repo, revision).map(|_| ()))
        })
    }

    /// Brings branches up to the remote; a branch that is gone there goes here.
    pub(super) fn update(&self, repo: &Repository, branches: &[&str]) -> Result<Tips, Error> {
        let tips = self.access.fetch(repo, branches)?;
        // Before a reference names one: the mirror can be gone on with.
        for tip in tips.branches.values() {
            if let Err(error) = log::readable(repo, *tip) {
                return Err(self.bad_tip(repo, *tip, error));
            }
        }
        // Deletions first: `a` may have gone to make room for `a/b`.
        for branch in branches.iter().filter(|branch| tips.get(branch).is_none()) {
            if let Ok(mut gone) = repo.find_reference(&tracking(branch)) {
                gone.delete()?;
            }
        }
        for (branch, tip) in &tips.branches {
            repo.reference(&tracking(branch), *tip, true, "fetch")?;
        }
        Ok(tips)
    }

    fn bad_tip(&self, repo: &Repository, tip: Oid, error: git2::Error) -> Error {
        match (log::Header::raw(repo, tip), log::revision(tip)) {
            (Some(_), Ok(revision)) => Error::BadCommit {
                url: self.options.url.clone(),
                revision,
                why: scrub(error.message()),
            },
            _ => error.into(),
        }
    }

    pub(super) fn owned(&self) -> MutexGuard<'_, Option<Oid>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn branch(&self, branch: Branch) -> &str {
        match branch {
            Branch::Source => &self.options.branch,
            Branch::Status => &self.options.status_branch,
        }
    }

    fn repository(&self) -> Result<Repository, Error> {
        Repository::open_bare(&self.directory).map_err(damage)
    }

    /// Checks what a half-written or foreign directory would not have: the remote's name, and the root of each branch.
    fn check(&self, repo: &Repository) -> Result<(), Error> {
        let remote = repo
            .config()
            .and_then(|config| config.get_string(REMOTE_KEY))
            .map_err(damage)?;
        if remote != self.options.url.to_string() {
            return Err(Error::Damaged(format!("it is of {remote}")));
        }
        for reference in repo.references().map_err(damage)? {
            let commit = reference
                .and_then(|reference| reference.peel_to_commit())
                .map_err(damage)?;
            commit.tree().map_err(damage)?;
        }
        Ok(())
    }

    /// Makes a new mirror beside the damaged one, and swaps them when it is complete.
    fn rebuild(&self) -> Result<(), Error> {
        tracing::warn!(remote = %self.options.url, "recreating the mirror: it is damaged, of another repository, or can't be walked");
        let state = &self.options.state_dir;
        let (new, old) = (beside(state), aside(state));
        remove(&new)?;
        let repo = init(&new, &self.options)?;
        self.update(&repo, &[&self.options.branch, &self.options.status_branch])?;
        drop(repo);
        remove(&old)?;
        if self.directory.exists() {
            fs::rename(&self.directory, &old).map_err(at(&self.directory))?;
        }
        fs::rename(&new, &self.directory).map_err(at(&new))?;
        self.damaged.store(false, Ordering::Relaxed);
        self.handles.forget();
        remove(&old)
    }
}

/// Open handles, for whoever reads next: to open one costs more than most reads.
#[derive(Default)]
struct Handles(Mutex<(u64, Vec<Repository>)>);

impl Handles {
    /// Returns a handle, if one is there, and for which files of the mirror it is.
    fn take(&self) -> (u64, Option<Repository>) {
        let mut handles = self.lock();
        (handles.0, handles.1.pop())
    }

    fn give(&self, generation: u64, repo: Repository) {
        let mut handles = self.lock();
        if handles.0 == generation && handles.1.len() < HANDLES {
            handles.1.push(repo);
        }
    }

    /// Lets go of all handles, those too that are with somebody: the mirror has other files now.
    fn forget(&self) {
        let mut handles = self.lock();
        handles.0 += 1;
        handles.1.clear();
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Repository>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Handles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handles({})", self.lock().1.len())
    }
}

/// What can't be read of the mirror's frame is damage, but for a shortage of this process.
fn damage(error: git2::Error) -> Error {
    if is_shortage(error.message()) {
        Error::from(error)
    } else {
        Error::Damaged(error.message().to_owned())
    }
}

/// Returns why no more files can be opened or written, if that is so.
fn shortage(directory: &Path, spare: usize) -> Option<io::Error> {
    let mut open = Vec::new();
    let tried = (0..spare).try_for_each(|_| File::open(directory).map(|file| open.push(file)));
    let written = tried.and_then(|()| tempfile::tempfile_in(directory)?.write_all(&[0; 4096]));
    written.err().filter(|error| is_shortage(&error.to_string()))
}

fn init(directory: &Path, options: &Options) -> Result<Repository, Error> {
    let mut init = RepositoryInitOptions::new();
    init.bare(true).external_template(false).mkpath(true);
    let repo = Repository::init_opts(directory, &init)?;
    repo.config()?.set_str(REMOTE_KEY, &options.url.to_string())?;
    Ok(repo)
}

/// A lock on a state directory.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn take(state: &Path) -> Result<Self, Error> {
        let path = state.join("lock");
        let file = File::create(&path).map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(Error::InUse(state.to_owned())),
            Err(TryLockError::Error(error)) => Err(at(&path)(error)),
        }
    }
}

impl Drop for Lock {
    /// Closing alone would not do: a child process that is just being started has the file too until it runs its program.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn beside(state: &Path) -> PathBuf {
    state.join("mirror.new")
}

fn aside(state: &Path) -> PathBuf {
    state.join("mirror.old")
}

fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(directory)(error)),
        _ => Ok(()),
    }
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    |source| Error::State { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_is_told_from_damage() {
        let words = io::Error::from_raw_os_error(24).to_string();
        let words = words.split(" (os error").next().unwrap();
        assert!(
            !damage(git2::Error::from_str(&format!(
                "failed to open 'config': {words}"
            )))
            .is_damage()
        );
        assert!(damage(git2::Error::from_str("failed to parse config file")).is_damage());
        let state = tempfile::tempdir().unwrap();
        assert!(shortage(state.path(), SPARE).is_none());
        // Whether a directory is there says nothing of a shortage.
        assert!(shortage(&state.path().join("none"), SPARE).is_none());
    }

    #[test]
    fn a_lock_that_a_starting_child_still_has_is_given_back_all_the_same() {
        let state = tempfile::tempdir().unwrap();
        let lock = Lock::take(state.path()).unwrap();
        // What a fork leaves in the child until it runs its program.
        let copy = lock.0.try_clone().unwrap();
        assert!(matches!(Lock::take(state.path()), Err(Error::InUse(_))));
        drop(lock);
        drop(Lock::take(state.path()).unwrap());
        drop(copy);
    }
}
