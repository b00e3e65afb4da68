//! Whether profiles fit the kinds that they are used for, as the control plane defines them. A definition is large, and many intents
//! ask about the same one: it is read once in a while, and only what was found is kept.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use super::ask::map;
use crate::reconcile::definitions;
use cutover_cluster::{Cluster, Lookup};
use cutover_core::api::WorkloadProfileSpec;
use cutover_core::intent::Seen;
use cutover_core::lint;
use cutover_core::profile::Misfit;
use cutover_karmada::name::Gvk;

/// How long an answer is taken for the same.
const KNOWN: Duration = Duration::from_secs(30);
/// The same of one that could not be had.
const UNKNOWN: Duration = Duration::from_secs(5);

/// What intents that begin at the same time know of each other.
#[derive(Clone, Debug, Default)]
pub struct Fits(Arc<Mutex<Vec<Kept>>>);

#[derive(Debug)]
struct Kept {
    at: Instant,
    gvk: Gvk,
    profile: Arc<WorkloadProfileSpec>,
    misfits: Seen<Vec<Misfit>>,
}

impl Kept {
    fn is_fresh(&self) -> bool {
        let limit = match self.misfits {
            Seen::Known { .. } => KNOWN,
            Seen::Unknown { .. } => UNKNOWN,
        };
        self.at.elapsed() < limit
    }
}

impl Fits {
    /// Returns what of a profile doesn't fit a kind. One question at a time: a hundred moves that begin ask once.
    pub(in crate::reconcile) async fn misfits(
        &self,
        cluster: &Cluster,
        gvk: &Gvk,
        profile: &Arc<WorkloadProfileSpec>,
    ) -> Seen<Vec<Misfit>> {
        let mut all = self.0.lock().await;
        all.retain(Kept::is_fresh);
        let known = all.iter().find(|one| one.gvk == *gvk && one.profile == *profile);
        if let Some(known) = known {
            return known.misfits.clone();
        }
        let misfits = look(cluster, gvk, profile).await;
        all.push(Kept {
            at: Instant::now(),
            gvk: gvk.clone(),
            profile: Arc::clone(profile),
            misfits: misfits.clone(),
        });
        misfits
    }
}

async fn look(cluster: &Cluster, gvk: &Gvk, profile: &WorkloadProfileSpec) -> Seen<Vec<Misfit>> {
    let definition = match cluster.lookup(gvk).await {
        Ok(Lookup::Served(served)) => definitions::of(cluster, &served).await,
        // That is told by itself.
        Ok(Lookup::NotServed) => return Seen::known(Vec::new(), super::ask::instant(cluster)),
        Err(error) => return Seen::unknown(error.to_string()),
    };
    map(&definition, |definition| {
        let definition = definition.as_ref();
        definition.map_or_else(Vec::new, |definition| {
            lint::misfits_with(profile, gvk, definition)
        })
    })
}
