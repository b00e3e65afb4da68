//! What comes between, in each phase of each kind: it comes to an end or to rest, or stands and says why; one copy runs in the end,
//! and at no time two.
//!
//! `cargo test --package cutover-sim --test simulation cells -- --nocapture` prints the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use cutover_karmada::PurgeMode;
use cutover_sim::actor::Word;
use cutover_sim::kinds::{FailoverPlan, gives_up};
use cutover_sim::ledger::{By, Violation};
use cutover_sim::{EAST, Event, Sim, WEST};
use serde_json::json;

const ROUNDS: u32 = 300;
/// How long what comes between lasts.
const LASTS: u32 = 40;
/// How a breach ends that is of a rollout.
const BEFORE_ITS_TURN: &str = "before its turn";
/// How many words a person gives at most.
const WORDS: usize = 4;

type Provoke = fn(&mut Sim);

/// How a phase is come to: what is done when another phase begins.
struct Way {
    phase: &'static str,
    provoked: &'static [(&'static str, Provoke)],
}

const fn by_itself(phase: &'static str) -> Way {
    Way { phase, provoked: &[] }
}

/// How a cell came out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It ended, or came to rest, in that phase.
    Comes(&'static str, Vec<Word>),
    /// It waits, and offers no word that ends it.
    Stands(String),
    Wrong(String),
}

impl Outcome {
    fn class(&self) -> String {
        match self {
            Self::Comes(phase, words) if words.is_empty() => (*phase).to_owned(),
            Self::Comes(phase, words) => format!("{phase} after {} words", words.len()),
            Self::Stands(_) => "stands".to_owned(),
            Self::Wrong(_) => "WRONG".to_owned(),
        }
    }
}

/// The intent in a phase, before its first effect.
fn in_phase(snapshot: &Sim, way: &Way) -> Sim {
    let mut sim = snapshot.clone();
    let mut provoked = way.provoked.iter();
    let mut next = provoked.next();
    for _ in 0..ROUNDS {
        loop {
            let phase = sim.actors[0].phase();
            if next.is_none() && phase == way.phase {
                return sim;
            }
            if let Some((at, provoke)) = next
                && *at == phase
            {
                provoke(&mut sim);
                next = provoked.next();
            }
            let moved = (0..sim.actors.len()).any(|nth| sim.turn(nth));
            if !moved {
                break;
            }
        }
        sim.round();
    }
    panic!("{} never comes\n{}", way.phase, sim.account());
}

/// People have been told of what the ledger found.
fn is_told(sim: &Sim) -> bool {
    let plans = (0..sim.actors.len()).filter_map(|nth| sim.intent::<FailoverPlan>(nth));
    let moved = plans.into_iter().any(|plan| !plan.status.history.is_empty());
    moved || sim.actors.iter().any(|actor| !actor.findings().is_empty())
}

/// Returns what nobody but the tool can be blamed for, or what people have not been told of. `untouched`: nothing stood around
/// the workload when it happened.
fn wrong(sim: &Sim, event: Event, words: &[Word], untouched: bool) -> Option<String> {
    let given_up = words.iter().any(gives_up);
    let told = is_told(sim);
    for ledger in &sim.ledgers {
        for violation in &ledger.violations {
            let excused = match violation {
                Violation::Lost { charged, .. } if *charged != By::Tool => given_up || told || untouched,
                Violation::Lost { .. } => given_up || (told && event.is_hostile()),
                Violation::TwoWriters { .. } => untouched || (told && event.is_hostile()),
            };
            if !excused {
                return Some(violation.to_string());
            }
        }
    }
    // Whoever takes the pin away lets every cluster have what the template says.
    let excused = |breach: &&String| told && event.is_hostile() && breach.ends_with(BEFORE_ITS_TURN);
    sim.breaches.iter().find(|breach| !excused(breach)).cloned()
}

/// A person gives each word that the status offers, until it is over or offers no new one; returns what was said.
fn answered(sim: &mut Sim) -> Vec<Word> {
    let mut said = Vec::new();
    let mut known = Vec::new();
    while said.len() < WORDS && !sim.is_over() {
        // A word is bound to the phase in which it was given.
        let offered = (0..sim.actors.len()).flat_map(|nth| {
            let actor = &sim.actors[nth];
            actor
                .offers()
                .into_iter()
                .map(move |word| (nth, actor.phase(), word))
        });
        let Some(next) = offered.into_iter().find(|offer| !known.contains(offer)) else {
            return said;
        };
        known.push(next.clone());
        let (nth, _, word) = next;
        sim.tell(|| format!("a person says {word}"));
        sim.actors[nth].answer(&word);
        said.push(word);
        sim.round();
        sim.play(ROUNDS);
    }
    said
}

/// The cluster in which it is to run doesn't exist any more, and what is left is Karmada's.
fn is_lost(sim: &Sim) -> bool {
    let listed = sim.plane.workloads[0].listed();
    let mut gone = sim.members.iter().filter(|member| member.is_gone);
    gone.any(|member| listed == [member.name.clone()])
}

/// Nothing stood around the workload when Karmada evicted it, and left the old copy beside the new one: people have been told.
fn is_kept(sim: &Sim, event: Event, untouched: bool) -> bool {
    untouched && matches!(event, Event::Evicted(_, PurgeMode::Never)) && is_told(sim)
}

fn play(mut sim: Sim, event: Event, world_first: bool) -> (Outcome, Sim) {
    let untouched = sim.plane.workloads[0].pin.is_none();
    event.happens(&mut sim);
    if world_first {
        sim.settle();
    }
    sim.go_on(LASTS);
    event.is_over(&mut sim);
    sim.go_on(2);
    sim.play(ROUNDS);
    let words = answered(&mut sim);
    let is_stateful = !sim.ledgers[0].stateless;
    let phase = if sim.actors[0].is_gone() {
        "gone"
    } else {
        sim.actors[0].phase()
    };
    let outcome = if let Some(wrong) = wrong(&sim, event, &words, untouched) {
        Outcome::Wrong(wrong)
    } else if !sim.is_over() {
        let wait = sim.actors[0].waiting_for().map(|wait| wait.reason.clone());
        Outcome::Stands(wait.unwrap_or_default())
    } else if is_stateful
        && sim.writers(0).len() != usize::from(!is_lost(&sim))
        && !is_kept(&sim, event, untouched)
    {
        Outcome::Wrong(format!("runs in {:?}", sim.writers(0)))
    } else {
        Outcome::Comes(phase, words)
    };
    (outcome, sim)
}

/// Plays every cell of a kind; fails on what is wrong, and on what stands without a reason that is known here. A reason that no
/// cell needs any more fails, too.
fn table(kind: &str, snapshot: &Sim, ways: &[Way], known: &[(&str, &str)]) {
    table_of(kind, snapshot, ways, &Event::all(&[EAST, WEST]), known);
}

fn table_of(kind: &str, snapshot: &Sim, ways: &[Way], events: &[Event], known: &[(&str, &str)]) {
    let mut classes: BTreeMap<String, u32> = BTreeMap::new();
    let (mut lines, mut bad) = (String::new(), String::new());
    let mut needed = BTreeSet::new();
    for way in ways {
        let start = in_phase(snapshot, way);
        for event in events {
            for world_first in [false, true] {
                // Where nobody took anything away, who comes first makes no difference.
                if world_first && !event.is_hostile() {
                    continue;
                }
                let (outcome, sim) = play(start.clone(), *event, world_first);
                let class = outcome.class();
                *classes.entry(class.clone()).or_default() += 1;
                let when = if world_first { ", Karmada first" } else { "" };
                let _ = writeln!(lines, "{kind:12} {:12} {event:?}{when}: {class}", way.phase);
                let cell = format!("{} {event:?}", way.phase);
                if matches!(outcome, Outcome::Comes(..)) {
                    continue;
                }
                let called = format!("{event:?}");
                let reasons: Vec<_> = known
                    .iter()
                    .flat_map(|(phases, event)| phases.split(' ').map(move |phase| (phase, *event)))
                    .filter(|(phase, event)| {
                        (*phase == "*" || *phase == way.phase) && called.starts_with(event)
                    })
                    .collect();
                needed.extend(reasons.iter().copied());
                if reasons.is_empty() {
                    let story = if bad.len() < 40_000 {
                        sim.account()
                    } else {
                        String::new()
                    };
                    let _ = writeln!(bad, "== {kind}: {cell}{when}: {outcome:?}\n{story}\n");
                }
            }
        }
    }
    for (phases, event) in known {
        for phase in phases
            .split(' ')
            .filter(|phase| !needed.contains(&(*phase, *event)))
        {
            let _ = writeln!(bad, "== {kind}: {phase} {event}: is listed as known, and holds");
        }
    }
    println!(
        "{lines}\n{kind}: {} phases, {} events: {classes:?}",
        ways.len(),
        events.len()
    );
    assert!(bad.is_empty(), "{bad}");
}

fn abort(sim: &mut Sim) {
    sim.actors[0].abort();
}

fn evict(sim: &mut Sim) {
    Event::Evicted(EAST, PurgeMode::Gracefully).happens(sim);
    sim.settle();
}

fn edit(sim: &mut Sim) {
    Event::TemplateEdited.happens(sim);
}

fn freeze(sim: &mut Sim) {
    Event::OperatorFrozen(EAST).happens(sim);
    Event::OperatorFrozen(WEST).happens(sim);
}

fn migrate(sim: &mut Sim) {
    sim.migrate(0, WEST, &json!({})).unwrap();
}

#[test]
fn migrations() {
    let snapshot = Sim::new(&json!({})).unwrap();
    let mut ways: Vec<Way> = [
        "Pending",
        "Preflight",
        "Hold",
        "Expand",
        "Capture",
        "Handoff",
        "Verify",
        "Cleanup",
    ]
    .map(by_itself)
    .into();
    ways.push(Way {
        phase: "RollingBack",
        provoked: &[("Handoff", abort)],
    });
    let known = [
        // Karmada keeps the old copy beside a new one, before anything of the migration stands.
        ("Pending Preflight Hold", "Evicted(\"east\", Never)"),
    ];
    let events = [Event::all(&[EAST, WEST]), Event::of_lost(&[EAST, WEST])].concat();
    table_of("Migration", &snapshot, &ways, &events, &known);
}

#[test]
fn guards() {
    let mut snapshot = Sim::with_orders(&[EAST, WEST]);
    let unreachable = json!({"proceedAfter": "60s", "fencedBy": "Approval"});
    snapshot
        .guard(0, &json!({"sourceUnreachable": unreachable}))
        .unwrap();
    let mut ways: Vec<Way> = ["Pending", "Arming", "Guarding"].map(by_itself).into();
    ways.push(Way {
        phase: "Lent",
        provoked: &[("Guarding", migrate)],
    });
    for phase in ["Evicted", "Fencing", "Releasing", "Settling"] {
        ways.push(Way {
            phase,
            provoked: &[("Guarding", evict)],
        });
    }
    ways.push(Way {
        phase: "Disarming",
        provoked: &[("Guarding", abort)],
    });
    table("FailoverPlan", &snapshot, &ways, &[]);
}

#[test]
fn rollouts() {
    let mut snapshot = Sim::with_web(&[EAST, WEST], &[EAST, WEST], 2);
    snapshot.roll_out(0, &json!({})).unwrap();
    let mut ways = vec![by_itself("Pending"), by_itself("Completed")];
    for phase in ["Holding", "Applying", "Rolling", "Finishing"] {
        ways.push(Way {
            phase,
            provoked: &[("Completed", edit)],
        });
    }
    ways.push(Way {
        phase: "Halted",
        provoked: &[("Completed", edit), ("Rolling", freeze)],
    });
    ways.push(Way {
        phase: "Undoing",
        provoked: &[("Completed", edit), ("Rolling", abort)],
    });
    table("Rollout", &snapshot, &ways, &[]);
}

#[test]
fn shifts() {
    let mut snapshot = Sim::with_web(&[EAST, WEST], &[EAST], 3);
    snapshot.shift(0, &json!({"then": {"suspend": [EAST]}})).unwrap();
    let mut ways: Vec<Way> = [
        "Pending",
        "Preflight",
        "Hold",
        "Shifting",
        "Suspending",
        "Shifted",
    ]
    .map(by_itself)
    .into();
    ways.push(Way {
        phase: "RollingBack",
        provoked: &[("Shifting", abort)],
    });
    let known = [
        // What a lost cluster has, nobody can count, and no word is offered.
        ("Hold", "Gone(\"west\")"),
        ("Shifting RollingBack", "Gone"),
    ];
    table("ReplicaShift", &snapshot, &ways, &known);
}

#[test]
fn suspensions() {
    let mut snapshot = Sim::with_web(&[EAST, WEST], &[EAST, WEST], 2);
    snapshot.suspend(0, &json!({"scope": "Both"})).unwrap();
    let mut ways: Vec<Way> = ["Pending", "Suspending", "Suspended"].map(by_itself).into();
    ways.push(Way {
        phase: "Resuming",
        provoked: &[("Suspended", abort)],
    });
    table("Suspension", &snapshot, &ways, &[]);
}
