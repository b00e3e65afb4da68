//! CEL over one variable, mostly `object`, with `json(text)` for statuses that carry JSON as text.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cel::common::ast::{ComprehensionExpr, Expr, IdedExpr};
use cel::{Context, Env, ExecutionError, Program, Value as CelValue};
use serde_json::Value;

use super::Error;
use super::parts::{Parts, operands};

#[derive(Debug)]
pub(super) struct Expression {
    field: &'static str,
    variable: &'static str,
    compiled: Arc<Compiled>,
}

#[derive(Debug)]
struct Compiled {
    program: Program,
    parts: Parts,
}

impl Expression {
    /// Compiles an expression over `object`.
    pub(super) fn compile(field: &'static str, source: &str) -> Result<Self, String> {
        Self::over("object", field, source)
    }

    pub(super) fn over(variable: &'static str, field: &'static str, source: &str) -> Result<Self, String> {
        Ok(Self {
            field,
            variable,
            compiled: compiled(variable, source)?,
        })
    }

    /// Returns whether the expression holds; an error where it has no boolean value on this object.
    pub(super) fn holds(&self, object: &Value) -> Result<bool, Error> {
        self.holds_of(self.compiled.parts.cut(object))
    }

    /// The same of a number, which JSON couldn't say when it is not finite.
    pub(super) fn holds_of(&self, value: impl serde::Serialize) -> Result<bool, Error> {
        let fail = |message: String| Error::Evaluation {
            field: self.field,
            message,
        };
        let mut context = Context::with_env(Arc::clone(&STANDARD));
        context
            .add_variable(self.variable, value)
            .map_err(|error| fail(error.to_string()))?;
        context
            .add_function("json", parse_json)
            .map_err(|error| fail(error.to_string()))?;
        match self.compiled.program.execute(&context) {
            Ok(CelValue::Bool(value)) => Ok(value),
            Ok(_) => Err(fail("the value is not a boolean".to_owned())),
            Err(error) => Err(fail(error.to_string())),
        }
    }
}

/// CEL's own types and functions.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// How many programs are kept: a profile has about ten.
const KEPT: usize = 512;

/// Every pass of every intent needs the same few programs.
static COMPILED: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

/// By variable and source.
type Kept = BTreeMap<(&'static str, String), Arc<Compiled>>;

fn compiled(variable: &'static str, source: &str) -> Result<Arc<Compiled>, String> {
    let mut kept = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let name = (variable, source.to_owned());
    if let Some(compiled) = kept.get(&name) {
        return Ok(Arc::clone(compiled));
    }
    let program = Program::compile(source).map_err(|error| error.to_string())?;
    if let Some(unknown) = unknown_variable(program.expression(), &mut vec![variable]) {
        return Err(format!("unknown variable {unknown}: only {variable} is known"));
    }
    if kept.len() >= KEPT {
        kept.clear();
    }
    let parts = Parts::of(program.expression(), variable);
    let compiled = Arc::new(Compiled { program, parts });
    kept.insert(name, Arc::clone(&compiled));
    Ok(compiled)
}

/// Returns a variable that nothing gives a value to; macros give values to their own.
fn unknown_variable<'e>(expression: &'e IdedExpr, known: &mut Vec<&'e str>) -> Option<&'e str> {
    match &expression.expr {
        Expr::Ident(name) => (!known.contains(&name.as_str())).then_some(name),
        Expr::Comprehension(all) => unknown_in_macro(all, known),
        other => operands(other)
            .into_iter()
            .find_map(|part| unknown_variable(part, known)),
    }
}

fn unknown_in_macro<'e>(all: &'e ComprehensionExpr, known: &mut Vec<&'e str>) -> Option<&'e str> {
    for outside in [&all.iter_range, &all.accu_init] {
        if let Some(unknown) = unknown_variable(outside, known) {
            return Some(unknown);
        }
    }
    let before = known.len();
    let own = [Some(&all.iter_var), all.iter_var2.as_ref(), Some(&all.accu_var)];
    known.extend(own.into_iter().flatten().map(String::as_str));
    let inside = [&all.loop_cond, &all.loop_step, &all.result];
    let unknown = inside.into_iter().find_map(|part| unknown_variable(part, known));
    known.truncate(before);
    unknown
}

// The signature is the one that CEL's function registry asks for.
#[allow(clippy::needless_pass_by_value)]
fn parse_json(text: Arc<String>) -> Result<CelValue, ExecutionError> {
    let value: Value =
        serde_json::from_str(&text).map_err(|error| ExecutionError::function_error("json", error))?;
    cel::to_value(value).map_err(|error| ExecutionError::function_error("json", error))
}
