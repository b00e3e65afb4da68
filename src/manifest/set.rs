//! The objects of one revision, replaced file by file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Error, Manifest, Parsed};
use crate::name::{Location, ObjectKey};

/// The objects of one revision of a repository.
///
/// An object that two places define is in neither: it is [`Set::duplicates`], and counts as wanted
/// ([`Set::mentions`]) so that nothing prunes it.
#[derive(Clone, Debug, Default)]
pub struct Set {
    files: BTreeMap<String, File>,
    /// Every definition, in order of path and position; more than one is an error.
    objects: BTreeMap<ObjectKey, Vec<Arc<Manifest>>>,
    duplicated: BTreeSet<ObjectKey>,
}

#[derive(Clone, Debug, Default)]
struct File {
    keys: BTreeSet<ObjectKey>,
    errors: Vec<Error>,
}

/// An object that is defined more than once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is defined twice, first at {first}")]
pub struct Duplicate {
    pub key: ObjectKey,
    pub first: Location,
    pub again: Location,
}

impl Set {
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces what came from one file and returns the keys this may have changed. An empty `parsed` removes the file.
    pub fn update(&mut self, path: &str, parsed: Parsed) -> BTreeSet<ObjectKey> {
        let mut touched = self.remove(path);
        if parsed.objects.is_empty() && parsed.errors.is_empty() {
            return touched;
        }
        let mut file = File {
            keys: BTreeSet::new(),
            errors: parsed.errors,
        };
        for manifest in parsed.objects {
            let key = manifest.key.clone();
            let places = self.objects.entry(key.clone()).or_default();
            let at = places.partition_point(|place| place.source <= manifest.source);
            places.insert(at, Arc::new(manifest));
            if places.len() > 1 {
                self.duplicated.insert(key.clone());
            }
            touched.insert(key.clone());
            file.keys.insert(key);
        }
        self.files.insert(path.to_owned(), file);
        touched
    }

    /// Forgets what came from one file and returns the keys this may have changed.
    pub fn remove(&mut self, path: &str) -> BTreeSet<ObjectKey> {
        let Some(file) = self.files.remove(path) else {
            return BTreeSet::new();
        };
        for key in &file.keys {
            let Some(places) = self.objects.get_mut(key) else {
                continue;
            };
            places.retain(|place| place.source.path != path);
            if places.len() < 2 {
                self.duplicated.remove(key);
            }
            if places.is_empty() {
                self.objects.remove(key);
            }
        }
        file.keys
    }

    /// Returns the object, when exactly one place defines it.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Manifest>> {
        match self.objects.get(key)?.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Returns whether any place defines the object, be it more than one.
    pub fn mentions(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Returns the objects that exactly one place defines, in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Manifest>> {
        self.objects
            .values()
            .filter_map(|places| match places.as_slice() {
                [only] => Some(only),
                _ => None,
            })
    }

    /// Returns every definition of every object, in order of keys and then of places.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Manifest>> {
        self.objects.values().flatten()
    }

    pub fn len(&self) -> usize {
        self.objects.len() - self.duplicated.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns what could not be read, in order of paths. While there is any, an object that is missing here may
    /// well be wanted: prune nothing.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.files.values().flat_map(|file| &file.errors)
    }

    /// Returns every definition after the first.
    pub fn duplicates(&self) -> Vec<Duplicate> {
        let mut duplicates = Vec::new();
        for (key, places) in self
            .duplicated
            .iter()
            .filter_map(|key| self.objects.get_key_value(key))
        {
            let Some((first, rest)) = places.split_first() else {
                continue;
            };
            duplicates.extend(rest.iter().map(|again| Duplicate {
                key: key.clone(),
                first: first.source.clone(),
                again: again.source.clone(),
            }));
        }
        duplicates
    }
}
