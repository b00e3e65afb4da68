//! Migrations, as the loop carries them out.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::nearby::Nearby;
use super::soak::{Settling, Soak};
use super::wake::WatchedKeys;
use super::{Parts, expect, observe, scalers, scope};
use cutover_core::api::{Migration, MigrationSpec, MigrationStatus, Phase};
use cutover_core::error::Error;
use cutover_core::intent::{Effect, Snapshot, Step, migration};
use cutover_core::report::{self, EventRecord};
use cutover_karmada::name::{ClusterName, ObjectKey};

/// How often the admission fence is tried anew.
const TRIED_AGAIN: Duration = Duration::from_mins(1);

/// How often Events are read for what a phase waits for.
pub(super) const WARNED_AGAIN: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct MigrationController {
    /// When the admission fence was tried last.
    tested: Option<Instant>,
    /// When the Events of a member were read last for what is waited for.
    warned: Option<Instant>,
    soak: Soak,
    /// How long each member has shown the same copy without pods.
    settling: BTreeMap<ClusterName, Settling>,
    scalers: scalers::Known,
    /// What watches in the members and the watch cache have reported.
    nearby: Nearby,
    heard: expect::Heard,
    /// What the last look has shown, as the effects after it have left it.
    last: Option<Snapshot>,
}

impl Kind for MigrationController {
    type Intent = Migration;
    type Spec = MigrationSpec;
    type Status = MigrationStatus;
    type Snapshot = Snapshot;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &Migration,
        status: &MigrationStatus,
        sent: bool,
    ) -> Snapshot {
        self.last = None;
        let known = self.scalers.within(scalers::AGAIN);
        let known = known.filter(|_| status.phase != Phase::Preflight);
        let also = observe::Also {
            trial: self.tested.is_none_or(|at| at.elapsed() >= TRIED_AGAIN),
            sent,
            scalers: known.clone(),
        };
        let begun = Instant::now();
        let mut snapshot = Box::pin(observe::snapshot(parts, intent, status, also)).await;
        if snapshot.admission.is_some() {
            self.tested = Some(Instant::now());
        }
        if known.is_none() {
            self.scalers.keep(&snapshot.scalers);
        }
        self.note_settling(&mut snapshot, begun, Instant::now());
        let look = migration::watch::look(&input(parts, intent, status, &snapshot));
        snapshot.watched = self.soak.add(look, begun);
        if migration::watch::gives_up(&input(parts, intent, status, &snapshot)) {
            snapshot.warnings = observe::warnings(parts, status, &snapshot).await;
        } else if self.warned.is_none_or(|at| at.elapsed() >= WARNED_AGAIN)
            && let Some(cluster) = migration::watch::troubled(&input(parts, intent, status, &snapshot))
        {
            snapshot.warned = observe::warned(parts, cluster, &snapshot).await;
            self.warned = Some(Instant::now());
        }
        snapshot
    }

    async fn completes(
        &mut self,
        parts: &Parts,
        before: &MigrationStatus,
        intent: &Migration,
        snapshot: &mut Snapshot,
    ) -> bool {
        let status = intent.status.clone().unwrap_or_default();
        let lacks = scope::lacks(before, &status);
        let is_little = !lacks.is_empty();
        observe::again(parts, intent, &status, snapshot, lacks).await;
        is_little
    }

    async fn takes_in(
        &mut self,
        parts: &Parts,
        intent: &Migration,
        snapshot: &mut Snapshot,
        effect: &Effect,
        answer: Option<Box<Value>>,
    ) -> bool {
        expect::take_in(parts, intent, snapshot, effect, answer).await
    }

    fn listen(&mut self, watched_keys: &WatchedKeys) {
        self.nearby.wake(watched_keys);
    }

    fn keeps(&mut self, parts: &Parts, intent: &Migration, snapshot: Snapshot) {
        let status = intent.status.as_ref();
        let followee = status.and_then(|status| observe::followee(intent, status, &snapshot));
        match followee.filter(|_| status.is_some_and(|status| !status.phase.is_terminal())) {
            Some(followee) => self
                .nearby
                .follow(&parts.cluster, &followee, snapshot.members.keys()),
            None => self.nearby.stop(),
        }
        self.last = Some(snapshot);
    }

    async fn expects(
        &mut self,
        parts: &Parts,
        intent: &Migration,
        news: &BTreeSet<ObjectKey>,
    ) -> Option<Snapshot> {
        let last = self.last.as_mut()?;
        let events = (&mut self.heard, &self.nearby);
        Box::pin(expect::snapshot(parts, intent, last, events, news)).await
    }

    fn only_waits(before: &MigrationStatus, after: &MigrationStatus) -> bool {
        expect::only_waits(before, after)
    }

    fn is_told(&self) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|last| expect::all_are_told(last, &self.nearby))
    }

    fn rests(&self, status: &MigrationStatus, asked: Duration, now: Timestamp) -> Duration {
        expect::rests(status, self.last.as_ref(), &self.nearby, asked, now)
    }

    fn watched_keys(intent: &Migration, snapshot: &Snapshot) -> BTreeSet<ObjectKey> {
        observe::wakes(intent, snapshot)
    }

    fn has_seen_enough(before: &MigrationStatus, after: &MigrationStatus) -> bool {
        scope::covers(before, after)
    }

    fn step(input: &Input<'_, Self>) -> Step<MigrationStatus> {
        migration::step(input)
    }

    async fn send(parts: &Parts, intent: &Migration, effect: &Effect) -> Result<Sent, Error> {
        execute::send(parts, intent, effect).await
    }

    fn events(before: &Migration, after: &MigrationStatus) -> Vec<EventRecord> {
        report::events(before, after)
    }
}

impl MigrationController {
    /// Adds a look that was begun and had ended at these times to how long each member has been watched without a change.
    fn note_settling(&mut self, snapshot: &mut Snapshot, begun: Instant, ended: Instant) {
        let mut before = std::mem::take(&mut self.settling);
        for (cluster, member) in &mut snapshot.members {
            let mut settling = before.remove(cluster).unwrap_or_default();
            member.unchanged = settling.add(member.settles(), begun, ended);
            self.settling.insert(cluster.clone(), settling);
        }
    }
}

/// What is needed to judge a look before anything is decided on it.
fn input<'a>(
    parts: &Parts,
    intent: &'a Migration,
    status: &'a MigrationStatus,
    snapshot: &'a Snapshot,
) -> Input<'a, MigrationController> {
    Input::<MigrationController> {
        uid: intent.metadata.uid.as_deref().unwrap_or_default(),
        namespace: intent.metadata.namespace.as_deref(),
        name: intent.metadata.name.as_deref().unwrap_or_default(),
        generation: intent.metadata.generation.unwrap_or_default(),
        revision: None,
        deleting: intent.metadata.deletion_timestamp.is_some(),
        overtaken: None,
        has_finalizer: false,
        spec: &intent.spec,
        status,
        trouble: None,
        ahead: None,
        snapshot,
        now: (parts.clock)(),
    }
}
