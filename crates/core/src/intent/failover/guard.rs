//! The standing guard: what may be guarded, the pin put up, and what is looked after while nothing fails.

use std::collections::BTreeMap;

use serde_json::Value;

use super::look::uid;
use super::validate::validate;
use super::{Interrupt, Operation, Phase};
use crate::api::{FailoverJournal, Fence, Finding, PinState, SecretHandles};
use crate::intent::binding::binding_findings;
use crate::intent::custody;
use crate::intent::effect::Effect;
use crate::intent::fence::identify;
use crate::intent::fight::{change_matters, overwritten};
use crate::intent::misfits;
use crate::intent::other_managers::account;
use crate::intent::pin::{self, Says};
use crate::profile::{self, Profile};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{ResourceBinding, meta};

impl Operation<'_> {
    /// Nothing is written until everything that could stand in the way has been looked at.
    pub(super) fn pending(&mut self) -> Result<(), Interrupt> {
        if self.input.deleting {
            self.end(
                Phase::Aborted,
                vec!["deleted before anything was touched".to_owned()],
            );
            return Err(Interrupt::Requeue);
        }
        if self.input.spec.abort {
            self.end(
                Phase::Aborted,
                vec!["abort was asked for: nothing was touched".to_owned()],
            );
            return Err(Interrupt::Requeue);
        }
        self.not_paused()?;
        self.remember()?;
        if let Some(claim) = self.around().plane.claim.get()?
            && claim.spec.owner.uid != self.input.uid
        {
            return Err(Interrupt::Wait(custody::held(claim)));
        }
        if !self.input.has_finalizer {
            return Err(Interrupt::Act(vec![Effect::AddFinalizer]));
        }
        self.begin_guard()
    }

    /// Looks at what is to be guarded, and begins.
    fn begin_guard(&mut self) -> Result<(), Interrupt> {
        let Some(template) = self.around().plane.template.get()? else {
            return Err(Interrupt::Wait(format!("{} to be applied", self.workload())));
        };
        let Some(binding) = self.around().plane.binding.get()? else {
            return Err(Interrupt::Wait(
                "no policy has claimed the workload yet".to_owned(),
            ));
        };
        let (profile, compiled) = self.can_be_guarded(template, binding)?;
        let writer = only(binding)?;
        let label = meta::binding_id_label(binding.metadata.namespace.is_none());
        let Some(id) = identify(binding) else {
            return Err(Interrupt::Wait(format!("the binding has no label {label} yet")));
        };
        let pods = compiled.pod_selector(template)?;
        let created_fields = pin::lacking(template, &profile);
        let identity = self.identity(&writer)?;
        let claim = self.around().plane.claim.get()?.as_ref();
        let own_claim = claim.filter(|claim| claim.spec.owner.uid == self.input.uid);
        self.status.rounds += 1;
        self.status.journal = Some(FailoverJournal {
            spec: Box::new(self.input.spec.clone()),
            profile: Box::new(profile.for_move()),
            binding: id,
            template_uid: uid(template),
            round: self.status.rounds,
            pin: PinState::creating(created_fields),
            identities: identity
                .into_iter()
                .map(|identity| (writer.clone(), identity))
                .collect(),
            writer: Some(writer.clone()),
            clusters: Vec::new(),
            suspended: Vec::new(),
            carried: None,
            secrets: SecretHandles::default(),
            redeploy: None,
            fence: Fence::default(),
            pods,
            nodes: BTreeMap::new(),
            runs: BTreeMap::new(),
            copy: None,
            lent: None,
            // Of a plan whose journal was lost, whose claim and pin stand.
            guests: own_claim
                .map(|claim| claim.spec.differences.clone())
                .unwrap_or_default(),
            flight: None,
            ending: None,
            planned: Vec::new(),
        });
        self.note_nodes();
        self.status.common.findings.clear();
        let others = account(template, &self.around().other_managers).map(|others| others.message);
        let evidence = [format!("the binding lists {writer} alone")]
            .into_iter()
            .chain(others);
        self.enter(Phase::Arming, evidence.collect());
        Err(Interrupt::Requeue)
    }

    /// A control plane that knows nothing of a plan may have been built anew: Git remembers.
    fn remember(&mut self) -> Result<(), Interrupt> {
        if self.status.common.started_at.is_some() {
            return Ok(());
        }
        let kept = self.input.snapshot.kept.get()?.clone();
        let now = self.input.now;
        if let Some(kept) = kept {
            if kept.phase.in_flight() {
                let finding = Finding::new(
                    "CutShort",
                    format!(
                        "the status branch records an unfinished failover ({}), but the control plane has no trace of it: which copy \
                         writes is unknown",
                        kept.phase
                    ),
                    "make sure that the workload runs in one cluster and from its newest state; the guard begins there",
                );
                self.status.common.findings.push(finding);
            }
            self.status.common.attempt = kept.common.attempt;
            self.status.rounds = kept.rounds;
            self.status.history = kept.history;
            self.status.last_known = kept.last_known;
        }
        self.status.common.started_at = Some(now);
        self.status.common.revision = self.input.revision.map(str::to_owned);
        Err(Interrupt::Requeue)
    }

    /// Returns the profile of a workload when nothing stands in the way of its guard.
    fn can_be_guarded(
        &mut self,
        template: &Value,
        binding: &ResourceBinding,
    ) -> Result<(crate::api::WorkloadProfileSpec, Profile), Interrupt> {
        let profile = self.look_up_profile()?;
        let compiled = Profile::compile("in force", &profile)?;
        let mut findings = misfits::findings(&profile, self.around().misfits.as_ref())?;
        if !findings.is_empty() {
            return Err(Interrupt::Fail(findings));
        }
        findings.extend(self.asked_findings(&profile));
        findings.extend(template_findings(template, &compiled)?);
        let (clusters, all) = (
            self.around().plane.clusters.get()?,
            self.around().plane.overrides.get()?,
        );
        let name = pin::name(self.workload());
        let place = (self.workload().namespace.as_deref(), name.as_str());
        findings.extend(overwritten(template, &profile, clusters, all, place));
        if !findings.is_empty() {
            return Err(Interrupt::Fail(findings));
        }
        nothing_is_kept(binding)?;
        // These may come right by themselves.
        if let Some(finding) = binding_findings(&binding.spec).into_iter().next() {
            return Err(Interrupt::Wait(format!(
                "{} ({})",
                finding.message,
                finding.hint.unwrap_or_default()
            )));
        }
        self.nobody_scales(&profile)?;
        Ok((profile, compiled))
    }

    /// Several for one kind are waited for: one whose name has changed is there twice until the old one is pruned.
    fn look_up_profile(&mut self) -> Result<crate::api::WorkloadProfileSpec, Interrupt> {
        let spec = self.input.spec;
        let given = self.around().plane.profiles.get()?;
        let kind = spec.workload.gvk();
        if let Some(finding) = profile::ambiguous_unnamed(given, spec.profile.as_deref(), &kind) {
            let reason = finding.message.clone();
            self.tell(finding)?;
            return Err(Interrupt::Wait(reason));
        }
        self.untell(profile::AMBIGUOUS);
        let found = profile::find(given, spec.profile.as_deref(), &kind)?;
        found.map(|profile| profile.spec).ok_or_else(|| {
            Interrupt::Fail(vec![profile::no_profile(
                &kind,
                &format!("how {kind} is held"),
                "add a WorkloadProfile for this kind, or name one in spec.profile",
            )])
        })
    }

    /// What a plan asks for and can't be had.
    fn asked_findings(&self, profile: &crate::api::WorkloadProfileSpec) -> Vec<Finding> {
        let spec = self.input.spec;
        let mut findings = Vec::new();
        if !spec.guard {
            findings.push(Finding::new(
                "NoGuard",
                "a plan without its guard would let two copies write: it is refused",
                "leave spec.guard out",
            ));
        }
        if let Some(contradiction) = spec.source_unreachable.contradiction() {
            findings.push(Finding::new(
                "Contradiction",
                contradiction,
                "fix spec.sourceUnreachable",
            ));
        }
        findings.extend(validate(spec, profile));
        findings
    }

    pub(super) fn not_paused(&self) -> Result<(), Interrupt> {
        if self.input.spec.paused && !self.input.deleting {
            return Err(Interrupt::Wait("it is paused".to_owned()));
        }
        Ok(())
    }

    /// The pin is on and every Work shows it.
    pub(super) fn arming(&mut self) -> Result<(), Interrupt> {
        if self.turns_off()? {
            return Err(Interrupt::Requeue);
        }
        self.not_paused()?;
        let writer = self.writer()?;
        // What moved before it was held is Karmada's; once the pin is on, it is a failover like any other.
        let live = self.around().plane.pin.get()?.as_ref();
        let is_on = pin::not_blank(live).is_some();
        if !is_on && !self.journal()?.pin.pinned && self.listed()? != [writer.clone()] {
            let custody = self.custody()?;
            custody.unpin()?;
            custody.give_up()?;
            self.status.journal = None;
            self.enter(
                Phase::Pending,
                vec!["it was moved before it could be guarded".to_owned()],
            );
            return Err(Interrupt::Requeue);
        }
        if is_on {
            self.moved()?;
        }
        self.take_in_guests()?;
        self.token()?;
        self.remove_canary()?;
        let marker = self.marker()?;
        self.enter(
            Phase::Guarding,
            vec![format!(
                "{writer} may run it, and the Work of every other cluster holds it: {marker} on every Work"
            )],
        );
        Err(Interrupt::Requeue)
    }

    /// Everything is as it should be, and stays so.
    pub(super) fn guarding(&mut self) -> Result<(), Interrupt> {
        if self.turns_off()? {
            return Err(Interrupt::Requeue);
        }
        self.claim_is_ours()?;
        self.requested()?;
        self.moved()?;
        // Before whatever may wait: what is known last is what a failover goes on from. Why it can't be noted is told when the guard
        // stands as it should.
        let noted = if self.journal()?.writer.is_some() {
            self.note_last_known()
        } else {
            Ok(())
        };
        if matches!(noted, Err(Interrupt::Requeue)) {
            return noted;
        }
        self.not_paused()?;
        self.take_in_guests()?;
        self.token()?;
        self.remove_canary()?;
        self.look_after_old_copies()?;
        self.note_replaced()?;
        self.warn_of_missing();
        self.drop_carry()?;
        noted?;
        self.record_last_known()?;
        self.lend()?;
        Ok(())
    }

    /// Nobody can keep the cluster that was lost from writing; people have to know.
    fn note_replaced(&mut self) -> Result<(), Interrupt> {
        let writer = self.writer()?;
        match self.is_replaced(&writer, self.journal()?.identities.get(&writer)) {
            Ok(true) => {}
            Ok(false) => {
                self.untell("ClusterReplaced");
                return Ok(());
            }
            Err(_) => return Ok(()),
        }
        self.tell(Finding::new(
            "ClusterReplaced",
            format!(
                "another cluster has joined as {writer}: whether the copy in the old cluster still writes is unknown, and a copy that is \
                 created in the new cluster starts from what the template says"
            ),
            "make sure that the copy in the old cluster is off, and check from which state the new one runs; to accept the new cluster \
             as the writer, delete the plan and apply it again",
        ))
    }

    pub(super) fn writer(&self) -> Result<ClusterName, Interrupt> {
        self.journal()?.writer.clone().ok_or(Interrupt::Requeue)
    }

    /// The guard comes off when that is asked for, or nothing is left to guard.
    fn turns_off(&mut self) -> Result<bool, Interrupt> {
        let snapshot = self.around();
        let lost = matches!(snapshot.plane.template.get(), Ok(None))
            && matches!(snapshot.plane.binding.get(), Ok(None));
        let why = if self.input.deleting {
            "the plan was deleted"
        } else if self.input.spec.abort {
            "abort was asked for"
        } else if lost {
            "the workload was deleted"
        } else if !self.journal()?.spec.guards_the_same(self.input.spec) {
            "the spec was changed to guard something else"
        } else {
            return Ok(false);
        };
        self.journal_mut()?.ending = Some(why.to_owned());
        self.enter(Phase::Disarming, vec![why.to_owned()]);
        Ok(true)
    }

    /// A claim that somebody took is not ours to overwrite.
    pub(super) fn claim_is_ours(&self) -> Result<(), Interrupt> {
        match self.around().plane.claim.get()? {
            Some(claim) if claim.spec.owner.uid != self.input.uid => {
                Err(Interrupt::Wait(custody::held(claim)))
            }
            _ => Ok(()),
        }
    }

    /// What the writer was started with is taken off its pin when it makes no difference any more.
    fn drop_carry(&mut self) -> Result<(), Interrupt> {
        let journal = self.journal()?;
        if journal.carried.is_none() && journal.suspended.is_empty() {
            return Ok(());
        }
        let writer = self.writer()?;
        let Some(template) = self.around().plane.template.get()? else {
            return Ok(());
        };
        let clusters = self.around().plane.clusters.get()?;
        let Some(cluster) = clusters.get(&writer) else {
            return Ok(());
        };
        let all = self.around().plane.overrides.get()?;
        // What guests say stays.
        let mut dropped = self.compile()?;
        if let Says::Token(token) = &mut dropped.says {
            token.carry.clear();
            token.suspended.clear();
            token.named.clear();
        }
        let ignored = &journal.profile.ignored_on_removal;
        let changes = change_matters(template, cluster, all, &dropped.policy(), ignored);
        let runs = self.input.snapshot.around.member(&writer)?.object.get()?.as_ref();
        let profile = self.profile()?;
        let is_well = runs.is_some_and(|object| profile.healthy(object).unwrap_or(false));
        if !is_well || changes.unwrap_or(true) {
            return Ok(());
        }
        let journal = self.journal_mut()?;
        journal.carried = None;
        journal.redeploy = None;
        journal.suspended.clear();
        journal.pin.renew();
        Err(Interrupt::Requeue)
    }
}

/// Returns what a template lacks for copies of it to be held, stopped and started.
fn template_findings(template: &Value, profile: &Profile) -> Result<Vec<Finding>, Interrupt> {
    let unmet = profile.unmet(template)?.into_iter().map(|unmet| {
        let hint = unmet.hint.clone();
        let hint = hint.unwrap_or_else(|| "fix the template".to_owned());
        Finding::new("TemplateUnfit", unmet.message.clone(), hint)
    });
    let unfit = pin::unfit(template, profile.spec(), &[]);
    Ok(unmet.chain(unfit).collect())
}

/// Returns the one cluster that a binding lists.
fn only(binding: &ResourceBinding) -> Result<ClusterName, Interrupt> {
    match binding.spec.clusters.as_slice() {
        [only] => Ok(only.name.clone()),
        [] => Err(Interrupt::Wait(
            "the workload is not scheduled to a cluster yet".to_owned(),
        )),
        several => {
            let names: Vec<_> = several.iter().map(|cluster| cluster.name.as_str()).collect();
            Err(Interrupt::Fail(vec![Finding::new(
                "SeveralClusters",
                format!(
                    "the workload runs in several clusters ({}): a plan guards one writer with all its replicas, not a divided workload",
                    names.join(", ")
                ),
                "limit its policy with spreadConstraints maxGroups: 1",
            )]))
        }
    }
}

/// No guard reaches a copy that Karmada has evicted, and keeps.
fn nothing_is_kept(binding: &ResourceBinding) -> Result<(), Interrupt> {
    let mut tasks = binding.spec.graceful_eviction_tasks.iter();
    match tasks.find(|task| task.suppress_deletion == Some(true)) {
        Some(task) => Err(Interrupt::Fail(vec![Finding::new(
            "EvictedAndKept",
            format!(
                "Karmada has evicted the workload from {} and keeps the copy there ({}): it may run beside the new one",
                task.from_cluster, task.reason
            ),
            "make sure that one copy runs, from the newest state, and end the eviction; then apply the plan again",
        )])),
        None => Ok(()),
    }
}
