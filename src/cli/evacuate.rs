//! `cutover evacuate`: writes and commits the file that empties a cluster; and what `approve`, `pause`, `resume` and `abort` say to
//! an intent that moves many workloads.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::connection::{AskArgs, GitArgs};
use super::fresh::{Placed, Spec};
use super::intent_name::IntentName;
use super::moves::MovesArgs;
use super::workspace::{ChangeArgs, Edit, Workspace};
use super::{control_edit, joined, output};
use cutover_core::api::{self, MovesApproval, MovesPhase};
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::{Control, Decision};
use cutover_core::manifest::{Change, Manifest, edit};
use cutover_core::report::MANY;
use cutover_karmada::name::ClusterName;

/// Writes the file that moves the workloads of a cluster to others.
#[derive(Args, Debug)]
pub struct Evacuate {
    /// The cluster to empty
    #[arg(
        value_name = "CLUSTER",
        required_unless_present = "taint",
        conflicts_with = "taint"
    )]
    cluster: Option<ClusterName>,
    /// Empty every cluster that carries this taint, for as long as the intent is there
    #[arg(long, value_name = "KEY[=VALUE]")]
    taint: Option<String>,
    #[command(flatten)]
    moves: MovesArgs,
    /// Move what can be moved, although something else can't
    #[arg(long)]
    leave_unmovable: bool,
    /// Let new work come to the cluster meanwhile
    #[arg(long, conflicts_with = "keep_cordoned")]
    no_cordon: bool,
    /// Let nothing new come to the cluster afterwards either, until the intent is deleted
    #[arg(long)]
    keep_cordoned: bool,
    #[command(flatten)]
    placed: Placed,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    ask: AskArgs,
    #[command(flatten)]
    git: GitArgs,
}

impl Evacuate {
    pub async fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        joined::all_are(&self.ask, self.cluster.iter().chain(self.moves.targets())).await?;
        let taint = self
            .taint
            .as_deref()
            .map(|taint| taint.split_once('=').unwrap_or((taint, "")));
        let what = match (&self.cluster, taint) {
            (Some(cluster), _) => cluster.to_string(),
            (None, Some((key, _))) => key.rsplit('/').next().unwrap_or(key).to_owned(),
            (None, None) => return Err(Error::internal("neither a cluster nor a taint was given")),
        };
        let base = format!("evacuate-{}", what.to_lowercase());
        let evacuation = self.placed.of_cluster_scope(&workspace, "Evacuation", &base)?;
        let edit = evacuation.edit(&self.spec(taint), format!("Evacuate {what}"), None, ".");
        workspace.apply(&self.change, &self.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns only what was asked for: what is left out has its default.
    fn spec(&self, taint: Option<(&str, &str)>) -> Value {
        let mut spec = Spec::default();
        spec.apply("cluster", self.cluster.as_ref().map(|cluster| json!(cluster)));
        spec.apply(
            "taint",
            taint.map(|(key, value)| match value {
                "" => json!({"key": key}),
                value => json!({"key": key, "value": value}),
            }),
        );
        self.moves.apply(&mut spec);
        let leave = self.leave_unmovable.then(|| json!(api::Unmovable::Leave));
        spec.apply("unmovable", leave);
        spec.apply("cordon", self.no_cordon.then(|| json!(false)));
        spec.apply("keepCordoned", self.keep_cordoned.then(|| json!(true)));
        spec.value()
    }
}

/// Finds an intent that moves many workloads by its name, if nothing else is meant by it.
pub fn find<'a>(workspace: &'a Workspace, named: &str, namespace: Option<&str>) -> Option<&'a Arc<Manifest>> {
    let named = IntentName::new(named, namespace);
    let is_meant = |manifest: &&Arc<Manifest>| named.means(&manifest.key.kind, None, &manifest.key.name);
    let mut migrations = workspace.migrations();
    if migrations.any(|(one, there)| named.means("Migration", Some(&there), &one.key.name)) {
        return None;
    }
    let mut found = MANY
        .into_iter()
        .flat_map(|kind| workspace.set.of_kind(api::GROUP, kind))
        .filter(is_meant);
    found.next().filter(|_| found.next().is_none())
}

/// Says one thing to such an intent, by a commit to its file. `present`: the attempt that runs, where that is known.
pub fn control(
    workspace: &Workspace,
    manifest: &Manifest,
    control: &Control,
    present: Option<u32>,
    change: &ChangeArgs,
    git: &GitArgs,
) -> Result<ExitCode> {
    let name = &manifest.key.name;
    if matches!(control, Control::Assume { .. }) {
        return Err(control_edit::only_migrations(name, &manifest.key.kind).at(manifest.source.clone()));
    }
    let (what, subject, body) = match decide(&manifest.key.kind, name, &manifest.value, control, present)? {
        Decision::Nothing(why) => {
            output::note(format!("nothing to do: {why}"));
            return Ok(ExitCode::SUCCESS);
        }
        Decision::Change {
            change,
            subject,
            body,
        } => (change, subject, body),
    };
    let path = &manifest.source.path;
    let text = workspace
        .text(path)
        .ok_or_else(|| Error::internal(format!("{path} was read and has no text")))?;
    let text = edit(text, manifest, &what).map_err(|error| {
        let hint = format!("edit it by hand: {}", what.by_hand());
        Error::user(error.to_string()).at(error.at).hint(hint)
    })?;
    let edit = Edit {
        path: path.clone(),
        text,
        intent: name.clone(),
        subject,
        body,
    };
    workspace.apply(change, git, &edit)?;
    Ok(ExitCode::SUCCESS)
}

/// Decides what is to change in such an intent. `object`: as its file or the control plane has it.
pub fn decide(
    kind: &str,
    name: &str,
    object: &Value,
    control: &Control,
    present: Option<u32>,
) -> Result<Decision> {
    let is = |pointer: &str| object.pointer(pointer) == Some(&Value::Bool(true));
    let nothing = |why: &str| Ok(Decision::Nothing(format!("{name} {why}")));
    let changed = |change: Change, verb: &str, body: String| {
        Ok(Decision::Change {
            change,
            subject: format!("{verb} {name}"),
            body,
        })
    };
    match control {
        Control::Pause if is("/spec/paused") => nothing("is paused already"),
        Control::Pause => changed(
            Change::Set("/spec/paused", true.into()),
            "Pause",
            "No more moves begin; those that have begun come to their end.".to_owned(),
        ),
        Control::Resume if !is("/spec/paused") => nothing("is not paused"),
        Control::Resume => changed(
            Change::Unset("/spec/paused", false.into()),
            "Resume",
            "Moves begin again.".to_owned(),
        ),
        Control::Abort if is("/spec/abort") => nothing("is asked to abort already"),
        Control::Abort => changed(
            Change::Set("/spec/abort", true.into()),
            "Abort",
            "No more moves begin, and those that are not past their commit point are rolled back.".to_owned(),
        ),
        Control::Assume { .. } => Err(control_edit::only_migrations(name, kind)),
        Control::Approve {
            phase: Some(phase), ..
        } => Err(Error::user(format!("{name} has no phase {phase} that waits")).hint("leave --phase out")),
        Control::Approve { attempt, by, .. } => {
            let attempt = attempt.or(present);
            let (approval, body) = approval(name, object, attempt, by.as_ref())?;
            changed(Change::Append("/spec/approvals", approval), "Approve", body)
        }
    }
}

/// Returns the approval that lets such an intent begin, and what it says.
fn approval(
    name: &str,
    object: &Value,
    attempt: Option<u32>,
    by: Option<&String>,
) -> Result<(Value, String)> {
    let attempt = attempt.ok_or_else(|| {
        Error::user(format!(
            "which attempt of {name} is meant can't be told: no control plane could be asked how it stands"
        ))
        .hint("say it with --attempt; the first is 1")
    })?;
    if object.pointer("/spec/approval/before/0").is_none() {
        return Err(Error::user(format!(
            "{name} waits for no approval: spec.approval names no phases"
        ))
        .hint("to stop it before its next move: cutover pause"));
    }
    let approval = MovesApproval {
        phase: MovesPhase::Moving,
        attempt,
        by: by.cloned(),
    };
    Ok((
        json!(approval),
        format!("Attempt {attempt} may begin to move workloads."),
    ))
}
