//! Tells receivers by HTTP what happens: one after the other to each, behind a queue that nobody waits for.
//!
//! A notice is told once at most: what a receiver can't be told after some tries is lost, and a reconciler that starts anew
//! tells nothing again. The record of what happened is the status branch.

mod sender;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use cutover_core::config::{Receiver, Receivers};
use cutover_core::error::Error;
use cutover_core::report::Notice;
use cutover_http::RetryPolicy;
use sender::Sender;

pub use sender::RETRY_POLICY;

/// How many notices may wait for one receiver.
const QUEUE: usize = 256;

/// Where notices are left. Clones share the queues.
#[derive(Clone, Debug)]
pub struct Notifier(Arc<Vec<Line>>);

/// One receiver, and the way to it.
#[derive(Debug)]
struct Line {
    receiver: Receiver,
    queue: mpsc::Sender<Notice>,
}

/// The tasks that send; dropped, what waits is lost.
#[derive(Debug)]
pub struct Sending(JoinSet<()>);

impl Notifier {
    /// Starts to send. `source` says which control plane notices are about, for instance its URL.
    pub fn start(receivers: Receivers, source: &str, policy: RetryPolicy) -> Result<(Self, Sending), Error> {
        let (mut lines, mut tasks) = (Vec::new(), JoinSet::new());
        for receiver in receivers.receivers {
            let (queue, waiting) = mpsc::channel(QUEUE);
            tasks.spawn(Sender::new(&receiver, source, policy)?.run(waiting));
            lines.push(Line { receiver, queue });
        }
        Ok((Self(Arc::new(lines)), Sending(tasks)))
    }

    /// Leaves a notice for everybody whose filter lets it through.
    pub fn tell(&self, notice: &Notice) {
        for line in self
            .0
            .iter()
            .filter(|line| line.receiver.filter.lets_through(notice))
        {
            if line.queue.try_send(notice.clone()).is_err() {
                let receiver = &line.receiver.name;
                tracing::warn!(receiver, "a notice is lost: too many wait to be sent");
            }
        }
    }
}

impl Sending {
    /// Ends when what is left has been sent, or after `limit`. All clones of [`Notifier`] must be gone.
    pub async fn end(mut self, limit: Duration) {
        let all = async { while self.0.join_next().await.is_some() {} };
        if tokio::time::timeout(limit, all).await.is_err() {
            tracing::warn!("notices that waited to be sent are lost");
        }
    }
}
