//! Which policy places a workload once all that Git says is carried out: where a policy goes, another one takes its workloads up.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::Sync;
use super::gate::{Asked, POLICIES, Reach, accepted, get, is_accepted, policies_in};
use crate::reconcile::intents::policies::{claimed_by, typed};
use cutover_base::packed::View;
use cutover_cluster::{self as cluster, KindState};
use cutover_core::api::{PolicyName, SYNC_MANAGER};
use cutover_core::config::Migrations;
use cutover_core::intent::driven::{self, Called, Driven};
use cutover_core::intent::gate::{Ground, Loss, Preemption, Refusal, Selecting, Tenant, Write, policy_name};
use cutover_core::manifest::Entry;
use cutover_core::plan::applyset::part_of;
use cutover_core::plan::{Action, Decision, overlay, owned_matches, protection};
use cutover_karmada::name::{Gvk, ObjectKey};
use cutover_karmada::{PropagationSpec, ResourceSelector, meta};

const POLICY_GROUP: &str = "policy.karmada.io";

type Policies = BTreeMap<PolicyName, PropagationSpec>;

/// The policies as they will be, by the namespace of the workloads that they are for: what one look finds once. `None`: that isn't known.
pub(super) type Ahead = BTreeMap<Option<String>, tokio::sync::OnceCell<Option<Policies>>>;

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
        let known: OnceCell<Policies> = OnceCell::new();
        let all_of_git = || {
            let mut policies = self.to_be(ground.policies.clone(), &namespaces);
            match asked.spec {
                Some(spec) => policies.insert(asked.policy.clone(), spec.clone()),
                None => policies.remove(asked.policy),
            };
            policies
        };
        let to_be = |tenant: &Tenant| {
            let policies = known.get_or_init(&all_of_git);
            let by = selecting(tenant, policies).certain(settings.preemption);
            by.ok().flatten().map(|(name, _)| name.clone())
        };
        // It is asked for each workload, and what becomes of the others is the same for all.
        let releases: RefCell<BTreeMap<PolicyName, Option<Write>>> = RefCell::default();
        let goes = |tenant: &Tenant, policy: &PolicyName| {
            let release = || {
                let policies = known.get_or_init(&all_of_git);
                let release = self.release(policy, policies);
                release.filter(|release| is_let_go(ground, refusal, release, policies))
            };
            let mut releases = releases.borrow_mut();
            let release = releases.entry(policy.clone()).or_insert_with(release);
            matches!(release, Some(Write::Policy(_, spec)) if lets_go(spec.as_deref(), tenant))
        };
        driven::called_for(ground, refusal, (asked.policy, asked.spec), settings, to_be, goes)
    }

    /// Returns the write by which this sync is certain to take a policy away or to change it: else what is moved for that would wait under
    /// guard for good. `to_be`: the policies as they will be.
    fn release(&self, policy: &PolicyName, to_be: &Policies) -> Option<Write> {
        let key = policy.key();
        if self.is_certain_to_go(&key) {
            return Some(Write::Policy(policy.clone(), None));
        }
        let spec = to_be.get(policy).filter(|_| self.is_certain_to_change(&key))?;
        Some(Write::Policy(policy.clone(), Some(Box::new(spec.clone()))))
    }

    /// Returns whether this sync is to change an object that it has, and nothing known keeps it from that: neither an intent, nor a file
    /// that can't be read. What the API server makes of the change is asked before a move is set off: see [`Self::not_let_go`].
    fn is_certain_to_change(&self, key: &ObjectKey) -> bool {
        let entry = self.placed.objects.get(key);
        entry.is_some_and(|entry| self.decider().of_entry(entry).action == Action::Configure)
    }

    /// Returns why a policy will not let go of what is to be moved, if so: the API server refuses the change that it is to get.
    pub(super) async fn not_let_go(
        &self,
        ground: &Ground,
        called: &[Called],
        asked: Asked<'_>,
    ) -> Option<String> {
        let is_moved = |tenant: &&Tenant| {
            let mut workloads = called
                .iter()
                .map(|called| called.workload.key(Some(&called.namespace)));
            workloads.any(|workload| workload == tenant.workload)
        };
        let owners = ground.tenants.iter().filter(is_moved);
        let owners: BTreeSet<&PolicyName> = owners
            .filter_map(|tenant| tenant.owner.as_ref())
            .filter(|owner| *owner != asked.policy)
            .collect();
        for owner in owners {
            let key = owner.key();
            let Some(entry) = self
                .placed
                .objects
                .get(&key)
                .filter(|_| self.is_certain_to_change(&key))
            else {
                continue;
            };
            let manifest = self.decider().dressed(&entry.manifest()).into_owned();
            let options = self.options.of(&manifest.value);
            if cluster::rehearse(&self.cluster, &manifest, options)
                .await
                .is_err()
            {
                return Some(format!("the change of {owner}, which has it, is refused"));
            }
        }
        None
    }

    /// Returns whether nothing known keeps this sync from deleting an object: else what is moved for that would wait under guard for good.
    fn is_certain_to_go(&self, key: &ObjectKey) -> bool {
        if !self.is_leaving(key) || self.leaving_doubt().is_some() {
            return false;
        }
        let revision = self.source.revision.as_ref();
        let pruning = revision.and_then(|revision| self.pruning(revision));
        pruning.is_some_and(|pruning| pruning.stop.is_none() && !pruning.blocked.contains_key(key))
    }

    /// Returns the policy that is to take workloads up when one is deleted, or lets them go, and does not select them yet: until then they
    /// would have none, and for good if it never does. `spec`: the one that lets go, as it will be.
    pub(super) fn awaited(
        &self,
        ground: &Ground,
        policy: &PolicyName,
        spec: Option<&PropagationSpec>,
    ) -> Option<PolicyName> {
        let own = |tenant: &&Tenant| tenant.owner.as_ref() == Some(policy) && lets_go(spec, tenant);
        let own: Vec<&Tenant> = ground.tenants.iter().filter(own).collect();
        if own.is_empty() {
            return None;
        }
        let namespaces = own.iter().map(|tenant| tenant.workload.namespace.as_deref());
        let namespaces: BTreeSet<Option<&str>> = namespaces.chain([None]).collect();
        let comes_to = |tenant: &Tenant, name: &PolicyName| {
            let live = ground.policies.get(name);
            live.is_none_or(|live| lets_go(Some(live), tenant))
        };
        // What changes for them comes from Git alone.
        let mut in_git = self.in_git(&namespaces);
        in_git.retain(|(_, entry)| may_select(entry, &own));
        let may_come = |(name, _): &(PolicyName, &Entry)| own.iter().any(|tenant| comes_to(tenant, name));
        if !in_git.iter().any(may_come) {
            return None;
        }
        // Of many policies few select them: none but these are read in full.
        let applied = in_git.into_iter().filter_map(|(name, entry)| {
            let spec = self.as_applied(&name, entry);
            let spec = spec.or_else(|| ground.policies.get(&name).cloned())?;
            Some((name, spec))
        });
        let applied: Policies = applied.collect();
        let stays = |name: &PolicyName| {
            let key = name.key();
            !self.placed.objects.contains_key(&key) && !self.is_leaving(&key)
        };
        let others = ground.policies.iter().filter(|(name, _)| stays(name));
        let others: Vec<_> = others
            .chain(&applied)
            .filter(|(name, _)| *name != policy)
            .collect();
        own.into_iter().find_map(|tenant| {
            let to_be = others.iter().copied().chain(spec.map(|spec| (policy, spec)));
            let (name, _) = selecting(tenant, to_be).governing(Preemption::Any)?;
            let comes =
                comes_to(tenant, name) && (!ground.policies.contains_key(name) || self.is_to_change(name));
            comes.then(|| name.clone())
        })
    }

    /// Returns whether a policy is to change, now or when an intent no longer holds it: one whose drift is left alone is not.
    fn is_to_change(&self, policy: &PolicyName) -> bool {
        let entry = self.placed.objects.get(&policy.key());
        entry.is_some_and(|entry| self.decider().of_entry(entry).action != Action::Unchanged)
    }

    /// Returns whether the policy that one waits for waits for that one in turn, maybe by way of others, as when two exchange their
    /// workloads: one of them has to let go first. One that an intent holds may not come for long, and one whose loss is accepted waits
    /// for nothing.
    pub(super) fn goes_round(&self, ground: &Ground, policy: &PolicyName, first: &PolicyName) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), first.clone());
        while next != *policy {
            let entry = self.placed.objects.get(&next.key());
            let entry = entry.filter(|entry| !self.held.may_hold(&entry.key));
            let spec = entry.and_then(|entry| self.waiting(ground, &next, entry));
            let after = spec.and_then(|spec| self.awaited(ground, &next, Some(&spec)));
            let after = after.filter(|after| !self.waits_for(&after.key(), &next.key()));
            match after {
                Some(after) if seen.insert(next.clone()) => next = after,
                _ => return false,
            }
        }
        true
    }

    /// Returns a policy of Git as it will be applied, unless what it costs is accepted.
    fn waiting(&self, ground: &Ground, policy: &PolicyName, entry: &Entry) -> Option<PropagationSpec> {
        let spec = self.as_applied(policy, entry)?;
        let write = Write::Policy(policy.clone(), Some(Box::new(spec.clone())));
        (!is_accepted(ground, &write, accepted(&entry.value()))).then_some(spec)
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
            return Err(format!("{successor}, which would claim it, cannot be seen"));
        };
        match self.placed.objects.get(&key) {
            Some(entry) if !self.is_in_sync(entry, &live) => {
                Err(format!("{successor}, which would claim it, is to change as well"))
            }
            Some(entry) => Ok(entry.value()),
            None => Ok((*live).clone()),
        }
    }

    /// Returns why a Migration is to move its workload no more: what it was set off for isn't so by now. What isn't known doesn't count.
    pub(super) async fn overtaken_by(&self, driven: &Driven<'_>, ahead: &mut Ahead) -> Option<&'static str> {
        let key = driven.policy.key();
        let seen = driven
            .workload()
            .and_then(|workload| self.observer.get(&workload));
        let wanted = self.placed.objects.get(&key);
        if let (None, Some(wanted)) = (&driven.successor, wanted) {
            let is_overtaken = driven.is_overtaken(&wanted.value(), seen.as_deref());
            return is_overtaken.then_some(driven::OVERTAKEN);
        }
        // What is there needs no certainty of what isn't.
        let successor = driven.successor.as_ref();
        let taker = successor.and_then(|successor| self.placed.objects.get(&successor.key()));
        if taker.is_some_and(|taker| driven.is_overtaken(&taker.value(), seen.as_deref())) {
            return Some(driven::OVERTAKEN);
        }
        if self.leaving_doubt().is_some() || driven.successor.is_none() && self.may_come(&key) {
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
            Some(successor) => {
                self.succeeded_otherwise(driven, successor, template.as_deref(), ahead)
                    .await
            }
            None => self.left_to_another(driven, template.as_deref()?, ahead).await,
        }
    }

    /// The same, of a Migration whose policy has left Git since: then what counts is where the workload is placed by what is left.
    async fn left_to_another(
        &self,
        driven: &Driven<'_>,
        template: &Value,
        ahead: &mut Ahead,
    ) -> Option<&'static str> {
        let namespace = driven.namespace();
        let to_be = self.ahead(ahead, namespace).await?;
        let owner = claimed_by(template);
        let by = Selecting::new(owner.as_ref(), namespace, template, to_be).certain(self.preempts());
        let Ok(Some((name, _))) = by else {
            return Some(driven::LEFT);
        };
        // Its Preflight would go by the policy that leaves, and hold the other one back.
        let has_touched_nothing = driven.is_under_way() && !driven.has_begun();
        if *name != driven.policy && has_touched_nothing {
            return Some(driven::LEFT);
        }
        let policy = match self.placed.objects.get(&name.key()) {
            Some(entry) => entry.value(),
            None => self.live_policy(&name.key()).await?,
        };
        (!driven.is_by_placement(&policy)).then_some(driven::LEFT)
    }

    /// The same, where another policy was to take the workload up: it doesn't, or places it elsewhere.
    async fn succeeded_otherwise(
        &self,
        driven: &Driven<'_>,
        successor: &PolicyName,
        template: Option<&Value>,
        ahead: &mut Ahead,
    ) -> Option<&'static str> {
        let key = successor.key();
        let in_git = self.placed.objects.get(&key).map(|entry| entry.value());
        let asks_for_it = driven.policy == *successor && !self.may_come(&key);
        if in_git.is_none() && (asks_for_it || self.is_leaving(&key)) {
            return Some(driven::LEFT);
        }
        let live = || self.observer.get(&key).map(|live| (*live).clone());
        let Some(wanted) = in_git.or_else(live) else {
            let is_gone = !self.may_come(&key) && self.is_listed(&key.kind);
            return is_gone.then_some(driven::PLACED_OTHERWISE);
        };
        if driven.is_overtaken(&wanted, template) {
            return Some(driven::OVERTAKEN);
        }
        let (template, namespace) = (template?, driven.namespace());
        let to_be = self.ahead(ahead, namespace).await?;
        if !to_be.contains_key(successor) {
            return None;
        }
        let owner = claimed_by(template);
        let selecting = Selecting::new(owner.as_ref(), namespace, template, to_be);
        if matches!(selecting.certain(self.preempts()), Ok(Some((name, _))) if name == successor) {
            return None;
        }
        // What is live and not in Git has been changed by another client, or stays by a setting.
        let is_in_git = |name: &PolicyName| self.placed.objects.contains_key(&name.key());
        // One that has it and lets it go says nothing of where it goes.
        let selects = |name: &&PolicyName| {
            let spec = to_be.get(*name);
            spec.is_some_and(|spec| ResourceSelector::closest(&spec.resource_selectors, template).is_some())
        };
        let others = [
            owner.as_ref().filter(selects),
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
        self.placed.may_want(key) || self.source.mentions(key) || self.siblings.want(key)
    }

    /// Returns whether all policies of a kind can be seen: one that can't be is not there.
    fn is_listed(&self, kind: &str) -> bool {
        let state = self.observer.state(POLICY_GROUP, kind);
        matches!(state, Some(KindState::Synced { .. }))
    }

    /// Returns the policies as they will be for the workloads of a namespace; `None`: not all of those that there are can be told.
    async fn ahead<'o>(&self, ahead: &'o mut Ahead, namespace: Option<&str>) -> Option<&'o Policies> {
        let known = ahead.entry(namespace.map(str::to_owned)).or_default();
        let look = || async {
            let namespaces = BTreeSet::from([None, namespace]);
            let live = self.live_policies(&namespaces).await?;
            Some(self.to_be(live, &namespaces))
        };
        known.get_or_init(look).await.as_ref()
    }

    /// Returns the policies as they will be: those that there are, without those that go, and those of Git as they will be applied, with
    /// what other clients have set of them.
    fn to_be(&self, live: Policies, namespaces: &BTreeSet<Option<&str>>) -> Policies {
        let mut policies = live;
        policies.retain(|name, _| !self.is_leaving(&name.key()));
        for (name, entry) in self.in_git(namespaces) {
            if let Some(spec) = self.as_applied(&name, entry) {
                policies.insert(name, spec);
            }
        }
        policies
    }

    /// Returns a policy of Git as it will be applied.
    fn as_applied(&self, name: &PolicyName, entry: &Entry) -> Option<PropagationSpec> {
        let manifest = self.decider().dressed(&entry.manifest()).into_owned().value;
        let wanted = match self.observer.get(&entry.key) {
            Some(live) => overlay(&manifest, &live, SYNC_MANAGER),
            None => manifest,
        };
        Some(typed(name, wanted).ok()?.spec)
    }

    /// Returns the policies that Git has in some namespaces.
    fn in_git(&self, namespaces: &BTreeSet<Option<&str>>) -> Vec<(PolicyName, &Entry)> {
        let mut policies = Vec::new();
        for namespace in namespaces {
            let kind = meta::scoped_kind("PropagationPolicy", namespace.is_none());
            let entries = self.placed.objects.of_namespace(POLICY_GROUP, &kind, *namespace);
            policies.extend(entries.filter_map(|entry| Some((policy_name(&entry.key)?, &**entry))));
        }
        policies
    }

    /// Returns the live policies: as they are seen, else as they are read. `None`: they can't be, or not all of them.
    async fn live_policies(&self, namespaces: &BTreeSet<Option<&str>>) -> Option<Policies> {
        let kinds = [true, false].map(|is_wide| meta::scoped_kind("PropagationPolicy", is_wide));
        if !kinds.iter().all(|kind| self.is_listed(kind)) {
            let mut reach = Reach::default();
            for namespace in namespaces.iter().copied().flatten() {
                reach.add(Some(namespace));
            }
            return Box::pin(policies_in(&self.cluster, &reach)).await.ok();
        }
        let keys = kinds
            .iter()
            .flat_map(|kind| self.observer.keys(POLICY_GROUP, kind))
            .filter(|key| namespaces.contains(&key.namespace.as_deref()));
        let read = keys.filter_map(|key| {
            let (name, live) = (policy_name(&key)?, self.observer.get(&key)?);
            let policy = typed(&name, (*live).clone());
            Some(policy.map(|policy| (name, policy.spec)))
        });
        read.collect::<Result<Policies, _>>().ok()
    }

    /// Returns a live policy: as it is seen, else as it is read. `None`: it can't be.
    async fn live_policy(&self, key: &ObjectKey) -> Option<Value> {
        if let Some(live) = self.observer.get(key) {
            return Some((*live).clone());
        }
        let gvk = Gvk::new(POLICIES, &key.kind);
        let read = get::<Value>(&self.cluster, &gvk, key.namespace.as_deref(), &key.name).await;
        read.ok().flatten()
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

/// Returns whether a policy, as it will be (`None`: it is deleted), lets go of a workload that it has.
fn lets_go(spec: Option<&PropagationSpec>, tenant: &Tenant) -> bool {
    spec.is_none_or(|spec| ResourceSelector::closest(&spec.resource_selectors, &tenant.template).is_none())
}

/// Returns whether a policy, as Git has it, may select one of some workloads.
fn may_select(entry: &Entry, tenants: &[&Tenant]) -> bool {
    let spec = entry.written().get("spec");
    let selectors = spec.and_then(|spec| spec.get("resourceSelectors"));
    // Most policies name other workloads, and need not be read.
    let may_name = |tenant: &Tenant| {
        let is_named = |selector: View<'_>| {
            let name = selector.get("name").and_then(View::as_str);
            name.is_none_or(|name| name.is_empty() || name == tenant.workload.name)
        };
        selectors.is_none_or(|selectors| !selectors.is_list() || selectors.items().any(is_named))
    };
    let mut named = tenants.iter().filter(|tenant| may_name(tenant)).peekable();
    if named.peek().is_none() {
        return false;
    }
    let selectors = selectors.map(View::value).unwrap_or_default();
    Vec::<ResourceSelector>::deserialize(selectors).map_or(true, |selectors| {
        named.any(|tenant| ResourceSelector::closest(&selectors, &tenant.template).is_some())
    })
}

/// Returns whether a write of a policy costs no workload its state beside those that are moved already: else the gate refuses it. What
/// it does to namespaces that the change can't reach is not asked. `to_be`: the policies as they will be.
fn is_let_go(ground: &Ground, refusal: &Refusal, release: &Write, to_be: &Policies) -> bool {
    let Write::Policy(policy, _) = release else {
        return false;
    };
    let Some(own) = ground.policies.get(policy) else {
        return false;
    };
    let mut then = ground.clone();
    then.policies.clone_from(to_be);
    then.policies.insert(policy.clone(), own.clone());
    let is_moved = |loss: &Loss| refusal.losses.iter().any(|moved| moved.workload == loss.workload);
    match then.judge(release, None) {
        Ok(_) => true,
        Err(refused) => refused.losses.iter().all(is_moved),
    }
}

fn selecting<'a>(
    tenant: &Tenant,
    policies: impl IntoIterator<Item = (&'a PolicyName, &'a PropagationSpec)>,
) -> Selecting<'a> {
    let namespace = tenant.workload.namespace.as_deref();
    Selecting::new(tenant.owner.as_ref(), namespace, &tenant.template, policies)
}
