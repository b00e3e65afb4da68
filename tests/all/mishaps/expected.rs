//! Cells that don't hold yet, and what happens in them instead. A cell that is mended comes off the list with the change
//! that mends it; docs/safety.md shows the list.

use cutover::api::Phase::{Capture, Cleanup, Expand, Handoff, Hold, RollingBack, Verify};

use super::Expected;
use super::Red::{self, EndsOtherwise, NeverEnds, OffersNothing, Refuses};

const UNACKNOWLEDGED: &str = "the operator, which finds no job to stop, does not acknowledge the hold: it is rolled back after a quarter of an hour";
const NO_BINDING: &str = "\"a person must look\" is all that the status says";
const UNREAD: &str = "the source can't be read, and the status offers no word for that";
const UNWELL: &str =
    "with `NoState` in the source it is let run, never becomes healthy, and the status offers nothing more";

pub const EXPECTED: &[Expected] = &[
    cell(
        "BINDING_DELETED",
        Hold,
        NeverEnds,
        "it ends `RolledBack` while no copy runs anywhere",
    ),
    cell("BINDING_DELETED", Expand, OffersNothing, NO_BINDING),
    cell("BINDING_DELETED", Capture, OffersNothing, NO_BINDING),
    cell("BINDING_DELETED", Handoff, OffersNothing, NO_BINDING),
    cell("BINDING_DELETED", Verify, OffersNothing, NO_BINDING),
    cell("BINDING_DELETED", Cleanup, OffersNothing, NO_BINDING),
    cell("BINDING_DELETED", RollingBack, OffersNothing, NO_BINDING),
    cell("JOB_MANAGER_RESTARTED", Capture, EndsOtherwise, UNACKNOWLEDGED),
    cell("SOURCE_AWAY_FOR_GOOD", Capture, OffersNothing, UNREAD),
    cell(
        "TARGET_AWAY_FOR_GOOD",
        Cleanup,
        OffersNothing,
        "the target can't be read, and the status offers no word for that",
    ),
    cell("SOURCE_REJOINED_FROM_A_BACKUP", Expand, OffersNothing, UNWELL),
    cell("SOURCE_REJOINED_FROM_A_BACKUP", Capture, OffersNothing, UNWELL),
    cell(
        "TARGET_REJOINED_EMPTY",
        RollingBack,
        Refuses,
        "`Stopped` in the target is offered, and changes nothing",
    ),
    cell(
        "API_SERVER_RESTORED_TO_HOLD",
        Capture,
        EndsOtherwise,
        "it is rolled back, and the held copy in the target, of which the restored control plane knows nothing, is left there",
    ),
];

const fn cell(event: &'static str, phase: cutover::api::Phase, red: Red, instead: &'static str) -> Expected {
    Expected {
        event,
        phase,
        red,
        instead,
    }
}
