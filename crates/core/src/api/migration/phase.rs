//! The phases of a Migration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::lifecycle::{Lifecycle, lifecycle};

/// Where a migration stands.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[strum(const_into_str)]
pub enum Phase {
    #[default]
    Pending,
    Preflight,
    Hold,
    Expand,
    Capture,
    Handoff,
    Verify,
    Cleanup,
    RollingBack,
    Completed,
    RolledBack,
    Failed,
    Aborted,
    /// Git has an end of it on record that isn't to be seen any more: nothing was moved this time.
    EndedBefore,
}

lifecycle!(Phase, |phase| phase.is_terminal());

impl Phase {
    /// Returns whether nothing more will be done in this attempt.
    pub const fn is_terminal(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::RolledBack | Self::Failed | Self::Aborted | Self::EndedBefore
        )
    }
}
