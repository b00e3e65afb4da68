//! The controller is killed after each write of an intent that moves many workloads, and another one finishes what it began.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover::reconcile::intents::{Nobody, Point, Side, Witness};
use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::many::Stage;

/// Runs it once to know its writes, and once more for each of them. `must`: what must be among them.
pub fn after_each_write<B, G, E>(begin: B, go: G, ends: E, must: &[&str])
where
    B: AsyncFn() -> Stage + Sync + std::panic::RefUnwindSafe,
    G: Fn(&Stage) + Sync + std::panic::RefUnwindSafe,
    E: AsyncFn(&Stage) + Sync + std::panic::RefUnwindSafe,
{
    let lines = run(async {
        let stage = begin().await;
        let recorder = Arc::new(Recorder::of(stage.asks.kind));
        let _controller = stage.controller(Arc::clone(&recorder) as Arc<dyn Witness>);
        go(&stage);
        ends(&stage).await;
        stage
            .fleet
            .until("the last write is done", |_| {
                recorder.has_seen("remove the finalizer")
            })
            .await;
        recorder.0.lock().unwrap().seen.clone()
    });
    assert!(lines.len() > 10, "{lines:#?}");
    for what in must {
        assert!(
            lines.iter().any(|line| line.0.contains(what)),
            "{what}: {lines:#?}"
        );
    }
    // Journals that only say how far the moves are come again and again; of each sort the first ones are enough.
    let lines: Vec<Line> = lines
        .into_iter()
        .filter(|(what, count)| !what.ends_with("journal") || *count <= 3)
        .collect();
    let kill_at = async |line: Line| {
        let stage = begin().await;
        let trap = Trap::at(stage.asks.kind, line.clone());
        let controller = stage.controller(Arc::clone(&trap) as Arc<dyn Witness>);
        go(&stage);
        let sprung = tokio::time::timeout(Duration::from_mins(10), trap.sprung.notified()).await;
        assert!(sprung.is_ok(), "never came to {line:?}");
        controller.kill().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let _next = stage.controller(Arc::new(Nobody));
        ends(&stage).await;
    };
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let line = line.clone();
                    if std::panic::catch_unwind(|| run(kill_at(line.clone()))).is_err() {
                        failures.lock().unwrap().push(line);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} lines: {failures:#?}",
        failures.len(),
        lines.len()
    );
}

/// Each world has a thread's runtime and a paused clock of its own.
fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

/// A line after a write of the intent, and the how-manieth time.
type Line = (String, usize);

struct Lines {
    kind: &'static str,
    seen: Vec<Line>,
    counts: BTreeMap<String, usize>,
}

impl Lines {
    const fn of(kind: &'static str) -> Mutex<Self> {
        Mutex::new(Self {
            kind,
            seen: Vec::new(),
            counts: BTreeMap::new(),
        })
    }

    fn add(&mut self, point: &Point) -> Option<Line> {
        if point.intent.kind != self.kind || point.side != Side::After {
            return None;
        }
        let count = self.counts.entry(point.what.clone()).or_default();
        *count += 1;
        let line = (point.what.clone(), *count);
        self.seen.push(line.clone());
        Some(line)
    }
}

struct Recorder(Mutex<Lines>);

impl Recorder {
    const fn of(kind: &'static str) -> Self {
        Self(Lines::of(kind))
    }

    fn has_seen(&self, what: &str) -> bool {
        let seen = self.0.lock().unwrap();
        seen.seen.iter().any(|line| line.0.ends_with(what))
    }
}

impl Witness for Recorder {
    fn reached<'a>(&'a self, point: &'a Point) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().add(point);
        Box::pin(std::future::ready(()))
    }
}

/// Stops once and says so, and goes on when it is told.
pub struct Trap {
    line: Option<Line>,
    before: Option<&'static str>,
    seen: Mutex<Lines>,
    stood: AtomicUsize,
    pub sprung: Notify,
    pub goes_on: Notify,
}

impl Trap {
    fn new(kind: &'static str, line: Option<Line>, before: Option<&'static str>) -> Arc<Self> {
        Arc::new(Self {
            line,
            before,
            seen: Lines::of(kind),
            stood: AtomicUsize::new(0),
            sprung: Notify::new(),
            goes_on: Notify::new(),
        })
    }

    fn at(kind: &'static str, line: Line) -> Arc<Self> {
        Self::new(kind, Some(line), None)
    }

    pub fn before(kind: &'static str, what: &'static str) -> Arc<Self> {
        Self::new(kind, None, Some(what))
    }
}

impl Witness for Trap {
    fn reached<'a>(&'a self, point: &'a Point) -> BoxFuture<'a, ()> {
        let line = self.seen.lock().unwrap().add(point);
        let is_line = line.is_some() && line == self.line;
        let is_before = self
            .before
            .is_some_and(|what| point.side == Side::Before && point.what.contains(what));
        if !(is_line || is_before) || self.stood.fetch_add(1, Ordering::Relaxed) > 0 {
            return Box::pin(std::future::ready(()));
        }
        self.sprung.notify_one();
        Box::pin(self.goes_on.notified())
    }
}
