//! What a journal says of its pin, alike in every kind that has one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use super::PatchOp;
use super::common::is_zero;
use cutover_karmada::name::ClusterName;

/// How far a pin is. The sequence makes the marker: whatever was proved under an earlier one is proved no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinState {
    /// The sequence of the pin that is or will be written.
    pub seq: u64,
    /// The pin was seen in force, so that one that is missing was removed by another client.
    #[serde(default)]
    pub pinned: bool,
    /// The pin was lost or edited, and the current sequence is its repair.
    #[serde(default)]
    pub repairing: bool,
    /// How often it was sent again for a copy that it didn't reach.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resent: u32,
    /// The pin is being taken off: the claim says that no marker is to be expected.
    #[serde(default)]
    pub unpinning: bool,
    /// What the template lacks for the patches of the pin, which creates it: JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created_fields: Vec<String>,
}

impl Default for PinState {
    /// No pin was written yet.
    fn default() -> Self {
        Self {
            seq: 1,
            pinned: false,
            repairing: false,
            resent: 0,
            unpinning: false,
            created_fields: Vec::new(),
        }
    }
}

impl PinState {
    /// No pin was written yet, and the first one creates this.
    pub fn creating(created_fields: Vec<String>) -> Self {
        Self {
            created_fields,
            ..Self::default()
        }
    }

    /// The pin says something else from now on, or proves nothing any more.
    pub const fn renew(&mut self) {
        self.seq += 1;
        self.resent = 0;
    }

    /// The same pin is sent once more, for a copy that it didn't reach.
    pub const fn resend(&mut self) {
        self.seq += 1;
        self.resent += 1;
    }

    /// The pin is put back as it was: the markers that are there prove nothing any more.
    pub const fn repair(&mut self) {
        self.renew();
        self.repairing = true;
    }

    /// The pin creates this from now on, under another sequence. Returns whether it created something else until now.
    pub fn creates(&mut self, created: Vec<String>) -> bool {
        if self.created_fields == created {
            return false;
        }
        self.created_fields = created;
        self.renew();
        true
    }

    /// The pin was seen to say what it shall.
    pub const fn confirm(&mut self) {
        (self.pinned, self.repairing) = (true, false);
    }

    /// Returns the same state, changed.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// What a pin says in some clusters: one of the two says in which.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedRule {
    /// Everywhere but in these, also in clusters that join later.
    pub all_but: Option<Vec<ClusterName>>,
    /// In these only; absent: where `allBut` says.
    pub only: Option<Vec<ClusterName>>,
    /// What it changes in their copies.
    pub patches: Vec<PatchOp>,
}
