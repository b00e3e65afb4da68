//! Writes documents: from trees, from text as it is read, and from parts of other documents.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

use super::words::{Use, Words};
use super::{
    END, FALSE, FIELDS, FLOAT, LAST, LIST, NEGATIVE, NO_FIELDS, NULL, Packed, Part, SHORT, SPELLED, TEXT,
    TRUE, View, WHOLE, WORD,
};

/// Writes a document.
pub(super) struct Packer {
    bytes: Vec<u8>,
    words: &'static Words,
}

impl Packer {
    pub(super) fn new(words: &'static Words) -> Self {
        Self {
            bytes: Vec::new(),
            words,
        }
    }

    pub(super) fn done(self) -> Packed {
        Packed(self.bytes.into())
    }

    pub(super) fn value(&mut self, value: &Value) {
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

    pub(super) fn sift<'a>(
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
pub(super) struct Reading<'a>(pub(super) &'a mut Packer);

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
