//! What commands that write a new intent share: the workload that is meant, a name that is free, the document.

use std::sync::Arc;

use serde_json::{Value, json};

use super::workspace::Workspace;
use crate::api;
use crate::error::{Error, Result};
use crate::manifest::Manifest;

/// Finds a template of the repository by `KIND/NAME`.
pub fn template(workspace: &Workspace, named: &str, namespace: Option<&str>) -> Result<Arc<Manifest>> {
    let Some((kind, name)) = named.split_once('/') else {
        return Err(Error::user(format!("{named} says no kind")).hint("name it as KIND/NAME"));
    };
    let is_meant = |manifest: &&Arc<Manifest>| {
        let there = workspace.namespace_of(manifest);
        manifest.key.kind.eq_ignore_ascii_case(kind)
            && manifest.key.name == name
            && namespace.is_none_or(|wanted| wanted == there)
    };
    let found: Vec<_> = workspace.set.definitions().filter(is_meant).collect();
    match found.as_slice() {
        [only] => Ok(Arc::clone(only)),
        [] => Err(Error::user(format!("the repository has no {named}"))
            .hint("cutover validate shows what is in it")),
        _ => {
            Err(Error::user(format!("there is more than one {named}")).hint("say which one with --namespace"))
        }
    }
}

/// Returns the name that was asked for, or one that is made of `base`; none that an intent of that kind has.
pub fn free_name(
    workspace: &Workspace,
    kind: &str,
    namespace: Option<&str>,
    asked: Option<&String>,
    base: &str,
) -> Result<String> {
    let taken = |name: &str| {
        let mut all = workspace.of_kind(kind);
        all.any(|(manifest, there)| {
            manifest.key.name == name && namespace.is_none_or(|namespace| namespace == there)
        })
    };
    if let Some(name) = asked {
        if taken(name) {
            let full = namespace.map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
            return Err(Error::user(format!("there is a {kind} {full} already"))
                .hint("give it another name with --name, or change its file"));
        }
        return Ok(name.clone());
    }
    let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
    let mut names = std::iter::once(base.to_owned()).chain(numbered);
    Ok(names.find(|name| !taken(name)).unwrap_or_else(|| base.to_owned()))
}

/// Refuses to write over a file.
pub fn must_be_free(workspace: &Workspace, path: &str) -> Result<()> {
    if workspace.is_taken(path) {
        return Err(Error::user(format!("{path} is there already")).hint("name another file with --file"));
    }
    Ok(())
}

/// Returns the file of a new intent.
pub fn document(kind: &str, namespace: Option<&str>, name: &str, spec: &Value) -> Result<String> {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let document = json!({"apiVersion": api::API_VERSION, "kind": kind, "metadata": metadata, "spec": spec});
    serde_yaml::to_string(&document)
        .map_err(|error| Error::internal(format!("the {kind} cannot be written as YAML: {error}")))
}

/// A spec that is being put together: what is left out has its default.
#[derive(Debug, Default)]
pub struct Spec(serde_json::Map<String, Value>);

impl Spec {
    /// Says a field, if there is something to say.
    pub fn say(&mut self, field: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.0.insert(field.to_owned(), value);
        }
    }

    /// Says a list, if there is anything in it.
    pub fn list<T: serde::Serialize>(&mut self, field: &str, values: &[T]) {
        self.say(field, (!values.is_empty()).then(|| json!(values)));
    }

    /// Returns what was said, if anything was.
    pub fn some(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }

    pub fn value(self) -> Value {
        Value::Object(self.0)
    }
}
