//! Karmada's controllers, one file each, as karmada.md measured them: queues, caches and races included.
//!
//! Each runs in one of two processes, sees the API server through caches that lag, and writes under its process's
//! name. Not simulated: priority-based scheduling, quotas, spreading by region, overflow
//! affinities, Pull mode, `dependentOverrides`, Services across clusters, the descheduler.

mod binding;
mod cluster;
mod context;
mod dependencies;
mod detector;
mod execution;
mod failover;
mod health;
mod jsonpath;
/// Which resource a kind means.
pub mod kinds;
mod latency;
mod manifest;
mod namespace;
mod objects;
mod placement;
mod protection;
mod proxy;
mod rebalancer;
mod replicas;
mod retain;
mod scheduler;
mod status;
mod taints;

pub use cluster::cluster_status;
pub use context::{Context, Features, Tasks};
pub use latency::{Latencies, Rate};
pub use protection::Webhooks;
pub use proxy::ClusterProxy;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{Object, Patch, Resource, Status};
use crate::informer::Informer;
use crate::store::Key;
use cutover_karmada::{ObjectReference, ResourceBinding};

/// The names of the two processes, of their leases and field managers.
pub const SCHEDULER: &str = "karmada-scheduler";
pub const CONTROLLER_MANAGER: &str = "karmada-controller-manager";

/// Starts the controllers of `karmada-controller-manager`; their tasks are the context's.
pub fn start_controller_manager(context: &Context) {
    let manager = Manager::new(context);
    detector::start(&manager);
    dependencies::start(&manager);
    binding::start(&manager);
    execution::start(&manager);
    status::start(&manager);
    failover::start(&manager);
    taints::start(&manager);
    cluster::start(&manager);
    namespace::start(&manager);
    rebalancer::start(&manager);
    manager.feed();
}

/// Starts the scheduler.
pub fn start_scheduler(context: &Context) {
    scheduler::start(context);
}

/// Takes the lease of a process and starts its controllers.
pub fn begin(context: &Context, start: fn(&Context)) {
    let instance = context.faults.restarts(context.process);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": context.process, "namespace": "karmada-system"},
        "spec": {"holderIdentity": format!("{}-{instance}", context.process), "leaseTransitions": instance},
    });
    let (control, writer) = (&context.control, context.writer());
    let spec = json!({"spec": lease["spec"]});
    if control
        .create(&kinds::LEASES, Some("karmada-system"), lease, &writer)
        .is_err()
    {
        let patch = Patch::Merge(spec);
        // A lease that can't be written is one that nobody can read either.
        let _ = control.patch(
            &kinds::LEASES,
            Some("karmada-system"),
            context.process,
            None,
            &patch,
            &writer,
        );
    }
    start(context);
}

/// Restarts a process whenever the faults say so: its queues and caches are gone, its leases change hands.
pub async fn supervise(context: Context, start: fn(&Context)) {
    let mut known = context.faults.restarts(context.process);
    loop {
        context.faults.restarted(context.process, known).await;
        known = context.faults.restarts(context.process);
        context.tasks.stop();
        begin(&context, start);
    }
}

/// What the controllers of one controller-manager share: one cache a resource.
#[derive(Clone, Debug)]
struct Manager {
    context: Context,
    policies: Informer,
    cluster_policies: Informer,
    overrides: Informer,
    cluster_overrides: Informer,
    bindings: Informer,
    cluster_bindings: Informer,
    works: Informer,
    clusters: Informer,
    namespaces: Informer,
    crds: Informer,
    rebalancers: Informer,
    templates: context::Caches,
    members: BTreeMap<String, context::Caches>,
}

impl Manager {
    fn new(context: &Context) -> Self {
        let cache = |resource| context.cache(resource);
        Self {
            context: context.clone(),
            policies: cache(kinds::POLICIES),
            cluster_policies: cache(kinds::CLUSTER_POLICIES),
            overrides: cache(kinds::OVERRIDES),
            cluster_overrides: cache(kinds::CLUSTER_OVERRIDES),
            bindings: cache(kinds::BINDINGS),
            cluster_bindings: cache(kinds::CLUSTER_BINDINGS),
            works: cache(kinds::WORKS),
            clusters: cache(kinds::CLUSTERS),
            namespaces: cache(kinds::NAMESPACES),
            crds: cache(kinds::CRDS),
            rebalancers: cache(kinds::REBALANCERS),
            templates: context::Caches::of_templates(context),
            members: context
                .members
                .iter()
                .map(|(name, server)| (name.clone(), context::Caches::of_member(context, name, server)))
                .collect(),
        }
    }

    fn feed(&self) {
        let latencies = &self.context.latencies;
        for (cache, name) in [
            (&self.clusters, "cluster-cache"),
            (&self.crds, "crd-cache"),
            (&self.policies, "policy-cache"),
            (&self.cluster_policies, "policy-cache"),
            (&self.bindings, "binding-cache"),
            (&self.cluster_bindings, "binding-cache"),
            (&self.works, "work-cache"),
            (&self.namespaces, "namespace-cache"),
            (&self.rebalancers, "rebalancer-cache"),
        ] {
            self.context.feed(cache, name, latencies.cache);
        }
        for cache in [&self.overrides, &self.cluster_overrides] {
            self.context
                .feed(cache, "override-cache", latencies.override_cache);
        }
    }

    fn bindings_of(&self, scope: Scope) -> &Informer {
        match scope {
            Scope::Namespaced => &self.bindings,
            Scope::Cluster => &self.cluster_bindings,
        }
    }

    /// Returns a binding as the cache has it.
    fn binding(&self, key: &BindingKey) -> Option<Object> {
        self.bindings_of(key.scope())
            .get(key.namespace.as_deref(), &key.name)
    }

    /// Returns the Works of a binding, by member.
    fn works_of(&self, binding: &Value) -> Vec<Object> {
        let (label, id) = binding_id(binding);
        if id.is_empty() {
            return Vec::new();
        }
        let works = self.works.list();
        works
            .into_iter()
            .filter(|work| objects::label(work, label) == Some(id))
            .collect()
    }

    /// Returns a template as the cache has it.
    fn template(&self, binding: &ResourceBinding) -> Option<Object> {
        self.template_at(&binding.spec.resource)
    }

    fn template_at(&self, reference: &ObjectReference) -> Option<Object> {
        let resource = kinds::resource(&self.context.control, &reference.api_version, &reference.kind)?;
        let namespace = Some(reference.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        self.templates.get(&resource, namespace, &reference.name)
    }
}

/// Of a binding and what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Namespaced,
    Cluster,
}

/// Which binding: without a namespace it is a `ClusterResourceBinding`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BindingKey {
    namespace: Option<String>,
    name: String,
}

impl BindingKey {
    fn of(key: &Key) -> Self {
        let namespace = Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty());
        Self {
            namespace,
            name: key.name.clone(),
        }
    }

    fn scope(&self) -> Scope {
        if self.namespace.is_some() {
            Scope::Namespaced
        } else {
            Scope::Cluster
        }
    }

    fn resource(&self) -> &'static Resource {
        static NAMESPACED: Resource = kinds::BINDINGS;
        static CLUSTER: Resource = kinds::CLUSTER_BINDINGS;
        match self.scope() {
            Scope::Namespaced => &NAMESPACED,
            Scope::Cluster => &CLUSTER,
        }
    }
}

/// Returns the label under which Works know their binding, and its value.
fn binding_id(binding: &Value) -> (&'static str, &str) {
    use cutover_karmada::meta::{BINDING_ID, CLUSTER_BINDING_ID};
    let label = if objects::namespace(binding).is_some() {
        BINDING_ID
    } else {
        CLUSTER_BINDING_ID
    };
    (label, objects::label(binding, label).unwrap_or_default())
}

/// Reads a binding of either kind.
fn read_binding(object: &Value) -> Result<ResourceBinding, Status> {
    ResourceBinding::deserialize(object).map_err(|error| Status::internal(format!("not a binding: {error}")))
}
