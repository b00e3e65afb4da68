//! Failover plans: one writer, with its state, whatever Karmada or a person does in an emergency. Judged by the ledger.

mod chains;
mod crash;
mod guests;
mod hands;
mod lending;
mod modes;
mod needed;
pub mod stage;
mod stops;
mod unreachable;
