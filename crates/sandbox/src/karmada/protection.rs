//! Karmada's admission webhooks, and what its own API server fills in of clusters: what they add, and what they refuse.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::kinds::{BINDINGS, CLUSTER_BINDINGS, CLUSTER_POLICIES, CLUSTERS, OVERRIDES, POLICIES, WORKS};
use super::manifest::stamp;
use super::objects;
use crate::api::{Admission, Operation, Review, Status};
use crate::clock::Clock;
use cutover_karmada::meta::{
    BINDING_ID, CLUSTER_BINDING_ID, CLUSTER_POLICY_FINALIZER, CLUSTER_POLICY_ID, DELETION_PROTECTED,
    POLICY_FINALIZER, POLICY_ID, PROTECTED_ALWAYS, WORK_ID,
};

/// The webhooks of one control plane.
#[derive(Debug)]
pub struct Webhooks {
    random: Mutex<fastrand::Rng>,
    clock: Clock,
}

impl Webhooks {
    /// The permanent ids come from the seed.
    pub fn new(seed: u64, clock: Clock) -> Self {
        Self {
            random: Mutex::new(fastrand::Rng::with_seed(seed ^ 0x7765_6268_6f6f_6b73)),
            clock,
        }
    }

    fn id(&self) -> String {
        let bits = self
            .random
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .u128(..);
        // The version and variant of a random UUID.
        let bits = bits & !(0xf << 76) | (0x4 << 76);
        let bits = bits & !(0x3 << 62) | (0x2 << 62);
        let text = format!("{bits:032x}");
        [
            &text[..8],
            &text[8..12],
            &text[12..16],
            &text[16..20],
            &text[20..],
        ]
        .join("-")
    }

    fn identify(&self, object: &mut Value, label: &str) {
        if objects::label(object, label).is_none_or(str::is_empty) {
            objects::set_label(object, label, &self.id());
        }
    }

    fn policy(&self, policy: &mut Value, review: &Review<'_>) -> Result<(), Status> {
        let namespaced = *review.resource == POLICIES;
        let (webhook, label, finalizer) = if namespaced {
            ("propagationpolicy.karmada.io", POLICY_ID, POLICY_FINALIZER)
        } else {
            (
                "clusterpropagationpolicy.karmada.io",
                CLUSTER_POLICY_ID,
                CLUSTER_POLICY_FINALIZER,
            )
        };
        if namespaced {
            default_namespaces(policy, review.namespace);
        }
        default_placement(policy);
        default_grace_period(policy);
        if review.operation == Operation::Create {
            objects::set_label(policy, label, &self.id());
            add_finalizer(policy, finalizer);
        }
        let fails_over = policy
            .pointer("/spec/failover/application")
            .is_some_and(|failover| !failover.is_null());
        if fails_over && policy.pointer("/spec/propagateDeps") != Some(&json!(true)) {
            let why = "spec.propagateDeps: Invalid value: false: application failover is set, propagateDeps must be true";
            return Err(Status::denied(webhook, why));
        }
        Ok(())
    }

    /// Notes of taints that evict when they came: by that it is told how long they are tolerated still.
    fn cluster(&self, cluster: &mut Value) {
        let taints = cluster.pointer_mut("/spec/taints").and_then(Value::as_array_mut);
        for taint in taints.into_iter().flatten() {
            let is_noted = taint.get("timeAdded").is_some_and(|time| !time.is_null());
            if objects::text(taint, "/effect") == "NoExecute" && !is_noted {
                taint["timeAdded"] = objects::time(self.clock.now());
            }
        }
    }

    fn work(&self, work: &mut Value) {
        self.identify(work, WORK_ID);
        let owner = work.clone();
        let manifests = work
            .pointer_mut("/spec/workload/manifests")
            .and_then(Value::as_array_mut);
        for manifest in manifests.into_iter().flatten() {
            stamp(manifest, &owner);
        }
    }
}

impl Admission for Webhooks {
    fn review(&self, review: &Review<'_>) -> Result<Option<Value>, Status> {
        if review.subresource.is_some() {
            return Ok(None);
        }
        let Some(new) = review.new else {
            return if review.old.is_some_and(is_protected) {
                Err(protected())
            } else {
                Ok(None)
            };
        };
        let mut object = new.clone();
        match review.resource {
            resource if *resource == POLICIES || *resource == CLUSTER_POLICIES => {
                self.policy(&mut object, review)?;
            }
            resource if *resource == OVERRIDES => {
                default_namespaces(&mut object, review.namespace);
                // The webhook writes the policy from a struct in which the old form of a rule is always there.
                objects::fields(&mut object["spec"])
                    .entry("overriders")
                    .or_insert_with(|| json!({}));
            }
            resource if *resource == BINDINGS => self.identify(&mut object, BINDING_ID),
            resource if *resource == CLUSTER_BINDINGS => self.identify(&mut object, CLUSTER_BINDING_ID),
            resource if *resource == WORKS => self.work(&mut object),
            resource if *resource == CLUSTERS => self.cluster(&mut object),
            _ => return Ok(None),
        }
        Ok((object != *new).then_some(object))
    }
}

fn is_protected(object: &Value) -> bool {
    objects::label(object, DELETION_PROTECTED) == Some(PROTECTED_ALWAYS)
}

fn protected() -> Status {
    let why =
        format!("This resource is protected, please make sure to remove the label: {DELETION_PROTECTED}");
    Status::denied("resourcedeletionprotection.karmada.io", &why)
}

fn default_namespaces(policy: &mut Value, namespace: Option<&str>) {
    let selectors = policy
        .pointer_mut("/spec/resourceSelectors")
        .and_then(Value::as_array_mut);
    for selector in selectors.into_iter().flatten() {
        if objects::text(selector, "/namespace").is_empty() {
            selector["namespace"] = json!(namespace.unwrap_or_default());
        }
    }
}

fn default_placement(policy: &mut Value) {
    let placement = objects::fields(&mut policy["spec"])
        .entry("placement")
        .or_insert_with(|| json!({}));
    let constraints = placement
        .get_mut("spreadConstraints")
        .and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten() {
        let named = |field| !objects::text(constraint, field).is_empty();
        if !named("/spreadByField") && !named("/spreadByLabel") {
            constraint["spreadByField"] = json!("cluster");
        }
        if constraint
            .get("minGroups")
            .and_then(Value::as_i64)
            .unwrap_or_default()
            == 0
        {
            constraint["minGroups"] = json!(1);
        }
    }
    if let Some(scheduling) = placement
        .get_mut("replicaScheduling")
        .filter(|scheduling| scheduling.is_object())
    {
        let divided = matches!(
            objects::text(scheduling, "/replicaSchedulingType"),
            "" | "Divided"
        );
        if divided && objects::text(scheduling, "/replicaDivisionPreference").is_empty() {
            scheduling["replicaDivisionPreference"] = json!("Weighted");
        }
    }
}

fn default_grace_period(policy: &mut Value) {
    let Some(failover) = policy
        .pointer_mut("/spec/failover/application")
        .filter(|failover| failover.is_object())
    else {
        return;
    };
    let gracefully = matches!(
        objects::text(failover, "/purgeMode"),
        "" | "Gracefully" | "Graciously"
    );
    if gracefully && failover.get("gracePeriodSeconds").is_none_or(Value::is_null) {
        failover["gracePeriodSeconds"] = json!(600);
    }
}

fn add_finalizer(object: &mut Value, finalizer: &str) {
    if objects::has_finalizer(object, finalizer) {
        return;
    }
    match object
        .pointer_mut("/metadata/finalizers")
        .and_then(Value::as_array_mut)
    {
        Some(finalizers) => finalizers.push(json!(finalizer)),
        None => object["metadata"]["finalizers"] = json!([finalizer]),
    }
}
