//! Spares an API server that keeps failing: after some failures in a row, of all requests only one is sent after each
//! pause, and pauses grow; the others wait. The first success lets them all go.
//!
//! So what a reconciler asks of a server in trouble depends neither on how much it has to do nor on how fast it is refused.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::Limits;
use cutover_http::{Backoff, Delays};

/// The longest pause: how late it may be noticed that the server is well again.
const LONGEST: Duration = Duration::from_secs(5);

/// The request was not sent in time, because others before it had failed.
#[derive(Debug, thiserror::Error)]
#[error("not sent: the API server keeps failing, and is tried again only now and then")]
pub(super) struct CircuitOpen;

pub(super) struct CircuitBreaker {
    /// How many failures in a row are nothing unusual.
    free: u32,
    state: Mutex<State>,
    released: Notify,
}

struct State {
    /// In a row.
    failures: u32,
    /// Between the requests that are sent all the same.
    pauses: Delays,
    /// When one more request may be sent.
    next: Instant,
}

impl CircuitBreaker {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            free: limits.failures,
            state: Mutex::new(State {
                failures: 0,
                pauses: Backoff::new(limits.backoff, LONGEST).seeded(limits.seed),
                next: Instant::now(),
            }),
            released: Notify::new(),
        }
    }

    /// Waits until a request may be sent; fails when that can't be before the deadline.
    pub(super) async fn pass(&self, deadline: Instant) -> Result<(), CircuitOpen> {
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            let Some(turn) = self.turn() else {
                return Ok(());
            };
            if turn > deadline {
                return Err(CircuitOpen);
            }
            tokio::select! {
                () = released => {}
                () = tokio::time::sleep_until(turn) => {}
            }
        }
    }

    pub(super) fn succeeded(&self) {
        let mut state = self.state();
        let was_on = state.failures >= self.free;
        state.failures = 0;
        state.pauses.reset();
        drop(state);
        if was_on {
            self.released.notify_waiters();
        }
    }

    pub(super) fn failed(&self) {
        let mut state = self.state();
        state.failures = state.failures.saturating_add(1);
        if state.failures == self.free {
            tracing::warn!("the API server keeps failing: few requests are sent until it answers again");
            state.next = Instant::now() + state.pauses.next_delay();
        }
    }

    /// Takes the turn if it has come, else returns when it comes.
    fn turn(&self) -> Option<Instant> {
        let mut state = self.state();
        let now = Instant::now();
        if state.failures >= self.free {
            if now < state.next {
                return Some(state.next);
            }
            state.next = now + state.pauses.next_delay();
        }
        None
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn braked() -> CircuitBreaker {
        let limits = Limits::default();
        let circuit_breaker = CircuitBreaker::new(&limits);
        (0..limits.failures).for_each(|_| circuit_breaker.failed());
        circuit_breaker
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_keeps_failing_is_asked_ever_more_seldom() {
        let (circuit_breaker, begun) = (braked(), Instant::now());
        let mut sent = 0;
        while begun.elapsed() < Duration::from_mins(1) {
            circuit_breaker.pass(soon()).await.unwrap();
            circuit_breaker.failed();
            sent += 1;
        }
        assert!((15..=35).contains(&sent), "{sent}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_at_the_first_success_or_gives_up_at_the_deadline() {
        let circuit_breaker = std::sync::Arc::new(braked());
        for _ in 0..10 {
            circuit_breaker.pass(soon()).await.unwrap();
            circuit_breaker.failed();
        }
        assert!(
            circuit_breaker
                .pass(Instant::now() + Duration::from_secs(1))
                .await
                .is_err()
        );
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let circuit_breaker = std::sync::Arc::clone(&circuit_breaker);
                tokio::spawn(async move { circuit_breaker.pass(soon()).await.is_ok() })
            })
            .collect();
        tokio::task::yield_now().await;
        let before = Instant::now();
        circuit_breaker.succeeded();
        for waits in waiting {
            assert!(waits.await.unwrap());
        }
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_failures_slow_nothing_down() {
        let (circuit_breaker, begun) = (CircuitBreaker::new(&Limits::default()), Instant::now());
        for number in 0..1000 {
            circuit_breaker.pass(soon()).await.unwrap();
            if number % 5 == 0 {
                circuit_breaker.succeeded();
            } else {
                circuit_breaker.failed();
            }
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
