//! One Flink application cluster, its `JobManager`, its `TaskManagers` and its job, as a function of time. And what is less: a session
//! cluster has no job of its own, a session job no pods.
//!
//! It lives in the member and knows nothing of the operator: it goes on writing while the operator is away.

use jiff::{SignedDuration, Timestamp};

use super::status::Job as JobState;
use crate::member::{PodPhase, PodView, Timings, later};

/// Records that a running job processes in a millisecond.
const RECORDS_PER_MILLI: i64 = 1;

/// From which state a job is to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restore {
    Empty,
    Savepoint(String),
    /// Whatever the HA metadata of this very cluster points to.
    LastState,
}

/// What is deployed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A cluster for one job.
    #[default]
    Application,
    /// A cluster without a job of its own. Its `TaskManager`s come with the jobs, and are not shown.
    Session,
    /// A job in the session cluster of that name.
    InSession(String),
}

/// What the operator hands to Flink to be deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    pub form: Form,
    /// Of the resource.
    pub uid: String,
    /// Of the spec that was deployed; how the operator recognises a deployment whose status got lost.
    pub generation: i64,
    pub job_id: String,
    pub image: String,
    pub restore: Restore,
    /// `initialSavepointPath` of the spec, used or not.
    pub handle_given: Option<String>,
    pub high_availability: bool,
    pub checkpoint_dir: String,
    pub savepoint_dir: String,
    pub task_managers: u32,
}

impl Submission {
    /// Returns whether the image can't be pulled: by the sandbox's rule, its name or tag contains `broken` or
    /// `does-not-exist`.
    pub fn image_is_broken(&self) -> bool {
        is_broken_image(&self.image)
    }
}

/// The sandbox's rule for images that nobody can pull.
pub fn is_broken_image(image: &str) -> bool {
    image.contains("broken") || image.contains("does-not-exist")
}

/// State behind a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    pub path: String,
    pub records: u64,
}

/// What a restore finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    State(Handle),
    /// There should have been something.
    Missing(String),
}

/// What happened to a cluster that others must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    /// The job can write from now on.
    Started {
        at: Timestamp,
        from: Option<Handle>,
        /// After its `JobManager` was restarted, by nobody's order.
        by_itself: bool,
    },
    /// The job can no longer write.
    Stopped { at: Timestamp },
    /// A savepoint was taken: complete, final, and told to the operator.
    Taken { at: Timestamp, handle: Handle },
    /// A checkpoint stays in the storage; nobody has been told.
    Retained { at: Timestamp, handle: Handle },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// The job hasn't been started: `running_at` is when it will, `None` for an image that can't be pulled, and where there is no job.
    Starting {
        ready_at: Option<Timestamp>,
        running_at: Option<Timestamp>,
        /// The `JobManager` was restarted: what a job with high availability goes on from.
        again: Option<Again>,
    },
    Running(Run),
    /// Stopping with a savepoint: still writing until it is complete.
    Savepointing {
        run: Run,
        done_at: Timestamp,
        path: String,
    },
    Cancelling {
        run: Run,
        done_at: Timestamp,
    },
    Ended {
        state: JobState,
        at: Timestamp,
        records: u64,
        last: Option<Handle>,
        error: Option<String>,
    },
}

/// The start of a job that ran before in the same deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Again {
    from: Option<Handle>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    since: Timestamp,
    from: Option<Handle>,
}

impl Run {
    fn records_at(&self, at: Timestamp) -> u64 {
        let base = self.from.as_ref().map_or(0, |handle| handle.records);
        let since = at.duration_since(self.since).as_millis();
        base + u64::try_from(since * i128::from(RECORDS_PER_MILLI)).unwrap_or(0)
    }
}

/// A cluster or a session job between its deployment and the end of its last pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub submission: Submission,
    pub deployed_at: Timestamp,
    timings: Timings,
    phase: Phase,
    /// When the last pod goes, once it is being deleted.
    gone_at: Option<Timestamp>,
    /// How often the `JobManager`'s process has ended and was started again in its pod.
    restarts: u32,
    /// Whether the `JobManager`'s REST API answers.
    reachable: bool,
}

impl Cluster {
    pub fn new(submission: Submission, now: Timestamp, timings: Timings) -> Self {
        let up = (!submission.image_is_broken()).then(|| later(now, timings.pod_start));
        let runs = |ready| later(ready, timings.job_start);
        let (ready_at, running_at) = match submission.form {
            Form::Application => (up, up.map(runs)),
            Form::Session => (up, None),
            Form::InSession(_) => (Some(now), Some(runs(now))),
        };
        Self {
            phase: Phase::Starting {
                ready_at,
                running_at,
                again: None,
            },
            submission,
            deployed_at: now,
            timings,
            gone_at: None,
            restarts: 0,
            reachable: true,
        }
    }

    /// Lets everything happen that is due, oldest first. `find` looks up the state to restore from.
    pub fn advance(&mut self, now: Timestamp, find: impl Fn(&Restore) -> Found) -> Vec<Happened> {
        let mut happened = Vec::new();
        while let Some(due) = self.next_change().filter(|due| *due <= now) {
            if self.gone_at.is_some_and(|gone| gone <= due) {
                self.die(due, &mut happened);
                break;
            }
            self.change(due, &find, &mut happened);
        }
        happened
    }

    /// Returns when the next thing happens by itself.
    pub fn next_change(&self) -> Option<Timestamp> {
        let phase = match &self.phase {
            Phase::Starting { running_at, .. } => *running_at,
            Phase::Savepointing { done_at, .. } | Phase::Cancelling { done_at, .. } => Some(*done_at),
            Phase::Running(_) => None,
            Phase::Ended { .. } => return self.gone_at,
        };
        match (phase, self.gone_at) {
            (Some(phase), Some(gone)) => Some(phase.min(gone)),
            (phase, gone) => phase.or(gone),
        }
    }

    /// Returns the moments after `now` at which pods or the `JobManager` look different, though the job does not.
    pub fn next_look(&self, now: Timestamp) -> Option<Timestamp> {
        let ready = match &self.phase {
            Phase::Starting {
                ready_at: Some(ready),
                ..
            } => Some(*ready),
            Phase::Starting { ready_at: None, .. } => Some(later(self.deployed_at, self.timings.pod_start)),
            Phase::Ended { at, .. } => Some(later(*at, self.timings.task_manager_idle)),
            _ => None,
        };
        [ready, self.next_change()]
            .into_iter()
            .flatten()
            .filter(|look| *look > now)
            .min()
    }

    pub fn job_state(&self) -> JobState {
        match &self.phase {
            Phase::Starting { .. } => JobState::Created,
            Phase::Running(_) | Phase::Savepointing { .. } => JobState::Running,
            Phase::Cancelling { .. } => JobState::Cancelling,
            Phase::Ended { state, .. } => *state,
        }
    }

    pub fn job_error(&self) -> Option<&str> {
        match &self.phase {
            Phase::Ended { error, .. } => error.as_deref(),
            _ => None,
        }
    }

    pub fn job_started_at(&self) -> Option<Timestamp> {
        self.run().map(|run| run.since)
    }

    /// Returns how many records the job's state stands for.
    pub fn records(&self, now: Timestamp) -> u64 {
        match &self.phase {
            Phase::Starting { .. } => 0,
            Phase::Ended { records, .. } => *records,
            _ => self.run().map_or(0, |run| run.records_at(now)),
        }
    }

    pub fn can_write(&self) -> bool {
        self.run().is_some()
    }

    /// Returns whether the `JobManager` accepts requests.
    pub fn is_available(&self, now: Timestamp) -> bool {
        match &self.phase {
            Phase::Starting { ready_at, .. } => ready_at.is_some_and(|ready| ready <= now),
            _ => true,
        }
    }

    /// Returns whether the `JobManager` ever ran, up to the end of its last pod.
    pub fn came_up(&self) -> bool {
        let ready_at = later(self.deployed_at, self.timings.pod_start);
        !self.submission.image_is_broken() && self.gone_at.is_none_or(|gone| ready_at <= gone)
    }

    /// Returns whether the `JobManager` was up before, and is on its way again.
    pub const fn is_restarted(&self) -> bool {
        matches!(&self.phase, Phase::Starting { again: Some(_), .. })
    }

    pub const fn is_reachable(&self) -> bool {
        self.reachable
    }

    pub const fn is_deleting(&self) -> bool {
        self.gone_at.is_some()
    }

    /// Returns when the last pod goes or went, once it is being deleted.
    pub const fn gone_at(&self) -> Option<Timestamp> {
        self.gone_at
    }

    pub fn is_gone(&self, now: Timestamp) -> bool {
        self.gone_at.is_some_and(|gone| gone <= now)
    }

    /// Returns why the `JobManager`'s pod doesn't start.
    pub fn pull_error(&self, now: Timestamp) -> Option<String> {
        let tried = now >= later(self.deployed_at, self.timings.pod_start);
        (self.submission.image_is_broken() && tried)
            .then(|| format!("Back-off pulling image \"{}\"", self.submission.image))
    }

    /// Returns the newest complete state of the job so far: its savepoint at the end, a checkpoint, or what it was
    /// restored from.
    pub fn checkpoint(&self, now: Timestamp) -> Option<Handle> {
        match &self.phase {
            Phase::Ended { last, .. } => last.clone(),
            _ => self.run().and_then(|run| self.checkpoint_of(run, now)),
        }
    }

    /// Stops the job with a savepoint, complete at the returned time; refused unless it runs.
    pub fn stop_with_savepoint(&mut self, path: String, now: Timestamp) -> Result<Timestamp, String> {
        let state = self.job_state();
        match &self.phase {
            Phase::Running(run) if self.reachable => {
                let done_at = later(now, self.timings.savepoint);
                self.phase = Phase::Savepointing {
                    run: run.clone(),
                    done_at,
                    path,
                };
                Ok(done_at)
            }
            Phase::Savepointing { done_at, .. } if self.reachable => Ok(*done_at),
            _ => Err(format!(
                "the job is {state:?}, not running, or its JobManager does not answer"
            )),
        }
    }

    /// Cancels the job; a retained checkpoint stays behind.
    pub fn cancel(&mut self, now: Timestamp) {
        match &self.phase {
            Phase::Running(run) | Phase::Savepointing { run, .. } => {
                let done_at = later(now, self.timings.cancel);
                self.phase = Phase::Cancelling {
                    run: run.clone(),
                    done_at,
                };
            }
            Phase::Starting { .. } => {
                let state = JobState::Canceled;
                self.phase = Phase::Ended {
                    state,
                    at: now,
                    records: 0,
                    last: None,
                    error: None,
                };
            }
            Phase::Cancelling { .. } | Phase::Ended { .. } => {}
        }
    }

    /// Begins to delete the cluster; the job writes on until it is cancelled or its pods are gone.
    pub fn delete(&mut self, now: Timestamp) {
        let gone = later(now, self.timings.teardown);
        self.gone_at.get_or_insert(gone);
    }

    /// Makes the job fail for good, as an error of its own would.
    pub fn fail(&mut self, reason: &str, now: Timestamp) -> Vec<Happened> {
        let mut happened = Vec::new();
        if matches!(self.phase, Phase::Ended { .. }) {
            return happened;
        }
        self.end(JobState::Failed, now, Some(reason.to_owned()), &mut happened);
        happened
    }

    /// Ends the `JobManager`'s process, which is started again at once.
    pub fn restart(&mut self, now: Timestamp) -> Vec<Happened> {
        let mut happened = Vec::new();
        let is_session = self.submission.form == Form::Session;
        if !(self.can_write() || is_session && self.is_available(now)) {
            return happened;
        }
        let from = self.checkpoint(now);
        self.restarts += 1;
        self.stop(now, &mut happened);
        let ready = later(now, self.timings.pod_start);
        self.phase = Phase::Starting {
            ready_at: Some(ready),
            running_at: (!is_session).then(|| later(ready, self.timings.job_start)),
            again: Some(Again { from }),
        };
        happened
    }

    /// Ends the job with the cluster that it ran in.
    pub fn lose(&mut self, at: Timestamp) -> Vec<Happened> {
        let mut happened = Vec::new();
        self.die(at, &mut happened);
        happened
    }

    /// Returns the checkpoint that a job with high availability goes on from, when its `JobManager` was restarted.
    pub const fn resumes_from(&self) -> Option<&Handle> {
        match &self.phase {
            Phase::Starting {
                again: Some(again), ..
            } => again.from.as_ref(),
            _ => None,
        }
    }

    pub fn set_reachable(&mut self, reachable: bool) {
        self.reachable = reachable;
    }

    /// Returns the pods that exist now.
    pub fn pods(&self, namespace: &str, name: &str, now: Timestamp) -> Vec<PodView> {
        if self.is_gone(now) || matches!(self.submission.form, Form::InSession(_)) {
            return Vec::new();
        }
        let pod = |suffix: &str, component: &'static str, restarts: u32, phase: PodPhase| PodView {
            restarts,
            namespace: namespace.to_owned(),
            name: format!("{name}-{suffix}"),
            labels: vec![
                ("app".to_owned(), name.to_owned()),
                ("component".to_owned(), component.to_owned()),
                ("type".to_owned(), "flink-native-kubernetes".to_owned()),
            ],
            container: "flink-main-container".to_owned(),
            image: self.submission.image.clone(),
            phase,
        };
        let id = self.submission.job_id.get(..10).unwrap_or("0");
        let manager = match self.pull_error(now) {
            Some(error) => PodPhase::Waiting {
                reason: "ImagePullBackOff",
                message: error,
            },
            None if self.is_available(now) => PodPhase::Running,
            None => PodPhase::starting(),
        };
        let workers = match &self.phase {
            Phase::Starting { .. } => self.is_available(now).then(PodPhase::starting),
            Phase::Ended { at, .. } => {
                (now < later(*at, self.timings.task_manager_idle)).then_some(PodPhase::Running)
            }
            _ => Some(PodPhase::Running),
        };
        let workers = workers.into_iter().flat_map(|phase| {
            (1..=self.submission.task_managers)
                .map(move |n| (format!("{id}-taskmanager-1-{n}"), phase.clone()))
                .collect::<Vec<_>>()
        });
        std::iter::once(pod(&format!("{id}-jm"), "jobmanager", self.restarts, manager))
            .chain(workers.map(|(suffix, phase)| pod(&suffix, "taskmanager", 0, phase)))
            .collect()
    }

    fn run(&self) -> Option<&Run> {
        match &self.phase {
            Phase::Running(run) | Phase::Savepointing { run, .. } | Phase::Cancelling { run, .. } => {
                Some(run)
            }
            Phase::Starting { .. } | Phase::Ended { .. } => None,
        }
    }

    fn checkpoint_of(&self, run: &Run, at: Timestamp) -> Option<Handle> {
        let interval = i128::try_from(self.timings.checkpoint_interval.as_millis())
            .unwrap_or(i128::MAX)
            .max(1);
        let completed = at.duration_since(run.since).as_millis() / interval;
        if completed == 0 {
            return run.from.clone();
        }
        let taken = i64::try_from(completed * interval).unwrap_or(0);
        let records = run.records_at(
            run.since
                .saturating_add(SignedDuration::from_millis(taken))
                .unwrap_or(at),
        );
        let path = format!(
            "{}/{}/chk-{completed}",
            self.submission.checkpoint_dir, self.submission.job_id
        );
        Some(Handle { path, records })
    }

    fn change(&mut self, at: Timestamp, find: &impl Fn(&Restore) -> Found, happened: &mut Vec<Happened>) {
        match &self.phase {
            Phase::Starting { again, .. } => match find(self.restore(again.is_some())) {
                Found::Missing(why) => self.end(JobState::Failed, at, Some(why), happened),
                found => {
                    let from = match found {
                        Found::State(handle) => Some(handle),
                        _ => None,
                    };
                    happened.push(Happened::Started {
                        at,
                        from: from.clone(),
                        by_itself: again.is_some(),
                    });
                    self.phase = Phase::Running(Run { since: at, from });
                }
            },
            Phase::Savepointing { run, path, .. } => {
                let records = run.records_at(at);
                let handle = Handle {
                    path: path.clone(),
                    records,
                };
                happened.push(Happened::Taken {
                    at,
                    handle: handle.clone(),
                });
                happened.push(Happened::Stopped { at });
                let state = JobState::Finished;
                self.phase = Phase::Ended {
                    state,
                    at,
                    records,
                    last: Some(handle),
                    error: None,
                };
            }
            Phase::Cancelling { .. } => self.end(JobState::Canceled, at, None, happened),
            Phase::Running(_) | Phase::Ended { .. } => {}
        }
    }

    const fn restore(&self, again: bool) -> &Restore {
        if again && self.submission.high_availability {
            &Restore::LastState
        } else {
            &self.submission.restore
        }
    }

    /// Ends the job without a savepoint; its last checkpoint is retained.
    fn end(&mut self, state: JobState, at: Timestamp, error: Option<String>, happened: &mut Vec<Happened>) {
        let (records, last) = (self.records(at), self.checkpoint(at));
        self.stop(at, happened);
        self.phase = Phase::Ended {
            state,
            at,
            records,
            last,
            error,
        };
    }

    fn stop(&self, at: Timestamp, happened: &mut Vec<Happened>) {
        let Some(run) = self.run() else {
            return;
        };
        if let Some(handle) = self
            .checkpoint_of(run, at)
            .filter(|handle| Some(handle) != run.from.as_ref())
        {
            happened.push(Happened::Retained { at, handle });
        }
        happened.push(Happened::Stopped { at });
    }

    /// Takes the last pod away, and with it whatever still ran.
    fn die(&mut self, at: Timestamp, happened: &mut Vec<Happened>) {
        if !matches!(self.phase, Phase::Ended { .. }) {
            self.end(JobState::Suspended, at, None, happened);
        }
    }
}
