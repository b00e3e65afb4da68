//! Accounts in the namespaces of a member, as an operator's chart makes them for the pods that the operator starts.

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;

use crate::api::{ApiServer, EventKind, ListOptions, Resource, WriteOptions};
use crate::karmada::kinds::NAMESPACES;

const ACCOUNTS: Resource = Resource::new("", "serviceaccounts");

/// Before a watch that ended is begun again.
const RETRY: Duration = Duration::from_millis(100);

/// Gives every namespace these accounts, until it is stopped.
pub(super) async fn give(server: ApiServer, names: Vec<String>) {
    loop {
        if let Ok(mut namespaces) = server.watch(&NAMESPACES, None, None, &ListOptions::default()) {
            while let Some(event) = namespaces.next().await {
                if event.kind == EventKind::Added {
                    let namespace = event.object["metadata"]["name"].as_str().unwrap_or_default();
                    for name in &names {
                        create(&server, namespace, name);
                    }
                }
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Creates an account; one that exists already is as good, and a namespace that ends needs none.
fn create(server: &ApiServer, namespace: &str, name: &str) {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace},
    });
    let writer = WriteOptions::manager("helm");
    if let Err(status) = server.create(&ACCOUNTS, Some(namespace), account, &writer) {
        tracing::debug!(%status, namespace, name, "the account is not created");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::{World, WorldOptions};

    #[tokio::test(start_paused = true)]
    async fn every_namespace_of_a_member_gets_the_account_that_a_world_is_started_with() {
        let world = World::start(WorldOptions {
            service_accounts: vec!["flink".to_owned()],
            ..WorldOptions::fast()
        });
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        let east = &world.member("east").api;
        let writer = WriteOptions::manager("kubectl");
        east.create(&NAMESPACES, None, namespace, &writer).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(east.get(&ACCOUNTS, Some("shop"), "flink").is_ok());
    }
}
