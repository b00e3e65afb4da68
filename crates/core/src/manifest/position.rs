//! Where every value of a document was written, found by JSON pointer.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutover_karmada::name::Location;

/// A place in a file; line and column count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub line: u32,
    pub column: u32,
}

impl Mark {
    pub const START: Self = Self { line: 1, column: 1 };

    pub fn of(self, path: &str) -> Location {
        Location {
            path: path.to_owned(),
            line: self.line,
            column: self.column,
        }
    }
}

/// The positions of a value and of everything in it. It has the shape of the value, and is cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Positions(Shape);

/// Most values are scalars: those need nothing that is allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    Scalar(Mark),
    Nested(Arc<Node>),
}

#[derive(Debug, PartialEq, Eq)]
struct Node {
    at: Mark,
    inside: Inside,
}

#[derive(Debug, PartialEq, Eq)]
enum Inside {
    Items(Box<[Positions]>),
    /// In order of their keys.
    Fields(Box<[(Box<str>, Field)]>),
}

/// Where a key was written, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub key: Mark,
    pub value: Positions,
}

impl Positions {
    pub fn scalar(at: Mark) -> Self {
        Self(Shape::Scalar(at))
    }

    pub(super) fn sequence(at: Mark, items: Vec<Self>) -> Self {
        Self::nested(at, Inside::Items(items.into_boxed_slice()))
    }

    pub(super) fn mapping(at: Mark, fields: BTreeMap<Box<str>, Field>) -> Self {
        Self::nested(at, Inside::Fields(fields.into_iter().collect()))
    }

    fn nested(at: Mark, inside: Inside) -> Self {
        Self(Shape::Nested(Arc::new(Node { at, inside })))
    }

    fn inside(&self) -> Option<&Inside> {
        match &self.0 {
            Shape::Scalar(_) => None,
            Shape::Nested(node) => Some(&node.inside),
        }
    }

    /// Returns where the value begins.
    pub fn root(&self) -> Mark {
        match &self.0 {
            Shape::Scalar(at) => *at,
            Shape::Nested(node) => node.at,
        }
    }

    /// Returns where the value at a JSON pointer begins, or the innermost existing value around it.
    pub fn value(&self, pointer: &str) -> Mark {
        self.walk(pointer).1.root()
    }

    /// Returns where the key at a JSON pointer was written; an item of a sequence has its own place.
    pub fn key(&self, pointer: &str) -> Mark {
        self.walk(pointer).0
    }

    /// Returns the positions of one part, when the pointer leads to one.
    pub fn get(&self, pointer: &str) -> Option<&Self> {
        tokens(pointer).try_fold(self, |node, token| node.step(&token).map(|(_, next)| next))
    }

    pub(super) fn field(&self, key: &str) -> Option<&Field> {
        match self.inside()? {
            Inside::Fields(fields) => {
                let place = fields.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
                Some(&fields[place].1)
            }
            Inside::Items(_) => None,
        }
    }

    pub(super) fn item(&self, index: usize) -> Option<&Self> {
        match self.inside()? {
            Inside::Items(items) => items.get(index),
            Inside::Fields(_) => None,
        }
    }

    fn step(&self, token: &str) -> Option<(Mark, &Self)> {
        match self.inside()? {
            Inside::Fields(_) => self.field(token).map(|field| (field.key, &field.value)),
            Inside::Items(items) => {
                let item = items.get(token.parse::<usize>().ok()?)?;
                Some((item.root(), item))
            }
        }
    }

    fn walk(&self, pointer: &str) -> (Mark, &Self) {
        let mut here = (self.root(), self);
        for token in tokens(pointer) {
            let Some(next) = here.1.step(&token) else { break };
            here = next;
        }
        here
    }
}

/// Returns the unescaped reference tokens of a JSON pointer (RFC 6901).
fn tokens(pointer: &str) -> impl Iterator<Item = String> + '_ {
    pointer
        .split('/')
        .skip(1)
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
}
