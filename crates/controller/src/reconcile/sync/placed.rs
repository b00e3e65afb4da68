//! The objects of a revision by where they go: each in the namespace that its kind asks for. Kept up to date object by
//! object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cutover_cluster::{Cluster, Lookup, Served};
use cutover_core::manifest::{Entry, ObjectMap, Set};
use cutover_karmada::name::{Gvk, ObjectKey};

/// The objects of a revision by where they go.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// At most one of each key.
    pub(super) objects: ObjectMap<Entry>,
    /// Objects that can't be placed, by what is written, and why.
    pub(super) refused: BTreeMap<ObjectKey, (Arc<Entry>, String)>,
    /// Objects of files that could not be read in full.
    pub(super) frozen: Arc<BTreeSet<ObjectKey>>,
    /// The keys of objects that go to another namespace than is written, under the keys where they go.
    strays: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
}

/// What is written in Git.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written<'a> {
    pub(super) set: &'a Set<Entry>,
    /// The namespace of objects that don't say theirs.
    pub(super) namespace: Option<&'a str>,
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
    /// Returns the namespaces that objects go to, but for one.
    pub(super) fn namespaces(&self, but: &str) -> BTreeSet<String> {
        let mut namespaces = BTreeSet::new();
        for namespace in self.objects.keys().filter_map(|key| key.namespace.as_deref()) {
            if namespace != but && !namespaces.contains(namespace) {
                namespaces.insert(namespace.to_owned());
            }
        }
        namespaces
    }

    /// Returns an object that goes to a namespace.
    pub(super) fn first_in(&self, namespace: &str) -> Option<&ObjectKey> {
        self.objects
            .keys()
            .find(|key| key.namespace.as_deref() == Some(namespace))
    }

    /// Returns an object that can't be placed, and why.
    pub(super) fn first_refused(&self) -> Option<(String, &str)> {
        let (key, (entry, why)) = self.refused.first_key_value()?;
        Some((format!("{}: {key}", entry.source()), why))
    }

    /// Returns whether Git wants an object, or may want it for all that could be read.
    pub(super) fn may_want(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) || self.frozen.contains(key) || self.refused.contains_key(key)
    }

    /// Places anew what was touched, by the keys that are written.
    pub(super) fn update<'a>(
        &mut self,
        written: Written<'_>,
        kinds: &Kinds,
        touched: impl IntoIterator<Item = &'a ObjectKey>,
    ) -> Moved {
        let mut places = BTreeSet::new();
        for key in touched {
            let place = kinds.place(key, written.namespace);
            self.refused.remove(key);
            if place != *key {
                self.stray(written, &place, key);
            }
            places.insert(place);
        }
        self.settle_all(written, kinds, places)
    }

    /// Places all objects of some kinds anew: these turned out to be served in another way than was thought.
    pub(super) fn rescope(
        &mut self,
        written: Written<'_>,
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
            let touched: BTreeSet<_> = written
                .set
                .of_kind(group, kind)
                .map(|entry| entry.key.clone())
                .collect();
            moved.extend(self.update(written, kinds, &touched));
            moved.extend(self.settle_all(written, kinds, before));
        }
        moved
    }

    /// Notes which objects are of files that can't be read in full, by the keys that are written; returns those of which
    /// that is news.
    pub(super) fn freeze<'a>(
        &mut self,
        namespace: Option<&str>,
        kinds: &Kinds,
        frozen: impl Iterator<Item = &'a ObjectKey>,
    ) -> BTreeSet<ObjectKey> {
        let frozen: BTreeSet<_> = frozen.map(|key| kinds.place(key, namespace)).collect();
        let news: BTreeSet<_> = self.frozen.symmetric_difference(&frozen).cloned().collect();
        if !news.is_empty() {
            self.frozen = Arc::new(frozen);
        }
        news
    }

    fn settle_all(&mut self, written: Written<'_>, kinds: &Kinds, places: BTreeSet<ObjectKey>) -> Moved {
        let mut moved = Moved::default();
        for place in places {
            self.settle(written, kinds, place, &mut moved);
        }
        moved
    }

    fn stray(&mut self, written: Written<'_>, place: &ObjectKey, key: &ObjectKey) {
        if written.set.get(key).is_some() {
            let strays = self.strays.entry(place.clone()).or_default();
            strays.insert(key.clone());
        } else if let Some(strays) = self.strays.get_mut(place) {
            strays.remove(key);
            if strays.is_empty() {
                self.strays.remove(place);
            }
        }
    }

    /// Decides which object goes to a place: the first of those that are written for it.
    fn settle(&mut self, written: Written<'_>, kinds: &Kinds, place: ObjectKey, moved: &mut Moved) {
        let at_home = written
            .set
            .get(&place)
            .filter(|_| kinds.is_at_home(&place, written.namespace));
        let strays = self.strays.get(&place).into_iter().flatten();
        let mut candidates: Vec<(ObjectKey, Arc<Entry>)> = strays
            .filter_map(|key| Some((key.clone(), Arc::clone(written.set.get(key)?))))
            .map(|(key, entry)| {
                let entry = Arc::new(entry.in_namespace(place.namespace.as_deref()));
                (key, entry)
            })
            .collect();
        if let Some(entry) = at_home {
            candidates.push((place.clone(), Arc::clone(entry)));
            candidates.sort_by(|(one, _), (other, _)| one.cmp(other));
        }
        let mut first: Option<Arc<Entry>> = None;
        for (key, entry) in candidates {
            let why = match &first {
                Some(first) => Some(format!("it is defined at {} too", first.source())),
                None if kinds.lacks_namespace(&entry) => Some("it has no metadata.namespace".to_owned()),
                None => None,
            };
            match why {
                Some(why) => drop(self.refused.insert(key, (entry, why))),
                None => {
                    self.refused.remove(&key);
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

    /// Returns whether a written key is the one under which the object is found in the cluster.
    fn is_at_home(&self, key: &ObjectKey, default: Option<&str>) -> bool {
        match self.of_key(key) {
            Some(served) if !served.namespaced => key.namespace.is_none(),
            Some(_) => key.namespace.is_some() || default.is_none(),
            None => true,
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use cutover_core::manifest::{Limits, Packer, Source};

    const FILES: [&str; 3] = ["a.yaml", "b.yaml", "c.yaml"];
    const KINDS: [&str; 2] = ["ConfigMap", "ClusterRole"];

    #[derive(Clone, Debug)]
    enum Step {
        /// A file gets these objects: kind, namespace, name, value.
        Write(usize, Vec<(usize, Option<u8>, u8, u8)>),
        /// A kind turns out to be served, in namespaces or not; or not to be served.
        Discover(usize, Option<bool>),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let object = (0..KINDS.len(), prop::option::of(0_u8..2), 0_u8..3, 0_u8..2);
        let step = prop_oneof![
            4 => (0..FILES.len(), prop::collection::vec(object, 0..4)).prop_map(|(file, objects)| Step::Write(file, objects)),
            1 => (0..KINDS.len(), prop::option::of(any::<bool>())).prop_map(|(kind, served)| Step::Discover(kind, served)),
        ];
        prop::collection::vec(step, 1..12)
    }

    fn text(objects: &[(usize, Option<u8>, u8, u8)]) -> String {
        let text = objects.iter().map(|(kind, namespace, name, value)| {
            let namespace = namespace.map_or_else(String::new, |namespace| format!(", namespace: ns{namespace}"));
            format!(
                "apiVersion: v1\nkind: {}\nmetadata: {{name: n{name}{namespace}}}\ndata: {{key: v{value}}}\n---\n",
                KINDS[*kind]
            )
        });
        text.collect()
    }

    fn kinds(served: &BTreeMap<usize, bool>) -> Kinds {
        let served = served.iter().map(|(kind, namespaced)| {
            let gvk = Gvk::new("v1", KINDS[*kind]);
            let served = Served {
                gvk: gvk.clone(),
                plural: String::new(),
                namespaced: *namespaced,
                watchable: true,
            };
            (gvk, served)
        });
        Kinds {
            served: served.collect(),
            unknown: BTreeMap::new(),
        }
    }

    /// Where every object goes with its content, and which can't go anywhere and why.
    type Places = (
        BTreeMap<ObjectKey, serde_json::Value>,
        BTreeMap<ObjectKey, String>,
    );

    fn places(placed: &Placed) -> Places {
        let objects = placed
            .objects
            .values()
            .map(|entry| (entry.key.clone(), entry.value()));
        let refused = placed
            .refused
            .iter()
            .map(|(key, (_, why))| (key.clone(), why.clone()));
        (objects.collect(), refused.collect())
    }

    /// The obvious way: all objects, one after the other.
    fn expected(written: Written<'_>, kinds: &Kinds) -> Places {
        let (mut objects, mut refused) = (BTreeMap::new(), BTreeMap::new());
        let mut first: BTreeMap<ObjectKey, String> = BTreeMap::new();
        for entry in written.set.iter() {
            let place = kinds.place(&entry.key, written.namespace);
            let mut value = entry.value();
            let metadata = value["metadata"].as_object_mut().unwrap();
            match &place.namespace {
                Some(namespace) => drop(metadata.insert("namespace".into(), namespace.as_str().into())),
                None => drop(metadata.shift_remove("namespace")),
            }
            if let Some(first) = first.get(&place) {
                refused.insert(entry.key.clone(), format!("it is defined at {first} too"));
            } else if kinds.lacks_namespace(&entry.in_namespace(place.namespace.as_deref())) {
                refused.insert(entry.key.clone(), "it has no metadata.namespace".to_owned());
            } else {
                first.insert(place.clone(), entry.source().to_string());
                objects.insert(place, value);
            }
        }
        (objects, refused)
    }

    proptest! {
        #[test]
        fn placing_what_was_touched_gives_what_placing_everything_gives(steps in steps(), default in any::<bool>()) {
            let mut set = Set::default();
            let (mut placed, mut served) = (Placed::default(), BTreeMap::new());
            let namespace = default.then_some("ns0");
            for step in steps {
                let before = places(&placed).0;
                let moved = match step {
                    Step::Write(file, objects) => {
                        let source = Source::new(FILES[file]);
                        let read = Packer::default().read(source, text(&objects).as_bytes(), &Limits::default());
                        let touched = set.take_in(FILES[file], read);
                        let written = Written { set: &set, namespace };
                        placed.update(written, &kinds(&served), touched.iter().map(|entry| &entry.key))
                    }
                    Step::Discover(kind, scope) => {
                        let known = kinds(&served);
                        match scope {
                            Some(namespaced) => served.insert(kind, namespaced),
                            None => served.remove(&kind),
                        };
                        let which = kinds(&served).differences(&known);
                        placed.rescope(Written { set: &set, namespace }, &kinds(&served), &which)
                    }
                };
                let now = places(&placed);
                prop_assert_eq!(&now, &expected(Written { set: &set, namespace }, &kinds(&served)));
                let changed = now.0.iter().filter(|(key, value)| before.get(*key) != Some(value));
                let changed: BTreeSet<_> = changed.map(|(key, _)| key.clone()).collect();
                prop_assert_eq!(moved.changed, changed);
                let mut gone = before.keys().filter(|key| !now.0.contains_key(*key));
                prop_assert!(gone.all(|key| moved.gone.contains(key)));
            }
        }
    }
}
