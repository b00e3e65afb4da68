//! What the evaluation of an expression may cost: the meter, and the functions that charge it.
//!
//! The interpreter can't be interrupted and counts nothing. So an expression is rewritten after it was parsed: every iteration
//! of a loop and every value that an operation looks at whole is charged first. Steps are counted, never time: an expression
//! costs the same on every machine, and what a machine of an intent decides stays a function of what it was given.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::common::types::{CelBool, CelBytes, CelInt, CelList, CelMap, CelString, DYN_TYPE, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use cutover_karmada::parts::operands;

/// How many steps one evaluation may take: some hundred times what the built-in profiles take, and some tens of milliseconds.
pub(super) const STEPS: u64 = 100_000;

/// How many bytes of a text cost a step, when it is compared or copied.
const BYTES: u64 = 16;

/// How many bytes of JSON cost a step: each may become a value.
const JSON_BYTES: u64 = 8;

/// What a byte of a text costs that a regular expression is matched against: at worst the engine looks at every state for it.
const MATCHED_BYTE: u64 = 10;

/// What a byte of a regular expression costs to compile.
const PATTERN_BYTE: u64 = 50;

/// The longest regular expression, and the most memory that one may take when it is compiled.
pub(super) const PATTERN_BYTES: usize = 256;
pub(super) const PATTERN_SIZE: usize = 256 * 1024;

/// How deep a value may be nested that an expression builds; objects are at most 128 deep.
pub(super) const VALUE_DEPTH: u64 = 256;

/// The names of the meter and its functions: none of them can be written in an expression.
pub(super) const METER: &str = "@meter";
const SPEND: &str = "@spend";
const WEIGH: &str = "@weigh";
const MATCHES: &str = "@matches";
const JSON: &str = "@json";

type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Counts the steps of one evaluation.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter(Arc<AtomicU64>);

impl Meter {
    /// Returns how many steps were taken or asked for.
    pub(super) fn spent(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Charges steps before they are taken. Once the budget is used up, every charge fails: all loops end at once.
    pub(super) fn spend(&self, steps: u64) -> Result<(), ExecutionError> {
        let before = self.0.fetch_add(steps, Ordering::Relaxed);
        if before.saturating_add(steps) > STEPS {
            return Err(ExecutionError::function_error("budget", "exceeded"));
        }
        Ok(())
    }
}

static METER_TYPE: Type = Type::new_unspecified_type("cutover.Meter");

impl Val for Meter {
    fn get_type(&self) -> &Type {
        &METER_TYPE
    }

    fn cel_type() -> &'static Type {
        &METER_TYPE
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

impl StaticVal for Meter {}

/// Declares the functions that charge.
pub(super) fn declare(environment: &mut Env) -> Result<(), DeclarationError> {
    environment.add_overload(SPEND, SPEND, vec![DYN_TYPE, DYN_TYPE], spend)?;
    environment.add_overload(WEIGH, WEIGH, vec![DYN_TYPE, DYN_TYPE], weigh)?;
    environment.add_overload(JSON, JSON, vec![DYN_TYPE, DYN_TYPE], json)?;
    environment.add_overload(MATCHES, MATCHES, vec![DYN_TYPE, DYN_TYPE, DYN_TYPE], matches)
}

/// Rewrites an expression so that its evaluation charges the variable [`METER`].
pub(super) fn meter(node: &mut IdedExpr) {
    match &mut node.expr {
        Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified | Expr::Struct(_) => {}
        // What is selected is borrowed, however large it is.
        Expr::Select(select) => meter(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(meter_operand),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    meter_operand(&mut entry.key);
                    meter_operand(&mut entry.value);
                }
            }
        }
        Expr::Comprehension(all) => meter_loop(all),
        Expr::Call(call) => meter_call(call),
    }
}

/// Returns how many steps an expression takes without its loops.
pub(super) fn steps(node: &IdedExpr) -> u64 {
    let own = match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => 1 + in_steps(text.inner().len(), BYTES),
        Expr::Literal(LiteralValue::Bytes(bytes)) => 1 + in_steps(bytes.inner().len(), BYTES),
        _ => 1,
    };
    operands(&node.expr).into_iter().map(steps).sum::<u64>() + own
}

/// Compiles a regular expression that is within its limits.
pub(in crate::profile) fn pattern(source: &str) -> Result<Regex, String> {
    if source.len() > PATTERN_BYTES {
        return Err(format!(
            "the regular expression has {} bytes: the limit is {PATTERN_BYTES}",
            source.len()
        ));
    }
    let built = RegexBuilder::new(source).size_limit(PATTERN_SIZE).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => {
            format!("the regular expression takes more than {PATTERN_SIZE} bytes: repeat less in it")
        }
        other => other.to_string(),
    })
}

fn meter_operand(node: &mut IdedExpr) {
    meter(node);
    if !is_scalar(&node.expr) {
        wrap(node, |operand| call(WEIGH, vec![ident(METER), operand]));
    }
}

fn meter_call(of: &mut CallExpr) {
    if of.func_name == operators::INDEX && of.args.get(1).is_some_and(|index| is_name(&index.expr)) {
        // Nothing is copied, not even for an error, when a field or an item is asked for by its name or number.
        return of.args.iter_mut().for_each(meter);
    }
    let operands = of.target.as_deref_mut().into_iter().chain(&mut of.args);
    match of.func_name.as_str() {
        // They take truths, which cost nothing.
        operators::LOGICAL_AND
        | operators::LOGICAL_OR
        | operators::LOGICAL_NOT
        | operators::NOT_STRICTLY_FALSE
        | operators::CONDITIONAL => operands.for_each(meter),
        name @ ("matches" | "json") => {
            let metered = if name == "json" { JSON } else { MATCHES };
            operands.for_each(meter);
            let target = of.target.take().map(|target| *target);
            let written = std::mem::take(&mut of.args);
            of.args = [ident(METER)].into_iter().chain(target).chain(written).collect();
            metered.clone_into(&mut of.func_name);
        }
        _ => operands.for_each(meter_operand),
    }
}

fn is_name(index: &Expr) -> bool {
    matches!(
        index,
        Expr::Literal(LiteralValue::String(_) | LiteralValue::Int(_) | LiteralValue::UInt(_))
    )
}

/// Charges every item of a loop before it is looked at, and all items once, since the loop copies each.
fn meter_loop(all: &mut ComprehensionExpr) {
    let each = steps(&all.loop_cond) + steps(&all.loop_step);
    meter_operand(&mut all.iter_range);
    meter(&mut all.accu_init);
    if meter_append(all, each) {
        return;
    }
    for part in [&mut all.loop_cond, &mut all.loop_step, &mut all.result] {
        meter(part);
    }
    // An error of the condition ends the loop; one of the step may be put off until its end.
    after_spending(&mut all.loop_cond, each);
}

/// Charges a loop that appends to a list, without changing its shape: the interpreter knows it by that, and appends in place.
/// Returns whether it is one.
fn meter_append(all: &mut ComprehensionExpr, each: u64) -> bool {
    let accu = all.accu_var.as_str();
    let is_accu = |node: &IdedExpr| matches!(&node.expr, Expr::Ident(name) if name == accu);
    if !is_accu(&all.result) || !matches!(all.loop_cond.expr, Expr::Literal(_)) {
        return false;
    }
    let (guard, step) = match &mut all.loop_step.expr {
        Expr::Call(choice) if choice.func_name == operators::CONDITIONAL => {
            let [guard, step, otherwise] = choice.args.as_mut_slice() else {
                return false;
            };
            if !is_accu(otherwise) {
                return false;
            }
            (Some(guard), &mut step.expr)
        }
        step => (None, step),
    };
    let Expr::Call(add) = step else { return false };
    let (operators::ADD, [list, items]) = (add.func_name.as_str(), add.args.as_mut_slice()) else {
        return false;
    };
    let Expr::List(items) = &mut items.expr else {
        return false;
    };
    let [item] = items.elements.as_mut_slice() else {
        return false;
    };
    if !is_accu(list) {
        return false;
    }
    meter_operand(item);
    match guard {
        Some(guard) => {
            meter(guard);
            after_spending(guard, each);
        }
        None => after_spending(item, each),
    }
    true
}

/// Makes an expression fail before it is evaluated where the budget doesn't suffice.
fn after_spending(node: &mut IdedExpr, each: u64) {
    let each = CelInt::from(i64::try_from(each).unwrap_or(i64::MAX));
    let spend = call(
        SPEND,
        vec![ident(METER), unnamed(Expr::Literal(LiteralValue::Int(each)))],
    );
    let never = unnamed(Expr::Literal(LiteralValue::Boolean(CelBool::from(false))));
    let spend = unnamed(spend);
    wrap(node, |then| {
        call(operators::CONDITIONAL, vec![spend, then, never])
    });
}

fn wrap(node: &mut IdedExpr, into: impl FnOnce(IdedExpr) -> Expr) {
    let (id, inner) = (node.id, std::mem::take(node));
    *node = IdedExpr {
        id,
        expr: into(inner),
    };
}

fn call(name: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr {
        func_name: name.to_owned(),
        target: None,
        args,
    })
}

fn ident(name: &str) -> IdedExpr {
    unnamed(Expr::Ident(name.to_owned()))
}

/// Ids lead to places in the source, where these nodes are not.
fn unnamed(expr: Expr) -> IdedExpr {
    IdedExpr { id: 0, expr }
}

/// Returns whether a value of an expression is known to be a number or a truth, or was counted with the expression.
fn is_scalar(expression: &Expr) -> bool {
    match expression {
        Expr::Literal(_) => true,
        Expr::Select(select) => select.test,
        Expr::Call(call) => matches!(
            call.func_name.as_str(),
            operators::LOGICAL_AND
                | operators::LOGICAL_OR
                | operators::LOGICAL_NOT
                | operators::EQUALS
                | operators::NOT_EQUALS
                | operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS
                | operators::IN
                | operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO
                | operators::NEGATE
                | MATCHES
                | "size"
                | "contains"
                | "startsWith"
                | "endsWith"
                | "int"
                | "uint"
                | "double"
                | "bool"
        ),
        _ => false,
    }
}

fn in_steps(bytes: usize, for_one: u64) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX) / for_one
}

/// Returns how many steps it takes to look at a value whole; it stops looking when that is more than the budget.
fn weight(value: &dyn Val) -> u64 {
    let mut weight = 0;
    add_weight(value, 0, &mut weight);
    weight
}

fn add_weight(value: &dyn Val, depth: u64, weight: &mut u64) {
    *weight += 1;
    if depth > VALUE_DEPTH {
        *weight += STEPS;
    }
    if *weight > STEPS {
        return;
    }
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        *weight += in_steps(text.inner().len(), BYTES);
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        for item in list.inner() {
            add_weight(item.as_ref(), depth + 1, weight);
        }
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        for (key, value) in map.inner() {
            add_weight(key.inner(), depth + 1, weight);
            add_weight(value.as_ref(), depth + 1, weight);
        }
    } else if let Some(bytes) = value.downcast_ref::<CelBytes<'_>>() {
        *weight += in_steps(bytes.inner().len(), BYTES);
    }
}

fn failed(function: &str, why: &str) -> ExecutionError {
    ExecutionError::function_error(function, why)
}

fn meter_of<'a>(arguments: &'a Arguments<'_, '_>) -> Result<&'a Meter, ExecutionError> {
    let meter = arguments
        .first()
        .and_then(|meter| (**meter).downcast_ref::<Meter>());
    meter.ok_or_else(|| failed("budget", "no meter"))
}

fn text_of<'a>(
    arguments: &'a Arguments<'_, '_>,
    index: usize,
    function: &str,
) -> Result<&'a str, ExecutionError> {
    let text = arguments
        .get(index)
        .and_then(|argument| (**argument).downcast_ref::<CelString<'_>>());
    text.map(CelString::inner)
        .ok_or_else(|| failed(function, "it takes texts"))
}

fn spend<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let steps = arguments
        .get(1)
        .and_then(|steps| (**steps).downcast_ref::<CelInt>());
    let steps = steps.map_or(STEPS, |steps| steps.inner().unsigned_abs());
    meter_of(&arguments)?.spend(steps)?;
    Ok(CowVal::owned(CelBool::from(true)))
}

fn weigh<'b, 'v>(mut arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let value = arguments
        .pop()
        .ok_or_else(|| failed("budget", "nothing to weigh"))?;
    meter_of(&arguments)?.spend(weight(&*value))?;
    Ok(value)
}

fn matches<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let text = text_of(&arguments, 1, "matches")?;
    let source = text_of(&arguments, 2, "matches")?;
    let cost = |bytes: usize, each: u64| in_steps(bytes, 1).saturating_mul(each);
    let meter = meter_of(&arguments)?;
    meter.spend(cost(text.len(), MATCHED_BYTE).saturating_add(cost(source.len(), PATTERN_BYTE)))?;
    let pattern = pattern(source).map_err(|why| failed("matches", &why))?;
    Ok(CowVal::owned(CelBool::from(pattern.is_match(text))))
}

fn json<'b, 'v>(arguments: Arguments<'b, 'v>) -> Answer<'b, 'v> {
    let text = text_of(&arguments, 1, "json")?;
    meter_of(&arguments)?.spend(1 + in_steps(text.len(), JSON_BYTES))?;
    let value: Value =
        serde_json::from_str(text).map_err(|error| ExecutionError::function_error("json", error))?;
    Ok(CowVal::Owned(super::value::owned(value)))
}
