//! The expression language of API servers: CEL with the functions of Kubernetes, checked as cel-go checks it.
//!
//! The rules of CRDs and admission policies share it. What is declared is what a kube-apiserver 1.36 declares; what the
//! interpreter doesn't have of that (durations, timestamps, semantic versions, named formats) is refused when an
//! expression is compiled, never ignored. There is no cost budget.

mod check;
mod declarations;
mod library;
mod macros;
mod types;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cel::common::ast::{Expr, IdedExpr};
use cel::common::traits::Indexer;
use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, Type as CelType,
};
use cel::common::value::{CowVal, Val};
use cel::{Context, Env, ExecutionError, extensions};
use serde_json::Value;

pub(super) use check::Scope;
use cutover_karmada::parts::Parts;
pub(super) use library::authorizer;
pub(super) use types::Type;

/// The words that are no identifiers.
pub(super) const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// A value of an expression.
pub(super) type CelValue = Box<dyn Val>;

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    root: Arc<IdedExpr>,
    /// As it was written, before fields are asked for.
    parsed: Arc<IdedExpr>,
    source: Arc<str>,
    of: Type,
}

impl Expression {
    /// Compiles an expression, or tells all that is wrong with it as a server does.
    pub(super) fn compile(source: &str, scope: &Scope) -> Result<Self, String> {
        let (mut expression, places) = environment()
            .parser()
            .parse_with_source_info(source)
            .map_err(|errors| syntax_errors(source, &errors))?;
        let of = check::check(&expression, &places, scope)?;
        let parsed = Arc::new(expression.clone());
        macros::ask_for_fields(&mut expression);
        Ok(Self {
            root: Arc::new(expression),
            parsed,
            source: source.into(),
            of,
        })
    }

    /// Returns what it evaluates to, as far as that is known before.
    pub(super) const fn of(&self) -> &Type {
        &self.of
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether it speaks of a name.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.root.references().has_variable(name)
    }

    /// Returns what it looks at of a name: the rest can be left out.
    pub(super) fn parts_of(&self, name: &str) -> Parts {
        Parts::of(&self.parsed, name)
    }

    /// Evaluates it; an error is told in cel-go's words.
    pub(super) fn evaluate(&self, context: &Context<'_, 'static>) -> Result<CelValue, String> {
        cel::Value::resolve_val(&self.root, context)
            .map(CowVal::into_owned)
            .map_err(|error| match field_of_nothing(&error, &self.root, context) {
                Some(field) => format!("no such key: {field}"),
                None => reworded(&error),
            })
    }
}

/// Returns a context without names, for expressions that were compiled here.
pub(super) fn context() -> Context<'static, 'static> {
    Context::with_env(environment())
}

/// Returns a value as a truth, if it is one.
pub(super) fn truth(value: &dyn Val) -> Option<bool> {
    value.downcast_ref::<CelBool>().map(|truth| *truth.inner())
}

/// Returns a value as a text, if it is one.
pub(super) fn text(value: &dyn Val) -> Option<&str> {
    value.downcast_ref::<CelString<'_>>().map(CelString::inner)
}

/// Returns a JSON value as expressions without a schema see it.
pub(super) fn from_json(value: &Value) -> CelValue {
    match value {
        Value::Null => Box::new(Nothing),
        Value::Bool(bool) => Box::new(CelBool::from(*bool)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => Box::new(CelInt::from(whole)),
            None => Box::new(CelDouble::from(number.as_f64().unwrap_or_default())),
        },
        Value::String(text) => Box::new(CelString::from(text.clone())),
        Value::Array(items) => {
            let items: Vec<CelValue> = items.iter().map(from_json).collect();
            Box::new(CelList::from(items))
        }
        Value::Object(fields) => {
            let fields: HashMap<CelMapKey<'static>, CelValue> = fields
                .iter()
                .map(|(name, value)| (CelMapKey::from(name.clone()), from_json(value)))
                .collect();
            Box::new(CelMap::from(fields))
        }
    }
}

/// A `null` that, as in cel-go, has no field rather than no fields.
#[derive(Clone, Copy, Debug)]
struct Nothing;

impl Val for Nothing {
    fn get_type(&self) -> &CelType {
        CelNull::cel_type()
    }

    fn cel_type() -> &'static CelType {
        CelNull::cel_type()
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<CelNull>().is_some()
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(Self)
    }

    /// Any other `null` takes it for its like.
    fn as_any(&self) -> Option<&dyn std::any::Any> {
        static NULL: CelNull = CelNull;
        Some(&NULL)
    }
}

impl Indexer for Nothing {
    fn get<'b, 'v>(&'b self, field: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Err(ExecutionError::no_such_key(text(field).unwrap_or_default()))
    }

    fn steal<'v>(self: Box<Self>, field: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Err(ExecutionError::no_such_key(text(field).unwrap_or_default()))
    }
}

fn environment() -> Arc<Env> {
    static ENVIRONMENT: OnceLock<Arc<Env>> = OnceLock::new();
    let environment = ENVIRONMENT.get_or_init(|| {
        let mut environment = Env::stdlib();
        for extension in [
            extensions::strings,
            extensions::lists,
            macros::two_variables,
            library::extension,
        ] {
            // Declared once, on a fresh environment: there is nothing to clash with.
            let added = environment.add_extension(extension);
            debug_assert_eq!(added, Ok(()));
        }
        Arc::new(environment)
    });
    Arc::clone(environment)
}

fn syntax_errors(source: &str, errors: &cel::ParseErrors) -> String {
    let shown: Vec<String> = errors
        .errors
        .iter()
        .map(|error| {
            let (line, column) = error.pos;
            let at = |number: isize| usize::try_from(number - 1).unwrap_or_default();
            check::show(source, at(line), at(column), &error.msg)
        })
        .collect();
    shown.join("\n")
}

/// Returns the field that was selected on a value without fields: the interpreter tells only the types.
fn field_of_nothing(error: &ExecutionError, of: &IdedExpr, context: &Context<'_, 'static>) -> Option<String> {
    let ExecutionError::NoSuchOverload(overload) = error else {
        return None;
    };
    if !matches!(overload.function(), "_._" | "_[_]") {
        return None;
    }
    let without_fields = |of: &IdedExpr| {
        let value = cel::Value::resolve_val(of, context).ok()?;
        value.as_indexer().is_none().then_some(())
    };
    let within = |inner: &IdedExpr| field_of_nothing(error, inner, context);
    match &of.expr {
        Expr::Select(select) => {
            within(&select.operand).or_else(|| without_fields(&select.operand).map(|()| select.field.clone()))
        }
        Expr::Call(call) if call.func_name == "_[_]" => {
            let [operand, index] = call.args.as_slice() else {
                return None;
            };
            without_fields(operand)?;
            let index = cel::Value::resolve_val(index, context).ok()?;
            let number = index
                .downcast_ref::<CelInt>()
                .map(|number| number.inner().to_string());
            number.or_else(|| text(&*index).map(str::to_owned))
        }
        Expr::Call(call) => call
            .target
            .as_deref()
            .into_iter()
            .chain(&call.args)
            .find_map(within),
        Expr::List(list) => list.elements.iter().find_map(within),
        Expr::Comprehension(comprehension) => within(&comprehension.iter_range),
        _ => None,
    }
}

/// Returns an error in the words of cel-go.
fn reworded(error: &ExecutionError) -> String {
    const NONE: &str = "no such overload";
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(cel::Value::Int(index)) => format!("index out of bounds: {index}"),
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { function, message } => match function.as_str() {
            "int" | "uint" | "double" if message.contains("parse") => {
                format!("type conversion error from 'string' to '{function}'")
            }
            _ => message.replace("Type conversion", "type conversion"),
        },
        // What can't be an operand of it at all is told with the operator.
        ExecutionError::NoSuchOverload(overload) => match overload.argument_types() {
            [left, ..]
                if overload.function().contains('_')
                    && matches!(left.as_str(), "map" | "list" | "null_type") =>
            {
                format!("{NONE}: {}", overload.function())
            }
            _ => NONE.to_owned(),
        },
        ExecutionError::UnsupportedBinaryOperator(operator, cel::Value::Map(_) | cel::Value::Null, _) => {
            let symbol = match *operator {
                "add" => "_+_",
                "sub" => "_-_",
                "mul" => "_*_",
                "div" => "_/_",
                _ => "_%_",
            };
            format!("{NONE}: {symbol}")
        }
        ExecutionError::UnexpectedType { got, want } if want == "iterable" => {
            let (first, rest) = got.split_at(1);
            format!(
                "got 'types.{}{rest}', expected iterable type",
                first.to_uppercase()
            )
        }
        ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedIndex(..)
        | ExecutionError::ValuesNotComparable(..) => NONE.to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scope() -> Scope {
        Scope::default()
            .with("object", "dyn")
            .with("request", "kubernetes.AdmissionRequest")
    }

    fn evaluated(source: &str) -> Result<cel::Value, String> {
        let expression = Expression::compile(source, &scope())?;
        let mut context = context();
        let object =
            json!({"a": 1, "list": [3, 1, 2], "map": {"x": 1, "y": 2}, "name": "web-12", "none": null});
        context.add_variable_as_val("object", from_json(&object));
        let value = expression.evaluate(&context)?;
        cel::Value::try_from(value.as_ref()).map_err(|error| error.to_string())
    }

    fn holds(source: &str) {
        assert_eq!(evaluated(source), Ok(cel::Value::Bool(true)), "{source}");
    }

    #[test]
    fn the_functions_of_kubernetes_are_there() {
        for source in [
            "'a1b22'.find('[0-9]+') == '1' && 'abc'.find('[0-9]+') == ''",
            "'a1b22c3'.findAll('[0-9]+') == ['1', '22', '3'] && 'a1b22c3'.findAll('[0-9]+', 2) == ['1', '22']",
            "[1, 2, 2].isSorted() && ![2, 1].isSorted() && [1, 2].sum() == 3 && [1, 3].max() == 3 && ['b', 'a'].min() == 'a'",
            "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(5) == -1",
            "[1, 2].first().value() == 1 && [1, 2].last().orValue(0) == 2 && !object.list.filter(x, x > 5).first().hasValue()",
            "sets.contains([1, 2, 3], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && !sets.intersects([1], [2])",
            "quantity('1.5Gi').isGreaterThan(quantity('1500M')) && quantity('100m').compareTo(quantity('0.1')) == 0",
            "isQuantity('20Mi') && !isQuantity('twenty') && quantity('2k').asInteger() == 2000 && !quantity('2000m').isInteger() && quantity('1').add(2).sub(quantity('3')).sign() == 0",
            "url('https://user@example.com:80/a/b?c=d&c=e').getHost() == 'example.com:80' && isURL('/path') && !isURL('path')",
            "url('https://example.com/a?c=d&c=e').getQuery() == {'c': ['d', 'e']} && url('https://[::1]:80/').getHostname() == '::1'",
            "ip('10.0.0.1').family() == 4 && isIP('::1') && ip('::1').isLoopback() && string(ip('::1')) == '::1'",
            "cidr('10.0.0.0/8').containsIP('10.2.3.4') && !cidr('10.0.0.0/8').containsCIDR('11.0.0.0/24') && cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8')",
            "object.?b.orValue(5) == 5 && object.?a.orValue(5) == 1 && object[?'a'].hasValue() && !has(object.b)",
            "'%s-%s'.format(['a', 'b']) == 'a-b' && ['a', 'b'].join('-') == 'a-b' && 'a,b'.split(',')[1] == 'b'",
        ] {
            holds(source);
        }
    }

    #[test]
    fn macros_take_two_variables() {
        for source in [
            "object.map.all(k, v, k in ['x', 'y'] && v < 3) && object.list.all(i, v, i >= 0 && v > 0)",
            "object.map.exists(k, v, k == 'x' && v == 1) && !object.map.exists(k, v, k == v)",
            "object.list.existsOne(i, v, i == 0 && v == 3)",
            "object.list.transformList(i, v, i * v) == [0, 1, 4]",
            "object.list.transformList(i, v, v > 1, v) == [3, 2]",
            "object.map.transformMap(k, v, v * 2) == {'x': 2, 'y': 4}",
            "object.map.transformMap(k, v, v > 1, v) == {'y': 2}",
            "object.map.transformMapEntry(k, v, {k + '!': v}) == {'x!': 1, 'y!': 2}",
        ] {
            holds(source);
        }
    }

    #[test]
    fn what_cannot_be_compiled_is_told_as_cel_go_tells_it() {
        let refused = |source: &str| Expression::compile(source, &scope()).unwrap_err();
        assert_eq!(
            refused("1 + foo"),
            "ERROR: <input>:1:5: undeclared reference to 'foo' (in container '')\n | 1 + foo\n | ....^"
        );
        assert_eq!(
            refused("object.a > 0 && 'x' + 1 == 'y'"),
            "ERROR: <input>:1:21: found no matching overload for '_+_' applied to '(string, int)'\n \
             | object.a > 0 && 'x' + 1 == 'y'\n | ....................^"
        );
        assert_eq!(
            refused("request.nme == 'x'"),
            "ERROR: <input>:1:8: undefined field 'nme'\n | request.nme == 'x'\n | .......^"
        );
        assert!(refused("math.abs(-1) == 1").contains("undeclared reference to 'math'"));
        assert!(
            refused("duration('5m') > duration('1m')").contains("the sandbox does not evaluate 'duration'")
        );
        assert!(refused("object.a ==").contains("Syntax error"));
    }

    #[test]
    fn what_is_known_of_a_type_is_found_out() {
        let of = |source: &str| Expression::compile(source, &scope()).unwrap().of().to_string();
        assert_eq!(of("object.a"), "dyn");
        assert_eq!(of("object.a == 1"), "bool");
        assert_eq!(of("request.userInfo.groups.map(g, size(g))"), "list(int)");
        assert_eq!(of("request.?name"), "optional_type(string)");
        assert_eq!(of("{'a': [1]}"), "map(string, list(int))");
        assert_eq!(of("object.x ? 1 : 2"), "int");
    }
}
