//! Bars of long work on a terminal: what is done, and how far it has come. A bar is gone when its work is over.
//!
//! They are drawn on stderr, below what is printed. Whatever else is written goes through [`beside`], so that neither is
//! written over the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use cutover_base::escape;
use cutover_cluster::{Cluster, ProgressObserver, Task, TaskObserver};

/// After how long a task has a bar: what is done sooner needs none.
const AFTER: Duration = Duration::from_millis(500);

/// How long the bars may take to go before the process ends at once.
const END_WITHIN: Duration = Duration::from_millis(100);

/// The terminal, if there is one that bars are for; of the whole process.
static SCREEN: OnceLock<Screen> = OnceLock::new();

/// Lets long work be shown from now on, if people look at stderr.
pub fn start() {
    // In CI, stderr is a file for later, whatever it says it is.
    if std::env::var_os("CI").is_some() {
        return;
    }
    // They are hidden where stderr is no terminal, or one that can't go back to the beginning of a line.
    let bars = MultiProgress::new();
    if !bars.is_hidden() {
        // A second start in one process (tests) keeps the first one's settings.
        let _ = SCREEN.set(Screen::new(bars));
    }
}

/// Returns the control plane with which long work is shown, if people look at stderr.
pub fn shown(cluster: Cluster) -> Cluster {
    match SCREEN.get() {
        Some(screen) => cluster.with_progress(Arc::new(screen.clone())),
        None => cluster,
    }
}

/// Writes something to a terminal that may have bars. `write` logs nothing.
pub fn beside<T>(write: impl FnOnce() -> T) -> T {
    match SCREEN.get() {
        Some(screen) => screen.beside(write),
        None => write(),
    }
}

/// Takes the bars away before the process ends at once. A terminal that takes nothing more keeps it from nothing.
pub fn end() {
    if let Some(screen) = SCREEN.get() {
        within(END_WITHIN, move || {
            let _ = screen.bars.clear();
        });
    }
}

/// Does something that may never end; returns whether it has, in that time.
fn within(limit: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    let (done, ended) = mpsc::channel();
    let begun = thread::Builder::new().spawn(move || {
        work();
        let _ = done.send(());
    });
    begun.is_ok() && ended.recv_timeout(limit).is_ok()
}

#[derive(Clone)]
struct Screen {
    bars: MultiProgress,
    /// Locked by whoever writes to the terminal, bars and lines alike.
    tasks: Arc<Mutex<Tasks>>,
}

/// The tasks that have begun and aren't over.
#[derive(Default)]
struct Tasks {
    begun: u64,
    bars: BTreeMap<u64, Bar>,
}

struct Bar {
    bar: ProgressBar,
    is_shown: bool,
}

impl Screen {
    fn new(bars: MultiProgress) -> Self {
        Self {
            bars,
            tasks: Arc::default(),
        }
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn beside<T>(&self, write: impl FnOnce() -> T) -> T {
        let tasks = self.tasks();
        let shown = tasks.bars.values().rfind(|bar| bar.is_shown);
        if shown.is_some() {
            let _ = self.bars.clear();
        }
        let written = write();
        // One of them draws all.
        if let Some(shown) = shown {
            shown.bar.force_draw();
        }
        written
    }

    fn show(&self, number: u64) {
        if let Some(task) = self.tasks().bars.get_mut(&number) {
            task.is_shown = true;
            self.bars.add(task.bar.clone()).force_draw();
        }
    }
}

impl ProgressObserver for Screen {
    fn begin(&self, task: Task, sync: &str, total: usize) -> Box<dyn TaskObserver> {
        let bar = ProgressBar::with_draw_target(Some(count(total)), ProgressDrawTarget::hidden())
            .with_style(style(task));
        if !sync.is_empty() {
            bar.set_message(format!("sync {}", escape::line(sync)));
        }
        let mut tasks = self.tasks();
        tasks.begun += 1;
        let number = tasks.begun;
        tasks.bars.insert(number, Bar { bar, is_shown: false });
        drop(tasks);
        let screen = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(AFTER).await;
            screen.show(number);
        });
        Box::new(Shown {
            screen: self.clone(),
            number,
        })
    }
}

/// A task that may have a bar by now.
struct Shown {
    screen: Screen,
    number: u64,
}

impl TaskObserver for Shown {
    fn progressed(&self, done: usize, total: usize) {
        // Whoever writes holds the lock for as long as the terminal takes. What is missed here is drawn with the next.
        let tasks = match self.screen.tasks.try_lock() {
            Ok(tasks) => tasks,
            Err(TryLockError::Poisoned(tasks)) => tasks.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(Bar { bar, .. }) = tasks.bars.get(&self.number) {
            let total = count(total);
            if bar.length() != Some(total) {
                bar.set_length(total);
            }
            bar.set_position(count(done));
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Some(Bar { bar, .. }) = self.screen.tasks().bars.remove(&self.number) {
            bar.finish_and_clear();
        }
    }
}

fn count(things: usize) -> u64 {
    u64::try_from(things).unwrap_or(u64::MAX)
}

/// Returns what a bar looks like: it has no colours.
fn style(task: Task) -> ProgressStyle {
    const FROM_FULL_TO_EMPTY: &str = "█▉▊▋▌▍▎▏ ";
    let template = match task {
        Task::List => "reading {human_pos} of {human_len} kinds  {bar:20}  {wide_msg}",
        Task::DryRun => "trying {human_pos} of {human_len} changes by dry-run  {bar:20}  {wide_msg}",
        Task::Apply => "applying {human_pos} of {human_len} objects  {bar:20}  {wide_msg}",
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => style.progress_chars(FROM_FULL_TO_EMPTY),
        Err(_) => ProgressStyle::default_bar(),
    }
}

#[cfg(test)]
mod tests {
    use indicatif::{InMemoryTerm, TermLike};

    use super::*;

    fn screen(columns: u16) -> (Screen, InMemoryTerm) {
        let terminal = InMemoryTerm::new(24, columns);
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        (Screen::new(MultiProgress::with_draw_target(target)), terminal)
    }

    /// Lets the time pass after which a task has a bar.
    async fn a_while() {
        tokio::time::sleep(AFTER + Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_bar_says_what_is_done_and_how_far_it_has_come_and_goes() {
        let (screen, terminal) = screen(80);
        let task = screen.begin(Task::Apply, "shop", 4040);
        task.progressed(1010, 4040);
        assert_eq!(terminal.contents(), "", "it may be over in a moment");
        a_while().await;
        assert_eq!(
            terminal.contents(),
            "applying 1,010 of 4,040 objects  █████▏                sync shop"
        );
        task.progressed(2021, 4038);
        assert!(
            terminal.contents().starts_with("applying 2,021 of 4,038 objects"),
            "{}",
            terminal.contents()
        );
        drop(task);
        assert_eq!(terminal.contents(), "");
        assert!(screen.tasks().bars.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_soon_has_no_bar() {
        let (screen, terminal) = screen(80);
        let task = screen.begin(Task::DryRun, "shop", 7);
        task.progressed(7, 7);
        drop(task);
        a_while().await;
        assert_eq!(terminal.contents(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn lines_stand_above_the_bars() {
        let (screen, terminal) = screen(100);
        let first = screen.begin(Task::Apply, "shop", 10);
        let second = screen.begin(Task::List, "base", 3);
        a_while().await;
        screen.beside(|| terminal.write_line("applied 3").unwrap());
        let contents = terminal.contents();
        let lines: Vec<&str> = contents.lines().collect();
        assert_eq!(lines.len(), 3, "{contents}");
        assert_eq!(lines[0], "applied 3");
        assert!(lines[1].starts_with("applying 0 of 10 objects"), "{contents}");
        assert!(lines[2].starts_with("reading 0 of 3 kinds"), "{contents}");
        drop(first);
        assert_eq!(terminal.contents().lines().count(), 2);
        drop(second);
        screen.beside(|| terminal.write_line("done").unwrap());
        assert_eq!(terminal.contents(), "applied 3\ndone");
    }

    #[tokio::test(start_paused = true)]
    async fn work_goes_on_while_a_terminal_takes_nothing() {
        let (screen, _) = screen(80);
        let task = screen.begin(Task::Apply, "shop", 10);
        let writes = screen.tasks();
        let goes_on = within(Duration::from_secs(10), move || {
            task.progressed(1, 10);
            // It would wait for the terminal to be over.
            std::mem::forget(task);
        });
        assert!(goes_on);
        drop(writes);
    }

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let (hold, held) = mpsc::channel::<()>();
        assert!(!within(Duration::from_millis(1), move || {
            let _ = held.recv();
        }));
        drop(hold);
        assert!(within(Duration::from_secs(10), || {}));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bar_is_one_line_in_a_narrow_terminal() {
        let (screen, terminal) = screen(70);
        let task = screen.begin(Task::DryRun, "a-sync-that-has-a-long-name", 4040);
        task.progressed(1234, 4040);
        a_while().await;
        assert_eq!(terminal.contents().lines().count(), 1, "{}", terminal.contents());
        drop(task);
        assert_eq!(terminal.contents(), "");
    }
}
