//! The functions that Kubernetes adds to CEL, and those of newer extensions that the interpreter lacks.

// All have the one shape that the interpreter calls.
#![allow(clippy::unnecessary_wraps)]

/// What somebody may do: everything, as the sandbox has no authorization.
pub(in super::super) mod authorizer;
mod collections;
mod net;
mod quantity;
mod text;
mod url;

use cel::common::types::{CelBool, CelInt, CelString};
use cel::common::value::{CowVal, FromVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

/// What a function of the library is: arguments to result, the receiver first.
type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Adds the functions to an environment.
pub(super) fn extension(environment: &mut Env) -> Result<(), DeclarationError> {
    text::extension(environment)?;
    collections::extension(environment)?;
    quantity::extension(environment)?;
    url::extension(environment)?;
    net::extension(environment)?;
    authorizer::extension(environment)
}

/// A type whose values only its functions look into.
macro_rules! opaque {
    ($type:ident, $cel:ident, $name:literal) => {
        static $cel: cel::common::types::Type = cel::common::types::Type::new_unspecified_type($name);

        impl cel::common::value::Val for $type {
            fn get_type(&self) -> &cel::common::types::Type {
                &$cel
            }

            fn cel_type() -> &'static cel::common::types::Type {
                &$cel
            }

            fn equals(&self, other: &dyn cel::common::value::Val) -> bool {
                other
                    .downcast_ref::<Self>()
                    .is_some_and(|other| other == self)
            }

            fn clone_as_boxed<'v>(&self) -> Box<dyn cel::common::value::Val + 'v>
            where
                Self: 'v,
            {
                Box::new(self.clone())
            }

            fn as_any(&self) -> Option<&dyn std::any::Any> {
                Some(self)
            }
        }

        impl cel::common::value::StaticVal for $type {}
    };
}
use opaque;

/// Returns an argument as what it was declared for.
fn argument<'a, 'b, 'v, T: FromVal<'a, 'v>>(
    arguments: &'a Arguments<'b, 'v>,
    index: usize,
) -> Result<&'a T, ExecutionError> {
    arguments
        .get(index)
        .and_then(|argument| (**argument).downcast_ref::<T>())
        .ok_or_else(|| ExecutionError::no_such_overload("", Vec::new()))
}

fn string<'a>(arguments: &'a Arguments<'_, '_>, index: usize) -> Result<&'a str, ExecutionError> {
    argument::<CelString<'_>>(arguments, index).map(CelString::inner)
}

fn int(arguments: &Arguments<'_, '_>, index: usize) -> Result<i64, ExecutionError> {
    argument::<CelInt>(arguments, index).map(|int| *int.inner())
}

fn bool_of<'b, 'v>(value: bool) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

fn int_of<'b, 'v>(value: i64) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}

fn string_of<'b, 'v>(value: String) -> Answer<'b, 'v> {
    Ok(CowVal::owned(CelString::from(value)))
}

fn boxed_string<'v>(value: &str) -> Box<dyn Val + 'v> {
    Box::new(CelString::from(value.to_owned()))
}

fn failed(message: impl Into<String>) -> ExecutionError {
    ExecutionError::FunctionError {
        function: String::new(),
        message: message.into(),
    }
}
