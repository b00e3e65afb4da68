//! What can happen next, and how runs go: all in turn, or in an order that a seed draws.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cutover_core::api::MigrationStatus;
use cutover_core::intent::custody::canary_name;
use cutover_core::intent::migration::{self, Input, watch};
use cutover_core::intent::world::{self, Desired, Overrides};
use cutover_core::intent::{Effect, Read, Seen, World};
use cutover_karmada::name::{ClusterName, ObjectKey};

use super::plane::Plane;
use super::{Process, Sim, UID, karmada, setting};

/// How much of a soak counts at most between two looks.
const LONGEST: Duration = Duration::from_secs(10);
/// How long a round takes.
const ROUND: Duration = Duration::from_millis(250);

/// On which side of a line the controller is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Before,
    After,
    /// The request is on its way, and arrives so many lines of the next process later.
    Late(u32),
}

/// The controller is killed at this line; the first has the number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    pub line: u32,
    pub side: Side,
}

/// What can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Controller,
    Scheduler,
    HearOfPin,
    HearOfBinding,
    /// The binding controller computes, and writes.
    Compute(usize),
    Write,
    Orphans,
    Execute(usize),
    ReadObject(usize),
    Operate(usize),
    Kubelet(usize),
    Late,
}

impl Sim {
    /// Returns whether the migration is at its end, with nothing of it left.
    pub fn is_over(&self) -> bool {
        self.intent.status.phase.is_terminal() && self.process.outbox.is_empty()
    }

    /// Goes on in turn until it is over, at most so many rounds; returns whether it is.
    pub fn play(&mut self, rounds: u32) -> bool {
        self.play_until(rounds, Self::is_over)
    }

    pub fn play_until(&mut self, rounds: u32, is_so: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..rounds {
            if is_so(self) {
                return true;
            }
            self.round();
        }
        is_so(self)
    }

    /// Everybody has a turn, and time passes.
    pub fn round(&mut self) {
        while self.controller() {}
        self.deliver_late();
        while self.world_moves() {}
        self.ledger.write();
        self.later(ROUND);
    }

    /// Goes on in an order that a seed draws; returns whether it came to an end.
    pub fn play_at_random(&mut self, seed: u64, steps: u32) -> bool {
        let mut rng = fastrand::Rng::with_seed(seed);
        let actors = self.actors();
        for step in 0..steps {
            if self.is_over() && self.late.is_empty() {
                return true;
            }
            let actor = actors[rng.usize(..actors.len())];
            self.act(actor);
            if step % 7 == 0 {
                self.ledger.write();
                self.later(ROUND);
            }
        }
        self.is_over()
    }

    /// Somebody lets the scheduler have the workload.
    pub fn resume_scheduling(&mut self) {
        if let Some(mut binding) = self.plane.binding.clone() {
            binding["spec"]["suspension"] = serde_json::Value::Null;
            self.plane.put_binding(binding);
        }
    }

    /// The scheduler has a turn before anybody else.
    pub fn schedule(&mut self) {
        karmada::schedule(&mut self.plane);
    }

    /// New processes of Karmada take their leases: what the old ones had computed or heard is gone.
    pub fn replace_processes(&mut self) {
        self.computed.clear();
        self.caches = karmada::Caches::default();
        for lease in self.plane.leases.values_mut() {
            lease.transitions += 1;
            lease.holder = Some(format!("process-{}", lease.transitions));
        }
    }

    fn actors(&self) -> Vec<Actor> {
        let mut actors = vec![
            Actor::Controller,
            Actor::Controller,
            Actor::Scheduler,
            Actor::HearOfPin,
            Actor::HearOfBinding,
            Actor::Write,
            Actor::Orphans,
            Actor::Late,
        ];
        for place in 0..self.members.len() {
            actors.extend([
                Actor::Compute(place),
                Actor::Execute(place),
                Actor::ReadObject(place),
                Actor::Operate(place),
                Actor::Kubelet(place),
            ]);
        }
        actors
    }

    fn act(&mut self, actor: Actor) -> bool {
        let name = |place: usize| self.members.keys().nth(place).cloned();
        match actor {
            Actor::Controller => self.controller(),
            Actor::Scheduler => karmada::schedule(&mut self.plane),
            Actor::HearOfPin => self.caches.hear_of_pin(&self.plane),
            Actor::HearOfBinding => self.caches.hear_of_binding(&self.plane),
            Actor::Compute(place) => {
                let computed =
                    name(place).and_then(|name| karmada::compute(&self.plane, &self.caches, &name));
                // One worker a binding: it writes what it has computed before it computes again.
                let is_free = computed
                    .as_ref()
                    .is_some_and(|new| self.computed.iter().all(|known| known.cluster != new.cluster));
                if is_free {
                    self.computed.extend(computed);
                }
                is_free
            }
            Actor::Write => match self.computed.pop() {
                Some(computed) => karmada::write(&mut self.plane, computed),
                None => false,
            },
            Actor::Orphans => karmada::remove_orphans(&mut self.plane),
            Actor::Late => self.deliver_late(),
            Actor::Execute(place) => {
                let Some(name) = name(place) else { return false };
                let Some(member) = self.members.get_mut(&name) else {
                    return false;
                };
                karmada::execute(&mut self.plane, member, &mut self.ledger)
            }
            Actor::ReadObject(place) => self.of_member(place, |member, _| member.read()),
            Actor::Operate(place) => self.of_member(place, super::Member::operate),
            Actor::Kubelet(place) => self.of_member(place, |member, ledger| member.kubelet(ledger)),
        }
    }

    fn of_member(
        &mut self,
        place: usize,
        what: impl FnOnce(&mut super::Member, &mut super::Ledger) -> bool,
    ) -> bool {
        match self.members.values_mut().nth(place) {
            Some(member) => what(member, &mut self.ledger),
            None => false,
        }
    }

    /// Everybody but the controller does what there is to do; returns whether there was anything.
    pub(super) fn world_moves(&mut self) -> bool {
        let actors = self.actors();
        let others = actors
            .into_iter()
            .filter(|actor| !matches!(actor, Actor::Controller | Actor::Late));
        let mut moved = false;
        for actor in others {
            moved |= self.act(actor);
        }
        moved
    }

    /// Requests of dead processes arrive, the first that was sent first.
    fn deliver_late(&mut self) -> bool {
        let is_due = match self.kill {
            Some(Kill {
                line,
                side: Side::Late(by),
            }) => self.lines >= line + by,
            _ => true,
        };
        if self.late.is_empty() || !(is_due || self.is_over()) {
            return false;
        }
        let effect = self.late.remove(0);
        let done = self.plane.take(&effect);
        self.tell(|| format!("late, {}: {effect}", if done { "done" } else { "refused" }));
        done
    }

    /// The controller does its next step: it reads the control plane, it reads the members and decides, or it sends one
    /// request. Returns whether it has changed anything, or is about to.
    pub fn controller(&mut self) -> bool {
        if !self.process.outbox.is_empty() {
            let effect = self.process.outbox.remove(0);
            return self.send(effect);
        }
        let Some(plane) = self.process.looking.take() else {
            if self.plane.is_gone {
                return false;
            }
            self.process.looking = Some(Box::new(self.plane.clone()));
            return true;
        };
        self.decide(&plane)
    }

    /// A line: returns whether the controller lives on, and how it dies.
    fn line(&mut self) -> Option<Side> {
        self.lines += 1;
        self.kill
            .filter(|kill| kill.line == self.lines)
            .map(|kill| kill.side)
    }

    fn die(&mut self) {
        self.process = Process::default();
        self.tell(|| "the controller is killed".to_owned());
    }

    fn send(&mut self, effect: Effect) -> bool {
        let dies = self.line();
        match dies {
            Some(Side::Before) => {
                self.die();
                return true;
            }
            Some(Side::Late(_)) => {
                self.tell(|| format!("sent, and not there yet: {effect}"));
                self.late.push(effect);
                self.die();
                return true;
            }
            _ => {}
        }
        let done = self.plane.take(&effect);
        self.tell(|| format!("{effect}{}", if done { "" } else { " (nothing written)" }));
        if dies == Some(Side::After) {
            self.die();
            return true;
        }
        done
    }

    /// One pass: the journal is written, then what is to be sent is. Returns whether anything comes of it.
    fn decide(&mut self, plane: &Plane) -> bool {
        let mut world = self.look(plane);
        let status = self.intent.status.clone();
        let look = watch::look(&self.input(&status, plane, &world));
        world.watched = soak(&mut self.process, look, self.now);
        let step = migration::step(&self.input(&status, plane, &world));
        if step.status == status {
            let sends = !step.effects.is_empty();
            self.process.outbox = step.effects;
            return sends;
        }
        let dies = self.line();
        if matches!(dies, Some(Side::Before | Side::Late(_))) {
            self.die();
            return true;
        }
        if step.status.phase != status.phase {
            let phase = step.status.phase;
            self.tell(|| format!("phase {phase}"));
        }
        self.intent.status = step.status;
        self.process.outbox = step.effects;
        if dies.is_some() {
            self.die();
        }
        true
    }

    fn input<'a>(&'a self, status: &'a MigrationStatus, plane: &Plane, world: &'a World) -> Input<'a> {
        Input {
            uid: UID,
            namespace: Some("shop"),
            name: "orders-to-west",
            generation: self.intent.generation,
            revision: None,
            deleting: self.intent.deleting,
            has_finalizer: plane.has_finalizer,
            spec: &self.intent.spec,
            status,
            trouble: None,
            ahead: None,
            world,
            now: self.now,
        }
    }

    fn look(&mut self, plane: &Plane) -> World {
        let mut tick = self.tick;
        let mut read = || {
            tick += 2;
            Read {
                sent: tick,
                answered: tick + 1,
            }
        };
        let unread = || "not read in the simulation";
        let status = &self.intent.status;
        let canary = status.journal.as_ref().map(|journal| journal.fence.canary);
        let canary = canary.and_then(|number| plane.canary(&canary_name(UID, status.attempt, number)));
        let overrides = Overrides {
            cluster_wide: Arc::default(),
            namespaced: Arc::new(plane.pin.iter().cloned().collect()),
            versions: Arc::new(vec![setting::API_VERSION.to_owned()]),
        };
        let mut world = World {
            workload: ObjectKey {
                group: "flink.apache.org".to_owned(),
                kind: setting::KIND.to_owned(),
                namespace: Some("shop".to_owned()),
                name: "orders".to_owned(),
            },
            template: Seen::known(plane.template.clone(), read()),
            binding: Seen::known(plane.binding(), read()),
            works: Seen::known(plane.works(), read()),
            claim: Seen::known(plane.claim.clone(), read()),
            pin: Seen::known(plane.pin.clone(), read()),
            overrides: Seen::known(overrides, read()),
            clusters: Seen::known(Arc::clone(&plane.clusters), read()),
            canary: Seen::known(canary, read()),
            leases: Seen::known(plane.leases.clone(), read()),
            profiles: Seen::known(Vec::new(), read()),
            metrics: BTreeMap::new(),
            others: BTreeMap::new(),
            members: BTreeMap::new(),
            beside: Vec::new(),
            scalers: Seen::unknown(unread()),
            desired: Seen::known(Desired::default(), read()),
            policy: Seen::known(None, read()),
            arriving: Seen::known(Vec::new(), read()),
            admission: None,
            watched: Duration::ZERO,
            warnings: Vec::new(),
            record: Seen::known(plane.record.clone(), read()),
        };
        for (name, member) in &self.members {
            let seen = seen_of(name, member, &mut read);
            world.members.insert(name.clone(), seen);
        }
        self.tick = tick;
        world
    }
}

fn seen_of(name: &ClusterName, member: &super::Member, mut read: impl FnMut() -> Read) -> world::Member {
    if !member.reachable {
        let why = format!("{name} gives no answer");
        return world::Member {
            object: Seen::unknown(&why),
            pods: Seen::unknown(&why),
            nodes: Seen::unknown(&why),
            silent: true,
        };
    }
    world::Member {
        object: Seen::known(member.object.clone(), read()),
        pods: Seen::known(member.pods.clone(), read()),
        nodes: Seen::known([(format!("{name}-node"), true)].into(), read()),
        silent: false,
    }
}

/// The time between two good looks of one process at one run.
fn soak(process: &mut Process, look: watch::Look, now: jiff::Timestamp) -> Duration {
    let since = process.looked.replace(now);
    match look {
        watch::Look::Good(run) if process.run.as_ref() == Some(&run) => {
            let passed = since.map(|since| now.duration_since(since).unsigned_abs());
            process.watched += passed.unwrap_or_default().min(LONGEST);
        }
        watch::Look::Good(run) => {
            process.run = Some(run);
            process.watched = Duration::ZERO;
        }
        watch::Look::Bad => {
            process.run = None;
            process.watched = Duration::ZERO;
        }
        watch::Look::Unknown => process.looked = None,
    }
    process.watched
}
