//! The races of a migration. Each is shown with one guard left out, and the ledger sees two writers or lost state; then with
//! it, and the ledger sees neither.
//!
//! The steps are done by hand, by an operator who is careful but for that one thing. What is awaited is a condition; the
//! time between is the world's, whose clock is paused.

mod evictions;
pub mod hand;
mod pins;
mod proofs;
mod scheduling;

/// Whether the guard that a race is about is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    On,
    Off,
}
