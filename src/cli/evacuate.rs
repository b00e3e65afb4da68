//! `cutover evacuate`: writes and commits the file that empties a cluster; and what `approve`, `pause`, `resume` and `abort` say to
//! an intent that moves many workloads.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::connection::GitArgs;
use super::output;
use super::workspace::{ChangeArgs, Edit, Workspace};
use crate::api::{self, MovesApproval, MovesPhase};
use crate::error::{Error, Result};
use crate::intent::control::Control;
use crate::karmada::LabelSelector;
use crate::manifest::{Change, Manifest, edit};
use crate::name::ClusterName;
use crate::report::MANY;

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
    /// Only to these clusters [default: any that a workload's policy allows]
    #[arg(long, value_name = "CLUSTER", value_delimiter = ',')]
    to: Vec<ClusterName>,
    /// Which one of several that would do
    #[arg(long, value_name = "WHICH", default_value = "least-loaded")]
    choose: Choose,
    /// Only these kinds, for instance FlinkDeployment or Deployment.apps
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Only workloads whose templates have these labels, as in kubectl -l
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = labels)]
    selector: Option<String>,
    /// Only these namespaces
    #[arg(short, long = "namespace", value_name = "NAMESPACE", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// Who goes first, by labels; can be given several times
    #[arg(long, value_name = "SELECTOR", value_parser = labels)]
    first: Vec<String>,
    /// How many move at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    max_parallel: u32,
    /// How many may fail before nothing more begins
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    max_failures: u32,
    /// Move what can be moved, although something else can't
    #[arg(long)]
    leave_unmovable: bool,
    /// Let new work come to the cluster meanwhile
    #[arg(long, conflicts_with = "keep_cordoned")]
    no_cordon: bool,
    /// Let nothing new come to the cluster afterwards either, until the intent is deleted
    #[arg(long)]
    keep_cordoned: bool,
    /// How long each must be healthy without a break before its source is removed [default: 60s]
    #[arg(long, value_name = "DURATION")]
    healthy_for: Option<SignedDuration>,
    /// Wait for `cutover approve` before the first workload moves
    #[arg(long)]
    require_approval: bool,
    /// When nothing begins any more, and what isn't past its commit point is rolled back
    #[arg(long, value_name = "TIME")]
    deadline: Option<Timestamp>,
    /// The name of the Evacuation [default: evacuate-CLUSTER, with a number if that is taken]
    #[arg(long)]
    name: Option<String>,
    /// The file to write [default: NAME.yaml beside other intents, else in intents/]
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    git: GitArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choose {
    /// The one of which the smallest share is asked for
    LeastLoaded,
    /// The one that Karmada's scheduler puts first
    Scheduler,
}

impl Evacuate {
    pub fn run(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let taint = self
            .taint
            .as_deref()
            .map(|taint| taint.split_once('=').unwrap_or((taint, "")));
        let what = match (&self.cluster, taint) {
            (Some(cluster), _) => cluster.to_string(),
            (None, Some((key, _))) => key.rsplit('/').next().unwrap_or(key).to_owned(),
            (None, None) => return Err(Error::internal("neither a cluster nor a taint was given")),
        };
        let name = self.free_name(&workspace, &format!("evacuate-{}", what.to_lowercase()))?;
        let path = match &self.file {
            Some(path) => path.trim_start_matches("./").to_owned(),
            None => super::migrate::place_of_cluster_scope(&workspace, &name)?,
        };
        if workspace.is_taken(&path) {
            return Err(Error::user(format!("{path} is there already")).hint("name another file with --file"));
        }
        let edit = Edit {
            text: document(&name, &self.spec(taint))?,
            intent: name.clone(),
            subject: format!("Evacuate {what}"),
            body: format!("Asks for Evacuation {name}, in {path}."),
            path,
        };
        workspace.apply(&self.change, &self.git, &edit)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns only what was asked for: what is left out has its default.
    fn spec(&self, taint: Option<(&str, &str)>) -> Value {
        let mut spec = Map::new();
        let mut say = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec.insert(field.to_owned(), value);
            }
        };
        say("cluster", self.cluster.as_ref().map(|cluster| json!(cluster)));
        say(
            "taint",
            taint.map(|(key, value)| match value {
                "" => json!({"key": key}),
                value => json!({"key": key, "value": value}),
            }),
        );
        let mut to = Map::new();
        if !self.to.is_empty() {
            to.insert("clusters".to_owned(), json!(self.to));
        }
        if self.choose == Choose::Scheduler {
            to.insert("choose".to_owned(), json!(api::Choose::Scheduler));
        }
        say("to", (!to.is_empty()).then_some(Value::Object(to)));
        let mut select = Map::new();
        if !self.kinds.is_empty() {
            select.insert("kinds".to_owned(), json!(self.kinds));
        }
        if let Some(selector) = &self.selector {
            select.insert("labelSelector".to_owned(), json!(selector));
        }
        if !self.namespaces.is_empty() {
            select.insert("namespaces".to_owned(), json!(self.namespaces));
        }
        say("select", (!select.is_empty()).then_some(Value::Object(select)));
        let order: Vec<Value> = self
            .first
            .iter()
            .map(|first| json!({"labelSelector": first}))
            .collect();
        say("order", (!order.is_empty()).then(|| json!(order)));
        say("maxParallel", Some(json!(self.max_parallel)));
        say("maxFailures", Some(json!(self.max_failures)));
        say(
            "unmovable",
            self.leave_unmovable.then(|| json!(api::Unmovable::Leave)),
        );
        say("cordon", self.no_cordon.then(|| json!(false)));
        say("keepCordoned", self.keep_cordoned.then(|| json!(true)));
        let verify = self
            .healthy_for
            .map(|long| json!({"healthyFor": format!("{}s", long.as_secs())}));
        say("verify", verify);
        let gate = self
            .require_approval
            .then(|| json!({"before": [MovesPhase::Moving]}));
        say("approval", gate);
        say("deadline", self.deadline.map(|deadline| json!(deadline)));
        Value::Object(spec)
    }

    fn free_name(&self, workspace: &Workspace, base: &str) -> Result<String> {
        let taken = |name: &str| {
            let mut all = workspace.set.of_kind(api::GROUP, "Evacuation");
            all.any(|manifest| manifest.key.name == name)
        };
        if let Some(name) = &self.name {
            if taken(name) {
                return Err(Error::user(format!("there is an Evacuation {name} already"))
                    .hint("give it another name with --name, or change its file"));
            }
            return Ok(name.clone());
        }
        let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.to_owned()).chain(numbered);
        Ok(names.find(|name| !taken(name)).unwrap_or_else(|| base.to_owned()))
    }
}

/// Finds an intent that moves many workloads by its name, if nothing else is meant by it.
pub fn find<'a>(workspace: &'a Workspace, named: &str, namespace: Option<&str>) -> Option<&'a Arc<Manifest>> {
    if named.contains('/') || namespace.is_some() {
        return None;
    }
    let is_meant = |manifest: &&Arc<Manifest>| manifest.key.name == named;
    if workspace
        .migrations()
        .any(|(manifest, _)| manifest.key.name == named)
    {
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
    let is = |pointer: &str| manifest.value.pointer(pointer) == Some(&Value::Bool(true));
    let nothing = |why: &str| {
        output::note(format!("nothing to do: {name} {why}"));
        Ok(ExitCode::SUCCESS)
    };
    let (what, subject, body) = match control {
        Control::Pause if is("/spec/paused") => return nothing("is paused already"),
        Control::Pause => (
            Change::Set("/spec/paused", true.into()),
            format!("Pause {name}"),
            "No more moves begin; those that have begun come to their end.".to_owned(),
        ),
        Control::Resume if !is("/spec/paused") => return nothing("is not paused"),
        Control::Resume => (
            Change::Unset("/spec/paused", false.into()),
            format!("Resume {name}"),
            "Moves begin again.".to_owned(),
        ),
        Control::Abort if is("/spec/abort") => return nothing("is asked to abort already"),
        Control::Abort => (
            Change::Set("/spec/abort", true.into()),
            format!("Abort {name}"),
            "No more moves begin, and those that are not past their commit point are rolled back.".to_owned(),
        ),
        Control::Approve {
            phase: Some(phase), ..
        } => {
            return Err(
                Error::user(format!("{name} has no phase {phase} that waits")).hint("leave --phase out")
            );
        }
        Control::Approve { attempt, by, .. } => {
            let attempt = attempt.or(present).ok_or_else(|| {
                Error::user(format!(
                    "which attempt of {name} is meant can't be told: nobody could be asked how it stands"
                ))
                .hint("say it with --attempt; the first is 1")
            })?;
            if manifest.value.pointer("/spec/approval/before/0").is_none() {
                return Err(Error::user(format!(
                    "{name} waits for no approval: spec.approval names no phases"
                ))
                .hint("to stop it before its next move: cutover pause"));
            }
            let approval = MovesApproval {
                phase: MovesPhase::Moving,
                attempt,
                by: by.clone(),
            };
            (
                Change::Append("/spec/approvals", json!(approval)),
                format!("Approve {name}"),
                format!("Attempt {attempt} may begin to move workloads."),
            )
        }
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

fn labels(text: &str) -> Result<String, String> {
    let read: Result<LabelSelector, _> = text.parse();
    read.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn document(name: &str, spec: &Value) -> Result<String> {
    let document = json!({
        "apiVersion": api::API_VERSION, "kind": "Evacuation", "metadata": {"name": name}, "spec": spec,
    });
    serde_yaml::to_string(&document)
        .map_err(|error| Error::internal(format!("the Evacuation cannot be written as YAML: {error}")))
}
