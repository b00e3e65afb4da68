//! What the operator decides to do next (`AbstractFlinkResourceReconciler`, `AbstractJobReconciler`,
//! `ApplicationReconciler`, `SessionReconciler`, `SessionJobReconciler`). Pure: the operator's loop carries the action out.

use std::time::Duration;

use jiff::Timestamp;

use super::diff::{DiffType, diff};
use super::jobs::Runtime;
use super::resource::Resource;
use super::spec::{
    JM_RECOVERY, JobState, LAST_STATE_CANCEL, LAST_STATE_FALLBACK, READINESS_TIMEOUT, RESTART_FAILED,
    ROLLBACK, SHUTDOWN_TTL, Spec, UpgradeMode,
};
use super::status::{Job, JobManager, LAST_STATE_MARKER, Reconciliation};
use crate::member::later;

/// How a job is brought to a halt (`SuspendMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspend {
    /// It has already ended.
    Noop,
    /// Cancelled, its cluster deleted, its state forgotten.
    Stateless,
    /// Stopped with a savepoint; the cluster stays until its time to live is over.
    Savepoint,
    /// Cancelled; what its last checkpoint was will be seen later.
    Cancel,
    /// Its cluster is deleted under it; the HA metadata stays.
    LastState,
}

/// What one pass is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A new object that is to be suspended: nothing at all, not even an observed generation.
    Hold,
    FirstDeploy,
    /// A session cluster is deployed, after what is left of the one before, with its jobs, is deleted.
    ReplaceSession,
    /// The cluster of a session is lost: it is deployed as it was.
    RecoverSession,
    /// Nothing, or nothing yet.
    Wait,
    /// The spec is the one already deployed: only the record is renewed.
    Record,
    /// Cancel, and start from `initialSavepointPath`.
    Redeploy,
    /// Bring the job to a halt; when it has ended already and is to run, start it at once.
    Suspend {
        how: Suspend,
        restore: UpgradeMode,
    },
    /// Start a suspended job.
    Restore,
    /// A `JobManager` that never came up is deleted; then how to upgrade is decided again.
    DeleteNeverStarted,
    /// The cluster of a job that has ended has outlived its time.
    CleanUp,
    /// Start a failed job or a lost cluster again.
    Resubmit {
        require_metadata: bool,
        clean_up: bool,
    },
    /// `UpgradeFailureException`: nothing can be done without a person.
    Fail(String),
}

/// Which way an upgrade can go (`AbstractJobReconciler.JobUpgrade`).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Upgrade {
    Possible(Suspend, UpgradeMode),
    /// Not now; `others` tells whether anything else may be done meanwhile.
    NotNow {
        others: bool,
    },
    /// Not this way: what an application can do besides is to be tried.
    Unavailable,
    DeleteNeverStarted,
    Failed(String),
}

/// Decides what to do about a resource. May change the spec in memory, as the operator does: the mode of a fallback, the
/// stable spec of a rollback.
pub fn decide(resource: &mut Resource, runtime: &Runtime, now: Timestamp) -> Action {
    let Some(last) = resource.status.last_reconciled().map(|last| last.spec) else {
        return match resource.spec.job_state() {
            _ if resource.is_session_cluster() => Action::ReplaceSession,
            JobState::Suspended => Action::Hold,
            JobState::Running => Action::FirstDeploy,
        };
    };
    let mut last = last;
    let mut kind = diff(&last, &resource.spec);
    let state = resource.status.reconciliation_status.state;
    let mut changed = kind != DiffType::Ignore || state == Reconciliation::Upgrading;
    if should_roll_back(resource, changed, &last, runtime, now) {
        prepare_roll_back(resource, changed, &mut last);
        (changed, kind) = (true, DiffType::Upgrade);
    }
    if changed {
        if let Some(action) = spec_change(resource, kind, &last, runtime) {
            return action;
        }
    } else {
        resource.update_metadata();
    }
    other_changes(resource, runtime, now)
}

fn spec_change(resource: &mut Resource, kind: DiffType, last: &Spec, runtime: &Runtime) -> Option<Action> {
    let state = resource.status.reconciliation_status.state;
    let in_flight = matches!(state, Reconciliation::Upgrading | Reconciliation::RollingBack);
    if !in_flight && resource.status.deployed_spec().as_ref() == Some(&resource.spec) {
        return Some(Action::Record);
    }
    if resource.is_session_cluster() {
        return Some(Action::ReplaceSession);
    }
    if kind == DiffType::SavepointRedeploy {
        return Some(Action::Redeploy);
    }
    match (last.job_state(), resource.spec.job_state()) {
        (JobState::Running, _) => decide_upgrade(resource, runtime),
        (JobState::Suspended, JobState::Running) => Some(Action::Restore),
        (JobState::Suspended, JobState::Suspended) => Some(Action::Wait),
    }
}

/// Decides how to bring a running job to a halt; `None` when it can't be done yet and other things may be done.
pub fn decide_upgrade(resource: &mut Resource, runtime: &Runtime) -> Option<Action> {
    let upgrade = if resource.is_session_job() {
        common_job_upgrade(resource, runtime)
    } else {
        job_upgrade(resource, runtime)
    };
    match upgrade {
        Upgrade::Possible(how, restore) => Some(Action::Suspend { how, restore }),
        Upgrade::DeleteNeverStarted => Some(Action::DeleteNeverStarted),
        Upgrade::Failed(why) => Some(Action::Fail(why)),
        Upgrade::NotNow { others: true } | Upgrade::Unavailable => None,
        Upgrade::NotNow { others: false } => Some(Action::Wait),
    }
}

/// `ApplicationReconciler.getJobUpgrade`.
fn job_upgrade(resource: &mut Resource, runtime: &Runtime) -> Upgrade {
    let upgrade = common_job_upgrade(resource, runtime);
    let unavailable = match &upgrade {
        Upgrade::Unavailable => true,
        Upgrade::NotNow { .. } => false,
        _ => return upgrade,
    };
    let ha = resource.conf().high_availability() && deployed(resource).conf().high_availability();
    if unavailable && ha && runtime.ha_available {
        return Upgrade::Possible(Suspend::LastState, UpgradeMode::LastState);
    }
    let manager = resource.status.job_manager_deployment_status;
    if manager != JobManager::Missing
        && resource.last_upgrade_mode() != UpgradeMode::LastState
        && runtime.never_started()
    {
        return Upgrade::DeleteNeverStarted;
    }
    if matches!(manager, JobManager::Missing | JobManager::Error) && !runtime.ha_available {
        return Upgrade::Failed(
            "JobManager deployment is missing and HA metadata is not available to make stateful upgrades. It is \
             possible that the job has finished or terminally failed, or the configmaps have been deleted. Manual \
             restore required."
                .to_owned(),
        );
    }
    upgrade
}

/// `AbstractJobReconciler.getJobUpgrade`.
fn common_job_upgrade(resource: &mut Resource, runtime: &Runtime) -> Upgrade {
    let conf = resource.conf();
    let status = &resource.status;
    let terminal = status.job_is_terminal();
    if resource.spec.upgrade_mode() == UpgradeMode::Stateless {
        let how = if terminal {
            Suspend::Noop
        } else {
            Suspend::Stateless
        };
        return Upgrade::Possible(how, UpgradeMode::Stateless);
    }
    let accessible = resource.is_accessible();
    if terminal && (status.job_is(Job::Canceled) || !runtime.ha_available || accessible) {
        return if status.savepoint_for_restore() == Some(LAST_STATE_MARKER) {
            Upgrade::Failed(
                "Job is in terminal state but last checkpoint is unknown, possibly due to an unrecoverable restore \
                 error. Manual restore required."
                    .to_owned(),
            )
        } else {
            Upgrade::Possible(Suspend::Noop, UpgradeMode::Savepoint)
        };
    }
    if status.job_is(Job::Cancelling) {
        return Upgrade::NotNow { others: false };
    }
    let running = status.job_is(Job::Running);
    let version_changed = deployed(resource).flink_version() != resource.spec.flink_version();
    if resource.spec.upgrade_mode() == UpgradeMode::Savepoint {
        if running {
            return Upgrade::Possible(Suspend::Savepoint, UpgradeMode::Savepoint);
        }
        if !version_changed && !conf.flag(LAST_STATE_FALLBACK, true) {
            return Upgrade::NotNow { others: true };
        }
        resource.spec.set_upgrade_mode(UpgradeMode::LastState);
    }
    last_state_upgrade(resource, runtime, running, version_changed)
}

fn last_state_upgrade(
    resource: &Resource,
    runtime: &Runtime,
    running: bool,
    version_changed: bool,
) -> Upgrade {
    let cancel = Upgrade::Possible(Suspend::Cancel, UpgradeMode::Savepoint);
    let can_cancel = resource.job_is_cancellable();
    if version_changed {
        return match (running, can_cancel) {
            (true, _) => Upgrade::Possible(Suspend::Savepoint, UpgradeMode::Savepoint),
            (false, true) => cancel,
            (false, false) => Upgrade::NotNow { others: true },
        };
    }
    let prefers_cancel = !runtime.ha_available || resource.conf().flag(LAST_STATE_CANCEL, false);
    match (can_cancel && prefers_cancel, running) {
        (true, _) => cancel,
        (false, true) => Upgrade::Possible(Suspend::LastState, UpgradeMode::LastState),
        (false, false) => Upgrade::Unavailable,
    }
}

/// `AbstractJobReconciler.reconcileOtherChanges`, then `ApplicationReconciler.reconcileOtherChanges`;
/// `SessionReconciler.reconcileOtherChanges`.
fn other_changes(resource: &Resource, runtime: &Runtime, now: Timestamp) -> Action {
    let (status, conf) = (&resource.status, resource.conf());
    let missing = status.job_manager_deployment_status == JobManager::Missing;
    if resource.is_session_cluster() {
        let recovers = missing && conf.flag(JM_RECOVERY, true);
        return if recovers {
            Action::RecoverSession
        } else {
            Action::Wait
        };
    }
    if status.job_is(Job::Failed) && conf.flag(RESTART_FAILED, false) {
        return Action::Resubmit {
            require_metadata: false,
            clean_up: true,
        };
    }
    if resource.is_session_job() {
        return Action::Wait;
    }
    let should_run = deployed(resource).job_state() == JobState::Running && !status.job_is_terminal();
    let ha = deployed(resource).conf().high_availability();
    let recoverable = ha || resource.spec.upgrade_mode() == UpgradeMode::Stateless;
    if missing && should_run && recoverable && conf.flag(JM_RECOVERY, true) {
        return if ha && !runtime.ha_available {
            Action::Fail("HA metadata is not available to restore from last state.".to_owned())
        } else {
            Action::Resubmit {
                require_metadata: ha,
                clean_up: false,
            }
        };
    }
    let ttl = conf.duration(SHUTDOWN_TTL, Duration::from_hours(24));
    let updated = status
        .job_status
        .update_time
        .as_deref()
        .and_then(|millis| millis.parse().ok());
    let updated = updated.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    if status.job_is_terminal() && !missing && updated.is_some_and(|updated| now > later(updated, ttl)) {
        return Action::CleanUp;
    }
    Action::Wait
}

/// `shouldRollBack`; only of applications.
fn should_roll_back(
    resource: &Resource,
    changed: bool,
    last: &Spec,
    runtime: &Runtime,
    now: Timestamp,
) -> bool {
    let (status, conf) = (&resource.status, resource.conf());
    let state = status.reconciliation_status.state;
    if state == Reconciliation::RollingBack {
        return true;
    }
    let is_application = resource.spec.has_job() && !resource.is_session_job();
    let possible = !changed
        && is_application
        && conf.flag(ROLLBACK, false)
        && state != Reconciliation::RolledBack
        && !status.is_stable()
        && status.last_stable().is_some_and(|stable| {
            stable.spec.job_state() == JobState::Running
                && stable.spec.flink_version() == resource.spec.flink_version()
        });
    if !possible {
        return false;
    }
    let deployed_at = Timestamp::from_millisecond(status.reconciliation_status.reconciliation_timestamp);
    let timeout = conf.duration(READINESS_TIMEOUT, Duration::from_mins(5));
    if deployed_at.is_ok_and(|at| now <= later(at, timeout)) {
        return false;
    }
    (last.upgrade_mode() == UpgradeMode::Savepoint && runtime.never_started()) || runtime.ha_available
}

/// `prepareCrForRollback`.
fn prepare_roll_back(resource: &mut Resource, changed: bool, last: &mut Spec) {
    let status = &mut resource.status.reconciliation_status;
    if status.state == Reconciliation::RollingBack {
        last.set_job_state(JobState::Suspended);
    }
    status.state = Reconciliation::RollingBack;
    if changed {
        status.state = Reconciliation::Upgrading;
        return;
    }
    if let Some(stable) = resource.status.last_stable() {
        resource.spec = stable.spec;
        resource.spec.set_upgrade_mode(match last.upgrade_mode() {
            UpgradeMode::Stateless => UpgradeMode::Stateless,
            _ => UpgradeMode::LastState,
        });
    }
}

fn deployed(resource: &Resource) -> Spec {
    resource.status.deployed_spec().unwrap_or_default()
}
