//! Why an API did not do what it was asked. No message has the token in it: none is given one.

use std::time::Duration;

use http::StatusCode;

use cutover_core::error::Kind;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot reach {api}: {why}")]
    Unreachable { api: String, why: String },
    /// Whether the request was carried out is not known.
    #[error("{api} gave no clear answer: {why}")]
    Unclear { api: String, why: String },
    #[error("{api} answered {status}: {why}")]
    Refused {
        api: String,
        status: StatusCode,
        why: String,
    },
    #[error("{api} limits the rate of requests: next attempt in {} s", wait.as_secs())]
    Limited { api: String, wait: Duration },
    #[error("{api} answered something else than expected: {why}")]
    NotUnderstood { api: String, why: String },
    #[error("{what} can't be used: {why}")]
    BadInput { what: &'static str, why: String },
}

impl Error {
    /// Returns whether the credentials don't suffice. A repository that they may not see is answered as one that isn't
    /// there.
    pub fn is_permission(&self) -> bool {
        const NO: [StatusCode; 3] = [
            StatusCode::UNAUTHORIZED,
            StatusCode::FORBIDDEN,
            StatusCode::NOT_FOUND,
        ];
        matches!(self, Self::Refused { status, .. } if NO.contains(status))
    }
}

impl From<Error> for cutover_core::error::Error {
    fn from(error: Error) -> Self {
        let (kind, hint) = match &error {
            Error::Unreachable { .. } | Error::Unclear { .. } | Error::Limited { .. } => {
                (Kind::Unreachable, None)
            }
            refused if refused.is_permission() => (
                Kind::Auth,
                Some("the token needs to be allowed to write pull requests"),
            ),
            Error::Refused { .. } | Error::BadInput { .. } => (Kind::User, None),
            Error::NotUnderstood { .. } => (
                Kind::User,
                Some("is the URL that of the API, with /api/v3 at the end where it isn't github.com?"),
            ),
        };
        let mapped = Self::new(kind, error.to_string());
        match hint {
            Some(hint) => mapped.hint(hint),
            None => mapped,
        }
    }
}
