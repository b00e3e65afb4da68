//! What a migration reads, phase by phase.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{InGit, Journal, MigrationSpec, MigrationStatus, Phase};
use crate::intent::control_plane::{ControlPlane, Needs};
use cutover_karmada::name::ClusterName;

/// Returns what is read in the control plane. An intent that waits for its turn costs next to nothing. `late`: something was sent
/// that may show after the end.
pub fn needs(status: &MigrationStatus, late: bool) -> Needs {
    match status.phase {
        phase if phase.is_terminal() && !late => return Needs::empty(),
        Phase::Pending => return Needs::CLAIM,
        _ => {}
    }
    let mut needs = Needs::all();
    // The profile is copied into the journal; it is not looked at afterwards.
    needs.set(Needs::PROFILES, status.phase == Phase::Preflight);
    needs.set(Needs::CANARY, wants_canary(status));
    needs
}

/// Behind the barrier only what is left of the canary matters: where it is removed, and at the end.
pub fn wants_canary(status: &MigrationStatus) -> bool {
    let journal = status.journal_in_force();
    let is_behind = journal.is_some_and(|journal| journal.fence.barrier.is_some() && !journal.pin.unpinning);
    !is_behind || status.phase == Phase::Hold || status.phase.is_terminal()
}

/// Returns whether the record in Git is read: only where a phase asks for it, because it costs a conversation with the remote.
pub fn wants_record(status: &MigrationStatus) -> bool {
    let journal = status.journal.as_ref();
    let asked = journal.is_some_and(|journal| journal.in_git == InGit::Asked);
    let handle = journal.filter(|journal| journal.captured.is_some());
    match status.phase {
        Phase::Pending => status.common.attempt == 0,
        Phase::Hold | Phase::Expand => asked,
        Phase::Capture => handle.is_some_and(Journal::records_handle_first),
        // From the token until the target runs, Git is not read: a slow Git host would add to the downtime.
        Phase::Handoff => {
            let before = handle.filter(|journal| journal.writer.is_none());
            asked || before.is_some_and(Journal::records_handle_first)
        }
        Phase::Cleanup | Phase::RollingBack => asked || journal.is_some_and(|journal| journal.pin.unpinning),
        _ => false,
    }
}

/// Returns whether the workload's policies are read, the live one and those in Git: before it begins, and once more where a roll
/// back leaves unapplied what Git wants.
pub fn wants_policies(status: &MigrationStatus) -> bool {
    match status.phase {
        Phase::Pending | Phase::Preflight => true,
        Phase::RollingBack => status
            .journal_in_force()
            .is_some_and(|journal| journal.pin.unpinning),
        _ => false,
    }
}

/// Returns the clusters whose copies are looked at: source, target, and every cluster that may have one.
pub fn involved(
    spec: &MigrationSpec,
    status: &MigrationStatus,
    plane: &ControlPlane,
) -> BTreeSet<ClusterName> {
    let journal = status.journal_in_force();
    // The other one is proved gone, and stays so until the workload itself is gone: see `Machine::is_lost`.
    if let Some(journal) = journal.filter(|journal| journal.pin.unpinning)
        && matches!(plane.template.get(), Ok(Some(_)))
    {
        return journal.clusters.iter().cloned().collect();
    }
    let mut involved = BTreeSet::from([spec.to.clone()]);
    if let Some(journal) = journal {
        involved.extend([journal.source.clone(), journal.target.clone()]);
        involved.extend(journal.identities.keys().cloned());
    }
    if let Ok(Some(binding)) = plane.binding.get() {
        let listed = binding.spec.synced_clusters().into_iter();
        involved.extend(listed.map(|cluster| cluster.name));
        let evicted = binding.spec.graceful_eviction_tasks.iter();
        involved.extend(evicted.map(|task| task.from_cluster.clone()));
    }
    involved.extend(plane.works.get().into_iter().flat_map(BTreeMap::keys).cloned());
    // Who only looks at a workload has no target.
    involved.retain(|name| !name.as_str().is_empty());
    involved
}
