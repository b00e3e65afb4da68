//! The pin: one OverridePolicy that says for each cluster what is different there from the template; above all, which cluster
//! may run the workload, and that it is held everywhere else. That of a workload of cluster scope is a
//! `ClusterOverridePolicy`: Karmada applies no other to it.
//!
//! Holding is always by `exclude`, so a cluster that joins or is listed later is born held.

mod named;
mod overriders;
mod parents;
mod place;
mod trial;
mod write;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use named::{Holds, Named};
pub use parents::lacking;
pub(super) use place::besides;
pub use place::unfit;
pub use trial::{Failed, HERE, Role, has_to_stay, patched, trial};
pub use write::{Authority, PinWrite, Unauthorized};

use crate::api::{MARKER_ANNOTATION, PIN_FINALIZER, PatchOp, PinnedRule};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{
    ClusterAffinity, MapOverrider, Operator, OverridePolicy, OverrideRule, OverrideSpec, Overriders,
    ResourceSelector, meta,
};

/// Label of every object that an intent made for itself.
pub const OWNER_LABEL: &str = "cutover.dev/intent-uid";

/// Annotation of a pin that says for people, and for the admission fence, whose it is.
pub const OWNER_ANNOTATION: &str = "cutover.dev/owner";

/// How the names of pins begin.
pub const PREFIX: &str = "zzzz-cutover-";

/// The name of a pin that there never is: the admission fence refuses it to everybody.
pub const SELF_TEST: &str = "zzzz-cutover-self-test";

/// Who may run a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writer {
    Nobody,
    /// One cluster; every other one is held.
    Only(ClusterName),
    /// Every cluster, for it has no state; what is carried goes to one of them.
    Shared {
        carrier: ClusterName,
    },
}

impl Writer {
    /// Returns the one cluster that may write.
    pub fn writer(&self) -> Option<&ClusterName> {
        match self {
            Self::Only(writer) => Some(writer),
            Self::Nobody | Self::Shared { .. } => None,
        }
    }

    fn carrier(&self) -> Option<&ClusterName> {
        match self {
            Self::Only(carrier) | Self::Shared { carrier } => Some(carrier),
            Self::Nobody => None,
        }
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared { .. } => f.write_str("shared"),
            Self::Nobody | Self::Only(_) => {
                write!(f, "writer {}", named_writer(self.writer()))
            }
        }
    }
}

/// Returns the name of the cluster that may run a workload, as it is told.
pub(super) fn named_writer(writer: Option<&ClusterName>) -> &str {
    writer.map_or("nobody", ClusterName::as_str)
}

/// Which clusters something is said in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Also clusters that join or are listed later: they get it from the start.
    AllBut(Vec<ClusterName>),
    Only(Vec<ClusterName>),
}

impl Place {
    fn contains(&self, cluster: &ClusterName) -> bool {
        match self {
            Self::AllBut(others) => !others.contains(cluster),
            Self::Only(these) => these.contains(cluster),
        }
    }

    /// Returns whether every cluster of another place is in this one.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::AllBut(left_out), Self::AllBut(others)) => {
                left_out.iter().all(|cluster| others.contains(cluster))
            }
            (Self::Only(_), Self::AllBut(_)) => false,
            (_, Self::Only(these)) => these.iter().all(|cluster| self.contains(cluster)),
        }
    }

    fn target(&self) -> Option<ClusterAffinity> {
        match self {
            Self::AllBut(none) if none.is_empty() => None,
            Self::AllBut(others) => Some(ClusterAffinity::all_but(others.iter().cloned())),
            Self::Only(these) => Some(ClusterAffinity::only(these.iter().cloned())),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (but, clusters) = match self {
            Self::AllBut(none) if none.is_empty() => return f.write_str("everywhere"),
            Self::AllBut(others) => ("everywhere but in ", others),
            Self::Only(these) => ("in ", these),
        };
        let names: Vec<&str> = clusters.iter().map(ClusterName::as_str).collect();
        write!(f, "{but}{}", names.join(", "))
    }
}

/// One thing that a pin says, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub place: Place,
    pub patches: Vec<PatchOp>,
}

impl From<&PinnedRule> for Rule {
    fn from(rule: &PinnedRule) -> Self {
        let place = match (&rule.all_but, &rule.only) {
            (_, Some(these)) => Place::Only(these.clone()),
            (others, None) => Place::AllBut(others.clone().unwrap_or_default()),
        };
        Self {
            place,
            patches: rule.patches.clone(),
        }
    }
}

impl From<Rule> for PinnedRule {
    fn from(rule: Rule) -> Self {
        let (all_but, only) = match rule.place {
            Place::AllBut(others) => (Some(others), None),
            Place::Only(these) => (None, Some(these)),
        };
        Self {
            all_but,
            only,
            patches: rule.patches,
        }
    }
}

/// What a pin says of a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Says {
    /// Who may run it.
    Token(Token),
    /// What is different in some clusters, whoever runs it: a version, a number of replicas. It holds nobody, and is never
    /// written over what somebody else says.
    Differences(Vec<Rule>),
}

impl Says {
    fn rules(&self) -> Cow<'_, [Rule]> {
        match self {
            Self::Token(token) => Cow::Owned(token.rules()),
            Self::Differences(rules) => Cow::Borrowed(rules),
        }
    }
}

impl fmt::Display for Says {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(token) => write!(f, "{}", token.may_run),
            Self::Differences(rules) if rules.is_empty() => f.write_str("the same everywhere"),
            Self::Differences(rules) => {
                let places: Vec<String> = rules.iter().map(|rule| rule.place.to_string()).collect();
                write!(f, "differs {}", places.join("; "))
            }
        }
    }
}

/// Who may run a workload, and with what.
#[derive(Clone, Debug, PartialEq)]
pub struct Token {
    pub may_run: Writer,
    pub hold: Vec<PatchOp>,
    /// Clusters that keep the suspend patches besides the hold, so that their state stays as captured.
    pub suspended: Vec<ClusterName>,
    pub suspend: Vec<PatchOp>,
    /// What those clusters get that hold and suspension call by name; empty where these name none.
    pub named: BTreeMap<ClusterName, Named>,
    /// What the writer carries beyond the template: the state handle, a new image.
    pub carry: Vec<PatchOp>,
}

impl Token {
    /// Returns the rules: everybody else held, in general and by name, the suspended ones suspended, the writer's own.
    fn rules(&self) -> Vec<Rule> {
        let writer = self.may_run.writer();
        let mut rules = Vec::new();
        if !matches!(self.may_run, Writer::Shared { .. }) {
            rules.push(Rule {
                place: Place::AllBut(writer.into_iter().cloned().collect()),
                patches: self.hold.clone(),
            });
            let held = self
                .named
                .iter()
                .filter(|(cluster, named)| writer != Some(*cluster) && !named.hold.is_empty());
            rules.extend(held.map(|(cluster, named)| Rule {
                place: Place::Only(vec![cluster.clone()]),
                patches: named.hold.clone(),
            }));
        }
        let own = |cluster: &ClusterName| {
            let named = self.named.get(cluster)?;
            (!named.suspend.is_empty()).then_some(&named.suspend)
        };
        let suspended = self.suspended.iter().filter(|cluster| writer != Some(cluster));
        let (by_name, together): (Vec<&ClusterName>, Vec<&ClusterName>) =
            suspended.partition(|cluster| own(cluster).is_some());
        if !together.is_empty() {
            rules.push(Rule {
                place: Place::Only(together.into_iter().cloned().collect()),
                patches: self.suspend.clone(),
            });
        }
        rules.extend(by_name.into_iter().filter_map(|cluster| {
            Some(Rule {
                place: Place::Only(vec![cluster.clone()]),
                patches: own(cluster)?.clone(),
            })
        }));
        if let Some(carrier) = self.may_run.carrier()
            && !self.carry.is_empty()
        {
            rules.push(Rule {
                place: Place::Only(vec![carrier.clone()]),
                patches: self.carry.clone(),
            });
        }
        rules
    }
}

/// What a pin shall say. A value anybody may make, compare and show; writing one that names a writer takes a proof.
#[derive(Clone, Debug, PartialEq)]
pub struct Pin {
    /// That of the workload; none for one of cluster scope.
    pub namespace: Option<String>,
    pub name: String,
    pub owner_uid: String,
    /// Kind, namespace and name of the intent.
    pub owner: String,
    pub api_version: String,
    /// Every `apiVersion` under which the control plane serves the kind, as far as it is known: Karmada makes the Works from
    /// the one that it prefers, which can change, and a selector means exactly one.
    pub versions: Arc<Vec<String>>,
    pub kind: String,
    pub workload: String,
    pub marker: String,
    /// What guests of the workload change of what runs. It comes first: whatever it says, who is held stays held.
    pub differences: Vec<Rule>,
    /// What the template lacks for the patches by which it says who may run the workload: see [`lacking`].
    pub created: Vec<String>,
    pub says: Says,
}

/// Returns the name of the pin of a workload: it sorts after the names that people choose, and the last name wins.
pub fn name(workload: &ObjectKey) -> String {
    format!("{PREFIX}{}", crate::api::claim_name(workload))
}

/// Returns the marker of a sequence.
pub fn marker(owner_uid: &str, attempt: u32, seq: u64) -> String {
    format!("{owner_uid}.{attempt}.{seq}")
}

/// Returns the attempt and the sequence of a marker of an intent.
pub fn sequence(marker: &str, owner_uid: &str) -> Option<(u32, u64)> {
    let (attempt, seq) = marker
        .strip_prefix(owner_uid)?
        .strip_prefix('.')?
        .split_once('.')?;
    // A number that no migration comes to is somebody else's: counting on from it must not overflow.
    let attempt = attempt.parse().ok().filter(|attempt| *attempt < u32::MAX)?;
    Some((attempt, u64::from(seq.parse::<u32>().ok()?)))
}

impl Pin {
    /// Returns the one cluster that may write, if it says so.
    pub fn writer(&self) -> Option<&ClusterName> {
        match &self.says {
            Says::Token(token) => token.may_run.writer(),
            Says::Differences(_) => None,
        }
    }

    /// Compiles the rules: what it says, after what it creates for that, and the marker everywhere.
    pub fn spec(&self) -> OverrideSpec {
        let mut rules = compiled(self.differences.iter());
        rules.extend(match &self.says {
            Says::Token(token) => compiled(parents::creating(token.rules(), &self.created).iter()),
            Says::Differences(said) => compiled(said.iter()),
        });
        rules.push(marks(&self.marker));
        OverrideSpec {
            resource_selectors: self.selectors(),
            override_rules: rules,
            ..OverrideSpec::default()
        }
    }

    /// Differences first, then who may run it.
    fn rules(&self) -> Vec<Rule> {
        let said = self.says.rules();
        self.differences.iter().chain(said.iter()).cloned().collect()
    }

    /// Names the workload under each version of its kind: the one that the intent speaks of first.
    fn selectors(&self) -> Vec<ResourceSelector> {
        let others = self
            .versions
            .iter()
            .filter(|version| **version != self.api_version);
        let named = |api_version: &String| ResourceSelector {
            api_version: api_version.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: self.workload.clone(),
            ..ResourceSelector::default()
        };
        [&self.api_version].into_iter().chain(others).map(named).collect()
    }

    /// Returns whether a policy selects the workload under every version that is served: one may have come since.
    pub fn reaches(&self, policy: &OverridePolicy) -> bool {
        let there = &policy.spec.resource_selectors;
        self.selectors().iter().all(|selector| there.contains(selector))
    }

    /// Returns whether all that a policy selects is the workload, under some version; and under the intent's in any case.
    fn means(&self, policy: &OverridePolicy) -> bool {
        let own = self.selectors();
        let group = |api_version: &str| api_version.rsplit_once('/').map(|(group, _)| group.to_owned());
        let is_same = |there: &ResourceSelector| {
            own.first().is_some_and(|own| {
                group(&there.api_version) == group(&own.api_version)
                    && *own
                        == ResourceSelector {
                            api_version: own.api_version.clone(),
                            ..there.clone()
                        }
            })
        };
        let selectors = &policy.spec.resource_selectors;
        selectors.iter().all(is_same) && own.first().is_some_and(|own| selectors.contains(own))
    }

    /// Returns whether a policy in the API server says what this pin says.
    ///
    /// Karmada reads the deprecated `targetCluster` and `overriders` only without `overrideRules`, and its webhook adds an
    /// empty one: they say nothing here. One that is being deleted says what it says for as long as its finalizer is on:
    /// Karmada applies it, and it can be changed.
    pub fn is_written_as(&self, policy: &OverridePolicy) -> bool {
        let wanted = self.spec();
        let (there, wanted) = (&policy.spec.override_rules, &wanted.override_rules);
        (there == wanted || overriders::as_written_now(there) == *wanted)
            && self.means(policy)
            && policy
                .metadata
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == PIN_FINALIZER)
            && policy
                .metadata
                .labels
                .iter()
                .flatten()
                .any(|(key, value)| key == meta::DELETION_PROTECTED && value == meta::PROTECTED_ALWAYS)
    }

    /// Returns whether a policy says what this pin says, whatever the template lacked when each was written. What is created for a patch
    /// lets nobody run.
    pub fn is_written_but_for_what_it_creates(&self, policy: &OverridePolicy) -> bool {
        let reworded = || Self {
            created: parents::created_by(policy, &self.says.rules()),
            ..self.clone()
        };
        self.is_written_as(policy) || reworded().is_written_as(policy)
    }

    /// Returns whether a policy says what this pin says as an earlier version wrote it: Karmada may not be able to apply that to a
    /// template that lacks what this version makes.
    pub fn is_worded_as_before(&self, policy: &OverridePolicy) -> bool {
        policy.spec.override_rules != self.spec().override_rules && self.is_written_as(policy)
    }

    /// Returns what a cluster gets, in the order in which it is set.
    pub(super) fn says_in(&self, cluster: &ClusterName) -> Vec<PatchOp> {
        let rules = self.rules();
        let here = rules.iter().filter(|rule| rule.place.contains(cluster));
        here.flat_map(|rule| rule.patches.iter().cloned()).collect()
    }

    pub(super) fn policy(&self) -> OverridePolicy {
        let mut policy = OverridePolicy::new(&self.name, self.spec());
        policy.metadata.namespace.clone_from(&self.namespace);
        policy.metadata.labels = Some(BTreeMap::from([
            (
                meta::DELETION_PROTECTED.to_owned(),
                meta::PROTECTED_ALWAYS.to_owned(),
            ),
            (OWNER_LABEL.to_owned(), self.owner_uid.clone()),
        ]));
        let owner = (OWNER_ANNOTATION.to_owned(), self.owner.clone());
        policy.metadata.annotations = Some(BTreeMap::from([owner]));
        policy.metadata.finalizers = Some(vec![PIN_FINALIZER.to_owned()]);
        policy
    }
}

/// Returns the marker that a policy spreads, if it is a pin.
pub fn marker_of(policy: &OverridePolicy) -> Option<&str> {
    policy
        .spec
        .override_rules
        .iter()
        .flat_map(|rule| &rule.overriders.annotations_overrider)
        .find_map(|overrider| overrider.value.get(MARKER_ANNOTATION))
        .map(String::as_str)
}

/// Returns whether a pin, whosever it is, says nothing yet: see [`PinWrite::new`].
pub fn is_blank(policy: &OverridePolicy) -> bool {
    let spec = &policy.spec;
    let mut rules = spec.override_rules.iter();
    let says_nothing = rules.all(|rule| rule.overriders == Overriders::default());
    // Without rules Karmada reads what stood there before there were any.
    says_nothing && !spec.override_rules.is_empty() && owner_of(policy).is_some()
}

/// Leaves a pin out that says nothing yet.
pub fn not_blank(live: Option<&OverridePolicy>) -> Option<&OverridePolicy> {
    live.filter(|live| !is_blank(live))
}

/// Returns the uid of the intent that a pin is labelled with.
pub fn owner_of(policy: &OverridePolicy) -> Option<&String> {
    policy.metadata.labels.as_ref()?.get(OWNER_LABEL)
}

fn compiled<'r>(rules: impl Iterator<Item = &'r Rule>) -> Vec<OverrideRule> {
    let rule = |rule: &Rule| OverrideRule {
        target_cluster: rule.place.target(),
        overriders: overriders::overriders(&rule.patches),
        ..OverrideRule::default()
    };
    rules.map(rule).collect()
}

/// Returns the rule by which every Work that is made with a pin carries its marker.
fn marks(marker: &str) -> OverrideRule {
    OverrideRule {
        target_cluster: None,
        overriders: Overriders {
            annotations_overrider: vec![MapOverrider {
                operator: Operator::Add,
                value: BTreeMap::from([(MARKER_ANNOTATION.to_owned(), marker.to_owned())]),
                ..MapOverrider::default()
            }],
            ..Overriders::default()
        },
        ..OverrideRule::default()
    }
}

/// Returns the rules of a pin by which it says who may run the workload, the marker included: what guests say stands before
/// them. They begin with the hold, the last rule that is about every cluster but one, or about every cluster.
pub fn writer_of(live: &OverridePolicy) -> &[OverrideRule] {
    let rules = &live.spec.override_rules;
    let is_hold = |rule: &OverrideRule| {
        let target = rule.target_cluster.as_ref();
        let names = target.and_then(|target| target.cluster_names.as_ref());
        !overriders::is_marking(rule) && names.is_none_or(Vec::is_empty)
    };
    &rules[rules.iter().rposition(is_hold).unwrap_or(0)..]
}

/// Returns where a pin says these differences.
fn place_of(live: &OverridePolicy, rules: &[PinnedRule]) -> Option<std::ops::Range<usize>> {
    let rules: Vec<Rule> = rules.iter().map(Rule::from).collect();
    let wanted = compiled(rules.iter());
    if wanted.is_empty() {
        return Some(0..0);
    }
    let all = &live.spec.override_rules;
    let before = overriders::as_written_now(&all[..all.len() - writer_of(live).len()]);
    let from = before.windows(wanted.len()).position(|some| *some == *wanted)?;
    Some(from..from + wanted.len())
}

/// Returns whether a pin says these differences, as they are.
pub fn includes(live: &OverridePolicy, rules: &[PinnedRule]) -> bool {
    place_of(live, rules).is_some()
}

/// Returns a pin as it would be without these differences; `None` if it doesn't say them.
pub fn without(live: &OverridePolicy, rules: &[PinnedRule]) -> Option<OverridePolicy> {
    let mut left = live.clone();
    left.spec.override_rules.drain(place_of(live, rules)?);
    Some(left)
}

#[cfg(test)]
mod tests;
