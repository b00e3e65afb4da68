//! `cutover failover`: a person decides that a workload fails over now; writes and commits what its FailoverPlan is asked.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::control::{LookArgs, Stands};
use super::fresh::{self, Fresh, Within};
use super::workspace::{ChangeArgs, Edit, Workspace};
use super::{joined, named, values};
use cutover_core::api::{FailoverGate, FailoverPlanStatus};
use cutover_core::error::{Error, Result};
use cutover_core::manifest::{Change, Manifest, edit};
use cutover_karmada::name::ClusterName;

/// Asks for a workload to fail over now, whether or not its cluster can be reached. A workload that is well is better moved by
/// a Migration.
#[derive(Args, Debug)]
pub struct Failover {
    /// The workload, as kubectl takes it: KIND/NAME or NAME of a template in the repository
    #[arg(value_name = "WORKLOAD")]
    workload: String,
    /// The cluster that it goes to
    #[arg(long, value_name = "CLUSTER")]
    to: ClusterName,
    /// Why; stands in the history for everybody
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    within: Within,
    /// The number that the failover gets [default: the next one, as the control plane or the status branch says]
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
        let by = self
            .by
            .clone()
            .or_else(|| workspace.checkout().and_then(cutover_git::Checkout::author));
        let is_its = |manifest: &Manifest| {
            let about = |field: &str| manifest.value.pointer(&format!("/spec/workload/{field}"));
            about("kind") == Some(&json!(workload.key.kind))
                && about("name") == Some(&json!(workload.key.name))
        };
        let plan = workspace
            .of_kind("FailoverPlan")
            .find(|(manifest, there)| *there == namespace && is_its(manifest));
        let edit = match plan {
            Some((manifest, _)) => self.ask(&workspace, manifest, &namespace, by).await?,
            None => self.write(&workspace, &workload, &namespace, by)?,
        };
        workspace.apply(&self.change, &self.look.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    fn request(&self, attempt: u32, by: Option<String>) -> Value {
        let mut request = json!({"attempt": attempt, "to": self.to, "reason": self.reason});
        if let Some(by) = by {
            request["by"] = by.into();
        }
        request
    }

    /// Adds the request to the plan that there is.
    async fn ask(
        &self,
        workspace: &Workspace,
        manifest: &Arc<Manifest>,
        namespace: &str,
        by: Option<String>,
    ) -> Result<Edit> {
        let name = &manifest.key.name;
        let attempt = match self.attempt {
            Some(attempt) => attempt,
            None => match self.look.failover_plan(workspace, namespace, name).await {
                Stands::As(status) => status.common.attempt + 1,
                Stands::Fresh => 1,
                Stands::Unknown(why) => {
                    return Err(Error::user(format!(
                        "which failover of {namespace}/{name} it would be can't be told: {why}"
                    ))
                    .hint("say it with --attempt: one more than status.attempt"));
                }
            },
        };
        let request = Change::Set("/spec/request", self.request(attempt, by));
        let text = edited(workspace, manifest, &request)?;
        Ok(Edit {
            path: manifest.source.path.clone(),
            text,
            intent: format!("{namespace}/{name}"),
            subject: format!("Fail {} over to {}", self.workload, self.to),
            body: format!(
                "Failover {attempt} of FailoverPlan {namespace}/{name}: {}",
                self.reason
            ),
        })
    }

    /// Writes a plan that begins with the request.
    fn write(
        &self,
        workspace: &Workspace,
        workload: &Manifest,
        namespace: &str,
        by: Option<String>,
    ) -> Result<Edit> {
        let name = format!("{}-failover", workload.key.name);
        let plan = Fresh::at(
            workspace,
            "FailoverPlan",
            &workload.key,
            (namespace, name),
            self.file.as_deref(),
        )?;
        let spec = json!({
            "workload": fresh::about(workload), "request": self.request(self.attempt.unwrap_or(1), by),
        });
        let subject = format!("Fail {} over to {}", self.workload, self.to);
        Ok(plan.edit(&spec, subject, None, &format!(": {}", self.reason)))
    }
}

/// Answers a question of a failover plan with yes, by a commit to its file.
pub async fn approve(
    workspace: &Workspace,
    manifest: &Arc<Manifest>,
    namespace: &str,
    gate: Option<FailoverGate>,
    by: Option<String>,
    change: &ChangeArgs,
    look: &LookArgs,
) -> Result<ExitCode> {
    let name = format!("{namespace}/{}", manifest.key.name);
    let status = match look.failover_plan(workspace, namespace, &manifest.key.name).await {
        Stands::As(status) => *status,
        Stands::Fresh => FailoverPlanStatus::default(),
        Stands::Unknown(why) => {
            return Err(Error::user(format!("what {name} asks can't be told: {why}"))
                .hint("let the control plane (--kubeconfig) or the remote be asked"));
        }
    };
    let mut asks: Vec<_> = status.asks.iter().collect();
    asks.retain(|ask| gate.is_none_or(|gate| ask.gate == gate));
    let ask = match asks.as_slice() {
        [only] => *only,
        [] => return Err(asks_nothing(&name, &status, gate)),
        several => {
            let names: Vec<String> = several
                .iter()
                .map(|ask| format!("{} of {}", ask.gate, ask.cluster))
                .collect();
            return Err(
                Error::user(format!("{name} asks several things: {}", names.join(", ")))
                    .hint("name one with --gate, or add the approval to spec.approvals by hand"),
            );
        }
    };
    let by = by.or_else(|| workspace.checkout().and_then(cutover_git::Checkout::author));
    let mut approval = json!({"gate": ask.gate, "cluster": ask.cluster, "attempt": ask.attempt});
    if let Some(by) = by {
        approval["by"] = by.into();
    }
    let edit = Edit {
        path: manifest.source.path.clone(),
        text: edited(workspace, manifest, &Change::Append("/spec/approvals", approval))?,
        intent: name.clone(),
        subject: format!("Approve {} of {} for {name}", ask.gate, ask.cluster),
        body: format!(
            "Failover {} of {name}: {}",
            ask.attempt,
            said(ask.gate, &ask.cluster)
        ),
    };
    workspace.apply(change, &look.git, &edit)?;
    Ok(ExitCode::SUCCESS)
}

fn asks_nothing(name: &str, status: &FailoverPlanStatus, gate: Option<FailoverGate>) -> Error {
    let what = gate.map_or_else(
        || "no approval".to_owned(),
        |gate| format!("no approval of {gate}"),
    );
    let hint = match status.asks.first() {
        Some(ask) => format!("it asks for {} of {}", ask.gate, ask.cluster),
        None => format!("cutover status says what it does: it is {}", status.phase),
    };
    Error::user(format!("{name} asks for {what}")).hint(hint)
}

fn said(gate: FailoverGate, cluster: &ClusterName) -> String {
    match gate {
        FailoverGate::Fenced => format!("nothing of the workload in {cluster} writes, or will write again."),
        FailoverGate::FromNothing => format!("the copy in {cluster} may start without its state."),
        FailoverGate::Purge => format!("the old copy in {cluster} may be deleted."),
    }
}

fn edited(workspace: &Workspace, manifest: &Arc<Manifest>, change: &Change) -> Result<String> {
    let path = &manifest.source.path;
    let text = workspace
        .text(path)
        .ok_or_else(|| Error::internal(format!("{path} was read and has no text")))?;
    edit(text, manifest, change).map_err(|error| {
        let hint = format!("edit it by hand: {}", change.by_hand());
        Error::user(error.to_string()).at(error.at).hint(hint)
    })
}
