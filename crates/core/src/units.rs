//! Times, durations and uids as people read them.

use jiff::{SignedDuration, Timestamp};

/// Returns a duration with as many digits as matter: `85 ms`, `1.2 s`, `2 min 5 s`, `3 h 10 min`.
pub fn duration(duration: SignedDuration) -> String {
    let millis = duration.as_millis().max(0);
    let seconds = millis / 1000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Returns a number of milliseconds like [`duration`].
pub fn milliseconds(millis: u64) -> String {
    duration(SignedDuration::from_millis(
        i64::try_from(millis).unwrap_or(i64::MAX),
    ))
}

/// Returns a time to the second, in UTC.
pub fn instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Shortens every uid in a text to its first part: people tell things apart by that; records have the whole.
pub fn brief(text: &str) -> String {
    let mut brief = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let at_word = !brief.ends_with(|c: char| c.is_ascii_alphanumeric());
        if at_word && let Some(uid) = rest.get(..36).filter(|uid| is_uid(uid)) {
            brief.push_str(&uid[..8]);
            rest = &rest[36..];
        } else {
            brief.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    brief
}

fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_digits_that_matter() {
        let told = |millis| duration(SignedDuration::from_millis(millis));
        assert_eq!(told(-5), "0 ms");
        assert_eq!(told(85), "85 ms");
        assert_eq!(told(1_250), "1.2 s");
        assert_eq!(told(59_999), "59.9 s");
        assert_eq!(told(125_000), "2 min 5 s");
        assert_eq!(told(11_400_000), "3 h 10 min");
        assert_eq!(milliseconds(13_400), "13.4 s");
    }

    #[test]
    fn uids_are_shortened_and_nothing_else_is() {
        let uid = "31edc447-d709-47c0-99c0-e2869b102ddc";
        assert_eq!(
            brief(&format!("uid {uid}, marker {uid}.1.2")),
            "uid 31edc447, marker 31edc447.1.2"
        );
        assert_eq!(
            brief("héld → savepoint-b8f7bd-df51f92c382c"),
            "héld → savepoint-b8f7bd-df51f92c382c"
        );
        assert_eq!(brief(&format!("a{uid}")), format!("a{uid}"));
    }
}
