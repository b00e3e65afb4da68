//! Under way: from the pin to the last wave, back again, or to a halt.

use super::goal::Goal;
use super::pin::PIN_TAKEN_AWAY;
use super::{Finding, Interrupt, Operation, Phase, Wait};
use crate::api::{HeldBack, OnRolloutFailure, WaitCode, Wave};
use crate::intent::custody;
use crate::intent::effect::{Effect, Exactly};
use crate::intent::record::content;
use cutover_karmada::meta;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    pub(super) fn fly(&mut self) -> Result<(), Interrupt> {
        if self.is_lost()? {
            return self.dissolve();
        }
        let ends = matches!(self.status.phase, Phase::Undoing | Phase::Finishing);
        if !ends {
            self.turns()?;
        }
        self.same_binding()?;
        match self.status.phase {
            Phase::Applying => self.applying(),
            Phase::Rolling => self.rolling(),
            Phase::Halted => self.halted(),
            Phase::Undoing => self.undoing(),
            Phase::Finishing => self.finishing(),
            Phase::Holding | Phase::Pending | Phase::Completed | Phase::Undone => self.holding(),
        }
    }

    /// Karmada may have made the binding anew: markers are looked for on the Works of that one.
    fn same_binding(&mut self) -> Result<(), Interrupt> {
        let binding = self.binding()?;
        let uid = binding.metadata.uid.clone().unwrap_or_default();
        if self.journal()?.binding.uid == uid {
            return Ok(());
        }
        let label = meta::binding_id_label(self.workload().namespace.is_none());
        let id = binding
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(label).cloned());
        let id = id.ok_or_else(|| Interrupt::Wait("Karmada has not marked the binding yet".to_owned()))?;
        let name = binding.metadata.name.clone().unwrap_or_default();
        let journal = self.journal_mut()?;
        (journal.binding.uid, journal.binding.id, journal.binding.name) = (uid, id, name);
        journal.pin.renew();
        Err(Interrupt::Requeue)
    }

    /// Turns back on request or when it is too late, and towards another goal when there is one.
    fn turns(&mut self) -> Result<(), Interrupt> {
        let spec = self.input.spec;
        if spec.controls.abort {
            return self.undo("abort was asked for".to_owned(), true);
        }
        if self.input.deleting && self.status.phase == Phase::Halted {
            return self.undo("it was deleted while it was halted".to_owned(), true);
        }
        let goal = self.snapshot().goal.get();
        let wanted = &self.journal()?.wanted.hash;
        if let Ok(Some(goal)) = goal
            && goal.id != *wanted
            && !self.input.deleting
        {
            return self.retarget(goal);
        }
        let late = spec
            .controls
            .deadline
            .is_some_and(|deadline| self.input.now >= deadline);
        if late && self.status.phase != Phase::Halted {
            return self.fail("the deadline has passed".to_owned());
        }
        Ok(())
    }

    /// Another template is wanted before this one is everywhere: it begins with the first wave again. What clusters have got
    /// meanwhile they keep until their turn comes.
    fn retarget(&mut self, goal: &Goal) -> Result<(), Interrupt> {
        let template = self.template()?;
        let rehearsed = self.snapshot().rehearsed.get()?.as_ref();
        let wanted = content(rehearsed.unwrap_or(template));
        let now = HeldBack {
            hash: goal.id.clone(),
            revision: goal.git.clone(),
        };
        let name = self.remember(wanted, goal.manifest.clone(), goal.git.clone());
        if name == self.journal()?.stable {
            self.journal_mut()?.wanted = now;
            return self.undo(
                "the template is again what every cluster had before".to_owned(),
                false,
            );
        }
        let spec_retry = self.input.spec.controls.retry;
        let journal = self.journal_mut()?;
        journal.wanted = now;
        if name == journal.target {
            // Another manifest, and the same content: nothing changes for the clusters.
            if self.status.phase == Phase::Rolling {
                self.enter(
                    Phase::Applying,
                    vec!["the manifest changed, its content didn't".to_owned()],
                );
            }
            return Err(Interrupt::Requeue);
        }
        let before = std::mem::replace(&mut journal.target, name.clone());
        for cluster in std::mem::take(&mut journal.released).into_keys() {
            journal.left.insert(cluster, before.clone());
        }
        if !journal.possible.contains(&name) {
            journal.possible.push(name.clone());
        }
        journal.halted = None;
        journal.retried = spec_retry;
        self.status.common.attempt += 1;
        self.status.common.findings.clear();
        self.status.common.revision = self.input.revision.map(str::to_owned);
        self.status.target = Some(name.clone());
        if let Some(revision) = self.status.revisions.iter_mut().find(|known| known.name == name) {
            revision.undone = None;
        }
        self.trim();
        self.enter(
            Phase::Holding,
            vec![format!(
                "revision {name} is wanted instead of {before}: from the first wave again"
            )],
        );
        Err(Interrupt::Requeue)
    }

    /// A released cluster isn't good, or it takes too long.
    fn fail(&mut self, reason: String) -> Result<(), Interrupt> {
        self.find(Finding::new(
            "RolloutFailed",
            reason.clone(),
            "push a better template, raise spec.retry to try again, or set spec.abort to go back",
        ));
        if self.input.spec.strategy.on_failure == OnRolloutFailure::Undo || self.input.deleting {
            return self.undo(reason, true);
        }
        self.journal_mut()?.halted = Some(reason.clone());
        self.enter(Phase::Halted, vec![reason]);
        Err(Interrupt::Requeue)
    }

    /// Goes back to what every cluster had, in all of them at once. `rejects`: what was wanted stays unapplied.
    fn undo(&mut self, reason: String, rejects: bool) -> Result<(), Interrupt> {
        let journal = self.journal_mut()?;
        let (stable, undone) = (journal.stable.clone(), journal.target.clone());
        let wanted = journal.wanted.clone();
        journal.undoing = Some(reason.clone());
        journal.halted = None;
        journal.target.clone_from(&stable);
        journal.left.clear();
        journal.released.clear();
        if rejects {
            self.status.held_back = Some(wanted);
            let revision = self
                .status
                .revisions
                .iter_mut()
                .find(|known| known.name == undone);
            if let Some(revision) = revision {
                revision.undone = Some(reason.clone());
            }
        }
        self.status.target = Some(stable);
        self.enter(Phase::Undoing, vec![reason]);
        Err(Interrupt::Requeue)
    }

    /// Every Work is made with the pin in force.
    fn holding(&mut self) -> Result<(), Interrupt> {
        self.hold()?;
        let evidence = if self.is_pinned()? {
            let synced = custody::synced(self.binding()?);
            format!("the Works of {} carry {}", names(&synced), self.marker()?)
        } else {
            "no cluster would get anything else".to_owned()
        };
        self.enter(Phase::Applying, vec![evidence]);
        Err(Interrupt::Requeue)
    }

    /// The template changes, and every Work is made from it.
    fn applying(&mut self) -> Result<(), Interrupt> {
        self.hold()?;
        self.not_paused()?;
        self.template_is_applied()?;
        self.works_are_current()?;
        let next = if self.is_pinned()? {
            Phase::Rolling
        } else {
            Phase::Finishing
        };
        let target = self.journal()?.target.clone();
        self.enter(
            next,
            vec![format!(
                "the template is revision {target}, and every Work is made from it"
            )],
        );
        Err(Interrupt::Requeue)
    }

    /// The template is as the target asks for; what somebody changed meanwhile is put back.
    pub(super) fn template_is_applied(&self) -> Result<(), Interrupt> {
        let template = self.template()?;
        let Some(rehearsed) = self.snapshot().rehearsed.get()? else {
            return Ok(());
        };
        let labels = |object: &serde_json::Value| {
            let of = |field| object["metadata"].get(field).cloned().unwrap_or_default();
            (of("labels"), of("annotations"))
        };
        if content(rehearsed) == content(template) && labels(rehearsed) == labels(template) {
            return Ok(());
        }
        let found = template
            .pointer("/metadata/resourceVersion")
            .and_then(serde_json::Value::as_str);
        let exactly = Exactly {
            namespace: self.workload().namespace.clone(),
            name: self.workload().name.clone(),
            uid: self.journal()?.template_uid.clone(),
            resource_version: found.map(str::to_owned),
        };
        let manifest = self.revision(&self.journal()?.target)?.manifest.clone();
        Err(Interrupt::Act(vec![Effect::ApplyTemplate {
            template: exactly,
            manifest: Box::new(manifest),
        }]))
    }

    /// Karmada computes Works from caches: one made from an older template says nothing about this one.
    pub(super) fn works_are_current(&self) -> Result<(), Interrupt> {
        let template = self.template()?;
        let current = template.pointer("/metadata/generation").map(ToString::to_string);
        let works = self.snapshot().plane.works.get()?;
        for cluster in custody::synced(self.binding()?) {
            let work = works.get(&cluster);
            let made_from = work.and_then(|work| work.manifest_annotation(meta::TEMPLATE_GENERATION));
            if made_from.is_some() && made_from != current.as_deref() {
                return Err(Interrupt::Wait(format!(
                    "{cluster}: the Work to be made from the current template"
                )));
            }
        }
        Ok(())
    }

    /// Clusters are released in their order, each wave when the one before is good.
    fn rolling(&mut self) -> Result<(), Interrupt> {
        self.hold()?;
        self.template_is_applied()?;
        self.works_are_current()?;
        let seen = self.judge()?;
        if let Some(reason) = seen.failed {
            return self.fail(reason);
        }
        let waves = self.waves()?;
        let most = usize::try_from(self.input.spec.strategy.max_unavailable_clusters).unwrap_or(usize::MAX);
        for (number, wave) in (1..).zip(&waves) {
            let journal = self.journal()?;
            let is_released = |cluster: &&ClusterName| journal.released.contains_key(*cluster);
            let next: Vec<ClusterName> = wave
                .clusters
                .iter()
                .filter(|cluster| !is_released(cluster))
                .cloned()
                .collect();
            if next.is_empty() && wave.clusters.iter().all(|cluster| seen.good.contains(cluster)) {
                continue;
            }
            let room = most.saturating_sub(seen.pending);
            if next.is_empty() || room == 0 {
                return Err(seen.wait.unwrap_or(Interrupt::Requeue));
            }
            self.may_release(number, wave)?;
            return self.release(next.into_iter().take(room).collect());
        }
        self.enter(
            Phase::Finishing,
            vec![format!(
                "good in {}",
                names(&seen.good.into_iter().collect::<Vec<_>>())
            )],
        );
        Err(Interrupt::Requeue)
    }

    fn may_release(&self, number: u32, wave: &Wave) -> Result<(), Interrupt> {
        self.not_paused()?;
        self.window_is_open()?;
        let journal = self.journal()?;
        let begun = wave
            .clusters
            .iter()
            .any(|cluster| journal.released.contains_key(cluster));
        let gated = self.input.spec.strategy.approval.as_ref();
        if begun || !gated.is_some_and(|gate| gate.before_waves.contains(&number)) {
            return Ok(());
        }
        let attempt = self.status.common.attempt;
        let mut approvals = self.input.spec.controls.approvals.iter();
        if approvals.any(|approval| approval.wave == number && approval.attempt == attempt) {
            return Ok(());
        }
        Err(Interrupt::wait_for(
            WaitCode::Approval,
            format!(
                "approval of wave {number} ({}) for attempt {attempt}",
                names(&wave.clusters)
            ),
        ))
    }

    /// The journal says who is released before the pin lets go of it.
    fn release(&mut self, clusters: Vec<ClusterName>) -> Result<(), Interrupt> {
        let now = self.input.now;
        let journal = self.journal_mut()?;
        for cluster in clusters {
            journal.left.remove(&cluster);
            let released = crate::api::Released {
                at: now,
                healthy: None,
                ill: None,
            };
            journal.released.insert(cluster, released);
        }
        Err(Interrupt::Requeue)
    }

    fn halted(&mut self) -> Result<(), Interrupt> {
        let retry = self.input.spec.controls.retry;
        let now = self.input.now;
        if retry > self.journal()?.retried {
            let journal = self.journal_mut()?;
            journal.retried = retry;
            journal.halted = None;
            for released in journal.released.values_mut() {
                released.ill = None;
                released.at = now;
            }
            let findings = &mut self.status.common.findings;
            findings.retain(|finding| finding.code == PIN_TAKEN_AWAY);
            self.enter(
                Phase::Rolling,
                vec![format!("tried again: spec.retry is {retry}")],
            );
            return Err(Interrupt::Requeue);
        }
        self.hold()?;
        self.template_is_applied()?;
        self.judge()?;
        let why = self.journal()?.halted.clone().unwrap_or_default();
        Err(Interrupt::wait_for(
            WaitCode::Pause,
            format!("halted: {why}; a better template, spec.retry or spec.abort ends it"),
        ))
    }

    /// Every cluster is held at what it had, then the template says the same.
    fn undoing(&mut self) -> Result<(), Interrupt> {
        self.hold()?;
        self.template_is_applied()?;
        self.works_are_current()?;
        let ill = self.ill_after_undo()?;
        let since = self.journal()?.phase_since.unwrap_or(self.input.now);
        let limit = self.input.spec.strategy.progress.timeout.length();
        let mut evidence = vec!["the template and every cluster have what they had before".to_owned()];
        if let Some(why) = ill {
            if self.input.now.duration_since(since) < limit {
                return Err(Interrupt::WaitFor(Wait::evidence(why).until(Some(since + limit))));
            }
            self.find(Finding::new(
                "NotHealthyAfterUndo",
                why.clone(),
                "look at the workload in that cluster: it has the template that it had before",
            ));
            evidence.push(format!("not seen healthy: {why}"));
        }
        self.enter(Phase::Finishing, evidence);
        Err(Interrupt::Requeue)
    }

    pub(super) fn not_paused(&self) -> Result<(), Interrupt> {
        if self.input.spec.controls.paused {
            return Err(Interrupt::wait_for(WaitCode::Pause, "paused by the spec"));
        }
        Ok(())
    }
}

pub(super) fn names(clusters: &[ClusterName]) -> String {
    if clusters.is_empty() {
        return "no cluster".to_owned();
    }
    let names: Vec<&str> = clusters.iter().map(ClusterName::as_str).collect();
    names.join(", ")
}
