//! Tells people in the cluster that the status branch can't be written, and when it can be again. Syncs and intents go on
//! meanwhile; the log has every try.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::intents::events::{Events, Writing};
use super::lease::LeaseOptions;
use cutover_cluster::Cluster;
use cutover_core::api;
use cutover_core::error::{Error, Kind};
use cutover_core::report::EventRecord;
use cutover_forge::notify::Notifier;

/// Who is told, and what they know.
pub(super) struct Refusals {
    events: Events,
    _writing: Writing,
    /// The Lease of this reconciler, as the one object that stands for it; its namespace, if it has none.
    about: Value,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// What was told last and isn't over.
    told: Option<String>,
}

impl Refusals {
    pub(super) fn new(
        cluster: Cluster,
        notifier: Option<Notifier>,
        lease: Option<&LeaseOptions>,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    ) -> Self {
        let (events, writing) = Events::start(cluster, notifier);
        let about = match lease {
            Some(lease) => json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "namespace": lease.namespace, "name": lease.name,
            }),
            // Which may not be there: what is of cluster scope is told of in `default`.
            None => json!({"apiVersion": "v1", "kind": "Namespace", "name": api::OWN_NAMESPACE}),
        };
        Self {
            events,
            _writing: writing,
            about,
            clock,
            told: None,
        }
    }

    /// Tells of a refusal, once. What may come right by itself is no refusal.
    pub(super) fn failed(&mut self, error: &Error) {
        if error.kind() != Kind::Auth {
            return;
        }
        let hint = error
            .hint_text()
            .map_or_else(String::new, |hint| format!(" ({hint})"));
        let note = format!("the status branch can't be written; syncs go on: {error}{hint}");
        if self.told.as_ref() != Some(&note) {
            self.tell(EventRecord::new(true, "StatusRefused", &note));
            self.told = Some(note);
        }
    }

    /// Tells that it is over, if it was told that it began.
    pub(super) fn published(&mut self) {
        if self.told.take().is_some() {
            tracing::info!("the status is published again");
            self.tell(EventRecord::new(
                false,
                "StatusPublished",
                "the status branch is written again",
            ));
        }
    }

    fn tell(&self, told: EventRecord) {
        self.events.tell_about(self.about.clone(), told, (self.clock)());
    }
}

impl std::fmt::Debug for Refusals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusals")
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}
