//! What the loop has to know of a kind of intents. A new kind is its type ([`cutover_core::api`]), its machine
//! ([`cutover_core::intent`]), and this.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use kube::Resource;
use kube::core::object::{HasSpec, HasStatus};
use serde::de::DeserializeOwned;

use super::Parts;
use super::execute::Sent;
use cutover_core::api::Progress;
use cutover_core::error::Error;
use cutover_core::intent::{self, Effect, Step};
use cutover_core::report::Told;
use cutover_karmada::name::ObjectKey;

/// The intents of one kind, as a worker carries one of them out. A value is what that worker remembers from pass to pass;
/// whatever must outlive it belongs into the journal.
pub(super) trait Kind: Default + Send + Sync + 'static {
    type Intent: Resource<DynamicType = ()>
        + HasSpec<Spec = Self::Spec>
        + HasStatus<Status = Self::Status>
        + DeserializeOwned
        + Clone
        + Send
        + Sync;
    type Spec: Send + Sync;
    /// The journal.
    type Status: Progress;
    /// What one pass sees.
    type World: Send + Sync;

    /// Reads afresh what the machine may look at; `sent`: something was sent since the last time.
    fn observe(
        &mut self,
        parts: &Parts,
        intent: &Self::Intent,
        status: &Self::Status,
        sent: bool,
    ) -> impl Future<Output = Self::World> + Send;

    /// Returns the objects whose changes the worker has to hear of, beside the intent itself.
    fn interest(intent: &Self::Intent, world: &Self::World) -> BTreeSet<ObjectKey>;

    /// Returns how long news of an object may wait for more of them: what changes often, and hurries nobody.
    fn patience(_status: &Self::Status, _changed: &ObjectKey) -> Duration {
        Duration::ZERO
    }

    /// Returns whether what was observed for one journal is all that would be observed for another: then the next step can
    /// be decided without another look.
    fn has_seen_enough(_before: &Self::Status, _after: &Self::Status) -> bool {
        false
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
    fn told(before: &Self::Intent, after: &Self::Status) -> Vec<Told>;
}

/// What a machine of that kind decides on.
pub(super) type Input<'a, K> = intent::Input<'a, <K as Kind>::Spec, <K as Kind>::Status, <K as Kind>::World>;

/// Returns the name of a kind, as it is written in YAML.
pub(super) fn name<K: Kind>() -> Cow<'static, str> {
    K::Intent::kind(&())
}
