//! Of which copy the Events are read, because it is waited for and is not as it should be. Nothing is decided by them.

use jiff::Timestamp;

use super::Phase;
use crate::api::{FailoverPlanStatus, watched};
use crate::intent::Snapshot;
use crate::intent::warnings::WARNS_AFTER;
use cutover_karmada::name::ClusterName;

/// Returns the cluster that is waited for so long that its Events are read: the new copy does not come up there, or the old one does
/// not stop and a kubelet says that something is wrong.
pub fn troubled(status: &FailoverPlanStatus, around: &Snapshot, now: Timestamp) -> Option<ClusterName> {
    let flight = status.journal.as_ref()?.flight.as_ref()?;
    match status.phase {
        Phase::Releasing => {
            let is_long = watched::elapsed(flight.unwell.as_ref(), now) >= WARNS_AFTER;
            flight.to.clone().filter(|_| is_long)
        }
        Phase::Fencing => {
            let is_long = watched::elapsed(flight.stopping.as_ref(), now) >= WARNS_AFTER;
            let pods = around.member(&flight.from).ok()?.pods.get().ok()?;
            let is_in_trouble = pods.iter().any(|pod| pod.trouble.is_some());
            (is_long && is_in_trouble).then(|| flight.from.clone())
        }
        _ => None,
    }
}
