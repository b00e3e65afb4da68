//! What the other syncs of the run want: what moves to one of them has not left Git.

use std::sync::Arc;

use super::DesiredFeed;
use cutover_karmada::name::{ObjectKey, Revision};

/// The other syncs of the run.
#[derive(Debug, Default)]
pub(super) struct Siblings {
    own: Option<String>,
    /// Those of the run; the own one may be among them.
    feeds: Arc<[(String, DesiredFeed)]>,
}

impl Siblings {
    /// `own`: which sync has these siblings. It knows none of them yet.
    pub(super) fn of(own: Option<String>) -> Self {
        Self {
            own,
            ..Self::default()
        }
    }

    pub(super) fn know(&mut self, feeds: Arc<[(String, DesiredFeed)]>) {
        self.feeds = feeds;
    }

    /// Says why another sync may want what this one doesn't.
    pub(super) fn undecided(&self, revision: &Revision) -> Option<String> {
        self.others().find_map(|(name, feed)| {
            let Some(desired) = feed.latest().filter(|desired| desired.revision == *revision) else {
                return Some(format!("sync {name} has not read this commit yet"));
            };
            let doubt = desired.doubt.as_ref()?;
            Some(format!("sync {name} may want it: {doubt}"))
        })
    }

    /// Returns whether another sync wants an object.
    pub(super) fn want(&self, key: &ObjectKey) -> bool {
        let wants = |feed: &DesiredFeed| {
            feed.latest()
                .is_some_and(|desired| desired.objects.contains_key(key))
        };
        self.others().any(|(_, feed)| wants(feed))
    }

    fn others(&self) -> impl Iterator<Item = &(String, DesiredFeed)> {
        self.feeds
            .iter()
            .filter(|(name, _)| self.own.as_ref() != Some(name))
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;

    use super::*;

    #[test]
    fn as_long_as_another_sync_has_not_read_a_commit_it_may_want_anything() {
        let revision: Revision = "a".repeat(40).parse().unwrap();
        let (_sender, unread) = watch::channel(None);
        let feed = |name: &str| (name.to_owned(), DesiredFeed(unread.clone()));
        let mut siblings = Siblings::of(Some("main".to_owned()));
        assert_eq!(siblings.undecided(&revision), None);
        siblings.know(Arc::new([feed("main")]));
        assert_eq!(siblings.undecided(&revision), None);
        siblings.know(Arc::new([feed("main"), feed("other")]));
        assert_eq!(
            siblings.undecided(&revision),
            Some("sync other has not read this commit yet".to_owned())
        );
    }
}
