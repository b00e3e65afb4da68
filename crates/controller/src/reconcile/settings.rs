//! `cutover.yaml` of the branch: read before anything else, and looked at again with every revision.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use cutover_core::config::{self, Config, StatusBranches};
use cutover_core::error::{Error, Kind};
use cutover_git::{self as repo, Author, Branch, Repo};
use cutover_karmada::name::Revision;
use cutover_leadership::Leadership;

use super::run::{Elsewhere, Options};
use super::sync::Desired;
use crate::telemetry::FETCH;

/// How long a conversation that was broken off may still have the mirror.
const LEFT_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Between two tries to read the file.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The file and what it says.
#[derive(Debug)]
pub(super) struct Settings {
    bytes: Option<Vec<u8>>,
    pub(super) config: Config,
}

/// Reads the file; waits while Git can't be reached, and fails when what it says can't be used.
pub(super) async fn first(run: &Options, cancel: &CancellationToken) -> Result<Settings, Error> {
    let repo = open(run.repo.clone(), cancel).await?;
    let mut trouble = Trouble::default();
    loop {
        match read(&repo).await {
            Err(error) if error.kind() == Kind::Unreachable => {
                run.telemetry.git(FETCH, Err(error.to_string()));
                if trouble.is_news(&error) {
                    tracing::warn!(%error, "Git cannot be reached");
                }
                tokio::select! {
                    () = cancel.cancelled() => return Err(error),
                    () = tokio::time::sleep(LOOK_EVERY) => {}
                }
            }
            other => return other,
        }
    }
}

/// Reads the file; fails when Git can't be reached.
pub(super) async fn newest(options: &repo::Options, cancel: &CancellationToken) -> Result<Settings, Error> {
    read(&open(options.clone(), cancel).await?).await
}

/// Reads the file of a revision.
pub(super) async fn at_revision(
    options: &repo::Options,
    revision: &Revision,
    cancel: &CancellationToken,
) -> Result<Settings, Error> {
    let repo = Repo::open(options.clone(), cancel.clone()).await?;
    repo.obtain(vec![revision.clone()]).await?;
    let bytes = at(&repo, revision.clone()).await?;
    settings(&repo, bytes).await
}

/// Where the desired state is, and where status is committed to: one repository, or two.
#[derive(Clone, Debug)]
pub(super) struct Repos {
    pub(super) source: Repo,
    pub(super) status: Repo,
}

impl Repos {
    /// Pushes only during a term of leadership from now on.
    pub(super) fn within(self, leadership: &Leadership) -> Self {
        Self {
            source: self.source.within(leadership.clone()),
            status: self.status.within(leadership.clone()),
        }
    }
}

impl Settings {
    /// Opens the repositories with the status branch and the author that the file names. Which repository status goes to is
    /// not the file's to say: whoever may push could have credentials sent anywhere.
    pub(super) async fn open(&self, run: &Options, cancel: &CancellationToken) -> Result<Repos, Error> {
        allowed(&self.config, run)?;
        let (options, elsewhere) = (&run.repo, run.status_repo.as_ref());
        let status = &self.config.status;
        let source = repo::Options {
            status_branch: status.branch_beside(&options.branch).to_owned(),
            status_directory: status.directory.clone(),
            author: Author {
                name: self.config.author.name.clone(),
                email: self.config.author.email.clone(),
            },
            ..options.clone()
        };
        let Some(elsewhere) = elsewhere else {
            let repo = open(source, cancel).await?;
            return Ok(Repos {
                source: repo.clone(),
                status: repo,
            });
        };
        let there = status_repository(&source, elsewhere, &self.config);
        // Of the source, nothing but the branch itself is followed.
        let source = repo::Options {
            status_branch: source.branch.clone(),
            status_directory: None,
            ..source
        };
        Ok(Repos {
            source: open(source, cancel).await?,
            status: open(there, cancel).await?,
        })
    }

    /// Returns the new settings when a revision changes the file to something usable; until then the old ones stay.
    pub(super) async fn changed(&self, repo: &Repo, mut desired: Desiring, run: &Options) -> Self {
        let mut trouble = Trouble::default();
        loop {
            if desired.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let Some(revision) = desired
                .borrow_and_update()
                .as_ref()
                .map(|desired| desired.revision.clone())
            else {
                continue;
            };
            let bytes = match at(repo, revision).await {
                Ok(bytes) if bytes != self.bytes => bytes,
                Ok(_) => {
                    trouble = Trouble::default();
                    continue;
                }
                Err(error) => {
                    if trouble.is_news(&error) {
                        tracing::warn!(%error, "cutover.yaml cannot be read; the previous settings stay in force");
                    }
                    // With another revision at once: without one there would be no other occasion.
                    if let Ok(Err(_)) = tokio::time::timeout(LOOK_EVERY, desired.changed()).await {
                        std::future::pending::<()>().await;
                    }
                    desired.mark_changed();
                    continue;
                }
            };
            trouble = Trouble::default();
            let usable = settings(repo, bytes).await;
            let usable = usable.and_then(|changed| allowed(&changed.config, run).map(|()| changed));
            match usable {
                Ok(changed) => return changed,
                Err(error) => {
                    tracing::warn!(%error, at = ?error.location(), "the previous settings stay in force");
                }
            }
        }
    }
}

/// What was told of last: tried every few seconds, the same is no news.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    fn is_news(&mut self, error: &Error) -> bool {
        let trouble = error.to_string();
        if self.0.as_ref() == Some(&trouble) {
            return false;
        }
        self.0 = Some(trouble);
        true
    }
}

/// Checks that status may go where the file says.
fn allowed(config: &Config, run: &Options) -> Result<(), Error> {
    may_go_there(config, &run.repo, run.status_repo.as_ref(), &run.status_branches)
}

fn may_go_there(
    config: &Config,
    repo: &repo::Options,
    elsewhere: Option<&Elsewhere>,
    branches: &StatusBranches,
) -> Result<(), Error> {
    let (status, synced) = (&config.status, &repo.branch);
    match elsewhere {
        None => status.check(Some(synced), branches),
        Some(elsewhere) => {
            let branch = status.branch.as_deref().unwrap_or(config::STATUS_BRANCH);
            let is_same = elsewhere.url.place() == repo.url.place();
            let synced = is_same.then_some(synced.as_str());
            status.check_branch(branch, synced, branches)
        }
    }
}

/// Reads the branch and the file as a reconciler would, and asks the server whether it lets a push in; returns the revision, and
/// where status goes.
pub(crate) async fn check(
    options: &repo::Options,
    elsewhere: Option<&Elsewhere>,
    branches: &StatusBranches,
    cancel: &CancellationToken,
) -> (Result<Revision, Error>, Result<String, Error>) {
    let reading = async {
        let repo = open(options.clone(), cancel).await?;
        let revision = repo.fetch().await?.revision;
        let config = of(&repo, revision.clone()).await?;
        may_go_there(&config, options, elsewhere, branches)?;
        Ok::<_, Error>((repo, revision, config))
    };
    let (repo, revision, config) = match reading.await {
        Ok(read) => read,
        Err(error) => return (Err(error.clone()), Err(error)),
    };
    let pushing = async {
        match elsewhere {
            None => {
                repo.try_push().await?;
                Ok(config.status.branch_beside(&options.branch).to_owned())
            }
            Some(elsewhere) => {
                let there = status_repository(options, elsewhere, &config);
                let branch = there.status_branch.clone();
                open(there, cancel).await?.try_push().await?;
                Ok(format!("{branch} of {}", elsewhere.url))
            }
        }
    };
    (Ok(revision), pushing.await)
}

/// Returns how a repository is opened that only status goes to. `source`: how the one with the desired state is.
fn status_repository(source: &repo::Options, elsewhere: &Elsewhere, config: &Config) -> repo::Options {
    let branch = config.status.branch.as_deref().unwrap_or(config::STATUS_BRANCH);
    repo::Options {
        url: elsewhere.url.clone(),
        credentials: elsewhere.credentials.clone(),
        branch: branch.to_owned(),
        status_branch: branch.to_owned(),
        status_only: true,
        state_dir: source.state_dir.join("status-repository"),
        ..source.clone()
    }
}

/// Opens the mirror; waits for a conversation with Git that was broken off and still has it.
async fn open(options: repo::Options, cancel: &CancellationToken) -> Result<Repo, Error> {
    let latest = Instant::now() + LEFT_WITHIN;
    loop {
        match Repo::open(options.clone(), cancel.clone()).await {
            Err(repo::Error::InUse(_)) if Instant::now() < latest => tokio::time::sleep(LOOK_AGAIN).await,
            opened => return Ok(opened?),
        }
    }
}

type Desiring = watch::Receiver<Option<Arc<Desired>>>;

/// Returns what the file says at a revision.
pub(super) async fn of(repo: &Repo, revision: Revision) -> Result<Config, Error> {
    let bytes = at(repo, revision).await?;
    Ok(settings(repo, bytes).await?.config)
}

async fn at(repo: &Repo, revision: Revision) -> Result<Option<Vec<u8>>, Error> {
    Ok(repo.read_at(revision, config::PATH).await?)
}

async fn read(repo: &Repo) -> Result<Settings, Error> {
    let bytes = repo.read_fresh(Branch::Source, config::PATH).await?;
    settings(repo, bytes).await
}

/// Reads the file where that may take its time: the lease has to be renewed meanwhile.
async fn settings(repo: &Repo, bytes: Option<Vec<u8>>) -> Result<Settings, Error> {
    let budget = *repo.budget();
    let parsing = tokio::task::spawn_blocking(move || {
        let config = match &bytes {
            Some(bytes) => Config::parse_within(bytes, &budget)?,
            None => Config::default(),
        };
        Ok(Settings { bytes, config })
    });
    let ended = |error: JoinError| Error::internal(format!("cutover.yaml was not read to its end: {error}"));
    parsing.await.map_err(ended)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_is_told_once() {
        let (refused, gone) = (Error::user("refused"), Error::user("gone"));
        let mut trouble = Trouble::default();
        let told = [&refused, &refused, &gone, &gone, &refused].map(|error| trouble.is_news(error));
        assert_eq!(told, [true, false, true, false, true]);
    }
}
