//! Lists, sets, and what the macros over two variables need.

use std::cmp::Ordering;

use cel::common::types::{
    CelInt, CelList, CelMap, CelMapKey, CelOptional, DYN_TYPE, LIST_TYPE, MAP_TYPE, STRING_TYPE,
};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::{Answer, Arguments, argument, bool_of, failed, int_of};

pub(super) fn extension(environment: &mut Env) -> Result<(), DeclarationError> {
    let members: [(&str, cel::common::functions::Function); 6] = [
        ("first", first),
        ("last", last),
        ("isSorted", is_sorted),
        ("sum", sum),
        ("min", min),
        ("max", max),
    ];
    for (name, function) in members {
        environment.add_member_overload(name, &format!("list.{name}"), LIST_TYPE, vec![], function)?;
    }
    environment.add_member_overload("indexOf", "list.indexOf", LIST_TYPE, vec![DYN_TYPE], index_of)?;
    environment.add_member_overload(
        "lastIndexOf",
        "list.lastIndexOf",
        LIST_TYPE,
        vec![DYN_TYPE],
        last_index_of,
    )?;
    let sets: [(&str, cel::common::functions::Function); 3] = [
        ("sets.contains", contains),
        ("sets.equivalent", equivalent),
        ("sets.intersects", intersects),
    ];
    for (name, function) in sets {
        environment.add_overload(name, name, vec![LIST_TYPE, LIST_TYPE], function)?;
    }
    environment.add_overload("@positions", "@positions.list", vec![LIST_TYPE], indices)?;
    environment.add_overload("@positions", "@positions.map", vec![MAP_TYPE], keys)?;
    environment.add_overload("@at", "@at", vec![DYN_TYPE, DYN_TYPE], at)?;
    environment.add_overload("@insert", "@insert", vec![MAP_TYPE, DYN_TYPE, DYN_TYPE], insert)?;
    environment.add_overload("@has", "@has", vec![DYN_TYPE, STRING_TYPE], has)?;
    environment.add_overload("@merge", "@merge", vec![MAP_TYPE, MAP_TYPE], merge)
}

fn items<'a, 'v>(
    arguments: &'a Arguments<'_, 'v>,
    index: usize,
) -> Result<Vec<&'a (dyn Val + 'v)>, ExecutionError> {
    let list = arguments
        .get(index)
        .and_then(|list| (**list).as_iterable())
        .ok_or_else(|| failed("no such overload"))?;
    let mut iterator = list.iter();
    let mut items = Vec::new();
    while let Some(item) = iterator.next() {
        items.push(item);
    }
    Ok(items)
}

fn optional<'b, 'v>(value: Option<Box<dyn Val + 'v>>) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelOptional::from(value)))
}

fn first<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    optional(items(&arguments, 0)?.first().map(|item| item.clone_as_boxed()))
}

fn last<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    optional(items(&arguments, 0)?.last().map(|item| item.clone_as_boxed()))
}

fn compare(left: &dyn Val, right: &dyn Val) -> Result<Ordering, ExecutionError> {
    left.as_comparer()
        .ok_or_else(|| failed("no such overload"))?
        .compare(right)
}

fn is_sorted<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    for pair in items(&arguments, 0)?.windows(2) {
        if let [left, right] = pair
            && compare(*left, *right)? == Ordering::Greater
        {
            return bool_of(false);
        }
    }
    bool_of(true)
}

fn sum<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let items = items(&arguments, 0)?;
    let mut total: Box<dyn Val + 'v> = match items.first() {
        None => Box::new(CelInt::from(0)),
        Some(first) => first.clone_as_boxed(),
    };
    for item in items.iter().skip(1) {
        let sum = total
            .as_adder()
            .ok_or_else(|| failed("no such overload"))?
            .add(*item)?
            .into_owned();
        total = sum;
    }
    Ok(CowVal::Owned(total))
}

fn extreme<'b, 'v>(arguments: &Arguments<'b, 'v>, name: &str, wanted: Ordering) -> Answer<'b, 'v> {
    let items = items(arguments, 0)?;
    let mut found: Option<&(dyn Val + 'v)> = None;
    for item in items {
        let better = match found {
            None => true,
            Some(found) => compare(item, found)? == wanted,
        };
        if better {
            found = Some(item);
        }
    }
    match found {
        Some(found) => Ok(CowVal::Owned(found.clone_as_boxed())),
        None => Err(failed(format!("{name} called on empty list"))),
    }
}

fn min<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    extreme(&arguments, "min", Ordering::Less)
}

fn max<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    extreme(&arguments, "max", Ordering::Greater)
}

fn place(found: Option<usize>) -> i64 {
    found.and_then(|found| i64::try_from(found).ok()).unwrap_or(-1)
}

fn wanted<'a, 'v>(arguments: &'a Arguments<'_, 'v>) -> Result<&'a (dyn Val + 'v), ExecutionError> {
    arguments
        .get(1)
        .map(|wanted| &**wanted)
        .ok_or_else(|| failed("no such overload"))
}

fn index_of<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let wanted = wanted(&arguments)?;
    int_of(place(
        items(&arguments, 0)?.iter().position(|item| item.equals(wanted)),
    ))
}

fn last_index_of<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let wanted = wanted(&arguments)?;
    int_of(place(
        items(&arguments, 0)?.iter().rposition(|item| item.equals(wanted)),
    ))
}

fn holds_all(set: &[&dyn Val], wanted: &[&dyn Val]) -> bool {
    wanted
        .iter()
        .all(|wanted| set.iter().any(|item| item.equals(*wanted)))
}

fn contains<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    bool_of(holds_all(&items(&arguments, 0)?, &items(&arguments, 1)?))
}

fn equivalent<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = (items(&arguments, 0)?, items(&arguments, 1)?);
    bool_of(holds_all(&left, &right) && holds_all(&right, &left))
}

fn intersects<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let (left, right) = (items(&arguments, 0)?, items(&arguments, 1)?);
    bool_of(
        left.iter()
            .any(|item| right.iter().any(|other| item.equals(*other))),
    )
}

fn indices<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let count = items(&arguments, 0)?.len();
    let indices: Vec<Box<dyn Val + 'v>> = (0..count)
        .map(|index| Box::new(CelInt::from(place(Some(index)))) as Box<dyn Val + 'v>)
        .collect();
    Ok(CowVal::owned(CelList::from(indices)))
}

/// The keys of a map in their order, so that an evaluation can be repeated.
fn keys<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let mut keys = items(&arguments, 0)?;
    keys.sort_by(|left, right| compare(*left, *right).unwrap_or(Ordering::Equal));
    let keys: Vec<Box<dyn Val + 'v>> = keys.iter().map(|key| key.clone_as_boxed()).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}

fn at<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let of = arguments
        .first()
        .and_then(|of| (**of).as_indexer())
        .ok_or_else(|| failed("no such overload"))?;
    Ok(CowVal::Owned(of.get(wanted(&arguments)?)?.into_owned()))
}

/// Whether a value has a field; within an optional value it may, and what can't have fields hasn't.
fn has<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let (Some(of), field) = (arguments.first(), wanted(&arguments)?) else {
        return bool_of(false);
    };
    let of = match (**of).downcast_ref::<CelOptional<'v>>() {
        None => Some(&**of),
        Some(optional) => optional.option(),
    };
    let Some(of) = of.and_then(|of| of.as_indexer()) else {
        return bool_of(false);
    };
    match of.get(field) {
        Ok(_) => bool_of(true),
        Err(ExecutionError::NoSuchKey(_)) => bool_of(false),
        Err(error) => Err(error),
    }
}

fn insert<'b, 'v>(mut arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let (Some(value), Some(key)) = (arguments.pop(), arguments.pop()) else {
        return Err(failed("no such overload"));
    };
    let mut map = entries(&arguments, 0)?;
    add(&mut map, CelMapKey::try_from(key)?, value.into_owned())?;
    Ok(CowVal::owned(CelMap::from(map)))
}

fn merge<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let mut map = entries(&arguments, 0)?;
    for (key, value) in entries(&arguments, 1)? {
        add(&mut map, key, value)?;
    }
    Ok(CowVal::owned(CelMap::from(map)))
}

type Entries<'v> = std::collections::HashMap<CelMapKey<'v>, Box<dyn Val + 'v>>;

fn entries<'v>(arguments: &Arguments<'_, 'v>, index: usize) -> Result<Entries<'v>, ExecutionError> {
    argument::<CelMap<'v>>(arguments, index).map(|map| map.clone().into_inner())
}

fn add<'v>(
    map: &mut Entries<'v>,
    key: CelMapKey<'v>,
    value: Box<dyn Val + 'v>,
) -> Result<(), ExecutionError> {
    match map.insert(key, value) {
        None => Ok(()),
        Some(_) => Err(failed("insert failed: key already exists")),
    }
}
