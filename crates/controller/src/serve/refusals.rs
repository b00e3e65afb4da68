//! What is logged of requests that are refused: a line a minute for each reason, however many there are.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Counts refusals. Whoever can send requests could else fill the disk that the logs are on.
#[derive(Debug)]
pub(super) struct Refusals {
    /// What the requests are for.
    what: &'static str,
    counted: Mutex<BTreeMap<&'static str, Counted>>,
}

#[derive(Debug)]
struct Counted {
    /// Since it was logged last.
    more: u64,
    logged: Instant,
}

impl Refusals {
    pub(super) const PERIOD: Duration = Duration::from_mins(1);

    pub(super) fn of(what: &'static str) -> Self {
        Self {
            what,
            counted: Mutex::default(),
        }
    }

    /// Logs the first refusal for a reason at once, and counts those that follow.
    pub(super) fn note(&self, reason: &'static str) {
        if self.counts_as_first(reason) {
            tracing::warn!("{}: {reason}", self.what);
        }
    }

    fn counts_as_first(&self, reason: &'static str) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = counted.get_mut(reason) {
            known.more += 1;
            return false;
        }
        let first = Counted {
            more: 0,
            logged: Instant::now(),
        };
        counted.insert(reason, first);
        true
    }

    /// Logs how many came since, and forgets what came no more.
    pub(super) fn report(&self) {
        for (reason, more) in self.due() {
            tracing::warn!(more, "{}: {reason}", self.what);
        }
    }

    fn due(&self) -> Vec<(&'static str, u64)> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        counted.retain(|reason, known| {
            if known.logged.elapsed() < Self::PERIOD {
                return true;
            }
            if known.more == 0 {
                return false;
            }
            due.push((*reason, std::mem::take(&mut known.more)));
            known.logged = Instant::now();
            true
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_a_line_a_minute_with_a_count() {
        let refusals = Refusals::of("webhooks");
        let lines = (0..1000).filter(|_| refusals.counts_as_first("forged")).count();
        assert_eq!(lines, 1);
        assert_eq!(refusals.due(), []);
        tokio::time::advance(Refusals::PERIOD).await;
        assert_eq!(refusals.due(), [("forged", 999)]);
        assert_eq!(refusals.due(), []);
        tokio::time::advance(Refusals::PERIOD).await;
        assert_eq!(refusals.due(), []);
        assert!(refusals.counts_as_first("forged"), "it had ended");
    }
}
