//! What is said beside a commit where people look at commits: how everything stands, how its sync stands, and how what it asked for
//! has ended.

use jiff::Timestamp;

use super::summary::Summary;
use super::{Account, Overview, STATUS_FILE, SyncOverview, headline, names, path, route, status};
use crate::api::{Migration, Phase, Standing};
use crate::redact;
use crate::units::{brief, milliseconds};
use cutover_base::escape;
use cutover_karmada::name::Revision;

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on by itself.
    Pending,
    Success,
    /// Somebody should look.
    Failure,
}

/// What is said of one commit in one respect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub revision: Revision,
    /// Of what it is said: `status`, `sync/main`, `Migration/shop/orders-to-west`.
    pub subject: String,
    pub outcome: Outcome,
    /// Why, in one line.
    pub note: String,
    /// The file on the status branch that tells more.
    pub file: String,
    /// When the operation ended; none for what goes on.
    pub ended_at: Option<Timestamp>,
}

/// The subject of the headline.
const HEADLINE: &str = "status";

impl Verdict {
    /// Returns whether it is the headline: its words count what changes often.
    pub fn is_headline(&self) -> bool {
        self.subject == HEADLINE
    }

    /// Returns whether it says the same of the same commit, but for numbers.
    pub fn differs_in_numbers_only(&self, other: &Self) -> bool {
        (&self.subject, self.outcome, &self.revision) == (&other.subject, other.outcome, &other.revision)
            && without_numbers(&self.note).eq(without_numbers(&other.note))
    }
}

/// Returns the words of a text, an empty one for each number.
fn without_numbers(text: &str) -> impl Iterator<Item = &str> {
    // A number in a name is part of it.
    let is_number = |word: &str| {
        let word = word.trim_end_matches([',', ';']);
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
    };
    text.split(' ')
        .map(move |word| if is_number(word) { "" } else { word })
}

/// Returns what there is to say: of everything, of each sync's present revision, and of each intent that has ended.
///
/// The same state gives the same words, and what changes often (times, replicas that are counted) isn't in them: each
/// new word is a request.
pub fn verdicts(overview: &Overview) -> Vec<Verdict> {
    let syncs = overview.syncs.iter().filter_map(of_sync);
    let migrations = overview.migrations.iter().filter_map(of_migration);
    let others = overview.summaries();
    let others = others.iter().filter_map(of_summary);
    let all = of_all(overview).into_iter().chain(syncs);
    all.chain(migrations).chain(others).collect()
}

/// Returns so many of them, the last of which stands for all that are left out: whoever may push decides how many syncs and
/// intents there are, and each is a request to the host. The order stays, and so does what is said by name.
pub fn at_most(mut verdicts: Vec<Verdict>, most: usize) -> Vec<Verdict> {
    if verdicts.len() <= most {
        return verdicts;
    }
    let others = verdicts.split_off(most.saturating_sub(1));
    let count = |outcome| others.iter().filter(|one| one.outcome == outcome).count();
    let [failed, going_on] = [Outcome::Failure, Outcome::Pending].map(count);
    let outcome = match (failed, going_on) {
        (1.., _) => Outcome::Failure,
        (0, 1..) => Outcome::Pending,
        (0, 0) => Outcome::Success,
    };
    // The place to look is that of one to which this applies.
    let Some(first) = others.iter().find(|one| one.outcome == outcome) else {
        return verdicts;
    };
    verdicts.push(Verdict {
        revision: first.revision.clone(),
        subject: "others".to_owned(),
        outcome,
        note: said(&format!(
            "{} more: {failed} to look at, {going_on} under way, first of all {}",
            others.len(),
            first.subject
        )),
        file: first.file.clone(),
        ended_at: None,
    });
    verdicts
}

/// The headline, at the revision that was looked at last. All is well there once every sync has come to it: of one that hasn't
/// reported nothing is known.
fn of_all(overview: &Overview) -> Option<Verdict> {
    let revision = overview.revision.clone()?;
    let headline = headline::of_overview(overview);
    let mut syncs = overview.syncs.iter();
    let is_known = syncs.all(|sync| sync.revision.as_ref() == Some(&revision));
    (is_known || headline.outcome != Outcome::Success).then(|| Verdict {
        revision,
        subject: HEADLINE.to_owned(),
        outcome: headline.outcome,
        note: said(&headline.short),
        file: STATUS_FILE.to_owned(),
        ended_at: None,
    })
}

fn of_sync(sync: &SyncOverview) -> Option<Verdict> {
    let waiting = sync.waiting.iter().find(|wait| !wait.overdue);
    let (outcome, note) = match (sync.problems.first(), waiting, sync.held_back.first()) {
        (Some(first), ..) => {
            let place = first.location.as_ref();
            let place = place.map_or_else(String::new, |place| format!("{place}: "));
            let more = more(sync.problems.len());
            (Outcome::Failure, format!("{place}{}{more}", first.message))
        }
        (None, Some(wait), _) => {
            let first = wait.objects.first().map_or_else(String::new, ToString::to_string);
            let more = more(wait.objects.len());
            (Outcome::Pending, format!("waits for its turn: {first}{more}"))
        }
        (None, None, Some(held)) => {
            let more = more(sync.held_back.len());
            let note = format!("{} takes {} along{more}", held.by, held.object);
            (Outcome::Pending, note)
        }
        (None, None, None) => (Outcome::Success, "in sync".to_owned()),
    };
    Some(Verdict {
        revision: sync.revision.clone()?,
        subject: format!("sync/{}", sync.name),
        outcome,
        note: said(&note),
        file: STATUS_FILE.to_owned(),
        ended_at: None,
    })
}

fn of_migration(migration: &Migration) -> Option<Verdict> {
    let status = status(migration);
    // It was told when it ended; what this time would be told of is an older commit.
    if status.phase == Phase::EndedBefore {
        return None;
    }
    let outcome = ended(status.phase.is_terminal(), status.phase == Phase::Completed)?;
    let account = Account::of(migration);
    let finding = status
        .common
        .findings
        .first()
        .map(|finding| finding.message.clone());
    let note = match outcome {
        Outcome::Success => {
            let (from, to) = route(migration);
            let downtime = account.downtime_ms.map(milliseconds);
            let downtime = downtime.map_or_else(String::new, |downtime| format!(", downtime {downtime}"));
            format!("{from} → {to}{downtime}")
        }
        _ => match account.reason.or(finding) {
            Some(why) => format!("{}: {why}", status.phase),
            None => status.phase.to_string(),
        },
    };
    let (namespace, name) = names(migration);
    Some(Verdict {
        revision: status.common.revision.clone()?.try_into().ok()?,
        subject: format!("Migration/{namespace}/{name}"),
        outcome,
        note: said(&note),
        file: path(migration),
        ended_at: status.common.finished_at,
    })
}

/// What is in force, or goes on, is not judged; one that failed is, though it may stand until a person decides.
fn of_summary(one: &Summary) -> Option<Verdict> {
    let outcome = match one.standing {
        Standing::Done if one.has_ended => Outcome::Success,
        Standing::Failed => Outcome::Failure,
        _ => return None,
    };
    let finding = one.common.findings.first().map(|finding| finding.message.clone());
    let why = finding.or_else(|| one.why().filter(|_| outcome != Outcome::Success));
    let note = why.map_or_else(|| one.phase.to_owned(), |why| format!("{}: {why}", one.phase));
    Some(Verdict {
        revision: one.common.revision.clone()?.try_into().ok()?,
        subject: format!("{}/{}", one.kind, one.place),
        outcome,
        note: said(&note),
        file: one.record.clone(),
        ended_at: one.common.finished_at,
    })
}

fn ended(is_over: bool, well: bool) -> Option<Outcome> {
    let outcome = if well { Outcome::Success } else { Outcome::Failure };
    is_over.then_some(outcome)
}

fn more(all: usize) -> String {
    match all.saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    }
}

/// Returns one line without credentials that can be recognised.
fn said(note: &str) -> String {
    brief(&escape::prose(&redact::text(note)))
}

#[cfg(test)]
mod tests;
