//! The objects of one revision, replaced file by file.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use super::{Defined, Entries, Entry, Error, Manifest, Mark, ObjectMap, Parsed, Problem};
use cutover_base::budget::{Budget, Limit};
use cutover_karmada::name::{Gvk, Location, ObjectKey};

/// The objects of one revision of a repository: [`Manifest`]s, or [`Entry`]s where there are many.
///
/// An object that two places define is in neither: it is [`Set::duplicates`], and counts as wanted
/// ([`Set::mentions`]) so that nothing prunes it.
#[derive(Clone, Debug)]
pub struct Set<T = Manifest> {
    /// Every definition; more than one of an object is an error.
    objects: ObjectMap<T>,
    files: BTreeMap<Arc<str>, Box<[Arc<T>]>>,
    errors: BTreeMap<Arc<str>, Vec<Error>>,
    /// How many errors are kept, and how many may be; of each file there is always one.
    kept: usize,
    most: usize,
    duplicated: BTreeSet<ObjectKey>,
    /// How many definitions there are of each kind.
    kinds: BTreeMap<Gvk, usize>,
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Self {
            objects: ObjectMap::default(),
            files: BTreeMap::new(),
            errors: BTreeMap::new(),
            kept: 0,
            most: Budget::default().of(Limit::RevisionFindings),
            duplicated: BTreeSet::new(),
            kinds: BTreeMap::new(),
        }
    }
}

/// An object that is defined more than once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is defined twice, first at {first}")]
pub struct Duplicate {
    pub key: ObjectKey,
    pub first: Location,
    pub again: Location,
}

impl Defined for Manifest {
    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    fn place(&self) -> (&str, Mark) {
        let Location { path, line, column } = &self.source;
        (
            path,
            Mark {
                line: *line,
                column: *column,
            },
        )
    }
}

impl Set {
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces what came from one file and returns the keys this may have changed. An empty `parsed` removes the file.
    pub fn update(&mut self, path: &str, parsed: Parsed) -> BTreeSet<ObjectKey> {
        keys(self.replace(path, parsed.objects, parsed.errors))
    }
}

impl Set<Entry> {
    /// Replaces what came from one file and returns every definition that this took away or added.
    pub fn take_in(&mut self, path: &str, entries: Entries) -> Vec<Arc<Entry>> {
        self.replace(path, entries.objects, entries.errors)
    }
}

impl<T: Defined> Set<T> {
    /// Keeps only so many errors: of others, how many more there are in their file.
    #[must_use]
    pub fn within(self, budget: &Budget) -> Self {
        let most = budget.of(Limit::RevisionFindings);
        Self { most, ..self }
    }

    /// Forgets what came from one file and returns the definitions that were in it.
    pub fn remove(&mut self, path: &str) -> Vec<Arc<T>> {
        self.kept -= self.errors.remove(path).map_or(0, |errors| errors.len());
        let objects = self.files.remove(path).unwrap_or_default();
        for object in &objects {
            let key = object.key();
            self.objects
                .remove(key, |other| std::ptr::eq(other, &raw const **object));
            self.note_duplicates(key);
            if let Some(count) = self.kinds.get_mut(object.gvk()) {
                *count -= 1;
                if *count == 0 {
                    self.kinds.remove(object.gvk());
                }
            }
        }
        objects.into_vec()
    }

    fn replace(&mut self, path: &str, objects: Vec<T>, errors: Vec<Error>) -> Vec<Arc<T>> {
        let mut touched = self.remove(path);
        let path: Arc<str> = path.into();
        if !errors.is_empty() {
            let errors = abridged(errors, self.most.saturating_sub(self.kept));
            self.kept += errors.len();
            self.errors.insert(Arc::clone(&path), errors);
        }
        let objects: Box<[Arc<T>]> = objects.into_iter().map(Arc::new).collect();
        for object in &objects {
            match self.kinds.get_mut(object.gvk()) {
                Some(count) => *count += 1,
                None => drop(self.kinds.insert(object.gvk().clone(), 1)),
            }
            self.objects.insert(Arc::clone(object));
            self.note_duplicates(object.key());
        }
        touched.extend(objects.iter().cloned());
        if !objects.is_empty() {
            self.files.insert(path, objects);
        }
        touched
    }

    fn note_duplicates(&mut self, key: &ObjectKey) {
        if self.places(key).nth(1).is_some() {
            self.duplicated.insert(key.clone());
        } else {
            self.duplicated.remove(key);
        }
    }

    fn places(&self, key: &ObjectKey) -> impl Iterator<Item = &Arc<T>> {
        self.objects.range(|other| other.cmp(key))
    }

    /// Returns the object, when exactly one place defines it.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<T>> {
        self.objects.get(key).filter(|_| !self.duplicated.contains(key))
    }

    /// Returns whether any place defines the object, be it more than one.
    pub fn mentions(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Returns the objects that exactly one place defines, in order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.definitions()
            .filter(|object| !self.duplicated.contains(object.key()))
    }

    /// Returns every definition of every object, in order of keys and then of places.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.values()
    }

    /// Returns every definition of the objects of one kind, in any version of its API.
    pub fn of_kind(&self, group: &str, kind: &str) -> impl Iterator<Item = &Arc<T>> {
        self.objects.of_kind(group, kind)
    }

    /// Returns every kind that is defined.
    pub fn kinds(&self) -> impl Iterator<Item = &Gvk> {
        self.kinds.keys()
    }

    /// Returns the paths of the files that define something.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(|path| &**path)
    }

    /// Returns the paths of the files in a folder that define something.
    pub fn files_in<'a>(&'a self, folder: &str) -> impl Iterator<Item = &'a str> {
        let prefix = format!("{folder}/");
        let after = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let paths = self.files.range::<str, _>(after).map(|(path, _)| &**path);
        paths.take_while(move |path| path.starts_with(&prefix))
    }

    /// Returns what one file defines.
    pub fn file(&self, path: &str) -> &[Arc<T>] {
        self.files.get(path).map_or(&[], |objects| objects)
    }

    pub fn len(&self) -> usize {
        let again: usize = self.duplicated.iter().map(|key| self.places(key).count()).sum();
        self.objects.len() - again
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns what could not be read, in order of paths. While there is any, an object that is missing here may
    /// well be wanted: prune nothing.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.errors.values().flatten()
    }

    /// Returns every definition after the first.
    pub fn duplicates(&self) -> impl Iterator<Item = Duplicate> {
        let location = |object: &Arc<T>| {
            let (path, mark) = object.place();
            mark.of(path)
        };
        self.duplicated.iter().flat_map(move |key| {
            let mut places = self.places(key).map(location);
            let first = places.next();
            places.filter_map(move |again| {
                Some(Duplicate {
                    key: key.clone(),
                    first: first.clone()?,
                    again,
                })
            })
        })
    }
}

/// Returns the first errors of a file, at least one, and how many more there are.
fn abridged(mut errors: Vec<Error>, room: usize) -> Vec<Error> {
    let left_out = errors.split_off(errors.len().min(room.max(1)));
    if let Some(first) = left_out.first() {
        let count = |error: &Error| match error.problem {
            Problem::More(more) => more,
            _ => 1,
        };
        errors.push(Error {
            location: first.location.clone(),
            problem: Problem::More(left_out.iter().map(count).sum()),
        });
    }
    errors
}

fn keys<T: Defined>(objects: Vec<Arc<T>>) -> BTreeSet<ObjectKey> {
    objects.iter().map(|object| object.key().clone()).collect()
}
