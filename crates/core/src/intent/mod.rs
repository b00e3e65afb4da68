//! The step machines of intents. Pure: the same inputs give the same step, in production and in every simulation.
//!
//! A machine never sends anything: it returns the journal to write and the effects to send after it.

pub mod admission;
mod binding;
pub mod check;
mod child;
pub mod cluster_driven;
pub mod control;
pub mod control_plane;
pub mod custody;
pub mod dependencies;
pub mod driven;
pub mod effect;
pub mod evacuation;
mod eviction;
pub mod failover;
pub mod fence;
pub mod fight;
pub mod gate;
pub mod headroom;
pub mod hold_back;
pub mod holders;
pub mod member;
pub mod migration;
mod misfits;
pub mod moves;
mod operation;
pub mod origin;
pub mod orphan;
pub mod other_managers;
pub mod owners;
pub mod pin;
mod placement;
pub mod proof;
pub mod rebalance;
pub mod record;
pub mod replicas;
pub mod requested;
pub mod rivals;
pub mod rollout;
pub mod rollout_policy;
pub mod scalers;
mod secret_handles;
pub mod seen;
pub mod selected;
pub mod shift;
pub mod snapshot;
pub mod suspension;
mod taint_eviction;
pub mod warnings;

pub use control_plane::{ControlPlane, Needs};
pub use effect::Effect;
pub use seen::{NotKnown, Read, Seen};
pub use snapshot::Snapshot;

use std::time::Duration;

use jiff::Timestamp;

use crate::api::ClaimOwner;

/// What one pass decides. The status is written before the first effect is sent, and nothing is sent if that fails.
#[derive(Clone, Debug)]
pub struct Step<S> {
    pub status: S,
    pub effects: Vec<Effect>,
    /// When to look again if nothing is heard before; `None`: only when something changes.
    pub requeue_after: Option<Duration>,
}

/// An intent as it was read, and what one pass saw.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a, Spec, Status, Snapshot> {
    pub uid: &'a str,
    /// `None`: its kind is of cluster scope.
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    pub generation: i64,
    /// The Git revision that last applied the spec.
    pub revision: Option<&'a str>,
    pub deleting: bool,
    /// Why cutover itself asked for the abort; `None`: it didn't.
    pub overtaken: Option<&'a str>,
    pub has_finalizer: bool,
    pub spec: &'a Spec,
    pub status: &'a Status,
    /// Why the last effect failed, if it did.
    pub trouble: Option<&'a Trouble>,
    /// Who goes first with the workload, of those that have not got it yet: see [`rivals::ahead`].
    pub ahead: Option<&'a ClaimOwner>,
    pub snapshot: &'a Snapshot,
    pub now: Timestamp,
}

impl<Spec, Status, Snapshot> Input<'_, Spec, Status, Snapshot> {
    /// Returns whom a claim of this intent belongs to.
    pub fn owner(&self, kind: &str) -> ClaimOwner {
        ClaimOwner {
            kind: kind.to_owned(),
            namespace: self.namespace.unwrap_or_default().to_owned(),
            name: self.name.to_owned(),
            uid: self.uid.to_owned(),
        }
    }

    /// Returns why an intent whose spec says `abort` ends. What an annotation says of that is quoted: a reason that begins as those of
    /// the operation itself do would be read as one of them.
    pub fn why_aborted(&self) -> String {
        let quoted = self.overtaken.map(|why| format!("called off: {why}"));
        quoted.unwrap_or_else(|| "abort was asked for".to_owned())
    }

    /// Returns whether no canary may be created.
    pub fn no_canary(&self) -> bool {
        self.trouble.is_some_and(|trouble| trouble.no_canary)
    }
}

/// Why an effect failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub text: String,
    /// No canary may be created.
    pub no_canary: bool,
}
