//! What runs: the loops, and what is answered over HTTP.

/// Whether everything that a reconciler needs is there.
pub mod check;
/// The loops: sync, intents, publish.
pub mod reconcile;
/// What is answered over HTTP.
pub mod serve;
/// What is measured, and whether it is well.
pub mod telemetry;
