//! Finds policies and bindings that are suspended for intents that are gone, such as by a finalizer that somebody took off, and
//! takes that off them. What is only about to be made anew, as by a restored backup, has time to come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::api::ObjectMeta;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;

use super::Parts;
use super::ask;
use super::events::Events;
use super::execute::{self, Sent};
use cutover_cluster::Lookup;
use cutover_core::api::{self, SUSPENSIONS_ANNOTATION, claim_name};
use cutover_core::error::Error;
use cutover_core::intent::holders::Holders;
use cutover_core::intent::suspension::{binding_without_dead, policy_without_dead, workload};
use cutover_core::intent::{Effect, Seen};
use cutover_core::report::EventRecord;
use cutover_karmada::name::Gvk;
use cutover_karmada::{
    ClusterPropagationPolicy, ClusterResourceBinding, PropagationPolicy, ResourceBinding, meta,
};

const POLICIES: &str = "policy.karmada.io/v1alpha1";
const BINDINGS: &str = "work.karmada.io/v1alpha2";

/// How long an intent has to be gone.
pub(super) const GONE_FOR: Duration = Duration::from_secs(50);

/// What is looked for, and since when an intent is known to be gone.
#[derive(Debug)]
pub(super) struct LeftHeld {
    /// Looking costs lists of everything: only at the start, when a suspension has gone, and while something waits.
    due: bool,
    gone: BTreeMap<String, Instant>,
}

impl LeftHeld {
    pub(super) fn new() -> Self {
        Self {
            due: true,
            gone: BTreeMap::new(),
        }
    }

    /// A suspension has gone.
    pub(super) fn look(&mut self) {
        self.due = true;
    }

    pub(super) async fn once(&mut self, parts: &Parts, events: &Events) -> Result<(), Error> {
        let kind = Gvk::new(api::API_VERSION, "Suspension");
        if !self.due || matches!(parts.cluster.lookup(&kind).await?, Lookup::NotServed) {
            return Ok(());
        }
        let Some(all) = read(parts).await else {
            return Ok(());
        };
        let mut waits = BTreeSet::new();
        let holders = all.policies.iter().map(|policy| &policy.metadata);
        for meta in holders.chain(all.bindings.iter().map(|binding| &binding.metadata)) {
            // What can't be read is for the suspension that comes there to tell.
            if let Ok(holders) = Holders::of(meta) {
                waits.extend(holders.gone(&all.alive).map(|(uid, _)| uid.clone()));
            }
        }
        self.gone.retain(|uid, _| waits.contains(uid));
        for uid in &waits {
            self.gone.entry(uid.clone()).or_insert_with(Instant::now);
        }
        // One that hasn't been gone for long counts as alive.
        let young = self.gone.iter().filter(|(_, since)| since.elapsed() < GONE_FOR);
        let mut alive = all.alive.clone();
        alive.extend(young.map(|(uid, _)| uid.clone()));
        for policy in &all.policies {
            let effect = policy_without_dead(policy, &alive).ok().flatten();
            let kind = meta::scoped_kind("PropagationPolicy", policy.metadata.namespace.is_none());
            take_off(parts, events, (POLICIES, &kind), &policy.metadata, &alive, effect).await?;
        }
        for binding in &all.bindings {
            let claimed = all
                .claims
                .contains(&claim_name(&workload(&binding.spec.resource)));
            let effect = binding_without_dead(binding, &alive, claimed).ok().flatten();
            let kind = meta::scoped_kind("ResourceBinding", binding.metadata.namespace.is_none());
            take_off(
                parts,
                events,
                (BINDINGS, &kind),
                &binding.metadata,
                &alive,
                effect,
            )
            .await?;
        }
        // What was just taken off is looked at once more.
        self.due = !waits.is_empty();
        Ok(())
    }
}

/// An object's metadata, whatever else it has.
#[derive(Deserialize)]
struct Meta {
    metadata: ObjectMeta,
}

/// Everything that is held, and who may hold it.
struct All {
    policies: Vec<PropagationPolicy>,
    bindings: Vec<ResourceBinding>,
    claims: BTreeSet<String>,
    /// Read last: who has begun to hold something since is among them.
    alive: BTreeSet<String>,
}

/// `None`: not all of it is known.
async fn read(parts: &Parts) -> Option<All> {
    async fn all<T: DeserializeOwned>(parts: &Parts, of: &str, kind: &str) -> Option<Vec<T>> {
        match ask::list(&parts.cluster, of, kind, None, None).await {
            Seen::Known { value, .. } => Some(value),
            Seen::Unknown { .. } => None,
        }
    }
    // Of many objects few are held: only those are read whole.
    async fn held<T: DeserializeOwned>(parts: &Parts, of: &str, kind: &str) -> Option<Vec<T>> {
        let metas: Vec<Meta> = all(parts, of, kind).await?;
        let noted = |meta: &Meta| {
            let annotations = meta.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key(SUSPENSIONS_ANNOTATION))
        };
        let mut found = Vec::new();
        for Meta { metadata } in metas.into_iter().filter(noted) {
            let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref()?);
            match ask::get(&parts.cluster, Gvk::new(of, kind), namespace, name).await {
                Seen::Known { value, .. } => found.extend(value),
                Seen::Unknown { .. } => return None,
            }
        }
        Some(found)
    }
    let wide: Vec<ClusterPropagationPolicy> = held(parts, POLICIES, "ClusterPropagationPolicy").await?;
    let mut policies: Vec<PropagationPolicy> = held(parts, POLICIES, "PropagationPolicy").await?;
    policies.extend(wide.into_iter().map(PropagationPolicy::from));
    let wide: Vec<ClusterResourceBinding> = held(parts, BINDINGS, "ClusterResourceBinding").await?;
    let mut bindings: Vec<ResourceBinding> = held(parts, BINDINGS, "ResourceBinding").await?;
    bindings.extend(wide.into_iter().map(ResourceBinding::from));
    let claims: Vec<Meta> = all(parts, api::API_VERSION, "Claim").await?;
    let alive: Vec<Meta> = all(parts, api::API_VERSION, "Suspension").await?;
    let claims = claims.into_iter().filter_map(|claim| claim.metadata.name);
    let alive = alive.into_iter().filter_map(|one| one.metadata.uid);
    Some(All {
        policies,
        bindings,
        claims: claims.collect(),
        alive: alive.collect(),
    })
}

async fn take_off(
    parts: &Parts,
    events: &Events,
    (api_version, kind): (&str, &str),
    meta: &ObjectMeta,
    alive: &BTreeSet<String>,
    effect: Option<Effect>,
) -> Result<(), Error> {
    let Some(effect) = effect else {
        return Ok(());
    };
    if let Sent::Stale(why) = execute::send_alone(parts, &effect).await? {
        tracing::debug!(why, "a precondition failed");
        return Ok(());
    }
    let holders = Holders::of(meta).unwrap_or_default();
    let by: Vec<&str> = holders.gone(alive).map(|(_, by)| by).collect();
    let by = by.join(", ");
    tracing::warn!(by, %effect, "taken off after suspensions that are gone");
    let event = EventRecord {
        warning: true,
        reason: "LeftBehind".to_owned(),
        note: format!("was suspended by {by}, which is gone: removed, and held changes are released"),
    };
    let about = json!({
        "apiVersion": api_version, "kind": kind, "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
    });
    events.tell_about(about, event, (parts.clock)());
    Ok(())
}
