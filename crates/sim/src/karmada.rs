//! Karmada's controllers, each in steps that anything may come between: what one has computed it writes later, from what it
//! had read.

use cutover_karmada::name::ClusterName;
use cutover_karmada::{ClusterOverridePolicy, OverridePolicy, ResourceBinding, meta, overrides};
use serde_json::{Value, json};

use crate::flink::{Member, generation};
use crate::ledger::Ledger;
use crate::plane::Plane;

/// A Work that the binding controller has computed, and not written yet.
#[derive(Clone, Debug)]
pub struct Computed {
    pub cluster: ClusterName,
    work: Value,
    /// The Work that it is to replace, as it was read; `None`: there was none, and a creation has no precondition.
    over: Option<Value>,
}

/// What the controllers have heard of: each kind comes by a watch of its own, and in its own time.
#[derive(Clone, Debug, Default)]
pub struct Caches {
    pin: Option<OverridePolicy>,
    binding: Option<ResourceBinding>,
}

impl Caches {
    /// They hear of the pin as it is.
    pub fn hear_of_pin(&mut self, plane: &Plane) -> bool {
        let is_news = self.pin != plane.pin;
        self.pin.clone_from(&plane.pin);
        is_news
    }

    /// They hear of the binding as it is.
    pub fn hear_of_binding(&mut self, plane: &Plane) -> bool {
        let binding = plane.binding();
        let is_news = self.binding != binding;
        self.binding = binding;
        is_news
    }
}

/// Computes the Work of a cluster; `None`: it is as it should be, or the cluster isn't listed.
pub fn compute(plane: &Plane, caches: &Caches, cluster: &ClusterName) -> Option<Computed> {
    let binding = caches.binding.as_ref()?;
    let is_listed = binding
        .spec
        .synced_clusters()
        .iter()
        .any(|listed| listed.name == *cluster);
    if !is_listed {
        return None;
    }
    let template = plane.template.as_ref()?;
    let pins: Vec<OverridePolicy> = caches.pin.iter().cloned().collect();
    let wide: Vec<ClusterOverridePolicy> = Vec::new();
    let mut manifest = overrides::effective(template, plane.clusters.get(cluster)?, &wide, &pins).ok()?;
    let made_from = [
        (meta::TEMPLATE_GENERATION, generation(template).to_string()),
        (
            meta::TEMPLATE_UID,
            template["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        ),
    ];
    let metadata = manifest["metadata"].as_object_mut()?;
    for filled_in in ["uid", "generation", "resourceVersion", "creationTimestamp"] {
        metadata.remove(filled_in);
    }
    for (key, value) in made_from {
        manifest["metadata"]["annotations"][key] = value.into();
    }
    manifest["metadata"]["labels"][meta::MANAGED] = "true".into();
    let over = plane.works.get(cluster).cloned();
    let mut work = over.clone().unwrap_or_else(|| {
        json!({
            "apiVersion": "work.karmada.io/v1alpha1", "kind": "Work",
            "metadata": {"name": "orders", "namespace": format!("karmada-es-{cluster}"), "uid": "", "resourceVersion": ""},
        })
    });
    if !work["metadata"]["deletionTimestamp"].is_null() {
        return None;
    }
    let preserve = binding.spec.preserve_resources_on_deletion.unwrap_or_default();
    work["spec"] = json!({"workload": {"manifests": [manifest]}, "preserveResourcesOnDeletion": preserve});
    (over.as_ref() != Some(&work)).then_some(Computed {
        cluster: cluster.clone(),
        work,
        over,
    })
}

/// Writes what was computed: over the Work that was read, or as a new one.
pub fn write(plane: &mut Plane, computed: Computed) -> bool {
    let live = plane.works.get(&computed.cluster);
    let version = |work: &Value| work["metadata"]["resourceVersion"].clone();
    let may = match (live, &computed.over) {
        (None, None) => true,
        (Some(live), Some(over)) => version(live) == version(over),
        _ => false,
    };
    if !may {
        return false;
    }
    let mut work = computed.work;
    let next = plane.new_version();
    if computed.over.is_none() {
        work["metadata"]["uid"] = format!("work-{next}").into();
    }
    work["metadata"]["resourceVersion"] = next.into();
    plane.works.insert(computed.cluster, work);
    true
}

/// Tells Works to go whose clusters aren't listed any more.
pub fn remove_orphans(plane: &mut Plane) -> bool {
    let Some(binding) = plane.binding() else {
        return false;
    };
    let listed = binding.spec.synced_clusters();
    let next = plane.new_version();
    let mut removed = false;
    for (name, work) in &mut plane.works {
        let is_listed = listed.iter().any(|listed| listed.name == *name);
        if !is_listed && work["metadata"]["deletionTimestamp"].is_null() {
            work["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            work["metadata"]["resourceVersion"] = next.clone().into();
            removed = true;
        }
    }
    removed
}

/// Brings a member to what its Work says.
pub fn execute(plane: &mut Plane, member: &mut Member, ledger: &mut Ledger) -> bool {
    let Some(work) = plane.works.get(&member.name).filter(|_| member.reachable) else {
        return false;
    };
    if work["metadata"]["deletionTimestamp"].is_null() {
        return work
            .pointer("/spec/workload/manifests/0")
            .is_some_and(|manifest| member.apply(manifest));
    }
    if work["spec"]["preserveResourcesOnDeletion"] == true {
        if let Some(object) = &mut member.object {
            object["metadata"]["labels"] = json!({});
        }
    } else {
        member.delete(ledger);
    }
    plane.works.remove(&member.name);
    true
}

/// The scheduler looks at what it has not seen yet: the canary, the binding. Where the placement still fits nothing moves.
pub fn schedule(plane: &mut Plane) -> bool {
    if let Some(canary) = plane.canary.as_mut().filter(|canary| !canary.is_observed) {
        canary.is_observed = true;
        return true;
    }
    let Some(mut binding) = plane.binding.clone() else {
        return false;
    };
    if binding["spec"]["suspension"]["scheduling"] == true {
        return false;
    }
    let placed = binding["spec"]["clusters"].as_array().map_or(0, Vec::len);
    if placed > 1 {
        // It keeps one of those that are listed, whoever runs there.
        let mut clusters = binding["spec"]["clusters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        clusters.sort_by_key(|cluster| cluster["name"].as_str().unwrap_or_default().to_owned());
        if plane.keeps_last {
            clusters.reverse();
        }
        clusters.truncate(1);
        binding["spec"]["clusters"] = clusters.into();
        return plane.put_binding(binding);
    }
    let wanted = generation(&binding);
    if binding["status"]["schedulerObservedGeneration"] == wanted {
        return false;
    }
    binding["status"]["schedulerObservedGeneration"] = wanted.into();
    plane.put_binding(binding)
}
