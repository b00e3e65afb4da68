//! `cutover suspend`: writes and commits the file that keeps changes from reaching clusters.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::intent_file::{self, NewIntentArgs, Spec, Within};
use super::{joined, named, values};
use cutover_core::error::{Error, Result};
use cutover_core::manifest::Manifest;
use cutover_karmada::name::ClusterName;

/// Writes the file that stops changes of a workload or a policy from reaching clusters.
#[derive(Args, Debug)]
pub struct Suspend {
    /// KIND/NAME or NAME of a workload; or PropagationPolicy/NAME, for every workload that the policy selects
    #[arg(value_name = "TARGET")]
    target: String,
    /// The reason, which the status shows
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Only these clusters [default: all]
    #[arg(long = "cluster", value_name = "CLUSTER", value_delimiter = ',')]
    clusters: Vec<ClusterName>,
    /// What is suspended
    #[arg(long, value_name = "WHAT", default_value = "dispatching")]
    scope: Scope,
    /// When the suspension ends by itself, for instance 2030-01-31T06:00:00Z
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    until: Option<Timestamp>,
    /// How long the suspension lasts, for instance 2h
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until", value_parser = values::length)]
    lasts: Option<SignedDuration>,
    #[command(flatten)]
    within: Within,
    #[command(flatten)]
    new: NewIntentArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scope {
    /// Karmada computes changes, and does not send them to the member clusters
    Dispatching,
    /// Karmada's scheduler leaves the workloads in their clusters
    Scheduling,
    /// Dispatching and scheduling
    Both,
}

impl Scope {
    const fn name(self) -> &'static str {
        match self {
            Self::Dispatching => "Dispatching",
            Self::Scheduling => "Scheduling",
            Self::Both => "Both",
        }
    }
}

impl Suspend {
    pub async fn run(self) -> Result<ExitCode> {
        let until = self.ends()?;
        let workspace = self.new.open()?;
        let manifest = named::find(&workspace, &self.target, self.within.namespace.as_deref())?;
        joined::all_are(&self.new.ask, &self.clusters).await?;
        let base = format!("suspend-{}", manifest.key.name);
        let placed = &self.new.placed;
        let suspension = placed.beside(&workspace, "Suspension", &manifest, &base)?;
        let subject = format!("Suspend {} {}", manifest.key.kind, manifest.key.name);
        let why = format!(": {}", self.reason);
        let edit = suspension.edit(&self.spec(target(&manifest), until), subject, None, &why);
        self.new.write(&workspace, &edit)
    }

    /// Returns when it is to end by itself: later than now.
    fn ends(&self) -> Result<Option<Timestamp>> {
        let now = values::now();
        if let Some(until) = self.until.filter(|until| *until <= now) {
            return Err(Error::user(format!(
                "--until {until} is in the past: the suspension would end before it begins"
            ))
            .hint("name a later time, or say how long it lasts: --for 2h"));
        }
        let Some(lasts) = self.lasts else {
            return Ok(self.until);
        };
        let until = now.checked_add(lasts).ok().filter(|until| *until > now);
        let refused = || {
            let why = if lasts.is_positive() {
                "ends later than the latest time that can be written"
            } else {
                "would end before it begins"
            };
            Error::user(format!("--for {lasts:#}: the suspension {why}"))
                .hint("for instance --for 2h; without --for and --until it lasts until cutover resume")
        };
        until.map(Some).ok_or_else(refused)
    }

    fn spec(&self, target: Value, until: Option<Timestamp>) -> Value {
        let mut spec = Spec::default();
        spec.apply("target", Some(target));
        spec.list("clusters", &self.clusters);
        spec.apply("scope", Some(json!(self.scope.name())));
        spec.apply("reason", Some(json!(self.reason)));
        spec.apply("until", until.map(|until| json!(until)));
        spec.value()
    }
}

/// Returns how a Suspension names what it is about: a policy means everything that it selects.
fn target(manifest: &Manifest) -> Value {
    let is_policy =
        manifest.key.group == "policy.karmada.io" && manifest.key.kind.ends_with("PropagationPolicy");
    if is_policy {
        json!({"policy": {"kind": manifest.key.kind, "name": manifest.key.name}})
    } else {
        json!({"workload": intent_file::about(manifest)})
    }
}
