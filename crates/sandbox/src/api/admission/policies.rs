//! The `ValidatingAdmissionPolicies` in force, and what they say of a write.
//!
//! They are read from the store, and as a real server does, behind it: policies and bindings are looked at at a fixed
//! interval, parameters come with the delay of a watch. Several that refuse are told in the order of their names; a
//! real server has no order. There is no cost budget and no audit log.

use std::cell::OnceCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::super::registry::{self, NAMESPACES, Registry};
use super::super::status::{Cause, Reason, Status};
use super::super::{Clock, Object, Resource, owners};
use super::attributes::Attributes;
use super::policy::{Binding, ParamRef, Policy, PolicyResult, Refusal, Subject};
use crate::store::{Key, Store};

const POLICIES: Resource = Resource::new("admissionregistration.k8s.io", "validatingadmissionpolicies");
const BINDINGS: Resource = Resource::new(
    "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings",
);

/// How far admission policies are behind the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionLag {
    /// How often changed policies and bindings are looked at; not at all late when zero.
    pub policies: SignedDuration,
    /// How long a changed parameter takes to be seen.
    pub params: SignedDuration,
}

impl Default for AdmissionLag {
    /// What a kube-apiserver 1.36 was measured at.
    fn default() -> Self {
        Self {
            policies: SignedDuration::from_secs(1),
            params: SignedDuration::from_millis(2),
        }
    }
}

impl AdmissionLag {
    pub const NONE: Self = Self {
        policies: SignedDuration::ZERO,
        params: SignedDuration::ZERO,
    };
}

/// The policies of one server.
pub(in super::super) struct Policies {
    lag: AdmissionLag,
    clock: Clock,
    started: Timestamp,
    /// The number of the last look.
    looked: i64,
    /// Whether there may be something new at the next one.
    dirty: bool,
    hooks: Arc<[Hook]>,
    params: BTreeMap<Resource, Params>,
}

/// A policy with its bindings.
struct Hook {
    policy: Policy,
    bindings: Vec<Binding>,
    params: Option<Source>,
    /// Why the parameters can't be found.
    misconfigured: Option<String>,
}

/// Where parameters come from.
#[derive(Clone)]
struct Source {
    resource: Resource,
    kind: Arc<registry::Kind>,
    namespaced: bool,
}

/// Parameters as a watch has shown them, and what it has not shown yet.
#[derive(Default)]
struct Params {
    seen: BTreeMap<Key, Object>,
    coming: VecDeque<(Timestamp, Key, Option<Object>)>,
}

impl Params {
    fn catch_up(&mut self, until: Timestamp) {
        while self.coming.front().is_some_and(|(at, ..)| *at <= until) {
            match self.coming.pop_front() {
                Some((_, key, Some(object))) => drop(self.seen.insert(key, object)),
                Some((_, key, None)) => drop(self.seen.remove(&key)),
                None => return,
            }
        }
    }
}

/// A refusal with where it comes from.
struct Denied<'a> {
    policy: &'a str,
    binding: Option<&'a str>,
    refusal: Refusal,
}

impl Policies {
    pub(in super::super) fn new(lag: AdmissionLag, clock: Clock) -> Self {
        Self {
            lag,
            started: clock(),
            clock,
            looked: 0,
            dirty: false,
            hooks: Arc::default(),
            params: BTreeMap::new(),
        }
    }

    /// Is told of every write before it is done: what is in force now was there when last looked at.
    pub(in super::super) fn before(&mut self, resource: &Resource, store: &Store, registry: &Registry) {
        if *resource == POLICIES || *resource == BINDINGS {
            self.look(store, registry);
        }
    }

    /// Is told of every write that was done; no object means that it is gone.
    pub(in super::super) fn after(&mut self, resource: &Resource, key: &Key, object: Option<&Object>) {
        if *resource == POLICIES || *resource == BINDINGS {
            self.dirty = true;
        }
        if let Some(params) = self.params.get_mut(resource) {
            let seen_at = (self.clock)()
                .checked_add(self.lag.params)
                .unwrap_or(Timestamp::MAX);
            params.coming.push_back((seen_at, key.clone(), object.cloned()));
        }
    }

    /// Says whether a write may be done, and what the writer is warned of.
    pub(in super::super) fn review(
        &mut self,
        attributes: &Attributes<'_>,
        store: &Store,
        registry: &Registry,
    ) -> Result<Vec<String>, Status> {
        self.look(store, registry);
        if self.hooks.is_empty() || is_exempt(attributes.resource()) {
            return Ok(Vec::new());
        }
        let now = (self.clock)();
        for params in self.params.values_mut() {
            params.catch_up(now);
        }
        let mut review = Review {
            attributes,
            namespace: namespace_of(attributes, store),
            params: &self.params,
            denied: Vec::new(),
            warnings: Vec::new(),
        };
        let hooks = Arc::clone(&self.hooks);
        for hook in hooks.iter() {
            review.ask(hook);
        }
        match review.denied.into_iter().next() {
            None => Ok(review.warnings),
            Some(denied) => Err(denied.status(attributes)),
        }
    }

    /// Looks at the policies again if it is time.
    fn look(&mut self, store: &Store, registry: &Registry) {
        if !self.dirty {
            return;
        }
        let interval = self.lag.policies.as_millis();
        if interval > 0 {
            let passed = (self.clock)().duration_since(self.started).as_millis();
            let due = i64::try_from(passed / interval).unwrap_or(i64::MAX);
            if due <= self.looked {
                return;
            }
            self.looked = due;
        }
        let hooks: Vec<Hook> = hooks(store, registry);
        // Parameters that can't be found are looked for again.
        self.dirty = hooks.iter().any(|hook| hook.misconfigured.is_some());
        let sources: BTreeMap<Resource, Source> = hooks
            .iter()
            .filter_map(|hook| hook.params.clone())
            .map(|source| (source.resource.clone(), source))
            .collect();
        self.params.retain(|resource, _| sources.contains_key(resource));
        for resource in sources.into_keys() {
            self.params.entry(resource).or_insert_with_key(|resource| {
                let objects = store.scan(resource, None);
                Params {
                    seen: objects.map(|(key, object)| (key.clone(), object)).collect(),
                    coming: VecDeque::new(),
                }
            });
        }
        self.hooks = hooks.into();
    }
}

/// Returns every policy that has a binding.
fn hooks(store: &Store, registry: &Registry) -> Vec<Hook> {
    let mut bindings = BTreeMap::<String, Vec<Binding>>::new();
    for (_, object) in store.scan(&BINDINGS, None) {
        let binding = Binding::of(&object);
        bindings.entry(binding.policy.clone()).or_default().push(binding);
    }
    let mut hooks = Vec::new();
    for (_, object) in store.scan(&POLICIES, None) {
        let policy = Policy::of(&object);
        let Some(bindings) = bindings.remove(&policy.name) else {
            continue;
        };
        let wanted = policy.params.as_ref();
        let params = wanted.and_then(|wanted| {
            let kind = registry.kinds().find(|kind| {
                kind.group() == wanted.group
                    && kind.kind == wanted.kind
                    && kind.served(&wanted.version).is_some()
            })?;
            Some(Source {
                resource: kind.resource.clone(),
                kind: Arc::clone(kind),
                namespaced: kind.namespaced,
            })
        });
        let misconfigured = wanted.filter(|_| params.is_none()).map(|wanted| {
            format!(
                "failed to find resource referenced by paramKind: '{}/{}, Kind={}'",
                wanted.group, wanted.version, wanted.kind
            )
        });
        hooks.push(Hook {
            policy,
            bindings,
            params,
            misconfigured,
        });
    }
    hooks
}

/// Policies have no say about what governs admission itself.
fn is_exempt(resource: &Resource) -> bool {
    resource.group == "admissionregistration.k8s.io"
}

/// Returns the namespace in which a write happens; that of a namespace itself is what it is going to be.
fn namespace_of(attributes: &Attributes<'_>, store: &Store) -> Option<Object> {
    if attributes.resource() == &NAMESPACES {
        return attributes.object.or(attributes.old).cloned();
    }
    store.get(&NAMESPACES, &Key::new(None, attributes.namespace))
}

/// One write before all policies.
struct Review<'a> {
    attributes: &'a Attributes<'a>,
    namespace: Option<Object>,
    params: &'a BTreeMap<Resource, Params>,
    denied: Vec<Denied<'a>>,
    warnings: Vec<String>,
}

impl<'a> Review<'a> {
    fn ask(&mut self, hook: &'a Hook) {
        let labels = self
            .namespace
            .as_ref()
            .and_then(|namespace| namespace["metadata"].get("labels"));
        let Some(version) = hook.policy.constraints.matches(self.attributes, labels) else {
            return;
        };
        if let Some(why) = &hook.misconfigured {
            self.misconfigured(hook, None, format!("failed to configure policy: {why}"));
            return;
        }
        let subject = OnceCell::new();
        for binding in &hook.bindings {
            let labels = self
                .namespace
                .as_ref()
                .and_then(|namespace| namespace["metadata"].get("labels"));
            let meant = binding
                .resources
                .as_ref()
                .is_none_or(|resources| resources.matches(self.attributes, labels).is_some());
            if !meant {
                continue;
            }
            match self.parameters(hook, binding) {
                Ok(parameters) => {
                    let namespace = self.shown_namespace();
                    for params in parameters {
                        let subject =
                            subject.get_or_init(|| Subject::new(&hook.policy, self.attributes, &version));
                        let verdict = hook.policy.evaluate(subject, &params, &namespace);
                        self.tell(hook, binding, verdict);
                    }
                }
                Err(why) => {
                    self.misconfigured(hook, Some(binding), format!("failed to configure binding: {why}"));
                }
            }
        }
    }

    fn misconfigured(&mut self, hook: &'a Hook, binding: Option<&'a Binding>, message: String) {
        if let Some(refusal) = hook.policy.failure(message) {
            self.deny(hook, binding, refusal);
        }
    }

    fn deny(&mut self, hook: &'a Hook, binding: Option<&'a Binding>, refusal: Refusal) {
        self.denied.push(Denied {
            policy: &hook.policy.name,
            binding: binding.map(|binding| binding.name.as_str()),
            refusal,
        });
    }

    /// Returns the parameters with which a binding asks; `null` where there are none to have.
    fn parameters(&self, hook: &Hook, binding: &Binding) -> Result<Vec<Object>, String> {
        let (Some(source), Some(reference)) = (&hook.params, &binding.params) else {
            return Ok(vec![Object::default()]);
        };
        let namespace = self.namespace_of_params(source, reference)?;
        let seen = self.params.get(&source.resource).map(|params| &params.seen);
        let wanted = |(key, object): &(&Key, &Object)| {
            namespace.is_none_or(|namespace| key.namespace == namespace)
                && (reference.name.is_empty() || key.name == reference.name)
                && reference
                    .selector
                    .as_ref()
                    .is_none_or(|selector| selector.selects(object))
        };
        let version = hook
            .policy
            .params
            .as_ref()
            .map_or("", |kind| kind.version.as_str());
        let found: Vec<Object> = seen
            .into_iter()
            .flatten()
            .filter(wanted)
            .map(|(_, object)| owners::unpacked(&registry::convert(&source.kind, object, version)))
            .collect();
        if found.is_empty() && reference.deny_when_missing {
            let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(why.to_owned());
        }
        Ok(found)
    }

    fn namespace_of_params<'b>(
        &'b self,
        source: &Source,
        reference: &'b ParamRef,
    ) -> Result<Option<&'b str>, String> {
        match (source.namespaced, reference.namespace.as_str()) {
            (false, "") => Ok(None),
            (false, _) => {
                Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned())
            }
            (true, "") if self.attributes.namespace.is_empty() => Err(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                    .to_owned(),
            ),
            (true, "") => Ok(Some(self.attributes.namespace)),
            (true, namespace) => Ok(Some(namespace)),
        }
    }

    /// Returns what expressions see of the namespace that a write is in.
    fn shown_namespace(&self) -> Value {
        match &self.namespace {
            Some(namespace) if self.attributes.resource() != &NAMESPACES => shown_namespace(namespace),
            _ => Value::Null,
        }
    }

    fn tell(&mut self, hook: &'a Hook, binding: &'a Binding, verdict: PolicyResult) {
        for refusal in verdict.failed {
            if binding.warn {
                let warning = format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                    hook.policy.name, binding.name, refusal.message
                );
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
            }
            if binding.deny {
                self.deny(hook, Some(binding), refusal);
            }
        }
        for refusal in verdict.denied {
            self.deny(hook, Some(binding), refusal);
        }
    }
}

/// Returns what expressions see of a namespace: neither its type nor who wrote what.
fn shown_namespace(namespace: &Value) -> Value {
    let mut shown = namespace.clone();
    if let Some(fields) = shown.as_object_mut() {
        fields.shift_remove("apiVersion");
        fields.shift_remove("kind");
    }
    if let Some(metadata) = shown["metadata"].as_object_mut() {
        metadata.shift_remove("managedFields");
        metadata.shift_remove("ownerReferences");
    }
    shown
}

impl Denied<'_> {
    fn status(self, attributes: &Attributes<'_>) -> Status {
        let policy = self.policy;
        let whence = match self.binding {
            Some(binding) => format!("ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"),
            None => format!("ValidatingAdmissionPolicy '{policy}'"),
        };
        let message = format!("{whence} denied request: {}", self.refusal.message);
        let code = match self.refusal.reason {
            Reason::Forbidden => 403,
            Reason::Unauthorized => 401,
            Reason::RequestEntityTooLarge => 413,
            _ => 422,
        };
        let status = Status::forbidden(attributes.resource(), attributes.shown_name(), &message);
        Status {
            code,
            reason: self.refusal.reason,
            ..status
        }
        .with_causes(vec![Cause::new("", message, "")])
    }
}
