//! Templates that ask for a move themselves, by an annotation: answered one after the other, from fresh reads.

use std::cell::LazyCell;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::gate::{CLUSTERS, get, list};
use super::report::Problem;
use super::{Sync, dirty::Dirty};
use crate::reconcile::intents::served;
use cutover_cluster::{Exactly, Mode, Written};
use cutover_core::api::{self, SYNC_MANAGER};
use cutover_core::config::Migrations;
use cutover_core::intent::driven;
use cutover_core::intent::gate::may_have_state;
use cutover_core::intent::requested::{self, ANSWER_ANNOTATION, Step, TARGET_ANNOTATION};
use cutover_core::plan::{Action, Change};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// A request has three steps; one more shows that there is nothing left.
const STEPS: usize = 4;

const AGAIN: &str = "remove the annotation, or let it name another cluster; to ask again, remove it and add it in a later push";

/// The templates that ask for something, or once did, and why the last attempt to answer failed.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<ObjectKey, Option<String>>);

impl Requests {
    /// Returns whether one could not be answered for a reason that passes.
    pub(super) fn want_again(&self) -> bool {
        self.0.values().any(Option::is_some)
    }

    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }
}

impl Sync {
    /// Takes in which of the objects that are looked at ask for a move.
    pub(super) fn note_requests(&mut self, keys: &Dirty) {
        for entry in keys.of(&self.placed.objects) {
            if !may_have_state(&entry.key) {
                continue;
            }
            let live = self.observer.get(&entry.key);
            let asks =
                live.is_some_and(|live| requested::is_open(&live) || requested::problem(&live).is_some());
            if asks {
                self.requests.0.entry(entry.key.clone()).or_default();
            } else {
                self.requests.0.remove(&entry.key);
            }
        }
    }

    /// Answers what is open.
    pub(super) async fn answer_requests(&mut self) {
        let is_open = |key: &&ObjectKey| {
            self.observer
                .get(key)
                .is_some_and(|live| requested::is_open(&live))
        };
        let open: Vec<ObjectKey> = self.requests.0.keys().filter(is_open).cloned().collect();
        for key in open {
            let failed = self.answer(&key).await.err();
            if let Some(why) = &failed {
                tracing::warn!(template = %key, why, "a request to move a workload cannot be answered");
            }
            self.requests.0.insert(key, failed);
        }
    }

    async fn answer(&self, key: &ObjectKey) -> Result<(), String> {
        let Some(entry) = self.placed.objects.get(key) else {
            return Ok(());
        };
        if requested::is_answered_in(&entry.value()) {
            return Err(format!(
                "Git has the annotation {ANSWER_ANNOTATION}, which is cutover's own: take it out of the file"
            ));
        }
        let settings = self.migrations();
        for _ in 0..STEPS {
            // Afresh: what was answered a moment ago, by another replica too, is not answered again.
            let namespace = key.namespace.as_deref();
            let template = get(&self.cluster, &entry.gvk, namespace, &key.name).await?;
            let Some(template) = template else {
                return Ok(());
            };
            let live: Vec<Value> = list(&self.cluster, api::API_VERSION, "Migration", namespace).await?;
            let clusters: Vec<Value> = list(&self.cluster, CLUSTERS, "Cluster", None).await?;
            let names = clusters
                .iter()
                .filter_map(|cluster| cluster["metadata"]["name"].as_str());
            let names: Vec<ClusterName> = names.map(ClusterName::from).collect();
            let Some(step) = requested::next(&template, &live, &names, &settings, Timestamp::now()) else {
                return Ok(());
            };
            if !self.take(&entry.gvk, &template, step).await? {
                // Another client changed it first: the watch reports that, and it is looked at again.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns whether it was done: not where the object is another one by now.
    async fn take(&self, gvk: &Gvk, template: &Value, step: Step) -> Result<bool, String> {
        let writer = self.cluster.writer(SYNC_MANAGER);
        let name = template["metadata"]["name"].as_str().unwrap_or_default();
        let served = async |gvk: &Gvk| {
            served(&self.cluster, gvk)
                .await
                .map_err(|error| error.to_string())
        };
        let (written, what) = match step {
            Step::Answer(patch, what) => {
                let (served, read) = (served(gvk).await?, Exactly::of(template));
                (writer.patch(&served, &read, &patch, Mode::Write).await, what)
            }
            Step::Create(migration) => {
                let served = served(&Gvk::new(api::API_VERSION, "Migration")).await?;
                let created = writer.create(&served, &migration, Mode::Write).await;
                (created, "the Migration is created".to_owned())
            }
        };
        match written.map_err(|error| error.to_string())? {
            Written::Done(_) => {
                tracing::info!(template = name, "{TARGET_ANNOTATION}: {what}");
                Ok(true)
            }
            Written::Exists(_) => Ok(true),
            Written::Precondition(_) => Ok(false),
        }
    }

    /// Returns the Migrations that planned changes of templates ask for.
    pub(super) fn requested_moves(&self, changes: &[Change]) -> Vec<Change> {
        let settings = self.migrations();
        let writes = changes.iter().filter(|change| {
            matches!(change.action, Action::Create | Action::Configure) && may_have_state(&change.key)
        });
        let moves = writes.filter_map(|change| {
            let migration = requested::planned(change.after.as_ref()?, change.before.as_ref(), &settings)?;
            Some(Change::set_off(driven::key_of(&migration)?, &migration, change))
        });
        moves.collect()
    }

    /// Returns how Migrations are carried out that no file asks for.
    pub(super) fn migrations(&self) -> Migrations {
        let own = self.source.selection.own();
        own.map(|own| own.gate.migrations.clone()).unwrap_or_default()
    }

    /// Returns which requests are not carried out, and why.
    pub(super) fn refused_requests(&self) -> Vec<Problem> {
        // Only what is not answered yet may wait for one.
        let migrations = LazyCell::new(|| self.observer.list(api::GROUP, "Migration"));
        let each = self.requests.0.iter().filter_map(|(key, failed)| {
            let live = self.observer.get(key);
            let refused = || live.as_deref().and_then(requested::problem);
            let (why, hint) = match failed.clone().or_else(refused) {
                Some(why) => (why, Some(AGAIN.to_owned())),
                None => {
                    let live = live.as_deref().filter(|live| requested::is_open(live))?;
                    let migrations = migrations.iter().map(|one| &**one);
                    (requested::awaits(live, migrations)?, None)
                }
            };
            let entry = self.placed.objects.get(key)?;
            Some(Problem {
                message: format!("{key} is not moved: {why}"),
                hint,
                at: Some(entry.source()),
            })
        });
        each.collect()
    }
}
