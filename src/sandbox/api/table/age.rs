//! How long ago something was, in two units at most.

use jiff::Timestamp;

/// Returns the time from `then` to `now` as kubectl shows ages: `45s`, `3m20s`, `5h`, `4d1h`, `2y33d`.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let seconds = now.duration_since(then).as_secs();
    match seconds {
        ..=-2 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(seconds, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds, DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(seconds, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two(seconds: i64, large: i64, large_name: &str, small: i64, small_name: &str) -> String {
    match seconds % large / small {
        0 => format!("{}{large_name}", seconds / large),
        rest => format!("{}{large_name}{rest}{small_name}", seconds / large),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::ToSpan;

    #[test]
    fn ages_have_two_units_at_most() {
        let then = Timestamp::UNIX_EPOCH;
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (660, "11m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 300, "3h5m"),
            (9 * 3600, "9h"),
            (49 * 3600, "2d1h"),
            (9 * 86_400, "9d"),
            (800 * 86_400, "2y70d"),
            (9 * 365 * 86_400, "9y"),
        ] {
            assert_eq!(age(then, then + seconds.seconds()), text, "{seconds}");
        }
    }
}
