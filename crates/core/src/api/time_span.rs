//! Lengths of time as people write them in specs.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jiff::SignedDuration;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A length of time in hours, minutes, seconds and milliseconds, written as Go and Kubernetes write them: `90s`, `1h30m`,
/// `1.5h`. It is read once, where a spec comes in, and stays as it was written where the spec is written again. More than a
/// hundred years count as a hundred years: from any moment on, they end in time that can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeSpan {
    text: String,
    length: SignedDuration,
}

const LONGEST: SignedDuration = SignedDuration::from_hours(100 * 366 * 24);

/// What isn't a length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a length of time such as 90s or 1h30m")]
pub struct NotATimeSpan(String);

impl TimeSpan {
    /// What the CRDs take, and nothing that [`FromStr`] doesn't.
    pub const PATTERN: &str = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ms|s|m|h)){1,8}$";

    pub fn seconds(seconds: u32) -> Self {
        Self {
            text: format!("{seconds}s"),
            length: SignedDuration::from_secs(seconds.into()),
        }
    }

    pub fn minutes(minutes: u32) -> Self {
        Self {
            text: format!("{minutes}m"),
            length: SignedDuration::from_mins(minutes.into()),
        }
    }

    /// Returns how long it is: from nothing to a hundred years.
    pub const fn length(&self) -> SignedDuration {
        self.length
    }
}

impl FromStr for TimeSpan {
    type Err = NotATimeSpan;

    fn from_str(text: &str) -> Result<Self, NotATimeSpan> {
        let length = sum(text).ok_or_else(|| NotATimeSpan(text.to_owned()))?;
        Ok(Self {
            text: text.to_owned(),
            length: length.min(LONGEST),
        })
    }
}

/// Adds up the parts of a text: numbers, each with its unit.
fn sum(text: &str) -> Option<SignedDuration> {
    let mut length = None;
    let mut rest = text;
    while !rest.is_empty() {
        let unit = rest.find(|one: char| one.is_ascii_alphabetic())?;
        let next = rest[unit..].find(|one: char| !one.is_ascii_alphabetic());
        let (part, others) = rest.split_at(next.map_or(rest.len(), |next| unit + next));
        let number = &part[..unit];
        let is_known = matches!(&part[unit..], "ms" | "s" | "m" | "h");
        if !is_known || !number.bytes().all(|one| one.is_ascii_digit() || one == b'.') {
            return None;
        }
        let part: SignedDuration = part.parse().ok()?;
        length = Some(length.unwrap_or(SignedDuration::ZERO).checked_add(part)?);
        rest = others;
    }
    length
}

impl TryFrom<String> for TimeSpan {
    type Error = NotATimeSpan;

    fn try_from(text: String) -> Result<Self, NotATimeSpan> {
        text.parse()
    }
}

impl From<TimeSpan> for String {
    fn from(span: TimeSpan) -> Self {
        span.text
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl JsonSchema for TimeSpan {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TimeSpan".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": Self::PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Option<SignedDuration> {
        text.parse::<TimeSpan>().ok().map(|span| span.length())
    }

    #[test]
    fn parts_add_up_in_any_order() {
        let minutes = |minutes| Some(SignedDuration::from_mins(minutes));
        assert_eq!(read("90m"), minutes(90));
        assert_eq!(read("1h30m"), minutes(90));
        assert_eq!(read("1.5h30m"), minutes(120));
        assert_eq!(read("30m1h"), minutes(90));
        assert_eq!(read("0s"), minutes(0));
        assert_eq!(read("1.5s250ms"), Some(SignedDuration::from_millis(1750)));
    }

    #[test]
    fn what_is_no_length_of_time_is_refused() {
        for text in [
            "",
            "10",
            "m",
            "soon",
            "-5s",
            "1d",
            "5 s",
            "1h 30m",
            "1s ago",
            "é5s",
            "5µs",
            "1..5s",
            "99999999999999999999h",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let error = serde_json::from_value::<TimeSpan>(json!("soon")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"soon\" is not a length of time such as 90s or 1h30m"
        );
    }

    #[test]
    fn it_is_written_as_it_was_read() {
        let span: TimeSpan = serde_json::from_value(json!("0090s")).unwrap();
        assert_eq!(serde_json::to_value(span).unwrap(), json!("0090s"));
    }

    proptest! {
        #[test]
        fn whatever_the_crds_take_is_read_and_ends_in_time(text in TimeSpan::PATTERN.trim_matches(['^', '$'])) {
            let length = read(&text).unwrap();
            let late: jiff::Timestamp = "2900-01-01T00:00:00Z".parse().unwrap();
            prop_assert!(late.checked_add(length).is_ok());
        }
    }
}
