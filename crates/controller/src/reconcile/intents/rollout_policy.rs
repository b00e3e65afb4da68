//! Rollout policies, as the loop carries them out. All that they look at is in caches, so that a push that is none of their
//! business, and a cluster in which nothing happens, cost them no request.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::{Parts, Templates};
use cutover_cluster::{KindState, Observer, Watched};
use cutover_core::api::{
    self, Rollout, RolloutPolicy, RolloutPolicySpec, RolloutPolicyStatus, SYNC_MANAGER, WorkloadRef,
};
use cutover_core::error::Error;
use cutover_core::intent::rollout_policy::{self, Snapshot, Workload};
use cutover_core::intent::selected::{Labels, Selected, labels};
use cutover_core::intent::{Effect, NotKnown, Step};
use cutover_core::manifest::Entry;
use cutover_core::plan::{Decision, owned_matches};
use cutover_core::report::{self, EventRecord};
use cutover_karmada::name::{GroupKind, Gvk, ObjectKey};

const POLICY: &str = "RolloutPolicy";
const ROLLOUT: &str = "Rollout";
/// Stands for any rollout or policy of a namespace, among those whose changes a worker hears of.
const ANY: &str = "*";

#[derive(Debug, Default)]
pub(super) struct RolloutPolicyController {
    /// What was looked at lately, and what it came to.
    known: BTreeMap<ObjectKey, Known>,
}

#[derive(Debug)]
struct Known {
    entry: Arc<Entry>,
    version: Option<String>,
    waits: bool,
}

impl Kind for RolloutPolicyController {
    type Intent = RolloutPolicy;
    type Spec = RolloutPolicySpec;
    type Status = RolloutPolicyStatus;
    type Snapshot = Snapshot;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &RolloutPolicy,
        _status: &RolloutPolicyStatus,
        _sent: bool,
    ) -> Snapshot {
        let rollouts = rollouts(&parts.observer, intent);
        let namespace = intent.metadata.namespace.as_deref();
        let of_children = rollouts.iter().flatten().filter(|rollout| {
            let owners = rollout.metadata.owner_references.iter().flatten();
            owners.map(|owner| &owner.uid).eq(&intent.metadata.uid)
        });
        let doubtful = of_children
            .map(|child| child.spec.workload.key(namespace))
            .filter(|workload| parts.templates.template(workload).is_err());
        Snapshot {
            doubtful: doubtful.collect(),
            selected: self.selected(parts, intent),
            rollouts,
        }
    }

    fn watched_keys(intent: &RolloutPolicy, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
        let of = |kind: &str| GroupKind::new(api::GROUP, kind).key(intent.metadata.namespace.as_deref(), ANY);
        let mut keys = BTreeSet::from([of(ROLLOUT), of(POLICY)]);
        let name = intent.metadata.name.as_deref().unwrap_or_default();
        keys.insert(in_git(&ObjectKey {
            name: name.to_owned(),
            ..of(POLICY)
        }));
        keys.extend(
            snapshot
                .selected
                .iter()
                .flatten()
                .map(|(workload, _)| workload.clone()),
        );
        keys
    }

    fn step(input: &Input<'_, Self>) -> Step<RolloutPolicyStatus> {
        rollout_policy::step(input)
    }

    async fn send(parts: &Parts, intent: &RolloutPolicy, effect: &Effect) -> Result<Sent, Error> {
        execute::send_plain(parts, intent, effect).await
    }

    fn events(before: &RolloutPolicy, after: &RolloutPolicyStatus) -> Vec<EventRecord> {
        report::rollout_policy_events(before, after)
    }
}

impl RolloutPolicyController {
    fn selected(
        &mut self,
        parts: &Parts,
        intent: &RolloutPolicy,
    ) -> Result<BTreeMap<ObjectKey, Workload>, NotKnown> {
        let namespace = intent.metadata.namespace.as_deref().unwrap_or_default();
        let ours = Selected::new(namespace, &intent.spec.select);
        watch(&parts.observer, &intent.spec)?;
        let older = older(&parts.observer, intent)?;
        let mut known = BTreeMap::new();
        let mut all = BTreeMap::new();
        for kind in ours.kinds() {
            let entries = parts.templates.of_kind(kind, namespace);
            for entry in entries.map_err(|error| NotKnown(error.to_string()))? {
                let key = &entry.key;
                let wanted = labels(entry.written());
                let live = parts.observer.look(key, labels);
                if !ours.takes(key, Some(&wanted), live.as_ref()) {
                    continue;
                }
                let now = self.look(parts, &entry);
                let workload = Workload {
                    named: WorkloadRef {
                        api_version: entry.gvk.api_version(),
                        kind: key.kind.clone(),
                        name: key.name.clone(),
                    },
                    waits: now.waits,
                    older: rival(&older, key, &wanted, live.as_ref()),
                };
                all.insert(key.clone(), workload);
                known.insert(key.clone(), now);
            }
        }
        self.known = known;
        Ok(all)
    }

    /// Looks at what is news: whether what Git wants of a workload is something else than it has. What was never applied is
    /// applied by sync.
    fn look(&mut self, parts: &Parts, entry: &Arc<Entry>) -> Known {
        let version = parts.observer.version(&entry.key);
        let known = self.known.remove(&entry.key);
        let is_news = |known: &Known| !Arc::ptr_eq(&known.entry, entry) || known.version != version;
        if let Some(known) = known.filter(|known| !is_news(known)) {
            return known;
        }
        let live = parts.observer.get(&entry.key);
        let waits = live.is_some_and(|live| match parts.templates.template(&entry.key) {
            Ok(Some(wanted)) => owned_matches(&wanted.manifest, &live, SYNC_MANAGER) != Decision::InSync,
            Ok(None) | Err(_) => false,
        });
        Known {
            entry: Arc::clone(entry),
            version,
            waits,
        }
    }
}

/// Returns what those wait for who wait for any object of that kind in its namespace.
pub(super) fn any_like(changed: &ObjectKey) -> Option<ObjectKey> {
    let is_one = changed.group == api::GROUP && [POLICY, ROLLOUT].contains(&&*changed.kind);
    is_one.then(|| ObjectKey {
        name: ANY.to_owned(),
        ..changed.clone()
    })
}

/// Stands for what Git has of what a policy may select: news of the policy itself may be an echo.
pub(super) fn in_git(policy: &ObjectKey) -> ObjectKey {
    ObjectKey {
        name: format!("{ANY}/{}", policy.name),
        ..policy.clone()
    }
}

/// Returns everything in Git that a policy may select.
pub(super) fn selectable(templates: &dyn Templates, policy: &Value) -> (ObjectKey, Vec<Arc<Entry>>) {
    let selected = Selected::of(policy);
    let entries = selected
        .kinds()
        .into_iter()
        .flat_map(|kind| templates.of_kind(kind, selected.namespace()).unwrap_or_default());
    let name = policy["metadata"]["name"].as_str().unwrap_or_default();
    let key = GroupKind::new(api::GROUP, POLICY).key(Some(selected.namespace()), name);
    (key, entries.collect())
}

/// Watches the kinds that are selected: where nobody else looks after one, a change would go unheard.
fn watch(observer: &Observer, spec: &RolloutPolicySpec) -> Result<(), NotKnown> {
    for select in &spec.select {
        let gvk = Gvk::new(&select.api_version, &select.kind);
        let kind = GroupKind::from(&gvk);
        if observer.state(&kind.group, &kind.kind).is_none() {
            observer.watch(Watched::all(gvk));
        }
        settled(observer, &kind)?;
    }
    Ok(())
}

fn settled(observer: &Observer, kind: &GroupKind) -> Result<(), NotKnown> {
    match observer.state(&kind.group, &kind.kind) {
        Some(state) if state.was_listed() => Ok(()),
        Some(KindState::Failing { why, .. }) => Err(NotKnown(why)),
        _ => Err(NotKnown(format!("the list of {} has not come yet", kind.kind))),
    }
}

/// Returns the policies of the namespace that were there first.
fn older(observer: &Observer, intent: &RolloutPolicy) -> Result<Vec<(String, Selected)>, NotKnown> {
    settled(observer, &GroupKind::new(api::GROUP, POLICY))?;
    let age = |metadata: &Value| {
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        (text("creationTimestamp"), text("name"))
    };
    let ours = serde_json::to_value(&intent.metadata).unwrap_or_default();
    let all = observer.list(api::GROUP, POLICY);
    let others = all.iter().filter(|other| {
        let metadata = &other["metadata"];
        metadata["namespace"] == ours["namespace"]
            && metadata["deletionTimestamp"].is_null()
            && age(metadata) < age(&ours)
    });
    let named = others.map(|other| {
        let name = other["metadata"]["name"].as_str().unwrap_or_default();
        (format!("{POLICY} {name}"), Selected::of(other))
    });
    Ok(named.collect())
}

fn rival(
    older: &[(String, Selected)],
    workload: &ObjectKey,
    wanted: &Labels,
    live: Option<&Labels>,
) -> Option<String> {
    let mut older = older.iter();
    let first = older.find(|(_, selected)| selected.takes(workload, Some(wanted), live));
    first.map(|(name, _)| name.clone())
}

fn rollouts(observer: &Observer, intent: &RolloutPolicy) -> Result<Vec<Rollout>, NotKnown> {
    settled(observer, &GroupKind::new(api::GROUP, ROLLOUT))?;
    let namespace = intent.metadata.namespace.as_deref();
    let all = observer.list(api::GROUP, ROLLOUT);
    let here = all
        .iter()
        .filter(|rollout| rollout["metadata"]["namespace"].as_str() == namespace);
    let read = here.map(|rollout| Rollout::deserialize(&**rollout));
    read.collect::<Result<_, _>>()
        .map_err(|error| NotKnown(format!("a Rollout cannot be read: {error}")))
}
