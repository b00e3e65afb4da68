//! Which policy places a workload once all that Git says is carried out: where a policy goes, another one takes its workloads up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Sync;
use super::gate::get;
use super::moves::Asked;
use crate::reconcile::intents::policies::{claimed_by, typed};
use cutover_core::api::{PolicyName, SYNC_MANAGER};
use cutover_core::config::Migrations;
use cutover_core::intent::driven::{self, Called, Driven};
use cutover_core::intent::gate::{Ground, Refusal, Tenant, governing, policy_name};
use cutover_core::manifest::Entry;
use cutover_core::plan::applyset::part_of;
use cutover_core::plan::{Decision, owned_matches, protection};
use cutover_karmada::name::ObjectKey;
use cutover_karmada::{PropagationSpec, meta};

const POLICY_GROUP: &str = "policy.karmada.io";

type Policies = BTreeMap<PolicyName, PropagationSpec>;

impl Sync {
    /// Returns the moves that a refused change of a policy calls for, or why a person has to decide.
    pub(super) fn called_for(
        &self,
        ground: &Ground,
        asked: Asked<'_>,
        refusal: &Refusal,
        settings: &Migrations,
    ) -> Result<Vec<Called>, String> {
        let losses = refusal.losses.iter();
        let namespaces: BTreeSet<Option<&str>> = losses
            .map(|loss| loss.workload.namespace.as_deref())
            .chain([None])
            .collect();
        // Most changes are of the policy that the workload has, and ask for none of this.
        let mut known: Option<Policies> = None;
        let to_be = |tenant: &Tenant| {
            let policies = known.get_or_insert_with(|| {
                let mut policies = self.to_be(ground.policies.clone(), &namespaces);
                match asked.spec {
                    Some(spec) => policies.insert(asked.policy.clone(), spec.clone()),
                    None => policies.remove(asked.policy),
                };
                policies
            });
            let namespace = tenant.workload.namespace.as_deref();
            let by = governing(tenant.owner.as_ref(), namespace, &tenant.template, &*policies);
            by.map(|(name, _)| name.clone())
        };
        driven::called_for(ground, refusal, (asked.policy, asked.spec), settings, to_be)
    }

    /// Returns the policy that places what is moved, as Git has it; of one that is not in Git, as it is. An error where that isn't what
    /// was judged.
    pub(super) fn placing(&self, called: &[Called], asked: Asked<'_>) -> Result<Value, String> {
        let successor = called.first().and_then(|called| called.successor.as_ref());
        let Some(successor) = successor.filter(|successor| *successor != asked.policy) else {
            return Ok(asked.object.clone());
        };
        let key = successor.key();
        let Some(live) = self.observer.get(&key) else {
            return Err(format!("{successor}, which would take it up, cannot be seen"));
        };
        match self.placed.objects.get(&key) {
            Some(entry) if !self.is_in_sync(entry, &live) => Err(format!(
                "{successor}, which would take it up, is to change as well"
            )),
            Some(entry) => Ok(entry.value()),
            None => Ok((*live).clone()),
        }
    }

    /// Returns whether Git asks for something else by now than what a Migration was set off for.
    pub(super) async fn is_overtaken(&self, driven: &Driven<'_>) -> bool {
        let template = driven
            .workload()
            .and_then(|workload| self.observer.get(&workload));
        let Some(successor) = &driven.successor else {
            // Of a policy that isn't there, or can't be read, it isn't known where it would place anything.
            let policy = self.placed.objects.get(&driven.policy.key());
            return policy.is_some_and(|entry| driven.is_overtaken(&entry.value(), template.as_deref()));
        };
        // It need not be in Git.
        let template = match (template, driven.named()) {
            (None, Some(named)) => {
                let gvk = named.gvk();
                let read = get::<Value>(&self.cluster, &gvk, driven.namespace(), &named.name).await;
                read.ok().flatten().map(Arc::new)
            }
            (template, _) => template,
        };
        self.is_succeeded_otherwise(driven, successor, template.as_deref())
    }

    /// Returns whether another policy will place the workload than the one that was to take it up, or that one elsewhere. What isn't known
    /// doesn't count.
    fn is_succeeded_otherwise(
        &self,
        driven: &Driven<'_>,
        successor: &PolicyName,
        template: Option<&Value>,
    ) -> bool {
        if self.git_doubt().is_some() {
            return false;
        }
        let key = successor.key();
        let in_git = self.placed.objects.get(&key).map(|entry| entry.value());
        if in_git.is_none() && (driven.policy == *successor || self.is_leaving(&key)) {
            return true;
        }
        let live = || self.observer.get(&key).map(|live| (*live).clone());
        let Some(wanted) = in_git.or_else(live) else {
            return false;
        };
        if driven.is_overtaken(&wanted, template) {
            return true;
        }
        let Some(template) = template else {
            return false;
        };
        let namespace = driven.namespace();
        let namespaces = BTreeSet::from([None, namespace]);
        let to_be = self.to_be(self.seen_policies(&namespaces), &namespaces);
        if !to_be.contains_key(successor) {
            return false;
        }
        let by = governing(claimed_by(template).as_ref(), namespace, template, &to_be);
        by.is_some_and(|(name, _)| name != successor)
    }

    /// Returns the policies as they will be: those that there are, without those that go, and those of Git as they stand there.
    fn to_be(&self, live: Policies, namespaces: &BTreeSet<Option<&str>>) -> Policies {
        let mut policies = live;
        policies.retain(|name, _| !self.is_leaving(&name.key()));
        for namespace in namespaces {
            let kind = meta::scoped_kind("PropagationPolicy", namespace.is_none());
            for entry in self.placed.objects.of_namespace(POLICY_GROUP, &kind, *namespace) {
                let named = policy_name(&entry.key);
                if let Some(name) = named
                    && let Ok(policy) = typed(&name, entry.value())
                {
                    policies.insert(name, policy.spec);
                }
            }
        }
        policies
    }

    /// Returns the live policies that can be seen.
    fn seen_policies(&self, namespaces: &BTreeSet<Option<&str>>) -> Policies {
        let kinds = [true, false].map(|is_wide| meta::scoped_kind("PropagationPolicy", is_wide));
        let keys = kinds
            .iter()
            .flat_map(|kind| self.observer.keys(POLICY_GROUP, kind))
            .filter(|key| namespaces.contains(&key.namespace.as_deref()));
        let read = keys.filter_map(|key| {
            let (name, live) = (policy_name(&key)?, self.observer.get(&key)?);
            let policy = typed(&name, (*live).clone()).ok()?;
            Some((name, policy.spec))
        });
        read.collect()
    }

    /// Returns whether this sync is about to delete an object, as far as can be seen of that: what its pruner has not looked at yet, too.
    fn is_leaving(&self, key: &ObjectKey) -> bool {
        let Some(pruner) = &self.pruner else {
            return false;
        };
        if self.placed.may_want(key) || self.source.mentions(key) || pruner.is_wanted_elsewhere(key) {
            return false;
        }
        let live = self.observer.get(key);
        live.is_some_and(|live| part_of(&live) == Some(&pruner.id) && protection(&live).is_none())
    }

    fn is_in_sync(&self, entry: &Entry, live: &Value) -> bool {
        let manifest = self.decider().dressed(&entry.manifest()).into_owned();
        owned_matches(&manifest.value, live, SYNC_MANAGER) == Decision::InSync
    }
}
