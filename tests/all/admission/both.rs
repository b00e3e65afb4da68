//! The same requests to the sandbox and to a real API server, and what differs in their answers.

use std::time::Duration;

use cutover::sandbox::api::{ApiServer, Options};
use http::Method;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::real;

/// How long something may take to come into force.
const LIMIT: Duration = Duration::from_secs(30);

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

/// A request.
#[derive(Clone, Debug)]
pub struct Step {
    pub method: Method,
    pub path: String,
    pub body: Option<Value>,
    pub content: &'static str,
    pub user: Option<&'static str>,
}

/// What is compared of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: u16,
    pub reason: String,
    pub message: String,
    /// Those of a refusal; of a policy or a binding that was accepted, what became of it.
    pub details: Value,
    pub warnings: Vec<String>,
}

impl Step {
    pub fn new(method: Method, path: impl Into<String>, body: Option<Value>) -> Self {
        Self {
            method,
            path: path.into(),
            body,
            content: "application/json",
            user: None,
        }
    }

    pub fn post(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::POST, path, Some(body))
    }

    pub fn put(path: impl Into<String>, body: Value) -> Self {
        Self::new(Method::PUT, path, Some(body))
    }

    pub fn merge(path: impl Into<String>, body: Value) -> Self {
        Self {
            content: "application/merge-patch+json",
            ..Self::new(Method::PATCH, path, Some(body))
        }
    }

    pub fn apply(path: impl Into<String>, body: Value) -> Self {
        let path = format!("{}?fieldManager=tests&force=true", path.into());
        Self {
            content: "application/apply-patch+yaml",
            ..Self::new(Method::PATCH, path, Some(body))
        }
    }

    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path, None)
    }

    pub fn by(self, user: &'static str) -> Self {
        Self {
            user: Some(user),
            ..self
        }
    }
}

/// Both servers, with a namespace of the same name on both.
pub struct Both {
    sandbox: kube::Client,
    real: kube::Client,
    pub namespace: String,
}

impl Both {
    /// Returns both, or nothing when there is no real one.
    pub async fn start(test: &str) -> Option<Self> {
        let real = real::shared(test).await?;
        let namespace = real.namespace().await;
        let sandbox = ApiServer::new(Options::new("sandbox", 1));
        for definition in real::definitions() {
            sandbox.install(&definition).unwrap();
        }
        let both = Self {
            sandbox: sandbox.client("system:admin"),
            real: real.client().await,
            namespace,
        };
        let namespace = json!({"metadata": {"name": both.namespace}});
        let created = ask(&both.sandbox, &Step::post("/api/v1/namespaces", namespace)).await;
        assert_eq!(created.code, 201, "{created:?}");
        Some(both)
    }

    /// Sends a request to both and returns the answers: the sandbox's, then the real server's.
    pub async fn ask(&self, step: &Step) -> (Answer, Answer) {
        tokio::join!(ask(&self.sandbox, step), ask(&self.real, step))
    }

    /// Sends a request to both; the answers must be the same.
    pub async fn same(&self, step: &Step) -> Answer {
        let (sandbox, real) = self.ask(step).await;
        assert_eq!(sandbox, real, "sandbox (left), real (right): {step:#?}");
        real
    }

    /// Writes something that both accept.
    pub async fn write(&self, step: &Step) {
        let answer = self.same(step).await;
        assert!(answer.code < 300, "{step:?}: {answer:?}");
    }

    /// Sends a request until both answer it with a code.
    pub async fn until(&self, step: &Step, code: u16) {
        let begun = Instant::now();
        loop {
            let (sandbox, real) = self.ask(step).await;
            if sandbox.code == code && real.code == code {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{step:?}: {sandbox:?}, {real:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Installs policies and bindings, and returns once they are in force on both servers: a last one refuses a
    /// ConfigMap called `probe`.
    pub async fn install(&self, policies: &[Value], bindings: &[Value]) {
        let name = format!("probe-{}", self.namespace);
        let probe = json!({
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["configmaps"], "resourceNames": ["probe"]}],
                },
                "validations": [{"expression": "false"}],
            },
        });
        let binding = json!({
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        });
        for policy in policies.iter().chain([&probe]) {
            self.write(&Step::post(POLICIES, policy.clone())).await;
        }
        for binding in bindings.iter().chain([&binding]) {
            self.write(&Step::post(BINDINGS, binding.clone())).await;
        }
        let probe = json!({"metadata": {"name": "probe"}});
        let path = format!("/api/v1/namespaces/{}/configmaps?dryRun=All", self.namespace);
        self.until(&Step::post(path, probe), 422).await;
    }

    /// Takes policies and bindings away again: other tests share the real server.
    pub async fn remove(&self, policies: &[Value], bindings: &[Value]) {
        for (path, objects) in [(BINDINGS, bindings), (POLICIES, policies)] {
            for object in objects {
                let name = object["metadata"]["name"].as_str().unwrap();
                let _ = self.ask(&Step::delete(format!("{path}/{name}"))).await;
            }
        }
    }
}

async fn ask(client: &kube::Client, step: &Step) -> Answer {
    let mut request = http::Request::builder()
        .method(step.method.clone())
        .uri(&step.path)
        .header("content-type", step.content)
        .header("user-agent", "tests");
    if let Some(user) = step.user {
        request = request.header("impersonate-user", user);
    }
    let body = step.body.as_ref().map(Value::to_string).unwrap_or_default();
    let response = client
        .send(request.body(Body::from(body.into_bytes())).unwrap())
        .await
        .unwrap();
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let mut warnings: Vec<String> = warnings
        .map(|warning| warning.to_str().unwrap().to_owned())
        .collect();
    warnings.sort();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    // Generated names are anybody's.
    let generated = regex::Regex::new("gen-[a-z0-9]{5}").unwrap();
    let body = String::from_utf8(bytes.to_vec()).unwrap();
    let body: Value = serde_json::from_str(&generated.replace_all(&body, "gen-?")).unwrap_or_default();
    let failed = body["kind"] == "Status" && body["status"] == "Failure";
    let text = |field: &str| {
        let text = body[field].as_str().filter(|_| failed);
        text.unwrap_or_default().to_owned()
    };
    Answer {
        code,
        reason: text("reason"),
        message: text("message"),
        details: if failed {
            body["details"].clone()
        } else {
            Value::Null
        },
        warnings,
    }
}
