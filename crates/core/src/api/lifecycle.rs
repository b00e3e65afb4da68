//! Where the intents of one kind can stand: what all enumerations of phases have.

use std::fmt;

/// Where the intents of one kind can stand.
pub trait Lifecycle: Copy + PartialEq + fmt::Display + strum::VariantNames + Send + Sync {
    /// Returns the name, as it is written in YAML.
    fn name(self) -> &'static str;

    /// Returns whether nothing more will be done in this attempt.
    fn is_final(self) -> bool;
}

/// Gives an enumeration of phases its names, and what [`Lifecycle`] asks of it. `|phase|`: whether nothing more will be done there.
macro_rules! lifecycle {
    ($phase:ty, |$at:pat_param| $is_final:expr) => {
        impl $phase {
            /// Returns the name, as it is written in YAML.
            pub const fn name(self) -> &'static str {
                self.into_str()
            }
        }

        impl Lifecycle for $phase {
            fn name(self) -> &'static str {
                self.into_str()
            }

            fn is_final(self) -> bool {
                let $at = self;
                $is_final
            }
        }
    };
}

pub(super) use lifecycle;
