//! The end, forward and back: one cluster keeps the workload, everything that the migration put up is taken down.

use serde_json::Value;

use super::{Interrupt, Next, Operation};
use crate::api::{ClaimSpec, MigrationStatus, PatchOp, Phase, RollBackStage};
use crate::intent::binding::is_scheduled;
use crate::intent::custody;
use crate::intent::effect::{Effect, Exactly, add};
use crate::intent::fence::{affinity_in_use, observed_generation};
use crate::intent::fight::removal_changes;
use crate::intent::pin;
use crate::intent::placement::{AWAITED_IN_WORDS, AWAITS_PLACEMENT, keeps_target};
use crate::intent::proof::{Healthy, NotProved};
use crate::intent::record::digest;
use cutover_karmada::meta;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// Committed: the source is taken out, the held-back template goes in, fence and pin come down. Never undone.
    pub(super) fn cleanup(&mut self) -> Result<Next, Interrupt> {
        let (source, target) = self.ends()?;
        if !self.journal()?.pin.unpinning {
            self.goes_back(&source, &target)?;
            self.report_changed_pin(&source)?;
            // Until the target is seen, or a person does without, the source's copy is not taken away.
            let unseen = self.is_settled_unseen(&target)?;
            self.take_out(&target, &source)?;
            self.token()?;
            if !unseen {
                self.target_copy_stays(&target)?;
                // Committed, the target may have been upgraded from a newer state of its own.
                self.prove(&target, |facts| Healthy::prove(facts, None))??;
            }
            self.apply_template()?;
        }
        self.finish(&target, Phase::Completed)
    }

    /// The binding lists the one that keeps the workload, and the other one's copy is gone.
    pub(super) fn take_out(&mut self, keep: &ClusterName, drop: &ClusterName) -> Result<(), Interrupt> {
        let leave = self.to_be_gone(keep, drop)?;
        let first = leave.first().unwrap_or(drop);
        self.fetch(keep, first)?;
        if self.journal()?.clusters != [keep.clone()] {
            self.journal_mut()?.clusters = vec![keep.clone()];
            return Err(Interrupt::Requeue);
        }
        self.claim()?;
        // Once the fence comes down only the scheduler's own look at the binding counts: see `settled_on`.
        if !self.journal()?.fence.lowered {
            self.renew_barrier()?;
            self.fence()?;
            self.left_is_in_git(drop)?;
            self.unbelt()?;
            self.listed(std::slice::from_ref(keep), "take the other cluster out")?;
        }
        // What the scheduler makes of a cluster that is lost is its own.
        if self.journal()?.fence.lowered && self.is_settled() {
            return Ok(());
        }
        leave.iter().try_for_each(|cluster| self.is_gone(cluster))
    }

    /// The template that was held back is applied while the pin still makes it no change for the target.
    fn apply_template(&self) -> Result<(), Interrupt> {
        let Some(change) = &self.journal()?.template_change else {
            return Ok(());
        };
        let template = self.template()?;
        if holds(template, &change.overlay) {
            return Ok(());
        }
        let found = template
            .pointer("/metadata/resourceVersion")
            .and_then(Value::as_str);
        let exactly = Exactly {
            namespace: self.workload().namespace.clone(),
            name: self.workload().name.clone(),
            uid: self.journal()?.template_uid.clone(),
            resource_version: found.map(str::to_owned),
        };
        let effect = match &change.manifest {
            Some(manifest) => Effect::ApplyTemplate {
                template: exactly,
                manifest: Box::new(manifest.clone()),
            },
            None => Effect::PatchTemplate {
                template: exactly,
                patch: change
                    .overlay
                    .iter()
                    .map(|patch| add(&patch.path, patch.value.clone().unwrap_or_default()))
                    .collect(),
            },
        };
        Err(Interrupt::Act(vec![effect]))
    }

    fn template(&self) -> Result<&Value, Interrupt> {
        let template = self.snapshot().plane.template.get()?.as_ref();
        template.ok_or_else(|| {
            Interrupt::Wait("Karmada to delete the copies of the template, which was deleted".to_owned())
        })
    }

    /// Fence down, scheduler on, pin off, claim given up, record in Git: in this order.
    pub(super) fn finish(&mut self, keep: &ClusterName, end: Phase) -> Result<Next, Interrupt> {
        if !self.journal()?.pin.unpinning {
            self.placement_keeps(keep)?;
            self.lower()?;
            self.name_affinity(keep)?;
            self.resume_scheduling()?;
            self.settled_on(keep)?;
            // A pin that stays changes nothing by going.
            if self.journal()?.lender.is_none() {
                self.removal_changes_nothing(keep)?;
            }
            self.journal_mut()?.pin.unpinning = true;
            return Ok(Next::Requeue);
        }
        if self.journal()?.lender.is_some() {
            let seen = self.seen_in(keep);
            return self.return_lent(end, seen);
        }
        self.custody().unpin()?;
        self.runs_on_without_pin(keep)?;
        self.custody().give_up()?;
        self.finish_record(end)?;
        let seen = self.seen_in(keep);
        self.end(
            end,
            vec![format!("{seen}; no pin, no suspension, no claim is left")],
        );
        Ok(Next::Requeue)
    }

    /// A lent claim goes back as it is, pin and all: whoever lent it goes on from there. It doesn't wait for the record: as
    /// long as Git doesn't answer nobody would guard the workload.
    pub(super) fn return_lent(&mut self, end: Phase, seen: String) -> Result<Next, Interrupt> {
        self.return_claim()?;
        self.finish_record(end)?;
        let back = "no suspension is left, the claim is back with its lender".to_owned();
        self.end(end, vec![seen, back]);
        Ok(Next::Requeue)
    }

    /// Says what this pass saw in the cluster that keeps the workload, and nothing more.
    fn seen_in(&self, keep: &ClusterName) -> String {
        let proved = self.prove(keep, Healthy::as_it_is);
        match proved {
            Ok(Ok(healthy)) => healthy.evidence().to_owned(),
            Ok(Err(NotProved::No(why))) => why,
            Ok(Err(NotProved::Unknown(why))) => format!("{keep} could not be observed: {why}"),
            Err(_) => format!("{keep} was not looked into"),
        }
    }

    /// Gives a lent claim back; what it says stays as it is.
    fn return_claim(&self) -> Result<(), Interrupt> {
        let Some(claim) = self.snapshot().plane.claim.get()?.as_ref() else {
            return Ok(());
        };
        match &claim.spec.lender {
            Some(lender) if claim.spec.owner.uid == self.input.uid => {
                Err(Interrupt::Act(vec![Effect::ReplaceClaim {
                    claim: custody::exactly(claim),
                    spec: ClaimSpec {
                        owner: lender.clone(),
                        lender: None,
                        guards: true,
                        clusters: Vec::new(),
                        ..claim.spec.clone()
                    },
                }]))
            }
            _ => Ok(()),
        }
    }

    /// Git has the end before the status does.
    pub(super) fn finish_record(&mut self, end: Phase) -> Result<(), Interrupt> {
        let mut ended = self.status.clone();
        ended.phase = end;
        ended.held_back = self.left_unapplied(end)?;
        ended.note_downtime(self.journal()?.downtime_ms());
        ended.common.waiting_for = None;
        self.recorded(
            || end_of(&ended, self.input.now),
            |record| record.status.phase == end,
        )?;
        self.status.held_back = ended.held_back;
        self.status.note_downtime(ended.downtime_ms);
        Ok(())
    }

    /// A policy that changed meanwhile may mean another cluster: the scheduler would take the running copy away. Until it
    /// keeps this one the fence stays up, or goes up again.
    pub(super) fn placement_keeps(&mut self, keep: &ClusterName) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let Some(placement) = &binding.spec.placement else {
            return Ok(());
        };
        if !binding.spec.scheduling_suspended() || !is_scheduled(binding) || self.is_settled() {
            return Ok(());
        }
        let clusters = self.snapshot().plane.clusters.get()?;
        match keeps_target(placement, keep, clusters, affinity_in_use(binding)) {
            Ok(_) => Ok(()),
            Err(_) if self.journal()?.fence.lowered => {
                self.journal_mut()?.fence.lowered = false;
                Err(Interrupt::Requeue)
            }
            Err(finding) => {
                self.scratch.unkept = Some(finding.code);
                Err(Interrupt::Wait(format!(
                    "{keep}{AWAITED_IN_WORDS} (it stays suspended until then): {}; the placement is that of its binding, \
                     to which a lazy policy brings another one only without activationPreference or with a change of the template",
                    finding.message
                )))
            }
        }
    }

    /// Says whether nothing is left to be done but that a placement keeps the workload, and in which wait that is so.
    pub(super) fn note_awaited_placement(&mut self, phase: &str) {
        let wait = self.status.common.waiting_for.as_ref();
        match (self.scratch.unkept.take(), wait.map(|wait| wait.reason.clone())) {
            (Some(why), Some(wait)) => self.set_condition(AWAITS_PLACEMENT, true, &why, &wait),
            _ => self.set_condition(AWAITS_PLACEMENT, false, phase, ""),
        }
    }

    /// The scheduler has looked at the resumed binding and kept the cluster. Moved, it gets held copies only: the pin is on.
    fn settled_on(&mut self, keep: &ClusterName) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let observed = observed_generation(binding);
        let listed = binding.spec.clusters.iter().map(|cluster| &cluster.name);
        let kept = listed.eq([keep]) && binding.spec.graceful_eviction_tasks.is_empty();
        if !kept && self.is_settled() {
            return Ok(());
        }
        if !kept {
            let fence = &mut self.journal_mut()?.fence;
            fence.resumed = false;
            fence.lowered = false;
            fence.barrier = None;
            fence.canary += 1;
            return Err(Interrupt::Requeue);
        }
        let generation = binding.metadata.generation.unwrap_or_default();
        if is_scheduled(binding) && observed < generation {
            return Err(Interrupt::Wait(
                "the scheduler to look at the resumed binding".to_owned(),
            ));
        }
        Ok(())
    }

    /// Shown by the effective manifest: with and without the pin the cluster gets the same, but for what the profile ignores.
    fn removal_changes_nothing(&self, keep: &ClusterName) -> Result<(), Interrupt> {
        let template = self.template()?;
        self.work_has_the_template(keep, template)?;
        let clusters = self.snapshot().plane.clusters.get()?;
        if !clusters.contains_key(keep) && self.is_settled() {
            return Ok(());
        }
        let cluster = clusters
            .get(keep)
            .ok_or_else(|| Interrupt::Wait(format!("{keep} is not joined")))?;
        let all = self.snapshot().plane.overrides.get()?;
        let pin = self.compile()?;
        let ignored = &self.journal()?.profile.ignored_on_removal;
        let changes = removal_changes(
            template,
            cluster,
            all,
            pin.namespace.as_deref(),
            &pin.name,
            ignored,
        );
        if !changes.map_err(|error| Interrupt::Wait(error.to_string()))? {
            return Ok(());
        }
        Err(Interrupt::Wait(format!(
            "{keep} would change if the pin were removed: the template must catch up first"
        )))
    }

    /// Karmada computes Works from caches: one made from an older template would show through when the pin goes.
    fn work_has_the_template(&self, keep: &ClusterName, template: &Value) -> Result<(), Interrupt> {
        let works = self.snapshot().plane.works.get()?;
        let made_from = works
            .get(keep)
            .and_then(|work| work.manifest_annotation(meta::TEMPLATE_GENERATION));
        let current = template.pointer("/metadata/generation").map(ToString::to_string);
        match (made_from, current) {
            (Some(made_from), Some(current)) if made_from != current => Err(Interrupt::Wait(format!(
                "{keep}: the Work to be made from the current template"
            ))),
            _ => Ok(()),
        }
    }

    /// Without the pin the copy is still the same run.
    fn runs_on_without_pin(&mut self, keep: &ClusterName) -> Result<(), Interrupt> {
        // What was created with another binding, when no pin held it any more, is not what was moved.
        if let Some(binding) = self.snapshot().plane.binding.get()?
            && binding.metadata.uid.as_deref() != Some(&self.journal()?.binding.uid)
        {
            return self.note_recreated();
        }
        let works = self.snapshot().plane.works.get()?;
        if !self.is_settled() {
            self.custody().are_unmarked(works.get_key_value(keep))?;
        }
        let untouched = self
            .journal()?
            .roll_back
            .as_ref()
            .is_some_and(|back| !back.restart);
        if untouched || self.journal()?.dropped || self.is_settled_unseen(keep)? {
            return Ok(());
        }
        // What the template itself keeps from running does not get healthy.
        let template = self.snapshot().plane.template.get()?.as_ref();
        let profile = self.profile()?;
        if template.is_some_and(|template| profile.is_held_by(template, keep)) {
            return Ok(());
        }
        let healthy = self.prove(keep, Healthy::without_pin)??;
        let before = self.journal()?.run_id.clone();
        if let (Some(before), Some(now)) = (before, healthy.run_id())
            && before != now
        {
            let finding = crate::api::Finding::new(
                "RestartedOnRemoval",
                format!("{keep}: the run changed from {before} to {now} when the pin was removed"),
                "tell the profile's authors: a field is missing from ignoredOnRemoval",
            );
            if self.raise(finding) {
                return Err(Interrupt::Requeue);
            }
        }
        Ok(())
    }

    /// What was sent late, by a replica that stood still while another one brought the intent to its end, goes again. It is
    /// looked for by the one that sent it.
    pub(super) fn sweep(&mut self) -> Result<(), Interrupt> {
        self.return_claim()?;
        // What was lent is somebody else's again, its pin too.
        let claim = self.snapshot().plane.claim.get()?.as_ref();
        if claim.is_some_and(|claim| claim.spec.owner.uid != self.input.uid) {
            return self.remove_canary();
        }
        let pin = self.snapshot().plane.pin.get()?.as_ref();
        // The journal comes before a pin that says something: where there is none, it was lost, and nobody knows whom that holds.
        if self.status.journal.is_none() && pin::not_blank(pin).is_some() {
            return Ok(());
        }
        if self.custody().own_pin()?.is_some() {
            self.custody().unpin()?;
        }
        self.custody().give_up()?;
        self.remove_canary()
    }

    /// A template change that was taken along and rolled back stays unapplied until a commit changes it.
    fn left_unapplied(&self, end: Phase) -> Result<Option<crate::api::HeldBack>, Interrupt> {
        let change = self
            .journal()?
            .template_change
            .as_ref()
            .filter(|_| end != Phase::Completed);
        Ok(change.map(|change| crate::api::HeldBack {
            hash: change.hash.clone(),
            revision: change.revision.clone(),
        }))
    }

    /// A roll back has given the token back, as far as the journal says.
    pub(super) fn stage(&self) -> Result<RollBackStage, Interrupt> {
        Ok(self
            .journal()?
            .roll_back
            .as_ref()
            .map_or(RollBackStage::Begun, |back| back.stage))
    }
}

fn end_of(status: &MigrationStatus, now: jiff::Timestamp) -> MigrationStatus {
    let mut status = status.clone();
    status.common.finished_at = Some(now);
    if let Some(step) = status.common.steps.last_mut() {
        step.finished_at = Some(now);
    }
    status
}

/// Returns whether an object already says what an overlay would make of it.
fn holds(object: &Value, overlay: &[PatchOp]) -> bool {
    overlay
        .iter()
        .all(|patch| match (&patch.value, object.pointer(&patch.path)) {
            (Some(wanted), Some(found)) => digest(wanted) == digest(found),
            _ => false,
        })
}
