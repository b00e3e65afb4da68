//! Before the first effect: gates, and every reason why the move could fail. Nothing is written but the journal.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Machine, Next, Phase, Stop};
use crate::api::{
    BindingId, Finding, Journal, StepRecord, TemplateChange, WorkloadProfile, WorkloadProfileSpec,
};
use crate::intent::effect::{Effect, overlay};
use crate::karmada::{Cluster, Placement, ResourceBinding, ResourceBindingSpec, meta};
use crate::name::ClusterName;
use crate::profile::{self, Profile};

impl Machine<'_> {
    /// Waits for the claim of somebody else, and never runs again what Git has recorded as ended.
    pub(super) fn pending(&mut self) -> Result<Next, Stop> {
        if self.status.started_at.is_none() {
            if self.status.attempt == 0
                && let Some(record) = self.world().record.get()?
                && record.ends(self.input.spec)
            {
                self.status = record.status.clone();
                return Ok(Next::Again);
            }
            let now = self.input.now;
            self.status.attempt += 1;
            self.status.started_at = Some(now);
            self.status.revision = self.input.revision.map(str::to_owned);
            self.status.steps = vec![StepRecord {
                name: Phase::Pending.to_string(),
                started_at: now,
                finished_at: None,
                evidence: Vec::new(),
            }];
            return Ok(Next::Again);
        }
        if let Some(claim) = self.world().claim.get()?
            && claim.spec.owner.uid != self.input.uid
        {
            let owner = &claim.spec.owner;
            return Err(Stop::Wait(format!(
                "{} {}/{} holds the workload",
                owner.kind, owner.namespace, owner.name
            )));
        }
        if !self.input.has_finalizer {
            return Err(Stop::Act(vec![Effect::AddFinalizer]));
        }
        Ok(Next::Enter(Phase::Preflight, Vec::new()))
    }

    /// Leaves when every finding is clear; else fails with nothing touched.
    pub(super) fn preflight(&mut self) -> Result<Next, Stop> {
        let world = self.world();
        let spec = self.input.spec;
        let Some(template) = world.template.get()? else {
            return Err(fail(
                "NoWorkload",
                format!("{} is not in the Karmada API server", self.workload()),
                "apply the workload first, or mend spec.workload",
            ));
        };
        let Some(binding) = world.binding.get()? else {
            return Err(Stop::Wait(
                "the workload has no binding yet: no policy has claimed it".to_owned(),
            ));
        };
        let source = self.source(binding)?;
        if source == spec.to {
            self.end(Phase::Completed, vec![format!("already in {source}")]);
            self.status.source = Some(source);
            return Ok(Next::Again);
        }
        let profile = self.look_up_profile()?;
        let compiled = Profile::compile(
            profile.metadata.name.as_deref().unwrap_or_default(),
            &profile.spec,
        )?;
        let clusters = world.clusters.get()?;
        let mut findings = binding_findings(&binding.spec);
        findings.extend(target_findings(spec, clusters.get(&spec.to)));
        if let Some(placement) = &binding.spec.placement {
            findings.extend(placement_findings(placement, &spec.to, clusters));
        }
        findings.extend(template_findings(template));
        findings.extend(patch_findings(template, &profile.spec));
        if !findings.is_empty() {
            return Err(Stop::Fail(findings));
        }
        self.target_is_free(&spec.to)?;
        let handle_before = self.source_is_healthy(&source, &compiled)?;
        let template_change = self.template_change(template)?;
        let evidence = vec![
            format!("runs in {source} alone, healthy; no copy in {}", spec.to),
            template_change.as_ref().map_or_else(
                || "no template change to take along".to_owned(),
                |change| format!("takes the template change {} along", change.hash),
            ),
        ];
        self.status.source = Some(source.clone());
        self.status.journal = Some(Journal {
            spec: Box::new(spec.clone()),
            profile: Box::new(profile.spec),
            target: spec.to.clone(),
            template_uid: text(template, "/metadata/uid"),
            binding: binding_id(binding)?,
            seq: 1,
            pinned: false,
            repairing: false,
            writer: Some(source.clone()),
            clusters: vec![source.clone()],
            suspended: Vec::new(),
            fence: crate::api::Fence::default(),
            handle_before,
            captured: None,
            nodes: BTreeMap::new(),
            template_change,
            target_ran: false,
            phase_since: None,
            paused_since: None,
            healthy_since: None,
            down_since: None,
            up_since: None,
            committed: false,
            roll_back: None,
            unpinning: false,
            run_id: None,
            planned: Vec::new(),
            source,
        });
        self.note_nodes();
        Ok(Next::Enter(Phase::Hold, evidence))
    }

    fn source(&self, binding: &ResourceBinding) -> Result<ClusterName, Stop> {
        let spec = self.input.spec;
        let source = match binding.spec.clusters.as_slice() {
            [only] => only.name.clone(),
            [] => {
                return Err(Stop::Wait(
                    "the workload is not scheduled to a cluster yet".to_owned(),
                ));
            }
            several => {
                let names: Vec<_> = several.iter().map(|cluster| cluster.name.as_str()).collect();
                return Err(fail(
                    "SeveralClusters",
                    format!("the workload runs in several clusters: {}", names.join(", ")),
                    "a stateful workload moves from exactly one cluster: limit its policy with spreadConstraints maxGroups: 1",
                ));
            }
        };
        match &spec.from {
            Some(from) if *from != source && source != spec.to => Err(fail(
                "NotThere",
                format!("the workload runs in {source}, not in {from}"),
                "mend spec.from, or leave it out",
            )),
            _ => Ok(source),
        }
    }

    fn look_up_profile(&self) -> Result<WorkloadProfile, Stop> {
        let spec = self.input.spec;
        let given = self.world().profiles.get()?;
        profile::find(given, spec.profile.as_deref(), &spec.workload.gvk())?.ok_or_else(|| {
            fail(
                "NoProfile",
                format!("no WorkloadProfile says how {} is moved", spec.workload.gvk()),
                "add a WorkloadProfile for this kind, or name one in spec.profile",
            )
        })
    }

    /// Nothing of that name may be in the target: what it is, and whether it writes, would be anybody's guess.
    fn target_is_free(&self, target: &ClusterName) -> Result<(), Stop> {
        let there = self.world().member(target)?.object.get()?;
        let Some(object) = there else { return Ok(()) };
        let terminating = object.pointer("/metadata/deletionTimestamp").is_some();
        if terminating {
            return Err(Stop::Wait(format!(
                "{target} still deletes an object of that name"
            )));
        }
        Err(fail(
            "TargetOccupied",
            format!("{target} has an object of that name already"),
            "remove it there, after making sure that nothing needs its state",
        ))
    }

    fn source_is_healthy(
        &self,
        source: &ClusterName,
        profile: &Profile,
    ) -> Result<BTreeMap<String, String>, Stop> {
        let object = self.world().member(source)?.object.get()?.as_ref();
        let Some(object) = object else {
            return Err(Stop::Wait(format!("{source} has no copy of the workload")));
        };
        if !profile.observed(object)? || !profile.healthy(object)? {
            return Err(Stop::Wait(format!("the workload in {source} is not healthy")));
        }
        Ok(profile.handles(object)?)
    }

    /// A template change in Git that is held back goes along, unless the spec says no.
    fn template_change(&self, live: &Value) -> Result<Option<TemplateChange>, Stop> {
        if !self.input.spec.changes.template {
            return Ok(None);
        }
        let Some(desired) = self.world().desired.get()? else {
            return Ok(None);
        };
        Ok(Some(TemplateChange {
            hash: desired.hash.clone(),
            revision: desired.revision.clone(),
            manifest: desired.manifest.clone(),
            overlay: overlay(&content(live), &content(&desired.applied)),
        }))
    }
}

/// What of a template reaches the members as their spec: metadata goes its own way, status is theirs.
fn content(template: &Value) -> Value {
    let mut content = template.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("metadata");
        fields.remove("status");
    }
    content
}

fn fail(code: &str, message: String, hint: &str) -> Stop {
    Stop::Fail(vec![Finding::new(code, message, hint)])
}

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn binding_id(binding: &ResourceBinding) -> Result<BindingId, Stop> {
    let labels = binding.metadata.labels.as_ref();
    let id = labels.and_then(|labels| labels.get(meta::BINDING_ID)).cloned();
    Ok(BindingId {
        name: binding.metadata.name.clone().unwrap_or_default(),
        uid: binding.metadata.uid.clone().unwrap_or_default(),
        id: id.ok_or_else(|| Stop::Wait(format!("the binding has no label {} yet", meta::BINDING_ID)))?,
        replicas: binding
            .spec
            .clusters
            .first()
            .map(|cluster| i64::from(cluster.replicas))
            .filter(|n| *n > 0),
    })
}

fn binding_findings(binding: &ResourceBindingSpec) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !binding.graceful_eviction_tasks.is_empty() {
        findings.push(Finding::new(
            "EvictionRunning",
            "Karmada is evicting the workload from a cluster",
            "wait until the eviction has ended",
        ));
    }
    if !binding.required_by.is_empty() {
        findings.push(Finding::new(
            "Required",
            "another workload keeps this one in its clusters as a dependency",
            "move the workload that depends on it",
        ));
    }
    if binding.scheduling_suspended() {
        findings.push(Finding::new(
            "SchedulingSuspended",
            "somebody has suspended the scheduling of this workload",
            "end that suspension first: it would be lifted at the end of the migration",
        ));
    }
    let dispatch = binding.suspension.as_ref().map(|suspension| &suspension.dispatch);
    if dispatch.is_some_and(|dispatch| {
        dispatch.dispatching == Some(true) || dispatch.dispatching_on_clusters.is_some()
    }) {
        findings.push(Finding::new(
            "DispatchingSuspended",
            "somebody has suspended the dispatching of this workload",
            "end that suspension first: no pin would reach the members",
        ));
    }
    if binding.preserve_resources_on_deletion == Some(true) {
        findings.push(Finding::new(
            "PreserveResources",
            "preserveResourcesOnDeletion would leave the source's copy running, unmanaged",
            "take preserveResourcesOnDeletion out of the policy for the time of the move",
        ));
    }
    findings
}

fn target_findings(spec: &crate::api::MigrationSpec, cluster: Option<&Cluster>) -> Vec<Finding> {
    let to = &spec.to;
    let Some(cluster) = cluster else {
        return vec![Finding::new(
            "NoCluster",
            format!("no cluster {to} is joined"),
            "mend spec.to",
        )];
    };
    let mut findings = Vec::new();
    if !cluster.is_ready() {
        findings.push(Finding::new(
            "TargetNotReady",
            format!("{to} is not Ready"),
            "wait until Karmada says that it is, or choose another target",
        ));
    }
    if !cluster.serves(&spec.workload.api_version, &spec.workload.kind) {
        findings.push(Finding::new(
            "NoApiInTarget",
            format!("{to} does not serve {}", spec.workload.gvk()),
            "install the CRD and its operator there",
        ));
    }
    findings
}

/// Whether the placement keeps the workload in the target, and only there, once the scheduler may act again.
pub(super) fn placement_findings(
    placement: &Placement,
    to: &ClusterName,
    clusters: &BTreeMap<ClusterName, Cluster>,
) -> Vec<Finding> {
    if !placement.cluster_affinities.is_empty() {
        return vec![Finding::new(
            "AffinityGroups",
            "the policy has clusterAffinities: the scheduler would go back to the first group that fits",
            "use one clusterAffinity that holds both clusters",
        )];
    }
    let fits = |cluster: &&Cluster| {
        placement
            .cluster_affinity
            .as_ref()
            .is_none_or(|affinity| affinity.matches(cluster))
    };
    if !clusters.get(to).iter().any(fits) {
        return vec![Finding::new(
            "PlacementExcludesTarget",
            format!("the policy's placement does not hold {to}: the scheduler would move the workload back"),
            format!("add {to} to the policy's clusterAffinity, in a push before this one"),
        )];
    }
    if placement.divides_by_static_weights() {
        return vec![Finding::new(
            "StaticWeights",
            "the policy divides replicas by static weights: the next scale would spread the workload over all of them",
            "use replicaDivisionPreference: Aggregated",
        )];
    }
    let one_group = placement
        .cluster_constraint()
        .is_some_and(|constraint| constraint.max_groups == 1);
    let candidates = clusters.values().filter(fits).count();
    if !placement.aggregates() && !one_group && candidates > 1 {
        return vec![Finding::new(
            "Spreads",
            "the policy spreads the workload over every cluster that fits: both would run it",
            "add spreadConstraints: [{spreadByField: cluster, maxGroups: 1}] to the policy",
        )];
    }
    Vec::new()
}

/// Karmada's `add` below a field that isn't there freezes the Work, and nothing says so but a marker that never comes.
fn patch_findings(template: &Value, profile: &WorkloadProfileSpec) -> Vec<Finding> {
    let patches = [
        &profile.hold,
        &profile.suspend,
        &profile.start,
        &profile.restart,
        &profile.restart_from,
    ];
    let parents: BTreeSet<&str> = patches
        .into_iter()
        .flatten()
        .filter_map(|patch| Some(patch.path.rsplit_once('/')?.0))
        .collect();
    parents
        .into_iter()
        .filter(|parent| template.pointer(parent).is_none())
        .map(|parent| {
            Finding::new(
                "NoPlaceForPatch",
                format!("the template has no {parent}, which the profile patches"),
                "add it to the template, empty if need be",
            )
        })
        .collect()
}

fn template_findings(template: &Value) -> Vec<Finding> {
    let retains = template
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(meta::RETAIN_REPLICAS))
        .is_some_and(|value| value == "true");
    if retains {
        return vec![Finding::new(
            "RetainReplicas",
            "the template has retain-replicas: its members keep their own replicas whatever a pin says",
            "take the label (and the HPA that sets it) off for the time of the move",
        )];
    }
    Vec::new()
}

#[cfg(test)]
mod tests;
