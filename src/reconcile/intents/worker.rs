//! One worker an intent: reads it afresh, observes, decides, writes the journal by compare-and-swap, sends the effects.
//! In this order, and no further than what succeeds, whatever the kind.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Resource;
use kube::core::object::{HasSpec, HasStatus};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::Events;
use super::execute::Sent;
use super::kind::{self, Input, Kind};
use super::wake::Interest;
use super::witness::Point;
use super::{Parts, served};
use crate::api::{self, Progress};
use crate::cluster::{Answer, Served, Written};
use crate::error::{Error, Kind as ErrorKind};
use crate::intent::{Effect, Step, Trouble};
use crate::name::{Gvk, ObjectKey};
use crate::report::{self, Told};

/// How long a worker waits after something failed that may come right by itself.
const TROUBLE: Duration = Duration::from_secs(1);

/// How long a worker waits to hear of what it has sent.
const SETTLE: Duration = Duration::from_millis(25);

/// How long it may take until something is seen that shows late, before it is sent again.
const SHOWN: Duration = Duration::from_millis(500);

/// How many steps are decided from one look, at the most.
const STEPS: usize = 16;

/// What a pass came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// The journal was written: look again at once.
    Again,
    /// Look again after this time, or when something changes.
    Recheck(Duration),
    /// Nothing to do until something changes.
    Idle,
    /// The intent is gone.
    Gone,
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
    /// Something was sent since the last look.
    sent: bool,
    /// What was sent lately and doesn't show at once.
    late: Vec<(String, Instant)>,
    /// The intent as the API server had it last.
    known: Option<K::Intent>,
    /// Once cancelled, no write is begun.
    stop: CancellationToken,
}

impl<K: Kind> Worker<K> {
    pub(super) fn new(parts: Parts, events: Events, key: ObjectKey, stop: CancellationToken) -> Self {
        Self {
            kind: K::default(),
            parts,
            events,
            key,
            trouble: None,
            told_wait: None,
            sent: false,
            late: Vec::new(),
            known: None,
            stop,
        }
    }

    /// Ends when the intent is gone, or on the order to stop.
    pub(super) async fn run(&mut self, interest: &Interest) {
        let stop = self.stop.clone();
        while !stop.is_cancelled() {
            interest.take();
            let pass = match Box::pin(self.pass(interest)).await {
                Ok(pass) => pass,
                Err(error) => {
                    tracing::warn!(intent = %self.key, %error, "a pass failed");
                    self.known = None;
                    self.trouble = Some(Trouble {
                        text: error.to_string(),
                        no_canary: false,
                    });
                    Pass::Recheck(TROUBLE)
                }
            };
            let rest = match pass {
                Pass::Again => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Pass::Gone => return,
                Pass::Idle => Duration::MAX,
                Pass::Recheck(after) => after,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.news(interest) => {}
                () = tokio::time::sleep(rest) => {}
            }
        }
    }

    /// Ends at the next change that the worker hasn't made itself by writing its journal.
    async fn news(&self, interest: &Interest) {
        loop {
            let heard = interest.heard();
            let news = interest.take();
            if !news.is_empty() && !self.is_echo(&news) {
                return;
            }
            heard.await;
        }
    }

    fn is_echo(&self, news: &BTreeSet<ObjectKey>) -> bool {
        let known = self
            .known
            .as_ref()
            .and_then(|known| known.meta().resource_version.as_ref());
        known.is_some()
            && news.iter().eq([&self.key])
            && self.parts.observer.version(&self.key).as_ref() == known
    }

    async fn pass(&mut self, interest: &Interest) -> Result<Pass, Error> {
        let gvk = Gvk::new(api::API_VERSION, &kind::name::<K>());
        let served = served(&self.parts.cluster, &gvk).await?;
        let stop = self.stop.clone();
        let looked = tokio::select! {
            () = stop.cancelled() => return Ok(Pass::Idle),
            looked = Box::pin(self.look(&served)) => looked?,
        };
        let Some((raw, mut intent, world)) = looked else {
            return Ok(Pass::Gone);
        };
        let before = intent.status().cloned().unwrap_or_default();
        let (step, told) = self.decide(&mut intent, &world);
        interest.update(&self.key, K::interest(&intent, &world));
        self.tell_of_wait(&intent, &step.status);
        if step.status != before {
            let written = self.journal(&served, raw, &step.status).await?;
            intent.meta_mut().resource_version = Some(written);
            self.tell(told, &intent);
        }
        self.known = Some(intent.clone());
        self.send(&intent, &step).await
    }

    /// Reads the intent and what its machine may look at; both at once, as long as the intent is as it was left. `None`: the
    /// intent is gone.
    async fn look(&mut self, served: &Served) -> Result<Option<(Value, K::Intent, K::World)>, Error> {
        let sent = std::mem::take(&mut self.sent);
        let known = self.known.take();
        let (parts, key) = (self.parts.clone(), self.key.clone());
        let reader = parts.cluster.reader();
        let read = reader.get(served, key.namespace.as_deref(), &key.name);
        let (read, observed) = match &known {
            Some(known) => {
                let status = known.status().cloned().unwrap_or_default();
                let observing = Box::pin(self.kind.observe(&parts, known, &status, sent));
                let (read, world) = tokio::join!(read, observing);
                (read, Some(world))
            }
            None => (read.await, None),
        };
        let raw = match read.answer {
            Answer::Found(raw) => raw,
            Answer::NotFound => return Ok(None),
            Answer::Unknown { why } => return Err(Error::new(ErrorKind::Unreachable, why)),
        };
        let intent = K::Intent::deserialize(&raw)
            .map_err(|error| Error::user(format!("{key} cannot be read: {error}")))?;
        let is_known = known.is_some_and(|known| {
            let (known, now) = (known.meta(), intent.meta());
            known.uid == now.uid && known.resource_version == now.resource_version
        });
        let world = match observed.filter(|_| is_known) {
            Some(world) => world,
            None => {
                let status = intent.status().cloned().unwrap_or_default();
                Box::pin(self.kind.observe(&parts, &intent, &status, sent)).await
            }
        };
        Ok(Some((raw, intent, world)))
    }

    /// Decides as far as one look goes, and leaves the intent as it will be. What comes between the first journal and the last
    /// is told of, but not written: nothing was done on it.
    fn decide(&self, intent: &mut K::Intent, world: &K::World) -> (Step<K::Status>, Vec<Told>) {
        let revision = self.parts.templates.revision();
        let mut told = Vec::new();
        let mut steps = 0;
        loop {
            let status = intent.status().cloned().unwrap_or_default();
            let step = K::step(&self.input(intent, &status, revision.as_deref(), world));
            steps += 1;
            let moves = step.status != status;
            let goes_on = moves
                && step.effects.is_empty()
                && step.recheck == Some(Duration::ZERO)
                && K::has_seen_enough(&status, &step.status)
                && steps < STEPS;
            if moves {
                told.extend(K::told(intent, &step.status));
                if status.phase_name() != step.status.phase_name() {
                    tracing::info!(intent = %self.key, phase = step.status.phase_name(), "enters");
                }
                *intent.status_mut() = Some(step.status.clone());
            }
            if !goes_on {
                return (step, told);
            }
        }
    }

    async fn send(&mut self, intent: &K::Intent, step: &Step<K::Status>) -> Result<Pass, Error> {
        self.late.retain(|(_, at)| at.elapsed() < SHOWN);
        let mut quiet = true;
        for effect in &step.effects {
            let name = effect.to_string();
            if self.late.iter().any(|(late, _)| *late == name) {
                continue;
            }
            quiet = false;
            if self.stop.is_cancelled() {
                return Ok(Pass::Idle);
            }
            let what = format!("{}: {effect}", step.status.phase_name());
            self.parts.witness.reached(&Point::before(&self.key, &what)).await;
            self.sent = true;
            match K::send(&self.parts, intent, effect).await {
                Ok(Sent::Done) => {
                    self.trouble = None;
                    if effect.shows_late() {
                        self.late.push((name, Instant::now()));
                    }
                }
                Ok(Sent::Stale(why)) => {
                    tracing::debug!(intent = %self.key, what, why, "a precondition failed");
                    return Ok(Pass::Recheck(Duration::from_millis(20)));
                }
                Err(error) => {
                    let forbidden = error.kind() == ErrorKind::Auth;
                    self.trouble = Some(Trouble {
                        text: format!("{effect}: {error}"),
                        no_canary: forbidden && matches!(effect, Effect::CreateCanary { .. }),
                    });
                    return Ok(Pass::Recheck(TROUBLE));
                }
            }
            self.parts.witness.reached(&Point::after(&self.key, &what)).await;
            tracing::debug!(intent = %self.key, what, "sent");
        }
        Ok(if quiet {
            after(step.recheck)
        } else {
            // What was sent wakes the worker when it shows; asking before would only send it again.
            Pass::Recheck(SETTLE)
        })
    }

    fn input<'a>(
        &'a self,
        intent: &'a K::Intent,
        status: &'a K::Status,
        revision: Option<&'a str>,
        world: &'a K::World,
    ) -> Input<'a, K> {
        let meta = intent.meta();
        Input::<K> {
            uid: meta.uid.as_deref().unwrap_or_default(),
            namespace: self.key.namespace.as_deref(),
            name: &self.key.name,
            generation: meta.generation.unwrap_or_default(),
            revision,
            deleting: meta.deletion_timestamp.is_some(),
            has_finalizer: meta
                .finalizers
                .iter()
                .flatten()
                .any(|name| name == api::INTENT_FINALIZER),
            spec: intent.spec(),
            status,
            trouble: self.trouble.as_ref(),
            world,
            now: (self.parts.clock)(),
        }
    }

    fn tell(&self, told: Vec<Told>, intent: &K::Intent) {
        let now = (self.parts.clock)();
        for told in told {
            self.events.tell(intent, told, now);
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

    /// Writes the journal by compare-and-swap: of two controllers, one fails here and sends nothing. Returns its version.
    async fn journal(&self, served: &Served, mut raw: Value, status: &K::Status) -> Result<String, Error> {
        let what = format!("{}: journal", status.phase_name());
        raw["status"] = serde_json::to_value(status)
            .map_err(|error| Error::internal(format!("the journal cannot be written down: {error}")))?;
        self.parts.witness.reached(&Point::before(&self.key, &what)).await;
        let writer = self.parts.cluster.writer(api::INTENT_MANAGER);
        let written = match writer.replace_status(served, &raw).await? {
            Written::Done(written) => written,
            Written::Precondition(why) | Written::Exists(Value::String(why)) => {
                return Err(Error::new(ErrorKind::Conflict, why));
            }
            Written::Exists(_) => return Err(Error::internal("a status was answered as an existing object")),
        };
        self.parts.witness.reached(&Point::after(&self.key, &what)).await;
        let version = &written["metadata"]["resourceVersion"];
        // Without it the next write would have no precondition.
        let version = version.as_str().map(str::to_owned);
        version.ok_or_else(|| Error::internal("a journal was written, and no version was answered"))
    }
}

fn after(recheck: Option<Duration>) -> Pass {
    match recheck {
        Some(Duration::ZERO) => Pass::Again,
        Some(after) => Pass::Recheck(after),
        None => Pass::Idle,
    }
}
