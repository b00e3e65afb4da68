//! Who takes over. From a target that runs the token is taken only towards a source that was seen able to have it in the same
//! pass; abort, deletion, a deadline and a failed check are wishes. Nobody is not a place to stay: where the source can't have
//! it, the target keeps it, or gets it again.

use jiff::SignedDuration;
use serde_json::Value;

use super::roll_back::{LONG, PACE};
use super::{GoBack, Interrupt, Next, Operation, Phase};
use crate::api::{Fact, RollBackStage, watched};
use crate::intent::custody::LAPSE;
use crate::intent::proof::{Gone, Healthy, NotProved};
use cutover_karmada::name::ClusterName;

/// How long a source is watched before a healthy target is stopped for it, the first time.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(10);
/// How often that time is doubled at most.
const MOST_RETURNS: u32 = 6;

impl Operation<'_> {
    /// Returns why the source can't have the token now, if so: its member is seen, its copy is held there under the marker in
    /// force, so that the next one will reach it, and it has a state to run from that isn't older than the target's.
    pub(super) fn no_heir(
        &self,
        source: &ClusterName,
        target: &ClusterName,
    ) -> Result<Option<String>, Interrupt> {
        let back = self.journal()?.roll_back.as_ref();
        let is_alone = back.is_some_and(|back| back.own_state);
        let is_given_up = || {
            self.assumed(Fact::From, source).is_some() || self.assumed(Fact::FromNothing, target).is_some()
        };
        if is_alone && !is_given_up() {
            return Ok(Some(format!(
                "{target} has stopped without a state handle, so what it wrote is there alone"
            )));
        }
        let steered = match self.is_leaving(source) {
            Ok(true) => Ok(Err(NotProved::No(format!(
                "{source}: its copy is still being deleted"
            )))),
            Ok(false) => self.steered(source),
            Err(stop) => Err(stop),
        };
        match steered {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Ok(Some(why.to_string())),
            Err(Interrupt::Wait(why)) => return Ok(Some(why)),
            Err(stop) => return Err(stop),
        }
        if let Ok(pods) = self.snapshot().member(source)?.pods.get()
            && let Some(pod) = pods.first()
        {
            return Ok(Some(format!("{source}: pod {} is there again", pod.name)));
        }
        // It is taken out to be created again, which asks for a proof that its operator may never give.
        if self.keeps_its_own_state(source)?
            && let Err(Interrupt::Wait(why)) = self.proved_inert(source)
        {
            return Ok(Some(why));
        }
        match self.source_can_resume(source) {
            Ok(()) => Ok(None),
            Err(Interrupt::Wait(why)) => Ok(Some(why)),
            Err(stop) => Err(stop),
        }
    }

    /// Returns why a source that can have the token again doesn't get it yet: one that comes and goes would stop a healthy target
    /// each time. Each return takes longer than the one before.
    pub(super) fn is_new_heir(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
    ) -> Result<Option<String>, Interrupt> {
        if self.prove(target, |facts| Healthy::prove(facts, None))?.is_err() {
            return Ok(None);
        }
        let now = self.input.now;
        let Some(back) = &mut self.journal_mut()?.roll_back else {
            return Ok(None);
        };
        watched::look(&mut back.heir, now);
        let seen = watched::elapsed(back.heir.as_ref(), now);
        let wanted = BACK_OFF.saturating_mul(1 << back.returns.min(MOST_RETURNS));
        Ok((seen < wanted).then(|| {
            format!(
                "{source} can have the token again, and is watched for {} s before {target} is stopped for it",
                wanted.as_secs()
            )
        }))
    }

    /// The source can't have the token: what was seen of it before doesn't count.
    pub(super) fn forget_heir(&mut self) -> Result<(), Interrupt> {
        if let Some(back) = &mut self.journal_mut()?.roll_back {
            back.heir = None;
        }
        Ok(())
    }

    /// What is told to a cluster reaches it: its copy carries the hold under the marker in force, or there is none. An operator
    /// that says nothing new about a held copy is no reason to keep the token from it: it stopped before the hand-over, and who
    /// lets it run proves what has to be proved of the others.
    fn steered(&self, cluster: &ClusterName) -> Result<Result<(), NotProved>, Interrupt> {
        if let Some(why) = self.left_behind(cluster)? {
            return Ok(Err(NotProved::Unknown(why)));
        }
        self.prove(cluster, |facts| {
            if facts.member.object.get()?.is_none() {
                return Gone::prove(facts).map(drop);
            }
            let copy = facts.current_copy()?;
            if facts.profile.carries_hold(copy, cluster) {
                Ok(())
            } else {
                Err(NotProved::No(format!(
                    "{cluster}: the copy does not carry the hold"
                )))
            }
        })
    }

    /// Returns whether a phase takes longer than it may for nothing that the target does: that runs as it should, and either
    /// goes on in this pass or waits for a source that couldn't have the token either.
    pub(super) fn target_is_good(&self) -> bool {
        let Ok((source, target)) = self.ends() else {
            return false;
        };
        let has_token = self
            .journal()
            .is_ok_and(|journal| journal.writer.as_ref() == Some(&target));
        let runs = match self.status.phase {
            Phase::Handoff => matches!(self.healthy(&target), Ok(Ok(_))),
            Phase::Verify => matches!(self.soaks(&target), Ok(Ok(_))),
            _ => false,
        };
        // What can't be known of the source is no fault of the target, nor is an operator that fails after it has stopped it.
        let goes_on = matches!(self.inert(&source), Ok(Ok(_) | Err(NotProved::Unknown(_))))
            || matches!(self.stays_stopped(&source), Ok(Some(_)));
        has_token && runs && (goes_on || !matches!(self.steered(&source), Ok(Ok(()))))
    }

    /// The target keeps the token, or gets it again, until the source can have it or a person says that it may stay.
    pub(super) fn keep(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        why: &str,
    ) -> Result<Next, Interrupt> {
        if self.stage()? != RollBackStage::Kept {
            return self.enter_stage(RollBackStage::Kept);
        }
        match self.keeps_running(source, target) {
            Err(Interrupt::Own(GoBack(reason))) if reason.starts_with(LAPSE) => {
                let reason = self.without_secrets(reason);
                if let Some(back) = &mut self.journal_mut()?.roll_back {
                    back.reason = reason;
                    // It may have run since, and what its stop left then is no more the newest.
                    back.source_captured = false;
                }
                return self.enter_stage(RollBackStage::Begun);
            }
            Err(Interrupt::Own(GoBack(reason))) => return Err(Interrupt::Wait(reason)),
            Err(stop) => return Err(stop),
            Ok(()) => {}
        }
        // It may run from what it wrote itself, not from what it was given.
        let healthy = self.prove(target, |facts| Healthy::prove(facts, None))?;
        let now = self.input.now;
        if healthy.is_ok() {
            self.journal_mut()?.is_up(now);
        }
        match (healthy, self.assumed(Fact::To, target)) {
            (Ok(healthy), Some(by)) => {
                let evidence = format!("{by} lets it stay in {target} ({why})");
                Ok(Next::Enter(
                    Phase::Cleanup,
                    vec![healthy.evidence().to_owned(), evidence],
                ))
            }
            (Ok(_), None) => Err(Interrupt::Wait(format!(
                "{why}: {target} is healthy and keeps the token until {source} can have it; {}",
                self.words_for_staying(source, target)?
            ))),
            (Err(ill), _) => {
                let begins = self.begin_from_nothing(source, target, &ill)?;
                Err(Interrupt::Wait(format!(
                    "{why}: {target} keeps the token ({ill}){begins}; once it is healthy, {}",
                    self.words_for_staying(source, target)?
                )))
            }
        }
    }

    /// A target that doesn't come up from the state handle that it was given, beside a source that is lost: a person may let it begin
    /// without. Returns what is said of that where it is offered.
    fn begin_from_nothing(
        &mut self,
        source: &ClusterName,
        target: &ClusterName,
        ill: &NotProved,
    ) -> Result<String, Interrupt> {
        let is_lost = self.unseen(source)?.is_some() && self.unseen(target)?.is_none();
        if !is_lost || !self.journal()?.profile.stateful {
            return Ok(String::new());
        }
        let Some(handle) = self.captured()?.cloned() else {
            return Ok(self.starts_late(target, ill));
        };
        let back = self.journal()?.roll_back.as_ref();
        let waited = back.map_or(SignedDuration::ZERO, |back| {
            self.input.now.duration_since(back.since)
        });
        let symptoms = self.symptoms(target);
        if waited < PACE || (waited < LONG && symptoms.is_empty()) {
            return Ok(String::new());
        }
        if let Some(by) = self.assumed(Fact::FromNothing, target) {
            self.note_handle(Fact::FromNothing, target, &handle)?;
            self.spend(Fact::FromNothing, target)?;
            self.gives_up(format!(
                "{by} lets {target} start from nothing, where it did not come up from the state handle: what the workload wrote is \
                 given up"
            ));
            // It is let run anew, from nobody: as everybody is.
            let journal = self.journal_mut()?;
            (journal.captured, journal.writer) = (None, None);
            journal.suspended = vec![journal.source.clone(), journal.target.clone()];
            journal.pin.renew();
            return Err(Interrupt::Requeue);
        }
        let values: Vec<&str> = handle.values().map(String::as_str).collect();
        let offer = self.offer_at(
            Fact::FromNothing,
            target,
            format!(
                "all the state that the workload had, but for what {} has",
                values.join(", ")
            ),
        );
        Ok(format!(
            "{symptoms}: if it never starts from its state handle, a person can let it start from nothing ({offer})"
        ))
    }

    fn words_for_staying(&self, source: &ClusterName, target: &ClusterName) -> Result<String, Interrupt> {
        let back = self.journal()?.roll_back.as_ref();
        let gives_up = if back.is_some_and(|back| back.own_state) {
            let offer = self.goes_on_from_source(source, target);
            format!(", or give up what it wrote since it took over ({offer})")
        } else {
            String::new()
        };
        let offer = self.offer_at(Fact::To, target, format!("the way back to {source}"));
        Ok(format!("a person can let it stay there ({offer}){gives_up}"))
    }

    fn keeps_running(&mut self, source: &ClusterName, target: &ClusterName) -> Result<(), Interrupt> {
        self.claim()?;
        self.renew_barrier()?;
        self.fence()?;
        if self.is_leaving(source)? {
            self.belt_again()?;
            self.listed(std::slice::from_ref(target), "list the target")?;
        } else {
            self.expanded_for_handoff(source, target)?;
        }
        let given = self.give_token(target);
        if let Err(Interrupt::Wait(_)) = given
            && (self.journal()?.writer.is_none() || !self.names_the_writer()?)
            && let Err(NotProved::Unknown(why)) = self.inert(source)?
        {
            return Err(self.unseen_source(source, target, &why));
        }
        given?;
        self.note_target_ran(target)
    }

    /// Returns whether what was in a cluster is still on its way out of it: it can't be listed again before it is gone.
    pub(super) fn is_leaving(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        if self.is_listed(cluster)? {
            return Ok(false);
        }
        let has_work = self.snapshot().plane.works.get()?.contains_key(cluster);
        let copy = self.snapshot().member(cluster)?.object.get();
        let copy = copy.ok().and_then(Option::as_ref);
        let is_deleted = |copy: &Value| copy.pointer("/metadata/deletionTimestamp").is_some();
        Ok(has_work || copy.is_some_and(is_deleted))
    }

    /// The source runs, as far as anybody knows, and can't be seen: it keeps the token until it is, or until a person says that
    /// nothing runs there.
    pub(super) fn unseen_tenant(&self, source: &ClusterName, target: &ClusterName, why: &str) -> Interrupt {
        Interrupt::Wait(format!(
            "{why}: {source} keeps the token. If you know that no copy runs there, or will by itself, confirm it, and {target} takes over \
             ({})",
            self.offer(Fact::Stopped, source)
        ))
    }

    /// Nobody runs, and the source that should can't be seen: the target may, on a person's word.
    pub(super) fn unseen_source(&self, source: &ClusterName, target: &ClusterName, why: &str) -> Interrupt {
        Interrupt::Wait(format!(
            "{why}; no copy is allowed to run. If you know that none runs in {source}, or will by itself, confirm it, and {target} runs \
             from the last state that is known ({})",
            self.offer(Fact::Stopped, source)
        ))
    }
}
