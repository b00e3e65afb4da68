//! What the operator concludes from looking at a cluster (`AbstractFlinkResourceObserver`,
//! `AbstractFlinkDeploymentObserver`, `SessionObserver`, `FlinkSessionJobObserver`, `JobStatusObserver`, `SnapshotObserver`). Pure: it
//! only changes the status.

use jiff::Timestamp;

use super::jobs::{Runtime, Seen};
use super::resource::Resource;
use super::spec::{JobState, UpgradeMode};
use super::status::{JOB_NOT_FOUND, Job, JobManager, Reconciliation};

/// A deployment that can't come up (`DeploymentFailedException`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[flink-main-container] {0}")]
pub struct DeploymentFailed(String);

/// Brings the status up to what is seen.
pub fn observe(resource: &mut Resource, runtime: &Runtime, now: Timestamp) -> Result<(), DeploymentFailed> {
    if !is_ready_to_be_observed(resource, runtime) {
        return Ok(());
    }
    if resource.is_session_job() {
        observe_session_job(resource, runtime, now);
        return Ok(());
    }
    if !resource.status.manager_is_ready() {
        observe_job_manager(resource, runtime)?;
    }
    if resource.status.manager_is_ready() {
        if resource.is_session_cluster() {
            observe_session(resource, runtime)?;
        } else {
            observe_job(resource, runtime, now);
        }
    }
    clear_errors(resource);
    Ok(())
}

/// `isResourceReadyToBeObserved`.
fn is_ready_to_be_observed(resource: &mut Resource, runtime: &Runtime) -> bool {
    let is_session_job = resource.is_session_job();
    let has_no_session = is_session_job && !resource.session_is_ready();
    let status = &mut resource.status;
    if status.is_before_first_deployment() || has_no_session {
        return false;
    }
    match status.reconciliation_status.state {
        Reconciliation::RollingBack => false,
        // The operator's pass ends here, with an error.
        Reconciliation::Upgrading if is_session_job && !runtime.session_answers => false,
        Reconciliation::Upgrading if !status.job_is(Job::Cancelling) => {
            let upgraded = is_already_upgraded(resource, runtime);
            let status = &mut resource.status;
            if upgraded {
                if !is_session_job {
                    status.job_manager_deployment_status = JobManager::Deploying;
                }
                status.update_last_reconciled(|last| last.spec.set_job_state(JobState::Running));
                status.job_status.state = Some(Job::Reconciling);
                status.reconciliation_status.state = Reconciliation::Deployed;
            } else if status.last_reconciled().is_some_and(|last| last.first_deployment) {
                // The first deployment failed half-way: it is done again from the start.
                status.reconciliation_status.last_reconciled_spec = None;
            }
            upgraded
        }
        _ => true,
    }
}

/// Returns whether the deployment that the status says is under way has already been made (`checkIfAlreadyUpgraded`).
fn is_already_upgraded(resource: &Resource, runtime: &Runtime) -> bool {
    if resource.is_session_job() {
        let job = runtime.cluster.as_ref().map(|cluster| cluster.job);
        return job.is_some_and(|job| !matches!(job, Job::Cancelling | Job::Canceled));
    }
    resource.status.job_manager_deployment_status == JobManager::Missing
        && runtime.cluster.as_ref().is_some_and(|cluster| {
            !cluster.deleting && Some(cluster.generation) == resource.status.observed_generation
        })
}

/// `observeJmDeployment`.
fn observe_job_manager(resource: &mut Resource, runtime: &Runtime) -> Result<(), DeploymentFailed> {
    if is_suspended(resource) {
        return Ok(());
    }
    let status = &mut resource.status;
    let previous = status.job_manager_deployment_status;
    if previous == JobManager::DeployedNotReady {
        status.job_manager_deployment_status = JobManager::Ready;
        return Ok(());
    }
    match &runtime.cluster {
        Some(cluster) if cluster.available && cluster.reachable => {
            status.job_manager_deployment_status = JobManager::DeployedNotReady;
        }
        Some(Seen {
            pull_error: Some(error),
            ..
        }) => {
            status.job_status.state = Some(Job::Reconciling);
            if previous != JobManager::Error {
                return Err(DeploymentFailed(error.clone()));
            }
        }
        Some(_) => status.job_manager_deployment_status = JobManager::Deploying,
        None => {
            status.job_manager_deployment_status = JobManager::Missing;
            if !status.job_is_terminal() {
                status.job_status.state = Some(Job::Reconciling);
            }
            if !matches!(previous, JobManager::Missing | JobManager::Error) {
                status.set_error("MissingJobManagerException", "Missing JobManager deployment");
            }
        }
    }
    Ok(())
}

/// `isSuspendedJob`.
fn is_suspended(resource: &Resource) -> bool {
    let status = &resource.status;
    status.job_manager_deployment_status == JobManager::Missing
        && resource.spec.job_state() == JobState::Suspended
        && status
            .last_reconciled()
            .is_some_and(|last| last.spec.job_state() == JobState::Suspended)
}

/// `SessionObserver.observeFlinkCluster`.
fn observe_session(resource: &mut Resource, runtime: &Runtime) -> Result<(), DeploymentFailed> {
    let mut seen = runtime.cluster.iter();
    if !seen.any(|cluster| cluster.available && cluster.reachable) {
        return observe_job_manager(resource, runtime);
    }
    if resource.status.reconciliation_status.state == Reconciliation::Deployed {
        resource.status.mark_stable();
    }
    Ok(())
}

/// `FlinkSessionJobObserver.observeInternal`.
fn observe_session_job(resource: &mut Resource, runtime: &Runtime, now: Timestamp) {
    if is_told_to_be_suspended(resource) {
        return;
    }
    match &runtime.cluster {
        _ if !runtime.session_answers => job_is_unknown(resource),
        Some(cluster) => job_was_seen(resource, cluster, now),
        None => job_was_not_found(resource),
    }
}

/// `JobStatusObserver.onTargetJobNotFound`.
fn job_was_not_found(resource: &mut Resource) {
    let starts_again =
        !resource.status.job_is_terminal() && resource.spec.upgrade_mode() == UpgradeMode::Stateless;
    let status = &mut resource.status;
    if starts_again {
        status.mark_suspended();
    } else {
        status.reconciliation_status.state = Reconciliation::Deployed;
    }
    status.job_status.state = Some(Job::Reconciling);
    status.error = Some(JOB_NOT_FOUND.to_owned());
}

/// The REST API doesn't answer: a job seen running is now of unknown state (`JobStatusObserver.ifRunningMoveToReconciling`).
fn job_is_unknown(resource: &mut Resource) {
    if resource.status.job_is(Job::Running) {
        resource.status.job_status.state = Some(Job::Reconciling);
    }
}

fn is_told_to_be_suspended(resource: &Resource) -> bool {
    let last = resource.status.last_reconciled();
    last.is_none_or(|last| last.spec.job_state() == JobState::Suspended)
}

/// `JobStatusObserver.observe`, then `SnapshotObserver.observeLatestCheckpoint`.
fn observe_job(resource: &mut Resource, runtime: &Runtime, now: Timestamp) {
    if is_told_to_be_suspended(resource) {
        return;
    }
    let Some(cluster) = runtime
        .cluster
        .as_ref()
        .filter(|cluster| cluster.reachable && cluster.available)
    else {
        job_is_unknown(resource);
        if runtime.cluster.is_none() {
            let status = &mut resource.status;
            status.job_manager_deployment_status = JobManager::Missing;
            status.set_error("MissingJobManagerException", "Missing JobManager deployment");
        }
        return;
    };
    job_was_seen(resource, cluster, now);
}

/// `JobStatusObserver.updateJobStatus`.
fn job_was_seen(resource: &mut Resource, cluster: &Seen, now: Timestamp) {
    let status = &mut resource.status;
    let previous = status.job_status.state;
    status.job_status.state = Some(cluster.job);
    status.job_status.job_name = Some(resource.name.clone());
    status.job_status.start_time = cluster.started_at.or(Some(now)).map(millis);
    if previous != Some(cluster.job) {
        status.job_status.update_time = Some(millis(now));
        let cancelled =
            cluster.job == Job::Canceled || (cluster.job.is_terminal() && previous == Some(Job::Cancelling));
        if cancelled {
            status.mark_suspended();
        }
        if let (Job::Failed, Some(error)) = (cluster.job, &cluster.job_error) {
            status.set_error("ReconciliationException", error);
        }
    }
    mark_stable_when_running(resource);
    observe_last_checkpoint(resource, cluster);
}

/// `checkAndUpdateStableSpec`.
fn mark_stable_when_running(resource: &mut Resource) {
    let status = &mut resource.status;
    if status.reconciliation_status.state != Reconciliation::Deployed {
        return;
    }
    let wanted = status.last_reconciled().map(|last| last.spec.job_state());
    if status.job_is(Job::Running) || (status.job_is(Job::Finished) && wanted == Some(JobState::Running)) {
        status.mark_stable();
    }
}

fn observe_last_checkpoint(resource: &mut Resource, cluster: &Seen) {
    let status = &mut resource.status;
    if !status.job_is_terminal() {
        return;
    }
    if cluster.last_checkpoint.is_some() || status.job_is(Job::Canceled) {
        status
            .job_status
            .upgrade_savepoint_path
            .clone_from(&cluster.last_checkpoint);
    }
}

/// `clearErrorsIfDeploymentIsHealthy`.
fn clear_errors(resource: &mut Resource) {
    let status = &mut resource.status;
    let healthy = status.job_manager_deployment_status != JobManager::Error && !status.job_is(Job::Failed);
    if healthy && status.is_stable() {
        status.error = None;
    }
}

fn millis(at: Timestamp) -> String {
    at.as_millisecond().to_string()
}
