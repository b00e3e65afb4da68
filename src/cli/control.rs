//! `cutover approve`, `pause`, `resume`, `abort`: each says one thing to an intent, by a commit to its file; in the control plane where
//! no file asks for it.

use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::connection::{AskArgs, GitArgs, StatusBranchArgs};
use super::control_edit::{self, At, ControlEdit, Gate, Target};
use super::intent_name::IntentName;
use super::live;
use super::recorded::Recorded;
use super::selected;
use super::workspace::{ChangeArgs, Edit, Intent, Workspace};
use super::{evacuate, failover, output, suspend, values};
use cutover_cluster::{Answer, Lookup};
use cutover_core::api::{self, Fact, FailoverGate, FailoverPlan, FailoverPlanStatus, Migration, Phase};
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::{self, Decision, GATES, Observed};
use cutover_core::manifest::{Manifest, edit};
use cutover_karmada::name::{ClusterName, Gvk};

/// Lets an intent go on that waits for a person, once; or answers what a failover plan asks.
#[derive(Args, Debug)]
pub struct Approve {
    #[command(flatten)]
    intent: IntentArgs,
    /// The phase that may begin [default: the one that waits for it]
    #[arg(long, value_name = "PHASE", value_parser = phase_parser(), ignore_case = true)]
    phase: Option<Phase>,
    /// The attempt that is meant [default: the present one, as the control plane or the status branch says]
    #[arg(long, value_name = "NUMBER", value_parser = values::count)]
    attempt: Option<u32>,
    /// Of a ReplicaShift: the percentage that it may go on past
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["phase", "gate"], value_parser = values::percent)]
    percent: Option<u32>,
    /// Of a Rollout: the wave that may begin
    #[arg(long, value_name = "WAVE", conflicts_with_all = ["phase", "gate", "percent"], value_parser = values::count)]
    wave: Option<u32>,
    /// What of a failover plan is approved [default: what it asks]
    #[arg(long, value_name = "GATE", value_parser = gate_parser(), ignore_case = true, conflicts_with_all = ["phase", "attempt"])]
    gate: Option<FailoverGate>,
    /// Who approves [default: who commits]
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

/// Tells a migration what it can't see, or must not decide: a person's word, good for the phase in which it is asked for.
///
/// Nobody checks a word. `cutover status` offers those that are accepted as things are, each as a command to copy, and says what is
/// given up by it; the journal in the status of the Migration keeps which were used, and who gave them.
#[derive(Args, Debug)]
pub struct Assume {
    #[command(flatten)]
    intent: IntentArgs,
    /// What is so, or shall be
    #[arg(value_name = "WORD")]
    fact: Vouched,
    /// The cluster that the word is about
    #[arg(value_name = "CLUSTER")]
    cluster: ClusterName,
    /// Who vouches for it [default: who commits]
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Vouched {
    /// No copy of the workload there can write any more, or ever will by itself
    Stopped,
    /// Go on from the state that the copy there has, or left last; what others wrote is given up
    #[value(alias = "newest")]
    From,
    /// The workload may start there from nothing; its state is given up
    #[value(alias = "no-state")]
    FromNothing,
    /// That cluster keeps the workload, or gets it back
    To,
    /// End although that cluster, which has the workload, can't be looked into
    Settle,
}

/// Which intent, and where its state is looked up.
#[derive(Args, Debug)]
pub struct IntentArgs {
    /// The intent, as a file of the repository names it: NAME, NAMESPACE/NAME or KIND/NAME, such as mig/orders-to-west
    #[arg(value_name = "NAME")]
    name: String,
    /// The namespace of the intent, where its name alone is not enough
    #[arg(short, long)]
    namespace: Option<String>,
    /// Of a RolloutPolicy: which of the workloads that it rolls
    #[arg(long, value_name = "KIND/NAME")]
    workload: Option<String>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    look: LookArgs,
}

/// Where it is learned how an intent stands.
#[derive(Args, Debug)]
pub struct LookArgs {
    #[command(flatten)]
    pub ask: AskArgs,
    #[command(flatten)]
    allowed: StatusBranchArgs,
    #[command(flatten)]
    pub git: GitArgs,
}

/// How long the control plane may take to answer before the status branch is read instead.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Returns what reads a phase that can wait for an approval.
pub fn phase_parser() -> impl TypedValueParser<Value = Phase> {
    let named = |text: String| {
        let is_meant = |phase: &Phase| phase.to_string().eq_ignore_ascii_case(&text);
        GATES.into_iter().find(is_meant).unwrap_or_default()
    };
    PossibleValuesParser::new(GATES.map(|phase| -> &'static str { phase.name() })).map(named)
}

fn gate_parser() -> impl TypedValueParser<Value = FailoverGate> {
    let named = |text: String| {
        let is_meant = |gate: &FailoverGate| gate.name().eq_ignore_ascii_case(&text);
        FailoverGate::ALL
            .into_iter()
            .find(is_meant)
            .unwrap_or(FailoverGate::Fenced)
    };
    PossibleValuesParser::new(FailoverGate::ALL.map(FailoverGate::name)).map(named)
}

impl Approve {
    pub async fn run(self) -> Result<ExitCode> {
        let percent = self.percent.map(At::Percent);
        if let Some(at) = percent.or(self.wave.map(At::Wave)) {
            return self.intent.open(at, self.attempt, self.by).await;
        }
        let intent = &self.intent;
        let workspace = Workspace::open(&intent.change)?;
        let plan = workspace.failover_plan(&intent.name, intent.namespace.as_deref());
        if let Some((manifest, namespace)) = plan.filter(|_| intent.workload.is_none()) {
            let (change, look) = (&intent.change, &intent.look);
            return failover::approve(&workspace, manifest, &namespace, self.gate, self.by, change, look)
                .await;
        }
        drop(workspace);
        let control = control::Control::Approve {
            phase: self.phase,
            attempt: self.attempt,
            by: self.by,
        };
        self.intent.ask(control).await
    }
}

impl Assume {
    pub async fn run(self) -> Result<ExitCode> {
        let control = control::Control::Assume {
            fact: match self.fact {
                Vouched::Stopped => Fact::Stopped,
                Vouched::From => Fact::From,
                Vouched::FromNothing => Fact::FromNothing,
                Vouched::To => Fact::To,
                Vouched::Settle => Fact::Settle,
            },
            cluster: self.cluster,
            by: self.by,
        };
        self.intent.ask(control).await
    }
}

impl IntentArgs {
    /// Lets a paused migration go on, or ends a suspension.
    pub async fn resume(self) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let suspension = workspace.suspension(&self.name, self.namespace.as_deref());
        if let Some((manifest, namespace)) = suspension.filter(|_| self.workload.is_none()) {
            return suspend::resume(&workspace, manifest, &namespace, &self.change, &self.look.git);
        }
        drop(workspace);
        self.ask(control::Control::Resume).await
    }

    /// Lets a shift go on past a percentage, or a rollout begin a wave.
    async fn open(self, at: At, attempt: Option<u32>, by: Option<String>) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let to = match (&self.workload, at) {
            (Some(workload), At::Wave(_)) => {
                selected::find(&workspace, &self.name, self.namespace.as_deref(), workload)?
            }
            _ => {
                let found = workspace.only(at.kind(), &self.name, self.namespace.as_deref());
                let Some((manifest, namespace)) = found else {
                    let hint = "a ReplicaShift is approved by --percent, a Rollout by --wave, what a RolloutPolicy rolls by --workload and \
                                --wave, a Migration by --phase";
                    return Err(workspace.no_one(at.kind(), &self.name, hint));
                };
                Target::intent(manifest, namespace)
            }
        };
        let attempt = match attempt {
            Some(attempt) => attempt,
            None => {
                let present = selected::object(&self.look, &workspace, &to).await;
                present.as_ref().and_then(attempt_of).ok_or_else(|| {
                    Error::user(format!(
                        "which attempt of {} is meant can't be told: no control plane could be asked how it stands",
                        to.name()
                    ))
                    .hint("say it with --attempt; the first is 1")
                })?
            }
        };
        let by = by.or_else(|| workspace.checkout().and_then(cutover_git::Checkout::author));
        let said = ControlEdit::Gate(Gate { at, attempt, by });
        control_edit::apply(&workspace, &to, &said, &self.change, &self.look.git)
    }

    /// Changes the file of the intent so that it asks for this, or the intent itself where it has none.
    pub async fn ask(self, mut control: control::Control) -> Result<ExitCode> {
        let workspace = Workspace::open(&self.change)?;
        let namespace = self.namespace.as_deref();
        let mut kinds = control_edit::KINDS.into_iter();
        let to = match &self.workload {
            Some(workload) => Some(selected::find(&workspace, &self.name, namespace, workload)?),
            None => {
                let found = kinds.find_map(|kind| workspace.only(kind, &self.name, namespace));
                found.map(|(manifest, namespace)| Target::intent(manifest, namespace))
            }
        };
        if let Some(to) = to {
            let said = ControlEdit::Control(&control);
            return control_edit::apply(&workspace, &to, &said, &self.change, &self.look.git);
        }
        if let Some(manifest) = evacuate::find(&workspace, &self.name, namespace) {
            let present = match &control {
                control::Control::Approve { attempt: None, .. } => {
                    self.look.attempt(&workspace, manifest, None).await
                }
                _ => None,
            };
            author(&workspace, &mut control);
            return evacuate::control(
                &workspace,
                manifest,
                &control,
                present,
                &self.change,
                &self.look.git,
            );
        }
        author(&workspace, &mut control);
        if !workspace.has_intent(&self.name, namespace) {
            let meant = IntentName::new(&self.name, namespace);
            let controlled = live::control(meant, &control, &self.change, &self.look.ask).await?;
            return controlled.ok_or_else(|| workspace.no_intent(&self.name));
        }
        self.control_migration(&workspace, &control).await
    }

    /// Changes the file of a Migration so that it asks for this.
    async fn control_migration(&self, workspace: &Workspace, control: &control::Control) -> Result<ExitCode> {
        let intent = workspace.intent(&self.name, self.namespace.as_deref())?;
        let known = self.look.known(workspace, &intent.namespace, &intent.name).await;
        let standing = match &known {
            Known::As(migration) => Observed::Known(migration),
            Known::Fresh => Observed::Fresh,
            Known::Not(_) => Observed::Unknown,
        };
        let name = intent.full_name();
        if let Known::Not(reasons) = &known {
            for reason in reasons {
                output::note(format!("note: how {name} stands is not known: {reason}"));
            }
        }
        match control::decide(control, &name, &intent.spec, standing)? {
            Decision::Nothing(why) => output::note(format!("nothing to do: {why}")),
            Decision::Change {
                change,
                subject,
                body,
            } => {
                let edit = edited(workspace, &intent, &change, subject, body)?;
                workspace.apply(&self.change, &self.look.git, &edit)?;
                if let Some(warning) = control::warning(control, &intent.spec, standing) {
                    output::note(format!("warning: {warning}"));
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the attempt that an intent is in.
pub fn attempt_of(object: &Value) -> Option<u32> {
    let attempt = object.pointer("/status/attempt")?.as_u64()?;
    u32::try_from(attempt).ok().filter(|attempt| *attempt > 0)
}

/// Who approves or vouches is who commits, if nobody else is named.
fn author(workspace: &Workspace, control: &mut control::Control) {
    if let control::Control::Approve { by, .. } | control::Control::Assume { by, .. } = control
        && by.is_none()
    {
        *by = workspace.checkout().and_then(cutover_git::Checkout::author);
    }
}

fn edited(
    workspace: &Workspace,
    intent: &Intent,
    change: &cutover_core::manifest::Change,
    subject: String,
    body: String,
) -> Result<Edit> {
    let path = &intent.manifest.source.path;
    let text = workspace
        .text(path)
        .ok_or_else(|| Error::internal(format!("{path} was read and has no text")))?;
    let text = edit(text, &intent.manifest, change).map_err(|error| {
        let hint = format!("edit it by hand: {}", change.by_hand());
        Error::user(error.to_string()).at(error.at).hint(hint)
    })?;
    Ok(Edit {
        path: path.clone(),
        text,
        intent: intent.full_name(),
        subject,
        body,
    })
}

/// What could be learned of how an intent stands.
#[derive(Debug)]
pub enum Known {
    As(Box<Migration>),
    /// Nobody has seen it yet.
    Fresh,
    /// And why.
    Not(Vec<String>),
}

/// What could be learned of how a failover plan stands.
#[derive(Debug)]
pub enum Stands {
    As(Box<FailoverPlanStatus>),
    /// Nobody has seen it yet.
    Fresh,
    Unknown(String),
}

impl LookArgs {
    /// Asks the control plane how a failover plan stands, and the status branch if that can't say.
    pub async fn failover_plan(&self, workspace: &Workspace, namespace: &str, name: &str) -> Stands {
        if self.ask.is_offline() {
            return Stands::Unknown("no control plane was asked".to_owned());
        }
        let live =
            async {
                let cluster = self.ask.connect().await?;
                let gvk = Gvk::new(api::API_VERSION, "FailoverPlan");
                let Lookup::Served(served) = cluster.lookup(&gvk).await? else {
                    return Err(Error::user(format!("{} does not serve {gvk}", cluster.server())));
                };
                match cluster.reader().get(&served, Some(namespace), name).await.answer {
                    Answer::Found(object) => serde_json::from_value::<FailoverPlan>(object)
                        .map(Some)
                        .map_err(|error| {
                            Error::user(format!("FailoverPlan {namespace}/{name} cannot be read: {error}"))
                        }),
                    Answer::NotFound => Ok(None),
                    Answer::Unknown { why } => Err(Error::user(why)),
                }
            };
        let live = tokio::time::timeout(PATIENCE, live).await;
        let mut why = "the control plane does not answer".to_owned();
        let stands = |plan: FailoverPlan| Stands::As(Box::new(plan.status.unwrap_or_default()));
        match live {
            Ok(Ok(Some(plan))) => return stands(plan),
            Ok(Ok(None)) => why.clear(),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => {}
        }
        let recorded = async {
            let checkout = workspace
                .checkout()
                .ok_or_else(|| Error::user("there is no Git repository"))?;
            let recorded = Recorded::of(checkout, &workspace.config, &self.allowed.branches())?;
            recorded.failover_plan(&self.git, namespace, name).await
        };
        match recorded.await {
            Ok(Some(plan)) => stands(plan),
            Ok(None) if why.is_empty() => Stands::Fresh,
            Ok(None) => Stands::Unknown(why),
            Err(error) => Stands::Unknown(format!("{why}; {error}")),
        }
    }

    /// Asks the control plane, and the status branch if that can't say.
    pub async fn known(&self, workspace: &Workspace, namespace: &str, name: &str) -> Known {
        if self.ask.is_offline() {
            return Known::Not(Vec::new());
        }
        let mut reasons = Vec::new();
        let live = tokio::time::timeout(PATIENCE, self.live(namespace, name)).await;
        match live {
            Ok(Ok(Some(migration))) => return Known::As(Box::new(migration)),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => reasons.push(error.to_string()),
            Err(_) => reasons.push(format!(
                "the control plane does not answer within {} s",
                PATIENCE.as_secs()
            )),
        }
        match self.recorded(workspace, namespace, name).await {
            Ok(Some(migration)) => Known::As(Box::new(migration)),
            Ok(None) => Known::Fresh,
            Err(error) => {
                reasons.push(error.to_string());
                Known::Not(reasons)
            }
        }
    }

    /// Returns the attempt of an intent that runs, as the control plane or else the status branch has it.
    async fn attempt(
        &self,
        workspace: &Workspace,
        manifest: &Manifest,
        namespace: Option<&str>,
    ) -> Option<u32> {
        let object = self.object(workspace, manifest, namespace).await?;
        attempt_of(&object)
    }

    /// Returns an intent as the control plane or else the status branch has it.
    pub async fn object(
        &self,
        workspace: &Workspace,
        manifest: &Manifest,
        namespace: Option<&str>,
    ) -> Option<Value> {
        self.named(workspace, &manifest.gvk, namespace, &manifest.key.name)
            .await
    }

    /// Returns an intent as the control plane or else the status branch has it.
    pub async fn named(
        &self,
        workspace: &Workspace,
        gvk: &Gvk,
        namespace: Option<&str>,
        name: &str,
    ) -> Option<Value> {
        if self.ask.is_offline() {
            return None;
        }
        let live = async {
            let cluster = self.ask.connect().await.ok()?;
            let Lookup::Served(served) = cluster.lookup(gvk).await.ok()? else {
                return None;
            };
            match cluster.reader().get(&served, namespace, name).await.answer {
                Answer::Found(object) => Some(object),
                Answer::NotFound | Answer::Unknown { .. } => None,
            }
        };
        let live = tokio::time::timeout(PATIENCE, live).await.ok().flatten();
        if live.is_some() {
            return live;
        }
        let recorded = Recorded::of(workspace.checkout()?, &workspace.config, &self.allowed.branches());
        let recorded = recorded.ok()?;
        recorded
            .document(&self.git, &gvk.kind, namespace, name)
            .await
            .ok()?
    }

    async fn live(&self, namespace: &str, name: &str) -> Result<Option<Migration>> {
        let cluster = self.ask.connect().await?;
        let gvk = Gvk::new(api::API_VERSION, "Migration");
        let Lookup::Served(served) = cluster.lookup(&gvk).await? else {
            return Err(Error::user(format!("{} does not serve {gvk}", cluster.server())));
        };
        match cluster.reader().get(&served, Some(namespace), name).await.answer {
            Answer::Found(object) => serde_json::from_value(object).map(Some).map_err(|error| {
                Error::user(format!("Migration {namespace}/{name} cannot be read: {error}"))
            }),
            Answer::NotFound => Ok(None),
            Answer::Unknown { why } => Err(Error::user(why)),
        }
    }

    async fn recorded(
        &self,
        workspace: &Workspace,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Migration>> {
        let Some(checkout) = workspace.checkout() else {
            return Err(Error::user(
                "there is no Git repository whose status branch could be read",
            ));
        };
        let recorded = Recorded::of(checkout, &workspace.config, &self.allowed.branches())?;
        recorded.migration(&self.git, namespace, name).await
    }
}
