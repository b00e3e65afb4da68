//! Objects that somebody changes back as often as they are corrected: each correction then waits longer than the one
//! before, so that two who never give in don't keep the API server busy.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use cutover_karmada::name::ObjectKey;

/// Corrections in a row that are nothing unusual.
const FREE: u32 = 5;
/// How long the next ones wait: the first, doubling to the last.
const REST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
/// How long after its rest an object must be left in peace, so that the next correction counts as the first.
const PEACE: Duration = Duration::from_secs(10);
/// From how many objects on those are dropped that are at peace.
const MANY: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Fight {
    corrections: u32,
    last: Instant,
}

impl Fight {
    fn rest(self) -> Duration {
        match self.corrections.checked_sub(FREE) {
            Some(beyond) => REST.0.saturating_mul(1 << beyond.min(16)).min(REST.1),
            None => Duration::ZERO,
        }
    }

    fn is_over(self, now: Instant) -> bool {
        now.duration_since(self.last) > self.rest() + PEACE
    }
}

#[derive(Debug, Default)]
pub(super) struct Fights(BTreeMap<ObjectKey, Fight>);

impl Fights {
    /// Takes in that an object was written.
    pub(super) fn corrected(&mut self, key: &ObjectKey, now: Instant) {
        if self.0.len() >= MANY {
            self.0.retain(|_, fight| !fight.is_over(now));
        }
        let before = self.0.get(key).filter(|fight| !fight.is_over(now));
        let corrections = before.map_or(0, |fight| fight.corrections) + 1;
        let fight = Fight {
            corrections,
            last: now,
        };
        self.0.insert(key.clone(), fight);
    }

    /// Returns until when an object is left as it is.
    pub(super) fn rests(&self, key: &ObjectKey, now: Instant) -> Option<Instant> {
        let fight = self.0.get(key)?;
        let until = fight.last + fight.rest();
        (until > now).then_some(until)
    }

    /// Git wants something else now: that is no correction.
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn corrections_that_are_undone_at_once_become_ever_more_seldom() {
        let key = ObjectKey {
            group: String::new(),
            kind: "ConfigMap".into(),
            namespace: None,
            name: "a".into(),
        };
        let (mut fights, begun) = (Fights::default(), Instant::now());
        let correct = |fights: &mut Fights, lasting: u64| {
            let (mut now, mut count) = (begun, 0);
            while now < begun + Duration::from_secs(lasting) {
                match fights.rests(&key, now) {
                    Some(until) => now = until,
                    None => {
                        fights.corrected(&key, now);
                        (now, count) = (now + Duration::from_millis(20), count + 1);
                    }
                }
            }
            count
        };
        assert_eq!(correct(&mut fights, 60), 10);
        assert_eq!(correct(&mut fights, 600), 9, "and once a minute in the long run");

        let later = begun + Duration::from_mins(15);
        assert_eq!(fights.rests(&key, later), None);
        fights.corrected(&key, later);
        assert_eq!(
            fights.rests(&key, later),
            None,
            "after a time in peace it is the first again"
        );
    }
}
