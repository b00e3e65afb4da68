//! Why a file or a document of it could not be read.

use super::{Mark, Obstacle};
use crate::error;
use cutover_base::budget::Exceeded;
use cutover_karmada::name::Location;

/// Why a document could not be read, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Error {
    pub location: Location,
    pub problem: Problem,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Whoever reads it has been told to stop: it says nothing of the file.
    #[error("reading it was broken off")]
    BrokenOff,
    #[error("cannot be read: {0}")]
    Unreadable(Obstacle),
    #[error("not UTF-8")]
    Encoding,
    #[error("not valid YAML: {message}")]
    Syntax { message: String, tab: bool },
    #[error("{key:?} is written twice, first at {first}")]
    DuplicateKey { key: String, first: Location },
    #[error("`<<` would change {key:?}, which is written before it")]
    LateMerge { key: String },
    #[error("`<<` needs a mapping or a sequence of mappings")]
    BadMerge,
    #[error("the key `{0}` is not a string: YAML reads it as {1}")]
    KeyNotString(String, &'static str),
    #[error("a key must be a string, not a mapping or a sequence")]
    CompositeKey,
    #[error("the tag {} is not supported", known(.0))]
    Tag(String),
    #[error("the value has the tag {0}, but is none")]
    TagMismatch(&'static str),
    #[error("{0} has no representation in JSON")]
    NotJson(String),
    #[error("an alias inside its own anchor")]
    RecursiveAlias,
    #[error(transparent)]
    Limit(Exceeded),
    #[error("and {0} more errors")]
    More(usize),
    #[error("more than one document")]
    SecondDocument,
    #[error("not a Kubernetes object: {0}")]
    NotAnObject(&'static str),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{0} must be {1}")]
    WrongType(&'static str, &'static str),
    #[error("{value:?} is not a valid {what}: {rule}")]
    BadName {
        what: &'static str,
        value: String,
        rule: &'static str,
    },
    #[error("metadata.generateName gives a new object at every sync")]
    GenerateName,
}

impl Error {
    pub(super) fn new(path: &str, mark: Mark, problem: Problem) -> Self {
        Self {
            location: mark.of(path),
            problem,
        }
    }

    /// Returns the error of an entry that can't be read as a file.
    pub fn unreadable(path: &str, why: Obstacle) -> Self {
        Self::new(path, Mark { line: 1, column: 1 }, Problem::Unreadable(why))
    }

    /// Returns the next thing to do about it.
    pub fn hint(&self) -> Option<String> {
        self.problem.hint()
    }
}

impl Problem {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Unreadable(why) => return Some(why.hint()),
            Self::Encoding => "save the file as UTF-8",
            Self::Syntax { tab: true, .. } => "indent with spaces: YAML does not allow tabs there",
            Self::DuplicateKey { .. } => "remove one of them",
            Self::LateMerge { .. } => {
                "put `<<` first in its mapping: YAML and kubectl disagree about who wins otherwise"
            }
            Self::KeyNotString(key, _) => return Some(format!("put it in quotes: \"{key}\"")),
            Self::CompositeKey => {
                "if that is a template ({{ … }}), commit what it renders to, or exclude the file in cutover.yaml"
            }
            Self::Tag(tag) if tag == "!!binary" => "write the text itself, or base64 in `data` of a Secret",
            Self::Tag(tag) if known(tag) == tag => "remove the tag",
            Self::Tag(_) => "if the value begins with `!`, put it in quotes; if that is a tag, remove it",
            Self::NotJson(text) => return Some(format!("put it in quotes: \"{text}\"")),
            Self::Limit(exceeded) => return Some(exceeded.hint()),
            Self::More(_) => "fix the others first: cutover validate then shows these",
            Self::SecondDocument => "keep one document in this file",
            Self::NotAnObject(_) => {
                "exclude the file in cutover.yaml (`syncs[].exclude`) if it is not meant for the cluster"
            }
            Self::GenerateName => "give it a metadata.name",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Returns a text as errors quote it: they are kept, and a text may be as long as its file.
pub(super) fn quoted(text: &str) -> String {
    const MOST: usize = 128;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A tag that nobody knows may be a password without quotes.
fn known(tag: &str) -> &str {
    if tag.starts_with("!!") { tag } else { "`!…`" }
}

impl From<Error> for error::Error {
    fn from(error: Error) -> Self {
        let converted = Self::user(error.to_string()).at(error.location.clone());
        match error.hint() {
            Some(hint) => converted.hint(hint),
            None => converted,
        }
    }
}
