//! Which syncs wait for which: in time that grows with the file, whoever wrote it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::Sync;

/// The syncs by name, and what each depends on.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    /// The first sync of each name.
    places: BTreeMap<&'a str, usize>,
    /// The places of those that each one depends on; names of no sync are left out.
    wanted: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    pub(super) fn of(syncs: &'a [Sync]) -> Self {
        let mut places = BTreeMap::new();
        for (place, sync) in syncs.iter().enumerate() {
            places.entry(sync.name.as_str()).or_insert(place);
        }
        let wanted = |sync: &Sync| {
            let places = sync
                .depends_on
                .iter()
                .filter_map(|name| places.get(name.as_str()));
            let each: BTreeSet<usize> = places.copied().collect();
            each.into_iter().collect()
        };
        Self {
            wanted: syncs.iter().map(wanted).collect(),
            places,
        }
    }

    /// Returns the place of the first sync of a name.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Returns the places so that each comes after those that it depends on, and otherwise in order. Those that wait for
    /// themselves, and what waits for them, are left out.
    fn in_order(&self) -> Vec<usize> {
        let mut missing: Vec<usize> = self.wanted.iter().map(Vec::len).collect();
        let mut waiting = vec![Vec::new(); self.wanted.len()];
        for (place, wanted) in self.wanted.iter().enumerate() {
            for &other in wanted {
                waiting[other].push(place);
            }
        }
        let free = |(place, missing): (usize, &usize)| (*missing == 0).then_some(Reverse(place));
        let mut ready: BinaryHeap<_> = missing.iter().enumerate().filter_map(free).collect();
        let mut ordered = Vec::with_capacity(self.wanted.len());
        while let Some(Reverse(place)) = ready.pop() {
            ordered.push(place);
            for &other in &waiting[place] {
                missing[other] -= 1;
                if missing[other] == 0 {
                    ready.push(Reverse(other));
                }
            }
        }
        ordered
    }

    /// Returns the places of the syncs that wait for themselves: the circles of the graph (Tarjan, without recursion).
    pub(super) fn circular(&self) -> BTreeSet<usize> {
        let count = self.wanted.len();
        let mut circular = BTreeSet::new();
        // When each was come across, counted from 1, and the earliest that can be reached from it.
        let (mut met, mut lowest) = (vec![0; count], vec![0; count]);
        let (mut open, mut is_open) = (Vec::new(), vec![false; count]);
        let mut clock = 0;
        for start in 0..count {
            let mut path = if met[start] == 0 {
                vec![(start, 0)]
            } else {
                Vec::new()
            };
            while let Some((place, next)) = path.pop() {
                if next == 0 {
                    clock += 1;
                    (met[place], lowest[place]) = (clock, clock);
                    open.push(place);
                    is_open[place] = true;
                }
                if let Some(&other) = self.wanted[place].get(next) {
                    path.push((place, next + 1));
                    if met[other] == 0 {
                        path.push((other, 0));
                    } else if is_open[other] {
                        lowest[place] = lowest[place].min(met[other]);
                    }
                    continue;
                }
                if let Some(&(above, _)) = path.last() {
                    lowest[above] = lowest[above].min(lowest[place]);
                }
                if lowest[place] == met[place] {
                    let first = open.iter().rposition(|one| *one == place).unwrap_or_default();
                    let circle = open.split_off(first);
                    for &one in &circle {
                        is_open[one] = false;
                    }
                    if circle.len() > 1 || self.wanted[place].contains(&place) {
                        circular.extend(circle);
                    }
                }
            }
        }
        circular
    }
}

/// Returns the syncs so that each comes after those that it depends on. Their order is kept otherwise.
pub fn in_order(syncs: &[Sync]) -> Vec<&Sync> {
    let graph = Graph::of(syncs);
    graph.in_order().into_iter().map(|place| &syncs[place]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sync(name: &str, depends_on: &[&str]) -> Sync {
        Sync {
            depends_on: depends_on.iter().map(|&name| name.to_owned()).collect(),
            ..Sync::named(name)
        }
    }

    #[test]
    fn syncs_come_after_what_they_depend_on() {
        let syncs = [
            sync("apps", &["base", "crds"]),
            sync("base", &["crds"]),
            sync("alone", &[]),
            sync("crds", &[]),
        ];
        let names: Vec<_> = in_order(&syncs).iter().map(|sync| sync.name.as_str()).collect();
        assert_eq!(names, ["alone", "crds", "base", "apps"]);
    }

    #[test]
    fn a_chain_of_fifty_thousand_is_no_trouble() {
        let name = |place: usize| format!("s{place}");
        let chained = |circle: bool| -> Vec<Sync> {
            let next = |place: usize| {
                if circle {
                    Some((place + 1) % 50_000)
                } else {
                    place.checked_sub(1)
                }
            };
            let sync = |place| Sync {
                depends_on: next(place).map(name).into_iter().collect(),
                ..Sync::named(&name(place))
            };
            (0..50_000).map(sync).collect()
        };
        let chain = chained(false);
        assert_eq!(Graph::of(&chain).circular(), BTreeSet::new());
        assert_eq!(in_order(&chain).len(), 50_000);
        let circle = chained(true);
        assert_eq!(Graph::of(&circle).circular().len(), 50_000);
        assert_eq!(in_order(&circle).len(), 0);
    }

    /// The slow and obvious version.
    fn waits_for(from: usize, aim: usize, wanted: &[Vec<usize>], seen: &mut BTreeSet<usize>) -> bool {
        let mut next = wanted[from].iter();
        next.any(|&one| one == aim || seen.insert(one) && waits_for(one, aim, wanted, seen))
    }

    proptest! {
        #[test]
        fn who_waits_for_itself_is_found(edges in prop::collection::vec((0..8_usize, 0..8_usize), 0..14)) {
            let mut syncs: Vec<Sync> = (0..8).map(|place| Sync::named(&format!("s{place}"))).collect();
            for (from, to) in edges {
                syncs[from].depends_on.push(format!("s{to}"));
            }
            let graph = Graph::of(&syncs);
            let slow = (0..8).filter(|&one| waits_for(one, one, &graph.wanted, &mut BTreeSet::new()));
            prop_assert_eq!(graph.circular(), slow.collect::<BTreeSet<_>>());
        }
    }
}
