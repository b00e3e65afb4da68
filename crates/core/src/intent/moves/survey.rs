//! Which of the workloads that are looked at can be moved, and which stay, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use super::{NotKnown, Snapshot};
use crate::api::{
    Finding, Means, Move, MoveState, MovesSpec, OWN_NAMESPACE, Stay, WorkloadName, WorkloadProfile,
};
use crate::intent::headroom::{Headroom, WorkloadToPlace};
use crate::intent::taint_eviction::{Turn, eviction_of, turn};
use crate::profile::{self, Profile};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{Cluster, LabelSelector, Placement, ResourceBinding};

/// Groups of which nothing runs. Of the core group neither pods nor what makes them count among these.
const INERT: [&str; 9] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "autoscaling",
    "discovery.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];
const CORE_THAT_RUNS: [&str; 4] = [
    "Pod",
    "ReplicationController",
    "PersistentVolumeClaim",
    "PersistentVolume",
];

/// What there is to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Survey {
    pub moves: Vec<Move>,
    pub stays: Vec<Stay>,
    pub findings: Vec<Finding>,
}

/// A workload that could be moved.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    pub workload: WorkloadName,
    pub means: Means,
    pub binding: &'a ResourceBinding,
    pub template: &'a Value,
    pub from: ClusterName,
}

impl Candidate<'_> {
    pub const fn candidate(&self) -> WorkloadToPlace<'_> {
        WorkloadToPlace {
            binding: self.binding,
            template: self.template,
            from: &self.from,
        }
    }

    fn turn(&self, clusters: &BTreeMap<ClusterName, Cluster>, now: Timestamp) -> Turn {
        let from = clusters.get(&self.from);
        let eviction = from.and_then(|from| eviction_of(self.binding, from, now));
        turn(eviction.as_ref(), self.workload.key())
    }

    /// Returns the move to a cluster, which has yet to begin.
    pub fn to(&self, to: Option<ClusterName>) -> Move {
        Move {
            workload: self.workload.clone(),
            from: self.from.clone(),
            to,
            means: self.means,
            state: MoveState::Waiting,
            checked: false,
            blocked: None,
            by: None,
            note: None,
            started_at: None,
            finished_at: None,
            eviction: None,
        }
    }

    pub fn stays(&self, why: Finding) -> Stay {
        Stay {
            workload: self.workload.clone(),
            cluster: self.from.clone(),
            why,
            runs: true,
        }
    }
}

/// What a workload comes to.
#[derive(Clone, Debug)]
pub enum Judged<'a> {
    Movable(Candidate<'a>),
    /// Its replicas may be divided among several clusters.
    Divided(Candidate<'a>),
    /// It has no state, and runs in several clusters, in each with all of its replicas.
    Duplicated(Candidate<'a>),
    Stays(Stay),
    /// Not selected, or no workload of its own.
    Ignored,
}

/// A selection as it is applied: read once.
#[derive(Debug)]
pub struct Chosen<'a> {
    spec: &'a MovesSpec,
    labels: Option<LabelSelector>,
    ranks: Vec<LabelSelector>,
}

impl<'a> Chosen<'a> {
    /// Returns the selection of a spec, or what is wrong with it.
    pub fn of(spec: &'a MovesSpec) -> Result<Self, Vec<Finding>> {
        let mut findings = Vec::new();
        let mut parse = |text: &str, field: &str| -> Option<LabelSelector> {
            text.parse()
                .map_err(|error| {
                    let hint = "write it as kubectl -l takes it: tier=critical,team in (a, b)";
                    findings.push(Finding::new("BadSelector", format!("{field}: {error}"), hint));
                })
                .ok()
        };
        let labels = spec.select.label_selector.as_deref();
        let labels = labels.and_then(|text| parse(text, "spec.select.labelSelector"));
        let ranks = spec
            .order
            .iter()
            .filter_map(|rank| parse(&rank.label_selector, "spec.order"))
            .collect();
        if findings.is_empty() {
            Ok(Self { spec, labels, ranks })
        } else {
            Err(findings)
        }
    }

    /// Returns whether kind and namespace are selected; labels are the template's, which may not have been read.
    fn may_take(&self, workload: &WorkloadName) -> bool {
        let gvk = workload.gvk();
        let namespace = workload.namespace.as_deref();
        self.spec.select.may_take(&gvk.group, &gvk.kind, namespace)
    }

    /// Returns where a workload stands in the order.
    fn rank(&self, template: &Value) -> usize {
        let labels = labels_of(template);
        let mut ranks = self.ranks.iter();
        ranks
            .position(|rank| rank.matches(&labels))
            .unwrap_or(self.ranks.len())
    }

    /// Sorts what moves into the order in which it does: of one rank, what has state goes first, for it has more to lose; of that, what
    /// Karmada evicts first.
    pub fn sort(
        &self,
        candidates: &mut [Candidate<'_>],
        clusters: &BTreeMap<ClusterName, Cluster>,
        now: Timestamp,
    ) {
        candidates.sort_by_cached_key(|one| {
            let has_none = one.means != Means::StopFirst;
            (self.rank(one.template), has_none, one.turn(clusters, now))
        });
    }
}

/// Judges every workload that a cluster holds, or all of them (`None`).
pub fn judge<'a>(
    snapshot: &'a Snapshot,
    chosen: &Chosen<'_>,
    clusters: &BTreeSet<ClusterName>,
) -> Result<Vec<Judged<'a>>, NotKnown> {
    let bindings = snapshot.bindings.get()?;
    let templates = snapshot.templates.get()?;
    let mut kinds = Kinds {
        profiles: snapshot.profiles.get()?,
        found: BTreeMap::new(),
    };
    let mut all = Vec::new();
    for binding in bindings {
        let mut there = binding.spec.clusters.iter().map(|target| &target.name);
        if let Some(from) = there.find(|name| clusters.contains(*name)) {
            all.push(judge_one(binding, from, chosen, templates, &mut kinds)?);
        }
    }
    Ok(all)
}

/// The profiles of kinds, each looked up once.
struct Kinds<'a> {
    profiles: &'a [WorkloadProfile],
    found: BTreeMap<Gvk, Result<Profile, Finding>>,
}

impl Kinds<'_> {
    /// Returns the profile of a kind, or why there isn't one.
    fn profile(&mut self, kind: &Gvk) -> Result<Result<Profile, Finding>, NotKnown> {
        if let Some(known) = self.found.get(kind) {
            return Ok(known.clone());
        }
        let unknown = |error: profile::Error| NotKnown(error.to_string());
        let ambiguous = profile::ambiguous(self.profiles, kind);
        let found = match (
            ambiguous,
            profile::find(self.profiles, None, kind).map_err(unknown)?,
        ) {
            (Some(ambiguous), _) => Err(ambiguous),
            (None, Some(found)) => {
                let name = found.metadata.name.as_deref().unwrap_or_default();
                Ok(Profile::compile(name, &found.spec).map_err(unknown)?)
            }
            (None, None) => Err(profile::no_profile(
                kind,
                &format!("how {kind} is moved"),
                "add a WorkloadProfile for this kind",
            )),
        };
        self.found.insert(kind.clone(), found.clone());
        Ok(found)
    }
}

/// Returns whether what a cluster reports of a copy is a run that has ended. What can't be judged hasn't.
fn has_ended(profile: &Profile, template: &Value, binding: &ResourceBinding, from: &ClusterName) -> bool {
    let mut reports = binding.status.iter().flat_map(|status| &status.aggregated_status);
    let report = reports.find(|report| report.cluster_name == *from);
    let Some(status) = report.and_then(|report| report.status.as_ref()) else {
        return false;
    };
    let mut copy = template.clone();
    copy["status"] = status.clone();
    profile.finished(&copy).unwrap_or(false)
}

/// What is to be done about something of which nothing runs.
const BY_POLICY: &str = "its policy says in which clusters it is";

#[expect(
    clippy::too_many_lines,
    reason = "one question after the other: the first answer counts"
)]
fn judge_one<'a>(
    binding: &'a ResourceBinding,
    from: &ClusterName,
    chosen: &Chosen<'_>,
    templates: &'a BTreeMap<ObjectKey, Value>,
    kinds: &mut Kinds<'_>,
) -> Result<Judged<'a>, NotKnown> {
    let workload = name_of(binding);
    let own = workload.namespace.as_deref() == Some(OWN_NAMESPACE);
    if own || binding.metadata.deletion_timestamp.is_some() || !chosen.may_take(&workload) {
        return Ok(Judged::Ignored);
    }
    let gvk = workload.gvk();
    let stays = |runs: bool, code: &str, message: String, hint: &str| {
        Judged::Stays(Stay {
            workload: workload.clone(),
            cluster: from.clone(),
            why: Finding::new(code, message, hint),
            runs,
        })
    };
    let template = templates.get(&workload.key());
    if let (Some(labels), Some(template)) = (&chosen.labels, template)
        && !labels.matches(&labels_of(template))
    {
        return Ok(Judged::Ignored);
    }
    let inert = INERT.contains(&gvk.group.as_str())
        || (gvk.group.is_empty() && !CORE_THAT_RUNS.contains(&gvk.kind.as_str()));
    if inert {
        let message = format!("a {} runs nothing: it stays as its policy has it", gvk.kind);
        return Ok(stays(false, "NothingRuns", message, BY_POLICY));
    }
    let profile = match kinds.profile(&gvk)? {
        Ok(profile) => profile,
        Err(why) => {
            return Ok(Judged::Stays(Stay {
                workload: workload.clone(),
                cluster: from.clone(),
                why,
                runs: true,
            }));
        }
    };
    if workload.namespace.is_none() {
        let message = "it is of cluster scope, and belongs to no namespace that its Migration could be in";
        let hint = "ask for its Migration by a file of its own";
        return Ok(stays(true, "ClusterScoped", message.to_owned(), hint));
    }
    // Whether the labels select one whose template is gone can't be told.
    let Some(template) = template else {
        let message = "its template is not in the Karmada API server".to_owned();
        return Ok(stays(true, "NoWorkload", message, "cutover checks again"));
    };
    if has_ended(&profile, template, binding, from) {
        let message = "it has ended, and would run again elsewhere".to_owned();
        return Ok(stays(
            false,
            "Finished",
            message,
            "delete it, if nothing needs it any more",
        ));
    }
    Ok(by_means(Candidate {
        workload,
        means: means_of(&profile),
        binding,
        template,
        from: from.clone(),
    }))
}

fn means_of(profile: &Profile) -> Means {
    if profile.spec().stateful {
        Means::StopFirst
    } else {
        Means::StartFirst
    }
}

/// Judges what nothing keeps where it is by how many copies it has, and whether they may run beside each other.
fn by_means(candidate: Candidate<'_>) -> Judged<'_> {
    let (means, binding) = (candidate.means, candidate.binding);
    let several = binding.spec.clusters.len() > 1;
    let divides = binding.spec.placement.as_ref().is_some_and(Placement::divides);
    if divides && means == Means::StartFirst {
        return Judged::Divided(candidate);
    }
    if several && means == Means::StartFirst {
        return Judged::Duplicated(candidate);
    }
    if several {
        return Judged::Stays(several_clusters(&candidate));
    }
    Judged::Movable(candidate)
}

/// Says why a workload with state stays that runs in several clusters.
fn several_clusters(candidate: &Candidate<'_>) -> Stay {
    let clusters = candidate.binding.spec.clusters.iter();
    let names: Vec<&str> = clusters.map(|target| target.name.as_str()).collect();
    candidate.stays(Finding::new(
        "SeveralClusters",
        format!("it runs in several clusters: {}", names.join(", ")),
        "each of its copies has a state of its own, and no other cluster can take that over: end this copy by its policy when nothing \
         needs its state any more",
    ))
}

/// Returns the workload of a binding.
pub fn name_of(binding: &ResourceBinding) -> WorkloadName {
    let resource = &binding.spec.resource;
    WorkloadName {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
        namespace: Some(resource.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: resource.name.clone(),
    }
}

/// Chooses a target for each candidate, in their order. What is on its way already has its place.
pub fn place(
    room: &mut Headroom<'_>,
    candidates: &[Candidate<'_>],
    spec: &MovesSpec,
    avoid: &BTreeSet<ClusterName>,
) -> Survey {
    let mut survey = Survey::default();
    for candidate in candidates {
        if candidate.means == Means::Evict {
            // Karmada's scheduler says where its replicas go.
            survey.moves.push(Move {
                checked: true,
                ..candidate.to(None)
            });
            continue;
        }
        match room.choose(candidate.candidate(), &spec.to, avoid) {
            Ok(to) => {
                room.promise(candidate.candidate(), &to);
                survey.moves.push(candidate.to(Some(to)));
            }
            Err(why) => survey.stays.push(candidate.stays(why)),
        }
    }
    survey
}

fn labels_of(template: &Value) -> BTreeMap<String, String> {
    let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    labels.into_iter().flatten().filter_map(text).collect()
}

#[cfg(test)]
mod tests;
