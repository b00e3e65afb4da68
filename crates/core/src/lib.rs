//! What cutover decides: no I/O, no clock, no async. Time and randomness are arguments.
//!
//! What the manifest of this crate doesn't name, nothing here can use: no client of Kubernetes, no tokio, no libgit2.

/// The `cutover.dev` types, from which CRDs and JSON Schemas are generated.
pub mod api;
/// What `cutover.yaml` in a repository and the flags of a run say.
pub mod config;
/// Kinds of errors, hints and exit codes: what every crate's error becomes at the border.
pub mod error;
/// What a person should know or do, with a code, a place and a hint.
pub mod finding;
/// What editors and other tools read: JSON Schemas and CRDs as files.
pub mod generated;
/// The step machines of intents: journal, proofs, pins, claims.
pub mod intent;
/// Rules over objects.
pub mod lint;
/// Bytes to objects with source positions, limits and sets.
pub mod manifest;
/// Desired and live objects to an ordered set of changes, and how to show them.
pub mod plan;
/// How one kind of workload is held, suspended, captured, resumed and judged.
pub mod profile;
/// What a secret is, and how it is kept out of everything that is shown.
pub mod redact;
/// What people and machines are told: text, JSON, the status tree.
pub mod report;
/// Values against JSON Schemas.
pub mod schema;
/// Times, durations and uids as people read them.
pub mod units;
