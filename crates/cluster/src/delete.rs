//! Deletes objects that are no longer wanted, each only as what it was seen to be.

use std::collections::BTreeMap;

use futures::StreamExt;
use serde_json::Value;

use super::connect::Cluster;
use super::{Answer, Exactly, Lookup, Mode, Observer, Served, Written};
use cutover_core::api::SYNC_MANAGER;
use cutover_core::error::Kind;
use cutover_core::plan::Doomed;
use cutover_karmada::name::{Gvk, ObjectKey};

/// What became of an object that was to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    Gone,
    /// It goes when its finalizers allow it.
    Leaving,
    /// It isn't what was to be deleted any more; nothing was done.
    Kept,
    Failed {
        message: String,
        hint: Option<String>,
        /// Whether trying the same again may help.
        passing: bool,
    },
}

/// Tries on the server what deleting a live object would give; nothing is deleted. What has changed or gone meanwhile is
/// no refusal.
pub async fn rehearse_deletion(cluster: &Cluster, gvk: &Gvk, live: &Value) -> super::Result<()> {
    if let Lookup::Served(served) = cluster.lookup(gvk).await? {
        let writer = cluster.writer(SYNC_MANAGER);
        writer.delete(&served, &Exactly::of(live), Mode::Rehearse).await?;
    }
    Ok(())
}

/// How often an object that changes all the time is looked at anew.
const TRIES: usize = 4;

/// Deletes objects, many at a time. One that has changed since it was seen is read again, and deleted only if
/// `still` says so.
pub async fn delete(
    cluster: &Cluster,
    observer: &Observer,
    doomed: Vec<Doomed>,
    still: impl Fn(&Value) -> bool + Sync,
) -> BTreeMap<ObjectKey, Deleted> {
    let still = &still;
    let deletions: Vec<_> = doomed
        .into_iter()
        .map(|doomed| async move {
            let deleted = one(cluster, observer, &doomed, still).await;
            (doomed.key, deleted)
        })
        .collect();
    futures::stream::iter(deletions)
        .buffer_unordered(cluster.limits().in_flight)
        .collect()
        .await
}

async fn one(
    cluster: &Cluster,
    observer: &Observer,
    doomed: &Doomed,
    still: &(impl Fn(&Value) -> bool + Sync),
) -> Deleted {
    let served = match cluster.lookup(&doomed.gvk).await {
        Ok(Lookup::Served(served)) => served,
        Ok(Lookup::NotServed) => return Deleted::Kept,
        Err(error) => return failed(&error),
    };
    let mut exactly = Exactly {
        namespace: doomed.key.namespace.clone(),
        name: doomed.key.name.clone(),
        uid: Some(doomed.uid.clone()),
        resource_version: Some(doomed.resource_version.clone()),
    };
    for _ in 0..TRIES {
        match send(cluster, observer, &served, doomed, &exactly).await {
            Some(deleted) => return deleted,
            None => match look_again(cluster, &served, doomed, still).await {
                Ok(version) => exactly.resource_version = Some(version),
                Err(deleted) => return deleted,
            },
        }
    }
    Deleted::Kept
}

/// Returns what became of it; `None`: it has changed.
async fn send(
    cluster: &Cluster,
    observer: &Observer,
    served: &Served,
    doomed: &Doomed,
    exactly: &Exactly,
) -> Option<Deleted> {
    let writer = cluster.writer(SYNC_MANAGER);
    match writer.delete(served, exactly, Mode::Write).await {
        Ok(Written::Done(answer)) if answer.pointer("/metadata/deletionTimestamp").is_some() => {
            observer.note(&doomed.key, &answer);
            Some(Deleted::Leaving)
        }
        Ok(Written::Done(_)) => Some(Deleted::Gone),
        Ok(Written::Precondition(_) | Written::Exists(_)) => None,
        Err(error) => Some(failed(&error)),
    }
}

/// Returns the version in which the object is still to be deleted.
async fn look_again(
    cluster: &Cluster,
    served: &Served,
    doomed: &Doomed,
    still: &(impl Fn(&Value) -> bool + Sync),
) -> Result<String, Deleted> {
    let key = &doomed.key;
    let read = cluster
        .reader()
        .get(served, key.namespace.as_deref(), &key.name)
        .await;
    match read.answer {
        Answer::NotFound => Err(Deleted::Gone),
        Answer::Unknown { why } => Err(Deleted::Failed {
            message: why,
            hint: None,
            passing: true,
        }),
        Answer::Found(live) => {
            let text = |field: &str| live["metadata"][field].as_str().unwrap_or_default();
            if text("uid") != doomed.uid || !text("deletionTimestamp").is_empty() || !still(&live) {
                return Err(Deleted::Kept);
            }
            Ok(text("resourceVersion").to_owned())
        }
    }
}

fn failed(error: &super::Error) -> Deleted {
    Deleted::Failed {
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
        passing: matches!(error.kind(), Kind::Unreachable | Kind::Auth | Kind::Conflict),
    }
}
