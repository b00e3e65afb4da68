//! Settings that are told by lines: `db.password = a b c`, a mapping in YAML, the block below `password: |`, a Secret in a
//! file that a ConfigMap holds.
//!
//! This reads lines by their indentation and parses nothing: what it is given may be no YAML, or made to cost a parser
//! its memory.

use std::ops::Range;

use super::kinds::{
    is_bare_key, is_copy, is_secret_like, is_secret_list, is_shown, is_value, names_a_secret,
};
use super::names::is_credential;
use crate::redact::finder::{is_block, is_reference};

/// Returns where secrets are that the structure of a text tells.
pub(super) fn secrets(words: &str) -> Vec<Range<usize>> {
    let lines = lines(words);
    let mut outline = Outline {
        words,
        open: Vec::new(),
        values: vec![None; lines.len()],
        starts: vec![0; lines.len() + 1],
        ends: vec![0; lines.len() + 1],
        several: lines.len() > 1,
    };
    for (number, line) in lines.iter().enumerate() {
        outline.line(number, line.clone());
    }
    outline.close(0, lines.len());
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (number, line) in lines.into_iter().enumerate() {
        depth = depth + outline.starts[number] - outline.ends[number];
        if depth > 0 {
            found.push(trimmed(words, line));
        } else {
            found.extend(outline.values[number].take());
        }
    }
    found.retain(|place| !place.is_empty());
    found
}

/// Returns the lines of a text, without what ends them.
fn lines(words: &str) -> Vec<Range<usize>> {
    let mut from = 0;
    words
        .split_inclusive('\n')
        .map(|line| {
            let start = from;
            from += line.len();
            start..start + line.trim_end_matches(['\n', '\r']).len()
        })
        .collect()
}

fn trimmed(words: &str, place: Range<usize>) -> Range<usize> {
    let text = &words[place.clone()];
    let start = place.start + (text.len() - text.trim_start().len());
    start..(start + text.trim().len())
}

struct Outline<'a> {
    words: &'a str,
    /// The mappings that a line stands in, from the outermost on.
    open: Vec<Mapping<'a>>,
    /// The secret value of each line.
    values: Vec<Option<Range<usize>>>,
    /// How many hidden blocks begin at each line, and end before it.
    starts: Vec<usize>,
    ends: Vec<usize>,
    /// In a text of one line, `key: value` is as likely a sentence.
    several: bool,
}

struct Mapping<'a> {
    column: usize,
    in_list: bool,
    entries: Vec<Entry<'a>>,
}

struct Entry<'a> {
    key: &'a str,
    /// What stands behind the key.
    value: Range<usize>,
    line: usize,
    /// Whether the lines below are a mapping of their own.
    nested: bool,
}

impl Outline<'_> {
    fn line(&mut self, number: usize, line: Range<usize>) {
        let text = &self.words[line.clone()];
        if let Some(value) = setting(text) {
            self.values[number] = Some(line.start + value.start..line.start + value.end);
        }
        let content = text.trim_start();
        if content.is_empty() || content.starts_with('#') {
            return;
        }
        if text.starts_with("---") || text.starts_with("...") {
            self.close(0, number);
            return;
        }
        let mut column = text.len() - content.len();
        self.close(column + 1, number);
        let mut in_list = false;
        while let Some(item) = text[column..].strip_prefix("- ") {
            in_list = true;
            column = text.len() - item.trim_start().len();
        }
        let Some((key, value)) = entry(&text[column..]) else {
            return;
        };
        if in_list || self.open.last().is_none_or(|top| top.column < column) {
            if let Some(around) = self.open.last_mut().and_then(|top| top.entries.last_mut()) {
                around.nested = true;
            }
            self.open.push(Mapping {
                column,
                in_list,
                entries: Vec::new(),
            });
        }
        let start = line.start + column;
        if let Some(top) = self.open.last_mut() {
            top.entries.push(Entry {
                key,
                value: trimmed(self.words, start + value..line.end),
                line: number,
                nested: false,
            });
        }
    }

    /// Ends the mappings that stand at a column or further right, before a line.
    fn close(&mut self, column: usize, line: usize) {
        while self.open.last().is_some_and(|top| top.column >= column) {
            if let Some(mapping) = self.open.pop() {
                self.judge(&mapping, line);
            }
        }
    }

    fn judge(&mut self, mapping: &Mapping<'_>, end: usize) {
        let plain = |entry: &Entry<'_>| unquoted(&self.words[entry.value.clone()]);
        let of = |key: &str| mapping.entries.iter().find(|entry| entry.key == key).map(plain);
        let kind = of("kind");
        let is_secret = is_secret_like(kind, of("apiVersion"));
        let is_list = is_secret_list(kind);
        let has_metadata = of("metadata").is_some();
        let named = self.several
            && names_a_secret(
                mapping
                    .entries
                    .iter()
                    .map(|entry| (entry.key, Some(plain(entry)))),
            );
        let within = self.open.last().and_then(|top| top.entries.last());
        let within = within.map_or("", |entry| entry.key);
        let key = self.several
            && is_bare_key(
                within,
                mapping.in_list,
                mapping.entries.iter().map(|entry| entry.key),
            );
        for (place, entry) in mapping.entries.iter().enumerate() {
            let end = mapping.entries.get(place + 1).map_or(end, |next| next.line);
            let value = &self.words[entry.value.clone()];
            let below = value.is_empty() || is_block(value);
            let hidden = (is_secret && !is_shown(entry.key, has_metadata))
                || (is_list && entry.key == "items")
                || is_copy(entry.key)
                || (named && is_value(entry.key))
                || (key && entry.key == "key")
                // A block is a value; what has keys of its own says by these what it is.
                || (is_credential(entry.key) && below && (is_block(value) || !entry.nested));
            if hidden {
                self.hide(entry, end);
            }
        }
    }

    fn hide(&mut self, entry: &Entry<'_>, end: usize) {
        if !is_block(&self.words[entry.value.clone()]) && !entry.value.is_empty() {
            self.values[entry.line] = Some(entry.value.clone());
        }
        if entry.line + 1 < end {
            self.starts[entry.line + 1] += 1;
            self.ends[end] += 1;
        }
    }
}

/// Returns the key that a text begins with, and where its value begins.
fn entry(text: &str) -> Option<(&str, usize)> {
    let (key, after) = match text.strip_prefix(['"', '\'']) {
        Some(rest) => {
            let end = rest.find(['"', '\''])?;
            (&rest[..end], end + 2)
        }
        None => {
            let is_end = |c: char| matches!(c, ':' | '"' | '\'' | '{' | '[' | ',');
            let end = text.find(is_end)?;
            (text[..end].trim_end(), end)
        }
    };
    let value = text[after..].trim_start().strip_prefix(':')?;
    (value.is_empty() || value.starts_with([' ', '\t'])).then(|| (key, text.len() - value.len()))
}

fn unquoted(text: &str) -> &str {
    let text = text.split(" #").next().unwrap_or(text).trim();
    let text = text.trim_end_matches(',');
    text.trim_matches(['"', '\''])
}

/// Returns where in a line the value of a secret setting is, which the line begins with.
fn setting(line: &str) -> Option<Range<usize>> {
    let at = line.find([':', '='])?;
    let quotes = ['"', '\''];
    let name = line[..at].trim().trim_start_matches("- ");
    let name = name.strip_prefix("export ").unwrap_or(name).trim();
    let name = name.trim_matches(quotes);
    let is_name = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'));
    if !is_name || !is_credential(name) {
        return None;
    }
    let rest = &line[at + 1..];
    let start = at + 1 + (rest.len() - rest.trim_start().len());
    let value = line[start..].trim_end().trim_end_matches(',');
    let value = value
        .strip_prefix(quotes)
        .and_then(|inner| inner.strip_suffix(quotes))
        .map_or(start..start + value.len(), |inner| {
            start + 1..start + 1 + inner.len()
        });
    let secret = &line[value.clone()];
    // What begins a mapping, or a URL after a scheme that is called so, is looked at by itself.
    let whole =
        !secret.is_empty() && !secret.starts_with(['{', '[']) && !is_block(secret) && !is_reference(secret);
    whole.then_some(value)
}
