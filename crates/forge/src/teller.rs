//! Says statuses of commits one after the other, behind a queue that nobody waits for. What is said already is not said
//! again, and what nobody said yet gives way to what is newer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::{CommitStatus, Commits, Error};
use cutover_http::Backoff;

/// How many may wait; beyond, the oldest are lost.
const QUEUE: usize = 256;
/// How often one is tried, once the API's own patience has ended. All tries together take over an hour.
const TRIES: u32 = 32;
const AGAIN_AT_MOST: Duration = Duration::from_mins(5);
/// The longest that an API is obeyed that wants to be left alone.
const LIMITED_AT_MOST: Duration = Duration::from_hours(1);

/// Where statuses are left. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Teller(Arc<Open>);

/// Lets go of the queue with the last clone.
#[derive(Debug)]
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.news.notify_one();
    }
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(CommitStatus, u32)>,
    /// What was left last under each name.
    known: BTreeMap<String, CommitStatus>,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that says them; dropped, what waits is lost.
#[derive(Debug)]
pub struct Telling(JoinSet<()>);

impl Teller {
    /// Between two tries, once the API's own patience has ended.
    pub const AGAIN: Duration = Duration::from_secs(5);

    /// Starts to say what is left. What can't be said is tried `again` after a while, and each time after twice as long.
    pub fn start(commits: Commits, again: Duration) -> (Self, Telling) {
        let shared = Arc::new(Shared::default());
        let mut task = JoinSet::new();
        task.spawn(run(commits, Arc::clone(&shared), again));
        (Self(Arc::new(Open(shared))), Telling(task))
    }

    /// Leaves everything that there is to say; what was left before and isn't among it any more is forgotten.
    pub fn tell(&self, all: Vec<CommitStatus>) {
        let mut queue = self.0.0.lock();
        queue
            .known
            .retain(|name, _| all.iter().any(|status| status.name == *name));
        let mut is_news = false;
        for status in all {
            if queue.known.get(&status.name) == Some(&status) {
                continue;
            }
            queue.known.insert(status.name.clone(), status.clone());
            queue.put(status, 0);
            is_news = true;
        }
        drop(queue);
        if is_news {
            self.0.0.news.notify_one();
        }
    }
}

impl Queue {
    /// Puts a status at the end; in the place of one of the same commit and name, if one waits.
    fn put(&mut self, status: CommitStatus, tries: u32) {
        let same = |(other, _): &(CommitStatus, u32)| {
            (&other.name, &other.revision) == (&status.name, &status.revision)
        };
        if let Some(waiting) = self.waiting.iter_mut().find(|other| same(other)) {
            *waiting = (status, tries);
            return;
        }
        if self.waiting.len() >= QUEUE {
            tracing::warn!("a commit status is lost: too many wait to be sent");
            self.waiting.pop_front();
        }
        self.waiting.push_back((status, tries));
    }

    /// Puts one back that could not be said, unless there is a newer word by now.
    fn put_back(&mut self, status: CommitStatus, tries: u32) {
        let is_newest = self.known.get(&status.name) == Some(&status);
        if tries >= TRIES {
            tracing::warn!(status = %status.name, "a commit status is lost: too many attempts have failed");
            if is_newest {
                self.known.remove(&status.name);
            }
        } else if is_newest || !self.is_replaced(&status) {
            self.put(status, tries);
        }
    }

    fn is_replaced(&self, status: &CommitStatus) -> bool {
        let known = self.known.get(&status.name);
        known.is_some_and(|known| known.revision == status.revision)
    }
}

impl Telling {
    /// Ends when what is left has been said, or after `limit`. All clones of [`Teller`] must be gone.
    pub async fn end(mut self, limit: Duration) {
        let all = async { while self.0.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::warn!("commit statuses that waited to be sent are lost");
        }
    }
}

async fn run(commits: Commits, shared: Arc<Shared>, again: Duration) {
    let mut delays = Backoff::new(again, AGAIN_AT_MOST).delays();
    let mut trouble: Option<String> = None;
    while let Some((status, tries)) = next(&shared).await {
        let error = match commits.say(&status).await {
            Ok(()) => {
                if trouble.take().is_some() {
                    tracing::info!("commit statuses are sent again");
                }
                delays.reset();
                continue;
            }
            Err(error) => error,
        };
        // The same trouble is told once, however long it lasts.
        let why = error.to_string();
        if trouble.as_ref() != Some(&why) {
            tracing::warn!(status = %status.name, revision = status.revision.short(), error = %why, "a commit status cannot be sent");
            trouble = Some(why);
        }
        let wait = match &error {
            Error::Limited { wait, .. } => (*wait).min(LIMITED_AT_MOST),
            // Only what it says is wrong: it would be wrong again.
            Error::Refused { .. } if !error.is_permission() => continue,
            _ => delays.next_delay(),
        };
        shared.lock().put_back(status, tries + 1);
        tokio::time::sleep(wait).await;
    }
}

/// Waits for the next one; `None` once everybody is gone and nothing is left.
async fn next(shared: &Shared) -> Option<(CommitStatus, u32)> {
    loop {
        let news = shared.news.notified();
        {
            let mut queue = shared.lock();
            if let Some(next) = queue.waiting.pop_front() {
                return Some(next);
            }
            if queue.closed {
                return None;
            }
        }
        news.await;
    }
}
