//! The loops: sync, intents, publish.

pub mod intents;
