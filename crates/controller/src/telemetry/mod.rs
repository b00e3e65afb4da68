//! What is measured and whether it is well: `/metrics` and `/readyz` are made of it. It decides nothing.
//!
//! The loops say what they have done; how many intents there are, and where they stand, is read from the watch cache at each
//! scrape. No metric has a label that others choose freely: names of objects, URLs and messages are in none.

mod catalog;
mod health;
mod meter;

pub use catalog::{METRICS, Metric, MetricKind};
pub use health::{Part, Readiness};
pub use meter::SyncMeter;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::reconcile::lease::Standing;
use catalog as of;
use cutover_cluster::{Exchange, KindState, Observer, RequestObserver, off_the_runtime};
use cutover_core::api::{self, Progress, StepRecord, WaitCode};
use health::{Attempts, Working};

/// What the text of [`Telemetry::metrics`] is.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

type Labels<const N: usize> = [(&'static str, String); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Number = Gauge<f64, AtomicU64>;
type Numbers<const N: usize> = Family<Labels<N>, Number>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram, fn() -> Histogram>;

/// What one process has measured. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Telemetry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    families: Families,
    state: Mutex<State>,
    /// Gauges are set and read by one at a time.
    reading: Mutex<()>,
}

#[derive(Debug)]
struct Families {
    build: Numbers<1>,
    leader: Number,
    ready: Numbers<1>,
    sync_passes: Counters<2>,
    sync_objects: Numbers<2>,
    sync_pending: Numbers<1>,
    push_to_applied: Histograms<1>,
    drift: Counters<1>,
    git: Counters<2>,
    git_success: Numbers<1>,
    api: Counters<3>,
    api_time: Histograms<2>,
    intents: Numbers<2>,
    waiting: Numbers<3>,
    ended: Counters<2>,
    phases: Histograms<2>,
    downtime: Histogram,
}

#[derive(Debug, Default)]
struct State {
    /// `None`: no Lease decides, this process leads.
    standing: Option<watch::Receiver<Standing>>,
    api: Attempts,
    git: Attempts,
    observer: Option<Observer>,
    /// Since when a revision of a sync is known that isn't applied.
    pending: BTreeMap<String, Option<Instant>>,
}

impl Default for Inner {
    fn default() -> Self {
        let mut registry = Registry::default();
        let families = Families {
            build: register(&mut registry, &of::BUILD, Family::default()),
            leader: register(&mut registry, &of::LEADER, Gauge::default()),
            ready: register(&mut registry, &of::READY, Family::default()),
            sync_passes: register(&mut registry, &of::SYNC_PASSES, Family::default()),
            sync_objects: register(&mut registry, &of::SYNC_OBJECTS, Family::default()),
            sync_pending: register(&mut registry, &of::SYNC_PENDING, Family::default()),
            push_to_applied: register(&mut registry, &of::PUSH_TO_APPLIED, histograms()),
            drift: register(&mut registry, &of::DRIFT, Family::default()),
            git: register(&mut registry, &of::GIT, Family::default()),
            git_success: register(&mut registry, &of::GIT_SUCCESS, Family::default()),
            api: register(&mut registry, &of::API, Family::default()),
            api_time: register(
                &mut registry,
                &of::API_TIME,
                Family::new_with_constructor(fast as fn() -> Histogram),
            ),
            intents: register(&mut registry, &of::INTENTS, Family::default()),
            waiting: register(&mut registry, &of::WAITING, Family::default()),
            ended: register(&mut registry, &of::ENDED, Family::default()),
            phases: register(&mut registry, &of::PHASES, histograms()),
            downtime: register(&mut registry, &of::DOWNTIME, slow()),
        };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let build = families.build.get_or_create(&[("version", version)]);
        build.set(1.0);
        drop(build);
        Self {
            registry,
            families,
            state: Mutex::default(),
            reading: Mutex::default(),
        }
    }
}

fn register<M: prometheus_client::registry::Metric + Clone>(
    registry: &mut Registry,
    metric: &Metric,
    made: M,
) -> M {
    // The library appends what counters are called by.
    let name = metric.name.trim_end_matches("_total");
    registry.register(name, metric.help, made.clone());
    made
}

fn histograms<const N: usize>() -> Histograms<N> {
    Family::new_with_constructor(slow as fn() -> Histogram)
}

/// What takes from a fraction of a second to hours.
fn slow() -> Histogram {
    Histogram::new([
        0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0,
    ])
}

/// What takes milliseconds.
fn fast() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0,
    ])
}

/// Names the values of a metric's labels, in the order of the catalog.
fn labels<const N: usize>(metric: &Metric, values: [&str; N]) -> Labels<N> {
    debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
    std::array::from_fn(|at| {
        let name = metric.labels.get(at).copied().unwrap_or_default();
        (name, values[at].to_owned())
    })
}

impl RequestObserver for Telemetry {
    fn observe(&self, exchange: &Exchange<'_>) {
        let families = &self.0.families;
        let target = if exchange.is_of_member {
            "member"
        } else {
            "control_plane"
        };
        let code = exchange
            .outcome
            .map_or_else(|_| "error".to_owned(), |code| code.to_string());
        let verb = exchange.verb;
        families
            .api
            .get_or_create(&labels(&of::API, [target, verb, &code]))
            .inc();
        families
            .api_time
            .get_or_create(&labels(&of::API_TIME, [target, verb]))
            .observe(exchange.took.as_secs_f64());
        if exchange.is_of_member {
            return;
        }
        let mut state = self.state();
        match exchange.outcome {
            Ok(code) if code < 500 && !matches!(code, 401 | 429) => state.api.succeeded(),
            Ok(401) => state
                .api
                .failed("the API server does not accept the credentials (401)".to_owned()),
            Ok(code) => state.api.failed(format!("the API server answers {code}")),
            Err(why) => state.api.failed(why.to_owned()),
        }
    }
}

impl Telemetry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes from now on who leads from there.
    pub fn follow(&self, standing: watch::Receiver<Standing>) {
        self.state().standing = Some(standing);
    }

    /// Reads intents from this cache until what is returned is dropped.
    #[must_use]
    pub fn attach(&self, observer: Observer) -> Attached {
        self.state().observer = Some(observer);
        Attached(self.clone())
    }

    /// Returns what measures a sync.
    pub fn sync(&self, name: &str) -> SyncMeter {
        SyncMeter::new(self.clone(), name)
    }

    /// Takes down what a conversation with Git came to.
    pub(crate) fn git(&self, operation: &'static str, outcome: Result<(), String>) {
        let result = if outcome.is_ok() { "ok" } else { "error" };
        let families = &self.0.families;
        families
            .git
            .get_or_create(&labels(&of::GIT, [operation, result]))
            .inc();
        if outcome.is_ok() {
            let now = Timestamp::now().as_duration().as_secs_f64();
            families
                .git_success
                .get_or_create(&labels(&of::GIT_SUCCESS, [operation]))
                .set(now);
        }
        // The status branch may be out of reach while everything else goes on.
        if operation == FETCH {
            let mut state = self.state();
            match outcome {
                Ok(()) => state.git.succeeded(),
                Err(why) => state.git.failed(why),
            }
        }
    }

    /// Takes down what a journal that was written says that was not said before.
    pub(crate) fn progressed<S: Progress>(&self, kind: &str, before: &S, after: &S) {
        if before.phase_name() == after.phase_name() && before.has_ended() == after.has_ended() {
            return;
        }
        let families = &self.0.families;
        let (before_steps, after_steps) = off_the_runtime(|| (steps(before), steps(after)));
        for step in &after_steps {
            let known = before_steps
                .iter()
                .any(|known| known.started_at == step.started_at && known.finished_at.is_some());
            if let (false, Some(finished)) = (known, step.finished_at) {
                let took = finished.duration_since(step.started_at).as_secs_f64();
                families
                    .phases
                    .get_or_create(&labels(&of::PHASES, [kind, &step.name]))
                    .observe(took.max(0.0));
            }
        }
        if after.has_ended() && !before.has_ended() {
            families
                .ended
                .get_or_create(&labels(&of::ENDED, [kind, after.phase_name()]))
                .inc();
            if kind == "Migration"
                && let Some(millis) = downtime(after)
            {
                families.downtime.observe(millis / 1000.0);
            }
        }
    }

    /// Returns whether each part is ready.
    pub async fn readiness(&self) -> Readiness {
        let observer = self.state().observer.clone();
        let working = match observer {
            Some(observer) => {
                let unsettled = observer.settled(Duration::ZERO).await;
                let unlisted = unsettled.into_iter().map(|(kind, state)| {
                    let why = match state {
                        KindState::Failing { why, .. } => why,
                        _ => "not listed yet".to_owned(),
                    };
                    (kind, why)
                });
                Some(Working {
                    unlisted: unlisted.collect(),
                })
            }
            None => None,
        };
        let state = self.state();
        let standing = state
            .standing
            .as_ref()
            .map_or(Standing::Leading, |standing| standing.borrow().clone());
        health::readiness(&standing, &state.api, &state.git, working.as_ref())
    }

    /// Returns all metrics in the text format of Prometheus.
    pub async fn metrics(&self) -> Result<String, std::fmt::Error> {
        let readiness = self.readiness().await;
        off_the_runtime(|| {
            let _one_at_a_time = self.0.reading.lock().unwrap_or_else(PoisonError::into_inner);
            self.set_gauges(&readiness);
            let mut text = String::new();
            prometheus_text::encode(&mut text, &self.0.registry)?;
            Ok(text)
        })
    }

    fn set_gauges(&self, readiness: &Readiness) {
        let families = &self.0.families;
        families.leader.set(truth(readiness.role == "leader"));
        families.ready.clear();
        for part in &readiness.parts {
            families
                .ready
                .get_or_create(&labels(&of::READY, [part.name]))
                .set(truth(part.trouble.is_none()));
        }
        let (pending, observer) = {
            let state = self.state();
            (state.pending.clone(), state.observer.clone())
        };
        families.sync_pending.clear();
        for (sync, since) in pending {
            let age = since.map_or(0.0, |since| since.elapsed().as_secs_f64());
            families
                .sync_pending
                .get_or_create(&labels(&of::SYNC_PENDING, [&sync]))
                .set(age);
        }
        families.intents.clear();
        families.waiting.clear();
        let Some(observer) = observer else { return };
        for kind in api::KINDS.iter().map(|kind| kind.name) {
            for intent in observer.list(api::GROUP, kind) {
                self.count(kind, &intent);
            }
        }
    }

    fn count(&self, kind: &str, intent: &Value) {
        let (families, status) = (&self.0.families, &intent["status"]);
        let phase = status["phase"].as_str().unwrap_or("Pending");
        families
            .intents
            .get_or_create(&labels(&of::INTENTS, [kind, phase]))
            .inc_by(1.0);
        let wait = &status["waitingFor"];
        if wait.is_object() {
            let code = WaitCode::deserialize(&wait["code"]).unwrap_or_default();
            let manual = if code.is_for_a_person() { "true" } else { "false" };
            families
                .waiting
                .get_or_create(&labels(&of::WAITING, [kind, &code.to_string(), manual]))
                .inc_by(1.0);
        }
    }
}

/// The operations of Git that are counted separately.
pub(crate) const FETCH: &str = "fetch";
pub(crate) const PUBLISH: &str = "publish";

/// Lets go of a cache when it is dropped.
#[derive(Debug)]
pub struct Attached(Telemetry);

impl Drop for Attached {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.observer = None;
        // Another one applies now.
        state.pending.clear();
        state.git = Attempts::default();
        drop(state);
        self.0.0.families.sync_objects.clear();
    }
}

const fn truth(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

/// Returns the steps that a status lists, whatever its kind.
fn steps(status: &impl Progress) -> Vec<StepRecord> {
    let status = serde_json::to_value(status).unwrap_or_default();
    Vec::deserialize(&status["steps"]).unwrap_or_default()
}

fn downtime(status: &impl Progress) -> Option<f64> {
    let status = serde_json::to_value(status).ok()?;
    status["downtimeMs"].as_f64()
}
