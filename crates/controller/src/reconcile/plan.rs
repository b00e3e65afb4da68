//! What a whole branch, or a commit, would change: the plans of all its syncs as one, and the hash by which it is known.

use std::collections::BTreeMap;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::settings;
use super::sync::{Abandoned, DesiredFeed, Live, Range, Selection, of_removed_sync, plan_part, stays, why};
use super::templates::AllTemplates;
use cutover_cluster::{Answer, Cluster, Lookup, Observer};
use cutover_core::api::{self, SuspensionSpec};
use cutover_core::config::{self, Config};
use cutover_core::error::Error;
use cutover_core::intent::{rivals, suspension};
use cutover_core::plan::{Action, Change, ChangeSet, Hash, Problem};
use cutover_git::{self as repo, Repo};
use cutover_karmada::name::{GroupKind, Gvk, Location, ObjectKey, Revision};

/// What is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The newest revision of the branch, as the remote has it.
    Newest,
    /// This one.
    Range(Range),
}

/// What would be changed, and the hash by which it is recognised.
#[derive(Clone, Debug)]
pub struct Plan {
    pub revision: Revision,
    pub changes: ChangeSet,
    pub hash: Hash,
    /// Where `cutover.yaml` has status committed to.
    pub status: config::Status,
    /// What Git wants of templates at that revision.
    pub(super) templates: AllTemplates,
}

/// Compares a revision with the API server. Writes nothing there.
pub fn plan<'a>(
    options: &'a repo::Options,
    cluster: &'a Cluster,
    target: Target,
    cancel: &'a CancellationToken,
) -> BoxFuture<'a, Result<Plan, Error>> {
    Box::pin(async move {
        let repo = Repo::open(options.clone(), cancel.clone()).await?;
        let range = match target {
            Target::Newest => Range {
                revision: repo.fetch().await?.revision,
                base: None,
            },
            Target::Range(range) => {
                let both = std::iter::once(&range.revision).chain(&range.base);
                repo.obtain(both.cloned().collect()).await.map_err(unknown)?;
                range
            }
        };
        of_range(&repo, cluster, range).await
    })
}

pub(super) async fn of_range(repo: &Repo, cluster: &Cluster, range: Range) -> Result<Plan, Error> {
    let config = settings::of(repo, range.revision.clone()).await?;
    let mut all = ChangeSet::default();
    let (mut feeds, mut removed) = (Vec::new(), Vec::new());
    let common = Selection::common(&config);
    for sync in &config.syncs {
        let part = plan_part(repo, cluster, &range, common.beside(sync)).await?;
        all.changes.extend(part.changes.changes);
        all.problems.extend(part.changes.problems);
        all.elsewhere += part.changes.elsewhere;
        feeds.push(part.desired);
        removed.extend(part.removed.into_iter().map(|live| (live, sync.name.clone())));
    }
    note_suspended(&mut all.changes, &feeds);
    let status = config.status.clone();
    let left = match &range.base {
        None => {
            let observer = Observer::new(cluster.clone());
            let mut abandoned = Abandoned::new(cluster.clone(), observer, config, feeds.clone());
            abandoned.planned(&repo.source()).await
        }
        Some(base) => {
            removed.extend(of_removed_syncs(repo, cluster, base, &config).await?);
            let wanted: Vec<_> = feeds.iter().filter_map(DesiredFeed::latest).collect();
            let is_wanted = |key: &ObjectKey| wanted.iter().any(|desired| desired.may_want(key));
            let left = removed.into_iter().filter(|(live, _)| !is_wanted(&live.key));
            left.map(|(live, sync)| stays(live.key, live.gvk, &why(&config, &sync)))
                .collect()
        }
    };
    all.changes.extend(left);
    all.problems.extend(exclusive(cluster, &all.changes).await);
    let changes = ChangeSet {
        base: range.base,
        problems: all.problems,
        elsewhere: all.elsewhere,
        ..ChangeSet::new(Some(range.revision.clone()), all.changes)
    };
    Ok(Plan {
        hash: changes.hash(&identity(cluster).await?)?,
        revision: range.revision,
        changes,
        status,
        templates: AllTemplates(feeds),
    })
}

/// Says which intents of a plan want what only one can have, where neither has ended.
async fn exclusive(cluster: &Cluster, changes: &[Change]) -> Vec<Problem> {
    const KINDS: [&str; 2] = ["Migration", "Evacuation"];
    let is_one = |change: &&Change| {
        change.key.group == api::GROUP && KINDS.contains(&change.key.kind.as_str()) && change.is_written()
    };
    let come: Vec<&Change> = changes.iter().filter(is_one).collect();
    if come.is_empty() {
        return Vec::new();
    }
    let mut live = BTreeMap::new();
    for kind in KINDS {
        let gvk = Gvk::new(api::API_VERSION, kind);
        match all_of(cluster, &gvk).await {
            Ok(all) => {
                let of = GroupKind::new(&gvk.group, &gvk.kind);
                live.extend(
                    all.into_iter()
                        .filter_map(|intent| Some((of.key_of(&intent)?, intent))),
                );
            }
            // Whether one has ended isn't known either.
            Err(why) => {
                let unknown = |change: &&Change| Problem {
                    message: format!(
                        "it is not known whether {} and another {kind} exclude each other: {why}",
                        change.key
                    ),
                    hint: None,
                    at: change.source.clone(),
                };
                return come.iter().map(unknown).collect();
            }
        }
    }
    let goes = |key: &ObjectKey| {
        let mut changes = changes.iter();
        changes.any(|change| change.key == *key && change.action == Action::Delete)
    };
    let runs = |key: &ObjectKey| live.get(key).is_none_or(|intent| !rivals::has_ended(intent));
    let come = come
        .into_iter()
        .filter_map(|change| Some((&change.key, change.source.as_ref(), change.after.as_ref()?)))
        .filter(|(key, ..)| runs(key));
    let come: Vec<_> = come.collect();
    let is_old = |key: &ObjectKey| !come.iter().any(|(other, ..)| *other == key);
    let others = live
        .iter()
        .filter(|(key, intent)| is_old(key) && !goes(key) && !rivals::has_ended(intent));
    clashes(&come, &others.collect::<Vec<_>>())
}

/// Returns all live intents of a kind, or why they aren't known.
async fn all_of(cluster: &Cluster, gvk: &Gvk) -> Result<Vec<Value>, String> {
    match cluster.lookup(gvk).await {
        Ok(Lookup::Served(served)) => match cluster.reader().list(&served, None, None).await.answer {
            Answer::Found(all) => Ok(all),
            Answer::NotFound => Err(format!("the list of {} was answered with 404", gvk.kind)),
            Answer::Unknown { why } => Err(why),
        },
        Ok(Lookup::NotServed) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    }
}

/// Says which of the intents that come want what another of them, or one of the others, wants too.
fn clashes(
    come: &[(&ObjectKey, Option<&Location>, &Value)],
    others: &[(&ObjectKey, &Value)],
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, (key, at, intent)) in come.iter().enumerate() {
        let earlier = come[..place].iter().map(|(key, _, intent)| (*key, *intent));
        for (other, rival) in earlier.chain(others.iter().copied()) {
            let Some(want) = rivals::exclude_each_other(intent, rival) else {
                continue;
            };
            problems.push(Problem {
                message: format!("{key} and {other} want {want}: only one of them can have it, and neither has ended"),
                hint: Some(
                    "delete the one that is not meant, or say with spec.from that one begins where the other ends".to_owned(),
                ),
                at: at.cloned(),
            });
        }
    }
    problems
}

/// Says of every suspension that comes or changes which objects it is about, those of other syncs included.
fn note_suspended(changes: &mut [Change], feeds: &[DesiredFeed]) {
    let is_one = |change: &&mut Change| change.key.group == api::GROUP && change.key.kind == "Suspension";
    let mut objects: Option<Vec<Value>> = None;
    for change in changes.iter_mut().filter(is_one) {
        let spec = change.after.as_ref().and_then(|after| after.get("spec")).cloned();
        let Some(Ok(spec)) = spec.map(serde_json::from_value::<SuspensionSpec>) else {
            continue;
        };
        let objects = objects.get_or_insert_with(|| {
            let wanted: Vec<_> = feeds.iter().filter_map(DesiredFeed::latest).collect();
            let entries = wanted.iter().flat_map(|desired| desired.objects.values());
            entries.map(|entry| entry.value()).collect()
        });
        let namespace = change.key.namespace.as_deref().unwrap_or_default();
        change.suspends = suspension::about(&spec, namespace, objects);
    }
}

/// Returns the live objects of the syncs that a range takes out of `cutover.yaml`, and whose they were.
async fn of_removed_syncs(
    repo: &Repo,
    cluster: &Cluster,
    base: &Revision,
    now: &Config,
) -> Result<Vec<(Live, String)>, Error> {
    // What could not be used then was never carried out.
    let Ok(then) = settings::of(repo, base.clone()).await else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    let common = Selection::common(&then);
    for sync in &then.syncs {
        if !now.syncs.iter().any(|own| own.name == sync.name) {
            let live = of_removed_sync(repo, cluster, base, common.beside(sync)).await?;
            all.extend(live.into_iter().map(|live| (live, sync.name.clone())));
        }
    }
    Ok(all)
}

/// Returns what tells this control plane from all others, and isn't public: the uid of a namespace that every API
/// server has. Empty, where it may not be read.
async fn identity(cluster: &Cluster) -> Result<String, Error> {
    let Lookup::Served(namespaces) = cluster.lookup(&Gvk::new("v1", "Namespace")).await? else {
        return Ok(String::new());
    };
    let read = cluster.reader().get(&namespaces, None, "kube-system").await;
    Ok(match read.answer {
        Answer::Found(namespace) => namespace["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        Answer::NotFound | Answer::Unknown { .. } => String::new(),
    })
}

pub(super) fn unknown(error: repo::Error) -> Error {
    match error {
        repo::Error::UnknownRevision(revision) => Error::user(format!(
            "there is no commit {revision} in the history of the branch"
        ))
        .hint("fetch it first (in GitHub's checkout action: `fetch-depth: 0`), or name the branch that it is on"),
        error => error.into(),
    }
}
