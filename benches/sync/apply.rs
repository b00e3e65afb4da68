//! First apply: the reconciler, a bare loop with the same client, and kubectl, in turn on the same server.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cutover::api::SYNC_MANAGER;
use futures::StreamExt;
use http::Request;
use serde_json::Value;

use crate::child::Child;
use crate::fleet::Fleet;
use crate::real::RealServer;

/// How many requests are under way at once, of the loop as of the reconciler.
pub const IN_FLIGHT: usize = 16;

/// What the first apply of the same objects took.
pub struct Times {
    pub bare: Duration,
    /// From the start of the process, reading Git and the first lists included.
    pub cutover: Duration,
    /// Of these the ones before the first object could be decided about.
    pub before: Duration,
    pub kubectl: Option<Duration>,
}

/// Applies so many objects in each way, each time into a new namespace.
pub async fn first(server: &RealServer, size: usize, round: usize) -> Times {
    let named = |way: &str| Fleet::within(&format!("{way}-{size}-{round}"), size);
    let bare = {
        let fleet = named("bare");
        let client = server.client().await;
        let begun = Instant::now();
        send(&client, &fleet, Mode::Write).await;
        begun.elapsed()
    };
    let fleet = named("cutover");
    let state = tempfile::tempdir().unwrap();
    let child = Child::start(&server.kubeconfig(), &fleet.url().to_string(), state.path());
    let synced = child.synced(size).await;
    drop(child);
    let fleet = named("kubectl");
    Times {
        bare,
        cutover: Duration::from_secs_f64(synced.synced_ms / 1e3),
        before: Duration::from_secs_f64(synced.listed_ms.max(synced.read_ms) / 1e3),
        kubectl: kubectl(&server.kubeconfig(), &fleet),
    }
}

/// Whether something is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Write,
    DryRun,
}

/// Sends one server-side apply an object: the namespace first, then everything at once.
pub async fn send(client: &kube::Client, fleet: &Fleet, mode: Mode) {
    let mut requests = fleet.contents().map(|content| request(&content, mode));
    let namespace = requests.next().unwrap();
    client.request::<Value>(namespace).await.unwrap();
    futures::stream::iter(requests)
        .map(|request| async { client.request::<Value>(request).await.unwrap() })
        .buffer_unordered(IN_FLIGHT)
        .for_each(|_| std::future::ready(()))
        .await;
}

fn request(content: &str, mode: Mode) -> Request<Vec<u8>> {
    let object: Value = serde_yaml::from_str(content).unwrap();
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
    let base = if version.contains('/') { "/apis" } else { "/api" };
    let plural = match kind {
        "PropagationPolicy" => "propagationpolicies".to_owned(),
        "OverridePolicy" => "overridepolicies".to_owned(),
        _ => format!("{}s", kind.to_lowercase()),
    };
    let place = match text("/metadata/namespace") {
        "" => plural,
        namespace => format!("namespaces/{namespace}/{plural}"),
    };
    let dry = if mode == Mode::DryRun { "&dryRun=All" } else { "" };
    let uri =
        format!("{base}/{version}/{place}/{name}?fieldManager={SYNC_MANAGER}&fieldValidation=Strict{dry}");
    Request::patch(uri)
        .header("content-type", "application/apply-patch+yaml")
        .body(serde_json::to_vec(&object).unwrap())
        .unwrap()
}

/// Returns what kubectl takes; nothing where there is none.
fn kubectl(kubeconfig: &Path, fleet: &Fleet) -> Option<Duration> {
    let folder = tempfile::tempdir().unwrap();
    fleet.check_out(folder.path());
    let begun = Instant::now();
    let ended = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["apply", "--server-side", "-f"])
        .arg(folder.path())
        .stdout(Stdio::null())
        .status()
        .ok()?;
    assert!(ended.success());
    Some(begun.elapsed())
}
