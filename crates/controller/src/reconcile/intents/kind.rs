//! What the loop has to know of a kind of intents. A new kind is its type ([`cutover_core::api`]), its machine
//! ([`cutover_core::intent`]), and this.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use kube::core::object::{HasSpec, HasStatus};
use serde::Serialize;
use serde_json::Value;

use super::Parts;
use super::execute::Sent;
use super::wake::WatchedKeys;
use cutover_core::api::{Intent, Progress};
use cutover_core::error::Error;
use cutover_core::intent::{self, Effect, Step};
use cutover_core::report::EventRecord;
use cutover_karmada::name::ObjectKey;

/// The intents of one kind, as a worker carries one of them out. A value is what that worker remembers from pass to pass;
/// whatever must outlive it belongs into the journal.
pub(super) trait Kind: Default + Send + Sync + 'static {
    type Intent: Intent + HasSpec<Spec = Self::Spec> + HasStatus<Status = Self::Status> + Send + Sync;
    type Spec: Serialize + Send + Sync;
    /// The journal.
    type Status: Progress;
    /// What one pass sees.
    type Snapshot: Send + Sync;

    /// Reads afresh what the machine may look at; `sent`: something was sent since the last time.
    fn observe(
        &mut self,
        parts: &Parts,
        intent: &Self::Intent,
        status: &Self::Status,
        sent: bool,
    ) -> impl Future<Output = Self::Snapshot> + Send;

    /// Returns the objects whose changes the worker has to hear of, beside the intent itself.
    fn watched_keys(intent: &Self::Intent, snapshot: &Self::Snapshot) -> BTreeSet<ObjectKey>;

    /// Returns how long news of an object may wait for more of them: what changes often, and hurries nobody.
    fn patience(_status: &Self::Status, _changed: &ObjectKey) -> Duration {
        Duration::ZERO
    }

    /// Returns whether what was observed for one journal is all that would be observed for another: then the next step can
    /// be decided without another look.
    fn has_seen_enough(_before: &Self::Status, _after: &Self::Status) -> bool {
        false
    }

    /// Reads what one look lacks to serve for another journal, where that is little: returns whether it serves now.
    fn completes(
        &mut self,
        _parts: &Parts,
        _before: &Self::Status,
        _intent: &Self::Intent,
        _world: &mut Self::Snapshot,
    ) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// Takes into a look what an effect has made of an object, as the API server has answered. Returns whether the same look
    /// serves for the next step: where that depends on nothing but this answer and what was looked at.
    fn takes_in(
        &mut self,
        _parts: &Parts,
        _intent: &Self::Intent,
        _world: &mut Self::Snapshot,
        _effect: &Effect,
        _answer: Option<Box<Value>>,
    ) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// Subscribes to changes outside the watch cache, which wake the worker as well.
    fn listen(&mut self, _interest: &WatchedKeys) {}

    /// Keeps what the last look has shown, as the effects after it left it.
    fn keeps(&mut self, _parts: &Parts, _intent: &Self::Intent, _world: Self::Snapshot) {}

    /// Returns what a look is expected to show after news: nothing where that can't be told without one. It says when to look,
    /// and nothing is done on it.
    fn expects(
        &mut self,
        _parts: &Parts,
        _intent: &Self::Intent,
        _news: &BTreeSet<ObjectKey>,
    ) -> impl Future<Output = Option<Self::Snapshot>> + Send {
        std::future::ready(None)
    }

    /// Returns whether a step does nothing but wait as before, be it in other words.
    fn only_waits(_before: &Self::Status, _after: &Self::Status) -> bool {
        false
    }

    /// Returns whether watches report everything that an effect leads to.
    fn is_told(&self) -> bool {
        false
    }

    /// Returns how long may pass until the next look without news, where the machine asks for one after a time.
    fn rests(&self, _status: &Self::Status, asked: Duration, _now: Timestamp) -> Duration {
        asked
    }

    /// Decides, purely.
    fn step(input: &Input<'_, Self>) -> Step<Self::Status>;

    /// Sends one effect under its precondition.
    fn send(
        parts: &Parts,
        intent: &Self::Intent,
        effect: &Effect,
    ) -> impl Future<Output = Result<Sent, Error>> + Send;

    /// Returns what people are told once the journal says what `after` says.
    fn events(before: &Self::Intent, after: &Self::Status) -> Vec<EventRecord>;
}

/// What a machine of that kind decides on.
pub(super) type Input<'a, K> =
    intent::Input<'a, <K as Kind>::Spec, <K as Kind>::Status, <K as Kind>::Snapshot>;
