//! How an intent stands, in the conditions that every kind has alike: those that `kubectl wait`, and tools that know nothing of
//! cutover, go by.

use jiff::Timestamp;

use super::{Condition, ConditionStatus, WaitingFor};

/// How an intent stands, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// What was asked for isn't so yet.
    UnderWay,
    /// It is so, and is kept so: a guard, a suspension.
    InForce,
    /// It is so, and nothing more is to be done.
    Done,
    /// It didn't come to what was asked for, and nothing more happens by itself.
    Failed,
}

/// What was asked for is so.
const READY: &str = "Ready";
/// It is being brought about.
const RECONCILING: &str = "Reconciling";
/// It goes on only when a person does something.
const STALLED: &str = "Stalled";
/// It has come to an outcome, whichever: whoever waits for it has waited long enough.
const ENDED: &str = "Ended";

impl Standing {
    /// Returns whether it has come to an outcome.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed)
    }

    /// Says it in conditions. By the conventions of Kubernetes, `Reconciling` and `Stalled` are there only while they hold.
    pub fn say(
        self,
        conditions: &mut Vec<Condition>,
        wait: Option<&WaitingFor>,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        let asks = self == Self::UnderWay && wait.is_some_and(WaitingFor::asks_a_person);
        let stalled = asks || self == Self::Failed;
        let reconciling = self == Self::UnderWay && !asks;
        let ready = matches!(self, Self::InForce | Self::Done);
        for (type_, holds) in [(READY, ready), (ENDED, self.is_over())] {
            Condition::put(conditions, type_, holds, reason, message, now);
        }
        for (type_, holds) in [(RECONCILING, reconciling), (STALLED, stalled)] {
            if holds {
                Condition::put(conditions, type_, true, reason, message, now);
            } else {
                conditions.retain(|condition| condition.type_ != type_);
            }
        }
    }
}

impl Condition {
    /// Says whether a condition holds, since when, and why.
    pub fn put(
        conditions: &mut Vec<Self>,
        type_: &str,
        status: impl Into<ConditionStatus>,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) {
        let status = status.into();
        let known = conditions.iter_mut().find(|known| known.type_ == type_);
        let since = match &known {
            Some(known) if known.status == status => known.last_transition_time,
            _ => now,
        };
        let condition = Self {
            type_: type_.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: since,
        };
        match known {
            Some(known) => *known = condition,
            None => conditions.push(condition),
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::WaitCode;

    fn said(standing: Standing, wait: Option<WaitCode>) -> String {
        let now = Timestamp::UNIX_EPOCH;
        let wait = wait.map(|code| WaitingFor {
            code,
            reason: "a word".to_owned(),
            offers: Vec::new(),
            approval: None,
            since: now,
            until: None,
            then: None,
            last_warning: None,
        });
        let mut conditions = Vec::new();
        Standing::UnderWay.say(&mut conditions, None, "Before", "", now);
        standing.say(&mut conditions, wait.as_ref(), "Phase", "", now);
        let all = conditions
            .iter()
            .map(|one| format!("{}={:?}", one.type_, one.status));
        all.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn reconciling_and_stalled_are_there_only_while_they_hold() {
        use Standing::{Done, Failed, InForce, UnderWay};
        assert_eq!(said(UnderWay, None), "Ready=False Ended=False Reconciling=True");
        let evidence = said(UnderWay, Some(WaitCode::Evidence));
        assert_eq!(evidence, "Ready=False Ended=False Reconciling=True");
        assert_eq!(
            said(UnderWay, Some(WaitCode::Approval)),
            "Ready=False Ended=False Stalled=True"
        );
        assert_eq!(said(InForce, None), "Ready=True Ended=False");
        assert_eq!(said(Done, None), "Ready=True Ended=True");
        assert_eq!(said(Failed, None), "Ready=False Ended=True Stalled=True");
    }

    #[test]
    fn a_condition_keeps_the_time_since_when_it_holds() {
        let later: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut conditions = Vec::new();
        Condition::put(&mut conditions, READY, false, "A", "", Timestamp::UNIX_EPOCH);
        Condition::put(&mut conditions, READY, false, "B", "", later);
        assert_eq!(conditions[0].last_transition_time, Timestamp::UNIX_EPOCH);
        Condition::put(&mut conditions, READY, true, "C", "", later);
        assert_eq!(conditions[0].last_transition_time, later);
    }
}
