//! A world without I/O, async or real time, in which the shipped step machine of a migration is tried: whatever can come about
//! in any order does so, late, twice or never, and a run takes milliseconds.
//!
//! What is in it: reads of control plane and members at different times, requests that live on when their sender dies,
//! controllers of Karmada that write what they computed from an older look, an operator that acts on what it read last, members
//! that nobody reaches. What isn't: the API server itself (defaulting,
//! validation, admission, watches), for which the sandbox is there, and kinds of intents other than `Migration`.

pub mod flink;
pub mod karmada;
pub mod ledger;
pub mod plane;
mod run;
mod setting;

pub use run::{Kill, Side};

use std::collections::BTreeMap;
use std::time::Duration;

use cutover_core::api::{MigrationSpec, MigrationStatus};
use cutover_core::intent::Effect;
use cutover_karmada::name::ClusterName;
use jiff::{SignedDuration, Timestamp};

use flink::Member;
use karmada::{Caches, Computed};
use ledger::Ledger;
use plane::Plane;

pub const EAST: &str = "east";
pub const WEST: &str = "west";
/// The uid of the migration.
pub const UID: &str = "move-uid";

/// The migration, as the control plane has it.
#[derive(Clone, Debug)]
pub struct Intent {
    pub spec: MigrationSpec,
    pub status: MigrationStatus,
    pub generation: i64,
    pub deleting: bool,
}

/// What one process of the controller has in its memory.
#[derive(Clone, Debug, Default)]
struct Process {
    /// What of the control plane it has read, and nothing of the members yet.
    looking: Option<Box<Plane>>,
    /// What is still to be sent of the pass before.
    outbox: Vec<Effect>,
    run: Option<String>,
    watched: Duration,
    looked: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub struct Sim {
    pub now: Timestamp,
    tick: u64,
    pub plane: Plane,
    pub members: BTreeMap<ClusterName, Member>,
    pub intent: Intent,
    process: Process,
    /// Requests of processes that are dead, on their way.
    pub late: Vec<Effect>,
    caches: Caches,
    computed: Vec<Computed>,
    pub ledger: Ledger,
    /// Journals written and effects sent.
    pub lines: u32,
    pub kill: Option<Kill>,
    /// What has happened, to be read by people.
    pub story: Vec<String>,
}

impl Sim {
    /// Adds a line to the story.
    pub fn tell(&mut self, what: impl FnOnce() -> String) {
        let at = self.now.duration_since(setting::begins());
        let millis = at.as_millis();
        self.story.push(format!("{millis:>8} ms  {}", what()));
    }

    /// Lets time pass.
    pub fn later(&mut self, by: Duration) {
        self.now += SignedDuration::try_from(by).unwrap_or_default();
    }

    pub fn member(&mut self, name: &str) -> Option<&mut Member> {
        self.members.get_mut(&ClusterName::new(name))
    }
}
