//! The templates that Git wants, as the syncs of a run have read them.

use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt};

use super::intents::{Templates, Wanted};
use super::sync::DesiredFeed;
use cutover_core::error::Error;
use cutover_core::manifest::Entry;
use cutover_karmada::name::{GroupKind, ObjectKey};

/// What every sync of a run wants.
#[derive(Clone, Debug)]
pub(super) struct AllTemplates(pub(super) Vec<DesiredFeed>);

impl Templates for AllTemplates {
    /// While one sync has read nothing yet, it can't be told whether Git wants a template to change.
    fn template(&self, key: &ObjectKey) -> Result<Option<Wanted>, Error> {
        let mut found = None;
        for feed in &self.0 {
            found = found.or(feed.template(key)?);
        }
        Ok(found)
    }

    fn of_kind(&self, kind: &GroupKind, namespace: &str) -> Result<Vec<Arc<Entry>>, Error> {
        let all = self.0.iter().map(|feed| feed.of_kind(kind, namespace));
        Ok(all.collect::<Result<Vec<_>, _>>()?.concat())
    }

    fn revision(&self) -> Option<String> {
        self.0.iter().find_map(Templates::revision)
    }

    fn news(&self) -> BoxStream<'static, ()> {
        futures::stream::select_all(self.0.iter().map(Templates::news)).boxed()
    }

    fn file(&self, key: &ObjectKey) -> Option<String> {
        self.0.iter().find_map(|feed| feed.file(key))
    }
}
