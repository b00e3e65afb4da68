//! Mappings in braces within a text that is no JSON as a whole: `- {name: password, value: x}`, a Secret on one line.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::kinds::{is_secret_like, is_shown, is_value, names_a_secret};

static SECRET: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)(?-u:\b)kind\\*["']?\s*:\s*\\*["']?secret(?:list)?(?-u:\b)"#).ok());

/// Returns where secrets are in the braces of a text.
///
/// What is in innermost braces is judged field by field. A Secret that has braces in it is hidden with all that is in
/// the outermost ones around.
pub(super) fn secrets(words: &str) -> Vec<Range<usize>> {
    let mut said = match &*SECRET {
        Some(expression) => expression.find_iter(words).map(|found| found.start()).peekable(),
        None => return std::iter::once(0..words.len()).collect(),
    };
    let (mut found, mut inner) = (Vec::new(), Vec::new());
    let (mut depth, mut outermost, mut innermost) = (0_usize, 0, None);
    let mut is_secret = false;
    for (place, byte) in words.bytes().enumerate() {
        match byte {
            b'{' => {
                if depth == 0 {
                    while said.next_if(|at| *at < place).is_some() {}
                    outermost = place + 1;
                }
                depth += 1;
                innermost = Some(place + 1);
            }
            b'}' if depth > 0 => {
                depth -= 1;
                if let Some(start) = innermost.take() {
                    // What it says of a Secret is judged with it.
                    while said.next_if(|at| *at < start).is_some() {
                        is_secret = true;
                    }
                    while said.next_if(|at| *at < place).is_some() {}
                    group(words, start..place, &mut inner);
                }
                if depth == 0 {
                    while said.next_if(|at| *at < place).is_some() {
                        is_secret = true;
                    }
                    if is_secret {
                        inner.clear();
                        found.push(outermost..place);
                    }
                    found.append(&mut inner);
                    is_secret = false;
                }
            }
            _ if depth == 0 => while said.next_if(|at| *at < place).is_some() {},
            _ => {}
        }
    }
    if depth > 0 && (is_secret || said.next().is_some()) {
        inner.clear();
        found.push(outermost..words.len());
    }
    found.append(&mut inner);
    found
}

/// Judges the fields in innermost braces.
fn group(words: &str, place: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut from = place.start;
    let fields: Vec<(&str, Range<usize>)> = words[place]
        .split(',')
        .filter_map(|field| {
            let start = from;
            from += field.len() + 1;
            let (name, value) = field.split_once(':')?;
            let quotes = |c: char| c.is_whitespace() || matches!(c, '"' | '\'');
            let begin = start + name.len() + 1 + (value.len() - value.trim_start_matches(quotes).len());
            Some((bare(name), begin..begin + value.trim_matches(quotes).len()))
        })
        .collect();
    let text = |place: &Range<usize>| bare(&words[place.clone()]);
    let of = |name: &str| {
        fields
            .iter()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| text(value))
    };
    let is_secret = is_secret_like(of("kind"), of("apiVersion"));
    let has_metadata = of("metadata").is_some();
    let named = names_a_secret(fields.iter().map(|(name, value)| (*name, Some(text(value)))));
    for (name, value) in &fields {
        if (is_secret && !is_shown(name, has_metadata)) || (named && is_value(name)) {
            found.push(value.clone());
        }
    }
}

/// Takes blanks and quotes off.
fn bare(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'', '\\'])
}
