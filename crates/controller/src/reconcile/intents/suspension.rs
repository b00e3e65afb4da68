//! Suspensions, as the loop carries them out.

mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::around::Around;
use super::ask::{get, list, map};
use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::policies::{claimed_by, policy};
use super::{Parts, leases, served, wake};
use cutover_core::api::{
    self, Claim, LeaseSeen, PolicyName, Suspension, SuspensionPhase as Phase, SuspensionSpec,
    SuspensionStatus, claim_name,
};
use cutover_core::error::Error;
use cutover_core::intent::control_plane::Named;
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::pin::OWNER_LABEL;
use cutover_core::intent::suspension::{self, Contest, Snapshot, binding_id, carries, covered, workload};
use cutover_core::intent::{self, ControlPlane, Effect, Needs, Seen, Step, pin};
use cutover_core::report::{self, EventRecord};
use cutover_karmada::name::{ClusterName, ObjectKey};
use cutover_karmada::{Cluster, ClusterResourceBinding, PropagationPolicy, ResourceBinding, Work, meta};

const BINDINGS: &str = "work.karmada.io/v1alpha2";

/// How often members and templates are looked at while nothing goes out.
const LOOK: Duration = Duration::from_secs(10);
/// How often at most, while templates change.
const APART: Duration = Duration::from_secs(1);
/// How many copies are looked at so often.
const AT_EASE: usize = 20;

#[derive(Debug, Default)]
pub(super) struct SuspensionController {
    /// When members and templates were looked at last.
    looked: Option<Instant>,
    /// The Works as they were then, by their versions.
    works: BTreeMap<ObjectKey, Option<String>>,
    contest: Contest,
}

impl Kind for SuspensionController {
    type Intent = Suspension;
    type Spec = SuspensionSpec;
    type Status = SuspensionStatus;
    type Snapshot = Snapshot;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &Suspension,
        status: &SuspensionStatus,
        _sent: bool,
    ) -> Snapshot {
        if status.phase.is_terminal() {
            return nothing("the intent has ended");
        }
        let look = Reader {
            parts,
            intent,
            status,
        };
        let mut snapshot = Box::pin(look.control_plane()).await;
        let ending = status
            .journal
            .as_ref()
            .and_then(|journal| journal.ending.as_ref());
        let due = match status.phase {
            Phase::Suspended => self.is_due(parts),
            Phase::Resuming => ending.is_some_and(|ending| !ending.listed),
            _ => false,
        };
        if due {
            if snapshot.works.get().is_err() {
                snapshot.works = look.works(&snapshot).await;
            }
            snapshot.copies = look.copies(&snapshot).await;
            for (key, template) in look.templates(&snapshot).await {
                self.contest.look(&key, &template);
            }
            self.looked = Some(Instant::now());
            let works = snapshot.works.get().into_iter().flat_map(BTreeMap::values);
            let works = works.map(|work| (key_of(work), None)).collect();
            self.works = versions(parts, &works);
        }
        snapshot.contested = self.contest.found();
        snapshot.watched = self.works.keys().cloned().collect();
        snapshot
    }

    fn watched_keys(intent: &Suspension, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
        let mut keys = BTreeSet::new();
        let status = intent.status.as_ref();
        let phase = status.map_or(Phase::Pending, |status| status.phase);
        if phase.is_terminal() {
            return keys;
        }
        if let Ok(Some(name)) = snapshot.name.get() {
            keys.insert(ObjectKey {
                group: "policy.karmada.io".to_owned(),
                kind: name.kind().name().to_owned(),
                namespace: name.namespace.clone(),
                name: name.name.clone(),
            });
        }
        // While it is in force by the policy, what happens to the bindings is none of its business.
        let follows = phase != Phase::Suspended || intent.spec_in_force().scope.scheduling();
        for binding in snapshot.bindings.get().into_iter().flatten() {
            let about = workload(&binding.spec.resource);
            keys.insert(ObjectKey {
                group: api::GROUP.to_owned(),
                kind: "Claim".to_owned(),
                namespace: None,
                name: claim_name(&about),
            });
            if follows {
                let namespace = binding.metadata.namespace.clone();
                keys.insert(ObjectKey {
                    group: "work.karmada.io".to_owned(),
                    kind: meta::scoped_kind("ResourceBinding", namespace.is_none()),
                    namespace,
                    name: binding.metadata.name.clone().unwrap_or_default(),
                });
            }
        }
        if let Some(pin) = snapshot
            .pin_context
            .as_ref()
            .and_then(|_| pin_key(intent, snapshot))
        {
            keys.insert(pin);
        }
        let canary = status.and_then(|status| canary(intent, status));
        keys.extend(canary.map(|name| wake::canary_binding(&name)));
        if phase == Phase::Suspended {
            keys.extend(snapshot.watched.iter().cloned());
        } else {
            keys.extend(
                snapshot
                    .works
                    .get()
                    .into_iter()
                    .flat_map(BTreeMap::values)
                    .map(key_of),
            );
        }
        keys
    }

    /// With each change of a template its Works change: what goes on in the members is looked at now and then.
    fn patience(status: &SuspensionStatus, changed: &ObjectKey) -> Duration {
        if status.phase == Phase::Suspended && changed.kind == "Work" {
            APART
        } else {
            Duration::ZERO
        }
    }

    fn step(input: &Input<'_, Self>) -> Step<SuspensionStatus> {
        suspension::step(input)
    }

    async fn send(parts: &Parts, intent: &Suspension, effect: &Effect) -> Result<Sent, Error> {
        execute::send_plain(parts, intent, effect).await
    }

    fn events(before: &Suspension, after: &SuspensionStatus) -> Vec<EventRecord> {
        report::suspension_events(before, after)
    }
}

impl SuspensionController {
    /// Members can't be watched: they are looked at now and then, and soon after a Work has changed.
    fn is_due(&self, parts: &Parts) -> bool {
        let Some(since) = self.looked.map(|at| at.elapsed()) else {
            return true;
        };
        let apart = APART * (1 + u32::try_from(self.works.len() / AT_EASE).unwrap_or(u32::MAX));
        since >= LOOK || (since >= apart && self.works != versions(parts, &self.works))
    }
}

fn nothing(why: &str) -> Snapshot {
    Snapshot {
        name: Seen::unread(why),
        policy: Seen::unread(why),
        bindings: Seen::unread(why),
        works: Seen::unread(why),
        claims: Seen::unread(why),
        clusters: Seen::unread(why),
        suspensions: Seen::unread(why),
        copies: None,
        contested: Vec::new(),
        watched: Vec::new(),
        author: None,
        parent: None,
        canary: Seen::unread(why),
        leases: Seen::unread(why),
        pin_context: None,
    }
}

struct Reader<'a> {
    parts: &'a Parts,
    intent: &'a Suspension,
    status: &'a SuspensionStatus,
}

impl Reader<'_> {
    /// The policy, and with it its bindings, before everything else: see [`Snapshot`].
    async fn control_plane(&self) -> Snapshot {
        let mut snapshot = nothing("it depends on the policy");
        snapshot.author = self.author().await;
        let labels = self.intent.metadata.labels.as_ref();
        snapshot.parent = labels.and_then(|labels| labels.get(OWNER_LABEL).cloned());
        let now = self.policy_name().await;
        let journal = self.status.journal.as_ref();
        let name = match (journal, now.get()) {
            (Some(journal), _) => Some(journal.policy.clone()),
            (None, Ok(name)) => name.clone(),
            (None, Err(_)) => None,
        };
        snapshot.name = now;
        let Some(name) = name else {
            return snapshot;
        };
        snapshot.policy = policy(&self.parts.cluster, &name).await;
        // A pin is seen before the Works that carry its marker.
        snapshot.pin_context = Box::pin(self.pin_context(&snapshot.policy)).await;
        let (bindings, claims, clusters, suspensions, fence) = tokio::join!(
            self.bindings(&name, &snapshot.policy),
            self.list::<Claim>(api::API_VERSION, "Claim", None, None),
            self.clusters(),
            self.suspensions(),
            self.fence(),
        );
        (snapshot.canary, snapshot.leases) = fence;
        snapshot.bindings = map(&bindings, |all| self.meant(all));
        snapshot.claims = claims;
        snapshot.clusters = clusters;
        snapshot.suspensions = suspensions;
        // While it is in force by a policy, only a look at the members asks for them.
        let by_pin = journal.is_some_and(|journal| journal.pin.is_some());
        if matches!(self.status.phase, Phase::Suspending | Phase::Resuming) || by_pin {
            snapshot.works = self.works(&snapshot).await;
        }
        snapshot
    }

    /// What a workload target stands for is seen in what Karmada notes on its template.
    async fn policy_name(&self) -> Seen<Option<PolicyName>> {
        let spec = self.intent.spec_in_force();
        let namespace = self.intent.metadata.namespace.clone();
        if let Some(policy) = &spec.target.policy {
            let name = PolicyName {
                namespace: namespace.filter(|_| policy.kind == api::PolicyKind::PropagationPolicy),
                name: policy.name.clone(),
            };
            return Seen::known(Some(name), self.instant());
        }
        let Some(workload) = &spec.target.workload else {
            return Seen::unknown("spec.target names neither a policy nor a workload");
        };
        let served = match served(&self.parts.cluster, &workload.gvk()).await {
            Ok(served) => served,
            Err(error) => return Seen::unknown(error.to_string()),
        };
        let namespace = namespace.as_deref().filter(|_| served.namespaced);
        let template: Seen<Option<Value>> =
            get(&self.parts.cluster, workload.gvk(), namespace, &workload.name).await;
        map(&template, |template| template.as_ref().and_then(claimed_by))
    }

    /// Bindings carry the id of the policy that made them.
    async fn bindings(
        &self,
        name: &PolicyName,
        policy: &Seen<Option<PropagationPolicy>>,
    ) -> Seen<Vec<ResourceBinding>> {
        let policy = match policy.get() {
            Ok(Some(policy)) => policy,
            // Whose bindings they were, nothing says any more.
            Ok(None) => return Seen::known(Vec::new(), self.instant()),
            Err(why) => return Seen::unknown(why.0),
        };
        let wide = name.namespace.is_none();
        let label = if wide {
            meta::CLUSTER_POLICY_ID
        } else {
            meta::POLICY_ID
        };
        let labels = policy.metadata.labels.as_ref();
        let Some(id) = labels.and_then(|labels| labels.get(label)) else {
            return Seen::unknown(format!("Karmada has not seen {name} yet"));
        };
        let selector = format!("{label}={id}");
        let namespace = name.namespace.as_deref();
        let namespaced = self
            .list::<ResourceBinding>(BINDINGS, "ResourceBinding", namespace, Some(&selector))
            .await;
        if !wide {
            return namespaced;
        }
        let others = self
            .list::<ClusterResourceBinding>(BINDINGS, "ClusterResourceBinding", None, Some(&selector))
            .await;
        match (namespaced, others.get()) {
            (Seen::Known { mut value, read }, Ok(others)) => {
                value.extend(others.iter().cloned().map(ResourceBinding::from));
                Seen::known(value, read)
            }
            (Seen::Unknown { why }, _) => Seen::unknown(why),
            (_, Err(why)) => Seen::unknown(why.0),
        }
    }

    /// One list a cluster, however many workloads the policy has.
    async fn works(&self, snapshot: &Snapshot) -> Seen<BTreeMap<(String, ClusterName), Work>> {
        let Ok(bindings) = snapshot.bindings.get() else {
            return Seen::unknown("the bindings are not known");
        };
        let spec = self.intent.spec_in_force();
        let ids: BTreeSet<&str> = bindings.iter().filter_map(binding_id).collect();
        let clusters: BTreeSet<ClusterName> = bindings
            .iter()
            .flat_map(|binding| covered(spec, binding))
            .collect();
        let read = clusters.into_iter().map(async |cluster| {
            let namespace = meta::execution_namespace(cluster.as_str());
            let works = self
                .list::<Work>("work.karmada.io/v1alpha1", "Work", Some(&namespace), None)
                .await;
            (cluster, works)
        });
        let mut all = BTreeMap::new();
        for (cluster, works) in join_all(read).await {
            match works {
                Seen::Known { value, .. } => {
                    for work in value {
                        let labels = work.metadata.labels.iter().flatten();
                        let id = labels
                            .filter(|(label, _)| {
                                [meta::BINDING_ID, meta::CLUSTER_BINDING_ID].contains(&label.as_str())
                            })
                            .find(|(_, id)| ids.contains(id.as_str()))
                            .map(|(_, id)| id.clone());
                        if let Some(id) = id {
                            all.insert((id, cluster.clone()), work);
                        }
                    }
                }
                Seen::Unknown { why } => return Seen::unknown(why),
            }
        }
        Seen::known(all, self.instant())
    }

    /// A workload is suspended alone, whatever else its policy has.
    fn meant(&self, all: &[ResourceBinding]) -> Vec<ResourceBinding> {
        let spec = self.intent.spec_in_force();
        let is_meant = |binding: &&ResourceBinding| {
            let resource = &binding.spec.resource;
            spec.target.workload.as_ref().is_none_or(|workload| {
                (&resource.api_version, &resource.kind, &resource.name)
                    == (&workload.api_version, &workload.kind, &workload.name)
            })
        };
        all.iter().filter(is_meant).cloned().collect()
    }

    /// Read where a pin carries it, or may have to.
    async fn pin_context(&self, policy: &Seen<Option<PropagationPolicy>>) -> Option<ControlPlane> {
        let spec = self.intent.spec_in_force();
        let target = spec.target.workload.as_ref()?;
        let wanted = match &self.status.journal {
            Some(journal) => journal.pin.is_some(),
            None => {
                let policy = policy.get().ok().and_then(Option::as_ref);
                spec.scope.dispatching() && policy.is_some_and(|policy| !carries(policy, target))
            }
        };
        if !wanted {
            return None;
        }
        let (gvk, key) = (target.gvk(), self.pinned().await?);
        let around = Around {
            parts: self.parts,
            workload: &key,
            gvk: &gvk,
        };
        let needs = Needs::TEMPLATE | Needs::OVERRIDES | Needs::CLUSTERS;
        Some(around.plane(needs, Named::default()).await)
    }

    async fn pinned(&self) -> Option<ObjectKey> {
        let target = self.intent.spec_in_force().target.workload.as_ref()?;
        let served = served(&self.parts.cluster, &target.gvk()).await.ok()?;
        let namespace = self.intent.metadata.namespace.as_deref();
        Some(target.key(namespace.filter(|_| served.namespaced)))
    }

    /// Asked for where scheduling is suspended.
    async fn fence(&self) -> (Seen<Option<ResourceBinding>>, Seen<BTreeMap<String, LeaseSeen>>) {
        let unread = "not read in this phase";
        match canary(self.intent, self.status) {
            Some(name) => {
                let canary = self.parts.canaries.look(self.parts, &name);
                tokio::join!(canary, leases::leases(self.parts))
            }
            None => (Seen::unknown(unread), Seen::unknown(unread)),
        }
    }

    async fn clusters(&self) -> Seen<BTreeSet<ClusterName>> {
        let for_canary = canary(self.intent, self.status).is_some();
        if self.status.phase != Phase::Pending && !for_canary {
            return Seen::unknown("not read in this phase");
        }
        let clusters = self
            .list::<Cluster>("cluster.karmada.io/v1alpha1", "Cluster", None, None)
            .await;
        let named = |cluster: &Cluster| cluster.metadata.name.clone().map(ClusterName::new);
        map(&clusters, |all| all.iter().filter_map(named).collect())
    }

    async fn suspensions(&self) -> Seen<BTreeSet<String>> {
        let all = self
            .list::<kube::core::PartialObjectMeta<Suspension>>(api::API_VERSION, "Suspension", None, None)
            .await;
        map(&all, |all| {
            all.iter().filter_map(|one| one.metadata.uid.clone()).collect()
        })
    }

    /// Asked once: it costs a walk through history.
    async fn author(&self) -> Option<String> {
        if self.status.by.is_some() || self.status.phase != Phase::Pending {
            return None;
        }
        let meta = &self.intent.metadata;
        let key = ObjectKey {
            group: api::GROUP.to_owned(),
            kind: "Suspension".to_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone()?,
        };
        let file = self.parts.templates.file(&key)?;
        let revision = self.parts.templates.revision()?;
        self.parts.records.author(&file, &revision).await
    }

    async fn list<T: serde::de::DeserializeOwned>(
        &self,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
        selector: Option<&str>,
    ) -> Seen<Vec<T>> {
        list(&self.parts.cluster, api_version, kind, namespace, selector).await
    }

    fn instant(&self) -> intent::Read {
        super::ask::instant(&self.parts.cluster)
    }
}

fn key_of(work: &Work) -> ObjectKey {
    ObjectKey {
        group: "work.karmada.io".to_owned(),
        kind: "Work".to_owned(),
        namespace: work.metadata.namespace.clone(),
        name: work.metadata.name.clone().unwrap_or_default(),
    }
}

fn versions(
    parts: &Parts,
    works: &BTreeMap<ObjectKey, Option<String>>,
) -> BTreeMap<ObjectKey, Option<String>> {
    let version = |key: &ObjectKey| (key.clone(), parts.observer.version(key));
    works.keys().map(version).collect()
}

fn pin_key(intent: &Suspension, snapshot: &Snapshot) -> Option<ObjectKey> {
    let binding = snapshot.bindings.get().ok()?.first()?;
    intent.spec_in_force().target.workload.as_ref()?;
    let namespace = binding.metadata.namespace.clone();
    Some(ObjectKey {
        group: "policy.karmada.io".to_owned(),
        kind: meta::scoped_kind("OverridePolicy", namespace.is_none()),
        namespace,
        name: pin::name(&workload(&binding.spec.resource)),
    })
}

/// Returns the name of the canary that a suspension of scheduling waits for, or has to take down.
fn canary(intent: &Suspension, status: &SuspensionStatus) -> Option<String> {
    let journal = status.journal.as_ref()?;
    if !journal.spec.scope.scheduling() || status.phase.is_terminal() {
        return None;
    }
    let uid = intent.metadata.uid.as_deref()?;
    Some(canary_name(uid, status.common.attempt, journal.fence.canary))
}
