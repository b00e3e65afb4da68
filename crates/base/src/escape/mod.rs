//! The one output layer: what others wrote (names, keys, paths, messages of servers) is made safe for where it goes.
//!
//! A file name can hold an escape sequence, an object's key a line break, an annotation a mark that turns the reading
//! direction. None of them may move a cursor, forge a line, hide a part of a word, or command a workflow's runner. Text
//! passes here at the borders: terminal and log (`cli`), Markdown (`report`), workflow commands (`report::annotations`),
//! Events, commit statuses and commit messages. What can't be seen is shown as an escape: `\u{1b}`.
//!
//! Programs get what was written: JSON has escapes of its own, which lose nothing ([`json`]).

pub mod markdown;
pub mod workflow;

use std::fmt::Write as _;

use serde_json::Value;

/// Returns whether a character has no shape of its own, or changes how the characters around it are shown: controls, marks of
/// direction, separators of lines, zero-width and tag characters.
///
/// These are Unicode's default ignorable code points, its controls and its separators of lines, but for the two selectors
/// that say whether a sign is shown as an emoji.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{fe00}'..='\u{fe0d}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns a value that stands within a line: what is hidden becomes visible, line breaks and tabs too.
///
/// ```
/// use cutover_base::escape::visible;
///
/// assert_eq!(visible("pa\u{1b}[2J\n::error::x"), r"pa\u{1b}[2J\n::error::x");
/// assert_eq!(visible("gpj\u{202e}.yaml"), r"gpj\u{202e}.yaml");
/// ```
pub fn visible(text: &str) -> String {
    kept(text, |_| false)
}

/// Returns a line of somebody's text, such as a line of a diff: tabs stay.
pub fn line(text: &str) -> String {
    kept(text, |c| c == '\t')
}

/// Returns a text of several lines that are meant to be there; tabs stay.
pub fn lines(text: &str) -> String {
    kept(text, |c| matches!(c, '\t' | '\n'))
}

/// Returns a value in whose texts no style begins: the styles of what is printed are ours alone.
pub fn without_styles(value: Value) -> Value {
    let plain = |text: String| text.replace('\u{1b}', &visible("\u{1b}"));
    match value {
        Value::String(text) => Value::String(plain(text)),
        Value::Array(items) => items.into_iter().map(without_styles).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields
                .map(|(key, value)| (plain(key), without_styles(value)))
                .collect()
        }
        other => other,
    }
}

/// Returns a message as one line of prose: blanks and line breaks become a blank, what is hidden becomes visible.
pub fn prose(text: &str) -> String {
    let words = text
        .split([' ', '\t', '\n', '\r'])
        .filter(|word| !word.is_empty());
    visible(&words.collect::<Vec<_>>().join(" "))
}

fn kept(text: &str, keep: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && !keep(c) {
            show(&mut safe, c);
        } else {
            safe.push(c);
        }
    }
    safe
}

fn show(text: &mut String, c: char) {
    match c {
        '\n' => text.push_str("\\n"),
        '\r' => text.push_str("\\r"),
        '\t' => text.push_str("\\t"),
        other => text.extend(other.escape_unicode()),
    }
}

/// Returns what a terminal or the log of a workflow may get: our lines and styles stay, everything else that is hidden
/// becomes visible, and no line is a command to a runner.
pub fn terminal(text: &str) -> String {
    let mut screen = Screen::default();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match style(rest) {
            Some(length) => {
                screen.text.push_str(&rest[..length]);
                length
            }
            None => {
                screen.put(c, matches!(c, '\n' | '\t'));
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    screen.text
}

/// Returns one line with styles: what [`terminal`] does, and line breaks become visible.
pub fn styled_line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match style(rest) {
            Some(length) => {
                safe.push_str(&rest[..length]);
                length
            }
            None => {
                if is_hidden(c) && c != '\t' {
                    show(&mut safe, c);
                } else {
                    safe.push(c);
                }
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    safe
}

/// Returns a log record as exactly one line, whatever its fields hold.
pub fn log_line(record: &str) -> String {
    let record = record.strip_suffix('\n').unwrap_or(record);
    let mut screen = Screen::default();
    record.chars().for_each(|c| screen.put(c, c == '\t'));
    screen.text.push('\n');
    screen.text
}

/// Returns a JSON text that means the same, with what is hidden written as JSON's escapes: only strings can hold it.
pub fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut units = [0; 2];
    for c in text.chars() {
        let structure = matches!(c, '\n' | '\t' | '\r');
        let command = c == '[' && workflow::opens(&safe);
        if command || is_hidden(c) && !structure {
            for unit in c.encode_utf16(&mut units) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Returns the length of the style that a text begins with, if it is one that this program writes: bold, dimmed, underlined, the
/// sixteen colours, and their end. A style that conceals is none of them.
fn style(text: &str) -> Option<usize> {
    let body = text.strip_prefix("\u{1b}[")?;
    let code = &body[..body.find('m').filter(|end| *end <= 2)?];
    let ours = matches!(code, "0" | "1" | "2" | "4")
        || code.strip_prefix(['3', '9']).is_some_and(|colour| {
            let mut digits = colour.bytes();
            matches!((digits.next(), digits.next()), (Some(b'0'..=b'7'), None))
        });
    ours.then_some(2 + code.len() + 1)
}

/// What is written of a text, with what has to be known of the line so far.
#[derive(Default)]
struct Screen {
    text: String,
    /// What the line shows so far, without styles: they may be taken away after this.
    shown: String,
}

impl Screen {
    fn put(&mut self, c: char, keep: bool) {
        if c == '\n' && keep {
            self.text.push(c);
            self.shown.clear();
            return;
        }
        let command = workflow::begins(&self.shown, c);
        if command {
            self.text.extend(c.escape_unicode());
        } else if is_hidden(c) && !keep {
            show(&mut self.text, c);
        } else {
            self.text.push(c);
        }
        // An escape is shown for it, so nothing is completed by what comes after.
        self.shown
            .push(if command || is_hidden(c) && !keep { '\\' } else { c });
    }
}

#[cfg(any(test, feature = "testing"))]
mod hostile;
#[cfg(test)]
mod tests;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use hostile::HOSTILE;
