//! Suspensions, as the loop carries them out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use super::ask::{get, list, map};
use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::{Parts, served};
use crate::api::{
    self, Claim, PolicyName, Suspension, SuspensionPhase as Phase, SuspensionSpec, SuspensionStatus,
    claim_name,
};
use crate::cluster::Answer;
use crate::error::Error;
use crate::intent::pin::OWNER_LABEL;
use crate::intent::suspension::{self, Contest, Copy, World, binding_id, covered, workload};
use crate::intent::{self, Effect, Seen, Step};
use crate::karmada::{
    Cluster, ClusterPropagationPolicy, ClusterResourceBinding, PropagationPolicy, ResourceBinding, Work, meta,
};
use crate::name::{ClusterName, Gvk, ObjectKey};
use crate::report::{self, Told};

const POLICIES: &str = "policy.karmada.io/v1alpha1";
const BINDINGS: &str = "work.karmada.io/v1alpha2";

/// How often members and templates are looked at while nothing goes out.
const LOOK: Duration = Duration::from_secs(10);
/// How many copies are read in one look.
const COPIES: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Suspending {
    /// When members and templates were looked at last.
    looked: Option<Instant>,
    contest: Contest,
}

impl Kind for Suspending {
    type Intent = Suspension;
    type Spec = SuspensionSpec;
    type Status = SuspensionStatus;
    type World = World;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &Suspension,
        status: &SuspensionStatus,
        _sent: bool,
    ) -> World {
        if status.phase.is_terminal() {
            return nothing("the intent has ended");
        }
        let look = Look {
            parts,
            intent,
            status,
        };
        let mut world = Box::pin(look.control_plane()).await;
        let ending = status
            .journal
            .as_ref()
            .and_then(|journal| journal.ending.as_ref());
        let due = match status.phase {
            Phase::Suspended => self.looked.is_none_or(|at| at.elapsed() >= LOOK),
            Phase::Resuming => ending.is_some_and(|ending| !ending.listed),
            _ => false,
        };
        if due {
            if world.works.get().is_err() {
                world.works = look.works(&world).await;
            }
            world.copies = look.copies(&world).await;
            for (key, template) in look.templates(&world).await {
                self.contest.look(&key, &template);
            }
            self.looked = Some(Instant::now());
        }
        world.contested = self.contest.found();
        world
    }

    fn interest(intent: &Suspension, world: &World) -> BTreeSet<ObjectKey> {
        let mut keys = BTreeSet::new();
        let status = intent.status.as_ref();
        let phase = status.map_or(Phase::Pending, |status| status.phase);
        if phase.is_terminal() {
            return keys;
        }
        if let Ok(Some(name)) = world.name.get() {
            keys.insert(ObjectKey {
                group: "policy.karmada.io".to_owned(),
                kind: name.kind().name().to_owned(),
                namespace: name.namespace.clone(),
                name: name.name.clone(),
            });
        }
        // While it is in force by the policy, what happens to the bindings is none of its business.
        let follows = phase != Phase::Suspended || intent.spec_in_force().scope.scheduling();
        for binding in world.bindings.get().into_iter().flatten() {
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
        if matches!(phase, Phase::Suspending | Phase::Resuming) {
            for work in world.works.get().into_iter().flat_map(BTreeMap::values) {
                keys.insert(ObjectKey {
                    group: "work.karmada.io".to_owned(),
                    kind: "Work".to_owned(),
                    namespace: work.metadata.namespace.clone(),
                    name: work.metadata.name.clone().unwrap_or_default(),
                });
            }
        }
        keys
    }

    fn step(input: &Input<'_, Self>) -> Step<SuspensionStatus> {
        suspension::step(input)
    }

    async fn send(parts: &Parts, intent: &Suspension, effect: &Effect) -> Result<Sent, Error> {
        execute::send_plain(parts, intent, effect).await
    }

    fn told(before: &Suspension, after: &SuspensionStatus) -> Vec<Told> {
        report::suspension_events(before, after)
    }
}

fn nothing(why: &str) -> World {
    fn unread<T>(why: &str) -> Seen<T> {
        Seen::unknown(format!("not read: {why}"))
    }
    World {
        name: unread(why),
        policy: unread(why),
        bindings: unread(why),
        works: unread(why),
        claims: unread(why),
        clusters: unread(why),
        suspensions: unread(why),
        copies: None,
        contested: Vec::new(),
        author: None,
        parent: None,
    }
}

struct Look<'a> {
    parts: &'a Parts,
    intent: &'a Suspension,
    status: &'a SuspensionStatus,
}

impl Look<'_> {
    /// The policy, and with it its bindings, before everything else: see [`World`].
    async fn control_plane(&self) -> World {
        let mut world = nothing("it depends on the policy");
        world.author = self.author().await;
        let labels = self.intent.metadata.labels.as_ref();
        world.parent = labels.and_then(|labels| labels.get(OWNER_LABEL).cloned());
        let now = self.policy_name().await;
        let journal = self.status.journal.as_ref();
        let name = match (journal, now.get()) {
            (Some(journal), _) => Some(journal.policy.clone()),
            (None, Ok(name)) => name.clone(),
            (None, Err(_)) => None,
        };
        world.name = now;
        let Some(name) = name else {
            return world;
        };
        world.policy = self.policy(&name).await;
        let (bindings, claims, clusters, suspensions) = tokio::join!(
            self.bindings(&name, &world.policy),
            self.list::<Claim>(api::API_VERSION, "Claim", None, None),
            self.clusters(),
            self.suspensions(),
        );
        world.bindings = bindings;
        world.claims = claims;
        world.clusters = clusters;
        world.suspensions = suspensions;
        // While it is in force, only a look at the members asks for them.
        if matches!(self.status.phase, Phase::Suspending | Phase::Resuming) {
            world.works = self.works(&world).await;
        }
        world
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

    async fn policy(&self, name: &PolicyName) -> Seen<Option<PropagationPolicy>> {
        let gvk = Gvk::new(POLICIES, name.kind().name());
        let cluster = &self.parts.cluster;
        match &name.namespace {
            Some(namespace) => get(cluster, gvk, Some(namespace), &name.name).await,
            None => {
                let policy: Seen<Option<ClusterPropagationPolicy>> =
                    get(cluster, gvk, None, &name.name).await;
                map(&policy, |policy| policy.clone().map(PropagationPolicy::from))
            }
        }
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
    async fn works(&self, world: &World) -> Seen<BTreeMap<(String, ClusterName), Work>> {
        let Ok(bindings) = world.bindings.get() else {
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

    async fn clusters(&self) -> Seen<BTreeSet<ClusterName>> {
        if self.status.phase != Phase::Pending {
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

    /// Reads every copy that is kept back, as far as there are not too many.
    async fn copies(&self, world: &World) -> Option<Vec<Copy>> {
        let spec = self.intent.spec_in_force();
        let (bindings, works) = (world.bindings.get().ok()?, world.works.get().ok()?);
        let mut wanted = Vec::new();
        for binding in bindings {
            let id = binding_id(binding).unwrap_or_default();
            for cluster in covered(spec, binding) {
                let work = works.get(&(id.to_owned(), cluster.clone()));
                if let Some(manifest) = work.and_then(Work::manifest) {
                    wanted.push((&binding.spec.resource, cluster, manifest.clone()));
                }
            }
        }
        wanted.truncate(COPIES);
        let read = wanted.into_iter().map(async |(resource, cluster, manifest)| {
            let about = workload(resource);
            let gvk = Gvk::new(&resource.api_version, &resource.kind);
            let object = match served(&self.parts.cluster, &gvk).await {
                Ok(served) => {
                    let reader = self.parts.cluster.member(&cluster);
                    let read = reader.get(&served, about.namespace.as_deref(), &about.name).await;
                    match read.answer {
                        Answer::Found(object) => Seen::known(Some(object), self.instant()),
                        Answer::NotFound => Seen::known(None, self.instant()),
                        Answer::Unknown { why } => Seen::unknown(why),
                    }
                }
                Err(error) => Seen::unknown(error.to_string()),
            };
            Copy {
                workload: about,
                cluster,
                manifest,
                object,
            }
        });
        Some(join_all(read).await)
    }

    async fn templates(&self, world: &World) -> Vec<(ObjectKey, Value)> {
        let bindings = world.bindings.get().map_or(&[][..], Vec::as_slice);
        let read = bindings.iter().take(COPIES).map(async |binding| {
            let resource = &binding.spec.resource;
            let about = workload(resource);
            let gvk = Gvk::new(&resource.api_version, &resource.kind);
            let template: Seen<Option<Value>> =
                get(&self.parts.cluster, gvk, about.namespace.as_deref(), &about.name).await;
            Some((about, template.get().ok()?.clone()?))
        });
        join_all(read).await.into_iter().flatten().collect()
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
        let tick = self.parts.cluster.tick();
        intent::Read {
            sent: tick,
            answered: tick,
        }
    }
}

/// Returns the policy that has taken a template up.
pub(super) fn claimed_by(template: &Value) -> Option<PolicyName> {
    let annotations = template.pointer("/metadata/annotations")?;
    let noted = |key: &str| annotations.get(key)?.as_str().map(str::to_owned);
    if let (Some(namespace), Some(name)) = (noted(meta::POLICY_NAMESPACE), noted(meta::POLICY_NAME)) {
        return Some(PolicyName {
            namespace: Some(namespace),
            name,
        });
    }
    let name = noted(meta::CLUSTER_POLICY_NAME)?;
    Some(PolicyName {
        namespace: None,
        name,
    })
}
