//! What Preflight of a migration would come to, were it begun now. Only reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{join, join_all};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::intents::ask::{get, instant, list, map, optional};
use super::intents::policies::{claimed_by, typed};
use super::intents::{Fits, dependencies, other_managers, scalers, served};
use super::policy_change::policy_change;
use cutover_cluster::{Cluster, Lookup};
use cutover_core::api::{self, Migration, WorkloadProfile};
use cutover_core::intent::control_plane::Overrides;
use cutover_core::intent::dependencies::{Dependencies, Presence, Reference};
use cutover_core::intent::member::Member;
use cutover_core::intent::scalers::{Concerns, Scaler};
use cutover_core::intent::snapshot::{Desired, OwnPolicy, Snapshot, Successor};
use cutover_core::intent::{self, ControlPlane, Seen, driven, moves};
use cutover_core::plan::{Action, Change, ChangeSet};
use cutover_core::profile::{self, Misfit, Profile};
use cutover_core::report::review::{Move, Neighbours, Preview, Template, Verdict};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{
    self as karmada, ClusterOverridePolicy, ClusterResourceBinding, ResourceBinding, meta,
};

const POLICIES: &str = "policy.karmada.io/v1alpha1";
const BINDINGS: &str = "work.karmada.io/v1alpha2";

/// Returns what Preflight of each migration would come to, were it begun now.
pub(super) async fn verdicts(
    cluster: &Cluster,
    migrations: &[Migration],
    now: Timestamp,
) -> Vec<moves::PreflightResult> {
    let look = Look::new(cluster).await;
    let look = &look;
    let verdicts = migrations.iter().map(async |migration| {
        let workload = migration
            .spec
            .workload
            .key(migration.metadata.namespace.as_deref());
        let snapshot = look.snapshot(migration, &workload, &[]).await;
        match Preview::judge(migration, &snapshot, now).verdict {
            Verdict::Clear | Verdict::There | Verdict::UnderWay(_) => moves::PreflightResult::Clear,
            Verdict::Blocked(findings) => moves::PreflightResult::Blocked(findings),
            Verdict::Waits(why) => moves::PreflightResult::Waits(why),
            Verdict::Unknown(why) => moves::PreflightResult::Unknown(why),
        }
    });
    join_all(verdicts).await
}

fn is_applied_by_sync(template: &Value) -> bool {
    let managers = template["metadata"]["managedFields"].as_array();
    managers
        .into_iter()
        .flatten()
        .any(|entry| entry["manager"] == api::SYNC_MANAGER)
}

/// Returns whether a binding is the one of a workload.
pub(super) fn is_of(binding: &ResourceBinding, workload: &ObjectKey) -> bool {
    let name = meta::binding_name(&workload.name, &workload.kind);
    binding.metadata.namespace == workload.namespace && binding.metadata.name.as_deref() == Some(&name)
}

/// Returns namespace and name of the policy that a binding was made by.
pub(super) fn maker(binding: &ResourceBinding) -> Option<(Option<String>, String)> {
    let annotations = binding.metadata.annotations.as_ref()?;
    if let Some(name) = annotations.get(meta::CLUSTER_POLICY_NAME) {
        return Some((None, name.clone()));
    }
    let name = annotations.get(meta::POLICY_NAME)?;
    Some((annotations.get(meta::POLICY_NAMESPACE).cloned(), name.clone()))
}

/// What every look needs.
pub(super) struct Look {
    cluster: Cluster,
    pub(super) bindings: Seen<Vec<ResourceBinding>>,
    pub(super) clusters: Seen<Vec<karmada::Cluster>>,
    pub(super) profiles: Seen<Vec<WorkloadProfile>>,
    cluster_overrides: Seen<Vec<ClusterOverridePolicy>>,
    fits: Fits,
}

impl Look {
    pub(super) async fn new(cluster: &Cluster) -> Self {
        let (namespaced, cluster_wide, clusters, profiles, cluster_overrides) = tokio::join!(
            list::<ResourceBinding>(cluster, BINDINGS, "ResourceBinding", None, None),
            list::<ClusterResourceBinding>(cluster, BINDINGS, "ClusterResourceBinding", None, None),
            list(cluster, "cluster.karmada.io/v1alpha1", "Cluster", None, None),
            list(cluster, api::API_VERSION, "WorkloadProfile", None, None),
            list(cluster, POLICIES, "ClusterOverridePolicy", None, None),
        );
        let bindings = match (namespaced, cluster_wide) {
            (
                Seen::Known { mut value, read },
                Seen::Known {
                    value: cluster_wide, ..
                },
            ) => {
                value.extend(cluster_wide.into_iter().map(ResourceBinding::from));
                Seen::Known { value, read }
            }
            (Seen::Unknown { why }, _) | (_, Seen::Unknown { why }) => Seen::Unknown { why },
        };
        Self {
            cluster: cluster.clone(),
            bindings,
            clusters,
            profiles,
            cluster_overrides,
            fits: Fits::default(),
        }
    }

    /// Returns what one migration would meet.
    pub(super) async fn at(
        &self,
        change: &Change,
        mut migration: Migration,
        plan: &ChangeSet,
        now: Timestamp,
    ) -> Move {
        let namespace = migration.metadata.namespace.clone();
        if change.action == Action::Configure {
            let name = migration.metadata.name.clone().unwrap_or_default();
            let gvk = Gvk::new(api::API_VERSION, "Migration");
            let live: Seen<Option<Migration>> = self.get(&gvk, namespace.as_deref(), &name).await;
            if let Seen::Known {
                value: Some(live), ..
            } = live
            {
                migration.status = live.status;
                migration.metadata.uid = live.metadata.uid;
            }
        }
        let mut one = Move::new(&migration, change.source.clone());
        let gvk = migration.spec.workload.gvk();
        let served = match self.cluster.lookup(&gvk).await {
            Ok(Lookup::Served(served)) => served,
            Ok(Lookup::NotServed) => {
                one.preview.verdict = Verdict::Waits(format!("the control plane does not serve {gvk}"));
                return one;
            }
            Err(error) => {
                one.preview.verdict = Verdict::Unknown(error.to_string());
                return one;
            }
        };
        if !served.namespaced {
            one.workload.namespace = None;
        }
        let mut changes = plan.changes.iter();
        let workload = changes.find(|change| change.key == one.workload);
        one.template = match workload.map(|change| &change.action) {
            Some(Action::HeldBack { .. }) => Template::HeldBack,
            Some(Action::Configure | Action::Recreate { .. }) => Template::InPlace,
            _ => Template::Same,
        };
        if workload.is_some_and(|change| change.action == Action::Create) {
            one.preview.verdict =
                Verdict::Waits("the workload comes with the same push, and has to run first".to_owned());
            return one;
        }
        let snapshot = self.snapshot(&migration, &one.workload, &plan.changes).await;
        one.preview = Preview::judge(&migration, &snapshot, now);
        if let Ok(Some(binding)) = snapshot.plane.binding.get() {
            one.neighbours = self.neighbours(binding);
        }
        one
    }

    fn neighbours(&self, of: &ResourceBinding) -> Neighbours {
        let (Some((namespace, name)), Ok(all)) = (maker(of), self.bindings.get()) else {
            return Neighbours::default();
        };
        let others = all
            .iter()
            .filter(|other| other.metadata.uid != of.metadata.uid && maker(other) == maker(of));
        let mut workloads: Vec<String> = others
            .map(|other| {
                let resource = &other.spec.resource;
                format!("{} {}", resource.kind, resource.name)
            })
            .collect();
        workloads.sort();
        let policy = match namespace {
            Some(namespace) => format!("PropagationPolicy {namespace}/{name}"),
            None => format!("ClusterPropagationPolicy {name}"),
        };
        Neighbours {
            policy: Some(policy),
            workloads,
        }
    }

    /// Reads what Preflight looks at. What it asks of Git and of Prometheus is left out: no query is sent. The policy is as the
    /// changes leave it.
    async fn snapshot(&self, migration: &Migration, workload: &ObjectKey, changes: &[Change]) -> Snapshot {
        let spec = &migration.spec;
        let namespace = workload.namespace.as_deref();
        let claim = Gvk::new(api::API_VERSION, "Claim");
        let gvk = spec.workload.gvk();
        let claim_name = api::claim_name(workload);
        let (template, claim, overrides) = tokio::join!(
            self.get::<Value>(&gvk, namespace, &workload.name),
            self.get(&claim, None, &claim_name),
            self.overrides(namespace),
        );
        let binding = self.binding(workload);
        let policy = self.policy(&template, changes).await;
        let successor = self.successor(migration, changes).await;
        let members = self.members(&gvk, workload, &spec.to, &binding).await;
        let is_in_git = template
            .get()
            .is_ok_and(|template| template.as_ref().is_some_and(is_applied_by_sync));
        let other_managers = other_managers::look(&self.cluster, &template).await;
        let queries = spec
            .verify
            .checks
            .iter()
            .filter_map(|check| check.prometheus.clone());
        let scalers = self.scalers(migration, workload, &members).await;
        let dependencies = self.dependencies(migration, &template, &binding, workload, changes);
        let dependencies = Box::pin(dependencies).await;
        let misfits = Box::pin(self.misfits(migration)).await;
        let plane = ControlPlane {
            pin: map(&overrides, |all| ControlPlane::pin_among(all, workload)),
            template,
            binding,
            works: self.known(BTreeMap::new()),
            claim,
            overrides,
            clusters: self.clusters_by_name(),
            profiles: self.profiles.clone(),
            ..ControlPlane::unread("it has not begun")
        };
        Snapshot {
            plane,
            metrics: queries.map(|query| (query, self.known(Ok(Vec::new())))).collect(),
            members,
            other_managers,
            scalers,
            dependencies,
            misfits,
            desired: self.known(Desired {
                is_in_git,
                change: None,
            }),
            policy,
            arriving: self.known(Vec::new()),
            successor,
            record: self.known(None),
            ..Snapshot::unread(workload.clone(), "it has not begun")
        }
    }

    /// Reads the workload in its target, and in the clusters that its binding lists.
    async fn members(
        &self,
        gvk: &Gvk,
        workload: &ObjectKey,
        target: &ClusterName,
        binding: &Seen<Option<ResourceBinding>>,
    ) -> BTreeMap<ClusterName, Member> {
        let namespace = workload.namespace.as_deref();
        let mut involved = vec![target.clone()];
        if let Ok(Some(binding)) = binding.get() {
            let listed = binding.spec.clusters.iter().map(|cluster| cluster.name.clone());
            involved.extend(listed.filter(|name| name != target));
        }
        let members = involved.into_iter().map(|name| async move {
            let object = self.member(&name, gvk, namespace, &workload.name).await;
            (name, member(object))
        });
        join_all(members).await.into_iter().collect()
    }

    /// What the changes create is taken to be there in time, but for what the profile selects: that has to be seen.
    async fn dependencies(
        &self,
        migration: &Migration,
        template: &Seen<Option<Value>>,
        binding: &Seen<Option<ResourceBinding>>,
        workload: &ObjectKey,
        changes: &[Change],
    ) -> Dependencies {
        let template = template.get().ok().and_then(Option::as_ref);
        let binding = binding.get().ok().and_then(Option::as_ref);
        let (profile, target) = (self.profile(migration), &migration.spec.to);
        let (cluster, profile) = (&self.cluster, profile.as_ref());
        let source = binding.and_then(|binding| dependencies::source(binding, target));
        let (mut named, selected) = join(
            dependencies::named(cluster, workload, template, profile, binding, target),
            dependencies::selected(cluster, workload, profile, binding, source, target),
        )
        .await;
        let is_created = |reference: &Reference| {
            changes.iter().any(|change| {
                let key = &change.key;
                change.action == Action::Create
                    && (&key.group, &key.kind) == (&reference.gvk.group, &reference.gvk.kind)
                    && key.name == reference.name
                    && (key.namespace.is_none() || key.namespace == workload.namespace)
            })
        };
        for (reference, presence) in &mut named {
            if *presence == Presence::Missing && is_created(reference) {
                *presence = Presence::Comes;
            }
        }
        Dependencies { named, selected }
    }

    /// Returns the profile that a migration uses, where it is known and compiles.
    fn profile(&self, migration: &Migration) -> Option<Profile> {
        let spec = &migration.spec;
        let given = self.profiles.get().ok()?;
        let found = profile::find(given, spec.profile.as_deref(), &spec.workload.gvk()).ok()??;
        Profile::compile("in force", &found.spec).ok()
    }

    async fn misfits(&self, migration: &Migration) -> Option<Seen<Vec<Misfit>>> {
        let profile = self.profile(migration)?;
        let gvk = migration.spec.workload.gvk();
        Some(self.fits.misfits(&self.cluster, &gvk, profile.spec()).await)
    }

    async fn scalers(
        &self,
        migration: &Migration,
        workload: &ObjectKey,
        members: &BTreeMap<ClusterName, Member>,
    ) -> Seen<Vec<Scaler>> {
        let spec = &migration.spec;
        let given = match self.profiles.get() {
            Ok(given) => given,
            Err(unknown) => return Seen::unknown(format!("its profile is not known: {unknown}")),
        };
        let found = profile::find(given, spec.profile.as_deref(), &spec.workload.gvk());
        let concerns = found.ok().flatten().map(|profile| Concerns::of(&profile.spec));
        let Some(concerns) = concerns.filter(|concerns| concerns.any()) else {
            return Seen::unknown("not read: nothing starts it by itself where it is held");
        };
        let gvk = spec.workload.gvk();
        scalers::read(&self.cluster, (workload, &gvk), concerns, members.keys()).await
    }

    /// Reads the policy that has taken a template up.
    async fn policy(&self, template: &Seen<Option<Value>>, changes: &[Change]) -> Seen<Option<OwnPolicy>> {
        let named = map(template, |template| template.as_ref().and_then(claimed_by));
        let name = match named {
            Seen::Known {
                value: Some(name), ..
            } => name,
            Seen::Known { value: None, read } => return Seen::known(None, read),
            Seen::Unknown { why } => return Seen::unknown(why),
        };
        let gvk = Gvk::new(POLICIES, name.kind().name());
        let read: Seen<Option<Value>> = self.get(&gvk, name.namespace.as_deref(), &name.name).await;
        let (live, at) = match read {
            Seen::Known {
                value: Some(live),
                read,
            } => (live, read),
            Seen::Known { value: None, read } => return Seen::known(None, read),
            Seen::Unknown { why } => return Seen::unknown(why),
        };
        let key = name.key();
        let change = changes.iter().find(|change| change.key == key);
        let after = change.and_then(|change| policy_change(change)?.after);
        match typed(&name, live) {
            Ok(live) => {
                let change = after.map(|applied| intent::snapshot::PolicyChange {
                    hash: String::new(),
                    applied,
                });
                Seen::known(Some(OwnPolicy { name, live, change }), at)
            }
            Err(why) => Seen::unknown(why),
        }
    }

    /// Returns the policy that takes a workload up with the change that sets its Migration off, as the changes leave it.
    async fn successor(&self, migration: &Migration, changes: &[Change]) -> Seen<Option<Successor>> {
        let Some(name) = driven::successor_in(&migration.metadata) else {
            return self.known(None);
        };
        let key = name.key();
        let change = changes.iter().find(|change| change.key == key);
        if let Some(spec) = change.and_then(|change| policy_change(change)?.after) {
            return self.known(Some(Successor { name, spec }));
        }
        let gvk = Gvk::new(POLICIES, name.kind().name());
        let read: Seen<Option<Value>> = self.get(&gvk, name.namespace.as_deref(), &name.name).await;
        let live = read.get().map_err(|why| why.0);
        let live = live.and_then(|live| live.clone().ok_or_else(|| format!("{name} is not there")));
        match live.and_then(|live| typed(&name, live)) {
            Ok(live) => self.known(Some(Successor {
                name,
                spec: live.spec,
            })),
            Err(why) => Seen::unknown(why),
        }
    }

    fn known<T>(&self, value: T) -> Seen<T> {
        Seen::known(value, instant(&self.cluster))
    }

    fn binding(&self, workload: &ObjectKey) -> Seen<Option<ResourceBinding>> {
        map(&self.bindings, |all| {
            all.iter().find(|binding| is_of(binding, workload)).cloned()
        })
    }

    fn clusters_by_name(&self) -> Seen<Arc<BTreeMap<ClusterName, karmada::Cluster>>> {
        map(&self.clusters, |all| {
            let named = |cluster: &karmada::Cluster| {
                ClusterName::new(cluster.metadata.name.clone().unwrap_or_default())
            };
            let by_name = all.iter().map(|cluster| (named(cluster), cluster.clone()));
            Arc::new(by_name.collect())
        })
    }

    async fn overrides(&self, namespace: Option<&str>) -> Seen<Overrides> {
        let namespaced = match namespace {
            Some(_) => list(&self.cluster, POLICIES, "OverridePolicy", namespace, None).await,
            None => self.known(Vec::new()),
        };
        match (&self.cluster_overrides, namespaced) {
            (
                Seen::Known {
                    value: cluster_wide, ..
                },
                Seen::Known {
                    value: namespaced,
                    read,
                },
            ) => Seen::known(
                Overrides {
                    cluster_wide: cluster_wide.clone().into(),
                    namespaced: namespaced.into(),
                    ..Overrides::default()
                },
                read,
            ),
            (Seen::Unknown { why }, _) => Seen::unknown(why.clone()),
            (_, Seen::Unknown { why }) => Seen::unknown(why),
        }
    }

    async fn get<T: DeserializeOwned>(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        name: &str,
    ) -> Seen<Option<T>> {
        get(&self.cluster, gvk.clone(), namespace, name).await
    }

    async fn member(
        &self,
        cluster: &ClusterName,
        gvk: &Gvk,
        namespace: Option<&str>,
        name: &str,
    ) -> Seen<Option<Value>> {
        match served(&self.cluster, gvk).await {
            Ok(served) => optional(
                self.cluster
                    .member(cluster)
                    .get_as(&served, namespace, name)
                    .await,
            ),
            Err(error) => Seen::unknown(error.to_string()),
        }
    }
}

/// What stands in a member. That its pods can be seen matters only once something is stopped.
fn member(object: Seen<Option<Value>>) -> Member {
    Member {
        object,
        pods: Seen::unknown("not read"),
        nodes: Seen::unknown("not read"),
        ended: BTreeSet::new(),
        unchanged: std::time::Duration::ZERO,
        silent: false,
    }
}
