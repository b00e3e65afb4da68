//! The frame of every operation. What all kinds do alike in a pass stands here, once: what an outcome does to the status, how long
//! it is until the next look, what is written before it is sent, what comes after the end, and which conditions say how it
//! stands. A kind brings its data and one function from a pass to what comes next: see [`Kind`].

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::custody::Due;
use super::effect::Effect;
use super::proof::NotProved;
use super::seen::NotKnown;
use super::warnings::{self, Warned};
use super::{Input, Step, Trouble};
use crate::api::{Finding, Lifecycle, Offer, Opening, Progress, SecretHandles, WaitCode, Window};
use crate::profile;
use cutover_karmada::name::ClusterName;

/// A time that comes is waited for at least as long, because clocks are coarse.
pub(super) const BRIEF: Duration = Duration::from_millis(10);

/// What the operations of one kind have of their own.
pub(super) trait Kind: Sized {
    type Spec;
    type Status: Progress;
    /// What one pass sees.
    type Snapshot;
    /// What one pass collects and the status does not keep.
    type Scratch: Default;
    /// What only this kind knows that keeps a pass from going on.
    type Own;

    /// How soon the next look is, as long as nothing says otherwise.
    const SOON: Duration = Duration::from_millis(500);

    /// After the end, what can't be read is not swept: whatever is left is of no use to anybody. Else it is waited for.
    const SWEEPS_WHAT_IT_SEES: bool = true;

    /// Looks for the first goal of the phase that isn't met, and returns what brings it nearer. A pass after a crash does the
    /// same as a pass before it.
    fn pass(operation: &mut Operation<'_, Self>) -> Outcome<Self>;

    /// Returns whether a phase needs approval that it doesn't have; asks for it.
    fn is_gated(_operation: &mut Operation<'_, Self>, _phase: PhaseOf<Self>) -> bool {
        false
    }

    /// Notes what the journal must say before the first effect of the phase that has just begun.
    fn entered(_operation: &mut Operation<'_, Self>) {}

    /// Notes what holds no more now that the attempt has ended.
    fn ended(_operation: &mut Operation<'_, Self>) {}

    /// Nothing is to be done in this phase as things are.
    fn rest(_operation: &mut Operation<'_, Self>) {}

    /// Something is wrong that does not come right by itself.
    fn fail(operation: &mut Operation<'_, Self>, findings: Vec<Finding>) {
        operation.wait_for_fix(findings);
    }

    /// Does what an interrupt of the kind's own asks for.
    fn interrupted(operation: &mut Operation<'_, Self>, own: Self::Own);

    /// Returns why an expression of the profile that can't be evaluated keeps a pass from going on.
    fn unevaluable(error: &profile::Error) -> Interrupt<Self> {
        Interrupt::Wait(format!("{error}: fix the WorkloadProfile"))
    }

    /// Returns what comes of a journal that was removed from the status.
    fn without_journal() -> Interrupt<Self> {
        Interrupt::Wait("the journal is missing from the status".to_owned())
    }

    fn is_paused(_operation: &Operation<'_, Self>) -> bool {
        false
    }

    /// Returns when a wait ends whatever is observed, and what happens then.
    fn limit(_operation: &Operation<'_, Self>) -> Option<(Timestamp, &'static str)> {
        None
    }

    /// Returns how soon the next look is in a wait. A change wakes the operation; this is for what no watch reports.
    fn pace(_operation: &Operation<'_, Self>, _wait: &Wait) -> Duration {
        Self::SOON
    }

    /// Returns what a person can say for what can't be seen, as the reason of a wait offers it.
    fn offers(_operation: &Operation<'_, Self>, _reason: &str) -> Vec<Offer> {
        Vec::new()
    }

    /// Returns what a member warns of about the copy that is waited for: for people alone.
    fn last_warning(_operation: &Operation<'_, Self>) -> Option<String> {
        None
    }

    /// Removes, after the end, what was sent late by a replica that stood still while another one brought the operation there.
    fn sweep(_operation: &mut Operation<'_, Self>) -> Result<(), Interrupt<Self>> {
        Ok(())
    }

    /// Returns whether the spec of an operation that has ended asks for something else: a new attempt begins.
    fn begins_again(_operation: &Operation<'_, Self>) -> bool {
        false
    }

    /// Returns whether an operation that has ended keeps its finalizer, because it left something on purpose.
    fn stays(_operation: &Operation<'_, Self>) -> bool {
        false
    }

    /// Returns what a new attempt still knows of the one before, beside its number.
    fn renewed(_before: &mut Self::Status) -> Self::Status {
        Self::Status::default()
    }

    /// Returns whether the status is about the present spec now.
    fn observes(_operation: &Operation<'_, Self>) -> bool {
        true
    }

    /// Returns the values of secret handles that the journal has: no text of the status may have them.
    fn secrets<'o>(_operation: &'o Operation<'_, Self>) -> Option<&'o SecretHandles> {
        None
    }

    /// Completes the status before it is written, and says in the conditions how it stands.
    fn close(operation: &mut Operation<'_, Self>);
}

/// Where the operations of a kind can stand.
pub(super) type PhaseOf<K> = <<K as Kind>::Status as Progress>::Phase;

/// What the operations of a kind remember.
type JournalOf<K> = <<K as Kind>::Status as Progress>::Journal;

/// An operation as it was read, and what one pass saw.
pub(super) type InputOf<'a, K> = Input<'a, <K as Kind>::Spec, <K as Kind>::Status, <K as Kind>::Snapshot>;

/// What a pass comes to.
pub(super) type Outcome<K> = Result<Next<PhaseOf<K>>, Interrupt<K>>;

/// What comes next when all goals of a phase are met.
pub(super) enum Next<Phase> {
    /// Another phase, and what was observed that let this one end.
    Enter(Phase, Vec<String>),
    /// The journal has changed: it is written, then the next pass looks again.
    Requeue,
    /// Nothing, until something changes.
    Rest,
}

/// Why a pass goes no further.
pub(super) enum Interrupt<K: Kind> {
    /// Something is sent; its effect is seen in a later pass.
    Act(Vec<Effect>),
    /// What the next step needs has not been observed.
    Wait(String),
    WaitFor(Wait),
    /// The journal has changed: it is written, then the next pass looks again.
    Requeue,
    /// Something is wrong that does not come right by itself.
    Fail(Vec<Finding>),
    Own(K::Own),
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    pub code: WaitCode,
    pub reason: String,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// What happens then.
    pub then: Option<&'static str>,
}

impl Wait {
    pub(super) const fn new(code: WaitCode, reason: String) -> Self {
        Self {
            code,
            reason,
            until: None,
            then: None,
        }
    }

    pub(super) const fn evidence(reason: String) -> Self {
        Self::new(WaitCode::Evidence, reason)
    }

    /// The wait ends at that time, if it comes to one.
    pub(super) const fn until(mut self, until: Option<Timestamp>) -> Self {
        self.until = until;
        self
    }

    pub(super) const fn then(mut self, then: &'static str) -> Self {
        self.then = Some(then);
        self
    }
}

impl<K: Kind> Interrupt<K> {
    pub(super) fn wait_for(code: WaitCode, reason: impl Into<String>) -> Self {
        Self::WaitFor(Wait::new(code, reason.into()))
    }

    /// Nothing happens before that time.
    pub(super) const fn wait_until(reason: String, until: Timestamp, then: &'static str) -> Self {
        Self::WaitFor(Wait::evidence(reason).until(Some(until)).then(then))
    }
}

impl<K: Kind> From<NotKnown> for Interrupt<K> {
    fn from(unknown: NotKnown) -> Self {
        Self::Wait(unknown.0)
    }
}

impl<K: Kind> From<NotProved> for Interrupt<K> {
    fn from(why: NotProved) -> Self {
        Self::Wait(why.to_string())
    }
}

impl<K: Kind> From<Due> for Interrupt<K> {
    fn from(due: Due) -> Self {
        match due {
            Due::Act(effects) => Self::Act(effects),
            Due::Wait(reason) => Self::Wait(reason),
            Due::Again => Self::Requeue,
        }
    }
}

impl<K: Kind> From<profile::Error> for Interrupt<K> {
    fn from(error: profile::Error) -> Self {
        K::unevaluable(&error)
    }
}

/// One pass of an operation: what was read, and the status as it becomes.
pub(super) struct Operation<'a, K: Kind> {
    pub(super) input: &'a InputOf<'a, K>,
    pub(super) status: K::Status,
    /// What is sent as well, without being waited for.
    pub(super) background: Vec<Effect>,
    pub(super) scratch: K::Scratch,
    /// When the next look is if nothing is heard before; `None`: only when something changes.
    pub(super) requeue_after: Option<Duration>,
}

/// Decides what one pass does.
pub(super) fn step<K: Kind>(input: &InputOf<'_, K>) -> Step<K::Status> {
    let mut operation = Operation::<K>::of(input);
    let mut effects = if operation.status.phase().is_final() {
        operation.after_the_end()
    } else {
        let outcome = K::pass(&mut operation);
        operation.apply(outcome)
    };
    if operation.requeue_after != Some(Duration::ZERO) {
        effects.append(&mut operation.background);
    }
    operation.note_pass(&effects);
    Step {
        status: operation.status,
        effects,
        requeue_after: operation.requeue_after,
    }
}

impl<'a, K: Kind> Operation<'a, K> {
    /// Returns a pass that has done nothing yet.
    pub(super) fn of(input: &'a InputOf<'a, K>) -> Self {
        Self {
            input,
            status: input.status.clone(),
            background: Vec::new(),
            scratch: K::Scratch::default(),
            requeue_after: Some(K::SOON),
        }
    }

    fn apply(&mut self, outcome: Outcome<K>) -> Vec<Effect> {
        match outcome {
            Ok(Next::Enter(phase, evidence)) => {
                if !K::is_gated(self, phase) {
                    self.enter(phase, evidence);
                }
            }
            Ok(Next::Requeue) | Err(Interrupt::Requeue) => self.requeue_after = Some(Duration::ZERO),
            Ok(Next::Rest) => K::rest(self),
            Err(Interrupt::Act(effects)) => {
                match self.input.trouble {
                    Some(trouble) => self.wait(Wait::new(WaitCode::Retry, retry(trouble))),
                    None => self.status.common_mut().waiting_for = None,
                }
                return effects;
            }
            Err(Interrupt::Wait(reason)) => self.wait(Wait::evidence(reason)),
            Err(Interrupt::WaitFor(wait)) => self.wait(wait),
            Err(Interrupt::Fail(findings)) => K::fail(self, findings),
            Err(Interrupt::Own(own)) => K::interrupted(self, own),
        }
        Vec::new()
    }

    /// Says what is waited for, since when and until when, and when the next look is.
    pub(super) fn wait(&mut self, mut wait: Wait) {
        if wait.code == WaitCode::Evidence && K::is_paused(self) {
            wait.code = WaitCode::Pause;
        }
        // Before it is compared with what was waited for: a wait that is said in other words begins again.
        wait.reason = self.without_secrets(wait.reason);
        let offers = K::offers(self, &wait.reason);
        let last_warning = match wait.code {
            WaitCode::Evidence => K::last_warning(self),
            _ => None,
        };
        let last_warning = last_warning.map(|warning| self.without_secrets(warning));
        let ends = match wait.until {
            Some(until) => Some((until, wait.then)),
            None => K::limit(self).map(|(until, then)| (until, Some(then))),
        };
        let now = self.input.now;
        let common = self.status.common_mut();
        common.wait(wait.code, wait.reason.clone(), now);
        if let Some(waiting) = &mut common.waiting_for {
            waiting.offers = offers;
            waiting.last_warning = last_warning;
            waiting.until = ends.map(|(until, _)| until);
            waiting.then = ends.and_then(|(_, then)| then.map(str::to_owned));
        }
        if self.requeue_after == Some(K::SOON) || wait.until.is_some() {
            self.requeue_after = Some(K::pace(self, &wait));
        }
        if let Some((until, _)) = ends {
            let left = self.left(until);
            self.requeue_after = self.requeue_after.map(|soon| soon.min(left));
        }
    }

    /// Returns what others say, without the values of secret handles.
    pub(super) fn without_secrets(&self, said: String) -> String {
        match K::secrets(self) {
            Some(secrets) if !secrets.is_empty() => secrets.hidden(&said),
            _ => said,
        }
    }

    /// Returns the last warning about the copy in a cluster: see [`warnings::newest`].
    pub(super) fn newest_warning(&self, cluster: &ClusterName, warned: Option<&Warned>) -> Option<String> {
        let before = self.input.status.waiting_for();
        warnings::newest(cluster, warned, before, |said| self.without_secrets(said))
    }

    /// Says what is wrong, and waits until it is so no more.
    pub(super) fn wait_for_fix(&mut self, findings: Vec<Finding>) {
        let reason = messages(&findings);
        self.status.common_mut().findings = findings;
        self.wait(Wait::evidence(reason));
    }

    /// Returns a tenth of the time that the present wait has taken, so that what takes long is looked at seldom; but no longer than
    /// `seldom` while nothing is under way or a person is waited for, else no longer than `later`.
    pub(super) fn patience(&self, wait: &Wait, later: Duration, seldom: Duration) -> Duration {
        let is_idle = wait.code.is_for_a_person() || self.status.journal().is_none();
        let longest = if is_idle { seldom } else { later };
        (self.waited() / 10).clamp(K::SOON, longest)
    }

    /// Returns how long the present wait has taken.
    pub(super) fn waited(&self) -> Duration {
        let waiting = self.status.waiting_for();
        let age = waiting.map(|wait| self.input.now.duration_since(wait.since));
        age.and_then(|age| Duration::try_from(age).ok())
            .unwrap_or_default()
    }

    /// Returns since when the last passes have waited for the same; `None`: for something else, or for nothing.
    pub(super) fn waits_since(&self, reason: &str) -> Option<Timestamp> {
        // As it stands in the status.
        let reason = self.without_secrets(reason.to_owned());
        let waits = self.status.waiting_for().filter(|wait| wait.reason == reason)?;
        Some(waits.since)
    }

    /// Returns whether the last passes have waited for the same, for so long.
    pub(super) fn has_waited(&self, reason: &str, limit: SignedDuration) -> bool {
        let since = self.waits_since(reason);
        since.is_some_and(|since| self.input.now.duration_since(since) >= limit)
    }

    /// Waits for a window to open, which does not close on what has begun. `ended`: what comes of one that does not open again.
    pub(super) fn wait_for_window(
        &self,
        window: Option<&Window>,
        ended: impl FnOnce(String) -> Interrupt<K>,
    ) -> Result<(), Interrupt<K>> {
        let Some(window) = window else { return Ok(()) };
        match window.at(self.input.now) {
            Opening::Open => Ok(()),
            Opening::At(opens) => {
                let reason = format!("its time window to open at {opens}: it begins {window}");
                Err(Interrupt::wait_until(reason, opens, "begin"))
            }
            Opening::Never => Err(ended(format!("its time window has ended: it begins {window}"))),
        }
    }

    /// Returns how long it is until a time comes.
    pub(super) fn left(&self, until: Timestamp) -> Duration {
        let left = Duration::try_from(until.duration_since(self.input.now)).unwrap_or_default();
        left.max(BRIEF)
    }

    /// Returns whether no pass has seen the present spec.
    pub(super) fn is_unseen(&self) -> bool {
        self.status.common().observed_generation != self.input.generation
    }

    /// Enters a phase, with what was observed that let the one before end.
    pub(super) fn enter(&mut self, phase: PhaseOf<K>, evidence: Vec<String>) {
        let now = self.input.now;
        self.status.set_phase(phase);
        self.status.common_mut().enter(phase.name(), evidence, now);
        self.requeue_after = Some(Duration::ZERO);
        K::entered(self);
    }

    /// Ends the attempt in a phase, with what was observed or decided.
    pub(super) fn end(&mut self, phase: PhaseOf<K>, evidence: Vec<String>) {
        let now = self.input.now;
        self.status.set_phase(phase);
        self.status.common_mut().end(evidence, now);
        self.requeue_after = Some(Duration::ZERO);
        K::ended(self);
    }

    /// Ends the attempt because of findings.
    pub(super) fn end_failed(&mut self, phase: PhaseOf<K>, findings: Vec<Finding>) {
        let evidence = findings.iter().map(|finding| finding.message.clone()).collect();
        self.status.common_mut().findings = findings;
        self.end(phase, evidence);
    }

    /// Ends an operation that was deleted before it wrote anything.
    pub(super) fn end_untouched(&mut self, phase: PhaseOf<K>) -> Interrupt<K> {
        self.end(phase, vec!["deleted before anything was touched".to_owned()]);
        Interrupt::Requeue
    }

    /// Nothing more is done; a spec that asks for something else is a new attempt.
    fn after_the_end(&mut self) -> Vec<Effect> {
        self.requeue_after = None;
        match K::sweep(self) {
            Ok(()) => {}
            Err(Interrupt::Act(effects)) => return self.tidy_up(effects),
            Err(_) if K::SWEEPS_WHAT_IT_SEES => {}
            Err(interrupt) => return self.apply(Err(interrupt)),
        }
        if !self.input.deleting && K::begins_again(self) {
            let attempt = self.status.common().attempt;
            self.status = K::renewed(&mut self.status);
            self.status.common_mut().attempt = attempt;
            self.requeue_after = Some(Duration::ZERO);
            return Vec::new();
        }
        let lets_go = self.input.has_finalizer && !K::stays(self);
        self.tidy_up(lets_go.then_some(Effect::RemoveFinalizer).into_iter().collect())
    }

    /// Says what fails after the end, as long as it does.
    fn tidy_up(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let retried = self.input.trouble.filter(|_| !effects.is_empty()).map(retry);
        let (common, now) = (self.status.common_mut(), self.input.now);
        match retried {
            Some(reason) => common.wait(WaitCode::Retry, reason, now),
            None => common.waiting_for = None,
        }
        effects
    }

    /// What is about to be sent stands in the journal first.
    fn note_pass(&mut self, effects: &[Effect]) {
        let is_final = self.status.phase().is_final();
        if let Some(planned) = self.status.planned_mut() {
            let effects = effects.iter().filter(|_| !is_final);
            *planned = effects.map(ToString::to_string).collect();
        }
        if K::observes(self) {
            self.status.common_mut().observed_generation = self.input.generation;
        }
        K::close(self);
    }

    /// Says in the conditions how it stands. `own`: those that are particular to the kind.
    pub(super) fn say(&mut self, own: &[(&str, bool)]) {
        let (standing, phase, now) = (self.status.standing(), self.status.phase(), self.input.now);
        self.status.common_mut().say(standing, phase.name(), own, now);
    }

    pub(super) fn snapshot(&self) -> &'a K::Snapshot {
        self.input.snapshot
    }

    pub(super) fn journal(&self) -> Result<&JournalOf<K>, Interrupt<K>> {
        self.status.journal().ok_or_else(K::without_journal)
    }

    pub(super) fn journal_mut(&mut self) -> Result<&mut JournalOf<K>, Interrupt<K>> {
        self.status.journal_mut().ok_or_else(K::without_journal)
    }
}

/// Returns the failure of an operation that can't go on without its journal.
pub(super) fn journal_lost<K: Kind>() -> Interrupt<K> {
    Interrupt::Fail(vec![Finding::new(
        "JournalLost",
        "the journal is gone from the status",
        "restore the status, or delete the intent and look at the workload by hand",
    )])
}

/// Returns the failure of an operation whose window ended before it began.
pub(super) fn window_ended<K: Kind>(message: String) -> Interrupt<K> {
    Interrupt::Fail(vec![Finding::new("WindowOver", message, "fix spec.window")])
}

/// Says why something is sent again.
fn retry(trouble: &Trouble) -> String {
    let hint = if trouble.no_canary {
        "; cutover needs a probe (the canary) to see when the scheduler has finished: allow it (docs/how-to/operate.md#rbac), or install \
         the admission fence (docs/how-to/operate.md#admission-fence)"
    } else {
        ""
    };
    format!("trying again: {}{hint}", trouble.text)
}

/// Joins what findings say.
pub(super) fn messages(findings: &[Finding]) -> String {
    let messages: Vec<_> = findings.iter().map(|finding| finding.message.as_str()).collect();
    messages.join("; ")
}
