//! The form in which a Migration that has ended is stored: what `kubectl describe` shows of it fits a screen.
//!
//! Programs work with [`MigrationStatus`] as ever, which reads both forms. The steps are a line each, and of the journal stays what is
//! of use after the end, in one line. A Migration that is under way has its journal in the open, as every version reads it.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    Common, ENDED_FORMAT, HeldBack, HeldPolicy, Journal, MigrationStatus, Phase, Progress, StepRecord,
};
use cutover_karmada::name::ClusterName;

/// Between the parts of the evidence of one step.
const AND: &str = " · ";
/// In place of how long a step took that has not ended: an open interval, as ISO 8601 writes it.
const OPEN: &str = "..";

/// A status in either form.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Stored {
    phase: Phase,
    #[serde(flatten)]
    common: Common,
    source: Option<ClusterName>,
    held_back: Option<HeldBack>,
    held_policies: Vec<HeldPolicy>,
    downtime_ms: Option<u64>,
    downtime: Option<String>,
    journal: Option<Journal>,
    timeline: Vec<String>,
    trimmed_journal: Option<String>,
}

impl From<Stored> for MigrationStatus {
    fn from(stored: Stored) -> Self {
        let trimmed = stored.trimmed_journal.as_deref().and_then(journal);
        let was_trimmed = stored.journal.is_none() && trimmed.is_some();
        let mut status = Self {
            phase: stored.phase,
            common: stored.common,
            source: stored.source,
            held_back: stored.held_back,
            held_policies: stored.held_policies,
            downtime_ms: stored.downtime_ms,
            downtime: stored.downtime,
            journal: stored.journal.or(trimmed),
        };
        let common = &mut status.common;
        if common.steps.is_empty() && !stored.timeline.is_empty() {
            common.steps = steps(&stored.timeline);
            let first = common.steps.first().map(|step| step.started_at);
            common.started_at = common.started_at.or(first);
        }
        if was_trimmed {
            if status.downtime.is_some() && status.downtime_ms.is_none() {
                status.downtime_ms = status.journal.as_ref().and_then(Journal::downtime_ms);
            }
            status.note_format();
        }
        status
    }
}

/// Returns the form in which a status is stored; nothing for one that has not ended, or can't be written so.
pub(super) fn folded(status: &MigrationStatus) -> Option<Value> {
    if !status.phase.is_terminal() {
        return None;
    }
    let mut stored = serde_json::to_value(status).ok()?;
    let fields = stored.as_object_mut()?;
    fold_steps(&status.common, fields);
    // Where the values of secret handles are is written down: they stay there.
    if let Some(journal) = status
        .journal
        .as_ref()
        .filter(|journal| journal.secrets.is_empty())
    {
        let mut kept = serde_json::to_value(journal.trimmed()).ok()?;
        kept.as_object_mut()?.shift_remove("profile");
        fields.shift_remove("journal");
        fields.insert("trimmedJournal".to_owned(), kept.to_string().into());
        fields.insert("format".to_owned(), ENDED_FORMAT.into());
        if status.downtime.is_some() && status.downtime_ms == journal.downtime_ms() {
            fields.shift_remove("downtimeMs");
        }
    }
    Some(stored)
}

fn fold_steps(common: &Common, fields: &mut Map<String, Value>) {
    let lines: Vec<String> = common.steps.iter().map(line).collect();
    let first = common.steps.first().map(|step| step.started_at);
    // What could not be read back stays as it is.
    if first.is_none() || common.started_at.is_none() || steps(&lines) != common.steps {
        return;
    }
    fields.shift_remove("steps");
    if common.started_at == first {
        fields.shift_remove("startedAt");
    }
    fields.insert("timeline".to_owned(), lines.into());
}

/// Returns a step as one line: when it began, how long it took, its name, and what was seen that let it end.
fn line(step: &StepRecord) -> String {
    let took = step.finished_at.map_or_else(
        || OPEN.to_owned(),
        |at| at.duration_since(step.started_at).to_string(),
    );
    let line = format!("{}/{took} {}", step.started_at, step.name);
    if step.evidence.is_empty() {
        line
    } else {
        format!("{line}: {}", step.evidence.join(AND))
    }
}

/// Reads the lines of a timeline, as far as they can be read.
fn steps(lines: &[String]) -> Vec<StepRecord> {
    lines.iter().filter_map(|line| step(line)).collect()
}

fn step(line: &str) -> Option<StepRecord> {
    let (time, what) = line.split_once(' ')?;
    let (start, took) = time.split_once('/')?;
    let started_at: Timestamp = start.parse().ok()?;
    let finished_at = if took == OPEN {
        None
    } else {
        let took: SignedDuration = took.parse().ok()?;
        Some(started_at.checked_add(took).ok()?)
    };
    let (name, evidence) = what
        .split_once(": ")
        .map_or((what, Vec::new()), |(name, evidence)| {
            (name, evidence.split(AND).map(str::to_owned).collect())
        });
    Some(StepRecord {
        name: name.to_owned(),
        started_at,
        finished_at,
        evidence,
    })
}

/// Reads what is left of a journal; a profile that is for no kind stands in for the one that it had.
fn journal(text: &str) -> Option<Journal> {
    let mut journal: Value = serde_json::from_str(text).ok()?;
    journal.as_object_mut()?.insert(
        "profile".to_owned(),
        json!({
            "appliesTo": {"group": "", "kinds": []}, "stateful": true,
            "suspend": [], "hold": [], "start": [], "restart": [],
            "observedWhen": "false", "suspendedWhen": "false", "healthyWhen": "false",
        }),
    );
    serde_json::from_value(journal).ok()
}

/// Adds the fields of the stored form to the schema of a status.
pub(super) fn describe(schema: &mut schemars::Schema) {
    let Some(Value::Object(fields)) = schema.get_mut("properties") else {
        return;
    };
    fields.insert(
        "timeline".to_owned(),
        json!({
            "description": "After the end, in place of `steps`: a line for each phase that there was. It says when it began and how \
                long it took (an interval, as ISO 8601 writes it), and what was seen that ended it",
            "type": "array",
            "items": {"type": "string"},
        }),
    );
    fields.insert(
        "trimmedJournal".to_owned(),
        json!({
            "description": "After the end, in place of `journal`: what cutover keeps of it, as JSON. No other client may read or write \
                it. The record on the status branch has the whole journal",
            "type": "string",
            "nullable": true,
        }),
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A status as the versions before have stored it: that of a job that was moved in the sandbox.
    fn in_the_open() -> Value {
        serde_json::from_str(include_str!("ended/completed.json")).unwrap()
    }

    fn read(stored: &Value) -> MigrationStatus {
        serde_json::from_value(stored.clone()).unwrap()
    }

    fn completed() -> MigrationStatus {
        read(&in_the_open())
    }

    /// What a status is once it has been stored.
    fn trimmed(mut status: MigrationStatus) -> MigrationStatus {
        let journal = status.journal.take().map(|journal| journal.trimmed());
        let text = journal.map(|journal| serde_json::to_string(&journal).unwrap());
        status.journal = text.as_deref().and_then(super::journal);
        status
    }

    #[test]
    fn one_that_has_ended_is_stored_in_lines_and_read_as_it_was() {
        let stored = folded(&completed()).unwrap();
        for field in ["journal", "steps", "startedAt", "downtimeMs"] {
            assert!(stored.get(field).is_none(), "{field}");
        }
        assert_eq!(stored["format"], ENDED_FORMAT);
        assert_eq!(
            stored["timeline"][1],
            "2026-11-27T19:26:39.637412145Z/PT0.093697697S Preflight: runs in east alone, healthy; no copy in west · no template change \
             to take along"
        );
        let kept = stored["trimmedJournal"].as_str().unwrap();
        assert!(kept.len() < 1000 && !kept.contains("profile"), "{kept}");
        let again = read(&stored);
        assert_eq!(again, trimmed(completed()));
        assert!(again.journal.as_ref().is_some_and(Journal::is_trimmed));
        assert_eq!(folded(&again), Some(stored), "it is stored as it was");
    }

    #[test]
    fn one_of_an_earlier_version_is_read_and_has_all_that_it_had() {
        let open = in_the_open();
        let status = completed();
        assert!(!status.journal.as_ref().unwrap().is_trimmed());
        assert_eq!(serde_json::to_value(&status).unwrap(), open);
    }

    #[test]
    fn one_that_is_under_way_is_stored_as_every_version_reads_it() {
        let mut status = completed();
        for phase in [
            Phase::Preflight,
            Phase::Capture,
            Phase::Cleanup,
            Phase::RollingBack,
        ] {
            status.phase = phase;
            assert_eq!(folded(&status), None, "{phase}");
        }
    }

    #[test]
    fn what_tells_how_it_went_stays() {
        let mut status = completed();
        let back = json!({
            "reason": "west: the copy is not healthy", "fromPhase": "Verify", "since": "2026-11-27T19:26:43Z", "endsAs": "RolledBack",
            "restart": true, "stage": "Returned",
        });
        let word = json!({
            "fact": "Stopped", "cluster": "east", "phase": "Capture", "by": "Ada", "at": "2026-11-27T19:26:41Z", "givesUp": "what it wrote",
        });
        let journal = status.journal.as_mut().unwrap();
        journal.roll_back = Some(serde_json::from_value(back).unwrap());
        journal.words = vec![serde_json::from_value(word).unwrap()];
        status.phase = Phase::RolledBack;
        let before = status.journal.clone().unwrap();
        let again = read(&folded(&status).unwrap());
        let after = again.journal.unwrap();
        assert_eq!(
            (after.spec, after.pin, after.binding),
            (before.spec, before.pin, before.binding)
        );
        assert_eq!((after.roll_back, after.words), (before.roll_back, before.words));
        assert_eq!(
            (after.source, after.target, after.writer),
            (before.source, before.target, before.writer)
        );
        assert_eq!(
            (after.down_since, after.up_since),
            (before.down_since, before.up_since)
        );
        let values = |captured: Option<crate::api::Capture>| captured.map(|captured| captured.values);
        assert_eq!(values(after.captured), values(before.captured));
        assert_eq!(
            (again.common, again.downtime_ms),
            (status.common, status.downtime_ms)
        );
    }

    #[test]
    fn the_values_of_secret_handles_stay_where_they_are() {
        let mut status = completed();
        status.journal.as_mut().unwrap().secrets.add("C4n4ry");
        let stored = folded(&status).unwrap();
        assert!(stored["journal"]["secrets"].to_string().contains("C4n4ry"));
        assert!(stored["timeline"].is_array() && stored.get("trimmedJournal").is_none());
        assert_eq!(read(&stored), status);
    }

    #[test]
    fn what_was_changed_by_hand_can_still_be_read() {
        let mut stored = folded(&completed()).unwrap();
        stored["trimmedJournal"] = "{".into();
        stored["timeline"][0] = "Pending".into();
        let status = read(&stored);
        assert_eq!((status.phase, status.journal), (Phase::Completed, None));
        assert_eq!(status.common.steps.len(), completed().common.steps.len() - 1);
        assert_eq!(
            status.common.format, ENDED_FORMAT,
            "it says that it has had a journal"
        );
    }

    fn steps_of_any_kind() -> impl Strategy<Value = Vec<StepRecord>> {
        let time = (0..4_000_000_000_i64, 0..1_000_000_000_i32);
        let text = || prop_oneof![".{0,12}", Just("a: b".to_owned()), Just("a · b".to_owned())];
        let step = (
            time,
            any::<Option<i32>>(),
            text(),
            prop::collection::vec(text(), 0..3),
        );
        let step = step.prop_map(|((second, nanos), took, name, evidence)| {
            let started_at = Timestamp::new(second, nanos).unwrap();
            let took = took.map(|millis| SignedDuration::from_millis(i64::from(millis)));
            StepRecord {
                name,
                started_at,
                finished_at: took.map(|took| started_at.checked_add(took).unwrap()),
                evidence,
            }
        });
        prop::collection::vec(step, 0..4)
    }

    proptest! {
        #[test]
        fn whatever_the_steps_say_they_are_read_as_they_were(steps in steps_of_any_kind()) {
            let mut status = completed();
            status.common.steps = steps;
            let again = read(&folded(&status).unwrap());
            prop_assert_eq!(again.common, status.common);
        }
    }
}
