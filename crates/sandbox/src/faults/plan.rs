//! A history of troubles from a seed.

use std::fmt;
use std::time::Duration;

use super::{Effect, Faults, Rule, Span};

/// One thing that goes wrong for a while.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    Freeze(String),
    Lag { cache: String, by: Duration },
    Partition(String),
    Restart(String),
    Requests(Rule),
}

/// A trouble, when it begins and how long it lasts.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub at: Duration,
    pub lasts: Duration,
    pub trouble: Trouble,
}

/// Troubles in the order of their beginnings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
}

const FREEZABLE: &[&str] = &[
    "karmada-scheduler",
    "karmada-controller-manager",
    "binding-controller",
    "execution-controller",
    "resource-detector",
    "work-status-controller",
];
const CACHES: &[&str] = &[
    "override-cache",
    "binding-cache",
    "work-cache",
    "template-cache",
    "scheduler-cache",
];
const PROCESSES: &[&str] = &["karmada-scheduler", "karmada-controller-manager"];

impl Plan {
    /// Returns `count` troubles within a span of time; the last one is over at its end.
    pub fn random(seed: u64, count: usize, within: Duration, members: &[String]) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut steps: Vec<Step> = (0..count)
            .map(|_| {
                let at = Span {
                    min: Duration::ZERO,
                    max: within,
                }
                .draw(&mut random);
                let lasts = Span {
                    min: Duration::from_millis(20),
                    max: within / 4,
                }
                .draw(&mut random);
                let trouble = trouble(&mut random, members);
                Step {
                    at,
                    lasts: lasts.min(within.saturating_sub(at)),
                    trouble,
                }
            })
            .collect();
        steps.sort_by_key(|step| step.at);
        Self { steps }
    }

    /// Carries the plan out, beginning now.
    pub async fn run(self, faults: Faults) {
        let begun = tokio::time::Instant::now();
        let mut switches: Vec<(Duration, bool, Trouble)> = Vec::new();
        for step in self.steps {
            switches.push((step.at, true, step.trouble.clone()));
            switches.push((step.at + step.lasts, false, step.trouble));
        }
        switches.sort_by_key(|(at, ..)| *at);
        for (at, on, trouble) in switches {
            tokio::time::sleep_until(begun + at).await;
            switch(&faults, &trouble, on);
        }
    }
}

fn switch(faults: &Faults, trouble: &Trouble, on: bool) {
    match (trouble, on) {
        (Trouble::Freeze(who), true) => drop(faults.freeze(who)),
        (Trouble::Freeze(who), false) => drop(faults.thaw(who)),
        (Trouble::Lag { cache, by }, true) => drop(faults.lag(cache, *by)),
        (Trouble::Lag { cache, .. }, false) => drop(faults.lag(cache, Duration::ZERO)),
        (Trouble::Partition(member), true) => drop(faults.partition(member)),
        (Trouble::Partition(member), false) => drop(faults.heal(member)),
        (Trouble::Restart(process), true) => drop(faults.restart(process)),
        (Trouble::Restart(_), false) => {}
        (Trouble::Requests(rule), true) => drop(faults.requests(rule.clone())),
        (Trouble::Requests(rule), false) => faults.forget(rule),
    }
}

fn trouble(random: &mut fastrand::Rng, members: &[String]) -> Trouble {
    let one_of = |random: &mut fastrand::Rng, names: &[&str]| names[random.usize(..names.len())].to_owned();
    match random.u8(0..6) {
        0 => Trouble::Freeze(one_of(random, FREEZABLE)),
        1 | 2 => Trouble::Lag {
            cache: one_of(random, CACHES),
            by: Span::millis(50, 3000).draw(random),
        },
        3 if !members.is_empty() => Trouble::Partition(members[random.usize(..members.len())].clone()),
        4 => Trouble::Restart(one_of(random, PROCESSES)),
        _ => {
            let effect = match random.u8(0..4) {
                0 => Effect::Delay(Span::millis(10, 2000)),
                1 => Effect::Refuse(if random.bool() { 500 } else { 429 }),
                2 => Effect::Lose,
                _ => Effect::LoseAnswer,
            };
            Trouble::Requests(Rule::new(effect).probability(0.3))
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(
                f,
                "{:>8} ms  {:?} for {} ms",
                step.at.as_millis(),
                step.trouble,
                step.lasts.as_millis()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_plan_and_all_of_it_ends_in_time() {
        let members = ["east".to_owned(), "west".to_owned()];
        let within = Duration::from_secs(20);
        let plan = Plan::random(7, 40, within, &members);
        assert_eq!(plan, Plan::random(7, 40, within, &members));
        assert_ne!(plan, Plan::random(8, 40, within, &members));
        assert!(plan.steps.iter().all(|step| step.at + step.lasts <= within));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_when_a_plan_is_over() {
        let faults = Faults::new(1);
        Plan::random(3, 60, Duration::from_secs(5), &["east".to_owned()])
            .run(faults.clone())
            .await;
        let state = faults.lock();
        assert!(
            state.frozen.is_empty()
                && state.lags.is_empty()
                && state.cut.is_empty()
                && state.rules.is_empty()
        );
    }
}
