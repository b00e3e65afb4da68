//! cutover moves live workloads between the member clusters of a Karmada control plane, from a Git push.
//!
//! A functional core decides (no I/O, no clock, no async); a shell observes and acts. The map:

// ── core: pure ──
/// The `cutover.dev` types, from which CRDs and JSON Schemas are generated.
pub mod api;
/// What a revision may cost: limits by name, and the accounts held against them.
pub mod budget;
/// What `cutover.yaml` in a repository and the flags of a run say.
pub mod config;
/// Kinds of errors, hints and exit codes: what every module's error becomes at the border.
pub mod error;
/// Text of others made safe for terminals, logs, Markdown and workflows.
pub mod escape;
/// The step machines of intents: journal, proofs, pins, claims.
pub mod intent;
/// The parts of Karmada's API that are used, typed, and what override policies make of a template.
pub mod karmada;
/// Rules over objects; each finding has a code, a position and a hint.
pub mod lint;
/// Bytes to objects with source positions, limits and sets.
pub mod manifest;
/// Names parsed once at the border: clusters, revisions, objects, workloads.
pub mod name;
/// JSON documents kept small, for what is kept by the ten thousand.
pub mod packed;
/// Desired and live objects to an ordered set of changes, and how to show them.
pub mod plan;
/// How one kind of workload is held, suspended, captured, resumed and judged.
pub mod profile;
/// What a secret is, and how it is kept out of everything that is shown.
pub mod redact;
/// What people and machines are told: text, JSON, the status tree.
pub mod report;

// ── shell: I/O ──
/// The command line: one file a command.
pub mod cli;
/// A Karmada control plane and its members through kube clients.
pub mod cluster;
/// The hosts of repositories: comments on pull requests, words of pushes.
pub mod forge;
/// What receivers are told by HTTP.
pub mod notify;
/// The loops: sync, intents, publish.
pub mod reconcile;
/// Git: mirror, tree diff, watching, publishing.
pub mod repo;
/// An in-process Karmada that real kube clients talk to.
#[cfg(feature = "sandbox")]
pub mod sandbox;
/// What is answered over HTTP.
pub mod serve;
/// The right to write, which ends when somebody else may lead.
pub mod tenure;

/// Of the program, the tests and the benches alike. Objects are trees of small pieces: a quarter of the time went into the C
/// library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
