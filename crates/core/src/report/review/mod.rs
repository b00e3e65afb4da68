//! What a reviewer of a pull request is told: what it changes, what would block it, who would move and how.
//!
//! A pure function of a plan, findings and what could be seen of the control plane. Nothing secret gets in: a plan is shown
//! through its [`View`], and all the rest says names and reasons. A report is never longer than it may be: it is made of
//! parts that are there whole or not at all, the most important first.

mod blockers;
mod changes;
mod chart;
mod endings;
mod forecasts;
mod groups;
mod links;
mod merge;
mod moves;
mod page;
mod reach;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

pub use endings::{Course, Ending};
pub use links::Links;
pub use moves::{Move, Neighbours, Preview, Template, Verdict};
pub use reach::{Effect, Fate, PolicyChange, Reach};

use super::annotations::{Annotation, Level, plan_annotations, with_hint};
use crate::finding::{Finding, Severity};
use crate::plan::{Action, Change, Forecast, Outcome, View};
use blockers::Blocker;
use links::Places;
use page::{Page, code, collapsed, count, inline};

/// What GitHub takes as the body of a comment, in characters.
pub const COMMENT_LIMIT: usize = 65_536;

/// What is told of a change that is under review.
#[derive(Clone, Debug, Default)]
pub struct Review<'a> {
    /// Tells this report from others of the same pull request: letters, digits and dashes.
    pub key: &'a str,
    pub plan: Option<View<'a>>,
    pub findings: &'a [Finding],
    pub moves: &'a [Move],
    pub reaches: &'a [Reach],
    pub endings: &'a [Ending],
    /// The address of the control plane that the plan compares with; `None`: it compares with what Git had.
    pub server: Option<&'a str>,
    /// Where the files are shown to people, if that is known.
    pub links: Option<&'a Links>,
    /// What the reader should know of how the report came about.
    pub notes: &'a [String],
    /// Where the whole report is, in Markdown, for when this one is cut.
    pub whole: Option<&'a str>,
}

/// How many findings of each severity there are, and how much would block the change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub errors: usize,
    pub warnings: usize,
    pub blockers: usize,
}

/// Returns the line by which a report with this key is found again.
pub fn marker(key: &str) -> String {
    let key: String = key
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .collect();
    format!("<!-- cutover review: {key} -->")
}

impl Review<'_> {
    /// Returns the report, of at most so many characters. What doesn't fit is left out, what is least likely to hurt first.
    pub fn markdown(&self, limit: usize) -> String {
        let places = self.places();
        let head = self.head();
        let last = self.cut_notice();
        let reserved = last.chars().count();
        let mut page = Page::new(limit, reserved);
        if !page.add(&head) {
            return head.chars().take(limit).collect();
        }
        let mut left_out = 0;
        let blockers: Vec<String> = self.blockers().into_iter().map(|blocker| blocker.line).collect();
        left_out += page.list("\n### What would block it\n\n", &blockers, |more| {
            format!("- … and {more} more\n")
        });
        left_out += endings::section(&mut page, self.endings, places);
        left_out += self.intents(&mut page);
        left_out += self.policies(&mut page);
        if let Some(plan) = &self.plan {
            let rows = changes::by_danger(plan);
            left_out += changes::table(&mut page, &rows, places);
            left_out += self.remarks(&mut page);
            left_out += changes::details(&mut page, &rows, places);
        } else {
            left_out += self.remarks(&mut page);
        }
        page.end(if left_out > 0 { &last } else { "" })
    }

    pub fn counts(&self) -> Counts {
        let of = |severity| {
            let mut findings = self.findings.iter();
            findings
                .by_ref()
                .filter(|finding| finding.severity == severity)
                .count()
        };
        Counts {
            errors: of(Severity::Error),
            warnings: of(Severity::Warning),
            blockers: self.blockers().iter().map(|blocker| blocker.objects).sum(),
        }
    }

    /// Returns what is shown beside the lines of the change.
    pub fn annotations(&self) -> Vec<Annotation> {
        let findings = self.findings.iter().map(Annotation::from);
        let moves = self.moves.iter().filter_map(|one| match &one.preview.verdict {
            Verdict::Blocked(found) => Some(Annotation {
                level: Level::Error,
                at: one.at.clone(),
                title: format!("would fail: {}", one.intent),
                message: found
                    .iter()
                    .map(|found| with_hint(&found.message, found.hint.as_deref()))
                    .collect::<Vec<_>>()
                    .join("\n"),
            }),
            _ => None,
        });
        let refused = self.forecasts().into_iter();
        let refused = refused.filter(|(_, forecast)| forecast.outcome == Outcome::Refused);
        let refused = refused.map(|(change, forecast)| Annotation {
            level: Level::Error,
            at: change.source.clone(),
            title: format!("would fail: {}", change.key),
            message: forecast.because.join("\n"),
        });
        let reaches = self.reaches.iter().filter(|reach| reach.is_loud());
        let reaches = reaches.map(|reach| Annotation {
            level: Level::Warning,
            at: reach.at.clone(),
            title: format!("moves or holds workloads: {}", reach.policy),
            message: reach
                .effects
                .iter()
                .filter(|effect| effect.fate.is_loud())
                .map(|effect| effect.workload.clone())
                .collect::<Vec<_>>()
                .join(", "),
        });
        // A file that can't be read is a finding already.
        let is_told = |annotation: &Annotation| {
            let mut findings = self.findings.iter();
            annotation.at.is_some() && findings.any(|finding| finding.location == annotation.at)
        };
        let plan = self.plan.iter().flat_map(plan_annotations);
        let plan = plan.filter(|annotation| annotation.level != Level::Error || !is_told(annotation));
        findings
            .chain(moves)
            .chain(refused)
            .chain(reaches)
            .chain(plan)
            .collect()
    }

    fn head(&self) -> String {
        let mut text = format!("{}\n", marker(self.key));
        let summary = self.plan.as_ref().map(|plan| plan.set().summary().to_string());
        let title = summary.unwrap_or_else(|| "Checked offline; nothing was planned.".to_owned());
        let _ = writeln!(text, "### {title}");
        let facts = self.facts();
        if !facts.is_empty() {
            let _ = writeln!(text, "\n{}", facts.join(" · "));
        }
        if let Some(sentence) = self.on_merge() {
            let _ = writeln!(text, "\n{sentence}");
        }
        for note in self.notes {
            let _ = writeln!(text, "\n> {}", inline(note));
        }
        text
    }

    fn facts(&self) -> Vec<String> {
        let Some(plan) = &self.plan else {
            return Vec::new();
        };
        let set = plan.set();
        let mut facts = Vec::new();
        if let Some(revision) = &set.revision {
            facts.push(match &set.base {
                Some(base) => format!("`{}..{}`", base.short(), revision.short()),
                None => format!("`{}`", revision.short()),
            });
        }
        if let Some(hash) = plan.hash().filter(|_| !set.is_noop()) {
            facts.push(format!("hash `{}`", hash.short()));
        }
        facts.push(match self.server {
            Some(server) => format!("compared with {}", code(server)),
            None => "compared in Git alone".to_owned(),
        });
        if set.elsewhere > 0 {
            facts.push(format!(
                "{} may differ besides",
                count(set.elsewhere, "other object")
            ));
        }
        facts
    }

    /// Says what happens on merge, of a range of commits that is compared with a control plane.
    fn on_merge(&self) -> Option<String> {
        let set = self.plan.as_ref()?.set();
        self.server.and(set.base.as_ref())?;
        let forecasts = self.forecasts();
        let forecasts: Vec<_> = forecasts
            .iter()
            .map(|(change, forecast)| (&change.key, *forecast))
            .collect();
        Some(merge::sentence(&set.summary(), self.moves, &forecasts))
    }

    const fn places(&self) -> Places<'_> {
        Places(self.links)
    }

    /// Everything for which this can't be carried out as it is.
    fn blockers(&self) -> Vec<Blocker> {
        let places = self.places();
        let errors = self
            .findings
            .iter()
            .filter(|finding| finding.severity == Severity::Error);
        let problems = self.plan.iter().flat_map(|plan| &plan.set().problems);
        // What can't be read is found by the check as well, which says more.
        let problems = problems.filter(|problem| {
            let mut findings = self.findings.iter();
            problem.at.is_none() || !findings.any(|finding| finding.location == problem.at)
        });
        let changes = self.plan.iter().flat_map(|plan| &plan.set().changes);
        let blocked = blockers::blocked(changes, places);
        let moves = self.moves.iter().flat_map(|one| match &one.preview.verdict {
            Verdict::Blocked(found) => found
                .iter()
                .map(|found| {
                    let line = moves::finding(found);
                    format!("- ⛔ {}: {}\n", code(&one.intent.to_string()), &line[2..])
                })
                .collect(),
            _ => Vec::new(),
        });
        let forecasts = self.forecasts();
        let refused = forecasts.iter().filter_map(|(change, forecast)| {
            let refused = forecast.outcome == Outcome::Refused;
            refused.then(|| forecasts::blockers(&change.key, forecast))
        });
        let problems = problems.map(|problem| blockers::problem(problem, places));
        errors
            .map(|finding| told(finding, places))
            .chain(problems)
            .map(Blocker::one)
            .chain(blocked)
            .chain(moves.chain(refused.flatten()).map(Blocker::one))
            .collect()
    }

    /// What would come of intents that have no story of their own here.
    fn forecasts(&self) -> Vec<(&Change, &Forecast)> {
        let changes = self.plan.iter().flat_map(|plan| &plan.set().changes);
        let told = |change: &&Change| self.moves.iter().any(|one| one.intent == change.key);
        changes
            .filter(|change| !told(change) && change.action != Action::Unchanged)
            .filter_map(|change| Some((change, change.forecast.as_ref()?)))
            .collect()
    }

    fn intents(&self, page: &mut Page) -> usize {
        let forecasts = self.forecasts();
        if self.moves.is_empty() && forecasts.is_empty() && !self.reaches.iter().any(Reach::is_loud) {
            return 0;
        }
        let mut left_out = 0;
        let told: Vec<&Forecast> = forecasts.iter().map(|(_, forecast)| *forecast).collect();
        if let Some(chart) = chart::chart(self.moves, &told, self.reaches)
            && !page.add(&format!("\n### Who moves where\n\n{chart}"))
        {
            left_out += 1;
        }
        let places = self.places();
        let sections: Vec<String> = self.moves.iter().map(|one| moves::section(one, places)).collect();
        left_out += page.list("", &sections, |more| {
            format!("\n… and {} more.\n", count(more, "migration"))
        });
        let sections: Vec<String> = forecasts
            .iter()
            .map(|(change, forecast)| forecasts::section(change, forecast, places))
            .collect();
        left_out += page.list("\n### What intents would do\n", &sections, |more| {
            format!("\n… and {} more.\n", count(more, "intent"))
        });
        left_out
    }

    fn policies(&self, page: &mut Page) -> usize {
        let loud = self.reaches.iter().filter(|reach| reach.is_loud());
        let quiet = self
            .reaches
            .iter()
            .filter(|reach| !reach.is_loud() && !reach.effects.is_empty());
        let sections: Vec<String> = loud
            .chain(quiet)
            .map(|reach| reach::section(reach, self.places()))
            .collect();
        page.list(
            "\n### What Karmada does by itself when policies change\n",
            &sections,
            |more| format!("\n… and {} more.\n", count(more, "policy change")),
        )
    }

    /// Warnings and notes of the check.
    fn remarks(&self, page: &mut Page) -> usize {
        let others: Vec<String> = self
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Error)
            .map(|finding| told(finding, self.places()))
            .collect();
        if others.is_empty() {
            return 0;
        }
        let section = collapsed(&count(others.len(), "remark"), &others.concat());
        if page.add(&section) { 0 } else { others.len() }
    }

    fn cut_notice(&self) -> String {
        let whole = match self.whole {
            Some(whole) => format!("the whole report is {whole}"),
            None => "`cutover review` shows it all".to_owned(),
        };
        format!("\n_Cut: not everything fits into a comment; {whole}._\n")
    }
}

fn told(finding: &Finding, places: Places<'_>) -> String {
    let symbol = match finding.severity {
        Severity::Error => "❌",
        Severity::Warning => "⚠️",
        Severity::Note => "💡",
    };
    let at = finding
        .location
        .as_ref()
        .map(|at| format!(" {}", places.exact(at)))
        .unwrap_or_default();
    format!(
        "- {symbol} {}{at}: {}{}\n",
        finding.code,
        inline(&finding.message),
        bracketed(finding.hint.as_deref())
    )
}

fn bracketed(hint: Option<&str>) -> String {
    hint.map(|hint| format!(" ({})", inline(hint)))
        .unwrap_or_default()
}
