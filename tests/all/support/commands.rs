//! A clone of a plane's repository and a kubeconfig of its control plane: the program as a person runs it there.

use std::process::{Command, Output};

use cutover::sandbox::World;
use cutover::sandbox::world::Kubeconfigs;
use git2::Repository;
use tempfile::TempDir;

use super::plane::Plane;
use super::served::{stderr, stdout};

pub struct Commands {
    dir: TempDir,
    /// While it is kept, the servers are reached.
    served: Kubeconfigs,
}

impl Commands {
    pub async fn of(world: &World, plane: &Plane) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let served = world
            .serve("127.0.0.1:0".parse().unwrap(), dir.path())
            .await
            .unwrap();
        let origin = plane.origin.path();
        Repository::clone(origin.to_str().unwrap(), dir.path().join("clone")).unwrap();
        Self { dir, served }
    }

    /// Runs a command, its words separated by spaces, which must succeed; returns what it says on stderr.
    pub async fn done(&self, command: &str) -> String {
        let output = self.output(command).await;
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        stderr(&output)
    }

    /// The same with one that must fail.
    pub async fn refused(&self, command: &str) -> String {
        let output = self.output(command).await;
        assert!(!output.status.success(), "{command}");
        stderr(&output)
    }

    /// Returns the commands that the status of an intent prints for a person to run, without `cutover` and without what they cost.
    pub async fn printed(&self, name: &str) -> Vec<String> {
        let output = self.output(&format!("status {name}")).await;
        let text = stdout(&output);
        let lines = text.lines().map(|line| line.trim().trim_start_matches("next: "));
        let commands = lines.filter_map(|line| line.strip_prefix("cutover "));
        commands
            .map(|command| command.split(" (").next().unwrap_or_default().to_owned())
            .collect()
    }

    async fn output(&self, command: &str) -> Output {
        let mut program = Command::new(env!("CARGO_BIN_EXE_cutover"));
        program
            .args(command.split(' '))
            .current_dir(self.dir.path().join("clone"))
            .env("KUBECONFIG", &self.served.control)
            .env("CUTOVER_STATE_DIR", self.dir.path().join("state"))
            .env("HOME", "/nonexistent");
        // What it asks is answered by tasks of this runtime.
        tokio::task::spawn_blocking(move || program.output().unwrap())
            .await
            .unwrap()
    }
}
