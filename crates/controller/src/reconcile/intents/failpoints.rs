//! Somebody who is told before and after every write: where a test kills the loop, and where a trace comes from.

use futures::future::BoxFuture;

use cutover_karmada::name::ObjectKey;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Before,
    After,
}

/// A line between two writes of one intent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failpoint {
    pub intent: ObjectKey,
    pub side: Side,
    /// The phase and what is written.
    pub what: String,
}

impl Failpoint {
    pub(super) fn before(intent: &ObjectKey, what: &str) -> Self {
        Self {
            intent: intent.clone(),
            side: Side::Before,
            what: what.to_owned(),
        }
    }

    pub(super) fn after(intent: &ObjectKey, what: &str) -> Self {
        Self {
            intent: intent.clone(),
            side: Side::After,
            what: what.to_owned(),
        }
    }
}

/// Nothing goes on until the witness does.
pub trait FailpointHook: Send + Sync {
    fn reached<'a>(&'a self, point: &'a Failpoint) -> BoxFuture<'a, ()>;
}

/// Sees nothing: what runs in production.
#[derive(Clone, Copy, Debug)]
pub struct NoFailpoints;

impl FailpointHook for NoFailpoints {
    fn reached<'a>(&'a self, _: &'a Failpoint) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}
