//! A controller's queue and its one worker, with the semantics of client-go: a key is queued once, handled by one
//! worker at a time, again when it changed meanwhile, and later and later when it fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::api::Status;
use super::faults::Pace;

/// What a controller of Karmada waits at first after a failure, and at most.
const FIRST_RETRY: Duration = Duration::from_millis(5);
const LAST_RETRY: Duration = Duration::from_secs(1000);

/// Keys to handle, first in, first out.
#[derive(Debug)]
pub struct Queue<K> {
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// In `ready`, or changed while in hand.
    dirty: BTreeSet<K>,
    in_hand: BTreeSet<K>,
    later: BTreeSet<(Instant, u64, K)>,
    failures: BTreeMap<K, u32>,
    sequence: u64,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: BTreeSet::new(),
            in_hand: BTreeSet::new(),
            later: BTreeSet::new(),
            failures: BTreeMap::new(),
            sequence: 0,
        }
    }
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    pub fn add(&self, key: K) {
        self.lock().add(key);
        self.changed.notify_one();
    }

    pub fn add_after(&self, key: K, delay: Duration) {
        let mut state = self.lock();
        state.sequence += 1;
        let sequence = state.sequence;
        state.later.insert((Instant::now() + delay, sequence, key));
        drop(state);
        self.changed.notify_one();
    }

    /// Adds a key that failed; the delay doubles with each failure.
    pub fn retry(&self, key: K) {
        let mut state = self.lock();
        let failures = state.failures.entry(key.clone()).or_insert(0);
        let delay = FIRST_RETRY
            .saturating_mul(1 << (*failures).min(20))
            .min(LAST_RETRY);
        *failures += 1;
        drop(state);
        self.add_after(key, delay);
    }

    /// Forgets the failures of a key.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// Returns how many keys wait, those that wait for their time not counted.
    pub fn len(&self) -> usize {
        self.lock().ready.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits for a key and takes it; [`Queue::done`] must follow.
    pub async fn next(&self) -> K {
        loop {
            let due = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.dirty.remove(&key);
                    state.in_hand.insert(key.clone());
                    return key;
                }
                state.later.first().map(|(due, ..)| *due)
            };
            match due {
                None => self.changed.notified().await,
                Some(due) => {
                    tokio::select! {
                        biased;
                        () = self.changed.notified() => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
            }
        }
    }

    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        state.in_hand.remove(key);
        if state.dirty.contains(key) {
            state.ready.push_back(key.clone());
            drop(state);
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, key: K) {
        if self.dirty.insert(key.clone()) && !self.in_hand.contains(&key) {
            self.ready.push_back(key);
        }
    }

    fn promote(&mut self, now: Instant) {
        while self.later.first().is_some_and(|(due, ..)| *due <= now) {
            if let Some((_, _, key)) = self.later.pop_first() {
                self.add(key);
            }
        }
    }
}

/// What handles the keys of a queue.
pub trait Controller: Send + Sync + 'static {
    type Key: Ord + Clone + Send + Sync + std::fmt::Debug;

    /// Brings one thing into its desired state; asks to be called again after some time, or at its next change.
    fn reconcile(
        &self,
        key: &Self::Key,
        pace: &Pace,
    ) -> impl Future<Output = Result<Option<Duration>, Status>> + Send;
}

/// Runs the one worker of a controller, for ever.
pub async fn work<C: Controller>(controller: Arc<C>, queue: Arc<Queue<C::Key>>, pace: Pace) {
    loop {
        let key = queue.next().await;
        pace.pass().await;
        match controller.reconcile(&key, &pace).await {
            Ok(again) => {
                queue.forget(&key);
                if let Some(delay) = again {
                    queue.add_after(key.clone(), delay);
                }
            }
            Err(status) => {
                tracing::debug!(controller = pace.name(), ?key, %status, "will be tried again");
                queue.retry(key.clone());
            }
        }
        queue.done(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_queued_once_and_again_when_it_changes_while_in_hand() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await, "b");
        assert!(queue.is_empty(), "a key in hand is not handed out twice");
        queue.done(&"a");
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_double_the_delay_until_they_are_forgotten() {
        let queue = Queue::new();
        let mut delays = Vec::new();
        for round in 0..4 {
            let begun = Instant::now();
            if round == 3 {
                queue.forget(&"a");
            }
            queue.retry("a");
            queue.next().await;
            queue.done(&"a");
            delays.push(begun.elapsed().as_millis());
        }
        assert_eq!(delays, [5, 10, 20, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_due_later_overtakes_nothing() {
        let queue = Queue::new();
        queue.add_after("late", Duration::from_millis(50));
        queue.add_after("soon", Duration::from_millis(10));
        assert_eq!(queue.next().await, "soon");
        assert_eq!(queue.next().await, "late");
    }
}
