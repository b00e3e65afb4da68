//! The flags of `cutover migrate` that are fields of the spec.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::intent_file::{Failure, Spec};
use crate::cli::values;
use cutover_core::api::{
    Check, Daily, NotATimeSpan, PatchOp, Phase, Strategy, TimeSpan, Weekday, Window, WorkloadRef,
};
use cutover_core::profile;
use cutover_karmada::name::ClusterName;

#[derive(Args, Debug)]
pub(super) struct MigrateArgs {
    /// The cluster to move the workload to
    #[arg(long, value_name = "CLUSTER")]
    pub(super) to: ClusterName,
    /// The cluster that the workload must be in now [default: any]
    #[arg(long, value_name = "CLUSTER")]
    pub(super) from: Option<ClusterName>,
    /// Start the target before the source is stopped; only for a workload without state
    #[arg(long)]
    start_first: bool,
    /// A field to change with the move, of a template that is not in the repository: /spec/image=orders:2
    #[arg(long, value_name = "POINTER=VALUE", value_parser = patch)]
    set: Vec<PatchOp>,
    /// Phases that wait for `cutover approve` before they begin
    #[arg(long, alias = "require-approval", value_name = "PHASES", value_delimiter = ',', value_parser = values::phase(), ignore_case = true)]
    approve_before: Vec<Phase>,
    /// How long the target must be healthy without a break before the source is removed [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = longer_than_nothing)]
    healthy_for: Option<TimeSpan>,
    /// How long the target may take to become healthy [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = longer_than_nothing)]
    timeout: Option<TimeSpan>,
    /// A condition that the copy in the target must fulfil: CEL over `object`
    #[arg(long, value_name = "CEL", value_parser = check)]
    check: Vec<Check>,
    /// What happens when the move fails [default: roll-back]
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<Failure>,
    /// Do not begin before this time, for instance 2030-01-31T06:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    not_before: Option<Timestamp>,
    /// Do not begin after this time
    #[arg(long, value_name = "TIME", value_parser = values::deadline)]
    not_after: Option<Timestamp>,
    /// Begin only in these hours, in UTC, for instance 22:00-05:30 or Sat,Sun@22:00-05:30
    #[arg(long, value_name = "[DAYS@]FROM-TO", value_parser = daily)]
    daily: Option<Daily>,
    /// Roll back a migration that is not past its commit point at this time, for instance 2030-01-31T06:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::deadline)]
    deadline: Option<Timestamp>,
    /// The `WorkloadProfile` to use [default: the one of its kind]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

impl MigrateArgs {
    /// Returns only what was asked for: what is left out has its default.
    pub(super) fn spec(&self, workload: &WorkloadRef) -> Value {
        let mut spec = Spec::default();
        spec.apply("workload", Some(json!(workload)));
        spec.apply("from", self.from.as_ref().map(|from| json!(from)));
        spec.apply("to", Some(json!(self.to)));
        spec.apply("strategy", self.start_first.then(|| json!(Strategy::StartFirst)));
        spec.apply("profile", self.profile.as_ref().map(|profile| json!(profile)));
        let mut changes = Spec::default();
        changes.list("patches", &self.set);
        spec.apply("changes", changes.some());
        spec.apply("verify", self.verify());
        spec.apply("onFailure", self.on_failure.map(|failure| json!(failure.asked())));
        let mut approval = Spec::default();
        approval.list("before", &self.approve_before);
        spec.apply("approval", approval.some());
        let window = Window {
            not_before: self.not_before,
            not_after: self.not_after,
            daily: self.daily.clone(),
        };
        spec.apply("window", (window != Window::default()).then(|| json!(window)));
        spec.apply("deadline", self.deadline.map(|deadline| json!(deadline)));
        spec.value()
    }

    fn verify(&self) -> Option<Value> {
        let mut verify = Spec::default();
        verify.apply("healthyFor", self.healthy_for.as_ref().map(|long| json!(long)));
        verify.apply("timeout", self.timeout.as_ref().map(|long| json!(long)));
        verify.list("checks", &self.check);
        verify.some()
    }
}

fn longer_than_nothing(text: &str) -> Result<TimeSpan, String> {
    let span: TimeSpan = text.parse().map_err(|error: NotATimeSpan| error.to_string())?;
    if span.length().is_zero() {
        return Err("it must be longer than 0s".to_owned());
    }
    Ok(span)
}

fn check(text: &str) -> Result<Check, String> {
    let check = Check {
        cel: text.to_owned(),
        prometheus: None,
        of: None,
    };
    profile::valid_check(&check).map_err(|error| error.to_string())?;
    Ok(check)
}

/// A value that reads as JSON is that; anything else is text.
fn patch(text: &str) -> Result<PatchOp, String> {
    let (pointer, value) = text.split_once('=').ok_or("not POINTER=VALUE")?;
    if !pointer.starts_with('/') {
        return Err("a JSON pointer begins with /, for instance /spec/image".to_owned());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok(PatchOp::add(pointer, value))
}

fn daily(text: &str) -> Result<Daily, String> {
    let (days, hours) = text.split_once('@').unwrap_or(("", text));
    let (from, to) = hours.split_once('-').ok_or("not FROM-TO, such as 22:00-05:30")?;
    let days = days.split(',').filter(|day| !day.is_empty()).map(|day| {
        serde_json::from_value::<Weekday>(json!(day))
            .map_err(|_| format!("{day}: days are Mon, Tue, Wed, Thu, Fri, Sat, Sun"))
    });
    let hour = |text: &str| text.parse().map_err(|_| "hours are HH:MM, in UTC".to_owned());
    Ok(Daily {
        from: hour(from)?,
        to: hour(to)?,
        days: days.collect::<Result<_, _>>()?,
    })
}
