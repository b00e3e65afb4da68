//! Expressions: which fields they read, whether they are true or false, and whether what they compare can be equal.

use std::collections::BTreeSet;

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

use super::place::At;
use super::{Fault, What};
use crate::lint::json_type::{Type, listed};
use cutover_karmada::parts::operands;

const COMPARISONS: [&str; 6] = [
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::LESS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::GREATER_EQUALS,
];

/// Returns what in a condition over `object` doesn't fit the schema of that object.
pub(super) fn faults(tree: &IdedExpr, object: &At<'_>) -> Vec<Fault> {
    let mut walk = Walk {
        variables: vec![("object".to_owned(), Known::At(object.clone()))],
        tested: BTreeSet::new(),
        faults: Vec::new(),
    };
    walk.condition(tree);
    walk.ended()
}

/// Returns whether an expression asks what kind of object it has, or of which version.
pub(super) fn tells_kinds_apart(node: &IdedExpr) -> bool {
    let asks = match &node.expr {
        Expr::Select(select) => {
            let of_object = matches!(&select.operand.expr, Expr::Ident(name) if name == "object");
            of_object && matches!(select.field.as_str(), "kind" | "apiVersion")
        }
        _ => false,
    };
    asks || operands(&node.expr).into_iter().any(tells_kinds_apart)
}

/// What is known of the value of an expression.
#[derive(Clone, Debug)]
enum Known<'s> {
    Nothing,
    /// It stands in the object.
    At(At<'s>),
    /// It is one of these types.
    Types(Vec<Type>),
    /// It is written in the expression.
    Literal(Type, String),
}

impl Known<'_> {
    /// Returns the types that the value may have; none: any.
    fn types(&self) -> Vec<Type> {
        match self {
            Self::Nothing => Vec::new(),
            Self::At(at) => at.types(),
            Self::Types(types) => types.clone(),
            Self::Literal(one, _) => vec![*one],
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Nothing => "a value".to_owned(),
            Self::At(at) => at.name().to_owned(),
            Self::Types(types) => listed(types),
            Self::Literal(_, text) => text.clone(),
        }
    }

    fn described(&self) -> String {
        match self {
            Self::Nothing | Self::Types(_) => self.name(),
            Self::At(at) => at.described(),
            Self::Literal(one, text) => format!("{text} ({one})"),
        }
    }

    /// Returns what is known of the items of a list.
    fn item(&self) -> Self {
        match self {
            Self::At(at) if at.is_list() => Self::At(at.item()),
            _ => Self::Nothing,
        }
    }

    /// Returns what is known of what a macro goes through: the items of a list, or the keys of a mapping.
    fn element(&self) -> Self {
        if self.types() == [Type::Object] {
            return Self::Types(vec![Type::String]);
        }
        self.item()
    }

    /// Returns whether this and another can never be equal.
    fn differs_from(&self, other: &Self) -> bool {
        let (types, others) = (self.types(), other.types());
        let fits = |one: &Type| others.iter().any(|other| one.compares_with(*other));
        !types.is_empty() && !others.is_empty() && !types.iter().any(fits)
    }
}

struct Walk<'s> {
    /// The variable of the expression, and those of the macros around what is looked at.
    variables: Vec<(String, Known<'s>)>,
    /// Paths that the expression asks for before it reads them, or may.
    tested: BTreeSet<String>,
    faults: Vec<Fault>,
}

impl<'s> Walk<'s> {
    /// Returns the faults. A field that is tested for is one that the expression can do without.
    fn ended(self) -> Vec<Fault> {
        let tested = self.tested;
        let faults = self.faults.into_iter();
        faults
            .map(|fault| {
                let is_tested = matches!(fault.what, What::Unknown { .. }) && tested.contains(&fault.subject);
                fault.needed(!is_tested)
            })
            .collect()
    }

    fn add(&mut self, fault: Fault) {
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// Looks at what has to be true or false.
    fn condition(&mut self, node: &IdedExpr) {
        if let Expr::Call(call) = &node.expr
            && call.func_name == operators::CONDITIONAL
        {
            return call.args.iter().for_each(|part| self.condition(part));
        }
        let known = self.value(node);
        let types = known.types();
        if !types.is_empty() && !types.contains(&Type::Boolean) {
            let goes_on = format!("needs true or false, where it has {}", known.described());
            self.add(Fault::mistyped(known.name(), goes_on));
        }
    }

    fn value(&mut self, node: &IdedExpr) -> Known<'s> {
        match &node.expr {
            Expr::Literal(literal) => written(literal),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(all) => self.comprehension(all),
            Expr::List(_) => {
                self.parts(node);
                Known::Types(vec![Type::Array])
            }
            Expr::Map(_) => {
                self.parts(node);
                Known::Types(vec![Type::Object])
            }
            Expr::Struct(_) | Expr::Unspecified => Known::Nothing,
        }
    }

    fn parts(&mut self, node: &IdedExpr) {
        for part in operands(&node.expr) {
            self.value(part);
        }
    }

    fn variable(&self, name: &str) -> Known<'s> {
        let mut innermost_first = self.variables.iter().rev();
        let found = innermost_first.find(|(known, _)| known == name);
        found.map_or(Known::Nothing, |(_, known)| known.clone())
    }

    fn select(&mut self, select: &SelectExpr) -> Known<'s> {
        let of = self.value(&select.operand);
        if let (true, Known::At(at)) = (select.test, &of) {
            self.tested.insert(at.to(&select.field));
        }
        let found = self.field(&of, &select.field);
        if select.test {
            return Known::Types(vec![Type::Boolean]);
        }
        found
    }

    fn field(&mut self, of: &Known<'s>, name: &str) -> Known<'s> {
        let Known::At(at) = of else {
            return Known::Nothing;
        };
        match at.field(name) {
            Ok(at) => Known::At(at),
            Err(fault) => {
                self.add(fault);
                Known::Nothing
            }
        }
    }

    fn call(&mut self, call: &CallExpr) -> Known<'s> {
        let boolean = Known::Types(vec![Type::Boolean]);
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::INDEX, [of, index]) => self.index(of, index),
            (operators::IN, [one, all]) => {
                self.among(one, all);
                boolean
            }
            (operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT, parts) => {
                for part in parts {
                    self.condition(part);
                }
                boolean
            }
            (operators::CONDITIONAL, [when, then, otherwise]) => {
                self.condition(when);
                self.value(then);
                self.value(otherwise);
                Known::Nothing
            }
            (name, [left, right]) if COMPARISONS.contains(&name) => {
                let (left, right) = (self.value(left), self.value(right));
                if left.differs_from(&right) {
                    self.add(compared(&left, &right));
                }
                boolean
            }
            (name, args) => {
                for part in call.target.as_deref().into_iter().chain(args) {
                    self.value(part);
                }
                computed(name)
            }
        }
    }

    fn index(&mut self, of: &IdedExpr, index: &IdedExpr) -> Known<'s> {
        let of = self.value(of);
        match &index.expr {
            Expr::Literal(LiteralValue::String(key)) => self.field(&of, key.inner()),
            _ => {
                self.value(index);
                of.item()
            }
        }
    }

    /// Looks at `one in all`: of a list that is written there, one item that may be equal is enough.
    fn among(&mut self, one: &IdedExpr, all: &IdedExpr) {
        let left = self.value(one);
        if let Expr::List(list) = &all.expr {
            let items: Vec<Known<'s>> = list.elements.iter().map(|item| self.value(item)).collect();
            if let Some(first) = items.first()
                && items.iter().all(|item| left.differs_from(item))
            {
                self.add(compared(&left, first));
            }
            return;
        }
        let right = self.value(all);
        if let (Expr::Literal(LiteralValue::String(key)), Known::At(at)) = (&one.expr, &right) {
            self.tested.insert(at.to(key.inner()));
        }
        let item = right.item();
        if left.differs_from(&item) {
            self.add(compared(&left, &item));
        }
    }

    fn comprehension(&mut self, all: &ComprehensionExpr) -> Known<'s> {
        let range = self.value(&all.iter_range);
        let start = self.value(&all.accu_init);
        let outside = self.variables.len();
        let element = if all.iter_var2.is_some() {
            Known::Nothing
        } else {
            range.element()
        };
        self.variables.push((all.iter_var.clone(), element));
        let others = all.iter_var2.iter().chain([&all.accu_var]);
        self.variables
            .extend(others.map(|name| (name.clone(), Known::Nothing)));
        self.value(&all.loop_cond);
        self.value(&all.loop_step);
        let result = self.value(&all.result);
        self.variables.truncate(outside);
        // `all` and `exists` begin with a truth, `map` and `filter` with a list; `exists_one` counts, and compares in the end.
        match start.types().as_slice() {
            [one @ (Type::Boolean | Type::Array)] => Known::Types(vec![*one]),
            _ => result,
        }
    }
}

fn written(literal: &LiteralValue) -> Known<'static> {
    match literal {
        LiteralValue::Boolean(truth) => Known::Literal(Type::Boolean, truth.inner().to_string()),
        LiteralValue::Int(number) => Known::Literal(Type::Integer, number.inner().to_string()),
        LiteralValue::UInt(number) => Known::Literal(Type::Integer, number.inner().to_string()),
        LiteralValue::Double(number) => Known::Literal(Type::Number, number.inner().to_string()),
        LiteralValue::String(text) => Known::Literal(Type::String, format!("{:?}", text.inner())),
        LiteralValue::Bytes(_) | LiteralValue::Null => Known::Nothing,
    }
}

/// Returns what is known of what a function or an operator gives.
fn computed(name: &str) -> Known<'static> {
    let types = match name {
        "size" | "int" | "uint" => vec![Type::Integer],
        "double"
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO
        | operators::NEGATE => vec![Type::Number],
        operators::ADD => vec![Type::Number, Type::String, Type::Array],
        "string" => vec![Type::String],
        "bool" | "contains" | "startsWith" | "endsWith" | "matches" | operators::NOT_STRICTLY_FALSE => {
            vec![Type::Boolean]
        }
        _ => return Known::Nothing,
    };
    Known::Types(types)
}

fn compared(left: &Known<'_>, right: &Known<'_>) -> Fault {
    let subject = format!("{} and {}", left.name(), right.name());
    let goes_on = format!("compares {} with {}", left.described(), right.described());
    let hint = "values of different types are never equal".to_owned();
    Fault::mistyped(subject, goes_on).hint(Some(hint))
}
