//! What every crate of cutover may use, and what knows nothing of Karmada.

/// What a revision may cost: limits by name, and the accounts held against them.
pub mod budget;
/// Text of others made safe for terminals, logs, Markdown and workflows.
pub mod escape;
/// The name that was probably meant.
pub mod nearest;
/// JSON documents kept small, for what is kept by the ten thousand.
pub mod packed;
mod secret;
mod system;

pub use secret::Secret;
pub use system::without_number;

/// How cutover calls itself in requests.
pub const USER_AGENT: &str = concat!("cutover/", env!("CARGO_PKG_VERSION"));
