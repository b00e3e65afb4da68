//! The `cutover` program: answer the shell, parse, telemetry, dispatch, exit code.

use std::process::ExitCode;

use cutover::cli::{self, Cli};

fn main() -> ExitCode {
    cli::answer_shell();
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(usage) => return cli::usage(&usage),
    };
    cli.start();
    match cli.run() {
        Ok(code) => code,
        Err(error) => cli::failed(&error),
    }
}
