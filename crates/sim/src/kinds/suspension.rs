use cutover_core::api::{Finding, SuspensionPhase as Phase, SuspensionSpec, SuspensionStatus};
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::pin::OWNER_LABEL;
use cutover_core::intent::suspension::{self, Copy, Snapshot, binding_id, carries};
use cutover_core::intent::{ControlPlane, Seen, Step};

use super::{binding, overrides, pin, policy, policy_name, template, works};
use crate::actor::{Input, Intent, Kind, View, Word, uids};

#[derive(Clone, Debug)]
pub struct Suspension;

impl Kind for Suspension {
    type Spec = SuspensionSpec;
    type Status = SuspensionStatus;
    type Snapshot = Snapshot;
    type Memory = ();
    const NAME: &'static str = "Suspension";

    #[expect(clippy::too_many_lines, reason = "one field after the other")]
    fn snapshot(view: &mut View<'_>, intent: &Intent<Self>) -> Box<Snapshot> {
        let policy = policy(view);
        let pin_context = pin_context(view, intent, policy.as_ref());
        let name = policy.is_some().then(|| policy_name(view));
        let binding = binding(view);
        let id = binding
            .as_ref()
            .and_then(binding_id)
            .unwrap_or_default()
            .to_owned();
        let works = works(view);
        let copies = view.each_member(|member, workload, read| {
            let manifest = works.get(&member.name)?.manifest()?.clone();
            Some((
                manifest,
                match member.unseen() {
                    Some((why, _)) => Seen::unknown(why),
                    None => Seen::known(member.copies[workload].object.as_deref().cloned(), read()),
                },
            ))
        });
        let workload = view.before().key.clone();
        let copies = copies.into_iter().filter_map(|(cluster, copy)| {
            let (manifest, object) = copy?;
            Some(Copy {
                workload: workload.clone(),
                cluster,
                manifest,
                object,
            })
        });
        let works = works
            .into_iter()
            .map(|(cluster, work)| ((id.clone(), cluster), work));
        let journal = intent.status.journal.as_ref();
        let number = journal.filter(|journal| journal.spec.scope.scheduling());
        let canary = number
            .map(|journal| canary_name(&intent.uid, intent.status.common.attempt, journal.fence.canary));
        let canary = canary.and_then(|name| view.then.canary(&name));
        let claims = view
            .first
            .workloads
            .iter()
            .filter_map(|of| of.claim.as_deref().cloned())
            .collect();
        let labels = intent.labels.iter();
        Box::new(Snapshot {
            name: view.known(name),
            policy: view.known(policy),
            bindings: view.known(binding.into_iter().collect()),
            works: view.known(works.collect()),
            claims: view.known(claims),
            clusters: view.known(view.then.clusters.keys().cloned().collect()),
            suspensions: view.known(uids(&view.others.suspensions)),
            copies: Some(copies.collect()),
            contested: Vec::new(),
            watched: Vec::new(),
            author: None,
            parent: labels
                .filter(|(label, _)| label == OWNER_LABEL)
                .map(|(_, uid)| uid.clone())
                .next(),
            canary: view.known(canary),
            leases: view.leases(),
            pin_context,
        })
    }

    fn step(input: &Input<'_, Self>) -> Step<SuspensionStatus> {
        suspension::step(input)
    }

    fn is_at_rest(status: &SuspensionStatus) -> bool {
        status.phase == Phase::Suspended && status.common.waiting_for.is_none()
    }

    fn findings(status: &SuspensionStatus) -> &[Finding] {
        &status.common.findings
    }

    fn offers(_intent: &Intent<Self>) -> Vec<Word> {
        Vec::new()
    }

    fn answer(_intent: &mut Intent<Self>, _word: &Word) {}

    fn abort(spec: &mut SuspensionSpec) {
        spec.abort = true;
    }

    fn pause(spec: &mut SuspensionSpec, paused: bool) {
        spec.paused = paused;
    }
}

/// Read where a pin carries it, or may have to.
fn pin_context(
    view: &mut View<'_>,
    intent: &Intent<Suspension>,
    policy: Option<&cutover_karmada::PropagationPolicy>,
) -> Option<ControlPlane> {
    let target = intent.spec.target.workload.as_ref()?;
    let wanted = match &intent.status.journal {
        Some(journal) => journal.pin.is_some(),
        None => intent.spec.scope.dispatching() && policy.is_some_and(|policy| !carries(policy, target)),
    };
    if !wanted {
        return None;
    }
    let (template, pin) = (template(view), pin(view));
    Some(ControlPlane {
        template: view.known(template),
        pin: view.known(pin),
        overrides: overrides(view),
        clusters: view.clusters(),
        ..ControlPlane::unread("a pin does not need it")
    })
}
