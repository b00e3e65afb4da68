//! One worker an intent: reads it afresh, observes, decides, writes the journal by compare-and-swap, sends the effects.
//! In this order, and no further than what succeeds, whatever the kind.

use std::time::Duration;

use kube::Resource;
use kube::core::object::{HasSpec, HasStatus};
use serde_json::Value;
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

pub(super) struct Worker<K> {
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
            stop,
        }
    }

    /// Ends when the intent is gone, or on the order to stop.
    pub(super) async fn run(&mut self, interest: &Interest) {
        let stop = self.stop.clone();
        while !stop.is_cancelled() {
            let heard = interest.heard();
            let pass = match Box::pin(self.pass(interest)).await {
                Ok(pass) => pass,
                Err(error) => {
                    tracing::warn!(intent = %self.key, %error, "a pass failed");
                    self.trouble = Some(Trouble {
                        text: error.to_string(),
                        no_canary: false,
                    });
                    Pass::Recheck(TROUBLE)
                }
            };
            let rest = match pass {
                Pass::Again => Duration::ZERO,
                Pass::Gone => return,
                Pass::Idle => Duration::MAX,
                Pass::Recheck(after) => after,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = heard, if !rest.is_zero() => {}
                () = tokio::time::sleep(rest), if !rest.is_zero() => {}
                () = tokio::task::yield_now(), if rest.is_zero() => {}
            }
        }
    }

    async fn pass(&mut self, interest: &Interest) -> Result<Pass, Error> {
        let gvk = Gvk::new(api::API_VERSION, &kind::name::<K>());
        let served = served(&self.parts.cluster, &gvk).await?;
        let namespace = self.key.namespace.clone().unwrap_or_default();
        let read = self
            .parts
            .cluster
            .reader()
            .get(&served, Some(&namespace), &self.key.name)
            .await;
        let raw = match read.answer {
            Answer::Found(raw) => raw,
            Answer::NotFound => return Ok(Pass::Gone),
            Answer::Unknown { why } => return Err(Error::new(ErrorKind::Unreachable, why)),
        };
        let intent: K::Intent = serde_json::from_value(raw.clone())
            .map_err(|error| Error::user(format!("{} cannot be read: {error}", self.key)))?;
        let status = intent.status().cloned().unwrap_or_default();
        let sent = std::mem::take(&mut self.sent);
        let world = tokio::select! {
            () = self.stop.cancelled() => return Ok(Pass::Idle),
            world = Box::pin(self.kind.observe(&self.parts, &intent, &status, sent)) => world,
        };
        interest.update(&self.key, K::interest(&intent, &world));
        let revision = self.parts.templates.revision();
        let step = K::step(&self.input(&intent, &status, revision.as_deref(), &world));
        self.tell_of_wait(&intent, &step.status);

        if step.status != status {
            self.journal(&served, raw, &status, &step.status).await?;
            self.tell(K::told(&intent, &step.status), &intent);
            if step.effects.is_empty() {
                return Ok(after(step.recheck));
            }
        }
        self.send(&intent, &step).await
    }

    async fn send(&mut self, intent: &K::Intent, step: &Step<K::Status>) -> Result<Pass, Error> {
        for effect in &step.effects {
            if self.stop.is_cancelled() {
                return Ok(Pass::Idle);
            }
            let what = format!("{}: {effect}", step.status.phase_name());
            self.parts.witness.reached(&Point::before(&self.key, &what)).await;
            self.sent = true;
            match K::send(&self.parts, intent, effect).await {
                Ok(Sent::Done) => self.trouble = None,
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
        Ok(if step.effects.is_empty() {
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
            namespace: self.key.namespace.as_deref().unwrap_or_default(),
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

    /// Writes the journal by compare-and-swap: of two controllers, one fails here and sends nothing.
    async fn journal(
        &self,
        served: &Served,
        mut raw: Value,
        before: &K::Status,
        status: &K::Status,
    ) -> Result<(), Error> {
        let phase = status.phase_name();
        let what = format!("{phase}: journal");
        raw["status"] = serde_json::to_value(status)
            .map_err(|error| Error::internal(format!("the journal cannot be written down: {error}")))?;
        self.parts.witness.reached(&Point::before(&self.key, &what)).await;
        let writer = self.parts.cluster.writer(api::INTENT_MANAGER);
        match writer.replace_status(served, &raw).await? {
            Written::Done(_) => {}
            Written::Precondition(why) | Written::Exists(Value::String(why)) => {
                return Err(Error::new(ErrorKind::Conflict, why));
            }
            Written::Exists(_) => return Err(Error::internal("a status was answered as an existing object")),
        }
        if before.phase_name() != phase {
            tracing::info!(intent = %self.key, phase, "entered");
        }
        self.parts.witness.reached(&Point::after(&self.key, &what)).await;
        Ok(())
    }
}

fn after(recheck: Option<Duration>) -> Pass {
    match recheck {
        Some(Duration::ZERO) => Pass::Again,
        Some(after) => Pass::Recheck(after),
        None => Pass::Idle,
    }
}
