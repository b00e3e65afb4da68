//! Bytes to objects that know where every field of theirs was written; and sets of them.
//!
//! What a file means here is what `kubectl` would make of it, with one difference: where `kubectl`
//! silently guesses (a key written twice, a key `y` that becomes `true`), this refuses and says how to write it.
//! Nothing here knows a cluster: whether a kind is namespaced, and what its schema is, is decided elsewhere.

mod edit;
mod entry;
mod error;
mod object;
mod obstacle;
mod position;
mod scalar;
mod set;
mod shelf;
mod write;
mod yaml;

use std::fmt;

use serde_json::Value;

pub use edit::{Change, NotEditable, edit};
pub use entry::{Entries, Entry, Origin, Packer};
pub use error::{Error, Problem};
pub use obstacle::Obstacle;
pub use position::{Mark, Positions};
pub use set::{Duplicate, Set};
pub use shelf::{Defined, Shelf};
pub use write::block;

use crate::name::{Gvk, Location, ObjectKey};

/// Where bytes come from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Relative to the root of the repository, with `/`.
    pub path: &'a str,
    /// The id of the Git blob, when there is one.
    pub blob: Option<&'a str>,
}

impl<'a> Source<'a> {
    pub const fn new(path: &'a str) -> Self {
        Self { path, blob: None }
    }

    #[must_use]
    pub const fn blob(mut self, id: &'a str) -> Self {
        self.blob = Some(id);
        self
    }
}

/// What a file may cost. Nobody who writes manifests gets near them; who gets there is refused in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one file.
    pub bytes: usize,
    /// Documents of one file.
    pub documents: usize,
    /// How deep mappings and sequences may be nested.
    pub depth: usize,
    /// Mappings, sequences and scalars of one document, copies made by aliases included.
    pub nodes: usize,
    /// Of these, the copies made by aliases and merge keys: what a "billion laughs" file runs into.
    pub copies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 8 << 20,
            documents: 10_000,
            depth: 100,
            nodes: 1_000_000,
            copies: 20_000,
        }
    }
}

/// An object as a file asks for it.
#[derive(Clone, PartialEq)]
pub struct Manifest {
    /// The namespace is the one that is written; see [`Manifest::in_namespace`].
    pub key: ObjectKey,
    pub gvk: Gvk,
    pub value: Value,
    pub positions: Positions,
    /// Where the object begins.
    pub source: Location,
    pub blob: Option<String>,
}

impl fmt::Debug for Manifest {
    /// Leaves the content out: it may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manifest")
            .field("key", &self.key)
            .field("gvk", &self.gvk)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl Manifest {
    /// Returns where the value at a JSON pointer was written, or the nearest thing around it that was.
    pub fn location(&self, pointer: &str) -> Location {
        self.at(self.positions.value(pointer))
    }

    /// Returns where the key at a JSON pointer was written; for items of sequences, the item.
    pub fn key_location(&self, pointer: &str) -> Location {
        self.at(self.positions.key(pointer))
    }

    /// Returns the same object in another namespace, or in none for kinds of cluster scope.
    #[must_use]
    pub fn in_namespace(mut self, namespace: Option<&str>) -> Self {
        set_namespace(&mut self.value, namespace);
        self.key.namespace = namespace.map(str::to_owned);
        self
    }

    fn at(&self, mark: Mark) -> Location {
        Location {
            path: self.source.path.clone(),
            line: mark.line,
            column: mark.column,
        }
    }
}

fn set_namespace(object: &mut Value, namespace: Option<&str>) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        match namespace {
            Some(namespace) => metadata.insert("namespace".to_owned(), namespace.into()),
            None => metadata.shift_remove("namespace"),
        };
    }
}

/// What one file gave: the objects that could be read, and why others could not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    pub objects: Vec<Manifest>,
    pub errors: Vec<Error>,
}

impl Parsed {
    /// Returns what an entry gives that can't be read: nothing but the reason.
    pub fn unreadable(path: &str, why: Obstacle) -> Self {
        Self {
            objects: Vec::new(),
            errors: vec![Error::unreadable(path, why)],
        }
    }
}

/// Reads the objects of one file, YAML or JSON. A broken document doesn't keep the others from being read.
pub fn parse(source: Source<'_>, bytes: &[u8], limits: &Limits) -> Parsed {
    let mut parsed = Parsed::default();
    let documents = match yaml::documents(source.path, bytes, limits) {
        Ok(documents) => documents,
        Err(error) => {
            parsed.errors.push(error);
            return parsed;
        }
    };
    for document in documents {
        match document.read(source.path, limits) {
            Ok(Some((value, positions))) => object::collect(source, value, positions, &mut parsed),
            Ok(None) => {}
            Err(error) => parsed.errors.push(error),
        }
    }
    parsed
}

/// Reads a file that is one document of any shape, such as `cutover.yaml`. `None`: the file says nothing.
pub fn parse_one(path: &str, bytes: &[u8], limits: &Limits) -> Result<Option<(Value, Positions)>, Error> {
    let mut found = None;
    for document in yaml::documents(path, bytes, limits)? {
        if let Some((value, positions)) = document.read(path, limits)? {
            if found.is_some() {
                return Err(Error::new(path, positions.root(), Problem::SecondDocument));
            }
            found = Some((value, positions));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
