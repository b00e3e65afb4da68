//! Which objects are members of this sync's set.
//!
//! What is a member says the label in the API server, and where to look says the set's parent there, which is written
//! before the first of them is applied: nothing that a restart would forget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::pruner::Pruner;
use super::{DesiredFeed, LISTED_WITHIN, Sync};
use cutover_cluster::{self as cluster, KindState};
use cutover_core::api::OWN_NAMESPACE;
use cutover_core::plan::applyset::{Approved, PART_OF_LABEL, Record, part_of};
use cutover_karmada::name::{GroupKind, ObjectKey, Revision};

impl Sync {
    /// Tells this sync what the syncs of the run want; itself may be among them.
    pub fn beside(&mut self, siblings: Arc<[(String, DesiredFeed)]>) {
        self.siblings.know(siblings);
    }

    /// Records where members may be, before the first of them is applied.
    pub(super) async fn record_members(&mut self) {
        let kinds = self.source.kinds().iter().map(GroupKind::from).collect();
        let Some(pruner) = self.pruner.as_mut().filter(|pruner| pruner.stale) else {
            return;
        };
        let namespaces = self.placed.namespaces(OWN_NAMESPACE);
        match pruner.cover(&self.cluster, &kinds, &namespaces).await {
            Ok(()) => {
                pruner.stale = false;
                pruner.trouble = None;
                pruner.watch(&self.cluster, &self.observer).await;
                self.observer.heard(LISTED_WITHIN).await;
            }
            Err(trouble) => {
                tracing::warn!(sync = pruner.sync, %trouble, "nothing is pruned");
                pruner.trouble = Some(trouble);
            }
        }
    }

    /// Reads what there is to know for a plan, and writes nothing.
    pub(super) async fn look_for_members(&mut self) {
        let Some(pruner) = &mut self.pruner else { return };
        match cluster::read_parent(&self.cluster, &pruner.sync).await {
            Ok(parent) => {
                pruner.parent = parent.into();
                pruner.watch(&self.cluster, &self.observer).await;
            }
            Err(error) => pruner.trouble = Some(error.into()),
        }
    }

    /// Reads what the other syncs want, when there is something that they may want.
    pub(super) async fn look_beside(&mut self, revision: &Revision) {
        let Some(pruner) = self.pruner.as_ref().filter(|pruner| !pruner.strays.is_empty()) else {
            return;
        };
        let config = Arc::clone(&self.source.selection.config);
        let mut siblings = Vec::new();
        for other in config.syncs.iter().filter(|other| other.name != pruner.sync) {
            let selection = self.source.selection.beside(other);
            let repo = self.source.repo.clone();
            let mut sync = Self::new(repo, self.cluster.clone(), self.observer.clone(), selection);
            let feed = sync.desired();
            if let Err(error) = sync.advance(revision).await {
                tracing::debug!(sync = other.name, %error, "cannot be read");
            }
            siblings.push((other.name.clone(), feed));
        }
        self.beside(siblings.into());
    }

    /// Looks through the kinds that nobody has looked through yet.
    pub(super) fn scan(&mut self) {
        let Some(pruner) = &mut self.pruner else { return };
        let kinds = pruner
            .record()
            .map(|record| record.kinds.clone())
            .unwrap_or_default();
        for kind in kinds {
            let known = self.observer.state(&kind.group, &kind.kind);
            if pruner.scanned.contains(&kind) || !matches!(known, Some(KindState::Synced { .. })) {
                continue;
            }
            let members = self
                .observer
                .labelled(&kind.group, &kind.kind, PART_OF_LABEL, &pruner.id);
            let unwanted = members.into_iter().filter(|key| !self.placed.may_want(key));
            pruner.strays.extend(unwanted);
            pruner.scanned.insert(kind);
        }
        let placed = &self.placed;
        pruner.strays.retain(|key| !placed.objects.contains_key(key));
        let observer = &self.observer;
        let is_there = |key: &ObjectKey, uid: &str| {
            observer
                .get(key)
                .is_some_and(|live| live["metadata"]["uid"].as_str() == Some(uid))
        };
        pruner.gone.retain(|key, uid| is_there(key, uid));
    }

    /// Returns the live members that nobody wants.
    pub(super) fn strays(&self, pruner: &Pruner) -> BTreeMap<ObjectKey, Arc<Value>> {
        let mut strays = BTreeMap::new();
        for key in &pruner.strays {
            if self.placed.may_want(key) || self.source.mentions(key) || self.siblings.want(key) {
                continue;
            }
            let Some(live) = self.observer.get(key) else {
                continue;
            };
            let uid = live["metadata"]["uid"].as_str();
            if part_of(&live) == Some(&pruner.id) && pruner.gone.get(key).map(String::as_str) != uid {
                strays.insert(key.clone(), live);
            }
        }
        strays
    }

    /// Takes out of the parent what there is nothing of any more.
    pub(super) async fn tidy_parent(&mut self) {
        let in_doubt = |sync: &Self| {
            let revision = sync.source.revision.clone();
            let pruner = sync.pruner.as_ref();
            pruner
                .zip(revision)
                .is_none_or(|(pruner, revision)| sync.doubt(pruner, &revision).is_some())
        };
        if !self.pruner.as_ref().is_some_and(|pruner| pruner.untidy) || in_doubt(self) {
            return;
        }
        let kinds: BTreeSet<GroupKind> = self.source.kinds().iter().map(GroupKind::from).collect();
        let namespaces = self.placed.namespaces(OWN_NAMESPACE);
        let Some(pruner) = &mut self.pruner else { return };
        let Some(said) = pruner.record().cloned() else {
            return;
        };
        pruner.untidy = false;
        let mut record = Record {
            approved: Approved::default(),
            ..said.clone()
        };
        let mut taken = namespaces;
        record.kinds.retain(|kind| {
            if kinds.contains(kind) {
                return true;
            }
            let members = self
                .observer
                .labelled(&kind.group, &kind.kind, PART_OF_LABEL, &pruner.id);
            let any = !members.is_empty();
            taken.extend(members.into_iter().filter_map(|key| key.namespace));
            any
        });
        let strays = pruner
            .strays
            .iter()
            .filter(|key| self.observer.get(key).is_some());
        taken.extend(strays.filter_map(|key| key.namespace.clone()));
        record.namespaces.retain(|namespace| taken.contains(namespace));
        if record != said
            && let Err(error) = pruner.write(&self.cluster, &record).await
        {
            tracing::debug!(%error, "the record of a set cannot be tidied up");
            (pruner.stale, pruner.untidy) = (true, true);
        }
    }
}
