//! `ReplicaShift`s, as the loop carries them out. The control plane is read before any member: what is counted there is newer
//! than the pin that it is compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::Value;
use tokio::time::Instant;

use super::around::Around;
use super::ask::{get, map};
use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::members::{Selector, any_of};
use super::migration::WARNED_AGAIN;
use super::policies::{claimed_by, policy};
use super::{Parts, observe, other_managers, scalers, wake};
use cutover_core::api::{
    self, Barrier, Guard, ReplicaShift, ReplicaShiftSpec, ReplicaShiftStatus, ShiftPhase as Phase, Suspension,
};
use cutover_core::error::Error;
use cutover_core::intent::admission::{self, Outcome};
use cutover_core::intent::control_plane::Named;
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::replicas::replicas_of;
use cutover_core::intent::scalers::{Concerns, Scaler};
use cutover_core::intent::shift::{self, Snapshot, suspension_name};
use cutover_core::intent::warnings::Warned;
use cutover_core::intent::{self, Effect, Needs, Seen, Step};
use cutover_core::profile::selectors_in;
use cutover_core::report::{self, EventRecord};
use cutover_karmada::PropagationPolicy;
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// How often the admission fence is tried anew that stands in for a canary.
const TRIED_AGAIN: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct ReplicaShiftController {
    scalers: scalers::Known,
    /// When the admission fence was tried last.
    tested: Option<Instant>,
    /// When the Events of a member were read last for what is waited for.
    warned: Option<Instant>,
}

impl Kind for ReplicaShiftController {
    type Intent = ReplicaShift;
    type Spec = ReplicaShiftSpec;
    type Status = ReplicaShiftStatus;
    type Snapshot = Snapshot;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &ReplicaShift,
        status: &ReplicaShiftStatus,
        sent: bool,
    ) -> Snapshot {
        let namespace = intent.metadata.namespace.clone();
        let spec = status.spec_in_force(&intent.spec);
        let workload = spec.workload.key(namespace.as_deref());
        if status.phase.is_terminal() && !sent {
            return Snapshot::unread(workload, "the intent has ended");
        }
        let look = Reader {
            parts,
            intent,
            spec,
            status,
            workload,
        };
        let mut snapshot = Box::pin(look.control_plane()).await;
        if !status.phase.is_terminal() && status.phase != Phase::Pending {
            let (members, pods) = join(look.members(&snapshot), look.own_pods(&snapshot)).await;
            snapshot.members = members;
            snapshot.own_pods = pods;
            let known = self.scalers.within(scalers::AGAIN);
            snapshot.autoscalers = match known.filter(|_| status.phase == Phase::Shifting) {
                Some(known) => known,
                None => {
                    let seen = look.autoscalers(&snapshot).await;
                    self.scalers.keep(&seen);
                    seen
                }
            };
            if self.tested.is_none_or(|at| at.elapsed() >= TRIED_AGAIN) {
                snapshot.admission = look.admission(&snapshot).await;
                self.tested = snapshot.admission.as_ref().map(|_| Instant::now());
            }
            if self.warned.is_none_or(|at| at.elapsed() >= WARNED_AGAIN)
                && let Some(cluster) = shift::troubled(status, &snapshot, (parts.clock)())
            {
                snapshot.warned = Box::pin(look.warned(cluster, &snapshot)).await;
                self.warned = Some(Instant::now());
            }
        }
        snapshot
    }

    fn watched_keys(intent: &ReplicaShift, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
        let status = intent.status.clone().unwrap_or_default();
        let needs = shift::needs(&status, false);
        let canary = canary(intent);
        let named = named(&status, canary.as_deref());
        let members = snapshot.members.keys();
        let mut keys = wake::keys(needs, &snapshot.workload, &snapshot.plane, named, members);
        if needs == Needs::all() {
            keys.insert(suspension_of(intent));
        }
        keys
    }

    fn step(input: &Input<'_, Self>) -> Step<ReplicaShiftStatus> {
        shift::step(input)
    }

    async fn send(parts: &Parts, intent: &ReplicaShift, effect: &Effect) -> Result<Sent, Error> {
        match effect {
            Effect::PatchTemplate { template, patch } => {
                let kind = intent.spec_in_force().workload.gvk();
                execute::patch_template(parts, &kind, template, patch).await
            }
            other => execute::send_plain(parts, intent, other).await,
        }
    }

    fn events(before: &ReplicaShift, after: &ReplicaShiftStatus) -> Vec<EventRecord> {
        report::shift_events(before, after)
    }
}

/// The Suspension that is asked for afterwards.
fn suspension_of(intent: &ReplicaShift) -> ObjectKey {
    ObjectKey {
        group: api::GROUP.to_owned(),
        kind: "Suspension".to_owned(),
        namespace: intent.metadata.namespace.clone(),
        name: suspension_name(intent.metadata.name.as_deref().unwrap_or_default()),
    }
}

fn named<'a>(status: &'a ReplicaShiftStatus, canary: Option<&'a str>) -> Named<'a> {
    Named {
        binding: status.journal_in_force().map(|journal| &journal.binding),
        canary,
    }
}

/// Returns the name of the canary that a shift waits for, or has to remove.
pub(super) fn canary(intent: &ReplicaShift) -> Option<String> {
    let status = intent.status.as_ref()?;
    let number = status.journal.as_ref()?.fence.canary;
    let uid = intent.metadata.uid.as_deref()?;
    Some(canary_name(uid, status.common.attempt, number))
}

struct Reader<'a> {
    parts: &'a Parts,
    intent: &'a ReplicaShift,
    spec: &'a ReplicaShiftSpec,
    status: &'a ReplicaShiftStatus,
    workload: ObjectKey,
}

impl Reader<'_> {
    fn around<'a>(&'a self, gvk: &'a Gvk) -> Around<'a> {
        Around {
            parts: self.parts,
            workload: &self.workload,
            gvk,
        }
    }

    /// All at once, but for what depends on an answer.
    async fn control_plane(&self) -> Snapshot {
        let (gvk, canary) = (self.spec.workload.gvk(), canary(self.intent));
        let around = self.around(&gvk);
        let needs = shift::needs(self.status, true);
        let plane = around.plane(needs, named(self.status, canary.as_deref()));
        if needs != Needs::all() {
            return Snapshot {
                plane: plane.await,
                ..Snapshot::unread(self.workload.clone(), "the intent has not begun")
            };
        }
        let (plane, suspension) = tokio::join!(plane, self.suspension());
        // Only where the template itself is changed could somebody undo the shift.
        let other_managers = match self.status.phase {
            Phase::Preflight if self.spec.from.control_plane => {
                other_managers::look(&self.parts.cluster, &plane.template).await
            }
            _ => Vec::new(),
        };
        Snapshot {
            other_managers,
            wanted_in_git: self.wanted_in_git(),
            policy: self.policy(&plane.template).await,
            suspension,
            plane,
            ..Snapshot::unread(self.workload.clone(), "no member was read")
        }
    }

    fn namespace(&self) -> Option<&str> {
        self.workload.namespace.as_deref()
    }

    /// Tried where no canary shows the scheduler past the suspension, and under a claim of this intent that lists clusters: that is
    /// what the fence goes by.
    async fn admission(&self, snapshot: &Snapshot) -> Option<Vec<(Guard, Outcome)>> {
        let journal = self.status.journal_in_force()?;
        let fence = &journal.fence;
        let is_past = |barrier: &Barrier| !barrier.canary.is_empty();
        if journal.pin.unpinning || fence.lowered || fence.barrier.as_ref().is_some_and(is_past) {
            return None;
        }
        let (claim, binding) = (
            snapshot.plane.claim.get().ok()?.as_ref()?,
            snapshot.plane.binding.get().ok()?.as_ref()?,
        );
        let uid = self.intent.metadata.uid.as_deref().unwrap_or_default();
        if claim.spec.owner.uid != uid || claim.spec.marker.is_empty() || claim.spec.standing {
            return None;
        }
        let mut probes = admission::probes(
            claim,
            &snapshot.workload,
            &self.spec.workload.api_version,
            binding,
        );
        probes.retain(|probe| probe.guard == Guard::Bindings);
        Some(super::admission::try_out(&self.parts.cluster, probes).await)
    }

    async fn suspension(&self) -> Seen<Option<Suspension>> {
        if self.spec.then.suspend.is_empty() {
            return Seen::known(None, self.instant());
        }
        let (gvk, key) = (
            Gvk::new(api::API_VERSION, "Suspension"),
            suspension_of(self.intent),
        );
        get(&self.parts.cluster, gvk, key.namespace.as_deref(), &key.name).await
    }

    /// Which policy has taken the template up is seen in what Karmada notes on it.
    async fn policy(&self, template: &Seen<Option<Value>>) -> Seen<Option<PropagationPolicy>> {
        let named = map(template, |template| template.as_ref().and_then(claimed_by));
        let name = match named.get() {
            Ok(Some(name)) => name.clone(),
            Ok(None) => return Seen::known(None, self.instant()),
            Err(why) => return Seen::unknown(why.0),
        };
        policy(&self.parts.cluster, &name).await
    }

    fn wanted_in_git(&self) -> Seen<Option<u32>> {
        match self.parts.templates.template(&self.workload) {
            Ok(wanted) => {
                let said = wanted.filter(|wanted| wanted.manifest.pointer("/spec/replicas").is_some());
                Seen::known(
                    said.and_then(|wanted| replicas_of(&wanted.manifest)),
                    self.instant(),
                )
            }
            Err(error) => Seen::unknown(error.to_string()),
        }
    }

    /// The copy in every cluster that may have one.
    async fn members(&self, snapshot: &Snapshot) -> BTreeMap<ClusterName, Seen<Option<Value>>> {
        let involved = shift::involved(self.spec, self.status, &snapshot.plane);
        let gvk = self.spec.workload.gvk();
        let around = self.around(&gvk);
        let read = involved.into_iter().map(async |cluster| {
            let copy = around.copy(&cluster).await;
            (cluster, copy.object)
        });
        join_all(read).await.into_iter().collect()
    }

    /// The pods on the control plane, where the template runs itself: those that stay, and whether each is ready.
    async fn own_pods(&self, snapshot: &Snapshot) -> Seen<Vec<bool>> {
        if !self.spec.from.control_plane {
            return Seen::known(Vec::new(), self.instant());
        }
        let selector = match self
            .status
            .journal_in_force()
            .and_then(|journal| journal.pods.clone())
        {
            Some(selector) => Ok(Some(selector)),
            None => self.selector(snapshot),
        };
        let selector = match selector {
            Ok(Some(selector)) => selector,
            Ok(None) => return Seen::unknown("nothing says which pods are the workload's"),
            Err(why) => return Seen::unknown(why),
        };
        let reader = self.parts.cluster.reader();
        let pods = any_of(&reader, self.namespace(), &selectors_in(&selector, None)).await;
        map(&pods, |pods: &Vec<Value>| {
            let stays = |pod: &&Value| {
                let phase = pod.pointer("/status/phase").and_then(Value::as_str);
                pod.pointer("/metadata/deletionTimestamp").is_none()
                    && !matches!(phase, Some("Succeeded" | "Failed"))
            };
            let mut counted = BTreeSet::new();
            // Several selectors may match the same one.
            let pods = pods.iter().filter(|&pod| {
                let of = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
                counted.insert((of("/metadata/uid"), of("/metadata/name")))
            });
            pods.filter(stays).map(super::members::is_ready).collect()
        })
    }

    /// Reads what the Events of a cluster say of a copy that was waited for long. What can't be read isn't told.
    async fn warned(&self, cluster: ClusterName, snapshot: &Snapshot) -> Option<Warned> {
        let selector = match self.selector(snapshot) {
            Ok(selector) => Selector::of(selector, None, None),
            Err(why) => Selector::Unknown(why),
        };
        let object = snapshot.members.get(&cluster)?;
        let gvk = self.spec.workload.gvk();
        observe::warned_with_pods(self.around(&gvk), cluster, object, &selector).await
    }

    fn selector(&self, snapshot: &Snapshot) -> Result<Option<String>, String> {
        let (Ok(given), Ok(Some(template))) = (snapshot.plane.profiles.get(), snapshot.plane.template.get())
        else {
            return Err("the template or its profile is not known".to_owned());
        };
        let found = cutover_core::profile::find(given, None, &self.spec.workload.gvk())
            .map_err(|error| error.to_string())?;
        let Some(found) = found else {
            return Ok(None);
        };
        let profile =
            cutover_core::profile::Profile::compile("", &found.spec).map_err(|error| error.to_string())?;
        profile.pod_selector(template).map_err(|error| error.to_string())
    }

    /// Looked for before anything is begun, and while replicas go over.
    async fn autoscalers(&self, snapshot: &Snapshot) -> Seen<Vec<Scaler>> {
        if !matches!(self.status.phase, Phase::Preflight | Phase::Shifting) {
            return Seen::unknown("not read in this phase");
        }
        let (members, gvk) = (snapshot.members.keys(), self.spec.workload.gvk());
        scalers::read(
            &self.parts.cluster,
            (&self.workload, &gvk),
            Concerns::AUTOSCALERS,
            members,
        )
        .await
    }

    fn instant(&self) -> intent::Read {
        super::ask::instant(&self.parts.cluster)
    }
}
