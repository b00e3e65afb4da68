//! The object storage that all members share: savepoints and retained checkpoints by path.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

/// A job's state at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Savepoint {
    pub job_id: String,
    /// How many records the job had processed.
    pub records: u64,
    pub taken_at: Timestamp,
}

/// The storage; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Savepoints(Arc<Mutex<BTreeMap<String, Savepoint>>>);

impl Savepoints {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn get(&self, path: &str) -> Option<Savepoint> {
        self.paths().get(path).cloned()
    }

    pub fn put(&self, path: &str, savepoint: Savepoint) {
        self.paths().insert(path.to_owned(), savepoint);
    }

    /// Removes a savepoint, as a person or a storage lifecycle rule would.
    pub fn remove(&self, path: &str) -> Option<Savepoint> {
        self.paths().remove(path)
    }

    fn paths(&self) -> MutexGuard<'_, BTreeMap<String, Savepoint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
