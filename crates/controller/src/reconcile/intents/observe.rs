//! One pass's fresh reads. The control plane is read before any member: a release counts on that order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{join, join_all};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::around::{Around, only};
use super::ask::get;
use super::members::Selector;
use super::nearby::Followee;
use super::reader::MigrationReader;
use super::{Parts, dependencies, metrics, other_managers, others, wake};
use cutover_cluster::{Answer, Lookup};
use cutover_core::api::{Guard, Migration, MigrationSpec, MigrationStatus, Phase};
use cutover_core::intent::admission::{self, Outcome};
use cutover_core::intent::check::{Others, Sampled};
use cutover_core::intent::control_plane::Named;
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::dependencies::{Dependencies, Selected};
use cutover_core::intent::member::Pod;
use cutover_core::intent::other_managers::OtherManager;
use cutover_core::intent::scalers::{Concerns, Scaler};
use cutover_core::intent::warnings::{self, Warned};
use cutover_core::intent::{self, Seen, Snapshot, migration};
use cutover_core::profile::{self, Misfit, Profile};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};

/// What is looked at besides, because of what the worker did.
#[derive(Clone, Debug)]
pub(super) struct Also {
    /// The admission fence is tried as well, where the phase has time for that.
    pub trial: bool,
    /// Something was sent since the last time: what came late, after the end, has to be seen.
    pub sent: bool,
    /// What scales the workload, where that was seen not long ago.
    pub scalers: Option<Seen<Vec<Scaler>>>,
}

/// A part of a look, read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Binding,
    Works,
    Canary,
    Record,
}

impl Part {
    /// Returns whether a look could not have this part.
    pub(super) fn is_unknown(self, snapshot: &Snapshot) -> bool {
        match self {
            Self::Binding => snapshot.plane.binding.get().is_err(),
            Self::Works => snapshot.plane.works.get().is_err(),
            Self::Canary => snapshot.plane.canary.get().is_err(),
            Self::Record => snapshot.record.get().is_err(),
        }
    }
}

/// Reads parts of a look again, for a workload whose journal is in force.
pub(super) async fn again(
    parts: &Parts,
    intent: &Migration,
    status: &MigrationStatus,
    snapshot: &mut Snapshot,
    which: impl IntoIterator<Item = Part>,
) {
    let Some(journal) = status.journal_in_force() else {
        return;
    };
    let spec = intent.spec_in_force();
    let look = MigrationReader {
        parts,
        intent,
        spec,
        status,
        workload: snapshot.workload.clone(),
        gvk: spec.workload.gvk(),
    };
    for part in which {
        match part {
            Part::Binding => snapshot.plane.binding = look.around().binding(&journal.binding.name).await,
            Part::Works => snapshot.plane.works = look.around().works(&journal.binding.id).await,
            Part::Canary => snapshot.plane.canary = look.canary().await,
            Part::Record => snapshot.record = look.record().await,
        }
    }
}

/// Returns what is followed of a workload in its members.
pub(super) fn followee(
    intent: &Migration,
    status: &MigrationStatus,
    snapshot: &Snapshot,
) -> Option<Followee> {
    let journal = status.journal_in_force()?;
    let profile = Profile::compile("in force", &journal.profile).ok();
    let template = snapshot.plane.template.get().ok().and_then(Option::as_ref);
    Some(Followee {
        gvk: intent.spec_in_force().workload.gvk(),
        namespace: snapshot.workload.namespace.clone(),
        name: snapshot.workload.name.clone(),
        pods: Selector::of(journal.pods.clone(), profile.as_ref(), template),
    })
}

/// Reads what the machine may look at in the phase that the status is in.
pub(super) async fn snapshot(
    parts: &Parts,
    intent: &Migration,
    status: &MigrationStatus,
    also: Also,
) -> Snapshot {
    let spec = intent.spec_in_force();
    let namespace = intent.metadata.namespace.as_deref();
    let ended = status.phase.is_terminal();
    if ended && !also.sent {
        return Snapshot::unread(spec.workload.key(namespace), "the intent has ended");
    }
    let workload = match is_cluster_scoped(parts, spec, status).await {
        Ok(cluster_scoped) => spec.workload.key(namespace.filter(|_| !cluster_scoped)),
        Err(error) => return Snapshot::unread(spec.workload.key(namespace), &error.to_string()),
    };
    let look = MigrationReader {
        parts,
        intent,
        spec,
        status,
        workload,
        gvk: spec.workload.gvk(),
    };
    let mut snapshot = Box::pin(look.control_plane()).await;
    if status.phase == Phase::Pending {
        return Box::pin(look.after_an_end_on_record(snapshot)).await;
    }
    if ended {
        return snapshot;
    }
    let involved = migration::involved(spec, status, &snapshot.plane);
    let profile = look.profile(&snapshot);
    let scalers = look.scalers(&snapshot, profile.as_ref(), involved.clone(), also.scalers);
    let template = snapshot.plane.template.get().ok().and_then(Option::as_ref);
    let has_binding = !matches!(snapshot.plane.binding.get(), Ok(None));
    let members = involved.into_iter().map(|cluster| {
        let look = &look;
        let profile = profile.as_ref();
        async move {
            let member = look.member(&cluster, profile, template, has_binding).await;
            (cluster, member)
        }
    });
    let (members, admission, others, scalers, dependencies, misfits) = futures::join!(
        join_all(members),
        look.admission(&snapshot, also.trial),
        look.others(),
        scalers,
        Box::pin(look.dependencies(&snapshot, profile.as_ref())),
        Box::pin(look.misfits(profile.as_ref()))
    );
    (snapshot.dependencies, snapshot.misfits) = (dependencies, misfits);
    (snapshot.members, snapshot.others) = (members.into_iter().collect(), others);
    snapshot.scalers = scalers;
    snapshot.admission = admission;
    snapshot
}

/// How long Events are waited for.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Reads what the Events of the target say of the copy that is about to be given up. What can't be read isn't told.
pub(super) async fn warnings(parts: &Parts, status: &MigrationStatus, snapshot: &Snapshot) -> Vec<String> {
    let Some(target) = status.journal_in_force().map(|journal| &journal.target) else {
        return Vec::new();
    };
    let Ok(member) = snapshot.member(target) else {
        return Vec::new();
    };
    let said = warnings_in(parts, target, &snapshot.workload, &member.object, &member.pods).await;
    said.unwrap_or_default()
}

/// Reads what the Events of a cluster say of a copy that a phase has waited for long. What can't be read isn't told.
pub(super) async fn warned(parts: &Parts, cluster: ClusterName, snapshot: &Snapshot) -> Option<Warned> {
    let member = snapshot.member(&cluster).ok()?;
    let said = warnings_in(parts, &cluster, &snapshot.workload, &member.object, &member.pods).await?;
    Some(Warned { cluster, said })
}

/// The same where the pods of the copy were not looked at.
pub(super) async fn warned_with_pods(
    around: Around<'_>,
    cluster: ClusterName,
    object: &Seen<Option<Value>>,
    selector: &Selector,
) -> Option<Warned> {
    let (parts, workload) = (around.parts, around.workload);
    let reader = parts.cluster.member(&cluster);
    let pods = selector.pods(&cluster, &reader, workload.namespace.as_deref(), around.instant());
    let pods = tokio::time::timeout(AT_ONCE, pods).await.ok()?;
    let said = warnings_in(parts, &cluster, workload, object, &pods).await?;
    Some(Warned { cluster, said })
}

async fn warnings_in(
    parts: &Parts,
    cluster: &ClusterName,
    workload: &ObjectKey,
    object: &Seen<Option<Value>>,
    pods: &Seen<Vec<Pod>>,
) -> Option<Vec<String>> {
    let namespace = workload.namespace.as_deref();
    // Nobody runs meanwhile: a member that doesn't answer at once isn't waited for.
    let reader = parts.cluster.member(cluster);
    let read = tokio::time::timeout(AT_ONCE, reader.warnings(namespace)).await;
    let Ok(Answer::Found(events)) = read.map(|read| read.answer) else {
        return None;
    };
    let copy = object.get().ok().and_then(Option::as_ref);
    let uid = copy.and_then(|copy| copy.pointer("/metadata/uid")?.as_str());
    let pods = pods.get().map(Vec::as_slice).unwrap_or_default();
    Some(warnings::last(&events, workload, uid, pods))
}

/// A kind that isn't served is told by Preflight; one that was served when the attempt began keeps its scope.
async fn is_cluster_scoped(
    parts: &Parts,
    spec: &MigrationSpec,
    status: &MigrationStatus,
) -> Result<bool, cutover_core::error::Error> {
    if let Some(journal) = status.journal_in_force() {
        return Ok(journal.binding.cluster_scoped);
    }
    Ok(match parts.cluster.lookup(&spec.workload.gvk()).await? {
        Lookup::Served(served) => !served.namespaced,
        Lookup::NotServed => false,
    })
}

/// Returns the name of the canary that an intent waits for.
pub(super) fn canary(intent: &Migration) -> Option<String> {
    let status = intent.status.as_ref()?;
    let number = status.journal.as_ref()?.fence.canary;
    Some(canary_name(
        intent.metadata.uid.as_deref()?,
        status.common.attempt,
        number,
    ))
}

/// Returns what a migration depends on; one that has ended hears only of itself.
pub(super) fn wakes(intent: &Migration, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
    let status = intent.status.clone().unwrap_or_default();
    let canary = canary(intent);
    let named = Named {
        binding: status.journal_in_force().map(|journal| &journal.binding),
        canary: canary.as_deref(),
    };
    let (needs, members) = (migration::needs(&status, false), snapshot.members.keys());
    wake::keys(needs, &snapshot.workload, &snapshot.plane, named, members)
}

impl MigrationReader<'_> {
    fn around(&self) -> Around<'_> {
        Around {
            parts: self.parts,
            workload: &self.workload,
            gvk: &self.gvk,
        }
    }

    /// What is read of the control plane, and of what else it depends on.
    async fn control_plane(&self) -> Snapshot {
        let canary = canary(self.intent);
        let named = Named {
            binding: self.status.journal_in_force().map(|journal| &journal.binding),
            canary: canary.as_deref(),
        };
        let needs = migration::needs(self.status, true);
        let around = self.around();
        // Who waits for its turn has a look at its policies alone, and they depend on the template.
        let waits = self.status.phase == Phase::Pending;
        let (plane, record, metrics, template) = tokio::join!(
            around.plane(needs, named),
            self.record(),
            self.metrics(),
            only(waits, around.template()),
        );
        let template = template.as_ref().unwrap_or(&plane.template);
        let ((policy, arriving), successor, desired, other_managers) = tokio::join!(
            self.policies(template),
            self.successor(template),
            self.desired(template),
            self.other_managers(template),
        );
        Snapshot {
            policy,
            arriving,
            successor,
            desired,
            other_managers,
            record,
            metrics,
            plane,
            ..Snapshot::unread(self.workload.clone(), "it is not needed in this phase")
        }
    }

    async fn other_managers(&self, template: &Seen<Option<Value>>) -> Vec<OtherManager> {
        match self.status.phase {
            Phase::Preflight => other_managers::look(&self.parts.cluster, template).await,
            _ => Vec::new(),
        }
    }

    /// Where Git says that it has ended before, what that left is looked at.
    async fn after_an_end_on_record(&self, mut snapshot: Snapshot) -> Snapshot {
        let record = snapshot.record.get().ok().and_then(Option::as_ref);
        let ended = record.filter(|record| self.status.common.attempt == 0 && record.ends(self.spec));
        let Some((record, journal)) =
            ended.and_then(|record| Some((record, record.status.journal.as_ref()?)))
        else {
            return snapshot;
        };
        let tenant = record.tenant(journal).clone();
        let around = self.around();
        let (binding, member) = tokio::join!(around.binding(&journal.binding.name), around.copy(&tenant));
        snapshot.plane.binding = binding;
        snapshot.members = BTreeMap::from([(tenant, member)]);
        snapshot
    }

    /// Read where it could undo a hold.
    async fn scalers(
        &self,
        snapshot: &Snapshot,
        profile: Option<&Profile>,
        involved: BTreeSet<ClusterName>,
        known: Option<Seen<Vec<Scaler>>>,
    ) -> Seen<Vec<Scaler>> {
        if self.status.journal_in_force().is_none()
            && let Err(unknown) = snapshot.plane.profiles.get()
        {
            return Seen::unknown(format!("its profile is not known: {unknown}"));
        }
        let concerns = profile.map(|profile| Concerns::of(profile.spec()));
        let Some(concerns) = concerns.filter(|concerns| concerns.any()) else {
            return Seen::unknown("not read: nothing starts it by itself where it is held");
        };
        // What Kueue makes of a copy that has just been created is not in an older look.
        let known = known.filter(|_| !(concerns.kueue && self.status.phase == Phase::Expand));
        match known {
            Some(known) => known,
            None => {
                super::scalers::read(
                    &self.parts.cluster,
                    (&self.workload, &self.gvk),
                    concerns,
                    &involved,
                )
                .await
            }
        }
    }

    fn profile(&self, snapshot: &Snapshot) -> Option<Profile> {
        let spec = match self.status.journal_in_force() {
            Some(journal) => (*journal.profile).clone(),
            None => {
                let spec = &self.spec;
                let given = snapshot.plane.profiles.get().ok()?;
                profile::find(given, spec.profile.as_deref(), &spec.workload.gvk())
                    .ok()??
                    .spec
            }
        };
        Profile::compile("in force", &spec).ok()
    }

    /// Tried only under a claim of this intent, for that is what the fence goes by, and not while nothing runs.
    async fn admission(&self, snapshot: &Snapshot, trial: bool) -> Option<Vec<(Guard, Outcome)>> {
        let journal = self.status.journal_in_force()?;
        let in_haste = matches!(self.status.phase, Phase::Capture | Phase::Handoff);
        if !trial || in_haste || journal.pin.unpinning {
            return None;
        }
        let (claim, binding) = (
            snapshot.plane.claim.get().ok()?.as_ref()?,
            snapshot.plane.binding.get().ok()?.as_ref()?,
        );
        let uid = self.intent.metadata.uid.as_deref().unwrap_or_default();
        if claim.spec.owner.uid != uid || claim.spec.marker.is_empty() || claim.spec.guards {
            return None;
        }
        let probes = admission::probes(
            claim,
            &snapshot.workload,
            &self.spec.workload.api_version,
            binding,
        );
        Some(super::admission::try_out(&self.parts.cluster, probes).await)
    }

    /// Before anything is begun, to know that they can be answered; and while the target soaks.
    async fn metrics(&self) -> BTreeMap<String, Seen<Sampled>> {
        match self.status.phase {
            Phase::Preflight | Phase::Verify => {
                metrics::ask(&*self.parts.metrics, &self.spec.verify.checks, || self.instant()).await
            }
            _ => BTreeMap::new(),
        }
    }

    /// What checks are about beside the copy, while the target soaks.
    async fn others(&self) -> Others {
        match self.status.phase {
            Phase::Verify => {
                let namespace = self.workload.namespace.as_deref();
                let checks = &self.spec.verify.checks;
                others::read(&self.parts.cluster, namespace, [&self.spec.to], checks).await
            }
            _ => Others::new(),
        }
    }

    /// What the workload needs in the target, before anything begins; and what its profile selects, until the target runs.
    async fn dependencies(&self, snapshot: &Snapshot, profile: Option<&Profile>) -> Dependencies {
        match self.status.phase {
            Phase::Preflight => {}
            Phase::Hold | Phase::Expand | Phase::Capture | Phase::Handoff => {
                return Dependencies {
                    named: Vec::new(),
                    selected: self.selected(snapshot, profile).await,
                };
            }
            _ => return Dependencies::default(),
        }
        let live = snapshot.plane.template.get().ok().and_then(Option::as_ref);
        let desired = snapshot.desired.get().ok();
        let change = desired.and_then(|desired| desired.change.as_ref().map(|change| &change.applied));
        let binding = snapshot.plane.binding.get().ok().and_then(Option::as_ref);
        let templates = live.into_iter().chain(change);
        let (cluster, target) = (&self.parts.cluster, &self.spec.to);
        let named = dependencies::named(cluster, &self.workload, templates, profile, binding, target);
        let (named, selected) = join(named, self.selected(snapshot, profile)).await;
        Dependencies { named, selected }
    }

    async fn selected(&self, snapshot: &Snapshot, profile: Option<&Profile>) -> Vec<Selected> {
        let binding = snapshot.plane.binding.get().ok().and_then(Option::as_ref);
        let journal = self.status.journal_in_force();
        let target = journal.map_or(&self.spec.to, |journal| &journal.target);
        let source = match journal {
            Some(journal) => Some(&journal.source),
            None => binding.and_then(|binding| dependencies::source(binding, target)),
        };
        let (cluster, workload) = (&self.parts.cluster, &self.workload);
        dependencies::selected(cluster, workload, profile, binding, source, target).await
    }

    /// What of its profile doesn't fit the workload's kind, before anything begins.
    async fn misfits(&self, profile: Option<&Profile>) -> Option<Seen<Vec<Misfit>>> {
        if self.status.phase != Phase::Preflight {
            return None;
        }
        let (fits, spec) = (&self.parts.fits, profile?.spec());
        Some(fits.misfits(&self.parts.cluster, &self.gvk, spec).await)
    }

    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        gvk: Gvk,
        namespace: Option<&str>,
        name: &str,
    ) -> Seen<Option<T>> {
        get(&self.parts.cluster, gvk, namespace, name).await
    }

    async fn canary(&self) -> Seen<Option<ResourceBinding>> {
        if migration::wants_canary(self.status) {
            return self.around().canary(canary(self.intent).as_deref()).await;
        }
        Seen::unknown("not read behind the barrier")
    }

    /// A read that took no time: what was put together here, after what it was put together from.
    pub(super) fn instant(&self) -> intent::Read {
        self.around().instant()
    }
}
