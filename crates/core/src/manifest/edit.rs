//! Changes single fields in the text of a file, and leaves every other byte as it is: comments, order, style.
//!
//! An edit is made on the text and then proved: the file is read again and has to say what it said before, with just that
//! difference. Where it doesn't (aliases, styles that nobody foresaw), nothing is changed.

use std::ops::Range;

use saphyr_parser::{Event, Marker, Parser, Span, StrInput};
use serde_json::Value;

use super::write::block;
use super::{Limits, Manifest, Mark, Parsed, Source, parse, yaml};
use cutover_karmada::name::Location;

/// One change of one field, named by a JSON pointer into the object.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Gives a field a value, whether it has one or not.
    Set(&'static str, Value),
    /// Takes a field away; where a comment belongs to it, or lines can't be taken out, it is set to the value instead.
    Unset(&'static str, Value),
    /// Adds an item to a sequence, which is begun if there is none.
    Append(&'static str, Value),
    /// Changes the mapping that stands at this place of a sequence; what is changed in it is named from there.
    Within(&'static str, usize, Box<Change>),
}

/// Why a file can't be edited without a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at} is written in a way that can't be edited without risk: {why}")]
pub struct NotEditable {
    pub at: Location,
    pub why: &'static str,
}

/// Returns the text of a file with one of its objects changed. `object` must have been read from that text.
pub fn edit(text: &str, object: &Manifest, change: &Change) -> Result<String, NotEditable> {
    let refused = |why| NotEditable {
        at: object.location(change.pointer()),
        why,
    };
    let path = &object.source.path;
    let edited = Edited::new(text, path)
        .and_then(|file| file.edit(object.positions.root(), change))
        .map_err(refused)?;
    let read = |text: &str| parse(Source::new(path), text.as_bytes(), &Limits::default());
    let (before, after) = (read(text), read(&edited));
    if says(&before, &after, object, change) {
        Ok(edited)
    } else {
        Err(refused("the changed text would not say what it should"))
    }
}

impl Change {
    const fn pointer(&self) -> &'static str {
        match self {
            Self::Set(pointer, _)
            | Self::Unset(pointer, _)
            | Self::Append(pointer, _)
            | Self::Within(pointer, _, _) => pointer,
        }
    }

    /// Names the field from a mapping in the object, which it must be in.
    #[must_use]
    pub fn from(self, mapping: &str) -> Self {
        let below = |pointer: &'static str| pointer.strip_prefix(mapping).unwrap_or(pointer);
        match self {
            Self::Set(pointer, value) => Self::Set(below(pointer), value),
            Self::Unset(pointer, value) => Self::Unset(below(pointer), value),
            Self::Append(pointer, item) => Self::Append(below(pointer), item),
            Self::Within(pointer, index, change) => Self::Within(below(pointer), index, change),
        }
    }

    /// Returns what a person would have to write, in a line.
    pub fn by_hand(&self) -> String {
        let (pointer, value) = match self {
            Self::Set(pointer, value) | Self::Unset(pointer, value) => (pointer, value.clone()),
            Self::Append(pointer, item) => (pointer, Value::Array(vec![item.clone()])),
            Self::Within(pointer, index, change) => {
                return format!("{}[{index}].{}", path(pointer), change.by_hand());
            }
        };
        format!("{}: {}", path(pointer), flow(&value, false))
    }

    /// Returns what an object may be after the change.
    pub fn outcomes(&self, object: &Value) -> Vec<Value> {
        if let Self::Within(pointer, index, change) = self {
            let place = format!("{pointer}/{index}");
            let changed = object.pointer(&place).map(|item| change.outcomes(item));
            let with = |item: Value| {
                let mut object = object.clone();
                *object.pointer_mut(&place)? = item;
                Some(object)
            };
            return changed.into_iter().flatten().filter_map(with).collect();
        }
        let (parent, field) = self.place();
        let with = |value: Option<Value>| {
            let mut object = object.clone();
            let fields = object.pointer_mut(parent).and_then(Value::as_object_mut)?;
            match value {
                Some(value) => drop(fields.insert(field.to_owned(), value)),
                None => drop(fields.shift_remove(field)),
            }
            Some(object)
        };
        let outcomes = match self {
            Self::Set(_, value) => vec![with(Some(value.clone()))],
            Self::Unset(_, value) => vec![with(None), with(Some(value.clone()))],
            Self::Append(pointer, item) => {
                let mut items = match object.pointer(pointer) {
                    Some(Value::Array(items)) => items.clone(),
                    _ => Vec::new(),
                };
                items.push(item.clone());
                vec![with(Some(items.into()))]
            }
            Self::Within(..) => Vec::new(),
        };
        outcomes.into_iter().flatten().collect()
    }

    /// Returns the pointer to the mapping, and the field in it. Fields with `/` or `~` in their names are none of ours.
    fn place(&self) -> (&'static str, &'static str) {
        self.pointer().rsplit_once('/').unwrap_or(("", self.pointer()))
    }
}

/// Returns a JSON pointer as people write a field.
fn path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

fn says(before: &Parsed, after: &Parsed, object: &Manifest, change: &Change) -> bool {
    let Some(index) = before
        .objects
        .iter()
        .position(|one| one.positions.root() == object.positions.root())
    else {
        return false;
    };
    let others = |parsed: &Parsed| {
        let mut values: Vec<Value> = parsed.objects.iter().map(|object| object.value.clone()).collect();
        (index < values.len()).then(|| (values.remove(index), values))
    };
    let (Some((was, rest)), Some((is, rest_now))) = (others(before), others(after)) else {
        return false;
    };
    before.errors.len() == after.errors.len() && rest == rest_now && change.outcomes(&was).contains(&is)
}

/// A value in the text, with the bytes that it takes.
#[derive(Clone, Debug)]
struct Node {
    at: Mark,
    span: Range<usize>,
    inside: Inside,
    /// Written as `{…}` or `[…]`.
    flow: bool,
}

#[derive(Clone, Debug)]
enum Inside {
    Scalar,
    Alias,
    Items(Vec<Node>),
    Fields(Vec<(Node, String, Node)>),
}

type Edit<T> = Result<T, &'static str>;

struct Edited<'a> {
    text: &'a str,
    /// Where each line begins.
    lines: Vec<usize>,
    documents: Vec<Node>,
}

impl<'a> Edited<'a> {
    fn new(text: &'a str, path: &str) -> Edit<Self> {
        let begin = text.len() - text.strip_prefix('\u{feff}').unwrap_or(text).len();
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let mut file = Self {
            text,
            lines: std::iter::once(begin).chain(ends).collect(),
            documents: Vec::new(),
        };
        let unreadable = "the file can't be read as a whole";
        for document in yaml::documents(path, text.as_bytes(), &Limits::default()).map_err(|_| unreadable)? {
            let mut tree = Tree {
                file: &file,
                before: document.before,
                parser: Parser::new_from_str(document.text),
            };
            // What is broken in another document is not in the way.
            if let Ok(Some(node)) = tree.document() {
                file.documents.push(node);
            }
        }
        Ok(file)
    }

    fn edit(&self, object: Mark, change: &Change) -> Edit<String> {
        let root = self.documents.iter().find_map(|document| document.find(object));
        self.edit_in(root.ok_or("its place isn't found in the text")?, change)
    }

    fn edit_in(&self, root: &Node, change: &Change) -> Edit<String> {
        if let Change::Within(pointer, index, change) = change {
            let item = root.descend(pointer).and_then(|node| match &node.inside {
                Inside::Items(items) => items.get(*index),
                _ => None,
            });
            return self.edit_in(item.ok_or("its place isn't found in the text")?, change);
        }
        let (parent, field) = change.place();
        let mapping = root.descend(parent).ok_or("its place isn't found in the text")?;
        let Inside::Fields(fields) = &mapping.inside else {
            return Err("the field around it is no mapping");
        };
        let existing = fields.iter().find(|(_, name, _)| name == field);
        match (change, existing) {
            (Change::Set(_, value), Some((key, _, node))) => Ok(self.replace(key, node, value)),
            (Change::Set(_, value), None) => self.add_field(mapping, fields, field, value),
            (Change::Unset(..), None) => Ok(self.text.to_owned()),
            (Change::Unset(_, value), Some((key, _, node))) => Ok(match self.own_lines(mapping, key, node) {
                Some(lines) if fields.len() > 1 => self.splice(lines, ""),
                _ => self.replace(key, node, value),
            }),
            (Change::Append(_, item), None) => {
                self.add_field(mapping, fields, field, &Value::Array(vec![item.clone()]))
            }
            (Change::Append(_, item), Some((key, _, node))) if node.span.is_empty() => {
                Ok(self.replace(key, node, &Value::Array(vec![item.clone()])))
            }
            (Change::Append(_, item), Some((_, _, node))) => self.add_item(node, item),
            (Change::Within(..), _) => Err("it is no field"),
        }
    }

    fn replace(&self, key: &Node, node: &Node, value: &Value) -> String {
        let text = flow(value, self.is_json(key));
        if node.span.is_empty() {
            // `field:` without a value: after the colon.
            return self.splice(node.span.clone(), &format!(" {text}"));
        }
        self.splice(node.span.clone(), &text)
    }

    fn add_field(
        &self,
        mapping: &Node,
        fields: &[(Node, String, Node)],
        field: &str,
        value: &Value,
    ) -> Edit<String> {
        let (first, _, _) = fields
            .first()
            .ok_or("there is nothing in the mapping around it yet")?;
        let (_, _, last) = fields
            .last()
            .ok_or("there is nothing in the mapping around it yet")?;
        if mapping.flow {
            let json = self.is_json(first);
            let name = if json {
                format!("{field:?}")
            } else {
                field.to_owned()
            };
            let entry = format!("{name}: {}", flow(value, json));
            return Ok(self.add_in_flow(&last.span, &first.span, &entry));
        }
        let written = block(&serde_json::json!({ field: value }));
        Ok(self.insert_lines(last.span.end, self.column(first.span.start), &written))
    }

    fn add_item(&self, sequence: &Node, item: &Value) -> Edit<String> {
        let Inside::Items(items) = &sequence.inside else {
            return Err("it is no sequence");
        };
        if sequence.flow {
            let json = self.text[sequence.span.clone()].contains('"');
            let item = flow(item, json);
            return Ok(match (items.first(), items.last()) {
                (Some(first), Some(last)) => self.add_in_flow(&last.span, &first.span, &item),
                _ => self.splice(sequence.span.clone(), &format!("[{item}]")),
            });
        }
        let (Some(first), Some(last)) = (items.first(), items.last()) else {
            return Err("it is a sequence without items");
        };
        let begin = self.line_start(first.span.start);
        let dash = self.text[begin..first.span.start]
            .rfind('-')
            .ok_or("its items begin below their dashes")?;
        let written = block(&Value::Array(vec![item.clone()]));
        Ok(self.insert_lines(last.span.end, self.column(begin + dash), &written))
    }

    /// Adds an entry after the last one, on a line of its own where that is how the others stand.
    fn add_in_flow(&self, last: &Range<usize>, first: &Range<usize>, entry: &str) -> String {
        let line = self.line_start(first.start);
        let indent = &self.text[line..first.start];
        let separator = if indent.trim().is_empty() {
            format!(",{}{indent}", self.newline())
        } else {
            ", ".to_owned()
        };
        self.splice(last.end..last.end, &format!("{separator}{entry}"))
    }

    /// Adds lines after the one in which something ends.
    fn insert_lines(&self, end: usize, column: usize, written: &str) -> String {
        let indent = " ".repeat(column);
        let newline = self.newline();
        let lines: String = written
            .lines()
            .map(|line| format!("{indent}{line}{newline}"))
            .collect();
        match self.text[end..].find('\n') {
            Some(rest) => self.splice(end + rest + 1..end + rest + 1, &lines),
            None => {
                let lines = format!("{newline}{}", lines.trim_end_matches(['\n', '\r']));
                self.splice(self.text.len()..self.text.len(), &lines)
            }
        }
    }

    /// Returns the lines of a field, if nothing else is on them and no comment belongs to it.
    fn own_lines(&self, mapping: &Node, key: &Node, node: &Node) -> Option<Range<usize>> {
        let begin = self.line_start(key.span.start);
        let end = self.text[node.span.end..]
            .find('\n')
            .map_or(self.text.len(), |rest| node.span.end + rest + 1);
        let alone = self.text[begin..key.span.start].trim().is_empty()
            && self.text[node.span.end..end].trim().is_empty();
        let above = self.text[..begin].trim_end_matches(['\n', '\r']);
        let commented = above[above.rfind('\n').map_or(0, |at| at + 1)..]
            .trim_start()
            .starts_with('#');
        (alone && !commented && !mapping.flow).then_some(begin..end)
    }

    fn splice(&self, range: Range<usize>, with: &str) -> String {
        format!("{}{with}{}", &self.text[..range.start], &self.text[range.end..])
    }

    fn is_json(&self, key: &Node) -> bool {
        self.text[key.span.clone()].starts_with('"')
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    fn line_start(&self, at: usize) -> usize {
        self.text[..at]
            .rfind('\n')
            .map_or(self.lines[0], |newline| newline + 1)
    }

    fn column(&self, at: usize) -> usize {
        self.text[self.line_start(at)..at].chars().count()
    }

    fn offset(&self, before: usize, marker: Marker) -> Option<usize> {
        let Some(&line) = self.lines.get((marker.line() + before).checked_sub(1)?) else {
            return Some(self.text.len());
        };
        let mut rest = self.text[line..].char_indices().map(|(at, _)| line + at);
        rest.nth(marker.col()).or(Some(self.text.len()))
    }
}

impl Node {
    /// Returns the mapping that begins somewhere: an object of a document, or of a list in it.
    fn find(&self, at: Mark) -> Option<&Self> {
        match &self.inside {
            Inside::Fields(_) if self.at == at => Some(self),
            Inside::Fields(fields) => fields.iter().find_map(|(_, _, node)| node.find(at)),
            Inside::Items(items) => items.iter().find_map(|item| item.find(at)),
            Inside::Scalar | Inside::Alias => None,
        }
    }

    fn descend(&self, pointer: &str) -> Option<&Self> {
        pointer
            .split('/')
            .skip(1)
            .try_fold(self, |node, token| match &node.inside {
                Inside::Fields(fields) => fields
                    .iter()
                    .find_map(|(_, name, node)| (name == token).then_some(node)),
                _ => None,
            })
    }
}

struct Tree<'a> {
    file: &'a Edited<'a>,
    before: usize,
    parser: Parser<'a, StrInput<'a>>,
}

impl<'a> Tree<'a> {
    fn document(&mut self) -> Edit<Option<Node>> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => return Ok(None),
                event => return self.node(&event, span).map(Some),
            }
        }
    }

    fn next(&mut self) -> Edit<(Event<'a>, Span)> {
        let event = self.parser.next_event();
        event.and_then(Result::ok).ok_or("it can't be read")
    }

    fn node(&mut self, event: &Event<'_>, span: Span) -> Edit<Node> {
        let (begin, end) = (self.offset(span.start)?, self.offset(span.end)?);
        let mut node = Node {
            at: self.mark(span.start),
            span: begin..begin + self.file.text[begin..end.max(begin)].trim_end().len(),
            inside: Inside::Scalar,
            flow: false,
        };
        match event {
            Event::Alias(_) => node.inside = Inside::Alias,
            Event::Scalar(..) => {}
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                let closed = loop {
                    let (event, span) = self.next()?;
                    if event == Event::SequenceEnd {
                        break self.closed(span, "]")?;
                    }
                    items.push(self.node(&event, span)?);
                };
                let last = items.last().map_or(begin, |item| item.span.end);
                (node.flow, node.span.end) = (closed.is_some(), closed.unwrap_or(last));
                node.inside = Inside::Items(items);
            }
            Event::MappingStart(..) => {
                let mut fields = Vec::new();
                let closed = loop {
                    let (event, span) = self.next()?;
                    if event == Event::MappingEnd {
                        break self.closed(span, "}")?;
                    }
                    let Event::Scalar(name, ..) = &event else {
                        return Err("a key is no text");
                    };
                    let name = name.to_string();
                    let key = self.node(&event, span)?;
                    let (event, span) = self.next()?;
                    let value = self.node(&event, span)?;
                    fields.push((key.clone(), name, self.beside(&key, value)));
                };
                let last = fields.last().map_or(begin, |(_, _, value)| value.span.end);
                (node.flow, node.span.end) = (closed.is_some(), closed.unwrap_or(last));
                node.inside = Inside::Fields(fields);
            }
            _ => return Err("something else than a value"),
        }
        Ok(node)
    }

    /// A value that isn't written stands right after its key's colon.
    fn beside(&self, key: &Node, mut value: Node) -> Node {
        if value.span.is_empty() && matches!(value.inside, Inside::Scalar) {
            let rest = &self.file.text[key.span.end..];
            let after = key.span.end + rest.find(':').map_or(0, |colon| colon + 1);
            value.span = after..after;
        }
        value
    }

    /// Returns where flow style ends; `None` for block style, which no bracket ends.
    fn closed(&self, span: Span, bracket: &str) -> Edit<Option<usize>> {
        let (begin, end) = (self.offset(span.start)?, self.offset(span.end)?);
        Ok((self.file.text.get(begin..end) == Some(bracket)).then_some(end))
    }

    fn offset(&self, marker: Marker) -> Edit<usize> {
        self.file
            .offset(self.before, marker)
            .ok_or("its place isn't found in the text")
    }

    fn mark(&self, marker: Marker) -> Mark {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Mark {
            line: narrow(marker.line() + self.before),
            column: narrow(marker.col() + 1),
        }
    }
}

/// Returns a value as one line, with as few quotes as can be.
fn flow(value: &Value, json: bool) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::String(text) if !json && is_plain(text) => text.clone(),
        Value::Array(items) => format!(
            "[{}]",
            joined(items.iter().map(|item| flow(item, json)).collect())
        ),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| {
                let name = if json || !is_plain(name) {
                    format!("{name:?}")
                } else {
                    name.clone()
                };
                format!("{name}: {}", flow(value, json))
            };
            format!("{{{}}}", joined(fields.iter().map(field).collect()))
        }
        other => other.to_string(),
    }
}

/// Returns whether no reader of YAML takes a word for anything but text.
fn is_plain(text: &str) -> bool {
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && !reserved.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests;
