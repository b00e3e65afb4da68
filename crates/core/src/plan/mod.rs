//! Desired and live objects to an ordered set of changes, and how to show it.
//!
//! Nothing here asks a cluster. Whether an object is in sync is decided from what the API server has recorded about
//! our fields ([`owned_matches`]); where that can't tell, the caller asks by a dry-run and hands in the answer.
//!
//! ```
//! use cutover_core::manifest::{Limits, Source, parse};
//! use cutover_core::plan::{Change, ChangeSet, TextOptions};
//!
//! let file = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}";
//! let parsed = parse(Source::new("shop.yaml"), file, &Limits::default());
//! let change = Change::apply(&parsed.objects[0], None, None, "cutover");
//! let plan = ChangeSet::new(None, vec![change]);
//! let text = plan.view(None).text(&TextOptions::default());
//! assert!(text.starts_with("+ Namespace shop  (shop.yaml:1:1)"));
//! ```

mod annotations;
pub mod applyset;
mod defaults;
mod difference;
pub mod drift;
pub mod fast_path;
mod fields;
mod forecast;
mod hash;
mod health;
mod json;
mod lines;
mod normalise;
mod order;
mod overlay;
mod ownership;
mod prune;
mod recreate;
mod story;
mod text;
mod view;
mod yaml;

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

pub use annotations::{
    ApplyOptions, FORCE_ANNOTATION, RECREATE_ANNOTATION, WAIT_ANNOTATION, WAVE_ANNOTATION,
};
pub use defaults::without_defaults;
pub use difference::Difference;
pub use forecast::{Forecast, ForecastMove, ForecastStep, Outcome};
pub use hash::{Expected, Hash, NotAHash};
pub use health::{Health, binding_of, health};
pub use json::{ActionName, Document, PlannedChange, PlannedField};
pub use lines::DiffStyle;
pub(crate) use lines::{Line, Sign, of_change};
pub use normalise::normalise;
pub use order::{Place, Rank, written_wave};
pub use overlay::overlay;
pub use ownership::{Decision, owned_matches};
pub use prune::{Doomed, KEEP_ANNOTATION, Pruning, Stop, Stray, protection, prune};
pub use recreate::{is_fixed, never_recreated};
pub(crate) use text::sign;
pub use text::{Palette, TextOptions};
pub(crate) use view::Shown;
pub use view::View;

use crate::intent::record::digest;
use crate::manifest::{Entry, Manifest};
use crate::redact;
use cutover_karmada::name::{Gvk, Location, ObjectKey, Revision};

/// What is to be done with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Create,
    Configure,
    Unchanged,
    Delete,
    /// Deleted and created anew: a field changes that can't be changed, and somebody has said that this is meant.
    Recreate {
        reason: String,
    },
    /// An intent holds the workload and takes the change along.
    HeldBack {
        by: String,
    },
    /// The change can't be made as things are.
    Blocked {
        reason: String,
    },
    /// Git has it no more, and it stays as it is: nobody prunes it.
    LeftBehind {
        reason: String,
    },
}

/// What is to be done with one object.
///
/// `before` and `after` are normalised, and unmasked: show them by [`ChangeSet::view`] only. Both are `None` when nothing
/// changes.
#[derive(Clone, PartialEq)]
pub struct Change {
    pub key: ObjectKey,
    pub gvk: Gvk,
    pub action: Action,
    pub before: Option<Value>,
    pub after: Option<Value>,
    pub source: Option<Location>,
    /// Why the API server could not be asked what it makes of this; `None`: it was, or there is nothing to ask.
    pub unchecked: Option<String>,
    /// What may be lost by it, and isn't known to be.
    pub warning: Option<String>,
    /// What becomes of the workload in the clusters, if its template leaves Git.
    pub effect: Option<String>,
    /// Every object of Git that a suspension keeps changes of from clusters, if it is one.
    pub suspends: Vec<ObjectKey>,
    /// What would come of it, if it is an intent that somebody has looked at.
    pub forecast: Option<Forecast>,
    /// The digest of what would be sent.
    sent: Option<String>,
    /// Which object it would be sent to.
    uid: Option<String>,
    wave: i64,
}

impl Change {
    /// Returns whether it writes an object.
    pub const fn is_written(&self) -> bool {
        matches!(
            self.action,
            Action::Create | Action::Configure | Action::Recreate { .. }
        )
    }

    /// Returns what applying `desired` as `manager` does to `live`.
    ///
    /// `preview` is the answer of a server-side dry-run; without it, what the server would do is computed here:
    /// [`Decision::Undecided`] is then a difference only if it would be seen.
    pub fn apply(desired: &Manifest, live: Option<&Value>, preview: Option<&Value>, manager: &str) -> Self {
        let change = Self {
            key: desired.key.clone(),
            gvk: desired.gvk.clone(),
            action: Action::Create,
            before: None,
            after: None,
            source: Some(desired.source.clone()),
            unchecked: None,
            warning: None,
            effect: None,
            suspends: Vec::new(),
            forecast: None,
            sent: None,
            uid: live.and_then(uid),
            wave: order::wave(&desired.value),
        };
        let Some(live) = live else {
            return Self {
                after: Some(match preview {
                    Some(preview) => without_defaults(&desired.gvk, preview, &desired.value),
                    None => normalise(&desired.value),
                }),
                sent: Some(digest(&desired.value)),
                ..change
            };
        };
        let decision = match preview {
            Some(_) => Decision::Undecided,
            None => owned_matches(&desired.value, live, manager),
        };
        if decision == Decision::InSync {
            return Self {
                action: Action::Unchanged,
                ..change
            };
        }
        let before = normalise(live);
        let after = match preview {
            Some(preview) => normalise(preview),
            None => normalise(&overlay(&desired.value, live, manager)),
        };
        if before == after && decision == Decision::Undecided {
            return Self {
                action: Action::Unchanged,
                ..change
            };
        }
        Self {
            action: Action::Configure,
            before: Some(before),
            after: Some(after),
            sent: Some(digest(&desired.value)),
            ..change
        }
    }

    /// Returns an intent that no file has: another change sets it off.
    pub fn set_off(key: ObjectKey, object: &Value, by: &Self) -> Self {
        Self {
            key,
            gvk: Gvk::new(
                crate::api::API_VERSION,
                object["kind"].as_str().unwrap_or_default(),
            ),
            action: Action::Create,
            before: None,
            after: Some(normalise(object)),
            source: by.source.clone(),
            unchecked: None,
            warning: None,
            effect: None,
            suspends: Vec::new(),
            forecast: None,
            sent: Some(digest(object)),
            uid: None,
            wave: by.wave,
        }
    }

    /// Returns an object that applying leaves as it is. `uid` tells which object that is.
    pub fn unchanged(entry: &Entry, uid: Option<&str>) -> Self {
        Self {
            key: entry.key.clone(),
            gvk: Gvk::clone(&entry.gvk),
            action: Action::Unchanged,
            before: None,
            after: None,
            source: Some(entry.source()),
            unchecked: None,
            warning: None,
            effect: None,
            suspends: Vec::new(),
            forecast: None,
            sent: None,
            uid: uid.map(str::to_owned),
            wave: order::written_wave(entry.written()),
        }
    }

    /// Returns the deletion of a live object that is no longer wanted.
    pub fn delete(key: ObjectKey, gvk: Gvk, live: &Value) -> Self {
        Self {
            key,
            gvk,
            action: Action::Delete,
            before: Some(normalise(live)),
            after: None,
            source: None,
            unchecked: None,
            warning: None,
            effect: None,
            suspends: Vec::new(),
            forecast: None,
            sent: None,
            uid: uid(live),
            wave: order::wave(live),
        }
    }

    /// Returns a live object that Git has no more and that stays, and why.
    pub fn left_behind(key: ObjectKey, gvk: Gvk, reason: impl Into<String>) -> Self {
        Self {
            key,
            gvk,
            action: Action::LeftBehind {
                reason: reason.into(),
            },
            before: None,
            after: None,
            source: None,
            unchecked: None,
            warning: None,
            effect: None,
            suspends: Vec::new(),
            forecast: None,
            sent: None,
            uid: None,
            wave: 0,
        }
    }

    /// Returns an object that can't even be compared, and why.
    pub fn refused(desired: &Manifest, reason: impl AsRef<str>) -> Self {
        Self::apply(desired, None, None, "").blocked(reason)
    }

    /// Marks a change as one that can only be made by deleting the object and creating it anew.
    #[must_use]
    pub fn recreated(self, reason: impl AsRef<str>) -> Self {
        self.instead(Action::Recreate {
            reason: redact::text(reason.as_ref()).into_owned(),
        })
    }

    /// Marks a change as one that an intent takes along. What is unchanged stays so.
    #[must_use]
    pub fn held_back(self, by: impl Into<String>) -> Self {
        self.instead(Action::HeldBack { by: by.into() })
    }

    /// Marks a change as one that can't be made. What is unchanged stays so.
    #[must_use]
    pub fn blocked(self, reason: impl AsRef<str>) -> Self {
        self.instead(Action::Blocked {
            reason: redact::text(reason.as_ref()).into_owned(),
        })
    }

    /// Notes why the API server could not be asked what it makes of this.
    #[must_use]
    pub fn unchecked(self, why: impl AsRef<str>) -> Self {
        Self {
            unchecked: Some(redact::text(why.as_ref()).into_owned()),
            ..self
        }
    }

    /// Notes what may be lost by it.
    #[must_use]
    pub fn warned(self, what: impl AsRef<str>) -> Self {
        Self {
            warning: Some(redact::text(what.as_ref()).into_owned()),
            ..self
        }
    }

    /// Returns what the object says about its order within its rank; smaller ones come first.
    pub const fn wave(&self) -> i64 {
        self.wave
    }

    /// Returns where this stands in the order.
    pub fn place(&self) -> Place {
        Place {
            rank: Rank::of(&self.gvk),
            wave: self.wave,
        }
    }

    /// Returns whether this takes an object away, be it held back or blocked.
    pub fn is_deletion(&self) -> bool {
        self.before.is_some() && self.after.is_none()
    }

    fn instead(self, action: Action) -> Self {
        if self.action == Action::Unchanged {
            self
        } else {
            Self { action, ..self }
        }
    }
}

impl fmt::Debug for Change {
    /// Leaves the content out: it may be a Secret's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Change")
            .field("key", &self.key)
            .field("action", &self.action)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Something in Git that could not be used, and where.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    pub message: String,
    pub hint: Option<String>,
    pub at: Option<Location>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// The changes of one sync or of several, in the order in which they are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangeSet {
    pub revision: Option<Revision>,
    /// What the revision is compared with: only what changed between the two is here.
    pub base: Option<Revision>,
    pub changes: Vec<Change>,
    /// What could not be read: objects there are left alone.
    pub problems: Vec<Problem>,
    /// With a base: how many objects besides may differ from Git.
    pub elsewhere: usize,
}

impl ChangeSet {
    /// Orders changes: by rank of their kinds, wave and key; deletions last and in reverse. See [`Rank`].
    pub fn new(revision: Option<Revision>, mut changes: Vec<Change>) -> Self {
        changes.sort_by(order::compare);
        Self {
            revision,
            changes,
            ..Self::default()
        }
    }

    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for change in &self.changes {
            *match change.action {
                Action::Create => &mut summary.create,
                Action::Configure => &mut summary.change,
                Action::Unchanged => &mut summary.unchanged,
                Action::Delete => &mut summary.delete,
                Action::Recreate { .. } => &mut summary.recreate,
                Action::HeldBack { .. } => &mut summary.held_back,
                Action::Blocked { .. } => &mut summary.blocked,
                Action::LeftBehind { .. } => &mut summary.left_behind,
            } += 1;
        }
        summary
    }

    /// Returns whether carrying this out would write nothing.
    pub fn is_noop(&self) -> bool {
        let summary = self.summary();
        summary.create + summary.change + summary.delete + summary.recreate == 0
    }
}

/// How many objects each kind of action concerns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub create: usize,
    pub change: usize,
    pub delete: usize,
    pub recreate: usize,
    pub held_back: usize,
    pub blocked: usize,
    pub left_behind: usize,
    pub unchanged: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = self.create + self.change + self.delete + self.recreate + self.held_back + self.blocked;
        if pending + self.left_behind == 0 {
            return write!(f, "No changes: {} in sync.", count(self.unchanged, "object"));
        }
        write!(
            f,
            "Plan: {} to create, {} to change, {} to delete",
            self.create, self.change, self.delete
        )?;
        if self.recreate > 0 {
            write!(f, ", {} to recreate", self.recreate)?;
        }
        if self.held_back > 0 {
            write!(f, ", {} held back", self.held_back)?;
        }
        if self.blocked > 0 {
            write!(f, ", {} blocked", self.blocked)?;
        }
        if self.left_behind > 0 {
            write!(f, ", {} left behind", self.left_behind)?;
        }
        f.write_str(".")
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn uid(live: &Value) -> Option<String> {
    Some(live.pointer("/metadata/uid")?.as_str()?.to_owned())
}

#[cfg(test)]
#[allow(
    clippy::needless_pass_by_value,
    clippy::format_collect,
    clippy::too_many_lines,
    reason = "tables of small cases"
)]
mod tests;
