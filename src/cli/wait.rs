//! `cutover wait`: follows an intent to its end, or to a phase.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Args;
use jiff::SignedDuration;
use serde_json::Value;
use tokio::time::Instant;

use super::connection::ClusterArgs;
use super::intent_name::{self, IntentName};
use super::status::{gathered, list, served};
use super::{output, signal, values};
use cutover_base::nearest::did_you_mean;
use cutover_cluster::{Cluster, Observer, Served, Watched};
use cutover_core::api::{self, Standing, WaitingFor};
use cutover_core::error::{Error, Kind, Result};

#[derive(Args, Debug)]
pub struct Wait {
    /// The intent: NAME, NAMESPACE/NAME or KIND/NAME, such as mig/orders-to-west; it need not be there yet
    #[arg(value_name = "NAME")]
    name: String,
    /// The namespace of the intent
    #[arg(short, long)]
    namespace: Option<String>,
    /// The kind of the intent, where several have that name; for instance Rollout or cro
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Wait for this phase instead; for instance Verify
    #[arg(long = "for", value_name = "PHASE")]
    phase: Option<String>,
    /// How long to wait at most
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = values::length)]
    timeout: SignedDuration,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// What the status of an intent says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    phase: String,
    /// The phases of the attempt so far.
    passed: Vec<String>,
    standing: Standing,
    /// What it waits for, or why it has ended as it has.
    why: Option<String>,
    /// A person has to do something.
    asks: bool,
}

fn shown(kind: &api::Kind, intent: &Value) -> Option<Shown> {
    let state = kind.state(intent)?;
    let conditions = intent.pointer("/status/conditions").and_then(Value::as_array);
    let completed = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == "Completed"));
    let said = completed.and_then(|condition| condition["message"].as_str());
    let wait = state.waiting_for.as_ref();
    Some(Shown {
        phase: state.phase.to_owned(),
        passed: state.passed,
        standing: state.standing,
        why: wait
            .map(|wait| wait.reason.clone())
            .or_else(|| said.filter(|said| !said.is_empty()).map(str::to_owned)),
        asks: wait.is_some_and(WaitingFor::asks_a_person),
    })
}

/// An intent that was found.
struct Found {
    kind: &'static str,
    place: String,
    shown: Shown,
}

/// How long is waited by default.
const TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

impl Wait {
    /// Waits for what an intent asks for. `name`: with its namespace.
    pub fn for_intent(kind: &str, name: String, cluster: ClusterArgs) -> Self {
        Self {
            name,
            namespace: None,
            kind: Some(kind.to_owned()),
            phase: None,
            timeout: TIMEOUT,
            cluster,
        }
    }

    pub async fn run(self) -> Result<ExitCode> {
        let named = IntentName::new(&self.name, self.namespace.as_deref());
        let kind = match &self.kind {
            Some(kind) => intent_name::kind(kind),
            None => named.kind(),
        };
        self.check_phase(kind)?;
        let cluster = self.cluster.connect().await?;
        let served = served(&cluster, self.kind.as_deref()).await?;
        let observer = Observer::new(cluster.clone());
        let mut changes = observer.changes();
        for (_, served) in &served {
            observer.watch(Watched::all(served.gvk.clone()));
        }
        let until = Instant::now() + self.timeout.unsigned_abs();
        let mut told = None;
        let mut missing = false;
        loop {
            let found = self.find(&cluster, &served).await?;
            if found.is_none() && !std::mem::replace(&mut missing, true) {
                let name = &self.name;
                output::note(format!("note: there is no intent {name} yet; waiting for it"));
            }
            if let Some(found) = &found {
                self.check_phase(api::kind(found.kind))?;
                let news = (
                    found.shown.phase.clone(),
                    found.shown.asks.then(|| found.shown.why.clone()),
                );
                if told.as_ref() != Some(&news) {
                    output::data(found.line())?;
                    told = Some(news);
                }
                if let Some(done) = self.is_over(found) {
                    return done.map(|()| ExitCode::SUCCESS);
                }
            }
            tokio::select! {
                () = signal::asked_to_end() => return Err(Error::user("interrupted")),
                () = tokio::time::sleep_until(until) => return Err(self.gave_up(found.as_ref())),
                goes_on = gathered(&mut changes) => if !goes_on {
                    return Err(Error::new(Kind::Unreachable, "the control plane is not watched any more"));
                },
            }
        }
    }

    /// Fails if the phase that is waited for is none that an intent can come to; `kind`: the one that is meant, where that is known.
    fn check_phase(&self, kind: Option<&'static api::Kind>) -> Result<()> {
        let Some(wanted) = self.phase.as_deref() else {
            return Ok(());
        };
        let kinds = kind.map_or(&api::KINDS[..], std::slice::from_ref);
        let mut phases: Vec<&str> = kinds.iter().flat_map(|kind| kind.phases).copied().collect();
        if phases.iter().any(|phase| phase.eq_ignore_ascii_case(wanted)) {
            return Ok(());
        }
        let mut known = BTreeSet::new();
        phases.retain(|phase| known.insert(*phase));
        let whose = kind.map_or_else(
            || "no kind of intent has".to_owned(),
            |kind| format!("a {} does not have", kind.name),
        );
        let hint = did_you_mean(wanted, phases.iter().copied())
            .unwrap_or_else(|| format!("phases are {}", phases.join(", ")));
        Err(Error::user(format!("{whose} a phase {wanted}")).hint(hint))
    }

    async fn find(
        &self,
        cluster: &Cluster,
        served: &[(&'static api::Kind, Served)],
    ) -> Result<Option<Found>> {
        let named = IntentName::new(&self.name, self.namespace.as_deref());
        let mut found = Vec::new();
        for (kind, served) in served {
            let objects = list(cluster, served).await?;
            found.extend(objects.iter().filter_map(|object| {
                let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
                let there = text("/metadata/namespace");
                let name = text("/metadata/name").unwrap_or_default();
                let is_meant = named.means(kind.name, there, name);
                let shown = is_meant.then(|| shown(kind, object)).flatten()?;
                let place = there.map_or_else(|| name.to_owned(), |there| format!("{there}/{name}"));
                Some(Found {
                    kind: kind.name,
                    place,
                    shown,
                })
            }));
        }
        if found.len() > 1 {
            let all = found.iter().map(|one| {
                let (namespace, name) = one.place.split_once('/').unwrap_or(("", one.place.as_str()));
                (one.kind, namespace, name)
            });
            return Err(intent_name::ambiguous(&self.name, &all.collect::<Vec<_>>()));
        }
        Ok(found.pop())
    }

    /// Returns how the waiting ends, if it does: with the phase that is waited for, or where none is, when it is as it was asked
    /// for.
    fn is_over(&self, found: &Found) -> Option<Result<()>> {
        let shown = &found.shown;
        let has_come = match &self.phase {
            // A phase may be over before it is asked for. Of an intent that failed, or whose phases come again, only the present one counts.
            Some(wanted) => {
                let failed = shown.standing.is_over() && shown.standing != Standing::Done;
                let passed = shown
                    .passed
                    .iter()
                    .filter(|_| found.kind == "Migration" && !failed);
                let mut phases = passed.chain([&shown.phase]);
                phases.any(|phase| phase.eq_ignore_ascii_case(wanted))
            }
            None => matches!(shown.standing, Standing::InForce | Standing::Done),
        };
        if has_come {
            return Some(Ok(()));
        }
        shown.standing.is_over().then(|| {
            let wanted = self.phase.as_deref();
            let wanted = wanted.map_or_else(String::new, |wanted| format!(", not {wanted}"));
            let why = shown.why.as_deref();
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            Err(Error::user(format!(
                "{} {} has ended as {}{wanted}{why}",
                found.kind, found.place, shown.phase
            )))
        })
    }

    fn gave_up(&self, found: Option<&Found>) -> Error {
        let timeout = self.timeout;
        let Some(found) = found else {
            return Error::user(format!("after {timeout:#} there is no intent {}", self.name))
                .hint("an intent appears when a reconciler has synced the commit that asks for it");
        };
        let why = found
            .shown
            .why
            .as_deref()
            .map_or_else(String::new, |why| format!(", and waits: {why}"));
        Error::user(format!(
            "after {timeout:#} {} {} is in {}{why}",
            found.kind, found.place, found.shown.phase
        ))
    }
}

impl Found {
    fn line(&self) -> String {
        let asks = self.shown.why.as_deref().filter(|_| self.shown.asks);
        let asks = asks.map_or_else(String::new, |why| format!("  waits for a person: {why}"));
        format!("{} {}  {}{asks}\n", self.kind, self.place, self.shown.phase)
    }
}
