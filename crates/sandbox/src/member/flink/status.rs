//! The status of a `FlinkDeployment` or a `FlinkSessionJob` and its transitions (`CommonStatus`, `FlinkDeploymentStatus`,
//! `FlinkSessionJobStatus`, `ReconciliationStatus`, `ReconciliationUtils`). Nulls are left out, as an API server prunes them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::resource::{Kind, Resource};
use super::spec::{JobState, Spec, UpgradeMode};

/// What stands in `upgradeSavepointPath` when a job was restored from its own cluster's HA metadata.
pub const LAST_STATE_MARKER: &str = "KUBERNETES_OPERATOR_LAST_STATE";

/// The error of a session job that its cluster doesn't have (`JobStatusObserver.JOB_NOT_FOUND_ERR`).
pub const JOB_NOT_FOUND: &str = "Job Not Found";

/// What only the status of a `FlinkDeployment` has.
const OF_DEPLOYMENTS: [&str; 2] = ["clusterInfo", "jobManagerDeploymentStatus"];

const API_VERSION: &str = "flink.apache.org/v1beta1";

/// `status.jobManagerDeploymentStatus`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobManager {
    Ready,
    DeployedNotReady,
    Deploying,
    #[default]
    Missing,
    Error,
}

/// `status.jobStatus.state`: the job as it was last seen, Flink's own states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Job {
    Initializing,
    Created,
    Running,
    Failing,
    Failed,
    Cancelling,
    Canceled,
    Finished,
    Restarting,
    Suspended,
    Reconciling,
}

impl Job {
    /// Returns whether no job comes back from this state.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Canceled | Self::Finished)
    }

    fn name(self) -> String {
        serde_json::to_value(self)
            .ok()
            .and_then(|name| name.as_str().map(str::to_owned))
            .unwrap_or_default()
    }
}

/// `status.reconciliationStatus.state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reconciliation {
    Deployed,
    #[default]
    Upgrading,
    RollingBack,
    RolledBack,
}

/// `status.lifecycleState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Lifecycle {
    Created,
    Suspended,
    Upgrading,
    Deployed,
    Stable,
    RollingBack,
    RolledBack,
    Failed,
    Deleting,
    Deleted,
}

/// `status.jobStatus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Job>,
    /// Milliseconds since 1970, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_savepoint_path: Option<String>,
    pub savepoint_info: SavepointInfo,
}

/// `status.jobStatus.savepointInfo`: deprecated in favour of snapshot resources, still written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SavepointInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_savepoint: Option<LastSavepoint>,
    pub savepoint_history: Vec<LastSavepoint>,
    pub last_periodic_savepoint_timestamp: i64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastSavepoint {
    pub time_stamp: i64,
    pub location: String,
    pub trigger_type: String,
    pub format_type: String,
}

/// `status.reconciliationStatus`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReconciliationStatus {
    pub reconciliation_timestamp: i64,
    /// JSON text: `{"spec": …, "resource_metadata": …}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_reconciled_spec: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_stable_spec: Option<String>,
    pub state: Reconciliation,
}

/// `status.taskManager`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManagerInfo {
    pub label_selector: String,
    pub replicas: u32,
}

/// `status.conditions[]`; the only type is `Running`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    pub r#type: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub last_transition_time: Timestamp,
}

#[allow(clippy::struct_field_names, reason = "the names are those of the API")]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    pub cluster_info: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// JSON text of the last exception.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub job_manager_deployment_status: JobManager,
    pub job_status: JobStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle_state: Option<Lifecycle>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub reconciliation_status: ReconciliationStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_manager: Option<TaskManagerInfo>,
}

/// A recorded spec and the operator's note about it (`SpecWithMeta`, `ReconciliationMetadata`).
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub spec: Spec,
    pub first_deployment: bool,
}

impl Recorded {
    pub fn read(text: &str) -> Option<Self> {
        let wrapper: Value = serde_json::from_str(text).ok()?;
        Some(Self {
            spec: Spec::new(wrapper.get("spec")?),
            first_deployment: wrapper.pointer("/resource_metadata/firstDeployment")
                == Some(&Value::Bool(true)),
        })
    }

    pub fn text(&self) -> String {
        json!({
            "spec": self.spec.value(),
            "resource_metadata": {"apiVersion": API_VERSION, "firstDeployment": self.first_deployment},
        })
        .to_string()
    }
}

impl Status {
    /// Returns the status as an object of that kind shows it.
    pub fn shown(&self, kind: Kind) -> Value {
        let mut shown = serde_json::to_value(self).unwrap_or(Value::Null);
        if let (Kind::SessionJob, Some(fields)) = (kind, shown.as_object_mut()) {
            fields.retain(|field, _| !OF_DEPLOYMENTS.contains(&field.as_str()));
        }
        shown
    }

    pub fn is_before_first_deployment(&self) -> bool {
        self.reconciliation_status.last_reconciled_spec.is_none()
    }

    pub fn last_reconciled(&self) -> Option<Recorded> {
        self.reconciliation_status
            .last_reconciled_spec
            .as_deref()
            .and_then(Recorded::read)
    }

    pub fn last_stable(&self) -> Option<Recorded> {
        self.reconciliation_status
            .last_stable_spec
            .as_deref()
            .and_then(Recorded::read)
    }

    /// Returns the spec that runs (`ReconciliationUtils.getDeployedSpec`).
    pub fn deployed_spec(&self) -> Option<Spec> {
        let recorded = match self.reconciliation_status.state {
            Reconciliation::RolledBack => self.last_stable(),
            _ => self.last_reconciled(),
        };
        recorded.map(|recorded| recorded.spec)
    }

    pub fn is_stable(&self) -> bool {
        let status = &self.reconciliation_status;
        status.last_reconciled_spec.is_some() && status.last_reconciled_spec == status.last_stable_spec
    }

    pub fn mark_stable(&mut self) {
        self.reconciliation_status.last_stable_spec = self.reconciliation_status.last_reconciled_spec.clone();
    }

    pub fn job_is(&self, state: Job) -> bool {
        self.job_status.state == Some(state)
    }

    pub fn job_is_terminal(&self) -> bool {
        self.job_status.state.is_some_and(Job::is_terminal)
    }

    /// Returns whether the job was seen, and has not ended.
    pub fn job_is_live(&self) -> bool {
        self.job_status
            .state
            .is_some_and(|state| state != Job::Reconciling && !state.is_terminal())
    }

    pub fn manager_is_ready(&self) -> bool {
        self.job_manager_deployment_status == JobManager::Ready
    }

    /// `JobStatusObserver.markSuspended`.
    pub fn mark_suspended(&mut self) {
        self.update_last_reconciled(|last| {
            last.spec.set_job_state(JobState::Suspended);
            last.first_deployment = false;
        });
    }

    /// Returns the path that a restore would use (`AbstractJobReconciler.restoreJob`).
    pub fn savepoint_for_restore(&self) -> Option<&str> {
        let job = &self.job_status;
        let last = job
            .savepoint_info
            .last_savepoint
            .as_ref()
            .map(|savepoint| savepoint.location.as_str());
        job.upgrade_savepoint_path.as_deref().or(last)
    }

    /// Changes the recorded spec in place, keeping its note about the first deployment unless it is changed too.
    pub fn update_last_reconciled(&mut self, change: impl FnOnce(&mut Recorded)) {
        if let Some(mut recorded) = self.last_reconciled() {
            change(&mut recorded);
            self.reconciliation_status.last_reconciled_spec = Some(recorded.text());
        }
    }

    /// `FlinkResourceExceptionUtils`: errors are JSON text.
    pub fn set_error(&mut self, exception: &str, message: &str) {
        let class = format!("org.apache.flink.kubernetes.operator.exception.{exception}");
        let error = json!({"type": class, "message": message, "additionalMetadata": {}, "throwableList": []});
        self.error = Some(error.to_string());
    }

    /// `AbstractFlinkService.updateStatusAfterClusterDeletion`.
    pub fn cluster_deleted(&mut self) {
        self.job_manager_deployment_status = JobManager::Missing;
        if !self.job_is_terminal() {
            self.job_status.state = Some(Job::Finished);
        }
    }

    /// `AbstractJobReconciler.setUpgradeSavepointPath`.
    pub fn savepoint_taken(&mut self, location: &str, at: Timestamp) {
        let savepoint = LastSavepoint {
            time_stamp: at.as_millisecond(),
            location: location.to_owned(),
            trigger_type: "UPGRADE".to_owned(),
            format_type: "CANONICAL".to_owned(),
        };
        self.job_status.upgrade_savepoint_path = Some(location.to_owned());
        let info = &mut self.job_status.savepoint_info;
        info.savepoint_history.push(savepoint.clone());
        info.last_savepoint = Some(savepoint);
    }

    /// `FlinkDeploymentStatus.setRunningConditionIfRequired`.
    pub fn set_running_condition(&mut self, now: Timestamp) {
        let Some(state) = self
            .job_status
            .state
            .filter(|_| !self.is_before_first_deployment())
        else {
            self.conditions.clear();
            return;
        };
        let status = if state == Job::Running { "True" } else { "False" };
        let name = state.name();
        let reason =
            name.get(..1).unwrap_or_default().to_owned() + &name.get(1..).unwrap_or_default().to_lowercase();
        let since = self
            .conditions
            .first()
            .filter(|condition| condition.status == status);
        let last_transition_time = since.map_or(now, |condition| condition.last_transition_time);
        self.conditions = vec![Condition {
            r#type: "Running".to_owned(),
            status: status.to_owned(),
            reason,
            message: format!("Job status {name}"),
            last_transition_time,
        }];
    }

    /// Returns the lifecycle that the rest of the status adds up to (`CommonStatus.getLifecycleState`).
    pub fn lifecycle(&self) -> Lifecycle {
        if let Some(end @ (Lifecycle::Deleting | Lifecycle::Deleted)) = self.lifecycle_state {
            return end;
        }
        let Some(last) = self.last_reconciled() else {
            return if self.error.is_none() {
                Lifecycle::Created
            } else {
                Lifecycle::Failed
            };
        };
        match self.reconciliation_status.state {
            Reconciliation::Upgrading => return Lifecycle::Upgrading,
            Reconciliation::RollingBack => return Lifecycle::RollingBack,
            Reconciliation::Deployed | Reconciliation::RolledBack => {}
        }
        if last.spec.job_state() == JobState::Suspended {
            return Lifecycle::Suspended;
        }
        let irrecoverable = matches!(
            self.job_manager_deployment_status,
            JobManager::Missing | JobManager::Error
        ) && self.error.as_deref().is_some_and(is_final);
        if self.job_is(Job::Failed) || irrecoverable {
            return Lifecycle::Failed;
        }
        match (self.reconciliation_status.state, self.is_stable()) {
            (Reconciliation::RolledBack, _) => Lifecycle::RolledBack,
            (_, true) => Lifecycle::Stable,
            (_, false) => Lifecycle::Deployed,
        }
    }
}

fn is_final(error: &str) -> bool {
    ["Manual restore required.", "HA metadata is not available"]
        .iter()
        .any(|message| error.contains(message))
}

impl Resource {
    /// Records the spec as the one about to be deployed: suspended, `UPGRADING`
    /// (`updateStatusBeforeDeploymentAttempt`).
    pub fn before_deployment_attempt(&mut self, now: Timestamp) {
        self.record_spec(JobState::Suspended, true, now);
    }

    /// Records the spec as deployed, or as suspended when it says so (`updateStatusForDeployedSpec`).
    pub fn for_deployed_spec(&mut self, now: Timestamp) {
        self.record_spec(self.spec.job_state(), false, now);
    }

    /// Refreshes the note beside the recorded spec and the observed generation; nothing else changed
    /// (`updateReconciliationMetadata`).
    pub fn update_metadata(&mut self) {
        let first = self.is_first_deployment();
        self.status
            .update_last_reconciled(|recorded| recorded.first_deployment = first);
        self.status.observed_generation = Some(self.generation);
    }

    fn record_spec(&mut self, job_state: JobState, upgrading: bool, now: Timestamp) {
        use Reconciliation::{Deployed, RolledBack, RollingBack, Upgrading};
        self.status.error = None;
        self.status.reconciliation_status.reconciliation_timestamp = now.as_millisecond();
        let state = match (self.status.reconciliation_status.state, upgrading) {
            (RollingBack, true) => RollingBack,
            (RollingBack, false) => RolledBack,
            (_, true) => Upgrading,
            (_, false) => Deployed,
        };
        self.status.reconciliation_status.state = state;
        if matches!(state, RollingBack | RolledBack) {
            let mode = self.spec.upgrade_mode();
            self.status
                .update_last_reconciled(|recorded| recorded.spec.set_upgrade_mode(mode));
            return;
        }
        let first_deployment = self.is_first_deployment();
        let mut spec = self.spec.clone();
        spec.set_job_state(job_state);
        if self.kind == Kind::Deployment && spec.has_job() {
            self.status.task_manager = Some(self.task_manager_info(&spec));
        }
        self.status.reconciliation_status.last_reconciled_spec = Some(
            Recorded {
                spec,
                first_deployment,
            }
            .text(),
        );
        self.status.observed_generation = Some(self.generation);
        if self.spec.job_state() == JobState::Suspended {
            self.status.mark_stable();
        }
    }

    fn task_manager_info(&self, spec: &Spec) -> TaskManagerInfo {
        match spec.job_state() {
            JobState::Running => TaskManagerInfo {
                label_selector: format!("component=taskmanager,app={}", self.name),
                replicas: spec.task_managers(),
            },
            JobState::Suspended => TaskManagerInfo::default(),
        }
    }

    /// `ReconciliationMetadata.from`. The state is already the new one here, as it is there.
    fn is_first_deployment(&self) -> bool {
        match self.status.last_reconciled() {
            None => true,
            Some(last) => {
                self.status.reconciliation_status.state == Reconciliation::Deployed && last.first_deployment
            }
        }
    }

    /// Returns the mode in which the last suspension was made, as `lastReconciledSpec` tells.
    pub fn last_upgrade_mode(&self) -> UpgradeMode {
        self.status
            .last_reconciled()
            .map_or(UpgradeMode::Stateless, |last| last.spec.upgrade_mode())
    }
}
