//! Headers that every client reads or writes alike.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, header};

/// What a server asks for is cut off here: no client waits that long, and sums of durations stay in range.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// Returns the value of `Authorization` for a token, without white space around it. `None` if there is no token, or one with
/// characters that no header can carry.
pub fn bearer(token: &str) -> Option<HeaderValue> {
    let token = token.trim();
    if token.is_empty() {
        return None;
    }
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Returns how long a server wants to be left alone: `Retry-After`, in seconds or as a date (RFC 9110, 10.2.3); a year at most.
///
/// A date counts from the `Date` of the same answer, where it has one: the clock of the server may be another one than ours.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        let until = httpdate::parse_http_date(text).ok()?;
        until.duration_since(now(headers)).unwrap_or_default()
    };
    Some(wait.min(LONGEST))
}

fn now(headers: &HeaderMap) -> SystemTime {
    let date = headers.get(header::DATE).and_then(|date| date.to_str().ok());
    date.and_then(|date| httpdate::parse_http_date(date).ok())
        .unwrap_or_else(SystemTime::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn wait(text: &str, date: Option<&str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        if let Some(date) = date {
            headers.insert(header::DATE, HeaderValue::from_str(date).unwrap());
        }
        retry_after(&headers)
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_as_a_date() {
        let secs = |n| Some(Duration::from_secs(n));
        assert_eq!(wait("7", None), secs(7));
        assert_eq!(wait(" 0 ", None), secs(0));
        for date in [
            "Sun, 06 Nov 1994 08:51:07 GMT",
            "Sunday, 06-Nov-94 08:51:07 GMT",
            "Sun Nov  6 08:51:07 1994",
        ] {
            assert_eq!(wait(date, Some(DATE)), secs(90), "{date}");
        }
        assert_eq!(
            wait("Sun, 06 Nov 1994 08:00:00 GMT", Some(DATE)),
            secs(0),
            "it has passed"
        );
        assert_eq!(wait(DATE, None), secs(0), "by our own clock");
        for text in ["", "soon", "-1", "1.5", "Sun, 06 Nov"] {
            assert_eq!(wait(text, Some(DATE)), None, "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn no_server_asks_for_more_than_a_clock_can_hold() {
        for text in [
            u64::MAX.to_string(),
            "9".repeat(40),
            "Fri, 31 Dec 9999 23:59:59 GMT".to_owned(),
        ] {
            assert_eq!(wait(&text, Some(DATE)), Some(LONGEST), "{text}");
        }
    }

    #[test]
    fn a_token_is_not_shown_and_one_that_is_none_is_refused() {
        let value = bearer(" t0ken\n").unwrap();
        assert_eq!(value.to_str().unwrap(), "Bearer t0ken");
        assert_eq!(format!("{value:?}"), "Sensitive");
        assert_eq!(bearer("a\nb"), None);
        assert_eq!(bearer(" \n"), None);
    }
}
