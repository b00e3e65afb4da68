//! How the demo tells its story, and refuses to claim what it has not seen.

use anstyle::{AnsiColor, Style};

use crate::cli::output;
use cutover_core::error::{Error, Result};
use cutover_core::units::duration;
use cutover_sandbox::ledger::{Run, Verdict};

pub const TITLE: Style = Style::new().bold();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const BAD: Style = AnsiColor::Yellow.on_default().bold();
pub const QUIET: Style = Style::new().dimmed();
const COMMAND: Style = AnsiColor::Cyan.on_default();

pub fn apply(line: impl AsRef<str>) -> Result<()> {
    output::data(format!("{}\n", line.as_ref()))
}

pub fn command(line: &str) -> Result<()> {
    apply(format!("  {COMMAND}$ {line}{COMMAND:#}"))
}

pub fn done(what: impl AsRef<str>) -> Result<()> {
    apply(format!("  {GOOD}✓ {}{GOOD:#}", what.as_ref()))
}

/// Shows a file that is about to be pushed, as it is.
pub fn file(path: &str, text: &str) -> Result<()> {
    apply(format!("  {GOOD}+ {path}{GOOD:#}"))?;
    for line in text.lines() {
        apply(format!("      {QUIET}{line}{QUIET:#}"))?;
    }
    Ok(())
}

/// Says what has gone wrong, as it was meant to.
pub fn trouble(what: impl AsRef<str>) -> Result<()> {
    apply(format!("  {BAD}! {}{BAD:#}", what.as_ref()))
}

/// Fails the demo when what it is about to claim was not observed.
pub fn check(observed: bool, claim: &str) -> Result<()> {
    if observed { Ok(()) } else { Err(not_seen(claim)) }
}

pub fn not_seen(claim: &str) -> Error {
    Error::internal(format!("the demo expects that {claim}; that was not observed"))
}

/// Shows every copy that could write since a run began, whatever anybody's status says, and judges.
pub fn ledger(verdict: &Verdict, since: &Run) -> Result<()> {
    apply("  The sandbox's ledger of every copy that could write:")?;
    let runs = verdict.runs.iter().filter(|run| run.workload == since.workload);
    for run in runs.filter(|run| run.from >= since.from) {
        let until = match run.until {
            Some(until) => duration(until.duration_since(run.from)),
            None => "until now".to_owned(),
        };
        let origin = &run.restored_from;
        let cluster = run.writer.cluster.as_str();
        apply(format!(
            "    {cluster:<6} {until:>9}  {QUIET}from {origin}{QUIET:#}"
        ))?;
    }
    let open = verdict.runs.iter().filter(|run| run.until.is_none());
    check(
        open.filter(|run| run.workload == since.workload).count() == 1,
        "one copy of the job runs",
    )?;
    check(
        verdict.max_writers_at_once == 1,
        "there was never more than one writer",
    )?;
    check(verdict.is_clean(), "no state was lost")?;
    done("writers at once: never more than 1; state lost: none")
}
