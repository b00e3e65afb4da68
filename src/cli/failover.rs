//! `cutover failover`: a person decides that a workload fails over now; writes and commits the request to its FailoverPlan.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::intent_file::{self, NewIntent, Spec, Within};
use super::look::{Known, LookArgs, why};
use super::target::Target;
use super::workspace::{ChangeArgs, Edit, Workspace};
use super::{joined, named, values};
use cutover_core::api::FailoverPlan;
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::Decision;
use cutover_core::manifest::{Change, Manifest};
use cutover_karmada::name::ClusterName;

/// Asks for a workload to fail over now, whether or not its cluster can be reached. A healthy workload is better moved by a Migration.
#[derive(Args, Debug)]
pub struct Failover {
    /// The workload, as kubectl takes it: KIND/NAME or NAME of a template in the repository
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// The cluster to fail over to
    #[arg(long, value_name = "CLUSTER")]
    to: ClusterName,
    /// The reason, which the history of the plan shows
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    within: Within,
    /// The number of the failover [default: the next one, as the control plane or the status branch says]
    #[arg(long, value_name = "NUMBER", value_parser = values::count)]
    attempt: Option<u32>,
    /// Who decides [default: who commits]
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
    /// The file to write where the workload has no FailoverPlan yet [default: NAME.yaml beside other intents]
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    look: LookArgs,
}

impl Failover {
    pub async fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let workload = named::find(&workspace, &self.workload, self.within.namespace.as_deref())?;
        joined::all_are(&self.look.ask, [&self.to]).await?;
        let namespace = workspace.namespace_of(&workload);
        let by = self.by.clone().or_else(|| workspace.author());
        let is_its = |manifest: &Manifest| {
            let about = |field: &str| manifest.value.pointer(&format!("/spec/workload/{field}"));
            about("kind") == Some(&json!(workload.key.kind))
                && about("name") == Some(&json!(workload.key.name))
        };
        let plan = workspace
            .of_kind("FailoverPlan")
            .find(|(manifest, there)| *there == namespace && is_its(manifest));
        let git = &self.look.git;
        match plan {
            Some((plan, _)) => {
                let plan = Target::intent(Arc::clone(plan), namespace);
                let decision = self.ask(&workspace, &plan, by).await?;
                plan.write(&workspace, decision, &self.change, git)?;
            }
            None => {
                let edit = self.new_plan(&workspace, &workload, &namespace, by)?;
                workspace.apply(&self.change, git, &edit)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn request(&self, attempt: u32, by: Option<String>) -> Value {
        let mut request = Spec::default();
        request.apply("attempt", Some(json!(attempt)));
        request.apply("to", Some(json!(self.to)));
        request.apply("reason", Some(json!(self.reason)));
        request.apply("by", by.map(|by| json!(by)));
        request.value()
    }

    fn subject(&self) -> String {
        format!("Fail {} over to {}", self.workload, self.to)
    }

    /// Adds the request to the plan that there is.
    async fn ask(&self, workspace: &Workspace, plan: &Target, by: Option<String>) -> Result<Decision> {
        let attempt = match self.attempt {
            Some(attempt) => attempt,
            None => self.next_attempt(workspace, plan).await?,
        };
        Ok(Decision::Change {
            change: Change::Set("/spec/request", self.request(attempt, by)),
            subject: self.subject(),
            body: format!("Failover {attempt} of {}: {}", plan.full_name(), self.reason),
        })
    }

    async fn next_attempt(&self, workspace: &Workspace, plan: &Target) -> Result<u32> {
        let (namespace, name) = (plan.namespace.as_deref(), &plan.manifest.key.name);
        let look = self.look.look();
        let known = look.known::<FailoverPlan>(workspace, "FailoverPlan", namespace, name);
        match known.await {
            Known::As(plan) => Ok(plan.status.unwrap_or_default().common.attempt + 1),
            Known::Absent(reasons) if reasons.is_empty() => Ok(1),
            Known::Absent(reasons) | Known::Not(reasons) => Err(Error::user(format!(
                "the number of the next failover of {} is not known: {}",
                plan.name(),
                why(&reasons)
            ))
            .hint("name it with --attempt: one more than status.attempt")),
        }
    }

    /// Writes a plan that begins with the request.
    fn new_plan(
        &self,
        workspace: &Workspace,
        workload: &Manifest,
        namespace: &str,
        by: Option<String>,
    ) -> Result<Edit> {
        let name = format!("{}-failover", workload.key.name);
        let plan = NewIntent::at(
            workspace,
            "FailoverPlan",
            &workload.key,
            (namespace, name),
            self.file.as_deref(),
        )?;
        let mut spec = Spec::default();
        spec.apply("workload", Some(intent_file::about(workload)));
        spec.apply("request", Some(self.request(self.attempt.unwrap_or(1), by)));
        let why = format!(": {}", self.reason);
        Ok(plan.edit(&spec.value(), self.subject(), None, &why))
    }
}
