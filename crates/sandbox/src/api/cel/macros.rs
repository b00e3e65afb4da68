//! Macros over two variables: key and value of a map, index and element of a list; and what `has()` becomes.
//!
//! The interpreter's comprehensions have one variable, so `range.all(k, v, p)` becomes
//! `@positions(range).all(k, bind(v, @at(range, k), p))`.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};
use cel::parser::{Macro, MacroExprHelper, ParseError};
use cel::{DeclarationError, Env};

const RANGE: &str = "@range";
const RESULT: &str = "@result";

type Helper<'a, 'b> = &'a mut MacroExprHelper<'b>;
type MakeFold = fn(Helper<'_, '_>, IdedExpr) -> Fold;
type Expanded = Result<Option<IdedExpr>, ParseError>;

/// Adds the macros to an environment.
pub(super) fn two_variables(environment: &mut Env) -> Result<(), DeclarationError> {
    let plain: [(&str, MakeFold); 5] = [
        ("all", all),
        ("exists", exists),
        ("existsOne", exists_one),
        ("exists_one", exists_one),
        ("transformList", |helper, body| {
            transform(helper, None, body, &append)
        }),
    ];
    for (name, fold) in plain {
        environment.add_macro(Macro::receiver(name, 3, move |helper, target, args| {
            expand(helper, target, args, |helper, _, mut bodies| {
                fold(helper, bodies.pop().unwrap_or_default())
            })
        }))?;
    }
    environment.add_macro(Macro::receiver("transformList", 4, |helper, target, args| {
        expand(helper, target, args, |helper, _, mut bodies| {
            let body = bodies.pop().unwrap_or_default();
            transform(helper, bodies.pop(), body, &append)
        })
    }))?;
    for filtered in [false, true] {
        let count = 3 + usize::from(filtered);
        environment.add_macro(Macro::receiver(
            "transformMap",
            count,
            move |helper, target, args| {
                expand(helper, target, args, |helper, key, mut bodies| {
                    let body = bodies.pop().unwrap_or_default();
                    let key = key.to_owned();
                    transform_map(helper, bodies.pop(), body, &move |helper, body| {
                        let arguments = vec![ident(helper, RESULT), ident(helper, &key), body];
                        call(helper, "@insert", arguments)
                    })
                })
            },
        ))?;
        environment.add_macro(Macro::receiver(
            "transformMapEntry",
            count,
            move |helper, target, args| {
                expand(helper, target, args, |helper, _, mut bodies| {
                    let body = bodies.pop().unwrap_or_default();
                    transform_map(helper, bodies.pop(), body, &|helper, body| {
                        let arguments = vec![ident(helper, RESULT), body];
                        call(helper, "@merge", arguments)
                    })
                })
            },
        ))?;
    }
    Ok(())
}

/// Replaces the tests of `has()` by calls that hold also where there can't be any field, as cel-go has it.
pub(super) fn ask_for_fields(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Select(select) => {
            ask_for_fields(&mut select.operand);
            if select.test {
                let field = LiteralValue::String(std::mem::take(&mut select.field).into());
                let field = IdedExpr {
                    id: expression.id,
                    expr: Expr::Literal(field),
                };
                expression.expr = Expr::Call(CallExpr {
                    func_name: "@has".to_owned(),
                    target: None,
                    args: vec![std::mem::take(&mut *select.operand), field],
                });
            }
        }
        Expr::Call(call) => {
            call.target.as_deref_mut().into_iter().for_each(ask_for_fields);
            call.args.iter_mut().for_each(ask_for_fields);
        }
        Expr::List(list) => list.elements.iter_mut().for_each(ask_for_fields),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    ask_for_fields(&mut entry.key);
                    ask_for_fields(&mut entry.value);
                }
            }
        }
        Expr::Comprehension(comprehension) => {
            for part in [
                &mut comprehension.iter_range,
                &mut comprehension.accu_init,
                &mut comprehension.loop_cond,
                &mut comprehension.loop_step,
                &mut comprehension.result,
            ] {
                ask_for_fields(part);
            }
        }
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) => {}
    }
}

/// What a comprehension starts with, how long it goes on, what it does at each position, and what comes out.
struct Fold {
    initial: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

/// Expands a call `target.f(key, value, bodies…)`.
fn expand(
    helper: Helper<'_, '_>,
    target: &mut Option<IdedExpr>,
    args: &mut Vec<IdedExpr>,
    fold: impl FnOnce(Helper<'_, '_>, &str, Vec<IdedExpr>) -> Fold,
) -> Expanded {
    let bodies = args.split_off(2);
    let (Some(value), Some(key)) = (args.pop(), args.pop()) else {
        return Ok(None);
    };
    let (key, value) = (simple_name(helper, key)?, simple_name(helper, value)?);
    let range = target.take().unwrap_or_default();
    let bodies = bodies
        .into_iter()
        .map(|body| {
            let arguments = vec![ident(helper, RANGE), ident(helper, &key)];
            let at = call(helper, "@at", arguments);
            bind(helper, &value, at, body)
        })
        .collect();
    let fold = fold(helper, &key, bodies);
    let arguments = vec![ident(helper, RANGE)];
    let positions = call(helper, "@positions", arguments);
    let over = ComprehensionExpr {
        iter_range: positions,
        iter_var: key,
        iter_var2: None,
        accu_var: RESULT.to_owned(),
        accu_init: fold.initial,
        loop_cond: fold.condition,
        loop_step: fold.step,
        result: fold.result,
    };
    let over = helper.next_expr(Expr::Comprehension(Box::new(over)));
    Ok(Some(bind(helper, RANGE, range, over)))
}

fn simple_name(helper: Helper<'_, '_>, expression: IdedExpr) -> Result<String, ParseError> {
    match expression.expr {
        Expr::Ident(name) => Ok(name),
        _ => Err(helper.new_error(expression.id, "argument must be a simple name")),
    }
}

fn all(helper: Helper<'_, '_>, body: IdedExpr) -> Fold {
    let so_far = ident(helper, RESULT);
    let condition = call(helper, operators::NOT_STRICTLY_FALSE, vec![so_far]);
    quantified(helper, true, condition, operators::LOGICAL_AND, body)
}

fn exists(helper: Helper<'_, '_>, body: IdedExpr) -> Fold {
    let so_far = ident(helper, RESULT);
    let not = call(helper, operators::LOGICAL_NOT, vec![so_far]);
    let condition = call(helper, operators::NOT_STRICTLY_FALSE, vec![not]);
    quantified(helper, false, condition, operators::LOGICAL_OR, body)
}

fn quantified(
    helper: Helper<'_, '_>,
    initial: bool,
    condition: IdedExpr,
    operator: &str,
    body: IdedExpr,
) -> Fold {
    let arguments = vec![ident(helper, RESULT), body];
    Fold {
        initial: literal(helper, LiteralValue::Boolean(initial.into())),
        condition,
        step: call(helper, operator, arguments),
        result: ident(helper, RESULT),
    }
}

fn exists_one(helper: Helper<'_, '_>, body: IdedExpr) -> Fold {
    let arguments = vec![
        ident(helper, RESULT),
        literal(helper, LiteralValue::Int(1.into())),
    ];
    let more = call(helper, operators::ADD, arguments);
    let arguments = vec![body, more, ident(helper, RESULT)];
    let step = call(helper, operators::CONDITIONAL, arguments);
    let arguments = vec![
        ident(helper, RESULT),
        literal(helper, LiteralValue::Int(1.into())),
    ];
    Fold {
        initial: literal(helper, LiteralValue::Int(0.into())),
        condition: literal(helper, LiteralValue::Boolean(true.into())),
        step,
        result: call(helper, operators::EQUALS, arguments),
    }
}

type Add<'a> = &'a dyn Fn(Helper<'_, '_>, IdedExpr) -> IdedExpr;

fn append(helper: Helper<'_, '_>, body: IdedExpr) -> IdedExpr {
    let one = helper.next_expr(Expr::List(ListExpr::new(vec![body])));
    let arguments = vec![ident(helper, RESULT), one];
    call(helper, operators::ADD, arguments)
}

fn transform(helper: Helper<'_, '_>, filter: Option<IdedExpr>, body: IdedExpr, add: Add<'_>) -> Fold {
    let mut step = add(helper, body);
    if let Some(filter) = filter {
        let arguments = vec![filter, step, ident(helper, RESULT)];
        step = call(helper, operators::CONDITIONAL, arguments);
    }
    Fold {
        initial: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        condition: literal(helper, LiteralValue::Boolean(true.into())),
        step,
        result: ident(helper, RESULT),
    }
}

fn transform_map(helper: Helper<'_, '_>, filter: Option<IdedExpr>, body: IdedExpr, add: Add<'_>) -> Fold {
    Fold {
        initial: helper.next_expr(Expr::Map(MapExpr::default())),
        ..transform(helper, filter, body, add)
    }
}

fn ident(helper: Helper<'_, '_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn literal(helper: Helper<'_, '_>, value: LiteralValue) -> IdedExpr {
    helper.next_expr(Expr::Literal(value))
}

fn call(helper: Helper<'_, '_>, function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr {
        func_name: function.to_owned(),
        target: None,
        args,
    }))
}

/// Gives a value a name within an expression: a comprehension that never runs.
fn bind(helper: Helper<'_, '_>, name: &str, value: IdedExpr, within: IdedExpr) -> IdedExpr {
    let bound = ComprehensionExpr {
        iter_range: helper.next_expr(Expr::List(ListExpr::new(Vec::new()))),
        iter_var: "#unused".to_owned(),
        iter_var2: None,
        accu_var: name.to_owned(),
        accu_init: value,
        loop_cond: literal(helper, LiteralValue::Boolean(false.into())),
        loop_step: ident(helper, name),
        result: within,
    };
    helper.next_expr(Expr::Comprehension(Box::new(bound)))
}
