//! Finds the API server and the credentials, and gives a client that keeps to the limits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::Request;
use kube::client::{Body, ClientBuilder};
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};
use kube::core::Status;
use secrecy::ExposeSecret;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::compute::off_the_runtime;
use super::discover::Discovery;
use super::error::{self, Error};
use super::limits::{Limits, Sender};
use super::progress::{ProgressObserver, Task, TaskProgress};
use super::single_flight::SingleFlight;
use super::{RequestObserver, Result};
use cutover_core::redact::Secrets;
use cutover_leadership::Leadership;

/// Where to look for the API server; what isn't said is taken from the environment, as kubectl does.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// Instead of `KUBECONFIG` and `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// Instead of the current context.
    pub context: Option<String>,
    pub limits: Limits,
}

/// A control plane that can be talked to. Clones share connections, limits and what was discovered.
#[derive(Clone)]
pub struct Cluster {
    client: kube::Client,
    sender: Sender,
    shared: Arc<Shared>,
    progress: Option<Arc<dyn ProgressObserver>>,
}

struct Shared {
    discovery: Discovery,
    clock: AtomicU64,
    single_flight: SingleFlight,
    server: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster")
            .field("server", &self.shared.server)
            .finish_non_exhaustive()
    }
}

/// Finds the API server: the given kubeconfig, `KUBECONFIG`, `~/.kube/config`, or the service account of this pod.
///
/// Sends nothing yet.
pub async fn connect(options: &ConnectOptions) -> Result<Cluster> {
    let mut config = configuration(options).await?;
    // The client panics on an address that has no scheme.
    if config.cluster_url.scheme().is_none() {
        return Err(Error::Kubeconfig {
            from: options.kubeconfig.as_ref().map(|path| path.display().to_string()),
            why: format!(
                "the address of its server begins with neither https:// nor http://: {}",
                shown(&config.cluster_url)
            ),
        });
    }
    config.connect_timeout = Some(options.limits.connect);
    // Kept by `limits`, which knows what is safe to repeat.
    config.default_retry = false;
    let server = shown(&config.cluster_url);
    let client = authenticated(config, &format!("cannot connect to {server}"))?;
    Ok(Cluster::new(client, options.limits.clone(), Some(server)))
}

/// Returns an address as it may be shown: a user name or a password in it is left out.
fn shown(address: &http::Uri) -> String {
    let text = address.to_string();
    let userinfo = address
        .authority()
        .and_then(|authority| authority.as_str().rsplit_once('@'));
    match userinfo {
        Some((userinfo, _)) => text.replacen(&format!("{userinfo}@"), "", 1),
        None => text,
    }
}

/// Makes a client that has its credentials, for which it may run a plugin.
fn authenticated(config: Config, call: &str) -> Result<kube::Client> {
    let unfit = || Error::Credentials {
        why: error::UNFIT.to_owned(),
    };
    let user = &config.auth_info;
    let provided = |name| user.auth_provider.as_ref()?.config.get(name);
    let provided = ["id-token", "access-token"].into_iter().filter_map(provided);
    let given = user.token.iter().map(ExposeSecret::expose_secret);
    let fits = |token: &str| http::HeaderValue::try_from(token).is_ok();
    if !given.chain(provided.map(String::as_str)).all(fits) {
        return Err(unfit());
    }
    // The client panics on a token that no header can carry, and what a plugin prints is known to nobody before.
    let made = catch_unwind(AssertUnwindSafe(|| ClientBuilder::try_from(config)));
    made.map_err(|_panicked| unfit())?
        .map(ClientBuilder::build)
        .map_err(|error| Error::from_kube(call, error))
}

impl Cluster {
    /// Wraps a client that exists already, such as the sandbox's.
    pub fn from_client(client: kube::Client, limits: Limits) -> Self {
        Self::new(client, limits, None)
    }

    fn new(client: kube::Client, limits: Limits, address: Option<String>) -> Self {
        let sender = Sender::new(client, address.as_deref().map(Arc::from), limits);
        let server = address.unwrap_or_else(|| "the given client".to_owned());
        Self {
            client: sender.client(),
            sender,
            shared: Arc::new(Shared {
                discovery: Discovery::default(),
                clock: AtomicU64::new(0),
                single_flight: SingleFlight::default(),
                server,
            }),
            progress: None,
        }
    }

    /// Returns the same control plane, written to only during a term of leadership: what is sent later, or begun again later, fails.
    #[must_use]
    pub fn within(&self, leadership: Leadership) -> Self {
        self.sending(self.sender.within(leadership))
    }

    /// Returns the same control plane with other limits, in no term of leadership.
    #[must_use]
    pub fn with_limits(&self, limits: Limits) -> Self {
        self.sending(self.sender.with(limits))
    }

    /// Returns the same control plane, with an observer of every exchange.
    #[must_use]
    pub fn observed(&self, observer: Arc<dyn RequestObserver>) -> Self {
        self.sending(self.sender.observed(observer))
    }

    fn sending(&self, sender: Sender) -> Self {
        Self {
            client: sender.client(),
            sender,
            shared: Arc::clone(&self.shared),
            progress: self.progress.clone(),
        }
    }

    /// Returns the same control plane, with an observer of how far long work with it has come.
    #[must_use]
    pub fn with_progress(&self, observer: Arc<dyn ProgressObserver>) -> Self {
        Self {
            progress: Some(observer),
            ..self.clone()
        }
    }

    /// Begins a task of so many things for a sync; it is over when what is returned is dropped.
    pub fn begin(&self, task: Task, sync: &str, total: usize) -> TaskProgress {
        TaskProgress::begin(self.progress.as_deref(), task, sync, total)
    }

    /// Fails when nothing may be written any more.
    pub fn may_write(&self) -> Result<()> {
        self.sender.may_write()
    }

    /// Returns the client for typed access; it keeps to the same limits.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    pub fn limits(&self) -> &Limits {
        &self.sender.limits
    }

    /// Returns the address of the API server, for people.
    pub fn server(&self) -> &str {
        &self.shared.server
    }

    /// Returns the kinds that the API server serves, asking when it isn't known.
    pub async fn lookup(&self, gvk: &cutover_karmada::name::Gvk) -> Result<super::Lookup> {
        self.shared.discovery.lookup(self, gvk).await
    }

    pub fn discovery(&self) -> &Discovery {
        &self.shared.discovery
    }

    pub(super) fn single_flight(&self) -> &SingleFlight {
        &self.shared.single_flight
    }

    /// Returns the next tick of a counter that only grows: what was read with a lower one was asked for earlier.
    pub fn tick(&self) -> u64 {
        self.shared.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Fails when this isn't a Karmada API server: the cluster that hosts Karmada is easily taken for it.
    pub async fn require_karmada(&self) -> Result<()> {
        let policy = cutover_karmada::name::Gvk::new("policy.karmada.io/v1alpha1", "PropagationPolicy");
        match self.lookup(&policy).await? {
            super::Lookup::Served(_) => Ok(()),
            super::Lookup::NotServed => Err(Error::NotKarmada(self.server().to_owned())),
        }
    }

    /// Returns the name under which the API server knows this identity.
    pub async fn whoami(&self) -> Result<String> {
        const PATH: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let call = format!("cannot create in {PATH}");
        let review =
            serde_json::json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
        let request = Request::post(PATH)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(review.to_string().into_bytes())
            .map_err(|_invalid| Error::BadName(PATH.to_owned()))?;
        let answer: Value = self.send(&call, request).await?;
        match answer["status"]["userInfo"]["username"].as_str() {
            Some(name) => Ok(name.to_owned()),
            None => Err(Error::Malformed {
                call,
                why: "it names no user".to_owned(),
            }),
        }
    }

    /// Sends a request and returns the JSON of its answer. `call` says in an error what was being done.
    pub(super) async fn send<T: DeserializeOwned>(&self, call: &str, request: Request<Vec<u8>>) -> Result<T> {
        let body = self.fetch(call, request).await?;
        serde_json::from_slice(&body).map_err(|error| Error::Malformed {
            call: call.to_owned(),
            why: error.to_string(),
        })
    }

    /// Sends a request and returns its answer as it came.
    pub(super) async fn fetch(&self, call: &str, request: Request<Vec<u8>>) -> Result<Bytes> {
        let sent = request.body().clone();
        let response = self
            .client
            .send(request.map(Body::from))
            .await
            .map_err(|error| Error::from_kube(call, error))?;
        let status = response.status();
        let body = response
            .into_body()
            .collect_bytes()
            .await
            .map_err(|error| Error::from_kube(call, error))?;
        if status.is_success() {
            return Ok(body);
        }
        let refusal = serde_json::from_slice::<Value>(&body)
            .ok()
            .filter(|value| value["kind"] == "Status")
            .and_then(|value| serde_json::from_value::<Status>(value).ok())
            // Proxies in between, and paths that nobody serves, answer with plain text.
            .unwrap_or_else(|| Status::failure(&first_line(&body), ""));
        Err(Error::Refused {
            call: call.to_owned(),
            status: off_the_runtime(|| without_secrets(refusal, &sent))
                .with_code(status.as_u16())
                .boxed(),
        })
    }
}

/// A server likes to quote what it refuses, and webhooks do: what was secret in that is taken out.
fn without_secrets(mut refusal: Status, sent: &[u8]) -> Status {
    let sent: Option<Value> = serde_json::from_slice(sent).ok();
    let secrets = Secrets::of(&sent);
    refusal.message = secrets.scrub(&refusal.message);
    if let Some(details) = &mut refusal.details {
        for cause in &mut details.causes {
            cause.message = secrets.scrub(&cause.message);
            cause.field = secrets.scrub(&cause.field);
        }
    }
    refusal
}

fn first_line(body: &[u8]) -> String {
    const ENOUGH: usize = 200;
    String::from_utf8_lossy(body)
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(ENOUGH)
        .collect()
}

async fn configuration(options: &ConnectOptions) -> Result<Config> {
    let wanted = KubeConfigOptions {
        context: options.context.clone(),
        ..KubeConfigOptions::default()
    };
    let from = options.kubeconfig.as_deref();
    let found = match from {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let nothing_there = match &found {
        Err(KubeconfigError::FindPath) => true,
        Err(KubeconfigError::ReadConfig(error, _)) => {
            from.is_none()
                && error.kind() == std::io::ErrorKind::NotFound
                && std::env::var_os("KUBECONFIG").is_none()
        }
        _ => false,
    };
    if nothing_there && options.context.is_none() {
        return Config::incluster().map_err(|_nowhere| Error::NotConfigured);
    }
    let kubeconfig = found.map_err(|error| kubeconfig_error(from, &error))?;
    Config::from_custom_kubeconfig(kubeconfig, &wanted)
        .await
        .map_err(|error| kubeconfig_error(from, &error))
}

fn kubeconfig_error(from: Option<&Path>, error: &KubeconfigError) -> Error {
    let why = match error {
        // Its text quotes the file, which holds credentials.
        KubeconfigError::Parse(_) => "it is not the YAML of a kubeconfig".to_owned(),
        KubeconfigError::ParseProxyUrl(_) => "its proxy-url is not a URL".to_owned(),
        KubeconfigError::CurrentContextNotSet => {
            "it has no current context, and --context was not given".to_owned()
        }
        KubeconfigError::LoadContext(context) => format!("it has no context {context:?}"),
        KubeconfigError::LoadClusterOfContext(cluster) => format!("it has no cluster {cluster:?}"),
        KubeconfigError::ReadConfig(error, path) => {
            let why = cutover_http::with_causes(error);
            if from == Some(path) {
                why
            } else {
                format!("cannot read {}: {why}", path.display())
            }
        }
        KubeconfigError::LoadCertificateAuthority(error) => unloaded("certificate authority", error),
        KubeconfigError::LoadClientCertificate(error) => unloaded("client certificate", error),
        KubeconfigError::LoadClientKey(error) => unloaded("client key", error),
        other => cutover_http::with_causes(other),
    };
    Error::Kubeconfig {
        from: from.map(|path| path.display().to_string()),
        why,
    }
}

/// Returns why something that a kubeconfig brings along, or names a file of, can't be used.
fn unloaded(what: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::ReadFile(error, path) => format!(
            "cannot read its {what} {}: {}",
            path.display(),
            cutover_http::with_causes(error)
        ),
        other => format!("cannot use its {what}: {}", cutover_http::with_causes(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn with_file(text: &str, context: Option<&str>) -> Error {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let options = ConnectOptions {
            kubeconfig: Some(file.path().to_owned()),
            context: context.map(str::to_owned),
            ..ConnectOptions::default()
        };
        connect(&options).await.unwrap_err()
    }

    #[test]
    fn an_address_is_shown_without_credentials() {
        for (address, expected) in [
            (
                "https://karmada.example.com:5443",
                "https://karmada.example.com:5443/",
            ),
            (
                "https://ada:s3cret@karmada.example.com/a",
                "https://karmada.example.com/a",
            ),
            ("https://token@[::1]:5443/", "https://[::1]:5443/"),
        ] {
            assert_eq!(shown(&address.parse().unwrap()), expected);
        }
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_parsed_is_not_quoted() {
        let error = with_file("users: [{name: me, user: {token: hunter2, token: hunter2", None).await;
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(error.kind(), cutover_core::error::Kind::User);
    }

    fn with_user(user: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
             clusters: [{{name: a, cluster: {{server: \"https://127.0.0.1:1\"}}}}], users: [{{name: a, user: {user}}}]}}"
        )
    }

    #[tokio::test]
    async fn a_token_that_no_header_can_carry_is_an_error() {
        let exec = |output: &str| {
            let output = serde_json::json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": output}});
            serde_json::json!({"exec": {
                "apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [output.to_string()], "interactiveMode": "Never",
            }})
            .to_string()
        };
        for user in [
            r#"{"token": "hunter2\nX-Other: 1"}"#,
            r#"{"auth-provider": {"name": "oidc", "config": {"id-token": "hunter2\n"}}}"#,
            &exec("hunter2\n"),
        ] {
            let error = with_file(&with_user(user), None).await;
            let text = format!("{error} {error:?}");
            assert!(text.contains("such as a line break"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
            assert_eq!(error.kind(), cutover_core::error::Kind::Auth);
        }
    }

    #[tokio::test]
    async fn arguments_of_a_credential_plugin_are_not_repeated() {
        let user = r#"{"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "false", "interactiveMode": "Never",
            "args": ["--client-secret", "hunter2"], "env": [{"name": "PASS", "value": "hunter2"}]}}"#;
        let error = with_file(&with_user(user), None).await;
        let text = format!("{error} {error:?}");
        assert!(
            text.contains("the credential plugin failed (exit status: 1)"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[tokio::test]
    async fn a_context_that_is_not_there_is_named() {
        let text = with_file("{apiVersion: v1, kind: Config, contexts: []}", Some("karmada"))
            .await
            .to_string();
        assert!(text.contains("no context \"karmada\""), "{text}");
    }

    #[tokio::test]
    async fn what_a_kubeconfig_names_is_quoted_once() {
        let missing = ConnectOptions {
            kubeconfig: Some("nowhere".into()),
            ..ConnectOptions::default()
        };
        assert_eq!(
            connect(&missing).await.unwrap_err().to_string(),
            "cannot use the kubeconfig nowhere: No such file or directory"
        );
        let with_cluster = |cluster: &str| {
            format!(
                "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
                 clusters: [{{name: a, cluster: {cluster}}}], users: [{{name: a, user: {{}}}}]}}"
            )
        };
        for (cluster, expected) in [
            (
                r#"{server: "https://127.0.0.1:1", certificate-authority: /nowhere/ca.pem}"#,
                "cannot read its certificate authority /nowhere/ca.pem: No such file or directory",
            ),
            (
                r#"{server: "karmada.example.com:5443"}"#,
                "the address of its server begins with neither https:// nor http://: karmada.example.com:5443",
            ),
        ] {
            let text = with_file(&with_cluster(cluster), None).await.to_string();
            assert!(text.ends_with(&format!(": {expected}")), "{text}");
        }
    }

    #[tokio::test]
    async fn a_given_kubeconfig_that_is_missing_is_an_error_even_inside_a_pod() {
        let options = ConnectOptions {
            kubeconfig: Some("/nowhere/config".into()),
            ..ConnectOptions::default()
        };
        let error = connect(&options).await.unwrap_err();
        assert!(matches!(error, Error::Kubeconfig { .. }), "{error}");
    }
}
