//! The resource detector: a template and the policy that selects it become a binding.
//!
//! It writes its own part of an existing binding anew whenever it looks at a template, so a change of the template's
//! metadata is enough to wipe dispatch suspensions and to restore `spec.failover`.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::context::WORKERS;
use super::kinds::{CLUSTER_POLICIES, POLICIES, TemplateKind, of_crd, served};
use super::objects::{self, annotation, label};
use super::{BindingKey, Manager, Scope, replicas};
use crate::api::owners::{LIST, TEXT};
use crate::api::{Object, Resource, Status};
use crate::faults::Pace;
use crate::informer::Change;
use crate::queue::{Controller, Queue};
use cutover_karmada::meta::{
    BINDING_FINALIZER, CLUSTER_BINDING_FINALIZER, CLUSTER_POLICY_FINALIZER, CLUSTER_POLICY_ID,
    CLUSTER_POLICY_NAME, POLICY_FINALIZER, POLICY_ID, POLICY_NAME, POLICY_NAMESPACE, binding_name,
};
use cutover_karmada::{PropagationPolicy, ResourceSelector, Specificity};

const NAME: &str = "resource-detector";

/// Karmada leaves everything in these namespaces alone.
const RESERVED: &[&str] = &["karmada-system", "karmada-cluster"];
const RESERVED_PREFIXES: &[&str] = &["karmada-es-", "kube-"];

pub(super) fn start(manager: &Manager) {
    let queue: Arc<Queue<Key>> = Queue::new();
    let waiting = Arc::new(Mutex::new(BTreeSet::new()));

    let templates = Arc::clone(&queue);
    manager.templates.subscribe(move |resource, change| {
        let Some(object) = change.object() else { return };
        if is_reserved(objects::namespace(object).unwrap_or_default()) || !content_changed(change) {
            return;
        }
        templates.add(Key::Template(TemplateKey {
            resource: resource.clone(),
            namespace: objects::namespace(object).map(str::to_owned),
            name: objects::name(object).to_owned(),
        }));
    });
    for (cache, scope) in [
        (&manager.policies, Scope::Namespaced),
        (&manager.cluster_policies, Scope::Cluster),
    ] {
        let policies = Arc::clone(&queue);
        cache.subscribe(move |change| {
            if change.new.is_some() && change.generation_changed() {
                policies.add(Key::Policy(PolicyKey {
                    cluster: scope == Scope::Cluster,
                    at: BindingKey::of(change.key),
                }));
            }
        });
    }
    let caches = manager.templates.clone();
    manager.crds.subscribe(move |change| {
        if let Some(kind) = change.new.and_then(|crd| of_crd(crd)) {
            caches.of(&kind.resource);
        }
    });
    for TemplateKind { resource, .. } in served(&manager.context.control) {
        manager.templates.of(&resource);
    }
    let detector = Detector {
        manager: manager.clone(),
        queue: Arc::clone(&queue),
        waiting,
    };
    manager.context.run_at_once(WORKERS, NAME, &queue, detector);
}

fn is_reserved(namespace: &str) -> bool {
    RESERVED.contains(&namespace)
        || RESERVED_PREFIXES
            .iter()
            .any(|prefix| namespace.starts_with(prefix))
}

/// A change of the status alone is none.
fn content_changed(change: &Change<'_>) -> bool {
    let (Some(old), Some(new)) = (change.old, change.new) else {
        return true;
    };
    differ(old, new, &["status", "metadata"])
        || differ(
            &old["metadata"],
            &new["metadata"],
            &[LIST, TEXT, "resourceVersion"],
        )
}

/// Says whether two objects differ in any field but these.
fn differ(one: &Value, other: &Value, but: &[&str]) -> bool {
    let compared = |object| fields(object, but);
    compared(one).count() != compared(other).count()
        || compared(one).any(|(field, value)| other.get(field) != Some(value))
}

fn fields<'a>(object: &'a Value, but: &[&str]) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let all = object.as_object().into_iter().flatten();
    all.filter(|(field, _)| !but.contains(&field.as_str()))
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Template(TemplateKey),
    Policy(PolicyKey),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TemplateKey {
    resource: Resource,
    namespace: Option<String>,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PolicyKey {
    cluster: bool,
    at: BindingKey,
}

struct Detector {
    manager: Manager,
    queue: Arc<Queue<Key>>,
    /// Templates that no policy selects yet.
    waiting: Arc<Mutex<BTreeSet<TemplateKey>>>,
}

impl Controller for Detector {
    type Key = Key;

    async fn reconcile(&self, key: &Key, pace: &Pace) -> Result<Option<Duration>, Status> {
        pace.spend(self.manager.context.latencies.detect).await;
        match key {
            Key::Template(key) => self.template(key)?,
            Key::Policy(key) => self.policy(key)?,
        }
        Ok(None)
    }
}

/// A policy of either scope, with what identifies it.
struct Policy {
    object: PropagationPolicy,
    scope: Scope,
    id: String,
}

impl Policy {
    fn read(object: &Value, scope: Scope) -> Result<Self, Status> {
        let read = PropagationPolicy::deserialize(object)
            .map_err(|error| Status::internal(format!("not a policy: {error}")))?;
        let id = label(object, id_label(scope)).unwrap_or_default().to_owned();
        Ok(Self {
            object: read,
            scope,
            id,
        })
    }

    fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    fn selects(&self, template: &Value) -> Option<Specificity> {
        ResourceSelector::closest(&self.object.spec.resource_selectors, template)
    }

    /// Marks a template or binding as this policy's.
    fn claim(&self, object: &mut Value) {
        objects::set_label(object, id_label(self.scope), &self.id);
        match self.scope {
            Scope::Namespaced => {
                let namespace = self.object.metadata.namespace.as_deref().unwrap_or_default();
                objects::set_annotation(object, POLICY_NAMESPACE, namespace);
                objects::set_annotation(object, POLICY_NAME, self.name());
                release(object, Scope::Cluster);
            }
            Scope::Cluster => objects::set_annotation(object, CLUSTER_POLICY_NAME, self.name()),
        }
    }
}

const fn id_label(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => POLICY_ID,
        Scope::Cluster => CLUSTER_POLICY_ID,
    }
}

/// Removes the marks of a policy; tells whether there were any.
fn release(object: &mut Value, scope: Scope) -> bool {
    let annotations: &[&str] = match scope {
        Scope::Namespaced => &[POLICY_NAMESPACE, POLICY_NAME],
        Scope::Cluster => &[CLUSTER_POLICY_NAME],
    };
    let labels = objects::remove_entries(object, "labels", &[id_label(scope)]);
    objects::remove_entries(object, "annotations", annotations) || labels
}

impl Detector {
    fn template(&self, key: &TemplateKey) -> Result<(), Status> {
        let Some(template) = self
            .manager
            .templates
            .get(&key.resource, key.namespace.as_deref(), &key.name)
        else {
            // Its binding goes with it: it is owned.
            self.waiting().remove(key);
            return Ok(());
        };
        if let Some(claimed) = claim_of(&template) {
            return self.apply_claimed(key, &template, &claimed);
        }
        match self.best_policy(&template)? {
            Some(policy) => {
                self.waiting().remove(key);
                self.apply(key, &template, &policy)
            }
            // Once more, in case that the policy comes at the same time; then its event will tell.
            None if self.waiting().insert(key.clone()) => {
                Err(Status::internal("no matched propagation policy"))
            }
            None => Ok(()),
        }
    }

    fn apply_claimed(&self, key: &TemplateKey, template: &Value, claim: &Claim) -> Result<(), Status> {
        let cached = match claim.scope {
            Scope::Namespaced => self.manager.policies.get(Some(&claim.namespace), &claim.name),
            Scope::Cluster => self.manager.cluster_policies.get(None, &claim.name),
        };
        let Some(object) = cached else {
            return self.release_template(template, claim.scope, &claim.id);
        };
        if objects::is_terminating(&object) {
            return Err(Status::internal(format!(
                "policy {} is being deleted",
                claim.name
            )));
        }
        let policy = Policy::read(&object, claim.scope)?;
        if policy.selects(template).is_some() {
            self.apply(key, template, &policy)
        } else {
            Ok(())
        }
    }

    /// The highest priority wins, then the closest selector, then the first name; policies of the namespace first.
    fn best_policy(&self, template: &Value) -> Result<Option<Policy>, Status> {
        for (cache, scope) in [
            (&self.manager.policies, Scope::Namespaced),
            (&self.manager.cluster_policies, Scope::Cluster),
        ] {
            let mut candidates = Vec::new();
            for object in cache.list() {
                let foreign =
                    scope == Scope::Namespaced && objects::namespace(&object) != objects::namespace(template);
                if foreign || objects::is_terminating(&object) {
                    continue;
                }
                let policy = Policy::read(&object, scope)?;
                if let Some(specificity) = policy.selects(template) {
                    candidates.push((Reverse((policy.object.spec.priority, specificity)), policy));
                }
            }
            candidates
                .sort_by(|(a, a_policy), (b, b_policy)| a.cmp(b).then(a_policy.name().cmp(b_policy.name())));
            if let Some((_, policy)) = candidates.into_iter().next() {
                return Ok(Some(policy));
            }
        }
        Ok(None)
    }

    fn apply(&self, key: &TemplateKey, template: &Value, policy: &Policy) -> Result<(), Status> {
        let mut claimed = template.clone();
        policy.claim(&mut claimed);
        let template = if claimed == *template {
            claimed
        } else {
            (*self.manager.context.put(&key.resource, claimed)?).clone()
        };
        let wanted = wanted_binding(&template, policy);
        let at = BindingKey {
            namespace: key.namespace.clone(),
            name: binding_name(&key.name, objects::text(&template, "/kind")),
        };
        match self.manager.binding(&at) {
            None => {
                let writer = self.manager.context.writer();
                self.manager.context.control.create(
                    at.resource(),
                    at.namespace.as_deref(),
                    wanted,
                    &writer,
                )?;
            }
            Some(known) => {
                let owner = objects::text(&known, "/metadata/ownerReferences/0/uid");
                if !owner.is_empty() && owner != objects::uid(&template) {
                    return Err(Status::internal(
                        "the binding belongs to an earlier object of that name",
                    ));
                }
                let refreshed = refresh(&known, &wanted, policy);
                if refreshed != *known {
                    self.manager.context.put(at.resource(), refreshed)?;
                }
            }
        }
        Ok(())
    }

    fn policy(&self, key: &PolicyKey) -> Result<(), Status> {
        let (cache, scope, resource, finalizer) = if key.cluster {
            (
                &self.manager.cluster_policies,
                Scope::Cluster,
                &CLUSTER_POLICIES,
                CLUSTER_POLICY_FINALIZER,
            )
        } else {
            (
                &self.manager.policies,
                Scope::Namespaced,
                &POLICIES,
                POLICY_FINALIZER,
            )
        };
        let Some(object) = cache.get(key.at.namespace.as_deref(), &key.at.name) else {
            return Ok(());
        };
        let policy = Policy::read(&object, scope)?;
        let bound = self.templates_of(&policy);
        if objects::is_terminating(&object) {
            for (_, template) in &bound {
                self.release_template(template, scope, &policy.id)?;
            }
            let mut object = (*object).clone();
            if objects::remove_finalizer(&mut object, finalizer) {
                self.manager.context.put(resource, object)?;
            }
            return Ok(());
        }
        self.preempt(&policy)?;
        for (template_key, template) in bound {
            if policy.selects(&template).is_none() {
                self.release_template(&template, scope, &policy.id)?;
            } else if policy.object.spec.activation_preference.as_deref() != Some("Lazy") {
                self.queue.add(Key::Template(template_key));
            }
        }
        let waiting: Vec<TemplateKey> = self.waiting().iter().cloned().collect();
        for template_key in waiting {
            let template = self.manager.templates.get(
                &template_key.resource,
                template_key.namespace.as_deref(),
                &template_key.name,
            );
            if template.is_some_and(|template| policy.selects(&template).is_some()) {
                self.queue.add(Key::Template(template_key));
            }
        }
        Ok(())
    }

    /// A policy that is allowed to takes the templates that it names from policies of a lower priority, and those of a
    /// namespace from those of all.
    fn preempt(&self, policy: &Policy) -> Result<(), Status> {
        let spec = &policy.object.spec;
        if !self.manager.context.features.policy_preemption || spec.preemption != "Always" {
            return Ok(());
        }
        for selector in spec
            .resource_selectors
            .iter()
            .filter(|selector| !selector.name.is_empty())
        {
            let server = &self.manager.context.control;
            let kind = super::kinds::resource(server, &selector.api_version, &selector.kind);
            let Some(resource) = kind else { continue };
            let namespace = Some(selector.namespace.as_str()).filter(|namespace| !namespace.is_empty());
            let Some(template) = self.manager.templates.get(&resource, namespace, &selector.name) else {
                continue;
            };
            let Some(claimed) = claim_of(&template).filter(|claimed| claimed.id != policy.id) else {
                continue;
            };
            let lower = match (policy.scope, claimed.scope) {
                (Scope::Namespaced, Scope::Cluster) => true,
                (Scope::Cluster, Scope::Namespaced) => false,
                _ => self
                    .priority(&claimed)
                    .is_some_and(|priority| priority < spec.priority),
            };
            if lower {
                let mut template = (*template).clone();
                policy.claim(&mut template);
                self.manager.context.put(&resource, template)?;
            }
        }
        Ok(())
    }

    fn priority(&self, claim: &Claim) -> Option<i32> {
        let cached = match claim.scope {
            Scope::Namespaced => self.manager.policies.get(Some(&claim.namespace), &claim.name),
            Scope::Cluster => self.manager.cluster_policies.get(None, &claim.name),
        };
        Some(Policy::read(&*cached?, claim.scope).ok()?.object.spec.priority)
    }

    fn templates_of(&self, policy: &Policy) -> Vec<(TemplateKey, Object)> {
        let mut resources = BTreeSet::new();
        let server = &self.manager.context.control;
        for selector in &policy.object.spec.resource_selectors {
            resources.extend(super::kinds::resource(
                server,
                &selector.api_version,
                &selector.kind,
            ));
        }
        // A template that a changed policy no longer selects is found through its binding.
        for cache in [&self.manager.bindings, &self.manager.cluster_bindings] {
            for binding in cache
                .list()
                .iter()
                .filter(|binding| label(binding, id_label(policy.scope)) == Some(&policy.id))
            {
                let kind = objects::text(binding, "/spec/resource/kind");
                resources.extend(super::kinds::resource(
                    server,
                    objects::text(binding, "/spec/resource/apiVersion"),
                    kind,
                ));
            }
        }
        let mut bound = Vec::new();
        for resource in resources {
            for template in self.manager.templates.of(&resource).list() {
                if label(&template, id_label(policy.scope)) == Some(&policy.id) {
                    let key = TemplateKey {
                        resource: resource.clone(),
                        namespace: objects::namespace(&template).map(str::to_owned),
                        name: objects::name(&template).to_owned(),
                    };
                    bound.push((key, template));
                }
            }
        }
        bound
    }

    /// Takes the marks off binding and template. What is in the clusters stays; another policy may claim it.
    fn release_template(&self, template: &Value, scope: Scope, id: &str) -> Result<(), Status> {
        let kind = objects::text(template, "/kind");
        let at = BindingKey {
            namespace: objects::namespace(template).map(str::to_owned),
            name: binding_name(objects::name(template), kind),
        };
        if let Some(binding) = self.manager.binding(&at)
            && label(&binding, id_label(scope)) == Some(id)
        {
            let mut binding = (*binding).clone();
            release(&mut binding, scope);
            self.manager.context.put(at.resource(), binding)?;
        }
        let mut template = template.clone();
        if label(&template, id_label(scope)) == Some(id) && release(&mut template, scope) {
            let api_version = objects::text(&template, "/apiVersion");
            let resource = super::kinds::resource(&self.manager.context.control, api_version, kind)
                .ok_or_else(Status::no_such_resource)?;
            self.manager.context.put(&resource, template)?;
        }
        Ok(())
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, BTreeSet<TemplateKey>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The policy that an object says it belongs to.
struct Claim {
    scope: Scope,
    namespace: String,
    name: String,
    id: String,
}

fn claim_of(object: &Value) -> Option<Claim> {
    if let (Some(id), Some(namespace), Some(name)) = (
        label(object, POLICY_ID),
        annotation(object, POLICY_NAMESPACE),
        annotation(object, POLICY_NAME),
    ) {
        let (namespace, name, id) = (namespace.to_owned(), name.to_owned(), id.to_owned());
        return Some(Claim {
            scope: Scope::Namespaced,
            namespace,
            name,
            id,
        });
    }
    let (id, name) = (
        label(object, CLUSTER_POLICY_ID)?,
        annotation(object, CLUSTER_POLICY_NAME)?,
    );
    Some(Claim {
        scope: Scope::Cluster,
        namespace: String::new(),
        name: name.to_owned(),
        id: id.to_owned(),
    })
}

/// The fields of a binding's spec that the detector writes anew each time; the rest belongs to others.
const OWN_FIELDS: &[&str] = &[
    "resource",
    "replicas",
    "replicaRequirements",
    "propagateDeps",
    "schedulerName",
    "placement",
    "failover",
    "conflictResolution",
    "preserveResourcesOnDeletion",
];

fn wanted_binding(template: &Value, policy: &Policy) -> Value {
    let spec = &policy.object.spec;
    let namespace = objects::namespace(template);
    let kind = objects::text(template, "/kind");
    let (binding_kind, finalizer) = match namespace {
        Some(_) => ("ResourceBinding", BINDING_FINALIZER),
        None => ("ClusterResourceBinding", CLUSTER_BINDING_FINALIZER),
    };
    let mut binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": binding_kind,
        "metadata": {
            "name": binding_name(objects::name(template), kind),
            "ownerReferences": [{
                "apiVersion": template["apiVersion"], "kind": kind, "name": objects::name(template),
                "uid": objects::uid(template), "controller": true, "blockOwnerDeletion": true,
            }],
            "finalizers": [finalizer],
        },
        "spec": {
            "resource": {
                "apiVersion": template["apiVersion"], "kind": kind, "name": objects::name(template),
                "uid": objects::uid(template),
                "resourceVersion": objects::text(template, "/metadata/resourceVersion"),
            },
            "schedulerName": spec.scheduler_name,
            "placement": spec.placement,
            "conflictResolution": spec.conflict_resolution,
        },
    });
    if let Some(namespace) = namespace {
        binding["metadata"]["namespace"] = json!(namespace);
        binding["spec"]["resource"]["namespace"] = json!(namespace);
    }
    let fields = objects::fields(&mut binding["spec"]);
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    let replicas = replicas::of_template(template);
    put(
        "replicas",
        replicas
            .filter(|replicas| *replicas > 0)
            .map(|replicas| json!(replicas)),
    );
    put("replicaRequirements", replicas::requirements(template));
    put("propagateDeps", spec.propagate_deps.then(|| json!(true)));
    put("failover", spec.failover.as_ref().map(|failover| json!(failover)));
    put(
        "preserveResourcesOnDeletion",
        spec.preserve_resources_on_deletion
            .map(|preserve| json!(preserve)),
    );
    put(
        "suspension",
        spec.suspension.as_ref().map(|suspension| json!(suspension)),
    );
    policy.claim(&mut binding);
    binding
}

/// Returns a known binding with the detector's part written anew.
fn refresh(known: &Value, wanted: &Value, policy: &Policy) -> Value {
    let mut binding = known.clone();
    policy.claim(&mut binding);
    binding["metadata"]["ownerReferences"] = wanted["metadata"]["ownerReferences"].clone();
    let finalizer = objects::text(wanted, "/metadata/finalizers/0");
    if !objects::is_terminating(&binding) {
        objects::add_finalizer(&mut binding, finalizer);
    }
    let spec = objects::fields(&mut binding["spec"]);
    for field in OWN_FIELDS {
        match wanted["spec"].get(field) {
            Some(value) => drop(spec.insert((*field).to_owned(), value.clone())),
            None => drop(spec.shift_remove(*field)),
        }
    }
    // Only the dispatching part of a suspension is the detector's; `scheduling` stays.
    let scheduling = spec
        .get("suspension")
        .and_then(|suspension| suspension.get("scheduling"))
        .cloned();
    let mut suspension = wanted["spec"].get("suspension").cloned();
    if let Some(scheduling) = scheduling {
        objects::fields(suspension.get_or_insert_with(|| json!({})))
            .insert("scheduling".to_owned(), scheduling);
    }
    match suspension {
        Some(suspension) => drop(spec.insert("suspension".to_owned(), suspension)),
        None => drop(spec.shift_remove("suspension")),
    }
    binding
}
