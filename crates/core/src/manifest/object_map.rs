//! An ordered map of the objects that files define; a clone costs next to nothing.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Mark;
use cutover_karmada::name::{Gvk, ObjectKey};

/// An object that a file defines.
pub trait Defined {
    fn key(&self) -> &ObjectKey;
    fn gvk(&self) -> &Gvk;
    /// Returns the file and where in it.
    fn place(&self) -> (&str, Mark);
}

/// How many objects a chunk has at most: what a change copies.
const CHUNK: usize = 128;

type Chunk<T> = Arc<Vec<Arc<T>>>;

/// Objects in order of their keys, and those with the same key in order of their places.
///
/// A clone shares everything with the original; a change to either copies what is near to it.
#[derive(Debug)]
pub struct ObjectMap<T> {
    /// None of them empty.
    chunks: Arc<Vec<Chunk<T>>>,
    len: usize,
}

impl<T> Clone for ObjectMap<T> {
    fn clone(&self) -> Self {
        Self {
            chunks: Arc::clone(&self.chunks),
            len: self.len,
        }
    }
}

impl<T> Default for ObjectMap<T> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
            len: 0,
        }
    }
}

impl<T: Defined> ObjectMap<T> {
    pub const fn len(&self) -> usize {
        self.len
    }

    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the object with a key; of several the first.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.range(|other| other.cmp(key)).next()
    }

    pub fn contains_key(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some()
    }

    pub fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.values().map(|object| object.key())
    }

    /// Returns the objects with the keys for which `side` says `Equal`; it has to say `Less` of all keys before them, and
    /// `Greater` of all after.
    pub fn range(&self, side: impl Fn(&ObjectKey) -> Ordering) -> impl Iterator<Item = &Arc<T>> {
        let chunk = self.chunks.partition_point(|chunk| {
            let last = chunk.last().map(|object| side(object.key()));
            last == Some(Ordering::Less)
        });
        let place = self.chunks.get(chunk).map_or(0, |chunk| {
            chunk.partition_point(|object| side(object.key()) == Ordering::Less)
        });
        let chunks = self.chunks.get(chunk..).unwrap_or_default();
        let objects = chunks.iter().flat_map(|chunk| chunk.iter()).skip(place);
        objects.take_while(move |object| side(object.key()) == Ordering::Equal)
    }

    /// Returns the objects of a kind.
    pub fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<T>> {
        self.range(move |key| (key.group.as_str(), key.kind.as_str()).cmp(&(group, kind)))
    }

    /// Returns the objects of a kind in a namespace, or those that are in none.
    pub fn of_namespace(
        &self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &Arc<T>> {
        self.range(move |key| {
            (key.group.as_str(), key.kind.as_str(), key.namespace.as_deref()).cmp(&(group, kind, namespace))
        })
    }

    /// Adds an object to those with its key.
    pub fn insert(&mut self, object: Arc<T>) {
        let is_before = |other: &Arc<T>| (other.key(), other.place()) <= (object.key(), object.place());
        self.len += 1;
        let chunks = Arc::make_mut(&mut self.chunks);
        let at = chunks.partition_point(|chunk| chunk.last().is_some_and(is_before));
        // What comes after everything stands at the end of the last chunk.
        let at = at.min(chunks.len().saturating_sub(1));
        let Some(chunk) = chunks.get_mut(at) else {
            chunks.push(Arc::new(vec![object]));
            return;
        };
        let chunk = Arc::make_mut(chunk);
        let place = chunk.partition_point(is_before);
        chunk.insert(place, object);
        if chunk.len() > CHUNK {
            // What comes in order fills its chunks.
            let half = if place == CHUNK { CHUNK } else { CHUNK / 2 };
            let rest = chunk.split_off(half);
            chunks.insert(at + 1, Arc::new(rest));
        }
    }

    /// Removes the objects with a key of which something is true.
    pub fn remove(&mut self, key: &ObjectKey, mut gone: impl FnMut(&T) -> bool) {
        if !self.range(|other| other.cmp(key)).any(|object| gone(object)) {
            return;
        }
        let chunks = Arc::make_mut(&mut self.chunks);
        let first = chunks.partition_point(|chunk| chunk.last().is_some_and(|object| object.key() < key));
        let mut at = first;
        while let Some(chunk) = chunks.get_mut(at)
            && chunk.first().is_some_and(|object| object.key() <= key)
        {
            let before = chunk.len();
            let objects = Arc::make_mut(chunk);
            objects.retain(|object| object.key() != key || !gone(object));
            self.len -= before - objects.len();
            if objects.is_empty() {
                chunks.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Puts an object in the place of all with its key.
    pub fn replace(&mut self, object: Arc<T>) {
        self.remove(object.key(), |_| true);
        self.insert(object);
    }
}

impl<T: Defined> FromIterator<Arc<T>> for ObjectMap<T> {
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(objects: I) -> Self {
        let mut map = Self::default();
        for object in objects {
            map.insert(object);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct Sample {
        key: ObjectKey,
        gvk: Gvk,
        line: u32,
    }

    impl Defined for Sample {
        fn key(&self) -> &ObjectKey {
            &self.key
        }

        fn gvk(&self) -> &Gvk {
            &self.gvk
        }

        fn place(&self) -> (&str, Mark) {
            let column = 1;
            (
                "a.yaml",
                Mark {
                    line: self.line,
                    column,
                },
            )
        }
    }

    fn object(name: u16, line: u32) -> Arc<Sample> {
        let kind = if name.is_multiple_of(3) {
            "Secret"
        } else {
            "ConfigMap"
        };
        Arc::new(Sample {
            key: ObjectKey {
                group: String::new(),
                kind: kind.to_owned(),
                namespace: name.is_multiple_of(2).then(|| format!("ns-{}", name % 5)),
                name: format!("{name:05}"),
            },
            gvk: Gvk::new("v1", kind),
            line,
        })
    }

    /// A map holds the same as a sorted list.
    fn assert_same(map: &ObjectMap<Sample>, list: &[Arc<Sample>]) {
        let held: Vec<_> = map
            .values()
            .map(|object| (object.key.clone(), object.line))
            .collect();
        let expected: Vec<_> = list
            .iter()
            .map(|object| (object.key.clone(), object.line))
            .collect();
        assert_eq!(held, expected);
        assert_eq!(map.len(), list.len());
        assert!(map.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u16, u32),
        Replace(u16, u32),
        Remove(u16, u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = (0_u16..400, 0_u32..4).prop_flat_map(|(name, line)| {
            prop_oneof![
                4 => Just(Step::Insert(name, line)),
                1 => Just(Step::Replace(name, line)),
                2 => Just(Step::Remove(name, line)),
            ]
        });
        prop::collection::vec(step, 0..900)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_map_holds_what_a_sorted_list_holds(steps in steps()) {
            let mut map = ObjectMap::default();
            let mut list: Vec<Arc<Sample>> = Vec::new();
            let order = |object: &Arc<Sample>| (object.key.clone(), object.line);
            for (count, step) in steps.iter().enumerate() {
                let copy = (count % 100 == 0).then(|| (map.clone(), list.clone()));
                match *step {
                    Step::Insert(name, line) => {
                        map.insert(object(name, line));
                        list.push(object(name, line));
                    }
                    Step::Replace(name, line) => {
                        map.replace(object(name, line));
                        list.retain(|other| other.key != object(name, line).key);
                        list.push(object(name, line));
                    }
                    Step::Remove(name, line) => {
                        map.remove(&object(name, line).key, |other| other.line == line);
                        list.retain(|other| order(other) != order(&object(name, line)));
                    }
                }
                list.sort_by_key(order);
                if let Some((map, list)) = copy {
                    assert_same(&map, &list);
                }
            }
            assert_same(&map, &list);
            for name in 0..400 {
                let key = object(name, 0).key.clone();
                let first = list.iter().find(|object| object.key == key).map(|object| object.line);
                prop_assert_eq!(map.get(&key).map(|object| object.line), first);
            }
            for (kind, namespace) in [("Secret", None), ("ConfigMap", Some("ns-3")), ("Pod", Some("ns-1"))] {
                let there = |object: &&Arc<Sample>| {
                    object.key.kind == kind && object.key.namespace.as_deref() == namespace
                };
                prop_assert_eq!(
                    map.of_namespace("", kind, namespace).count(),
                    list.iter().filter(there).count()
                );
                prop_assert_eq!(
                    map.of_kind("", kind).count(),
                    list.iter().filter(|object| object.key.kind == kind).count()
                );
            }
        }
    }
}
