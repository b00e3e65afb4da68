//! YAML 1.2 text (JSON is a subset) to values with positions, in bounded time and memory.
//!
//! A file is cut at its `---` lines before it is parsed: no document can contain one, so an error in one document
//! says nothing about the next. Comments are not kept. Values are what [`super::scalar`] says; anchors, aliases and
//! merge keys are resolved; what they copy is counted in values and in bytes, over the whole file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::error::quoted;
use super::position::Field;
use super::scalar::{self, Plain};
use super::{Error, Limits, Mark, Positions, Problem};
use cutover_base::budget::{Exceeded, Limit};

/// The text of one document and where it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Document<'a> {
    pub(super) text: &'a str,
    /// Lines of the file before it.
    pub(super) before: usize,
}

/// Cuts a file into its documents.
pub(super) fn documents<'a>(
    path: &str,
    bytes: &'a [u8],
    limits: &Limits,
) -> Result<Vec<Document<'a>>, Error> {
    let start = |problem| Error::new(path, Mark::START, problem);
    let check = |limit, amount| {
        limits
            .check(limit, amount)
            .map_err(|over| start(Problem::Limit(over)))
    };
    check(Limit::FileBytes, bytes.len())?;
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let last = good.rsplit('\n').next().unwrap_or_default();
        let mark = Mark {
            line: narrow(good.matches('\n').count() + 1),
            column: narrow(last.chars().count() + 1),
        };
        Error::new(path, mark, Problem::Encoding)
    })?;
    let most = limits.of(Limit::FileDocuments);
    let documents = cut(text.strip_prefix('\u{feff}').unwrap_or(text), most);
    check(Limit::FileDocuments, documents.len())?;
    Ok(documents)
}

/// Of more documents than there may be, only so many are cut off that this can be told.
fn cut(text: &str, most: usize) -> Vec<Document<'_>> {
    let mut documents = Vec::new();
    let (mut from, mut before, mut offset) = (0, 0, 0);
    let (mut ended, mut directives) = (false, false);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if (ended || is_marker(line, "---") && !directives) && offset > from {
            documents.push(Document {
                text: &text[from..offset],
                before,
            });
            (from, before) = (offset, number);
            if documents.len() > most {
                return documents;
            }
        }
        ended = is_marker(line, "...");
        // `%TAG` lines belong to the document whose `---` follows them.
        directives = line.starts_with('%') || directives && (line.trim().is_empty() || line.starts_with('#'));
        offset += line.len();
    }
    if offset > from {
        documents.push(Document {
            text: &text[from..],
            before,
        });
    }
    documents
}

fn is_marker(line: &str, marker: &str) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// What of the limits the documents of one file have used up so far.
pub(super) struct Spent<'a> {
    limits: &'a Limits,
    goes_on: &'a dyn Fn() -> bool,
    values: usize,
    copies: usize,
    copied_bytes: usize,
}

impl<'a> Spent<'a> {
    /// `goes_on` says from time to time whether to go on.
    pub(super) const fn new(limits: &'a Limits, goes_on: &'a dyn Fn() -> bool) -> Self {
        Self {
            limits,
            goes_on,
            values: 0,
            copies: 0,
            copied_bytes: 0,
        }
    }

    /// Returns how many mappings, sequences and scalars there are, copies included.
    pub(super) const fn values(&self) -> usize {
        self.values
    }

    fn value(&mut self, depth: usize) -> Result<(), Problem> {
        /// A few milliseconds.
        const OFTEN: usize = 4096;
        self.values += 1;
        if self.values.is_multiple_of(OFTEN) && !(self.goes_on)() {
            return Err(Problem::BrokenOff);
        }
        self.limits
            .check(Limit::FileValues, self.values)
            .and_then(|()| self.limits.check(Limit::FileDepth, depth))
            .map_err(Problem::Limit)
    }

    /// Counts a copy before it is made.
    fn copy(&mut self, size: Copied) -> Result<(), Exceeded> {
        self.copies += size.values;
        self.copied_bytes += size.bytes;
        self.limits.check(Limit::FileCopies, self.copies)?;
        self.limits.check(Limit::FileCopiedBytes, self.copied_bytes)
    }
}

impl Document<'_> {
    /// Reads the document. `None`: it is empty, or holds comments only.
    pub(super) fn read(
        &self,
        path: &str,
        spent: &mut Spent<'_>,
    ) -> Result<Option<(Value, Positions)>, Error> {
        let json = self.text.trim_start().starts_with(['{', '[']);
        let text = if json {
            join_surrogates(self.text)
        } else {
            Cow::Borrowed(self.text)
        };
        Reader {
            document: *self,
            path,
            spent,
            parser: Parser::new_from_str(&text),
            anchors: BTreeMap::new(),
            bytes: 0,
            deepest: 0,
        }
        .document()
    }
}

/// Writes the pairs of escapes by which JSON spells characters beyond U+FFFF in the way of YAML, which has no pairs.
///
/// A column to the right of such a pair, in the same line, is told two too low.
fn join_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\u") {
        return Cow::Borrowed(text);
    }
    let mut joined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        joined.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(pair) = surrogate_pair(rest) {
            let _ = write!(joined, "\\U{:08X}", u32::from(pair));
            rest = &rest[12..];
        } else {
            let escape = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
            joined.push_str(&rest[..escape]);
            rest = &rest[escape..];
        }
    }
    joined.push_str(rest);
    Cow::Owned(joined)
}

fn surrogate_pair(text: &str) -> Option<char> {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?, 16).ok();
    let units = [unit(text.get(..6)?)?, unit(text.get(6..12)?)?];
    match char::decode_utf16(units).next()? {
        Ok(pair) if pair.len_utf16() == 2 => Some(pair),
        _ => None,
    }
}

struct Reader<'a, 's> {
    document: Document<'a>,
    path: &'a str,
    spent: &'a mut Spent<'s>,
    parser: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Anchored>,
    /// Bytes of all texts so far, copies included.
    bytes: usize,
    /// How deep what was read went.
    deepest: usize,
}

/// A value that aliases may copy.
struct Anchored {
    value: Value,
    positions: Positions,
    size: Copied,
}

/// What a copy of a value takes.
#[derive(Clone, Copy)]
struct Copied {
    values: usize,
    bytes: usize,
    /// How many levels of it are below each other.
    height: usize,
}

type Node = (Value, Positions);

impl<'a> Reader<'a, '_> {
    fn document(mut self) -> Result<Option<Node>, Error> {
        let mut found = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => break,
                Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
                // `a: 1`, `...`, `b: 2` is two documents without a `---` between them.
                _ if found.is_some() => {
                    return Err(self.error(
                        span.start,
                        Problem::Syntax {
                            message: "a new document begins here".to_owned(),
                            tab: false,
                        },
                    ));
                }
                event => found = Some(self.node(event, span, 0)?),
            }
        }
        Ok(found.filter(|(value, _)| !value.is_null()))
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Error> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(self.syntax(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Error> {
        let (values, bytes) = (self.spent.values, self.bytes);
        self.count(span, depth)?;
        let above = std::mem::replace(&mut self.deepest, depth);
        let (anchor, node) = match event {
            Event::Alias(id) => {
                let node = self.alias(id, span, depth)?;
                self.deepest = self.deepest.max(above);
                return Ok(node);
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.bytes += text.len();
                let value = self.scalar(&text, style, tag.as_deref(), span)?;
                (anchor, (value, Positions::scalar(self.mark(span.start))))
            }
            Event::SequenceStart(anchor, tag) => {
                self.expect_tag(tag.as_deref(), "seq", span)?;
                (anchor, self.sequence(span, depth)?)
            }
            Event::MappingStart(anchor, tag) => {
                self.expect_tag(tag.as_deref(), "map", span)?;
                (anchor, self.mapping(span, depth)?)
            }
            _ => {
                let message = "something else than a value".to_owned();
                return Err(self.error(span.start, Problem::Syntax { message, tab: false }));
            }
        };
        if anchor > 0 {
            let size = Copied {
                values: self.spent.values - values,
                bytes: self.bytes - bytes,
                height: self.deepest - depth,
            };
            self.copy(size, span)?;
            let (value, positions) = node.clone();
            self.anchors.insert(
                anchor,
                Anchored {
                    value,
                    positions,
                    size,
                },
            );
        }
        self.deepest = self.deepest.max(above);
        Ok(node)
    }

    fn count(&mut self, span: Span, depth: usize) -> Result<(), Error> {
        self.spent
            .value(depth)
            .map_err(|problem| self.error(span.start, problem))
    }

    /// Counts a copy of a value: an anchor makes one, to have it for its aliases, and so does each alias.
    fn copy(&mut self, size: Copied, span: Span) -> Result<(), Error> {
        self.spent
            .copy(size)
            .map_err(|over| self.error(span.start, Problem::Limit(over)))
    }

    fn alias(&mut self, id: usize, span: Span, depth: usize) -> Result<Node, Error> {
        let Some(size) = self.anchors.get(&id).map(|anchored| anchored.size) else {
            return Err(self.error(span.start, Problem::RecursiveAlias));
        };
        self.copy(size, span)?;
        self.spent.values += size.values;
        self.bytes += size.bytes;
        // Aliases in anchors would otherwise nest as deep as nothing that is written out can.
        self.deepest = self.deepest.max(depth + size.height);
        let limits = self.spent.limits;
        limits
            .check(Limit::FileDepth, self.deepest)
            .map_err(|over| self.error(span.start, Problem::Limit(over)))?;
        match self.anchors.get(&id) {
            Some(anchored) => Ok((anchored.value.clone(), anchored.positions.clone())),
            None => Err(self.error(span.start, Problem::RecursiveAlias)),
        }
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<Node, Error> {
        let (mut items, mut positions) = (Vec::new(), Vec::new());
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                break;
            }
            let (value, position) = self.node(event, span, depth + 1)?;
            items.push(value);
            positions.push(position);
        }
        let at = self.mark(start.start);
        items.shrink_to_fit();
        Ok((Value::Array(items), Positions::sequence(at, positions)))
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<Node, Error> {
        let mut fields = Fields::default();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                break;
            }
            let at = self.mark(span.start);
            let key = self.key(event, span)?;
            let (event, value_span) = self.next()?;
            let (value, positions) = self.node(event, value_span, depth + 1)?;
            let problem = match key {
                Key::Merge => fields.merge(value, &positions, at),
                Key::Field(key) => fields.insert(
                    key,
                    value,
                    Field {
                        key: at,
                        value: positions,
                    },
                    self.path,
                ),
            };
            problem.map_err(|problem| self.error(span.start, problem))?;
        }
        let at = self.mark(start.start);
        Ok((
            Value::Object(fields.values),
            Positions::mapping(at, fields.positions),
        ))
    }

    fn key(&mut self, event: Event<'a>, span: Span) -> Result<Key, Error> {
        self.count(span, 0)?;
        let (text, style, tag) = match event {
            Event::Scalar(text, style, _, tag) => (text, style, tag),
            Event::Alias(id) => return self.alias_key(id, span),
            _ => return Err(self.error(span.start, Problem::CompositeKey)),
        };
        self.bytes += text.len();
        let plain = style == ScalarStyle::Plain && tag.is_none();
        if plain && text == "<<" {
            return Ok(Key::Merge);
        }
        if plain {
            let meaning = match (scalar::resolve(&text), text.to_ascii_lowercase().as_str()) {
                (Plain::Null, _) => "null",
                (Plain::NotJson, _) => "a number",
                // Nobody means the key "true" when they write the coordinate `y`.
                (Plain::Bool(_), lower) if lower != "true" && lower != "false" => "a boolean",
                (Plain::Bool(value), _) => return Ok(Key::Field(value.to_string())),
                (Plain::Number(number), _) => return Ok(Key::Field(number.to_string())),
                (Plain::Text, _) => return Ok(Key::Field(text.into_owned())),
            };
            return Err(self.error(span.start, Problem::KeyNotString(quoted(&text), meaning)));
        }
        match self.scalar(&text, style, tag.as_deref(), span)? {
            Value::String(key) => Ok(Key::Field(key)),
            other => Ok(Key::Field(other.to_string())),
        }
    }

    fn alias_key(&mut self, id: usize, span: Span) -> Result<Key, Error> {
        match self.alias(id, span, 0)?.0 {
            Value::String(text) => Ok(Key::Field(text)),
            _ => Err(self.error(span.start, Problem::CompositeKey)),
        }
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Result<Value, Error> {
        let plain =
            || scalar::value(text).ok_or_else(|| self.error(span.start, Problem::NotJson(quoted(text))));
        let Some(tag) = tag else {
            return if style == ScalarStyle::Plain {
                plain()
            } else {
                Ok(Value::String(text.to_owned()))
            };
        };
        let name = core_tag(tag).ok_or_else(|| self.error(span.start, Problem::Tag(tag_text(tag))))?;
        if name == "str" {
            return Ok(Value::String(text.to_owned()));
        }
        let (value, what) = (plain()?, kind_of_tag(name));
        let fits = match name {
            "null" => value.is_null(),
            "bool" => value.is_boolean(),
            "int" => value.is_i64() || value.is_u64(),
            "float" => value.is_number(),
            _ => false,
        };
        if fits {
            Ok(value)
        } else {
            Err(self.error(span.start, Problem::TagMismatch(what)))
        }
    }

    fn expect_tag(&self, tag: Option<&Tag>, expected: &str, span: Span) -> Result<(), Error> {
        match tag {
            Some(tag) if core_tag(tag) != Some(expected) => {
                Err(self.error(span.start, Problem::Tag(tag_text(tag))))
            }
            _ => Ok(()),
        }
    }

    fn mark(&self, marker: Marker) -> Mark {
        Mark {
            line: narrow(marker.line() + self.document.before),
            column: narrow(marker.col() + 1),
        }
    }

    fn error(&self, marker: Marker, problem: Problem) -> Error {
        Error::new(self.path, self.mark(marker), problem)
    }

    fn syntax(&self, error: &ScanError) -> Error {
        let marker = *error.marker();
        let line = self
            .document
            .text
            .lines()
            .nth(marker.line().saturating_sub(1))
            .unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        self.error(
            marker,
            Problem::Syntax {
                message: quoted(error.info()),
                tab: line[..indent].contains('\t'),
            },
        )
    }
}

enum Key {
    Merge,
    Field(String),
}

/// A mapping while it is read.
#[derive(Default)]
struct Fields {
    values: Map<String, Value>,
    positions: BTreeMap<Box<str>, Field>,
    /// What is here by a merge key, and may therefore be overwritten.
    merged: BTreeSet<Box<str>>,
}

impl Fields {
    fn insert(&mut self, key: String, value: Value, field: Field, path: &str) -> Result<(), Problem> {
        if let Some(first) = self.positions.get(key.as_str())
            && !self.merged.remove(key.as_str())
        {
            return Err(Problem::DuplicateKey {
                first: first.key.of(path),
                key: quoted(&key),
            });
        }
        self.positions.insert(key.as_str().into(), field);
        self.values.insert(key, value);
        Ok(())
    }

    /// Takes the fields of a mapping, or of several of which the earlier wins.
    fn merge(&mut self, value: Value, positions: &Positions, at: Mark) -> Result<(), Problem> {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    self.merge_field(key, value, positions, at)?;
                }
                Ok(())
            }
            Value::Array(items) => {
                items
                    .into_iter()
                    .enumerate()
                    .try_for_each(|(index, item)| match positions.item(index) {
                        Some(positions) if item.is_object() => self.merge(item, positions, at),
                        _ => Err(Problem::BadMerge),
                    })
            }
            _ => Err(Problem::BadMerge),
        }
    }

    fn merge_field(&mut self, key: String, value: Value, from: &Positions, at: Mark) -> Result<(), Problem> {
        if self.merged.contains(key.as_str()) {
            return Ok(());
        }
        if self.positions.contains_key(key.as_str()) {
            return Err(Problem::LateMerge { key: quoted(&key) });
        }
        let field = from.field(&key).cloned().unwrap_or_else(|| Field {
            key: at,
            value: Positions::scalar(at),
        });
        self.positions.insert(key.as_str().into(), field);
        self.merged.insert(key.as_str().into());
        self.values.insert(key, value);
        Ok(())
    }
}

/// Returns the name of a tag of the core schema, such as `int`; `!` alone makes a scalar a string.
fn core_tag(tag: &Tag) -> Option<&str> {
    if tag.is_yaml_core_schema() {
        matches!(
            tag.suffix.as_str(),
            "str" | "int" | "float" | "bool" | "null" | "map" | "seq"
        )
        .then_some(tag.suffix.as_str())
    } else {
        (tag.handle.is_empty() && tag.suffix == "!").then_some("str")
    }
}

fn kind_of_tag(name: &str) -> &'static str {
    match name {
        "null" => "!!null",
        "bool" => "!!bool",
        "int" => "!!int",
        "float" => "!!float",
        "map" => "!!map",
        "seq" => "!!seq",
        _ => "!!str",
    }
}

fn tag_text(tag: &Tag) -> String {
    if tag.is_yaml_core_schema() {
        format!("!!{}", quoted(&tag.suffix))
    } else {
        quoted(&format!("{}{}", tag.handle, tag.suffix))
    }
}

/// A file has far fewer lines and columns than fit; [`Limit::FileBytes`] sees to it.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
