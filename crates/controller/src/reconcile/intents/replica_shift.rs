//! `ReplicaShift`s, as the loop carries them out. The control plane is read before any member: what is counted there is newer
//! than the pin that it is compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join, join_all, join3};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use super::ask::{all, by_cluster, get, list, map, optional, versions};
use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::policies::{claimed_by, policy};
use super::{Parts, canaries, leases, other_managers, scalers, served};
use cutover_core::api::{
    self, Barrier, Claim, Guard, ReplicaShift, ReplicaShiftSpec, ReplicaShiftStatus, ShiftPhase as Phase,
    Suspension, claim_name,
};
use cutover_core::error::Error;
use cutover_core::intent::admission::{self, Outcome};
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::scalers::Scaler;
use cutover_core::intent::shift::{self, Snapshot, replicas_of, suspension_name};
use cutover_core::intent::snapshot::Overrides;
use cutover_core::intent::{self, Effect, Seen, Step, pin};
use cutover_core::report::{self, EventRecord};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{self as karmada, OverridePolicy, PropagationPolicy, ResourceBinding, Work, meta};

const POLICIES: &str = "policy.karmada.io/v1alpha1";

/// How often the admission fence is tried anew that stands in for a canary.
const TRIED_AGAIN: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct ReplicaShiftController {
    scalers: scalers::Known,
    /// When the admission fence was tried last.
    tested: Option<Instant>,
}

impl Kind for ReplicaShiftController {
    type Intent = ReplicaShift;
    type Spec = ReplicaShiftSpec;
    type Status = ReplicaShiftStatus;
    type Snapshot = Snapshot;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &ReplicaShift,
        status: &ReplicaShiftStatus,
        sent: bool,
    ) -> Snapshot {
        let namespace = intent.metadata.namespace.clone();
        let spec = status.spec_in_force(&intent.spec);
        let workload = spec.workload.key(namespace.as_deref());
        if status.phase.is_terminal() && !sent {
            return nothing(workload, "the intent has ended");
        }
        let look = Reader {
            parts,
            intent,
            spec,
            status,
            workload,
        };
        if status.phase == Phase::Pending {
            return Snapshot {
                claim: look.claim().await,
                ..nothing(look.workload.clone(), "the intent has not begun")
            };
        }
        let mut snapshot = Box::pin(look.control_plane()).await;
        if !status.phase.is_terminal() {
            let (members, pods) = join(look.members(&snapshot), look.own_pods(&snapshot)).await;
            snapshot.members = members;
            snapshot.own_pods = pods;
            let known = self.scalers.within(scalers::AGAIN);
            snapshot.autoscalers = match known.filter(|_| status.phase == Phase::Shifting) {
                Some(known) => known,
                None => {
                    let seen = look.autoscalers(&snapshot).await;
                    self.scalers.keep(&seen);
                    seen
                }
            };
            if self.tested.is_none_or(|at| at.elapsed() >= TRIED_AGAIN) {
                snapshot.admission = look.admission(&snapshot).await;
                self.tested = snapshot.admission.as_ref().map(|_| Instant::now());
            }
        }
        snapshot
    }

    fn watched_keys(intent: &ReplicaShift, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
        watched_keys(intent, snapshot)
    }

    fn step(input: &Input<'_, Self>) -> Step<ReplicaShiftStatus> {
        shift::step(input)
    }

    async fn send(parts: &Parts, intent: &ReplicaShift, effect: &Effect) -> Result<Sent, Error> {
        match effect {
            Effect::PatchTemplate { template, patch } => {
                let kind = intent.spec_in_force().workload.gvk();
                execute::patch_template(parts, &kind, template, patch).await
            }
            other => execute::send_plain(parts, intent, other).await,
        }
    }

    fn events(before: &ReplicaShift, after: &ReplicaShiftStatus) -> Vec<EventRecord> {
        report::shift_events(before, after)
    }
}

fn watched_keys(intent: &ReplicaShift, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
    let status = intent.status.as_ref();
    let phase = status.map(|status| status.phase).unwrap_or_default();
    if phase.is_terminal() {
        return BTreeSet::new();
    }
    let workload = &snapshot.workload;
    let of = |group: &str, kind: &str, namespace: Option<&str>, name: &str| ObjectKey {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: namespace.map(str::to_owned),
        name: name.to_owned(),
    };
    let mut keys = BTreeSet::from([of(api::GROUP, "Claim", None, &claim_name(workload))]);
    if phase == Phase::Pending {
        return keys;
    }
    let namespace = workload.namespace.as_deref();
    let binding = meta::binding_name(&workload.name, &workload.kind);
    let own = intent.metadata.name.clone().unwrap_or_default();
    keys.extend([
        workload.clone(),
        of(
            "policy.karmada.io",
            "OverridePolicy",
            namespace,
            &pin::name(workload),
        ),
        of("work.karmada.io", "ResourceBinding", namespace, &binding),
        of(
            api::GROUP,
            "Suspension",
            intent.metadata.namespace.as_deref(),
            &suspension_name(&own),
        ),
    ]);
    keys.extend(canary(intent).map(|name| canaries::binding(&name)));
    for cluster in snapshot.members.keys() {
        keys.insert(of("cluster.karmada.io", "Cluster", None, cluster.as_str()));
    }
    // Karmada names the Works of a binding alike: one that is yet to come is known by those that are there.
    let works = snapshot.works.get().into_iter().flat_map(BTreeMap::values);
    let names: BTreeSet<&str> = works.filter_map(|work| work.metadata.name.as_deref()).collect();
    for name in names {
        for cluster in snapshot.members.keys() {
            let namespace = meta::execution_namespace(cluster.as_str());
            keys.insert(of("work.karmada.io", "Work", Some(&namespace), name));
        }
    }
    keys
}

/// Returns the name of the canary that a shift waits for, or has to remove.
pub(super) fn canary(intent: &ReplicaShift) -> Option<String> {
    let status = intent.status.as_ref()?;
    let number = status.journal.as_ref()?.fence.canary;
    let uid = intent.metadata.uid.as_deref()?;
    Some(canary_name(uid, status.common.attempt, number))
}

fn nothing(workload: ObjectKey, why: &str) -> Snapshot {
    fn unread<T>(why: &str) -> Seen<T> {
        Seen::unknown(format!("not read: {why}"))
    }
    Snapshot {
        workload,
        template: unread(why),
        other_managers: Vec::new(),
        wanted_in_git: unread(why),
        binding: unread(why),
        works: unread(why),
        policy: unread(why),
        claim: unread(why),
        pin: unread(why),
        overrides: unread(why),
        clusters: unread(why),
        canary: unread(why),
        leases: unread(why),
        profiles: unread(why),
        autoscalers: unread(why),
        members: BTreeMap::new(),
        own_pods: unread(why),
        suspension: unread(why),
        admission: None,
    }
}

struct Reader<'a> {
    parts: &'a Parts,
    intent: &'a ReplicaShift,
    spec: &'a ReplicaShiftSpec,
    status: &'a ReplicaShiftStatus,
    workload: ObjectKey,
}

impl Reader<'_> {
    /// All at once, but for what depends on an answer.
    async fn control_plane(&self) -> Snapshot {
        let (template, (binding, works), claim, overrides, clusters, canary, leases, profiles, suspension) = tokio::join!(
            self.get::<Value>(self.spec.workload.gvk(), self.namespace(), &self.workload.name),
            self.binding_and_works(),
            self.claim(),
            self.overrides(),
            self.clusters(),
            self.canary(),
            leases::leases(self.parts),
            self.list(api::API_VERSION, "WorkloadProfile", None, None),
            self.suspension(),
        );
        let name = pin::name(&self.workload);
        let pin = map(&overrides, |all: &Overrides| {
            let mut policies = all.namespaced.iter();
            policies
                .find(|policy| policy.metadata.name.as_deref() == Some(&name))
                .cloned()
        });
        // Only where the template itself is changed could somebody undo the shift.
        let other_managers = match self.status.phase {
            Phase::Preflight if self.spec.from.control_plane => {
                other_managers::look(&self.parts.cluster, &template).await
            }
            _ => Vec::new(),
        };
        Snapshot {
            other_managers,
            wanted_in_git: self.wanted_in_git(),
            policy: self.policy(&template).await,
            template,
            binding,
            works,
            claim,
            pin,
            overrides,
            clusters,
            canary,
            leases,
            profiles,
            suspension,
            ..nothing(self.workload.clone(), "no member was read")
        }
    }

    fn namespace(&self) -> Option<&str> {
        self.workload.namespace.as_deref()
    }

    async fn claim(&self) -> Seen<Option<Claim>> {
        let gvk = Gvk::new(api::API_VERSION, "Claim");
        self.get(gvk, None, &claim_name(&self.workload)).await
    }

    /// The Works are read after the binding: a cluster that it had just lost still has one.
    async fn binding_and_works(&self) -> (Seen<Option<ResourceBinding>>, Seen<BTreeMap<ClusterName, Work>>) {
        let journaled = self.status.journal_in_force().map(|journal| &journal.binding);
        let name = journaled.map_or_else(
            || meta::binding_name(&self.workload.name, &self.workload.kind),
            |binding| binding.name.clone(),
        );
        let gvk = Gvk::new("work.karmada.io/v1alpha2", "ResourceBinding");
        let binding: Seen<Option<ResourceBinding>> = self.get(gvk, self.namespace(), &name).await;
        let labelled = binding.get().ok().and_then(Option::as_ref).and_then(|binding| {
            let labels = binding.metadata.labels.as_ref()?;
            labels.get(meta::BINDING_ID).cloned()
        });
        let works = match journaled.map(|binding| binding.id.clone()).or(labelled) {
            Some(id) => {
                let selector = format!("{}={id}", meta::BINDING_ID);
                let works: Seen<Vec<Work>> = self
                    .list("work.karmada.io/v1alpha1", "Work", None, Some(&selector))
                    .await;
                by_cluster(&works)
            }
            None => Seen::unknown("the binding's id is not known"),
        };
        (binding, works)
    }

    async fn overrides(&self) -> Seen<Overrides> {
        let cluster_wide = self.list(POLICIES, "ClusterOverridePolicy", None, None);
        let namespaced = self.list::<OverridePolicy>(POLICIES, "OverridePolicy", self.namespace(), None);
        let gvk = self.spec.workload.gvk();
        let versions = versions(&self.parts.cluster, &gvk);
        match join3(cluster_wide, namespaced, versions).await {
            (Seen::Known { value: wide, .. }, Seen::Known { value: narrow, read }, Ok(versions)) => {
                Seen::known(
                    Overrides {
                        cluster_wide: Arc::new(wide),
                        namespaced: Arc::new(narrow),
                        versions,
                    },
                    read,
                )
            }
            (Seen::Unknown { why }, _, _) | (_, Seen::Unknown { why }, _) | (_, _, Err(why)) => {
                Seen::unknown(why)
            }
        }
    }

    async fn clusters(&self) -> Seen<Arc<BTreeMap<ClusterName, karmada::Cluster>>> {
        let clusters: Seen<Vec<karmada::Cluster>> = self
            .list("cluster.karmada.io/v1alpha1", "Cluster", None, None)
            .await;
        map(&clusters, |clusters| {
            let named = clusters.iter().map(|cluster| {
                let name = cluster.metadata.name.clone().unwrap_or_default();
                (ClusterName::new(name), cluster.clone())
            });
            Arc::new(named.collect())
        })
    }

    async fn canary(&self) -> Seen<Option<ResourceBinding>> {
        let Some(name) = canary(self.intent) else {
            return Seen::known(None, self.instant());
        };
        self.parts.canaries.look(self.parts, &name).await
    }

    /// Tried where no canary shows the scheduler past the suspension, and under a claim of this intent that lists clusters: that is
    /// what the fence goes by.
    async fn admission(&self, snapshot: &Snapshot) -> Option<Vec<(Guard, Outcome)>> {
        let journal = self.status.journal_in_force()?;
        let fence = &journal.fence;
        let is_past = |barrier: &Barrier| !barrier.canary.is_empty();
        if journal.pin.unpinning || fence.lowered || fence.barrier.as_ref().is_some_and(is_past) {
            return None;
        }
        let (claim, binding) = (
            snapshot.claim.get().ok()?.as_ref()?,
            snapshot.binding.get().ok()?.as_ref()?,
        );
        let uid = self.intent.metadata.uid.as_deref().unwrap_or_default();
        if claim.spec.owner.uid != uid || claim.spec.marker.is_empty() || claim.spec.standing {
            return None;
        }
        let mut probes = admission::probes(
            claim,
            &snapshot.workload,
            &self.spec.workload.api_version,
            binding,
        );
        probes.retain(|probe| probe.guard == Guard::Bindings);
        Some(super::admission::try_out(&self.parts.cluster, probes).await)
    }

    async fn suspension(&self) -> Seen<Option<Suspension>> {
        if self.spec.then.suspend.is_empty() {
            return Seen::known(None, self.instant());
        }
        let name = suspension_name(self.intent.metadata.name.as_deref().unwrap_or_default());
        let gvk = Gvk::new(api::API_VERSION, "Suspension");
        self.get(gvk, self.intent.metadata.namespace.as_deref(), &name)
            .await
    }

    /// Which policy has taken the template up is seen in what Karmada notes on it.
    async fn policy(&self, template: &Seen<Option<Value>>) -> Seen<Option<PropagationPolicy>> {
        let named = map(template, |template| template.as_ref().and_then(claimed_by));
        let name = match named.get() {
            Ok(Some(name)) => name.clone(),
            Ok(None) => return Seen::known(None, self.instant()),
            Err(why) => return Seen::unknown(why.0),
        };
        policy(&self.parts.cluster, &name).await
    }

    fn wanted_in_git(&self) -> Seen<Option<u32>> {
        match self.parts.templates.template(&self.workload) {
            Ok(wanted) => {
                let said = wanted.filter(|wanted| wanted.manifest.pointer("/spec/replicas").is_some());
                Seen::known(
                    said.and_then(|wanted| replicas_of(&wanted.manifest)),
                    self.instant(),
                )
            }
            Err(error) => Seen::unknown(error.to_string()),
        }
    }

    /// The copy in every cluster that may have one.
    async fn members(&self, snapshot: &Snapshot) -> BTreeMap<ClusterName, Seen<Option<Value>>> {
        let mut involved = BTreeSet::from([self.spec.to.clone()]);
        involved.extend(self.spec.from.cluster.clone());
        involved.extend(
            self.status
                .journal_in_force()
                .into_iter()
                .flat_map(|journal| journal.wanted.keys().cloned()),
        );
        if let Ok(Some(binding)) = snapshot.binding.get() {
            let listed = binding.spec.synced_clusters().into_iter();
            involved.extend(listed.map(|cluster| cluster.name));
        }
        involved.extend(snapshot.works.get().into_iter().flat_map(BTreeMap::keys).cloned());
        let read = involved.into_iter().map(async |cluster| {
            let copy = match served(&self.parts.cluster, &self.spec.workload.gvk()).await {
                Ok(served) => {
                    let reader = self.parts.cluster.member(&cluster);
                    optional(reader.get(&served, self.namespace(), &self.workload.name).await)
                }
                Err(error) => Seen::unknown(error.to_string()),
            };
            (cluster, copy)
        });
        join_all(read).await.into_iter().collect()
    }

    /// The pods on the control plane, where the template runs itself: those that stay, and whether each is ready.
    async fn own_pods(&self, snapshot: &Snapshot) -> Seen<Vec<bool>> {
        if !self.spec.from.control_plane {
            return Seen::known(Vec::new(), self.instant());
        }
        let selector = match self
            .status
            .journal_in_force()
            .and_then(|journal| journal.pods.clone())
        {
            Some(selector) => Ok(Some(selector)),
            None => self.selector(snapshot),
        };
        let selector = match selector {
            Ok(Some(selector)) => selector,
            Ok(None) => return Seen::unknown("nothing says which pods are the workload's"),
            Err(why) => return Seen::unknown(why),
        };
        let reader = self.parts.cluster.reader();
        let pods = all(reader.pods(self.namespace(), &selector).await);
        map(&pods, |pods: &Vec<Value>| {
            let stays = |pod: &&Value| {
                let phase = pod.pointer("/status/phase").and_then(Value::as_str);
                pod.pointer("/metadata/deletionTimestamp").is_none()
                    && !matches!(phase, Some("Succeeded" | "Failed"))
            };
            pods.iter().filter(stays).map(super::members::is_ready).collect()
        })
    }

    fn selector(&self, snapshot: &Snapshot) -> Result<Option<String>, String> {
        let (Ok(given), Ok(Some(template))) = (snapshot.profiles.get(), snapshot.template.get()) else {
            return Err("the template or its profile is not known".to_owned());
        };
        let found = cutover_core::profile::find(given, None, &self.spec.workload.gvk())
            .map_err(|error| error.to_string())?;
        let Some(found) = found else {
            return Ok(None);
        };
        let profile =
            cutover_core::profile::Profile::compile("", &found.spec).map_err(|error| error.to_string())?;
        profile.pod_selector(template).map_err(|error| error.to_string())
    }

    /// Looked for before anything is begun, and while replicas go over.
    async fn autoscalers(&self, snapshot: &Snapshot) -> Seen<Vec<Scaler>> {
        if !matches!(self.status.phase, Phase::Preflight | Phase::Shifting) {
            return Seen::unknown("not read in this phase");
        }
        scalers::read(&self.parts.cluster, &self.workload, snapshot.members.keys()).await
    }

    async fn get<T: DeserializeOwned>(
        &self,
        gvk: Gvk,
        namespace: Option<&str>,
        name: &str,
    ) -> Seen<Option<T>> {
        get(&self.parts.cluster, gvk, namespace, name).await
    }

    async fn list<T: DeserializeOwned>(
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
