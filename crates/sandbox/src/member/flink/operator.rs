//! The operator's loop over one resource: look, validate, decide, carry out, record (`FlinkDeploymentController`,
//! `FlinkSessionJobController`).
//!
//! Knows no Kubernetes either: where a status is recorded is given to it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::job::{Form, Restore, Submission};
use super::jobs::{Jobs, Key, Runtime};
use super::observe::{DeploymentFailed, observe};
use super::reconcile::{Action, Suspend, decide, decide_upgrade};
use super::resource::Resource;
use super::spec::{CHECKPOINT_DIR, JobState, SAVEPOINT_DIR, SAVEPOINT_ON_DELETION, Spec, UpgradeMode};
use super::status::{JOB_NOT_FOUND, Job, JobManager, LAST_STATE_MARKER, Reconciliation, Recorded, Status};
use super::validate::{validate, validate_session_job};
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
    /// Told in the status, and tried again; of session jobs.
    #[error("{0}")]
    Session(String),
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
            Err(Failure::Session(message)) => resource.status.set_error("ReconciliationException", &message),
            Err(Failure::Deployment(failed)) => {
                resource.status.job_manager_deployment_status = JobManager::Error;
                resource.status.job_status.state = Some(Job::Reconciling);
                resource
                    .status
                    .set_error("DeploymentFailedException", &failed.to_string());
            }
            Err(failure @ Failure::Record(_)) => return Err(failure),
        }
        if !resource.is_session_job() {
            resource.status.set_running_condition(self.now());
        }
        self.record(resource, record).await?;
        Ok(Some(self.requeue(&resource.status, before)))
    }

    /// Cleans up behind a resource that is being deleted; returns whether its finalizer can go.
    pub async fn clean_up(&self, resource: &mut Resource) -> Result<bool, Failure> {
        self.gate.open().await;
        let seen = self.see(resource);
        if let Err(failed) = observe(resource, &seen, self.now()) {
            tracing::debug!(%failed, "observing for clean-up");
        }
        if resource.is_session_job() {
            return Ok(self.clean_up_session_job(resource).await);
        }
        let status = &resource.status;
        let has_no_job = resource.is_session_cluster() || status.job_is_terminal();
        if has_no_job || status.is_before_first_deployment() {
            self.jobs.delete(&key(resource), false).await;
            return Ok(true);
        }
        let how = how_on_deletion(resource);
        self.cancel_job(resource, how).await.map(|_| true)
    }

    /// `SessionJobReconciler.cleanupInternal`.
    async fn clean_up_session_job(&self, resource: &mut Resource) -> bool {
        let status = &resource.status;
        let was_stopped = |last: Recorded| last.spec.job_state() == JobState::Suspended;
        let does_not_run = status.last_reconciled().is_none_or(was_stopped)
            || status.job_is_terminal()
            || status.job_status.job_id.is_none()
            || status.error.as_deref() == Some(JOB_NOT_FOUND);
        if does_not_run || resource.session.is_none() {
            return true;
        }
        if !resource.session_is_ready() {
            // Without high availability the job doesn't survive that.
            return !resource.conf().high_availability();
        }
        if status.job_is(Job::Cancelling) {
            return false;
        }
        let how = how_on_deletion(resource);
        match self.cancel_job(resource, how).await {
            Ok(is_pending) => !is_pending,
            Err(failure) => {
                tracing::debug!(%failure, "cancelling for clean-up");
                false
            }
        }
    }

    /// Returns whether the resource is to be looked at again by itself.
    async fn pass(&self, resource: &mut Resource, record: &mut impl Record) -> Result<bool, Failure> {
        self.gate.open().await;
        self.look(resource)?;
        if !reset_when_invalid(resource) {
            self.record(resource, record).await?;
            return Ok(false);
        }
        self.record(resource, record).await?;
        if resource.is_session_job() && !resource.session_is_ready() {
            return Ok(true);
        }
        let seen = self.see(resource);
        let mut action = decide(resource, &seen, self.now());
        if action == Action::DeleteNeverStarted {
            resource.status.job_status.state = Some(Job::Failed);
            self.delete_cluster(resource, true).await;
            let seen = self.see(resource);
            action = decide_upgrade(resource, &seen).unwrap_or(Action::Wait);
        }
        self.act(action, resource, record).await?;
        Ok(true)
    }

    fn look(&self, resource: &mut Resource) -> Result<(), Failure> {
        let known = resource.status.job_status.upgrade_savepoint_path.clone();
        let seen = self.see(resource);
        observe(resource, &seen, self.now())?;
        match &resource.status.job_status.upgrade_savepoint_path {
            Some(told) if known.as_ref() != Some(told) => {
                self.jobs_of(resource).told(&key(resource), &resource.uid, told);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns what is seen of the runtime. Of a session job that is the job with its id, and nothing while its cluster doesn't answer.
    fn see(&self, resource: &Resource) -> Runtime {
        let seen = self.jobs_of(resource).look(&key(resource));
        if !resource.is_session_job() {
            return seen;
        }
        let session_answers = self.session_answers(resource);
        let id = resource.status.job_status.job_id.as_ref();
        let job = seen
            .cluster
            .filter(|job| session_answers && Some(&job.job_id) == id);
        Runtime {
            cluster: job,
            session_answers,
            ..Runtime::default()
        }
    }

    fn session_answers(&self, resource: &Resource) -> bool {
        let session = self.jobs.look(&resource.session_key()).cluster;
        session.is_some_and(|session| session.available && session.reachable)
    }

    fn jobs_of(&self, resource: &Resource) -> &Jobs {
        self.jobs.of_kind(resource.kind)
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
            Action::ReplaceSession => self.replace_session(resource, record).await?,
            Action::RecoverSession => self.deploy_session(resource).await?,
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
                    if !resource.is_session_job() {
                        self.delete_cluster(resource, true).await;
                    }
                    resource.status.error = None;
                }
                self.resubmit(resource, record, require_metadata).await?;
            }
            Action::Fail(why) => return Err(Failure::Upgrade(why)),
        }
        Ok(())
    }

    /// `SessionReconciler.reconcileSpecChange`.
    async fn replace_session(
        &self,
        resource: &mut Resource,
        record: &mut impl Record,
    ) -> Result<(), Failure> {
        self.delete_cluster(resource, false).await;
        resource.before_deployment_attempt(self.now());
        self.record(resource, record).await?;
        self.deploy_session(resource).await?;
        resource.for_deployed_spec(self.now());
        Ok(())
    }

    async fn deploy_session(&self, resource: &mut Resource) -> Result<(), Failure> {
        self.gate.open().await;
        let submission = submission(resource, &resource.spec, Restore::Empty);
        let submitted = self.jobs.submit(&key(resource), submission);
        submitted.map_err(Failure::Upgrade)?;
        resource.status.job_manager_deployment_status = JobManager::Deploying;
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
        if resource.is_session_job() {
            return self.submit_to_session(resource, record, spec, savepoint).await;
        }
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

    /// `SessionJobReconciler.deploy`.
    async fn submit_to_session(
        &self,
        resource: &mut Resource,
        record: &mut impl Record,
        spec: &Spec,
        savepoint: Option<String>,
    ) -> Result<(), Failure> {
        let has_id = resource.status.job_status.job_id.is_some();
        // One whose submission failed is submitted again.
        if !(has_id && resource.status.job_is(Job::Reconciling)) {
            let id = self.jobs_of(resource).job_id();
            resource.status.job_status.job_id = Some(id);
            resource.status.job_status.state = Some(Job::Reconciling);
            self.record(resource, record).await?;
        }
        self.gate.open().await;
        if !self.session_answers(resource) {
            return Err(Failure::Session("the session cluster does not answer".to_owned()));
        }
        let restore = savepoint.map_or(Restore::Empty, Restore::Savepoint);
        let submission = submission(resource, spec, restore);
        let submitted = self.jobs_of(resource).submit(&key(resource), submission);
        submitted.map_err(Failure::Session)
    }

    /// Brings the job to a halt; returns whether that is still going on (`AbstractFlinkService.cancelJob`).
    async fn cancel_job(&self, resource: &mut Resource, how: Suspend) -> Result<bool, Failure> {
        if resource.is_session_job() {
            return self.cancel_session_job(resource, how).await;
        }
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
                if resource.job_is_cancellable() {
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

    /// `AbstractFlinkService.cancelSessionJob`.
    async fn cancel_session_job(&self, resource: &mut Resource, how: Suspend) -> Result<bool, Failure> {
        let (key, asked_at) = (key(resource), self.now());
        match how {
            Suspend::Savepoint => {
                if !resource.status.job_is(Job::Running) || !self.session_answers(resource) {
                    return Err(Failure::Session("Savepoint Error".to_owned()));
                }
                let path = self.jobs_of(resource).stop_with_savepoint(&key).await;
                let path = path.map_err(|why| Failure::Session(format!("Savepoint Error: {why}")))?;
                resource.status.savepoint_taken(&path, asked_at);
            }
            Suspend::Stateless | Suspend::Cancel => {
                if !self.is_cancelled(resource, how == Suspend::Stateless)? {
                    resource.status.job_status.state = Some(Job::Cancelling);
                    return Ok(true);
                }
            }
            // A session job is never left to the metadata of its cluster.
            Suspend::Noop | Suspend::LastState => {}
        }
        resource.status.job_status.state = Some(Job::Finished);
        resource.status.job_status.job_id = None;
        Ok(false)
    }

    /// Begins to cancel a session job; returns whether there is nothing to wait for (`AbstractFlinkService.cancelJobOrError`).
    fn is_cancelled(&self, resource: &Resource, ignores_missing: bool) -> Result<bool, Failure> {
        let job = &resource.status.job_status;
        let no_id = || Failure::Session(r#"Cannot parse JobID from "null"."#.to_owned());
        let id = job.job_id.as_ref().ok_or_else(no_id)?;
        if resource.status.job_is(Job::Cancelling) {
            return Ok(false);
        }
        let (jobs, key) = (self.jobs_of(resource), key(resource));
        match self.see(resource) {
            seen if !seen.session_answers => Err(Failure::Session("Cancellation Error".to_owned())),
            Runtime {
                cluster: Some(job), ..
            } if job.job.is_terminal() => Ok(true),
            Runtime { cluster: Some(_), .. } => {
                jobs.cancel(&key);
                Ok(false)
            }
            _ if ignores_missing => Ok(true),
            _ => Err(Failure::Session(format!(
                "Cannot find job {id} when trying to cancel"
            ))),
        }
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
    let refused = if resource.is_session_job() {
        let session = resource.session.as_ref().map(|session| &session.spec);
        validate_session_job(&resource.spec, last.as_ref(), session)
    } else {
        validate(&resource.name, &resource.spec, last.as_ref())
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
    let form = if resource.is_session_job() {
        Form::InSession(resource.spec.deployment_name().to_owned())
    } else if spec.has_job() {
        Form::Application
    } else {
        Form::Session
    };
    let effective = resource.effective(spec);
    let spec = &*effective;
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
        task_managers: if form == Form::Application {
            spec.task_managers()
        } else {
            0
        },
        form,
    }
}

fn how_on_deletion(resource: &Resource) -> Suspend {
    if resource.conf().flag(SAVEPOINT_ON_DELETION, false) {
        Suspend::Savepoint
    } else {
        Suspend::Stateless
    }
}

fn key(resource: &Resource) -> Key {
    (resource.namespace.clone(), resource.name.clone())
}
