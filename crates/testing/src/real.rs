//! A real API server for tests: etcd and kube-apiserver on loopback, in a folder of their own, gone with this process.
//!
//! `just kube-tools` builds the two programs. There is no kube-controller-manager: nobody collects garbage, and a
//! namespace that is deleted stays Terminating.

#[path = "real/etcd.rs"]
mod etcd;

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, OnceLock, mpsc};
use std::time::Duration;

use kube::api::{Api, DynamicObject, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use etcd::Etcd;

/// Where the programs are, when not in the cache.
const TOOLS: &str = "CUTOVER_KUBE_TOOLS";

/// From the start of the programs until they answer. A loaded machine of two cores takes some seconds.
const START: Duration = Duration::from_mins(2);

/// What the log of requests has: who asked for what, and whether it was allowed, by which role.
const AUDIT: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}]}"#;

/// A user of the server, who may do everything.
const USER: &str = "system:admin";

/// A running API server. Dropped, it ends; killed with its owner, it ends too.
pub struct RealServer {
    guard: Child,
    folder: PathBuf,
    config: kube::Config,
    /// For what is done in the background.
    client: OnceLock<kube::Client>,
    /// `None` while the server gets its definitions.
    store: Option<Etcd>,
}

/// Returns the server that the tests of this process share, and starts it for the first of them; `None` where the
/// test has to be left out.
pub async fn shared(test: &str) -> Option<&'static RealServer> {
    static SHARED: OnceCell<RealServer> = OnceCell::const_new();
    let tools = tools_for(test)?;
    Some(SHARED.get_or_init(|| RealServer::start(&tools)).await)
}

/// Returns the folder of the programs for a test that needs them.
///
/// Without them a note on stderr names the test that was left out, and on a CI machine (`CI=true`) the test fails.
pub fn tools_for(test: &str) -> Option<PathBuf> {
    match tools() {
        Ok(tools) => Some(tools),
        Err(why) => {
            let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!ci, "{test} needs a real API server: {why}");
            // Not `eprintln!`, which the test harness keeps to itself when a test passes.
            let _ = writeln!(std::io::stderr(), "left out: {test}: {why}");
            None
        }
    }
}

/// Where tests do what they wait for without their own runtime.
static BACKGROUND: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
});

/// Waits for something, on whatever thread, also one that runs a runtime.
pub fn in_background<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    BACKGROUND.spawn(async move { done.send(work.await) });
    result.recv().unwrap()
}

pub fn spawn_in_background(work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    BACKGROUND.spawn(work)
}

/// Returns the folder of the programs, or why there is none.
pub fn tools() -> Result<PathBuf, String> {
    let folder = match std::env::var_os(TOOLS) {
        Some(folder) => PathBuf::from(folder),
        None => cached()?,
    };
    for program in ["etcd", "kube-apiserver"] {
        let path = folder.join(program);
        if !path.is_file() {
            return Err(format!(
                "{} is missing; `just kube-tools` builds it",
                path.display()
            ));
        }
    }
    Ok(folder)
}

/// Returns the folder in which `tools/build.sh` puts what it builds.
fn cached() -> Result<PathBuf, String> {
    let sums = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/go.sum");
    let sums = std::fs::read(&sums).map_err(|error| format!("{}: {error}", sums.display()))?;
    let hash = Sha256::digest(&sums);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let cache = cache.ok_or("neither XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join("cutover/kube-tools").join(&hash[..12]))
}

impl RealServer {
    /// Starts a server of the caller's own, with the definitions that the project generates and uses.
    ///
    /// # Panics
    /// When it doesn't start.
    pub async fn start(tools: &Path) -> Self {
        Self::start_with(tools, "AlwaysAllow").await
    }

    /// Starts a server that allows what roles allow, and keeps a log of who asked for what.
    ///
    /// # Panics
    /// When it doesn't start.
    pub async fn with_rbac(tools: &Path) -> Self {
        Self::start_with(tools, "RBAC").await
    }

    async fn start_with(tools: &Path, authorization: &str) -> Self {
        // Between the choice of a port and its use somebody else may take it.
        for _ in 0..3 {
            if let Some(mut server) = Self::start_once(tools, authorization).await {
                server.install(&definitions()).await;
                server.store = Some(Etcd::of(&server.folder));
                return server;
            }
        }
        panic!("kube-apiserver does not start");
    }

    async fn start_once(tools: &Path, authorization: &str) -> Option<Self> {
        let folder = tempfile::Builder::new()
            .prefix("cutover-kube-")
            .tempdir()
            .unwrap()
            .keep();
        let token: String = std::iter::repeat_with(fastrand::alphanumeric).take(32).collect();
        std::fs::write(
            folder.join("tokens.csv"),
            format!("{token},{USER},1,\"system:masters\"\n"),
        )
        .unwrap();
        std::fs::write(folder.join("accounts.key"), account_key()).unwrap();
        std::fs::write(folder.join("audit.yaml"), AUDIT).unwrap();
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut guard = Command::new("sh")
            .args(["-c", include_str!("real/guard.sh"), "guard"])
            .arg(&folder)
            .arg(tools)
            .arg(port.to_string())
            .arg(authorization)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the tests: the guard cleans up after them.
            .process_group(0)
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let config = loop {
            assert!(
                begun.elapsed() < START,
                "kube-apiserver did not get ready, see {}",
                folder.display()
            );
            if guard.try_wait().unwrap().is_some() {
                return None;
            }
            let certificate = std::fs::read(folder.join("certs/apiserver.crt")).unwrap_or_default();
            if !certificate.is_empty() {
                let kubeconfig = kubeconfig(port, &token, &certificate);
                let text = serde_yaml::to_string(&kubeconfig).unwrap();
                let config = config(kubeconfig).await;
                if is_ready(&config).await {
                    std::fs::write(folder.join("kubeconfig"), text).unwrap();
                    break config;
                }
            }
            sleep(Duration::from_millis(20)).await;
        };
        Some(Self {
            guard,
            folder,
            config,
            client: OnceLock::new(),
            store: None,
        })
    }

    /// Returns the path of a kubeconfig, for other processes.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Writes a kubeconfig for another identity of this server, and returns its path.
    pub fn kubeconfig_of(&self, name: &str, token: &str) -> PathBuf {
        let text = std::fs::read_to_string(self.kubeconfig()).unwrap();
        let mut kubeconfig: Value = serde_yaml::from_str(&text).unwrap();
        kubeconfig["users"][0]["user"] = json!({"token": token});
        let path = self.folder.join(format!("{name}.kubeconfig"));
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        path
    }

    /// Returns the log of requests that were answered, of a server that keeps one.
    pub fn audit_log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.join("audit.log")).unwrap();
        // The last line may be half written.
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// Returns a client. Must be called on the tokio runtime that will use it.
    pub async fn client(&self) -> kube::Client {
        std::future::ready(self.connect()).await
    }

    /// Returns a client. Must be called on the tokio runtime that will use it.
    pub fn connect(&self) -> kube::Client {
        kube::Client::try_from(self.config.clone()).unwrap()
    }

    /// Returns a client for what is done in the background.
    pub fn background_client(&self) -> &kube::Client {
        self.client.get_or_init(|| self.connect())
    }

    /// Removes all objects that came since the start. Returns false when nobody should have this server any more.
    pub fn empty(&self) -> bool {
        self.store.as_ref().is_some_and(Etcd::empty)
    }

    /// Creates a namespace that no other test has, and returns its name.
    pub async fn namespace(&self) -> String {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.connect());
        let namespace = serde_json::from_value(json!({"metadata": {"generateName": "test-"}})).unwrap();
        let created = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        created.metadata.name.unwrap()
    }

    /// Installs definitions, and returns once their kinds are served.
    pub async fn install(&self, definitions: &[Value]) {
        let kind = ApiResource::from_gvk_with_plural(
            &GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
            "customresourcedefinitions",
        );
        let client = self.connect();
        let crds: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        for definition in definitions {
            let definition = serde_json::from_value(definition.clone()).unwrap();
            crds.create(&PostParams::default(), &definition).await.unwrap();
        }
        for definition in definitions {
            let spec = &definition["spec"];
            for version in spec["versions"].as_array().unwrap() {
                let text = |value: &Value| value.as_str().unwrap().to_owned();
                let (group, version) = (text(&spec["group"]), text(&version["name"]));
                let path = format!(
                    "/apis/{group}/{version}/{}?limit=1",
                    text(&spec["names"]["plural"])
                );
                served(&client, &path).await;
            }
        }
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Returns the definitions of cutover's kinds, and of the kinds of Karmada and of the workloads that it deals with.
pub fn definitions() -> Vec<Value> {
    let own = cutover_core::api::crds()
        .into_iter()
        .map(|definition| serde_json::to_value(definition).unwrap());
    own.chain(cutover_sandbox::world::crds::control_plane()).collect()
}

/// Waits until a list is answered.
async fn served(client: &kube::Client, path: &str) {
    let begun = Instant::now();
    loop {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let Err(error) = client.request_text(request).await else {
            return;
        };
        assert!(begun.elapsed() < START, "{path} is not served: {error}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn is_ready(config: &kube::Config) -> bool {
    let Ok(client) = kube::Client::try_from(config.clone()) else {
        return false;
    };
    let request = http::Request::get("/readyz").body(Vec::new()).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await;
    matches!(answer, Ok(Ok(_)))
}

async fn config(kubeconfig: Kubeconfig) -> kube::Config {
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    // A test wants to see what the server says.
    config.default_retry = false;
    config
}

fn kubeconfig(port: u16, token: &str, certificate: &[u8]) -> Kubeconfig {
    let certificate = openssl::base64::encode_block(certificate);
    let config = json!({
        "apiVersion": "v1", "kind": "Config",
        "clusters": [{"name": "test", "cluster": {
            "server": format!("https://127.0.0.1:{port}"), "certificate-authority-data": certificate,
        }}],
        "users": [{"name": USER, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": USER}}],
        "current-context": "test",
    });
    serde_json::from_value(config).unwrap()
}

/// Returns a key with which the server signs the tokens of service accounts, as PEM.
fn account_key() -> Vec<u8> {
    let curve = openssl::ec::EcGroup::from_curve_name(openssl::nid::Nid::X9_62_PRIME256V1).unwrap();
    let key = openssl::ec::EcKey::generate(&curve).unwrap();
    key.private_key_to_pem().unwrap()
}
