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

use cutover_core::api::PolicyName;
use cutover_core::intent::world::{Desired, Overrides, OwnPolicy};
use cutover_core::intent::{Seen, World};
use cutover_karmada::name::ClusterName;
use cutover_karmada::{OverridePolicy, PropagationPolicy, ResourceBinding, Work};

use crate::actor::{NAMESPACE, View};

fn overrides(view: &mut View<'_>) -> Seen<Overrides> {
    let after = view.after();
    let all = Overrides {
        cluster_wide: Arc::default(),
        namespaced: Arc::new(pin(view).into_iter().collect()),
        versions: Arc::new(vec![after.api_version.clone()]),
    };
    view.known(all)
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

fn policy_name(view: &View<'_>) -> PolicyName {
    PolicyName {
        namespace: Some(NAMESPACE.to_owned()),
        name: view.before().key.name.clone(),
    }
}

fn policy(view: &View<'_>) -> Option<PropagationPolicy> {
    view.before().policy.as_ref().map(|policy| policy.typed.clone())
}

/// What every intent that pins a workload sees of it.
fn world(
    view: &mut View<'_>,
    canary: Option<&str>,
    record: Seen<Option<cutover_core::intent::record::Record>>,
) -> World {
    let unread = || "not read in the simulation";
    let canary = canary.and_then(|name| view.then.canary(name));
    let own = policy(view).map(|live| OwnPolicy {
        name: policy_name(view),
        live,
        change: None,
    });
    let (template, binding) = (template(view), binding(view));
    let claim = view.before().claim.as_deref().cloned();
    World {
        workload: view.before().key.clone(),
        template: view.known(template),
        binding: view.known(binding),
        claim: view.known(claim),
        policy: view.known(own),
        works: {
            let works = works(view);
            view.known(works)
        },
        pin: {
            let pin = pin(view);
            view.known(pin)
        },
        overrides: overrides(view),
        clusters: view.clusters(),
        canary: view.known(canary),
        leases: view.leases(),
        profiles: view.known(Vec::new()),
        metrics: BTreeMap::new(),
        others: BTreeMap::new(),
        members: view
            .each_member(|member, workload, read| member.see(workload, read))
            .into_iter()
            .collect(),
        beside: Vec::new(),
        scalers: Seen::unknown(unread()),
        desired: view.known(Desired::default()),
        arriving: view.known(Vec::new()),
        admission: None,
        watched: Duration::ZERO,
        warnings: Vec::new(),
        record,
    }
}
