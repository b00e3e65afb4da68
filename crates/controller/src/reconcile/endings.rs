//! What becomes of workloads whose templates a plan takes out of Git, by the bindings and profiles that were read.

use super::preflight::is_of;
use cutover_core::api::WorkloadProfile;
use cutover_core::config::UnknownKinds;
use cutover_core::intent::Seen;
use cutover_core::intent::gate::{State, may_have_state, state_of};
use cutover_core::plan::{Action, Change};
use cutover_core::profile;
use cutover_core::report::review::Ending;
use cutover_karmada::ResourceBinding;

/// Returns whether a change takes out of Git what may run somewhere.
pub(super) fn leaves_git(change: &Change) -> bool {
    let leaves = change.is_deletion() || matches!(change.action, Action::LeftBehind { .. });
    leaves && may_have_state(&change.key)
}

/// Returns what becomes of the workloads that leave Git; an error says what could not be read. What has neither replicas nor a
/// profile is no workload.
pub(super) fn endings(
    leaving: &[&Change],
    profiles: &Seen<Vec<WorkloadProfile>>,
    bindings: &Seen<Vec<ResourceBinding>>,
) -> Result<Vec<Ending>, String> {
    if leaving.is_empty() {
        return Ok(Vec::new());
    }
    let given = profiles.get().map_err(|why| why.to_string())?;
    let bindings = bindings.get().map_err(|why| why.to_string())?;
    let mut endings = Vec::new();
    for change in leaving {
        let Some(binding) = bindings.iter().find(|binding| is_of(binding, &change.key)) else {
            continue;
        };
        let (profile, state) = profile::find(given, None, &change.gvk)
            .and_then(|profile| Ok((profile, state_of(given, &change.gvk, UnknownKinds::Pass)?)))
            .map_err(|error| error.to_string())?;
        if profile.is_some() || state == State::Unsaid || binding.spec.replicas > 0 {
            endings.extend(Ending::of(change, binding, state));
        }
    }
    Ok(endings)
}
