//! How everything stands, as `cutover status` shows it: from what was observed, or from what the status branch says.

use jiff::Timestamp;

use super::headline::{self, SyncCounts};
use super::kinds::plain;
use super::snapshot::{Snapshot, SyncSnapshot};
use super::told::{BAD, BUSY, NAME, migration_lines, styled};
use super::{Overview, by_urgency, units::instant};
use crate::error::Error;
use cutover_base::escape::styled_line;

/// How everything stands, to be shown.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) snapshot: Snapshot,
    /// The intents whole; how the syncs stand says the snapshot.
    intents: Overview,
    /// It is of some intents only, and sums nothing up.
    is_part: bool,
}

impl View {
    /// Returns the view of what was observed.
    pub fn of(overview: &Overview) -> Self {
        Self {
            snapshot: Snapshot::of(overview),
            intents: overview.clone(),
            is_part: false,
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

    /// Returns the view of some of the intents, by kind, namespace and name, and of nothing else. Those of cluster scope have an
    /// empty namespace.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&str, &str, &str) -> bool) -> Self {
        let wanted = |kind: &str, (namespace, name): (&str, &str)| wanted(kind, namespace, name);
        let mut intents = Overview {
            revision: self.snapshot.revision.clone(),
            syncs: Vec::new(),
            left_behind: Vec::new(),
            ..self.intents.clone()
        };
        intents.retain(wanted);
        Self {
            is_part: true,
            ..Self::of(&intents)
        }
    }

    /// Returns whether no intent is in it.
    pub fn is_empty(&self) -> bool {
        self.intents.has_no_intents()
    }

    /// Returns it for people. `now` only says how long things take.
    pub fn text(&self, now: Timestamp) -> String {
        self.without_styles().styled(now)
    }

    /// Takes the styles of others out: what they write in red is no failure.
    fn without_styles(&self) -> Self {
        Self {
            snapshot: plain(&self.snapshot),
            intents: self.intents.plain_intents(),
            is_part: self.is_part,
        }
    }

    fn styled(&self, now: Timestamp) -> String {
        let all = &self.intents;
        let mut text = String::new();
        let has_content = !self.is_empty() || !self.snapshot.syncs.is_empty();
        if has_content && !self.is_part {
            let line = headline::line(all, SyncCounts::of_snapshot(&self.snapshot.syncs));
            push(&mut text, &styled(NAME, line));
        }
        for sync in &self.snapshot.syncs {
            sync_lines(&mut text, sync);
        }
        for left in &self.snapshot.left_behind {
            let line = format!("left behind, as {}: {}", left.why, left.objects.join(", "));
            push(&mut text, &line);
        }
        let (migrations, summaries) = (by_urgency(&all.migrations).into_iter(), all.summaries());
        let blocks = migrations
            .map(|one| migration_lines(one, now))
            .chain(summaries.iter().map(|one| one.lines(now)));
        for lines in blocks {
            if !text.is_empty() {
                text.push('\n');
            }
            for line in lines {
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
        let snapshot = self.snapshot.clone().with_accounts(&self.intents.migrations);
        serde_json::to_string_pretty(&snapshot)
            .map(|text| text + "\n")
            .map_err(|error| Error::internal(format!("the status cannot be written as JSON: {error}")))
    }
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
