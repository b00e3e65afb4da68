//! Git: the templates that are wanted, and what intents have recorded on the status branch.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutover_core::api::{FailoverPlan, Intent, Migration};
use cutover_core::intent::record::{Kept, Record};
use serde_json::Value;

use crate::plane::Answer;

/// A template as Git has it.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub hash: String,
    pub manifest: Arc<Value>,
}

#[derive(Clone, Debug, Default)]
pub struct Git {
    /// The host takes nothing, and gives no answer.
    pub is_down: bool,
    /// Of each workload; nothing: it isn't in Git.
    pub templates: BTreeMap<usize, Wanted>,
    /// By uid of the intent.
    records: BTreeMap<String, Arc<Record>>,
    kept: BTreeMap<String, Arc<Kept>>,
}

impl Git {
    /// The host has an answer.
    pub fn answers(&self) -> Result<(), &'static str> {
        if self.is_down {
            return Err("the Git host gives no answer");
        }
        Ok(())
    }

    pub fn record(&self, uid: &str) -> Option<Arc<Record>> {
        self.records.get(uid).cloned()
    }

    pub fn kept(&self, uid: &str) -> Option<&Kept> {
        self.kept.get(uid).map(|kept| &**kept)
    }

    /// A newer record of the same intent is never written over.
    pub fn push(&mut self, new: &Record) -> Answer {
        if let Err(why) = self.answers() {
            return Answer::Failed(why.to_owned());
        }
        let uid = new.uid.clone().unwrap_or_default();
        let is_older = |old: &Arc<Record>| Migration::rank(&old.status) > Migration::rank(&new.status);
        if self.records.get(&uid).is_some_and(is_older) {
            return Answer::Exists;
        }
        self.records.insert(uid, Arc::new(new.clone()));
        Answer::Done
    }

    pub fn keep(&mut self, new: &Kept) -> Answer {
        if let Err(why) = self.answers() {
            return Answer::Failed(why.to_owned());
        }
        let is_older = |old: &Arc<Kept>| FailoverPlan::rank(&old.status) > FailoverPlan::rank(&new.status);
        if self.kept.get(&new.uid).is_some_and(is_older) {
            return Answer::Exists;
        }
        self.kept.insert(new.uid.clone(), Arc::new(new.clone()));
        Answer::Done
    }
}
