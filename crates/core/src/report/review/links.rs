//! Places in files, which lead to the lines where it is known who shows the repository.

use super::page::code;
use crate::report::Web;
use cutover_karmada::name::{Location, Revision};

/// Where the files of a report are shown to people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links {
    pub web: Web,
    /// The commit that the places are of.
    pub revision: Revision,
}

/// Writes places, as links if there are any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places<'a>(pub(super) Option<&'a Links>);

impl Places<'_> {
    /// Returns `path:line`.
    pub(super) fn line(self, at: &Location) -> String {
        self.to(at, &format!("{}:{}", at.path, at.line))
    }

    /// Returns `path:line:column`.
    pub(super) fn exact(self, at: &Location) -> String {
        self.to(at, &at.to_string())
    }

    /// Returns `path:line` in brackets after a space; nothing without a place.
    pub(super) fn bracketed(self, at: Option<&Location>) -> String {
        at.map(|at| format!(" ({})", self.line(at))).unwrap_or_default()
    }

    fn to(self, at: &Location, text: &str) -> String {
        match self.0 {
            Some(Links { web, revision }) => {
                format!("[{}]({})", code(text), web.line(revision, &at.path, at.line))
            }
            None => code(text),
        }
    }
}
