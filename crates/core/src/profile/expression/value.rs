//! JSON as CEL sees it: what serialising it would give, without copies of it on the way.

use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use serde_json::{Number, Value};

use cutover_karmada::parts::Parts;

type Entries<'v> = HashMap<CelMapKey<'v>, Box<dyn Val + 'v>>;

/// Returns these parts of a value. What is no object where fields are wanted is there whole, for its type is seen.
pub(super) fn parts<'v>(wanted: &Parts, value: &'v Value) -> Box<dyn Val + 'v> {
    let (Parts::Fields(fields), Value::Object(object)) = (wanted, value) else {
        return whole(value);
    };
    let found = fields.iter().filter_map(|(name, wanted)| {
        let (name, value) = object.get_key_value(name)?;
        Some((key(name), parts(wanted, value)))
    });
    Box::new(CelMap::from(found.collect::<Entries<'v>>()))
}

/// Returns all of a value.
pub(super) fn whole(value: &Value) -> Box<dyn Val + '_> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(truth) => Box::new(CelBool::from(*truth)),
        Value::Number(number) => of_number(number),
        Value::String(text) => Box::new(CelString::from(text.as_str())),
        Value::Array(items) => Box::new(CelList::from(items.iter().map(whole).collect::<Vec<_>>())),
        Value::Object(fields) => {
            let entries = fields.iter().map(|(name, value)| (key(name), whole(value)));
            Box::new(CelMap::from(entries.collect::<Entries<'_>>()))
        }
    }
}

/// The same of a value that nobody keeps.
pub(super) fn owned(value: Value) -> Box<dyn Val> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(truth) => Box::new(CelBool::from(truth)),
        Value::Number(number) => of_number(&number),
        Value::String(text) => Box::new(CelString::from(text)),
        Value::Array(items) => Box::new(CelList::from(items.into_iter().map(owned).collect::<Vec<_>>())),
        Value::Object(fields) => {
            let key = |name| CelMapKey::String(CelString::from(name));
            let entries = fields.into_iter().map(|(name, value)| (key(name), owned(value)));
            Box::new(CelMap::from(entries.collect::<Entries<'_>>()))
        }
    }
}

/// A number that isn't negative is a `uint`, as it is for whoever serialises it; CEL compares numbers of all types.
fn of_number(number: &Number) -> Box<dyn Val> {
    if let Some(number) = number.as_u64() {
        Box::new(CelUInt::from(number))
    } else if let Some(number) = number.as_i64() {
        Box::new(CelInt::from(number))
    } else {
        Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN)))
    }
}

fn key(name: &str) -> CelMapKey<'_> {
    CelMapKey::String(CelString::from(name))
}
