//! The static types of CEL: how they are written, shown and unified.

use std::fmt;
use std::sync::Arc;

/// A type that the checker knows. Shared inside, so that a clone is cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Type {
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// The type of types, such as that of `int` and of `type(x)`.
    OfTypes,
    List(Arc<Self>),
    Map(Arc<Self>, Arc<Self>),
    Optional(Arc<Self>),
    /// A type with its own functions or fields: `kubernetes.Quantity`, `kubernetes.AdmissionRequest`.
    Named(Arc<str>),
    /// A parameter of a signature.
    Parameter(char),
    /// A type not known yet, while an expression is being checked.
    Unknown(usize),
}

impl Type {
    /// Reads the notation of [`super::declarations`]: `int`, `list(A)`, `map(string, dyn)`, `optional(T)`,
    /// `kubernetes.Quantity`; a capital letter is a parameter.
    pub(in super::super) fn read(text: &str) -> Self {
        let text = text.trim();
        if let Some((head, arguments)) = text.split_once('(') {
            let arguments = split(arguments.strip_suffix(')').unwrap_or(arguments));
            let argument = |index: usize| {
                let read = arguments
                    .get(index)
                    .map_or(Self::Dyn, |argument| Self::read(argument));
                Arc::new(read)
            };
            return match head {
                "list" => Self::List(argument(0)),
                "optional" => Self::Optional(argument(0)),
                _ => Self::Map(argument(0), argument(1)),
            };
        }
        match text {
            "dyn" => Self::Dyn,
            "null" => Self::Null,
            "bool" => Self::Bool,
            "int" => Self::Int,
            "uint" => Self::Uint,
            "double" => Self::Double,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "duration" => Self::Duration,
            "timestamp" => Self::Timestamp,
            "type" => Self::OfTypes,
            _ => match text.chars().next() {
                Some(letter) if text.len() == 1 && letter.is_ascii_uppercase() => Self::Parameter(letter),
                _ => Self::Named(text.into()),
            },
        }
    }

    pub(super) fn list(of: Self) -> Self {
        Self::List(Arc::new(of))
    }

    pub(super) fn optional(of: Self) -> Self {
        Self::Optional(Arc::new(of))
    }

    /// Whether `null` is a value of it.
    const fn is_nullable(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Duration | Self::Timestamp | Self::Named(_) | Self::Optional(_)
        )
    }
}

/// Splits `A, list(B), C` at the commas that stand in no parentheses.
pub(super) fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        parts.push(last);
    }
    parts
}

/// As messages show it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Dyn => "dyn",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "google.protobuf.Duration",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::OfTypes => "type",
            Self::List(of) => return write!(f, "list({of})"),
            Self::Map(key, value) => return write!(f, "map({key}, {value})"),
            Self::Optional(of) => return write!(f, "optional_type({of})"),
            Self::Named(name) => name,
            Self::Parameter(letter) => return write!(f, "{letter}"),
            Self::Unknown(number) => return write!(f, "_var{number}"),
        };
        f.write_str(text)
    }
}

/// What has been found out about the unknown types of an expression.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    known: Vec<Option<Type>>,
}

impl Findings {
    /// Returns a type about which nothing is known yet.
    pub(super) fn unknown(&mut self) -> Type {
        self.known.push(None);
        Type::Unknown(self.known.len() - 1)
    }

    /// Returns a type with all that is known; what is not known stays.
    pub(super) fn resolve(&self, of: &Type) -> Type {
        self.map(of, &|number| Type::Unknown(number))
    }

    /// Returns a type with all that is known; what is not known may be anything.
    pub(super) fn finish(&self, of: &Type) -> Type {
        self.map(of, &|_| Type::Dyn)
    }

    fn map(&self, of: &Type, open: &dyn Fn(usize) -> Type) -> Type {
        let inner = |of: &Type| Arc::new(self.map(of, open));
        match of {
            Type::Unknown(number) => match self.known.get(*number) {
                Some(Some(known)) => self.map(known, open),
                _ => open(*number),
            },
            Type::List(of) => Type::List(inner(of)),
            Type::Optional(of) => Type::Optional(inner(of)),
            Type::Map(key, value) => Type::Map(inner(key), inner(value)),
            other => other.clone(),
        }
    }

    /// Returns whether a value of type `from` may stand where `to` is wanted, and learns from it.
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        // Whatever may be anything makes what it is assigned to so.
        if let Type::Unknown(number) = to
            && self.resolve(from) == Type::Dyn
        {
            return self.learn(*number, &Type::Dyn);
        }
        let (from, to) = (self.resolve(from), self.resolve(to));
        match (&from, &to) {
            (Type::Unknown(left), Type::Unknown(right)) if left == right => true,
            (_, Type::Unknown(number)) => self.learn(*number, &from),
            (Type::Unknown(number), _) => self.learn(*number, &to),
            (Type::Dyn, _) | (_, Type::Dyn) => true,
            (Type::Null, to) => to.is_nullable(),
            (Type::List(from), Type::List(to)) | (Type::Optional(from), Type::Optional(to)) => {
                self.assign(from, to)
            }
            (Type::Map(key, value), Type::Map(to_key, to_value)) => {
                self.assign(key, to_key) && self.assign(value, to_value)
            }
            (from, to) => from == to,
        }
    }

    fn learn(&mut self, number: usize, of: &Type) -> bool {
        if holds(of, number) {
            return false;
        }
        if let Some(place) = self.known.get_mut(number) {
            *place = Some(of.clone());
        }
        true
    }

    /// Replaces the parameters of a signature by fresh unknowns, the same ones for the same letters.
    pub(super) fn instantiate(&mut self, of: &Type, letters: &mut Vec<(char, Type)>) -> Type {
        match of {
            Type::Parameter(letter) => {
                if let Some((_, known)) = letters.iter().find(|(known, _)| known == letter) {
                    return known.clone();
                }
                let fresh = self.unknown();
                letters.push((*letter, fresh.clone()));
                fresh
            }
            Type::List(of) => Type::list(self.instantiate(of, letters)),
            Type::Optional(of) => Type::optional(self.instantiate(of, letters)),
            Type::Map(key, value) => {
                let key = self.instantiate(key, letters);
                Type::Map(Arc::new(key), Arc::new(self.instantiate(value, letters)))
            }
            other => other.clone(),
        }
    }
}

fn holds(of: &Type, number: usize) -> bool {
    match of {
        Type::Unknown(other) => *other == number,
        Type::List(of) | Type::Optional(of) => holds(of, number),
        Type::Map(key, value) => holds(key, number) || holds(value, number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_and_shown() {
        for (written, shown) in [
            ("list(map(string, dyn))", "list(map(string, dyn))"),
            ("optional(A)", "optional_type(A)"),
            ("kubernetes.Quantity", "kubernetes.Quantity"),
            ("duration", "google.protobuf.Duration"),
        ] {
            assert_eq!(Type::read(written).to_string(), shown);
        }
        assert_eq!(split("A, map(B, C), D"), ["A", "map(B, C)", "D"]);
    }

    #[test]
    fn what_is_unknown_is_learned_once() {
        let mut findings = Findings::default();
        let unknown = findings.unknown();
        assert!(findings.assign(&Type::list(unknown.clone()), &Type::read("list(int)")));
        assert_eq!(findings.resolve(&unknown), Type::Int);
        assert!(!findings.assign(&Type::String, &unknown));
        assert!(findings.assign(&Type::Dyn, &unknown));
        assert!(findings.assign(&Type::Null, &Type::Timestamp));
        assert!(!findings.assign(&Type::Null, &Type::String));
    }
}
