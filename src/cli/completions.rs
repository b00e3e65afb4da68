//! `cutover completions`: for the shell's tab key.

use std::process::ExitCode;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::output;
use cutover_core::error::Result;

#[derive(Args, Debug)]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self) -> Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::Cli::command(), "cutover", &mut script);
        output::raw(String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
