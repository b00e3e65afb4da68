//! The controller is killed at every line between two writes of an intent, and another one finishes what it began.
//!
//! The lines are those that a whole run has; a line that a killed run doesn't come to fails the test.

use std::collections::BTreeMap;
use std::panic::{RefUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cutover_controller::reconcile::intents::{Failpoint, FailpointHook, NoFailpoints, Side};
use futures::future::BoxFuture;

use crate::fleet::Fleet;
use crate::trap::Trap;
use crate::wait::until;

/// What was written, on which side of it, and the how-manieth time.
type Line = (String, Side, usize);

/// Where a controller is killed.
#[derive(Clone, Copy, Debug)]
pub struct Killed<'a> {
    kind: &'static str,
    least: usize,
    must: &'a [&'a str],
    last: Option<&'static str>,
    repeats: usize,
    patience: Duration,
}

/// At every line of an intent of this kind; those of others that it makes are not its own.
pub const fn at_any_line_of<'a>(kind: &'static str) -> Killed<'a> {
    Killed {
        kind,
        least: 10,
        must: &[],
        last: Some("remove the finalizer"),
        repeats: usize::MAX,
        patience: Duration::from_mins(10),
    }
}

impl<'a> Killed<'a> {
    /// A whole run has more lines than that.
    #[must_use]
    pub const fn more_than(self, least: usize) -> Self {
        Self { least, ..self }
    }

    /// What a whole run writes.
    #[must_use]
    pub const fn among_them(self, must: &'a [&'a str]) -> Self {
        Self { must, ..self }
    }

    /// It comes to each line in so long; ten minutes unless this is said.
    #[must_use]
    pub const fn within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// It goes on, and has no last write.
    #[must_use]
    pub const fn without_end(self) -> Self {
        Self { last: None, ..self }
    }

    /// Journals that only say how far it is come again and again, not in every run as often: the first of each sort count.
    #[must_use]
    pub const fn first_journals(self, repeats: usize) -> Self {
        Self { repeats, ..self }
    }

    /// Plays it once to know its lines, and once more for each of them, in a world of its own.
    ///
    /// `play` asks for it and waits for what has to come, whoever leads meanwhile; `ended` judges at the very end.
    ///
    /// # Panics
    /// When a line isn't survived.
    pub fn each_time<S: AsRef<Fleet>>(
        self,
        begin: impl AsyncFn() -> S + Sync + RefUnwindSafe,
        play: impl AsyncFn(&S) + Sync + RefUnwindSafe,
        ended: impl Fn(&S) + Sync + RefUnwindSafe,
    ) {
        let lines = in_a_world(async {
            let stage = begin().await;
            let lines = self.recorded(&stage, play(&stage)).await;
            ended(&stage);
            lines
        });
        assert!(lines.len() > self.least, "a run has more lines: {lines:#?}");
        for what in self.must {
            let is_there = lines.iter().any(|line| line.0.contains(what));
            assert!(is_there, "{what}: {lines:#?}");
        }
        self.at_each(between_writes(lines), |line| {
            in_a_world(async {
                let stage = begin().await;
                self.survives(&line, stage.as_ref(), play(&stage)).await;
                ended(&stage);
            });
        });
    }

    async fn recorded<S: AsRef<Fleet>>(self, stage: &S, played: impl Future<Output = ()>) -> Vec<Line> {
        let (fleet, recorder) = (stage.as_ref(), Arc::new(Recorder::of(self.kind)));
        let _controller = fleet.controller(Arc::clone(&recorder) as Arc<dyn FailpointHook>);
        played.await;
        if let Some(last) = self.last {
            until("the last write is done", || recorder.has_done(last)).await;
        }
        recorder.0.lock().unwrap().seen.clone()
    }

    async fn survives(self, line: &Line, fleet: &Fleet, played: impl Future<Output = ()>) {
        let (seen, here) = (Mutex::new(Lines::of(self.kind)), line.clone());
        let trap = Trap::when(move |point| seen.lock().unwrap().add(point) == Some(&here));
        let controller = fleet.controller(Arc::clone(&trap) as Arc<dyn FailpointHook>);
        let replaced = async {
            trap.sprung_within(self.patience, &format!("{line:?}")).await;
            controller.kill().await;
            // Long enough that nothing of the dead one is under way, and that whatever may go wrong does.
            tokio::time::sleep(Duration::from_secs(2)).await;
            fleet.assert_one_writer();
            fleet.controller(Arc::new(NoFailpoints))
        };
        // A line may come when all has ended, and what is left is cleared away.
        let (_next, ()) = tokio::join!(replaced, played);
    }

    /// Two worlds at a time.
    fn at_each(self, lines: Vec<Line>, kill: impl Fn(Line) + Sync + RefUnwindSafe) {
        let counts = |line: &Line| !line.0.ends_with("journal") || line.2 <= self.repeats;
        let lines: Vec<Line> = lines.into_iter().filter(counts).collect();
        let next = AtomicUsize::new(0);
        let failures = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if catch_unwind(|| kill(line.clone())).is_err() {
                            failures.lock().unwrap().push(line.clone());
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
}

/// Returns the line before the first write, and the one after each of them: what is after one is before the next.
fn between_writes(all: Vec<Line>) -> Vec<Line> {
    // One that is refused, because what was read isn't so any more, has no line after it.
    for pair in all.windows(2) {
        if let [(before, _, _), (after, Side::After, _)] = pair {
            assert_eq!(before, after, "writes overlap: {pair:?}");
        }
    }
    let after = |(at, line): &(usize, Line)| *at == 0 || line.1 == Side::After;
    let lines = all.into_iter().enumerate().filter(after);
    lines.map(|(_, line)| line).collect()
}

/// Each world has a thread's runtime and a paused clock of its own.
fn in_a_world<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(future)
}

struct Lines {
    kind: &'static str,
    seen: Vec<Line>,
    counts: BTreeMap<(String, Side), usize>,
}

impl Lines {
    const fn of(kind: &'static str) -> Self {
        Self {
            kind,
            seen: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Returns the line that was come to, unless it is another kind's.
    fn add(&mut self, point: &Failpoint) -> Option<&Line> {
        if point.intent.kind != self.kind {
            return None;
        }
        let count = self.counts.entry((point.what.clone(), point.side)).or_default();
        *count += 1;
        self.seen.push((point.what.clone(), point.side, *count));
        self.seen.last()
    }
}

struct Recorder(Mutex<Lines>);

impl Recorder {
    const fn of(kind: &'static str) -> Self {
        Self(Mutex::new(Lines::of(kind)))
    }

    fn has_done(&self, what: &str) -> bool {
        let lines = self.0.lock().unwrap();
        let last = lines.seen.last();
        last.is_some_and(|line| line.0.ends_with(what) && line.1 == Side::After)
    }
}

impl FailpointHook for Recorder {
    fn reached<'a>(&'a self, point: &'a Failpoint) -> BoxFuture<'a, ()> {
        self.0.lock().unwrap().add(point);
        Box::pin(std::future::ready(()))
    }
}
