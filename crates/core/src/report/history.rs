//! The history of intents on the status branch: a line for each attempt that has ended, in files that are only added to.
//!
//! Records under `intents/` say how an intent stands, and are written again with each attempt; what is here stays.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::{Account, names, route, status, suspension};
use crate::api::{Assumption, FailoverPlan, Migration, Phase, Relocation, Suspension};
use crate::error::Error;
use crate::redact;

/// The folder of the files, one a month.
pub const HISTORY_DIR: &str = "history";
/// Raised when a field changes its meaning or goes away; new fields don't raise it.
const VERSION: u32 = 1;

/// Uid, attempt, event.
pub type Id = (String, u32, Option<&'static str>);

/// An attempt that has ended, or begun, and in which file its line belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub path: String,
    /// What it is known by: uid, attempt, and which of its events it is where there are several.
    pub id: Id,
    /// JSON, with its line end.
    pub line: String,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    version: u32,
    kind: &'static str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    attempt: u32,
    workload: String,
    from: &'a str,
    to: &'a str,
    phase: Phase,
    started_at: Option<Timestamp>,
    finished_at: Timestamp,
    downtime_ms: Option<u64>,
    reason: Option<String>,
    /// A person's words for what could not be seen, given in this attempt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    assume: Vec<&'a Assumption>,
    /// What was found and told on the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<&'a str>,
    revision: Option<&'a str>,
}

/// What a line is known by.
#[derive(Deserialize)]
struct Known {
    uid: String,
    attempt: u32,
    event: Option<String>,
}

/// Returns the lines of all attempts that have ended, in the order in which they ended.
pub fn ended(migrations: &[Migration]) -> Result<Vec<Ended>, Error> {
    let mut all: Vec<(Timestamp, &Migration)> = migrations
        .iter()
        .filter(|migration| status(*migration).phase.is_terminal())
        .filter_map(|migration| Some((status(migration).common.finished_at?, migration)))
        .collect();
    all.sort_by_key(|(at, migration)| (*at, names(*migration)));
    all.into_iter().map(|(at, migration)| of(migration, at)).collect()
}

/// Returns the lines of all failovers, in the order in which they ended.
pub fn failed_over(plans: &[FailoverPlan]) -> Vec<Ended> {
    let mut all: Vec<(&Relocation, &FailoverPlan)> = plans
        .iter()
        .flat_map(|plan| {
            let status = plan.status.iter();
            let history = status.flat_map(|status| &status.history);
            history.map(move |done| (done, plan))
        })
        // A migration has a line of its own.
        .filter(|(done, _)| done.attempt > 0)
        .collect();
    all.sort_by_key(|(done, plan)| (done.finished_at, names(*plan)));
    all.into_iter()
        .map(|(done, plan)| of_failover(plan, done))
        .collect()
}

fn of_failover(plan: &FailoverPlan, done: &Relocation) -> Ended {
    let (namespace, name) = names(plan);
    let uid = plan.metadata.uid.as_deref().unwrap_or_default();
    let workload = &plan.spec.workload;
    let line = serde_json::json!({
        "version": VERSION,
        "kind": "FailoverPlan",
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "attempt": done.attempt,
        "workload": format!("{} {}", workload.kind, workload.name),
        "from": done.from,
        "to": done.to,
        "phase": "Completed",
        "startedAt": done.at,
        "finishedAt": done.finished_at,
        "downtimeMs": done.downtime_ms,
        "reason": done.reason,
        "by": done.by,
        "purgeMode": done.purge_mode,
        "state": done.state,
        "evidence": done.evidence,
        "revision": status(plan).common.revision,
    });
    let line = without_nulls(line).to_string();
    let month = done
        .finished_at
        .to_zoned(TimeZone::UTC)
        .strftime("%Y-%m")
        .to_string();
    Ended {
        path: format!("{HISTORY_DIR}/{month}.jsonl"),
        id: (uid.to_owned(), done.attempt, None),
        line: redact::text(&line).into_owned() + "\n",
    }
}

/// Returns the lines of all suspensions: one when a suspension comes into force, and one when it ends. Of one that is deleted
/// nothing else would last.
pub fn suspended(suspensions: &[Suspension]) -> Vec<Ended> {
    let mut all: Vec<(Timestamp, bool, &Suspension)> = Vec::new();
    for one in suspensions {
        let status = status(one);
        all.extend(status.since.map(|since| (since, false, one)));
        let ended = status.phase.is_terminal() && status.since.is_some();
        all.extend(
            status
                .common
                .finished_at
                .filter(|_| ended)
                .map(|at| (at, true, one)),
        );
    }
    all.sort_by_key(|(at, ended, one)| (*at, *ended, names(*one)));
    all.into_iter()
        .map(|(at, ended, one)| of_suspension(one, at, ended))
        .collect()
}

/// Returns the lines of suspensions that were in force and are there no more: what came of the last look at them is lost.
pub fn suspensions_gone(before: &[Suspension], now: &[Suspension]) -> Vec<Ended> {
    let is_there = |one: &&Suspension| now.iter().any(|now| now.metadata.uid == one.metadata.uid);
    let gone = before.iter().filter(|one| !is_there(one));
    gone.filter_map(|one| {
        let since = status(one).since?;
        (!status(one).phase.is_terminal()).then(|| of_suspension(one, since, true))
    })
    .collect()
}

fn of_suspension(one: &Suspension, at: Timestamp, ended: bool) -> Ended {
    let status = status(one);
    let (namespace, name) = names(one);
    let uid = one.metadata.uid.as_deref().unwrap_or_default();
    let spec = one.spec_in_force();
    let event = if ended { "ended" } else { "began" };
    let line = serde_json::json!({
        "version": VERSION,
        "kind": "Suspension",
        "namespace": namespace,
        "name": name,
        "uid": uid,
        "attempt": status.common.attempt,
        "event": event,
        "what": suspension::what(one),
        "clusters": spec.clusters,
        "reason": spec.reason,
        "by": status.by,
        "phase": ended.then_some(if status.phase.is_terminal() { status.phase.name() } else { "Deleted" }),
        "since": status.since,
        "until": one.spec.until,
        "finishedAt": Some(at).filter(|_| ended && status.phase.is_terminal()),
        "revision": status.common.revision,
    });
    let month = at.to_zoned(TimeZone::UTC).strftime("%Y-%m").to_string();
    Ended {
        path: format!("{HISTORY_DIR}/{month}.jsonl"),
        id: (uid.to_owned(), status.common.attempt, Some(event)),
        line: redact::text(&without_nulls(line).to_string()).into_owned() + "\n",
    }
}

fn without_nulls(mut line: serde_json::Value) -> serde_json::Value {
    if let Some(fields) = line.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    line
}

fn of(migration: &Migration, finished_at: Timestamp) -> Result<Ended, Error> {
    let status = status(migration);
    let (namespace, name) = names(migration);
    let (from, to) = route(migration);
    let uid = migration.metadata.uid.as_deref().unwrap_or_default();
    let workload = &migration.spec.workload;
    let line = Line {
        version: VERSION,
        kind: "Migration",
        namespace,
        name,
        uid,
        attempt: status.common.attempt,
        workload: format!("{} {}", workload.kind, workload.name),
        from,
        to,
        phase: status.phase,
        started_at: status.common.started_at,
        finished_at,
        downtime_ms: status.downtime_ms,
        reason: Account::of(migration).reason,
        assume: (migration.spec.assume.iter())
            .filter(|assumption| assumption.attempt == status.common.attempt)
            .collect(),
        findings: (status.common.findings.iter())
            .map(|finding| finding.message.as_str())
            .collect(),
        revision: status.common.revision.as_deref(),
    };
    let line = serde_json::to_string(&line)
        .map_err(|error| Error::internal(format!("the history cannot be written: {error}")))?;
    let month = finished_at.to_zoned(TimeZone::UTC).strftime("%Y-%m").to_string();
    Ok(Ended {
        path: format!("{HISTORY_DIR}/{month}.jsonl"),
        id: (uid.to_owned(), status.common.attempt, None),
        line: redact::text(&line).into_owned() + "\n",
    })
}

/// Returns a file with what it has not yet added to its end; `None` if it has everything. What is in it is never changed,
/// be it readable or not.
pub fn appended(file: Option<&[u8]>, new: &[&Ended]) -> Option<Vec<u8>> {
    let there = file.unwrap_or_default();
    let known: Vec<Known> = there
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let is_known = |ended: &Ended| {
        let mut known = known.iter();
        let (uid, attempt, event) = &ended.id;
        known.any(|known| {
            (&known.uid, known.attempt, known.event.as_deref()) == (uid, *attempt, event.as_deref())
        })
    };
    let missing: Vec<&&Ended> = new.iter().filter(|ended| !is_known(ended)).collect();
    if missing.is_empty() {
        return None;
    }
    let mut bytes = there.to_vec();
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    for ended in missing {
        bytes.extend(ended.line.bytes());
    }
    Some(bytes)
}
