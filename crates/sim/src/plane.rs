//! The control plane: objects with versions, and writes that are judged when they arrive, however late that is.
//!
//! Objects are shared, not copied: a snapshot of the whole costs next to nothing, and two of one version are the same.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use cutover_core::api::{Claim, ClaimSpec, LeaseSeen, claim_name};
use cutover_core::intent::effect::{Effect, Exactly};
use cutover_core::intent::pin::{self, PinWrite};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, OverridePolicy, PropagationPolicy, ResourceBinding, Work, meta};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::git::Git;

/// The label by which Works are found.
pub const BINDING_ID: &str = meta::BINDING_ID;

/// An object as it is stored, under the version that it has.
#[derive(Clone, Debug)]
pub struct Stored<T> {
    pub version: u64,
    value: T,
}

impl<T> Stored<T> {
    pub fn new(version: u64, value: T) -> Arc<Self> {
        Arc::new(Self { version, value })
    }
}

impl<T> Deref for Stored<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// An object that is patched: as JSON, and as what is read of it.
#[derive(Clone, Debug)]
pub struct Patched<T> {
    pub version: u64,
    pub json: Value,
    pub typed: T,
}

pub type Template = Stored<Value>;
pub type Binding = Patched<ResourceBinding>;
pub type Policy = Patched<PropagationPolicy>;
pub type Pin = Stored<OverridePolicy>;

/// What shows that the scheduler is past a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    pub cluster: String,
    pub is_observed: bool,
}

/// What the scheduler hears of, in the order in which it came about.
#[derive(Clone, Debug)]
pub enum News {
    Binding(usize, Arc<Binding>),
    Canary(String),
}

/// One workload, and what stands around it.
#[derive(Clone, Debug)]
pub struct Workload {
    pub key: ObjectKey,
    pub api_version: String,
    pub template: Option<Arc<Template>>,
    pub policy: Option<Arc<Policy>>,
    pub binding: Option<Arc<Binding>>,
    pub claim: Option<Arc<Claim>>,
    pub pin: Option<Arc<Pin>>,
    pub works: BTreeMap<ClusterName, Arc<Stored<Work>>>,
    claim_name: String,
    pin_name: String,
}

impl Workload {
    pub fn new(key: ObjectKey, api_version: &str) -> Self {
        Self {
            claim_name: claim_name(&key),
            pin_name: pin::name(&key),
            key,
            api_version: api_version.to_owned(),
            template: None,
            policy: None,
            binding: None,
            claim: None,
            pin: None,
            works: BTreeMap::new(),
        }
    }

    /// Returns the clusters that the binding lists.
    pub fn listed(&self) -> Vec<ClusterName> {
        let clusters = self
            .binding
            .iter()
            .flat_map(|binding| &binding.typed.spec.clusters);
        clusters.map(|cluster| cluster.name.clone()).collect()
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// There is one of that name: nothing was written.
    Exists,
    /// A precondition didn't hold.
    Stale,
    Failed(String),
}

impl Answer {
    const fn of(done: bool) -> Self {
        if done { Self::Done } else { Self::Stale }
    }
}

#[derive(Clone, Debug)]
pub struct Plane {
    version: u64,
    pub workloads: Vec<Arc<Workload>>,
    pub clusters: Arc<BTreeMap<ClusterName, Cluster>>,
    pub canaries: BTreeMap<String, Canary>,
    pub leases: Arc<BTreeMap<String, LeaseSeen>>,
    pub git: Git,
    /// What happened to bindings, the first first; the scheduler has heard of some of it.
    pub news: Arc<Vec<News>>,
    /// The API server gives no answer.
    pub is_down: bool,
}

impl Plane {
    pub fn new(clusters: BTreeMap<ClusterName, Cluster>) -> Self {
        let lease = |name: &str| {
            let seen = LeaseSeen {
                holder: Some(format!("{name}-1")),
                transitions: 1,
            };
            (name.to_owned(), seen)
        };
        Self {
            version: 1,
            workloads: Vec::new(),
            clusters: Arc::new(clusters),
            canaries: BTreeMap::new(),
            leases: Arc::new([lease("karmada-scheduler"), lease("karmada-controller-manager")].into()),
            git: Git::default(),
            news: Arc::default(),
            is_down: false,
        }
    }

    /// One that a look still shows stays there as it was.
    pub fn workload_mut(&mut self, workload: usize) -> &mut Workload {
        Arc::make_mut(&mut self.workloads[workload])
    }

    /// Returns the first of which that is so.
    fn find(&mut self, is_it: impl Fn(&Workload) -> bool) -> Option<&mut Workload> {
        let found = self.workloads.iter_mut().find(|of| is_it(of))?;
        Some(Arc::make_mut(found))
    }

    pub const fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// A write arrives.
    pub fn take(&mut self, effect: &Effect) -> Answer {
        if self.is_down {
            return Answer::Failed("the API server gives no answer".to_owned());
        }
        match effect {
            Effect::CreateClaim { name, spec } => self.create_claim(name, spec),
            Effect::ReplaceClaim { claim, spec } => Answer::of(self.replace_claim(claim, spec)),
            Effect::DeleteClaim { claim } => Answer::of(self.delete_claim(claim)),
            Effect::WritePin(write) => self.write_pin(write),
            Effect::DeletePin { pin } => Answer::of(self.delete_pin(pin)),
            Effect::PatchBinding { binding, patch, .. }
            | Effect::PatchBindingStatus { binding, patch, .. } => {
                Answer::of(self.patch_binding(binding, patch))
            }
            Effect::PatchPolicy { policy, patch, .. } => Answer::of(self.patch_policy(policy, patch)),
            Effect::ApplyTemplate { template, manifest } => {
                Answer::of(self.apply_template(template, manifest))
            }
            Effect::PatchTemplate { template, patch } => Answer::of(self.patch_template(template, patch)),
            Effect::CreateCanary { name, cluster, .. } => self.create_canary(name, cluster),
            Effect::DeleteCanary { name } => Answer::of(self.canaries.remove(name).is_some()),
            Effect::PushRecord(record) => self.git.push(record),
            Effect::Keep(kept) => self.git.keep(kept),
            other => Answer::Failed(format!("not in the simulation: {other}")),
        }
    }

    fn create_canary(&mut self, name: &str, cluster: &str) -> Answer {
        if self.canaries.contains_key(name) {
            return Answer::Exists;
        }
        let canary = Canary {
            cluster: cluster.to_owned(),
            is_observed: false,
        };
        self.canaries.insert(name.to_owned(), canary);
        Arc::make_mut(&mut self.news).push(News::Canary(name.to_owned()));
        Answer::Done
    }

    fn create_claim(&mut self, name: &str, spec: &ClaimSpec) -> Answer {
        let version = self.next_version();
        let Some(of) = self.find(|of| of.claim_name == name) else {
            return Answer::Stale;
        };
        if of.claim.is_some() {
            return Answer::Exists;
        }
        let mut claim = Claim::new(name, spec.clone());
        claim.metadata.uid = Some(format!("claim-{version}"));
        claim.metadata.resource_version = Some(version.to_string());
        of.claim = Some(Arc::new(claim));
        Answer::Done
    }

    /// Returns the workload whose claim is exactly that one.
    fn claimed(&mut self, exactly: &Exactly) -> Option<&mut Workload> {
        self.find(|of| {
            of.claim.as_ref().is_some_and(|live| {
                let meta = &live.metadata;
                is_it(exactly, meta.uid.as_ref(), meta.resource_version.as_ref())
            })
        })
    }

    fn replace_claim(&mut self, exactly: &Exactly, spec: &ClaimSpec) -> bool {
        let version = self.next_version();
        let Some(of) = self.claimed(exactly) else {
            return false;
        };
        let Some(live) = &mut of.claim else { return false };
        let live = Arc::make_mut(live);
        live.spec = spec.clone();
        live.metadata.resource_version = Some(version.to_string());
        true
    }

    fn delete_claim(&mut self, exactly: &Exactly) -> bool {
        self.claimed(exactly).is_some_and(|of| of.claim.take().is_some())
    }

    fn write_pin(&mut self, write: &PinWrite) -> Answer {
        let mut policy = write.policy().clone();
        let version = self.next_version();
        let name = policy.metadata.name.clone().unwrap_or_default();
        let Some(of) = self.find(|of| of.pin_name == name) else {
            return Answer::Stale;
        };
        match &of.pin {
            None if write.creates() => policy.metadata.uid = Some(format!("pin-{version}")),
            Some(_) if write.creates() => return Answer::Exists,
            Some(live)
                if live.metadata.uid == policy.metadata.uid
                    && live.metadata.resource_version == policy.metadata.resource_version =>
            {
                let leaves = live.metadata.deletion_timestamp.clone();
                policy.metadata.deletion_timestamp = leaves;
            }
            _ => return Answer::Stale,
        }
        policy.metadata.resource_version = Some(version.to_string());
        let leaves = policy.metadata.deletion_timestamp.is_some()
            && policy.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        of.pin = (!leaves).then(|| Stored::new(version, policy));
        Answer::Done
    }

    fn delete_pin(&mut self, exactly: &Exactly) -> bool {
        let of = self.find(|of| {
            of.pin.as_ref().is_some_and(|live| {
                let meta = &live.metadata;
                is_it(exactly, meta.uid.as_ref(), meta.resource_version.as_ref())
            })
        });
        of.is_some_and(|of| of.pin.take().is_some())
    }

    fn patch_binding(&mut self, exactly: &Exactly, patch: &[Value]) -> bool {
        let of = |of: &Arc<Workload>| {
            let live = of.binding.as_ref();
            live.is_some_and(|live| live.json["metadata"]["uid"] == *exactly.uid)
        };
        let Some(workload) = self.workloads.iter().position(of) else {
            return false;
        };
        let Some(live) = self.workloads[workload].binding.clone() else {
            return false;
        };
        if !is_at(exactly, live.version) {
            return false;
        }
        match patched(&live.json, patch) {
            Some(json) => self.put_binding(workload, json),
            None => false,
        }
    }

    /// Takes a binding in as it is to be; returns whether that is news.
    pub fn put_binding(&mut self, workload: usize, mut json: Value) -> bool {
        if let Some(live) = &self.workloads[workload].binding {
            if json["spec"] != live.json["spec"] {
                json["metadata"]["generation"] = (generation(&live.json) + 1).into();
            }
            if json == live.json {
                return false;
            }
        }
        let version = self.next_version();
        json["metadata"]["resourceVersion"] = version.to_string().into();
        let Some(stored) = stored(version, json) else {
            return false;
        };
        self.workload_mut(workload).binding = Some(Arc::clone(&stored));
        Arc::make_mut(&mut self.news).push(News::Binding(workload, stored));
        true
    }

    fn patch_policy(&mut self, exactly: &Exactly, patch: &[Value]) -> bool {
        let of = |of: &Arc<Workload>| {
            let live = of.policy.as_ref();
            live.is_some_and(|live| live.json["metadata"]["uid"] == *exactly.uid)
        };
        let Some(workload) = self.workloads.iter().position(of) else {
            return false;
        };
        let Some(live) = self.workloads[workload].policy.clone() else {
            return false;
        };
        match patched(&live.json, patch).filter(|_| is_at(exactly, live.version)) {
            Some(json) => self.put_policy(workload, json),
            None => false,
        }
    }

    pub fn put_policy(&mut self, workload: usize, mut json: Value) -> bool {
        let version = self.next_version();
        json["metadata"]["resourceVersion"] = version.to_string().into();
        let stored = stored(version, json);
        let done = stored.is_some();
        if done {
            self.workload_mut(workload).policy = stored;
        }
        done
    }

    fn templated(&self, exactly: &Exactly) -> Option<(usize, Arc<Template>)> {
        let workload = self.workloads.iter().position(|of| of.key.name == exactly.name)?;
        let live = self.workloads[workload].template.clone()?;
        let is_it = live["metadata"]["uid"] == *exactly.uid && is_at(exactly, live.version);
        is_it.then_some((workload, live))
    }

    fn apply_template(&mut self, exactly: &Exactly, manifest: &Value) -> bool {
        let Some((workload, live)) = self.templated(exactly) else {
            return false;
        };
        self.put_template(workload, applied(&live, manifest))
    }

    fn patch_template(&mut self, exactly: &Exactly, patch: &[Value]) -> bool {
        let Some((workload, live)) = self.templated(exactly) else {
            return false;
        };
        match patched(&live, patch) {
            Some(json) => self.put_template(workload, json),
            None => false,
        }
    }

    /// Takes a template in as it is to be.
    pub fn put_template(&mut self, workload: usize, mut json: Value) -> bool {
        if let Some(live) = &self.workloads[workload].template
            && json["spec"] != live["spec"]
        {
            json["metadata"]["generation"] = (generation(live) + 1).into();
        }
        let version = self.next_version();
        json["metadata"]["resourceVersion"] = version.to_string().into();
        self.workload_mut(workload).template = Some(Stored::new(version, json));
        true
    }

    /// Takes a Work in under a new version.
    pub fn put_work(&mut self, workload: usize, cluster: &ClusterName, mut work: Work) {
        let version = self.next_version();
        work.metadata.resource_version = Some(version.to_string());
        work.metadata.uid.get_or_insert_with(|| format!("work-{version}"));
        let works = &mut self.workload_mut(workload).works;
        works.insert(cluster.clone(), Stored::new(version, work));
    }

    /// Returns the binding of the canary of that name.
    pub fn canary(&self, name: &str) -> Option<ResourceBinding> {
        let canary = self.canaries.get(name)?;
        let observed = i64::from(canary.is_observed);
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": format!("{name}-configmap"), "namespace": "cutover-system", "generation": 1},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": name}},
            "status": {"schedulerObservedGeneration": observed},
        });
        serde_json::from_value(binding).ok()
    }

    /// What Karmada says of whether a cluster answers.
    /// A cluster is not joined any more: with its namespace in the control plane its Works go. Bindings list it as before.
    pub fn unjoin(&mut self, name: &ClusterName) {
        Arc::make_mut(&mut self.clusters).remove(name);
        for workload in 0..self.workloads.len() {
            self.workload_mut(workload).works.remove(name);
        }
    }

    pub fn set_ready(&mut self, name: &ClusterName, ready: bool) {
        let clusters = Arc::make_mut(&mut self.clusters);
        let status = clusters.get_mut(name).and_then(|cluster| cluster.status.as_mut());
        for condition in status.into_iter().flat_map(|status| &mut status.conditions) {
            if ready { "True" } else { "False" }.clone_into(&mut condition.status);
        }
    }
}

/// Returns what a live template becomes when a manifest is applied whose fields nobody else owns.
pub fn applied(live: &Value, manifest: &Value) -> Value {
    let mut object = live.clone();
    object["spec"] = manifest["spec"].clone();
    object
}

fn stored<T: DeserializeOwned + Serialize>(version: u64, json: Value) -> Option<Arc<Patched<T>>> {
    let typed = serde_json::from_value(json.clone()).ok()?;
    Some(Arc::new(Patched { version, json, typed }))
}

fn patched(live: &Value, patch: &[Value]) -> Option<Value> {
    let patch: json_patch::Patch = serde_json::from_value(json!(patch)).ok()?;
    let mut patched = live.clone();
    json_patch::patch(&mut patched, &patch).ok()?;
    Some(patched)
}

fn is_at(exactly: &Exactly, version: u64) -> bool {
    let wanted = exactly.resource_version.as_ref();
    wanted.is_none_or(|wanted| *wanted == version.to_string())
}

fn is_it(exactly: &Exactly, uid: Option<&String>, version: Option<&String>) -> bool {
    uid == Some(&exactly.uid)
        && exactly
            .resource_version
            .as_ref()
            .is_none_or(|wanted| Some(wanted) == version)
}

pub fn generation(object: &Value) -> i64 {
    object["metadata"]["generation"].as_i64().unwrap_or_default()
}

pub fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}
