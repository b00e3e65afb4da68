//! `cutover migrate`: writes and commits the file that asks for a migration.

mod args;

use std::collections::BTreeMap;
use std::process::ExitCode;

use args::MigrateArgs;
use clap::Args;
use serde_json::{Value, json};

use super::control::{Known, LookArgs};
use super::excluded;
use super::fresh::{Fresh, Placed};
use super::wait::Wait;
use super::workspace::{ChangeArgs, Workspace};
use super::{joined, named};
use cutover_core::api::{MigrationSpec, Phase, WorkloadRef};
use cutover_core::error::{Error, Result};
use cutover_core::intent::record;
use cutover_core::manifest::Manifest;
use cutover_karmada::name::ObjectKey;

/// Writes the file that moves a workload, with its state, to another cluster.
#[derive(Args, Debug)]
pub struct Migrate {
    /// The workload, as kubectl takes it: KIND/NAME or NAME of a template in the repository
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// The namespace of the workload [default: that of its template in the repository]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The API version of a workload whose template is not in the repository
    #[arg(long, value_name = "GROUP/VERSION", requires = "namespace")]
    api_version: Option<String>,
    #[command(flatten)]
    placed: Placed,
    #[command(flatten)]
    args: MigrateArgs,
    /// Follow it to its end, as `cutover wait` does
    #[arg(long, requires = "push", conflicts_with = "offline")]
    wait: bool,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    look: LookArgs,
}

/// Where Migrations go when there is none yet whose place could be followed.
const FOLDER: &str = "intents";

impl Migrate {
    pub async fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let (workload, namespace) = self.workload(&workspace)?;
        let spec = self.args.spec(&workload);
        let named = std::iter::once(&self.args.to).chain(&self.args.from);
        joined::all_are(&self.look.ask, named).await?;
        let name = self.name(&workspace, &namespace, &spec).await?;
        let about = workload.key(Some(&namespace));
        let named = (namespace.as_str(), name);
        let migration = Fresh::at(&workspace, "Migration", &about, named, self.placed.file())?;
        let from = self
            .args
            .from
            .as_ref()
            .map_or_else(String::new, |from| format!(" from {from}"));
        let subject = format!("Move {}{from} to {}", workload.name, self.args.to);
        let own = json!({"kind": "Migration", "metadata": {"namespace": namespace}, "spec": spec});
        let full_name = migration.full_name();
        let called = format!("Migration {full_name}");
        let ended = excluded::by_none(&self.look, &workspace, &called, &own).await?;
        let edit = migration.edit(&spec, subject, Some(&about), ".");
        workspace.apply_beside(&ended, &self.change, &self.look.git, &edit)?;
        if self.wait {
            let wait = Wait::for_intent("Migration", full_name, self.look.ask.into_cluster());
            return wait.run().await;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the workload that is meant and its namespace.
    fn workload(&self, workspace: &Workspace) -> Result<(WorkloadRef, String)> {
        let (kind, name) = match self.workload.split_once('/') {
            Some((kind, name)) => (Some(kind), name),
            None => (None, self.workload.as_str()),
        };
        if let (Some(api_version), Some(namespace), Some(kind)) = (&self.api_version, &self.namespace, kind) {
            let workload = WorkloadRef {
                api_version: api_version.clone(),
                kind: kind.to_owned(),
                name: name.to_owned(),
            };
            return Ok((workload, namespace.clone()));
        }
        let template =
            named::find(workspace, &self.workload, self.namespace.as_deref()).map_err(|error| {
                let elsewhere = "a template that is elsewhere needs KIND/NAME, --api-version and --namespace";
                let hint = match error.hint_text() {
                    Some(meant) if meant.ends_with('?') => meant.to_owned(),
                    Some(hint) => format!("{hint}; {elsewhere}"),
                    None => elsewhere.to_owned(),
                };
                error.hint(hint)
            })?;
        let workload = WorkloadRef {
            api_version: template.gvk.api_version(),
            kind: template.gvk.kind.clone(),
            name: template.key.name.clone(),
        };
        Ok((workload, workspace.namespace_of(&template)))
    }

    /// Returns the name that was given, or the next free one. The same operation isn't asked for twice at once.
    async fn name(&self, workspace: &Workspace, namespace: &str, spec: &Value) -> Result<String> {
        let taken: BTreeMap<String, &Manifest> = workspace
            .migrations()
            .filter(|(_, there)| there == namespace)
            .map(|(manifest, _)| (manifest.key.name.clone(), &**manifest))
            .collect();
        if let Some(name) = self.placed.name() {
            return match taken.get(name) {
                None => Ok(name.to_owned()),
                Some(there) => Err(
                    Error::user(format!("there is a Migration {namespace}/{name} already"))
                        .at(there.source.clone())
                        .hint("give it another name with --name, or change its file"),
                ),
            };
        }
        let workload = spec["workload"]["name"].as_str().unwrap_or_default();
        let base = format!("{workload}-to-{}", self.args.to);
        let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
        let mut last = None;
        for name in std::iter::once(base.clone()).chain(numbered) {
            let Some(there) = taken.get(&name) else {
                if let Some((last, there)) = last {
                    self.must_have_ended(workspace, namespace, last, there).await?;
                }
                return Ok(name);
            };
            last = taken
                .get_key_value(&name)
                .map(|(name, _)| (name.as_str(), *there));
        }
        Ok(base)
    }

    /// Fails while an earlier Migration to the same cluster isn't known to have ended.
    async fn must_have_ended(
        &self,
        workspace: &Workspace,
        namespace: &str,
        name: &str,
        there: &Manifest,
    ) -> Result<()> {
        let args: Option<MigrationSpec> = serde_json::from_value(there.value["spec"].clone()).ok();
        let error = |why: &str| {
            Error::user(format!(
                "Migration {namespace}/{name} asks for that already, {why}"
            ))
            .at(there.source.clone())
            .hint("cutover status says how it stands; to ask once more all the same, give a --name")
        };
        match self.look.known(workspace, namespace, name).await {
            Known::As(migration) => {
                let obeyed = migration.spec_in_force();
                let same = args.is_some_and(|args| record::asks_the_same(obeyed, &args));
                match migration
                    .status
                    .as_ref()
                    .map_or(Phase::default(), |status| status.phase)
                {
                    phase if phase.is_terminal() && same => Ok(()),
                    phase if phase.is_terminal() => Err(error("and was changed after it had ended")),
                    phase => Err(error(&format!("and is not done: {phase}"))),
                }
            }
            Known::Fresh => Err(error("and has not begun")),
            Known::Not(_) => Err(error("and whether it has ended is not known")),
        }
    }
}

/// Returns where a new intent goes: beside the others of its namespace, else into the sync of what it is about.
pub(super) fn place(workspace: &Workspace, about: &ObjectKey, namespace: &str, name: &str) -> Result<String> {
    let folder = |path: &str| {
        path.rsplit_once('/')
            .map_or(String::new(), |(folder, _)| folder.to_owned())
    };
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for (manifest, there) in workspace.migrations().chain(workspace.suspensions()) {
        // One that is in a place of its own namespace's says more than any other.
        let weight = if there == namespace { 1000 } else { 1 };
        *folders.entry(folder(&manifest.source.path)).or_default() += weight;
    }
    let most = folders
        .into_iter()
        .max_by(|(a, one), (b, other)| one.cmp(other).then(b.cmp(a)));
    let beside_workload = || {
        let template = workspace
            .set
            .of_kind(&about.group, &about.kind)
            .find(|manifest| {
                manifest.key.name == about.name && workspace.namespace_of(manifest) == namespace
            })?;
        workspace.config.sync_of(&template.source.path)
    };
    let folder = match most {
        Some((folder, _)) => folder,
        None => {
            let sync = beside_workload().or(match workspace.config.syncs.as_slice() {
                [only] => Some(only),
                _ => None,
            });
            let Some(sync) = sync else {
                return Err(Error::user("which sync the intent belongs to isn't clear")
                    .hint("name the file to write with --file"));
            };
            let path = sync.path.trim_start_matches("./").trim_end_matches('/');
            match path {
                "" | "." => FOLDER.to_owned(),
                path => format!("{path}/{FOLDER}"),
            }
        }
    };
    Ok(match folder.as_str() {
        "" => format!("{name}.yaml"),
        folder => format!("{folder}/{name}.yaml"),
    })
}

/// Returns where a new intent of cluster scope goes: beside the other intents, else into the only sync.
pub(super) fn place_of_cluster_scope(workspace: &Workspace, name: &str) -> Result<String> {
    let nothing = ObjectKey {
        group: String::new(),
        kind: String::new(),
        namespace: None,
        name: String::new(),
    };
    place(workspace, &nothing, "", name)
}
