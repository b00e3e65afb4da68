//! Commands to the runner of a workflow. It takes them from whatever a step prints: `::error::…` at the beginning of a line,
//! `##[error]…` (and Azure's `##vso[…]`) anywhere in it.

use super::{lines, visible};

/// Returns the data of a command: a command ends at a line's end, and `%` begins an escape.
pub fn data(text: &str) -> String {
    percent(&lines(text))
}

/// Returns the value of a property of a command.
pub fn property(text: &str) -> String {
    percent(&visible(text)).replace(':', "%3A").replace(',', "%2C")
}

fn percent(text: &str) -> String {
    text.replace('%', "%25").replace('\n', "%0A")
}

/// Returns whether `next` makes a command of a line that shows `before`.
pub(super) fn begins(before: &str, next: char) -> bool {
    match next {
        // A runner skips blanks before a command.
        ':' => before.trim_start() == ":",
        '[' => opens(before),
        _ => false,
    }
}

/// Returns whether a bracket after this text opens a command in the old form.
pub(super) fn opens(before: &str) -> bool {
    let bytes = before.as_bytes();
    let ends = |end: &str| {
        let from = bytes.len().checked_sub(end.len());
        from.is_some_and(|from| bytes[from..].eq_ignore_ascii_case(end.as_bytes()))
    };
    ends("##") || ends("##vso")
}
