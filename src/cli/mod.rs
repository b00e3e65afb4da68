//! The command line: one file a command, which reads flags, calls the library and prints a report. No logic.
//!
//! Data goes to stdout, everything else to stderr. Exit codes: 0 done or no changes, 1 the input or the operation failed
//! (wrong usage too), 2 `plan --detailed-exitcode` found changes, 3 Git or cluster can't be reached, 4 a bug.

// Doc lines are the help that people read in a terminal, where backticks are noise.
#![allow(clippy::doc_markdown)]

mod check;
mod clone;
mod complete;
mod completions;
mod connection;
mod control;
#[cfg(feature = "sandbox")]
mod demo;
mod evacuate;
mod example;
mod excluded;
mod failover;
mod files;
mod forge;
mod global;
mod help;
mod init;
mod intent_file;
mod intent_name;
mod joined;
mod look;
mod migrate;
mod moves;
mod named;
mod output;
mod plan;
mod profile;
mod progress;
mod rebalance;
mod recorded;
mod review;
mod rollout;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
mod schema;
mod selected;
mod shift;
mod signal;
mod status;
mod suspend;
mod target;
mod validate;
mod values;
mod version;
mod wait;
mod workspace;

use std::ffi::OsString;
use std::num::NonZero;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};

use cutover_core::error::{Error, Result};
use cutover_core::intent::control::Control;

pub use complete::answer as answer_shell;
pub use example::FILES as EXAMPLE_FILES;
pub use help::command;
pub use output::{failed, usage};
pub use version::{KARMADA, KUBERNETES};

/// Moves live workloads between clusters from a Git push, with never two writers and never lost state.
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: global::Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of it, for a moment")]
enum Command {
    /// Play the demo on this machine: a sandbox, a Git push, a migration, a roll back
    #[cfg(feature = "sandbox")]
    Demo(demo::Demo),
    /// Write a new repository to start from, or install what a control plane needs
    Init(init::Init),
    /// Check that everything cutover needs is there: API server, CRDs, permissions, fence, Git, members
    Check(check::Check),
    /// Check a repository's files offline: syntax, fields, references
    Validate(validate::Validate),
    /// Show what a push would change in a live control plane, without changing it
    Plan(plan::Plan),
    /// Report on a pull request: errors, changes, which workloads would move, what would block them
    Review(review::Review),
    /// Reconcile: sync Git to the control plane, carry out intents, commit status
    Run(run::Run),
    /// Show what intents are doing
    Status(status::Status),
    /// Wait until an intent has ended or is in a phase; exit with 1 if it ended otherwise
    Wait(wait::Wait),
    /// Move a workload with its state: write and commit the Migration
    Migrate(migrate::Migrate),
    /// Move all workloads out of a cluster: write and commit the Evacuation
    Evacuate(evacuate::Evacuate),
    /// Move replicas to another cluster step by step: write and commit the ReplicaShift
    Shift(shift::Shift),
    /// Roll out a workload's changes cluster by cluster: write and commit the Rollout; undo, retry
    Rollout(rollout::Rollout),
    /// Redistribute workloads over the clusters: write and commit the Rebalance
    Rebalance(rebalance::Rebalance),
    /// Keep changes from reaching clusters: write and commit the Suspension
    Suspend(suspend::Suspend),
    /// Fail a workload over now: write and commit the request to its FailoverPlan
    Failover(failover::Failover),
    /// Approve what an intent waits for, by a commit
    Approve(control::Approve),
    /// Give a migration a fact that it cannot observe, or a decision that it must not make, by a commit
    Assume(control::Assume),
    /// Stop an intent before its next step, by a commit
    Pause(control::IntentArgs),
    /// Let a paused intent go on, or end a suspension, by a commit
    Resume(control::IntentArgs),
    /// Roll an intent back, by a commit
    Abort(control::IntentArgs),
    /// Serve a Karmada sandbox for kubectl and for trying things out
    #[cfg(feature = "sandbox")]
    Sandbox(sandbox::Sandbox),
    /// List, show and explain workload profiles, and try one on an object
    Profile(profile::ProfileCommand),
    /// Print or write JSON Schemas and CRDs
    Schema(schema::SchemaCommand),
    /// Print a completion script for a shell
    Completions(completions::Completions),
    /// Print the version, the commit, and the versions of Kubernetes and Karmada it is built for
    Version(version::Version),
}

impl Cli {
    /// Reads a command line, the name of the program first. The error is also what help and version are.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = help::command();
        let matches = command.try_get_matches_from_mut(words)?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }

    /// Sets colour and logging up for the whole process.
    pub fn start(&self) {
        self.global
            .start(matches!(&self.command, Command::Run(run) if run.is_lasting()));
    }

    /// Runs the command.
    pub fn run(self) -> Result<ExitCode> {
        match self.command {
            #[cfg(feature = "sandbox")]
            Command::Demo(command) => block_on(command.run()),
            Command::Init(command) => block_on(command.run()),
            Command::Check(command) => block_on(command.run()),
            Command::Validate(command) => command.run(),
            Command::Plan(command) => block_on(command.run()),
            Command::Review(command) => block_on(command.run()),
            Command::Run(command) => block_on(command.run()),
            Command::Status(command) => block_on(command.run()),
            Command::Wait(command) => block_on(command.run()),
            Command::Migrate(command) => block_on(command.run()),
            Command::Failover(command) => block_on(command.run()),
            Command::Approve(command) => block_on(command.run()),
            Command::Assume(command) => block_on(command.run()),
            Command::Pause(intent) => block_on(intent.ask(Control::Pause)),
            Command::Resume(intent) => block_on(intent.ask(Control::Resume)),
            Command::Evacuate(command) => block_on(command.run()),
            Command::Shift(command) => block_on(command.run()),
            Command::Rollout(command) => block_on(command.run()),
            Command::Rebalance(command) => block_on(command.run()),
            Command::Suspend(command) => block_on(command.run()),
            Command::Abort(intent) => block_on(intent.ask(Control::Abort)),
            #[cfg(feature = "sandbox")]
            Command::Sandbox(command) => block_on(command.run()),
            Command::Profile(command) => command.run(),
            Command::Schema(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Version(command) => command.run(),
        }
    }
}

/// The least number of threads: on few cores, too, some have to handle signals and renew Leases while others read a large list.
const WORKERS: usize = 4;

fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.max(WORKERS))
        .enable_all()
        .build()
        .map_err(|error| Error::internal(format!("cannot start a runtime: {error}")))?;
    let done = runtime.block_on(work);
    // A connection to Git that was broken off may live on for a while: it is not waited for.
    runtime.shutdown_background();
    done
}
