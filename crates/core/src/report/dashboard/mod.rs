//! What `cutover status` shows on a terminal: the headline, the syncs, what runs where, and every intent with what comes next. It is
//! laid out for a width; nothing here asks a terminal or a clock.

mod intents;
mod lines;
mod migration;
mod syncs;
#[cfg(test)]
mod tests;
mod workloads;

use std::collections::BTreeMap;

use jiff::Timestamp;

use self::intents::Entry;
use self::lines::laid_out;
use super::copies::{Copies, WorkloadKey};
use super::headline::{self, Headline, SyncCounts};
use super::kinds::plain;
use super::reconciler::SyncSummaries;
use super::snapshot::{LeftSnapshot, SyncSnapshot, UnhealthySnapshot};
use super::told::{NAME, QUIET, styled};
use super::{Overview, Reconciler};

pub use lines::on_a_screen;
pub use migration::migration_lines;

pub(super) use lines::Line;
pub(super) use migration::summary as migration_summary;

/// The headline where no intent is there, and no workload is unwell.
const NOTHING: &str = "Nothing is under way";

/// How a status is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Says how long something takes, and nothing else.
    pub now: Timestamp,
    /// The columns of the terminal; `None`: lines are as long as they are.
    pub width: Option<usize>,
    /// What has ended is shown whole, too, and so are all workloads and all parts of an intent.
    pub all: bool,
    /// With the evidence of each step, in which uids, markers and probes have their names.
    pub verbose: bool,
    /// A line an intent, with more columns.
    pub wide: bool,
}

impl Layout {
    /// Returns the plain one, at some time.
    pub const fn at(now: Timestamp) -> Self {
        Self {
            now,
            width: None,
            all: false,
            verbose: false,
            wide: false,
        }
    }

    /// Returns the width that lines are to fit.
    fn fitting(&self) -> Option<usize> {
        self.width.filter(|_| !self.wide)
    }
}

/// A status that is ready to be laid out, again and again as time goes by.
#[derive(Clone, Debug)]
pub struct Dashboard {
    pub(super) syncs: Vec<SyncSnapshot>,
    pub(super) left_behind: Vec<LeftSnapshot>,
    /// Where what runs where was not looked at: the workloads that the status branch says are not healthy.
    pub(super) unhealthy: Option<UnhealthySnapshot>,
    /// What the control plane had not told yet.
    pub(super) unknown: Vec<String>,
    pub(super) intents: Overview,
    pub(super) copies: Option<Copies>,
    /// Whether a reconciler is at work, and how its syncs stand, if that was looked at.
    pub(super) reconciler: Option<Reconciler>,
    /// By how much a status branch is behind Git, if it is.
    pub(super) behind: Option<String>,
    /// The workloads that intents are about, and whether one of these goes on.
    pub(super) named: BTreeMap<WorkloadKey, bool>,
    /// It is of some intents only, and sums nothing up.
    pub(super) is_part: bool,
}

impl Dashboard {
    /// Returns it as text with styles, a line break at the end of each line.
    pub fn text(&self, layout: &Layout) -> String {
        let entries = Entry::all(&self.intents.migrations, self.intents.summaries());
        let mut page = Vec::new();
        self.add_headline(&mut page);
        syncs::add(&self.syncs, &self.left_behind, layout, &mut page);
        if let Some(summaries) = self.summaries() {
            syncs::add_summaries(summaries, layout, &mut page);
        }
        if let Some(unhealthy) = &self.unhealthy {
            workloads::add_unhealthy(unhealthy, &mut page);
        }
        if let Some(copies) = &self.copies {
            workloads::add(copies, self, layout, &mut page);
        }
        if layout.wide {
            page.extend(intents::wide(&entries, layout, QUIET));
        } else {
            intents::add(&entries, layout, &mut page);
        }
        if entries.is_empty() {
            // A wide table of workloads ends with an empty line.
            if !page.is_empty() && !layout.wide {
                page.push(Line::new(""));
            }
            page.push(Line::new("no intents"));
        }
        // The control plane knows of syncs what a reconciler has noted there.
        let is_unknown = self.syncs.is_empty() && self.summaries().is_none();
        if self.copies.is_some() && !self.is_part && is_unknown {
            let text = "syncs: cutover status --recorded (they are not in the control plane)";
            page.push(Line::new(""));
            page.push(Line::new(styled(QUIET, text)).hanging(0));
        }
        page.iter().fold(String::new(), |text, line| {
            text + &laid_out(line, layout.fitting()) + "\n"
        })
    }

    /// Takes in what the Lease of the reconcilers says by now. Returns whether that is news.
    pub fn see(&mut self, reconciler: &Reconciler) -> bool {
        let reconciler = plain(reconciler);
        let is_news = !self.is_part && self.reconciler.as_ref() != Some(&reconciler);
        self.reconciler = Some(reconciler);
        is_news
    }

    /// Returns how the syncs stand that the Lease tells of, where nothing else does.
    fn summaries(&self) -> Option<&SyncSummaries> {
        let all = &self.reconciler.as_ref()?.syncs;
        let counts = !self.is_part && self.syncs.is_empty() && !all.syncs.is_empty();
        counts.then_some(all)
    }

    /// Returns when a reconciler was at work last, if none is.
    fn idle_since(&self) -> Option<Timestamp> {
        self.reconciler.as_ref()?.idle_since
    }

    /// Returns how many workloads have a copy that is not as it should be.
    fn unhealthy_count(&self) -> usize {
        let recorded = self.unhealthy.as_ref().map_or(0, |unhealthy| unhealthy.count);
        self.copies.as_ref().map_or(recorded, Copies::unhealthy_count)
    }

    /// Returns whether what runs where was looked at, and could not be seen.
    fn is_unseen(&self) -> bool {
        self.copies
            .as_ref()
            .is_some_and(|copies| copies.unknown.is_some())
    }

    fn add_headline(&self, page: &mut Vec<Line>) {
        let has_content = !self.intents.has_no_intents()
            || !self.syncs.is_empty()
            || self.summaries().is_some()
            || self.unhealthy_count() > 0
            || self.idle_since().is_some()
            || self.is_unseen()
            || !self.unknown.is_empty()
            || self.behind.is_some();
        let has_workloads = self
            .copies
            .as_ref()
            .is_some_and(|copies| !copies.workloads.is_empty());
        let line = match (has_content, has_workloads) {
            _ if self.is_part => return,
            (true, _) => self.headline().text,
            (false, true) => NOTHING.to_owned(),
            (false, false) => return,
        };
        page.push(Line::new(styled(NAME, line)).hanging(0));
    }

    fn headline(&self) -> Headline {
        let summaries = self.summaries();
        let unseen = self
            .is_unseen()
            .then(|| "what runs where is not known".to_owned());
        let syncs = match summaries {
            Some(all) => all.syncs.iter().map(SyncCounts::of_summary).collect(),
            None => self.syncs.iter().map(SyncCounts::of_snapshot).collect(),
        };
        let known = headline::Known {
            syncs,
            has_syncs: !self.syncs.is_empty() || summaries.is_some_and(|all| all.more == 0),
            unhealthy: self.unhealthy_count(),
            idle_since: self.idle_since(),
            behind: self.behind.clone(),
            unknown: self.unknown.iter().cloned().chain(unseen).collect(),
        };
        headline::of(&self.intents, &known)
    }

    /// Returns whether nothing is wrong and nothing waits for a person, as the headline has it; of a part, as its own would.
    pub fn is_well(&self) -> bool {
        self.headline().is_well
    }
}
