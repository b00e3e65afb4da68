//! Times and durations as people read them.

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

/// Returns a time to the second, in UTC.
pub fn instant(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
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
    }
}
