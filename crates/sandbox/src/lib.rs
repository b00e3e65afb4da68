//! An in-process Karmada: what `demo`, `sandbox` and every test of behaviour run against.

/// A Kubernetes API server in this process: values in, values out; HTTP is a layer on top.
pub mod api;
/// The time of the sandbox: tokio's, counted from a fixed beginning.
pub mod clock;
/// What goes wrong, when, from a seed or by hand.
pub mod faults;
/// Caches that lag behind the API server.
pub mod informer;
/// Karmada's controllers.
pub mod karmada;
/// Who could write, when: the oracle of one-writer.
pub mod ledger;
/// What runs in a member cluster: simulated workload operators, jobs and pods.
pub mod member;
/// A controller's queue and its one worker.
pub mod queue;
/// Objects with revisions and a log of events: the storage below an API server.
pub mod store;
/// Who asked for what.
pub mod traffic;
/// A control plane with its members, put together.
pub mod world;

pub use world::{World, WorldOptions};
