//! What `cutover migrate` can be told about the migration itself, as the spec that says it.

use clap::Args;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::cli::control::phase_parser;
use crate::cli::fresh::Failure;
use crate::cli::values;
use cutover_core::api::{
    Check, Daily, NotATimeSpan, PatchOp, Phase, Strategy, TimeSpan, Weekday, Window, WorkloadRef,
};
use cutover_core::profile;
use cutover_karmada::name::ClusterName;

#[derive(Args, Debug)]
pub(super) struct MigrateArgs {
    /// The cluster that it goes to
    #[arg(long, value_name = "CLUSTER")]
    pub(super) to: ClusterName,
    /// The cluster that it must be in now; none: wherever it is
    #[arg(long, value_name = "CLUSTER")]
    pub(super) from: Option<ClusterName>,
    /// Start it there before it is stopped here; only for a workload without state
    #[arg(long)]
    start_first: bool,
    /// Something else that changes with the move, for a template that is not in the repository: /spec/image=orders:2
    #[arg(long, value_name = "POINTER=VALUE", value_parser = patch)]
    set: Vec<PatchOp>,
    /// Phases that wait for `cutover approve` before they begin
    #[arg(long, alias = "require-approval", value_name = "PHASES", value_delimiter = ',', value_parser = phase_parser(), ignore_case = true)]
    approve_before: Vec<Phase>,
    /// How long the target must be healthy without a break before the source is removed [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = longer_than_nothing)]
    healthy_for: Option<TimeSpan>,
    /// How long the target may take to become healthy [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = longer_than_nothing)]
    timeout: Option<TimeSpan>,
    /// What else must hold of the copy in the target: CEL over `object`
    #[arg(long, value_name = "CEL", value_parser = check)]
    check: Vec<Check>,
    /// What happens when it doesn't [default: roll-back]
    #[arg(long, value_name = "WHAT")]
    on_failure: Option<Failure>,
    /// It does not begin before, for instance 2030-01-31T06:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    not_before: Option<Timestamp>,
    /// It does not begin any more from then on
    #[arg(long, value_name = "TIME", value_parser = values::deadline)]
    not_after: Option<Timestamp>,
    /// Hours, UTC, in which it may begin, for instance 22:00-05:30 or Sat,Sun@22:00-05:30
    #[arg(long, value_name = "[DAYS@]FROM-TO", value_parser = daily)]
    daily: Option<Daily>,
    /// When a migration that is not past its commit point is rolled back, for instance 2030-01-31T06:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::deadline)]
    deadline: Option<Timestamp>,
    /// The `WorkloadProfile` to use [default: the one of its kind]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

impl MigrateArgs {
    /// Returns only what was asked for: what is left out has its default.
    pub(super) fn spec(&self, workload: &WorkloadRef) -> Value {
        let mut spec = Map::new();
        spec.insert("workload".to_owned(), json!(workload));
        let mut set = |field: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec.insert(field.to_owned(), value);
            }
        };
        set("from", self.from.as_ref().map(|from| json!(from)));
        set("to", Some(json!(self.to)));
        set("strategy", self.start_first.then(|| json!(Strategy::StartFirst)));
        set("profile", self.profile.as_ref().map(|profile| json!(profile)));
        let patches = &self.set;
        set(
            "changes",
            (!patches.is_empty()).then(|| json!({ "patches": patches })),
        );
        set("verify", self.verify());
        set("onFailure", self.on_failure.map(|failure| json!(failure.asked())));
        let gates = &self.approve_before;
        set(
            "approval",
            (!gates.is_empty()).then(|| json!({ "before": gates })),
        );
        let window = Window {
            not_before: self.not_before,
            not_after: self.not_after,
            daily: self.daily.clone(),
        };
        set("window", (window != Window::default()).then(|| json!(window)));
        set("deadline", self.deadline.map(|deadline| json!(deadline)));
        Value::Object(spec)
    }

    fn verify(&self) -> Option<Value> {
        let mut verify = Map::new();
        for (field, value) in [("healthyFor", &self.healthy_for), ("timeout", &self.timeout)] {
            if let Some(value) = value {
                verify.insert(field.to_owned(), json!(value));
            }
        }
        if !self.check.is_empty() {
            verify.insert("checks".to_owned(), json!(self.check));
        }
        (!verify.is_empty()).then_some(Value::Object(verify))
    }
}

fn longer_than_nothing(text: &str) -> Result<TimeSpan, String> {
    let span: TimeSpan = text.parse().map_err(|error: NotATimeSpan| error.to_string())?;
    if span.length().is_zero() {
        return Err("it has to be longer than nothing".to_owned());
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
