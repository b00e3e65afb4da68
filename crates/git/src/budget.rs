//! What one conversation with a remote may cost: how long it takes, and how much is received. libgit2 asks callbacks only
//! while a pack arrives; what counts here is every byte of the connection (see `relay`).

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// The most that is received before a pack begins: first the branches, then the negotiation. libgit2 keeps both in memory.
/// Enough for about 500,000 branches and tags.
const BEFORE_THE_PACK: u64 = 32 << 20;

/// The budget of one conversation, and what it has spent.
#[derive(Debug)]
pub(super) struct Budget {
    deadline: Instant,
    cancel: CancellationToken,
    /// Of the conversation as a whole.
    most: u64,
    /// Until the next phase.
    allowed: AtomicU64,
    received: AtomicU64,
    spent: Mutex<Option<Spent>>,
}

/// Why a conversation was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spent {
    Cancelled,
    Time,
    /// More bytes than this.
    Bytes(u64),
}

thread_local! {
    /// The conversation that this thread has. libgit2 opens connections on the thread that it is called on.
    static CURRENT: RefCell<Option<Arc<Budget>>> = const { RefCell::new(None) };
}

/// Ends a thread's conversation when it is dropped.
pub(super) struct Conversation;

impl Drop for Conversation {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Option::take);
    }
}

impl Budget {
    pub(super) fn new(timeout: Duration, most: u64, cancel: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            deadline: Instant::now() + timeout,
            cancel,
            most,
            allowed: AtomicU64::new(BEFORE_THE_PACK.min(most)),
            received: AtomicU64::new(0),
            spent: Mutex::new(None),
        })
    }

    /// Makes it the budget of the connections that this thread opens.
    #[must_use]
    pub(super) fn begin(self: &Arc<Self>) -> Conversation {
        CURRENT.set(Some(Arc::clone(self)));
        Conversation
    }

    /// Returns the budget of this thread's conversation.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// The branches are known: the negotiation begins.
    pub(super) fn begin_negotiation(&self) {
        let received = self.received.load(Ordering::Relaxed);
        let allowed = received.saturating_add(BEFORE_THE_PACK).min(self.most);
        self.allowed.fetch_max(allowed, Ordering::Relaxed);
    }

    /// A pack arrives: it goes to the disk.
    pub(super) fn begin_pack(&self) {
        self.allowed.store(self.most, Ordering::Relaxed);
    }

    /// Counts what was received. Says whether to go on.
    pub(super) fn receive(&self, bytes: usize) -> bool {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let received = self
            .received
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        let allowed = self.allowed.load(Ordering::Relaxed);
        if received > allowed {
            self.end(Spent::Bytes(allowed));
        }
        self.goes_on()
    }

    /// Says whether the conversation may go on.
    pub(super) fn goes_on(&self) -> bool {
        if self.cancel.is_cancelled() {
            self.end(Spent::Cancelled);
        } else if Instant::now() >= self.deadline {
            self.end(Spent::Time);
        }
        self.spent().is_none()
    }

    /// Returns how much time is left.
    pub(super) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns why the conversation was ended, if it was.
    pub(super) fn spent(&self) -> Option<Spent> {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, why: Spent) {
        self.spent
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fixed_limit_of_git_is_documented() {
        let page = include_str!("../../../docs/reference/limits.md");
        let url = "https://git.example.com/fleet.git".parse().unwrap();
        let options = crate::Options::new(url, "main", "state");
        for (name, value) in [
            ("time of a conversation", options.timeout.as_secs()),
            ("bytes of a conversation", options.limits.received_bytes),
            ("bytes before a pack", BEFORE_THE_PACK),
            ("size of a loose object", crate::loose::LARGEST),
            ("files compared with a work tree", crate::clone::COMPARED as u64),
        ] {
            let row = format!("| {name} | {value} | ");
            assert!(page.contains(&row), "{row}");
        }
    }

    #[test]
    fn each_phase_has_a_limit_of_its_own() {
        let mib = 1 << 20;
        let budget = Budget::new(Duration::from_mins(1), 100 << 20, CancellationToken::new());
        assert!(budget.receive(20 * mib));
        budget.begin_negotiation();
        assert!(budget.receive(30 * mib));
        budget.begin_pack();
        assert!(budget.receive(50 * mib));
        assert!(!budget.receive(1));
        assert_eq!(budget.spent(), Some(Spent::Bytes(100 << 20)));
        let endless = Budget::new(Duration::from_mins(1), 100 << 20, CancellationToken::new());
        assert!(endless.receive(32 * mib));
        assert!(!endless.receive(1), "branches without end");
    }

    #[test]
    fn the_first_reason_to_end_is_told() {
        let cancel = CancellationToken::new();
        let budget = Budget::new(Duration::ZERO, 1, cancel.clone());
        assert!(!budget.goes_on());
        cancel.cancel();
        assert!(!budget.receive(2));
        assert_eq!(budget.spent(), Some(Spent::Time));
    }
}
