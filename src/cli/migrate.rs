//! `cutover migrate`: writes and commits the file that asks for a migration.

mod args;

use std::process::ExitCode;

use args::MigrateArgs;
use clap::Args;
use serde_json::json;

use super::connection::StatusBranchArgs;
use super::excluded;
use super::intent_file::{NewIntent, NewIntentArgs};
use super::look::{Known, Look};
use super::wait::Wait;
use super::workspace::Workspace;
use super::{joined, named};
use cutover_core::api::{Migration, MigrationSpec, Phase, WorkloadRef};
use cutover_core::error::{Error, Result};
use cutover_core::intent::record;
use cutover_core::manifest::Manifest;

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
    args: MigrateArgs,
    /// Follow it to its end, as `cutover wait` does
    #[arg(long, requires = "push", conflicts_with = "offline")]
    wait: bool,
    #[command(flatten)]
    new: NewIntentArgs,
    #[command(flatten)]
    allowed: StatusBranchArgs,
}

impl Migrate {
    pub async fn run(self) -> Result<ExitCode> {
        let workspace = self.new.open()?;
        let (workload, namespace) = self.workload(&workspace)?;
        let spec = self.args.spec(&workload);
        let named = std::iter::once(&self.args.to).chain(&self.args.from);
        joined::all_are(&self.new.ask, named).await?;
        let name = self.name(&workspace, &namespace, &workload).await?;
        let about = workload.key(Some(&namespace));
        let named = (namespace.as_str(), name);
        let migration = NewIntent::at(&workspace, "Migration", &about, named, self.new.placed.file())?;
        let from = self
            .args
            .from
            .as_ref()
            .map_or_else(String::new, |from| format!(" from {from}"));
        let subject = format!("Move {}{from} to {}", workload.name, self.args.to);
        let own = json!({"kind": "Migration", "metadata": {"namespace": namespace}, "spec": spec});
        let full_name = migration.full_name();
        let called = format!("Migration {full_name}");
        let ended = excluded::by_none(self.look(), &workspace, &called, &own).await?;
        let edit = migration.edit(&spec, subject, Some(&about), ".");
        workspace.apply_beside(&ended, &self.new.change, &self.new.git, &edit)?;
        if self.wait {
            let wait = Wait::for_intent("Migration", full_name, self.new.ask.into_cluster());
            return wait.run().await;
        }
        Ok(ExitCode::SUCCESS)
    }

    const fn look(&self) -> Look<'_> {
        Look {
            ask: &self.new.ask,
            allowed: &self.allowed,
            git: &self.new.git,
        }
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
                kind: named::kind_of_version(workspace, api_version, kind)?,
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
    async fn name(&self, workspace: &Workspace, namespace: &str, workload: &WorkloadRef) -> Result<String> {
        let base = format!("{}-to-{}", workload.name, self.args.to);
        let placed = &self.new.placed;
        let (name, before) = placed.free_name(workspace, "Migration", Some(namespace), &base)?;
        if let Some(before) = before {
            self.must_have_ended(workspace, namespace, before).await?;
        }
        Ok(name)
    }

    /// Fails while an earlier Migration to the same cluster isn't known to have ended.
    async fn must_have_ended(&self, workspace: &Workspace, namespace: &str, there: &Manifest) -> Result<()> {
        let name = &there.key.name;
        let args: Option<MigrationSpec> = serde_json::from_value(there.value["spec"].clone()).ok();
        let error = |why: &str| {
            Error::user(format!(
                "Migration {namespace}/{name} asks for that already, {why}"
            ))
            .at(there.source.clone())
            .hint("cutover status shows how it stands; to ask for it again nevertheless, give a --name")
        };
        let look = self.look();
        let known = look.known::<Migration>(workspace, "Migration", Some(namespace), name);
        let migration = match known.await {
            Known::As(migration) => migration,
            Known::Absent(_) => return Err(error("and has not begun")),
            Known::Not(_) => return Err(error("and whether it has ended is not known")),
        };
        let obeyed = migration.spec_in_force();
        let same = args.is_some_and(|args| record::asks_the_same(obeyed, &args));
        let status = migration.status.as_ref();
        match status.map_or(Phase::default(), |status| status.phase) {
            phase if phase.is_terminal() && same => Ok(()),
            phase if phase.is_terminal() => Err(error("and was changed after it had ended")),
            phase => Err(error(&format!("and is not done: {phase}"))),
        }
    }
}
