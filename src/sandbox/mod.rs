//! An in-process Karmada: what `demo`, `sandbox` and every test of behaviour run against.

/// A Kubernetes API server in this process: values in, values out; HTTP is a layer on top.
pub mod api;
/// Who could write, when: the oracle of one-writer.
pub mod ledger;
/// What runs in a member cluster: simulated workload operators, jobs and pods.
pub mod member;
/// Objects with revisions and a log of events: the storage below an API server.
pub mod store;
