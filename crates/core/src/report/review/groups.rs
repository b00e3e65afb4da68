//! Equal changes of many objects as one.
//!
//! Changes are alike when they do the same, for the same reason, to the same fields of objects of one kind. Those that also give the
//! fields the same values are one group; what remains of them, with many different values, is another.

use std::collections::BTreeMap;

use super::changes::{notes, word};
use crate::plan::{DiffStyle, Line, Shown, of_change};

/// Fewer are listed one by one.
const FEWEST: usize = 3;

/// A change, and the lines that show it.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) shown: Shown<'a>,
    pub(super) lines: Vec<Line>,
    /// The fields that change.
    pub(super) fields: Vec<String>,
}

/// What is one row.
#[derive(Debug)]
pub(super) enum Row<'a> {
    One(Entry<'a>),
    /// In the order in which they were given; never empty.
    Equal(Vec<Entry<'a>>),
    /// The same fields get different values.
    Varied(Vec<Entry<'a>>),
}

impl Row<'_> {
    /// Returns of how many objects it is.
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Equal(many) | Self::Varied(many) => many.len(),
        }
    }
}

/// What is the same for changes that are alike: action, kind, notes and fields.
type Likeness = (&'static str, String, String, String, Vec<String>);

/// Makes rows of changes; a group stands where its first member stood.
pub(super) fn rows<'a>(shown: Vec<Shown<'a>>) -> Vec<Row<'a>> {
    let mut alike: BTreeMap<Likeness, Vec<(usize, Entry<'a>)>> = BTreeMap::new();
    let mut rows: Vec<(usize, Row<'a>)> = Vec::new();
    for (place, shown) in shown.into_iter().enumerate() {
        let entry = Entry {
            lines: of_change(&shown, DiffStyle::Auto, 3),
            fields: shown.field_names(),
            shown,
        };
        match likeness(&entry) {
            Some(likeness) => alike.entry(likeness).or_default().push((place, entry)),
            None => rows.push((place, Row::One(entry))),
        }
    }
    for entries in alike.into_values() {
        rows.extend(split(entries));
    }
    rows.sort_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// `None`: of an object that comes or goes, the content is its own.
fn likeness(entry: &Entry<'_>) -> Option<Likeness> {
    let change = entry.shown.change;
    (!entry.fields.is_empty()).then(|| {
        (
            word(&change.action),
            change.key.group.clone(),
            change.key.kind.clone(),
            notes(&entry.shown),
            entry.fields.clone(),
        )
    })
}

/// Splits changes that are alike by the values that they give to the fields.
fn split(entries: Vec<(usize, Entry<'_>)>) -> Vec<(usize, Row<'_>)> {
    let mut by_values: BTreeMap<String, Vec<(usize, Entry<'_>)>> = BTreeMap::new();
    for (place, entry) in entries {
        by_values
            .entry(values(&entry.lines))
            .or_default()
            .push((place, entry));
    }
    let mut rows = Vec::new();
    let mut rest = Vec::new();
    for entries in by_values.into_values() {
        if entries.len() >= FEWEST {
            rows.extend(group(entries, Row::Equal));
        } else {
            rest.extend(entries);
        }
    }
    rest.sort_by_key(|(place, _)| *place);
    if rest.len() >= FEWEST {
        rows.extend(group(rest, Row::Varied));
    } else {
        rows.extend(rest.into_iter().map(|(place, entry)| (place, Row::One(entry))));
    }
    rows
}

fn group<'a>(
    entries: Vec<(usize, Entry<'a>)>,
    made: impl Fn(Vec<Entry<'a>>) -> Row<'a>,
) -> Option<(usize, Row<'a>)> {
    let first = entries.first().map(|(place, _)| *place)?;
    Some((first, made(entries.into_iter().map(|(_, entry)| entry).collect())))
}

/// Returns the lines as one text, by which they are compared.
pub(super) fn values(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&format!("{:?} ", line.sign));
        line.words.iter().for_each(|(_, words)| text.push_str(words));
        text.push('\n');
    }
    text
}
