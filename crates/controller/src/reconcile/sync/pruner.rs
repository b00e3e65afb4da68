//! What a sync that prunes knows of its set: its parent and its strays.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::followed::Followed;
use super::standing::MOVING;
use cutover_cluster::{self as cluster, Cluster, Observer, Parent, Unusable};
use cutover_core::api::OWN_NAMESPACE;
use cutover_core::config::{self, PruneLimit};
use cutover_core::plan::applyset::{Record, parent_name, part_of, set_id};
use cutover_karmada::name::{GroupKind, ObjectKey};

/// How long a deletion is left alone that waits for a policy of which nothing is heard.
pub(super) const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// What a sync that prunes knows of its set.
#[derive(Debug)]
pub(super) struct Pruner {
    pub(super) sync: String,
    pub(super) id: String,
    pub(super) limit: PruneLimit,
    /// The repository and the branch, as the parent names them.
    pub(super) source: String,
    pub(super) parent: Known,
    /// Why the parent can't be used.
    pub(super) trouble: Option<Trouble>,
    /// It may not say yet where there are members.
    pub(super) stale: bool,
    /// Objects that may be members and that Git doesn't want.
    pub(super) strays: BTreeSet<ObjectKey>,
    /// Kinds whose objects have all been looked at.
    pub(super) scanned: BTreeSet<GroupKind>,
    /// The kinds of the parent.
    pub(super) followed: Followed,
    /// The uids of objects that are deleted and may still be in the cache.
    pub(super) gone: BTreeMap<ObjectKey, String>,
    /// Deletions that failed, until they are tried again.
    pub(super) failed: BTreeMap<ObjectKey, String>,
    pub(super) moving: Moving,
    /// Why Git could not be asked for its newest revision.
    pub(super) unreachable: Option<String>,
    /// What was deleted since this revision came.
    pub(super) deleted: BTreeSet<ObjectKey>,
    /// The parent may say more than there is.
    pub(super) untidy: bool,
    /// Something happened that pruning may depend on.
    pub(super) due: bool,
}

/// Deletions that wait for what is moved first, or for the policy that is to take workloads up. An intent says when that ends, and a policy
/// that comes is heard of; what waits for a turn is looked at again.
#[derive(Debug, Default)]
pub(super) struct Moving {
    by: BTreeMap<ObjectKey, String>,
    /// The policies that are to come.
    awaited: BTreeSet<ObjectKey>,
    again: Option<Instant>,
    /// How often such a policy was waited for since anything was heard.
    waits: u32,
}

impl Moving {
    pub(super) fn put(&mut self, by: BTreeMap<ObjectKey, String>, now: Instant) {
        if !by.is_empty() {
            self.by.extend(by);
            self.again = Some(now + MOVING);
        }
    }

    /// Has deletions wait for policies. Should nothing be heard of them, each look comes later than the one before.
    pub(super) fn wait_for(&mut self, awaiting: BTreeMap<ObjectKey, ObjectKey>, now: Instant) {
        if awaiting.is_empty() {
            return;
        }
        let delay = MOVING.saturating_mul(1 << self.waits.min(16)).min(LONGEST_WAIT);
        self.waits = self.waits.saturating_add(1);
        let at = now + delay;
        self.again = Some(self.again.map_or(at, |again| again.min(at)));
        for (key, first) in awaiting {
            self.by.insert(key, first.to_string());
            self.awaited.insert(first);
        }
    }

    /// Something happened to an object: forgets all of them if one waits for it, or is it; returns whether that is so.
    fn hear(&mut self, key: &ObjectKey) -> bool {
        let is_news = self.awaited.contains(key) || self.by.contains_key(key);
        if is_news {
            *self = Self::default();
        }
        is_news
    }

    /// Returns what the deletion of an object waits for.
    pub(super) fn of(&self, key: &ObjectKey) -> Option<&String> {
        self.by.get(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    /// Returns when they are looked at again.
    pub(super) const fn next_look(&self) -> Option<Instant> {
        self.again
    }

    /// Forgets all of them if it is time; returns whether it is.
    fn end(&mut self, now: Instant) -> bool {
        let is_time = self.again.is_some_and(|again| again <= now);
        if is_time {
            *self = Self {
                waits: self.waits,
                ..Self::default()
            };
        }
        is_time
    }
}

/// What is known of a parent.
#[derive(Debug)]
pub(super) enum Known {
    /// It has to be read.
    Unread,
    Absent,
    Read(Box<Parent>),
}

impl From<Option<Parent>> for Known {
    fn from(read: Option<Parent>) -> Self {
        read.map_or(Self::Absent, |parent| Self::Read(Box::new(parent)))
    }
}

impl Pruner {
    /// Returns what a sync begins with, if it prunes.
    pub(super) fn of(own: &config::Sync, source: String) -> Option<Self> {
        own.prune.then(|| Self {
            sync: own.name.clone(),
            id: set_id(&own.name),
            limit: own.prune_limit.clone(),
            source,
            parent: Known::Unread,
            trouble: None,
            stale: true,
            strays: BTreeSet::new(),
            scanned: BTreeSet::new(),
            followed: Followed::default(),
            gone: BTreeMap::new(),
            failed: BTreeMap::new(),
            moving: Moving::default(),
            unreachable: None,
            deleted: BTreeSet::new(),
            untidy: true,
            due: true,
        })
    }

    pub(super) const fn is_due(&self) -> bool {
        self.due || self.stale
    }

    /// Git has another revision.
    pub(super) fn advance(&mut self) {
        self.deleted.clear();
        self.untidy = true;
        self.failed.clear();
        self.moving = Moving::default();
        self.stale = true;
        self.due = true;
    }

    /// These objects are not in Git any more.
    pub(super) fn drop(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        self.strays.extend(keys);
        self.due = true;
    }

    /// Something happened to an object, whoever wants it: a deletion may have waited for it.
    pub(super) fn hear_awaited(&mut self, key: &ObjectKey) {
        self.due |= self.moving.hear(key);
    }

    /// Something happened to an object that Git doesn't want.
    pub(super) fn hear(&mut self, key: &ObjectKey, observer: &Observer) {
        let is_member = || {
            observer
                .get(key)
                .is_some_and(|live| part_of(&live) == Some(&self.id))
        };
        if self.strays.contains(key) {
            self.due = true;
        } else if is_member() {
            self.strays.insert(key.clone());
            self.due = true;
        }
    }

    /// Changes may have been missed.
    pub(super) fn hear_all(&mut self) {
        self.scanned.clear();
        self.moving = Moving::default();
        self.due = true;
    }

    /// What failed may be tried again.
    pub(super) fn try_again(&mut self) {
        self.failed.clear();
        self.due = true;
    }

    /// What waits for Migrations may have its turn by now.
    pub(super) fn tick(&mut self, now: Instant) {
        self.due |= self.moving.end(now);
    }

    pub(super) fn parent(&self) -> Option<&Parent> {
        match &self.parent {
            Known::Read(parent) => Some(parent),
            Known::Unread | Known::Absent => None,
        }
    }

    pub(super) fn record(&self) -> Option<&Record> {
        Some(&self.parent()?.record)
    }

    /// Says why objects of a kind must not be applied: nothing would find them again.
    pub(super) fn unrecorded(&self, kind: &GroupKind) -> Option<String> {
        let is_recorded = self.record().is_some_and(|record| record.kinds.contains(kind));
        match &self.trouble {
            // A plan records nothing, and neither does it apply.
            None => None,
            Some(Trouble::Unusable(_)) if is_recorded => None,
            Some(why) => Some(format!("what this sync applies cannot be recorded: {why}")),
        }
    }

    /// Makes the parent say at least this, before anything of it is applied.
    pub(super) async fn cover(
        &mut self,
        cluster: &Cluster,
        kinds: &BTreeSet<GroupKind>,
        namespaces: &BTreeSet<String>,
    ) -> Result<(), Trouble> {
        const TRIES: usize = 3;
        for _ in 0..TRIES {
            if matches!(self.parent, Known::Unread) {
                self.parent = cluster::read_parent(cluster, &self.sync).await?.into();
            }
            let before = self.parent();
            let mut record = before.map(|parent| parent.record.clone()).unwrap_or_default();
            if !record.source.is_empty() && record.source != self.source {
                self.parent = Known::Unread;
                return Err(Trouble::Taken {
                    by: record.source,
                    parent: parent_name(&self.sync),
                });
            }
            let said = record.clone();
            record.sync.clone_from(&self.sync);
            record.source.clone_from(&self.source);
            record.kinds.extend(kinds.iter().cloned());
            record.namespaces.extend(namespaces.iter().cloned());
            if before.is_some() && record == said {
                return Ok(());
            }
            match self.write(cluster, &record).await {
                Err(Unusable::Changed(_)) => {}
                other => return Ok(other?),
            }
        }
        Err(Unusable::Changed(parent_name(&self.sync)).into())
    }

    pub(super) async fn write(&mut self, cluster: &Cluster, record: &Record) -> Result<(), Unusable> {
        match cluster::write_parent(cluster, self.parent(), record).await {
            Ok(parent) => {
                self.parent = Some(parent).into();
                Ok(())
            }
            Err(error) => {
                // Whatever it says now, it isn't what was read.
                self.parent = Known::Unread;
                Err(error)
            }
        }
    }

    /// Watches the kinds of which there may be members though Git has none of them any more.
    pub(super) async fn watch(&mut self, cluster: &Cluster, observer: &Observer) {
        let kinds = self.record().map(|record| record.kinds.clone());
        self.followed = Followed::watch(cluster, observer, kinds.unwrap_or_default()).await;
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Unusable(#[from] Unusable),
    #[error(
        "the set of this name belongs to {by}: give this sync another name or, if that repository has moved here, \
         change annotation cutover.dev/source of ConfigMap {OWN_NAMESPACE}/{parent}"
    )]
    Taken { by: String, parent: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_deletion_that_waits_for_a_turn_is_looked_at_again_soon() {
        let key = ObjectKey {
            group: "policy.karmada.io".to_owned(),
            kind: "PropagationPolicy".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "orders".to_owned(),
        };
        let (mut moving, now) = (Moving::default(), Instant::now());
        moving.put(BTreeMap::new(), now);
        assert_eq!(moving.next_look(), None);
        moving.put(BTreeMap::from([(key.clone(), "a Migration".to_owned())]), now);
        assert_eq!(moving.next_look(), Some(now + MOVING));
        assert!(!moving.end(now) && moving.of(&key).is_some());
        assert!(moving.end(now + MOVING) && moving.is_empty());
        assert_eq!(moving.next_look(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_that_waits_for_a_policy_goes_on_when_that_comes_and_costs_less_and_less_until_then() {
        let key = |name: &str| ObjectKey {
            group: "policy.karmada.io".to_owned(),
            kind: "PropagationPolicy".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        };
        let awaiting = || BTreeMap::from([(key("orders"), key("next"))]);
        let (mut moving, mut now) = (Moving::default(), Instant::now());
        let mut delays = Vec::new();
        for _ in 0..8 {
            moving.wait_for(awaiting(), now);
            let at = moving.next_look().unwrap();
            delays.push((at - now).as_secs());
            now = at;
            assert!(moving.of(&key("orders")).is_some() && moving.end(now));
        }
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 300, 300]);
        moving.wait_for(awaiting(), now);
        assert!(!moving.hear(&key("another")) && !moving.is_empty());
        assert!(moving.hear(&key("next")) && moving.is_empty());
        // Something was heard: the next looks are soon again.
        moving.wait_for(awaiting(), now);
        assert_eq!(moving.next_look(), Some(now + MOVING));
    }
}
