//! What a person should know or do: with a code, a place and a hint.

mod code;

use std::fmt;

pub use code::{Code, RULES, Rule, Severity};

use crate::manifest;
use crate::redact;
use cutover_karmada::name::Location;

/// Something that a person should know or do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// `None`: it is about no file.
    pub location: Option<Location>,
    pub code: Code,
    pub severity: Severity,
    pub message: String,
    pub hint: Option<String>,
}

impl Finding {
    /// Returns a finding of the severity that its code has.
    pub fn new(code: Code, location: Location, message: impl Into<String>) -> Self {
        Self {
            location: Some(location),
            code,
            severity: code.rule().severity,
            message: redact::text(&message.into()).into_owned(),
            hint: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(redact::text(&hint.into()).into_owned());
        self
    }

    /// Adds a hint, where there is one to give.
    #[must_use]
    pub fn maybe_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]: {}", self.severity, self.code, self.message)?;
        if let Some(location) = &self.location {
            write!(f, "\n  --> {location}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl From<&manifest::Error> for Finding {
    fn from(error: &manifest::Error) -> Self {
        use manifest::Problem;
        let code = match &error.problem {
            Problem::DuplicateKey { .. } | Problem::LateMerge { .. } => Code::DuplicateKey,
            Problem::NotAnObject(_)
            | Problem::Missing(_)
            | Problem::WrongType(..)
            | Problem::BadName { .. }
            | Problem::GenerateName => Code::NotAnObject,
            Problem::Limit(_) => Code::TooLarge,
            _ => Code::Unreadable,
        };
        Self::new(code, error.location.clone(), error.to_string()).maybe_hint(error.hint())
    }
}
