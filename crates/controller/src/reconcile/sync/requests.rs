//! Templates that ask for a move themselves, by an annotation: answered one after the other, each from a fresh read of the template; what
//! there is beside it is read once in a pass, and after a Migration was written.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::gate::{CLUSTERS, get, list};
use super::report::Problem;
use super::{Sync, dirty::Dirty};
use crate::reconcile::intents::served;
use cutover_cluster::{Exactly, Mode, Written};
use cutover_core::api::{self, SYNC_MANAGER};
use cutover_core::config::Migrations;
use cutover_core::intent::driven;
use cutover_core::intent::gate::may_have_state;
use cutover_core::intent::requested::{self, ANSWER_ANNOTATION, Step, TARGET_ANNOTATION, View};
use cutover_core::manifest::Entry;
use cutover_core::plan::{Action, Change};
use cutover_karmada::name::{ClusterName, Gvk, Location, ObjectKey};

/// A request has four steps, and one more shows that there is nothing left; others are for what was created late, or has changed
/// meanwhile.
const STEPS: usize = 10;

/// What templates ask for.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The templates that ask for something, or once did, and why the last attempt to answer failed.
    failed: BTreeMap<ObjectKey, Option<String>>,
    /// Where the annotations stand that something was said of.
    places: BTreeMap<ObjectKey, Place>,
}

/// Where a field of an object was found.
#[derive(Debug)]
struct Place {
    field: String,
    /// Of which content, and where the object begins in it.
    blob: Option<Box<str>>,
    object: Location,
    at: Location,
}

impl Place {
    fn is_of(&self, entry: &Entry, field: &str) -> bool {
        self.field == field && self.blob == entry.origin().blob && self.object == entry.source()
    }
}

/// What is said of a request.
struct Reported {
    key: ObjectKey,
    entry: Arc<Entry>,
    why: String,
    hint: Option<String>,
    /// The annotation that it is about, if Git has it.
    field: Option<String>,
    at: Location,
}

/// What there is beside the templates of a namespace.
struct Ground {
    migrations: Vec<Value>,
    evacuations: Vec<Value>,
    clusters: Vec<ClusterName>,
}

/// What was read, by namespace, and holds until a Migration is written there.
type Grounds = BTreeMap<Option<String>, Ground>;

impl Requests {
    /// Returns whether one could not be answered for a reason that passes.
    pub(super) fn want_again(&self) -> bool {
        self.failed.values().any(Option::is_some)
    }

    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.failed.remove(key);
    }
}

impl Sync {
    /// Takes in which of the objects that are looked at ask for a move.
    pub(super) fn note_requests(&mut self, keys: &Dirty) {
        for entry in keys.of(&self.placed.objects) {
            if !may_have_state(&entry.key) {
                continue;
            }
            let asks = self.observer.get(&entry.key).is_some_and(|live| {
                requested::is_open(&live) || problem_of(&live, || entry.value()).is_some()
            });
            if asks {
                self.requests.failed.entry(entry.key.clone()).or_default();
            } else {
                self.requests.failed.remove(&entry.key);
            }
        }
    }

    /// Answers what is open.
    pub(super) async fn answer_requests(&mut self) {
        let open = self.open_requests();
        self.requests
            .failed
            .values_mut()
            .for_each(|failed| *failed = None);
        // Afresh in each pass: what was set off a moment ago, by another replica too, is not set off again.
        let mut read = Grounds::new();
        for key in open {
            let failed = self.answer(&key, &mut read).await.err();
            if let Some(why) = &failed {
                tracing::warn!(template = %key, why, "a request to move a workload cannot be answered");
            }
            self.requests.failed.insert(key, failed);
        }
    }

    /// Returns the templates that something may have to be done about.
    fn open_requests(&self) -> BTreeSet<ObjectKey> {
        let is_open = |key: &&ObjectKey| {
            self.observer
                .get(key)
                .is_some_and(|live| requested::is_open(&live))
        };
        let open = self.requests.failed.keys().filter(is_open).cloned();
        // What is created late is no change of its template.
        let migrations = self.observer.list(api::GROUP, "Migration");
        let held = migrations.iter().filter_map(|one| requested::held_for(one));
        let held = held.filter(|key| self.placed.objects.contains_key(key));
        open.chain(held).collect()
    }

    async fn answer(&self, key: &ObjectKey, read: &mut Grounds) -> Result<(), String> {
        match self.placed.objects.get(key) {
            // The request stays open, and what is wrong is reported.
            Some(entry) if requested::is_answered_in(&entry.value()) => Ok(()),
            Some(entry) => self.follow_request(entry, read).await,
            None => Ok(()),
        }
    }

    /// Takes steps until there is none.
    async fn follow_request(&self, entry: &Entry, read: &mut Grounds) -> Result<(), String> {
        let (settings, namespace) = (self.migrations(), entry.key.namespace.as_deref());
        for _ in 0..STEPS {
            let ground = match read.entry(entry.key.namespace.clone()) {
                btree_map::Entry::Occupied(known) => known.into_mut(),
                btree_map::Entry::Vacant(unknown) => unknown.insert(self.ground_of_request(namespace).await?),
            };
            // The template last: a Migration that was read before is one of an answer that this one has, or has replaced.
            let name = &entry.key.name;
            let template: Option<Value> = get(&self.cluster, &entry.gvk, namespace, name).await?;
            let Some(template) = template else {
                return Ok(());
            };
            let view = View {
                migrations: &ground.migrations,
                evacuations: &ground.evacuations,
                clusters: &ground.clusters,
                settings: &settings,
                now: Timestamp::now(),
            };
            let Some(step) = requested::next(&template, &view) else {
                return Ok(());
            };
            // An answer changes nothing but the template.
            if !matches!(step, Step::Answer(..)) {
                read.remove(&entry.key.namespace);
            }
            if !self.take(&entry.gvk, &template, step).await? {
                // Another client changed it first: the watch reports that, and it is looked at again.
                return Ok(());
            }
        }
        Err(format!("after {STEPS} steps there are more to take"))
    }

    async fn ground_of_request(&self, namespace: Option<&str>) -> Result<Ground, String> {
        let of_cutover = api::API_VERSION;
        let clusters: Vec<Value> = list(&self.cluster, CLUSTERS, "Cluster", None).await?;
        let name = |cluster: &Value| cluster["metadata"]["name"].as_str().map(ClusterName::from);
        let mut evacuations: Vec<Value> = list(&self.cluster, of_cutover, "Evacuation", None).await?;
        // The items of a list need not say what they are.
        for one in &mut evacuations {
            one["kind"] = json!("Evacuation");
        }
        Ok(Ground {
            clusters: clusters.iter().filter_map(name).collect(),
            evacuations,
            migrations: list(&self.cluster, of_cutover, "Migration", namespace).await?,
        })
    }

    /// Returns whether there may be another step: not where the template is another one by now.
    async fn take(&self, gvk: &Gvk, template: &Value, step: Step) -> Result<bool, String> {
        let writer = self.cluster.writer(SYNC_MANAGER);
        let name = |of: &Value| of["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let is_answer = matches!(step, Step::Answer(..));
        let migrations = Gvk::new(api::API_VERSION, "Migration");
        let served = served(&self.cluster, if is_answer { gvk } else { &migrations }).await;
        let served = served.map_err(|error| error.to_string())?;
        let (written, what) = match step {
            Step::Answer(patch, what) => {
                let read = Exactly::of(template);
                (writer.patch(&served, &read, &patch, Mode::Write).await, what)
            }
            Step::Create(migration) => {
                let created = writer.create(&served, &migration, Mode::Write).await;
                (created, format!("Migration {} is created", name(&migration)))
            }
            Step::LetGo(held, patch) => {
                let read = Exactly::of(&held);
                let changed = writer.patch(&served, &read, &patch, Mode::Write).await;
                (changed, format!("Migration {} may begin", name(&held)))
            }
            Step::Delete(late) => {
                let deleted = writer.delete(&served, &Exactly::of(&late), Mode::Write).await;
                let what = format!("Migration {} was created late: it is deleted", name(&late));
                (deleted, what)
            }
        };
        match written.map_err(|error| error.to_string())? {
            Written::Done(_) => {
                tracing::info!(template = %name(template), "{TARGET_ANNOTATION}: {what}");
                Ok(true)
            }
            Written::Exists(_) => Ok(true),
            Written::Precondition(_) => Ok(!is_answer),
        }
    }

    /// Returns the Migrations that planned changes of templates ask for.
    pub(super) fn requested_moves(&self, changes: &[Change]) -> Vec<Change> {
        let settings = self.migrations();
        let writes = changes.iter().filter(|change| {
            matches!(change.action, Action::Create | Action::Configure) && may_have_state(&change.key)
        });
        let moves = writes.filter_map(|change| {
            let migration = requested::planned(change.after.as_ref()?, change.before.as_ref(), &settings)?;
            Some(Change::set_off(driven::key_of(&migration)?, &migration, change))
        });
        moves.collect()
    }

    /// Returns how Migrations are carried out that no file asks for.
    pub(super) fn migrations(&self) -> Migrations {
        let own = self.source.selection.own();
        own.map(|own| own.gate.migrations.clone()).unwrap_or_default()
    }

    /// Returns which requests are not carried out, and why.
    pub(super) async fn refused_requests(&mut self) -> Vec<Problem> {
        let mut told = self.told_of_requests();
        let mut fields = Vec::new();
        for one in &mut told {
            let Some(field) = &one.field else { continue };
            match self.requests.places.get(&one.key) {
                Some(place) if place.is_of(&one.entry, field) => one.at.clone_from(&place.at),
                _ => fields.push((&*one.entry, field.clone(), &mut one.at)),
            }
        }
        self.source.find(fields).await;
        let found = told
            .iter()
            .filter_map(|one| Some((one.key.clone(), one.place()?)));
        self.requests.places = found.collect();
        told.into_iter().map(Problem::from).collect()
    }

    fn told_of_requests(&self) -> Vec<Reported> {
        // Only what is not answered yet may wait for one.
        let migrations = LazyCell::new(|| self.observer.list(api::GROUP, "Migration"));
        let each = self.requests.failed.iter().filter_map(|(key, failed)| {
            let (entry, live) = (self.placed.objects.get(key)?, self.observer.get(key)?);
            let failed = failed.as_deref().map(failing);
            let (why, hint) = match failed.or_else(|| problem_of(&live, || entry.value())) {
                Some(problem) => (problem.why, Some(problem.hint)),
                None => {
                    let migrations = migrations.iter().map(|one| &**one);
                    (requested::awaits(&live, migrations)?, None)
                }
            };
            Some(Reported {
                key: key.clone(),
                why,
                hint,
                field: annotation_in(&entry.value(), &live),
                at: entry.source(),
                entry: Arc::clone(entry),
            })
        });
        each.collect()
    }
}

/// Says of a request that it could not be answered this time.
fn failing(why: &str) -> requested::Problem {
    requested::Problem {
        why: why.to_owned(),
        hint: "it is tried again until it succeeds".to_owned(),
    }
}

/// Returns why a standing request is not carried out. `manifest`: the template as Git has it.
fn problem_of(live: &Value, manifest: impl FnOnce() -> Value) -> Option<requested::Problem> {
    requested::target_of(live)?;
    if requested::is_answered_in(&manifest()) {
        return Some(requested::Problem {
            why: format!("Git has the annotation {ANSWER_ANNOTATION}, which is cutover's own"),
            hint: format!("remove {ANSWER_ANNOTATION} from the file"),
        });
    }
    requested::problem(live)
}

/// Returns which annotation of a manifest something is said of: the answer, which does not belong there, or the word that the live object
/// has too.
fn annotation_in(manifest: &Value, live: &Value) -> Option<String> {
    if requested::is_answered_in(manifest) {
        return Some(requested::answer_pointer());
    }
    let target = requested::target_of(manifest)?;
    (requested::target_of(live) == Some(target)).then(requested::pointer)
}

impl Reported {
    fn place(&self) -> Option<Place> {
        Some(Place {
            field: self.field.clone()?,
            blob: self.entry.origin().blob.clone(),
            object: self.entry.source(),
            at: self.at.clone(),
        })
    }
}

impl From<Reported> for Problem {
    fn from(told: Reported) -> Self {
        Self {
            message: format!("{} is not moved: {}", told.key, told.why),
            hint: told.hint,
            at: Some(told.at),
        }
    }
}
