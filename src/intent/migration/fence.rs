//! The fence: keeps the scheduler and the built-in failover from moving the workload while the migration runs.

use serde_json::{Value, json};

use super::{Machine, Stop, canary_name};
use crate::api::{Barrier, Finding, Guard};
use crate::intent::effect::{Effect, Exactly, add, remove, segment, test};
use crate::karmada::{EvictionTask, ResourceBinding, meta};
use crate::name::ClusterName;

impl Machine<'_> {
    /// Scheduling suspended and the scheduler past it; failover off the binding. Removed again whenever it comes back.
    pub(super) fn fence(&mut self) -> Result<(), Stop> {
        self.record_before()?;
        let binding = self.binding()?;
        if !binding.spec.scheduling_suspended() {
            let generation = binding.metadata.generation;
            let raise = raise(binding);
            let fence = &mut self.journal_mut()?.fence;
            // A canary from before a suspension proves nothing about it: each has a number of its own.
            if fence.barrier.is_some() || fence.suspending != generation {
                fence.barrier = None;
                fence.suspending = generation;
                fence.canary += 1;
                return Err(Stop::Again);
            }
            // The scheduler hears of both in this order: they are of one kind.
            let canary = (!self.does_without_canary()).then(|| self.create_canary());
            let canary = canary.transpose()?;
            return Err(Stop::Act([raise].into_iter().chain(canary).collect()));
        }
        if let Some(effect) = failover_off(binding) {
            return Err(Stop::Act(vec![effect]));
        }
        self.undo_evictions()?;
        self.barrier()
    }

    /// What Karmada evicts before it is held is Karmada's to move.
    pub(super) fn not_evicted(&self) -> Result<(), Stop> {
        if self.world().pin.get()?.is_some() {
            return Ok(());
        }
        match self.binding()?.spec.graceful_eviction_tasks.first() {
            Some(task) => Err(Stop::RollBack(format!(
                "Karmada evicted the workload from {} before it could be held: {}",
                task.from_cluster, task.reason
            ))),
            None => Ok(()),
        }
    }

    /// Karmada computes no Work for a cluster that it evicts, and none for any while a purged one is still there: no pin would
    /// arrive. What it began is undone under the pin, in one patch: a task that goes alone takes its copy with it.
    fn undo_evictions(&mut self) -> Result<(), Stop> {
        let binding = self.binding()?;
        let tasks = &binding.spec.graceful_eviction_tasks;
        if tasks.is_empty() || self.world().pin.get()?.is_none() {
            return Ok(());
        }
        // The state that Karmada preserved stands nowhere else.
        let told: Vec<Finding> = tasks.iter().map(evicted).collect();
        if let Some(news) = told.into_iter().find(|told| !self.status.findings.contains(told)) {
            self.status.findings.push(news);
            return Err(Stop::Again);
        }
        let journal = self.journal()?;
        let mut listed: Vec<Value> = binding
            .spec
            .clusters
            .iter()
            .map(|cluster| json!(cluster))
            .collect();
        for task in tasks {
            let name = &task.from_cluster;
            let is_listed = binding.spec.clusters.iter().any(|cluster| cluster.name == *name);
            if !is_listed && journal.clusters.contains(name) {
                listed.push(target_cluster(name, journal.binding.replicas));
            }
        }
        let patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            add("/spec/clusters", Value::Array(listed)),
            remove("/spec/gracefulEvictionTasks"),
        ];
        Err(Stop::Act(vec![patch_binding(
            "undo the eviction",
            binding,
            patch,
        )]))
    }

    /// What is taken off the binding stands in the journal first, to be put back exactly.
    fn record_before(&mut self) -> Result<(), Stop> {
        if self.journal()?.fence.recorded {
            return Ok(());
        }
        let binding = self.binding()?;
        let failover = binding
            .spec
            .failover
            .as_ref()
            .and_then(|failover| serde_json::to_value(failover).ok());
        let applied_placement = applied_placement(binding).map(str::to_owned);
        let generation = binding.metadata.generation;
        let fence = &mut self.journal_mut()?.fence;
        fence.failover = failover;
        fence.applied_placement = applied_placement;
        fence.suspending = generation;
        fence.canary += 1;
        fence.recorded = true;
        Err(Stop::Again)
    }

    /// Waits for a canary that was created after the suspension was seen: the scheduler has one queue and one worker, so
    /// whatever was queued before it is done.
    fn barrier(&mut self) -> Result<(), Stop> {
        let journal = self.journal()?;
        let name = self.canary()?;
        let canary = self.world().canary.get()?;
        let refused = self.is_refused(Guard::Bindings);
        if let Some(barrier) = &journal.fence.barrier {
            if barrier.canary.is_empty() && !refused {
                self.journal_mut()?.fence.barrier = None;
                return Err(Stop::Again);
            }
            self.same_controllers()?;
            if canary.is_some() {
                self.beside.push(Effect::DeleteCanary { name });
            }
            return Ok(());
        }
        match canary {
            None if self.does_without_canary() => self.pass_barrier(String::new()),
            None => Err(Stop::Act(vec![self.create_canary()?])),
            Some(canary) if observed(canary) => self.pass_barrier(name),
            Some(_) => Err(Stop::Wait(format!(
                "the scheduler has not reached canary {name} yet"
            ))),
        }
    }

    /// None may be created, and what the scheduler still has queued is refused by the API server itself.
    fn does_without_canary(&self) -> bool {
        let forbidden = self.input.trouble.is_some_and(|trouble| trouble.no_canary);
        forbidden && self.is_refused(Guard::Bindings)
    }

    fn create_canary(&self) -> Result<Effect, Stop> {
        Ok(Effect::CreateCanary {
            name: self.canary()?,
            scheduler: self.binding()?.spec.scheduler_name.clone(),
            cluster: self.journal()?.target.to_string(),
        })
    }

    fn pass_barrier(&mut self, canary: String) -> Result<(), Stop> {
        let leases = self.world().leases.get()?.clone();
        let passed_at = self.input.now;
        self.journal_mut()?.fence.barrier = Some(Barrier {
            canary,
            passed_at,
            leases,
        });
        Err(Stop::Again)
    }

    /// Returns the name of the canary in force.
    pub(super) fn canary(&self) -> Result<String, Stop> {
        let number = self.journal()?.fence.canary;
        Ok(canary_name(self.input.uid, self.status.attempt, number))
    }

    /// A barrier is good for one process of each controller: a new one may have read its caches before our changes.
    pub(super) fn same_controllers(&self) -> Result<(), Stop> {
        let leases = self.world().leases.get()?;
        let barrier = self.journal()?.fence.barrier.as_ref();
        match barrier {
            Some(barrier) if barrier.leases == *leases => Ok(()),
            Some(_) => Err(Stop::Wait(
                "a controller of Karmada was replaced since the barrier".to_owned(),
            )),
            None => Err(Stop::Wait("no barrier has been passed".to_owned())),
        }
    }

    /// After another process took over, the barrier and the current sequence are made anew.
    pub(super) fn renew_barrier(&mut self) -> Result<(), Stop> {
        if self.journal()?.fence.barrier.is_none() || self.same_controllers().is_ok() {
            return Ok(());
        }
        self.world().leases.get()?;
        let journal = self.journal_mut()?;
        journal.fence.barrier = None;
        journal.fence.canary += 1;
        if journal.pinned {
            journal.seq += 1;
        }
        Err(Stop::Again)
    }

    /// The binding lists exactly these clusters; a list that somebody else changed is put back, under the pin.
    pub(super) fn listed(&self, clusters: &[ClusterName], why: &'static str) -> Result<(), Stop> {
        let binding = self.binding()?;
        let now: Vec<_> = binding
            .spec
            .clusters
            .iter()
            .map(|cluster| &cluster.name)
            .collect();
        if now.iter().copied().eq(clusters) {
            return Ok(());
        }
        let replicas = self.journal()?.binding.replicas;
        let wanted: Vec<Value> = clusters
            .iter()
            .map(|name| target_cluster(name, replicas))
            .collect();
        let patch = vec![
            test("/metadata/uid", json!(binding.metadata.uid)),
            test("/metadata/generation", json!(binding.metadata.generation)),
            test("/spec/suspension/scheduling", json!(true)),
            add("/spec/clusters", Value::Array(wanted)),
        ];
        let rehearse = clusters.len() > now.len();
        Err(Stop::Act(vec![Effect::PatchBinding {
            why,
            binding: exactly(binding),
            patch,
            rehearse,
        }]))
    }

    /// Puts back what the fence took off, where it is still as the fence left it.
    pub(super) fn lower(&mut self) -> Result<(), Stop> {
        let fence = &self.journal()?.fence;
        if !fence.lowered {
            self.journal_mut()?.fence.lowered = true;
            return Err(Stop::Again);
        }
        let binding = self.binding()?;
        if let (Some(failover), None) = (&fence.failover, &binding.spec.failover) {
            let patch = vec![
                test("/metadata/uid", json!(binding.metadata.uid)),
                test("/metadata/generation", json!(binding.metadata.generation)),
                add("/spec/failover", failover.clone()),
            ];
            return Err(Stop::Act(vec![patch_binding("restore failover", binding, patch)]));
        }
        match (applied_placement(binding), &fence.applied_placement) {
            (Some(now), Some(before)) if now != before && without_toleration(now) == parsed(before) => {
                let patch = vec![
                    test("/metadata/uid", json!(binding.metadata.uid)),
                    test(&annotation_path(), json!(now)),
                    add(&annotation_path(), json!(before)),
                ];
                Err(Stop::Act(vec![patch_binding(
                    "restore the applied placement",
                    binding,
                    patch,
                )]))
            }
            _ => Ok(()),
        }
    }

    /// Of several groups of affinities the scheduler begins with the one that it used last: it is told which that is.
    pub(super) fn name_affinity(&self, keep: &ClusterName) -> Result<(), Stop> {
        let journal = self.journal()?;
        let Some(group) = &journal.binding.target_affinity else {
            return Ok(());
        };
        let binding = self.binding()?;
        let in_use = affinity_in_use(binding);
        // Once the scheduler may act, what it says is its own.
        if *keep != journal.target || in_use == group || !binding.spec.scheduling_suspended() {
            return Ok(());
        }
        let path = "/status/schedulerObservingAffinityName";
        let patch = vec![test(path, json!(in_use)), add(path, json!(group))];
        Err(Stop::Act(vec![Effect::PatchBindingStatus {
            why: "name the group of affinities to begin with",
            binding: exactly(binding),
            patch,
        }]))
    }

    /// Lets the scheduler go on, with the pin still on.
    pub(super) fn resume_scheduling(&mut self) -> Result<(), Stop> {
        let binding = self.binding()?;
        if !self.journal()?.fence.resumed {
            self.journal_mut()?.fence.resumed = true;
            return Err(Stop::Again);
        }
        if !binding.spec.scheduling_suspended() {
            return Ok(());
        }
        Err(Stop::Act(vec![resume(binding)]))
    }
}

/// Without its replicas a cluster would get none.
fn target_cluster(name: &ClusterName, replicas: Option<i64>) -> Value {
    match replicas {
        Some(replicas) => json!({"name": name, "replicas": replicas}),
        None => json!({"name": name}),
    }
}

fn evicted(task: &EvictionTask) -> Finding {
    let EvictionTask {
        from_cluster,
        reason,
        producer,
        preserved_label_state,
        ..
    } = task;
    let mode = task.purge_mode.map_or_else(|| json!("unset"), |mode| json!(mode));
    let mode = mode.as_str().unwrap_or_default().to_owned();
    let state: Vec<String> = preserved_label_state
        .iter()
        .map(|(label, value)| format!("{label}={value}"))
        .collect();
    let state = if state.is_empty() {
        String::new()
    } else {
        format!("; it had preserved {}", state.join(", "))
    };
    Finding::new(
        "Evicted",
        format!(
            "Karmada began to evict the workload from {from_cluster} ({reason} by {producer}, purge mode {mode}): undone{state}"
        ),
        "look why: the health of the workload there, or the taints of the cluster",
    )
}

pub(super) fn exactly(binding: &ResourceBinding) -> Exactly {
    Exactly {
        namespace: binding.metadata.namespace.clone(),
        name: binding.metadata.name.clone().unwrap_or_default(),
        uid: binding.metadata.uid.clone().unwrap_or_default(),
        resource_version: None,
    }
}

/// Returns the name of the group of affinities in use; empty where there are no groups.
pub(super) fn affinity_in_use(binding: &ResourceBinding) -> &str {
    let status = binding.status.as_ref();
    status.map_or("", |status| status.scheduler_observed_affinity_name.as_str())
}

fn patch_binding(why: &'static str, binding: &ResourceBinding, patch: Vec<Value>) -> Effect {
    Effect::PatchBinding {
        why,
        binding: exactly(binding),
        patch,
        rehearse: false,
    }
}

/// Suspends scheduling and keeps failover off, in one patch: from then on nobody of Karmada's moves the workload.
fn raise(binding: &ResourceBinding) -> Effect {
    let mut patch = vec![
        test("/metadata/uid", json!(binding.metadata.uid)),
        test("/metadata/generation", json!(binding.metadata.generation)),
    ];
    patch.push(match binding.spec.suspension {
        Some(_) => add("/spec/suspension/scheduling", json!(true)),
        None => add("/spec/suspension", json!({"scheduling": true})),
    });
    patch.extend(without_failover(binding).into_iter().flatten());
    patch.extend(with_toleration(binding).into_iter().flatten());
    patch_binding("suspend scheduling, keep failover off", binding, patch)
}

/// The generation stands for the clusters as well: the list itself may be spelled otherwise.
pub(super) fn resume(binding: &ResourceBinding) -> Effect {
    let patch = vec![
        test("/metadata/uid", json!(binding.metadata.uid)),
        test("/metadata/generation", json!(binding.metadata.generation)),
        remove("/spec/suspension/scheduling"),
    ];
    patch_binding("resume scheduling", binding, patch)
}

/// Takes failover off again where somebody brought it back while scheduling was suspended.
fn failover_off(binding: &ResourceBinding) -> Option<Effect> {
    let operations = without_failover(binding);
    let why = match operations {
        Some(_) => "take failover off",
        None => "keep cluster failover off",
    };
    let mut patch = vec![
        test("/metadata/uid", json!(binding.metadata.uid)),
        test("/spec/suspension/scheduling", json!(true)),
    ];
    patch.extend(operations.or_else(|| with_toleration(binding))?);
    Some(patch_binding(why, binding, patch))
}

/// The detector puts `spec.failover` back after template and policy changes; it goes again before its timer can act.
fn without_failover(binding: &ResourceBinding) -> Option<Vec<Value>> {
    let failover = serde_json::to_value(binding.spec.failover.as_ref()?).ok()?;
    Some(vec![test("/spec/failover", failover), remove("/spec/failover")])
}

/// The taint manager reads only the annotation, so a toleration there keeps it away.
fn with_toleration(binding: &ResourceBinding) -> Option<Vec<Value>> {
    let now = applied_placement(binding)?;
    let mut placement = parsed(now)?;
    let tolerations = placement
        .as_object_mut()?
        .entry("clusterTolerations")
        .or_insert_with(|| json!([]));
    let all = json!({"operator": "Exists"});
    let tolerations = tolerations.as_array_mut()?;
    if tolerations.contains(&all) {
        return None;
    }
    tolerations.push(all);
    Some(vec![
        test(&annotation_path(), json!(now)),
        add(&annotation_path(), json!(placement.to_string())),
    ])
}

fn without_toleration(text: &str) -> Option<Value> {
    let mut placement = parsed(text)?;
    let fields = placement.as_object_mut()?;
    let tolerations = fields.get_mut("clusterTolerations")?.as_array_mut()?;
    tolerations.retain(|toleration| *toleration != json!({"operator": "Exists"}));
    if tolerations.is_empty() {
        fields.remove("clusterTolerations");
    }
    Some(placement)
}

fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn annotation_path() -> String {
    format!("/metadata/annotations/{}", segment(meta::APPLIED_PLACEMENT))
}

fn applied_placement(binding: &ResourceBinding) -> Option<&str> {
    binding
        .metadata
        .annotations
        .as_ref()?
        .get(meta::APPLIED_PLACEMENT)
        .map(String::as_str)
}

/// Returns whether the scheduler has handled a binding at all.
fn observed(binding: &ResourceBinding) -> bool {
    binding
        .status
        .as_ref()
        .is_some_and(|status| status.scheduler_observed_generation > 0)
}
