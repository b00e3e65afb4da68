//! How everything stands, as `cutover status` says it: from what was observed, or from what the status branch says.

use super::Reconciler;
use super::copies::Copies;
use super::dashboard::Dashboard;
use super::kinds::plain;
use super::snapshot::Snapshot;
use super::{Overview, yaml};
use crate::error::Error;
use cutover_karmada::name::Revision;

/// How everything stands, to be shown.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) snapshot: Snapshot,
    /// The intents whole; how the syncs stand says the snapshot.
    intents: Overview,
    /// What runs where, if that was looked at.
    copies: Option<Copies>,
    /// Whether a reconciler is at work, if that was looked at.
    reconciler: Option<Reconciler>,
    /// Where the branch stands now that a status branch is of.
    head: Option<Revision>,
    /// It is of some intents only, and sums nothing up.
    is_part: bool,
}

impl View {
    /// Returns the view of what was observed.
    pub fn of(overview: &Overview) -> Self {
        Self {
            snapshot: Snapshot::of(overview),
            intents: overview.clone(),
            copies: None,
            reconciler: None,
            head: None,
            is_part: false,
        }
    }

    /// Returns the view of what a status branch says: its [`super::SNAPSHOT_FILE`], and its records of intents.
    pub fn recorded(snapshot: Option<&[u8]>, intents: Overview) -> Result<Self, Error> {
        let mut view = Self::of(&intents);
        if let Some(bytes) = snapshot {
            let read = Snapshot::read(bytes)?;
            view.snapshot.revision = read.revision;
            view.snapshot.branch = read.branch;
            view.snapshot.syncs = read.syncs;
            view.snapshot.left_behind = read.left_behind;
            view.snapshot.unhealthy = read.unhealthy;
            view.snapshot.unknown = read.unknown;
        }
        Ok(view)
    }

    /// Returns the view of some of the intents, by kind, namespace and name, and of nothing else. Those of cluster scope have an
    /// empty namespace.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&str, &str, &str) -> bool) -> Self {
        let wanted = |kind: &str, (namespace, name): (&str, &str)| wanted(kind, namespace, name);
        let mut intents = Overview {
            revision: self.snapshot.revision.clone(),
            syncs: Vec::new(),
            left_behind: Vec::new(),
            unhealthy: Vec::new(),
            has_unknown_health: false,
            ..self.intents.clone()
        };
        intents.retain(wanted);
        let copies = self.copies.clone().map(|mut copies| {
            let named = intents.workloads_named();
            copies.workloads.retain(|one| named.contains_key(&one.key));
            copies
        });
        Self {
            is_part: true,
            copies,
            ..Self::of(&intents)
        }
    }

    /// Returns kind, namespace and name of every intent; no namespace of those of cluster scope.
    pub fn names(&self) -> Vec<(&str, &str, &str)> {
        self.intents.intent_names()
    }

    /// Returns whether no intent is in it.
    pub fn is_empty(&self) -> bool {
        self.intents.has_no_intents()
    }

    /// Adds what runs where.
    #[must_use]
    pub fn with_copies(mut self, mut copies: Copies) -> Self {
        copies.confirm(&self.intents.workloads_down());
        copies.take_in_moves(&self.intents.moving());
        self.copies = Some(copies);
        self
    }

    /// Adds what the Lease of the reconcilers says.
    #[must_use]
    pub fn with_reconciler(self, reconciler: Reconciler) -> Self {
        Self {
            reconciler: Some(reconciler),
            ..self
        }
    }

    /// Returns the branch that a status branch is of, if it says so.
    pub fn branch(&self) -> Option<&str> {
        self.snapshot.branch.as_deref()
    }

    /// Adds where that branch stands now.
    #[must_use]
    pub fn with_head(self, head: Option<Revision>) -> Self {
        Self { head, ..self }
    }

    /// Returns by how much a status branch is behind what it is of.
    fn behind(&self) -> Option<String> {
        let (revision, branch) = (self.snapshot.revision.as_ref()?, self.branch()?);
        let head = self.head.as_ref().filter(|head| *head != revision)?;
        let (revision, head) = (revision.short(), head.short());
        Some(format!("the status is of {revision}, {branch} is at {head}"))
    }

    /// Returns it for people, to be laid out. The styles of others are taken out: what they write in red is no failure.
    pub fn dashboard(&self) -> Dashboard {
        let intents = self.intents.plain_intents();
        Dashboard {
            syncs: plain(&self.snapshot.syncs),
            left_behind: plain(&self.snapshot.left_behind),
            unhealthy: self.snapshot.unhealthy.as_ref().map(plain),
            unknown: plain(&self.snapshot.unknown),
            named: intents.workloads_named(),
            intents,
            copies: self.copies.as_ref().map(|copies| Copies {
                workloads: plain(&copies.workloads),
                unknown: copies.unknown.as_ref().map(plain),
            }),
            reconciler: self.reconciler.as_ref().map(plain),
            behind: self.behind().as_ref().map(plain),
            is_part: self.is_part,
        }
    }

    /// Returns it as JSON, in the shape of [`super::SNAPSHOT_FILE`], with an account of each attempt.
    pub fn json(&self) -> Result<String, Error> {
        serde_json::to_string_pretty(&self.document())
            .map(|text| text + "\n")
            .map_err(|error| Error::internal(format!("the status cannot be written as JSON: {error}")))
    }

    /// Returns the same as YAML.
    pub fn yaml(&self) -> Result<String, Error> {
        yaml(&self.document())
    }

    fn document(&self) -> Snapshot {
        let mut snapshot = self.snapshot.clone().with_accounts(&self.intents.migrations);
        if let Some(copies) = &self.copies {
            snapshot.workloads.clone_from(&copies.workloads);
            snapshot.workloads_unknown.clone_from(&copies.unknown);
        }
        snapshot
    }
}
