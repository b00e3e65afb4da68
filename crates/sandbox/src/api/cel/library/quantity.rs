//! `quantity()`: amounts such as `100m`, `1.5Gi` and `2e3`, exact to a billionth.

use std::cmp::Ordering;

use cel::common::types::{CelDouble, INT_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env};

use super::{Answer, Arguments, argument, bool_of, failed, int, int_of, opaque, string};

/// An amount.
#[derive(Clone, Copy, Debug)]
struct Quantity {
    billionths: i128,
    /// To which power of ten it is written; a server takes only what is written to whole numbers for an integer.
    scale: i32,
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.billionths == other.billionths
    }
}

opaque!(Quantity, QUANTITY, "kubernetes.Quantity");

const ONE: i128 = 1_000_000_000;

pub(super) fn extension(environment: &mut Env) -> Result<(), DeclarationError> {
    environment.add_overload("quantity", "quantity", vec![STRING_TYPE], quantity)?;
    environment.add_overload("isQuantity", "isQuantity", vec![STRING_TYPE], is_quantity)?;
    let alone: [(&str, cel::common::functions::Function); 4] = [
        ("sign", sign),
        ("asApproximateFloat", as_float),
        ("asInteger", as_integer),
        ("isInteger", is_integer),
    ];
    for (name, function) in alone {
        let id = format!("quantity.{name}");
        environment.add_member_overload(name, &id, QUANTITY.to_owned(), vec![], function)?;
    }
    let pairs: [(&str, cel::common::functions::Function); 5] = [
        ("isGreaterThan", is_greater),
        ("isLessThan", is_less),
        ("compareTo", compare),
        ("add", add),
        ("sub", sub),
    ];
    for (name, function) in pairs {
        let id = format!("quantity.{name}");
        environment.add_member_overload(
            name,
            &id,
            QUANTITY.to_owned(),
            vec![QUANTITY.to_owned()],
            function,
        )?;
    }
    environment.add_member_overload(
        "add",
        "quantity.add.int",
        QUANTITY.to_owned(),
        vec![INT_TYPE],
        add_int,
    )?;
    environment.add_member_overload(
        "sub",
        "quantity.sub.int",
        QUANTITY.to_owned(),
        vec![INT_TYPE],
        sub_int,
    )
}

impl Quantity {
    fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let end = digits
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(digits.len());
        let (number, suffix) = digits.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() && suffix.is_empty() || fraction.contains('.') {
            return None;
        }
        let (factor, divisor, exponent) = scale(suffix)?;
        let scaled: i128 = format!("0{whole}{fraction}").parse().ok()?;
        let below = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let billionths = scaled.checked_mul(ONE)?.checked_mul(factor)?;
        let divisor = below.checked_mul(divisor)?;
        // Rounded up, away from nothing.
        let rounded = (billionths + divisor - 1) / divisor;
        let places = i32::try_from(fraction.len()).ok()?;
        Some(Self {
            billionths: if negative { -rounded } else { rounded },
            scale: exponent - places,
        })
    }
}

/// Returns by what the digits before a suffix are multiplied, by what divided, and the power of ten that it stands for.
fn scale(suffix: &str) -> Option<(i128, i128, i32)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 1, 0));
    let decimal = |power: i32| {
        let factor = 10_i128.checked_pow(power.unsigned_abs())?;
        Some(if power < 0 {
            (1, factor, power)
        } else {
            (factor, 1, power)
        })
    };
    match suffix {
        "" => decimal(0),
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => decimal(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    }
}

fn parsed(text: &str) -> Result<Quantity, cel::ExecutionError> {
    Quantity::parse(text).ok_or_else(|| {
        failed("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    })
}

fn quantity<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(parsed(string(&arguments, 0)?)?))
}

fn is_quantity<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    bool_of(Quantity::parse(string(&arguments, 0)?).is_some())
}

fn amount(arguments: &Arguments<'_, '_>, index: usize) -> Result<Quantity, cel::ExecutionError> {
    argument::<Quantity>(arguments, index).copied()
}

fn sign<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    int_of(i64::try_from(amount(&arguments, 0)?.billionths.signum()).unwrap_or_default())
}

#[allow(clippy::cast_precision_loss)]
fn as_float<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let amount = amount(&arguments, 0)?.billionths as f64;
    Ok(CowVal::owned(CelDouble::from(amount / ONE as f64)))
}

fn whole(amount: Quantity) -> Option<i64> {
    (amount.scale >= 0)
        .then_some(amount.billionths / ONE)?
        .try_into()
        .ok()
}

fn as_integer<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    int_of(whole(amount(&arguments, 0)?).ok_or_else(|| failed("cannot convert value to integer"))?)
}

fn is_integer<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    bool_of(whole(amount(&arguments, 0)?).is_some())
}

fn compared(arguments: &Arguments<'_, '_>) -> Result<Ordering, cel::ExecutionError> {
    Ok(amount(arguments, 0)?
        .billionths
        .cmp(&amount(arguments, 1)?.billionths))
}

fn is_greater<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    bool_of(compared(&arguments)?.is_gt())
}

fn is_less<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    bool_of(compared(&arguments)?.is_lt())
}

fn compare<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    int_of(compared(&arguments)? as i64)
}

fn sum<'b, 'v>(left: Quantity, right: Quantity, sign: i128) -> Answer<'b, 'v> {
    Ok(CowVal::owned(Quantity {
        billionths: left.billionths + sign * right.billionths,
        scale: left.scale.min(right.scale),
    }))
}

fn number(arguments: &Arguments<'_, '_>, index: usize) -> Result<Quantity, cel::ExecutionError> {
    Ok(Quantity {
        billionths: i128::from(int(arguments, index)?) * ONE,
        scale: 0,
    })
}

fn add<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    sum(amount(&arguments, 0)?, amount(&arguments, 1)?, 1)
}

fn sub<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    sum(amount(&arguments, 0)?, amount(&arguments, 1)?, -1)
}

fn add_int<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    sum(amount(&arguments, 0)?, number(&arguments, 1)?, 1)
}

fn sub_int<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    sum(amount(&arguments, 0)?, number(&arguments, 1)?, -1)
}
