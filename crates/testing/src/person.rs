//! A person who knows nothing but what the status of a migration says, and does that.

use std::fmt;
use std::time::Duration;

use cutover_core::api::{Fact, Migration, Offer, Phase};
use cutover_core::intent::control::{self, Control, Decision, Observed};
use cutover_core::manifest::Change;
use cutover_sandbox::api::{DeleteOptions, Patch, Resource, WriteOptions};
use serde_json::{Value, json};

use crate::fleet::{Fleet, JOBS, MIGRATIONS, POLICIES};
use crate::wait::comes_true;

const CLUSTERS: Resource = Resource::new("cluster.karmada.io", "clusters");
const NAMES: [&str; 3] = ["east", "west", "north"];

/// How many words a person may have to say until a copy runs, and until the migration has ended.
const UNTIL_IT_RUNS: usize = 3;
const UNTIL_THE_END: usize = 4;

/// How long a word may take to change what is asked for, and how long a person waits for a question.
const PATIENCE: Duration = Duration::from_mins(10);

/// Something that a status offers to do.
#[derive(Clone, Debug, PartialEq)]
pub enum WayOut {
    Say(Control),
    Untaint(String),
    Allow(String),
    DeleteCopy(String),
}

impl fmt::Display for WayOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Say(Control::Assume { fact, cluster, .. }) => {
                write!(f, "assume {} in {cluster}", fact.name())
            }
            Self::Say(control) => write!(f, "{control}"),
            Self::Untaint(cluster) => write!(f, "take the taint off {cluster}"),
            Self::Allow(cluster) => write!(f, "let the policy allow {cluster}"),
            Self::DeleteCopy(cluster) => write!(f, "delete the copy in {cluster}"),
        }
    }
}

/// Why doing what a status says leads nowhere.
#[derive(Clone, Debug)]
pub enum Stuck {
    /// It says nothing that anybody could do.
    NoWayOut(String),
    /// What it offers isn't taken.
    Refused(String),
    /// All was taken, and no copy runs, or the migration doesn't end.
    Endless(String),
}

/// Returns what the status of a migration offers, in the order in which it is said.
pub fn offered(status: &Value) -> Vec<WayOut> {
    let wait = &status["waitingFor"];
    let offers = wait.get("offers").cloned().unwrap_or_else(|| json!([]));
    let offers: Vec<Offer> = serde_json::from_value(offers).unwrap_or_default();
    let say = |offer: Offer| {
        WayOut::Say(Control::Assume {
            fact: offer.fact,
            cluster: offer.cluster,
            by: Some("ann".to_owned()),
        })
    };
    let mut found: Vec<WayOut> = offers.into_iter().map(say).collect();
    for text in [&wait["reason"], &wait["then"]] {
        read(text.as_str().unwrap_or_default(), &mut found);
    }
    let findings = status["findings"].as_array().into_iter().flatten();
    for finding in findings {
        read(finding["hint"].as_str().unwrap_or_default(), &mut found);
    }
    found
}

fn read(text: &str, found: &mut Vec<WayOut>) {
    if text.contains("cutover abort") {
        found.push(WayOut::Say(Control::Abort));
    }
    if text.contains("cutover resume") {
        found.push(WayOut::Say(Control::Resume));
    }
    if let Some(cluster) = before(text, " has the taint ") {
        found.push(WayOut::Untaint(cluster));
    }
    if let Some(cluster) = after(text, "the placement does not hold ") {
        found.push(WayOut::Allow(cluster));
    }
    for told in ["a person must delete it in ", "a person must remove the copy in "] {
        found.extend(after(text, told).map(WayOut::DeleteCopy));
    }
}

fn before(text: &str, what: &str) -> Option<String> {
    let (head, _) = text.split_once(what)?;
    head.rsplit(' ').next().map(str::to_owned)
}

fn after(text: &str, what: &str) -> Option<String> {
    let (_, tail) = text.split_once(what)?;
    let name = tail.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
    NAMES.contains(&name).then(|| name.to_owned())
}

/// Does what the status says until the migration has ended and a copy runs. Where the first question leaves a choice, the
/// n-th is taken; returns how many there are.
pub async fn follow(fleet: &Fleet, name: &str, choice: usize) -> Result<usize, Stuck> {
    let (mut choices, mut said) = (1, Vec::new());
    loop {
        let Some(ways) = asked(fleet, name).await else {
            break;
        };
        let story = || format!("after {said:?}: {}", told(fleet, name));
        if ways.is_empty() {
            return Err(Stuck::NoWayOut(story()));
        }
        if said.len() >= UNTIL_THE_END {
            return Err(Stuck::Endless(format!("it still asks {}", story())));
        }
        if said.len() >= UNTIL_IT_RUNS && !one_runs(fleet) && !is_deleted(fleet) {
            return Err(Stuck::Endless(format!("no copy runs {}", story())));
        }
        let way = if said.is_empty() {
            choices = ways.len();
            &ways[choice]
        } else {
            &ways[0]
        };
        give(fleet, name, way).await?;
        said.push(way.to_string());
    }
    if until(|| one_runs(fleet) || is_deleted(fleet)).await {
        Ok(choices)
    } else {
        Err(Stuck::Endless(format!(
            "no copy runs when it has ended, after {said:?}: {}",
            told(fleet, name)
        )))
    }
}

/// Waits for a question, and returns what is offered: nothing where none comes. `None` when it has ended.
async fn asked(fleet: &Fleet, name: &str) -> Option<Vec<WayOut>> {
    until(|| has_ended(fleet, name) || !offered(&fleet.status(name)).is_empty()).await;
    (!has_ended(fleet, name)).then(|| offered(&fleet.status(name)))
}

async fn give(fleet: &Fleet, name: &str, way: &WayOut) -> Result<(), Stuck> {
    let phase = fleet.status(name)["phase"].clone();
    match way {
        WayOut::Say(control) => say(fleet, name, control)?,
        WayOut::Untaint(cluster) => {
            let patch = Patch::Merge(json!({"spec": {"taints": null}}));
            let writer = WriteOptions::manager("ann");
            let server = fleet.world.control_plane();
            server
                .patch(&CLUSTERS, None, cluster, None, &patch, &writer)
                .unwrap();
        }
        WayOut::Allow(_) => {
            let placement = json!({"clusterAffinity": {"clusterNames": NAMES}});
            fleet.patch(&POLICIES, "orders", json!({"spec": {"placement": placement}}));
        }
        WayOut::DeleteCopy(cluster) => {
            let api = &fleet.world.member(cluster).api;
            let _ = api.delete(&JOBS, Some("shop"), "orders", &DeleteOptions::default());
        }
    }
    let is_taken = || {
        let status = fleet.status(name);
        has_ended(fleet, name) || status["phase"] != phase || !offered(&status).contains(way)
    };
    if until(is_taken).await {
        return Ok(());
    }
    Err(Stuck::Refused(format!(
        "{way} changes nothing: {}",
        told(fleet, name)
    )))
}

/// Changes the spec as `cutover assume` and the like change the file.
fn say(fleet: &Fleet, name: &str, control: &Control) -> Result<(), Stuck> {
    if let Control::Assume {
        fact: Fact::Stopped,
        cluster,
        ..
    } = control
    {
        make_sure(fleet, cluster.as_str());
    }
    let live = fleet
        .world
        .control_plane()
        .get(&MIGRATIONS, Some("shop"), name)
        .unwrap();
    let live: Migration = serde_json::from_value((*live).clone()).unwrap();
    let decision = control::decide(control, name, &live.spec, Observed::Known(&live));
    let change = match decision {
        Ok(Decision::Change { change, .. }) => change,
        Ok(Decision::Nothing(why)) => return Err(Stuck::Refused(why)),
        Err(refusal) => return Err(Stuck::Refused(refusal.to_string())),
    };
    let mut spec = serde_json::to_value(&live).unwrap();
    match change {
        Change::Append(at, value) => {
            let (parent, field) = at.rsplit_once('/').unwrap();
            let list = &mut spec.pointer_mut(parent).unwrap()[field];
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().unwrap().push(value);
        }
        Change::Set(at, value) | Change::Unset(at, value) => {
            let (parent, field) = at.rsplit_once('/').unwrap();
            spec.pointer_mut(parent).unwrap()[field] = value;
        }
        Change::Within(..) => unreachable!("a word is a change of its own"),
    }
    fleet.patch(&MIGRATIONS, name, json!({"spec": spec["spec"]}));
    Ok(())
}

/// Who vouches that nothing writes in a cluster that nobody sees has switched it off.
fn make_sure(fleet: &Fleet, cluster: &str) {
    if fleet.world.faults().is_partitioned(cluster) {
        let member = fleet.world.member(cluster);
        member.simulators(|simulators| simulators.jobs().vanish());
    }
}

fn has_ended(fleet: &Fleet, name: &str) -> bool {
    let phase = serde_json::from_value::<Phase>(fleet.status(name)["phase"].clone());
    fleet.is_gone(name) || phase.is_ok_and(Phase::is_terminal)
}

/// Then no copy is to run.
fn is_deleted(fleet: &Fleet) -> bool {
    let server = fleet.world.control_plane();
    server.get(&JOBS, Some("shop"), "orders").is_err()
}

fn one_runs(fleet: &Fleet) -> bool {
    let runs = fleet.world.ledger().verdict().runs;
    runs.iter().any(|run| run.until.is_none())
}

fn told(fleet: &Fleet, name: &str) -> String {
    let status = fleet.status(name);
    format!(
        "{} {} {}",
        status["phase"], status["waitingFor"]["reason"], status["findings"]
    )
}

async fn until(holds: impl Fn() -> bool) -> bool {
    comes_true(PATIENCE, Duration::from_millis(200), async || holds()).await
}
