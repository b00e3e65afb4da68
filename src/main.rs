//! The `cutover` program: parse, telemetry, dispatch, exit code.

use std::process::ExitCode;

use clap::Parser;
use cutover::cli::{self, Cli};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => return cli::usage(&usage),
    };
    cli.global.start();
    match cli.run() {
        Ok(code) => code,
        Err(error) => cli::failed(&error),
    }
}
