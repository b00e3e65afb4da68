//! Intents that move many workloads (evacuations, rebalances), as the loop carries them out.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::time::Duration;

use futures::future::join_all;
use kube::core::object::{HasSpec, HasStatus};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ask::{get, list, map};
use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::{Parts, eviction};
use crate::reconcile::preflight;
use cutover_core::api::{
    self, Claim, Intent, Means, Migration, MigrationSpec, Move, MovesPhase as Phase, MovesStatus,
    PARENT_LABEL, Strategy, WorkloadProfile,
};
use cutover_core::error::Error;
use cutover_core::intent::moves::{self, Evicting, MoveStrategy, PreflightResult, Snapshot, name_of};
use cutover_core::intent::{self, Effect, Seen, Step};
use cutover_core::profile;
use cutover_core::report::{self, EventRecord};
use cutover_karmada::name::{ClusterName, Gvk, ObjectKey};
use cutover_karmada::{Cluster, ClusterResourceBinding, ResourceBinding, meta};

const BINDINGS: &str = "work.karmada.io/v1alpha2";
const REBALANCERS: &str = "apps.karmada.io/v1alpha1";

/// How often everything is read while an intent stands and has nothing to do.
const LOOK: Duration = Duration::from_secs(10);
/// How often what can't be moved is looked at again.
const AGAIN: Duration = Duration::from_secs(10);
/// How many moves are looked at beforehand in one pass.
const VERDICTS: usize = 20;

/// An intent whose spec is an [`MoveStrategy`].
pub(super) trait BulkMoves:
    Intent
    + HasSpec<Spec: MoveStrategy>
    + HasStatus<Status = MovesStatus<<Self as HasSpec>::Spec>>
    + Send
    + Sync
    + 'static
{
}

impl BulkMoves for api::Evacuation {}
impl BulkMoves for api::Rebalance {}

pub(super) struct BulkMovesController<I> {
    /// When everything was read last.
    looked: Option<Instant>,
    /// When what can't be moved was looked at last.
    tried: Option<Instant>,
    turns: Turns,
    kind: PhantomData<fn() -> I>,
}

// Derived, it would ask for a default of the intent.
impl<I> Default for BulkMovesController<I> {
    fn default() -> Self {
        Self {
            looked: None,
            tried: None,
            turns: Turns::default(),
            kind: PhantomData,
        }
    }
}

impl<I: BulkMoves> Kind for BulkMovesController<I> {
    type Intent = I;
    type Spec = <I as HasSpec>::Spec;
    type Status = MovesStatus<Self::Spec>;
    type Snapshot = Snapshot;

    async fn observe(&mut self, parts: &Parts, intent: &I, status: &Self::Status, _sent: bool) -> Snapshot {
        let look = Reader {
            parts,
            intent,
            status,
        };
        let mut snapshot = nothing("not read in this phase", (parts.clock)());
        snapshot.clusters = look.clusters().await;
        if status.phase.is_terminal() {
            return snapshot;
        }
        if status.phase == Phase::Pending {
            snapshot.record = look.record().await;
            return snapshot;
        }
        // The children first: what they have done is in what is read later.
        (snapshot.migrations, snapshot.rebalancers) = look.children().await;
        snapshot.rescheduled = look.rescheduled().await;
        snapshot.evictions = look.evictions().await;
        let rests = status.phase == Phase::Watching;
        let lately = self.looked.is_some_and(|at| at.elapsed() < LOOK);
        let spec = look.spec();
        if !moves::wants_survey(intent.spec(), status) || (rests && lately) {
            return snapshot;
        }
        look.everything(spec, &mut snapshot).await;
        self.looked = Some(Instant::now());
        let again = self.tried.is_none_or(|at| at.elapsed() >= AGAIN);
        let open = moves::unchecked(status, again);
        if !open.is_empty() {
            if again {
                self.tried = Some(Instant::now());
            }
            let open = self.turns.take(open, &status.moves);
            snapshot.verdicts = look.verdicts(&open).await;
        }
        snapshot
    }

    fn watched_keys(intent: &I, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
        let mut keys = BTreeSet::new();
        let Some(status) = intent.status().filter(|status| !status.phase.is_terminal()) else {
            return keys;
        };
        let clusters = snapshot.clusters.get().into_iter().flat_map(BTreeMap::keys);
        keys.extend(clusters.map(|name| ObjectKey {
            group: "cluster.karmada.io".to_owned(),
            kind: "Cluster".to_owned(),
            namespace: None,
            name: name.to_string(),
        }));
        for one in status.moves.iter().filter(|one| one.state.is_under_way()) {
            let child = match one.means {
                Means::Reschedule => binding_key(one),
                Means::Evict => {
                    keys.insert(ObjectKey {
                        group: api::GROUP.to_owned(),
                        kind: "Claim".to_owned(),
                        namespace: None,
                        name: api::claim_name(&one.workload.key()),
                    });
                    binding_key(one)
                }
                _ => ObjectKey {
                    group: api::GROUP.to_owned(),
                    kind: "Migration".to_owned(),
                    namespace: one.workload.namespace.clone(),
                    name: one.by.clone().unwrap_or_default(),
                },
            };
            keys.insert(child);
        }
        keys
    }

    fn step(input: &Input<'_, Self>) -> Step<Self::Status> {
        moves::step(input)
    }

    async fn send(parts: &Parts, intent: &I, effect: &Effect) -> Result<Sent, Error> {
        execute::send_plain(parts, intent, effect).await
    }

    fn events(before: &I, after: &Self::Status) -> Vec<EventRecord> {
        let nothing = MovesStatus::default();
        report::moves_events(before.status().unwrap_or(&nothing), after)
    }
}

/// Whose turn it is to be looked at beforehand: not all is looked at in one pass, and of some nothing is known afterwards either.
#[derive(Default)]
struct Turns {
    passes: u64,
    /// In which pass each was looked at last.
    last: BTreeMap<(ObjectKey, ClusterName), u64>,
}

impl Turns {
    /// Returns what is looked at in this pass: what never was, then what has waited longest. `all`: the moves that there are.
    fn take<'a>(&mut self, mut open: Vec<&'a Move>, all: &[Move]) -> Vec<&'a Move> {
        let listed: BTreeSet<_> = all.iter().map(key_of).collect();
        self.last.retain(|one, _| listed.contains(one));
        open.sort_by_cached_key(|one| {
            let last = self.last.get(&key_of(one)).copied();
            // A process before this one may have looked at it.
            (last.is_some() || one.checked || one.note.is_some(), last)
        });
        open.truncate(VERDICTS);
        self.passes += 1;
        let looks = open.iter().map(|one| (key_of(one), self.passes));
        self.last.extend(looks);
        open
    }
}

fn key_of(one: &Move) -> (ObjectKey, ClusterName) {
    (one.workload.key(), one.from.clone())
}

fn binding_key(one: &Move) -> ObjectKey {
    ObjectKey {
        group: "work.karmada.io".to_owned(),
        kind: "ResourceBinding".to_owned(),
        namespace: one.workload.namespace.clone(),
        name: meta::binding_name(&one.workload.name, &one.workload.kind),
    }
}

fn nothing(why: &str, now: jiff::Timestamp) -> Snapshot {
    Snapshot {
        now,
        clusters: Seen::unread(why),
        looked: false,
        migrations: Seen::unread(why),
        rebalancers: Seen::unread(why),
        bindings: Seen::unread(why),
        templates: Seen::unread(why),
        profiles: Seen::unread(why),
        claims: Seen::unread(why),
        verdicts: BTreeMap::new(),
        rescheduled: BTreeMap::new(),
        evictions: BTreeMap::new(),
        record: Seen::unread(why),
    }
}

struct Reader<'a, I: BulkMoves> {
    parts: &'a Parts,
    intent: &'a I,
    status: &'a MovesStatus<<I as HasSpec>::Spec>,
}

impl<'a, I: BulkMoves> Reader<'a, I> {
    fn spec(&self) -> &'a <I as HasSpec>::Spec {
        let journal = self.status.journal.as_ref();
        journal.map_or_else(|| self.intent.spec(), |journal| &journal.spec)
    }

    async fn clusters(&self) -> Seen<BTreeMap<ClusterName, Cluster>> {
        let all: Seen<Vec<Cluster>> = self.list("cluster.karmada.io/v1alpha1", "Cluster", None).await;
        map(&all, |all| {
            let named = |cluster: &Cluster| {
                let name = cluster.metadata.name.clone().unwrap_or_default();
                (ClusterName::new(name), cluster.clone())
            };
            all.iter().map(named).collect()
        })
    }

    async fn record(&self) -> Seen<Option<Value>> {
        let meta = self.intent.meta();
        let intent = ObjectKey {
            group: api::GROUP.to_owned(),
            kind: I::kind(&()).into_owned(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
        };
        match self.parts.records.document(&intent).await {
            Ok(document) => Seen::known(document, self.instant()),
            Err(error) => Seen::unknown(error.to_string()),
        }
    }

    async fn children(
        &self,
    ) -> (
        Seen<BTreeMap<(String, String), Migration>>,
        Seen<BTreeMap<String, Value>>,
    ) {
        let uid = self.intent.meta().uid.clone().unwrap_or_default();
        let ours = format!("{PARENT_LABEL}={uid}");
        let migrations: Seen<Vec<Migration>> = self.list(api::API_VERSION, "Migration", Some(&ours)).await;
        let migrations = map(&migrations, |all| {
            let named = |one: &Migration| {
                let meta = &one.metadata;
                let name = (
                    meta.namespace.clone().unwrap_or_default(),
                    meta.name.clone().unwrap_or_default(),
                );
                (name, one.clone())
            };
            all.iter().map(named).collect()
        });
        let mut moves = self.status.moves.iter();
        if !moves.any(|one| one.means == Means::Reschedule && one.state.is_under_way()) {
            return (migrations, Seen::known(BTreeMap::new(), self.instant()));
        }
        let rebalancers: Seen<Vec<Value>> = self.list(REBALANCERS, "WorkloadRebalancer", Some(&ours)).await;
        let rebalancers = map(&rebalancers, |all| {
            let named = |one: &Value| Some((one["metadata"]["name"].as_str()?.to_owned(), one.clone()));
            all.iter().filter_map(named).collect()
        });
        (migrations, rebalancers)
    }

    async fn rescheduled(&self) -> BTreeMap<ObjectKey, Seen<Option<ResourceBinding>>> {
        let moves = self.status.moves.iter();
        let asked = moves.filter(|one| one.means == Means::Reschedule && one.state.is_under_way());
        let read = asked.map(async |one| {
            let key = binding_key(one);
            let gvk = Gvk::new(BINDINGS, "ResourceBinding");
            let binding = get(&self.parts.cluster, gvk, key.namespace.as_deref(), &key.name).await;
            (one.workload.key(), binding)
        });
        join_all(read).await.into_iter().collect()
    }

    /// What it takes out of a cluster itself.
    async fn evictions(&self) -> BTreeMap<ObjectKey, Evicting> {
        let moves = self.status.moves.iter();
        let own: Vec<&Move> = moves
            .filter(|one| one.means == Means::Evict && one.state.is_under_way())
            .collect();
        if own.is_empty() {
            return BTreeMap::new();
        }
        let profiles = self
            .list::<WorkloadProfile>(api::API_VERSION, "WorkloadProfile", None)
            .await;
        let verify = &self.spec().moves().verify;
        let read = own.into_iter().map(async |one| {
            let seen = eviction::look(self.parts, one, verify, &profiles).await;
            (one.workload.key(), seen)
        });
        join_all(read).await.into_iter().collect()
    }

    /// What a survey needs: every binding, and the templates of those that may have to move.
    async fn everything(&self, spec: &<I as HasSpec>::Spec, snapshot: &mut Snapshot) {
        snapshot.looked = true;
        let (namespaced, cluster_wide, profiles, claims) = tokio::join!(
            self.list::<ResourceBinding>(BINDINGS, "ResourceBinding", None),
            self.list::<ClusterResourceBinding>(BINDINGS, "ClusterResourceBinding", None),
            self.list::<WorkloadProfile>(api::API_VERSION, "WorkloadProfile", None),
            self.list::<Claim>(api::API_VERSION, "Claim", None),
        );
        snapshot.profiles = profiles;
        snapshot.claims = map(&claims, |all| {
            let named = |claim: &Claim| (claim.metadata.name.clone().unwrap_or_default(), claim.clone());
            all.iter().map(named).collect()
        });
        snapshot.bindings = match (namespaced, cluster_wide) {
            (Seen::Known { mut value, read }, Seen::Known { value: wide, .. }) => {
                value.extend(wide.into_iter().map(ResourceBinding::from));
                Seen::known(value, read)
            }
            (Seen::Unknown { why }, _) | (_, Seen::Unknown { why }) => Seen::unknown(why),
        };
        snapshot.templates = self.templates(spec, snapshot).await;
    }

    /// One list a kind, of the kinds that a profile can move.
    async fn templates(
        &self,
        spec: &<I as HasSpec>::Spec,
        snapshot: &Snapshot,
    ) -> Seen<BTreeMap<ObjectKey, Value>> {
        let (bindings, profiles) = match (snapshot.bindings.get(), snapshot.profiles.get()) {
            (Ok(bindings), Ok(profiles)) => (bindings, profiles),
            (Err(why), _) | (_, Err(why)) => return Seen::unknown(why.0),
        };
        let clusters = match spec.clusters(snapshot) {
            Ok(clusters) => clusters,
            Err(why) => return Seen::unknown(why.0),
        };
        let concerned = bindings.iter().filter(|binding| {
            let mut listed = binding.spec.clusters.iter();
            listed.any(|target| clusters.contains(&target.name))
        });
        let kinds: BTreeSet<Gvk> = concerned.map(|binding| name_of(binding).gvk()).collect();
        let movable = |kind: &Gvk| profile::find(profiles, None, kind).is_ok_and(|found| found.is_some());
        let read = kinds.into_iter().filter(movable).map(async |kind| {
            let templates: Seen<Vec<Value>> = self.list(&kind.api_version(), &kind.kind, None).await;
            (kind, templates)
        });
        let mut all = BTreeMap::new();
        for (gvk, templates) in join_all(read).await {
            let templates = match templates {
                Seen::Known { value, .. } => value,
                Seen::Unknown { why } => return Seen::unknown(why),
            };
            for template in templates {
                let text = |field: &str| template["metadata"][field].as_str().map(str::to_owned);
                let key = ObjectKey {
                    group: gvk.group.clone(),
                    kind: gvk.kind.clone(),
                    namespace: text("namespace"),
                    name: text("name").unwrap_or_default(),
                };
                all.insert(key, template);
            }
        }
        Seen::known(all, self.instant())
    }

    /// Asks the machine of migrations itself what stands in the way of some of the moves.
    async fn verdicts(&self, open: &[&Move]) -> BTreeMap<(ObjectKey, ClusterName), PreflightResult> {
        let first = &open[..open.len().min(VERDICTS)];
        let verify = &self.spec().moves().verify;
        let migrations: Vec<Migration> = first.iter().filter_map(|one| as_migration(one, verify)).collect();
        let verdicts = preflight::verdicts(&self.parts.cluster, &migrations, (self.parts.clock)()).await;
        let keys = first
            .iter()
            .filter_map(|one| Some((one.workload.key(), one.to.clone()?)));
        keys.zip(verdicts).collect()
    }

    async fn list<T: DeserializeOwned>(
        &self,
        api_version: &str,
        kind: &str,
        selector: Option<&str>,
    ) -> Seen<Vec<T>> {
        list(&self.parts.cluster, api_version, kind, None, selector).await
    }

    fn instant(&self) -> intent::Read {
        super::ask::instant(&self.parts.cluster)
    }
}

/// Returns the Migration that would carry a move out.
fn as_migration(one: &Move, verify: &api::Verify) -> Option<Migration> {
    let workload = &one.workload;
    let strategy = if one.means == Means::StartFirst {
        Strategy::StartFirst
    } else {
        Strategy::StopFirst
    };
    let spec: MigrationSpec = serde_json::from_value(json!({
        "workload": {"apiVersion": workload.api_version, "kind": workload.kind, "name": workload.name},
        "from": one.from, "to": one.to.as_ref()?, "strategy": strategy, "verify": verify,
    }))
    .ok()?;
    let mut migration = Migration::new("not-there-yet", spec);
    migration.metadata.namespace.clone_from(&workload.namespace);
    Some(migration)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(number: usize) -> Move {
        let one = json!({
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("w{number}")},
            "from": "east", "means": "StopFirst", "state": "Waiting", "checked": true,
        });
        serde_json::from_value(one).unwrap()
    }

    fn names(taken: &[&Move]) -> BTreeSet<String> {
        taken.iter().map(|one| one.workload.name.clone()).collect()
    }

    #[test]
    fn each_that_is_blocked_has_its_turn() {
        let moves: Vec<Move> = (0..50).map(checked).collect();
        let mut turns = Turns::default();
        let mut looks = || names(&turns.take(moves.iter().collect(), &moves));
        let all: BTreeSet<String> = (0..3).flat_map(|_| looks()).collect();
        assert_eq!(all.len(), 50);
        assert_ne!(looks(), looks());
    }

    #[test]
    fn what_stays_unknown_holds_up_nothing_else() {
        let unknown = |mut one: Move| {
            (one.checked, one.note) = (false, Some("the API server gave no answer".to_owned()));
            one
        };
        for count in [10, 20, 30] {
            let moves = (0..40).map(checked).enumerate();
            let moves = moves.map(|(number, one)| if number < count { unknown(one) } else { one });
            let moves: Vec<Move> = moves.collect();
            let mut turns = Turns::default();
            let mut all = BTreeSet::new();
            for pass in 0..6 {
                // What is blocked is looked at now and then, what is unknown in every pass.
                let open = moves.iter().filter(|one| pass % 2 == 0 || !one.checked);
                all.extend(names(&turns.take(open.collect(), &moves)));
            }
            assert_eq!(all.len(), 40, "{count} unknown");
        }
    }

    #[test]
    fn what_was_never_looked_at_comes_first() {
        let mut moves: Vec<Move> = (0..50).map(checked).collect();
        moves[7].checked = false;
        let mut turns = Turns::default();
        let first = turns.take(moves.iter().collect(), &moves);
        assert_eq!((first[0].workload.name.as_str(), first.len()), ("w7", VERDICTS));
        let next = turns.take(moves.iter().collect(), &moves);
        assert!(
            !names(&next).contains("w7"),
            "it had its turn, whatever came of it"
        );
        assert!(turns.take(Vec::new(), &[]).is_empty() && turns.last.is_empty());
    }
}
