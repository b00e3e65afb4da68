//! What comes between: everything that can happen to a migration that nobody planned, in every phase, and how it ends.
//!
//! Each cell of the table is a test of its own. The event strikes right after the journal has said that the phase begins,
//! before its first effect: the moment at which the tool knows least of it. docs/safety.md shows the table.

mod happenings;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cutover::api::Phase;
use cutover::reconcile::intents::{Point, Side, Witness};
use cutover::sandbox::WorldOptions;
use futures::future::BoxFuture;
use serde_json::json;
use tokio::sync::Notify;

use crate::support::fleet::{CLAIMS, Controller, Fleet, MIGRATIONS, PINS};

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
    /// As `Moved`, `Back` or `Asks`; but the event itself let both copies write, or one begin from nothing, until the tool
    /// saw it.
    HarmedAndMoved,
    HarmedAndBack,
    HarmedAndAsks(&'static str),
    /// Somebody else moved it, or made it anew, before the tool had touched it: it runs there, and nothing of the tool's is
    /// left.
    Elsewhere(&'static str),
    /// No copy is left, and nothing of the tool's either: the workload itself was deleted.
    Dissolved,
    /// It stands still with what it has, and says what it needs; never more than one copy can write.
    Asks(&'static str),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved => f.write_str("moved"),
            Self::Back => f.write_str("back"),
            Self::Dissolved => f.write_str("dissolved"),
            Self::HarmedAndMoved => f.write_str("harm, moved"),
            Self::HarmedAndBack => f.write_str("harm, back"),
            Self::HarmedAndAsks(_) => f.write_str("harm, asks"),
            Self::Elsewhere(cluster) => write!(f, "harm, lets go ({cluster})"),
            Self::Asks(_) => f.write_str("asks"),
        }
    }
}

/// What is done to the sandbox.
type Strike = fn(&Fleet);

/// Something that happens, and what becomes of it later.
pub struct Event {
    /// As the table calls it.
    pub what: &'static str,
    pub strike: Strike,
    /// After so long, this.
    pub then: Option<(Duration, Strike)>,
    /// How it ends, by the phase in which it happens.
    pub endings: [Ending; PHASES.len()],
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
    CONTROLLER_MANAGER_REPLACED,
    SCHEDULER_REPLACED,
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
    let fleet = Fleet::start(WorldOptions::default()).await;
    let moment = Arc::new(Moment::of(phase));
    let controller = fleet.controller(Arc::clone(&moment) as Arc<dyn Witness>);
    fleet.migrate(INTENT, "west");
    if phase == Phase::RollingBack {
        fleet.phase(INTENT, Phase::Handoff).await;
        fleet.patch(&MIGRATIONS, INTENT, json!({"spec": {"abort": true}}));
    }
    tokio::time::timeout(Duration::from_mins(5), moment.struck.notified())
        .await
        .unwrap_or_else(|_| panic!("{phase} is never entered: {:#}", fleet.status(INTENT)));
    (event.strike)(&fleet);
    moment.go_on.notify_one();
    if let Some((after, then)) = event.then {
        tokio::time::sleep(after).await;
        then(&fleet);
    }
    ends(&fleet, ending, &controller).await;
}

async fn ends(fleet: &Fleet, ending: Ending, _: &Controller) {
    match ending {
        Ending::Moved | Ending::HarmedAndMoved => moved(fleet).await,
        Ending::Back | Ending::HarmedAndBack => back(fleet, "east").await,
        Ending::Elsewhere(cluster) => back(fleet, cluster).await,
        Ending::Dissolved => dissolved(fleet).await,
        Ending::Asks(what) | Ending::HarmedAndAsks(what) => asks(fleet, what).await,
    }
    match ending {
        Ending::Moved | Ending::Back | Ending::Dissolved | Ending::Asks(_) => fleet.assert_one_writer(),
        // What the event did before the tool could see it isn't the tool's doing.
        Ending::HarmedAndMoved | Ending::HarmedAndBack | Ending::HarmedAndAsks(_) | Ending::Elsewhere(_) => {}
    }
}

async fn moved(fleet: &Fleet) {
    fleet
        .until("it completes", |fleet| {
            let status = fleet.status(INTENT);
            let phase = &status["phase"];
            assert!(phase != "RolledBack" && phase != "Failed", "{status:#}");
            // A deleted intent is gone when it has completed.
            phase == "Completed" || phase.is_null()
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
            phase == "RolledBack" || phase == "Aborted" || phase.is_null()
        })
        .await;
    runs_alone_in(fleet, cluster).await;
}

async fn runs_alone_in(fleet: &Fleet, cluster: &str) {
    fleet.until("it runs there", |fleet| fleet.runs_in(cluster)).await;
    fleet.assert_settled_in(cluster);
}

async fn dissolved(fleet: &Fleet) {
    fleet
        .until("it ends with the workload", |fleet| {
            let phase = fleet.status(INTENT)["phase"].clone();
            phase == "Failed" || phase == "Aborted" || phase.is_null()
        })
        .await;
    assert_eq!((fleet.count(&PINS), fleet.count(&CLAIMS)), (0, 0));
    for cluster in ["east", "west", "north"] {
        assert!(fleet.copy(cluster).is_none(), "a copy is left in {cluster}");
    }
}

async fn asks(fleet: &Fleet, what: &str) {
    let asks = |fleet: &Fleet| {
        let waits = fleet.status(INTENT)["waitingFor"]["reason"].clone();
        waits.as_str().is_some_and(|reason| reason.contains(what))
    };
    fleet.until(&format!("it asks: {what}"), asks).await;
    // And so it stays.
    tokio::time::sleep(Duration::from_mins(2)).await;
    assert!(asks(fleet), "{:#}", fleet.status(INTENT));
}

/// Holds the controller up when it has entered a phase, until it is told to go on.
struct Moment {
    journal: String,
    armed: AtomicBool,
    struck: Notify,
    go_on: Notify,
}

impl Moment {
    fn of(phase: Phase) -> Self {
        Self {
            journal: format!("{phase}: journal"),
            armed: AtomicBool::new(true),
            struck: Notify::new(),
            go_on: Notify::new(),
        }
    }
}

impl Witness for Moment {
    fn reached<'a>(&'a self, point: &'a Point) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let here = point.side == Side::After && point.what == self.journal;
            if here && self.armed.swap(false, Ordering::SeqCst) {
                self.struck.notify_one();
                self.go_on.notified().await;
            }
        })
    }
}
