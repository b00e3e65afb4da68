//! What a revision would change: a comparison with the API server that writes nothing.
//!
//! The watch cache decides what is in sync. What isn't is tried on the server by a dry-run, so that its defaults show,
//! and what it would refuse; many at a time.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::decide::Held;
use super::doubt::Settings;
use super::{DesiredFeed, LISTED_WITHIN, Selection, Sync, namespaces};
use cutover_cluster::{self as cluster, Cluster, Observer, Outcome, Task, off_the_runtime};
use cutover_core::api;
use cutover_core::config;
use cutover_core::error::Error;
use cutover_core::manifest::{self, Entry, Manifest};
use cutover_core::plan::{Action, ApplyOptions, Change, ChangeSet, never_recreated};
use cutover_core::redact::Secrets;
use cutover_git::Repo;
use cutover_karmada::name::{Gvk, ObjectKey, Revision};

/// Which revision is planned, and against which other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub revision: Revision,
    /// Only objects that differ between this one and `revision` are planned.
    pub base: Option<Revision>,
}

/// Compares a revision with the API server and writes nothing.
pub fn plan_revision<'a>(
    repo: &'a Repo,
    cluster: &'a Cluster,
    range: &'a Range,
    selection: Selection,
) -> BoxFuture<'a, Result<ChangeSet, Error>> {
    Box::pin(async move { Ok(plan_part(repo, cluster, range, selection).await?.changes) })
}

/// What a revision would change of one sync.
#[derive(Debug)]
pub(in crate::reconcile) struct Part {
    pub(in crate::reconcile) changes: ChangeSet,
    /// What Git wants of it.
    pub(in crate::reconcile) desired: DesiredFeed,
    /// Live objects that the range takes out of it and that it doesn't prune.
    pub(in crate::reconcile) removed: Vec<Live>,
}

/// An object that is there, and of which version of its kind.
#[derive(Clone, Debug)]
pub(in crate::reconcile) struct Live {
    pub(in crate::reconcile) key: ObjectKey,
    pub(in crate::reconcile) gvk: Gvk,
}

/// Compares a revision with the API server as one of several syncs.
pub(in crate::reconcile) async fn plan_part(
    repo: &Repo,
    cluster: &Cluster,
    range: &Range,
    selection: Selection,
) -> Result<Part, Error> {
    let observer = Observer::new(cluster.clone());
    let mut sync = Sync::new(repo.clone(), cluster.clone(), observer, selection);
    let desired = sync.desired();
    let (touched, gone) = sync.read(range).await?;
    // It was made from what that revision says.
    sync.settings = Some(Settings {
        revision: range.revision.clone(),
        same: Ok(true),
    });
    sync.list().await;
    sync.held = Held::look(&sync.observer, &sync.placed.objects);
    let deletions = sync.deletions(&range.revision).await;
    let all = sync.decider().changes().into_iter().chain(deletions);
    let (mut decided, others): (Vec<_>, Vec<_>) = all.partition(|change| {
        touched
            .as_ref()
            .is_none_or(|touched| touched.contains(&change.key))
    });
    let elsewhere = others
        .iter()
        .filter(|change| change.action != Action::Unchanged)
        .count();
    drop(others);
    decided.extend(needed_namespaces(&sync, &decided));
    let rehearsal = Rehearsal::of(&sync, &decided);
    let mut changes = Vec::with_capacity(decided.len());
    let mut asked: Vec<_> = Vec::new();
    for change in decided {
        if matches!(change.action, Action::Create | Action::Configure | Action::Delete) {
            asked.push(change);
        } else {
            changes.push(change);
        }
    }
    let trying = sync.begin(Task::DryRun, asked.len());
    let mut answers = futures::stream::iter(asked.into_iter().map(|change| rehearsal.of_change(change)))
        .buffer_unordered(cluster.limits().in_flight);
    while let Some(change) = answers.next().await {
        trying.advance();
        changes.push(change);
    }
    drop(answers);
    drop(trying);
    let changes = sync.fit_of_plan(changes).await;
    let mut changes = sync.gate_plan(changes).await;
    changes.extend(sync.requested_moves(&changes));
    let is_left = |live: &Live| sync.pruner.is_none() && sync.observer.contains(&live.key);
    Ok(Part {
        desired,
        removed: gone.into_iter().filter(is_left).collect(),
        changes: ChangeSet {
            base: range.base.clone(),
            problems: sync.source.first_problems(),
            elsewhere,
            ..ChangeSet::new(Some(range.revision.clone()), changes)
        },
    })
}

/// Returns the live objects of a sync that was there at a revision and isn't any more.
pub(in crate::reconcile) async fn of_removed_sync(
    repo: &Repo,
    cluster: &Cluster,
    revision: &Revision,
    selection: Selection,
) -> Result<Vec<Live>, Error> {
    let observer = Observer::new(cluster.clone());
    let mut sync = Sync::new(repo.clone(), cluster.clone(), observer, selection);
    sync.advance(revision).await?;
    sync.observer.heard(LISTED_WITHIN).await;
    let entries = sync.placed.objects.values();
    let there = entries.filter(|entry| sync.observer.contains(&entry.key));
    Ok(there.map(|entry| Live::of(entry)).collect())
}

impl Live {
    fn of(entry: &Entry) -> Self {
        Self {
            key: entry.key.clone(),
            gvk: Gvk::clone(&entry.gvk),
        }
    }
}

impl Sync {
    /// Waits for the first lists of what is watched.
    async fn list(&self) {
        let listing = self.begin(Task::List, self.observer.unheard());
        let listed = self.observer.until(LISTED_WITHIN, |observer| {
            let left = observer.unheard();
            listing.remain(left);
            left == 0
        });
        listed.await;
    }

    /// Reads a range; returns the objects that differ between its ends, if it has two, and those that go.
    async fn read(&mut self, range: &Range) -> Result<(Option<BTreeSet<ObjectKey>>, Vec<Live>), Error> {
        let Some(base) = &range.base else {
            self.advance(&range.revision).await?;
            return Ok((None, Vec::new()));
        };
        self.advance(base).await?;
        let before = self.placed.objects.clone();
        self.advance(&range.revision).await?;
        let after = &self.placed.objects;
        let come = after
            .values()
            .filter(|entry| before.get(&entry.key).is_none_or(|old| !old.asks_the_same(entry)));
        let gone: Vec<_> = before
            .values()
            .filter(|entry| !after.contains_key(&entry.key))
            .collect();
        let touched = come.chain(gone.iter().copied()).map(|entry| entry.key.clone());
        let touched = touched.collect();
        let may_be_wanted = |key| self.placed.may_want(key) || self.source.mentions(key);
        let gone = gone.into_iter().filter(|entry| !may_be_wanted(&entry.key));
        Ok((Some(touched), gone.map(|entry| Live::of(entry)).collect()))
    }
}

/// Returns the namespaces that come because objects need them and the sync says so.
fn needed_namespaces(sync: &Sync, changes: &[Change]) -> Vec<Change> {
    if !sync.creates_namespaces {
        return Vec::new();
    }
    let come = changes.iter().filter(|change| change.action == Action::Create);
    let entries: Vec<_> = come
        .filter_map(|change| sync.placed.objects.get(&change.key))
        .collect();
    let names = namespaces::missing(entries, &sync.placed, &sync.observer);
    let namespace = |name: &String| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let source = manifest::Source::new(config::PATH);
        let parsed = manifest::parse(
            source,
            object.to_string().as_bytes(),
            &manifest::Limits::default(),
        );
        let manifest = parsed.objects.into_iter().next()?;
        Some(Change::apply(&manifest, None, None, api::SYNC_MANAGER))
    };
    names.iter().filter_map(namespace).collect()
}

/// What dry-runs need to know: what there will be that there isn't yet.
struct Rehearsal<'a> {
    sync: &'a Sync,
    namespaces: BTreeSet<String>,
}

impl<'a> Rehearsal<'a> {
    fn of(sync: &'a Sync, changes: &[Change]) -> Self {
        let namespaces = changes
            .iter()
            .filter(|change| change.action == Action::Create && change.key.kind == "Namespace")
            .map(|change| change.key.name.clone());
        Self {
            sync,
            namespaces: namespaces.collect(),
        }
    }

    /// Returns a change as the server would make it, or why it wouldn't, or why it can't be asked.
    async fn of_change(&self, guess: Change) -> Change {
        if guess.action == Action::Delete {
            return self.of_deletion(guess).await;
        }
        let Some(entry) = self.sync.placed.objects.get(&guess.key) else {
            return guess;
        };
        let manifest = self.sync.decider().dressed(&entry.manifest()).into_owned();
        let coming = guess
            .key
            .namespace
            .as_ref()
            .and_then(|name| self.namespaces.get(name));
        if let Some(namespace) = coming {
            return guess.unchecked(format!("its namespace {namespace} comes with the same push"));
        }
        let options = self.sync.options.of(&manifest.value);
        match cluster::rehearse(&self.sync.cluster, &manifest, options).await {
            Ok(preview) => {
                let live = self.sync.observer.get(&manifest.key);
                Change::apply(&manifest, live.as_deref(), Some(&preview), api::SYNC_MANAGER)
            }
            Err(outcome) => {
                let mut outcomes = BTreeMap::from([(guess.key.clone(), outcome)]);
                let objects = &self.sync.placed.objects;
                self.sync.source.locate(objects, &mut outcomes).await;
                match outcomes.remove(&guess.key) {
                    Some(outcome) => self.refused(guess, &manifest, options, outcome),
                    None => guess,
                }
            }
        }
    }

    async fn of_deletion(&self, guess: Change) -> Change {
        let Some(live) = self.sync.observer.get(&guess.key) else {
            return guess;
        };
        let Err(error) = cluster::rehearse_deletion(&self.sync.cluster, &guess.gvk, &live).await else {
            return guess;
        };
        let why = off_the_runtime(|| Secrets::of([&*live]).scrub(&error.to_string()));
        if may_not_try(&why) {
            guess.unchecked(why)
        } else {
            guess.blocked(why)
        }
    }

    fn refused(
        &self,
        mut guess: Change,
        manifest: &Manifest,
        options: ApplyOptions,
        outcome: Outcome,
    ) -> Change {
        let live = self.sync.observer.get(&manifest.key);
        let told = |words: &str| off_the_runtime(|| discreet(words, &manifest.value, live.as_deref()));
        if let Some(place) = outcome.place() {
            guess.source = Some(place.clone());
        }
        match outcome {
            Outcome::NotServed if self.is_defined(manifest) => {
                guess.unchecked("its kind is defined by the same push")
            }
            Outcome::Failed(failure) if may_not_try(&failure.message) => {
                guess.unchecked(told(&failure.message))
            }
            Outcome::Failed(failure) if !failure.fixed.is_empty() && options.recreate => {
                let why = told(&failure.message);
                match live
                    .as_deref()
                    .and_then(|live| never_recreated(&manifest.gvk, live))
                {
                    Some(never) => guess.blocked(format!("{why}; {never}")),
                    None => guess.recreated(why),
                }
            }
            outcome => match outcome.told(&manifest.gvk.kind) {
                Some((why, _)) => guess.blocked(told(&why)),
                None => guess,
            },
        }
    }

    fn is_defined(&self, manifest: &Manifest) -> bool {
        let objects = &self.sync.placed.objects;
        let mut definitions = objects.of_kind("apiextensions.k8s.io", "CustomResourceDefinition");
        definitions.any(|entry| {
            let definition = entry.value();
            let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str);
            text("/spec/group") == Some(&manifest.gvk.group)
                && text("/spec/names/kind") == Some(&manifest.gvk.kind)
        })
    }
}

/// Returns what is said of an object without its secrets. What has one that only the live object has is not repeated at
/// all: beside a list of guesses, the one that is masked would be the right one.
fn discreet(words: &str, desired: &Value, live: Option<&Value>) -> String {
    let clean = Secrets::of([desired]).scrub(words);
    if Secrets::of(std::iter::once(desired).chain(live)).scrub(words) == clean {
        clean
    } else {
        "the API server refuses it, in words that hold a secret of the live object".to_owned()
    }
}

/// Returns whether credentials that only read were refused the dry-run, which needs the rights of the write.
fn may_not_try(why: &str) -> bool {
    [
        "cannot patch resource",
        "cannot create resource",
        "cannot update resource",
        "cannot delete resource",
    ]
    .iter()
    .any(|refusal| why.contains(refusal))
}
