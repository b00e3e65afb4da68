//! Objects that something happened to since they were looked at.

use std::collections::BTreeSet;
use std::sync::Arc;

use cutover_core::manifest::{Entry, ObjectMap};
use cutover_karmada::name::ObjectKey;

/// Some objects by their keys, or all there are.
#[derive(Debug, Default)]
pub(super) struct Dirty {
    all: bool,
    keys: BTreeSet<ObjectKey>,
}

impl Dirty {
    pub(super) fn insert(&mut self, key: ObjectKey) {
        self.extend([key]);
    }

    pub(super) fn insert_all(&mut self) {
        self.all = true;
        self.keys.clear();
    }

    pub(super) fn extend(&mut self, keys: impl IntoIterator<Item = ObjectKey>) {
        if !self.all {
            self.keys.extend(keys);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.all && self.keys.is_empty()
    }

    pub(super) fn contains(&self, key: &ObjectKey) -> bool {
        self.all || self.keys.contains(key)
    }

    /// Returns those of the objects that are among these.
    pub(super) fn of<'a>(
        &'a self,
        objects: &'a ObjectMap<Entry>,
    ) -> Box<dyn Iterator<Item = &'a Arc<Entry>> + 'a> {
        if self.all {
            Box::new(objects.values())
        } else {
            Box::new(self.keys.iter().filter_map(|key| objects.get(key)))
        }
    }
}
