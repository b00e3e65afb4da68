//! What the integration tests share: fleets in the sandbox, a person who answers, controllers that are killed at a line, Git
//! remotes, forges, and a real API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "who uses it is a test"
)]
#![allow(missing_debug_implementations, reason = "nobody prints a fleet")]

pub mod counted;
pub mod fleet;
pub mod floor;
pub mod forges;
pub mod git;
pub mod github;
pub mod killed;
pub mod kubectl;
pub mod many;
pub mod openapi;
pub mod oracle;
pub mod pages;
pub mod person;
pub mod plane;
pub mod proxy;
pub mod real;
pub mod roles;
pub mod rules;
pub mod server;
pub mod trap;
pub mod wait;
