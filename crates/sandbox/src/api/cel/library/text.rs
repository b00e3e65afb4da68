//! Regular expressions: `find` and `findAll`.

use cel::common::types::{CelList, INT_TYPE, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};
use regex::Regex;

use super::{Answer, Arguments, boxed_string, failed, int, string, string_of};

pub(super) fn extension(environment: &mut Env) -> Result<(), DeclarationError> {
    environment.add_member_overload("find", "string.find", STRING_TYPE, vec![STRING_TYPE], find)?;
    environment.add_member_overload(
        "findAll",
        "string.findAll",
        STRING_TYPE,
        vec![STRING_TYPE],
        find_all,
    )?;
    environment.add_member_overload(
        "findAll",
        "string.findAll.limit",
        STRING_TYPE,
        vec![STRING_TYPE, INT_TYPE],
        find_some,
    )
}

fn regex(pattern: &str) -> Result<Regex, ExecutionError> {
    Regex::new(pattern).map_err(|error| failed(format!("Illegal regex: {error}")))
}

fn find<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let found = regex(string(&arguments, 1)?)?
        .find(string(&arguments, 0)?)
        .map(|found| found.as_str().to_owned());
    string_of(found.unwrap_or_default())
}

fn find_all<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    found(&arguments, usize::MAX)
}

fn find_some<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    // A negative limit is none.
    let limit = usize::try_from(int(&arguments, 2)?).unwrap_or(usize::MAX);
    found(&arguments, limit)
}

fn found<'b, 'v>(arguments: &Arguments<'b, 'v>, limit: usize) -> Answer<'b, 'v> {
    let regex = regex(string(arguments, 1)?)?;
    let found: Vec<_> = regex
        .find_iter(string(arguments, 0)?)
        .take(limit)
        .map(|found| boxed_string(found.as_str()))
        .collect();
    Ok(CowVal::owned(CelList::from(found)))
}
