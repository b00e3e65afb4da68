//! The sandbox's API server as the real kubectl sees it, over HTTP on loopback.

use std::process::{Output, Stdio};
use std::time::Duration;

use cutover::sandbox::api::{ApiServer, Options, Resource, Subresource, WriteOptions};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::kubectl::{READS_V3, is_there};

const ANY: u32 = 0;
const DEPLOYMENTS: Resource = Resource::new("apps", "deployments");
const MIGRATIONS: Resource = Resource::new("cutover.dev", "migrations");

const MIGRATION: &str = "
apiVersion: cutover.dev/v1alpha1
kind: Migration
metadata: {name: orders-to-west, namespace: default}
spec:
  workload: {apiVersion: flink.apache.org/v1beta1, kind: FlinkDeployment, name: orders}
  to: west
";

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: "web:1"}
      - {name: proxy, image: "proxy:1"}
"#;

/// A server with kubectl beside it.
struct Cluster {
    server: ApiServer,
    url: String,
    home: TempDir,
}

impl Cluster {
    /// Starts a server; none if there is no kubectl of at least a minor version 1.x.
    async fn start(minor: u32) -> Option<Self> {
        if !is_there(minor).await {
            return None;
        }
        let server = ApiServer::new(Options::new("kubectl", 1));
        for crd in cutover::api::crds() {
            server.install(&serde_json::to_value(crd).unwrap()).unwrap();
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener, "admin").await });
        Some(Self {
            server,
            url,
            home: TempDir::new().unwrap(),
        })
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(["--server", &self.url])
            .args(args)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, args: &[&str], stdin: &str) -> Output {
        let mut child = self.command(args).spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(stdin.as_bytes())
            .await
            .unwrap();
        let output = tokio::time::timeout(Duration::from_mins(1), child.wait_with_output());
        output.await.expect("kubectl comes to an end").unwrap()
    }

    /// Returns what a command prints that has to succeed.
    async fn feed(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run(args, stdin).await;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    async fn ok(&self, args: &[&str]) -> String {
        self.feed(args, "").await
    }

    /// Returns what a command says that has to fail.
    async fn refused(&self, args: &[&str], stdin: &str) -> String {
        let output = self.run(args, stdin).await;
        assert!(
            !output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        String::from_utf8(output.stderr).unwrap()
    }

    fn create(&self, resource: &Resource, manifest: &str) {
        let object: Value = serde_yaml::from_str(manifest).unwrap();
        self.server
            .create(resource, Some("default"), object, &WriteOptions::default())
            .unwrap();
    }

    fn available(&self, status: &str) {
        let mut body = (*self.server.get(&DEPLOYMENTS, Some("default"), "web").unwrap()).clone();
        body["status"] = json!({"conditions": [{"type": "Available", "status": status}]});
        let part = Some(Subresource::Status);
        let options = WriteOptions::default();
        self.server
            .update(&DEPLOYMENTS, Some("default"), "web", part, body, &options)
            .unwrap();
    }
}

/// Returns the lines of a table without their last cell, which is an age.
fn without_age(table: &str) -> Vec<Vec<&str>> {
    table
        .lines()
        .map(|line| {
            let mut cells: Vec<&str> = line.split_whitespace().collect();
            cells.pop();
            cells
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_prints_the_columns_of_crds_and_of_built_in_kinds() {
    let Some(cluster) = Cluster::start(ANY).await else {
        return;
    };
    cluster.create(&MIGRATIONS, MIGRATION);
    cluster.create(&DEPLOYMENTS, DEPLOYMENT);
    let table = cluster.ok(&["get", "migrations"]).await;
    assert_eq!(
        without_age(&table)[0],
        ["NAME", "WORKLOAD", "FROM", "TO", "PHASE", "AGE"]
    );
    assert_eq!(without_age(&table)[1], ["orders-to-west", "orders", "west"]);
    let table = cluster.ok(&["get", "deploy", "web"]).await;
    assert_eq!(without_age(&table)[1], ["web", "0/2", "0", "0"]);
    let wide = cluster.ok(&["get", "deploy", "-o", "wide"]).await;
    assert!(
        wide.lines()
            .nth(1)
            .unwrap()
            .ends_with("app,proxy    web:1,proxy:1   app=web"),
        "{wide}"
    );
    let all = cluster.ok(&["get", "all", "-A"]).await;
    assert!(all.contains("deployment.apps/web"), "{all}");
    let namespaces = cluster.ok(&["get", "ns", "default"]).await;
    assert_eq!(without_age(&namespaces)[1], ["default", "Active"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn get_prints_objects_in_every_other_form() {
    let Some(cluster) = Cluster::start(ANY).await else {
        return;
    };
    cluster.create(&MIGRATIONS, MIGRATION);
    let name = cluster.ok(&["get", "mig", "-o", "name"]).await;
    assert_eq!(name, "migration.cutover.dev/orders-to-west\n");
    let to = cluster
        .ok(&["get", "mig", "orders-to-west", "-o", "jsonpath={.spec.to}"])
        .await;
    assert_eq!(to, "west");
    let json: Value = serde_json::from_str(&cluster.ok(&["get", "mig", "-o", "json"]).await).unwrap();
    assert_eq!(json["items"][0]["kind"], "Migration");
    let yaml: Value = serde_yaml::from_str(&cluster.ok(&["get", "mig", "-A", "-o", "yaml"]).await).unwrap();
    assert_eq!(yaml["items"][0]["spec"]["workload"]["name"], "orders");
    let kinds = cluster.ok(&["api-resources", "--no-headers"]).await;
    let migrations = kinds
        .lines()
        .find(|line| line.starts_with("migrations "))
        .unwrap();
    let cells: Vec<&str> = migrations.split_whitespace().collect();
    assert_eq!(
        cells,
        ["migrations", "mig", "cutover.dev/v1alpha1", "true", "Migration"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_is_said_in_kubectls_words() {
    let Some(cluster) = Cluster::start(ANY).await else {
        return;
    };
    let missing = cluster.refused(&["get", "mig", "nobody"], "").await;
    assert_eq!(
        missing,
        "Error from server (NotFound): migrations.cutover.dev \"nobody\" not found\n"
    );
    let unknown = cluster.refused(&["get", "unicorns"], "").await;
    assert!(
        unknown.contains("the server doesn't have a resource type \"unicorns\""),
        "{unknown}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patch_scale_label_and_delete_change_objects() {
    let Some(cluster) = Cluster::start(ANY).await else {
        return;
    };
    cluster.create(&DEPLOYMENTS, DEPLOYMENT);
    let containers = r#"{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"web:2"}]}}}}"#;
    cluster.ok(&["patch", "deploy", "web", "-p", containers]).await;
    let images = [
        "get",
        "deploy",
        "web",
        "-o",
        "jsonpath={.spec.template.spec.containers[*].image}",
    ];
    assert_eq!(cluster.ok(&images).await, "web:2 proxy:1");
    cluster
        .ok(&[
            "patch",
            "deploy",
            "web",
            "--type",
            "merge",
            "-p",
            r#"{"spec":{"paused":true}}"#,
        ])
        .await;
    let operations = r#"[{"op":"replace","path":"/spec/paused","value":false}]"#;
    cluster
        .ok(&["patch", "deploy", "web", "--type", "json", "-p", operations])
        .await;
    cluster.ok(&["scale", "deploy/web", "--replicas", "5"]).await;
    cluster.ok(&["label", "deploy", "web", "tier=front"]).await;
    let table = cluster
        .ok(&["get", "deploy", "-l", "tier=front", "--no-headers"])
        .await;
    assert_eq!(without_age(&table)[0], ["web", "0/5", "0", "0"]);
    let deleted = cluster.ok(&["delete", "deploy", "web"]).await;
    assert!(
        deleted.starts_with("deployment.apps \"web\" deleted"),
        "{deleted}"
    );
    cluster.refused(&["get", "deploy", "web"], "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wait_sees_a_condition_come_true() {
    let Some(cluster) = Cluster::start(ANY).await else {
        return;
    };
    cluster.create(&DEPLOYMENTS, DEPLOYMENT);
    cluster.available("False");
    let wait = [
        "wait",
        "deploy/web",
        "--for",
        "condition=Available",
        "--timeout",
        "60s",
    ];
    let (said, ()) = tokio::join!(cluster.ok(&wait), async { cluster.available("True") });
    assert_eq!(said, "deployment.apps/web condition met\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_prints_a_row_a_change() {
    let Some(cluster) = Cluster::start(ANY).await else {
        return;
    };
    cluster.create(&MIGRATIONS, MIGRATION);
    let mut child = cluster.command(&["get", "mig", "-w"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(next(&mut lines).await.starts_with("NAME "));
    assert!(next(&mut lines).await.starts_with("orders-to-west "));
    let mut changed = (*cluster
        .server
        .get(&MIGRATIONS, Some("default"), "orders-to-west")
        .unwrap())
    .clone();
    changed["spec"]["to"] = json!("north");
    let options = WriteOptions::default();
    cluster
        .server
        .update(
            &MIGRATIONS,
            Some("default"),
            "orders-to-west",
            None,
            changed,
            &options,
        )
        .unwrap();
    let row = next(&mut lines).await;
    assert!(row.contains(" north "), "{row}");
    end(child).await;
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = tokio::time::timeout(Duration::from_mins(1), lines.next_line());
    line.await
        .expect("kubectl prints a line")
        .unwrap()
        .expect("kubectl goes on")
}

async fn end(mut child: Child) {
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_describes_custom_and_built_in_kinds() {
    let Some(cluster) = Cluster::start(READS_V3).await else {
        return;
    };
    let migration = cluster.ok(&["explain", "migration.spec"]).await;
    for words in [
        "GROUP:      cutover.dev",
        "FIELD: spec <Object>",
        "workload\t<Object> -required-",
        "to\t<string> -required-",
    ] {
        assert!(migration.contains(words), "{words}: {migration}");
    }
    let deployment = cluster
        .ok(&["explain", "deployment.spec.template.spec.containers"])
        .await;
    assert!(deployment.contains("imagePullPolicy\t<string>"), "{deployment}");
    let crd = cluster.ok(&["explain", "crd.spec.versions"]).await;
    assert!(
        crd.contains("additionalPrinterColumns\t<[]CustomResourceColumnDefinition>"),
        "{crd}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_creates_changes_and_leaves_alone() {
    let Some(cluster) = Cluster::start(READS_V3).await else {
        return;
    };
    let apply = ["apply", "-f", "-"];
    for (manifest, said) in [
        (
            MIGRATION.to_owned(),
            "migration.cutover.dev/orders-to-west created\n",
        ),
        (
            MIGRATION.to_owned(),
            "migration.cutover.dev/orders-to-west unchanged\n",
        ),
        (
            MIGRATION.replace("west\n", "north\n"),
            "migration.cutover.dev/orders-to-west configured\n",
        ),
        (DEPLOYMENT.to_owned(), "deployment.apps/web created\n"),
        (DEPLOYMENT.to_owned(), "deployment.apps/web unchanged\n"),
        (
            DEPLOYMENT.replace("web:1", "web:2"),
            "deployment.apps/web configured\n",
        ),
    ] {
        assert_eq!(cluster.feed(&apply, &manifest).await, said, "{manifest}");
    }
    let wrong = cluster
        .refused(
            &apply,
            &MIGRATION
                .replace("  to:", "  too:")
                .replace("orders-to", "typo-to"),
        )
        .await;
    assert!(
        wrong.contains("strict decoding error: unknown field \"spec.too\""),
        "{wrong}"
    );
    let gone = cluster.feed(&["delete", "-f", "-"], MIGRATION).await;
    assert!(
        gone.starts_with("migration.cutover.dev \"orders-to-west\" deleted"),
        "{gone}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_on_the_server_tells_of_conflicts() {
    let Some(cluster) = Cluster::start(READS_V3).await else {
        return;
    };
    let said = cluster
        .feed(
            &["apply", "--server-side", "--field-manager", "git", "-f", "-"],
            DEPLOYMENT,
        )
        .await;
    assert_eq!(said, "deployment.apps/web serverside-applied\n");
    let changed = DEPLOYMENT.replace("web:1", "web:2");
    let other = ["apply", "--server-side", "--field-manager", "hand", "-f", "-"];
    let conflict = cluster.refused(&other, &changed).await;
    assert!(
        conflict.contains("conflict with \"git\": .spec.template.spec.containers[name=\"app\"].image"),
        "{conflict}"
    );
    let forced = [&other[..], &["--force-conflicts"]].concat();
    assert_eq!(
        cluster.feed(&forced, &changed).await,
        "deployment.apps/web serverside-applied\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn diff_shows_what_an_apply_would_change_and_changes_nothing() {
    let Some(cluster) = Cluster::start(READS_V3).await else {
        return;
    };
    cluster.feed(&["apply", "-f", "-"], DEPLOYMENT).await;
    let revision = cluster.server.revision();
    let output = cluster
        .run(&["diff", "-f", "-"], &DEPLOYMENT.replace("web:1", "web:2"))
        .await;
    assert_eq!(
        output.status.code(),
        Some(1),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let diff = String::from_utf8(output.stdout).unwrap();
    assert!(
        diff.contains("-      - image: web:1") && diff.contains("+      - image: web:2"),
        "{diff}"
    );
    assert_eq!(cluster.server.revision(), revision);
    let same = cluster.run(&["diff", "-f", "-"], DEPLOYMENT).await;
    assert_eq!(
        same.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&same.stdout)
    );
}
