//! Names that are parsed once at the border and never again.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a member cluster: `Cluster.metadata.name` in the Karmada API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ClusterName(String);

impl ClusterName {
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for ClusterName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// A Git commit: 40 (SHA-1) or 64 (SHA-256) lower-case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Revision(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Git object id: {0:?}")]
pub struct NotARevision(String);

impl Revision {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the first 8 digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..8]
    }
}

impl FromStr for Revision {
    type Err = NotARevision;

    fn from_str(text: &str) -> Result<Self, NotARevision> {
        let hex = text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotARevision(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Revision {
    type Error = NotARevision;

    fn try_from(text: String) -> Result<Self, NotARevision> {
        text.parse()
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An API group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Gvk {
    pub fn new(api_version: &str, kind: &str) -> Self {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.api_version(), self.kind)
    }
}

/// What makes an object the same object across versions of its API: group, kind, namespace, name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub group: String,
    pub kind: String,
    /// `None` for objects of cluster scope.
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectKey {
    /// Returns `<namespace>/<name>`, or the name alone.
    pub fn place(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.place())
    }
}

/// A kind, whatever its version: `Deployment.apps`, or `ConfigMap` in the core group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// Empty for the core group.
    pub group: String,
    pub kind: String,
}

impl GroupKind {
    pub fn new(group: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// Returns the key of an object of this kind; `None`: it has no name.
    pub fn key_of(&self, object: &serde_json::Value) -> Option<ObjectKey> {
        let text = |field: &str| object.get("metadata")?.get(field)?.as_str();
        Some(self.key(text("namespace"), text("name")?))
    }

    /// Returns the key of the object of this kind with this name.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }
}

impl From<&Gvk> for GroupKind {
    fn from(gvk: &Gvk) -> Self {
        Self::new(&gvk.group, &gvk.kind)
    }
}

impl From<&ObjectKey> for GroupKind {
    fn from(key: &ObjectKey) -> Self {
        Self::new(&key.group, &key.kind)
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.kind),
            group => write!(f, "{}.{group}", self.kind),
        }
    }
}

impl FromStr for GroupKind {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, group) = text.split_once('.').unwrap_or((text, ""));
        Ok(Self::new(group, kind))
    }
}

/// A place in a file of a repository; lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// Relative to the root of the repository, with `/`.
    pub path: String,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_read_as_it_is_written() {
        for (text, group, kind) in [
            ("ConfigMap", "", "ConfigMap"),
            ("Deployment.apps", "apps", "Deployment"),
            ("Widget.example.dev", "example.dev", "Widget"),
        ] {
            let written = GroupKind::new(group, kind);
            assert_eq!(text.parse(), Ok(written.clone()));
            assert_eq!(written.to_string(), text);
        }
    }
}
