//! Word of changes for those who look at everything when there is one.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::Change;

/// Tells that something has changed. What is to be looked at is in the cache: a hundred changes are one look.
#[derive(Debug)]
pub struct News(broadcast::Receiver<Change>);

impl News {
    pub(super) fn new(changes: broadcast::Receiver<Change>) -> Self {
        Self(changes)
    }

    /// Ends when there was a change that matters. Dropped before, it forgets none.
    pub async fn heard(&mut self, matters: impl Fn(&Change) -> bool) {
        loop {
            match self.0.recv().await {
                Ok(change) if !matters(&change) => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Forgets what has come so far. To be called before the look, so that what comes during it isn't lost.
    pub fn forget(&mut self) {
        self.0 = self.0.resubscribe();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use cutover_karmada::name::ObjectKey;

    fn change(kind: &str) -> Change {
        Change {
            key: ObjectKey {
                group: String::new(),
                kind: kind.to_owned(),
                namespace: None,
                name: "one".to_owned(),
            },
            gone: false,
        }
    }

    #[test]
    fn what_came_before_a_look_does_not_ask_for_another() {
        let sender = broadcast::Sender::new(8);
        let mut news = News::new(sender.subscribe());
        let is_news = |news: &mut News| {
            let heard = news.heard(|change| change.key.kind == "Claim");
            heard.now_or_never().is_some()
        };
        for kind in ["Claim", "Claim", "Claim"] {
            sender.send(change(kind)).unwrap();
        }
        assert!(is_news(&mut news));
        news.forget();
        assert!(!is_news(&mut news));

        sender.send(change("Work")).unwrap();
        assert!(!is_news(&mut news), "it doesn't matter");
        for _ in 0..20 {
            sender.send(change("Work")).unwrap();
        }
        assert!(is_news(&mut news), "what was missed may matter");
    }
}
