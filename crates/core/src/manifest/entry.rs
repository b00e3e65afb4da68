//! An object of a file as it is kept by the ten thousand: who it is, where it stands, and its content packed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::{Defined, Error, Limits, Manifest, Mark, Obstacle, Positions, Source, parse_each};
use cutover_base::budget::Size;
use cutover_base::packed::{Packed, View};
use cutover_karmada::name::{Gvk, Location, ObjectKey};

/// A file, and which content of it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub path: Arc<str>,
    /// The id of the Git blob, when there is one.
    pub blob: Option<Box<str>>,
    /// What the file was when it was read.
    pub size: Size,
}

/// An object of a file, kept small; [`Entry::manifest`] unpacks it.
#[derive(Clone)]
pub struct Entry {
    /// In the namespace that the object goes to.
    pub key: ObjectKey,
    pub gvk: Arc<Gvk>,
    origin: Arc<Origin>,
    /// Which object of the file it is.
    index: u32,
    at: Mark,
    /// As it is written.
    content: Packed,
    /// Another namespace than the one that is written.
    moved: bool,
}

impl fmt::Debug for Entry {
    /// Leaves the content out: it may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("source", &self.source())
            .finish_non_exhaustive()
    }
}

impl Defined for Entry {
    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    fn place(&self) -> (&str, Mark) {
        (&self.origin.path, self.at)
    }
}

impl Entry {
    /// Returns where the object begins.
    pub fn source(&self) -> Location {
        self.at.of(&self.origin.path)
    }

    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns which object of its file it is.
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Returns the object as it goes to the API server.
    pub fn value(&self) -> Value {
        let mut value = self.content.value();
        if self.moved {
            super::set_namespace(&mut value, self.key.namespace.as_deref());
        }
        value
    }

    /// Returns a look at what is written: its namespace may not be the one that it goes to.
    pub fn written(&self) -> View<'_> {
        self.content.view()
    }

    /// Returns the object. Where its fields are written, it doesn't know: they all count as written where it begins.
    pub fn manifest(&self) -> Manifest {
        Manifest {
            key: self.key.clone(),
            gvk: Gvk::clone(&self.gvk),
            value: self.value(),
            positions: Positions::scalar(self.at),
            source: self.source(),
            blob: self.origin.blob.as_deref().map(str::to_owned),
        }
    }

    /// Returns the same object in another namespace, or in none for kinds of cluster scope.
    #[must_use]
    pub fn in_namespace(&self, namespace: Option<&str>) -> Self {
        let mut entry = self.clone();
        entry.key.namespace = namespace.map(str::to_owned);
        entry.moved = true;
        entry
    }

    /// Returns whether the API server would be sent the same.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let as_written = || self.moved == other.moved && self.content == other.content;
        // What is written of the namespace doesn't count for what goes to another one.
        let as_sent = || (self.moved || other.moved) && self.value() == other.value();
        self.key == other.key && self.gvk == other.gvk && (as_written() || as_sent())
    }
}

/// What one file gave, kept small.
#[derive(Debug, Default)]
pub struct Entries {
    pub objects: Vec<Entry>,
    pub errors: Vec<Error>,
    pub size: Size,
}

impl Entries {
    /// Returns what an entry of a tree gives that can't be read: nothing but the reason.
    pub fn unreadable(path: &str, why: Obstacle) -> Self {
        Self {
            errors: vec![Error::unreadable(path, why)],
            ..Self::default()
        }
    }
}

/// Packs what files give. Those of one packer share what their objects have in common.
#[derive(Debug, Default)]
pub struct Packer {
    kinds: BTreeMap<Gvk, Arc<Gvk>>,
}

impl Packer {
    /// Reads the objects of one file; see [`super::parse`].
    pub fn read(&mut self, source: Source<'_>, bytes: &[u8], limits: &Limits) -> Entries {
        self.read_while(source, bytes, limits, &|| true)
    }

    /// The same, as long as `goes_on` says so; see [`super::parse_while`].
    pub fn read_while(
        &mut self,
        source: Source<'_>,
        bytes: &[u8],
        limits: &Limits,
        goes_on: &dyn Fn() -> bool,
    ) -> Entries {
        let mut packed = Vec::new();
        let take = |manifest| packed.push(self.pack(manifest));
        let (errors, size) = parse_each(source, bytes, limits, goes_on, take);
        let origin = Arc::new(Origin {
            path: source.path.into(),
            blob: source.blob.map(Into::into),
            size,
        });
        let objects = packed.into_iter().zip(0..);
        Entries {
            objects: objects
                .map(|(object, index)| object.entry(index, &origin))
                .collect(),
            errors,
            size,
        }
    }

    fn pack(&mut self, manifest: Manifest) -> Object {
        let gvk = self
            .kinds
            .entry(manifest.gvk)
            .or_insert_with_key(|gvk| Arc::new(gvk.clone()));
        Object {
            key: manifest.key,
            gvk: Arc::clone(gvk),
            at: manifest.positions.root(),
            content: Packed::of(&manifest.value),
        }
    }
}

/// An object that is packed before all of its file is known.
struct Object {
    key: ObjectKey,
    gvk: Arc<Gvk>,
    at: Mark,
    content: Packed,
}

impl Object {
    fn entry(self, index: u32, origin: &Arc<Origin>) -> Entry {
        Entry {
            key: self.key,
            gvk: self.gvk,
            origin: Arc::clone(origin),
            index,
            at: self.at,
            content: self.content,
            moved: false,
        }
    }
}

impl From<&Manifest> for Entry {
    fn from(manifest: &Manifest) -> Self {
        let origin = Origin {
            path: manifest.source.path.as_str().into(),
            blob: manifest.blob.as_deref().map(Into::into),
            size: Size::default(),
        };
        Packer::default()
            .pack(manifest.clone())
            .entry(0, &Arc::new(origin))
    }
}
