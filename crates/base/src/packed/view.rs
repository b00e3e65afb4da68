//! Looks into documents without unpacking them, and unpacks them.

use std::collections::HashMap;
use std::fmt;

use serde_json::{Map, Value};

use super::words::WORDS;
use super::{
    END, FALSE, FIELDS, FLOAT, LAST, LIST, NEGATIVE, NO_FIELDS, NULL, SHORT, SPELLED, TEXT, TRUE, WHOLE, WORD,
};

/// A look into a document, or into a part of one.
#[derive(Clone, Copy)]
pub struct View<'a>(pub(super) &'a [u8]);

impl fmt::Debug for View<'_> {
    /// Leaves the content out: it may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("View(..)")
    }
}

/// So many fields are looked through for each name; more are put in order first.
const FEW: usize = 32;

/// The fields of a mapping, to ask for many of them by name.
#[derive(Debug)]
pub enum Named<'a> {
    Few(View<'a>),
    Many(HashMap<&'a str, View<'a>>),
}

impl<'a> Named<'a> {
    /// Returns a field as [`View::get`] does.
    pub fn get(&self, name: &str) -> Option<View<'a>> {
        match self {
            Self::Few(view) => view.get(name),
            Self::Many(fields) => fields.get(name).copied(),
        }
    }
}

impl<'a> View<'a> {
    /// Returns the fields of a mapping, to ask for many of them: each costs the same, however many there are.
    pub fn named(self) -> Named<'a> {
        if self.fields().nth(FEW).is_none() {
            return Named::Few(self);
        }
        Named::Many(self.fields().collect())
    }

    /// Returns a field of a mapping.
    pub fn get(self, name: &str) -> Option<Self> {
        // Of a name that is there twice the last one counts, as in a tree.
        self.fields()
            .filter(|(there, _)| *there == name)
            .last()
            .map(|(_, part)| part)
    }

    /// Returns the fields of a mapping; nothing of anything else.
    pub fn fields(self) -> impl Iterator<Item = (&'a str, Self)> {
        let mut rest = Reader(if self.tag() == FIELDS { &self.0[1..] } else { &[] });
        std::iter::from_fn(move || Some((rest.name()?, rest.part()?)))
    }

    /// Returns the items of a list; nothing of anything else.
    pub fn items(self) -> impl Iterator<Item = Self> {
        let mut rest = Reader(if self.tag() == LIST { &self.0[1..] } else { &[] });
        std::iter::from_fn(move || {
            if rest.0.first() == Some(&END) {
                None
            } else {
                rest.part()
            }
        })
    }

    pub fn as_str(self) -> Option<&'a str> {
        Reader(self.0).text()
    }

    pub fn value(self) -> Value {
        Reader(self.0).value()
    }

    pub fn is_mapping(self) -> bool {
        matches!(self.tag(), FIELDS | NO_FIELDS)
    }

    pub fn is_list(self) -> bool {
        self.tag() == LIST
    }

    /// Returns whether two values are equal: numbers as they are written, mappings in any order.
    pub fn is_same(self, other: Self) -> bool {
        if self.bytes() == other.bytes() {
            return true;
        }
        if self.is_mapping() && other.is_mapping() {
            let there = other.named();
            self.fields().count() == other.fields().count()
                && self
                    .fields()
                    .all(|(name, part)| there.get(name).is_some_and(|there| part.is_same(there)))
        } else if self.is_list() && other.is_list() {
            self.items().count() == other.items().count()
                && self
                    .items()
                    .zip(other.items())
                    .all(|(one, other)| one.is_same(other))
        } else {
            // What became a word only later is spelled out in one of them.
            self.as_str().is_some_and(|text| other.as_str() == Some(text))
        }
    }

    pub(super) fn tag(self) -> u8 {
        self.0.first().copied().unwrap_or(NULL)
    }

    /// Returns the bytes of this value alone.
    pub(super) fn bytes(self) -> &'a [u8] {
        let mut rest = Reader(self.0);
        rest.skip();
        &self.0[..self.0.len() - rest.0.len()]
    }
}

/// Reads on from a place in a document.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => NULL,
        }
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn varint(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0_u32);
        loop {
            let byte = self.byte();
            number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
            shift += 7;
            if byte & 0x80 == 0 {
                return number;
            }
        }
    }

    fn spelled(&mut self, length: u64) -> &'a str {
        let bytes = self.bytes(usize::try_from(length).unwrap_or(usize::MAX));
        // They were a text when they were written.
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Returns the name that comes next; `None` after the last.
    fn name(&mut self) -> Option<&'a str> {
        if self.0.is_empty() {
            return None;
        }
        match self.varint() {
            LAST => None,
            SPELLED => {
                let length = self.varint();
                Some(self.spelled(length))
            }
            number => Some(WORDS.word(number - SPELLED - 1)),
        }
    }

    /// Returns a look at the value that comes next, and goes past it.
    fn part(&mut self) -> Option<View<'a>> {
        let part = View(self.0);
        if self.0.is_empty() {
            return None;
        }
        self.skip();
        Some(part)
    }

    fn text(&mut self) -> Option<&'a str> {
        Some(match self.byte() {
            TEXT => {
                let length = self.varint();
                self.spelled(length)
            }
            WORD => WORDS.word(self.varint()),
            short if short >= SHORT => self.spelled((short - SHORT).into()),
            _ => return None,
        })
    }

    fn skip(&mut self) {
        match self.byte() {
            WHOLE | NEGATIVE | WORD => drop(self.varint()),
            FLOAT => drop(self.bytes(8)),
            TEXT => {
                let length = self.varint();
                self.bytes(usize::try_from(length).unwrap_or(usize::MAX));
            }
            LIST => {
                while !matches!(self.0.first(), Some(&END) | None) {
                    self.skip();
                }
                self.byte();
            }
            FIELDS => {
                while self.name().is_some() {
                    self.skip();
                }
            }
            short if short >= SHORT => drop(self.bytes((short - SHORT).into())),
            _ => {}
        }
    }

    fn value(&mut self) -> Value {
        let Some(&tag) = self.0.first() else {
            return Value::Null;
        };
        if matches!(tag, TEXT | WORD) || tag >= SHORT {
            return self.text().unwrap_or_default().into();
        }
        match self.byte() {
            FALSE => false.into(),
            TRUE => true.into(),
            WHOLE => self.varint().into(),
            NEGATIVE => i64::try_from(self.varint())
                .map_or(i64::MIN, |number| !number)
                .into(),
            FLOAT => {
                let bytes = self.bytes(8).try_into().unwrap_or_default();
                f64::from_le_bytes(bytes).into()
            }
            LIST => {
                let mut items = Vec::new();
                while !matches!(self.0.first(), Some(&END) | None) {
                    items.push(self.value());
                }
                self.byte();
                items.into()
            }
            FIELDS => {
                let mut fields = Map::new();
                while let Some(name) = self.name() {
                    let value = self.value();
                    fields.insert(name.to_owned(), value);
                }
                fields.into()
            }
            NO_FIELDS => Map::new().into(),
            _ => Value::Null,
        }
    }
}
