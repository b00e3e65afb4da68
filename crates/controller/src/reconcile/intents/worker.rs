//! One worker an intent: reads it afresh, observes, decides, writes the journal by compare-and-swap, sends the effects.
//! In this order, and no further than what succeeds, whatever the kind.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kube::Resource;
use kube::core::object::{HasSpec, HasStatus};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::Events;
use super::execute::Sent;
use super::failpoints::Failpoint;
use super::kind::{Input, Kind};
use super::wake::WatchedKeys;
use super::{Parts, served};
use cutover_cluster::{Answer, Cluster, Replaced, Served, off_the_runtime};
use cutover_core::api::{self, ClaimOwner, Intent, Progress, STATUS_FORMAT};
use cutover_core::error::{Error, Kind as ErrorKind};
use cutover_core::intent::{Effect, Step, Trouble, driven, rivals};
use cutover_core::report::{self, EventRecord};
use cutover_karmada::name::{Gvk, ObjectKey};

/// How long a worker waits after something failed that may come right by itself.
const TROUBLE: Duration = Duration::from_secs(1);

/// How long a worker waits to hear of what it has sent.
const SETTLE: Duration = Duration::from_millis(25);

/// How long it may take until something is seen that shows late, before it is sent again; then twice as long each time.
const SHOWN: Duration = Duration::from_millis(500);

/// How long a worker waits for the outcome of an effect, where watches report it.
const TOLD: Duration = Duration::from_secs(2);

/// How many look at once. What the others hear while they wait for their turn is one look.
const AT_ONCE: usize = 16;

/// Whoever takes longer waits for something else than the machine, and makes room.
const TURN: Duration = Duration::from_millis(250);

/// A worker that had to wait for its turn rests this many times as long as it took in all, unless there is news: looking more
/// often would make everything slower still.
const REST: u32 = 4;

/// How soon an intent is looked at again whose status this program can't read: another one has to take it on.
const LEFT_ALONE: Duration = Duration::from_mins(1);

/// How many steps are decided from one look, at the most.
const STEPS: usize = 16;

/// How long a look serves for what comes after an effect. It was made before that: another one is fresher.
const YOUNG: Duration = Duration::from_millis(250);

/// What a pass came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The journal was written: look again at once.
    Again,
    /// Look again after this time, or when something changes.
    Requeue(Duration),
    /// Something was sent: what comes of it wakes the worker when it shows.
    Sent,
    /// The machine waits, and asks to look again after this time.
    Waits(Duration),
    /// Nothing to do until something changes.
    Idle,
    /// The intent is gone.
    Gone,
}

/// What was read for a pass.
enum ReadIntent<K: Kind> {
    Gone,
    /// A newer program has written the status, in a format that this one does not know.
    LeftAlone,
    At(Box<Scene<K>>),
}

/// What one look has shown.
struct Scene<K: Kind> {
    /// The intent as it is written back.
    raw: Value,
    intent: K::Intent,
    snapshot: K::Snapshot,
    /// The status as it was written last.
    written: K::Status,
}

/// An intent as it was read.
enum Found<I> {
    Gone,
    Newer(Value, u64),
    Intent(Value, I),
}

/// What became of the effects of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Ends(Pass),
    /// All was sent, and the look serves for the next step.
    GoesOn,
}

/// A step that was decided, and what led to it.
struct Decided<S> {
    step: Step<S>,
    /// The journal that the step was decided on.
    before: S,
    events: Vec<EventRecord>,
}

/// What was sent and has not been seen yet.
struct Late {
    what: String,
    at: Instant,
    /// How long it may take from then on.
    patience: Duration,
}

/// Lets only so many look at once, whatever their kind.
#[derive(Clone, Debug)]
pub(super) struct ConcurrencyLimit(Arc<Semaphore>);

impl Default for ConcurrencyLimit {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl ConcurrencyLimit {
    fn none_is_left(&self) -> bool {
        self.0.available_permits() == 0
    }

    async fn next(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}

pub(super) struct Worker<K: Kind> {
    kind: K,
    parts: Parts,
    events: Events,
    key: ObjectKey,
    /// Why the last effect failed, until one succeeds.
    trouble: Option<Trouble>,
    /// The long wait that people have been told of.
    told_wait: Option<String>,
    /// Why the API server has refused the status, as people have been told.
    told_refusal: Option<String>,
    /// Something was sent since the last look.
    sent: bool,
    /// What was sent and doesn't show at once.
    late: Vec<Late>,
    /// The intent as the API server had it last.
    known: Option<K::Intent>,
    limit: ConcurrencyLimit,
    /// Once cancelled, no write is begun.
    stop: CancellationToken,
}

impl<K: Kind> Worker<K> {
    pub(super) fn new(
        parts: Parts,
        events: Events,
        limit: ConcurrencyLimit,
        key: ObjectKey,
        stop: CancellationToken,
    ) -> Self {
        Self {
            kind: K::default(),
            parts,
            events,
            key,
            trouble: None,
            told_wait: None,
            told_refusal: None,
            sent: false,
            late: Vec::new(),
            known: None,
            limit,
            stop,
        }
    }

    /// Ends when the intent is gone, or on the order to stop.
    pub(super) async fn run(&mut self, watched_keys: &WatchedKeys) {
        self.kind.listen(watched_keys);
        let stop = self.stop.clone();
        let limit = self.limit.clone();
        while !stop.is_cancelled() {
            let begun = Instant::now();
            let crowded = limit.none_is_left();
            let turn = tokio::select! {
                () = stop.cancelled() => return,
                turn = limit.next() => turn,
            };
            watched_keys.take();
            let pass = match within(turn, Box::pin(self.pass(watched_keys))).await {
                Ok(pass) => pass,
                // Somebody else wrote meanwhile, sync for one: that is what the precondition is for.
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    tracing::debug!(intent = %self.key, %error, "a pass was overtaken");
                    self.known = None;
                    Pass::Requeue(SETTLE)
                }
                Err(error) => {
                    tracing::warn!(intent = %self.key, %error, "a pass failed");
                    self.known = None;
                    self.trouble = Some(Trouble {
                        text: error.to_string(),
                        no_canary: false,
                    });
                    Pass::Requeue(TROUBLE)
                }
            };
            let (rest, settles) = match pass {
                Pass::Again => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Pass::Gone => return,
                Pass::Idle => (Duration::MAX, None),
                Pass::Sent if self.late.is_empty() && self.kind.is_told() => (TOLD, Some(SETTLE)),
                Pass::Sent => (SHOWN, Some(SETTLE)),
                Pass::Requeue(after) | Pass::Waits(after) => (after, None),
            };
            let least = if crowded {
                begun.elapsed() * REST
            } else {
                Duration::ZERO
            };
            let settles = settles.map(|settles| Instant::now() + settles.max(least));
            tokio::select! {
                () = stop.cancelled() => return,
                () = Box::pin(self.rest(watched_keys, rest.max(least), settles)) => {}
            }
        }
    }

    /// Rests until a look is due: after some time, or when there are news that are worth one. `settles`: when what was sent may
    /// have come to something that nobody tells of.
    async fn rest(&mut self, watched_keys: &WatchedKeys, rest: Duration, mut settles: Option<Instant>) {
        let due = Instant::now().checked_add(rest);
        loop {
            let news = tokio::select! {
                news = self.news(watched_keys) => news,
                () = at(settles) => {
                    settles = None;
                    BTreeSet::new()
                }
                () = at(due) => return,
            };
            let is_worth_one = tokio::select! {
                is_worth_one = self.is_worth_a_look(&news) => is_worth_one,
                () = at(due) => true,
            };
            if is_worth_one {
                return;
            }
        }
    }

    /// Returns whether the machine would do more than wait if everything is as watches report it. That is only a prediction: what
    /// is done is decided on a full read.
    async fn is_worth_a_look(&mut self, news: &BTreeSet<ObjectKey>) -> bool {
        let Some(known) = &self.known else {
            return true;
        };
        let expected = Box::pin(self.kind.expects(&self.parts, known, news)).await;
        expected.is_none_or(|snapshot| off_the_runtime(|| self.would_act(known, &snapshot)))
    }

    fn would_act(&self, intent: &K::Intent, snapshot: &K::Snapshot) -> bool {
        let status = intent.status().cloned().unwrap_or_default();
        let revision = self.parts.templates.revision();
        let step = K::step(&self.input(intent, &status, revision.as_deref(), snapshot));
        let sends = step
            .effects
            .iter()
            .any(|effect| self.waits_for(&effect.to_string()).is_none());
        sends || !K::only_waits(&status, &step.status)
    }

    /// Ends at the next change that the worker hasn't made itself, or soon after one that can wait. Returns what has changed.
    async fn news(&self, watched_keys: &WatchedKeys) -> BTreeSet<ObjectKey> {
        let mut until: Option<Instant> = None;
        let mut all = BTreeSet::new();
        loop {
            let heard = watched_keys.heard();
            let mut news = watched_keys.take();
            news.retain(|changed| !self.is_echo(changed));
            if !news.is_empty() {
                let patience = self.patience(&news);
                let due = Instant::now() + patience;
                let due = until.map_or(due, |until| until.min(due));
                all.extend(news);
                if patience.is_zero() {
                    return all;
                }
                until = Some(due);
            }
            match until {
                Some(until) => {
                    tokio::select! {
                        () = heard => {}
                        () = tokio::time::sleep_until(until) => return all,
                    }
                }
                None => heard.await,
            }
        }
    }

    fn patience(&self, news: &BTreeSet<ObjectKey>) -> Duration {
        let Some(status) = self.known.as_ref().and_then(HasStatus::status) else {
            return Duration::ZERO;
        };
        let each = news.iter().map(|changed| K::patience(status, changed));
        each.min().unwrap_or_default()
    }

    /// Returns whether a change is the journal that the worker itself has written.
    fn is_echo(&self, changed: &ObjectKey) -> bool {
        let known = self.known.as_ref();
        let written = known.and_then(|known| known.meta().resource_version.as_ref());
        written.is_some() && *changed == self.key && self.parts.observer.version(changed).as_ref() == written
    }

    async fn pass(&mut self, watched_keys: &WatchedKeys) -> Result<Pass, Error> {
        let gvk = Gvk::new(api::API_VERSION, K::Intent::KIND);
        let served = served(&self.parts.cluster, &gvk).await?;
        let stop = self.stop.clone();
        let looked = tokio::select! {
            () = stop.cancelled() => return Ok(Pass::Idle),
            looked = Box::pin(self.look(&served)) => looked?,
        };
        let scene = match looked {
            ReadIntent::Gone => return Ok(Pass::Gone),
            ReadIntent::LeftAlone => return Ok(Pass::Requeue(LEFT_ALONE)),
            ReadIntent::At(scene) => scene,
        };
        let ahead = self.ahead(&scene.raw);
        Box::pin(self.carry_out(watched_keys, &served, *scene, ahead)).await
    }

    /// Decides on a look, writes the journal, sends the effects; and so on, for as long as the look serves.
    async fn carry_out(
        &mut self,
        watched_keys: &WatchedKeys,
        served: &Served,
        mut scene: Scene<K>,
        ahead: Option<ClaimOwner>,
    ) -> Result<Pass, Error> {
        let begun = Instant::now();
        let serves = |rounds: usize| rounds < STEPS && begun.elapsed() < YOUNG;
        let mut events = Vec::new();
        let mut rounds = 0;
        let mut sent = Vec::new();
        let pass = loop {
            rounds += 1;
            let decided = off_the_runtime(|| self.decide(&mut scene.intent, &scene.snapshot, ahead.as_ref()));
            events.extend(decided.events);
            let step = decided.step;
            let thinks_on = step.effects.is_empty() && step.requeue_after == Some(Duration::ZERO);
            if thinks_on && serves(rounds) && !self.stop.is_cancelled() {
                let Scene { intent, snapshot, .. } = &mut scene;
                let completed = tokio::select! {
                    () = self.stop.cancelled() => false,
                    completed = self.kind.completes(&self.parts, &decided.before, intent, snapshot) => completed,
                };
                if completed && serves(rounds) {
                    continue;
                }
            }
            // Whoever is to stop begins no write.
            if self.stop.is_cancelled() {
                break Ok(Pass::Idle);
            }
            let mut needed = K::watched_keys(&scene.intent, &scene.snapshot);
            needed.extend(ahead.as_ref().map(key_of));
            watched_keys.update(&self.key, needed);
            self.tell_of_wait(&scene.intent, &step.status);
            let is_news = self.write_down(served, &mut scene, &step.status).await?;
            if is_news {
                self.tell(std::mem::take(&mut events), &scene.intent);
            }
            let names: Vec<String> = step.effects.iter().map(ToString::to_string).collect();
            // What was sent has changed nothing that the machine looks at: whoever changes that is waited for.
            if !is_news && !names.is_empty() && names == sent {
                break Ok(Pass::Sent);
            }
            sent = names;
            match self.send(&scene.intent, &step, &sent, &mut scene.snapshot).await {
                Ok(Sending::GoesOn) if serves(rounds) => {}
                Ok(Sending::GoesOn) => break Ok(Pass::Again),
                Ok(Sending::Ends(pass)) => break Ok(pass),
                Err(error) => break Err(error),
            }
        };
        let Scene { intent, snapshot, .. } = scene;
        self.kind.keeps(&self.parts, &intent, snapshot);
        let pass = pass.map(|pass| match (pass, intent.status()) {
            (Pass::Waits(asked), Some(status)) => {
                Pass::Requeue(self.kind.rests(status, asked, (self.parts.clock)()))
            }
            (pass, _) => pass,
        });
        self.known = Some(intent);
        pass
    }

    /// Reads the intent and what its machine may look at; both at once, as long as the intent is as it was left.
    async fn look(&mut self, served: &Served) -> Result<ReadIntent<K>, Error> {
        let sent = std::mem::take(&mut self.sent);
        let known = self.known.take();
        let (parts, key) = (self.parts.clone(), self.key.clone());
        let read = read::<K::Intent>(&parts.cluster, served, &key);
        let (read, observed) = match &known {
            Some(known) => {
                let status = known.status().cloned().unwrap_or_default();
                let observing = Box::pin(self.kind.observe(&parts, known, &status, sent));
                let (read, snapshot) = tokio::join!(read, observing);
                (read, Some(snapshot))
            }
            None => (read.await, None),
        };
        let (raw, intent) = match read? {
            Found::Gone => return Ok(ReadIntent::Gone),
            Found::Newer(raw, format) => {
                self.leave_alone(raw, format)?;
                return Ok(ReadIntent::LeftAlone);
            }
            Found::Intent(raw, intent) => (raw, intent),
        };
        let is_known = known.is_some_and(|known| {
            let (known, now) = (known.meta(), intent.meta());
            known.uid == now.uid && known.resource_version == now.resource_version
        });
        let snapshot = match observed.filter(|_| is_known) {
            Some(snapshot) => snapshot,
            None => {
                let status = intent.status().cloned().unwrap_or_default();
                Box::pin(self.kind.observe(&parts, &intent, &status, sent)).await
            }
        };
        let written = intent.status().cloned().unwrap_or_default();
        Ok(ReadIntent::At(Box::new(Scene {
            raw,
            intent,
            snapshot,
            written,
        })))
    }

    /// Says once that nothing is done here, and by whom it is to be gone on with.
    fn leave_alone(&mut self, mut raw: Value, format: u64) -> Result<(), Error> {
        let why = format!(
            "its status has format {format}, and this version of cutover reads formats up to {STATUS_FORMAT}: it is left alone \
             until a version that reads it leads"
        );
        if self.told_wait.as_ref() == Some(&why) {
            return Ok(());
        }
        tracing::error!(intent = %self.key, "{why}");
        if let Value::Object(fields) = &mut raw {
            fields.swap_remove("status");
        }
        let intent: K::Intent = parse(&self.key, &raw)?;
        self.tell(vec![EventRecord::new(true, "StatusTooNew", &why)], &intent);
        self.told_wait = Some(why);
        Ok(())
    }

    /// Returns who goes first with the workload. Asked only of what has not got it: who has it waits for nobody.
    fn ahead(&self, raw: &Value) -> Option<ClaimOwner> {
        let phase = raw.pointer("/status/phase").and_then(Value::as_str);
        let may_ask = rivals::KINDS.contains(&self.key.kind.as_str())
            && (phase.is_none_or(|phase| phase == "Pending") || self.key.kind == "Rollout");
        if !may_ask {
            return None;
        }
        let observer = &self.parts.observer;
        let others: Vec<_> = rivals::KINDS
            .iter()
            .flat_map(|kind| observer.list(api::GROUP, kind))
            .collect();
        rivals::ahead(raw, others.iter().map(|other| &**other))
    }

    /// Decides as far as one look goes, and leaves the intent as it will be. What comes between the first journal and the last
    /// is told of, but not written: nothing was done on it.
    fn decide(
        &self,
        intent: &mut K::Intent,
        snapshot: &K::Snapshot,
        ahead: Option<&ClaimOwner>,
    ) -> Decided<K::Status> {
        let revision = self.parts.templates.revision();
        let mut events = Vec::new();
        let mut steps = 0;
        loop {
            let status = intent.status_mut().take().unwrap_or_default();
            let step = K::step(&Input::<K> {
                ahead,
                ..self.input(intent, &status, revision.as_deref(), snapshot)
            });
            steps += 1;
            let moves = step.status != status;
            let goes_on = moves
                && step.effects.is_empty()
                && step.requeue_after == Some(Duration::ZERO)
                && K::has_seen_enough(&status, &step.status)
                && steps < STEPS
                && !self.stop.is_cancelled();
            if moves && status.phase_name() != step.status.phase_name() {
                tracing::info!(intent = %self.key, phase = step.status.phase_name(), "enters");
            }
            *intent.status_mut() = Some(status);
            if moves {
                events.extend(K::events(intent, &step.status));
            }
            let before = intent
                .status_mut()
                .replace(step.status.clone())
                .unwrap_or_default();
            if !goes_on {
                return Decided { step, before, events };
            }
        }
    }

    async fn send(
        &mut self,
        intent: &K::Intent,
        step: &Step<K::Status>,
        names: &[String],
        snapshot: &mut K::Snapshot,
    ) -> Result<Sending, Error> {
        self.late.retain(|late| names.contains(&late.what));
        let (mut quiet, mut serves) = (true, true);
        for (effect, name) in step.effects.iter().zip(names) {
            if self.waits_for(name).is_some() {
                // Nothing depends on what is only cleared up.
                serves &= matches!(effect, Effect::DeleteCanary { .. });
                continue;
            }
            quiet = false;
            if self.stop.is_cancelled() {
                return Ok(Sending::Ends(Pass::Idle));
            }
            let what = format!("{}: {effect}", step.status.phase_name());
            self.parts
                .failpoints
                .reached(&Failpoint::before(&self.key, &what))
                .await;
            self.sent = true;
            let answer = match K::send(&self.parts, intent, effect).await {
                Ok(Sent::Done) => None,
                Ok(Sent::Wrote(object)) => Some(object),
                Ok(Sent::Later(after)) => {
                    tracing::debug!(intent = %self.key, what, "sent, and not answered yet");
                    return Ok(Sending::Ends(Pass::Requeue(after)));
                }
                Ok(Sent::Stale(why)) => {
                    tracing::debug!(intent = %self.key, what, why, "a precondition failed");
                    return Ok(Sending::Ends(Pass::Requeue(Duration::from_millis(20))));
                }
                Err(error) => {
                    let forbidden = error.kind() == ErrorKind::Auth;
                    self.trouble = Some(Trouble {
                        text: format!("{effect}: {error}"),
                        no_canary: forbidden && matches!(effect, Effect::CreateCanary { .. }),
                    });
                    return Ok(Sending::Ends(Pass::Requeue(TROUBLE)));
                }
            };
            self.trouble = None;
            if effect.shows_late() {
                self.wait_for(name.clone());
            }
            self.parts
                .failpoints
                .reached(&Failpoint::after(&self.key, &what))
                .await;
            tracing::debug!(intent = %self.key, what, "sent");
            serves &= tokio::select! {
                () = self.stop.cancelled() => false,
                serves = self.kind.takes_in(&self.parts, intent, snapshot, effect, answer) => serves,
            };
        }
        Ok(match (quiet, serves) {
            (true, _) => Sending::Ends(Self::after(step)),
            (false, true) => Sending::GoesOn,
            // What was sent wakes the worker when it shows; asking before would only send it again.
            (false, false) => Sending::Ends(Pass::Sent),
        })
    }

    fn after(step: &Step<K::Status>) -> Pass {
        match step.requeue_after {
            Some(Duration::ZERO) => Pass::Again,
            Some(after) => Pass::Waits(after),
            None => Pass::Idle,
        }
    }

    /// Returns what was sent and is waited for until it shows.
    fn waits_for(&self, what: &str) -> Option<&Late> {
        let late = self.late.iter().find(|late| late.what == what)?;
        (late.at.elapsed() < late.patience).then_some(late)
    }

    /// Notes what was sent, perhaps not for the first time.
    fn wait_for(&mut self, what: String) {
        let before = self.late.iter().position(|late| late.what == what);
        let patience = before.map_or(SHOWN, |before| self.late.swap_remove(before).patience * 2);
        self.late.push(Late {
            what,
            at: Instant::now(),
            patience: patience.min(SHOWN * 16),
        });
    }

    fn input<'a>(
        &'a self,
        intent: &'a K::Intent,
        status: &'a K::Status,
        revision: Option<&'a str>,
        snapshot: &'a K::Snapshot,
    ) -> Input<'a, K> {
        let meta = intent.meta();
        Input::<K> {
            uid: meta.uid.as_deref().unwrap_or_default(),
            namespace: self.key.namespace.as_deref(),
            name: &self.key.name,
            generation: meta.generation.unwrap_or_default(),
            revision,
            deleting: meta.deletion_timestamp.is_some(),
            overtaken: driven::why_overtaken(meta.annotations.as_ref()),
            has_finalizer: meta
                .finalizers
                .iter()
                .flatten()
                .any(|name| name == api::INTENT_FINALIZER),
            spec: intent.spec(),
            status,
            trouble: self.trouble.as_ref(),
            ahead: None,
            snapshot,
            now: (self.parts.clock)(),
        }
    }

    fn tell(&self, events: Vec<EventRecord>, intent: &K::Intent) {
        let now = (self.parts.clock)();
        for events in events {
            self.events.tell(intent, events, now);
        }
    }

    /// Tells once of a status that the API server refuses: nothing is done until it takes it.
    fn tell_of_refusal(&mut self, intent: &K::Intent, error: &Error) {
        let why = format!(
            "nothing is done: its status is refused; where the CRDs of the control plane are older than this version of cutover, run \
             cutover init --cluster ({error})"
        );
        if error.kind() == ErrorKind::User && self.told_refusal.as_ref() != Some(&why) {
            self.tell(vec![EventRecord::new(true, "StatusRefused", &why)], intent);
            self.told_refusal = Some(why);
        }
    }

    /// Tells of a wait that is long, once.
    fn tell_of_wait(&mut self, intent: &K::Intent, status: &K::Status) {
        let reason = status.waiting_for().map(|wait| wait.reason.clone());
        if reason == self.told_wait {
            return;
        }
        let long = report::long_wait(status, (self.parts.clock)());
        self.told_wait = long.is_some().then_some(reason).flatten();
        self.tell(long.into_iter().collect(), intent);
    }

    /// Writes the status down if it differs from what was written last. Returns whether it did.
    async fn write_down(
        &mut self,
        served: &Served,
        scene: &mut Scene<K>,
        status: &K::Status,
    ) -> Result<bool, Error> {
        if *status == scene.written {
            return Ok(false);
        }
        let mut status = status.clone();
        status.note_format();
        let journaled = self.journal(served, &scene.raw, &status).await;
        if let Err(error) = &journaled {
            self.tell_of_refusal(&scene.intent, error);
        }
        let version = journaled?;
        self.told_refusal = None;
        scene.raw["metadata"]["resourceVersion"] = version.as_str().into();
        scene.intent.meta_mut().resource_version = Some(version);
        *scene.intent.status_mut() = Some(status.clone());
        let before = std::mem::replace(&mut scene.written, status);
        let telemetry = &self.parts.telemetry;
        telemetry.progressed(&self.key.kind, &before, &scene.written);
        Ok(true)
    }

    /// Writes the journal by compare-and-swap: of two controllers, one fails here and sends nothing. Returns its version.
    async fn journal(&self, served: &Served, raw: &Value, status: &K::Status) -> Result<String, Error> {
        let what = format!("{}: journal", status.phase_name());
        self.parts
            .failpoints
            .reached(&Failpoint::before(&self.key, &what))
            .await;
        let writer = self.parts.cluster.writer(api::INTENT_MANAGER);
        let folded = match status.folded() {
            Some(folded) => match writer.replace_status(served, raw, &folded).await {
                // CRDs that are older than this program do not know that form.
                Err(error) if matches!(error.code(), 400 | 422) => {
                    tracing::warn!(intent = %self.key, %error, "the end is stored in the form of earlier versions");
                    None
                }
                folded => Some(folded?),
            },
            None => None,
        };
        let replaced = match folded {
            Some(replaced) => replaced,
            None => writer.replace_status(served, raw, status).await?,
        };
        let version = match replaced {
            Replaced::Done(version) => version,
            Replaced::Precondition(why) => return Err(Error::new(ErrorKind::Conflict, why)),
        };
        self.parts
            .failpoints
            .reached(&Failpoint::after(&self.key, &what))
            .await;
        Ok(version)
    }
}

/// Reads an intent: as it is, to be written back, and as what it is.
async fn read<I: DeserializeOwned>(
    cluster: &Cluster,
    served: &Served,
    key: &ObjectKey,
) -> Result<Found<I>, Error> {
    let reader = cluster.reader();
    let mut raw = match reader
        .get(served, key.namespace.as_deref(), &key.name)
        .await
        .answer
    {
        Answer::Found(raw) => raw,
        Answer::NotFound => return Ok(Found::Gone),
        Answer::Unknown { why } => return Err(Error::new(ErrorKind::Unreachable, why)),
    };
    // Who wrote which field is the API server's to note, also when it isn't told what it has noted.
    if let Some(Value::Object(metadata)) = raw.get_mut("metadata") {
        metadata.swap_remove("managedFields");
    }
    let format = raw.pointer("/status/format").and_then(Value::as_u64);
    if let Some(format) = format.filter(|format| *format > u64::from(STATUS_FORMAT)) {
        return Ok(Found::Newer(raw, format));
    }
    let intent = parse(key, &raw)?;
    Ok(Found::Intent(raw, intent))
}

fn parse<I: DeserializeOwned>(key: &ObjectKey, raw: &Value) -> Result<I, Error> {
    I::deserialize(raw).map_err(|error| Error::user(format!("{key} cannot be read: {error}")))
}

fn key_of(owner: &ClaimOwner) -> ObjectKey {
    ObjectKey {
        group: api::GROUP.to_owned(),
        kind: owner.kind.clone(),
        namespace: Some(owner.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: owner.name.clone(),
    }
}

/// Goes through with a pass; the turn ends before it if it takes long.
async fn within<T>(turn: Option<OwnedSemaphorePermit>, pass: impl Future<Output = T> + Unpin) -> T {
    let mut pass = pass;
    tokio::select! {
        passed = &mut pass => passed,
        () = tokio::time::sleep(TURN) => {
            drop(turn);
            pass.await
        }
    }
}

/// Ends at a time; never without one.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for its turn, and returns when it had it.
    async fn turn(limit: ConcurrencyLimit, begun: Instant, takes: Duration) -> Duration {
        let turn = limit.next().await;
        let had = begun.elapsed();
        within(turn, Box::pin(tokio::time::sleep(takes))).await;
        had
    }

    #[tokio::test(start_paused = true)]
    async fn those_beyond_so_many_wait_for_their_turn_and_not_for_one_that_hangs() {
        let (limit, begun) = (ConcurrencyLimit::default(), Instant::now());
        let brief = Duration::from_millis(40);
        let hangs: Vec<_> = (0..AT_ONCE)
            .map(|_| tokio::spawn(turn(limit.clone(), begun, Duration::from_mins(1))))
            .collect();
        tokio::task::yield_now().await;
        assert!(limit.none_is_left());
        let rest: Vec<_> = (0..2 * AT_ONCE)
            .map(|_| tokio::spawn(turn(limit.clone(), begun, brief)))
            .collect();
        let rest = futures::future::join_all(rest).await;
        let waited: Vec<Duration> = rest.into_iter().map(Result::unwrap).collect();
        let (first, last) = waited.split_at(AT_ONCE);
        assert!(first.iter().all(|waited| *waited == TURN), "{first:?}");
        assert!(last.iter().all(|waited| *waited == TURN + brief), "{last:?}");
        assert!(!limit.none_is_left());
        hangs.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
