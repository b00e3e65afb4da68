//! What can happen next, and how runs go: all in turn, or in an order that a seed draws.

use std::sync::Arc;
use std::time::Duration;

use cutover_core::intent::{Effect, rivals};

use crate::Sim;
use crate::actor::Others;
use crate::karmada::{self, Watch};
use crate::ledger::By;
use crate::plane::Answer;

/// How long a round takes, and how long one at most in which nothing happens.
const ROUND: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(5);

/// How many turns in a row an intent may need.
const MOST: usize = 300;

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

/// What can happen next. Places are those of members, and of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    Intent(usize),
    HearScheduler,
    Decide,
    Place,
    Hear(usize, Watch),
    Detect(usize),
    Orphans(usize),
    EndEvictions(usize),
    /// The binding controller computes, and writes.
    Compute(usize, usize),
    Write,
    Late,
    Execute(usize, usize),
    Operate(usize, usize),
    Report(usize, usize),
    Read(usize, usize),
    Kubelet(usize, usize),
}

impl Sim {
    /// Returns whether every intent has ended, or has nothing to do while nothing happens.
    pub fn is_over(&self) -> bool {
        let all = self.actors.iter().all(|actor| actor.rests());
        let stand = self
            .actors
            .iter()
            .any(|actor| !actor.has_ended() && !actor.is_gone());
        all && (!stand || self.quiet > 1)
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

    /// Goes on for so many rounds, whatever comes of it.
    pub fn go_on(&mut self, rounds: u32) {
        for _ in 0..rounds {
            self.round();
        }
    }

    /// Everybody has a turn, and time passes: the more, the longer nothing has happened.
    pub fn round(&mut self) {
        self.moved = false;
        for nth in 0..self.actors.len() {
            self.turns(nth);
        }
        self.deliver_late();
        while self.world_moves() {}
        for ledger in &mut self.ledgers {
            ledger.write();
        }
        self.quiet = if self.moved {
            0
        } else {
            self.quiet.saturating_add(1)
        };
        let longer = 1_u32 << self.quiet.saturating_sub(1).min(5);
        self.later((ROUND * longer).min(LONGEST));
    }

    /// An intent has turns as long as something comes of them.
    fn turns(&mut self, nth: usize) {
        let most = (0..MOST).take_while(|_| self.turn(nth)).count();
        if most == MOST {
            let name = self.actors[nth].name().to_owned();
            self.breaches.push(format!("{name} goes on and on"));
        }
    }

    /// Goes on in an order that a seed draws; returns whether it came to an end.
    pub fn play_at_random(&mut self, seed: u64, steps: u32) -> bool {
        let mut rng = fastrand::Rng::with_seed(seed);
        let moves = self.moves();
        let intents = self.actors.len();
        for step in 0..steps {
            let is_over = self.actors.iter().all(|actor| actor.has_ended() && actor.rests());
            if is_over && self.late.is_empty() {
                return true;
            }
            // The controllers have as many turns as a fifth of all.
            let next = if rng.u8(..5) == 0 {
                Move::Intent(rng.usize(..intents))
            } else {
                moves[rng.usize(..moves.len())]
            };
            self.act(next);
            if step % 7 == 0 {
                for ledger in &mut self.ledgers {
                    ledger.write();
                }
                self.later(ROUND);
            }
        }
        self.is_over()
    }

    /// Everybody but the controllers of intents has a turn, each as often as there is something to do.
    pub fn settle(&mut self) {
        while self.world_moves() {}
    }

    /// New processes of Karmada take their leases. What the old ones had decided is on its way still; what the new ones read may be
    /// older than what those knew.
    pub fn replace_controllers(&mut self) {
        self.controllers = self.controllers.replaced();
        self.takes_lease("karmada-controller-manager");
    }

    pub fn replace_scheduler(&mut self) {
        self.scheduler = self.scheduler.replaced();
        self.takes_lease("karmada-scheduler");
    }

    fn takes_lease(&mut self, name: &str) {
        if let Some(lease) = Arc::make_mut(&mut self.plane.leases).get_mut(name) {
            lease.transitions += 1;
            lease.holder = Some(format!("{name}-{}", lease.transitions));
        }
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = vec![
            Move::HearScheduler,
            Move::Decide,
            Move::Place,
            Move::Write,
            Move::Late,
        ];
        for workload in 0..self.plane.workloads.len() {
            moves.extend([
                Move::Detect(workload),
                Move::Hear(workload, Watch::Templates),
                Move::Hear(workload, Watch::Pins),
                Move::Hear(workload, Watch::Bindings),
                Move::Orphans(workload),
                Move::EndEvictions(workload),
            ]);
            for place in 0..self.members.len() {
                moves.extend([
                    Move::Compute(workload, place),
                    Move::Execute(workload, place),
                    Move::Operate(workload, place),
                    Move::Report(workload, place),
                    Move::Read(workload, place),
                    Move::Kubelet(workload, place),
                ]);
            }
        }
        moves
    }

    fn act(&mut self, next: Move) -> bool {
        match next {
            Move::Intent(nth) => self.turn(nth),
            Move::Late => self.deliver_late(),
            Move::HearScheduler => self.scheduler.hear(&self.plane),
            Move::Decide => self.scheduler.decide(&self.plane),
            Move::Place => self.place(),
            Move::Hear(workload, watch) => self.controllers.hear(&self.plane, workload, watch),
            Move::Detect(workload) => self.controllers.detect(&mut self.plane, workload),
            Move::Orphans(workload) => self.controllers.remove_orphans(&mut self.plane, workload),
            Move::EndEvictions(workload) => self.end_evictions(workload),
            Move::Compute(workload, place) => self.compute(workload, place),
            Move::Write => match self.computed.pop() {
                Some(computed) => karmada::write(&mut self.plane, computed),
                None => false,
            },
            Move::Execute(workload, place) => self.execute(workload, place),
            Move::Operate(workload, place) => {
                self.members[place].operate(workload, &mut self.ledgers[workload])
            }
            Move::Report(workload, place) => self.members[place].report(workload),
            Move::Read(workload, place) => self.members[place].read(workload),
            Move::Kubelet(workload, place) => {
                let moved = self.members[place].kubelet(workload, &mut self.ledgers[workload]);
                if moved {
                    self.judge_floor(workload);
                }
                moved
            }
        }
    }

    fn place(&mut self) -> bool {
        if !self.scheduler.has_decided() {
            return false;
        }
        let before: Vec<_> = self.plane.workloads.iter().map(|of| of.listed()).collect();
        let moved = self.scheduler.write(&mut self.plane);
        for (workload, before) in before.into_iter().enumerate() {
            if self.plane.workloads[workload].listed() != before {
                self.listed_by[workload] = By::Others;
                let now = self.plane.workloads[workload].listed();
                self.tell(|| format!("the scheduler chooses {now:?} instead of {before:?}"));
            }
        }
        moved
    }

    fn compute(&mut self, workload: usize, place: usize) -> bool {
        let cluster = &self.members[place].name;
        // One worker a binding: it writes what it has computed before it computes again.
        let is_busy = self
            .computed
            .iter()
            .any(|one| one.workload() == workload && one.cluster() == cluster);
        if is_busy {
            return false;
        }
        let computed = self.controllers.compute(&self.plane, workload, cluster);
        let is_new = computed.is_some();
        self.computed.extend(computed);
        is_new
    }

    fn execute(&mut self, workload: usize, place: usize) -> bool {
        let is_watched = self.ledgers[workload].stateless;
        let before = self.members[place].copies[workload].object.clone();
        let before = before.filter(|_| is_watched);
        let (member, by) = (&mut self.members[place], self.listed_by[workload]);
        let moved = karmada::execute(&mut self.plane, member, workload, &mut self.ledgers[workload], by);
        let after = &self.members[place].copies[workload].object;
        // One that is deleted, or made anew, is another matter.
        let is_changed = before
            .as_ref()
            .zip(after.as_ref())
            .is_some_and(|(before, after)| before["spec"] != after["spec"]);
        if moved && is_changed {
            self.judge_spec(workload, place);
        }
        moved
    }

    fn end_evictions(&mut self, workload: usize) -> bool {
        let members = &self.members;
        let is_well = |name: &cutover_karmada::name::ClusterName| {
            let mut members = members.iter();
            let member = members.find(|member| member.name == *name);
            member.is_some_and(|member| member.is_steered && member.ready(workload) > 0)
        };
        karmada::end_evictions(&mut self.plane, workload, self.now, is_well)
    }

    /// Everybody but the controllers of intents does what there is to do; returns whether there was anything.
    pub(super) fn world_moves(&mut self) -> bool {
        let mut moved = false;
        for next in self.moves() {
            if next != Move::Late {
                moved |= self.act(next);
            }
        }
        self.moved |= moved;
        moved
    }

    /// Requests of dead processes arrive, the first that was sent first.
    fn deliver_late(&mut self) -> bool {
        let is_due = match self.kill {
            Some(Kill {
                line,
                side: Side::Late(by),
            }) => self.lines >= line.saturating_add(by),
            _ => true,
        };
        if self.late.is_empty() || !(is_due || self.is_over()) {
            return false;
        }
        let (nth, effect) = self.late.remove(0);
        let answer = self.take(nth, &effect);
        self.moved = true;
        self.tell(|| format!("late, {answer:?}: {effect}"));
        answer == Answer::Done
    }

    /// The controller of an intent does its next step: it reads the control plane, it reads the members and decides, or it sends
    /// one request. Returns whether it has changed anything, or is about to.
    pub fn turn(&mut self, nth: usize) -> bool {
        if self.plane.is_down {
            return false;
        }
        if let Some(effect) = self.actors[nth].next() {
            return self.send(nth, effect);
        }
        if self.actors[nth].is_gone() {
            return false;
        }
        if !self.actors[nth].look(&self.plane) {
            return true;
        }
        self.decide(nth)
    }

    /// A line: returns whether the controller lives on, and how it dies.
    fn line(&mut self) -> Option<Side> {
        self.lines += 1;
        self.kill
            .filter(|kill| kill.line == self.lines)
            .map(|kill| kill.side)
    }

    /// The process dies, and with it what it was about to do for any intent; another one takes over.
    pub fn die(&mut self) {
        for actor in &mut self.actors {
            actor.die();
        }
        self.tell(|| "the controller is killed".to_owned());
    }

    fn take(&mut self, nth: usize, effect: &Effect) -> Answer {
        if let Some(answer) = self.actors[nth].take(effect) {
            return answer;
        }
        match effect {
            Effect::CreateIntent { manifest } => return self.create_intent(manifest),
            Effect::DeleteIntent { kind, intent } => return self.delete_intent(kind, &intent.uid),
            Effect::PatchBinding { .. } => {}
            other => return self.plane.take(other),
        }
        let workload = self.actors[nth].workload();
        let before = self.plane.workloads[workload].listed();
        let answer = self.plane.take(effect);
        if self.plane.workloads[workload].listed() != before {
            self.listed_by[workload] = By::Tool;
        }
        answer
    }

    fn send(&mut self, nth: usize, effect: Effect) -> bool {
        self.moved = true;
        let dies = self.line();
        match dies {
            Some(Side::Before) => {
                self.die();
                return true;
            }
            Some(Side::Late(_)) => {
                self.tell(|| format!("sent, and not there yet: {effect}"));
                self.late.push((nth, effect));
                self.die();
                return true;
            }
            _ => {}
        }
        let answer = self.take(nth, &effect);
        self.actors[nth].answered(&effect, &answer);
        if answer == Answer::Done && !self.is_silent {
            let phase = self.actors[nth].phase();
            self.sent.push(format!("{phase}: {effect}"));
        }
        self.tell(|| match &answer {
            Answer::Done => effect.to_string(),
            other => format!("{effect} ({other:?})"),
        });
        if dies == Some(Side::After) {
            self.die();
            return true;
        }
        answer == Answer::Done
    }

    /// One pass: the journal is written, then what is to be sent is. Returns whether anything comes of it.
    fn decide(&mut self, nth: usize) -> bool {
        let others = self.others(nth);
        let plan = self.actors[nth].plan(&self.members, &others, self.now, &mut self.tick);
        if plan.writes {
            let dies = self.line();
            if matches!(dies, Some(Side::Before | Side::Late(_))) {
                self.die();
                return true;
            }
            if let Some(phase) = plan.enters {
                self.moved = true;
                let name = self.actors[nth].name().to_owned();
                self.tell(|| format!("{name}: phase {phase}"));
            }
            self.actors[nth].accept();
            if dies.is_some() {
                self.die();
            }
            return true;
        }
        self.actors[nth].accept();
        plan.sends
    }

    fn others(&self, nth: usize) -> Others {
        let own = &self.actors[nth];
        let alone = self.actors.len() == 1;
        if alone && own.kind() != "Suspension" {
            return Others::default();
        }
        let may_ask =
            rivals::KINDS.contains(&own.kind()) && (own.phase() == "Pending" || own.kind() == "Rollout");
        let ahead = (may_ask && !alone).then(|| {
            let all = self
                .actors
                .iter()
                .filter(|actor| !actor.is_gone() && rivals::KINDS.contains(&actor.kind()));
            let all: Vec<_> = all.map(|actor| actor.json()).collect();
            rivals::ahead(&own.json(), &all)
        });
        Others {
            borrowers: self.actors.iter().filter_map(|actor| actor.borrower()).collect(),
            suspensions: self
                .actors
                .iter()
                .filter_map(|actor| actor.as_suspension())
                .collect(),
            ahead: ahead.flatten(),
        }
    }
}
