//! Plain kubectl against the server over HTTP. Left out, and said so, where there is no kubectl.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use super::*;
use cutover::sandbox::api::gc;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::support::kubectl::{READS_V3, is_there};

/// A served sandbox and a kubectl that talks to it.
struct Kubectl {
    server: ApiServer,
    config: PathBuf,
    folder: tempfile::TempDir,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Kubectl {
    async fn start() -> Option<Self> {
        if !is_there(READS_V3).await {
            return None;
        }
        let server = server();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "sandbox",
            "clusters": [{"name": "sandbox", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "sandbox", "user": {}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        });
        std::fs::write(&config, text.to_string()).unwrap();
        let serving = server.clone();
        let served = tokio::spawn(async move { serving.serve(listener, "admin").await.unwrap() });
        let tasks = vec![served, gc::spawn(server.clone(), Duration::ZERO)];
        Some(Self {
            server,
            config,
            folder,
            tasks,
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(line.split_whitespace())
            .env("KUBECONFIG", &self.config)
            .env("HOME", self.folder.path());
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs a command line and returns its exit code and output, errors after the rest.
    async fn run(&self, line: &str) -> (i32, String) {
        let output = tokio::time::timeout(Duration::from_secs(30), self.command(line).output()).await;
        let output = output
            .unwrap_or_else(|_| panic!("kubectl {line} takes too long"))
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code().unwrap_or(-1),
            text(&output.stdout) + &text(&output.stderr),
        )
    }

    fn file(&self, name: &str, content: &Value) {
        std::fs::write(self.folder.path().join(name), content.to_string()).unwrap();
    }
}

impl Drop for Kubectl {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Command line, exit code, what the output holds; one after the other.
#[rustfmt::skip]
const LINES: &[(&str, i32, &[&str])] = &[
    ("version", 0, &["Server Version: v1.36"]),
    ("api-resources --api-group=example.dev", 0, &["widgets", "wd", "example.dev/v1", "Widget"]),
    ("get namespaces", 0, &["NAME", "STATUS", "AGE", "default", "Active"]),
    ("create -f widget.json", 0, &["widget.example.dev/a created"]),
    ("create -f wrong.json", 1, &["unknown field \"spec.sise\""]),
    ("get widgets", 0, &["NAME", "SIZE", "a"]),
    ("get wd a -o wide", 0, &["NAME", "SIZE", "a"]),
    ("get wd a -o jsonpath={.spec.color}", 0, &["red"]),
    ("diff --server-side --force-conflicts -f bigger.json", 1, &["-  size: 1", "+  size: 5"]),
    ("apply --server-side -f bigger.json", 1, &["conflict with \"kubectl-create\" using example.dev/v1: .spec.size"]),
    ("apply --server-side --force-conflicts -f bigger.json", 0, &["widget.example.dev/a serverside-applied"]),
    ("diff --server-side -f bigger.json", 0, &[]),
    ("apply -f deployment.json", 0, &["deployment.apps/web created"]),
    ("apply -f deployment.json", 0, &["deployment.apps/web unchanged"]),
    ("get deployments", 0, &["READY", "UP-TO-DATE", "AVAILABLE", "web", "0/1"]),
    ("scale deployment web --replicas=3", 0, &["deployment.apps/web scaled"]),
    ("set image deployment/web c=j", 0, &["deployment.apps/web image updated"]),
    ("label wd a color=red", 0, &["widget.example.dev/a labeled"]),
    ("get wd -l color=red -o name", 0, &["widget.example.dev/a"]),
    ("get wd -A --field-selector metadata.name=b", 0, &["No resources found"]),
    ("patch wd a --type=merge -p {\"spec\":{\"size\":7}}", 0, &["widget.example.dev/a patched"]),
    ("patch wd a --subresource=status --type=merge -p {\"status\":{\"ready\":true}}", 0, &["patched"]),
    ("wait wd/a --for=jsonpath={.status.ready}=true --timeout=10s", 0, &["condition met"]),
    ("wait crd/widgets.example.dev --for=condition=Established --timeout=10s", 0, &["condition met"]),
    ("explain widget.spec", 0, &["What is wanted of the widget.", "size", "<integer>"]),
    ("explain deployment.spec.replicas", 0, &["replicas <integer>"]),
    ("describe wd a", 0, &["Name:", "Size:"]),
    ("get --raw /readyz", 0, &["ok"]),
    ("delete wd a", 0, &["widget.example.dev \"a\" deleted"]),
    ("get wd a", 1, &["Error from server (NotFound): widgets.example.dev \"a\" not found"]),
    ("delete deployment web --cascade=foreground", 0, &["deployment.apps \"web\" deleted"]),
    ("get gadgets", 1, &["the server doesn't have a resource type \"gadgets\""]),
];

#[tokio::test]
async fn kubectl_works_as_people_expect() {
    let Some(kubectl) = Kubectl::start().await else {
        return;
    };
    kubectl.file("widget.json", &widget_json("a", json!({"size": 1})));
    kubectl.file("bigger.json", &widget_json("a", json!({"size": 5})));
    kubectl.file("wrong.json", &widget_json("b", json!({"sise": 5})));
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template});
    kubectl.file(
        "deployment.json",
        &json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}),
    );
    for (line, code, parts) in LINES {
        let (got_code, output) = kubectl.run(line).await;
        assert_eq!(got_code, *code, "kubectl {line}\n{output}");
        for part in *parts {
            assert!(output.contains(part), "kubectl {line}\n{output}\nlacks {part:?}");
        }
    }
}

#[tokio::test]
async fn kubectl_follows_changes() {
    let Some(kubectl) = Kubectl::start().await else {
        return;
    };
    create(&kubectl.server, WIDGETS, widget_json("a", json!({"size": 1}))).await;
    let mut child = kubectl
        .command("get widgets -w")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let next = async |lines: &mut tokio::io::Lines<_>| {
        let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line()).await;
        line.expect("a line in time").unwrap().expect("a line")
    };
    assert!(next(&mut lines).await.starts_with("NAME"));
    assert!(next(&mut lines).await.starts_with("a "));
    send(
        &kubectl.server,
        Method::PATCH,
        &format!("{WIDGETS}/a"),
        MERGE,
        &json!({"spec": {"size": 42}}),
    )
    .await;
    assert!(next(&mut lines).await.contains("42"));
    child.kill().await.unwrap();
}
