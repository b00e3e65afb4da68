//! What could be seen of the control plane before a change is merged: what its migrations would meet, and which workloads its
//! policies place. Only reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::endings;
use super::forecasts::{self, is_written};
use super::intents::Fits;
use super::intents::ask::{get, instant, list, map, optional};
use super::intents::dependencies;
use super::intents::other_managers;
use super::intents::policies::{claimed_by, typed};
use super::intents::scalers;
use super::intents::served;
use super::plan::Plan;
use cutover_cluster::{Cluster, Lookup};
use cutover_core::api::{self, Migration, WorkloadProfile};
use cutover_core::intent::control_plane::Overrides;
use cutover_core::intent::dependencies::{Presence, Reference};
use cutover_core::intent::scalers::{Scaler, concerns};
use cutover_core::intent::snapshot::{Desired, Member, OwnPolicy, Snapshot, Successor};
use cutover_core::intent::{self, ControlPlane, Seen, driven, moves, rivals};
use cutover_core::plan::{Action, Change, ChangeSet, Forecast};
use cutover_core::profile::{self, Misfit, Profile};
use cutover_core::report::History;
use cutover_core::report::review::{
    Ending, Move, Neighbours, PolicyChange, Preview, Reach, Template, Verdict,
};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{
    self as karmada, ClusterOverridePolicy, ClusterPropagationPolicy, ClusterResourceBinding,
    PropagationPolicy, PropagationSpec, ResourceBinding, meta,
};

const POLICIES: &str = "policy.karmada.io/v1alpha1";
const BINDINGS: &str = "work.karmada.io/v1alpha2";

/// What could be seen, and what couldn't.
#[derive(Debug, Default)]
pub struct Previews {
    pub moves: Vec<Move>,
    /// What would come of each intent, by the change under which that is told.
    pub forecasts: BTreeMap<ObjectKey, Forecast>,
    pub reaches: Vec<Reach>,
    /// What becomes of workloads whose templates leave Git.
    pub endings: Vec<Ending>,
    pub notes: Vec<String>,
}

impl Previews {
    /// Notes in a plan what could be seen.
    pub fn note_in(&self, changes: &mut ChangeSet) {
        let effects = self.endings.iter();
        let effects = effects.map(|ending| (ending.workload.clone(), ending.effect()));
        changes.note_effects(effects.collect());
        changes.dry_run(self.forecasts.clone());
    }

    /// Says of migrations how long earlier ones took.
    pub fn remember(&mut self, history: &History) {
        for one in &mut self.moves {
            one.earlier = history.of(&one.workload);
            let Some(forecast) = self.forecasts.get_mut(&one.intent) else {
                continue;
            };
            // What was remarked beside, such as that it takes turns, stays.
            for remark in one.forecast().remarks {
                if !forecast.remarks.contains(&remark) {
                    forecast.remarks.push(remark);
                }
            }
        }
    }
}

/// Looks at what the changes of a plan would meet.
pub fn previews<'a>(cluster: &'a Cluster, plan: &'a Plan, now: Timestamp) -> BoxFuture<'a, Previews> {
    Box::pin(async move {
        let changes = &plan.changes;
        let migrations = migrations(changes);
        let policies: Vec<PolicyChange> = changes.changes.iter().filter_map(policy_change).collect();
        let mut forecasts = Box::pin(forecasts::forecasts(cluster, plan, now)).await;
        let turns = turns(changes);
        let leaving: Vec<&Change> = changes
            .changes
            .iter()
            .filter(|change| endings::leaves_git(change))
            .collect();
        if migrations.is_empty() && policies.is_empty() && leaving.is_empty() {
            let notes = note_turns(&turns, &mut forecasts);
            return Previews {
                forecasts,
                notes,
                ..Previews::default()
            };
        }
        let look = Look::new(cluster).await;
        let moves = migrations
            .into_iter()
            .map(|(change, migration)| look.at(change, migration, changes, now));
        let moves = join_all(moves).await;
        forecasts.extend(moves.iter().map(|one| (one.intent.clone(), one.forecast())));
        let mut notes = note_turns(&turns, &mut forecasts);
        let endings = match endings::endings(&leaving, &look.profiles, &look.bindings) {
            Ok(endings) => endings,
            Err(why) => {
                notes.push(format!(
                    "Where the workloads run whose templates leave Git could not be read: {why}"
                ));
                Vec::new()
            }
        };
        let reaches = match (look.bindings.get(), look.clusters.get()) {
            (Ok(bindings), Ok(clusters)) => policies
                .iter()
                .map(|change| {
                    // Where what moves will be by then is the migration's to say.
                    let made = bindings.iter().filter(|binding| {
                        is_made_by(binding, &change.policy)
                            && (change.held_back.is_none() || !moves_by(&moves, binding))
                    });
                    Reach::of(change, &made.collect::<Vec<_>>(), clusters, &endings)
                })
                .collect(),
            (Err(why), _) | (_, Err(why)) => {
                if !policies.is_empty() {
                    notes.push(format!(
                        "Which workloads the policies place could not be read: {why}"
                    ));
                }
                Vec::new()
            }
        };
        Previews {
            moves,
            forecasts,
            reaches,
            endings,
            notes,
        }
    })
}

/// Says of intents what they ask for: no control plane is asked.
pub fn outlooks_offline(changes: &ChangeSet) -> Previews {
    let migrations = migrations(changes).into_iter();
    let moves: Vec<Move> = migrations
        .map(|(change, migration)| Move::new(&migration, change.source.clone()))
        .collect();
    let mut forecasts = forecasts::unasked(changes);
    forecasts.extend(moves.iter().map(|one| (one.intent.clone(), one.forecast())));
    let notes = note_turns(&turns(changes), &mut forecasts);
    Previews {
        moves,
        forecasts,
        notes,
        ..Previews::default()
    }
}

/// Returns the intents of a plan that want the same workload one after the other, each with the next.
fn turns(changes: &ChangeSet) -> Vec<(&ObjectKey, &ObjectKey)> {
    let mut by_workload: BTreeMap<[Option<&str>; 4], Vec<(&ObjectKey, &Value)>> = BTreeMap::new();
    let written = changes.changes.iter();
    for change in written.filter(|change| is_written(change) && change.key.group == api::GROUP) {
        let intent = change
            .after
            .as_ref()
            .filter(|intent| rivals::may_claim_ever(intent));
        let Some(intent) = intent else { continue };
        let of = |field: &str| intent["spec"]["workload"][field].as_str();
        let workload = [
            change.key.namespace.as_deref(),
            of("apiVersion"),
            of("kind"),
            of("name"),
        ];
        by_workload
            .entry(workload)
            .or_default()
            .push((&change.key, intent));
    }
    let mut all = Vec::new();
    for rivals in by_workload.values() {
        for pair in rivals.windows(2) {
            if let [(one, intent), (other, rival)] = pair
                && rivals::take_turns(intent, rival)
            {
                all.push((*one, *other));
            }
        }
    }
    all
}

/// Says of each that it may have to wait for the other; returns what is to be said beside, for a review tells of a Migration in
/// its own way.
fn note_turns(
    turns: &[(&ObjectKey, &ObjectKey)],
    forecasts: &mut BTreeMap<ObjectKey, Forecast>,
) -> Vec<String> {
    const ORDER: &str = "the one that is created first goes first, then by name";
    for (one, other) in turns {
        for (own, rival) in [(one, other), (other, one)] {
            if let Some(forecast) = forecasts.get_mut(*own) {
                let remark = format!("takes turns with {rival}, which wants the same workload: {ORDER}");
                forecast.remarks.push(remark);
            }
        }
    }
    let note = |(one, other): &(&ObjectKey, &ObjectKey)| {
        format!("{one} and {other} want the same workload, and take turns: {ORDER}")
    };
    let is_told_beside = |(one, other): &&(&ObjectKey, &ObjectKey)| {
        [one, other].into_iter().any(|key| key.kind == "Migration")
    };
    turns.iter().filter(is_told_beside).map(note).collect()
}

fn migrations(changes: &ChangeSet) -> Vec<(&Change, Migration)> {
    let written = changes.changes.iter();
    written
        .filter(|change| is_written(change) && change.key.group == api::GROUP)
        .filter(|change| change.key.kind == "Migration")
        .filter_map(|change| Some((change, serde_json::from_value(change.after.clone()?).ok()?)))
        .collect()
}

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

fn policy_change(change: &Change) -> Option<PolicyChange> {
    let is_policy = change.key.group == "policy.karmada.io"
        && matches!(
            change.key.kind.as_str(),
            "PropagationPolicy" | "ClusterPropagationPolicy"
        );
    let held_back = match &change.action {
        Action::HeldBack { by } => Some(by.clone()),
        _ => None,
    };
    if !is_policy || !(is_written(change) || held_back.is_some() || change.action == Action::Delete) {
        return None;
    }
    let spec = |side: &Option<Value>| -> Option<PropagationSpec> {
        let value = side.clone()?;
        if change.key.namespace.is_some() {
            return Some(serde_json::from_value::<PropagationPolicy>(value).ok()?.spec);
        }
        let policy: ClusterPropagationPolicy = serde_json::from_value(value).ok()?;
        Some(policy.spec.spec)
    };
    // One that can't be understood is told as a change of an object, and no guess is made.
    if change.after.is_some() && spec(&change.after).is_none() {
        return None;
    }
    Some(PolicyChange {
        policy: change.key.clone(),
        at: change.source.clone(),
        held_back,
        before: spec(&change.before),
        after: spec(&change.after),
    })
}

/// Whether a policy placed what a binding is about, as Karmada notes it on the binding.
fn is_made_by(binding: &ResourceBinding, policy: &ObjectKey) -> bool {
    maker(binding).is_some_and(|(namespace, name)| policy.namespace == namespace && policy.name == name)
}

fn moves_by(moves: &[Move], binding: &ResourceBinding) -> bool {
    let resource = &binding.spec.resource;
    moves.iter().any(|one| {
        let workload = &one.workload;
        let namespace = workload.namespace.as_deref().unwrap_or_default();
        (namespace, &workload.kind, &workload.name) == (&resource.namespace, &resource.kind, &resource.name)
    })
}

/// Returns whether a binding is the one of a workload.
pub(super) fn is_of(binding: &ResourceBinding, workload: &ObjectKey) -> bool {
    let name = meta::binding_name(&workload.name, &workload.kind);
    binding.metadata.namespace == workload.namespace && binding.metadata.name.as_deref() == Some(&name)
}

/// Returns namespace and name of the policy that a binding was made by.
fn maker(binding: &ResourceBinding) -> Option<(Option<String>, String)> {
    let annotations = binding.metadata.annotations.as_ref()?;
    if let Some(name) = annotations.get(meta::CLUSTER_POLICY_NAME) {
        return Some((None, name.clone()));
    }
    let name = annotations.get(meta::POLICY_NAME)?;
    Some((annotations.get(meta::POLICY_NAMESPACE).cloned(), name.clone()))
}

/// What every look needs.
struct Look {
    cluster: Cluster,
    bindings: Seen<Vec<ResourceBinding>>,
    clusters: Seen<Vec<karmada::Cluster>>,
    profiles: Seen<Vec<WorkloadProfile>>,
    cluster_overrides: Seen<Vec<ClusterOverridePolicy>>,
    fits: Fits,
}

impl Look {
    async fn new(cluster: &Cluster) -> Self {
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
    async fn at(&self, change: &Change, mut migration: Migration, plan: &ChangeSet, now: Timestamp) -> Move {
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
        let mut involved = vec![spec.to.clone()];
        if let Ok(Some(binding)) = binding.get() {
            let listed = binding.spec.clusters.iter().map(|cluster| cluster.name.clone());
            involved.extend(listed.filter(|name| *name != spec.to));
        }
        let gvk = &gvk;
        let members = involved.into_iter().map(|name| async move {
            let object = self.member(&name, gvk, namespace, &workload.name).await;
            (name, member(object))
        });
        let members: BTreeMap<ClusterName, Member> = join_all(members).await.into_iter().collect();
        let is_in_git = template.get().is_ok_and(|template| {
            template.as_ref().is_some_and(|template| {
                let managers = template["metadata"]["managedFields"].as_array();
                managers
                    .into_iter()
                    .flatten()
                    .any(|entry| entry["manager"] == api::SYNC_MANAGER)
            })
        });
        let other_managers = other_managers::look(&self.cluster, &template).await;
        let queries = spec
            .verify
            .checks
            .iter()
            .filter_map(|check| check.prometheus.clone());
        let scalers = self.scalers(migration, workload, &members).await;
        let dependencies = self
            .dependencies(migration, &template, &binding, workload, changes)
            .await;
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

    /// What the changes create is taken to be there in time.
    async fn dependencies(
        &self,
        migration: &Migration,
        template: &Seen<Option<Value>>,
        binding: &Seen<Option<ResourceBinding>>,
        workload: &ObjectKey,
        changes: &[Change],
    ) -> Vec<(Reference, Presence)> {
        let template = template.get().ok().and_then(Option::as_ref);
        let binding = binding.get().ok().and_then(Option::as_ref);
        let (profile, target) = (self.profile(migration), &migration.spec.to);
        let profile = profile.as_ref();
        let mut found = dependencies::read(&self.cluster, workload, template, profile, binding, target).await;
        let is_created = |reference: &Reference| {
            changes.iter().any(|change| {
                let key = &change.key;
                change.action == Action::Create
                    && (&key.group, &key.kind) == (&reference.gvk.group, &reference.gvk.kind)
                    && (&key.name, &key.namespace) == (&reference.name, &workload.namespace)
            })
        };
        for (reference, presence) in &mut found {
            if *presence == Presence::Missing && is_created(reference) {
                *presence = Presence::Comes;
            }
        }
        found
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
        let profile = found.ok().flatten();
        if !profile.is_some_and(|profile| concerns(&profile.spec)) {
            return Seen::unknown("not read: it is not held by its replicas");
        }
        scalers::read(&self.cluster, workload, members.keys()).await
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
        let annotations = migration.metadata.annotations.as_ref();
        let Some(name) = annotations.and_then(driven::successor_in) else {
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
        silent: false,
    }
}
