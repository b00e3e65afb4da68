//! Tells receivers by HTTP what happens: one after the other to each, behind a queue that nobody waits for.
//!
//! A notice is told once at most: what a receiver can't be told after some tries is lost, and a reconciler that starts anew
//! tells nothing again. The record of what happened is the status branch.

mod sender;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use cutover_core::config::{Filter, Receiver, Receivers};
use cutover_core::error::Error;
use cutover_core::report::Notice;
use cutover_http::RetryPolicy;
use sender::Sender;

pub use sender::RETRY_POLICY;

/// How many notices may wait for one receiver.
const QUEUE: usize = 256;

/// Where notices are left. Clones share the queues.
#[derive(Clone, Debug)]
pub struct Notifier {
    lines: Arc<Vec<Line>>,
    besides: Option<Besides>,
}

/// Says what isn't well beside what a notice is about, by its subject, `Migration shop/orders-to-west`, to who has such a filter.
#[derive(Clone)]
pub struct Besides(Arc<Says>);

type Says = dyn Fn(&str, &Filter) -> Option<String> + Send + Sync;

/// One receiver, and the way to it.
#[derive(Debug)]
struct Line {
    receiver: Receiver,
    queue: mpsc::Sender<Left>,
}

/// A notice that is to be sent, and who is asked then what to add.
#[derive(Debug)]
struct Left {
    notice: Notice,
    filter: Filter,
    besides: Option<Besides>,
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
        let notifier = Self {
            lines: Arc::new(lines),
            besides: None,
        };
        Ok((notifier, Sending(tasks)))
    }

    /// Adds to each notice what else isn't well, as that is when it is sent.
    #[must_use]
    pub fn with(self, besides: Besides) -> Self {
        Self {
            besides: Some(besides),
            ..self
        }
    }

    /// Leaves a notice for everybody whose filter lets it through.
    pub fn tell(&self, notice: &Notice) {
        for line in self
            .lines
            .iter()
            .filter(|line| notice.passes(&line.receiver.filter))
        {
            let left = Left {
                notice: notice.clone(),
                filter: line.receiver.filter.clone(),
                besides: self.besides.clone(),
            };
            if line.queue.try_send(left).is_err() {
                let receiver = &line.receiver.name;
                tracing::warn!(receiver, "a notice is lost: too many wait to be sent");
            }
        }
    }
}

impl Besides {
    pub fn new(says: impl Fn(&str, &Filter) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(says))
    }
}

impl std::fmt::Debug for Besides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Besides").finish_non_exhaustive()
    }
}

impl Left {
    fn into_notice(self) -> Notice {
        let besides = self
            .besides
            .and_then(|besides| (besides.0)(&self.notice.subject(), &self.filter));
        Notice {
            besides,
            ..self.notice
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
