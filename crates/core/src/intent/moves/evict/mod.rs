//! A workload without state that runs in several clusters leaves one of them: by an eviction task in its binding, as Karmada
//! itself writes one, whose copy stays until it is seen that the others are enough.
//!
//! One step a pass. Until the copy may go ([`Stage::Confirming`]) everything can be put back as it was.

mod enough;
mod judge;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use self::enough::{Enough, Others, confirm};
use super::survey::Candidate;
use super::{MoveStrategy, Operation};
use crate::api::{
    Claim, Eviction, EvictionStage as Stage, Means, Move, MoveState, PinState, Share, WorkloadProfile,
    watched,
};
use crate::intent::check::{self, Sampled};
use crate::intent::custody::{Custody, Due, Terms};
use crate::intent::effect::Effect;
use crate::intent::eviction::{self, lists, mark, own_task, put_back, put_mark, take_mark_off, take_out};
use crate::intent::fence::identify;
use crate::intent::member::Member;
use crate::intent::placement::kept_away;
use crate::intent::proof::{Facts, Gone, NotProved};
use crate::intent::seen::{NotKnown, Seen};
use crate::profile::Profile;
use cutover_karmada::name::ClusterName;
use cutover_karmada::{OverridePolicy, ResourceBinding, Work};

pub use judge::Ground;

/// What one pass sees of a workload on its way: the claim first, then the binding, then the rest.
#[derive(Debug)]
pub struct Evicting {
    pub claim: Seen<Option<Claim>>,
    pub binding: Seen<Option<ResourceBinding>>,
    pub template: Seen<Option<Value>>,
    pub pin: Seen<Option<OverridePolicy>>,
    pub works: Seen<BTreeMap<ClusterName, Work>>,
    pub profile: Seen<Option<WorkloadProfile>>,
    /// The copies in the clusters that the binding lists; of the one that is left its pods as well.
    pub members: BTreeMap<ClusterName, Member>,
    /// What checks are about beside the copies.
    pub others: check::Others,
    pub metrics: BTreeMap<String, Seen<Sampled>>,
}

/// Why a step goes no further.
enum Halt {
    /// The journal has changed.
    Changed,
    Act(Vec<Effect>),
    Wait(String),
}

impl From<NotKnown> for Halt {
    fn from(unknown: NotKnown) -> Self {
        Self::Wait(unknown.0)
    }
}

impl From<NotProved> for Halt {
    fn from(why: NotProved) -> Self {
        Self::Wait(why.to_string())
    }
}

impl From<Due> for Halt {
    fn from(due: Due) -> Self {
        match due {
            Due::Act(effects) => Self::Act(effects),
            Due::Wait(why) => Self::Wait(why),
            Due::Again => Self::Changed,
        }
    }
}

impl<A: MoveStrategy> Operation<'_, A> {
    /// Returns how far a move is now, and what is to be sent once that is written. `back`: why what has begun is put back.
    pub(super) fn evict(&self, one: &Move, back: Option<&str>) -> (Move, Vec<Effect>) {
        let mut step = Step {
            machine: self,
            one: one.clone(),
            eviction: one.eviction.as_deref().cloned().unwrap_or_default(),
        };
        let halt = match step.go(back) {
            Ok(()) => Halt::Changed,
            Err(halt) => halt,
        };
        // What is over, or has not begun, has nothing to remember.
        step.one.eviction = step.one.state.is_under_way().then(|| Box::new(step.eviction));
        match halt {
            Halt::Changed => (step.one, Vec::new()),
            Halt::Wait(why) => {
                step.one.note = Some(why);
                (step.one, Vec::new())
            }
            Halt::Act(effects) => (step.one, effects),
        }
    }
}

/// Returns what a move marks its binding and its task with.
pub fn mark_of(one: &Move, uid: &str) -> String {
    format!("{}/{uid}", one.by.as_deref().unwrap_or_default())
}

struct Step<'m, 'a, A: MoveStrategy> {
    machine: &'m Operation<'a, A>,
    one: Move,
    eviction: Eviction,
}

impl<'a, A: MoveStrategy> Step<'_, 'a, A> {
    fn go(&mut self, back: Option<&str>) -> Result<(), Halt> {
        match self.eviction.stage {
            Stage::Claiming => self.claiming(back),
            Stage::Evicting => self.evicting(back),
            Stage::Verifying => self.verifying(back),
            Stage::Confirming => self.confirming(back),
            Stage::Leaving => self.leaving(),
            Stage::PuttingBack => self.putting_back(),
            Stage::Releasing => self.releasing(),
        }
    }

    /// Nothing is touched yet: who holds it, whether it can leave, and whether the others are at rest.
    fn claiming(&mut self, back: Option<&str>) -> Result<(), Halt> {
        if back.is_some() {
            return Err(self.release(MoveState::Waiting, "not begun".to_owned()));
        }
        let seen = self.seen()?;
        let Some(binding) = seen.binding.get()? else {
            return Err(self.release(MoveState::Waiting, "it has no binding".to_owned()));
        };
        let from = self.one.from.clone();
        if !lists(binding, &from) {
            return Err(self.release(MoveState::Moved, "it had left before its turn came".to_owned()));
        }
        let Some(template) = seen.template.get()? else {
            return Err(self.release(MoveState::Waiting, "its template is gone".to_owned()));
        };
        let profile = self.profile()?;
        let refused = profile
            .spec()
            .stateful
            .then(|| "the workload has state".to_owned());
        if let Some(why) = refused.or(self.machine.refuses(&self.one, binding, template)?) {
            return Err(self.release(MoveState::Waiting, why));
        }
        let id = identify(binding).ok_or_else(|| Halt::Wait("its binding has no id yet".to_owned()))?;
        if self.eviction.binding_uid != id.uid {
            self.eviction.binding_uid = id.uid;
            self.eviction.binding_id = id.id;
            self.eviction.pods = profile.pod_selector(template).map_err(unknown)?;
            return Ok(());
        }
        let custody = self.custody(&seen.claim);
        if let Err(why) = Others::look(&from, seen, &profile, self.checks()) {
            // What would mend them must not be held back for the sake of a move that waits for them.
            custody.give_up()?;
            return Err(why.into());
        }
        custody.claim(&PinState::default(), self.terms())?;
        if seen.pin.get()?.is_some() {
            return Err(Halt::Wait("a pin without a claim holds it".to_owned()));
        }
        let own = self.mark();
        if mark(binding) != Some(own.as_str()) {
            return Err(act(put_mark(binding, &own)));
        }
        let share = |target: &cutover_karmada::TargetCluster| Share {
            cluster: target.name.clone(),
            replicas: target.replicas,
        };
        self.eviction.before = binding.spec.clusters.iter().map(share).collect();
        self.eviction.stage = Stage::Evicting;
        (self.one.state, self.one.note) = (MoveState::Moving, None);
        Ok(())
    }

    /// The cluster is out of the list, and the task keeps its copy.
    fn evicting(&mut self, back: Option<&str>) -> Result<(), Halt> {
        let seen = self.seen()?;
        let Some(binding) = self.same_binding(seen)? else {
            return Err(self.release(MoveState::Failed, GONE.to_owned()));
        };
        let (from, mark) = (self.one.from.clone(), self.mark());
        if own_task(binding, &from, &mark).is_some() {
            self.eviction.stage = Stage::Verifying;
            self.eviction.evicted_at = Some(self.machine.input.now);
            return Ok(());
        }
        if back.is_some() {
            return Err(self.release(MoveState::Waiting, "not begun".to_owned()));
        }
        let listed = binding.spec.clusters.iter();
        let as_before = listed.map(|target| (&target.name, target.replicas)).eq(self
            .eviction
            .before
            .iter()
            .map(|share| (&share.cluster, share.replicas)));
        let template = seen.template.get()?;
        let refused = match template {
            Some(template) => self.machine.refuses(&self.one, binding, template)?,
            None => Some("its template is gone".to_owned()),
        };
        let is_marked = eviction::mark(binding) == Some(mark.as_str());
        if !as_before || refused.is_some() || !is_marked {
            // It is looked at again, as if nothing had begun: nothing has.
            self.eviction.stage = Stage::Claiming;
            self.eviction.before.clear();
            return Ok(());
        }
        Err(act(take_out(binding, &from, &mark)))
    }

    /// The others get ready, and stay so for as long as is asked for; or it is put back.
    fn verifying(&mut self, back: Option<&str>) -> Result<(), Halt> {
        let seen = self.seen()?;
        let Some(binding) = self.same_binding(seen)? else {
            return Err(self.release(MoveState::Failed, GONE.to_owned()));
        };
        if let Some(next) = self.without_task(binding) {
            return Err(next);
        }
        if let Some(why) = back {
            return Err(self.put_back(why.to_owned()));
        }
        let now = self.machine.input.now;
        let verify = &self.machine.spec().moves().verify;
        let enough = match self.enough(seen) {
            Ok(enough) => enough,
            Err(why) => {
                let since = self.eviction.evicted_at.unwrap_or(now);
                if now.duration_since(since) > verify.timeout.length() {
                    let why = format!("the others were not ready in {}: {why}", verify.timeout);
                    return Err(self.put_back(why));
                }
                return self.not_enough(why);
            }
        };
        let before = self.eviction.healthy;
        watched::look(&mut self.eviction.healthy, now);
        if watched::elapsed(self.eviction.healthy.as_ref(), now) < verify.healthy_for.length() {
            if self.eviction.healthy == before {
                return Err(Halt::Wait(enough.evidence().to_owned()));
            }
            self.one.note = Some(enough.evidence().to_owned());
            return Ok(());
        }
        self.eviction.stage = Stage::Confirming;
        self.one.note = Some(enough.evidence().to_owned());
        Ok(())
    }

    /// What is seen not to be ready begins its soak again; a look that shows nothing only adds nothing.
    fn not_enough(&mut self, why: NotProved) -> Result<(), Halt> {
        let before = self.eviction.healthy;
        match (&why, &mut self.eviction.healthy) {
            (NotProved::Unknown(_), Some(healthy)) => healthy.skip(self.machine.input.now),
            (NotProved::Unknown(_), None) => {}
            (NotProved::No(_), healthy) => *healthy = None,
        }
        if self.eviction.healthy == before {
            return Err(why.into());
        }
        self.one.note = Some(why.to_string());
        Ok(())
    }

    /// The copy may go, if the others are still enough in this look.
    fn confirming(&mut self, back: Option<&str>) -> Result<(), Halt> {
        let seen = self.seen()?;
        let Some(binding) = self.same_binding(seen)? else {
            return Err(self.release(MoveState::Failed, GONE.to_owned()));
        };
        if let Some(next) = self.without_task(binding) {
            return Err(next);
        }
        let (from, mark) = (self.one.from.clone(), self.mark());
        if let Some(why) = back {
            return Err(self.put_back(why.to_owned()));
        }
        if !self.machine.stays_away(binding, &from)? {
            return Err(self.put_back(format!("nothing keeps it away from {from} any more")));
        }
        let Some((index, _)) = own_task(binding, &from, &mark) else {
            return Ok(());
        };
        match self.enough(seen) {
            Ok(enough) => Err(act(confirm(binding, index, &mark, &enough))),
            Err(why) => {
                self.eviction.stage = Stage::Verifying;
                self.eviction.healthy = None;
                self.one.note = Some(why.to_string());
                Ok(())
            }
        }
    }

    /// What the task has become without this intent, if it isn't there as it should be.
    fn without_task(&mut self, binding: &ResourceBinding) -> Option<Halt> {
        let (from, mark) = (self.one.from.clone(), self.mark());
        match own_task(binding, &from, &mark) {
            Some((_, task)) if task.suppress_deletion != Some(false) => None,
            None if lists(binding, &from) => {
                let why = format!("another client has put it back into {from}");
                Some(self.release(MoveState::Failed, why))
            }
            // It was confirmed, by this intent or by a person; or somebody took it away, which comes to the same.
            _ => {
                self.eviction.stage = Stage::Leaving;
                Some(Halt::Changed)
            }
        }
    }

    /// The copy is gone, by what its cluster says, and so is everything that Karmada had for it.
    fn leaving(&mut self) -> Result<(), Halt> {
        let seen = self.seen()?;
        let (from, mark) = (self.one.from.clone(), self.mark());
        let binding = self.same_binding(seen)?;
        let mut shares = String::new();
        if let Some(binding) = binding {
            if own_task(binding, &from, &mark).is_some() {
                return Err(Halt::Wait(format!("Karmada to remove it from {from}")));
            }
            if lists(binding, &from) {
                let why = format!("it is listed in {from} again");
                return Err(self.release(MoveState::Failed, why));
            }
            shares = spread(binding);
        }
        let member = seen
            .members
            .get(&from)
            .ok_or_else(|| NotKnown(format!("{from} was not looked at")))?;
        let facts = Facts {
            cluster: &from,
            member,
            works: seen.works.get()?,
            marker: "",
            profile: &self.profile()?,
            nodes: None,
            offered: None,
        };
        Gone::prove(&facts)?;
        Err(self.release(MoveState::Moved, shares))
    }

    /// Everything is as it was, as far as others let it.
    fn putting_back(&mut self) -> Result<(), Halt> {
        let seen = self.seen()?;
        let Some(binding) = self.same_binding(seen)? else {
            return Err(self.release(MoveState::Failed, GONE.to_owned()));
        };
        let (from, mark) = (self.one.from.clone(), self.mark());
        let task = own_task(binding, &from, &mark);
        if task.is_some_and(|(_, task)| task.suppress_deletion == Some(false)) {
            self.eviction.stage = Stage::Leaving;
            return Ok(());
        }
        if task.is_none() && lists(binding, &from) {
            let why = self.eviction.because.clone().unwrap_or_default();
            return Err(self.release(MoveState::Failed, why));
        }
        Err(act(put_back(binding, &from, &mark, &self.eviction.before)))
    }

    /// The mark goes first: without it nothing that is sent late is taken. Then the claim.
    fn releasing(&mut self) -> Result<(), Halt> {
        let seen = self.seen()?;
        let (from, own) = (self.one.from.clone(), self.mark());
        if let Some(binding) = seen.binding.get()? {
            if mark(binding) == Some(own.as_str()) {
                return Err(act(take_mark_off(binding, &own)));
            }
            // Sent before the mark was taken off, and come in late.
            let late = own_task(binding, &from, &own);
            if late.is_some_and(|(_, task)| task.suppress_deletion != Some(false)) {
                let why = self.eviction.because.clone().unwrap_or_default();
                return Err(self.put_back(why));
            }
        }
        self.custody(&seen.claim).give_up()?;
        let state = self.eviction.ends_as.unwrap_or(MoveState::Failed);
        self.one.note.clone_from(&self.eviction.because);
        self.one.state = state;
        if state == MoveState::Waiting {
            (self.one.by, self.one.started_at) = (None, None);
            self.eviction = Eviction::default();
        } else {
            self.one.finished_at = Some(self.machine.input.now);
        }
        Ok(())
    }

    fn release(&mut self, ends_as: MoveState, because: String) -> Halt {
        self.eviction.stage = Stage::Releasing;
        self.eviction.ends_as = Some(ends_as);
        self.eviction.because = Some(because).filter(|text| !text.is_empty());
        Halt::Changed
    }

    fn put_back(&mut self, why: String) -> Halt {
        self.eviction.stage = Stage::PuttingBack;
        self.eviction.healthy = None;
        self.one.note = Some(format!("put back: {why}"));
        self.eviction.because = Some(why);
        Halt::Changed
    }

    fn enough(&self, seen: &Evicting) -> Result<Enough, NotProved> {
        let profile = match self.profile() {
            Ok(profile) => profile,
            Err(Halt::Wait(why)) => return Err(NotProved::Unknown(why)),
            Err(_) => return Err(NotProved::Unknown("its profile is not known".to_owned())),
        };
        Enough::prove(&self.one.from, seen, &profile, self.checks())
    }

    fn checks(&self) -> &[crate::api::Check] {
        &self.machine.spec().moves().verify.checks
    }

    fn seen(&self) -> Result<&'a Evicting, Halt> {
        let all = &self.machine.snapshot().evictions;
        let seen = all.get(&self.one.workload.key());
        seen.ok_or_else(|| Halt::Wait("it was not looked at".to_owned()))
    }

    /// Returns the binding that it is about; `None`: it is gone, or was made anew.
    fn same_binding(&self, seen: &'a Evicting) -> Result<Option<&'a ResourceBinding>, Halt> {
        let binding = seen.binding.get()?.as_ref();
        Ok(binding.filter(|binding| binding.metadata.uid.as_ref() == Some(&self.eviction.binding_uid)))
    }

    fn profile(&self) -> Result<Profile, Halt> {
        let Some(found) = self.seen()?.profile.get()? else {
            return Err(Halt::Wait(
                "no WorkloadProfile is about its kind any more".to_owned(),
            ));
        };
        let name = found.metadata.name.as_deref().unwrap_or_default();
        Profile::compile(name, &found.spec).map_err(unknown)
    }

    fn mark(&self) -> String {
        mark_of(&self.one, self.machine.input.uid)
    }

    fn custody<'s>(&self, claim: &'s Seen<Option<Claim>>) -> Custody<'s> {
        Custody {
            owner: self.machine.input.owner(A::KIND),
            attempt: self.machine.status.common.attempt,
            workload: Cow::Owned(self.one.workload.key()),
            claim: claim.get().map(Option::as_ref),
            pin: Ok(None),
            versions: Ok(Arc::default()),
        }
    }

    /// It has no pin, and where it runs is the scheduler's business: all that others may not do is to begin with it.
    fn terms(&self) -> Terms {
        Terms {
            binding_id: self.eviction.binding_id.clone(),
            shared: true,
            unmarked: true,
            ..Terms::default()
        }
    }
}

impl<A: MoveStrategy> Operation<'_, A> {
    /// Returns why a workload can't leave a cluster now, if so.
    fn refuses(
        &self,
        one: &Move,
        binding: &ResourceBinding,
        template: &Value,
    ) -> Result<Option<String>, NotKnown> {
        let candidate = Candidate {
            workload: one.workload.clone(),
            means: Means::Evict,
            binding,
            template,
            from: one.from.clone(),
        };
        let snapshot = self.snapshot();
        let mut emptied = self.spec().clusters(snapshot)?;
        emptied.insert(one.from.clone());
        let ground = Ground {
            clusters: snapshot.clusters.get()?,
            emptied: &emptied,
            cordons: self.spec().cordons(),
            room: None,
        };
        Ok(ground.refuses(&candidate).err().map(|why| why.message))
    }

    /// Returns whether the scheduler wouldn't give a cluster back.
    fn stays_away(&self, binding: &ResourceBinding, from: &ClusterName) -> Result<bool, NotKnown> {
        let cluster = self.snapshot().clusters.get()?.get(from);
        let placement = binding.spec.placement.as_ref();
        Ok(match (cluster, placement) {
            (Some(cluster), Some(placement)) => kept_away(placement, cluster, |_| true),
            _ => false,
        })
    }
}

const GONE: &str = "its binding is gone, or was recreated";

fn spread(binding: &ResourceBinding) -> String {
    let name = |target: &cutover_karmada::TargetCluster| match target.replicas {
        0 => target.name.to_string(),
        replicas => format!("{replicas} in {}", target.name),
    };
    let shares: Vec<String> = binding.spec.clusters.iter().map(name).collect();
    shares.join(", ")
}

fn act(effect: Effect) -> Halt {
    Halt::Act(vec![effect])
}

fn unknown(error: impl std::fmt::Display) -> Halt {
    Halt::Wait(error.to_string())
}

#[cfg(test)]
mod tests;
