//! Finds what intents have left that went without ending in order, such as by a finalizer that somebody took off: claims,
//! pins, canaries. Caches say where to look; fresh reads decide, and what isn't known is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Parts;
use super::ask::{self, by_cluster};
use super::events::Events;
use super::execute::{self, Sent};
use super::left_held::{GONE_FOR, LeftHeld};
use super::policies::{claimed_by, policy};
use cutover_cluster::{Change, Lookup};
use cutover_core::api::{self, Claim, KINDS, Kind, WorkloadProfile};
use cutover_core::error::Error;
use cutover_core::intent::control_plane::Overrides;
use cutover_core::intent::custody::belt::overwrites;
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::orphan::{Left, OrphanFate, judge, judge_guest, tend};
use cutover_core::intent::{Effect, Seen, pin};
use cutover_core::profile;
use cutover_core::report::EventRecord;
use cutover_karmada::name::{ClusterName, Gvk};
use cutover_karmada::{Cluster, ClusterOverridePolicy, OverridePolicy, ResourceBinding, Work, meta};

/// The kinds of intents that claim workloads.
fn claiming() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.claims)
}

const OVERRIDES: &str = "policy.karmada.io/v1alpha1";

/// How often everything is looked at, whatever was heard.
const EVERY: Duration = Duration::from_mins(1);
/// How long caches may take to be filled before the first look.
const FILLED: Duration = Duration::from_secs(10);
/// How often one thing is looked at again in a row, and how soon.
const ROUNDS: usize = 40;
const SOON: Duration = Duration::from_millis(250);

/// Sweeps at once, and whenever an intent is gone, until it is cancelled.
pub(super) async fn run(parts: Parts, events: Events, stop: CancellationToken) {
    let sweep = Sweep { parts, events };
    tokio::select! {
        () = stop.cancelled() => {}
        () = sweep.run() => {}
    }
}

struct Sweep {
    parts: Parts,
    events: Events,
}

/// A claim, a pin, or both, under the name of the claim.
#[derive(Clone, Debug, Default)]
struct Candidate {
    claim: String,
    /// Of the pin; of a workload of cluster scope none.
    namespace: Option<String>,
    /// The uid of the intent that left something in a claim that isn't its own.
    guest: Option<String>,
}

impl Candidate {
    fn key(&self) -> String {
        format!("{}/{}", self.claim, self.guest.as_deref().unwrap_or_default())
    }
}

impl Sweep {
    async fn run(&self) {
        let observer = &self.parts.observer;
        let mut news = observer.news();
        observer.heard(FILLED).await;
        let (mut held, mut gone) = (LeftHeld::new(), BTreeMap::new());
        let is_gone = |change: &Change| {
            let claims = claiming().any(|kind| kind.name == change.key.kind);
            claims && change.key.group == api::GROUP && !observer.contains(&change.key)
        };
        loop {
            if let Err(error) = self.once(&mut gone).await {
                tracing::debug!(%error, "what intents have left is not known");
            }
            if let Err(error) = held.once(&self.parts, &self.events).await {
                tracing::debug!(%error, "what suspensions have left is not known");
            }
            tokio::select! {
                () = news.heard(is_gone) => {
                    held.look();
                    tokio::time::sleep(SOON).await;
                }
                () = tokio::time::sleep(EVERY) => {}
            }
            news.forget();
        }
    }

    async fn once(&self, gone: &mut BTreeMap<String, Instant>) -> Result<(), Error> {
        let candidates = self.candidates();
        gone.retain(|key, _| candidates.iter().any(|candidate| candidate.key() == *key));
        for candidate in candidates {
            self.settle(&candidate, gone).await?;
        }
        self.canaries().await
    }

    /// Returns what the caches know of no running intent's.
    fn candidates(&self) -> Vec<Candidate> {
        let observer = &self.parts.observer;
        let mut running = BTreeSet::new();
        for kind in claiming() {
            let intents = observer.list(api::GROUP, kind.name);
            let at_work = intents.iter().filter(|intent| !kind.has_ended(intent));
            running.extend(at_work.filter_map(|intent| uid_of(intent)));
        }
        let mut found = BTreeMap::new();
        let mut kept = BTreeSet::new();
        for object in observer.list(api::GROUP, "Claim") {
            let Ok(claim) = serde_json::from_value::<Claim>((*object).clone()) else {
                continue;
            };
            let name = claim.metadata.name.clone().unwrap_or_default();
            let namespace = namespace_of(&claim.spec.workload);
            let guests = claim.spec.differences.keys();
            for guest in guests.filter(|uid| !running.contains(*uid)) {
                let candidate = Candidate {
                    claim: name.clone(),
                    namespace: namespace.clone(),
                    guest: Some(guest.clone()),
                };
                found.insert(candidate.key(), candidate);
            }
            // What was lent is looked after by whoever lent it.
            let lender = claim.spec.lender.as_ref();
            if running.contains(&claim.spec.owner.uid)
                || lender.is_some_and(|lender| running.contains(&lender.uid))
            {
                kept.insert(name);
                continue;
            }
            let candidate = Candidate {
                claim: name,
                namespace,
                guest: None,
            };
            found.insert(candidate.key(), candidate);
        }
        for kind in ["OverridePolicy", "ClusterOverridePolicy"] {
            for key in observer.keys("policy.karmada.io", kind) {
                let Some(name) = key.name.strip_prefix(pin::PREFIX) else {
                    continue;
                };
                if !kept.contains(name) {
                    let candidate = Candidate {
                        claim: name.to_owned(),
                        namespace: key.namespace.clone(),
                        guest: None,
                    };
                    found.entry(candidate.key()).or_insert(candidate);
                }
            }
        }
        found.into_values().collect()
    }

    /// Takes down what can be, and tells what can't.
    async fn settle(&self, candidate: &Candidate, gone: &mut BTreeMap<String, Instant>) -> Result<(), Error> {
        for _ in 0..ROUNDS {
            let Some((left, owner)) = self.look(candidate).await else {
                return Ok(());
            };
            let says_nothing = matches!(left.pin.get(), Ok(Some(pin)) if pin::is_blank(pin));
            // A suspension that comes back, as from a backup, finds everything held all the while.
            if owner.starts_with("Suspension ") && !says_nothing {
                let since = gone.entry(candidate.key()).or_insert_with(Instant::now);
                if since.elapsed() < GONE_FOR {
                    return Ok(());
                }
            }
            match Self::judge(candidate, &left) {
                OrphanFate::Done => return Ok(()),
                OrphanFate::Act(effect) => {
                    if let Sent::Stale(why) = execute::send_alone(&self.parts, &effect).await? {
                        tracing::debug!(why, "a precondition failed");
                    } else {
                        tracing::info!(%effect, owner, "swept up after an intent that is gone");
                    }
                }
                OrphanFate::Wait(why) => tracing::debug!(why, owner, "left by an intent that is gone"),
                OrphanFate::Ask { why, todo } => {
                    self.tell(&left, &owner, &why, &todo);
                    return Ok(());
                }
            }
            tokio::time::sleep(SOON).await;
        }
        Ok(())
    }

    /// Of a claim whose owner is gone the guests that are at work have their say first.
    fn judge(candidate: &Candidate, left: &Left) -> OrphanFate {
        if let Some(guest) = &candidate.guest {
            return judge_guest(left, guest);
        }
        match tend(left) {
            Ok(Some(effect)) => return OrphanFate::Act(Box::new(effect)),
            Ok(None) => {}
            Err(unknown) => return OrphanFate::Wait(unknown.0),
        }
        let claim = left.claim.get().ok().and_then(Option::as_ref);
        if claim.is_some_and(|claim| !claim.spec.differences.is_empty()) {
            return OrphanFate::Wait("its guests to end".to_owned());
        }
        judge(left)
    }

    /// Reads everything around a candidate; `None` when nothing is left of it or its owner may still be at work.
    ///
    /// The owner is read last: a new intent that takes the claim over meanwhile is seen then.
    async fn look(&self, candidate: &Candidate) -> Option<(Left, String)> {
        let cluster = &self.parts.cluster;
        let wide = candidate.namespace.is_none();
        let namespace = candidate.namespace.as_deref();
        let claim: Seen<Option<Claim>> = ask::get(
            cluster,
            Gvk::new(api::API_VERSION, "Claim"),
            None,
            &candidate.claim,
        )
        .await;
        let policies =
            ask::list::<ClusterOverridePolicy>(cluster, OVERRIDES, "ClusterOverridePolicy", None, None);
        let cluster_wide = policies.await;
        let namespaced: Seen<Vec<OverridePolicy>> = match namespace {
            Some(_) => ask::list(cluster, OVERRIDES, "OverridePolicy", namespace, None).await,
            None => Seen::known(Vec::new(), cluster_wide.read().ok()?.1),
        };
        let (wide_ones, wide_read) = cluster_wide.read().ok()?;
        let (narrow_ones, narrow_read) = namespaced.read().ok()?;
        let all = Overrides {
            cluster_wide: wide_ones.clone().into(),
            namespaced: narrow_ones.clone().into(),
            ..Overrides::default()
        };
        let name = format!("{}{}", pin::PREFIX, candidate.claim);
        let named = |policy: &&OverridePolicy| policy.metadata.name.as_deref() == Some(&name);
        let pin = if wide {
            let mut ones = all.cluster_wide.iter().cloned().map(OverridePolicy::from);
            ones.find(|policy| named(&policy))
        } else {
            all.namespaced.iter().find(named).cloned()
        };
        let (known_claim, claim_read) = claim.read().ok()?;
        let owner = match &candidate.guest {
            Some(uid) => self.guest(known_claim.as_ref(), uid).await?,
            None => self.owner(known_claim.as_ref(), pin.as_ref()).await?,
        };
        let id = match (known_claim, &pin) {
            (Some(claim), _) => Some(claim.spec.binding_id.clone()),
            (None, Some(pin)) => self.binding_id(pin, wide).await?,
            (None, None) => None,
        };
        let (binding, works) = match &id {
            Some(id) => self.binding_and_works(id, wide).await,
            None => (
                Seen::known(None, claim_read),
                Seen::known(BTreeMap::new(), claim_read),
            ),
        };
        let selector = pin.as_ref().and_then(|pin| pin.spec.resource_selectors.first());
        let (template, ignored) = match selector {
            Some(selector) => {
                let gvk = Gvk::new(&selector.api_version, &selector.kind);
                let template = ask::get(cluster, gvk.clone(), namespace, &selector.name).await;
                (template, self.ignored(&gvk).await)
            }
            None => (Seen::known(None, claim_read), Vec::new()),
        };
        let clusters: Seen<Vec<Cluster>> =
            ask::list(cluster, "cluster.karmada.io/v1alpha1", "Cluster", None, None).await;
        let left = Left {
            policy_says: self.policy_says(&binding, &template).await,
            pin: Seen::known(pin, if wide { wide_read } else { narrow_read }),
            overrides: Seen::known(all, narrow_read),
            clusters: ask::map(&clusters, |all| {
                let named =
                    |cluster: &Cluster| ClusterName::new(cluster.metadata.name.clone().unwrap_or_default());
                all.iter()
                    .map(|cluster| (named(cluster), cluster.clone()))
                    .collect()
            }),
            claim,
            template,
            binding,
            works,
            ignored,
        };
        Some((left, owner))
    }

    /// Returns whose it was; `None` unless that intent is certainly gone, or has ended.
    async fn owner(&self, claim: Option<&Claim>, pin: Option<&OverridePolicy>) -> Option<String> {
        let uid_of_pin = pin.and_then(|pin| pin.metadata.labels.as_ref()?.get(pin::OWNER_LABEL).cloned());
        let lender = claim.and_then(|claim| claim.spec.lender.as_ref());
        let uids: Vec<String> = claim
            .map(|claim| claim.spec.owner.uid.clone())
            .into_iter()
            .chain(lender.map(|lender| lender.uid.clone()))
            .chain(uid_of_pin)
            .collect();
        let at_work = self.is_at_work(&uids).await?;
        if uids.is_empty() || at_work {
            return None;
        }
        let named = pin.and_then(|pin| {
            pin.metadata
                .annotations
                .as_ref()?
                .get(pin::OWNER_ANNOTATION)
                .cloned()
        });
        Some(match claim {
            Some(claim) => claim.spec.owner.to_string(),
            None => named.unwrap_or_else(|| "an intent".to_owned()),
        })
    }

    /// Returns which guest of a claim it was; `None` unless that intent is certainly gone, or has ended.
    async fn guest(&self, claim: Option<&Claim>, uid: &String) -> Option<String> {
        let said = claim?.spec.differences.get(uid)?;
        let at_work = self.is_at_work(std::slice::from_ref(uid)).await?;
        (!at_work).then(|| said.owner.to_string())
    }

    /// Returns whether an intent with one of these uids has not ended; `None` when that isn't known.
    async fn is_at_work(&self, uids: &[String]) -> Option<bool> {
        for kind in claiming() {
            let gvk = Gvk::new(api::API_VERSION, kind.name);
            if let Lookup::NotServed = self.parts.cluster.lookup(&gvk).await.ok()? {
                continue;
            }
            let intents: Seen<Vec<Value>> =
                ask::list(&self.parts.cluster, api::API_VERSION, kind.name, None, None).await;
            let is_meant = |intent: &&Value| uid_of(intent).is_some_and(|uid| uids.contains(&uid));
            if intents
                .get()
                .ok()?
                .iter()
                .filter(is_meant)
                .any(|intent| !kind.has_ended(intent))
            {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Returns the id of the binding of what a pin is about, if it has one; `None` when that isn't known.
    async fn binding_id(&self, pin: &OverridePolicy, wide: bool) -> Option<Option<String>> {
        let Some(selector) = pin.spec.resource_selectors.first() else {
            return Some(None);
        };
        let kind = meta::scoped_kind("ResourceBinding", wide);
        let binding: Seen<Option<ResourceBinding>> = ask::get(
            &self.parts.cluster,
            Gvk::new("work.karmada.io/v1alpha2", &kind),
            pin.metadata.namespace.as_deref(),
            &meta::binding_name(&selector.name, &selector.kind),
        )
        .await;
        let Some(binding) = binding.get().ok()? else {
            return Some(None);
        };
        let labels = binding.metadata.labels.as_ref()?;
        labels.get(meta::binding_id_label(wide)).cloned().map(Some)
    }

    async fn binding_and_works(
        &self,
        id: &str,
        wide: bool,
    ) -> (Seen<Option<ResourceBinding>>, Seen<BTreeMap<ClusterName, Work>>) {
        let cluster = &self.parts.cluster;
        let selector = format!("{}={id}", meta::binding_id_label(wide));
        let kind = meta::scoped_kind("ResourceBinding", wide);
        let bindings: Seen<Vec<ResourceBinding>> =
            ask::list(cluster, "work.karmada.io/v1alpha2", &kind, None, Some(&selector)).await;
        let works: Seen<Vec<Work>> =
            ask::list(cluster, "work.karmada.io/v1alpha1", "Work", None, Some(&selector)).await;
        (
            ask::map(&bindings, |all| all.first().cloned()),
            by_cluster(&works),
        )
    }

    /// Returns what the policy of a workload says of conflicts, where its binding says Overwrite.
    async fn policy_says(
        &self,
        binding: &Seen<Option<ResourceBinding>>,
        template: &Seen<Option<Value>>,
    ) -> Seen<String> {
        let (binding, read) = match binding.read() {
            Ok((Some(binding), read)) if overwrites(binding) => (binding, read),
            Ok((_, read)) => return Seen::known(String::new(), read),
            Err(why) => return Seen::unknown(why.0),
        };
        let of_template = template.get().ok().and_then(Option::as_ref).and_then(claimed_by);
        let name = of_template.or_else(|| claimed_by(&json!({"metadata": binding.metadata})));
        let Some(name) = name else {
            return Seen::known(String::new(), read);
        };
        let policy = policy(&self.parts.cluster, &name).await;
        ask::map(&policy, |policy| {
            policy
                .as_ref()
                .map(|policy| policy.spec.conflict_resolution.clone())
                .unwrap_or_default()
        })
    }

    async fn ignored(&self, gvk: &Gvk) -> Vec<String> {
        let given: Seen<Vec<WorkloadProfile>> = ask::list(
            &self.parts.cluster,
            api::API_VERSION,
            "WorkloadProfile",
            None,
            None,
        )
        .await;
        let Ok(given) = given.get() else {
            return Vec::new();
        };
        let found = profile::find(given, None, gvk).ok().flatten();
        found.map_or_else(Vec::new, |profile| profile.spec.ignored_on_removal)
    }

    fn tell(&self, left: &Left, owner: &str, why: &str, todo: &str) {
        tracing::warn!(owner, why, todo, "left by an intent that is gone");
        let about = if let Ok(Some(pin)) = left.pin.get() {
            let meta = &pin.metadata;
            let kind = meta::scoped_kind("OverridePolicy", meta.namespace.is_none());
            about(OVERRIDES, &kind, meta)
        } else if let Ok(Some(claim)) = left.claim.get() {
            about(api::API_VERSION, "Claim", &claim.metadata)
        } else {
            return;
        };
        let events = EventRecord {
            warning: true,
            reason: "LeftBehind".to_owned(),
            note: format!("left by {owner}, which is gone or has ended: {why}; {todo}"),
        };
        self.events.tell_about(about, events, (self.parts.clock)());
    }

    /// Removes canaries of which no running intent's journal speaks. They are listed before the journals are read: one that
    /// is made later isn't in the list.
    async fn canaries(&self) -> Result<(), Error> {
        // One that is made late, while it is swept, can be left with either half.
        let (policies, configs) = tokio::join!(
            self.canaries_of(OVERRIDES, "PropagationPolicy"),
            self.canaries_of("v1", "ConfigMap"),
        );
        let names: BTreeSet<String> = policies.into_iter().chain(configs).collect();
        if names.is_empty() {
            return Ok(());
        }
        let mut needed = BTreeSet::new();
        for kind in claiming() {
            let gvk = Gvk::new(api::API_VERSION, kind.name);
            if let Lookup::NotServed = self.parts.cluster.lookup(&gvk).await? {
                continue;
            }
            let intents: Seen<Vec<Value>> =
                ask::list(&self.parts.cluster, api::API_VERSION, kind.name, None, None).await;
            let Ok(intents) = intents.get() else {
                return Ok(());
            };
            let at_work = intents.iter().filter(|intent| !kind.has_ended(intent));
            needed.extend(at_work.filter_map(canary_of));
        }
        for name in names.difference(&needed) {
            let effect = Effect::DeleteCanary { name: name.clone() };
            execute::send_alone(&self.parts, &effect).await?;
        }
        Ok(())
    }

    /// What can't be listed is left to a later sweep.
    async fn canaries_of(&self, api_version: &str, kind: &str) -> Vec<String> {
        let all: Seen<Vec<Value>> = ask::list(
            &self.parts.cluster,
            api_version,
            kind,
            Some(api::OWN_NAMESPACE),
            None,
        )
        .await;
        let all = all.get().into_iter().flatten();
        let names = all.filter_map(|one| one["metadata"]["name"].as_str());
        let canaries = names.filter(|name| name.starts_with("canary-"));
        canaries.map(str::to_owned).collect()
    }
}

/// Every kind that waits for canaries keeps their number in its journal in the same place.
fn canary_of(intent: &Value) -> Option<String> {
    let number = |pointer: &str| u32::try_from(intent.pointer(pointer)?.as_u64()?).ok();
    let (canary, attempt) = (
        number("/status/journal/fence/canary")?,
        // A plan guards for as long as it stands: it counts rounds.
        number("/status/journal/round").or_else(|| number("/status/attempt"))?,
    );
    Some(canary_name(&uid_of(intent)?, attempt, canary))
}

fn uid_of(intent: &Value) -> Option<String> {
    intent["metadata"]["uid"].as_str().map(str::to_owned)
}

/// Reads the namespace from what a claim says of its workload: `<kind>.<group> <namespace>/<name>`.
fn namespace_of(workload: &str) -> Option<String> {
    let (_, place) = workload.split_once(' ')?;
    place.split_once('/').map(|(namespace, _)| namespace.to_owned())
}

fn about(api_version: &str, kind: &str, meta: &kube::api::ObjectMeta) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "namespace": meta.namespace, "name": meta.name, "uid": meta.uid,
    })
}
