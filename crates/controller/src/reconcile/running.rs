//! The loops at work, and how they end: nothing new begins, what is under way ends, how things stand is published once more.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use cutover_leadership::Leadership;

/// The part of the grace period that the loops may take to end; the publisher has the next fifth, the lease the rest.
const LOOPS: f64 = 0.6;
const PUBLISHER: f64 = 0.2;

/// How long is waited for loops that only compute: they write nothing any more, and nothing of theirs is lost.
const COMPUTING: Duration = Duration::from_secs(1);

/// What makes a reconciler stop.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) cancel: CancellationToken,
    /// How long it may take from then on.
    pub(super) grace: Duration,
    pub(super) leadership: Leadership,
}

impl Stop {
    /// Returns when the reconciler is to stop, and what goes on all the same isn't waited for any longer: some part of the grace
    /// period for what is under way, and hardly at all for what only computes.
    pub(super) async fn leave(&self, part: f64) {
        self.cancel.cancelled().await;
        self.leadership.close();
        tokio::select! {
            () = tokio::time::sleep(self.grace.mul_f64(part)) => {}
            () = self.leadership.at_rest(COMPUTING) => {}
        }
    }
}

/// Does something as a task of its own: computing in it keeps nobody from leaving it. Dropped, it is left too.
pub(super) async fn apart<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Option<T> {
    let mut task = JoinSet::new();
    task.spawn(work);
    match task.join_next().await? {
        Ok(done) => Some(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => None,
        },
    }
}

/// Loops that have been started.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// Tells the loops to end.
    stop: CancellationToken,
    loops: JoinSet<()>,
    /// Tells the publisher to publish once more, and to end.
    finish: CancellationToken,
    publisher: JoinSet<()>,
}

impl Running {
    pub(super) fn spawn<F>(&mut self, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.loops.spawn(work(self.stop.clone()));
    }

    pub(super) fn publish<F>(&mut self, work: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.publisher.spawn(work(self.finish.clone()));
    }

    /// Ends when a loop does that nobody told to: half a reconciler is worse than one that is started anew.
    pub(super) async fn broken(&mut self) {
        tokio::select! {
            Some(_) = self.loops.join_next() => {}
            Some(_) = self.publisher.join_next() => {}
            else => std::future::pending().await,
        }
    }

    /// Ends the loops in order, and as fast as they can once the reconciler is to stop; what takes too long then is left.
    pub(super) async fn end(mut self, stop: &Stop) {
        self.stop.cancel();
        tokio::select! {
            () = all(&mut self.loops) => {}
            () = stop.leave(LOOPS) => {
                tracing::warn!("unfinished work was left; the next run continues from there");
                // Those that compute don't hear of it before they are done.
                self.loops.abort_all();
            }
        }
        self.finish.cancel();
        let late = async {
            stop.cancel.cancelled().await;
            tokio::time::sleep(stop.grace.mul_f64(PUBLISHER)).await;
        };
        tokio::select! {
            () = all(&mut self.publisher) => {}
            () = late => tracing::warn!("the status could not be published a last time"),
        }
    }
}

async fn all(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;
    use cutover_cluster::off_the_runtime;

    const GRACE: Duration = Duration::from_mins(10);

    fn stop() -> Stop {
        Stop {
            cancel: CancellationToken::new(),
            grace: GRACE,
            leadership: Leadership::unbounded(),
        }
    }

    /// Computes until the other end of a channel is dropped.
    fn computes(done: mpsc::Receiver<()>) {
        let _ = off_the_runtime(|| done.recv());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_only_computes_is_not_waited_for() {
        let (stop, begun) = (stop(), Instant::now());
        let (_left, done) = mpsc::channel();
        let mut running = Running::default();
        running.spawn(|_| async move { computes(done) });
        stop.cancel.cancel();
        running.end(&stop).await;
        assert!(begun.elapsed() < GRACE / 10, "{:?}", begun.elapsed());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn work_that_is_done_once_is_left_while_it_computes() {
        let (stop, begun) = (stop(), Instant::now());
        let (_left, done) = mpsc::channel();
        stop.cancel.cancel();
        tokio::select! {
            _ = apart(async move { computes(done) }) => panic!("it has ended"),
            () = stop.leave(1.0) => {}
        }
        assert!(begun.elapsed() < GRACE / 10, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_is_waited_for() {
        let stop = stop();
        let write = stop.leadership.write().unwrap();
        let (answered, answer) = tokio::sync::oneshot::channel::<()>();
        let mut running = Running::default();
        running.spawn(|_| async move {
            let _ = answer.await;
            drop(write);
        });
        stop.cancel.cancel();
        let begun = tokio::time::Instant::now();
        let answers = async {
            tokio::time::sleep(GRACE / 2).await;
            let _ = answered.send(());
        };
        tokio::join!(running.end(&stop), answers);
        assert_eq!(begun.elapsed(), GRACE / 2);
    }
}
