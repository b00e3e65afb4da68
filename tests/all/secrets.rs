//! No secret is shown anywhere: canaries stand in every place that can hold one, and every command is run on them, as
//! talkative as it can be, against a server that refuses what it dislikes and quotes it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use cutover::sandbox::api::{Admission, ListOptions, Patch, Resource, Review, Status, WriteOptions};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::git::Origin;
use crate::support::served::{Served, as_text};

/// Hands out words that occur nowhere else.
#[derive(Default)]
struct Canaries {
    all: Vec<String>,
}

impl Canaries {
    fn next(&mut self) -> String {
        let number = self.all.len();
        let canary = format!("C4n4ry{number:04}q{:04x}", (number * 7919) % 65_536);
        self.all.push(canary.clone());
        canary
    }

    /// Returns those that a text shows, be it in base64.
    fn in_text(&self, text: &str) -> BTreeSet<String> {
        if !text.contains("C4n4ry") && !text.contains("QzRuNHJ5") {
            return BTreeSet::new();
        }
        let shown = |canary: &&String| {
            text.contains(canary.as_str()) || text.contains(base64(canary).trim_end_matches('='))
        };
        self.all.iter().filter(shown).cloned().collect()
    }
}

fn base64(text: &str) -> String {
    openssl::base64::encode_block(text.as_bytes())
}

/// Refuses what says so, and quotes what was sent and what is there.
struct Gossip;

impl Admission for Gossip {
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        let refused = |object: &Value| object["metadata"]["annotations"]["test/refuse"] == "true";
        match review.new.filter(|new| refused(new)) {
            Some(new) => {
                let old = review.old.map(ToString::to_string).unwrap_or_default();
                let map = format!("&{{map[spec:{:?}]}}", new["spec"]);
                Err(Status::denied(
                    "gossip.example.com",
                    &format!("{new} is no better than {old} or {map}"),
                ))
            }
            None => Ok(None),
        }
    }
}

/// A file of 40 objects with a secret in every place that can hold one. `refused`: the webhook won't have them.
fn objects(canaries: &mut Canaries, prefix: &str, refused: bool) -> String {
    let mut file = String::new();
    for number in 0..8 {
        let mut next = || canaries.next();
        let metadata = |kind: &str, last: String| {
            json!({
                "name": format!("{prefix}-{kind}-{number}"), "namespace": "shop",
                "annotations": {
                    "test/refuse": refused.to_string(), "test/hook": format!("https://hook:{last}@example.com/"),
                    "kubectl.kubernetes.io/last-applied-configuration": json!({"data": {"a": last}}).to_string(),
                },
            })
        };
        let all = [
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("secret", next()),
                "data": {"a": base64(&next()), "b": base64(&next())}, "stringData": {"c": next(), "d": format!("{}\nand {}", next(), next())}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("config", next()), "data": {
                "url": format!("postgres://shop:{}@db.example.com/shop", next()),
                "app.properties": format!("db.password = {}\ndb.user = shop\n", next()),
                "app.yaml": format!("db:\n  user: shop\n  password: {}\n  tls:\n    private-key: |\n      {}\n", next(), next()),
                "app.json": json!({"auth": {"token": next()}}).to_string(),
                "key.pem": format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", next()),
                "curl": format!("-H 'Authorization: Bearer {}'", next()),
                "secret.yaml": format!("kind: Secret\nmetadata: {{name: a}}\nstringdata:\n  a: {}\n", next()),
                "env.yaml": format!("- {{name: password, value: {}}}\n", next()),
                "redis.conf": format!("requirepass {}\n", next()),
                "sas": format!("https://a.example.com/b?sv=1&sig={}", next()),
                "SLACK_WEBHOOK": next(), "auth": next(), "DB_PASS": next(), ".netrc": format!("machine a login b password {}\n", next()),
                "core-site.xml": format!("<name>fs.s3a.secret.key</name><value>{}</value>", next()),
            }}),
            deployment(
                &format!("{prefix}-web-{number}"),
                metadata("web", next()),
                &mut next,
            ),
            json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "metadata": metadata("job", next()), "spec": {
                "flinkConfiguration": {"s3.secret-key": next(), "s3.endpoint": format!("https://key:{}@s3.example.com", next())},
                "podTemplate": {"spec": {"containers": [{"name": "main", "env": [{"name": "API_TOKEN", "value": next()}]}]}},
            }}),
        ];
        for object in all {
            let _ = write!(file, "---\n{object}\n");
        }
    }
    file
}

fn deployment(name: &str, mut metadata: Value, next: &mut impl FnMut() -> String) -> Value {
    metadata["name"] = json!(name);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{
                "name": "main", "image": "web:1", "args": ["--token", next(), format!("--db-password={}", next())],
                "command": ["sh", "-c", format!("run --api-key {} -Dstore.password={}", next(), next())],
                "env": [{"name": "DB_PASSWORD", "value": next()}, {"name": "SIGNING_KEY_PROD", "value": next()}],
            }]},
        }},
    })
}

/// Files that can't be read, or not by the API server, each in another way.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn broken(canaries: &mut Canaries) -> Vec<(String, String)> {
    let head = |kind: &str, name: &str| {
        format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop}}\n")
    };
    let mut files = Vec::new();
    for number in 0..4 {
        let mut next = || canaries.next();
        let secret = |name: &str| head("Secret", &format!("{name}-{number}"));
        let all = [
            format!(
                "{}stringData:\n  a: {}\n b: {}\n",
                secret("indent"),
                next(),
                next()
            ),
            format!("{}stringData:\n  a: !{}\n", secret("tag"), next()),
            format!("{}stringData:\n  a: *{}\n", secret("alias"), next()),
            format!("{}stringData:\n  a: @{}\n", secret("at"), next()),
            format!("{}stringData:\n  a: \"{}\n", secret("quote"), next()),
            format!(
                "{}stringData:\n  a: {}\n  a: {}\n",
                secret("twice"),
                next(),
                next()
            ),
            format!("{}stringData:\n\ta: {}\n", secret("tab"), next()),
            format!(
                "{}stringData: {{a: {}, b: [{}}}\n",
                secret("flow"),
                next(),
                next()
            ),
            format!("{}stringData: password:{}\n", secret("map"), next()),
            format!(
                "{}stringData: {{a: [{}, {{b: {}}}]}}\n",
                secret("list"),
                next(),
                next()
            ),
            format!("{}data: {{a: not-base64-{}}}\n", secret("plain"), next()),
            format!("{}stringdata: {{a: {}}}\n", secret("typo"), next()),
            format!(
                "{}data: {{a: {}}}\nimmutable: maybe\n",
                secret("bool"),
                base64(&next())
            ),
            format!(
                "{}data: {{password: [{}]}}\n",
                head("ConfigMap", &format!("seq-{number}")),
                next()
            ),
            format!(
                "{}data: {{config: {{password: {}}}}}\n",
                head("ConfigMap", &format!("deep-{number}")),
                next()
            ),
            format!(
                "{}spec: {{containers: [{{name: a, env: [{{name: TOKEN, value: {{a: {}}}}}]}}]}}\n",
                head("Pod", &format!("env-{number}")),
                next()
            ),
            format!(
                "apiVersion: cutover.dev/v1alpha1\nkind: Migration\nmetadata: {{name: m-{number}, namespace: shop}}\nspec: {{to: \"https://a:{}@b/\", strategy: \"token={}\", verify: {{timeout: \"Bearer {}\"}}}}\n",
                next(),
                next(),
                next()
            ),
        ];
        files.extend(
            all.into_iter()
                .enumerate()
                .map(|(kind, text)| (format!("broken/{number}-{kind}.yaml"), text)),
        );
    }
    files
}

struct Leaks {
    canaries: Canaries,
    found: Vec<String>,
}

impl Leaks {
    fn look(&mut self, what: &str, text: &str) {
        for canary in self.canaries.in_text(text) {
            let line = text
                .lines()
                .find(|line| line.contains(&canary) || line.contains(base64(&canary).trim_end_matches('=')));
            self.found.push(format!(
                "{what}: {canary} in {}",
                line.unwrap_or_default().chars().take(600).collect::<String>()
            ));
        }
    }
}

/// Serves an API server whose answers to writes of Secrets can't be used: the first never comes, all others quote what was
/// sent and are no JSON. Returns a kubeconfig.
fn unusable_answers(served: &Served) -> std::path::PathBuf {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let service = served.server.sandbox().service("system:admin");
    let hangs = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let answer = move |request: axum::extract::Request| {
        let (service, hangs) = (service.clone(), Arc::clone(&hangs));
        async move {
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            if head.method == http::Method::PATCH && head.uri.path().contains("/secrets/") {
                if hangs.swap(false, std::sync::atomic::Ordering::SeqCst) {
                    std::future::pending::<()>().await;
                }
                let quoted = format!("what is this? {}", String::from_utf8_lossy(&body));
                return http::Response::new(axum::body::Body::from(quoted));
            }
            let request = http::Request::from_parts(head, kube::client::Body::from(body));
            service.oneshot(request).await.unwrap()
        }
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let router = axum::Router::new().fallback(answer);
            axum::serve(listener, router).await.unwrap();
        });
    });
    let text = std::fs::read_to_string(served.kubeconfig()).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["clusters"][0]["cluster"]["server"] = json!(format!("http://{address}"));
    let path = served.dir.path().join("unusable");
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

#[test]
fn answers_that_do_not_come_or_make_no_sense_show_no_secret_either() {
    let mut canaries = Canaries::default();
    let served = Served::start(&canaries.next());
    let secret = |canaries: &mut Canaries, name: &str| {
        let data = json!({"a": base64(&canaries.next())});
        let (metadata, more) = (
            json!({"name": name, "namespace": "shop"}),
            json!({"b": canaries.next()}),
        );
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data, "stringData": more})
            .to_string()
    };
    let (one, two) = (secret(&mut canaries, "one"), secret(&mut canaries, "two"));
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let origin = Origin::with(&[
        ("namespace.yaml", namespace),
        ("one.yaml", &one),
        ("two.yaml", &two),
    ]);
    let (path, kubeconfig) = (origin.path(), unusable_answers(&served));
    let (repo, kubeconfig) = (as_text(&path), as_text(&kubeconfig).to_owned());
    let taken = served.dir.path().join("taken");
    std::fs::write(&taken, "a file").unwrap();
    let mut leaks = Leaks {
        canaries,
        found: Vec::new(),
    };
    let token = leaks.canaries.next();
    let mut told = String::new();
    for arguments in [
        &["run", "--once", "--repo", repo, "--kubeconfig", &kubeconfig][..],
        &["plan", repo, "--kubeconfig", &kubeconfig],
        &["schema"],
        &["schema", "migration"],
        &["completions", "bash"],
        &["demo", "--dir", as_text(&taken)],
        &["sandbox", "--dir", as_text(&taken)],
    ] {
        let arguments = [arguments, &["-vvv"]].concat();
        let environment = [("CUTOVER_LOG", "trace"), ("CUTOVER_GIT_TOKEN", token.as_str())];
        let output = served.cutover_with(&arguments, &environment);
        let shown = arguments.join(" ");
        for text in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(text);
            leaks.look(&shown, &text);
            told.push_str(&text);
        }
    }
    leaks.look("STATUS.md", &origin.read("cutover-status", "STATUS.md").unwrap());
    assert!(told.contains("trying again"), "nothing has timed out");
    assert!(
        told.contains("the answer cannot be understood"),
        "nothing was malformed"
    );
    assert!(leaks.found.is_empty(), "{:#?}", leaks.found);
}

#[test]
#[allow(
    clippy::too_many_lines,
    reason = "each line is another way to run the program"
)]
fn no_secret_is_ever_shown() {
    let mut canaries = Canaries::default();
    let served = Served::start(&canaries.next());
    served.server.sandbox().admit(Arc::new(Gossip));
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n";
    let first = objects(&mut canaries, "valid", false);
    let origin = Origin::with(&[("namespace.yaml", namespace), ("valid.yaml", &first)]);
    let path = origin.path();
    let repo = as_text(&path);
    let token = canaries.next();
    let mut leaks = Leaks {
        canaries: Canaries::default(),
        found: Vec::new(),
    };
    let mut outputs = Vec::new();
    let mut run = |arguments: &[&str]| {
        let format = ["text", "json"][outputs.len() / 2 % 2];
        let arguments = [arguments, &["-vvv", "--log-format", format]].concat();
        let environment = [
            ("CUTOVER_LOG", "trace"),
            ("RUST_LOG", "trace"),
            ("CUTOVER_GIT_TOKEN", token.as_str()),
        ];
        let output = served.cutover_with(&arguments, &environment);
        let shown = arguments.join(" ");
        outputs.push((
            format!("stdout of {shown}"),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        ));
        outputs.push((
            format!("stderr of {shown}"),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ));
    };

    run(&["run", "--once", "--repo", repo]);
    // Somebody takes fields over, and the objects that come then are changed, refused, broken.
    let theirs = WriteOptions {
        force: true,
        ..WriteOptions::manager("other-controller")
    };
    for number in 0..8 {
        let name = format!("valid-web-{number}");
        let taken = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "DB_PASSWORD", "value": canaries.next()}]}]}}}});
        let deployments = Resource::new("apps", "deployments");
        served
            .server
            .sandbox()
            .patch(
                &deployments,
                Some("shop"),
                &name,
                None,
                &Patch::Apply(taken),
                &theirs,
            )
            .unwrap();
    }
    let mut files = vec![
        ("valid.yaml".to_owned(), objects(&mut canaries, "valid", false)),
        ("refused.yaml".to_owned(), objects(&mut canaries, "refused", true)),
        (
            "refused-later.yaml".to_owned(),
            objects(&mut canaries, "more", false),
        ),
    ];
    files.extend(broken(&mut canaries));
    let commit = |files: &[(String, String)]| {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        origin.commit("main", &files);
    };
    commit(&files);
    let all_formats = |run: &mut dyn FnMut(&[&str])| {
        for format in ["text", "json", "markdown", "github"] {
            run(&["plan", repo, "-o", format]);
        }
        for style in ["unified", "fields"] {
            run(&["plan", repo, "--diff", style]);
        }
        run(&["run", "--once", "--repo", repo]);
        run(&["status"]);
        run(&["status", "-o", "json"]);
    };
    all_formats(&mut run);
    run(&["run", "--once", "--repo", repo, "--plan-hash", "0123456789abcdef"]);
    run(&["plan", repo, "--revision", "HEAD~1..HEAD"]);
    run(&["init", "--cluster"]);

    // What was taken is refused from now on: the webhook quotes what is there, too.
    commit(&[
        ("valid.yaml".to_owned(), objects(&mut canaries, "valid", true)),
        (
            "refused-later.yaml".to_owned(),
            objects(&mut canaries, "more", true),
        ),
    ]);
    all_formats(&mut run);

    // A clone, as a reviewer has it; and what the status branch says.
    let clone = served.dir.path().join("clone");
    git2::Repository::clone(repo, &clone).unwrap();
    let reviewed = ["review", as_text(&clone), "--revision", "HEAD~1..HEAD"];
    let recorded = [
        "status",
        "--recorded",
        "--repo",
        repo,
        "--status-branch",
        "cutover-status",
    ];
    for more in [&[][..], &["--offline"]] {
        run(&[&reviewed[..], more].concat());
    }
    for more in [&[][..], &["-o", "json"]] {
        run(&[&recorded[..], more].concat());
    }

    // Files as `validate` reads them, and settings.
    let checkout = served.dir.path().join("checkout");
    std::fs::create_dir_all(checkout.join("broken")).unwrap();
    for (path, text) in &files {
        std::fs::write(checkout.join(path), text).unwrap();
    }
    for format in ["text", "json", "github"] {
        run(&["validate", as_text(&checkout), "-o", format]);
    }
    for setting in [
        format!("interval: https://a:{}@b.example.com", canaries.next()),
        format!("token: {}", canaries.next()),
        format!("status: {{branch: [https://a:{}@b/]}}", canaries.next()),
        format!(
            "syncs: [{{name: 'https://a:{}@b/', path: 'x?token={}'}}]",
            canaries.next(),
            canaries.next()
        ),
        format!("author: !{}", canaries.next()),
    ] {
        let text = format!("apiVersion: cutover.dev/v1alpha1\nkind: Config\n{setting}\n");
        std::fs::write(checkout.join("cutover.yaml"), &text).unwrap();
        run(&["validate", as_text(&checkout)]);
        commit(&[("cutover.yaml".to_owned(), text)]);
        run(&["plan", repo]);
        run(&["run", "--once", "--repo", repo]);
    }

    // Addresses with passwords: nobody there, wrong ones, wrong usage.
    let url = |canary: String| format!("http://ci:{canary}@127.0.0.1:9/fleet.git");
    run(&["plan", "--repo", &url(canaries.next())]);
    run(&[
        "run",
        "--once",
        "--repo",
        &url(canaries.next()).replace("http", "gopher"),
    ]);
    run(&[
        "plan",
        "--repo",
        &url(canaries.next()),
        "--branch",
        "x",
        "--revision",
        "y",
    ]);
    run(&["plan", &url(canaries.next())]);
    let nobody = served.dir.path().join("nobody");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": format!("http://me:{}@127.0.0.1:9", canaries.next())}}],
        "users": [{"name": "a", "user": {"token": canaries.next(), "password": canaries.next()}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]});
    std::fs::write(&nobody, config.to_string()).unwrap();
    run(&["status", "--kubeconfig", as_text(&nobody)]);
    std::fs::write(
        &nobody,
        format!("users: [{{name: a, user: {{token: {}, token: ", canaries.next()),
    )
    .unwrap();
    run(&["status", "--kubeconfig", as_text(&nobody)]);

    assert!(canaries.all.len() >= 1000, "{}", canaries.all.len());
    leaks.canaries = canaries;
    assert!(
        !leaks.canaries.in_text(&first).is_empty(),
        "nothing would be found"
    );
    let talk: usize = outputs.iter().map(|(_, text)| text.len()).sum();
    assert!(
        talk > 1_000_000,
        "the program is not as talkative as it can be: {talk} bytes"
    );
    for (command, word) in [("review", "refused-later"), ("status --recorded", "revision")] {
        let starts = format!("stdout of {command}");
        let said = outputs.iter().filter(|(what, _)| what.starts_with(&starts));
        let telling = said.filter(|(_, text)| text.contains(word)).count();
        assert_eq!(telling, 2, "{command} says nothing of what there is");
    }
    for (what, text) in &outputs {
        leaks.look(what, text);
    }
    for file in ["STATUS.md", "status.yaml"] {
        let text = origin.read("cutover-status", file).unwrap();
        assert!(text.contains("refused-"), "{text}");
        leaks.look(file, &text);
    }
    for resource in [
        Resource::new("", "events"),
        Resource::new("cutover.dev", "migrations"),
        Resource::new("coordination.k8s.io", "leases"),
    ] {
        if let Ok(list) = served
            .server
            .sandbox()
            .list(&resource, None, &ListOptions::default())
        {
            for object in &list.items {
                leaks.look(
                    "an object",
                    &json!([object["status"], object["message"], object["note"]]).to_string(),
                );
            }
        }
    }
    assert!(
        leaks.found.is_empty(),
        "{} leaks:\n{}",
        leaks.found.len(),
        leaks
            .found
            .iter()
            .take(40)
            .cloned()
            .collect::<Vec<_>>()
            .join("\n")
    );
}
