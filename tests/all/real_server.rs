//! The real API server of the tests: that it serves the project's kinds, and that nothing of it stays behind.

use std::time::{Duration, Instant};

use cutover::cluster::{Answer, Cluster, Exactly, Limits, Lookup, Mode, Written, rehearse_deletion};
use cutover::name::Gvk;
use serde_json::json;

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
