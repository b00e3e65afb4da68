//! What people are told of an intent at once, as Kubernetes Events: how it went from one status to the next.

use jiff::{SignedDuration, Timestamp};

use super::account::{next, reason, untouched};
use super::names;
use crate::api::{Migration, MigrationStatus, Phase, Progress, WaitCode};
use crate::redact;
use crate::units::{brief, duration, instant};
use cutover_base::escape;

/// How long a wait is nothing unusual.
pub const LONG_WAIT: SignedDuration = SignedDuration::from_secs(30);

/// The most that the API server takes as a note.
const NOTE: usize = 1024;

/// One thing that people are told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventRecord {
    /// Whether somebody should look.
    pub warning: bool,
    /// One CamelCase word: the phase, the code of a finding, or what happened.
    pub reason: String,
    pub note: String,
}

impl EventRecord {
    /// `note` is cut where it is longer than an API server takes, and holds no credential that can be recognised; it is
    /// one line in which nothing is hidden, with uids and markers in short.
    pub fn new(warning: bool, reason: impl Into<String>, note: &str) -> Self {
        Self {
            warning,
            reason: reason.into(),
            note: note_text(note),
        }
    }
}

/// Returns a text as [`EventRecord::new`] takes it in.
pub(super) fn note_text(text: &str) -> String {
    let mut note = escape::prose(&redact::text(&brief(text)));
    if note.len() > NOTE {
        let fits = (0..=NOTE - '…'.len_utf8())
            .rev()
            .find(|&at| note.is_char_boundary(at));
        note.truncate(fits.unwrap_or_default());
        note.push('…');
    }
    note
}

/// Returns what is to be told once the journal says what `after` says.
pub fn events(before: &Migration, after: &MigrationStatus) -> Vec<EventRecord> {
    let was = super::status(before);
    let mut is = before.clone();
    is.status = Some(after.clone());
    let mut told = Vec::new();
    if after.common.attempt > was.common.attempt.max(1) {
        let note = format!(
            "attempt {}: the spec asks for something else",
            after.common.attempt
        );
        told.push(EventRecord::new(false, "Started", &note));
    }
    if after.phase != was.phase {
        told.extend(entered(&is, &was));
    }
    let pin_lost = |status: &MigrationStatus| {
        status
            .journal
            .as_ref()
            .is_some_and(|journal| journal.pin.repairing)
    };
    if pin_lost(after) && !pin_lost(&was) {
        let note = "the pin was edited or removed by another client, and is put back";
        told.push(EventRecord::new(true, "PinRepaired", note));
    }
    for finding in after
        .common
        .findings
        .iter()
        .filter(|finding| !was.common.findings.contains(finding))
    {
        let hint = finding.hint.as_ref();
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        told.push(EventRecord::new(
            true,
            &finding.code,
            &format!("{}{hint}", finding.message),
        ));
    }
    told.extend(asked(&is, &was));
    told
}

/// Returns what is to be told of a wait that is long by now.
pub fn long_wait(status: &impl Progress, now: Timestamp) -> Option<EventRecord> {
    let wait = status.waiting_for().filter(|wait| !wait.code.is_for_a_person())?;
    if now.duration_since(wait.since) < LONG_WAIT {
        return None;
    }
    let mut note = format!(
        "{} since {}: {}",
        status.phase_name(),
        instant(wait.since),
        wait.reason
    );
    if let Some(until) = wait.until {
        let then = wait.then.as_deref().unwrap_or("it ends");
        note = format!("{note}; at {}: {then}", instant(until));
    }
    if let Some(warning) = &wait.last_warning {
        note = format!("{note}; last warning: {warning}");
    }
    Some(EventRecord::new(!wait.is_a_matter_of_time(), "Waiting", &note))
}

fn entered(is: &Migration, was: &MigrationStatus) -> Vec<EventRecord> {
    let phase = super::status(is).phase;
    let why = reason(is).unwrap_or_default();
    let warning = matches!(
        phase,
        Phase::RolledBack | Phase::Aborted | Phase::Failed | Phase::RollingBack
    );
    let mut told = vec![EventRecord::new(warning, phase.name(), &note(is, was, &why))];
    if phase == Phase::RollingBack && why.starts_with(LAPSE) {
        told.push(EventRecord::new(
            true,
            LAPSE,
            why.trim_start_matches(LAPSE).trim_start_matches([':', ' ']),
        ));
    }
    told
}

/// How reasons begin when both copies may have been let go for a moment.
const LAPSE: &str = "SingleWriterLapse";

/// Returns what is said of a phase that has begun. `why`: why it is or was rolled back.
fn note(is: &Migration, was: &MigrationStatus, why: &str) -> String {
    let status = super::status(is);
    let found = |code: &str| {
        let mut findings = status.common.findings.iter();
        let finding = findings.find(|finding| finding.code == code);
        finding.map(|finding| finding.message.clone())
    };
    let phase = status.phase;
    match phase {
        _ if found("Recorded").is_some() || phase == Phase::EndedBefore => found("Recorded")
            .or_else(|| found("EndedBefore"))
            .unwrap_or_default(),
        Phase::Completed => {
            let (_, to) = super::route(is);
            let workload = &is.spec.workload;
            format!(
                "{} {} moved to {to}; {}",
                workload.kind,
                workload.name,
                spent(&status)
            )
        }
        Phase::Failed if untouched(&status) => {
            "a check before the first change has failed; nothing was touched".to_owned()
        }
        Phase::RolledBack | Phase::Aborted | Phase::Failed => format!("{why}; {}", spent(&status)),
        Phase::RollingBack => why.to_owned(),
        _ => {
            let mut steps = status.common.steps.iter().rev();
            let done = steps.find(|step| step.name == was.phase.name());
            match done.map(|step| step.evidence.join("; ")).as_deref() {
                None | Some("") => format!("{} is done", was.phase),
                Some(evidence) => format!("{} is done: {evidence}", was.phase),
            }
        }
    }
}

/// Says how long an attempt took, and how long nothing ran.
fn spent(status: &MigrationStatus) -> String {
    let first = || status.common.steps.first().map(|step| step.started_at);
    let began = status.common.started_at.or_else(first);
    let took = began
        .zip(status.common.finished_at)
        .map(|(from, until)| until.duration_since(from));
    let down = status.downtime_ms.and_then(|millis| i64::try_from(millis).ok());
    let parts = [
        took.map(|took| format!("took {}", duration(took))),
        down.map(|down| format!("downtime {}", duration(SignedDuration::from_millis(down)))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(", ")
}

/// What persons are asked for, or have asked for.
fn asked(is: &Migration, was: &MigrationStatus) -> Vec<EventRecord> {
    let code = |status: &MigrationStatus| {
        status
            .common
            .waiting_for
            .as_ref()
            .map(|wait| (wait.code, wait.approval))
    };
    let now = super::status(is);
    let (before, after) = (code(was), code(&now));
    if before == after {
        return Vec::new();
    }
    let mut told = Vec::new();
    let is_pause = |code: Option<(WaitCode, Option<Phase>)>| matches!(code, Some((WaitCode::Pause, _)));
    if is_pause(before) && now.phase == was.phase {
        let (namespace, name) = names(is);
        let note = format!("{namespace}/{name} goes on where it stopped");
        told.push(EventRecord::new(false, "Resumed", &note));
    }
    let what = |otherwise: &str| next(is).unwrap_or_else(|| otherwise.to_owned());
    if is_pause(after) {
        let note = format!("goes no further: {}", what("resume it"));
        told.push(EventRecord::new(false, "Paused", &note));
    }
    if let (Some((WaitCode::Approval, _)), Some(wait)) = (after, &now.common.waiting_for) {
        let note = format!("{}: {}", wait.phrase(), what("approve it"));
        told.push(EventRecord::new(false, "ApprovalNeeded", &note));
    }
    told
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn migration(status: serde_json::Value) -> Migration {
        serde_json::from_value(json!({
            "apiVersion": "cutover.dev/v1alpha1", "kind": "Migration",
            "metadata": {"name": "a", "namespace": "shop", "uid": "7b1c"},
            "spec": {
                "workload": {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"},
                "to": "west",
            },
            "status": status,
        }))
        .unwrap()
    }

    fn told(before: serde_json::Value, after: serde_json::Value) -> String {
        let after = migration(after).status.unwrap();
        let told = events(&migration(before), &after);
        let line = |told: &EventRecord| {
            let sort = if told.warning { "Warning" } else { "Normal" };
            format!("{sort} {}: {}", told.reason, told.note)
        };
        told.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    const AT: &str = "2026-03-01T10:00:00Z";

    #[test]
    fn a_phase_is_told_with_what_let_the_one_before_end() {
        let step = json!({"name": "Hold", "startedAt": AT, "finishedAt": AT, "evidence": ["marker seen"]});
        insta::assert_snapshot!(
            told(json!({"phase": "Hold", "attempt": 1}), json!({"phase": "Expand", "attempt": 1, "steps": [step]})),
            @"Normal Expand: Hold is done: marker seen"
        );
        let same = json!({"phase": "Hold", "attempt": 1});
        assert_eq!(told(same.clone(), same), "");
    }

    #[test]
    fn an_end_is_told_with_its_times() {
        let ended = json!({
            "phase": "Completed", "attempt": 1, "startedAt": AT, "finishedAt": "2026-03-01T10:00:09Z", "downtimeMs": 1500,
        });
        insta::assert_snapshot!(
            told(json!({"phase": "Cleanup", "attempt": 1}), ended),
            @"Normal Completed: FlinkDeployment orders moved to west; took 9.0 s, downtime 1.5 s"
        );
    }

    #[test]
    fn findings_are_told_once_each() {
        let finding = |code: &str| json!({"code": code, "message": "no", "hint": "fix it"});
        let one = json!({"phase": "Failed", "findings": [finding("One")]});
        let both = json!({"phase": "Failed", "findings": [finding("One"), finding("Two")]});
        insta::assert_snapshot!(told(one, both), @"Warning Two: no (fix it)");
    }

    #[test]
    fn what_persons_have_to_do_is_told_at_once() {
        let wait = |code: &str, approval: Option<&str>| {
            json!({"phase": "Capture", "attempt": 1, "waitingFor": {
                "code": code, "reason": "approval of Handoff", "approval": approval, "since": AT,
            }})
        };
        let runs = json!({"phase": "Capture", "attempt": 1});
        insta::assert_snapshot!(
            told(runs.clone(), wait("Approval", Some("Handoff"))),
            @"Normal ApprovalNeeded: waits for approval of Handoff: cutover approve shop/a --phase Handoff"
        );
        assert_eq!(
            told(
                wait("Approval", Some("Handoff")),
                wait("Approval", Some("Handoff"))
            ),
            ""
        );
        insta::assert_snapshot!(
            told(runs.clone(), wait("Pause", None)),
            @"Normal Paused: goes no further: cutover resume shop/a"
        );
        insta::assert_snapshot!(told(wait("Pause", None), runs), @"Normal Resumed: shop/a goes on where it stopped");
    }

    #[test]
    fn a_lapse_is_told_beside_the_roll_back() {
        let back = json!({"phase": "RollingBack", "attempt": 1, "journal": {
            "spec": {"workload": {"apiVersion": "a/v1", "kind": "A", "name": "a"}, "to": "west"},
            "profile": {
                "appliesTo": {"group": "a", "kinds": ["A"]}, "stateful": false, "suspend": [], "hold": [], "start": [],
                "restart": [], "observedWhen": "true", "suspendedWhen": "true", "healthyWhen": "true",
            },
            "source": "east", "target": "west", "templateUid": "t", "seq": 3, "pinned": true, "clusters": ["west"],
            "binding": {"name": "b", "uid": "b", "id": "i"}, "fence": {},
            "rollBack": {
                "reason": "SingleWriterLapse: the pin was removed", "fromPhase": "Verify", "since": AT,
                "endsAs": "RolledBack", "restart": true, "stage": "Begun",
            },
        }});
        insta::assert_snapshot!(told(json!({"phase": "Verify", "attempt": 1}), back), @"
        Warning RollingBack: SingleWriterLapse: the pin was removed (in Verify)
        Warning SingleWriterLapse: the pin was removed (in Verify)
        ");
    }

    #[test]
    fn a_wait_is_told_only_when_it_is_long_and_not_a_persons() {
        let since: Timestamp = AT.parse().unwrap();
        let status = |code: &str| {
            let wait = json!({"code": code, "reason": "west: unreachable", "since": AT,
                "until": "2026-03-01T10:05:00Z", "then": "roll back"});
            migration(json!({"phase": "Expand", "waitingFor": wait}))
                .status
                .unwrap()
        };
        let long = since + LONG_WAIT;
        assert_eq!(
            long_wait(&status("Evidence"), long - SignedDuration::from_secs(1)),
            None
        );
        assert_eq!(long_wait(&status("Approval"), long), None);
        insta::assert_snapshot!(
            long_wait(&status("Evidence"), long).unwrap().note,
            @"Expand since 2026-03-01 10:00:00 UTC: west: unreachable; at 2026-03-01 10:05:00 UTC: roll back"
        );
    }

    #[test]
    fn a_wait_that_ends_well_by_itself_is_no_warning() {
        let since: Timestamp = AT.parse().unwrap();
        let is_warning = |then: Option<&str>| {
            let wait = json!({"code": "Evidence", "reason": "west to stay healthy for 60s", "since": AT,
                "until": "2026-03-01T10:01:00Z", "then": then});
            let status = migration(json!({"phase": "Verify", "waitingFor": wait}))
                .status
                .unwrap();
            long_wait(&status, since + LONG_WAIT).unwrap().warning
        };
        for then in ["go on", "go on with the next step", "begin"] {
            assert!(!is_warning(Some(then)), "{then}");
        }
        for then in [
            Some("roll back"),
            Some("go on without the state that it would leave"),
            None,
        ] {
            assert!(is_warning(then), "{then:?}");
        }
    }

    #[test]
    fn a_note_fits_and_holds_no_credentials() {
        let long = EventRecord::new(false, "A", &"é".repeat(2000));
        assert!(long.note.len() <= NOTE && long.note.ends_with('…'));
        let secret = EventRecord::new(false, "A", "cannot fetch https://ci:s3cret@git.example.com/x");
        assert!(!secret.note.contains("s3cret"), "{}", secret.note);
        let marked = EventRecord::new(false, "A", "marker 31edc447-d709-47c0-99c0-e2869b102ddc.1.2");
        assert_eq!(marked.note, "marker 31edc447.1.2");
    }
}
