//! What each scenario came to: how it ended, how long each phase took, how many could write.

use std::any::Any;
use std::collections::BTreeMap;
use std::time::Duration;

use cutover::api::{MigrationStatus, Phase};
use jiff::Timestamp;

use super::place::say;
use super::stage::Act;

const PHASES: [Phase; 8] = [
    Phase::Preflight,
    Phase::Hold,
    Phase::Expand,
    Phase::Capture,
    Phase::Handoff,
    Phase::Verify,
    Phase::Cleanup,
    Phase::RollingBack,
];

#[derive(Default)]
pub struct Account {
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    ended: String,
    phases: BTreeMap<String, Duration>,
    downtime: Option<u64>,
    writers: usize,
    failure: Option<String>,
}

impl Account {
    pub async fn add(&mut self, act: &Act, played: Result<(), Box<dyn Any + Send>>) {
        let status: MigrationStatus = serde_json::from_value(act.status().await).unwrap_or_default();
        let last = status.attempt;
        let mut phases = BTreeMap::new();
        for step in &status.steps {
            let until = step.finished_at.unwrap_or_else(Timestamp::now);
            let took = Duration::try_from(until.duration_since(step.started_at)).unwrap_or_default();
            *phases.entry(step.name.clone()).or_default() += took;
        }
        let failure = played.err().map(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default()
        });
        let line = Line {
            name: act.name,
            ended: format!("{} ({last})", status.phase),
            phases,
            downtime: status.downtime_ms,
            writers: act.verdict().max_writers_at_once,
            failure,
        };
        let verdict = if line.failure.is_none() { "ok" } else { "FAILED" };
        say(format!("{verdict:<6} {:<15} {}", line.name, line.ended));
        self.lines.push(line);
    }

    /// Prints the table: milliseconds a phase.
    pub fn tell(&self) {
        let mut head = format!("\n{:<15} {:<14}", "ms", "ended");
        for phase in PHASES {
            head += &format!(" {:>11}", phase.name());
        }
        say(head + "    downtime  writers at once");
        for line in &self.lines {
            let mut row = format!("{:<15} {:<14}", line.name, line.ended);
            for phase in PHASES {
                let took = line.phases.get(phase.name());
                row += &format!(
                    " {:>11}",
                    took.map_or_else(String::new, |took| took.as_millis().to_string())
                );
            }
            let downtime = line
                .downtime
                .map_or_else(String::new, |millis| millis.to_string());
            say(format!("{row} {downtime:>11} {:>16}", line.writers));
        }
    }

    pub fn failed(&self) -> Vec<String> {
        let failed = self.lines.iter().filter_map(|line| {
            let failure = line.failure.as_ref()?;
            Some(format!("{}: {failure}", line.name))
        });
        failed.collect()
    }
}
