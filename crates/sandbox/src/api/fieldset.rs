//! Sets of fields, as `managedFields` records them (`FieldsV1`).
//!
//! A set is a trie: every node is a step of a path and says whether the path that ends there is a member.
//! What belongs into a set is decided in [`super::apply`].

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// One step of a field's path.
///
/// Keys and values of list items are kept as compact JSON with sorted keys: equal text is equal value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of an object.
    Field(Box<str>),
    /// An item of a list with keys: the object of its key fields.
    Key(Box<str>),
    /// An item of a list that is a set: its value.
    Value(Box<str>),
    /// An item of a list by position.
    Index(usize),
}

/// A path from an object's root.
pub type Path = Vec<PathElement>;

/// A set of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<PathElement, Node>,
}

/// What is known below one step. Never both no member and without children, except while a set is built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    children: FieldSet,
}

/// Why a `fieldsV1` could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("fields must be an object")]
    NotAnObject,
    #[error("invalid path element {0:?}")]
    Element(String),
}

impl PathElement {
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Names an item of a keyed list by its key fields.
    pub fn key<'a>(fields: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Self {
        let sorted: BTreeMap<&str, &Value> = fields.into_iter().collect();
        Self::Key(serde_json::to_string(&sorted).unwrap_or_default().into())
    }

    /// Names an item of a set by its value.
    pub fn value(value: &Value) -> Self {
        Self::Value(value.to_string().into())
    }

    fn parse(text: &str) -> Result<Self, ParseError> {
        let invalid = || ParseError::Element(text.to_owned());
        let (tag, rest) = text.split_once(':').ok_or_else(invalid)?;
        match tag {
            "f" => Ok(Self::Field(rest.into())),
            "k" => {
                let fields: BTreeMap<String, Value> = serde_json::from_str(rest).map_err(|_| invalid())?;
                Ok(Self::key(
                    fields.iter().map(|(name, value)| (name.as_str(), value)),
                ))
            }
            "v" => serde_json::from_str(rest)
                .map(|value: Value| Self::value(&value))
                .map_err(|_| invalid()),
            "i" => rest.parse().map(Self::Index).map_err(|_| invalid()),
            _ => Err(invalid()),
        }
    }

    fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => format!("k:{fields}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// As conflicts and errors print it: `.spec`, `[name="nginx"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let fields: BTreeMap<String, Value> = serde_json::from_str(fields).unwrap_or_default();
                f.write_str("[")?;
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Prints a path as conflicts do.
pub fn display(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

impl FieldSet {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds one path.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let node = self.nodes.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// Adds one step as a member, with what is below it. A step that is neither is not added.
    pub fn graft(&mut self, element: PathElement, member: bool, children: Self) {
        if !member && children.is_empty() {
            return;
        }
        let node = self.nodes.entry(element).or_default();
        node.member |= member;
        if node.children.is_empty() {
            node.children = children;
        } else {
            node.children = node.children.union(&children);
        }
    }

    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else {
            return false;
        };
        self.nodes.get(first).is_some_and(|node| {
            if rest.is_empty() {
                node.member
            } else {
                node.children.contains(rest)
            }
        })
    }

    /// Returns whether the step itself is a member, and what is below it.
    pub fn step(&self, element: &PathElement) -> (bool, Option<&Self>) {
        match self.nodes.get(element) {
            Some(node) => (
                node.member,
                Some(&node.children).filter(|below| !below.is_empty()),
            ),
            None => (false, None),
        }
    }

    /// The first steps of all paths: the step, whether it is a member, what is below.
    pub fn steps(&self) -> impl Iterator<Item = (&PathElement, bool, &Self)> {
        self.nodes
            .iter()
            .map(|(element, node)| (element, node.member, &node.children))
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut union = self.clone();
        for (element, node) in &other.nodes {
            let mine = union.nodes.entry(element.clone()).or_default();
            mine.member |= node.member;
            mine.children = if mine.children.is_empty() {
                node.children.clone()
            } else {
                mine.children.union(&node.children)
            };
        }
        union
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::new();
        for (element, node) in &self.nodes {
            if let Some(theirs) = other.nodes.get(element) {
                let children = node.children.intersection(&theirs.children);
                both.graft(element.clone(), node.member && theirs.member, children);
            }
        }
        both
    }

    /// The members of `self` that are no members of `other`; what is below a member of `other` stays.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = Self::new();
        for (element, node) in &self.nodes {
            match other.nodes.get(element) {
                None => rest.graft(element.clone(), node.member, node.children.clone()),
                Some(theirs) => rest.graft(
                    element.clone(),
                    node.member && !theirs.member,
                    node.children.difference(&theirs.children),
                ),
            }
        }
        rest
    }

    /// The members of `self` that are neither members of `other` nor below one.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        let mut rest = Self::new();
        for (element, node) in &self.nodes {
            match other.nodes.get(element) {
                None => rest.graft(element.clone(), node.member, node.children.clone()),
                Some(theirs) if theirs.member => {}
                Some(theirs) => {
                    rest.graft(
                        element.clone(),
                        node.member,
                        node.children.recursive_difference(&theirs.children),
                    );
                }
            }
        }
        rest
    }

    /// The members that have no members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let mut leaves = Self::new();
        for (element, node) in &self.nodes {
            leaves.graft(
                element.clone(),
                node.member && node.children.is_empty(),
                node.children.leaves(),
            );
        }
        leaves
    }

    /// All members: those of one level before what is below them, as conflicts are told.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect(&self, prefix: &mut Path, paths: &mut Vec<Path>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            paths.push(prefix.iter().chain([element]).cloned().collect());
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.children.collect(prefix, paths);
            prefix.pop();
        }
    }

    /// Reads a `fieldsV1`.
    pub fn from_json(fields: &Value) -> Result<Self, ParseError> {
        let fields = fields.as_object().ok_or(ParseError::NotAnObject)?;
        let mut set = Self::new();
        for (text, below) in fields {
            if text == "." {
                continue;
            }
            let below_fields = below.as_object().ok_or(ParseError::NotAnObject)?;
            let member = below_fields.is_empty() || below_fields.contains_key(".");
            set.graft(PathElement::parse(text)?, member, Self::from_json(below)?);
        }
        Ok(set)
    }

    /// Writes a `fieldsV1`.
    pub fn to_json(&self) -> Value {
        let mut fields = Map::new();
        for (element, node) in &self.nodes {
            let mut below = match node.children.to_json() {
                Value::Object(below) => below,
                _ => Map::new(),
            };
            if node.member && !below.is_empty() {
                below.shift_insert(0, ".".to_owned(), Value::Object(Map::new()));
            }
            fields.insert(element.encode(), Value::Object(below));
        }
        Value::Object(fields)
    }
}

impl FromIterator<Path> for FieldSet {
    fn from_iter<I: IntoIterator<Item = Path>>(paths: I) -> Self {
        let mut set = Self::new();
        for path in paths {
            set.insert(&path);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn path(text: &str) -> Path {
        text.split('.').map(PathElement::field).collect()
    }

    #[test]
    fn fields_v1_survives_reading_and_writing() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {".": {}, "v:\"a/b\"": {}}},
            "f:spec": {
                "f:replicas": {},
                "f:containers": {"k:{\"name\":\"nginx\"}": {".": {}, "f:image": {}}},
                "f:args": {"i:0": {}},
            },
        });
        let set = FieldSet::from_json(&fields).unwrap();
        assert_eq!(set.to_json(), fields);
    }

    #[test]
    fn keys_are_written_sorted_whatever_their_order() {
        let fields = json!({"k:{\"protocol\":\"TCP\",\"containerPort\":80}": {}});
        let set = FieldSet::from_json(&fields).unwrap();
        assert_eq!(
            set.to_json(),
            json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}})
        );
        assert_eq!(display(&set.paths()[0]), "[containerPort=80,protocol=\"TCP\"]");
    }

    #[test]
    fn paths_print_as_conflicts_print_them() {
        let path = [
            PathElement::field("spec"),
            PathElement::field("containers"),
            PathElement::key([("name", &json!("nginx"))]),
            PathElement::field("args"),
            PathElement::value(&json!("x")),
            PathElement::Index(3),
        ];
        assert_eq!(display(&path), ".spec.containers[name=\"nginx\"].args[=\"x\"][3]");
    }

    #[test]
    fn difference_keeps_what_is_below_a_removed_member_and_recursive_difference_does_not() {
        let all: FieldSet = [path("a"), path("a.b"), path("c")].into_iter().collect();
        let a: FieldSet = [path("a")].into_iter().collect();
        assert_eq!(all.difference(&a).paths(), [path("c"), path("a.b")]);
        assert_eq!(all.recursive_difference(&a).paths(), [path("c")]);
        assert_eq!(all.leaves().paths(), [path("c"), path("a.b")]);
    }

    #[test]
    fn unknown_path_elements_are_refused() {
        assert_eq!(
            FieldSet::from_json(&json!({"x:foo": {}})),
            Err(ParseError::Element("x:foo".to_owned()))
        );
        assert_eq!(
            FieldSet::from_json(&json!({"f:foo": 1})),
            Err(ParseError::NotAnObject)
        );
    }

    fn paths() -> impl Strategy<Value = BTreeSet<Path>> {
        let element = prop_oneof![
            "[a-c]".prop_map(|name| PathElement::field(&name)),
            (0..2i64).prop_map(|key| PathElement::key([("k", &json!(key))])),
        ];
        prop::collection::btree_set(prop::collection::vec(element, 1..4), 0..12)
    }

    fn set(paths: &BTreeSet<Path>) -> FieldSet {
        paths.iter().cloned().collect()
    }

    fn is_below(path: &Path, others: &BTreeSet<Path>) -> bool {
        (1..=path.len()).any(|length| others.contains(&path[..length]))
    }

    proptest! {
        #[test]
        fn operations_agree_with_sets_of_whole_paths(a in paths(), b in paths()) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(x.union(&y), set(&a.union(&b).cloned().collect()));
            prop_assert_eq!(x.intersection(&y), set(&a.intersection(&b).cloned().collect()));
            prop_assert_eq!(x.difference(&y), set(&a.difference(&b).cloned().collect()));
            let apart = a.iter().filter(|path| !is_below(path, &b)).cloned().collect();
            prop_assert_eq!(x.recursive_difference(&y), set(&apart));
            let leaves = a.iter().filter(|path| {
                !a.iter().any(|other| other.len() > path.len() && other.starts_with(path))
            }).cloned().collect();
            prop_assert_eq!(x.leaves(), set(&leaves));
            prop_assert_eq!(x.paths().into_iter().collect::<BTreeSet<_>>(), a);
            prop_assert_eq!(FieldSet::from_json(&x.to_json()), Ok(x));
        }
    }
}
