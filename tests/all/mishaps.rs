//! What comes between: everything that can happen to a migration that nobody planned, in every phase, and how it ends.
//!
//! Each cell of the table is a test of its own. The event strikes right after the journal has said that the phase begins,
//! before its first effect: the moment at which the tool knows least of it. docs/safety.md shows the table.

mod happenings;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::{Point, Side, Witness};
use cutover::sandbox::WorldOptions;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::fleet::{CLAIMS, Fleet, MIGRATIONS, PINS};

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
macro_rules! mishaps {
    ($($name:ident,)*) => {
        const TABLE: &[&Event] = &[$(&happenings::$name,)*];

        $(
            #[allow(non_snake_case)]
            mod $name {
                mishaps!(@cells $name: hold 0, expand 1, capture 2, handoff 3, verify 4, cleanup 5, rolling_back 6);
            }
        )*
    };
    (@cells $event:ident: $($phase:ident $index:literal),*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $phase() {
                super::strikes(&super::happenings::$event, $index).await;
            }
        )*
    };
}

mishaps! {
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
    SAVEPOINT_FALLS_BACK,
    POLICY_PREEMPTED,
    LEADER_REPLACED,
    SOURCE_AWAY_WHEN_CALLED_OFF,
}

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/safety.md");
const BEGIN: &str = "<!-- The table is made by the tests: `just accept` writes it anew. -->\n";
const END: &str = "<!-- End of the table. -->\n";

#[test]
fn the_table_of_the_document_is_that_of_the_tests() {
    let document = std::fs::read_to_string(DOCUMENT).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the table has a beginning");
    let (table, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("CUTOVER_ACCEPT").is_some() {
        std::fs::write(DOCUMENT, format!("{before}{BEGIN}{}{END}{after}", rendered())).unwrap();
    } else {
        assert_eq!(table, rendered());
    }
}

fn rendered() -> String {
    let mut table = "| what happens".to_owned();
    for phase in PHASES {
        table += &format!(" | {phase}");
    }
    table += " |\n|---|---|---|---|---|---|---|---|\n";
    for event in TABLE {
        table += &format!("| {}", event.what);
        for ending in event.endings {
            table += &format!(" | {ending}");
        }
        table += " |\n";
    }
    table
}

async fn strikes(event: &Event, column: usize) {
    let (phase, ending) = (PHASES[column], event.endings[column]);
    let fleet = Fleet::start((event.world)()).await;
    (event.before)(&fleet);
    fleet
        .until("the job runs as it shall", |fleet| fleet.is_settled_in("east"))
        .await;
    let moments = Arc::new(Moments::of([Phase::Hold, phase]));
    fleet.lead(Arc::clone(&moments) as Arc<dyn Witness>);
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
    ends(&fleet, ending).await;
}

async fn ends(fleet: &Fleet, ending: Ending) {
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
        Ending::Asks(what) | Ending::HarmedAndAsks(what) => asks(fleet, what).await,
        Ending::MovedOrBack => {
            if either(fleet, |fleet| fleet.status(INTENT)["phase"] == "Completed").await {
                moved(fleet).await;
            } else {
                back(fleet, "east").await;
            }
        }
        Ending::HarmedAndAsksOrBack(what) => {
            if either(fleet, |fleet| waits_for(fleet, what)).await {
                asks(fleet, what).await;
            } else {
                back(fleet, "east").await;
            }
        }
        Ending::Refused(code) | Ending::HarmedAndRefused(code) => refused(fleet, code).await,
    }
    match ending {
        Ending::Moved
        | Ending::Back
        | Ending::BackAsItWas
        | Ending::MovedOrBack
        | Ending::Dissolved
        | Ending::Asks(_)
        | Ending::Refused(_) => fleet.assert_one_writer(),
        // What the event did before the tool could see it isn't the tool's doing.
        Ending::HarmedAndMoved
        | Ending::HarmedAndBack
        | Ending::HarmedAndAsks(_)
        | Ending::HarmedAndAsksOrBack(_)
        | Ending::HarmedAndRefused(_)
        | Ending::Elsewhere(_) => {}
    }
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

async fn asks(fleet: &Fleet, what: &str) {
    fleet
        .until(&format!("it asks: {what}"), |fleet| waits_for(fleet, what))
        .await;
    // And so it stays.
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(waits_for(fleet, what), "{:#}", fleet.status(INTENT));
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

impl Witness for Moments {
    fn reached<'a>(&'a self, point: &'a Point) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if point.side == Side::After && self.journals.lock().unwrap().remove(&point.what) {
                self.begun.notify_one();
                self.go_on.notified().await;
            }
        })
    }
}
