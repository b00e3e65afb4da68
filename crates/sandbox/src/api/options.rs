//! What callers say with a verb, and what a list gives back.

use std::time::Duration;

use serde_json::Value;

use super::Object;

/// A part of an object that is written on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subresource {
    Status,
    Scale,
    /// Of namespaces: the finalizers in their spec.
    Finalize,
}

impl Subresource {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
        }
    }
}

/// What happens to fields that the schema doesn't have: they are always dropped, the question is how loudly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

/// Who writes, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// The field manager.
    pub manager: String,
    pub user: String,
    pub dry_run: bool,
    /// Of apply: takes the fields that others own.
    pub force: bool,
    pub field_validation: FieldValidation,
    /// The fields that the client's text had twice, which a value can't show.
    pub duplicates: Vec<Duplicate>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            manager: "unknown".to_owned(),
            user: "system:admin".to_owned(),
            dry_run: false,
            force: false,
            field_validation: FieldValidation::default(),
            duplicates: Vec::new(),
        }
    }
}

impl WriteOptions {
    /// Returns options of a component that writes under its own name.
    pub fn manager(name: impl Into<String>) -> Self {
        let manager = name.into();
        Self {
            user: format!("system:{manager}"),
            manager,
            ..Self::default()
        }
    }
}

/// A change of an object, in one of the languages that PATCH understands.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 6902: operations, with `test` as a precondition.
    Json(Value),
    /// RFC 7396.
    Merge(Value),
    /// Merges lists by their keys; for built-in kinds only.
    Strategic(Value),
    /// Server-side apply: what the manager wants to own.
    Apply(Value),
}

/// What becomes of the objects that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted first.
    Foreground,
    /// They are deleted afterwards.
    Background,
    /// They stay, without the owner.
    Orphan,
}

/// A field that stands in a text twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// Where, such as `spec.ports[0].name`.
    pub path: String,
    pub name: String,
}

/// Who deletes, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOptions {
    pub user: String,
    pub dry_run: bool,
    pub propagation: Option<Propagation>,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The resourceVersion that the object must have.
    pub resource_version: Option<String>,
    pub grace_period_seconds: Option<i64>,
}

impl Default for DeleteOptions {
    fn default() -> Self {
        Self {
            user: "system:admin".to_owned(),
            dry_run: false,
            propagation: None,
            uid: None,
            resource_version: None,
            grace_period_seconds: None,
        }
    }
}

/// How a list's or watch's `revision` is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    Exact,
    NotOlderThan,
}

/// Which objects to list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOptions {
    /// A label selector in its text form; empty selects everything.
    pub labels: String,
    /// A field selector in its text form; empty selects everything.
    pub fields: String,
    /// How many objects to return at most; 0 is no limit.
    pub limit: usize,
    pub continue_token: Option<String>,
    pub revision: Option<u64>,
    pub version_match: Option<VersionMatch>,
    /// Of a watch: sends bookmarks.
    pub bookmarks: bool,
    /// Of a watch: begins with the objects there are, then a bookmark that says so.
    pub send_initial_events: bool,
    /// Of a watch: ends it after this time.
    pub timeout: Option<Duration>,
}

impl ListOptions {
    pub fn labels(selector: impl Into<String>) -> Self {
        Self {
            labels: selector.into(),
            ..Self::default()
        }
    }
}

/// A consistent list of objects.
#[derive(Clone, Debug, Default)]
pub struct List {
    pub items: Vec<Object>,
    /// The revision at which it was so.
    pub revision: u64,
    /// Where the next page begins.
    pub continue_token: Option<String>,
    /// How many objects follow; unknown when a selector is set.
    pub remaining: Option<usize>,
}
