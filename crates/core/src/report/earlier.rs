//! How long earlier migrations stopped what they moved, from the history on the status branch.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use crate::units::duration;
use cutover_karmada::name::ObjectKey;

/// So many of the latest moves are looked at.
const LATEST: usize = 3;

/// The migrations that have completed.
#[derive(Clone, Debug, Default)]
pub struct History(Vec<Completed>);

/// A line of the history, as far as it matters here; other lines and fields are of no concern.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Completed {
    kind: String,
    namespace: String,
    /// Kind and name.
    workload: String,
    phase: String,
    finished_at: Timestamp,
    downtime_ms: u64,
}

/// How long earlier moves stopped what they moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Earlier {
    /// The kind of the workloads that were moved; `None`: it was the same workload.
    kind: Option<String>,
    /// In milliseconds, of the latest moves; never empty.
    millis: Vec<u64>,
}

impl History {
    /// Adds the lines of a file of the history. What can't be read is left out.
    pub fn add(&mut self, file: &[u8]) {
        let lines = file.split(|byte| *byte == b'\n');
        let read = lines.filter_map(|line| serde_json::from_slice::<Completed>(line).ok());
        self.0
            .extend(read.filter(|line| line.kind == "Migration" && line.phase == "Completed"));
        self.0.sort_by_key(|line| line.finished_at);
    }

    /// Returns how long the latest moves of a workload took, else those of others of its kind; `None` without any.
    pub fn of(&self, workload: &ObjectKey) -> Option<Earlier> {
        let named = format!("{} {}", workload.kind, workload.name);
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        let own = self.latest(|line| line.namespace == namespace && line.workload == named);
        if let Some(millis) = own {
            return Some(Earlier { kind: None, millis });
        }
        let is_kind = |line: &Completed| {
            let kind = line.workload.split_once(' ').map(|(kind, _)| kind);
            kind == Some(workload.kind.as_str())
        };
        let millis = self.latest(is_kind)?;
        Some(Earlier {
            kind: Some(workload.kind.clone()),
            millis,
        })
    }

    fn latest(&self, is_meant: impl Fn(&Completed) -> bool) -> Option<Vec<u64>> {
        let meant = self.0.iter().rev().filter(|line| is_meant(line));
        let millis: Vec<u64> = meant.take(LATEST).map(|line| line.downtime_ms).collect();
        (!millis.is_empty()).then_some(millis)
    }
}

impl Earlier {
    /// Says it in a sentence.
    pub fn described(&self) -> String {
        let took = format!("took {} of downtime", self.range());
        match (&self.kind, self.millis.len()) {
            (None, 1) => format!("Its last completed move {took}."),
            (None, moves) => format!("Its last {moves} completed moves {took}."),
            (Some(kind), 1) => {
                format!("No completed move of it is on record; the last one of another {kind} {took}.")
            }
            (Some(kind), moves) => {
                format!("No completed move of it is on record; the last {moves} of other {kind}s {took}.")
            }
        }
    }

    fn range(&self) -> String {
        let text = |millis: Option<&u64>| {
            let millis = millis.copied().unwrap_or_default();
            duration(SignedDuration::from_millis(
                i64::try_from(millis).unwrap_or(i64::MAX),
            ))
        };
        let (least, most) = (text(self.millis.iter().min()), text(self.millis.iter().max()));
        if least == most {
            least
        } else {
            format!("between {least} and {most}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(name: &str) -> ObjectKey {
        ObjectKey {
            group: "flink.apache.org".to_owned(),
            kind: "FlinkDeployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        }
    }

    fn line(name: &str, day: u32, more: &str) -> String {
        format!(
            "{{\"version\":1,\"kind\":\"Migration\",\"namespace\":\"shop\",\"name\":\"m\",\"uid\":\"u\",\"attempt\":1,\
             \"workload\":\"FlinkDeployment {name}\",\"from\":\"east\",\"to\":\"west\",\
             \"finishedAt\":\"2030-01-{day:02}T06:00:00Z\",{more}}}\n"
        )
    }

    fn completed(name: &str, day: u32, downtime: u64) -> String {
        line(
            name,
            day,
            &format!("\"phase\":\"Completed\",\"downtimeMs\":{downtime}"),
        )
    }

    #[test]
    fn the_latest_moves_of_the_same_workload_say_what_to_expect() {
        let mut history = History::default();
        let file = [
            completed("orders", 4, 58_300),
            completed("orders", 1, 900_000),
            completed("orders", 2, 41_000),
            completed("orders", 3, 50_000),
            completed("payments", 5, 1_000),
            line("orders", 6, "\"phase\":\"RolledBack\",\"downtimeMs\":7"),
            line("orders", 7, "\"phase\":\"Completed\""),
            "not JSON\n".to_owned(),
        ];
        history.add(file.concat().as_bytes());
        let told = |name: &str| history.of(&workload(name)).unwrap().described();
        assert_eq!(
            told("orders"),
            "Its last 3 completed moves took between 41.0 s and 58.3 s of downtime."
        );
        assert_eq!(
            told("payments"),
            "Its last completed move took 1.0 s of downtime."
        );
    }

    #[test]
    fn a_workload_that_never_moved_is_compared_with_others_of_its_kind_or_with_nothing() {
        let mut history = History::default();
        assert_eq!(history.of(&workload("orders")), None);
        history.add(completed("payments", 5, 1_000).as_bytes());
        assert_eq!(
            history.of(&workload("orders")).unwrap().described(),
            "No completed move of it is on record; the last one of another FlinkDeployment took 1.0 s of downtime."
        );
        let mut other = workload("orders");
        other.kind = "StatefulSet".to_owned();
        assert_eq!(history.of(&other), None);
    }
}
