//! Parses an expression within limits, so that parsing it ends, fits its stack, and what comes out can be evaluated on any.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};
use cel::parser::{ParseErrors, Parser};

use super::meter;
use super::reads::{self, Step};
use cutover_karmada::parts::{Parts, operands};

/// The longest expression, in bytes.
pub(super) const SOURCE_BYTES: usize = 4_096;

/// How deep brackets and choices (`a ? b : c`) may be nested.
pub(super) const NESTING: u16 = 32;

/// How deep the parsed expression may be: chains such as `a + b + c` and `a.b.c` are as deep as they are long.
pub(super) const DEPTH: usize = 100;

/// How many loops (`all`, `exists`, `map`, …) may stand inside of each other.
pub(super) const LOOPS: usize = 3;

/// The parser calls itself for every bracket and every link of a chain: some hundred bytes of stack for one of source.
const STACK: usize = 16 * 1024 * 1024;

/// How many syntax errors are reported of one expression.
const REPORTED: usize = 3;

const OPERATORS: &[&str] = &[
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
    operators::IN,
    operators::NOT_STRICTLY_FALSE,
];

/// The functions, of which it is known what they cost; macros are expressions when they have been parsed.
const FUNCTIONS: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "json",
    "string",
    "bytes",
    "int",
    "uint",
    "double",
    "bool",
    "dyn",
    "type",
];

/// An expression that charges its meter when it is evaluated.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) root: IdedExpr,
    pub(super) parts: Parts,
    /// The paths that it reads, for people.
    pub(super) reads: Vec<Vec<Step>>,
    /// What it costs without its loops.
    pub(super) steps: u64,
}

/// Parses an expression over one variable.
pub(super) fn parse(variable: &'static str, source: &str) -> Result<Parsed, String> {
    on_a_stack_of_its_own(source, move |source| parse_here(variable, source))
}

/// Returns an expression over one variable as it is written, to look at: evaluating it would charge no meter.
pub(super) fn tree(variable: &'static str, source: &str) -> Result<IdedExpr, String> {
    on_a_stack_of_its_own(source, move |source| examined(variable, source))
}

/// The parser runs on a thread of its own, with a stack that suffices for the longest expression, and which is all that is lost
/// if it fails.
fn on_a_stack_of_its_own<T: Send + 'static>(
    source: &str,
    parse: impl FnOnce(&str) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    if source.len() > SOURCE_BYTES {
        return Err(format!(
            "the expression has {} bytes: the limit is {SOURCE_BYTES}",
            source.len()
        ));
    }
    let source = source.to_owned();
    let parser = std::thread::Builder::new()
        .name("cel-parser".to_owned())
        .stack_size(STACK)
        .spawn(move || parse(&source))
        .map_err(|error| format!("cannot start a thread that parses the expression: {error}"))?;
    let parsed = parser.join();
    parsed.unwrap_or_else(|_| Err("the parser fails on the expression".to_owned()))
}

fn examined(variable: &str, source: &str) -> Result<IdedExpr, String> {
    let parser = Parser::new().max_recursion_depth(NESTING);
    let root = parser.parse(source).map_err(|errors| syntax_errors(&errors))?;
    examine(&root, 0, 0)?;
    if let Some(unknown) = unknown_variable(&root, &mut vec![variable]) {
        return Err(format!("unknown variable {unknown}: only {variable} is known"));
    }
    Ok(root)
}

fn parse_here(variable: &str, source: &str) -> Result<Parsed, String> {
    let mut root = examined(variable, source)?;
    let parts = Parts::of(&root, variable);
    let reads = reads::reads(&root, variable);
    let steps = meter::steps(&root);
    meter::meter(&mut root);
    Ok(Parsed {
        root,
        parts,
        reads,
        steps,
    })
}

fn syntax_errors(errors: &ParseErrors) -> String {
    let too_deep = |message: &str| message.contains("Recursion limit of");
    if errors.errors.iter().any(|error| too_deep(&error.msg)) {
        return format!("the expression nests brackets or choices more than {NESTING} deep");
    }
    let shown = errors.errors.iter().take(REPORTED).map(|error| {
        let (line, column) = error.pos;
        format!("at {line}:{column} of the expression: {}", error.msg)
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// Refuses what is too deep, loops in loops in loops, and functions of which nobody knows what they cost.
fn examine(node: &IdedExpr, depth: usize, loops: usize) -> Result<(), String> {
    if depth > DEPTH {
        return Err(format!(
            "the expression is more than {DEPTH} operations deep: split it, or shorten its longest chain"
        ));
    }
    let mut loops = loops;
    match &node.expr {
        Expr::Unspecified => return Err("a part of the expression is missing".to_owned()),
        Expr::Struct(of) => return Err(format!("{} is no known type of messages", of.type_name)),
        Expr::Call(call) => known_function(call)?,
        Expr::Comprehension(all) => {
            examine(&all.iter_range, depth + 1, loops)?;
            loops += 1;
            if loops > LOOPS {
                return Err(format!(
                    "the expression nests more than {LOOPS} loops (all, exists, exists_one, map, filter)"
                ));
            }
            let inside = [&all.accu_init, &all.loop_cond, &all.loop_step, &all.result];
            return inside
                .into_iter()
                .try_for_each(|part| examine(part, depth + 1, loops));
        }
        _ => {}
    }
    operands(&node.expr)
        .into_iter()
        .try_for_each(|part| examine(part, depth + 1, loops))
}

fn known_function(call: &CallExpr) -> Result<(), String> {
    let name = call.func_name.as_str();
    if OPERATORS.contains(&name) {
        return Ok(());
    }
    if !FUNCTIONS.contains(&name) {
        return Err(format!(
            "unknown function {name}: known are {}",
            FUNCTIONS.join(", ")
        ));
    }
    let operands: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
    match (name, operands.as_slice()) {
        ("matches", [_, pattern]) => match &pattern.expr {
            Expr::Literal(LiteralValue::String(text)) => meter::pattern(text.inner()).map(drop),
            _ => Ok(()),
        },
        ("matches", _) => Err("matches takes a text and a regular expression".to_owned()),
        ("json", [_]) => Ok(()),
        ("json", _) => Err("json takes one text".to_owned()),
        _ => Ok(()),
    }
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
