//! Which workloads have a copy that has not been healthy for a while, from the watch cache alone: it costs no request.
//!
//! A copy that comes and goes is no news each time: what is reported changes once what is observed has stayed the same for a
//! while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::overview::Unwell;
use cutover_base::packed::View;
use cutover_cluster::{KindState, Observer};
use cutover_core::api;
use cutover_core::report::{Copies, UnhealthyWorkload};
use cutover_karmada::meta::BINDING_ID;
use cutover_karmada::name::ObjectKey;

const BINDINGS: (&str, &str) = ("work.karmada.io", "ResourceBinding");
const CLAIMS: (&str, &str) = (api::GROUP, "Claim");
/// How long what is observed must have stayed the same before it is reported.
const A_WHILE: Duration = Duration::from_secs(15);
/// How long changes are gathered.
const GATHER: Duration = Duration::from_secs(1);
/// How long the first list is waited for, before anything is looked at.
const LISTED_WITHIN: Duration = Duration::from_secs(10);
/// How long lists that failed are waited for by who looks once.
const FIRST_LISTS: Duration = Duration::from_secs(1);

/// Follows the health of the copies of all workloads.
#[derive(Debug)]
pub(super) struct Unhealthy {
    observer: Observer,
    /// Bindings with a copy that is reported as not healthy or not applied, whether it may run or not.
    suspects: BTreeSet<ObjectKey>,
    steady: Steady,
    has_listed: bool,
    reported: watch::Sender<Unwell>,
}

/// What has to be looked at again.
#[derive(Debug, Default)]
struct Dirty {
    bindings: BTreeSet<ObjectKey>,
    /// A claim says which copies may run.
    claims: bool,
    all: bool,
}

impl Dirty {
    /// Takes in that an object has changed. Returns whether that matters.
    fn hear(&mut self, key: ObjectKey) -> bool {
        let kind = (key.group.as_str(), key.kind.as_str());
        if kind == BINDINGS {
            self.bindings.insert(key);
            true
        } else if kind == CLAIMS {
            self.claims = true;
            true
        } else {
            false
        }
    }
}

impl Unhealthy {
    pub(super) fn new(observer: Observer) -> Self {
        Self {
            observer,
            suspects: BTreeSet::new(),
            steady: Steady::default(),
            has_listed: false,
            reported: watch::Sender::new(None),
        }
    }

    /// Returns where the workloads are reported that have been unhealthy for a while; nothing before the first list was looked through.
    pub(super) fn reported(&self) -> watch::Receiver<Unwell> {
        self.reported.subscribe()
    }

    /// Follows until it is cancelled.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut changes = self.observer.changes();
        let mut dirty = Dirty {
            all: true,
            ..Dirty::default()
        };
        tokio::select! {
            () = stop.cancelled() => return,
            _ = self.observer.until(LISTED_WITHIN, is_listed) => {}
        }
        let mut look_at = Some(Instant::now());
        loop {
            let due = [look_at, self.steady.next()].into_iter().flatten().min();
            tokio::select! {
                () = stop.cancelled() => return,
                change = changes.recv() => {
                    let matters = match change {
                        Ok(change) => dirty.hear(change.key),
                        Err(RecvError::Lagged(_)) => {
                            dirty.all = true;
                            true
                        }
                        Err(RecvError::Closed) => return stop.cancelled().await,
                    };
                    if matters {
                        look_at.get_or_insert_with(|| Instant::now() + GATHER);
                    }
                }
                () = until(due) => {
                    let now = Instant::now();
                    if look_at.is_some_and(|at| at <= now) {
                        look_at = None;
                        self.look(std::mem::take(&mut dirty), now);
                    }
                    if self.steady.settle(now) && self.has_listed {
                        self.reported.send_replace(Some(self.steady.settled()));
                    }
                }
            }
        }
    }

    fn look(&mut self, dirty: Dirty, now: Instant) {
        // What is unhealthy when the first list is there was so before, and may have been reported by the process before.
        let is_first = !self.has_listed && is_listed(&self.observer);
        self.has_listed |= is_first;
        let mut keys = dirty.bindings;
        if dirty.all || is_first {
            keys.extend(self.observer.keys(BINDINGS.0, BINDINGS.1));
            keys.extend(self.steady.0.keys().cloned());
        }
        if dirty.all || dirty.claims {
            keys.extend(self.suspects.iter().cloned());
        }
        let claims = self.observer.list(CLAIMS.0, CLAIMS.1);
        for key in keys {
            let is_suspect = is_suspect(&self.observer, &key);
            let seen = is_suspect
                .then(|| unhealthy(&self.observer, &key, &claims))
                .flatten();
            if is_first && let Some(seen) = &seen {
                self.steady.find(&key, seen, now);
            }
            self.steady.see(&key, seen, now);
            if is_suspect {
                self.suspects.insert(key);
            } else {
                self.suspects.remove(&key);
            }
        }
        if is_first {
            self.reported.send_replace(Some(self.steady.settled()));
        }
    }
}

fn is_listed(observer: &Observer) -> bool {
    let state = observer.state(BINDINGS.0, BINDINGS.1);
    state.is_some_and(|state| state.is_settled())
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Returns the workloads that are not healthy right now, by what is cached, once the first lists are there; `None` without them.
pub(super) async fn at_present(observer: &Observer) -> Unwell {
    let all = |observer: &Observer, is: fn(&KindState) -> bool| {
        let mut states = [BINDINGS, CLAIMS]
            .into_iter()
            .map(|(group, kind)| observer.state(group, kind));
        states.all(|state| state.as_ref().is_none_or(is))
    };
    let is_heard = |state: &KindState| !matches!(state, KindState::Waiting);
    observer
        .until(LISTED_WITHIN, |observer| all(observer, is_heard))
        .await;
    observer
        .until(FIRST_LISTS, |observer| all(observer, KindState::is_settled))
        .await;
    if !all(observer, KindState::was_listed) {
        return None;
    }
    let claims = observer.list(CLAIMS.0, CLAIMS.1);
    let keys = observer.keys(BINDINGS.0, BINDINGS.1);
    let suspects = keys.iter().filter(|key| is_suspect(observer, key));
    let seen = suspects.filter_map(|key| unhealthy(observer, key, &claims));
    Some(seen.collect())
}

/// Returns whether a copy is reported as not healthy or not applied, without unpacking the binding.
fn is_suspect(observer: &Observer, binding: &ObjectKey) -> bool {
    let is_well = |copy: View<'_>| {
        let applied = copy.get("applied").map(View::value);
        let health = copy.get("health").and_then(View::as_str);
        applied == Some(Value::Bool(true)) && health != Some("Unhealthy")
    };
    let look = |binding: View<'_>| {
        let reports = binding
            .get("status")
            .and_then(|status| status.get("aggregatedStatus"));
        reports.is_some_and(|reports| !reports.items().all(is_well))
    };
    observer.look(binding, look).unwrap_or_default()
}

/// Returns the workload of a binding, if it has a copy that may run and is not as it should be.
fn unhealthy(observer: &Observer, binding: &ObjectKey, claims: &[Arc<Value>]) -> Option<UnhealthyWorkload> {
    let binding = observer.get(binding)?;
    let id = binding["metadata"]["labels"][BINDING_ID].as_str();
    let own = claims
        .iter()
        .filter(|claim| claim["spec"]["bindingId"].as_str() == id);
    let own: Vec<Arc<Value>> = own.cloned().collect();
    Copies::of(&[binding], &own).unhealthy().into_iter().next()
}

/// What has been observed of each binding, and since when. No I/O.
#[derive(Debug, Default)]
struct Steady(BTreeMap<ObjectKey, Observed>);

#[derive(Debug)]
struct Observed {
    seen: Option<UnhealthyWorkload>,
    /// Since when it has been so.
    since: Instant,
    reported: Option<UnhealthyWorkload>,
}

impl Steady {
    /// Takes in what was so already when it was looked at first.
    fn find(&mut self, key: &ObjectKey, seen: &UnhealthyWorkload, now: Instant) {
        self.0.entry(key.clone()).or_insert_with(|| Observed {
            seen: Some(seen.clone()),
            since: now,
            reported: Some(seen.clone()),
        });
    }

    fn see(&mut self, key: &ObjectKey, seen: Option<UnhealthyWorkload>, now: Instant) {
        match self.0.get_mut(key) {
            Some(observed) if observed.seen == seen => {}
            Some(observed) => (observed.seen, observed.since) = (seen, now),
            None if seen.is_none() => {}
            None => {
                let observed = Observed {
                    seen,
                    since: now,
                    reported: None,
                };
                self.0.insert(key.clone(), observed);
            }
        }
    }

    /// Returns when the next of what has changed has stayed as it is for a while.
    fn next(&self) -> Option<Instant> {
        let open = self.0.values().filter(|one| one.seen != one.reported);
        open.map(|one| one.since + A_WHILE).min()
    }

    /// Takes what has stayed as it is for a while as what is reported. Returns whether that is something new.
    fn settle(&mut self, now: Instant) -> bool {
        let mut is_news = false;
        self.0.retain(|_, one| {
            if one.seen != one.reported && one.since + A_WHILE <= now {
                one.reported.clone_from(&one.seen);
                is_news = true;
            }
            one.seen.is_some() || one.reported.is_some()
        });
        is_news
    }

    /// Returns what is reported, by workload.
    fn settled(&self) -> Vec<UnhealthyWorkload> {
        let mut all: Vec<_> = self.0.values().filter_map(|one| one.reported.clone()).collect();
        all.sort();
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn binding(name: &str) -> ObjectKey {
        ObjectKey {
            group: BINDINGS.0.to_owned(),
            kind: BINDINGS.1.to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        }
    }

    fn workload(name: &str) -> Option<UnhealthyWorkload> {
        let workload = json!({"namespace": "shop", "kind": "Deployment", "name": name, "clusters": ["west"]});
        serde_json::from_value(workload).ok()
    }

    #[test]
    fn what_is_unhealthy_is_reported_after_a_while_and_what_flaps_is_not() {
        let (mut steady, begun) = (Steady::default(), Instant::now());
        let (web, jobs) = (binding("web-deployment"), binding("jobs-deployment"));
        steady.see(&web, workload("web"), begun);
        for second in 0..20 {
            let seen = workload("jobs").filter(|_| second % 2 == 0);
            steady.see(&jobs, seen, begun + Duration::from_secs(second));
            steady.see(&web, workload("web"), begun + Duration::from_secs(second));
        }
        assert_eq!(steady.next(), Some(begun + A_WHILE));
        assert!(!steady.settle(begun + A_WHILE - GATHER));
        assert!(steady.settle(begun + A_WHILE));
        assert_eq!(steady.settled(), [workload("web").unwrap()]);
        assert_eq!(steady.next(), None, "what is reported is what is seen");

        let healed = begun + A_WHILE * 2;
        steady.see(&web, None, healed);
        assert!(!steady.settle(healed + GATHER), "it may fall ill again");
        assert!(steady.settle(healed + A_WHILE));
        assert_eq!((steady.settled(), steady.0.len()), (Vec::new(), 0));
    }
}
