//! Writes that are sent together: in no certain order, and each may fail alone.
//!
//! So each has to be harmless while none of the others is written, and once all of them are. For what is in between: a write that decides
//! which policy places a workload is not sent with another one about that workload that was let through before it.

use std::collections::BTreeMap;

use super::{Doubts, Ground, Preemption, Refusal, Tenant, Write};
use crate::api::PolicyName;
use cutover_karmada::PropagationSpec;
use cutover_karmada::name::ObjectKey;

/// What was read, and which writes are let through together.
#[derive(Clone, Debug)]
pub struct Batch {
    read: Ground,
    /// What was let through but the newest one.
    earlier: Option<Earlier>,
    /// It is taken in when there is another one to judge: a single write needs no second ground.
    newest: Option<(ObjectKey, Write)>,
}

#[derive(Clone, Debug)]
struct Earlier {
    /// Once these are written.
    ground: Ground,
    /// Which of these policies was the last one about a workload.
    about: BTreeMap<ObjectKey, ObjectKey>,
    last: ObjectKey,
    /// They are not all policies.
    has_others: bool,
}

/// Why a write is not sent with those that were let through before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    Refused(Refusal),
    /// This one is written first, and then the write is judged once more.
    After(ObjectKey),
}

impl Batch {
    pub const fn new(read: Ground) -> Self {
        Self {
            read,
            earlier: None,
            newest: None,
        }
    }

    /// Returns the control plane as it was read.
    pub const fn read(&self) -> &Ground {
        &self.read
    }

    /// Returns the ground by which a write was refused: as it is once all that was let through before is written.
    pub fn judged_by(&self) -> &Ground {
        self.earlier
            .as_ref()
            .map_or(&self.read, |earlier| &earlier.ground)
    }

    /// Returns why a write must not be sent with those that were let through before it; lets it through, if it may.
    ///
    /// `key`: the object; `accepted`: what its annotation says. Of many policies most are about workloads of their own, and each is judged
    /// once.
    pub fn pass(
        &mut self,
        key: &ObjectKey,
        write: &Write,
        accepted: Option<&str>,
    ) -> Result<Doubts, NotSent> {
        if let Some((key, write)) = self.newest.take() {
            self.take_in(key, &write);
        }
        let judged = self.judged_by().judge(write, accepted);
        let doubts = judged.map_err(NotSent::Refused)?;
        if let Some(first) = self.comes_after(write, accepted) {
            return Err(NotSent::After(first.clone()));
        }
        self.newest = Some((key.clone(), write.clone()));
        Ok(doubts)
    }

    fn take_in(&mut self, key: ObjectKey, write: &Write) {
        let read = &self.read;
        let earlier = self.earlier.get_or_insert_with(|| Earlier {
            ground: read.clone(),
            about: BTreeMap::new(),
            last: key.clone(),
            has_others: false,
        });
        earlier.ground.take_in(write);
        match write {
            Write::Policy(name, spec) => {
                let about = read.touched(name, spec.as_deref());
                earlier
                    .about
                    .extend(about.map(|tenant| (tenant.workload.clone(), key.clone())));
            }
            _ => earlier.has_others = true,
        }
        earlier.last = key;
    }

    /// Returns what has to be written before a write that is harmless once all is written; `None`: it is harmless whatever of that is.
    fn comes_after(&self, write: &Write, accepted: Option<&str>) -> Option<&ObjectKey> {
        let earlier = self.earlier.as_ref()?;
        if let Write::Policy(name, spec) = write {
            let touched = self.read.touched(name, spec.as_deref());
            let mut shared = touched
                .filter(|tenant| earlier.about.contains_key(&tenant.workload))
                .peekable();
            if shared.peek().is_none() && !earlier.has_others {
                // For its workloads all is as it was read.
                return None;
            }
            let change = (name, spec.as_deref());
            let is_decided = |tenant: &&Tenant| {
                self.read.decides(change, tenant) || earlier.ground.decides(change, tenant)
            };
            if let Some(tenant) = shared.find(is_decided) {
                return earlier.about.get(&tenant.workload);
            }
        }
        let refused = self.read.judge(write, accepted).err()?;
        let mut losses = refused.losses.iter();
        let first = losses.find_map(|loss| earlier.about.get(&loss.workload));
        Some(first.unwrap_or(&earlier.last))
    }
}

impl Ground {
    /// Returns whether a change of a policy (`None`: its deletion) decides which one places a workload: another one does then, or that one
    /// does still and has other claims to it.
    fn decides(&self, (name, spec): (&PolicyName, Option<&PropagationSpec>), tenant: &Tenant) -> bool {
        let now = self.selecting(tenant, None);
        let then = self.selecting(tenant, Some((name, spec)));
        Preemption::ALL.into_iter().any(|preemption| {
            match (now.governing(preemption), then.governing(preemption)) {
                (Some((before, was)), Some((after, is))) => {
                    before != after || before == name && !claims_alike(was, is)
                }
                (before, after) => before.is_some() != after.is_some(),
            }
        })
    }
}

/// Returns whether two versions of a policy have the same claims to workloads, wherever they place them.
fn claims_alike(one: &PropagationSpec, other: &PropagationSpec) -> bool {
    let of = |spec: &PropagationSpec| (spec.priority, spec.preemption == "Always");
    of(one) == of(other) && one.resource_selectors == other.resource_selectors
}
