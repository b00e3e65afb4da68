//! The real API server of the tests: that it serves the project's kinds, and that nothing of it stays behind.

use std::time::{Duration, Instant};

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
