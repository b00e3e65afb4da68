//! The loops. They meet only in the API server and in what they report, never by calling each other.
//!
//! - [`sync`]: from Git to the API server; shares what Git wants as [`sync::Desired`]
//! - [`intents`]: from intents in the API server to effects, one worker each

pub mod intents;
mod records;
pub mod sync;

pub use records::GitRecords;
