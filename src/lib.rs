//! cutover moves live workloads between the member clusters of a Karmada control plane, from a Git push.
//!
//! A functional core decides (no I/O, no clock, no async); a shell observes and acts. Each has crates of its own; here is the
//! command line, and one name for everything, for the tests and the benches.

/// The command line: one file a command.
pub mod cli;

pub use cutover_base::{USER_AGENT, budget, escape, packed};
pub use cutover_cluster as cluster;
pub use cutover_controller::{reconcile, serve, telemetry};
pub use cutover_core::{
    api, config, error, finding, generated, intent, lint, manifest, plan, profile, redact, report, schema,
    units,
};
pub use cutover_forge as forge;
pub use cutover_forge::notify;
pub use cutover_git as repo;
pub use cutover_karmada as karmada;
pub use cutover_karmada::name;
pub use cutover_leadership as leadership;
#[cfg(feature = "sandbox")]
pub use cutover_sandbox as sandbox;

/// Of the program, the tests and the benches alike. Objects are trees of small pieces: a quarter of the time went into the C
/// library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
