//! The newest state handle of a copy that runs: what its own status shows, and what objects beside it do.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use regex::Regex;
use serde_json::Value;

use super::expression::{Expression, pattern};
use super::path::Path;
use super::{Error, Mistake, labels, shown, text_at};
use crate::api::{LastKnownRule, WorkloadProfileSpec};

/// When an object was created, if a rule about others than the copy says nothing else.
const CREATED: &str = "$.metadata.creationTimestamp";

/// What is known of the newest handles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Newest {
    /// The handles, by name.
    pub values: BTreeMap<String, String>,
    /// When the states were saved, by the same names; of one whose rule has no time, nothing.
    pub saved: BTreeMap<String, Timestamp>,
    /// Those that are deleted with the objects that show them, by name.
    pub disposed: BTreeSet<String>,
    /// The rules whose objects may show a newer one, and were not seen; by their place in `lastKnown`.
    pub unseen: BTreeSet<usize>,
}

/// A rule that has been compiled.
#[derive(Debug)]
pub(super) struct KnownRule {
    name: String,
    path: Path,
    valid: Option<Expression>,
    disposed: Option<Expression>,
    newest_by: Option<Path>,
    run: Option<Regex>,
    secret: bool,
    /// It is about others than the copy.
    is_beside: bool,
}

/// A handle, and when its state was saved.
struct Shown {
    value: String,
    at: Option<Timestamp>,
    disposed: bool,
}

impl KnownRule {
    pub(super) fn compile(profile: &str, rule: &LastKnownRule, secret: bool) -> Result<Self, Error> {
        let invalid = |field, message| Error::Invalid {
            profile: profile.to_owned(),
            field,
            message,
        };
        let compile = |field, source: &Option<String>| {
            let compiled = source.as_deref().map(|source| Expression::compile(field, source));
            compiled.transpose().map_err(|message| invalid(field, message))
        };
        let run = rule
            .run_pattern
            .as_deref()
            .map(|source| group_pattern(source).map_err(|message| invalid("lastKnown.runPattern", message)));
        let newest_by = rule.newest_by.as_deref();
        let newest_by = newest_by.or(rule.from.is_some().then_some(CREATED));
        Ok(Self {
            name: rule.name.clone(),
            path: Path::parse(&rule.json_path)?,
            valid: compile("lastKnown.validWhen", &rule.valid_when)?,
            disposed: compile("lastKnown.disposedWhen", &rule.disposed_when)?,
            newest_by: newest_by.map(Path::parse).transpose()?,
            run: run.transpose()?,
            secret,
            is_beside: rule.from.is_some(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether a handle is of this run; `None`: the rule can't tell. It is judged as it is, not by what stands for a secret one.
    pub(super) fn made(&self, handle: &str, run: Option<&str>) -> Option<bool> {
        let pattern = self.run.as_ref();
        pattern.map(|pattern| is_of_run(pattern, handle, run))
    }

    /// Returns the handle that an object shows; what can't be judged shows none.
    fn shown_by(&self, object: &Value, run: Option<&str>) -> Result<Option<Shown>, Error> {
        let valid = self.valid.as_ref();
        if !valid.is_none_or(|valid| valid.holds(object).unwrap_or(false)) {
            return Ok(None);
        }
        let Some(value) = text_at(object, &self.path)? else {
            return Ok(None);
        };
        if self.made(&value, run) == Some(false) {
            return Ok(None);
        }
        let at = self.newest_by.as_ref().and_then(|path| time_at(object, path));
        let value = shown(self.secret, value);
        let disposed = self.disposed.as_ref();
        // Where that can't be told, it may be.
        let disposed = disposed.is_some_and(|disposed| disposed.holds(object).unwrap_or(true));
        Ok(Some(Shown { value, at, disposed }))
    }

    /// Returns the newest handle among objects beside the copy. One that doesn't say when it was saved may be any.
    fn newest_of(&self, objects: &[Value], copy: &Value, run: Option<&str>) -> Option<Shown> {
        let of_copy = objects.iter().filter(|object| is_later(object, copy));
        let stays = |object: &&Value| object.pointer("/metadata/deletionTimestamp").is_none();
        of_copy
            .filter(stays)
            .filter_map(|object| self.shown_by(object, run).ok().flatten())
            .filter(|shown| shown.at.is_some())
            .max_by(|one, other| (one.at, &one.value).cmp(&(other.at, &other.value)))
    }
}

/// Returns the newest handles of a copy. `run`: its run's id; `beside`: the objects of each rule that is about others, where they were
/// seen.
pub(super) fn newest(
    rules: &[KnownRule],
    copy: &Value,
    run: Option<&str>,
    beside: &BTreeMap<usize, &[Value]>,
) -> Result<Newest, Error> {
    let mut best: BTreeMap<&str, Shown> = BTreeMap::new();
    let mut unseen = BTreeSet::new();
    for (index, rule) in rules.iter().enumerate() {
        let before = best.get(rule.name.as_str());
        // Nothing outdoes one that has no time, and one without a time outdoes nothing.
        if before.is_some_and(|before| before.at.is_none() || rule.newest_by.is_none()) {
            continue;
        }
        let before = before.and_then(|before| before.at);
        let shown = match (rule.is_beside, beside.get(&index)) {
            (false, _) => rule.shown_by(copy, run)?,
            (true, Some(objects)) => rule.newest_of(objects, copy, run),
            (true, None) => {
                unseen.insert(index);
                None
            }
        };
        if let Some(shown) = shown
            && before.is_none_or(|before| shown.at.is_some_and(|at| at > before))
        {
            best.insert(&rule.name, shown);
        }
    }
    let mut newest = Newest {
        unseen,
        ..Newest::default()
    };
    for (name, shown) in best {
        if let Some(at) = shown.at {
            newest.saved.insert(name.to_owned(), at);
        }
        if shown.disposed {
            newest.disposed.insert(name.to_owned());
        }
        newest.values.insert(name.to_owned(), shown.value);
    }
    Ok(newest)
}

/// An object of an earlier copy of the same name says nothing of this one.
fn is_later(object: &Value, copy: &Value) -> bool {
    let created = |object: &Value| {
        let created = object.pointer("/metadata/creationTimestamp")?.as_str()?;
        created.parse::<Timestamp>().ok()
    };
    created(object)
        .zip(created(copy))
        .is_some_and(|(object, copy)| object > copy)
}

fn is_of_run(pattern: &Regex, handle: &str, run: Option<&str>) -> bool {
    let found = pattern.captures(handle).and_then(|captures| captures.get(1));
    let begins = found
        .map(|found| found.as_str())
        .filter(|begins| !begins.is_empty());
    run.zip(begins)
        .is_some_and(|(run, begins)| run.starts_with(begins))
}

fn time_at(object: &Value, path: &Path) -> Option<Timestamp> {
    let text = text_at(object, path).ok()??;
    match text.parse::<i64>() {
        Ok(millis) => Timestamp::from_millisecond(millis).ok(),
        Err(_) => text.parse().ok(),
    }
}

/// Compiles a regular expression of one group, within the limits of those in expressions.
fn group_pattern(source: &str) -> Result<Regex, String> {
    let pattern = pattern(source)?;
    match pattern.captures_len() {
        2 => Ok(pattern),
        groups => Err(format!(
            "the regular expression has {} groups: it needs one, for what the runId begins with",
            groups.saturating_sub(1)
        )),
    }
}

/// Returns what is wrong with rules beside their expressions and paths, by where it stands.
pub(super) fn mistakes(spec: &WorkloadProfileSpec) -> impl Iterator<Item = Mistake> {
    let rules = spec.last_known.iter().enumerate();
    rules.flat_map(|(index, rule)| {
        let mistake = |field: &str, message: String| Mistake {
            pointer: format!("/spec/lastKnown/{index}/{field}"),
            message,
        };
        let selector = rule.from.as_ref();
        let selector = selector.and_then(|from| labels::check(&from.label_selector).err());
        let selector = selector.map(|message| mistake("from/labelSelector", message));
        let run = rule.run_pattern.as_deref().and_then(|source| {
            let no_run = || "it is compared with runId, which the profile does not have".to_owned();
            group_pattern(source)
                .err()
                .or_else(|| spec.run_id.is_none().then(no_run))
        });
        let run = run.map(|message| mistake("runPattern", message));
        selector.into_iter().chain(run)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::profile::{Profile, built_in};

    /// Of the built-in profile of Flink: the rule about its snapshots.
    const SNAPSHOTS: usize = 2;
    const RUN: &str = "b1ea3c5d00000000000000000000000a";

    fn flink() -> Profile {
        Profile::compile("flink", &built_in().unwrap()[0].spec).unwrap()
    }

    fn copy() -> Value {
        json!({
            "metadata": {"name": "orders", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"jobStatus": {
                "state": "RUNNING", "jobId": RUN, "upgradeSavepointPath": "s3://from/savepoint-aaaaaa-000000000001",
            }},
        })
    }

    fn path(run: &str) -> String {
        format!("s3://state/savepoint-{run}-000000000002")
    }

    fn snapshot(path: &str, at: &str) -> Value {
        json!({
            "metadata": {"name": "orders-savepoint-periodic-1", "creationTimestamp": "2026-01-01T01:00:00Z"},
            "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "orders"}, "savepoint": {"disposeOnDelete": false}},
            "status": {"state": "COMPLETED", "path": path, "resultTimestamp": at},
        })
    }

    fn known(copy: &Value, snapshots: &[Value]) -> String {
        let beside = BTreeMap::from([(SNAPSHOTS, snapshots)]);
        let newest = flink().last_known(copy, &beside).unwrap();
        assert_eq!(newest.unseen, BTreeSet::new());
        newest.values["savepoint"].clone()
    }

    fn own() -> String {
        known(&copy(), &[])
    }

    #[test]
    fn the_newest_complete_savepoint_of_the_run_is_the_newest_state() {
        let own = own();
        assert_eq!(own, "s3://from/savepoint-aaaaaa-000000000001");
        let older = snapshot("s3://state/savepoint-b1ea3c-000000000003", "2026-01-01T01:00:00Z");
        let newer = snapshot(&path("b1ea3c"), "2026-01-01T02:00:00Z");
        assert_eq!(known(&copy(), &[older.clone(), newer.clone()]), path("b1ea3c"));
        assert_eq!(known(&copy(), &[newer, older]), path("b1ea3c"));
    }

    type Change = fn(&mut Value);

    #[test]
    fn what_is_not_known_to_be_a_state_of_this_run_does_not_count() {
        let good = || snapshot(&path("b1ea3c"), "2026-01-01T02:00:00Z");
        let cases: [(&str, Change); 9] = [
            ("failed", |object| object["status"]["state"] = json!("FAILED")),
            ("abandoned", |object| {
                object["status"]["state"] = json!("ABANDONED");
            }),
            ("no status", |object| object["status"] = Value::Null),
            ("of another run", |object| {
                object["status"]["path"] = json!(path("c2fb4d"));
            }),
            ("a path that says no run", |object| {
                object["status"]["path"] = json!("s3://state/mine");
            }),
            ("a checkpoint, which Flink deletes by itself", |object| {
                object["spec"] = json!({"checkpoint": {}});
            }),
            ("one that somebody had before", |object| {
                object["spec"]["savepoint"]["alreadyExists"] = json!(true);
            }),
            ("of an earlier copy of the name", |object| {
                object["metadata"]["creationTimestamp"] = json!("2025-12-31T00:00:00Z");
            }),
            ("being deleted, and disposed of", |object| {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T03:00:00Z");
            }),
        ];
        for (what, change) in cases {
            let mut object = good();
            change(&mut object);
            assert_eq!(known(&copy(), &[object]), own(), "{what}");
        }
        let mut timeless = good();
        timeless["status"]["resultTimestamp"] = Value::Null;
        assert_eq!(known(&copy(), &[timeless]), own());
        let mut nameless = copy();
        nameless["status"]["jobStatus"]["jobId"] = Value::Null;
        assert_eq!(known(&nameless, &[good()]), own());
    }

    #[test]
    fn a_job_that_has_ended_leaves_something_newer() {
        let mut ended = copy();
        ended["status"]["jobStatus"]["state"] = json!("FAILED");
        ended["status"]["jobStatus"]["upgradeSavepointPath"] = json!("s3://checkpoints/chk-9");
        let snapshot = snapshot(&path("b1ea3c"), "2026-01-01T02:00:00Z");
        assert_eq!(known(&ended, &[snapshot]), "s3://checkpoints/chk-9");
        assert_eq!(
            flink().last_known(&ended, &BTreeMap::new()).unwrap().unseen,
            BTreeSet::new(),
            "nothing else could be newer"
        );
    }

    #[test]
    fn of_what_the_status_and_a_snapshot_show_the_newer_one_is_taken_and_the_status_where_they_are_equal() {
        let mut both = copy();
        let last = "s3://state/savepoint-b1ea3c-0000000000ff";
        // 2026-01-01T02:00:00Z.
        both["status"]["jobStatus"]["savepointInfo"] =
            json!({"lastSavepoint": {"location": last, "timeStamp": 1_767_232_800_000_i64}});
        let at = |time: &str| known(&both, &[snapshot(&path("b1ea3c"), time)]);
        assert_eq!(at("2026-01-01T01:59:59Z"), last);
        assert_eq!(at("2026-01-01T02:00:00Z"), last);
        assert_eq!(at("2026-01-01T02:00:01Z"), path("b1ea3c"));
        // One from before the run, which the operator never takes away, is older than what the run was started from.
        both["status"]["jobStatus"]["savepointInfo"]["lastSavepoint"]["location"] = json!(path("c2fb4d"));
        assert_eq!(known(&both, &[]), own());
    }

    #[test]
    fn a_savepoint_that_goes_with_its_object_counts_and_is_known_to_be_one() {
        let disposed = |dispose: Value| {
            let mut object = snapshot(&path("b1ea3c"), "2026-01-01T02:00:00Z");
            object["spec"]["savepoint"]["disposeOnDelete"] = dispose;
            let snapshots = [object];
            let newest = flink().last_known(&copy(), &BTreeMap::from([(SNAPSHOTS, &snapshots[..])]));
            let newest = newest.unwrap();
            assert_eq!(newest.values["savepoint"], path("b1ea3c"));
            newest.disposed.contains("savepoint")
        };
        assert!(disposed(json!(true)));
        assert!(!disposed(json!(false)));
        // Of another form it can't be told.
        assert!(disposed(json!("no")));
        let mut object = snapshot(&path("b1ea3c"), "2026-01-01T02:00:00Z");
        object["spec"]["savepoint"] = json!({});
        let snapshots = [object];
        let newest = flink().last_known(&copy(), &BTreeMap::from([(SNAPSHOTS, &snapshots[..])]));
        assert!(
            newest.unwrap().disposed.contains("savepoint"),
            "that is the default"
        );
    }

    #[test]
    fn objects_that_were_not_seen_leave_it_open_whether_there_is_a_newer_one() {
        let newest = flink().last_known(&copy(), &BTreeMap::new()).unwrap();
        assert_eq!(newest.values["savepoint"], own());
        assert_eq!(newest.unseen, BTreeSet::from([SNAPSHOTS]));
    }

    #[test]
    fn a_rule_that_could_never_find_anything_is_a_mistake() {
        let mut spec = built_in().unwrap()[0].spec.clone();
        assert_eq!(mistakes(&spec).count(), 0);
        spec.run_id = None;
        let pointers = |spec: &WorkloadProfileSpec| -> Vec<String> {
            mistakes(spec).map(|mistake| mistake.pointer).collect()
        };
        assert_eq!(
            pointers(&spec),
            ["/spec/lastKnown/1/runPattern", "/spec/lastKnown/2/runPattern"]
        );
        let mut spec = built_in().unwrap()[0].spec.clone();
        for pattern in ["savepoint-[0-9a-f]{6}", "(a)(b)", "("] {
            spec.last_known[SNAPSHOTS].run_pattern = Some(pattern.to_owned());
            assert_eq!(pointers(&spec), ["/spec/lastKnown/2/runPattern"], "{pattern}");
            assert!(Profile::compile("mine", &spec).is_err(), "{pattern}");
        }
        spec.last_known[SNAPSHOTS].run_pattern = None;
        for selector in ["job=${object.metadata.name}", "job in (", ""] {
            spec.last_known[SNAPSHOTS].from.as_mut().unwrap().label_selector = selector.to_owned();
            assert_eq!(
                pointers(&spec),
                ["/spec/lastKnown/2/from/labelSelector"],
                "{selector:?}"
            );
        }
    }
}
