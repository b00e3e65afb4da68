//! The flags of every command: colour, how much is logged and how.

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

use anstream::ColorChoice;
use clap::{ArgAction, Args, ValueEnum};
use tracing::field::Field;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use super::progress;
use cutover_base::budget::{Budget, Setting};
use cutover_base::escape;
use cutover_core::redact;

#[derive(Args, Debug)]
pub struct Global {
    /// When to use colour; `auto`: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    color: Color,
    /// Show more: uids, markers and names of probes in the output, and log lines on stderr; twice for debugging, three times for
    /// everything. CUTOVER_LOG takes a filter for log lines
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    verbose: u8,
    /// How log lines are written
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Global options"
    )]
    log_format: LogFormat,
    /// Raise a limit on what files may cost; may be repeated (docs/reference/limits.md)
    #[arg(
        long = "budget",
        global = true,
        value_name = "NAME=NUMBER",
        env = "CUTOVER_BUDGET",
        value_delimiter = ',',
        hide_env = true,
        help_heading = "Global options"
    )]
    limits: Vec<Setting>,
}

/// The limits as flags set them; of the whole process, as its flags are.
static BUDGET: OnceLock<Budget> = OnceLock::new();

/// Returns what files may cost.
pub fn budget() -> Budget {
    BUDGET.get().copied().unwrap_or_default()
}

/// Whether `--verbose` is given; of the whole process, as its flags are.
static VERBOSE: OnceLock<bool> = OnceLock::new();

/// Returns whether the output shows details that most people don't need: uids, markers, names of probes.
pub fn is_verbose() -> bool {
    VERBOSE.get().copied().unwrap_or_default()
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Global {
    /// Sets colour and logging up for the whole process. `is_lasting`: it works until it is stopped, and says what it does.
    pub fn start(&self, is_lasting: bool) {
        let choice = match self.color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        choice.write_global();
        let limits = self.limits.iter();
        let budget = limits.fold(Budget::default(), |budget, set| budget.with(set.limit, set.value));
        // A second start in one process (tests) keeps the first one's settings.
        let _ = BUDGET.set(budget);
        let _ = VERBOSE.set(self.verbose > 0);
        let level = match self.verbose {
            0 if is_lasting => LASTING,
            // What kube's client says of requests that fail, cutover says in its own words.
            0 => "warn,kube_client=off",
            1 => "warn,kube_client=off,cutover=info",
            2 => "info,cutover=debug",
            _ => "trace",
        };
        let filter = EnvFilter::try_from_env("CUTOVER_LOG").unwrap_or_else(|_| EnvFilter::new(level));
        let safe: fn(&str) -> String = match self.log_format {
            LogFormat::Text => escape::log_line,
            LogFormat::Json => escape::json,
        };
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || Log {
                safe,
                to: std::io::stderr(),
            })
            .with_ansi(false);
        let lines = match self.log_format {
            LogFormat::Text => lines.fmt_fields(debug_fn(text_field)).boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        // Who wants JSON has a program read stderr.
        if matches!(self.log_format, LogFormat::Text) {
            progress::start();
        }
        let quiet = filter_fn(|metadata| !QUOTING.contains(&metadata.target()));
        // A second start in one process (tests) keeps the first one's settings.
        let _ = tracing_subscriber::registry()
            .with(lines.with_filter(filter).with_filter(quiet))
            .try_init();
    }
}

/// What is logged by a reconciler of which nothing else is asked: what it does, but neither the Lease, of which its notes tell, nor
/// each of many deletions, which the line of their pass counts.
const LASTING: &str = "warn,kube_client=off,cutover=info,cutover_controller::reconcile::lease=warn,\
     cutover_controller::reconcile::sync::prune=warn";

/// Fields that a message says itself: for programs, which read records as JSON.
const SAID: [&str; 5] = ["applied", "changed", "deleted", "unchanged", "took_ms"];

/// Writes a field of a record as text: the message, then `name=value`.
fn text_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    match field.name() {
        "message" => write!(writer, "{value:?}"),
        name if SAID.contains(&name) => Ok(()),
        name => write!(writer, " {name}={value:?}"),
    }
}

/// Modules of kube that log bodies and answers as they come, Secrets too. What is to be known of them, `cluster` says.
const QUOTING: [&str; 2] = ["kube_client::client", "kube_runtime::watcher"];

/// Where log records go, without what is recognisable as a credential. A record is written at once, and is one line.
struct Log<W> {
    safe: fn(&str) -> String,
    to: W,
}

impl<W: Write> Write for Log<W> {
    fn write(&mut self, record: &[u8]) -> std::io::Result<usize> {
        let line = (self.safe)(&redact::text(&String::from_utf8_lossy(record)));
        progress::beside(|| self.to.write_all(line.as_bytes()))?;
        Ok(record.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(safe: fn(&str) -> String, json: bool) -> String {
        let kept = Kept::default();
        let to = kept.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || Log { safe, to: to.clone() })
            .with_ansi(false);
        let lines = if json {
            lines.json().boxed()
        } else {
            lines.fmt_fields(debug_fn(text_field)).boxed()
        };
        let subscriber = tracing_subscriber::registry().with(lines);
        tracing::subscriber::with_default(subscriber, || {
            let name = "pa\u{1b}[2J\n2026-01-01 WARN forged\r\u{202e}\u{9b}x";
            tracing::warn!(file = %name, object = ?name, took_ms = 5, "cannot read {name}");
        });
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_reconciler_says_what_it_does_and_nothing_twice() {
        let kept = Kept::default();
        let to = kept.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || Log {
                safe: escape::log_line,
                to: to.clone(),
            })
            .with_ansi(false)
            .with_filter(EnvFilter::new(LASTING));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            tracing::info!(target: "cutover_controller::reconcile::sync::done", "applied 3");
            tracing::info!(target: "cutover_controller::reconcile::intents::worker", "enters");
            tracing::info!(target: "cutover_controller::reconcile::lease", "leading");
            tracing::info!(target: "cutover_controller::reconcile::sync::prune", "pruned");
            tracing::info!(target: "hyper", "connected");
        });
        let said = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let said: Vec<&str> = said.lines().filter_map(|line| line.rsplit(": ").next()).collect();
        assert_eq!(said, ["applied 3", "enters"]);
    }

    #[test]
    fn a_record_is_one_line_whatever_it_quotes() {
        for (line, json) in [
            (logged(escape::log_line, false), false),
            (logged(escape::json, true), true),
        ] {
            let record = line.strip_suffix('\n').unwrap();
            assert!(
                !record.contains(['\n', '\r', '\u{1b}', '\u{9b}', '\u{202e}']),
                "{record:?}"
            );
            assert!(record.contains("cannot read pa"), "{record:?}");
            if json {
                let record: serde_json::Value = serde_json::from_str(record).unwrap();
                assert_eq!(record["fields"]["took_ms"], 5);
            } else {
                assert!(
                    !record.contains("took_ms") && record.contains(" file="),
                    "{record:?}"
                );
            }
        }
    }
}
