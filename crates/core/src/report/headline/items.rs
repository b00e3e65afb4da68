//! What there is to say: of intents, of syncs, of what else is known.

use super::{Headlines, Item, Known, Rank};
use crate::api::{Intent, Migration, Phase, RolloutPhase, Standing, SuspensionPhase, WaitCode};
use crate::report::account::reason;
use crate::report::summary::Summary;
use crate::report::{Outcome, Overview, names, place, status};
use crate::units::{brief, instant};

impl Headlines {
    pub(super) fn migrations(&mut self, overview: &Overview) {
        let (mut running, mut pending) = (0, 0);
        for migration in &overview.migrations {
            let status = status(migration);
            let (namespace, name) = names(migration);
            let who = format!("Migration {namespace}/{name}");
            let workload = &migration.spec.workload;
            let workload = format!("{} {namespace}/{}", workload.kind, workload.name);
            self.workloads.insert(who.clone(), vec![workload.clone()]);
            if !status.phase.is_terminal() {
                match status.phase {
                    Phase::Pending => pending += 1,
                    _ => running += 1,
                }
                let journal = status.journal.as_ref();
                let down = journal.filter(|journal| journal.up_since.is_none());
                if let Some(since) = down.and_then(|journal| journal.down_since) {
                    let text = format!("{workload} has not been seen running since {}", instant(since));
                    self.push(Rank::Down, text, &who);
                }
                if status.phase == Phase::RollingBack {
                    self.push(Rank::RolledBack, format!("{who} is being rolled back"), &who);
                }
                self.asks(&Summary::of(migration, workload), &who);
                continue;
            }
            match status.phase {
                Phase::Failed => self.push(Rank::Failed, format!("{who} failed"), &who),
                Phase::RolledBack if !has_moved_since(&overview.migrations, migration) => {
                    let why =
                        reason(migration).map_or_else(String::new, |why| format!(": {}", in_short(&why)));
                    self.push(Rank::RolledBack, format!("{who} was rolled back{why}"), &who);
                }
                _ if status.held_back.is_some() || !status.held_policies.is_empty() => {
                    let text = format!(
                        "changes of {workload} in Git are not applied: {who} ended {}",
                        status.phase
                    );
                    self.push(Rank::RolledBack, text, &who);
                }
                _ => {}
            }
        }
        if running + pending > 0 {
            let all = overview.migrations.len();
            let s = if all == 1 { "" } else { "s" };
            let how = match (running, pending) {
                (0, _) => format!("{pending} of {all} migration{s} not begun"),
                (_, 0) => format!("{running} of {all} migration{s} running"),
                _ => format!("{running} of {all} migration{s} running, {pending} not begun"),
            };
            self.push(Rank::Running, how, "");
        }
    }

    pub(super) fn failovers(&mut self, overview: &Overview) {
        for plan in &overview.failover_plans {
            let status = status(plan);
            let (namespace, name) = names(plan);
            let who = format!("FailoverPlan {namespace}/{name}");
            let flight = status
                .journal
                .as_ref()
                .and_then(|journal| journal.flight.as_ref());
            if let Some(flight) = flight.filter(|_| status.phase.in_flight()) {
                let text = format!(
                    "{who} moves its workload out of {} since {}",
                    flight.from,
                    instant(flight.since)
                );
                self.push(Rank::Down, text, &who);
            }
        }
    }

    pub(super) fn others(&mut self, overview: &Overview) {
        for one in overview.summaries() {
            let who = format!("{} {}", one.kind, one.place);
            let workloads = one.workloads.iter().map(ToString::to_string);
            self.workloads.insert(who.clone(), workloads.collect());
            self.asks(&one, &who);
            let why = || {
                one.why()
                    .map_or_else(String::new, |why| format!(": {}", in_short(&why)))
            };
            match (one.standing, one.phase) {
                (Standing::Failed, "Failed") => {
                    self.push(Rank::Failed, format!("{who} failed{}", why()), &who);
                }
                (Standing::Failed, "RolledBack" | "Undone") => {
                    self.push(Rank::RolledBack, format!("{who} was rolled back{}", why()), &who);
                }
                (Standing::UnderWay | Standing::InForce, _) => {
                    if let Some(trouble) = &one.trouble {
                        self.push(Rank::Failed, format!("{who} {trouble}"), &who);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn counts(&mut self, overview: &Overview, known: &Known) {
        self.count(Rank::Unhealthy, known.unhealthy, "");
        for sync in &known.syncs {
            let about = format!("Sync {}", sync.name);
            for (rank, number) in [
                (Rank::Problem, sync.problems),
                (Rank::HeldBack, sync.held_back),
                (Rank::Waiting, sync.waiting),
                (Rank::Pruning, sync.pruning),
            ] {
                self.count(rank, number, &about);
            }
        }
        for one in &overview.rollouts {
            let is_halted = status(one).phase == RolloutPhase::Halted;
            self.count(Rank::Halted, usize::from(is_halted), &subject(one));
        }
        for one in &overview.suspensions {
            let is_in_force = status(one).phase == SuspensionPhase::Suspended;
            self.count(Rank::Suspended, usize::from(is_in_force), &subject(one));
        }
        if let Some(since) = known.idle_since {
            let text = format!("no reconciler at work since {}", instant(since));
            self.push(Rank::NoReconciler, text, "");
        }
        if let Some(behind) = &known.behind {
            self.push(Rank::BehindGit, format!("behind Git: {behind}"), "");
        }
        if let Some(since) = known.syncs.iter().filter_map(|sync| sync.unread_since).min() {
            let text = format!("Git has not been read since {}", instant(since));
            self.push(Rank::Unread, text, "");
        }
        let unapplied = known.syncs.iter().filter(|sync| sync.is_unapplied).count();
        if unapplied > 0 {
            let s = if unapplied == 1 { "" } else { "s" };
            let text = format!("{unapplied} sync{s} never applied");
            self.push(Rank::Unknown, text, "");
        }
        for unknown in &known.unknown {
            self.push(Rank::Unknown, unknown.clone(), "");
        }
    }

    /// Adds what an intent asks of a person. That one is to approve, or has paused it, is as that person wants it.
    fn asks(&mut self, one: &Summary, who: &str) {
        let Some(text) = one.asks() else { return };
        let wait = one.common.waiting_for.as_ref();
        let is_wanted = wait.is_some_and(|wait| {
            matches!(wait.code, WaitCode::Approval | WaitCode::Pause) && wait.offers.is_empty()
        });
        let rank = Rank::WaitsForYou;
        self.items.push(Item {
            outcome: if is_wanted {
                Outcome::Pending
            } else {
                rank.outcome()
            },
            rank,
            text,
            number: 1,
            about: who.to_owned(),
        });
    }

    fn push(&mut self, rank: Rank, text: String, about: &str) {
        self.items.push(Item {
            outcome: rank.outcome(),
            rank,
            text,
            number: 1,
            about: about.to_owned(),
        });
    }

    pub(super) fn count(&mut self, rank: Rank, number: usize, about: &str) {
        if number > 0 {
            self.items.push(Item {
                outcome: rank.outcome(),
                rank,
                text: String::new(),
                number,
                about: about.to_owned(),
            });
        }
    }
}

/// Returns an intent as headlines name it.
fn subject<I: Intent>(intent: &I) -> String {
    format!("{} {}", I::KIND, place(intent))
}

/// Returns the first of several reasons, with short uids.
fn in_short(why: &str) -> String {
    brief(why.split("; ").next().unwrap_or(why))
}

/// Returns whether the workload of a Migration was moved by another one after it had ended: it runs where it was asked for since.
fn has_moved_since(all: &[Migration], ended: &Migration) -> bool {
    let at = |one: &Migration| status(one).common.finished_at;
    let is_later = |one: &&Migration| {
        one.spec.workload == ended.spec.workload
            && one.metadata.namespace == ended.metadata.namespace
            && status(*one).phase == Phase::Completed
            && at(one) > at(ended)
    };
    all.iter().any(|one| is_later(&one))
}
