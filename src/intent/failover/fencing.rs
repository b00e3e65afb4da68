//! Nobody may run the workload until the old copy is proved harmless, or somebody answers for it, and its state is known.
//! Then the new copy starts from it.

use jiff::SignedDuration;

use super::{Machine, Phase, Stop, duration};
use crate::api::{FailoverGate, FencedBy, Finding, LastKnown};
use crate::intent::proof::{Healthy, Inert, NotProved, Stopped};
use crate::karmada::PurgeMode;
use crate::name::ClusterName;

/// How long a new copy may take to be well before people are told.
const UP_WITHIN: SignedDuration = SignedDuration::from_mins(5);

impl Machine<'_> {
    pub(super) fn fencing(&mut self) -> Result<(), Stop> {
        let (from, to) = self.ends()?;
        self.claim()?;
        self.pin()?;
        self.fence(&to)?;
        let clusters = self.journal()?.clusters.clone();
        let tasks = self.tasks_of_old_copies()?;
        self.arranged(&clusters, &tasks, "end the eviction under the pin")?;
        self.markers()?;
        self.not_paused()?;
        let mut evidence = Vec::new();
        if from == to {
            // Chosen again: what runs there, or is made anew there, is stopped or held like any other.
            let marker = self.marker()?;
            evidence.push(self.prove(&to, &marker, Inert::prove)??.evidence());
        }
        self.stop_source(&from)?;
        self.note_unseen(&from)?;
        for cluster in self.involved()?.iter().filter(|cluster| **cluster != to) {
            let marker = self.marker()?;
            match self.harmless(cluster, &marker)? {
                Ok(inert) => evidence.push(inert.evidence()),
                Err(NotProved::Unknown(why)) if *cluster == from => {
                    return Err(self.unreachable(&from, &why)?);
                }
                Err(NotProved::Unknown(why)) => {
                    let question = format!("{why}: does nothing in {cluster} write?");
                    return Err(self.vouch_for_old(cluster, question));
                }
                Err(why) => return Err(why.into()),
            }
        }
        if self.flight()?.state.is_none() {
            let state = self.state(&from, &to)?;
            self.flight_mut()?.state = Some(state);
            return Err(Stop::Again);
        }
        self.recorded()?;
        self.target_is_there(&from, &to)?;
        self.flight_mut()?.evidence.clone_from(&evidence);
        let values = self.flight()?.state.as_ref().map(|state| state.values.clone());
        let journal = self.journal_mut()?;
        journal.seq += 1;
        journal.writer = Some(to);
        journal.carried = values.filter(|values| !values.is_empty());
        self.enter(Phase::Releasing, evidence);
        Err(Stop::Again)
    }

    pub(super) fn ends(&self) -> Result<(ClusterName, ClusterName), Stop> {
        let flight = self.flight()?;
        let to = flight.to.clone().ok_or(Stop::Again)?;
        Ok((flight.from.clone(), to))
    }

    /// Git has the state before the token leaves nobody.
    fn recorded(&self) -> Result<(), Stop> {
        let kept = self.input.world.kept.get()?.as_ref();
        let attempt = self.status.common.attempt;
        let state = |status: &crate::api::FailoverPlanStatus| {
            let flight = status.journal.as_ref()?.flight.as_ref()?;
            (status.common.attempt == attempt).then(|| flight.state.clone())?
        };
        if kept.and_then(state) == self.flight()?.state {
            return Ok(());
        }
        Err(Stop::Act(vec![self.keep("knows the state to go on from")]))
    }

    /// A source that was listed again is stopped with its state, in its time; what can't be is removed, or kept if it shall
    /// be and a person doesn't let it go.
    fn stop_source(&mut self, from: &ClusterName) -> Result<(), Stop> {
        let now = self.input.now;
        if self.flight()?.with_source != Some(true) {
            return Ok(());
        }
        let Some(since) = self.flight()?.stopping_since else {
            self.flight_mut()?.stopping_since = Some(now);
            return Err(Stop::Again);
        };
        let marker = self.marker()?;
        let stopped = self.prove(from, &marker, Stopped::prove)?;
        let held = self.prove(from, &marker, Inert::prove)?;
        if stopped.is_ok() || held.is_ok() {
            return Ok(());
        }
        let until = since + duration(&self.input.spec.stop_within);
        let why = stopped.err().map_or_else(String::new, |why| why.to_string());
        if now < until {
            return Err(Stop::WaitUntil(
                why,
                until,
                "go on without the state that it would leave",
            ));
        }
        let keeps = self.flight()?.purge_mode == Some(PurgeMode::Never);
        let is_seen = self.copy(from).is_ok();
        if !keeps {
            return self.leave_source_out();
        }
        if !is_seen {
            return Ok(());
        }
        match self.approved(FailoverGate::Purge, from) {
            Some(by) => {
                self.flight_mut()?
                    .evidence
                    .push(format!("{from}: {by} lets it be deleted"));
                self.leave_source_out()
            }
            None => Err(Stop::Ask(
                FailoverGate::Purge,
                from.clone(),
                format!("{why}: its copy can't be stopped, and the purge mode keeps it; may it be deleted?"),
            )),
        }
    }

    fn leave_source_out(&mut self) -> Result<(), Stop> {
        let to = self.ends()?.1;
        let journal = self.journal_mut()?;
        journal.clusters = vec![to];
        journal.suspended.clear();
        journal.seq += 1;
        self.flight_mut()?.with_source = Some(false);
        Err(Stop::Again)
    }

    /// Since when nobody sees the old copy: what is seen is nobody's to vouch for.
    pub(super) fn note_unseen(&mut self, from: &ClusterName) -> Result<(), Stop> {
        let is_seen = self.is_seen(from, self.journal()?.identities.get(from))?;
        let now = self.input.now;
        let flight = self.flight_mut()?;
        match (is_seen, flight.unseen_since) {
            (true, Some(_)) => {
                flight.unseen_since = None;
                flight.fenced = None;
                Err(Stop::Again)
            }
            (false, None) => {
                flight.unseen_since = Some(now);
                Err(Stop::Again)
            }
            _ => Ok(()),
        }
    }

    /// Nobody can see whether the old copy writes: the plan says what then.
    pub(super) fn unreachable(&mut self, from: &ClusterName, why: &str) -> Result<Stop, Stop> {
        let now = self.input.now;
        let rule = &self.input.spec.source_unreachable;
        if rule.contradiction().is_some() {
            return Ok(Stop::Wait(format!(
                "{why}, and spec.sourceUnreachable contradicts itself: it is held"
            )));
        }
        let (Some(after), Some(fenced_by)) = (&rule.proceed_after, rule.fenced_by) else {
            return Ok(Stop::Wait(format!(
                "{why}: the new copy is held until the old one is seen stopped or gone (sourceUnreachable: Hold)"
            )));
        };
        let since = self.flight()?.unseen_since.unwrap_or(now);
        let from_then = since + duration(after);
        if now < from_then {
            let then = match fenced_by {
                FencedBy::Approval => "ask for an approval",
                FencedBy::NodeFencing => "go on: the infrastructure has fenced it",
            };
            return Ok(Stop::WaitUntil(why.to_owned(), from_then, then));
        }
        let word = match fenced_by {
            FencedBy::Approval => self.approved(FailoverGate::Fenced, from),
            FencedBy::NodeFencing => Some(format!("the fencing of its nodes, unreachable since {since}")),
        };
        let Some(word) = word else {
            return Ok(Stop::Ask(
                FailoverGate::Fenced,
                from.clone(),
                format!(
                    "{why}: nobody can see it since {since}; is it certain that nothing of it in {from} writes?"
                ),
            ));
        };
        self.flight_mut()?.fenced = Some(word);
        Ok(Stop::Again)
    }

    /// The new copy runs from the state; the old one is looked at in every pass.
    pub(super) fn releasing(&mut self) -> Result<(), Stop> {
        let (from, to) = self.ends()?;
        self.claim()?;
        self.fence(&to)?;
        let clusters = self.journal()?.clusters.clone();
        let tasks = self.tasks_of_old_copies()?;
        self.arranged(&clusters, &tasks, "keep the clusters as they are")?;
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
        self.status.last_known = state.map(|state| LastKnown {
            cluster: to,
            uid: String::new(),
            values: state.values,
            at: state.at,
            recorded: false,
        });
        self.enter(Phase::Settling, vec![healthy.evidence().to_owned()]);
        Err(Stop::Again)
    }

    /// Returns the handle that the new copy must be seen to use, where its profile can show one.
    fn handle_given(&self) -> Result<Option<String>, Stop> {
        let journal = self.journal()?;
        let first = journal.profile.capture.iter().find(|rule| rule.required);
        Ok(first.and_then(|rule| journal.carried.as_ref()?.get(&rule.name).cloned()))
    }

    /// A new copy that doesn't come up: people are told, and it is waited for.
    fn not_well(&mut self, to: &ClusterName, why: &NotProved) -> Result<Stop, Stop> {
        let since = self.status.common.steps.last().map(|step| step.started_at);
        let late = since.is_some_and(|since| self.input.now.duration_since(since) >= UP_WITHIN);
        if late {
            self.tell(Finding::new(
                "NotHealthy",
                format!("{to}: the new copy does not come up"),
                "look at it there, or send it on: cutover failover with --to another cluster",
            ))?;
        }
        Ok(Stop::Wait(why.to_string()))
    }

    /// An old copy that is seen to run beside the new one is told of: it is being held or removed.
    fn watch_source(&mut self, from: &ClusterName, to: &ClusterName) -> Result<(), Stop> {
        if from == to {
            return Ok(());
        }
        let Ok(Some(copy)) = self.copy(from) else {
            return Ok(());
        };
        let profile = self.profile()?;
        if profile.carries_hold(copy) || !profile.healthy(copy).unwrap_or(false) {
            return Ok(());
        }
        self.tell(lapse(from, to))
    }
}

/// The old copy was said not to write, and does.
pub(super) fn lapse(from: &ClusterName, to: &ClusterName) -> Finding {
    Finding::new(
        "SingleWriterLapse",
        format!("the copy in {from} is seen to run while {to} has the token: it is being held or removed"),
        "find out who vouched for it; what it wrote meanwhile is not in the state of the new copy",
    )
}
