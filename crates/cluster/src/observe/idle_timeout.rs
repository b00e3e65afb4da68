//! Ends a watch that has fallen silent. A connection that was lost without a word looks like a kind to which nothing
//! happens; but an API server sends a bookmark every minute.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use kube::client::Body as Answer;
use tokio::time::{Instant, Sleep};

/// The answer to a watch, which ends when nothing has come for too long. Who reads it watches again from where it was.
pub(super) struct IdleTimeout {
    answer: Answer,
    limit: Duration,
    ends: Option<Pin<Box<Sleep>>>,
}

impl IdleTimeout {
    /// Returns an answer that may be silent for so long; for ever without a limit.
    pub(super) fn new(answer: Answer, limit: Option<Duration>) -> Self {
        Self {
            answer,
            limit: limit.unwrap_or_default(),
            ends: limit.map(|limit| Box::pin(tokio::time::sleep(limit))),
        }
    }
}

impl Body for IdleTimeout {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, kube::Error>>> {
        let limit = self.limit;
        if let Poll::Ready(frame) = Pin::new(&mut self.answer).poll_frame(context) {
            if let Some(ends) = &mut self.ends {
                ends.as_mut().reset(Instant::now() + limit);
            }
            return Poll::Ready(frame);
        }
        match &mut self.ends {
            Some(ends) => ends.as_mut().poll(context).map(|()| {
                tracing::debug!(?limit, "a watch has gone silent");
                None
            }),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use kube::client::Body as Answer;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_there_is_read_and_then_it_ends() {
        let mut idle_timeout = IdleTimeout::new(Answer::from(b"x".to_vec()), Some(Duration::from_secs(75)));
        let read = idle_timeout.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(read, "x");
        assert!(idle_timeout.frame().await.is_none());
    }
}
