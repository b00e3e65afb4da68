//! How often the operator works on one resource: `LinearRateLimiter` of java-operator-sdk@5.2.2, which
//! flink-kubernetes-operator@1.15.0 takes (`FlinkOperatorConfiguration.getRateLimiter`).

use std::time::Duration;

use tokio::time::Instant;

use crate::member::RateLimit;

/// The passes over one resource in the current period.
pub struct Rate {
    limit: Option<RateLimit>,
    since: Instant,
    passes: u32,
}

impl Rate {
    pub fn new(limit: Option<RateLimit>) -> Self {
        Self {
            limit,
            since: Instant::now(),
            passes: 0,
        }
    }

    /// Counts a pass; or returns how long to wait before it is asked again, where there were too many. That is as long as the period has
    /// lasted so far, not what is left of it: a pass begins within two periods.
    pub fn wait(&mut self) -> Option<Duration> {
        let limit = self.limit?;
        if self.passes >= limit.passes {
            let lasted = self.since.elapsed();
            if lasted <= limit.period {
                return Some(lasted.max(Duration::from_millis(1)));
            }
            (self.since, self.passes) = (Instant::now(), 0);
        }
        self.passes += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_five_passes_it_waits_for_as_long_as_the_period_has_lasted() {
        let mut rate = Rate::new(Some(RateLimit::INSTALLED));
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert_eq!([(); 5].map(|()| rate.wait()), [None; 5]);
        let mut waited = Duration::ZERO;
        while let Some(wait) = rate.wait() {
            waited += wait;
            tokio::time::sleep(wait).await;
        }
        // 9 s, which makes 18 s since the period began.
        assert_eq!(waited.as_secs(), 9);
        assert_eq!(rate.wait(), None);
        assert_eq!(Rate::new(None).wait(), None);
    }
}
