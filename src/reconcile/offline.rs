//! What a range of commits changes in Git, without a control plane: for reviews that may not ask one.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::settings;
use super::sync::Range;
use crate::config::{self, Config};
use crate::error::Error;
use crate::manifest::{Limits, Manifest, Set, Source, parse};
use crate::name::{ObjectKey, Revision};
use crate::plan::{Change, ChangeSet};
use crate::repo::{self, Repo};

/// Compares two commits object by object. What the API server would make of them, and what is there, nobody is asked.
pub async fn plan_offline(
    options: &repo::Options,
    range: &Range,
    cancel: &CancellationToken,
) -> Result<ChangeSet, Error> {
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
        changes.push(gone(&now, old));
    }
    Ok(ChangeSet {
        base: range.base.clone(),
        ..ChangeSet::new(Some(range.revision.clone()), changes)
    })
}

fn gone(config: &Config, old: &Manifest) -> Change {
    let sync = config.sync_of(&old.source.path);
    let (key, gvk) = (old.key.clone(), old.gvk.clone());
    match sync {
        Some(sync) if sync.prune => Change::delete(key, gvk, &old.value),
        Some(sync) => Change::left_behind(
            key,
            gvk,
            format!(
                "sync {} does not prune, so it stays until somebody deletes it",
                sync.name
            ),
        ),
        None => Change::left_behind(key, gvk, "no sync is about that folder any more"),
    }
}

/// Returns what a revision wants, as far as it can be read.
async fn wanted(repo: &Repo, revision: &Revision) -> Result<(Config, Set), Error> {
    let config = settings::of(repo, revision.clone()).await?;
    let files = repo.files(revision.clone(), &[] as &[&str]).await?.files;
    let files = files
        .into_iter()
        .filter(|file| file.path != config::PATH && config.sync_of(&file.path).is_some());
    let files: Vec<_> = files.collect();
    let contents = repo.read(files.iter().map(|file| file.blob).collect()).await?;
    let mut set = Set::new();
    for (file, content) in files.iter().zip(contents) {
        set.update(
            &file.path,
            parse(Source::new(&file.path), &content?, &Limits::default()),
        );
    }
    Ok((config, set))
}
