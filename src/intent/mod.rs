//! The step machines of intents. Pure: the same inputs give the same step, in production and in every simulation.
//!
//! A machine never sends anything: it returns the journal to write and the effects to send after it.

pub mod admission;
pub mod control;
pub mod effect;
pub mod fight;
pub mod hold_back;
pub mod migration;
pub mod pin;
pub mod proof;
pub mod record;
pub mod seen;
pub mod world;

pub use effect::Effect;
pub use seen::{NotKnown, Read, Seen};
pub use world::World;

use std::time::Duration;

/// What one pass decides. The status is written before the first effect is sent, and nothing is sent if that fails.
#[derive(Clone, Debug)]
pub struct Step<S> {
    pub status: S,
    pub effects: Vec<Effect>,
    /// When to look again if nothing is heard before; `None`: only when something changes.
    pub recheck: Option<Duration>,
}
