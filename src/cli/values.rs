//! Values that flags of several commands take, and what is said of a text that is none of them.

use std::net::SocketAddr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::{SignedDuration, Timestamp};

use cutover_core::api::Phase;
use cutover_core::intent::control::GATES;
use cutover_karmada::LabelSelector;

/// Reads a time.
pub fn time(text: &str) -> Result<Timestamp, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a time such as 2030-01-31T06:00:00Z"))
}

/// Reads the time by which something has to begin or to end: an intent whose time is over would do nothing.
pub fn deadline(text: &str) -> Result<Timestamp, String> {
    let deadline = time(text)?;
    if deadline <= Timestamp::now() {
        return Err(format!("{text:?} is in the past: nothing would begin"));
    }
    Ok(deadline)
}

/// Reads a length of time.
pub fn length(text: &str) -> Result<SignedDuration, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not a length of time such as 90s or 1h30m"))
}

/// Reads a share in percent.
pub fn percent(text: &str) -> Result<u32, String> {
    let number: Option<u32> = text.parse().ok();
    number
        .filter(|percent| (1..=100).contains(percent))
        .ok_or_else(|| format!("{text:?} is not a whole number from 1 to 100, without %"))
}

/// Reads a number of which there is one at least.
pub fn count(text: &str) -> Result<u32, String> {
    let number: Option<u32> = text.parse().ok();
    number
        .filter(|number| *number >= 1)
        .ok_or_else(|| format!("{text:?} is not a whole number from 1 on"))
}

/// Checks a label selector, as kubectl -l takes it; a file has it as it was written.
pub fn labels(text: &str) -> Result<String, String> {
    let read: Result<LabelSelector, _> = text.parse();
    read.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Returns what reads a phase of a Migration that can wait for an approval.
pub fn phase() -> impl TypedValueParser<Value = Phase> {
    let named = |text: String| {
        let is_meant = |phase: &Phase| phase.to_string().eq_ignore_ascii_case(&text);
        GATES.into_iter().find(is_meant).unwrap_or_default()
    };
    PossibleValuesParser::new(GATES.map(|phase| -> &'static str { phase.name() })).map(named)
}

/// Returns the present time in whole seconds, as a person would write it.
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Reads where to listen.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not an IP address with a port, such as 0.0.0.0:9090"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_none_is_told_with_one_that_is() {
        assert!(
            time("tomorrow")
                .unwrap_err()
                .ends_with("a time such as 2030-01-31T06:00:00Z")
        );
        assert!(time("2030-01-31T06:00:00Z").is_ok());
        assert_eq!(
            length("60").unwrap_err(),
            "\"60\" is not a length of time such as 90s or 1h30m"
        );
        assert_eq!(length("1h30m"), Ok(SignedDuration::from_mins(90)));
        for text in ["50%", "0", "101", "half"] {
            assert!(percent(text).is_err(), "{text}");
        }
        assert_eq!(percent("100"), Ok(100));
        for text in ["0", "-1", "many"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert_eq!(count("3"), Ok(3));
        assert!(address("9090").unwrap_err().ends_with("such as 0.0.0.0:9090"));
        assert!(address("[::]:9090").is_ok());
    }

    #[test]
    fn a_deadline_is_to_come() {
        assert_eq!(
            deadline("2020-01-31T06:00:00Z").unwrap_err(),
            "\"2020-01-31T06:00:00Z\" is in the past: nothing would begin"
        );
        let tomorrow = Timestamp::now() + SignedDuration::from_hours(24);
        assert_eq!(deadline(&tomorrow.to_string()), Ok(tomorrow));
    }
}
