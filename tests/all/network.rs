//! Networks that fail without a word.

use std::time::Duration;

use cutover::cluster::{Cluster, ConnectOptions, KindState, Limits, Observer, Watched, connect};
use cutover::error::Kind;
use cutover::name::{GroupKind, Gvk};
use cutover::reconcile;
use cutover::sandbox::api::{ApiServer, Options, Resource, WriteOptions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::git::options;
use crate::support::proxy::Proxy;
use crate::support::server::On;

const SOON: Duration = Duration::from_secs(30);

fn create(server: &ApiServer, resource: &'static str, namespace: Option<&str>, object: Value) {
    let somebody = WriteOptions::manager("somebody");
    server
        .create(&Resource::new("", resource), namespace, object, &somebody)
        .unwrap();
}

fn config_map(server: &ApiServer, name: &str) {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}});
    create(server, "configmaps", Some("shop"), map);
}

#[tokio::test]
async fn a_watch_that_falls_silent_is_begun_anew_from_where_it_stood() {
    let server = ApiServer::new(Options::new("karmada", 1));
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    create(&server, "namespaces", None, shop);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::before(listener.local_addr().unwrap()).await;
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, "system:admin").await });
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": format!("http://{}", proxy.address)}}],
        "users": [{"name": "it", "user": {}}], "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let options = ConnectOptions {
        kubeconfig: Some(kubeconfig),
        limits: Limits {
            quiet: Duration::from_millis(300),
            // Connections that lie idle have fallen silent, too.
            request: Duration::from_secs(1),
            ..Limits::default()
        },
        ..ConnectOptions::default()
    };
    let observer = Observer::new(connect(&options).await.unwrap());
    observer.watch(Watched::all(Gvk::new("v1", "ConfigMap")));
    assert!(observer.heard(SOON).await);
    let sees = async |name: &str| {
        let key = GroupKind::new("", "ConfigMap").key(Some("shop"), name);
        observer.until(SOON, |observer| observer.contains(&key)).await
    };
    config_map(&server, "a");
    assert!(sees("a").await);
    for name in ["b", "c"] {
        proxy.silence();
        config_map(&server, name);
        assert!(sees(name).await, "{name} came while the watch was silent");
    }
    let state = observer.state("", "ConfigMap");
    assert!(matches!(state, Some(KindState::Synced { .. })), "{state:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_run_ends_when_git_cannot_be_reached() {
    let server = On::Sandbox.server();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let state = tempfile::tempdir().unwrap();
    let url = format!("git://{address}/fleet.git").parse().unwrap();
    let cluster = Cluster::from_client(server.client(), Limits::default());
    let options = reconcile::Options::new(options(url, state.path()), cluster);
    let run = reconcile::once(options, CancellationToken::new());
    let error = tokio::time::timeout(SOON, run).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unreachable, "{error}");
}
