//! Ages, as kubectl tells them: short, and the coarser the longer.

use jiff::SignedDuration;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Ages below a limit are told in one unit, some also in what is left over in a second one.
struct Band {
    below: i64,
    unit: (i64, &'static str),
    rest: Option<(i64, &'static str)>,
}

#[rustfmt::skip]
const BANDS: &[Band] = &[
    Band { below: 2 * MINUTE, unit: (1, "s"), rest: None },
    Band { below: 10 * MINUTE, unit: (MINUTE, "m"), rest: Some((1, "s")) },
    Band { below: 3 * HOUR, unit: (MINUTE, "m"), rest: None },
    Band { below: 8 * HOUR, unit: (HOUR, "h"), rest: Some((MINUTE, "m")) },
    Band { below: 2 * DAY, unit: (HOUR, "h"), rest: None },
    Band { below: 8 * DAY, unit: (DAY, "d"), rest: Some((HOUR, "h")) },
    Band { below: 2 * YEAR, unit: (DAY, "d"), rest: None },
    Band { below: 8 * YEAR, unit: (YEAR, "y"), rest: Some((DAY, "d")) },
    Band { below: i64::MAX, unit: (YEAR, "y"), rest: None },
];

/// Returns an age such as `5m3s`. What lies in the future by more than clocks differ has none.
pub fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let Some(Band {
        unit: (unit, letter),
        rest,
        ..
    }) = BANDS.iter().find(|band| seconds < band.below)
    else {
        return "<unknown>".to_owned();
    };
    let whole = seconds / unit;
    match rest.map(|(part, letter)| (seconds % unit / part, letter)) {
        Some((left, rest)) if left > 0 => format!("{whole}{letter}{left}{rest}"),
        _ => format!("{whole}{letter}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_get_coarser() {
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (5 * MINUTE + 3, "5m3s"),
            (10 * MINUTE + 3, "10m"),
            (179 * MINUTE, "179m"),
            (3 * HOUR, "3h"),
            (7 * HOUR + 59 * MINUTE, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3 * HOUR, "2d3h"),
            (8 * DAY + 3 * HOUR, "8d"),
            (2 * YEAR, "2y"),
            (3 * YEAR + 4 * DAY, "3y4d"),
            (9 * YEAR + 4 * DAY, "9y"),
        ] {
            assert_eq!(age(SignedDuration::from_secs(seconds)), text, "{seconds}");
        }
    }
}
