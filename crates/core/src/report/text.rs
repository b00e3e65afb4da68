//! How everything stands, as `cutover status` shows it: from what was observed, or from what the status branch says.

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::snapshot::{Snapshot, SyncSnapshot};
use super::told::{BAD, BUSY, NAME, migration_lines, styled};
use super::{
    Many, Overview, by_urgency, failover, failover_lines, many, names, rollout, rollout_lines,
    rollout_policy, rollout_policy_lines, shift, shift_lines, suspension, suspension_lines, units::instant,
};
use crate::api::{FailoverPlan, Migration, ReplicaShift, Rollout, RolloutPolicy, Suspension};
use crate::error::Error;
use cutover_base::escape::{self, styled_line};

/// How everything stands, to be shown.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) snapshot: Snapshot,
    migrations: Vec<Migration>,
    rollouts: Vec<Rollout>,
    rollout_policies: Vec<RolloutPolicy>,
    suspensions: Vec<Suspension>,
    shifts: Vec<ReplicaShift>,
    many: Vec<Many>,
    failover_plans: Vec<FailoverPlan>,
}

impl View {
    /// Returns the view of what was observed.
    pub fn of(overview: &Overview) -> Self {
        Self {
            snapshot: Snapshot::of(overview),
            migrations: overview.migrations.clone(),
            rollouts: overview.rollouts.clone(),
            rollout_policies: overview.rollout_policies.clone(),
            suspensions: overview.suspensions.clone(),
            shifts: overview.shifts.clone(),
            many: overview.many.clone(),
            failover_plans: overview.failover_plans.clone(),
        }
    }

    /// Returns the view of what a status branch says: its [`super::SNAPSHOT_FILE`], and its records of intents.
    pub fn recorded(snapshot: Option<&[u8]>, intents: Overview) -> Result<Self, Error> {
        let mut view = Self::of(&intents);
        if let Some(bytes) = snapshot {
            let read = Snapshot::read(bytes)?;
            view.snapshot.revision = read.revision;
            view.snapshot.syncs = read.syncs;
            view.snapshot.left_behind = read.left_behind;
        }
        Ok(view)
    }

    /// Returns the view of some of the intents, and of nothing else.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&str, &str) -> bool) -> Self {
        let rollouts = self.rollouts.iter().filter(|rollout| {
            let (namespace, name) = rollout::names(rollout);
            wanted(namespace, name)
        });
        let rollouts = rollouts.cloned().collect();
        let rollout_policies = self.rollout_policies.iter().filter(|policy| {
            let (namespace, name) = rollout_policy::names(policy);
            wanted(namespace, name)
        });
        let rollout_policies = rollout_policies.cloned().collect();
        let suspensions = self.suspensions.iter().filter(|suspension| {
            let (namespace, name) = suspension::names(suspension);
            wanted(namespace, name)
        });
        let suspensions = suspensions.cloned().collect();
        let shifts = self.shifts.iter().filter(|shift| {
            let (namespace, name) = shift::names(shift);
            wanted(namespace, name)
        });
        let shifts = shifts.cloned().collect();
        let many = self.many.iter().filter(|one| wanted("", &one.name));
        let many = many.cloned().collect();
        let failover_plans = self.failover_plans.iter().filter(|plan| {
            let (namespace, name) = failover::names(plan);
            wanted(namespace, name)
        });
        let failover_plans = failover_plans.cloned().collect();
        let wanted = |migration: &&Migration| {
            let (namespace, name) = names(migration);
            wanted(namespace, name)
        };
        Self::of(&Overview {
            revision: self.snapshot.revision.clone(),
            migrations: self.migrations.iter().filter(wanted).cloned().collect(),
            rollouts,
            rollout_policies,
            suspensions,
            shifts,
            many,
            failover_plans,
            ..Overview::default()
        })
    }

    /// Returns whether no intent is in it.
    pub const fn is_empty(&self) -> bool {
        let plain = self.suspensions.is_empty() && self.shifts.is_empty() && self.many.is_empty();
        let claiming = self.migrations.is_empty() && self.rollouts.is_empty();
        plain && claiming && self.rollout_policies.is_empty() && self.failover_plans.is_empty()
    }

    /// Returns it for people. `now` only says how long things take.
    pub fn text(&self, now: Timestamp) -> String {
        self.without_styles().styled(now)
    }

    /// Takes the styles of others out: what they write in red is no failure.
    fn without_styles(&self) -> Self {
        let many = self.many.iter().map(|one| Many {
            kind: one.kind.clone(),
            name: one.name.clone(),
            document: escape::without_styles(one.document.clone()),
            status: plain(&one.status),
        });
        Self {
            snapshot: plain(&self.snapshot),
            migrations: self.migrations.iter().map(plain).collect(),
            rollouts: self.rollouts.iter().map(plain).collect(),
            rollout_policies: self.rollout_policies.iter().map(plain).collect(),
            suspensions: self.suspensions.iter().map(plain).collect(),
            shifts: self.shifts.iter().map(plain).collect(),
            many: many.collect(),
            failover_plans: self.failover_plans.iter().map(plain).collect(),
        }
    }

    fn styled(&self, now: Timestamp) -> String {
        let mut text = String::new();
        for sync in &self.snapshot.syncs {
            sync_lines(&mut text, sync);
        }
        for left in &self.snapshot.left_behind {
            let line = format!("left behind, as {}: {}", left.why, left.objects.join(", "));
            push(&mut text, &line);
        }
        let migrations = by_urgency(&self.migrations);
        for migration in &migrations {
            if !text.is_empty() {
                text.push('\n');
            }
            for line in migration_lines(migration, now) {
                push(&mut text, &line);
            }
        }
        for policy in &self.rollout_policies {
            if !text.is_empty() {
                text.push('\n');
            }
            for line in rollout_policy_lines(policy) {
                push(&mut text, &line);
            }
        }
        for rollout in &self.rollouts {
            if !text.is_empty() {
                text.push('\n');
            }
            for line in rollout_lines(rollout, now) {
                push(&mut text, &line);
            }
        }
        for suspension in &self.suspensions {
            if !text.is_empty() {
                text.push('\n');
            }
            for line in suspension_lines(suspension, now) {
                push(&mut text, &line);
            }
        }
        for shift in &self.shifts {
            if !text.is_empty() {
                text.push('\n');
            }
            for line in shift_lines(shift, now) {
                push(&mut text, &line);
            }
        }
        for one in &self.many {
            if !text.is_empty() {
                text.push('\n');
            }
            for line in many::lines(one, now) {
                push(&mut text, &line);
            }
        }
        for plan in &self.failover_plans {
            if !text.is_empty() {
                text.push('\n');
            }
            for line in failover_lines(plan, now) {
                push(&mut text, &line);
            }
        }
        if self.is_empty() {
            text.push_str("no migrations\n");
        }
        text
    }

    /// Returns it as JSON, in the shape of [`super::SNAPSHOT_FILE`], with an account of each attempt.
    pub fn json(&self) -> Result<String, Error> {
        let snapshot = self.snapshot.clone().with_accounts(&self.migrations);
        serde_json::to_string_pretty(&snapshot)
            .map(|text| text + "\n")
            .map_err(|error| Error::internal(format!("the status cannot be written as JSON: {error}")))
    }
}

/// Returns the same with [`escape::without_styles`] applied to its texts. A name that would be none then has no style to begin
/// with.
fn plain<T: Clone + Serialize + DeserializeOwned>(one: &T) -> T {
    let value = serde_json::to_value(one).map(escape::without_styles);
    value
        .and_then(serde_json::from_value)
        .unwrap_or_else(|_| one.clone())
}

/// Adds a line: whatever it quotes, it is one.
fn push(text: &mut String, line: &str) {
    text.push_str(&styled_line(line));
    text.push('\n');
}

fn sync_lines(text: &mut String, sync: &SyncSnapshot) {
    let revision = sync
        .revision
        .as_ref()
        .map_or("never applied", |revision| revision.short());
    let head = format!(
        "{}  {revision}  in sync: {}, held back: {}, waiting: {}, problems: {}",
        styled(NAME, &sync.name),
        sync.in_sync,
        sync.held_back.len(),
        sync.waiting.iter().map(|wait| wait.count).sum::<usize>(),
        sync.problems.len()
    );
    push(text, &head);
    for held in &sync.held_back {
        let line = format!(
            "  {} is held back: {} takes the change along",
            held.object, held.by
        );
        push(text, &line);
    }
    for wait in sync.waiting.iter().filter(|wait| !wait.overdue) {
        let until = wait
            .until
            .map_or_else(String::new, |until| format!(", until {}", instant(until)));
        push(text, &format!("  {}{until}", styled(BUSY, wait.sentence())));
    }
    for problem in &sync.problems {
        push(text, &format!("  {}", styled(BAD, &problem.message)));
        if let Some(location) = &problem.location {
            push(text, &format!("  --> {location}"));
        }
        if let Some(hint) = &problem.hint {
            push(text, &format!("  hint: {hint}"));
        }
    }
}
