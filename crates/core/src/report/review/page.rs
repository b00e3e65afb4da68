//! A page of Markdown that is never longer than allowed: parts are added whole or not at all, so that nothing is cut within
//! a table's row, a fence or a collapsed section.

use std::fmt::Write as _;

use crate::redact;
use cutover_base::escape::markdown::{self, html};
pub(super) use cutover_base::escape::markdown::{code, fenced};

/// A page that is being written.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    /// In characters, as GitHub counts.
    room: usize,
}

impl Page {
    /// Begins a page of at most `limit` characters, of which `reserved` are kept for its end.
    pub(super) const fn new(limit: usize, reserved: usize) -> Self {
        Self {
            text: String::new(),
            room: limit.saturating_sub(reserved),
        }
    }

    /// Returns how many characters more fit.
    pub(super) const fn room(&self) -> usize {
        self.room
    }

    /// Adds a part if it fits.
    pub(super) fn add(&mut self, part: &str) -> bool {
        let length = part.chars().count();
        let fits = length <= self.room;
        if fits {
            self.room -= length;
            self.text.push_str(part);
        }
        fits
    }

    /// Adds a head and as many items as fit, and says how many don't by `rest`. Returns how many that are; nothing is added
    /// where there are none.
    pub(super) fn list(&mut self, head: &str, items: &[String], rest: impl Fn(usize) -> String) -> usize {
        if items.is_empty() {
            return 0;
        }
        // What says that something is missing must itself fit.
        let reserve = rest(items.len()).chars().count();
        let first = items.first().map_or(0, |item| item.chars().count());
        if head.chars().count() + first.max(reserve) + reserve > self.room {
            return items.len();
        }
        self.add(head);
        for (place, item) in items.iter().enumerate() {
            let is_last = place + 1 == items.len();
            let needed = item.chars().count() + if is_last { 0 } else { reserve };
            if needed > self.room {
                self.add(&rest(items.len() - place));
                return items.len() - place;
            }
            self.add(item);
        }
        0
    }

    /// Ends the page with what room was reserved for.
    pub(super) fn end(mut self, last: &str) -> String {
        self.text.push_str(last);
        self.text
    }
}

/// A text within a cell or a line, as plain text without credentials.
pub(super) fn inline(text: &str) -> String {
    markdown::text(&redact::text(text))
}

/// Returns a section that opens when somebody clicks.
pub(super) fn collapsed(summary: &str, body: &str) -> String {
    let mut text = String::new();
    let _ = write!(
        text,
        "\n<details><summary>{}</summary>\n\n{body}\n</details>\n",
        html(summary)
    );
    text
}

pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns the first names, and how many more there are.
pub(super) fn named(names: &[String], most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let first = names[..names.len() - more].join(", ");
    match more {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
