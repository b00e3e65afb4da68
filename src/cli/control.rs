//! `cutover approve`, `assume`, `pause`, `resume`, `abort`: each changes one field in the file of an intent, by a commit; in the control
//! plane where no file asks for it.

mod approval;
mod kinds;
mod live;

use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use super::intent_name::IntentName;
use super::look::{Known, LookArgs};
use super::target::{Target, find_intent};
use super::workspace::{ChangeArgs, Workspace};
use super::{output, selected, values};
use approval::Given;
use cutover_core::api::{Fact, FailoverGate, Migration, MigrationSpec, Phase};
use cutover_core::error::{Error, Result};
use cutover_core::intent::control::{self, Control, Decision, Observed};
use cutover_karmada::name::ClusterName;
use kinds::What;

/// The kind whose controls depend on how the intent stands.
const MIGRATION: &str = "Migration";

/// Approves what an intent waits for, once; or answers a question of a FailoverPlan.
#[derive(Args, Debug)]
pub struct Approve {
    #[command(flatten)]
    intent: IntentArgs,
    /// Of a Migration: the phase that may begin [default: the one that waits for it]
    #[arg(long, value_name = "PHASE", value_parser = values::phase(), ignore_case = true)]
    phase: Option<Phase>,
    /// The attempt that the approval is for [default: the present one, as the control plane or the status branch says]
    #[arg(long, value_name = "NUMBER", value_parser = values::count)]
    attempt: Option<u32>,
    /// Of a ReplicaShift: the percentage that it may go on past
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["phase", "gate"], value_parser = values::percent)]
    percent: Option<u32>,
    /// Of a Rollout: the wave that may begin
    #[arg(long, value_name = "WAVE", conflicts_with_all = ["phase", "gate", "percent"], value_parser = values::count)]
    wave: Option<u32>,
    /// Of a FailoverPlan: the question that is answered with yes [default: the one that it asks]
    #[arg(long, value_name = "GATE", value_parser = gate_parser(), ignore_case = true, conflicts_with_all = ["phase", "attempt"])]
    gate: Option<FailoverGate>,
    /// Who approves [default: who commits]
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

/// Gives a migration an assumption: a fact that it cannot observe, or a decision that it must not make. An assumption is valid for one
/// phase of one attempt.
///
/// Nothing checks an assumption. `cutover status` shows those that the migration accepts at present, each as a command to copy, and
/// what it gives up; status.journal.words of the Migration records which ones were used, and who gave them.
#[derive(Args, Debug)]
pub struct Assume {
    #[command(flatten)]
    intent: IntentArgs,
    /// The fact or the decision
    #[arg(value_name = "WORD")]
    fact: Assumed,
    /// The cluster that the assumption is about
    #[arg(value_name = "CLUSTER")]
    cluster: ClusterName,
    /// Who vouches for it [default: who commits]
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Assumed {
    /// No copy of the workload in that cluster writes, or will write again by itself
    Stopped,
    /// Continue from the state of the copy in that cluster; what other copies wrote is given up
    #[value(alias = "newest")]
    From,
    /// The workload may start in that cluster without its state, which is given up
    #[value(alias = "no-state")]
    FromNothing,
    /// That cluster keeps the workload, or gets it back
    To,
    /// End although that cluster has the workload and cannot be observed
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
    pub look: LookArgs,
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
        let (intent, what) = (&self.intent, self.what());
        let workspace = intent.open()?;
        let takes = |kind: &str| what.is_none_or(|what| kinds::row(kind).takes(what));
        let by = self.by.clone().or_else(|| workspace.author());
        let control = Control::Approve {
            phase: self.phase,
            attempt: self.attempt,
            by: by.clone(),
        };
        let Some(target) = intent.find(&workspace, takes)? else {
            return intent.live(&workspace, &control, takes).await;
        };
        if !takes(target.kind()) {
            return Err(kinds::no_approval(&target.controlled()));
        }
        if target.kind() == MIGRATION {
            return intent.migration(&workspace, &target, &control).await;
        }
        let given = Given {
            what,
            attempt: self.attempt,
            by,
        };
        let decision = approval::decide(given, &target, &workspace, intent.look.look()).await?;
        intent.write(&workspace, &target, decision)
    }

    /// Returns what is named, if something is.
    fn what(&self) -> Option<What> {
        let percent = self.percent.map(|percent| What::Number("percent", percent));
        let wave = self.wave.map(|wave| What::Number("wave", wave));
        let gate = self.gate.map(What::Question);
        percent.or(wave).or(gate).or(self.phase.map(What::Phase))
    }
}

impl Assume {
    pub async fn run(self) -> Result<ExitCode> {
        let control = Control::Assume {
            fact: match self.fact {
                Assumed::Stopped => Fact::Stopped,
                Assumed::From => Fact::From,
                Assumed::FromNothing => Fact::FromNothing,
                Assumed::To => Fact::To,
                Assumed::Settle => Fact::Settle,
            },
            cluster: self.cluster,
            by: self.by,
        };
        self.intent.ask(control).await
    }
}

impl IntentArgs {
    /// Changes the file of the intent so that it asks for this, or the intent itself where it has none.
    pub async fn ask(self, mut control: Control) -> Result<ExitCode> {
        let workspace = self.open()?;
        if let Control::Assume { by, .. } = &mut control {
            *by = by.take().or_else(|| workspace.author());
        }
        let Some(target) = self.find(&workspace, |_| true)? else {
            return self.live(&workspace, &control, |_| true).await;
        };
        if target.kind() == MIGRATION {
            return self.migration(&workspace, &target, &control).await;
        }
        let decision = kinds::decide(&target.controlled(), &control)?;
        self.write(&workspace, &target, decision)
    }

    /// Reads the repository.
    pub fn open(&self) -> Result<Workspace> {
        Workspace::open(&self.change)
    }

    /// Finds what is meant. `fits`: whether the rest of the command line can be about a kind.
    pub fn target(&self, workspace: &Workspace, fits: impl Fn(&str) -> bool) -> Result<Target> {
        let found = self.find(workspace, fits)?;
        found.ok_or_else(|| workspace.no_intent(&self.name))
    }

    fn find(&self, workspace: &Workspace, fits: impl Fn(&str) -> bool) -> Result<Option<Target>> {
        let namespace = self.namespace.as_deref();
        match &self.workload {
            Some(workload) => selected::find(workspace, &self.name, namespace, workload).map(Some),
            None => find_intent(workspace, &self.name, namespace, fits),
        }
    }

    /// Asks something of an intent that no file of the repository asks for.
    async fn live(
        &self,
        workspace: &Workspace,
        control: &Control,
        fits: impl Fn(&str) -> bool,
    ) -> Result<ExitCode> {
        let meant = IntentName::new(&self.name, self.namespace.as_deref());
        let controlled = live::control(meant, control, fits, &self.change, &self.look.ask).await?;
        controlled.ok_or_else(|| workspace.no_intent(&self.name))
    }

    /// Writes and commits what was decided.
    pub fn write(&self, workspace: &Workspace, target: &Target, decision: Decision) -> Result<ExitCode> {
        target.write(workspace, decision, &self.change, &self.look.git)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Asks something of a Migration, as far as it would be obeyed.
    async fn migration(&self, workspace: &Workspace, target: &Target, control: &Control) -> Result<ExitCode> {
        let (name, spec) = (target.name(), migration_spec(target)?);
        let (namespace, own) = (target.namespace.as_deref(), &target.manifest.key.name);
        let look = self.look.look();
        let known = look
            .known::<Migration>(workspace, MIGRATION, namespace, own)
            .await;
        let observed = match &known {
            Known::As(migration) => Observed::Known(migration),
            Known::Absent(_) => Observed::Fresh,
            Known::Not(reasons) => {
                for reason in reasons {
                    output::note(format!("note: how {name} stands is not known: {reason}"));
                }
                Observed::Unknown
            }
        };
        let decision = control::decide(control, &name, &spec, observed)?;
        let is_change = matches!(decision, Decision::Change { .. });
        self.write(workspace, target, decision)?;
        let warning = control::warning(control, &spec, observed);
        if let Some(warning) = warning.filter(|_| is_change) {
            output::note(format!("warning: {warning}"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads what the file of a Migration asks for.
fn migration_spec(target: &Target) -> Result<MigrationSpec> {
    let spec = target.manifest.value.get("spec").cloned().unwrap_or_default();
    serde_json::from_value(spec).map_err(|error| {
        Error::user(format!("{} cannot be read: {error}", target.full_name()))
            .at(target.manifest.source.clone())
            .hint("cutover validate says what is wrong with it")
    })
}
