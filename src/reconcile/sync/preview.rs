//! What a revision would change: a comparison with the API server that writes nothing.

use super::decide::{Decider, Held};
use super::{LISTED_WITHIN, Problem, Selection, Sync};
use crate::api;
use crate::cluster::{self, Cluster, Observer, Outcome};
use crate::error::Error;
use crate::manifest::Manifest;
use crate::name::Revision;
use crate::plan::{Action, Change, ChangeSet, never_recreated};
use crate::repo::Repo;

/// What a revision would change, and what of it could not be read.
#[derive(Clone, Debug)]
pub struct Plan {
    pub changes: ChangeSet,
    pub problems: Vec<Problem>,
}

/// Compares a revision with the API server and writes nothing. What can't be decided here is tried by a dry-run there.
pub async fn plan_revision(
    repo: &Repo,
    cluster: &Cluster,
    revision: Revision,
    selection: Selection,
) -> Result<Plan, Error> {
    let observer = Observer::new(cluster.clone());
    let mut sync = Sync::new(repo.clone(), cluster.clone(), observer, selection);
    sync.advance(&revision).await?;
    sync.observer.heard(LISTED_WITHIN).await;
    sync.held = Held::look(&sync.observer, &sync.placed.objects);
    let decider = Decider {
        observer: &sync.observer,
        placed: &sync.placed,
        kinds: &sync.kinds,
        held: &sync.held,
        settled: &sync.settled,
    };
    let mut changes = decider.changes();
    for change in &mut changes {
        if change.action == Action::Configure
            && decider.is_undecided(change)
            && let Some(entry) = sync.placed.objects.get(&change.key)
        {
            *change = rehearsed(&sync, &entry.manifest(), change.clone()).await;
        }
    }
    Ok(Plan {
        changes: ChangeSet::new(Some(revision), changes),
        problems: sync.source.problems(),
    })
}

async fn rehearsed(sync: &Sync, manifest: &Manifest, guess: Change) -> Change {
    let manner = sync.manner.of(&manifest.value);
    match cluster::rehearse(&sync.cluster, manifest, manner).await {
        Ok(preview) => {
            let live = sync.observer.get(&manifest.key);
            Change::apply(manifest, live.as_deref(), Some(&preview), api::SYNC_MANAGER)
        }
        Err(Outcome::NotServed) => guess,
        Err(Outcome::Failed(failure)) if !failure.fixed.is_empty() && manner.recreate => {
            let live = sync.observer.get(&manifest.key);
            match live.and_then(|live| never_recreated(&manifest.gvk, &live)) {
                Some(why) => guess.blocked(format!("{}; {why}", failure.message)),
                None => guess.recreated(failure.message),
            }
        }
        Err(outcome) => match outcome.told(&manifest.gvk.kind) {
            Some((why, _)) => guess.blocked(why),
            None => guess,
        },
    }
}
