//! Credentials that are recognisable in any text: by their own shape, or by the name they are given there.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::MASK;
use super::names::is_credential;
use super::object::is_reference;

/// A user name is all there is: `ssh://git@…`.
const USERINFO: usize = 1;
const SCHEME: usize = 3;
const PEM_IN_BASE64: usize = 6;
const WITH_PREFIX: usize = 7;
const PASSWORD: usize = 8;

/// Each alternative has one group: what is secret of it. Their numbers are above.
static SHAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes = [
        // User and password of a URL.
        r#"://([^/\s"'<>\\]+)@"#,
        // The value of a header.
        r#"(?i:authorization|x-api-key|x-auth-token|private-token|cookie)\\*["']?\s*[:=]\s*\\*["']?([^\r\n"'\\]+)"#,
        // A header's value without its header.
        r"\b(?i:bearer|basic)\s+([A-Za-z0-9._~+/=-]{6,})",
        // A JSON web token.
        r"\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?)",
        // A private key as PEM, lines joined or not; one that breaks off too.
        r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:[A-Za-z0-9+/=\s\\:,.-]*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|[A-Za-z0-9+/=\s\\]*))",
        // The same in base64.
        r"(LS0tLS1CRUdJTi[A-Za-z0-9+/=]+)",
        // Tokens that say whose they are.
        r"\b((?:gh[pousr]_|github_pat_|glpat-|xox[abeprs]-|npm_|dckr_pat_|hv[sb]\.|sk-|SG\.|AIza|AKIA|ASIA)[A-Za-z0-9_.-]{12,})",
        // User and password of an address without a scheme.
        r#"[A-Za-z0-9._%+-]+:([^\s/@"'<>\\,;]+)@"#,
    ];
    Regex::new(&shapes.join("|")).ok()
});

/// `name=value`, `name: value`, `"name":"value"`, `\"name\":\"value\"`. Groups: name, what ends it, sign, value in its forms.
static ASSIGNMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"([A-Za-z][A-Za-z0-9_.-]*)(\\*["']?\s*)([:=]\s*)(?:\\+"([^"\\]*)\\+"|"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s&;,"'}\])\\]+))"#,
    )
    .ok()
});

/// `--name value`. Groups: name, value.
static FLAG: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?:^|\s)--?([A-Za-z][A-Za-z0-9_.-]*)[ \t]+["']?([^\s"'-][^\s"']*)"#).ok());

/// `<name>value</`, and `<name>name</name> <value>value</value>`.
static ELEMENT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"<name>([^<]+)</name>\s*<value>([^<]+)</|<([A-Za-z][A-Za-z0-9_.-]*)>([^<]+)</").ok()
});

/// Returns a text without what is recognisable as a credential.
///
/// ```
/// use cutover::redact::text;
///
/// assert_eq!(text("cannot reach https://ci:hunter2@git.example.com/x"), "cannot reach https://***@git.example.com/x");
/// assert_eq!(text("no permission to read the token"), "no permission to read the token");
/// ```
pub fn text(words: &str) -> Cow<'_, str> {
    let mut mask = |_: &str| MASK.to_owned();
    let mut clean = Cow::Borrowed(words);
    for find in [shape, told] {
        if let Some(new) = replaced(&clean, find, &mut mask) {
            clean = Cow::Owned(new);
        }
    }
    clean
}

/// Returns a string of an object with the credentials in it replaced; `None` if there are none.
pub(super) fn settings(words: &str, with: &mut dyn FnMut(&str) -> String) -> Option<String> {
    let mut clean = lines(words, with);
    for find in [shape, assigned, flag, element] {
        let new = replaced(clean.as_deref().unwrap_or(words), find, with);
        clean = new.or(clean);
    }
    clean
}

/// Finds the places of secrets in a text.
type Find = fn(&str) -> Vec<Range<usize>>;

fn replaced(words: &str, find: Find, with: &mut dyn FnMut(&str) -> String) -> Option<String> {
    let mut clean = String::new();
    let mut done = 0;
    for place in find(words) {
        let secret = &words[place.clone()];
        if secret.is_empty() || secret.starts_with(MASK) || is_reference(secret) {
            continue;
        }
        clean.push_str(&words[done..place.start]);
        clean.push_str(&with(secret));
        done = place.end;
    }
    (done > 0).then(|| clean + &words[done..])
}

/// Without the expression, which a test compiles, nothing could be told from a secret.
fn places(
    words: &str,
    expression: &'static LazyLock<Option<Regex>>,
    pick: impl Fn(&Captures<'_>) -> Option<Range<usize>>,
) -> Vec<Range<usize>> {
    match &**expression {
        Some(expression) => expression
            .captures_iter(words)
            .filter_map(|found| pick(&found))
            .collect(),
        None => std::iter::once(0..words.len()).collect(),
    }
}

fn shape(words: &str) -> Vec<Range<usize>> {
    places(words, &SHAPES, |found| {
        let (group, secret) =
            (1..found.len()).find_map(|group| found.get(group).map(|secret| (group, secret)))?;
        let text = secret.as_str();
        let meant = match group {
            USERINFO => text.contains(':') || !words[..found.get(0)?.start()].ends_with("ssh"),
            // "basic authentication" is none.
            SCHEME => text.contains(|c: char| c.is_ascii_digit() || c.is_ascii_uppercase()),
            // Certificates and public keys are public.
            PEM_IN_BASE64 => !["LS0tLS1CRUdJTiBDRVJU", "LS0tLS1CRUdJTiBQVUJM"]
                .iter()
                .any(|public| text.starts_with(public)),
            WITH_PREFIX => text.contains(|c: char| c.is_ascii_digit()),
            // `orders:1.2@sha256:…` is an image.
            PASSWORD => !words[found.get(0)?.end()..].starts_with("sha"),
            _ => true,
        };
        meant.then(|| secret.range())
    })
}

/// Settings in sentences: a sign before a blank is punctuation.
fn told(words: &str) -> Vec<Range<usize>> {
    assignments(words, |found| {
        let (place, quoted) = value(found)?;
        let sign = found.get(3)?.as_str();
        let is_setting = quoted || sign == "=" || sign == ":";
        is_setting.then_some(place)
    })
}

fn assigned(words: &str) -> Vec<Range<usize>> {
    assignments(words, |found| Some(value(found)?.0))
}

/// What is no secret may have one in it: `url=https://x?token=…`.
fn assignments(words: &str, pick: impl Fn(&Captures<'_>) -> Option<Range<usize>>) -> Vec<Range<usize>> {
    let Some(expression) = &*ASSIGNMENT else {
        return std::iter::once(0..words.len()).collect();
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = expression.captures_at(words, at) {
        let place = pick(&next);
        let sign = next.get(3).or(next.get(0)).map_or(words.len(), |sign| sign.end());
        at = place.as_ref().map_or(sign, |place| place.end);
        found.extend(place);
    }
    found
}

/// Returns where the value of an assignment to a secret is, and whether it is quoted.
fn value(found: &Captures<'_>) -> Option<(Range<usize>, bool)> {
    is_credential(found.get(1)?.as_str()).then_some(())?;
    let bare = found.get(7);
    let quoted = (4..7).find_map(|group| found.get(group));
    Some((quoted.or(bare)?.range(), bare.is_none()))
}

fn flag(words: &str) -> Vec<Range<usize>> {
    places(words, &FLAG, |found| {
        is_credential(found.get(1)?.as_str()).then_some(found.get(2)?.range())
    })
}

fn element(words: &str) -> Vec<Range<usize>> {
    places(words, &ELEMENT, |found| {
        let (name, value) = match found.get(1) {
            Some(name) => (name, found.get(2)?),
            None => (found.get(3)?, found.get(4)?),
        };
        is_credential(name.as_str().trim()).then_some(value.range())
    })
}

/// Hides the values of lines such as `db.password = a b c`, and the block below `password: |`.
fn lines(words: &str, with: &mut dyn FnMut(&str) -> String) -> Option<String> {
    let mut clean = String::with_capacity(words.len());
    let mut block: Option<usize> = None;
    let mut found = false;
    for line in words.split_inclusive('\n') {
        let (content, end) = line.split_at(line.trim_end_matches(['\n', '\r']).len());
        let indent = content.len() - content.trim_start().len();
        if block.is_some_and(|outer| indent > outer && !content.trim().is_empty()) {
            clean.push_str(&content[..indent]);
            clean.push_str(&with(&content[indent..]));
            clean.push_str(end);
            found = true;
            continue;
        }
        block = None;
        match setting(content) {
            Some(value) if is_block(&content[value.clone()]) => {
                block = Some(indent);
                clean.push_str(line);
            }
            Some(value) => {
                clean.push_str(&content[..value.start]);
                clean.push_str(&with(&content[value.clone()]));
                clean.push_str(&content[value.end..]);
                clean.push_str(end);
                found = true;
            }
            None => clean.push_str(line),
        }
    }
    found.then_some(clean)
}

fn is_block(value: &str) -> bool {
    value.len() <= 3 && value.starts_with(['|', '>'])
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
    let whole = !secret.is_empty() && !secret.starts_with(['{', '[', MASK_BEGIN]) && !is_reference(secret);
    whole.then_some(value)
}

const MASK_BEGIN: char = '*';
