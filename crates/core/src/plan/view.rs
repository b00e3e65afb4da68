//! A plan as it may be shown: nothing leaves this room but through here, where secrets are masked.

use serde_json::Value;

use super::fields::{FieldChange, differences};
use super::story;
use super::{Action, Change, ChangeSet, Hash};
use crate::redact;

/// A plan whose secrets are masked, to be written in one form or another.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(super) set: &'a ChangeSet,
    pub(super) hash: Option<&'a Hash>,
}

impl ChangeSet {
    pub const fn view<'a>(&'a self, hash: Option<&'a Hash>) -> View<'a> {
        View { set: self, hash }
    }
}

impl View<'_> {
    /// Returns the changes themselves; their contents are not masked.
    pub const fn set(&self) -> &ChangeSet {
        self.set
    }

    pub const fn hash(&self) -> Option<&Hash> {
        self.hash
    }

    /// Returns what is not simply in sync, in the order in which it is carried out.
    pub(crate) fn pending(&self) -> impl Iterator<Item = Shown<'_>> {
        self.set
            .changes
            .iter()
            .filter(|change| change.action != Action::Unchanged)
            .map(Self::shown)
    }

    pub(super) fn shown(change: &Change) -> Shown<'_> {
        let (before, after) = match (&change.before, &change.after) {
            (Some(before), Some(after)) => {
                let (before, after) = redact::pair(before, after);
                (Some(before), Some(after))
            }
            (before, after) => (
                before.as_ref().map(redact::kept),
                after.as_ref().map(redact::kept),
            ),
        };
        Shown {
            change,
            before,
            after,
        }
    }
}

/// A change with its secrets masked.
#[derive(Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) change: &'a Change,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

impl Shown<'_> {
    pub(super) fn fields(&self) -> Vec<FieldChange> {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => differences(before, after),
            _ => Vec::new(),
        }
    }

    /// Returns the fields that change, as people write them.
    pub(crate) fn field_names(&self) -> Vec<String> {
        self.fields().iter().map(|field| field.path.to_string()).collect()
    }

    /// Returns the images that change: what each was, and what it becomes.
    pub(crate) fn images(&self) -> Vec<(String, String)> {
        let fields = self.fields().into_iter();
        let images = fields.filter(|field| field.path.pointer().ends_with("/image"));
        let text = |value: Option<Value>| value?.as_str().map(str::to_owned);
        images
            .filter_map(|field| Some((text(field.before)?, text(field.after)?)))
            .collect()
    }

    /// Returns why it is done in this way, or not done.
    pub(crate) fn reason(&self) -> Option<&str> {
        match &self.change.action {
            Action::Recreate { reason } | Action::Blocked { reason } | Action::LeftBehind { reason } => {
                Some(reason)
            }
            Action::HeldBack { by } => Some(by),
            Action::Create | Action::Configure | Action::Unchanged | Action::Delete => None,
        }
    }

    /// Returns what it asks for, if it is an intent that comes or changes.
    pub(crate) fn story(&self) -> Option<String> {
        let forecast = self.change.forecast.as_ref();
        let from = forecast.and_then(|forecast| forecast.from.as_ref());
        story::of_intent(self.after.as_ref()?, &self.change.suspends, from)
    }
}
