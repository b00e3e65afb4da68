//! Disturbed requests: the part of the switchboard that an API server asks.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Faults, Span};
use crate::api::status::Reason;
use crate::api::{self, Fault, RequestInfo, Status};
use crate::traffic::Traffic;

/// What happens to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Delay(Span),
    /// Refused with this status code.
    Refuse(u16),
    /// Refused as too many requests, to be tried again after so many seconds.
    Throttle(u32),
    /// Lost on its way: nothing is done, and no answer comes.
    Lose,
    /// Carried out, but no answer comes.
    LoseAnswer,
    /// A watch breaks off after a time.
    CutWatch(Duration),
}

/// Which requests are met, and by what. What isn't said means all.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub effect: Effect,
    pub probability: f64,
    /// How many requests are met before the rule is used up.
    pub times: Option<u32>,
    pub user: Option<String>,
    pub verb: Option<String>,
    pub resource: Option<String>,
    pub name: Option<String>,
}

impl Rule {
    pub fn new(effect: Effect) -> Self {
        Self {
            effect,
            probability: 1.0,
            times: None,
            user: None,
            verb: None,
            resource: None,
            name: None,
        }
    }

    #[must_use]
    pub fn probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }

    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    #[must_use]
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    #[must_use]
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    fn is_about(&self, request: &RequestInfo) -> bool {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        is(&self.user, &request.user)
            && is(&self.verb, request.verb)
            && is(&self.resource, &request.resource)
            && is(&self.name, request.name.as_deref().unwrap_or_default())
    }
}

/// Users whose requests are part of the simulation itself: never disturbed.
const SPARED: &str = "system:";

impl Faults {
    pub(super) fn forget(&self, rule: &Rule) {
        self.change(|state| state.rules.retain(|known| known.effect != rule.effect));
    }

    /// Returns the effect that meets a request; `after` asks for what happens to its answer.
    fn met(&self, request: &RequestInfo, after: bool) -> Option<Effect> {
        if request.user.starts_with(SPARED) {
            return None;
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        let random = state.random.as_mut()?;
        let index = state.rules.iter().position(|rule| {
            (rule.effect == Effect::LoseAnswer) == after
                && rule.is_about(request)
                && (rule.probability >= 1.0 || random.f64() < rule.probability)
        })?;
        let effect = state.rules[index].effect.clone();
        if let Some(times) = &mut state.rules[index].times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                state.rules.remove(index);
            }
        }
        Some(effect)
    }

    fn draw(&self, span: Span) -> Duration {
        self.lock()
            .random
            .as_mut()
            .map_or(span.min, |random| span.draw(random))
    }
}

/// The switchboard as one API server asks it.
#[derive(Clone, Debug)]
pub struct ServerFaults {
    faults: Faults,
    /// What every request takes.
    latency: Span,
    traffic: Traffic,
}

impl ServerFaults {
    /// The process whose restart breaks all watches off.
    pub const PROCESS: &str = "karmada-apiserver";

    pub fn new(faults: Faults, latency: Span, traffic: Traffic) -> Self {
        Self {
            faults,
            latency,
            traffic,
        }
    }
}

impl api::Faults for ServerFaults {
    fn before<'a>(&'a self, request: &'a RequestInfo) -> BoxFuture<'a, Option<Fault>> {
        self.traffic.note(request);
        async move {
            match self.faults.met(request, false) {
                Some(Effect::Delay(span)) => Some(Fault::Delay(self.faults.draw(span))),
                Some(Effect::Refuse(code)) => Some(Fault::Status(refusal(code))),
                Some(Effect::Throttle(seconds)) => Some(Fault::Status(refusal(429).retry_after(seconds))),
                Some(Effect::Lose) => Some(Fault::DropConnection),
                Some(Effect::CutWatch(after)) if request.verb == "watch" => Some(Fault::CutWatch(after)),
                _ if self.latency == Span::NONE || request.user.starts_with(SPARED) => None,
                _ => Some(Fault::Delay(self.faults.draw(self.latency))),
            }
        }
        .boxed()
    }

    fn after<'a>(&'a self, request: &'a RequestInfo) -> BoxFuture<'a, Option<Fault>> {
        async move { self.faults.met(request, true).map(|_| Fault::DropConnection) }.boxed()
    }

    fn broken_off(&self, request: &RequestInfo) -> BoxFuture<'static, ()> {
        if request.user.starts_with(SPARED) {
            return futures::future::pending().boxed();
        }
        let faults = self.faults.clone();
        let known = faults.restarts(Self::PROCESS);
        async move { faults.restarted(Self::PROCESS, known).await }.boxed()
    }
}

fn refusal(code: u16) -> Status {
    match code {
        429 => Status::new(
            429,
            Reason::TooManyRequests,
            "too many requests, please try again later",
        )
        .retry_after(1),
        503 => Status::new(
            503,
            Reason::ServiceUnavailable,
            "the server is currently unable to handle the request",
        ),
        504 => Status::new(504, Reason::Timeout, "the server did not answer in time"),
        500 => Status::internal("the sandbox was told to fail"),
        code => Status::new(code, Reason::Unknown, "the sandbox was told to refuse"),
    }
}
