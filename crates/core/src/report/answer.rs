//! The commands by which a person answers a wait.

use crate::api::{Offer, WaitCode, WaitingFor};

/// What an offer begins with, whatever is offered.
pub(super) const IF_SO: &str = "if you know or decide that this is true:";

/// Returns the command that ends a wait which only a person ends.
pub(super) fn command(place: &str, wait: &WaitingFor) -> Option<String> {
    match (wait.code, wait.approval) {
        (WaitCode::Approval, Some(phase)) => Some(format!("cutover approve {place} --phase {phase}")),
        (WaitCode::Approval, None) => Some(format!("cutover approve {place}")),
        (WaitCode::Pause, _) => Some(format!("cutover resume {place}")),
        (WaitCode::Evidence, _) if !wait.offers.is_empty() => {
            Some(format!("{IF_SO} {}", offered(place, wait).join(", or ")))
        }
        _ => None,
    }
}

/// Returns the commands by which a person can say what can't be seen.
pub(super) fn offered(place: &str, wait: &WaitingFor) -> Vec<String> {
    let command = |offer: &Offer| {
        let command = format!("cutover assume {place} {}", offer.arguments());
        if offer.gives_up.is_empty() {
            command
        } else {
            format!("{command} (gives up {})", offer.gives_up)
        }
    };
    wait.offers.iter().map(command).collect()
}
