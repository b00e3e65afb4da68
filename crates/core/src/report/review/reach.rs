//! What a change of a policy does to the workloads that it places: Karmada acts on these by itself, without any protocol.

use super::endings::Ending;
use super::links::Places;
use super::page::{code, count, inline, named};
use cutover_karmada::name::{ClusterName, Location, ObjectKey};
use cutover_karmada::{Cluster, Placement, PropagationSpec, ResourceBinding};

/// A policy that a change touches, and what becomes of what it places.
#[derive(Clone, Debug)]
pub struct Reach {
    pub policy: ObjectKey,
    pub at: Option<Location>,
    /// What holds the change back: it comes when that has ended.
    pub held_back: Option<String>,
    pub effects: Vec<Effect>,
}

/// What becomes of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub workload: String,
    pub fate: Fate,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Karmada deletes it there and creates it in some of the others.
    Leaves {
        from: Vec<ClusterName>,
        /// Where it is and may be.
        stays: Vec<ClusterName>,
        /// Where it may be and isn't yet.
        to: Vec<ClusterName>,
    },
    /// What is changed of it does not reach the members any more.
    Suspended,
    /// The clusters stay allowed; the scheduler may choose anew.
    MayMove {
        from: Vec<ClusterName>,
    },
    /// No policy places it any more: it stays where it is, and changes stop reaching it.
    Orphaned,
    /// The same change deletes its template.
    Ends,
    Stays,
}

/// A policy before and after a change; `None`: it isn't there.
#[derive(Clone, Debug)]
pub struct PolicyChange {
    pub policy: ObjectKey,
    pub at: Option<Location>,
    pub held_back: Option<String>,
    pub before: Option<PropagationSpec>,
    pub after: Option<PropagationSpec>,
}

impl Reach {
    /// Returns what a change of a policy does to the bindings that it made. `endings`: what the same change deletes.
    pub fn of(
        change: &PolicyChange,
        bindings: &[&ResourceBinding],
        clusters: &[Cluster],
        endings: &[Ending],
    ) -> Self {
        let ends = |binding: &ResourceBinding| endings.iter().any(|ending| ending.ends(binding));
        let mut effects: Vec<Effect> = bindings
            .iter()
            .map(|binding| Effect {
                workload: workload(binding),
                fate: if ends(binding) {
                    Fate::Ends
                } else {
                    fate(change, binding, clusters)
                },
            })
            .collect();
        effects.sort_by(|a, b| (&a.fate, &a.workload).cmp(&(&b.fate, &b.workload)));
        Self {
            policy: change.policy.clone(),
            at: change.at.clone(),
            held_back: change.held_back.clone(),
            effects,
        }
    }

    /// Returns whether somebody should look at this before it is merged.
    pub(super) fn is_loud(&self) -> bool {
        self.effects.iter().any(|effect| effect.fate.is_loud())
    }
}

impl Fate {
    /// Returns whether Karmada does something to the workload that no template says.
    pub(super) fn is_loud(&self) -> bool {
        !matches!(self, Self::Stays | Self::Ends)
    }
}

fn workload(binding: &ResourceBinding) -> String {
    let resource = &binding.spec.resource;
    let place = if resource.namespace.is_empty() {
        resource.name.clone()
    } else {
        format!("{}/{}", resource.namespace, resource.name)
    };
    format!("{} {place}", resource.kind)
}

fn fate(change: &PolicyChange, binding: &ResourceBinding, clusters: &[Cluster]) -> Fate {
    let Some(after) = &change.after else {
        return Fate::Orphaned;
    };
    let there: Vec<ClusterName> = binding.spec.clusters.iter().map(|one| one.name.clone()).collect();
    let allowed = |name: &ClusterName| {
        let cluster = clusters
            .iter()
            .find(|cluster| cluster.metadata.name.as_deref() == Some(name.as_str()));
        // A cluster that isn't joined is none of the policy's doing.
        cluster.is_none_or(|cluster| allows(&after.placement, cluster))
    };
    let from: Vec<ClusterName> = there.iter().filter(|name| !allowed(name)).cloned().collect();
    if !from.is_empty() {
        let candidates = clusters
            .iter()
            .filter(|cluster| allows(&after.placement, cluster));
        let names = candidates.filter_map(|cluster| cluster.metadata.name.clone().map(ClusterName::new));
        let to = names.filter(|name| !there.contains(name)).collect();
        let stays = there.into_iter().filter(|name| !from.contains(name)).collect();
        return Fate::Leaves { from, stays, to };
    }
    let before = change.before.as_ref();
    let suspends = |spec: &PropagationSpec| {
        let suspension = spec.suspension.as_ref();
        suspension.is_some_and(|suspension| there.iter().any(|name| suspension.covers(name.as_str())))
    };
    if suspends(after) && !before.is_some_and(suspends) {
        return Fate::Suspended;
    }
    if before.is_some_and(|before| before.placement != after.placement) {
        return Fate::MayMove { from: there };
    }
    Fate::Stays
}

fn allows(placement: &Placement, cluster: &Cluster) -> bool {
    if placement.cluster_affinities.is_empty() {
        let affinity = placement.cluster_affinity.as_ref();
        return affinity.is_none_or(|affinity| affinity.matches(cluster));
    }
    let mut terms = placement.cluster_affinities.iter();
    terms.any(|term| term.affinity.matches(cluster))
}

/// How many lines a policy gets.
const TOLD: usize = 20;
/// So many workloads that fare alike are one line.
const ALIKE: usize = 3;
/// Of workloads that fare alike so many are named.
const NAMED: usize = 8;

/// Returns what is told of one policy.
pub(super) fn section(reach: &Reach, places: Places<'_>) -> String {
    let at = places.bracketed(reach.at.as_ref());
    let later = reach
        .held_back
        .as_ref()
        .map(|by| format!("; the change comes when {} has ended", inline(by)))
        .unwrap_or_default();
    let mut text = format!(
        "\n{}{at} places {}{later}:\n\n",
        code(&reach.policy.to_string()),
        count(reach.effects.len(), "workload")
    );
    let lines = lines(&reach.effects);
    for line in lines.iter().take(TOLD) {
        text.push_str(&format!("- {line}\n"));
    }
    if let Some(more) = lines.len().checked_sub(TOLD + 1) {
        text.push_str(&format!("- … and {} more\n", more + 1));
    }
    text
}

/// Returns a line for each workload, or for all that fare alike.
fn lines(effects: &[Effect]) -> Vec<String> {
    let line = |alike: &[Effect]| -> Vec<String> {
        let names = alike.iter().map(|effect| code(&effect.workload));
        let of = |names: &str, fate: &Fate| format!("{names}: {}", told(fate));
        match alike {
            [first, ..] if alike.len() >= ALIKE => {
                let names: Vec<String> = names.collect();
                let names = format!("{} workloads, {}", alike.len(), named(&names, NAMED));
                vec![of(&names, &first.fate)]
            }
            _ => names
                .zip(alike)
                .map(|(name, effect)| of(&name, &effect.fate))
                .collect(),
        }
    };
    effects.chunk_by(|a, b| a.fate == b.fate).flat_map(line).collect()
}

fn told(fate: &Fate) -> String {
    match fate {
        Fate::Leaves { from, stays, to } if stays.is_empty() && to.is_empty() => format!(
            "⛔ may not stay in {}, and no other cluster is allowed",
            names(from)
        ),
        Fate::Leaves { from, stays, to } if stays.is_empty() => format!(
            "⚠️ **Karmada takes it out of {} and recreates it in {}, without its state and unwatched**; a \
             Migration moves it safely",
            names(from),
            names(to)
        ),
        Fate::Leaves { from, stays, to } => format!(
            "⚠️ **Karmada deletes its copy in {}, unwatched**; it runs on in {}{}",
            all(from),
            all(stays),
            match to.as_slice() {
                [] => String::new(),
                to => format!(", and may be scheduled to {}", names(to)),
            }
        ),
        Fate::Suspended => "⏸️ its changes do not reach its clusters any more".to_owned(),
        Fate::MayMove { from } => format!("may be rescheduled; runs in {}", all(from)),
        Fate::Orphaned => {
            "no policy places it any more: it stays where it is, and changes stop reaching it".to_owned()
        }
        Fate::Ends => "🗑️ ends: the same change deletes its template".to_owned(),
        Fate::Stays => "stays where it is".to_owned(),
    }
}

fn names(clusters: &[ClusterName]) -> String {
    joined(clusters, " or ")
}

fn all(clusters: &[ClusterName]) -> String {
    joined(clusters, " and ")
}

fn joined(clusters: &[ClusterName], between: &str) -> String {
    if clusters.is_empty() {
        return "no cluster".to_owned();
    }
    let names: Vec<String> = clusters.iter().map(|name| inline(name.as_str())).collect();
    names.join(between)
}
