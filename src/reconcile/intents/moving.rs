//! Migrations, as the loop carries them out.

use std::collections::BTreeSet;

use std::time::Duration;

use tokio::time::Instant;

use super::execute::{self, Sent};
use super::kind::{Input, Kind};
use super::{Parts, observe, scope, wake};
use crate::api::{Migration, MigrationSpec, MigrationStatus};
use crate::error::Error;
use crate::intent::{Effect, Step, World, migration};
use crate::name::ObjectKey;
use crate::report::{self, Told};

/// How often the admission fence is tried anew.
const TRIED_AGAIN: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Moving {
    /// When the admission fence was tried last.
    tested: Option<Instant>,
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
        let also = observe::Also {
            trial: self.tested.is_none_or(|at| at.elapsed() >= TRIED_AGAIN),
            sent,
        };
        let world = Box::pin(observe::world(parts, intent, status, also)).await;
        if world.admission.is_some() {
            self.tested = Some(Instant::now());
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
