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

impl<T> Seen<Vec<T>> {
    /// Returns what the reads of all parts of something found: it is known where each part is. It was sent with the first of them
    /// and answered with the last.
    pub fn together(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else {
            return Self::unread("it has no parts");
        };
        parts.fold(first, |all, part| match (all, part) {
            (
                Self::Known { mut value, read },
                Self::Known {
                    value: more,
                    read: other,
                },
            ) => {
                value.extend(more);
                let read = Read {
                    sent: read.sent.min(other.sent),
                    answered: read.answered.max(other.answered),
                };
                Self::known(value, read)
            }
            (unknown @ Self::Unknown { .. }, _) | (_, unknown @ Self::Unknown { .. }) => unknown,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: &[u8], sent: u64, answered: u64) -> Seen<Vec<u8>> {
        Seen::known(value.to_vec(), Read { sent, answered })
    }

    #[test]
    fn parts_are_known_together_only_where_each_is() {
        let all = Seen::together([known(&[1], 5, 9), known(&[], 4, 6), known(&[2], 6, 7)]);
        assert_eq!(all.read(), Ok((&vec![1, 2], Read { sent: 4, answered: 9 })));
        let refused = || Seen::unknown("refused");
        for parts in [[refused(), known(&[], 1, 2)], [known(&[], 1, 2), refused()]] {
            assert_eq!(Seen::together(parts).get(), Err(NotKnown("refused".to_owned())));
        }
        assert!(Seen::<Vec<u8>>::together([]).get().is_err());
    }
}
