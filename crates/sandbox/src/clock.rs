//! The sandbox's time: tokio's clock, mapped to a calendar. Pausing tokio pauses it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Returns a time as objects show it: `metav1.Time` has no fractions of a second.
pub fn seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A clock that shows `start` at its creation and goes with tokio's.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Timestamp,
    begun: Instant,
}

impl Clock {
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            begun: Instant::now(),
        }
    }

    pub fn now(&self) -> Timestamp {
        SignedDuration::try_from(self.elapsed())
            .ok()
            .and_then(|elapsed| self.start.checked_add(elapsed).ok())
            .unwrap_or(self.start)
    }

    /// Returns the time since the creation of the clock.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Returns this clock as an API server takes it.
    pub fn for_server(self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        Arc::new(move || self.now())
    }
}
