//! The kinds of intents, as the simulation looks and talks to them.

mod failover;
mod migration;
mod rollout;
mod shift;
mod suspension;

pub use failover::FailoverPlan;
pub use migration::{Migration, gives_up};
pub use rollout::Rollout;
pub use shift::ReplicaShift;
pub use suspension::Suspension;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cutover_core::api::{Claim, PolicyName};
use cutover_core::intent::control_plane::Overrides;
use cutover_core::intent::record::Record;
use cutover_core::intent::snapshot::{Desired, OwnPolicy};
use cutover_core::intent::{Read, Seen, Snapshot};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{OverridePolicy, PropagationPolicy, ResourceBinding, Work};

use crate::actor::{NAMESPACE, View};
use crate::member::{Member, Shown};
use crate::plane::{Canary, Workload};

fn overrides(view: &mut View<'_>) -> Seen<Overrides> {
    let all = all_overrides(view);
    view.known(all)
}

fn all_overrides(view: &View<'_>) -> Overrides {
    Overrides {
        cluster_wide: Arc::default(),
        namespaced: Arc::new(pin(view).into_iter().collect()),
        versions: Arc::new(vec![view.after().api_version.clone()]),
    }
}

fn pin(view: &View<'_>) -> Option<OverridePolicy> {
    view.after().pin.as_ref().map(|pin| (***pin).clone())
}

fn binding(view: &View<'_>) -> Option<ResourceBinding> {
    view.before()
        .binding
        .as_ref()
        .map(|binding| binding.typed.clone())
}

fn works(view: &View<'_>) -> BTreeMap<ClusterName, Work> {
    let works = view.after().works.iter();
    works
        .map(|(name, work)| (name.clone(), (***work).clone()))
        .collect()
}

fn template(view: &View<'_>) -> Option<serde_json::Value> {
    view.before()
        .template
        .as_ref()
        .map(|template| (***template).clone())
}

fn claim(view: &View<'_>) -> Option<Claim> {
    view.before().claim.as_deref().cloned()
}

fn policy_name(view: &View<'_>) -> PolicyName {
    PolicyName {
        namespace: Some(NAMESPACE.to_owned()),
        name: view.before().key.name.clone(),
    }
}

fn policy(view: &View<'_>) -> Option<PropagationPolicy> {
    view.before().policy.as_ref().map(|policy| policy.typed.clone())
}

fn own_policy(view: &View<'_>) -> Option<OwnPolicy> {
    Some(OwnPolicy {
        name: policy_name(view),
        live: policy(view)?,
        change: None,
    })
}

/// A world, with what it was copied from: the next look takes over what is the same still.
#[derive(Debug)]
pub struct Look {
    pub snapshot: Box<Snapshot>,
    pub of: Sources,
}

/// Whatever is one and the same says the same.
#[derive(Debug)]
pub struct Sources {
    before: Arc<Workload>,
    after: Arc<Workload>,
    canary: Option<(String, Canary)>,
    record: Option<Arc<Record>>,
    members: Vec<Shown>,
}

fn same<T>(was: Option<&Arc<T>>, is: Option<&Arc<T>>) -> bool {
    match (was, is) {
        (Some(was), Some(is)) => Arc::ptr_eq(was, is),
        (was, is) => was.is_none() && is.is_none(),
    }
}

fn same_works(was: &Workload, is: &Workload) -> bool {
    let mut pairs = was.works.iter().zip(&is.works);
    was.works.len() == is.works.len() && pairs.all(|(was, is)| was.0 == is.0 && Arc::ptr_eq(was.1, is.1))
}

/// Looks again; `is_same`: what was seen there is what there is.
fn again<T>(seen: &mut Seen<T>, now: Read, is_same: bool, copy: impl FnOnce() -> T) {
    match seen {
        Seen::Known { read, .. } if is_same => *read = now,
        seen => *seen = Seen::known(copy(), now),
    }
}

/// What every intent that pins a workload sees of it. `record`: what Git has of it.
fn snapshot(view: &mut View<'_>, canary: Option<&str>, record: Seen<Option<Arc<Record>>>) -> Box<Snapshot> {
    let (mut snapshot, was) = match view.last.take() {
        Some(last) => (last.snapshot, Some(last.of)),
        None => {
            let workload = view.before().key.clone();
            (Box::new(Snapshot::unread(workload, "in the simulation")), None)
        }
    };
    let now = sources(view, canary, &record);
    let is_same =
        |are_same: fn(&Sources, &Sources) -> bool| was.as_ref().is_some_and(|was| are_same(was, &now));
    let template_is = is_same(|was, is| same(was.before.template.as_ref(), is.before.template.as_ref()));
    again(&mut snapshot.plane.template, view.read(), template_is, || {
        template(view)
    });
    let binding_is = is_same(|was, is| same(was.before.binding.as_ref(), is.before.binding.as_ref()));
    again(&mut snapshot.plane.binding, view.read(), binding_is, || {
        binding(view)
    });
    let claim_is = is_same(|was, is| same(was.before.claim.as_ref(), is.before.claim.as_ref()));
    again(&mut snapshot.plane.claim, view.read(), claim_is, || claim(view));
    let policy_is = is_same(|was, is| same(was.before.policy.as_ref(), is.before.policy.as_ref()));
    again(&mut snapshot.policy, view.read(), policy_is, || own_policy(view));
    let works_are = is_same(|was, is| same_works(&was.after, &is.after));
    again(&mut snapshot.plane.works, view.read(), works_are, || works(view));
    let pin_is = is_same(|was, is| same(was.after.pin.as_ref(), is.after.pin.as_ref()));
    again(&mut snapshot.plane.pin, view.read(), pin_is, || pin(view));
    again(&mut snapshot.plane.overrides, view.read(), pin_is, || {
        all_overrides(view)
    });
    snapshot.plane.clusters = view.clusters();
    let canary_is = is_same(|was, is| was.canary == is.canary);
    again(&mut snapshot.plane.canary, view.read(), canary_is, || {
        canary.and_then(|name| view.then.canary(name))
    });
    let leases_are = snapshot
        .plane
        .leases
        .get()
        .is_ok_and(|known| *known == *view.then.leases);
    again(&mut snapshot.plane.leases, view.read(), leases_are, || {
        (*view.then.leases).clone()
    });
    again(&mut snapshot.plane.profiles, view.read(), true, Vec::new);
    look_at_members(view, &mut snapshot, was.as_ref(), &now);
    again(&mut snapshot.desired, view.read(), true, Desired::default);
    again(&mut snapshot.arriving, view.read(), true, Vec::new);
    again(&mut snapshot.successor, view.read(), true, Option::default);
    snapshot.watched = Duration::ZERO;
    let record_is = is_same(|was, is| same(was.record.as_ref(), is.record.as_ref()));
    match record {
        Seen::Known { value, read } => {
            again(&mut snapshot.record, read, record_is, || {
                value.as_deref().cloned()
            });
        }
        Seen::Unknown { why } => snapshot.record = Seen::Unknown { why },
    }
    view.of = Some(now);
    snapshot
}

fn sources(view: &View<'_>, canary: Option<&str>, record: &Seen<Option<Arc<Record>>>) -> Sources {
    Sources {
        before: Arc::clone(view.before()),
        after: Arc::clone(view.after()),
        canary: canary.and_then(|name| Some((name.to_owned(), view.then.canaries.get(name)?.clone()))),
        record: record.get().ok().cloned().flatten(),
        members: view
            .members
            .iter()
            .map(|member| member.shown(view.workload, view.doubted.contains(&member.name)))
            .collect(),
    }
}

fn look_at_members(view: &mut View<'_>, snapshot: &mut Snapshot, was: Option<&Sources>, now: &Sources) {
    for (nth, member) in view.members.iter().enumerate() {
        let was = was.and_then(|was| was.members.get(nth));
        let all_nodes = view.doubted.contains(&member.name);
        let is_same = was.is_some_and(|was| was.is(&now.members[nth]));
        match snapshot.members.get_mut(&member.name) {
            Some(known) if is_same => Member::see_again(known, &mut || view.read()),
            _ => {
                let seen = member.see(view.workload, all_nodes, &mut || view.read());
                snapshot.members.insert(member.name.clone(), seen);
            }
        }
    }
}
