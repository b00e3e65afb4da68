//! The gate as far as files tell: what a change of files would do to workloads with state, were they placed as the files of
//! before ask. No file says where a workload runs: whatever its policy allows is gone through, and what comes to harm in
//! some of these places only is told as what it is, a doubt.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::state::profiles;
use crate::api::{GROUP, PolicyName, WorkloadProfile};
use crate::config::{Config, Migrations, UnknownKinds};
use crate::finding::{Code, Finding};
use crate::intent::driven;
use crate::intent::gate::{
    ACCEPT_ANNOTATION, Fate, Ground, Loss, State, Tenant, Write, cluster_name, deletion, labels, policy_name,
    state_of,
};
use crate::manifest::{Manifest, Set};
use crate::profile::{self, Immovable};
use cutover_karmada::name::{ClusterName, Gvk, Location, ObjectKey};
use cutover_karmada::{Cluster, ClusterAffinity, Placement, PropagationSpec, ResourceSelector, meta};

const POLICY_GROUP: &str = "policy.karmada.io";
const CLUSTER_GROUP: &str = "cluster.karmada.io";
/// Stands for a cluster of which no file has the name.
const SOMEWHERE: &str = "the cluster that it runs in";
/// How many places of one workload are gone through.
const PLACES: usize = 16;

/// The files of a repository at one time.
#[derive(Clone, Copy, Debug)]
pub struct Revision<'a> {
    pub config: &'a Config,
    pub set: &'a Set,
}

/// Returns what a change of files would cost workloads with state, if they ran as the files of `before` ask.
pub fn compare(before: Revision<'_>, after: Revision<'_>) -> Vec<Finding> {
    let writes = writes(before, after);
    if writes.is_empty() {
        return Vec::new();
    }
    let ground = ground(before, after);
    // One that comes with the change counts: a Migration goes by it.
    let mut given = profiles(before.set);
    given.extend(profiles(after.set));
    let mut findings = Vec::new();
    for (tenant, places) in tenants(before, &ground, after) {
        let mut told: BTreeMap<usize, Vec<Option<Loss>>> = BTreeMap::new();
        let mut lost = BTreeSet::new();
        let known = immovable(&given, &tenant);
        for place in &places.all {
            for (number, costs) in costs(placed(&ground, &tenant, place), &writes) {
                if !costs.is_moved || costs.loss.is_some() && known.is_some() {
                    lost.insert(number);
                }
                told.entry(number).or_default().push(costs.loss);
            }
        }
        for number in lost {
            if let (Some(asked), Some(losses)) = (writes.get(number), told.get(&number)) {
                findings.extend(finding(asked, losses, places.is_certain, known));
            }
        }
    }
    findings
}

/// A write of sync that the change of files asks for, and where that is said.
struct Asked<'a> {
    write: Write,
    what: ObjectKey,
    at: Location,
    accepted: Option<String>,
    /// How its sync sets Migrations off, and the policy that says so too.
    moves: Option<(&'a Migrations, &'a Value)>,
}

impl Asked<'_> {
    /// Returns whether a Migration carries out what would cost the one workload of a ground its state. `all`: of the change of files.
    fn sets_off(&self, ground: &Ground, losses: &[Loss], all: &[Asked<'_>]) -> bool {
        let (Some((settings, manifest)), Write::Policy(name, spec)) = (self.moves, &self.write) else {
            return false;
        };
        let goes = |tenant: &Tenant, policy: &PolicyName| {
            all.iter().any(|asked| match &asked.write {
                Write::Policy(name, spec) if name == policy => spec.as_ref().is_none_or(|spec| {
                    ResourceSelector::closest(&spec.resource_selectors, &tenant.template).is_none()
                }),
                _ => false,
            })
        };
        let is_move = |loss: &Loss| match &loss.fate {
            Fate::Moves { stops, starts } if stops.len() == 1 => {
                starts.len() == 1 || starts.len() > 1 && keeps_one(&loss.placement)
            }
            _ => false,
        };
        ground.tenants.iter().all(|tenant| {
            let by = ground.placing(tenant, (name, spec.as_deref()), settings.preemption, |own| {
                goes(tenant, own)
            });
            let is_by = |loss: &Loss| matches!(by, Ok(Some((_, spec))) if loss.is_by(spec));
            driven::is_automatic(settings, manifest, Some(&tenant.template))
                && losses.iter().all(|loss| is_move(loss) && is_by(loss))
        })
    }
}

/// Returns whether a workload stays in whichever of the clusters it was moved to, for all that files say.
fn keeps_one(placement: &Value) -> bool {
    serde_json::from_value::<Placement>(placement.clone()).is_ok_and(|placement| {
        let limit = placement.cluster_constraint();
        placement.spread_constraints.len() == 1
            && limit.is_some_and(|limit| limit.max_groups == 1)
            && !placement.divides()
    })
}

/// Where a workload may run.
struct Places {
    all: Vec<Vec<ClusterName>>,
    /// Nothing but the files would have to be known.
    is_certain: bool,
}

/// What a write costs the one workload of a ground.
struct Costs {
    loss: Option<Loss>,
    /// Nothing, or a Migration carries it out.
    is_moved: bool,
}

/// Returns what becomes of the one workload by each of the writes, in the order in which sync sends them.
fn costs(mut ground: Ground, writes: &[Asked<'_>]) -> Vec<(usize, Costs)> {
    let pass = |(number, asked): (usize, &Asked<'_>)| {
        let losses = match ground.pass(&asked.write, asked.accepted.as_deref()) {
            Ok(doubts) => doubts.0,
            Err(refused) => refused.losses,
        };
        let is_moved = losses.is_empty() || asked.sets_off(&ground, &losses, writes);
        let loss = losses.into_iter().next();
        (number, Costs { loss, is_moved })
    };
    writes.iter().enumerate().map(pass).collect()
}

/// Returns why the kind of a workload cannot be moved with its state, if it cannot.
fn immovable(given: &[WorkloadProfile], tenant: &Tenant) -> Option<&'static Immovable> {
    let resource = &tenant.binding.spec.resource;
    let gvk = Gvk::new(&resource.api_version, &resource.kind);
    profile::immovable(given, &gvk).ok().flatten()
}

/// `known`: of the kind of the workload, if that cannot be moved.
fn finding(
    asked: &Asked<'_>,
    losses: &[Option<Loss>],
    is_certain: bool,
    known: Option<&Immovable>,
) -> Option<Finding> {
    let lost: Vec<&Loss> = losses.iter().flatten().collect();
    let first = lost.first()?;
    let ends = lost.len() == losses.len() && lost.iter().all(|loss| loss.fate == Fate::Ends);
    // Which clusters labels choose, files do not say.
    let by_name = |loss: &Loss| {
        let placement = serde_json::from_value::<Placement>(loss.placement.clone());
        placement.is_ok_and(|placement| names(&placement).is_some())
    };
    let is_clear = |loss: &&Loss| !matches!(loss.fate, Fate::Unclear { .. }) && by_name(loss);
    let all_lose = lost.len() == losses.len() && lost.iter().all(is_clear);
    let what = if asked.write.is_deletion() {
        format!("{} is deleted", asked.what)
    } else {
        asked.what.to_string()
    };
    let loss = first.describe(known);
    let way = first
        .way_out_with(known)
        .unwrap_or_else(|| "keep it, if the workload is still needed".to_owned());
    if first.is_doubt() {
        let message = format!("{what}: {loss}; whether that loses state is not known");
        let hint =
            "write one (see docs/reference/profiles.md), or let it be held back: gate: {unknownKinds: Block}";
        return Some(Finding::new(Code::MayLoseState, asked.at.clone(), message).hint(hint));
    }
    if ends || all_lose && is_certain {
        let message = format!("{what}: {loss}");
        let hint = format!("{way}; `cutover plan` says how to accept that");
        return Some(Finding::new(Code::LosesState, asked.at.clone(), message).hint(hint));
    }
    let message = format!(
        "{what}: files do not tell where {} runs; if not elsewhere, {loss}",
        first.workload
    );
    let hint = format!("ask the control plane: cutover plan; {way}");
    Some(Finding::new(Code::MayLoseState, asked.at.clone(), message).hint(hint))
}

/// What sync would write: policies and labels first, and what is deleted last.
fn writes<'a>(before: Revision<'a>, after: Revision<'a>) -> Vec<Asked<'a>> {
    let old: BTreeMap<ObjectKey, &Manifest> = before.objects().collect();
    let mut written = Vec::new();
    for (key, now) in after.objects() {
        let was = old.get(&key).copied();
        let write = match written_by(&key, was, now) {
            Some(write) if !has_new_word(was, now) => write,
            _ => continue,
        };
        written.push(Asked {
            at: now.location(match write {
                Write::Policy(..) => "/spec/placement",
                _ => "/metadata/labels",
            }),
            moves: moves_of(after.config, &write, now),
            write,
            what: key,
            accepted: None,
        });
    }
    // Nothing is pruned while it isn't known all that Git wants.
    if after.set.errors().next().is_some() {
        return written;
    }
    let there: BTreeSet<ObjectKey> = after.objects().map(|(key, _)| key).collect();
    for (key, was) in old {
        let sync = after.config.sync_of(&was.source.path);
        let is_pruned = sync.is_some_and(|sync| sync.prune) && !there.contains(&key);
        if let Some(write) = is_pruned.then(|| deletion(&key, Some(&was.value))).flatten() {
            written.push(Asked {
                moves: moves_of(after.config, &write, was),
                write,
                what: key,
                at: was.source.clone(),
                accepted: word(was).map(str::to_owned),
            });
        }
    }
    written
}

fn moves_of<'a>(config: &'a Config, write: &Write, now: &'a Manifest) -> Option<(&'a Migrations, &'a Value)> {
    let sync = config.sync_of(&now.source.path)?;
    matches!(write, Write::Policy(..)).then_some((&sync.gate.migrations, &now.value))
}

fn written_by(key: &ObjectKey, was: Option<&Manifest>, now: &Manifest) -> Option<Write> {
    if was.is_some_and(|was| was.value == now.value) {
        return None;
    }
    if let Some(name) = policy_name(key) {
        return Some(Write::Policy(name, Some(Box::new(policy(now)?))));
    }
    if let Some(name) = cluster_name(key) {
        let cluster = serde_json::from_value(now.value.clone()).ok()?;
        return Some(Write::Cluster(name, Some(cluster)));
    }
    let (labels, relabelled) = (labels(&now.value), labels(&was?.value));
    (labels != relabelled).then(|| Write::Labels(key.clone(), labels))
}

/// Somebody accepts what comes of this change: what exactly, plan and run look at.
fn has_new_word(was: Option<&Manifest>, now: &Manifest) -> bool {
    word(now).is_some_and(|said| was.and_then(word) != Some(said))
}

fn word(object: &Manifest) -> Option<&str> {
    object
        .value
        .pointer("/metadata/annotations")?
        .get(ACCEPT_ANNOTATION)?
        .as_str()
}

/// What places workloads before the change, and every cluster that a file names.
fn ground(before: Revision<'_>, after: Revision<'_>) -> Ground {
    let mut clusters: BTreeMap<ClusterName, Cluster> = BTreeMap::new();
    let mut policies = BTreeMap::new();
    for (revision, is_before) in [(before, true), (after, false)] {
        for (key, object) in revision.objects() {
            if let Some((name, spec)) = policy_name(&key).zip(policy(object)) {
                let affinities = affinities(&spec.placement);
                let named = affinities
                    .iter()
                    .filter_map(|affinity| affinity.cluster_names.as_ref());
                clusters.extend(
                    named
                        .flatten()
                        .filter_map(|name| Some((name.clone(), made_up(name)?))),
                );
                if is_before {
                    policies.insert(name, spec);
                }
            }
        }
    }
    clusters.extend([ClusterName::new(SOMEWHERE)].into_iter().filter_map(|name| {
        let cluster = made_up(&name)?;
        Some((name, cluster))
    }));
    for (key, object) in before.objects() {
        if let Some((name, cluster)) =
            cluster_name(&key).zip(serde_json::from_value(object.value.clone()).ok())
        {
            clusters.insert(name, cluster);
        }
    }
    Ground {
        tenants: Vec::new(),
        clusters,
        policies,
        ..Ground::default()
    }
}

/// A cluster of which only the name is known: it takes whatever names it.
fn made_up(name: &ClusterName) -> Option<Cluster> {
    serde_json::from_value(json!({
        "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": {"name": name},
        "spec": {"syncMode": "Push", "provider": "any", "region": "any", "zones": ["any"]},
    }))
    .ok()
}

/// Returns the workloads with state that a policy of before places, and where each may run.
fn tenants(before: Revision<'_>, ground: &Ground, after: Revision<'_>) -> Vec<(Tenant, Places)> {
    let given = profiles(before.set);
    let mut known = BTreeMap::new();
    let mut tenants = Vec::new();
    for (key, object) in before.objects() {
        let unknown = before
            .config
            .sync_of(&object.source.path)
            .map_or(UnknownKinds::default(), |sync| sync.gate.unknown_kinds);
        let state = *known
            .entry((object.gvk.clone(), unknown == UnknownKinds::Block))
            .or_insert_with(|| state_of(&given, &object.gvk, unknown).unwrap_or(State::None));
        if state == State::None || matches!(key.group.as_str(), "" | POLICY_GROUP | GROUP | CLUSTER_GROUP) {
            continue;
        }
        let Some(mut tenant) = tenant(&key, object) else {
            continue;
        };
        let Some((owner, spec)) = ground.policy_of(&tenant) else {
            continue;
        };
        let mut places = places(&tenant, spec, after);
        places.is_certain &= state == State::Kept;
        tenant.state = state;
        tenant.binding.spec.placement = Some(spec.placement.clone());
        tenant
            .binding
            .spec
            .scheduler_name
            .clone_from(&spec.scheduler_name);
        tenant.owner = Some(owner.clone());
        tenants.push((tenant, places));
    }
    tenants
}

fn tenant(key: &ObjectKey, object: &Manifest) -> Option<Tenant> {
    let namespace = key.namespace.as_deref();
    let template = object.clone().in_namespace(namespace).value;
    let binding = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": meta::binding_name(&key.name, &key.kind), "namespace": namespace},
        "spec": {
            "resource": {
                "apiVersion": object.gvk.api_version(), "kind": key.kind, "namespace": namespace, "name": key.name,
            },
            "replicas": template.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1),
        },
    });
    Some(Tenant {
        workload: key.clone(),
        template,
        binding: serde_json::from_value(binding).ok()?,
        owner: None,
        state: State::Kept,
        in_hand: None,
    })
}

/// Returns the ground with one workload, which runs in these clusters. Every cluster serves its kind.
fn placed(ground: &Ground, tenant: &Tenant, place: &[ClusterName]) -> Ground {
    let (mut ground, mut tenant) = (ground.clone(), tenant.clone());
    let resource = &tenant.binding.spec.resource;
    let serves = json!([{"groupVersion": resource.api_version, "resources": [{"name": resource.kind, "kind": resource.kind}]}]);
    for name in place {
        if let Some(cluster) = made_up(name) {
            ground.clusters.entry(name.clone()).or_insert(cluster);
        }
    }
    for cluster in ground.clusters.values_mut() {
        let status = cluster.status.get_or_insert_default();
        status.api_enablements = serde_json::from_value(serves.clone()).unwrap_or_default();
    }
    let targets = place
        .iter()
        .filter_map(|name| serde_json::from_value(json!({"name": name})).ok());
    tenant.binding.spec.clusters = targets.collect();
    ground.tenants = vec![tenant];
    ground
}

/// Goes by what the policy allows; where a migration is asked for, it has gone, or goes, to the target of that: until then
/// sync leaves the policy alone.
fn places(tenant: &Tenant, spec: &PropagationSpec, after: Revision<'_>) -> Places {
    let (mut moved, mut others) = (BTreeSet::new(), false);
    for (key, intent) in after.objects().filter(|(key, _)| key.group == GROUP) {
        let text = |pointer: &str| intent.value.pointer(pointer).and_then(Value::as_str);
        let is_off = intent.value.pointer("/spec/abort") == Some(&Value::Bool(true));
        let is_meant = key.namespace == tenant.workload.namespace
            && text("/spec/workload/kind") == Some(&tenant.workload.kind)
            && text("/spec/workload/name") == Some(&tenant.workload.name);
        match key.kind.as_str() {
            "Migration" if is_meant && !is_off => moved.extend(text("/spec/to").map(ClusterName::new)),
            // Any of these may have taken it elsewhere since.
            "FailoverPlan" | "Rollout" | "ReplicaShift" if is_meant => others = true,
            "Evacuation" | "Rebalance" if !is_off => others = true,
            _ => {}
        }
    }
    if !moved.is_empty() {
        return Places {
            all: moved.into_iter().map(|name| vec![name]).collect(),
            is_certain: !others,
        };
    }
    let one_of = |names: Vec<ClusterName>| names.into_iter().map(|name| vec![name]).collect();
    let constraint = spec.placement.cluster_constraint();
    let is_alone = constraint.is_some_and(|constraint| constraint.max_groups == 1);
    let all: Option<Vec<Vec<ClusterName>>> = match names(&spec.placement) {
        Some(names) if names.len() == 1 || is_alone => Some(one_of(names)),
        Some(names) if !spec.placement.divides() && constraint.is_none() => Some(vec![names]),
        _ => None,
    };
    let all = all.filter(|all| !all.is_empty() && all.len() <= PLACES);
    Places {
        is_certain: all.is_some() && !others,
        all: all.unwrap_or_else(|| vec![vec![ClusterName::new(SOMEWHERE)]]),
    }
}

fn affinities(placement: &Placement) -> Vec<&ClusterAffinity> {
    let terms = placement.cluster_affinities.iter().map(|term| &term.affinity);
    placement.cluster_affinity.iter().chain(terms).collect()
}

/// Returns the clusters that a placement chooses from, if it names them.
fn names(placement: &Placement) -> Option<Vec<ClusterName>> {
    let affinities = affinities(placement);
    if affinities.is_empty() {
        return None;
    }
    let mut all = BTreeSet::new();
    for affinity in affinities {
        if affinity.label_selector.is_some() || affinity.field_selector.is_some() {
            return None;
        }
        let named = affinity
            .cluster_names
            .as_ref()
            .filter(|names| !names.is_empty())?;
        let excluded = affinity.exclude.as_deref().unwrap_or_default();
        all.extend(named.iter().filter(|name| !excluded.contains(name)).cloned());
    }
    Some(all.into_iter().collect())
}

impl<'a> Revision<'a> {
    /// Returns every object, under the key that it has on the control plane.
    fn objects(self) -> impl Iterator<Item = (ObjectKey, &'a Manifest)> {
        self.set.definitions().map(move |object| {
            let mut key = object.key.clone();
            let is_wide = matches!(key.group.as_str(), CLUSTER_GROUP | "apiextensions.k8s.io")
                || matches!(
                    key.kind.as_str(),
                    "Namespace" | "ClusterPropagationPolicy" | "Evacuation" | "Rebalance"
                );
            if key.namespace.is_none() && !is_wide {
                let sync = self.config.sync_of(&object.source.path);
                let namespace = sync.and_then(|sync| sync.namespace.clone());
                key.namespace = Some(namespace.unwrap_or_else(|| "default".to_owned()));
            }
            (key, &**object)
        })
    }
}

/// What can't be read is the schema's to tell.
fn policy(object: &Manifest) -> Option<PropagationSpec> {
    serde_json::from_value(object.value.get("spec")?.clone()).ok()
}

#[cfg(test)]
mod tests;
