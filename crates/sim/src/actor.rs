//! An intent and the controller that carries it out, whatever its kind: look, step, journal, effects.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use cutover_core::api::{ClaimOwner, Finding, LeaseSeen, Progress, Suspension, WaitingFor};
use cutover_core::intent::failover::Borrower;
use cutover_core::intent::{self, Effect, Read, Seen, Snapshot, Step, Trouble};
use cutover_karmada::Cluster;
use cutover_karmada::name::ClusterName;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::kinds::{Look, Sources};
use crate::member::Member;
use crate::plane::{Answer, Plane, Workload};

pub const NAMESPACE: &str = "shop";

/// What a machine of a kind decides on.
pub type Input<'a, K> = intent::Input<'a, <K as Kind>::Spec, <K as Kind>::Status, <K as Kind>::Snapshot>;

/// What the simulation has to know of a kind of intents; everything that is decided, the shipped machine decides.
pub trait Kind: Clone + fmt::Debug + Sized + 'static {
    type Spec: Clone + fmt::Debug + Serialize;
    type Status: Progress + fmt::Debug;
    /// What one pass sees.
    type Snapshot;
    /// What a process knows from pass to pass, and takes with it when it dies.
    type Memory: Clone + Default + fmt::Debug;
    const NAME: &'static str;

    /// Boxed, for it is large, and handed on.
    fn snapshot(view: &mut View<'_>, intent: &Intent<Self>) -> Box<Self::Snapshot>;

    fn step(input: &Input<'_, Self>) -> Step<Self::Status>;

    /// Returns of a world that was looked at what the next look can take over.
    #[allow(clippy::boxed_local, reason = "other kinds hand it on")]
    fn keep(_world: Box<Self::Snapshot>) -> Option<Box<Snapshot>> {
        None
    }

    /// A look is taken note of, before anything is decided on it.
    fn note(_input: &Input<'_, Self>, _memory: &mut Self::Memory) {}

    /// What the process knows of earlier looks is added to this one.
    fn recall(_memory: &Self::Memory, _world: &mut Self::Snapshot) {}

    /// Returns whether it has nothing to do, and has not ended.
    fn is_at_rest(_status: &Self::Status) -> bool {
        false
    }

    fn findings(status: &Self::Status) -> &[Finding];

    /// Returns the words that its status offers, and those that its kind always takes where it waits for a person.
    fn offers(intent: &Intent<Self>) -> Vec<Word>;

    /// A person gives a word.
    fn answer(intent: &mut Intent<Self>, word: &Word);

    fn abort(spec: &mut Self::Spec);

    fn pause(spec: &mut Self::Spec, paused: bool);

    /// Returns it as one that may want the claim of a guard.
    fn borrower(_intent: &Intent<Self>) -> Option<Borrower> {
        None
    }
}

/// What a person says to an intent: what its status offers, as it would be typed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word(pub String);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An intent, as the control plane has it.
#[derive(Clone, Debug)]
pub struct Intent<K: Kind> {
    pub name: String,
    pub uid: String,
    /// Which workload it is about.
    pub workload: usize,
    pub created: Timestamp,
    pub labels: Vec<(String, String)>,
    pub spec: K::Spec,
    pub status: K::Status,
    pub generation: i64,
    pub deleting: bool,
    pub has_finalizer: bool,
}

impl<K: Kind> Intent<K> {
    pub fn owner(&self) -> ClaimOwner {
        ClaimOwner {
            kind: K::NAME.to_owned(),
            namespace: NAMESPACE.to_owned(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }
}

/// What other intents are seen to be.
#[derive(Clone, Debug, Default)]
pub struct Others {
    pub borrowers: Vec<Borrower>,
    pub suspensions: Vec<Suspension>,
    pub ahead: Option<ClaimOwner>,
}

/// One pass's reads: of the control plane at two moments, then of the members.
#[derive(Debug)]
pub struct View<'a> {
    pub first: &'a Plane,
    pub then: &'a Plane,
    pub members: &'a [Member],
    pub others: &'a Others,
    pub workload: usize,
    pub tick: &'a mut u64,
    /// The clusters in which nodes that have a pod of the workload are read as well.
    pub doubted: BTreeSet<ClusterName>,
    /// What this process has made of its last look.
    pub last: Option<Look>,
    /// What it makes this one of.
    pub of: Option<Sources>,
}

impl<'a> View<'a> {
    /// The next read: sent and answered after all others.
    pub const fn read(&mut self) -> Read {
        next(self.tick)
    }

    pub fn known<T>(&mut self, value: T) -> Seen<T> {
        Seen::known(value, self.read())
    }

    /// The clusters that have joined.
    pub fn clusters(&mut self) -> Seen<Arc<BTreeMap<ClusterName, Cluster>>> {
        let clusters = Arc::clone(&self.then.clusters);
        self.known(clusters)
    }

    /// Who holds the leases of Karmada's controllers.
    pub fn leases(&mut self) -> Seen<BTreeMap<String, LeaseSeen>> {
        let leases = (*self.then.leases).clone();
        self.known(leases)
    }

    /// What Git says; nothing, where its host gives no answer.
    pub fn of_git<T>(&mut self, value: impl FnOnce(&crate::git::Git) -> T) -> Seen<T> {
        match self.then.git.answers() {
            Ok(()) => {
                let value = value(&self.then.git);
                self.known(value)
            }
            Err(why) => Seen::unknown(why),
        }
    }

    pub fn before(&self) -> &'a Arc<Workload> {
        &self.first.workloads[self.workload]
    }

    pub fn after(&self) -> &'a Arc<Workload> {
        &self.then.workloads[self.workload]
    }

    /// What a member has of the workload, for each of them.
    pub fn each_member<T>(
        &mut self,
        mut of: impl FnMut(&Member, usize, &mut dyn FnMut() -> Read) -> T,
    ) -> Vec<(cutover_karmada::name::ClusterName, T)> {
        let (members, workload) = (self.members, self.workload);
        let tick = &mut *self.tick;
        let mut read = || next(tick);
        let seen = members
            .iter()
            .map(|member| (member.name.clone(), of(member, workload, &mut read)));
        seen.collect()
    }
}

const fn next(tick: &mut u64) -> Read {
    *tick += 2;
    Read {
        sent: *tick,
        answered: *tick + 1,
    }
}

/// What a pass comes to, before its journal is written.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The journal says something new.
    pub writes: bool,
    /// There is something to be sent.
    pub sends: bool,
    /// The phase that it enters.
    pub enters: Option<&'static str>,
}

/// Whatever carries out an intent.
pub trait Actor: fmt::Debug {
    fn kind(&self) -> &'static str;
    fn name(&self) -> &str;
    fn uid(&self) -> &str;
    fn workload(&self) -> usize;
    fn phase(&self) -> &'static str;
    fn has_ended(&self) -> bool;
    /// It has nothing to do, or has ended, and nothing is on its way.
    fn rests(&self) -> bool;
    /// It is deleted, and nothing keeps it.
    fn is_gone(&self) -> bool;
    fn waiting_for(&self) -> Option<&WaitingFor>;
    fn findings(&self) -> &[Finding];
    fn offers(&self) -> Vec<Word>;
    fn answer(&mut self, word: &Word);
    fn abort(&mut self);
    fn pause(&mut self, paused: bool);
    fn delete(&mut self);
    fn borrower(&self) -> Option<Borrower>;
    fn as_suspension(&self) -> Option<Suspension>;
    /// As the control plane has it, for whoever goes by its fields.
    fn json(&self) -> Value;

    /// Takes the next request out of what is to be sent.
    fn next(&mut self) -> Option<Effect>;
    /// A request was answered: one that wasn't carried out ends the pass.
    fn answered(&mut self, effect: &Effect, answer: &Answer);
    /// Its own object is changed.
    fn take(&mut self, effect: &Effect) -> Option<Answer>;
    /// Reads on; returns whether all of the control plane is read.
    fn look(&mut self, plane: &Plane) -> bool;
    /// Reads the members, and decides.
    fn plan(&mut self, members: &[Member], others: &Others, now: Timestamp, tick: &mut u64) -> Plan;
    /// The journal is written: what was decided may be sent.
    fn accept(&mut self);
    /// The process dies.
    fn die(&mut self);

    fn boxed(&self) -> Box<dyn Actor>;
    fn any(&self) -> &dyn Any;
    fn any_mut(&mut self) -> &mut dyn Any;
}

impl Clone for Box<dyn Actor> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

/// An intent with the process that carries it out.
#[derive(Clone, Debug)]
pub struct Running<K: Kind> {
    pub intent: Intent<K>,
    looked: Vec<Plane>,
    planned: Option<Step<K::Status>>,
    outbox: VecDeque<Effect>,
    trouble: Option<Trouble>,
    memory: K::Memory,
    last: Last,
}

/// What a process has made of its last look. It spares copies, and says nothing: a copy of the world begins without.
#[derive(Debug, Default)]
struct Last(Option<Look>);

impl Clone for Last {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<K: Kind> Running<K> {
    pub fn new(intent: Intent<K>) -> Self {
        Self {
            intent,
            looked: Vec::new(),
            planned: None,
            outbox: VecDeque::new(),
            trouble: None,
            memory: K::Memory::default(),
            last: Last::default(),
        }
    }

    fn input<'a>(
        intent: &'a Intent<K>,
        trouble: Option<&'a Trouble>,
        ahead: Option<&'a ClaimOwner>,
        snapshot: &'a K::Snapshot,
        now: Timestamp,
    ) -> Input<'a, K> {
        Input::<K> {
            uid: &intent.uid,
            namespace: Some(NAMESPACE),
            name: &intent.name,
            generation: intent.generation,
            revision: None,
            deleting: intent.deleting,
            overtaken: None,
            has_finalizer: intent.has_finalizer,
            spec: &intent.spec,
            status: &intent.status,
            trouble,
            ahead,
            snapshot,
            now,
        }
    }
}

impl<K: Kind> Actor for Running<K> {
    fn kind(&self) -> &'static str {
        K::NAME
    }

    fn name(&self) -> &str {
        &self.intent.name
    }

    fn uid(&self) -> &str {
        &self.intent.uid
    }

    fn workload(&self) -> usize {
        self.intent.workload
    }

    fn phase(&self) -> &'static str {
        self.intent.status.phase_name()
    }

    fn has_ended(&self) -> bool {
        self.intent.status.has_ended()
    }

    fn rests(&self) -> bool {
        let status = &self.intent.status;
        self.outbox.is_empty() && (self.is_gone() || status.has_ended() || K::is_at_rest(status))
    }

    fn is_gone(&self) -> bool {
        self.intent.deleting && !self.intent.has_finalizer
    }

    fn waiting_for(&self) -> Option<&WaitingFor> {
        self.intent.status.waiting_for()
    }

    fn findings(&self) -> &[Finding] {
        K::findings(&self.intent.status)
    }

    fn offers(&self) -> Vec<Word> {
        K::offers(&self.intent)
    }

    fn answer(&mut self, word: &Word) {
        K::answer(&mut self.intent, word);
        self.intent.generation += 1;
    }

    fn abort(&mut self) {
        K::abort(&mut self.intent.spec);
        self.intent.generation += 1;
    }

    fn pause(&mut self, paused: bool) {
        K::pause(&mut self.intent.spec, paused);
        self.intent.generation += 1;
    }

    fn delete(&mut self) {
        self.intent.deleting = true;
    }

    fn borrower(&self) -> Option<Borrower> {
        K::borrower(&self.intent)
    }

    fn as_suspension(&self) -> Option<Suspension> {
        if K::NAME != "Suspension" || self.is_gone() {
            return None;
        }
        serde_json::from_value(self.json()).ok()
    }

    fn json(&self) -> Value {
        let intent = &self.intent;
        let labels: serde_json::Map<String, Value> = intent
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()))
            .collect();
        json!({
            "apiVersion": cutover_core::api::API_VERSION, "kind": K::NAME,
            "metadata": {
                "name": intent.name, "namespace": NAMESPACE, "uid": intent.uid, "labels": labels,
                "generation": intent.generation, "creationTimestamp": intent.created,
                "deletionTimestamp": intent.deleting.then_some(intent.created),
            },
            "spec": intent.spec, "status": intent.status,
        })
    }

    fn next(&mut self) -> Option<Effect> {
        self.outbox.pop_front()
    }

    fn answered(&mut self, effect: &Effect, answer: &Answer) {
        match answer {
            Answer::Done | Answer::Exists => self.trouble = None,
            Answer::Stale => self.outbox.clear(),
            Answer::Failed(why) => {
                self.outbox.clear();
                self.trouble = Some(Trouble {
                    text: format!("{effect}: {why}"),
                    no_canary: false,
                });
            }
        }
    }

    fn take(&mut self, effect: &Effect) -> Option<Answer> {
        let has = match effect {
            Effect::AddFinalizer => true,
            Effect::RemoveFinalizer => false,
            _ => return None,
        };
        let before = std::mem::replace(&mut self.intent.has_finalizer, has);
        Some(if before == has {
            Answer::Stale
        } else {
            Answer::Done
        })
    }

    fn look(&mut self, plane: &Plane) -> bool {
        if self.looked.len() < 2 {
            self.looked.push(plane.clone());
        }
        self.looked.len() == 2
    }

    fn plan(&mut self, members: &[Member], others: &Others, now: Timestamp, tick: &mut u64) -> Plan {
        let looked = std::mem::take(&mut self.looked);
        let mut view = View {
            first: &looked[0],
            then: &looked[1],
            members,
            others,
            workload: self.intent.workload,
            tick,
            doubted: BTreeSet::new(),
            last: self.last.0.take(),
            of: None,
        };
        let mut snapshot = K::snapshot(&mut view, &self.intent);
        let of = view.of;
        let (intent, trouble) = (&self.intent, self.trouble.as_ref());
        K::note(
            &Self::input(intent, trouble, None, &snapshot, now),
            &mut self.memory,
        );
        K::recall(&self.memory, &mut snapshot);
        let step = K::step(&Self::input(
            intent,
            trouble,
            others.ahead.as_ref(),
            &snapshot,
            now,
        ));
        let (before, after) = (self.phase(), step.status.phase_name());
        let plan = Plan {
            writes: step.status != self.intent.status,
            sends: !step.effects.is_empty(),
            enters: (before != after).then_some(after),
        };
        self.planned = Some(step);
        let kept = K::keep(snapshot).zip(of);
        self.last = Last(kept.map(|(snapshot, of)| Look { snapshot, of }));
        plan
    }

    fn accept(&mut self) {
        if let Some(step) = self.planned.take() {
            self.intent.status = step.status;
            self.outbox = step.effects.into();
        }
    }

    fn die(&mut self) {
        self.looked.clear();
        self.planned = None;
        self.outbox.clear();
        self.trouble = None;
        self.memory = K::Memory::default();
        self.last = Last::default();
    }

    fn boxed(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }

    fn any(&self) -> &dyn Any {
        self
    }

    fn any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Returns the uids of all suspensions that there are.
pub fn uids(suspensions: &[Suspension]) -> BTreeSet<String> {
    suspensions
        .iter()
        .filter_map(|one| one.metadata.uid.clone())
        .collect()
}
