//! The objects of a revision by where they go: each in the namespace that its kind asks for. Kept up to date object by
//! object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::source::Source;
use crate::cluster::{Cluster, Lookup, Served};
use crate::manifest::{Entry, Shelf};
use crate::name::{Gvk, ObjectKey};

/// The objects of a revision by where they go.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// At most one of each key.
    pub(super) objects: Shelf<Entry>,
    /// Objects that can't be placed, by what is written, and why.
    pub(super) refused: BTreeMap<ObjectKey, (Arc<Entry>, String)>,
    /// Objects of files that could not be read in full.
    pub(super) frozen: Arc<BTreeSet<ObjectKey>>,
    /// The keys of objects that go to another namespace than is written, under the keys where they go.
    strays: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

/// What placing some objects has changed.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Wanted, and not as before.
    pub(super) changed: BTreeSet<ObjectKey>,
    /// Wanted before.
    pub(super) gone: BTreeSet<ObjectKey>,
}

impl Placed {
    /// Returns whether Git wants an object, or may want it for all that could be read.
    pub(super) fn may_want(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.frozen.contains(key) || self.refused.contains_key(key)
    }

    /// Places anew what was touched, by the keys that are written.
    pub(super) fn update<'a>(
        &mut self,
        source: &Source,
        kinds: &Kinds,
        touched: impl IntoIterator<Item = &'a ObjectKey>,
    ) -> Moved {
        let mut places = BTreeSet::new();
        for written in touched {
            let place = kinds.place(written, source.selection.namespace.as_deref());
            self.refused.remove(written);
            if place != *written {
                self.stray(source, &place, written);
            }
            places.insert(place);
        }
        self.settle_all(source, kinds, places)
    }

    /// Places all objects of some kinds anew: these turned out to be served in another way than was thought.
    pub(super) fn rescope(
        &mut self,
        source: &Source,
        kinds: &Kinds,
        which: &BTreeSet<(String, String)>,
    ) -> Moved {
        let mut moved = Moved::default();
        for (group, kind) in which {
            self.strays
                .retain(|key, _| key.group != *group || key.kind != *kind);
            let before: BTreeSet<_> = self
                .objects
                .of_kind(group, kind)
                .map(|entry| entry.key.clone())
                .collect();
            let written: BTreeSet<_> = source
                .set
                .of_kind(group, kind)
                .map(|entry| entry.key.clone())
                .collect();
            moved.extend(self.update(source, kinds, &written));
            moved.extend(self.settle_all(source, kinds, before));
        }
        moved
    }

    /// Notes which objects are of files that can't be read in full; returns those of which that is news.
    pub(super) fn freeze(&mut self, source: &Source, kinds: &Kinds) -> BTreeSet<ObjectKey> {
        let default = source.selection.namespace.as_deref();
        let frozen: BTreeSet<_> = source.frozen().map(|key| kinds.place(key, default)).collect();
        let news: BTreeSet<_> = self.frozen.symmetric_difference(&frozen).cloned().collect();
        if !news.is_empty() {
            self.frozen = Arc::new(frozen);
        }
        news
    }

    fn settle_all(&mut self, source: &Source, kinds: &Kinds, places: BTreeSet<ObjectKey>) -> Moved {
        let mut moved = Moved::default();
        for place in places {
            self.settle(source, kinds, place, &mut moved);
        }
        moved
    }

    fn stray(&mut self, source: &Source, place: &ObjectKey, written: &ObjectKey) {
        if source.set.get(written).is_some() {
            let strays = self.strays.entry(place.clone()).or_default();
            strays.insert(written.clone());
        } else if let Some(strays) = self.strays.get_mut(place) {
            strays.remove(written);
            if strays.is_empty() {
                self.strays.remove(place);
            }
        }
    }

    /// Decides which object goes to a place: the first of those that are written for it.
    fn settle(&mut self, source: &Source, kinds: &Kinds, place: ObjectKey, moved: &mut Moved) {
        let default = source.selection.namespace.as_deref();
        let mut candidates = self.strays.get(&place).cloned().unwrap_or_default();
        if source.set.get(&place).is_some() && kinds.place(&place, default) == place {
            candidates.insert(place.clone());
        }
        let mut first: Option<Arc<Entry>> = None;
        for written in candidates {
            let Some(entry) = source.set.get(&written) else {
                continue;
            };
            let entry = if written == place {
                Arc::clone(entry)
            } else {
                Arc::new(entry.in_namespace(place.namespace.as_deref()))
            };
            let why = match &first {
                Some(first) => Some(format!("it is defined at {} too", first.source())),
                None if kinds.lacks_namespace(&entry) => Some("it has no metadata.namespace".to_owned()),
                None => None,
            };
            match why {
                Some(why) => drop(self.refused.insert(written, (entry, why))),
                None => {
                    self.refused.remove(&written);
                    first = Some(entry);
                }
            }
        }
        let before = self.objects.get(&place);
        match first {
            Some(entry) => {
                if before.is_none_or(|before| !before.asks_the_same(&entry)) {
                    moved.changed.insert(place);
                }
                self.objects.replace(entry);
            }
            None if before.is_some() => {
                self.objects.remove(&place, |_| true);
                moved.gone.insert(place);
            }
            None => {}
        }
    }
}

impl Moved {
    fn extend(&mut self, other: Self) {
        self.changed.extend(other.changed);
        self.gone.extend(other.gone);
    }
}

/// How the kinds in Git are served.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    served: BTreeMap<Gvk, Served>,
    /// Kinds of which that could not be found out.
    pub(super) unknown: BTreeMap<Gvk, String>,
}

impl Kinds {
    /// Finds out; asks only for what isn't known.
    pub(super) async fn find_out(cluster: &Cluster, kinds: BTreeSet<Gvk>) -> Self {
        let mut found = Self::default();
        for gvk in kinds {
            match cluster.lookup(&gvk).await {
                Ok(Lookup::Served(served)) => {
                    found.served.insert(gvk, served);
                }
                Ok(Lookup::NotServed) => {}
                Err(error) => {
                    found.unknown.insert(gvk, error.to_string());
                }
            }
        }
        found
    }

    /// Returns whether each of these kinds is known to be served.
    pub(super) fn are_all_known(&self, kinds: &BTreeSet<Gvk>) -> bool {
        kinds.iter().all(|gvk| self.served.contains_key(gvk))
    }

    /// Returns the groups and kinds whose objects have other places than with the answers of before.
    pub(super) fn differences(&self, before: &Self) -> BTreeSet<(String, String)> {
        let places = |kinds: &Self| -> BTreeMap<(String, String), bool> {
            let of = |served: &Served| {
                let kind = (served.gvk.group.clone(), served.gvk.kind.clone());
                (kind, served.namespaced)
            };
            kinds.served.values().map(of).collect()
        };
        let (now, then) = (places(self), places(before));
        let differs = |kind: &&(String, String)| now.get(*kind) != then.get(*kind);
        now.keys().chain(then.keys()).filter(differs).cloned().collect()
    }

    /// Returns the key under which a written one is found in the cluster.
    fn place(&self, key: &ObjectKey, default: Option<&str>) -> ObjectKey {
        let namespace = match self.of_key(key) {
            Some(served) if !served.namespaced => None,
            Some(_) => key.namespace.clone().or_else(|| default.map(str::to_owned)),
            None => key.namespace.clone(),
        };
        ObjectKey {
            namespace,
            ..key.clone()
        }
    }

    fn lacks_namespace(&self, entry: &Entry) -> bool {
        entry.key.namespace.is_none() && self.of_key(&entry.key).is_some_and(|served| served.namespaced)
    }

    pub(super) fn of_key(&self, key: &ObjectKey) -> Option<&Served> {
        self.served
            .values()
            .find(|served| served.gvk.group == key.group && served.gvk.kind == key.kind)
    }
}
