//! `cutover completions`: for the shell's tab key.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use super::{complete, help, output};
use cutover_core::error::Result;

#[derive(Args, Debug)]
pub struct Completions {
    shell: Shell,
    /// Print a script that asks this program at each press of the tab key, and so knows the names of clusters, workloads and
    /// intents in the repository of the working directory. Let the shell read it at its start; don't store it
    #[arg(long)]
    dynamic: bool,
}

impl Completions {
    pub fn run(self) -> Result<ExitCode> {
        if self.dynamic {
            output::raw(complete::script(&self.shell.to_string())?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut help::command(), "cutover", &mut script);
        output::raw(String::from_utf8_lossy(&script))?;
        Ok(ExitCode::SUCCESS)
    }
}
