//! A taint of one's own on a cluster: it takes nothing new, and nothing leaves it for that. What others put there stays.

use serde_json::json;

use super::{Interrupt, MoveStrategy, Operation};
use crate::api::CORDON_PREFIX;
use crate::intent::effect::{Effect, Exactly, add, remove, test};
use crate::intent::record::digest;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, Taint};

/// How long the name of a taint may be.
const LONGEST: usize = 63;

/// Returns the key of the taint of an intent.
pub fn taint_key(name: &str) -> String {
    if name.len() <= LONGEST {
        return format!("{CORDON_PREFIX}{name}");
    }
    let hash = digest(&json!(name));
    format!("{CORDON_PREFIX}{}-{hash}", &name[..LONGEST - hash.len() - 1])
}

impl<A: MoveStrategy> Operation<'_, A> {
    /// Every cluster that the journal names carries the taint.
    pub(super) fn cordon(&self) -> Result<(), Interrupt<A>> {
        let cordoned = &self.journal()?.cordoned;
        let clusters = self.snapshot().clusters.get()?;
        let key = taint_key(self.input.name);
        let open = cordoned
            .iter()
            .filter_map(|name| Some((name, clusters.get(name)?)))
            .filter(|(_, cluster)| position(cluster, &key).is_none());
        let effects: Vec<Effect> = open.map(|(name, cluster)| put(name, cluster, &key)).collect();
        if effects.is_empty() {
            Ok(())
        } else {
            Err(Interrupt::Act(effects))
        }
    }

    /// Follows the clusters that it is about, as they come and go.
    pub(super) fn keep_cordons(&mut self) -> Result<(), Interrupt<A>> {
        if !self.spec().cordons().0 {
            return Ok(());
        }
        let clusters = self.status.clusters.clone();
        let cordoned = self.journal()?.cordoned.clone();
        let come: Vec<_> = clusters
            .iter()
            .filter(|name| !cordoned.contains(name))
            .cloned()
            .collect();
        if !come.is_empty() {
            self.journal_mut()?.cordoned.extend(come);
            return Err(Interrupt::Requeue);
        }
        self.lift_cordons(|name| !clusters.contains(name))
    }

    /// Takes the taint off, and then out of the journal. One that a cluster has lost is gone already.
    pub(super) fn lift_cordons(&mut self, which: impl Fn(&ClusterName) -> bool) -> Result<(), Interrupt<A>> {
        let key = taint_key(self.input.name);
        let Some(journal) = &mut self.status.journal else {
            return Ok(());
        };
        if !journal.cordoned.iter().any(&which) {
            return Ok(());
        }
        let clusters = self.input.snapshot.clusters.get()?;
        let still = |name: &ClusterName| {
            let cluster = clusters.get(name)?;
            Some((cluster, position(cluster, &key)?))
        };
        let effects: Vec<Effect> = journal
            .cordoned
            .iter()
            .filter(|name| which(name))
            .filter_map(|name| {
                let (cluster, index) = still(name)?;
                Some(take_off(name, cluster, index))
            })
            .collect();
        if !effects.is_empty() {
            return Err(Interrupt::Act(effects));
        }
        journal.cordoned.retain(|name| !which(name));
        Err(Interrupt::Requeue)
    }
}

fn position(cluster: &Cluster, key: &str) -> Option<usize> {
    cluster.spec.taints.iter().position(|taint| taint.key == key)
}

fn exactly(name: &ClusterName, cluster: &Cluster) -> Exactly {
    Exactly {
        namespace: None,
        name: name.to_string(),
        uid: cluster.metadata.uid.clone().unwrap_or_default(),
        resource_version: None,
    }
}

fn put(name: &ClusterName, cluster: &Cluster, key: &str) -> Effect {
    let taint = Taint {
        key: key.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let patch = if cluster.spec.taints.is_empty() {
        add("/spec/taints", json!([taint]))
    } else {
        add("/spec/taints/-", json!(taint))
    };
    // That a list or a taint isn't there can't be tested: nothing at all may have changed.
    let cluster = Exactly {
        resource_version: cluster.metadata.resource_version.clone(),
        ..exactly(name, cluster)
    };
    Effect::PatchCluster {
        why: "take nothing new",
        cluster,
        patch: vec![patch],
    }
}

fn take_off(name: &ClusterName, cluster: &Cluster, index: usize) -> Effect {
    let path = format!("/spec/taints/{index}");
    Effect::PatchCluster {
        why: "take what comes again",
        cluster: exactly(name, cluster),
        patch: vec![
            test(&format!("{path}/key"), json!(cluster.spec.taints[index].key)),
            remove(&path),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_still_makes_a_key_that_is_its_own() {
        let (one, other) = ("a".repeat(100), format!("{}b", "a".repeat(99)));
        for name in [&one, &other] {
            let key = taint_key(name);
            assert!(
                key.strip_prefix(CORDON_PREFIX)
                    .is_some_and(|name| name.len() == LONGEST),
                "{key}"
            );
        }
        assert_ne!(taint_key(&one), taint_key(&other));
    }
}
