//! What commands that write a new intent share: the workload that is meant, a name that is free, its file, the commit.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::migrate::{place, place_of_cluster_scope};
use super::workspace::{Edit, Workspace};
use cutover_core::api::{self, OnFailure};
use cutover_core::error::{Error, Result};
use cutover_core::manifest::{Manifest, block};
use cutover_karmada::name::ObjectKey;

/// How a new intent is called, and where it is written.
#[derive(Args, Debug)]
pub struct Placed {
    /// The name of the intent [default: made of what it is about, with a number if that is taken]
    #[arg(long)]
    name: Option<String>,
    /// The file to write [default: NAME.yaml beside other intents, else in intents/]
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
}

/// The namespace of what a new intent is about.
#[derive(Args, Debug)]
pub struct Within {
    /// The namespace, where the name alone is not enough
    #[arg(short, long)]
    pub namespace: Option<String>,
}

/// What happens when an operation doesn't come to its end in time.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Failure {
    /// Everything runs again where it ran, from the newest state
    RollBack,
    /// Everything stays as it is until it is aborted
    Hold,
}

impl Failure {
    pub const fn asked(self) -> OnFailure {
        match self {
            Self::RollBack => OnFailure::RollBack,
            Self::Hold => OnFailure::Hold,
        }
    }
}

/// An intent that is about to be written.
#[derive(Debug)]
pub struct Fresh {
    kind: &'static str,
    /// `None`: of cluster scope.
    namespace: Option<String>,
    name: String,
    path: String,
}

impl Placed {
    /// Finds a name and a file for an intent about an object of the repository. `base`: what its name is made of.
    pub fn beside(
        &self,
        workspace: &Workspace,
        kind: &'static str,
        about: &Manifest,
        base: &str,
    ) -> Result<Fresh> {
        let namespace = workspace.namespace_of(about);
        let name = free_name(workspace, kind, Some(&namespace), self.name.as_ref(), base)?;
        // A workload's own name is that of its template's file as well.
        let file = if name == about.key.name {
            format!("{name}-{}", kind.to_lowercase())
        } else {
            name.clone()
        };
        let path = self.path(workspace, || place(workspace, &about.key, &namespace, &file))?;
        Ok(Fresh {
            kind,
            namespace: Some(namespace),
            name,
            path,
        })
    }

    /// The same for an intent of cluster scope.
    pub fn of_cluster_scope(&self, workspace: &Workspace, kind: &'static str, base: &str) -> Result<Fresh> {
        let name = free_name(workspace, kind, None, self.name.as_ref(), base)?;
        let path = self.path(workspace, || place_of_cluster_scope(workspace, &name))?;
        Ok(Fresh {
            kind,
            namespace: None,
            name,
            path,
        })
    }

    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    fn path(&self, workspace: &Workspace, default: impl FnOnce() -> Result<String>) -> Result<String> {
        file_or(workspace, self.file.as_deref(), default)
    }
}

/// Returns the file that was asked for, or another one; none that is there already.
pub fn file_or(
    workspace: &Workspace,
    asked: Option<&str>,
    default: impl FnOnce() -> Result<String>,
) -> Result<String> {
    let path = match asked {
        Some(path) => path.trim_start_matches("./").to_owned(),
        None => default()?,
    };
    if workspace.is_taken(&path) {
        return Err(Error::user(format!("{path} is there already")).hint("name another file with --file"));
    }
    Ok(path)
}

impl Fresh {
    /// Finds a file for an intent whose name is settled.
    pub fn at(
        workspace: &Workspace,
        kind: &'static str,
        about: &ObjectKey,
        (namespace, name): (&str, String),
        file: Option<&str>,
    ) -> Result<Self> {
        let path = file_or(workspace, file, || place(workspace, about, namespace, &name))?;
        Ok(Self {
            kind,
            namespace: Some(namespace.to_owned()),
            name,
            path,
        })
    }

    pub fn full_name(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Returns the file with a spec, and the commit that adds it. `more`: what else its message says, after the file.
    pub fn edit(self, spec: &Value, subject: String, of: Option<&ObjectKey>, more: &str) -> Edit {
        let of = of.map_or_else(String::new, |of| {
            let namespace = self.namespace.as_deref().unwrap_or_default();
            format!(" of {} {namespace}/{}", of.kind, of.name)
        });
        let intent = self.full_name();
        Edit {
            text: document(self.kind, self.namespace.as_deref(), &self.name, spec),
            body: format!("Asks for {} {intent}{of}, in {}{more}", self.kind, self.path),
            intent,
            subject,
            path: self.path,
        }
    }
}

/// Returns how an intent names the workload of a template.
pub fn about(template: &Manifest) -> Value {
    json!({
        "apiVersion": template.gvk.api_version(), "kind": template.gvk.kind, "name": template.key.name,
    })
}

/// Returns the name that was asked for, or one that is made of `base`; none that an intent of that kind has.
fn free_name(
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

/// Returns the file of a new intent.
fn document(kind: &str, namespace: Option<&str>, name: &str, spec: &Value) -> String {
    let mut metadata = json!({"name": name});
    if let Some(namespace) = namespace {
        metadata["namespace"] = json!(namespace);
    }
    let document = json!({"apiVersion": api::API_VERSION, "kind": kind, "metadata": metadata, "spec": spec});
    block(&document)
}

/// A spec that is being put together: what is left out has its default.
#[derive(Debug, Default)]
pub struct Spec(serde_json::Map<String, Value>);

impl Spec {
    /// Says a field, if there is something to say.
    pub fn apply(&mut self, field: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.0.insert(field.to_owned(), value);
        }
    }

    /// Says a list, if there is anything in it.
    pub fn list<T: serde::Serialize>(&mut self, field: &str, values: &[T]) {
        self.apply(field, (!values.is_empty()).then(|| json!(values)));
    }

    /// Returns what was said, if anything was.
    pub fn some(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }

    pub fn value(self) -> Value {
        Value::Object(self.0)
    }
}
