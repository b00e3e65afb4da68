//! Reads what tells the tools beside this one to apply a template. Without their marks on it nothing is asked.

use futures::future::join_all;
use serde_json::Value;

use super::ask::get;
use cutover_cluster::Cluster;
use cutover_core::intent::Seen;
use cutover_core::intent::other_managers::{Applier, OtherManager, appliers};

/// Returns those who apply a template, and what tells them to, where the API server has it.
pub(in crate::reconcile) async fn look(
    cluster: &Cluster,
    template: &Seen<Option<Value>>,
) -> Vec<OtherManager> {
    let Ok(Some(template)) = template.get() else {
        return Vec::new();
    };
    let read = appliers(template).into_iter().map(async |applier: Applier| {
        let owner = match &applier.owner {
            Some(key) => {
                get(
                    cluster,
                    applier.tool.owner_kind(),
                    key.namespace.as_deref(),
                    &key.name,
                )
                .await
            }
            None => Seen::unknown("its marks don't say by whose order"),
        };
        OtherManager { applier, owner }
    });
    join_all(read).await
}
