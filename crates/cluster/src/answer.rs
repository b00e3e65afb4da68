//! What a read found out, and when it was asked for.

/// An answer, and when the question was sent: the order of ticks is the order in time, for all reads of one [`Cluster`](super::Cluster).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read<T> {
    pub sent: u64,
    pub answered: u64,
    pub answer: Answer<T>,
    /// It was a member that was asked, and nothing answered in its name: not even a refusal.
    pub silent: bool,
}

/// What a read found out. Nothing turns `Unknown` into a yes or a no.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer<T> {
    Found(T),
    /// The server that keeps the object says that it isn't there.
    NotFound,
    Unknown {
        why: String,
    },
}

impl<T> Answer<T> {
    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown { why: why.into() }
    }
}

impl<T> Read<T> {
    pub fn map<U>(self, f: impl FnOnce(T) -> Answer<U>) -> Read<U> {
        Read {
            sent: self.sent,
            answered: self.answered,
            silent: self.silent,
            answer: match self.answer {
                Answer::Found(value) => f(value),
                Answer::NotFound => Answer::NotFound,
                Answer::Unknown { why } => Answer::Unknown { why },
            },
        }
    }
}
