//! Prune: finds the members of this sync's set that Git doesn't want any more, and deletes them, last things first.
//!
//! What is a member says the label in the API server, and where to look says the set's parent there: nothing that a
//! restart would forget. Whatever is in doubt keeps everything; see [`Stop`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::decide::{HOLDING, held_strays};
use super::pruner::Pruner;
use super::{DesiredFeed, LISTED_WITHIN, Problem, Selection, Sync};
use crate::api::{self, OWN_NAMESPACE};
use crate::cluster::{self, Deleted, KindState, Observer, Watched};
use crate::name::{Gvk, ObjectKey, Revision};
use crate::plan::applyset::{Approved, GroupKind, PART_OF_LABEL, Record, part_of};
use crate::plan::{self, Change, Doomed, Pruning, Stop, Stray};
use crate::reconcile::settings;

/// How long deleted objects may take to be seen to be gone, before the next ones are left to the next pass.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// How many ranks and waves one pass goes through at most.
const WAVES: usize = 32;
const DEFINITION: &str = "CustomResourceDefinition";

/// What pruning came to in a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Since this revision came.
    pub deleted: BTreeSet<ObjectKey>,
    /// What is being deleted, and what it waits for.
    pub leaving: BTreeMap<ObjectKey, String>,
    /// What Git no longer has and stays, and why.
    pub kept: BTreeMap<ObjectKey, String>,
    /// What an intent holds, and which.
    pub held_back: BTreeMap<ObjectKey, String>,
    /// What can't be deleted, and why.
    pub blocked: BTreeMap<ObjectKey, String>,
    /// What is still to be deleted.
    pub waiting: BTreeSet<ObjectKey>,
    /// Why nothing is deleted.
    pub stop: Option<Stop>,
}

impl PruneReport {
    /// Returns whether nothing is left that ought to go, but for what intents hold and what is protected.
    pub fn is_clean(&self) -> bool {
        self.blocked.is_empty() && self.waiting.is_empty() && self.stop.is_none()
    }

    /// Returns what stands in the way of deletions.
    pub(super) fn problems(&self) -> impl Iterator<Item = Problem> {
        let blocked = self.blocked.iter().map(|(key, why)| Problem {
            message: format!("{key} is not in Git any more and stays: {why}"),
            hint: None,
            at: None,
        });
        let stop = self.stop.iter().map(|stop| Problem {
            message: match self.waiting.first() {
                Some(only) if self.waiting.len() == 1 => format!("{only} is not in Git any more; {stop}"),
                Some(first) => format!(
                    "{} objects are not in Git any more, {first} among them; {stop}",
                    self.waiting.len()
                ),
                None => stop.to_string(),
            },
            hint: stop.hint(),
            at: None,
        });
        stop.chain(blocked)
    }

    /// Returns what is not in Git any more and stays for now, and why.
    pub fn staying(&self) -> impl Iterator<Item = (&ObjectKey, String)> {
        let kept = self.kept.iter().map(|(key, why)| (key, why.clone()));
        let leaving = self.leaving.iter();
        kept.chain(leaving.map(|(key, why)| (key, format!("it is being deleted and {why}"))))
    }

    fn update(&mut self, pruning: &Pruning) {
        self.leaving.clone_from(&pruning.leaving);
        self.kept.clone_from(&pruning.kept);
        self.held_back.clone_from(&pruning.held_back);
        self.blocked.clone_from(&pruning.blocked);
        self.waiting = pruning.doomed.iter().map(|doomed| doomed.key.clone()).collect();
        self.stop = pruning.stop.clone().filter(|_| !pruning.doomed.is_empty());
    }
}

impl Sync {
    /// Tells this sync what the other ones of the run want.
    pub fn beside(&mut self, siblings: Vec<(String, DesiredFeed)>) {
        if let Some(pruner) = &mut self.pruner {
            pruner.siblings = siblings;
        }
    }

    /// Records where members may be, before the first of them is applied.
    pub(super) async fn record_members(&mut self) {
        let kinds = self.source.kinds().iter().map(GroupKind::from).collect();
        let Some(pruner) = self.pruner.as_mut().filter(|pruner| pruner.stale) else {
            return;
        };
        let namespaces = self.placed.namespaces(OWN_NAMESPACE);
        match pruner.cover(&self.cluster, &kinds, &namespaces).await {
            Ok(()) => {
                pruner.stale = false;
                pruner.trouble = None;
                pruner.watch(&self.cluster, &self.observer).await;
                self.observer.heard(LISTED_WITHIN).await;
            }
            Err(trouble) => {
                tracing::warn!(sync = pruner.sync, %trouble, "nothing is pruned");
                pruner.trouble = Some(trouble);
            }
        }
    }

    /// Reads what there is to know for a plan, and writes nothing.
    pub(super) async fn look_for_members(&mut self) {
        let Some(pruner) = &mut self.pruner else { return };
        match cluster::read_parent(&self.cluster, &pruner.sync).await {
            Ok(parent) => {
                pruner.parent = parent.into();
                pruner.watch(&self.cluster, &self.observer).await;
            }
            Err(error) => pruner.trouble = Some(error.into()),
        }
    }

    /// Deletes what is to go, rank after rank, as far as that goes now.
    pub(super) async fn prune(&mut self, revision: &Revision) -> Option<PruneReport> {
        let mut report = PruneReport::default();
        self.pruner.as_mut()?.due = false;
        self.scan();
        self.look_into_definitions(revision).await;
        for _ in 0..WAVES {
            self.check_settings(revision).await;
            let pruning = self.pruning(revision)?;
            report.update(&pruning);
            let next: Vec<Doomed> = pruning.next().cloned().collect();
            if next.is_empty() {
                break;
            }
            if let Err(why) = self.remember_approval(&pruning).await {
                report.stop = Some(Stop::Doubt(why));
                break;
            }
            if !self.delete(next).await {
                break;
            }
        }
        if let Some(pruning) = self.pruning(revision).filter(|_| report.stop.is_none()) {
            report.update(&pruning);
        }
        if report.waiting.is_empty() && report.leaving.is_empty() {
            self.tidy_parent().await;
        }
        let pruner = self.pruner.as_mut()?;
        // What isn't known now may be known when somebody looks again.
        pruner.due |= matches!(report.stop, Some(Stop::Doubt(_)));
        report.deleted.clone_from(&pruner.deleted);
        Some(report)
    }

    /// Decides about what isn't wanted any more. Sends nothing.
    pub(super) fn pruning(&self, revision: &Revision) -> Option<Pruning> {
        let pruner = self.pruner.as_ref()?;
        let strays = self.strays(pruner);
        let keys: BTreeSet<&ObjectKey> = strays.keys().collect();
        let held = held_strays(&self.observer, &self.placed, &strays);
        let found: Vec<Stray<'_>> = strays
            .iter()
            .map(|(key, live)| Stray {
                key: key.clone(),
                live,
                held_by: held.get(key).map(ToString::to_string),
                occupied: pruner
                    .failed
                    .get(key)
                    .cloned()
                    .or_else(|| self.occupied(key, live, &keys)),
            })
            .collect();
        let desired = self.placed.objects.len();
        let approved = pruner.record().map(|record| record.approved.clone());
        Some(plan::prune(
            &found,
            desired,
            &pruner.limit,
            &approved.unwrap_or_default(),
            self.doubt(pruner, revision),
        ))
    }

    /// Returns what a plan shows of it. Reads, and writes nothing.
    pub(super) async fn deletions(&mut self, revision: &Revision) -> Vec<Change> {
        self.look_for_members().await;
        self.observer.heard(LISTED_WITHIN).await;
        self.scan();
        self.look_beside(revision).await;
        self.look_into_definitions(revision).await;
        self.pruning(revision)
            .map(|pruning| pruning.changes().to_vec())
            .unwrap_or_default()
    }

    /// Reads what the other syncs want, when there is something that they may want.
    async fn look_beside(&mut self, revision: &Revision) {
        let Some(pruner) = self.pruner.as_ref().filter(|pruner| !pruner.strays.is_empty()) else {
            return;
        };
        let config = self.source.selection.config.clone();
        let mut siblings = Vec::new();
        for other in config.syncs.iter().filter(|other| other.name != pruner.sync) {
            let selection = Selection::of(&config, other);
            let repo = self.source.repo.clone();
            let mut sync = Self::new(repo, self.cluster.clone(), self.observer.clone(), selection);
            let feed = sync.desired();
            if let Err(error) = sync.advance(revision).await {
                tracing::debug!(sync = other.name, %error, "cannot be read");
            }
            siblings.push((other.name.clone(), feed));
        }
        self.beside(siblings);
    }

    /// Lists the objects of definitions that are to go.
    async fn look_into_definitions(&mut self, revision: &Revision) {
        let mut strays = self.pruner.iter().flat_map(|pruner| &pruner.strays);
        if strays.any(|key| key.kind == DEFINITION) {
            // They are watched by being asked about.
            let _ = self.pruning(revision);
            self.observer.heard(LISTED_WITHIN).await;
            self.scan();
        }
    }

    /// Returns whether something about pruning may go better by itself.
    pub(super) fn prune_wants_again(&self) -> bool {
        let last = self.reports.borrow();
        let report = last.as_ref().and_then(|last| last.pruned.as_ref());
        self.pruner
            .as_ref()
            .is_some_and(|pruner| pruner.trouble.is_some())
            || report.is_some_and(|report| {
                !report.blocked.is_empty()
                    || match &report.stop {
                        Some(Stop::Doubt(_)) => !report.waiting.is_empty(),
                        _ => false,
                    }
            })
    }

    /// Looks through the kinds that nobody has looked through yet.
    pub(super) fn scan(&mut self) {
        let Some(pruner) = &mut self.pruner else { return };
        let kinds = pruner
            .record()
            .map(|record| record.kinds.clone())
            .unwrap_or_default();
        for kind in kinds {
            let known = self.observer.state(&kind.group, &kind.kind);
            if pruner.scanned.contains(&kind) || !matches!(known, Some(KindState::Synced { .. })) {
                continue;
            }
            let members = self
                .observer
                .labelled(&kind.group, &kind.kind, PART_OF_LABEL, &pruner.id);
            let unwanted = members.into_iter().filter(|key| !self.placed.may_want(key));
            pruner.strays.extend(unwanted);
            pruner.scanned.insert(kind);
        }
        let placed = &self.placed;
        pruner.strays.retain(|key| !placed.objects.contains_key(key));
        let observer = &self.observer;
        let is_there = |key: &ObjectKey, uid: &str| {
            observer
                .get(key)
                .is_some_and(|live| live["metadata"]["uid"].as_str() == Some(uid))
        };
        pruner.gone.retain(|key, uid| is_there(key, uid));
    }

    /// Returns the live members that nobody wants.
    fn strays(&self, pruner: &Pruner) -> BTreeMap<ObjectKey, Arc<Value>> {
        let mut strays = BTreeMap::new();
        for key in &pruner.strays {
            if self.placed.may_want(key) || self.source.mentions(key) || pruner.is_wanted_elsewhere(key) {
                continue;
            }
            let Some(live) = self.observer.get(key) else {
                continue;
            };
            let uid = live["metadata"]["uid"].as_str();
            if part_of(&live) == Some(&pruner.id) && pruner.gone.get(key).map(String::as_str) != uid {
                strays.insert(key.clone(), live);
            }
        }
        strays
    }

    /// Says why it isn't known what may go.
    fn doubt(&self, pruner: &Pruner, revision: &Revision) -> Option<String> {
        let unreachable = || {
            let why = pruner.unreachable.as_ref()?;
            Some(format!("Git could not be read: {why}"))
        };
        let settings = || {
            let (read, doubt) = pruner.settings.as_ref()?;
            doubt.clone().filter(|_| read == revision)
        };
        let holding = || {
            let why = self.held.unknown.as_ref()?;
            Some(format!("it is not known what intents hold: {why}"))
        };
        let trouble = || Some(pruner.trouble.as_ref()?.to_string());
        unreachable()
            .or_else(trouble)
            .or_else(|| self.git_doubt())
            .or_else(settings)
            .or_else(|| pruner.unknown_kind(&self.observer))
            .or_else(|| pruner.undecided_sibling(revision))
            .or_else(holding)
    }

    /// Says why it isn't known all that Git wants.
    pub(super) fn git_doubt(&self) -> Option<String> {
        let problem = self.source.problems().into_iter().next();
        let refused = || {
            let (what, why) = self.placed.first_refused()?;
            Some(format!("{what}: {why}"))
        };
        let unknown = || {
            let (gvk, why) = self.kinds.unknown.iter().next()?;
            Some(format!("{gvk} cannot be found out about: {why}"))
        };
        problem
            .map(|problem| problem.to_string())
            .or_else(refused)
            .or_else(unknown)
    }

    /// Settings that were changed together with the objects are for the next layout of the run.
    async fn check_settings(&mut self, revision: &Revision) {
        let Some(pruner) = &mut self.pruner else { return };
        if pruner.strays.is_empty() || pruner.settings.as_ref().is_some_and(|(read, _)| read == revision) {
            return;
        }
        let doubt = match settings::of(&self.source.repo, revision.clone()).await {
            Ok(config) if config == self.source.selection.config => None,
            Ok(_) => Some("cutover.yaml has changed".to_owned()),
            Err(error) => Some(format!("cutover.yaml: {error}")),
        };
        pruner.settings = Some((revision.clone(), doubt));
    }

    /// What somebody approved is written down before the first object goes: a crash must not ask again for the rest.
    async fn remember_approval(&mut self, pruning: &Pruning) -> Result<(), String> {
        let Some(pruner) = &mut self.pruner else {
            return Ok(());
        };
        let approval = pruning.approval();
        let Some(record) = pruner.record().filter(|record| {
            pruner.limit.approve.as_ref() == Some(&approval.hash) && record.approved != approval
        }) else {
            return Ok(());
        };
        let record = Record {
            approved: approval,
            ..record.clone()
        };
        let written = pruner.write(&self.cluster, &record).await;
        if written.is_err() {
            pruner.stale = true;
        }
        written.map_err(|error| error.to_string())
    }

    /// Returns whether all of them are gone.
    async fn delete(&mut self, next: Vec<Doomed>) -> bool {
        let Some(pruner) = &mut self.pruner else {
            return false;
        };
        let uids: BTreeMap<ObjectKey, String> = next
            .iter()
            .map(|doomed| (doomed.key.clone(), doomed.uid.clone()))
            .collect();
        let id = pruner.id.clone();
        let still = |live: &Value| part_of(live) == Some(&id) && plan::protection(live).is_none();
        let outcomes = cluster::delete(&self.cluster, &self.observer, next, still).await;
        let mut gone = BTreeSet::new();
        let mut all = true;
        for (key, outcome) in outcomes {
            match outcome {
                Deleted::Gone => {
                    tracing::info!(object = %key, sync = pruner.sync, "pruned");
                    gone.insert(key);
                }
                Deleted::Leaving => {
                    tracing::info!(object = %key, sync = pruner.sync, "is being pruned");
                    pruner.deleted.insert(key);
                    all = false;
                }
                Deleted::Spared => all = false,
                Deleted::Failed { message, hint, .. } => {
                    let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
                    pruner
                        .failed
                        .insert(key, format!("cannot be deleted: {message}{hint}"));
                    all = false;
                }
            }
        }
        for key in &gone {
            if let Some(uid) = uids.get(key) {
                pruner.gone.insert(key.clone(), uid.clone());
            }
            pruner.deleted.insert(key.clone());
        }
        pruner.untidy = true;
        let is_there = |observer: &Observer, key: &ObjectKey| {
            observer
                .get(key)
                .is_some_and(|live| live["metadata"]["uid"].as_str() == uids.get(key).map(String::as_str))
        };
        let seen = self
            .observer
            .until(GONE_WITHIN, |observer| {
                !gone.iter().any(|key| is_there(observer, key))
            })
            .await;
        let failed = !pruner.failed.is_empty();
        // What failed is told, and what was spared is looked at anew.
        pruner.due |= !all;
        (all || failed) && seen
    }

    /// Takes out of the parent what there is nothing of any more.
    async fn tidy_parent(&mut self) {
        let in_doubt = |sync: &Self| {
            let revision = sync.source.revision.clone();
            let pruner = sync.pruner.as_ref();
            pruner
                .zip(revision)
                .is_none_or(|(pruner, revision)| sync.doubt(pruner, &revision).is_some())
        };
        if !self.pruner.as_ref().is_some_and(|pruner| pruner.untidy) || in_doubt(self) {
            return;
        }
        let kinds: BTreeSet<GroupKind> = self.source.kinds().iter().map(GroupKind::from).collect();
        let namespaces = self.placed.namespaces(OWN_NAMESPACE);
        let Some(pruner) = &mut self.pruner else { return };
        let Some(said) = pruner.record().cloned() else {
            return;
        };
        pruner.untidy = false;
        let mut record = Record {
            approved: Approved::default(),
            ..said.clone()
        };
        let mut taken = namespaces;
        record.kinds.retain(|kind| {
            if kinds.contains(kind) {
                return true;
            }
            let members = self
                .observer
                .labelled(&kind.group, &kind.kind, PART_OF_LABEL, &pruner.id);
            let any = !members.is_empty();
            taken.extend(members.into_iter().filter_map(|key| key.namespace));
            any
        });
        let strays = pruner
            .strays
            .iter()
            .filter(|key| self.observer.get(key).is_some());
        taken.extend(strays.filter_map(|key| key.namespace.clone()));
        record.namespaces.retain(|namespace| taken.contains(namespace));
        if record != said
            && let Err(error) = pruner.write(&self.cluster, &record).await
        {
            tracing::debug!(%error, "the record of a set cannot be tidied up");
            (pruner.stale, pruner.untidy) = (true, true);
        }
    }

    /// Says what would go along with an object that holds others.
    fn occupied(&self, key: &ObjectKey, live: &Value, strays: &BTreeSet<&ObjectKey>) -> Option<String> {
        match (key.group.as_str(), key.kind.as_str()) {
            ("", "Namespace") if key.name == OWN_NAMESPACE => {
                Some("it is where cutover keeps its own".to_owned())
            }
            ("", "Namespace") => self.tenant(&key.name, strays),
            ("apiextensions.k8s.io", DEFINITION) => self.instance(live, strays),
            _ => None,
        }
    }

    /// Returns something in a namespace that doesn't go with it, as far as kinds are watched.
    fn tenant(&self, namespace: &str, strays: &BTreeSet<&ObjectKey>) -> Option<String> {
        let pruner = self.pruner.as_ref()?;
        if let Some(key) = self.placed.first_in(namespace) {
            return Some(format!("Git wants {key} in it"));
        }
        let recorded = pruner
            .record()
            .into_iter()
            .flat_map(|record| record.kinds.iter().cloned());
        let holding = HOLDING.map(|kind| GroupKind {
            group: api::GROUP.to_owned(),
            kind: kind.to_owned(),
        });
        let kinds: BTreeSet<GroupKind> = recorded.chain(holding).collect();
        kinds.iter().find_map(|kind| {
            let objects = self.observer.list(&kind.group, &kind.kind);
            let inside = objects
                .iter()
                .filter(|live| live["metadata"]["namespace"].as_str() == Some(namespace));
            let stays = inside
                .map(|live| key_of(kind, live))
                .find(|key| !strays.contains(key) && !is_of_every_namespace(key))?;
            Some(format!("{stays} is in it, which is not pruned"))
        })
    }

    /// Returns an object of a defined kind that doesn't go with the definition.
    fn instance(&self, definition: &Value, strays: &BTreeSet<&ObjectKey>) -> Option<String> {
        let text = |pointer| {
            definition
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let kind = GroupKind {
            group: text("/spec/group").to_owned(),
            kind: text("/spec/names/kind").to_owned(),
        };
        let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
        let served = versions
            .into_iter()
            .flatten()
            .find(|version| version["served"] == true);
        let Some(version) = served.and_then(|version| version["name"].as_str()) else {
            return Some("it is not known which objects there are of it: no version is served".to_owned());
        };
        let gvk = Gvk::new(&format!("{}/{version}", kind.group), &kind.kind);
        // All of them: somebody else's are not in our set.
        self.observer.watch(Watched::all(gvk));
        match self.observer.state(&kind.group, &kind.kind) {
            Some(state) if state.is_settled() => {}
            _ => return Some(format!("the list of {kind} has not come yet")),
        }
        let objects = self.observer.list(&kind.group, &kind.kind);
        let stays = objects
            .iter()
            .map(|live| key_of(&kind, live))
            .find(|key| !strays.contains(key))?;
        Some(format!("{stays} is there, which is not pruned"))
    }
}

/// What the API server puts into every namespace.
fn is_of_every_namespace(key: &ObjectKey) -> bool {
    matches!(
        (key.kind.as_str(), key.name.as_str()),
        ("ConfigMap", "kube-root-ca.crt") | ("ServiceAccount", "default")
    )
}

fn key_of(kind: &GroupKind, live: &Value) -> ObjectKey {
    let text = |field: &str| live["metadata"][field].as_str().map(str::to_owned);
    ObjectKey {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace: text("namespace"),
        name: text("name").unwrap_or_default(),
    }
}
