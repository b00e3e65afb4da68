//! When to look for new commits: at a change of a repository on this machine, at a poll, or when told. Never what changed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::RemoteUrl;

/// How long no further event may come before a local change is reported, and the most to wait for that.
const QUIET: Duration = Duration::from_millis(10);
const QUIET_AT_MOST: Duration = Duration::from_millis(100);

/// Why it is time to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tick {
    Start,
    /// A reference of a repository on this machine was written.
    Local,
    Poll,
    /// Somebody called [`Trigger::now`].
    Manual,
}

/// How often to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Polling {
    /// Varied by a tenth, so that many reconcilers don't ask at once.
    pub interval: Duration,
    /// How far failures may stretch the interval; each doubles it.
    pub slowest: Duration,
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            slowest: Duration::from_mins(5),
        }
    }
}

/// Asks for a fetch from elsewhere, a webhook for example. Many calls at once give one tick, to every watch that has it.
#[derive(Clone, Debug)]
pub struct Trigger(watch::Sender<()>);

impl Default for Trigger {
    fn default() -> Self {
        Self(watch::Sender::new(()))
    }
}

impl Trigger {
    pub fn now(&self) {
        self.0.send_replace(());
    }
}

/// Gives a [`Tick`] each time a fetch may find something new. Says so once too often rather than once too seldom.
#[derive(Debug)]
pub struct Watch {
    polling: Polling,
    failures: u32,
    rng: fastrand::Rng,
    next_poll: Instant,
    /// A tick that is not handed out yet: `next` may be dropped half-way in a `select!`.
    pending: Option<Tick>,
    trigger: Trigger,
    asked: watch::Receiver<()>,
    local: Arc<Notify>,
    _watcher: Option<RecommendedWatcher>,
}

impl Watch {
    /// Watches a repository; must be called on a tokio runtime. What can't be watched is polled.
    pub fn new(url: &RemoteUrl, polling: Polling, rng: fastrand::Rng, trigger: Trigger) -> Self {
        let local = Arc::new(Notify::new());
        let watcher = url.local_path().and_then(|path| match watcher(path, &local) {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "cannot watch the repository: polling it");
                None
            }
        });
        Self {
            polling,
            failures: 0,
            rng,
            next_poll: Instant::now(),
            pending: Some(Tick::Start),
            asked: trigger.0.subscribe(),
            trigger,
            local,
            _watcher: watcher,
        }
    }

    pub fn trigger(&self) -> Trigger {
        self.trigger.clone()
    }

    /// Waits for the next tick. Safe to drop and call again.
    pub async fn next(&mut self) -> Tick {
        if self.pending.is_none() {
            self.pending = Some(tokio::select! {
                biased;
                Ok(()) = self.asked.changed() => Tick::Manual,
                () = self.local.notified() => Tick::Local,
                () = sleep_until(self.next_poll) => Tick::Poll,
            });
        }
        if self.pending == Some(Tick::Local) {
            let latest = Instant::now() + QUIET_AT_MOST;
            while Instant::now() < latest && timeout(QUIET, self.local.notified()).await.is_ok() {}
        }
        self.next_poll = Instant::now() + self.interval();
        self.pending.take().unwrap_or(Tick::Poll)
    }

    /// Tells how the fetch went that a tick led to: failures make polls rarer, a success brings them back.
    pub fn outcome(&mut self, succeeded: bool) {
        self.failures = if succeeded {
            0
        } else {
            self.failures.saturating_add(1)
        };
        self.next_poll = Instant::now() + self.interval();
    }

    fn interval(&mut self) -> Duration {
        let doubled = self.polling.interval.saturating_mul(1 << self.failures.min(16));
        let slowest = self.polling.slowest.max(self.polling.interval);
        doubled.min(slowest).mul_f64(0.9 + 0.2 * self.rng.f64())
    }
}

/// Watches where git writes when a branch moves: `refs/heads`, `packed-refs` and `HEAD`.
fn watcher(path: &Path, changed: &Arc<Notify>) -> Result<RecommendedWatcher, Box<dyn std::error::Error>> {
    let repo = git2::Repository::open(path)?;
    let changed = Arc::clone(changed);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Errors (events were dropped) count as a change: better once too often.
        let relevant =
            event.is_ok_and(|event| event.kind.is_access() || event.paths.iter().all(|path| is_lock(path)));
        if !relevant {
            changed.notify_one();
        }
    })?;
    watcher.watch(repo.commondir(), RecursiveMode::NonRecursive)?;
    watcher.watch(
        &repo.commondir().join("refs").join("heads"),
        RecursiveMode::Recursive,
    )?;
    Ok(watcher)
}

fn is_lock(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "lock")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polled() -> Watch {
        let url = "https://example.com/fleet.git".parse().unwrap();
        Watch::new(
            &url,
            Polling::default(),
            fastrand::Rng::with_seed(7),
            Trigger::default(),
        )
    }

    async fn seconds_until_next(watch: &mut Watch) -> (Tick, u64) {
        let start = Instant::now();
        let tick = watch.next().await;
        (tick, start.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_tick_comes_at_once_and_then_at_each_interval() {
        let mut watch = polled();
        assert_eq!(seconds_until_next(&mut watch).await, (Tick::Start, 0));
        for _ in 0..20 {
            let (tick, seconds) = seconds_until_next(&mut watch).await;
            assert_eq!(tick, Tick::Poll);
            assert!((27..=33).contains(&seconds), "{seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_stretch_the_interval_up_to_a_limit_and_a_success_ends_that() {
        let mut watch = polled();
        watch.next().await;
        let mut waits = Vec::new();
        for _ in 0..6 {
            watch.outcome(false);
            waits.push(seconds_until_next(&mut watch).await.1);
        }
        assert!(
            (54..=66).contains(&waits[0]) && (108..=132).contains(&waits[1]),
            "{waits:?}"
        );
        assert!(
            waits[3..].iter().all(|wait| (270..=330).contains(wait)),
            "{waits:?}"
        );
        watch.outcome(true);
        assert!(seconds_until_next(&mut watch).await.1 <= 33);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trigger_does_not_wait_for_the_poll_and_many_count_as_one() {
        let mut watch = polled();
        watch.next().await;
        let trigger = watch.trigger();
        trigger.now();
        trigger.now();
        assert_eq!(seconds_until_next(&mut watch).await, (Tick::Manual, 0));
        assert_eq!(watch.next().await, Tick::Poll);
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_a_wait_does_not_put_off_the_poll() {
        let mut watch = polled();
        watch.next().await;
        let start = Instant::now();
        loop {
            if let Ok(tick) = timeout(Duration::from_secs(5), watch.next()).await {
                assert_eq!(tick, Tick::Poll);
                break;
            }
        }
        assert!(start.elapsed().as_secs() <= 33);
    }
}
