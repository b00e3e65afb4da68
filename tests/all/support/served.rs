//! An API server with Karmada's kinds and nobody behind them, on a port of its own, and the program as users run it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use cutover::sandbox::api::{ApiServer, Options};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::task::AbortOnDropHandle;

use super::real::{in_background, spawn_in_background};
use super::server::{On, Server};
use super::terminal::Terminal;

pub struct Served {
    pub server: Server,
    pub dir: TempDir,
    /// With it the server ends, and what it has in memory goes.
    _serving: Option<AbortOnDropHandle<()>>,
}

impl Served {
    /// Starts one that has cutover's kinds too.
    pub fn on(on: On) -> Self {
        match on.server() {
            Server::Sandbox(server) => Self::sandbox(server, "nobody-asks"),
            server @ Server::Kube(_) => {
                let dir = tempfile::tempdir().unwrap();
                std::fs::copy(server.kubeconfig(), dir.path().join("kubeconfig")).unwrap();
                Self {
                    server,
                    dir,
                    _serving: None,
                }
            }
        }
    }

    /// Starts one on the sandbox; `token` is what the kubeconfig says who we are by.
    pub fn start(token: &str) -> Self {
        Self::sandbox(On::Sandbox.server().sandbox().clone(), token)
    }

    /// Starts one to which cutover has not been introduced.
    pub fn before_cutover() -> Self {
        let server = ApiServer::new(Options::new("karmada", 1));
        for crd in cutover::sandbox::world::crds::control_plane() {
            server.install(&crd).unwrap();
        }
        Self::sandbox(server, "nobody-asks")
    }

    /// Starts one that is not Karmada's.
    pub fn bare() -> Self {
        Self::sandbox(ApiServer::new(Options::new("host", 1)), "nobody-asks")
    }

    fn sandbox(server: ApiServer, token: &str) -> Self {
        let listener = in_background(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.clone();
        let serving = spawn_in_background(async move {
            let _ = serving.serve(listener, "system:admin").await;
        });
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(dir.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self {
            server: Server::from(server),
            dir,
            _serving: Some(AbortOnDropHandle::new(serving)),
        }
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// Runs the program with this API server. Repositories are mirrored in a directory of the test's own.
    pub fn cutover(&self, arguments: &[&str]) -> Output {
        self.cutover_with(arguments, &[])
    }

    pub fn cutover_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
        let mut command = self.command(arguments);
        command.envs(environment.iter().copied());
        command.output().unwrap()
    }

    /// Starts the program, to read what it prints line by line.
    pub fn follow(&self, arguments: &[&str]) -> Followed {
        let mut child = self.command(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Followed { child, lines }
    }

    /// Starts the program with stderr on a terminal that people look at, whatever the environment of the tests says.
    pub fn on_terminal(
        &self,
        arguments: &[&str],
        stdout: Stdio,
        terminal: &Terminal,
        environment: &[(&str, &str)],
    ) -> Child {
        let mut command = self.command(arguments);
        command
            .env_remove("CI")
            .env_remove("NO_COLOR")
            .env("TERM", "xterm")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(terminal.output());
        command.spawn().unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutover"));
        command
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("CUTOVER_STATE_DIR", self.dir.path().join("state"))
            .env("HOME", "/nonexistent");
        command
    }
}

/// The program at work, whose lines are read as they come. Dropped, it is killed.
pub struct Followed {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Followed {
    /// Waits for the next line; an empty one after the last.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line
    }

    /// Waits for its end.
    pub fn code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn as_text(path: &Path) -> &str {
    path.to_str().unwrap()
}
