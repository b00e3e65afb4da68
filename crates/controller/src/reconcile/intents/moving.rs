//! Migrations, as the loop carries them out.

use std::collections::BTreeSet;

use std::time::Duration;

use tokio::time::Instant;

use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::soak::Soak;
use super::{Parts, observe, scalers, scope, wake};
use cutover_core::api::{Migration, MigrationSpec, MigrationStatus, Phase};
use cutover_core::error::Error;
use cutover_core::intent::{Effect, Step, World, migration};
use cutover_core::report::{self, Told};
use cutover_karmada::name::ObjectKey;

/// How often the admission fence is tried anew.
const TRIED_AGAIN: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Moving {
    /// When the admission fence was tried last.
    tested: Option<Instant>,
    soak: Soak,
    scalers: scalers::Known,
}

impl Kind for Moving {
    type Intent = Migration;
    type Spec = MigrationSpec;
    type Status = MigrationStatus;
    type World = World;

    async fn observe(
        &mut self,
        parts: &Parts,
        intent: &Migration,
        status: &MigrationStatus,
        sent: bool,
    ) -> World {
        let known = self.scalers.within(scalers::AGAIN);
        let known = known.filter(|_| status.phase != Phase::Preflight);
        let also = observe::Also {
            trial: self.tested.is_none_or(|at| at.elapsed() >= TRIED_AGAIN),
            sent,
            scalers: known.clone(),
        };
        let begun = Instant::now();
        let mut world = Box::pin(observe::world(parts, intent, status, also)).await;
        if world.admission.is_some() {
            self.tested = Some(Instant::now());
        }
        if known.is_none() {
            self.scalers.keep(&world.scalers);
        }
        let look = migration::watch::look(&input(parts, intent, status, &world));
        world.watched = self.soak.add(look, begun);
        if migration::watch::gives_up(&input(parts, intent, status, &world)) {
            world.warnings = observe::warnings(parts, status, &world).await;
        }
        world
    }

    fn interest(intent: &Migration, world: &World) -> BTreeSet<ObjectKey> {
        wake::of_migration(intent, world)
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

    fn told(before: &Migration, after: &MigrationStatus) -> Vec<Told> {
        report::events(before, after)
    }
}

/// What is needed to judge a look before anything is decided on it.
fn input<'a>(
    parts: &Parts,
    intent: &'a Migration,
    status: &'a MigrationStatus,
    world: &'a World,
) -> Input<'a, Moving> {
    Input::<Moving> {
        uid: intent.metadata.uid.as_deref().unwrap_or_default(),
        namespace: intent.metadata.namespace.as_deref(),
        name: intent.metadata.name.as_deref().unwrap_or_default(),
        generation: intent.metadata.generation.unwrap_or_default(),
        revision: None,
        deleting: intent.metadata.deletion_timestamp.is_some(),
        has_finalizer: false,
        spec: &intent.spec,
        status,
        trouble: None,
        ahead: None,
        world,
        now: (parts.clock)(),
    }
}
