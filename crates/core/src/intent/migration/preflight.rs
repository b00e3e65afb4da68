//! Before the first effect: gates, and every reason why the move could fail. Nothing is written but the journal.

mod findings;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use findings::{
    policy_finding, profile_findings, query_findings, requirement_findings, successor_finding,
    target_findings, twin_finding,
};
pub(crate) use findings::{source_notes, two_writers};

use super::other_managers::fingerprint;
use super::token::UNSEEN;
use super::{Interrupt, Next, Operation, Phase};
use crate::api::{
    BindingId, ClaimOwner, Fact, Finding, Journal, PinState, StepRecord, TemplateChange, WaitCode,
    WorkloadProfile,
};
use crate::intent::binding::binding_findings;
use crate::intent::effect::{Effect, overlay};
use crate::intent::fence::{affinity_in_use, identify};
use crate::intent::misfits;
use crate::intent::operation::window_ended;
use crate::intent::pin;
use crate::intent::placement::keeps_target;
use crate::intent::proof::{Facts, Healthy};
use crate::intent::record::digest;
use crate::intent::rivals;
use crate::profile::{self, Profile};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Placement, ResourceBinding, meta};

impl Operation<'_> {
    /// Waits for the claim of somebody else, and never runs again what Git has recorded as ended.
    pub(super) fn pending(&mut self) -> Result<Next, Interrupt> {
        if self.status.common.started_at.is_none() {
            if self.status.common.attempt == 0
                && let Some(record) = self.snapshot().record.get()?
            {
                if record.ends(self.input.spec) {
                    return self.ended_before(record);
                }
                if let Some(journal) = record.status.journal_in_force().filter(|_| record.is_cut_short()) {
                    return Err(cut_short(record.status.phase, journal));
                }
            }
            let now = self.input.now;
            self.status.common.attempt += 1;
            self.status.common.started_at = Some(now);
            self.status.common.revision = self.input.revision.map(str::to_owned);
            self.status.common.steps = vec![StepRecord {
                name: Phase::Pending.to_string(),
                started_at: now,
                finished_at: None,
                evidence: Vec::new(),
            }];
            return Ok(Next::Requeue);
        }
        let claim = self.snapshot().plane.claim.get()?.as_ref();
        // What was lent is not to lie idle until a window opens.
        if claim.is_none_or(|claim| claim.spec.owner.uid != self.input.uid) {
            self.in_window()?;
        }
        rivals::may_claim(claim, self.input.uid, self.input.ahead)
            .map_err(|reason| Interrupt::wait_for(WaitCode::Claim, reason))?;
        if !self.input.has_finalizer {
            return Err(Interrupt::Act(vec![Effect::AddFinalizer]));
        }
        Ok(Next::Enter(Phase::Preflight, Vec::new()))
    }

    /// Waits for the window to open; it doesn't close on what has begun.
    fn in_window(&self) -> Result<(), Interrupt> {
        self.wait_for_window(self.input.spec.window.as_ref(), window_ended)
    }

    /// Leaves when every finding is clear; else fails with nothing touched.
    pub(super) fn preflight(&mut self) -> Result<Next, Interrupt> {
        self.yields()?;
        let snapshot = self.snapshot();
        let spec = self.input.spec;
        let Some(template) = snapshot.plane.template.get()? else {
            return Err(fail(
                "NoWorkload",
                format!("{} is not in the Karmada API server", self.workload()),
                "apply the workload first, or fix spec.workload",
            ));
        };
        let Some(binding) = snapshot.plane.binding.get()? else {
            return Err(Interrupt::Wait(
                "the workload has no binding yet: no policy has claimed it".to_owned(),
            ));
        };
        let source = self.source(binding)?;
        let profile = self.look_up_profile()?;
        let compiled = Profile::compile(
            profile.metadata.name.as_deref().unwrap_or_default(),
            &profile.spec,
        )?;
        if source == spec.to {
            return self.is_there_already(source, &compiled);
        }
        let target_affinity = self.without_findings(template, binding, &source, &compiled)?;
        self.others_are_held(template)?;
        self.target_is_free(&spec.to)?;
        let handle_before = self.source_is_healthy(&source, &compiled)?;
        if let Some(awaited) = snapshot.dependencies.awaited(compiled.spec(), &spec.to) {
            return Err(Interrupt::Wait(awaited));
        }
        let template_change = self.template_change(template)?;
        let evidence = self.clear(&source, template, template_change.as_ref(), &compiled);
        let binding = BindingId {
            target_affinity: target_affinity.filter(|name| *name != affinity_in_use(binding)),
            ..binding_id(binding)?
        };
        let starts = self.starts_in(&source, &compiled).into_iter();
        self.status.source = Some(source.clone());
        self.status.journal = Some(Journal {
            pin: PinState::creating(pin::lacking(template, compiled.spec())),
            starts: starts.map(|starts| (source.clone(), starts)).collect(),
            handle_before,
            template_change,
            template_uid: text(template, "/metadata/uid"),
            template_spec: Some(fingerprint(template)),
            source_uid: self.uid_in(&source)?,
            identities: self.identities([&source, &spec.to])?,
            pods: compiled.pod_selector(template)?,
            lender: self.lender()?,
            ..Journal::begin(spec, Arc::clone(compiled.spec()), source, binding)
        });
        self.note_nodes();
        Ok(Next::Enter(Phase::Hold, evidence))
    }

    /// Returns the affinity term that keeps the target, if the placement has terms; fails with every finding there is.
    fn without_findings(
        &self,
        template: &Value,
        binding: &ResourceBinding,
        source: &ClusterName,
        profile: &Profile,
    ) -> Result<Option<String>, Interrupt> {
        let (spec, snapshot) = (self.input.spec, self.snapshot());
        // What it says of the template and of the source would be an error, or wrong.
        let mut findings = misfits::findings(profile.spec(), snapshot.misfits.as_ref())?;
        if !findings.is_empty() {
            return Err(Interrupt::Fail(findings));
        }
        let clusters = snapshot.plane.clusters.get()?;
        findings.extend(binding_findings(&binding.spec));
        findings.extend(snapshot.policy.get()?.as_ref().and_then(policy_finding));
        findings.extend(snapshot.successor.get()?.as_ref().and_then(successor_finding));
        findings.dedup();
        findings.extend(target_findings(spec, clusters.get(&spec.to)));
        findings.extend(twin_finding(source, &spec.to, clusters));
        let placement = self.placement_to_be(binding)?;
        let placed = placement.map_or(Ok(None), |placement| {
            keeps_target(placement, &spec.to, clusters, affinity_in_use(binding))
        });
        let target_affinity = placed.unwrap_or_else(|finding| {
            findings.push(finding);
            None
        });
        findings.extend(profile_findings(template, spec, profile.spec()));
        findings.extend(query_findings(spec, &snapshot.metrics)?);
        findings.extend(requirement_findings(template, profile)?);
        for finding in requirement_findings(&self.template_to_be(template), profile)? {
            if !findings.contains(&finding) {
                findings.push(finding);
            }
        }
        findings.extend(self.others_findings(template, source, profile.spec())?);
        findings.extend(snapshot.dependencies.findings(&spec.to));
        if !findings.is_empty() {
            return Err(Interrupt::Fail(findings));
        }
        Ok(target_affinity)
    }

    /// Returns what was seen where nothing is in the way.
    fn clear(
        &mut self,
        source: &ClusterName,
        template: &Value,
        change: Option<&TemplateChange>,
        profile: &Profile,
    ) -> Vec<String> {
        let to = &self.input.spec.to;
        let mut evidence = vec![
            format!("runs in {source} alone, healthy; no copy in {to}"),
            change.map_or_else(
                || "no template change to take along".to_owned(),
                |change| format!("takes the template change {} along", change.hash),
            ),
        ];
        let member = self.snapshot().member(source).ok();
        let copy = member.and_then(|member| member.object.get().ok()?.as_ref());
        evidence.extend(
            copy.into_iter()
                .flat_map(|copy| source_notes(profile, copy, source, to)),
        );
        evidence.extend(self.snapshot().dependencies.notes(to));
        evidence.extend(misfits::note(self.snapshot().misfits.as_ref()));
        evidence.extend(self.note_beside(template));
        evidence
    }

    /// Karmada has moved a guarded workload whose claim was lent: that is the plan's to look after, and nothing has begun here.
    fn lender_fails_over(&self, binding: &ResourceBinding) -> Result<(), Interrupt> {
        let Some(lender) = self.lender()? else {
            return Ok(());
        };
        let claim = self.snapshot().plane.claim.get()?.as_ref();
        let Some(writer) = claim.and_then(|claim| claim.spec.writer.as_ref()) else {
            return Ok(());
        };
        let spec = &binding.spec;
        let is_listed = spec.clusters.iter().any(|listed| listed.name == *writer);
        let mut tasks = spec.graceful_eviction_tasks.iter();
        if is_listed && !tasks.any(|task| task.from_cluster == *writer) {
            return Ok(());
        }
        Err(fail(
            "FailsOver",
            format!(
                "Karmada takes the workload out of {writer}: {lender}, which lent its claim, fails it over"
            ),
            "ask for the move again when the failover has ended",
        ))
    }

    /// A source that can't be looked into is waited for, or a person ends what has not begun. What was lent isn't kept from its
    /// plan for that.
    fn source_is_not_lost(&self, source: &ClusterName) -> Result<(), Interrupt> {
        let Some(why) = self.unseen(source)? else {
            return Ok(());
        };
        if let Some(by) = self.assumed(Fact::Settle, source) {
            return Err(fail(
                "SourceUnseen",
                format!("{by} ended it before it began: {why}"),
                "ask for the move again when the cluster can be observed; if it is lost, fail over from it",
            ));
        }
        let offer = self.offer(Fact::Settle, source);
        let wait = format!("{why}: nothing has begun; a person can end the migration ({offer})");
        if let Some(lender) = self.lender()?
            && self.has_waited(&wait, UNSEEN)
        {
            return Err(fail(
                "SourceUnseen",
                format!("{why}: {lender}, which lent its claim, looks after the workload"),
                "ask for the move again when the cluster can be observed",
            ));
        }
        Err(Interrupt::Wait(wait))
    }

    /// Returns the placement that the scheduler will go by when it may act again: that of the policy in Git, where sync holds
    /// it back until the move is committed; or of the one that takes the workload up then.
    fn placement_to_be<'b>(
        &'b self,
        binding: &'b ResourceBinding,
    ) -> Result<Option<&'b Placement>, Interrupt> {
        if let Some(successor) = self.snapshot().successor.get()? {
            // It may take the workload up with the next change of the template only, which waits for the end of the move.
            if successor.spec.activation_preference.is_some() {
                return Err(fail(
                    "LazyPolicy",
                    format!(
                        "{} is lazy, and claims the workload only when its template changes",
                        successor.name
                    ),
                    "take activationPreference off the policy, at least for this move",
                ));
            }
            return Ok(Some(&successor.spec.placement));
        }
        let Some(policy) = self.snapshot().policy.get()? else {
            return Ok(binding.spec.placement.as_ref());
        };
        if let Some(change) = &policy.change {
            let to_be = &change.applied;
            let is_there = binding.spec.placement.as_ref() == Some(&to_be.placement);
            // The template waits for the end of the move, which would wait for this policy.
            if to_be.activation_preference.is_some() && !is_there {
                return Err(fail(
                    "LazyPolicy",
                    format!(
                        "{} is lazy: the placement that Git has reaches the workload only when its template changes",
                        policy.name
                    ),
                    "take activationPreference off the policy, at least for this move",
                ));
            }
            return Ok(Some(&to_be.placement));
        }
        // A lazy policy reaches the binding with the next change of the template.
        let spec = &policy.live.spec;
        let is_lazy = spec.activation_preference.is_some();
        if !is_lazy
            && binding
                .spec
                .placement
                .as_ref()
                .is_some_and(|there| *there != spec.placement)
        {
            return Err(Interrupt::Wait(format!(
                "Karmada to bring {} as it is now to the workload's binding",
                policy.name
            )));
        }
        Ok(binding.spec.placement.as_ref())
    }

    /// Returns who lent the claim, if it was lent.
    fn lender(&self) -> Result<Option<ClaimOwner>, Interrupt> {
        let claim = self.snapshot().plane.claim.get()?.as_ref();
        let ours = claim.filter(|claim| claim.spec.owner.uid == self.input.uid);
        Ok(ours.and_then(|claim| claim.spec.lender.clone()))
    }

    /// There is nothing to move; that it runs there is to be seen all the same.
    fn is_there_already(&mut self, cluster: ClusterName, profile: &Profile) -> Result<Next, Interrupt> {
        let healthy = Healthy::as_it_is(&Facts {
            cluster: &cluster,
            member: self.snapshot().member(&cluster)?,
            works: self.snapshot().plane.works.get()?,
            marker: "",
            profile,
            nodes: None,
            offered: None,
        });
        let seen = match healthy {
            Ok(healthy) => healthy.evidence().to_owned(),
            Err(why) => {
                return Err(Interrupt::Wait(format!(
                    "Karmada lists it in {cluster} already, and it was not seen healthy there: {why}"
                )));
            }
        };
        self.end(Phase::Completed, vec![format!("already in {cluster}: {seen}")]);
        self.status.source = Some(cluster);
        Ok(Next::Requeue)
    }

    fn source(&self, binding: &ResourceBinding) -> Result<ClusterName, Interrupt> {
        self.lender_fails_over(binding)?;
        let spec = self.input.spec;
        let source = match binding.spec.clusters.as_slice() {
            [only] => only.name.clone(),
            [] => {
                return Err(Interrupt::Wait(
                    "the workload is not scheduled to a cluster yet".to_owned(),
                ));
            }
            several => {
                let names: Vec<_> = several.iter().map(|cluster| cluster.name.as_str()).collect();
                return Err(fail(
                    "SeveralClusters",
                    format!(
                        "Karmada lists the workload in several clusters: {}",
                        names.join(", ")
                    ),
                    "a stateful workload moves from exactly one cluster: limit its policy with spreadConstraints maxGroups: 1",
                ));
            }
        };
        match &spec.from {
            Some(from) if *from != source && source != spec.to => Err(fail(
                "NotThere",
                format!("Karmada lists the workload in {source}, not in {from}"),
                "fix spec.from, or leave it out",
            )),
            _ => Ok(source),
        }
    }

    /// Several for one kind are waited for: one whose name has changed is there twice until the old one is pruned.
    fn look_up_profile(&mut self) -> Result<WorkloadProfile, Interrupt> {
        let spec = self.input.spec;
        let given = self.snapshot().plane.profiles.get()?;
        let kind = spec.workload.gvk();
        let findings = &mut self.status.common.findings;
        findings.retain(|finding| finding.code != profile::AMBIGUOUS);
        if let Some(finding) = profile::ambiguous_unnamed(given, spec.profile.as_deref(), &kind) {
            let reason = finding.message.clone();
            self.raise(finding);
            return Err(Interrupt::Wait(reason));
        }
        let found = profile::find(given, spec.profile.as_deref(), &kind)?;
        found.ok_or_else(|| {
            Interrupt::Fail(vec![profile::no_profile(
                &kind,
                &format!("how {kind} is moved"),
                "add a WorkloadProfile for this kind, or name one in spec.profile",
            )])
        })
    }

    /// Nothing of that name may be in the target: what it is, and whether it writes, would be anybody's guess.
    fn target_is_free(&self, target: &ClusterName) -> Result<(), Interrupt> {
        let there = self.snapshot().member(target)?.object.get()?;
        let Some(object) = there else { return Ok(()) };
        let terminating = object.pointer("/metadata/deletionTimestamp").is_some();
        if terminating {
            return Err(Interrupt::Wait(format!(
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
    ) -> Result<BTreeMap<String, String>, Interrupt> {
        self.source_is_not_lost(source)?;
        let object = self.snapshot().member(source)?.object.get()?.as_ref();
        let Some(object) = object else {
            return Err(Interrupt::Wait(format!("{source} has no copy of the workload")));
        };
        if profile.observed(object)? && profile.finished(object)? {
            return Err(fail(
                "Finished",
                format!(
                    "the workload in {source} has ended: there is nothing to move, and a copy elsewhere would run again"
                ),
                "delete the intent; to run it once more, give it another name",
            ));
        }
        if !profile.observed(object)? || !profile.healthy(object)? {
            return Err(Interrupt::Wait(format!(
                "the workload in {source} is not healthy"
            )));
        }
        Ok(profile.handles(object)?)
    }

    /// Returns the template as the target is to run it: with what goes along, as far as that is known already.
    fn template_to_be(&self, live: &Value) -> Value {
        let changes = &self.input.spec.changes;
        if !changes.patches.is_empty() {
            return pin::patched(live, &changes.patches);
        }
        let desired = self.snapshot().desired.get().ok();
        let change = desired.and_then(|desired| desired.change.as_ref());
        let change = change.filter(|_| changes.template);
        change.map_or_else(|| live.clone(), |change| change.applied.clone())
    }

    /// A template change in Git that is held back goes along, unless the spec says no; or the one that the intent has.
    fn template_change(&self, live: &Value) -> Result<Option<TemplateChange>, Interrupt> {
        let changes = &self.input.spec.changes;
        let desired = self.snapshot().desired.get()?;
        if !changes.patches.is_empty() {
            if desired.is_in_git {
                return Err(fail(
                    "TemplateInGit",
                    "spec.changes.patches would be undone: the template is kept in Git".to_owned(),
                    "change the template in Git in the same push: it goes along as well",
                ));
            }
            let operations = serde_json::to_value(&changes.patches).unwrap_or_default();
            return Ok(Some(TemplateChange {
                hash: digest(&operations),
                revision: self.input.revision.map(str::to_owned),
                manifest: None,
                overlay: changes.patches.clone(),
            }));
        }
        let Some(change) = desired.change.as_ref().filter(|_| changes.template) else {
            return Ok(None);
        };
        Ok(Some(TemplateChange {
            hash: change.hash.clone(),
            revision: change.revision.clone(),
            manifest: Some(change.manifest.clone()),
            overlay: overlay(&content(live), &content(&change.applied)),
        }))
    }
}

/// The control plane has forgotten an attempt of which Git knows: where the copies are is anybody's guess.
fn cut_short(phase: Phase, journal: &Journal) -> Interrupt {
    let handle = journal.captured.as_ref().map(|captured| {
        let values: Vec<String> = captured
            .values
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        format!("; its state of then: {}", values.join(", "))
    });
    fail(
        "CutShort",
        format!(
            "the status branch records this migration as unfinished ({phase}, {} to {}), but the control plane has no trace of it{}",
            journal.source,
            journal.target,
            handle.unwrap_or_default()
        ),
        "make sure that the workload runs in one cluster and from its newest state; then ask for the move under another name",
    )
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

fn fail(code: &str, message: String, hint: &str) -> Interrupt {
    Interrupt::Fail(vec![Finding::new(code, message, hint)])
}

fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn binding_id(binding: &ResourceBinding) -> Result<BindingId, Interrupt> {
    let label = meta::binding_id_label(binding.metadata.namespace.is_none());
    identify(binding).ok_or_else(|| Interrupt::Wait(format!("the binding has no label {label} yet")))
}
