//! What was read of a workload in a member cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use super::seen::Seen;

/// What was read of the workload in one member, through the cluster proxy.
#[derive(Clone, Debug)]
pub struct Member {
    /// `None` is a 404 of the object, told from a 404 of the cluster.
    pub object: Seen<Option<Value>>,
    /// Pods by the profile's selector; empty when the profile names none.
    pub pods: Seen<Vec<Pod>>,
    /// The nodes on which pods of the workload have been seen, and whether they are Ready; a deleted one is absent. Those that have
    /// a pod now are absent as well, unless they are asked for (`migration::asks_for_nodes`).
    pub nodes: Seen<BTreeMap<String, bool>>,
    /// The member gave no answer at all when it was asked for the object: not even a refusal.
    pub silent: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub node: Option<String>,
    pub uid: String,
    pub is_ready: bool,
    /// Whether a container of it runs, or has run; where nobody has said yet, it may.
    pub began: bool,
    /// How often its containers were restarted.
    pub restarts: u64,
    pub labels: BTreeMap<String, String>,
    /// Why a container of it doesn't start, or has ended.
    pub trouble: Option<String>,
}
