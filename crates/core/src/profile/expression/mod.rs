//! CEL over one variable, mostly `object`, with `json(text)` for statuses that carry JSON as text.
//!
//! Expressions come from whoever may push: parsing one and evaluating it are bounded (docs/decisions/0012).

mod meter;
mod reads;
mod syntax;
mod value;

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cel::common::ast::IdedExpr;
use cel::common::types::{CelBool, CelDouble};
use cel::common::value::Val;
use cel::{Context, Env, Value as CelValue};
use serde_json::Value;

use super::Error;
pub(super) use meter::pattern;
use meter::{METER, Meter, STEPS};
pub(super) use reads::written_pointer;
pub use reads::{Found, Seen};
use syntax::Parsed;

/// Returns an expression over `object` as it is written.
pub(super) fn tree(source: &str) -> Result<IdedExpr, String> {
    syntax::tree("object", source)
}

#[derive(Debug)]
pub(super) struct Expression {
    field: &'static str,
    variable: &'static str,
    compiled: Arc<Parsed>,
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
        self.outcome(value::parts(&self.compiled.parts, object))
    }

    /// Returns what the expression reads in an object, with its secrets masked.
    pub(super) fn sees(&self, object: &Value) -> Vec<Seen> {
        reads::seen(&self.compiled.reads, object)
    }

    /// Returns whether the expression holds of a number, which JSON couldn't say when it is not finite.
    pub(super) fn holds_of(&self, value: f64) -> Result<bool, Error> {
        self.outcome(Box::new(CelDouble::from(value)))
    }

    fn outcome<'v>(&self, value: Box<dyn Val + 'v>) -> Result<bool, Error> {
        let (outcome, _) = self.evaluate(value);
        outcome.map_err(|message| Error::Evaluation {
            field: self.field,
            message,
        })
    }

    /// Returns the value as a truth, and how many steps it took.
    fn evaluate<'v>(&self, value: Box<dyn Val + 'v>) -> (Result<bool, String>, u64) {
        let meter = Meter::default();
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.add_variable_as_val(self.variable, value);
        context.add_variable_as_val(METER, Box::new(meter.clone()));
        let outcome = match meter.spend(self.compiled.steps) {
            Ok(()) => truth(&self.compiled, &context),
            Err(_) => Err(String::new()),
        };
        // What an expression makes of that error is not its value: `||` takes the other side.
        if meter.spent() > STEPS {
            let message = format!(
                "the expression takes more than {STEPS} steps on this object: loop over less, compare and match smaller values"
            );
            return (Err(message), meter.spent());
        }
        (outcome, meter.spent())
    }
}

fn truth(compiled: &Parsed, context: &Context<'_, '_>) -> Result<bool, String> {
    match CelValue::resolve_val(&compiled.root, context) {
        Ok(value) => match value.downcast_ref::<CelBool>() {
            Some(truth) => Ok(*truth.inner()),
            None => Err("the value is not a boolean".to_owned()),
        },
        Err(error) => Err(shortened(&error)),
    }
}

/// How long an error of the interpreter may be, which may show whole objects.
const MESSAGE: usize = 300;

fn shortened(error: &impl fmt::Display) -> String {
    struct Short(String);
    impl Write for Short {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = MESSAGE.saturating_sub(self.0.len());
            let fits = text.floor_char_boundary(room);
            self.0.push_str(&text[..fits]);
            if fits < text.len() {
                Err(fmt::Error)
            } else {
                Ok(())
            }
        }
    }
    let mut short = Short(String::new());
    if write!(short, "{error}").is_err() {
        short.0.push('…');
    }
    short.0
}

/// CEL's own types and functions, and those that charge the meter.
static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut environment = Env::stdlib();
    // Their names are no others': were one not declared, every expression that needs it would fail.
    let declared = meter::declare(&mut environment);
    debug_assert_eq!(declared, Ok(()));
    Arc::new(environment)
});

/// How many programs are kept: a profile has about ten.
const KEPT: usize = 512;

/// Every pass of every intent needs the same few programs.
static COMPILED: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

/// By variable and source.
type Kept = BTreeMap<(&'static str, String), Arc<Parsed>>;

fn compiled(variable: &'static str, source: &str) -> Result<Arc<Parsed>, String> {
    let kept = || COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let name = (variable, source.to_owned());
    if let Some(compiled) = kept().get(&name) {
        return Ok(Arc::clone(compiled));
    }
    // Nobody else waits while this one is parsed.
    let compiled = Arc::new(syntax::parse(variable, source)?);
    let mut kept = kept();
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(name, Arc::clone(&compiled));
    Ok(compiled)
}

#[cfg(test)]
mod tests;
