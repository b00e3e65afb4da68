//! Settings within a text: `name=value`, `name: value`, `"name":"value"`, `\"name\":\"value\"`.
//!
//! A scanner by hand: an expression that is asked again after each name would read the same value over and over.

use std::ops::Range;

use super::names::is_credential;
use crate::redact::finder::is_block;

/// Settings in sentences: a sign before a blank is punctuation.
pub(super) fn told(words: &str) -> Vec<Range<usize>> {
    assignments(words, |value| value.quoted || value.follows)
}

/// Settings in a string of an object.
pub(super) fn assigned(words: &str) -> Vec<Range<usize>> {
    assignments(words, |value| !is_block(&words[value.place.clone()]))
}

struct Assigned {
    place: Range<usize>,
    quoted: bool,
    /// Nothing stands between the sign and the value.
    follows: bool,
}

/// What is no secret may have one in it: `url=https://x?token=…`. So after a name that says nothing, the search goes on
/// right behind its sign, and only the value of a secret is passed over.
fn assignments(words: &str, means: impl Fn(&Assigned) -> bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(sign) = words[from..].find([':', '=']).map(|at| from + at) {
        let begin = from;
        from = sign + 1;
        if !is_credential(name_before(&words[begin..sign])) {
            continue;
        }
        if let Some(value) = value(words, sign + 1)
            && means(&value)
        {
            from = value.place.end.max(from);
            found.push(value.place);
        }
    }
    found
}

/// Returns the name that a text ends with, before quotes and blanks.
fn name_before(text: &str) -> &str {
    let text = text.trim_end();
    let text = text.strip_suffix(['"', '\'']).unwrap_or(text);
    let text = text.trim_end_matches('\\');
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    &text[text.trim_end_matches(is_part).len()..]
}

/// Returns the value that stands at a place, or after blanks.
fn value(words: &str, from: usize) -> Option<Assigned> {
    let rest = &words[from..];
    let start = from + (rest.len() - rest.trim_start().len());
    let rest = &words[start..];
    let escapes = rest.len() - rest.trim_start_matches('\\').len();
    let (begin, end) = match rest.as_bytes().get(escapes)? {
        b'"' if escapes > 0 => (escapes + 1, escaped_end(rest, escapes)),
        b'"' => (1, quoted_end(rest)),
        b'\'' if escapes == 0 => (
            1,
            1 + rest[1..].find('\'').unwrap_or_else(|| line_end(&rest[1..])),
        ),
        _ => {
            let is_end = |c: char| c.is_whitespace() || "&;,\"'})]\\".contains(c);
            let end = rest.find(is_end).unwrap_or(rest.len());
            let below = words[from..start].contains('\n') && rest[..end].ends_with(':');
            // What stands below a name, and is one itself, is no value.
            if end == 0 || below {
                return None;
            }
            return Some(Assigned {
                place: start..start + end,
                quoted: false,
                follows: start == from,
            });
        }
    };
    Some(Assigned {
        place: start + begin..start + end,
        quoted: true,
        follows: start == from,
    })
}

/// Returns where the quoted text ends that a text begins with; one that does not end, ends with its line.
fn quoted_end(text: &str) -> usize {
    let mut escaped = false;
    for (place, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return place,
            _ => {}
        }
    }
    1 + line_end(&text[1..])
}

/// How far the end of a value in escaped quotes is looked for. What is longer ends with its line, or the text.
const FAR: usize = 4096;

/// Returns where the text ends that begins with a quote after so many backslashes: before another that has no more.
fn escaped_end(text: &str, escapes: usize) -> usize {
    let mut backslashes = 0;
    for (place, byte) in text.bytes().enumerate().skip(escapes + 1).take(FAR) {
        match byte {
            b'\\' => backslashes += 1,
            b'"' if backslashes <= escapes => return place - backslashes,
            _ => backslashes = 0,
        }
    }
    escapes + 1 + line_end(&text[escapes + 1..])
}

fn line_end(text: &str) -> usize {
    text.find(['\n', '\r']).unwrap_or(text.len())
}
