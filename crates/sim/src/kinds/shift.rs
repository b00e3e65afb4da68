use cutover_core::api::{Finding, ReplicaShiftSpec, ReplicaShiftStatus, ShiftPhase as Phase};
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::replicas::replicas_of;
use cutover_core::intent::shift::{self, Snapshot, suspension_name};
use cutover_core::intent::{ControlPlane, Seen, Step};

use super::{binding, overrides, pin, policy, template, works};
use crate::actor::{Input, Intent, Kind, View, Word};

#[derive(Clone, Debug)]
pub struct ReplicaShift;

impl Kind for ReplicaShift {
    type Spec = ReplicaShiftSpec;
    type Status = ReplicaShiftStatus;
    type Snapshot = Snapshot;
    type Memory = ();
    const NAME: &'static str = "ReplicaShift";

    fn snapshot(view: &mut View<'_>, intent: &Intent<Self>) -> Box<Snapshot> {
        let status = &intent.status;
        let number = status.journal.as_ref().map(|journal| journal.fence.canary);
        let canary = number.map(|number| canary_name(&intent.uid, status.common.attempt, number));
        let canary = canary.and_then(|name| view.then.canary(&name));
        let name = suspension_name(&intent.name);
        let mut suspensions = view.others.suspensions.iter();
        let suspension = suspensions
            .find(|one| one.metadata.name.as_ref() == Some(&name))
            .cloned();
        let (template, binding, policy) = (template(view), binding(view), policy(view));
        let claim = view.before().claim.as_deref().cloned();
        let (works, pin) = (works(view), pin(view));
        let copies = view.each_member(|member, workload, read| match member.unseen() {
            Some((why, _)) => Seen::unknown(why),
            None => Seen::known(member.copies[workload].object.as_deref().cloned(), read()),
        });
        let in_git = |git: &crate::git::Git| {
            let wanted = git.templates.get(&intent.workload)?;
            replicas_of(&wanted.manifest)
        };
        let mut plane = ControlPlane {
            template: view.known(template),
            binding: view.known(binding),
            works: view.known(works),
            claim: view.known(claim),
            pin: view.known(pin),
            overrides: overrides(view),
            clusters: view.clusters(),
            canary: view.known(canary),
            leases: view.leases(),
            profiles: view.known(Vec::new()),
        };
        plane.keep(shift::needs(status, true));
        Box::new(Snapshot {
            plane,
            wanted_in_git: view.known(in_git(&view.then.git)),
            policy: view.known(policy),
            autoscalers: view.known(Vec::new()),
            members: copies.into_iter().collect(),
            own_pods: view.known(Vec::new()),
            suspension: view.known(suspension),
            ..Snapshot::unread(view.before().key.clone(), "in the simulation")
        })
    }

    fn step(input: &Input<'_, Self>) -> Step<ReplicaShiftStatus> {
        shift::step(input)
    }

    /// The pin stays until the policy says what it says.
    fn is_at_rest(status: &ReplicaShiftStatus) -> bool {
        status.phase == Phase::Shifted
    }

    fn findings(status: &ReplicaShiftStatus) -> &[Finding] {
        &status.common.findings
    }

    fn offers(_intent: &Intent<Self>) -> Vec<Word> {
        Vec::new()
    }

    fn answer(_intent: &mut Intent<Self>, _word: &Word) {}

    fn abort(spec: &mut ReplicaShiftSpec) {
        spec.abort = true;
    }

    fn pause(spec: &mut ReplicaShiftSpec, paused: bool) {
        spec.paused = paused;
    }
}
