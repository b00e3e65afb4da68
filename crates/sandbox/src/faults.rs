//! What goes wrong, when: frozen and restarted components, stretched caches, members cut off, disturbed requests.
//!
//! A [`Faults`] is a switchboard that tests flip by hand; a [`Plan`] flips it at times that come from a seed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

mod plan;
mod requests;

pub use plan::{Plan, Step, Trouble};
pub use requests::{Effect, Rule, ServerFaults};

/// A time that something takes: from, to, drawn evenly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub min: Duration,
    pub max: Duration,
}

impl Span {
    pub const NONE: Self = Self::millis(0, 0);

    pub const fn millis(min: u64, max: u64) -> Self {
        Self {
            min: Duration::from_millis(min),
            max: Duration::from_millis(max),
        }
    }

    pub fn draw(self, random: &mut fastrand::Rng) -> Duration {
        let (min, max) = (whole_millis(self.min), whole_millis(self.max));
        Duration::from_millis(random.u64(min..=max.max(min)))
    }
}

/// Timers have a resolution of a millisecond.
fn whole_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The switchboard; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    frozen: BTreeSet<String>,
    lags: BTreeMap<String, Duration>,
    cut: BTreeSet<String>,
    restarts: BTreeMap<String, u64>,
    rules: Vec<Rule>,
    random: Option<fastrand::Rng>,
}

impl Faults {
    /// Creates a switchboard on which everything works; the seed decides which requests a rule meets.
    pub fn new(seed: u64) -> Self {
        let faults = Self::default();
        faults.lock().random = Some(fastrand::Rng::with_seed(seed));
        faults
    }

    /// Stops a process (`karmada-scheduler`, with its caches), a controller or a cache in its tracks.
    pub fn freeze(&self, who: &str) -> &Self {
        self.change(|state| _ = state.frozen.insert(who.to_owned()))
    }

    /// Lets it go on where it stopped.
    pub fn thaw(&self, who: &str) -> &Self {
        self.change(|state| _ = state.frozen.remove(who))
    }

    /// Lets a cache see changes at the earliest this long after they happened; `operators/MEMBER` are those of its operators.
    pub fn lag(&self, cache: &str, by: Duration) -> &Self {
        self.change(|state| {
            if by.is_zero() {
                state.lags.remove(cache);
            } else {
                state.lags.insert(cache.to_owned(), by);
            }
        })
    }

    /// Cuts a member off from the control plane.
    pub fn partition(&self, member: &str) -> &Self {
        self.change(|state| _ = state.cut.insert(member.to_owned()))
    }

    pub fn heal(&self, member: &str) -> &Self {
        self.change(|state| _ = state.cut.remove(member))
    }

    /// Kills a process; a new one takes its lease, lists everything, and starts from there.
    pub fn restart(&self, process: &str) -> &Self {
        self.change(|state| *state.restarts.entry(process.to_owned()).or_default() += 1)
    }

    /// Disturbs requests of clients from now on.
    pub fn requests(&self, rule: Rule) -> &Self {
        self.change(|state| state.rules.push(rule))
    }

    /// Ends all faults that have a duration.
    pub fn end(&self) -> &Self {
        self.change(|state| {
            state.frozen.clear();
            state.lags.clear();
            state.cut.clear();
            state.rules.clear();
        })
    }

    /// Returns how far something is behind at least.
    pub fn lag_of(&self, who: &str) -> Duration {
        self.lock().lags.get(who).copied().unwrap_or_default()
    }

    pub fn is_partitioned(&self, member: &str) -> bool {
        self.lock().cut.contains(member)
    }

    /// Returns how often a process was to be restarted.
    pub fn restarts(&self, process: &str) -> u64 {
        self.lock().restarts.get(process).copied().unwrap_or_default()
    }

    /// Waits until a process is to be restarted again.
    pub async fn restarted(&self, process: &str, known: u64) {
        self.until(|state| state.restarts.get(process).copied().unwrap_or_default() > known)
            .await;
    }

    async fn until(&self, mut holds: impl FnMut(&State) -> bool) {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if holds(&self.lock()) {
                return;
            }
            changed.await;
        }
    }

    fn change(&self, what: impl FnOnce(&mut State)) -> &Self {
        what(&mut self.lock());
        self.inner.changed.notify_waiters();
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How fast one worker or cache is, and what can stop it.
#[derive(Debug)]
pub struct Pace {
    faults: Faults,
    /// Its own name first, then those of what it is part of.
    names: Vec<String>,
    /// The member on which it depends.
    member: Option<String>,
    random: Mutex<fastrand::Rng>,
}

impl Pace {
    /// Creates the pace of something with a name, within a process; its own random numbers come from seed and name.
    pub fn new(faults: Faults, seed: u64, process: &str, name: &str) -> Self {
        let salt = name
            .bytes()
            .chain(process.bytes())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        Self {
            faults,
            names: vec![name.to_owned(), process.to_owned()],
            member: None,
            random: Mutex::new(fastrand::Rng::with_seed(seed ^ salt)),
        }
    }

    /// Makes it stop while a member is cut off.
    #[must_use]
    pub fn through(mut self, member: &str) -> Self {
        self.member = Some(member.to_owned());
        self
    }

    pub fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Takes some time, and longer when frozen meanwhile.
    pub async fn spend(&self, span: Span) {
        let time = self.draw(span);
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        self.pass().await;
    }

    /// Waits while frozen.
    pub async fn pass(&self) {
        self.faults
            .until(|state| {
                !self.names.iter().any(|name| state.frozen.contains(name))
                    && !self
                        .member
                        .as_ref()
                        .is_some_and(|member| state.cut.contains(member))
            })
            .await;
    }

    /// Waits until something that happened at a time may be seen.
    pub async fn wait_for_lag(&self, happened: Instant) {
        loop {
            let changed = self.faults.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let due = happened + self.faults.lag_of(self.name());
            if due <= Instant::now() {
                return;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(due) => return,
            }
        }
    }

    pub fn draw(&self, span: Span) -> Duration {
        span.draw(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
