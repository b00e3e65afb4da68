//! What is installed: the chart and kustomize's files, rendered by helm and kubectl, accepted by API servers, and run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cutover::sandbox::api::Resource;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::git::Http;
use crate::support::pages::get;
use crate::support::replica::{CONFIG_MAPS, Stage};
use crate::support::served::{Served, as_text, stderr};
use crate::support::server::{On, on_both_servers};

const PROFILES: [&str; 2] = ["host-cluster", "anywhere"];
const CRDS: Resource = Resource::new("apiextensions.k8s.io", "customresourcedefinitions");
/// Which kind of kubectl applies, and reads OpenAPI v3 for it.
const READS_V3: u32 = 27;
const PATIENCE: Duration = Duration::from_mins(2);

/// Everything that can be switched on.
const ALL: &[&str] = &[
    "repo.url=https://git.example.com/team/fleet.git",
    "repo.interval=30s",
    "git.https.secret=cutover-git",
    "git.https.user=robot",
    "git.ca.configMap=git-ca",
    "karmada.kubeconfig.context=karmada",
    "webhook.enabled=true",
    "webhook.secret=cutover-webhook",
    "notify.secret=cutover-notify",
    "forge.secret=cutover-forge",
    "prometheus.url=http://prometheus.monitoring:9090",
    "monitoring.serviceMonitor.enabled=true",
    "monitoring.rules.enabled=true",
    "monitoring.dashboard.enabled=true",
    "install.enabled=true",
    "install.kubeconfig.secret=karmada-admin",
    "priorityClassName=system-cluster-critical",
];

const CONTROL_PLANE: &[&str] = &["reconciler.enabled=false", "controlPlane.enabled=true"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn documents(text: &str) -> Vec<Value> {
    let documents = text
        .split("\n---\n")
        .map(|document| document.trim_start_matches("---\n"));
    let objects = documents.map(|document| serde_yaml::from_str::<Value>(document).unwrap());
    objects.filter(|object| !object.is_null()).collect()
}

/// Returns the program that `tools/helm.sh` builds. Without it a note on stderr says so, and in CI the test fails.
fn helm() -> Option<PathBuf> {
    let script = include_str!("../../tools/helm.sh");
    let version = script
        .lines()
        .find_map(|line| line.strip_prefix("version="))
        .unwrap();
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let folder = std::env::var_os("CUTOVER_HELM")
        .map(PathBuf::from)
        .or_else(|| Some(cache?.join("cutover/helm").join(version)));
    let helm = folder
        .map(|folder| folder.join("helm"))
        .filter(|helm| helm.is_file());
    if helm.is_none() {
        let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
        assert!(!ci, "helm is missing; tools/helm.sh builds it");
        let _ = writeln!(
            std::io::stderr(),
            "left out: helm is missing; tools/helm.sh builds it"
        );
    }
    helm
}

fn run(program: &Path, arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    // Links are what the chart is made of: helm names each.
    let errors: Vec<String> = text(output.stderr)
        .lines()
        .filter(|line| !line.contains("found symbolic link"))
        .map(str::to_owned)
        .collect();
    (output.status.success(), text(output.stdout), errors.join("\n"))
}

/// Renders the chart; an error is what helm says.
fn template(helm: &Path, namespace: &str, files: &[&str], values: &[&str]) -> Result<Vec<Value>, String> {
    let mut arguments = vec!["template", "cutover", "deploy/chart", "--namespace", namespace];
    arguments.extend(files.iter().flat_map(|file| ["--values", file]));
    arguments.extend(values.iter().flat_map(|value| ["--set", value]));
    let (done, text, errors) = run(helm, &arguments);
    if !done {
        return Err(errors);
    }
    Ok(documents(&text))
}

fn profile(name: &str) -> String {
    format!("deploy/chart/profiles/{name}.yaml")
}

fn rendered(helm: &Path, profile: &str, values: &[&str]) -> Vec<Value> {
    template(helm, "cutover-system", &[&self::profile(profile)], values).unwrap()
}

fn control_plane(helm: &Path, values: &[&str]) -> Vec<Value> {
    template(helm, "karmada-system", &[], &[CONTROL_PLANE, values].concat()).unwrap()
}

fn name(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!("{} {}", text(&object["kind"]), text(&object["metadata"]["name"]))
}

fn find<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap()
}

fn container(objects: &[Value], kind: &str) -> Value {
    find(objects, kind)["spec"]["template"]["spec"]["containers"][0].clone()
}

#[test]
fn the_chart_passes_lint_with_each_profile_and_with_everything_on() {
    let Some(helm) = helm() else { return };
    for profile in PROFILES {
        for values in [&ALL[..1], ALL, CONTROL_PLANE] {
            let file = self::profile(profile);
            let mut arguments = vec!["lint", "--strict", "--quiet", "deploy/chart", "--values", &file];
            arguments.extend(values.iter().flat_map(|value| ["--set", value]));
            let (done, text, errors) = run(&helm, &arguments);
            assert!(done, "{profile} {values:?}: {text}{errors}");
        }
    }
}

#[test]
fn values_that_cannot_work_are_refused_before_anything_is_installed() {
    let Some(helm) = helm() else { return };
    let url = ALL[0];
    for (values, expected) in [
        (vec![], "repo.url is missing"),
        (vec![url], "karmada.kubeconfig.secret is missing"),
        (
            vec![url, "karmada.kubeconfig.secret=k", "karmada.inCluster=true"],
            "not both",
        ),
        (
            vec![
                url,
                "karmada.inCluster=true",
                "git.https.secret=a",
                "git.ssh.secret=b",
            ],
            "git.https.secret or git.ssh.secret, not both",
        ),
        (
            vec![
                "repo.url=https://robot:hunter2@git.example.com/fleet",
                "karmada.inCluster=true",
            ],
            "repo.url holds a password",
        ),
        (
            vec![url, "karmada.inCluster=true", "webhook.enabled=true"],
            "webhook.secret is missing",
        ),
        (
            vec![url, "karmada.inCluster=true", "install.enabled=true"],
            "install.kubeconfig.secret is missing",
        ),
        (
            vec![url, "karmada.inCluster=true", "replica=3"],
            "additional properties 'replica' not allowed",
        ),
        (vec![url, "karmada.inCluster=true", "replicas=none"], "replicas"),
        (
            vec![url, "karmada.inCluster=true", "lease.duration=soon"],
            "lease/duration",
        ),
    ] {
        let said = template(&helm, "cutover-system", &[], &values).unwrap_err();
        assert!(said.contains(expected), "{values:?}: {said}");
    }
}

/// A value that the schema doesn't know would be refused by lint; here, that the schema knows no value that isn't there.
#[test]
fn the_schema_of_values_knows_those_of_the_chart_and_no_others() {
    let schema: Value = serde_json::from_str(&read("deploy/chart/values.schema.json")).unwrap();
    let values: Value = serde_yaml::from_str(&read("deploy/chart/values.yaml")).unwrap();
    let mut unknown = Vec::new();
    compare(&schema, &values, "", &mut unknown);
    assert_eq!(unknown, [".global"], "helm passes it to every chart");
}

fn compare(schema: &Value, values: &Value, path: &str, unknown: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        match values.get(name) {
            Some(value) => compare(property, value, &path, unknown),
            None => unknown.push(path),
        }
    }
}

#[test]
fn the_control_plane_gets_the_objects_of_deploy_and_keeps_what_holds_state() {
    let Some(helm) = helm() else { return };
    let who = "system:serviceaccount:elsewhere:mover";
    let mut rendered = control_plane(&helm, &[&format!("controlPlane.reconcilers={{{who}}}")]);
    let kept = |object: &Value| {
        object.pointer("/metadata/annotations/helm.sh~1resource-policy") == Some(&json!("keep"))
    };
    for object in &rendered {
        let holds_state =
            ["CustomResourceDefinition", "Namespace"].contains(&object["kind"].as_str().unwrap());
        assert_eq!(kept(object), holds_state, "{}", name(object));
    }
    for object in &mut rendered {
        let metadata = object["metadata"].as_object_mut().unwrap();
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.shift_remove("helm.sh/resource-policy");
            if annotations.is_empty() {
                metadata.shift_remove("annotations");
            }
        }
    }
    let mut expected = [
        documents(&read("deploy/rbac.yaml")),
        documents(&read("deploy/rbac-fence.yaml")),
        documents(
            &read("deploy/admission/fence.yaml").replace("system:serviceaccount:cutover-system:cutover", who),
        ),
    ]
    .concat();
    for entry in std::fs::read_dir(root().join("deploy/crds")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        expected.extend(documents(&text));
    }
    let by_name = |objects: Vec<Value>| -> BTreeMap<String, Value> {
        // Roles of the same name stand in several namespaces.
        let key = |object: &Value| format!("{} {}", name(object), object["metadata"]["namespace"]);
        let objects = objects.into_iter();
        objects
            .map(|object| (key(&object), same_numbers(object)))
            .collect()
    };
    let (rendered, expected) = (by_name(rendered), by_name(expected));
    assert_eq!(
        rendered.keys().collect::<Vec<_>>(),
        expected.keys().collect::<Vec<_>>()
    );
    for (name, object) in &expected {
        assert_eq!(&rendered[name], object, "{name}");
    }
}

/// Helm writes `0.0` as `0`.
fn same_numbers(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.into_iter().map(same_numbers).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields.map(|(name, value)| (name, same_numbers(value))).collect()
        }
        other => other,
    }
}

#[test]
fn kustomize_has_every_crd_of_deploy() {
    let kustomization: Value = serde_yaml::from_str(&read("deploy/kustomization.yaml")).unwrap();
    let listed: BTreeSet<String> = kustomization["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap().to_owned())
        .collect();
    let files = std::fs::read_dir(root().join("deploy/crds")).unwrap();
    let mut expected: BTreeSet<String> = files
        .map(|entry| format!("crds/{}", entry.unwrap().file_name().to_string_lossy()))
        .collect();
    expected.extend(["rbac.yaml", "rbac-fence.yaml", "admission/fence.yaml"].map(str::to_owned));
    assert_eq!(listed, expected);
}

/// The manifests of kustomize are the chart's: one place says what runs. `CUTOVER_ACCEPT=1` writes them.
#[test]
fn kustomize_runs_what_the_chart_runs() {
    let Some(helm) = helm() else { return };
    for profile in PROFILES {
        let path = format!("deploy/kustomize/{profile}/reconciler.yaml");
        let files = [&*self::profile(profile), "deploy/kustomize/values.yaml"];
        let objects = template(&helm, "cutover-system", &files, &[]).unwrap();
        let fresh = manifests(objects);
        if std::env::var_os("CUTOVER_ACCEPT").is_some() {
            std::fs::write(root().join(&path), &fresh).unwrap();
        }
        let there = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
        assert!(
            there == fresh,
            "{path} is stale; run: CUTOVER_ACCEPT=1 cargo test --test all install::kustomize"
        );
    }
}

/// Returns manifests without what only helm is to know.
fn manifests(objects: Vec<Value>) -> String {
    let mut text = "# Rendered from deploy/chart (tests/all/install.rs); not to be edited.\n".to_owned();
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "cutover-system", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    });
    for (number, mut object) in std::iter::once(namespace).chain(objects).enumerate() {
        if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
            labels.shift_remove("helm.sh/chart");
            labels.shift_remove("app.kubernetes.io/managed-by");
        }
        let separator = if number == 0 { "" } else { "---\n" };
        let _ = write!(text, "{separator}{}", serde_yaml::to_string(&object).unwrap());
    }
    text
}

#[test]
fn pods_are_hardened() {
    let Some(helm) = helm() else { return };
    for profile in PROFILES {
        let objects = rendered(&helm, profile, ALL);
        for kind in ["Deployment", "Job"] {
            let pod = &find(&objects, kind)["spec"]["template"]["spec"];
            assert_eq!(pod["automountServiceAccountToken"], false);
            assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
            assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
            let container = &pod["containers"][0];
            assert_eq!(
                container["securityContext"],
                json!({
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
                })
            );
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
        let deployment = find(&objects, "Deployment");
        assert_eq!(deployment["spec"]["replicas"], 2);
        let grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_i64();
        let arguments = container(&objects, "Deployment")["args"].to_string();
        assert!(
            grace > Some(20) && arguments.contains("--grace-period=20s"),
            "{grace:?} {arguments}"
        );
    }
}

// What an API server makes of it.

on_both_servers! {
    an_api_server_accepts_everything_that_is_rendered,
}

/// Kinds that the sandbox has to serve: what cutover itself puts into a control plane, and workloads.
const IN_THE_SANDBOX: [&str; 4] = [
    "CustomResourceDefinition",
    "Deployment",
    "Namespace",
    "ValidatingAdmissionPolicy",
];

#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn an_api_server_accepts_everything_that_is_rendered(on: On) {
    let Some(helm) = helm() else { return };
    if !crate::support::kubectl::is_there(READS_V3).await {
        return;
    }
    let served = Served::on(on);
    for definition in monitoring() {
        served.server.install(&definition);
    }
    let mut sets: Vec<(String, Vec<Value>)> = PROFILES
        .map(|profile| (profile.to_owned(), rendered(&helm, profile, ALL)))
        .into();
    sets.push((
        "ssh, in the cluster of Karmada".to_owned(),
        rendered(
            &helm,
            "anywhere",
            &[
                ALL[0],
                "git.ssh.secret=key",
                "karmada.kubeconfig.secret=",
                "karmada.inCluster=true",
            ],
        ),
    ));
    sets.push((
        "the control plane".to_owned(),
        control_plane(
            &helm,
            &[
                "controlPlane.syncRules[0].apiGroups={apps}",
                "controlPlane.syncRules[0].resources={deployments}",
                "controlPlane.syncRules[0].verbs={get,list}",
            ],
        ),
    ));
    for profile in PROFILES {
        let kustomized = run(
            Path::new("kubectl"),
            &["kustomize", &format!("deploy/kustomize/{profile}")],
        );
        assert!(kustomized.0, "{}", kustomized.2);
        sets.push((format!("kustomize: {profile}"), documents(&kustomized.1)));
    }
    let kustomized = run(Path::new("kubectl"), &["kustomize", "deploy"]);
    assert!(kustomized.0, "{}", kustomized.2);
    sets.push((
        "kustomize: the control plane".to_owned(),
        documents(&kustomized.1),
    ));
    for namespace in ["cutover-system", "karmada-system"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        kubectl(
            &served,
            &["apply", "--server-side", "-f", "-"],
            &namespace.to_string(),
        );
    }
    let kinds = kinds(&served);
    for (set, mut objects) in sets {
        if on == On::Sandbox {
            let is_expected = |object: &Value| IN_THE_SANDBOX.contains(&object["kind"].as_str().unwrap());
            objects.retain(|object| is_expected(object) || kinds.contains(&kind_of(object)));
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let apply = match on {
            On::Kube => &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--dry-run=server",
                "--validate=strict",
                "-f",
                "-",
            ][..],
            // Its OpenAPI is not all that kubectl asks before it validates: what it takes, it takes for good.
            On::Sandbox => &[
                "apply",
                "--server-side",
                "--force-conflicts",
                "--validate=ignore",
                "-f",
                "-",
            ],
        };
        let said = kubectl(&served, apply, &list.to_string());
        assert_eq!(said.lines().count(), objects.len(), "{set}: {said}");
    }
}

fn kind_of(object: &Value) -> (String, String) {
    let text = |field: &str| object[field].as_str().unwrap().to_owned();
    (text("apiVersion"), text("kind"))
}

/// Returns what an API server serves.
fn kinds(served: &Served) -> BTreeSet<(String, String)> {
    let listed = kubectl(served, &["api-resources", "--no-headers"], "");
    let lines = listed
        .lines()
        .map(|line| line.split_whitespace().rev().collect::<Vec<_>>());
    // Backwards: kind, namespaced, version.
    lines
        .map(|words| (words[2].to_owned(), words[0].to_owned()))
        .collect()
}

/// Runs kubectl, which has to succeed, and returns what it prints.
fn kubectl(served: &Served, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(served.kubeconfig())
        .args(arguments)
        .env("HOME", served.dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "kubectl {arguments:?}: {}",
        stderr(&output)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Returns small definitions of the Prometheus operator's kinds: what is required of them, and what is written.
fn monitoring() -> [Value; 2] {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let object = |required: &[&str], properties: Value| json!({"type": "object", "required": required, "properties": properties});
    let list = |items: Value| json!({"type": "array", "items": items});
    let definition = |kind: &str, plural: &str, spec: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
            "spec": {
                "group": "monitoring.coreos.com", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "required": ["spec"], "properties": {"spec": spec},
                }}}],
            },
        })
    };
    let endpoint = object(
        &["port"],
        json!({"port": text(), "path": text(), "interval": text()}),
    );
    let selector = object(&["matchLabels"], json!({"matchLabels": texts()}));
    let monitor = object(
        &["selector", "endpoints"],
        json!({"selector": selector, "endpoints": list(endpoint)}),
    );
    let rule = object(
        &["alert", "expr"],
        json!({"alert": text(), "expr": text(), "for": text(), "labels": texts(), "annotations": texts()}),
    );
    let group = object(&["name", "rules"], json!({"name": text(), "rules": list(rule)}));
    let rules = object(&["groups"], json!({"groups": list(group)}));
    [
        definition("ServiceMonitor", "servicemonitors", monitor),
        definition("PrometheusRule", "prometheusrules", rules),
    ]
}

// What runs: the container of a pod, as a process.

/// A container as a process of the program: its arguments and its environment as they are, its volumes as directories.
struct Pod {
    child: Child,
    log: PathBuf,
    volumes: TempDir,
}

impl Pod {
    /// Starts the container of a rendered Deployment or Job. `secrets` has the content of each key of each Secret.
    #[expect(clippy::too_many_lines, reason = "one argument after the other")]
    fn start(objects: &[Value], kind: &str, name: &str, secrets: &BTreeMap<(&str, &str), String>) -> Self {
        let pod = find(objects, kind)["spec"]["template"]["spec"].clone();
        let container = &pod["containers"][0];
        let volumes = tempfile::tempdir().unwrap();
        let mut places: Vec<(String, String)> = Vec::new();
        for mount in container["volumeMounts"].as_array().unwrap() {
            let volume = pod["volumes"].as_array().unwrap();
            let volume = volume
                .iter()
                .find(|volume| volume["name"] == mount["name"])
                .unwrap();
            let place = volumes.path().join(mount["name"].as_str().unwrap());
            std::fs::create_dir(&place).unwrap();
            if let Some(secret) = volume.get("secret") {
                for item in secret["items"].as_array().unwrap() {
                    let key = (
                        secret["secretName"].as_str().unwrap(),
                        item["key"].as_str().unwrap(),
                    );
                    let content = secrets.get(&key).unwrap_or_else(|| panic!("no {key:?}"));
                    std::fs::write(place.join(item["path"].as_str().unwrap()), content).unwrap();
                }
            } else {
                assert!(volume.get("emptyDir").is_some(), "{volume}");
                assert_ne!(mount["readOnly"], true);
            }
            places.push((
                mount["mountPath"].as_str().unwrap().to_owned(),
                as_text(&place).to_owned(),
            ));
        }
        let mapped = |text: &str| {
            let inside = |from: &str| format!("{from}/");
            let place = places
                .iter()
                .find(|(from, _)| text == from || text.contains(&inside(from)));
            match place {
                Some((from, to)) if text == from => to.clone(),
                Some((from, to)) => text.replace(&inside(from), &inside(to)),
                None => text.to_owned(),
            }
        };
        let log = volumes.path().join("log");
        let output = std::fs::File::create(&log).unwrap();
        assert!(
            container.get("command").is_none(),
            "the image has its own entrypoint"
        );
        let arguments = container["args"].as_array().unwrap();
        let environment = container["env"].as_array().into_iter().flatten();
        let child = Command::new(env!("CARGO_BIN_EXE_cutover"))
            .args(
                arguments
                    .iter()
                    .map(|argument| mapped(argument.as_str().unwrap())),
            )
            .env_clear()
            .envs(environment.map(|variable| {
                let text = |field: &str| variable[field].as_str().unwrap().to_owned();
                (text("name"), mapped(&text("value")))
            }))
            .env("HOSTNAME", name)
            .env("HOME", "/home/nonroot")
            .current_dir("/")
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        Self { child, log, volumes }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Tells it to end, and returns its exit code.
    fn end(&mut self) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", "TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        self.wait()
    }

    fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Pod {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// Waits until a probe succeeds, as a kubelet does, and returns what it says.
async fn until_ready(port: u16, path: &str, pod: &Pod) -> String {
    let begun = Instant::now();
    loop {
        let answer = get(port, path).await;
        if let Some((200, body)) = answer {
            return body;
        }
        assert!(begun.elapsed() < PATIENCE, "{path}: {answer:?}\n{}", pod.said());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn two_pods_of_the_deployment_get_ready_one_leads_and_both_end_in_order() {
    let Some(helm) = helm() else { return };
    for profile in PROFILES {
        let stage = Stage::with(&[
            (
                "cutover.yaml",
                "apiVersion: cutover.dev/v1alpha1\nkind: Config\nsyncs: [{name: all}]\n",
            ),
            (
                "namespace.yaml",
                "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
            ),
            (
                "map.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {a: b}\n",
            ),
        ])
        .await;
        let git = Http::of(stage.origin.root())
            .login("robot:hunter2-swordfish")
            .start();
        let url = format!("repo.url={}", git.http());
        let start = |name: &'static str| {
            let (metrics, webhook) = (free_port(), free_port());
            let ports = [
                format!("metrics.port={metrics}"),
                format!("webhook.port={webhook}"),
            ];
            let values = [
                &*url,
                &ports[0],
                &ports[1],
                "webhook.enabled=true",
                "webhook.secret=hook",
                "git.https.secret=git",
                "git.https.user=robot",
            ];
            let kubeconfig = stage.kubeconfig(name, stage.address());
            let secrets = BTreeMap::from([
                (("git", "token"), "hunter2-swordfish".to_owned()),
                (("hook", "secret"), "0123456789abcdef-marlin".to_owned()),
                (
                    ("cutover-karmada", "kubeconfig"),
                    std::fs::read_to_string(kubeconfig).unwrap(),
                ),
            ]);
            let objects = rendered(&helm, profile, &values);
            let container = container(&objects, "Deployment");
            assert_eq!(
                container["readinessProbe"]["httpGet"],
                json!({"path": "/readyz", "port": "metrics"})
            );
            assert_eq!(
                container["livenessProbe"]["httpGet"],
                json!({"path": "/livez", "port": "metrics"})
            );
            assert_eq!(
                container["ports"][0],
                json!({"name": "metrics", "containerPort": metrics})
            );
            (Pod::start(&objects, "Deployment", name, &secrets), metrics)
        };
        let (mut one, port) = start("one");
        let body = until_ready(port, "/readyz", &one).await;
        assert_eq!(
            body,
            "ready\nrole: leader\nlease: ok\ncontrol-plane: ok\ngit: ok\ncaches: ok\n"
        );
        assert_eq!(until_ready(port, "/livez", &one).await, "ok\n");
        stage
            .until("what is in Git is applied", |stage| {
                !stage.objects(&CONFIG_MAPS).is_empty()
            })
            .await;

        let (mut two, port) = start("two");
        let body = until_ready(port, "/readyz", &two).await;
        assert!(body.contains("role: standby (one_"), "{body}");
        let metrics = until_ready(port, "/metrics", &two).await;
        assert!(metrics.contains("\ncutover_leader 0"), "{metrics}");

        // What it has written is in its volumes.
        let state = one.volumes.path().join("state");
        assert!(std::fs::read_dir(&state).unwrap().next().is_some());
        assert_eq!(one.end(), Some(0), "{}", one.said());
        stage.leads("two").await;
        assert_eq!(two.end(), Some(0), "{}", two.said());
        let logged = one.said() + &two.said();
        for secret in ["hunter2", "marlin"] {
            assert!(
                !logged.contains(secret) && !metrics.contains(secret),
                "{secret}: {logged}"
            );
        }
    }
}

#[test]
fn the_job_installs_crds_and_fence() {
    let Some(helm) = helm() else { return };
    let served = Served::before_cutover();
    let kubeconfig = std::fs::read_to_string(served.kubeconfig()).unwrap();
    let objects = rendered(&helm, "host-cluster", ALL);
    let secrets = BTreeMap::from([(("karmada-admin", "kubeconfig"), kubeconfig)]);
    let mut job = Pod::start(&objects, "Job", "job", &secrets);
    assert_eq!(job.wait(), Some(0), "{}", job.said());
    let crd = served.server.get(&CRDS, None, "migrations.cutover.dev");
    assert!(crd.is_some());
    let policies = Resource::new("admissionregistration.k8s.io", "validatingadmissionpolicies");
    let policy = served.server.get(&policies, None, "cutover-claims").unwrap();
    assert!(
        policy
            .to_string()
            .contains("system:serviceaccount:cutover-system:cutover")
    );
}

/// How-to pages name values and files: none of them may be gone.
#[test]
fn the_page_on_installing_names_what_is_there() {
    let page = read("docs/how-to/install.md");
    let words = page.split(|c: char| c.is_whitespace() || matches!(c, '`' | '(' | ')' | ',' | ';'));
    let files: Vec<&str> = words.filter(|word| word.starts_with("deploy/")).collect();
    assert!(files.len() > 5, "{files:?}");
    for file in files {
        let file = file.trim_end_matches(['.', ':']);
        assert!(root().join(file).exists(), "{file}");
    }
    let values: Value = serde_yaml::from_str(&read("deploy/chart/values.yaml")).unwrap();
    let mut set = 0;
    for word in page.split_whitespace() {
        let Some((path, _)) = word.split_once('=').filter(|(path, _)| path.contains('.')) else {
            continue;
        };
        let path = path.trim_start_matches('`');
        if path.chars().all(|c| c.is_ascii_alphabetic() || c == '.') {
            let pointer = format!("/{}", path.replace('.', "/"));
            assert!(values.pointer(&pointer).is_some(), "{path}");
            set += 1;
        }
    }
    assert!(set > 5, "{set}");
}
