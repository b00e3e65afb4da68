//! The right to write: held only for as long as certainly nobody else has it.
//!
//! Whoever writes asks here first, at each attempt; it costs no request, and compares no clocks of different machines.
//! How the right is won, kept and given back is the business of `reconcile::lease`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Why a write was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("not sent: cutover is stopping")]
    Closing,
    #[error("not sent: another cutover may lead by now")]
    Over,
}

/// A time of leading. Clones are the same one; once over it never comes back.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<State>);

#[derive(Debug)]
struct State {
    /// `None`: for as long as nobody ends it.
    until: Mutex<Option<Until>>,
    closing: CancellationToken,
    over: CancellationToken,
    /// How much is under way that is worth waiting for.
    under_way: watch::Sender<usize>,
}

/// Something that is under way: a write that is sent and not answered, for one. Dropped, it has ended.
#[must_use]
#[derive(Debug)]
pub struct UnderWay(Arc<State>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.send_modify(|count| *count -= 1);
    }
}

#[derive(Clone, Copy, Debug)]
struct Until {
    from: Mark,
    lasts: Duration,
}

impl Leadership {
    /// Begins one that only [`Leadership::close`] and [`Leadership::end`] bound: nobody else is there to lead.
    pub fn unbounded() -> Self {
        Self::new(None)
    }

    /// Begins one that is over when so much time has passed since the mark, unless it is extended before.
    pub fn lasting(from: Mark, lasts: Duration) -> Self {
        Self::new(Some(Until { from, lasts }))
    }

    fn new(until: Option<Until>) -> Self {
        Self(Arc::new(State {
            until: Mutex::new(until),
            closing: CancellationToken::new(),
            over: CancellationToken::new(),
            under_way: watch::Sender::new(0),
        }))
    }

    /// Counts its time from a later mark. What is over stays over.
    pub fn extend(&self, from: Mark, lasts: Duration) {
        if !self.is_over() {
            *self.until() = Some(Until { from, lasts });
        }
    }

    /// Lets no further write to the control plane begin; what is under way ends, and status may still be published.
    pub fn close(&self) {
        self.0.closing.cancel();
    }

    /// Lets nothing begin any more.
    pub fn end(&self) {
        self.0.over.cancel();
        self.close();
    }

    /// Must be asked before each attempt to write to the control plane.
    pub fn may_write(&self) -> Result<(), Refused> {
        self.may_publish()?;
        if self.is_closing() {
            return Err(Refused::Closing);
        }
        Ok(())
    }

    /// Begins an attempt to write to the control plane, if it may be; it is waited for.
    pub fn write(&self) -> Result<UnderWay, Refused> {
        // Counted before it is asked: none begins behind the back of who has closed it and counts.
        let write = self.begin();
        self.may_write().map(|()| write)
    }

    /// Begins something else that is waited for.
    pub fn begin(&self) -> UnderWay {
        self.0.under_way.send_modify(|count| *count += 1);
        UnderWay(Arc::clone(&self.0))
    }

    /// Waits until no further write may begin, and nothing has been under way for a while: who has not ended by then computes.
    pub async fn at_rest(&self, pause: Duration) {
        self.closed().await;
        let mut under_way = self.0.under_way.subscribe();
        loop {
            // The sender is in here: it is never gone.
            let _ = under_way.wait_for(|count| *count == 0).await;
            tokio::select! {
                biased;
                _ = under_way.wait_for(|count| *count > 0) => {}
                () = tokio::time::sleep(pause) => return,
            }
        }
    }

    /// Must be asked before each attempt to push status.
    pub fn may_publish(&self) -> Result<(), Refused> {
        if self.is_over() {
            return Err(Refused::Over);
        }
        Ok(())
    }

    pub fn is_closing(&self) -> bool {
        self.0.closing.is_cancelled()
    }

    pub fn is_over(&self) -> bool {
        if self.remaining().is_some_and(|left| left.is_zero()) {
            self.end();
        }
        self.0.over.is_cancelled()
    }

    /// Returns how much time is left; `None` when that isn't bounded.
    pub fn remaining(&self) -> Option<Duration> {
        let until = (*self.until())?;
        Some(until.lasts.saturating_sub(until.from.elapsed()))
    }

    /// Waits until no further write may begin.
    pub async fn closed(&self) {
        self.0.closing.cancelled().await;
    }

    fn until(&self) -> std::sync::MutexGuard<'_, Option<Until>> {
        self.0.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Leadership {
    fn default() -> Self {
        Self::unbounded()
    }
}

/// A moment. The time since counts what the machine slept, for which its steady clock stands still: that is by how much
/// more its other clock, which goes on but can be set, has advanced.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Of tokio, so that tests can pause it.
    time: Instant,
    steady: std::time::Instant,
    wall: SystemTime,
}

impl Mark {
    pub fn now() -> Self {
        Self {
            time: Instant::now(),
            steady: std::time::Instant::now(),
            wall: SystemTime::now(),
        }
    }

    pub fn elapsed(self) -> Duration {
        let wall = self.wall.elapsed().unwrap_or_default();
        let slept = wall.saturating_sub(self.steady.elapsed());
        self.time.elapsed() + slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEN: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn leadership_ends_by_itself_and_stays_over() {
        let leadership = Leadership::lasting(Mark::now(), TEN);
        tokio::time::advance(TEN / 2).await;
        assert_eq!(leadership.may_write(), Ok(()));
        leadership.extend(Mark::now(), TEN);
        tokio::time::advance(TEN.saturating_sub(Duration::from_millis(50))).await;
        assert_eq!(leadership.may_write(), Ok(()));
        tokio::time::advance(Duration::from_millis(50)).await;
        assert_eq!(leadership.may_write(), Err(Refused::Over));
        leadership.extend(Mark::now(), TEN);
        assert_eq!(leadership.may_publish(), Err(Refused::Over));
    }

    #[tokio::test]
    async fn one_that_closes_publishes_but_writes_no_more() {
        let leadership = Leadership::unbounded();
        leadership.close();
        leadership.closed().await;
        assert_eq!(leadership.may_write(), Err(Refused::Closing));
        assert_eq!(leadership.may_publish(), Ok(()));
        leadership.end();
        assert_eq!(leadership.may_write(), Err(Refused::Over));
    }

    #[tokio::test(start_paused = true)]
    async fn it_rests_when_it_is_closed_and_nothing_has_been_under_way_for_a_while() {
        let (leadership, begun) = (Leadership::unbounded(), Instant::now());
        let write = leadership.write().unwrap();
        assert!(
            tokio::time::timeout(TEN, leadership.at_rest(Duration::ZERO))
                .await
                .is_err()
        );
        leadership.close();
        assert_eq!(leadership.write().err(), Some(Refused::Closing));
        let answered = async {
            tokio::time::sleep(TEN).await;
            drop(write);
            tokio::time::sleep(TEN / 2).await;
            let other = leadership.begin();
            tokio::time::sleep(TEN).await;
            drop(other);
        };
        let ((), ()) = tokio::join!(answered, leadership.at_rest(TEN));
        assert_eq!(begun.elapsed(), TEN * 4 + TEN / 2);
    }

    #[test]
    fn a_machine_that_slept_counts_the_time() {
        let slept = Mark {
            wall: SystemTime::now() - TEN,
            ..Mark::now()
        };
        assert!(slept.elapsed() >= TEN);
        let set_back = Mark {
            wall: SystemTime::now() + TEN,
            ..Mark::now()
        };
        assert!(set_back.elapsed() < TEN);
    }
}
