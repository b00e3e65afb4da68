//! What several test files share.

pub mod git;

#[cfg(feature = "sandbox")]
pub mod fleet;

#[cfg(feature = "sandbox")]
pub mod real;
