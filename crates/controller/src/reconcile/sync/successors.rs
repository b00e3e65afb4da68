//! Which policy places a workload once all that Git says is carried out: where a policy goes, another one takes its workloads up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Sync;
use super::gate::get;
use super::moves::Asked;
use super::pruner::Pruner;
use crate::reconcile::intents::policies::{claimed_by, typed};
use cutover_cluster::KindState;
use cutover_core::api::{PolicyName, SYNC_MANAGER};
use cutover_core::config::Migrations;
use cutover_core::intent::driven::{self, Called, Driven};
use cutover_core::intent::gate::{Ground, Preemption, Refusal, Selecting, Tenant, policy_name};
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
        let preempts = settings.preemption;
        let to_be = |tenant: &Tenant| {
            let policies = known.get_or_insert_with(|| {
                let mut policies = self.to_be(ground.policies.clone(), &namespaces);
                match asked.spec {
                    Some(spec) => policies.insert(asked.policy.clone(), spec.clone()),
                    None => policies.remove(asked.policy),
                };
                policies
            });
            let by = selecting(tenant, policies).certain(preempts);
            by.ok().flatten().map(|(name, _)| name.clone())
        };
        let is_known = self.git_doubt().is_none();
        let goes = |policy: &PolicyName| is_known && self.is_leaving(&policy.key());
        driven::called_for(ground, refusal, (asked.policy, asked.spec), settings, to_be, goes)
    }

    /// Returns the policy that is to take workloads up when one is deleted, and is not there yet: until then they would have none, and
    /// for good if it never comes.
    pub(super) fn awaited(&self, ground: &Ground, policy: &PolicyName) -> Option<PolicyName> {
        let own = |tenant: &&Tenant| tenant.owner.as_ref() == Some(policy);
        let mut own = ground.tenants.iter().filter(own).peekable();
        own.peek()?;
        let namespaces: BTreeSet<Option<&str>> = own
            .clone()
            .map(|tenant| tenant.workload.namespace.as_deref())
            .chain([None])
            .collect();
        let mut policies = self.to_be(ground.policies.clone(), &namespaces);
        policies.remove(policy);
        let by = own.filter_map(|tenant| selecting(tenant, &policies).governing(Preemption::Any));
        let mut coming = by.filter(|(name, _)| !ground.policies.contains_key(*name));
        coming.next().map(|(name, _)| name.clone())
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

    /// Returns why a Migration is to move its workload no more: what it was set off for isn't so by now. What isn't known doesn't count.
    pub(super) async fn overtaken_by(&self, driven: &Driven<'_>) -> Option<&'static str> {
        let key = driven.policy.key();
        let seen = driven
            .workload()
            .and_then(|workload| self.observer.get(&workload));
        let wanted = self.placed.objects.get(&key);
        if let (None, Some(wanted)) = (&driven.successor, wanted) {
            let is_overtaken = driven.is_overtaken(&wanted.value(), seen.as_deref());
            return is_overtaken.then_some(driven::OVERTAKEN);
        }
        if self.git_doubt().is_some() || driven.successor.is_none() && self.may_come(&key) {
            return None;
        }
        let template = match (seen, driven.named()) {
            // It need not be in Git. One that has ended needs no answer now.
            (None, Some(named)) if !driven.has_failed() => {
                let gvk = named.gvk();
                let read = get::<Value>(&self.cluster, &gvk, driven.namespace(), &named.name).await;
                read.ok().flatten().map(Arc::new)
            }
            (seen, _) => seen,
        };
        match &driven.successor {
            Some(successor) => self.succeeded_otherwise(driven, successor, template.as_deref()),
            None => self.left_to_another(driven, template.as_deref()?),
        }
    }

    /// The same, of a Migration whose policy has left Git since: then what counts is where the workload is placed by what is left.
    fn left_to_another(&self, driven: &Driven<'_>, template: &Value) -> Option<&'static str> {
        let namespace = driven.namespace();
        let namespaces = BTreeSet::from([None, namespace]);
        let to_be = self.to_be(self.seen_policies(&namespaces), &namespaces);
        let owner = claimed_by(template);
        let by = Selecting::new(owner.as_ref(), namespace, template, &to_be).certain(self.preempts());
        let Ok(Some((name, _))) = by else {
            return Some(driven::LEFT);
        };
        let is_by_placement = |policy: &Value| driven.is_by_placement(policy);
        let says_so = match self.placed.objects.get(&name.key()) {
            Some(entry) => is_by_placement(&entry.value()),
            None => self
                .observer
                .get(&name.key())
                .is_some_and(|live| is_by_placement(&live)),
        };
        (!says_so).then_some(driven::LEFT)
    }

    /// The same, where another policy was to take the workload up: it doesn't, or places it elsewhere.
    fn succeeded_otherwise(
        &self,
        driven: &Driven<'_>,
        successor: &PolicyName,
        template: Option<&Value>,
    ) -> Option<&'static str> {
        let key = successor.key();
        let in_git = self.placed.objects.get(&key).map(|entry| entry.value());
        let asks_for_it = driven.policy == *successor && !self.may_come(&key);
        if in_git.is_none() && (asks_for_it || self.is_leaving(&key)) {
            return Some(driven::LEFT);
        }
        let live = || self.observer.get(&key).map(|live| (*live).clone());
        let Some(wanted) = in_git.or_else(live) else {
            let is_gone = !self.may_come(&key) && self.is_listed(&key);
            return is_gone.then_some(driven::PLACED_OTHERWISE);
        };
        if driven.is_overtaken(&wanted, template) {
            return Some(driven::OVERTAKEN);
        }
        let (template, namespace) = (template?, driven.namespace());
        let namespaces = BTreeSet::from([None, namespace]);
        let to_be = self.to_be(self.seen_policies(&namespaces), &namespaces);
        if !to_be.contains_key(successor) {
            return None;
        }
        let owner = claimed_by(template);
        let selecting = Selecting::new(owner.as_ref(), namespace, template, &to_be);
        if matches!(selecting.certain(self.preempts()), Ok(Some((name, _))) if name == successor) {
            return None;
        }
        // What is live and not in Git has been changed by another client, or stays by a setting.
        let is_in_git = |name: &PolicyName| self.placed.objects.contains_key(&name.key());
        let others = [
            owner.as_ref(),
            selecting.governing(Preemption::Any).map(|(name, _)| name),
        ];
        let mut others = others.into_iter().flatten().filter(|name| *name != successor);
        Some(if others.any(is_in_git) {
            driven::OVERTAKEN
        } else {
            driven::PLACED_OTHERWISE
        })
    }

    fn preempts(&self) -> bool {
        let own = self.source.selection.own();
        own.is_some_and(|own| own.gate.migrations.preemption)
    }

    /// Returns whether Git may have an object, for all that is known of it.
    fn may_come(&self, key: &ObjectKey) -> bool {
        let elsewhere = |pruner: &Pruner| pruner.is_wanted_elsewhere(key);
        self.placed.may_want(key) || self.source.mentions(key) || self.pruner.as_ref().is_some_and(elsewhere)
    }

    /// Returns whether all objects of a kind can be seen: one that can't be is not there.
    fn is_listed(&self, key: &ObjectKey) -> bool {
        let state = self.observer.state(&key.group, &key.kind);
        matches!(state, Some(KindState::Synced { .. }))
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
        if self.may_come(key) {
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

fn selecting<'a>(tenant: &Tenant, policies: &'a Policies) -> Selecting<'a> {
    let namespace = tenant.workload.namespace.as_deref();
    Selecting::new(tenant.owner.as_ref(), namespace, &tenant.template, policies)
}
