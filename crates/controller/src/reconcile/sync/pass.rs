//! One pass: decides about every object that something happened to, writes what has its turn, and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::decide::{Decider, Held};
use super::dirty::Dirty;
use super::gate::Gated;
use super::{Done, LISTED_WITHIN, ObjectReport, ObjectResult, Sync, SyncReport, Wait, depend, namespaces};
use cutover_cluster::{
    self as cluster, Answers, Failure, Outcome, Task, TaskProgress, Write, off_the_runtime,
};
use cutover_core::api::SYNC_MANAGER;
use cutover_core::error::Error;
use cutover_core::intent::gate::policy_name;
use cutover_core::intent::record::digest;
use cutover_core::manifest::Entry;
use cutover_core::plan::{Action, Change, ChangeSet, Health, Place, Rank, health, normalise, written_wave};
use cutover_karmada::name::{Location, ObjectKey, Revision};

/// How long what comes after a CRD waits at once for its kind to be served; longer, and it is tried again later.
const SERVED_WITHIN: Duration = Duration::from_secs(2);

/// How long it may take from then on until the kind is asked for again.
const ANSWERS: Duration = Duration::from_millis(20);

/// How often one pass looks at what it has let go on; the rest is for the next pass.
const ROUNDS: usize = 64;

/// What became of the objects that a pass looked at.
type Results = BTreeMap<ObjectKey, ObjectReport>;

impl Sync {
    /// Decides about every object that something happened to, and writes what has its turn. What that lets go on has
    /// its turn at once.
    pub(super) async fn pass(&mut self, revision: Revision) -> Result<Arc<SyncReport>, Error> {
        let started_at = Timestamp::now();
        self.observer.heard(LISTED_WITHIN).await;
        // The first lists tell of every object: once is enough to look at them.
        self.listen();
        self.turn_back_overtaken(&revision).await;
        let mut results = Results::new();
        for _ in 0..ROUNDS {
            let lacking = depend::lacking(&self.dependencies, &self.source.repo, &revision).await;
            self.others = self.waves.syncs(lacking);
            let released = self.released();
            self.dirty.extend(released);
            self.find_new_kinds(&revision).await;
            self.record_members().await;
            self.look_at_intents();
            Box::pin(self.apply_agreed(&revision)).await;
            let keys = std::mem::take(&mut self.dirty);
            self.round(&revision, &keys, &mut results).await?;
            if self.dirty.is_empty() && self.released().is_empty() {
                break;
            }
        }
        self.answer_requests().await;
        self.evacuate_clusters().await;
        let before = self.deleted_so_far();
        let pruned = self.prune(&revision).await;
        let deleted = self.deleted_so_far().saturating_sub(before);
        let missing_folder = self.missing_folder(&revision).await;
        let standing = self.standing.reports();
        results.extend(standing.map(|(key, report)| (key.clone(), report.clone())));
        let desired = self.placed.objects.len();
        let requests = [self.refused_requests().await, self.agreed.problems()].concat();
        let done = Done::of(&results, desired, deleted);
        self.total = self.total.and_then(done);
        let report = Arc::new(SyncReport {
            revision,
            started_at,
            finished_at: Timestamp::now(),
            objects: results,
            desired,
            done,
            unhealthy: self.waves.unhealthy(),
            problems: self.source.first_problems(),
            requests,
            evacuations: self.evacuations.problems(),
            missing_folder,
            orphaned: self.orphaned(),
            pruned,
        });
        self.log_done(&report);
        self.reports.send_replace(Some(Arc::clone(&report)));
        if let Some(meter) = &mut self.meter {
            meter.passed(&report);
        }
        Ok(report)
    }

    /// A kind that wasn't served may be now: then its objects may belong into another namespace.
    async fn find_new_kinds(&mut self, revision: &Revision) {
        let is_served = |entry: &Arc<Entry>| self.kinds.of_key(&entry.key).is_some();
        if self.kinds.are_all_known(&self.source.kinds())
            || self.dirty.of(&self.placed.objects).all(is_served)
        {
            return;
        }
        self.find_out_kinds().await;
        self.share(revision);
    }

    /// Finds out what intents hold back, if anything has happened that this depends on.
    fn look_at_intents(&mut self) {
        let may_differ = self.intents_moved || self.held.something_moves;
        if !may_differ && self.held.is_current(&self.observer) {
            return;
        }
        self.intents_moved = false;
        let held = Held::look(&self.observer, &self.placed.objects);
        self.dirty.extend(held.differences(&self.held));
        if held.is_known() && !self.held.is_known() {
            self.dirty.insert_all();
        }
        self.held = held;
    }

    /// Looks at objects once.
    async fn round(&mut self, revision: &Revision, keys: &Dirty, results: &mut Results) -> Result<(), Error> {
        let mut stages = off_the_runtime(|| self.planned(revision, keys));
        let is_policy = |write: &Write| policy_name(&write.entry.key).is_some();
        if stages.values().flatten().any(is_policy) {
            // How one is judged depends on which others go.
            self.scan();
            self.check_settings(revision).await;
        }
        let total: usize = stages.values().map(Vec::len).sum();
        let applying = self.begin(Task::Apply, total);
        while let Some((place, writes)) = stages.pop_first() {
            let written = self.stage(place, writes, results, &applying).await?;
            if place.rank == Rank::Definition && !written.is_empty() {
                // What comes after may be of a kind that is known only now.
                self.served(&written).await;
                self.standing.may_fit(Instant::now());
                let later = stages.into_values().flatten();
                self.dirty.extend(later.map(|write| write.entry.key.clone()));
                return Ok(());
            }
        }
        Ok(())
    }

    /// Decides about objects; returns what is to be written, in its order.
    fn planned(&mut self, revision: &Revision, keys: &Dirty) -> BTreeMap<Place, Vec<Write>> {
        let decider = self.decider();
        let drifted = decider.told_drift(keys);
        let plan = ChangeSet::new(Some(revision.clone()), decider.decisions(keys));
        self.leave_unchanged(keys, &plan);
        self.note_requests(keys);
        for (entry, fields) in drifted {
            let (key, place, source) = (&entry.key, place_of(&entry), entry.source());
            self.stands(key, place, Some(source), ObjectResult::Drifted { fields }, None);
        }
        let mut stages: BTreeMap<Place, Vec<Write>> = BTreeMap::new();
        for change in &plan.changes {
            if let Some(write) = self.sort(change) {
                stages.entry(change.place()).or_default().push(write);
            }
        }
        stages
    }

    /// Takes in that objects are as Git wants them: those that were looked at, and of which nothing is said.
    fn leave_unchanged(&mut self, keys: &Dirty, plan: &ChangeSet) {
        let changes: BTreeSet<&ObjectKey> = plan.changes.iter().map(|change| &change.key).collect();
        let is_undone = |key: &ObjectKey| !keys.contains(key) || changes.contains(key);
        self.waves.pending.retain(is_undone);
        self.standing.retain(is_undone);
        if self.waves.care() {
            for entry in keys.of(&self.placed.objects) {
                let live = self.observer.get(&entry.key);
                self.waves
                    .judge(&entry.key, place_of(entry), live.as_deref(), &self.observer);
            }
        }
    }

    /// Returns the write that a change asks for; takes in where the object stands when there is none.
    fn sort(&mut self, change: &Change) -> Option<Write> {
        let (key, place) = (&change.key, change.place());
        let live = self.observer.get(key);
        let stands = match &change.action {
            Action::Create | Action::Configure => match self.waves.going(key, live.as_deref()) {
                Some(wait) => ObjectResult::Waiting(wait),
                None => match self.fights.rests(key, Instant::now()) {
                    Some(until) => {
                        let fields = self.decider().drift(key);
                        self.standing
                            .rest(key.clone(), place, change.source.clone(), fields, until);
                        return None;
                    }
                    None => return self.write(change, live.as_deref()),
                },
            },
            Action::HeldBack { by } => ObjectResult::HeldBack { by: by.clone() },
            Action::Blocked { reason } => ObjectResult::Blocked {
                reason: reason.clone(),
            },
            Action::Unchanged | Action::Delete | Action::Recreate { .. } | Action::LeftBehind { .. } => {
                return None;
            }
        };
        self.stands(key, place, change.source.clone(), stands, None);
        None
    }

    /// Begins a task of so many things, which may be shown.
    pub(super) fn begin(&self, task: Task, total: usize) -> TaskProgress {
        let sync = self.source.selection.sync.as_deref();
        self.cluster.begin(task, sync.unwrap_or_default(), total)
    }

    pub(super) fn decider(&self) -> Decider<'_> {
        Decider {
            observer: &self.observer,
            placed: &self.placed,
            kinds: &self.kinds,
            held: &self.held,
            settled: &self.settled,
            context: &self.source.selection.context,
            pruner: self.pruner.as_ref(),
        }
    }

    /// Returns the write of an object, unless exactly this was tried and refused a moment ago.
    fn write(&mut self, change: &Change, live: Option<&Value>) -> Option<Write> {
        let entry = self.placed.objects.get(&change.key)?;
        let rests = self.standing.was_tried(&change.key)
            && self
                .standing
                .rests(&change.key, &attempt(&entry.value(), live), Instant::now());
        if rests {
            return None;
        }
        let recreated = self.recreated.get(&change.key);
        Some(Write {
            entry: Arc::clone(entry),
            context: Arc::clone(&self.source.selection.context),
            live: live.and_then(|live| Some(live["metadata"]["resourceVersion"].as_str()?.to_owned())),
            options: self.options,
            recreated: recreated.is_some_and(|content| *content == digest(&entry.value())),
            spared: None,
            judged: None,
        })
    }

    /// Writes what has its turn of one place in the order, and returns it; what hasn't is said to wait.
    async fn stage(
        &mut self,
        place: Place,
        writes: Vec<Write>,
        results: &mut Results,
        applying: &TaskProgress,
    ) -> Result<Vec<Arc<Entry>>, Error> {
        let all = writes.len();
        let wait = self.turn(place);
        let is_due = |write: &Write| wait.is_none() || !self.waves.pending.contains(&write.entry.key);
        let (due, waiting): (Vec<_>, Vec<_>) = writes.into_iter().partition(is_due);
        if let Some(wait) = &wait {
            self.note_waiting(waiting, wait, place);
        }
        let (due, without_namespace) = self.with_namespaces(due).await;
        let (due, unfit) = Box::pin(self.fitting(due)).await;
        let Gated {
            passed: due,
            refused,
            moving,
            awaiting,
        } = self.gated(due).await;
        applying.leave_out(all.saturating_sub(due.len()));
        let written: Vec<_> = due.iter().map(|write| Arc::clone(&write.entry)).collect();
        let live = due
            .iter()
            .map(|write| (write.entry.key.clone(), write.live.clone()));
        let decided_on: BTreeMap<ObjectKey, Option<String>> = live.collect();
        let corrections = self.corrections(&due);
        let Answers {
            mut outcomes,
            versions,
        } = cluster::apply(&self.cluster, Some(&self.observer), due, applying).await;
        // What wasn't sent because the work ends is no news about the objects.
        self.cluster.may_write()?;
        outcomes.extend(without_namespace);
        outcomes.extend(unfit);
        outcomes.extend(refused);
        for (key, by) in moving {
            self.held_back(&key, place, by);
            self.standing.look_again(&key, Instant::now());
        }
        for (key, first) in &awaiting {
            self.held_back(key, place, first.to_string());
            self.standing.look_less_often(key, Instant::now());
        }
        self.let_follow(&outcomes, &awaiting);
        self.source.locate(&self.placed.objects, &mut outcomes).await;
        off_the_runtime(|| {
            for (key, outcome) in outcomes {
                let version = versions.get(&key).map(String::as_str);
                let decided_on = decided_on.get(&key);
                if let Some(fields) = corrections.get(&key) {
                    self.log_correction(&key, &outcome, fields);
                }
                let overtaken = decided_on.is_some_and(|version| *version != self.observer.version(&key));
                self.applied(key.clone(), place, outcome, version, results);
                if overtaken {
                    self.standing.overtaken(&key, Instant::now());
                }
            }
        });
        Ok(written)
    }

    /// What was to come after an object that was written has its turn, now that it is there.
    fn let_follow(
        &mut self,
        outcomes: &BTreeMap<ObjectKey, Outcome>,
        awaiting: &BTreeMap<ObjectKey, ObjectKey>,
    ) {
        let awaited: BTreeSet<&ObjectKey> = awaiting.values().collect();
        let is_awaited = |key: &ObjectKey| policy_name(key).is_some() || awaited.contains(key);
        let there = outcomes.iter().filter(|(_, outcome)| outcome.is_in_sync());
        let there = there.map(|(key, _)| key).filter(|key| is_awaited(key));
        let there: BTreeSet<String> = there.map(ToString::to_string).collect();
        self.dirty.extend(self.standing.held_back_by(&there));
    }

    fn note_waiting(&mut self, waiting: Vec<Write>, wait: &Arc<Wait>, place: Place) {
        for write in waiting {
            let source = Some(write.entry.source());
            let waits = ObjectResult::Waiting(Arc::clone(wait));
            self.stands(&write.entry.key, place, source, waits, None);
        }
    }

    /// Returns what a place has to wait for.
    pub(super) fn turn(&mut self, place: Place) -> Option<Arc<Wait>> {
        let others = self.others.clone();
        others.or_else(|| self.waves.gate(place, &self.standing))
    }

    /// Creates the namespaces that are missing, if that was asked for. What is to go into one that can't be created
    /// isn't tried.
    async fn with_namespaces(&self, writes: Vec<Write>) -> (Vec<Write>, BTreeMap<ObjectKey, Outcome>) {
        if !self.creates_namespaces {
            return (writes, BTreeMap::new());
        }
        let objects = writes.iter().map(|write| &write.entry);
        let missing = namespaces::missing(objects, &self.placed, &self.observer);
        let failed = namespaces::create(&self.cluster, &self.observer, missing).await;
        let error = |write: &Write| failed.get(write.entry.key.namespace.as_ref()?);
        let (without_namespace, writes): (Vec<_>, Vec<_>) =
            writes.into_iter().partition(|write| error(write).is_some());
        let without_namespace = without_namespace.iter().filter_map(|write| {
            let error = error(write)?;
            let outcome = Outcome::Failed(Failure {
                message: format!("its namespace cannot be created: {error}"),
                hint: error.hint().map(str::to_owned),
                at: write.entry.source(),
                field: None,
                passing: true,
                fixed: Vec::new(),
            });
            Some((write.entry.key.clone(), outcome))
        });
        let without_namespace = without_namespace.collect();
        (writes, without_namespace)
    }

    /// Waits a moment for the kinds of CRDs to be served.
    async fn served(&self, definitions: &[Arc<Entry>]) {
        self.observer.look_again();
        let is_open = |observer: &cluster::Observer, entry: &Arc<Entry>| {
            let live = observer.get(&entry.key);
            live.is_some_and(|live| matches!(health(&live, || None), Health::Progressing(_)))
        };
        let established = self.observer.until(SERVED_WITHIN, |observer| {
            !definitions.iter().any(|entry| is_open(observer, entry))
        });
        if established.await {
            // Nobody tells when the paths are there.
            let is_healthy = |entry: &&Arc<Entry>| {
                let live = self.observer.get(&entry.key);
                live.is_some_and(|live| health(&live, || None) == Health::Healthy)
            };
            let served = definitions.iter().filter(is_healthy);
            let answers =
                served
                    .flat_map(|entry| resources(&entry.value()))
                    .map(async |(api_version, plural)| {
                        let discovery = self.cluster.discovery();
                        while let Ok(false) = discovery.answers(&self.cluster, &api_version, &plural).await {
                            tokio::time::sleep(ANSWERS).await;
                        }
                    });
            drop(tokio::time::timeout(SERVED_WITHIN, join_all(answers)).await);
        }
    }

    /// Takes in what became of a write, which made the given version of the object.
    fn applied(
        &mut self,
        key: ObjectKey,
        place: Place,
        outcome: Outcome,
        version: Option<&str>,
        results: &mut Results,
    ) {
        let Some(entry) = self.placed.objects.get(&key).map(Arc::clone) else {
            return;
        };
        let live = self.observer.get(&key);
        let source = Some(entry.source());
        if let Outcome::Recreating { uid } = &outcome {
            self.recreated.insert(key.clone(), digest(&entry.value()));
            self.waves.leaves(&key, uid.clone());
            if let Some(wait) = self.waves.going(&key, live.as_deref()) {
                return self.stands(&key, place, source, ObjectResult::Waiting(wait), None);
            }
        }
        if outcome.is_in_sync() {
            // What somebody did since is nothing that the server has agreed to.
            let answered = |live: &&Arc<Value>| live["metadata"]["resourceVersion"].as_str() == version;
            if let Some(live) = live.as_ref().filter(answered) {
                let (manifest, context) = (entry.manifest(), &self.source.selection.context);
                let dressed = context.on(&manifest, Some(live), SYNC_MANAGER);
                self.settled.remember(&dressed, live);
            }
            if outcome != Outcome::Unchanged {
                self.fights.corrected(&key, Instant::now());
            }
            let result = ObjectResult::Applied(outcome);
            results.insert(key.clone(), ObjectReport { source, result });
            self.done(&key);
        } else {
            let tried = match &outcome {
                // When it comes, it comes without anything else having changed.
                Outcome::NotServed | Outcome::Recreating { .. } => None,
                _ => Some(attempt(&entry.value(), live.as_deref())),
            };
            self.stands(&key, place, source, ObjectResult::Applied(outcome), tried);
        }
        self.waves.judge(&key, place, live.as_deref(), &self.observer);
    }

    /// An object is as Git wants it.
    fn done(&mut self, key: &ObjectKey) {
        self.standing.remove(key);
        self.waves.pending.remove(key);
    }

    fn held_back(&mut self, key: &ObjectKey, place: Place, by: String) {
        let source = self.placed.objects.get(key).map(|entry| entry.source());
        self.stands(key, place, source, ObjectResult::HeldBack { by }, None);
    }

    fn stands(
        &mut self,
        key: &ObjectKey,
        place: Place,
        source: Option<Location>,
        result: ObjectResult,
        tried: Option<String>,
    ) {
        let report = ObjectReport { source, result };
        self.standing
            .put(key.clone(), place, report, tried, Instant::now());
    }

    /// Returns what waited and has its turn now; of the rest, says anew what it waits for.
    fn released(&mut self) -> BTreeSet<ObjectKey> {
        let mut released = BTreeSet::new();
        for (place, keys) in self.standing.waiting() {
            let turn = self.turn(place);
            for key in keys {
                let live = self.observer.get(&key);
                let wait = self.waves.going(&key, live.as_deref());
                let is_pending = self.waves.pending.contains(&key);
                match wait.or_else(|| turn.clone().filter(|_| is_pending)) {
                    Some(wait) => self.standing.wait(&key, &wait),
                    None => {
                        released.insert(key);
                    }
                }
            }
        }
        released
    }

    fn orphaned(&self) -> Vec<ObjectKey> {
        if self.pruner.is_some() || self.source.has_gaps() {
            return Vec::new();
        }
        self.dropped
            .iter()
            .filter(|key| self.observer.contains(key))
            .cloned()
            .collect()
    }
}

/// Returns where an object stands in the order.
pub(super) fn place_of(entry: &Entry) -> Place {
    Place {
        rank: Rank::of(&entry.gvk),
        wave: written_wave(entry.written()),
    }
}

/// Tells what was tried from what may be tried: what Git wants, what is there, and who owns it. Status makes no
/// difference.
fn attempt(desired: &Value, live: Option<&Value>) -> String {
    let owners = live.and_then(|live| live.pointer("/metadata/managedFields")?.as_array());
    let owners: Vec<Value> = owners
        .into_iter()
        .flatten()
        .filter(|entry| entry["subresource"].as_str().is_none_or(str::is_empty))
        .map(|entry| json!([entry["manager"], entry["operation"], entry["fieldsV1"]]))
        .collect();
    let live = live.map(|live| {
        let mut seen = normalise(live);
        if let Some(fields) = seen.as_object_mut() {
            fields.shift_remove("status");
        }
        seen
    });
    digest(&json!([desired, live, owners]))
}

/// Returns the resources that a CRD has served: `apiVersion` and plural.
fn resources(definition: &Value) -> Vec<(String, String)> {
    let spec = &definition["spec"];
    let (Some(group), Some(plural)) = (spec["group"].as_str(), spec["names"]["plural"].as_str()) else {
        return Vec::new();
    };
    let versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    let names = served.filter_map(|version| version["name"].as_str());
    names
        .map(|version| (format!("{group}/{version}"), plural.to_owned()))
        .collect()
}
