//! The flags of every command: colour, how much is logged and how.

use std::io::Write;
use std::sync::OnceLock;

use anstream::ColorChoice;
use clap::{ArgAction, Args, ValueEnum};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::budget::{Budget, Setting};
use crate::redact;

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
    /// Log more to stderr; twice for debugging, three times for everything. CUTOVER_LOG takes a filter
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
    /// Raise a limit on what files may cost; may be repeated (docs/limits.md)
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

/// What the flags say of limits; of the whole process, as its flags are.
static BUDGET: OnceLock<Budget> = OnceLock::new();

/// Returns what files may cost.
pub fn budget() -> Budget {
    BUDGET.get().copied().unwrap_or_default()
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
    /// Sets colour and logging up for the whole process.
    pub fn start(&self) {
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
        let level = match self.verbose {
            // What kube's client says of requests that fail, cutover says in its own words.
            0 => "warn,kube_client=off",
            1 => "warn,kube_client=off,cutover=info",
            2 => "info,cutover=debug",
            _ => "trace",
        };
        let filter = EnvFilter::try_from_env("CUTOVER_LOG").unwrap_or_else(|_| EnvFilter::new(level));
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(|| Redacted)
            .with_ansi(false);
        let lines = match self.log_format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        let quiet = filter_fn(|metadata| !QUOTING.contains(&metadata.target()));
        // A second start in one process (tests) keeps the first one's settings.
        let _ = tracing_subscriber::registry()
            .with(lines.with_filter(filter).with_filter(quiet))
            .try_init();
    }
}

/// Modules of kube that log bodies and answers as they come, Secrets too. What is to be known of them, `cluster` says.
const QUOTING: [&str; 2] = ["kube_client::client", "kube_runtime::watcher"];

/// Stderr, without what is recognisable as a credential. A line is written as one.
struct Redacted;

impl Write for Redacted {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        std::io::stderr()
            .lock()
            .write_all(redact::text(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}
