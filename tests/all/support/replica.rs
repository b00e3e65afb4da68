//! The real program as a process, on a sandbox that this process serves and can look into.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cutover::api;
use cutover::repo::RemoteUrl;
use cutover::sandbox::api::{ListOptions, Object, Resource};
use cutover::sandbox::world::Kubeconfigs;
use cutover::sandbox::{World, WorldOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::git::Origin;
use super::wait::wait_for;

pub const LEASES: Resource = Resource::new("coordination.k8s.io", "leases");
pub const CONFIG_MAPS: Resource = Resource::new("", "configmaps");
/// How long anything may take before a test gives up, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);
/// What the leases of these tests last.
pub const LEASE: Duration = Duration::from_secs(3);

/// A sandbox with cutover's kinds, served over HTTP, and a repository.
pub struct Stage {
    pub world: World,
    pub origin: Origin,
    dir: TempDir,
    kubeconfigs: Kubeconfigs,
}

impl Stage {
    pub async fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let world = World::start(WorldOptions {
            service_accounts: vec!["flink".to_owned()],
            ..WorldOptions::fast()
        });
        for crd in api::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            world.control_plane().install(&crd).unwrap();
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let kubeconfigs = world.serve(address, dir.path()).await.unwrap();
        Self {
            world,
            origin: Origin::with(files),
            dir,
            kubeconfigs,
        }
    }

    /// Returns where the API server listens.
    pub fn address(&self) -> SocketAddr {
        let server = &self.control()["clusters"][0]["cluster"]["server"];
        let server = server.as_str().unwrap().trim_start_matches("http://");
        server.trim_end_matches('/').parse().unwrap()
    }

    /// Starts `cutover run`; the sandbox knows its requests by the name.
    pub fn start(&self, name: &str) -> Replica {
        self.start_at(name, self.address())
    }

    /// Starts `cutover run` of another program.
    pub fn start_program(&self, program: &Path, name: &str) -> Replica {
        self.run(
            program,
            name,
            self.address(),
            self.origin.path().as_ref(),
            &[],
            None,
        )
    }

    /// Starts `cutover run` with an API server that is somewhere else.
    pub fn start_at(&self, name: &str, server: SocketAddr) -> Replica {
        self.start_at_with(name, server, &[])
    }

    /// Starts `cutover run` with an API server that is somewhere else, and more arguments.
    pub fn start_at_with(&self, name: &str, server: SocketAddr, more: &[&str]) -> Replica {
        self.run(own(), name, server, self.origin.path().as_ref(), more, None)
    }

    /// Starts `cutover run` with a repository that is reached in another way, more arguments, and no more descriptors than this.
    pub fn start_with(&self, name: &str, repo: &RemoteUrl, more: &[&str], descriptors: u32) -> Replica {
        self.run(
            own(),
            name,
            self.address(),
            repo.to_string().as_ref(),
            more,
            Some(descriptors),
        )
    }

    fn run(
        &self,
        program: &Path,
        name: &str,
        server: SocketAddr,
        repo: &OsStr,
        more: &[&str],
        descriptors: Option<u32>,
    ) -> Replica {
        let log = self.dir.path().join(format!("{name}.log"));
        let output = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let mut command = match descriptors {
            Some(descriptors) => {
                let mut shell = Command::new("sh");
                let limited = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
                shell.arg("-c").arg(limited).arg(program);
                shell
            }
            None => Command::new(program),
        };
        let child = command
            .args(["-v", "run", "--lease-duration", "3s", "--repo"])
            .arg(repo)
            .args(more)
            .arg("--kubeconfig")
            .arg(self.kubeconfig(name, server))
            .arg("--state-dir")
            .arg(self.dir.path().join(format!("state-{name}")))
            .env_remove("KUBECONFIG")
            .env_remove("CUTOVER_LOG")
            .env("HOSTNAME", name)
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        Replica { child, log }
    }

    /// Returns a directory for what a test needs beside the repository.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a kubeconfig in somebody's name.
    pub fn kubeconfig(&self, name: &str, server: SocketAddr) -> PathBuf {
        let mut config = self.control();
        config["clusters"][0]["cluster"]["server"] = json!(format!("http://{server}"));
        config["users"] = json!([{"name": "admin", "user": {"as": name}}]);
        let path = self.dir.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    fn control(&self) -> Value {
        let text = std::fs::read_to_string(&self.kubeconfigs.control).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the name of the replica that holds the lease.
    pub fn leader(&self) -> Option<String> {
        let server = self.world.control_plane();
        let lease = server.get(&LEASES, Some(api::OWN_NAMESPACE), "cutover").ok()?;
        let holder = lease["spec"]["holderIdentity"].as_str()?;
        Some(holder.split('_').next().unwrap().to_owned())
    }

    pub fn objects(&self, resource: &Resource) -> Vec<Object> {
        let server = self.world.control_plane();
        server
            .list(resource, Some("shop"), &ListOptions::default())
            .unwrap()
            .items
    }

    /// Returns how many writes of a replica the server was sent, those of the election left out.
    pub fn writes(&self, name: &str) -> u64 {
        self.world
            .traffic()
            .count(|asked| asked.user == name && asked.is_write() && asked.resource != "leases")
    }

    pub fn status(&self) -> Option<String> {
        self.origin.read("cutover-status", "status.yaml")
    }

    /// Waits for something, and returns how long that took.
    pub async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Duration {
        let wait = wait_for(what).within(PATIENCE);
        wait.until_or(|| holds(self), || self.logs()).await
    }

    pub async fn leads(&self, name: &str) -> Duration {
        self.until(&format!("{name} leads"), |stage| {
            stage.leader().as_deref() == Some(name)
        })
        .await
    }

    fn logs(&self) -> String {
        let mut text = String::new();
        for entry in std::fs::read_dir(self.dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "log") {
                let _ = writeln!(
                    text,
                    "{}:\n{}",
                    path.display(),
                    std::fs::read_to_string(&path).unwrap()
                );
            }
        }
        text
    }
}

/// The program that is tested.
pub fn own() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_cutover"))
}

/// A process; dropped, it is killed.
pub struct Replica {
    child: Child,
    log: PathBuf,
}

impl Replica {
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status().unwrap();
        assert!(status.success());
    }

    /// kill -9; returns when the process is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the end of the process, and returns how long that took.
    pub async fn ended(mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, begun.elapsed());
            }
            assert!(begun.elapsed() < PATIENCE, "still runs:\n{}", self.said());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
