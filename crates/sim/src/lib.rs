//! A world without I/O, async or real time, in which the shipped step machines of intents are tried: whatever can come about
//! in any order does so, late, twice or never, and a run takes a fraction of a millisecond.
//!
//! What is in it: any number of intents, each with a controller that reads control plane and members at different times;
//! requests that live on when their sender dies; a scheduler with one queue, that writes what it decided on an older look;
//! controllers of Karmada that do so too, and whose processes are replaced by ones with older caches; operators that act on what
//! they read last; processes apart from pods, and pods from nodes; members that nobody reaches; a Git host that refuses. What
//! isn't: the API server itself (defaulting, validation, admission, watches), for which the sandbox is there.

pub mod actor;
mod deployment;
pub mod event;
mod flink;
pub mod git;
pub mod karmada;
pub mod kinds;
pub mod ledger;
pub mod member;
mod oracle;
pub mod plane;
pub mod recording;
mod run;
mod scheduler;
mod setting;

pub use event::Event;
pub use run::{Kill, Side};
pub use setting::Begin;

use std::time::Duration;

use cutover_core::intent::Effect;
use cutover_karmada::name::ClusterName;
use jiff::{SignedDuration, Timestamp};

use actor::{Actor, Intent, Kind, Running};
use karmada::{Computed, Controllers};
use ledger::{By, Ledger};
use member::Member;
use plane::Plane;
use scheduler::Scheduler;

pub const EAST: &str = "east";
pub const WEST: &str = "west";
pub const NORTH: &str = "north";

#[derive(Clone, Debug)]
pub struct Sim {
    pub now: Timestamp,
    tick: u64,
    pub plane: Plane,
    /// By name.
    pub members: Vec<Member>,
    /// The book of each workload.
    pub ledgers: Vec<Ledger>,
    pub actors: Vec<Box<dyn Actor>>,
    /// Requests of processes that are dead, on their way, with the intent that they are of.
    pub late: Vec<(usize, Effect)>,
    controllers: Controllers,
    computed: Vec<Computed>,
    pub scheduler: Scheduler,
    /// Who has last changed the clusters of each binding.
    listed_by: Vec<By>,
    /// Journals written and effects sent.
    pub lines: u32,
    pub kill: Option<Kill>,
    /// What was promised of workloads without state, and isn't so.
    pub breaches: Vec<String>,
    /// Something beyond anybody's power took pods away.
    pub pods_were_lost: bool,
    /// What has happened, to be read by people.
    pub story: Vec<String>,
    pub is_silent: bool,
    /// What was sent and taken, as the log of a reconciler has it: the phase, and what.
    pub sent: Vec<String>,
    /// Something happened in this round; and how many rounds nothing has.
    moved: bool,
    quiet: u32,
}

impl Sim {
    /// Adds a line to the story.
    pub fn tell(&mut self, what: impl FnOnce() -> String) {
        if self.is_silent {
            return;
        }
        let at = self.now.duration_since(setting::begins());
        let millis = at.as_millis();
        self.story.push(format!("{millis:>8} ms  {}", what()));
    }

    /// Lets time pass.
    pub fn later(&mut self, by: Duration) {
        self.now += SignedDuration::try_from(by).unwrap_or_default();
    }

    pub fn member(&mut self, name: &str) -> Option<&mut Member> {
        self.members
            .iter_mut()
            .find(|member| member.name.as_str() == name)
    }

    /// Returns an intent of a kind by its place.
    pub fn intent<K: Kind>(&self, nth: usize) -> Option<&Intent<K>> {
        let running = self.actors.get(nth)?.any().downcast_ref::<Running<K>>()?;
        Some(&running.intent)
    }

    pub fn intent_mut<K: Kind>(&mut self, nth: usize) -> Option<&mut Intent<K>> {
        let running = self.actors.get_mut(nth)?.any_mut().downcast_mut::<Running<K>>()?;
        Some(&mut running.intent)
    }

    /// Returns where copies of a workload may write.
    pub fn writers(&self, workload: usize) -> Vec<&ClusterName> {
        self.ledgers[workload].writers()
    }

    /// Returns what went wrong for which nobody but the tool can be blamed.
    pub fn violations(&self) -> Vec<String> {
        let of_state = self.ledgers.iter().flat_map(|ledger| &ledger.violations);
        of_state
            .map(ToString::to_string)
            .chain(self.breaches.iter().cloned())
            .collect()
    }

    /// Returns the story, and how it stands.
    pub fn account(&self) -> String {
        let mut lines = self.story.clone();
        for actor in &self.actors {
            let wait = actor.waiting_for().map(|wait| wait.reason.as_str());
            let findings: Vec<&str> = actor
                .findings()
                .iter()
                .map(|finding| finding.message.as_str())
                .collect();
            lines.push(format!(
                "{} {}: {}, waits for {wait:?}, offers {:?}, findings {findings:?}",
                actor.kind(),
                actor.name(),
                actor.phase(),
                actor.offers(),
            ));
        }
        for (workload, ledger) in self.plane.workloads.iter().zip(&self.ledgers) {
            lines.push(format!("{}: runs in {:?}", workload.key.name, ledger.writers()));
        }
        lines.extend(self.violations());
        lines.join("\n")
    }
}
