//! What was read of a workload in a member cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

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
    /// The uids of pods that have ended, and do not count.
    pub ended: BTreeSet<String>,
    /// How long looks of this process, one after the other, have shown this very copy, in this very version, and no pods of it: see
    /// `settleFor` of a profile.
    pub unchanged: Duration,
    /// The member gave no answer at all when it was asked for the object: not even a refusal.
    pub silent: bool,
}

/// What a look shows of something that is watched for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SoakSample {
    /// It is as it should be; what is watched is the same as long as this text is.
    Good(String),
    /// It is not.
    Bad,
    /// It could not be seen: that adds nothing, and breaks nothing.
    Unknown,
}

impl Member {
    /// Returns what a look shows of a copy that is watched until it has settled: this version of it, or none at all, without pods but those
    /// that have ended. One that ended between two looks is another one.
    pub fn settles(&self) -> SoakSample {
        let (Ok(copy), Ok(pods)) = (self.object.get(), self.pods.get()) else {
            return SoakSample::Unknown;
        };
        if !pods.is_empty() {
            return SoakSample::Bad;
        }
        let copy = copy.as_ref().map(|copy| {
            let of = |field: &str| copy["metadata"][field].as_str().unwrap_or_default();
            (of("uid"), of("resourceVersion"))
        });
        SoakSample::Good(format!("{copy:?} {:?}", self.ended))
    }
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
    /// Its containers have ended, and it stays for their logs.
    pub has_ended: bool,
    /// Why a container of it doesn't start, or has ended.
    pub trouble: Option<String>,
}
