//! The gate in a pass: reads what [`Ground`] needs, afresh, and asks it about each write before it is sent.
//!
//! Costs nothing while no policy changes and nothing that may hold a workload goes; and one list where nothing live has state.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join_all, try_join_all};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Sync;
use super::pass::place_of;
use crate::reconcile::intents::policies;
use cutover_cluster::{self as cluster, Answer, Cluster, Exactly, Failure, Lookup, Outcome, Write};
use cutover_core::api::{self, AppliesTo, Claim, PolicyName, WorkloadProfile};
use cutover_core::config::UnknownKinds;
use cutover_core::intent::driven;
use cutover_core::intent::gate::{
    self, ACCEPT_ANNOTATION, Batch, Doubts, Ground, Knowledge, NotSent, Refusal, State, Tenant, cluster_name,
    deletion, is_profile, labels, may_have_state, policy_name,
};
use cutover_core::manifest::{Entry, Manifest, ObjectMap};
use cutover_core::plan::{Action, Change, Doomed, Place};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{
    self as karmada, ClusterPropagationPolicy, ClusterResourceBinding, PropagationPolicy, ResourceBinding,
};

pub(super) const POLICIES: &str = "policy.karmada.io/v1alpha1";
const BINDINGS: &str = "work.karmada.io/v1alpha2";
pub(super) const CLUSTERS: &str = "cluster.karmada.io/v1alpha1";
/// From so many namespaces on, all are listed at once.
const FEW: usize = 3;

/// What becomes of a refused change of a policy.
pub(super) enum SetOff {
    /// Migrations carry it out: the change is held back by them.
    Under(String),
    /// Nothing was set off, and why; `None`: the settings don't ask for it.
    Nothing(Option<String>),
}

/// A change of a policy that the gate has refused.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) policy: &'a PolicyName,
    /// As it will be; `None`: it is deleted.
    pub(super) spec: Option<&'a karmada::PropagationSpec>,
    /// As Git has it; one that is deleted as it is now.
    pub(super) object: &'a Value,
}

/// In which namespaces a write can reach a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    namespaces: BTreeSet<String>,
    everywhere: bool,
}

impl Reach {
    pub(super) const EVERYWHERE: Self = Self {
        namespaces: BTreeSet::new(),
        everywhere: true,
    };

    pub(super) fn add(&mut self, namespace: Option<&str>) {
        match namespace {
            Some(namespace) => drop(self.namespaces.insert(namespace.to_owned())),
            None => self.everywhere = true,
        }
    }

    fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && !self.everywhere
    }
}

/// What the gate makes of writes.
#[derive(Default)]
pub(super) struct Gated {
    pub passed: Vec<Write>,
    pub refused: BTreeMap<ObjectKey, Outcome>,
    /// Migrations carry out what these ask for: by which.
    pub moving: BTreeMap<ObjectKey, String>,
    /// What is sent later, and which object is written first: most often a policy.
    pub awaiting: BTreeMap<ObjectKey, ObjectKey>,
}

/// What the gate makes of deletions.
#[derive(Default)]
pub(super) struct GatedDeletions {
    /// What is not deleted, and why.
    pub refused: BTreeMap<ObjectKey, String>,
    /// What is deleted later, and which Migrations come first.
    pub moving: BTreeMap<ObjectKey, String>,
    /// What is deleted later, and which policy is applied first, or which object is deleted first.
    pub awaiting: BTreeMap<ObjectKey, ObjectKey>,
}

/// Why a write isn't sent.
enum Stop {
    Refused(Box<Outcome>),
    Moving(String),
    /// This object is written first.
    Awaiting(ObjectKey),
}

impl From<Outcome> for Stop {
    fn from(outcome: Outcome) -> Self {
        Self::Refused(Box::new(outcome))
    }
}

impl Sync {
    /// Splits off the writes that would take a live stateful workload out of its clusters, or of which that isn't known.
    pub(super) async fn gated(&self, writes: Vec<Write>) -> Gated {
        let mut reach = Reach::default();
        let concerns = |write: &&Write| self.may_place(write) || may_recreate(write);
        for write in writes.iter().filter(concerns) {
            reach.add(write.entry.key.namespace.as_deref());
        }
        let all_pass = |passed| Gated {
            passed,
            ..Gated::default()
        };
        if reach.is_empty() {
            return all_pass(writes);
        }
        let mut batch = match self.ground(&reach).await {
            Ok(ground) if ground.tenants.is_empty() => return all_pass(writes),
            ground => ground.map(Batch::new),
        };
        let mut gated = Gated::default();
        for mut write in writes {
            if may_recreate(&write) {
                write.spared = match &batch {
                    Ok(batch) => self.spared(batch.read(), &write.entry.key),
                    Err(why) => Some(cannot_tell(why)),
                };
            }
            let judged = if self.may_place(&write) {
                match &mut batch {
                    Ok(batch) => self.judge(batch, &mut write).await,
                    Err(why) => Err(Outcome::Failed(unknown(&write, why)).into()),
                }
            } else {
                Ok(())
            };
            let key = write.entry.key.clone();
            match judged {
                Ok(()) => gated.passed.push(write),
                Err(Stop::Refused(outcome)) => drop(gated.refused.insert(key, *outcome)),
                Err(Stop::Moving(by)) => drop(gated.moving.insert(key, by)),
                Err(Stop::Awaiting(first)) => drop(gated.awaiting.insert(key, first)),
            }
        }
        gated
    }

    /// Returns whether a write may change where a workload goes: a policy, a member cluster with its labels and taints, a template
    /// that gets other labels; or what is known of workloads.
    fn may_place(&self, write: &Write) -> bool {
        let key = &write.entry.key;
        policy_name(key).is_some()
            || cluster_name(key).is_some()
            || is_profile(key)
            || self.relabels(write).is_some()
    }

    /// Reads the live stateful workloads in reach, by the profiles that there are and those that Git has.
    pub(super) async fn ground(&self, reach: &Reach) -> Result<Ground, String> {
        let knowledge = knowledge(&self.cluster, Some(&self.placed.objects), self.unknown_kinds);
        ground(&self.cluster, reach, knowledge).await
    }

    /// Returns why a live template must not be deleted, not even to be created anew.
    fn spared(&self, ground: &Ground, key: &ObjectKey) -> Option<String> {
        let live = self.observer.get(key);
        let accepted = live.as_deref().and_then(accepted);
        let judged = ground.judge(&gate::Write::Template(key.clone()), accepted);
        judged.err().map(|refusal| described(&refusal, None))
    }

    /// Returns the labels that a live template will have, if Git wants others than there are.
    fn relabels(&self, write: &Write) -> Option<BTreeMap<String, String>> {
        let key = &write.entry.key;
        if !may_have_state(key) {
            return None;
        }
        let live = self.observer.get(key)?;
        let mut labels = labels(&live);
        let before = labels.clone();
        labels.extend(gate::labels(&write.entry.value()));
        (labels != before).then_some(labels)
    }

    /// Judges a write beside those of its batch that were let through; notes on it what it was judged on.
    async fn judge(&self, batch: &mut Batch, write: &mut Write) -> Result<(), Stop> {
        let manifest = self.decider().dressed(&write.entry.manifest()).into_owned();
        let Some((asked, judged)) = self.as_judged(write, &manifest).await? else {
            return Ok(());
        };
        let accepted = accepted(&manifest.value);
        if let Some(first) = self.comes_first(batch.read(), &asked, accepted) {
            return Err(Stop::Awaiting(first));
        }
        let key = &write.entry.key;
        let refusal = match batch.pass(key, &asked, accepted) {
            Ok(doubts) => {
                warn_of(key, &doubts);
                write.judged = judged;
                return Ok(());
            }
            Err(NotSent::After(first)) => return Err(Stop::Awaiting(first)),
            Err(NotSent::Refused(refusal)) => refusal,
        };
        let set_off = match &asked {
            gate::Write::Policy(policy, Some(spec)) => {
                let change = Asked {
                    policy,
                    spec: Some(spec),
                    object: &write.entry.value(),
                };
                self.set_off(batch.judged_by(), change, &refusal).await
            }
            _ => SetOff::Nothing(None),
        };
        Err(match set_off {
            SetOff::Under(by) => Stop::Moving(by),
            SetOff::Nothing(why) => refused(write, &asked, &refusal, (why, self.setting(&asked))).into(),
        })
    }

    /// Returns what a write asks of the gate, as the API server would carry it out; and of a policy that is there, of which version that is
    /// so. `None`: it asks for nothing.
    async fn as_judged(
        &self,
        write: &Write,
        manifest: &Manifest,
    ) -> Result<Option<(gate::Write, Option<Exactly>)>, Outcome> {
        let key = &write.entry.key;
        let (policy, member) = (policy_name(key), cluster_name(key));
        if policy.is_none() && member.is_none() && !is_profile(key) {
            let labels = self.relabels(write);
            return Ok(labels.map(|labels| (gate::Write::Labels(key.clone(), labels), None)));
        }
        let options = self.options.of(&manifest.value);
        let applied = cluster::rehearse(&self.cluster, manifest, options).await?;
        let seen = Exactly::of(&applied);
        let unread = |why: String| Outcome::Failed(unknown(write, &why));
        Ok(Some(match (policy, member) {
            (Some(name), _) => {
                let spec = typed(&name, applied).map_err(unread)?;
                let is_there = seen.resource_version.is_some();
                (gate::Write::Policy(name, Some(spec)), is_there.then_some(seen))
            }
            (None, Some(name)) => {
                let member = joined(applied).map_err(unread)?;
                (gate::Write::Cluster(name, Some(member)), None)
            }
            (None, None) => {
                let profile = profile(applied).map_err(unread)?;
                (gate::Write::Profile(key.name.clone(), Some(profile)), None)
            }
        }))
    }

    /// Returns which of some deletions would end a live stateful workload, or give it to another policy, and why.
    pub(super) async fn gated_deletions(&self, doomed: &[Doomed]) -> GatedDeletions {
        let deletions = doomed.iter().filter_map(|doomed| {
            let live = self.observer.get(&doomed.key)?;
            Some((deletion(&doomed.key, Some(&live))?, doomed.key.clone(), live))
        });
        let deletions: Vec<_> = deletions.collect();
        let mut reach = Reach::default();
        for (write, key, _) in &deletions {
            reach.add(match write {
                gate::Write::Namespace(name) => Some(name),
                _ => key.namespace.as_deref(),
            });
        }
        let mut gated = GatedDeletions::default();
        if reach.is_empty() {
            return gated;
        }
        let mut batch = self.ground(&reach).await.map(Batch::new);
        for (write, key, live) in deletions {
            let batch = match &mut batch {
                Ok(batch) => batch,
                Err(why) => {
                    gated.refused.insert(key, cannot_tell(why));
                    continue;
                }
            };
            let accepted = accepted(&live);
            if let Some(first) = self.comes_first(batch.read(), &write, accepted) {
                gated.awaiting.insert(key, first);
                continue;
            }
            let refusal = match batch.pass(&key, &write, accepted) {
                Ok(doubts) => {
                    warn_of(&key, &doubts);
                    continue;
                }
                Err(NotSent::After(first)) => {
                    gated.awaiting.insert(key, first);
                    continue;
                }
                Err(NotSent::Refused(refusal)) => refusal,
            };
            match self.instead_of(batch.judged_by(), &write, &live, &refusal).await {
                Ok(by) => drop(gated.moving.insert(key, by)),
                Err(why) => drop(gated.refused.insert(key, why)),
            }
        }
        gated
    }

    /// Returns the policy without which the workloads of one that is deleted, or lets them go, would have none.
    pub(super) fn comes_first(
        &self,
        ground: &Ground,
        write: &gate::Write,
        accepted: Option<&str>,
    ) -> Option<ObjectKey> {
        let gate::Write::Policy(policy, spec) = write else {
            return None;
        };
        let awaited = || self.awaited(ground, policy, spec.as_deref());
        let first = (!is_accepted(ground, write, accepted)).then(awaited).flatten()?;
        // A later wave waits for this one.
        let waits = spec.is_some() && self.waits_for(&first.key(), &policy.key());
        (!waits && !self.goes_round(ground, policy, &first)).then(|| first.key())
    }

    /// Returns whether an object in Git is not applied before another one is.
    pub(super) fn waits_for(&self, later: &ObjectKey, first: &ObjectKey) -> bool {
        let place = |key: &ObjectKey| self.placed.objects.get(key).map(|entry| place_of(entry));
        let places = place(later).zip(place(first));
        self.waves.care() && places.is_some_and(|(later, first)| later.waits_for(first))
    }

    /// Sets off what a refused deletion calls for; returns what carries it out, or why nothing does.
    async fn instead_of(
        &self,
        ground: &Ground,
        write: &gate::Write,
        live: &Value,
        refusal: &Refusal,
    ) -> Result<String, String> {
        let set_off = match write {
            gate::Write::Policy(policy, spec) => {
                let asked = Asked {
                    policy,
                    spec: spec.as_deref(),
                    object: live,
                };
                self.set_off(ground, asked, refusal).await
            }
            _ => SetOff::Nothing(None),
        };
        match set_off {
            SetOff::Under(by) => Ok(by),
            SetOff::Nothing(Some(why)) => Err(format!("{}; {why}", described(refusal, None))),
            SetOff::Nothing(None) => Err(described(refusal, self.setting(write))),
        }
    }

    /// Marks those of a plan's changes that the gate would hold back.
    pub(super) async fn gate_plan(&self, changes: Vec<Change>) -> Vec<Change> {
        let mut reach = Reach::default();
        for change in &changes {
            if let Some(write) = planned(change) {
                reach.add(match &write {
                    gate::Write::Namespace(name) => Some(name),
                    _ => change.key.namespace.as_deref(),
                });
            }
        }
        if reach.is_empty() {
            return changes;
        }
        let mut ground = match self.ground(&reach).await {
            Ok(ground) if ground.tenants.is_empty() => return changes,
            ground => ground,
        };
        let agreed = Box::pin(self.agreed_first()).await;
        let mut judged = BTreeMap::new();
        // Of one place what waits for a policy is judged again when others of it, or of a later one, are taken in.
        let mut waiting = Vec::new();
        for place in in_order(&changes).chunk_by(|one, other| one.0 == other.0) {
            let mut next: Vec<&Change> = place.iter().map(|(_, change)| *change).chain(waiting).collect();
            loop {
                let asked = next.len();
                next.retain(|change| {
                    let Some(one) = self.judge_planned(&mut ground, change, &agreed) else {
                        return false;
                    };
                    let waits = matches!(one, Judged::HeldBack(_));
                    judged.insert(change.key.clone(), one);
                    waits
                });
                if next.is_empty() || next.len() == asked {
                    break;
                }
            }
            waiting = next;
        }
        let marked = changes.into_iter();
        marked
            .flat_map(|change| match judged.remove(&change.key) {
                Some(judged) => judged.mark(change),
                None => vec![change],
            })
            .collect()
    }

    /// Judges a planned change as it would be when it is carried out; `None`: no workload goes elsewhere by it. `agreed`: the policies
    /// that get the placement first that Migrations have carried out, and one of these.
    fn judge_planned(
        &self,
        ground: &mut Result<Ground, String>,
        change: &Change,
        agreed: &BTreeMap<ObjectKey, String>,
    ) -> Option<Judged> {
        let write = &planned(change)?;
        let object = if write.is_deletion() {
            &change.before
        } else {
            &change.after
        };
        let accepts = object.as_ref().and_then(accepted);
        let ground = match ground {
            Ok(ground) => ground,
            Err(why) => return Some(Judged::Blocked(cannot_tell(why))),
        };
        if let Some(first) = self.comes_first(ground, write, accepts) {
            return Some(Judged::HeldBack(first.to_string()));
        }
        let refusal = match ground.pass(write, accepts) {
            Ok(doubts) => return Some(Judged::Passed(doubts)),
            Err(refusal) => refusal,
        };
        if let Some(by) = agreed.get(&change.key) {
            return Some(Judged::HeldBack(format!("{by}, whose placement goes first")));
        }
        Some(match self.planned_moves(ground, write, change, &refusal) {
            Ok(moves) => Judged::Moves(moves),
            Err(None) => Judged::Blocked(described(&refusal, self.setting(write))),
            Err(Some(why)) => Judged::Blocked(format!("{}; {why}", described(&refusal, None))),
        })
    }
}

/// Returns changes in the order in which they are carried out, whatever the order in which the API server has answered: what is deleted
/// goes last.
fn in_order(changes: &[Change]) -> Vec<((bool, Place), &Change)> {
    let placed = changes.iter().map(|change| {
        let place = (change.action == Action::Delete, change.place());
        (place, change)
    });
    let mut all: Vec<_> = placed.collect();
    all.sort_by(|one, other| (one.0, &one.1.key).cmp(&(other.0, &other.1.key)));
    all
}

/// Returns whether what a write of a policy costs is accepted: whoever accepts the write accepts what it leaves behind.
pub(super) fn is_accepted(ground: &Ground, write: &gate::Write, accepted: Option<&str>) -> bool {
    if write.is_deletion() {
        return accepted.is_some_and(|text| text.contains(gate::ACCEPT_DELETION));
    }
    let is_refused = |accepted| ground.judge(write, accepted).is_err();
    accepted.is_some() && is_refused(None) && !is_refused(accepted)
}

/// What the gate makes of a planned change.
enum Judged {
    Passed(Doubts),
    Blocked(String),
    /// This comes first.
    HeldBack(String),
    /// These Migrations are set off, and the change goes out when they are committed.
    Moves(Vec<Value>),
}

impl Judged {
    /// Returns the change as it comes to be, and what it sets off.
    fn mark(self, change: Change) -> Vec<Change> {
        match self {
            Self::Passed(doubts) => vec![match doubts.told() {
                Some(told) => change.warned(told),
                None => change,
            }],
            Self::Blocked(why) => vec![change.blocked(why)],
            Self::HeldBack(by) => vec![change.held_back(by)],
            Self::Moves(moves) => {
                let keyed = moves.iter().filter_map(|one| Some((driven::key_of(one)?, one)));
                let set_off: Vec<Change> = keyed
                    .map(|(key, one)| Change::set_off(key, one, &change))
                    .collect();
                let names: Vec<String> = set_off.iter().map(|one| one.key.to_string()).collect();
                let by = format!("{}, set off by this change", names.join(", "));
                let mut all = vec![change.held_back(by)];
                all.extend(set_off);
                all
            }
        }
    }
}

/// `setting`: what would have it set Migrations off, unless there is another reason why it sets off none.
fn refused(
    write: &Write,
    asked: &gate::Write,
    refusal: &Refusal,
    (no_move, setting): (Option<String>, Option<&str>),
) -> Outcome {
    let hint = refusal.hint(setting.filter(|_| no_move.is_none()));
    let message = match no_move {
        Some(why) => format!("it is held back: {refusal}; {why}"),
        None => format!("it is held back: {refusal}"),
    };
    Outcome::Failed(Failure {
        message,
        hint: Some(hint),
        at: write.entry.source(),
        field: Some(field_of(asked).to_owned()),
        // Where it runs may change without anybody telling.
        passing: true,
        fixed: Vec::new(),
    })
}

/// Returns the write that a planned change asks for, if it may change where a workload goes.
fn planned(change: &Change) -> Option<gate::Write> {
    match change.action {
        Action::Delete => deletion(&change.key, change.before.as_ref()),
        Action::Create | Action::Configure | Action::Recreate { .. } => {
            let (before, after) = (change.before.as_ref(), change.after.as_ref()?);
            if let Some(name) = policy_name(&change.key) {
                return Some(gate::Write::Policy(
                    name.clone(),
                    Some(typed(&name, after.clone()).ok()?),
                ));
            }
            if let Some(name) = cluster_name(&change.key) {
                return Some(gate::Write::Cluster(name, Some(joined(after.clone()).ok()?)));
            }
            if is_profile(&change.key) {
                let name = change.key.name.clone();
                return Some(gate::Write::Profile(name, Some(profile(after.clone()).ok()?)));
            }
            if matches!(change.action, Action::Recreate { .. }) && may_have_state(&change.key) {
                return Some(gate::Write::Template(change.key.clone()));
            }
            let labels = labels(after);
            let relabelled = before.is_some_and(|before| gate::labels(before) != labels);
            (relabelled && may_have_state(&change.key))
                .then(|| gate::Write::Labels(change.key.clone(), labels))
        }
        _ => None,
    }
}

/// Returns whether a live template is deleted, with its copies, if it can't be changed as Git wants it.
fn may_recreate(write: &Write) -> bool {
    let key = &write.entry.key;
    write.live.is_some() && may_have_state(key) && write.options.of(&write.entry.value()).recreate
}

fn profile(object: Value) -> Result<Box<WorkloadProfile>, String> {
    serde_json::from_value(object)
        .map(Box::new)
        .map_err(|error| format!("the profile cannot be read: {error}"))
}

fn joined(cluster: Value) -> Result<Box<karmada::Cluster>, String> {
    serde_json::from_value(cluster)
        .map(Box::new)
        .map_err(|error| format!("the cluster cannot be read: {error}"))
}

/// Returns where a write says what it is refused for.
const fn field_of(write: &gate::Write) -> &'static str {
    match write {
        gate::Write::Policy(..) => "/spec/placement",
        gate::Write::Cluster(..) => "/metadata/name",
        gate::Write::Profile(..) => "/spec",
        _ => "/metadata/labels",
    }
}

fn warn_of(key: &ObjectKey, doubts: &Doubts) {
    if let Some(told) = doubts.told() {
        tracing::warn!("{key}: {told}");
    }
}

fn described(refusal: &Refusal, setting: Option<&str>) -> String {
    format!("{refusal}; {}", refusal.hint(setting))
}

pub(super) fn cannot_tell(why: &str) -> String {
    format!("it is not known whether a workload would lose its state: {why}")
}

fn unknown(write: &Write, why: &str) -> Failure {
    Failure {
        message: format!("it waits: {}", cannot_tell(why)),
        hint: None,
        at: write.entry.source(),
        field: None,
        passing: true,
        fixed: Vec::new(),
    }
}

pub(super) fn accepted(object: &Value) -> Option<&str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(ACCEPT_ANNOTATION)?
        .as_str()
}

fn typed(name: &PolicyName, policy: Value) -> Result<Box<karmada::PropagationSpec>, String> {
    let policy = policies::typed(name, policy)?;
    Ok(Box::new(policy.spec))
}

/// Reads the live stateful workloads in reach, and what places them. One that can't be read makes all unknown.
async fn ground(
    cluster: &Cluster,
    reach: &Reach,
    knowledge: impl Future<Output = Result<Knowledge, String>>,
) -> Result<Ground, String> {
    let bindings = bindings(cluster, reach).await?;
    if bindings.is_empty() {
        return Ok(Ground::default());
    }
    let knowledge = knowledge.await?;
    let kept = with_state(bindings, &knowledge)?;
    if kept.is_empty() {
        return Ok(Ground::default());
    }
    let templates = templates(cluster, &kept).await;
    let tenants = kept.into_iter().map(async |(binding, state)| {
        match tenant(cluster, binding, state, &templates).await {
            // It would hold nothing back either.
            Err(_) if state == State::Unsaid => Ok(None),
            read => read,
        }
    });
    let tenants = join_all(tenants)
        .await
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let clusters: Vec<karmada::Cluster> = list(cluster, CLUSTERS, "Cluster", None).await?;
    let named = clusters.into_iter().filter_map(|cluster| {
        let name = cluster.metadata.name.clone()?;
        Some((ClusterName::new(&name), cluster))
    });
    Ok(Ground {
        tenants: tenants.into_iter().flatten().collect(),
        clusters: named.collect(),
        policies: policies_in(cluster, reach).await?,
        knowledge,
    })
}

/// Reads the profiles that there are. `objects`: what Git has.
pub(super) async fn knowledge(
    cluster: &Cluster,
    objects: Option<&ObjectMap<Entry>>,
    unknown: UnknownKinds,
) -> Result<Knowledge, String> {
    let live = list(cluster, api::API_VERSION, "WorkloadProfile", None).await?;
    let mut knowledge = Knowledge::of(live, unknown);
    let wanted = objects
        .into_iter()
        .flat_map(|objects| objects.of_kind(api::GROUP, "WorkloadProfile"));
    for entry in wanted {
        let value = entry.value();
        let about = AppliesTo::deserialize(&value["spec"]["appliesTo"]);
        match serde_json::from_value(value) {
            Ok(profile) => knowledge.wanted.push(profile),
            Err(_) => knowledge.unreadable.extend(about),
        }
    }
    Ok(knowledge)
}

/// Returns the bindings whose workloads have state, or may have, for all that profiles say.
pub(super) fn with_state(
    bindings: Vec<ResourceBinding>,
    knowledge: &Knowledge,
) -> Result<Vec<(ResourceBinding, State)>, String> {
    let mut known: BTreeMap<Gvk, State> = BTreeMap::new();
    let mut kept = Vec::new();
    for binding in bindings {
        let gvk = Gvk::new(&binding.spec.resource.api_version, &binding.spec.resource.kind);
        let state = match known.get(&gvk) {
            Some(known) => *known,
            None => {
                let state = knowledge.state_of(&gvk).map_err(|error| error.to_string())?;
                known.insert(gvk, state);
                state
            }
        };
        if state != State::None {
            kept.push((binding, state));
        }
    }
    Ok(kept)
}

/// Returns the bindings in reach that have clusters.
pub(super) async fn bindings(cluster: &Cluster, reach: &Reach) -> Result<Vec<ResourceBinding>, String> {
    let mut all: Vec<ResourceBinding> = listed_in(cluster, BINDINGS, "ResourceBinding", reach).await?;
    if reach.everywhere {
        let more: Vec<ClusterResourceBinding> =
            list(cluster, BINDINGS, "ClusterResourceBinding", None).await?;
        all.extend(more.into_iter().map(ResourceBinding::from));
    }
    all.retain(|binding| !binding.spec.clusters.is_empty());
    Ok(all)
}

pub(super) async fn policies_in(
    cluster: &Cluster,
    reach: &Reach,
) -> Result<BTreeMap<PolicyName, karmada::PropagationSpec>, String> {
    let namespaced: Vec<PropagationPolicy> = listed_in(cluster, POLICIES, "PropagationPolicy", reach).await?;
    let wide: Vec<ClusterPropagationPolicy> =
        list(cluster, POLICIES, "ClusterPropagationPolicy", None).await?;
    let all = namespaced
        .into_iter()
        .chain(wide.into_iter().map(PropagationPolicy::from));
    // One that is being deleted takes no workload up.
    let all = all.filter(|policy| policy.metadata.deletion_timestamp.is_none());
    Ok(all
        .filter_map(|policy| {
            let name = PolicyName {
                namespace: policy.metadata.namespace,
                name: policy.metadata.name?,
            };
            Some((name, policy.spec))
        })
        .collect())
}

/// The templates of a kind in a namespace, by name.
type Templates = BTreeMap<(Gvk, Option<String>), Result<BTreeMap<String, Value>, String>>;

/// Reads the templates of workloads of which there are several in a namespace: one list takes less time than many reads.
async fn templates(cluster: &Cluster, kept: &[(ResourceBinding, State)]) -> Templates {
    let mut counted: BTreeMap<(Gvk, Option<String>), usize> = BTreeMap::new();
    for (binding, _) in kept {
        *counted.entry(kind_in(binding)).or_default() += 1;
    }
    let several = counted.into_iter().filter(|(_, count)| *count > FEW);
    let lists = several.map(async |((gvk, namespace), _)| {
        let listed = list::<Value>(cluster, &gvk.api_version(), &gvk.kind, namespace.as_deref()).await;
        let named = |mut object: Value| {
            let name = object["metadata"]["name"].as_str()?.to_owned();
            // Items of a list need not say what they are.
            (object["apiVersion"], object["kind"]) = (gvk.api_version().into(), gvk.kind.clone().into());
            Some((name, object))
        };
        let by_name = listed.map(|all| all.into_iter().filter_map(named).collect());
        ((gvk, namespace), by_name)
    });
    join_all(lists).await.into_iter().collect()
}

fn kind_in(binding: &ResourceBinding) -> (Gvk, Option<String>) {
    let resource = &binding.spec.resource;
    let gvk = Gvk::new(&resource.api_version, &resource.kind);
    (gvk, binding.metadata.namespace.clone())
}

/// Returns a workload as it is now; `None`: its template has gone.
async fn tenant(
    cluster: &Cluster,
    binding: ResourceBinding,
    state: State,
    templates: &Templates,
) -> Result<Option<Tenant>, String> {
    let resource = &binding.spec.resource;
    let gvk = Gvk::new(&resource.api_version, &resource.kind);
    let namespace = binding.metadata.namespace.as_deref();
    let found = match templates.get(&kind_in(&binding)) {
        Some(listed) => listed
            .as_ref()
            .map_err(String::clone)?
            .get(&resource.name)
            .cloned(),
        None => get::<Value>(cluster, &gvk, namespace, &resource.name).await?,
    };
    let Some(template) = found else {
        return Ok(None);
    };
    let workload = ObjectKey {
        group: gvk.group.clone(),
        kind: gvk.kind.clone(),
        namespace: namespace.map(str::to_owned),
        name: resource.name.clone(),
    };
    let mut in_hand = None;
    if binding.spec.scheduling_suspended() {
        let claim: Option<Claim> = get(
            cluster,
            &Gvk::new(api::API_VERSION, "Claim"),
            None,
            &api::claim_name(&workload),
        )
        .await?;
        // A shared one decides nothing of where it runs.
        let decides = |claim: &Claim| !claim.spec.guards && !claim.spec.standing && !claim.spec.shared;
        in_hand = claim.filter(decides).map(|claim| match claim.spec.writer {
            Some(writer) => vec![writer],
            None => claim.spec.clusters,
        });
    }
    Ok(Some(Tenant {
        owner: policies::claimed_by(&template),
        workload,
        template,
        binding,
        state,
        in_hand,
    }))
}

async fn listed_in<T: DeserializeOwned>(
    cluster: &Cluster,
    api_version: &str,
    kind: &str,
    reach: &Reach,
) -> Result<Vec<T>, String> {
    if reach.everywhere || reach.namespaces.len() > FEW {
        return list(cluster, api_version, kind, None).await;
    }
    let lists = reach.namespaces.iter();
    let lists = lists.map(|namespace| list(cluster, api_version, kind, Some(namespace)));
    Ok(try_join_all(lists).await?.into_iter().flatten().collect())
}

/// Reads all objects of a kind; a kind that isn't served has none.
pub(super) async fn list<T: DeserializeOwned>(
    cluster: &Cluster,
    api_version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Result<Vec<T>, String> {
    match cluster.lookup(&Gvk::new(api_version, kind)).await {
        Ok(Lookup::NotServed) => Ok(Vec::new()),
        Ok(Lookup::Served(served)) => match cluster.reader().list_as(&served, namespace, None).await.answer {
            Answer::Found(all) => Ok(all),
            Answer::NotFound => Err(format!("the list of {kind} was answered with 404")),
            Answer::Unknown { why } => Err(why),
        },
        Err(error) => Err(error.to_string()),
    }
}

pub(super) async fn get<T: DeserializeOwned>(
    cluster: &Cluster,
    gvk: &Gvk,
    namespace: Option<&str>,
    name: &str,
) -> Result<Option<T>, String> {
    match cluster.lookup(gvk).await {
        Ok(Lookup::NotServed) => Ok(None),
        Ok(Lookup::Served(served)) => match cluster.reader().get_as(&served, namespace, name).await.answer {
            Answer::Found(object) => Ok(Some(object)),
            Answer::NotFound => Ok(None),
            Answer::Unknown { why } => Err(why),
        },
        Err(error) => Err(error.to_string()),
    }
}
