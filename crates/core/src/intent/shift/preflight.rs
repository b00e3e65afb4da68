//! Before the first effect: gates, and every reason why the shift could fail. Nothing is written but the journal.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::Value;

use super::end::total;
use super::fence::is_kept;
use super::moves::{autoscaled, next_goal};
use super::predict::placement_digest;
use super::validate::{two_writers, validate};
use super::{Interrupt, Next, Operation, Phase, Side, suspension_name};
use crate::api::{BindingId, Fence, Finding, PinState, ReplicaShiftSpec, ShiftJournal, WaitCode};
use crate::intent::holders::{Holders, is_own};
use crate::intent::operation::window_ended;
use crate::intent::other_managers::account;
use crate::intent::replicas::replicas_of;
use crate::intent::rivals;
use crate::intent::scalers::Scaler;
use crate::profile::{self, needs_cluster};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, ResourceBinding, ResourceBindingSpec, SyncMode, meta};

/// How long a cluster is waited for that nobody sees.
const UNSEEN: SignedDuration = SignedDuration::from_mins(1);

impl Operation<'_> {
    /// Waits for its window and for the claim of somebody else.
    pub(super) fn pending(&mut self) -> Result<Next, Interrupt> {
        let now = self.input.now;
        let common = &mut self.status.common;
        if common.started_at.is_none() {
            common.attempt += 1;
            common.started_at = Some(now);
            common.revision = self.input.revision.map(str::to_owned);
            common.enter(Phase::Pending.name(), Vec::new(), now);
            return Ok(Next::Requeue);
        }
        self.wait_for_window(self.input.spec.window.as_ref(), window_ended)?;
        let claim = self.snapshot().plane.claim.get()?.as_ref();
        rivals::may_claim(claim, self.input.uid, self.input.ahead)
            .map_err(|reason| Interrupt::wait_for(WaitCode::Claim, reason))?;
        Ok(Next::Enter(Phase::Preflight, Vec::new()))
    }

    /// Nothing has begun: a cluster that nobody sees for a while is told, and not waited for.
    fn are_seen(&self, listed: &[ClusterName]) -> Result<(), Interrupt> {
        let unseen = |name: &&ClusterName| {
            let copy = self.snapshot().members.get(*name);
            copy.is_some_and(|copy| copy.get().is_err())
        };
        let Some(cluster) = listed.iter().find(unseen) else {
            return Ok(());
        };
        let why = format!("{cluster} to be seen: its replicas can't be counted");
        Err(if self.has_waited(&why, UNSEEN) {
            Interrupt::Fail(vec![Finding::new(
                "ClusterUnseen",
                format!("{cluster} cannot be observed, and the shift has not begun"),
                "ask for it again when the cluster can be reached, or has left the binding",
            )])
        } else {
            Interrupt::Wait(why)
        })
    }

    /// Leaves when every finding is clear and everything is at rest; else fails with nothing touched.
    pub(super) fn preflight(&mut self) -> Result<Next, Interrupt> {
        let (spec, snapshot) = (self.input.spec, self.snapshot());
        // What is to be seen now is another one's doing: it begins anew when that one has ended.
        if let Err(why) = rivals::may_claim(snapshot.plane.claim.get()?.as_ref(), self.input.uid, None) {
            return Ok(Next::Enter(Phase::Pending, vec![why]));
        }
        let Some(template) = snapshot.plane.template.get()? else {
            return Err(Interrupt::Fail(vec![Finding::new(
                "NoWorkload",
                format!("{} is not in the Karmada API server", self.workload()),
                "apply the workload first, or fix spec.workload",
            )]));
        };
        let Some(binding) = snapshot.plane.binding.get()? else {
            return Err(Interrupt::Wait(
                "the workload has no binding yet: no policy has claimed it".to_owned(),
            ));
        };
        not_kept(binding)?;
        if binding.spec.clusters.is_empty() {
            return Err(Interrupt::Wait(
                "the workload is not scheduled to a cluster yet".to_owned(),
            ));
        }
        self.has_one_profile()?;
        self.without_findings(template, binding)?;
        let from = Side::of(&spec.from);
        let listed: Vec<ClusterName> = binding.spec.clusters.iter().map(|one| one.name.clone()).collect();
        let expands = !listed.contains(&spec.to);
        self.others_are_held(template)?;
        self.target_is_free(expands)?;
        self.are_seen(&listed)?;
        let start = self.at_rest(&listed)?;
        let template_replicas = replicas_of(template).unwrap_or_default();
        let template_wanted = spec.from.control_plane.then_some(template_replicas);
        let amount = match &from {
            Side::Member(cluster) => start.get(cluster).copied().unwrap_or_default(),
            Side::ControlPlane => template_replicas,
        };
        let all = total(&start, template_wanted);
        if amount == 0 {
            self.end(Phase::Completed, vec![format!("{from} has no replicas to move")]);
            return Ok(Next::Requeue);
        }
        let floor = floor_of(spec, all)?;
        self.begin(binding, template, start, (amount, floor))?;
        self.status.floor = Some(floor);
        self.status.lowest = Some(all);
        self.status.ready = Some(all);
        let fights = self.compile().and_then(|pin| self.check_effective(&pin));
        if let Err(stop) = fights {
            self.status.journal = None;
            return Err(stop);
        }
        let evidence = vec![format!(
            "{all} replicas are ready, {amount} of them in {from}; {floor} must be at every moment"
        )];
        Ok(Next::Enter(Phase::Hold, evidence))
    }

    /// Several for one kind are waited for: it is settled when one of them has gone, as after a change of its name.
    fn has_one_profile(&mut self) -> Result<(), Interrupt> {
        let given = self.snapshot().plane.profiles.get()?;
        let found = profile::ambiguous(given, &self.input.spec.workload.gvk());
        let has_namespace = self.workload().namespace.is_some();
        let findings = &mut self.status.common.findings;
        findings.retain(|finding| finding.code != profile::AMBIGUOUS);
        let Some(finding) = found.filter(|_| has_namespace) else {
            return Ok(());
        };
        let reason = finding.message.clone();
        findings.push(finding);
        Err(Interrupt::Wait(reason))
    }

    /// Fails with every finding there is.
    fn without_findings(&self, template: &Value, binding: &ResourceBinding) -> Result<(), Interrupt> {
        let spec = self.input.spec;
        let clusters = self.snapshot().plane.clusters.get()?;
        let mut findings = validate(spec);
        findings.extend(self.about_workload(template)?);
        findings.extend(about_binding(&binding.spec, spec));
        findings.extend(about_target(spec, clusters.get(&spec.to), binding));
        findings.extend(self.about_afterwards()?);
        // Members are asked only when what can be told without them is clear.
        if findings.is_empty() {
            findings = self.about_scaling(template)?;
        }
        if findings.is_empty() {
            Ok(())
        } else {
            Err(Interrupt::Fail(findings))
        }
    }

    /// Writes down what the attempt begins with.
    fn begin(
        &mut self,
        binding: &ResourceBinding,
        template: &Value,
        start: BTreeMap<ClusterName, u32>,
        (amount, floor): (u32, u32),
    ) -> Result<(), Interrupt> {
        let spec = self.input.spec;
        let listed: Vec<ClusterName> = start.keys().cloned().collect();
        let expands = !listed.contains(&spec.to);
        let template_replicas = replicas_of(template).unwrap_or_default();
        let template_wanted = spec.from.control_plane.then_some(template_replicas);
        let mut wanted = start;
        wanted.entry(spec.to.clone()).or_default();
        self.status.journal = Some(ShiftJournal {
            spec: Box::new(spec.clone()),
            binding: binding_id(binding)?,
            template_uid: text(template, "/metadata/uid"),
            pods: self.pods(template)?,
            pin: PinState::default(),
            listed,
            expands,
            placement: placement_digest(binding.spec.placement.as_ref()),
            template_replicas,
            start: wanted.clone(),
            wanted,
            template_wanted,
            amount,
            goal: next_goal(spec, 0, amount),
            floor,
            step_since: Some(self.input.now),
            rests_since: None,
            paused_since: None,
            fence: Fence::default(),
            back: None,
            planned: Vec::new(),
        });
        Ok(())
    }

    fn about_workload(&self, template: &Value) -> Result<Vec<Finding>, Interrupt> {
        let spec = self.input.spec;
        let mut found = Vec::new();
        if self.workload().namespace.is_none() {
            found.push(Finding::new(
                "ClusterScoped",
                format!(
                    "{} has no namespace, and so no replicas of its own",
                    spec.workload.kind
                ),
                "name a workload that has spec.replicas, such as a Deployment",
            ));
            return Ok(found);
        }
        let profile = self.profile()?;
        found.extend(two_writers(spec, profile.spec()));
        let unmet = profile
            .unmet(template)
            .map_err(|error| Interrupt::Wait(error.to_string()))?;
        found.extend(unmet.into_iter().map(|unmet| {
            Finding::new(
                "Unmet",
                unmet.message.clone(),
                unmet.hint.clone().unwrap_or_default(),
            )
        }));
        if template.pointer("/spec/replicas").is_none() && self.workload().kind != "Deployment" {
            found.push(Finding::new(
                "NoReplicas",
                format!("{} has no spec.replicas", self.workload()),
                "only what counts its replicas in spec.replicas and status.availableReplicas can be shifted",
            ));
        }
        if template.pointer("/metadata/deletionTimestamp").is_some() {
            found.push(Finding::new(
                "BeingDeleted",
                "the template is being deleted",
                "apply it again",
            ));
        }
        Ok(found)
    }

    /// Returns whoever else sets replicas.
    pub(super) fn autoscalers(&self) -> Result<impl Iterator<Item = &Scaler>, Interrupt> {
        let all = self.snapshot().autoscalers.get()?.iter();
        Ok(all.filter(|scaler| scaler.is_active()))
    }

    /// Whoever else sets replicas would undo what the pin says, or never see it.
    fn about_scaling(&self, template: &Value) -> Result<Vec<Finding>, Interrupt> {
        let mut found = Vec::new();
        let labels = template.pointer("/metadata/labels");
        let retains = labels
            .and_then(|labels| labels.get(meta::RETAIN_REPLICAS))
            .and_then(Value::as_str);
        if retains == Some("true") {
            found.push(Finding::new(
                "RetainReplicas",
                format!(
                    "the template has the label {}: each member keeps its own replicas, whatever the control plane says",
                    meta::RETAIN_REPLICAS
                ),
                "remove the label, and what scales the members, for the duration of the shift",
            ));
        }
        found.extend(self.autoscalers()?.map(autoscaled));
        Ok(found)
    }

    /// What `then` asks for must be possible before anything is begun.
    fn about_afterwards(&self) -> Result<Vec<Finding>, Interrupt> {
        let spec = self.input.spec;
        let mut found = Vec::new();
        if spec.then.suspend.is_empty() {
            return Ok(found);
        }
        for cluster in &spec.then.suspend {
            if spec.from.cluster.as_ref() != Some(cluster) {
                found.push(Finding::new(
                    "SuspendsAnother",
                    format!("then.suspend names {cluster}, which the replicas don't come from"),
                    "name the cluster of spec.from; others are suspended by a Suspension of their own",
                ));
            }
        }
        let Some(policy) = self.snapshot().policy.get()? else {
            return Err(Interrupt::Wait(
                "the policy of the workload is not there".to_owned(),
            ));
        };
        let name = policy.metadata.name.clone().unwrap_or_default();
        if !is_own(policy, &spec.workload) {
            found.push(Finding::new(
                "SharedPolicy",
                format!(
                    "then.suspend needs a policy that is the workload's own, and {name} selects more than it"
                ),
                "give the workload a policy that names it alone, or leave then.suspend out",
            ));
        }
        if policy.spec.suspension.is_some() && Holders::of(&policy.metadata)?.is_empty() {
            found.push(Finding::new(
                "SuspendedElsewhere",
                format!("{name} has a spec.suspension of its own"),
                "take it off first",
            ));
        }
        if let Some(suspension) = self.snapshot().suspension.get()?
            && !self.is_ours(suspension)
        {
            let there = suspension_name(self.input.name);
            found.push(Finding::new(
                "SuspensionExists",
                format!("there is a Suspension {there} already, and then.suspend would make one"),
                "remove it, or give the ReplicaShift another name",
            ));
        }
        Ok(found)
    }

    /// Who would put the replicas of the template back has to be held.
    fn others_are_held(&self, template: &Value) -> Result<(), Interrupt> {
        match account(template, &self.snapshot().other_managers).filter(|others| !others.held) {
            Some(others) => Err(Interrupt::Wait(format!(
                "the replicas of the template would be put back: {} ({})",
                others.message,
                others.hint.unwrap_or_default()
            ))),
            None => Ok(()),
        }
    }

    /// Nothing of that name may be where the target is to be born.
    fn target_is_free(&self, expands: bool) -> Result<(), Interrupt> {
        let to = &self.input.spec.to;
        let there = self.snapshot().members.get(to);
        let there = there.ok_or_else(|| Interrupt::Wait(format!("{to} was not looked at")))?;
        let there = there
            .get()
            .map_err(|why| Interrupt::Wait(format!("{to}: {why}")))?;
        match there {
            Some(object) if expands && object.pointer("/metadata/deletionTimestamp").is_some() => Err(
                Interrupt::Wait(format!("{to} still deletes an object of that name")),
            ),
            Some(_) if expands => Err(Interrupt::Fail(vec![Finding::new(
                "TargetOccupied",
                format!("{to} has an object of that name that is not the workload's"),
                "remove it there",
            )])),
            _ => Ok(()),
        }
    }

    /// Returns the replicas of each cluster, when each has all that it was asked for.
    fn at_rest(&self, listed: &[ClusterName]) -> Result<BTreeMap<ClusterName, u32>, Interrupt> {
        let mut start = BTreeMap::new();
        for (side, count) in self.counts() {
            let count = count.map_err(|why| Interrupt::Wait(format!("{side}: {why}")))?;
            if !count.is_full() {
                return Err(Interrupt::Wait(format!(
                    "{side}: {} of {} replicas are ready; it begins when all are",
                    count.ready, count.wanted
                )));
            }
            if let Side::Member(cluster) = side
                && listed.contains(&cluster)
            {
                start.insert(cluster, count.wanted);
            }
        }
        match listed.iter().find(|cluster| !start.contains_key(*cluster)) {
            Some(cluster) => Err(Interrupt::Wait(format!("{cluster} was not looked at"))),
            None => Ok(start),
        }
    }

    fn pods(&self, template: &Value) -> Result<Option<String>, Interrupt> {
        if !self.input.spec.from.control_plane {
            return Ok(None);
        }
        let selector = self.profile()?.pod_selector(template);
        let selector = selector.map_err(|error| Interrupt::Wait(error.to_string()))?;
        match selector {
            Some(selector) if needs_cluster(&selector) => Err(Interrupt::Fail(vec![Finding::new(
                "NoPods",
                "the WorkloadProfile names the workload's pods with ${cluster}, and the control plane is no cluster",
                "give the profile noPods without ${cluster}",
            )])),
            Some(selector) => Ok(Some(selector)),
            None => Err(Interrupt::Fail(vec![Finding::new(
                "NoPods",
                "the WorkloadProfile doesn't say which pods are the workload's, and on the control plane only pods count",
                "give the profile noPods",
            )])),
        }
    }
}

/// Returns how many replicas must be ready at every moment, which can't be more than there are.
fn floor_of(spec: &ReplicaShiftSpec, all: u32) -> Result<u32, Interrupt> {
    let floor = spec.floor.of(all);
    if floor > all {
        return Err(Interrupt::Fail(vec![Finding::new(
            "FloorTooHigh",
            format!(
                "spec.floor is {}, and there are {all} replicas in all",
                spec.floor
            ),
            "lower spec.floor, or scale the workload up first",
        )]));
    }
    Ok(floor)
}

fn about_binding(binding: &ResourceBindingSpec, spec: &ReplicaShiftSpec) -> Vec<Finding> {
    let mut found = Vec::new();
    let lists = |name: &ClusterName| binding.clusters.iter().any(|cluster| cluster.name == *name);
    if let Some(from) = spec.from.cluster.as_ref().filter(|from| !lists(from)) {
        found.push(Finding::new(
            "NotThere",
            format!("the workload is not in {from}"),
            "fix spec.from",
        ));
    }
    if binding.scheduling_suspended() {
        found.push(Finding::new(
            "SchedulingSuspended",
            "scheduling of the workload is suspended already, by another client",
            "end that suspension first",
        ));
    }
    for cluster in spec.from.cluster.iter().chain([&spec.to]) {
        if binding.dispatching_suspended(cluster.as_str()) {
            found.push(Finding::new(
                "DispatchingSuspended",
                format!("changes are kept from {cluster} by a suspension"),
                "end that suspension first",
            ));
        }
    }
    if let Some(task) = binding.graceful_eviction_tasks.first() {
        found.push(Finding::new(
            "Evicting",
            format!(
                "Karmada evicts the workload from {}: {}",
                task.from_cluster, task.reason
            ),
            "wait until the eviction has ended, or remove its task",
        ));
    }
    if !binding.required_by.is_empty() {
        found.push(Finding::new(
            "Required",
            "another workload requires this one as a dependency, and brings it to its own clusters",
            "shift what requires it",
        ));
    }
    if binding.failover.is_some() {
        found.push(Finding::new(
            "FailoverOn",
            "the policy has failover: a side whose replicas are not ready yet could be evicted in the middle of a step",
            "remove spec.failover from the policy for the duration of the shift",
        ));
    }
    found
}

fn about_target(
    spec: &ReplicaShiftSpec,
    cluster: Option<&Cluster>,
    binding: &ResourceBinding,
) -> Vec<Finding> {
    let Some(cluster) = cluster else {
        return vec![Finding::new(
            "UnknownCluster",
            format!("{} is not a cluster of this control plane", spec.to),
            "fix spec.to, or join the cluster",
        )];
    };
    let mut found = Vec::new();
    if !cluster.is_ready() {
        found.push(Finding::new(
            "TargetNotReady",
            format!("{} is not Ready", spec.to),
            "wait until it is",
        ));
    }
    if cluster.spec.sync_mode == SyncMode::Pull {
        found.push(Finding::new(
            "PullMode",
            format!("{} is in Pull mode, where copies cannot be observed", spec.to),
            "join it in Push mode",
        ));
    }
    if !cluster.serves(&spec.workload.api_version, &spec.workload.kind) {
        found.push(Finding::new(
            "KindNotServed",
            format!("{} does not serve {}", spec.to, spec.workload.gvk()),
            "install what serves it there",
        ));
    }
    let placement = binding.spec.placement.as_ref();
    if let Some(taint) = placement.and_then(|placement| placement.evicted_by(cluster)) {
        found.push(Finding::new(
            "Tainted",
            format!(
                "{} has the taint {}, for which Karmada evicts",
                spec.to, taint.key
            ),
            "take the taint away, or have the policy tolerate it without a limit of time",
        ));
    }
    found
}

fn binding_id(binding: &ResourceBinding) -> Result<BindingId, Interrupt> {
    let labels = binding.metadata.labels.as_ref();
    let id = labels.and_then(|labels| labels.get(meta::BINDING_ID)).cloned();
    Ok(BindingId {
        name: binding.metadata.name.clone().unwrap_or_default(),
        uid: binding.metadata.uid.clone().unwrap_or_default(),
        id: id
            .ok_or_else(|| Interrupt::Wait(format!("the binding has no label {} yet", meta::BINDING_ID)))?,
        cluster_scoped: false,
        replicas: None,
        target_affinity: None,
    })
}

fn text(value: &Value, pointer: &str) -> String {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// A copy that Karmada has evicted, and keeps, gets nothing any more.
fn not_kept(binding: &ResourceBinding) -> Result<(), Interrupt> {
    let mut tasks = binding.spec.graceful_eviction_tasks.iter();
    match tasks.find(|task| is_kept(task)) {
        Some(task) => Err(Interrupt::Fail(vec![Finding::new(
            "EvictionRunning",
            format!(
                "Karmada has evicted the workload from {} and keeps the copy there ({}): nothing ends that by itself",
                task.from_cluster, task.reason
            ),
            "let that copy be deleted, or take the eviction back; then ask for the shift again",
        )])),
        None => Ok(()),
    }
}
