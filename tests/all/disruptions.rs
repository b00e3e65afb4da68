//! What comes between: everything that can happen to a migration that nobody planned, in every phase, and how it ends.
//!
//! Each cell of the table is a test of its own. The event strikes right after the journal has said that the phase begins,
//! before its first effect: the moment at which the tool knows least of it. docs/explanation/safety.md shows the table.
//!
//! A cell that asks has to keep what it promises: a person who does what the status says, and knows nothing else, has a copy
//! running and the migration at an end after a few words. Cells that don't hold yet are named in `expected`.

mod disrupt;
mod expected;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::{Failpoint, FailpointHook, Side};
use cutover::sandbox::WorldOptions;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;

use self::expected::EXPECTED;
use crate::support::fleet::{CLAIMS, Fleet, MIGRATIONS, PINS};
use crate::support::person::{self, Stuck};

/// The name of the intent that everything happens to.
pub const INTENT: &str = "orders-to-west";

/// The phases in which something can be under way, in the order of the table's columns.
const PHASES: [Phase; 7] = [
    Phase::Hold,
    Phase::Expand,
    Phase::Capture,
    Phase::Handoff,
    Phase::Verify,
    Phase::Cleanup,
    Phase::RollingBack,
];

/// How a migration ends, whatever came between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The target runs the workload from the source's state, and nothing of the tool's is left.
    Moved,
    /// The source runs it as before, from its newest state, and nothing of the tool's is left.
    Back,
    /// The source was not touched and is as unhealthy as it was; nothing of the tool's is left.
    BackAsItWas,
    /// As `Moved`, `Back` or `Asks`; but the event itself let both copies write, or one begin from nothing, until the tool
    /// saw it.
    HarmedAndMoved,
    HarmedAndBack,
    HarmedAndAsks(&'static str),
    /// Which of two it is depends on how far the members' operators were when the tool saw it.
    MovedOrBack,
    HarmedAndAsksOrBack(&'static str),
    /// Somebody else moved it, or made it anew, before the tool had touched it: it runs there, and nothing of the tool's is
    /// left.
    Elsewhere(&'static str),
    /// No copy is left, and nothing of the tool's either: the workload itself was deleted.
    Dissolved,
    /// It stands still with what it has, and says what it needs; never more than one copy can write.
    Asks(&'static str),
    /// It ends for that reason with nothing of the tool's left, before it has begun anything.
    Refused(&'static str),
    HarmedAndRefused(&'static str),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved => f.write_str("moved"),
            Self::Back => f.write_str("back"),
            Self::BackAsItWas => f.write_str("back, untouched"),
            Self::Dissolved => f.write_str("dissolved"),
            Self::HarmedAndMoved => f.write_str("harm, moved"),
            Self::HarmedAndBack => f.write_str("harm, back"),
            Self::HarmedAndAsks(_) => f.write_str("harm, asks"),
            Self::MovedOrBack => f.write_str("moved or back"),
            Self::HarmedAndAsksOrBack(_) => f.write_str("harm, asks or back"),
            Self::Elsewhere(cluster) => write!(f, "harm, lets go ({cluster})"),
            Self::Asks(_) => f.write_str("asks"),
            Self::Refused(_) => f.write_str("refused"),
            Self::HarmedAndRefused(_) => f.write_str("harm, refused"),
        }
    }
}

/// Why a cell doesn't hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Red {
    /// A copy starts without what another one, or the same one, had written.
    Loses,
    /// Two copies could write at once.
    Overlaps,
    /// The workload lost state by itself, or the event did harm, and nothing says so.
    Untold,
    /// It asks, and its status says nothing that a person could do.
    OffersNothing,
    /// What the status offers isn't taken.
    Refuses,
    /// A person has done all that the status offers; no copy runs, or it has not ended.
    NeverEnds,
    /// It ends otherwise than the table says.
    EndsOtherwise,
}

impl fmt::Display for Red {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loses => "loses state",
            Self::Overlaps => "lets two write",
            Self::Untold => "doesn't tell",
            Self::OffersNothing => "offers no way out",
            Self::Refuses => "refuses what it offers",
            Self::NeverEnds => "never ends",
            Self::EndsOtherwise => "ends otherwise",
        })
    }
}

/// A cell that doesn't hold yet.
pub struct Expected {
    /// The name of the event in the tests.
    pub event: &'static str,
    pub phase: Phase,
    pub red: Red,
    /// What happens instead, in one line.
    pub instead: &'static str,
}

/// A cell that doesn't hold, and what was seen.
struct Failure {
    red: Red,
    seen: String,
}

impl From<Stuck> for Failure {
    fn from(stuck: Stuck) -> Self {
        let (red, seen) = match stuck {
            Stuck::NoWayOut(seen) => (Red::OffersNothing, seen),
            Stuck::Refused(seen) => (Red::Refuses, seen),
            Stuck::Endless(seen) => (Red::NeverEnds, seen),
        };
        Self { red, seen }
    }
}

/// What is done to the sandbox.
type Strike = fn(&Fleet);

/// Something that happens, and what becomes of it later.
pub struct Event {
    /// As the table calls it.
    pub what: &'static str,
    pub world: fn() -> WorldOptions,
    /// Before the migration is asked for.
    pub before: Strike,
    /// When the migration begins to write.
    pub first: Strike,
    pub strike: Strike,
    /// After so long, this.
    pub then: Option<(Duration, Strike)>,
    /// How it ends, by the phase in which it happens.
    pub endings: [Ending; PHASES.len()],
}

impl Event {
    /// Nothing happens.
    const NONE: Self = Self {
        what: "",
        world: WorldOptions::default,
        before: |_| {},
        first: |_| {},
        strike: |_| {},
        then: None,
        endings: [Ending::Moved; PHASES.len()],
    };
}

/// Makes a module of tests of each event, one test a phase, and the table of them all.
macro_rules! disruptions {
    ($($name:ident,)*) => {
        const TABLE: &[(&str, &Event)] = &[$((stringify!($name), &disrupt::$name),)*];

        $(
            #[allow(non_snake_case)]
            mod $name {
                disruptions!(@cells $name: hold 0, expand 1, capture 2, handoff 3, verify 4, cleanup 5, rolling_back 6);
            }
        )*
    };
    (@cells $event:ident: $($phase:ident $index:literal),*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $phase() {
                super::holds(stringify!($event), &super::disrupt::$event, $index).await;
            }
        )*
    };
}

disruptions! {
    TEMPLATE_DELETED,
    TEMPLATE_EDITED,
    NAMESPACE_DELETED,
    INTENT_DELETED,
    INTENT_AND_TEMPLATE_DELETED,
    INTENT_POINTED_ELSEWHERE,
    POLICY_DELETED,
    POLICY_WITHOUT_TARGET,
    BINDING_DELETED,
    BINDING_MOVED,
    SOURCE_DROPPED,
    BINDING_EMPTIED,
    SCHEDULING_RESUMED,
    PIN_DELETED,
    PIN_EDITED,
    WORKS_DELETED,
    SOURCE_COPY_DELETED,
    TARGET_COPY_DELETED,
    HELD_COPIES_SET_RUNNING,
    SOURCE_AWAY_FOR_A_WHILE,
    TARGET_AWAY_FOR_A_WHILE,
    SOURCE_AWAY_FOR_GOOD,
    TARGET_AWAY_FOR_GOOD,
    SOURCE_TAINTED,
    OPERATORS_CRASHED,
    OPERATORS_FROZEN,
    OPERATORS_BEHIND,
    OPERATORS_SLOW,
    CONTROLLER_MANAGER_REPLACED,
    SCHEDULER_REPLACED,
    SOURCE_EVICTED_DIRECTLY,
    SOURCE_EVICTED_GRACEFULLY,
    SOURCE_EVICTED_NEVER,
    TARGET_EVICTED_DIRECTLY,
    TARGET_EVICTED_GRACEFULLY,
    TARGET_EVICTED_NEVER,
    TARGET_TAINTED,
    SOURCE_REJOINED_EMPTY,
    SOURCE_REJOINED_FROM_A_BACKUP,
    TARGET_REJOINED_EMPTY,
    API_SERVER_RESTORED_TO_HOLD,
    API_SERVER_RESTORED_TO_A_MOMENT_AGO,
    CONTROL_PLANE_REBUILT,
    JOB_SILENT_FOR_A_WHILE,
    JOB_MANAGER_RESTARTED,
    SAVEPOINT_FALLS_BACK,
    POLICY_PREEMPTED,
    LEADER_REPLACED,
    SOURCE_AWAY_WHEN_CALLED_OFF,
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/explanation/safety.md");
const BEGIN: &str = "<!-- The table is made by the tests: `just accept` writes it again. -->\n";
const END: &str = "<!-- End of the table. -->\n";
const LIST_BEGIN: &str = "<!-- The list is made by the tests: `just accept` writes it again. -->\n";
const LIST_END: &str = "<!-- End of the list. -->\n";

#[test]
fn the_table_of_the_document_is_that_of_the_tests() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the table has a beginning");
    let (table, rest) = rest.split_once(END).expect("the table has an end");
    let (between, rest) = rest.split_once(LIST_BEGIN).expect("the list has a beginning");
    let (list, after) = rest.split_once(LIST_END).expect("the list has an end");
    if std::env::var_os("CUTOVER_ACCEPT").is_some() {
        let (table, list) = (rendered(), listed());
        let document = format!("{before}{BEGIN}{table}{END}{between}{LIST_BEGIN}{list}{LIST_END}{after}");
        std::fs::write(DOCUMENT, document).unwrap();
    } else {
        assert_eq!(table, rendered());
        assert_eq!(list, listed());
    }
}

#[test]
fn what_does_not_hold_yet_is_named_once_and_is_in_the_table() {
    let mut named = BTreeSet::new();
    for cell in EXPECTED {
        assert!(
            TABLE.iter().any(|(name, _)| *name == cell.event),
            "{}",
            cell.event
        );
        assert!(PHASES.contains(&cell.phase), "{}: {}", cell.event, cell.phase);
        assert!(
            named.insert((cell.event, cell.phase)),
            "{}: {} twice",
            cell.event,
            cell.phase
        );
    }
}

fn expected(name: &str, phase: Phase) -> Option<&'static Expected> {
    EXPECTED
        .iter()
        .find(|cell| cell.event == name && cell.phase == phase)
}

fn rendered() -> String {
    let mut table = "| what happens".to_owned();
    for phase in PHASES {
        table += &format!(" | {phase}");
    }
    table += " |\n|---|---|---|---|---|---|---|---|\n";
    for (name, event) in TABLE {
        table += &format!("| {}", event.what);
        for (ending, phase) in event.endings.iter().zip(PHASES) {
            let mark = if expected(name, phase).is_some() {
                " †"
            } else {
                ""
            };
            table += &format!(" | {ending}{mark}");
        }
        table += " |\n";
    }
    table
}

fn listed() -> String {
    let mut list = format!("{} of {} cells:\n\n", EXPECTED.len(), TABLE.len() * PHASES.len());
    list += "| what happens | in | promised | it | what happens instead |\n|---|---|---|---|---|\n";
    for (name, event) in TABLE {
        for (ending, phase) in event.endings.iter().zip(PHASES) {
            let Some(cell) = expected(name, phase) else {
                continue;
            };
            let (what, red, instead) = (event.what, cell.red, cell.instead);
            list += &format!("| {what} | {phase} | {ending} | {red} | {instead} |\n");
        }
    }
    list
}

/// Fails when a cell doesn't hold, and when one that is known not to does.
async fn holds(name: &str, event: &Event, column: usize) {
    let phase = PHASES[column];
    let outcome = all_choices(event, column).await;
    match (outcome, expected(name, phase)) {
        (Ok(()), None) => {}
        (Ok(()), Some(_)) => {
            panic!("{name}::{phase} holds now: take it off tests/all/disruptions/expected.rs")
        }
        (Err(Failure { red, seen }), None) => panic!("{name}::{phase} {red}: {seen}"),
        (Err(Failure { red, seen }), Some(known)) => {
            assert_eq!(
                red, known.red,
                "{name}::{phase} {red}, where it was known that it {}: {seen}",
                known.red
            );
        }
    }
}

/// Where the first question of a cell leaves a choice, each is made, in a world of its own.
async fn all_choices(event: &Event, column: usize) -> Result<(), Failure> {
    let (mut choice, mut choices) = (0, 1);
    while choice < choices {
        let outcome = AssertUnwindSafe(strikes(event, column, choice))
            .catch_unwind()
            .await;
        choices = match outcome {
            Ok(outcome) => outcome?,
            Err(panic) => {
                let (red, seen) = (Red::EndsOtherwise, message(&*panic));
                return Err(Failure { red, seen });
            }
        };
        choice += 1;
    }
    Ok(())
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_default()
}

/// Returns how many choices its first question leaves.
async fn strikes(event: &Event, column: usize, choice: usize) -> Result<usize, Failure> {
    let (phase, ending) = (PHASES[column], event.endings[column]);
    let fleet = Fleet::start((event.world)()).await;
    (event.before)(&fleet);
    fleet
        .until("the job runs as it shall", |fleet| fleet.is_settled_in("east"))
        .await;
    let moments = Arc::new(Moments::of([Phase::Hold, phase]));
    fleet.lead(Arc::clone(&moments) as Arc<dyn FailpointHook>);
    fleet.migrate(INTENT, "west");
    moments.begun(&fleet, Phase::Hold).await;
    (event.first)(&fleet);
    if phase != Phase::Hold {
        moments.go_on.notify_one();
        if phase == Phase::RollingBack {
            fleet.phase(INTENT, Phase::Handoff).await;
            fleet.patch(&MIGRATIONS, INTENT, json!({"spec": {"abort": true}}));
        }
        moments.begun(&fleet, phase).await;
    }
    (event.strike)(&fleet);
    moments.go_on.notify_one();
    if let Some((after, then)) = event.then {
        tokio::time::sleep(after).await;
        then(&fleet);
    }
    let choices = ends(&fleet, ending, choice).await?;
    judge(&fleet, ending)?;
    Ok(choices)
}

async fn ends(fleet: &Fleet, ending: Ending, choice: usize) -> Result<usize, Failure> {
    match ending {
        Ending::Moved | Ending::HarmedAndMoved => moved(fleet).await,
        Ending::Back | Ending::HarmedAndBack => back(fleet, "east").await,
        Ending::BackAsItWas => {
            fleet.phase(INTENT, Phase::RolledBack).await;
            fleet.assert_nothing_is_left();
            assert!(fleet.copy("east").is_some() && fleet.copy("west").is_none());
        }
        Ending::Elsewhere(cluster) => let_go(fleet, cluster).await,
        Ending::Dissolved => dissolved(fleet).await,
        Ending::Asks(what) | Ending::HarmedAndAsks(what) => return asks(fleet, what, choice).await,
        Ending::MovedOrBack => {
            if either(fleet, |fleet| fleet.status(INTENT)["phase"] == "Completed").await {
                moved(fleet).await;
            } else {
                back(fleet, "east").await;
            }
        }
        Ending::HarmedAndAsksOrBack(what) => {
            if either(fleet, |fleet| waits_for(fleet, what)).await {
                return asks(fleet, what, choice).await;
            }
            back(fleet, "east").await;
        }
        Ending::Refused(code) | Ending::HarmedAndRefused(code) => refused(fleet, code).await,
    }
    Ok(1)
}

/// What the ledger has against it. What the event did before the tool could see it isn't the tool's doing, but has to be told.
fn judge(fleet: &Fleet, ending: Ending) -> Result<(), Failure> {
    let seen = |verdict| format!("{verdict}\n{}", fleet.world.ledger());
    let fails = |red, seen| Err(Failure { red, seen });
    match ending {
        Ending::Moved
        | Ending::Back
        | Ending::BackAsItWas
        | Ending::MovedOrBack
        | Ending::Dissolved
        | Ending::Asks(_)
        | Ending::Refused(_) => {
            let verdict = fleet.verdict();
            if !verdict.overlaps.is_empty() {
                return fails(Red::Overlaps, seen(verdict));
            }
            if verdict.lost_state.iter().any(|lost| !lost.by_itself) {
                return fails(Red::Loses, seen(verdict));
            }
            if !verdict.is_clean() {
                return fails(Red::Untold, seen(verdict));
            }
        }
        Ending::HarmedAndMoved
        | Ending::HarmedAndBack
        | Ending::HarmedAndAsks(_)
        | Ending::HarmedAndAsksOrBack(_)
        | Ending::HarmedAndRefused(_)
        | Ending::Elsewhere(_) => {
            if let Some(what) = fleet.untold_harm(INTENT) {
                return fails(Red::Untold, format!("{what}\n{}", seen(fleet.verdict())));
            }
        }
    }
    Ok(())
}

async fn moved(fleet: &Fleet) {
    fleet
        .until("it completes", |fleet| {
            let status = fleet.status(INTENT);
            let phase = &status["phase"];
            assert!(phase != "RolledBack" && phase != "Failed", "{status:#}");
            // A deleted intent is gone when it has completed.
            phase == "Completed" || fleet.is_gone(INTENT)
        })
        .await;
    runs_alone_in(fleet, "west").await;
}

async fn back(fleet: &Fleet, cluster: &str) {
    fleet
        .until("it is rolled back", |fleet| {
            let status = fleet.status(INTENT);
            let phase = &status["phase"];
            assert!(phase != "Completed" && phase != "Failed", "{status:#}");
            phase == "RolledBack" || phase == "Aborted" || fleet.is_gone(INTENT)
        })
        .await;
    runs_alone_in(fleet, cluster).await;
}

/// What Karmada still does about it, such as purging an old copy, is Karmada's.
async fn let_go(fleet: &Fleet, cluster: &str) {
    fleet.phase(INTENT, Phase::RolledBack).await;
    fleet.until("it runs there", |fleet| fleet.runs_in(cluster)).await;
    fleet.assert_nothing_is_left();
}

async fn runs_alone_in(fleet: &Fleet, cluster: &str) {
    fleet.until("it runs there", |fleet| fleet.runs_in(cluster)).await;
    fleet.assert_settled_in(cluster);
}

async fn dissolved(fleet: &Fleet) {
    fleet
        .until("it ends with the workload", |fleet| {
            let phase = fleet.status(INTENT)["phase"].clone();
            phase == "Failed" || phase == "Aborted" || fleet.is_gone(INTENT)
        })
        .await;
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (0, 0));
    for cluster in ["east", "west", "north"] {
        assert!(fleet.copy(cluster).is_none(), "a copy is left in {cluster}");
    }
}

async fn refused(fleet: &Fleet, code: &str) {
    let phase = fleet.ended(INTENT).await;
    let status = fleet.status(INTENT);
    assert_eq!(phase, Phase::Failed, "{status:#}");
    assert!(status["findings"].to_string().contains(code), "{status:#}");
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (0, 0));
}

/// Asks, and what it asks for ends it.
async fn asks(fleet: &Fleet, what: &str, choice: usize) -> Result<usize, Failure> {
    fleet
        .until(&format!("it asks: {what}"), |fleet| waits_for(fleet, what))
        .await;
    // And so it stays.
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(waits_for(fleet, what), "{:#}", fleet.status(INTENT));
    Ok(person::follow(fleet, INTENT, choice).await?)
}

fn waits_for(fleet: &Fleet, what: &str) -> bool {
    let waits = fleet.status(INTENT)["waitingFor"]["reason"].clone();
    waits.as_str().is_some_and(|reason| reason.contains(what))
}

/// Waits until something is so, or the migration is rolled back; returns whether it is so.
async fn either(fleet: &Fleet, holds: impl Fn(&Fleet) -> bool) -> bool {
    let is_back = |fleet: &Fleet| fleet.status(INTENT)["phase"] == "RolledBack";
    fleet
        .until("one or the other", |fleet| holds(fleet) || is_back(fleet))
        .await;
    holds(fleet)
}

/// Holds the controller up when it has entered one of some phases, until it is told to go on.
struct Moments {
    /// The journals of the phases that have not begun yet.
    journals: Mutex<BTreeSet<String>>,
    begun: Notify,
    go_on: Notify,
}

impl Moments {
    fn of(phases: impl IntoIterator<Item = Phase>) -> Self {
        let journals = phases.into_iter().map(|phase| format!("{phase}: journal"));
        Self {
            journals: Mutex::new(journals.collect()),
            begun: Notify::new(),
            go_on: Notify::new(),
        }
    }

    async fn begun(&self, fleet: &Fleet, phase: Phase) {
        tokio::time::timeout(Duration::from_mins(5), self.begun.notified())
            .await
            .unwrap_or_else(|_| panic!("{phase} is never entered: {:#}", fleet.status(INTENT)));
    }
}

impl FailpointHook for Moments {
    fn reached<'a>(&'a self, point: &'a Failpoint) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if point.side == Side::After && self.journals.lock().unwrap().remove(&point.what) {
                self.begun.notify_one();
                self.go_on.notified().await;
            }
        })
    }
}
