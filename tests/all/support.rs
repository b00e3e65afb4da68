//! What several test files share.

pub mod counted;
pub mod forges;
pub mod git;
pub mod github;

pub mod kubectl;
#[cfg(feature = "sandbox")]
pub mod plane;
pub mod proxy;

#[cfg(feature = "sandbox")]
pub mod fleet;
#[cfg(feature = "sandbox")]
pub mod floor;

#[cfg(feature = "sandbox")]
pub mod killed;
#[cfg(feature = "sandbox")]
pub mod many;
#[cfg(feature = "sandbox")]
pub mod oracle;
#[cfg(feature = "sandbox")]
pub mod person;
#[cfg(feature = "sandbox")]
pub mod real;
#[cfg(feature = "sandbox")]
pub mod replica;
#[cfg(feature = "sandbox")]
pub mod roles;
#[cfg(feature = "sandbox")]
pub mod server;

#[cfg(feature = "sandbox")]
pub mod served;
