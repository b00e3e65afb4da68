//! Nobody may run the workload until the old copy is proved harmless, or somebody answers for it, and its state is known.
//! Then the new copy starts from it.

use jiff::SignedDuration;

use super::{Interrupt, Operation, Phase, question};
use crate::api::{FailoverGate, FencedBy, Finding, LastKnown, MovedState, watched};
use crate::intent::custody;
use crate::intent::proof::{CutOff, Facts, Healthy, NotProved, Suspended};
use cutover_karmada::PurgeMode;
use cutover_karmada::name::ClusterName;

/// How long a new copy may take to be well before people are told.
const UP_WITHIN: SignedDuration = SignedDuration::from_mins(5);

impl Operation<'_> {
    pub(super) fn fencing(&mut self) -> Result<(), Interrupt> {
        let (from, to) = self.ends()?;
        self.claim()?;
        self.pin()?;
        self.fence(&to)?;
        let clusters = self.journal()?.clusters.clone();
        let tasks = self.tasks_of_old_copies()?;
        self.arrange(&clusters, &tasks, "end the eviction under the pin")?;
        self.markers()?;
        self.belt_is_shown()?;
        self.not_paused()?;
        self.note_captured(&from)?;
        self.stop_source(&from)?;
        self.note_doubt(&from)?;
        let mut evidence = Vec::new();
        let marker = self.marker()?;
        // Chosen again, what runs there, or is made anew there, is stopped or held like any other.
        let others = self.involved()?;
        for cluster in others.iter().filter(|cluster| **cluster != to || from == to) {
            match self.harmless(cluster, &marker)? {
                Ok(inert) => evidence.push(inert.evidence()),
                Err(NotProved::Unknown(why)) if *cluster == from => {
                    return Err(self.unreachable(&from, &why)?);
                }
                Err(NotProved::Unknown(why)) => return Err(self.vouch_for_old(cluster, &why)),
                Err(why) => return Err(why.into()),
            }
        }
        if self.flight()?.state.is_none() {
            let state = self.state(&from, &to)?;
            self.flight_mut()?.state = Some(state);
            return Err(Interrupt::Requeue);
        }
        self.recorded()?;
        self.target_is_there(&from, &to)?;
        let ran = self.target_has_stopped(&from, &to)?;
        self.flight_mut()?.evidence.clone_from(&evidence);
        let values = self.flight()?.state.as_ref().map(|state| state.values.clone());
        // Whatever was known, or said, of a copy that was left there is not about the one that is released.
        self.status.old_copies.remove(&to);
        let journal = self.journal_mut()?;
        journal.pin.renew();
        journal.writer = Some(to);
        journal.carried = values.filter(|values| !values.is_empty());
        journal.redeploy = ran.then(|| u32::try_from(journal.pin.seq).unwrap_or(u32::MAX));
        self.flight_mut()?.released = true;
        self.enter(Phase::Releasing, evidence);
        Err(Interrupt::Requeue)
    }

    pub(super) fn ends(&self) -> Result<(ClusterName, ClusterName), Interrupt> {
        let flight = self.flight()?;
        let to = flight.to.clone().ok_or(Interrupt::Requeue)?;
        Ok((flight.from.clone(), to))
    }

    /// Git has the state before the token leaves nobody.
    fn recorded(&self) -> Result<(), Interrupt> {
        let kept = self.input.snapshot.kept.get()?.as_ref();
        let attempt = self.status.common.attempt;
        let state = |status: &crate::api::FailoverPlanStatus| {
            let flight = status.journal.as_ref()?.flight.as_ref()?;
            (status.common.attempt == attempt).then(|| flight.state.clone())?
        };
        if kept.and_then(state) == self.flight()?.state {
            return Ok(());
        }
        Err(Interrupt::Act(vec![self.keep("knows the state to go on from")]))
    }

    /// Returns whether the new copy has run before it was released: somebody took away what held it. It has a state of its own, and
    /// would go on from that, once it has stopped.
    fn target_has_stopped(&self, from: &ClusterName, to: &ClusterName) -> Result<bool, Interrupt> {
        let profile = self.profile()?;
        let Some(copy) = self.copy(to)?.filter(|_| from != to) else {
            return Ok(false);
        };
        if profile.spec().ran_when.is_none() || !profile.ran(copy)? {
            return Ok(false);
        }
        self.seen_harmless(to, &self.marker()?)??;
        let state = self.flight()?.state.as_ref();
        if profile.recreates_for_handle() && state.is_some_and(|state| !state.values.is_empty()) {
            return Err(Interrupt::Wait(format!(
                "manual intervention required: the copy in {to} ran before it was released, and would go on from its own state: a person \
                 must delete it in {to}, where Karmada recreates it"
            )));
        }
        Ok(!profile.spec().restart_from.is_empty())
    }

    /// A source that was listed again is stopped with its state, in its time; what can't be is removed, or kept if it shall
    /// be and a person doesn't let it go. One that its operator has stopped has had its time, whatever its pods do; of one
    /// that nobody sees `sourceUnreachable` decides.
    fn stop_source(&mut self, from: &ClusterName) -> Result<(), Interrupt> {
        let now = self.input.now;
        if self.flight()?.with_source != Some(true) || self.copy(from).is_err() {
            return Ok(());
        }
        let marker = self.marker()?;
        let suspended = self.prove(from, &marker, Suspended::prove)?;
        if suspended.is_ok() || self.seen_harmless(from, &marker)?.is_ok() {
            return Ok(());
        }
        let before = self.flight()?.stopping;
        watched::look(&mut self.flight_mut()?.stopping, now);
        if before.is_none() {
            return Err(Interrupt::Requeue);
        }
        let limit = self.input.spec.stop_within.length();
        let left = limit - watched::elapsed(self.flight()?.stopping.as_ref(), now);
        let why = suspended.err().map_or_else(String::new, |why| why.to_string());
        if left > SignedDuration::ZERO {
            return Err(Interrupt::wait_until(
                why,
                now + left,
                "go on without the state that it would leave",
            ));
        }
        let keeps = self.flight()?.purge_mode == Some(PurgeMode::Never);
        if !keeps {
            return self.leave_source_out();
        }
        match self.approved(FailoverGate::Purge, from) {
            Some(by) => {
                self.flight_mut()?
                    .evidence
                    .push(format!("{from}: {by} lets it be deleted"));
                self.leave_source_out()
            }
            None => Err(question(
                FailoverGate::Purge,
                from.clone(),
                format!("{why}: its copy can't be stopped, and the purge mode keeps it; may it be deleted?"),
            )),
        }
    }

    fn leave_source_out(&mut self) -> Result<(), Interrupt> {
        let to = self.ends()?.1;
        let journal = self.journal_mut()?;
        journal.clusters = vec![to];
        journal.suspended.clear();
        journal.pin.renew();
        self.flight_mut()?.with_source = Some(false);
        Err(Interrupt::Requeue)
    }

    /// Notes the state that the old copy has left as soon as its operator vouches for it: a node that can't say what became of a
    /// pod doesn't make it older. One that it leaves later is newer.
    fn note_captured(&mut self, from: &ClusterName) -> Result<(), Interrupt> {
        let marker = self.marker()?;
        let Some(state) = self.captured(from, &marker)? else {
            return Ok(());
        };
        if self.is_known(&state)? {
            return Ok(());
        }
        self.flight_mut()?.state = Some(state);
        Err(Interrupt::Requeue)
    }

    /// Returns whether a state is the one that the failover goes on from.
    pub(super) fn is_known(&self, state: &MovedState) -> Result<bool, Interrupt> {
        let known = self.flight()?.state.as_ref();
        Ok(known.is_some_and(|known| (known.source, &known.values) == (state.source, &state.values)))
    }

    /// Counts for how long nobody can tell whether the old copy writes. What is seen of it is nobody's to vouch for: seen
    /// harmless, it needs no word, and whatever else is seen speaks against one.
    pub(super) fn note_doubt(&mut self, from: &ClusterName) -> Result<(), Interrupt> {
        let marker = self.marker()?;
        let now = self.input.now;
        let seen = self.seen_harmless(from, &marker)?;
        let cut_off = self.cut_off(from, &marker)?.is_some();
        let refuted = self.answers(FailoverGate::Fenced, from);
        let flight = self.flight_mut()?;
        let before = (flight.unproved, flight.fenced.clone());
        match seen {
            Err(NotProved::Unknown(_)) => {
                watched::look(&mut flight.unproved, now);
                if cut_off {
                    watched::look(&mut flight.cut_off, now);
                } else {
                    flight.cut_off = None;
                }
            }
            seen => {
                if seen.is_err() && flight.fenced.take().is_some() {
                    flight.refuted = refuted;
                }
                (flight.unproved, flight.cut_off) = (None, None);
            }
        }
        if (before.0.is_some(), before.1) == (flight.unproved.is_some(), flight.fenced.clone()) {
            return Ok(());
        }
        Err(Interrupt::Requeue)
    }

    /// Returns what the fencing of nodes would be an answer to. Where Karmada has an answer of the cluster, and this tool has
    /// none, nothing shows that anybody fences its nodes.
    fn cut_off(&self, cluster: &ClusterName, marker: &str) -> Result<Option<CutOff>, Interrupt> {
        let member = self.around().plane.clusters.get()?.get(cluster);
        let replaced = self.is_replaced(cluster, self.journal()?.identities.get(cluster))?;
        let is_lost = member.is_some_and(|member| !member.is_ready());
        let of = self.prove(cluster, marker, |facts: &Facts<'_>| Ok(facts.cut_off()))?;
        Ok(of.ok().flatten().filter(|of| match of {
            CutOff::Cluster => is_lost && !replaced,
            CutOff::Nodes => !replaced,
        }))
    }

    /// Nobody can see whether the old copy writes: the plan says what then. The time counts in which it was looked for.
    pub(super) fn unreachable(&mut self, from: &ClusterName, why: &str) -> Result<Interrupt, Interrupt> {
        let now = self.input.now;
        let rule = &self.input.spec.source_unreachable;
        if rule.contradiction().is_some() {
            return Ok(Interrupt::Wait(format!(
                "{why}, and spec.sourceUnreachable contradicts itself: it is held"
            )));
        }
        let (Some(after), Some(fenced_by)) = (&rule.proceed_after, rule.fenced_by) else {
            return Ok(Interrupt::Wait(format!(
                "{why}: the new copy is held until the old one is seen stopped or gone (sourceUnreachable: Hold); to release it on an \
                 approval instead, set proceedAfter and fencedBy: Approval"
            )));
        };
        let after = after.length();
        let marker = self.marker()?;
        let by_nodes = fenced_by == FencedBy::NodeFencing && self.cut_off(from, &marker)?.is_some();
        let flight = self.flight()?;
        let counts = if by_nodes {
            &flight.cut_off
        } else {
            &flight.unproved
        };
        let passed = watched::elapsed(counts.as_ref(), now);
        if passed < after {
            let then = if by_nodes {
                "go on: the infrastructure has fenced its nodes"
            } else {
                "ask for an approval"
            };
            return Ok(Interrupt::wait_until(
                why.to_owned(),
                now + (after - passed),
                then,
            ));
        }
        let minutes = passed.as_mins();
        let word = if by_nodes {
            Some(format!(
                "the fencing of its nodes, after {minutes} min without a sign of them"
            ))
        } else {
            self.approved(FailoverGate::Fenced, from)
        };
        let Some(word) = word else {
            let to = self.flight()?.to.as_ref();
            let lacks = to.map_or_else(String::new, |to| self.lacks(to));
            return Ok(question(
                FailoverGate::Fenced,
                from.clone(),
                format!(
                    "{why}, after {minutes} min of checks: is it certain that no copy in {from} writes?{lacks}"
                ),
            ));
        };
        self.flight_mut()?.fenced = Some(word);
        Ok(Interrupt::Requeue)
    }

    /// The new copy runs from the state; the old one is looked at in every pass.
    pub(super) fn releasing(&mut self) -> Result<(), Interrupt> {
        let (from, to) = self.ends()?;
        self.claim()?;
        self.fence(&to)?;
        let clusters = self.journal()?.clusters.clone();
        let tasks = self.tasks_of_old_copies()?;
        self.arrange(&clusters, &tasks, "keep the clusters as they are")?;
        self.word_counts(&from, &to)?;
        self.pin()?;
        self.markers()?;
        self.watch_source(&from, &to)?;
        let given = self.handle_given()?;
        let marker = self.marker()?;
        let healthy = match self.prove(&to, &marker, |facts| Healthy::prove(facts, given.as_deref()))? {
            Ok(healthy) => healthy,
            Err(why) => {
                self.sent_on(&from, &to)?;
                if let NotProved::Unknown(why) = &why
                    && self.copy(&to).is_err()
                {
                    return Err(self.asks_to_go_back(&from, &to, why.clone())?);
                }
                return Err(self.not_well(&to, &why)?);
            }
        };
        self.untell("NotHealthy");
        let now = self.input.now;
        let flight = self.flight_mut()?;
        flight.up_since.get_or_insert(now);
        flight.evidence.push(healthy.evidence().to_owned());
        // What was known of the old copy is older than what the new one was given.
        let state = flight.state.clone().filter(|state| !state.values.is_empty());
        self.status.last_known = state.map(|state| LastKnown::left(to, state.values, state.at));
        self.enter(Phase::Settling, vec![healthy.evidence().to_owned()]);
        Err(Interrupt::Requeue)
    }

    /// Returns the handle that the new copy must be seen to use, where its profile can show one.
    fn handle_given(&self) -> Result<Option<String>, Interrupt> {
        let journal = self.journal()?;
        let first = journal.profile.capture.iter().find(|rule| rule.required);
        Ok(first.and_then(|rule| journal.carried.as_ref()?.get(&rule.name).cloned()))
    }

    /// A new copy that doesn't come up: people are told, and it is waited for.
    fn not_well(&mut self, to: &ClusterName, why: &NotProved) -> Result<Interrupt, Interrupt> {
        let now = self.input.now;
        if matches!(why, NotProved::No(_)) {
            watched::look(&mut self.flight_mut()?.unwell, now);
        }
        if watched::elapsed(self.flight()?.unwell.as_ref(), now) >= UP_WITHIN {
            self.tell(Finding::new(
                "NotHealthy",
                format!("{to}: the new copy does not come up"),
                "look at it there, or send it on: cutover failover with --to another cluster",
            ))?;
        }
        Ok(Interrupt::Wait(why.to_string()))
    }

    /// An old copy that is seen to run beside the new one is told of: it is being held or removed.
    fn watch_source(&mut self, from: &ClusterName, to: &ClusterName) -> Result<(), Interrupt> {
        if from == to || !self.runs_beside(from)? {
            return Ok(());
        }
        self.tell(lapse(from, to))
    }

    /// Returns whether something of an old copy runs: by what its operator says of one that nothing holds, or by its pods.
    pub(super) fn runs_beside(&self, cluster: &ClusterName) -> Result<bool, Interrupt> {
        let Ok(Some(copy)) = self.copy(cluster) else {
            return Ok(false);
        };
        let profile = self.profile()?;
        let is_loose = !profile.carries_hold(copy, cluster) && profile.healthy(copy).unwrap_or(false);
        let pods = self.around().member(cluster)?.pods.get();
        Ok(is_loose || pods.is_ok_and(|pods| !pods.is_empty()))
    }
}

/// The old copy was said not to write, and does.
pub(super) fn lapse(from: &ClusterName, to: &ClusterName) -> Finding {
    Finding::new(
        custody::LAPSE,
        format!("the copy in {from} is seen to run while {to} has the token: it is being held or removed"),
        "find out who vouched for it; what it wrote meanwhile is not in the state of the new copy",
    )
}
