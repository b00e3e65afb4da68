//! What is read of a workload that an intent itself takes out of a cluster: the claim and the binding first, then its copies.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join_all};
use serde_json::Value;

use super::around::Around;
use super::ask::{all, get, map};
use super::{Parts, metrics, served};
use crate::api::{Check, Move, Verify, WorkloadProfile};
use crate::intent::moves::Evicting;
use crate::intent::world::{Member, Pod};
use crate::intent::{Seen, check, pin};
use crate::karmada::{OverridePolicy, ResourceBinding};
use crate::name::{ClusterName, Gvk};
use crate::profile::{self, Profile};

/// Reads all of it afresh.
pub(super) async fn look(
    parts: &Parts,
    one: &Move,
    verify: &Verify,
    profiles: &Seen<Vec<WorkloadProfile>>,
) -> Evicting {
    let (workload, gvk) = (one.workload.key(), one.workload.gvk());
    let around = Around {
        parts,
        workload: &workload,
        gvk: &gvk,
    };
    let claim = around.claim().await;
    let (binding, works) = around.binding_and_works().await;
    let journaled = one.eviction.as_deref();
    // That of a binding that is gone is known from before.
    let works = match (&binding, journaled.filter(|known| !known.binding_id.is_empty())) {
        (Seen::Known { value: None, .. }, Some(known)) => around.works(&known.binding_id).await,
        _ => works,
    };
    let pin: Seen<Option<OverridePolicy>> = get(
        &parts.cluster,
        Gvk::new("policy.karmada.io/v1alpha1", "OverridePolicy"),
        workload.namespace.as_deref(),
        &pin::name(&workload),
    )
    .await;
    let template = around.template().await;
    let profile = match profiles.get().map(|given| profile::find(given, None, &gvk)) {
        Ok(Ok(found)) => Seen::known(found, around.instant()),
        Ok(Err(error)) => Seen::unknown(error.to_string()),
        Err(why) => Seen::unknown(why.0),
    };
    let (members, (others, metrics)) = join(
        members(&around, one, &binding, &template, &profile),
        asked(&around, one, &binding, &verify.checks),
    )
    .await;
    Evicting {
        claim,
        binding,
        template,
        pin,
        works,
        profile,
        members,
        others,
        metrics,
    }
}

/// The copies where it is listed, and in the cluster that it leaves with the pods there.
async fn members(
    around: &Around<'_>,
    one: &Move,
    binding: &Seen<Option<ResourceBinding>>,
    template: &Seen<Option<Value>>,
    profile: &Seen<Option<WorkloadProfile>>,
) -> BTreeMap<ClusterName, Member> {
    let mut clusters = listed(binding);
    clusters.insert(one.from.clone());
    let read = clusters.into_iter().map(async |cluster| {
        let mut member = around.copy(&cluster).await;
        if cluster == one.from {
            // Nodes are nobody's business where no state is.
            member.nodes = Seen::known(BTreeMap::new(), around.instant());
            member.pods = pods(around, one, template, profile).await;
        }
        (cluster, member)
    });
    join_all(read).await.into_iter().collect()
}

async fn pods(
    around: &Around<'_>,
    one: &Move,
    template: &Seen<Option<Value>>,
    profile: &Seen<Option<WorkloadProfile>>,
) -> Seen<Vec<Pod>> {
    let journaled = one.eviction.as_deref().and_then(|known| known.pods.clone());
    let selector = match (journaled, profile.get(), template.get()) {
        (Some(selector), ..) => Some(selector),
        (None, Ok(Some(profile)), Ok(Some(template))) => {
            let compiled = Profile::compile("", &profile.spec);
            match compiled.and_then(|profile| profile.pod_selector(template)) {
                Ok(selector) => selector,
                Err(error) => return Seen::unknown(error.to_string()),
            }
        }
        (None, Ok(Some(profile)), _) if profile.spec.no_pods.is_none() => None,
        // The journal says that it has none of its own, once it says anything.
        _ if one
            .eviction
            .as_deref()
            .is_some_and(|known| !known.binding_uid.is_empty()) =>
        {
            None
        }
        _ => return Seen::unknown("nothing says which pods are the workload's"),
    };
    let Some(selector) = selector else {
        return Seen::known(Vec::new(), around.instant());
    };
    let reader = around.parts.cluster.member(&one.from);
    let read = all(reader.pods(around.workload.namespace.as_deref(), &selector).await);
    map(&read, |pods: &Vec<Value>| {
        let pod = |pod: &Value| Pod {
            name: pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            node: pod["spec"]["nodeName"].as_str().map(str::to_owned),
        };
        pods.iter().map(pod).collect()
    })
}

/// What checks are about beside the copies.
async fn asked(
    around: &Around<'_>,
    one: &Move,
    binding: &Seen<Option<ResourceBinding>>,
    checks: &[Check],
) -> (
    check::Others,
    BTreeMap<String, Seen<crate::intent::world::Sampled>>,
) {
    let clusters = listed(binding);
    let beside = checks.iter().filter_map(|check| check.of.as_ref());
    let pairs = beside.flat_map(|of| clusters.iter().map(move |cluster| (of, cluster)));
    let pairs = pairs.filter(|(_, cluster)| **cluster != one.from);
    let read = pairs.map(async |(of, cluster)| {
        let object = match served(&around.parts.cluster, &of.gvk()).await {
            Ok(served) => {
                let reader = around.parts.cluster.member(cluster);
                let namespace = around.workload.namespace.as_deref();
                super::ask::optional(reader.get(&served, namespace, &of.name).await)
            }
            Err(error) => Seen::unknown(error.to_string()),
        };
        (check::other(cluster, of), object)
    });
    let others = join_all(read).await.into_iter().collect();
    let numbers = metrics::ask(around.parts.metrics.as_ref(), checks, || around.instant()).await;
    (others, numbers)
}

fn listed(binding: &Seen<Option<ResourceBinding>>) -> BTreeSet<ClusterName> {
    let binding = binding.get().ok().and_then(Option::as_ref);
    let clusters = binding.into_iter().flat_map(|binding| &binding.spec.clusters);
    clusters.map(|target| target.name.clone()).collect()
}
