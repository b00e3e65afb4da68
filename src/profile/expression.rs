//! CEL over one variable `object`, with `json(text)` for statuses that carry JSON as text.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cel::{Context, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use super::Error;

#[derive(Debug)]
pub(super) struct Expression {
    field: &'static str,
    program: Arc<Program>,
}

impl Expression {
    pub(super) fn compile(field: &'static str, source: &str) -> Result<Self, String> {
        Ok(Self {
            field,
            program: compiled(source)?,
        })
    }

    /// Returns whether the expression holds; an error where it has no boolean value on this object.
    pub(super) fn holds(&self, object: &Value) -> Result<bool, Error> {
        let fail = |message: String| Error::Evaluation {
            field: self.field,
            message,
        };
        let mut context = Context::default();
        context
            .add_variable("object", object.clone())
            .map_err(|error| fail(error.to_string()))?;
        context
            .add_function("json", parse_json)
            .map_err(|error| fail(error.to_string()))?;
        match self.program.execute(&context) {
            Ok(CelValue::Bool(value)) => Ok(value),
            Ok(_) => Err(fail("the value is not a boolean".to_owned())),
            Err(error) => Err(fail(error.to_string())),
        }
    }
}

// The signature is the one that CEL's function registry asks for.
#[allow(clippy::needless_pass_by_value)]
/// How many programs are kept: a profile has about ten.
const KEPT: usize = 512;

/// Every pass of every intent needs the same few programs.
static COMPILED: LazyLock<Mutex<BTreeMap<String, Arc<Program>>>> = LazyLock::new(Mutex::default);

fn compiled(source: &str) -> Result<Arc<Program>, String> {
    let mut kept = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = kept.get(source) {
        return Ok(Arc::clone(program));
    }
    let program = Program::compile(source).map_err(|error| error.to_string())?;
    let unknown = program
        .references()
        .variables()
        .into_iter()
        .find(|name| *name != "object")
        .map(str::to_owned);
    if let Some(unknown) = unknown {
        return Err(format!("unknown variable {unknown}: only object is known"));
    }
    if kept.len() >= KEPT {
        kept.clear();
    }
    let program = Arc::new(program);
    kept.insert(source.to_owned(), Arc::clone(&program));
    Ok(program)
}

fn parse_json(text: Arc<String>) -> Result<CelValue, ExecutionError> {
    let value: Value =
        serde_json::from_str(&text).map_err(|error| ExecutionError::function_error("json", error))?;
    cel::to_value(value).map_err(|error| ExecutionError::function_error("json", error))
}
