//! What is read of a workload that an intent itself takes out of a cluster: the claim and the binding first, then its copies.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use serde_json::Value;

use super::around::Around;
use super::ask::get;
use super::members::Selector;
use super::{Parts, metrics, others};
use cutover_core::api::{Move, Verify, WorkloadProfile};
use cutover_core::intent::control_plane::Named;
use cutover_core::intent::member::{Member, Pod};
use cutover_core::intent::moves::Evicting;
use cutover_core::intent::{Seen, pin};
use cutover_core::profile::{self, Profile};
use cutover_karmada::name::{ClusterName, Gvk};
use cutover_karmada::{OverridePolicy, ResourceBinding};

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
    let (binding, works) = around.binding_and_works(Named::default()).await;
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
    let goes_on: Vec<ClusterName> = listed(&binding)
        .into_iter()
        .filter(|cluster| *cluster != one.from)
        .collect();
    let (namespace, checks) = (workload.namespace.as_deref(), &verify.checks);
    let (members, others, metrics) = tokio::join!(
        members(&around, one, &binding, &template, &profile),
        others::read(&parts.cluster, namespace, &goes_on, checks),
        metrics::ask(parts.metrics.as_ref(), checks, || around.instant()),
    );
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
    let journal = one.eviction.as_deref();
    let journaled = journal.and_then(|journal| journal.pods.clone());
    // What is journaled holds whatever has become of the profile.
    let profile = profile.get().ok().and_then(Option::as_ref);
    let profile = profile.filter(|_| journaled.is_none());
    let profile = profile.map(|profile| Profile::compile("", &profile.spec));
    let profile = match profile.transpose() {
        Ok(profile) => profile,
        Err(error) => return Seen::unknown(error.to_string()),
    };
    let template = template.get().ok().and_then(Option::as_ref);
    let selector = match Selector::of(journaled, profile.as_ref(), template) {
        // The journal says that it has none of its own, once it says anything.
        Selector::Unsaid if journal.is_some_and(|journal| !journal.binding_uid.is_empty()) => Selector::None,
        selector => selector,
    };
    let reader = around.parts.cluster.member(&one.from);
    let namespace = around.workload.namespace.as_deref();
    selector
        .pods(&one.from, &reader, namespace, around.instant())
        .await
}

fn listed(binding: &Seen<Option<ResourceBinding>>) -> BTreeSet<ClusterName> {
    let binding = binding.get().ok().and_then(Option::as_ref);
    let clusters = binding.into_iter().flat_map(|binding| &binding.spec.clusters);
    clusters.map(|target| target.name.clone()).collect()
}
