//! The operator's loop over one resource: look, validate, decide, carry out, record (`FlinkDeploymentController`).
//!
//! Knows no Kubernetes either: where a status is recorded is given to it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::job::{Restore, Submission};
use super::jobs::{Jobs, Key};
use super::observe::{DeploymentFailed, observe};
use super::reconcile::{Action, Suspend, decide, decide_upgrade};
use super::resource::Resource;
use super::spec::{CHECKPOINT_DIR, JobState, SAVEPOINT_DIR, SAVEPOINT_ON_DELETION, Spec, UpgradeMode};
use super::status::{Job, JobManager, LAST_STATE_MARKER, Reconciliation, Status};
use super::validate::validate;
use crate::member::{Context, Gate};

/// Where the operator records a status (`StatusRecorder`).
pub trait Record {
    /// Writes the status if it differs from what was written last.
    fn record(&mut self, status: &Status) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Told in the status; a person or a change of the spec has to help.
    #[error("{0}")]
    Upgrade(String),
    #[error(transparent)]
    Deployment(#[from] DeploymentFailed),
    /// The API server refused or didn't answer: tried again.
    #[error("the status could not be recorded")]
    Record(#[source] Box<kube::Error>),
}

/// Carries out passes over resources; what it knows of a resource is in the resource.
#[derive(Clone, Debug)]
pub struct Operator {
    pub context: Arc<Context>,
    pub jobs: Jobs,
    /// Closed while the operator's process is frozen.
    pub gate: Gate,
}

impl Operator {
    /// Does one pass; returns when the next is due, `None` when only a change of the object can help.
    pub async fn reconcile(
        &self,
        resource: &mut Resource,
        record: &mut impl Record,
    ) -> Result<Option<Duration>, Failure> {
        let before = resource.status.reconciliation_status.state;
        match self.pass(resource, record).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(Failure::Upgrade(message)) => resource.status.set_error("UpgradeFailureException", &message),
            Err(Failure::Deployment(failed)) => {
                resource.status.job_manager_deployment_status = JobManager::Error;
                resource.status.job_status.state = Some(Job::Reconciling);
                resource
                    .status
                    .set_error("DeploymentFailedException", &failed.to_string());
            }
            Err(failure @ Failure::Record(_)) => return Err(failure),
        }
        resource.status.set_running_condition(self.now());
        self.record(resource, record).await?;
        Ok(Some(self.requeue(&resource.status, before)))
    }

    /// Cleans up behind a resource that is being deleted; afterwards its finalizer can go.
    pub async fn clean_up(&self, resource: &mut Resource) -> Result<(), Failure> {
        let key = key(resource);
        self.gate.open().await;
        if let Err(failed) = observe(resource, &self.jobs.look(&key), self.now()) {
            tracing::debug!(%failed, "observing for clean-up");
        }
        if resource.status.is_before_first_deployment() || resource.status.job_is_terminal() {
            self.jobs.delete(&key, false).await;
            return Ok(());
        }
        let how = if resource.spec.conf().flag(SAVEPOINT_ON_DELETION, false) {
            Suspend::Savepoint
        } else {
            Suspend::Stateless
        };
        self.cancel_job(resource, how).await.map(|_| ())
    }

    /// Returns whether the resource is to be looked at again by itself.
    async fn pass(&self, resource: &mut Resource, record: &mut impl Record) -> Result<bool, Failure> {
        self.gate.open().await;
        let key = key(resource);
        self.look(resource, &key)?;
        if !reset_when_invalid(resource) {
            self.record(resource, record).await?;
            return Ok(false);
        }
        self.record(resource, record).await?;
        let mut action = decide(resource, &self.jobs.look(&key), self.now());
        if action == Action::DeleteNeverStarted {
            resource.status.job_status.state = Some(Job::Failed);
            self.delete_cluster(resource, true).await;
            action = decide_upgrade(resource, &self.jobs.look(&key)).unwrap_or(Action::Wait);
        }
        self.act(action, resource, record).await?;
        Ok(true)
    }

    fn look(&self, resource: &mut Resource, key: &Key) -> Result<(), Failure> {
        let known = resource.status.job_status.upgrade_savepoint_path.clone();
        observe(resource, &self.jobs.look(key), self.now())?;
        match &resource.status.job_status.upgrade_savepoint_path {
            Some(told) if known.as_ref() != Some(told) => self.jobs.told(key, &resource.uid, told),
            _ => {}
        }
        Ok(())
    }

    async fn act(
        &self,
        action: Action,
        resource: &mut Resource,
        record: &mut impl Record,
    ) -> Result<(), Failure> {
        match action {
            Action::Hold | Action::Wait | Action::DeleteNeverStarted => {}
            Action::FirstDeploy => self.deploy_first(resource, record).await?,
            Action::Record => resource.for_deployed_spec(self.now()),
            Action::Redeploy => self.redeploy(resource, record).await?,
            Action::Suspend { how, restore } => self.suspend(resource, record, how, restore).await?,
            Action::Restore => {
                self.restore(resource, record, resource.last_upgrade_mode())
                    .await?;
            }
            Action::CleanUp => self.delete_cluster(resource, true).await,
            Action::Resubmit {
                require_metadata,
                clean_up,
            } => {
                if clean_up {
                    self.delete_cluster(resource, true).await;
                    resource.status.error = None;
                }
                self.resubmit(resource, record, require_metadata).await?;
            }
            Action::Fail(why) => return Err(Failure::Upgrade(why)),
        }
        Ok(())
    }

    /// The first deployment starts from `initialSavepointPath`; its echo in the status is the path's first value.
    async fn deploy_first(&self, resource: &mut Resource, record: &mut impl Record) -> Result<(), Failure> {
        let initial = resource.spec.initial_savepoint().map(str::to_owned);
        let mode = if initial.is_some() {
            UpgradeMode::Savepoint
        } else {
            UpgradeMode::Stateless
        };
        if initial.is_some() {
            resource
                .status
                .job_status
                .upgrade_savepoint_path
                .clone_from(&initial);
        }
        resource.spec.set_upgrade_mode(mode);
        resource.before_deployment_attempt(self.now());
        self.record(resource, record).await?;
        let spec = resource.spec.clone();
        self.deploy(resource, record, &spec, initial, false).await?;
        resource.for_deployed_spec(self.now());
        Ok(())
    }

    async fn redeploy(&self, resource: &mut Resource, record: &mut impl Record) -> Result<(), Failure> {
        self.cancel_job(resource, Suspend::Stateless).await?;
        resource.spec.set_upgrade_mode(UpgradeMode::Savepoint);
        let initial = resource.spec.initial_savepoint().map(str::to_owned);
        resource
            .status
            .job_status
            .upgrade_savepoint_path
            .clone_from(&initial);
        if resource.spec.job_state() == JobState::Running {
            let spec = resource.spec.clone();
            self.deploy(resource, record, &spec, initial, false).await?;
        }
        resource.for_deployed_spec(self.now());
        resource.status.mark_stable();
        Ok(())
    }

    async fn suspend(
        &self,
        resource: &mut Resource,
        record: &mut impl Record,
        how: Suspend,
        restore: UpgradeMode,
    ) -> Result<(), Failure> {
        let pending = self.cancel_job(resource, how).await?;
        if pending {
            resource.status.reconciliation_status.state = Reconciliation::Upgrading;
            resource.status.update_last_reconciled(|last| {
                last.spec.set_upgrade_mode(restore);
                last.first_deployment = false;
            });
            return Ok(());
        }
        resource.spec.set_upgrade_mode(restore);
        if resource.spec.job_state() == JobState::Suspended {
            resource.for_deployed_spec(self.now());
            return Ok(());
        }
        resource.before_deployment_attempt(self.now());
        if how == Suspend::Noop {
            self.restore(resource, record, restore).await?;
        }
        Ok(())
    }

    /// Starts a suspended job the way it was suspended, unless it is to start without state.
    async fn restore(
        &self,
        resource: &mut Resource,
        record: &mut impl Record,
        suspended_by: UpgradeMode,
    ) -> Result<(), Failure> {
        if resource.spec.upgrade_mode() != UpgradeMode::Stateless {
            resource.spec.set_upgrade_mode(suspended_by);
        }
        resource.before_deployment_attempt(self.now());
        self.record(resource, record).await?;
        let spec = resource.spec.clone();
        let savepoint = savepoint_of(&spec, &resource.status);
        self.deploy(
            resource,
            record,
            &spec,
            savepoint,
            suspended_by == UpgradeMode::LastState,
        )
        .await?;
        resource.for_deployed_spec(self.now());
        Ok(())
    }

    async fn resubmit(
        &self,
        resource: &mut Resource,
        record: &mut impl Record,
        require_metadata: bool,
    ) -> Result<(), Failure> {
        let mut spec = resource.status.deployed_spec().unwrap_or_default();
        let known = resource.status.savepoint_for_restore().is_some();
        if require_metadata {
            spec.set_upgrade_mode(UpgradeMode::LastState);
        } else if resource.spec.upgrade_mode() != UpgradeMode::Stateless && known {
            spec.set_upgrade_mode(UpgradeMode::Savepoint);
        }
        let savepoint = savepoint_of(&spec, &resource.status);
        self.deploy(resource, record, &spec, savepoint, require_metadata)
            .await
    }

    /// `ApplicationReconciler.deploy`.
    async fn deploy(
        &self,
        resource: &mut Resource,
        record: &mut impl Record,
        spec: &Spec,
        savepoint: Option<String>,
        require_metadata: bool,
    ) -> Result<(), Failure> {
        let key = key(resource);
        let restore = match savepoint {
            Some(path) => Restore::Savepoint(path),
            None if require_metadata && self.jobs.look(&key).ha_checkpoint => {
                resource.status.job_status.upgrade_savepoint_path = Some(LAST_STATE_MARKER.to_owned());
                Restore::LastState
            }
            None => Restore::Empty,
        };
        if resource.status.job_manager_deployment_status != JobManager::Missing {
            self.delete_cluster(resource, require_metadata).await;
            self.record(resource, record).await?;
        }
        if require_metadata && !self.jobs.look(&key).ha_available {
            return Err(Failure::Upgrade(
                "HA metadata is not available to restore from last state.".to_owned(),
            ));
        }
        if resource.status.job_status.job_id.is_none() || !require_metadata {
            resource.status.job_status.job_id = Some(self.jobs.job_id());
            self.record(resource, record).await?;
        }
        self.gate.open().await;
        let submission = submission(resource, spec, restore);
        self.jobs.submit(&key, submission).map_err(Failure::Upgrade)?;
        resource.status.job_status.state = Some(Job::Reconciling);
        resource.status.job_manager_deployment_status = JobManager::Deploying;
        Ok(())
    }

    /// Brings the job to a halt; returns whether that is still going on (`AbstractFlinkService.cancelJob`).
    async fn cancel_job(&self, resource: &mut Resource, how: Suspend) -> Result<bool, Failure> {
        let (key, asked_at) = (key(resource), self.now());
        match how {
            Suspend::Noop => {}
            Suspend::Savepoint => {
                if !resource.status.job_is(Job::Running) {
                    return Err(Failure::Upgrade(
                        "Savepoint Error: unexpected job status".to_owned(),
                    ));
                }
                let path = self.jobs.stop_with_savepoint(&key).await;
                let path = path.map_err(|why| Failure::Upgrade(format!("Savepoint Error: {why}")))?;
                resource.status.savepoint_taken(&path, asked_at);
            }
            Suspend::Stateless => {
                if resource.status.job_is_cancellable() {
                    self.jobs.cancel(&key);
                }
                self.delete_cluster(resource, false).await;
            }
            Suspend::Cancel => {
                let ended = self
                    .jobs
                    .look(&key)
                    .cluster
                    .is_none_or(|cluster| cluster.job.is_terminal());
                if !ended {
                    self.jobs.cancel(&key);
                    resource.status.job_status.state = Some(Job::Cancelling);
                    return Ok(true);
                }
            }
            Suspend::LastState => self.delete_cluster(resource, true).await,
        }
        resource.status.job_status.state = Some(Job::Finished);
        Ok(false)
    }

    async fn delete_cluster(&self, resource: &mut Resource, keep_metadata: bool) {
        self.jobs.delete(&key(resource), keep_metadata).await;
        resource.status.cluster_deleted();
    }

    async fn record(&self, resource: &mut Resource, record: &mut impl Record) -> Result<(), Failure> {
        self.gate.open().await;
        resource.status.lifecycle_state = Some(resource.status.lifecycle());
        record.record(&resource.status).await
    }

    /// `ReconciliationUtils.toUpdateControl`.
    fn requeue(&self, status: &Status, before: Reconciliation) -> Duration {
        let timings = &self.context.timings;
        let state = status.reconciliation_status.state;
        let started =
            state != before && matches!(state, Reconciliation::Upgrading | Reconciliation::RollingBack);
        if status.job_is(Job::Cancelling) {
            return timings.progress_check;
        }
        if started {
            return Duration::ZERO;
        }
        match status.job_manager_deployment_status {
            JobManager::Deploying => timings.progress_check,
            JobManager::DeployedNotReady => timings.rest_ready,
            JobManager::Ready | JobManager::Missing | JobManager::Error => timings.reconcile_interval,
        }
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }
}

/// Goes on with the last reconciled spec when the new one is invalid; returns whether there is anything to go on with
/// (`applyValidationErrorAndResetSpec`).
fn reset_when_invalid(resource: &mut Resource) -> bool {
    let last = resource.status.last_reconciled().map(|last| last.spec);
    let refused = if resource.spec.has_job() {
        validate(&resource.name, &resource.spec, last.as_ref())
    } else {
        Some("session clusters are not simulated".to_owned())
    };
    let Some(message) = refused else {
        return true;
    };
    resource.status.set_error("ValidationException", &message);
    let Some(mut last) = last else {
        return false;
    };
    let state = resource.status.reconciliation_status.state;
    if matches!(state, Reconciliation::Upgrading | Reconciliation::RollingBack) {
        last.set_job_state(JobState::Running);
    }
    resource.spec = last;
    resource.generation = resource.status.observed_generation.unwrap_or(resource.generation);
    true
}

fn savepoint_of(spec: &Spec, status: &Status) -> Option<String> {
    (spec.upgrade_mode() == UpgradeMode::Savepoint)
        .then(|| status.savepoint_for_restore().map(str::to_owned))
        .flatten()
}

fn submission(resource: &Resource, spec: &Spec, restore: Restore) -> Submission {
    let conf = spec.conf();
    let directory = |key| spec.directory(key, &resource.namespace, &resource.name);
    Submission {
        uid: resource.uid.clone(),
        generation: resource.generation,
        job_id: resource.status.job_status.job_id.clone().unwrap_or_default(),
        image: spec.image().to_owned(),
        restore,
        handle_given: spec.initial_savepoint().map(str::to_owned),
        high_availability: conf.high_availability(),
        checkpoint_dir: directory(CHECKPOINT_DIR),
        savepoint_dir: directory(SAVEPOINT_DIR),
        task_managers: spec.task_managers(),
    }
}

fn key(resource: &Resource) -> Key {
    (resource.namespace.clone(), resource.name.clone())
}
