//! What a whole branch would change: the plans of all its syncs as one.

use tokio_util::sync::CancellationToken;

use super::settings;
use super::sync::{Plan, Selection, plan_revision};
use crate::cluster::Cluster;
use crate::error::Error;
use crate::plan::ChangeSet;
use crate::repo::{self, Repo};

/// Fetches, and compares the newest revision with the API server. Writes nothing there.
pub async fn plan(
    options: &repo::Options,
    cluster: &Cluster,
    cancel: &CancellationToken,
) -> Result<Plan, Error> {
    let repo = Repo::open(options.clone(), cancel.clone()).await?;
    let revision = repo.fetch().await?.revision;
    let config = settings::of(&repo, revision.clone()).await?;
    let (mut changes, mut problems) = (Vec::new(), Vec::new());
    for sync in &config.syncs {
        let selection = Selection::of(&config, sync);
        let plan = plan_revision(&repo, cluster, revision.clone(), selection).await?;
        changes.extend(plan.changes.changes);
        problems.extend(plan.problems);
    }
    Ok(Plan {
        changes: ChangeSet::new(Some(revision), changes),
        problems,
    })
}
