//! Many things in order of their keys, of which a copy costs next to nothing.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Mark;
use cutover_karmada::name::{Gvk, ObjectKey};

/// Something that a file defines.
pub trait Defined {
    fn key(&self) -> &ObjectKey;
    fn gvk(&self) -> &Gvk;
    /// Returns the file and where in it.
    fn place(&self) -> (&str, Mark);
}

/// How many things stand on one board at most: what a change copies.
const BOARD: usize = 128;

type Board<T> = Arc<Vec<Arc<T>>>;

/// Things in order of their keys, and those with the same key in order of their places.
///
/// A clone shares everything with the original; a change to either copies what is near to it.
#[derive(Debug)]
pub struct Shelf<T> {
    /// None of them empty.
    boards: Arc<Vec<Board<T>>>,
    len: usize,
}

impl<T> Clone for Shelf<T> {
    fn clone(&self) -> Self {
        Self {
            boards: Arc::clone(&self.boards),
            len: self.len,
        }
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self {
            boards: Arc::default(),
            len: 0,
        }
    }
}

impl<T: Defined> Shelf<T> {
    pub const fn len(&self) -> usize {
        self.len
    }

    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the thing with a key; of several the first.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.range(|other| other.cmp(key)).next()
    }

    pub fn contains_key(&self, key: &ObjectKey) -> bool {
        self.get(key).is_some()
    }

    pub fn values(&self) -> impl Iterator<Item = &Arc<T>> {
        self.boards.iter().flat_map(|board| board.iter())
    }

    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.values().map(|thing| thing.key())
    }

    /// Returns the things with the keys for which `side` says `Equal`; it has to say `Less` of all keys before them, and
    /// `Greater` of all after.
    pub fn range(&self, side: impl Fn(&ObjectKey) -> Ordering) -> impl Iterator<Item = &Arc<T>> {
        let board = self.boards.partition_point(|board| {
            let last = board.last().map(|thing| side(thing.key()));
            last == Some(Ordering::Less)
        });
        let place = self.boards.get(board).map_or(0, |board| {
            board.partition_point(|thing| side(thing.key()) == Ordering::Less)
        });
        let boards = self.boards.get(board..).unwrap_or_default();
        let things = boards.iter().flat_map(|board| board.iter()).skip(place);
        things.take_while(move |thing| side(thing.key()) == Ordering::Equal)
    }

    /// Returns the things of a kind.
    pub fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<T>> {
        self.range(move |key| (key.group.as_str(), key.kind.as_str()).cmp(&(group, kind)))
    }

    /// Returns the things of a kind in a namespace, or those that are in none.
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

    /// Adds a thing to those with its key.
    pub fn insert(&mut self, thing: Arc<T>) {
        let is_before = |other: &Arc<T>| (other.key(), other.place()) <= (thing.key(), thing.place());
        self.len += 1;
        let boards = Arc::make_mut(&mut self.boards);
        let at = boards.partition_point(|board| board.last().is_some_and(is_before));
        // What comes after everything stands at the end of the last board.
        let at = at.min(boards.len().saturating_sub(1));
        let Some(board) = boards.get_mut(at) else {
            boards.push(Arc::new(vec![thing]));
            return;
        };
        let board = Arc::make_mut(board);
        let place = board.partition_point(is_before);
        board.insert(place, thing);
        if board.len() > BOARD {
            // What comes in order fills its boards.
            let half = if place == BOARD { BOARD } else { BOARD / 2 };
            let rest = board.split_off(half);
            boards.insert(at + 1, Arc::new(rest));
        }
    }

    /// Removes the things with a key of which something is true.
    pub fn remove(&mut self, key: &ObjectKey, mut gone: impl FnMut(&T) -> bool) {
        if !self.range(|other| other.cmp(key)).any(|thing| gone(thing)) {
            return;
        }
        let boards = Arc::make_mut(&mut self.boards);
        let first = boards.partition_point(|board| board.last().is_some_and(|thing| thing.key() < key));
        let mut at = first;
        while let Some(board) = boards.get_mut(at)
            && board.first().is_some_and(|thing| thing.key() <= key)
        {
            let before = board.len();
            let things = Arc::make_mut(board);
            things.retain(|thing| thing.key() != key || !gone(thing));
            self.len -= before - things.len();
            if things.is_empty() {
                boards.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Puts a thing in the place of all with its key.
    pub fn replace(&mut self, thing: Arc<T>) {
        self.remove(thing.key(), |_| true);
        self.insert(thing);
    }
}

impl<T: Defined> FromIterator<Arc<T>> for Shelf<T> {
    fn from_iter<I: IntoIterator<Item = Arc<T>>>(things: I) -> Self {
        let mut shelf = Self::default();
        for thing in things {
            shelf.insert(thing);
        }
        shelf
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug)]
    struct Thing {
        key: ObjectKey,
        gvk: Gvk,
        line: u32,
    }

    impl Defined for Thing {
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

    fn thing(name: u16, line: u32) -> Arc<Thing> {
        let kind = if name.is_multiple_of(3) {
            "Secret"
        } else {
            "ConfigMap"
        };
        Arc::new(Thing {
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

    /// What a shelf holds, and what a sorted list makes of the same.
    fn assert_same(shelf: &Shelf<Thing>, list: &[Arc<Thing>]) {
        let held: Vec<_> = shelf
            .values()
            .map(|thing| (thing.key.clone(), thing.line))
            .collect();
        let expected: Vec<_> = list.iter().map(|thing| (thing.key.clone(), thing.line)).collect();
        assert_eq!(held, expected);
        assert_eq!(shelf.len(), list.len());
        assert!(
            shelf
                .boards
                .iter()
                .all(|board| (1..=BOARD).contains(&board.len()))
        );
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
        fn a_shelf_holds_what_a_sorted_list_holds(steps in steps()) {
            let mut shelf = Shelf::default();
            let mut list: Vec<Arc<Thing>> = Vec::new();
            let order = |thing: &Arc<Thing>| (thing.key.clone(), thing.line);
            for (count, step) in steps.iter().enumerate() {
                let copy = (count % 100 == 0).then(|| (shelf.clone(), list.clone()));
                match *step {
                    Step::Insert(name, line) => {
                        shelf.insert(thing(name, line));
                        list.push(thing(name, line));
                    }
                    Step::Replace(name, line) => {
                        shelf.replace(thing(name, line));
                        list.retain(|other| other.key != thing(name, line).key);
                        list.push(thing(name, line));
                    }
                    Step::Remove(name, line) => {
                        shelf.remove(&thing(name, line).key, |other| other.line == line);
                        list.retain(|other| order(other) != order(&thing(name, line)));
                    }
                }
                list.sort_by_key(order);
                if let Some((shelf, list)) = copy {
                    assert_same(&shelf, &list);
                }
            }
            assert_same(&shelf, &list);
            for name in 0..400 {
                let key = thing(name, 0).key.clone();
                let first = list.iter().find(|thing| thing.key == key).map(|thing| thing.line);
                prop_assert_eq!(shelf.get(&key).map(|thing| thing.line), first);
            }
            for (kind, namespace) in [("Secret", None), ("ConfigMap", Some("ns-3")), ("Pod", Some("ns-1"))] {
                let there = |thing: &&Arc<Thing>| {
                    thing.key.kind == kind && thing.key.namespace.as_deref() == namespace
                };
                prop_assert_eq!(
                    shelf.of_namespace("", kind, namespace).count(),
                    list.iter().filter(there).count()
                );
                prop_assert_eq!(
                    shelf.of_kind("", kind).count(),
                    list.iter().filter(|thing| thing.key.kind == kind).count()
                );
            }
        }
    }
}
