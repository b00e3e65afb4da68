//! Reads what may show a newer state of a copy than the copy itself: objects that a profile's `lastKnown` names.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, timeout};

use super::Parts;
use super::ask::all;
use super::members::{ANSWERS_WITHIN, no_answer};
use cutover_core::api::{LastKnownRule, WorkloadProfileSpec};
use cutover_core::intent::Seen;
use cutover_core::intent::failover::Beside;
use cutover_core::profile::{Profile, Site};
use cutover_karmada::name::{ClusterName, ObjectKey};

/// How often it is looked again. A plan looks at the copy far more often, but savepoints are minutes apart.
const AGAIN: Duration = Duration::from_mins(1);

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct Known(Option<Look>);

#[derive(Debug)]
struct Look {
    at: Instant,
    cluster: ClusterName,
    /// What was asked for: objects are known by the place of their rule.
    rules: Vec<LastKnownRule>,
    seen: Beside,
}

impl Known {
    /// Returns what there is beside a copy: what was seen not long ago, or what a look of now shows. One that showed nothing, such as
    /// one that is not allowed, is not made again in each pass either: what was noted before stays meanwhile.
    pub(super) async fn look(
        &mut self,
        parts: &Parts,
        profile: &WorkloadProfileSpec,
        workload: &ObjectKey,
        cluster: &ClusterName,
    ) -> Beside {
        if let Some(seen) = self.recent(cluster, &profile.last_known) {
            return seen.clone();
        }
        let seen = read(parts, profile, workload, cluster).await;
        self.0 = Some(Look {
            at: Instant::now(),
            cluster: cluster.clone(),
            rules: profile.last_known.clone(),
            seen: seen.clone(),
        });
        seen
    }

    fn recent(&self, cluster: &ClusterName, rules: &[LastKnownRule]) -> Option<&Beside> {
        let last = self.0.as_ref()?;
        let is_same = last.cluster == *cluster && last.rules == rules;
        (is_same && last.at.elapsed() < AGAIN).then_some(&last.seen)
    }
}

async fn read(
    parts: &Parts,
    profile: &WorkloadProfileSpec,
    workload: &ObjectKey,
    cluster: &ClusterName,
) -> Beside {
    // Most profiles name none.
    if profile.last_known.iter().all(|rule| rule.from.is_none()) {
        return Beside::new();
    }
    let Ok(profile) = Profile::compile("in force", profile) else {
        return Beside::new();
    };
    let (reader, namespace) = (parts.cluster.member(cluster), workload.namespace.as_deref());
    let rules = profile.beside(Site::new(workload, cluster.as_str()));
    let reads = rules.into_iter().map(|(rule, gvk, selector)| {
        let reader = &reader;
        async move {
            let selector = match selector {
                Ok(selector) => selector,
                Err(error) => return (rule, Seen::unknown(error.to_string())),
            };
            let read = reader.list_where_served(&gvk, namespace, &selector);
            let read = timeout(ANSWERS_WITHIN, read).await;
            (rule, read.map_or_else(|_| Seen::unknown(no_answer(cluster)), all))
        }
    });
    join_all(reads).await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use cutover_core::profile::built_in;

    use super::*;

    #[test]
    fn a_look_counts_for_a_while_whatever_it_showed_and_for_what_was_asked_alone() {
        let rules = built_in().unwrap()[0].spec.last_known.clone();
        let east = ClusterName::new("east");
        let known = Known(Some(Look {
            at: Instant::now(),
            cluster: east.clone(),
            rules: rules.clone(),
            seen: Beside::from([(2, Seen::unknown("403 forbidden"))]),
        }));
        assert_eq!(known.recent(&east, &rules).map(Beside::len), Some(1));
        assert!(known.recent(&ClusterName::new("west"), &rules).is_none());
        assert!(known.recent(&east, &rules[1..]).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_is_made_again_after_a_minute() {
        let east = ClusterName::new("east");
        let known = Known(Some(Look {
            at: Instant::now(),
            cluster: east.clone(),
            rules: Vec::new(),
            seen: Beside::new(),
        }));
        tokio::time::advance(AGAIN).await;
        assert!(known.recent(&east, &[]).is_none());
    }
}
