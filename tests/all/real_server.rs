//! The real API server of the tests: that it serves the project's kinds, and that nothing of it stays behind.

use std::path::Path;
use std::time::{Duration, Instant};

use cutover::cluster::{Answer, Cluster, Exactly, Limits, Lookup, Mode, Written, rehearse_deletion};
use cutover::finding::{Code, Finding};
use cutover::lint::{self, Context, kubernetes};
use cutover::manifest::{Limits as FileLimits, Set, Source, parse};
use cutover::name::Gvk;
use serde_json::{Value, json};

use crate::support::is_fresh;
use crate::support::openapi;
use crate::support::real::{self, RealServer};

#[tokio::test]
async fn a_real_api_server_serves_the_definitions_of_the_project() {
    let Some(server) = real::shared("serving the definitions of the project").await else {
        return;
    };
    let groups = server.client().await.list_api_groups().await.unwrap();
    for group in [
        "cutover.dev",
        "policy.karmada.io",
        "work.karmada.io",
        "flink.apache.org",
    ] {
        assert!(groups.groups.iter().any(|served| served.name == group), "{group}");
    }
    assert_ne!(server.namespace().await, server.namespace().await);
}

#[tokio::test]
async fn a_server_that_is_dropped_leaves_nothing_behind() {
    let Ok(tools) = real::tools() else { return };
    let server = RealServer::start(&tools).await;
    let folder = server.kubeconfig().parent().unwrap().to_owned();
    let client = server.client().await;
    client.apiserver_version().await.unwrap();
    drop(server);
    assert!(!folder.exists(), "{}", folder.display());
    let begun = Instant::now();
    client.apiserver_version().await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// With a body, the API server doesn't look at the query: there a dry-run of a deletion would be one.
#[tokio::test]
async fn a_deletion_that_is_only_tried_deletes_nothing() {
    let Some(server) = real::shared("trying a deletion").await else {
        return;
    };
    let namespace = server.namespace().await;
    let cluster = Cluster::from_client(server.client().await, Limits::default());
    let maps = Gvk::new("v1", "ConfigMap");
    let Lookup::Served(served) = cluster.lookup(&maps).await.unwrap() else {
        panic!("ConfigMaps are not served");
    };
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": namespace}});
    let writer = cluster.writer("cutover");
    let Written::Done(live) = writer.create(&served, &map, Mode::Write).await.unwrap() else {
        panic!("there is one already");
    };
    let there = || async {
        let read = cluster.reader().get(&served, Some(&namespace), "a").await;
        matches!(read.answer, Answer::Found(_))
    };
    rehearse_deletion(&cluster, &maps, &live).await.unwrap();
    assert!(there().await);
    writer
        .delete(&served, &Exactly::of(&live), Mode::Write)
        .await
        .unwrap();
    assert!(!there().await);
    rehearse_deletion(&cluster, &maps, &live).await.unwrap();
}

/// What `validate` knows of Kubernetes' own kinds is what the server publishes of them. `CUTOVER_ACCEPT=1` writes it.
#[tokio::test]
async fn the_schema_of_built_in_kinds_is_what_the_server_publishes() {
    let Some(server) = real::shared("comparing the schema of built-in kinds").await else {
        return;
    };
    let published = openapi::kubernetes(&server.client().await).await;
    let path = "crates/core/src/lint/kubernetes/published.json";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    assert!(
        is_fresh(&file, &published),
        "{path} is stale; run: just gen-kubernetes"
    );
    let version: Value = serde_json::from_str(&published).unwrap();
    let version = version["kubernetes"].as_str().unwrap();
    assert!(
        version.starts_with(&format!("v{}.", cutover::cli::KUBERNETES)),
        "{version}"
    );
}

/// A Deployment that says what it need not say in every way that the API server takes.
const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: null}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web}, creationTimestamp: null}
    spec:
      restartPolicy: ''
      containers:
      - name: web
        image: nginx
        env: [{name: A, value: null}]
        imagePullPolicy: ''
        ports: [{containerPort: 80, protocol: ''}]
        resources: {requests: {cpu: 0.5, memory: 64Mi}, limits: {cpu: 1}}
        livenessProbe: {httpGet: {path: /, port: 80}}
";

const OTHERS: &[&str] = &[
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: null, immutable: false}",
    "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {type: '', ports: [{port: 80, targetPort: web}]}}",
    "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}, imagePullSecrets: [{name: b}]}",
    "{apiVersion: apps/v1, kind: ControllerRevision, metadata: {name: a}, revision: 1, data: {any: {thing: 1}}}",
    "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {schedule: '* * * * *', jobTemplate: {spec: {template: \
     {spec: {restartPolicy: Never, containers: [{name: a, image: b}]}}}}}}",
    "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a}, spec: {podSelector: {}, ingress: [{}]}}",
    "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {maxUnavailable: 50%}}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a}, rules: null}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: a}, roleRef: {kind: Role, name: a}}",
    "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 2, scaleTargetRef: \
     {apiVersion: apps/v1, kind: Deployment, name: web}}}",
];

/// What people mistype in the Deployment.
const MISTAKES: &[(&str, &str)] = &[
    ("replicas: 2", "replicsa: 2"),
    ("replicas: 2", "replicas: '2'"),
    ("replicas: 2", "replicas: 2.5"),
    ("  strategy:", "  strategyy:"),
    ("type: RollingUpdate", "type: RolingUpdate"),
    ("containers:", "contaners:"),
    ("- name: web", "- nmae: web"),
    ("value: null", "value: 1"),
    ("containerPort: 80", "containerPort: '80'"),
    ("containerPort: 80, ", ""),
    ("cpu: 0.5", "cpu: true"),
    ("  selector: {matchLabels: {app: web}}\n", ""),
    (
        "labels: {app: web}, annotations",
        "lables: {app: web}, annotations",
    ),
    ("labels: {app: web}, annotations", "labels: {app: 1}, annotations"),
    ("port: 80}", "port: 8.5}"),
];

fn findings(text: &str) -> Vec<Finding> {
    let mut set = Set::new();
    set.update(
        "a.yaml",
        parse(Source::new("a.yaml"), text.as_bytes(), &FileLimits::default()),
    );
    let mut found = lint::check(&set, &Context::built_in().unwrap());
    found.retain(|finding| finding.code != Code::PlainSecret);
    found
}

/// Says what a server answers to an object that is created strictly, and as a trial.
async fn refusal(cluster: &kube::Client, namespace: &str, text: &str) -> Option<String> {
    let object: Value = serde_yaml::from_str(text).unwrap();
    let kind = object["kind"].as_str().unwrap();
    let plural = match kind.to_lowercase() {
        kind if kind.ends_with('y') => format!("{}ies", kind.trim_end_matches('y')),
        kind => format!("{kind}s"),
    };
    let api_version = object["apiVersion"].as_str().unwrap();
    let root = if api_version.contains('/') { "apis" } else { "api" };
    let path =
        format!("/{root}/{api_version}/namespaces/{namespace}/{plural}?dryRun=All&fieldValidation=Strict");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(object.to_string().into_bytes())
        .unwrap();
    match cluster.request_text(request).await {
        Ok(_) => None,
        Err(kube::Error::Api(status)) => Some(status.message),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn a_strict_server_refuses_what_is_found_in_built_in_kinds_and_takes_the_rest() {
    let Some(server) = real::shared("comparing findings with a strict server").await else {
        return;
    };
    let (client, namespace) = (server.client().await, server.namespace().await);
    for good in std::iter::once(&DEPLOYMENT).chain(OTHERS) {
        assert_eq!(refusal(&client, &namespace, good).await, None, "{good}");
        assert_eq!(findings(good), [], "{good}");
    }
    for (right, wrong) in MISTAKES {
        assert!(DEPLOYMENT.contains(right), "{right}");
        let text = DEPLOYMENT.replace(right, wrong);
        assert_ne!(refusal(&client, &namespace, &text).await, None, "{wrong}");
        assert_ne!(findings(&text), [], "{wrong}");
    }
    assert!(cutover::cli::KUBERNETES.starts_with(kubernetes::version()));
}
