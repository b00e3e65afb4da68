//! JSON documents kept small, for what is kept by the ten thousand: the objects of Git and those of the watch cache.
//!
//! A document is a run of bytes: a tag, then what the tag says. Objects of one kind have the same names of fields, and
//! some texts come up in all of them: those are numbers in one table that every document of the process shares. The
//! table only grows, up to a limit; what isn't in it is spelled out. So equal bytes are equal documents, and equal
//! documents can have different bytes.

mod words;

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use words::{Use, WORDS, Words};

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

/// Writes a document.
struct Packer {
    bytes: Vec<u8>,
    words: &'static Words,
}

impl Packer {
    fn new(words: &'static Words) -> Self {
        Self {
            bytes: Vec::new(),
            words,
        }
    }

    fn done(self) -> Packed {
        Packed(self.bytes.into())
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.bytes.push(NULL),
            Value::Bool(value) => self.bool(*value),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.bytes.push(LIST);
                for item in items {
                    self.value(item);
                }
                self.bytes.push(END);
            }
            Value::Object(fields) => {
                let start = self.begin_fields();
                for (name, value) in fields {
                    self.name(name);
                    self.value(value);
                }
                self.end_fields(start);
            }
        }
    }

    fn bool(&mut self, value: bool) {
        self.bytes.push(if value { TRUE } else { FALSE });
    }

    fn number(&mut self, number: &Number) {
        match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(whole), ..) => self.whole(whole),
            (None, Some(negative), _) => self.negative(negative),
            (None, None, float) => self.float(float.unwrap_or_default()),
        }
    }

    fn whole(&mut self, number: u64) {
        self.bytes.push(WHOLE);
        self.varint(number);
    }

    fn negative(&mut self, number: i64) {
        self.bytes.push(NEGATIVE);
        // `!n` is `-1 - n`: not negative, as `n` is.
        self.varint((!number).unsigned_abs());
    }

    fn float(&mut self, number: f64) {
        self.bytes.push(FLOAT);
        self.bytes.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        if let Some(number) = self.words.number(text, Use::Text) {
            self.bytes.push(WORD);
            self.varint(number.into());
            return;
        }
        match u8::try_from(text.len())
            .ok()
            .and_then(|length| length.checked_add(SHORT))
        {
            Some(tag) => self.bytes.push(tag),
            None => {
                self.bytes.push(TEXT);
                self.varint(text.len() as u64);
            }
        }
        self.bytes.extend(text.as_bytes());
    }

    fn begin_fields(&mut self) -> usize {
        self.bytes.push(FIELDS);
        self.bytes.len()
    }

    fn end_fields(&mut self, start: usize) {
        if self.bytes.len() == start {
            self.bytes[start - 1] = NO_FIELDS;
        } else {
            self.varint(LAST);
        }
    }

    fn name(&mut self, name: &str) {
        match self.words.number(name, Use::Name) {
            Some(number) => self.varint(SPELLED + 1 + u64::from(number)),
            None => {
                self.varint(SPELLED);
                self.varint(name.len() as u64);
                self.bytes.extend(name.as_bytes());
            }
        }
    }

    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.bytes.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.bytes.push(number.to_le_bytes()[0]);
    }

    fn part<'a>(
        &mut self,
        part: View<'a>,
        choice: Part,
        path: &mut Vec<&'a str>,
        choose: &impl Fn(&[&str], View<'_>) -> Part,
    ) {
        match choice {
            Part::Sift => self.sift(part, path, choose),
            Part::Keep | Part::Drop => self.bytes.extend(part.bytes()),
        }
    }

    fn sift<'a>(
        &mut self,
        view: View<'a>,
        path: &mut Vec<&'a str>,
        choose: &impl Fn(&[&str], View<'_>) -> Part,
    ) {
        match view.tag() {
            FIELDS => {
                let start = self.begin_fields();
                for (name, part) in view.fields() {
                    path.push(name);
                    let choice = choose(path, part);
                    if choice != Part::Drop {
                        self.name(name);
                        self.part(part, choice, path, choose);
                    }
                    path.pop();
                }
                self.end_fields(start);
            }
            LIST => {
                self.bytes.push(LIST);
                path.push("*");
                for part in view.items() {
                    let choice = choose(path, part);
                    if choice != Part::Drop {
                        self.part(part, choice, path, choose);
                    }
                }
                path.pop();
                self.bytes.push(END);
            }
            _ => self.bytes.extend(view.bytes()),
        }
    }
}

/// Reads whatever comes into a packer.
struct Reading<'a>(&'a mut Packer);

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.bytes.push(NULL);
        Ok(())
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.bool(value);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.0.whole(number);
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.0.number(&number.into());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        match Number::from_f64(number) {
            Some(number) => self.0.number(&number),
            None => self.0.bytes.push(NULL),
        }
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.bytes.push(LIST);
        while items.next_element_seed(Reading(self.0))?.is_some() {}
        self.0.bytes.push(END);
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let start = self.0.begin_fields();
        while fields.next_key_seed(Naming(self.0))?.is_some() {
            fields.next_value_seed(Reading(self.0))?;
        }
        self.0.end_fields(start);
        Ok(())
    }
}

/// Reads the name of a field into a packer.
struct Naming<'a>(&'a mut Packer);

impl<'de> DeserializeSeed<'de> for Naming<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Naming<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E>(self, name: &str) -> Result<(), E> {
        self.0.name(name);
        Ok(())
    }
}

/// A look into a document, or into a part of one.
#[derive(Clone, Copy)]
pub struct View<'a>(&'a [u8]);

impl fmt::Debug for View<'_> {
    /// Leaves the content out: it may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("View(..)")
    }
}

impl<'a> View<'a> {
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

    fn tag(self) -> u8 {
        self.0.first().copied().unwrap_or(NULL)
    }

    /// Returns the bytes of this value alone.
    fn bytes(self) -> &'a [u8] {
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

#[cfg(test)]
mod tests;
