//! The file of a new intent: what all commands that write one share, from its name to its commit.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::connection::{AskArgs, GitArgs};
use super::workspace::{ChangeArgs, Edit, Workspace};
use cutover_core::api::{self, OnFailure};
use cutover_core::error::{Error, Result};
use cutover_core::manifest::{Manifest, block};
use cutover_karmada::name::ObjectKey;

/// How a new intent is written.
#[derive(Args, Debug)]
pub struct NewIntentArgs {
    #[command(flatten)]
    pub placed: Placed,
    #[command(flatten)]
    pub change: ChangeArgs,
    #[command(flatten)]
    pub ask: AskArgs,
    #[command(flatten)]
    pub git: GitArgs,
}

impl NewIntentArgs {
    /// Reads the repository.
    pub fn open(&self) -> Result<Workspace> {
        Workspace::open(&self.change)
    }

    /// Writes and commits the file.
    pub fn write(&self, workspace: &Workspace, edit: &Edit) -> Result<ExitCode> {
        workspace.apply(&self.change, &self.git, edit)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The name of a new intent, and where its file is.
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

/// What happens when an operation is not completed in time.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Failure {
    /// Everything runs again where it ran, from the newest state
    RollBack,
    /// Everything stays as it is until it is aborted
    Hold,
}

/// Where intents go when there is none yet.
const FOLDER: &str = "intents";

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
pub struct NewIntent {
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
    ) -> Result<NewIntent> {
        let namespace = workspace.namespace_of(about);
        let (name, _) = self.free_name(workspace, kind, Some(&namespace), base)?;
        // A workload's own name is that of its template's file as well.
        let file = if name == about.key.name {
            format!("{name}-{}", kind.to_lowercase())
        } else {
            name.clone()
        };
        let path = self.path(workspace, || place(workspace, &about.key, &namespace, &file))?;
        Ok(NewIntent {
            kind,
            namespace: Some(namespace),
            name,
            path,
        })
    }

    /// The same for an intent of cluster scope.
    pub fn of_cluster_scope(
        &self,
        workspace: &Workspace,
        kind: &'static str,
        base: &str,
    ) -> Result<NewIntent> {
        let (name, _) = self.free_name(workspace, kind, None, base)?;
        let path = self.path(workspace, || place_of_cluster_scope(workspace, &name))?;
        Ok(NewIntent {
            kind,
            namespace: None,
            name,
            path,
        })
    }

    /// Returns the name that was asked for, or one that is made of `base`; none that an intent of that kind has. Of a name that has a
    /// number, the intent that has the number before comes with it.
    pub fn free_name<'a>(
        &self,
        workspace: &'a Workspace,
        kind: &'static str,
        namespace: Option<&str>,
        base: &str,
    ) -> Result<(String, Option<&'a Arc<Manifest>>)> {
        let taken = |name: &str| {
            let mut all = workspace.of_kind(kind);
            let is_it = |(manifest, there): &(&Arc<Manifest>, String)| {
                manifest.key.name == name && namespace.is_none_or(|namespace| namespace == there)
            };
            all.find(is_it).map(|(manifest, _)| manifest)
        };
        if let Some(name) = &self.name {
            return match taken(name) {
                Some(there) => Err(is_there(kind, namespace, there)
                    .hint("give it another name with --name, or change its file")),
                None => Ok((name.clone(), None)),
            };
        }
        let (mut name, mut before) = (base.to_owned(), None);
        for number in 2_u32.. {
            let Some(there) = taken(&name) else {
                break;
            };
            before = Some(there);
            name = format!("{base}-{number}");
        }
        Ok((name, before))
    }

    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    fn path(&self, workspace: &Workspace, default: impl FnOnce() -> Result<String>) -> Result<String> {
        file_or(workspace, self.file.as_deref(), default)
    }
}

/// Returns the file that was asked for, or another one; none that is there already.
fn file_or(
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

impl NewIntent {
    /// Finds a file for an intent whose name is known to be free.
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

/// Returns the error about a name that an intent has already.
pub fn is_there(kind: &str, namespace: Option<&str>, there: &Manifest) -> Error {
    let name = &there.key.name;
    let full = namespace.map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
    Error::user(format!("there is a {kind} {full} already")).at(there.source.clone())
}

/// Returns where a new intent goes: beside the others of its namespace, else into the sync of what it is about.
fn place(workspace: &Workspace, about: &ObjectKey, namespace: &str, name: &str) -> Result<String> {
    let folder = match folder_of_others(workspace, namespace) {
        Some(folder) => folder,
        None => folder_of_sync(workspace, about, namespace)?,
    };
    Ok(match folder.as_str() {
        "" => format!("{name}.yaml"),
        folder => format!("{folder}/{name}.yaml"),
    })
}

/// Returns the folder that has the most intents.
fn folder_of_others(workspace: &Workspace, namespace: &str) -> Option<String> {
    let folder = |path: &str| {
        path.rsplit_once('/')
            .map_or(String::new(), |(folder, _)| folder.to_owned())
    };
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    let others = workspace
        .of_kind("Migration")
        .chain(workspace.of_kind("Suspension"));
    for (manifest, there) in others {
        // A folder with an intent of the same namespace comes before all others.
        let weight = if there == namespace { 1000 } else { 1 };
        *folders.entry(folder(&manifest.source.path)).or_default() += weight;
    }
    folders
        .into_iter()
        .max_by(|(a, one), (b, other)| one.cmp(other).then(b.cmp(a)))
        .map(|(folder, _)| folder)
}

/// Returns the folder for intents in the sync of a template, else in the only sync.
fn folder_of_sync(workspace: &Workspace, about: &ObjectKey, namespace: &str) -> Result<String> {
    let mut templates = workspace.set.of_kind(&about.group, &about.kind);
    let is_it = |manifest: &&Arc<Manifest>| {
        manifest.key.name == about.name && workspace.namespace_of(manifest) == namespace
    };
    let of_template = templates
        .find(is_it)
        .and_then(|template| workspace.config.sync_of(&template.source.path));
    let sync = of_template.or(match workspace.config.syncs.as_slice() {
        [only] => Some(only),
        _ => None,
    });
    let Some(sync) = sync else {
        return Err(
            Error::user("it is not clear which sync of cutover.yaml the intent belongs to")
                .hint("name the file to write with --file"),
        );
    };
    Ok(match sync.path.trim_start_matches("./").trim_end_matches('/') {
        "" | "." => FOLDER.to_owned(),
        path => format!("{path}/{FOLDER}"),
    })
}

/// Returns where a new intent of cluster scope goes: beside the other intents, else into the only sync.
fn place_of_cluster_scope(workspace: &Workspace, name: &str) -> Result<String> {
    let nothing = ObjectKey {
        group: String::new(),
        kind: String::new(),
        namespace: None,
        name: String::new(),
    };
    place(workspace, &nothing, "", name)
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

/// A spec, or a part of it, that is being built: what is left out has its default.
#[derive(Debug, Default)]
pub struct Spec(serde_json::Map<String, Value>);

impl Spec {
    /// Adds a field, if it has a value.
    pub fn apply(&mut self, field: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.0.insert(field.to_owned(), value);
        }
    }

    /// Adds a list, if there is anything in it.
    pub fn list<T: serde::Serialize>(&mut self, field: &str, values: &[T]) {
        self.apply(field, (!values.is_empty()).then(|| json!(values)));
    }

    /// Returns the fields, if there are any.
    pub fn some(self) -> Option<Value> {
        (!self.0.is_empty()).then_some(Value::Object(self.0))
    }

    pub fn value(self) -> Value {
        Value::Object(self.0)
    }
}
