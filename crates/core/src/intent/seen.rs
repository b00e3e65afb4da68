//! What was observed, or why not. Nothing turns an unknown into a yes or a no.

use crate::api::quoted;

/// When a read was sent and answered, as ticks of a counter that only grows: the order counts, not the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    pub sent: u64,
    pub answered: u64,
}

/// A fresh read of something, or why there is none. Caches only wake a machine; they are never its evidence.
#[derive(Clone, Debug)]
pub enum Seen<T> {
    Known { value: T, read: Read },
    Unknown { why: String },
}

/// A question that could not be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotKnown(pub String);

impl<T> Seen<T> {
    pub const fn known(value: T, read: Read) -> Self {
        Self::Known { value, read }
    }

    pub fn unknown(why: impl Into<String>) -> Self {
        // What a server answers stands in it.
        let why = why.into();
        Self::Unknown {
            why: quoted(&why).into_owned(),
        }
    }

    /// Nothing was asked.
    pub fn unread(why: &str) -> Self {
        Self::unknown(format!("not read: {why}"))
    }

    /// Returns what was read.
    pub fn get(&self) -> Result<&T, NotKnown> {
        match self {
            Self::Known { value, .. } => Ok(value),
            Self::Unknown { why } => Err(NotKnown(why.clone())),
        }
    }

    /// Returns what was read, and when.
    pub fn read(&self) -> Result<(&T, Read), NotKnown> {
        match self {
            Self::Known { value, read } => Ok((value, *read)),
            Self::Unknown { why } => Err(NotKnown(why.clone())),
        }
    }
}
