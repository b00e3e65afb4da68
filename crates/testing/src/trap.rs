//! A controller that stands still at one line, as one does that is stopped or killed there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover_controller::reconcile::intents::{Failpoint, FailpointHook, Side};
use futures::future::BoxFuture;
use tokio::sync::Notify;

/// Stands still once, at the first point that is meant, and goes on when it is told.
pub struct Trap {
    is_meant: Box<dyn Fn(&Failpoint) -> bool + Send + Sync>,
    /// What was about to be written, or has just been, where it stands.
    at: Mutex<Option<String>>,
    sprung: Notify,
    goes_on: Notify,
    is_through: AtomicBool,
}

impl Trap {
    pub fn when(is_meant: impl Fn(&Failpoint) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            is_meant: Box::new(is_meant),
            at: Mutex::default(),
            sprung: Notify::new(),
            goes_on: Notify::new(),
            is_through: AtomicBool::new(false),
        })
    }

    /// Before the first write of an intent of this kind of which this is said.
    pub fn before(kind: &'static str, what: &'static str) -> Arc<Self> {
        Self::when(move |point| {
            point.intent.kind == kind && point.side == Side::Before && point.what.contains(what)
        })
    }

    /// Waits until it stands; once, and ten minutes at most in the time of the sandbox.
    ///
    /// # Panics
    /// When it never comes there.
    pub async fn sprung(&self, what: &str) {
        self.sprung_within(Duration::from_mins(10), what).await;
    }

    /// Waits until it stands; once.
    ///
    /// # Panics
    /// When it doesn't come there in time.
    pub async fn sprung_within(&self, limit: Duration, what: &str) {
        let sprung = tokio::time::timeout(limit, self.sprung.notified()).await;
        assert!(sprung.is_ok(), "never came to {what}");
    }

    /// Returns at what it stands, or stood.
    pub fn stands_at(&self) -> Option<String> {
        self.at.lock().unwrap().clone()
    }

    pub fn go_on(&self) {
        self.goes_on.notify_one();
    }

    /// Returns whether it has gone on.
    pub fn is_through(&self) -> bool {
        self.is_through.load(Ordering::SeqCst)
    }
}

impl FailpointHook for Trap {
    fn reached<'a>(&'a self, point: &'a Failpoint) -> BoxFuture<'a, ()> {
        // Asked of every point: it may count them.
        let is_meant = (self.is_meant)(point);
        let mut at = self.at.lock().unwrap();
        if !is_meant || at.is_some() {
            return Box::pin(std::future::ready(()));
        }
        *at = Some(point.what.clone());
        drop(at);
        self.sprung.notify_one();
        Box::pin(async {
            self.goes_on.notified().await;
            self.is_through.store(true, Ordering::SeqCst);
        })
    }
}
