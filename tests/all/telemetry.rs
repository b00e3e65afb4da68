//! `/metrics` and `/readyz` of the program as a process, and what stands on them: alerts, dashboard, reference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use cutover::sandbox::api::DeleteOptions;
use cutover::telemetry::METRICS;
use regex::Regex;
use serde_json::Value;

use crate::process;
use crate::support::is_fresh;
use crate::support::pages::get;
use crate::support::proxy::Proxy;
use crate::support::replica::{CONFIG_MAPS, Replica, Stage};

/// Starts a replica that serves probes and metrics; returns the port.
async fn start(stage: &Stage, name: &str) -> (Replica, u16) {
    let replica = stage.start_at_with(name, stage.address(), &["--metrics-addr", "127.0.0.1:0"]);
    let port = port(stage, &replica).await;
    (replica, port)
}

/// The address that it was given is one that the system chooses: it says which.
async fn port(stage: &Stage, replica: &Replica) -> u16 {
    let said = "probes and metrics are served at http://127.0.0.1:";
    stage.until("it listens", |_| replica.said().contains(said)).await;
    let text = replica.said();
    let rest = text.split(said).nth(1).unwrap();
    rest.lines().next().unwrap().trim().parse().unwrap()
}

async fn page(port: u16, path: &str) -> (u16, String) {
    get(port, path).await.unwrap()
}

/// Waits until a page says something.
async fn says(port: u16, path: &str, holds: impl Fn(u16, &str) -> bool) -> String {
    let begun = std::time::Instant::now();
    loop {
        let (code, body) = page(port, path).await;
        if holds(code, &body) {
            return body;
        }
        assert!(begun.elapsed() < Duration::from_mins(3), "{path}: {code} {body}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the samples of a page, by name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

#[track_caller]
fn assert_is(text: &str, name: &str, expected: f64) {
    let found = samples(text).get(name).copied();
    assert!(
        found.is_some_and(|found| (found - expected).abs() < 0.0005),
        "{name} is {found:?}:\n{text}"
    );
}

/// Returns what samples whose names begin so come to together.
fn sum(text: &str, prefix: &str) -> f64 {
    let samples = samples(text);
    let named = samples.iter().filter(|(name, _)| name.starts_with(prefix));
    named.map(|(_, value)| value).sum()
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn a_migration_is_measured_from_its_push_to_its_end() {
    let stage = process::with_a_running_job().await;
    let (_replica, port) = start(&stage, "one").await;
    process::job_runs(&stage).await;
    says(port, "/readyz", |code, _| code == 200).await;
    process::migrate(&stage);
    process::assert_completed(&stage).await;

    // Somebody deletes what is in Git: that is corrected, and counted once.
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {a: b}\n";
    stage.origin.commit("main", &[("map.yaml", map)]);
    says(port, "/metrics", |_, text| pushes(text) >= 2.0).await;
    let (_, before) = page(port, "/metrics").await;
    assert!(
        sum(&before, DRIFT) < 0.5,
        "what Git changes, and what an intent lets go, is no drift:\n{before}"
    );
    let server = stage.world.control_plane();
    server
        .delete(&CONFIG_MAPS, Some("shop"), "a", &DeleteOptions::default())
        .unwrap();
    let text = says(port, "/metrics", |_, text| sum(text, DRIFT) > 0.5).await;
    assert!(sum(&text, DRIFT) < 1.5, "{text}");

    assert_is(&text, "cutover_leader", 1.0);
    assert_is(
        &text,
        r#"cutover_intents{kind="Migration",phase="Completed"}"#,
        1.0,
    );
    assert_is(
        &text,
        r#"cutover_intents_ended_total{kind="Migration",phase="Completed"}"#,
        1.0,
    );
    for phase in [
        "Preflight",
        "Hold",
        "Expand",
        "Capture",
        "Handoff",
        "Verify",
        "Cleanup",
    ] {
        let name =
            format!(r#"cutover_intent_phase_duration_seconds_count{{kind="Migration",phase="{phase}"}}"#);
        assert_is(&text, &name, 1.0);
    }
    let verify = sum(
        &text,
        r#"cutover_intent_phase_duration_seconds_sum{kind="Migration",phase="Verify"}"#,
    );
    assert!(verify >= 2.0, "healthyFor is 2 s, and Verify took {verify}");
    assert_is(&text, "cutover_migration_downtime_seconds_count", 1.0);
    let told = process::migration(&stage)["downtimeMs"].as_f64().unwrap() / 1000.0;
    assert_is(&text, "cutover_migration_downtime_seconds_sum", told);
    for (prefix, least) in [
        (
            r#"cutover_git_operations_total{operation="fetch",result="ok"}"#,
            2.0,
        ),
        (
            r#"cutover_git_operations_total{operation="publish",result="ok"}"#,
            1.0,
        ),
        (
            r#"cutover_api_requests_total{target="control_plane",verb="apply",code="200"}"#,
            1.0,
        ),
        (
            r#"cutover_api_requests_total{target="member",verb="get",code="200"}"#,
            1.0,
        ),
    ] {
        assert!(sum(&text, prefix) >= least, "{prefix}:\n{text}");
    }
    let lag = sum(&text, "cutover_push_to_applied_seconds_sum");
    assert!(lag < 60.0 * pushes(&text), "{lag}");

    // Nothing that others choose is in it, and no name is missing from the catalog.
    let path = stage.origin.path();
    for word in ["orders", path.to_str().unwrap()] {
        assert!(!text.contains(word), "{word}");
    }
    let described: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    let mut missing: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    missing.retain(|name| !described.contains(name));
    // Nothing waits any more.
    assert!(
        missing.is_subset(&BTreeSet::from(["cutover_intents_waiting"])),
        "{missing:?}"
    );
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert!(described.is_subset(&known), "{described:?}");
}

const DRIFT: &str = "cutover_drift_corrected_total";

/// Returns how many pushes have been applied.
fn pushes(text: &str) -> f64 {
    sum(text, "cutover_push_to_applied_seconds_count")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_waits_for_a_person_is_told_apart() {
    let stage = process::with_a_running_job().await;
    let (_replica, port) = start(&stage, "one").await;
    process::job_runs(&stage).await;
    let (path, intent) = cutover::cli::EXAMPLE_FILES
        .iter()
        .find(|(path, _)| path.ends_with("orders-to-west.yaml"))
        .unwrap();
    assert!(path.starts_with("intents/"));
    stage.origin.commit(
        "main",
        &[(
            "intents/orders-to-west.yaml",
            &format!("{intent}  paused: true\n"),
        )],
    );
    let waiting = r#"cutover_intents_waiting{kind="Migration",reason="Pause",manual="true"} 1"#;
    says(port, "/metrics", |_, text| text.contains(waiting)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_part_that_is_not_ready_is_named_until_it_is_again() {
    let files = [
        (
            "cutover.yaml",
            "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{name: all}]\ninterval: 1s\n",
        ),
        (
            "namespace.yaml",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
        ),
    ];
    let stage = Stage::with(&files).await;
    let mut proxy = Proxy::before(stage.address()).await;
    let replica = stage.start_at_with("one", proxy.address, &["--metrics-addr", "127.0.0.1:0"]);
    let port = port(&stage, &replica).await;
    says(port, "/readyz", |code, _| code == 200).await;
    assert_eq!(page(port, "/livez").await, (200, "ok\n".to_owned()));
    assert_eq!(page(port, "/other").await.0, 404);

    // Git goes away: what is synced stays, and it is said.
    let (from, to) = (stage.origin.path(), stage.origin.path().with_extension("gone"));
    std::fs::rename(&from, &to).unwrap();
    let body = says(port, "/readyz", |code, _| code == 503).await;
    assert!(body.starts_with("not ready: git\nrole: leader\n"), "{body}");
    let (_, text) = page(port, "/metrics").await;
    assert!(
        sum(
            &text,
            r#"cutover_git_operations_total{operation="fetch",result="error"}"#
        ) >= 1.0
    );
    assert_is(&text, r#"cutover_ready{part="git"}"#, 0.0);
    std::fs::rename(&to, &from).unwrap();
    says(port, "/readyz", |code, _| code == 200).await;

    proxy.down().await;
    let body = says(port, "/readyz", |_, body| !body.contains("\ncontrol-plane: ok\n")).await;
    assert!(
        body.starts_with("not ready: ") && body.contains("\ncontrol-plane: "),
        "{body}"
    );
    assert_eq!(page(port, "/livez").await.0, 200, "a restart would not help");
    proxy.up().await;
    says(port, "/readyz", |code, _| code == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_address_serves_webhooks_and_metrics_where_that_is_asked_for() {
    let stage = Stage::with(&[("a.yaml", "# nothing\n")]).await;
    let secret = stage.dir().join("secret");
    std::fs::write(&secret, "0123456789abcdef-marlin").unwrap();
    let file = ["--webhook-secret-file", secret.to_str().unwrap()];
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let address = free.to_string();
    let shared = [
        &["--webhook-listen", &address, "--metrics-addr", &address][..],
        &file,
    ]
    .concat();
    let replica = stage.start_at_with("one", stage.address(), &shared);
    assert_eq!(port(&stage, &replica).await, free.port());
    assert_eq!(page(free.port(), "/livez").await.0, 200);
    // A webhook has to be sent by POST.
    assert_eq!(page(free.port(), "/hook").await.0, 405);
    replica.kill();

    // Without the flag, the address that hosts on the internet know tells nothing.
    let alone = [&["--webhook-listen", &address][..], &file].concat();
    let replica = stage.start_at_with("two", stage.address(), &alone);
    stage
        .until("it listens", |_| replica.said().contains("webhooks are heard"))
        .await;
    for path in ["/livez", "/readyz", "/metrics"] {
        assert_eq!(page(free.port(), path).await.0, 404, "{path}");
    }
    assert!(!replica.said().contains("marlin"));
}

// What stands on the metrics.

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the expressions of the alerts and of the dashboard, and who has each.
fn expressions() -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let alerts: Value = serde_yaml::from_str(&read("deploy/monitoring/alerts.yaml")).unwrap();
    let rules = alerts["groups"].as_array().unwrap().iter();
    let rules = rules.flat_map(|group| group["rules"].as_array().unwrap());
    let mut all: Vec<_> = rules
        .map(|rule| (text(&rule["alert"]), text(&rule["expr"])))
        .collect();
    let dashboard: Value = serde_json::from_str(&read("deploy/monitoring/dashboard.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            all.push((text(&panel["title"]), text(&target["expr"])));
        }
    }
    all
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_and_labels_that_there_are() {
    let names = Regex::new(r"\bcutover_[a-z_]+(\{[^}]*\})?").unwrap();
    let labels = Regex::new(r#"([a-z_]+)\s*(=~|!=|!~|=)\s*""#).unwrap();
    let grouped = Regex::new(r"by \(([^)]*)\)").unwrap();
    let mut used = BTreeSet::new();
    for (who, expression) in expressions() {
        let mut of_expression = BTreeSet::from(["pod", "le"]);
        for found in names.find_iter(&expression) {
            let name = found.as_str().split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|suffix| name.strip_suffix(suffix))
                .unwrap_or(name);
            let metric = METRICS.iter().find(|metric| metric.name == base);
            let metric = metric.unwrap_or_else(|| panic!("{who}: there is no {name}"));
            let is_histogram = metric.kind == cutover::telemetry::MetricKind::Histogram;
            assert_eq!(is_histogram, base != name, "{who}: {name}");
            for label in labels.captures_iter(found.as_str()) {
                assert!(
                    metric.labels.contains(&&label[1]),
                    "{who}: {name} has no label {}",
                    &label[1]
                );
            }
            of_expression.extend(metric.labels);
            used.insert(metric.name);
        }
        for group in grouped.captures_iter(&expression) {
            for label in group[1].split(',').map(str::trim) {
                assert!(of_expression.contains(label), "{who}: no label {label}");
            }
        }
    }
    let unused: Vec<_> = METRICS
        .iter()
        .map(|metric| metric.name)
        .filter(|name| !used.contains(name))
        .collect();
    assert!(unused.is_empty(), "nobody looks at {unused:?}");
}

/// What Grafana puts in place of its variables.
const VARIABLES: &[(&str, &str)] = &[
    ("$__rate_interval", "5m"),
    ("$__interval", "1m"),
    ("$__range", "1h"),
];

#[test]
fn alerts_and_dashboard_are_queries_that_prometheus_reads() {
    for (who, expression) in expressions() {
        let put = |text: String, (variable, value): &(&str, &str)| text.replace(variable, value);
        let query = VARIABLES.iter().fold(expression, put);
        if let Err(why) = promql_parser::parser::parse(&query) {
            panic!("{who}: {why}: {query}");
        }
    }
}

#[test]
fn every_alert_says_what_to_do() {
    let alerts: Value = serde_yaml::from_str(&read("deploy/monitoring/alerts.yaml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    for rule in rules {
        for annotation in ["summary", "description", "runbook"] {
            let text = rule["annotations"][annotation].as_str().unwrap_or_default();
            assert!(
                !text.is_empty() && !text.contains('\n'),
                "{} {annotation}",
                rule["alert"]
            );
        }
        let severity = rule["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning", "info"].contains(&severity));
    }
}

/// The reference is made of the catalog. `CUTOVER_ACCEPT=1` writes it.
#[test]
fn the_reference_of_metrics_is_fresh() {
    let path = "docs/reference/metrics.md";
    let fresh = reference();
    assert!(
        is_fresh(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path), &fresh),
        "{path} is stale; run: CUTOVER_ACCEPT=1 cargo test --test all telemetry::the_reference"
    );
}

fn reference() -> String {
    let mut page = include_str!("telemetry/metrics.md").to_owned();
    page += "\n## Metrics\n\n| name | type | labels | |\n|---|---|---|---|\n";
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        page += &format!(
            "| `{}` | {} | {} | {} |\n",
            metric.name,
            metric.kind.name(),
            labels.join(", "),
            metric.help
        );
    }
    page += "\n## Alerts\n\n[deploy/monitoring/alerts.yaml](../../deploy/monitoring/alerts.yaml) has them for Prometheus; the chart makes a \
             PrometheusRule of it.\n\n| alert | severity | runbook |\n|---|---|---|\n";
    let alerts: Value = serde_yaml::from_str(&read("deploy/monitoring/alerts.yaml")).unwrap();
    for rule in alerts["groups"][0]["rules"].as_array().unwrap() {
        let text = |value: &Value| value.as_str().unwrap().replace('|', "\\|");
        page += &format!(
            "| {} | {} | {} |\n",
            text(&rule["alert"]),
            text(&rule["labels"]["severity"]),
            text(&rule["annotations"]["runbook"])
        );
    }
    page
}
