//! The loops at work, and how they end: nothing new begins, what is under way ends, how things stand is published once more.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use cutover_tenure::Tenure;

/// The part of the grace period that the loops may take to end; the publisher has the next fifth, the lease the rest.
const LOOPS: f64 = 0.6;
const PUBLISHER: f64 = 0.2;

/// What makes a reconciler stop.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) cancel: CancellationToken,
    /// How long it may take from then on.
    pub(super) grace: Duration,
    pub(super) tenure: Tenure,
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
        let limit = |part: f64| async move {
            stop.cancel.cancelled().await;
            stop.tenure.close();
            tokio::time::sleep(stop.grace.mul_f64(part)).await;
        };
        self.stop.cancel();
        tokio::select! {
            () = all(&mut self.loops) => {}
            () = limit(LOOPS) => {
                tracing::warn!("what was under way has been left; the next run goes on from there");
                self.loops.shutdown().await;
            }
        }
        self.finish.cancel();
        tokio::select! {
            () = all(&mut self.publisher) => {}
            () = limit(PUBLISHER) => tracing::warn!("the status could not be published a last time"),
        }
    }
}

async fn all(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}
