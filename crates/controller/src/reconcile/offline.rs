//! What a range of commits changes in Git, without a control plane: for reviews that may not ask one.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::settings;
use super::sync::Range;
use cutover_base::budget::{Limit, Size};
use cutover_core::config::Config;
use cutover_core::error::Error;
use cutover_core::manifest::{self, Manifest, Parsed, Set, Source, parse};
use cutover_core::plan::{Change, ChangeSet};
use cutover_git::{self as repo, Repo, Skipped};
use cutover_karmada::name::{ObjectKey, Revision};

/// Compares two commits object by object. What the API server would make of them, and what is there, nobody is asked.
pub fn plan_offline<'a>(
    options: &'a repo::Options,
    range: &'a Range,
    cancel: &'a CancellationToken,
) -> BoxFuture<'a, Result<ChangeSet, Error>> {
    Box::pin(async move {
        let repo = Repo::open(options.clone(), cancel.clone()).await?;
        let both = std::iter::once(&range.revision).chain(&range.base);
        repo.obtain(both.cloned().collect())
            .await
            .map_err(super::plan::unknown)?;
        let (now, after) = wanted(&repo, &range.revision).await?;
        let before = match &range.base {
            Some(base) => wanted(&repo, base).await.map(|(_, set)| set),
            None => Ok(Set::new()),
        };
        // A configuration that could not be used then wanted nothing.
        let before = before.unwrap_or_default();
        let old: BTreeMap<&ObjectKey, &Arc<Manifest>> =
            before.definitions().map(|object| (&object.key, object)).collect();
        let mut changes = Vec::new();
        for object in after.definitions() {
            changes.push(match old.get(&object.key) {
                Some(old) => Change::apply(object, Some(&old.value), Some(&object.value), ""),
                None => Change::apply(object, None, None, ""),
            });
        }
        for old in before.definitions().filter(|old| !after.mentions(&old.key)) {
            changes.push(gone(&now, old, after.errors().next()));
        }
        Ok(ChangeSet {
            base: range.base.clone(),
            ..ChangeSet::new(Some(range.revision.clone()), changes)
        })
    })
}

fn gone(config: &Config, old: &Manifest, unread: Option<&manifest::Error>) -> Change {
    let sync = config.sync_of(&old.source.path);
    let (key, gvk) = (old.key.clone(), old.gvk.clone());
    let why = match (sync, unread) {
        (Some(sync), None) if sync.prune => return Change::delete(key, gvk, &old.value),
        (Some(sync), Some(error)) if sync.prune => {
            let at = &error.location;
            format!("nothing is pruned while it isn't known all that Git wants: {at}: {error}")
        }
        (Some(sync), _) => format!(
            "sync {} does not prune, so it stays until it is deleted",
            sync.name
        ),
        (None, _) => "no sync is about that folder any more".to_owned(),
    };
    Change::left_behind(key, gvk, why)
}

/// Returns what a revision wants, as far as it can be read.
async fn wanted(repo: &Repo, revision: &Revision) -> Result<(Config, Set), Error> {
    let config = settings::of(repo, revision.clone()).await?;
    let there = repo.files(revision.clone(), &[] as &[&str]).await?;
    let files = there.files.into_iter();
    let files: Vec<_> = files
        .filter(|file| config.sync_of(&file.path).is_some())
        .collect();
    let budget = *repo.budget();
    budget.check(Limit::RevisionFiles, files.len())?;
    let blobs: Vec<_> = files.iter().map(|file| file.blob).collect();
    let sizes = repo.sizes(blobs.clone()).await?.into_iter();
    budget.check(Limit::RevisionBytes, sizes.fold(0, usize::saturating_add))?;
    let mut paths = files.into_iter().map(|file| file.path);
    let (mut size, mut within) = (Size::default(), Ok(()));
    let read = repo.read_each(blobs, move |bytes| {
        within?;
        let path = paths.next().unwrap_or_default();
        let parsed = parse(Source::new(&path), &bytes?, &budget);
        size = size + parsed.size;
        within = budget.check_size(&size);
        within?;
        Ok::<_, repo::Error>((path, parsed))
    });
    let mut set = Set::new().within(&budget);
    for read in read.await? {
        let (path, parsed) = read?;
        set.update(&path, parsed);
    }
    for Skipped { path, why, shape } in there.skipped {
        if !config.affected_by(&path, shape).is_empty() {
            set.update(&path, Parsed::unreadable(&path, why));
        }
    }
    Ok((config, set))
}
