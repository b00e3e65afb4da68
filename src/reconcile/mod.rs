//! The loops: sync, intents, publish.

pub mod intents;
mod records;

pub use records::GitRecords;
