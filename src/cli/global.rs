//! The flags of every command: colour, how much is logged and how.

use anstream::ColorChoice;
use clap::{ArgAction, Args, ValueEnum};
use tracing_subscriber::EnvFilter;

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
        let level = match self.verbose {
            0 => "warn",
            1 => "warn,cutover=info",
            2 => "info,cutover=debug",
            _ => "trace",
        };
        let filter = EnvFilter::try_from_env("CUTOVER_LOG").unwrap_or_else(|_| EnvFilter::new(level));
        let log = tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .with_ansi(false);
        // A second start in one process (tests) keeps the first one's settings.
        let _ = match self.log_format {
            LogFormat::Text => log.try_init(),
            LogFormat::Json => log.json().flatten_event(true).try_init(),
        };
    }
}
