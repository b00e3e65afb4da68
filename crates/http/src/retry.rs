//! Whether a request is sent again, and when.

use std::time::Duration;

use backon::Retryable;

use super::Backoff;

/// How often a request is sent, and how long one answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The first one included.
    pub attempts: u32,
    pub backoff: Backoff,
    /// For one attempt: from connecting to the last byte of the answer.
    pub timeout: Duration,
}

/// What the outcome of an attempt says about another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    No,
    /// After the next delay.
    Soon,
    /// The server says when.
    After(Duration),
}

impl Retry {
    /// Returns how long to wait, given the delay whose turn it is. `None` if there is to be no other attempt.
    ///
    /// A server is asked somewhat later than it says: it has said the same to others.
    pub fn wait(self, delay: Duration) -> Option<Duration> {
        match self {
            Self::No => None,
            Self::Soon => Some(delay),
            Self::After(wait) => Some(wait.saturating_add(delay)),
        }
    }
}

impl RetryPolicy {
    /// Sends until an attempt succeeds, `retry` says that another one makes no sense, or there have been enough.
    pub async fn run<T, E, F>(&self, send: impl FnMut() -> F, retry: impl Fn(&E) -> Retry) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let further = self.attempts.saturating_sub(1);
        let backoff = self.backoff.builder();
        send.retry(backoff.with_max_times(usize::try_from(further).unwrap_or(usize::MAX)))
            .adjust(|error, delay| retry(error).wait(delay?))
            .await
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    const POLICY: RetryPolicy = RetryPolicy {
        attempts: 4,
        backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(2)),
        timeout: Duration::from_secs(10),
    };

    /// Fails as often as there are answers; returns how often it was sent and how long that took.
    async fn sent(answers: &[Retry]) -> (Result<(), Retry>, usize, Duration) {
        let (begun, count) = (Instant::now(), Cell::new(0));
        let send = || async {
            count.set(count.get() + 1);
            answers.get(count.get() - 1).map_or(Ok(()), |retry| Err(*retry))
        };
        let outcome = POLICY.run(send, |retry| *retry).await;
        (outcome, count.get(), begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_with_a_success_a_refusal_or_their_number() {
        assert_eq!(sent(&[]).await, (Ok(()), 1, Duration::ZERO));
        let (outcome, count, took) = sent(&[Retry::Soon, Retry::Soon]).await;
        assert_eq!((outcome, count), (Ok(()), 3));
        assert!(
            (Duration::from_millis(1500)..=Duration::from_millis(3002)).contains(&took),
            "{took:?}"
        );
        let (outcome, count, _) = sent(&[Retry::Soon, Retry::No, Retry::Soon]).await;
        assert_eq!((outcome, count), (Err(Retry::No), 2));
        let (outcome, count, _) = sent(&[Retry::Soon; 9]).await;
        assert_eq!((outcome, count), (Err(Retry::Soon), 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_when_is_asked_somewhat_later() {
        let (outcome, count, took) = sent(&[Retry::After(Duration::from_mins(1))]).await;
        assert_eq!((outcome, count), (Ok(()), 2));
        assert!(
            (Duration::from_millis(60_500)..=Duration::from_millis(61_002)).contains(&took),
            "{took:?}"
        );
        assert_eq!(
            Retry::After(Duration::MAX).wait(Duration::from_secs(1)),
            Some(Duration::MAX)
        );
    }
}
