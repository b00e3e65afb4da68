//! Amounts such as `500m` and `1Gi` in the form in which a kube-apiserver writes them.

use std::fmt::Write as _;

const BINARY: &[&str] = &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const ONE: i128 = 1_000_000_000;
const THOUSANDTH: i128 = 1_000_000;

/// Returns an amount in billionths, or nothing if it is none.
pub(super) fn billionths(text: &str) -> Option<i128> {
    let (number, suffix) = split(text);
    let (whole, fraction) = number
        .trim_start_matches(['+', '-'])
        .split_once('.')
        .unwrap_or((number.trim_start_matches(['+', '-']), ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let digits: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let below = ten_to(fraction.len())?;
    let (factor, divisor, _) = factor(suffix)?;
    let scaled = digits.checked_mul(ONE)?.checked_mul(factor)?;
    let divisor = below.checked_mul(divisor)?;
    let billionths = (scaled + divisor - 1) / divisor;
    // Resources are counted in thousandths, rounded up.
    let billionths = (billionths + THOUSANDTH - 1) / THOUSANDTH * THOUSANDTH;
    Some(if number.starts_with('-') {
        -billionths
    } else {
        billionths
    })
}

/// Returns an amount in its canonical form, or nothing if it is none.
pub(in super::super) fn canonical(text: &str) -> Option<String> {
    let (_, suffix) = split(text);
    let (_, _, exponent) = factor(suffix)?;
    let billionths = billionths(text)?;
    let (sign, billionths) = (if billionths < 0 { "-" } else { "" }, billionths.abs());
    let binary = BINARY.contains(&suffix) && !suffix.is_empty();
    if binary && billionths % ONE == 0 && billionths >= 1024 * ONE {
        return Some(format!("{sign}{}", in_powers_of_1024(billionths / ONE)));
    }
    Some(format!("{sign}{}", in_powers_of_1000(billionths, exponent)))
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .char_indices()
        .find(|(place, letter)| {
            !(letter.is_ascii_digit() || *letter == '.' || (*place == 0 && "+-".contains(*letter)))
        })
        .map_or(text.len(), |(place, _)| place);
    text.split_at(end)
}

fn ten_to(power: usize) -> Option<i128> {
    10_i128.checked_pow(u32::try_from(power).ok()?)
}

/// Returns by what a suffix multiplies and divides, and whether it is a power of ten in digits.
fn factor(suffix: &str) -> Option<(i128, i128, bool)> {
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        return Some((1024_i128.checked_pow(u32::try_from(power).ok()?)?, 1, false));
    }
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    let (power, exponent) = match decimal.iter().position(|known| *known == suffix) {
        Some(place) => (i32::try_from(place).ok()? * 3 - 9, false),
        None => (suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?, true),
    };
    let size = ten_to(usize::try_from(power.unsigned_abs()).ok()?)?;
    Some(if power < 0 {
        (1, size, exponent)
    } else {
        (size, 1, exponent)
    })
}

fn in_powers_of_1024(mut whole: i128) -> String {
    let mut power = 0;
    while whole % 1024 == 0 && power + 1 < BINARY.len() {
        whole /= 1024;
        power += 1;
    }
    format!("{whole}{}", BINARY[power])
}

fn in_powers_of_1000(mut billionths: i128, exponent: bool) -> String {
    const SUFFIXES: &[&str] = &["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    if billionths == 0 {
        return "0".to_owned();
    }
    let mut power = 0;
    while billionths % 1000 == 0 && power + 1 < SUFFIXES.len() {
        billionths /= 1000;
        power += 1;
    }
    let mut text = billionths.to_string();
    let ten = i32::try_from(power).unwrap_or_default() * 3 - 9;
    if !exponent {
        text.push_str(SUFFIXES[power]);
    } else if ten != 0 {
        let _ = write!(text, "e{ten}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_a_real_server_writes_them() {
        for (said, written) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.25", "250m"),
            ("0.0001", "1m"),
            ("1e-1", "100e-3"),
            ("1E2", "100"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("1024Mi", "1Gi"),
            ("0.5Gi", "512Mi"),
            ("0.5Ki", "512"),
            ("1.5G", "1500M"),
            ("2048Ki", "2Mi"),
            ("1073741824", "1073741824"),
            ("12E", "12E"),
            ("0m", "0"),
            ("-1", "-1"),
            (".5", "500m"),
        ] {
            assert_eq!(canonical(said).as_deref(), Some(written), "{said}");
        }
        for odd in ["", "m", "abc", "1x", "1.2.3", "1 Gi"] {
            assert_eq!(canonical(odd), None, "{odd}");
        }
    }
}
