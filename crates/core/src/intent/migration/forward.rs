//! From the first effect to the commit point: Hold, Expand, Capture, Handoff, Verify.

use std::time::Duration;

use jiff::SignedDuration;

use super::roll_back::PATIENCE;
use super::{GoBack, Interrupt, Next, Operation, Phase, go_back};
use crate::api::{Fact, InGit};
use crate::intent::custody::LAPSE;
use crate::intent::placement::tainted;
use crate::intent::proof::{Healthy, Held, NotProved, Stopped};
use crate::intent::record::Record;
use cutover_karmada::name::ClusterName;

impl Operation<'_> {
    /// The fence stands, and the pin names the source, which runs alone.
    pub(super) fn hold(&mut self) -> Result<Next, Interrupt> {
        self.yields()?;
        self.claim()?;
        self.renew_barrier()?;
        self.not_evicted()?;
        self.target_stays_open()?;
        self.fence()?;
        let (source, _) = self.ends()?;
        let listed = &self.binding()?.spec.clusters;
        let listed: Vec<&str> = listed.iter().map(|cluster| cluster.name.as_str()).collect();
        if listed != [source.as_str()] {
            let now = if listed.is_empty() {
                "no cluster".to_owned()
            } else {
                listed.join(" and ")
            };
            return Err(go_back(format!(
                "before the workload could be held, Karmada listed {now} and not {source} alone: a copy elsewhere starts without the \
                 state of {source}"
            )));
        }
        self.token()?;
        self.belt_is_shown()?;
        let journal = self.journal()?;
        let canary = journal
            .fence
            .barrier
            .as_ref()
            .map_or("", |barrier| barrier.canary.as_str());
        let scheduler = if canary.is_empty() {
            "what the scheduler has queued is refused".to_owned()
        } else {
            format!("scheduler past {canary}")
        };
        let mut evidence = vec![
            format!("scheduling suspended, {scheduler}"),
            format!("Work of {source} carries {}", self.marker()?),
        ];
        evidence.extend(self.admission_evidence());
        if self.is_shared() || self.journal()?.profile.born_held {
            return Ok(Next::Enter(Phase::Expand, evidence));
        }
        evidence.push(self.source_is_settled(&source)?);
        self.move_is_recorded()?;
        Ok(Next::Enter(Phase::Capture, evidence))
    }

    /// Another intent has claimed the workload, and nothing was written yet: it begins anew when that one has ended. What was
    /// looked at belongs to the time before, and what is to be seen now is the other one's doing.
    pub(super) fn yields(&mut self) -> Result<(), Interrupt> {
        let claim = self.snapshot().plane.claim.get()?.as_ref();
        let owner = claim.map(|claim| &claim.spec.owner);
        let Some(first) = owner.filter(|owner| owner.uid != self.input.uid) else {
            return Ok(());
        };
        let journal = self.status.journal_in_force();
        if journal.is_some_and(|journal| journal.pin.pinned || journal.fence.recorded) {
            return Ok(());
        }
        self.status.journal = None;
        self.status.source = None;
        self.enter(
            Phase::Pending,
            vec![format!("{first} was first; nothing was touched")],
        );
        Err(Interrupt::Requeue)
    }

    /// A source that its operator is about to change isn't told to stop: an upgrade that is stopped in the middle may never
    /// come to an end, and then nothing shows that it has stopped.
    fn source_is_settled(&self, source: &ClusterName) -> Result<String, Interrupt> {
        self.has_not_ended(source)?;
        self.nobody_scales()?;
        let healthy = self.prove(source, |facts| Healthy::prove(facts, None))??;
        Ok(healthy.evidence().to_owned())
    }

    /// A source whose copy somebody deleted has lost what it had not saved: made anew, it must not run from nothing.
    pub(super) fn source_stays(&self) -> Result<(), Interrupt> {
        if self.journal()?.profile.stateful && !self.source_is_intact()? {
            let source = &self.journal()?.source;
            return Err(go_back(format!(
                "{source}: the copy was deleted by another client"
            )));
        }
        Ok(())
    }

    /// What Karmada would evict from the target isn't brought there: the reason is told at once.
    fn target_stays_open(&self) -> Result<(), Interrupt> {
        let Some(placement) = &self.binding()?.spec.placement else {
            return Ok(());
        };
        let target = &self.journal()?.target;
        match tainted(placement, target, self.snapshot().plane.clusters.get()?) {
            Some(finding) => Err(go_back(finding.message)),
            None => Ok(()),
        }
    }

    /// The target has a copy that was born held.
    pub(super) fn expand(&mut self) -> Result<Next, Interrupt> {
        self.claim()?;
        self.renew_barrier()?;
        self.source_stays()?;
        self.target_stays_open()?;
        self.fence()?;
        self.expanded()?;
        let (source, target) = self.ends()?;
        if self.is_shared() {
            let evidence = format!(
                "{source} and {target} are listed, both Works carry {}",
                self.marker()?
            );
            return Ok(Next::Enter(Phase::Handoff, vec![evidence]));
        }
        let held = self.prove(&target, Held::prove)??;
        let settled = self.source_is_settled(&source)?;
        self.move_is_recorded()?;
        Ok(Next::Enter(
            Phase::Capture,
            vec![held.evidence().to_owned(), settled],
        ))
    }

    /// Both are listed and both Works carry the marker. The pin is in force on the source before the target is listed, so
    /// that no cache can compute the target without it.
    fn expanded(&mut self) -> Result<(), Interrupt> {
        let (source, target) = self.ends()?;
        // Karmada is about to delete its copy, seen there or not: listed again, it would come back and run from nothing.
        if self.journal()?.profile.stateful && !self.is_listed(&source)? {
            return Err(go_back(format!(
                "{source}: another client took the workload out of it"
            )));
        }
        self.listed(&[source, target], "list the target")?;
        self.token()
    }

    pub(super) fn is_listed(&self, name: &ClusterName) -> Result<bool, Interrupt> {
        let listed = &self.binding()?.spec.clusters;
        Ok(listed.iter().any(|cluster| cluster.name == *name))
    }

    /// Git knows of the move before anybody is stopped for it: a control plane that is rebuilt from Git doesn't begin it again, and
    /// says what to find out.
    fn move_is_recorded(&mut self) -> Result<(), Interrupt> {
        if !self.journal()?.profile.stateful {
            return Ok(());
        }
        let seen = match self.journal()?.in_git {
            InGit::Opening | InGit::Handle => return Ok(()),
            InGit::Nothing => InGit::Asked,
            InGit::Asked => {
                self.recorded(|| self.status.clone(), Record::is_cut_short)?;
                // What Git took for it doesn't count for the phase.
                let now = self.input.now;
                self.journal_mut()?.phase_since = Some(now);
                InGit::Opening
            }
        };
        self.journal_mut()?.in_git = seen;
        Err(Interrupt::Requeue)
    }

    /// The source is suspended with its state. Where its copy keeps the handle that need not be in Git before the target runs:
    /// nobody does meanwhile, and a Git host may be slow.
    pub(super) fn capture(&mut self) -> Result<Next, Interrupt> {
        let is_due = self.stop_is_due()?;
        if is_due {
            self.claim()?;
        }
        self.renew_barrier()?;
        let (source, target) = self.ends()?;
        let unseen = self.unseen(&source)?;
        if unseen.is_none() {
            self.source_stays()?;
            self.has_not_ended(&source)?;
        }
        self.fence()?;
        if !is_due {
            // The claim says who may run no sooner than the pin: else the admission fence refuses the Works of the source.
            self.source_may_be_stopped()?;
            self.claim()?;
        }
        if self.journal()?.profile.born_held {
            self.listed(&[source.clone(), target.clone()], "list both again")?;
        } else {
            self.listed(std::slice::from_ref(&source), "list the source again")?;
        }
        self.token()?;
        if let Some(why) = unseen {
            return self.capture_unseen(&source, &target, &why);
        }
        let stopped = self.prove(&source, Stopped::prove)??;
        let profile = self.profile()?;
        let before = &self.journal()?.handle_before;
        let captured = match stopped.capture(&profile, before, self.input.now) {
            Err(NotProved::No(why)) => return Err(self.no_handle(why)),
            captured => captured?,
        };
        if self.journal()?.captured.as_ref().map(|known| &known.values) != Some(&captured.values) {
            let proved = self.offered(&source)?;
            let journal = self.journal_mut()?;
            journal.capture_source(captured);
            journal.stopped = Some(proved);
            return Ok(Next::Requeue);
        }
        let kept = if self.journal()?.records_handle_first() {
            self.handle_recorded()?;
            self.journal_mut()?.in_git = InGit::Handle;
            "recorded in Git".to_owned()
        } else {
            format!("which the copy in {source} keeps")
        };
        let mut evidence = vec![stopped.evidence().to_owned()];
        let values = captured.values.iter();
        evidence.extend(values.map(|(name, value)| format!("{name} {value}, {kept}")));
        Ok(Next::Enter(Phase::Handoff, evidence))
    }

    /// A run that came to its end while it was told to stop would begin again in the target.
    fn has_not_ended(&self, source: &ClusterName) -> Result<(), Interrupt> {
        if self.ended_in(source)?.is_some() {
            return Err(go_back(format!(
                "{source}: it ended before it was stopped, and would run again elsewhere"
            )));
        }
        Ok(())
    }

    /// A source that has stopped, and whose operator has said all about it, leaves no other handle than it has: waiting only
    /// makes it longer that nobody runs.
    fn no_handle(&self, why: String) -> Interrupt {
        if self.has_waited(&why, PATIENCE) {
            return go_back(format!("no state that could be handed over: {why}"));
        }
        Interrupt::Wait(why)
    }

    /// The target runs from the captured handle.
    pub(super) fn handoff(&mut self) -> Result<Next, Interrupt> {
        self.claim()?;
        self.renew_barrier()?;
        self.fence()?;
        let (source, target) = self.ends()?;
        self.expanded_for_handoff(&source, &target)?;
        self.give_token(&target)?;
        let stays = self.stays_alone(&source, &target)?;
        let healthy = self.healthy(&target)??;
        let now = self.input.now;
        self.journal_mut()?.is_up(now);
        stays?;
        self.handle_in_git()?;
        let mut evidence = vec![healthy.evidence().to_owned()];
        if self.journal()?.in_git == InGit::Handle {
            evidence.push("its state handle is recorded in Git".to_owned());
        }
        Ok(Next::Enter(Phase::Verify, evidence))
    }

    /// The journal names the handle that the source has left: its stopped copy shows it in this pass, or Git has it. A journal that somebody
    /// has edited may name another handle, an older one for instance. `marker`: of the pin in force.
    pub(super) fn handle_is_safe(&mut self, marker: &str) -> Result<(), Interrupt> {
        let (source, target) = self.ends()?;
        self.take_what_came_back(&source, &target, marker)?;
        if self.begins_from_nothing(&target)? {
            return Ok(());
        }
        match self.copy_has_handle(&source, marker)? {
            Ok(()) => return Ok(()),
            Err(NotProved::No(why)) => return Err(edited(&why)),
            Err(NotProved::Unknown(_)) => {}
        }
        if self.snapshot().record.get().is_err() {
            match self.journal()?.in_git {
                // It was seen there before the phase began.
                InGit::Handle => return Ok(()),
                InGit::Asked => {}
                // Git isn't read otherwise while nobody runs.
                InGit::Nothing | InGit::Opening => {
                    self.journal_mut()?.in_git = InGit::Asked;
                    return Err(Interrupt::Requeue);
                }
            }
        }
        match self.recorded_handle()? {
            Some(recorded) if self.captured()? != Some(recorded) => {
                Err(edited("Git has another one on record"))
            }
            Some(_) => Ok(()),
            None => self.handle_recorded(),
        }
    }

    /// The target has the token, and the copy that it had; nobody else runs. What is only unseen of the source is passed on: it
    /// takes nothing from what is seen of the target.
    fn stays_alone(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
    ) -> Result<Result<(), Interrupt>, Interrupt> {
        self.target_is_the_same(target)?;
        let stays = match self.no_lapse(source) {
            Err(Interrupt::Own(GoBack(why))) => return Err(go_back(why)),
            stays => stays,
        };
        self.note_target_ran(target)?;
        self.not_failed(target)?;
        self.target_copy_stays(target)?;
        Ok(stays)
    }

    /// A profile that can't hold a first copy gets its target only now, with nobody holding the token.
    pub(super) fn expanded_for_handoff(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
    ) -> Result<(), Interrupt> {
        let clusters = [source.clone(), target.clone()];
        if self.journal()?.clusters != clusters {
            self.journal_mut()?.clusters = clusters.to_vec();
            return Err(Interrupt::Requeue);
        }
        self.belt_again()?;
        self.listed(&clusters, "list both")
    }

    /// The target stays healthy without a break for as long as the spec asks.
    pub(super) fn verify(&mut self) -> Result<Next, Interrupt> {
        self.claim()?;
        self.renew_barrier()?;
        self.fence()?;
        let (source, target) = self.ends()?;
        self.listed(&[source.clone(), target.clone()], "list both again")?;
        self.give_token(&target)?;
        let stays = self.stays_alone(&source, &target)?;
        match self.soaks(&target)? {
            Ok((healthy, _)) => {
                // A copy that was recreated is seen running from here on.
                let now = self.input.now;
                self.journal_mut()?.is_up(now);
                self.soaked(&target)?;
                stays?;
                self.journal_mut()?.run_id = healthy.run_id().map(str::to_owned);
                let text = &self.journal()?.spec.verify.healthy_for;
                let mut evidence = vec![format!("{target} was watched healthy for {text}, committed")];
                evidence.extend(self.not_confirmed(&source)?);
                Ok(Next::Enter(Phase::Cleanup, evidence))
            }
            Err(why) => {
                if matches!(why, NotProved::No(_)) {
                    self.journal_mut()?.healthy_since = None;
                }
                Err(why.into())
            }
        }
    }

    /// The soak has been watched from its beginning by this process; what another one saw, or nobody, doesn't count.
    fn soaked(&mut self, target: &ClusterName) -> Result<(), Interrupt> {
        let now = self.input.now;
        let healthy_for = self.journal()?.spec.verify.healthy_for.clone();
        let soak = healthy_for.length();
        let watched = SignedDuration::try_from(self.snapshot().watched).unwrap_or_default();
        if watched >= soak {
            return Ok(());
        }
        let journal = self.journal_mut()?;
        // What was looked at before the phase began is no part of it.
        if journal.phase_since == Some(now) {
            return Err(Interrupt::Requeue);
        }
        let since = *journal.healthy_since.get_or_insert(now - watched);
        let reason = format!("{target} to stay healthy for {healthy_for}");
        if now < since + soak {
            return Err(Interrupt::wait_until(reason, since + soak, "go on"));
        }
        // Another process noted since when, and this one has to watch anew. It doesn't note that: one that is replaced after
        // each of its writes would never come past this one.
        let left = Duration::try_from(soak - watched).unwrap_or_default();
        self.requeue_after = Some(self.requeue_after.map_or(left, |soon| soon.min(left)));
        Err(Interrupt::Wait(reason))
    }

    pub(super) fn ends(&self) -> Result<(ClusterName, ClusterName), Interrupt> {
        let journal = self.journal()?;
        Ok((journal.source.clone(), journal.target.clone()))
    }

    pub(super) fn healthy(&self, cluster: &ClusterName) -> Result<Result<Healthy, NotProved>, Interrupt> {
        let given = self.handle_in_force()?;
        self.prove(cluster, |facts| Healthy::prove(facts, given.as_deref()))
    }

    /// Returns the handle that the writer was given: the one that its profile can show to be in use.
    pub(super) fn handle_in_force(&self) -> Result<Option<String>, Interrupt> {
        let journal = self.journal()?;
        let first = journal.profile.capture.iter().find(|rule| rule.required);
        Ok(first.and_then(|rule| journal.captured.as_ref()?.values.get(&rule.name).cloned()))
    }

    /// The stopped side is looked at in every pass: a proof ages. Seen running, everything is called off.
    pub(super) fn no_lapse(&self, source: &ClusterName) -> Result<(), Interrupt> {
        if self.is_shared() {
            return Ok(());
        }
        match self.inert(source)? {
            Ok(_) => Ok(()),
            // What a member doesn't show is no lapse.
            Err(NotProved::Unknown(why)) => Err(self.not_known_to_run(source, &why)?),
            Err(NotProved::No(_)) if self.stays_stopped(source)?.is_some() => Ok(()),
            Err(NotProved::No(why)) => {
                let current = self.prove(source, |facts| {
                    let object = facts.member.object.get()?.as_ref();
                    Ok(object.is_some_and(|object| !facts.profile.carries_hold(object, source)))
                })?;
                match current {
                    Ok(true) => Err(go_back(format!("{LAPSE}: {why}"))),
                    _ => Err(Interrupt::Wait(why)),
                }
            }
        }
    }

    /// Nothing in a cluster can write: that is proved, or a person who knows vouches for it.
    pub(super) fn proved_inert(&self, cluster: &ClusterName) -> Result<(), Interrupt> {
        match self.inert(cluster)? {
            Ok(_) => Ok(()),
            Err(NotProved::Unknown(why)) => Err(self.not_known_to_run(cluster, &why)?),
            Err(why) => Err(why.into()),
        }
    }

    /// Asks a person about a cluster of which it can't be told whether something runs there.
    fn not_known_to_run(&self, cluster: &ClusterName, why: &str) -> Result<Interrupt, Interrupt> {
        let unseen = self.snapshot().member(cluster)?.object.get().is_err();
        let seen = if unseen {
            format!("{cluster} to be seen, or ")
        } else {
            String::new()
        };
        let offer = self.offer(Fact::Stopped, cluster);
        Ok(Interrupt::Wait(format!(
            "{why}: {seen}a confirmation that no copy runs there ({offer})"
        )))
    }

    /// Returns what shows that the source has stayed stopped since that was proved, whatever its operator says by now. Another cluster under
    /// its name may show the same copy, from a backup.
    pub(super) fn stays_stopped(&self, source: &ClusterName) -> Result<Option<String>, Interrupt> {
        let Some(proved) = &self.journal()?.stopped else {
            return Ok(None);
        };
        if self.is_replaced(source)? || self.has_run_again(source) {
            return Ok(None);
        }
        let stays = self.prove(source, |facts| facts.still_stopped(proved))?;
        Ok(stays.ok())
    }

    /// Returns the evidence that a source stays stopped although its operator no longer says so.
    fn not_confirmed(&self, source: &ClusterName) -> Result<Option<String>, Interrupt> {
        let Err(NotProved::No(why)) = self.inert(source)? else {
            return Ok(None);
        };
        let stays = self.stays_stopped(source)?;
        Ok(stays.map(|stays| {
            let said = self.symptoms(source);
            format!("{stays}; its operator does not confirm that any more ({why}){said}")
        }))
    }

    pub(super) fn note_target_ran(&mut self, target: &ClusterName) -> Result<(), Interrupt> {
        if self.journal()?.target_ran {
            return Ok(());
        }
        let ran = self.prove(target, |facts| match facts.member.object.get()? {
            Some(object) => Ok(facts.profile.ran(object)?),
            None => Ok(false),
        })?;
        if ran == Ok(true) {
            let uid = self.uid_in(target)?;
            let journal = self.journal_mut()?;
            journal.target_ran = true;
            journal.target_uid = uid;
            return Err(Interrupt::Requeue);
        }
        Ok(())
    }
}

fn edited(why: &str) -> Interrupt {
    Interrupt::Wait(format!(
        "the journal's handle is not the one that was left ({why}): put status.journal.captured back, or abort"
    ))
}
