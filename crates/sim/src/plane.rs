//! The control plane: objects with versions, and writes that are judged when they arrive, however late that is.

use std::collections::BTreeMap;
use std::sync::Arc;

use cutover_core::api::{Claim, ClaimSpec, LeaseSeen};
use cutover_core::intent::effect::{Effect, Exactly};
use cutover_core::intent::pin::PinWrite;
use cutover_core::intent::record::Record;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, OverridePolicy, ResourceBinding, Work, meta};
use serde_json::{Value, json};

/// What shows that the scheduler is past a moment.
#[derive(Clone, Debug)]
pub struct Canary {
    pub name: String,
    pub cluster: String,
    pub is_observed: bool,
}

#[derive(Clone, Debug)]
pub struct Plane {
    version: u64,
    pub template: Option<Value>,
    /// As JSON: patches of it are.
    pub binding: Option<Value>,
    pub claim: Option<Claim>,
    pub pin: Option<OverridePolicy>,
    pub works: BTreeMap<ClusterName, Value>,
    pub clusters: Arc<BTreeMap<ClusterName, Cluster>>,
    pub canary: Option<Canary>,
    pub leases: BTreeMap<String, LeaseSeen>,
    /// What the status branch has of the intent.
    pub record: Option<Record>,
    /// Of several clusters the scheduler keeps the last by name, not the first.
    pub keeps_last: bool,
    pub has_finalizer: bool,
    /// The intent is gone.
    pub is_gone: bool,
}

impl Plane {
    pub fn new(template: Value, binding: Value, clusters: BTreeMap<ClusterName, Cluster>) -> Self {
        let lease = |name: &str| {
            let seen = LeaseSeen {
                holder: Some(format!("{name}-1")),
                transitions: 1,
            };
            (name.to_owned(), seen)
        };
        Self {
            version: 1,
            template: Some(template),
            binding: Some(binding),
            claim: None,
            pin: None,
            works: BTreeMap::new(),
            clusters: Arc::new(clusters),
            canary: None,
            leases: [lease("karmada-scheduler"), lease("karmada-controller-manager")].into(),
            record: None,
            keeps_last: false,
            has_finalizer: false,
            is_gone: false,
        }
    }

    pub fn new_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    /// A write arrives; returns whether it was carried out.
    pub fn take(&mut self, effect: &Effect) -> bool {
        match effect {
            Effect::AddFinalizer => !std::mem::replace(&mut self.has_finalizer, true),
            Effect::RemoveFinalizer => std::mem::replace(&mut self.has_finalizer, false),
            Effect::CreateClaim { name, spec } => self.create_claim(name, spec),
            Effect::ReplaceClaim { claim, spec } => self.replace_claim(claim, spec),
            Effect::DeleteClaim { claim } => {
                let is_it = self.claim.as_ref().is_some_and(|live| {
                    is_it(
                        claim,
                        live.metadata.uid.as_ref(),
                        live.metadata.resource_version.as_ref(),
                    )
                });
                if is_it {
                    self.claim = None;
                }
                is_it
            }
            Effect::WritePin(write) => self.write_pin(write),
            Effect::DeletePin { pin } => self.delete_pin(pin),
            Effect::PatchBinding { binding, patch, .. }
            | Effect::PatchBindingStatus { binding, patch, .. } => self.patch_binding(binding, patch),
            Effect::CreateCanary { name, cluster, .. } => {
                let is_new = self.canary.as_ref().is_none_or(|canary| canary.name != *name);
                if is_new {
                    self.canary = Some(Canary {
                        name: name.clone(),
                        cluster: cluster.clone(),
                        is_observed: false,
                    });
                }
                is_new
            }
            Effect::DeleteCanary { name } => {
                let is_it = self.canary.as_ref().is_some_and(|canary| canary.name == *name);
                if is_it {
                    self.canary = None;
                }
                is_it
            }
            Effect::PushRecord(record) => {
                self.record = Some((**record).clone());
                true
            }
            // Of other kinds.
            _ => false,
        }
    }

    fn create_claim(&mut self, name: &str, spec: &ClaimSpec) -> bool {
        if self.claim.is_some() {
            return false;
        }
        let mut claim = Claim::new(name, spec.clone());
        let version = self.new_version();
        claim.metadata.uid = Some(format!("claim-{version}"));
        claim.metadata.resource_version = Some(version);
        self.claim = Some(claim);
        true
    }

    fn replace_claim(&mut self, exactly: &Exactly, spec: &ClaimSpec) -> bool {
        let version = self.new_version();
        let Some(live) = self.claim.as_mut().filter(|live| {
            is_it(
                exactly,
                live.metadata.uid.as_ref(),
                live.metadata.resource_version.as_ref(),
            )
        }) else {
            return false;
        };
        live.spec = spec.clone();
        live.metadata.resource_version = Some(version);
        true
    }

    fn write_pin(&mut self, write: &PinWrite) -> bool {
        let mut policy = write.policy().clone();
        let version = self.new_version();
        match &self.pin {
            None if write.creates() => policy.metadata.uid = Some(format!("pin-{version}")),
            Some(live)
                if !write.creates()
                    && live.metadata.uid == policy.metadata.uid
                    && live.metadata.resource_version == policy.metadata.resource_version =>
            {
                policy
                    .metadata
                    .deletion_timestamp
                    .clone_from(&live.metadata.deletion_timestamp);
            }
            _ => return false,
        }
        policy.metadata.resource_version = Some(version);
        let leaves = policy.metadata.deletion_timestamp.is_some()
            && policy.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
        self.pin = (!leaves).then_some(policy);
        true
    }

    fn delete_pin(&mut self, exactly: &Exactly) -> bool {
        let is_it = self.pin.as_ref().is_some_and(|live| {
            is_it(
                exactly,
                live.metadata.uid.as_ref(),
                live.metadata.resource_version.as_ref(),
            )
        });
        if is_it {
            self.pin = None;
        }
        is_it
    }

    fn patch_binding(&mut self, exactly: &Exactly, patch: &[Value]) -> bool {
        let Some(live) = &self.binding else { return false };
        if live["metadata"]["uid"] != *exactly.uid {
            return false;
        }
        let Ok(patch) = serde_json::from_value::<json_patch::Patch>(json!(patch)) else {
            return false;
        };
        let mut patched = live.clone();
        if json_patch::patch(&mut patched, &patch).is_err() {
            return false;
        }
        self.put_binding(patched)
    }

    /// Takes a binding in as it is to be.
    pub fn put_binding(&mut self, mut binding: Value) -> bool {
        let Some(live) = &self.binding else { return false };
        if binding["spec"] != live["spec"] {
            binding["metadata"]["generation"] = (crate::flink::generation(live) + 1).into();
        }
        if binding == *live {
            return false;
        }
        binding["metadata"]["resourceVersion"] = self.new_version().into();
        self.binding = Some(binding);
        true
    }

    pub fn binding(&self) -> Option<ResourceBinding> {
        serde_json::from_value(self.binding.clone()?).ok()
    }

    pub fn works(&self) -> BTreeMap<ClusterName, Work> {
        let works = self.works.iter();
        works
            .filter_map(|(name, work)| Some((name.clone(), serde_json::from_value(work.clone()).ok()?)))
            .collect()
    }

    /// Returns the binding of the canary of that name.
    pub fn canary(&self, name: &str) -> Option<ResourceBinding> {
        let canary = self.canary.as_ref().filter(|canary| canary.name == name)?;
        let observed = i64::from(canary.is_observed);
        let binding = json!({
            "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
            "metadata": {"name": format!("{name}-configmap"), "namespace": "cutover-system", "generation": 1},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": name}},
            "status": {"schedulerObservedGeneration": observed},
        });
        serde_json::from_value(binding).ok()
    }
}

fn is_it(exactly: &Exactly, uid: Option<&String>, version: Option<&String>) -> bool {
    uid == Some(&exactly.uid)
        && exactly
            .resource_version
            .as_ref()
            .is_none_or(|wanted| Some(wanted) == version)
}

/// The label by which Works are found.
pub const BINDING_ID: &str = meta::BINDING_ID;
