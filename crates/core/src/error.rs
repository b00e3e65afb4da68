//! The error that people see: a kind, a message, where, and a hint for the next thing to do.
//!
//! Modules have error types of their own; each converts into [`Error`] at the border, and nowhere else. Whatever
//! credentials a text has that came along are taken out there.

use std::fmt;
use std::sync::Arc;

use crate::redact;
use cutover_karmada::name::Location;

/// Who can do something about an error; decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The user's input, or the operation that the user asked for, failed.
    User,
    /// Git or the cluster refused the credentials or the permission.
    Auth,
    /// Git or the cluster could not be reached, or did not answer in time.
    Unreachable,
    /// Somebody else changed what was about to be changed.
    Conflict,
    /// A bug in cutover.
    Internal,
}

impl Kind {
    /// Returns the exit code of the process: 1 failed, 3 cannot reach Git or cluster, 4 a bug.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::User | Self::Conflict => 1,
            Self::Auth | Self::Unreachable => 3,
            Self::Internal => 4,
        }
    }
}

/// An error as it is told to people.
#[derive(Clone, Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    location: Option<Location>,
    hint: Option<String>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: redact::text(&message.into()).into_owned(),
            location: None,
            hint: None,
            source: None,
        }
    }

    pub fn user(message: impl Into<String>) -> Self {
        Self::new(Kind::User, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    #[must_use]
    pub fn at(mut self, location: Location) -> Self {
        self.location = Some(location);
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(redact::text(&hint.into()).into_owned());
        self
    }

    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    pub const fn kind(&self) -> Kind {
        self.kind
    }

    pub fn location(&self) -> Option<&Location> {
        self.location.as_ref()
    }

    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<cutover_base::budget::Exceeded> for Error {
    fn from(exceeded: cutover_base::budget::Exceeded) -> Self {
        Self::user(exceeded.to_string()).hint(exceeded.hint())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}
