//! An API server with Karmada's kinds and nobody behind them, on a port of its own, and the program as users run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cutover::sandbox::api::{ApiServer, Options};
use serde_json::{Value, json};
use tempfile::TempDir;

pub struct Served {
    pub server: ApiServer,
    pub dir: TempDir,
    _runtime: tokio::runtime::Runtime,
}

impl Served {
    /// Starts one that has cutover's kinds too; `token` is what the kubeconfig says who we are by.
    pub fn start(token: &str) -> Self {
        let server = ApiServer::new(Options::new("karmada", 1));
        let crds = cutover::karmada::crds().into_iter().chain(cutover::api::crds());
        let kinds = crds.map(|crd| serde_json::to_value(crd).unwrap());
        for crd in kinds.chain([flink_deployment()]) {
            server.install(&crd).unwrap();
        }
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.clone();
        runtime.spawn(async move { serving.serve(listener, "system:admin").await });
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        });
        std::fs::write(dir.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self {
            server,
            dir,
            _runtime: runtime,
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
        let mut command = Command::new(env!("CARGO_BIN_EXE_cutover"));
        command
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("CUTOVER_STATE_DIR", self.dir.path().join("state"))
            .env("HOME", "/nonexistent")
            .envs(environment.iter().copied());
        command.output().unwrap()
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

fn flink_deployment() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "flinkdeployments.flink.apache.org"},
        "spec": {
            "group": "flink.apache.org", "scope": "Namespaced",
            "names": {"kind": "FlinkDeployment", "plural": "flinkdeployments", "singular": "flinkdeployment"},
            "versions": [{
                "name": "v1beta1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}
