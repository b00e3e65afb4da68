//! The gate: which writes of sync would take a live stateful workload out of the clusters that it runs in.
//!
//! Karmada moves a workload by deleting it in one cluster and creating it, without its state, in another. So a policy is
//! applied, and an object pruned, only if every live stateful workload that it touches keeps exactly its clusters: what
//! moves it with its state is an intent. A person may accept the loss, for one change.
//!
//! Pure, over what was read of the control plane: whoever calls it reads afresh, and sends nothing that is refused here.

mod batch;
mod governing;
mod immovable;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

use super::fence::affinity_in_use;
use super::placement::{divides, fits, keeps_target, static_weight};
use super::record::digest;
use crate::api::{AppliesTo, GROUP, PolicyName, WorkloadProfile};
use crate::config::UnknownKinds;
use crate::profile::{self, Immovable, StateAt};
pub use batch::{Batch, NotSent};
use cutover_karmada::meta::DELETION_PROTECTED;
use cutover_karmada::name::{ClusterName, GroupKind, Gvk, ObjectKey};
use cutover_karmada::{
    Cluster, ClusterAffinity, DEFAULT_SCHEDULER, Placement, PropagationSpec, ResourceBinding, Taint,
};
use governing::{PoliciesByName, selects};
pub use governing::{Preemption, Selecting};

/// On an object in Git, or on a live one that is to be pruned: the digest of the loss that somebody accepts.
pub const ACCEPT_ANNOTATION: &str = "cutover.dev/accept-state-loss";
/// What accepts, on a live object, that it is deleted with the state of what it runs.
pub const ACCEPT_DELETION: &str = "deletion";
const POLICY_GROUP: &str = "policy.karmada.io";
const CLUSTER_GROUP: &str = "cluster.karmada.io";
/// Digits of a digest: enough to tell the changes of one repository apart.
const DIGITS: usize = 12;

/// A live workload with state.
#[derive(Clone, Debug)]
pub struct Tenant {
    pub workload: ObjectKey,
    pub template: Value,
    pub binding: ResourceBinding,
    /// The policy that Karmada has noted on the template.
    pub owner: Option<PolicyName>,
    /// Where its state is, for all that profiles say.
    pub state: State,
    /// An intent has it in hand, and Karmada's scheduler is kept off: the clusters in which the intent lets it run. It ends when the
    /// placement keeps these.
    pub in_hand: Option<Vec<ClusterName>>,
}

impl Tenant {
    fn clusters(&self) -> BTreeSet<&ClusterName> {
        let targets = self.binding.spec.clusters.iter();
        match &self.in_hand {
            Some(kept) => kept.iter().collect(),
            None => targets.map(|target| &target.name).collect(),
        }
    }

    fn kind(&self) -> Gvk {
        let resource = &self.binding.spec.resource;
        Gvk::new(&resource.api_version, &resource.kind)
    }

    fn namespace(&self) -> Option<&str> {
        self.workload.namespace.as_deref()
    }
}

/// What the control plane says, as far as it matters here.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    pub tenants: Vec<Tenant>,
    pub clusters: BTreeMap<ClusterName, Cluster>,
    pub policies: BTreeMap<PolicyName, PropagationSpec>,
    pub knowledge: Knowledge,
}

/// What says whether a kind has state.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    pub live: Vec<WorkloadProfile>,
    /// Those in Git. One that comes with a change of a policy is about that change already.
    pub wanted: Vec<WorkloadProfile>,
    /// What those in Git are about that can't be read.
    pub unreadable: Vec<AppliesTo>,
    /// The live ones as they will be, once what was let through is written.
    then: Option<Vec<WorkloadProfile>>,
    pub unknown: UnknownKinds,
}

impl Knowledge {
    /// What these profiles say; `unknown`: what becomes of kinds that none speaks of.
    pub fn of(live: Vec<WorkloadProfile>, unknown: UnknownKinds) -> Self {
        Self {
            live,
            unknown,
            ..Self::default()
        }
    }

    /// Returns whether a kind has state, if only one of the profiles says so.
    pub fn state_of(&self, kind: &Gvk) -> Result<State, profile::Error> {
        let is_about = |about: &AppliesTo| about.group == kind.group && about.kinds.contains(&kind.kind);
        if self.unreadable.iter().any(is_about) {
            return Ok(State::Kept);
        }
        let live = state_of(&self.live, kind, self.unknown)?;
        if !self.wanted.iter().any(|wanted| is_about(&wanted.spec.applies_to)) {
            return Ok(live);
        }
        Ok(live.max(state_of(&self.wanted, kind, self.unknown)?))
    }

    /// Returns whether a kind has state as long as there are these live profiles.
    fn is_known(&self, live: &[WorkloadProfile], kind: &Gvk) -> bool {
        // What can't be judged with these isn't known.
        state_of(live, kind, self.unknown).is_ok_and(|state| state >= State::Elsewhere)
    }

    pub(crate) fn to_be(&self) -> &[WorkloadProfile] {
        self.then.as_deref().unwrap_or(&self.live)
    }

    /// Returns the live profiles once one has become another, or has gone.
    fn with(&self, name: &str, profile: Option<&WorkloadProfile>) -> Vec<WorkloadProfile> {
        let others = self.to_be().iter();
        let others = others.filter(|other| other.metadata.name.as_deref() != Some(name));
        others.chain(profile).cloned().collect()
    }
}

/// A write, as the API server would carry it out.
#[derive(Clone, Debug)]
pub enum Write {
    /// A propagation policy as it will be; `None`: it is deleted.
    Policy(PolicyName, Option<Box<PropagationSpec>>),
    /// A template gets these labels.
    Labels(ObjectKey, BTreeMap<String, String>),
    /// A template is deleted.
    Template(ObjectKey),
    /// A namespace is deleted, with everything in it.
    Namespace(String),
    /// The definition of a kind is deleted, with every object of the kind.
    Definition(GroupKind),
    /// A member cluster gets other labels or taints, by which policies choose it; `None`: it is taken away.
    Cluster(ClusterName, Option<Box<Cluster>>),
    /// A profile says something else of its kinds; `None`: it is deleted.
    Profile(String, Option<Box<WorkloadProfile>>),
}

impl Write {
    /// Returns whether it deletes something.
    pub const fn is_deletion(&self) -> bool {
        !matches!(
            self,
            Self::Policy(_, Some(_))
                | Self::Labels(..)
                | Self::Cluster(_, Some(_))
                | Self::Profile(_, Some(_))
        )
    }
}

/// Returns the deletion of an object, if a workload may go with it or may be given to another policy.
pub fn deletion(key: &ObjectKey, object: Option<&Value>) -> Option<Write> {
    if let Some(name) = policy_name(key) {
        return Some(Write::Policy(name, None));
    }
    if let Some(name) = cluster_name(key) {
        return Some(Write::Cluster(name, None));
    }
    if is_profile(key) {
        return Some(Write::Profile(key.name.clone(), None));
    }
    let text = |pointer| object.and_then(|object| object.pointer(pointer)?.as_str());
    match (key.group.as_str(), key.kind.as_str()) {
        ("", "Namespace") => Some(Write::Namespace(key.name.clone())),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => Some(Write::Definition(GroupKind::new(
            text("/spec/group")?,
            text("/spec/names/kind")?,
        ))),
        _ => may_have_state(key).then(|| Write::Template(key.clone())),
    }
}

/// Returns whether an object may be a template with state: of some groups, of which there may be many, none is.
pub fn may_have_state(key: &ObjectKey) -> bool {
    !matches!(key.group.as_str(), "" | POLICY_GROUP | GROUP)
}

/// Returns which propagation policy an object is, if it is one.
pub fn policy_name(key: &ObjectKey) -> Option<PolicyName> {
    let is_policy = matches!(
        key.kind.as_str(),
        "PropagationPolicy" | "ClusterPropagationPolicy"
    );
    (key.group == POLICY_GROUP && is_policy).then(|| PolicyName {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    })
}

/// Returns whether an object is a profile.
pub fn is_profile(key: &ObjectKey) -> bool {
    key.group == GROUP && key.kind == "WorkloadProfile"
}

/// Returns which member cluster an object is, if it is one.
pub fn cluster_name(key: &ObjectKey) -> Option<ClusterName> {
    (key.group == CLUSTER_GROUP && key.kind == "Cluster").then(|| ClusterName::new(&key.name))
}

/// Returns the labels of an object.
pub fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// What a write would do to one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub workload: ObjectKey,
    pub fate: Fate,
    state: State,
    /// One copy at a time may run.
    is_single: bool,
    /// Where it runs now.
    clusters: Vec<ClusterName>,
    /// What would place it, as JSON; nothing where it ends.
    pub(crate) placement: Value,
    /// The scheduler that would go by that, where it isn't Karmada's own.
    scheduler: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stops in some clusters, and begins in one of others, if there are any, without its state.
    Moves {
        stops: Vec<ClusterName>,
        starts: Vec<ClusterName>,
    },
    /// It begins in further clusters as well, without the state of the one that runs.
    Spreads { starts: Vec<ClusterName> },
    /// It is deleted.
    Ends,
    /// Nothing would say any more that it has state: what moves it next would not be held back.
    Forgotten,
    /// What Karmada's scheduler would do can't be told.
    Unclear { why: String },
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (workload, here) = (&self.workload, join(&self.clusters, "and"));
        match &self.fate {
            Fate::Moves { stops, starts } if starts.is_empty() => {
                write!(
                    f,
                    "{workload} would stop in {} and run nowhere else",
                    join(stops, "and")
                )
            }
            Fate::Moves { stops, starts } if self.state == State::Elsewhere => write!(
                f,
                "{workload} would start in {} while its copy in {} may still run",
                join(starts, "or"),
                join(stops, "and")
            ),
            Fate::Moves { stops, starts } => write!(
                f,
                "{workload} would stop in {} and start in {} from nothing",
                join(stops, "and"),
                join(starts, "or")
            ),
            Fate::Spreads { starts } if self.state == State::Elsewhere => write!(
                f,
                "{workload} would start in {}, beside {here} where it runs",
                join(starts, "and")
            ),
            Fate::Spreads { starts } => write!(
                f,
                "{workload} would start in {} from nothing, beside {here} where it runs",
                join(starts, "and")
            ),
            Fate::Ends => write!(f, "{workload} would end in {here}, with its state"),
            Fate::Forgotten => write!(
                f,
                "{workload} runs in {here}, and no profile would say any more that it has state"
            ),
            Fate::Unclear { why } => {
                write!(
                    f,
                    "it is not known whether {workload} would stay in {here}: {why}"
                )
            }
        }
    }
}

impl Loss {
    /// Returns whether this is what comes of a workload under a policy.
    pub(crate) fn is_by(&self, spec: &PropagationSpec) -> bool {
        serde_json::to_value(&spec.placement).is_ok_and(|placement| placement == self.placement)
    }

    /// Returns whether no profile says that state is lost.
    pub(crate) fn is_doubt(&self) -> bool {
        self.state == State::Unsaid
    }

    /// Returns whether anything is lost. Where the state is elsewhere that takes a second copy that writes it: in the midst of the
    /// first one's stop, beside it, or after it has ended. Copies in several clusters are no single writer.
    fn is_one(&self) -> bool {
        let begins = match &self.fate {
            Fate::Moves { starts, .. } => !starts.is_empty(),
            Fate::Spreads { .. } | Fate::Forgotten | Fate::Unclear { .. } => true,
            Fate::Ends => false,
        };
        self.state != State::Elsewhere || self.is_single && begins
    }

    /// Returns whether it would go from one cluster to another one, as a Migration moves it.
    fn is_move(&self) -> bool {
        matches!(&self.fate, Fate::Moves { stops, starts } if stops.len() == 1 && !starts.is_empty())
    }

    /// Returns what a person can do so that nothing is lost.
    pub fn way_out(&self) -> Option<String> {
        let ObjectKey {
            kind,
            namespace,
            name,
            ..
        } = &self.workload;
        let namespace = namespace
            .as_ref()
            .map_or_else(String::new, |namespace| format!(" --namespace {namespace}"));
        match &self.fate {
            Fate::Moves { starts, .. } => starts.first().map(|to| {
                format!("a Migration carries its state: cutover migrate {kind}/{name}{namespace} --to {to}")
            }),
            Fate::Spreads { .. } => Some("let the policy choose one cluster (maxGroups: 1)".to_owned()),
            Fate::Ends | Fate::Forgotten | Fate::Unclear { .. } => None,
        }
    }
}

/// Whether live copies of a kind have state that only an intent carries along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    None,
    /// No profile says so.
    Unsaid,
    /// Every cluster reaches it: a copy that ends takes nothing along, and two copies must not write it.
    Elsewhere,
    /// It goes with the copy.
    Kept,
}

/// Returns whether a kind has state, by the profiles that there are: where several are for it, if only one of them says so. Without one,
/// what is known of kinds that cannot be moved counts.
pub fn state_of(
    given: &[WorkloadProfile],
    gvk: &Gvk,
    unknown: UnknownKinds,
) -> Result<State, profile::Error> {
    let is_blocked = unknown == UnknownKinds::Block && is_custom(gvk);
    let by = |profile: &WorkloadProfile| {
        if !profile.spec.stateful {
            State::None
        } else if !profile.spec.state_elsewhere || is_blocked {
            // Whether it is elsewhere is for whoever has defined the kind to say, and not for all of its objects.
            State::Kept
        } else {
            State::Elsewhere
        }
    };
    let all = profile::all_for(given, gvk)?;
    let unsaid = || match profile::why_immovable(gvk).and_then(|known| known.state) {
        _ if is_blocked => State::Kept,
        Some(StateAt::Copy) => State::Kept,
        Some(StateAt::Elsewhere) => State::Elsewhere,
        None if is_custom(gvk) => State::Unsaid,
        None => State::None,
    };
    Ok(all.into_iter().map(by).max().unwrap_or_else(unsaid))
}

/// Returns whether somebody has defined a kind: what Kubernetes has by itself, and is in no profile, keeps no state.
fn is_custom(gvk: &Gvk) -> bool {
    gvk.group.contains('.') && !gvk.group.ends_with(".k8s.io")
}

fn join(names: &[ClusterName], last: &str) -> String {
    match names {
        [] => "no cluster".to_owned(),
        [only] => only.to_string(),
        [first @ .., end] => {
            let first: Vec<&str> = first.iter().map(ClusterName::as_str).collect();
            format!("{} {last} {end}", first.join(", "))
        }
    }
}

/// Why a write is not sent: what it would do to live workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub losses: Vec<Loss>,
    /// What accepts exactly this, as the annotation [`ACCEPT_ANNOTATION`].
    pub digest: String,
    is_deletion: bool,
    /// Of the workloads that would start elsewhere, the kinds that cannot be moved with their state.
    immovable: BTreeMap<GroupKind, &'static Immovable>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&listed(&self.losses))?;
        let mut all = self.immovable.iter();
        all.try_for_each(|(kind, known)| write!(f, "; {}", known.message(&kind.kind)))
    }
}

/// What a write that may be sent would do to workloads of which no profile says whether they have state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubts(pub Vec<Loss>);

impl Doubts {
    /// Returns what people are told; `None`: there is none.
    pub fn told(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| {
            format!(
                "{}; whether that loses state is not known (gate: {{unknownKinds: Block}} would hold it back)",
                listed(&self.0)
            )
        })
    }
}

fn listed(losses: &[Loss]) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<String> = losses.iter().take(SHOWN).map(Loss::to_string).collect();
    let shown = shown.join("; ");
    match losses.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

impl Refusal {
    /// Returns the next thing to do. `setting`: what would have a push move workloads by itself, where nothing else keeps it from that.
    pub fn hint(&self, setting: Option<&str>) -> String {
        let may_move = self.immovable.is_empty() && self.losses.iter().all(Loss::is_move);
        let setting = setting.filter(|_| may_move);
        let steps = [self.way_out(), setting.map(str::to_owned), Some(self.accepting())];
        steps.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Returns what accepts it.
    fn accepting(&self) -> String {
        let digest = &self.digest;
        let forgets = self.losses.iter().all(|loss| loss.fate == Fate::Forgotten);
        if self.is_deletion && forgets {
            return format!(
                "to accept that, annotate the live object with {ACCEPT_ANNOTATION}={ACCEPT_DELETION}"
            );
        }
        if self.is_deletion {
            return format!(
                "to delete it with its state, annotate the live object with {ACCEPT_ANNOTATION}={ACCEPT_DELETION}"
            );
        }
        let is_elsewhere = self.losses.iter().all(|loss| loss.state == State::Elsewhere);
        let what = if forgets {
            "that"
        } else if is_elsewhere {
            "that two copies of it may run"
        } else {
            "the loss of its state"
        };
        format!("to accept {what}, annotate the object in Git with {ACCEPT_ANNOTATION}: {digest}")
    }
}

impl Ground {
    /// Returns why a write must not be sent; takes it in, if it may.
    ///
    /// To be asked in the order in which the writes are carried out, one after the other: of those that are sent together see [`Batch`].
    /// `accepted` is what the annotation of the object says. O(workloads + policies of the namespaces of those that it touches).
    pub fn pass(&mut self, write: &Write, accepted: Option<&str>) -> Result<Doubts, Refusal> {
        let doubts = self.judge(write, accepted)?;
        self.take_in(write);
        Ok(doubts)
    }

    /// The same, of a write that may never be sent.
    pub fn judge(&self, write: &Write, accepted: Option<&str>) -> Result<Doubts, Refusal> {
        let mut losses: Vec<Loss> = match write {
            Write::Policy(name, spec) => self.placed_again(name, spec.as_deref()),
            Write::Labels(key, labels) => self.labelled(key, labels),
            Write::Template(key) => self.ending(|tenant| tenant.workload == *key),
            Write::Namespace(name) => self.ending(|tenant| tenant.namespace() == Some(name)),
            Write::Definition(kind) => {
                self.ending(|tenant| tenant.workload.group == kind.group && tenant.workload.kind == kind.kind)
            }
            Write::Cluster(name, cluster) => self.reached(name, cluster.as_deref(), write),
            Write::Profile(name, profile) => self.forgotten(name, profile.as_deref()),
        };
        losses.retain(Loss::is_one);
        let (doubts, losses): (Vec<Loss>, Vec<Loss>) = losses.into_iter().partition(Loss::is_doubt);
        let refusal = Refusal {
            digest: loss_digest(write, &losses),
            is_deletion: write.is_deletion(),
            immovable: self.immovable(&losses),
            losses,
        };
        let accepts = |text: &str| {
            let mut words = text.split(|c: char| c == ',' || c.is_whitespace());
            words.any(|word| word == refusal.digest || refusal.is_deletion && word == ACCEPT_DELETION)
        };
        if !refusal.losses.is_empty() && !accepted.is_some_and(accepts) {
            return Err(refusal);
        }
        Ok(Doubts(doubts))
    }

    fn take_in(&mut self, write: &Write) {
        match write {
            Write::Policy(name, Some(spec)) => drop(self.policies.insert(name.clone(), (**spec).clone())),
            Write::Policy(name, None) => drop(self.policies.remove(name)),
            Write::Labels(key, labels) => {
                let named = self.tenants.iter_mut().filter(|tenant| tenant.workload == *key);
                named.for_each(|tenant| set_labels(&mut tenant.template, labels));
            }
            Write::Template(key) => self.tenants.retain(|tenant| tenant.workload != *key),
            Write::Namespace(name) => self.tenants.retain(|tenant| tenant.namespace() != Some(name)),
            Write::Definition(kind) => self.tenants.retain(|tenant| {
                (&tenant.workload.group, &tenant.workload.kind) != (&kind.group, &kind.kind)
            }),
            Write::Cluster(name, Some(cluster)) => {
                self.clusters.insert(name.clone(), (**cluster).clone());
            }
            Write::Cluster(name, None) => drop(self.clusters.remove(name)),
            // What it said counts for policies that are still to be judged, and not for other profiles.
            Write::Profile(name, profile) => {
                self.knowledge.then = Some(self.knowledge.with(name, profile.as_deref()));
            }
        }
    }

    /// Returns the workloads of which nothing would say any more that they have state.
    fn forgotten(&self, name: &str, profile: Option<&WorkloadProfile>) -> Vec<Loss> {
        let then = self.knowledge.with(name, profile);
        let mut known: BTreeMap<Gvk, bool> = BTreeMap::new();
        let mut is_forgotten = |tenant: &&Tenant| {
            let kind = tenant.kind();
            let is_known = |live, kind: &Gvk| self.knowledge.is_known(live, kind);
            *known
                .entry(kind.clone())
                .or_insert_with(|| is_known(self.knowledge.to_be(), &kind) && !is_known(&then, &kind))
        };
        let forgotten = self.tenants.iter().filter(|tenant| is_forgotten(tenant));
        forgotten
            .map(|tenant| tenant.loses(Fate::Forgotten, None))
            .collect()
    }

    fn ending(&self, which: impl Fn(&Tenant) -> bool) -> Vec<Loss> {
        let ending = self.tenants.iter().filter(|tenant| which(tenant));
        ending.map(|tenant| tenant.loses(Fate::Ends, None)).collect()
    }

    /// Returns the workloads that a policy has or selects, as it is now or as it will be.
    fn touched<'a>(
        &'a self,
        name: &'a PolicyName,
        spec: Option<&'a PropagationSpec>,
    ) -> impl Iterator<Item = &'a Tenant> {
        let before = self.policies.get(name);
        let touches = move |tenant: &&Tenant| {
            tenant.owner.as_ref() == Some(name)
                || [before, spec]
                    .into_iter()
                    .flatten()
                    .any(|spec| selects(name, spec, tenant.namespace(), &tenant.template).is_some())
        };
        self.tenants.iter().filter(touches)
    }

    /// Returns what is lost when a policy becomes another one, or goes.
    fn placed_again(&self, name: &PolicyName, spec: Option<&PropagationSpec>) -> Vec<Loss> {
        let policies = PoliciesByName::of(&self.policies);
        self.touched(name, spec)
            .flat_map(|tenant| {
                let now = Self::selecting_of(&policies, tenant, None);
                let then = Self::selecting_of(&policies, tenant, Some((name, spec)));
                self.changed(&now, &then, tenant)
            })
            .collect()
    }

    /// Returns what is lost when a template gets other labels, by which policies may select it.
    fn labelled(&self, key: &ObjectKey, labels: &BTreeMap<String, String>) -> Vec<Loss> {
        let named = self.tenants.iter().filter(|tenant| tenant.workload == *key);
        named
            .flat_map(|tenant| {
                let mut labelled = tenant.clone();
                set_labels(&mut labelled.template, labels);
                let now = self.selecting(tenant, None);
                let then = self.selecting(&labelled, None);
                self.changed(&now, &then, tenant)
            })
            .collect()
    }

    /// Returns what is lost when a member cluster becomes another one, or goes: the policies stay, and choose anew by its labels;
    /// a taint evicts what doesn't tolerate it.
    fn reached(&self, name: &ClusterName, cluster: Option<&Cluster>, write: &Write) -> Vec<Loss> {
        let mut then = self.clone();
        then.take_in(write);
        let mut losses = Vec::new();
        let policies = PoliciesByName::of(&self.policies);
        for tenant in &self.tenants {
            let mut of_tenant: Vec<Loss> = Vec::new();
            for (_, spec) in Self::selecting_of(&policies, tenant, None).possible() {
                let loss = self.reached_by(spec, tenant, (name, cluster), &then);
                of_tenant.extend(loss.filter(|loss| !of_tenant.contains(loss)));
            }
            losses.extend(of_tenant);
        }
        losses
    }

    /// The same, of one workload under one policy.
    fn reached_by(
        &self,
        spec: &PropagationSpec,
        tenant: &Tenant,
        (name, cluster): (&ClusterName, Option<&Cluster>),
        then: &Self,
    ) -> Option<Loss> {
        let before = self.fate(spec, tenant);
        let evicts = |after: &Cluster| evicts_sooner(&spec.placement, self.clusters.get(name), after);
        let is_evicted = tenant.clusters().contains(name) && cluster.is_some_and(evicts);
        let after = match then.fate(spec, tenant) {
            Some(Fate::Moves { mut stops, starts }) => {
                if is_evicted && !stops.contains(name) {
                    stops.push(name.clone());
                    stops.sort();
                }
                Some(Fate::Moves { stops, starts })
            }
            _ if is_evicted => Some(Fate::Moves {
                stops: vec![name.clone()],
                starts: then.others_that_fit(spec, tenant),
            }),
            other => other,
        };
        // What is so already, or can't be told already, isn't this write's doing.
        let fate = after.filter(|after| is_evicted || before.as_ref() != Some(after))?;
        Some(tenant.loses(fate, Some(spec)))
    }

    /// Returns the clusters that a placement would take beside those that a workload is in.
    fn others_that_fit(&self, spec: &PropagationSpec, tenant: &Tenant) -> Vec<ClusterName> {
        let (placement, here) = (&spec.placement, tenant.clusters());
        let affinity = affinity(placement, tenant).unwrap_or_default();
        let all = self.clusters.iter().filter(|(name, _)| !here.contains(name));
        let fit =
            all.filter(|(name, cluster)| fits(&tenant.binding.spec, placement, affinity, name, cluster));
        fit.map(|(name, _)| name.clone()).collect()
    }

    /// Returns what becomes of a workload when another policy places it, or its policy says otherwise. Which one does depends on
    /// what isn't known of Karmada: each answer counts, and most often they are one.
    fn changed(&self, now: &Selecting<'_>, then: &Selecting<'_>, tenant: &Tenant) -> Vec<Loss> {
        let mut losses: Vec<Loss> = Vec::new();
        let mut judged = Vec::new();
        for preemption in Preemption::ALL {
            let (now, then) = (now.governing(preemption), then.governing(preemption));
            let names = (now.map(|(name, _)| name), then.map(|(name, _)| name));
            if judged.contains(&names) {
                continue;
            }
            judged.push(names);
            let loss = self.placed_otherwise(now.map(|(_, spec)| spec), then.map(|(_, spec)| spec), tenant);
            losses.extend(loss.filter(|loss| !losses.contains(loss)));
        }
        losses
    }

    fn placed_otherwise(
        &self,
        now: Option<&PropagationSpec>,
        then: Option<&PropagationSpec>,
        tenant: &Tenant,
    ) -> Option<Loss> {
        // Without a policy a binding stays as it is.
        let (then, binding) = (then?, &tenant.binding.spec);
        let is_same = |placement: Option<&Placement>, by: &str| {
            placement == Some(&then.placement) && scheduler(by) == scheduler(&then.scheduler_name)
        };
        let is_in_force = now.is_some_and(|now| is_same(Some(&now.placement), &now.scheduler_name));
        // What is in hand waits for a placement that keeps it, and that may be on its way to the binding.
        let is_applied =
            tenant.in_hand.is_none() && is_same(binding.placement.as_ref(), &binding.scheduler_name);
        if is_in_force || is_applied {
            return None;
        }
        let fate = self.fate(then, tenant)?;
        Some(tenant.loses(fate, Some(then)))
    }

    /// Returns a policy that places a workload of which it isn't known which one has it.
    pub(crate) fn policy_of(&self, tenant: &Tenant) -> Option<(&PolicyName, &PropagationSpec)> {
        self.selecting(tenant, None).governing(Preemption::Any)
    }

    /// Returns the policy that places a workload once one has `changed` to another, or is gone; or why it isn't certain which one
    /// does. `preempts`: Karmada is said to let one take it from another. The workload's own one doesn't count if it `goes` as well, or
    /// lets go of it.
    pub(crate) fn placing<'a>(
        &'a self,
        tenant: &Tenant,
        changed: (&'a PolicyName, Option<&'a PropagationSpec>),
        preempts: bool,
        goes: impl Fn(&PolicyName) -> bool,
    ) -> Result<Option<(&'a PolicyName, &'a PropagationSpec)>, String> {
        let selecting = self.selecting(tenant, Some(changed));
        let own = tenant.owner.as_ref().filter(|own| *own != changed.0);
        if own.is_some_and(goes) {
            return selecting.without_own().certain(preempts);
        }
        selecting.certain(preempts)
    }

    /// Returns the policies that select a workload, with one `changed` to another, or gone.
    fn selecting<'a>(
        &'a self,
        tenant: &Tenant,
        changed: Option<(&'a PolicyName, Option<&'a PropagationSpec>)>,
    ) -> Selecting<'a> {
        let of = |namespace: Option<&str>| {
            let first = PolicyName {
                namespace: namespace.map(str::to_owned),
                name: String::new(),
            };
            let namespace = first.namespace.clone();
            let from = self.policies.range(first..);
            from.take_while(move |(name, _)| name.namespace == namespace)
        };
        let namespaced = tenant.namespace().map(|namespace| of(Some(namespace)));
        let all = of(None).chain(namespaced.into_iter().flatten());
        Self::selecting_among(all, tenant, changed)
    }

    /// The same, for whoever looks for those of many workloads.
    fn selecting_of<'a>(
        policies: &PoliciesByName<'a>,
        tenant: &Tenant,
        changed: Option<(&'a PolicyName, Option<&'a PropagationSpec>)>,
    ) -> Selecting<'a> {
        let policies = policies.may_select(&tenant.workload.name, tenant.namespace());
        Self::selecting_among(policies, tenant, changed)
    }

    fn selecting_among<'a>(
        policies: impl Iterator<Item = (&'a PolicyName, &'a PropagationSpec)>,
        tenant: &Tenant,
        changed: Option<(&'a PolicyName, Option<&'a PropagationSpec>)>,
    ) -> Selecting<'a> {
        let others = policies.filter(|(name, _)| changed.is_none_or(|(changed, _)| *name != changed));
        let changed = changed.and_then(|(name, spec)| Some((name, spec?)));
        let all = others.chain(changed);
        Selecting::new(tenant.owner.as_ref(), tenant.namespace(), &tenant.template, all)
    }

    /// Returns what Karmada's scheduler makes of another placement; `None`: the workload keeps exactly its clusters.
    fn fate(&self, spec: &PropagationSpec, tenant: &Tenant) -> Option<Fate> {
        let (placement, binding) = (&spec.placement, &tenant.binding.spec);
        let here = tenant.clusters();
        let unclear = |why: &str| Some(Fate::Unclear { why: why.to_owned() });
        if here.is_empty() {
            return unclear("an intent has claimed it, and lets it run in no cluster now");
        }
        if scheduler(&spec.scheduler_name) != scheduler(&binding.scheduler_name) {
            return unclear("another scheduler would place it");
        }
        if let Some(missing) = here.iter().find(|name| !self.clusters.contains_key(**name)) {
            return unclear(&format!("{missing} is not joined"));
        }
        // By this rule its intent waits for a placement; it names the group of affinities itself before it ends.
        if let Some([kept]) = tenant.in_hand.as_deref()
            && keeps_target(placement, kept, &self.clusters, affinity_in_use(&tenant.binding)).is_ok()
        {
            return None;
        }
        let affinity = match affinity(placement, tenant) {
            Ok(affinity) => affinity,
            Err(why) => return unclear(why),
        };
        let fit: BTreeSet<&ClusterName> = self
            .clusters
            .iter()
            .filter(|(name, cluster)| fits(binding, placement, affinity, name, cluster))
            .map(|(name, _)| name)
            .collect();
        let evicted = |name: &&ClusterName| {
            let cluster = self.clusters.get(*name);
            cluster.is_some_and(|cluster| tolerates_less(placement, binding.placement.as_ref(), cluster))
        };
        let names = |names: &mut dyn Iterator<Item = &ClusterName>| names.cloned().collect::<Vec<_>>();
        let stops = names(
            &mut here
                .iter()
                .copied()
                .filter(|name| !fit.contains(name) || evicted(name)),
        );
        let more: Vec<&ClusterName> = fit.difference(&here).copied().collect();
        if !stops.is_empty() {
            return Some(Fate::Moves {
                stops,
                starts: names(&mut more.into_iter()),
            });
        }
        if more.is_empty() {
            return None;
        }
        self.spread(placement, tenant, &here, &more)
    }

    /// Returns why it can't be told that Karmada's scheduler leaves a workload in a cluster once a Migration has brought it there: it
    /// has to be certain by the rule of Preflight, and by this gate's own for what no intent has in hand.
    pub(super) fn keeps(
        &self,
        tenant: &Tenant,
        spec: &PropagationSpec,
        to: &ClusterName,
    ) -> Result<(), String> {
        if let Some(unknown) = spec.placement.rest.keys().next() {
            return Err(format!("what its placement means by {unknown} is not known"));
        }
        let in_use = affinity_in_use(&tenant.binding);
        keeps_target(&spec.placement, to, &self.clusters, in_use).map_err(|finding| finding.message)?;
        let mut there = tenant.clone();
        there.in_hand = None;
        for target in &mut there.binding.spec.clusters {
            target.name.clone_from(to);
        }
        match self.fate(spec, &there) {
            None => Ok(()),
            Some(Fate::Unclear { why }) => Err(why),
            Some(_) => Err(format!("{to} would not be the only one")),
        }
    }

    /// Returns what becomes of a workload that may stay where it is, and may go to others as well.
    fn spread(
        &self,
        placement: &Placement,
        tenant: &Tenant,
        here: &BTreeSet<&ClusterName>,
        more: &[&ClusterName],
    ) -> Option<Fate> {
        let starts = |names: &[&ClusterName]| {
            let starts: Vec<ClusterName> = names.iter().map(|name| (*name).clone()).collect();
            (!starts.is_empty()).then_some(Fate::Spreads { starts })
        };
        let unclear = |why: &str| Some(Fate::Unclear { why: why.to_owned() });
        let is_divided = divides(&tenant.binding.spec, placement);
        if is_divided && placement.divides_by_static_weights() {
            let weighs = |name: &&&ClusterName| {
                let cluster = self.clusters.get(**name);
                cluster.is_some_and(|cluster| static_weight(placement, cluster) > 0)
            };
            let weighty: Vec<&ClusterName> = more.iter().filter(weighs).copied().collect();
            return starts(&weighty);
        }
        // Replicas stay together where they are.
        if is_divided && placement.aggregates() {
            return None;
        }
        if placement.spread_constraints.is_empty() {
            return if is_divided {
                unclear("its replicas would be divided by the free capacity of the clusters")
            } else {
                starts(more)
            };
        }
        let Some(by_cluster) = placement.cluster_constraint() else {
            return unclear("its policy spreads it, and not by cluster");
        };
        if placement.spread_constraints.len() > 1 {
            return unclear("its policy spreads it by more than clusters");
        }
        let most = usize::try_from(by_cluster.max_groups).unwrap_or(usize::MAX);
        match here.len().cmp(&most) {
            // Where it is counts for more than anything else.
            std::cmp::Ordering::Equal if !is_divided => None,
            std::cmp::Ordering::Equal => {
                unclear("its replicas would be divided by the free capacity of the clusters")
            }
            std::cmp::Ordering::Less => starts(more),
            std::cmp::Ordering::Greater => unclear("it runs in more clusters than its policy would allow"),
        }
    }
}

impl Tenant {
    /// Returns what becomes of it `by` the policy that would place it.
    fn loses(&self, fate: Fate, by: Option<&PropagationSpec>) -> Loss {
        let placement = by.map(|by| serde_json::to_value(&by.placement).unwrap_or_default());
        let other = by.map(|by| scheduler(&by.scheduler_name));
        Loss {
            workload: self.workload.clone(),
            fate,
            state: self.state,
            is_single: self.in_hand.is_some() || self.binding.spec.clusters.len() == 1,
            clusters: self.clusters().into_iter().cloned().collect(),
            placement: placement.unwrap_or_default(),
            scheduler: other
                .filter(|other| *other != DEFAULT_SCHEDULER)
                .map(str::to_owned),
        }
    }
}

/// Returns the name of the scheduler that a policy or a binding means.
const fn scheduler(name: &str) -> &str {
    if name.is_empty() { DEFAULT_SCHEDULER } else { name }
}

/// Returns the affinity that the scheduler would go by.
fn affinity<'a>(
    placement: &'a Placement,
    tenant: &Tenant,
) -> Result<Option<&'a ClusterAffinity>, &'static str> {
    let terms = &placement.cluster_affinities;
    if terms.is_empty() {
        return Ok(placement.cluster_affinity.as_ref());
    }
    let status = tenant.binding.status.as_ref();
    let observed = status.map_or("", |status| status.scheduler_observed_affinity_name.as_str());
    // The scheduler goes on from the group that it used last, and begins with the first where that is gone.
    let index = terms
        .iter()
        .position(|term| term.affinity_name == observed)
        .unwrap_or(0);
    let term = &terms[index];
    if !term.overflow_affinities.is_empty() {
        return Err("its policy has overflow affinities");
    }
    Ok(Some(&term.affinity))
}

/// Returns the taints for which Karmada's taint manager evicts what doesn't tolerate them.
fn no_execute(cluster: &Cluster) -> impl Iterator<Item = &Taint> {
    let taints = cluster.spec.taints.iter();
    taints.filter(|taint| taint.effect == "NoExecute")
}

/// Returns whether a placement tolerates a taint of a cluster for less time than the one `before` it. How much of that time has passed
/// makes no difference.
fn tolerates_less(placement: &Placement, before: Option<&Placement>, cluster: &Cluster) -> bool {
    // Where none is known, there may have been no limit.
    let until_now = |taint: &Taint| before.map_or(i64::MAX, |before| before.tolerated_seconds(taint));
    no_execute(cluster).any(|taint| placement.tolerated_seconds(taint) < until_now(taint))
}

/// Returns whether Karmada evicts what is placed like this from a cluster that becomes another one, and didn't before, or not as soon.
fn evicts_sooner(placement: &Placement, before: Option<&Cluster>, after: &Cluster) -> bool {
    let added = |taint: &Taint| Some(taint.time_added.as_ref()?.0.as_second());
    let is_as_soon = |old: &Taint, new: &Taint| {
        let (old_seconds, new_seconds) = (placement.tolerated_seconds(old), placement.tolerated_seconds(new));
        let is_over_first = match (added(old), added(new)) {
            // It begins to count when it is applied.
            (_, None) => old_seconds <= new_seconds,
            (Some(old), Some(new)) => old.saturating_add(old_seconds) <= new.saturating_add(new_seconds),
            (None, Some(_)) => false,
        };
        old_seconds == 0 || is_over_first
    };
    let is_new = |new: &Taint| {
        let mut old = before.into_iter().flat_map(no_execute);
        !old.any(|old| is_as_soon(old, new))
    };
    no_execute(after).any(|taint| !placement.tolerates_for_ever(taint) && is_new(taint))
}

fn set_labels(template: &mut Value, labels: &BTreeMap<String, String>) {
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), json!(labels));
    }
}

/// Returns what stands for a write and all that is lost by it: another cluster, workload or placement is another one.
fn loss_digest(write: &Write, losses: &[Loss]) -> String {
    let what = match write {
        Write::Policy(name, _) => json!(["policy", name.to_string()]),
        Write::Labels(key, labels) => json!(["labels", key.to_string(), labels]),
        Write::Template(key) => json!(["template", key.to_string()]),
        Write::Namespace(name) => json!(["namespace", name]),
        Write::Definition(kind) => json!(["definition", kind.to_string()]),
        Write::Cluster(name, cluster) => json!([
            "cluster",
            name,
            cluster
                .as_ref()
                .map(|cluster| (labels_of(cluster), untimed(&cluster.spec.taints)))
        ]),
        Write::Profile(name, profile) => {
            json!([
                "profile",
                name,
                profile.as_ref().map(|profile| digest(&json!(profile.spec)))
            ])
        }
    };
    let each = |loss: &Loss| {
        let (workload, clusters) = (json!(loss.workload.to_string()), json!(loss.clusters));
        let scheduler = loss.scheduler.iter().map(|scheduler| json!(scheduler));
        let parts = [workload, clusters, loss.placement.clone()];
        parts.into_iter().chain(scheduler).collect::<Value>()
    };
    let losses: Vec<Value> = losses.iter().map(each).collect();
    let mut digest = digest(&json!([what, losses]));
    digest.truncate(DIGITS);
    digest
}

/// Returns the labels of a cluster without the one that cutover itself sets and takes off meanwhile.
fn labels_of(cluster: &Cluster) -> Option<BTreeMap<String, String>> {
    let mut labels = cluster.metadata.labels.clone()?;
    labels.remove(DELETION_PROTECTED);
    (!labels.is_empty()).then_some(labels)
}

/// Returns taints without their times. Karmada fills in when a taint is added, in a dry run too: it is another time in the next one.
fn untimed(taints: &[Taint]) -> Vec<Taint> {
    let mut taints = taints.to_vec();
    for taint in &mut taints {
        taint.time_added = None;
    }
    taints
}

#[cfg(test)]
mod tests;
