//! The type checker: what an expression evaluates to, or why a kube-apiserver refuses it.
//!
//! Follows cel-go's checker: the same order of looking names up, the same overload resolution, the same words.

use std::collections::BTreeMap;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue,
    SelectExpr, SourceInfo, operators,
};

use regex::Regex;

use super::declarations::{self, NOT_EVALUATED, Signature};
use super::types::{Findings, Type};

/// The names that an expression may use, beside the functions.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Scope {
    names: BTreeMap<String, Type>,
    /// The fields of `variables`, if there is such a name.
    composed: Option<BTreeMap<String, Type>>,
}

const COMPOSED: &str = "kubernetes.variables";

impl Scope {
    /// Declares a name; one with dots is found before the fields of its beginning.
    #[must_use]
    pub(in super::super) fn with(mut self, name: &str, of: &str) -> Self {
        self.names.insert(name.to_owned(), Type::read(of));
        self
    }

    /// Declares `variables`, without fields as yet.
    #[must_use]
    pub(in super::super) fn composed(mut self) -> Self {
        self.names
            .insert("variables".to_owned(), Type::Named(COMPOSED.into()));
        self.composed = Some(BTreeMap::new());
        self
    }

    /// Adds a field to `variables`.
    pub(in super::super) fn compose(&mut self, field: &str, of: Type) {
        if let Some(composed) = &mut self.composed {
            composed.insert(field.to_owned(), of);
        }
    }

    fn field(&self, of: &str, name: &str) -> Option<Type> {
        match &self.composed {
            Some(composed) if of == COMPOSED => composed.get(name).cloned(),
            _ => declarations::field(of, name),
        }
    }
}

/// Returns the type of an expression, or everything that is wrong with it, as a server tells it.
pub(super) fn check(expression: &IdedExpr, places: &SourceInfo, scope: &Scope) -> Result<Type, String> {
    let mut checker = Checker {
        scope,
        locals: Vec::new(),
        findings: Findings::default(),
        formats: false,
        mistakes: Vec::new(),
        objections: Vec::new(),
    };
    let of = checker.check(expression);
    if checker.mistakes.is_empty() && checker.objections.is_empty() {
        return Ok(checker.findings.finish(&of));
    }
    let told = if checker.mistakes.is_empty() {
        checker.objections
    } else {
        checker.mistakes
    };
    let source = &places.source;
    let mut mistakes: Vec<(usize, usize, String)> = told
        .into_iter()
        .map(|(id, message)| {
            let offset = places.offset_for(id).map_or(0, |(start, _)| start);
            let (line, column) = place(source, offset as usize);
            (line, column, message)
        })
        .collect();
    mistakes.sort();
    let shown: Vec<String> = mistakes
        .iter()
        .map(|(line, column, message)| show(source, *line, *column, message))
        .collect();
    Err(shown.join("\n"))
}

/// Shows a mistake with the line in which it is, as cel-go does; line and column count from 0.
pub(super) fn show(source: &str, line: usize, column: usize, message: &str) -> String {
    let text = source
        .split('\n')
        .nth(line)
        .unwrap_or_default()
        .replace('\t', " ");
    let dots = ".".repeat(column);
    format!(
        "ERROR: <input>:{}:{}: {message}\n | {text}\n | {dots}^",
        line + 1,
        column + 1
    )
}

fn place(source: &str, offset: usize) -> (usize, usize) {
    let before: String = source.chars().take(offset).collect();
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    (line, column)
}

struct Checker<'a> {
    scope: &'a Scope,
    /// The variables of comprehensions, innermost last.
    locals: Vec<(String, Type)>,
    findings: Findings,
    /// Whether this is among the arguments of `format`.
    formats: bool,
    /// By the id of the expression.
    mistakes: Vec<(u64, String)>,
    /// What is told only of an expression that is right otherwise.
    objections: Vec<(u64, String)>,
}

impl Checker<'_> {
    fn check(&mut self, expression: &IdedExpr) -> Type {
        let of = match &expression.expr {
            Expr::Unspecified => Type::Dyn,
            Expr::Literal(literal) => literal_type(literal),
            Expr::Ident(name) => match self.name(name) {
                Some(of) => of,
                None => self.undeclared(expression.id, name),
            },
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.entries(&map.entries),
            Expr::Struct(literal) => self.undeclared(expression.id, &literal.type_name),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        };
        self.findings.resolve(&of)
    }

    fn mistake(&mut self, id: u64, message: String) -> Type {
        self.mistakes.push((id, message));
        Type::Dyn
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type {
        self.mistake(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn expect(&mut self, id: u64, of: &Type, wanted: &Type) {
        if !self.findings.assign(of, wanted) {
            let (wanted, of) = (self.findings.resolve(wanted), self.findings.resolve(of));
            self.mistake(id, format!("expected type '{wanted}' but found '{of}'"));
        }
    }

    fn name(&self, name: &str) -> Option<Type> {
        let name = name.trim_start_matches('.');
        let local = self.locals.iter().rev().find(|(local, _)| local == name);
        if let Some((_, of)) = local {
            return Some(of.clone());
        }
        if let Some(of) = self.scope.names.get(name) {
            return Some(of.clone());
        }
        let is_type = matches!(
            name,
            "bool" | "bytes" | "double" | "int" | "list" | "map" | "null_type" | "string" | "type" | "uint"
        );
        is_type.then_some(Type::OfTypes)
    }

    fn select(&mut self, expression: &IdedExpr, select: &SelectExpr) -> Type {
        if !select.test
            && let Some(name) = qualified(expression)
            && !self.is_local(&name)
            && let Some(of) = self.scope.names.get(&name)
        {
            return of.clone();
        }
        let operand = self.check(&select.operand);
        let field = self.field(expression.id, &operand, &select.field);
        if select.test { Type::Bool } else { field }
    }

    fn is_local(&self, name: &str) -> bool {
        let root = name.split('.').next().unwrap_or(name);
        self.locals.iter().any(|(local, _)| local == root)
    }

    /// Returns the type of a field; that of an optional value is optional.
    fn field(&mut self, id: u64, of: &Type, name: &str) -> Type {
        match of {
            Type::Optional(of) => {
                let field = self.field(id, of, name);
                match field {
                    Type::Optional(_) => field,
                    field => Type::optional(field),
                }
            }
            Type::Map(_, value) => (**value).clone(),
            Type::Named(named) => match self.scope.field(named, name) {
                Some(field) => field,
                None if named.contains("Quantity") || named.starts_with("net.") => {
                    self.mistake(id, format!("type '{of}' does not support field selection"))
                }
                None => self.mistake(id, format!("undefined field '{name}'")),
            },
            Type::Dyn | Type::Parameter(_) => Type::Dyn,
            Type::Unknown(_) => {
                self.findings.assign(&Type::Dyn, of);
                Type::Dyn
            }
            _ => self.mistake(id, format!("type '{of}' does not support field selection")),
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Type {
        if call.func_name == operators::OPT_SELECT {
            return self.optional_select(id, call);
        }
        let function = call.func_name.as_str();
        let formats = self.formats;
        self.formats |= function == "format";
        let arguments: Vec<Type> = call.args.iter().map(|argument| self.check(argument)).collect();
        self.formats = formats;
        if function == "matches"
            && let Some(pattern) = call.args.last()
            && let Expr::Literal(LiteralValue::String(text)) = &pattern.expr
            && Regex::new(text.inner()).is_err()
        {
            let message = "invalid matches argument".to_owned();
            self.objections.push((pattern.id, message));
        }
        if function == operators::LOGICAL_AND || function == operators::LOGICAL_OR {
            for (argument, of) in call.args.iter().zip(&arguments) {
                self.expect(argument.id, of, &Type::Bool);
            }
            return Type::Bool;
        }
        if function == "format"
            && let Some(Expr::Literal(LiteralValue::String(text))) = call.target.as_ref().map(|of| &of.expr)
            && let Some(clause) = unknown_clause(text.inner())
        {
            let message =
                format!("could not parse formatting clause: unrecognized formatting clause \"{clause}\"");
            self.objections.push((id, message));
        }
        let Some(target) = &call.target else {
            return match declarations::signatures(function) {
                Some(signatures) => self.overload(id, function, signatures, false, &arguments),
                None => self.undeclared(id, function),
            };
        };
        if let Some(prefix) = qualified(target) {
            let name = format!("{prefix}.{function}");
            if let Some(signatures) = declarations::signatures(&name) {
                return self.overload(id, &name, signatures, false, &arguments);
            }
        }
        let target = self.check(target);
        let Some(signatures) = declarations::signatures(function) else {
            return self.undeclared(id, function);
        };
        let arguments: Vec<Type> = std::iter::once(target).chain(arguments).collect();
        self.overload(id, function, signatures, true, &arguments)
    }

    fn optional_select(&mut self, id: u64, call: &CallExpr) -> Type {
        let [operand, field] = call.args.as_slice() else {
            return Type::Dyn;
        };
        let operand = self.check(operand);
        let Expr::Literal(LiteralValue::String(name)) = &field.expr else {
            return self.mistake(field.id, "unsupported optional field selection".to_owned());
        };
        match self.field(id, &operand, name.inner()) {
            Type::Optional(of) => Type::Optional(of),
            of => Type::optional(of),
        }
    }

    /// Returns the result of the signatures that fit: theirs when they agree, else anything.
    fn overload(
        &mut self,
        id: u64,
        function: &str,
        signatures: &[Signature],
        member: bool,
        arguments: &[Type],
    ) -> Type {
        if NOT_EVALUATED.contains(&function) {
            return self.mistake(id, format!("the sandbox does not evaluate '{function}'"));
        }
        let mut result: Option<Type> = None;
        for signature in signatures {
            if signature.member != member || signature.arguments.len() != arguments.len() {
                continue;
            }
            let mut attempt = self.findings.clone();
            let mut letters = Vec::new();
            let fits = signature.arguments.iter().zip(arguments).all(|(wanted, of)| {
                let wanted = attempt.instantiate(wanted, &mut letters);
                attempt.assign(of, &wanted)
            });
            if !fits {
                continue;
            }
            let of = attempt.instantiate(&signature.result, &mut letters);
            let of = attempt.resolve(&of);
            self.findings = attempt;
            result = match result {
                Some(before) if before != of => Some(Type::Dyn),
                _ => Some(of),
            };
        }
        if let Some(result) = result {
            return result;
        }
        let shown: Vec<String> = arguments
            .iter()
            .map(|of| self.findings.resolve(of).to_string())
            .collect();
        let applied = match shown.split_first() {
            Some((target, arguments)) if member => format!("{target}.({})", arguments.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        let message = format!("found no matching overload for '{function}' applied to '{applied}'");
        self.mistake(id, message)
    }

    fn list(&mut self, list: &ListExpr) -> Type {
        let mut of = None;
        for (index, element) in list.elements.iter().enumerate() {
            let mut found = self.check(element);
            if list.optional_indices.contains(&index)
                && let Type::Optional(inner) = &found
            {
                found = (**inner).clone();
            }
            of = Some(self.join(element.id, of, found));
        }
        Type::list(of.unwrap_or_else(|| self.findings.unknown()))
    }

    fn entries(&mut self, entries: &[IdedEntryExpr]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                continue;
            };
            let key = self.check(&entry.key);
            keys = Some(self.join(entry.key.id, keys, key));
            let mut value = self.check(&entry.value);
            if entry.optional
                && let Type::Optional(inner) = &value
            {
                value = (**inner).clone();
            }
            values = Some(self.join(entry.value.id, values, value));
        }
        let key = keys.unwrap_or_else(|| self.findings.unknown());
        let value = values.unwrap_or_else(|| self.findings.unknown());
        Type::Map(key.into(), value.into())
    }

    /// Returns the common type of what a literal holds: the elements must be of one type.
    fn join(&mut self, id: u64, before: Option<Type>, found: Type) -> Type {
        let Some(before) = before else { return found };
        // A text to be formatted may be given anything.
        if (before == Type::Dyn) != (found == Type::Dyn) && !self.formats {
            let message = format!("expected type '{before}' but found '{found}'");
            self.objections.push((id, message));
            return before;
        }
        self.expect(id, &found, &before);
        if found == Type::Dyn { found } else { before }
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Type {
        let range = self.check(&comprehension.iter_range);
        let accumulated = self.check(&comprehension.accu_init);
        let element = match &range {
            Type::List(of) | Type::Map(of, _) => (**of).clone(),
            Type::Dyn | Type::Parameter(_) => Type::Dyn,
            Type::Unknown(_) => {
                self.findings.assign(&Type::Dyn, &range);
                Type::Dyn
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.mistake(comprehension.iter_range.id, message)
            }
        };
        self.locals
            .push((comprehension.accu_var.clone(), accumulated.clone()));
        self.locals.push((comprehension.iter_var.clone(), element));
        let condition = self.check(&comprehension.loop_cond);
        self.expect(comprehension.loop_cond.id, &condition, &Type::Bool);
        let step = self.check(&comprehension.loop_step);
        self.expect(comprehension.loop_step.id, &step, &accumulated);
        self.locals.pop();
        let result = self.check(&comprehension.result);
        self.locals.pop();
        result
    }
}

/// Returns the first clause of a format that means nothing: `q` of `%q`.
fn unknown_clause(format: &str) -> Option<char> {
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            continue;
        }
        let clause = letters.find(|letter| !letter.is_ascii_digit() && *letter != '.')?;
        if !"%sdfebxXo".contains(clause) {
            return Some(clause);
        }
    }
    None
}

const fn literal_type(literal: &LiteralValue) -> Type {
    match literal {
        LiteralValue::Boolean(_) => Type::Bool,
        LiteralValue::Bytes(_) => Type::Bytes,
        LiteralValue::Double(_) => Type::Double,
        LiteralValue::Int(_) => Type::Int,
        LiteralValue::Null => Type::Null,
        LiteralValue::String(_) => Type::String,
        LiteralValue::UInt(_) => Type::Uint,
    }
}

/// Returns the qualified name that an expression spells: `a.b.c`.
fn qualified(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified(&select.operand)?, select.field))
        }
        _ => None,
    }
}
