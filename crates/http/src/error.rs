//! Why there is no answer, in words that never carry a credential.

use std::time::Duration;

use hyper_util::client::legacy;

/// Why there is no answer, or none that was read to its end. No text names a URL or a header: both may be secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There was no connection: nothing of the request was sent.
    #[error("{0}")]
    NotConnected(String),
    /// Whether the request was carried out is not known.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// Whether the request was carried out is not known.
    #[error("{0}")]
    Interrupted(String),
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
}

/// The request was cut off because the answer took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {}", in_words(self.0))]
pub struct TimedOut(pub Duration);

impl From<legacy::Error> for Error {
    fn from(error: legacy::Error) -> Self {
        if error.is_connect() {
            Self::NotConnected(with_causes(&error))
        } else {
            Self::Interrupted(with_causes(&error))
        }
    }
}

/// Returns an error with its causes on one line, each said once.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn in_words(duration: Duration) -> String {
    if duration.subsec_millis() == 0 {
        format!("{} s", duration.as_secs())
    } else {
        format!("{} ms", duration.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn every_cause_is_said_once() {
        let layer = |text, source| Some(Box::new(Layer { text, source }));
        let innermost = layer("connection refused", None);
        let error = Layer {
            text: "cannot connect",
            source: layer("tcp: connection refused", innermost),
        };
        assert_eq!(with_causes(&error), "cannot connect: tcp: connection refused");
    }

    #[test]
    fn a_time_limit_is_said_in_seconds_or_milliseconds() {
        let text = |millis| TimedOut(Duration::from_millis(millis)).to_string();
        assert_eq!(text(15_000), "no answer within 15 s");
        assert_eq!(text(250), "no answer within 250 ms");
    }
}
