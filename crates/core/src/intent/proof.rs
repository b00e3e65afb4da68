//! Proofs: what must be true before somebody may write, made only from fresh reads and only here.
//!
//! A proof can't be made up (its fields are private) and the effects that let a writer run ask for one. An answer that is
//! missing is [`NotProved::Unknown`], which is neither a yes nor a no.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::control_plane::Overrides;
use super::seen::{NotKnown, Read};
use crate::api::{Capture, MARKER_ANNOTATION, Offered, RunOrder};
use crate::intent::member::Member;
use crate::profile::{NoCapture, Profile};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{Cluster, Work, overrides};

/// Why something is not proved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProved {
    /// It was seen not to be so.
    #[error("{0}")]
    No(String),
    /// It could not be seen.
    #[error("{0}")]
    Unknown(String),
}

impl From<NotKnown> for NotProved {
    fn from(unknown: NotKnown) -> Self {
        Self::Unknown(unknown.0)
    }
}

impl From<crate::profile::Error> for NotProved {
    fn from(error: crate::profile::Error) -> Self {
        Self::Unknown(error.to_string())
    }
}

/// What proofs about one member are made from.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub cluster: &'a ClusterName,
    pub member: &'a Member,
    pub works: &'a BTreeMap<ClusterName, Work>,
    /// The marker of the current sequence.
    pub marker: &'a str,
    pub profile: &'a Profile,
    /// Where pods of the workload have been seen in this member.
    pub nodes: Option<&'a BTreeSet<String>>,
    /// The copy as it was when its cluster was given the token, where it was.
    pub offered: Option<&'a Offered>,
}

impl Offered {
    /// Returns whether a copy is the one that it was then, with the spec that it had: no order to run came since.
    pub(super) fn is_of(&self, copy: &Value) -> bool {
        let generation = copy.pointer("/metadata/generation").and_then(Value::as_i64);
        self.uid.as_ref() == Some(&uid(copy)) && generation == Some(self.generation)
    }
}

impl Facts<'_> {
    fn object(&self) -> Result<(&Value, Read), NotProved> {
        let (object, read) = self.member.object.read()?;
        let object = object
            .as_ref()
            .ok_or_else(|| NotProved::No(format!("{}: no such object", self.cluster)))?;
        Ok((object, read))
    }

    fn current(&self) -> Result<(&Value, Read), NotProved> {
        let (object, read) = self.object()?;
        let marker = object
            .pointer("/metadata/annotations")
            .and_then(|annotations| annotations.get(MARKER_ANNOTATION))
            .and_then(Value::as_str);
        if marker != Some(self.marker) {
            let found = marker.unwrap_or("no marker");
            return Err(NotProved::No(format!(
                "{}: carries {found}, not {}",
                self.cluster, self.marker
            )));
        }
        Ok((object, read))
    }

    /// Returns the copy, if it carries the current marker.
    pub fn current_copy(&self) -> Result<&Value, NotProved> {
        self.current().map(|(object, _)| object)
    }

    /// An operator that was let run a copy may be about to, whatever its status says, until it acknowledges that it is to
    /// stop; or the order never reached it: the copy is the one it was, with the spec that it had.
    pub(super) fn never_began(&self, object: &Value) -> Result<(), NotProved> {
        let Some(offered) = self.offered else {
            return Ok(());
        };
        // Where the state is elsewhere, operators repeat what is asked of them, and say not whether they have seen it last.
        let acknowledges = !self.profile.spec().state_elsewhere;
        if self.was_never_told_to_run(offered, object) || acknowledges && self.profile.observed(object)? {
            return Ok(());
        }
        Err(NotProved::No(format!(
            "{}: the copy was allowed to run, and its operator has not acknowledged the stop yet",
            self.cluster
        )))
    }

    /// Where the state is elsewhere, an operator that repeats what is asked of it may say of a copy that it has stopped since before the
    /// copy was let run, and be about to act on that order. What it says counts where no order to run came, where it is about this very
    /// generation, or where the operator was seen to act on the order.
    fn says_so_since_the_order(&self, object: &Value) -> Result<(), NotProved> {
        let Some(offered) = self.offered.filter(|_| self.profile.spec().state_elsewhere) else {
            return Ok(());
        };
        let has_run = offered.order == RunOrder::Seen && offered.uid.as_ref() == Some(&uid(object));
        // It has been so for longer than its operator is taken to need to see an order.
        let has_settled = self.profile.spec().settle_for.is_some() && self.has_settled().is_ok();
        if has_run
            || has_settled
            || self.was_never_told_to_run(offered, object)
            || self.is_observed_by_generation(object)?
        {
            return Ok(());
        }
        Err(NotProved::Unknown(format!(
            "{}: the copy was allowed to run, and that it has stopped may be what its operator said before",
            self.cluster
        )))
    }

    /// Returns whether an operator has seen the spec of this generation, and would not be taken to have seen a later one.
    fn is_observed_by_generation(&self, object: &Value) -> Result<bool, NotProved> {
        let mut later = object.clone();
        if let Some(generation) = later.pointer_mut("/metadata/generation") {
            *generation = Value::from(generation.as_i64().unwrap_or_default() + 1);
        }
        Ok(self.profile.observed(object)? && !self.profile.observed(&later)?)
    }

    /// Returns whether a copy was not told to run since its cluster was given the token.
    pub(super) fn was_never_told_to_run(&self, offered: &Offered, object: &Value) -> bool {
        offered.is_of(object) || self.has_only_been_held_since(offered, object)
    }

    /// Returns whether the order to run can't have come in between: every change of a spec counts one, to run and to stop again
    /// are two, and one that was recreated was created with the hold. Operators say nothing of what they have nothing to do for.
    fn has_only_been_held_since(&self, offered: &Offered, object: &Value) -> bool {
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
        let expected = if offered.uid.as_ref() == Some(&uid(object)) {
            offered.generation + 1
        } else {
            1
        };
        generation == Some(expected) && self.profile.carries_hold(object, self.cluster)
    }

    /// Proves that a copy whose stop was proved stays stopped, although its operator doesn't say so by now: a reconciliation that fails
    /// says nothing of the time before. No new order has come, and the pods that it would run in are seen not to be there.
    ///
    /// That is enough to spare another copy that runs, and not to let one run.
    pub(super) fn still_stopped(&self, proved: &Offered) -> Result<String, NotProved> {
        let (object, read) = self.current()?;
        let cluster = self.cluster;
        let no = |why: &str| NotProved::No(format!("{cluster}: {why}"));
        if !proved.is_of(object) {
            return Err(no("the copy, or its spec, has changed since its stop was proved"));
        }
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(no("the copy is being deleted"));
        }
        if !self.profile.carries_hold(object, cluster) {
            return Err(no("the copy does not carry the hold"));
        }
        if !self.profile.observed(object)? {
            return Err(no("its operator has not seen the spec yet"));
        }
        // A run to completion that has ended is healthy, too.
        if self.profile.healthy(object)? && !self.profile.finished(object)? {
            return Err(no("its operator says that it runs"));
        }
        if self.profile.spec().no_pods.is_none() {
            return Err(no("its profile does not say which pods it would have"));
        }
        self.no_pods(read)?;
        Ok(format!(
            "{cluster}: uid {} unchanged since its stop was proved at generation {}, no pods",
            uid(object),
            proved.generation
        ))
    }

    /// Of some operators nothing but time tells that they have seen what they are to do: see `settleFor` of a profile. Returns what a proof
    /// says of it.
    fn has_settled(&self) -> Result<String, NotProved> {
        let Some(settle_for) = &self.profile.spec().settle_for else {
            return Ok(String::new());
        };
        if self.member.unchanged < settle_for.length().unsigned_abs() {
            return Err(NotProved::No(format!(
                "{}: not yet watched for {settle_for} without any change and without pods",
                self.cluster
            )));
        }
        Ok(format!(", unchanged for {settle_for}"))
    }

    /// Pods count as gone only where the nodes that ran them can be trusted to say so, and when they were looked for after
    /// the copy: while it ran, more of them could come.
    fn no_pods(&self, copy: Read) -> Result<(), NotProved> {
        let (pods, read) = self.member.pods.read()?;
        if read.sent < copy.answered {
            return Err(NotProved::Unknown(format!(
                "{}: its pods were read before the copy was",
                self.cluster
            )));
        }
        if let Some(pod) = pods.first() {
            return Err(NotProved::No(format!(
                "{}: pod {} is still there",
                self.cluster, pod.name
            )));
        }
        let lost = self.lost_nodes()?;
        let Some((node, deleted)) = lost.first() else {
            return Ok(());
        };
        let how = if *deleted {
            "is gone from the API, which stops nothing,"
        } else {
            "is not Ready"
        };
        Err(NotProved::Unknown(format!(
            "{}: node {node} {how} and may still run a pod that is gone from the API",
            self.cluster
        )))
    }

    /// Returns the nodes that may still run what they ran, and of each whether it is deleted.
    fn lost_nodes(&self) -> Result<Vec<(&String, bool)>, NotKnown> {
        let ready = self.member.nodes.get()?;
        let ran = self.nodes.into_iter().flatten();
        let lost = ran.filter(|node| ready.get(*node) != Some(&true));
        Ok(lost.map(|node| (node, !ready.contains_key(node))).collect())
    }

    /// Returns what a fencing of nodes would answer of a copy that isn't proved harmless; `None`: nothing of it.
    pub fn cut_off(&self) -> Option<CutOff> {
        if self.member.object.get().is_err() {
            return self.member.silent.then_some(CutOff::Cluster);
        }
        let no_pods = self.member.pods.get().is_ok_and(Vec::is_empty);
        let is_lost = self.lost_nodes().is_ok_and(|lost| !lost.is_empty());
        (no_pods && is_lost).then_some(CutOff::Nodes)
    }
}

/// What can't be seen, and has nodes to answer for it. Whatever else can't be seen (a read that is refused, a kind that isn't
/// served, an expression that fails) says nothing about nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutOff {
    /// The cluster gave no answer.
    Cluster,
    /// Pods are gone from the API, and their nodes can't say whether they ended.
    Nodes,
}

fn uid(object: &Value) -> String {
    object
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// A copy that carries the hold and has not run, or has stopped.
#[derive(Clone, Debug)]
pub struct Held {
    cluster: ClusterName,
    read: Read,
    evidence: String,
}

impl Held {
    pub fn prove(facts: &Facts<'_>) -> Result<Self, NotProved> {
        let (object, read) = facts.current()?;
        let cluster = facts.cluster;
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(NotProved::No(format!("{cluster}: the copy is being deleted")));
        }
        if !facts.profile.carries_hold(object, cluster) {
            return Err(NotProved::No(format!(
                "{cluster}: the copy does not carry the hold"
            )));
        }
        if facts.profile.ran(object)? {
            return Err(NotProved::No(format!("{cluster}: the copy may have run before")));
        }
        facts.never_began(object)?;
        // The one that it took the place of may have run.
        let first = facts.offered.and_then(|offered| offered.uid.as_ref());
        if first.is_some_and(|first| *first != uid(object)) {
            facts.has_settled()?;
        }
        facts.no_pods(read)?;
        let evidence = format!(
            "{cluster}: uid {} holds under {}, never ran",
            uid(object),
            facts.marker
        );
        Ok(Self {
            cluster: cluster.clone(),
            read,
            evidence,
        })
    }

    pub fn evidence(&self) -> &str {
        &self.evidence
    }
}

/// A copy whose operator says that it has stopped, for the current spec: it vouches for the handle, and not for the pods.
#[derive(Clone, Debug)]
pub struct Suspended {
    cluster: ClusterName,
    read: Read,
    evidence: String,
    object: Value,
}

impl Suspended {
    pub fn prove(facts: &Facts<'_>) -> Result<Self, NotProved> {
        let (object, read) = facts.current()?;
        let cluster = facts.cluster;
        if !facts.profile.carries_hold(object, cluster) {
            return Err(NotProved::No(format!(
                "{cluster}: the copy does not carry the hold"
            )));
        }
        if !facts.profile.observed(object)? {
            return Err(NotProved::No(format!(
                "{cluster}: its operator has not acknowledged the hold yet"
            )));
        }
        if !facts.profile.suspended(object)? {
            return Err(NotProved::No(format!("{cluster}: not suspended yet")));
        }
        let generation = object
            .pointer("/metadata/generation")
            .map(Value::to_string)
            .unwrap_or_default();
        let evidence = format!(
            "{cluster}: uid {} suspended and observed at generation {generation} under {}",
            uid(object),
            facts.marker
        );
        Ok(Self {
            cluster: cluster.clone(),
            read,
            evidence,
            object: object.clone(),
        })
    }

    /// Returns the state that this stop left; a handle that was there before is not one.
    pub fn capture(
        &self,
        profile: &Profile,
        before: &BTreeMap<String, String>,
        now: jiff::Timestamp,
    ) -> Result<Capture, NotProved> {
        let values = profile.capture(&self.object).map_err(|error| match error {
            NoCapture::Error(error) => NotProved::Unknown(error.to_string()),
            other => NotProved::No(format!("{}: {other}", self.cluster)),
        })?;
        if let Some((name, value)) = values
            .iter()
            .find(|(name, value)| before.get(*name) == Some(value))
        {
            return Err(NotProved::No(format!(
                "{}: {name} {value} is from before the suspension",
                self.cluster
            )));
        }
        Ok(Capture {
            from: self.cluster.clone(),
            values,
            evidence: self.evidence.clone(),
            at: now,
        })
    }
}

/// A copy whose operator says that it has stopped, for the current spec, and whose pods are gone.
#[derive(Clone, Debug)]
pub struct Stopped(Suspended);

impl Stopped {
    pub fn prove(facts: &Facts<'_>) -> Result<Self, NotProved> {
        let mut suspended = Suspended::prove(facts)?;
        facts.no_pods(suspended.read)?;
        suspended.evidence.push_str(", no pods");
        suspended.evidence += &facts.has_settled()?;
        Ok(Self(suspended))
    }

    pub fn evidence(&self) -> &str {
        &self.0.evidence
    }

    pub fn object(&self) -> &Value {
        &self.0.object
    }

    /// Returns the state that this stop left: see [`Suspended::capture`].
    pub fn capture(
        &self,
        profile: &Profile,
        before: &BTreeMap<String, String>,
        now: jiff::Timestamp,
    ) -> Result<Capture, NotProved> {
        self.0.capture(profile, before, now)
    }
}

/// No copy and no Work of it; a copy that is being deleted is not gone.
#[derive(Clone, Debug)]
pub struct Gone {
    cluster: ClusterName,
    read: Read,
    evidence: String,
}

impl Gone {
    pub fn prove(facts: &Facts<'_>) -> Result<Self, NotProved> {
        let cluster = facts.cluster;
        if facts.works.contains_key(cluster) {
            return Err(NotProved::No(format!("{cluster}: its Work is still there")));
        }
        let (object, read) = facts.member.object.read()?;
        if let Some(object) = object {
            let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
            let what = if deleting {
                "is being deleted and may still run"
            } else {
                "is still there"
            };
            return Err(NotProved::No(format!("{cluster}: the copy {what}")));
        }
        facts.no_pods(read)?;
        Ok(Self {
            cluster: cluster.clone(),
            read,
            evidence: format!("{cluster}: no copy, no Work, no pods"),
        })
    }

    pub fn evidence(&self) -> &str {
        &self.evidence
    }
}

/// A copy that runs the current spec, from the handle that it was given.
#[derive(Clone, Debug)]
pub struct Healthy {
    evidence: String,
    run_id: Option<String>,
}

impl Healthy {
    /// `given`: the handle that must be in use, where one was given.
    pub fn prove(facts: &Facts<'_>, given: Option<&str>) -> Result<Self, NotProved> {
        let (object, _) = facts.current()?;
        Self::judge(facts, object, given)
    }

    /// The same of a copy that was let run again: one that has ended meanwhile, well or not, is not waited for.
    pub fn or_ended(facts: &Facts<'_>, given: Option<&str>) -> Result<Self, NotProved> {
        let (object, _) = facts.current()?;
        Self::ended(facts, object).unwrap_or_else(|| Self::judge(facts, object, given))
    }

    /// The same of a copy that has the order to run: returns its uid.
    pub(super) fn as_told(facts: &Facts<'_>) -> Result<String, NotProved> {
        let (object, _) = facts.current()?;
        Self::judge(facts, object, None)?;
        if facts.profile.carries_hold(object, facts.cluster) || facts.profile.suspended(object)? {
            return Err(NotProved::No(format!("{}: it does not run yet", facts.cluster)));
        }
        Ok(uid(object))
    }

    /// The same for a copy that no pin reaches any more.
    pub fn without_pin(facts: &Facts<'_>) -> Result<Self, NotProved> {
        let (object, _) = facts.object()?;
        if object
            .pointer("/metadata/annotations")
            .is_some_and(|all| all.get(MARKER_ANNOTATION).is_some())
        {
            return Err(NotProved::No(format!(
                "{}: still carries a marker",
                facts.cluster
            )));
        }
        Self::ended(facts, object).unwrap_or_else(|| Self::judge(facts, object, None))
    }

    /// The same whoever's marker the copy carries: what runs, not what is in force.
    pub fn as_it_is(facts: &Facts<'_>) -> Result<Self, NotProved> {
        let (object, _) = facts.object()?;
        Self::judge(facts, object, None)
    }

    /// Returns what a copy that has ended shows; nothing of one that hasn't.
    fn ended(facts: &Facts<'_>, object: &Value) -> Option<Result<Self, NotProved>> {
        let look = || -> Result<Option<Self>, NotProved> {
            let profile = facts.profile;
            if !profile.observed(object)? || !profile.finished(object)? {
                return Ok(None);
            }
            Ok(Some(Self {
                evidence: format!("{}: uid {} has ended", facts.cluster, uid(object)),
                run_id: profile.run_id(object)?,
            }))
        };
        look().transpose()
    }

    fn judge(facts: &Facts<'_>, object: &Value, given: Option<&str>) -> Result<Self, NotProved> {
        let cluster = facts.cluster;
        if object.pointer("/metadata/deletionTimestamp").is_some() {
            return Err(NotProved::No(format!("{cluster}: the copy is being deleted")));
        }
        if !facts.profile.observed(object)? {
            return Err(NotProved::No(format!(
                "{cluster}: its operator has not seen the spec yet"
            )));
        }
        if !facts.profile.is_well(object)? {
            return Err(NotProved::No(format!("{cluster}: not healthy yet")));
        }
        let in_use = facts.profile.in_use(object)?;
        if let (Some(given), Some(path)) = (given, &facts.profile.spec().in_use)
            && in_use.as_deref() != Some(given)
        {
            let found = in_use.as_deref().unwrap_or("nothing");
            return Err(NotProved::No(format!(
                "{cluster}: runs from {found} at {path}, not from {given}"
            )));
        }
        let from = given.map(|handle| format!(" from {handle}")).unwrap_or_default();
        Ok(Self {
            evidence: format!("{cluster}: uid {} healthy{from}", uid(object)),
            run_id: facts.profile.run_id(object)?,
        })
    }

    pub fn evidence(&self) -> &str {
        &self.evidence
    }

    pub fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }
}

/// A cluster in which no copy can write.
#[derive(Clone, Debug)]
pub enum Inert {
    Held(Held),
    Stopped(Stopped),
    Gone(Gone),
    /// A person vouches for it.
    Assumed {
        cluster: ClusterName,
        by: String,
    },
}

impl Inert {
    /// Tries every way in which a cluster can be known not to write; the error is the one that says most.
    pub fn prove(facts: &Facts<'_>) -> Result<Self, NotProved> {
        let gone = match Gone::prove(facts).and_then(|gone| facts.has_settled().map(|_| gone)) {
            Ok(gone) => return Ok(Self::Gone(gone)),
            Err(why) => why,
        };
        if matches!(facts.member.object.get(), Ok(None)) {
            return Err(gone);
        }
        let held = match Held::prove(facts) {
            Ok(held) => return Ok(Self::Held(held)),
            Err(why) => why,
        };
        match Stopped::prove(facts) {
            Ok(stopped) => {
                facts.says_so_since_the_order(stopped.object())?;
                Ok(Self::Stopped(stopped))
            }
            Err(NotProved::No(why)) if matches!(held, NotProved::No(_)) => Err(NotProved::No(why)),
            Err(why) => Err(NotProved::Unknown(why.to_string())),
        }
    }

    /// Somebody's word for a cluster that nobody can see; to be taken only where the spec lets it count.
    pub(super) fn assumed(cluster: &ClusterName, by: String) -> Self {
        Self::Assumed {
            cluster: cluster.clone(),
            by,
        }
    }

    pub fn cluster(&self) -> &ClusterName {
        match self {
            Self::Held(held) => &held.cluster,
            Self::Stopped(stopped) => &stopped.0.cluster,
            Self::Gone(gone) => &gone.cluster,
            Self::Assumed { cluster, .. } => cluster,
        }
    }

    pub fn evidence(&self) -> String {
        match self {
            Self::Held(held) => held.evidence.clone(),
            Self::Stopped(stopped) => stopped.evidence().to_owned(),
            Self::Gone(gone) => gone.evidence.clone(),
            Self::Assumed { cluster, by } => format!("{cluster}: {by} vouches that nothing writes"),
        }
    }

    fn read(&self) -> Option<Read> {
        match self {
            Self::Held(held) => Some(held.read),
            Self::Stopped(stopped) => Some(stopped.0.read),
            Self::Gone(gone) => Some(gone.read),
            Self::Assumed { .. } => None,
        }
    }
}

/// The right to name a writer: every other cluster is proved inert, after the pin was read.
#[derive(Clone, Debug)]
pub struct Release {
    to: ClusterName,
}

impl Release {
    /// `involved`: every cluster that the binding lists, is required by, evicts from, or has a Work in.
    ///
    /// The pin's resource version must have been answered before the reads of the proofs were sent: else somebody could
    /// have changed the pin between the proof and the write without the write noticing.
    pub fn new(
        to: &ClusterName,
        pin: Option<Read>,
        involved: &BTreeSet<ClusterName>,
        proofs: &[Inert],
    ) -> Result<Self, NotProved> {
        for cluster in involved.iter().filter(|cluster| *cluster != to) {
            let proof = proofs
                .iter()
                .find(|proof| proof.cluster() == cluster)
                .ok_or_else(|| NotProved::Unknown(format!("nothing is proved about {cluster}")))?;
            let late = match (pin, proof.read()) {
                (Some(pin), Some(read)) => pin.answered > read.sent,
                (_, None) => false,
                (None, Some(_)) => true,
            };
            if late {
                return Err(NotProved::Unknown(format!(
                    "{cluster} was read before the pin was"
                )));
            }
        }
        Ok(Self { to: to.clone() })
    }

    pub fn to(&self) -> &ClusterName {
        &self.to
    }
}

/// The right to name the cluster that runs the workload already, when no other one has it: the first pin.
#[derive(Clone, Debug)]
pub struct Sole {
    cluster: ClusterName,
}

impl Sole {
    pub fn new(cluster: &ClusterName, involved: &BTreeSet<ClusterName>) -> Result<Self, NotProved> {
        match involved.iter().find(|other| *other != cluster) {
            Some(other) => Err(NotProved::No(format!("{other} has a share in the binding"))),
            None => Ok(Self {
                cluster: cluster.clone(),
            }),
        }
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }
}

/// The right to name a cluster again of which somebody took the pin away, or changed it: nothing that is in force holds it as
/// it is, so that naming it, and holding the others, lets nobody go.
#[derive(Clone, Debug)]
pub struct Loose {
    cluster: ClusterName,
}

impl Loose {
    /// `all`: every override policy, the pin included as it was read; the write has it as its precondition.
    pub fn prove(
        name: &ClusterName,
        cluster: &Cluster,
        template: &Value,
        all: &Overrides,
        profile: &Profile,
    ) -> Result<Self, NotProved> {
        let gets = overrides::effective(template, cluster, &all.cluster_wide, &all.namespaced)
            .map_err(|error| NotProved::Unknown(error.to_string()))?;
        if profile.carries_hold(&gets, name) {
            return Err(NotProved::No(format!("{name} is held")));
        }
        Ok(Self {
            cluster: name.clone(),
        })
    }

    pub fn cluster(&self) -> &ClusterName {
        &self.cluster
    }
}

/// The right to hold nobody: the workload's profile says that a second copy neither loses nor forks state.
#[derive(Clone, Debug)]
pub struct Stateless(());

impl Stateless {
    pub fn new(profile: &Profile) -> Result<Self, NotProved> {
        if profile.spec().stateful {
            return Err(NotProved::No("the workload has state".to_owned()));
        }
        Ok(Self(()))
    }
}

#[cfg(test)]
mod tests;
