//! Karmada's controllers, each in steps that anything may come between: what one has computed it writes later, from what it
//! had read.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutover_karmada::name::ClusterName;
use cutover_karmada::{
    Cluster, ClusterOverridePolicy, EvictionTask, OverridePolicy, PurgeMode, ResourceBindingSpec, Work,
    WorkSpec, meta, overrides,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::ledger::{By, Ledger};
use crate::member::Member;
use crate::plane::{Binding, Pin, Plane, Policy, Template, generation};

/// How long a graceful eviction takes at most.
const EVICTION_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);

/// A Work that the binding controller has computed, and not written yet.
#[derive(Clone, Debug)]
pub struct Computed {
    workload: usize,
    cluster: ClusterName,
    work: Box<Work>,
    /// The version of the Work that it is to replace; `None`: there was none, and a creation has no precondition.
    over: Option<u64>,
}

impl Computed {
    pub const fn workload(&self) -> usize {
        self.workload
    }

    pub const fn cluster(&self) -> &ClusterName {
        &self.cluster
    }
}

/// What the controllers have heard of one workload: each kind comes by a watch of its own, and in its own time.
#[derive(Clone, Debug, Default)]
struct Heard {
    template: Option<Arc<Template>>,
    pin: Option<Arc<Pin>>,
    binding: Option<Arc<Binding>>,
}

/// What is heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    Templates,
    Pins,
    Bindings,
}

/// The process of Karmada's controllers.
#[derive(Clone, Debug, Default)]
pub struct Controllers {
    heard: Vec<Heard>,
    /// What it had heard some time ago: one that starts may read that, for caches of the API server lag as well.
    before: Vec<Heard>,
    /// What of each cluster's Work was found to be as it should, from these versions.
    settled: BTreeMap<(usize, ClusterName), [u64; 4]>,
    /// The template and the policy that the detector has seen last.
    detected: Vec<(u64, u64)>,
}

impl Controllers {
    pub fn add(&mut self) {
        self.heard.push(Heard::default());
        self.before.push(Heard::default());
        self.detected.push((0, 0));
    }

    /// It hears of a workload as it is.
    pub fn hear(&mut self, plane: &Plane, workload: usize, watch: Watch) -> bool {
        let (heard, live) = (&mut self.heard[workload], &plane.workloads[workload]);
        let old = heard.clone();
        let is_news = match watch {
            Watch::Templates => take(&mut heard.template, live.template.as_ref(), |one| one.version),
            Watch::Pins => take(&mut heard.pin, live.pin.as_ref(), |one| one.version),
            Watch::Bindings => take(&mut heard.binding, live.binding.as_ref(), |one| one.version),
        };
        if is_news {
            self.before[workload] = old;
        }
        is_news
    }

    /// Another process takes over, with caches that may be older than the ones of this.
    #[must_use]
    pub fn replaced(&self) -> Self {
        Self {
            heard: self.before.clone(),
            before: self.before.clone(),
            settled: BTreeMap::new(),
            detected: self.detected.clone(),
        }
    }

    /// Computes the Work of a cluster; `None`: it is as it should be, or the cluster isn't listed.
    pub fn compute(&mut self, plane: &Plane, workload: usize, cluster: &ClusterName) -> Option<Computed> {
        let heard = &self.heard[workload];
        let (binding, template) = (heard.binding.as_ref()?, heard.template.as_ref()?);
        let over = plane.workloads[workload].works.get(cluster);
        let versions = [
            template.version,
            binding.version,
            heard.pin.as_ref().map_or(0, |pin| pin.version),
            over.map_or(0, |over| over.version),
        ];
        let key = (workload, cluster.clone());
        if self.settled.get(&key) == Some(&versions) {
            return None;
        }
        let is_leaving = over.is_some_and(|over| over.metadata.deletion_timestamp.is_some());
        let made = (!is_leaving && lists(&binding.typed.spec, cluster))
            .then(|| {
                manifest(
                    plane.clusters.get(cluster)?,
                    heard.pin.as_deref(),
                    binding,
                    template,
                )
            })
            .flatten();
        let Some(manifest) = made else {
            self.settled.insert(key, versions);
            return None;
        };
        let spec = &binding.typed.spec;
        let mut work = over.map_or_else(|| new_work(cluster), |over| (***over).clone());
        work.spec = WorkSpec {
            suspend_dispatching: spec.dispatching_suspended(cluster.as_str()).then_some(true),
            preserve_resources_on_deletion: Some(spec.preserve_resources_on_deletion.unwrap_or_default()),
            ..WorkSpec::default()
        };
        work.spec.workload.manifests = vec![manifest];
        if over.is_some_and(|over| over.spec == work.spec) {
            self.settled.insert(key, versions);
            return None;
        }
        Some(Computed {
            workload,
            cluster: cluster.clone(),
            work: Box::new(work),
            over: over.map(|over| over.version),
        })
    }

    /// Tells Works to go whose clusters aren't listed any more, as far as it has heard.
    pub fn remove_orphans(&mut self, plane: &mut Plane, workload: usize) -> bool {
        let Some(binding) = self.heard[workload].binding.clone() else {
            return false;
        };
        let spec = &binding.typed.spec;
        let stays = |name: &ClusterName| lists(spec, name) || evicts_from(spec, name);
        let works = &plane.workloads[workload].works;
        let orphan = works
            .iter()
            .find(|(name, work)| !stays(name) && work.metadata.deletion_timestamp.is_none())
            .map(|(name, work)| (name.clone(), (***work).clone()));
        let Some((name, mut work)) = orphan else {
            return false;
        };
        work.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).ok();
        plane.put_work(workload, &name, work);
        true
    }

    /// The detector writes a binding anew when its template or policy has changed: what others have set there is gone, but for
    /// scheduling that is suspended.
    pub fn detect(&mut self, plane: &mut Plane, workload: usize) -> bool {
        let live = &plane.workloads[workload];
        let (Some(template), Some(policy)) = (&live.template, &live.policy) else {
            return false;
        };
        let seen = (template.version, policy.version);
        if self.detected[workload] == seen {
            return false;
        }
        self.detected[workload] = seen;
        let before = live.binding.as_ref().map(|binding| binding.json.clone());
        let json = bound(before, template, policy);
        plane.put_binding(workload, json)
    }
}

fn take<T>(heard: &mut Option<Arc<T>>, live: Option<&Arc<T>>, version: impl Fn(&T) -> u64) -> bool {
    let is_news = heard.as_ref().map(|one| version(one)) != live.map(|one| version(one));
    if is_news {
        *heard = live.cloned();
    }
    is_news
}

fn lists(spec: &ResourceBindingSpec, cluster: &ClusterName) -> bool {
    spec.clusters.iter().any(|listed| listed.name == *cluster)
}

fn evicts_from(spec: &ResourceBindingSpec, cluster: &ClusterName) -> bool {
    let mut tasks = spec.graceful_eviction_tasks.iter();
    tasks.any(|task| task.from_cluster == *cluster)
}

fn manifest(cluster: &Cluster, pin: Option<&Pin>, binding: &Binding, template: &Template) -> Option<Value> {
    let pins: Vec<&OverridePolicy> = pin.into_iter().map(|pin| &**pin).collect();
    let wide: [&ClusterOverridePolicy; 0] = [];
    let mut source = (**template).clone();
    let name = cluster.metadata.name.as_deref();
    let spec = &binding.typed.spec;
    if spec
        .placement
        .as_ref()
        .is_some_and(cutover_karmada::Placement::divides)
    {
        let listed = spec
            .clusters
            .iter()
            .find(|listed| Some(listed.name.as_str()) == name);
        source["spec"]["replicas"] = listed.map_or(0, |listed| listed.replicas).into();
    }
    let mut manifest = overrides::effective(&source, cluster, &wide, &pins).ok()?;
    let metadata = manifest["metadata"].as_object_mut()?;
    for filled_in in ["uid", "generation", "resourceVersion", "creationTimestamp"] {
        metadata.remove(filled_in);
    }
    let uid = template["metadata"]["uid"].clone();
    let annotations = &mut manifest["metadata"]["annotations"];
    annotations[meta::TEMPLATE_GENERATION] = generation(template).to_string().into();
    annotations[meta::TEMPLATE_UID] = uid;
    if spec.conflict_resolution == "Overwrite" {
        annotations[meta::CONFLICT_RESOLUTION] = "overwrite".into();
    }
    manifest["metadata"]["labels"][meta::MANAGED] = "true".into();
    Some(manifest)
}

fn new_work(cluster: &ClusterName) -> Work {
    let mut work = Work::new("work", WorkSpec::default());
    work.metadata.namespace = Some(meta::execution_namespace(cluster.as_str()));
    work
}

/// A binding as its template and policy have it.
fn bound(before: Option<Value>, template: &Value, policy: &Policy) -> Value {
    let mut json = before.unwrap_or_default();
    let spec = &policy.typed.spec;
    let kept = json["spec"]["suspension"]["scheduling"].clone();
    json["spec"]["resource"]["resourceVersion"] = template["metadata"]["resourceVersion"].clone();
    json["spec"]["placement"] = json!(spec.placement);
    let mut set = |field: &str, value: Value| match value {
        Value::Null => {
            if let Some(spec) = json["spec"].as_object_mut() {
                spec.remove(field);
            }
        }
        value => json["spec"][field] = value,
    };
    set("failover", json!(spec.failover));
    set(
        "preserveResourcesOnDeletion",
        json!(spec.preserve_resources_on_deletion),
    );
    set("conflictResolution", json!(spec.conflict_resolution));
    set("replicas", template["spec"]["replicas"].clone());
    let mut suspension = spec
        .suspension
        .as_ref()
        .map_or_else(|| json!({}), |suspension| json!(suspension));
    if !kept.is_null() {
        suspension["scheduling"] = kept;
    }
    let is_empty = suspension.as_object().is_none_or(serde_json::Map::is_empty);
    set("suspension", if is_empty { Value::Null } else { suspension });
    json
}

/// Writes what was computed: over the Work that was read, or as a new one.
pub fn write(plane: &mut Plane, computed: Computed) -> bool {
    let Computed {
        workload,
        cluster,
        work,
        over,
    } = computed;
    let live = plane.workloads[workload].works.get(&cluster);
    let may = live.map(|live| live.version) == over;
    if may {
        plane.put_work(workload, &cluster, *work);
    }
    may
}

/// Brings a member to what its Work says.
pub fn execute(plane: &mut Plane, member: &mut Member, workload: usize, ledger: &mut Ledger, by: By) -> bool {
    let Some(work) = plane.workloads[workload].works.get(&member.name).cloned() else {
        return false;
    };
    if work.metadata.deletion_timestamp.is_some() {
        // The Work stays until its object is gone.
        if !member.is_steered {
            return false;
        }
        if work.spec.preserve_resources_on_deletion == Some(true) {
            member.let_go(workload);
        } else {
            member.delete(workload, ledger, by);
        }
        plane.workload_mut(workload).works.remove(&member.name);
        return true;
    }
    let suspended = work.spec.suspend_dispatching == Some(true);
    if work.is_held() != Some(suspended) && (suspended || work.is_held().is_some()) {
        let mut noted = (**work).clone();
        noted.status = serde_json::from_value(json!({"conditions": [{
            "type": "Dispatching", "status": if suspended { "False" } else { "True" }, "reason": "Suspension",
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}))
        .ok();
        plane.put_work(workload, &member.name, noted);
        return true;
    }
    if suspended || !member.is_steered {
        return false;
    }
    let manifest = work.manifest();
    manifest.is_some_and(|manifest| member.apply(workload, work.version, manifest))
}

/// Takes a cluster out of a binding, and notes why: what Karmada's failover does.
pub fn evict(plane: &mut Plane, workload: usize, cluster: &ClusterName, purge: PurgeMode) -> bool {
    let Some(binding) = &plane.workloads[workload].binding else {
        return false;
    };
    if !lists(&binding.typed.spec, cluster) {
        return false;
    }
    let mut json = binding.json.clone();
    let listed = json["spec"]["clusters"].as_array().into_iter().flatten();
    let stay: Vec<Value> = listed
        .filter(|listed| listed["name"] != cluster.as_str())
        .cloned()
        .collect();
    json["spec"]["clusters"] = stay.into();
    let mut task = json!({
        "fromCluster": cluster, "purgeMode": purge, "reason": "ApplicationFailure",
        "producer": "resource-binding-application-failover-controller",
    });
    if purge == PurgeMode::Never {
        task["suppressDeletion"] = true.into();
    }
    match json["spec"]["gracefulEvictionTasks"].as_array_mut() {
        Some(tasks) => tasks.push(task),
        None => json["spec"]["gracefulEvictionTasks"] = json!([task]),
    }
    plane.put_binding(workload, json)
}

/// Ends evictions that are over: at once where the copy goes at once; else when the workload is well wherever it is listed, or it
/// took too long.
pub fn end_evictions(
    plane: &mut Plane,
    workload: usize,
    now: Timestamp,
    is_well: impl Fn(&ClusterName) -> bool,
) -> bool {
    let Some(binding) = plane.workloads[workload].binding.clone() else {
        return false;
    };
    let spec = &binding.typed.spec;
    if spec.graceful_eviction_tasks.is_empty() {
        return false;
    }
    let observed = binding
        .typed
        .status
        .as_ref()
        .map_or(0, |status| status.scheduler_observed_generation);
    let is_settled = observed == generation(&binding.json)
        && !spec.clusters.is_empty()
        && spec.clusters.iter().all(|listed| is_well(&listed.name));
    let mut kept: Vec<EvictionTask> = Vec::new();
    for task in &spec.graceful_eviction_tasks {
        let mut task = task.clone();
        let begun = task.creation_timestamp.as_ref().map(|begun| begun.0);
        let stays = match (task.purge_mode, task.suppress_deletion, begun) {
            (_, Some(suppressed), _) => suppressed,
            (Some(PurgeMode::Directly | PurgeMode::Immediately), None, _) => false,
            (_, None, None) => {
                task.creation_timestamp = Some(now.into());
                true
            }
            (_, None, Some(begun)) => !is_settled && now.duration_since(begun) < EVICTION_TIMEOUT,
        };
        if stays {
            kept.push(task);
        }
    }
    let mut json = binding.json.clone();
    json["spec"]["gracefulEvictionTasks"] = json!(kept);
    if kept.is_empty()
        && let Some(spec) = json["spec"].as_object_mut()
    {
        spec.remove("gracefulEvictionTasks");
    }
    plane.put_binding(workload, json)
}
