//! What is said beside a commit where people look at commits: how its sync stands, and how what it asked for has ended.

use jiff::Timestamp;

use super::{
    Account, Overview, STATUS_FILE, SyncOverview, brief, duration, names, record_path, rollout, route,
};
use super::{rollout_path, shift, shift_path, status, suspension, suspension_path};
use crate::api::{
    Common, Migration, MovesPhase, Phase, ReplicaShift, Rollout, RolloutPhase, ShiftPhase, Suspension,
    SuspensionPhase,
};
use crate::redact;
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
    /// Of what it is said: `sync/main`, `Migration/shop/orders-to-west`.
    pub subject: String,
    pub outcome: Outcome,
    /// Why, in one line.
    pub note: String,
    /// The file on the status branch that tells more.
    pub file: String,
    /// When the operation ended; none for what goes on.
    pub ended_at: Option<Timestamp>,
}

/// Returns what there is to say: of each sync's present revision, and of each intent that has ended.
///
/// The same state gives the same words, and what changes often (times, replicas that are counted) isn't in them: each
/// new word is a request.
pub fn verdicts(overview: &Overview) -> Vec<Verdict> {
    let syncs = overview.syncs.iter().filter_map(of_sync);
    let migrations = overview.migrations.iter().filter_map(of_migration);
    let rollouts = overview.rollouts.iter().filter_map(of_rollout);
    let suspensions = overview.suspensions.iter().filter_map(of_suspension);
    let shifts = overview.shifts.iter().filter_map(of_shift);
    let many = overview.many.iter().filter_map(|one| {
        let outcome = ended(
            one.status.phase.is_terminal(),
            one.status.phase == MovesPhase::Completed,
        )?;
        let end = End {
            phase: one.status.phase.name(),
            common: &one.status.common,
            outcome,
        };
        end.verdict(&one.kind, "", &one.name, one.path())
    });
    let all = syncs.chain(migrations).chain(rollouts);
    all.chain(suspensions).chain(shifts).chain(many).collect()
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
            let downtime = account.downtime_ms.and_then(|millis| i64::try_from(millis).ok());
            let downtime = downtime.map(jiff::SignedDuration::from_millis).map(duration);
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
        file: record_path(migration),
        ended_at: status.common.finished_at,
    })
}

fn of_rollout(one: &Rollout) -> Option<Verdict> {
    let status = rollout::status(one);
    let outcome = match status.phase {
        RolloutPhase::Completed => Outcome::Success,
        RolloutPhase::Undone | RolloutPhase::Halted => Outcome::Failure,
        _ => return None,
    };
    let end = End {
        phase: status.phase.name(),
        common: &status.common,
        outcome,
    };
    let (namespace, name) = rollout::names(one);
    end.verdict("Rollout", namespace, name, rollout_path(one))
}

fn of_suspension(one: &Suspension) -> Option<Verdict> {
    let status = suspension::status(one);
    let end = End {
        phase: status.phase.name(),
        common: &status.common,
        outcome: ended(
            status.phase.is_terminal(),
            status.phase == SuspensionPhase::Completed,
        )?,
    };
    let (namespace, name) = suspension::names(one);
    end.verdict("Suspension", namespace, name, suspension_path(one))
}

fn of_shift(one: &ReplicaShift) -> Option<Verdict> {
    let status = shift::status(one);
    let end = End {
        phase: status.phase.name(),
        common: &status.common,
        outcome: ended(status.phase.is_terminal(), status.phase == ShiftPhase::Completed)?,
    };
    let (namespace, name) = shift::names(one);
    end.verdict("ReplicaShift", namespace, name, shift_path(one))
}

/// An operation that has ended, of whatever kind.
struct End<'a> {
    phase: &'a str,
    common: &'a Common,
    outcome: Outcome,
}

impl End<'_> {
    fn verdict(&self, kind: &str, namespace: &str, name: &str, file: String) -> Option<Verdict> {
        let finding = self.common.findings.first();
        let last = self
            .common
            .steps
            .last()
            .filter(|_| self.outcome != Outcome::Success);
        let evidence = last.filter(|step| !step.evidence.is_empty());
        let why = finding
            .map(|finding| finding.message.clone())
            .or_else(|| evidence.map(|step| step.evidence.join("; ")));
        let note = why.map_or_else(|| self.phase.to_owned(), |why| format!("{}: {why}", self.phase));
        let place = match namespace {
            "" => name.to_owned(),
            namespace => format!("{namespace}/{name}"),
        };
        Some(Verdict {
            revision: self.common.revision.clone()?.try_into().ok()?,
            subject: format!("{kind}/{place}"),
            outcome: self.outcome,
            note: said(&note),
            file,
            ended_at: self.common.finished_at,
        })
    }
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
