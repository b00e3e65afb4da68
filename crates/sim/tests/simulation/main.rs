//! The tests of the simulation: one binary, which links once and whose rooms run side by side.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod cells;
mod kinds;
mod migration;
mod plans;
mod recordings;
mod sequences;
