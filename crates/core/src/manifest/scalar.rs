//! What a plain scalar means.
//!
//! `kubectl` and the API server read YAML with go-yaml v2, which is YAML 1.1 with a part of 1.2: `yes`, `on`, `y` are
//! booleans, `0644` is an octal number, `1_000` has separators, but `1:30` is text and dates are text. This is the
//! same table (measured with kubectl 1.32), so that a file means here what it means there.

use serde_json::{Number, Value};

/// What a plain scalar stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Number(Number),
    /// An infinity or not-a-number.
    NotJson,
    Text,
}

/// Integers up to this one are exact as a double; beyond, a whole number of a float stays a float.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(super) fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => {
            return Plain::Bool(true);
        }
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => {
            return Plain::Bool(false);
        }
        ".nan" | ".NaN" | ".NAN" => return Plain::NotJson,
        _ => {}
    }
    if matches!(text.trim_start_matches(['+', '-']), ".inf" | ".Inf" | ".INF") {
        return Plain::NotJson;
    }
    match text.as_bytes()[0] {
        b'+' | b'-' | b'.' | b'0'..=b'9' => number(text).map_or(Plain::Text, Plain::Number),
        _ => Plain::Text,
    }
}

/// Returns the value of a plain scalar, without the distinction that [`Plain`] makes. `None`: not in JSON.
pub(super) fn value(text: &str) -> Option<Value> {
    match resolve(text) {
        Plain::Null => Some(Value::Null),
        Plain::Bool(value) => Some(Value::Bool(value)),
        Plain::Number(number) => Some(Value::Number(number)),
        Plain::Text => Some(Value::String(text.to_owned())),
        Plain::NotJson => None,
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| float(&digits))
}

fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative {
        0_i64.checked_sub_unsigned(magnitude).map(Number::from)
    } else {
        Some(Number::from(magnitude))
    }
}

fn float(text: &str) -> Option<Number> {
    if !looks_like_float(text) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    if value.fract() == 0.0 && value.abs() < EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
        return Some(Number::from(value as i64));
    }
    // An overflow is infinite, which is no number of JSON: the text stays text, as in kubectl.
    Number::from_f64(value)
}

/// Digits with at most one point and at least one digit, then perhaps an exponent.
fn looks_like_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole) && digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !unsigned.is_empty() && digits(unsigned)
    });
    mantissa_fits && exponent_fits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of cases")]
    fn plain_scalars_mean_what_they_mean_to_kubectl() {
        for (text, expected) in [
            ("on", json!(true)),
            ("y", json!(true)),
            ("OFF", json!(false)),
            ("n", json!(false)),
            ("yEs", json!("yEs")),
            ("tRUE", json!("tRUE")),
            ("~", json!(null)),
            ("", json!(null)),
            ("0644", json!(420)),
            ("0o644", json!(420)),
            ("0O7", json!(7)),
            ("-0644", json!(-420)),
            ("0b11", json!(3)),
            ("-0b1", json!(-1)),
            ("0xff", json!(255)),
            ("+0x1", json!(1)),
            ("0x_ff", json!(255)),
            ("1_000", json!(1000)),
            ("1__0", json!(10)),
            ("0_9", json!(9)),
            ("08", json!(8)),
            ("+12", json!(12)),
            ("-0", json!(0)),
            ("-0.0", json!(0)),
            ("1:30", json!("1:30")),
            ("1e3", json!(1000)),
            ("1e+5", json!(100_000)),
            ("1.0", json!(1)),
            ("1.", json!(1)),
            (".5", json!(0.5)),
            ("+.5", json!(0.5)),
            ("1_0.5", json!(10.5)),
            ("6.02e23", json!(6.02e23)),
            ("1e400", json!("1e400")),
            ("1e", json!("1e")),
            ("0x", json!("0x")),
            ("0x1p4", json!("0x1p4")),
            ("-", json!("-")),
            (".", json!(".")),
            ("+-1", json!("+-1")),
            ("0x-1", json!("0x-1")),
            ("v1.2", json!("v1.2")),
            ("1.2.3", json!("1.2.3")),
            ("2026-12-01", json!("2026-12-01")),
            ("NaN", json!("NaN")),
            ("infinity", json!("infinity")),
            ("-9223372036854775808", json!(i64::MIN)),
            ("-9223372036854775809", json!(-9_223_372_036_854_775_809_f64)),
            ("18446744073709551615", json!(u64::MAX)),
            ("18446744073709551616", json!(18_446_744_073_709_551_616_f64)),
            (
                "0777777777777777777777777",
                json!(777_777_777_777_777_777_777_777_f64),
            ),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
        for text in [".inf", "-.INF", "+.Inf", ".nan"] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
