//! How far long work with a control plane has come, for whoever shows it. Where nothing shows it, nothing is counted.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What is done with many things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The kinds that are watched are listed for the first time.
    List,
    /// Changes are tried by dry-runs.
    DryRun,
    /// Objects are applied.
    Apply,
}

/// Shows long work, on a terminal for instance.
pub trait ProgressObserver: Send + Sync {
    /// Takes in that a task of a sync has begun. It is over when what is returned is dropped.
    fn begin(&self, task: Task, sync: &str, total: usize) -> Box<dyn TaskObserver>;
}

/// Shows one task. It is called for each of thousands of objects, and must not wait.
pub trait TaskObserver: Send + Sync {
    fn progressed(&self, done: usize, total: usize);
}

/// How far a task has come. The one who works on it counts; the default one is not observed.
#[derive(Default)]
pub struct TaskProgress(Option<Observed>);

struct Observed {
    done: AtomicUsize,
    total: AtomicUsize,
    observer: Box<dyn TaskObserver>,
}

impl std::fmt::Debug for TaskProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskProgress").finish_non_exhaustive()
    }
}

impl TaskProgress {
    /// Begins a task. One with nothing to do isn't shown.
    pub(super) fn begin(
        observer: Option<&dyn ProgressObserver>,
        task: Task,
        sync: &str,
        total: usize,
    ) -> Self {
        let observer = observer.filter(|_| total > 0);
        Self(observer.map(|observer| Observed {
            done: AtomicUsize::new(0),
            total: AtomicUsize::new(total),
            observer: observer.begin(task, sync, total),
        }))
    }

    /// Takes in that one more thing is done.
    pub fn advance(&self) {
        if let Some(task) = &self.0 {
            task.done.fetch_add(1, Ordering::Relaxed);
            task.tell();
        }
    }

    /// Takes in how many things are left to do.
    pub fn remain(&self, left: usize) {
        if let Some(task) = &self.0 {
            let total = task.total.load(Ordering::Relaxed);
            task.done.store(total.saturating_sub(left), Ordering::Relaxed);
            task.tell();
        }
    }

    /// Takes in that so many things are not done after all.
    pub fn leave_out(&self, count: usize) {
        if let Some(task) = self.0.as_ref().filter(|_| count > 0) {
            let total = task.total.load(Ordering::Relaxed);
            task.total.store(total.saturating_sub(count), Ordering::Relaxed);
            task.tell();
        }
    }
}

impl Observed {
    fn tell(&self) {
        let done = self.done.load(Ordering::Relaxed);
        self.observer.progressed(done, self.total.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<String>>>);

    impl ProgressObserver for Seen {
        fn begin(&self, task: Task, sync: &str, total: usize) -> Box<dyn TaskObserver> {
            self.0.lock().unwrap().push(format!("{task:?} {sync}: {total}"));
            Box::new(self.clone())
        }
    }

    impl TaskObserver for Seen {
        fn progressed(&self, done: usize, total: usize) {
            self.0.lock().unwrap().push(format!("{done}/{total}"));
        }
    }

    #[test]
    fn who_observes_a_task_is_told_what_is_done_and_what_is_left_out() {
        let seen = Seen::default();
        let task = TaskProgress::begin(Some(&seen), Task::Apply, "shop", 4);
        task.advance();
        task.leave_out(0);
        task.leave_out(1);
        task.remain(1);
        assert_eq!(*seen.0.lock().unwrap(), ["Apply shop: 4", "1/4", "1/3", "2/3"]);
    }

    #[test]
    fn nobody_is_told_of_nothing() {
        let seen = Seen::default();
        TaskProgress::begin(Some(&seen), Task::Apply, "shop", 0).advance();
        TaskProgress::begin(None, Task::Apply, "shop", 4).advance();
        assert_eq!(*seen.0.lock().unwrap(), [""; 0]);
    }
}
