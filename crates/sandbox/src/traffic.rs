//! Who asked an API server for what, and how much within a second: what tests of restraint go by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::api::RequestInfo;

/// For how many seconds it is known how busy they were.
const REMEMBERED: usize = 3600;

/// A count of requests over HTTP and of kube clients in this process. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Traffic(Arc<Mutex<Counts>>);

#[derive(Debug)]
struct Counts {
    begun: Instant,
    asked: BTreeMap<Asked, u64>,
    /// Seconds since the beginning in which users other than `system:` ones asked for something.
    seconds: BTreeMap<u64, u64>,
    /// What was asked for in every detail, where somebody wants to know.
    recorded: Option<BTreeSet<RequestInfo>>,
}

/// What requests are told apart by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    pub user: String,
    /// As in [`RequestInfo`].
    pub verb: &'static str,
    pub resource: String,
}

impl Asked {
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb,
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }
}

impl Traffic {
    pub(super) fn note(&self, request: &RequestInfo) {
        let mut counts = self.counts();
        if let Some(recorded) = &mut counts.recorded {
            recorded.insert(request.clone());
        }
        let asked = Asked {
            user: request.user.clone(),
            verb: request.verb,
            resource: request.resource.clone(),
        };
        *counts.asked.entry(asked).or_default() += 1;
        if !request.user.starts_with("system:") {
            let second = counts.begun.elapsed().as_secs();
            *counts.seconds.entry(second).or_default() += 1;
            while counts.seconds.len() > REMEMBERED {
                counts.seconds.pop_first();
            }
        }
    }

    /// Returns how many requests there were of those that are asked about.
    pub fn count(&self, which: impl Fn(&Asked) -> bool) -> u64 {
        let counts = self.counts();
        let asked = counts.asked.iter().filter(|(asked, _)| which(asked));
        asked.map(|(_, count)| count).sum()
    }

    /// Returns how many requests there were in each of the last seconds, the present one last.
    pub fn last_seconds(&self, seconds: u64) -> Vec<u64> {
        let counts = self.counts();
        let now = counts.begun.elapsed().as_secs();
        (now.saturating_sub(seconds.saturating_sub(1))..=now)
            .map(|second| counts.seconds.get(&second).copied().unwrap_or_default())
            .collect()
    }

    /// Keeps every request from now on, names included: for tests, since there is no end to it.
    pub fn record(&self) {
        self.counts().recorded.get_or_insert_default();
    }

    /// Returns the requests that were different in anything, since [`Self::record`].
    pub fn recorded(&self) -> BTreeSet<RequestInfo> {
        self.counts().recorded.clone().unwrap_or_default()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Traffic {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Counts {
            begun: Instant::now(),
            asked: BTreeMap::new(),
            seconds: BTreeMap::new(),
            recorded: None,
        })))
    }
}
