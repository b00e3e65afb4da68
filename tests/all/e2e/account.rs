//! What each scenario came to: how it ended, how long each phase took, how many could write.

use std::any::Any;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use super::act::Act;
use super::place::say;

#[derive(Default)]
pub struct Account {
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    /// The phase that was seen last, and the attempt.
    ended: String,
    took: Duration,
    /// In the order in which they were entered first.
    phases: Vec<(String, Duration)>,
    downtime: Option<u64>,
    /// From the last write of a copy to the first of the next, as the ledger has it.
    gaps: i128,
    writers: usize,
    failure: Option<String>,
}

impl Account {
    pub async fn add(&mut self, act: &Act, began: Instant, played: Result<(), Box<dyn Any + Send>>) {
        let took = began.elapsed();
        let status = act.last_status().await;
        let failure = played.err().map(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default()
        });
        let phase = status["phase"].as_str().unwrap_or("never there");
        let verdict = act.verdict();
        let line = Line {
            name: act.name,
            ended: format!("{phase} ({})", status["attempt"].as_u64().unwrap_or_default()),
            took,
            phases: phases(&status),
            downtime: status["downtimeMs"].as_u64(),
            gaps: verdict.gaps.iter().map(|gap| gap.duration().as_millis()).sum(),
            writers: verdict.max_writers_at_once,
            failure,
        };
        let verdict = if line.failure.is_none() { "ok" } else { "FAILED" };
        say(format!(
            "{verdict:<6} {:<15} {:<15} {:>6} ms",
            line.name,
            line.ended,
            line.took.as_millis()
        ));
        self.lines.push(line);
    }

    /// Prints the table: milliseconds, of each phase too.
    pub fn tell(&self) {
        say(format!(
            "\n{:<15} {:<15} {:>7} {:>9} {:>9} {:>8}  phases",
            "ms", "seen last", "took", "downtime", "measured", "writers"
        ));
        for line in &self.lines {
            let downtime = line
                .downtime
                .map_or_else(String::new, |millis| millis.to_string());
            let phases: Vec<_> = line
                .phases
                .iter()
                .map(|(name, took)| format!("{name} {}", took.as_millis()))
                .collect();
            say(format!(
                "{:<15} {:<15} {:>7} {downtime:>9} {:>9} {:>8}  {}",
                line.name,
                line.ended,
                line.took.as_millis(),
                line.gaps,
                line.writers,
                phases.join(" · ")
            ));
        }
    }

    /// Each scenario that failed, and why.
    pub fn failed(&self) -> Vec<String> {
        let failed = self.lines.iter().filter_map(|line| {
            let failure = line.failure.as_ref()?;
            Some(format!("{}: {failure}", line.name))
        });
        failed.collect()
    }
}

/// Sums up the journal's steps; those that count something ("Shifting 1 of 4") are one phase.
fn phases(status: &Value) -> Vec<(String, Duration)> {
    let mut phases: Vec<(String, Duration)> = Vec::new();
    let time = |of: &Value| of.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    for step in status["steps"].as_array().into_iter().flatten() {
        let (Some(name), Some(from)) = (step["name"].as_str(), time(&step["startedAt"])) else {
            continue;
        };
        let until = time(&step["finishedAt"]).unwrap_or_else(Timestamp::now);
        let took = Duration::try_from(until.duration_since(from)).unwrap_or_default();
        let name = name.split(' ').next().unwrap_or(name);
        match phases.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += took,
            None => phases.push((name.to_owned(), took)),
        }
    }
    phases
}
