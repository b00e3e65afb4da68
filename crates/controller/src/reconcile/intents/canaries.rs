//! Canaries of the scheduler barrier, shared by those that wait for one at the same time: one is on its way to a scheduler, and
//! whoever asks meanwhile rides along with the next. Behind a queue that many fill, each canary costs the scheduler as much
//! as a workload does.
//!
//! What a canary proves, it proves of what was suspended before it was made. So nobody rides along with one that is made
//! already: who asks is noted before the next is made, and asks only after its own suspension has been answered. All this
//! is memory: a process that comes after knows of no ride, and its intents ask anew.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::Parts;
use super::ask::get;
use super::leases;
use super::wake::{Workers, canary_binding};
use cutover_core::intent::Seen;
use cutover_core::intent::fence::{self, Leases};
use cutover_karmada::ResourceBinding;
use cutover_karmada::name::Gvk;

/// How long others wait for one that is on its way before the next is sent after it: whoever made it may have failed to, and
/// the cluster that it names may be gone.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer is kept for those that have not come for it: an intent that is gone never does, and one whose journal is
/// set back to an older one may ask under the same name again.
const KEPT: Duration = Duration::from_secs(10);

/// What those who asked know of each other.
#[derive(Clone, Debug, Default)]
pub struct Canaries {
    rides: Arc<Mutex<Rides>>,
    workers: Workers,
}

/// What one that asks for a canary has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// Make it, now.
    Make,
    /// It rides along with one that was made after it had asked.
    Rides,
    /// Ask again when woken, or after this time: one is on its way that proves nothing about it.
    Later(Duration),
}

#[derive(Debug, Default)]
struct Rides {
    /// By the name of the scheduler.
    lines: BTreeMap<String, Line>,
    /// The canary that the scheduler has reached, by the name of each that rode along with it.
    reached: BTreeMap<String, Reached>,
    /// Those that were made, or may have been.
    made: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Line {
    /// The newest is the last.
    under_way: Vec<Ride>,
    /// Who asked since that was made.
    waiting: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Reached {
    at: Instant,
    canary: ResourceBinding,
    /// The controllers that were at work then: another scheduler may have read its caches before it all.
    leases: Leases,
}

#[derive(Debug)]
struct Ride {
    canary: String,
    since: Instant,
    /// Without the one whose canary it is.
    riders: BTreeSet<String>,
}

impl Canaries {
    /// Wakes these when what they wait for is there.
    pub(super) fn waking(workers: Workers) -> Self {
        Self {
            rides: Arc::default(),
            workers,
        }
    }

    /// Asks for a canary that is made from now on. O(canaries on their way).
    pub(super) fn ask(&self, name: &str, scheduler: &str) -> Asked {
        let mut rides = self.lock();
        let line = rides.lines.entry(scheduler.to_owned()).or_default();
        if let Some(ride) = line.under_way.last() {
            if ride.canary == name {
                // It isn't to be seen yet, and to make it twice does nothing.
                return Asked::Make;
            }
            let left = PATIENCE.saturating_sub(ride.since.elapsed());
            if !left.is_zero() {
                if ride.riders.contains(name) {
                    return Asked::Rides;
                }
                line.waiting.insert(name.to_owned());
                return Asked::Later(left);
            }
        }
        let mut riders = std::mem::take(&mut line.waiting);
        riders.remove(name);
        line.under_way.push(Ride {
            canary: name.to_owned(),
            since: Instant::now(),
            riders,
        });
        rides.made.insert(name.to_owned());
        Asked::Make
    }

    /// Notes that nobody asks under this name any more. Returns whether one of that name may have been made.
    pub(super) fn forget(&self, name: &str) -> bool {
        self.give_up(name);
        let mut rides = self.lock();
        let rode = rides.reached.remove(name).is_some();
        let mut noted = rode;
        for line in rides.lines.values_mut() {
            noted |= line.waiting.remove(name);
            for ride in &mut line.under_way {
                noted |= ride.riders.remove(name);
            }
        }
        // Of what isn't known, a process before this one may have made it.
        rides.made.remove(name) || !noted
    }

    /// Reads afresh the binding of the canary that counts for this one; none while it is yet to be made.
    pub(super) async fn look(&self, parts: &Parts, name: &str) -> Seen<Option<ResourceBinding>> {
        let at_once = super::ask::instant(&parts.cluster);
        let reached = self.lock().reached.get(name).cloned();
        if let Some(reached) = reached.filter(|reached| reached.at.elapsed() < KEPT) {
            match leases::leases(parts).await.get() {
                Ok(now) if *now == reached.leases => return Seen::known(Some(reached.canary), at_once),
                Ok(_) => self.lock().reached.remove(name),
                Err(why) => return Seen::unknown(why.0),
            };
        }
        let canary = {
            let rides = self.lock();
            match rides.canary_for(name) {
                Some(canary) => canary.to_owned(),
                None if rides.lines.values().any(|line| line.waiting.contains(name)) => {
                    return Seen::known(None, at_once);
                }
                None => name.to_owned(),
            }
        };
        let gvk = Gvk::new("work.karmada.io/v1alpha2", "ResourceBinding");
        let key = canary_binding(&canary);
        let seen = get(&parts.cluster, gvk, key.namespace.as_deref(), &key.name).await;
        if let Ok(Some(binding)) = seen.get()
            && fence::observed(binding)
        {
            self.reached(&canary, binding, &leases::leases(parts).await);
        }
        seen
    }

    /// The scheduler is past a canary: that answers all who ride along, and another may be made.
    fn reached(&self, canary: &str, binding: &ResourceBinding, leases: &Seen<Leases>) {
        let Ok(leases) = leases.get() else { return };
        let mut awake = BTreeSet::new();
        {
            let mut rides = self.lock();
            let Some((riders, next)) = rides.take(canary) else {
                return;
            };
            rides.reached.retain(|_, reached| reached.at.elapsed() < KEPT);
            for rider in riders {
                let reached = Reached {
                    at: Instant::now(),
                    canary: binding.clone(),
                    leases: leases.clone(),
                };
                rides.reached.insert(rider.clone(), reached);
                awake.insert(rider);
            }
            awake.extend(next);
        }
        self.wake(awake);
    }

    /// A canary is gone, or could not be made: who rides along asks again.
    pub(super) fn give_up(&self, canary: &str) {
        let ended = self.lock().take(canary);
        if let Some((riders, next)) = ended {
            self.wake(riders.into_iter().chain(next).collect());
        }
    }

    fn wake(&self, names: BTreeSet<String>) {
        for name in names {
            self.workers.wake(&canary_binding(&name));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rides> {
        self.rides.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rides {
    fn canary_for(&self, name: &str) -> Option<&str> {
        let mut rides = self.lines.values().flat_map(|line| &line.under_way);
        let ride = rides.find(|ride| ride.riders.contains(name));
        ride.map(|ride| ride.canary.as_str())
    }

    /// Takes a ride out. Returns who rode along, and who may make the next one.
    fn take(&mut self, canary: &str) -> Option<(BTreeSet<String>, Option<String>)> {
        for line in self.lines.values_mut() {
            if let Some(at) = line.under_way.iter().position(|ride| ride.canary == canary) {
                let ride = line.under_way.remove(at);
                let next = line.under_way.is_empty().then(|| line.waiting.first().cloned());
                return Some((ride.riders, next.flatten()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use cutover_karmada::name::ObjectKey;

    const SCHEDULER: &str = "default-scheduler";

    fn canary(name: &str) -> ResourceBinding {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "name": name}},
            "status": {"schedulerObservedGeneration": 1},
        }))
        .unwrap()
    }

    fn arrives(canaries: &Canaries, name: &str) {
        let at_once = cutover_core::intent::Read { sent: 0, answered: 0 };
        canaries.reached(name, &canary(name), &Seen::known(Leases::new(), at_once));
    }

    fn reached(canaries: &Canaries, name: &str) -> Option<String> {
        let rides = canaries.lock();
        let reached = rides.reached.get(name)?;
        reached.canary.metadata.name.clone()
    }

    fn waits(asked: Asked) -> bool {
        matches!(asked, Asked::Later(_))
    }

    #[test]
    fn who_asks_while_one_is_on_its_way_rides_with_the_next() {
        let canaries = Canaries::default();
        assert_eq!(canaries.ask("a", SCHEDULER), Asked::Make);
        assert!(waits(canaries.ask("b", SCHEDULER)));
        assert!(waits(canaries.ask("c", SCHEDULER)));

        // What was made before they asked proves nothing about them.
        arrives(&canaries, "a");
        assert_eq!(reached(&canaries, "b"), None);

        assert_eq!(canaries.ask("b", SCHEDULER), Asked::Make);
        assert_eq!(canaries.ask("c", SCHEDULER), Asked::Rides);
        assert!(waits(canaries.ask("d", SCHEDULER)));
        arrives(&canaries, "b");
        assert_eq!(reached(&canaries, "c").as_deref(), Some("b"));
        assert_eq!(reached(&canaries, "d"), None);
    }

    #[test]
    fn each_scheduler_has_canaries_of_its_own() {
        let canaries = Canaries::default();
        assert_eq!(canaries.ask("a", SCHEDULER), Asked::Make);
        assert_eq!(canaries.ask("b", "another"), Asked::Make);
    }

    #[test]
    fn it_is_made_again_for_whoever_made_it() {
        let canaries = Canaries::default();
        assert_eq!(canaries.ask("a", SCHEDULER), Asked::Make);
        assert_eq!(canaries.ask("a", SCHEDULER), Asked::Make);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_arrive_keeps_nobody_waiting() {
        let canaries = Canaries::default();
        canaries.ask("a", SCHEDULER);
        canaries.ask("b", SCHEDULER);
        tokio::time::advance(PATIENCE).await;
        assert_eq!(canaries.ask("b", SCHEDULER), Asked::Make);
        // It still answers who asked before it was made.
        assert!(waits(canaries.ask("c", SCHEDULER)));
        arrives(&canaries, "a");
        assert_eq!((reached(&canaries, "b"), reached(&canaries, "c")), (None, None));
        tokio::time::advance(PATIENCE).await;
        assert_eq!(canaries.ask("d", SCHEDULER), Asked::Make);
        assert_eq!(canaries.ask("c", SCHEDULER), Asked::Rides);
    }

    #[test]
    fn who_rode_along_with_one_that_is_given_up_asks_again() {
        for end in [Canaries::give_up, |canaries: &Canaries, name: &str| {
            canaries.forget(name);
        }] {
            let canaries = Canaries::default();
            canaries.ask("a", SCHEDULER);
            canaries.ask("b", SCHEDULER);
            canaries.ask("c", SCHEDULER);
            end(&canaries, "a");
            assert_eq!(canaries.ask("b", SCHEDULER), Asked::Make);
            end(&canaries, "b");
            assert_eq!(canaries.ask("c", SCHEDULER), Asked::Make);
        }
    }

    #[test]
    fn only_who_made_one_removes_it() {
        let canaries = Canaries::default();
        canaries.ask("a", SCHEDULER);
        canaries.ask("b", SCHEDULER);
        arrives(&canaries, "a");
        canaries.ask("c", SCHEDULER);
        assert!(canaries.forget("a"));
        assert!(!canaries.forget("b"));
        assert!(canaries.forget("c"));
        assert!(canaries.forget("of a process before this one"));
    }

    #[tokio::test]
    async fn they_are_woken_when_it_arrives_and_one_of_those_that_wait_as_well() {
        let workers = Workers::default();
        let canaries = Canaries::waking(workers.clone());
        let asks = |name: &str| {
            let own = ObjectKey {
                name: name.to_owned(),
                ..canary_binding(name)
            };
            let watched_keys = workers.begin(&own).unwrap();
            watched_keys.update(&own, BTreeSet::from([canary_binding(name)]));
            watched_keys.take();
            watched_keys
        };
        let interests: BTreeMap<&str, _> = ["a", "b", "c", "d", "e"].map(|name| (name, asks(name))).into();
        let woken = || -> Vec<&str> {
            let all = interests
                .iter()
                .filter(|(_, watched_keys)| !watched_keys.take().is_empty());
            all.map(|(name, _)| *name).collect()
        };
        for name in ["a", "b", "c"] {
            canaries.ask(name, SCHEDULER);
        }
        arrives(&canaries, "a");
        assert_eq!(woken(), ["b"]);
        for name in ["b", "d", "e"] {
            canaries.ask(name, SCHEDULER);
        }
        arrives(&canaries, "b");
        assert_eq!(woken(), ["c", "d"]);
    }
}
