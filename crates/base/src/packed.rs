//! JSON documents kept small, for what is kept by the ten thousand: the objects of Git and those of the watch cache.
//!
//! A document is a run of bytes: a tag, then what the tag says. Objects of one kind have the same names of fields, and
//! some texts come up in all of them: those are numbers in one table that every document of the process shares. The
//! table only grows, up to a limit; what isn't in it is spelled out. So equal bytes are equal documents, and equal
//! documents can have different bytes.

mod view;
mod words;
mod write;

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer};
use serde_json::Value;

pub use view::{Named, View};
use words::WORDS;
use write::{Packer, Reading};

/// A JSON document in few bytes. A clone shares them.
#[derive(Clone)]
pub struct Packed(Arc<[u8]>);

impl Packed {
    pub fn of(value: &Value) -> Self {
        let mut packer = Packer::new(&WORDS);
        packer.value(value);
        packer.done()
    }

    /// Returns the document as it was, in the order of its fields.
    pub fn value(&self) -> Value {
        self.view().value()
    }

    /// Returns the document to look into without unpacking it.
    pub fn view(&self) -> View<'_> {
        View(&self.0)
    }

    /// Returns the document with what `choose` says of each part, by the names of fields that lead there; the items of a
    /// list have the name `*`.
    #[must_use]
    pub fn sifted(&self, choose: impl Fn(&[&str], View<'_>) -> Part) -> Self {
        let mut packer = Packer::new(&WORDS);
        packer.sift(self.view(), &mut Vec::new(), &choose);
        packer.done()
    }

    /// Returns how many bytes it has.
    pub fn size(&self) -> usize {
        self.0.len()
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.value() == other.value()
    }
}

impl fmt::Debug for Packed {
    /// Leaves the content out: it may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packed({} bytes)", self.size())
    }
}

impl<'de> serde::Deserialize<'de> for Packed {
    /// Packs as it reads: the tree of the document never exists.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut packer = Packer::new(&WORDS);
        Reading(&mut packer).deserialize(deserializer)?;
        Ok(packer.done())
    }
}

/// What becomes of a part of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Keep,
    Drop,
    /// It is kept, and its own parts are asked about.
    Sift,
}

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
/// A varint.
const WHOLE: u8 = 3;
/// `-1 - n` for a varint n.
const NEGATIVE: u8 = 4;
/// Eight bytes, the lowest first.
const FLOAT: u8 = 5;
/// A varint for the length, and so many bytes.
const TEXT: u8 = 6;
/// A varint: the number of a word.
const WORD: u8 = 7;
/// Values up to `END`.
const LIST: u8 = 8;
const END: u8 = 9;
/// Names and values up to `LAST`.
const FIELDS: u8 = 10;
const NO_FIELDS: u8 = 11;
/// From here on: a text with as many bytes as the tag is above this.
const SHORT: u8 = 16;

/// In the place of a name: there is no further one.
const LAST: u64 = 0;
/// In the place of a name: it is spelled out. Anything above is a word, counted from here.
const SPELLED: u64 = 1;

#[cfg(test)]
mod tests;
