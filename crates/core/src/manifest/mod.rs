//! Bytes to objects that know where every field of theirs was written; and sets of them.
//!
//! What a file means here is what `kubectl` would make of it, with one difference: where `kubectl`
//! silently guesses (a key written twice, a key `y` that becomes `true`), this refuses and says how to write it.
//! Nothing here knows a cluster: whether a kind is namespaced, and what its schema is, is decided elsewhere.

mod edit;
mod entry;
mod error;
mod object;
mod object_map;
mod obstacle;
mod position;
mod scalar;
mod set;
mod write;
mod yaml;

use std::fmt;

use serde_json::Value;

pub use edit::{Change, NotEditable, edit};
pub use entry::{Entries, Entry, Origin, Packer};
pub use error::{Error, Problem};
pub(crate) use object::is_subdomain;
pub use object_map::{Defined, ObjectMap};
pub use obstacle::Obstacle;
pub use position::{Mark, Positions};
pub use set::{Duplicate, Set};
pub use write::block;

/// What a file may cost: who gets there is refused in time.
pub use cutover_base::budget::Budget as Limits;

use cutover_base::budget::{Limit, Size};
use cutover_karmada::name::{Gvk, Location, ObjectKey};

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
    /// The first ones; where there are more, the last of these says how many.
    pub errors: Vec<Error>,
    pub size: Size,
}

impl Parsed {
    /// Returns what an entry gives that can't be read: nothing but the reason.
    pub fn unreadable(path: &str, why: Obstacle) -> Self {
        Self {
            errors: vec![Error::unreadable(path, why)],
            ..Self::default()
        }
    }
}

/// Errors up to a limit: of the others only their number is kept.
#[derive(Debug)]
struct Errors {
    kept: Vec<Error>,
    most: usize,
    more: usize,
    /// Where the first one is that isn't kept.
    next: Option<Location>,
}

impl Errors {
    const fn up_to(most: usize) -> Self {
        Self {
            kept: Vec::new(),
            most,
            more: 0,
            next: None,
        }
    }

    fn push(&mut self, error: Error) {
        if self.kept.len() < self.most {
            self.kept.push(error);
        } else {
            self.more += 1;
            self.next.get_or_insert(error.location);
        }
    }

    fn finish(mut self) -> Vec<Error> {
        self.kept.extend(self.next.map(|location| Error {
            location,
            problem: Problem::More(self.more),
        }));
        self.kept
    }
}

/// Reads the objects of one file, YAML or JSON. A broken document doesn't keep the others from being read.
pub fn parse(source: Source<'_>, bytes: &[u8], limits: &Limits) -> Parsed {
    parse_while(source, bytes, limits, &|| true)
}

/// The same, as long as `goes_on` says so: what is there then is a part of what the file has.
pub fn parse_while(source: Source<'_>, bytes: &[u8], limits: &Limits, goes_on: &dyn Fn() -> bool) -> Parsed {
    let mut objects = Vec::new();
    let (errors, size) = parse_each(source, bytes, limits, goes_on, |object| objects.push(object));
    Parsed {
        objects,
        errors,
        size,
    }
}

/// The same, an object at a time: no more than one document is in memory, and what is made of the others.
fn parse_each(
    source: Source<'_>,
    bytes: &[u8],
    limits: &Limits,
    goes_on: &dyn Fn() -> bool,
    mut take: impl FnMut(Manifest),
) -> (Vec<Error>, Size) {
    let mut size = Size {
        files: 1,
        bytes: bytes.len(),
        ..Size::default()
    };
    let documents = match yaml::documents(source.path, bytes, limits) {
        Ok(documents) => documents,
        Err(error) => return (vec![error], size),
    };
    let mut errors = Errors::up_to(limits.of(Limit::FileFindings));
    let mut spent = yaml::Spent::new(limits, goes_on);
    for document in documents {
        if !goes_on() {
            break;
        }
        match document.read(source.path, &mut spent) {
            Ok(Some((value, positions))) => {
                let mut objects = Vec::new();
                object::collect(source, value, positions, &mut objects, &mut errors);
                size.objects += objects.len();
                objects.into_iter().for_each(&mut take);
            }
            Ok(None) => {}
            Err(error) => {
                // What the file may cost is used up: the documents after this one are not read either.
                let is_over = match error.problem {
                    Problem::Limit(over) => over.limit != Limit::FileDepth,
                    Problem::BrokenOff => true,
                    _ => false,
                };
                errors.push(error);
                if is_over {
                    break;
                }
            }
        }
    }
    size.values = spent.values();
    (errors.finish(), size)
}

/// Reads a file that is one document of any shape, such as `cutover.yaml`. `None`: the file says nothing.
pub fn parse_one(path: &str, bytes: &[u8], limits: &Limits) -> Result<Option<(Value, Positions)>, Error> {
    let mut found = None;
    let mut spent = yaml::Spent::new(limits, &|| true);
    for document in yaml::documents(path, bytes, limits)? {
        if let Some((value, positions)) = document.read(path, &mut spent)? {
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
