//! Text of others in Markdown: plain text in any place of a page, a span of code, a fenced block, HTML, a chart.
//!
//! It can't be a link, an image, HTML, emphasis, a mention, a cell of a table, or end what it stands in.

use std::fmt::Write as _;

use super::{lines, prose, visible};

/// A character that has no width, so that no name follows the sign that would call somebody.
const NOBODY: &str = "&#8203;";

/// Returns plain text for any place of a line or a cell.
pub fn text(words: &str) -> String {
    let words = prose(words);
    let mut plain = String::with_capacity(words.len());
    for (at, c) in words.char_indices() {
        let (before, after) = (&words[..at], &words[at + c.len_utf8()..]);
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' => plain.extend(['\\', c]),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '&' => plain.push_str("&amp;"),
            '@' => {
                plain.push('@');
                plain.push_str(NOBODY);
            }
            '#' => {
                plain.push_str("\\#");
                // `#12` names an issue, which is then told of it.
                if after.starts_with(|c: char| c.is_ascii_digit()) {
                    plain.push_str(NOBODY);
                }
            }
            // Hosts make links of addresses that are written out.
            ':' if after.starts_with("//") && ends_with(before, &["http", "https", "ftp"]) => {
                plain.push_str("\\:");
            }
            '.' if ends_with(before, &["www"]) => plain.push_str("\\."),
            // Where a line begins, these begin lists and underline titles.
            '-' | '+' | '=' if at == 0 => plain.extend(['\\', c]),
            '.' | ')' if at > 0 && before.bytes().all(|byte| byte.is_ascii_digit()) => {
                plain.extend(['\\', c]);
            }
            c => plain.push(c),
        }
    }
    plain
}

fn ends_with(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| {
        let end = text.len().checked_sub(word.len());
        end.and_then(|from| text.get(from..))
            .is_some_and(|end| end.eq_ignore_ascii_case(word))
    })
}

/// Returns text within a span of code, which may stand in a cell.
pub fn code(text: &str) -> String {
    // After a backslash, hosts disagree on whether a pipe with one ends the cell.
    let text = visible(text).replace('`', "'");
    let text = text.replace("\\|", "\\\\u{7c}").replace('|', "\\|");
    // Two backticks without anything between them begin a longer span.
    if text.is_empty() {
        "` `".to_owned()
    } else {
        format!("`{text}`")
    }
}

/// Returns text within an element of HTML.
pub fn html(text: &str) -> String {
    visible(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('@', &format!("@{NOBODY}"))
}

/// Returns text between fences that no line of it can end.
pub fn fenced(language: &str, body: &str) -> String {
    let body = lines(body);
    let longest = body.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{body}{fence}\n")
}

/// Returns text between quotes in a Mermaid chart: entities stand for what would end it.
pub fn label(text: &str) -> String {
    entities(text, |c| {
        matches!(c, '"' | '<' | '>' | '&' | '#' | ';' | '`' | '\\')
    })
}

/// Returns the name of a task in a Mermaid chart, which a colon ends and a percent sign hides.
pub fn task(text: &str) -> String {
    entities(text, |c| {
        matches!(
            c,
            '"' | '<' | '>' | '&' | '#' | ';' | '`' | '\\' | ':' | '%' | ','
        )
    })
}

fn entities(text: &str, special: impl Fn(char) -> bool) -> String {
    let mut safe = String::new();
    for c in visible(text).chars() {
        if special(c) {
            let _ = write!(safe, "#{};", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    safe
}
