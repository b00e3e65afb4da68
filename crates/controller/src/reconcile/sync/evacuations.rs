//! Member clusters that are tainted, deleted or cordoned: each gets an Evacuation, step by step, from fresh reads.
//!
//! Costs nothing where the sync does not ask for it, and two lists where a Cluster has changed that no cause is about.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::Sync;
use super::gate::{CLUSTERS, Reach, bindings, knowledge, list, with_state};
use super::report::Problem;
use crate::reconcile::intents::served;
use cutover_cluster::{Exactly, Form, Keep, KeepManagedFields, Mode, Observer, Watched, Written};
use cutover_core::api::{self, SYNC_MANAGER};
use cutover_core::config::{Evacuations as Settings, EvacuationsMode};
use cutover_core::intent::cluster_driven::{self, Change, Step, View, Workload};
use cutover_core::intent::gate::{Knowledge, State};
use cutover_core::profile;
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::{Gvk, ObjectKey};

/// How many rounds of steps a pass takes, of which a cause calls for four; the rest is for the next one.
const ROUNDS: usize = 8;
/// How often what no change tells of is looked at, at most: whenever Git is asked for news.
const AGAIN: Duration = Duration::from_secs(10);
/// The same, where one look after the other finds nothing new.
const AT_THE_LATEST: Duration = Duration::from_mins(1);

const EVACUATION: &str = "Evacuation";

/// What is known of the clusters.
#[derive(Debug, Default)]
pub(super) struct Evacuations {
    /// Whether the sync asks for any.
    is_on: bool,
    /// Something has happened that may call for a step.
    is_due: bool,
    /// What decides, as it was last heard of.
    seen: BTreeMap<ObjectKey, String>,
    /// Something may have to be done that no change tells of.
    is_open: bool,
    looked: Option<Instant>,
    /// How long it is until the next look at what is open.
    pace: Duration,
    /// What could not be read or done.
    failed: Option<String>,
    problems: Vec<Problem>,
}

impl Evacuations {
    pub(super) fn of(settings: &Settings) -> Self {
        let is_on = settings.mode != EvacuationsMode::Manual;
        Self {
            is_on,
            is_due: is_on,
            ..Self::default()
        }
    }

    /// Returns whether a look failed for a reason that passes.
    pub(super) const fn want_again(&self) -> bool {
        self.failed.is_some()
    }

    pub(super) const fn is_due(&self) -> bool {
        self.is_due
    }

    pub(super) const fn hear_all(&mut self) {
        self.is_due |= self.is_on;
    }

    /// Takes in that an object has changed.
    pub(super) fn hear(&mut self, key: &ObjectKey, observer: &Observer) {
        let matters = is_cluster(key) || (key.group == api::GROUP && key.kind == EVACUATION);
        if !self.is_on || !matters {
            return;
        }
        let now = observer.get(key).map(|object| cluster_driven::signature(&object));
        let before = match now.clone() {
            Some(now) => self.seen.insert(key.clone(), now),
            None => self.seen.remove(key),
        };
        if before != now {
            self.is_due = true;
            self.pace = AGAIN;
        }
        if is_cluster(key) {
            self.tick();
        }
    }

    /// Time has passed, or something has happened that only matters to what is open.
    pub(super) fn tick(&mut self) {
        let is_time = self.looked.is_none_or(|at| at.elapsed() >= self.pace);
        self.is_due |= self.is_on && self.is_open && is_time;
    }

    /// Watches what sets evacuations off; the Evacuations themselves are watched by whoever carries them out.
    pub(super) fn watch(&self, observer: &Observer) {
        if self.is_on {
            observer.watch(Watched {
                keep: Keep {
                    managed_fields: KeepManagedFields::None,
                    status: false,
                },
                form: Form::Packed,
                ..Watched::all(Gvk::new(CLUSTERS, "Cluster"))
            });
        }
    }

    fn take_in(&mut self, seen: Look) {
        let is_news = seen.problems.as_ref().is_some_and(|told| *told != self.problems);
        self.pace = if is_news || seen.failed.is_some() || self.pace.is_zero() {
            AGAIN
        } else {
            (self.pace * 2).min(AT_THE_LATEST)
        };
        self.is_open = seen.is_open;
        self.failed = seen.failed;
        if let Some(problems) = seen.problems {
            self.problems = problems;
        }
    }

    /// Returns which clusters are not evacuated, and which workloads may lose their state.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let failed = self.failed.iter().map(|why| Problem {
            message: why.clone(),
            hint: None,
            at: None,
        });
        failed.chain(self.problems.iter().cloned()).collect()
    }
}

/// What came of a look at the clusters.
struct Look {
    /// Something is left that no change tells of.
    is_open: bool,
    /// What could not be read or done.
    failed: Option<String>,
    /// What people have to know, where that could be read.
    problems: Option<Vec<Problem>>,
}

/// What was read of the control plane.
struct Ground {
    clusters: Vec<Value>,
    evacuations: Vec<Value>,
    workloads: Vec<Workload>,
}

impl Sync {
    /// Takes the steps that clusters call for, if something has happened.
    pub(super) async fn evacuate_clusters(&mut self) {
        if !self.evacuations.is_due {
            return;
        }
        let Some(own) = self.source.selection.own() else {
            return;
        };
        let settings = own.gate.evacuations.clone();
        let sync = self.sync_id(&own.name);
        self.evacuations.is_due = false;
        self.evacuations.looked = Some(Instant::now());
        let seen = self.follow_clusters(&settings, &sync).await;
        if let Some(why) = &seen.failed {
            tracing::warn!("{why}");
        }
        self.evacuations.take_in(seen);
    }

    /// Takes steps until there is none.
    async fn follow_clusters(&self, settings: &Settings, sync: &str) -> Look {
        for _ in 0..ROUNDS {
            // Afresh each time: what was done a moment ago, by another replica too, is not done again.
            let ground = match self.ground_of_clusters(settings).await {
                Ok(ground) => ground,
                Err(why) => {
                    return Look {
                        is_open: true,
                        failed: Some(format!(
                            "whether a cluster is to be evacuated is not known: {why}"
                        )),
                        problems: None,
                    };
                }
            };
            let view = View {
                clusters: &ground.clusters,
                evacuations: &ground.evacuations,
                workloads: &ground.workloads,
                settings,
                sync,
                now: Timestamp::now(),
            };
            let mut steps = cluster_driven::steps(&view);
            // Of a Cluster that a step has changed the next round says it again.
            steps.extend(cluster_driven::protections(&view));
            let is_done = steps.is_empty();
            // What fails for one cluster keeps no other one waiting.
            let mut failed = Vec::new();
            for step in steps {
                failed.extend(self.take_step(step).await.err());
            }
            if is_done || !failed.is_empty() {
                let problems = cluster_driven::problems(&view);
                let is_open = !failed.is_empty() || cluster_driven::is_open(&view, &problems);
                let problems = problems.into_iter().map(|told| Problem {
                    message: told.message,
                    hint: Some(told.hint),
                    at: None,
                });
                return Look {
                    is_open,
                    failed: (!failed.is_empty()).then(|| failed.join("; ")),
                    problems: Some(problems.collect()),
                };
            }
        }
        Look {
            is_open: true,
            failed: Some(format!(
                "clusters are still being evacuated: after {ROUNDS} rounds of steps there are more to take"
            )),
            problems: None,
        }
    }

    // The Evacuations first: one whose cluster came later is none of a cluster that has left.
    async fn ground_of_clusters(&self, settings: &Settings) -> Result<Ground, String> {
        let evacuations = list(&self.cluster, api::API_VERSION, EVACUATION, None).await?;
        let mut ground = Ground {
            evacuations,
            clusters: list(&self.cluster, CLUSTERS, "Cluster", None).await?,
            workloads: Vec::new(),
        };
        if cluster_driven::depends_on_workloads(&ground.clusters, settings) {
            ground.workloads = self.workloads_with_state().await?;
        }
        Ok(ground)
    }

    async fn workloads_with_state(&self) -> Result<Vec<Workload>, String> {
        let all = bindings(&self.cluster, &Reach::EVERYWHERE).await?;
        if all.is_empty() {
            return Ok(Vec::new());
        }
        let knowledge = knowledge(&self.cluster, None, self.unknown_kinds).await?;
        let kept = with_state(all, &knowledge)?;
        if kept.is_empty() {
            return Ok(Vec::new());
        }
        let claims: Vec<Value> = list(&self.cluster, api::API_VERSION, "Claim", None).await?;
        let claims: BTreeMap<&str, &Value> = claims
            .iter()
            .filter_map(|claim| Some((claim["metadata"]["name"].as_str()?, claim)))
            .collect();
        let is_guarded = |key: &ObjectKey| {
            let claim = claims.get(api::claim_name(key).as_str());
            claim.is_some_and(|claim| claim["spec"]["guards"] == true || claim["spec"]["lender"].is_object())
        };
        let workloads = kept.into_iter().filter_map(|(binding, state)| {
            let mut workload = workload_to_lose(&binding, state, &knowledge).transpose()?;
            if let Ok(workload) = &mut workload {
                workload.is_guarded = is_guarded(&workload.key);
            }
            Some(workload)
        });
        workloads.collect()
    }

    async fn take_step(&self, step: Step) -> Result<(), String> {
        let writer = self.cluster.writer(SYNC_MANAGER);
        let (api_version, kind) = match step {
            Step::Answer(_) => (CLUSTERS, "Cluster"),
            Step::Create(_) | Step::Change(_) | Step::Delete(_) => (api::API_VERSION, EVACUATION),
        };
        let served = served(&self.cluster, &Gvk::new(api_version, kind)).await;
        let served = served.map_err(|error| error.to_string())?;
        let name = |of: &Value| of["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let what = match &step {
            Step::Answer(Change { read, what, .. }) => format!("cluster {}: {what}", name(read)),
            Step::Create(evacuation) => format!("Evacuation {} is created", name(evacuation)),
            Step::Change(Change { what, .. }) => what.clone(),
            Step::Delete(Change { what, .. }) => format!("{what}: it is deleted"),
        };
        let written = match &step {
            Step::Answer(Change { read, patch, .. }) | Step::Change(Change { read, patch, .. }) => {
                let read = Exactly::of(read);
                writer.patch(&served, &read, patch, Mode::Write).await
            }
            Step::Create(evacuation) => writer.create(&served, evacuation, Mode::Write).await,
            Step::Delete(Change { read, .. }) => {
                writer.delete(&served, &Exactly::of(read), Mode::Write).await
            }
        };
        match written.map_err(|error| format!("not done: {what}: {error}"))? {
            Written::Done(_) => tracing::info!("{what}"),
            Written::Exists(_) => {}
            Written::Precondition(why) => tracing::debug!(why, "a precondition failed: {what}"),
        }
        Ok(())
    }
}

fn is_cluster(key: &ObjectKey) -> bool {
    key.group == "cluster.karmada.io" && key.kind == "Cluster"
}

/// Returns a workload whose state a move carries along, or a person has to save; `None`: there is nothing to be done. What cannot be
/// moved, or not in time, and leaves its state where every cluster reaches it, would keep its cluster from ever being empty.
fn workload_to_lose(
    binding: &ResourceBinding,
    state: State,
    knowledge: &Knowledge,
) -> Result<Option<Workload>, String> {
    if !matches!(state, State::Kept | State::Elsewhere) {
        return Ok(None);
    }
    let resource = &binding.spec.resource;
    let gvk = Gvk::new(&resource.api_version, &resource.kind);
    let immovable = profile::immovable(&knowledge.live, &gvk).map_err(|error| error.to_string())?;
    // What settles only by time (a CronJob) is not moved in the time that a taint leaves.
    let settles = || -> Result<bool, String> {
        let found = profile::find(&knowledge.live, None, &gvk).map_err(|error| error.to_string())?;
        Ok(found.is_some_and(|profile| profile.spec.settle_for.is_some()))
    };
    let is_nothing = state == State::Elsewhere && (immovable.is_some() || settles()?);
    Ok((!is_nothing).then(|| Workload {
        immovable,
        ..workload(binding)
    }))
}

fn workload(binding: &ResourceBinding) -> Workload {
    let resource = &binding.spec.resource;
    let gvk = Gvk::new(&resource.api_version, &resource.kind);
    Workload {
        key: ObjectKey {
            group: gvk.group,
            kind: gvk.kind,
            namespace: binding.metadata.namespace.clone(),
            name: resource.name.clone(),
        },
        clusters: binding
            .spec
            .clusters
            .iter()
            .map(|target| target.name.clone())
            .collect(),
        leaving: binding
            .spec
            .graceful_eviction_tasks
            .iter()
            .map(|task| task.from_cluster.clone())
            .collect(),
        applied: binding.placement_for_taints(),
        placement: binding.spec.placement.clone().unwrap_or_default(),
        is_guarded: false,
        immovable: None,
    }
}
