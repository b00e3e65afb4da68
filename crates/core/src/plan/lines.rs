//! The lines that show what changes in one object: field by field, as a diff of its YAML, or as the whole object.

use serde_json::Value;
use similar::{ChangeTag, DiffOp, TextDiff};

use super::fields::{FieldChange, differences};
use super::view::Shown;
use super::yaml::{path_of, to_yaml};

/// How the change of an object is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiffStyle {
    /// Field by field while that reads well, as a diff otherwise; new objects without what is beyond a screen.
    #[default]
    Auto,
    /// As a diff of the YAML.
    Unified,
    /// Field by field.
    Fields,
}

/// More fields than that are read more easily in their places.
const FEW: usize = 12;
/// What is longer is better compared line by line.
const SHORT: usize = 12;
/// As many lines of a new object are shown, unless all are asked for.
const SCREEN: usize = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Same,
    Added,
    Removed,
    Changed,
    /// Where the lines after it are.
    Place,
}

/// A line, in parts that are emphasised or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) sign: Sign,
    pub(crate) words: Vec<(bool, String)>,
}

impl Line {
    fn plain(sign: Sign, text: impl Into<String>) -> Self {
        Self {
            sign,
            words: vec![(false, text.into())],
        }
    }
}

/// Returns the lines of a change. `context`: how many lines around a changed one.
pub(crate) fn of_change(shown: &Shown<'_>, style: DiffStyle, context: usize) -> Vec<Line> {
    match (&shown.before, &shown.after) {
        (None, Some(after)) => whole(Sign::Added, after, style),
        (Some(before), None) if style == DiffStyle::Unified => whole(Sign::Removed, before, style),
        (Some(before), Some(after)) => between(before, after, style, context),
        _ => Vec::new(),
    }
}

/// Returns the lines of what differs between two contents of one object.
pub(super) fn between(before: &Value, after: &Value, style: DiffStyle, context: usize) -> Vec<Line> {
    let fields = differences(before, after);
    match style {
        DiffStyle::Fields => by_field(&fields),
        DiffStyle::Auto if reads_well(&fields) => by_field(&fields),
        DiffStyle::Auto | DiffStyle::Unified => unified(&to_yaml(before), &to_yaml(after), context, true),
    }
}

fn whole(sign: Sign, object: &Value, style: DiffStyle) -> Vec<Line> {
    let yaml = to_yaml(object);
    let mut lines: Vec<Line> = yaml.lines().map(|line| Line::plain(sign, line)).collect();
    if style == DiffStyle::Auto && lines.len() > SCREEN + 1 {
        let more = lines.len() - SCREEN;
        lines.truncate(SCREEN);
        lines.push(Line::plain(Sign::Place, format!("and {more} more lines")));
    }
    lines
}

fn reads_well(fields: &[FieldChange]) -> bool {
    let lines = |value: &Option<Value>| value.as_ref().map_or(0, |value| to_yaml(value).lines().count());
    fields.len() <= FEW
        && fields.iter().all(|field| match (&field.before, &field.after) {
            (Some(Value::String(_)), Some(Value::String(_))) => true,
            (before, after) => lines(before).max(lines(after)) <= SHORT,
        })
}

fn by_field(fields: &[FieldChange]) -> Vec<Line> {
    fields.iter().flat_map(field).collect()
}

fn field(field: &FieldChange) -> Vec<Line> {
    let path = &field.path;
    match (&field.before, &field.after) {
        (Some(Value::String(before)), Some(Value::String(after)))
            if before.contains('\n') || after.contains('\n') =>
        {
            let head = Line::plain(Sign::Changed, format!("{path}:"));
            let inner = unified(before, after, 2, false).into_iter().map(|mut line| {
                if let Some((_, first)) = line.words.first_mut() {
                    first.insert_str(0, "    ");
                }
                line
            });
            std::iter::once(head).chain(inner).collect()
        }
        (Some(before), Some(after)) if is_small(before) && is_small(after) => vec![Line {
            sign: Sign::Changed,
            words: vec![
                (false, format!("{path}: ")),
                (true, small(before)),
                (false, " → ".to_owned()),
                (true, small(after)),
            ],
        }],
        (before, after) => {
            let removed = before
                .iter()
                .flat_map(|value| block(Sign::Removed, &path.to_string(), value));
            let added = after
                .iter()
                .flat_map(|value| block(Sign::Added, &path.to_string(), value));
            removed.chain(added).collect()
        }
    }
}

/// A value below the path where it stands.
fn block(sign: Sign, path: &str, value: &Value) -> Vec<Line> {
    if is_small(value) {
        return vec![Line::plain(sign, format!("{path}: {}", small(value)))];
    }
    let head = Line::plain(sign, format!("{path}:"));
    let yaml = to_yaml(value);
    let inner = yaml.lines().map(|line| Line::plain(sign, format!("    {line}")));
    std::iter::once(head).chain(inner).collect()
}

fn is_small(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => !text.contains('\n'),
        _ => true,
    }
}

/// A scalar as YAML writes it.
fn small(value: &Value) -> String {
    to_yaml(value).trim_end().to_owned()
}

/// Returns the lines that differ between two texts. `places`: whether they are YAML, of which to say where they are.
fn unified(before: &str, after: &str, context: usize, places: bool) -> Vec<Line> {
    let diff = TextDiff::from_lines(before, after);
    let (old, new): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let mut lines = Vec::new();
    for group in diff.grouped_ops(context) {
        if places && let Some(place) = place(&old, &new, &group) {
            lines.push(place);
        }
        for change in group
            .iter()
            .flat_map(|op| diff.iter_inline_changes_deadline(op, None))
        {
            let sign = match change.tag() {
                ChangeTag::Equal => Sign::Same,
                ChangeTag::Delete => Sign::Removed,
                ChangeTag::Insert => Sign::Added,
            };
            let words = change
                .values()
                .iter()
                .map(|(emphasised, text)| (*emphasised, text.trim_end_matches('\n').to_owned()));
            lines.push(Line {
                sign,
                words: words.collect(),
            });
        }
    }
    lines
}

/// Says where in the object a group of lines is, unless it begins at the top.
fn place(before: &[&str], after: &[&str], group: &[DiffOp]) -> Option<Line> {
    let first = group.first()?;
    let path = if after.is_empty() {
        path_of(before, first.old_range().start)
    } else {
        path_of(after, first.new_range().start)
    };
    (!path.is_empty()).then(|| Line::plain(Sign::Place, path))
}
