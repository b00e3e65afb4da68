//! Kinds of which there may be members of a set, though Git has nothing of them any more.

use std::collections::{BTreeMap, BTreeSet};

use cutover_cluster::{Cluster, Keep, KindState, Lookup, Observer, Watched};
use cutover_core::plan::applyset::PART_OF_LABEL;
use cutover_karmada::name::{GroupKind, ObjectKey};

/// Kinds that are watched for members.
#[derive(Debug, Default)]
pub(super) struct Followed {
    kinds: BTreeSet<GroupKind>,
    /// Those that can't be watched, and why; `None`: nobody serves them.
    unwatched: BTreeMap<GroupKind, Option<String>>,
}

impl Followed {
    /// Watches kinds for members. What is watched already is watched with its labels then: of some kinds only versions are kept.
    pub(super) async fn watch(cluster: &Cluster, observer: &Observer, kinds: BTreeSet<GroupKind>) -> Self {
        let mut unwatched = BTreeMap::new();
        for kind in &kinds {
            match cluster.discovery().find(cluster, &kind.group, &kind.kind).await {
                Ok(Lookup::Served(served)) => observer.watch(Watched {
                    labels: Some(PART_OF_LABEL.to_owned()),
                    // As what Git has of the kind is kept: nothing is listed again for that.
                    keep: Keep {
                        status: false,
                        ..Keep::ALL
                    },
                    ..Watched::all(served.gvk)
                }),
                Ok(Lookup::NotServed) => drop(unwatched.insert(kind.clone(), None)),
                Err(error) => drop(unwatched.insert(kind.clone(), Some(error.to_string()))),
            }
        }
        Self { kinds, unwatched }
    }

    /// Says of which kind it isn't known what there is.
    pub(super) fn unknown(&self, observer: &Observer) -> Option<String> {
        self.kinds.iter().find_map(|kind| {
            let state = observer.state(&kind.group, &kind.kind);
            match (state, self.unwatched.get(kind)) {
                (None, Some(why)) => why.clone(),
                (Some(state), _) if state.is_settled() => None,
                (Some(KindState::Failing { why, .. }), _) => Some(format!("{kind} is not known: {why}")),
                _ => Some(format!("the list of {kind} has not come yet")),
            }
        })
    }

    /// Returns the members of a set, as far as they are known.
    pub(super) fn members(&self, observer: &Observer, id: &str) -> Vec<ObjectKey> {
        let kinds = self.kinds.iter();
        kinds
            .flat_map(|kind| observer.labelled(&kind.group, &kind.kind, PART_OF_LABEL, id))
            .collect()
    }
}
