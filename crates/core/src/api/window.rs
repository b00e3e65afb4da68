//! When an intent may begin: a span of time, and hours of the week within it. All times are UTC.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use jiff::civil::{self, Time};
use jiff::{SignedDuration, Timestamp, ToSpan, tz::TimeZone};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Absent parts don't limit.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// Before then it doesn't begin.
    pub not_before: Option<Timestamp>,
    /// From then on it doesn't begin any more.
    pub not_after: Option<Timestamp>,
    /// The hours in which it may begin.
    pub daily: Option<Daily>,
}

/// Hours of every day, or of some days of the week.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Daily {
    /// `HH:MM`, UTC.
    pub from: ClockTime,
    /// `HH:MM`, UTC; not later than `from`: on the next day.
    pub to: ClockTime,
    /// The days on which it opens; none: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Weekday>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// Where a window stands at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Open,
    /// It opens then.
    At(Timestamp),
    /// It doesn't open again.
    Never,
}

impl Window {
    /// Returns whether the window is open, else when it opens. O(days of a week).
    pub fn at(&self, now: Timestamp) -> Opening {
        let earliest = self.not_before.map_or(now, |begin| begin.max(now));
        let opens = match &self.daily {
            Some(daily) => daily.next(earliest),
            None => Some(earliest),
        };
        match opens {
            Some(opens) if self.not_after.is_some_and(|end| opens >= end) => Opening::Never,
            Some(opens) if opens <= now => Opening::Open,
            Some(opens) => Opening::At(opens),
            None => Opening::Never,
        }
    }
}

impl fmt::Display for Window {
    /// Goes on after "begins".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(daily) = &self.daily {
            let days: Vec<_> = daily.days.iter().map(|day| format!("{day:?}")).collect();
            let on = if days.is_empty() {
                String::new()
            } else {
                format!(" on {}", days.join(", "))
            };
            parts.push(format!("between {} and {} UTC{on}", daily.from, daily.to));
        }
        parts.extend(self.not_before.map(|begin| format!("not before {begin}")));
        parts.extend(self.not_after.map(|end| format!("before {end}")));
        if parts.is_empty() {
            parts.push("at any time".to_owned());
        }
        f.write_str(&parts.join(", "))
    }
}

impl Daily {
    /// Returns the first time from `earliest` on at which the hours hold.
    fn next(&self, earliest: Timestamp) -> Option<Timestamp> {
        let (from, to) = (self.from.0, self.to.0);
        let long = to.duration_since(from);
        let long = if long <= SignedDuration::ZERO {
            long + SignedDuration::from_hours(24)
        } else {
            long
        };
        let today = earliest.to_zoned(TimeZone::UTC).date();
        // The hours that began yesterday may still hold; a week has every day.
        (-1..=7).find_map(|day| {
            let date = today.checked_add(i64::from(day).days()).ok()?;
            let opens = date.to_datetime(from).to_zoned(TimeZone::UTC).ok()?.timestamp();
            let is_open = self.opens_on(date) && earliest < opens + long;
            is_open.then(|| opens.max(earliest))
        })
    }

    fn opens_on(&self, date: civil::Date) -> bool {
        self.days.is_empty() || self.days.iter().any(|day| day.is(date.weekday()))
    }
}

impl Weekday {
    fn is(self, other: civil::Weekday) -> bool {
        self as i8 == other.to_monday_zero_offset()
    }
}

/// An hour and a minute of a day, written `HH:MM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClockTime(Time);

/// What isn't an hour and a minute.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a time of day such as 22:00")]
pub struct NotAClockTime(String);

impl ClockTime {
    /// What the CRDs take, and nothing that [`FromStr`] doesn't.
    pub const PATTERN: &str = r"^([01][0-9]|2[0-3]):[0-5][0-9]$";
}

impl FromStr for ClockTime {
    type Err = NotAClockTime;

    fn from_str(text: &str) -> Result<Self, NotAClockTime> {
        let time = Time::strptime("%H:%M", text).ok().map(Self);
        // Fewer digits would be read, too.
        let exact = time.filter(|time| time.to_string() == text);
        exact.ok_or_else(|| NotAClockTime(text.to_owned()))
    }
}

impl TryFrom<String> for ClockTime {
    type Error = NotAClockTime;

    fn try_from(text: String) -> Result<Self, NotAClockTime> {
        text.parse()
    }
}

impl From<ClockTime> for String {
    fn from(time: ClockTime) -> Self {
        time.to_string()
    }
}

impl fmt::Display for ClockTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())
    }
}

impl JsonSchema for ClockTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ClockTime".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": Self::PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn nightly(days: Vec<Weekday>) -> Window {
        Window {
            daily: Some(Daily {
                from: "22:00".parse().unwrap(),
                to: "04:00".parse().unwrap(),
                days,
            }),
            ..Window::default()
        }
    }

    #[test]
    fn a_window_without_limits_is_always_open() {
        assert_eq!(Window::default().at(time("2026-01-01T12:00:00Z")), Opening::Open);
    }

    #[test]
    fn a_span_opens_and_never_again() {
        let window = Window {
            not_before: Some(time("2026-01-01T12:00:00Z")),
            not_after: Some(time("2026-01-01T13:00:00Z")),
            daily: None,
        };
        let begin = Opening::At(time("2026-01-01T12:00:00Z"));
        assert_eq!(window.at(time("2026-01-01T11:59:59Z")), begin);
        assert_eq!(window.at(time("2026-01-01T12:00:00Z")), Opening::Open);
        assert_eq!(window.at(time("2026-01-01T13:00:00Z")), Opening::Never);
    }

    #[test]
    fn hours_past_midnight_belong_to_the_day_before() {
        // The first of January 2026 is a Thursday.
        let window = nightly(vec![Weekday::Thu]);
        assert_eq!(window.at(time("2026-01-01T23:00:00Z")), Opening::Open);
        assert_eq!(window.at(time("2026-01-02T03:59:59Z")), Opening::Open);
        let next = Opening::At(time("2026-01-08T22:00:00Z"));
        assert_eq!(window.at(time("2026-01-02T04:00:00Z")), next);
        assert_eq!(window.at(time("2026-01-02T23:00:00Z")), next);
    }

    #[test]
    fn a_time_of_day_is_four_digits() {
        for text in ["", "7:00", "24:00", "12:60", "12:5", "12:05:00", "noon"] {
            assert_eq!(text.parse::<ClockTime>(), Err(NotAClockTime(text.to_owned())));
        }
        for text in ["00:00", "07:05", "23:59"] {
            assert_eq!(text.parse::<ClockTime>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn hours_count_within_the_span_only() {
        let window = Window {
            not_after: Some(time("2026-01-01T21:00:00Z")),
            ..nightly(Vec::new())
        };
        assert_eq!(window.at(time("2026-01-01T05:00:00Z")), Opening::Never);
    }
}
